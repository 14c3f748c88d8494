"""Views: other shapes and strides of the same bytes. They cost nothing, move nothing and are not logged."""

from __future__ import annotations

import operator
from math import prod
from typing import Any

import numpy as np

from kernbench_nb.dtypes import DType
from kernbench_nb.errors import DTypeError, ShapeError
from kernbench_nb.memory import TileType, tile_type
from kernbench_nb.memory.layout import Shape
from kernbench_nb.triton_emu._reduce import Reductions
from kernbench_nb.triton_emu.handles import Handle
from kernbench_nb.triton_emu.promote import (
    as_shape,
    broadcast_shapes,
    broadcasts,
    normal_axis,
    reshape_strides,
)

__all__ = ["Views"]


def _integers(parts: tuple[Any, ...], op: str) -> Shape:
    """The arguments of ``f(1, 2)`` and of ``f((1, 2))`` alike, as integers.

    Raises
    ------
    ShapeError
        If one is none.
    """
    flat = parts[0] if len(parts) == 1 and isinstance(parts[0], (tuple, list)) else parts
    try:
        return tuple([operator.index(p) for p in flat])
    except TypeError:
        raise ShapeError(f"{op}: expected integers, got {flat!r}") from None


def _index_key(part: Any) -> Any:
    """One part of an index, hashable and without tiles: an integer, a triple for a slice, None or an ellipsis.

    Raises
    ------
    ShapeError
        For anything else.
    """
    if part is None or part is Ellipsis or part.__class__ is int:
        return part
    if part.__class__ is slice:
        bounds = part.start, part.stop, part.step
        return tuple([b if b is None or b.__class__ is int else operator.index(b) for b in bounds])
    if isinstance(part, (Handle, bool, np.bool_)) or not hasattr(part, "__index__"):
        raise ShapeError(
            f"x[...]: tiles are indexed by slices, None and integers, got {type(part).__name__}; a gather is a load, "
            "a choice is tl.where."
        )
    return operator.index(part)


