from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from kernbench_nb.runtime_api.frames import memory_frame, op_frame, skipped_frame, tile_frame
from kernbench_nb.sim_engine.memory_log import MemoryLog
from kernbench_nb.sim_engine.op_log import OpLog
from kernbench_nb.sim_engine.tile_log import TileLog
from kernbench_nb.sim_engine.trace import KindTable, Trace
from kernbench_nb.topology import resolve_topology
from tests.sim_engine.trace_builder import D, TraceBuilder, fold_kernel

AHBM = resolve_topology()
BIG = 2**53 + 1

OP_DTYPES = {
    "start_ps": "int64",
    "end_ps": "int64",
    "busy_ps": "int64",
    "start_ns": "float64",
    "dur_ns": "float64",
    "pe": "int64",
    "cube": "int64",
    "sip": "int64",
    "op_name": "category",
    "engine": "category",
    "name": "category",
    "tile": "category",
    "scope": "category",
    "nbytes": "Int64",
    "hbm_bytes": "int64",
    "flops": "int64",
    "elements": "int64",
    "shapes": "category",
    "dtype": "category",
    "tensor": "category",
    "offset": "Int64",
    "out_addr": "Int64",
    "a_addr": "Int64",
    "b_addr": "Int64",
    "peer": "Int64",
    "direction": "category",
    "function": "category",
    "line": "Int64",
    "row": "int64",
}
MEMORY_DTYPES = {
    "event": "category",
    "time_ps": "int64",
    "pe": "int64",
    "addr": "int64",
    "nbytes": "int64",
    "cursor_after": "int64",
    "name": "category",
    "arena": "category",
    "scope": "category",
    "line": "Int64",
    "size": "int64",
    "row": "int64",
}
TILE_DTYPES = {
    "tile": "category",
    "pe": "int64",
    "keys_start": "Int64",
    "keys_stop": "Int64",
    "bytes_in": "int64",
    "flops": "int64",
    "ops": "int64",
    "peak_scratch": "int64",
    "start_ns": "float64",
    "end_ns": "float64",
    "dur_ns": "float64",
    "rows_start": "Int64",
    "rows_stop": "Int64",
    "bytes_out": "int64",
    "hbm_bytes": "int64",
    "start_ps": "int64",
    "end_ps": "int64",
    "scope": "category",
    "first_row": "int64",
    "last_row": "int64",
}
SKIPPED_DTYPES = dict.fromkeys(
    ("time_ps", "pe", "rows_start", "rows_stop", "keys_start", "keys_stop"), "int64"
)


def dtypes(frame: pd.DataFrame) -> dict[str, str]:
    return {str(name): str(dtype) for name, dtype in frame.dtypes.items()}


def frames(*builders: TraceBuilder) -> list[pd.DataFrame]:
    log = OpLog([tl.trace for tl in builders])
    memory = MemoryLog(log.rows)
    tiles = TileLog(memory)
    return [op_frame(log, AHBM), memory_frame(memory), tile_frame(tiles), skipped_frame(tiles)]


@pytest.mark.parametrize("which", range(4), ids=["ops", "memory", "tiles", "skipped"])
def test_columns_and_dtypes_full_and_empty(which: int) -> None:
    expected = [OP_DTYPES, MEMORY_DTYPES, TILE_DTYPES, SKIPPED_DTYPES][which]
    full = fold_kernel()
    full.skip((0, 4), (48, 64))
    for builders in ([full], [], [TraceBuilder()]):
        frame = frames(*builders)[which]
        assert dtypes(frame) == expected
        assert list(frame.columns) == list(expected)
        assert (len(frame) > 0) == (builders == [full])
        assert isinstance(frame.index, pd.RangeIndex)


def test_exp_frame_dtypes() -> None:
    """Case exp-frame-dtypes: one row an operation, integers stay integers, an empty log is like a full one."""
    tl = TraceBuilder(now=BIG - D)
    q = tl.empty(4, 4)
    tl.op("gemm", q, q, shape=(4, 4), dur=21_000, name="dot")
    tl.send("E", tl.empty(1024), peer=3)
    tl.load("K", 4, 4)
    log = OpLog([tl.trace])
    frame = op_frame(log, AHBM)
    assert len(frame) == 3
    assert frame["op_name"].tolist() == ["gemm", "ipc_send", "dma_read"]
    for name in ("pe", "start_ps", "end_ps"):
        assert frame[name].dtype == np.int64
    assert frame["start_ps"].iloc[0] == 9007199254740993
    assert frame["start_ps"].tolist()[0] == 9007199254740993
    for name in ("peer", "nbytes"):
        assert frame[name].dtype == pd.Int64Dtype()
    assert frame["peer"].isna().tolist() == [True, False, True]
    assert frame["peer"].iloc[0] is pd.NA
    assert str(frame["peer"].iloc[1]) == "3"
    assert frame["nbytes"].tolist() == [pd.NA, 4096, 32]

    empty = op_frame(OpLog([TraceBuilder().trace]), AHBM)
    assert len(empty) == 0
    assert dtypes(empty) == dtypes(frame)
    assert len(empty.groupby("op_name", observed=True)["busy_ps"].sum()) == 0

    before = frame.copy(deep=True)
    again = TraceBuilder(kinds=tl.kinds)
    again.op("exp", again.empty(7), shape=(7,))
    op_frame(OpLog([again.trace]), AHBM)
    pd.testing.assert_frame_equal(frame, before)


