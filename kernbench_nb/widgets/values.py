"""Recorded values as the panel shows them: scores, the state (m, l, O), the correction, and how far O still is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kernbench_nb.benches.sample import sample_attention
from kernbench_nb.runtime_api.result import RunResult
from kernbench_nb.sim_engine.rows import Ints
from kernbench_nb.widgets.tiles import Tiles

__all__ = ["Values", "values_of"]

Array = npt.NDArray[Any]
Floats = npt.NDArray[np.float64]

_HALF = ("s", "p", "o")
"""What is only looked at, and so may be rounded to half precision."""


class State(NamedTuple):
    """(m, l, O) with one row a query row: ``(R, 1), (R, 1), (R, d)``."""

    m: Floats
    l: Floats
    O: Floats


@dataclass(eq=False)
class Values:
    """Entries of the value table and the pools that they lie in.

    Attributes
    ----------
    what
        Name of each entry.
    columns
        ``tile half off rows cols``.
    pool2, pool4
        Half and single precision.
    final
        What errors compare with, or None.
    words
        The keys' words, where the recorded keys are those of the shipped sample.
    """

    what: list[str] = field(default_factory=list)
    columns: dict[str, Ints] = field(default_factory=dict)
    pool2: Array = field(default_factory=lambda: np.empty(0, np.float16))
    pool4: Array = field(default_factory=lambda: np.empty(0, np.float32))
    final: str | None = None
    words: list[str] | None = None


def values_of(run: RunResult, tiles: Tiles, score: Mapping[str, Any] | None) -> Values:
    """The recorded values of a run.

    Parameters
    ----------
    run
        With ``record="tiles"``; else there are none.
    tiles
        Its tiles.
    score
        The head's ``score``.
    """
    columns: dict[str, list[int]] = {name: [] for name in ("tile", "half", "off", "rows", "cols")}
    what: list[str] = []
    pools: tuple[list[Array], list[Array]] = ([], [])
    sizes = [0, 0]
    stored: dict[tuple[int, bytes], int] = {}

    def put(tile: int, name: str, array: Array) -> None:
        half = name in _HALF
        pool = 0 if half else 1
        with np.errstate(over="ignore"):
            flat = np.ascontiguousarray(array, np.float16 if half else np.float32).reshape(-1)
        # What is stored and loaded again (S and P of standard attention) is recorded by both tiles, and kept once.
        key = pool, blake2b(flat.tobytes(), digest_size=16).digest()
        off = stored.setdefault(key, sizes[pool])
        what.append(name)
        for column, value in zip(columns, (tile, half, off, array.shape[0], array.shape[1]), strict=True):
            columns[column].append(int(value))
        if off == sizes[pool]:
            pools[pool].append(flat)
            sizes[pool] += flat.size

    recorded = _by_tile(run, tiles)
    final, final_name = _final(run, score) if recorded else (None, None)
    errors = _Errors(tiles, score, final)
    c = tiles.columns
    for tile in _in_time(tiles, recorded):
        if tiles.kind[tile] == "merge":
            taken = errors.merge(tile)
            if taken is None:
                continue
            state = taken.state
            corrections = {"a": taken.a, "b": taken.b}
            put(tile, "share", taken.share)
        else:
            named = recorded[tile]
            keys = int(c["k1"][tile] - c["k0"][tile])
            scores = _matrix(named, ("s masked", "s", "S", "qk"), keys)
            if scores is not None:
                put(tile, "s", scores)
            found = _state(named)
            if found is None:
                weights = _matrix(named, ("p", "P"), keys)
                if weights is not None:
                    put(tile, "p", weights)
                continue
            state = found
            c_now = named.get("c")
            corrections = {"c": np.zeros_like(state.m) if c_now is None else _column(c_now)}
            errors.fold(tile, state)
        for name, array in {"m": state.m, "l": state.l, **corrections, "o": _normalised(state)}.items():
            put(tile, name, array)
        error = errors.now(tile)
        if error is not None:
            put(tile, "err", error)
    return Values(
        what,
        {name: np.array(column, np.int64) for name, column in columns.items()},
        np.concatenate([np.empty(0, np.float16), *pools[0]]),
        np.concatenate([np.empty(0, np.float32), *pools[1]]),
        final_name,
        _words(recorded, tiles, score),
    )


def _by_tile(run: RunResult, tiles: Tiles) -> dict[int, dict[str, Array]]:
    """What was recorded at the end of each tile, by name."""
    tile_of = {int(scope): i for i, scope in enumerate(tiles.columns["scope"].tolist()) if scope >= 0}
    found: dict[int, dict[str, Array]] = {}
    for value in run.values:
        tile = tile_of.get(value.scope)
        if tile is not None and value.name:
            found.setdefault(tile, {})[value.name] = value.values
    return found


def _in_time(tiles: Tiles, recorded: Mapping[int, Any]) -> list[int]:
    """Recorded tiles, and merges, in order of their ends."""
    if not recorded:
        return []
    wanted = [i for i, kind in enumerate(tiles.kind) if i in recorded or kind == "merge"]
    end = tiles.columns["end"]
    return sorted(wanted, key=lambda i: (int(end[i]), i))


def _column(array: Array) -> Floats:
    return np.asarray(array, np.float64).reshape(-1, 1)


def _matrix(named: Mapping[str, Array], names: Sequence[str], columns: int) -> Array | None:
    for name in names:
        array = named.get(name)
        if array is not None and array.ndim and array.shape[-1] == columns:
            return np.asarray(array, np.float32).reshape(-1, columns)
    return None


def _state(named: Mapping[str, Array]) -> State | None:
    if not all(name in named for name in "mlO"):
        return None
    m, l = _column(named["m"]), _column(named["l"])
    O = np.asarray(named["O"], np.float64)
    if len(m) != len(l) or not len(m) or O.size % len(m):
        return None
    return State(m, l, O.reshape(len(m), -1))


def _normalised(state: State) -> Floats:
    return np.divide(state.O, state.l, out=np.zeros_like(state.O), where=state.l > 0)


class Merged(NamedTuple):
    """Two states in one; how much of each is left of its l and O, and the first one's share of the new l."""

    state: State
    a: Floats
    b: Floats
    share: Floats


