from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernbench_nb.errors import ScratchOverflowError
from kernbench_nb.memory import round_up
from kernbench_nb.sim_engine.memory_log import LiveBlock, MemoryEvent, MemoryLog
from kernbench_nb.sim_engine.rows import decode
from kernbench_nb.sim_engine.tile_log import TileLog
from kernbench_nb.sim_engine.trace import CHAIN, STRIDE, KindTable
from tests.sim_engine.trace_builder import D, TraceBuilder, fold_kernel


def memory(*builders: TraceBuilder) -> MemoryLog:
    return MemoryLog(decode([tl.trace for tl in builders]))


def brief(log: MemoryLog) -> list[tuple[Any, ...]]:
    return [(e.event, e.addr, e.nbytes, e.cursor_after, e.name, e.arena, e.scope) for e in log]


def test_the_timeline() -> None:
    tl = TraceBuilder()

    def kernel() -> None:
        q = tl.load("Q", 3, 5)  # 30 B of f16, 32 taken
        with tl.scope("tile 0", kind="tile"):
            s = tl.op("exp", q, shape=(5,))
            with tl.scope("inner"):
                tl.empty(100, name="t")
            tl.op("copy", s, out=s)
        tl.refuse((1 << 20) - 1, name="K")

    kernel()
    log = memory(tl)
    assert brief(log) == [
        ("alloc", 0, 30, 32, "q", "persistent", ""),
        ("alloc", 32, 20, 64, "s", "scoped", "tile 0"),
        ("alloc", 64, 400, 464, "t", "scoped", "tile 0/inner"),
        ("rewind", 64, 400, 64, "inner", "scoped", "tile 0/inner"),
        ("rewind", 32, 32, 32, "tile 0", "scoped", "tile 0"),
        ("overflow", 32, (1 << 20) - 1, 32, "K", "persistent", ""),
    ]
    end = D + 110_000 + D + 1_000
    assert [e.time_ps for e in log] == [D, D + 110_000 + D, end, end, end + D + 1_000, end + D + 1_000]
    assert [e.size for e in log] == [32, 32, 400, 400, 32, 1 << 20]
    first = log[0].line
    assert first is not None
    assert [e.line for e in log] == [first, first + 2, first + 4, first + 3, first + 1, first + 6]
    assert [e.row for e in log] == [0, 2, 4, 5, 7, 8]


def test_it_is_a_list() -> None:
    log = memory(fold_kernel())
    events = list(log)
    assert len(log) == len(events) == 24
    assert [log[i] for i in range(24)] == events
    assert log[-1] == events[-1]
    assert log[2:20:5] == events[2:20:5]
    assert isinstance(events[0], MemoryEvent)
    with pytest.raises(IndexError, match="event 24 of a timeline of 24"):
        log[24]
    assert repr(log) == "<MemoryLog: 24 events, peak 5152 B>"


def test_nothing_was_allocated() -> None:
    for log in (memory(), memory(TraceBuilder())):
        assert list(log) == []
        assert log.peak == log.persistent_bytes == 0
        assert log.peak_by_kind == {}
        assert {c.dtype for c in log.columns.values()} == {np.dtype(np.int64)}
        with pytest.raises(IndexError, match="row 0 of a run of 0 rows"):
            log.live(0)
    assert memory(TraceBuilder(pe=4)).peak_by_pe == {4: 0}
    only_scopes = TraceBuilder()
    with only_scopes.scope("a"):
        pass
    assert brief(memory(only_scopes)) == [("rewind", 0, 0, 0, "a", "scoped", "a")]


def test_a_scope_without_rewind_gives_nothing_back() -> None:
    tl = TraceBuilder()
    with tl.scope("tile 0", kind="tile", rewind=False):
        tl.empty(4, name="a")
        with tl.scope("x"):
            tl.empty(4, name="b")
    with tl.scope("outer"), tl.scope("tile 1", kind="tile", rewind=False):
        tl.empty(4, name="c")
    log = memory(tl)
    assert brief(log) == [
        ("alloc", 0, 16, 16, "a", "persistent", "tile 0"),
        ("alloc", 16, 16, 32, "b", "scoped", "tile 0/x"),
        ("rewind", 16, 16, 16, "x", "scoped", "tile 0/x"),
        ("alloc", 16, 16, 32, "c", "scoped", "outer/tile 1"),
        ("rewind", 16, 16, 16, "outer", "scoped", "outer"),
    ]
    assert log.persistent_bytes == 16
    assert log.peak_by_kind == {"tile": 32, "scope": 32}


