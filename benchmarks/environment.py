"""Where figures were measured: one BLAS thread, no leftovers of other set-ups, and the facts that go with them.

Imported before numpy, since OpenBLAS reads its variables once.
"""

from __future__ import annotations

import os
import platform
import sys
from typing import Any

__all__ = ["clean", "facts", "load_average", "one_clean_process", "text"]

SLOWING = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
"""Set for the sake of some old library, these slow a current numpy: ratios would flatter whoever is not numpy."""

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")

PACKAGES = ("numpy", "greenlet", "ml_dtypes", "pandas", "simpy")


def clean(variables: dict[str, str]) -> dict[str, str]:
    """The environment to measure in: `SLOWING` gone, one thread each."""
    return {
        **{name: value for name, value in variables.items() if name not in SLOWING},
        **dict.fromkeys(THREADS, "1"),
    }


def one_clean_process() -> None:
    """Start this program again if its environment is not the one to measure in; it does not return then.

    Raises
    ------
    RuntimeError
        If numpy is there already: its threads would stay as they are.
    """
    wanted = clean(dict(os.environ))
    if wanted == dict(os.environ):
        return
    if "numpy" in sys.modules:
        raise RuntimeError(
            "numpy was imported before the environment was set up; run `python -m benchmarks`."
        )
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], wanted)


def load_average() -> float | None:
    """Processes that wanted a CPU in the last minute; figures of a busy machine are not worth much."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def facts(gc_on: bool) -> dict[str, Any]:
    """What the figures depend on; no names of users, hosts or folders."""
    from importlib.metadata import PackageNotFoundError, version

    import numpy  # noqa: F401 - threadpoolctl sees what is loaded
    from threadpoolctl import threadpool_info  # type: ignore[import-untyped]

    import kernbench_nb

    def found(package: str) -> str | None:
        try:
            return version(package)
        except PackageNotFoundError:
            return None

    blas = [
        {key: pool.get(key) for key in ("internal_api", "version", "num_threads", "architecture")}
        for pool in threadpool_info()
        if pool.get("user_api") == "blas"
    ]
    return {
        "kernbench_nb": kernbench_nb.__version__,
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "system": platform.system(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "packages": {package: found(package) for package in PACKAGES},
        "blas": blas,
        "gc": gc_on,
        "load_average_before": load_average(),
    }


def text(facts: dict[str, Any]) -> str:
    """The facts in a few lines."""
    packages = ", ".join(f"{name} {found}" for name, found in facts["packages"].items())
    blas = ", ".join(
        f"{b['internal_api']} {b['version']} for {b['architecture']}, {b['num_threads']} thread(s)"
        for b in facts["blas"]
    )
    return (
        f"kernbench_nb {facts['kernbench_nb']} on {facts['implementation']} {facts['python']}, {facts['machine']}, "
        f"{facts['cpus']} CPUs, load {facts['load_average_before']}, gc {'on' if facts['gc'] else 'off'}\n"
        f"{packages}\n{blas or 'no BLAS that threadpoolctl knows'}\n"
    )
