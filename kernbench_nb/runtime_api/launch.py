"""Where the language meets the engine: one `TLContext` for each PE of a launch, and `kb.launch` for a user's kernel."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from kernbench_nb.ccl.sfr_config import (
    OPPOSITE,
    Table,
    chain_table,
    default_table,
    merge_tables,
    mesh_table,
    sip_table,
)
from kernbench_nb.errors import DTypeError, KernbenchError, PlacementError, grouped
from kernbench_nb.memory.scratch import CHECKS
from kernbench_nb.runtime_api.places import place_of_error
from kernbench_nb.runtime_api.record import Recorder
from kernbench_nb.runtime_api.result import RunResult
from kernbench_nb.runtime_api.tensor import WholeTensor
from kernbench_nb.sim_engine import GraphEngine
from kernbench_nb.topology import Topology, resolve_topology
from kernbench_nb.triton_emu import TLContext

__all__ = ["attach", "launch", "members", "pe_grid", "run_kernel"]

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
    options: Sequence[str] = (),
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
    options
        Keyword arguments of the caller itself: a misspelt one arrives here as one of the kernel's.

    Raises
    ------
    TypeError, ValueError
        If the kernel does not take these arguments, or there is no such safety level; before anything runs.
    """
    if scratch_checks not in CHECKS:
        raise ValueError(f"scratch_checks must be one of {', '.join(CHECKS)}, got {scratch_checks!r}")
    topology = engine.topology
    sips, cubes, pes = grid
    calls = {pe: arguments(pe) for pe in members(topology, grid)}
    _check_call(kernel, *calls[0], options)
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
            args, more = calls[port.pe]
            try:
                _invoke(kernel, args, more, tl)
                port.finish(tl.finish())
            except KernbenchError as error:  # the kernel's own errors arrive as they are
                place = place_of_error(error, here)
                error.add_note(
                    f"on PE {port.pe}, at {grouped(tl.now_ps)} ps{f', in {place}' if place else ''}"
                )
                raise
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


_SIGNATURES: WeakKeyDictionary[Callable[..., Any], inspect.Signature] = WeakKeyDictionary()


def _signature(kernel: Callable[..., Any]) -> inspect.Signature:
    """Of a function once: working it out takes as long as a tile."""
    if not isinstance(kernel, FunctionType):
        return inspect.signature(kernel)
    found = _SIGNATURES.get(kernel)
    if found is None:
        found = _SIGNATURES[kernel] = inspect.signature(kernel)
    return found


def _check_call(
    kernel: Callable[..., Any], args: Sequence[Any], more: Mapping[str, Any], options: Sequence[str]
) -> None:
    """Check that the kernel takes these arguments and ``tl``: an error here comes before anything runs."""
    try:
        signature = _signature(kernel)
    except ValueError:  # a callable that does not say what it takes
        return
    parameters = signature.parameters

    def shown() -> str:  # a signature takes longer to write than to look at
        return f"{getattr(kernel, '__name__', kernel)}{signature}"

    if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        if "tl" not in parameters or parameters["tl"].kind is inspect.Parameter.POSITIONAL_ONLY:
            raise TypeError(
                f"a kernel needs a parameter named tl, keyword-only or the last one, by which it sees its PE: "
                f"def {getattr(kernel, '__name__', 'kernel')}(..., *, tl). The kernel is {shown()}."
            )
        known = [*options, *(p for p in parameters if p != "tl")]
        for given in more:
            if given not in parameters:
                near = difflib.get_close_matches(given, known, n=1)
                hint = f"; did you mean {near[0]}=?" if near else "."
                choice = f" The launch itself takes {', '.join(f'{o}=' for o in options)}." if options else ""
                raise TypeError(
                    f"got an unexpected keyword argument {given!r}{hint} The kernel is {shown()}.{choice}"
                )
    try:
        signature.bind(*args, **more, tl=None)
    except TypeError as error:
        raise TypeError(
            f"{error}: the kernel is {shown()}, and was given {len(args)} "
            f"positional arguments{''.join(f', {name}=' for name in more)}; tl= is added to them."
        ) from None


def members(topology: Topology, grid: Grid) -> list[int]:
    """Global indices of the PEs of a grid, in order."""
    sips, cubes, pes = grid
    return [topology.global_pe(s, c, p) for s in range(sips) for c in range(cubes) for p in range(pes)]


