"""The float64 references, against brute-force loops, hand-made values and their own laws."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike, NDArray

from kernbench_nb.benches import reference as ref
from kernbench_nb.errors import DTypeError, ShapeError

INF, NAN = math.inf, math.nan


def make(
    seed: int, s_q: int, s_kv: int, h_q: int, h_kv: int, d: int, dtype: Any = np.float32
) -> list[NDArray[Any]]:
    rng = np.random.default_rng(seed)
    shapes = ((s_q, h_q, d), (s_kv, h_kv, d), (s_kv, h_kv, d))
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def by_loops(
    q: NDArray[Any],
    k: NDArray[Any],
    v: NDArray[Any],
    *,
    sm_scale: float | None = None,
    causal: bool = False,
    mask: NDArray[np.bool_] | None = None,
    kv_len: int | None = None,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Attention one number at a time, in Python floats."""
    s_q, h_q, d = q.shape
    s_kv = k.shape[0] if kv_len is None else kv_len
    scale = 1 / math.sqrt(d) if sm_scale is None else sm_scale
    out, lse = np.zeros((s_q, h_q, d)), np.full((s_q, h_q), -INF)
    for i in range(s_q):
        for h in range(h_q):
            g = h // (h_q // k.shape[1])
            keys = [
                j
                for j in range(s_kv)
                if (not causal or j <= i + s_kv - s_q)
                and (mask is None or (mask[i, j] if mask.ndim == 2 else mask[h, i, j]))
            ]
            if not keys:
                continue
            scores = [
                scale * math.fsum(float(a) * float(b) for a, b in zip(q[i, h], k[j, g], strict=True))
                for j in keys
            ]
            total = math.fsum(math.exp(s) for s in scores)
            lse[i, h] = math.log(total)
            for c in range(d):
                weighted = (math.exp(s) * float(v[j, g, c]) for s, j in zip(scores, keys, strict=True))
                out[i, h, c] = math.fsum(weighted) / total
    return out, lse


def column(*values: float, d: int = 4, dtype: Any = np.float16) -> NDArray[Any]:
    """One head whose first column holds the values and whose other columns are 0: (n, 1, d)."""
    array = np.zeros((len(values), 1, d), dtype)
    array[:, 0, 0] = values
    return array


