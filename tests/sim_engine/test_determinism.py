"""The same inputs give the same log, byte for byte: in any order of starting, in any run, under any hash seed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernbench_nb.errors import DeadlockError
from kernbench_nb.sim_engine import Fabric, GraphEngine, Port
from kernbench_nb.topology import resolve_topology

MANY = {"base": "tiny", "system.pes_wide": 3, "system.pes_high": 3, "system.cubes_wide": 1}


def feeders() -> dict[int, list[tuple[Any, ...]]]:
    """8 PEs do the same at the same time, and feed one receiver; all share that one's HBM slice too."""
    logs: dict[int, list[tuple[Any, ...]]] = {}

    def feeder(port: Port) -> None:
        log = logs[port.pe] = []
        now = port.start_ps
        for _ in range(3):
            start, now = port.read(now, 0, 1_000)
            log.append((start, now))
            sent = port.send(now, 0, {"from": port.pe}, 4_000, (1,), "f32", str)
            now = sent[2]
            log.append(sent)
        port.finish(now)

    def receiver(port: Port) -> None:
        log = logs[port.pe] = []
        now = port.start_ps
        for _ in range(3):
            for pe in range(8, 0, -1):
                now, payload, peer = port.recv(now, pe, (1,), "f32", str)
                log.append((now, payload["from"], peer))
        port.finish(now)

    GraphEngine(resolve_topology(MANY)).run({**dict.fromkeys(range(1, 9), feeder), 0: receiver}, {0})
    return logs


def test_asy_ties_deterministic_the_first_in_goes_first() -> None:
    logs = feeders()
    starts = [logs[pe][0][0] for pe in range(1, 9)]
    hops = [resolve_topology(MANY).route(pe, 0).latency_ps for pe in range(1, 9)]
    # Requests reach the slice by distance, and those at the same distance by PE.
    by_arrival = sorted(range(8), key=lambda i: (hops[i], i))
    busy = resolve_topology(MANY).costs.hbm_busy_ps(1_000)
    assert [starts[i] for i in by_arrival] == [hops[by_arrival[0]] + i * busy for i in range(8)]


def test_asy_ties_deterministic_20_runs() -> None:
    first = repr(feeders())
    assert all(repr(feeders()) == first for _ in range(19))


def test_asy_ties_deterministic_under_hash_seeds() -> None:
    folder = str(Path(__file__).parent)
    script = (
        f"import sys; sys.path.insert(0, {folder!r})\n"
        "from test_determinism import feeders\n"
        "sys.stdout.write(repr(feeders()))\n"
    )
    root = str(Path(__file__).resolve().parents[2])
    outputs = []
    for seed in ("0", "1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": root}
        done = subprocess.run(
            [sys.executable, "-c", script], env=env, capture_output=True, text=True, check=True
        )
        outputs.append(done.stdout)
    assert outputs == [repr(feeders())] * 3


def test_asy_ties_deterministic_whole_picoseconds(bench: Callable) -> None:
    # 100 + 200 ps and 300 ps are one time: the PE with the lower index goes first, whoever came by which way.
    order = []

    def kernel(parts: list[int]) -> Callable:
        def run(c):
            for ps in parts:
                c.compute(ps)
            c.load(0)
            order.append((c.pe, c.log[0][1]))

        return run

    free = {"pe.dispatch_cycles": 0, "pe.dma.setup_ns": 0}
    bench(free).run({1: kernel([100, 200]), 0: kernel([300])}, shared={0, 1})
    assert order == [(0, 300), (1, 300)]


def test_asy_ties_deterministic_no_time_and_no_bytes_end(bench: Callable) -> None:
    free = {"pe.dispatch_cycles": 0, "links.pe.latency_ns": 0, "links.cube.latency_ns": 0}

    def kernel(c):
        for _ in range(1_000):
            c.send((c.pe + 1) % 2, nbytes=0)
            c.recv((c.pe + 1) % 2)

    run = bench(free).run(kernel, 2)
    assert run.ends == {0: 0, 1: 0}
    assert run.clocks[0].log == [("send", 1, 0, 0, 0), ("recv", 1, 0)] * 1_000


# Any programs ---------------------------------------------------------------------------------------------------

Op = tuple[str, int, int]  # what, with whom (or how long), how many bytes


@st.composite
def programs(draw: st.DrawFn) -> dict[int, list[Op]]:
    """Programs of 4 PEs. Each message is drawn with both its ends in the order of one global story, so with slots
    enough nobody waits for ever."""
    ops: dict[int, list[Op]] = {pe: [] for pe in range(4)}
    for what in draw(st.lists(st.sampled_from(["message", "compute", "load", "barrier"]), max_size=14)):
        pe = draw(st.integers(0, 3))
        if what == "message":
            peer = draw(st.integers(0, 3).filter(lambda other, pe=pe: other != pe))
            ops[pe].append(("send", peer, draw(st.sampled_from([0, 4, 1_000, 70_000]))))
            ops[peer].append(("recv", pe, 0))
        elif what == "compute":
            ops[pe].append(("compute", draw(st.integers(0, 100_000)), 0))
        elif what == "load":
            ops[pe].append(("load", draw(st.integers(0, 3)), draw(st.sampled_from([0, 1_000]))))
        else:
            for one in ops.values():
                one.append(("barrier", 0, 0))
    return ops


