"""A place named by meaning: ``pe=7, tile="tile 2", at="O*c"`` becomes a PE and a step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np

from kernbench_nb.sim_engine.rows import Ints
from kernbench_nb.widgets.reader import Trace

__all__ = ["Spot", "find_spot", "find_tile_count", "opening"]

_VERBS = {
    "dma_read": ("load",),
    "dma_write": ("store",),
    "ipc_send": ("send",),
    "ipc_recv": ("recv", "receive"),
    "gemm": ("dot",),
}
_MOST_NAMES = 40
_MOST_NEAR = 3


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a view stands.

    Attributes
    ----------
    pe
        Global index.
    step
        Row, counted from 0 within the PE; the picture is that after it.
    tile
        Its tile, -1 if there are no rows.
    """

    pe: int
    step: int
    tile: int


def opening(trace: Trace) -> Spot:
    """Where a view opens unless told otherwise: at an overflow, else in the middle of a later tile.

    There every sign is on the page at once: done, current, to come, live, given back.
    """
    error = trace.head["error"]
    if error is not None and error["op"] >= 0:
        return _spot(trace, error["pe"], error["op"])
    if not trace.pes:
        return Spot(0, 0, -1)
    index = _default_pe(trace)
    return _spot(trace, index, _middle(trace, index))


