"""Faults seen in public trackers, area async: one test per case, named by its id, through a user's own kernel."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import kernbench_nb as kb
from kernbench_nb.errors import UnwaitedLoadWarning, grouped

# -- asy-read-before-wait ----------------------------------------------------------------------------------------


def early(src: Any, sums: Any, *, tl: Any) -> None:
    buf = tl.full((4,), -1, "f32")
    future = tl.load_async(src, (4,), out=buf)
    tl.store(sums, tl.sum(buf))
    tl.wait(future)
    tl.store(sums + 1, tl.sum(buf))


def late(src: Any, sums: Any, *, tl: Any) -> None:
    buf = tl.full((4,), -1, "f32")
    future = tl.load_async(src, (4,), out=buf)
    tl.wait(future)
    tl.count("after the first wait", tl.now_ps)
    future.wait()
    tl.count("after the second wait", tl.now_ps)
    tl.store(sums + 1, tl.sum(buf))


def numbers() -> tuple[Any, Any]:
    return np.arange(1, 5, dtype=np.float32), np.zeros(2, np.float32)


@pytest.mark.parametrize("data", [True, False])
def test_asy_read_before_wait_is_an_error_at_its_line(data: bool) -> None:
    with pytest.raises(kb.ReadBeforeWaitError, match=r"buf.*is read at .*early.*tl\.sum\(buf\)"):
        kb.launch(early, *numbers(), data=data)


@pytest.mark.parametrize("checks", ["poison", "off"])
def test_asy_read_before_wait_never_reads_what_is_still_coming(checks: str) -> None:
    """The destination changes at the wait, so a kernel that forgets it sees the old values, never 10."""
    src, sums = numbers()
    kb.launch(early, src, sums, scratch_checks=checks)
    assert sums[0] == -4.0 or math.isnan(sums[0])
    assert sums[1] == 10.0


def test_asy_read_before_wait_after_the_wait_all_is_well() -> None:
    src, sums = numbers()
    run = kb.launch(late, src, sums)
    assert sums[1] == 10.0
    load = next(r for r in run.op_log if r.op_name == "dma_read")
    total = next(r for r in run.op_log if r.op_name == "sum")
    assert total.start_ps >= load.end_ps
    assert run.counters["after the first wait"] == run.counters["after the second wait"] == load.end_ps
    assert run.warnings == ()


def test_asy_read_before_wait_a_load_that_nobody_waits_for_is_reported() -> None:
    def kernel(src: Any, *, tl: Any) -> None:
        forgotten = tl.load_async(src, (4,))
        assert forgotten is not None

    with pytest.warns(UnwaitedLoadWarning, match="'forgotten'.* was never waited on"):
        run = kb.launch(kernel, numbers()[0])
    (text,) = run.warnings
    assert "'forgotten'" in text


def test_asy_read_before_wait_a_scope_that_ends_with_a_load_in_flight() -> None:
    def kernel(src: Any, *, tl: Any) -> None:
        with tl.scratch_scope("tile 0"):
            buf = tl.empty((4,), "f32")
            tl.load_async(src, (4,), out=buf)

    with pytest.raises(kb.PendingLoadError, match="buf"):
        kb.launch(kernel, numbers()[0])


# -- asy-ring-all-send-first -------------------------------------------------------------------------------------


def send_first(out: Any, times: int, *, tl: Any) -> None:
    me, count = tl.program_id(0), tl.num_programs(0)
    mine = tl.full((1,), me, "i32")
    for _ in range(times):
        tl.send((me + 1) % count, mine)
    for _ in range(times):
        theirs = tl.recv((me - 1) % count, (1,), "i32")
    tl.store(out + me, theirs)


def ring(slots: int, times: int = 1, data: bool = True) -> tuple[kb.RunResult, Any]:
    out = np.full(4, -1, np.int32)
    machine = {"base": "ahbm", "pe.ipc.slots": slots}
    return kb.launch(send_first, out, times, pes=4, topology=machine, data=data), out


@pytest.mark.parametrize(("slots", "times", "why"), [(0, 1, "rendezvous"), (1, 2, "1 of 1 slots are taken")])
@pytest.mark.parametrize("data", [True, False])
def test_asy_ring_all_send_first_is_a_deadlock(slots: int, times: int, why: str, data: bool) -> None:
    with pytest.raises(kb.DeadlockError) as caught:
        ring(slots, times, data)
    text = str(caught.value)
    dispatches = 1 + times  # full, then the sends; each 4 ns, and full takes 9 more
    assert text.startswith(
        f"deadlock at {grouped(9_000 + 4_000 * dispatches)} ps: nothing is left to run, and 4 of 4 PEs"
    )
    for pe in range(4):
        (line,) = [part for part in text.splitlines() if part.startswith(f"  PE {pe}:")]
        assert f"send to PE {(pe + 1) % 4}" in line
        assert why in line
        assert "tl.send((me + 1) % count, mine)" in line
    run: Any = caught.value.run  # type: ignore[attr-defined]
    assert len(run.op_log) == 4 + 4 * (times - 1)
    assert not run.completion.ok


def test_asy_ring_all_send_first_with_a_slot_each_finishes() -> None:
    run, out = ring(1)
    assert list(out) == [3, 0, 1, 2]
    sends = [r for r in run.op_log if r.op_name == "ipc_send"]
    assert len(sends) == 4
    assert max(r.start_ps for r in sends) < min(r.end_ps for r in sends)  # they overlap in time


# -- asy-ties-deterministic --------------------------------------------------------------------------------------


def one_receiver(out: Any, *, tl: Any) -> None:
    me, count = tl.program_id(0), tl.num_programs(0)
    if me:
        tl.send(0, tl.full((1,), me, "i32"))
        return
    for sender in range(1, count):
        tl.store(out + sender, tl.recv(sender, (1,), "i32"))


def test_asy_ties_deterministic_equal_operations_into_one_receiver() -> None:
    frames = []
    for _ in range(20):
        out = np.zeros(8, np.int32)
        frames.append(kb.launch(one_receiver, out, pes=8).frame)
        assert list(out) == list(range(8))
    assert all(frame.equals(frames[0]) for frame in frames)


def test_asy_ties_deterministic_no_time_and_no_bytes() -> None:
    def kernel(*, tl: Any) -> None:
        nothing = tl.zeros((0,), "f32")
        for _ in range(1000):
            tl.copy_to(nothing, nothing)

    free = {"base": "ahbm", "pe.dispatch_cycles": 0, "pe.math.fill_cycles": 0}
    run = kb.launch(kernel, topology=free)
    copies = run.frame[run.frame["op_name"] == "copy"]
    assert len(copies) == 1000
    assert (copies["start_ps"] == copies["end_ps"]).all()
    assert run.makespan_ps == 0
