"""The bytes: scratch that starts as poison, and shards that check their bounds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernbench_nb.dtypes import DTYPES, DType, bool_, f16, f32, i32
from kernbench_nb.errors import OutOfBoundsError
from kernbench_nb.memory import tile_type
from kernbench_nb.memory.store import ScratchBytes, Shard

# -- scratch -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_fresh_scratch_is_poison_in_every_dtype(dtype: DType) -> None:
    tile = ScratchBytes(64).view(0, tile_type((4,), dtype))
    for value in tile.tolist():
        if dtype.is_float:
            assert math.isnan(value)
        elif dtype.kind == "int":
            assert value == -1
        elif dtype.kind == "uint":
            assert value == (1 << dtype.bits) - 1
        else:
            assert value is True


def test_a_view_is_the_bytes_and_is_made_once() -> None:
    scratch = ScratchBytes(256, base=1 << 20)
    tile = scratch.view((1 << 20) + 64, tile_type((2, 3), f32))
    tile[...] = [[1, 2, 3], [4, 5, 6]]
    assert scratch.buffer[64:88].view(np.float32).tolist() == [1, 2, 3, 4, 5, 6]
    assert scratch.view((1 << 20) + 64, tile_type((2, 3), f32)) is tile
    turned = scratch.view((1 << 20) + 64, tile_type((3, 2), f32, (1, 3)))
    assert turned.tolist() == [[1, 4], [2, 5], [3, 6]]
    assert scratch.view((1 << 20) + 64, tile_type((2, 3), i32))[0, 0] == 0x3F800000


def test_an_empty_tile_needs_no_bytes_even_at_the_very_end() -> None:
    assert ScratchBytes(16).view(16, tile_type((0, 4), f32)).shape == (0, 4)


def test_poison_fills_exactly_the_range() -> None:
    scratch = ScratchBytes(64, base=32)
    scratch.buffer[:] = 0
    scratch.poison(48, 56)
    assert scratch.buffer.tolist() == [0] * 16 + [255] * 8 + [0] * 40


# -- shards ------------------------------------------------------------------------------------------------


def shard(*shape: int, dtype: DType = f32, **more: Any) -> Shard:
    n = math.prod(shape)
    return Shard("k", dtype, shape, data=np.arange(n).astype(dtype.np), **more)


def test_windows_are_strided_views_of_the_shard() -> None:
    k = shard(4, 6)
    assert k.window(7, (2, 3)).tolist() == [[7, 8, 9], [10, 11, 12]]
    assert k.window(7, (2, 3), (6, 1)).tolist() == [[7, 8, 9], [13, 14, 15]]
    assert k.window(23, (4,), (-6,)).tolist() == [23, 17, 11, 5]
    assert k.window(5, ()).tolist() == 5
    assert k.window(99, (0, 3)).shape == (0, 3)
    k.window(0, (4,), (6,))[...] = -1
    assert k.data is not None
    assert k.data[::6].tolist() == [-1] * 4


def test_a_shard_may_be_made_of_one_column() -> None:
    host = np.arange(12, dtype=np.float32).reshape(4, 3)
    k = Shard("k", f32, (4, 1), data=host[:, 1], shared=True)
    assert k.window(1, (2,)).tolist() == [4, 7]
    assert k.window(0, (2,), (2,)).tolist() == [1, 7]
    k.writable()[0] = 99
    assert host[0, 1] == 1


def test_a_window_of_a_bool_or_a_narrow_float_shard() -> None:
    for dtype in (bool_, f16, *(d for d in DTYPES if d.is_narrow_float)):
        assert shard(4, dtype=dtype).window(1, (2,)).dtype == dtype.np


def test_leaving_a_shard_names_tensor_shard_offset_and_extent() -> None:
    k = shard(4, 6, where="rows 8 to 11, on PE 2")
    with pytest.raises(OutOfBoundsError) as caught:
        k.check(20, (2, 3), None, "load")
    assert str(caught.value) == (
        "load of shape (2, 3) at offset 20 reaches elements 20 to 25 of tensor 'k', but its shard (rows 8 to 11, on "
        "PE 2) of shape (4, 6) has elements 0 to 23. Shorten the tile, or give a mask with other=."
    )
    assert isinstance(caught.value, IndexError)


@given(
    st.integers(-10, 40),
    st.lists(st.tuples(st.integers(0, 4), st.integers(-8, 8)), max_size=3),
)
def test_a_tile_is_inside_exactly_if_all_its_elements_are(offset: int, walks: list[tuple[int, int]]) -> None:
    k = shard(4, 6)
    shape, strides = tuple(n for n, _ in walks), tuple(t for _, t in walks)
    elements = [offset + sum(i * t for i, t in zip(at, strides, strict=True)) for at in np.ndindex(shape)]
    if all(0 <= e < 24 for e in elements):
        k.check(offset, shape, strides, "load")
        assert k.window(offset, shape, strides).ravel().tolist() == elements
    else:
        with pytest.raises(OutOfBoundsError):
            k.check(offset, shape, strides, "load")


def test_an_empty_shard_has_no_elements() -> None:
    with pytest.raises(OutOfBoundsError, match=r"of shape \(0, 4\) has none\."):
        shard(0, 4).check(0, (), None, "load")
    shard(0, 4).check(0, (0, 4), None, "load")


def test_replicas_share_their_bytes_until_one_is_written() -> None:
    both = np.arange(4, dtype=np.float32)
    a, b = (Shard("q", f32, (4,), data=both, shared=True) for _ in range(2))
    a.writable()[0] = 9
    assert a.data is not None
    assert b.data is not None
    assert (a.data[0], b.data[0], both[0]) == (9, 0, 0)
    first = a.data
    assert a.writable() is first  # parted once


class Reading:
    """A load in flight."""

    def __init__(self) -> None:
        self.snapshots = 0

    def snapshot(self) -> None:
        self.snapshots += 1


def test_a_load_in_flight_is_told_once_before_its_source_changes() -> None:
    k, early, done = shard(4), Reading(), Reading()
    k.lend(early)
    k.lend(done)
    k.release(done)
    k.writable()
    k.writable()
    assert (early.snapshots, done.snapshots) == (1, 0)
    k.release(early)  # no longer known: nothing to do
