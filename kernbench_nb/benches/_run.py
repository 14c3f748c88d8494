"""How an entry point runs: its arguments become a `Plan`, the plan runs on an engine, and a `RunResult` comes back."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Protocol

import numpy as np

from kernbench_nb.benches._checks import check_names
from kernbench_nb.benches._inputs import Array
from kernbench_nb.benches.reference import tolerance
from kernbench_nb.dtypes import DType
from kernbench_nb.runtime_api.context import BenchContext
from kernbench_nb.runtime_api.launch import attach
from kernbench_nb.runtime_api.record import Recorder
from kernbench_nb.runtime_api.result import Reference, RunResult
from kernbench_nb.runtime_api.tensor import Tensor
from kernbench_nb.runtime_api.types import resolve_device
from kernbench_nb.sim_engine import GraphEngine
from kernbench_nb.topology import Topology

__all__ = ["Given", "Options", "Plan", "entry_point"]

Values = Mapping[str, Array]
"""Tensors after a run, by name."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to run, whatever is run; every entry point takes these as keyword arguments.

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


class Given(Protocol):
    """Input arrays that were looked at: what every kind of input tells."""

    @property
    def arrays(self) -> tuple[Array, ...]:
        """What the reference is called with."""

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes by name, as results show them."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the output."""

    @property
    def dtype(self) -> DType:
        """What the kernel runs in."""

    @property
    def out_dtype(self) -> DType:
        """What its output is in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What an entry point has worked out before anything runs.

    Attributes
    ----------
    x, machine
        Inputs and topology.
    kernel
        The kernel, for the result.
    bench
        Makes tensors (``Q``, ``K`` and ``V`` among those of attention) and launches; gives the tensors of the output
        and of lse (or None).
    reference, tainted
        Called with `Given.arrays`: (output, lse) in float64, and which entries of the output a non-finite V row of
        another row of their tile may have spoiled (None if there is no such thing).
    shown
        Parameters of the result whose values are not the arguments as they were given.
    slack
        How much wider than the dtype's the tolerance of `check` has to be, given the tensors after the run.
    """

    x: Given
    machine: Topology
    kernel: Callable[..., Any]
    bench: Callable[[BenchContext], tuple[Tensor, Tensor | None]]
    reference: Callable[..., Any]
    tainted: Callable[..., Any] | None = None
    shown: Mapping[str, Any] = field(default_factory=dict)
    slack: Callable[[Values], float] = lambda values: 0.0


def entry_point(plan: Callable[..., Plan], face: str = "kb") -> Callable[..., RunResult]:
    """Make an entry point of a function that checks its arguments and works out a `Plan`; `face` is where it is found.

    The entry point takes that function's arguments and the fields of `Options`. Its result knows all of them, so that
    it can be run again with some changed. Arrays are not copied: a `check` or a second run sees them as they are then.
    """
    own = inspect.signature(plan)
    places = [p.name for p in own.parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    called = f"{face}.{plan.__name__}"
    shared = inspect.signature(Options).parameters.values()
    keywords = {p.name: p.default for p in own.parameters.values() if p.kind is p.KEYWORD_ONLY}
    known = (*keywords, *(p.name for p in shared))

    @wraps(plan)
    def entry(*arrays: Any, **arguments: Any) -> RunResult:
        arrays = _in_place(called, places, arrays, arguments)
        arguments = {
            n: value.item() if isinstance(value, np.generic) else value
            for n, value in arguments.items()
            if n not in places
        }
        check_names(called, arguments, known)
        given = {**keywords, **{n: value for n, value in arguments.items() if n in keywords}}
        options = Options(**{n: value for n, value in arguments.items() if n not in keywords})
        planned = plan(*arrays, **given)
        x = planned.x
        # numbers of heads are among the sizes
        given = {n: value for n, value in given.items() if n not in ("h_q", "h_kv", "topology")}
        params = {**x.sizes, **given, "dtype": x.dtype.name, **planned.shown}
        return _run(planned, options, params, lambda **changes: entry(*arrays, **{**arguments, **changes}))

    entry.__signature__ = own.replace(  # type: ignore[attr-defined]
        parameters=[*own.parameters.values(), *(p.replace(kind=p.KEYWORD_ONLY) for p in shared)],
        return_annotation="RunResult",
    )
    return entry


def _in_place(
    what: str, places: Sequence[str], arrays: tuple[Any, ...], arguments: Mapping[str, Any]
) -> tuple[Any, ...]:
    """The arrays in the order of their parameters, whether given by place or by name.

    Raises
    ------
    TypeError
        If there are too many, too few, or one is given twice.
    """
    wanted = ", ".join(places)
    if len(arrays) > len(places):
        raise TypeError(
            f"{what} takes {len(places)} positional arguments but {len(arrays)} were given: {wanted} go by place, "
            "everything else by name."
        )
    twice = [n for n in places[: len(arrays)] if n in arguments]
    missing = [n for n in places[len(arrays) :] if n not in arguments]
    if twice or missing:
        raise TypeError(
            f"{what} takes {wanted}: {(twice or missing)[0]} is {'given twice' if twice else 'missing'}."
        )
    return (*arrays, *(arguments[n] for n in places[len(arrays) :]))


def _run(plan: Plan, options: Options, params: dict[str, Any], again: Callable[..., RunResult]) -> RunResult:
    """Run a plan and put its result together."""
    x, tainted = plan.x, plan.tainted
    engine = GraphEngine(plan.machine, enable_data=options.data, wide_links=options.wide_links)
    recorder = Recorder.of(options.record, options.max_record_bytes, options.data)
    ctx = BenchContext(engine, resolve_device(None), scratch_checks=options.scratch_checks, recorder=recorder)

    def result(
        error: BaseException | None, out: Tensor | None = None, lse: Tensor | None = None
    ) -> RunResult:
        values = {name: t.numpy() for name, t in ctx.tensors.items() if t.written} if options.data else {}
        done = options.data and out is not None
        return RunResult.of(
            engine,
            kernel=plan.kernel,
            error=error,
            params=params,
            outputs=values,
            output=out.numpy().reshape(x.shape) if done and out else None,
            lse=lse.numpy() if done and lse else None,
            reference=Reference(
                lambda: plan.reference(*x.arrays),
                None if tainted is None else lambda: tainted(*x.arrays),
                tolerance(x.out_dtype) + (plan.slack(values) if done else 0.0),
            ),
            rerun=again,
        )

    try:
        out, lse = plan.bench(ctx)
    except Exception as error:
        attach(error, result)
        raise
    return result(None, out, lse)