# -- attention ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "dtype", [np.float16, np.float32, np.float64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn]
)
@pytest.mark.parametrize("heads", [(1, 1), (4, 2), (6, 2), (3, 3)])
def test_attention_equals_loops(dtype: Any, heads: tuple[int, int]) -> None:
    q, k, v = make(1, 3, 7, *heads, 4, dtype)
    out, lse = ref.attention(q, k, v)
    want, want_lse = by_loops(q, k, v)
    assert out.dtype == lse.dtype == np.float64
    np.testing.assert_allclose(out, want, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(lse, want_lse, rtol=1e-13, atol=1e-13)


@given(
    seed=st.integers(0, 2**32 - 1),
    s_q=st.integers(0, 5),
    cache=st.integers(0, 7),
    h_kv=st.integers(1, 2),
    group=st.integers(1, 3),
    causal=st.booleans(),
    masking=st.sampled_from(["none", "shared", "per head"]),
    data=st.data(),
)
def test_attention_equals_loops_for_any_shape_and_mask(
    seed: int, s_q: int, cache: int, h_kv: int, group: int, causal: bool, masking: str, data: st.DataObject
) -> None:
    q, k, v = make(seed, s_q, cache, h_kv * group, h_kv, 4)
    kv_len = data.draw(st.integers(0, cache) | st.none())
    if kv_len is not None:
        k[kv_len:], v[kv_len:] = NAN, INF
    mask = None
    if masking != "none":
        shape = (s_q, cache) if masking == "shared" else (h_kv * group, s_q, cache)
        mask = np.random.default_rng(seed + 1).random(shape) < 0.5
    out, lse = ref.attention(q, k, v, causal=causal, mask=mask, kv_len=kv_len)
    want, want_lse = by_loops(q, k, v, causal=causal, mask=mask, kv_len=kv_len)
    np.testing.assert_allclose(out, want, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(lse, want_lse, rtol=1e-12, atol=1e-12)


def test_results_do_not_depend_on_the_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = make(2, 6, 11, 4, 2, 8)
    v[3, 0, 1], v[9, 1, 2] = NAN, INF
    whole = ref.attention(q, k, v, causal=True), ref.tainted(q, k, v, causal=True)
    monkeypatch.setattr(ref, "_KEY_CHUNK", 2)
    monkeypatch.setattr(ref, "_MAX_SCORES", 30)
    cut = ref.attention(q, k, v, causal=True), ref.tainted(q, k, v, causal=True)
    np.testing.assert_allclose(cut[0][0], whole[0][0], rtol=1e-14, atol=1e-14)
    np.testing.assert_allclose(cut[0][1], whole[0][1], rtol=1e-14, atol=1e-14)
    np.testing.assert_array_equal(cut[1], whole[1])


def test_scale_may_be_given() -> None:
    q, k, v = make(3, 2, 5, 2, 1, 4)
    got, _ = ref.attention(q, k, v, sm_scale=0.0)
    np.testing.assert_allclose(got, np.broadcast_to(v.astype(np.float64).mean(axis=0), got.shape), rtol=1e-13)


def test_scores_that_overflow_f16_are_ordinary_here() -> None:
    q = np.full((1, 1, 64), 40.0, np.float16)
    k = np.full((2, 1, 64), 40.0, np.float16)
    k[1, 0, -1] = 39.96875
    v = np.zeros((2, 1, 64), np.float16)
    v[0] = 1.0
    out, lse = ref.attention(q, k, v)
    assert out[0, 0, 0] == pytest.approx(0.5389832207, abs=1e-9)
    assert lse[0, 0] == pytest.approx(12800.6180708, abs=1e-6)


def test_causal_is_bottom_right() -> None:
    k = column(0, 0, 0, 0, 0)
    v = column(1, 2, 3, 4, 5)
    out, lse = ref.attention(column(0, 0), k, v, causal=True)
    np.testing.assert_allclose(out[:, 0, 0], [2.5, 3.0], rtol=1e-15)
    np.testing.assert_allclose(lse[:, 0], [math.log(4), math.log(5)], rtol=1e-15)
    out, lse = ref.attention(column(0), k, v, causal=True)
    assert out[0, 0, 0] == 3.0


def test_causal_with_more_queries_than_keys_leaves_the_first_ones_empty() -> None:
    out, lse = ref.attention(column(0, 0, 0), column(0), column(7), causal=True)
    np.testing.assert_array_equal(out[:, 0, 0], [0, 0, 7])
    np.testing.assert_array_equal(lse[:, 0], [-INF, -INF, 0])


def test_causal_counts_from_the_valid_end_of_a_cache() -> None:
    v = column(1, 2, 3, NAN, NAN)
    out, _ = ref.attention(column(0, 0), column(0, 0, 0, NAN, NAN), v, causal=True, kv_len=3)
    np.testing.assert_allclose(out[:, 0, 0], [1.5, 2.0], rtol=1e-15)


@pytest.mark.parametrize(("heads", "want"), [((4, 2), [10, 10, 20, 20]), ((6, 2), [10, 10, 10, 20, 20, 20])])
def test_query_heads_read_their_own_kv_head(heads: tuple[int, int], want: list[float]) -> None:
    q, k, v = make(4, 1, 3, *heads, 4, np.float16)
    v[:, 0], v[:, 1] = 10, 20
    out, _ = ref.attention(q, k, v)
    np.testing.assert_allclose(out[0, :, 0], want, rtol=1e-15)


@pytest.mark.parametrize("n", [1, 4, 5, 7, 9])
def test_every_key_counts_once(n: int) -> None:
    out, lse = ref.attention(column(2), column(*[-2] * n), np.ones((n, 1, 4), np.float16))
    np.testing.assert_allclose(out, 1.0, rtol=1e-15)
    assert lse[0, 0] == pytest.approx(math.log(n) - 2, abs=1e-14)


# -- rows without keys, values that are not finite ---------------------------------------------------------


def test_a_row_without_keys_is_the_empty_state() -> None:
    q, k, v = column(2, 2), column(1, 2, 3), column(5, 6, 7)
    mask = np.array([[False, False, False], [True, False, False]])
    out, lse = ref.attention(q, k, v, mask=mask)
    np.testing.assert_array_equal(out[:, 0, 0], [0, 5])
    np.testing.assert_array_equal(lse[:, 0], [-INF, 1.0])


def test_no_keys_at_all() -> None:
    out, lse = ref.attention(column(2, 2), column(), column())
    np.testing.assert_array_equal(out, np.zeros((2, 1, 4)))
    np.testing.assert_array_equal(lse, np.full((2, 1), -INF))
    same, _ = ref.attention(column(2, 2), column(1), column(NAN), kv_len=0)
    np.testing.assert_array_equal(same, out)


@pytest.mark.parametrize("junk", [NAN, INF, -INF])
def test_slots_that_are_not_used_may_hold_anything(junk: float) -> None:
    q = column(2)
    k, v = column(0.5, 1, -0.5, 0, 0, 0, 0, 0), column(1, 3, 5, 0, 0, 0, 0, 0)
    v[:3, 0, 1] = [2, 4, 6]
    valid = np.arange(8)[None] < 3
    for how in ({"kv_len": 3}, {"mask": valid}):
        k[3:], v[3:] = 0, 0
        clean, clean_lse = ref.attention(q, k, v, **how)
        np.testing.assert_allclose(clean[0, 0, :2], [2.5809053838, 3.5809053838], atol=1e-9)
        assert clean_lse[0, 0] == pytest.approx(1.6041306053, abs=1e-9)
        k[3:], v[3:] = junk, junk
        out, lse = ref.attention(q, k, v, **how)
        np.testing.assert_array_equal(out, clean)
        np.testing.assert_array_equal(lse, clean_lse)
        assert not ref.tainted(q, k, v, **how).any()


@pytest.mark.parametrize("bad", [NAN, INF])
def test_a_bad_key_spoils_the_rows_that_see_it_and_no_other(bad: float) -> None:
    q, k, v = make(5, 4, 4, 2, 1, 4)
    q = np.abs(q)
    clean = ref.attention(q, k, v, causal=True)
    k[2, 0, 1] = bad
    out, lse = ref.attention(q, k, v, causal=True)
    np.testing.assert_array_equal(out[:2], clean[0][:2])
    np.testing.assert_array_equal(lse[:2], clean[1][:2])
    assert np.isnan(out[2:]).all()
    assert np.isnan(lse[2:]).all()


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_a_bad_value_shows_in_its_column_of_the_rows_that_see_it(bad: float) -> None:
    q, k, v = make(6, 4, 4, 2, 1, 4)
    clean = ref.attention(q, k, v, causal=True)
    v[2, 0, 1] = bad
    out, lse = ref.attention(q, k, v, causal=True)
    np.testing.assert_array_equal(lse, clean[1])
    np.testing.assert_array_equal(out[2:, :, 1], np.full((2, 2), bad))
    out[2:, :, 1] = clean[0][2:, :, 1]
    np.testing.assert_array_equal(out, clean[0])


def test_infinities_of_both_signs_make_nan() -> None:
    out, _ = ref.attention(column(0), column(0, 0), column(INF, -INF))
    assert math.isnan(out[0, 0, 0])
    assert out[0, 0, 1] == 0.0


def test_a_value_with_no_weight_left_still_shows() -> None:
    # exp(-20 000) is 0 even in float64; the row may see the key all the same.
    out, _ = ref.attention(column(200, dtype=np.float32), column(100, -100, dtype=np.float32), column(1, INF))
    assert out[0, 0, 0] == INF
    assert ref.tainted(column(200), column(100, -100), column(1, INF))[0, 0, 0]


# -- tainted: what a tile may spoil ------------------------------------------------------------------------


def spoiled_by_a_tiled_kernel(
    q: NDArray[Any], k: NDArray[Any], v: NDArray[Any], seen: NDArray[np.bool_], rows: int, heads: int
) -> NDArray[np.bool_]:
    """NaN entries of P @ V by tiles of one key each, with the select on V, and weight 0.5 where seen."""
    s_q, h_q, d = q.shape
    out = np.zeros((s_q, h_q, d))
    group = h_q // k.shape[1]
    with np.errstate(invalid="ignore"):
        for start in range(0, s_q, rows):
            for head in range(0, h_q, heads):
                for key in range(k.shape[0]):
                    tile = seen[head : head + heads, start : start + rows, key]
                    value = v[key, head // group] if tile.any() else np.zeros(d)
                    part = np.where(tile, 0.5, 0.0)[..., None] * value
                    out[start : start + rows, head : head + heads] += part.transpose(1, 0, 2)
    return np.isnan(out)


@given(
    seed=st.integers(0, 2**32 - 1),
    bad=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 1), st.integers(0, 2)), max_size=3),
    rows=st.integers(1, 5),
    heads=st.sampled_from([1, 3]),
    causal=st.booleans(),
)
def test_tainted_covers_what_a_tiled_kernel_spoils(
    seed: int, bad: list[tuple[int, int, int]], rows: int, heads: int, causal: bool
) -> None:
    q, k, v = make(seed, 4, 5, 6, 2, 3)
    rng = np.random.default_rng(seed)
    for where in bad:
        v[where] = NAN
    mask = rng.random((6, 4, 5)) < 0.6
    seen = mask & (np.arange(5)[None, :] <= np.arange(4)[:, None] + 1) if causal else mask
    wanted = np.isnan(ref.attention(q, k, v, mask=mask, causal=causal)[0])
    spoiled = spoiled_by_a_tiled_kernel(q, k, v, seen, rows, heads)
    tainted = ref.tainted(q, k, v, mask=mask, causal=causal, rows=rows, heads=heads)
    # Only NaN in V here, so what a row sees is NaN in the reference, and the excuse is exactly the rest.
    np.testing.assert_array_equal(spoiled & ~wanted, tainted & ~wanted)


