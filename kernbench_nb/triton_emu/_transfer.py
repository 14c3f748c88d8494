"""What moves bytes: HBM loads and stores, copies within the scratch, messages between PEs."""

from __future__ import annotations

from math import prod
from sys import _getframe
from types import FrameType
from typing import Any

import numpy as np

from kernbench_nb.dtypes import bool_, resolve_dtype
from kernbench_nb.errors import DTypeError, ShapeError
from kernbench_nb.memory import TileType, tile_type
from kernbench_nb.memory.layout import Shape, row_major
from kernbench_nb.memory.store import POISON, Shard
from kernbench_nb.sim_engine.source import place_of
from kernbench_nb.sim_engine.trace import Kind
from kernbench_nb.triton_emu import numerics
from kernbench_nb.triton_emu._core import as_shape
from kernbench_nb.triton_emu._views import Views
from kernbench_nb.triton_emu.handles import Handle, LoadFuture, Pointer, RecvFuture
from kernbench_nb.triton_emu.promote import broadcasts

__all__ = ["Transfers"]


class Transfers(Views):
    """Operations that are not private to the PE, and copies.

    Notes
    -----
    HBM: first in, first out per slice, busy ``setup + bytes / (efficiency * peak)``, data there `latency` later.
    A masked load or store is charged like a whole one, in both modes: the DMA engine moves tiles.
    """

    __slots__ = ()

    # -- HBM -> scratch ----------------------------------------------------------------------------------------

    def load(
        self,
        ptr: Pointer,
        shape: Any = (),
        dtype: Any = None,
        strides: Any = None,
        mask: Any = None,
        other: Any = None,
        out: Handle | None = None,
        name: str | None = None,
    ) -> Handle:
        """Load a tile from HBM and wait for it.

        Parameters
        ----------
        ptr
            Address of the first element.
        shape
            Shape of the tile; ``()`` loads a scalar.
        dtype
            Must be the tensor's if given: DMA does not convert.
        strides
            Element strides in HBM; row-major by default. The tile itself is contiguous.
        mask
            bool tile (or a bool) that broadcasts to the shape; where it is false nothing is read.
        other
            What masked lanes hold: a number or a tile. Without it they are poison (NaN for floats).
        out
            A tile of this shape to load into, instead of allocating; converted to its dtype.
        name
            What views call it.

        Raises
        ------
        OutOfBoundsError
            If the tile leaves the shard, naming tensor, shard, offset and extent.
        ShapeError, DTypeError
            If `mask`, `other`, `out` or `dtype` do not fit.
        """
        frame = _getframe(1)
        if frame is not self._frame:
            frame = self._enter(frame)
        handle, ready, source, fill = self._issue_load(
            ptr, shape, dtype, strides, mask, other, out, name, frame
        )
        self._now = ready
        if out is not None:
            self._wrote(out)
        if self._data and handle.ty.n:
            _deliver(handle, source, fill)
        return handle

    def load_async(
        self,
        ptr: Pointer,
        shape: Any = (),
        dtype: Any = None,
        strides: Any = None,
        mask: Any = None,
        other: Any = None,
        out: Handle | None = None,
        name: str | None = None,
    ) -> LoadFuture:
        """Issue a load and go on; same arguments as `load`.

        The source bytes are taken as they are now; the destination changes at `wait` and must not be touched before.

        Returns
        -------
        LoadFuture
            With the destination as ``.handle``.
        """
        frame = _getframe(1)
        if frame is not self._frame:
            frame = self._enter(frame)
        future = LoadFuture()
        if mask is None and other is None and dtype is None and out is None and ptr.__class__ is Pointer:
            # the usual case written out: a whole tile into new scratch
            shard, offset = ptr.shard, ptr.offset
            try:
                found = shard.loads[shape][strides]
            except (KeyError, TypeError):
                found = None
            if found is None:
                found = self._load_kind(shard, shape, strides, None)
            kind, steps, low, high = found
            if offset + high >= shard.n or offset + low < 0:
                shard.check(offset, kind.ty.shape, steps, "load")
            scratch = self._scratch
            addr = scratch.top
            top = addr + kind.size
            if top <= scratch.fast_top:
                scratch.top = top
            else:
                addr = self._take(kind, name, frame)
            future.handle = handle = Handle()
            handle.addr = addr
            handle.ty = ty = kind.ty
            handle.arena = arena = scratch.arena
            handle.tl = future.tl = self  # type: ignore[assignment]
            self._now = issue = self._now + self._dispatch
            start, ready = self._sink.read(issue, shard.owner, kind.nbytes)
            log = self._log
            log((kind.index, ready, addr, offset, start, name, self._chain, frame.f_lasti))
            future.ready_ps = ready
            future.shard = shard
            future.done = False
            future.fill = future.source = None
            if self._data:
                try:
                    handle.arr = self._arrays[ty][addr]
                except KeyError:
                    handle.arr = self._bytes.view(addr, ty)  # type: ignore[union-attr]
                future.source = shard.window(offset, ty.shape, steps)
                shard.lend(future)
            self._flight.append(future)
            if self._checks and not arena.guard:
                arena.guard = True
                self._watched.append(arena)
            return future
        future.handle, future.ready_ps, future.source, future.fill = self._issue_load(
            ptr, shape, dtype, strides, mask, other, out, name, frame
        )
        future.tl = self  # type: ignore[assignment]
        future.shard = ptr.shard
        future.done = False
        if future.source is not None:
            ptr.shard.lend(future)
        self._flight.append(future)
        if self._checks and not future.handle.arena.guard:
            self._guard(future.handle)
        return future

    def _issue_load(
        self, ptr: Any, shape: Any, dtype: Any, strides: Any, mask: Any, other: Any, out: Handle | None,
        name: str | None, frame: FrameType,
    ) -> tuple[Handle, int, Any, Any]:  # fmt: skip
        if ptr.__class__ is not Pointer:
            raise TypeError(
                f"load: expected a pointer (a kernel's tensor argument, plus elements), got {_kind_of(ptr)}"
            )
        shard = ptr.shard
        if dtype is not None and resolve_dtype(dtype) is not shard.dtype:
            raise DTypeError(
                f"load: dtype={resolve_dtype(dtype)} but tensor {shard.tensor!r} is {shard.dtype}, and DMA does not "
                f"convert: load it as {shard.dtype}, then .to({resolve_dtype(dtype)})."
            )
        target = None if out is None else self._own(out, "out=").ty
        try:
            found = shard.kinds[shape, strides, target]
        except (KeyError, TypeError):  # first sight, or a list
            found = None
        if found is None:
            found = self._load_kind(shard, shape, strides, target)
        kind, steps, low, high = found
        offset = ptr.offset
        lanes = None
        if mask is not None or other is not None:
            mask = self._mask(mask, other, kind.ty.shape, "load")
        if mask is None:
            if offset + high >= shard.n or offset + low < 0:
                shard.check(offset, kind.ty.shape, steps, "load")
        elif self._data:
            lanes = _lanes(shard, offset, kind.ty.shape, steps, mask, "masked load")
        if out is not None:
            self._inspect_target(out, (), False)
            handle = out
        else:
            handle = self._result(kind, None, name, frame)
        self._now = issue = self._now + self._dispatch
        start, ready = self._sink.read(issue, shard.owner, kind.nbytes)
        log = self._log
        log((kind.index, ready, handle.addr, offset, start, name, self._chain, frame.f_lasti))
        if not self._data:
            return handle, ready, None, None
        if lanes is not None:
            return handle, ready, None, _filled(shard, kind.ty, *lanes, other)
        return handle, ready, shard.window(offset, kind.ty.shape, steps), None

    def _load_kind(
        self, shard: Shard, shape: Any, strides: Any, target: TileType | None
    ) -> tuple[Kind, Shape | None, int, int]:
        """The kind of a load, its element strides (None: row-major), and its lowest and highest element offset."""
        to = as_shape(shape, "load")
        steps = _steps(strides, to, "load")
        nbytes = prod(to) * shard.dtype.itemsize
        ty = self._kinds.target("load", to, shard.dtype, target)
        kind = self._kinds.dma("dma_read", shard.tensor, ty, nbytes, *self._dma_cost(nbytes), target is None)
        walks = [(n - 1) * t for n, t in zip(to, row_major(to) if steps is None else steps, strict=True)]
        low, high = sum(w for w in walks if w < 0), sum(w for w in walks if w > 0)
        if ty.n == 0:  # touches nothing, wherever it points
            low, high = shard.n, -shard.n - 1
        found = kind, steps, low, high
        shard.kinds[to, steps, target] = found
        if target is None:
            shard.loads.setdefault(to, {})[steps] = found
        return found

    def _mask(self, mask: Any, other: Any, shape: Shape, op: str) -> Any:
        """A checked mask: a tile, or False; None if it lets everything through."""
        if mask is None:
            raise ValueError(f"{op}: other= says what masked lanes hold, and there is no mask=.")
        for what, value in (("mask", mask), ("other", other)):
            if value.__class__ is Handle:
                self._own(value, f"{op}: {what}=")
                if what == "mask" and value.ty.dtype is not bool_:
                    raise DTypeError(
                        f"{op}: mask= is {value.ty}, but a mask is bool: compare with something."
                    )
                if not broadcasts(value.ty.shape, shape):
                    raise ShapeError(
                        f"{op}: {what}= of shape {value.ty.shape} does not broadcast to the tile's {shape}."
                    )
                if value.arena.guard:
                    self._inspect(value)
            elif what == "mask" and not isinstance(value, (bool, np.bool_)):
                raise TypeError(f"{op}: mask= must be a bool tile or a bool, got {_kind_of(value)}")
            elif what == "other" and not isinstance(value, (int, float, np.generic, None.__class__)):
                raise TypeError(f"{op}: other= must be a number or a tile, got {_kind_of(value)}")
        if mask.__class__ is Handle:
            return mask
        return None if mask else False

    def _dma_cost(self, nbytes: int) -> tuple[int, int]:
        """(from start to data, busy) of one's own slice, in ps."""
        costs: Any = self._kinds.costs
        busy = costs.hbm_busy_ps(nbytes) if hasattr(costs, "hbm_busy_ps") else 0
        return busy + getattr(costs, "hbm_latency_ps", 0), busy

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
                        f"wait: expected futures of load_async or recv_async, got {_kind_of(future)}"
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
                    _deliver(handle, source, future.fill)
                if source is not None:
                    future.shard.release(future)
                future.source = future.fill = None
        if self._watched and not self._flight:
            self._unguard()
        if len(futures) == 2:
            return futures[0].handle, futures[1].handle
        return futures[0].handle if len(futures) == 1 else tuple([f.handle for f in futures])

    # -- scratch -> HBM ----------------------------------------------------------------------------------------

    def store(self, ptr: Pointer, value: Any, mask: Any = None, strides: Any = None) -> None:
        """Store a tile (or a number) to HBM, converted to the tensor's dtype, and wait until it is written.

        Parameters
        ----------
        ptr
            Address of the first element.
        value
            A tile, of any strides, or a number.
        mask
            bool tile (or a bool) that broadcasts to the value's shape; where it is false nothing is written.
        strides
            Element strides in HBM; row-major by default.

        Raises
        ------
        OutOfBoundsError
            If an unmasked element leaves the shard.
        """
        frame = self._enter(_getframe(1))
        if ptr.__class__ is not Pointer:
            raise TypeError(f"store: expected a pointer (a kernel's tensor argument), got {_kind_of(ptr)}")
        shard = ptr.shard
        if value.__class__ is not Handle:
            value = self._operand(value, shard.dtype)
        self._own(value, "store")
        if value.arena.guard:
            self._inspect(value)
        shape = value.ty.shape
        steps = _steps(strides, shape, "store")
        if mask is not None:
            mask = self._mask(mask, None, shape, "store")
        if mask is None:
            shard.check(ptr.offset, shape, steps, "store")
        key = ("store", value.ty)
        kind = shard.kinds.get(key)
        if kind is None:
            nbytes = value.ty.n * shard.dtype.itemsize
            _, busy = self._dma_cost(nbytes)
            kind = self._kinds.dma("dma_write", shard.tensor, value.ty, nbytes, busy, busy, False)
            shard.kinds[key] = kind
        lanes = (
            _lanes(shard, ptr.offset, shape, steps, mask, "masked store")
            if mask is not None and self._data
            else None
        )
        start, end = self._sink.write(self._now + self._dispatch, shard.owner, kind.nbytes)
        self._now = end
        log = self._log
        log((kind.index, end, value.addr, ptr.offset, start, None, self._chain, frame.f_lasti))
        if self._data:
            data = shard.writable()
            if lanes is not None:
                allowed, where = lanes
                converted = np.empty(shape, shard.dtype.np)
                numerics.convert(converted, value.arr)
                data[where] = converted[allowed]
            elif value.ty.n:
                numerics.convert(shard.window(ptr.offset, shape, steps), value.arr)

    # -- within the scratch ------------------------------------------------------------------------------------

    def copy_to(self, dst: Handle, src: Handle) -> Handle:
        """Copy `src` into the bytes of `dst`, converted to its dtype; `dst` keeps its address. Logged as `copy`.

        Parameters
        ----------
        dst, src
            Tiles of the same shape.

        Returns
        -------
        Handle
            `dst`.

        Notes
        -----
        Math engine, ``ceil(dst bytes / tcm bytes a cycle)`` cycles, no fill (machine.md 3).

        Raises
        ------
        ShapeError
            If the shapes differ; both are named.
        """
        frame = _getframe(1)
        if frame is not self._frame:
            frame = self._enter(frame)
        try:
            kind = self._copies[dst.ty][src.ty]
        except (AttributeError, KeyError):
            kind = None
        if kind is None:
            kind = self._copy_kind(dst, src)
        if src.arena.guard or src.tl is not self:
            self._inspect(self._own(src, "copy_to: src"))
        start, stop = dst.addr, src.addr
        if (
            dst.arena.guard
            or dst.tl is not self
            or (start < stop + src.ty.extent and stop < start + dst.ty.extent)
        ):
            self._inspect_target(dst, (src,), True, "copy_to: dst")
            self._wrote(dst)
        self._now = now = self._now + kind.step
        log = self._log
        log((kind.index, now, start, stop, -1, None, self._chain, frame.f_lasti))
        if self._data:
            kind.run(src.arr, dst.arr)  # type: ignore[misc]
        return dst

    def _copy_kind(self, dst: Any, src: Any) -> Kind:
        self._own(dst, "copy_to: dst")
        self._own(src, "copy_to: src")
        if dst.ty.shape != src.ty.shape:
            raise ShapeError(
                f"copy_to: dst {self._title(dst)} and src {self._title(src)} have different shapes; nothing is "
                "broadcast or reshaped here."
            )
        kind = self._copies.setdefault(dst.ty, {})[src.ty] = self._kinds.copy("copy", src.ty, dst.ty)
        return kind

    def clone(self, x: Handle, *, name: str | None = None) -> Handle:
        """A new contiguous tile with the values of `x`; ``x.copy()`` is the same. Logged as `clone`."""
        frame = self._enter(_getframe(1))
        self._own(x, "copy")
        return self._apply(self._kinds.copy("clone", x.ty, None), (x,), None, name, frame)

    # -- between PEs -------------------------------------------------------------------------------------------

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
        frame = self._enter(_getframe(1))
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
        log((kind.index, arrive, x.addr, -1, start, None, self._chain, frame.f_lasti))

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
        frame = self._enter(_getframe(1))
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
        """Announce a receive and go on; the message is taken at `wait`. Same arguments as `recv`."""
        frame = self._enter(_getframe(1))
        top = self._scratch.top
        future = RecvFuture()
        future.ty, future.handle = self._recv_target(shape, dtype, out, name, frame)
        future.tl = self  # type: ignore[assignment]
        future.direction = direction
        future.issue_ps = self._now + self._dispatch
        future.allocated = out is None
        future.name = name
        future.done = False
        try:
            future.number = self._sink.post_recv(future.issue_ps, direction, self._line_of(frame))
        except BaseException:
            self._scratch.rewind(top)
            raise
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
            future.allocated,
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
        kind = self._kinds.message("ipc_recv", ty, direction, peer, 0, allocated)
        log = self._log
        log((kind.index, end, handle.addr, -1, issue, name, self._chain, frame.f_lasti))
        if self._data and ty.n:
            _deliver(handle, payload, None)

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


