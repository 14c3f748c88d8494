"""Where the time of a PE went when it did not compute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from kernbench_nb.analysis._common import parts_by_pe, pe_index, rows_of
from kernbench_nb.analysis._intervals import Span, cells
from kernbench_nb.analysis.overlap import busy_spans
from kernbench_nb.runtime_api.asked import check_run
from kernbench_nb.sim_engine.rows import Part, Rows

if TYPE_CHECKING:
    import pandas as pd

    from kernbench_nb.runtime_api.result import RunResult

__all__ = ["stalls"]

CAUSES = ("compute", "hbm", "link", "latency", "message", "dispatch", "over")


def stalls(run: RunResult) -> pd.DataFrame:
    """Time of each PE by what it was spent on; the causes of a PE add up to the makespan.

    Of all that happens at a moment the first of the list counts, so that what hides behind computing is no stall.

    Returns
    -------
    pandas.DataFrame
        Indexed by ``(pe, cause)``, columns ``ps`` (int64) and ``share`` of the makespan (float64). The causes:

        ``compute``
            GEMM or math engine busy: no stall.
        ``hbm``
            DMA busy: bytes cross the HBM channel.
        ``link``
            A message of its own is on a link.
        ``latency``
            A load or store is under way and holds nothing: HBM latency, a queue, the way to another PE's slice.
        ``message``
            It waits for a message, or at a barrier.
        ``dispatch``
            The kernel runs and none of the above: commands are issued, or `send` waits for a slot.
        ``over``
            No kernel runs on it: it is done, or the next launch has not begun.
    """
    import pandas as pd

    check_run(run, "kb.analysis.stalls")
    rows, whole = run.op_log.rows, run.makespan_ps
    pes: list[int] = []
    spent: list[int] = []
    for pe, parts in parts_by_pe(rows).items():
        dma, gemm, math, ipc = busy_spans(rows, rows_of(parts))
        running = _running(rows, parts, run.topology.costs.dispatch_ps)
        stretches = [_together(gemm, math), dma, ipc, *_waiting(rows, parts), running]
        widths, inside = cells(stretches, whole)
        free = np.ones(len(widths), np.bool_)
        for covers in (*inside, free.copy()):
            spent.append(int(widths[covers & free].sum()))
            free &= ~covers
        pes += [pe] * len(CAUSES)
    ps = np.array(spent, np.int64)
    return pd.DataFrame(
        {"ps": ps, "share": ps / whole if whole else np.zeros(len(ps))},
        index=pe_index(pes, CAUSES * (len(pes) // len(CAUSES)), CAUSES, "cause"),
    )


def _together(*spans: Span) -> Span:
    return np.concatenate([s for s, _ in spans]), np.concatenate([e for _, e in spans])


def _waiting(rows: Rows, parts: Sequence[Part]) -> tuple[Span, Span]:
    """HBM accesses from start to end, and receives and barriers from issue to end."""
    chosen = rows_of(parts)
    kind = rows.kind[chosen]
    hbm = chosen[rows.are(lambda k: k.engine == "dma")[kind]]
    others = chosen[rows.are(lambda k: k.op in ("ipc_recv", "barrier"))[kind]]
    return (rows.start[hbm], rows.end[hbm]), (rows.start[others], rows.end[others])


def _running(rows: Rows, parts: Sequence[Part], dispatch_ps: int) -> Span:
    """From the first command of each kernel to its end."""
    starts = []
    for part in parts:
        if part.first == part.stop:  # it did nothing
            starts.append(part.end_ps)
            continue
        first = int(rows.event_ps[part.first])
        # an operation is dated by its start, and has been dispatched by then
        issued = bool(rows.is_operation[part.first])
        starts.append(max(0, first - dispatch_ps * issued))
    return np.array(starts, np.int64), np.array([p.end_ps for p in parts], np.int64)
