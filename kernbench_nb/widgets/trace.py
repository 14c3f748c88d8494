"""`encode`: a run as a small head and one buffer, the trace format of the room's README; `decode` reads it back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from kernbench_nb.memory import ALIGN
from kernbench_nb.runtime_api.messages import messages_of
from kernbench_nb.runtime_api.result import RunResult
from kernbench_nb.sim_engine.op_log import shapes_text
from kernbench_nb.sim_engine.rows import Ints, Rows
from kernbench_nb.sim_engine.trace import ENGINES, Kind
from kernbench_nb.topology import Topology
from kernbench_nb.widgets.blocks import Blocks, blocks_of
from kernbench_nb.widgets.pack import Packer
from kernbench_nb.widgets.places import opening
from kernbench_nb.widgets.reader import SCHEMA, VERSION, Trace, decode
from kernbench_nb.widgets.sources import Sources
from kernbench_nb.widgets.tiles import Tiles, clock_of, shown_stop, tiles_of
from kernbench_nb.widgets.twin import Twin, twin_of
from kernbench_nb.widgets.values import values_of
from kernbench_nb.widgets.words import about_text, pe_labels, title_text

__all__ = ["decode", "encode", "trace_of"]

Array = npt.NDArray[Any]
Head = dict[str, Any]


class Texts:
    """Numbers texts as they are first met; the empty text, and None, are 0."""

    def __init__(self) -> None:
        self._number: dict[str, int] = {"": 0}

    def __call__(self, text: str | None) -> int:
        """The number of a text."""
        return self._number.setdefault(text or "", len(self._number))

    def column(self, texts: Iterable[str | None]) -> Ints:
        """Numbers of several texts."""
        return np.fromiter(map(self, texts), np.int64)

    @property
    def all(self) -> list[str]:
        """The texts, by number."""
        return list(self._number)


def encode(
    run: RunResult, *, twin: Twin | None = None, words: Sequence[str] | None = None
) -> tuple[Head, bytes]:
    """A run as a head and a buffer.

    Parameters
    ----------
    run
        What to show.
    twin
        What is known from running it with, or without, scopes; by default it is run (in timing mode) if it can be.
    words
        The keys' words, for labels; by default those of the shipped sample where the run has recorded its keys.

    Returns
    -------
    head, buffer
        See the room's README. Equal runs give equal bytes.
    """
    twin = twin_of(run) if twin is None else twin
    memory = run.memory_log
    rows = memory.rows
    texts = Texts()
    sources = Sources(run.kernel)
    machine = run.topology
    pes = sorted({p.pe for p in rows.parts})
    index_of_pe = _index(pes, machine.pe_count)
    labels = pe_labels(machine, pes)
    clock = clock_of(rows)
    blocks = blocks_of(memory)
    stops = shown_stop(rows, not run.completion.ok)
    tiles = tiles_of(memory, clock, stops, lambda pe: labels.get(pe, f"PE {pe}"), twin.planned)
    names = _names(rows, texts)
    packer = Packer()

    ops = _ops(run, tiles, blocks, clock, names)
    packer.add("ops", len(rows), ops)
    packer.add("kinds", len(rows.kinds), _kinds(rows, texts, index_of_pe))
    packer.add("allocs", len(memory.born), _allocs(run, blocks, names, texts))
    packer.add("scopes", len(rows.scopes), _scopes(run, texts))
    packer.add(
        "parts",
        len(rows.parts),
        {
            "pe": index_of_pe[[p.pe for p in rows.parts]] if rows.parts else np.empty(0, np.int64),
            "launch": np.array([p.launch for p in rows.parts], np.int64),
            "op0": np.array([p.first for p in rows.parts], np.int64),
            "op1": stops,
            "end": np.array([p.end_ps for p in rows.parts], np.int64),
        },
    )
    packer.add("tiles", len(tiles), _tiles(tiles, _weights(run, tiles), texts, index_of_pe))
    packer.add("sites", len(rows.places), _sites(rows, sources, texts))
    messages = messages_of(rows)
    packer.add(
        "msgs", len(messages), {"send": messages.send, "recv": messages.recv, "nbytes": messages.nbytes}
    )
    score = _score(run, tiles)
    values = values_of(run, tiles, score)
    packer.add("values", len(values.what), {**values.columns, "what": texts.column(values.what)})
    packer.add("pool2", len(values.pool2), {"x": values.pool2})
    packer.add("pool4", len(values.pool4), {"x": values.pool4})
    if score is not None:
        score["tokens"] = list(words) if words is not None else values.words
    sums = {name: ops[name] for name in ("hbm", "flops", "copies", "need")}
    head: Head = {
        "schema": SCHEMA,
        "version": VERSION,
        "title": title_text(run),
        "about": about_text(run),
        "kernel": run.name,
        "params": {key: value for key, value in run.params.items() if _is_plain(value)},
        "machine": _machine(machine),
        "scratch_bytes": machine.scratch_bytes,
        "align": ALIGN,
        "engines": [*ENGINES, "scope"],
        "makespan": run.makespan_ps,
        "data": run.data,
        "scoped": bool(rows.scopes.rewind.any()),
        "pes": [_pe(run, pe, labels[pe], tiles, stops, sums) for pe in pes],
        "score": score,
        "sources": sources.pieces,
        "values": bool(values.what),
        "final": values.final,
        "unscoped": twin.unscoped(rows, tiles, index_of_pe),
        "error": twin.error(run, tiles, index_of_pe, sources),
        "window": None,
        "warnings": list(run.warnings),
        "strings": texts.all,
        "tables": packer.tables,
    }
    buffer = packer.buffer()
    spot = opening(Trace(head, buffer))
    head["open"] = {"pe": spot.pe, "step": spot.step, "tile": spot.tile}
    return head, buffer


def trace_of(run: RunResult, *, twin: Twin | None = None, words: Sequence[str] | None = None) -> Trace:
    """`encode`, as a `Trace`."""
    return Trace(*encode(run, twin=twin, words=words))


def _ops(run: RunResult, tiles: Tiles, blocks: Blocks, clock: Ints, names: Ints) -> dict[str, Array]:
    memory = run.memory_log
    rows = memory.rows
    copies = rows.by_kind(lambda k: k.op == "copy")
    begins = _first_rows(rows)
    return {
        "kind": rows.kind,
        "site": rows.site,
        "name": names,
        "scope": rows.scope,
        "tile": tiles.of_row,
        "out": blocks.out,
        "a": blocks.a,
        "b": blocks.b,
        "start": rows.start,
        "end": rows.end,
        "clock": clock,
        "cursor": memory.cursor,
        "peak": _running(np.maximum, memory.cursor, begins),
        "hbm": _running(np.add, rows.by_kind(lambda k: k.hbm), begins),
        "flops": _running(np.add, rows.by_kind(lambda k: k.flops), begins),
        "copies": _running(np.add, copies, begins),
        "need": _need(run),
    }


def _names(rows: Rows, texts: Texts) -> Ints:
    """The name of each row: the one given, else the variable of its place."""
    variable = np.array([*(texts(p.variable) for p in rows.places), 0], np.int64)
    given = texts.column(rows.names)
    name = variable[rows.site]
    named = np.flatnonzero(rows.name >= 0)
    name[named] = given[rows.name[named]]
    return name


def _first_rows(rows: Rows) -> Ints:
    """The first row of each PE that has any."""
    pe = rows.pe
    return np.flatnonzero(np.append(True, pe[1:] != pe[:-1])) if len(rows) else np.empty(0, np.int64)


def _running(what: np.ufunc, values: Ints, begins: Ints) -> Ints:
    """Running sum or maximum, anew from each of the given rows."""
    found = np.empty(len(values), np.int64)
    for first, stop in pairwise([*begins.tolist(), len(values)]):
        what.accumulate(values[first:stop], out=found[first:stop])
    return found


def _need(run: RunResult) -> Ints:
    """The cursor if nothing were given back: the sum of all that one launch has asked for, alignment included."""
    memory = run.memory_log
    rows = memory.rows
    asked = np.zeros(len(rows), np.int64)
    asked[memory.born] = memory.size
    begins = np.array([p.first for p in rows.parts if p.stop > p.first], np.int64)
    return _running(np.add, asked, begins)


def _kinds(rows: Rows, texts: Texts, index_of_pe: Ints) -> dict[str, Array]:
    kinds = rows.kinds
    shapes = [_result_shape(k) for k in kinds]
    return {
        "op": texts.column(k.op for k in kinds),
        "engine": rows.of_kinds(lambda k: ENGINES.index(k.engine) if k.engine else len(ENGINES)),
        "shape": texts.column(shapes),
        "dtype": texts.column(k.ty.dtype.name if k.ty else None for k in kinds),
        "text": texts.column(shapes_text(k.shapes) if k.shapes else None for k in kinds),
        "tensor": texts.column(k.tensor for k in kinds),
        "direction": texts.column(k.direction for k in kinds),
        "busy": rows.of_kinds(lambda k: k.busy if k.engine else 0),
        "nbytes": rows.of_kinds(lambda k: k.nbytes),
        "hbm": rows.of_kinds(lambda k: k.hbm),
        "flops": rows.of_kinds(lambda k: k.flops),
        "elements": rows.of_kinds(lambda k: k.elements),
        "peer": rows.of_kinds(lambda k: -1 if k.peer is None else int(index_of_pe[k.peer])),
    }


def _result_shape(kind: Kind) -> str:
    shape = kind.ty.shape if kind.ty else kind.shapes[-1] if kind.shapes else None
    return "" if shape is None else "×".join(map(str, shape)) or "scalar"


def _allocs(run: RunResult, blocks: Blocks, names: Ints, texts: Texts) -> dict[str, Array]:
    memory = run.memory_log
    rows, born = memory.rows, memory.born
    kind, scope = rows.kind[born], rows.scope[born]
    by_kind = {
        "shape": texts.column(_result_shape(k) for k in rows.kinds),
        "dtype": texts.column(k.ty.dtype.name if k.ty else None for k in rows.kinds),
    }
    engine = rows.of_kinds(lambda k: ENGINES.index(k.engine) if k.engine else len(ENGINES))
    writer = np.where(blocks.first_writer >= 0, blocks.first_writer, born)
    return {
        "part": rows.scopes.part[scope],
        "born": born,
        "dead": memory.dead,
        "last": blocks.last,
        "addr": memory.addr,
        "size": memory.size,
        "nbytes": memory.nbytes,
        "name": names[born],
        "shape": by_kind["shape"][kind],
        "dtype": by_kind["dtype"][kind],
        "scope": scope,
        "arena": rows.scopes.scoped[scope].astype(np.int64),
        "engine": engine[rows.kind[writer]],
    }


def _scopes(run: RunResult, texts: Texts) -> dict[str, Array]:
    memory = run.memory_log
    scopes = memory.rows.scopes
    depth = np.zeros(len(scopes), np.int64)
    depth[scopes.parent >= 0] = 1
    for scope, around in scopes.nested:
        depth[scope] = depth[around] + 1
    return {
        "part": scopes.part,
        "kind": texts.column(scopes.kind),
        "label": texts.column(scopes.label),
        "depth": depth,
        "parent": scopes.parent,
        "owner": scopes.owner,
        "save": scopes.save,
        "peak": memory.peak_by_scope,
        "open": scopes.open,
        "close": scopes.close,
        "rewind": scopes.rewind.astype(np.int64),
    }


def _tiles(tiles: Tiles, weights: Ints, texts: Texts, index_of_pe: Ints) -> dict[str, Array]:
    columns = dict(tiles.columns)
    columns["pe"] = index_of_pe[columns["pe"]]
    peer = columns["peer"]
    columns["peer"] = np.where(peer >= 0, index_of_pe[peer], -1)
    return {
        **columns,
        "kind": texts.column(tiles.kind),
        "label": texts.column(tiles.label),
        "weights": weights,
    }


def _weights(run: RunResult, tiles: Tiles) -> Ints:
    """For each tile the row after which its weights exist: its last p, else its scores; of a merge the last copy."""
    rows = run.op_log.rows
    variable = [p.variable for p in rows.places]
    found = np.full(len(tiles), -1, np.int64)

    def named(*names: str) -> Ints:
        given = np.array([n in names for n in rows.names] + [False])
        by_site = np.array([v in names for v in variable] + [False])
        chosen = np.where(rows.name >= 0, given[rows.name], by_site[rows.site])
        return np.flatnonzero(chosen & rows.is_operation)

    def fill(at: Ints) -> None:
        last = np.full(len(tiles), -1, np.int64)
        last[tiles.of_row[at]] = at
        np.copyto(found, last, where=found < 0)

    merges = np.fromiter((k == "merge" for k in tiles.kind), np.bool_, len(tiles))
    fill(named("p"))
    fill(np.flatnonzero(rows.by_kind(lambda k: k.op == "softmax")))
    fill(named("s", "s masked", "S"))
    fill(np.flatnonzero(rows.by_kind(lambda k: k.op == "gemm")))
    swept = np.fromiter((k in ("tile", "scope") for k in tiles.kind), np.bool_, len(tiles))
    found[~swept] = -1
    copies = np.flatnonzero(rows.by_kind(lambda k: k.op == "copy"))
    last_copy = np.full(len(tiles), -1, np.int64)
    last_copy[tiles.of_row[copies]] = copies
    found[merges] = last_copy[merges]
    return found


def _sites(rows: Rows, sources: Sources, texts: Texts) -> dict[str, Array]:
    places = list(rows.places)
    found = np.array([sources.of_place(p) for p in places], np.int64).reshape(-1, 4)
    return {
        "source": found[:, 0],
        "line": found[:, 1],
        "function": texts.column(p.function for p in places),
        "var": texts.column(p.variable for p in places),
        "ksource": found[:, 2],
        "kline": found[:, 3],
    }


def _score(run: RunResult, tiles: Tiles) -> Head | None:
    c = tiles.columns
    on_map = np.flatnonzero(c["layer"] >= 0)
    if not len(on_map):
        return None
    layers = int(c["layer"].max()) + 1
    S_q, S_kv = int(c["q1"][on_map].max()), int(c["k1"][on_map].max())
    # a tile may be the last that ran: the arguments know how far the map goes
    S_q = max(S_q, _size(run, "T_q"))
    S_kv = max(S_kv, _size(run, "S_kv"))
    heads = _packed_heads(run, tiles)
    tokens = int((c["q1"] - c["q0"])[on_map].max())
    h_q = _size(run, "h_q")
    first = [f"head {h}" for h in range(heads)]
    rows = [text if tokens == 1 else f"{text}, token {t}" for text in first for t in range(tokens)]
    labels = tiles.layer_labels(run.op_log.rows.scopes.path)
    if heads > 1 and layers > 1 and heads * layers == h_q:
        labels = [f"heads {i * heads} to {(i + 1) * heads - 1}" for i in range(layers)]
    return {
        "S_q": S_q,
        "S_kv": S_kv,
        "heads": heads,
        "layers": layers,
        "layer_labels": labels,
        "row_labels": rows if len(rows) <= 256 else None,
        "tokens": None,
    }


def _size(run: RunResult, name: str) -> int:
    value = run.params.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _packed_heads(run: RunResult, tiles: Tiles) -> int:
    """How many query heads one tile handles as rows: rows of its scores over its query tokens."""
    rows = run.op_log.rows
    gemm = np.flatnonzero(rows.by_kind(lambda k: k.op == "gemm"))
    c = tiles.columns
    for row in gemm[:64].tolist():
        tile = int(tiles.of_row[row])
        tokens, keys = int(c["q1"][tile] - c["q0"][tile]), int(c["k1"][tile] - c["k0"][tile])
        shape = rows.kinds[rows.kind[row]].shapes[-1]
        if c["layer"][tile] >= 0 and tokens > 0 and shape and shape[-1] == keys:
            count = int(np.prod(shape[:-1]))
            if count % tokens == 0:
                return count // tokens
    return 1


def _machine(machine: Topology) -> Head:
    return {
        "name": machine.name,
        "scratch_bytes": machine.scratch_bytes,
        "cube_mesh": list(machine.cube_mesh),
        "pe_mesh": list(machine.pe_mesh),
        "sips": machine.sips,
        "cubes_per_sip": machine.cubes_per_sip,
        "pes_per_cube": machine.pes_per_cube,
        "hbm_gb_per_s": float(machine.costs.hbm_peak_gb_per_s),
        "issue": machine.issue,
    }


def _pe(run: RunResult, pe: int, label: str, tiles: Tiles, stops: Ints, sums: Mapping[str, Array]) -> Head:
    memory = run.memory_log
    parts = [(i, p) for i, p in enumerate(memory.rows.parts) if p.pe == pe]
    last = int(stops[parts[-1][0]]) - 1 if int(stops[parts[-1][0]]) > parts[0][1].first else -1
    sip, cube, within = run.topology.locate(pe)
    x, y = run.topology.pe_xy(within)
    own = tiles.columns["pe"] == pe
    swept = sum(1 for i in np.flatnonzero(own).tolist() if tiles.kind[i] in ("tile", "scope"))
    return {
        "pe": pe,
        "label": label,
        "sip": sip,
        "cube": cube,
        "x": x,
        "y": y,
        "op0": parts[0][1].first,
        "op1": int(stops[parts[-1][0]]),
        "before": 0,
        "rows": int(stops[parts[-1][0]]) - parts[0][1].first,
        "end": max(p.end_ps for _, p in parts),
        "peak": memory.peak_by_pe[pe],
        "persistent": memory.persistent_by_pe[pe],
        "tiles": swept,
        "total": {name: int(column[last]) if last >= 0 else 0 for name, column in sums.items()},
    }


def _index(pes: Sequence[int], count_of_pes: int) -> Ints:
    index = np.full(max(count_of_pes, 1 + max(pes, default=0)), -1, np.int64)
    index[list(pes)] = np.arange(len(pes))
    return index


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (bool, int, float, str))
