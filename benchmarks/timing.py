"""Timing mode: operations a second, beside a SimPy model of the same work, and what the checks cost.

The package's side is the engine's run of a kernel, with source lines and checks on and every operation in the log; the
making of tensors and of the `RunResult` around it is told apart. An operation is a row of ``run.op_log``; SimPy's log
has as many. Before anything is timed, both makespans are compared: they are equal to the picosecond.
"""

from __future__ import annotations

from collections.abc import Callable
from time import process_time
from typing import Any

import numpy as np

import kernbench_nb as kb
from benchmarks import simpy_model, workloads
from benchmarks.measure import Result, Settings, against, engine_clock, quiet
from benchmarks.workloads import Fold
from kernbench_nb.topology import Topology

__all__ = ["CASES", "check_equal", "package"]

FOLD = Fold()


def package(kernel: Callable[..., Any], tiles: int, pes: int = 1, **options: Any) -> kb.RunResult:
    """Run one of the kernels of `workloads` in timing mode; PEs of one launch share their HBM slices."""
    q = np.zeros((FOLD.rows, FOLD.d), np.float16)
    kv = np.zeros((FOLD.tile, FOLD.d), np.float16)
    return kb.launch(kernel, q, kv, kv, FOLD, tiles, pes=pes, data=False, **options)


def check_equal(run: kb.RunResult, model: tuple[int, list[Any]]) -> int:
    """Compare a run with the SimPy model of it; gives the number of operations.

    Raises
    ------
    AssertionError
        If makespans, or operations by PE, name, start and end, differ.
    """
    makespan, log = model
    ours = [(r.pe, r.op_name, r.start_ps, r.end_ps) for r in run.op_log]
    assert max(end for *_, end in ours) == makespan, (max(end for *_, end in ours), makespan)
    ours, theirs = sorted(ours), sorted(log)
    assert len(ours) == len(theirs), (len(ours), len(theirs))
    assert ours == theirs, next(pair for pair in zip(ours, theirs, strict=True) if pair[0] != pair[1])
    return len(ours)


def _engine_seconds(
    kernel: Callable[..., Any], tiles: int, pes: int = 1, **options: Any
) -> Callable[[], float]:
    def work() -> float:
        with engine_clock() as clock:
            package(kernel, tiles, pes, **options)
        return clock.seconds

    return work


def _against_simpy(
    settings: Settings,
    name: str,
    what: str,
    kernel: Callable[..., Any],
    model: Callable[..., Any],
    pes: int,
    *,
    later: bool = False,
) -> list[Result]:
    machine: Topology = kb.resolve_topology()
    tiles = settings.pick(2000, 500, 3) // pes or 2
    ops = check_equal(package(kernel, tiles, pes), model(machine, FOLD, tiles, pes))
    pairs = against(
        _engine_seconds(kernel, tiles, pes),
        lambda: model(machine, FOLD, tiles, pes),
        settings.pick(9, 5, 1),
        settings,
    )
    rate = ops / min(pairs.ours) / 1e6
    simpy_rate = ops / min(pairs.theirs) / 1e6
    return [
        Result(
            name, what, rate, "M ops/s", at_least=1.5, later=later,
            more={"ns an operation": 1e3 / rate, "operations": ops, "tiles a PE": tiles, "PEs": pes},
        ),
        Result(
            f"{name} / SimPy", "times as fast as the SimPy model, the same makespan and log", 1.0 / pairs.ratio,
            best=1.0 / pairs.best_ratio, at_least=10.0, later=True, more={"SimPy, M ops/s": simpy_rate},
        ),
    ]  # fmt: skip


def one_pe(settings: Settings) -> list[Result]:
    """A decode sweep on one PE, about 20 operations a tile."""
    results = _against_simpy(
        settings, "sweep", "one PE sweeps tiles, the engine's run with source lines, log and checks",
        workloads.sweep_kernel, simpy_model.sweep, 1,
    )  # fmt: skip
    machine = kb.resolve_topology()
    tiles = settings.pick(2000, 500, 3)
    check_equal(package(workloads.sweep_kernel, tiles), simpy_model.sweep_bare(machine, FOLD, tiles))
    pairs = against(
        _engine_seconds(workloads.sweep_kernel, tiles),
        lambda: simpy_model.sweep_bare(machine, FOLD, tiles),
        settings.pick(9, 5, 1),
        settings,
    )
    results.append(
        Result(
            "sweep / bare SimPy",
            "times as fast as SimPy with one timeout an operation and no resources",
            1.0 / pairs.ratio,
            best=1.0 / pairs.best_ratio,
        )
    )
    return results


def whole_call(settings: Settings) -> list[Result]:
    """`kb.decode` in timing mode, arguments to `RunResult`, and how much of it is the engine."""
    one = np.zeros((), np.float16)
    keys = settings.pick(131_072, 32_768, 128)
    q = np.broadcast_to(one, (1, 8, 128))
    kv = np.broadcast_to(one, (keys, 1, 128))
    ops = len(kb.decode(q, kv, kv, pes=1, data=False).op_log)
    whole, engine = [], []
    for _ in range(settings.pick(7, 4, 1)):
        with quiet(settings), engine_clock() as clock:
            start = process_time()
            kb.decode(q, kv, kv, pes=1, data=False)
            whole.append(process_time() - start)
        engine.append(clock.seconds)
    return [
        Result(
            "decode, timing",
            "kb.decode(data=False) on one PE, from arguments to RunResult",
            ops / min(whole) / 1e6,
            "M ops/s",
            more={"engine only, M ops/s": ops / min(engine) / 1e6, "operations": ops},
        )
    ]


def shared_slices(settings: Settings) -> list[Result]:
    """The sweep on 4 PEs whose HBM slices may be used by others: each load goes by the scheduler."""
    return _against_simpy(
        settings, "shared HBM", "4 PEs sweep, their slices shared, so that each load reaches the scheduler",
        workloads.sweep_kernel, simpy_model.sweep, 4, later=True,
    )  # fmt: skip


def messages(settings: Settings) -> list[Result]:
    """4 PEs in pairs exchange each tile by two messages: 4 of 22 operations go by the scheduler."""
    return _against_simpy(
        settings, "messages", "4 PEs exchange K and V of each tile in pairs, over links and queues",
        workloads.exchange_kernel, simpy_model.exchange, 4, later=True,
    )  # fmt: skip


def checks(settings: Settings) -> list[Result]:
    """What ``scratch_checks="raise"`` costs over ``"off"``, source lines on."""
    tiles = settings.pick(2000, 500, 3)
    pairs = against(
        _engine_seconds(workloads.sweep_kernel, tiles),
        _engine_seconds(workloads.sweep_kernel, tiles, scratch_checks="off"),
        settings.pick(21, 9, 1),
        settings,
    )
    return [
        Result(
            "raise / off",
            'time with scratch_checks="raise" over "off", one PE',
            pairs.ratio,
            best=pairs.best_ratio,
            at_most=1.10,
        )
    ]


CASES: dict[str, Callable[[Settings], list[Result]]] = {
    "sweep": one_pe,
    "whole": whole_call,
    "shared": shared_slices,
    "messages": messages,
    "checks": checks,
}
