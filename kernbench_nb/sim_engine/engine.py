"""`GraphEngine`: runs one program a PE on a machine, launch after launch, and keeps what they leave behind."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from kernbench_nb.errors import MessageError, PlacementError
from kernbench_nb.sim_engine import reports
from kernbench_nb.sim_engine.fabric import Fabric
from kernbench_nb.sim_engine.hbm import Slice
from kernbench_nb.sim_engine.invariants import check_private, check_shared
from kernbench_nb.sim_engine.launch import Launch
from kernbench_nb.sim_engine.port import Port
from kernbench_nb.sim_engine.trace import END, STRIDE, KindTable, Trace
from kernbench_nb.topology import Topology

if TYPE_CHECKING:
    from kernbench_nb.sim_engine.op_log import OpLog

__all__ = ["GraphEngine", "kinds_of"]

LONG_LOG = 1_000
"""Rows above which the check of private engines waits until the log is decoded, which costs more than it does."""

_TABLES_KEPT = 64

_INSTALLED: WeakKeyDictionary[Topology, dict[tuple[int, int], Any]] = WeakKeyDictionary()
"""By machine and table: the table itself, so that its id stays its own, and what installing it first gives."""

_KINDS: WeakKeyDictionary[Topology, KindTable] = WeakKeyDictionary()


def kinds_of(topology: Topology) -> KindTable:
    """The one table of kinds of a machine, shared by all engines on it."""
    table = _KINDS.get(topology)
    if table is None:
        table = _KINDS[topology] = KindTable()
    return table


class GraphEngine:
    """A machine that runs programs.

    Parameters
    ----------
    topology
        The machine.
    enable_data
        Whether programs carry values; if not, times only.
    wide_links
        Run as if links were infinitely wide: the reference of congestion impact.

    Attributes
    ----------
    topology, enable_data
        As given.
    fabric
        Links and what they have carried.
    slices
        HBM slices that were used, by global PE index.
    traces
        What each launch left on each of its PEs, launch by launch, PEs in order.
    now_ps
        When all that was launched so far is done; the next launch starts then.
    directions
        What is installed: by direction, which PE each PE reaches.
    """

    def __init__(self, topology: Topology, enable_data: bool = False, *, wide_links: bool = False) -> None:
        self.topology = topology
        self.enable_data = enable_data
        self.fabric = Fabric(wide_links)
        self.slices: dict[int, Slice] = {}
        self.traces: list[Trace] = []
        self.now_ps = 0
        self.directions: dict[str, dict[int, int]] = {}
        self._opposites: dict[str, str] = {}
        self._unchecked: list[tuple[Trace, int]] = []
        self._op_log: OpLog | None = None

    def __repr__(self) -> str:
        mode = "data" if self.enable_data else "timing"
        return (
            f"<GraphEngine on {self.topology.name}, {mode} mode, {len(self.traces)} traces, {self.now_ps} ps>"
        )

    @property
    def op_log(self) -> OpLog:
        """All operations of all launches, in order of start; decoded when first asked for."""
        if self._op_log is None:
            check_private(self._unchecked)
            self._unchecked.clear()
            from kernbench_nb.sim_engine.op_log import OpLog

            self._op_log = OpLog(self.traces)
        return self._op_log

    def install_directions(self, table: Mapping[str, Mapping[int, int]], opposite: Mapping[str, str]) -> None:
        """Name ways from PE to PE, beside those that are installed already.

        Parameters
        ----------
        table
            By direction: the PE that each PE reaches, both by global index.
        opposite
            By direction: that in which the receiver listens. It must lead back.

        Raises
        ------
        MessageError
            If a PE is not in the topology, a direction has no opposite, or the opposite does not lead back.
        """
        known = _INSTALLED.setdefault(self.topology, {})
        first = not self.directions
        # the tables of a configuration are the same objects on every run: what was checked once is right again
        found = known.get((id(table), id(opposite))) if first else None
        if found is None:
            found = table, opposite, *self._merged(table, opposite)
            if first and len(known) < _TABLES_KEPT:
                known[id(table), id(opposite)] = found
        self.directions, self._opposites = found[2], found[3]

    def _merged(
        self, table: Mapping[str, Mapping[int, int]], opposite: Mapping[str, str]
    ) -> tuple[dict[str, dict[int, int]], dict[str, str]]:
        """Directions and opposites with those of a table, all checked."""
        merged = {name: dict(peers) for name, peers in self.directions.items()}
        opposites = {**self._opposites, **opposite}
        for name, peers in table.items():
            merged.setdefault(name, {}).update(peers)
        count = self.topology.pe_count
        for name, peers in table.items():
            back = opposites.get(name)
            if back is None:
                raise MessageError(
                    f"direction {name!r} has no opposite: say in which direction its receiver listens."
                )
            for pe, peer in peers.items():
                if not (0 <= pe < count and 0 <= peer < count):
                    raise MessageError(
                        f"direction {name!r} leads from PE {pe} to PE {peer}, and the topology "
                        f"{self.topology.name!r} has PEs 0..{count - 1}."
                    )
                home = merged.get(back, {}).get(peer)
                if home != pe:
                    raise MessageError(
                        f"direction {name!r} leads from PE {pe} to PE {peer}, but {back!r} leads from there to "
                        f"{'nobody' if home is None else f'PE {home}'}; install both together, each the way back."
                    )
        # What an earlier installation named and the new one has cut off (a smaller ring) leads nowhere now.
        for name in table:
            way_back = merged.get(opposites[name], {})
            merged[name] = {pe: peer for pe, peer in merged[name].items() if way_back.get(peer) == pe}
        return merged, opposites

    def run(
        self, programs: Mapping[int, Callable[[Port], None]], shared_slices: Collection[int] = frozenset()
    ) -> None:
        """Run one launch: a program on each of some PEs, together.

        Parameters
        ----------
        programs
            By global PE index. Each is called with its `Port`, and tells its end by `Port.finish`.
        shared_slices
            PEs whose HBM slice another PE may read or write in this launch.

        Raises
        ------
        PlacementError
            If a PE is not in the topology.
        DeadlockError
            If nothing is left to run and PEs are blocked. `traces` and `op_log` hold what happened until then.
        MessageError
            If the two ends of a message do not agree, or a message was never received.
        ModelError
            If an invariant of the timing model does not hold: a bug of the simulator.
        """
        count = self.topology.pe_count
        for pe in sorted((*programs, *shared_slices)):
            if not 0 <= pe < count:
                raise PlacementError(
                    f"PE {pe} is not in the topology {self.topology.name!r}: it has {count} PEs, 0..{count - 1}."
                )
        launch = Launch(
            self.topology, self.enable_data, self.fabric, self.slices,
            self.directions, self._opposites, frozenset(shared_slices), self.now_ps,
        )  # fmt: skip
        kinds = kinds_of(self.topology)
        ports = [launch.join(pe, Trace(pe, kinds)) for pe in sorted(programs)]
        self.traces += [port.trace for port in ports]
        self._op_log = None
        try:
            launch.scheduler.run(
                {port.pe: partial(programs[port.pe], port) for port in ports},
                self.now_ps,
                lambda: reports.deadlock(launch),
            )
            left = reports.unreceived(launch)
            if left:
                raise MessageError(left)
        finally:
            self._close(ports)
        check_shared(self)
        ran = [(port.trace, port.start_ps) for port in ports]
        if sum(len(port.trace) for port in ports) <= LONG_LOG:
            check_private(ran)
        else:
            self._unchecked += ran

    def _close(self, ports: list[Port]) -> None:
        """Fill in the ends of programs that did not tell theirs, and move `now_ps` to when all is done."""
        for port in ports:
            trace = port.trace
            if not port.finished and trace.rows:
                trace.end = max(trace.end, trace.rows[END - STRIDE])
            self.now_ps = max(self.now_ps, trace.end)
        for hbm in self.slices.values():
            self.now_ps = max(self.now_ps, hbm.free_ps)
        for link in self.fabric.links.values():
            self.now_ps = max(self.now_ps, link.free_ps)
