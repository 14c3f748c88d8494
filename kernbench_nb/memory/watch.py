"""Which bytes of a scratch are not readable yet: never written, or the destination of a load in flight.

Kept per byte, so that views of one buffer share it and two halves of it are apart. Nothing is kept for bytes that are
fine, which is nearly always all of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kernbench_nb.memory.layout import TileType

__all__ = ["FINE", "PENDING", "UNWRITTEN", "Watch"]

FINE, UNWRITTEN, PENDING = range(3)


class Watch:
    """Byte states of one PE's scratch.

    Parameters
    ----------
    capacity, base
        The scratch, in bytes, and the address of its first byte.
    """

    __slots__ = ("_base", "_capacity", "_state", "high", "low")

    def __init__(self, capacity: int, base: int = 0) -> None:
        self._capacity = capacity
        self._base = base
        self._state: npt.NDArray[np.uint8] | None = None
        # addresses outside [low, high) are fine; empty at first
        self.low = 0
        self.high = 0

    def mark(self, addr: int, ty: TileType, state: int) -> None:
        """Set the bytes behind a tile to UNWRITTEN or PENDING."""
        if ty.n == 0:
            return
        if self._state is None:
            self._state = np.zeros(self._capacity, np.uint8)
        self._bytes(addr, ty)[...] = state
        stop = addr + ty.extent
        self.low, self.high = (addr, stop) if self.high == 0 else (min(self.low, addr), max(self.high, stop))

    def find(self, addr: int, ty: TileType) -> int:
        """The worst state of the bytes behind a tile."""
        if self._state is None or addr >= self.high or addr + ty.extent <= self.low or ty.n == 0:
            return FINE
        return int(self._bytes(addr, ty).max())

    def clear(self, addr: int, ty: TileType) -> None:
        """Make the bytes behind a tile readable: they were written."""
        if self._state is None or addr >= self.high or addr + ty.extent <= self.low or ty.n == 0:
            return
        self._bytes(addr, ty)[...] = FINE
        self._shrink()

    def drop_above(self, addr: int) -> None:
        """Forget the bytes from `addr` on: they were given back."""
        if self._state is not None and self.high > addr:
            self._state[addr - self._base :] = FINE
            self._shrink()

    def any_between(self, start: int, stop: int) -> bool:
        """Whether some byte of ``[start, stop)`` is not fine."""
        if self._state is None or start >= self.high or stop <= self.low:
            return False
        return bool(self._state[start - self._base : stop - self._base].any())

    def _shrink(self) -> None:
        assert self._state is not None
        busy = np.flatnonzero(self._state[self.low - self._base : self.high - self._base])
        if busy.size:
            low = self.low
            self.low, self.high = low + int(busy[0]), low + int(busy[-1]) + 1
        else:
            self.low = self.high = 0

    def _bytes(self, addr: int, ty: TileType) -> npt.NDArray[Any]:
        assert self._state is not None
        size = ty.dtype.itemsize
        return np.ndarray((*ty.shape, size), np.uint8, self._state, addr - self._base, (*ty.byte_strides, 1))
