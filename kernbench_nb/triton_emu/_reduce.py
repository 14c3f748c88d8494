"""Reductions, softmax, running sums and matrix products."""

from __future__ import annotations

from sys import _getframe
from typing import Any

from kernbench_nb.dtypes import resolve_dtype
from kernbench_nb.triton_emu._elementwise import Elementwise
from kernbench_nb.triton_emu.handles import Handle

__all__ = ["Reductions"]


class Reductions(Elementwise):
    """Operations that combine elements.

    Notes
    -----
    A reduction costs ``fill + ceil(n / lanes) + ceil(log2(lanes))`` cycles of the math engine for n input elements, a
    product ``ceil(M/m) * ceil(N/n) * ceil(K/k)`` times the batch plus the depth of the GEMM engine (machine.md 2, 3).
    """

    __slots__ = ()

    def _reduce(
        self, op: str, x: Handle, axis: int | None, keep_dims: bool, out: Handle | None, name: str | None
    ) -> Handle:
        frame = self._enter(_getframe(2))
        self._own(x, op)
        kind = self._kinds.reduction(
            op, x.ty, axis, keep_dims, None if out is None else self._own(out, "out=").ty
        )
        return self._apply(kind, (x,), out, name, frame, elementwise=False)

    def max(
        self, input: Handle, axis: int | None = None, keep_dims: bool = False, *, out: Handle | None = None,  # noqa: A002
        name: str | None = None,
    ) -> Handle:  # fmt: skip
        """Largest element along `axis` (over all with None), in the dtype of the input; NaN propagates."""
        return self._reduce("max", input, axis, keep_dims, out, name)

    def min(
        self, input: Handle, axis: int | None = None, keep_dims: bool = False, *, out: Handle | None = None,  # noqa: A002
        name: str | None = None,
    ) -> Handle:  # fmt: skip
        """Smallest element along `axis` (over all with None), in the dtype of the input; NaN propagates."""
        return self._reduce("min", input, axis, keep_dims, out, name)

    def sum(
        self, input: Handle, axis: int | None = None, keep_dims: bool = False, *, out: Handle | None = None,  # noqa: A002
        name: str | None = None,
    ) -> Handle:  # fmt: skip
        """Sum along `axis` (over all with None), in the dtype of the input.

        16- and 8-bit floats accumulate in f32 and are rounded once; bool, i8 and i16 give i32.
        """
        return self._reduce("sum", input, axis, keep_dims, out, name)

    def xor_sum(
        self, input: Handle, axis: int | None = None, keep_dims: bool = False, *, out: Handle | None = None,  # noqa: A002
        name: str | None = None,
    ) -> Handle:  # fmt: skip
        """Exclusive or along `axis` (over all with None), of integers."""
        return self._reduce("xor_sum", input, axis, keep_dims, out, name)

    def argmax(
        self, input: Handle, axis: int | None = None, keep_dims: bool = False, *, out: Handle | None = None,  # noqa: A002
        name: str | None = None,
    ) -> Handle:  # fmt: skip
        """Index (i32) of the largest element along `axis`; the first of several."""
        return self._reduce("argmax", input, axis, keep_dims, out, name)

    def argmin(
        self, input: Handle, axis: int | None = None, keep_dims: bool = False, *, out: Handle | None = None,  # noqa: A002
        name: str | None = None,
    ) -> Handle:  # fmt: skip
        """Index (i32) of the smallest element along `axis`; the first of several."""
        return self._reduce("argmin", input, axis, keep_dims, out, name)

    def softmax(
        self, x: Handle, dim: int = -1, *, out: Handle | None = None, name: str | None = None
    ) -> Handle:
        """exp(x - max) / sum along `dim`, in the dtype of x; narrow floats compute in f32.

        One row in the log; its cost is that of its parts (max, sub, exp, sum, div) with one fill, its scratch is that
        of its result only.
        """
        frame = self._enter(_getframe(1))
        self._own(x, "softmax")
        kind = self._kinds.along("softmax", x.ty, dim, None if out is None else self._own(out, "out=").ty)
        return self._apply(kind, (x,), out, name, frame)

    def cumsum(
        self, input: Handle, axis: int = 0, *, out: Handle | None = None, name: str | None = None
    ) -> Handle:  # noqa: A002
        """Running sum along `axis`; narrow floats accumulate in f32."""
        frame = self._enter(_getframe(1))
        self._own(input, "cumsum")
        kind = self._kinds.along("cumsum", input.ty, axis, None if out is None else self._own(out, "out=").ty)
        return self._apply(kind, (input,), out, name, frame)

    def dot(
        self,
        input: Handle,  # noqa: A002
        other: Handle,
        acc: Handle | None = None,
        out_dtype: Any = None,
        *,
        out: Handle | None = None,
        name: str | None = None,
    ) -> Handle:
        """Matrix product, batched over leading dimensions, plus `acc` if given.

        Parameters
        ----------
        input, other
            ``(..., m, k)`` and ``(..., k, n)``, with equal leading dimensions; strided views are read as they are.
        acc
            ``(..., m, n)``, added to the product.
        out_dtype
            f32 by default (f64 for f64, i32 for integers). 16- and 8-bit inputs accumulate in f32.
        out
            Written instead of allocating; must not share bytes with an operand, but may be exactly `acc`.
        name
            What views call the result.

        Raises
        ------
        ShapeError, DTypeError
            If ranks, inner or batch dimensions, or dtypes do not go together; both operands are named.
        """
        frame = self._enter(_getframe(1))
        self._own(input, "dot: input")
        self._own(other, "dot: other")
        kind = self._kinds.dot(
            input.ty,
            other.ty,
            None if acc is None else self._own(acc, "dot: acc").ty,
            None if out_dtype is None else resolve_dtype(out_dtype),
            None if out is None else self._own(out, "out=").ty,
        )
        if acc is None:
            return self._apply(kind, (input, other), out, name, frame, elementwise=False)
        if out is not None:
            self._inspect_target(out, (input, other), False)
        return self._apply(kind, (input, other, acc), out, name, frame)
