"""Scores of -inf that no mask made, of a key or of a product beyond f32: their weight is 0, however tiles are cut."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kernbench_nb as kb

RUNS: dict[str, Callable[..., Any]] = {
    "decode": lambda *x: kb.decode(*x, pes=1, tile=1),
    "two PEs": lambda *x: kb.decode(*x, pes=2, tile=1, lse=True),
    "tree": lambda *x: kb.decode(*x, pes=2, tile=1, merge="tree"),
    "prefetch": lambda *x: kb.decode(*x, pes=1, tile=1, prefetch=True),
    "causal": lambda *x: kb.decode(*x, pes=1, tile=1, causal=True),
    "one tile": lambda *x: kb.decode(*x, pes=1, tile=8),
    "fa2": lambda *x: kb.flash(*x, tile_q=1, tile_kv=1),
    "fa1": lambda *x: kb.flash(*x, tile_q=1, tile_kv=1, order="fa1"),
    "ring": lambda *x: kb.prefill(*x, cubes=2),
    "ring back": lambda *x: kb.prefill(*x, cubes=2, direction="prev", causal=True),
}


@pytest.fixture(params=sorted(RUNS))
def run(request: pytest.FixtureRequest) -> Callable[..., Any]:
    return RUNS[request.param]


def arrays(*first_of_key: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    q = np.ones((1, 1, 4), np.float32)
    k = np.zeros((len(first_of_key), 1, 4), np.float32)
    k[:, 0, 0] = first_of_key
    v = np.arange(1, len(first_of_key) + 1, dtype=np.float32)[:, None, None] * np.ones((1, 1, 4), np.float32)
    return q, k, v


@pytest.mark.parametrize("where", [0, 1, 2])
def test_a_key_of_minus_infinity_weighs_nothing(run: Callable[..., Any], where: int) -> None:
    firsts = [0.0, 0.0, 0.0]
    firsts[where] = -np.inf
    result = run(*arrays(*firsts))
    rest = [i + 1 for i in range(3) if i != where]
    np.testing.assert_allclose(result.output, sum(rest) / 2, rtol=1e-6)
    np.testing.assert_allclose(result.lse, np.log(2), rtol=1e-6)
    result.check()


def test_a_row_of_nothing_else_is_the_empty_row(run: Callable[..., Any]) -> None:
    result = run(*arrays(-np.inf, -np.inf))
    assert (result.output == 0).all()
    assert (result.lse == -np.inf).all()
    assert result.check() == 0


def test_products_beyond_f32_are_such_scores() -> None:
    q, k, v = arrays(-1e30, 0.0)
    q[:] = 1e30
    result = kb.decode(q, k, v, pes=1, tile=1)
    assert (result.output == 2).all()


def test_a_key_of_plus_infinity_shows() -> None:
    assert np.isnan(kb.decode(*arrays(np.inf, 0.0), pes=1, tile=1).output).all()
