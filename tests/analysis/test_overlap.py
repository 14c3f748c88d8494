"""Overlap of engines: by hand on small kernels, by counting on real ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernbench_nb as kb
from kernbench_nb.analysis import overlap

ENGINES = ("dma", "gemm", "math", "ipc")
TICK = 125
"""ps."""


def beside(a: Any, *, tl: Any) -> None:
    """A load of 32 kB under way while the math engine works three times."""
    coming = tl.load_async(a, (8192,))
    x = tl.full((1280,), 1.0, "f32")
    tl.exp(x)
    tl.exp(x)
    tl.wait(coming)


def test_by_hand() -> None:
    run = kb.launch(beside, np.zeros(8192, np.float32), data=False)
    load = run.topology.costs.hbm_busy_ps(32_768)
    # dispatches at 4 ns each; full: 8 + 10, exp: 8 + 80 cycles
    full, first, second = (8_000, 26_000), (30_000, 118_000), (122_000, 210_000)
    busy = (4_000, 4_000 + load)
    assert busy[1] == 204_589, "ends in the second exp"
    row = overlap(run).loc[(0, "dma+math")]
    assert row.both_ps == 18_000 + 88_000 + (busy[1] - 122_000)
    assert row.any_ps == 210_000 - 4_000
    assert row.idle_ps == run.makespan_ps - row.any_ps
    assert run.makespan_ps == busy[1] + 100_000, "nothing is busy while the data is on its way"
    math = sum(b - a for a, b in (full, first, second))
    assert row.hidden == row.both_ps / min(math, load)
    everything = overlap(run).loc[(0, "all")]
    assert (everything.both_ps, everything.any_ps) == (row.both_ps, row.any_ps)
    assert np.isnan(everything.hidden)
    assert np.isnan(overlap(run).loc[(0, "dma+gemm"), "hidden"])


def counted(run: Any, pe: int, engines: tuple[str, ...]) -> list[set[int]]:
    frame = run.frame[run.frame.pe == pe]
    found = []
    for engine in engines:
        mine = frame[frame.engine == engine]
        ends = mine.start_ps + mine.busy_ps
        found.append(
            {t for a, b in zip(mine.start_ps, ends, strict=True) for t in range(a // TICK, b // TICK)}
        )
    return found


@pytest.mark.parametrize("prefetch", [False, True])
def test_a_sweep_by_counting(prefetch: bool) -> None:
    """On a machine whose times are whole multiples of a tick, which makes them few enough to count."""
    machine = {"base": "tiny", "pe.hbm.gb_per_s_per_channel": 32, "pe.hbm.efficiency_percent": 100}
    run = kb.bench(
        "gqa_decode", S_kv=160, h_q=2, h_kv=1, d=32, tile=32, pes=2, topology=machine, prefetch=prefetch, data=False
    )  # fmt: skip
    assert (run.frame.start_ps % TICK == 0).all()
    assert (run.frame.busy_ps % TICK == 0).all()
    table = overlap(run)
    for pe in run.pes:
        for pair in (("dma", "gemm"), ("dma", "math"), ("gemm", "math"), ("math", "ipc")):
            a, b = counted(run, pe, pair)
            row = table.loc[(pe, "+".join(pair))]
            assert (row.both_ps, row.any_ps) == (TICK * len(a & b), TICK * len(a | b))
        everything = counted(run, pe, ENGINES)
        row = table.loc[(pe, "all")]
        assert row.any_ps == TICK * len(set.union(*everything))
        assert row.both_ps == TICK * sum(sum(t in s for s in everything) >= 2 for t in set.union(*everything))
        assert row.idle_ps == run.makespan_ps - row.any_ps


def test_what_waits_for_each_operation_overlaps_in_nothing(runs: Any) -> None:
    table = overlap(runs("plain"))
    assert table["both_ps"].sum() == 0
    assert overlap(runs("prefetched")).loc[(0, "dma+math"), "hidden"] > 0.5


def test_busy_of_the_summary_is_the_same(runs: Any) -> None:
    run = runs("one")
    roof = run.roofline
    table = overlap(run)
    assert table.loc[(0, "gemm+math"), "any_ps"] == roof.compute_ps
    assert table.loc[(0, "dma+ipc"), "any_ps"] == roof.bandwidth_ps
    assert table.loc[(0, "all"), "idle_ps"] == roof.latency_ps
