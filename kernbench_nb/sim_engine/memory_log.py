"""The allocation timeline, read from the same rows as the operation log.

A row whose kind has a size, or whose operation is ``empty``, allocated ``[out, out + size)``; a row that closes a
rewinding scope moved the cursor back to its save-point; a refused request left it where it was. Addresses here are
bytes from the start of the scratch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np
import numpy.typing as npt

from kernbench_nb.memory import ALIGN
from kernbench_nb.sim_engine.rows import Ints, Rows, forward_fill, numbers

__all__ = ["EVENTS", "LiveBlock", "MemoryEvent", "MemoryLog"]

EVENTS = ("alloc", "rewind", "overflow")
ALLOC, REWIND, REFUSED = range(3)


@dataclass(frozen=True, slots=True)
class LiveBlock:
    """One allocation, as an arena map shows it.

    Attributes
    ----------
    addr, nbytes, size
        Bytes from the start of the scratch; bytes asked for, and bytes taken, alignment included.
    name
        The name given, else the variable found in the source, or None.
    shape, dtype
        Of the handle that was made with it.
    arena, scope
        ``"persistent"`` or ``"scoped"``, and the path of the scope that it was made in.
    engine
        What wrote it first: ``dma``, ``gemm``, ``math``, ``ipc``, or empty for a bare allocation.
    line
        The source line that made it, or None.
    pe
        Whose scratch.
    born, dead
        Rows at which it was allocated and given back; `dead` is None if it lived as long as its kernel.
    """

    addr: int
    nbytes: int
    size: int
    name: str | None
    shape: tuple[int, ...]
    dtype: str | None
    arena: str
    scope: str
    engine: str
    line: int | None
    pe: int
    born: int
    dead: int | None


@dataclass(frozen=True, slots=True)
class MemoryEvent:
    """One event of the timeline.

    Attributes
    ----------
    event
        ``alloc``, ``rewind`` or ``overflow``.
    time_ps, pe, row
        When, on which PE, and at which row of the run.
    addr, nbytes, size
        Of an allocation: where, bytes asked for, and taken. Of a rewind: the save-point, and the bytes given back.
        Of an overflow: the cursor, the bytes wanted, and what they would have taken.
    cursor_after
        Cursor after the event.
    name, arena, scope, line
        As in `LiveBlock`; for a rewind the scope that ended, with its label as name.
    """

    event: str
    time_ps: int
    pe: int
    addr: int
    nbytes: int
    size: int
    cursor_after: int
    name: str | None
    arena: str
    scope: str
    line: int | None
    row: int


class MemoryLog(Sequence[MemoryEvent]):
    """All allocations, rewinds and refused requests of a run, in order of (time_ps, pe, issue).

    Parameters
    ----------
    rows
        The decoded rows of the run.

    Attributes
    ----------
    columns
        numpy columns by name, all int64, -1 where a value is missing: `event` indexes `EVENTS`; `scope` and `place`
        index the tables of the rows, `name` indexes `names`.
    """

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    # -- blocks ------------------------------------------------------------------------------------------------

    @cached_property
    def born(self) -> Ints:
        """Rows that allocated, rising."""
        return self.rows.where(lambda k: k.size > 0 or k.op == "empty")

    @cached_property
    def dead(self) -> Ints:
        """For each block the row that gave it back; where none did, the row after its kernel's last."""
        scopes = self.rows.scopes
        owner = scopes.owner[self.rows.scope[self.born]]
        return scopes.close[owner]

    @cached_property
    def addr(self) -> Ints:
        """For each block its first byte."""
        return self.rows.out[self.born] - self.rows.by_part(lambda p: p.base)[self.born]

    @cached_property
    def size(self) -> Ints:
        """For each block the bytes that it takes."""
        return self.rows.of_kinds(lambda k: k.size)[self.rows.kind[self.born]]

    @cached_property
    def nbytes(self) -> Ints:
        """For each block the bytes that were asked for."""
        return self.rows.of_kinds(lambda k: k.ty.nbytes if k.ty else k.size)[self.rows.kind[self.born]]

    def live(self, row: int) -> list[LiveBlock]:
        """Blocks that hold bytes once a row is done, by address; of the PE and the kernel that the row belongs to.

        Raises
        ------
        IndexError
            If there is no such row.
        """
        self.part_of(row)
        stop = int(np.searchsorted(self.born, row, side="right"))
        # those of other parts are dead at the latest when their part stops
        chosen = np.flatnonzero(self.dead[:stop] > row)
        return [self.block(i) for i in chosen[np.argsort(self.addr[chosen], kind="stable")].tolist()]

    def block(self, number: int) -> LiveBlock:
        """One block, by its number in order of row."""
        rows = self.rows
        born, dead = int(self.born[number]), int(self.dead[number])
        kind = rows.kinds[rows.kind[born]]
        scope = int(rows.scope[born])
        part = rows.parts[self.part_of(born)]
        return LiveBlock(
            addr=int(self.addr[number]),
            nbytes=int(self.nbytes[number]),
            size=kind.size,
            name=self._name(born),
            shape=kind.ty.shape if kind.ty else (),
            dtype=kind.ty.dtype.name if kind.ty else None,
            arena=rows.scopes.arena(scope),
            scope=rows.scopes.path[scope],
            engine=kind.engine,
            line=self._line(born),
            pe=part.pe,
            born=born,
            dead=dead if dead < part.stop else None,
        )

    def block_at(self, row: int, address: int) -> LiveBlock | None:
        """The live block that holds an address of the log (`out_addr`, `addresses`) once a row is done, or None."""
        offset = address - self.rows.parts[self.part_of(row)].base
        return next((b for b in self.live(row) if b.addr <= offset < b.addr + max(b.size, 1)), None)

    def part_of(self, row: int) -> int:
        """Number of the part that a row belongs to."""
        if not 0 <= row < len(self.rows):
            raise IndexError(f"row {row} of a run of {len(self.rows)} rows")
        return int(np.searchsorted([p.stop for p in self.rows.parts], row, side="right"))

    def row_at(self, pe: int, time_ps: int) -> int | None:
        """The last row that a PE had asked for at a time; None before its first."""
        found = None
        for part in self.rows.parts:
            if part.pe == pe:
                times = self.rows.event_ps[part.first : part.stop]
                count = int(np.searchsorted(times, time_ps, side="right"))
                if count:
                    found = part.first + count - 1
        return found

    # -- the cursor --------------------------------------------------------------------------------------------

    @cached_property
    def rewinds(self) -> Ints:
        """Rows that moved a cursor back to a save-point, rising."""
        rows = self.rows
        at = rows.where(lambda k: k.op == "scope_close")
        return at[rows.scopes.rewind[rows.scope[at]]]

    @cached_property
    def cursor(self) -> Ints:
        """Bytes in use after each row, alignment gaps included."""
        rows = self.rows
        if not len(rows):
            return np.empty(0, np.int64)
        begins = np.array([p.first for p in rows.parts if p.stop > p.first], np.int64)
        at = np.concatenate([begins, self.born, self.rewinds])
        value = np.concatenate(
            [
                np.zeros(len(begins), np.int64),
                self.addr + self.size,
                rows.scopes.save[rows.scope[self.rewinds]],
            ]
        )
        order = np.argsort(at, kind="stable")
        at, value = at[order], value[order]
        keep = np.append(at[1:] != at[:-1], True)  # a kernel may begin with an allocation
        return forward_fill(value[keep], at[keep], len(rows))

    @cached_property
    def peak_by_part(self) -> Ints:
        """High-water mark of each part: of one kernel on one PE."""
        return self._highest(
            np.array([p.first for p in self.rows.parts], np.int64),
            np.array([p.stop for p in self.rows.parts], np.int64),
        )

    @cached_property
    def peak_by_pe(self) -> dict[int, int]:
        """High-water mark of each PE, over its kernels."""
        return self._worst(self.peak_by_part)

    @property
    def peak(self) -> int:
        """High-water mark of the PE where it is highest."""
        return max(self.peak_by_pe.values(), default=0)

    @cached_property
    def peak_by_scope(self) -> Ints:
        """Highest cursor while each scope was open, in bytes from the start of the scratch."""
        scopes = self.rows.scopes
        return self._highest(scopes.open, scopes.close)

    @cached_property
    def peak_by_kind(self) -> dict[str, int]:
        """Highest cursor while a scope of each kind was open, of the PE where it is highest."""
        scopes = self.rows.scopes
        found: dict[str, int] = {}
        for kind, parent, peak in zip(
            scopes.kind, scopes.parent.tolist(), self.peak_by_scope.tolist(), strict=True
        ):
            if parent >= 0 and peak > found.get(kind, -1):
                found[kind] = peak
        return found

    @cached_property
    def persistent_by_pe(self) -> dict[int, int]:
        """Bytes of the persistent arena of each PE, of the kernel where they are most."""
        rows = self.rows
        persistent = ~rows.scopes.scoped[rows.scope[self.born]]
        part = np.repeat(np.arange(len(rows.parts)), [p.stop - p.first for p in rows.parts])[self.born]
        total = np.zeros(len(rows.parts), np.int64)
        np.add.at(total, part[persistent], self.size[persistent])
        return self._worst(total)

    @property
    def persistent_bytes(self) -> int:
        """Bytes of the persistent arena of the PE where they are most."""
        return max(self.persistent_by_pe.values(), default=0)

    def _highest(self, first: Ints, stop: Ints) -> Ints:
        """Highest cursor over each ``[first, stop)``; 0 over nothing."""
        if not len(self.rows):
            return np.zeros(len(first), np.int64)
        # reduceat takes (first, stop) pairs in any order, and no index beyond the end
        pairs = np.stack([first, stop], axis=1).ravel()
        highest = np.maximum.reduceat(np.append(self.cursor, 0), pairs)[::2]
        return np.where(stop > first, highest, 0)

    def _worst(self, by_part: Ints) -> dict[int, int]:
        found: dict[int, int] = {}
        for part, value in zip(self.rows.parts, by_part.tolist(), strict=True):
            found[part.pe] = max(value, found.get(part.pe, 0))
        return found

    # -- the timeline ------------------------------------------------------------------------------------------

    @cached_property
    def columns(self) -> dict[str, npt.NDArray[np.int64]]:
        """See the class."""
        rows = self.rows
        refused = rows.where(lambda k: k.op == "overflow")
        row = np.concatenate([self.born, self.rewinds, refused])
        event = np.repeat(np.arange(3), [len(self.born), len(self.rewinds), len(refused)])
        wanted = rows.a[refused]
        given_back = self.cursor[self.rewinds - 1] - self.cursor[self.rewinds]
        nbytes = np.concatenate([self.nbytes, given_back, wanted])
        size = np.concatenate([self.size, given_back, -(-wanted // ALIGN) * ALIGN])
        time = rows.event_ps[row]
        # rows come by PE and issue, so the row is the last key
        order = np.lexsort((row, time))
        row, event = row[order], event[order]
        columns = {
            "event": event,
            "time_ps": time[order],
            "pe": rows.pe[row],
            "addr": np.concatenate([self.addr, self.cursor[self.rewinds], self.cursor[refused]])[order],
            "nbytes": nbytes[order],
            "size": size[order],
            "cursor_after": self.cursor[row],
            "name": self._name_codes[0][row],
            "scope": rows.scope[row],
            "place": rows.site[row],
            "row": row,
        }
        ended = event == REWIND
        columns["name"][ended] = self._name_codes[1][columns["scope"][ended]]
        for column in columns.values():
            column.flags.writeable = False
        return columns

    @property
    def names(self) -> tuple[str, ...]:
        """What the column `name` indexes: names given, variables found in the source, labels of scopes."""
        return self._name_codes[2]

    @cached_property
    def _name_codes(self) -> tuple[Ints, Ints, tuple[str, ...]]:
        """Names as numbers, by row and by scope, and the texts."""
        rows = self.rows
        number = numbers(rows.names)
        by_site = np.array([*(number[p.variable] for p in rows.places), -1], np.int64)
        by_scope = np.array([number[label] for label in rows.scopes.label], np.int64)
        return np.where(rows.name >= 0, rows.name, by_site[rows.site]), by_scope, tuple(number)[1:]

    def __len__(self) -> int:
        return len(self.columns["row"])

    @overload
    def __getitem__(self, index: int) -> MemoryEvent: ...
    @overload
    def __getitem__(self, index: slice) -> list[MemoryEvent]: ...
    def __getitem__(self, index: int | slice) -> MemoryEvent | list[MemoryEvent]:
        if isinstance(index, slice):
            return [self._event(i) for i in range(*index.indices(len(self)))]
        try:
            return self._event(range(len(self))[index])
        except IndexError:
            raise IndexError(f"event {index} of a timeline of {len(self)}") from None

    def __iter__(self) -> Iterator[MemoryEvent]:
        return map(self._event, range(len(self)))

    def __repr__(self) -> str:
        return f"<MemoryLog: {len(self)} events, peak {self.peak} B>"

    def _event(self, at: int) -> MemoryEvent:
        value = {name: int(column[at]) for name, column in self.columns.items()}
        scopes = self.rows.scopes
        return MemoryEvent(
            event=EVENTS[value["event"]],
            time_ps=value["time_ps"],
            pe=value["pe"],
            addr=value["addr"],
            nbytes=value["nbytes"],
            size=value["size"],
            cursor_after=value["cursor_after"],
            name=self.names[value["name"]] if value["name"] >= 0 else None,
            arena=scopes.arena(value["scope"]),
            scope=scopes.path[value["scope"]],
            line=self._line(value["row"]),
            row=value["row"],
        )

    def _name(self, row: int) -> str | None:
        rows = self.rows
        name, site = int(rows.name[row]), int(rows.site[row])
        if name >= 0:
            return rows.names[name]
        return rows.places[site].variable if site >= 0 else None

    def _line(self, row: int) -> int | None:
        site = int(self.rows.site[row])
        return self.rows.places[site].line or None if site >= 0 else None
