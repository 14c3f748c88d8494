"""Numbers that the course states: bytes, counts and ratios of real runs, which no cost constant can move.

What other tests of this folder hold already (capacities, the S = 16 story, largest tiles, accesses of softmax, the
arena game, forgotten copies) is not repeated.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, log
from typing import Any

import numpy as np
import pytest

import kernbench_nb as kb
from kernbench_nb.benches import wrong

EXACT = {"data": False, "pes": 1}


def one_head() -> Any:
    """Query head 4 of the shipped data, and the KV head that it reads."""
    q, k, v = kb.sample_attention()
    return q[:, 4:5], k[:, 1:2], v[:, 1:2]


def decode(h_q: int, h_kv: int, d: int, keys: int, tile: int, **how: Any) -> kb.RunResult:
    return kb.bench("gqa_decode", h_q=h_q, h_kv=h_kv, d=d, S_kv=keys, tile=tile, **{**EXACT, **how})


def flash(
    n: int, tile_q: int = 64, tile_kv: int = 64, *, queries: int | None = None, **how: Any
) -> kb.RunResult:
    tokens = n if queries is None else queries
    sizes = {"T_q": tokens, "S_kv": n, "h_q": 1, "h_kv": 1, "d": 64}
    return kb.bench("flash_attention", tile_q=tile_q, tile_kv=tile_kv, data=False, **sizes, **how)


def elements(run: kb.RunResult) -> int:
    """Elements that cross HBM."""
    return int(kb.analysis.traffic(run, by="tensor")["elements"].sum())


# -- 1: the sheet -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("h_q", "h_kv", "d", "t", "persistent", "scoped"),
    [
        (9, 3, 64, 16, 3_552, 22_128),
        (8, 1, 128, 256, 6_208, 180_448),
        (64, 8, 128, 16, 49_664, 184_064),
        (32, 8, 128, 64, 24_832, 349_056),
    ],
)
def test_the_sheet(h_q: int, h_kv: int, d: int, t: int, persistent: int, scoped: int) -> None:
    """The formulas as the course prints them, typed from there, and not those of `footprint`."""
    row = 4 * h_q + 15 & ~15
    assert persistent == 6 * h_q * d + 2 * row
    assert scoped == 4 * t * h_kv * d + 18 * h_q * t + 12 * h_q * d + 7 * row
    run = decode(h_q, h_kv, d, 3 * t, t)
    assert run.persistent_bytes == persistent
    assert run.peak_by_kind["tile"] == run.peak_scratch == persistent + scoped


# -- 00: the tour -----------------------------------------------------------------------------------------------


def test_the_tour() -> None:
    q, k, v = kb.sample_attention()
    runs = {pes: kb.decode(q[-1:], k, v, pes=pes, tile=16) for pes in (1, 4, 8)}
    assert {run.peak_scratch for run in runs.values()} == {25_680}
    assert runs[8].hbm_bytes == 2 * k.nbytes + 8 * q[-1].nbytes + q[-1].nbytes == 255_360
    assert runs[8].check() < 2**-11  # half an f16 step
    peaks = [kb.decode(q[-1:], k, v, pes=1, tile=t, data=False).peak_scratch for t in (16, 32, 48)]
    assert peaks == [10_800 + 930 * t for t in (16, 32, 48)] == [25_680, 40_560, 55_440]


def test_copies() -> None:
    """Two cubes of 8 PEs, three tiles each: 3 for each of 15 merges, 3 for each later tile."""
    run = decode(9, 3, 64, 16 * 3 * 16, 16, pes=16, cubes=2)
    assert sum(r.op_name == "copy" for r in run.op_log) == 3 * 15 + 3 * 16 * 2 == 141


# -- 01: bytes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "nbytes"), [(64, 65_536), (128, 196_608), (256, 655_360), (319, 977_416)])
@pytest.mark.parametrize("rows", [8, 16, 64, 128])
def test_standard_attention(n: int, nbytes: int, rows: int) -> None:
    run = kb.naive(*(x[:n] for x in one_head()), rows=rows, data=False)
    assert run.hbm_bytes == nbytes == 2 * (4 * n * n + 4 * n * 64)
    assert Fraction(run.hbm_bytes, 4 * n * 64 * 2) == 1 + Fraction(n, 64)


def test_flash_does_the_same_arithmetic_for_half_the_bytes() -> None:
    naive, tiled = kb.naive(*one_head()), kb.flash(*one_head())
    assert naive.flops == tiled.flops == 26_050_816
    assert (naive.hbm_bytes, tiled.hbm_bytes) == (977_416, 489_984)
    assert tiled.check() < naive.check() < 2e-3


# -- 03: bump ----------------------------------------------------------------------------------------------------


def test_it_missed_by_32_bytes() -> None:
    q, k, v = kb.sample_attention()
    k3, v3 = (np.tile(x, (3, 1, 1)) for x in (k, v))
    with pytest.raises(kb.ScratchOverflowError) as caught:
        kb.decode(q[-1:], k3, v3, pes=1, tile=16, scoped=False)
    error = caught.value
    assert (error.wanted, error.free) == (6_144, 6_112)
    assert "V f16[16x3x64] wants 6 144 B, 6 112 B free" in str(error)
    dead = error.run
    assert dead.peak_scratch == 1_042_464
    assert list(dead.tiles["tile"])[-1] == "tile 47"  # the 48th of 60
    assert not dead.completion.ok
    assert kb.decode(q[-1:], k3[:752], v3[:752], pes=1, tile=16, scoped=False).completion.ok
    # it can be stepped, to the place where it died
    assert kb.step(dead, tile="tile 47") is not None


def test_a_text_three_times_over() -> None:
    q, k, v = kb.sample_attention()
    k3, v3 = (np.tile(x, (3, 1, 1)) for x in (k, v))
    once, thrice = (kb.decode(q[-1:], *kv, pes=1, tile=16, lse=True) for kv in ((k, v), (k3, v3)))
    assert np.abs(once.output.astype(np.float64) - thrice.output.astype(np.float64)).max() <= 2**-9
    assert thrice.lse - once.lse == pytest.approx(log(3), abs=1e-5)


def test_a_bigger_scratch_moves_the_wall() -> None:
    twice = {"base": "ahbm", "pe": {"tcm": {"kernel_scratch_mb": 2}}}
    decode(9, 3, 64, 94 * 16, 16, scoped=False, topology=twice)
    with pytest.raises(kb.ScratchOverflowError):
        decode(9, 3, 64, 95 * 16, 16, scoped=False, topology=twice)


# -- 04: arenas --------------------------------------------------------------------------------------------------


def test_the_peak_does_not_know_the_context() -> None:
    peaks = {tiles: decode(9, 3, 64, 16 * tiles, 16).peak_scratch for tiles in (1, 2, 4, 64, 512)}
    assert peaks == {1: 18_432, 2: 25_680, 4: 25_680, 64: 25_680, 512: 25_680}
    # two runs, one number: the slope without scopes is what a later tile takes with them
    flat = [decode(9, 3, 64, 16 * tiles, 16, scoped=False).peak_scratch for tiles in (2, 3)]
    assert flat[1] - flat[0] == 22_128 == peaks[2] - decode(9, 3, 64, 32, 16).persistent_bytes


def test_131_072_keys() -> None:
    assert decode(8, 1, 128, 131_072, 256, pes=8).peak_scratch == 186_656


@pytest.mark.parametrize(("in_place", "tile"), [((), 95), (("s", "s-m", "exp", "O_new"), 111)])
def test_the_largest_tile_under_100_000_bytes(in_place: tuple[str, ...], tile: int) -> None:
    q, k, v = kb.sample_attention()
    run, more = (wrong.arena_game(q[-1:], k, v, tile=t, in_place=in_place) for t in (tile, tile + 1))
    assert run.peak_scratch <= 100_000 < more.peak_scratch
    run.check()


# -- 05: tiles and loop order ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tile_q", "nbytes"), [(16, 1_714_944), (32, 898_304), (64, 489_984), (128, 326_656), (319, 163_328)]
)
@pytest.mark.parametrize("tile_kv", [16, 64])
def test_query_blocks_count_the_walks(tile_q: int, tile_kv: int, nbytes: int) -> None:
    run = flash(319, tile_q, tile_kv)
    assert run.hbm_bytes == nbytes
    assert elements(run) == (2 + 2 * ceil(319 / tile_q)) * 319 * 64


def test_the_loops_swapped() -> None:
    assert elements(flash(319, order="fa2")) == 244_992
    assert elements(flash(319, order="fa1")) == (2 + 3 * 5) * 319 * 64 + 4 * 319 * 5 == 353_452
    kb.flash(*one_head(), order="fa1").check()


@pytest.mark.parametrize(
    ("scratch", "fa1", "fa2_walks"),
    [
        (4_096, 12_976_128, 130),
        (8_192, 6_553_600, 66),
        (16_384, 3_342_336, 34),
        (32_768, 1_736_704, 34),
        (65_536, 933_888, 34),
    ],
)
def test_theorem_2(scratch: int, fa1: int, fa2_walks: int) -> None:
    """Slope -1 in M for FA1; FA2 gains nothing beyond M = 4 d^2, where B_r stops at d."""
    n, d = 1024, 64
    b_c = ceil(scratch / (4 * d))
    b_r = min(b_c, d)
    passes = ceil(n / b_c)
    got = elements(flash(n, b_r, b_c, order="fa1"))
    assert got == fa1 == (2 + 3 * passes) * n * d + 4 * n * passes
    assert (got - 2 * n * d - 4 * n * passes) * scratch == 12 * n * n * d * d
    assert elements(flash(n, b_r, b_c, order="fa2")) == fa2_walks * n * d
    plain = 4 * n * n + 4 * n * d
    assert (got < plain) is (scratch >= 16_384)


def test_break_even_at_half_a_head() -> None:
    plain = kb.bench("naive_attention", T_q=1024, S_kv=1024, h_q=1, h_kv=1, d=64, data=False).hbm_bytes
    assert plain == 2 * (4 * 1024**2 + 4 * 1024 * 64)
    assert flash(1024, 32).hbm_bytes < plain < flash(1024, 31).hbm_bytes


# -- 06: causal --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("blocks", [2, 4, 5, 8, 16])
def test_causal_share(blocks: int) -> None:
    run = flash(64 * blocks, causal=True)
    assert Fraction(len(run.tiles), blocks**2) == Fraction(blocks + 1, 2 * blocks)
    assert len(run.tiles) + len(run.skipped) == blocks**2


@pytest.mark.parametrize(
    ("queries", "keys", "tile_q", "tile_kv", "run_tiles", "all_tiles"),
    [
        (319, 319, 64, 64, 15, 25),
        (1024, 1024, 128, 64, 72, 128),
        (1024, 1024, 64, 128, 72, 128),
        (64, 319, 64, 64, 5, 5),
        (128, 1024, 64, 64, 31, 32),
        (256, 1024, 64, 64, 58, 64),
        (2048, 2048, 128, 64, 272, 512),
        (319, 319, 319, 64, 5, 5),
    ],
)
def test_causal_tiles(
    queries: int, keys: int, tile_q: int, tile_kv: int, run_tiles: int, all_tiles: int
) -> None:
    run = flash(keys, tile_q, tile_kv, queries=queries, causal=True)
    assert (len(run.tiles), len(run.tiles) + len(run.skipped)) == (run_tiles, all_tiles)
    blocks = ceil(queries / tile_q)
    last_key = (min((i + 1) * tile_q + keys - queries, keys) for i in range(blocks))
    assert run_tiles == sum(ceil(key / tile_kv) for key in last_key)


def test_bytes_fall_less_than_tiles() -> None:
    """Q and O are not skipped: (2 + 6) of (2 + 10) walks remain at five blocks, where 3/5 of the tiles do."""
    assert Fraction(flash(320, causal=True).hbm_bytes, flash(320).hbm_bytes) == Fraction(2, 3)


# -- 07: GQA -----------------------------------------------------------------------------------------------------


def test_heads_that_share_and_heads_that_repeat() -> None:
    q, k, v = kb.sample_attention()
    shared = kb.decode(q[-1:], k, v)
    repeated = kb.decode(q[-1:], np.repeat(k, 3, axis=1), np.repeat(v, 3, axis=1))
    queries = 9 * q[-1].nbytes  # read by 8 PEs, written by one
    assert shared.hbm_bytes - queries == 244_992
    assert repeated.hbm_bytes - queries == 734_976
    assert shared.flops == repeated.flops
    np.testing.assert_allclose(
        shared.output.astype(np.float64), repeated.output.astype(np.float64), atol=2**-9
    )


@pytest.mark.parametrize("keys", [152, 1_024, 4_096])
@pytest.mark.parametrize("group", [1, 2, 4, 8])
def test_intensity(keys: int, group: int) -> None:
    run = decode(group, 1, 128, keys, 64)
    assert Fraction(run.flops, run.hbm_bytes) == Fraction(keys * group, keys + group)


@pytest.mark.parametrize(("group", "keys"), [(4, 76), (8, 152), (16, 304)])
def test_where_95_percent_of_a_group_are_reached(group: int, keys: int) -> None:
    run = decode(group, 1, 128, keys, 64)
    assert Fraction(run.flops, run.hbm_bytes) == Fraction(95, 100) * group


# -- the exam ----------------------------------------------------------------------------------------------------


def test_the_exam() -> None:
    """Those of its ten answers that no test above has."""
    naive = {
        n: kb.bench("naive_attention", T_q=n, S_kv=n, h_q=1, h_kv=1, d=64, data=False) for n in (512, 1024)
    }
    assert naive[512].hbm_bytes == 2_359_296
    assert round(naive[1024].hbm_bytes / naive[512].hbm_bytes, 2) == 3.78
    assert decode(32, 8, 128, 131_072, 64).peak_scratch == 373_888
    decode(32, 8, 128, 3 * 64, 64, scoped=False)
    with pytest.raises(kb.ScratchOverflowError):
        decode(32, 8, 128, 4 * 64, 64, scoped=False)
    assert decode(9, 3, 64, 320, 32, T_q=4).peak_scratch == 88_080
    assert elements(flash(1024, 64, 64, order="fa1")) - 4 * 1024 * 16 == 3_276_800
    assert elements(flash(1024, 64)) == 2_228_224


# -- 14: your own kernel -----------------------------------------------------------------------------------------


def softmax_rows(
    x: Any, out: Any, n: int, m: int, *, tl: Any, scale: float | None = None, lean: bool = False
) -> None:
    for row in range(n):
        with tl.scratch_scope(f"row {row}", kind="tile"):
            s = tl.load(x + row * m, (m,))
            if scale is not None:
                s = tl.mul(s, scale, out=s if lean else None)
            centred = tl.sub(s, tl.max(s), out=s if lean else None)
            e = tl.exp(centred, out=centred if lean else None)
            y = tl.div(e, tl.sum(e), out=e if lean else None)
            tl.store(out + row * m, y)


@pytest.mark.parametrize(
    ("how", "peak"), [({}, 5_152), ({"scale": 0.5}, 6_432), ({"scale": 0.5, "lean": True}, 1_312)]
)
def test_a_softmax_of_ones_own(how: dict[str, Any], peak: int) -> None:
    x = np.random.default_rng(0).standard_normal((9, 319), np.float32)
    out = np.zeros_like(x)
    run = kb.launch(softmax_rows, x, out, 9, 319, **how)
    assert (run.hbm_bytes, run.peak_scratch) == (22_968, peak)
    want = kb.online_softmax(x * np.float32(how.get("scale", 1))).output
    assert np.abs(out - want).max() < 2e-7


# -- a topology that changes one number --------------------------------------------------------------------------

TWICE = {"base": "ahbm", "pe": {"tcm": {"kernel_scratch_mb": 2}}}
X = np.ones((4, 1, 8), np.float16)


@pytest.mark.parametrize(
    "run",
    [
        lambda: kb.decode(X, X, X, topology=TWICE),
        lambda: kb.prefill(X, X, X, topology=TWICE),
        lambda: kb.flash(X, X, X, topology=TWICE),
        lambda: kb.naive(X, X, X, topology=TWICE),
        lambda: kb.safe_softmax(X, topology=TWICE),
        lambda: kb.online_softmax(X, topology=TWICE),
        lambda: kb.bench("gqa_decode", S_kv=64, topology=TWICE),
        lambda: kb.launch(lambda x, *, tl: tl.load(x, (4,)), X.ravel(), topology=TWICE),
        lambda: wrong.arena_game(X[:1], X, X, topology=TWICE),
        lambda: wrong.rebound_decode(X[:1], X, X, topology=TWICE),
    ],
)
def test_every_entry_takes_a_topology_that_changes_one_number(run: Any) -> None:
    assert run().topology.scratch_bytes == 2 << 20
