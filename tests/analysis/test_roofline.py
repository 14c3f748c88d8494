"""The roof from the topology, the dot from the run, both by formulas that stand beside them."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

import kernbench_nb as kb
from kernbench_nb.analysis import roofline


@pytest.mark.parametrize("group", [1, 2, 4, 8])
@pytest.mark.parametrize("keys", [152, 1024, 4096])
def test_intensity_of_grouped_heads(keys: int, group: int) -> None:
    """Course 07: S*G / (S + G) FLOP a byte on one PE, f16, exactly."""
    run = kb.bench("gqa_decode", S_kv=keys, h_q=8, h_kv=8 // group, d=128, tile=152, pes=1, data=False)
    exact = Fraction(keys * group, keys + group)
    assert Fraction(run.flops, run.hbm_bytes) == exact
    assert roofline(run).loc["intensity", "value"] == float(exact)


def test_keys_and_values_shrink_with_the_heads() -> None:
    def kv_bytes(h_kv: int) -> int:
        run = kb.bench("gqa_decode", S_kv=4096, h_q=8, h_kv=h_kv, d=128, tile=64, pes=1, data=False)
        return int(kb.analysis.traffic(run).loc[["K", "V"], "bytes"].sum())

    assert [kv_bytes(8) // kv_bytes(8 // g) for g in (1, 2, 4, 8)] == [1, 2, 4, 8]


def test_on_many_pes_q_is_read_by_each(runs: Any) -> None:
    """Course 00: K and V once, Q once a PE, O once."""
    run = runs("eight")
    assert run.hbm_bytes == 2 * 319 * 3 * 64 * 2 + 8 * 1152 + 1152 == 255_360
    assert roofline(run).loc["peak_gb_per_s", ["value", "unit", "formula"]].tolist() == [
        2048.0, "GB/s", "256 GB/s * 8 PEs",
    ]  # fmt: skip


def test_every_value_follows_from_its_formula(runs: Any) -> None:
    for name in ("one", "eight", "naive", "flash"):
        run = runs(name)
        v = roofline(run)["value"]
        pes = len(run.pes)
        assert v.peak_gflops == 2 * 16**3 * pes
        assert v.peak_gb_per_s == 256 * pes
        assert v.ridge == 32
        assert v.intensity == v.flops / v.hbm_bytes
        assert v.attainable_gflops == min(v.peak_gflops, v.intensity * v.peak_gb_per_s)
        assert v.achieved_gflops == pytest.approx(v.flops / (v.makespan_ps / 1000))
        assert v.achieved_gb_per_s == pytest.approx(v.hbm_bytes / (v.makespan_ps / 1000))
        assert v.share_of_roof == v.achieved_gflops / v.attainable_gflops
        assert v.roof == ("bandwidth" if v.intensity < v.ridge else "compute")
        terms = {"compute": v.compute_ps, "bandwidth": v.bandwidth_ps, "latency": v.latency_ps}
        assert terms[v.binds] == max(terms.values())
        assert v.share_of_roof <= 1


def test_the_naive_kernel_is_bound_by_what_the_roof_does_not_know(runs: Any) -> None:
    """Course 01: half of the bytes and about the same time, since exp binds."""
    naive, flash = runs("naive"), runs("flash")
    assert naive.flops == flash.flops == 4 * 319 * 319 * 64 == 26_050_816
    assert (naive.hbm_bytes, flash.hbm_bytes) == (977_416, 489_984)
    table = roofline(naive)["value"]
    assert (table.roof, table.binds, table.compute_engine) == ("bandwidth", "compute", "math")
    assert roofline(flash)["value"].roof == "compute"


def test_a_systolic_engine_has_its_own_peak() -> None:
    machine = {"base": "single_pe", "pe.gemm.model": "systolic", "pe.gemm.rows": 32, "pe.gemm.cols": 8}
    run = kb.bench("gqa_decode", S_kv=64, h_q=2, h_kv=1, d=32, tile=32, pes=1, topology=machine, data=False)
    peak = roofline(run).loc["peak_gflops"]
    assert peak.value == 2 * 32 * 8
    assert peak.formula == "2 FLOP * 32*8 MAC a cycle * 1 GHz * 1 PE"


def test_nothing_through_hbm_is_under_the_flat_part(runs: Any) -> None:
    v = roofline(runs("nothing"))["value"]
    assert (v.intensity, v.roof, v.binds, v.share_of_roof) == (float("inf"), "compute", "nothing", 0.0)


def test_formulas_are_short_enough_to_be_shown_whole(runs: Any) -> None:
    assert roofline(runs("eight"))["formula"].str.len().max() <= 50, "pandas cuts longer ones"
