"""What comes before and after a run: imports, a whole process, the log as a frame."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

from benchmarks import timing, workloads
from benchmarks.measure import Result, Settings, against, quiet

__all__ = ["CASES", "W1_PROCESS"]

REPO = str(Path(__file__).resolve().parents[1])

TIMED_IMPORT = "from time import process_time as t; a = t(); {}; print(t() - a)"

USED = "import kernbench_nb; kernbench_nb.decode"
"""The face is lazy and imports no room; this fetches what a first run needs."""

W1_PROCESS = """
import numpy as np
random = np.random.default_rng(0)
shapes = (1, 8, 128), (8192, 1, 128), (8192, 1, 128)
# any bits of these are an f16 between 2**-7 and 1; drawing normal numbers would take a third of the process
q, k, v = (random.integers(0x2000, 0x3C00, shape, np.uint16).view(np.float16) for shape in shapes)
"""

W1_OURS = W1_PROCESS + "import kernbench_nb as kb; print(kb.decode(q, k, v, pes=1).makespan_ns)"
W1_LOOP = W1_PROCESS + "from benchmarks.loops import decode_loop; print(decode_loop(q, k, v, 64).shape)"


def _python(code: str) -> str:
    """Run a program in a new interpreter, with bytecode kept as after any first use; gives what it prints."""
    env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, (REPO, env.get("PYTHONPATH"))))
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    return done.stdout


def _import_seconds(statement: str) -> Callable[[], float]:
    return lambda: float(_python(TIMED_IMPORT.format(statement)))


def imports(settings: Settings) -> list[Result]:
    """Import time over numpy's, each in a process of its own, seen from inside."""
    repetitions = settings.pick(15, 7, 1)
    bare = against(
        _import_seconds("import kernbench_nb"), _import_seconds("import numpy"), repetitions, settings
    )
    used = against(_import_seconds(USED), _import_seconds("import numpy"), repetitions, settings)
    return [
        Result(
            "import", "import kernbench_nb over import numpy", bare.ratio, at_most=1.3, later=True,
            more={"ms": median(bare.ours) * 1e3, "numpy, ms": median(bare.theirs) * 1e3},
        ),
        Result(
            "import, used", "import kernbench_nb and fetch kb.decode, over import numpy", used.ratio,
            more={"ms": median(used.ours) * 1e3, "numpy, ms": median(used.theirs) * 1e3},
        ),
    ]  # fmt: skip


def process(settings: Settings) -> list[Result]:
    """W1 as a whole process, seen from outside: interpreter, imports, random input, run, makespan printed."""
    pairs = against(
        lambda: _drop(W1_OURS), lambda: _drop(W1_LOOP), settings.pick(11, 5, 1), settings, clock=perf_counter
    )
    return [
        Result(
            "W1 process",
            "a whole process doing W1, in seconds on the wall",
            median(pairs.ours),
            "s",
            at_most=0.2,
            later=True,
            more={"best": min(pairs.ours), "over the numpy loop's process, x": pairs.ratio},
        )
    ]


def _drop(code: str) -> None:
    _python(code)


def frame(settings: Settings) -> list[Result]:
    """The log of about a million rows as a pandas frame, first look."""
    tiles = settings.pick(50_000, 10_000, 3)
    timing.package(workloads.sweep_kernel, 3).frame  # noqa: B018 - pandas is loaded now
    seconds, rows = [], 0
    for _ in range(settings.pick(3, 3, 1)):
        run = timing.package(workloads.sweep_kernel, tiles)
        with quiet(settings):
            start = process_time()
            rows = len(run.frame)
            seconds.append(process_time() - start)
        assert rows == timing.FOLD.count(tiles)
    return [
        Result(
            "log -> frame",
            "run.frame, seconds for a million rows",
            min(seconds) / rows * 1e6,
            "s",
            at_most=0.25,
            later=True,
            more={"rows": rows, "median": median(seconds) / rows * 1e6},
        )
    ]


CASES: dict[str, Callable[[Settings], list[Result]]] = {"frame": frame, "import": imports, "process": process}
