"""Faults seen in public trackers, area numerics: one test per case, named by its id."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import kernbench_nb as kb
from kernbench_nb.benches import reference

INF, NAN = math.inf, math.nan
F, T = False, True
Array = NDArray[Any]

bf16 = ml_dtypes.bfloat16


def one_head(rows: list[list[float]], *, d: int = 4, dtype: Any = np.float16) -> Array:
    """Rows of one head, padded with zeros to d columns: (n, 1, d)."""
    array = np.zeros((len(rows), 1, d), dtype)
    for i, row in enumerate(rows):
        array[i, 0, : len(row)] = row
    return array


def no_warning(call: Callable[[], Any]) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return call()


# -- num-lse-both-empty ------------------------------------------------------------------------------------


def test_num_lse_both_empty() -> None:
    empty = (np.zeros(4, np.float32), np.float32(-INF))
    some = (np.array([1, 2, 3, 4], np.float32), np.float32(0.5))
    both = no_warning(lambda: reference.merge(empty, empty))
    left = no_warning(lambda: reference.merge(empty, some))
    right = no_warning(lambda: reference.merge(some, empty))
    np.testing.assert_array_equal(both[0], [0, 0, 0, 0])
    assert both[1] == -INF
    np.testing.assert_array_equal(left[0], [1, 2, 3, 4])
    assert left[1] == 0.5
    assert all(a.tobytes() == b.tobytes() for a, b in zip(left, right, strict=True))


@pytest.mark.parametrize("merge", ["chain", "tree"])
@pytest.mark.parametrize("pes", [2, 3, 8])
def test_num_lse_both_empty_in_the_kernel(pes: int, merge: str) -> None:
    # One key for `pes` PEs: all other states are empty, and they meet each other on the way to PE 0.
    q, k, v = one_head([[1]]), one_head([[1]]), one_head([[1, 2, 3, 4]])
    run = no_warning(lambda: kb.decode(q, k, v, pes=pes, tile=8, merge=merge))
    np.testing.assert_array_equal(run.output, v)
    np.testing.assert_array_equal(run.lse, [[0.5]])
    nothing = no_warning(lambda: kb.decode(q, k[:0], v[:0], pes=pes, tile=8, merge=merge))
    np.testing.assert_array_equal(nothing.output, np.zeros((1, 1, 4)))
    np.testing.assert_array_equal(nothing.lse, [[-INF]])


# -- num-row-fully-masked ----------------------------------------------------------------------------------


@pytest.mark.parametrize("tile_kv", [1, 2, 64])
def test_num_row_fully_masked(tile_kv: int) -> None:
    q = one_head([[2], [2]])
    k, v = one_head([[1], [2], [3]]), one_head([[5], [6], [7]])
    mask = np.array([[F, F, F], [T, F, F]])
    run = no_warning(lambda: kb.flash(q, k, v, mask=mask, tile_kv=tile_kv))
    np.testing.assert_array_equal(run.output[0], np.zeros((1, 4)))
    assert run.lse[0, 0] == -INF
    assert run.output[1, 0, 0] == pytest.approx(5, abs=1e-3)
    assert run.lse[1, 0] == pytest.approx(1.0, abs=1e-3)
    run.check()


@pytest.mark.parametrize(
    "bench",
    [
        pytest.param(lambda q, k, v: kb.flash(q, k, v), id="flash"),
        pytest.param(lambda q, k, v: kb.naive(q, k, v), id="naive"),
        pytest.param(lambda q, k, v: kb.decode(q, k, v, pes=1), id="decode"),
        pytest.param(lambda q, k, v: kb.decode(q, k, v, pes=8), id="decode on 8 PEs"),
        pytest.param(lambda q, k, v: kb.prefill(q, k, v, cubes=1), id="prefill"),
        pytest.param(lambda q, k, v: kb.prefill(q, k, v, cubes=2), id="prefill on 2 cubes"),
    ],
)
def test_num_row_fully_masked_without_any_key(bench: Callable[..., Any]) -> None:
    q = one_head([[2], [2]])
    nothing = one_head([])
    run = no_warning(lambda: bench(q, nothing, nothing))
    np.testing.assert_array_equal(run.output, np.zeros((2, 1, 4)))
    np.testing.assert_array_equal(run.lse, np.full((2, 1), -INF))
    assert run.check() == 0.0
    frame = no_warning(lambda: run.frame)
    assert len(frame) == len(run.op_log)
    assert frame["start_ps"].dtype == frame["end_ps"].dtype == np.int64
    assert (frame["end_ps"] >= frame["start_ps"]).all()
    assert no_warning(lambda: repr(run))  # makespan, rates and shares, with no keys to divide by
    assert no_warning(lambda: run._repr_html_())


# -- num-nan-in-unused-v -----------------------------------------------------------------------------------

UNUSED = {
    "decode": lambda q, k, v: kb.decode(q, k, v, pes=1, tile=8, kv_len=3),
    "decode, 2 PEs": lambda q, k, v: kb.decode(q, k, v, pes=2, tile=8, kv_len=3),
    "decode, prefetched": lambda q, k, v: kb.decode(q, k, v, pes=1, tile=8, kv_len=3, prefetch=True),
    "flash, masked": lambda q, k, v: kb.flash(q, k, v, tile_kv=8, mask=np.arange(8)[None] < 3),
}


@pytest.mark.parametrize("bench", UNUSED.values(), ids=UNUSED.keys())
@pytest.mark.parametrize(("dtype", "tol"), [(np.float16, 5e-3), (np.float32, 1e-3)])
@pytest.mark.parametrize("junk", [NAN, INF, -INF])
def test_num_nan_in_unused_v(bench: Callable[..., Any], dtype: Any, tol: float, junk: float) -> None:
    q = one_head([[2]], dtype=dtype)
    k = one_head([[0.5], [1], [-0.5], [], [], [], [], []], dtype=dtype)
    v = one_head([[1, 2], [3, 4], [5, 6], [], [], [], [], []], dtype=dtype)
    clean = no_warning(lambda: bench(q, k, v))
    k[3:], v[3:] = junk, junk
    run = no_warning(lambda: bench(q, k, v))
    np.testing.assert_allclose(run.output[0, 0, :2], [2.5809053838, 3.5809053838], rtol=0, atol=tol)
    assert run.lse[0, 0] == pytest.approx(1.6041306053, abs=tol)
    assert np.isfinite(run.output).all()
    assert np.isfinite(run.lse).all()
    assert run.output.tobytes() == clean.output.tobytes()
    assert run.lse.tobytes() == clean.lse.tobytes()
    run.check()


# -- num-f16-accumulate ------------------------------------------------------------------------------------


def sum_rows(a_ptr: Any, o_ptr: Any, *, tl: Any) -> None:
    tl.store(o_ptr, tl.sum(tl.load(a_ptr, (4096, 2)), axis=0))


def sum_columns(a_ptr: Any, o_ptr: Any, *, tl: Any) -> None:
    tl.store(o_ptr, tl.sum(tl.load(a_ptr, (2, 4096)), axis=1))


def softmax_rows(a_ptr: Any, o_ptr: Any, *, tl: Any) -> None:
    tl.store(o_ptr, tl.softmax(tl.load(a_ptr, (4096, 2)), dim=0))


def dot_4096(a_ptr: Any, b_ptr: Any, o_ptr: Any, *, tl: Any) -> None:
    tl.store(o_ptr, tl.dot(tl.load(a_ptr, (1, 4096)), tl.load(b_ptr, (4096, 1))))


def test_num_f16_accumulate_sum() -> None:
    for kernel, shape in ((sum_rows, (4096, 2)), (sum_columns, (2, 4096))):
        ones = np.ones(shape, np.float16)
        out = kb.launch(kernel, ones, np.empty(2, np.float16), pes=1).outputs["o_ptr"]
        np.testing.assert_array_equal(out, [4096, 4096])
    naive = np.zeros(2, np.float16)
    for row in np.ones((4096, 2), np.float16):
        naive += row
    np.testing.assert_array_equal(naive, [2048, 2048])  # the fault that the test is about


def test_num_f16_accumulate_softmax() -> None:
    zeros = np.zeros((4096, 2), np.float16)
    out = kb.launch(softmax_rows, zeros, np.empty((4096, 2), np.float16), pes=1).outputs["o_ptr"]
    np.testing.assert_array_equal(out, np.full((4096, 2), 2.0**-12))
    np.testing.assert_array_equal(out.astype(np.float64).sum(axis=0), [1, 1])


@pytest.mark.parametrize("out_dtype", [np.float16, np.float32])
def test_num_f16_accumulate_dot(out_dtype: Any) -> None:
    a, b = np.ones((1, 4096), np.float16), np.ones((4096, 1), np.float16)
    out = kb.launch(dot_4096, a, b, np.empty((1, 1), out_dtype), pes=1).outputs["o_ptr"]
    np.testing.assert_array_equal(out, [[4096]])


# -- num-f16-score-overflow --------------------------------------------------------------------------------

# Not `naive`: it keeps S in f16 in HBM, which is one of the reasons not to.
OVERFLOWING = {
    "decode": lambda q, k, v: kb.decode(q, k, v, pes=1),
    "decode, 2 PEs": lambda q, k, v: kb.decode(q, k, v, pes=2),
    "decode, tile 1": lambda q, k, v: kb.decode(q, k, v, pes=1, tile=1),
    "flash": lambda q, k, v: kb.flash(q, k, v),
    "prefill": lambda q, k, v: kb.prefill(q, k, v, cubes=2),
}


@pytest.mark.parametrize("bench", OVERFLOWING.values(), ids=OVERFLOWING.keys())
def test_num_f16_score_overflow(bench: Callable[..., Any]) -> None:
    q = np.full((1, 1, 64), 40.0, np.float16)
    k = np.full((2, 1, 64), 40.0, np.float16)
    k[1, 0, -1] = 39.96875
    v = one_head([[1], [0]], d=64)
    run = no_warning(lambda: bench(q, k, v))
    assert run.output[0, 0, 0] == pytest.approx(0.5389832207, abs=1e-3)
    assert run.lse[0, 0] == pytest.approx(12800.6180708, abs=2e-3)


# -- num-bf16-as-bits --------------------------------------------------------------------------------------

A = np.array([[1, -2], [3, 0.5]], bf16)
B = np.array([[2, 1], [-1, 4]], bf16)

BF16_CASES: dict[str, tuple[Callable[[Any, Any, Any], Any], Any, Any]] = {
    # name: operation on (tl, a, b), dtype of the result, expected
    "dot": (lambda tl, a, b: tl.dot(a, b), np.float32, [[4, -7], [5.5, 5]]),
    "a + b": (lambda tl, a, b: a + b, bf16, [[3, -1], [2, 4.5]]),
    "a < b": (lambda tl, a, b: a < b, np.bool_, [[T, T], [F, T]]),
    "max": (lambda tl, a, b: tl.max(a), bf16, [3]),
    "max by rows": (lambda tl, a, b: tl.max(a, axis=1), bf16, [1, 3]),
    "exp": (lambda tl, a, b: tl.exp(tl.zeros((2, 2), "bf16")), bf16, [[1, 1], [1, 1]]),
    "where": (lambda tl, a, b: tl.where(a > 0, a, b), bf16, [[1, 1], [3, 0.5]]),
    "-a": (lambda tl, a, b: -a, bf16, [[-1, 2], [-3, -0.5]]),
}


@pytest.mark.parametrize("name", BF16_CASES)
def test_num_bf16_as_bits(name: str) -> None:
    operation, dtype, expected = BF16_CASES[name]

    def kernel(a_ptr: Any, b_ptr: Any, o_ptr: Any, *, tl: Any) -> None:
        result = operation(tl, tl.load(a_ptr, (2, 2)), tl.load(b_ptr, (2, 2)))
        seen.append(result.dtype)
        tl.store(o_ptr, result)

    seen: list[Any] = []
    want = np.array(expected, dtype)
    out = kb.launch(kernel, A, B, np.empty(want.shape, dtype), pes=1).outputs["o_ptr"]
    assert out.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(out, want)
    assert [np.dtype(getattr(t, "np", t)) for t in seen] == [np.dtype(dtype)]


def test_num_bf16_as_bits_sum_keeps_nan() -> None:
    def kernel(a_ptr: Any, o_ptr: Any, *, tl: Any) -> None:
        tl.store(o_ptr, tl.sum(tl.load(a_ptr, (3,))))

    out = kb.launch(kernel, np.array([1, 2, NAN], bf16), np.empty(1, bf16), pes=1).outputs["o_ptr"]
    assert np.isnan(out[0])
    whole = kb.launch(kernel, np.array([1, 2, 4], bf16), np.empty(1, bf16), pes=1).outputs["o_ptr"]
    assert whole[0] == 7
