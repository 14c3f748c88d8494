"""What each engine did: operations, busy time, and the two utilisations that must not be taken for one another."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from kernbench_nb.analysis._common import category, parts_by_pe, pe_index
from kernbench_nb.runtime_api.asked import check_run
from kernbench_nb.sim_engine.trace import ENGINES

if TYPE_CHECKING:
    import pandas as pd

    from kernbench_nb.runtime_api.result import RunResult

__all__ = ["by_engine"]

SUMS = ("ops", "busy_ps", "flops", "bytes", "elements")


def by_engine(run: RunResult, per_pe: bool = True) -> pd.DataFrame:
    """Operations, time, FLOP and bytes of each engine.

    Parameters
    ----------
    run
        A run, in either mode.
    per_pe
        Whether each PE has rows of its own; else its numbers are added up, and shares are those of all PEs together.

    Returns
    -------
    pandas.DataFrame
        Indexed by ``(pe, engine)``, or by ``engine``: dma, gemm, math, ipc, also those that did nothing. Columns:

        ``ops`` (int64)
            Operations.
        ``busy_ps`` (int64)
            Time for which they occupied it; of ``ipc``, the link that carries the message.
        ``engine_busy`` (float64)
            That over the makespan: was there anything in the engine?
        ``flops`` (int64)
            2*m*n*k of its products.
        ``macs_used`` (float64)
            FLOP over what its MACs could have done in the makespan: was it full? Only of ``gemm``, NaN elsewhere.
            A product with one row keeps an engine of 16 rows busy and uses a 16th of it.
        ``bytes`` (int64)
            Moved: by ``dma`` through HBM, by ``ipc`` sent and received, by ``math`` in copies.
        ``elements`` (int64)
            Elements that it worked on or moved; copies count in bytes only.
    """
    import pandas as pd

    check_run(run, "kb.analysis.by_engine")
    rows, model = run.op_log.rows, run.topology.costs
    pes = [*parts_by_pe(rows)] if per_pe else [-1]
    place = {engine: i for i, engine in enumerate(ENGINES)}
    sums = {name: np.zeros((len(pes), len(ENGINES)), np.int64) for name in SUMS}
    at = {pe: i for i, pe in enumerate(pes)}
    for part in rows.parts:
        # what rows of a kind share is multiplied by how many there are: no column is made, and nothing rounds
        counts = np.bincount(rows.kind[part.first : part.stop], minlength=len(rows.kinds)).tolist()
        for kind, count in zip(rows.kinds, counts, strict=True):
            if count and kind.engine:
                cell = (at[part.pe if per_pe else -1], place[kind.engine])
                each = (1, kind.busy, kind.flops, max(kind.nbytes, 0), kind.elements)
                for name, amount in zip(SUMS, each, strict=True):
                    sums[name][cell] += count * amount
    whole_ps = run.makespan_ps * (1 if per_pe else len(run.pes))
    peak = (
        2 * model.macs_per_cycle * model.clock_ghz * Fraction(whole_ps, 1000)
    )  # FLOP; a GHz is a cycle a ns
    flat = {name: table.reshape(-1) for name, table in sums.items()}
    engines = list(ENGINES) * len(pes)
    used = [
        float(flops / peak) if engine == "gemm" and peak else float("nan")
        for engine, flops in zip(engines, flat["flops"].tolist(), strict=True)
    ]
    index = (
        pe_index(np.repeat(pes, len(ENGINES)).tolist(), engines, ENGINES, "engine")
        if per_pe
        else pd.CategoricalIndex(category(engines, ENGINES), name="engine")
    )
    return pd.DataFrame(
        {
            "ops": flat["ops"],
            "busy_ps": flat["busy_ps"],
            "engine_busy": flat["busy_ps"] / whole_ps if whole_ps else np.zeros(len(engines)),
            "flops": flat["flops"],
            "macs_used": np.array(used, np.float64),
            "bytes": flat["bytes"],
            "elements": flat["elements"],
        },
        index=index,
    )