def _lanes(
    shard: Shard, offset: int, shape: Shape, steps: Shape | None, mask: Any, verb: str
) -> tuple[Any, Any]:
    """Which elements a mask lets through, and their addresses in the shard, which must lie inside."""
    allowed = np.broadcast_to(mask.arr != 0 if mask.__class__ is Handle else mask, shape)
    where = _addresses(offset, shape, steps)[allowed]
    if where.size and (where.min() < 0 or where.max() >= shard.n):
        raise shard.outside(f"{verb} of shape {shape} at offset {offset}", where.min(), where.max())
    return allowed, where


def _filled(shard: Shard, ty: TileType, allowed: Any, where: Any, other: Any) -> Any:
    """The tile of a masked load: masked lanes are never read, and poison unless `other` says what they are."""
    assert shard.data is not None
    fill = np.empty(ty.shape, shard.dtype.np)
    if other is not None:
        numerics.convert(
            fill, np.broadcast_to(other.arr if other.__class__ is Handle else np.asarray(other), ty.shape)
        )
    fill[allowed] = shard.data[where]
    if ty.dtype is not shard.dtype:
        loaded, fill = fill, np.empty(ty.shape, ty.dtype.np)
        numerics.convert(fill, loaded)
    if other is None:
        fill[~allowed] = np.frombuffer(bytes([POISON]) * ty.dtype.itemsize, ty.dtype.np)[0]
    return fill


