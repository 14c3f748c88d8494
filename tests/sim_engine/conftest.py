"""Stand-ins for what lies above the engine: a small machine, and a clock that does for a test what `tl` does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from kernbench_nb.sim_engine import GraphEngine, Port
from kernbench_nb.topology import Topology, resolve_topology


class Clock:
    """One PE's program counter in time: each command costs D, then the port says when it is done."""

    def __init__(self, port: Port) -> None:
        self.port = port
        self.pe = port.pe
        self.now = port.start_ps
        self.d = port.topology.costs.dispatch_ps
        self.log: list[tuple[Any, ...]] = []

    def load(self, nbytes: int, owner: int = -1) -> int:
        """A load that waits."""
        self.now = self.issue_load(nbytes, owner)
        return self.now

    def issue_load(self, nbytes: int, owner: int = -1) -> int:
        """A load that does not wait: when its data is ready."""
        self.now += self.d
        start, ready = self.port.read(self.now, owner, nbytes)
        self.log.append(("read", start, ready))
        return ready

    def store(self, nbytes: int, owner: int = -1) -> int:
        self.now += self.d
        start, self.now = self.port.write(self.now, owner, nbytes)
        self.log.append(("write", start, self.now))
        return self.now

    def send(
        self,
        direction: str | int,
        payload: Any = None,
        nbytes: int = 4,
        shape: tuple[int, ...] = (1,),
        dtype: str = "f32",
        line: str = "",
    ) -> tuple[int, int]:
        self.now += self.d
        start, arrive, self.now, peer = self.port.send(
            self.now, direction, payload, nbytes, shape, dtype, lambda: line
        )
        self.log.append(("send", peer, start, arrive, self.now))
        return start, arrive

    def recv(
        self, direction: str | int, shape: tuple[int, ...] = (1,), dtype: str = "f32", line: str = ""
    ) -> Any:
        self.now += self.d
        self.now, payload, peer = self.port.recv(self.now, direction, shape, dtype, lambda: line)
        self.log.append(("recv", peer, self.now))
        return payload

    def barrier(self, line: str = "") -> int:
        self.now = self.port.barrier(self.now, lambda: line)
        self.log.append(("barrier", self.now))
        return self.now

    def compute(self, ps: int) -> None:
        self.now += ps


Kernel = Callable[[Clock], Any]


class Bench:
    """An engine, and what kernels on it gave back."""

    def __init__(self, topology: Topology, **options: Any) -> None:
        self.engine = GraphEngine(topology, **options)
        self.topology = topology
        self.clocks: dict[int, Clock] = {}
        self.results: dict[int, Any] = {}

    def run(self, kernels: Kernel | Mapping[int, Kernel], pes: int = 0, shared: Any = ()) -> Bench:
        """Run one kernel on PEs 0..pes-1, or one each."""
        if callable(kernels):
            kernels = dict.fromkeys(range(pes), kernels)
        self.engine.run({pe: self._program(kernel) for pe, kernel in kernels.items()}, shared)
        return self

    def _program(self, kernel: Kernel) -> Callable[[Port], None]:
        def program(port: Port) -> None:
            clock = self.clocks[port.pe] = Clock(port)
            self.results[port.pe] = kernel(clock)
            port.finish(clock.now)

        return program

    @property
    def ends(self) -> dict[int, int]:
        return {pe: clock.now for pe, clock in self.clocks.items()}

    @property
    def logs(self) -> dict[int, list[tuple[Any, ...]]]:
        return {pe: self.clocks[pe].log for pe in sorted(self.clocks)}


@pytest.fixture
def machine() -> Callable[..., Topology]:
    """A preset with single numbers changed, by dotted name: `machine({"pe.ipc.slots": 1}, base="tiny")`."""

    def make(changes: Mapping[str, Any] | None = None, *, base: str = "tiny") -> Topology:
        return resolve_topology({"base": base, **(changes or {})})

    return make


@pytest.fixture
def bench(machine: Callable[..., Topology]) -> Callable[..., Bench]:
    """A `Bench` on such a machine."""

    def make(changes: Mapping[str, Any] | None = None, *, base: str = "tiny", **options: Any) -> Bench:
        return Bench(machine(changes, base=base), **options)

    return make
