"""Reductions, softmax, running sums and products."""

from __future__ import annotations

import math
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
from kernbench_nb.errors import DTypeError, ShapeError
from kernbench_nb.triton_emu import TLContext
from tests.triton_emu.exact import bit_patterns, near_one, rounded, same
from tests.triton_emu.tools import context, put

FLOATS = (f16, bf16, f32, f64, f8e4m3, f8e5m2)
NARROW = (f16, bf16, f8e4m3, f8e5m2)
INTS = (i8, i16, i32, i64, u8, u16, u32)
EPS = {f16: 2**-11, bf16: 2**-8, f32: 2**-24, f64: 2**-53, f8e4m3: 2**-4, f8e5m2: 2**-3}
seeds = st.integers(0, 10_000)
fewer = settings(max_examples=12)


def by_dtype(*dtypes: DType) -> Any:
    return pytest.mark.parametrize("dtype", dtypes, ids=str)


def wide(x: Any) -> Any:
    return np.asarray(x).astype(np.float64)


def result(op: str, *operands: Any, **more: Any) -> Any:
    tl = context()
    return getattr(tl, op)(*(put(tl, x) if isinstance(x, np.ndarray) else x for x in operands), **more)


# -- axes and shapes ---------------------------------------------------------------------------------------

shapes = st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple)


@pytest.mark.parametrize("op", ["max", "min", "sum", "argmax", "argmin"])
@given(shape=shapes, data=st.data(), keep=st.booleans())
@settings(max_examples=40)
def test_axes_and_kept_dimensions_are_numpys(op: str, shape: tuple[int, ...], data: Any, keep: bool) -> None:
    axis = data.draw(st.one_of(st.none(), st.integers(-len(shape), len(shape) - 1)))
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(np.float32)
    tl = context()
    tile = put(tl, x)
    got = getattr(tl, op)(tile, axis, keep)
    want = getattr(np, op)(x, axis=axis, keepdims=keep)
    assert got.shape == want.shape
    np.testing.assert_array_equal(got.numpy(), want)
    np.testing.assert_array_equal(getattr(tile, op)(axis, keep_dims=keep).numpy(), want)
    turned = np.asarray(x.T)
    np.testing.assert_array_equal(getattr(tl, op)(tl.permute(tile, *range(len(shape))[::-1]), axis).numpy(),
                                  getattr(np, op)(turned, axis=axis))  # fmt: skip


@pytest.mark.parametrize("op", ["max", "sum", "argmin", "softmax", "cumsum"])
@pytest.mark.parametrize("axis", [2, -3])
def test_an_axis_that_is_not_there(op: str, axis: int) -> None:
    with pytest.raises(
        ShapeError, match=rf"{op}: axis {axis} does not exist in shape \(2, 3\); it has axes 0 to 1"
    ):
        result(op, np.ones((2, 3), np.float32), axis)
    with pytest.raises(ShapeError, match=rf"{op}: axis 0 does not exist in shape \(\); it has no axis"):
        result(op, np.array(1.0, np.float32), 0)


def test_a_scalar_reduces_to_itself() -> None:
    for op in ("max", "min", "sum"):
        assert result(op, np.array(3.0, np.float32)).item() == 3
    assert result("argmax", np.array(3.0, np.float32)).item() == 0


def test_nothing_sums_to_zero_and_has_no_maximum() -> None:
    empty = np.ones((0, 3), np.float32)
    assert result("sum", empty, 0).numpy().tolist() == [0, 0, 0]
    assert result("sum", empty).item() == 0
    assert result("max", empty, 1).shape == (0,)
    assert result("xor_sum", np.ones((0,), np.int32)).item() == 0
    for op in ("max", "min", "argmax", "argmin"):
        with pytest.raises(ShapeError, match=rf"{op} over an empty axis of shape \(0, 3\) has no value"):
            result(op, empty, 0)


# -- dtypes ------------------------------------------------------------------------------------------------