def test_order_is_start_pe_issue() -> None:
    kinds = KindTable()
    ops, memory, tiles, _ = frames(*(fold_kernel(pe, 2, kinds) for pe in (9, 130, 3)))
    for frame, time, last in (
        (ops, "start_ps", "row"),
        (memory, "time_ps", "row"),
        (tiles, "start_ps", "first_row"),
    ):
        keys = list(zip(frame[time], frame["pe"], frame[last], strict=True))
        assert keys == sorted(keys)
        assert frame["pe"].iloc[:3].tolist() == [3, 9, 130]


def test_cube_and_sip() -> None:
    assert (AHBM.pes_per_cube, AHBM.cubes_per_sip) == (8, 16)
    kinds = KindTable()
    frame = frames(*(fold_kernel(pe, 1, kinds) for pe in (0, 7, 8, 130, 255)))[0]
    places = frame.groupby("pe")[["cube", "sip"]].first()
    assert places.to_dict("index") == {
        0: {"cube": 0, "sip": 0},
        7: {"cube": 0, "sip": 0},
        8: {"cube": 1, "sip": 0},
        130: {"cube": 0, "sip": 1},
        255: {"cube": 15, "sip": 1},
    }
    assert all(
        AHBM.locate(pe)[:2] == (row["sip"], row["cube"]) for pe, row in places.to_dict("index").items()
    )


def test_values_of_the_operation_frame() -> None:
    tl = fold_kernel(pe=1, tiles=1)
    log = OpLog([tl.trace])
    frame = op_frame(log, AHBM)
    for record, (_, row) in zip(log, frame.iterrows(), strict=True):
        for name in (
            "start_ps",
            "end_ps",
            "busy_ps",
            "pe",
            "op_name",
            "engine",
            "scope",
            "hbm_bytes",
            "flops",
        ):
            assert row[name] == getattr(record, name), name
        for name in (
            "name",
            "tile",
            "dtype",
            "tensor",
            "offset",
            "nbytes",
            "peer",
            "direction",
            "out_addr",
            "line",
        ):
            value = getattr(record, name)
            assert (pd.isna(row[name]) and value is None) or row[name] == value, name
        operands = [int(row[name]) for name in ("a_addr", "b_addr") if not pd.isna(row[name])]
        assert tuple(operands) == record.addresses[:2]
        assert (row["start_ns"], row["dur_ns"]) == (record.start_ns, record.dur_ns)
    assert frame["shapes"].iloc[2] == "4x64, 16x64 -> 4x16"
    assert frame["name"].cat.categories.tolist() == ["p", "q", "k", "s", "m_new", "O_new"]


def test_categories_hold_only_what_the_run_has() -> None:
    kinds = KindTable()
    other = TraceBuilder(0, kinds)
    other.op("clone", other.empty(3, name="x"), shape=(3,), dtype="i8", name="elsewhere")
    frame = frames(fold_kernel(0, 1, kinds))[0]
    assert frame["op_name"].cat.categories.tolist() == [
        "dma_read",
        "gemm",
        "max",
        "exp",
        "fma",
        "copy",
        "dma_write",
    ]
    assert frame["dtype"].cat.categories.tolist() == ["f16", "f32"]
    assert frame["direction"].cat.categories.tolist() == []


def test_values_of_the_memory_frame() -> None:
    tl = fold_kernel(tiles=1)
    tl.refuse(1 << 20, name="too much")
    log = MemoryLog(OpLog([tl.trace]).rows)
    frame = memory_frame(log)
    assert len(frame) == len(log) == 11
    for event, (_, row) in zip(log, frame.iterrows(), strict=True):
        for name in MEMORY_DTYPES:
            value = getattr(event, name)
            assert (pd.isna(row[name]) and value is None) or row[name] == value, name
    assert frame["event"].cat.categories.tolist() == ["alloc", "rewind", "overflow"]
    assert frame["arena"].cat.categories.tolist() == ["persistent", "scoped"]
    assert frame["name"].tolist()[-1] == "too much"


def test_values_of_the_tile_frame() -> None:
    kinds = KindTable()
    ops, memory, tiles, skipped = frames(fold_kernel(0, 2, kinds), fold_kernel(1, 2, kinds))
    assert tiles["tile"].tolist() == ["tile 0", "tile 0", "tile 1", "tile 1"]
    assert tiles["scope"].tolist() == tiles["tile"].tolist()
    assert tiles["keys_stop"].tolist() == [16, 16, 32, 32]
    by_tile = ops.groupby(["tile", "pe"], observed=True)
    assert tiles["flops"].tolist() == by_tile["flops"].sum().tolist()
    assert tiles["ops"].tolist() == by_tile.size().tolist()
    assert tiles["peak_scratch"].max() == memory["cursor_after"].max()
    assert (tiles["dur_ns"] * 1000 == tiles["end_ps"] - tiles["start_ps"]).all()
    assert (tiles["end_ns"] * 1000 == tiles["end_ps"]).all()
    assert len(skipped) == 0


def test_a_frame_does_not_let_the_log_be_changed() -> None:
    log = OpLog([fold_kernel().trace])
    frame = op_frame(log, AHBM)
    with pytest.raises(ValueError, match="read-only"):
        frame.loc[0, "start_ps"] = 7
    frame["start_ps"] = 0  # a new column of the frame, not the log's
    assert log[0].start_ps == D
    mine = frame.copy()
    mine.loc[0, "end_ps"] = 7
    assert log[0].end_ps != 7


def test_a_trace_without_scopes_or_rows() -> None:
    log = OpLog([Trace(3, KindTable())])
    assert len(op_frame(log, AHBM)) == len(memory_frame(MemoryLog(log.rows))) == 0
