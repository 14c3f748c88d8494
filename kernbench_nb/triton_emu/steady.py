"""Steps that repeat: a tile's fold on the same addresses leaves the same rows as the tile before, so they are copied.

A sweep calls its shared step (`benches._step.fold_tile`) once a tile, on tiles of the same types at the same addresses:
scopes see to that. Which operations it makes, what they cost and where their results lie is then known. The first call
runs as any function; the second runs and is compared with the first, row by row; from the third on the rows are
appended as they were, moved to the present time, and in data mode the same numpy calls run on the same views.

Nothing is assumed that is not looked at. The key of a call is everything that the step can see: the call chain, the
cursor, address and type of every tile, every other argument. Any operand that needs a look (a load in flight, bytes
never written, a scope that ended), any row that is not private arithmetic, any difference between the first two calls:
the step just runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from sys import _getframe
from threading import Lock, get_ident
from typing import Any, TypeVar, cast

from kernbench_nb.sim_engine.trace import END, KIND, STRIDE
from kernbench_nb.triton_emu.handles import Handle
from kernbench_nb.triton_emu.numerics import bind

__all__ = ["WRAPPER", "Steps", "steady"]

Step = TypeVar("Step", bound=Callable[..., None])


class Repeated:
    """What one call of a step always does.

    Attributes
    ----------
    rows
        Its rows of the trace, one after the other.
    ends
        By row, ps from the call to the row's end.
    elapsed
        ps by which it moves the clock.
    top
        Where it leaves the cursor.
    more
        Operand addresses beyond the second, by row of the step.
    runs
        In data mode, the numpy calls.
    """

    __slots__ = ("elapsed", "ends", "more", "rows", "runs", "top")

    rows: list[Any]
    ends: list[int]
    elapsed: int
    top: int
    more: dict[int, tuple[int, ...]]
    runs: list[Callable[[], Any]]


Steps = dict[Any, "tuple[int, int] | Repeated | None"]
"""What a PE knows of its steps, by call: from where to where the rows of the first call stand, what it always does, or
None for a step that does not repeat."""


def steady(step: Step) -> Step:
    """Let a step that is called again and again on the same addresses be repeated instead of run.

    Parameters
    ----------
    step
        A function ``step(tl, ...) -> None`` that does arithmetic on tiles and nothing else: no counting, no printing,
        no state of its own. Tiles come as arguments, or in tuples of tiles.

    Returns
    -------
    Callable
        The same step: same rows, same values, same errors.
    """

    @wraps(step)
    def call(tl: Any, *args: Any, **more: Any) -> None:
        try:
            steps: Steps = tl._steps
        except AttributeError:  # not our language: a stand-in that a reader wrote
            return step(tl, *args, **more)
        frame = _getframe(1)
        if frame is not tl._frame:
            frame = tl._enter(frame)
        scratch = tl._scratch
        key = [step, tl._chain, frame.f_lasti, scratch.top]
        put = key.append
        for value in (*args, *more.values()):
            kind = value.__class__
            if kind is Handle:
                if value.arena.guard or value.tl is not tl:
                    return step(tl, *args, **more)
                put(value.addr)
                put(value.ty)
            elif kind in _PLAIN:
                if kind is float and not value:  # 0.0 and -0.0 are equal, and not the same
                    return step(tl, *args, **more)
                put(kind)
                put(value)
            elif isinstance(value, tuple):
                put(kind)
                put(len(value))
                for part in value:
                    if part.__class__ is not Handle or part.arena.guard or part.tl is not tl:
                        return step(tl, *args, **more)
                    put(part.addr)
                    put(part.ty)
            else:
                return step(tl, *args, **more)
        key += more
        call_of = tuple(key)
        known = steps.get(call_of, _NEW)
        if isinstance(known, Repeated):
            return _repeat(tl, known)
        if known is None:
            return step(tl, *args, **more)
        rows = tl._trace.rows
        start, now = len(rows), tl._now
        if known is _NEW:
            step(tl, *args, **more)
            steps[call_of] = start, len(rows)
        else:
            tape: list[Callable[[], Any]] = []
            with _taped(tl, known, tape) as alone:
                step(tl, *args, **more)
            if alone:  # else it is learned another time
                steps[call_of] = _learn(tl, known, start, now, tape)
        return None

    return cast(Step, call)


WRAPPER = steady(lambda tl: None).__code__
"""Between a kernel and its step, and no line of either: whoever walks up the frames leaves it out."""
_NEW = (0, 0)

_PLAIN = frozenset({bool, int, float, str, type(None)})
"""What is all that it is: anything else may hold tiles, or change between two calls."""

_TAPING = Lock()
"""Held by the one step that writes down its numpy calls: kinds are shared by all runs on a machine, in all threads."""


@contextmanager
def _taped(tl: Any, known: tuple[int, int], tape: list[Callable[[], Any]]) -> Iterator[bool]:
    """Write down the numpy calls of the kinds that stand in some rows; False if another step is at it."""
    if not tl._data:
        yield True
        return
    if not _TAPING.acquire(blocking=False):
        yield False
        return
    trace, thread = tl._trace, get_ident()
    kinds = [trace.kinds[i] for i in {*trace.rows[known[0] + KIND : known[1] : STRIDE]}]
    runs = [kind.run for kind in kinds]

    def taped(run: Callable[..., Any]) -> Callable[..., None]:
        def both(*arrays: Any) -> None:
            run(*arrays)
            if get_ident() == thread:
                tape.append(bind(run, *arrays))

        return both

    for kind in kinds:
        if kind.run is not None:
            kind.run = taped(kind.run)
    try:
        yield True
    finally:
        for kind, run in zip(kinds, runs, strict=True):
            kind.run = run
        _TAPING.release()


def _learn(tl: Any, known: tuple[int, int], start: int, now: int, tape: list[Any]) -> Repeated | None:
    """Compare the rows of the second call with those of the first; what it always does, or None."""
    trace = tl._trace
    before, rows = trace.rows[slice(*known)], trace.rows[start:]
    if not rows or len(before) != len(rows):
        return None
    ends = before[END::STRIDE] = rows[END::STRIDE]
    kinds = [trace.kinds[i] for i in rows[KIND::STRIDE]]
    private = all(kind.engine in ("gemm", "math") for kind in kinds)
    if not private or before != rows or (tl._data and len(tape) != len(kinds)):
        return None
    found = Repeated()
    found.rows = rows
    found.ends = [end - now for end in ends]
    found.elapsed = tl._now - now
    found.top = tl._scratch.top
    first = start // STRIDE
    found.more = {row - first: at for row, at in trace.more.items() if row >= first}
    found.runs = tape
    return found


def _repeat(tl: Any, known: Repeated) -> None:
    rows = tl._trace.rows
    at = len(rows)
    if known.more:
        first = at // STRIDE
        for row, addresses in known.more.items():
            tl._trace.more[first + row] = addresses
    rows += known.rows
    now = tl._now
    rows[at + END :: STRIDE] = [now + ps for ps in known.ends]
    tl._now = now + known.elapsed
    tl._scratch.top = known.top
    for run in known.runs:
        run()
