"""`merge_tree`: the merges of a run over time, and those of a nested tuple by depth."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection

import kernbench_nb as kb
from kernbench_nb.analysis._merges import merges_of
from kernbench_nb.plots._merge_tree import _nodes

trees = st.recursive(st.integers(0, 99), lambda t: st.tuples(t, t), max_leaves=12).filter(
    lambda t: isinstance(t, tuple)
)


def bars(ax: Axes) -> set[tuple[int, int, int]]:
    """(start, end, lane) of the merges."""
    (found,) = (c for c in ax.collections if isinstance(c, PolyCollection) and c.get_gid() == "math")
    boxes = [path.vertices for path in found.get_paths()]
    return {(round(b[:, 0].min()), round(b[:, 0].max()), round(b[:, 1].mean())) for b in boxes}


def labels(ax: Axes) -> list[str]:
    return [t.get_text() for t in ax.get_yticklabels()]


@pytest.mark.parametrize("name", ["eight", "many", "tree"])
def test_bars_are_the_merges_of_the_run(runs: Any, name: str) -> None:
    run = runs(name)
    ax = kb.plots.merge_tree(run)
    found = merges_of(run)
    assert bars(ax) == {(m.arrived_ps, m.end_ps, m.pe) for m in found}
    (messages,) = (c for c in ax.collections if c.get_gid() == "messages")
    drawn = {(*s[0].tolist(), s[1][0]) for s in messages.get_segments()}
    assert drawn == {(m.sent_ps, m.peer, m.arrived_ps) for m in found}
    assert ax.get_ylim()[0] > ax.get_ylim()[1], "PE 0 on top"
    assert ax.get_xlim()[0] < min(m.sent_ps for m in found)
    assert ax.get_xlim()[1] >= run.makespan_ps


def test_a_chain_and_a_tree_say_how_deep_they_are(runs: Any) -> None:
    chain, tree = kb.plots.merge_tree(runs("eight")), kb.plots.merge_tree(runs("tree"))
    depths = [[t.get_text() for t in ax.texts if t.get_gid() == "depth"] for ax in (chain, tree)]
    assert depths == [list("1234567"), list("1111223")]
    assert repr(chain).startswith("<merge_tree of gqa_decode_long_kernel: 7 merges, 7 deep on 8 PEs, from ")
    assert repr(tree).startswith("<merge_tree of gqa_decode_long_kernel: 7 merges, 3 deep on 8 PEs, from ")
    assert labels(chain) == [f"PE {i}" for i in range(8)]


def test_one_collection_however_many_merges(runs: Any) -> None:
    ax = kb.plots.merge_tree(runs("many"))
    assert len(bars(ax)) == 63
    assert len(ax.collections) + len(ax.patches) <= 8


def test_a_run_on_one_pe_has_none(runs: Any) -> None:
    ax = kb.plots.merge_tree(runs("one"))
    assert any(t.get_text().endswith("merged no states of several PEs.") for t in ax.texts)


# -- nested tuples -----------------------------------------------------------------------------------------------------


def leaves_of(tree: Any) -> list[Any]:
    return [tree] if not isinstance(tree, tuple) else leaves_of(tree[0]) + leaves_of(tree[1])


def depth_of(tree: Any) -> int:
    return 0 if not isinstance(tree, tuple) else 1 + max(map(depth_of, tree))


@given(trees)
def test_the_layout_of_any_tree(tree: Any) -> None:
    leaves, nodes = _nodes(tree)
    assert leaves == leaves_of(tree)
    assert len(nodes) == len(leaves) - 1
    assert nodes[-1].depth == depth_of(tree)
    for node in nodes:
        left, right = node.parts
        assert node.depth == 1 + max(left.depth, right.depth)
        assert left.place < node.place < right.place
    assert len({(node.depth, node.place) for node in nodes}) == len(nodes)


@given(trees)
@settings(max_examples=10)
def test_the_picture_of_any_tree(tree: Any) -> None:
    ax = kb.plots.merge_tree(tree)
    (merges,) = (line for line in ax.lines if line.get_gid() == "merges")
    assert len(merges.get_xdata()) == len(leaves_of(tree)) - 1
    assert max(merges.get_xdata()) == depth_of(tree)
    assert labels(ax) == [f"tile {leaf}" for leaf in leaves_of(tree)]


def test_a_balanced_tree_by_hand() -> None:
    ax = kb.plots.merge_tree((("four", "score"), ("and", "seven")))
    (merges,) = (line for line in ax.lines if line.get_gid() == "merges")
    assert np.array(merges.get_data()).T.tolist() == [[1, 0.5], [1, 2.5], [2, 1.5]]
    assert labels(ax) == ["four", "score", "and", "seven"]
    assert repr(ax) == "<merge_tree of 4 partial states: 3 merges, 2 deep>"


def test_a_chain_of_two_thousand_is_no_recursion() -> None:
    chain: Any = reduce(lambda state, tile: (state, tile), range(1, 2000), 0)
    ax = kb.plots.merge_tree(chain)
    assert repr(ax) == "<merge_tree of 2 000 partial states: 1 999 merges, 1999 deep>"
    assert len(ax.collections) <= 3


@pytest.mark.parametrize(
    ("tree", "text"),
    [
        ((0, 1, 2), r"a merge takes two states, got 3 in \(0, 1, 2\)"),
        (((0,), 1), r"a merge takes two states, got 1 in \(0,\)"),
        ((), r"a merge takes two states, got 0 in \(\)"),
    ],
)
def test_a_merge_takes_two(tree: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        kb.plots.merge_tree(tree)
