"""Tiles as rows: what each scope of kind ``tile`` moved, computed and reached, and which tiles were skipped."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt

from kernbench_nb.sim_engine.memory_log import MemoryLog
from kernbench_nb.sim_engine.rows import Bools, Ints, Rows

__all__ = ["TileLog"]

NOWHERE = (-1, -1)
Columns = dict[str, npt.NDArray[np.int64]]


class TileLog:
    """All tiles of a run, in order of (start, PE, issue).

    Whatever ran inside a tile counts for it, nested scopes included. A prefetched load counts for the tile that issued
    it, since the trace does not know which tile it is meant for.

    Parameters
    ----------
    memory
        The allocation timeline of the run.
    """

    def __init__(self, memory: MemoryLog) -> None:
        self._memory = memory

    @property
    def rows(self) -> Rows:
        """The decoded rows of the run."""
        return self._memory.rows

    @cached_property
    def columns(self) -> Columns:
        """One entry a tile; int64, -1 where a value is missing.

        ``scope`` indexes the scopes of the rows (label and path); ``bytes_in`` came from HBM or from another PE,
        ``bytes_out`` went there; ``peak_scratch`` is the highest cursor; ``rows_start`` to ``keys_stop`` are global
        query and key ranges.
        """
        rows, scopes = self.rows, self.rows.scopes
        chosen = np.flatnonzero(np.fromiter((k == "tile" for k in scopes.kind), np.bool_, len(scopes)))
        first, stop = scopes.open[chosen], scopes.close[chosen]
        # sums over a tile are differences of running sums, so nested scopes cost nothing
        reads = rows.of_kinds(lambda k: k.nbytes if k.op in ("dma_read", "ipc_recv") else 0)
        writes = rows.of_kinds(lambda k: k.nbytes if k.op in ("dma_write", "ipc_send") else 0)

        def total(by_row: Ints | Bools) -> Ints:
            running = np.concatenate([[0], np.cumsum(by_row, dtype=np.int64)])
            return np.asarray(running[stop] - running[first], np.int64)

        ranges = np.array(
            [
                (*(s.rows or NOWHERE), *(s.keys or NOWHERE))
                for s in map(scopes.scopes.__getitem__, chosen.tolist())
            ],
            np.int64,
        ).reshape(-1, 4)
        end_of_part = np.array([p.end_ps for p in rows.parts], np.int64)[scopes.part[chosen]]
        closed = stop < np.array([p.stop for p in rows.parts], np.int64)[scopes.part[chosen]]
        ends = np.append(rows.end, 0)[stop]
        columns: Columns = {
            "scope": chosen,
            "pe": np.array([p.pe for p in rows.parts], np.int64)[scopes.part[chosen]],
            "rows_start": ranges[:, 0],
            "rows_stop": ranges[:, 1],
            "keys_start": ranges[:, 2],
            "keys_stop": ranges[:, 3],
            "bytes_in": total(reads[rows.kind]),
            "bytes_out": total(writes[rows.kind]),
            "hbm_bytes": total(rows.of_kinds(lambda k: k.hbm)[rows.kind]),
            "flops": total(rows.of_kinds(lambda k: k.flops)[rows.kind]),
            "ops": total(rows.is_operation),
            "peak_scratch": self._memory.peak_by_scope[chosen],
            "start_ps": rows.end[first],
            "end_ps": np.where(closed, ends, end_of_part),
            "first_row": first,
            "last_row": stop,
        }
        order = np.lexsort((columns["first_row"], columns["start_ps"]))
        return {name: column[order] for name, column in columns.items()}

    @cached_property
    def skipped(self) -> Columns:
        """One entry a tile that was never loaded: when, on which PE, which queries and keys."""
        found = [
            (time, part.pe, *queries, *keys) for part in self.rows.parts for time, queries, keys in part.skips
        ]
        table = np.array(found, np.int64).reshape(-1, 6)
        table = table[np.lexsort((table[:, 1], table[:, 0]))]
        names = ("time_ps", "pe", "rows_start", "rows_stop", "keys_start", "keys_stop")
        return {name: table[:, i] for i, name in enumerate(names)}

    def __repr__(self) -> str:
        return f"<TileLog: {len(self)} tile{'' if len(self) == 1 else 's'}>"

    def __len__(self) -> int:
        return len(self.columns["scope"])
