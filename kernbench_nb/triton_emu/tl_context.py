"""`tl`: what a kernel sees of its PE."""

from __future__ import annotations

import builtins
import warnings
from collections.abc import Callable
from sys import _getframe
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from kernbench_nb import dtypes
from kernbench_nb.dtypes import DType, i32, resolve_dtype
from kernbench_nb.errors import ScopeOrderError, UnwaitedLoadWarning
from kernbench_nb.memory import Scope, tile_type
from kernbench_nb.memory.scopes import new_scope
from kernbench_nb.sim_engine.trace import KindTable, Trace
from kernbench_nb.triton_emu import numerics
from kernbench_nb.triton_emu._messages import Messages
from kernbench_nb.triton_emu.handles import Handle, LoadFuture
from kernbench_nb.triton_emu.kinds import Costs, FreeOfCharge, Kinds
from kernbench_nb.triton_emu.promote import as_shape
from kernbench_nb.triton_emu.sink import Recorder, Sink

__all__ = ["TLContext"]

PS_PER_CYCLE = 1000
"""A cycle of a context that stands alone: 1 GHz."""

Range = tuple[int, int]


class TLContext(Messages):
    """The kernel language on one PE, for one kernel invocation.

    With an engine, a launch makes one for each PE. Alone (the default) it only records: operations take no time but
    their dispatch, HBM answers at once, and there are no values.

    Parameters
    ----------
    pe_id, num_programs
        Index of the PE in its cube, and number of PEs in a cube; see also `ids` and `nums`.
    dispatch_cycles
        Cycles a command (alone only; an engine's machine has its own).
    scratch_base, scratch_size
        Address and bytes of the kernel scratch, multiples of 16.
    scratch_checks
        ``"raise"`` also finds reads of bytes that were given back, never written or still in flight; ``"poison"`` only
        overwrites what is given back (0xFF, NaN in floats); ``"off"`` does neither. Addresses and times are the same.
    sink, costs
        The machine: where traffic and messages go, and what operations cost.
    ids, nums
        ``program_id`` and ``num_programs`` for the axes PE, cube, SIP.
    machine
        PEs of a cube and cubes of a SIP that the machine has, used or not; `pe_index` needs them.
    cube_mesh
        Width and height of the machine's mesh of cubes.
    data
        Whether tiles have values.
    start_ps
        Where the clock stands.
    runner
        Code of the function that calls the kernel: the call chain of an operation ends below it.
    record
        Called with (context, scope) at the end of each scope of kind ``tile``.

    Attributes
    ----------
    cube_mesh
        Width and height of the machine's mesh of cubes; cube c of a SIP stands in column ``c % width``, row
        ``c // width``.
    """

    __slots__ = ("_ids", "_machine", "_nums", "cube_mesh")

    float16 = f16 = dtypes.f16
    bfloat16 = bf16 = dtypes.bf16
    float32 = f32 = dtypes.f32
    float64 = f64 = dtypes.f64
    float8e4nv = f8e4m3 = dtypes.f8e4m3
    float8e5 = f8e5m2 = dtypes.f8e5m2
    int8 = i8 = dtypes.i8
    int16 = i16 = dtypes.i16
    int32 = i32 = dtypes.i32
    int64 = i64 = dtypes.i64
    uint8 = u8 = dtypes.u8
    uint16 = u16 = dtypes.u16
    uint32 = u32 = dtypes.u32
    int1 = bool_ = dtypes.bool_

    @staticmethod
    def cdiv(a: int, b: int) -> int:
        """Division rounded up, of non-negative integers."""
        return -(-a // b)

    def __init__(
        self,
        pe_id: int = 0,
        num_programs: int = 1,
        dispatch_cycles: int = 0,
        scratch_base: int = 0,
        scratch_size: int = 1 << 20,
        *,
        scratch_checks: str = "raise",
        sink: Sink | None = None,
        costs: Costs | None = None,
        ids: tuple[int, int, int] | None = None,
        nums: tuple[int, int, int] | None = None,
        machine: tuple[int, int] | None = None,
        cube_mesh: tuple[int, int] = (1, 1),
        data: bool = False,
        start_ps: int = 0,
        runner: CodeType | None = None,
        record: Callable[[Any, Scope], None] | None = None,
    ) -> None:
        if sink is None:
            sink = Recorder(Trace(pe_id, KindTable()))
        if costs is None:
            costs = FreeOfCharge(dispatch_cycles * PS_PER_CYCLE)
        self._ids = ids or (pe_id, 0, 0)
        self._nums = nums or (num_programs, 1, 1)
        self._machine = machine or self._nums[:2]
        self.cube_mesh = cube_mesh
        self._set_up(
            sink,
            Kinds.of(costs, sink.trace.kinds),
            scratch_base=scratch_base,
            scratch_size=scratch_size,
            checks=scratch_checks,
            data=data,
            start_ps=start_ps,
            runner=runner,
            record=record,
        )

    def __repr__(self) -> str:
        mode, scratch = "data" if self._data else "timing", self._scratch
        return (
            f"<tl of PE {self._trace.pe}, {mode} mode, {self._now} ps, "
            f"{scratch.cursor} B of {scratch.capacity} B in use>"
        )

    # -- who am I ----------------------------------------------------------------------------------------------

    def program_id(self, axis: int = 0) -> int:
        """Index of this program: axis 0 is the PE in its cube, 1 the cube in its SIP, 2 the SIP.

        Raises
        ------
        ValueError
            For another axis.
        """
        return self._ids[_axis(axis, "program_id")]

    def num_programs(self, axis: int = 0) -> int:
        """Number of programs along an axis, as in `program_id`."""
        return self._nums[_axis(axis, "num_programs")]

    def pe_index(self, pe: int, cube: int | None = None, sip: int | None = None) -> int:
        """Global index of a PE, as messages may be addressed to; cube and SIP are this program's by default.

        Parameters
        ----------
        pe, cube, sip
            Index of the PE in its cube, of the cube in its SIP, of the SIP.
        """
        pes, cubes = self._machine
        cube = self._ids[1] if cube is None else cube
        sip = self._ids[2] if sip is None else sip
        return (sip * cubes + cube) * pes + pe

    @property
    def now_ps(self) -> int:
        """The clock of this PE."""
        return self._now

    @property
    def commands(self) -> Trace:
        """Everything recorded so far."""
        return self._trace

    # -- creation ----------------------------------------------------------------------------------------------

    def arange(self, start: int, end: int, *, out: Handle | None = None, name: str | None = None) -> Handle:
        """``start, start + 1, ..., end - 1`` as i32, shape ``(end - start,)``. Costs a math operation.

        Raises
        ------
        ValueError
            If `end` is below `start`.
        """
        if end < start:
            raise ValueError(f"arange: end {end} is below start {start}")
        return self._create(
            "arange", (end - start,), i32, lambda: np.arange(start, end), out, name, _getframe(1)
        )

    def full(
        self, shape: Any, value: Any, dtype: Any, *, out: Handle | None = None, name: str | None = None
    ) -> Handle:
        """A tile filled with a number. Costs a math operation.

        Raises
        ------
        TypeError
            If `value` is no number.
        """
        if not isinstance(value, (int, float, np.generic)):
            raise TypeError(
                f"full: value must be a number, got {type(value).__name__}; a tile is shown in another shape with "
                "tl.broadcast_to."
            )
        return self._create(
            "full", shape, resolve_dtype(dtype), lambda: np.asarray(value), out, name, _getframe(1)
        )

    def zeros(
        self, shape: Any, dtype: Any = "f32", *, out: Handle | None = None, name: str | None = None
    ) -> Handle:
        """A tile of zeros; logged as `full`, which it is. Costs a math operation."""
        return self._create(
            "full", shape, resolve_dtype(dtype), lambda: np.asarray(0), out, name, _getframe(1)
        )

    def zeros_like(self, input: Handle, *, out: Handle | None = None, name: str | None = None) -> Handle:
        """A tile of zeros with the shape and dtype of another. Costs a math operation."""
        ty = self._own(input, "zeros_like").ty
        return self._create("full", ty.shape, ty.dtype, lambda: np.asarray(0), out, name, _getframe(1))

    def _create(
        self, op: str, shape: Any, dtype: DType, values: Callable[[], Any], out: Handle | None,
        name: str | None, frame: Any,
    ) -> Handle:  # fmt: skip
        frame = self._enter(frame)
        to = as_shape(shape, op)
        kind = self._kinds.create(op, to, dtype, None if out is None else self._own(out, "out=").ty)
        result = self._apply(kind, (), out, name, frame)
        if self._data:
            exact = values()
            rounded = np.empty(exact.shape, dtype.np)
            numerics.convert(rounded, exact)
            numerics.convert(result.arr, np.broadcast_to(rounded, to))
        return result

    def empty(self, shape: Any, dtype: Any = "f32", *, name: str | None = None) -> Handle:
        """Scratch without values: allocated, not written, free of charge. Reading it before writing is an error."""
        frame = self._enter(_getframe(1))
        return self._empty(shape, dtype, name, frame)

    def _empty(self, shape: Any, dtype: Any, name: str | None, frame: Any, written: bool = False) -> Handle:
        kind = self._kinds.empty(tile_type(as_shape(shape, "empty"), resolve_dtype(dtype)))
        handle = self._result(kind, None, name, frame)
        self._emit(kind, handle, name, frame)
        if not written and self._checks and handle.ty.n:
            self._watch.mark(handle.addr, handle.ty)
            self._guard(handle)
        return handle

    # -- scratch -----------------------------------------------------------------------------------------------

    def scratch_scope(
        self,
        label: str | None = None,
        *,
        kind: str = "scope",
        rows: Range | None = None,
        keys: Range | None = None,
        rewind: bool = True,
    ) -> Scope:
        """A scope of scratch: what is allocated inside ``with tl.scratch_scope():`` is given back when it ends.

        Parameters
        ----------
        label, kind
            What views call it. Scopes of kind ``tile`` are the rows of ``run.tiles``.
        rows, keys
            Global query and key ranges ``(start, stop)`` that it handles, for the score map.
        rewind
            False marks a tile but gives nothing back.

        Returns
        -------
        Scope
            With its label, kind, depth, savepoint and peak.
        """
        scope = new_scope(self._scratch, label, kind, rows, keys, rewind)
        frame = _getframe(1)
        if frame is not self._frame:
            frame = self._enter(frame)
        scope.chain, scope.at = self._chain, frame.f_lasti
        return scope

    @property
    def scratch(self) -> Any:
        """The allocator: cursor, high-water mark, capacity."""
        return self._scratch

    @property
    def _scratch_cursor(self) -> int:
        """Bytes in use (the seed system's name)."""
        return self._scratch.cursor

    @property
    def _scratch_size(self) -> int:
        return self._scratch.capacity

    @property
    def _scratch_base(self) -> int:
        return self._scratch.base

    def _scratch_alloc(self, nbytes: int) -> int:
        """Take bytes and return their address (the seed system's name)."""
        return self._scratch.alloc(nbytes)

    def _make_compute_out(self, shape: Any, dtype: Any = "f16") -> Handle:
        """Allocate what an operation would return (the seed system's name); it counts as written."""
        frame = self._enter(_getframe(1))
        return self._empty(shape, dtype, None, frame, written=True)

    def skip(self, rows: Range, keys: Range) -> None:
        """Record a tile that was not computed, such as one above the causal diagonal. Free of charge."""
        self._trace.skips.append((self._now, rows, keys))
        self.count("skipped_tiles")

    def count(self, name: str, n: int = 1) -> None:
        """Add to a counter of the run, ``run.counters[name]``. Free of charge."""
        counters = self._trace.counters
        counters[name] = counters.get(name, 0) + n

    # -- control and debugging ---------------------------------------------------------------------------------

    def range(self, *bounds: int, **hints: Any) -> builtins.range:
        """``range``; Triton's hints (`num_stages`, ...) are accepted and mean nothing here."""
        return builtins.range(*bounds)

    def static_range(self, *bounds: int, **hints: Any) -> builtins.range:
        """``range``: every loop is unrolled by Python."""
        return builtins.range(*bounds)

    @staticmethod
    def constexpr(value: Any) -> Any:
        """The value itself: everything but tiles is known when a kernel runs."""
        return value

    def device_print(self, prefix: str, *args: Any) -> None:
        """Print values with this program's ids (data mode), or types (timing mode)."""
        ids = ", ".join(map(str, self._ids))
        shown = [str(a.numpy()) if isinstance(a, Handle) and self._data else repr(a) for a in args]
        print(f"pid ({ids}) {prefix}", *shown)  # noqa: T201 - it is what the operation is for

    def device_assert(self, cond: Any, msg: str = "") -> None:
        """Check a condition, elementwise for a tile; skipped in timing mode, where tiles have no values.

        Raises
        ------
        AssertionError
            With the message and the kernel line.
        """
        if isinstance(cond, Handle):
            cond = not self._data or bool(self.value_of(cond, "device_assert").all())
        if not cond:
            raise AssertionError(f"device_assert failed at {self._line()}{': ' + msg if msg else ''}")

    def static_assert(self, cond: Any, msg: str = "") -> None:
        """Check a condition that is known without data.

        Raises
        ------
        AssertionError
            With the message and the kernel line.
        """
        if isinstance(cond, Handle):
            raise TypeError(
                "static_assert needs a condition that is known without data; use device_assert for tiles."
            )
        if not cond:
            raise AssertionError(f"static_assert failed at {self._line()}{': ' + msg if msg else ''}")

    # -- the end of the kernel ---------------------------------------------------------------------------------

    def finish(self) -> int:
        """End the invocation: report what was left open, and return the clock in ps.

        Warns
        -----
        UnwaitedLoadWarning
            For each load or message in flight that nobody waited for.

        Raises
        ------
        ScopeOrderError
            If a scope is still open (a generator that holds one was never finished).
        """
        self.release()
        trace = self._trace
        trace.end = self._now
        for future in self._flight:
            what = "load" if isinstance(future, LoadFuture) else "message"
            text = (
                f"the {what} into {self._title(future.handle)}, made{self._made(future.handle)}, was never waited on "
                "before the kernel ended"
            )
            trace.warnings.append(f"{UnwaitedLoadWarning.__name__}: {text} on PE {trace.pe}")
            warnings.warn(text, UnwaitedLoadWarning, stacklevel=2)  # without the PE: one text for all of them
        if self._scratch.depth:
            raise ScopeOrderError(
                f"the kernel ended on PE {trace.pe} with scope {self._scratch.arena.path!r} still open; enter scopes "
                "with `with`, and finish or close generators that hold one."
            )
        return self._now

    def release(self) -> None:
        """Let go of the kernel's frames, and of what ties the run to this context and its bytes."""
        self._frame = self._kernel = None
        self._scratch.retire()
        self._constants.clear()
        self._numbers.clear()
        self._steps.clear()


def _axis(axis: int, op: str) -> int:
    if axis not in (0, 1, 2):
        raise ValueError(f"{op}: axis must be 0 (PE in its cube), 1 (cube) or 2 (SIP), got {axis!r}")
    return axis


def _say_tl() -> None:
    """Let Python's own errors about arguments say ``tl.load()``, which is what the kernel called."""
    for room in TLContext.__mro__:
        for name, function in vars(room).items():
            if room is not object and isinstance(function, FunctionType) and not name.startswith("_"):
                function.__qualname__ = f"tl.{name}"


_say_tl()
