"""Unions of intervals against counting every picosecond."""

from __future__ import annotations

import doctest

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kernbench_nb.analysis import _intervals
from kernbench_nb.analysis._intervals import cells, length

STOP = 30
span = st.tuples(st.integers(-5, 40), st.integers(0, 12)).map(lambda s: (s[0], s[0] + s[1]))
sets = st.lists(st.lists(span, max_size=5), min_size=1, max_size=4)


def arrays(spans: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    table = np.array(spans, np.int64).reshape(-1, 2)
    return table[:, 0], table[:, 1]


@given(sets)
def test_pieces_are_what_counting_gives(given_sets: list[list[tuple[int, int]]]) -> None:
    widths, inside = cells([arrays(spans) for spans in given_sets], STOP)
    ticks = [{t for a, b in spans for t in range(a, b) if 0 <= t < STOP} for spans in given_sets]
    assert widths.sum() == STOP
    assert (widths > 0).all()
    assert [length(widths, row) for row in inside] == [len(t) for t in ticks]
    assert length(widths, inside.all(axis=0)) == len(set.intersection(*ticks))
    assert length(widths, inside.any(axis=0)) == len(set.union(*ticks))
    assert length(widths, inside.sum(axis=0) == 1) == sum(
        sum(tick in t for t in ticks) == 1 for tick in range(STOP)
    )


@given(sets)
def test_order_and_cuts_do_not_matter(given_sets: list[list[tuple[int, int]]]) -> None:
    widths, inside = cells([arrays(spans) for spans in given_sets], STOP)
    cut = [[(a, m), (m, b)] for spans in given_sets for a, b in spans for m in [(a + b) // 2]]
    pieces = [s for pair in reversed(cut) for s in pair]
    again_widths, again = cells([arrays(pieces)], STOP)
    assert length(again_widths, again[0]) == length(widths, inside.any(axis=0))


def test_no_time_and_no_stretch() -> None:
    nothing = arrays([])
    widths, inside = cells([nothing, nothing], 0)
    assert widths.tolist() == []
    assert inside.shape == (2, 0)
    widths, inside = cells([nothing], 7)
    assert widths.tolist() == [7]
    assert inside.tolist() == [[False]]


def test_touching_stretches_do_not_overlap() -> None:
    widths, inside = cells([arrays([(0, 5)]), arrays([(5, 9)])], 9)
    assert length(widths, inside.all(axis=0)) == 0
    widths, inside = cells([arrays([(0, 6)]), arrays([(5, 9)])], 9)
    assert length(widths, inside.all(axis=0)) == 1


def test_the_example_of_the_docstring() -> None:
    assert doctest.testmod(_intervals) == (0, 2)
