"""States merged along trees: every leaf once, in the tree's order, to the exact state."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernbench_nb.course.merging import tile_states
from kernbench_nb.course.trees import Tree, merge, merge_along, random_tree

EMPTY = (np.float64(-np.inf), np.float64(0), np.zeros(2))


def leaves(tree: Tree) -> list[int]:
    return [leaf for side in tree for leaf in leaves(side)] if isinstance(tree, tuple) else [tree]


@pytest.mark.parametrize("seed", range(20))
def test_a_random_tree_has_every_leaf_once(seed: int) -> None:
    tree = random_tree(20, seed)
    assert sorted(leaves(tree)) == list(range(20))
    assert tree == random_tree(20, seed)
    assert tree != random_tree(20, seed + 1)


def test_a_tree_of_one_is_its_leaf() -> None:
    assert random_tree(1, 0) == 0
    with pytest.raises(ValueError, match="one leaf at least, got leaves=0"):
        random_tree(0, 0)


def test_a_tree_is_followed_from_its_leaves_on() -> None:
    def written(a: Any, b: Any) -> Any:
        return (f"({a[0]} {b[0]})", 0, 0)

    states = [(name, 0, 0) for name in "abcd"]
    assert merge_along(((3, 0), (2, 1)), states, written)[0] == "((d a) (c b))"


def test_two_states_by_hand() -> None:
    # scores 0 and ln 3: weights 1/4 and 3/4
    a = (np.log(1.0), np.float64(1), np.array([4.0, 0.0]))
    b = (np.log(3.0), np.float64(1), np.array([0.0, 4.0]))
    m, l, O = merge(a, b)
    assert (m, l) == (np.log(3.0), pytest.approx(4 / 3))
    np.testing.assert_allclose(O / l, [1, 3])


def test_no_keys_change_nothing() -> None:
    some = (np.float64(2), np.float64(3), np.array([5.0, 7.0]))
    for found in (merge(some, EMPTY), merge(EMPTY, some)):
        assert found[:2] == some[:2]
        assert found[2].tolist() == some[2].tolist()
    none = merge(EMPTY, EMPTY)
    assert none[:2] == (-np.inf, 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_all_trees_lead_to_the_same_state(dtype: Any) -> None:
    states = [tuple(dtype(part) for part in state) for state in tile_states()]
    expected = merge_along(tuple_of(states), states)
    for seed in range(30):
        m, l, O = merge_along(random_tree(len(states), seed), states)
        assert (m.dtype, l.dtype, O.dtype) == (dtype, dtype, dtype)
        assert m == expected[0]
        np.testing.assert_allclose(O / l, expected[2] / expected[1], rtol=1e-4, atol=1e-5)


def tuple_of(states: list[Any]) -> Tree:
    tree: Tree = 0
    for leaf in range(1, len(states)):
        tree = (tree, leaf)
    return tree
