"""The type of a tile: shape, strides and dtype, interned, with everything that follows from them.

A handle is an address and one of these. Since equal types are one object, whatever depends only on the type (bytes,
costs, numpy views) is computed once and found by identity.
"""

from __future__ import annotations

from math import prod
from typing import Any

from kernbench_nb.dtypes import DType

__all__ = ["ALIGN", "TileType", "round_up", "tile_type"]

ALIGN = 16
"""Default alignment of scratch, in bytes (ADR-0063)."""

Shape = tuple[int, ...]


def round_up(nbytes: int, align: int = ALIGN) -> int:
    """Round up to a multiple of `align`, a power of two."""
    return (nbytes + align - 1) & -align


class TileType:
    """Shape, element strides and dtype of a tile. Make it with `tile_type`.

    Attributes
    ----------
    shape, strides
        In elements; a stride of 0 is a broadcast dimension.
    n
        Number of elements, the product of the shape.
    nbytes
        Bytes of a contiguous tile of this shape: what it takes to move it.
    extent
        Bytes from the first to the last element's end: what lies behind a view.
    size
        `nbytes` rounded up to 16: what an allocation of it takes.
    contiguous
        Whether the strides are those of a row-major tile.
    """

    __slots__ = (
        "contiguous",
        "dtype",
        "extent",
        "indexed",
        "n",
        "nbytes",
        "permuted",
        "reshaped",
        "runs",
        "shape",
        "size",
        "strides",
    )

    def __init__(self, shape: Shape, strides: Shape, dtype: DType) -> None:
        self.shape = shape
        self.strides = strides
        self.dtype = dtype
        self.n = prod(shape)
        self.nbytes = self.n * dtype.itemsize
        self.size = round_up(self.nbytes)
        self.extent = (
            (sum((s - 1) * t for s, t in zip(shape, strides, strict=True)) + 1) * dtype.itemsize
            if self.n
            else 0
        )
        self.contiguous = self.n == 0 or all(
            s == 1 or t == c for s, t, c in zip(shape, strides, row_major(shape), strict=True)
        )
        # views made of this type, by the arguments that made them: (offset in bytes, type), or the type
        self.indexed: dict[Any, tuple[int, TileType]] = {}
        self.permuted: dict[Any, TileType] = {}
        self.reshaped: dict[Any, TileType] = {}
        # contiguous pieces of the bytes behind it, (offset, length), worked out when first asked for
        self.runs: tuple[tuple[int, int], ...] | None = None

    @property
    def overlapping(self) -> bool:
        """Whether several elements share one address, as in a broadcast view."""
        return any(t == 0 and n > 1 for n, t in zip(self.shape, self.strides, strict=True))

    @property
    def byte_strides(self) -> Shape:
        """Strides in bytes, as numpy wants them."""
        return tuple(t * self.dtype.itemsize for t in self.strides)

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.shape)) or "scalar"
        return f"{self.dtype.name}[{shape}]" + ("" if self.contiguous else f" strides {self.strides}")

    def __reduce__(self) -> tuple[Any, ...]:
        return tile_type, (self.shape, self.dtype, self.strides)


def row_major(shape: Shape) -> Shape:
    """Element strides of a contiguous row-major tile."""
    strides = [1] * len(shape)
    for i in range(len(shape) - 2, -1, -1):
        strides[i] = strides[i + 1] * max(shape[i + 1], 1)
    return tuple(strides)


def _canonical(shape: Shape, strides: Shape) -> Shape:
    if 0 in shape:
        return row_major(shape)
    if 1 not in shape:
        return strides
    out = list(strides)
    for i in range(len(shape) - 1, -1, -1):
        if shape[i] == 1:
            out[i] = out[i + 1] * shape[i + 1] if i + 1 < len(shape) else 1
    return tuple(out)


_TYPES: dict[tuple[Shape, Shape, DType], TileType] = {}


def tile_type(shape: Shape, dtype: DType, strides: Shape | None = None) -> TileType:
    """The one `TileType` with this shape, dtype and (row-major by default) element strides."""
    # a dimension of extent 1 is never stepped along: give it the stride it would have in a row-major tile
    strides = row_major(shape) if strides is None else _canonical(shape, strides)
    key = (shape, strides, dtype)
    found = _TYPES.get(key)
    if found is None:
        found = _TYPES[key] = TileType(shape, strides, dtype)
    return found
