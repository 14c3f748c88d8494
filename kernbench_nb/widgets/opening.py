"""From a run to what a view is given: the trace, cut if it is long, and where to stand in it."""

from __future__ import annotations

from collections.abc import Sequence

from kernbench_nb.runtime_api.result import RunResult
from kernbench_nb.widgets.places import Spot, find_spot
from kernbench_nb.widgets.reader import Trace
from kernbench_nb.widgets.trace import trace_of
from kernbench_nb.widgets.window import thinned

__all__ = ["open_at"]


def open_at(
    run: RunResult,
    pe: int | None = None,
    tile: str | None = None,
    at: str | None = None,
    words: Sequence[str] | None = None,
) -> tuple[Trace, Spot]:
    """The trace of a run, and the place that is meant; see `kernbench_nb.widgets.places.find_spot`.

    Raises
    ------
    ValueError
        If there is no such place; the names that there are are listed.
    """
    trace = trace_of(run, words=words)
    return thinned(trace, find_spot(trace, pe, tile, at))
