"""Data mode: attention with modelled time, scratch, log, source lines and checks, beside a plain numpy loop.

Ours is the whole call, arrays in, `RunResult` with its output out; how much of it the engine's run takes stands beside.
Before anything is timed both outputs are compared with float64.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import median

import kernbench_nb as kb
from benchmarks.loops import Array, attention_float64, decode_loop, prefill_loop, worst_error
from benchmarks.measure import Result, Settings, against, engine_clock
from benchmarks.workloads import DATA, Attention

__all__ = ["CASES", "check_equal", "loop", "package"]

TOLERANCE = 2e-3
"""For f16: ``|error| <= 2e-3 * (1 + |reference|)``."""

AT_MOST = {"W1": 1.6}
LATER = {"W2": 1.2, "W3": 1.5, "W4": 1.2}

REPETITIONS = {"W1": 40, "W2": 12, "W3": 15, "W4": 10}


def package(x: Attention, q: Array, k: Array, v: Array) -> kb.RunResult:
    """The package's side."""
    if x.tile_q:
        return kb.flash(q, k, v, tile_q=x.tile_q, tile_kv=x.tile)
    return kb.decode(q, k, v, pes=1, tile=x.tile)


def loop(x: Attention, q: Array, k: Array, v: Array) -> Array:
    """The numpy loop's side."""
    if x.tile_q:
        return prefill_loop(q[:, 0], k[:, 0], v[:, 0], x.tile_q, x.tile)[:, None]
    return decode_loop(q, k, v, x.tile)


def check_equal(x: Attention, q: Array, k: Array, v: Array) -> tuple[float, float]:
    """Worst errors of both sides against float64.

    Raises
    ------
    AssertionError
        If one is beyond the tolerance.
    """
    reference = attention_float64(q, k, v)
    errors = worst_error(package(x, q, k, v).output, reference), worst_error(loop(x, q, k, v), reference)
    assert max(errors) <= TOLERANCE, errors
    return errors


def run_case(name: str, settings: Settings) -> list[Result]:
    """One workload of `DATA`."""
    x = DATA[name]
    inputs = x.inputs()
    check_equal(x, *inputs)
    engine: list[float] = []

    def ours() -> None:
        with engine_clock() as clock:
            package(x, *inputs)
        engine.append(clock.seconds)

    repetitions = max(3, settings.pick(REPETITIONS[name], REPETITIONS[name] // 3, 1))
    pairs = against(ours, lambda: loop(x, *inputs), repetitions, settings)
    del engine[0]  # the warm-up's
    shape = f"{x.T_q} x {x.S_kv}, {x.h_q} heads on {x.h_kv}, d={x.d}, tile {x.tile}"
    return [
        Result(
            name,
            f"{'kb.flash' if x.tile_q else 'kb.decode'} of {shape}, whole call, over the numpy loop",
            pairs.ratio,
            best=pairs.best_ratio,
            at_most=AT_MOST.get(name, LATER.get(name)),
            later=name not in AT_MOST,
            more={
                "ours, ms": min(pairs.ours) * 1e3,
                "loop, ms": min(pairs.theirs) * 1e3,
                "engine only, x": median(e / b for e, b in zip(engine, pairs.theirs, strict=True)),
            },
        )
    ]


CASES: dict[str, Callable[[Settings], list[Result]]] = {name: partial(run_case, name) for name in DATA}
