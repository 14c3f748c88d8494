"""What the attention entry points share: options, an engine, one run, its result."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from kernbench_nb.benches._inputs import Inputs
from kernbench_nb.benches.reference import tolerance
from kernbench_nb.runtime_api.context import BenchContext
from kernbench_nb.runtime_api.launch import attach
from kernbench_nb.runtime_api.record import Recorder
from kernbench_nb.runtime_api.result import Reference, RunResult
from kernbench_nb.runtime_api.types import resolve_device
from kernbench_nb.sim_engine import GraphEngine
from kernbench_nb.topology import Topology

__all__ = ["Options", "run_attention"]


@dataclass(frozen=True, slots=True)
class Options:
    """How to run, whatever is run.

    Attributes
    ----------
    data
        Whether tiles have values; without, times only.
    scratch_checks
        ``"raise"``, ``"poison"`` or ``"off"``.
    record
        ``"tiles"`` keeps values at the end of each tile, None does not.
    max_record_bytes
        How many bytes of them.
    wide_links
        Run as if links were infinitely wide.
    """

    data: bool = True
    scratch_checks: str = "raise"
    record: str | None = None
    max_record_bytes: int = 64 << 20
    wide_links: bool = False

    @classmethod
    def of(cls, given: dict[str, Any], name: str) -> Options:
        """Options from keyword arguments.

        Raises
        ------
        TypeError
            For one that there is not; the nearest is named.
        """
        known = [f.name for f in fields(cls)]
        for key in given:
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1)
                hint = (
                    f"; did you mean {near[0]}=?" if near else f"; it takes {', '.join(known)} beside its own"
                )
                raise TypeError(f"kb.{name} has no argument {key}={hint}")
        return cls(**given)


def run_attention(
    bench: Callable[[BenchContext], dict[str, Any]],
    x: Inputs,
    machine: Topology,
    options: Options,
    *,
    kernel: Callable[..., Any],
    params: dict[str, Any],
    reference: Callable[[], Any],
    tainted: Callable[[], Any],
    again: Callable[..., RunResult],
    slack: Callable[[BenchContext], float] = lambda ctx: 0.0,
) -> RunResult:
    """Run a bench that returns its output tensors, and put the result together.

    Parameters
    ----------
    bench
        Makes tensors and launches; returns ``{"output": Tensor, "lse": Tensor or None}``.
    x, machine, options
        Inputs, topology, and how to run.
    kernel, params
        For the result: what ran, and with which arguments.
    reference, tainted
        Give (O, lse) in float64, ``(T_q, h_q, d)`` and ``(T_q, h_q)``; and which entries of O a non-finite V row of
        another row of their tile may have spoiled.
    again
        Runs the same with changed arguments.
    slack
        How much wider than the dtype's the tolerance of `check` has to be, given the tensors after the run.
    """
    engine = GraphEngine(machine, enable_data=options.data, wide_links=options.wide_links)
    recorder = Recorder.of(options.record, options.max_record_bytes, options.data)
    ctx = BenchContext(engine, resolve_device(None), scratch_checks=options.scratch_checks, recorder=recorder)

    def result(error: BaseException | None, made: dict[str, Any]) -> RunResult:
        values = {name: tensor.numpy() for name, tensor in ctx.tensors.items()} if options.data else {}
        output = lse = None
        if options.data and made.get("output") is not None:
            output = made["output"].numpy().reshape(x.shape)
            lse = None if made["lse"] is None else made["lse"].numpy()
        check = Reference(
            reference, tainted, tolerance(x.out_dtype) + (0.0 if output is None else slack(ctx))
        )
        return RunResult.of(
            engine, kernel=kernel, error=error, params=params, outputs=values, output=output, lse=lse,
            reference=check, rerun=again,
        )  # fmt: skip

    try:
        made = bench(ctx)
    except Exception as error:
        attach(error, lambda e: result(e, {}))
        raise
    return result(None, made)
