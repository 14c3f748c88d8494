"""Tables of neighbours, and what is installed of them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernbench_nb.ccl import (
    OPPOSITE,
    chain_table,
    configure_sfr_intercube_multisip,
    configure_sfr_intercube_ring,
    default_table,
    mesh_table,
    ring_table,
    sip_table,
)
from kernbench_nb.ccl.sfr_config import Table, merge_tables, pe_ring_table, sip_mesh
from kernbench_nb.errors import TopologyError
from kernbench_nb.topology import Topology, resolve_topology

AHBM = resolve_topology("ahbm")
TINY = resolve_topology("tiny")


def machine(sips: int, cubes: tuple[int, int], pes: tuple[int, int]) -> Topology:
    return resolve_topology(
        {
            "base": "ahbm",
            "system": {
                "sips": sips,
                "cubes_wide": cubes[0],
                "cubes_high": cubes[1],
                "pes_wide": pes[0],
                "pes_high": pes[1],
            },
        }
    )


class Installed:
    """An engine of which only the directions are seen."""

    def __init__(self) -> None:
        self.calls: list[tuple[Mapping[str, Mapping[int, int]], Mapping[str, str]]] = []

    def install_directions(self, table: Mapping[str, Mapping[int, int]], opposite: Mapping[str, str]) -> None:
        self.calls.append((table, opposite))


def sends_are_received(table: Table) -> bool:
    """Whether each PE is, for its peer, the one in the opposite direction."""
    return all(
        table[OPPOSITE[direction]][peer] == pe
        for direction, peers in table.items()
        for pe, peer in peers.items()
    )


MESH = st.tuples(st.integers(1, 3), st.integers(1, 3))
MACHINES = st.builds(machine, st.integers(1, 6), MESH, MESH)


def test_opposites() -> None:
    assert OPPOSITE["E"] == "W"
    assert OPPOSITE["N"] == "S"
    assert OPPOSITE["pe_prev"] == "pe_next"
    assert OPPOSITE["ring_next"] == "ring_prev"
    assert OPPOSITE["sip_S"] == "sip_N"
    assert all(OPPOSITE[OPPOSITE[direction]] == direction for direction in OPPOSITE)
    assert len(OPPOSITE) == 12


def test_mesh() -> None:
    table = mesh_table(AHBM)
    pe = AHBM.global_pe(0, 5, 3)
    peers = {direction: AHBM.locate(table[direction][pe]) for direction in "EWNS"}
    assert peers == {"E": (0, 6, 3), "W": (0, 4, 3), "N": (0, 1, 3), "S": (0, 9, 3)}
    corner = AHBM.global_pe(1, 15, 7)
    assert [direction for direction in "EWNS" if corner in table[direction]] == ["W", "N"]
    assert [len(table[direction]) for direction in "EWNS"] == [2 * 12 * 8] * 4


def test_mesh_of_a_launch_stays_inside_it() -> None:
    table = mesh_table(AHBM, cubes=5, pes=2)
    assert table["E"] == {0: 8, 1: 9, 8: 16, 9: 17, 16: 24, 17: 25}
    assert table["S"] == {0: 32, 1: 33}
    assert sends_are_received(table)


def test_chain() -> None:
    table = chain_table(AHBM)
    assert table["pe_next"][0] == 1
    assert 7 not in table["pe_next"]
    assert 8 not in table["pe_prev"]
    assert table["pe_prev"][255] == 254
    assert chain_table(AHBM, cubes=2, pes=3)["pe_next"] == {0: 1, 1: 2, 8: 9, 9: 10}
    assert all(len(AHBM.route(pe, peer).links) == 1 for peers in table.values() for pe, peer in peers.items())


def test_ring() -> None:
    table = ring_table(AHBM, 4, pes=2)
    assert table["ring_next"] == {0: 8, 1: 9, 8: 16, 9: 17, 16: 24, 17: 25, 24: 0, 25: 1}
    assert table["ring_prev"] == {8: 0, 9: 1, 16: 8, 17: 9, 24: 16, 25: 17, 0: 24, 1: 25}
    assert len(ring_table(AHBM, 16)["ring_next"]) == 128


def test_small_rings() -> None:
    assert ring_table(AHBM, 1) == {"ring_prev": {}, "ring_next": {}}
    assert ring_table(TINY, 2, pes=1) == {"ring_prev": {0: 2, 2: 0}, "ring_next": {0: 2, 2: 0}}
    assert pe_ring_table(TINY, 1) == {"ring_prev": {}, "ring_next": {}}
    assert pe_ring_table(TINY, 2) == {"ring_prev": {0: 1, 1: 0}, "ring_next": {0: 1, 1: 0}}
    assert pe_ring_table(AHBM, 3) == {"ring_prev": {0: 2, 1: 0, 2: 1}, "ring_next": {0: 1, 1: 2, 2: 0}}


@pytest.mark.parametrize("size", [0, -1, 17])
def test_a_ring_that_does_not_fit(size: int) -> None:
    with pytest.raises(TopologyError) as caught:
        configure_sfr_intercube_ring(Installed(), AHBM, {}, ring_size=size)
    assert str(caught.value) == (
        f"ring_size={size} does not fit topology 'ahbm', which has 16 cubes a SIP; expected 1..16"
    )


# SIPs


@pytest.mark.parametrize(
    ("sips", "mesh"),
    [(1, (1, 1)), (2, (2, 1)), (3, (3, 1)), (4, (2, 2)), (6, (3, 2)), (7, (7, 1)), (8, (4, 2)), (9, (3, 3))],
)
def test_sips_are_laid_out_as_square_as_can_be(sips: int, mesh: tuple[int, int]) -> None:
    assert sip_mesh(sips) == mesh


def sip_peers(sips: int, kind: str) -> dict[str, dict[int, int]]:
    """Direction -> {SIP: SIP}, of one PE a SIP."""
    return {name: peers for name, peers in sip_table(machine(sips, (1, 1), (1, 1)), kind).items() if peers}


def test_sip_ring() -> None:
    assert sip_peers(1, "ring_1d") == {}
    assert sip_peers(2, "ring_1d") == {"sip_E": {0: 1, 1: 0}, "sip_W": {0: 1, 1: 0}}
    assert sip_peers(3, "ring_1d") == {"sip_E": {0: 1, 1: 2, 2: 0}, "sip_W": {0: 2, 1: 0, 2: 1}}


def test_sip_torus() -> None:
    assert sip_peers(1, "torus_2d") == {}
    assert sip_peers(3, "torus_2d") == sip_peers(3, "ring_1d")
    six = sip_peers(6, "torus_2d")  # 0 1 2 above 3 4 5
    assert six["sip_E"] == {0: 1, 1: 2, 2: 0, 3: 4, 4: 5, 5: 3}
    assert six["sip_S"] == six["sip_N"] == {0: 3, 1: 4, 2: 5, 3: 0, 4: 1, 5: 2}


def test_sip_mesh_without_wrap() -> None:
    assert sip_peers(2, "mesh_2d_no_wrap") == {"sip_E": {0: 1}, "sip_W": {1: 0}}
    six = sip_peers(6, "mesh_2d_no_wrap")
    assert six["sip_E"] == {0: 1, 1: 2, 3: 4, 4: 5}
    assert six["sip_S"] == {0: 3, 1: 4, 2: 5}
    assert six["sip_N"] == {3: 0, 4: 1, 5: 2}


def test_sips_exchange_between_the_same_cube_and_pe() -> None:
    table = sip_table(AHBM)
    assert all(AHBM.locate(pe)[1:] == AHBM.locate(peer)[1:] for pe, peer in table["sip_E"].items())
    assert len(table["sip_E"]) == 256


def test_an_unknown_sip_topology_lists_the_known() -> None:
    with pytest.raises(ValueError, match="'star': expected one of ring_1d, torus_2d, mesh_2d_no_wrap"):
        configure_sfr_intercube_multisip(Installed(), AHBM, {"sip_topology": "star"})


# Together


@given(topology=MACHINES, kind=st.sampled_from(["ring_1d", "torus_2d", "mesh_2d_no_wrap"]), data=st.data())
def test_what_is_sent_one_way_is_received_the_other(
    topology: Topology, kind: str, data: st.DataObject
) -> None:
    cubes = data.draw(st.integers(1, topology.cubes_per_sip))
    pes = data.draw(st.integers(1, topology.pes_per_cube))
    for table in (
        mesh_table(topology),
        mesh_table(topology, cubes, pes),
        chain_table(topology),
        ring_table(topology, cubes),
        pe_ring_table(topology, pes),
        sip_table(topology, kind),
        default_table(topology, cubes, pes),
    ):
        assert sends_are_received(table)
        for peers in table.values():
            assert all(pe != peer and max(pe, peer) < topology.pe_count for pe, peer in peers.items())
            assert len(set(peers.values())) == len(peers)


def test_a_launch_on_one_cube_has_a_ring_of_pes() -> None:
    assert default_table(AHBM, 1, 4) == {**chain_table(AHBM, 1, 4), **pe_ring_table(AHBM, 4)}
    assert default_table(AHBM, 1, 1) == {}


def test_a_launch_on_several_cubes_has_a_ring_of_cubes() -> None:
    table = default_table(AHBM, 4, 2)
    assert set(table) == {"E", "W", "pe_prev", "pe_next", "ring_prev", "ring_next"}
    assert table["ring_next"] == ring_table(AHBM, 4, 2)["ring_next"]
    assert default_table(AHBM, 2, 2)["ring_next"] == {0: 8, 1: 9, 8: 0, 9: 1}
    assert set(default_table(AHBM, 5, 1)) == {"E", "W", "N", "S", "ring_prev", "ring_next"}


@pytest.mark.parametrize(
    ("cubes", "pes", "text"),
    [(17, 1, "cubes=17 .* 16 cubes a SIP"), (1, 9, "pes_per_cube=9 .* 8 PEs a cube"), (0, 1, "cubes=0 ")],
)
def test_a_launch_that_does_not_fit(cubes: int, pes: int, text: str) -> None:
    with pytest.raises(TopologyError, match=text):
        default_table(AHBM, cubes, pes)


def test_merging_keeps_its_inputs_and_drops_what_leads_nowhere() -> None:
    first, second = {"E": {0: 1}, "W": {}}, {"E": {0: 2, 1: 3}}
    assert merge_tables((first, second)) == {"E": {0: 2, 1: 3}}
    assert first == {"E": {0: 1}, "W": {}}


def test_what_the_two_configurations_install() -> None:
    engine = Installed()
    configure_sfr_intercube_multisip(engine, AHBM, {"sip_topology": "ring_1d"})
    configure_sfr_intercube_ring(engine, AHBM, {}, ring_size=4)
    (mesh, opposite), (ring, _) = engine.calls
    assert set(mesh) == {"E", "W", "N", "S", "pe_prev", "pe_next", "sip_E", "sip_W"}
    assert ring == ring_table(AHBM, 4)
    assert opposite == OPPOSITE


def test_a_ring_of_one_cube_installs_nothing() -> None:
    engine = Installed()
    configure_sfr_intercube_ring(engine, AHBM, {}, ring_size=1)
    assert [table for table, _ in engine.calls] == [{}]
