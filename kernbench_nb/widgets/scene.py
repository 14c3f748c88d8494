"""What `kb.step` shows, before there is a widget: traces and where to stand in them. A page on disk needs no more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kernbench_nb.errors import grouped
from kernbench_nb.runtime_api.asked import check_run
from kernbench_nb.runtime_api.result import RunResult
from kernbench_nb.widgets.fallback import draw_pair, draw_run
from kernbench_nb.widgets.opening import open_at
from kernbench_nb.widgets.places import find_tile_count
from kernbench_nb.widgets.reader import Trace
from kernbench_nb.widgets.trace import trace_of
from kernbench_nb.widgets.window import MOST_ROWS
from kernbench_nb.widgets.words import side_titles

__all__ = ["OnPage", "Scene", "scene", "steps_of", "tiles_on"]


@dataclass(frozen=True, slots=True)
class OnPage:
    """A view as a page holds it.

    Attributes
    ----------
    entry
        The module that draws it.
    state, buffers
        What the module asks for: plain values, and bytes.
    picture
        A still picture, SVG, where no module runs.
    label
        What it is, in one line.
    """

    entry: str
    state: dict[str, Any]
    buffers: dict[str, bytes]
    picture: str
    label: str


@dataclass(frozen=True, eq=False)
class Scene:
    """A run, or two side by side, at one step.

    Attributes
    ----------
    data, other
        The traces; `other` is None for one run.
    names
        Titles of two runs; empty for one.
    pe, step, granularity
        Where it opens, as the traits of a view have it.
    """

    data: Trace
    other: Trace | None
    names: tuple[str, ...]
    pe: int
    step: int
    granularity: str

    @property
    def steps(self) -> int:
        """How many steps there are on the PE; of two runs, one more than tiles."""
        return steps_of(self.data, self.other, self.pe)

    @property
    def title(self) -> str:
        """What ran."""
        titles = [self.data.head["title"], *([self.other.head["title"]] if self.other is not None else [])]
        return " and ".join(dict.fromkeys(titles))

    @property
    def label(self) -> str:
        """What is shown, in one line."""
        if self.other is not None:
            a, b = self.names
            return f"{a} beside {b}, after {self.step} of {self.steps - 1} tiles"
        pe = next((p["label"] for p in self.data.pes if p["pe"] == self.pe), "no PE")
        return f"{self.title} on {pe}, step {self.step + 1} of {self.steps}"

    def svg(self) -> str:
        """A still picture."""
        if self.other is not None:
            return draw_pair(self.data, self.other, self.names, self.pe, self.step)
        return draw_run(self.data, self.pe, self.step)

    def on_page(self) -> OnPage:
        """As `kernbench_nb.widgets.html.write_page` takes it."""
        other = self.other
        state = {
            "granularity": self.granularity,
            "heads": [self.data.head, *([other.head] if other is not None else [])],
            "names": list(self.names),
            "pe": self.pe,
            "selection": [],
            "step": self.step,
        }
        buffers = {"trace": self.data.buffer, "trace_b": other.buffer if other is not None else b""}
        return OnPage("stepper", state, buffers, self.svg(), self.label)


def scene(
    run: RunResult,
    other: RunResult | None = None,
    *,
    pe: int | None = None,
    tile: str | None = None,
    at: str | None = None,
    granularity: str | None = None,
    names: Sequence[str] | None = None,
    words: Sequence[str] | None = None,
) -> Scene:
    """Where `kb.step` opens; see `kernbench_nb.widgets.stepper.step` for the parameters.

    Raises
    ------
    TypeError
        If `run` or `other` is none, or a name no text.
    ValueError
        If there is no such PE, tile or operation; the names that there are are listed. If one of two runs did nothing.
    """
    check_run(run, "kb.step")
    if other is None:
        data, spot = open_at(run, pe, tile, at, words)
        by = granularity or ("op" if at is not None else "tile")
        return Scene(data, None, (), spot.pe, spot.step, by)
    if at is not None:
        raise ValueError(
            f"at={at!r}: two runs are stepped together by tile, so tile= says where to open; for an operation step "
            "through one of them: kb.step(run, at=...)."
        )
    check_run(other, "kb.step")
    data, other_data = trace_of(run, words=words), trace_of(other, words=words)
    for which in (data, other_data):
        if which.head["tables"]["ops"]["n"] > MOST_ROWS:
            raise ValueError(
                f"{which.head['title']} has more than {grouped(MOST_ROWS)} steps, which is too many to show two "
                "runs side by side; compare shorter runs, or step through one of them: kb.step(run, tile=...)."
            )
    both = {p["pe"] for p in data.pes} & {p["pe"] for p in other_data.pes}
    if not both:
        raise ValueError("the two runs have no PE in common, so they cannot be stepped together.")
    if pe is not None and pe not in both:
        raise ValueError(
            f"PE {pe} took no part in both runs; these did: {', '.join(map(str, sorted(both)))}."
        )
    for which, result in ((data, run), (other_data, other)):
        if not which.head["tables"]["ops"]["n"]:
            why = (
                "did nothing"
                if result.completion.ok
                else f"stopped before it did anything ({result.completion})"
            )
            raise ValueError(
                f"{which.head['title']} {why}, so there is nothing to step beside the other run; look at that one "
                "alone: kb.step(run)."
            )
    where, done = _open_pair(data, other_data, pe, tile, both)
    titles = tuple(names) if names is not None else side_titles(run, other)
    if not all(isinstance(title, str) for title in titles):
        raise TypeError(f"names= are the titles of the two runs, two texts; got {names!r}")
    if len(titles) != 2:
        raise ValueError(
            f"names= are the titles of the two runs, got {len(titles)}: {', '.join(map(repr, titles))}"
        )
    return Scene(data, other_data, titles, where, done, granularity or "tile")


def steps_of(data: Trace, other: Trace | None, pe: int) -> int:
    """How many steps a view of one run, or of two, has on a PE; at least 1."""
    if other is not None:
        return 1 + max(tiles_on(data, pe), tiles_on(other, pe))
    index = data.index_of(pe)
    return 1 if index is None else max(1, int(data.pes[index]["op1"] - data.pes[index]["op0"]))


def tiles_on(trace: Trace, pe: int) -> int:
    """How many tiles a PE has."""
    index = trace.index_of(pe)
    return int(trace.pes[index]["tiles"]) if index is not None else 0


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
    return where, (min(tiles_on(a, where), tiles_on(b, where)) + 1) // 2
