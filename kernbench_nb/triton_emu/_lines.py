"""Which line of the kernel, or of a function that it calls, an operation comes from: one cheap look at frames.

A row of the trace names a call chain and an instruction; what they mean is found later, from the source, only when
somebody asks (`sim_engine.source`).
"""

from __future__ import annotations

from inspect import CO_GENERATOR
from sys import _getframe
from types import CodeType, FrameType
from typing import Any

from kernbench_nb.sim_engine.live import place_of_row
from kernbench_nb.sim_engine.source import place_of, variable_of
from kernbench_nb.sim_engine.trace import Trace
from kernbench_nb.triton_emu.steady import WRAPPER

__all__ = ["Lines"]

_INSIDE = ("kernbench_nb.triton_emu", "kernbench_nb.memory")
"""Packages whose frames are not the kernel's: operators, methods, scopes."""

_NO_CHAIN = -1
"""In place of the call chain of a frame that is not the kernel's but one of `_INSIDE`, called by the kernel."""


class Lines:
    """The frame that calls `tl` now, and its call chain."""

    __slots__ = ("_calls", "_chain", "_chains", "_frame", "_kernel", "_kernel_chain", "_runner", "_trace")

    _trace: Trace
    _runner: CodeType | None  # code of the function that calls the kernel; call chains end below it
    _frame: FrameType | None  # of the last operation, with its chain
    _chain: int
    _kernel: FrameType | None  # of the kernel itself, with its chain
    _kernel_chain: int
    _chains: dict[Any, int]  # chains by what they consist of
    _calls: dict[Any, int]  # chains of what the kernel calls, by code and calling instruction

    def _enter(self, frame: FrameType) -> FrameType:
        """The kernel's (or a shared function's) frame that called `tl`; its call chain becomes the current one."""
        kernel = self._kernel
        if frame is kernel:
            self._frame, self._chain = frame, self._kernel_chain
            return frame
        caller = frame.f_back
        if caller is not kernel:
            caller = _above(frame)
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
            frame, caller = caller, _above(caller)
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
        caller = _above(frame) if runner is not None else None
        while caller is not None and (code := caller.f_code) is not runner:
            walk.append(caller.f_lasti)
            if caller is kernel:  # above it nothing changes
                break
            walk.append(id(code))
            caller = _above(caller)
        key = tuple(walk)
        chain = self._chains.get(key)
        if chain is None:
            callers = []
            caller = _above(frame) if runner is not None else None
            while caller is not None and caller.f_code is not runner:
                callers.append((caller.f_code, caller.f_lasti))
                caller = _above(caller)
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

    def _variable(self, frame: FrameType) -> str:
        return variable_of(frame.f_code, frame.f_lasti) or ""


def _above(frame: FrameType) -> FrameType | None:
    """The frame that called this one."""
    caller = frame.f_back
    if caller is not None and caller.f_code is WRAPPER:
        caller = caller.f_back
    return caller
