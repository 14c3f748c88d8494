"""Chrome's trace-event JSON: units, tracks, arrows, counters."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernbench_nb as kb
from kernbench_nb.export.chrome import chrome_events
from kernbench_nb.runtime_api.result import RunResult
from kernbench_nb.sim_engine.trace import Kind, KindTable, Trace


@pytest.fixture(scope="module")
def decode() -> RunResult:
    q, k, v = kb.sample_attention()
    return kb.decode(q[-1:], k, v, pes=4, tile=32, data=False)


@pytest.fixture(scope="module")
def ring() -> RunResult:
    q, k, v = kb.sample_attention()
    return kb.prefill(q[:, :1], k[:, :1], v[:, :1], cubes=4, data=False)


def of(events: list[dict[str, Any]], phase: str) -> list[dict[str, Any]]:
    return [e for e in events if e["ph"] == phase]


def synthetic(*rows: tuple[str, int, int]) -> RunResult:
    """A run of math operations: (name, start ps, duration ps)."""
    kinds = KindTable()
    trace = Trace(0, kinds, capacity=1024)
    run = kb.launch(lambda *, tl: None)
    root = run.given_log[0]
    trace.scopes = root.scopes
    for name, start, length in rows:
        kind = kinds.add(Kind(name, "math", dur=length))
        trace.rows += [kind.index, start + length, -1, -1, -1, name, -1, 0]
        trace.end = max(trace.end, start + length)
    return replace(run, given_log=(trace,), engine=None)


def test_exp_trace_units() -> None:
    """exp-trace-units: ts and dur are microseconds as numbers, exact, whatever displayTimeUnit says."""
    ns = 1000
    run = synthetic(("A", 1500 * ns, 250 * ns), ("B", 4_000_000_001 * ns, ns), ("C", 0, 0))
    a, b, c = (next(e for e in chrome_events(run) if e["ph"] == "X" and e["name"] == n) for n in "ABC")
    assert (a["ts"], a["dur"]) == (1.5, 0.25)
    assert (b["ts"], b["dur"]) == (4_000_000.001, 0.001)
    assert round(b["ts"] * 1000) == 4_000_000_001
    assert round(b["ts"] * 1_000_000) == 4_000_000_001_000
    assert (c["ts"], c["dur"]) == (0, 0)
    for event in (a, b, c):
        assert type(event["ts"]) is float
        assert type(event["dur"]) is float


def test_a_picosecond_survives_for_half_an_hour() -> None:
    start = 1_800 * 10**12 + 1
    (event,) = (e for e in chrome_events(synthetic(("x", start, 7))) if e["ph"] == "X")
    assert round(event["ts"] * 1_000_000) == start
    assert round(event["dur"] * 1_000_000) == 7


def test_the_file_is_strict_json(decode: RunResult, tmp_path: Path) -> None:
    path = decode.to_chrome_trace(tmp_path / "trace.json")

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    document = json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)
    assert document["displayTimeUnit"] == "ns"
    assert document["otherData"]["topology"] == "ahbm"
    slices = [e for e in document["traceEvents"] if e["ph"] == "X" and "op" in e["args"]]
    assert len(slices) == len(decode.op_log)
    assert decode.to_chrome_trace(tmp_path / "again.json").read_bytes() == path.read_bytes()


def test_every_operation_is_where_the_log_says(decode: RunResult) -> None:
    slices = {e["args"]["row"]: e for e in chrome_events(decode) if e["ph"] == "X" and "row" in e["args"]}
    for op in decode.op_log:
        e = slices[op.row]
        assert e["pid"] == op.pe
        assert e["ts"] == op.start_ps / 1e6
        assert e["args"]["ready_us"] == op.end_ps / 1e6
        length = op.end_ps - op.start_ps if op.op_name == "ipc_recv" else op.busy_ps
        assert e["dur"] == length / 1e6
        assert e["cat"] == op.engine
        assert e["name"] == (op.name or op.op_name)
        assert e["args"].get("peer") == op.peer


@pytest.mark.parametrize("name", ["decode", "ring"])
def test_slices_of_a_track_nest(name: str, request: pytest.FixtureRequest) -> None:
    events = list(chrome_events(request.getfixturevalue(name)))
    key = lambda e: (e["pid"], e["tid"])  # noqa: E731
    for _, track in itertools.groupby(sorted(of(events, "X"), key=key), key):
        open_until: list[float] = []
        for e in sorted(track, key=lambda e: (e["ts"], -e["dur"])):
            while open_until and open_until[-1] <= e["ts"]:
                open_until.pop()
            end = e["ts"] + e["dur"]
            assert not open_until or end <= open_until[-1] + 1e-9, e
            open_until.append(end)


def test_each_pe_has_a_named_track_for_each_engine(decode: RunResult) -> None:
    events = list(chrome_events(decode))
    names = {(e["pid"], e["args"]["name"]) for e in of(events, "M") if e["name"] == "thread_name"}
    assert {
        (pe, what) for pe in range(4) for what in ("dma", "gemm", "math", "ipc", "ipc receive", "scopes")
    } <= names
    processes = [e["args"]["name"] for e in of(events, "M") if e["name"] == "process_name"]
    assert processes[2] == "PE 2 (SIP 0, cube 0, PE 2)"
    track = {(e["pid"], e["tid"]): e["args"]["name"] for e in of(events, "M") if e["name"] == "thread_name"}
    for e in of(events, "X"):
        named = track[e["pid"], e["tid"]]
        if "op" in e["args"]:
            assert named.startswith("ipc receive" if e["args"]["op"] == "ipc_recv" else e["cat"])
        else:
            assert named == "scopes"


def test_arrows_lead_from_a_send_to_its_receive(decode: RunResult, ring: RunResult) -> None:
    for run in (decode, ring):
        events = list(chrome_events(run))
        starts, ends = ({e["id"]: e for e in of(events, phase)} for phase in "sf")
        sends = [op for op in run.op_log if op.op_name == "ipc_send"]
        assert set(starts) == set(ends)
        assert len(starts) == len(sends) > 5
        slices = of(events, "X")
        for number, start in starts.items():
            end = ends[number]
            assert end["bp"] == "e"
            assert start["ts"] <= end["ts"]
            a, b = (
                next(
                    e for e in slices
                    if (e["pid"], e["tid"]) == (at["pid"], at["tid"]) and e["ts"] <= at["ts"] <= e["ts"] + e["dur"]
                    and e["args"].get("op") == op
                )
                for at, op in ((start, "ipc_send"), (end, "ipc_recv"))
            )  # fmt: skip
            assert a["args"]["peer"] == b["pid"]
            assert b["args"]["peer"] == a["pid"]
            assert a["args"]["nbytes"] == b["args"]["nbytes"]


def test_the_counter_is_the_scratch_in_use(decode: RunResult) -> None:
    counters = [e for e in chrome_events(decode) if e["ph"] == "C"]
    for pe in range(4):
        own = [e for e in counters if e["pid"] == pe]
        assert max(e["args"]["bytes in use"] for e in own) == decode.peak_scratch_by_pe[pe]
        assert own[0] == {"ph": "C", "pid": pe, "name": "scratch", "ts": 0, "args": {"bytes in use": 0}}
        assert [e["ts"] for e in own] == sorted(e["ts"] for e in own)
        last = decode.memory[decode.memory["pe"] == pe].iloc[-1]
        assert own[-1]["args"]["bytes in use"] == int(last["cursor_after"])


def test_scopes_are_slices_too(decode: RunResult) -> None:
    scopes = [e for e in chrome_events(decode) if e["ph"] == "X" and "op" not in e["args"]]
    tiles = [e for e in scopes if e["cat"] == "tile"]
    frame = decode.tiles
    wanted = zip(frame["pe"], frame["tile"], frame["start_ps"], strict=True)
    assert sorted((e["pid"], e["name"], e["ts"]) for e in tiles) == sorted(
        (int(pe), str(name), ps / 1e6) for pe, name, ps in wanted
    )


def test_an_overflow_is_written_as_far_as_it_came(tmp_path: Path) -> None:
    q, k, v = kb.sample_attention()
    k, v = (np.tile(x, (5, 1, 1)) for x in (k, v))
    with pytest.raises(kb.ScratchOverflowError) as caught:
        kb.decode(q[-1:], k, v, pes=1, tile=16, scoped=False, data=False)
    path = caught.value.run.to_chrome_trace(tmp_path / "dead.json")
    assert len(json.loads(path.read_text())["traceEvents"]) > 1000


def test_nothing_is_a_trace(tmp_path: Path) -> None:
    run = kb.launch(lambda *, tl: None)
    document = json.loads(run.to_chrome_trace(tmp_path / "empty.json").read_text())
    assert {e["ph"] for e in document["traceEvents"]} == {"M", "C"}
