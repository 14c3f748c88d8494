"""Engines: sums of the log, and two utilisations that are not the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernbench_nb as kb
from kernbench_nb.analysis import by_engine


def small(tl: Any) -> None:
    x = tl.zeros((1, 64), "f16")
    w = tl.zeros((64, 32), "f16")
    y = tl.dot(x, w)
    tl.copy_to(y, y)


def test_a_product_by_hand() -> None:
    """1x64 @ 64x32: 2 native columns x 4 native depths + 20 cycles; of 16 rows one is used."""
    table = by_engine(kb.launch(small, data=False))
    gemm, math = table.loc[(0, "gemm")], table.loc[(0, "math")]
    makespan = sum(4_000 + cycles * 1_000 for cycles in (8 + 1, 8 + 16, 8 + 20, 1))
    assert (gemm.ops, gemm.busy_ps, gemm.flops) == (1, 28_000, 2 * 64 * 32)
    assert gemm.engine_busy == 28_000 / makespan
    assert gemm.macs_used == pytest.approx(64 * 32 / (16**3 * makespan / 1_000), rel=1e-12)
    assert (math.ops, math.busy_ps, math.bytes) == (3, 34_000, 4 * 32)
    assert math.elements == 64 + 64 * 32, "a copy counts bytes"
    assert table["macs_used"].isna().tolist() == [True, False, True, True]


def test_full_tiles_use_the_macs_for_as_long_as_the_engine_streams() -> None:
    def kernel(tl: Any) -> None:
        tl.dot(tl.empty((256, 256), "f16"), tl.empty((256, 256), "f16"))

    run = kb.launch(kernel, data=False, scratch_checks="off")
    gemm = by_engine(run).loc[(0, "gemm")]
    assert gemm.busy_ps == (16**3 + 20) * 1_000
    assert gemm.macs_used / gemm.engine_busy == pytest.approx(16**3 / (16**3 + 20), rel=1e-12)


@pytest.mark.parametrize("name", ["one", "eight", "ring", "naive", "prefetched"])
def test_nothing_is_lost(runs: Any, name: str) -> None:
    run = runs(name)
    table, frame = by_engine(run), run.frame
    assert table["ops"].sum() == len(frame)
    assert table["flops"].sum() == run.flops == frame["flops"].sum()
    assert table.loc[(slice(None), "dma"), "bytes"].sum() == run.hbm_bytes
    assert table["elements"].sum() == frame["elements"].sum()
    for (pe, engine), busy in table["busy_ps"].items():
        assert busy == run.usage.busy_ps[pe][engine]
    assert (table["engine_busy"] == table["busy_ps"] / run.makespan_ps).all()


def test_all_pes_together(runs: Any) -> None:
    run = runs("eight")
    table, each = by_engine(run, per_pe=False), by_engine(run)
    assert table.index.tolist() == ["dma", "gemm", "math", "ipc"]
    for name in ("ops", "busy_ps", "flops", "bytes", "elements"):
        assert table[name].to_dict() == each[name].groupby("engine", observed=False).sum().to_dict()
    assert table["engine_busy"].to_dict() == pytest.approx(run.busy)
    assert table.loc["gemm", "macs_used"] == pytest.approx(run.mac_utilisation)
    assert table.loc["gemm", "engine_busy"] > 10 * table.loc["gemm", "macs_used"], "one row of sixteen"


def test_two_launches_on_a_pe_are_one_pe() -> None:
    run = kb.prefill(*kb.sample_attention(), cubes=2, tile_q=128, data=False)
    assert run.op_log.rows.parts[1].launch == 1
    assert by_engine(run).index.get_level_values("pe").unique().tolist() == list(run.pes)


def test_grouped_heads_lower_the_time_of_the_products_too() -> None:
    """Course 07: 4 096 keys, 8 query heads, d = 128: 35 328 cycles with 8 KV heads, 6 656 with one."""
    cycles = {}
    for h_kv in (8, 1):
        run = kb.bench("gqa_decode", S_kv=4096, h_q=8, h_kv=h_kv, d=128, tile=64, pes=1, data=False)
        cycles[h_kv] = int(by_engine(run).loc[(0, "gemm"), "busy_ps"]) // 1_000
        assert run.flops == 16_777_216
    assert cycles == {8: 35_328, 1: 6_656}


def test_a_machine_with_a_slower_clock_has_fewer_macs() -> None:
    table = [
        by_engine(kb.launch(small, data=False, topology={"base": "single_pe", "pe.clock_ghz": clock}))
        for clock in (1, 0.5)
    ]
    assert table[1].loc[(0, "gemm"), "busy_ps"] == 2 * table[0].loc[(0, "gemm"), "busy_ps"]
    assert np.isclose(*(t.loc[(0, "gemm"), "macs_used"] for t in table)), (
        "twice the time, half the MACs in it"
    )
