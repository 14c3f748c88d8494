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

__all__ = ["Handle", "LoadFuture", "Pointer", "RecvFuture", "remedy"]

Shape = tuple[int, ...]

_UFUNCS = {"absolute": "abs", "divide": "div", "equal": "eq", "floor_divide": "floordiv",
           "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le", "logical_and": "and_",
           "logical_not": "invert", "logical_or": "or_", "matmul": "dot", "multiply": "mul", "negative": "neg",
           "not_equal": "ne", "power": "pow", "remainder": "mod", "subtract": "sub", "bitwise_and": "and_",
           "bitwise_or": "or_", "bitwise_xor": "xor"}  # fmt: skip
"""What numpy's functions are called here, where they have another name."""

_OPERATORS = {
    *("add", "sub", "mul", "div", "floordiv", "mod", "pow", "and_", "or_", "xor"),
    *("eq", "ne", "lt", "le", "gt", "ge"),
}
"""Functions of two tiles that are operators too, so that a numpy scalar may stand on their left."""


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

    Notes
    -----
    Operators are the functions of the same meaning, with a tile or a number on either side: ``+ - * / // % **``
    (`add`, `sub`, `mul`, `div`, `floordiv`, `mod`, `pow`), ``& | ^ ~`` (`and_`, `or_`, `xor`, `invert`),
    ``== != < <= > >=`` (bool tiles), ``-x`` and ``abs(x)``. Each makes a new tile: ``x += y`` rebinds the name x.
    ``x[...]`` is a view: integers, slices, None and ``...``, free of charge (`TLContext.index`).
    """

    __slots__ = ("addr", "arena", "arr", "tl", "ty")

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

    def _one(self, what: str) -> Any:
        """The one element, as a Python number."""
        value = self.tl.value_of(self, what)
        if value.size != 1:
            raise ValueError(
                f"{what} of {self!r}: a tile of {value.size} elements is no single number; reduce it first (tl.max, "
                "tl.min, tl.sum), take one element by index, or .numpy() for all."
            )
        return value.item()

    def item(self) -> Any:
        """The one element, as a Python number (data mode only).

        Raises
        ------
        ValueError
            If there are more, or none.
        """
        return self._one("item()")

    def __bool__(self) -> bool:
        if self.ty.n != 1:
            self.tl._inspect(self)
            raise ValueError(
                f"{self!r} has {self.ty.n} elements, and a tile has no single truth value (if, while, and, or, not): "
                "choose elementwise with tl.where(condition, x, y), combine conditions with &, | and ~, or reduce to "
                "one element first with tl.max or tl.min; tl.device_assert(condition) checks all of them."
            )
        return bool(self.tl.value_of(self, "bool()"))

    def __float__(self) -> float:
        return float(self._one("float()"))

    def __int__(self) -> int:
        return int(self._one("int()"))

    def __index__(self) -> int:
        if self.ty.dtype.is_float:
            raise TypeError(f"a {self.ty.dtype} tile is no index")
        return int(self._one("an index"))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **more: Any) -> Any:
        """``np.float64(2) * x`` is an operator of the tile; every other function of numpy is refused."""
        name = _UFUNCS.get(ufunc.__name__, ufunc.__name__)
        here: Any = getattr(self.tl, name, None)
        if method == "__call__" and not more and name in _OPERATORS and inputs[0].__class__ is not Handle:
            if isinstance(inputs[0], np.ndarray) and inputs[0].ndim == 0:
                inputs = (inputs[0][()], inputs[1])
            return here(*inputs)
        instead = f"use tl.{name}" if callable(here) else "the functions that do are those of tl"
        raise TypeError(
            f"np.{ufunc.__name__} does not take tiles, which are addresses in scratch; {instead}. "
            "(x.numpy() has the values, outside of the modelled machine.)"
        )

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


def remedy(value: Any) -> str:
    """What to do with something that is no tile where one is wanted; an empty text if there is nothing to say."""
    if isinstance(value, Pointer):
        return "; it points into HBM: load a block first with tl.load(ptr + start, shape)."
    if isinstance(value, (LoadFuture, RecvFuture)):
        return "; tl.wait(future) or future.wait() gives its tile."
    return ""


_POINTERS = (
    "A kernel's tensor arguments are pointers into HBM, with no shape of their own: pass sizes to the kernel as "
    "numbers, and load a block with tl.load(ptr + start, shape, strides=...)."
)


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
                    f"{self!r} + {elements!r}: pointers move by whole elements, got {type(elements).__name__}. "
                    f"{_POINTERS}"
                ) from None
        return Pointer(self.shard, self.offset + elements)

    __radd__ = __add__

    def __sub__(self, elements: int) -> Pointer:
        return self + -elements

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{self!r} has no .{name}. {_POINTERS}" if name[:1] != "_" else name)

    def __getitem__(self, index: Any) -> NoReturn:
        raise TypeError(f"{self!r} cannot be indexed. {_POINTERS}")

    def __len__(self) -> int:
        raise TypeError(f"{self!r} has no length. {_POINTERS}")

    def __bool__(self) -> bool:  # else Python would ask for the length
        return True

    def __repr__(self) -> str:
        return f"<pointer to {self.shard.tensor}[{self.offset}], {self.shard.dtype}>"


class _InFlight:
    """What cannot be done with a future: everything that is the tile's business."""

    __slots__ = ()

    def __getattr__(self, name: str) -> NoReturn:
        if name[:1] == "_":
            raise AttributeError(name)
        raise AttributeError(
            f"a {type(self).__name__} has no .{name}: tl.wait(future) or future.wait() gives the tile."
        )

    def _no_tile(self, *_: Any) -> NoReturn:
        raise TypeError(f"{self!r} is no tile yet: tl.wait(future) or future.wait() gives it.")

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _no_tile
    __pow__ = __rpow__ = __matmul__ = __neg__ = __lt__ = __le__ = __gt__ = __ge__ = __getitem__ = _no_tile


class LoadFuture(_InFlight):
    """A load in flight. It keeps the source's bytes as they were at its issue; its destination changes at the wait.

    Attributes
    ----------
    handle
        The destination; it must not be read before the wait.
    ready_ps
        When the data is there.
    done
        Whether it was waited for, or abandoned.
    shard
        What it reads from.
    source, fill
        In data mode until the wait, the bytes of the source, or the whole tile of a masked load.
    tl
        The context that issued it.
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


class RecvFuture(_InFlight):
    """A receive that was announced; the message is taken at the wait.

    Attributes
    ----------
    handle
        The destination; it must not be read before the wait.
    ty
        Type of the message; the destination may have another dtype.
    direction, number
        Where it comes from, and which of the receives announced there it is.
    issue_ps
        When it was announced.
    name
        What views call the tile.
    done
        Whether it was waited for, or abandoned.
    tl
        The context that announced it.
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

    def __repr__(self) -> str:
        return f"<receive of {self.ty} from {self.direction!r}, {'done' if self.done else 'in flight'}>"


def no_value(what: str, handle: Handle) -> DataModeError:
    """Say that timing mode has no values."""
    return DataModeError(
        f"{what} of {handle!r} asks for a value, but this run is in timing mode and has none. A kernel that branches "
        "on a loaded value runs in data mode only: launch it with data=True (GraphEngine(..., enable_data=True))."
    )
