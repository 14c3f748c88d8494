"""Exercise 14: a softmax with its scale in it, run on real scores under two budgets of scratch."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from kernbench_nb.benches.footprint import up16
from kernbench_nb.benches.sample import sample_attention
from kernbench_nb.course.verdict import Check, Right, Verdict, Wrong, no_function, raised
from kernbench_nb.runtime_api.launch import launch
from kernbench_nb.runtime_api.result import RunResult
from kernbench_nb.runtime_api.text import bytes_text

__all__ = ["CHECKS", "raw_scores", "run_rows", "scratch_budget"]

Array = np.ndarray[Any, Any]
Kernel = Callable[..., None]
"""``fused(x, y, rows, n, scale, *, tl)``: y = softmax(scale * x), over rows of n f32."""

_TOLERANCE = 1e-6
_LARGE = 100
"""What the scores are multiplied by to see whether exp stays finite."""


def raw_scores() -> Array:
    """Scores of the last token before it is scaled, one row a query head: (9, 319) f32."""
    q, k, _ = (x.astype(np.float32) for x in sample_attention())
    group = q.shape[1] // k.shape[1]
    return np.stack([k[:, head // group] @ q[-1, head] for head in range(q.shape[1])])


def scratch_budget(blocks: int, n: int) -> int:
    """Scratch of a row of n f32 in so many blocks, with its maximum and its sum."""
    return blocks * up16(4 * n) + 2 * up16(4)


def run_rows(kernel: Kernel, x: Array) -> RunResult:
    """Run a kernel on rows of scores, with the scale of attention."""
    rows, n = x.shape
    return launch(kernel, x, np.zeros_like(x), rows, n, _SCALE)


_SCALE = 1 / math.sqrt(64)


def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def _check(kernel: Any, *, blocks: int) -> Verdict:
    if not callable(kernel):
        return no_function(kernel)
    x = raw_scores()
    try:
        run, one, large = (run_rows(kernel, rows) for rows in (x, x[:1], _LARGE * x[:1]))
    except Exception as error:
        return raised(kernel, error)
    if not len(run.op_log):
        return None
    traffic, scratch = 2 * x.nbytes, scratch_budget(blocks, x.shape[1])
    wrong = _about_output(run, x)
    if wrong is not None:
        return wrong
    if np.isnan(_rows_of(large, x[:1])).any():
        return Wrong(
            f"right here, but scores {_LARGE} times as large give nan.",
            "Subtract the maximum of the scaled row before exp.",
            large,
        )
    if run.hbm_bytes > traffic:
        got = f"traffic {bytes_text(run.hbm_bytes)}, and {bytes_text(traffic)} are allowed"
        if run.hbm_bytes == 3 * x.nbytes:
            return Wrong(
                f"{got}: you loaded the row twice.", "Load it once, and keep it until it is written.", run
            )
        return Wrong(f"{got}.", "A row comes in once and goes out once.", run)
    if run.peak_scratch > scratch:
        got = f"scratch {bytes_text(run.peak_scratch)}, and {bytes_text(scratch)} are allowed"
        if run.peak_scratch > one.peak_scratch:
            return Wrong(
                f"{got}: it grows with the rows.", "What gives a row's bytes back before the next?", run
            )
        return Wrong(
            f"{got}.",
            "Which result may be written over its operand, by out=? (s *= 2 makes a new tile.)",
            run,
        )
    return Right(
        f"{bytes_text(run.hbm_bytes)} of traffic, half of what two kernels move; "
        f"{bytes_text(run.peak_scratch)} of scratch."
    )


def _rows_of(run: RunResult, x: Array) -> Array:
    """The rows that a kernel wrote for the scores x."""
    written = [array for name, array in run.outputs.items() if array.shape == x.shape][1:]
    return np.asarray(written[-1] if written else np.zeros_like(x), np.float64)


def _about_output(run: RunResult, x: Array) -> Wrong | None:
    """What is wrong with the rows, if anything is."""
    y = _rows_of(run, x)
    exact = x.astype(np.float64)

    def close(other: Array) -> bool:
        return bool(np.allclose(y, other, rtol=0, atol=_TOLERANCE))

    if close(_softmax(_SCALE * exact)):
        return None
    if close(_softmax(exact)) or close(_SCALE * _softmax(exact)):
        return Wrong("the scale came after exp, or not at all.", "exp(a*s) is not a*exp(s).", run)
    if np.isnan(y).any():
        return Wrong("there are nan in the rows.", "Subtract the row's maximum before exp.", run)
    if not np.allclose(y.sum(-1), 1, rtol=0, atol=1e-3):
        return Wrong(
            f"row 0 sums to {y[0].sum():.4g}.", "Each row of a softmax sums to 1: is every row written?", run
        )
    worst = np.abs(y - _softmax(_SCALE * exact)).max()
    return Wrong(f"the worst weight is off by {worst:.2g}.", "Write y = softmax(scale * x).", run)


CHECKS: dict[str, Check] = {"14a": partial(_check, blocks=5), "14b": partial(_check, blocks=1)}
