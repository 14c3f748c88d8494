"""Two runs side by side."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernbench_nb as kb
from kernbench_nb.analysis import compare


def test_naive_against_flash(runs: Any) -> None:
    table = compare(runs("naive"), runs("flash"), names=("naive", "flash"))
    assert table.columns.tolist() == ["unit", "naive", "flash", "difference", "ratio"]
    assert table.loc["hbm_bytes"].tolist() == ["B", 977_416, 489_984, -487_432, 489_984 / 977_416]
    assert table.loc["flops"].tolist() == ["FLOP", 26_050_816, 26_050_816, 0, 1.0]
    assert type(table.loc["hbm_bytes", "difference"]) is int
    moved = table.loc[["read_bytes", "write_bytes", "hbm_bytes"], "naive"].tolist()
    assert moved[0] + moved[1] == moved[2]


def test_every_number_is_the_runs(runs: Any) -> None:
    a, b = runs("plain"), runs("prefetched")
    table = compare(a, b)
    for column, run in (("a", a), ("b", b)):
        assert table[column].to_dict() == {
            "makespan_ps": run.makespan_ps, "peak_scratch": run.peak_scratch,
            "persistent_bytes": run.persistent_bytes, "hbm_bytes": run.hbm_bytes,
            "read_bytes": run.hbm_bytes - 1152, "write_bytes": 1152, "flops": run.flops,
            "intensity": run.roofline.intensity, "ops": len(run.op_log), "tiles": 20, "pes": 1,
            **{f"{engine}_busy": share for engine, share in run.busy.items()},
            "macs_used": run.mac_utilisation, "bound": run.bound,
        }  # fmt: skip
    assert table.loc["makespan_ps", "ratio"] == b.makespan_ps / a.makespan_ps < 0.55
    assert table.loc["peak_scratch", "difference"] == 49_152
    assert np.isnan(table.loc["ipc_busy", "ratio"]), "0 over 0"
    assert table.loc["bound", ["unit", "difference"]].tolist() == ["", ""]


def test_a_run_against_itself(runs: Any) -> None:
    table = compare(runs("nothing"), runs("nothing"))
    assert table.loc["intensity", ["difference", "ratio"]].tolist() == [0.0, 1.0], "infinite on both sides"
    assert table.loc["makespan_ps", "difference"] == 0


@pytest.mark.parametrize("names", ["ab", ("a",), ("a", "a"), ("a", "ratio")])
def test_names_are_two(runs: Any, names: Any) -> None:
    with pytest.raises(
        ValueError, match=r"names must be two different texts other than unit, difference, ratio, got"
    ):
        compare(runs("one"), runs("one"), names)


def test_runs_of_different_machines() -> None:
    """Course 01: with HBM at 16 GB/s the naive kernel takes half as long again as flash; at 256 GB/s it does not."""
    q, k, v = kb.sample_attention()
    one = (q[:, 4:5], k[:, 1:2], v[:, 1:2])
    slow = {"base": "ahbm", "pe.hbm.gb_per_s_per_channel": 2}
    for machine, low, high in (("ahbm", 0.8, 1), (slow, 1.4, 1.5)):
        flash, naive = (call(*one, topology=machine, data=False) for call in (kb.flash, kb.naive))
        assert low < compare(flash, naive).loc["makespan_ps", "ratio"] < high
        assert compare(flash, naive).loc["bound", "a"] == ("bandwidth" if machine is slow else "compute")
