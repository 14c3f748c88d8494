"""The shared step by itself, called from small kernels: folds in any order, merges, empty states, the end."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise, permutations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import kernbench_nb as kb
from kernbench_nb.benches import reference
from kernbench_nb.benches._step import causal_mask, clear_state, finish, fold_tile, init_state, merge_state

Array = NDArray[Any]
T, S, G, D = 4, 12, 2, 8
CUTS = [0, 3, 4, 9, 12]  # four blocks, none like another


def inputs(seed: int = 0) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    q, k, v = rng.standard_normal((G, T, D)) * 3, rng.standard_normal((S, D)), rng.standard_normal((S, D))
    return q.astype(np.float16), k.astype(np.float16), v.astype(np.float16)


def want(q: Array, k: Array, v: Array, causal: bool) -> tuple[Array, Array]:
    """O (G, T, D) and lse (G, T) in float64."""
    out, lse = reference.attention(q.transpose(1, 0, 2), k[:, None], v[:, None], causal=causal)
    return out.transpose(1, 0, 2), lse.T


def sweep(tl: Any, state: Any, q: Any, k: Any, v: Any, blocks: Any, causal: bool) -> None:
    """Fold blocks of keys, in the order given."""
    Q = tl.load(q, (1, G * T, D))
    for i, (start, stop) in enumerate(blocks):
        with tl.scratch_scope(f"block {i}", kind="tile"):
            K = tl.load(k + start * D, (1, stop - start, D))
            V = tl.load(v + start * D, (1, stop - start, D))
            mask = causal_mask(tl, T, stop - start, S - T - start) if causal else None
            fold_tile(tl, state, Q, K.permute(0, 2, 1), V, scale=D**-0.5, first=i == 0, mask=mask)
    if not blocks:
        clear_state(tl, state)


def fold_kernel(q: Any, k: Any, v: Any, o: Any, lse: Any, blocks: Any, causal: bool, *, tl: Any) -> None:
    state = init_state(tl, 1, G * T, D)
    sweep(tl, state, q, k, v, blocks, causal)
    out, log_sum = finish(tl, state, lse=True)
    tl.store(o, out)
    tl.store(lse, log_sum)


def merge_kernel(
    q: Any, k: Any, v: Any, m: Any, l: Any, o: Any, parts: Any, causal: bool, *, tl: Any
) -> None:
    """States of the parts, each merged into the one before, from the last to the first."""
    states = []
    for blocks in parts:
        states.append(init_state(tl, 1, G * T, D))
        sweep(tl, states[-1], q, k, v, blocks, causal)
    while len(states) > 1:
        other = states.pop()
        with tl.scratch_scope("merge", kind="merge"):
            merge_state(tl, states[-1], other)
    for pointer, handle in zip((m, l, o), states[0], strict=True):
        tl.store(pointer, handle)


def state_of(parts: Any, causal: bool = False, seed: int = 0) -> tuple[kb.RunResult, list[Array]]:
    rows = [
        np.empty((G * T, 1), np.float32),
        np.empty((G * T, 1), np.float32),
        np.empty((G * T, D), np.float32),
    ]
    run = kb.launch(merge_kernel, *inputs(seed), *rows, parts, causal)
    return run, rows


BLOCKS = list(pairwise(CUTS))


@pytest.mark.parametrize("causal", [False, True])
def test_folds_in_every_permutation_of_blocks(causal: bool) -> None:
    """Causal too: a block that comes first may lie above the diagonal for some rows, or for all of them."""
    q, k, v = inputs()
    out, lse = want(q, k, v, causal)
    seen = set()
    for blocks in permutations(BLOCKS):
        o, log_sum = np.empty((G, T, D), np.float32), np.empty((G, T), np.float32)
        run = kb.launch(fold_kernel, q, k, v, o, log_sum, blocks, causal)
        assert reference.worst_error(o, out) < 1e-3
        assert reference.worst_error(log_sum, lse) < 1e-5
        assert Counter(r.op_name for r in run.op_log)["copy"] == 3 * (len(BLOCKS) - 1)
        seen.add(o.tobytes())
    assert len(seen) > 1  # equal to rounding, not to the bit


def test_each_order_of_a_causal_sweep_with_blind_rows() -> None:
    """More queries than keys: rows that no block shows anything stay empty whatever comes first."""
    q, k, v = inputs()
    blocks = [(0, 1), (1, 2)]
    for order in permutations(blocks):
        o, log_sum = np.empty((G, T, D), np.float32), np.empty((G, T), np.float32)

        def kernel(q: Any, k: Any, v: Any, o: Any, lse: Any, *, tl: Any, order: Any = order) -> None:
            state = init_state(tl, 1, G * T, D)
            Q = tl.load(q, (1, G * T, D))
            for i, (start, stop) in enumerate(order):
                with tl.scratch_scope():
                    K, V = (tl.load(p + start * D, (1, stop - start, D)) for p in (k, v))
                    mask = causal_mask(tl, T, stop - start, 2 - T - start)
                    fold_tile(tl, state, Q, K.permute(0, 2, 1), V, scale=D**-0.5, first=i == 0, mask=mask)
            out, log_sum = finish(tl, state, lse=True)
            tl.store(o, out)
            tl.store(lse, log_sum)

        kb.launch(kernel, q, k, v, o, log_sum)
        out, lse = want(q, k[:2], v[:2], True)
        assert reference.worst_error(o, out) < 1e-3
        assert (log_sum[:, :2] == -np.inf).all()
        assert reference.worst_error(log_sum, lse) < 1e-5


def test_the_first_fold_writes_in_place_and_later_ones_copy() -> None:
    q, k, v = inputs()
    o, log_sum = np.empty((G, T, D), np.float32), np.empty((G, T), np.float32)
    run = kb.launch(fold_kernel, q, k, v, o, log_sum, BLOCKS[:2], False)
    state = {name: next(r for r in run.memory_log if r.name == name).addr for name in "mlO"}
    writes = [(r.op_name, r.out_addr) for r in run.op_log if r.out_addr in state.values()]
    assert writes == [
        ("max", state["m"]), ("sum", state["l"]), ("gemm", state["O"]),
        ("copy", state["m"]), ("copy", state["l"]), ("copy", state["O"]),
    ]  # fmt: skip


def test_the_operations_of_a_fold_by_name() -> None:
    q, k, v = inputs()
    o, log_sum = np.empty((G, T, D), np.float32), np.empty((G, T), np.float32)
    run = kb.launch(fold_kernel, q, k, v, o, log_sum, BLOCKS[:2], False)
    names = [e.name for e in run.memory_log if e.event == "alloc" and e.scope == "block 1"]
    assert names == [
        "K", "V", "qk", "s", "max", "m_new", "s-m", "exp", "m-m_new", "c", "l*c", "sum", "l_new", "O*c", "p", "p*V",
        "O_new",
    ]  # fmt: skip


# -- merges ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("causal", [False, True])
def test_a_merge_commutes_bit_for_bit(causal: bool) -> None:
    for seed in range(5):
        for cut in range(len(BLOCKS) + 1):
            _, there = state_of((BLOCKS[:cut], BLOCKS[cut:]), causal, seed)
            _, back = state_of((BLOCKS[cut:], BLOCKS[:cut]), causal, seed)
            assert [a.tobytes() for a in there] == [a.tobytes() for a in back]


def test_merges_in_any_grouping_give_attention() -> None:
    q, k, v = inputs()
    out, lse = want(q, k, v, False)
    for parts in (
        [BLOCKS],
        [[b] for b in BLOCKS],
        [BLOCKS[::-1][:1], BLOCKS[:3]],
        [[], BLOCKS[1:], [], BLOCKS[:1]],
    ):
        run, (m, l, o) = state_of(parts)
        assert reference.worst_error((o / l).reshape(out.shape), out) < 1e-3
        assert reference.worst_error((m + np.log(l)).reshape(lse.shape), lse) < 1e-5
        copies = 3 * (len(parts) - 1) + 3 * sum(max(len(p) - 1, 0) for p in parts)
        assert Counter(r.op_name for r in run.op_log)["copy"] == copies


def test_an_empty_state_changes_nothing_and_two_stay_empty() -> None:
    _, alone = state_of([BLOCKS])
    for parts in ([BLOCKS, []], [[], BLOCKS], [[], [], BLOCKS, []]):
        _, merged = state_of(parts)
        assert [a.tobytes() for a in merged] == [a.tobytes() for a in alone]
    _, (m, l, o) = state_of([[], [], []])
    assert (m == -np.inf).all()
    assert (l == 0).all()
    assert (o == 0).all()


def test_a_merge_agrees_with_the_reference_of_states() -> None:
    _, left = state_of([BLOCKS[:2]])
    _, right = state_of([BLOCKS[2:]])
    _, both = state_of([BLOCKS[:2], BLOCKS[2:]])
    for got, expected in zip(both, reference.merge_state(tuple(left), tuple(right)), strict=True):  # type: ignore[arg-type]
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-6)


def test_the_end_of_an_empty_state() -> None:
    q, k, v = inputs()
    o, log_sum = np.empty((G, T, D), np.float32), np.empty((G, T), np.float32)
    kb.launch(fold_kernel, q, k, v, o, log_sum, [], False)
    assert (o == 0).all()
    assert (log_sum == -math.inf).all()