def test_tainted_knows_the_blocks() -> None:
    q, k, v = make(7, 4, 4, 2, 1, 3)
    v[2, 0, 1] = NAN  # causal: rows 2 and 3 see it
    whole = ref.tainted(q, k, v, causal=True)
    assert whole[:2, :, 1].all()
    assert whole.sum() == 4
    assert not ref.tainted(q, k, v, causal=True, rows=2).any()
    np.testing.assert_array_equal(
        ref.tainted(q, k, v, causal=True, rows=[1, 0, 3])[:, 0, 1], [False, True, False, False]
    )
    assert not ref.tainted(q, k, v).any()


def test_tainted_heads_that_share_a_tile_spoil_each_other() -> None:
    q, k, v = make(8, 1, 2, 4, 2, 3)
    v[1, 0, 0] = NAN
    mask = np.ones((4, 1, 2), np.bool_)
    mask[1, 0, 1] = False  # head 1 does not see the bad key, head 0, of the same group, does
    np.testing.assert_array_equal(ref.tainted(q, k, v, mask=mask)[0, :, 0], [False, True, False, False])
    assert not ref.tainted(q, k, v, mask=mask, heads=1).any()


def test_tainted_refuses_tiles_that_cannot_be() -> None:
    q, k, v = make(9, 4, 4, 6, 2, 3)
    with pytest.raises(ShapeError, match="heads must divide the group of 3 query heads a KV head, got 2"):
        ref.tainted(q, k, v, heads=2)
    v[0, 0, 0] = NAN
    with pytest.raises(ShapeError, match=r"the blocks \[1, 2\] must add up to the 4 query tokens"):
        ref.tainted(q, k, v, rows=[1, 2])
    with pytest.raises(ShapeError, match="rows must be positive, got 0"):
        ref.tainted(q, k, v, rows=0)


