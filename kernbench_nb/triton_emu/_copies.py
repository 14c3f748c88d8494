"""Copies within the scratch."""

from __future__ import annotations

from sys import _getframe
from typing import Any

from kernbench_nb.errors import ShapeError
from kernbench_nb.sim_engine.trace import Kind
from kernbench_nb.triton_emu._views import Views
from kernbench_nb.triton_emu.handles import Handle

__all__ = ["Copies"]


class Copies(Views):
    """Operations of the math engine that only move bytes."""

    __slots__ = ()

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
        Math engine, ``ceil(dst bytes / tcm bytes a cycle)`` cycles, no fill (`topology/costs.py`).

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
        """A new contiguous tile with the values of `x`; ``x.copy()`` is the same. Costs what `copy_to` does.

        Logged as `clone`, since the seeds count the `copy` rows.
        """
        frame = self._enter(_getframe(1))
        self._own(x, "copy")
        return self._apply(self._kinds.copy("clone", x.ty, None), (x,), None, name, frame)
