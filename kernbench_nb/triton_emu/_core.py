"""The part of a `TLContext` that every operation goes through: allocation, checks, the clock, the row.

The sequence is always the same. Find the kind (and with it every shape and dtype error). Look at the operands if
their arena asks for it. Take scratch, or check ``out=``. Move the clock. Append the row. In data mode, compute.
Nothing is logged or allocated before everything that can be wrong was looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import CO_GENERATOR
from sys import _getframe
from types import CodeType, FrameType
from typing import Any

import numpy as np
import numpy.typing as npt

from kernbench_nb.dtypes import DType, bool_, f32, i32, i64
from kernbench_nb.errors import (
    KernbenchError,
    PendingLoadError,
    ReadBeforeWaitError,
    ScratchOverflowError,
    ShapeError,
    UninitializedReadError,
    UseAfterScopeError,
)
from kernbench_nb.memory import Block, Scope, ScratchAllocator, TileType, tile_type
from kernbench_nb.memory.store import ScratchBytes
from kernbench_nb.memory.watch import Watch
from kernbench_nb.sim_engine.live import find_allocation, find_closing, live_now, name_of_row, place_of_row
from kernbench_nb.sim_engine.source import place_of, variable_of
from kernbench_nb.sim_engine.trace import CLOSE, OPEN, OVERFLOW, Kind
from kernbench_nb.triton_emu import numerics
from kernbench_nb.triton_emu.handles import Handle, LoadFuture, RecvFuture, no_value
from kernbench_nb.triton_emu.kinds import Kinds
from kernbench_nb.triton_emu.sink import Sink

_INSIDE = ("kernbench_nb.triton_emu", "kernbench_nb.memory")
"""Packages whose frames are not the kernel's: operators, methods, scopes."""

_NO_CHAIN = -1
"""In place of the call chain of a frame that is not the kernel's but one of `_INSIDE`, called by the kernel."""

Array = npt.NDArray[Any]


