"""Which shape and dtype an operation's result has: Triton's rules, and the errors when there is none."""

from __future__ import annotations

from math import prod
from typing import Any

from kernbench_nb.dtypes import DType, bf16, bool_, f16, f32, f64, i32, u32
from kernbench_nb.errors import DTypeError, ShapeError
from kernbench_nb.memory import TileType
from kernbench_nb.memory.layout import row_major

__all__ = [
    "as_shape",
    "broadcast_shapes",
    "broadcasts",
    "check_bits",
    "check_float",
    "check_number",
    "common_dtype",
    "matmul_shape",
    "normal_axis",
    "reduced_shape",
    "reduction_dtype",
    "reshape_strides",
]

Shape = tuple[int, ...]


def common_dtype(a: DType, b: DType, op: str) -> DType:
    """The dtype that two tiles meet in (Triton's `computation_type`).

    f64 wins, then f32, then f16; two bf16 stay bf16, bf16 with fp8 or integers is f32; two fp8 of one kind stay, of
    two kinds are f16; the quotient and the remainder of 16- and 8-bit floats are f32. Integers take the wider one,
    unsigned on a tie; their quotient is f32.

    Raises
    ------
    DTypeError
        For fp8 with integers, and for quotients and remainders of integers of different signedness.
    """
    division = op in ("div", "floordiv", "mod")
    if a.is_float or b.is_float:
        for wide in (f64, f32):
            if a is wide or b is wide:
                return wide
        if a is f16 or b is f16:
            return f32 if division else f16
        if a is bf16 or b is bf16:
            return bf16 if a is b and not division else f32
        if a.is_float and b.is_float:
            return f32 if division else a if a is b else f16
        raise DTypeError(f"{op}: {a} and {b} have no dtype in common; convert one with .to().")
    if division and bool_ not in (a, b) and a.kind != b.kind:
        raise DTypeError(f"{op}: {a} and {b} differ in signedness; convert one with .to().")
    if op == "div":
        return f32
    if a is b:
        return a
    if a.bits != b.bits:
        return a if a.bits > b.bits else b
    return a if a.kind == "uint" else b


def broadcast_shapes(a: TileType, b: TileType, op: str) -> Shape:
    """The shape of an elementwise result: ranks are aligned at the right, extents equal or 1.

    Raises
    ------
    ShapeError
        Naming both shapes.
    """
    x, y = a.shape, b.shape
    if x == y:
        return x
    rank = max(len(x), len(y))
    out = []
    for m, n in zip((1,) * (rank - len(x)) + x, (1,) * (rank - len(y)) + y, strict=True):
        if m != n and m != 1 and n != 1:
            raise ShapeError(
                f"{op}: operands of shapes {x} ({a.dtype}) and {y} ({b.dtype}) do not broadcast: extents {m} and {n} "
                "are neither equal nor 1. Reshape one, or index it with None to add a dimension."
            )
        out.append(n if m == 1 else m)
    return tuple(out)


def broadcasts(shape: Shape, to: Shape) -> bool:
    """Whether a shape broadcasts to another: ranks aligned at the right, extents equal or 1."""
    return len(shape) <= len(to) and all(m in (1, n) for m, n in zip(shape[::-1], to[::-1], strict=False))


def matmul_shape(a: TileType, b: TileType) -> tuple[int, int, int, int, Shape]:
    """Batch, m, n, k and the result's shape of a product.

    Raises
    ------
    ShapeError
        If a rank is below 2, inner dimensions differ, or batch dimensions differ; both operands are named.
    """
    x, y = a.shape, b.shape
    both = f"input {x} ({a.dtype}) and other {y} ({b.dtype})"
    if len(x) < 2 or len(y) < 2:
        raise ShapeError(f"dot: {both} must have rank 2 or more; index with None to add a dimension.")
    if x[-1] != y[-2]:
        raise ShapeError(
            f"dot: {both} do not multiply: the last dimension of input is {x[-1]}, the last but one of other is "
            f"{y[-2]}. Is one of them to be transposed with tl.trans?"
        )
    if x[:-2] != y[:-2]:
        raise ShapeError(
            f"dot: {both} have different batch dimensions {x[:-2]} and {y[:-2]}; they must be equal."
        )
    return prod(x[:-2]), x[-2], y[-1], x[-1], (*x[:-1], y[-1])


