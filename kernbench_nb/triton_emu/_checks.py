"""What is looked at before bytes are read, written or given back, and what errors say about it."""

from __future__ import annotations

from collections.abc import Callable
from sys import _getframe
from typing import Any

import numpy as np
import numpy.typing as npt

from kernbench_nb.dtypes import bool_
from kernbench_nb.errors import (
    KernbenchError,
    PendingLoadError,
    ReadBeforeWaitError,
    UninitializedReadError,
    UseAfterScopeError,
)
from kernbench_nb.memory import Block, Scope, ScratchAllocator, TileType
from kernbench_nb.memory.store import ScratchBytes
from kernbench_nb.memory.watch import Watch, overlap
from kernbench_nb.sim_engine.live import find_allocation, find_closing, live_now, name_of_row
from kernbench_nb.sim_engine.trace import CLOSE, OPEN
from kernbench_nb.triton_emu._lines import Lines
from kernbench_nb.triton_emu.handles import Handle, LoadFuture, RecvFuture, no_value, remedy

__all__ = ["Checks"]

Array = npt.NDArray[Any]


class Checks(Lines):
    """The scratch of one PE: who may read and write which bytes now."""

    __slots__ = (
        "_bytes",
        "_checks",
        "_data",
        "_flight",
        "_log",
        "_now",
        "_record",
        "_scratch",
        "_watch",
        "_watched",
    )

    _scratch: ScratchAllocator
    _bytes: ScratchBytes | None
    _data: bool
    _checks: bool  # level "raise"
    _watch: Watch
    _watched: list[Scope]  # arenas that are guarded because of `_watch` and `_flight`
    _flight: list[LoadFuture | RecvFuture]
    _record: Callable[[Any, Scope], None] | None
    _log: Callable[[Any], None]
    _now: int

    # -- before reading and writing ----------------------------------------------------------------------------

    def _own(self, value: Any, what: str) -> Handle:
        """`value`, which must be a handle of this PE."""
        if value.__class__ is not Handle:
            raise TypeError(f"{what}: expected a tile, got {type(value).__name__}{remedy(value)}")
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

    # -- what errors say ---------------------------------------------------------------------------------------

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
        return find_allocation(self._trace, handle.addr, handle.arena.index) if handle.ty.n else None

    def _live_blocks(self) -> list[Block]:
        return live_now(self._trace)

    def name_of(self, handle: Handle) -> str:
        """The name given with ``name=``, or else the variable that the kernel assigned the tile to."""
        if handle.addr < 0:
            return repr(handle.arr.item()) if self._data else "a number"
        row = self._row_of(handle)
        return "" if row is None else name_of_row(self._trace, row)

    # -- values ------------------------------------------------------------------------------------------------

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

    # -- scopes: what the allocator tells ----------------------------------------------------------------------

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
