"""Where PEs are, and which links a message takes."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernbench_nb.errors import TopologyError
from kernbench_nb.topology import Route, Topology, geometry, resolve_topology

AHBM = resolve_topology("ahbm")


def machine(sips: int, cubes: tuple[int, int], pes: tuple[int, int]) -> Topology:
    return resolve_topology(
        {
            "base": "ahbm",
            "system.sips": sips,
            "system.cubes_wide": cubes[0],
            "system.cubes_high": cubes[1],
            "system.pes_wide": pes[0],
            "system.pes_high": pes[1],
        }
    )


MESH = st.tuples(st.integers(1, 4), st.integers(1, 3))
MACHINES = st.builds(machine, st.integers(1, 3), MESH, MESH)


def names(route: Route) -> list[str]:
    return [link.name for link in route.links]


def kinds(route: Route, kind: str) -> int:
    return sum(link.kind == kind for link in route.links)


# Positions


def test_pes_run_as_the_ox_ploughs() -> None:
    assert [AHBM.pe_xy(pe) for pe in range(8)] == [
        (0, 0), (1, 0), (2, 0), (3, 0),
        (3, 1), (2, 1), (1, 1), (0, 1),
    ]  # fmt: skip


def test_the_drawing_is_true() -> None:
    """The numbers drawn in the module's docstring, row by row, are those of the code."""
    assert geometry.__doc__ is not None
    drawn = [
        [int(number) for number in re.findall(r"\d+", line.strip().split("     ")[0])]
        for line in geometry.__doc__.splitlines()
        if re.match(r"\s+\d+ -+ +\d+ -", line)
    ]
    pes, cubes = drawn[:2], drawn[2:]
    assert pes == [[0, 1, 2, 3], [7, 6, 5, 4]]
    assert all(AHBM.pe_xy(pe) == (x, y) for y, row in enumerate(pes) for x, pe in enumerate(row))
    assert len(cubes) == 4
    assert all(
        AHBM.geometry.cube_xy(cube) == (x, y) for y, row in enumerate(cubes) for x, cube in enumerate(row)
    )


def test_ports() -> None:
    ports = {side: AHBM.geometry.port(side) for side in "WNES"}
    assert ports == {"W": (0, 0), "N": (0, 0), "E": (3, 0), "S": (0, 1)}


def test_cubes_at_positions() -> None:
    for topology in (AHBM, machine(1, (3, 2), (1, 1))):
        width, height = topology.cube_mesh
        at = topology.geometry.cube_at
        for y in range(-1, height + 1):
            for x in range(-1, width + 1):
                inside = 0 <= x < width and 0 <= y < height
                assert at(x, y) == (y * width + x if inside else None)


def test_global_numbers() -> None:
    assert AHBM.locate(0) == (0, 0, 0)
    assert AHBM.locate(7) == (0, 0, 7)
    assert AHBM.locate(8) == (0, 1, 0)
    assert AHBM.locate(128) == (1, 0, 0)
    assert AHBM.locate(255) == (1, 15, 7)
    assert [AHBM.global_pe(*AHBM.locate(pe)) for pe in range(256)] == list(range(256))


@pytest.mark.parametrize("pe", [-1, 256, 1000])
def test_a_pe_that_is_not_there(pe: int) -> None:
    text = f"PE {pe} is not in topology 'ahbm': it has 256 PEs, 0..255 (2 SIPs x 16 cubes x 8 PEs)"
    for ask in (lambda: AHBM.locate(pe), lambda: AHBM.route(pe, 0), lambda: AHBM.route(0, pe)):
        with pytest.raises(TopologyError) as caught:
            ask()
        assert str(caught.value) == text


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ((2, 0, 0), "SIP 2 is not in topology 'ahbm': expected 0..1"),
        ((0, 16, 0), "cube 16 is not in topology 'ahbm': expected 0..15"),
        ((0, 0, 8), "PE 8 is not in topology 'ahbm': expected 0..7"),
        ((0, -1, 0), "cube -1 is not in"),
    ],
)
def test_a_place_that_is_not_there(place: tuple[int, int, int], text: str) -> None:
    with pytest.raises(TopologyError) as caught:
        AHBM.global_pe(*place)
    assert text in str(caught.value)