def normal_axis(axis: int, shape: Shape, op: str) -> int:
    """An axis counted from the front.

    Raises
    ------
    ShapeError, TypeError
        If there is no such axis.
    """
    rank = len(shape)
    if not isinstance(axis, int):
        raise TypeError(f"{op}: axis must be an integer, got {axis!r}")
    if not -rank <= axis < rank:
        there = f"axes 0 to {rank - 1}" if rank else "no axis"
        raise ShapeError(f"{op}: axis {axis} does not exist in shape {shape}; it has {there}.")
    return axis % rank


def reduced_shape(shape: Shape, axis: int | None, keep_dims: bool, op: str) -> Shape:
    """The shape after a reduction over one axis, or over all with None.

    Raises
    ------
    ShapeError
        If a maximum or minimum is taken over nothing.
    """
    over = range(len(shape)) if axis is None else (axis,)
    if op not in ("sum", "xor_sum") and any(shape[i] == 0 for i in over) and 0 not in _kept(shape, over):
        raise ShapeError(f"{op} over an empty axis of shape {shape} has no value.")
    if keep_dims:
        return tuple(1 if i in over else n for i, n in enumerate(shape))
    return _kept(shape, over)


def _kept(shape: Shape, over: range | tuple[int, ...]) -> Shape:
    return tuple(n for i, n in enumerate(shape) if i not in over)


def reduction_dtype(op: str, dtype: DType) -> DType:
    """The dtype of a reduction: that of its input, but i32 for indices and for sums of bool, i8 and i16.

    Raises
    ------
    DTypeError
        For `xor_sum` of floats.
    """
    if op in ("argmax", "argmin"):
        return i32
    if op == "xor_sum" and dtype.is_float:
        raise DTypeError(f"xor_sum needs integers, got {dtype}.")
    if op == "sum" and dtype.kind in ("int", "bool") and dtype.bits < 32:
        return i32
    if op == "sum" and dtype.kind == "uint" and dtype.bits < 32:
        return u32
    return dtype


def check_float(op: str, dtype: DType) -> DType:
    """The dtype itself, which must be a float.

    Raises
    ------
    DTypeError
        If it is not.
    """
    if not dtype.is_float:
        raise DTypeError(f"{op} needs a float tile, got {dtype}; convert it first with .to(tl.float32).")
    return dtype


def check_number(op: str, dtype: DType) -> DType:
    """The dtype itself, which must not be bool.

    Raises
    ------
    DTypeError
        If it is.
    """
    if dtype is bool_:
        raise DTypeError(f"{op} of bool tiles has no meaning; convert them first with .to(tl.int32).")
    return dtype


def check_bits(op: str, *dtypes: DType) -> None:
    """Check that all are integers or bool.

    Raises
    ------
    DTypeError
        If one is a float.
    """
    if any(d.is_float for d in dtypes):
        raise DTypeError(f"{op} needs integers or bool, got {' and '.join(map(str, dtypes))}.")


def reshape_strides(ty: TileType, shape: Shape) -> Shape | None:
    """Strides that show a tile's elements in a new shape without moving them, or None if there are none.

    Groups of old and new dimensions with the same number of elements are matched from the front; a group of old
    dimensions must be mergeable, that is each stride the next one times its extent.
    """
    if ty.n == 0:
        return row_major(shape)
    old = [(n, t) for n, t in zip(ty.shape, ty.strides, strict=True) if n != 1]
    merged: list[tuple[int, int]] = []
    for n, t in old:
        if merged and merged[-1][1] == n * t:
            merged[-1] = (merged[-1][0] * n, t)
        else:
            merged.append((n, t))
    strides = [0] * len(shape)
    i = len(shape) - 1
    for n, t in reversed(merged):
        step, left = t, n
        while left > 1:
            while i >= 0 and shape[i] == 1:
                strides[i] = step
                i -= 1
            if i < 0 or left % shape[i]:
                return None
            strides[i] = step
            step *= shape[i]
            left //= shape[i]
            i -= 1
    for j in range(i + 1):
        strides[j] = strides[i + 1] * shape[i + 1] if i + 1 < len(shape) else 1
    return tuple(strides)


def as_shape(shape: Any, op: str) -> tuple[int, ...]:
    """A tuple of non-negative extents from an int or a sequence.

    Raises
    ------
    ShapeError
        If an extent is negative or no integer.
    """
    parts = shape if isinstance(shape, (tuple, list)) else (shape,)
    try:
        out = tuple(int(n.__index__()) for n in parts)
    except AttributeError:
        raise ShapeError(f"{op}: a shape holds integers, got {shape!r}") from None
    if any(n < 0 for n in out):
        raise ShapeError(f"{op}: a shape cannot have a negative extent, got {out}")
    return out
