"""The part of a `TLContext` that every operation goes through: allocation, checks, the clock, the row.

The sequence is always the same. Find the kind (and with it every shape and dtype error). Look at the operands if
their arena asks for it. Take scratch, or check ``out=``. Move the clock. Append the row. In data mode, compute.
Nothing is logged or allocated before everything that can be wrong was looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

import numpy as np
import numpy.typing as npt

from kernbench_nb.dtypes import DType, bool_, f32, i32, i64
from kernbench_nb.errors import ScratchOverflowError
from kernbench_nb.memory import Scope, ScratchAllocator, TileType, tile_type
from kernbench_nb.memory.store import ScratchBytes
from kernbench_nb.memory.watch import Watch
from kernbench_nb.sim_engine.trace import OVERFLOW, Kind
from kernbench_nb.triton_emu import numerics
from kernbench_nb.triton_emu._checks import Checks
from kernbench_nb.triton_emu.handles import Handle, remedy
from kernbench_nb.triton_emu.kinds import Kinds
from kernbench_nb.triton_emu.sink import Sink
from kernbench_nb.triton_emu.steady import Steps

__all__ = ["Core"]

Array = npt.NDArray[Any]

_POOL = ScratchAllocator(0)
_NOWHERE = _POOL.root
"""The arena of Python numbers: never guarded."""


class Core(Checks):
    """State of one kernel invocation on one PE."""

    __slots__ = (
        "_arrays",
        "_binary",
        "_casts",
        "_constants",
        "_copies",
        "_dispatch",
        "_dots",
        "_kinds",
        "_numbers",
        "_receives",
        "_reductions",
        "_sends",
        "_sink",
        "_steps",
        "_unary",
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
        self._watched = []
        self._flight = []
        self._data = data
        self._bytes = ScratchBytes(scratch_size, scratch_base) if data else None
        self._arrays: dict[TileType, dict[int, Array]] = self._bytes._views if self._bytes else {}
        self._constants: dict[Any, Handle] = {}
        self._runner = runner
        self._record = record
        self._chains = {}
        self._frame = None
        self._chain = 0
        self._kernel = None
        self._kernel_chain = 0
        self._calls = {}
        self._sends: dict[Any, Kind] = {}
        self._receives: dict[Any, Kind] = {}
        self._numbers: dict[TileType, dict[float, Handle]] = {}
        self._steps: Steps = {}

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
                f"expected a tile or a number beside a tile of {dtype}, got {type(value).__name__}"
                f"{remedy(value) or '; load or create it as a tile first.'}"
            )
        key = (dtype, value.__class__, value)
        found = self._constants.get(key)
        if found is None:
            found = Handle()
            found.addr = -1
            found.ty = tile_type((), dtype)
            found.arena = _NOWHERE
            found.tl = self  # type: ignore[assignment]
            if self._data:
                found.arr = np.empty((), dtype.np)
                numerics.convert(found.arr, np.asarray(value))
            if value:  # 0.0 and -0.0 are equal, and not the same
                self._constants[key] = found
        return found


def _fits(value: int, dtype: DType) -> bool:
    if dtype.is_float:
        return True
    bits = dtype.bits - (dtype.kind == "int")
    return (-(1 << bits) if dtype.kind == "int" else 0) <= value < 1 << bits
