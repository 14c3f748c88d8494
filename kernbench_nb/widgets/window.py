"""A long trace cut to a window around one step, so that a page never has more to hold than it can draw."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernbench_nb.runtime_api.text import grouped
from kernbench_nb.sim_engine.rows import Ints
from kernbench_nb.widgets.pack import Packer
from kernbench_nb.widgets.places import Spot, opening
from kernbench_nb.widgets.reader import Columns, Trace

__all__ = ["MOST_ROWS", "thinned"]

MOST_ROWS = 200_000
"""A trace of more rows is cut: some 14 MB, and a step still takes a page no longer than a frame."""


def thinned(trace: Trace, spot: Spot, most: int = MOST_ROWS) -> tuple[Trace, Spot]:
    """The part of a trace around a step, and the same step in it; the trace itself if it is short enough.

    Every PE keeps the rows around the same simulated time, as many each. Sums, tiles, scopes and whatever is alive at
    the edges stay, so that counters, the score map and the scratch are right at every step that is left.

    Parameters
    ----------
    trace, spot
        The whole trace, and where the view stands.
    most
        How many rows are kept.
    """
    index = trace.index_of(spot.pe)
    total = len(trace.ops["kind"])
    if total <= most or index is None:
        return trace, spot
    row = trace.pes[index]["op0"] + spot.step
    cut = _Cut(trace, int(trace.ops["clock"][row]), max(2, most // len(trace.pes)))
    tables = {
        **trace.tables,
        "ops": _ops(trace, cut),
        "allocs": _allocs(trace, cut),
        "scopes": _scopes(trace, cut),
        "parts": _parts(trace, cut),
        "tiles": _tiles(trace, cut),
        "msgs": _messages(trace, cut),
    }
    packer = Packer()
    for name in trace.head["tables"]:
        columns = tables[name]
        packer.add(name, len(next(iter(columns.values()))), columns)
    head = {**trace.head, "tables": packer.tables, "pes": cut.pes()}
    head["window"] = {
        "first": 0,
        "stop": len(cut.kept),
        "total": total,
        "note": (
            f"{grouped(len(cut.kept))} of {grouped(total)} steps are here, those around this place; kb.step(run, "
            "tile=...) opens another part."
        ),
    }
    if head["error"] is not None and head["error"]["op"] >= 0:
        head["error"] = {**head["error"], "op": cut.row(head["error"]["op"])}
    overflow = (head["unscoped"] or {}).get("overflow")
    if overflow is not None:
        found = {**overflow, "row": cut.row(overflow["row"])}
        head["unscoped"] = {**head["unscoped"], "overflow": found if found["row"] >= 0 else None}
    part = Trace(head, packer.buffer())
    here = Spot(spot.pe, cut.row(row) - head["pes"][index]["op0"], spot.tile)
    first = opening(part)
    head["open"] = {"pe": first.pe, "step": first.step, "tile": first.tile}
    return part, here


class _Cut:
    """Which rows stay, and what they are called then."""

    def __init__(self, trace: Trace, clock: int, each: int) -> None:
        self._trace = trace
        spans: list[tuple[int, int]] = []
        for p in trace.pes:
            first, stop = int(p["op0"]), int(p["op1"])
            middle = first + int(np.searchsorted(trace.ops["clock"][first:stop], clock, side="right"))
            low = max(first, min(middle - each // 2, stop - each))
            spans.append((low, min(stop, low + each)))
        self.first = np.array([low for low, _ in spans], np.int64)
        self.stop = np.array([high for _, high in spans], np.int64)
        self.begin = np.concatenate([[0], np.cumsum(self.stop - self.first)[:-1]])
        self.kept = np.concatenate([np.arange(low, high) for low, high in spans])
        self._number = np.full(len(trace.ops["kind"]) + 1, -1, np.int64)
        self._number[self.kept] = np.arange(len(self.kept))

    def row(self, row: int) -> int:
        """The new number of a row, -1 if it is gone."""
        return int(self._number[row])

    def rows(self, rows: Ints) -> Ints:
        """New numbers, -1 for rows that are gone and for -1."""
        return np.where(rows >= 0, self._number[rows], -1)

    def edges(self, rows: Ints, pe: Ints) -> Ints:
        """New numbers of rows of known PEs; what lies before the window is its first row, what lies behind its end."""
        inside = np.clip(rows, self.first[pe], self.stop[pe])
        return self.begin[pe] + inside - self.first[pe]

    def pes(self) -> list[dict[str, Any]]:
        """What the head says about each PE."""
        return [
            {**p, "op0": int(begin), "op1": int(begin + stop - first), "before": int(first) - int(p["op0"])}
            for p, begin, first, stop in zip(self._trace.pes, self.begin, self.first, self.stop, strict=True)
        ]


def _pe_of_part(trace: Trace) -> Ints:
    pe: Ints = trace.tables["parts"]["pe"]
    return pe


def _kept_blocks(trace: Trace, cut: _Cut) -> Ints:
    a = trace.allocs
    pe = _pe_of_part(trace)[a["part"]]
    return np.flatnonzero((a["born"] < cut.stop[pe]) & (a["dead"] > cut.first[pe]))


def _ops(trace: Trace, cut: _Cut) -> Columns:
    columns = {name: column[cut.kept] for name, column in trace.ops.items()}
    blocks = _kept_blocks(trace, cut)
    number = np.full(len(trace.allocs["born"]) + 1, -1, np.int64)
    number[blocks] = np.arange(len(blocks))
    for name in ("out", "a", "b"):
        columns[name] = number[columns[name]]
    return columns


def _allocs(trace: Trace, cut: _Cut) -> Columns:
    blocks = _kept_blocks(trace, cut)
    columns = {name: column[blocks] for name, column in trace.allocs.items()}
    pe = _pe_of_part(trace)[columns["part"]]
    return {
        **columns,
        "born": cut.rows(columns["born"]),
        "dead": cut.edges(columns["dead"], pe),
        "last": np.minimum(cut.edges(columns["last"], pe), cut.begin[pe] + cut.stop[pe] - cut.first[pe] - 1),
    }


def _scopes(trace: Trace, cut: _Cut) -> Columns:
    columns = trace.tables["scopes"]
    pe = _pe_of_part(trace)[columns["part"]]
    return {**columns, "open": cut.edges(columns["open"], pe), "close": cut.edges(columns["close"], pe)}


def _parts(trace: Trace, cut: _Cut) -> Columns:
    columns = trace.tables["parts"]
    pe = columns["pe"]
    return {**columns, "op0": cut.edges(columns["op0"], pe), "op1": cut.edges(columns["op1"], pe)}


def _tiles(trace: Trace, cut: _Cut) -> Columns:
    columns = dict(trace.tiles)
    pe = columns["pe"]
    here = (columns["op0"] >= 0) & (columns["op0"] < cut.stop[pe]) & (columns["op1"] >= cut.first[pe])
    op0, op1 = cut.edges(columns["op0"], pe), cut.edges(columns["op1"] + 1, pe) - 1
    columns["op0"], columns["op1"] = np.where(here, op0, -1), np.where(here, op1, -1)
    columns["stop"] = np.where(here, np.minimum(cut.edges(columns["stop"], pe), op1), -1)
    columns["weights"] = cut.rows(columns["weights"])
    return columns


def _messages(trace: Trace, cut: _Cut) -> Columns:
    columns = trace.tables["msgs"]
    send, recv = cut.rows(columns["send"]), cut.rows(columns["recv"])
    kept = send >= 0
    return {"send": send[kept], "recv": recv[kept], "nbytes": columns["nbytes"][kept]}
