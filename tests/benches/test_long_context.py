"""The main job at length: 131 072 keys, 8 query heads on 1 KV head, d = 128, 8 PEs of 1 MiB, tiles of 256 keys."""

from __future__ import annotations

import re
from typing import Any

import pytest

import kernbench_nb as kb
from kernbench_nb.benches.footprint import SCRATCH_BYTES, Footprint
from kernbench_nb.runtime_api.text import grouped

TILE, PES = 256, 8
USE = Footprint(8, 1, 128)


def decode(tiles_a_pe: int, **how: Any) -> kb.RunResult:
    return kb.bench(
        "gqa_decode", h_q=8, h_kv=1, d=128, S_kv=PES * TILE * tiles_a_pe, tile=TILE, pes=PES, **how
    )


def test_131_072_keys_in_data_mode_pass_the_check() -> None:
    run = decode(64)
    assert run.params["S_kv"] == 131_072
    assert run.peak_scratch == USE.peak(TILE) == 186_656
    assert run.check() < 1e-4
    timing = decode(64, data=False)
    assert timing.frame.equals(run.frame)
    assert timing.makespan_ps == run.makespan_ps


@pytest.mark.parametrize("tiles", [4, 64, 512])
def test_the_peak_does_not_depend_on_the_context(tiles: int) -> None:
    run = decode(tiles, data=False)
    assert len(run.tile_log) == PES * tiles
    assert run.peak_scratch == 186_656
    # PE 0 divides, PE 7 merges nothing, and neither of it is the largest scope
    assert set(run.peak_scratch_by_pe.values()) == {186_656}


@pytest.mark.parametrize("prefetch", [False, True])
@pytest.mark.parametrize("merge", ["chain", "tree"])
def test_nor_do_its_variants(prefetch: bool, merge: str) -> None:
    peaks = {decode(n, data=False, prefetch=prefetch, merge=merge).peak_scratch for n in (4, 64)}
    assert peaks == {Footprint(8, 1, 128, prefetch=prefetch).peak(TILE, merges=3)}


# -- without scopes ----------------------------------------------------------------------------------------------


def test_it_fits_as_many_tiles_as_the_footprint_says() -> None:
    tiles = USE.capacity(TILE, merges=1)
    assert tiles == 5
    assert decode(tiles, data=False, scoped=False).peak_scratch == USE.unscoped(TILE, tiles, merges=1)
    with pytest.raises(kb.ScratchOverflowError):
        decode(tiles + 1, data=False, scoped=False)


@pytest.fixture(scope="module", params=[(64, False), (8, True)], ids=["timing", "data"])
def overflow(request: pytest.FixtureRequest) -> kb.ScratchOverflowError:
    tiles, data = request.param
    with pytest.raises(kb.ScratchOverflowError) as caught:
        decode(tiles, scoped=False, data=data)
    return caught.value


def test_the_error_counts_bytes(overflow: kb.ScratchOverflowError) -> None:
    # In the sixth tile: K, V, qk, s, max and m_new are there, s - m is not.
    in_use = USE.unscoped(TILE, 5, root=False) + USE.kv_bytes(TILE) + 2 * 8 * TILE * 4 + 2 * USE.row_bytes
    assert (overflow.wanted, overflow.free) == (8 * TILE * 4, SCRATCH_BYTES - in_use)
    assert (overflow.required, overflow.limit, overflow.name) == (in_use + 8192, SCRATCH_BYTES, "scratch")
    assert str(overflow).startswith(
        "TLContext scratch overflow: s-m f32[1x8x256] wants 8 192 B, "
        f"{grouped(SCRATCH_BYTES - in_use)} B free of 1 048 576 B."
    )


def test_the_error_lists_what_is_live_with_the_kernel_lines(overflow: kb.ScratchOverflowError) -> None:
    _, heading, *lines, advice = str(overflow).splitlines()
    in_use = SCRATCH_BYTES - overflow.free
    assert heading == f"Live now, largest first (85 in all, {grouped(in_use)} B in use):"
    found = [re.fullmatch(r" *(?:(\d+) x )?([\d ]+) B  (.*)", line) for line in lines]
    blocks = [(int(m[1] or 1), int(m[2].replace(" ", "")), m[3]) for m in found if m]
    sizes = [size for _, size, _ in blocks]
    assert sizes == sorted(sizes, reverse=True)
    if len(blocks) == len(lines):  # nothing was left out
        assert sum(count * size for count, size, _ in blocks) == in_use
    first = blocks[0]
    assert first[:2] == (6, 65_536)
    assert first[2].startswith("K  f16[256x1x128]  persistent arena 'tile 0' to 'tile 5'")
    assert 'tl.load_async(from_k, shape, name="K")' in first[2]
    texts = "\n".join(text for _, _, text in blocks)
    for name, shape, line in (
        ("V", "f16[256x1x128]", 'tl.load_async(from_v, shape, name="V")'),
        ("qk", "f32[1x8x256]", "qk = tl.dot(q, k)"),
        ("O", "f32[1x8x128]", 'O = tl.empty((h_kv, rows, d), "f32", name="O")'),
    ):
        assert re.search(rf"^{name}  {re.escape(shape)}  persistent arena.*{re.escape(line)}$", texts, re.M)
    assert re.search(r" fold_tile:\d+  ", texts)
    assert "open a tl.scratch_scope() around the tile" in advice
    assert f"ask for at most {grouped(overflow.free)} B" in advice


def test_the_run_so_far_can_be_stepped_through(overflow: kb.ScratchOverflowError) -> None:
    run: Any = overflow.run
    assert not run.completion.ok
    assert run.completion.error is overflow
    assert "ScratchOverflowError" in repr(run)
    assert run.params["scoped"] is False
    assert run.peak_scratch == SCRATCH_BYTES - overflow.free
    assert len(run.frame) == len(run.op_log) > 0
    last = run.memory.iloc[-1]
    assert (last["event"], last["nbytes"], last["name"], last["scope"]) == ("overflow", 8192, "s-m", "tile 5")
    assert last["cursor_after"] == run.peak_scratch
    tiles = run.tiles[run.tiles["pe"] == 0]
    assert list(tiles["tile"]) == [f"tile {i}" for i in range(6)]
    assert (tiles["end_ps"] > tiles["start_ps"]).all()
    assert tiles["peak_scratch"].is_monotonic_increasing
    live = run.memory_log.live(int(last["row"]))
    assert sum(block.size for block in live) == run.peak_scratch


def test_a_run_that_overflowed_has_no_output(overflow: kb.ScratchOverflowError) -> None:
    run: Any = overflow.run
    assert run.lse is None
    for ask in (lambda: run.output, run.check):
        with pytest.raises(RuntimeError, match="did not run to its end"):
            ask()


def test_the_traceback_points_at_the_kernel(overflow: kb.ScratchOverflowError) -> None:
    frames = []
    tb = overflow.__traceback__
    while tb is not None:
        frames.append(tb.tb_frame.f_code.co_name)
        tb = tb.tb_next
    assert frames.index("gqa_decode_long_kernel") < frames.index("fold_tile")