def find_spot(trace: Trace, pe: int | None = None, tile: str | None = None, at: str | None = None) -> Spot:
    """The place that is meant.

    Parameters
    ----------
    trace
        The run.
    pe
        Global index; without it the PE where a view opens, or the first one that has such a place.
    tile
        Label of a tile, or its path where several have that label (``"head 3 block 2/tile 2,1"``); without `at` its
        end, just before its bytes are given back.
    at
        An operation's name, else the variable that it is assigned to, else what it does to what: ``store S``,
        ``load K``, ``copy O``; else what it does: ``store``, ``sum``. Without `tile`, of all such operations of the
        PE the one in the middle.

    Raises
    ------
    TypeError
        If a name is no text.
    ValueError
        If there is no such place; the names that are near, and those that there are, are listed.
    """
    for what, name, example in (("tile", tile, "tile 2"), ("at", at, "O*c")):
        if name is not None and not isinstance(name, str):
            raise TypeError(f'{what}={name!r}: a place is named by a text, such as {what}="{example}".')
    if pe is None and tile is None and at is None:
        return opening(trace)
    candidates = _candidates(trace, pe)
    if tile is None and at is None:
        index = candidates[0]
        return _spot(trace, index, _middle(trace, index))
    for index in candidates:
        ranges = _tile_rows(trace, index, tile)
        if not len(ranges):
            continue
        if at is None:
            return _spot(trace, index, int(trace.tiles["stop"][ranges[0]]))
        found = _rows_named(trace, index, ranges if tile is not None else None, at)
        if len(found):
            return _spot(trace, index, int(found[(len(found) - 1) // 2]))
    raise ValueError(_no_match(trace, candidates, tile, at))


def find_tile_count(trace: Trace, pe: int | None, tile: str | None) -> tuple[int, int]:
    """For two runs side by side: the PE, and how many tiles are done at the end of a tile.

    Raises
    ------
    ValueError
        If there is no such PE or tile.
    """
    spot = find_spot(trace, pe, tile)
    c = trace.tiles
    index = trace.index_of(spot.pe)
    if index is None:
        return spot.pe, 0
    order = trace.tiles_of(index, "tile", "scope")
    row = trace.pes[index]["op0"] + spot.step
    return spot.pe, int((c["op0"][order] <= row).sum())


def _spot(trace: Trace, index: int, row: int) -> Spot:
    p = trace.pes[index]
    if p["op1"] <= p["op0"]:
        return Spot(p["pe"], 0, -1)
    row = min(max(row, p["op0"]), p["op1"] - 1)
    return Spot(p["pe"], row - p["op0"], int(trace.ops["tile"][row]))


def _default_pe(trace: Trace) -> int:
    """The PE with the most tiles, the last of several: the first one's first key often holds all the weight."""
    counts = [p["tiles"] for p in trace.pes]
    return len(counts) - 1 - counts[::-1].index(max(counts))


def _middle(trace: Trace, index: int) -> int:
    p, c = trace.pes[index], trace.tiles
    swept = trace.tiles_of(index, "tile", "scope")
    if not len(swept):
        cursor = trace.ops["cursor"][p["op0"] : p["op1"]]
        return int(p["op0"]) + (int(cursor.argmax()) if len(cursor) else 0)
    tile = int(swept[min(2 if len(swept) < 8 else 4, len(swept) - 1)])
    rows = np.arange(c["op0"][tile], c["op1"][tile] + 1)
    corrected = rows[trace.ops["name"][rows] == trace.number("O*c")] if trace.number("O*c") >= 0 else rows[:0]
    if len(corrected):
        return int(corrected[-1])
    weights = int(c["weights"][tile])
    return weights if weights >= 0 else int(c["stop"][tile])


def _candidates(trace: Trace, pe: int | None) -> list[int]:
    if pe is None:
        first = trace.index_of(opening(trace).pe)
        return [*([first] if first is not None else []), *(i for i in range(len(trace.pes)) if i != first)]
    index = trace.index_of(pe)
    if index is None:
        there = ", ".join(str(p["pe"]) for p in trace.pes[:_MOST_NAMES]) or "none"
        more = f" and {len(trace.pes) - _MOST_NAMES} more" if len(trace.pes) > _MOST_NAMES else ""
        raise ValueError(
            f"PE {pe!r} took no part in this run; pe= is a global index, and there are: {there}{more}."
        )
    return [index]


def _tile_rows(trace: Trace, index: int, tile: str | None) -> Ints:
    """The tiles that are meant, in order; all of the PE if none is named."""
    ran = trace.tiles_of(index)
    if tile is None:
        return ran
    found: Ints = ran[trace.tiles["label"][ran] == trace.number(tile)] if trace.number(tile) >= 0 else ran[:0]
    if not len(found) and "/" in tile:
        return np.array([t for t in ran.tolist() if _path(trace, t) == tile], np.int64)
    return found


def _path(trace: Trace, tile: int) -> str:
    """Labels from the outermost scope to a tile, ``head 3 block 2/tile 2,1``."""
    scopes, scope, words = trace.tables["scopes"], int(trace.tiles["scope"][tile]), []
    while scope >= 0 and scopes["depth"][scope]:
        words.append(trace.text(int(scopes["label"][scope])))
        scope = int(scopes["parent"][scope])
    return "/".join(reversed(words))


def _rows_named(trace: Trace, index: int, tiles: Ints | None, at: str) -> Ints:
    """Rows that a name means, of the first of the given tiles that has any, or of the whole PE."""
    p, c = trace.pes[index], trace.tiles
    spans = (
        [(p["op0"], p["op1"])] if tiles is None else [(int(c["op0"][t]), int(c["op1"][t]) + 1) for t in tiles]
    )
    for first, stop in spans:
        rows = np.arange(first, stop)
        for matches in (_by_name, _by_variable, _by_deed, _by_verb):
            found = matches(trace, rows, at)
            if len(found):
                return found
    return np.empty(0, np.int64)


def _by_name(trace: Trace, rows: Ints, at: str) -> Ints:
    number = trace.number(at)
    return rows[trace.ops["name"][rows] == number] if number > 0 else rows[:0]


def _by_variable(trace: Trace, rows: Ints, at: str) -> Ints:
    number = trace.number(at)
    site = trace.ops["site"][rows]
    variable = np.append(trace.tables["sites"]["var"], 0)[site]
    return rows[variable == number] if number > 0 else rows[:0]


def _by_deed(trace: Trace, rows: Ints, at: str) -> Ints:
    verb, space, operand = at.partition(" ")
    number = trace.number(operand)
    if not space or number <= 0:
        return rows[:0]
    kinds = trace.tables["kinds"]
    kind = trace.ops["kind"][rows]
    does = np.isin(kinds["op"][kind], _ops_called(trace, verb))
    tensor = kinds["tensor"][kind] == number
    names = np.append(trace.allocs["name"], 0)
    touched = [names[trace.ops[column][rows]] == number for column in ("out", "a", "b")]
    written = rows[does & (tensor | touched[0])]
    read: Ints = rows[does & (touched[1] | touched[2])]
    return written if len(written) else read


def _by_verb(trace: Trace, rows: Ints, at: str) -> Ints:
    """What is done, whatever it is done to: ``load``, ``sum``."""
    op = trace.tables["kinds"]["op"][trace.ops["kind"][rows]]
    return rows[np.isin(op, _ops_called(trace, at))]


def _ops_called(trace: Trace, verb: str) -> list[int]:
    """Operations that a word means, as numbers of texts."""
    found = [trace.number(op) for op, words in _VERBS.items() if verb in words] + [trace.number(verb)]
    return [number for number in found if number > 0]


def _no_match(trace: Trace, candidates: list[int], tile: str | None, at: str | None) -> str:
    if not any(p["op1"] > p["op0"] for p in trace.pes):
        return "this run has no operations, so there is no place to name."
    where = f" on PE {trace.pes[candidates[0]]['pe']}" if len(candidates) == 1 else ""
    if tile is not None and not any(len(_tile_rows(trace, i, tile)) for i in candidates):
        labels = _unique(
            trace.text(int(trace.tiles["label"][t])) for i in candidates for t in trace.tiles_of(i)
        )
        why = _why_not_run(trace, tile) or _who_has(trace, tile)
        rest = f"{why}; there are" if why else _meant(tile, labels)
        return f"no tile is called {tile!r}{where}{rest}: {_listed(labels)}."
    place = f" in {tile!r}" if tile is not None else ""
    names = _unique(name for i in candidates for name in _names_in(trace, i, tile))
    more = _unique(name for i in candidates for name in _other_names(trace, i, tile))
    near = _meant(at or "", [*names, *more])
    return f"no operation is called {at!r}{place}{where}{near}: {_listed(names)}."


def _meant(name: str, names: Iterable[str]) -> str:
    """The names that are near, as the middle of a sentence."""
    wanted = name.casefold()
    plain = {known: known.casefold() for known in names}
    near = [known for known, key in plain.items() if key == wanted]
    if not near:
        close = get_close_matches(wanted, list(plain.values()), _MOST_NEAR, 0.6)
        begins = [known for known, key in plain.items() if key.startswith(wanted)]
        near = _unique([*begins, *(known for key in close for known in plain if plain[known] == key)])
    if not near:
        return "; there are"
    return f"; did you mean {' or '.join(repr(known) for known in near[:_MOST_NEAR])}? There are"


def _why_not_run(trace: Trace, tile: str) -> str:
    c = trace.tiles
    kinds = {trace.text(int(k)) for k in c["kind"][(c["label"] == trace.number(tile)) & (c["op0"] < 0)]}
    return " (it was never reached)" if "never" in kinds else " (it is not in this window)" if kinds else ""


def _who_has(trace: Trace, tile: str) -> str:
    """The other PEs that have such a tile."""
    has = [str(p["pe"]) for i, p in enumerate(trace.pes) if len(_tile_rows(trace, i, tile))]
    if not has:
        return ""
    more = f" and {len(has) - _MOST_NEAR} more" if len(has) > _MOST_NEAR else ""
    return f" (PE {', PE '.join(has[:_MOST_NEAR])}{more} {'have' if len(has) > 1 else 'has'} it)"


def _names_in(trace: Trace, index: int, tile: str | None) -> Iterator[str]:
    """The one name by which each operation is best called."""
    p, c = trace.pes[index], trace.tiles
    spans = (
        [(p["op0"], p["op1"])]
        if tile is None
        else [(int(c["op0"][t]), int(c["op1"][t]) + 1) for t in _tile_rows(trace, index, tile)[:1]]
    )
    kinds = trace.tables["kinds"]
    scope = len(trace.head["engines"]) - 1
    for first, stop in spans:
        rows = np.arange(first, min(stop, first + 4096))
        seen = {
            (int(trace.ops["name"][r]), int(trace.ops["kind"][r]), _touched(trace, int(r))): r
            for r in rows[::-1]
        }
        for (name, kind, block), _ in sorted(seen.items(), key=lambda item: int(item[1])):
            if kinds["engine"][kind] == scope:
                continue
            if name:
                yield trace.text(name)
                continue
            op = trace.text(int(kinds["op"][kind]))
            operand = int(kinds["tensor"][kind]) or (int(trace.allocs["name"][block]) if block >= 0 else 0)
            if operand:
                yield f"{_VERBS.get(op, (op,))[0]} {trace.text(operand)}"


def _other_names(trace: Trace, index: int, tile: str | None) -> Iterator[str]:
    """What else is understood: variables, and what is done to what."""
    p, kinds = trace.pes[index], trace.tables["kinds"]
    first, stop = int(p["op0"]), int(p["op1"])
    if tile is not None:
        found = _tile_rows(trace, index, tile)[:1]
        first, stop = (
            (int(trace.tiles["op0"][found[0]]), int(trace.tiles["op1"][found[0]]) + 1)
            if len(found)
            else (0, 0)
        )
    rows = np.arange(first, min(stop, first + 4096))
    yield from (
        trace.text(int(v))
        for v in np.unique(np.append(trace.tables["sites"]["var"], 0)[trace.ops["site"][rows]])
        if v
    )
    for row in rows.tolist():
        kind, block = int(trace.ops["kind"][row]), _touched(trace, row)
        operand = int(kinds["tensor"][kind]) or (int(trace.allocs["name"][block]) if block >= 0 else 0)
        op = trace.text(int(kinds["op"][kind]))
        if operand and kinds["engine"][kind] < len(trace.head["engines"]) - 1:
            yield f"{_VERBS.get(op, (op,))[0]} {trace.text(operand)}"


def _touched(trace: Trace, row: int) -> int:
    """The block that a row writes, else the one that it reads."""
    out = int(trace.ops["out"][row])
    return out if out >= 0 else int(trace.ops["a"][row])


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _listed(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:_MOST_NAMES]) or "none"
    return f"{shown} and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else shown
