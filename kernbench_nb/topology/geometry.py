r"""Where PEs, cubes and SIPs are, and which links a message takes.

PEs of a cube, 4 x 2, numbered boustrophedon (as the ox ploughs), so chain neighbours are one hop apart; `W N
E S` are the cube's ports, each at one router::

      W,N                      E            x ->
       0 ---- 1 ---- 2 ---- 3             y  (0,0) (1,0) (2,0) (3,0)
       |      |      |      |             |  (0,1) (1,1) (2,1) (3,1)
       7 ---- 6 ---- 5 ---- 4             v
       S

    W and N at router (0, 0), E at (w-1, 0), S at (0, h-1).

Cubes of a SIP, 4 x 4, numbered row-major; each line is two cube links, one a direction::

       0 --  1 --  2 --  3
       |     |     |     |
       4 --  5 --  6 --  7
       |     |     |     |
       8 --  9 -- 10 -- 11
       |     |     |     |
      12 -- 13 -- 14 -- 15

Routing is X then Y in each mesh. Between cubes a message hops over the PE mesh to the port that faces the
next cube, takes the cube link, and comes in at the neighbour's facing port (leaving E it comes in at W, that
is at router (0, 0)); cubes in between are crossed over their PE meshes from port to port, so through traffic
is seen by their links.

SIPs hang on one non-blocking switch: every ordered pair of SIPs has its own SIP link, from router (0, 0) of
cube 0 to router (0, 0) of cube 0. Sharing of a SIP's own port is not modelled.

Cubes are crossed from port to port, so the way back may have another number of PE hops than the way there;
the number of cube and SIP links is always the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from itertools import permutations
from typing import Literal

from kernbench_nb.errors import TopologyError
from kernbench_nb.topology.costs import ceil_div, path_ps

__all__ = ["Geometry", "Link", "LinkClass", "Route", "Router", "xy_path"]

XY = tuple[int, int]
Router = tuple[int, int, int, int]
"""SIP, cube in the SIP, x and y in the cube's PE mesh."""


@dataclass(frozen=True, slots=True)
class LinkClass:
    """What all links of one kind have in common.

    Attributes
    ----------
    kind
        ``pe``, ``cube`` or ``sip``.
    gb_per_s
        Bandwidth in GB/s, exact; None when infinitely wide.
    latency_ps
        Latency in ps.
    """

    kind: Literal["pe", "cube", "sip"]
    gb_per_s: Fraction | None
    latency_ps: int


@dataclass(frozen=True, slots=True)
class Link:
    """One directed link.

    Attributes
    ----------
    index
        Position in `Geometry.links`.
    name
        Such as ``sip0.cube1.pe(0,0)->(1,0)``, ``sip0.cube0->cube1``, ``sip0->sip1``.
    gb_per_s
        Bandwidth in GB/s, that is bytes a ns, exact; None when infinitely wide.
    latency_ps
        Latency in ps.
    kind
        ``pe``, ``cube`` or ``sip``.
    source, target
        Routers at its two ends.
    """

    index: int
    name: str
    gb_per_s: Fraction | None
    latency_ps: int
    kind: Literal["pe", "cube", "sip"]
    source: Router
    target: Router

    def busy_ps(self, nbytes: int) -> int:
        """How long n bytes occupy this link, in ps, rounded up (see `costs.link_ps`)."""
        rate = self.gb_per_s
        return 0 if rate is None else ceil_div(nbytes * 1000 * rate.denominator, rate.numerator)


@dataclass(frozen=True, slots=True)
class Route:
    """The links from one PE to another, in order; empty from a PE to itself.

    Attributes
    ----------
    links
        Links in the order in which a message takes them.
    latency_ps
        Sum of their latencies.
    """

    links: tuple[Link, ...]
    latency_ps: int

    def alone_ps(self, nbytes: int) -> int:
        """Time of n bytes with nobody else on the way: `sum(latency) + n / min(b)`, in ps."""
        return path_ps(nbytes, self.links)


