"""Collectives: which neighbours a PE may send to, and the configuration of the algorithms."""

from __future__ import annotations

from kernbench_nb.ccl.install import load_ccl_config, resolve_algorithm_config
from kernbench_nb.ccl.sfr_config import (
    OPPOSITE,
    chain_table,
    configure_sfr_intercube_multisip,
    configure_sfr_intercube_ring,
    default_table,
    mesh_table,
    ring_table,
    sip_table,
)

__all__ = [
    "OPPOSITE",
    "chain_table",
    "configure_sfr_intercube_multisip",
    "configure_sfr_intercube_ring",
    "default_table",
    "load_ccl_config",
    "mesh_table",
    "resolve_algorithm_config",
    "ring_table",
    "sip_table",
]
