"""Terms of a sweep against sums by hand, and their prediction against the run: the difference is zero."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernbench_nb as kb
from kernbench_nb.analysis import sweep_terms
from kernbench_nb.topology import costs, resolve_topology
from tests.benches.fold_costs import StepCosts

HEADS = {"h_q": 9, "h_kv": 3, "d": 64}


def decode(keys: int, tile: int, **how: Any) -> kb.RunResult:
    return kb.bench("gqa_decode", S_kv=keys, tile=tile, data=False, **{**HEADS, "pes": 1, **how})


@pytest.mark.parametrize("tile", [16, 64, 128])
@pytest.mark.parametrize("tiles", [2, 5, 20])
def test_both_formulas_to_the_picosecond(tiles: int, tile: int) -> None:
    """Course 08: N = 2, 5, 20 and three tile sizes, written out here."""
    step = StepCosts(resolve_topology(None), 9, 3, 64)
    for prefetch in (False, True):
        run = decode(tiles * tile, tile, prefetch=prefetch)
        (t,) = sweep_terms(run).itertuples()
        assert (t.pe, t.launch, t.scope, t.prefetch, t.equal) == (0, 0, "", prefetch, True)
        N, L, first, C, I = t.N, t.L_ps, t.C_first_ps, t.C_ps, t.I_ps
        assert (tiles, step.load(*step.kv(tile)), 2 * step.dispatch) == (N, L, I)
        assert (first, C) == (step.first(tile), step.fold(tile))
        plain, ahead = N * L + first + (N - 1) * C, L + max(L, I + first) + (N - 2) * max(L, I + C) + C
        assert t.measured_ps == t.predicted_ps == (ahead if prefetch else plain)
        assert t.difference_ps == 0
        assert t.measured_ps == run.makespan_ps - step.query() - step.finish()


def test_the_numbers_of_the_course(runs: Any) -> None:
    plain, ahead = (sweep_terms(runs(name)).iloc[0] for name in ("plain", "prefetched"))
    assert plain[["N", "L_ps", "C_first_ps", "C_ps", "I_ps"]].tolist() == [
        20,
        429_884,
        295_000,
        420_000,
        8_000,
    ]
    assert (plain.measured_ps, ahead.measured_ps) == (16_872_680, 9_017_680)
    assert round(plain.measured_ps / ahead.measured_ps, 2) == 1.87
    assert runs("prefetched").peak_scratch - runs("plain").peak_scratch == 49_152


@pytest.mark.parametrize("changes", [
    {"pe.dispatch_cycles": 0, "pe.hbm.latency_ns": 0}, {"pe.hbm.latency_ns": 0}, {"pe.dispatch_cycles": 0},
    {"pe.clock_ghz": 1.7, "pe.hbm.efficiency_percent": 77}, {"pe.hbm.gb_per_s_per_channel": 2},
    {"pe.dma.setup_ns": 0, "pe.dispatch_cycles": 400},
])  # fmt: skip
@pytest.mark.parametrize("keys", [16, 32, 31, 48, 79])
def test_on_odd_machines_and_with_short_last_tiles(keys: int, changes: dict[str, Any]) -> None:
    for prefetch in (False, True):
        run = decode(keys, 16, prefetch=prefetch, topology={"base": "single_pe", **changes})
        t = sweep_terms(run).iloc[0]
        assert t.difference_ps == 0
        assert -(-keys // 16) == t.N
        assert t.equal == (keys % 16 == 0)


def test_tiles_that_differ_are_added_up_one_by_one() -> None:
    run = decode(4 * 128 + 20, 128, prefetch=True)
    step = StepCosts(run.topology, 9, 3, 64)
    loads = [step.load(*step.kv(t)) for t in (128, 128, 128, 128, 20)]
    folds = [step.first(128), *[step.fold(128)] * 3, step.fold(20)]
    issue = 2 * step.dispatch
    by_hand = loads[0] + folds[-1] + sum(max(b, issue + c) for b, c in zip(loads[1:], folds, strict=False))
    t = sweep_terms(run).iloc[0]
    assert t.predicted_ps == by_hand != costs.sweep_prefetch_ps(5, loads[0], issue, folds[0], folds[1])


def test_a_row_for_each_pe(runs: Any) -> None:
    table = sweep_terms(runs("eight"))
    assert table["pe"].tolist() == list(range(8))
    assert (table["N"] == 3).all()
    assert (table["difference_ps"] == 0).all()
    assert table["equal"].tolist() == [False] * 8, "40 keys are 16, 16 and 8"


def test_a_row_for_each_query_block(runs: Any) -> None:
    table = sweep_terms(runs("causal"))
    assert table["scope"].tolist() == [f"block {i}" for i in range(5)]
    assert table["N"].tolist() == [1, 2, 3, 4, 5]
    assert (table["difference_ps"] == 0).all()
    order = sweep_terms(runs("fa1"))
    assert order["scope"].tolist() == [f"keys {j}" for j in range(5)]
    assert (order["I_ps"] == 4 * 4_000).all(), "Q, m, l and O"
    assert (order["difference_ps"] == 0).all()


def test_the_passes_of_the_naive_kernel_are_sweeps(runs: Any) -> None:
    table = sweep_terms(runs("naive"))
    assert table["scope"].tolist() == ["scores", "", "output"]
    assert table["N"].tolist() == [5, 5, 5]
    assert (table["difference_ps"] == 0).all()


def test_the_difference_is_what_was_waited_for() -> None:
    def kernel(tl: Any) -> None:
        for i in range(2):
            with tl.scratch_scope(f"tile {i}", kind="tile"):
                if tl.program_id(0) == 0:
                    tl.recv(1, (128,), "f32")
                else:
                    tl.send(0, tl.exp(tl.full((128,), 1.0, "f32")))

    run = kb.launch(kernel, pes=2, data=False)
    table = sweep_terms(run).set_index("pe")
    waited = run.frame[run.frame.op_name == "ipc_recv"]
    assert table.loc[0, "difference_ps"] == (waited.end_ps - waited.start_ps).sum() > 0
    assert table.loc[1, "difference_ps"] == 0


def test_loads_one_by_one_are_told_from_loads_together() -> None:
    def kernel(a: Any, together: bool, *, tl: Any) -> None:
        for i in range(3):
            with tl.scratch_scope(f"tile {i}", kind="tile"):
                if together:
                    x, y = tl.wait(tl.load_async(a, (64,)), tl.load_async(a + 64, (64,)))
                else:
                    x, y = tl.load(a, (64,)), tl.load(a + 64, (64,))
                tl.store(a, tl.add(x, y))

    busy = resolve_topology(None).costs.hbm_busy_ps(256)
    add = 4_000 + 9_000 + 4_000 + busy
    for together in (False, True):
        run = kb.launch(kernel, np.zeros(128, np.float32), together=together, data=False)
        t = sweep_terms(run).iloc[0]
        each = 4_000 + busy + 100_000
        assert t.L_ps == (each + busy if together else 2 * each)
        assert t[["N", "C_first_ps", "C_ps", "difference_ps"]].tolist() == [3, add, add, 0]


def test_a_prefetch_loop_of_ones_own() -> None:
    """As the course shows it: buffers outside, the next load issued before the tile's scope."""

    def kernel(a: Any, n: int, *, tl: Any) -> None:
        buffers = [tl.empty((256,), "f32"), tl.empty((256,), "f32")]
        total = tl.zeros((1,))
        coming = tl.load_async(a, (256,), out=buffers[0])
        for i in range(n):
            x = tl.wait(coming)
            if i + 1 < n:
                coming = tl.load_async(a + 256 * (i + 1), (256,), out=buffers[(i + 1) % 2])
            with tl.scratch_scope(f"tile {i}", kind="tile"):
                tl.copy_to(total, tl.add(total, tl.sum(tl.exp(x))))

    for n in (1, 2, 3, 6):
        t = sweep_terms(kb.launch(kernel, np.zeros(256 * n, np.float32), n=n, data=False)).iloc[0]
        assert t.prefetch
        assert (t.N, t.I_ps, t.equal, t.difference_ps) == (n, 4_000, True, 0)


def test_no_tile_no_row(runs: Any) -> None:
    assert len(sweep_terms(runs("nothing"))) == 0


def test_a_tile_within_a_tile_is_no_sweep_of_its_own() -> None:
    def kernel(tl: Any) -> None:
        for i in range(2):
            with tl.scratch_scope(f"tile {i}", kind="tile"):
                x = tl.zeros((4,))
                with tl.scratch_scope("inner", kind="tile"):
                    tl.exp(x)

    t = sweep_terms(kb.launch(kernel, data=False))
    assert t["N"].tolist() == [2]
    assert t["difference_ps"].tolist() == [0]
