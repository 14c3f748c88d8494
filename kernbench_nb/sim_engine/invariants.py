"""What must hold after every run: no resource does more than the time allows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from typing import TYPE_CHECKING

from kernbench_nb.errors import ModelError, grouped
from kernbench_nb.sim_engine.trace import KIND, STRIDE, Trace

if TYPE_CHECKING:
    from kernbench_nb.sim_engine.engine import GraphEngine

__all__ = ["check_private", "check_shared"]

PRIVATE = ("gemm", "math")
"""Engines that belong to one PE. DMA is checked by HBM slice, messages by link."""


def check_shared(engine: GraphEngine) -> None:
    """Check HBM slices and links over all launches so far.

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
        _rate(name, hbm.nbytes, total, peak)
    for use in engine.fabric.links.values():
        name = f"link {use.link.name}"
        _busy(name, use.busy_ps, total)
        if use.link.gb_per_s is not None and not use.wide:
            _rate(name, use.nbytes, total, use.link.gb_per_s)


def check_private(runs: Iterable[tuple[Trace, int]]) -> None:
    """Check the engines that belong to one PE, over one launch.

    Parameters
    ----------
    runs
        Traces, each with the ps at which its launch started.

    Raises
    ------
    ModelError
        If one was busy for longer than its PE ran.
    """
    for trace, start_ps in runs:
        busy = dict.fromkeys(PRIVATE, 0)
        for index, times in Counter(trace.rows[KIND::STRIDE]).items():
            kind = trace.kinds[index]
            if kind.engine in busy:
                busy[kind.engine] += times * kind.busy
        for name, ps in busy.items():
            _busy(f"the {name} engine of PE {trace.pe}", ps, trace.end - start_ps)


def _busy(name: str, busy_ps: int, total_ps: int) -> None:
    if busy_ps > total_ps:
        raise ModelError(
            f"{name} was busy for {grouped(busy_ps)} ps of {grouped(total_ps)} ps. This is a bug of the timing model, "
            "not of the kernel."
        )


def _rate(name: str, nbytes: int, total_ps: int, gb_per_s: Fraction) -> None:
    if nbytes * 1000 > gb_per_s * total_ps:  # a GB/s is a byte a ns
        raise ModelError(
            f"{name} moved {grouped(nbytes)} B in {grouped(total_ps)} ps, above its peak of {float(gb_per_s):g} GB/s. "
            "This is a bug of the timing model, not of the kernel."
        )
