"""Elementwise operations. The hot path of the language is written out here once, for two operands."""

from __future__ import annotations

from sys import _getframe
from types import FrameType
from typing import Any, Protocol

from kernbench_nb.dtypes import DType, bool_, f32, resolve_dtype
from kernbench_nb.memory import TileType
from kernbench_nb.triton_emu._core import Core
from kernbench_nb.triton_emu.handles import Handle
from kernbench_nb.triton_emu.kinds import BINARY, UNARY

__all__ = ["Elementwise"]


class BinaryOp(Protocol):
    """The signature of an operation on two tiles."""

    def __call__(self, x: Any, y: Any, *, out: Handle | None = None, name: str | None = None) -> Handle:
        """Compute it."""


class UnaryOp(Protocol):
    """The signature of an operation on one tile."""

    def __call__(self, x: Handle, *, out: Handle | None = None, name: str | None = None) -> Handle:
        """Compute it."""


def _binary(op: str, formula: str, note: str = "") -> Any:
    at = BINARY.index(op)

    def operation(
        self: Elementwise, x: Any, y: Any, *, out: Handle | None = None, name: str | None = None
    ) -> Handle:
        frame = _getframe(1)
        if frame is not self._frame:
            frame = self._enter(frame)
        try:
            if y.__class__ is float:
                y = self._numbers[x.ty][y]
            kind = self._binary[at][x.ty][y.ty] if out is None else None
        except (AttributeError, KeyError):
            kind = None
        if kind is None:
            return self._binary_apart(op, x, y, out, name, frame)
        if x.arena.guard or y.arena.guard:
            self._inspect(x, y)
        scratch = self._scratch
        addr = scratch.top
        top = addr + kind.size
        if top <= scratch.fast_top:
            scratch.top = top
        else:
            addr = self._take(kind, name, frame)
        result = Handle()
        result.addr = addr
        ty: TileType = kind.ty  # type: ignore[assignment]
        result.ty = ty
        result.arena = scratch.arena
        result.tl = self  # type: ignore[assignment]
        self._now = now = self._now + kind.step
        log = self._log
        log((kind.index, now, addr, x.addr, y.addr, name, self._chain, frame.f_lasti))
        if self._data:
            try:
                result.arr = self._arrays[ty][addr]
            except KeyError:
                result.arr = self._bytes.view(addr, ty)  # type: ignore[union-attr]
            kind.run(x.arr, y.arr, result.arr)  # type: ignore[misc]
        return result

    operation.__name__ = operation.__qualname__ = op
    operation.__doc__ = f"""{formula}, elementwise.

        Parameters
        ----------
        x, y
            Tiles of this PE that broadcast (extents equal or 1), or one tile and one number, which takes its dtype.
        out
            Written instead of allocating; may be exactly an operand.
        name
            What views call the result.

        Returns
        -------
        Handle
            {note or "In the wider dtype of the two."}

        Notes
        -----
        Math engine: ``fill + ceil(n / lanes) * c`` cycles for n results (`topology/costs.py`).

        Raises
        ------
        ShapeError, DTypeError, UseAfterScopeError, ScratchOverflowError
            Before anything is logged or allocated.
        """
    return operation


def _unary(op: str, formula: str) -> Any:
    at = UNARY.index(op)

    def operation(
        self: Elementwise, x: Handle, *, out: Handle | None = None, name: str | None = None
    ) -> Handle:
        frame = _getframe(1)
        if frame is not self._frame:
            frame = self._enter(frame)
        try:
            kind = self._unary[at][x.ty] if out is None else None
        except (AttributeError, KeyError):
            kind = None
        if kind is None:
            return self._unary_apart(op, x, out, name, frame)
        return self._run1(kind, x, None, name, frame)

    operation.__name__ = operation.__qualname__ = op
    operation.__doc__ = f"""{formula}, elementwise, in the dtype of x (16- and 8-bit floats compute in f32).

        Parameters
        ----------
        x
            A tile of this PE.
        out
            Written instead of allocating; may be exactly x.
        name
            What views call the result.

        Notes
        -----
        Math engine: ``fill + ceil(n / lanes) * c`` cycles for n results (`topology/costs.py`).

        Raises
        ------
        DTypeError, UseAfterScopeError, ScratchOverflowError
            Before anything is logged or allocated.
        """
    return operation


