"""Causes of a PE's time: they add up, and each is what it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernbench_nb as kb
from kernbench_nb.analysis import overlap, stalls


@pytest.mark.parametrize("name", ["one", "eight", "ring", "naive", "prefetched", "fa1"])
def test_the_causes_add_up_to_the_makespan(runs: Any, name: str) -> None:
    run = runs(name)
    table = stalls(run)
    assert (table["ps"].groupby("pe").sum() == run.makespan_ps).all()
    assert (table["ps"] >= 0).all()
    assert (table["share"] == table["ps"] / run.makespan_ps).all()
    compute = table.xs("compute", level="cause")["ps"]
    assert compute.to_dict() == overlap(run).xs("gemm+math", level="engines")["any_ps"].to_dict()


def test_one_load_and_one_sum() -> None:
    def kernel(a: Any, *, tl: Any) -> None:
        tl.sum(tl.load(a, (128,)))

    run = kb.launch(kernel, np.zeros(128, np.float32), data=False)
    busy = run.topology.costs.hbm_busy_ps(512)
    found = stalls(run)["ps"].to_dict()
    assert found == {
        (0, "compute"): 16_000, (0, "hbm"): busy, (0, "link"): 0, (0, "latency"): 100_000, (0, "message"): 0,
        (0, "dispatch"): 8_000, (0, "over"): 0,
    }  # fmt: skip


def test_waiting_for_a_neighbour_and_being_done_early() -> None:
    def kernel(tl: Any) -> None:
        if tl.program_id(0) == 1:
            x = tl.exp(tl.full((1280,), 1.0, "f32"))
            tl.send(0, x)
        else:
            tl.recv(1, (1280,), "f32")

    run = kb.launch(kernel, pes=2, data=False)
    wire = 5_120 // 64 * 1_000  # 64 B a cycle
    sent = 4_000 + 18_000 + 4_000 + 88_000 + 4_000
    assert run.makespan_ps == sent + wire + 5_000
    table = stalls(run)["ps"]
    assert table[0].to_dict() == {
        "compute": 0, "hbm": 0, "link": 0, "latency": 0, "message": run.makespan_ps - 4_000, "dispatch": 4_000,
        "over": 0,
    }  # fmt: skip
    assert table[1].to_dict() == {
        "compute": 106_000, "hbm": 0, "link": wire, "latency": 0, "message": 0, "dispatch": 12_000, "over": 5_000,
    }  # fmt: skip


def test_half_of_a_chain_is_waiting(runs: Any) -> None:
    """Course 00: PE 0 waits for seven merges, PE 7 is done first."""
    table = stalls(runs("eight"))["ps"]
    assert [table[pe, "message"] for pe in range(8)] == sorted(
        (table[pe, "message"] for pe in range(8)), reverse=True
    )
    assert table[7, "message"] == 0
    assert table[0, "message"] > runs("eight").makespan_ps * 0.4
    assert table[0, "over"] == 0 < table[7, "over"]
