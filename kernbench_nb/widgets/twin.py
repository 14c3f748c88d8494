"""The other half of a pair: the same kernel with scopes instead of without, or the reverse, run in timing mode.

It says what the un-scoped kernel needs by now, where it stops, and which tiles an overflow kept from running, from a
run and not from an estimate.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernbench_nb.errors import ScratchOverflowError
from kernbench_nb.runtime_api.result import RunResult
from kernbench_nb.sim_engine.memory_log import LiveBlock, MemoryLog
from kernbench_nb.sim_engine.rows import Ints, Rows
from kernbench_nb.widgets.blocks import blocks_of
from kernbench_nb.widgets.sources import Sources
from kernbench_nb.widgets.tiles import Planned, Tiles

__all__ = ["Twin", "twin_of"]

_MOST_ROWS = 200_000
"""A longer run is not run again for the sake of a counter."""

_WHAT = re.compile(r"overflow: (?P<name>.*?) ?(?P<dtype>\w+)\[(?P<shape>[\dx]*)\] wants")


@dataclass(frozen=True, eq=False)
class Twin:
    """What a run's twin tells.

    Attributes
    ----------
    run
        The twin, or None where there is none.
    planned
        What an overflow of the run itself kept from running.
    """

    run: RunResult | None = None
    planned: Planned | None = None

    def unscoped(self, rows: Rows, tiles: Tiles, index_of_pe: Ints) -> dict[str, Any] | None:
        """The head's ``unscoped``: what the kernel without scopes needs, and where it stops."""
        twin = self.run
        if twin is None or self.planned is not None:
            return None
        refused = _refused(twin)
        overflow = None
        if refused is not None:
            row = _same_row(twin.op_log.rows, refused, rows)
            if row >= 0:
                error = twin.completion.error
                overflow = {
                    "pe": int(index_of_pe[rows.pe[row]]),
                    "row": row,
                    "tile": int(tiles.of_row[row]),
                    "required": error.required if isinstance(error, ScratchOverflowError) else -1,
                    "name": twin.memory_log[-1].name or "",
                }
        return {"peak": twin.peak_scratch, "overflow": overflow}

    def error(
        self, run: RunResult, tiles: Tiles, index_of_pe: Ints, sources: Sources
    ) -> dict[str, Any] | None:
        """The head's ``error``."""
        error = run.completion.error
        if error is None:
            return None
        found: dict[str, Any] = {
            "type": type(error).__name__, "message": str(error), "op": -1, "pe": -1, "tile": -1, "name": "",
            "shape": "", "dtype": "", "line": -1, "source": -1, "required": -1, "wanted": -1, "free": -1, "limit": -1,
            "live": [], "live_count": 0, "read_again": None, "planned": None,
        }  # fmt: skip
        row = _refused(run)
        if not isinstance(error, ScratchOverflowError) or row is None:
            return found
        memory = run.memory_log
        rows = memory.rows
        what = _WHAT.search(str(error))
        site = int(rows.site[row])
        place = rows.places[site] if site >= 0 else None
        again = self._read_again(memory, row)
        live = memory.live(row)
        found |= {
            "op": row,
            "pe": int(index_of_pe[rows.pe[row]]),
            "tile": int(tiles.of_row[row]),
            "name": _given_name(rows, row) or (what["name"] if what else ""),
            "shape": what["shape"].replace("x", "×") if what else "",
            "dtype": what["dtype"] if what else "",
            "line": place.line if place else -1,
            "source": sources.find(place.file, place.line) if place else -1,
            "required": error.required,
            "wanted": error.wanted,
            "free": error.free,
            "limit": error.limit,
            "live": _grouped(memory, live, again, sources),
            "live_count": len(live),
            "read_again": None if again is None else len(again),
        }
        if self.run is not None and self.planned is not None:
            found["planned"] = {
                "tiles": len(self.run.tile_log),
                "need": max(_asked_by_part(self.run.memory_log), default=0),
            }
        return found

    def _read_again(self, memory: MemoryLog, row: int) -> set[int] | None:
        """Rows at which those live blocks were made that the sweep with scopes reads or writes later on."""
        if self.run is None or self.planned is None:
            return None
        other = self.run.memory_log
        same = _same_row(memory.rows, row, other.rows)
        if same < 0:
            return None
        shift = same - row
        last = blocks_of(other).last
        made = {int(b): int(use) for b, use in zip(other.born, last, strict=True)}
        return {b.born for b in memory.live(row) if made.get(b.born + shift, -1) >= same}


