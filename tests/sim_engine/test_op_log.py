from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernbench_nb.sim_engine.op_log import OpLog, OpRecord, shapes_text
from kernbench_nb.sim_engine.rows import decode
from kernbench_nb.sim_engine.source import place_of
from kernbench_nb.sim_engine.trace import (
    AT,
    CHAIN,
    CLOSE,
    END,
    KIND,
    NAME,
    OPEN,
    OUT,
    STRIDE,
    A,
    B,
    KindTable,
    Trace,
)
from tests.sim_engine.trace_builder import D, TraceBuilder, fold_kernel

BASE = 1 << 24
BIG = 2**53 + 1


def small() -> TraceBuilder:
    """One of everything."""
    tl = TraceBuilder(pe=5)

    def kernel() -> None:
        q = tl.load("Q", 4, 64, offset=256)
        with tl.scope("tile 0", kind="tile"):
            s = tl.op("gemm", q, q, shape=(4, 4), dur=21_000)
            tl.op("add", s, s, shape=(4, 4), name="given")
            with tl.scope("inner"):
                tl.op("where", s, s, q, shape=(4, 4))
        got = tl.recv("W", 4, 4, peer=3, at=500_000)
        tl.op("copy", s, out=got)
        tl.send("E", got, peer=6)
        tl.store("O", got, offset=32)

    kernel()
    return tl


def test_what_each_record_says() -> None:
    log = OpLog([small().trace])
    assert [r.op_name for r in log] == [
        "dma_read",
        "gemm",
        "add",
        "where",
        "ipc_recv",
        "copy",
        "ipc_send",
        "dma_write",
    ]
    load, dot, add, where, recv, copy, send, store = log
    t = D
    assert (load.start_ps, load.end_ps, load.busy_ps) == (t, t + 110_000, 10_000)
    assert (load.engine, load.pe, load.nbytes, load.hbm_bytes, load.flops) == ("dma", 5, 512, 512, 0)
    assert (load.tensor, load.offset, load.out_addr, load.addresses) == ("Q", 256, BASE, ())
    assert (load.shapes, load.dtype, load.name, load.scope, load.tile) == (((4, 64),), "f16", "q", "", None)
    t = load.end_ps + D
    assert (dot.start_ps, dot.end_ps, dot.busy_ps) == (t, t + 21_000, 21_000)
    assert (dot.engine, dot.nbytes, dot.hbm_bytes, dot.flops, dot.elements) == (
        "gemm",
        None,
        0,
        2 * 16 * 64,
        0,
    )
    assert dot.shapes == ((4, 64), (4, 64), (4, 4))
    assert (dot.out_addr, dot.addresses) == (BASE + 512, (BASE, BASE))
    assert (dot.name, dot.scope, dot.tile, dot.tensor, dot.offset) == ("s", "tile 0", "tile 0", None, None)
    assert (add.name, add.engine, add.elements, add.dtype) == ("given", "math", 16, "f32")
    assert (where.scope, where.tile, where.name) == ("tile 0/inner", "tile 0", None)
    assert where.addresses == (BASE + 512, BASE + 512, BASE)
    assert (recv.start_ps, recv.end_ps, recv.busy_ps) == (where.end_ps + D, 500_000, 0)
    assert (recv.peer, recv.direction, recv.nbytes, recv.addresses) == (3, "W", 64, ())
    assert (copy.nbytes, copy.out_addr, copy.hbm_bytes, copy.name) == (64, recv.out_addr, 0, None)
    assert (send.start_ps, send.end_ps) == (copy.end_ps + D, copy.end_ps + D + 7_000)
    assert (send.peer, send.direction, send.out_addr, send.addresses) == (6, "E", None, (recv.out_addr,))
    assert (store.tensor, store.offset, store.out_addr) == ("O", 32, None)
    assert store.addresses == (recv.out_addr,)
    assert store.start_ps == copy.end_ps + 2 * D  # the send did not hold the PE up
    assert (load.function, load.kernel_line) == ("kernel", load.line)
    assert (load.start_ns, load.dur_ns) == (D / 1000, 110.0)
    assert load.file is not None
    assert load.file.endswith("test_op_log.py")
    assert "file" not in repr(load)  # what a notebook prints must not name the machine


