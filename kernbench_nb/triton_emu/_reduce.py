"""Reductions, softmax, running sums and matrix products."""

from __future__ import annotations

from sys import _getframe
from typing import Any, Protocol

from kernbench_nb.dtypes import resolve_dtype
from kernbench_nb.triton_emu._core import Core
from kernbench_nb.triton_emu._elementwise import Elementwise
from kernbench_nb.triton_emu.handles import Handle
from kernbench_nb.triton_emu.kinds import REDUCTIONS

__all__ = ["Reductions"]


class ReductionOp(Protocol):
    """The signature of a reduction."""

    def __call__(
        self,
        input: Handle,
        axis: int | None = None,
        keep_dims: bool = False,
        *,
        initial: float | None = None,
        out: Handle | None = None,
        name: str | None = None,
    ) -> Handle:
        """Compute it."""


def _reduction(op: str, what: str, note: str) -> Any:
    at = REDUCTIONS.index(op)

    def operation(
        self: Core,
        input: Handle,
        axis: int | None = None,
        keep_dims: bool = False,
        *,
        initial: float | None = None,
        out: Handle | None = None,
        name: str | None = None,
    ) -> Handle:
        frame = _getframe(1)
        if frame is not self._frame:
            frame = self._enter(frame)
        if input.__class__ is not Handle or input.tl is not self:
            self._own(input, op)
        if out is None:
            key = axis if initial is None else (axis, initial)
            try:
                kind = self._reductions[at][input.ty][keep_dims][key]
            except (KeyError, TypeError):
                kind = None
            if kind is None:
                kind = self._kinds.reduction(op, input.ty, axis, keep_dims, None, initial)
                self._reductions[at].setdefault(input.ty, {}).setdefault(keep_dims, {})[key] = kind
        else:
            kind = self._kinds.reduction(op, input.ty, axis, keep_dims, self._own(out, "out=").ty, initial)
            if input.arena.guard:
                self._inspect(input)
            self._inspect_target(out, (input,), False)
            self._wrote(out)
        return self._run1(kind, input, out, name, frame)

    operation.__name__ = operation.__qualname__ = op
    operation.__doc__ = f"""{what} along an axis, {note}.

        Parameters
        ----------
        input
            A tile of this PE.
        axis
            Which axis; None reduces all.
        keep_dims
            Keep the reduced axis with extent 1.
        initial
            What max and min start from, so that they are not below (above) it and have a value over nothing. An
            extension; it costs nothing, an accumulator starts somewhere anyway.
        out, name
            As everywhere; `out` must not share bytes with the input.

        Notes
        -----
        Math engine: ``fill + ceil(n / lanes) + ceil(log2(lanes))`` cycles for n input elements (`topology/costs.py`).

        Raises
        ------
        ShapeError
            For an axis that is not there, or a maximum over nothing.
        """
    return operation


class Reductions(Elementwise):
    """Operations that combine elements.

    Notes
    -----
    A reduction costs ``fill + ceil(n / lanes) + ceil(log2(lanes))`` cycles of the math engine for n input elements, a
    product ``ceil(M/m) * ceil(N/n) * ceil(K/k)`` times the batch plus the depth of the GEMM engine.
    """

    __slots__ = ()

    max: ReductionOp = _reduction("max", "Largest element", "in the dtype of the input; NaN propagates")
    min: ReductionOp = _reduction("min", "Smallest element", "in the dtype of the input; NaN propagates")
    sum: ReductionOp = _reduction(
        "sum",
        "Sum",
        "in the dtype of the input (bool, i8 and i16 give i32); 16- and 8-bit floats accumulate in f32 and round once",
    )
    xor_sum: ReductionOp = _reduction("xor_sum", "Exclusive or", "of integers, in their dtype")
    argmax: ReductionOp = _reduction("argmax", "Index of the largest element", "i32; the first of several")
    argmin: ReductionOp = _reduction("argmin", "Index of the smallest element", "i32; the first of several")

    def softmax(
        self, x: Handle, dim: int = -1, *, out: Handle | None = None, name: str | None = None
    ) -> Handle:
        """exp(x - max) / sum along `dim`, in the dtype of x; narrow floats compute in f32.

        One row in the log; its cost is that of its parts (max, sub, exp, sum, div) with one fill, its scratch is that
        of its result only. A row of nothing but -inf gives NaN, as everywhere. ``out=`` must not be x.

        Raises
        ------
        ShapeError, DTypeError
            For an axis that is not there, or a tile of integers.
        """
        frame = self._enter(_getframe(1))
        self._own(x, "softmax")
        kind = self._kinds.along("softmax", x.ty, dim, None if out is None else self._own(out, "out=").ty)
        return self._apply(kind, (x,), out, name, frame, elementwise=False)

    def cumsum(
        self,
        input: Handle,
        axis: int = 0,
        *,
        out: Handle | None = None,
        name: str | None = None,
    ) -> Handle:
        """Running sum along `axis`, in the shape of the input and the dtype that `sum` would give.

        Narrow floats accumulate in f32 and round once. Costs what a reduction of as many elements does. ``out=`` must
        not share bytes with the input.

        Raises
        ------
        ShapeError
            For an axis that is not there.
        """
        frame = self._enter(_getframe(1))
        self._own(input, "cumsum")
        kind = self._kinds.along("cumsum", input.ty, axis, None if out is None else self._own(out, "out=").ty)
        return self._apply(kind, (input,), out, name, frame, elementwise=False)

    def dot(
        self,
        input: Handle,
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
            f32 by default (f64 for f64; i32 for integers of up to 32 bits, else their own). 16- and 8-bit inputs
            accumulate in f32. Operands of two float dtypes are multiplied in the wider one, at least f32: f16 with
            bf16 or fp8 in f32, f32 with f64 in f64. A float with an integer is refused.
        out
            Written instead of allocating; must not share bytes with an operand, but may be exactly `acc`.
        name
            What views call the result.

        Notes
        -----
        GEMM engine: ``batch * ceil(m/M) * ceil(n/N) * ceil(k/K) + depth`` cycles for a native M x N x K.

        Raises
        ------
        ShapeError, DTypeError
            If ranks, inner or batch dimensions, or dtypes do not go together; both operands are named.
        """
        frame = _getframe(1)
        if frame is not self._frame:
            frame = self._enter(frame)
        if acc is None and out_dtype is None and out is None:
            try:
                kind = self._dots[input.ty][other.ty]
            except (AttributeError, KeyError):
                kind = None
            if kind is None:
                self._own(input, "dot: input")
                self._own(other, "dot: other")
                kind = self._kinds.dot(input.ty, other.ty, None, None, None)
                self._dots.setdefault(input.ty, {})[other.ty] = kind
            return self._run2(kind, input, other, name, frame)
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