def test_live_blocks() -> None:
    tl = TraceBuilder(pe=9)
    with tl.scope("tile 0", kind="tile"):
        a = tl.empty(2, 3, name="a")  # row 1
        with tl.scope("inner"):  # row 2
            tl.op("gemm", a, shape=(4, 4), dtype="f16", name="b")  # row 3
    # rows 4 and 5 close the scopes
    tl.load("K", 8, name="c")  # row 6
    log = memory(tl)

    def names(row: int) -> list[str | None]:
        return [b.name for b in log.live(row)]

    assert [names(row) for row in range(7)] == [[], ["a"], ["a"], ["a", "b"], ["a"], [], ["c"]]
    a_block, b_block = log.live(3)
    line = b_block.line
    assert line is not None
    assert b_block == LiveBlock(
        addr=32, nbytes=32, size=32, name="b", shape=(4, 4), dtype="f16", arena="scoped", scope="tile 0/inner",
        engine="gemm", line=line, pe=9, born=3, dead=4,
    )  # fmt: skip
    assert (a_block.nbytes, a_block.size, a_block.engine, a_block.dead) == (24, 32, "", 5)
    assert log.live(6)[0].dead is None
    for row in (-1, 7):
        with pytest.raises(IndexError, match=f"row {row} of a run of 7 rows"):
            log.live(row)


def test_live_blocks_are_those_of_the_rows_pe_and_kernel() -> None:
    kinds = KindTable()
    first, other = TraceBuilder(0, kinds), TraceBuilder(1, kinds)
    first.empty(4, name="a")
    other.empty(8, name="z")
    again = TraceBuilder(0, kinds, now=first.now)
    again.empty(4, name="b")
    log = memory(first, other, again)
    assert [[(b.name, b.pe) for b in log.live(row)] for row in range(3)] == [
        [("a", 0)],
        [("b", 0)],
        [("z", 1)],
    ]
    assert log.peak_by_pe == {0: 16, 1: 32}
    assert log.peak_by_part.tolist() == [16, 16, 32]
    assert log.persistent_by_pe == {0: 16, 1: 32}  # of the kernel where they are most, not of all kernels


def test_the_block_behind_an_address() -> None:
    base = 1 << 24
    tl = TraceBuilder(base=base)
    tl.empty(4, name="a")
    tl.empty(0, name="nothing")
    tl.empty(4, name="b")
    log = memory(tl)
    found = [log.block_at(2, base + offset) for offset in (0, 15, 16, 31, 32, -1)]
    # 16 is where the empty block lies too; it comes first and is one byte wide for this question
    assert [b and b.name for b in found] == ["a", "a", "nothing", "b", None, None]
    assert log.block_at(0, base + 16) is None


def test_rows_by_time() -> None:
    tl = TraceBuilder(pe=3)
    tl.empty(4)  # row 0 at 0
    tl.op("exp", shape=(4,))  # row 1 starts at D
    tl.op("exp", shape=(4,))  # row 2 starts at D + 1000 + D
    log = memory(tl)
    assert [log.row_at(3, t) for t in (-1, 0, D - 1, D, 2 * D + 999, 2 * D + 1_000, 10**9)] == [
        None,
        0,
        0,
        1,
        1,
        2,
        2,
    ]
    assert log.row_at(0, 5) is None


def test_a_queued_load_allocates_before_what_is_asked_later() -> None:
    tl = TraceBuilder()
    with tl.scope("a"):
        tl.load("K", 4, start=900_000, wait=False, name="K")
        tl.empty(4, name="x")
    log = memory(tl)
    assert [(e.event, e.name, e.time_ps) for e in log] == [
        ("alloc", "K", D),
        ("alloc", "x", D),
        ("rewind", "a", D),
    ]


def test_order_is_time_then_pe_then_issue() -> None:
    kinds = KindTable()
    a, b = TraceBuilder(1, kinds), TraceBuilder(0, kinds)
    for tl in (a, b):
        tl.empty(4, name="first")
        tl.empty(4, name="second")
    b.op("exp", shape=(4,), name="third")
    log = memory(a, b)
    assert [(e.time_ps, e.pe, e.name) for e in log] == [
        (0, 0, "first"),
        (0, 0, "second"),
        (0, 1, "first"),
        (0, 1, "second"),
        (D, 0, "third"),
    ]