def test_lines_of_shared_functions_and_of_the_kernel() -> None:
    tl = TraceBuilder()

    def shared() -> None:
        tl.op("exp", shape=(4,))

    def kernel() -> None:
        shared()
        shared()

    kernel()
    first, second = OpLog([tl.trace])
    assert first.function == second.function == "shared"
    assert first.line == second.line
    assert first.kernel_line is not None
    assert first.line is not None
    assert (first.kernel_line - first.line, second.kernel_line - first.line) == (3, 4)


def test_a_row_with_no_calling_place() -> None:
    tl = TraceBuilder()
    tl.op("exp", shape=(4,))
    tl.trace.rows[CHAIN::STRIDE] = [-1]
    tl.trace.rows[AT::STRIDE] = [0]
    (record,) = OpLog([tl.trace])
    assert (record.line, record.function, record.file, record.kernel_line, record.name) == (None,) * 5
    tl.trace.chains.clear()
    (record,) = OpLog([tl.trace])
    assert record.line is None


def test_order_is_start_then_pe_then_issue() -> None:
    kinds = KindTable()
    traces = []
    for pe in (7, 2):
        tl = TraceBuilder(pe, kinds)
        a = tl.empty(4)
        tl.load("K", 4, start=50_000, wait=False)  # queued: it starts after what is issued next
        tl.op("exp", a, shape=(4,), dur=0)
        tl.now -= D
        tl.op("log", a, shape=(4,), dur=0)
        traces.append(tl.trace)
    log = OpLog(traces)
    assert [(r.start_ps, r.pe, r.op_name) for r in log] == [
        (2 * D, 2, "exp"),
        (2 * D, 2, "log"),
        (2 * D, 7, "exp"),
        (2 * D, 7, "log"),
        (50_000, 2, "dma_read"),
        (50_000, 7, "dma_read"),
    ]
    assert [r.row for r in log] == [2, 3, 6, 7, 1, 5]


def test_launches_follow_each_other() -> None:
    kinds = KindTable()
    first = fold_kernel(0, 1, kinds)
    second = fold_kernel(0, 1, kinds, now=first.now)
    log = OpLog([first.trace, second.trace])
    once = OpLog([first.trace])
    assert len(log) == 2 * len(once)
    assert [r.op_name for r in log] == 2 * [r.op_name for r in once]
    assert [r.start_ps for r in log[len(once) :]] == [r.start_ps + first.now for r in once]
    assert [p.launch for p in log.rows.parts] == [0, 1]
    assert {r.scope for r in log} == {"", "tile 0", "tile 0/inner"}


def test_it_is_a_list() -> None:
    log = OpLog([fold_kernel(tiles=3).trace])
    records = list(log)
    assert len(log) == len(records) == 23
    assert [log[i] for i in range(len(log))] == records
    assert log[-1] == records[-1]
    assert log[np.int64(2)] == records[2]  # type: ignore[call-overload]
    for at in (
        slice(3),
        slice(2, 9, 3),
        slice(None, None, -1),
        slice(-3, None),
        slice(5, 1),
        slice(0, 99),
        slice(9, 2, -2),
    ):
        assert log[at] == records[at], at
    assert records[4] in log
    assert log.index(records[4]) == 4
    assert list(reversed(log)) == records[::-1]
    with pytest.raises(IndexError, match="operation 23 of a log of 23"):
        log[23]
    with pytest.raises(IndexError, match="operation -24 of a log of 23"):
        log[-24]


