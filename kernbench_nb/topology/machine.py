"""`Topology`: one validated machine, with its geometry and its costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from kernbench_nb.errors import grouped
from kernbench_nb.topology.costs import CostModel, cost_model, exact, ns_to_ps
from kernbench_nb.topology.geometry import Geometry, Link, LinkClass, Route
from kernbench_nb.topology.schema import TopologySpec

__all__ = ["Topology"]


@dataclass(frozen=True, repr=False)
class Topology:
    """A machine: what `resolve_topology` gives, `GraphEngine` takes and `ctx.spec` is.

    Two topologies are equal when their files say the same; geometry, costs and routes are worked out on first
    use.

    Attributes
    ----------
    spec
        The validated file.
    """

    spec: TopologySpec

    # What the file says

    @property
    def name(self) -> str:
        """Name of the topology."""
        return self.spec.name

    @property
    def issue(self) -> str:
        """How kernels issue: ``blocking`` or ``dataflow``."""
        return self.spec.issue

    @property
    def ipc_slots(self) -> int:
        """Messages that a direction holds before `send` blocks; 0 is rendezvous."""
        return self.spec.pe.ipc.slots

    @property
    def wide_links(self) -> bool:
        """Whether links are infinitely wide, as in the reference of congestion impact."""
        return self.spec.links.infinitely_wide

    @cached_property
    def scratch_bytes(self) -> int:
        """Bytes of kernel scratch of one PE."""
        return self.spec.pe.tcm.scratch_bytes

    @cached_property
    def costs(self) -> CostModel:
        """What operations cost."""
        return cost_model(self.spec)

    # Geometry

    @cached_property
    def geometry(self) -> Geometry:
        """Positions, links and routes."""
        system, links = self.spec.system, self.spec.links
        clock = exact(self.spec.pe.clock_ghz)
        wide = links.infinitely_wide
        return Geometry(
            name=self.name,
            sips=system.sips,
            cube_mesh=(system.cubes_wide, system.cubes_high),
            pe_mesh=(system.pes_wide, system.pes_high),
            pe_link=LinkClass(
                "pe", None if wide else links.pe.bytes_per_cycle * clock, ns_to_ps(links.pe.latency_ns)
            ),
            cube_link=LinkClass(
                "cube", None if wide else exact(links.cube.gb_per_s), ns_to_ps(links.cube.latency_ns)
            ),
            sip_link=LinkClass(
                "sip", None if wide else exact(links.sip.gb_per_s), ns_to_ps(links.sip.latency_ns)
            ),
        )

    @property
    def sips(self) -> int:
        """SIPs in all."""
        return self.spec.system.sips

    @property
    def cube_mesh(self) -> tuple[int, int]:
        """Width and height of the mesh of cubes in a SIP."""
        return self.geometry.cube_mesh

    @property
    def pe_mesh(self) -> tuple[int, int]:
        """Width and height of the mesh of PEs in a cube."""
        return self.geometry.pe_mesh

    @property
    def cubes_per_sip(self) -> int:
        """Cubes of a SIP."""
        return self.geometry.cubes_per_sip

    @property
    def pes_per_cube(self) -> int:
        """PEs of a cube."""
        return self.geometry.pes_per_cube

    @property
    def pe_count(self) -> int:
        """PEs in all."""
        return self.geometry.pe_count

    @property
    def links(self) -> tuple[Link, ...]:
        """Every directed link, in order of index."""
        return self.geometry.links

    def locate(self, pe: int) -> tuple[int, int, int]:
        """SIP, cube in it and PE in that, of a global PE index; `TopologyError` when there is none."""
        return self.geometry.locate(pe)

    def global_pe(self, sip: int, cube: int, pe: int) -> int:
        """Global PE index of a place; `TopologyError` when there is none."""
        return self.geometry.global_pe(sip, cube, pe)

    def pe_xy(self, pe_in_cube: int) -> tuple[int, int]:
        """Position of a PE in its cube's mesh."""
        return self.geometry.pe_xy(pe_in_cube)

    def route(self, src: int, dst: int) -> Route:
        """The way between two PEs, by global index; `TopologyError` when there is no such PE."""
        return self.geometry.route(src, dst)

    # Variants and views

    def with_wide_links(self) -> Topology:
        """The same machine with infinitely wide links: latencies stay, bandwidth plays no part."""
        if self.wide_links:
            return self
        links = msgspec.structs.replace(self.spec.links, infinitely_wide=True)
        return Topology(msgspec.structs.replace(self.spec, links=links))

    def to_dict(self) -> dict[str, Any]:
        """The file as plain values; `resolve_topology` of it gives an equal topology."""
        tree: dict[str, Any] = _pruned(msgspec.to_builtins(self.spec))
        return tree

    def summary(self) -> str:
        """What the machine is, in a few short lines; the same for the same file."""
        system, pe, links, costs = self.spec.system, self.spec.pe, self.spec.links, self.costs
        gflops = 2 * costs.macs_per_cycle * costs.clock_ghz
        gemm = (
            f"{pe.gemm.tile_m}x{pe.gemm.tile_n}x{pe.gemm.tile_k} native tile"
            if pe.gemm.model == "native"
            else f"{pe.gemm.rows}x{pe.gemm.cols} systolic array"
        )
        wide = ", taken as infinitely wide" if links.infinitely_wide else ""
        counts = f"{_many(self.pe_count, 'PE')} = {_many(self.sips, 'SIP')}"
        meshes = f"{system.cubes_wide}x{system.cubes_high} cubes x {system.pes_wide}x{system.pes_high} PEs"
        hbm = (
            f"HBM {_g(costs.hbm_peak_gb_per_s)} GB/s at {_g(pe.hbm.efficiency_percent)} %, "
            f"{_g(pe.hbm.latency_ns)} ns"
        )
        rates = f"{gemm}, {_g(gflops)} GFLOP/s; {pe.math.lanes} math lanes; {_g(pe.clock_ghz)} GHz"
        wires = (
            ("PE", links.pe.bytes_per_cycle * costs.clock_ghz, links.pe.latency_ns),
            ("cube", links.cube.gb_per_s, links.cube.latency_ns),
            ("SIP", links.sip.gb_per_s, links.sip.latency_ns),
        )
        roads = ", ".join(f"{kind} {_g(rate)} GB/s {_g(latency)} ns" for kind, rate, latency in wires)
        return (
            f"{self.name}: {counts} x {meshes}\n"
            f"each PE: {_g(self.scratch_bytes)} B scratch; {hbm}; {rates}\n"
            f"links: {roads}{wide}\n"
            f"issue {self.issue}; {pe.dispatch_cycles} cycles dispatch; {self.ipc_slots} message slots"
        )

    def __repr__(self) -> str:
        return f"<Topology {self.name}: {_many(self.pe_count, 'PE')}>"

    def __reduce__(self) -> tuple[Callable[[TopologySpec], Topology], tuple[TopologySpec]]:
        # Only the file travels to another process: geometry and routes are quick to make again.
        return Topology, (self.spec,)


def _pruned(tree: Any) -> Any:
    """Without the notes and numbers that were left out (None)."""
    if isinstance(tree, dict):
        return {key: _pruned(value) for key, value in tree.items() if value is not None}
    return tree


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _g(number: Any) -> str:
    """A number as people read it, whole thousands apart: ``1 048 576``, ``0.5``."""
    whole, point, rest = f"{float(number):.10g}".partition(".")
    return grouped(int(whole)) + point + rest if whole.isdigit() else f"{whole}{point}{rest}"
