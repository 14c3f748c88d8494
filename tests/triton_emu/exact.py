"""Exact references: one rounding to nearest even, done in rational arithmetic on the list of a dtype's values."""

from __future__ import annotations

import math
from bisect import bisect_left
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from kernbench_nb.dtypes import DType, f8e4m3, f32, f64

Array = npt.NDArray[Any]
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, 3.0, -7.0, math.inf, -math.inf, math.nan)


@cache
def finite_values(dtype: DType) -> list[float]:
    """All finite values of a 16- or 8-bit float from 0 up, each once, and the one that would come next."""
    bits = np.arange(1 << (dtype.bits - 1), dtype=np.uint16).astype(f"u{dtype.itemsize}")
    values = [float(v) for v in bits.view(dtype.np).astype(np.float64) if math.isfinite(v)]
    return [*values, 2 * values[-1] - values[-2]]


def rounded(dtype: DType, value: Fraction) -> float:
    """A rational number rounded once, to nearest, ties to even; beyond the range as ml_dtypes has it."""
    if dtype is f64:
        return float(value)  # Python rounds a fraction once
    if dtype is f32:
        return float(_round_f32(value))
    grid = finite_values(dtype)
    size = abs(value)
    at = bisect_left(grid, size)
    if at < len(grid) and grid[at] == size:
        nearest = at
    elif at == len(grid):
        nearest = at - 1
    else:
        low, high = Fraction(grid[at - 1]), Fraction(grid[at])
        middle = (low + high) / 2
        # the position in the grid is the bit pattern, so its parity is that of the last bit
        nearest = at if size > middle or (size == middle and at % 2 == 0) else at - 1
    if nearest == len(grid) - 1:
        result = math.nan if dtype is f8e4m3 else math.inf
    else:
        result = grid[nearest]
    return -result if value < 0 else result


def _round_f32(value: Fraction) -> float:
    if value == 0:
        return 0.0
    exponent = max(math.floor(math.log2(abs(value))), -126) if abs(value) >= Fraction(1, 1 << 200) else -126
    for e in (exponent + 1, exponent, exponent - 1):  # log2 may be off by one
        if e == -126 or (e > -126 and abs(value) >= Fraction(2) ** e):
            exponent = e
            break
    step = Fraction(2) ** (exponent - 23)
    result = round(value / step) * step
    return math.copysign(math.inf, value) if abs(result) >= Fraction(2) ** 128 else float(result)


def bit_patterns(dtype: DType, seed: int, n: int = 48) -> Array:
    """Values of a dtype from random bits, so that NaN, infinities, subnormals and both zeros are among them."""
    rng = np.random.default_rng(seed)
    if dtype.kind == "bool":
        return rng.integers(0, 2, n).astype(np.bool_)
    raw = rng.integers(0, 1 << dtype.bits, n, dtype=np.uint64).astype(f"u{dtype.itemsize}").view(dtype.np)
    if dtype.is_float:
        raw[: len(SPECIAL)] = np.array(SPECIAL).astype(dtype.np)
    return rng.permutation(raw)


def near_one(dtype: DType, seed: int, n: int = 48) -> Array:
    """Ordinary values, of both signs, with exponents of a few bits."""
    rng = np.random.default_rng(seed)
    if not dtype.is_float:
        return bit_patterns(dtype, seed, n)
    with np.errstate(all="ignore"):
        return (rng.standard_normal(n) * 2.0 ** rng.integers(-6, 4, n)).astype(dtype.np)


def same(got: Array, want: Array) -> None:
    """Equal values: NaN in the same places, and zeros of the same sign."""
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    np.testing.assert_array_equal(got, want)
    zero = want == 0
    np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]))
