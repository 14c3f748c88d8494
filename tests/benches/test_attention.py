"""What attention means here: every kernel against float64, over layouts, dtypes, masks, ragged and empty shards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kernbench_nb as kb
from kernbench_nb.benches import reference

Array = NDArray[Any]
Bench = Callable[..., kb.RunResult]

DECODES: dict[str, dict[str, Any]] = {
    "chain": {"pes": 3, "tile": 4},
    "tree, prefetched": {"pes": 8, "tile": 2, "merge": "tree", "prefetch": True},
    "two cubes": {"pes": 16, "tile": 3},
    "un-scoped": {"pes": 2, "tile": 4, "scoped": False},
}
KERNELS: dict[str, Bench] = {
    **{
        f"decode, {name}": (lambda *a, how=how, **k: kb.decode(*a, **how, **k))
        for name, how in DECODES.items()
    },
    "prefill": lambda *a, **k: kb.prefill(*a, cubes=3, tile_q=4, **k),
    "prefill, backwards, tiled": lambda *a, **k: kb.prefill(*a, cubes=4, tile=2, direction="prev", **k),
    "flash": lambda *a, **k: kb.flash(*a, tile_q=4, tile_kv=3, **k),
    "flash, KV outside": lambda *a, **k: kb.flash(*a, tile_q=4, tile_kv=3, order="fa1", **k),
    "naive": lambda *a, **k: kb.naive(*a, rows=4, **k),
}
by_kernel = pytest.mark.parametrize("bench", KERNELS.values(), ids=KERNELS)


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng((seed, *shape)).standard_normal(shape, np.float32)


def problem(T: int = 5, S: int = 21, h_q: int = 6, h_kv: int = 2, d: int = 8) -> tuple[Array, Array, Array]:
    return tuple(
        normal(*s, seed=i).astype(np.float16) for i, s in enumerate(((T, h_q, d), (S, h_kv, d), (S, h_kv, d)))
    )  # type: ignore[return-value]


# -- the shipped data --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tile", [16, 17, 40, 64, 319])
@pytest.mark.parametrize("pes", [1, 3, 8, 16])
def test_decode_of_the_sample(pes: int, tile: int) -> None:
    q, k, v = kb.sample_attention()
    run = kb.decode(q[-1:], k, v, pes=pes, tile=tile)
    assert run.output.shape == (1, 9, 64)
    assert run.output.dtype == np.float16
    assert run.check() < 5e-4


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("direction", ["next", "prev"])
@pytest.mark.parametrize("cubes", [1, 2, 3, 4])
def test_prefill_of_the_sample(cubes: int, direction: str, causal: bool) -> None:
    q, k, v = kb.sample_attention()
    run = kb.prefill(q, k, v, cubes=cubes, causal=causal, direction=direction)
    assert run.check() < 1e-3
    assert run.counters.get("skipped_tiles", 0) == len(run.skipped)
    assert bool(run.counters) == causal


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("order", ["fa2", "fa1"])
def test_flash_of_the_sample(order: str, causal: bool) -> None:
    q, k, v = kb.sample_attention()
    run = kb.flash(q, k, v, order=order, causal=causal)
    assert run.check() < 1e-3
    assert len(run.tiles) == 9 * (15 if causal else 25)
    assert run.counters == ({"skipped_tiles": 9 * 10} if causal else {})


@pytest.mark.parametrize("causal", [False, True])
def test_naive_of_the_sample(causal: bool) -> None:
    q, k, v = kb.sample_attention()
    run = kb.naive(q, k, v, causal=causal)
    # S and P stand in HBM in f16: worse than flash, and the check's tolerance says by how much it may be
    assert 1e-3 < run.check() < run.reference.tol < 2e-2
    assert run.lse is not None
    want = reference.attention(q, k, v, causal=causal)[1]
    assert reference.worst_error(run.lse, want) < run.reference.tol


def test_the_tour() -> None:
    q, k, v = kb.sample_attention()
    run = kb.decode(q[-1:], k, v, pes=8, tile=16)
    assert run.check() == pytest.approx(3.0e-4, abs=5e-6)
    assert run.hbm_bytes == 255_360
    assert [kb.decode(q[-1:], k, v, pes=pes, tile=16).peak_scratch for pes in (1, 4, 8)] == [25_680] * 3
    assert kb.decode(q[-1:], k, v, pes=1, tile=32).peak_scratch == 40_560
    shares = run.tiles.groupby("pe")["tile"].count()
    assert list(shares) == [3] * 8


# -- dtypes and layouts ------------------------------------------------------------------------------------------


@by_kernel
@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f8e4m3", "f8e5m2"])
@pytest.mark.parametrize("causal", [False, True])
def test_dtypes(bench: Bench, dtype: str, causal: bool) -> None:
    run = bench(*problem(), dtype=dtype, causal=causal, lse=True)
    assert run.params["dtype"] == dtype
    expected = {
        "f8e4m3": "float16",
        "f8e5m2": "float16",
        "f16": "float16",
        "bf16": "bfloat16",
        "f32": "float32",
    }[dtype]
    assert run.output.dtype.name == ("float32" if run.params.get("order") == "fa1" else expected)
    assert run.output.shape == (5, 6, 8)
    assert run.lse is not None
    assert (run.lse.shape, run.lse.dtype) == ((5, 6), np.float32)
    run.check()


@by_kernel
def test_rank_two_is_the_same_problem(bench: Bench) -> None:
    q, k, v = problem()
    three = bench(q, k, v)
    two = bench(q.reshape(5, -1), k.reshape(21, -1), v.reshape(21, -1), h_q=6, h_kv=2)
    assert two.output.shape == (5, 48)
    np.testing.assert_array_equal(two.output.reshape(5, 6, 8), three.output)
    assert two.check() == three.check()


@by_kernel
@pytest.mark.parametrize(("h_q", "h_kv", "d"), [(1, 1, 1), (2, 2, 4), (5, 1, 3), (6, 3, 4), (7, 7, 2)])
def test_heads_and_sizes(bench: Bench, h_q: int, h_kv: int, d: int) -> None:
    bench(*problem(4, 9, h_q, h_kv, d), causal=True).check()


@by_kernel
def test_a_scale_of_ones_own(bench: Bench) -> None:
    for scale in (0, 0.3, -1, np.float32(2)):
        bench(*problem(), sm_scale=scale).check()
    even = bench(*problem(), sm_scale=0.0)
    want = np.repeat(problem()[2].astype(np.float64).mean(axis=0), 3, axis=0)
    assert reference.worst_error(even.output[0], want) < 1e-3


@by_kernel
def test_inputs_in_any_memory_order(bench: Bench) -> None:
    q, k, v = problem()
    turned = bench(np.asfortranarray(q), k[::-1][::-1], np.array(v, order="F"))
    np.testing.assert_array_equal(turned.output, bench(q, k, v).output)


@by_kernel
def test_inputs_that_repeat_in_memory(bench: Bench) -> None:
    """Zero strides along some axes, converted or not, stand for equal values along those axes only."""
    q, k, v = problem()
    k, v = np.broadcast_to(k[:1], k.shape), np.broadcast_to(v[:, :1], v.shape)
    for dtype in (None, "f32"):
        run = bench(q, k, v, dtype=dtype)
        run.check()
        np.testing.assert_array_equal(run.output, bench(q, k.copy(), v.copy(), dtype=dtype).output)


# -- causal ------------------------------------------------------------------------------------------------------


@by_kernel
@pytest.mark.parametrize(("T", "S"), [(1, 7), (2, 7), (7, 7), (9, 7), (20, 3), (3, 0)])
def test_causal_is_bottom_right(bench: Bench, T: int, S: int) -> None:
    """Query i sees keys up to i + S_kv - S_q; with more queries than keys the first rows see none."""
    run = bench(*problem(T, S), causal=True, lse=True)
    run.check()
    blind = max(T - S, 0)
    assert (run.output[:blind] == 0).all()
    assert (run.lse[:blind] == -np.inf).all()
    assert np.isfinite(run.lse[blind:]).all()


@pytest.mark.parametrize("T", [1, 3, 5])
def test_the_token_decides_not_the_row(T: int) -> None:
    """Heads are packed into rows: a causal decode of T tokens is T decodes of one token each."""
    q, k, v = problem(T, 20)
    run = kb.decode(q, k, v, pes=3, tile=4, causal=True)
    for i in range(T):
        keys = 20 - T + i + 1
        alone = kb.decode(q[i : i + 1], k[:keys], v[:keys], pes=1, tile=64)
        np.testing.assert_allclose(run.output[i], alone.output[0], rtol=0, atol=2e-3)


@pytest.mark.parametrize(
    "sizes", [(64, 64, 8, 8), (30, 70, 8, 16), (70, 30, 16, 8), (16, 64, 4, 16), (5, 5, 1, 1), (1, 9, 4, 4)]
)
@pytest.mark.parametrize("order", ["fa2", "fa1"])
def test_tiles_above_the_diagonal_are_skipped_and_counted(sizes: tuple[int, ...], order: str) -> None:
    T, S, tile_q, tile_kv = sizes
    q, k, v = problem(T, S, 1, 1)
    run = kb.flash(q, k, v, tile_q=tile_q, tile_kv=tile_kv, causal=True, order=order)
    run.check()
    blocks, columns = -(-T // tile_q), -(-S // tile_kv)
    kept = sum(max(0, -(-min((i + 1) * tile_q + S - T, S) // tile_kv)) for i in range(blocks))
    if T % tile_q:  # the last block is shorter, and its last row sees everything
        kept += columns - max(0, -(-min(blocks * tile_q + S - T, S) // tile_kv))
    assert len(run.tiles) == kept
    assert run.counters.get("skipped_tiles", 0) == len(run.skipped) == blocks * columns - kept
    for rows, keys in zip(run.skipped["rows_stop"], run.skipped["keys_start"], strict=True):
        assert keys > rows - 1 + S - T


def test_a_chunk_at_the_end_of_a_cache() -> None:
    run = kb.bench("flash_attention", T_q=256, S_kv=1024, h_q=1, h_kv=1, d=8, causal=True, data=False)
    assert (len(run.tiles), run.counters["skipped_tiles"]) == (58, 6)


@pytest.mark.parametrize("cubes", [1, 2, 3, 4, 5])
def test_skipped_blocks_of_a_ring(cubes: int) -> None:
    """Square and even: of C x C blocks, those above the diagonal are never folded, in either direction."""
    q, k, v = problem(4 * cubes, 4 * cubes, 2, 1)
    for direction in ("next", "prev"):
        run = kb.prefill(q, k, v, cubes=cubes, causal=True, direction=direction)
        run.check()
        assert run.counters.get("skipped_tiles", 0) == cubes * (cubes - 1) // 2


@pytest.mark.parametrize(("T", "S"), [(29, 31), (7, 30), (30, 7), (2, 3), (5, 0), (1, 1)])
@pytest.mark.parametrize("causal", [False, True])
def test_ragged_shards_of_a_ring(T: int, S: int, causal: bool) -> None:
    """Tokens and keys that do not divide over the cubes; some cubes have none, and blocks still pass."""
    q, k, v = problem(T, S, 2, 1, 4)
    for cubes in (3, 4):
        for direction in ("next", "prev"):
            for tile_q in (3, 64):
                run = kb.prefill(
                    q, k, v, cubes=cubes, causal=causal, direction=direction, tile_q=tile_q, lse=True
                )
                run.check()


# -- fewer keys --------------------------------------------------------------------------------------------------


@by_kernel
@pytest.mark.parametrize("S", [0, 1, 2, 5])
def test_few_keys(bench: Bench, S: int) -> None:
    run = bench(*problem(2, S), lse=True)
    run.check()
    if S == 0:
        assert (run.output == 0).all()
        assert (run.lse == -np.inf).all()


@pytest.mark.parametrize("kv_len", [0, 1, 4, 10, 20, 21])
@pytest.mark.parametrize("causal", [False, True])
def test_a_cache_that_is_not_full(kv_len: int, causal: bool) -> None:
    q, k, v = problem(3, 21)
    short = kb.decode(q, k[:kv_len], v[:kv_len], pes=1, tile=4, causal=causal)
    k[kv_len:], v[kv_len:] = np.nan, np.inf
    for bench in [KERNELS[name] for name in KERNELS if "decode" in name or "flash" in name]:
        run = bench(q, k, v, kv_len=kv_len, causal=causal)
        run.check()
        np.testing.assert_allclose(run.output, short.output, rtol=0, atol=2e-3)


def test_keys_beyond_the_valid_ones_are_not_loaded() -> None:
    q, k, v = problem(1, 64)
    run = kb.decode(q, k, v, pes=4, tile=4, kv_len=20)
    reads = [r for r in run.op_log if r.op_name == "dma_read" and r.tensor == "K"]
    assert sum(r.nbytes for r in reads) == 20 * 2 * 8 * 2
    assert {r.pe for r in reads} == {0, 1}  # the shards are those of 64 keys


# -- masks and values that are not numbers -----------------------------------------------------------------------


@pytest.mark.parametrize("order", ["fa2", "fa1"])
@pytest.mark.parametrize("causal", [False, True])
def test_masks(order: str, causal: bool) -> None:
    q, k, v = problem(9, 13)
    rng = np.random.default_rng(0)
    for share in (0.0, 0.1, 0.5, 1.0):
        mask = rng.random((9, 13)) < share
        run = kb.flash(q, k, v, mask=mask, tile_q=4, tile_kv=3, causal=causal, order=order, lse=True)
        run.check()
        seen = mask & (np.tri(9, 13, 13 - 9, dtype=bool) if causal else True)
        empty = ~seen.any(axis=1)
        assert (run.output[empty] == 0).all()
        assert (run.lse[empty] == -np.inf).all()


def test_a_fully_masked_row_beside_others_in_its_tile() -> None:
    q, k, v = problem(3, 6)
    mask = np.array([[False] * 6, [True] * 6, [False, True] * 3])
    run = kb.flash(q, k, v, mask=mask)
    assert (run.output[0] == 0).all()
    alone = kb.flash(q[1:2], k, v)
    np.testing.assert_array_equal(run.output[1], alone.output[0])


@by_kernel
def test_a_nan_key_shows_in_the_rows_that_see_it(bench: Bench) -> None:
    q, k, v = problem(6, 6)
    k[4, 1, 3] = np.nan
    run = bench(q, k, v, causal=True, lse=True)
    run.check()
    sees = np.isnan(run.output).all(axis=2)
    np.testing.assert_array_equal(sees[:, :3], np.zeros((6, 3), bool))  # the other KV head
    np.testing.assert_array_equal(sees[:, 3:], np.repeat(np.arange(6)[:, None] >= 4, 3, axis=1))


@by_kernel
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("key", [3, 5])
def test_a_bad_value_may_spoil_its_tile_and_nothing_else(bench: Bench, key: int, bad: float) -> None:
    q, k, v = problem(6, 6)
    v[key, 0, 2] = bad
    run = bench(q, k, v, causal=True)
    run.check()  # with the reference's own idea of what may be spoiled
    good = bench(q, k, problem(6, 6)[2], causal=True)
    clean = np.ones(run.output.shape, bool)
    clean[:, :3, 2] = False
    np.testing.assert_array_equal(run.output[clean], good.output[clean])
    assert not np.isfinite(run.output[key:, :3, 2].astype(np.float32)).any()


def test_a_value_that_no_row_of_the_tile_sees_spoils_nothing() -> None:
    q, k, v = problem(4, 8)
    clean = kb.flash(q, k, v, mask=np.arange(8)[None].repeat(4, 0) < 5)
    k[5:], v[5:] = np.nan, np.nan
    run = kb.flash(q, k, v, mask=np.arange(8)[None].repeat(4, 0) < 5)
    np.testing.assert_array_equal(run.output, clean.output)


@by_kernel
def test_nothing_of_it_warns(bench: Bench) -> None:
    q, k, v = problem(6, 6)
    q[0], k[1], v[2] = 60000, np.nan, np.inf
    assert bench(q, k, v, causal=True).warnings == ()  # and pytest makes an error of any warning


# -- anything ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(100))
def test_any_problem(seed: int) -> None:
    """Random sizes, dtypes, options, and values that are not numbers: the check passes, and both modes log the same."""
    rng = np.random.default_rng(seed)

    def pick(*choices: Any) -> Any:
        return choices[rng.integers(len(choices))]

    group, h_kv, d = pick(1, 2, 3), pick(1, 2, 3), pick(1, 3, 4, 8)
    S, T = pick(0, 1, 2, 3, 5, 8, 13, 21), pick(1, 1, 2, 3, 5, 9, 22)
    q, k, v = (
        normal(T, h_kv * group, d, seed=seed),
        normal(S, h_kv, d, seed=seed),
        normal(S, h_kv, d, seed=seed + 1),
    )
    if S and seed % 3 == 0:
        v[rng.integers(S), rng.integers(h_kv), rng.integers(d)] = pick(np.nan, np.inf, -np.inf)
    if S and seed % 3 == 1:
        k[rng.integers(S), rng.integers(h_kv), rng.integers(d)] = np.nan
    how: dict[str, Any] = {
        "dtype": pick("f16", "bf16", "f32", "f8e4m3", "f8e5m2"),
        "causal": pick(True, False),
        "lse": pick(True, False),
        "sm_scale": pick(None, None, 0.0, -1.0, 2.0),
    }
    size = (1, 2, 3, 64)
    bench, more = pick(
        (kb.decode, {"pes": pick(1, 2, 3, 8, 16), "tile": pick(*size), "merge": pick("chain", "tree"),
                     "prefetch": pick(True, False), "kv_len": pick(None, S // 2)}),
        (kb.prefill, {"cubes": pick(1, 2, 3, 5), "tile_q": pick(*size), "tile": pick(None, *size),
                      "direction": pick("next", "prev")}),
        (kb.flash, {"tile_q": pick(*size), "tile_kv": pick(*size), "order": pick("fa2", "fa1"),
                    "mask": pick(None, rng.random((T, S)) < 0.6), "kv_len": pick(None, S // 2)}),
        (kb.naive, {"rows": pick(*size)}),
    )  # fmt: skip
    run = bench(q, k, v, **how, **more)
    run.check()
    timing = bench(q, k, v, data=False, **how, **more)
    assert timing.frame.equals(run.frame)
    assert timing.memory.equals(run.memory)