class Core:
    """State of one kernel invocation on one PE."""

    __slots__ = (
        "_arrays",
        "_binary",
        "_bytes",
        "_calls",
        "_casts",
        "_chain",
        "_chains",
        "_checks",
        "_constants",
        "_copies",
        "_data",
        "_dispatch",
        "_dots",
        "_flight",
        "_frame",
        "_kernel",
        "_kernel_chain",
        "_kinds",
        "_log",
        "_now",
        "_numbers",
        "_record",
        "_reductions",
        "_runner",
        "_scratch",
        "_sends",
        "_sink",
        "_trace",
        "_unary",
        "_watch",
        "_watched",
    )

    def _set_up(
        self,
        sink: Sink,
        kinds: Kinds,
        *,
        scratch_base: int,
        scratch_size: int,
        checks: str,
        data: bool,
        start_ps: int,
        runner: CodeType | None,
        record: Callable[[Any, Scope], None] | None,
    ) -> None:
        trace = sink.trace
        trace.scratch_base, trace.capacity = scratch_base, scratch_size
        self._sink = sink
        self._trace = trace
        self._log = trace.rows.extend
        self._kinds = kinds
        self._binary = kinds.binary
        self._unary = kinds.unary
        self._reductions = kinds.reductions
        self._dots = kinds.dots
        self._casts = kinds.casts
        self._copies = kinds.copies
        self._dispatch = kinds.costs.dispatch_ps
        self._now = start_ps
        self._checks = checks == "raise"
        self._scratch = ScratchAllocator(
            scratch_size, base=scratch_base, checks=checks, watcher=self, live=self._live_blocks
        )
        self._scratch.root.index = 0
        trace.scopes.append(self._scratch.root)
        self._watch = Watch()
        self._watched: list[Scope] = []
        self._flight: list[LoadFuture | RecvFuture] = []
        self._data = data
        self._bytes = ScratchBytes(scratch_size, scratch_base) if data else None
        self._arrays: dict[TileType, dict[int, Array]] = self._bytes._views if self._bytes else {}
        self._constants: dict[Any, Handle] = {}
        self._runner = runner
        self._record = record
        self._chains: dict[Any, int] = {}
        self._frame: FrameType | None = None
        self._chain = 0
        self._kernel: FrameType | None = None
        self._kernel_chain = 0
        self._calls: dict[Any, int] = {}
        self._sends: dict[Any, Kind] = {}
        self._numbers: dict[TileType, dict[float, Handle]] = {}

    # -- where in the source -----------------------------------------------------------------------------------

    def _enter(self, frame: FrameType) -> FrameType:
        """The kernel's (or a shared function's) frame that called `tl`; its call chain becomes the current one."""
        kernel = self._kernel
        if frame is kernel:
            self._frame, self._chain = frame, self._kernel_chain
            return frame
        caller = frame.f_back
        call = None
        if caller is kernel and caller is not None:
            # the usual case: the kernel calls a shared function, or an operator; one look, once it was seen
            # by identity: hashing a code object costs 0.3 us, and the trace keeps those that it names alive
            call = id(frame.f_code), caller.f_lasti
            chain = self._calls.get(call)
            if chain is not None:
                if chain == _NO_CHAIN:
                    frame, chain = caller, self._kernel_chain
                self._frame, self._chain = frame, chain
                return frame
        while frame is not self._frame:
            if frame.f_globals.get("__package__") not in _INSIDE or caller is None:
                break
            if call is not None:
                self._calls[call], call = _NO_CHAIN, None
            frame, caller = caller, caller.f_back
        else:
            return frame
        if frame is kernel:
            self._frame, self._chain = frame, self._kernel_chain
            return frame
        self._frame, self._chain = frame, self._new_chain(frame)
        if frame.f_code.co_flags & CO_GENERATOR:  # the same frame may be asked from another line next time
            self._frame = None
        elif call is not None:
            self._calls[call] = self._chain
        return frame

    def _new_chain(self, frame: FrameType) -> int:
        """The index of a frame's call chain, found by walking up to the kernel."""
        runner, kernel = self._runner, self._kernel
        walk = [id(frame.f_code)]
        caller = frame.f_back if runner is not None else None
        while caller is not None and (code := caller.f_code) is not runner:
            walk.append(caller.f_lasti)
            if caller is kernel:  # above it nothing changes
                break
            walk.append(id(code))
            caller = caller.f_back
        key = tuple(walk)
        chain = self._chains.get(key)
        if chain is None:
            callers = []
            caller = frame.f_back if runner is not None else None
            while caller is not None and caller.f_code is not runner:
                callers.append((caller.f_code, caller.f_lasti))
                caller = caller.f_back
            chain = self._chains[key] = len(self._trace.chains)
            self._trace.chains.append((frame.f_code, tuple(callers)))
        if len(walk) == 1:
            self._kernel, self._kernel_chain = frame, chain
        return chain

    def _line(self) -> str:
        """The kernel line that is running now, as ``file:line  text``."""
        frame = self._enter(_getframe(1))
        return str(place_of(self._trace.chains[self._chain], frame.f_lasti))

    def _row_line(self, row: int) -> str:
        place = place_of_row(self._trace, row)
        return str(place) if place else ""

    # -- scratch -----------------------------------------------------------------------------------------------

    def _take(self, kind: Kind, name: str | None, frame: FrameType) -> int:
        """Allocate a kind's result the careful way: it does not fit, or the cursor is not where rounding leaves it."""
        ty = kind.ty
        assert ty is not None
        if kind.size == 0:
            return self._scratch.top
        try:
            return self._scratch.alloc(
                ty.nbytes,
                name=name or self._variable(frame),
                what=repr(ty),
                rows=ty.shape[0] if ty.shape else 0,
            )
        except ScratchOverflowError:
            log = self._log
            log((OVERFLOW, self._now, self._scratch.top, ty.nbytes, -1, name, self._chain, frame.f_lasti))
            raise

    def _variable(self, frame: FrameType) -> str:
        return variable_of(frame.f_code, frame.f_lasti) or ""

    def _handle(self, addr: int, ty: TileType, arena: Scope) -> Handle:
        handle = Handle()
        handle.addr = addr
        handle.ty = ty
        handle.arena = arena
        handle.tl = self  # type: ignore[assignment]
        if self._bytes is not None:
            handle.arr = self._bytes.view(addr, ty)
        return handle

    def _result(self, kind: Kind, out: Handle | None, name: str | None, frame: FrameType) -> Handle:
        """A new handle for a kind's result, or the checked ``out=``."""
        if out is not None:
            return out
        assert kind.ty is not None
        scratch = self._scratch
        addr = scratch.top
        top = addr + kind.size
        if top <= scratch.fast_top:
            scratch.top = top
        else:
            addr = self._take(kind, name, frame)
        return self._handle(addr, kind.ty, scratch.arena)

    def _emit(
        self, kind: Kind, out: Handle, name: str | None, frame: FrameType, a: int = -1, b: int = -1
    ) -> None:
        """Move the clock over a blocking operation and append its row."""
        self._now = now = self._now + kind.step
        log = self._log
        log((kind.index, now, out.addr, a, b, name, self._chain, frame.f_lasti))

    def _run1(self, kind: Kind, x: Handle, out: Handle | None, name: str | None, frame: FrameType) -> Handle:
        """A private operation on one operand, its kind known: checks, scratch, clock, row, numpy."""
        if x.arena.guard:
            self._inspect(x)
        if out is None:
            scratch = self._scratch
            addr = scratch.top
            top = addr + kind.size
            if top <= scratch.fast_top:
                scratch.top = top
            else:
                addr = self._take(kind, name, frame)
            out = Handle()
            out.addr = addr
            ty: TileType = kind.ty  # type: ignore[assignment]
            out.ty = ty
            out.arena = scratch.arena
            out.tl = self  # type: ignore[assignment]
            if self._data:
                try:
                    out.arr = self._arrays[ty][addr]
                except KeyError:
                    out.arr = self._bytes.view(addr, ty)  # type: ignore[union-attr]
        self._now = now = self._now + kind.step
        log = self._log
        log((kind.index, now, out.addr, x.addr, -1, name, self._chain, frame.f_lasti))
        if self._data and kind.run is not None:
            kind.run(x.arr, out.arr)
        return out

    def _run2(self, kind: Kind, x: Handle, y: Handle, name: str | None, frame: FrameType) -> Handle:
        """A private operation on two operands with a new result, its kind known."""
        if x.arena.guard or y.arena.guard:
            self._inspect(x, y)
        scratch = self._scratch
        addr = scratch.top
        top = addr + kind.size
        if top <= scratch.fast_top:
            scratch.top = top
        else:
            addr = self._take(kind, name, frame)
        out = Handle()
        out.addr = addr
        ty: TileType = kind.ty  # type: ignore[assignment]
        out.ty = ty
        out.arena = scratch.arena
        out.tl = self  # type: ignore[assignment]
        self._now = now = self._now + kind.step
        log = self._log
        log((kind.index, now, addr, x.addr, y.addr, name, self._chain, frame.f_lasti))
        if self._data:
            try:
                out.arr = self._arrays[ty][addr]
            except KeyError:
                out.arr = self._bytes.view(addr, ty)  # type: ignore[union-attr]
            kind.run(x.arr, y.arr, out.arr)  # type: ignore[misc]
        return out

    def _operand(self, value: Any, dtype: DType) -> Handle:
        """A tile as it is, or a Python number that takes the dtype of the tile beside it, as in Triton.

        Beside a lesser kind of dtype it keeps its own kind: a float beside integers is f32, an integer beside bool i32.

        Raises
        ------
        TypeError
            If it is no number.
        ValueError
            If it is an integer that the dtype cannot hold.
        """
        if value.__class__ is Handle:
            return self._own(value, "operand")
        if isinstance(value, np.generic):
            value = value.item()
        if isinstance(value, float):
            dtype = dtype if dtype.is_float else f32
        elif isinstance(value, int):
            if dtype is bool_ and not isinstance(value, bool):
                dtype = i32 if _fits(value, i32) else i64
            if not _fits(value, dtype):
                raise ValueError(
                    f"{value} beside a tile of {dtype}, which cannot hold it: convert the tile to a wider dtype "
                    "with .to()."
                )
        else:
            raise TypeError(
                f"expected a tile or a number beside a tile of {dtype}, got {type(value).__name__}; load or create it "
                "as a tile first."
            )
        key = (dtype, value.__class__, value)
        found = self._constants.get(key) if value else None  # 0.0 and -0.0 are equal, and not the same
        if found is None:
            found = Handle()
            found.addr = -1
            found.ty = tile_type((), dtype)
            found.arena = _NOWHERE
            found.tl = self  # type: ignore[assignment]
            if self._data:
                found.arr = np.empty((), dtype.np)
                numerics.convert(found.arr, np.asarray(value))
            if value:
                self._constants[key] = found
        return found

    # -- checks ------------------------------------------------------------------------------------------------

    def _own(self, value: Any, what: str) -> Handle:
        """`value`, which must be a handle of this PE."""
        if value.__class__ is not Handle:
            raise TypeError(f"{what}: expected a tile, got {type(value).__name__}")
        if value.tl is not self and value.addr >= 0:
            raise ValueError(
                f"{what}: this tile belongs to another PE or another launch; send it, or store it to HBM."
            )
        handle: Handle = value
        return handle

    def _inspect(self, *handles: Handle) -> None:
        """Check that operands whose arena is guarded may be read.

        Raises
        ------
        UseAfterScopeError, UninitializedReadError, ReadBeforeWaitError
            If one may not.
        """
        for handle in handles:
            if not handle.arena.guard:
                continue
            if handle.arena.dead:
                raise self._dead(handle)
            if self._coming(handle):
                raise self._in_flight(handle, "is read")
            if self._watch.touches(handle.addr, handle.ty):
                raise UninitializedReadError(
                    f"{self._title(handle)} is read at {self._line()}, but nothing was written to"
                    f"{'' if handle.ty.n == 1 else ' some of'} its bytes since it was made"
                    f"{self._made(handle)}. Fill it first (out=, tl.copy_to, tl.load), or make it with tl.zeros."
                )

    def _inspect_target(
        self, out: Handle, operands: tuple[Handle, ...], elementwise: bool, what: str = "out="
    ) -> None:
        """Check that a result may be written to `out`; an elementwise one also where exactly an operand stands.

        Raises
        ------
        UseAfterScopeError, ReadBeforeWaitError
            If its bytes were given back, or a load into them is in flight.
        ValueError
            If it shares bytes with an operand otherwise.
        """
        self._own(out, what)
        if out.arena.guard:
            if out.arena.dead:
                raise self._dead(out)
            if self._coming(out):
                raise self._in_flight(out, "is written")
        for operand in operands:
            if operand.addr < 0 or operand.addr >= out.addr + out.ty.extent:
                continue
            if out.addr >= operand.addr + operand.ty.extent or (
                elementwise and operand.addr == out.addr and operand.ty is out.ty
            ):
                continue
            if overlap(out.addr, out.ty, operand.addr, operand.ty):
                allowed = "it may be an operand only if it is exactly that" if elementwise else "it must not"
                raise ValueError(
                    f"{what} {self._title(out)} at {out.addr} shares bytes with the operand {self._title(operand)} at "
                    f"{operand.addr}; {allowed}. Write to other scratch and tl.copy_to it."
                )

    def _coming(self, handle: Handle) -> bool:
        """Whether a load or receive in flight will change some byte of a tile."""
        reach = handle.addr + handle.ty.extent
        for future in self._flight:
            target = future.handle
            if (
                target.addr < reach
                and handle.addr < target.addr + target.ty.extent
                and overlap(target.addr, target.ty, handle.addr, handle.ty)
            ):
                return True
        return False

    def _wrote(self, out: Handle) -> None:
        """Bytes that were not readable may be so now."""
        if out.arena.guard and self._watch.spans:
            self._watch.clear(out.addr, out.ty)
            if not self._watch.spans:
                self._unguard()

    def _guard(self, handle: Handle) -> None:
        """From now on, look at handles of this arena before they are used (level ``raise`` only)."""
        arena = handle.arena
        if self._checks and not arena.guard:
            arena.guard = True
            self._watched.append(arena)

    def _unguard(self) -> None:
        """Stop looking, if every byte is readable again."""
        if not self._watch.spans and not self._flight:
            for arena in self._watched:
                arena.guard = arena.state == "closed" if arena.rewind else arena.dead
            self._watched.clear()

    # -- errors ------------------------------------------------------------------------------------------------

    def _title(self, handle: Handle) -> str:
        name = self.name_of(handle)
        return f"{name!r} {handle.ty}" if name else f"a tile {handle.ty}"

    def _made(self, handle: Handle) -> str:
        row = self._row_of(handle)
        line = self._row_line(row) if row is not None else ""
        return f" at {line}" if line else ""

    def _in_flight(self, handle: Handle, verb: str) -> KernbenchError:
        return ReadBeforeWaitError(
            f"{self._title(handle)} {verb} at {self._line()}, but a load or message into it is still in flight "
            f"(destination made{self._made(handle)}). Call tl.wait(future) first."
        )

    def _dead(self, handle: Handle) -> UseAfterScopeError:
        owner = handle.arena.owner
        closing = find_closing(self._trace, owner.index)
        ended = "" if closing is None else self._row_line(closing)
        now_there = [b for b in self._live_blocks() if b.addr < handle.addr + handle.ty.extent
                     and handle.addr < b.addr + max(b.nbytes, 1)]  # fmt: skip
        if now_there:
            tenants = "; its bytes now belong to " + ", ".join(
                f"{b.name or 'a tile'} {b.what}".strip() for b in now_there[:3]
            )
        else:
            tenants = "; its bytes belong to nobody now"
        return UseAfterScopeError(
            f"{self._title(handle)} is used at {self._line()} after its scope ended: it was made"
            f"{self._made(handle)} in scope {handle.arena.path!r}, which ended{f' at {ended}' if ended else ''}"
            f"{tenants}. Keep what must survive outside the scope: tl.copy_to a handle made before it. (x *= a and "
            "m = m_new rebind a name to a new handle, which dies with the scope.)"
        )

    def _row_of(self, handle: Handle) -> int | None:
        return find_allocation(self._trace, handle.addr, handle.arena.index)

    def _live_blocks(self) -> list[Block]:
        return live_now(self._trace)

    def name_of(self, handle: Handle) -> str:
        """The name given with ``name=``, or else the variable that the kernel assigned the tile to."""
        if handle.addr < 0:
            return repr(handle.arr.item()) if self._data else "a number"
        row = self._row_of(handle)
        return "" if row is None else name_of_row(self._trace, row)

    def value_of(self, handle: Handle, what: str) -> Array:
        """A copy of a handle's values, checked like any read.

        Raises
        ------
        DataModeError
            In timing mode.
        """
        if not self._data:
            raise no_value(what, handle)
        if handle.arena.guard:
            self._inspect(handle)
        if handle.ty.dtype is bool_:
            return np.asarray(handle.arr.view(np.uint8) != 0)
        return np.array(handle.arr)

    def view_of(self, addr: int, ty: TileType) -> Array:
        """The bytes at an address as they are, unchecked: for whoever records (data mode only)."""
        assert self._bytes is not None
        return self._bytes.view(addr, ty)

    # -- scopes: what the allocator tells -----------------------------------------------------------------------

    def scope_opened(self, scope: Scope) -> None:
        """Record a scope's opening."""
        scopes = self._trace.scopes
        scope.index = index = len(scopes)
        scopes.append(scope)
        log = self._log
        log((OPEN, self._now, scope.save, index, -1, scope.label, scope.chain, scope.at))

    def scope_closing(self, scope: Scope, failing: bool) -> Exception | None:
        """Record values and the closing, poison, and see whether something is in flight into these bytes."""
        frame = _getframe(2)  # above the scope's __exit__
        if frame is not self._frame:
            frame = self._enter(frame)
        chain, at = self._chain, frame.f_lasti
        trouble: Exception | None = None
        if self._record is not None and scope.kind == "tile" and not failing:
            try:
                self._record(self, scope)
            except Exception as error:
                trouble = error
        top = self._scratch.top
        if scope.rewind:
            top = scope.save
            if self._flight and self._checks:
                trouble = self._abandon(scope, failing) or trouble
            if self._watched:
                self._watch.drop_above(top)
                self._unguard()
            if self._bytes is not None and self._scratch.checks != "off":
                self._bytes.poison(top, scope.reach)
        log = self._log
        log((CLOSE, self._now, top, scope.index, -1, scope.label, chain, at))
        return trouble

    def _abandon(self, scope: Scope, failing: bool) -> Exception | None:
        """Forget loads in flight into bytes that are given back; an error, unless one is on its way already."""
        lost = [f for f in self._flight if f.handle.arena.owner is scope]
        if not lost:
            return None
        trouble = None
        if not failing:
            names = ", ".join(self._title(f.handle) for f in lost)
            trouble = PendingLoadError(
                f"scope {scope.path!r} ends at {self._line()} while a load into its bytes is in flight: {names}. "
                "Wait for it inside the scope, or load into a buffer made before the scope."
            )
        for future in lost:
            future.abandon()
            self._flight.remove(future)
        return trouble


