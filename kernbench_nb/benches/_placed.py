"""Who holds what in a bench: rows by PE, as the placement splits them, and the shipped tables of who sends to whom."""

from __future__ import annotations

from functools import cache
from typing import Any

from kernbench_nb.ccl.install import load_ccl_config, resolve_algorithm_config
from kernbench_nb.policy.placement.dp import Split, split

__all__ = ["ccl_config", "cut", "own_rows"]


def cut(parts: int) -> Split:
    """How a level of `parts` members holds rows: there is nothing to split over one."""
    return "row_wise" if parts > 1 else "replicate"


def own_rows(tl: Any, n: int) -> tuple[int, int]:
    """First and one past the last of the rows that are this PE's: split over SIPs, then cubes, then PEs."""
    span = (0, n)
    for axis in (2, 1, 0):
        span = split(span, tl.num_programs(axis))[tl.program_id(axis)]
    return span


def ccl_config() -> dict[str, Any]:
    """The collective's configuration that the package ships."""
    return dict(_shipped())


@cache
def _shipped() -> dict[str, Any]:
    """Read once: parsing the file takes longer than checking every argument of a call."""
    return resolve_algorithm_config(load_ccl_config(), name="lrab_hierarchical_allreduce")
