"""Programs on PEs, interleaved by simulated time: links, HBM slices, message queues, and the log."""

from __future__ import annotations

from kernbench_nb.sim_engine.engine import GraphEngine, kinds_of
from kernbench_nb.sim_engine.fabric import Fabric, LinkUse
from kernbench_nb.sim_engine.port import Port
from kernbench_nb.sim_engine.trace import Kind, KindTable, Trace

__all__ = ["Fabric", "GraphEngine", "Kind", "KindTable", "LinkUse", "Port", "Trace", "kinds_of"]