@by_dtype(*DTYPES)
def test_result_dtypes(dtype: DType) -> None:
    x = TLContext()._make_compute_out((2, 3), dtype)
    wanted = {i8: i32, i16: i32, u8: u32, u16: u32, bool_: i32}.get(dtype, dtype)
    assert x.sum(0).dtype is wanted
    assert x.cumsum(0).dtype is wanted
    assert x.max(0).dtype is x.min(0).dtype is dtype
    assert x.argmax(0).dtype is x.argmin(0).dtype is i32
    if dtype.is_float:
        assert x.softmax().dtype is dtype
        with pytest.raises(DTypeError, match=f"xor_sum needs integers, got {dtype}"):
            x.xor_sum(0)
    else:
        assert x.xor_sum(0).dtype is dtype
        with pytest.raises(DTypeError, match=f"softmax needs a float tile, got {dtype}"):
            x.softmax()


@by_dtype(i8, i16, u8, u16, bool_)
def test_sums_of_small_integers_do_not_wrap(dtype: DType) -> None:
    top = True if dtype is bool_ else np.iinfo(dtype.np).max
    x = np.full((1000, 2), top, dtype.np)
    for axis in (0, 1, None):
        assert result("sum", x, axis).numpy().max() == int(top) * {0: 1000, 1: 2, None: 2000}[axis]
    assert result("cumsum", x, 0).numpy()[-1].tolist() == [int(top) * 1000] * 2
    if dtype.kind == "int":
        assert result("sum", -x - 1, 0).numpy().tolist() == [-1000 * (top + 1)] * 2


@by_dtype(i32, i64, u32)
def test_sums_of_wide_integers_wrap_in_their_dtype(dtype: DType) -> None:
    x = np.full(3, np.iinfo(dtype.np).max, dtype.np)
    want = 3 * int(np.iinfo(dtype.np).max) & ((1 << dtype.bits) - 1)
    assert int(result("sum", x).item()) & ((1 << dtype.bits) - 1) == want


@by_dtype(*INTS, bool_)
@pytest.mark.parametrize("op", ["max", "min", "xor_sum", "argmax", "argmin"])
def test_integers_of_all_bits(op: str, dtype: DType) -> None:
    x = bit_patterns(dtype, 3).reshape(6, 8)
    plain = x.astype(object) if dtype is not bool_ else x.astype(int)
    for axis in (0, 1, None):
        want = np.bitwise_xor.reduce(x, axis) if op == "xor_sum" else getattr(np, op)(plain, axis=axis)
        assert result(op, x, axis).numpy().astype(object).tolist() == np.asarray(want, object).tolist()


# -- floats ------------------------------------------------------------------------------------------------


@by_dtype(*NARROW)
@fewer
@given(seeds)
def test_sums_of_narrow_floats_accumulate_in_f32_and_round_once(dtype: DType, seed: int) -> None:
    # small integers times a power of two: the f32 sum is exact in any order, so the one rounding shows
    rng = np.random.default_rng(seed)
    x = (rng.integers(-7, 8, (64, 3)) * 2.0**-2).astype(dtype.np)
    for axis in (0, 1, None):
        for a in (x, x.T):
            exact = np.atleast_1d(wide(a).sum(axis)).ravel()
            got = np.atleast_1d(wide(result("sum", a, axis).numpy())).ravel()
            assert got.tolist() == [rounded(dtype, Fraction(v)) for v in exact]


@by_dtype(*FLOATS)
@fewer
@given(seeds)
def test_sums_against_float64(dtype: DType, seed: int) -> None:
    x = near_one(dtype, seed, 96).reshape(4, 8, 3)
    for axis in (0, 1, 2, None):
        want = wide(x).sum(axis)
        error = np.abs(wide(result("sum", x, axis).numpy()) - want)
        assert (error <= EPS[dtype] * np.abs(want) * 1.01 + (1e-12 if dtype is f64 else 1e-4)).all()


