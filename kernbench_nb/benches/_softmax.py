"""Softmax that must be written out, in as many passes over HBM as its idea of the maximum needs.

The names of the passes are those of Milakov and Gimelshein, "Online normalizer calculation for softmax" (2018,
arXiv 1805.02867): algorithm 2, safe softmax, reads a row three times and writes it once, 4 accesses an element;
algorithm 3, online softmax, folds maximum and sum in one pass, 3 accesses. Attention goes one step further: its row of
weights is never written, so nothing has to be read twice.
"""

from __future__ import annotations

from typing import Any

from kernbench_nb.benches._placed import own_rows
from kernbench_nb.benches._step import LOWEST

__all__ = ["online_softmax_kernel", "safe_softmax_kernel"]

Span = tuple[int, int]
"""First and one past the last, of rows or of scores in a row."""


def safe_softmax_kernel(
    x: Any,
    y: Any,
    n: int,
    m: int,
    *,
    tl: Any,
    tile: int = 64,
    rows: int = 64,
    scoped: bool = True,
) -> None:
    """``y = softmax(x)`` along rows, in three passes: the maximum, the sum, the quotient.

    Parameters
    ----------
    x, y
        ``(n, m)`` in HBM, rows split over the PEs of the launch.
    n, m
        Rows, and scores in each.
    tl
        The language.
    tile
        Scores of a row handled at once; the traffic does not depend on it.
    rows
        Rows handled at once.
    scoped
        False gives no scratch back.

    Notes
    -----
    HBM traffic: 4 accesses an element, three reads and a write. A row of nothing but -inf gives zeros.
    """
    start, stop = own_rows(tl, n)
    for block in spans(stop - start, rows):
        tall = block[1] - block[0]
        shown = (start + block[0], start + block[1])
        with tl.scratch_scope(f"rows {shown[0]}", kind="block", rows=shown, rewind=scoped):
            top = tl.full((tall, 1), LOWEST, "f32", name="m")
            total = tl.zeros((tall, 1), "f32", name="l")

            for j, part in enumerate(spans(m, tile)):
                with tl.scratch_scope(f"max {j}", kind="tile", rows=shown, keys=part, rewind=scoped):
                    s = load_part(tl, x, m, block, part)
                    tile_max = tl.max(s, -1, True, initial=LOWEST, name="max")
                    tl.maximum(top, tile_max, out=top)

            for j, part in enumerate(spans(m, tile)):
                with tl.scratch_scope(f"sum {j}", kind="tile", rows=shown, keys=part, rewind=scoped):
                    s = load_part(tl, x, m, block, part)
                    centred = tl.sub(s, top, name="s-m")
                    e = tl.exp(centred, name="exp")
                    tile_sum = tl.sum(e, -1, True, name="sum")
                    tl.add(total, tile_sum, out=total)

            for j, part in enumerate(spans(m, tile)):
                with tl.scratch_scope(f"out {j}", kind="tile", rows=shown, keys=part, rewind=scoped):
                    s = load_part(tl, x, m, block, part)
                    store_part(tl, y, m, block, part, weights(tl, s, top, total))


def online_softmax_kernel(
    x: Any,
    y: Any,
    n: int,
    m: int,
    *,
    tl: Any,
    tile: int = 64,
    rows: int = 64,
    keep: bool = False,
    scoped: bool = True,
) -> None:
    """``y = softmax(x)`` along rows, in two passes: maximum and sum folded together, then the quotient.

    Parameters
    ----------
    x, y, n, m, tl, tile, rows, scoped
        As in `safe_softmax_kernel`.
    keep
        Hold the rows in scratch between the passes: they are read once, and scratch grows with their length.

    Notes
    -----
    HBM traffic: 3 accesses an element, two reads and a write; 2 with `keep`.
    """
    start, stop = own_rows(tl, n)
    for block in spans(stop - start, rows):
        tall = block[1] - block[0]
        shown = (start + block[0], start + block[1])
        with tl.scratch_scope(f"rows {shown[0]}", kind="block", rows=shown, rewind=scoped):
            top = tl.full((tall, 1), LOWEST, "f32", name="m")
            total = tl.zeros((tall, 1), "f32", name="l")
            kept: list[Any] = []
            if keep:
                kept = [tl.empty((tall, b - a), x.dtype, name="row") for a, b in spans(m, tile)]

            for j, part in enumerate(spans(m, tile)):
                with tl.scratch_scope(f"fold {j}", kind="tile", rows=shown, keys=part, rewind=scoped):
                    s = load_part(tl, x, m, block, part, out=kept[j] if keep else None)
                    tile_max = tl.max(s, -1, True, initial=LOWEST, name="max")
                    m_new = tl.maximum(top, tile_max, name="m_new")
                    centred = tl.sub(s, m_new, name="s-m")
                    e = tl.exp(centred, name="exp")
                    drop = tl.sub(top, m_new, name="m-m_new")
                    c = tl.exp(drop, name="c")
                    l_kept = tl.mul(total, c, name="l*c")
                    tile_sum = tl.sum(e, -1, True, name="sum")
                    l_new = tl.add(l_kept, tile_sum, name="l_new")
                    tl.copy_to(top, m_new)
                    tl.copy_to(total, l_new)

            for j, part in enumerate(spans(m, tile)):
                with tl.scratch_scope(f"out {j}", kind="tile", rows=shown, keys=part, rewind=scoped):
                    s = tl.cast(kept[j], "f32", name="s") if keep else load_part(tl, x, m, block, part)
                    store_part(tl, y, m, block, part, weights(tl, s, top, total))


def spans(total: int, length: int) -> list[Span]:
    """Cut a length into parts; the last may be shorter."""
    return [(at, min(at + length, total)) for at in range(0, total, length)]


def load_part(tl: Any, x: Any, m: int, block: Span, part: Span, out: Any = None) -> Any:
    """Some scores of some rows, in f32; `x` points to this PE's first row."""
    shape = (block[1] - block[0], part[1] - part[0])
    loaded = tl.load(x + block[0] * m + part[0], shape, strides=(m, 1), out=out, name="x")
    return tl.cast(loaded, "f32", name="s")


def store_part(tl: Any, y: Any, m: int, block: Span, part: Span, value: Any) -> None:
    """Write weights where `load_part` read scores."""
    tl.store(y + block[0] * m + part[0], value, strides=(m, 1))


def weights(tl: Any, s: Any, top: Any, total: Any) -> Any:
    """``exp(s - m) / l``; zeros for a row that has no finite score, whose l is 0."""
    centred = tl.sub(s, top, name="s-m")
    e = tl.exp(centred, name="exp")
    empty = tl.eq(total, 0.0, name="l = 0")
    l_safe = tl.where(empty, 1.0, total, name="l safe")
    return tl.div(e, l_safe, name="y")