# Links


def test_links_are_counted_named_and_numbered() -> None:
    # A cube: 2 rows of 3 and 4 columns of 1; a SIP: 4 rows of 3 and 4 columns of 3; both directions.
    assert len(AHBM.links) == 32 * 2 * (2 * 3 + 4) + 2 * 2 * (12 + 12) + 2
    assert [link.index for link in AHBM.links] == list(range(len(AHBM.links)))
    found = [link.name for link in AHBM.links]
    assert len(set(found)) == len(found)
    assert {"sip0.cube1.pe(0,0)->(1,0)", "sip0.cube0->cube1", "sip0->sip1", "sip1->sip0"} <= set(found)
    assert found[0] == "sip0.cube0.pe(0,0)->(1,0)"


@given(topology=MACHINES)
def test_every_link_has_one_the_other_way(topology: Topology) -> None:
    ends = {(link.source, link.target): link for link in topology.links}
    assert len(ends) == len(topology.links)
    for (source, target), link in ends.items():
        back = ends[target, source]
        assert (back.kind, back.gb_per_s, back.latency_ps) == (link.kind, link.gb_per_s, link.latency_ps)


def test_a_link_knows_how_long_bytes_occupy_it() -> None:
    pe = AHBM.route(0, 1).links[0]
    assert [pe.busy_ps(n) for n in (0, 1, 64, 65)] == [0, 16, 1000, 1016]
    fast = resolve_topology({"base": "ahbm", "pe.clock_ghz": 1.755}).route(0, 1).links[0]
    assert fast.busy_ps(64) == 570  # 64 B in one cycle


# Routes


def test_a_pe_to_itself() -> None:
    assert AHBM.route(5, 5) == Route((), 0)
    assert AHBM.route(5, 5).alone_ps(4096) == 0


def test_inside_a_cube_x_then_y() -> None:
    assert names(AHBM.route(0, 5)) == [
        "sip0.cube0.pe(0,0)->(1,0)",
        "sip0.cube0.pe(1,0)->(2,0)",
        "sip0.cube0.pe(2,0)->(2,1)",
    ]


def test_to_the_cube_in_the_east() -> None:
    route = AHBM.route(0, 8)
    assert names(route) == [
        "sip0.cube0.pe(0,0)->(1,0)",
        "sip0.cube0.pe(1,0)->(2,0)",
        "sip0.cube0.pe(2,0)->(3,0)",
        "sip0.cube0->cube1",
    ]
    assert route.latency_ps == 25_000
    # One block of 256 keys, d = 128, K and V in f16: D + n/b + latency is the 2 077 ns of the course.
    assert AHBM.costs.dispatch_ps + route.alone_ps(2 * 256 * 128 * 2) == 2_077_000


def test_to_the_cube_in_the_west_it_enters_at_the_eastern_port() -> None:
    assert names(AHBM.route(8, 0)) == [
        "sip0.cube1->cube0",
        "sip0.cube0.pe(3,0)->(2,0)",
        "sip0.cube0.pe(2,0)->(1,0)",
        "sip0.cube0.pe(1,0)->(0,0)",
    ]


def test_south_and_north() -> None:
    assert names(AHBM.route(0, 32)) == ["sip0.cube0.pe(0,0)->(0,1)", "sip0.cube0->cube4"]
    assert names(AHBM.route(32, 0)) == ["sip0.cube4->cube0", "sip0.cube0.pe(0,1)->(0,0)"]


def test_through_traffic_crosses_the_cubes_between() -> None:
    assert names(AHBM.route(4, 5 * 8 + 6)) == [
        "sip0.cube0.pe(3,1)->(3,0)",
        "sip0.cube0->cube1",
        "sip0.cube1.pe(0,0)->(0,1)",
        "sip0.cube1->cube5",
        "sip0.cube5.pe(0,0)->(1,0)",
        "sip0.cube5.pe(1,0)->(1,1)",
    ]
    crossing = names(AHBM.route(0, 16))
    assert crossing[3:8] == [
        "sip0.cube0->cube1",
        "sip0.cube1.pe(0,0)->(1,0)",
        "sip0.cube1.pe(1,0)->(2,0)",
        "sip0.cube1.pe(2,0)->(3,0)",
        "sip0.cube1->cube2",
    ]


