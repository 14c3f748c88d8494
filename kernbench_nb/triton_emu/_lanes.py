"""What loads and stores share: strides, masked lanes, and how bytes that arrived are written into a tile."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernbench_nb.errors import ShapeError
from kernbench_nb.memory import TileType
from kernbench_nb.memory.layout import Shape, row_major
from kernbench_nb.memory.store import POISON, Shard
from kernbench_nb.triton_emu import numerics
from kernbench_nb.triton_emu.handles import Handle

__all__ = ["deliver", "element_strides", "kind_of", "masked_lanes", "masked_tile"]


def masked_lanes(
    shard: Shard, offset: int, shape: Shape, steps: Shape | None, mask: Any, verb: str
) -> tuple[Any, Any]:
    """Which elements a mask lets through, and their addresses in the shard, which must lie inside."""
    allowed = np.broadcast_to(mask.arr != 0 if mask.__class__ is Handle else mask, shape)
    where = addresses(offset, shape, steps)[allowed]
    if where.size and (where.min() < 0 or where.max() >= shard.n):
        raise shard.outside(f"{verb} of shape {shape} at offset {offset}", where.min(), where.max())
    return allowed, where


def masked_tile(shard: Shard, ty: TileType, allowed: Any, where: Any, other: Any) -> Any:
    """The tile of a masked load: masked lanes are never read, and poison unless `other` says what they are."""
    assert shard.data is not None
    fill = np.empty(ty.shape, shard.dtype.np)
    if other is not None:
        numerics.convert(
            fill, np.broadcast_to(other.arr if other.__class__ is Handle else np.asarray(other), ty.shape)
        )
    fill[allowed] = shard.data[where]
    if ty.dtype is not shard.dtype:
        loaded, fill = fill, np.empty(ty.shape, ty.dtype.np)
        numerics.convert(fill, loaded)
    if other is None:
        fill[~allowed] = np.frombuffer(bytes([POISON]) * ty.dtype.itemsize, ty.dtype.np)[0]
    return fill


def deliver(handle: Handle, source: Any, fill: Any) -> None:
    """Write what was loaded: `source`, or else the `fill` of a masked load, which has the handle's dtype already."""
    if source is None:
        handle.arr[...] = fill
    elif source.dtype == handle.arr.dtype:
        handle.arr[...] = source
    else:
        numerics.convert(handle.arr, source)


def element_strides(strides: Any, shape: Shape, op: str) -> Shape | None:
    """Element strides as a tuple of integers, one for each dimension; None if none are given."""
    if strides is None:
        return None
    steps = tuple(int(t.__index__()) for t in strides)
    if len(steps) != len(shape):
        raise ShapeError(
            f"{op}: shape {shape} has {len(shape)} dimensions, strides {steps} has {len(steps)}."
        )
    return steps


def addresses(offset: int, shape: Shape, steps: Shape | None) -> Any:
    """Element addresses of a tile, as an array of its shape."""
    where = np.full(shape, offset, np.int64)
    for axis, step in enumerate(row_major(shape) if steps is None else steps):
        along = [1] * len(shape)
        along[axis] = shape[axis]
        where += np.arange(shape[axis], dtype=np.int64).reshape(along) * step
    return where


def kind_of(value: Any) -> str:
    """What an error calls an argument of the wrong kind."""
    return repr(value) if isinstance(value, (int, float, str, Handle)) else type(value).__name__
