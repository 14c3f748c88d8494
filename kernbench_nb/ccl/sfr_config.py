"""Which PE a message in each direction goes to: tables of neighbours, and their installation in an engine.

A table maps a direction to `{global PE: global PE of its peer}`. A PE with no neighbour in a direction is not
in that direction's map. What a PE receives from a direction is what the peer there sent in the opposite one:
`recv("W")` takes what the western neighbour sent to `"E"`.

===================  ======================================================================================
direction            peer
===================  ======================================================================================
E W N S              the PE of the same number in the neighbouring cube of the same SIP; no wrap at the edge
pe_prev pe_next      the PE before or after in the same cube, by number (one hop: numbers run boustrophedon)
ring_prev ring_next  the PE of the same number in the cube before or after, by index, closed over 0..C-1
sip_E sip_W ...      the PE of the same cube and number in the neighbouring SIP
===================  ======================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Protocol

from kernbench_nb.errors import TopologyError
from kernbench_nb.topology import Topology

__all__ = [
    "OPPOSITE",
    "SIP_TOPOLOGIES",
    "Engine",
    "Table",
    "chain_table",
    "configure_sfr_intercube_multisip",
    "configure_sfr_intercube_ring",
    "default_table",
    "merge_tables",
    "mesh_table",
    "pe_ring_table",
    "ring_table",
    "sip_mesh",
    "sip_table",
]

Table = dict[str, dict[int, int]]
"""Direction -> {global PE: global PE of its peer}."""

_PAIRS = (
    ("E", "W"),
    ("N", "S"),
    ("pe_prev", "pe_next"),
    ("ring_prev", "ring_next"),
    ("sip_E", "sip_W"),
    ("sip_N", "sip_S"),
)
OPPOSITE: Mapping[str, str] = {a: b for pair in _PAIRS for a, b in (pair, pair[::-1])}
"""Direction -> the one by which the peer sends back."""

_STEPS = {"E": (1, 0), "W": (-1, 0), "N": (0, -1), "S": (0, 1)}

SIP_TOPOLOGIES = ("ring_1d", "torus_2d", "mesh_2d_no_wrap")


class Engine(Protocol):
    """The one method of an engine that this module uses; installing again merges."""

    def install_directions(
        self, table: Mapping[str, Mapping[int, int]], opposite: Mapping[str, str]
    ) -> object:
        """Let PEs send in the table's directions."""


# Tables -----------------------------------------------------------------------------------------------------


def mesh_table(topology: Topology, cubes: int | None = None, pes: int | None = None) -> Table:
    """Directions `E W N S` between neighbouring cubes of each SIP.

    Parameters
    ----------
    topology
        The machine.
    cubes, pes
        Only cubes 0..cubes-1 of SIP 0 and PEs 0..pes-1 of each; None for the whole machine.
    """
    members = set(range(topology.cubes_per_sip if cubes is None else cubes))
    table: Table = {direction: {} for direction in _STEPS}
    for sip in range(topology.sips if cubes is None else 1):
        for cube in sorted(members):
            x, y = topology.geometry.cube_xy(cube)
            for direction, (dx, dy) in _STEPS.items():
                other = topology.geometry.cube_at(x + dx, y + dy)
                if other is not None and other in members:
                    table[direction] |= _same_pe(topology, (sip, cube), (sip, other), pes)
    return table


def chain_table(topology: Topology, cubes: int | None = None, pes: int | None = None) -> Table:
    """Directions `pe_prev pe_next` along the PEs of each cube; parameters as in `mesh_table`."""
    length = topology.pes_per_cube if pes is None else pes
    table: Table = {"pe_prev": {}, "pe_next": {}}
    for sip in range(topology.sips if cubes is None else 1):
        for cube in range(topology.cubes_per_sip if cubes is None else cubes):
            first = topology.global_pe(sip, cube, 0)
            for pe in range(first, first + length - 1):
                table["pe_next"][pe] = pe + 1
                table["pe_prev"][pe + 1] = pe
    return table


def ring_table(topology: Topology, ring_size: int, pes: int | None = None) -> Table:
    """Directions `ring_prev ring_next` around cubes 0..ring_size-1 of SIP 0, each PE number its own ring.

    A ring of one cube has no neighbour: its maps are empty.

    Raises
    ------
    TopologyError
        When a SIP has fewer cubes than that; names both.
    """
    _check_count("ring_size", ring_size, topology.cubes_per_sip, "cubes a SIP", topology)
    table: Table = {"ring_prev": {}, "ring_next": {}}
    for cube in range(ring_size if ring_size > 1 else 0):
        after = (cube + 1) % ring_size
        table["ring_next"] |= _same_pe(topology, (0, cube), (0, after), pes)
        table["ring_prev"] |= _same_pe(topology, (0, after), (0, cube), pes)
    return table


def pe_ring_table(topology: Topology, pes: int) -> Table:
    """Directions `ring_prev ring_next` around PEs 0..pes-1 of cube 0 of SIP 0; the wrap is an XY route."""
    _check_count("pes", pes, topology.pes_per_cube, "PEs a cube", topology)
    members = range(pes if pes > 1 else 0)
    return {
        "ring_prev": {pe: (pe - 1) % pes for pe in members},
        "ring_next": {pe: (pe + 1) % pes for pe in members},
    }


