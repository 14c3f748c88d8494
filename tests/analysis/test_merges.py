"""Merges of a run: who with whom, in which order, how deep."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

import kernbench_nb as kb
from kernbench_nb.analysis._merges import merges_of
from kernbench_nb.topology import costs


def decode(pes: int, merge: str, cubes: int = 1) -> kb.RunResult:
    return kb.bench(
        "gqa_decode", S_kv=16 * pes, h_q=9, h_kv=3, d=64, tile=16, pes=pes, cubes=cubes, merge=merge, data=False
    )  # fmt: skip


@pytest.mark.parametrize("p", [1, 2, 3, 5, 8])
def test_both_ways_merge_as_often_and_one_is_deeper(p: int) -> None:
    chain, tree = merges_of(decode(p, "chain")), merges_of(decode(p, "tree"))
    assert len(chain) == len(tree) == p - 1
    assert max((m.depth for m in chain), default=0) == p - 1
    assert max((m.depth for m in tree), default=0) == costs.tree_rounds(p)


def test_a_chain_of_four() -> None:
    run = decode(4, "chain")
    found = merges_of(run)
    assert [(m.pe, m.peer, m.depth, m.label) for m in found] == [
        (2, 3, 1, "merge PE 3"), (1, 2, 2, "merge PE 2"), (0, 1, 3, "merge PE 1"),
    ]  # fmt: skip
    for before, after in pairwise(found):
        assert before.end_ps < after.sent_ps < after.arrived_ps < after.end_ps
        assert after.end_ps - before.end_ps == 267_000, "a step, as the course quotes it"
    frame = run.frame
    sends = frame[(frame.op_name == "ipc_send") & (frame.pe == 3)]
    receives = frame[(frame.op_name == "ipc_recv") & (frame.pe == 2)]
    assert (found[0].sent_ps, found[0].arrived_ps) == (sends.start_ps.min(), receives.end_ps.max())


def test_cubes_merge_after_their_pes() -> None:
    found = merges_of(decode(32, "chain", cubes=4))
    assert len(found) == 31
    assert [(m.pe, m.peer, m.depth) for m in found[-3:]] == [(16, 24, 8), (8, 16, 9), (0, 8, 10)]


def test_each_message_belongs_to_one_merge(runs: Any) -> None:
    run = runs("eight")
    found = merges_of(run)
    assert len({(m.pe, m.peer) for m in found}) == len(found) == 7
    assert len(run.frame[run.frame.op_name == "ipc_recv"]) == 3 * len(found)


def test_a_merge_within_one_pe_is_none_of_these() -> None:
    def kernel(tl: Any) -> None:
        with tl.scratch_scope("two halves", kind="merge"):
            tl.exp(tl.zeros((4,)))

    assert merges_of(kb.launch(kernel, data=False)) == ()
