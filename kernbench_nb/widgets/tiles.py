"""What "by tile" steps over: the scopes of a sweep and what lies between them, so that every row has a tile."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kernbench_nb.sim_engine.memory_log import MemoryLog
from kernbench_nb.sim_engine.rows import Ints, Rows
from kernbench_nb.sim_engine.trace import ENGINES

__all__ = ["Planned", "Tiles", "clock_of", "shown_stop", "tiles_of"]

Bools = npt.NDArray[np.bool_]

Range = tuple[int, int]

_SWEEP = ("tile", "merge", "finish")
_ON_THE_MAP = ("tile", "scope", "skip", "never")
_SUMS = ("hbm", "flops", "ops", "peak", "back", *ENGINES)
_QUIET, _RECEIVES, _SENDS = range(3)
_TRAILING = re.compile(r"(?:^|\s+)(?:tile|block|rows)?,?\s*\d[\d,]*$")


@dataclass(frozen=True, eq=False)
class Tiles:
    """Tiles as columns; those that ran in order of rows, then those that were skipped or never reached.

    Attributes
    ----------
    columns
        Whole numbers by name, -1 where a value is missing; see the room's README. PEs are global here.
    kind, label
        Texts.
    of_row
        The tile of each row.
    """

    columns: dict[str, Ints]
    kind: list[str]
    label: list[str]
    of_row: Ints

    def __len__(self) -> int:
        return len(self.kind)

    def layer_labels(self, paths: Sequence[str]) -> list[str]:
        """What each layer of the score map is called.

        It is the label of its first tile without its number, or that of what is around it: ``head 3``.

        Parameters
        ----------
        paths
            Paths of all scopes of the run.
        """
        layer, scope = self.columns["layer"], self.columns["scope"]
        found = []
        for number in range(int(layer.max(initial=-1)) + 1):
            first = int(np.flatnonzero(layer == number)[0])
            path = paths[int(scope[first])] if scope[first] >= 0 else self.label[first]
            words = (_TRAILING.sub("", label) for label in reversed(path.split("/")))
            found.append(next((word for word in words if word), ""))
        if len(found) != len(set(found)) or "" in found:
            return [f"layer {number}" for number in range(len(found))]
        return found


@dataclass(frozen=True, eq=False)
class Planned:
    """What a sweep would have gone on with: (global PE, label, ``never`` or ``skip``, queries, keys)."""

    tiles: Sequence[tuple[int, str, str, Range, Range]]


def shown_stop(rows: Rows, stopped: bool) -> Ints:
    """For each part the row after the last one that views show.

    A kernel that is stopped leaves its scopes, and the trace has those rows too. Views end with what it did last.

    Parameters
    ----------
    rows
        The decoded rows.
    stopped
        Whether an error ended the run, and so every kernel that was then under way.
    """
    stops = np.array([p.stop for p in rows.parts], np.int64)
    closes = rows.of_kinds(lambda k: k.op == "scope_close").astype(np.bool_)
    refused = rows.of_kinds(lambda k: k.op == "overflow").astype(np.bool_)
    last = {p.pe: i for i, p in enumerate(rows.parts)}
    for i in last.values() if stopped else ():
        part = rows.parts[i]
        kinds = rows.kind[part.first : part.stop]
        at = np.flatnonzero(refused[kinds])
        if not len(at):
            at = np.flatnonzero(~closes[kinds])
        stops[i] = part.first + (int(at[-1]) + 1 if len(at) else 0)
    return stops


def clock_of(rows: Rows) -> Ints:
    """How far each PE's own clock had come after each row, in ps: when it went on, as far as the trace tells.

    A row that the PE waits for ends before it asks for the next one; one that it does not wait for may end later.
    """
    following = np.empty(len(rows), np.int64)
    if len(rows):
        following[:-1] = rows.event_ps[1:]
    for part in rows.parts:
        if part.stop > part.first:
            following[part.stop - 1] = part.end_ps  # a last send may arrive when its kernel is over
    return np.minimum(rows.end, following)


def tiles_of(
    memory: MemoryLog,
    clock: Ints,
    stops: Ints,
    name_of_pe: Callable[[int], str],
    planned: Planned | None = None,
) -> Tiles:
    """Cut a run into tiles.

    Parameters
    ----------
    memory
        The allocation timeline of the run.
    clock, stops
        See `clock_of` and `shown_stop`.
    name_of_pe
        The label of a global PE.
    planned
        What an overflow kept from running.
    """
    rows, scopes = memory.rows, memory.rows.scopes
    chosen = _sweep_scopes(rows)
    part_of_scope = scopes.part[chosen]
    chosen = chosen[scopes.open[chosen] < stops[part_of_scope]]
    part = np.repeat(np.arange(len(rows.parts)), [p.stop - p.first for p in rows.parts])
    op0, scope = _segments(rows, chosen, part)
    count = len(op0)
    segment_part = part[op0]
    op1 = np.minimum(np.append(op0[1:], len(rows)), stops[segment_part]) - 1
    of_row = np.repeat(np.arange(count), np.diff(op0, append=len(rows)))

    closes = rows.of_kinds(lambda k: k.op == "scope_close").astype(np.bool_)[rows.kind]
    number = np.arange(len(rows))
    before_rewind = np.maximum.accumulate(np.where(closes, -1, number)) if len(rows) else number
    stop = np.where(scope >= 0, np.maximum(before_rewind[op1], op0), op1)

    sends = rows.of_kinds(lambda k: k.op == "ipc_send").astype(np.bool_)[rows.kind]
    receives = rows.of_kinds(lambda k: k.op == "ipc_recv").astype(np.bool_)[rows.kind]
    message = np.flatnonzero(sends | receives)
    first_message = np.append(message, len(rows))[np.searchsorted(message, op0)]
    talks = first_message <= op1
    peers = rows.by_kind(lambda k: -1 if k.peer is None else k.peer)
    peer = np.where(talks, np.append(peers, -1)[first_message], -1)

    kind, label = _names(rows, op0, op1, scope, segment_part, sends, receives, peer, name_of_pe)
    ranges = np.full((count, 4), -1, np.int64)
    for i in np.flatnonzero(scope >= 0).tolist():
        s = scopes.scopes[int(scope[i])]
        ranges[i] = (*(s.rows or (-1, -1)), *(s.keys or (-1, -1)))

    def total(by_row: Ints | Bools) -> Ints:
        running = np.concatenate([[0], np.cumsum(by_row, dtype=np.int64)])
        return np.asarray(running[op1 + 1] - running[op0], np.int64)

    busy = rows.of_kinds(lambda k: k.busy if k.engine else 0)
    engine = rows.of_kinds(lambda k: ENGINES.index(k.engine) if k.engine else -1)
    closed = closes[op1] & (scope >= 0)
    columns = {
        "pe": rows.pe[op0],
        "part": segment_part,
        "scope": scope,
        "q0": ranges[:, 0],
        "q1": ranges[:, 1],
        "k0": ranges[:, 2],
        "k1": ranges[:, 3],
        "op0": op0,
        "op1": op1,
        "stop": stop,
        "start": rows.event_ps[op0],
        "end": clock[op1],
        "hbm": total(rows.by_kind(lambda k: k.hbm)),
        "flops": total(rows.by_kind(lambda k: k.flops)),
        "ops": total(rows.is_operation),
        "peak": np.maximum.reduceat(memory.cursor, op0) if count else op0,
        "back": np.where(closed, memory.cursor[stop] - memory.cursor[op1], 0) if count else op0,
        "peer": np.where(np.isin(kind, ("merge", "send", "recv")), peer, -1),
    }
    for i, name in enumerate(ENGINES):
        columns[name] = total(np.where(engine == i, busy, 0)[rows.kind])

    more: dict[str, list[int]] = {}
    for entry in _not_run(rows, planned):
        kind.append(entry.kind)
        label.append(entry.label)
        for name, value in entry.values.items():
            more.setdefault(name, []).append(value)
    fill = {name: 0 if name in _SUMS else -1 for name in columns}
    missing = len(kind) - count
    for name, column in columns.items():
        rest = more.get(name) or [fill[name]] * missing
        columns[name] = np.concatenate([column, np.array(rest, np.int64)])
    columns["layer"] = _layers(columns, kind)
    columns["place"] = _places(columns, kind)
    return Tiles(columns, kind, label, of_row)


def _sweep_scopes(rows: Rows) -> Ints:
    """Scopes that are tiles: those of a sweep by their kind, else the innermost ones; none lies in another."""
    scopes = rows.scopes
    if "tile" in scopes.kind:
        wanted = np.fromiter((k in _SWEEP for k in scopes.kind), np.bool_, len(scopes))
        inside = np.zeros(len(scopes), np.bool_)
        for scope, around in scopes.nested:
            inside[scope] = wanted[around] or inside[around]
        return np.flatnonzero(wanted & ~inside)
    around_others = np.zeros(len(scopes), np.bool_)
    around_others[scopes.parent[scopes.parent >= 0]] = True
    return np.flatnonzero((scopes.parent >= 0) & ~around_others)


def _segments(rows: Rows, chosen: Ints, part: Ints) -> tuple[Ints, Ints]:
    """First row and scope (-1: what lies between) of each piece that the rows fall into."""
    if not len(rows):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    scopes = rows.scopes
    last_of_part = np.array([p.stop - 1 for p in rows.parts], np.int64)[scopes.part[chosen]]
    first, last = scopes.open[chosen], np.minimum(scopes.close[chosen], last_of_part)
    change = np.zeros(len(rows) + 1, np.int64)
    np.add.at(change, first, 1)
    np.add.at(change, last + 1, -1)
    free = np.cumsum(change[:-1]) == 0
    # What lies between is cut where receiving and sending take turns; other rows go with what came before them.
    says = rows.of_kinds(
        lambda k: _SENDS if k.op == "ipc_send" else _RECEIVES if k.op == "ipc_recv" else _QUIET
    )[rows.kind]
    new_part = np.append(True, part[1:] != part[:-1])
    gap_begins = free & (new_part | np.append(True, ~free[:-1]))
    number = np.arange(len(rows))
    talk = np.maximum.accumulate(np.where(gap_begins | (says != _QUIET), number, 0))
    doing = says[talk]
    turns = free & np.append(False, doing[1:] != doing[:-1])
    starts = gap_begins | turns
    starts[first] = True
    op0 = np.flatnonzero(starts)
    scope = np.full(len(rows), -1, np.int64)
    scope[first] = chosen
    return op0, scope[op0]


def _names(
    rows: Rows, op0: Ints, op1: Ints, scope: Ints, part: Ints, sends: Bools, receives: Bools, peer: Ints,
    name_of_pe: Callable[[int], str],
) -> tuple[list[str], list[str]]:  # fmt: skip
    """Kind and label of each piece."""
    scopes = rows.scopes
    opens = np.flatnonzero(rows.of_kinds(lambda k: k.op == "scope_open").astype(np.bool_)[rows.kind])
    kinds: list[str] = []
    labels: list[str] = []
    swept = -1  # the part whose first tile has come
    pieces = np.bincount(part) if len(part) else part
    for i, (first, last, own) in enumerate(zip(op0.tolist(), op1.tolist(), scope.tolist(), strict=True)):
        if own >= 0:
            kind = scopes.kind[own]
            kinds.append(kind if kind in _SWEEP else "scope")
            labels.append(scopes.label[own])
            if kinds[-1] in ("tile", "scope"):
                swept = int(part[i])
            continue
        if sends[first : last + 1].any():
            kinds.append("send")
            labels.append(f"send to {name_of_pe(int(peer[i]))}")
        elif receives[first : last + 1].any():
            kinds.append("recv")
            labels.append(f"receive from {name_of_pe(int(peer[i]))}")
        else:
            opened = opens[np.searchsorted(opens, first) : np.searchsorted(opens, last, side="right")]
            if len(opened):
                kinds.append("setup")
                labels.append(f"set-up of {scopes.label[int(rows.scope[opened[-1]])]}")
            elif pieces[part[i]] == 1:
                kinds.append("kernel")
                labels.append("whole kernel")
            elif swept != part[i]:
                kinds.append("setup")
                labels.append("set-up")
            else:
                kinds.append("other")
                labels.append(f"after {labels[-1]}".replace("after after", "after"))
    return kinds, labels


@dataclass(frozen=True)
class _Entry:
    kind: str
    label: str
    values: dict[str, int]


def _not_run(rows: Rows, planned: Planned | None) -> Iterator[_Entry]:
    """Tiles with no rows: skipped ones, and those that an overflow kept from running."""
    for i, part in enumerate(rows.parts):
        for time, queries, keys in part.skips:
            yield _Entry("skip", "skipped", _where(part.pe, i, queries, keys, time))
    last_part = {p.pe: i for i, p in enumerate(rows.parts)}
    for pe, label, kind, queries, keys in planned.tiles if planned else ():
        yield _Entry(kind, label, _where(pe, last_part.get(pe, -1), queries, keys, -1))


def _where(pe: int, part: int, queries: Range, keys: Range, time: int) -> dict[str, int]:
    return {
        "pe": pe, "part": part, "q0": queries[0], "q1": queries[1], "k0": keys[0], "k1": keys[1],
        "start": time, "end": time,
    }  # fmt: skip


def _layers(columns: dict[str, Ints], kind: Sequence[str]) -> Ints:
    """A rectangle of queries and keys that comes again is one layer further: another head, another pass."""
    layer = np.full(len(kind), -1, np.int64)
    counts = np.fromiter((k in _ON_THE_MAP for k in kind), np.bool_, len(kind))
    at = np.flatnonzero(counts & (columns["q0"] >= 0) & (columns["k0"] >= 0))
    if not len(at):
        return layer
    corners = np.stack([columns[name][at] for name in ("q0", "q1", "k0", "k1")], axis=1)
    _, group = np.unique(corners, axis=0, return_inverse=True)
    group = group.reshape(-1)
    start = columns["start"][at]
    start = np.where(start < 0, np.iinfo(np.int64).max, start)  # never reached: after all that was
    order = np.lexsort((at, start, group))
    first = np.searchsorted(group[order], group[order])
    layer[at[order]] = np.arange(len(at)) - first
    return layer


def _places(columns: dict[str, Ints], kind: Sequence[str]) -> Ints:
    """Position among the tiles of a PE, from 1; 0 for what is no tile of a sweep."""
    place = np.zeros(len(kind), np.int64)
    seen: dict[int, int] = {}
    for i, (pe, what) in enumerate(zip(columns["pe"].tolist(), kind, strict=True)):
        if what in ("tile", "scope", "never"):
            seen[pe] = place[i] = seen.get(pe, 0) + 1
    return place