def xy_path(start: XY, stop: XY) -> Iterator[tuple[XY, XY]]:
    """Steps of X-then-Y routing in a mesh, as pairs of neighbouring positions."""
    (x, y), (to_x, to_y) = start, stop
    while (x, y) != (to_x, to_y):
        if x != to_x:
            nxt = (x + (1 if to_x > x else -1), y)
        else:
            nxt = (x, y + (1 if to_y > y else -1))
        yield (x, y), nxt
        x, y = nxt


@dataclass(frozen=True)
class Geometry:
    """Positions, numbers and routes of one machine.

    The global PE index is `(sip * cubes_per_sip + cube) * pes_per_cube + pe`.

    Attributes
    ----------
    name
        Name of the topology, for errors.
    sips
        Number of SIPs.
    cube_mesh, pe_mesh
        Width and height of the mesh of cubes in a SIP and of PEs in a cube.
    pe_link, cube_link, sip_link
        The three kinds of links.
    """

    name: str
    sips: int
    cube_mesh: XY
    pe_mesh: XY
    pe_link: LinkClass
    cube_link: LinkClass
    sip_link: LinkClass
    _routes: dict[tuple[int, int], Route] = field(default_factory=dict, init=False, repr=False, compare=False)

    # Counts and numbers

    @property
    def cubes_per_sip(self) -> int:
        """Cubes of a SIP."""
        return self.cube_mesh[0] * self.cube_mesh[1]

    @property
    def pes_per_cube(self) -> int:
        """PEs of a cube."""
        return self.pe_mesh[0] * self.pe_mesh[1]

    @property
    def pe_count(self) -> int:
        """PEs in all."""
        return self.sips * self.cubes_per_sip * self.pes_per_cube

    def locate(self, pe: int) -> tuple[int, int, int]:
        """SIP, cube in the SIP and PE in the cube of a global PE index.

        Raises
        ------
        TopologyError
            When the machine has no such PE.
        """
        self.check_pe(pe)
        cube, pe_in_cube = divmod(pe, self.pes_per_cube)
        sip, cube_in_sip = divmod(cube, self.cubes_per_sip)
        return sip, cube_in_sip, pe_in_cube

    def global_pe(self, sip: int, cube: int, pe: int) -> int:
        """Global index of a PE given by SIP, cube in the SIP and PE in the cube.

        Raises
        ------
        TopologyError
            When one of them is not in the machine.
        """
        for what, index, count in (
            ("SIP", sip, self.sips),
            ("cube", cube, self.cubes_per_sip),
            ("PE", pe, self.pes_per_cube),
        ):
            if not 0 <= index < count:
                raise TopologyError(
                    f"{what} {index} is not in topology '{self.name}': "
                    f"expected 0..{count - 1} ({self._shape()})"
                )
        return (sip * self.cubes_per_sip + cube) * self.pes_per_cube + pe

    def check_pe(self, pe: int) -> None:
        """Raise a `TopologyError` that names the topology and its PEs when there is no such PE."""
        if not 0 <= pe < self.pe_count:
            raise TopologyError(
                f"PE {pe} is not in topology '{self.name}': it has {self.pe_count} PEs, "
                f"0..{self.pe_count - 1} ({self._shape()})"
            )

    def _shape(self) -> str:
        return f"{self.sips} SIPs x {self.cubes_per_sip} cubes x {self.pes_per_cube} PEs"

    # Positions

    def pe_xy(self, pe_in_cube: int) -> XY:
        """Position of a PE in its cube's mesh, boustrophedon."""
        width = self.pe_mesh[0]
        y, x = divmod(pe_in_cube, width)
        return (width - 1 - x if y % 2 else x), y

    def cube_xy(self, cube: int) -> XY:
        """Position of a cube in its SIP's mesh, row-major."""
        y, x = divmod(cube, self.cube_mesh[0])
        return x, y

    def cube_at(self, x: int, y: int) -> int | None:
        """The cube at a position, or None beyond the edge of the mesh."""
        width, height = self.cube_mesh
        return y * width + x if 0 <= x < width and 0 <= y < height else None

    def port(self, side: str) -> XY:
        """Router of a cube's port, by side ``W``, ``N``, ``E`` or ``S``."""
        width, height = self.pe_mesh
        return {"W": (0, 0), "N": (0, 0), "E": (width - 1, 0), "S": (0, height - 1)}[side]

    def router(self, pe: int) -> Router:
        """Router of a PE given by its global index."""
        sip, cube, pe_in_cube = self.locate(pe)
        return (sip, cube, *self.pe_xy(pe_in_cube))

    # Links

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """Every directed link, in order of index: SIP by SIP PE links then cube links, then the SIP links."""
        found: list[Link] = []
        for name, kind, source, target in self._wires():
            found.append(Link(len(found), name, kind.gb_per_s, kind.latency_ps, kind.kind, source, target))
        return tuple(found)

    @cached_property
    def _between(self) -> dict[tuple[Router, Router], Link]:
        return {(link.source, link.target): link for link in self.links}

    def _wires(self) -> Iterator[tuple[str, LinkClass, Router, Router]]:
        """Name, kind and ends of every directed link."""
        for sip in range(self.sips):
            for cube in range(self.cubes_per_sip):
                for a, b in _mesh_edges(self.pe_mesh):
                    name = f"sip{sip}.cube{cube}.pe({a[0]},{a[1]})->({b[0]},{b[1]})"
                    yield name, self.pe_link, (sip, cube, *a), (sip, cube, *b)
            for a, b in _mesh_edges(self.cube_mesh):
                source, target = (y * self.cube_mesh[0] + x for x, y in (a, b))
                leave, enter = _sides(a, b)
                ends = (sip, source, *self.port(leave)), (sip, target, *self.port(enter))
                yield f"sip{sip}.cube{source}->cube{target}", self.cube_link, *ends
        for sip, other in permutations(range(self.sips), 2):
            yield f"sip{sip}->sip{other}", self.sip_link, (sip, 0, 0, 0), (other, 0, 0, 0)

    # Routes

    def route(self, src: int, dst: int) -> Route:
        """The way from one PE to another, by global index; made on first use, then kept.

        Raises
        ------
        TopologyError
            When the machine has no such PE.
        """
        known = self._routes.get((src, dst))
        if known is None:
            start, stop = self.router(src), self.router(dst)
            links = tuple(self._between[step] for step in self._steps(start, stop))
            known = self._routes[src, dst] = Route(links, sum(link.latency_ps for link in links))
        return known

    def _steps(self, start: Router, stop: Router) -> Iterator[tuple[Router, Router]]:
        """Pairs of routers, each the two ends of one link."""
        if start[0] == stop[0]:
            yield from self._steps_in_sip(start, stop)
            return
        leave, enter = (start[0], 0, 0, 0), (stop[0], 0, 0, 0)
        yield from self._steps_in_sip(start, leave)
        yield leave, enter
        yield from self._steps_in_sip(enter, stop)

    def _steps_in_sip(self, start: Router, stop: Router) -> Iterator[tuple[Router, Router]]:
        at = start
        for a, b in xy_path(self.cube_xy(start[1]), self.cube_xy(stop[1])):
            leave, enter = _sides(a, b)
            out = (*at[:2], *self.port(leave))
            into = (at[0], b[1] * self.cube_mesh[0] + b[0], *self.port(enter))
            yield from _steps_in_cube(at, out)
            yield out, into
            at = into
        yield from _steps_in_cube(at, stop)


def _steps_in_cube(start: Router, stop: Router) -> Iterator[tuple[Router, Router]]:
    for a, b in xy_path(start[2:], stop[2:]):
        yield (*start[:2], *a), (*start[:2], *b)


def _sides(a: XY, b: XY) -> tuple[str, str]:
    """The port by which `a` is left towards its neighbour `b`, and the port by which `b` is entered."""
    (ax, ay), (bx, by) = a, b
    if ay == by:
        return ("E", "W") if bx > ax else ("W", "E")
    return ("S", "N") if by > ay else ("N", "S")


def _mesh_edges(mesh: XY) -> Iterator[tuple[XY, XY]]:
    """Neighbouring positions of a mesh, each pair in both directions, in a fixed order."""
    width, height = mesh
    for y in range(height):
        for x in range(width):
            for to in ((x + 1, y), (x, y + 1)):
                if to[0] < width and to[1] < height:
                    yield (x, y), to
                    yield to, (x, y)
