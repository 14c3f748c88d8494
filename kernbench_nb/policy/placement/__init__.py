"""Placement: which PE holds which part of a tensor."""

from __future__ import annotations

from kernbench_nb.policy.placement.dp import DPPolicy, Shard, placement, split

__all__ = ["DPPolicy", "Shard", "placement", "split"]
