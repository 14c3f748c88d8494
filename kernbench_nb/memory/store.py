"""The bytes: a PE's scratch as one buffer, and HBM as one buffer per tensor shard.

Only data mode has bytes. A handle reads and writes the scratch through a numpy view of its address and type, so
recycled bytes are really overwritten and a stale handle really reads its successor's.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from kernbench_nb.dtypes import DType
from kernbench_nb.errors import OutOfBoundsError
from kernbench_nb.memory.layout import Shape, TileType, row_major

__all__ = ["POISON", "ScratchBytes", "Shard"]

POISON = 0xFF
"""Byte that fresh scratch and given-back bytes hold: NaN in every float type, -1 in signed and the largest value in
unsigned integers, True in bool."""

Array = npt.NDArray[Any]


class ScratchBytes:
    """The scratch of one PE in data mode, poisoned at first.

    Parameters
    ----------
    capacity
        Bytes.
    base
        Address of the first byte.
    """

    __slots__ = ("_views", "base", "buffer")

    def __init__(self, capacity: int, base: int = 0) -> None:
        self.base = base
        self.buffer = np.full(capacity, POISON, np.uint8)
        self._views: dict[TileType, dict[int, Array]] = {}

    def view(self, addr: int, ty: TileType) -> Array:
        """The numpy array of this type at this address, made once."""
        try:
            return self._views[ty][addr]
        except KeyError:
            pass
        offset = addr - self.base
        if ty.n == 0:
            array: Array = np.empty(ty.shape, ty.dtype.np)
        else:
            array = np.ndarray(ty.shape, ty.dtype.np, self.buffer, offset, ty.byte_strides)
        self._views.setdefault(ty, {})[addr] = array
        return array

    def poison(self, start: int, stop: int) -> None:
        """Fill the addresses from `start` up to `stop`."""
        self.buffer[start - self.base : stop - self.base] = POISON


@lru_cache(1024)
def _in_bytes(strides: Shape, size: int) -> Shape:
    return tuple([t * size for t in strides])


class Reader(Protocol):
    """A load in flight: it must keep the bytes that it was issued on."""

    def snapshot(self) -> None:
        """Copy the source now; it is about to change."""


class Shard:
    """One PE's part of a tensor in HBM.

    Attributes
    ----------
    tensor, where
        Name of the tensor, and which part this is, for errors.
    dtype, shape, n
        Element type, local shape, number of elements.
    owner
        Global PE whose HBM slice holds it; -1 when each access is charged to the accessing PE's own slice.
    data
        Flat numpy array of the elements, or None in timing mode.
    kinds, loads
        Kinds of the loads and stores of this shard, filled by the language; `loads`, by shape and then strides, are
        those that allocate.
    """

    __slots__ = (
        "_readers",
        "_shared",
        "data",
        "dtype",
        "kinds",
        "loads",
        "n",
        "owner",
        "shape",
        "tensor",
        "where",
    )

    def __init__(
        self,
        tensor: str,
        dtype: DType,
        shape: Shape,
        *,
        owner: int = -1,
        data: Array | None = None,
        where: str = "",
        shared: bool = False,
    ) -> None:
        self.tensor = tensor
        self.where = where
        self.dtype = dtype
        self.shape = shape
        self.n = prod(shape)
        self.owner = owner
        self.data = None if data is None else np.ascontiguousarray(data)  # one column of a tensor is not
        self.kinds: dict[Any, Any] = {}
        self.loads: dict[Any, dict[Any, Any]] = {}
        self._shared = shared  # the array also stands for other replicas: copy it before writing
        self._readers: list[Reader] = []

    def check(self, offset: int, shape: Shape, strides: Shape | None, verb: str) -> None:
        """Check that a tile at `offset` (elements) lies inside.

        Raises
        ------
        OutOfBoundsError
            Naming the tensor, the shard, the offset and the extent.
        """
        steps = row_major(shape) if strides is None else strides
        if 0 in shape:
            return
        low = offset + sum((s - 1) * t for s, t in zip(shape, steps, strict=True) if t < 0)
        high = offset + sum((s - 1) * t for s, t in zip(shape, steps, strict=True) if t > 0)
        if low < 0 or high >= self.n:
            raise self.outside(f"{verb} of shape {shape} at offset {offset}", low, high)

    def outside(self, what: str, low: int, high: int) -> OutOfBoundsError:
        """The error of a load or store that reaches from element `low` to `high`."""
        part = f" ({self.where})" if self.where else ""
        there = f"elements 0 to {self.n - 1}" if self.n else "none"
        return OutOfBoundsError(
            f"{what} reaches elements {low} to {high} of tensor {self.tensor!r}, but its shard{part} of shape "
            f"{self.shape} has {there}. Shorten the tile, or give a mask with other=."
        )

    def window(self, offset: int, shape: Shape, strides: Shape | None = None) -> Array:
        """The elements of a checked tile, as a numpy view."""
        assert self.data is not None
        if 0 in shape:
            return np.empty(shape, self.dtype.np)
        dtype = self.dtype
        size = dtype.itemsize
        steps = None if strides is None else _in_bytes(strides, size)
        return np.ndarray(shape, dtype.np, self.data, offset * size, steps)

    def writable(self) -> Array:
        """The elements, about to change: loads in flight keep the old ones, and replicas part company."""
        assert self.data is not None
        if self._readers:
            for reader in self._readers:
                reader.snapshot()
            self._readers.clear()
        if self._shared:
            self.data = self.data.copy()
            self._shared = False
        return self.data

    def lend(self, reader: Reader) -> None:
        """Remember a load in flight until it is done."""
        self._readers.append(reader)

    def release(self, reader: Reader) -> None:
        """Forget a load that is done."""
        readers = self._readers
        if reader in readers:
            readers.remove(reader)
