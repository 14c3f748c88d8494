"""HBM slices against `topology/costs.py`, section 4: queue, latency, writes, and another PE's slice."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kernbench_nb.errors import ModelError, TopologyError
from kernbench_nb.topology import Topology

# On `tiny`: setup 50 ns; 85 % of 256 GB/s; 21 760 bytes take 100 ns more. D is 4 ns, latency 100 ns.
N, B, D, LATENCY = 21_760, 150_000, 4_000, 100_000


@pytest.mark.parametrize("k", [1, 2, 5])
def test_k_queued_loads(bench: Callable, k: int) -> None:
    run = bench({"pe.dispatch_cycles": 0}).run(lambda c: [c.issue_load(N) for _ in range(k)], 1)
    assert run.results[0] == [(i + 1) * B + LATENCY for i in range(k)]
    assert run.clocks[0].log[-1] == ("read", (k - 1) * B, k * B + LATENCY)


@pytest.mark.parametrize(
    ("nbytes", "busy"), [(0, 50_000), (1, 50_005), (N - 1, 149_996), (N, 150_000), (N + 1, 150_005)]
)
def test_busy_time_is_setup_and_transfer_rounded_up_once(bench: Callable, nbytes: int, busy: int) -> None:
    run = bench().run(lambda c: c.load(nbytes), 1)
    assert run.results[0] == D + busy + LATENCY
    hbm = run.engine.slices[0]
    assert (hbm.busy_ps, hbm.nbytes, hbm.accesses) == (busy, nbytes, 1)


def test_latency_does_not_occupy_the_channel(bench: Callable) -> None:
    def kernel(c):
        first = c.issue_load(N)
        second = c.issue_load(N)
        return first, second

    run = bench().run(kernel, 1)
    assert run.results[0] == (D + B + LATENCY, D + 2 * B + LATENCY)


def test_a_load_that_comes_to_an_idle_channel_starts_at_once(bench: Callable) -> None:
    def kernel(c):
        c.load(N)
        c.compute(10**6)
        return c.load(N)

    assert bench().run(kernel, 1).results[0] == 2 * (D + B + LATENCY) + 10**6


def test_a_write_ends_with_its_busy_time_and_queues_with_reads(bench: Callable) -> None:
    def kernel(c):
        c.issue_load(N)
        c.store(N)

    run = bench().run(kernel, 1)
    assert run.clocks[0].log == [("read", D, D + B + LATENCY), ("write", D + B, D + 2 * B)]


def test_own_slices_are_apart(bench: Callable) -> None:
    run = bench().run(lambda c: c.load(N), 4)
    assert set(run.ends.values()) == {D + B + LATENCY}


def test_one_may_name_oneself_as_the_owner(bench: Callable) -> None:
    assert bench().run(lambda c: c.load(N, owner=c.pe), 4).ends == bench().run(lambda c: c.load(N), 4).ends


@pytest.mark.parametrize("access", ["load", "store"])
def test_private_slices_never_switch(bench: Callable, access: str) -> None:
    order = []

    def kernel(c):
        for _ in range(3):
            getattr(c, access)(N)
            order.append(c.pe)

    bench().run(kernel, 2)
    assert order == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(("access", "step"), [("load", D + B + LATENCY), ("store", D + B)])
def test_shared_slices_are_reserved_in_order_of_time(bench: Callable, access: str, step: int) -> None:
    order = []

    def kernel(c):
        c.compute(c.pe)  # PE 1 is always a picosecond later
        for _ in range(3):
            getattr(c, access)(N)
            order.append(c.pe)

    run = bench().run(kernel, 2, shared={0, 1})
    assert order == [0, 1, 0, 1, 0, 1]
    assert run.ends == {0: 3 * step, 1: 1 + 3 * step}


def route_ps(topology: Topology, src: int, dst: int) -> int:
    return topology.route(src, dst).latency_ps


@pytest.mark.parametrize("owner", [1, 2, 3])
def test_another_pes_slice_adds_the_path_there_and_back(bench: Callable, owner: int) -> None:
    run = bench().run({0: lambda c: c.load(N, owner)}, shared={owner})
    there, back = run.topology.route(0, owner), run.topology.route(owner, 0)
    assert run.ends[0] == D + there.latency_ps + B + LATENCY + back.alone_ps(N)
    assert run.clocks[0].log == [("read", D + there.latency_ps, run.ends[0])]
    assert run.engine.slices[owner].nbytes == N
    assert sum(use.nbytes for use in run.engine.fabric.links.values()) == N * len(back.links)


@pytest.mark.parametrize("owner", [1, 2, 3])
def test_a_write_to_another_pes_slice_ends_when_the_word_is_back(bench: Callable, owner: int) -> None:
    run = bench().run({0: lambda c: c.store(N, owner)}, shared={owner})
    there, back = run.topology.route(0, owner), run.topology.route(owner, 0)
    assert run.clocks[0].log == [
        ("write", D + there.alone_ps(N), D + there.alone_ps(N) + B + back.latency_ps)
    ]


def test_a_slice_serves_in_order_of_arrival_not_of_pe(bench: Callable) -> None:
    # PE 0's request has a hop to go, so the owner, PE 1, is served first though it asks at the same time.
    run = bench().run({0: lambda c: c.load(N, 1), 1: lambda c: c.load(N)}, shared={1})
    assert run.ends[1] == D + B + LATENCY
    back = run.topology.route(1, 0)
    assert run.clocks[0].log[0] == ("read", D + B, D + 2 * B + LATENCY + back.alone_ps(N))


@pytest.mark.parametrize("k", [2, 4])
def test_k_pes_on_one_slice(bench: Callable, k: int) -> None:
    run = bench({"links.pe.latency_ns": 0, "links.cube.latency_ns": 0}).run(
        lambda c: c.load(N, owner=0), k, shared={0}
    )
    starts = [run.clocks[pe].log[0][1] for pe in range(k)]
    assert starts == [D + i * B for i in range(k)]
    assert run.engine.slices[0].busy_ps == k * B


def test_a_slice_that_was_not_marked_is_refused(bench: Callable) -> None:
    with pytest.raises(ModelError, match=r"PE 0 reads the HBM slice of PE 1, .* shared_slices=\{\.\.\., 1\}"):
        bench().run({0: lambda c: c.load(N, 1), 1: lambda c: None})
    with pytest.raises(ModelError, match="PE 0 writes the HBM slice of PE 1"):
        bench().run({0: lambda c: c.store(N, 1), 1: lambda c: None})


def test_a_slice_of_a_pe_that_is_not_there(bench: Callable) -> None:
    with pytest.raises(TopologyError, match="PE 4 is not in topology 'tiny'"):
        bench().run({0: lambda c: c.load(N, 4)})


def test_zero_bytes_in_zero_time_do_not_spin(bench: Callable) -> None:
    free = {"pe.dispatch_cycles": 0, "pe.dma.setup_ns": 0, "pe.hbm.latency_ns": 0}
    run = bench(free).run(lambda c: [c.load(0) for _ in range(1000)], 2, shared={0, 1})
    assert run.ends == {0: 0, 1: 0}
    assert run.clocks[0].log == [("read", 0, 0)] * 1000
