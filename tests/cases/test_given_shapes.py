"""Faults seen in public trackers, area shapes: one test per case, named by its id."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kernbench_nb as kb

Array = NDArray[Any]
Bench = Callable[..., Any]


def first_column(*values: float, d: int = 4) -> Array:
    """One head whose first column holds the values: (n, 1, d), f16."""
    array = np.zeros((len(values), 1, d), np.float16)
    array[:, 0, 0] = values
    return array


def by_name(benches: dict[str, Bench]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("bench", benches.values(), ids=benches.keys())


# -- shp-causal-decode-align -------------------------------------------------------------------------------

CAUSAL: dict[str, Bench] = {
    "decode": lambda q, k, v: kb.decode(q, k, v, pes=1, causal=True),
    "decode, 3 PEs, tile 2": lambda q, k, v: kb.decode(q, k, v, pes=3, tile=2, causal=True),
    "flash": lambda q, k, v: kb.flash(q, k, v, causal=True),
    "flash, tiles 1 x 2": lambda q, k, v: kb.flash(q, k, v, tile_q=1, tile_kv=2, causal=True),
    "naive": lambda q, k, v: kb.naive(q, k, v, causal=True),
    "prefill": lambda q, k, v: kb.prefill(q, k, v, cubes=1, causal=True),
    "prefill, 2 cubes": lambda q, k, v: kb.prefill(q, k, v, cubes=2, causal=True),
    "prefill, 3 cubes": lambda q, k, v: kb.prefill(q, k, v, cubes=3, causal=True),
}


@by_name(CAUSAL)
def test_shp_causal_decode_align(bench: Bench) -> None:
    k, v = first_column(0, 0, 0, 0, 0), first_column(1, 2, 3, 4, 5)
    run = bench(first_column(0, 0), k, v)
    np.testing.assert_allclose(run.output[:, 0, 0], [2.5, 3.0], rtol=0, atol=1e-3)
    np.testing.assert_allclose(run.lse[:, 0], [1.3862943611, 1.6094379124], rtol=0, atol=1e-3)
    run.check()
    newest = bench(first_column(0), k, v)
    assert newest.output[0, 0, 0] == pytest.approx(3.0, abs=1e-3)
    newest.check()


# -- shp-gqa-head-map --------------------------------------------------------------------------------------

GROUPED: dict[str, Bench] = {
    "decode": lambda q, k, v: kb.decode(q, k, v, pes=1),
    "decode, 2 PEs": lambda q, k, v: kb.decode(q, k, v, pes=2, tile=1),
    "flash": lambda q, k, v: kb.flash(q, k, v),
    "naive": lambda q, k, v: kb.naive(q, k, v),
    "prefill": lambda q, k, v: kb.prefill(q, k, v, cubes=2),
}


@by_name(GROUPED)
@pytest.mark.parametrize(
    ("h_q", "h_kv", "want"), [(4, 2, [10, 10, 20, 20]), (6, 2, [10, 10, 10, 20, 20, 20])]
)
def test_shp_gqa_head_map(bench: Bench, h_q: int, h_kv: int, want: list[float]) -> None:
    rng = np.random.default_rng(0)
    q = rng.standard_normal((1, h_q, 4)).astype(np.float16)
    k = rng.standard_normal((3, h_kv, 4)).astype(np.float16)
    v = np.empty((3, h_kv, 4), np.float16)
    v[:, 0], v[:, 1] = 10, 20
    run = bench(q, k, v)
    assert run.output.shape == (1, h_q, 4)
    for column in range(4):
        np.testing.assert_allclose(run.output[0, :, column], want, rtol=0, atol=1e-2)
    run.check()  # and each head has the lse of its own keys


@pytest.mark.parametrize(("h_q", "h_kv"), [(4, 3), (2, 4), (4, 0)])
def test_shp_gqa_head_map_refuses_what_does_not_divide(h_q: int, h_kv: int) -> None:
    q, kv = np.zeros((1, h_q, 4), np.float16), np.zeros((3, h_kv, 4), np.float16)
    for bench in GROUPED.values():
        with pytest.raises(ValueError, match=rf"{h_q}.*{h_kv}"):
            bench(q, kv, kv)


# -- shp-ragged-kv-tile ------------------------------------------------------------------------------------

RAGGED: dict[str, Bench] = {
    "decode": lambda q, k, v: kb.decode(q, k, v, pes=1, tile=4),
    "decode, 2 PEs": lambda q, k, v: kb.decode(q, k, v, pes=2, tile=4),
    "decode, prefetched": lambda q, k, v: kb.decode(q, k, v, pes=1, tile=4, prefetch=True),
    "decode, un-scoped": lambda q, k, v: kb.decode(q, k, v, pes=1, tile=4, scoped=False),
    "flash": lambda q, k, v: kb.flash(q, k, v, tile_kv=4),
    "prefill": lambda q, k, v: kb.prefill(q, k, v, cubes=1),
    "prefill, 2 cubes": lambda q, k, v: kb.prefill(q, k, v, cubes=2),
}


@by_name(RAGGED)
@pytest.mark.parametrize("n", [1, 4, 5, 7, 9])
def test_shp_ragged_kv_tile(bench: Bench, n: int) -> None:
    q, k = first_column(2), first_column(*[-2] * n)
    v = np.ones((n, 1, 4), np.float16)
    run = bench(q, k, v)
    np.testing.assert_allclose(run.output, 1.0, rtol=0, atol=1e-3)
    assert run.lse[0, 0] == pytest.approx(math.log(n) - 2, abs=1e-4)
    if n == 5:
        assert run.lse[0, 0] == pytest.approx(-0.3905620876, abs=1e-4)
    run.check()