class Elementwise(Core):
    """Operations that treat each element alike.

    Notes
    -----
    Each costs ``fill + ceil(n / lanes) * c`` cycles of the math engine for n results (`topology/costs.py`), and takes
    scratch for its result, or none with ``out=``.
    """

    __slots__ = ()

    add: BinaryOp = _binary("add", "x + y")
    sub: BinaryOp = _binary("sub", "x - y")
    mul: BinaryOp = _binary("mul", "x * y")
    div: BinaryOp = _binary("div", "x / y", "In f32 if both are f16 or integers, else in the wider dtype.")
    floordiv: BinaryOp = _binary("floordiv", "x // y of integers, truncated towards zero as in Triton")
    mod: BinaryOp = _binary("mod", "The remainder of x / y, with the sign of x as in Triton")
    pow: BinaryOp = _binary("pow", "x ** y")
    maximum: BinaryOp = _binary("maximum", "The larger of x and y; NaN propagates")
    minimum: BinaryOp = _binary("minimum", "The smaller of x and y; NaN propagates")
    and_: BinaryOp = _binary("and_", "x & y of integers or bool")
    or_: BinaryOp = _binary("or_", "x | y of integers or bool")
    xor: BinaryOp = _binary("xor", "x ^ y of integers or bool")
    eq: BinaryOp = _binary("eq", "x == y", "bool")
    ne: BinaryOp = _binary("ne", "x != y", "bool")
    lt: BinaryOp = _binary("lt", "x < y", "bool")
    le: BinaryOp = _binary("le", "x <= y", "bool")
    gt: BinaryOp = _binary("gt", "x > y", "bool")
    ge: BinaryOp = _binary("ge", "x >= y", "bool")

    exp: UnaryOp = _unary("exp", "e ** x")
    exp2: UnaryOp = _unary("exp2", "2 ** x")
    log: UnaryOp = _unary("log", "Logarithm, base e")
    log2: UnaryOp = _unary("log2", "Logarithm, base 2")
    sqrt: UnaryOp = _unary("sqrt", "Square root")
    rsqrt: UnaryOp = _unary("rsqrt", "1 / sqrt(x)")
    sigmoid: UnaryOp = _unary("sigmoid", "1 / (1 + e ** -x)")
    erf: UnaryOp = _unary("erf", "Error function")
    sin: UnaryOp = _unary("sin", "Sine of x in radians")
    cos: UnaryOp = _unary("cos", "Cosine of x in radians")
    floor: UnaryOp = _unary("floor", "Largest integer not above x")
    ceil: UnaryOp = _unary("ceil", "Smallest integer not below x")
    neg: UnaryOp = _unary("neg", "-x")
    abs: UnaryOp = _unary("abs", "Absolute value")
    invert: UnaryOp = _unary("invert", "~x of integers or bool")

    def cast(
        self,
        x: Handle,
        dtype: Any,
        bitcast: bool = False,
        *,
        out: Handle | None = None,
        name: str | None = None,
    ) -> Handle:
        """Convert to another dtype, rounding once to nearest even.

        Parameters
        ----------
        x
            A tile.
        dtype
            Anything that `resolve_dtype` knows. Converting to the dtype that it has returns `x` itself, as in Triton.
        bitcast
            Show the same bytes as another dtype of the same size: a view, free of charge.
        out, name
            As everywhere.

        Raises
        ------
        DTypeError
            For an unknown dtype, or a bitcast between sizes.
        """
        frame = _getframe(1)
        if frame is not self._frame:
            frame = self._enter(frame)
        if x.__class__ is not Handle or x.tl is not self:
            self._own(x, "cast")
        to = dtype if dtype.__class__ is DType else resolve_dtype(dtype)
        if bitcast:
            return self._bitcast(x, to)
        if out is not None:
            return self._apply(self._kinds.cast(x.ty, to, self._own(out, "out=").ty), (x,), out, name, frame)
        if to is x.ty.dtype:
            if x.arena.guard and x.arena.dead:
                raise self._dead(x)
            return x
        try:
            kind = self._casts[x.ty][to]
        except KeyError:  # such a kind always exists, so no error can come out of here
            kind = self._casts.setdefault(x.ty, {})[to] = self._kinds.cast(x.ty, to, None)
        return self._run1(kind, x, None, name, frame)

    def where(
        self, condition: Any, x: Any, y: Any, *, out: Handle | None = None, name: str | None = None
    ) -> Handle:
        """`x` where `condition` holds, else `y`, elementwise; what is not chosen does not matter, NaN included.

        Parameters
        ----------
        condition
            bool tile (or integers, true unless 0), or one truth for all.
        x, y
            Tiles or numbers that broadcast with it.
        out, name
            As everywhere.

        Raises
        ------
        ShapeError, DTypeError
            If shapes or dtypes do not go together.
        """
        frame = self._enter(_getframe(1))
        condition = self._operand(condition, bool_)
        beside = next((h.ty.dtype for h in (x, y) if h.__class__ is Handle), None)
        if beside is None:
            beside = f32 if isinstance(x, float) or isinstance(y, float) else bool_
        x, y = self._operand(x, beside), self._operand(y, beside)
        kind = self._kinds.where(condition.ty, x.ty, y.ty, None if out is None else self._own(out, "out=").ty)
        return self._apply(kind, (condition, x, y), out, name, frame)

    def fma(self, x: Handle, y: Any, z: Any, *, out: Handle | None = None, name: str | None = None) -> Handle:
        """The sum ``x * y + z``, elementwise: floats up to f32 round once, f64 the product and the sum.

        Parameters
        ----------
        x
            A tile.
        y, z
            Tiles that broadcast with it, or numbers, which take its dtype.
        out, name
            As everywhere.

        Raises
        ------
        ShapeError, DTypeError
            If shapes or dtypes do not go together.
        """
        return self._ternary("fma", x, y, z, out, name, _getframe(1))

    def clamp(
        self,
        x: Handle,
        min: Any,
        max: Any,
        *,
        out: Handle | None = None,
        name: str | None = None,
    ) -> Handle:
        """`x` held between `min` and `max`, elementwise; NaN in any of them propagates.

        Parameters
        ----------
        x
            A tile.
        min, max
            Tiles that broadcast with it, or numbers, which take its dtype.
        out, name
            As everywhere.

        Raises
        ------
        ShapeError, DTypeError
            If shapes or dtypes do not go together.
        """
        return self._ternary("clamp", x, min, max, out, name, _getframe(1))

    def _ternary(
        self, op: str, x: Handle, y: Any, z: Any, out: Handle | None, name: str | None, frame: FrameType
    ) -> Handle:
        """An operation on a tile and two more, or numbers that take its dtype."""
        frame = self._enter(frame)
        self._own(x, f"{op}: x")
        y, z = self._operand(y, x.ty.dtype), self._operand(z, x.ty.dtype)
        kind = self._kinds.ternary(op, x.ty, y.ty, z.ty, None if out is None else self._own(out, "out=").ty)
        return self._apply(kind, (x, y, z), out, name, frame)

    # -- the other ways in: numbers, out=, types that were not met before --------------------------------------

    def _binary_apart(
        self, op: str, x: Any, y: Any, out: Handle | None, name: str | None, frame: FrameType
    ) -> Handle:
        if y.__class__ is not Handle:
            number = y
            y = self._operand(y, self._own(x, op).ty.dtype)
            if number.__class__ is float and number:  # 0.0 and -0.0 are equal, and not the same
                self._numbers.setdefault(x.ty, {})[number] = y
        elif x.__class__ is not Handle:
            x = self._operand(x, y.ty.dtype)
        self._own(x, op)
        self._own(y, op)
        if out is None:
            found = self._binary[BINARY.index(op)].get(x.ty, {}).get(y.ty)
            return self._run2(found or self._kinds.make_binary(op, x.ty, y.ty), x, y, name, frame)
        return self._apply(
            self._kinds.make_binary(op, x.ty, y.ty, self._own(out, "out=").ty), (x, y), out, name, frame
        )

    def _unary_apart(self, op: str, x: Any, out: Handle | None, name: str | None, frame: FrameType) -> Handle:
        self._own(x, op)
        if out is None:
            return self._run1(self._kinds.make_unary(op, x.ty), x, None, name, frame)
        return self._apply(
            self._kinds.make_unary(op, x.ty, self._own(out, "out=").ty), (x,), out, name, frame
        )

    # -- shared by everything that is not the hot path ---------------------------------------------------------

    def _apply(
        self,
        kind: Any,
        operands: tuple[Handle, ...],
        out: Handle | None,
        name: str | None,
        frame: Any,
        elementwise: bool = True,
    ) -> Handle:
        """One private operation from start to end: checks, scratch, clock, row, numpy."""
        for operand in operands:
            if operand.arena.guard:
                self._inspect(operand)
        if out is not None:
            self._inspect_target(out, operands, elementwise)
            self._wrote(out)
        result = self._result(kind, out, name, frame)
        addresses = [x.addr for x in operands]
        if len(addresses) > 2:
            self._trace.more[len(self._trace)] = tuple(addresses[2:])
        a, b = (*addresses, -1, -1)[:2]
        self._emit(kind, result, name, frame, a, b)
        if self._data and kind.run is not None:
            kind.run(*(x.arr for x in operands), result.arr)
        return result

    def _bitcast(self, x: Handle, dtype: Any) -> Handle:
        raise NotImplementedError
