"""Timing two ways to do the same work against each other, and what comes out of it.

Both run in this process, in turn, one after the other (A B, B A, A B, ...), so that a slow minute of the machine
meets both. The ratio is taken pair by pair and its median is the figure; the best of each side stands beside it.

Seconds are CPU seconds of this process unless a case says otherwise: both sides compute on one thread and wait for
nothing, and what else runs on the machine stays out of the figure.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from time import process_time
from typing import Any

__all__ = ["Pairs", "Result", "Settings", "against", "engine_clock", "quiet", "show"]

Work = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Settings:
    """How thorough to be.

    Attributes
    ----------
    quick
        Smaller workloads and fewer repetitions.
    gc
        Whether the garbage collector runs while timing, as it does for a user. What is alive before stays out of it.
    tiny
        Once each and as small as possible: for tests, which look at the results only.
    """

    quick: bool = False
    gc: bool = True
    tiny: bool = False

    def pick(self, full: int, quick: int, tiny: int) -> int:
        """A size or a count."""
        return tiny if self.tiny else quick if self.quick else full


@dataclass(frozen=True, slots=True)
class Pairs:
    """Seconds of two sides, repetition by repetition."""

    ours: list[float]
    theirs: list[float]

    @property
    def ratio(self) -> float:
        """Ours over theirs, median of the pairs."""
        return median(a / b for a, b in zip(self.ours, self.theirs, strict=True))

    @property
    def best_ratio(self) -> float:
        """Our best over their best."""
        return min(self.ours) / min(self.theirs)


@dataclass(frozen=True, slots=True)
class Result:
    """One figure.

    Attributes
    ----------
    name, what
        Which case, and what is compared, in words.
    value, unit
        The figure.
    best
        The same from the best of each side, where that makes sense.
    at_most, at_least
        The target, one of them; None if nothing is asked.
    later
        Whether the target is one to grow towards, not yet asked for.
    more
        Other numbers worth keeping, by name with unit.
    """

    name: str
    what: str
    value: float
    unit: str = "x"
    best: float | None = None
    at_most: float | None = None
    at_least: float | None = None
    later: bool = False
    more: dict[str, float] = field(default_factory=dict)

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None without one."""
        if self.at_most is not None:
            return self.value <= self.at_most
        return None if self.at_least is None else self.value >= self.at_least

    def to_dict(self) -> dict[str, Any]:
        """For JSON, four significant digits."""

        def short(x: float | None) -> float | None:
            return None if x is None else float(f"{x:.4g}")

        return {
            "name": self.name, "what": self.what, "value": short(self.value), "unit": self.unit,
            "best": short(self.best), "at_most": self.at_most, "at_least": self.at_least, "later": self.later,
            "met": self.met,
            "more": {key: short(value) for key, value in self.more.items()},
        }  # fmt: skip


def show(result: Result) -> str:
    """One figure in two lines."""
    target = ""
    if result.met is not None:
        sign, bound = ("<=", result.at_most) if result.at_most is not None else (">=", result.at_least)
        missed = "not yet" if result.later else "MISSED"
        target = f"  ({'later ' if result.later else ''}{sign} {bound:g}: {'met' if result.met else missed})"
    best = "" if result.best is None else f"  best {result.best:.3g}"
    more = ", ".join(f"{name} {value:.4g}" for name, value in result.more.items())
    line = f"{result.name:<18} {result.value:>8.3g} {result.unit:<9}{best}{target}"
    return f"{line}\n{'':<18} {result.what}{f': {more}' if more else ''}"


@contextmanager
def quiet(settings: Settings) -> Iterator[None]:
    """What is alive now is not collected again and again while timing; the collector itself runs or rests."""
    gc.collect()
    gc.freeze()
    on = gc.isenabled()
    (gc.enable if settings.gc else gc.disable)()
    try:
        yield
    finally:
        (gc.enable if on else gc.disable)()
        gc.unfreeze()


def against(
    ours: Work,
    theirs: Work,
    repetitions: int,
    settings: Settings,
    *,
    clock: Callable[[], float] = process_time,
) -> Pairs:
    """Time two sides in turn, after each has run once untimed.

    Parameters
    ----------
    ours, theirs
        What to time; what they return is dropped outside the timed part. One that returns a float (see
        `engine_clock`) is believed to have taken that many seconds.
    repetitions
        How many pairs.
    settings
        The garbage collector.
    clock
        Where seconds come from.
    """

    def once(work: Work) -> float:
        gc.collect()
        start = clock()
        result = work()
        seconds = clock() - start
        return result if isinstance(result, float) else seconds

    first: list[float] = []
    second: list[float] = []
    ours()
    theirs()
    with quiet(settings):
        for repetition in range(repetitions):
            sides = [(ours, first), (theirs, second)]
            for work, into in sides if repetition % 2 == 0 else reversed(sides):
                into.append(once(work))
    return Pairs(first, second)


class Clock:
    """Seconds that were spent in some function."""

    def __init__(self) -> None:
        self.seconds = 0.0


@contextmanager
def engine_clock() -> Iterator[Clock]:
    """Add up the time spent in `GraphEngine.run`: kernels and engine, without tensors, checks of arguments, results."""
    from kernbench_nb.sim_engine import GraphEngine

    clock = Clock()
    run = GraphEngine.run

    def timed(self: Any, *args: Any, **more: Any) -> None:
        start = process_time()
        try:
            run(self, *args, **more)
        finally:
            clock.seconds += process_time() - start

    GraphEngine.run = timed  # type: ignore[method-assign]
    try:
        yield clock
    finally:
        GraphEngine.run = run  # type: ignore[method-assign]
