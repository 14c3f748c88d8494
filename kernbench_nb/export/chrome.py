"""A run as Chrome's trace-event JSON, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

One process a PE; in it a track for each engine and for the scopes, and a counter of the scratch in use. Arrows lead
from a send to its receive. ``ts`` and ``dur`` are microseconds as numbers, whatever `displayTimeUnit` says: a ps is
1e-6 of one, and a double is exact to the picosecond for more than half an hour.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kernbench_nb.runtime_api.messages import messages_of
from kernbench_nb.runtime_api.result import RunResult
from kernbench_nb.sim_engine.rows import Rows
from kernbench_nb.sim_engine.trace import ENGINES

__all__ = ["chrome_events", "write_chrome_trace"]

Event = dict[str, Any]

_WHAT = (*ENGINES, "ipc receive", "scopes")
"""What has a track of its own in each PE."""


def write_chrome_trace(run: RunResult, path: str | Path) -> Path:
    """`RunResult.to_chrome_trace`: write the file.

    Parameters
    ----------
    run
        The run.
    path
        Where to.

    Returns
    -------
    Path
        Of the file.
    """
    path = Path(path)
    document = {
        "displayTimeUnit": "ns",
        "otherData": {
            "run": run.name,
            "topology": run.topology.name,
            **{f"version of {what}": version for what, version in run.versions.items()},
        },
        "traceEvents": list(chrome_events(run)),
    }
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    path.write_text(text, encoding="utf-8", newline="\n")
    return path


def chrome_events(run: RunResult) -> Iterator[Event]:
    """The events: names of tracks, slices, arrows, counters."""
    rows = run.op_log.rows
    lanes = _Lanes()
    slices = [*_operations(run, lanes), *_scopes(rows)]
    yield from _tracks(run, lanes)
    yield from slices
    yield from _arrows(rows, lanes)
    yield from _scratch(run)


def _us(ps: int) -> float:
    return ps / 1_000_000


class _Lanes:
    """Puts slices of one engine on as many tracks as keep them from overlapping; nearly always one.

    Two messages may be on their way at once, and a reader of the format draws slices of a track inside each other.
    """

    def __init__(self) -> None:
        self._free: dict[tuple[int, str], list[int]] = {}
        self.of_row: dict[int, int] = {}

    def put(self, pe: int, what: str, row: int, start: int, end: int) -> int:
        """The track of a slice; slices come in order of start."""
        free = self._free.setdefault((pe, what), [])
        lane = next((i for i, at in enumerate(free) if at <= start), len(free))
        if lane == len(free):
            free.append(0)
        free[lane] = end
        track = self.of_row[row] = _track(what, lane)
        return track

    def used(self, pe: int) -> Iterator[tuple[int, str]]:
        """Numbers and names of the tracks of a PE."""
        for what in _WHAT:
            for lane in range(max(1, len(self._free.get((pe, what), [])))):
                yield _track(what, lane), what if lane == 0 else f"{what} {lane + 1}"


def _track(what: str, lane: int) -> int:
    return 1 + _WHAT.index(what) + len(_WHAT) * lane


def _tracks(run: RunResult, lanes: _Lanes) -> Iterator[Event]:
    for order, pe in enumerate(run.pes):
        sip, cube, within = run.topology.locate(pe)
        name = f"PE {pe} (SIP {sip}, cube {cube}, PE {within})"
        yield {"ph": "M", "pid": pe, "name": "process_name", "args": {"name": name}}
        yield {"ph": "M", "pid": pe, "name": "process_sort_index", "args": {"sort_index": order}}
        for place, (track, what) in enumerate(lanes.used(pe)):
            yield {"ph": "M", "pid": pe, "tid": track, "name": "thread_name", "args": {"name": what}}
            yield {
                "ph": "M",
                "pid": pe,
                "tid": track,
                "name": "thread_sort_index",
                "args": {"sort_index": place},
            }


def _operations(run: RunResult, lanes: _Lanes) -> Iterator[Event]:
    # A slice is the time that the engine is occupied: a load's latency is told by `ready_us`. A receive occupies
    # nothing; its slice is the wait for the message.
    for op in run.op_log:
        waits = op.op_name == "ipc_recv"
        length = op.end_ps - op.start_ps if waits else op.busy_ps
        what = "ipc receive" if waits else op.engine
        args: dict[str, Any] = {"op": op.op_name, "row": op.row, "ready_us": _us(op.end_ps)}
        known = {
            "scope": op.scope or None,
            "tile": op.tile,
            "tensor": op.tensor,
            "dtype": op.dtype,
            "nbytes": op.nbytes,
            "flops": op.flops or None,
            "hbm_bytes": op.hbm_bytes or None,
            "peer": op.peer,
            "line": op.line,
            "shapes": [list(shape) for shape in op.shapes] or None,
        }
        args.update({key: value for key, value in known.items() if value is not None})
        yield {
            "ph": "X",
            "pid": op.pe,
            "tid": lanes.put(op.pe, what, op.row, op.start_ps, op.start_ps + length),
            "name": op.name or op.op_name,
            "cat": op.engine,
            "ts": _us(op.start_ps),
            "dur": _us(length),
            "args": args,
        }


def _scopes(rows: Rows) -> Iterator[Event]:
    scopes = rows.scopes
    for scope in np.flatnonzero(scopes.parent >= 0).tolist():
        part = rows.parts[int(scopes.part[scope])]
        first, last = int(scopes.open[scope]), int(scopes.close[scope])
        begins = int(rows.end[first])
        ends = int(rows.end[last]) if last < part.stop else max(part.end_ps, int(rows.end[part.stop - 1]))
        yield {
            "ph": "X",
            "pid": part.pe,
            "tid": _track("scopes", 0),
            "name": scopes.label[scope],
            "cat": scopes.kind[scope],
            "ts": _us(begins),
            "dur": _us(max(0, ends - begins)),
            "args": {"kind": scopes.kind[scope], "path": scopes.path[scope]},
        }


def _arrows(rows: Rows, lanes: _Lanes) -> Iterator[Event]:
    messages = messages_of(rows)
    for number, (send, recv) in enumerate(zip(messages.send.tolist(), messages.recv.tolist(), strict=True)):
        if recv < 0:
            continue
        message = {"name": "message", "cat": "ipc", "id": number}
        # "bp": "e" ties the arrow to the slice that is there at that time; it is no longer there at its end
        arrives = max(int(rows.start[recv]), int(rows.end[recv]) - 1)
        for phase, row, time in (
            ({"ph": "s"}, send, int(rows.start[send])),
            ({"ph": "f", "bp": "e"}, recv, arrives),
        ):
            at = {"pid": int(rows.pe[row]), "tid": lanes.of_row[row], "ts": _us(time)}
            yield {**message, **phase, **at}


def _scratch(run: RunResult) -> Iterator[Event]:
    for pe in run.pes:
        yield _counter(pe, 0, 0)
    columns = run.memory_log.columns
    for time, pe, cursor in zip(
        columns["time_ps"].tolist(), columns["pe"].tolist(), columns["cursor_after"].tolist(), strict=True
    ):
        yield _counter(pe, time, cursor)


def _counter(pe: int, time: int, cursor: int) -> Event:
    return {"ph": "C", "pid": pe, "name": "scratch", "ts": _us(time), "args": {"bytes in use": cursor}}
