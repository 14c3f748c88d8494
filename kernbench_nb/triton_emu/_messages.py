"""Between PEs: messages and the barrier; and waiting, for messages and for loads."""

from __future__ import annotations

from sys import _getframe
from types import FrameType
from typing import Any

import numpy as np

from kernbench_nb.dtypes import bool_, resolve_dtype
from kernbench_nb.memory import TileType, tile_type
from kernbench_nb.sim_engine.source import place_of
from kernbench_nb.sim_engine.trace import Kind
from kernbench_nb.triton_emu._hbm import Hbm
from kernbench_nb.triton_emu._lanes import deliver, kind_of
from kernbench_nb.triton_emu.handles import Handle, LoadFuture, RecvFuture
from kernbench_nb.triton_emu.promote import as_shape

__all__ = ["Messages"]


class Messages(Hbm):
    """Operations of the IPC engine, and `wait`."""

    __slots__ = ()

    def wait(self, *futures: Any) -> Any:
        """Wait for loads (and receives); their handles may be read afterwards.

        Parameters
        ----------
        futures
            What `load_async` or `recv_async` returned. Waiting twice costs nothing.

        Returns
        -------
        Handle, or a tuple of Handles
            One for one future, else in order.
        """
        for future in futures:
            if future.__class__ is not LoadFuture:
                if future.__class__ is not RecvFuture:
                    raise TypeError(
                        f"wait: expected futures of load_async or recv_async, got {kind_of(future)}"
                    )
                self._finish_recv(future)
                continue
            if future.done:
                continue
            if future.tl is not self:
                raise ValueError("wait: this future belongs to another PE or another launch.")
            future.done = True
            self._flight.remove(future)
            if future.ready_ps > self._now:
                self._now = future.ready_ps
            handle = future.handle
            if self._watch.spans:
                self._wrote(handle)
            if self._data:
                source = future.source
                if handle.ty.n:
                    deliver(handle, source, future.fill)
                if source is not None:
                    future.shard.release(future)
                future.source = future.fill = None
        if self._watched and not self._flight:
            self._unguard()
        if len(futures) == 2:
            return futures[0].handle, futures[1].handle
        return futures[0].handle if len(futures) == 1 else tuple([f.handle for f in futures])

    def send(self, direction: str | int, x: Handle) -> None:
        """Send a tile and go on as soon as the message has a slot; it carries the bytes as they are now.

        Parameters
        ----------
        direction
            A direction that the SFR configuration installed (``"E"``, ``"pe_prev"``, ...), or a global PE index.
        x
            The tile.

        Raises
        ------
        MessageError
            If there is no such direction or peer.
        DeadlockError
            If nobody will ever make room for it.
        """
        frame = _getframe(1)
        if frame is not self._frame:
            frame = self._enter(frame)
        if x.__class__ is not Handle or x.tl is not self:
            self._own(x, "send")
        if x.arena.guard:
            self._inspect(x)
        payload = np.array(x.arr) if self._data else None
        start, arrive, resume, peer = self._sink.send(
            self._now + self._dispatch,
            direction,
            payload,
            x.ty.nbytes,
            x.ty.shape,
            x.ty.dtype.name,
            self._line_of(frame),
        )
        self._now = resume
        kind = self._sends.get((x.ty, direction))
        if kind is None:
            busy = self._sink.wire_ps(direction, x.ty.nbytes)
            kind = self._sends[x.ty, direction] = self._kinds.message(
                "ipc_send", x.ty, direction, peer, busy, False
            )
        log = self._log
        log((kind.index, arrive, -1, x.addr, start, None, self._chain, frame.f_lasti))

    def recv(
        self, direction: str | int, shape: Any, dtype: Any, out: Handle | None = None, name: str | None = None
    ) -> Handle:
        """Wait for a message and take it; shape and dtype must be those that were sent.

        Parameters
        ----------
        direction
            Where it comes from, seen from here: a direction that the SFR configuration installed, or a global PE.
        shape, dtype
            Of the message.
        out
            A tile of this shape to receive into, instead of allocating; converted to its dtype.
        name
            What views call it.

        Raises
        ------
        MessageError
            If the two ends do not agree; both are named.
        DeadlockError
            If nobody will ever send it.
        """
        frame = _getframe(1)
        if frame is not self._frame:
            frame = self._enter(frame)
        top = self._scratch.top
        ty, handle = self._recv_target(shape, dtype, out, name, frame)
        issue = self._now + self._dispatch
        try:
            end, payload, peer = self._sink.recv(
                issue, direction, ty.shape, ty.dtype.name, self._line_of(frame)
            )
        except BaseException:
            self._scratch.rewind(top)
            raise
        self._received(ty, handle, direction, issue, end, payload, peer, out is None, name, frame)
        return handle

    def recv_async(
        self, direction: str | int, shape: Any, dtype: Any, out: Handle | None = None, name: str | None = None
    ) -> RecvFuture:
        """Announce a receive and go on; the message is taken at `wait`. Same arguments as `recv`.

        Returns
        -------
        RecvFuture
            With the destination as ``.handle``, which must not be touched before the wait.
        """
        frame = self._enter(_getframe(1))
        top = self._scratch.top
        future = RecvFuture()
        future.ty, future.handle = self._recv_target(shape, dtype, out, name, frame)
        future.tl = self  # type: ignore[assignment]
        future.direction = direction
        future.issue_ps = self._now + self._dispatch
        future.name = name
        future.done = False
        try:
            future.number = self._sink.post_recv(future.issue_ps, direction, self._line_of(frame))
        except BaseException:
            self._scratch.rewind(top)
            raise
        if out is None:  # taken now, in the scope that is open now; the message may come in another one
            self._emit(self._kinds.empty(future.ty), future.handle, name, frame)
        self._now = future.issue_ps
        self._flight.append(future)
        self._guard(future.handle)
        return future

    def _finish_recv(self, future: RecvFuture) -> None:
        if future.done:
            return
        if future.tl is not self:
            raise ValueError("wait: this future belongs to another PE or another launch.")
        frame = self._enter(_getframe(2))
        future.done = True
        self._flight.remove(future)
        ty = future.ty
        end, payload, peer = self._sink.take(
            self._now, future.direction, future.number, ty.shape, ty.dtype.name, self._line_of(frame)
        )
        end = max(end, future.issue_ps)
        self._received(
            ty,
            future.handle,
            future.direction,
            future.issue_ps,
            end,
            payload,
            peer,
            False,
            future.name,
            frame,
        )

    def _recv_target(
        self, shape: Any, dtype: Any, out: Handle | None, name: str | None, frame: FrameType
    ) -> tuple[TileType, Handle]:
        """The type of the message, and where it goes."""
        try:
            ty = self._kinds.messages[shape, dtype]
        except (KeyError, TypeError):
            ty = None
        if ty is None:
            ty = tile_type(as_shape(shape, "recv"), resolve_dtype(dtype))
            if shape.__class__ is tuple:
                self._kinds.messages[shape, dtype] = ty
        if out is not None:
            self._kinds.target("recv", ty.shape, ty.dtype, self._own(out, "out=").ty)
            self._inspect_target(out, (), False)
            return ty, out
        scratch = self._scratch
        addr = scratch.top
        if addr + ty.size <= scratch.fast_top:
            scratch.top = addr + ty.size
        else:
            addr = self._take(Kind("ipc_recv", "ipc", ty=ty, size=ty.size), name, frame)
        return ty, self._handle(addr, ty, scratch.arena)

    def _received(
        self, ty: TileType, handle: Handle, direction: str | int, issue: int, end: int, payload: Any, peer: int,
        allocated: bool, name: str | None, frame: FrameType,
    ) -> None:  # fmt: skip
        self._now = max(self._now, end)
        self._wrote(handle)
        key = ty, direction, peer, allocated
        kind = self._receives.get(key)
        if kind is None:
            kind = self._receives[key] = self._kinds.message("ipc_recv", ty, direction, peer, 0, allocated)
        log = self._log
        log((kind.index, end, handle.addr, -1, issue, name, self._chain, frame.f_lasti))
        if self._data and ty.n:
            deliver(handle, payload, None)

    def barrier(self) -> None:
        """Wait until every PE of the launch is here."""
        frame = self._enter(_getframe(1))
        issue = self._now + self._dispatch
        self._now = end = self._sink.barrier(issue, self._line_of(frame))
        kind = self._kinds.message("barrier", tile_type((), bool_), "all", -1, 0, False)
        log = self._log
        log((kind.index, end, -1, -1, issue, None, self._chain, frame.f_lasti))

    def _line_of(self, frame: FrameType) -> Any:
        chain, at = self._trace.chains[self._chain], frame.f_lasti
        return lambda: str(place_of(chain, at))
