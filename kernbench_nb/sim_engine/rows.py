"""The rows of all PEs as numpy columns: what the log, the allocation timeline and the tiles are read from.

`decode` goes through the flat lists of the traces once and makes no object per row. What all rows of a kind, a scope
or a calling place share stays in small tables beside the columns, so a derived column is one `take`.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import count
from operator import itemgetter
from typing import Any, Protocol, overload

import numpy as np
import numpy.typing as npt

from kernbench_nb.sim_engine.source import Place, place_of
from kernbench_nb.sim_engine.trace import (
    AT,
    CHAIN,
    END,
    KIND,
    NAME,
    OUT,
    STRIDE,
    A,
    B,
    Chain,
    Kind,
    KindTable,
    Trace,
)

__all__ = [
    "SHARED_ENGINES",
    "Ints",
    "Part",
    "Places",
    "Rows",
    "ScopeLike",
    "ScopeTable",
    "decode",
    "forward_fill",
    "numbers",
]

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Range = tuple[int, int]
Skip = tuple[int, Range, Range]

SHARED_ENGINES = ("dma", "ipc")
"""Engines whose rows keep their start in `B`: they may have waited for something that other PEs use too."""

_CHUNK = 1024
"""Rows packed at a time: their entries (64 bytes a row, and the integers they point to) stay in a core's cache."""


@dataclass(frozen=True, slots=True)
class Part:
    """Which rows one kernel invocation left on one PE.

    Attributes
    ----------
    pe
        Global index.
    launch
        How many kernels had run on this PE before.
    first, stop
        Its rows are ``first <= row < stop``.
    base, capacity
        The scratch that addresses lie in.
    end_ps
        When the kernel ended.
    skips
        Skipped tiles: (ps, rows, keys).
    """

    pe: int
    launch: int
    first: int
    stop: int
    base: int
    capacity: int
    end_ps: int
    skips: tuple[Skip, ...] = ()


class ScopeLike(Protocol):
    """What is read off a scope: `kernbench_nb.memory.Scope` has it, and so has one that comes from a file."""

    label: str
    kind: str
    save: int
    rewind: bool
    rows: Range | None
    keys: Range | None


@dataclass(frozen=True, eq=False)
class ScopeTable:
    """All arenas of all parts: for each part its persistent arena, then its scopes in order of opening.

    Parent, owner and tile are indices into the table; -1 is none.

    Attributes
    ----------
    scopes
        The scopes themselves; what they say is read off when it is asked for.
    part, parent
        The part each belongs to, and the arena around it; a persistent arena has no parent.
    open, close
        Rows at which each was opened and closed; a persistent arena opens with the first row of its part, and the row
        after the part's last closes what the kernel left open.
    base
        Address of the first byte of its scratch.
    """

    scopes: Sequence[ScopeLike]
    part: Ints
    parent: Ints
    open: Ints
    close: Ints
    base: Ints

    def __len__(self) -> int:
        return len(self.scopes)

    @cached_property
    def label(self) -> list[str]:
        """What views call it; the persistent arena's is empty."""
        return [s.label for s in self.scopes]

    @cached_property
    def kind(self) -> list[str]:
        """``tile``, ``merge``, ``block``, ``finish``, ``scope``, or ``persistent``."""
        return [s.kind for s in self.scopes]

    @cached_property
    def nested(self) -> list[tuple[int, int]]:
        """(scope, the scope around it) for those that stand in another one, the outer ones first."""
        inside = np.flatnonzero(self.parent >= 0)
        inside = inside[self.parent[self.parent[inside]] >= 0]
        return list(zip(inside.tolist(), self.parent[inside].tolist(), strict=True))

    # The properties below are right at once for scopes that stand in no other, which are nearly all; `nested` mends
    # the rest one by one.

    @cached_property
    def path(self) -> list[str]:
        """Labels from the outermost scope to this one; empty for a persistent arena."""
        path = self.label.copy()
        for scope, around in self.nested:
            path[scope] = f"{path[around]}/{path[scope]}"
        return path

    @cached_property
    def tile(self) -> Ints:
        """The nearest scope of kind ``tile``, itself included."""
        itself = np.fromiter(map("tile".__eq__, self.kind), np.bool_, len(self))
        tile = np.where(itself, np.arange(len(self)), -1)
        for scope, around in self.nested:
            if tile[scope] < 0:
                tile[scope] = tile[around]
        return tile

    @cached_property
    def rewind(self) -> Bools:
        """Whether its end moves the cursor back."""
        rewind = np.fromiter((s.rewind for s in self.scopes), np.bool_, len(self))
        return np.logical_and(rewind, self.parent >= 0)

    @cached_property
    def owner(self) -> Ints:
        """The arena whose end gives its bytes back: itself, or what surrounds a scope with ``rewind=False``."""
        owner = np.where(self.rewind | (self.parent < 0), np.arange(len(self)), self.parent)
        for scope, around in self.nested:
            if not self.rewind[scope]:
                owner[scope] = owner[around]
        return owner

    @cached_property
    def scoped(self) -> Bools:
        """Whether what is allocated in it is given back by the end of a scope."""
        return np.asarray(self.parent[self.owner] >= 0, np.bool_)

    @cached_property
    def save(self) -> Ints:
        """Save-point, in bytes from the start of the scratch."""
        return np.fromiter((s.save for s in self.scopes), np.int64, len(self)) - self.base

    def arena(self, scope: int) -> str:
        """``"persistent"`` or ``"scoped"``."""
        return "scoped" if self.scoped[scope] else "persistent"