# -- errors, memory ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"q": np.zeros((2, 4))}, ShapeError, r"q must be \(tokens, heads, d\), got shape \(2, 4\)"),
        ({"v": np.zeros((3, 2, 4))}, ShapeError, r"got k \(5, 2, 4\) and v \(3, 2, 4\)"),
        ({"q": np.zeros((2, 4, 8))}, ShapeError, r"same d, got q \(2, 4, 8\) and k \(5, 2, 4\)"),
        ({"q": np.zeros((2, 3, 4))}, ShapeError, "multiple of KV heads, got h_q=3 and h_kv=2"),
        ({"k": np.zeros((5, 0, 4)), "v": np.zeros((5, 0, 4))}, ShapeError, "got h_q=4 and h_kv=0"),
        ({"kv_len": 6}, ShapeError, "kv_len must be between 0 and the cache's 5 keys, got 6"),
        ({"kv_len": -1}, ShapeError, "got -1"),
        ({"mask": np.zeros((2, 5))}, DTypeError, r"bool \(True = may attend\), got dtype float64"),
        ({"mask": np.zeros((5, 2), "?")}, ShapeError, r"= \(2, 5\) or .* = \(4, 2, 5\), got \(5, 2\)"),
    ],
)  # fmt: skip
def test_arguments_that_do_not_fit_are_named(
    change: dict[str, Any], error: type[Exception], text: str
) -> None:
    arguments: dict[str, Any] = {"q": np.zeros((2, 4, 4)), "k": np.zeros((5, 2, 4)), "v": np.zeros((5, 2, 4))}
    with pytest.raises(error, match=text):
        ref.attention(**(arguments | change))


