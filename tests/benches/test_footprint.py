"""The closed forms of scratch use: every number that the documents and the course quote, and their laws."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernbench_nb.benches.footprint import SCRATCH_BYTES, Footprint, ring_largest_tokens, up16

SAMPLE = Footprint(h_q=9, h_kv=3, d=64)  # the shipped data
LLAMA_8B = Footprint(h_q=32, h_kv=8, d=128)
LLAMA_70B = Footprint(h_q=64, h_kv=8, d=128)
ONE_GROUP = Footprint(h_q=8, h_kv=1, d=128)

footprints = st.builds(
    lambda group, h_kv, d, t_q, itemsize, prefetch: Footprint(group * h_kv, h_kv, d, t_q, itemsize, prefetch),
    st.integers(1, 9),
    st.integers(1, 9),
    st.integers(1, 130),
    st.integers(1, 5),
    st.sampled_from([1, 2, 4]),
    st.booleans(),
)
tiles_of = st.integers(1, 300)


def test_up16() -> None:
    assert [up16(n) for n in (0, 1, 15, 16, 17, 36)] == [0, 16, 16, 16, 32, 48]


# -- quoted numbers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "t", "persistent", "scoped", "peak"),
    [
        (SAMPLE, 16, 3_552, 22_128, 25_680),
        (ONE_GROUP, 256, 6_208, 180_448, 186_656),
        (LLAMA_70B, 16, 49_664, 184_064, 233_728),
        (LLAMA_8B, 64, 24_832, 349_056, 373_888),
    ],
)
def test_the_four_shapes_checked_by_hand(
    shape: Footprint, t: int, persistent: int, scoped: int, peak: int
) -> None:
    assert shape.persistent(t) == persistent
    assert shape.scoped(t) == scoped
    assert shape.peak(t) == peak


@pytest.mark.parametrize(("t", "peak"), [(16, 25_680), (32, 40_560), (48, 55_440)])
def test_the_peak_of_the_sample_is_a_straight_line(t: int, peak: int) -> None:
    assert SAMPLE.peak(t) == peak == 10_800 + 930 * t


def test_one_tile_is_smaller_than_two() -> None:
    assert SAMPLE.peak(16, tiles=1) == 18_432
    assert {SAMPLE.peak(16, tiles=n) for n in (2, 3, 64, 512)} == {25_680}


def test_other_peaks_of_the_course() -> None:
    assert Footprint(9, 3, 64, t_q=4).peak(32) == 88_080
    assert LLAMA_70B.peak(64) == 485_632
    assert LLAMA_70B.peak(256) > SCRATCH_BYTES
    assert LLAMA_70B.largest_tile() < 256


def test_the_fold_in_place_saves_three_score_blocks_and_one_of_o() -> None:
    # Notebook 04's exercise: scale, sub, exp and the last add with out=.
    saved = 3 * up16(4 * 9 * 16) + SAMPLE.out_bytes
    assert SAMPLE.peak(16) - saved == 21_648


def test_the_staircase_of_the_sample() -> None:
    assert SAMPLE.unscoped(16, 1) == 20_800
    assert SAMPLE.unscoped(16, 2) - SAMPLE.unscoped(16, 1) == 22_128
    # It dies in tile 48, where V wants 6 144 B and 6 112 are free: it misses by 32.
    in_use = SAMPLE.unscoped(16, 47, root=False) + SAMPLE.kv_bytes(16) // 2
    assert in_use == 1_042_464
    assert SAMPLE.kv_bytes(16) // 2 - (SCRATCH_BYTES - in_use) == 32


@pytest.mark.parametrize(
    ("shape", "t", "tiles"), [(SAMPLE, 16, 47), (LLAMA_70B, 48, 3), (LLAMA_8B, 8, 12), (LLAMA_8B, 64, 3)]
)
def test_unscoped_capacity(shape: Footprint, t: int, tiles: int) -> None:
    assert shape.capacity(t) == tiles
    assert shape.unscoped(t, tiles) <= SCRATCH_BYTES < shape.unscoped(t, tiles + 1)


def test_the_capacity_that_the_quick_division_gets_wrong() -> None:
    one, later = LLAMA_8B.unscoped(8, 1), LLAMA_8B.scoped(8)
    assert (one, later) == (78_752, 87_424)
    assert one + 11 * later == 1_040_416
    assert (SCRATCH_BYTES // later, SCRATCH_BYTES // one, LLAMA_8B.capacity(8)) == (11, 13, 12)


def test_a_bigger_scratch_only_moves_the_wall() -> None:
    assert SAMPLE.capacity(16, limit=2 * SCRATCH_BYTES) == 94  # twice the tiles, no more


def test_keys_and_values_outside_the_scope() -> None:
    # Notebook 04, beat 4: 12 288 B a tile stay, the rest is given back; 84 tiles fit.
    rest = SAMPLE.scoped(16) - SAMPLE.kv_bytes(16)
    assert SAMPLE.kv_bytes(16) == 12_288
    assert (SCRATCH_BYTES - SAMPLE.persistent(16) - rest) // SAMPLE.kv_bytes(16) == 84


def test_prefetch_costs_one_more_tile_of_keys_and_values() -> None:
    plain, prefetched = SAMPLE, Footprint(9, 3, 64, prefetch=True)
    assert prefetched.peak(64) - plain.peak(64) == 49_152 == plain.kv_bytes(64)
    assert prefetched.persistent(64) - plain.persistent(64) == 2 * plain.kv_bytes(64)


def test_the_largest_tile_with_and_without_a_second_buffer() -> None:
    prefetched = Footprint(8, 1, 128, prefetch=True)
    assert ONE_GROUP.peak(256) == 18_720 + 656 * 256
    assert prefetched.peak(256) == 18_720 + 1_168 * 256
    assert ONE_GROUP.largest_tile() == 1_569
    assert prefetched.largest_tile() == 881


@pytest.mark.parametrize(("budget", "tile"), [(100_000, 95), (25_680, 16), (25_679, 15)])
def test_the_largest_tile_for_a_budget(budget: int, tile: int) -> None:
    assert SAMPLE.largest_tile(budget) == tile


# -- the S = 16 story --------------------------------------------------------------------------------------


def group_of_8(tokens: int) -> Footprint:
    return Footprint(h_q=8, h_kv=1, d=128, t_q=tokens)


def test_sixteen_tokens_fit_four_cubes_and_not_five() -> None:
    shape = group_of_8(16)
    later = shape.ring_unscoped(16, 3) - shape.ring_unscoped(16, 2)
    first = shape.ring_unscoped(16, 2) - later
    assert (first, later) == (218_752, 237_056)
    assert shape.ring_unscoped(16, 4) == first + 3 * later == 929_920 <= SCRATCH_BYTES
    assert shape.ring_unscoped(16, 5) > SCRATCH_BYTES
    assert group_of_8(32).ring_unscoped(32, 4) > SCRATCH_BYTES


@pytest.mark.parametrize(("cubes", "tokens"), [(2, 31), (4, 17), (8, 9), (16, 4)])
def test_the_largest_s_is_found_not_typed_in(cubes: int, tokens: int) -> None:
    assert ring_largest_tokens(cubes) == tokens
    assert group_of_8(tokens).ring_unscoped(tokens, cubes) <= SCRATCH_BYTES
    assert group_of_8(tokens + 1).ring_unscoped(tokens + 1, cubes) > SCRATCH_BYTES


def test_scopes_end_the_story() -> None:
    shape = group_of_8(32)
    assert shape.ring_peak(32, 4) == shape.ring_peak(32, 16) < SCRATCH_BYTES < shape.ring_unscoped(32, 4)


def test_a_block_that_is_cut_into_tiles_needs_less() -> None:
    shape = group_of_8(16)
    buffers = 2 * shape.kv_bytes(4096)
    assert shape.ring_peak(4096, 4) > SCRATCH_BYTES
    cut = shape.ring_peak(4096, 4, tile=32)
    assert cut == shape.peak(32) - shape.kv_bytes(32) + buffers
    assert shape.ring_peak(64, 1, tile=64) < shape.ring_peak(64, 1, tile=32)  # one fold has no old state


# -- other widths, and laws --------------------------------------------------------------------------------


def test_bytes_follow_the_width() -> None:
    half, single, eighth = (Footprint(8, 2, 64, itemsize=n) for n in (2, 4, 1))
    assert half.kv_bytes(32) == 2 * 2 * 32 * 2 * 64
    assert single.kv_bytes(32) == 2 * half.kv_bytes(32)
    assert eighth.kv_bytes(32) == half.kv_bytes(32) // 2
    assert half.score_bytes(32) == (16 + 2) * 8 * 32
    assert single.score_bytes(32) == 16 * 8 * 32  # P is exp itself: nothing to cast
    assert eighth.score_bytes(32) == half.score_bytes(32)  # P is f16 for fp8 inputs
    assert eighth.persistent(32) == half.persistent(32) - 8 * 64  # Q has one byte an element less
    assert {f.merge for f in (half, single, eighth)} == {half.merge}  # the state is f32 for every input


def test_a_merge_block_by_block() -> None:
    received = 48 + 48 + 2304  # m_in, l_in, O_in of 9 rows
    row_sized = ["m_new", "m - m_new", "a", "m_in - m_new", "b", "l * a", "l_in * b", "l_new"]
    guard = 16 + 48  # m_new > -inf, and the maximum that is safe to subtract
    assert SAMPLE.merge == received + guard + 48 * len(row_sized) + 3 * 2304 == 9_760


def test_with_very_small_tiles_the_merge_sets_the_peak() -> None:
    shape = Footprint(8, 1, 128)
    assert shape.peak(1, merges=1) == shape.persistent(1) + shape.merge > shape.peak(1)
    assert shape.peak(64, merges=7) == shape.peak(64)


def test_a_pe_without_keys() -> None:
    assert SAMPLE.peak(16, tiles=0, root=False) == SAMPLE.persistent(16)
    assert SAMPLE.peak(16, tiles=0) == SAMPLE.persistent(16) + SAMPLE.finish
    assert SAMPLE.unscoped(16, 0, merges=2, root=False) == SAMPLE.persistent(16) + 2 * SAMPLE.merge


def test_a_ragged_last_tile() -> None:
    # 40 keys a PE in tiles of 16: two full ones and one of 8.
    assert SAMPLE.peak(16, tiles=2, tail=8) == SAMPLE.peak(16)
    assert SAMPLE.unscoped(16, 2, tail=8) == SAMPLE.unscoped(16, 2) + SAMPLE.scoped(8)
    # 24 keys: the only later tile is the short one.
    assert (
        SAMPLE.peak(16, tiles=1, tail=8) == 3_552 + max(SAMPLE.first(16), SAMPLE.scoped(8)) < SAMPLE.peak(16)
    )
    # Fewer keys than a tile: the short tile is the first one.
    assert SAMPLE.peak(16, tiles=0, tail=8) == 3_552 + SAMPLE.first(8)


def test_a_ragged_tile_of_a_block() -> None:
    shape = group_of_8(16)
    buffers = shape.kv_bytes(20)  # one pair of K and V if no other block comes, else two
    scoped = shape.scoped(4) - shape.kv_bytes(4)
    assert shape.ring_peak(20, 1, tile=16) == shape.persistent(16) + buffers + scoped
    scoped = shape.scoped(16) - shape.kv_bytes(16)
    assert shape.ring_peak(20, 2, tile=16) == shape.persistent(16) + 2 * buffers + scoped


@given(shape=footprints, t=tiles_of)
def test_the_documents_formula(shape: Footprint, t: int) -> None:
    rows, d, item = shape.h_q * shape.t_q, shape.d, shape.itemsize
    kv = 2 * up16(item * t * shape.h_kv * d)
    scores = 4 * up16(4 * rows * t) + (0 if item == 4 else up16(2 * rows * t))
    state = 3 * up16(4 * rows * d) + 7 * up16(4 * rows)
    held = 2 * kv if shape.prefetch else 0
    inside = 0 if shape.prefetch else kv
    assert shape.scoped(t) == inside + scores + state
    assert shape.first(t) == inside + scores
    assert shape.persistent(t) == up16(item * rows * d) + up16(4 * rows * d) + 2 * up16(4 * rows) + held
    assert shape.finish == up16(rows) + up16(4 * rows) + up16(4 * rows * d)


@given(shape=footprints, t=tiles_of, limit=st.integers(0, 1 << 22), merges=st.integers(0, 3))
def test_capacity_is_the_last_count_that_fits(shape: Footprint, t: int, limit: int, merges: int) -> None:
    n = shape.capacity(t, limit=limit, merges=merges)
    assert n >= 0
    assert n == 0 or shape.unscoped(t, n, merges=merges) <= limit
    assert shape.unscoped(t, n + 1, merges=merges) > limit


@given(shape=footprints, limit=st.integers(0, 1 << 20))
def test_the_largest_tile_is_the_last_that_fits(shape: Footprint, limit: int) -> None:
    t = shape.largest_tile(limit)
    assert t == 0 or shape.peak(t) <= limit
    assert shape.peak(t + 1) > limit


@given(shape=footprints, t=tiles_of, tiles=st.integers(1, 50), merges=st.integers(0, 7), root=st.booleans())
def test_scopes_never_cost_anything(shape: Footprint, t: int, tiles: int, merges: int, root: bool) -> None:
    scoped = shape.peak(t, tiles=tiles, merges=merges, root=root)
    unscoped = shape.unscoped(t, tiles, merges=merges, root=root)
    assert scoped <= unscoped
    assert scoped % 16 == unscoped % 16 == 0
    assert scoped == shape.peak(t, tiles=tiles + 1, merges=merges, root=root) or tiles == 1


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"h_q": 4, "h_kv": 3}, "multiple of KV heads, got h_q=4 and h_kv=3"),
        ({"d": 0}, "d must be positive, got 0"),
        ({"t_q": -1}, "t_q must be positive, got -1"),
        ({"itemsize": 8}, r"itemsize must be 1 \(fp8\), 2 \(f16, bf16\) or 4 \(f32\), got 8"),
    ],
)
def test_shapes_that_cannot_be(change: dict[str, Any], text: str) -> None:
    arguments: dict[str, Any] = {"h_q": 6, "h_kv": 3, "d": 64}
    with pytest.raises(ValueError, match=text):
        Footprint(**(arguments | change))
