"""From an operation and its operands' types to its `Kind`: result, cost, bytes, and the numpy behind it.

Worked out once for each combination of interned types, then found by identity; this is why an operation costs a few
hundred nanoseconds and not tens of microseconds.
"""

from __future__ import annotations

from typing import Any, Protocol

from kernbench_nb.dtypes import DType, bool_
from kernbench_nb.errors import DTypeError, ShapeError
from kernbench_nb.memory import TileType, tile_type
from kernbench_nb.sim_engine.trace import Kind, KindTable
from kernbench_nb.triton_emu import numerics
from kernbench_nb.triton_emu.promote import (
    broadcast_shapes,
    check_bits,
    check_float,
    check_number,
    common_dtype,
    matmul_shape,
    normal_axis,
    reduced_shape,
    reduction_dtype,
)

__all__ = ["BINARY", "COMPARISONS", "REDUCTIONS", "UNARY", "Costs", "FreeOfCharge", "Kinds"]

COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
BITWISE = ("and_", "or_", "xor")
NO_BOOL = ("sub", "floordiv", "mod", "pow")
BINARY = ("add", "sub", "mul", "div", "floordiv", "mod", "pow", "maximum", "minimum", *BITWISE, *COMPARISONS)
FLOAT_ONLY = ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sigmoid", "erf", "sin", "cos")
REDUCTIONS = ("max", "min", "sum", "xor_sum", "argmax", "argmin")
UNARY = (*FLOAT_ONLY, "floor", "ceil", "neg", "abs", "invert")

Shape = tuple[int, ...]


class Costs(Protocol):
    """What a machine charges, in ps; `kernbench_nb.topology` provides it."""

    @property
    def dispatch_ps(self) -> int:
        """Each command."""

    @property
    def hbm_latency_ps(self) -> int:
        """From the end of a load's busy time to its data."""

    def hbm_busy_ps(self, nbytes: int) -> int:
        """How long a load or store occupies its channel."""

    def gemm_ps(self, batch: int, m: int, n: int, k: int) -> int:
        """A batched product."""

    def math_ps(self, op: str, n: int) -> int:
        """An elementwise operation with n results."""

    def reduce_ps(self, op: str, n: int) -> int:
        """A reduction of n elements."""

    def softmax_ps(self, n: int) -> int:
        """A softmax of n elements."""

    def copy_ps(self, dst_bytes: int) -> int:
        """A copy within the scratch."""


class FreeOfCharge:
    """The costs of a `TLContext` that stands alone: nothing takes time but the dispatch.

    Parameters
    ----------
    dispatch_ps
        ps a command.
    """

    def __init__(self, dispatch_ps: int = 0) -> None:
        self.dispatch_ps = dispatch_ps
        self.hbm_latency_ps = 0

    def hbm_busy_ps(self, nbytes: int) -> int:
        """Nothing."""
        return 0

    def gemm_ps(self, batch: int, m: int, n: int, k: int) -> int:
        """Nothing."""
        return 0

    def math_ps(self, op: str, n: int) -> int:
        """Nothing."""
        return 0

    def reduce_ps(self, op: str, n: int) -> int:
        """Nothing."""
        return 0

    def softmax_ps(self, n: int) -> int:
        """Nothing."""
        return 0

    def copy_ps(self, dst_bytes: int) -> int:
        """Nothing."""
        return 0


