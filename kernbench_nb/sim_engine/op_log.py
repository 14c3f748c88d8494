"""The operation log: list-like, over columns; a record is made only when it is looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from kernbench_nb.sim_engine.rows import SHARED_ENGINES, Ints, Rows, decode, numbers
from kernbench_nb.sim_engine.source import Place
from kernbench_nb.sim_engine.trace import Kind, Trace

__all__ = ["OpLog", "OpRecord", "shapes_text"]

Shape = tuple[int, ...]
Codes = npt.NDArray[np.signedinteger[Any]]
_AT_A_TIME = 4096


@dataclass(frozen=True, slots=True)
class OpRecord:
    """One operation.

    Attributes
    ----------
    op_name, engine
        What it is, and the engine of its PE that it ran on.
    pe
        Global index.
    start_ps, end_ps, busy_ps
        When it started, when its result was there, and how long it occupied its engine.
    nbytes
        Bytes that it moves (dma, ipc, copy), or None.
    hbm_bytes, flops, elements
        Bytes that cross HBM; 2*m*n*k of the products; elements that the math engine works on.
    shapes
        Shapes of the operands and of the result, the result last; of what is moved, for dma and ipc.
    dtype
        Of the result, or None.
    out_addr, addresses
        Scratch addresses of the result (None if it has none) and of the operands.
    tensor, offset
        The HBM tensor that it reads or writes, and the first element of the tile in its shard.
    peer, direction
        Global PE at the other end of a message, and the direction it takes.
    scope, tile
        Path of its scope (empty: the persistent arena), and the label of the tile that it belongs to, or None.
    name
        The name given with ``name=``, else the variable that the source assigns it to, or None.
    line, function, kernel_line, file
        The source line that called `tl`, and the line of the kernel from which that came; None if unknown.
    row
        Its number in order of issue, over all rows of the run.
    """

    op_name: str
    engine: str
    pe: int
    start_ps: int
    end_ps: int
    busy_ps: int
    nbytes: int | None
    hbm_bytes: int
    flops: int
    elements: int
    shapes: tuple[Shape, ...]
    dtype: str | None
    out_addr: int | None
    addresses: tuple[int, ...]
    tensor: str | None
    offset: int | None
    peer: int | None
    direction: str | None
    scope: str
    tile: str | None
    name: str | None
    line: int | None
    function: str | None
    kernel_line: int | None
    row: int
    file: str | None = field(default=None, repr=False)  # differs from machine to machine

    @property
    def start_ns(self) -> float:
        """Start in ns."""
        return self.start_ps / 1000

    @property
    def dur_ns(self) -> float:
        """From start to end, in ns."""
        return (self.end_ps - self.start_ps) / 1000


class OpLog(Sequence[OpRecord]):
    """All operations of a run, in order of (start_ps, pe, issue).

    Parameters
    ----------
    traces
        What the PEs left behind (read when the log is first looked at), or rows already decoded.

    Attributes
    ----------
    columns
        numpy columns of the log, by name. Integers are int64, and -1 where a value is missing; a text column holds
        small integers, indices (-1: missing) into the texts in `categories`.
    """

    def __init__(self, traces: Iterable[Trace] | Rows) -> None:
        self._given = traces if isinstance(traces, Rows) else tuple(traces)

    @cached_property
    def rows(self) -> Rows:
        """All rows, scopes and bare allocations included, in order of PE and issue."""
        return self._given if isinstance(self._given, Rows) else decode(self._given)

    @cached_property
    def order(self) -> Ints:
        """The row of each operation of the log."""
        rows = self.rows
        chosen = rows.where(lambda k: k.engine != "")
        start = rows.start[chosen]
        if (start[1:] < start[:-1]).any():
            # rows come by PE and issue already, and a stable sort keeps that for equal starts
            chosen = chosen[np.argsort(start, kind="stable")]
        return chosen

    @cached_property
    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """See the class."""
        rows, order, texts = self.rows, self.order, self._texts
        kind, site, scope = rows.kind[order], rows.site[order], rows.scope[order]
        out, a, b = rows.out[order], rows.a[order], rows.b[order]

        # The rows of shared engines use two entries otherwise. They are few: mend them, instead of choosing by row.
        shared = np.flatnonzero(rows.are(lambda k: k.engine in SHARED_ENGINES)[kind])
        b[shared] = -1
        dma = shared[rows.are(lambda k: k.engine == "dma")[kind[shared]]]
        offset = np.full(len(order), -1, np.int64)
        offset[dma] = a[dma]
        a[dma] = -1
        # what a store reads is an operand, though its address stands where others have their result's
        stores = dma[rows.are(lambda k: k.op == "dma_write")[kind[dma]]]
        a[stores] = out[stores]
        out[stores] = -1

        def of_kind(get: Callable[[Kind], int]) -> Ints:
            return rows.of_kinds(get)[kind]

        columns: dict[str, npt.NDArray[Any]] = {
            "start_ps": rows.start[order],
            "end_ps": rows.end[order],
            "busy_ps": of_kind(lambda k: k.busy),
            "pe": rows.pe[order],
            "op_name": texts["op_name"][0][kind],
            "engine": texts["engine"][0][kind],
            "name": self._names[0],
            "tile": texts["tile"][0][scope],
            "scope": texts["scope"][0][scope],
            "nbytes": of_kind(lambda k: k.nbytes),
            "hbm_bytes": of_kind(lambda k: k.hbm),
            "flops": of_kind(lambda k: k.flops),
            "elements": of_kind(lambda k: k.elements),
            "shapes": texts["shapes"][0][kind],
            "dtype": texts["dtype"][0][kind],
            "out_addr": out,
            "a_addr": a,
            "b_addr": b,
            "tensor": texts["tensor"][0][kind],
            "offset": offset,
            "peer": of_kind(lambda k: -1 if k.peer is None else k.peer),
            "direction": texts["direction"][0][kind],
            "function": texts["function"][0][site],
            "line": self._lines[site],
            "row": order,
        }
        for column in columns.values():
            column.flags.writeable = False  # one log, many views: none may change what another sees
        return columns

    @cached_property
    def _places(self) -> list[Place | None]:
        """The places of operations by number, None for others; the last is of rows whose place is not known."""
        places = self.rows.places
        met = np.zeros(len(places) + 1, np.bool_)
        met[self.rows.site[self.order]] = True
        return [*(p if m else None for p, m in zip(places, met[:-1].tolist(), strict=True)), None]

    @cached_property
    def _names(self) -> tuple[Codes, tuple[str, ...]]:
        """Names as codes and texts: the one given, else the variable of the place.

        Only names that operations show: scopes and bare allocations have names too, and a given name hides a variable.
        """
        rows = self.rows
        given = rows.name[self.order]
        unnamed = np.flatnonzero(given < 0)
        site = rows.site[self.order[unnamed]]
        # an index of -1 marks the last entry, which stands for none
        shown = np.zeros(len(rows.names) + 1, np.bool_)
        shown[given] = True
        used = np.flatnonzero(shown[:-1])
        here = np.zeros(len(rows.places) + 1, np.bool_)
        here[site] = True
        variable, texts = _codes(
            (p.variable if p and h else None for p, h in zip(self._places, here.tolist(), strict=True)),
            [rows.names[i] for i in used.tolist()],
        )
        number = np.full(len(rows.names) + 1, -1, variable.dtype)
        number[used] = np.arange(len(used))
        codes = number[given]
        codes[unnamed] = variable[site]
        return codes, texts

    @property
    def categories(self) -> dict[str, tuple[str, ...]]:
        """Texts of the text columns, in order of first use (of the kinds, scopes and places, not of the rows)."""
        return {column: texts for column, (_, texts) in self._texts.items()} | {"name": self._names[1]}

    def text(self, column: str) -> npt.NDArray[np.object_]:
        """A text column as Python strings, None where it is missing."""
        texts = np.array([*self.categories[column], None], np.object_)
        found: npt.NDArray[np.object_] = texts[self.columns[column]]
        return found

    @cached_property
    def _texts(self) -> dict[str, tuple[Codes, tuple[str, ...]]]:
        """For each text column: a table to take its codes from, by kind, site or scope, and the texts."""
        rows = self.rows
        scopes = rows.scopes
        kinds = [k if k.engine else None for k in rows.kinds]  # texts of what is no operation are not wanted
        return {
            "op_name": _codes(k.op if k else None for k in kinds),
            "engine": _codes(k.engine if k else None for k in kinds),
            "tile": self._tile_codes(),
            "scope": _codes(scopes.path),
            "shapes": _codes(shapes_text(k.shapes) if k else None for k in kinds),
            "dtype": _codes(k.ty.dtype.name if k and k.ty else None for k in kinds),
            "tensor": _codes(k.tensor if k else None for k in kinds),
            "direction": _codes(k.direction if k else None for k in kinds),
            "function": _codes(p.function if p else None for p in self._places),
        }

    def _tile_codes(self) -> tuple[Codes, tuple[str, ...]]:
        scopes = self.rows.scopes
        tiles = np.flatnonzero(scopes.tile == np.arange(len(scopes)))
        codes, texts = _codes(map(scopes.label.__getitem__, tiles.tolist()))
        by_tile = np.full(len(scopes) + 1, -1, codes.dtype)
        by_tile[tiles] = codes
        return by_tile[scopes.tile], texts

    @cached_property
    def _lines(self) -> Ints:
        """Line of each place, -1 where it is not known."""
        return np.array([(p.line or -1) if p else -1 for p in self._places], np.int64)

    # -- as a list ---------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self.order)

    @overload
    def __getitem__(self, index: int) -> OpRecord: ...
    @overload
    def __getitem__(self, index: slice) -> list[OpRecord]: ...
    def __getitem__(self, index: int | slice) -> OpRecord | list[OpRecord]:
        if isinstance(index, slice):
            return list(self._records(range(*index.indices(len(self)))))
        try:
            at = range(len(self))[index]
        except IndexError:
            raise IndexError(f"operation {index} of a log of {len(self)}") from None
        return next(self._records(range(at, at + 1)))

    def __iter__(self) -> Iterator[OpRecord]:
        for first in range(0, len(self), _AT_A_TIME):
            yield from self._records(range(first, min(first + _AT_A_TIME, len(self))))

    def __eq__(self, other: object) -> bool:
        """Whether both logs say the same in every column, issue included."""
        if not isinstance(other, OpLog):
            return NotImplemented
        return len(self) == len(other) and all(
            np.array_equal(self.text(name), other.text(name))
            if name in self.categories
            else np.array_equal(column, other.columns[name])
            for name, column in self.columns.items()
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        pes = len({p.pe for p in self.rows.parts})
        return f"<OpLog: {len(self)} operations on {pes} PE{'' if pes == 1 else 's'}>"

    def _records(self, which: range) -> Iterator[OpRecord]:
        at = slice(which.start, which.stop if which.stop >= 0 else None, which.step)
        rows, texts = self.rows, self.categories
        lists = {name: column[at].tolist() for name, column in self.columns.items()}
        for name, known in texts.items():
            choice = (*known, None)
            lists[name] = [choice[code] for code in lists[name]]
        kinds, places = rows.kinds, rows.places
        for values in zip(*lists.values(), strict=True):
            r = dict(zip(lists, values, strict=True))
            row = r["row"]
            site = int(rows.site[row])
            place = places[site] if site >= 0 else None
            yield OpRecord(
                op_name=r["op_name"],
                engine=r["engine"],
                pe=r["pe"],
                start_ps=r["start_ps"],
                end_ps=r["end_ps"],
                busy_ps=r["busy_ps"],
                nbytes=_or_none(r["nbytes"]),
                hbm_bytes=r["hbm_bytes"],
                flops=r["flops"],
                elements=r["elements"],
                shapes=kinds[rows.kind[row]].shapes,
                dtype=r["dtype"],
                out_addr=_or_none(r["out_addr"]),
                addresses=(*(x for x in (r["a_addr"], r["b_addr"]) if x >= 0), *rows.more.get(row, ())),
                tensor=r["tensor"],
                offset=_or_none(r["offset"]),
                peer=_or_none(r["peer"]),
                direction=r["direction"],
                scope=r["scope"],
                tile=r["tile"],
                name=r["name"],
                line=_or_none(r["line"]),
                function=r["function"],
                kernel_line=(place.kernel.line or None) if place else None,
                row=row,
                file=place.file if place else None,
            )


def shapes_text(shapes: Sequence[Shape]) -> str:
    """Shapes as a view shows them: ``1x64, 64x16 -> 1x16``.

    >>> shapes_text([(8, 64), (64, 16), (8, 16)]), shapes_text([(8,)]), shapes_text([()])
    ('8x64, 64x16 -> 8x16', '8', 'scalar')
    """
    words = ["x".join(map(str, shape)) or "scalar" for shape in shapes]
    return f"{', '.join(words[:-1])} -> {words[-1]}" if len(words) > 1 else "".join(words)


def _or_none(value: int) -> int | None:
    return value if value >= 0 else None


def _codes(texts: Iterable[str | None], known: Sequence[str] = ()) -> tuple[Codes, tuple[str, ...]]:
    """Number texts as they are first met, after those already `known`; None is -1."""
    given = list(texts)
    distinct = dict.fromkeys(given)
    if not known and len(distinct) == len(given) and None not in distinct:
        # as with tens of thousands of tiles, each with its own label: no need to look them up again
        return np.arange(len(given), dtype=np.min_scalar_type(-len(given) - 1)), tuple(
            t for t in distinct if t is not None
        )
    number = numbers(known)
    codes = list(map(number.__getitem__, given))
    # the smallest type that holds them: most text columns then take one byte a row
    return np.array(codes, np.min_scalar_type(-len(number))), tuple(number)[1:]
