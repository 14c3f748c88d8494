"""`DPPolicy`: split or repeat a tensor over SIPs, then cubes, then PEs.

A split is contiguous, and the first parts are one longer where the length does not divide; parts may be
empty. Levels nest: a cube's part is what its PEs split further. 5 rows over 2 cubes x 4 PEs give 3 | 2 rows a
cube, then 1, 1, 1, 0 | 1, 1, 0, 0 a PE.
"""

from __future__ import annotations

import difflib
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, Protocol, get_args

from kernbench_nb.errors import PlacementError

__all__ = ["DPPolicy", "Machine", "Shard", "Split", "placement", "split"]

Split = Literal["replicate", "row_wise", "column_wise"]
Range = tuple[int, int]

_SPLITS: tuple[str, ...] = get_args(Split)


class Machine(Protocol):
    """What a placement needs to know of a topology."""

    @property
    def name(self) -> str:
        """Name of the topology, for errors."""

    @property
    def sips(self) -> int:
        """SIPs in all."""

    @property
    def cubes_per_sip(self) -> int:
        """Cubes of a SIP."""

    @property
    def pes_per_cube(self) -> int:
        """PEs of a cube."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DPPolicy:
    """Who holds what of a tensor.

    Attributes
    ----------
    cube, pe, sip
        What happens at that level: ``replicate`` (each holds all), ``row_wise`` (axis 0 is split) or
        ``column_wise`` (the last axis is split).
    num_cubes, num_pes, num_sips
        Over how many of that level, from 0 on: cubes of a SIP, PEs of a cube, SIPs.

    Raises
    ------
    PlacementError
        A `ValueError`: for another word (names the nearest) and for a count that is not a whole number from 1
        on.

    Examples
    --------
    >>> DPPolicy(cube="replicate", pe="row_wise", num_cubes=1, num_pes=8).pes
    8
    """

    cube: Split = "replicate"
    pe: Split = "replicate"
    num_cubes: int = 1
    num_pes: int = 1
    sip: Split = "replicate"
    num_sips: int = 1

    def __post_init__(self) -> None:
        for field in ("cube", "pe", "sip"):
            word = getattr(self, field)
            if word not in _SPLITS:
                like = (
                    difflib.get_close_matches(word, _SPLITS, n=1, cutoff=0.4) if isinstance(word, str) else []
                )
                raise PlacementError(
                    f"DPPolicy({field}={word!r}): expected one of {', '.join(map(repr, _SPLITS))}"
                    + (f"; did you mean {like[0]!r}?" if like else "")
                )
        for field in ("num_cubes", "num_pes", "num_sips"):
            count = getattr(self, field)
            if isinstance(count, bool) or not hasattr(count, "__index__") or operator.index(count) < 1:
                raise PlacementError(f"DPPolicy({field}={count!r}): expected a whole number from 1 on")
            object.__setattr__(self, field, operator.index(count))  # numpy's whole numbers become Python's

    @property
    def pes(self) -> int:
        """PEs that the policy covers in all."""
        return self.num_sips * self.num_cubes * self.num_pes

    @property
    def replicated(self) -> bool:
        """Whether every PE holds the whole tensor."""
        return self.sip == self.cube == self.pe == "replicate"


@dataclass(frozen=True, slots=True)
class Shard:
    """One PE's part of a tensor.

    Attributes
    ----------
    pe_global
        Global index of the PE.
    sip, cube, pe
        Its SIP, its cube in the SIP, its number in the cube.
    rows
        `(start, stop)` of axis 0.
    cols
        `(start, stop)` of the last axis; `(0, 1)` for a tensor with one axis.
    """

    pe_global: int
    sip: int
    cube: int
    pe: int
    rows: Range
    cols: Range

    def shape(self, full: Sequence[int]) -> tuple[int, ...]:
        """Shape of the part, given the shape of the whole."""
        return tuple(piece.stop - piece.start for piece in self.index(full))

    def index(self, full: Sequence[int]) -> tuple[slice, ...]:
        """Slices that take the part out of the whole, given the shape of the whole."""
        pieces = [slice(0, length) for length in full]
        if len(pieces) > 1:
            pieces[-1] = slice(*self.cols)
        if pieces:
            pieces[0] = slice(*self.rows)
        return tuple(pieces)


def split(whole: Range, parts: int) -> tuple[Range, ...]:
    """Cut a range into contiguous parts, the first ones one longer where it does not divide.

    Parameters
    ----------
    whole
        `(start, stop)`.
    parts
        How many; more parts than elements leaves the last ones empty.
    """
    start, stop = whole
    each, longer = divmod(stop - start, parts)
    cuts = [start + i * each + min(i, longer) for i in range(parts + 1)]
    return tuple(pairwise(cuts))


def placement(shape: Sequence[int], policy: DPPolicy, topology: Machine) -> tuple[Shard, ...]:
    """Each PE's part of a tensor, in order of global PE index.

    Parameters
    ----------
    shape
        Shape of the whole tensor. ``row_wise`` splits axis 0, ``column_wise`` the last axis.
    policy
        Who holds what.
    topology
        The machine, a `Topology`.

    Raises
    ------
    PlacementError
        When the policy asks for more SIPs, cubes or PEs than the topology has (names both), or splits an axis
        that the tensor does not have.
    """
    _check(shape, policy, topology)
    whole = ((0, shape[0]) if shape else (0, 1), (0, shape[-1]) if len(shape) > 1 else (0, 1))
    shards = []
    for sip, in_sip in enumerate(_level(whole, policy.sip, policy.num_sips)):
        for cube, in_cube in enumerate(_level(in_sip, policy.cube, policy.num_cubes)):
            first = (sip * topology.cubes_per_sip + cube) * topology.pes_per_cube
            for pe, (rows, cols) in enumerate(_level(in_cube, policy.pe, policy.num_pes)):
                shards.append(Shard(first + pe, sip, cube, pe, rows, cols))
    return tuple(shards)


def _level(part: tuple[Range, Range], how: Split, count: int) -> list[tuple[Range, Range]]:
    """Rows and columns of each member of one level, given those of the level above."""
    rows, cols = part
    if how == "row_wise":
        return [(piece, cols) for piece in split(rows, count)]
    if how == "column_wise":
        return [(rows, piece) for piece in split(cols, count)]
    return [part] * count


def _check(shape: Sequence[int], policy: DPPolicy, topology: Machine) -> None:
    for field, what, has in (
        ("num_sips", "SIPs", topology.sips),
        ("num_cubes", "cubes a SIP", topology.cubes_per_sip),
        ("num_pes", "PEs a cube", topology.pes_per_cube),
    ):
        asked = getattr(policy, field)
        if asked > has:
            raise PlacementError(
                f"DPPolicy({field}={asked}) does not fit topology '{topology.name}', which has {has} {what}; "
                f"lower {field} or take a larger topology"
            )
    if any(length < 0 for length in shape):
        raise PlacementError(f"expected a shape with no negative length, got {tuple(shape)}")
    used = {policy.sip, policy.cube, policy.pe}
    for how, rank, axes in (("row_wise", 1, "an axis"), ("column_wise", 2, "two axes")):
        if how in used and len(shape) < rank:
            raise PlacementError(
                f"{how!r} needs a tensor with at least {axes}, got shape {tuple(shape)}; "
                + ("use 'row_wise' or 'replicate'" if len(shape) else "use 'replicate'")
            )
