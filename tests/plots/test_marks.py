"""Places for labels, numbers and names as pictures write them."""

from __future__ import annotations

import doctest

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kernbench_nb.plots._marks
import kernbench_nb.plots._scales
import kernbench_nb.plots._theme
import kernbench_nb.plots._words
from kernbench_nb.plots._marks import spread

MODULES = (
    kernbench_nb.plots._marks,
    kernbench_nb.plots._scales,
    kernbench_nb.plots._theme,
    kernbench_nb.plots._words,
)


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__.rpartition(".")[2])
def test_examples_in_docstrings(module: object) -> None:
    result = doctest.testmod(module)  # type: ignore[arg-type]
    assert result.attempted > 0
    assert result.failed == 0


@given(
    wanted=st.lists(st.floats(0, 100), min_size=1, max_size=12).map(sorted),
    size=st.floats(1, 8),
)
def test_labels_keep_their_order_and_do_not_overlap(wanted: list[float], size: float) -> None:
    placed = spread(wanted, [size] * len(wanted), 0, 100)
    gaps = np.diff(placed)
    assert (gaps >= size - 1e-6).all()
    assert placed[0] >= size / 2 - 1e-6
    if size * len(wanted) <= 100:
        assert placed[-1] <= 100 - size / 2 + 1e-6


@given(wanted=st.lists(st.integers(0, 9), min_size=1, max_size=10, unique=True).map(sorted))
def test_labels_that_have_room_stay_where_they_want_to_be(wanted: list[int]) -> None:
    places = [10.0 * w + 5 for w in wanted]
    assert spread(places, [10.0] * len(places), 0, 100) == pytest.approx(places)


def test_nothing_to_place() -> None:
    assert spread([], [], 0, 1) == []
