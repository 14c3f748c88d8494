"""Which moment: what a caller names, found in the run's rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernbench_nb.plots._places import check_pe, parts_of, refusal_on, scopes_called
from kernbench_nb.runtime_api.result import RunResult
from kernbench_nb.sim_engine.memory_log import MemoryLog

__all__ = ["Moment", "moment_of"]

_VERBS = {"load": "dma_read", "store": "dma_write", "copy": "copy", "send": "ipc_send", "recv": "ipc_recv"}


@dataclass(frozen=True, slots=True)
class Moment:
    """One moment on one PE: once a row is done.

    Attributes
    ----------
    pe
        Global index.
    row
        The row, or None before the PE's first.
    time_ps
        When the PE had asked for it.
    what
        How a title says it: ``after O*c``, ``at the peak``.
    """

    pe: int
    row: int | None
    time_ps: int
    what: str


def moment_of(run: RunResult, at: Any, pe: int, tile: str | None) -> Moment:
    """Find the moment that a caller means.

    Parameters
    ----------
    at
        None: where the run died on this PE, else the end of `tile`, else the peak. A number: a time in ns. An entry of
        ``run.op_log`` or ``run.memory_log``: itself. ``"peak"``, ``"end"``. Else an operation: by its name, its
        variable, or as ``load K``, ``store O``, ``copy O``, ``send m``, ``recv m_in``; the first such one.
    pe
        Global index.
    tile
        Label or path of a scope; the moment is looked for inside.

    Raises
    ------
    ValueError
        If there is no such operation or scope; the message lists those that there are.
    """
    if hasattr(at, "row") and hasattr(at, "pe"):
        return _after(run, check_pe(run, at.pe), int(at.row))
    pe = check_pe(run, pe)
    log = run.memory_log
    parts = parts_of(log.rows, pe)
    if isinstance(at, int | float | np.integer | np.floating) and not isinstance(at, bool):
        time = round(float(at) * 1000)
        return Moment(pe, log.row_at(pe, time), time, "")
    if not sum(part.stop - part.first for part in parts):
        return Moment(pe, None, 0, "")
    spans = _spans(log, pe, tile) if tile is not None else [(part.first, part.stop) for part in parts]
    if at is None and tile is None:
        refusal = refusal_on(run, pe)
        if refusal is not None:
            return Moment(pe, refusal.row, refusal.time_ps, "at the overflow")
        at = "peak"
    if at is None:
        first, stop = spans[0]
        return _after(run, pe, max(stop - 1, first), f"at the end of {tile}")
    if at == "peak":
        best = max(spans, key=lambda span: int(log.cursor[slice(*span)].max(initial=0)))
        row = best[0] + int(np.argmax(log.cursor[slice(*best)]))
        return _after(run, pe, row, "at the peak" if tile is None else f"at the peak of {tile}")
    if at == "end":
        return _after(run, pe, spans[-1][1] - 1, "at the end" if tile is None else f"at the end of {tile}")
    return _named(run, pe, spans, str(at), tile)


def _after(run: RunResult, pe: int, row: int, what: str = "") -> Moment:
    rows = run.memory_log.rows
    return Moment(pe, row, int(rows.event_ps[row]), what or f"after {_row_name(run.memory_log, row)}")


def _row_name(log: MemoryLog, row: int) -> str:
    rows = log.rows
    kind = rows.kinds[rows.kind[row]]
    return next(_names(log, row), kind.op.replace("_", " "))


def _own_name(log: MemoryLog, row: int) -> str | None:
    """The name given to an operation or an allocation, else the variable that the source assigns it to."""
    rows = log.rows
    kind = rows.kinds[rows.kind[row]]
    if not kind.engine and kind.op != "empty":  # scopes are found by tile=
        return None
    name, site = int(rows.name[row]), int(rows.site[row])
    if name >= 0:
        return rows.names[name]
    return rows.places[site].variable if site >= 0 else None


def _names(log: MemoryLog, row: int) -> Iterator[str]:
    """What a row can be called: its own name, then ``verb operand``."""
    rows = log.rows
    own = _own_name(log, row)
    if own:
        yield own
    kind = rows.kinds[rows.kind[row]]
    verb = next((verb for verb, op in _VERBS.items() if op == kind.op), None)
    if verb is None:
        return
    operand = kind.tensor
    if operand is None:
        address = int(rows.a[row] if kind.op == "ipc_send" else rows.out[row])
        block = log.block_at(row, address) if address >= 0 else None
        operand = block.name if block is not None else None
    if operand:
        yield f"{verb} {operand}"


def _named(run: RunResult, pe: int, spans: Sequence[tuple[int, int]], at: str, tile: str | None) -> Moment:
    log = run.memory_log
    rows = log.rows
    verb, _, operand = at.partition(" ")
    op = _VERBS.get(verb) if operand else None
    for first, stop in spans:
        for row in range(first, stop):
            kind = rows.kinds[rows.kind[row]]
            # the operand is looked up only where the verb fits: it needs the live blocks at that row
            if at == _own_name(log, row) or (kind.op == op and at in _names(log, row)):
                return _after(run, pe, row, f"after {at}" + (f" in {tile}" if tile else ""))
    known = dict.fromkeys(
        name for first, stop in spans for row in range(first, stop) for name in _names(log, row)
    )
    where = f" in {tile}" if tile else ""
    raise ValueError(
        f"no operation of PE {pe}{where} is called {at!r}. There are: {', '.join(known) or 'none'}. "
        "Or give at= a time in ns, 'peak', 'end', or an entry of run.op_log."
    )


def _spans(log: MemoryLog, pe: int, tile: str) -> list[tuple[int, int]]:
    scopes = log.rows.scopes
    return [(int(scopes.open[i]), int(scopes.close[i])) for i in scopes_called(log.rows, (pe,), tile)]
