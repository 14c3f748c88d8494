"""What must hold after every run (machine.md, section 10): no resource does more than the time allows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from kernbench_nb.errors import ModelError
from kernbench_nb.sim_engine.trace import KIND, STRIDE

if TYPE_CHECKING:
    from kernbench_nb.sim_engine.engine import GraphEngine
    from kernbench_nb.sim_engine.port import Port

__all__ = ["check"]

PRIVATE = ("gemm", "math")
"""Engines that belong to one PE. DMA is checked by HBM slice, messages by link."""


def check(engine: GraphEngine, ports: Iterable[Port]) -> None:
    """Check every resource after a launch.

    Raises
    ------
    ModelError
        If one was busy for longer than there was time, or moved more bytes than its peak bandwidth allows.
    """
    total = engine.now_ps
    peak = engine.topology.costs.hbm_peak_gb_per_s
    for hbm in engine.slices.values():
        name = f"the HBM slice of PE {hbm.pe}"
        _busy(name, hbm.busy_ps, total)
        _rate(name, hbm.nbytes * 1000 <= peak * total, hbm.nbytes, total, peak)
    for use in engine.fabric.links.values():
        name = f"link {use.link.name}"
        _busy(name, use.busy_ps, total)
        rate = use.link.gb_per_s
        if rate is not None and not engine.fabric.wide:
            _rate(name, use.nbytes * 1000 <= rate * total, use.nbytes, total, rate)
    for port in ports:
        kinds = port.trace.kinds
        busy = dict.fromkeys(PRIVATE, 0)
        for index, times in Counter(port.trace.rows[KIND::STRIDE]).items():
            kind = kinds[index]
            if kind.engine in busy:
                busy[kind.engine] += times * kind.busy
        for name, ps in busy.items():
            _busy(f"the {name} engine of PE {port.pe}", ps, port.trace.end - port.start_ps)


def _busy(name: str, busy_ps: int, total_ps: int) -> None:
    if busy_ps > total_ps:
        raise ModelError(
            f"{name} was busy for {busy_ps:,} ps of {total_ps:,} ps. This is a bug of the timing model, not of the "
            "kernel."
        )


def _rate(name: str, holds: bool, nbytes: int, total_ps: int, peak: object) -> None:
    if not holds:
        raise ModelError(
            f"{name} moved {nbytes:,} B in {total_ps:,} ps, above its peak of {peak} GB/s. This is a bug of the "
            "timing model, not of the kernel."
        )