def twin_of(run: RunResult) -> Twin:
    """Run the twin, if there is one.

    A run with scopes has the one without, which may overflow; a run that overflowed without scopes has the one with.
    Others have none: a kernel with no ``scoped=``, a result that was loaded, a run of very many rows.
    """
    scoped = run.params.get("scoped")
    failed = isinstance(run.completion.error, ScratchOverflowError)
    wanted = (scoped is True and run.completion.ok) or (scoped is False and failed)
    if run.rerun is None or not wanted or len(run.op_log.rows) > _MOST_ROWS:
        return Twin()
    other: RunResult | None
    try:
        other = run.rerun(scoped=not scoped, data=False, record=None)
    except Exception as error:  # a view of the run must not fail because its twin does
        other = getattr(error, "run", None)
    if other is None:
        return Twin()
    return Twin(other, _planned(run, other) if failed else None)


def _planned(run: RunResult, whole: RunResult) -> Planned:
    """Tiles of the whole sweep that the run did not come to, by PE and in order."""
    started = Counter(run.tile_log.columns["pe"].tolist())
    passed = Counter(run.tile_log.skipped["pe"].tolist())
    found: list[tuple[int, str, str, tuple[int, int], tuple[int, int]]] = []
    c, label = whole.tile_log.columns, whole.op_log.rows.scopes.label
    for i in np.lexsort((c["first_row"], c["pe"])).tolist():
        pe = int(c["pe"][i])
        if started[pe] > 0:
            started[pe] -= 1
            continue
        queries = int(c["rows_start"][i]), int(c["rows_stop"][i])
        keys = int(c["keys_start"][i]), int(c["keys_stop"][i])
        found.append((pe, label[int(c["scope"][i])], "never", queries, keys))
    c = whole.tile_log.skipped
    for i in np.lexsort((c["time_ps"], c["pe"])).tolist():
        pe = int(c["pe"][i])
        if passed[pe] > 0:
            passed[pe] -= 1
            continue
        queries = int(c["rows_start"][i]), int(c["rows_stop"][i])
        keys = int(c["keys_start"][i]), int(c["keys_stop"][i])
        found.append((pe, "skipped", "skip", queries, keys))
    return Planned(found)


def _refused(run: RunResult) -> int | None:
    """The row of the refused request, or None."""
    rows = run.op_log.rows
    at = np.flatnonzero(rows.of_kinds(lambda k: k.op == "overflow")[rows.kind])
    return int(at[-1]) if len(at) else None


def _same_row(rows: Rows, row: int, other: Rows) -> int:
    """The row of another run that is at the same place of the same launch on the same PE; -1 if there is none."""
    part = next(p for p in rows.parts if p.first <= row < p.stop)
    for p in other.parts:
        if (p.pe, p.launch) == (part.pe, part.launch):
            at = p.first + row - part.first
            return at if at < p.stop else -1
    return -1


def _asked_by_part(memory: MemoryLog) -> list[int]:
    rows = memory.rows
    part = np.repeat(np.arange(len(rows.parts)), [p.stop - p.first for p in rows.parts])[memory.born]
    total = np.zeros(len(rows.parts), np.int64)
    np.add.at(total, part, memory.size)
    return [int(n) for n in total]


def _given_name(rows: Rows, row: int) -> str:
    name = int(rows.name[row])
    return rows.names[name] if name >= 0 else ""


def _grouped(
    memory: MemoryLog, live: list[LiveBlock], again: set[int] | None, sources: Sources
) -> list[dict[str, Any]]:
    """Live blocks, largest first, those that one line made alike as one."""
    rows = memory.rows
    groups: dict[tuple[Any, ...], list[LiveBlock]] = {}
    for block in sorted(live, key=lambda b: (-b.size, b.addr)):
        key = block.name, block.shape, block.dtype, block.size, block.arena, int(rows.site[block.born])
        groups.setdefault(key, []).append(block)
    found = []
    for (*_, site), same in groups.items():
        place = rows.places[site] if site >= 0 else None
        found.append(
            {
                "name": same[0].name or "",
                "shape": "×".join(map(str, same[0].shape)) or "scalar",
                "dtype": same[0].dtype or "",
                "nbytes": same[0].nbytes,
                "count": len(same),
                "arena": same[0].arena,
                "scope": same[0].scope if len(same) == 1 else "",
                "line": place.line if place else -1,
                "source": sources.find(place.file, place.line) if place else -1,
                "again": None if again is None else sum(b.born in again for b in same),
            }
        )
    return found
