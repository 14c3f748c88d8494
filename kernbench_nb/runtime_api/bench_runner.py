"""`run_bench`: a bench function on an engine, and the `RunResult` of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernbench_nb.runtime_api.context import BenchContext
from kernbench_nb.runtime_api.launch import attach
from kernbench_nb.runtime_api.result import RunResult
from kernbench_nb.runtime_api.types import Device, resolve_device
from kernbench_nb.sim_engine import GraphEngine
from kernbench_nb.topology import resolve_topology

__all__ = ["run_bench"]


def run_bench(
    *,
    topology: Any,
    bench_fn: Callable[[BenchContext], Any],
    device: Device | str | None = None,
    engine_factory: Callable[[Any, Device], GraphEngine] | None = None,
) -> RunResult:
    """Run a bench.

    Parameters
    ----------
    topology
        A topology, or anything that `resolve_topology` knows (an object with ``topology_obj`` too).
    bench_fn
        Called with the context; makes tensors and launches kernels.
    device
        As `resolve_device` knows it.
    engine_factory
        Called with topology and device; by default an engine with data.

    Returns
    -------
    RunResult
        Of all launches.

    Raises
    ------
    Exception
        Whatever a kernel raised, with its own traceback and with ``error.run``, the run so far.
    """
    where = resolve_device(device)
    machine = topology if hasattr(topology, "topology_obj") else resolve_topology(topology)
    if engine_factory is None:
        engine = GraphEngine(getattr(machine, "topology_obj", machine), enable_data=True)
    else:
        engine = engine_factory(machine, where)
    ctx = BenchContext(engine, where)

    def result(error: BaseException | None) -> RunResult:
        outputs = (
            {name: t.numpy() for name, t in ctx.tensors.items() if t.written} if engine.enable_data else {}
        )
        return RunResult.of(engine, kernel=ctx.kernel, error=error, outputs=outputs)

    try:
        bench_fn(ctx)
    except Exception as error:
        attach(error, result)
        raise
    return result(None)