def test_peaks_of_a_sweep() -> None:
    tl = fold_kernel(tiles=3)
    log = memory(tl)
    state = 512 + 16 + 1024  # q, m, O
    tile = 2048 + 256 + 16  # k, s, m_new
    inner = 256 + 1024  # p, O_new
    assert log.persistent_bytes == state
    assert log.peak_by_kind == {"tile": state + tile + inner, "merge": state + tile + inner}
    assert log.peak == tl.scratch.high_water == state + tile + inner
    by_scope = dict(zip(log.rows.scopes.path, log.peak_by_scope.tolist(), strict=True))
    assert by_scope["tile 1"] == state + tile + inner
    assert by_scope[""] == log.peak


def test_peaks_are_the_highest_of_all_scopes_of_a_kind_and_of_all_pes() -> None:
    kinds = KindTable()
    builders = []
    for pe, sizes in enumerate([(4, 12, 8), (), (16, 4)]):
        tl = TraceBuilder(pe, kinds)
        if pe == 2:
            tl.empty(4)
        for n in sizes:
            with tl.scope(kind="tile"):
                tl.empty(n)
        builders.append(tl)
    log = memory(*builders)
    assert log.peak_by_kind == {"tile": 80}
    assert log.peak_by_pe == {0: 48, 1: 0, 2: 80}
    assert log.peak_by_part.tolist() == [48, 0, 80]  # a PE that did nothing has none of its neighbour's
    assert memory(builders[0]).peak_by_kind == {"tile": 48}


def test_a_kernel_that_stops_in_the_middle() -> None:
    tl = TraceBuilder()

    def kernel() -> None:
        with tl.scope("tile 0", kind="tile"):
            tl.empty(100, name="K")
            tl.refuse(1 << 20, name="V")
            raise ScratchOverflowError("full", required=0, limit=0, wanted=0, free=0)

    with pytest.raises(ScratchOverflowError):
        kernel()
    log = memory(tl)
    (refused,) = [e for e in log if e.event == "overflow"]
    assert (refused.name, refused.scope, refused.arena, refused.cursor_after) == (
        "V",
        "tile 0",
        "scoped",
        400,
    )
    assert [b.name for b in log.live(refused.row)] == ["K"]
    # a trace cut off before its scopes closed: they end with it
    del tl.trace.rows[3 * STRIDE :]
    log = memory(tl)
    assert [b.name for b in log.live(2)] == ["K"]
    assert log.live(2)[0].dead is None
    assert log.peak_by_kind == {"tile": 400}
    assert brief(log)[-1][0] == "overflow"


def test_names_without_a_place() -> None:
    tl = TraceBuilder()
    tl.empty(4)
    tl.trace.rows[CHAIN] = -1
    log = memory(tl)
    assert (log[0].name, log[0].line) == (None, None)
    assert log.live(0)[0].line is None


# -- tiles ---------------------------------------------------------------------------------------------------------


def test_tiles() -> None:
    tl = fold_kernel(pe=2, tiles=3)
    tiles = TileLog(memory(tl))
    c = tiles.columns
    assert len(tiles) == 3
    assert [tiles.rows.scopes.label[i] for i in c["scope"]] == ["tile 0", "tile 1", "tile 2"]
    assert c["pe"].tolist() == [2, 2, 2]
    assert c["bytes_in"].tolist() == c["hbm_bytes"].tolist() == [2048] * 3
    assert c["bytes_out"].tolist() == [0] * 3
    assert c["flops"].tolist() == [2 * 4 * 16 * 64] * 3
    assert c["ops"].tolist() == [7] * 3  # those of the nested scope too, and no scope row
    assert (c["rows_start"].tolist(), c["rows_stop"].tolist()) == ([0] * 3, [4] * 3)
    assert (c["keys_start"].tolist(), c["keys_stop"].tolist()) == ([0, 16, 32], [16, 32, 48])
    one = 7 * D + 110_000 + 21_000 + 5 * 1_000
    begin = D + 110_000
    assert c["start_ps"].tolist() == [begin + i * one for i in range(3)]
    assert c["end_ps"].tolist() == [begin + (i + 1) * one for i in range(3)]
    assert c["peak_scratch"].tolist() == [tl.scratch.high_water] * 3
    assert c["first_row"].tolist() == [3, 14, 25]
    assert c["last_row"].tolist() == [13, 24, 35]