@by_dtype(*FLOATS)
@pytest.mark.parametrize("op", ["max", "min"])
@given(seeds)
@fewer
def test_extremes_are_exact_and_nan_propagates(op: str, dtype: DType, seed: int) -> None:
    x = bit_patterns(dtype, seed, 48).reshape(6, 8)
    clean = np.where(np.isnan(wide(x)), 0, wide(x)).astype(dtype.np)
    for a in (x, clean):
        for axis in (0, 1, None):
            np.testing.assert_array_equal(
                wide(result(op, a, axis).numpy()), getattr(np, op)(wide(a), axis=axis)
            )


@by_dtype(*FLOATS)
def test_indices_of_extremes_take_the_first(dtype: DType) -> None:
    x = np.array([[1, 3, 3], [2, -1, -1]]).astype(dtype.np)
    assert result("argmax", x, 1).numpy().tolist() == [1, 0]
    assert result("argmin", x, 1).numpy().tolist() == [0, 1]
    assert result("argmax", x).item() == 1
    assert result("argmax", x, 1, True).numpy().tolist() == [[1], [0]]


@by_dtype(*FLOATS)
def test_sums_of_infinities_and_nan(dtype: DType) -> None:
    inf = np.array([1, math.inf]).astype(dtype.np)
    for values, want in [
        ([1, math.nan], math.nan), ([math.inf, 1], wide(inf)[1]), ([math.inf, -math.inf], math.nan),
    ]:  # fmt: skip
        same(result("sum", np.array(values).astype(dtype.np)).numpy(), np.array(want))


def test_num_f16_accumulate() -> None:
    tl = context()
    for shape, axis in [((4096, 2), 0), ((2, 4096), 1)]:
        assert tl.sum(tl.full(shape, 1.0, "f16"), axis=axis).numpy().tolist() == [4096, 4096]
    soft = tl.softmax(tl.zeros((4096, 2), "f16"), 0).numpy()
    assert (soft == 2**-12).all()
    assert wide(soft).sum(0).tolist() == [1, 1]
    assert tl.dot(tl.full((1, 4096), 1.0, "f16"), tl.full((4096, 1), 1.0, "f16")).item() == 4096


def test_num_bf16_as_bits() -> None:
    tl = context()
    a, b = put(tl, [[1, -2], [3, 0.5]], bf16), put(tl, [[2, 1], [-1, 4]], bf16)
    for got, want in [
        (tl.dot(a, b), [[4, -7], [5.5, 5]]),
        (a + b, [[3, -1], [2, 4.5]]),
        (a < b, [[True, True], [False, True]]),
        (tl.max(a), 3),
        (tl.exp(tl.zeros((2,), bf16)), [1, 1]),
        (tl.where(a > 0, a, b), [[1, 1], [3, 0.5]]),
        (-a, [[-1, 2], [-3, -0.5]]),
    ]:
        assert wide(got.numpy()).tolist() == want
    assert math.isnan(tl.sum(put(tl, [1, 2, math.nan], bf16)).item())


# -- softmax and cumsum ------------------------------------------------------------------------------------


@by_dtype(*FLOATS)
@fewer
@given(seeds)
def test_softmax_against_float64(dtype: DType, seed: int) -> None:
    x = near_one(dtype, seed, 48).reshape(4, 4, 3)
    for dim in (-1, 0, 1):
        shifted = np.exp(wide(x) - wide(x).max(dim, keepdims=True))
        want = shifted / shifted.sum(dim, keepdims=True)
        got = wide(result("softmax", x, dim).numpy())
        smallest = 0.0 if dtype in (f32, f64) else float(np.array(1, f"u{dtype.itemsize}").view(dtype.np))
        slack = 40 if dtype in (f32, f64) else 1.01  # exp turns half an ulp of a difference of 20 into 10
        assert (np.abs(got - want) <= slack * EPS[dtype] * want + smallest).all()


def test_softmax_of_large_and_of_masked_scores() -> None:
    x = np.array([[1e30, 1e30], [-math.inf, 0], [-math.inf, -math.inf]], np.float32)
    same(result("softmax", x).numpy(), np.array([[0.5, 0.5], [0, 1], [math.nan, math.nan]]))
    assert result("softmax", np.ones((3, 0), np.float32)).shape == (3, 0)
    assert result("softmax", np.ones((0, 3), np.float32), 0).shape == (0, 3)


