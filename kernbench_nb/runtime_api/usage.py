"""How much of the machine a run used, and what bound it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kernbench_nb.sim_engine.rows import Ints, Part, Rows
from kernbench_nb.sim_engine.trace import ENGINES
from kernbench_nb.topology import Topology

__all__ = ["Roofline", "Usage", "covered"]


@dataclass(frozen=True, slots=True)
class Roofline:
    """Where a run stands under the roof of the PEs that took part, and what binds it.

    Attributes
    ----------
    intensity
        FLOP of the products per HBM byte; infinite if nothing crossed HBM.
    peak_gflops, peak_gb_per_s
        Of all PEs that took part.
    attainable_gflops
        The roof at this intensity: min(peak, intensity * peak bandwidth).
    achieved_gflops, achieved_gb_per_s
        Over the makespan.
    compute_ps, bandwidth_ps, latency_ps
        On the PE that ended last: time with GEMM or math busy; with DMA or IPC busy; with none of them busy, that is
        dispatch, HBM and link latency, and waiting for others. Where engines overlap, the first two overlap too.
    compute_engine
        ``gemm`` or ``math``, whichever was busy longer there.
    binds
        The largest of the three: ``"compute"``, ``"bandwidth"`` or ``"latency"``; ``"nothing"`` if no time passed.
    """

    intensity: float
    peak_gflops: float
    peak_gb_per_s: float
    attainable_gflops: float
    achieved_gflops: float
    achieved_gb_per_s: float
    compute_ps: int
    bandwidth_ps: int
    latency_ps: int
    compute_engine: str
    binds: str


class Usage:
    """Sums over a run, exact in integers.

    Parameters
    ----------
    rows
        The decoded rows.
    topology
        The machine.

    Attributes
    ----------
    makespan_ps
        When the last kernel had ended and the last result was there.
    pes
        Global indices of the PEs that took part.
    busy_ps
        By PE and engine: how long it was occupied.
    hbm_bytes, flops
        Bytes that crossed HBM; 2*m*n*k of the products.
    """

    def __init__(self, rows: Rows, topology: Topology) -> None:
        self._rows = rows
        self._topology = topology
        self.makespan_ps: int = max(
            (int(rows.end.max(initial=0)), *(p.end_ps for p in rows.parts)),
        )
        self.pes: tuple[int, ...] = tuple(sorted({p.pe for p in rows.parts}))
        self.busy_ps: dict[int, dict[str, int]] = {pe: dict.fromkeys(ENGINES, 0) for pe in self.pes}
        self.hbm_bytes = 0
        self.flops = 0
        for part in rows.parts:
            # what rows of a kind share is multiplied by how many there are: no column is made, and nothing rounds
            counts = np.bincount(rows.kind[part.first : part.stop], minlength=len(rows.kinds)).tolist()
            busy = self.busy_ps[part.pe]
            for kind, count in zip(rows.kinds, counts, strict=True):
                if count and kind.engine:
                    busy[kind.engine] += count * kind.busy
                    self.hbm_bytes += count * kind.hbm
                    self.flops += count * kind.flops

    def __repr__(self) -> str:
        pes = len(self.pes)
        return (
            f"<Usage: {self.makespan_ps} ps on {pes} PE{'' if pes == 1 else 's'}, "
            f"{self.hbm_bytes} B of HBM, {self.flops} FLOP>"
        )

    @property
    def busy(self) -> dict[str, float]:
        """Share of the makespan that each engine was busy, the mean over the PEs that took part."""
        whole = self.makespan_ps * len(self.pes)
        total = {e: sum(by_engine[e] for by_engine in self.busy_ps.values()) for e in ENGINES}
        return {e: ps / whole if whole else 0.0 for e, ps in total.items()}

    @property
    def hbm_gb_per_s(self) -> float:
        """HBM bytes over the makespan; a byte a ns is a GB a second."""
        return 1000 * self.hbm_bytes / self.makespan_ps if self.makespan_ps else 0.0

    @property
    def hbm_peak_gb_per_s(self) -> float:
        """Peak of the HBM slices of the PEs that took part."""
        return float(self._topology.costs.hbm_peak_gb_per_s * len(self.pes))

    @property
    def gflops(self) -> float:
        """FLOP of the products over the makespan; a FLOP a ns is a GFLOP a second."""
        return 1000 * self.flops / self.makespan_ps if self.makespan_ps else 0.0

    @property
    def peak_gflops(self) -> float:
        """Peak of the GEMM engines of the PEs that took part: two FLOP a MAC."""
        costs = self._topology.costs
        return float(2 * costs.macs_per_cycle * costs.clock_ghz * len(self.pes))

    @property
    def mac_utilisation(self) -> float:
        """Share of the MACs that worked: FLOP achieved over peak.

        Lower than the GEMM engine's busy share when tiles are not filled and while the array fills.
        """
        return self.gflops / self.peak_gflops if self.peak_gflops else 0.0

    def roofline(self) -> Roofline:
        """See `Roofline`."""
        peak, bandwidth = self.peak_gflops, self.hbm_peak_gb_per_s
        intensity = self.flops / self.hbm_bytes if self.hbm_bytes else float("inf")
        compute, bandwidth_ps, latency, engine = self._critical()
        terms = {"compute": compute, "bandwidth": bandwidth_ps, "latency": latency}
        return Roofline(
            intensity=intensity,
            peak_gflops=peak,
            peak_gb_per_s=bandwidth,
            attainable_gflops=min(peak, intensity * bandwidth),
            achieved_gflops=self.gflops,
            achieved_gb_per_s=self.hbm_gb_per_s,
            compute_ps=compute,
            bandwidth_ps=bandwidth_ps,
            latency_ps=latency,
            compute_engine=engine,
            binds=max(terms, key=lambda term: terms[term]) if self.makespan_ps else "nothing",
        )

    def _critical(self) -> tuple[int, int, int, str]:
        """Compute, bandwidth and latency of the PE that ended last, and its busier compute engine."""
        ends: dict[int, int] = {}
        for part in self._rows.parts:
            last = int(self._rows.end[part.first : part.stop].max(initial=part.end_ps))
            ends[part.pe] = max(last, ends.get(part.pe, 0))
        if not ends:
            return 0, 0, 0, "gemm"
        pe = max(ends, key=lambda p: (ends[p], -p))
        parts = [part for part in self._rows.parts if part.pe == pe]
        compute = self._covered(parts, ("gemm", "math"))
        moving = self._covered(parts, ("dma", "ipc"))
        idle = self.makespan_ps - self._covered(parts, ENGINES)
        busy = self.busy_ps[pe]
        return compute, moving, idle, "gemm" if busy["gemm"] >= busy["math"] else "math"

    def _covered(self, parts: Sequence[Part], engines: Sequence[str]) -> int:
        rows = self._rows
        wanted = rows.are(lambda k: k.engine in engines and k.busy > 0)
        at = np.concatenate([p.first + np.flatnonzero(wanted[rows.kind[p.first : p.stop]]) for p in parts])
        busy = rows.of_kinds(lambda k: k.busy)[rows.kind[at]]
        return covered(rows.start[at], rows.start[at] + busy)


def covered(start: Ints, end: Ints) -> int:
    """Length of the union of intervals.

    >>> import numpy as np
    >>> covered(np.array([0, 5, 20]), np.array([10, 12, 30]))
    22
    """
    if not len(start):
        return 0
    order = np.argsort(start, kind="stable")
    start, end = start[order], end[order]
    reach = np.maximum.accumulate(end)
    # each interval adds what lies beyond all that began before it
    before = np.concatenate([start[:1], reach[:-1]])
    return int(np.maximum(end - np.maximum(start, before), 0).sum())
