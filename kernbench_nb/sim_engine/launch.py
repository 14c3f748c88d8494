"""One launch: what the ports of its PEs share."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kernbench_nb.errors import MessageError
from kernbench_nb.sim_engine import reports
from kernbench_nb.sim_engine.fabric import Fabric
from kernbench_nb.sim_engine.hbm import Slice
from kernbench_nb.sim_engine.port import Port
from kernbench_nb.sim_engine.queues import Queue, Where
from kernbench_nb.sim_engine.scheduler import Scheduler
from kernbench_nb.sim_engine.trace import Trace
from kernbench_nb.topology import Topology

__all__ = ["Directions", "Launch"]

Directions = Mapping[str, Mapping[int, int]]
"""By direction: which PE each PE reaches, both by global index."""


class Launch:
    """The state that lives as long as one launch.

    Attributes
    ----------
    topology, data, fabric, slices
        The engine's: machine, mode, links, and HBM slices by PE.
    directions, opposites
        What is installed: peers by direction and PE, and the direction that a message comes in from.
    shared_slices
        PEs whose HBM slice another PE may use in this launch.
    start_ps
        When it starts.
    scheduler, ports, queues
        Who runs; the PEs' ports by global index; message queues by (sender, receiver, direction at the receiver).
    """

    def __init__(
        self,
        topology: Topology,
        data: bool,
        fabric: Fabric,
        slices: dict[int, Slice],
        directions: Directions,
        opposites: Mapping[str, str],
        shared_slices: Collection[int],
        start_ps: int,
    ) -> None:
        self.topology = topology
        self.data = data
        self.fabric = fabric
        self.slices = slices
        self.directions = directions
        self.opposites = opposites
        self.shared_slices = shared_slices
        self.start_ps = start_ps
        self.scheduler = Scheduler()
        self.ports: dict[int, Port] = {}
        self.queues: dict[tuple[int, int, str | None], Queue] = {}
        self._at_barrier: list[Port] = []
        self._last_ps = start_ps

    def join(self, pe: int, trace: Trace) -> Port:
        """Make the port of one more PE."""
        port = self.ports[pe] = Port(pe, self, trace)
        return port

    # -- HBM ---------------------------------------------------------------------------------------------------

    def slice_of(self, pe: int) -> Slice:
        """The HBM slice of a PE."""
        found = self.slices.get(pe)
        if found is None:
            found = self.slices[pe] = Slice(pe, self.topology.costs)
        return found

    # -- messages ----------------------------------------------------------------------------------------------

    def queue(self, pe: int, direction: str | int, does: str, where: Where) -> Queue:
        """The queue by which PE `pe` sends to or receives from a direction.

        Raises
        ------
        MessageError
            If there is no such direction, neighbour or PE, or it does not take part in this launch.
        """
        if isinstance(direction, str):
            peer = self.directions.get(direction, {}).get(pe)
            if peer is None:
                raise MessageError(reports.no_direction(self, pe, direction, does, where))
            opposite: str | int = self.opposites[direction]
        else:
            peer, opposite = direction, pe
        if peer == pe or peer not in self.ports:
            raise MessageError(reports.no_peer(self, pe, direction, peer, does, where))
        src, dst, leaves, enters = (
            (pe, peer, direction, opposite) if does == "sends to" else (peer, pe, opposite, direction)
        )
        key = src, dst, enters if isinstance(enters, str) else None
        found = self.queues.get(key)
        if found is None:
            route = self.topology.route(src, dst)
            found = self.queues[key] = Queue(
                src, dst, leaves, enters, self.topology.ipc_slots, self.start_ps, route
            )
        return found

    # -- barrier -----------------------------------------------------------------------------------------------

    def arrive(self, pe: int, time_ps: int) -> int | None:
        """PE `pe` comes to the barrier: when all go on if it is the last one, else None."""
        self._last_ps = max(self._last_ps, time_ps)
        waiting = self._at_barrier
        if len(waiting) + 1 < len(self.ports):
            waiting.append(self.ports[pe])
            return None
        self._at_barrier = []
        for port in waiting:
            port.release(self._last_ps)
        return self._last_ps