def test_records_are_frozen_and_made_only_when_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    log = OpLog([fold_kernel().trace])
    with pytest.raises(AttributeError):
        log[0].pe = 1  # type: ignore[misc]
    made = []
    monkeypatch.setattr("kernbench_nb.sim_engine.op_log.OpRecord", lambda **r: made.append(r))
    assert len(log) == 23
    assert log.columns["pe"].sum() == 0
    assert made == []
    log[3:5]
    assert len(made) == 2


def test_an_empty_log() -> None:
    for traces in ([], [TraceBuilder().trace], [Trace(0, KindTable())]):
        log = OpLog(traces)
        assert len(log) == 0
        assert list(log) == log[:] == log[::-1] == []
        assert {c.dtype for n, c in log.columns.items() if n not in log.categories} == {np.dtype(np.int64)}
        with pytest.raises(IndexError, match="of a log of 0"):
            log[0]


def test_a_pe_that_never_started_stands_beside_others() -> None:
    kinds = KindTable()
    traces = [fold_kernel(0, 2, kinds).trace, Trace(1, kinds), fold_kernel(2, 2, kinds).trace]
    log = OpLog(traces)
    assert log == OpLog([traces[0], traces[2]])
    assert [p.pe for p in log.rows.parts] == [0, 1, 2]
    assert log.rows.scopes.part.tolist() == [0] * 5 + [2] * 5


def test_scopes_and_bare_allocations_are_no_operations() -> None:
    tl = TraceBuilder()
    tl.empty(8)
    with tl.scope("a"):
        pass
    tl.refuse(1 << 21)
    log = OpLog([tl.trace])
    assert len(log) == 0
    assert len(log.rows) == 4
    assert all(log.categories[name] == () for name in ("op_name", "engine", "name", "shapes", "dtype"))


def test_integers_beyond_what_a_float_holds() -> None:
    tl = TraceBuilder(now=BIG - D)
    tl.op("exp", shape=(4,), dur=BIG)
    log = OpLog([tl.trace])
    assert (log[0].start_ps, log[0].end_ps, log[0].busy_ps) == (BIG, 2 * BIG, BIG)
    for name in ("start_ps", "end_ps", "busy_ps"):
        assert log.columns[name].dtype == np.int64


def test_what_other_runs_met_does_not_show() -> None:
    """Kinds are shared by all engines of a machine; a log holds only its own, in its own order."""
    alone = OpLog([fold_kernel().trace])
    kinds = KindTable()
    other = TraceBuilder(0, kinds)
    a = other.empty(8, dtype="i8", name="elsewhere")
    other.store("out of here", other.op("clone", a, shape=(8,), dtype="i8"))
    fold_kernel(1, 2, kinds)
    shared = OpLog([fold_kernel(0, 3, kinds).trace])
    assert shared.categories == alone.categories
    assert shared.categories["op_name"] == ("dma_read", "gemm", "max", "exp", "fma", "copy", "dma_write")
    assert shared == alone
    for name, column in alone.columns.items():
        assert np.array_equal(shared.columns[name], column), name


def test_traces_with_different_tables() -> None:
    log = OpLog([fold_kernel(0).trace, fold_kernel(1).trace])
    both = OpLog(
        [t.trace for kinds in [KindTable()] for t in (fold_kernel(0, 3, kinds), fold_kernel(1, 3, kinds))]
    )
    assert log == both
    assert [(r.pe, r.op_name) for r in log[:4]] == [(0, "dma_read"), (1, "dma_read")] * 2
    # and when the second numbers its kinds in another order
    other = TraceBuilder(1)
    other.op("clone", other.empty(2), shape=(2,))
    mixed = OpLog([fold_kernel(0).trace, fold_kernel(1, 3, other.kinds).trace])
    assert mixed == both


