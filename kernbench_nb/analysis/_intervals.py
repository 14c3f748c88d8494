"""Unions of stretches of time, in whole ps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from kernbench_nb.sim_engine.rows import Bools, Ints

__all__ = ["cells", "length"]

Span = tuple[Ints, Ints]


def cells(stretches: Sequence[Span], stop: int) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Cut ``[0, stop)`` where anything begins or ends, and say what covers each piece.

    Whatever is asked of unions, intersections and rests is then a sum over pieces, so nothing is counted twice.

    Parameters
    ----------
    stretches
        For each set, the starts and the ends of its stretches, in any order, which may overlap each other and lie
        partly outside; one that ends where it starts covers nothing.
    stop
        Where the time that counts ends.

    Returns
    -------
    widths, inside
        Length of each piece, int64 ``(n,)``, and whether each set covers it, bool ``(sets, n)``.

    >>> widths, inside = cells([(np.array([0, 5]), np.array([10, 12])), (np.array([8]), np.array([40]))], 20)
    >>> [int(widths[row].sum()) for row in inside], int(widths[inside.all(axis=0)].sum()), int(widths.sum())
    ([12, 12], 4, 20)
    """
    clipped = [(np.clip(start, 0, stop), np.clip(end, 0, stop)) for start, end in stretches]
    edges = np.unique(np.concatenate([np.array([0, stop], np.int64), *(x for span in clipped for x in span)]))
    inside = np.zeros((len(stretches), len(edges) - 1), np.bool_)
    for row, (start, end) in zip(inside, clipped, strict=True):
        steps = np.zeros(len(edges), np.int64)
        np.add.at(steps, np.searchsorted(edges, start), 1)
        np.add.at(steps, np.searchsorted(edges, end), -1)
        row[:] = np.cumsum(steps)[:-1] > 0
    return np.diff(edges), inside


def length(widths: Ints, inside: Bools) -> int:
    """Total length of the pieces chosen."""
    return int(widths[inside].sum())
