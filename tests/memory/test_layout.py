"""Types of tiles: interning, strides, extents, and the bytes behind a view."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernbench_nb.dtypes import DTYPES, f16, f32, i8
from kernbench_nb.memory import ALIGN, round_up, tile_type
from kernbench_nb.memory.layout import TileType, row_major
from kernbench_nb.memory.watch import runs

shapes = st.lists(st.integers(0, 4), max_size=4).map(tuple)


@pytest.mark.parametrize(
    ("nbytes", "align", "expected"),
    [(0, 16, 0), (1, 16, 16), (16, 16, 16), (17, 16, 32), (63, 1, 63), (65, 64, 128), (5, 4096, 4096)],
)
def test_round_up_to_the_next_multiple(nbytes: int, align: int, expected: int) -> None:
    assert round_up(nbytes, align) == expected


def test_the_default_alignment_is_that_of_the_adr() -> None:
    assert ALIGN == 16
    assert [round_up(n) for n in (1, 15, 16, 128, 129)] == [(n + 15) & ~15 for n in (1, 15, 16, 128, 129)]


@given(shapes)
def test_equal_types_are_one_object(shape: tuple[int, ...]) -> None:
    assert tile_type(shape, f16) is tile_type((*shape,), f16)
    assert tile_type(shape, f16) is not tile_type(shape, i8)
    assert tile_type(shape, f16, row_major(shape)) is tile_type(shape, f16)


@given(shapes)
def test_row_major_strides_are_numpys(shape: tuple[int, ...]) -> None:
    array = np.empty(shape, np.int8)
    if array.size:
        assert row_major(shape) == array.strides


def test_a_dimension_of_extent_one_is_never_stepped_along_so_its_stride_does_not_matter() -> None:
    plain = tile_type((4, 1, 3), f32)
    assert tile_type((4, 1, 3), f32, (3, 0, 1)) is plain
    assert tile_type((4, 1, 3), f32, (3, 77, 1)) is plain
    assert tile_type((4, 1, 3), f32, (6, 0, 2)) is not plain


def test_an_empty_tile_has_one_type_whatever_its_strides() -> None:
    assert tile_type((0, 3), f32, (5, 7)) is tile_type((0, 3), f32)


def test_sizes() -> None:
    ty = tile_type((8, 64), f16)
    assert (ty.n, ty.nbytes, ty.size, ty.extent, ty.contiguous) == (512, 1024, 1024, 1024, True)
    odd = tile_type((3,), f16)
    assert (odd.nbytes, odd.size) == (6, 16)
    scalar = tile_type((), f32)
    assert (scalar.n, scalar.nbytes, scalar.size, scalar.contiguous) == (1, 4, 16, True)
    empty = tile_type((4, 0), f32)
    assert (empty.n, empty.nbytes, empty.size, empty.extent) == (0, 0, 0, 0)


def test_a_broadcast_view_has_few_bytes_behind_many_elements() -> None:
    view = tile_type((9, 64), f16, (0, 1))
    assert (view.n, view.nbytes, view.extent) == (576, 1152, 128)
    assert view.overlapping
    assert not view.contiguous
    assert not tile_type((1, 64), f16, (0, 1)).overlapping


def test_a_type_says_what_it_is() -> None:
    assert repr(tile_type((8, 64), f16)) == "f16[8x64]"
    assert repr(tile_type((), f32)) == "f32[scalar]"
    assert repr(tile_type((64, 8), f16, (1, 64))) == "f16[64x8] strides (1, 64)"


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_type_comes_out_of_a_pickle_as_itself(dtype: Any) -> None:
    for ty in (tile_type((3, 4), dtype), tile_type((4, 3), dtype, (1, 4))):
        assert pickle.loads(pickle.dumps(ty)) is ty


@st.composite
def strided_types(draw: st.DrawFn) -> TileType:
    shape = draw(st.lists(st.integers(0, 3), max_size=3).map(tuple))
    strides = tuple(draw(st.integers(0, 7)) for _ in shape)
    return tile_type(shape, draw(st.sampled_from([i8, f16, f32])), strides)


def touched(addr: int, ty: TileType) -> set[int]:
    """Byte addresses behind a tile, by walking over its elements one at a time."""
    size = ty.dtype.itemsize
    return {
        addr + size * sum(i * t for i, t in zip(index, ty.strides, strict=True)) + byte
        for index in np.ndindex(ty.shape)
        for byte in range(size)
    }


@given(strided_types())
def test_runs_and_extent_cover_exactly_the_bytes_behind_a_view(ty: TileType) -> None:
    bytes_behind = touched(0, ty)
    assert {i for offset, length in runs(ty) for i in range(offset, offset + length)} == bytes_behind
    assert ty.extent == (max(bytes_behind) + 1 if bytes_behind else 0)