def _deliver(handle: Handle, source: Any, fill: Any) -> None:
    """Write what was loaded: `source`, or else the `fill` of a masked load, which has the handle's dtype already."""
    if source is None:
        handle.arr[...] = fill
    elif source.dtype == handle.arr.dtype:
        handle.arr[...] = source
    else:
        numerics.convert(handle.arr, source)


def _steps(strides: Any, shape: Shape, op: str) -> Shape | None:
    """Element strides as a tuple of integers, one for each dimension; None if none are given."""
    if strides is None:
        return None
    steps = tuple(int(t.__index__()) for t in strides)
    if len(steps) != len(shape):
        raise ShapeError(
            f"{op}: shape {shape} has {len(shape)} dimensions, strides {steps} has {len(steps)}."
        )
    return steps


def _addresses(offset: int, shape: Shape, steps: Shape | None) -> Any:
    """Element addresses of a tile, as an array of its shape."""
    where = np.full(shape, offset, np.int64)
    for axis, step in enumerate(row_major(shape) if steps is None else steps):
        along = [1] * len(shape)
        along[axis] = shape[axis]
        where += np.arange(shape[axis], dtype=np.int64).reshape(along) * step
    return where


def _kind_of(value: Any) -> str:
    return repr(value) if isinstance(value, (int, float, str, Handle)) else type(value).__name__
