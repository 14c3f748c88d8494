"""From a run to tidy frames: where the bytes and the time went. Each function takes a `RunResult` (`compare` two)."""

from kernbench_nb.analysis.by_engine import by_engine
from kernbench_nb.analysis.compare import compare
from kernbench_nb.analysis.overlap import overlap
from kernbench_nb.analysis.roofline import roofline
from kernbench_nb.analysis.stalls import stalls
from kernbench_nb.analysis.sweep_terms import sweep_terms
from kernbench_nb.analysis.traffic import traffic

__all__ = ["by_engine", "compare", "overlap", "roofline", "stalls", "sweep_terms", "traffic"]
