"""Notebook 02: states merged in any order, in plain numpy.

A tree is a nested tuple as `kb.plots.merge_tree` draws it: a leaf is the number of a state, a pair is a merge.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

__all__ = ["Tree", "merge", "merge_along", "random_tree"]

Tree: TypeAlias = "int | tuple[Tree, Tree]"
State: TypeAlias = tuple[Any, Any, Any]


def merge(a: State, b: State) -> State:
    """Two states (m, l, O) as one; that of no keys, (-inf, 0, 0), changes nothing.

    Numbers keep their precision: float32 states give a float32 state. Milakov and Gimelshein 2018, section 3.1.
    """
    m = np.maximum(a[0], b[0])
    if m == -np.inf:
        return m, a[1] + b[1], a[2] + b[2]
    x, y = np.exp(a[0] - m), np.exp(b[0] - m)
    return m, a[1] * x + b[1] * y, a[2] * x + b[2] * y


def merge_along(tree: Tree, states: Sequence[State], merge: Callable[[State, State], State] = merge) -> State:
    """The state of all leaves of a tree, merged in its order.

    Parameters
    ----------
    tree
        Its leaves are indices into `states`.
    states
        ``(m, l, O)`` each: two numbers, and a vector ``(d,)``.
    merge
        What makes one state of two.
    """
    if not isinstance(tree, tuple):
        return states[tree]
    left, right = tree
    return merge(merge_along(left, states, merge), merge_along(right, states, merge))


def random_tree(leaves: int, seed: int) -> Tree:
    """A tree over ``0 ... leaves - 1``: two of what is left are merged, until one is left; the same for the same seed.

    Raises
    ------
    ValueError
        If there is no leaf.
    """
    if leaves < 1:
        raise ValueError(f"a tree has one leaf at least, got leaves={leaves}")
    dice = random.Random(seed)
    left: list[Tree] = list(range(leaves))
    while len(left) > 1:
        a, b = (left.pop(dice.randrange(len(left))) for _ in range(2))
        left.append((a, b))
    return left[0]
