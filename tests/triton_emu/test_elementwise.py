"""Each elementwise operation in each dtype, against exact references."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench_nb.dtypes import (
    DTYPES,
    DType,
    bf16,
    bool_,
    f8e4m3,
    f8e5m2,
    f16,
    f32,
    f64,
    i8,
    i16,
    i32,
    i64,
    u8,
    u16,
    u32,
)
from kernbench_nb.errors import DTypeError
from tests.triton_emu.exact import SPECIAL, bit_patterns, finite_values, near_one, rounded, same
from tests.triton_emu.tools import context, put

FLOATS = (f16, bf16, f32, f64, f8e4m3, f8e5m2)
NARROW = (f16, bf16, f8e4m3, f8e5m2)
INTS = (i8, i16, i32, i64, u8, u16, u32)
seeds = st.integers(0, 10_000)
fewer = settings(max_examples=12)


def by_dtype(*dtypes: DType) -> Any:
    return pytest.mark.parametrize("dtype", dtypes, ids=str)


def result(op: str, *operands: Any, **more: Any) -> Any:
    """An operation by name, on new tiles."""
    tl = context()
    return getattr(tl, op)(*(put(tl, x) if isinstance(x, np.ndarray) else x for x in operands), **more)


def wide(x: Any) -> Any:
    return np.asarray(x).astype(np.float64)


# -- arithmetic of floats ----------------------------------------------------------------------------------

ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
}


@by_dtype(*FLOATS)
@pytest.mark.parametrize("op", ARITHMETIC)
@fewer
@given(seeds)
def test_arithmetic_of_floats_rounds_once(op: str, dtype: DType, seed: int) -> None:
    x, y = near_one(dtype, seed), near_one(dtype, seed + 1)
    got = result(op, x, y)
    assert got.dtype is (f32 if op == "div" and dtype.is_narrow_float else dtype)
    for a, b, c in zip(wide(x), wide(y), wide(got.numpy()), strict=True):
        if not (math.isfinite(a) and math.isfinite(b)) or (op == "div" and b == 0):
            continue
        exact = ARITHMETIC[op](Fraction(float(a)), Fraction(float(b)))
        want = rounded(got.dtype, exact)
        assert c == want or (math.isnan(c) and math.isnan(want)), (a, b, c, want)


@by_dtype(*FLOATS)
@pytest.mark.parametrize("op", ["add", "sub", "mul", "div", "mod", "maximum", "minimum", "pow"])
def test_infinities_nan_and_zeros_of_both_signs_follow_ieee(op: str, dtype: DType) -> None:
    x, y = (a.ravel().astype(dtype.np) for a in np.meshgrid(SPECIAL, SPECIAL))
    by_numpy = {
        "div": np.true_divide,
        "sub": np.subtract,
        "mul": np.multiply,
        "mod": np.fmod,
        "pow": np.power,
    }
    want = by_numpy.get(op, getattr(np, op, None))(wide(x), wide(y))  # type: ignore[misc]
    with np.errstate(all="ignore"):
        want = want.astype(np.float32 if dtype.is_narrow_float else dtype.np)
        got = result(op, x, y)
        got_dtype = got.dtype
        want = want.astype(got_dtype.np)
    if op in ("maximum", "minimum"):  # of +0 and -0, either
        np.testing.assert_array_equal(wide(got.numpy()), wide(want))
    elif op == "pow":  # the library's function is close, not exact
        np.testing.assert_allclose(wide(got.numpy()), wide(want), rtol=2e-7)
    else:
        same(wide(got.numpy()), wide(want))


@by_dtype(*FLOATS)
@given(seeds)
@fewer
def test_the_remainder_has_the_sign_of_the_dividend(dtype: DType, seed: int) -> None:
    x, y = near_one(dtype, seed), near_one(dtype, seed + 1)
    got = result("mod", x, y)
    for a, b, c in zip(wide(x), wide(y), wide(got.numpy()), strict=True):
        if b != 0 and math.isfinite(a) and math.isfinite(b):
            exact = Fraction(float(a)) - math.trunc(Fraction(float(a)) / Fraction(float(b))) * Fraction(
                float(b)
            )
            assert c == rounded(got.dtype, exact)


@by_dtype(*NARROW)
def test_subnormals_are_not_flushed(dtype: DType) -> None:
    tiny = finite_values(dtype)[1:4]
    x = np.array(tiny).astype(dtype.np)
    same(result("add", x, x).numpy(), wide(x) * 2)
    same(result("mul", x, 1.0).numpy(), wide(x))
    same(result("neg", x).numpy(), -wide(x))


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        (f16, 65504.0, math.inf),
        (f8e5m2, 57344.0, math.inf),
        (f8e4m3, 448.0, math.nan),
        (bf16, 3.3895313892515355e38, math.inf),
    ],
    ids=str,
)
def test_overflow_goes_where_ml_dtypes_says(dtype: DType, value: float, expected: float) -> None:
    x = np.array([value, -value]).astype(dtype.np)
    same(result("add", x, x).numpy(), np.array([expected, -expected]))
    same(result("mul", x, 0.5).numpy(), np.array([value / 2, -value / 2]))


# -- arithmetic of integers --------------------------------------------------------------------------------


def wrapped(dtype: DType, value: int) -> int:
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if dtype.kind == "int" and value >> (dtype.bits - 1) else value


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


INTEGER_OPS: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": truncated,
    "mod": lambda a, b: a - b * truncated(a, b),
    "maximum": max,
    "minimum": min,
    "and_": operator.and_,
    "or_": operator.or_,
    "xor": operator.xor,
}


@by_dtype(*INTS)
@pytest.mark.parametrize("op", INTEGER_OPS)
@fewer
@given(seeds)
def test_integers_wrap_and_division_truncates(op: str, dtype: DType, seed: int) -> None:
    x, y = bit_patterns(dtype, seed), bit_patterns(dtype, seed + 1)
    y[::3] = np.arange(len(y[::3])) % 7 + 1
    y[y == 0] = 1
    got = result(op, x, y)
    assert got.dtype is dtype
    want = [wrapped(dtype, INTEGER_OPS[op](int(a), int(b))) for a, b in zip(x, y, strict=True)]
    assert got.numpy().tolist() == want


def test_division_and_remainder_as_in_triton_and_c() -> None:
    x, y = np.array([7, -7, 7, -7, 6, -6, 0], np.int32), np.array([2, 2, -2, -2, 3, 3, -5], np.int32)
    assert result("floordiv", x, y).numpy().tolist() == [3, -3, -3, 3, 2, -2, 0]
    assert result("mod", x, y).numpy().tolist() == [1, -1, 1, -1, 0, 0, 0]
    assert result("floordiv", x, 4).numpy().tolist() == [1, -1, 1, -1, 1, -1, 0]


@by_dtype(*INTS)
def test_the_quotient_of_integers_is_f32(dtype: DType) -> None:
    x = np.array([7, 1, 100, 3], dtype.np)
    got = result("div", x, np.array([2, 3, 7, 4], dtype.np))
    assert got.dtype is f32
    assert got.numpy().tolist() == [
        np.float32(a) / np.float32(b) for a, b in [(7, 2), (1, 3), (100, 7), (3, 4)]
    ]


@by_dtype(*INTS)
def test_powers_of_integers(dtype: DType) -> None:
    base = np.array([2, 3, 1, 0, 2, 1], dtype.np)
    assert result("pow", base, 3).numpy().tolist() == [8, 27, 1, 0, 8, 1]
    if dtype.kind == "int":
        base, power = np.array([2, 1, -1, -1, 5], dtype.np), np.array([-1, -3, -3, -2, 0], dtype.np)
        assert result("pow", base, power).numpy().tolist() == [0, 1, -1, 1, 1]


# -- bool --------------------------------------------------------------------------------------------------

T, F = True, False
TRUTH = np.array([T, T, F, F]), np.array([T, F, T, F])


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("and_", [T, F, F, F]),
        ("or_", [T, T, T, F]),
        ("xor", [F, T, T, F]),
        ("mul", [T, F, F, F]),
        ("maximum", [T, T, T, F]),
        ("minimum", [T, F, F, F]),
        ("eq", [T, F, F, T]),
        ("lt", [F, F, T, F]),
    ],
)
def test_bools(op: str, expected: list[bool]) -> None:
    got = result(op, *TRUTH)
    assert got.dtype is bool_
    assert got.numpy().tolist() == expected


@pytest.mark.parametrize("op", ["sub", "floordiv", "mod", "pow"])
def test_arithmetic_of_bools_that_has_no_meaning_says_so(op: str) -> None:
    with pytest.raises(DTypeError, match=rf"{op} of bool tiles has no meaning; convert them first with \.to"):
        result(op, *TRUTH)
    with pytest.raises(DTypeError, match="-x of bool tiles"):
        result("neg", TRUTH[0])


def test_not_of_bools_and_of_integers() -> None:
    assert result("invert", TRUTH[1]).numpy().tolist() == [F, T, F, T]
    assert result("invert", np.array([0, 5, -1], np.int16)).numpy().tolist() == [-1, -6, 0]
    assert result("invert", np.array([0, 5], np.uint8)).numpy().tolist() == [255, 250]


# -- comparisons -------------------------------------------------------------------------------------------

COMPARE = {op: getattr(operator, op) for op in ("eq", "ne", "lt", "le", "gt", "ge")}


@by_dtype(*DTYPES)
@pytest.mark.parametrize("op", COMPARE)
def test_comparisons_in_every_dtype(op: str, dtype: DType) -> None:
    x, y = bit_patterns(dtype, 1), bit_patterns(dtype, 2)
    y[::2] = x[::2]
    got = result(op, x, y)
    assert got.dtype is bool_
    plain = wide if dtype.is_float else np.asarray
    want = [COMPARE[op](a, b) for a, b in zip(plain(x).tolist(), plain(y).tolist(), strict=True)]
    assert got.numpy().tolist() == want


def test_a_comparison_with_nan_is_false_but_for_ne() -> None:
    nan = np.array([math.nan], np.float16)
    for op in COMPARE:
        assert result(op, nan, nan).item() is (op == "ne")
        assert result(op, nan, 1.0).item() is (op == "ne")


# -- one operand -------------------------------------------------------------------------------------------

FUNCTIONS: dict[str, Callable[[float], float]] = {
    "exp": math.exp,
    "exp2": lambda x: 2.0**x,
    "log": math.log,
    "log2": math.log2,
    "sqrt": math.sqrt,
    "rsqrt": lambda x: 1 / math.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)) if x > -700 else 0.0,
    "erf": math.erf,
    "sin": math.sin,
    "cos": math.cos,
    "abs": abs,
    "neg": operator.neg,
    "floor": math.floor,
    "ceil": math.ceil,
}
EXACT = ("abs", "neg", "floor", "ceil", "sqrt")


@by_dtype(*FLOATS)
@pytest.mark.parametrize("op", FUNCTIONS)
@fewer
@given(seeds)
def test_functions_against_float64(op: str, dtype: DType, seed: int) -> None:
    x = near_one(dtype, seed)
    if op in ("log", "log2", "sqrt", "rsqrt"):
        x = np.abs(x)
    got = result(op, x)
    assert got.dtype is dtype
    half_ulp = {f16: 2**-11, bf16: 2**-8, f32: 2**-24, f64: 2**-53, f8e4m3: 2**-4, f8e5m2: 2**-3}[dtype]
    smallest = finite_values(dtype)[1] if dtype.is_narrow_float else 0.0
    largest = finite_values(dtype)[-2] if dtype.is_narrow_float else None
    for a, c in zip(wide(x).tolist(), wide(got.numpy()).tolist(), strict=True):
        if not math.isfinite(a) or (a == 0 and op in ("log", "log2", "rsqrt")):
            continue
        want = FUNCTIONS[op](a)
        if abs(want) > float(np.finfo(np.float32).max if largest is None else largest):
            continue  # overflow has its own test
        if op in EXACT and dtype is not f64:
            # floor and the like are exact; a square root rounds once, and f64 holds it closely enough to say how
            assert c == rounded(dtype, Fraction(want)), (a, c, want)
        else:
            slack = {f32: 4, f64: 12}.get(dtype, 1.001)
            assert abs(c - want) <= slack * half_ulp * abs(want) + smallest * 0.501, (a, c, want)


@by_dtype(*FLOATS)
@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("exp", [1, 1, math.inf, 0]),
        ("exp2", [1, 1, math.inf, 0]),
        ("log", [-math.inf, -math.inf, math.inf, math.nan]),
        ("log2", [-math.inf, -math.inf, math.inf, math.nan]),
        ("sqrt", [0, -0.0, math.inf, math.nan]),
        ("rsqrt", [math.inf, -math.inf, 0, math.nan]),
        ("sigmoid", [0.5, 0.5, 1, 0]),
        ("erf", [0, -0.0, 1, -1]),
        ("abs", [0, 0, math.inf, math.inf]),
        ("neg", [-0.0, 0, -math.inf, math.inf]),
        ("floor", [0, -0.0, math.inf, -math.inf]),
        ("ceil", [0, -0.0, math.inf, -math.inf]),
        ("sin", [0, -0.0, math.nan, math.nan]),
        ("cos", [1, 1, math.nan, math.nan]),
    ],
)
def test_functions_at_the_edges(op: str, expected: list[float], dtype: DType) -> None:
    x = np.array([0.0, -0.0, math.inf, -math.inf, math.nan]).astype(dtype.np)
    want = np.array([*expected, math.nan])
    if dtype is f8e4m3:  # it has no infinity: what would be one is NaN
        want = np.where(np.isinf(want), math.nan, want)
        want[2:4] = math.nan  # and so are the inputs
    same(wide(result(op, x).numpy()), want)


@by_dtype(*INTS, bool_)
@pytest.mark.parametrize(
    "op", ["exp", "log", "sqrt", "rsqrt", "sigmoid", "erf", "sin", "cos", "exp2", "log2"]
)
def test_functions_of_integers_need_a_conversion(op: str, dtype: DType) -> None:
    with pytest.raises(DTypeError, match=rf"{op} needs a float tile, got {dtype}; convert it first"):
        result(op, np.ones(4, dtype.np))


@by_dtype(*INTS)
def test_integers_have_no_fraction_and_may_have_a_sign(dtype: DType) -> None:
    x = np.array([0, 1, 100], dtype.np)
    for op in ("floor", "ceil", "abs"):
        assert result(op, x).dtype is dtype
        assert result(op, x).numpy().tolist() == [0, 1, 100]
    assert result("neg", x).numpy().tolist() == [0, wrapped(dtype, -1), wrapped(dtype, -100)]
    if dtype.kind == "int":
        assert result("abs", -x).numpy().tolist() == [0, 1, 100]


def test_a_large_f16_tile_converts_like_a_small_one() -> None:
    # larger tiles take another way to f32, which must not show, NaN, infinities and subnormals included
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    for x in (every, every[np.isfinite(every)], every.reshape(256, 256).T, every.reshape(256, 256)[::2, ::2]):
        same(result("add", x, x * 0 + 1).numpy(), (wide(x) * 0 + wide(x) + 1).astype(np.float16))
        same(result("cast", x, "f32").numpy(), wide(x))


# -- conversions -------------------------------------------------------------------------------------------


@by_dtype(*FLOATS)
@pytest.mark.parametrize("to", FLOATS, ids=str)
@fewer
@given(seeds)
def test_conversions_between_floats_round_once(dtype: DType, to: DType, seed: int) -> None:
    x = np.concatenate([bit_patterns(dtype, seed), near_one(dtype, seed)])
    got = result("cast", x, to).numpy()
    assert got.dtype == to.np
    for a, c in zip(wide(x).tolist(), wide(got).tolist(), strict=True):
        if math.isnan(a):
            assert math.isnan(c)
        elif math.isinf(a):
            assert c == a or (to is f8e4m3 and math.isnan(c))
        else:
            want = rounded(to, Fraction(a))
            assert c == want or (math.isnan(c) and math.isnan(want)), (a, c, want)
            assert c != 0 or math.copysign(1, c) == math.copysign(1, a)


@pytest.mark.parametrize("to", NARROW, ids=str)
@pytest.mark.parametrize("source", [f64, i64], ids=str)
def test_next_to_a_tie_the_second_rounding_does_not_show(source: DType, to: DType) -> None:
    grid = finite_values(to)[:-1]
    if source is i64:
        grid = [v for v in grid if 2.0**12 <= v < 2.0**60] or [v for v in grid if v >= 2]
    pairs = [(a, b) for a, b in itertools.pairwise(grid) if b - a > 0][:: max(1, len(grid) // 300)]
    ties = [Fraction(a + b) / 2 for a, b in pairs]
    if source is f64:
        x = np.array([float(t) for t in ties])
        x = np.concatenate([x, np.nextafter(x, np.inf), np.nextafter(x, 0), -np.nextafter(x, np.inf)])
    else:
        whole = [int(t) for t in ties if t.denominator == 1]
        x = np.array([v + d for v in whole for d in (-1, 0, 1)] + [-v - 1 for v in whole], np.int64)
    got = result("cast", x, to).numpy()
    assert wide(got).tolist() == [rounded(to, Fraction(v)) for v in x.tolist()]


@by_dtype(*INTS, bool_)
@pytest.mark.parametrize("to", [*INTS, bool_], ids=str)
def test_conversions_between_integers_wrap(dtype: DType, to: DType) -> None:
    x = bit_patterns(dtype, 5)
    want = [bool(v) if to is bool_ else wrapped(to, int(v)) for v in x.tolist()]
    assert result("cast", x, to).numpy().tolist() == want


@by_dtype(*INTS, bool_)
@pytest.mark.parametrize("to", FLOATS, ids=str)
def test_conversions_of_integers_to_floats_round_once(dtype: DType, to: DType) -> None:
    x = bit_patterns(dtype, 6)
    for v, c in zip(x.tolist(), wide(result("cast", x, to).numpy()).tolist(), strict=True):
        want = rounded(to, Fraction(int(v)))
        assert c == want or (math.isnan(c) and math.isnan(want)), (v, c, want)


@by_dtype(*FLOATS)
@pytest.mark.parametrize("to", INTS, ids=str)
def test_conversions_of_floats_to_integers_truncate(dtype: DType, to: DType) -> None:
    x = np.array([0, -0.0, 0.75, 1.5, 100, 2.5] + ([-0.75, -1.5, -100] if to.kind == "int" else [])).astype(
        dtype.np
    )
    assert result("cast", x, to).numpy().tolist() == [math.trunc(v) for v in wide(x)]


@by_dtype(*FLOATS)
def test_everything_but_zero_is_true(dtype: DType) -> None:
    x = np.array([0.0, -0.0, 0.5, math.nan, math.inf]).astype(dtype.np)
    assert result("cast", x, bool_).numpy().tolist() == [F, F, T, T, T]


def test_a_cast_to_its_own_dtype_is_the_tile_itself_and_costs_nothing() -> None:
    tl = context()
    x = put(tl, [1.0], f16)
    rows = len(tl.commands)
    assert x.to("f16") is x
    assert x.to(tl.float16) is x
    assert len(tl.commands) == rows
    assert x.to("f32") is not x


def test_a_bitcast_shows_the_same_bytes() -> None:
    tl = context()
    x = put(tl, [[1.0, -2.0]], f32)
    bits = x.to("i32", bitcast=True)
    assert (bits.addr, bits.numpy().tolist()) == (x.addr, [[0x3F800000, -0x40000000]])
    assert tl.cast(put(tl, [1.0], bf16), "u16", bitcast=True).numpy().tolist() == [0x3F80]
    with pytest.raises(DTypeError, match="bitcast of f32 to i16: sizes 4 and 2 B"):
        x.to("i16", bitcast=True)


# -- three operands ----------------------------------------------------------------------------------------


@by_dtype(*DTYPES)
def test_where_chooses_bits_and_ignores_what_is_not_chosen(dtype: DType) -> None:
    x, y = bit_patterns(dtype, 7), bit_patterns(dtype, 8)
    c = bit_patterns(bool_, 9)
    got = result("where", c, x, y)
    assert got.dtype is dtype
    assert got.numpy().tobytes() == np.where(c, x, y).tobytes()
    assert result("where", c.astype(np.int32) * 5, x, y).numpy().tobytes() == np.where(c, x, y).tobytes()


def test_where_with_numbers() -> None:
    c = np.array([T, F])
    x = np.array([1, 2], np.float16)
    for got, dtype, want in [
        (result("where", c, x, -math.inf), f16, [1, -math.inf]),
        (result("where", c, 0.0, x), f16, [0, 2]),
        (result("where", c, 1, 0), i32, [1, 0]),
        (result("where", c, 1.5, 0), f32, [1.5, 0]),
        (result("where", c, T, F), bool_, [T, F]),
        (result("where", c, 1 << 40, 0), i64, [1 << 40, 0]),
        (result("where", c, np.array([1, 2], np.int8), 0.5), f32, [1, 0.5]),
    ]:
        assert got.dtype is dtype
        assert got.numpy().tolist() == want


def test_where_with_one_truth_for_all() -> None:
    x = np.array([1, 2], np.float16)
    assert result("where", True, x, 0.0).numpy().tolist() == [1, 2]
    assert result("where", False, x, 0.0).numpy().tolist() == [0, 0]
    with pytest.raises(TypeError, match="expected a tile or a number beside a tile of bool, got str"):
        result("where", "yes", x, 0.0)


def test_where_broadcasts_all_three() -> None:
    c = np.array([[T], [F]])
    got = result("where", c, np.arange(3, dtype=np.float32), np.array(9, np.float32))
    assert got.numpy().tolist() == [[0, 1, 2], [9, 9, 9]]
    assert result("where", np.array(T), c.astype(np.int8), 7).shape == (2, 1)


@by_dtype(*[d for d in FLOATS if d is not f64])
@fewer
@given(seeds)
def test_fma_rounds_once(dtype: DType, seed: int) -> None:
    x, y, z = (near_one(dtype, seed + i) for i in range(3))
    z[::2] = (-wide(x) * wide(y)).astype(dtype.np)[::2]  # so that little is left, and every bit of it counts
    got = result("fma", x, y, z)
    assert got.dtype is dtype
    for a, b, c, d in zip(wide(x), wide(y), wide(z), wide(got.numpy()), strict=True):
        if all(map(math.isfinite, (a, b, c))):
            want = rounded(dtype, Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c)))
            assert d == want or (math.isnan(d) and math.isnan(want)), (a, b, c, d, want)


def test_fma_next_to_a_tie() -> None:
    # 1 + 2**-24 is a tie of f32; what is added to it lies beyond f64 and still decides
    x = np.array([2**-24, 2**-24, 2**-24], np.float32)
    one = np.array([1 + 2**-23, 1, 1 - 2**-24], np.float32)
    got = result("fma", x, one, np.array([1, 1, 1], np.float32)).numpy()
    assert got.tolist() == [1 + 2**-23, 1, 1]
    # the product is 2**-24 less 2**-70: of the sum, f64 makes a tie that rounds up
    below = result(
        "fma",
        np.array([2**-12 * (1 + 2**-23)], np.float32),
        np.array([2**-12 * (1 - 2**-23)], np.float32),
        np.array([1 + 2**-23], np.float32),
    )
    assert below.item() == 1 + 2**-23
    tiny = np.array([2**-100], np.float32)
    assert result("fma", tiny, tiny, np.array([1 + 2**-23], np.float32)).item() == 1 + 2**-23


def test_fma_of_integers_wraps_and_of_infinities_is_ieee() -> None:
    big = np.array([2**30, -5, 7], np.int32)
    got = result("fma", big, big, np.array([1, 2, 3], np.int32))
    assert (got.dtype, got.numpy().tolist()) == (i32, [1, 27, 52])
    x = np.array([math.inf, math.inf, 0, 1e38], np.float32)
    got = result("fma", x, np.array([1, 0, math.inf, 1e38], np.float32), 1.0).numpy()
    same(got, np.array([math.inf, math.nan, math.nan, math.inf]))
    assert result("fma", np.array([3.0]), 1.5, 0.25).item() == 4.75


@by_dtype(*FLOATS)
def test_clamp_holds_and_keeps_nan(dtype: DType) -> None:
    x = np.array([-3.0, 0.5, 3.0, math.nan]).astype(dtype.np)
    got = result("clamp", x, -1.0, 1.0)
    assert got.dtype is dtype
    same(wide(got.numpy()), np.array([-1, 0.5, 1, math.nan]))
    assert result("clamp", np.array([-3, 3], np.int8), -1, 2).numpy().tolist() == [-1, 2]


@pytest.mark.parametrize("op", ["maximum", "minimum"])
@by_dtype(*FLOATS)
def test_nan_propagates_from_either_side(op: str, dtype: DType) -> None:
    x, y = (np.array(v).astype(dtype.np) for v in ([math.nan, 1.0, 2.0], [1.0, math.nan, 3.0]))
    same(wide(result(op, x, y).numpy()), np.array([math.nan, math.nan, 3 if op == "maximum" else 2]))


# -- operators and methods ---------------------------------------------------------------------------------


def test_operators_are_the_functional_forms() -> None:
    tl = context()
    x, y = put(tl, [6, -7], i32), put(tl, [4, 2], i32)
    pairs: list[tuple[Any, str]] = [
        (x + y, "add"), (x - y, "sub"), (x * y, "mul"), (x / y, "div"), (x // y, "floordiv"), (x % y, "mod"),
        (x**y, "pow"), (x & y, "and_"), (x | y, "or_"), (x ^ y, "xor"), (x == y, "eq"), (x != y, "ne"),
        (x < y, "lt"), (x <= y, "le"), (x > y, "gt"), (x >= y, "ge"),
    ]  # fmt: skip
    for got, op in pairs:
        assert got.numpy().tolist() == getattr(tl, op)(x, y).numpy().tolist()
        assert got.dtype is getattr(tl, op)(x, y).dtype
    for got, op in [(-x, "neg"), (abs(x), "abs"), (~x, "invert"), (x.abs(), "abs")]:
        assert got.numpy().tolist() == getattr(tl, op)(x).numpy().tolist()


def test_operators_with_the_number_on_the_left() -> None:
    tl = context()
    x = put(tl, [4.0, 0.5], f32)
    n = put(tl, [3, 2], i32)
    for got, want in [
        (1.0 + x, [5, 1.5]), (1.0 - x, [-3, 0.5]), (2.0 * x, [8, 1]), (2.0 / x, [0.5, 4]), (2.0**x, [16, 2**0.5]),
        (7 // n, [2, 3]), (7 % n, [1, 1]), (7 & n, [3, 2]), (8 | n, [11, 10]), (1 ^ n, [2, 3]),
        (1.0 < x, [T, F]), (1.0 >= x, [F, T]), (4.0 == x, [T, F]),  # noqa: SIM300
    ]:  # fmt: skip
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)


def test_numpys_numbers_work_on_both_sides() -> None:
    tl = context()
    x = put(tl, [1.0, 2.0], f16)
    for scale in (np.float64(2), np.float32(2), np.float16(2), np.int64(2), np.int8(2)):
        for got in (x * scale, scale * x):
            assert got.dtype is f16
            assert got.numpy().tolist() == [2, 4]
    assert (np.float64(1) > x).numpy().tolist() == [F, F]
    assert (np.sqrt(4.0) - x).numpy().tolist() == [1, 0]
    with pytest.raises(TypeError):
        np.ones(2) * x
    with pytest.raises(TypeError, match=r"expected a tile or a number beside a tile of f16, got ndarray"):
        x * np.ones(2)


def test_both_zeros_are_numbers_of_their_own() -> None:
    tl = context()
    x = put(tl, [1.0], f32)
    for zero in (0.0, -0.0, 0.0):
        assert math.copysign(1, (x * zero).item()) == math.copysign(1, zero)
    assert math.isnan((x * math.nan).item())
    assert [(x + n).item() for n in (1, 1.0, True)] == [2, 2, 2]


def test_a_number_is_rounded_to_the_tiles_dtype_once() -> None:
    tl = context()
    tie_and_a_bit = 1 + 2**-8 + 2**-40  # f32 would make a tie of it
    got = put(tl, [0.0], bf16) + tie_and_a_bit
    assert got.item() == 1 + 2**-7
    assert tl.full((1,), tie_and_a_bit, bf16).item() == 1 + 2**-7
