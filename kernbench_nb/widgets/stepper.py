"""`kb.step`: the player of one run, or of two side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import traitlets

from kernbench_nb.runtime_api.result import RunResult
from kernbench_nb.widgets.base import View
from kernbench_nb.widgets.fallback import draw_pair, draw_run
from kernbench_nb.widgets.opening import open_at
from kernbench_nb.widgets.places import find_tile_count
from kernbench_nb.widgets.reader import Trace
from kernbench_nb.widgets.trace import trace_of
from kernbench_nb.widgets.window import MOST_ROWS
from kernbench_nb.widgets.words import side_titles

__all__ = ["Stepper", "step"]


class Stepper(View):
    """Steps through a run, tile by tile or operation by operation; see `View` for its traits.

    Attributes
    ----------
    trace_b, names
        Of two runs: the second one's buffer, and their titles.
    other
        The second run, until `close`.
    """

    trace_b = traitlets.Bytes(b"").tag(sync=True)
    names = traitlets.List(traitlets.Unicode()).tag(sync=True)

    _entry = "stepper"

    def __init__(
        self,
        run: RunResult | None = None,
        data: Trace | None = None,
        *,
        other: RunResult | None = None,
        other_data: Trace | None = None,
        **traits: Any,
    ) -> None:
        self.other = other
        self._other_data = other_data
        if data is not None and other_data is not None:
            traits = {"heads": [data.head, other_data.head], "trace_b": other_data.buffer, **traits}
        super().__init__(run, data, **traits)

    def _steps_of(self, pe: int) -> int:
        if self._data is None or self._other_data is None:
            return super()._steps_of(pe)
        return 1 + max(_tiles_on(self._data, pe), _tiles_on(self._other_data, pe))

    def _step_at(self, pe: int, clock: int) -> int:
        # two runs are stepped by tile, and so many are done
        return min(self.step, self.steps - 1) if self._other_data is not None else super()._step_at(pe, clock)

    def _words(self) -> str:
        if self._data is None:
            return "closed"
        if self._other_data is not None:
            a, b = self.names
            return f"{a} beside {b}, after {self.step} of {self.steps - 1} tiles"
        head = self._data.head
        pe = next((p["label"] for p in head["pes"] if p["pe"] == self.pe), "no PE")
        return f"{head['title']} on {pe}, step {self.step + 1} of {self.steps}"

    def _title(self) -> str:
        if self._data is not None and self._other_data is not None:
            return " and ".join(dict.fromkeys([self._data.head["title"], self._other_data.head["title"]]))
        return super()._title()

    def _draw(self) -> str:
        if self._data is None:
            return ""
        if self._other_data is not None:
            return draw_pair(self._data, self._other_data, self.names, self.pe, self.step)
        return draw_run(self._data, self.pe, self.step)

    def close(self) -> None:
        """Take the view away and let go of the runs. Closing twice is closing once."""
        super().close()
        self.other = self._other_data = None
        self.trace_b = b""


def step(
    run: RunResult,
    other: RunResult | None = None,
    *,
    pe: int | None = None,
    tile: str | None = None,
    at: str | None = None,
    granularity: str | None = None,
    names: Sequence[str] | None = None,
    words: Sequence[str] | None = None,
) -> Stepper:
    """Step through a run, forward and back, and see the memory move.

    Parameters
    ----------
    run
        Any result, that of an error too (``error.run``).
    other
        A second one: both side by side, stepped together by tile.
    pe
        Global index of the PE to open at.
    tile
        Label of the tile to open at, ``"tile 2"``.
    at
        The operation to open after: its name, else its variable, else what it does to what (``"store S"``, ``"load
        K"``, ``"copy O"``).
    granularity
        ``"tile"`` or ``"op"``; by tile unless an operation was named.
    names
        Titles of the two runs; by default what differs between them.
    words
        The keys' words, for labels; the shipped sample's are known.

    Returns
    -------
    Stepper
        A widget: `observe` or `jslink` its ``step``, ``pe``, ``granularity`` and ``selection``.

    Raises
    ------
    ValueError
        If there is no such PE, tile or operation; the names that there are are listed.
    """
    if other is None:
        data, spot = open_at(run, pe, tile, at, words)
        return Stepper(
            run,
            data,
            pe=spot.pe,
            step=spot.step,
            granularity=granularity or ("op" if at is not None else "tile"),
        )
    if at is not None:
        raise ValueError(
            f"at={at!r}: two runs are stepped together by tile, so tile= says where to open; for an operation step "
            "through one of them: kb.step(run, at=...)."
        )
    data, other_data = trace_of(run, words=words), trace_of(other, words=words)
    for which in (data, other_data):
        if which.head["tables"]["ops"]["n"] > MOST_ROWS:
            raise ValueError(
                f"{which.head['title']} has more than {MOST_ROWS:,} steps, which is too many to show two runs side by "
                "side; compare shorter runs, or step through one of them: kb.step(run, tile=...)."
            )
    both = {p["pe"] for p in data.pes} & {p["pe"] for p in other_data.pes}
    if not both:
        raise ValueError("the two runs have no PE in common, so they cannot be stepped together.")
    if pe is not None and pe not in both:
        raise ValueError(
            f"PE {pe} took no part in both runs; these did: {', '.join(map(str, sorted(both)))}."
        )
    where, done = _open_pair(data, other_data, pe, tile, both)
    return Stepper(
        run,
        data,
        other=other,
        other_data=other_data,
        names=list(names) if names is not None else list(side_titles(run, other)),
        pe=where,
        step=done,
        granularity=granularity or "tile",
    )


def _open_pair(a: Trace, b: Trace, pe: int | None, tile: str | None, both: set[int]) -> tuple[int, int]:
    """PE and number of tiles done: at the overflow of either run, unless told otherwise."""
    if tile is not None:
        longest = max((a, b), key=lambda t: sum(p["tiles"] for p in t.pes))
        return find_tile_count(longest, pe, tile)
    for trace in (b, a):
        error = trace.head["error"]
        if error is not None and error["op"] >= 0 and trace.pes[error["pe"]]["pe"] in both:
            where = trace.pes[error["pe"]]["pe"]
            if pe is None or pe == where:
                return where, int(trace.tiles["place"][error["tile"]])
    where = pe if pe is not None else max(both)
    return where, (min(_tiles_on(a, where), _tiles_on(b, where)) + 1) // 2


def _tiles_on(trace: Trace, pe: int) -> int:
    index = trace.index_of(pe)
    return int(trace.pes[index]["tiles"]) if index is not None else 0