class Places(Sequence[Place]):
    """Calling places, each looked up in the source when it is first asked for."""

    def __init__(self, sites: Sequence[tuple[Chain, int]]) -> None:
        self._sites = sites
        self._found: dict[int, Place] = {}

    def __len__(self) -> int:
        return len(self._sites)

    @overload
    def __getitem__(self, index: int) -> Place: ...
    @overload
    def __getitem__(self, index: slice) -> list[Place]: ...
    def __getitem__(self, index: int | slice) -> Place | list[Place]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        found = self._found.get(index)
        if found is None:
            found = self._found[index] = place_of(*self._sites[index])
        return found


@dataclass(frozen=True, eq=False)
class Rows:
    """Every row of several traces: by PE, on one PE launch after launch, in one launch in order of issue.

    All columns are int64 of one length; -1 stands for "none" in those that may miss.

    Attributes
    ----------
    kind, scope, site, name
        Indices into `kinds` (in order of first use), `scopes`, `places` and `names`. The row that opens or closes a
        scope counts as being in it.
    start, end
        ps.
    out, a, b
        As they stand in the trace: see `kernbench_nb.sim_engine.trace`.
    more
        Operand addresses beyond the second, by row.
    """

    parts: tuple[Part, ...]
    kinds: tuple[Kind, ...]
    scopes: ScopeTable
    places: Sequence[Place]
    names: tuple[str, ...]
    kind: Ints
    start: Ints
    end: Ints
    out: Ints
    a: Ints
    b: Ints
    name: Ints
    site: Ints
    scope: Ints
    more: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.kind)

    def of_kinds(self, get: Callable[[Kind], int]) -> Ints:
        """One integer for each kind, as a table to take from."""
        return np.fromiter(map(get, self.kinds), np.int64, len(self.kinds))

    def are(self, test: Callable[[Kind], bool]) -> Bools:
        """One truth value for each kind, as a table to take from."""
        return np.fromiter(map(test, self.kinds), np.bool_, len(self.kinds))

    def where(self, test: Callable[[Kind], bool]) -> Ints:
        """Rows whose kind passes a test, rising."""
        return np.flatnonzero(self.are(test)[self.kind])

    def by_kind(self, get: Callable[[Kind], int]) -> Ints:
        """One integer for each row, read off its kind."""
        return self.of_kinds(get)[self.kind]

    def by_part(self, get: Callable[[Part], int]) -> Ints:
        """One integer for each row, read off its part."""
        values = np.fromiter(map(get, self.parts), np.int64, len(self.parts))
        return np.repeat(values, [p.stop - p.first for p in self.parts])

    @cached_property
    def pe(self) -> Ints:
        """Global PE of each row."""
        return self.by_part(lambda p: p.pe)

    @cached_property
    def is_operation(self) -> Bools:
        """Which rows are operations; the others are free of charge: scopes, `empty`, refused requests."""
        return np.asarray(self.are(lambda k: k.engine != "")[self.kind], np.bool_)

    @cached_property
    def event_ps(self) -> Ints:
        """When the PE asked for each row, as far as the trace tells: its start, or the start of anything asked later.

        A kernel asks in order, so this never falls within a part, though a queued load may start after what was asked
        later. Allocations and rewinds are dated by it.
        """
        times = self.start.copy()
        for p in self.parts:
            backwards = times[p.first : p.stop][::-1]
            np.minimum.accumulate(backwards, out=backwards)
        return times


