"""Who goes on: the earliest, then the lowest PE; and how programs are left when one raises."""

from __future__ import annotations

import contextvars
import sys
import traceback
import warnings
from collections.abc import Callable

import numpy as np
import pytest
from greenlet import GreenletExit

from kernbench_nb.errors import DeadlockError
from kernbench_nb.sim_engine.scheduler import Scheduler


def no_deadlock() -> BaseException:
    raise AssertionError("nobody should be blocked")


def stepper(
    scheduler: Scheduler, pe: int, times: list[int], seen: list[tuple[int, int]]
) -> Callable[[], None]:
    def program() -> None:
        for t in times:
            scheduler.reach(t, pe)
            seen.append((t, pe))

    return program


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 2, 0]])
def test_shared_steps_happen_in_order_of_time_then_of_pe(order: list[int]) -> None:
    times = {0: [5, 5, 30], 1: [0, 10, 30], 2: [5, 12, 13, 30]}
    scheduler = Scheduler()
    seen: list[tuple[int, int]] = []
    scheduler.run({pe: stepper(scheduler, pe, times[pe], seen) for pe in order}, 0, no_deadlock)
    assert seen == sorted(seen)
    assert len(seen) == 10


def test_a_pe_that_is_not_later_than_anybody_keeps_running() -> None:
    scheduler = Scheduler()
    switched = []

    def watcher() -> None:
        switched.append("started")
        scheduler.reach(1_000, 1)

    def runner() -> None:
        for t in range(100, 200):
            scheduler.reach(t, 0)
            switched.append(t)

    scheduler.run({0: runner, 1: watcher}, 0, no_deadlock)
    # PE 1 was let in once, when PE 0 first stood later than it; then PE 0 ran on without a break.
    assert switched == ["started", *range(100, 200)]


def test_a_woken_pe_goes_on_at_its_time() -> None:
    scheduler = Scheduler()
    seen = []

    def sleeper() -> None:
        scheduler.block(0)
        seen.append("sleeper")

    def waker() -> None:
        scheduler.reach(5, 1)
        scheduler.wake(0, 20)
        scheduler.reach(19, 1)
        seen.append("waker at 19")
        scheduler.reach(20, 1)
        seen.append("waker at 20")

    scheduler.run({0: sleeper, 1: waker}, 0, no_deadlock)
    assert seen == ["waker at 19", "sleeper", "waker at 20"]


def test_nothing_left_to_run_asks_for_the_report_while_all_still_stand() -> None:
    scheduler = Scheduler()
    standing = []

    def program(pe: int) -> Callable[[], None]:
        def run() -> None:
            standing.append(pe)
            try:
                scheduler.block(pe)
            finally:
                standing.remove(pe)

        return run

    def report() -> BaseException:
        assert standing == [0, 1]
        assert list(scheduler.blocked) == [0, 1]
        return DeadlockError("both wait")

    with pytest.raises(DeadlockError, match=r"^both wait$"):
        scheduler.run({1: program(1), 0: program(0), 2: lambda: None}, 0, report)
    assert standing == []


def test_the_first_exception_comes_back_as_it_was_and_others_are_left_in_order() -> None:
    scheduler = Scheduler()
    left: list[tuple[int, type[BaseException] | None]] = []

    class Scope:
        def __init__(self, pe: int) -> None:
            self.pe = pe

        def __enter__(self) -> None:
            pass

        def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
            left.append((self.pe, kind))
            if kind is GreenletExit:
                raise ValueError("a consequence, not the cause")

    def waits(pe: int) -> Callable[[], None]:
        def run() -> None:
            with Scope(pe):
                scheduler.block(pe)

        return run

    def breaks() -> None:
        scheduler.reach(10, 1)
        with Scope(1):
            raise KeyError("cause")

    programs = {3: waits(3), 0: waits(0), 1: breaks, 2: waits(2)}
    with pytest.raises(KeyError, match="cause") as caught:
        scheduler.run(programs, 0, no_deadlock)
    assert left == [(1, KeyError), (0, GreenletExit), (2, GreenletExit), (3, GreenletExit)]
    assert "breaks" in [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert caught.value.__context__ is None


def test_a_program_that_never_began_is_dropped_silently() -> None:
    scheduler = Scheduler()
    began = []

    def breaks() -> None:
        raise KeyError("at once")

    with pytest.raises(KeyError):
        scheduler.run({0: breaks, 1: lambda: began.append(1)}, 0, no_deadlock)
    assert began == []


def test_a_program_that_blocks_on_its_way_out_does_not_hang() -> None:
    scheduler = Scheduler()
    seen = []

    def stubborn() -> None:
        try:
            scheduler.block(0)
        finally:
            seen.append("once")
            scheduler.reach(10**9, 0)
            try:
                scheduler.block(0)
                seen.append("never")
            finally:
                seen.append("gone")

    with pytest.raises(DeadlockError):
        scheduler.run({0: stubborn}, 0, lambda: DeadlockError("x"))
    assert seen == ["once", "gone"]
    assert list(scheduler.blocked) == [0]  # it is still referenced, so not the garbage collector ended it


def test_an_interrupt_leaves_everybody_too() -> None:
    scheduler = Scheduler()
    left = []

    def waits() -> None:
        try:
            scheduler.block(0)
        finally:
            left.append(0)

    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scheduler.run({0: waits, 1: interrupted}, 0, no_deadlock)
    assert left == [0]


def test_numpy_does_not_warn_inside_and_is_as_before_outside() -> None:
    scheduler = Scheduler()
    inf = np.array([np.inf])
    got = []

    def program() -> None:
        scheduler.reach(1, 0)
        got.append(inf - inf)
        got.append(np.geterr()["invalid"])

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with np.errstate(invalid="raise"):
            scheduler.run({0: program}, 0, no_deadlock)
            assert np.geterr()["invalid"] == "raise"
    assert np.isnan(got[0])
    assert got[1] == "ignore"


def test_programs_see_the_callers_context_variables() -> None:
    cell = contextvars.ContextVar("cell", default="nowhere")
    cell.set("cell 7")
    seen = []
    Scheduler().run({0: lambda: seen.append(cell.get())}, 0, no_deadlock)
    assert seen == ["cell 7"]


def test_a_launch_inside_a_program() -> None:
    seen = []

    def outer() -> None:
        inner = Scheduler()
        inner.run({0: lambda: seen.append("inner")}, 0, no_deadlock)
        seen.append("outer")

    Scheduler().run({0: outer}, 0, no_deadlock)
    assert seen == ["inner", "outer"]


def test_many_programs_do_not_stand_on_each_others_recursion() -> None:
    scheduler = Scheduler()
    count = 2 * sys.getrecursionlimit()
    ended = []

    def program(pe: int) -> Callable[[], None]:
        def run() -> None:
            if pe:
                scheduler.block(pe)  # so each is first entered by the one before
            else:
                scheduler.reach(1, pe)
                for other in range(1, count):
                    scheduler.wake(other, 2)
            ended.append(pe)

        return run

    scheduler.run({pe: program(pe) for pe in range(count)}, 0, no_deadlock)
    assert ended == list(range(count))
