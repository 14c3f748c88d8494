"""Which bytes of a scratch nobody has written yet.

Kept as a few spans of bytes, so that views of one buffer share them and two halves of it are apart. Nothing is kept
for bytes that are fine, which is nearly always all of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kernbench_nb.memory.layout import TileType

__all__ = ["Watch", "overlap", "runs"]

_GROUND: npt.NDArray[Any] = np.empty(0, np.uint8)

Runs = tuple[tuple[int, int], ...]


def runs(ty: TileType) -> Runs:
    """The bytes behind a tile as (offset, length) of contiguous pieces, in order; a view may skip or repeat bytes."""
    found = ty.runs
    if found is None:
        size = ty.dtype.itemsize
        steps = sorted((t * size, n) for n, t in zip(ty.shape, ty.strides, strict=True) if n != 1 and t)
        pieces = [(0, size)] if ty.n else []
        for step, n in steps:
            if len(pieces) == 1 and step <= pieces[0][1]:
                pieces = [(0, step * (n - 1) + pieces[0][1])]
            else:
                pieces = [(i * step + offset, length) for i in range(n) for offset, length in pieces]
        found = ty.runs = tuple(sorted(set(pieces)))
    return found


def overlap(a: int, ta: TileType, b: int, tb: TileType) -> bool:
    """Whether two tiles share a byte, strides considered."""
    global _GROUND
    low = min(a, b)
    reach = max(a + ta.extent, b + tb.extent) - low
    if len(_GROUND) < reach:
        _GROUND = np.empty(reach, np.uint8)
    x: npt.NDArray[Any] = np.ndarray(ta.shape, ta.dtype.np, _GROUND, a - low, ta.byte_strides)
    y: npt.NDArray[Any] = np.ndarray(tb.shape, tb.dtype.np, _GROUND, b - low, tb.byte_strides)
    return np.shares_memory(x, y)


class Watch:
    """Bytes of one PE's scratch that were allocated and not written yet.

    Attributes
    ----------
    spans
        (first address, address behind the last), apart from each other, in any order.
    """

    __slots__ = ("spans",)

    def __init__(self) -> None:
        self.spans: list[tuple[int, int]] = []

    def mark(self, addr: int, ty: TileType) -> None:
        """The bytes behind a tile are not written."""
        if self.spans:
            self.clear(addr, ty)
        self.spans.extend((addr + offset, addr + offset + length) for offset, length in runs(ty))

    def touches(self, addr: int, ty: TileType) -> bool:
        """Whether a tile shows such a byte."""
        reach = addr + ty.extent
        return any(
            start < addr + offset + length and addr + offset < stop
            for start, stop in self.spans
            if start < reach and addr < stop
            for offset, length in runs(ty)
        )

    def clear(self, addr: int, ty: TileType) -> None:
        """The bytes behind a tile were written."""
        reach = addr + ty.extent
        if any(start < reach and addr < stop for start, stop in self.spans):
            for offset, length in runs(ty):
                self._cut(addr + offset, addr + offset + length)

    def drop_above(self, addr: int) -> None:
        """Forget the bytes from `addr` on: they were given back."""
        self.spans = [(start, min(stop, addr)) for start, stop in self.spans if start < addr]

    def _cut(self, low: int, high: int) -> None:
        kept = []
        for start, stop in self.spans:
            if stop <= low or high <= start:
                kept.append((start, stop))
                continue
            if start < low:
                kept.append((start, low))
            if high < stop:
                kept.append((high, stop))
        self.spans = kept
