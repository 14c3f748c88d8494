"""Whole programs against the closed forms of `topology/costs.py`, sections 5 to 9: the difference is zero.

The forms themselves (and their regimes) are tested in tests/topology; here the engine must give the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from kernbench_nb.ccl import OPPOSITE, chain_table, ring_table
from kernbench_nb.topology import Topology, costs

MERGE = 700_000


def transfer(topology: Topology, src: int, dst: int, nbytes: int) -> int:
    """`n / min(b)` of a route, in ps."""
    return max(link.busy_ps(nbytes) for link in topology.route(src, dst).links)


# Sweeps ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tiles", [1, 2, 5])
@pytest.mark.parametrize("compute", [10_000, 5_000_000])
@pytest.mark.parametrize("sizes", [(2048, 2048), (16_384, 4096), (8192,)])
def test_sweeps(bench: Callable, tiles: int, compute: int, sizes: tuple[int, ...]) -> None:
    first = compute // 2

    def single(c):
        for i in range(tiles):
            c.now = max([c.issue_load(n) for n in sizes])
            c.compute(compute if i else first)

    def prefetch(c):
        ready = max([c.issue_load(n) for n in sizes])
        for i in range(tiles):
            c.now = max(c.now, ready)
            if i + 1 < tiles:
                ready = max([c.issue_load(n) for n in sizes])
            c.compute(compute if i else first)

    run = bench().run(single, 1)
    model = run.topology.costs
    load = costs.load_ps(model.dispatch_ps, map(model.hbm_busy_ps, sizes), model.hbm_latency_ps)
    issue = len(sizes) * model.dispatch_ps
    assert run.ends[0] == costs.sweep_ps(tiles, load, first, compute)
    assert bench().run(prefetch, 1).ends[0] == costs.sweep_prefetch_ps(tiles, load, issue, first, compute)


# Chain and tree -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [1, 2, 3, 8])
@pytest.mark.parametrize("nbytes", [4, 4096, 65_537])
def test_a_chain_of_single_messages(bench: Callable, p: int, nbytes: int) -> None:
    def kernel(c):
        if c.pe + 1 < p:
            c.recv("pe_next")
            c.compute(MERGE)
        if c.pe:
            c.send("pe_prev", nbytes=nbytes)

    run = bench({"pe.dispatch_cycles": 4}, base="ahbm")
    run.engine.install_directions(chain_table(run.topology), OPPOSITE)
    run.run(kernel, p)
    if p == 1:
        assert run.ends[0] == 0
        return
    route = run.topology.route(1, 0)
    assert len(route.links) == 1
    step = costs.chain_step_ps(4_000, transfer(run.topology, 1, 0, nbytes), route.latency_ps, MERGE)
    # A PE's receive is dispatched while it waits, so only the sender's dispatch is on the way.
    assert run.ends[0] == costs.chain_ps(p, step)


@pytest.mark.parametrize("p", [2, 3, 8])
@pytest.mark.parametrize(("rows", "d"), [(9, 64), (8, 128), (64, 128)])
def test_a_chain_of_the_kernels_three_messages(bench: Callable, p: int, rows: int, d: int) -> None:
    sizes = [4 * rows, 4 * rows, 4 * rows * d]  # m, l, O

    def kernel(c):
        if c.pe + 1 < p:
            for _ in sizes:
                c.recv("pe_next")
            c.compute(MERGE)
        if c.pe:
            for n in sizes:
                c.send("pe_prev", nbytes=n)

    run = bench(base="ahbm")
    run.engine.install_directions(chain_table(run.topology), OPPOSITE)
    run.run(kernel, p)
    d_ps = run.topology.costs.dispatch_ps
    small, large = (transfer(run.topology, 1, 0, n) for n in (sizes[0], sizes[2]))
    assert small <= d_ps <= large  # m and l hide behind the dispatch that follows them
    latency = run.topology.route(1, 0).latency_ps
    step = costs.chain_step_ps(d_ps, large, latency, MERGE, messages=3)
    assert run.ends[0] == costs.chain_ps(p, step)


@pytest.mark.parametrize("p", [2, 4, 8])
def test_a_tree_takes_the_logarithm(bench: Callable, p: int) -> None:
    nbytes = 4096

    def kernel(c):
        step = 1
        while step < p:
            if c.pe % (2 * step):
                c.send(c.pe - step, nbytes=nbytes)
                return
            c.recv(c.pe + step)
            c.compute(MERGE)
            step *= 2

    # All PEs in one row, so that the pairs of a round use different links; hops have no latency here.
    flat = {"system.pes_wide": 8, "system.pes_high": 1, "links.pe.latency_ns": 0}
    run = bench(flat, base="ahbm").run(kernel, p)
    step = costs.chain_step_ps(4_000, transfer(run.topology, 1, 0, nbytes), 0, MERGE)
    assert run.ends[0] == costs.tree_ps(p, step)


# Ring of K and V ------------------------------------------------------------------------------------------------


def ring_kernel(p: int, compute: int, nbytes: int) -> Callable:
    def kernel(c):
        for step in range(p):
            if step + 1 < p:
                c.send("ring_next", nbytes=nbytes // 2)
                c.send("ring_next", nbytes=nbytes // 2)
            c.compute(compute)
            if step + 1 < p:
                c.recv("ring_prev")
                c.recv("ring_prev")

    return kernel


def ring(bench: Callable, p: int, compute: int, nbytes: int):
    """A ring over p cubes in one row: neighbours are one cube link apart."""
    wide = {"system.cubes_wide": p, "system.cubes_high": 1, "system.pes_wide": 1, "system.pes_high": 1}
    run = bench({**wide, "system.sips": 1}, base="ahbm")
    run.engine.install_directions(ring_table(run.topology, p), OPPOSITE)
    run.run(ring_kernel(p, compute, nbytes), p)
    return run


@pytest.mark.parametrize("nbytes", [4096, 65_536, 1 << 20])
@pytest.mark.parametrize("regime", ["compute", "transfer", "equal", "just above", "just below"])
def test_a_ring_of_two_in_both_regimes(bench: Callable, nbytes: int, regime: str) -> None:
    probe = ring(bench, 2, 0, nbytes).topology
    d = probe.costs.dispatch_ps
    route = probe.route(0, 1)
    hop = costs.ring_hop_ps(d, 2 * transfer(probe, 0, 1, nbytes // 2), route.latency_ps)
    compute = {
        "compute": 2 * hop,
        "transfer": hop // 4,
        "equal": hop - 4 * d,
        "just above": hop - 4 * d + 1,
        "just below": hop - 4 * d - 1,
    }[regime]
    run = ring(bench, 2, compute, nbytes)
    assert run.engine.now_ps == costs.ring_ps(2, compute, d, hop)


@pytest.mark.parametrize("p", [3, 4, 8])
@pytest.mark.parametrize("compute", [50_000, 10_000_000])
def test_a_ring_whose_hops_differ(bench: Callable, p: int, compute: int) -> None:
    nbytes = 65_536
    run = ring(bench, p, compute, nbytes)
    topology, d = run.topology, run.topology.costs.dispatch_ps
    # The wrap goes back over every cube on links of its own; the other hops are neighbours.
    hops = [
        costs.ring_hop_ps(d, 2 * transfer(topology, i, j, nbytes // 2), topology.route(i, j).latency_ps)
        for i, j in ((i, (i + 1) % p) for i in range(p))
    ]
    assert hops[-1] > hops[0]
    assert run.engine.now_ps == costs.ring_hops_ps(compute, d, hops)
    if compute > max(hops):
        assert run.engine.now_ps == costs.ring_ps(p, compute, d, max(hops))


@pytest.mark.parametrize("p", [2, 4])
def test_a_ring_with_one_message_slot_each_still_fits_the_form(bench: Callable, p: int) -> None:
    wide = {"system.cubes_wide": p, "system.cubes_high": 1, "system.pes_wide": 1, "system.pes_high": 1}
    run = bench({**wide, "pe.ipc.slots": 2}, base="ahbm")
    run.engine.install_directions(ring_table(run.topology, p), OPPOSITE)
    run.run(ring_kernel(p, 10_000_000, 4096), p)
    assert run.engine.now_ps == costs.ring_ps(p, 10_000_000, 4_000, 0)


# All-reduce -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [2, 3, 8])
def test_a_ring_all_reduce(bench: Callable, p: int) -> None:
    part, add = 8_192, 100_000
    free_of_latency = {"links.pe.latency_ns": 0, "system.pes_wide": 8, "system.pes_high": 1}

    def kernel(c):
        for step in range(2 * (p - 1)):
            c.send((c.pe + 1) % p, nbytes=part)
            c.recv((c.pe - 1) % p)
            if step < p - 1:
                c.compute(add)

    run = bench(free_of_latency, base="ahbm").run(kernel, p)
    # alpha of the reducing half has the addition, that of the gathering half has not; recv's dispatch hides.
    alpha = run.topology.costs.dispatch_ps
    both = costs.ring_allreduce_ps(p, alpha, p * part, run.topology.route(0, 1).links[0].gb_per_s)
    assert run.engine.now_ps == both + (p - 1) * add


# Links under load -----------------------------------------------------------------------------------------------


def test_k_senders_into_one_link(bench: Callable) -> None:
    nbytes, k = 65_536, 4
    run = bench({"system.pes_wide": 6, "system.pes_high": 1}, base="ahbm")
    kernels = dict.fromkeys(range(1, k + 1), lambda c: c.send(0, nbytes=nbytes))
    kernels[0] = lambda c: [c.recv(pe) for pe in range(1, k + 1)]
    run.run(kernels)
    link = run.topology.route(1, 0).links[0]
    use = run.engine.fabric.links[link.index]
    assert use.busy_ps == k * link.busy_ps(nbytes)
    arrivals = sorted(run.clocks[pe].log[0][3] for pe in range(1, k + 1))
    # PE 1 is next to the link; the others' heads come one hop later each, which queueing hides.
    assert arrivals == [4_000 + (i + 1) * link.busy_ps(nbytes) + link.latency_ps for i in range(k)]


def test_congestion_impact_against_wide_links(bench: Callable) -> None:
    def kernel(c):
        c.send((c.pe + 1) % 4, nbytes=1 << 20)
        c.compute(1_000)
        c.recv((c.pe - 1) % 4)

    narrow, wide = bench().run(kernel, 4), bench(wide_links=True).run(kernel, 4)
    latency = max(wide.topology.route(i, (i + 1) % 4).latency_ps for i in range(4))
    assert wide.engine.now_ps == 4_000 + latency
    assert narrow.engine.now_ps > 10 * wide.engine.now_ps
