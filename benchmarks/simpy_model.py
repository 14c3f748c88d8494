"""The timing workloads as one would model them in SimPy: engines are resources, durations are timeouts.

The models know the list of operations and what each costs; they have no language, no scratch, no checks, no source
lines. They keep a plain log. Their makespan must be that of the package, to the picosecond.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import simpy

from benchmarks.workloads import Fold, Op
from kernbench_nb.topology import Topology

__all__ = ["exchange", "sweep", "sweep_bare"]

Log = list[tuple[int, str, float, float]]
"""(pe, operation, start ps, end ps); whole numbers, though SimPy types its clock as float."""


class PE:
    """The engines of one PE, and what it does with them."""

    def __init__(self, env: simpy.Environment, pe: int, machine: Topology, log: Log) -> None:
        self.env = env
        self.pe = pe
        self.dispatch = machine.costs.dispatch_ps
        self.latency = machine.costs.hbm_latency_ps
        self.log = log
        self.engines = {name: simpy.Resource(env, capacity=1) for name in ("dma", "gemm", "math")}

    def blocking(self, ops: Sequence[Op]) -> Generator[Any, Any, Any]:
        """Operations that the PE waits for, one after the other."""
        env, log = self.env, self.log
        for name, engine, ps in ops:
            yield env.timeout(self.dispatch)
            with self.engines[engine].request() as turn:
                yield turn
                start = env.now
                yield env.timeout(ps)
            log.append((self.pe, name, start, env.now))

    def fetch(self, op: Op) -> Generator[Any, Any, Any]:
        """One load: the channel is busy, the data comes the latency later."""
        env = self.env
        with self.engines["dma"].request() as turn:
            yield turn
            start = env.now
            yield env.timeout(op.ps)
        yield env.timeout(self.latency)
        self.log.append((self.pe, op.name, start, env.now))

    def issue(self, ops: Sequence[Op]) -> Generator[Any, Any, Any]:
        """Issue loads, a dispatch each; gives the processes to wait for."""
        coming = []
        for op in ops:
            yield self.env.timeout(self.dispatch)
            coming.append(self.env.process(self.fetch(op)))
        return coming

    def load(self, ops: Sequence[Op]) -> Generator[Any, Any, Any]:
        """Issue loads and wait for all of them."""
        coming = yield from self.issue(ops)
        yield from coming


def sweep(machine: Topology, fold: Fold, tiles: int, pes: int = 1) -> tuple[int, Log]:
    """`workloads.sweep_kernel` on some PEs, each with an HBM slice of its own: makespan in ps, and the log."""
    env = simpy.Environment()
    log: Log = []
    loads = fold.loads(machine)
    first, later = fold.ops(machine, True), fold.ops(machine, False)

    def program(pe: PE) -> Generator[Any, Any, Any]:
        yield from pe.load([fold.q_load(machine)])
        for i in range(tiles):
            yield from pe.load(loads)
            yield from pe.blocking(later if i else first)

    for index in range(pes):
        env.process(program(PE(env, index, machine, log)))
    env.run()
    return int(env.now), log


def sweep_bare(machine: Topology, fold: Fold, tiles: int) -> tuple[int, Log]:
    """The same with all that a blocking kernel on one PE does not need left out: one timeout an operation.

    No resource is asked for, since nobody else wants it; the two loads of a tile are one wait, worked out by hand.
    """
    env = simpy.Environment()
    log: Log = []
    dispatch, latency = machine.costs.dispatch_ps, machine.costs.hbm_latency_ps
    loads = fold.loads(machine)
    first, later = fold.ops(machine, True), fold.ops(machine, False)

    def program() -> Generator[Any, Any, Any]:
        yield env.timeout(dispatch + fold.q_load(machine).ps + latency)
        log.append((0, "dma_read", env.now - fold.q_load(machine).ps - latency, env.now))
        for i in range(tiles):
            issued = free = env.now
            ready = issued
            for name, _, ps in loads:
                issued += dispatch
                start = max(issued, free)
                free = start + ps
                ready = free + latency
                log.append((0, name, start, ready))
            yield env.timeout(ready - env.now)
            for name, _, ps in later if i else first:
                yield env.timeout(dispatch + ps)
                log.append((0, name, env.now - ps, env.now))

    env.process(program())
    env.run()
    return int(env.now), log


def exchange(machine: Topology, fold: Fold, tiles: int, pes: int) -> tuple[int, Log]:
    """`workloads.exchange_kernel` on PEs in pairs: a link is a resource, what has arrived is in a store.

    Neighbours share one link each way, so that a message is `n / bandwidth` on the link and its latency behind it.
    Queues are never full in this workload, so their slots are left out.
    """
    from kernbench_nb.topology.costs import link_ps

    env = simpy.Environment()
    log: Log = []
    loads = fold.loads(machine)
    first, later = fold.ops(machine, True), fold.ops(machine, False)

    def message(
        link: simpy.Resource, busy: int, latency: int, arrived: simpy.Store, src: int
    ) -> Generator[Any, Any, Any]:
        with link.request() as turn:
            yield turn
            start = env.now
            yield env.timeout(busy)
        yield env.timeout(latency)
        log.append((src, "ipc_send", start, env.now))
        yield arrived.put(src)

    def program(
        pe: PE, out: tuple[simpy.Resource, int, int, simpy.Store], arrived: simpy.Store
    ) -> Generator[Any, Any, Any]:
        yield from pe.load([fold.q_load(machine)])
        for load in loads:
            yield from pe.load([load])
        for i in range(tiles):
            for _ in range(2):
                yield env.timeout(pe.dispatch)
                env.process(message(*out, pe.pe))
            for _ in range(2):
                yield env.timeout(pe.dispatch)
                start = env.now
                yield arrived.get()
                log.append((pe.pe, "ipc_recv", start, env.now))
            yield from pe.blocking(later if i else first)

    stores = [simpy.Store(env) for _ in range(pes)]
    for index in range(pes):
        (link,) = machine.route(index, index ^ 1).links
        out = (
            simpy.Resource(env, 1),
            link_ps(fold.kv_bytes, link.gb_per_s),
            link.latency_ps,
            stores[index ^ 1],
        )
        env.process(program(PE(env, index, machine, log), out, stores[index]))
    env.run()
    return int(env.now), log