def test_names_that_no_operation_shows_are_no_categories() -> None:
    tl = TraceBuilder()
    alone = tl.empty(4)
    with tl.scope("a scope"):
        hidden = tl.op("exp", alone, shape=(4,), name="given")
    shown = tl.op("exp", hidden, shape=(4,))
    log = OpLog([tl.trace])
    assert log.categories["name"] == ("given", "shown")
    assert [r.name for r in log] == ["given", "shown"]
    assert log.text("name").tolist() == ["given", "shown"]

    def elsewhere() -> None:
        tl.empty(4)

    elsewhere()
    assert OpLog([tl.trace]).categories["function"] == (sys._getframe().f_code.co_name,)
    assert shown is not None


def test_equality_is_of_all_that_the_log_says() -> None:
    a, b = fold_kernel(), fold_kernel()
    assert OpLog([a.trace]) == OpLog([b.trace])
    assert OpLog([a.trace]) != OpLog([fold_kernel(tiles=2).trace])
    assert OpLog([a.trace]) != "a log"
    b.trace.rows[5 * STRIDE + OUT] += 16
    assert OpLog([a.trace]) != OpLog([b.trace])
    c = fold_kernel()
    c.trace.scopes[1].label = "another"
    assert OpLog([a.trace]) != OpLog([c.trace])


def test_columns_cannot_be_written_to() -> None:
    log = OpLog([fold_kernel().trace])
    for column in log.columns.values():
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 1
    log.rows  # noqa: B018
    assert OpLog([fold_kernel().trace]) == log


def test_a_log_is_a_snapshot_of_the_list_of_traces() -> None:
    traces = [fold_kernel(0).trace]
    log = OpLog(traces)
    traces.append(fold_kernel(1).trace)
    assert {r.pe for r in log} == {0}


def test_repr() -> None:
    assert repr(OpLog([fold_kernel(0).trace])) == "<OpLog: 23 operations on 1 PE>"
    assert repr(OpLog([fold_kernel(0).trace, fold_kernel(3).trace])) == "<OpLog: 46 operations on 2 PEs>"
    assert repr(OpLog([])) == "<OpLog: 0 operations on 0 PEs>"


def test_shapes_text() -> None:
    assert shapes_text([(8, 64), (64, 16), (8, 16)]) == "8x64, 64x16 -> 8x16"
    assert shapes_text([(), (3,)]) == "scalar -> 3"
    assert shapes_text([(0, 4)]) == "0x4"
    assert shapes_text([]) == ""


# -- against a plain reading, row by row ---------------------------------------------------------------------------


def plainly(traces: list[Trace]) -> list[dict[str, Any]]:
    """The same log, decoded the slow and obvious way."""
    found = []
    number = 0
    for trace in sorted(traces, key=lambda t: t.pe):
        stack = [trace.scopes[0]]
        for i in range(len(trace)):
            row = trace.rows[i * STRIDE : (i + 1) * STRIDE]
            kind = trace.kinds[row[KIND]]
            if row[KIND] == OPEN:
                stack.append(trace.scopes[row[A]])
            elif row[KIND] == CLOSE:
                stack.pop()
            elif kind.engine:
                shared, dma = kind.engine in ("dma", "ipc"), kind.engine == "dma"
                store = kind.op == "dma_write"
                operands = [row[OUT]] if store else [] if dma else [row[A]]
                operands += [] if shared else [row[B]]
                place = place_of(trace.chains[row[CHAIN]], row[AT])
                tiles = [s for s in stack if s.kind == "tile"]
                found.append({
                    "op_name": kind.op,
                    "pe": trace.pe,
                    "start_ps": row[B] if shared else row[END] - kind.dur,
                    "end_ps": row[END],
                    "busy_ps": kind.busy,
                    "nbytes": None if kind.nbytes < 0 else kind.nbytes,
                    "flops": kind.flops,
                    "shapes": kind.shapes,
                    "out_addr": None if store or row[OUT] < 0 else row[OUT],
                    "addresses": (*(x for x in operands if x >= 0), *trace.more.get(i, ())),
                    "offset": row[A] if dma else None,
                    "peer": kind.peer,
                    "scope": stack[-1].path,
                    "tile": tiles[-1].label if tiles else None,
                    "name": row[NAME] or place.variable,
                    "line": place.line,
                    "row": number,
                })  # fmt: skip
            number += 1
    return sorted(found, key=lambda r: (r["start_ps"], r["pe"], r["row"]))