class Views(Reductions):
    """Operations that only look at a tile another way."""

    __slots__ = ()

    def _view(self, x: Handle, ty: TileType, offset: int = 0) -> Handle:
        arena = x.arena
        if arena.guard and arena.dead:
            raise self._dead(x)
        view = Handle()
        view.addr = addr = x.addr + offset
        view.ty = ty
        view.arena = arena
        view.tl = x.tl
        if self._data:
            try:
                view.arr = self._arrays[ty][addr]
            except KeyError:
                view.arr = self._bytes.view(addr, ty)  # type: ignore[union-attr]
        return view

    def reshape(self, input: Handle, *shape: Any) -> Handle:
        """The same elements in row-major order in a new shape; one extent may be -1.

        Raises
        ------
        ShapeError
            If the number of elements differs, or strides cannot express it (then a ``.copy()`` can).
        """
        return self._in_shape(input, shape)

    view = reshape

    def _in_shape(self, input: Handle, shape: tuple[Any, ...]) -> Handle:
        try:
            to = input.ty.reshaped[shape]
        except (AttributeError, KeyError, TypeError):  # first sight, a list as a shape, or no tile
            to = None
        if to is None:
            self._own(input, "reshape")
            parts = _integers(shape, "reshape")
            to = input.ty.reshaped.get(parts) or self._reshaped(input.ty, parts)
            input.ty.reshaped[parts] = to
            if len(shape) == 1 and shape[0].__class__ is tuple and all(n.__class__ is int for n in shape[0]):
                input.ty.reshaped[shape] = to
        return self._view(input, to)

    def _reshaped(self, ty: TileType, shape: Shape) -> TileType:
        wanted = list(shape)
        if wanted.count(-1) == 1:
            rest = prod(n for n in wanted if n != -1)
            wanted[wanted.index(-1)] = ty.n // rest if rest else 0
        to = as_shape(tuple(wanted), "reshape")
        if prod(to) != ty.n:
            raise ShapeError(f"reshape of {ty.shape} ({ty.n} elements) to {shape} ({prod(to)} elements).")
        strides = reshape_strides(ty, to)
        if strides is None:
            raise ShapeError(
                f"reshape of {ty.shape} with strides {ty.strides} to {to} cannot be expressed by strides, and a view "
                "moves nothing: make a contiguous tile first with .copy()."
            )
        return tile_type(to, ty.dtype, strides)

    def trans(self, input: Handle, *dims: int) -> Handle:
        """Exchange the last two dimensions, or permute all of them if they are given."""
        self._own(input, "trans")
        if dims:
            return self.permute(input, *dims)
        rank = len(input.ty.shape)
        if rank < 2:
            raise ShapeError(f"trans: a tile of shape {input.ty.shape} has no two dimensions to exchange.")
        return self.permute(input, *range(rank - 2), rank - 1, rank - 2)

    def permute(self, input: Handle, *dims: Any) -> Handle:
        """Reorder the dimensions."""
        return self._permuted(input, dims)

    def _permuted(self, input: Handle, dims: tuple[Any, ...]) -> Handle:
        try:
            to = input.ty.permuted[dims]
        except (AttributeError, KeyError, TypeError):
            to = None
        if to is None:
            self._own(input, "permute")
            ty, parts = input.ty, _integers(dims, "permute")
            order = tuple(normal_axis(d, ty.shape, "permute") for d in parts)
            if sorted(order) != list(range(len(ty.shape))):
                raise ShapeError(f"permute: {parts} is no order of the dimensions of {ty.shape}.")
            to = tile_type(tuple(ty.shape[i] for i in order), ty.dtype, tuple(ty.strides[i] for i in order))
            ty.permuted[parts] = to
        return self._view(input, to)

    def expand_dims(self, input: Handle, axis: int) -> Handle:
        """Add a dimension of extent 1 at `axis`."""
        self._own(input, "expand_dims")
        shape = input.ty.shape
        at = normal_axis(axis, (*shape, 1), "expand_dims")
        return self.reshape_any(
            input, (*shape[:at], 1, *shape[at:]), (*input.ty.strides[:at], 0, *input.ty.strides[at:])
        )

    def reshape_any(self, x: Handle, shape: Shape, strides: Shape, offset: int = 0) -> Handle:
        """A view with given shape, element strides and offset in elements; the caller answers for them."""
        return self._view(x, tile_type(shape, x.ty.dtype, strides), offset * x.ty.dtype.itemsize)

    def index(self, x: Handle, index: Any) -> Handle:
        """``x[...]`` with slices, None, integers and an ellipsis: a view.

        Raises
        ------
        ShapeError
            For too many indices, an integer out of range, a step that is not positive, or a tile as an index.
        """
        self._own(x, "x[...]")
        ty = x.ty
        key = tuple([_index_key(p) for p in (index if index.__class__ is tuple else (index,))])
        found = ty.indexed.get(key)
        if found is None:
            found = ty.indexed[key] = self._indexed(
                ty, tuple(slice(*p) if p.__class__ is tuple else p for p in key)
            )
        return self._view(x, found[1], found[0])

    def _indexed(self, ty: TileType, parts: tuple[Any, ...]) -> tuple[int, TileType]:
        used = sum(1 for p in parts if p is not None and p is not Ellipsis)
        if used > len(ty.shape) or sum(p is Ellipsis for p in parts) > 1:
            raise ShapeError(f"x[...]: {used} indices for a tile of shape {ty.shape}.")
        fill = (slice(None),) * (len(ty.shape) - used)
        full: list[Any] = []
        for p in parts if Ellipsis in parts else (*parts, Ellipsis):
            full.extend(fill if p is Ellipsis else (p,))
        shape: list[int] = []
        strides: list[int] = []
        offset = at = 0
        for p in full:
            if p is None:
                shape.append(1)
                strides.append(0)
                continue
            extent, stride = ty.shape[at], ty.strides[at]
            at += 1
            if isinstance(p, slice):
                start, stop, step = p.indices(extent)
                if step <= 0:
                    raise ShapeError(f"x[...]: steps must be positive, got {step}.")
                n = max(0, -(-(stop - start) // step))
                shape.append(n)
                strides.append(stride * step)
                offset += start * stride if n else 0
            else:
                if not -extent <= p < extent:
                    raise ShapeError(
                        f"x[...]: index {p} is out of range for extent {extent} of shape {ty.shape}."
                    )
                offset += (p % extent) * stride
        return offset * ty.dtype.itemsize, tile_type(tuple(shape), ty.dtype, tuple(strides))

    def broadcast_to(self, input: Handle, *shape: Any) -> Handle:
        """Show a tile in a larger shape; repeated elements share their bytes (stride 0).

        Raises
        ------
        ShapeError
            If the ranks differ (a scalar goes everywhere), or an extent is neither equal nor 1.
        """
        self._own(input, "broadcast_to")
        rank = len(input.ty.shape)
        to = as_shape(_integers(shape, "broadcast_to"), "broadcast_to")
        if rank not in (0, len(to)) or not broadcasts(input.ty.shape, to):
            raise ShapeError(
                f"broadcast_to: shape {input.ty.shape} does not broadcast to {to}: ranks must be equal, extents equal "
                "or 1; index it with None to add a dimension."
            )
        return self._stretched(input, to)

    def _stretched(self, input: Handle, to: Shape) -> Handle:
        ty = input.ty
        lead = len(to) - len(ty.shape)
        strides = (0,) * lead + tuple(
            0 if m == 1 and n != 1 else t for m, n, t in zip(ty.shape, to[lead:], ty.strides, strict=True)
        )
        return self._view(input, tile_type(to, ty.dtype, strides))

    def broadcast(self, input: Any, other: Any) -> Any:
        """Broadcast a tile to a shape (ADR-0061), or two tiles to each other (Triton's pair).

        Parameters
        ----------
        input
            A tile.
        other
            A shape, or a second tile.

        Returns
        -------
        Handle, or a pair of Handles
            Views; the bytes behind them are those of the operands, not the product of the shape.
        """
        self._own(input, "broadcast")
        if isinstance(other, Handle):
            shape = broadcast_shapes(input.ty, other.ty, "broadcast")
            return self._stretched(input, shape), self._stretched(self._own(other, "broadcast"), shape)
        return self.broadcast_to(input, as_shape(other, "broadcast"))

    def _bitcast(self, x: Handle, dtype: DType) -> Handle:
        if dtype.itemsize != x.ty.dtype.itemsize:
            raise DTypeError(
                f"bitcast of {x.ty.dtype} to {dtype}: sizes {x.ty.dtype.itemsize} and {dtype.itemsize} B."
            )
        return self._view(x, tile_type(x.ty.shape, dtype, x.ty.strides))
