"""The numpy behind each operation, in data mode.

Rules, in one place: conversions round once, to nearest even; sums, products and softmax of 16- and 8-bit floats
accumulate in f32; NaN propagates through maxima and minima; integer division truncates and its remainder has the
sign of the dividend, as in Triton (and C).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from kernbench_nb.dtypes import DType, f16, f32, f64, i32

__all__ = ["binary", "bind", "convert", "dot", "matmul_widen", "reduction", "softmax", "unary", "widen"]

Array = npt.NDArray[Any]
Run = Callable[..., Any]

_HALF_SPAN = np.array(2.0**112, np.float32)  # f16's exponent bias is 15, f32's is 127
_WORTH_IT = 3072  # elements from which the passes of _widen_bits beat numpy's own conversion
_ALL_FINITE = 2.0**32
_13 = np.array(13, np.int32)
_SIGN_AND_REST = np.array(
    -0x70002000, np.int32
)  # 0x8fffe000: the sign, and what a finite f16 fills of an f32


# -- conversions -----------------------------------------------------------------------------------------------


def convert(out: Array, src: Array) -> None:
    """Write `src` into `out`, converted with one rounding to nearest even.

    The conversions of `ml_dtypes` from f64 and from integers go through f32 and would round twice; an f32 rounded to
    odd keeps what the second rounding needs to know. A float that no integer can hold becomes some integer, as in C.
    """
    if out.dtype.kind == "b":
        np.not_equal(src, 0, out=out)
    elif out.dtype == src.dtype:
        np.copyto(out, src)
    elif out.dtype.kind == "V" or (out.dtype.itemsize == 1 and out.dtype.kind not in "iu"):
        if src.dtype == np.int64:
            # beyond 2**52 it may not fit f64: of the last 11 bits only whether one is set matters then
            odd = ((src >> 11) | ((src & 0x7FF) != 0)) * 2048.0
            src = np.where(np.abs(src) >> 52, odd, src)
        elif src.dtype.kind in "iu":
            src = src.astype(np.float64)
        if src.dtype == np.float64:
            src = _round_to_odd(src)
        out[...] = src if src.dtype == np.float32 else src.astype(np.float32)
    else:
        np.copyto(out, src, casting="unsafe")


def _round_to_odd(x: Array) -> Array:
    """f64 -> f32, towards zero, with the last bit set where that lost something."""
    y = x.astype(np.float32)
    back = y.astype(np.float64)
    y = np.where(np.abs(back) > np.abs(x), np.nextafter(y, np.float32(0)), y)
    lost = (y.astype(np.float64) != x) & ~np.isnan(x)
    odd: Array = (y.view(np.uint32) | lost.astype(np.uint32)).view(np.float32)
    return odd


def widen(x: Array) -> Array:
    """An f32 array with the values of a narrow float array, in the same memory order."""
    if x.dtype == np.float32:
        return x
    if x.dtype == np.float16 and x.size >= _WORTH_IT:
        return _widen_bits(x, _room(x, np.empty(x.size, np.int32)))
    return x.astype(np.float32)


Room = tuple[Array, Array, Array]
"""The same bytes three times: as int32 and as f32 in the layout of an operand, and flat as f32."""


def _room(x: Array, flat: Array) -> Room:
    """Views of the int32 array `flat` for `_widen_bits` of an operand like `x`."""
    bits: Array = np.ndarray(x.shape, np.int32, flat, 0, np.empty_like(x, np.int32).strides)
    return bits, bits.view(np.float32), flat.view(np.float32)


def _widen_bits(x: Array, room: Room) -> Array:
    """f16 to f32 into `room`, by shifting exponent and fraction into place.

    numpy converts f16 element by element; these passes over whole arrays are faster. They are right for finite
    values only, so a tile that holds an infinity or a NaN takes the slow way.
    """
    return _widen_halves(x, x.view(np.int16), *room)


def _widen_halves(x: Array, halves: Array, bits: Array, wide: Array, flat: Array) -> Array:
    # 0-d arrays and outputs by position: a Python or numpy number, or `out=`, costs each pass 0.2 to 0.3 us more
    bits[...] = halves
    np.left_shift(bits, _13, bits)
    np.bitwise_and(bits, _SIGN_AND_REST, bits)
    np.multiply(wide, _HALF_SPAN, wide)
    # what was infinite or NaN is now 65536 or more: if the sum of squares stays below, nothing was
    return wide if flat.dot(flat) < _ALL_FINITE else x.astype(np.float32)


# -- elementwise -----------------------------------------------------------------------------------------------


def _truncated_division(a: Array, b: Array, out: Array) -> None:
    quotient = np.floor_divide(a, b)
    np.add(quotient, (quotient < 0) & (np.multiply(quotient, b) != a), out=out)


def _power(a: Array, b: Array, out: Array) -> None:
    if a.dtype.kind == "f":
        np.power(a, b, out)
        return
    inverse = np.where(
        a == 1, 1, np.where(a == -1, 1 - 2 * (b & 1), 0)
    )  # 1 / a**n, truncated as all division is
    np.copyto(out, np.where(b < 0, inverse, np.power(a, np.maximum(b, 0))), casting="unsafe")


_BINARY: dict[str, Any] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.true_divide,
    "floordiv": _truncated_division,
    "mod": np.fmod,
    "pow": _power,
    # numpy wants `out` of these two by name
    "maximum": lambda x, y, out: np.maximum(x, y, out=out),
    "minimum": lambda x, y, out: np.minimum(x, y, out=out),
    "and_": np.bitwise_and,
    "or_": np.bitwise_or,
    "xor": np.bitwise_xor,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}


def _erf(x: Array, out: Array) -> None:
    """Error function in f64: a series near 0, else a continued fraction (Abramowitz and Stegun 7.1.6, 7.1.14)."""
    z = x.astype(np.float64)
    a = np.minimum(np.abs(z), 6.0)  # beyond that it is 1 to the last bit
    term = a.copy()
    series = a.copy()
    for n in range(1, 60):
        term = term * (2.0 * a * a) / (2 * n + 1)
        series = series + term
    near = 2.0 / np.sqrt(np.pi) * np.exp(-a * a) * series
    tail = np.maximum(a, 1.0)
    fraction = tail
    for n in range(60, 0, -1):
        fraction = tail + (n / 2.0) / fraction
    far = 1.0 - np.exp(-tail * tail) / (np.sqrt(np.pi) * fraction)
    convert(out, np.where(np.isnan(z), z, np.copysign(np.where(a < 2.5, near, far), z)))


def _sigmoid(x: Array, out: Array) -> None:
    half = np.exp(-np.abs(x))  # never overflows
    np.divide(np.where(x >= 0, np.ones_like(half), half), half + 1, out=out)


def _rsqrt(x: Array, out: Array) -> None:
    np.divide(x.dtype.type(1), np.sqrt(x), out=out)


_UNARY: dict[str, Any] = {
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "sqrt": np.sqrt,
    "rsqrt": _rsqrt,
    "sigmoid": _sigmoid,
    "erf": _erf,
    "sin": np.sin,
    "cos": np.cos,
    "floor": np.floor,
    "ceil": np.ceil,
    "neg": np.negative,
    "abs": np.absolute,
    "invert": np.invert,
}


def _working(dtype: DType) -> DType:
    return f32 if dtype.is_narrow_float else dtype


def _as(x: Array, dtype: DType) -> Array:
    if x.dtype == dtype.np:
        return x
    if dtype is f32 and x.dtype.kind not in "iub" and x.dtype != np.float64:
        return widen(x)
    out = np.empty(x.shape, dtype.np)
    convert(out, x)
    return out


def binary(op: str, a: DType, b: DType, common: DType, result: DType, out: DType) -> Run:
    """``run(a, b, out)`` of an elementwise operation.

    Operands become `common`, 16- and 8-bit floats work in f32, the result is rounded to `result` and, if it is
    written elsewhere, to `out`.
    """
    function = _BINARY[op]
    work = _working(common)
    direct = a is b is common is work and out is result and (result is work or result.kind == "bool")
    if direct:
        return function  # type: ignore[no-any-return]

    def run(x: Array, y: Array, z: Array) -> None:
        x, y = _as(x, work), _as(y, work)
        wide = np.empty(z.shape, np.bool_ if result.kind == "bool" else work.np)
        function(x, y, wide)
        _deliver(wide, result, z)

    return run


def _assign(x: Array, z: Array) -> None:
    z[...] = x


def unary(op: str, a: DType, result: DType, out: DType) -> Run:
    """``run(x, out)`` of an elementwise operation on one operand."""
    if op in ("cast", "copy", "clone"):
        if result is not out:
            return lambda x, z: _deliver(x, result, z)
        if a is out or (a.kind == "float" and out in (f16, f32) and a.bits >= 32):
            return _assign  # numpy's own conversion rounds once
        return lambda x, z: convert(z, x)
    function = _UNARY[op]
    work = _working(result)
    if a is result is work is out:
        return function  # type: ignore[no-any-return]

    def run(x: Array, z: Array) -> None:
        wide = np.empty(z.shape, work.np)
        function(_as(x, work), wide)
        _deliver(wide, result, z)

    return run


def _deliver(wide: Array, result: DType, out: Array) -> None:
    """Round to the type of the result, then to where it is written."""
    if wide.dtype != result.np and out.dtype != result.np:
        rounded = np.empty(wide.shape, result.np)
        convert(rounded, wide)
        wide = rounded
    convert(out, wide)


def where(common: DType) -> Run:
    """``run(condition, x, y, out)``."""

    def run(c: Array, x: Array, y: Array, out: Array) -> None:
        chosen = np.where(c if c.dtype == np.bool_ else c != 0, _as(x, common), _as(y, common))
        convert(out, chosen)

    return run


def fma(common: DType) -> Run:
    """``run(x, y, z, out)``: x*y + z, of floats up to f32 rounded once; f64 rounds the product and the sum."""
    exact = common.is_float and common is not f64
    work = f64 if exact else common

    def run(x: Array, y: Array, z: Array, out: Array) -> None:
        product, z = np.multiply(_as(x, work), _as(y, work)), _as(z, work)
        _deliver(_sum_to_odd(product, z) if exact else product + z, common, out)

    return run


def _sum_to_odd(a: Array, b: Array) -> Array:
    """A + b in f64, with an odd last bit where the sum is not exact, so that rounding it once more rounds once."""
    total: Array = np.asarray(a + b)
    part = total - a
    error = (a - (total - part)) + (b - part)  # Knuth's two-sum: total + error is a + b exactly
    even = (total.view(np.int64) & 1) == 0
    beside = np.nextafter(total, np.copysign(np.inf, error))
    return np.where(np.isfinite(total) & (error != 0) & even, beside, total)


def clamp(common: DType) -> Run:
    """``run(x, low, high, out)``; NaN stays NaN."""
    work = _working(common)

    def run(x: Array, low: Array, high: Array, out: Array) -> None:
        held = np.minimum(np.maximum(_as(x, work), _as(low, work)), _as(high, work))
        _deliver(held, common, out)

    return run


# -- reductions ------------------------------------------------------------------------------------------------


def reduction(
    op: str, a: DType, result: DType, axis: int | None, keep_dims: bool, initial: float | None = None
) -> Run:
    """``run(x, out)`` of a reduction, which may start from a value."""
    if op in ("argmax", "argmin"):
        function = np.argmax if op == "argmax" else np.argmin

        def run_index(x: Array, out: Array) -> None:
            convert(out, function(_as(x, _working(a)), axis=axis, keepdims=keep_dims))

        return run_index
    ufunc: Any = {"max": np.maximum, "min": np.minimum, "sum": np.add, "xor_sum": np.bitwise_xor}[op]
    work = _working(a if op in ("max", "min", "xor_sum") or a.is_float else result)
    more = () if initial is None else (initial,)
    if a is result is work:
        return lambda x, out: ufunc.reduce(x, axis, None, out, keep_dims, *more)

    def run(x: Array, out: Array) -> None:
        convert(out, np.asarray(ufunc.reduce(_as(x, work), axis, work.np, None, keep_dims, *more)))

    return run


def through(run: Run, shape: tuple[int, ...], result: DType) -> Run:
    """Round to `result` first, then to where it is written."""

    def rounded(x: Array, out: Array) -> None:
        temp = np.empty(shape, result.np)
        run(x, temp)
        convert(out, temp)

    return rounded


def cumsum(result: DType, axis: int) -> Run:
    """``run(x, out)`` of a running sum."""
    work = _working(result)
    return lambda x, out: _deliver(np.cumsum(_as(x, work), axis=axis, dtype=work.np), result, out)


def softmax(a: DType, axis: int) -> Run:
    """``run(x, out)``: exp(x - max) / sum along an axis, in f32 for narrow floats."""
    work = _working(a)

    def run(x: Array, out: Array) -> None:
        if x.size:
            wide = _as(x, work)
            shifted = np.exp(wide - np.maximum.reduce(wide, axis, keepdims=True))
            _deliver(shifted / np.add.reduce(shifted, axis, keepdims=True), a, out)

    return run


# -- products --------------------------------------------------------------------------------------------------


def matmul_widen(dtype: DType) -> DType:
    """The type that products of `dtype` are computed in: at least 32 bits wide."""
    if dtype.bits >= 32:
        return dtype
    return f32 if dtype.is_float else i32


class _Bench(threading.local):
    """Room for widened operands of products, kept warm from tile to tile.

    Left and right operands have their own; right ones of one size share theirs (K and V do), so that it stays in the
    first cache.
    """

    def __init__(self) -> None:
        self.flat: dict[Any, Array] = {}  # by side and size
        self.room: dict[Any, Room] = {}  # by side and layout

    def make(self, key: Any, side: str, x: Array) -> Room:
        flat = self.flat.setdefault((side, x.size), np.empty(x.size, np.int32))
        room = self.room[key] = _room(x, flat)
        return room


_BENCH = _Bench()
_LAYOUTS: dict[Any, object] = {}


def _operand(dtype: DType, work: DType, side: str) -> Callable[[Array], Array]:
    """How an operand of a product gets its working dtype; the result lasts until the next product."""
    if dtype is work:
        return lambda x: x
    if dtype.name != "f16" or work is not f32:
        return lambda x: _as(x, work)

    key: Any = None

    def widened(x: Array) -> Array:
        nonlocal key
        if key is None:  # operands of one kind have one layout
            key = _LAYOUTS.setdefault((side, x.shape, x.strides), object()) if x.size >= _WORTH_IT else False
        if key is False:
            return x.astype(np.float32)
        return _widen_bits(x, _BENCH.room.get(key) or _BENCH.make(key, side, x))

    def bound(x: Array) -> Callable[[], Array]:
        if x.size < _WORTH_IT:
            return partial(x.astype, np.float32)
        widened(x)
        return partial(_widen_halves, x, x.view(np.int16), *_BENCH.room[key])

    widened.bound = bound  # type: ignore[attr-defined]
    return widened


def bind(run: Run, *arrays: Array) -> Callable[[], Any]:
    """``run(*arrays)`` for later and for many times, with everything found that depends on the arrays alone.

    The arrays are views: what they hold is read at each call. To be called in the thread that bound it.
    """
    special = getattr(run, "bound", None)
    return partial(run, *arrays) if special is None else special(*arrays)


def dot(a: DType, b: DType, work: DType, result: DType, out: DType, accumulate: bool) -> Run:
    """``run(x, y, out)``, or ``run(x, y, acc, out)``: a batched matrix product, accumulated in `work`."""
    left, right = _operand(a, work, "left"), _operand(b, work, "right")

    def product(x: Array, y: Array, z: Array) -> None:
        if out is work is result:
            np.matmul(left(x), right(y), out=z)
        else:
            _deliver(np.matmul(left(x), right(y)), result, z)

    def bound(x: Array, y: Array, z: Array) -> Callable[[], Any]:
        if not out is work is result:
            return partial(product, x, y, z)
        x_wide, y_wide = bind(left, x), bind(right, y)
        return lambda: np.matmul(x_wide(), y_wide(), out=z)

    product.bound = bound  # type: ignore[attr-defined]

    def accumulated(x: Array, y: Array, acc: Array, z: Array) -> None:
        _deliver(np.matmul(_as(x, work), _as(y, work)) + _as(acc, work), result, z)

    if accumulate:
        return accumulated
    if a is b is work is result is out:
        return lambda x, y, z: np.matmul(x, y, out=z)
    return product
