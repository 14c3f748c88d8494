"""From a run to tidy frames: where the bytes went. Each function takes a `RunResult` and returns a documented frame."""

from kernbench_nb.analysis.traffic import traffic

__all__ = ["traffic"]
