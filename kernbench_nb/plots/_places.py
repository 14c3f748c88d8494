"""Which PEs, kernels, scopes: what a caller names, found in the run's rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from kernbench_nb.plots._words import pes_text
from kernbench_nb.runtime_api.result import RunResult
from kernbench_nb.sim_engine.memory_log import LiveBlock, MemoryLog
from kernbench_nb.sim_engine.rows import Part, Rows

__all__ = [
    "Refusal",
    "Stretch",
    "Wait",
    "called",
    "capacity_of",
    "check_pe",
    "check_pes",
    "has_scopes",
    "parts_of",
    "refusal_on",
    "scopes_called",
    "stretches",
    "thinned",
    "waits_of",
]

_PLAIN = {"dma_read": "load", "ipc_recv": "recv"}

MOST = 64
"""PEs that a picture of all PEs shows: each still has a lane that can be told from the next."""


def check_pe(run: RunResult, pe: int) -> int:
    """A global PE index that took part.

    Raises
    ------
    ValueError
        If it did not; the message says which did.
    """
    if pe in run.pes or not run.pes:  # of a run in which nothing ran there is a picture that says so
        return int(pe)
    pes = run.pes
    raise ValueError(f"pe={pe!r} took no part in this run of {run.name}; {_which(pes)}")


def check_pes(run: RunResult, pes: Iterable[int] | int | None) -> tuple[int, ...]:
    """Global PE indices that took part: all of them for None.

    Raises
    ------
    ValueError
        If one did not.
    """
    if pes is None:
        return run.pes
    wanted = [pes] if isinstance(pes, int | np.integer) else list(pes)
    if not wanted:
        raise ValueError("pes is empty; leave it out to see all PEs")
    return tuple(dict.fromkeys(check_pe(run, pe) for pe in wanted))


def thinned(pes: tuple[int, ...], may: bool) -> tuple[tuple[int, ...], str]:
    """PEs to draw, and what to add to the line under the title if it is not all of them.

    Parameters
    ----------
    may
        Whether PEs can be left out: then there are `MOST` of them at the most, evenly spaced.
    """
    step = -(-len(pes) // MOST)
    if not may or step <= 1:
        return pes, ""
    return pes[::step], f" · one of {step} PEs"


def _which(pes: Sequence[int]) -> str:
    if not pes:
        return "no PE did."
    if len(pes) > 1 and list(pes) == list(range(pes[0], pes[-1] + 1)):
        return f"PEs {pes[0]} to {pes[-1]} did."
    return f"{'PE' if len(pes) == 1 else 'PEs'} {', '.join(map(str, pes))} did."


def parts_of(rows: Rows, pe: int) -> list[Part]:
    """The kernels that ran on a PE, in order."""
    return [part for part in rows.parts if part.pe == pe]


def capacity_of(run: RunResult, pe: int) -> int:
    """Bytes of a PE's scratch."""
    return (
        max((part.capacity for part in parts_of(run.op_log.rows, pe)), default=0)
        or run.topology.scratch_bytes
    )


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request that did not fit, as the timeline has it.

    Attributes
    ----------
    time_ps, row
        When, and at which row of the run.
    cursor, wanted, free
        Bytes in use, asked for, and left.
    name
        What it was for, or None.
    """

    time_ps: int
    row: int
    cursor: int
    wanted: int
    free: int
    name: str | None


def refusal_on(run: RunResult, pe: int) -> Refusal | None:
    """The refused request that ended a PE's kernel, or None.

    A request that was refused and then caught by the kernel did not end it, and other rows follow.
    """
    log = run.memory_log
    columns = log.columns
    at = np.flatnonzero((columns["event"] == 2) & (columns["pe"] == pe))
    if run.completion.ok or not len(at):
        return None
    last = int(at[-1])
    event = log[last]
    if event.row + 1 < max(part.stop for part in parts_of(log.rows, pe)) and _goes_on(log.rows, event.row):
        return None
    return Refusal(
        event.time_ps, event.row, event.addr, event.nbytes, capacity_of(run, pe) - event.addr, event.name
    )


def _goes_on(rows: Rows, row: int) -> bool:
    """Whether a kernel did anything after a row but leave its scopes."""
    stop = next(part.stop for part in rows.parts if part.first <= row < part.stop)
    return any(rows.kinds[kind].op != "scope_close" for kind in rows.kind[row + 1 : stop].tolist())


@dataclass(frozen=True, slots=True)
class Stretch:
    """A scope as a stretch of time, for the strip over a picture.

    Attributes
    ----------
    label, kind
        Of the scope.
    start_ps, end_ps
        When it was open.
    """

    label: str
    kind: str
    start_ps: int
    end_ps: int


def stretches(rows: Rows, pe: int) -> list[Stretch]:
    """The scopes that a reader counts by: tiles, merges, finishes; its outer scopes where a kernel has none of them."""
    scopes = rows.scopes
    chosen = _scopes_on(rows, (pe,))
    named = [i for i in chosen if scopes.kind[i] in ("tile", "merge", "finish")]
    outer = [i for i in chosen if scopes.parent[scopes.parent[i]] < 0]
    found = []
    for i in named or outer:
        part = rows.parts[scopes.part[i]]
        opened, closed = int(scopes.open[i]), int(scopes.close[i])
        end = int(rows.event_ps[closed]) if closed < part.stop else part.end_ps
        found.append(Stretch(scopes.label[i], scopes.kind[i], int(rows.event_ps[opened]), end))
    return found


@dataclass(frozen=True, slots=True)
class Wait:
    """A stretch of time in which a PE waited for a message.

    Attributes
    ----------
    start_ps, end_ps
        When.
    peer
        Global index of the PE that it waited for, or -1.
    """

    start_ps: int
    end_ps: int
    peer: int


def waits_of(run: RunResult, pe: int) -> list[Wait]:
    """When a PE waited for messages, in order of time."""
    columns, names = run.op_log.columns, run.op_log.categories["op_name"]
    receives = np.array([name == "ipc_recv" for name in names] or [False])
    start = columns["start_ps"] + columns["busy_ps"]
    mine = np.flatnonzero(receives[columns["op_name"]] & (columns["pe"] == pe) & (columns["end_ps"] > start))
    return [Wait(int(start[i]), int(columns["end_ps"][i]), int(columns["peer"][i])) for i in mine.tolist()]


def has_scopes(rows: Rows, pe: int) -> bool:
    """Whether the kernels of a PE opened any scope; true if they did nothing at all."""
    return bool(_scopes_on(rows, (pe,))) or all(part.stop == part.first for part in parts_of(rows, pe))


def called(log: MemoryLog, block: LiveBlock) -> str:
    """What a block is called: its name, else the operation that wrote it in parentheses."""
    if block.name:
        return block.name
    op = log.rows.kinds[log.rows.kind[block.born]].op
    return f"({_PLAIN.get(op, op)})"


def scopes_called(rows: Rows, pes: Sequence[int], name: str) -> list[int]:
    """Numbers of the scopes on these PEs that have a label or a path.

    Raises
    ------
    ValueError
        If there is none; the message lists those that there are.
    """
    scopes = rows.scopes
    mine = _scopes_on(rows, pes)
    found = [i for i in mine if name in (scopes.label[i], scopes.path[i])]
    if not found:
        known = list(dict.fromkeys(scopes.path[i] for i in mine))
        shown = known if len(known) <= 12 else [*known[:9], "...", *known[-2:]]
        raise ValueError(f"{pes_text(pes)} has no scope {name!r}. There are: {', '.join(shown) or 'none'}.")
    return found


def _scopes_on(rows: Rows, pes: Sequence[int]) -> list[int]:
    """Numbers of the scopes of these PEs, arenas that are no scopes left out."""
    mine = [i for i, part in enumerate(rows.parts) if part.pe in pes]
    found: list[int] = np.flatnonzero(np.isin(rows.scopes.part, mine) & (rows.scopes.parent >= 0)).tolist()
    return found
