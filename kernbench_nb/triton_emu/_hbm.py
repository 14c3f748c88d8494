"""Between HBM and scratch: loads and stores."""

from __future__ import annotations

from math import prod
from sys import _getframe
from types import FrameType
from typing import Any

import numpy as np

from kernbench_nb.dtypes import bool_, resolve_dtype
from kernbench_nb.errors import DTypeError, ShapeError
from kernbench_nb.memory import TileType
from kernbench_nb.memory.layout import Shape, row_major
from kernbench_nb.memory.store import Shard
from kernbench_nb.sim_engine.trace import Kind
from kernbench_nb.triton_emu import numerics
from kernbench_nb.triton_emu._copies import Copies
from kernbench_nb.triton_emu._lanes import deliver, element_strides, kind_of, masked_lanes, masked_tile
from kernbench_nb.triton_emu.handles import Handle, LoadFuture, Pointer
from kernbench_nb.triton_emu.promote import as_shape, broadcasts

__all__ = ["Hbm"]

_NO_POINTER = ". Only numpy arrays that the launch is given become pointers: np.asarray(...) there makes one."


class Hbm(Copies):
    """Operations of the DMA engine.

    Notes
    -----
    First in, first out per slice, busy ``setup + bytes / (efficiency * peak)``, data there `latency` later
    (`hbm_busy_ps` in `topology/costs.py`). A masked load or store is charged like a whole one, in both modes: the DMA
    engine moves tiles.
    """

    __slots__ = ()

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
            bool tile (or a bool) that broadcasts to the shape; where it is false nothing is read, so those lanes may
            lie outside the shard. It is charged as a whole tile all the same (docs/adr/0003).
        other
            What masked lanes hold: a number or a tile. Without it they are poison: NaN for floats, -1 for signed
            integers, the largest value for unsigned ones.
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
            deliver(handle, source, fill)
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
                f"load: expected a pointer (a kernel's tensor argument, plus elements), got {kind_of(ptr)}"
                f"{_NO_POINTER}"
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
            lanes = masked_lanes(shard, offset, kind.ty.shape, steps, mask, "masked load")
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
            return handle, ready, None, masked_tile(shard, kind.ty, *lanes, other)
        return handle, ready, shard.window(offset, kind.ty.shape, steps), None

    def _load_kind(
        self, shard: Shard, shape: Any, strides: Any, target: TileType | None
    ) -> tuple[Kind, Shape | None, int, int]:
        """The kind of a load, its element strides (None: row-major), and its lowest and highest element offset."""
        to = as_shape(shape, "load")
        steps = element_strides(strides, to, "load")
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
                raise TypeError(f"{op}: mask= must be a bool tile or a bool, got {kind_of(value)}")
            elif what == "other" and not isinstance(value, (int, float, np.generic, None.__class__)):
                raise TypeError(f"{op}: other= must be a number or a tile, got {kind_of(value)}")
        if mask.__class__ is Handle:
            return mask
        return None if mask else False

    def _dma_cost(self, nbytes: int) -> tuple[int, int]:
        """(from start to data, busy) of one's own slice, in ps."""
        costs = self._kinds.costs
        busy = costs.hbm_busy_ps(nbytes)
        return busy + costs.hbm_latency_ps, busy

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
            It is charged as a whole tile all the same (docs/adr/0003).
        strides
            Element strides in HBM; row-major by default.

        Raises
        ------
        OutOfBoundsError
            If an unmasked element leaves the shard.
        """
        frame = self._enter(_getframe(1))
        if ptr.__class__ is not Pointer:
            raise TypeError(
                f"store: expected a pointer (a kernel's tensor argument), got {kind_of(ptr)}{_NO_POINTER}"
            )
        shard = ptr.shard
        if value.__class__ is not Handle:
            value = self._operand(value, shard.dtype)
        self._own(value, "store")
        if value.arena.guard:
            self._inspect(value)
        shape = value.ty.shape
        steps = element_strides(strides, shape, "store")
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
            masked_lanes(shard, ptr.offset, shape, steps, mask, "masked store")
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
