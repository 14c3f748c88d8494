"""Which PE goes on: the earliest, and of equally early ones that with the lowest index.

Each PE is one greenlet for the whole launch. It runs until it touches something shared; there it calls `reach` with
its local time and goes on at once unless another PE is earlier. So whatever is shared is reserved in order of time,
and a PE that touches nothing shared never switches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from contextvars import copy_context
from heapq import heappop, heappush, heapreplace

import numpy as np
from greenlet import GreenletExit, getcurrent, greenlet  # type: ignore[import-untyped]

__all__ = ["Scheduler"]

Program = Callable[[], None]


class Scheduler:
    """Runs one program a PE, interleaved by their local times.

    The greenlet that calls `run` is the hub, and the parent of all others: a program that ends or raises comes back
    to it, and so does a program that blocks when nobody else can go on.

    Attributes
    ----------
    blocked
        PEs that wait to be woken, in order of blocking.
    """

    __slots__ = ("_greenlets", "_heap", "_hub", "_stopping", "_switch_to", "blocked")

    def __init__(self) -> None:
        # (local time in ps, PE): both whole numbers, so ties are ties and never compare anything else
        self._heap: list[tuple[int, int]] = []
        self._greenlets: dict[int, greenlet] = {}
        self._switch_to: dict[int, Callable[[], object]] = {}
        self._hub = getcurrent()
        self._stopping = False
        self.blocked: dict[int, None] = {}

    # -- what programs call ------------------------------------------------------------------------------------

    def reach(self, time_ps: int, pe: int) -> None:
        """PE `pe` stands before something shared at `time_ps`: let all that is earlier happen first."""
        heap = self._heap
        me = (time_ps, pe)
        if heap and heap[0] < me:
            _, earliest = heapreplace(heap, me)
            self._switch_to[earliest]()

    def block(self, pe: int) -> None:
        """Suspend PE `pe` until somebody wakes it."""
        if self._stopping:
            raise GreenletExit
        self.blocked[pe] = None
        if self._heap:
            _, earliest = heappop(self._heap)
            self._switch_to[earliest]()
        else:
            self._hub.switch()

    def wake(self, pe: int, time_ps: int) -> None:
        """Let the blocked PE `pe` go on at `time_ps`; the caller keeps running."""
        del self.blocked[pe]
        heappush(self._heap, (time_ps, pe))

    # -- the hub -----------------------------------------------------------------------------------------------

    def run(
        self, programs: Mapping[int, Program], start_ps: int, deadlock: Callable[[], BaseException]
    ) -> None:
        """Run every program to its end, each from `start_ps` on.

        Parameters
        ----------
        programs
            By global PE index; the order of the mapping plays no part.
        deadlock
            Describes the deadlock, while every blocked PE still stands where it waits.

        Raises
        ------
        BaseException
            What the first program raised, as it was raised, after all others were left with `GreenletExit`; or, when
            nothing is left to run and PEs are still blocked, what `deadlock` gives.
        """
        self._hub = getcurrent()
        heap = self._heap
        for pe in sorted(programs):
            self._greenlets[pe] = thread = _spawn(programs[pe], self._hub)
            # Enter it here, from the hub: a greenlet counts its recursion on from whoever enters it first, and PEs
            # that enter each other in turn would soon be as deep as Python allows.
            thread.switch()
            self._switch_to[pe] = thread.switch
            heappush(heap, (start_ps, pe))
        try:
            while heap:
                _, pe = heappop(heap)
                self._switch_to[pe]()
            if self.blocked:
                raise deadlock()
        finally:
            self._stop()

    def _stop(self) -> None:
        """Leave every program that has not ended, so that its `with` and `finally` blocks run."""
        self._stopping = True
        self._heap.clear()
        for thread in self._greenlets.values():
            if not thread.dead:
                # whatever a program raises on its way out is a consequence of what is being raised already
                with suppress(Exception):
                    thread.throw(GreenletExit)


def _spawn(program: Program, hub: greenlet) -> greenlet:
    thread = greenlet(lambda: _quietly(program), hub)
    # A greenlet starts with no context variables; with those of the caller, prints in a notebook find their cell.
    thread.gr_context = copy_context()
    return thread


def _quietly(program: Program) -> None:
    getcurrent().parent.switch()
    # numpy keeps its error state per greenlet too. Empty softmax rows are meant: they must not warn.
    with np.errstate(all="ignore"):
        program()