def forward_fill(values: Ints, at: Ints, length: int) -> Ints:
    """Spread ``values``, set at the rows `at` (rising, the first of them 0), over the rows that follow."""
    return np.repeat(values, np.diff(at, append=length))


def decode(traces: Iterable[Trace]) -> Rows:
    """Read traces into columns.

    Parameters
    ----------
    traces
        In the order in which they ran; those of one PE follow each other in time.
    """
    ordered = sorted(traces, key=lambda t: t.pe)
    kinds, kind_base = _all_kinds(ordered)
    places = _Sites()
    names = numbers()
    parts: list[Part] = []
    more: dict[int, tuple[int, ...]] = {}
    total = sum(map(len, ordered))
    matrix = np.empty((STRIDE, total), np.int64)
    first = 0
    for trace in ordered:
        stop = first + len(trace)
        earlier = parts[-1].launch + 1 if parts and parts[-1].pe == trace.pe else 0
        base, skips = trace.scratch_base, tuple(trace.skips)
        parts.append(Part(trace.pe, earlier, first, stop, base, trace.capacity, trace.end, skips))
        columns = matrix[:, first:stop]
        _pack(trace.rows, columns, names)
        if kind_base[id(trace.kinds)]:
            columns[KIND] += kind_base[id(trace.kinds)]
        places.number(trace.chains, columns[CHAIN], columns[AT])
        if trace.more:
            more.update((first + row, addresses) for row, addresses in trace.more.items())
        first = stop
    kinds = _only_met(kinds, matrix[KIND])
    kind, end = matrix[KIND], matrix[END]
    return Rows(
        parts=tuple(parts),
        kinds=kinds,
        scopes=(scopes := _all_scopes(ordered, parts, kinds, kind, matrix[A])),
        places=Places(places.sites),
        names=tuple(names)[1:],
        kind=kind,
        start=_starts(kinds, kind, end, matrix[B]),
        end=end,
        out=matrix[OUT],
        a=matrix[A],
        b=matrix[B],
        name=matrix[NAME],
        site=matrix[CHAIN],
        scope=_scope_of_rows(scopes, parts, total),
        more=more,
    )


