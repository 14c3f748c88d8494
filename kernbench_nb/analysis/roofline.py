"""Where a run stands under its roof, each number with the formula that gave it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kernbench_nb.runtime_api.asked import check_run

if TYPE_CHECKING:
    import pandas as pd

    from kernbench_nb.runtime_api.result import RunResult

__all__ = ["roofline"]


def roofline(run: RunResult) -> pd.DataFrame:
    """Intensity, roof, and what binds; peaks are those of the topology, over all PEs that took part.

    Two questions are answered apart. ``roof``: which part of the roof hangs over this intensity, whatever the run did.
    ``binds``: what the time of the PE that ended last went into; a kernel far below its roof is bound by something that
    the roof does not know, exp on the math engine or latency.

    Returns
    -------
    pandas.DataFrame
        Indexed by ``quantity``, with columns ``value`` (object: ints stay ints, rates are floats, ``roof``,
        ``compute_engine`` and ``binds`` are texts), ``unit`` and ``formula`` (texts; with the topology's numbers where
        those enter).

        ``intensity`` is infinite where nothing crossed HBM. ``compute_ps`` is the time with GEMM or math busy,
        ``bandwidth_ps`` with DMA or IPC busy (the two overlap where engines do), ``latency_ps`` with none of them.

        The intensity as an exact number is ``Fraction(run.flops, run.hbm_bytes)``.
    """
    import pandas as pd

    check_run(run, "kb.analysis.roofline")
    model, roof, pes = run.topology.costs, run.roofline, len(run.pes)
    engine = (
        f"{model.tile_m}*{model.tile_n}*{model.tile_k}"
        if model.gemm_model == "native"
        else f"{model.rows}*{model.cols}"
    )
    ridge = roof.peak_gflops / roof.peak_gb_per_s if roof.peak_gb_per_s else float("nan")
    share = roof.achieved_gflops / roof.attainable_gflops if roof.attainable_gflops else 0.0
    last = "PE that ended last"
    table: dict[str, tuple[Any, str, str]] = {
        "flops": (run.flops, "FLOP", "sum of 2*m*n*k over the products"),
        "hbm_bytes": (run.hbm_bytes, "B", "read + written"),
        "intensity": (roof.intensity, "FLOP/B", "flops / hbm_bytes"),
        "peak_gflops": (
            roof.peak_gflops, "GFLOP/s",
            f"2 FLOP * {engine} MAC a cycle * {float(model.clock_ghz):g} GHz * {_pes(pes)}",
        ),
        "peak_gb_per_s": (
            roof.peak_gb_per_s, "GB/s", f"{float(model.hbm_peak_gb_per_s):g} GB/s * {_pes(pes)}",
        ),
        "ridge": (ridge, "FLOP/B", "peak_gflops / peak_gb_per_s"),
        "attainable_gflops": (
            roof.attainable_gflops, "GFLOP/s", "min(peak_gflops, intensity * peak_gb_per_s)"
        ),
        "roof": (
            "compute" if roof.intensity >= ridge else "bandwidth", "", "bandwidth if intensity < ridge else compute",
        ),
        "makespan_ps": (run.makespan_ps, "ps", "end of the last operation"),
        "achieved_gflops": (roof.achieved_gflops, "GFLOP/s", "flops / makespan"),
        "achieved_gb_per_s": (roof.achieved_gb_per_s, "GB/s", "hbm_bytes / makespan"),
        "share_of_roof": (share, "", "achieved_gflops / attainable_gflops"),
        "compute_ps": (roof.compute_ps, "ps", f"GEMM or math busy, {last}"),
        "compute_engine": (roof.compute_engine, "", "the busier of gemm and math there"),
        "bandwidth_ps": (roof.bandwidth_ps, "ps", "DMA or IPC busy there"),
        "latency_ps": (roof.latency_ps, "ps", "none of them busy there"),
        "binds": (roof.binds, "", "what took most of these three times"),
    }  # fmt: skip
    values, units, formulas = zip(*table.values(), strict=True)
    return pd.DataFrame(
        {name: pd.Series(list(column), dtype=object) for name, column in
         (("value", values), ("unit", units), ("formula", formulas))},
    ).set_index(pd.Index(list(table), dtype=object, name="quantity"))  # fmt: skip


def _pes(count: int) -> str:
    return f"{count} PE" if count == 1 else f"{count} PEs"
