"""What there is to see in one PE's scratch at one moment: live blocks, given back ones, cursor, save-points."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kernbench_nb.plots._moment import Moment
from kernbench_nb.plots._places import Refusal, capacity_of, refusal_on
from kernbench_nb.runtime_api.result import RunResult
from kernbench_nb.sim_engine.memory_log import LiveBlock, MemoryLog

__all__ = ["View", "look_at"]


@dataclass(frozen=True, slots=True)
class View:
    """One PE's scratch at one moment.

    Attributes
    ----------
    moment
        Which.
    log
        Where it is read from.
    live
        Blocks that hold bytes, by address.
    given_back
        (low, high, name) of what lies over the cursor and was not overwritten since.
    cursor, high, limit
        Bytes in use; the highest cursor of this kernel so far; bytes of the scratch.
    top
        Highest address to show: the same for every moment of a PE, so that two pictures compare; 0 if there is none.
    saves
        Save-point and label of each open scope, the innermost first.
    scope
        Path of the innermost open scope.
    written, source
        The block that the operation wrote; of a copy also the one it read.
    refusal
        The request that did not fit, at the moment of the overflow.
    """

    moment: Moment
    log: MemoryLog
    live: list[LiveBlock]
    given_back: list[tuple[int, int, str | None]]
    cursor: int
    high: int
    limit: int
    top: float
    saves: list[tuple[int, str]]
    scope: str
    written: LiveBlock | None
    source: LiveBlock | None
    refusal: Refusal | None


def look_at(run: RunResult, moment: Moment) -> View:
    log = run.memory_log
    rows, pe, row = log.rows, moment.pe, moment.row
    limit = capacity_of(run, pe)
    refusal = refusal_on(run, pe)
    if refusal is not None and refusal.row != row:
        refusal = None
    peak = log.peak_by_pe.get(pe, 0)
    reach = max(limit, refusal.cursor + refusal.wanted) * 1.03 if refusal is not None else peak * 1.03
    empty = View(moment, log, [], [], 0, 0, limit, reach, [], "", None, None, refusal)
    if row is None:
        return empty
    part = rows.parts[log.part_of(row)]
    cursor = int(log.cursor[row])
    high = int(log.cursor[part.first : row + 1].max())
    live = [block for block in log.live(row) if block.size]
    written = source = None
    kind = rows.kinds[rows.kind[row]]
    if kind.engine and kind.op != "dma_write" and rows.out[row] >= 0:
        written = log.block_at(row, int(rows.out[row]))
        if kind.op == "copy" and rows.a[row] >= 0:
            source = log.block_at(row, int(rows.a[row]))
    elif kind.size:
        written = next((block for block in live if block.born == row), None)
    saves, scope = open_scopes(log, row)
    return replace(
        empty, live=live, given_back=given_back(log, row, part.first, cursor), cursor=cursor, high=high, saves=saves,
        scope=scope, written=written, source=source,
    )  # fmt: skip


def open_scopes(log: MemoryLog, row: int) -> tuple[list[tuple[int, str]], str]:
    """Save-points and labels of the scopes that are open once a row is done, and the path of the innermost."""
    scopes = log.rows.scopes
    at = int(log.rows.scope[row])
    if int(scopes.close[at]) == row:  # the row that closes a scope counts as being in it
        at = int(scopes.parent[at])
    path = scopes.path[at]
    found = []
    while scopes.parent[at] >= 0:
        if scopes.rewind[at]:
            found.append((int(scopes.save[at]), scopes.label[at]))
        at = int(scopes.parent[at])
    return found, path


def given_back(log: MemoryLog, row: int, first: int, cursor: int) -> list[tuple[int, int, str | None]]:
    """(low, high, name) of what lies over the cursor and was not overwritten since, the last owner of each byte."""
    begin = int(np.searchsorted(log.born, first))
    stop = int(np.searchsorted(log.born, row, side="right"))
    dead = begin + np.flatnonzero(
        (log.dead[begin:stop] <= row) & ((log.addr + log.size)[begin:stop] > cursor)
    )
    found: list[tuple[int, int, str | None]] = []
    free = [(cursor, 1 << 62)]
    for number in dead[::-1].tolist():  # the newest owner first: what it covers hides the older ones
        low, high = int(log.addr[number]), int(log.addr[number] + log.size[number])
        left: list[tuple[int, int]] = []
        for a, b in free:
            if high <= a or b <= low:
                left.append((a, b))
                continue
            found.append((max(low, a), min(high, b), log.block(number).name))
            left += [(x, y) for x, y in ((a, low), (high, b)) if x < y]
        free = left
    return sorted(found, key=lambda piece: piece[0])