def _pack(rows: list[Any], columns: Ints, names: defaultdict[Any, int]) -> None:
    # One call of struct packs a chunk into machine integers: a third faster than numpy reads them one by one.
    for first in range(0, len(rows) // STRIDE, _CHUNK):
        chunk = rows[first * STRIDE : (first + _CHUNK) * STRIDE]
        given = chunk[NAME::STRIDE]
        # all of them in one call; None stands beside them because of one item it would make no tuple
        chunk[NAME::STRIDE] = itemgetter(*given, None)(names)[:-1]
        packed = _packer(len(chunk))(*chunk)
        columns[:, first : first + _CHUNK] = np.frombuffer(packed, np.int64).reshape(-1, STRIDE).T


@cache
def _packer(count: int) -> Callable[..., bytes]:
    # bound to its format, since a call with one argument more would copy all of them once more
    return struct.Struct(f"{count}q").pack


def numbers(known: Iterable[str] = ()) -> defaultdict[Any, int]:
    """A mapping that numbers texts as they are first met, after those already known; None is -1, its first key."""
    texts = (None, *known)
    return defaultdict(count(len(texts) - 1).__next__, zip(texts, count(-1)))


class _Sites:
    """Numbers calling places, a chain and an instruction in it, over all traces."""

    def __init__(self) -> None:
        self.sites: list[tuple[Chain, int]] = []
        self._known: dict[Any, int] = {}

    def number(self, chains: Sequence[Chain], chain: Ints, at: Ints) -> None:
        """Replace each chain by the number of its place, the chain with an offset; -1 stays as it is."""
        unknown = np.flatnonzero(chain < 0)
        if len(unknown) == len(chain):
            return
        # offsets are below the length of the code, so that a table over all pairs is small: no sorting needed
        width = int(at.max()) + 1
        chain *= width
        chain += at
        chain[unknown] = chain.max()  # any place that is known, for now
        used = np.flatnonzero(np.bincount(chain))
        table = np.full(int(used[-1]) + 1, -1, np.int64)
        for pair in used.tolist():
            table[pair] = self._find(chains[pair // width], pair % width)
        np.take(table, chain, out=chain, mode="clip")  # of the modes only "clip" makes no copy on the way
        chain[unknown] = -1

    def _find(self, chain: Chain, at: int) -> int:
        code, callers = chain
        # code objects of equal text are equal wherever they come from, so they are told apart by identity
        key = (id(code), at, tuple((id(c), offset) for c, offset in callers))
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = len(self.sites)
            self.sites.append((chain, at))
        return number


def _all_kinds(traces: Sequence[Trace]) -> tuple[tuple[Kind, ...], dict[int, int]]:
    tables: dict[int, KindTable] = {id(t.kinds): t.kinds for t in traces}
    kinds: list[Kind] = []
    base: dict[int, int] = {}
    for key, table in tables.items():
        base[key] = len(kinds)
        kinds += table
    return tuple(kinds), base


def _only_met(kinds: Sequence[Kind], kind: Ints) -> tuple[Kind, ...]:
    """The kinds that these rows are of, in order of first use; the rows are numbered accordingly.

    A machine's table also holds what other runs have met before; a run must not depend on them.
    """
    first = np.full(len(kinds), len(kind), np.int64)
    first[kind[::-1]] = np.arange(len(kind) - 1, -1, -1)  # of a repeated index the last assignment stays
    order = np.argsort(first, kind="stable")[: int((first < len(kind)).sum())]
    number = np.zeros(len(kinds), np.int64)
    number[order] = np.arange(len(order))
    np.take(number, kind, out=kind, mode="clip")
    return tuple(kinds[i] for i in order.tolist())


def _starts(kinds: Sequence[Kind], kind: Ints, end: Ints, b: Ints) -> Ints:
    duration = np.fromiter((k.dur if k.engine else 0 for k in kinds), np.int64, len(kinds))
    start: Ints = duration[kind]
    np.subtract(end, start, out=start)
    shared = np.flatnonzero(
        np.fromiter((k.engine in SHARED_ENGINES for k in kinds), np.bool_, len(kinds))[kind]
    )
    start[shared] = b[shared]
    return start


def _all_scopes(
    traces: Sequence[Trace], parts: Sequence[Part], kinds: Sequence[Kind], kind: Ints, a: Ints
) -> ScopeTable:
    scopes: list[ScopeLike] = []
    parent: list[int] = []
    counts: list[int] = []
    for trace in traces:
        root = len(scopes)
        scopes += trace.scopes
        counts.append(len(trace.scopes))
        parent += [-1, *[root] * (len(trace.scopes) - 1)][
            : len(trace.scopes)
        ]  # none in a PE that never started
        nested = [(i, s.parent) for i, s in enumerate(trace.scopes, root) if s.depth > 1]
        if nested:
            number = {id(s): i for i, s in enumerate(trace.scopes, root)}
            for i, around in nested:
                parent[i] = number[id(around)]
    part = np.repeat(np.arange(len(parts)), counts)
    opens = np.array([p.first for p in parts], np.int64)[part]
    closes = np.array([p.stop for p in parts], np.int64)[part]
    # a scope's number in its trace becomes its number in the table
    offset = np.cumsum([0, *counts[:-1]]) if counts else np.empty(0, np.int64)
    offset = np.repeat(offset, [p.stop - p.first for p in parts])
    for op, column in (("scope_open", opens), ("scope_close", closes)):
        at = np.flatnonzero(np.fromiter((k.op == op for k in kinds), np.bool_, len(kinds))[kind])
        column[a[at] + offset[at]] = at
    base = np.array([p.base for p in parts], np.int64)[part]
    return ScopeTable(scopes, part, np.array(parent, np.int64), opens, closes, base)


def _scope_of_rows(scopes: ScopeTable, parts: Sequence[Part], total: int) -> Ints:
    if not total:
        return np.empty(0, np.int64)
    # From its opening row on a scope is the innermost one, from the row after its closing the one around it is.
    number = np.arange(len(scopes))
    filled = np.array([p.stop > p.first for p in parts], np.bool_)[scopes.part]
    last = np.array([p.stop for p in parts], np.int64)[scopes.part]
    ended = np.flatnonzero((scopes.parent >= 0) & (scopes.close < last))
    at = np.concatenate([scopes.open[filled], scopes.close[ended] + 1])
    value = np.concatenate([number[filled], scopes.parent[ended]])
    # where one scope closes and another opens at once, the opening counts; it has the larger number and comes later
    order = np.lexsort((value, at))
    at, value = at[order], value[order]
    keep = np.append(at[1:] != at[:-1], True)
    return forward_fill(value[keep], at[keep], total)