def random_trace(seed: int, kinds: KindTable, pe: int, steps: int, now: int = 0) -> TraceBuilder:
    rng = random.Random(seed)
    tl = TraceBuilder(pe, kinds, capacity=1 << 26, now=now)

    def kernel(steps: int, depth: int = 0) -> None:
        tiles = [tl.empty(rng.randrange(1, 9), name=rng.choice([None, "x"]))]
        while steps > 0:
            steps -= 1
            what = rng.randrange(10)
            pick = rng.choice(tiles)
            if what < 4:
                some = rng.choices(tiles, k=rng.randrange(4))
                name = rng.choice([None, "n", f"n{steps % 50}"])
                tiles.append(
                    tl.op(rng.choice(["add", "exp"]), *some, shape=(4,), dur=rng.randrange(3), name=name)
                )
            elif what == 4:
                tiles.append(
                    tl.load(
                        "K",
                        4,
                        offset=rng.randrange(9),
                        wait=rng.random() < 0.5,
                        start=tl.now + D + rng.randrange(99),
                    )
                )
            elif what == 5:
                tl.store("O", pick, offset=rng.randrange(9))
            elif what == 6:
                tl.send("E", pick, peer=rng.randrange(3))
            elif what == 7:
                tiles.append(tl.recv("W", 2, peer=1, at=tl.now + rng.randrange(9_000)))
            elif depth < 3:
                inner = rng.randrange(steps + 1)
                steps -= inner
                with tl.scope(
                    rng.choice(["a", "b", None]),
                    kind=rng.choice(["tile", "scope"]),
                    rewind=rng.random() < 0.7,
                ):
                    kernel(inner, depth + 1)

    kernel(steps)
    return tl


@given(st.integers(0, 10**9))
def test_columns_say_what_the_rows_say(seed: int) -> None:
    rng = random.Random(seed)
    kinds = KindTable()
    traces = []
    ends: dict[int, int] = {}
    for _ in range(rng.randrange(1, 5)):
        pe = rng.randrange(3)
        tl = random_trace(rng.randrange(10**9), kinds, pe, rng.randrange(40), ends.get(pe, 0))
        ends[pe] = tl.now
        traces.append(tl.trace)
    log = OpLog(traces)
    expected = plainly(traces)
    assert len(log) == len(expected)
    for record, wanted in zip(log, expected, strict=True):
        assert {name: getattr(record, name) for name in wanted} == wanted


def test_more_rows_than_are_packed_or_made_at_a_time() -> None:
    traces = [random_trace(1, KindTable(), 0, 6_000).trace]
    log = OpLog(traces)
    expected = plainly(traces)
    assert len(log) > 4_500  # records are made 4096 at a time, rows packed 1024 at a time
    assert [r.row for r in log] == [r["row"] for r in expected]
    assert [r.name for r in log] == [r["name"] for r in expected]
    assert [r.addresses for r in log] == [r["addresses"] for r in expected]


def test_rows_of_a_part_and_event_times_never_fall() -> None:
    tl = random_trace(7, KindTable(), 0, 500)
    rows = decode([tl.trace])
    assert (np.diff(rows.event_ps) >= 0).all()
    assert (rows.event_ps <= rows.start).all()
    assert (np.diff(rows.start) < 0).any()  # else the test would say nothing


def test_record_fields_are_those_that_are_documented() -> None:
    names = {field for line in (OpRecord.__doc__ or "").splitlines() for field in line.strip().split(", ")}
    assert set(OpRecord.__slots__) <= names
