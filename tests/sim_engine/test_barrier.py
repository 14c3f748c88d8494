"""`barrier`: all PEs of the launch go on when the last has come."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from kernbench_nb.sim_engine import GraphEngine
from kernbench_nb.topology import resolve_topology


def test_all_go_on_with_the_last(bench: Callable) -> None:
    def kernel(c):
        c.compute(1_000 * (3 - c.pe))
        c.barrier()
        c.compute(c.pe)
        c.barrier()

    run = bench().run(kernel, 4)
    assert [[entry[1] for entry in log] for log in run.logs.values()] == [[3_000, 3_003]] * 4


def test_one_pe_passes_at_once(bench: Callable) -> None:
    assert bench().run(lambda c: c.barrier(), 1).results[0] == 0


def test_only_pes_of_the_launch_count(bench: Callable) -> None:
    run = bench().run({1: lambda c: c.barrier(), 3: lambda c: (c.compute(7), c.barrier())})
    assert run.ends == {1: 7, 3: 7}


def test_messages_pass_between_barriers(bench: Callable) -> None:
    def kernel(c):
        got = []
        for i in range(3):
            c.send((c.pe + 1) % 4, (c.pe, i))
            c.barrier()
            got.append(c.recv((c.pe - 1) % 4))
            c.barrier()
        return got

    run = bench().run(kernel, 4)
    assert run.results == {pe: [((pe - 1) % 4, i) for i in range(3)] for pe in range(4)}
    assert len(set(run.ends.values())) == 1


@given(st.lists(st.lists(st.integers(0, 50), min_size=3, max_size=3), min_size=1, max_size=6))
def test_a_release_is_the_latest_arrival(work: list[list[int]]) -> None:
    releases: dict[int, list[int]] = {}

    def kernel(port):
        now = port.start_ps
        seen = releases[port.pe] = []
        for step in work:
            now = port.barrier(now + step[port.pe], lambda: "")
            seen.append(now)
        port.finish(now)

    GraphEngine(resolve_topology("tiny")).run(dict.fromkeys(range(3), kernel))
    expected = [sum(max(step) for step in work[: i + 1]) for i in range(len(work))]
    assert releases == dict.fromkeys(range(3), expected)
