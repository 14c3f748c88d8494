"""Where the language meets the engine: one `TLContext` for each PE of a launch, and `kb.launch` for a user's kernel."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from kernbench_nb.ccl.sfr_config import OPPOSITE, default_table
from kernbench_nb.errors import PlacementError
from kernbench_nb.runtime_api.record import Recorder
from kernbench_nb.runtime_api.result import RunResult
from kernbench_nb.runtime_api.tensor import WholeTensor
from kernbench_nb.sim_engine import GraphEngine
from kernbench_nb.topology import Topology, resolve_topology
from kernbench_nb.triton_emu import TLContext

__all__ = ["launch", "pe_grid", "run_kernel"]

Grid = tuple[int, int, int]
"""How many SIPs, cubes of each, PEs of each cube take part."""


def run_kernel(
    engine: GraphEngine,
    kernel: Callable[..., Any],
    arguments: Callable[[int], tuple[Sequence[Any], Mapping[str, Any]]],
    grid: Grid,
    *,
    shared_slices: frozenset[int] = frozenset(),
    scratch_checks: str = "raise",
    recorder: Recorder | None = None,
) -> None:
    """Run a kernel on every PE of a grid.

    Parameters
    ----------
    engine
        The machine; its clock goes on from where it stands.
    kernel
        A Python function that takes ``tl``, as a keyword or as its last parameter.
    arguments
        For a global PE: positional and keyword arguments.
    grid
        SIPs, cubes and PEs that take part, from 0 on.
    shared_slices
        PEs whose HBM slice another PE may use.
    scratch_checks
        Safety level.
    recorder
        Keeps values at the end of each tile.
    """
    topology = engine.topology
    sips, cubes, pes = grid
    here = _invoke.__code__

    def program_on(sip: int, cube: int, pe: int) -> Callable[[Any], None]:
        def program(port: Any) -> None:
            tl = TLContext(
                scratch_size=topology.scratch_bytes,
                scratch_checks=scratch_checks,
                sink=port,
                costs=topology.costs,
                ids=(pe, cube, sip),
                nums=(pes, cubes, sips),
                machine=(topology.pes_per_cube, topology.cubes_per_sip),
                cube_mesh=topology.cube_mesh,
                data=engine.enable_data,
                start_ps=port.start_ps,
                runner=here,
                record=recorder,
            )
            args, more = arguments(port.pe)
            try:
                _invoke(kernel, args, more, tl)
                port.finish(tl.finish())
            finally:
                tl.release()

        return program

    programs = {
        topology.global_pe(sip, cube, pe): program_on(sip, cube, pe)
        for sip in range(sips)
        for cube in range(cubes)
        for pe in range(pes)
    }
    engine.run(programs, shared_slices)


def _invoke(kernel: Callable[..., Any], args: Sequence[Any], more: Mapping[str, Any], tl: TLContext) -> None:
    """Call the kernel; the call chain of its operations ends at this function."""
    kernel(*args, **more, tl=tl)


def pe_grid(topology: Topology, pes: int | None, cubes: int | None) -> Grid:
    """SIPs, cubes and PEs a cube for `pes` PEs in all.

    Up to one cube's PEs stand in one cube (unless `cubes` says otherwise); more must fill whole cubes.

    Raises
    ------
    PlacementError
        If the machine has no such grid; the numbers are named.
    """
    per_cube, per_sip = topology.pes_per_cube, topology.cubes_per_sip
    pes = (cubes or 1) if pes is None else pes
    for what, count in (("pes", pes), ("cubes", cubes)):
        if count is not None and (isinstance(count, bool) or not isinstance(count, int) or count < 1):
            raise PlacementError(f"{what} must be a whole number from 1 on, got {count!r}")
    if cubes is None:
        if pes <= per_cube:
            return 1, 1, pes
        if pes % per_cube:
            raise PlacementError(
                f"pes={pes} counts all PEs; above one cube's {per_cube} of topology {topology.name!r} it must be a "
                f"multiple of that, such as {pes // per_cube * per_cube} or {(pes // per_cube + 1) * per_cube}."
            )
        cubes = pes // per_cube
    if pes % cubes:
        raise PlacementError(f"pes={pes} counts all PEs and does not divide over cubes={cubes}.")
    each = pes // cubes
    if each > per_cube:
        raise PlacementError(
            f"pes={pes} on cubes={cubes} is {each} a cube; {topology.name!r} has {per_cube}."
        )
    sips = 1
    if cubes > per_sip:
        if cubes % per_sip or cubes // per_sip > topology.sips:
            raise PlacementError(
                f"cubes={cubes}: topology {topology.name!r} has {topology.sips} SIPs of {per_sip} cubes; above one "
                f"SIP's, cubes must be a multiple of {per_sip} and at most {topology.sips * per_sip}."
            )
        sips, cubes = cubes // per_sip, per_sip
    return sips, cubes, each


def launch(
    kernel: Callable[..., Any],
    *args: Any,
    pes: int | None = None,
    cubes: int | None = None,
    topology: Any = None,
    data: bool = True,
    scratch_checks: str = "raise",
    record: str | None = None,
    max_record_bytes: int = 64 << 20,
    wide_links: bool = False,
    **more: Any,
) -> RunResult:
    """Run your own kernel on numpy arrays.

    Parameters
    ----------
    kernel
        A function of tensors and numbers, and of ``tl``; one instance runs on each PE.
    args
        Arrays become tensors that every PE sees whole (each access is charged to the accessing PE's own HBM slice),
        named after the kernel's parameters. What the kernel stores is written back into the arrays. Everything else
        is passed on as it is.
    pes, cubes
        PEs in all, and over how many cubes; see `pe_grid`.
    topology
        Preset name, path, mapping or topology; None is ``ahbm``.
    data
        False runs in timing mode: no values, the same times.
    scratch_checks
        ``"raise"``, ``"poison"`` or ``"off"``.
    record, max_record_bytes
        ``"tiles"`` keeps values at the end of each tile, up to that many bytes.
    wide_links
        Run as if links were infinitely wide.
    more
        Keyword arguments of the kernel, arrays included.

    Returns
    -------
    RunResult
        ``run.outputs`` are the tensors after the run, in order of the arguments.

    Raises
    ------
    Exception
        Whatever the kernel raised, with its own traceback, and with ``error.run``, the run so far.
    """
    machine = resolve_topology(topology)
    grid = pe_grid(machine, pes, cubes)
    engine = GraphEngine(machine, enable_data=data, wide_links=wide_links)
    sips, in_sip, each = grid
    engine.install_directions(default_table(machine, in_sip, each), OPPOSITE)
    names = _parameter_names(kernel, len(args))
    tensors: dict[str, WholeTensor] = {}
    arrays: dict[str, np.ndarray[Any, Any]] = {}

    def wrap(name: str, value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return value
        arrays[name] = value
        tensor = tensors[name] = WholeTensor(name, value, data)
        return tensor.pointer(0, machine)

    positional = [wrap(name, value) for name, value in zip(names, args, strict=True)]
    keywords = {name: wrap(name, value) for name, value in more.items()}
    recorder = Recorder.of(record, max_record_bytes, data)
    everyone = frozenset(
        machine.global_pe(s, c, p) for s in range(sips) for c in range(in_sip) for p in range(each)
    )

    def result(error: BaseException | None) -> RunResult:
        return RunResult.of(
            engine,
            kernel=kernel,
            error=error,
            params={"pes": len(everyone), "cubes": sips * in_sip, **{k: v for k, v in more.items() if k not in arrays}},
            outputs={name: tensor.numpy() for name, tensor in tensors.items()} if data else {},
            output=written[0].numpy() if data and len(written := [t for t in tensors.values() if t.written]) == 1 else None,
            rerun=lambda **changes: launch(
                kernel, *args, pes=pes, cubes=cubes, topology=topology, scratch_checks=scratch_checks,
                **{"data": data, **changes}, **more,
            ),
        )  # fmt: skip

    try:
        run_kernel(
            engine,
            kernel,
            lambda pe: (positional, keywords),
            grid,
            # all PEs see the same bytes, so accesses must happen in order of time
            shared_slices=everyone if len(everyone) > 1 else frozenset(),
            scratch_checks=scratch_checks,
            recorder=recorder,
        )
    except Exception as error:
        attach(error, result)
        raise
    for name, tensor in tensors.items():
        if tensor.written:
            if not arrays[name].flags.writeable:
                raise ValueError(
                    f"the kernel stored to {name!r}, but the array given for it is read-only; pass a copy."
                )
            arrays[name][...] = tensor.numpy()
    return result(None)


def attach(error: Exception, result: Callable[[BaseException | None], RunResult]) -> None:
    """Give an error the run so far; an exception type without room for it stays as it is."""
    with suppress(AttributeError):
        error.run = result(error)  # type: ignore[attr-defined]


def _parameter_names(kernel: Callable[..., Any], count: int) -> list[str]:
    """Names of the kernel's first parameters; ``arg 3`` and so on beyond those that it names."""
    try:
        names = [
            p.name
            for p in inspect.signature(kernel).parameters.values()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
    except (TypeError, ValueError):
        names = []
    return [*names, *(f"arg {i}" for i in range(len(names), count))][:count]