def test_a_long_context_stays_small() -> None:
    rng = np.random.default_rng(10)
    k = rng.integers(-2, 3, (131_072, 1, 128), np.int8).astype(np.float16)
    q = rng.standard_normal((1, 8, 128)).astype(np.float16)
    tracemalloc.start()
    try:
        out, lse = ref.attention(q, k, k)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 64 << 20
    half = [ref.attention(q, k[part], k[part]) for part in (slice(0, 50_000), slice(50_000, None))]
    merged, merged_lse = ref.merge(*half)
    np.testing.assert_allclose(merged, out, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(merged_lse, lse, rtol=1e-12)


# -- softmax, naive ----------------------------------------------------------------------------------------


def test_softmax_by_hand() -> None:
    np.testing.assert_allclose(ref.softmax([0, math.log(3)]), [0.25, 0.75], rtol=1e-15)
    np.testing.assert_allclose(ref.softmax([[1e4, 1e4 + math.log(3)]]), [[0.25, 0.75]], rtol=1e-11)
    column_wise = ref.softmax(np.zeros((4096, 2), np.float16), axis=0)
    np.testing.assert_array_equal(column_wise, 2.0**-12)
    np.testing.assert_array_equal(ref.softmax([NAN, 1.0]), [NAN, NAN])
    np.testing.assert_array_equal(ref.softmax([-INF, -INF]), [NAN, NAN])
    assert ref.softmax(np.zeros((2, 0))).shape == (2, 0)


def test_softmax_selects() -> None:
    where = [[True, False, True], [False, False, False]]
    got = ref.softmax([[0.0, NAN, math.log(3)], [1.0, 2.0, INF]], where=where)
    np.testing.assert_allclose(got, [[0.25, 0.0, 0.75], [0.0, 0.0, 0.0]], rtol=1e-15)


def test_naive_keeps_its_matrices() -> None:
    q, k, v = make(11, 3, 5, 4, 2, 4)
    s, p, out = ref.naive(q, k, v, causal=True)
    assert s.shape == p.shape == (4, 3, 5)
    np.testing.assert_array_equal(out, ref.attention(q, k, v, causal=True)[0])
    np.testing.assert_array_equal(np.isneginf(s), np.broadcast_to(np.triu(np.ones((3, 5)), 3) > 0, s.shape))
    np.testing.assert_allclose(p.sum(axis=-1), 1.0, rtol=1e-15)
    np.testing.assert_allclose(
        np.einsum("hij,jhd->ihd", p, np.repeat(v, 2, axis=1)), out, rtol=1e-6, atol=1e-7
    )
    assert s[1, 2, 4] == pytest.approx(
        float(q[2, 1].astype(np.float64) @ k[4, 0].astype(np.float64)) / 2, rel=1e-14
    )


# -- merge -------------------------------------------------------------------------------------------------


def same_bits(left: ArrayLike, right: ArrayLike) -> bool:
    a, b = np.asarray(left), np.asarray(right)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


EMPTY = (np.zeros(4, np.float32), np.float32(-INF))
SOME = (np.array([1, 2, 3, 4], np.float32), np.float32(0.5))


def test_merging_empty_states() -> None:
    out, lse = ref.merge(EMPTY, EMPTY)
    assert same_bits(out, EMPTY[0])
    assert lse == -INF
    for got in (ref.merge(EMPTY, SOME), ref.merge(SOME, EMPTY)):
        assert same_bits(got[0], SOME[0])
        assert same_bits(got[1], SOME[1])


def test_merge_by_hand() -> None:
    out, lse = ref.merge((np.array([4.0]), 0.0), (np.array([8.0]), math.log(3)))
    np.testing.assert_allclose(out, [7.0], rtol=1e-15)
    assert lse == pytest.approx(math.log(4), rel=1e-15)


def test_nan_is_not_taken_for_empty() -> None:
    bad = (np.full(4, NAN, np.float32), np.float32(NAN))
    for got in (ref.merge(bad, EMPTY), ref.merge(EMPTY, bad), ref.merge(bad, SOME)):
        assert np.isnan(got[0]).all()
        assert np.isnan(got[1])


numbers = st.floats(-30, 30, width=32)
lses = numbers | st.just(-INF)


@st.composite
def answers(draw: st.DrawFn) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Two rows of an answer (O, lse) of 3 columns; a row without keys has O = 0."""
    lse = np.array([draw(lses), draw(lses)], np.float32)
    out = np.array(draw(st.lists(numbers, min_size=6, max_size=6)), np.float32).reshape(2, 3)
    return np.where(np.isneginf(lse)[:, None], np.float32(0), out), lse


@given(a=answers(), b=answers())
def test_merge_is_the_same_in_either_order_bit_for_bit(a: Any, b: Any) -> None:
    there, back = ref.merge(a, b), ref.merge(b, a)
    assert same_bits(there[0], back[0])
    assert same_bits(there[1], back[1])
    assert there[0].dtype == np.float32
    top = np.maximum(a[1], b[1])
    assert (there[1] >= top).all()
    assert (there[1] <= top + math.log(2) + 1e-5).all()


@given(a=answers())
def test_the_empty_state_is_the_identity_bit_for_bit(a: Any) -> None:
    empty = (np.zeros((2, 3), np.float32), np.full(2, -INF, np.float32))
    for got in (ref.merge(a, empty), ref.merge(empty, a)):
        assert same_bits(got[0], a[0])
        assert same_bits(got[1], a[1])


@given(a=answers(), b=answers(), c=answers())
def test_merge_associates_to_rounding(a: Any, b: Any, c: Any) -> None:
    left, right = ref.merge(ref.merge(a, b), c), ref.merge(a, ref.merge(b, c))
    np.testing.assert_allclose(left[0], right[0], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(left[1], right[1], rtol=1e-5, atol=1e-5)


# -- running states ----------------------------------------------------------------------------------------


@given(
    seed=st.integers(0, 2**32 - 1),
    cuts=st.lists(st.integers(0, 12), max_size=4),
    order=st.randoms(use_true_random=False),
)
def test_tiles_merge_to_the_whole_in_any_order(seed: int, cuts: list[int], order: Any) -> None:
    rng = np.random.default_rng(seed)
    scores, values = rng.standard_normal((3, 12)) * 5, rng.standard_normal((12, 4))
    scores[rng.random((3, 12)) < 0.3] = -INF
    edges = sorted([0, *cuts, 12])
    # Some tiles have no keys at all, some rows of a tile none that they may see.
    states = [ref.tile_state(scores[:, a:b], values[a:b]) for a, b in itertools.pairwise(edges)]
    while len(states) > 1:
        order.shuffle(states)
        states.append(ref.merge_state(states.pop(), states.pop()))
    out, lse = ref.finish_state(states[0])
    np.testing.assert_allclose(out, ref.softmax(scores, where=scores > -INF) @ values, rtol=1e-12, atol=1e-12)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(lse, np.log(np.exp(scores).sum(axis=-1)), rtol=1e-12, atol=1e-12)


@given(a=answers(), b=answers(), keep=st.booleans())
def test_merge_state_commutes_and_keeps_the_other_side_bit_for_bit(a: Any, b: Any, keep: bool) -> None:
    def state(answer: Any) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        out, m = answer
        length = np.where(np.isneginf(m), 0, 2).astype(np.float32)
        return (m[:, None], length[:, None], out) if keep else (m, length, out)

    there, back = ref.merge_state(state(a), state(b)), ref.merge_state(state(b), state(a))
    assert all(same_bits(x, y) for x, y in zip(there, back, strict=True))
    empty = state((np.zeros((2, 3), np.float32), np.full(2, -INF, np.float32)))
    for got in (ref.merge_state(state(a), empty), ref.merge_state(empty, state(a))):
        assert all(same_bits(x, y) for x, y in zip(got, state(a), strict=True))


def test_merge_state_by_hand() -> None:
    m, length, out = ref.merge_state((0.0, 1.0, [4.0]), (math.log(2), 1.0, [6.0]))
    assert m == math.log(2)
    assert length == pytest.approx(1.5, rel=1e-15)
    np.testing.assert_allclose(out, [8.0], rtol=1e-15)
    answer, lse = ref.finish_state((m, length, out))
    np.testing.assert_allclose(answer, [16 / 3], rtol=1e-15)
    assert lse == pytest.approx(math.log(3), rel=1e-15)


def test_the_empty_state_finishes_as_zero() -> None:
    out, lse = ref.finish_state(ref.tile_state(np.zeros((2, 0)), np.zeros((0, 4))))
    np.testing.assert_array_equal(out, np.zeros((2, 4)))
    np.testing.assert_array_equal(lse, [-INF, -INF])


# -- comparing ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "want"),
    [
        ("f16", 2e-3), ("float16", 2e-3), (np.float16, 2e-3), (np.dtype("f2"), 2e-3), ("fp8", 2e-3),
        (ml_dtypes.float8_e4m3fn, 2e-3), (ml_dtypes.float8_e5m2, 2e-3), ("bf16", 1.6e-2),
        (ml_dtypes.bfloat16, 1.6e-2), ("f32", 1e-5), (np.float32, 1e-5),
    ],
)  # fmt: skip
def test_tolerance(dtype: Any, want: float) -> None:
    assert ref.tolerance(dtype) == want


@pytest.mark.parametrize("dtype", ["f64", "i8", np.int32])
def test_no_tolerance_for_what_attention_does_not_take(dtype: Any) -> None:
    with pytest.raises(
        DTypeError, match=r"no tolerance for dtype \w+: attention runs in f16, bf16, f32 or fp8"
    ):
        ref.tolerance(dtype)


def test_worst_error() -> None:
    assert ref.worst_error([1.0, 2.5], [1.0, 2.0]) == pytest.approx(0.5 / 3)
    assert ref.worst_error([], []) == 0.0
    assert ref.worst_error([NAN, -INF, INF], [NAN, -INF, INF]) == 0.0
    assert ref.worst_error(np.float16(1), np.float64(1)) == 0.0
    for out, want in ((NAN, 1.0), (1.0, NAN), (NAN, -INF), (INF, -INF), (1.0, -INF), (INF, 1.0), (INF, NAN)):
        assert ref.worst_error([0.0, out], [0.0, want]) == INF
    with pytest.raises(ShapeError, match=r"got \(2,\) and \(1,\)"):
        ref.worst_error([1.0, 2.0], [1.0])


def test_worst_error_excuses_nan_and_nothing_else_in_tainted_entries() -> None:
    tainted = [True, True, True, False]
    assert ref.worst_error([NAN, NAN, 3.0, 4.0], [1.0, INF, 3.0, 4.0], tainted=tainted) == 0.0
    assert ref.worst_error([1.5, INF, 3.0, 4.0], [1.0, INF, 3.0, 4.0], tainted=tainted) == 0.25
    assert ref.worst_error([INF, INF, 3.0, 4.0], [1.0, INF, 3.0, 4.0], tainted=tainted) == INF
    assert ref.worst_error([1.0, INF, 3.0, NAN], [1.0, INF, 3.0, 4.0], tainted=tainted) == INF