def pe_grid(topology: Topology, pes: Any, cubes: Any) -> Grid:
    """SIPs, cubes and PEs a cube for `pes` PEs in all.

    Up to one cube's PEs stand in one cube (unless `cubes` says otherwise); more must fill whole cubes. With only
    `cubes` given there is one PE in each.

    Raises
    ------
    PlacementError
        If the machine has no such grid; the numbers are named.
    """
    for what, count in (("pes", pes), ("cubes", cubes)):
        if count is None:
            continue
        if isinstance(count, bool) or not isinstance(count, (int, np.integer)) or count < 1:
            raise PlacementError(f"{what} must be a whole number from 1 on, got {count!r}")
    per_cube, per_sip = topology.pes_per_cube, topology.cubes_per_sip
    pes = int((cubes or 1) if pes is None else pes)
    if pes > topology.pe_count:
        raise PlacementError(
            f"{'cubes' if cubes == pes else 'pes'}={pes}: topology {topology.name!r} has {topology.pe_count} PEs, in "
            f"{topology.sips * per_sip} cubes of {per_cube}."
        )
    if cubes is None:
        if pes <= per_cube:
            return 1, 1, pes
        if pes % per_cube:
            raise PlacementError(
                f"pes={pes} counts all PEs; above one cube's {per_cube} of topology {topology.name!r} it must be a "
                f"multiple of that, such as {pes // per_cube * per_cube} or {(pes // per_cube + 1) * per_cube}."
            )
        cubes = pes // per_cube
    cubes = int(cubes)
    if pes % cubes:
        near = [
            str(n) for n in (pes // cubes * cubes, (pes // cubes + 1) * cubes) if 0 < n <= cubes * per_cube
        ]
        raise PlacementError(
            f"pes={pes} counts all PEs and does not divide over cubes={cubes}"
            f"{'; say pes=' if near else ''}{' or '.join(near)}."
        )
    each = pes // cubes
    if each > per_cube:
        raise PlacementError(
            f"pes={pes} on cubes={cubes} is {each} a cube; {topology.name!r} has {per_cube}, so say "
            f"pes={cubes * per_cube} or fewer, or cubes={-(-pes // per_cube)} or more."
        )
    if cubes <= per_sip:
        return 1, cubes, each
    if cubes % per_sip or cubes // per_sip > topology.sips:
        raise PlacementError(
            f"cubes={cubes}: topology {topology.name!r} has {topology.sips} SIPs of {per_sip} cubes; above one "
            f"SIP's, cubes must be a multiple of {per_sip} and at most {topology.sips * per_sip}."
        )
    return cubes // per_sip, per_sip, each


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
        A function of tensors and numbers, and of a parameter named ``tl``, keyword-only or the last one; one instance
        runs on each PE.
    args
        Arrays become tensors that every PE sees whole (each access is charged to the accessing PE's own HBM slice),
        named after the kernel's parameters. What the kernel stores is written back into the arrays. Everything else
        is passed on as it is, tuples among it; a list of values must be made an array with np.asarray.
    pes, cubes
        PEs in all, and over how many cubes. Up to one cube's PEs stand in one cube, more must fill whole cubes,
        unless `cubes` says otherwise; `cubes` alone is one PE in each.
    topology
        Preset name, path, mapping or topology; None is ``ahbm``.
    data
        False runs in timing mode: no values, the same times.
    scratch_checks
        ``"raise"`` finds uses of scratch that was given back, never written or still in flight; ``"poison"`` only
        overwrites what is given back, with NaN in floats; ``"off"`` does neither.
    record, max_record_bytes
        ``"tiles"`` keeps values at the end of each tile, up to that many bytes.
    wide_links
        Run as if links were infinitely wide.
    more
        Keyword arguments of the kernel, arrays included.

    Returns
    -------
    RunResult
        ``run.outputs`` are the tensors after the run, in order of the arguments; ``run.output`` is the only one that
        the kernel stored to, and an error if it stored to several or none.

    Notes
    -----
    A tensor argument arrives as a pointer to its first element, rows one after the other. ``ptr + n`` is n elements
    further; there is no shape, so pass sizes as numbers. ``tl.load(ptr + start, shape, strides=...)`` takes a block,
    with the step between elements of each dimension in `strides` (a column of an (n, m) array: shape ``(n,)``, strides
    ``(m,)``). Where `mask` is false nothing is read or written: `other` says what such lanes hold, poison without it.

    Examples
    --------
    Rows of a matrix minus their maximum, in tiles of 4 rows; the last tile is masked.

    >>> import numpy as np
    >>> def shifted(x, out, n, m, *, tl):
    ...     for start in range(0, n, 4):
    ...         with tl.scratch_scope(f"rows {start}", kind="tile"):
    ...             inside = (tl.arange(0, 4) + start < n)[:, None]
    ...             rows = tl.load(x + start * m, (4, m), mask=inside, other=0.0)
    ...             tl.store(out + start * m, rows - rows.max(1, keep_dims=True), mask=inside)
    >>> x = np.arange(18, dtype=np.float32).reshape(6, 3)
    >>> out = np.empty_like(x)
    >>> run = launch(shifted, x, out, 6, 3)
    >>> out[5].tolist(), len(run.tiles)
    ([-2.0, -1.0, 0.0], 2)

    Raises
    ------
    TypeError
        If the kernel does not take these arguments, or a list stands for an array; before anything runs.
    ValueError
        If the kernel stored to an array that is read-only; no array is written then.
    Exception
        Whatever the kernel raised, with its own traceback, and with ``error.run``, the run so far.
    """
    machine = resolve_topology(topology)
    grid = pe_grid(machine, pes, cubes)
    everyone = members(machine, grid)
    recorder = Recorder.of(record, max_record_bytes, data)
    engine = GraphEngine(machine, enable_data=data, wide_links=wide_links)
    engine.install_directions(_directions(machine, grid), OPPOSITE)
    names = _parameter_names(kernel, len(args))
    tensors: dict[str, WholeTensor] = {}
    arrays: dict[str, np.ndarray[Any, Any]] = {}

    def wrap(name: str, value: Any) -> Any:
        """What the kernel gets for an argument; an array that is given twice is one tensor, as memory would be."""
        if not isinstance(value, np.ndarray):
            if isinstance(value, list) and _holds_floats(value):
                raise TypeError(
                    f"argument {name!r} is a list; only numpy arrays become tensors in HBM: pass np.asarray(...), of "
                    "a dtype such as np.float32."
                )
            return value
        twin = next((tensors[n] for n, array in arrays.items() if array is value), None)
        arrays[name] = value
        try:
            tensors[name] = twin or WholeTensor(name, value, data)
        except DTypeError as error:
            raise DTypeError(f"argument {name!r}: {error}") from None
        return tensors[name].pointer(0, machine)

    positional = [wrap(name, value) for name, value in zip(names, args, strict=True)]
    keywords = {name: wrap(name, value) for name, value in more.items()}

    def result(error: BaseException | None) -> RunResult:
        written = [tensor for tensor in dict.fromkeys(tensors.values()) if tensor.written]
        return RunResult.of(
            engine,
            kernel=kernel,
            error=error,
            params={
                "pes": len(everyone),
                "cubes": len(everyone) // grid[2],
                **{k: v for k, v in more.items() if k not in arrays},
            },
            outputs={name: tensor.numpy() for name, tensor in tensors.items()} if data else {},
            output=written[0].numpy() if len(written) == 1 and error is None else None,
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
            shared_slices=frozenset(everyone if len(everyone) > 1 else ()),
            scratch_checks=scratch_checks,
            recorder=recorder,
            options=_OPTIONS,
        )
        _write_back(arrays, tensors)
    except Exception as error:
        attach(error, result)
        raise
    return result(None)


_OPTIONS = [p.name for p in inspect.signature(launch).parameters.values() if p.kind is p.KEYWORD_ONLY]


def _write_back(arrays: Mapping[str, np.ndarray[Any, Any]], tensors: Mapping[str, WholeTensor]) -> None:
    """Put what the kernel stored into the arrays that it was given: into all of them, or into none."""
    stored = [name for name, tensor in tensors.items() if tensor.written]
    for name in stored:
        if not arrays[name].flags.writeable:
            raise ValueError(
                f"the kernel stored to {name!r}, but the array given for it is read-only; pass a copy."
            )
    for name in stored:
        arrays[name][...] = tensors[name].numpy()


def _directions(machine: Topology, grid: Grid) -> Table:
    """Mesh, chain and ring among a launch's own PEs; over several SIPs, those of the whole machine."""
    sips, cubes, pes = grid
    if sips == 1:
        return default_table(machine, cubes, pes)
    return merge_tables((mesh_table(machine), chain_table(machine), sip_table(machine)))


def _holds_floats(value: list[Any]) -> bool:
    """Whether a list, nested or not, begins with a float: then it stands for an array, and is no shape or plan."""
    first = value[0] if value else None
    return _holds_floats(first) if isinstance(first, list) else isinstance(first, (float, np.floating))


def attach(error: Exception, result: Callable[[BaseException | None], RunResult]) -> None:
    """Give an error the run so far; an exception type without room for it stays as it is."""
    with suppress(AttributeError):
        error.run = result(error)  # type: ignore[attr-defined]


def _parameter_names(kernel: Callable[..., Any], count: int) -> list[str]:
    """Names of the kernel's first parameters; ``arg 3`` and so on beyond those that it names."""
    try:
        names = [
            p.name
            for p in _signature(kernel).parameters.values()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
    except (TypeError, ValueError):
        names = []
    return [*names, *(f"arg {i}" for i in range(len(names), count))][:count]
