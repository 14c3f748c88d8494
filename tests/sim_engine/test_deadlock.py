"""Nothing left to run: the report names every blocked PE, what it waits for, where, and since when."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from kernbench_nb.errors import DeadlockError

D = 4_000


def ring(times: int) -> Callable:
    """Everybody sends to the right before receiving from the left."""

    def kernel(c):
        for i in range(times):
            c.send((c.pe + 1) % 4, c.pe, line=f"ring.py:{i + 1}")
        return [c.recv((c.pe - 1) % 4, line="ring.py:9") for _ in range(times)]

    return kernel


def deadlock_of(run, kernels, **more) -> str:
    with pytest.raises(DeadlockError) as caught:
        run.run(kernels, **more)
    return str(caught.value)


def test_asy_ring_all_send_first_1_rendezvous(bench: Callable) -> None:
    assert deadlock_of(bench({"pe.ipc.slots": 0}), ring(1), pes=4) == (
        "deadlock at 4 000 ps: nothing is left to run, and 4 of 4 PEs are blocked.\n"
        "  PE 0: send to PE 1, rendezvous: no recv is posted, since 4 000 ps at ring.py:1\n"
        "  PE 1: send to PE 2, rendezvous: no recv is posted, since 4 000 ps at ring.py:1\n"
        "  PE 2: send to PE 3, rendezvous: no recv is posted, since 4 000 ps at ring.py:1\n"
        "  PE 3: send to PE 0, rendezvous: no recv is posted, since 4 000 ps at ring.py:1\n"
        "They wait in a circle: PE 0 -> PE 1 -> PE 2 -> PE 3 -> PE 0.\n"
        "Let one PE of each pair receive before it sends, or give the directions more slots (pe.ipc.slots is 0)."
    )


def test_asy_ring_all_send_first_2_one_slot(bench: Callable) -> None:
    run = bench({"pe.ipc.slots": 1}).run(ring(1), 4)
    assert [run.results[pe] for pe in range(4)] == [[3], [0], [1], [2]]
    sends = [run.clocks[pe].log[0] for pe in range(4)]
    assert max(start for _, _, start, _, _ in sends) < min(arrive for _, _, _, arrive, _ in sends)


def test_asy_ring_all_send_first_3_two_sends_into_one_slot(bench: Callable) -> None:
    run = bench({"pe.ipc.slots": 1})
    assert deadlock_of(run, ring(2), pes=4) == (
        "deadlock at 8 000 ps: nothing is left to run, and 4 of 4 PEs are blocked.\n"
        "  PE 0: send to PE 1, 1 of 1 slots are taken, since 8 000 ps at ring.py:2\n"
        "  PE 1: send to PE 2, 1 of 1 slots are taken, since 8 000 ps at ring.py:2\n"
        "  PE 2: send to PE 3, 1 of 1 slots are taken, since 8 000 ps at ring.py:2\n"
        "  PE 3: send to PE 0, 1 of 1 slots are taken, since 8 000 ps at ring.py:2\n"
        "They wait in a circle: PE 0 -> PE 1 -> PE 2 -> PE 3 -> PE 0.\n"
        "Let one PE of each pair receive before it sends, or give the directions more slots (pe.ipc.slots is 1)."
    )
    # What happened until then is still there.
    assert [log[0][0] for log in run.logs.values()] == ["send"] * 4
    assert len(run.engine.traces) == 4


def test_more_sends_than_slots(bench: Callable) -> None:
    assert "  PE 2: send to PE 3, 4 of 4 slots are taken, since 20 000 ps at ring.py:5\n" in deadlock_of(
        bench(), ring(5), pes=4
    )


def test_a_receive_that_nobody_sends_to(bench: Callable) -> None:
    run = bench()
    run.engine.install_directions({"right": {0: 1}, "left": {1: 0}}, {"right": "left", "left": "right"})

    def listener(c):
        c.compute(2_000_000)
        c.recv("left", line="k.py:7")

    def other(c):
        c.send(1, line="k.py:2")

    assert deadlock_of(run, {0: other, 1: listener}) == (
        "deadlock at 2 004 000 ps: nothing is left to run, and 1 of 2 PEs are blocked.\n"
        "  PE 1: recv from 'left' (PE 0, which has ended), no message is there (but 1 of PE 0 for PE 0), since "
        "2 004 000 ps at k.py:7\n"
        "Each recv needs a send on the other side, in the direction that it listens to."
    )


def test_a_circle_of_two_beside_one_that_waits_for_it(bench: Callable) -> None:
    text = deadlock_of(
        bench(), {0: lambda c: c.recv(1), 1: lambda c: c.recv(2), 2: lambda c: c.recv(1), 3: lambda c: None}
    )
    assert "They wait in a circle: PE 1 -> PE 2 -> PE 1.\n" in text
    assert "3 of 4 PEs are blocked" in text


def test_a_barrier_that_one_never_comes_to(bench: Callable) -> None:
    def kernel(c):
        if c.pe == 2:
            return
        c.compute(1_000 * (3 - c.pe))
        c.barrier(line="k.py:5")

    assert deadlock_of(bench(), kernel, pes=4) == (
        "deadlock at 3 000 ps: nothing is left to run, and 3 of 4 PEs are blocked.\n"
        "  PE 0: barrier without PE 2, which has ended, since 3 000 ps at k.py:5\n"
        "  PE 1: barrier without PE 2, which has ended, since 2 000 ps at k.py:5\n"
        "  PE 3: barrier without PE 2, which has ended, since 0 ps at k.py:5\n"
        "Every PE of the launch must come to each barrier, and take its messages before."
    )


def test_a_barrier_and_a_receive_that_wait_for_each_other(bench: Callable) -> None:
    def one(c):
        c.barrier(line="k.py:5")
        c.send(1)

    def other(c):
        c.recv(0, line="k.py:9")
        c.barrier()

    text = deadlock_of(bench(), {0: one, 1: other})
    assert "  PE 0: barrier without PE 1, since 0 ps at k.py:5\n" in text
    assert "  PE 1: recv from PE 0, no message is there, since 4 000 ps at k.py:9\n" in text


def test_a_kernels_own_exception_comes_before_the_deadlock_it_causes(bench: Callable) -> None:
    left = []

    def kernel(c):
        try:
            if c.pe == 2:
                c.compute(10**6)
                c.send(3)
                raise ValueError("the cause")
            c.recv((c.pe - 1) % 4)
            c.recv((c.pe - 1) % 4)
        finally:
            left.append(c.pe)

    with pytest.raises(ValueError, match=r"^the cause$") as caught:
        bench().run(kernel, 4)
    assert left == [2, 0, 1, 3]
    assert caught.traceback[-1].name == "kernel"
    assert not isinstance(caught.value.__context__, DeadlockError)


def test_an_engine_can_be_used_again_after_a_deadlock(bench: Callable) -> None:
    run = bench({"pe.ipc.slots": 1})
    deadlock_of(run, ring(2), pes=4)
    before = run.engine.now_ps
    run.run(ring(1), 4)
    assert [run.results[pe] for pe in range(4)] == [[3], [0], [1], [2]]
    assert min(log[0][2] for log in run.logs.values()) == before + D


def test_many_blocked_pes_are_all_named(bench: Callable) -> None:
    def kernel(c):
        c.compute(64 - c.pe)  # the last PE comes first
        c.recv((c.pe + 1) % 64)

    text = deadlock_of(bench(base="ahbm"), kernel, pes=64)
    assert [int(n) for n in re.findall(r"^  PE (\d+):", text, re.MULTILINE)] == list(range(64))
