"""Which engines worked at the same time."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from kernbench_nb.analysis._common import parts_by_pe, pe_index, rows_of
from kernbench_nb.analysis._intervals import cells, length
from kernbench_nb.runtime_api.asked import check_run
from kernbench_nb.sim_engine.rows import Ints, Rows
from kernbench_nb.sim_engine.trace import ENGINES

if TYPE_CHECKING:
    import pandas as pd

    from kernbench_nb.runtime_api.result import RunResult

__all__ = ["busy_spans", "overlap"]

PAIRS = tuple(combinations(ENGINES, 2))
NAMES = (*("+".join(pair) for pair in PAIRS), "all")


def overlap(run: RunResult) -> pd.DataFrame:
    """For how long engines of a PE were busy together, by union of intervals.

    An engine is busy for ``[start_ps, start_ps + busy_ps)`` of its operations; what is covered twice counts once. So
    the latency of a load, in which it holds nothing, is no busy time.

    Returns
    -------
    pandas.DataFrame
        Indexed by ``(pe, engines)``; engines is a pair, ``dma+gemm`` to ``math+ipc``, or ``all``. Columns:

        ``both_ps`` (int64)
            Both of the pair are busy; of ``all``, two engines or more.
        ``any_ps`` (int64)
            At least one of them is.
        ``idle_ps`` (int64)
            None of them is: the makespan without ``any_ps``.
        ``hidden`` (float64)
            ``both_ps`` over the busy time of the less busy one: 1 if that one cost no time of its own. NaN if it was
            never busy, and of ``all``.
    """
    import pandas as pd

    check_run(run, "kb.analysis.overlap")
    rows, whole = run.op_log.rows, run.makespan_ps
    pes: list[int] = []
    table: list[tuple[int, int, int]] = []
    hidden: list[float] = []
    for pe, parts in parts_by_pe(rows).items():
        widths, inside = cells(busy_spans(rows, rows_of(parts)), whole)
        at = dict(zip(ENGINES, inside, strict=True))
        for a, b in PAIRS:
            both, any_ = length(widths, at[a] & at[b]), length(widths, at[a] | at[b])
            least = min(length(widths, at[a]), length(widths, at[b]))
            table.append((both, any_, whole - any_))
            hidden.append(both / least if least else float("nan"))
        any_ = length(widths, np.logical_or.reduce(inside))
        table.append((length(widths, inside.sum(axis=0) >= 2), any_, whole - any_))
        hidden.append(float("nan"))
        pes += [pe] * len(NAMES)
    both_ps, any_ps, idle_ps = np.array(table, np.int64).reshape(-1, 3).T
    return pd.DataFrame(
        {"both_ps": both_ps, "any_ps": any_ps, "idle_ps": idle_ps, "hidden": np.array(hidden, np.float64)},
        index=pe_index(pes, NAMES * (len(pes) // len(NAMES)), NAMES, "engines"),
    )


def busy_spans(rows: Rows, chosen: Ints) -> list[tuple[Ints, Ints]]:
    """Starts and ends of the busy times of each engine, in the order of `ENGINES`, over some rows."""
    busy = rows.of_kinds(lambda k: k.busy)
    found = []
    for engine in ENGINES:
        mine = chosen[rows.are(lambda k, engine=engine: k.engine == engine)[rows.kind[chosen]]]  # type: ignore[misc]
        start = rows.start[mine]
        found.append((start, start + busy[rows.kind[mine]]))
    return found