def test_between_sips() -> None:
    assert names(AHBM.route(0, 128)) == ["sip0->sip1"]
    assert names(AHBM.route(8, 129)) == [
        "sip0.cube1->cube0",
        "sip0.cube0.pe(3,0)->(2,0)",
        "sip0.cube0.pe(2,0)->(1,0)",
        "sip0.cube0.pe(1,0)->(0,0)",
        "sip0->sip1",
        "sip1.cube0.pe(0,0)->(1,0)",
    ]
    three = machine(3, (1, 1), (1, 1))
    assert names(three.route(2, 1)) == ["sip2->sip1"]


def test_routes_are_made_once() -> None:
    assert AHBM.route(3, 77) is AHBM.route(3, 77)


def test_the_extra_hops_of_a_tree_over_eight() -> None:
    """The course's 20 ns: hops beyond one in each round of the tree 1, 2, 4 along PE 0."""
    hops = [len(AHBM.route(distance, 0).links) for distance in (1, 2, 4)]
    assert hops == [1, 2, 4]
    assert sum(hop - 1 for hop in hops) * 5 == 20


@given(topology=MACHINES, data=st.data())
def test_a_route_goes_from_link_to_link_and_ends_where_it_should(
    topology: Topology, data: st.DataObject
) -> None:
    pes = st.integers(0, topology.pe_count - 1)
    src, dst = data.draw(pes), data.draw(pes)
    route = topology.route(src, dst)
    stops = [topology.geometry.router(src), *(link.target for link in route.links)]
    assert [link.source for link in route.links] == stops[:-1]
    assert stops[-1] == topology.geometry.router(dst)
    assert len(set(stops)) == len(stops)  # no router twice
    assert route.latency_ps == sum(link.latency_ps for link in route.links)
    assert all(topology.links[link.index] is link for link in route.links)


@given(topology=MACHINES, data=st.data())
def test_the_way_back_takes_as_many_cube_and_sip_links(topology: Topology, data: st.DataObject) -> None:
    pes = st.integers(0, topology.pe_count - 1)
    src, dst = data.draw(pes), data.draw(pes)
    there, back = topology.route(src, dst), topology.route(dst, src)
    (sip, cube, pe), (to_sip, to_cube, to_pe) = topology.locate(src), topology.locate(dst)
    assert kinds(there, "sip") == kinds(back, "sip") == (sip != to_sip)
    assert kinds(there, "cube") == kinds(back, "cube")
    if (sip, cube) == (to_sip, to_cube):
        (x, y), (to_x, to_y) = topology.pe_xy(pe), topology.pe_xy(to_pe)
        assert len(there.links) == len(back.links) == abs(x - to_x) + abs(y - to_y)
    elif sip == to_sip:
        (x, y), (to_x, to_y) = topology.geometry.cube_xy(cube), topology.geometry.cube_xy(to_cube)
        assert kinds(there, "cube") == abs(x - to_x) + abs(y - to_y)
    if pe == to_pe == 0:
        assert len(there.links) == len(back.links)


@given(topology=MACHINES)
def test_chain_neighbours_are_one_hop_apart(topology: Topology) -> None:
    for pe in range(topology.pes_per_cube - 1):
        assert kinds(topology.route(pe, pe + 1), "pe") == len(topology.route(pe, pe + 1).links) == 1
        assert len(topology.route(pe + 1, pe).links) == 1


# Infinitely wide links


def test_wide_links_keep_latencies_and_forget_bandwidth() -> None:
    wide = AHBM.with_wide_links()
    assert wide.wide_links
    assert wide != AHBM
    assert wide.with_wide_links() is wide
    assert {link.gb_per_s for link in wide.links} == {None}
    assert wide.costs == AHBM.costs
    for dst in (1, 77, 200):
        assert wide.route(0, dst).latency_ps == AHBM.route(0, dst).latency_ps
        assert wide.route(0, dst).alone_ps(10**6) == AHBM.route(0, dst).latency_ps
        assert wide.route(0, dst).links[0].busy_ps(10**6) == 0
    assert AHBM.route(0, 1).alone_ps(64) == 6_000
