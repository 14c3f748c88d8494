"""Unwritten bytes: the spans against a plain set of byte addresses."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench_nb.dtypes import f16, f32, i8
from kernbench_nb.memory import TileType, tile_type
from kernbench_nb.memory.watch import Watch


def behind(addr: int, ty: TileType) -> set[int]:
    size = ty.dtype.itemsize
    return {
        addr + size * sum(i * t for i, t in zip(index, ty.strides, strict=True)) + byte
        for index in np.ndindex(ty.shape)
        for byte in range(size)
    }


@st.composite
def tiles(draw: st.DrawFn) -> tuple[int, TileType]:
    shape = draw(st.lists(st.integers(0, 3), max_size=3).map(tuple))
    strides = tuple(draw(st.integers(0, 6)) for _ in shape)
    return draw(st.integers(0, 60)), tile_type(shape, draw(st.sampled_from([i8, f16, f32])), strides)


steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["mark", "clear", "touches"]), tiles()),
        st.tuples(st.just("drop"), st.integers(0, 90)),
    ),
    max_size=12,
)


@settings(max_examples=200)
@given(steps)
def test_spans_say_what_a_set_of_bytes_says(script: list[tuple[str, object]]) -> None:
    watch, model = Watch(), set[int]()
    for what, which in script:
        if what == "drop":
            assert isinstance(which, int)
            watch.drop_above(which)
            model = {b for b in model if b < which}
        else:
            addr, ty = which  # type: ignore[misc]
            if what == "mark":
                watch.mark(addr, ty)
                model |= behind(addr, ty)
            elif what == "clear":
                watch.clear(addr, ty)
                model -= behind(addr, ty)
            assert watch.touches(addr, ty) == bool(model & behind(addr, ty))
        covered = [b for start, stop in watch.spans for b in range(start, stop)]
        assert sorted(covered) == sorted(model)  # each byte in one span only


def test_two_halves_of_a_buffer_are_apart_and_views_of_one_half_are_not() -> None:
    watch = Watch()
    whole = tile_type((4, 8), f16)
    left, right = tile_type((4, 4), f16, (8, 1)), tile_type((4, 4), f16, (8, 1))
    watch.mark(0, whole)
    watch.clear(0, left)
    assert not watch.touches(0, left)
    assert watch.touches(8, right)
    assert watch.touches(0, whole)
    assert not watch.touches(0, tile_type((4, 4, 3), f16, (8, 1, 0)))
    watch.clear(8, right)
    assert watch.spans == []


def test_interleaved_rows_are_apart() -> None:
    watch = Watch()
    watch.mark(0, tile_type((8, 4), f32))
    even, odd = tile_type((4, 4), f32, (8, 1)), tile_type((4, 4), f32, (8, 1))
    watch.clear(0, even)
    assert not watch.touches(0, even)
    assert watch.touches(16, odd)
