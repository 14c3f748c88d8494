"""What a kernel holds in its hands: tiles in scratch, pointers into HBM, loads in flight.

A handle is an address and a type, not a value. The operators here only forward to the `TLContext` that made the
handle, so that `a * b` and ``tl.mul(a, b)`` are one operation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from kernbench_nb.dtypes import DType
from kernbench_nb.errors import DataModeError
from kernbench_nb.memory import Scope, TileType
from kernbench_nb.memory.store import Shard

if TYPE_CHECKING:
    from kernbench_nb.triton_emu.tl_context import TLContext

__all__ = ["Handle", "LoadFuture", "Pointer", "RecvFuture"]

Shape = tuple[int, ...]


class Handle:
    """A tile in a PE's scratch.

    Attributes
    ----------
    addr
        Address of its first element.
    ty
        Its `TileType`: shape, strides, dtype.
    arena
        The `Scope` that it was allocated in; when that ends, the handle is dead.
    arr
        In data mode, the numpy view of its bytes.
    tl
        The context that made it.
    """

    __slots__ = ("addr", "arena", "arr", "tl", "ty")

    __array_ufunc__ = None  # so that np.float64(2) * x asks x, instead of taking it for an array of objects

    addr: int
    ty: TileType
    arena: Scope
    arr: npt.NDArray[Any]
    tl: TLContext

    # -- what it is --------------------------------------------------------------------------------------------

    @property
    def shape(self) -> Shape:
        """Extents."""
        return self.ty.shape

    @property
    def dtype(self) -> DType:
        """Element type."""
        return self.ty.dtype

    @property
    def nbytes(self) -> int:
        """Bytes of a contiguous tile of this shape."""
        return self.ty.nbytes

    @property
    def numel(self) -> int:
        """Number of elements."""
        return self.ty.n

    @property
    def name(self) -> str:
        """The name given to it, or else the variable that its kernel assigned it to, or an empty text."""
        return self.tl.name_of(self)

    @property
    def T(self) -> Handle:
        """The transpose of a matrix, as a view."""
        return self.tl.trans(self)

    def __repr__(self) -> str:
        return f"<{self.name or 'tile'} {self.ty} at {self.addr}>"

    def __len__(self) -> int:
        if not self.ty.shape:
            raise TypeError("a scalar tile has no length")
        return self.ty.shape[0]

    # -- values, in data mode ----------------------------------------------------------------------------------

    def numpy(self) -> npt.NDArray[Any]:
        """A copy of the values, of this shape and dtype (data mode only).

        Raises
        ------
        DataModeError
            In timing mode, where there are no values.
        """
        return self.tl.value_of(self, "numpy()")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("the values of a tile cannot be had without a copy")
        return np.asarray(self.tl.value_of(self, "an array"), dtype)

    def item(self) -> Any:
        """The one element, as a Python number (data mode only)."""
        return self.tl.value_of(self, "item()").item()

    def __bool__(self) -> bool:
        return bool(self.tl.value_of(self, "bool()"))

    def __float__(self) -> float:
        return float(self.tl.value_of(self, "float()").item())

    def __int__(self) -> int:
        return int(self.tl.value_of(self, "int()").item())

    def __index__(self) -> int:
        if self.ty.dtype.is_float:
            raise TypeError(f"a {self.ty.dtype} tile is no index")
        return int(self.tl.value_of(self, "an index").item())

    def __iter__(self) -> NoReturn:
        raise TypeError(f"{self!r} cannot be iterated; index it, or loop over tl.range.")

    # -- operators ---------------------------------------------------------------------------------------------

    __hash__ = object.__hash__

    def __add__(self, other: Any) -> Handle:
        return self.tl.add(self, other)

    def __radd__(self, other: Any) -> Handle:
        return self.tl.add(other, self)

    def __sub__(self, other: Any) -> Handle:
        return self.tl.sub(self, other)

    def __rsub__(self, other: Any) -> Handle:
        return self.tl.sub(other, self)

    def __mul__(self, other: Any) -> Handle:
        return self.tl.mul(self, other)

    def __rmul__(self, other: Any) -> Handle:
        return self.tl.mul(other, self)

    def __truediv__(self, other: Any) -> Handle:
        return self.tl.div(self, other)

    def __rtruediv__(self, other: Any) -> Handle:
        return self.tl.div(other, self)

    def __floordiv__(self, other: Any) -> Handle:
        return self.tl.floordiv(self, other)

    def __rfloordiv__(self, other: Any) -> Handle:
        return self.tl.floordiv(other, self)

    def __mod__(self, other: Any) -> Handle:
        return self.tl.mod(self, other)

    def __rmod__(self, other: Any) -> Handle:
        return self.tl.mod(other, self)

    def __pow__(self, other: Any) -> Handle:
        return self.tl.pow(self, other)

    def __rpow__(self, other: Any) -> Handle:
        return self.tl.pow(other, self)

    def __and__(self, other: Any) -> Handle:
        return self.tl.and_(self, other)

    def __rand__(self, other: Any) -> Handle:
        return self.tl.and_(other, self)

    def __or__(self, other: Any) -> Handle:
        return self.tl.or_(self, other)

    def __ror__(self, other: Any) -> Handle:
        return self.tl.or_(other, self)

    def __xor__(self, other: Any) -> Handle:
        return self.tl.xor(self, other)

    def __rxor__(self, other: Any) -> Handle:
        return self.tl.xor(other, self)

    def __neg__(self) -> Handle:
        return self.tl.neg(self)

    def __abs__(self) -> Handle:
        return self.tl.abs(self)

    def __invert__(self) -> Handle:
        return self.tl.invert(self)

    def __eq__(self, other: Any) -> Handle:  # type: ignore[override]
        return self.tl.eq(self, other)

    def __ne__(self, other: Any) -> Handle:  # type: ignore[override]
        return self.tl.ne(self, other)

    def __lt__(self, other: Any) -> Handle:
        return self.tl.lt(self, other)

    def __le__(self, other: Any) -> Handle:
        return self.tl.le(self, other)

    def __gt__(self, other: Any) -> Handle:
        return self.tl.gt(self, other)

    def __ge__(self, other: Any) -> Handle:
        return self.tl.ge(self, other)

    def __getitem__(self, index: Any) -> Handle:
        return self.tl.index(self, index)

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        raise TypeError(
            "tiles are not assigned to by index; write into a part of one with tl.copy_to(tile[...], value)."
        )

    # -- methods, as in Triton ---------------------------------------------------------------------------------

    def to(self, dtype: Any, bitcast: bool = False, **more: Any) -> Handle:
        """Convert; see `TLContext.cast`."""
        return self.tl.cast(self, dtype, bitcast, **more)

    def copy(self, *, name: str | None = None) -> Handle:
        """A new handle with the same values; logged as `clone`."""
        return self.tl.clone(self, name=name)

    def reshape(self, *shape: Any) -> Handle:
        """See `TLContext.reshape`."""
        return self.tl._in_shape(self, shape)

    def view(self, *shape: Any) -> Handle:
        """See `TLContext.view`."""
        return self.tl._in_shape(self, shape)

    def trans(self, *dims: Any) -> Handle:
        """See `TLContext.trans`."""
        return self.tl.trans(self, *dims)

    def permute(self, *dims: Any) -> Handle:
        """See `TLContext.permute`."""
        return self.tl._permuted(self, dims)

    def expand_dims(self, axis: int) -> Handle:
        """See `TLContext.expand_dims`."""
        return self.tl.expand_dims(self, axis)

    def broadcast_to(self, *shape: Any) -> Handle:
        """See `TLContext.broadcast_to`."""
        return self.tl.broadcast_to(self, *shape)

    def max(self, axis: int | None = None, keep_dims: bool = False, **more: Any) -> Handle:
        """See `TLContext.max`."""
        return self.tl.max(self, axis, keep_dims, **more)

    def min(self, axis: int | None = None, keep_dims: bool = False, **more: Any) -> Handle:
        """See `TLContext.min`."""
        return self.tl.min(self, axis, keep_dims, **more)

    def sum(self, axis: int | None = None, keep_dims: bool = False, **more: Any) -> Handle:
        """See `TLContext.sum`."""
        return self.tl.sum(self, axis, keep_dims, **more)

    def argmax(self, axis: int | None = None, keep_dims: bool = False, **more: Any) -> Handle:
        """See `TLContext.argmax`."""
        return self.tl.argmax(self, axis, keep_dims, **more)

    def argmin(self, axis: int | None = None, keep_dims: bool = False, **more: Any) -> Handle:
        """See `TLContext.argmin`."""
        return self.tl.argmin(self, axis, keep_dims, **more)

    def xor_sum(self, axis: int | None = None, keep_dims: bool = False, **more: Any) -> Handle:
        """See `TLContext.xor_sum`."""
        return self.tl.xor_sum(self, axis, keep_dims, **more)

    def softmax(self, dim: int = -1, **more: Any) -> Handle:
        """See `TLContext.softmax`."""
        return self.tl.softmax(self, dim, **more)

    def cumsum(self, axis: int = 0, **more: Any) -> Handle:
        """See `TLContext.cumsum`."""
        return self.tl.cumsum(self, axis, **more)

    def exp(self, **more: Any) -> Handle:
        """See `TLContext.exp`."""
        return self.tl.exp(self, **more)

    def exp2(self, **more: Any) -> Handle:
        """See `TLContext.exp2`."""
        return self.tl.exp2(self, **more)

    def log(self, **more: Any) -> Handle:
        """See `TLContext.log`."""
        return self.tl.log(self, **more)

    def log2(self, **more: Any) -> Handle:
        """See `TLContext.log2`."""
        return self.tl.log2(self, **more)

    def sqrt(self, **more: Any) -> Handle:
        """See `TLContext.sqrt`."""
        return self.tl.sqrt(self, **more)

    def rsqrt(self, **more: Any) -> Handle:
        """See `TLContext.rsqrt`."""
        return self.tl.rsqrt(self, **more)

    def sigmoid(self, **more: Any) -> Handle:
        """See `TLContext.sigmoid`."""
        return self.tl.sigmoid(self, **more)

    def erf(self, **more: Any) -> Handle:
        """See `TLContext.erf`."""
        return self.tl.erf(self, **more)

    def sin(self, **more: Any) -> Handle:
        """See `TLContext.sin`."""
        return self.tl.sin(self, **more)

    def cos(self, **more: Any) -> Handle:
        """See `TLContext.cos`."""
        return self.tl.cos(self, **more)

    def abs(self, **more: Any) -> Handle:
        """See `TLContext.abs`."""
        return self.tl.abs(self, **more)

    def floor(self, **more: Any) -> Handle:
        """See `TLContext.floor`."""
        return self.tl.floor(self, **more)

    def ceil(self, **more: Any) -> Handle:
        """See `TLContext.ceil`."""
        return self.tl.ceil(self, **more)


class Pointer:
    """An element of a tensor shard in HBM. ``ptr + n`` is n elements further.

    Attributes
    ----------
    shard
        What it points into.
    offset
        Elements from the shard's first.
    """

    __slots__ = ("offset", "shard")

    def __init__(self, shard: Shard, offset: int = 0) -> None:
        self.shard = shard
        self.offset = offset

    @property
    def dtype(self) -> DType:
        """Element type of the tensor."""
        return self.shard.dtype

    def __add__(self, elements: Any) -> Pointer:
        if elements.__class__ is not int:
            if isinstance(elements, Handle):
                raise TypeError(
                    f"{self!r} + a tile makes a tile of pointers, which is not supported: load a block with "
                    "tl.load(ptr + start, shape, strides=...) instead, start being an integer."
                )
            try:
                elements = elements.__index__()
            except AttributeError:
                raise TypeError(
                    f"{self!r} + {elements!r}: pointers move by whole elements, got {type(elements).__name__}"
                ) from None
        return Pointer(self.shard, self.offset + elements)

    __radd__ = __add__

    def __sub__(self, elements: int) -> Pointer:
        return self + -elements

    def __repr__(self) -> str:
        return f"<pointer to {self.shard.tensor}[{self.offset}], {self.shard.dtype}>"


class LoadFuture:
    """A load in flight. It keeps the source's bytes as they were at its issue; its destination changes at the wait.

    Attributes
    ----------
    handle
        The destination; it must not be read before the wait.
    ready_ps
        When the data is there.
    """

    __slots__ = ("done", "fill", "handle", "ready_ps", "shard", "source", "tl")

    tl: TLContext
    handle: Handle
    ready_ps: int
    shard: Shard
    source: npt.NDArray[Any] | None
    fill: npt.NDArray[Any] | None
    done: bool

    def snapshot(self) -> None:
        """Copy the source now; it is about to change."""
        if self.source is not None:
            self.source = np.array(self.source)

    def abandon(self) -> None:
        """Nothing will arrive: the destination was given back."""
        self.done = True
        if self.source is not None:
            self.shard.release(self)
        self.source = self.fill = None

    def wait(self) -> Handle:
        """Wait until the data is there; waiting again costs nothing."""
        self.tl.wait(self)
        return self.handle

    def __repr__(self) -> str:
        return f"<load of {self.handle.name or 'a tile'} {self.handle.ty}, {'done' if self.done else 'in flight'}>"


class RecvFuture:
    """A receive that was announced; the message is taken at the wait.

    Attributes
    ----------
    handle
        The destination; it must not be read before the wait.
    ty
        Type of the message; the destination may have another dtype.
    """

    __slots__ = ("direction", "done", "handle", "issue_ps", "name", "number", "tl", "ty")

    tl: TLContext
    ty: TileType
    handle: Handle
    direction: str | int
    issue_ps: int
    number: int
    name: str | None
    done: bool

    def abandon(self) -> None:
        """Nothing will arrive: the destination was given back."""
        self.done = True

    def wait(self) -> Handle:
        """Wait for the message; waiting again costs nothing."""
        self.tl.wait(self)
        return self.handle


def no_value(what: str, handle: Handle) -> DataModeError:
    """Say that timing mode has no values."""
    return DataModeError(
        f"{what} of {handle!r} asks for a value, but this run is in timing mode and has none. A kernel that branches "
        "on a loaded value runs in data mode only: launch it with data=True (GraphEngine(..., enable_data=True))."
    )