@by_dtype(*FLOATS)
@fewer
@given(seeds)
def test_cumsum_against_float64(dtype: DType, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = (rng.integers(-7, 8, (9, 5)) * 0.25).astype(dtype.np)
    for axis in (0, 1, -1):
        want = [rounded(dtype, Fraction(v)) for v in np.cumsum(wide(x), axis).ravel()]
        assert wide(result("cumsum", x, axis).numpy()).ravel().tolist() == want


def test_cumsum_by_default_runs_along_the_first_axis() -> None:
    assert result("cumsum", np.ones((2, 3), np.float32)).numpy().tolist() == [[1] * 3, [2] * 3]
    assert result("cumsum", np.ones((0, 3), np.float32)).shape == (0, 3)


# -- products ----------------------------------------------------------------------------------------------


@by_dtype(*DTYPES)
@fewer
@given(seeds)
def test_products_are_exact_where_the_accumulator_is(dtype: DType, seed: int) -> None:
    rng = np.random.default_rng(seed)
    low = 0 if dtype.kind in ("uint", "bool") else -3
    x = rng.integers(low, 2 if dtype is bool_ else 4, (2, 5, 7)).astype(dtype.np)
    y = rng.integers(low, 2 if dtype is bool_ else 4, (2, 7, 3)).astype(dtype.np)
    got = result("dot", x, y)
    assert got.dtype is (dtype if dtype.bits >= 32 else f32 if dtype.is_float else i32)
    assert got.numpy().tolist() == np.matmul(wide(x), wide(y)).tolist()


@by_dtype(*FLOATS)
@fewer
@given(seeds)
def test_products_against_float64(dtype: DType, seed: int) -> None:
    x, y = near_one(dtype, seed, 6 * 16).reshape(6, 16), near_one(dtype, seed + 1, 16 * 5).reshape(16, 5)
    got = result("dot", x, y).numpy()
    bound = np.matmul(np.abs(wide(x)), np.abs(wide(y))) * (2**-48 if dtype is f64 else 2**-20)
    assert (np.abs(got - np.matmul(wide(x), wide(y))) <= bound).all()


def test_a_product_of_wide_integers_keeps_its_bits() -> None:
    x, y = np.array([[1 << 20, 3]], np.int64), np.array([[1 << 20], [5]], np.int64)
    assert result("dot", x, y).item() == (1 << 40) + 15
    assert result("dot", np.full((1, 300), 100, np.int8), np.full((300, 1), 100, np.int8)).item() == 3_000_000


def test_products_of_views_and_of_batches() -> None:
    tl = context()
    k = np.arange(24, dtype=np.float16).reshape(4, 2, 3)  # keys, heads, d
    q = np.arange(12, dtype=np.float16).reshape(2, 2, 3)  # heads, rows, d
    by_head = put(tl, k).permute(1, 2, 0)
    got = tl.dot(put(tl, q), by_head)
    np.testing.assert_array_equal(got.numpy(), np.matmul(wide(q), wide(k).transpose(1, 2, 0)))
    one = put(tl, k)[:, 0]
    np.testing.assert_array_equal(tl.dot(one, one.T).numpy(), wide(k[:, 0]) @ wide(k[:, 0]).T)
    group = tl.broadcast_to(put(tl, k).permute(1, 0, 2)[:, None], 2, 3, 4, 3)
    assert tl.dot(group, tl.full((2, 3, 3, 1), 1.0, "f16")).shape == (2, 3, 4, 1)


def test_acc_is_added_and_out_dtype_rounds_once() -> None:
    tl = context()
    x, y = put(tl, [[1.0, 2.0]], f16), put(tl, [[3.0], [4.0]], f16)
    acc = put(tl, [[0.5]], f32)
    got = tl.dot(x, y, acc)
    assert (got.item(), got.dtype, acc.item()) == (11.5, f32, 0.5)
    assert tl.dot(x, y, acc=acc, out=acc) is acc
    assert acc.item() == 11.5
    fine = put(tl, [[1.0, 2.0**-11]], f16)
    for dtype, want in [(f16, 1.0), (bf16, 1.0), (f32, 1 + 2**-11), (f64, 1 + 2**-11)]:
        got = tl.dot(fine, put(tl, [[1.0], [1.0]], f16), out_dtype=dtype)
        assert (got.dtype, float(got)) == (dtype, want)
    # the result is rounded to its own dtype before it is written elsewhere
    target = tl.empty((1, 1), "f32")
    tl.dot(fine, put(tl, [[1.0], [1.0]], f16), out_dtype="f16", out=target)
    assert target.item() == 1.0


@pytest.mark.parametrize(("m", "n", "k"), [(0, 3, 4), (2, 0, 4), (2, 3, 0)])
def test_products_of_nothing(m: int, n: int, k: int) -> None:
    got = result("dot", np.ones((m, k), np.float16), np.ones((k, n), np.float16))
    assert got.numpy().tolist() == np.zeros((m, n)).tolist()


@pytest.mark.parametrize(
    ("x", "y", "text"),
    [
        ((4,), (4, 2), r"dot: input \(4,\) \(f16\) and other \(4, 2\) \(f16\) must have rank 2 or more"),
        ((2, 4), (), r"input \(2, 4\) .* and other \(\) .* rank 2 or more"),
        ((2, 4), (3, 5), r"the last dimension of input is 4, the last but one of other is 3\. .*tl\.trans"),
        ((2, 3, 4), (3, 4, 5), r"different batch dimensions \(2,\) and \(3,\); they must be equal"),
        ((1, 3, 4), (2, 4, 5), r"different batch dimensions \(1,\) and \(2,\)"),
        ((3, 4), (2, 4, 5), r"different batch dimensions \(\) and \(2,\)"),
    ],
)
def test_products_that_do_not_go_together(x: tuple[int, ...], y: tuple[int, ...], text: str) -> None:
    with pytest.raises(ShapeError, match=text):
        result("dot", np.ones(x, np.float16), np.ones(y, np.float16))


def test_products_of_floats_with_integers_and_a_wrong_acc() -> None:
    x = np.ones((2, 2), np.float16)
    with pytest.raises(DTypeError, match=r"dot: input is f16, other is i8; convert one with \.to"):
        result("dot", x, np.ones((2, 2), np.int8))
    with pytest.raises(
        ShapeError, match=r"dot: acc has shape \(2,\), the product of \(2, 2\) and \(2, 2\) has \(2, 2\)"
    ):
        result("dot", x, x, np.ones(2, np.float32))
    with pytest.raises(DTypeError, match="unknown dtype 'f15'"):
        result("dot", x, x, None, "f15")


@pytest.mark.parametrize(("op", "start", "expected"), [("max", 2.0, [2.0, 3.0]), ("min", 2.0, [-1.0, 2.0])])
@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_extremes_may_start_from_a_value(op: str, start: float, expected: list[float], dtype: str) -> None:
    import kernbench_nb as kb

    seen = {}

    def kernel(a, *, tl):  # type: ignore[no-untyped-def]
        x = tl.load(a, (2, 2)).to(dtype)
        seen["plain"] = getattr(tl, op)(x, 1, initial=start).numpy()
        seen["nothing"] = getattr(tl, op)(tl.zeros((2, 0), dtype), 1, initial=start).numpy()

    kb.launch(kernel, np.array([[-1.0, 1.0], [3.0, 2.0]], np.float32))
    assert seen["plain"].astype(float).tolist() == expected
    assert seen["nothing"].astype(float).tolist() == [start, start]


def test_a_sum_starts_from_nothing_else() -> None:
    import kernbench_nb as kb

    with pytest.raises(TypeError, match="sum takes no initial=; max and min do"):
        kb.launch(lambda a, *, tl: tl.sum(tl.load(a, (2,)), 0, initial=1.0), np.ones(2, np.float32))