def merged(own: State, other: State) -> Merged:
    """``m = max(m_a, m_b)``, ``a = exp(m_a - m)``, ``b = exp(m_b - m)``, ``l = l_a a + l_b b``, O likewise."""
    m = np.maximum(own.m, other.m)
    safe = np.where(np.isfinite(m), m, 0.0)
    a, b = np.exp(own.m - safe), np.exp(other.m - safe)
    l = own.l * a + other.l * b
    share = np.divide(own.l * a, l, out=np.ones_like(l), where=l > 0)
    return Merged(State(m, l, own.O * a + other.O * b), a, b, share)


class _Errors:
    """Follows the states of all PEs, and says how far the output would be if they merged now."""

    def __init__(self, tiles: Tiles, score: Mapping[str, Any] | None, final: Floats | None) -> None:
        self._tiles = tiles
        self._heads = score["heads"] if score else 1
        self._final = final
        self._states: defaultdict[tuple[int, int, int], dict[int, State]] = defaultdict(dict)
        self._group: dict[int, tuple[int, int, int]] = {}

    def fold(self, tile: int, state: State) -> None:
        """A PE has folded a tile."""
        c = self._tiles.columns
        pe = int(c["pe"][tile])
        group = self._group[pe] = int(c["layer"][tile]), int(c["q0"][tile]), int(c["q1"][tile])
        self._states[group][pe] = state

    def merge(self, tile: int) -> Merged | None:
        """A PE has taken in another's state; None where one of the two is not known."""
        c = self._tiles.columns
        pe, peer = int(c["pe"][tile]), int(c["peer"][tile])
        group = self._group.get(pe) or self._group.get(peer)
        if group is None:
            return None
        states = self._states[group]
        own, other = states.get(pe), states.pop(peer, None)
        self._group[pe] = group
        if own is None or other is None or own.O.shape != other.O.shape:
            if own is None and other is not None:
                states[pe] = other  # a PE with no keys of its own goes on with what came in
            return None
        taken = merged(own, other)
        states[pe] = taken.state
        return taken

    def now(self, tile: int) -> Floats | None:
        """``|o - final| / |final|`` of each row, o of all states of these rows together; None if not known."""
        group = self._group.get(int(self._tiles.columns["pe"][tile]))
        if group is None or self._final is None:
            return None
        layer, first, last = group
        heads = slice(layer * self._heads, (layer + 1) * self._heads)
        wanted = self._final[first:last, heads].transpose(1, 0, 2)
        states = list(self._states[group].values())
        m = np.maximum.reduce([s.m for s in states])
        safe = np.where(np.isfinite(m), m, 0.0)
        scales = [np.exp(s.m - safe) for s in states]
        whole = State(
            m,
            np.sum([s.l * x for s, x in zip(states, scales, strict=True)], axis=0),
            np.sum([s.O * x for s, x in zip(states, scales, strict=True)], axis=0),
        )
        o = _normalised(whole)
        if wanted.size != o.size:
            return None
        wanted = wanted.reshape(o.shape)
        size = np.linalg.norm(wanted, axis=1, keepdims=True)
        distance = np.linalg.norm(o - wanted, axis=1, keepdims=True)
        error: Floats = np.divide(distance, size, out=distance.copy(), where=size > 0)
        return error


def _final(run: RunResult, score: Mapping[str, Any] | None) -> tuple[Floats | None, str | None]:
    """The final O as ``(tokens, heads, d)``, and what it is: the float64 reference if there is one."""
    p = run.params
    sizes = [p.get(name) for name in ("T_q", "h_q", "d")]
    if score is None or run.given_output is None or not all(isinstance(n, int) for n in sizes):
        return None, None
    shape = tuple(int(n) for n in sizes if n is not None)
    if run.given_output.size != int(np.prod(shape)):
        return None, None
    if run.reference is not None:
        return np.asarray(run.reference.values()[0], np.float64).reshape(shape), "float64 reference"
    return np.asarray(run.given_output, np.float64).reshape(shape), "output"


def _words(
    recorded: Mapping[int, Mapping[str, Array]], tiles: Tiles, score: Mapping[str, Any] | None
) -> list[str] | None:
    """The words of the shipped sample, if the recorded keys are its keys."""
    if not recorded or score is None:
        return None
    _, keys, _, words = sample_attention(tokens=True)
    if score["S_kv"] > len(words):
        return None
    c = tiles.columns
    for tile in (min(recorded), max(recorded)):
        first, last = int(c["k0"][tile]), int(c["k1"][tile])
        wanted = keys[first:last]
        alike = [array for name, array in recorded[tile].items() if name.startswith("K")]
        if not any(_same_keys(array, wanted) for array in alike):
            return None
    return words[: score["S_kv"]]


def _same_keys(array: Array, wanted: Array) -> bool:
    """Whether a tile holds these keys, of all heads or of one; a buffer may be longer than its last tile."""
    keys, heads, d = wanted.shape
    array = array[0] if array.ndim == 3 and len(array) == 1 else array
    if len(array) < keys or array[:keys].size not in (keys * d, wanted.size):
        return False
    found = array[:keys].reshape(keys, -1, d)
    if found.shape == wanted.shape and bool((found == wanted).all()):
        return True
    return any(bool((found == wanted[:, head : head + 1]).all()) for head in range(heads))
