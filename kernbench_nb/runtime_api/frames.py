"""pandas frames of a run. The only module of this room that imports pandas; it is loaded when a frame is asked for.

Integers stay integers: int64 where every row has a value, nullable Int64 where some may miss. Texts are categories.
A frame has the same columns and dtypes whether the run is empty or not. Columns are views of the run's own arrays and
cannot be written to in place: take a `copy` of the frame first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from kernbench_nb.sim_engine.memory_log import EVENTS, MemoryLog
from kernbench_nb.sim_engine.op_log import OpLog
from kernbench_nb.sim_engine.rows import numbers
from kernbench_nb.sim_engine.tile_log import TileLog
from kernbench_nb.topology import Topology

__all__ = ["memory_frame", "op_frame", "skipped_frame", "tile_frame"]

Ints = npt.NDArray[np.int64]


def op_frame(log: OpLog, topology: Topology) -> pd.DataFrame:
    """The operation log, ordered by (start_ps, pe, issue).

    Columns: ``start_ps end_ps busy_ps`` (int64), ``start_ns dur_ns`` (float64, from start to end), ``pe`` (global),
    ``cube`` (in its SIP), ``sip`` (int64), and those of `OpRecord`: texts as categories, ``hbm_bytes flops elements
    row`` int64, whatever may miss Int64; ``a_addr b_addr`` are the first two operands.
    """
    c, texts = log.columns, log.categories
    # a table over PEs: dividing every row would cost more than the rest of the frame
    pes = np.arange(int(c["pe"].max(initial=0)) + 1)
    cube = pes // topology.pes_per_cube

    def text(name: str) -> pd.Categorical:
        return _category(c[name], texts[name])

    def maybe(name: str) -> Any:
        return _nullable(c[name])

    return _frame({
        "start_ps": c["start_ps"],
        "end_ps": c["end_ps"],
        "busy_ps": c["busy_ps"],
        "start_ns": c["start_ps"] / 1000,
        "dur_ns": (c["end_ps"] - c["start_ps"]) / 1000,
        "pe": c["pe"],
        "cube": (cube % topology.cubes_per_sip)[c["pe"]],
        "sip": (cube // topology.cubes_per_sip)[c["pe"]],
        "op_name": text("op_name"),
        "engine": text("engine"),
        "name": text("name"),
        "tile": text("tile"),
        "scope": text("scope"),
        "nbytes": maybe("nbytes"),
        "hbm_bytes": c["hbm_bytes"],
        "flops": c["flops"],
        "elements": c["elements"],
        "shapes": text("shapes"),
        "dtype": text("dtype"),
        "tensor": text("tensor"),
        "offset": maybe("offset"),
        "out_addr": maybe("out_addr"),
        "a_addr": maybe("a_addr"),
        "b_addr": maybe("b_addr"),
        "peer": maybe("peer"),
        "direction": text("direction"),
        "function": text("function"),
        "line": maybe("line"),
        "row": c["row"],
    })  # fmt: skip


def memory_frame(memory: MemoryLog) -> pd.DataFrame:
    """The allocation timeline, ordered by (time_ps, pe, issue).

    Columns: ``event`` (alloc, rewind, overflow), ``time_ps pe addr nbytes cursor_after`` (int64, bytes from the start
    of the scratch), ``name arena scope`` (categories), ``line`` (Int64), ``size`` (bytes taken, alignment included)
    and ``row`` (int64). What each means for which event stands at `MemoryEvent`.
    """
    c, rows = memory.columns, memory.rows
    scopes = rows.scopes
    paths, codes = _number(scopes.path)
    lines = np.array([*(p.line or -1 for p in rows.places), -1], np.int64)
    return _frame({
        "event": _category(c["event"], EVENTS),
        "time_ps": c["time_ps"],
        "pe": c["pe"],
        "addr": c["addr"],
        "nbytes": c["nbytes"],
        "cursor_after": c["cursor_after"],
        "name": _category(c["name"], memory.names),
        "arena": _category(scopes.scoped.astype(np.int64)[c["scope"]], ("persistent", "scoped")),
        "scope": _category(codes[c["scope"]], paths),
        "line": _nullable(lines[c["place"]]),
        "size": c["size"],
        "row": c["row"],
    })  # fmt: skip


def tile_frame(tiles: TileLog) -> pd.DataFrame:
    """One row a tile, ordered by (start_ps, pe, issue).

    What most people look for stands first. Columns: ``tile`` (its label), ``pe``, ``keys_start keys_stop`` (Int64: the
    keys it handles, by global number), ``bytes_in`` (read from HBM), ``flops ops`` (of its products; operations),
    ``peak_scratch`` (int64, bytes), ``start_ns end_ns dur_ns`` (float64), ``rows_start rows_stop`` (Int64: the query
    rows), ``bytes_out hbm_bytes start_ps end_ps`` (int64), ``scope`` (its path), ``first_row last_row`` (int64: its
    opening and closing rows).
    """
    c, scopes = tiles.columns, tiles.rows.scopes
    chosen = c["scope"].tolist()
    labels, label_codes = _number([scopes.label[i] for i in chosen])
    paths, path_codes = _number([scopes.path[i] for i in chosen])
    return _frame({
        "tile": _category(label_codes, labels),
        "pe": c["pe"],
        **{name: _nullable(c[name]) for name in ("keys_start", "keys_stop")},
        **{name: c[name] for name in ("bytes_in", "flops", "ops", "peak_scratch")},
        "start_ns": c["start_ps"] / 1000,
        "end_ns": c["end_ps"] / 1000,
        "dur_ns": (c["end_ps"] - c["start_ps"]) / 1000,
        **{name: _nullable(c[name]) for name in ("rows_start", "rows_stop")},
        **{name: c[name] for name in ("bytes_out", "hbm_bytes", "start_ps", "end_ps")},
        "scope": _category(path_codes, paths),
        "first_row": c["first_row"],
        "last_row": c["last_row"],
    })  # fmt: skip


def skipped_frame(tiles: TileLog) -> pd.DataFrame:
    """One row a skipped tile: ``time_ps pe rows_start rows_stop keys_start keys_stop``, all int64."""
    return _frame(tiles.skipped)


def _frame(columns: Mapping[str, Any]) -> pd.DataFrame:
    # copy=False: the arrays belong to the run already, and copying 30 columns costs as much as making them
    return pd.DataFrame(dict(columns), copy=False)


def _category(codes: Ints, texts: Sequence[str]) -> pd.Categorical:
    dtype = pd.CategoricalDtype(pd.Index(texts, dtype=object))
    return pd.Categorical.from_codes(codes, dtype=dtype, validate=False)


def _nullable(values: Ints) -> Any:
    return pd.arrays.IntegerArray(values, values < 0)


def _number(texts: Sequence[str]) -> tuple[tuple[str, ...], Ints]:
    number = numbers()
    codes = np.array(list(map(number.__getitem__, texts)), np.int64)
    return tuple(number)[1:], codes
