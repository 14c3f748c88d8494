"""Softmax written out: against float64, and its accesses an element."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import kernbench_nb as kb

BOTH = {"safe": kb.safe_softmax, "online": kb.online_softmax}
ALL = {**BOTH, "kept": partial(kb.online_softmax, keep=True)}
ACCESSES = {"safe": 4, "online": 3, "kept": 2}
both = pytest.mark.parametrize("name", BOTH)
all_three = pytest.mark.parametrize("name", ALL)


def scores(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Any:
    return (3 * np.random.default_rng(seed).standard_normal(shape)).astype(dtype)


@all_three
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "f8e4m3"])
@pytest.mark.parametrize(
    "how", [{}, {"tile": 17}, {"tile": 400, "rows": 2}, {"pes": 3}, {"pes": 4, "cubes": 2}]
)
def test_against_float64(name: str, dtype: str, how: dict[str, Any]) -> None:
    """Ragged tiles, ragged blocks of rows, ragged shards; one PE has no row at all."""
    x = scores(5, 100)
    run = ALL[name](x, dtype=dtype, **how)
    run.check()
    assert run.output.shape == (5, 100)
    assert run.output.astype(np.float64).sum(-1) == pytest.approx(1, abs=2e-2)
    assert run.params["m"] == 100


@all_three
def test_scores_that_are_no_numbers(name: str) -> None:
    x = scores(8, 70)
    x[1] = -np.inf  # sees no key
    x[2, 10:] = -np.inf
    x[3, :64] = -np.inf  # a first tile with nothing in it
    x[4, 7] = np.nan
    x[5, 69] = np.inf
    x[6] = np.finfo(np.float32).max
    x[7] = np.finfo(np.float32).min
    with np.errstate(all="raise"):
        run = ALL[name](x, tile=32)
        run.check()
    y = run.output
    assert not y[1].any()
    assert not y[2, 10:].any()
    assert not y[3, :64].any()
    assert np.isnan(y[4:6]).all()
    assert (y[6:] == np.float32(1 / 70)).all()


@all_three
def test_the_check_can_fail(name: str) -> None:
    x = scores(2, 40)
    run = ALL[name](x)
    x[0, 0] += 1  # arrays are not copied: the reference sees them as they are now
    with pytest.raises(AssertionError, match="differs from its float64 reference"):
        run.check()


@all_three
@pytest.mark.parametrize("tile", [1, 17, 64, 500])
@pytest.mark.parametrize("rows", [1, 4, 64])
def test_accesses_an_element_do_not_depend_on_tiles(name: str, tile: int, rows: int) -> None:
    x = scores(9, 100)
    run = ALL[name](x, tile=tile, rows=rows, data=False)
    assert run.hbm_bytes == ACCESSES[name] * x.nbytes


def test_the_row_of_the_course() -> None:
    x = scores(319)
    assert (kb.safe_softmax(x).hbm_bytes, kb.online_softmax(x).hbm_bytes) == (5_104, 3_828)
    assert kb.safe_softmax(x).output.shape == (319,)


@both
def test_scratch_does_not_depend_on_the_length_of_a_row(name: str) -> None:
    peaks = {BOTH[name](scores(9, m), data=False).peak_scratch for m in (128, 256, 1000)}
    assert len(peaks) == 1
    grows = [BOTH[name](scores(9, m), data=False, scoped=False).peak_scratch for m in (128, 256, 1000)]
    assert grows[0] < grows[1] < grows[2]


def test_rows_that_are_kept_are_read_once_and_take_scratch() -> None:
    x = scores(4, 250)
    kept, loaded = (kb.online_softmax(x, keep=keep, tile=50) for keep in (True, False))
    assert kept.hbm_bytes == 2 * x.nbytes
    assert (kept.output == loaded.output).all()
    kept.check()
    # five tiles are held, of which one stood in the scope before
    assert kept.peak_scratch - loaded.peak_scratch == 4 * 4 * 50 * 4


def test_both_agree_with_attention_on_one_head() -> None:
    q, k, v = kb.sample_attention()
    head = kb.naive(q[-4:, :1], k[:, :1], v[:, :1])
    P = kb.online_softmax(head.outputs["S"]).output
    assert np.abs(P.astype(np.float32) - head.outputs["P"].astype(np.float32)).max() <= 2**-11


@both
def test_the_bench_runs_by_name(name: str) -> None:
    run = kb.bench(f"{name}_softmax", n=3, m=33, dtype="f32", tile=8)
    run.check()
    assert run.hbm_bytes == ACCESSES[name] * 3 * 33 * 4
    assert kb.bench(f"{name}_softmax", n=3, m=0).output.shape == (3, 0)


@all_three
@pytest.mark.parametrize("how", [{}, {"pes": 2, "tile": 20, "rows": 2}])
def test_timing_mode_takes_the_same_time_and_bytes(name: str, how: dict[str, Any]) -> None:
    data, timing = (ALL[name](scores(9, 70), data=data, **how) for data in (True, False))
    assert data.makespan_ps == timing.makespan_ps
    assert data.peak_scratch_by_pe == timing.peak_scratch_by_pe


@both
def test_scopes_are_named_by_pass(name: str) -> None:
    labels = list(BOTH[name](scores(70), tile=32).tiles["tile"])
    passes = {"safe": ("max", "sum", "out"), "online": ("fold", "out")}[name]
    assert labels == [f"{what} {j}" for what in passes for j in range(3)]


@pytest.mark.parametrize(
    ("x", "how", "error", "text"),
    [
        (np.float32(1), {}, ValueError, r"at least one row of scores, along its last axis; got shape \(\)"),
        (np.ones((0, 3), np.float32), {}, ValueError, r"got shape \(0, 3\)"),
        (np.ones(3), {}, TypeError, "x is float64, .* say dtype="),
        (np.ones(3, complex), {"dtype": "f32"}, TypeError, "x is complex128, .* needs real numbers"),
        (["1", "2"], {"dtype": "f32"}, TypeError, "x is <U1, .* needs real numbers"),
        (np.array([1.0, None]), {"dtype": "f32"}, TypeError, "x is object, .* needs real numbers"),
        (np.ones(3, int), {}, TypeError, "x is i64; softmax needs floats"),
        (np.ones(3, np.float32), {"dtype": "i32"}, TypeError, "softmax runs in f16, .*; got dtype=i32"),
        (np.ones(3, np.float32), {"tile": 0}, ValueError, "tile must be a whole number from 1 on, got 0"),
        (np.ones(3, np.float32), {"rows": 1.5}, ValueError, "rows must be a whole number from 1 on, got 1.5"),
        (np.ones(3, np.float32), {"pes": 999}, ValueError, "pes=999"),
        (np.ones(3, np.float32), {"titel": 4}, TypeError, "has no argument titel=; did you mean tile=?"),
    ],
)
@both
def test_what_does_not_go_together(
    name: str, x: Any, how: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        BOTH[name](x, **how)


@both
def test_a_run_knows_how_to_run_again_and_errors_carry_theirs(name: str) -> None:
    x = scores(6, 40)
    run = BOTH[name](x, pes=2)
    assert run.rerun is not None
    assert run.rerun(tile=8).hbm_bytes == run.hbm_bytes
    with pytest.raises(kb.ScratchOverflowError) as caught:
        BOTH[name](
            scores(64, 1000),
            tile=1000,
            topology={"base": "ahbm", "pe": {"tcm": {"kernel_scratch_mb": 0.125}}},
        )
    assert caught.value.run.name == f"{name}_softmax_kernel"
    assert caught.value.run.peak_scratch <= 131_072


def test_arrays_may_be_given_by_name() -> None:
    x = scores(5)
    assert (kb.online_softmax(x=x).output == kb.online_softmax(x).output).all()