def sip_mesh(sips: int) -> tuple[int, int]:
    """Width and height of the rectangle of SIPs: as square as can be, and no higher than wide."""
    height = max(h for h in range(1, sips + 1) if h * h <= sips and sips % h == 0)
    return sips // height, height


def sip_table(topology: Topology, sip_topology: str = "ring_1d") -> Table:
    """Directions `sip_E sip_W sip_N sip_S` between SIPs, each PE with the same cube and number.

    Parameters
    ----------
    topology
        The machine.
    sip_topology
        ``ring_1d``: sip_E and sip_W around all SIPs by index. ``torus_2d``: SIPs row-major in the rectangle
        of `sip_mesh`, closed in both directions. ``mesh_2d_no_wrap``: the same, open at the edges. A
        direction that would lead back to the same SIP is left out.

    Raises
    ------
    ValueError
        For another word; lists the three.
    """
    if sip_topology not in SIP_TOPOLOGIES:
        raise ValueError(f"sip_topology {sip_topology!r}: expected one of {', '.join(SIP_TOPOLOGIES)}")
    width, height = (topology.sips, 1) if sip_topology == "ring_1d" else sip_mesh(topology.sips)
    wrap = sip_topology != "mesh_2d_no_wrap"
    table: Table = {f"sip_{direction}": {} for direction in _STEPS}
    for sip in range(topology.sips):
        y, x = divmod(sip, width)
        for direction, (dx, dy) in _STEPS.items():
            to_x, to_y = x + dx, y + dy
            if wrap:
                to_x, to_y = to_x % width, to_y % height
            other = to_y * width + to_x
            if other == sip or not (0 <= to_x < width and 0 <= to_y < height):
                continue
            for cube in range(topology.cubes_per_sip):
                table[f"sip_{direction}"] |= _same_pe(topology, (sip, cube), (other, cube), None)
    return table


@lru_cache(maxsize=64)
def default_table(topology: Topology, cubes: int, pes_per_cube: int) -> Table:
    """Directions of a launch on cubes 0..cubes-1 of SIP 0 and PEs 0..pes_per_cube-1 of each.

    Mesh, chain and ring among the launch's own PEs; in a single cube the ring runs over its PEs.

    Raises
    ------
    TopologyError
        When the machine has fewer of them; names both.
    """
    _check_count("cubes", cubes, topology.cubes_per_sip, "cubes a SIP", topology)
    _check_count("pes_per_cube", pes_per_cube, topology.pes_per_cube, "PEs a cube", topology)
    return merge_tables(
        (
            mesh_table(topology, cubes, pes_per_cube),
            chain_table(topology, cubes, pes_per_cube),
            ring_table(topology, cubes, pes_per_cube) if cubes > 1 else pe_ring_table(topology, pes_per_cube),
        )
    )


def merge_tables(tables: Iterable[Table]) -> Table:
    """One table of several, without directions that lead nowhere; on the same PE a later table wins."""
    merged: Table = {}
    for table in tables:
        for direction, peers in table.items():
            if peers:
                merged[direction] = merged.get(direction, {}) | peers
    return merged


def _same_pe(
    topology: Topology, place: tuple[int, int], other: tuple[int, int], pes: int | None
) -> dict[int, int]:
    """Peers from one (SIP, cube) to another, number by number."""
    count = topology.pes_per_cube if pes is None else pes
    first, peer = topology.global_pe(*place, 0), topology.global_pe(*other, 0)
    return {first + pe: peer + pe for pe in range(count)}


def _check_count(field: str, asked: int, has: int, what: str, topology: Topology) -> None:
    if not 1 <= asked <= has:
        raise TopologyError(
            f"{field}={asked} does not fit topology '{topology.name}', which has {has} {what}; "
            f"expected 1..{has}"
        )


# Installation -----------------------------------------------------------------------------------------------


def configure_sfr_intercube_multisip(engine: Engine, spec: Topology, cfg: Mapping[str, Any]) -> None:
    """Install the mesh between cubes, the chain inside each cube, and the directions between SIPs.

    Parameters
    ----------
    engine
        Where to install; see `Engine`.
    spec
        The machine, `ctx.spec`.
    cfg
        What `resolve_algorithm_config` gave; of it, `sip_topology`.
    """
    engine.install_directions(_multisip_table(spec, cfg.get("sip_topology", "ring_1d")), OPPOSITE)


def configure_sfr_intercube_ring(
    engine: Engine, spec: Topology, cfg: Mapping[str, Any], ring_size: int
) -> None:
    """Close a ring over cubes 0..ring_size-1 of SIP 0, each PE number its own ring.

    A ring of one cube has no neighbours, so nothing is installed.

    Parameters
    ----------
    engine, spec, cfg
        As in `configure_sfr_intercube_multisip`; a ring reads nothing of `cfg`.
    ring_size
        C, cubes of the ring.

    Raises
    ------
    TopologyError
        When a SIP has fewer cubes than that; names both.
    """
    del cfg  # part of the signature that callers know
    engine.install_directions(_ring_table(spec, ring_size), OPPOSITE)


# The same machine asks for the same tables on every run: they are made once, and nobody changes them.


@lru_cache(maxsize=64)
def _multisip_table(topology: Topology, sip_topology: str) -> Table:
    return merge_tables((mesh_table(topology), chain_table(topology), sip_table(topology, sip_topology)))


@lru_cache(maxsize=64)
def _ring_table(topology: Topology, ring_size: int) -> Table:
    return merge_tables((ring_table(topology, ring_size),))