def test_what_messages_bring_counts_as_bytes_in() -> None:
    tl = TraceBuilder()
    with tl.scope("tile 0", kind="tile"):
        got = tl.recv("W", 4, peer=1, at=9_000)
        tl.send("E", got, peer=2)
        tl.store("O", got)
    c = TileLog(memory(tl)).columns
    assert (c["bytes_in"].tolist(), c["bytes_out"].tolist(), c["hbm_bytes"].tolist()) == ([16], [32], [16])
    assert c["keys_start"].tolist() == [-1]


def test_tiles_come_by_start_then_pe_and_those_left_open_end_with_their_kernel() -> None:
    kinds = KindTable()
    late, early = fold_kernel(0, 1, kinds, now=5_000), fold_kernel(1, 1, kinds)
    tiles = TileLog(memory(late, early))
    assert tiles.columns["pe"].tolist() == [1, 0]
    del late.trace.rows[6 * STRIDE :]
    late.trace.end = 777_000
    tiles = TileLog(memory(late, early))
    assert tiles.columns["end_ps"].tolist() == [early.trace.rows[13 * STRIDE + 1], 777_000]
    assert tiles.columns["ops"].tolist() == [7, 2]


def test_skipped_tiles() -> None:
    kinds = KindTable()
    a, b = TraceBuilder(4, kinds), TraceBuilder(1, kinds)
    a.skip((0, 64), (64, 128))
    b.skip((0, 64), (128, 192))
    b.op("exp", shape=(4,))
    b.skip((64, 128), (128, 192))
    log = TileLog(memory(a, b))
    assert {name: column.tolist() for name, column in log.skipped.items()} == {
        "time_ps": [0, 0, D + 1_000],
        "pe": [1, 4, 1],
        "rows_start": [0, 0, 64],
        "rows_stop": [64, 64, 128],
        "keys_start": [128, 64, 128],
        "keys_stop": [192, 128, 192],
    }
    assert len(log) == 0
    empty = TileLog(memory()).skipped
    assert {len(c) for c in empty.values()} == {0}
    assert {c.dtype for c in empty.values()} == {np.dtype(np.int64)}


# -- against a model -----------------------------------------------------------------------------------------------


@dataclass
class Model:
    """Scratch as a plain list of live blocks with the scopes that they were made in."""

    live: list[tuple[int, int, str]] = field(default_factory=list)
    cursors: list[int] = field(default_factory=list)
    snapshots: list[list[tuple[int, int, str]]] = field(default_factory=list)
    peak: int = 0

    def note(self, cursor: int) -> None:
        self.cursors.append(cursor)
        self.snapshots.append(sorted(self.live))
        self.peak = max(self.peak, cursor)


def play(seed: int) -> tuple[TraceBuilder, Model]:
    rng = random.Random(seed)
    tl, model = TraceBuilder(), Model()

    def kernel(steps: int, depth: int = 0) -> None:
        while steps > 0:
            steps -= 1
            what = rng.randrange(5)
            if what < 3:
                tile = tl.empty(rng.randrange(40), dtype="f16", name=f"t{len(model.cursors)}")
                offset = tile.addr - tl.trace.scratch_base
                model.live.append((offset, round_up(tile.ty.nbytes), f"t{len(model.cursors)}"))
                model.note(tl.scratch.cursor)
            elif what == 3:
                tl.refuse(1 << 21)
                model.note(tl.scratch.cursor)
            elif depth < 4:
                rewind = rng.random() < 0.7
                with tl.scope("s", rewind=rewind):
                    before = list(model.live)
                    model.note(tl.scratch.cursor)
                    inner = rng.randrange(steps + 1)
                    kernel(inner, depth + 1)
                    steps -= inner
                    after = before if rewind else model.live
                model.live = list(after)
                model.note(tl.scratch.cursor)

    kernel(30)
    return tl, model


@given(st.integers(0, 10**9))
def test_the_timeline_agrees_with_the_allocator_and_with_a_model(seed: int) -> None:
    tl, model = play(seed)
    log = memory(tl)
    assert log.cursor.tolist() == model.cursors
    assert log.peak == model.peak == tl.scratch.high_water
    for row, expected in enumerate(model.snapshots):
        assert sorted((b.addr, b.size, b.name) for b in log.live(row)) == expected
    for event in log:
        assert event.cursor_after == model.cursors[event.row]
        before = model.cursors[event.row - 1] if event.row else 0
        moved = {"alloc": event.size, "rewind": -event.nbytes, "overflow": 0}[event.event]
        assert event.cursor_after == before + moved
