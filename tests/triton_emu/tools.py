"""What the language's tests share: contexts with values, tiles made of arrays, tensors made by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kernbench_nb.dtypes import resolve_dtype
from kernbench_nb.memory.store import Shard
from kernbench_nb.triton_emu import Handle, Pointer, TLContext

Array = npt.NDArray[Any]


def context(**more: Any) -> TLContext:
    """A context that stands alone and has values."""
    return TLContext(**{"data": True, "dispatch_cycles": 4, **more})


def put(tl: TLContext, values: Any, dtype: Any = None) -> Handle:
    """A tile with these values, which must be exact in the dtype; written, and free of charge."""
    array = np.asarray(values)
    found = resolve_dtype(array.dtype if dtype is None else dtype)
    tile = tl._make_compute_out(array.shape, found)
    tile.arr[...] = array.astype(found.np)
    return tile


def pointer(
    values: Any, dtype: Any = None, *, tensor: str = "x", where: str = "", timing: bool = False
) -> Pointer:
    """The first element of a tensor with these values."""
    array = np.asarray(values)
    found = resolve_dtype(array.dtype if dtype is None else dtype)
    data = None if timing else array.astype(found.np).ravel().copy()
    return Pointer(Shard(tensor, found, array.shape, data=data, where=where))


def state(tl: TLContext) -> tuple[Any, ...]:
    """Everything that a refused operation must leave as it was."""
    pool = tl.scratch
    return (
        pool.top, pool.fast_top, pool.high_water, pool.depth, tl.now_ps, list(tl.commands.rows),
        len(tl.commands.scopes), dict(tl.commands.more), list(tl._flight), list(tl._watch.spans),
        None if tl._bytes is None else tl._bytes.buffer.tobytes(),
    )  # fmt: skip
