"""Which dtype and shape a result has: Triton's rules."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernbench_nb.dtypes import DTYPES, DType, resolve_dtype
from kernbench_nb.errors import DTypeError, ShapeError
from kernbench_nb.triton_emu import Handle, TLContext
from tests.triton_emu.tools import context, put


def tile(dtype: Any, shape: tuple[int, ...] = (4,), tl: TLContext | None = None) -> Handle:
    return (tl or TLContext())._make_compute_out(shape, dtype)


def both(x: str, y: str) -> tuple[Handle, Handle]:
    tl = TLContext()
    return tile(x, tl=tl), tile(y, tl=tl)


# rows and columns; "-" has no dtype in common
SUMS = """
         f16   bf16  f32   f64   f8e4m3  f8e5m2  i8    i32   u8    u32   bool
f16      f16   f16   f32   f64   f16     f16     f16   f16   f16   f16   f16
bf16     f16   bf16  f32   f64   f32     f32     f32   f32   f32   f32   f32
f32      f32   f32   f32   f64   f32     f32     f32   f32   f32   f32   f32
f64      f64   f64   f64   f64   f64     f64     f64   f64   f64   f64   f64
f8e4m3   f16   f32   f32   f64   f8e4m3  f16     -     -     -     -     -
f8e5m2   f16   f32   f32   f64   f16     f8e5m2  -     -     -     -     -
i8       f16   f32   f32   f64   -       -       i8    i32   u8    u32   i8
i32      f16   f32   f32   f64   -       -       i32   i32   i32   u32   i32
u8       f16   f32   f32   f64   -       -       u8    i32   u8    u32   u8
u32      f16   f32   f32   f64   -       -       u32   u32   u32   u32   u32
bool     f16   f32   f32   f64   -       -       i8    i32   u8    u32   bool
"""
NAMES, *LINES = (line.split() for line in SUMS.strip().splitlines())
TABLE = [(row[0], col, want) for row in LINES for col, want in zip(NAMES, row[1:], strict=True)]


@pytest.mark.parametrize(("x", "y", "want"), TABLE)
def test_two_tiles_meet_in_tritons_dtype(x: str, y: str, want: str) -> None:
    a, b = both(x, y)
    if want == "-":
        with pytest.raises(
            DTypeError, match=rf"add: {x} and {y} have no dtype in common; convert one with \.to"
        ):
            a + b
    else:
        assert (a + b).dtype.name == want
        assert (a * b).dtype.name == want
        assert (a < b).dtype.name == "bool"
        assert a.tl.where(a == a, a, b).dtype.name == want
        assert a.tl.clamp(a, b, b).dtype.name == want


@pytest.mark.parametrize(("x", "y", "want"), TABLE)
def test_quotients_and_remainders_of_narrow_floats_are_f32(x: str, y: str, want: str) -> None:
    a, b = both(x, y)
    kinds = {resolve_dtype(n).kind for n in (x, y)}
    if want == "-" or kinds == {"int", "uint"}:
        for op in ("div", "mod"):
            with pytest.raises(DTypeError, match=f"{op}: {x} and {y} (have no dtype|differ in signedness)"):
                getattr(a.tl, op)(a, b)
        return
    floats = resolve_dtype(want).is_float
    assert (a / b).dtype.name == (want if want in ("f32", "f64") else "f32")
    if want != "bool":
        assert (a % b).dtype.name == ("f32" if floats and want != "f64" else want)


def test_integer_division_of_different_signedness_is_refused_as_in_triton() -> None:
    a, b = both("i32", "u32")
    for op in (lambda: a // b, lambda: b % a, lambda: a / b):
        with pytest.raises(DTypeError, match=r"differ in signedness; convert one with \.to"):
            op()


@pytest.mark.parametrize("op", ["and_", "or_", "xor"])
def test_bitwise_operations_need_bits(op: str) -> None:
    a, b = both("f32", "i32")
    with pytest.raises(DTypeError, match=f"{op} needs integers or bool, got f32 and i32"):
        getattr(a.tl, op)(a, b)
    with pytest.raises(DTypeError, match="~ needs integers or bool, got f32"):
        a.tl.invert(a)
    assert (b & tile("bool", tl=a.tl)).dtype.name == "i32"


def test_floor_division_of_floats_names_the_way_out() -> None:
    a, b = both("f32", "f32")
    with pytest.raises(
        DTypeError, match=r"// needs integers, as in Triton, got f32 and f32; use tl\.floor\(x / y\)"
    ):
        a // b


# -- numbers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_number_of_the_same_or_a_lesser_kind_takes_the_tiles_dtype(dtype: DType) -> None:
    x = tile(dtype)
    assert (x * True).dtype is dtype
    if dtype.name != "bool":
        assert (x + 3).dtype is dtype
        assert (3 - x).dtype is dtype
    if dtype.is_float:
        assert (x * 0.5).dtype is dtype
        assert (0.5 * x).dtype is dtype


@pytest.mark.parametrize("dtype", ["i8", "i64", "u8", "bool"])
def test_a_float_beside_integers_makes_f32(dtype: str) -> None:
    assert (tile(dtype) * 0.5).dtype.name == "f32"


def test_an_integer_beside_bools_is_i32_or_as_wide_as_it_must_be() -> None:
    assert (tile("bool") + 1).dtype.name == "i32"
    assert (tile("bool") + (1 << 40)).dtype.name == "i64"


@pytest.mark.parametrize(
    ("dtype", "value"),
    [("i8", 128), ("i8", -129), ("u8", 256), ("u8", -1), ("u32", -1), ("i32", 2**31), ("i64", 2**63), ("bool", 2**64)],
)  # fmt: skip
def test_an_integer_that_the_dtype_cannot_hold_is_refused(dtype: str, value: int) -> None:
    x = tile(dtype)
    with pytest.raises(ValueError, match=rf"{value} beside a tile of (i64|{dtype}), which cannot hold it"):
        x + value
    nearest = value + 1 if value < 0 else value - 1
    if dtype != "bool":
        assert (x + nearest).dtype.name == dtype


@pytest.mark.parametrize("value", [None, "2", [1.0], 1 + 2j, object()])
def test_what_is_no_number_is_refused(value: Any) -> None:
    x = tile("f32")
    for op in (lambda: x + value, lambda: x.tl.where(x > 0, x, value), lambda: x.tl.fma(x, value, x)):
        with pytest.raises(TypeError, match="expected a tile or a number beside a tile of f32, got"):
            op()


def test_an_operation_needs_one_tile() -> None:
    tl = TLContext()
    for op in (
        lambda: tl.add(1.0, 2.0),
        lambda: tl.exp(1.0),
        lambda: tl.sum(1.0),
        lambda: tl.reshape(1.0, 1),
    ):
        with pytest.raises(TypeError, match="expected a tile, got float"):
            op()


# -- shapes ------------------------------------------------------------------------------------------------

shapes = st.lists(st.integers(0, 3), max_size=3).map(tuple)


@given(shapes, shapes)
def test_shapes_broadcast_as_in_numpy(x: tuple[int, ...], y: tuple[int, ...]) -> None:
    # Triton puts extents of 1 in front of the shorter shape, which is numpy's rule
    tl = context()
    a, b = tl.full(x, 1.0, "f32"), tl.full(y, 2.0, "f32")
    try:
        want = np.broadcast_shapes(x, y)
    except ValueError:
        with pytest.raises(ShapeError) as caught:
            a + b
        assert str(x) in str(caught.value)
        assert str(y) in str(caught.value)
        return
    got = a + b
    assert got.shape == want
    assert got.numpy().tolist() == np.full(want, 3.0).tolist()


def test_a_shape_error_names_both_operands_and_says_what_to_do() -> None:
    tl = TLContext()
    a, b = tile("f16", (8, 64), tl), tile("f32", (8,), tl)
    with pytest.raises(ShapeError) as caught:
        a + b
    assert str(caught.value) == (
        "add: operands of shapes (8, 64) (f16) and (8,) (f32) do not broadcast: extents 64 and 8 are neither equal nor "
        "1. Reshape one, or index it with None to add a dimension."
    )
    assert (a + b[:, None]).shape == (8, 64)
    assert caught.value.__context__ is None


def test_any_shape_is_legal() -> None:
    tl = context()
    for shape in [(), (1,), (7,), (3, 5, 7), (0,), (4, 0, 2), (1, 1, 1, 1, 1)]:
        x = tl.full(shape, 1.5, "f16")
        assert (x + x).numpy().tolist() == np.full(shape, 3.0).tolist()
        assert x.numel == math.prod(shape)
        assert x.nbytes == 2 * math.prod(shape)


def test_the_same_operands_in_other_orders_and_dtypes_do_not_mix_up_the_caches() -> None:
    tl = context()
    made = {n: put(tl, [1, 2], n) for n in ("f16", "f32", "i8", "i32")}
    for _ in range(2):
        for (x, a), (y, b) in itertools.product(made.items(), made.items()):
            want = next(w for r, c, w in TABLE if (r, c) == (x, y))
            assert (a + b).dtype.name == want
            assert (a + b).numpy().tolist() == [2, 4]
            assert (a - b).numpy().tolist() == [0, 0]
