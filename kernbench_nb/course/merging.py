"""Exercise 02: a merge of two states, tried on trees over the tiles of a real row of scores."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from kernbench_nb.benches.sample import sample_attention
from kernbench_nb.course.verdict import Check, Right, Verdict, Wrong, no_function, raised

__all__ = ["CHECKS", "State", "tile_states"]

_HEAD, _TILE, _TREES, _EMPTY = 3, 16, 100, 3
_TOLERANCE = 1e-5


class State(NamedTuple):
    """The state of some keys: maximum of their scores, sum of exp(s - m), and the sum of that times V, a vector."""

    m: Any
    l: Any
    O: Any


Merge = Callable[[State, State], Any]


def tile_states() -> list[State]:
    """The state of each tile of 16 keys, of head 3 at the last token, in float64; 20 of them."""
    q, k, v = (x.astype(np.float64) for x in sample_attention())
    group = q.shape[1] // k.shape[1]
    scores = k[:, _HEAD // group] @ q[-1, _HEAD] / math.sqrt(q.shape[2])
    values = v[:, _HEAD // group]
    states = []
    for at in range(0, len(scores), _TILE):
        s = scores[at : at + _TILE]
        p = np.exp(s - s.max())
        states.append(State(s.max(), p.sum(), p @ values[at : at + _TILE]))
    return states


def empty_state(d: int) -> State:
    """The state of no keys."""
    return State(np.float64(-np.inf), np.float64(0.0), np.zeros(d))


def _exact(states: Sequence[State]) -> State:
    """All states as one, by the maximum of them all; those of no keys have no say."""
    some = [state for state in states if state.l > 0]
    if not some:
        return states[0]
    m = max(state.m for state in some)
    weights = [np.exp(state.m - m) for state in some]
    l = sum(w * state.l for w, state in zip(weights, some, strict=True))
    return State(m, l, sum(w * state.O for w, state in zip(weights, some, strict=True)))


def _check(merge: Any) -> Verdict:
    if not callable(merge):
        return no_function(merge)
    states = tile_states()
    low, high = sorted((states[0], states[-1]), key=lambda state: float(state.m))
    empty = empty_state(len(low.O))
    with np.errstate(all="ignore"):
        try:
            if merge(_copy(low), _copy(high)) is None:
                return None
        except Exception as error:
            return raised(merge, error)
        return (
            _about_pair(merge, low, high)
            or _about_empty(merge, low, empty)
            or _about_trees(merge, states, empty)
            or Right("m is the maximum of both, and each side is multiplied by exp(its own m - that).")
        )


def _call(merge: Merge, a: State, b: State) -> State | Wrong:
    """Merge two states, and see that a state comes back and that both are as they were."""
    given = _copy(a), _copy(b)
    try:
        found = merge(*given)
    except Exception as error:
        return raised(merge, error)
    if not all(map(_equal, (a, b), given)):
        return Wrong(
            "merge(a, b) changed the states that it was given.", "Make new arrays: b.O * x, and not b.O *= x."
        )
    try:
        m, l, O = found
        state = State(np.float64(m), np.float64(l), np.asarray(O, np.float64))
    except (TypeError, ValueError):
        state = None
    if state is None or state.O.shape != a.O.shape:
        return Wrong(
            "merge(a, b) gave no state.", "Give back a tuple (m, l, O), with O as long as that of a and b."
        )
    return state


def _equal(a: State, b: State) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


def _copy(state: State) -> State:
    return State(*(np.array(part)[()] for part in state))


def _near(a: Any, b: Any) -> bool:
    return bool(np.allclose(a, b, rtol=1e-9, atol=1e-12))


def _about_pair(merge: Merge, low: State, high: State) -> Wrong | None:
    """Two states with different maxima, either way round: the correction that is missing."""
    exact = _exact([low, high])
    for a, b in ((low, high), (high, low)):
        found = _call(merge, a, b)
        if isinstance(found, Wrong):
            return found
        if not _near(found.m, exact.m):
            return Wrong(
                f"m is {found.m:.4g} for two states with {a.m:.4g} and {b.m:.4g}.",
                "m is the maximum of two sets: how do you get it from the maxima of both?",
            )
        if _near(found.O, exact.O / exact.l):
            return Wrong(
                "O is divided by l already.", "Divide once, at the end: until then O and l grow side by side."
            )
        if _near(found.l, exact.l) and _near(found.O, exact.O):
            continue
        if _near(found.l, (a.l + b.l) / 2) or _near(found.l, exact.l / 2):
            return Wrong(
                "l is half a sum.",
                "These are sums over different keys: add them, and divide O by l at the very end.",
            )
        if _near(found.l, exact.l) or _near(found.O, exact.O):
            wrong, right = ("O", "l") if _near(found.l, exact.l) else ("l", "O")
            return Wrong(
                f"{right} is right, and {wrong} is not.",
                "l and O are relative to the same m: repair them alike.",
            )
        return Wrong(
            f"l is {found.l:.4g}, expected {exact.l:.4g}, for two states with m = {a.m:.4g} and {b.m:.4g}.",
            "The side with the larger maximum needs no correction, the other does; which is it?",
        )
    return None


def _about_empty(merge: Merge, some: State, empty: State) -> Wrong | None:
    """An empty state beside another, and two of them."""
    for a, b in ((some, empty), (empty, some), (empty, empty)):
        found = _call(merge, a, b)
        if isinstance(found, Wrong):
            return found
        exact = _exact([a, b])
        if not _equal(found, exact):
            which = "two empty states" if a is b else "a state and an empty one"
            what = "nan" if any(np.isnan(part).any() for part in found) else "another state than the first"
            return Wrong(
                f"{which} gave {what}.",
                "What is the state of a PE with no keys? -inf minus -inf is nan, so guard m = -inf.",
            )
    return None


def _about_trees(merge: Merge, states: Sequence[State], empty: State) -> Wrong | None:
    """Random trees over all tiles and some empty states."""
    exact = _exact(states)
    dice = random.Random(0)
    for _ in range(_TREES):
        left = [*states, *[empty] * _EMPTY]
        while len(left) > 1:
            a, b = (left.pop(dice.randrange(len(left))) for _ in range(2))
            found = _call(merge, a, b)
            if isinstance(found, Wrong):
                return found
            left.append(found)
        (root,) = left
        error = float(np.abs(root.O / root.l - exact.O / exact.l).max())
        if not (error < _TOLERANCE and _near(root.m, exact.m)):
            return Wrong(
                f"one pair is right, but a tree over {len(states)} tiles is off by {error:.2g}.",
                "A merged state is a state like any other: merge it again as you merged the first.",
            )
    return None


CHECKS: dict[str, Check] = {"02": _check}
