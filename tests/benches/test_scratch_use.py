"""Bytes of scratch that the kernels really use against the closed forms of `footprint`, to the byte."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import kernbench_nb as kb
from kernbench_nb.benches.footprint import SCRATCH_BYTES, Footprint, ring_largest_tokens
from kernbench_nb.policy.placement.dp import split

SIZES = {1: "f8e4m3", 2: "f16", 4: "f32"}
SHAPES = [  # h_q, h_kv, d, tokens, bytes of an element
    (9, 3, 64, 1, 2), (8, 1, 128, 1, 2), (64, 8, 128, 1, 2), (32, 8, 128, 1, 2), (9, 3, 64, 4, 2), (1, 1, 1, 1, 2),
    (6, 2, 5, 3, 4), (3, 3, 7, 1, 1), (2, 1, 128, 2, 4), (5, 1, 33, 1, 1),
]  # fmt: skip
by_shape = pytest.mark.parametrize(("h_q", "h_kv", "d", "tokens", "item"), SHAPES)


def decode(use: Footprint, keys: int, tile: int, **how: Any) -> kb.RunResult:
    sizes = {"h_q": use.h_q, "h_kv": use.h_kv, "d": use.d, "T_q": use.t_q, "S_kv": keys}
    dtype = SIZES[use.itemsize]
    return kb.bench("gqa_decode", data=False, dtype=dtype, tile=tile, prefetch=use.prefetch, **sizes, **how)


# -- decode ------------------------------------------------------------------------------------------------------


@by_shape
@pytest.mark.parametrize("prefetch", [False, True])
def test_one_pe(h_q: int, h_kv: int, d: int, tokens: int, item: int, prefetch: bool) -> None:
    use = Footprint(h_q, h_kv, d, tokens, item, prefetch)
    for tile in (1, 16, 23):
        for tiles, tail in ((1, 0), (2, 0), (5, 0), (1, tile // 2), (3, tile // 2)):
            keys = tile * tiles + tail
            run = decode(use, keys, tile, pes=1)
            assert run.peak_scratch == use.peak(tile, tiles=tiles, tail=tail)
            assert run.persistent_bytes == use.persistent(tile)
            assert run.peak_by_kind["finish"] == use.persistent(tile) + use.finish
            sweep = [use.first(tile)] + [use.scoped(tile)] * (tiles - 1) + [use.scoped(tail)] * (tail > 0)
            assert list(run.tiles["peak_scratch"]) == [use.persistent(tile) + n for n in sweep]
            needs = use.unscoped(tile, tiles, tail=tail)
            if needs > SCRATCH_BYTES:
                with pytest.raises(kb.ScratchOverflowError):
                    decode(use, keys, tile, pes=1, scoped=False)
            else:
                flat = decode(use, keys, tile, pes=1, scoped=False)
                assert flat.peak_scratch == flat.persistent_bytes == needs


@by_shape
@pytest.mark.parametrize("merge", ["chain", "tree"])
def test_many_pes(h_q: int, h_kv: int, d: int, tokens: int, item: int, merge: str) -> None:
    use, tile = Footprint(h_q, h_kv, d, tokens, item), 4
    for pes, keys in ((2, 16), (3, 8), (8, 5)):
        shares = [stop - start for start, stop in split((0, keys), pes)]
        merges = {0: math.ceil(math.log2(pes)) if merge == "tree" else 1}
        for pe in range(1, pes):
            below = sum(1 for i in range(4) if pe % (2 << i) == 0 and pe + (1 << i) < pes)
            merges[pe] = below if merge == "tree" else int(pe + 1 < pes)
        for scoped, form in ((True, use.peak), (False, use.unscoped)):
            run = decode(use, keys, tile, pes=pes, merge=merge, scoped=scoped)
            assert run.peak_scratch_by_pe == {
                pe: form(tile, tiles=n // tile, tail=n % tile, merges=merges[pe], root=pe == 0)
                for pe, n in enumerate(shares)
            }


def test_parts_of_a_merge_and_of_the_end() -> None:
    use = Footprint(9, 3, 64)
    run = decode(use, 8, 1, pes=8)
    assert run.peak_by_kind["merge"] == use.persistent(1) + use.merge == run.peak_scratch
    assert run.peak_by_kind["finish"] == use.persistent(1) + use.finish


def test_lse_takes_no_scratch() -> None:
    use = Footprint(9, 3, 64)
    assert decode(use, 16, 16, pes=1, lse=True).peak_scratch == decode(use, 16, 16, pes=1).peak_scratch


@pytest.mark.parametrize("item", [1, 2, 4])
def test_a_causal_mask(item: int) -> None:
    """Three new tokens of a cache: the tile with the last keys needs the mask, the others do not."""
    use = Footprint(6, 2, 16, 3, item)
    for tile, keys, last in ((8, 32, 8), (8, 30, 6), (32, 32, 32)):
        run = decode(use, keys, tile, pes=1, causal=True)
        part = use.scoped(last) if keys > tile else use.first(last)
        assert run.tiles["peak_scratch"].iloc[-1] == use.persistent(tile) + part + use.mask_bytes(last)
        assert run.tiles["peak_scratch"].iloc[0] <= use.persistent(tile) + use.first(tile) + use.mask_bytes(
            tile
        )


def test_modes_and_levels_use_the_same_scratch() -> None:
    q, k, v = (np.ones(s, np.float16) for s in ((1, 4, 8), (40, 2, 8), (40, 2, 8)))
    peaks = {
        (data, checks): kb.decode(q, k, v, pes=2, tile=8, data=data, scratch_checks=checks).peak_scratch_by_pe
        for data in (True, False)
        for checks in ("raise", "poison", "off")
    }
    use = Footprint(4, 2, 8)
    assert set(map(str, peaks.values())) == {str({0: use.peak(8, merges=1), 1: use.peak(8, root=False)})}


def test_a_prefetched_sweep_holds_one_tile_of_keys_and_values_more() -> None:
    plain, ahead = (decode(Footprint(9, 3, 64, prefetch=p), 1280, 64, pes=1) for p in (False, True))
    assert ahead.peak_scratch - plain.peak_scratch == 49_152
    assert (plain.peak_scratch, plain.persistent_bytes) == (70_320, 3_552)


@pytest.mark.parametrize(("prefetch", "tile"), [(False, 1_569), (True, 881)])
def test_the_largest_tile_that_fits(prefetch: bool, tile: int) -> None:
    use = Footprint(8, 1, 128, prefetch=prefetch)
    assert use.largest_tile() == tile
    assert decode(use, 2 * tile, tile, pes=1).peak_scratch == use.peak(tile) <= SCRATCH_BYTES
    with pytest.raises(kb.ScratchOverflowError):
        decode(use, 2 * (tile + 1), tile + 1, pes=1)


@pytest.mark.parametrize(
    ("h_q", "h_kv", "d", "tile", "tiles"), [(9, 3, 64, 16, 47), (64, 8, 128, 48, 3), (32, 8, 128, 8, 12)]
)
def test_how_many_tiles_fit_without_scopes(h_q: int, h_kv: int, d: int, tile: int, tiles: int) -> None:
    use = Footprint(h_q, h_kv, d)
    assert use.capacity(tile) == tiles
    fits = decode(use, tiles * tile, tile, pes=1, scoped=False)
    assert fits.peak_scratch == use.unscoped(tile, tiles) <= SCRATCH_BYTES
    with pytest.raises(kb.ScratchOverflowError):
        decode(use, (tiles + 1) * tile, tile, pes=1, scoped=False)


# -- ring --------------------------------------------------------------------------------------------------------


def prefill(use: Footprint, block: int, cubes: int, **how: Any) -> kb.RunResult:
    sizes = {"h_q": use.h_q, "h_kv": 1, "d": use.d, "T_q": cubes * use.t_q, "S_kv": cubes * block}
    dtype = SIZES[use.itemsize]
    return kb.bench("gqa_prefill", data=False, dtype=dtype, cubes=cubes, tile_q=use.t_q, **sizes, **how)


@pytest.mark.parametrize(
    ("group", "d", "tokens", "item"), [(8, 128, 16, 2), (3, 64, 5, 2), (1, 7, 1, 4), (2, 16, 3, 1)]
)
@pytest.mark.parametrize("cubes", [1, 2, 3, 5])
def test_a_ring(group: int, d: int, tokens: int, item: int, cubes: int) -> None:
    use = Footprint(group, 1, d, tokens, item)
    for block in (1, 6, 16):
        run = prefill(use, block, cubes)
        assert set(run.peak_scratch_by_pe.values()) == {use.ring_peak(block, cubes)}
        for tile in (1, 4, 5, 7, 100):
            assert prefill(use, block, cubes, tile=tile).peak_scratch == use.ring_peak(
                block, cubes, tile=tile
            )
        needs = use.ring_unscoped(block, cubes)
        if needs > SCRATCH_BYTES:
            with pytest.raises(kb.ScratchOverflowError):
                prefill(use, block, cubes, scoped=False)
        else:
            assert set(prefill(use, block, cubes, scoped=False).peak_scratch_by_pe.values()) == {needs}


@pytest.mark.parametrize("cubes", [1, 2, 4])
def test_a_causal_ring_stays_below_its_bound(cubes: int) -> None:
    use = Footprint(4, 1, 32, 8)
    run = prefill(use, 8, cubes, causal=True)
    bound = use.ring_peak(8, cubes, causal=True)
    assert use.ring_peak(8, cubes) < bound
    assert run.peak_scratch <= bound
    # the diagonal is folded first, where no old state is corrected; from 16 tokens on a later fold is masked too
    if cubes == 1:
        assert run.peak_scratch == bound
        assert prefill(use, 16, 1, causal=True, tile=8).peak_scratch == use.ring_peak(
            16, 1, tile=8, causal=True
        )


@pytest.mark.parametrize("causal", [False, True])
def test_a_block_that_does_not_fit_is_cut_until_it_does(causal: bool) -> None:
    sizes = {"h_q": 8, "h_kv": 1, "d": 128, "data": False, "causal": causal, "topology": "single_pe"}
    seen = set()
    for keys in (200, 256, 300, 512, 700, 900):
        run = kb.bench("gqa_prefill", T_q=keys, S_kv=keys, cubes=1, tile_q=16, **sizes)
        seen.add(run.params["tile"])
        assert run.peak_scratch <= SCRATCH_BYTES
    assert None in seen
    assert len(seen) > 2


def test_a_block_that_cannot_be_held_says_what_to_do() -> None:
    with pytest.raises(kb.ScratchOverflowError, match="V block") as caught:
        kb.bench("gqa_prefill", T_q=4, S_kv=8192, h_q=8, h_kv=1, d=128, cubes=4, data=False)
    assert caught.value.run.params["tile"] == 1


# -- the S = 16 story --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cubes", [2, 4, 8, 16])
def test_the_largest_s_without_scopes(cubes: int) -> None:
    """Llama-70B's group, S tokens and S keys a cube; the number comes from the footprint, and both sides are run."""
    largest = ring_largest_tokens(cubes)
    use = Footprint(8, 1, 128, largest)
    fits = prefill(use, largest, cubes, scoped=False)
    assert fits.peak_scratch == use.ring_unscoped(largest, cubes) <= SCRATCH_BYTES
    more = Footprint(8, 1, 128, largest + 1)
    with pytest.raises(kb.ScratchOverflowError) as caught:
        prefill(more, largest + 1, cubes, scoped=False)
    assert caught.value.limit == SCRATCH_BYTES < caught.value.required
    assert prefill(more, largest + 1, cubes).completion.ok  # scopes end the story


def test_sixteen_tokens_on_four_cubes_and_not_thirty_two() -> None:
    assert 16 <= ring_largest_tokens(4) < 32
    assert prefill(Footprint(8, 1, 128, 16), 16, 4, scoped=False).peak_scratch == 929_920
    with pytest.raises(kb.ScratchOverflowError):
        prefill(Footprint(8, 1, 128, 16), 16, 5, scoped=False)


# -- flash -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["fa2", "fa1"])
def test_flash_uses_the_same_step(order: str) -> None:
    """One head of one block: Q, the state and the fold; FA1 loads the state in each tile and K, V around it."""
    use = Footprint(1, 1, 64, 64)
    run = kb.bench("flash_attention", T_q=320, S_kv=320, h_q=1, h_kv=1, d=64, order=order, data=False)
    state = 2 * use.row_bytes + use.out_bytes
    query = use.persistent(64) - state
    if order == "fa2":
        assert run.persistent_bytes == 0  # each query block has a scope of its own
        assert run.peak_scratch == use.peak(64)
    else:
        assert (
            run.peak_scratch
            == use.kv_bytes(64) + query + state + use.scoped(64) - use.kv_bytes(64) + use.finish
        )
    assert run.peak_by_kind["tile"] == run.peak_scratch