_POOL = ScratchAllocator(0)
_NOWHERE = _POOL.root
"""The arena of Python numbers: never guarded."""

_GROUND = np.empty(0, np.uint8)


def overlap(a: int, ta: TileType, b: int, tb: TileType) -> bool:
    """Whether two tiles share a byte, strides considered."""
    global _GROUND
    low = min(a, b)
    reach = max(a + ta.extent, b + tb.extent) - low
    if len(_GROUND) < reach:
        _GROUND = np.empty(reach, np.uint8)
    x: Array = np.ndarray(ta.shape, ta.dtype.np, _GROUND, a - low, ta.byte_strides)
    y: Array = np.ndarray(tb.shape, tb.dtype.np, _GROUND, b - low, tb.byte_strides)
    return np.shares_memory(x, y)


def _fits(value: int, dtype: DType) -> bool:
    if dtype.is_float:
        return True
    bits = dtype.bits - (dtype.kind == "int")
    return (-(1 << bits) if dtype.kind == "int" else 0) <= value < 1 << bits


def cdiv(a: int, b: int) -> int:
    """Division rounded up, of non-negative integers."""
    return -(-a // b)


def as_shape(shape: Any, op: str) -> tuple[int, ...]:
    """A tuple of non-negative extents from an int or a sequence.

    Raises
    ------
    ShapeError
        If an extent is negative or no integer.
    """
    parts = shape if isinstance(shape, (tuple, list)) else (shape,)
    try:
        out = tuple(int(n.__index__()) for n in parts)
    except AttributeError:
        raise ShapeError(f"{op}: a shape holds integers, got {shape!r}") from None
    if any(n < 0 for n in out):
        raise ShapeError(f"{op}: a shape cannot have a negative extent, got {out}")
    return out


__all__ = ["Core", "as_shape", "cdiv", "overlap"]