class Kinds:
    """All kinds that the language has met on one machine.

    Attributes
    ----------
    binary, unary
        For each operation of `BINARY` and `UNARY`, in that order: kinds that allocate their result, by the types of
        the operands. Filled by `make_binary` and `make_unary` when a lookup misses.
    reductions, dots, casts, copies
        The same for reductions, by type, keep_dims and axis; products; casts, by dtype; and copies, by the types of
        destination and source. Filled by whoever misses.
    """

    def __init__(self, costs: Costs, table: KindTable) -> None:
        self.costs = costs
        self.table = table
        self.binary: list[dict[TileType, dict[TileType, Kind]]] = [{} for _ in BINARY]
        self.unary: list[dict[TileType, Kind]] = [{} for _ in UNARY]
        self.reductions: list[dict[TileType, dict[bool, dict[Any, Kind]]]] = [{} for _ in REDUCTIONS]
        self.dots: dict[TileType, dict[TileType, Kind]] = {}
        self.casts: dict[TileType, dict[DType, Kind]] = {}
        self.copies: dict[TileType, dict[TileType, Kind]] = {}
        self.messages: dict[Any, TileType] = {}
        self._known: dict[Any, Kind] = {}

    @classmethod
    def of(cls, costs: Costs, table: KindTable) -> Kinds:
        """The one `Kinds` of a table."""
        found = table.cache.get("kinds")
        if found is None:
            found = table.cache["kinds"] = cls(costs, table)
        assert isinstance(found, Kinds)
        return found

    # -- elementwise -------------------------------------------------------------------------------------------

    def make_binary(self, op: str, a: TileType, b: TileType, out: TileType | None = None) -> Kind:
        """The kind of an elementwise operation on two tiles.

        Raises
        ------
        ShapeError, DTypeError
            If there is no such operation.
        """
        key = (op, a, b, out)
        kind = self._known.get(key)
        if kind is None:
            shape = broadcast_shapes(a, b, op)
            common = common_dtype(a.dtype, b.dtype, op)
            if op in BITWISE:
                check_bits(op, a.dtype, b.dtype)
            if op in NO_BOOL:
                check_number(op, common)
            if op == "floordiv" and common.is_float:
                raise DTypeError(
                    f"// needs integers, as in Triton, got {a.dtype} and {b.dtype}; use tl.floor(x / y)."
                )
            result = bool_ if op in COMPARISONS else common
            target = self.target(op, shape, result, out)
            run = numerics.binary(op, a.dtype, b.dtype, common, result, target.dtype)
            kind = self._math(op, target, (a.shape, b.shape), run, out)
            self._known[key] = kind
        if out is None:
            self.binary[BINARY.index(op)].setdefault(a, {})[b] = kind
        return kind

    def make_unary(self, op: str, a: TileType, out: TileType | None = None) -> Kind:
        """The kind of an elementwise operation on one tile.

        Raises
        ------
        DTypeError
            If it needs a float (or bits) and gets none.
        """
        key = (op, a, out)
        kind = self._known.get(key)
        if kind is None:
            if op in FLOAT_ONLY:
                check_float(op, a.dtype)
            if op == "invert":
                check_bits("~", a.dtype)
            if op == "neg":
                check_number("-x", a.dtype)
            target = self.target(op, a.shape, a.dtype, out)
            kind = self._math(op, target, (a.shape,), numerics.unary(op, a.dtype, a.dtype, target.dtype), out)
            self._known[key] = kind
        if out is None:
            self.unary[UNARY.index(op)][a] = kind
        return kind

    def cast(self, a: TileType, dtype: DType, out: TileType | None) -> Kind:
        """Conversion to another dtype."""

        def make() -> Kind:
            target = self.target("cast", a.shape, dtype, out)
            run = numerics.unary("cast", a.dtype, dtype, target.dtype)
            return self._math("cast", target, (a.shape,), run, out)

        return self._memo(("cast", a, dtype, out), make)

    def copy(self, op: str, a: TileType, out: TileType | None) -> Kind:
        """`copy` (into a handle that exists) or `clone` (into a new one): bytes moved by the math engine."""

        def make() -> Kind:
            target = self.target(op, a.shape, a.dtype, out)
            run = numerics.unary(op, a.dtype, target.dtype, target.dtype)
            return self._kind(
                op,
                "math",
                self.costs.copy_ps(target.nbytes),
                target,
                (a.shape,),
                run,
                out,
                nbytes=target.nbytes,
            )

        return self._memo((op, a, out), make)

    def where(self, c: TileType, x: TileType, y: TileType, out: TileType | None) -> Kind:
        """Selection."""

        def make() -> Kind:
            common = common_dtype(x.dtype, y.dtype, "where")
            inner = tile_type(broadcast_shapes(x, y, "where"), common)
            shape = broadcast_shapes(c, inner, "where")
            target = self.target("where", shape, common, out)
            return self._math("where", target, (c.shape, x.shape, y.shape), numerics.where(common), out)

        return self._memo(("where", c, x, y, out), make)

    def ternary(self, op: str, x: TileType, y: TileType, z: TileType, out: TileType | None) -> Kind:
        """`fma` and `clamp`."""

        def make() -> Kind:
            common = common_dtype(common_dtype(x.dtype, y.dtype, op), z.dtype, op)
            inner = tile_type(broadcast_shapes(x, y, op), common)
            target = self.target(op, broadcast_shapes(inner, z, op), common, out)
            run = numerics.fma(common) if op == "fma" else numerics.clamp(common)
            return self._math(op, target, (x.shape, y.shape, z.shape), run, out)

        return self._memo((op, x, y, z, out), make)

    def create(self, op: str, shape: Shape, dtype: DType, out: TileType | None) -> Kind:
        """`full` and `arange`."""

        def make() -> Kind:
            return self._math(op, self.target(op, shape, dtype, out), (), None, out)

        return self._memo((op, shape, dtype, out), make)

    # -- reductions --------------------------------------------------------------------------------------------

    def reduction(
        self,
        op: str,
        a: TileType,
        axis: int | None,
        keep_dims: bool,
        out: TileType | None,
        initial: float | None = None,
    ) -> Kind:
        """A reduction over one axis, or over all, which may start from a value."""
        if initial is not None and op not in ("max", "min"):
            raise TypeError(f"{op} takes no initial=; max and min do.")
        at = None if axis is None else normal_axis(axis, a.shape, op)

        def make() -> Kind:
            result = reduction_dtype(op, a.dtype)
            shape = reduced_shape(a.shape, at, keep_dims, op if initial is None else "sum")
            target = self.target(op, shape, result, out)
            run = numerics.reduction(op, a.dtype, target.dtype, at, keep_dims, initial)
            if target.dtype is not result:
                run = numerics.reduction(op, a.dtype, result, at, keep_dims, initial)
                run = numerics.through(run, target.shape, result)
            cost = self.costs.reduce_ps(op, a.n)
            return self._kind(op, "math", cost, target, (a.shape,), run, out, elements=a.n)

        return self._memo((op, a, at, keep_dims, out, initial), make)

    def along(self, op: str, a: TileType, axis: int, out: TileType | None) -> Kind:
        """`softmax` and `cumsum`: along an axis, same shape."""
        at = normal_axis(axis, a.shape, op)

        def make() -> Kind:
            if op == "softmax":
                check_float(op, a.dtype)
                cost, run, result = self.costs.softmax_ps(a.n), numerics.softmax(a.dtype, at), a.dtype
            else:
                result = reduction_dtype("sum", a.dtype)
                cost, run = self.costs.reduce_ps(op, a.n), numerics.cumsum(result, at)
            target = self.target(op, a.shape, result, out)
            return self._kind(op, "math", cost, target, (a.shape,), run, out, elements=a.n)

        return self._memo((op, a, at, out), make)

    # -- products ----------------------------------------------------------------------------------------------

    def dot(
        self, a: TileType, b: TileType, acc: TileType | None, out_dtype: DType | None, out: TileType | None
    ) -> Kind:
        """A batched matrix product."""

        def make() -> Kind:
            batch, m, n, k, shape = matmul_shape(a, b)
            if a.dtype.is_float != b.dtype.is_float:
                raise DTypeError(f"dot: input is {a.dtype}, other is {b.dtype}; convert one with .to().")
            wide, narrow = numerics.matmul_widen(a.dtype), numerics.matmul_widen(b.dtype)
            work = wide if wide.bits >= narrow.bits else narrow
            result = out_dtype or work
            if acc is not None and acc.shape != shape:
                raise ShapeError(
                    f"dot: acc has shape {acc.shape}, the product of {a.shape} and {b.shape} has {shape}."
                )
            target = self.target("dot", shape, result, out)
            run = numerics.dot(a.dtype, b.dtype, work, result, target.dtype, acc is not None)
            cost = self.costs.gemm_ps(batch, m, n, k)
            return self._kind(
                "gemm", "gemm", cost, target, (a.shape, b.shape), run, out, flops=2 * batch * m * n * k
            )

        return self._memo(("dot", a, b, acc, out_dtype, out), make)

    # -- what is no operation, or not private -------------------------------------------------------------------

    def empty(self, ty: TileType) -> Kind:
        """An allocation and nothing else."""
        return self._memo(
            ("empty", ty), lambda: self.table.add(Kind("empty", "", ty=ty, size=ty.size, shapes=(ty.shape,)))
        )

    def dma(
        self, op: str, tensor: str, ty: TileType, nbytes: int, dur: int, busy: int, allocates: bool
    ) -> Kind:
        """A load or store of HBM."""
        return self._memo(
            (op, tensor, ty, nbytes, allocates),
            lambda: self.table.add(
                Kind(
                    op, "dma", dur=dur, busy=busy, nbytes=nbytes, hbm=nbytes,
                    elements=ty.n, shapes=(ty.shape,), ty=ty,
                    size=ty.size if allocates else 0, tensor=tensor,
                )
            ),
        )  # fmt: skip

    def message(
        self, op: str, ty: TileType, direction: str | int, peer: int, busy: int, allocates: bool
    ) -> Kind:
        """A send, a receive, or a barrier."""
        return self._memo(
            (op, ty, direction, peer, busy, allocates),
            lambda: self.table.add(
                Kind(
                    op, "ipc", busy=busy, nbytes=ty.nbytes,
                    elements=ty.n, shapes=(ty.shape,), ty=ty, size=ty.size if allocates else 0,
                    peer=peer, direction=str(direction),
                )
            ),
        )  # fmt: skip

    # -- shared ------------------------------------------------------------------------------------------------

    def _memo(self, key: Any, make: Any) -> Kind:
        kind = self._known.get(key)
        if kind is None:
            kind = self._known[key] = make()
        return kind

    def target(self, op: str, shape: Shape, dtype: DType, out: TileType | None) -> TileType:
        """Where a result goes: the type of ``out=``, or a new tile's.

        Raises
        ------
        ShapeError
            If ``out=`` has another shape, or is a broadcast view.
        """
        if out is None:
            return tile_type(shape, dtype)
        if out.shape != shape:
            raise ShapeError(
                f"{op}: out= has shape {out.shape} ({out.dtype}), the result has shape {shape} ({dtype})."
            )
        if out.overlapping:
            raise ShapeError(
                f"{op}: {out} is a broadcast view and cannot be written: its elements share addresses."
            )
        return out

    def _math(
        self, op: str, target: TileType, shapes: tuple[Shape, ...], run: Any, out: TileType | None
    ) -> Kind:
        cost = self.costs.math_ps(op, target.n)
        return self._kind(op, "math", cost, target, shapes, run, out, elements=target.n)

    def _kind(
        self, op: str, engine: str, cost: int, target: TileType, shapes: tuple[Shape, ...], run: Any,
        out: TileType | None, **more: Any,
    ) -> Kind:  # fmt: skip
        return self.table.add(
            Kind(
                op, engine, dur=cost, dispatch=self.costs.dispatch_ps, shapes=(*shapes, target.shape), ty=target,
                size=target.size if out is None else 0, run=run, **more,
            )
        )  # fmt: skip
