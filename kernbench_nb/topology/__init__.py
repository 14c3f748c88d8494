"""The machine: topology files, geometry, and every timing formula.

`resolve_topology` gives a `Topology`; `Topology.route` and `Topology.costs` answer what the engine asks;
`kernbench_nb.topology.costs` holds the formulas and their closed forms.
"""

from __future__ import annotations

from kernbench_nb.topology.builder import preset_names, resolve_topology
from kernbench_nb.topology.costs import CostModel
from kernbench_nb.topology.geometry import Link, Route
from kernbench_nb.topology.machine import Topology

__all__ = ["CostModel", "Link", "Route", "Topology", "preset_names", "resolve_topology"]