def story(ops: Mapping[int, list[Op]], order: list[int], slots: int) -> dict[int, list[tuple[Any, ...]]]:
    """Run programs whose PEs are given in that order: all that the ports said, by PE."""
    logs: dict[int, list[tuple[Any, ...]]] = {}

    def program(port: Port) -> None:
        log = logs[port.pe] = []
        now = port.start_ps
        for number, (what, who, nbytes) in enumerate(ops[port.pe]):
            if what == "send":
                got: tuple[Any, ...] = port.send(now, who, (port.pe, number), nbytes, (1,), "f32", str)
                now = got[2]
            elif what == "recv":
                got = port.recv(now, who, (1,), "f32", str)
                now = got[0]
            elif what == "load":
                got = port.read(now, who, nbytes)
                now = got[1]
            elif what == "barrier":
                got = (port.barrier(now, str),)
                now = got[0]
            else:
                got = (who,)
                now += who
            log.append((what, *got))
        port.finish(now)

    engine = GraphEngine(resolve_topology({"base": "tiny", "pe.ipc.slots": slots}))
    try:
        engine.run({pe: program for pe in order}, set(order))  # noqa: C420 - the order is the point
    except DeadlockError as error:
        logs[-1] = [(str(error),)]
    return {pe: logs[pe] for pe in sorted(logs)}


def times(logs: Mapping[int, list[tuple[Any, ...]]]) -> Iterator[tuple[int, tuple[Any, ...]]]:
    for pe, log in logs.items():
        for entry in log:
            yield pe, entry


@given(programs(), st.permutations(range(4)), st.sampled_from([0, 1, 64]))
def test_the_order_of_starting_plays_no_part(ops: dict[int, list[Op]], order: list[int], slots: int) -> None:
    assert story(ops, order, slots) == story(ops, [0, 1, 2, 3], slots)


@given(programs(), st.sampled_from([0, 1, 64]))
def test_links_are_reserved_in_order_of_time(ops: dict[int, list[Op]], slots: int) -> None:
    # Loads are from the PE's own slice here; a request to another one travels, see test_hbm.py.
    own = {pe: [(what, pe if what == "load" else who, n) for what, who, n in ops[pe]] for pe in ops}
    reserved: list[int] = []

    def carry(fabric: Fabric, plan: Any, nbytes: int, t_ps: int) -> tuple[int, int]:
        reserved.append(t_ps)
        return real_carry(fabric, plan, nbytes, t_ps)

    real_carry = Fabric.carry
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Fabric, "carry", carry)
        logs = story(own, [0, 1, 2, 3], slots)
    assert reserved == sorted(reserved)
    sent = [entry[3] for pe, log in logs.items() if pe >= 0 for entry in log if entry[0] == "send"]
    assert reserved == sorted(sent)


@given(programs())
def test_with_slots_enough_every_message_comes_to_its_receiver(ops: dict[int, list[Op]]) -> None:
    logs = story(ops, [0, 1, 2, 3], 64)
    assert -1 not in logs
    for pe, log in logs.items():
        for peer in range(4):
            got = [e[2] for e in log if e[0] == "recv" and e[3] == peer]
            sent = [(peer, i) for i, op in enumerate(ops[peer]) if op[:2] == ("send", pe)]
            assert got == sent
        for what, *said in log:
            if what == "send":
                start, arrive, resume, _ = said
                assert resume <= start <= arrive
            elif what == "load":
                assert said[0] <= said[1]


@given(programs())
def test_fewer_slots_never_make_a_run_that_ends_give_other_data(ops: dict[int, list[Op]]) -> None:
    many, one = story(ops, [0, 1, 2, 3], 64), story(ops, [0, 1, 2, 3], 1)
    if -1 in one:
        assert "deadlock at" in one[-1][0][0]
    else:
        data = [(pe, e[2:]) for pe, e in times(many) if e[0] == "recv"]
        assert data == [(pe, e[2:]) for pe, e in times(one) if e[0] == "recv"]


@pytest.mark.parametrize("seed", range(3))
def test_a_launch_leaves_nothing_behind_that_changes_the_next(bench: Callable, seed: int) -> None:
    def kernel(c):
        c.compute(seed * 1_000)
        c.send((c.pe + 1) % 4, nbytes=10_000)
        c.recv((c.pe - 1) % 4)
        c.load(1_000, owner=0)

    run = bench()
    relative = []
    for _ in range(3):
        start = run.engine.now_ps
        run.run(kernel, 4, shared={0})
        relative.append(
            [[tuple(x - start for x in e[2:]) for e in log if e[0] == "send"] for log in run.logs.values()]
        )
    assert relative[0] == relative[1] == relative[2]
