"""Exercise 04b: a fold that takes less scratch, run in a sweep of the shipped data on one PE."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from kernbench_nb.benches._step import State, clear_state, finish
from kernbench_nb.benches.footprint import up16
from kernbench_nb.benches.sample import sample_attention
from kernbench_nb.course.scratch import BUDGET, SAMPLE
from kernbench_nb.course.verdict import Check, Right, Verdict, Wrong, no_function, raised
from kernbench_nb.runtime_api.launch import launch
from kernbench_nb.runtime_api.result import RunResult
from kernbench_nb.runtime_api.text import bytes_text

__all__ = ["CHECKS", "TILE", "lean_peak", "plain_fold", "sweep"]

Fold = Callable[..., None]
"""``fold(tl, m, l, O, q, k, v, scale)``, inside the tile's scope."""


def lean_peak(t: int) -> int:
    """Peak of the plain fold less what ``out=`` saves: three f32 blocks of R x t, and one of O's shape."""
    return SAMPLE.peak(t) - 3 * up16(4 * SAMPLE.rows * t) - SAMPLE.out_bytes


TILE = max(t for t in range(1, 256) if lean_peak(t) <= BUDGET)
"""Keys that a tile must have: as many as fit the budget with the operations in place."""


def plain_fold(tl: Any, m: Any, l: Any, O: Any, q: Any, k: Any, v: Any, scale: float) -> None:
    """The fold as the notebook shows it: each result in new scratch."""
    s = tl.mul(tl.dot(q, k), scale)
    m_new = tl.maximum(m, tl.max(s, -1, True))
    e = tl.exp(tl.sub(s, m_new))
    c = tl.exp(tl.sub(m, m_new))
    l_new = tl.add(tl.mul(l, c), tl.sum(e, -1, True))
    O_new = tl.add(tl.mul(O, c), tl.dot(tl.cast(e, q.dtype), v))
    tl.copy_to(m, m_new)
    tl.copy_to(l, l_new)
    tl.copy_to(O, O_new)


def _sweep_kernel(
    q: Any,
    k: Any,
    v: Any,
    o: Any,
    fold: Fold,
    keys: int,
    h_kv: int,
    group: int,
    d: int,
    tile: int,
    *,
    tl: Any,
) -> None:
    """Fold all tiles into one state, which starts as that of no keys, so that no tile is special."""
    Q = tl.load(q, (h_kv, group, d), name="Q")
    m, l = (tl.empty((h_kv, group, 1), "f32", name=name) for name in ("m", "l"))
    O = tl.empty((h_kv, group, d), "f32", name="O")
    clear_state(tl, State(m, l, O))
    for i, at in enumerate(range(0, keys, tile)):
        n = min(tile, keys - at)
        with tl.scratch_scope(f"tile {i}", kind="tile", keys=(at, at + n)):
            K = tl.load(k + at * h_kv * d, (n, h_kv, d), name="K")
            V = tl.load(v + at * h_kv * d, (n, h_kv, d), name="V")
            fold(tl, m, l, O, Q, K.permute(1, 2, 0), V.permute(1, 0, 2), 1 / math.sqrt(d))
    with tl.scratch_scope("finish", kind="finish"):
        tl.store(o, finish(tl, State(m, l, O), lse=False)[0])


def sweep(fold: Fold, tile: int) -> RunResult:
    """Run a fold over the shipped data: one query, 319 keys, one PE.

    Parameters
    ----------
    fold
        As in `Fold`.
    tile
        Keys of a tile.
    """
    q, k, v = sample_attention()
    keys, h_kv, d = k.shape
    query = np.ascontiguousarray(q[-1])
    out = np.zeros(query.shape, np.float32)
    return launch(_sweep_kernel, query, k, v, out, fold, keys, h_kv, len(query) // h_kv, d, tile)


def _check(fold: Any) -> Verdict:
    if not callable(fold):
        return no_function(fold)
    try:
        run = sweep(fold, TILE)
    except Exception as error:
        return raised(fold, error)
    if len(run.op_log) == len(sweep(lambda *_: None, TILE).op_log):
        return None
    plain = sweep(plain_fold, TILE)
    if not np.array_equal(run.output, plain.output):
        if np.allclose(run.output, plain.output, rtol=0, atol=1e-3):
            return Wrong(
                "the answer is right to rounding only.",
                "Keep the plain operations; only say where they write.",
                run,
            )
        return Wrong(
            "another answer than the plain fold's.",
            "Is every block read for the last time before something is written over it, and are m, l and O kept? "
            "`l *= c` makes a new block; only tl.copy_to and out= write the old one.",
            run,
        )
    if run.peak_scratch > BUDGET:
        got = f"{TILE} keys need {bytes_text(run.peak_scratch)}, and {bytes_text(BUDGET)} are there."
        if run.peak_scratch - BUDGET < SAMPLE.out_bytes:
            return Wrong(
                got,
                "One block of O's shape can go too: which sum may take its operand's place?",
                run,
            )
        return Wrong(
            got, "Which blocks of the scores' shape may be written over the one before, by out=?", run
        )
    lean, as_before = sweep(fold, 16).peak_scratch, sweep(plain_fold, 16).peak_scratch
    return Right(
        f"The same bits, and a tile of 16 takes {bytes_text(lean)} instead of {bytes_text(as_before)}."
    )


CHECKS: dict[str, Check] = {"04b": _check}
