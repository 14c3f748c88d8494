"""Which block of scratch a row writes, which ones it reads, and when each block was last of use."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kernbench_nb.sim_engine.memory_log import MemoryLog
from kernbench_nb.sim_engine.rows import SHARED_ENGINES, Ints

__all__ = ["Blocks", "blocks_of"]

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Blocks:
    """Blocks by number, in order of the row that made them (`MemoryLog.born`); -1 is none.

    Attributes
    ----------
    out, a, b
        For each row: the block that it writes, and those of its first two operands.
    last
        For each block: the last row that read or wrote it, at least the row that made it.
    first_writer
        For each block: the row that wrote it first, -1 if none did.
    """

    out: Ints
    a: Ints
    b: Ints
    last: Ints
    first_writer: Ints


def blocks_of(memory: MemoryLog) -> Blocks:
    """Find the blocks behind the addresses of a run."""
    rows, born = memory.rows, memory.born
    find = _Finder(memory)
    works = rows.is_operation
    shared = rows.of_kinds(lambda k: k.engine in SHARED_ENGINES).astype(np.bool_)[rows.kind]
    dma = rows.of_kinds(lambda k: k.engine == "dma").astype(np.bool_)[rows.kind]
    store = rows.of_kinds(lambda k: k.op == "dma_write").astype(np.bool_)[rows.kind]

    # The trace keeps the address that a store reads where others have their result's, and two entries of shared
    # engines hold no address at all (see sim_engine/trace.py).
    out = find.by_row(rows.out, works & ~store)
    out[born] = np.arange(len(born))
    a = find.by_row(np.where(store, rows.out, rows.a), works & (store | ~dma))
    b = find.by_row(rows.b, works & ~shared)

    last = born.copy()
    number = np.arange(len(rows))
    more = [(row, address) for row, addresses in sorted(rows.more.items()) for address in addresses]
    at, addresses = np.array(more, np.int64).reshape(-1, 2).T
    for row, block in ((number, out), (number, a), (number, b), (at, find(at, addresses))):
        used = np.full(len(born), -1, np.int64)
        used[block[block >= 0]] = row[block >= 0]  # of a block that is met again the later row stays
        np.maximum(last, used, out=last)

    first = np.full(len(born), -1, np.int64)
    writes = np.flatnonzero((out >= 0) & works)[::-1]
    first[out[writes]] = writes
    return Blocks(out, a, b, last, first)


class _Finder:
    """The live block at an address, after a row."""

    def __init__(self, memory: MemoryLog) -> None:
        rows = memory.rows
        self._rows = len(rows)
        counts = [p.stop - p.first for p in rows.parts]
        self._part = np.repeat(np.arange(len(rows.parts)), counts)
        self._first = [p.first for p in rows.parts]
        self._base = np.repeat([p.base for p in rows.parts], counts).astype(np.int64)
        # one number for a place in some launch's scratch; room for blocks that begin at the very end
        self._span = 1 + max((p.capacity for p in rows.parts), default=0) + int(memory.addr.max(initial=0))
        self._blocks = np.flatnonzero(memory.size > 0)  # an empty block lies where the next one does
        self._born = memory.born[self._blocks]
        self._dead = memory.dead
        self._addr = memory.addr
        self._size = memory.size
        place = self._part[self._born] * self._span + memory.addr[self._blocks]
        self._places, group = np.unique(place, return_inverse=True)
        key = group * (self._rows + 1) + self._born
        self._order = np.argsort(key, kind="stable")
        self._keys = key[self._order]

    def by_row(self, addresses: Ints, chosen: Bools) -> Ints:
        """For each row that is chosen the block that holds its address, -1 for the others."""
        found = np.full(len(addresses), -1, np.int64)
        at = np.flatnonzero(chosen)
        found[at] = self(at, addresses[at])
        return found

    def __call__(self, at: Ints, addresses: Ints) -> Ints:
        """The block that holds each address after the row beside it, or -1; rows rise."""
        if not len(self._blocks):
            return np.full(len(at), -1, np.int64)
        offset = addresses - self._base[at]
        place = self._part[at] * self._span + offset
        group = np.minimum(np.searchsorted(self._places, place), len(self._places) - 1)
        # of the blocks that began at this address so far, the latest
        lowest = group * (self._rows + 1)
        index = np.searchsorted(self._keys, lowest + at, side="right") - 1
        block = self._blocks[self._order[index]]
        exact = (self._places[group] == place) & (index >= 0) & (self._keys[index] >= lowest)
        found = np.where((addresses >= 0) & exact & (self._dead[block] > at), block, -1)
        # views that do not begin where their block does
        rest = np.flatnonzero((found < 0) & (addresses >= 0))
        if len(rest):
            found[rest] = self._walk(list(zip(at[rest].tolist(), addresses[rest].tolist(), strict=True)))
        return found

    def _walk(self, asked: list[tuple[int, int]]) -> list[int]:
        """The block that holds an address after a row, or -1, for each (row, address); rows rise.

        Scratch is a stack: of the blocks begun at or below an address, the latest is the one that may hold it.
        """
        found: list[int] = []
        starts: list[int] = []
        blocks: list[int] = []
        part = next_block = -1
        for row, address in asked:
            if self._part[row] != part:
                part = int(self._part[row])
                starts, blocks = [], []
                next_block = int(np.searchsorted(self._born, self._first[part]))
            while next_block < len(self._born) and self._born[next_block] <= row:
                block = int(self._blocks[next_block])
                start = int(self._addr[block])
                while starts and starts[-1] >= start:  # what lay there was given back
                    starts.pop()
                    blocks.pop()
                starts.append(start)
                blocks.append(block)
                next_block += 1
            offset = address - int(self._base[row])
            i = bisect_right(starts, offset) - 1
            held = i >= 0 and offset < starts[i] + self._size[blocks[i]] and self._dead[blocks[i]] > row
            found.append(blocks[i] if held else -1)
        return found
