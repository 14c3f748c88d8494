"""Names of dtypes, and what each is stored as."""

from __future__ import annotations

import pickle
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from kernbench_nb import dtypes
from kernbench_nb.dtypes import DTYPES, resolve_dtype
from kernbench_nb.errors import DTypeError
from kernbench_nb.triton_emu import TLContext


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("f16", "f16"),
        ("float16", "f16"),
        ("fp16", "f16"),
        (np.float16, "f16"),
        (np.dtype("float16"), "f16"),
        (TLContext.float16, "f16"),
        ("tl.float16", "f16"),
        ("bfloat16", "bf16"),
        (ml_dtypes.bfloat16, "bf16"),
        (np.dtype(ml_dtypes.bfloat16), "bf16"),
        ("float32", "f32"),
        (np.float32, "f32"),
        ("double", "f64"),
        (float, "f64"),
        ("float8e4nv", "f8e4m3"),
        (ml_dtypes.float8_e4m3fn, "f8e4m3"),
        ("float8e5", "f8e5m2"),
        (ml_dtypes.float8_e5m2, "f8e5m2"),
        ("i8", "i8"),
        (np.int16, "i16"),
        ("int32", "i32"),
        (np.int64, "i64"),
        ("uint8", "u8"),
        (np.uint16, "u16"),
        ("u32", "u32"),
        (bool, "bool"),
        ("int1", "bool"),
        (np.bool_, "bool"),
    ],
    ids=str,
)
def test_every_name_resolves(spec: Any, name: str) -> None:
    assert resolve_dtype(spec).name == name


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_dtype_resolves_to_itself_by_all_its_names(dtype: dtypes.DType) -> None:
    for spec in (dtype, dtype.name, *dtype.aliases, dtype.np):
        assert resolve_dtype(spec) is dtype
    assert pickle.loads(pickle.dumps(dtype)) is dtype
    assert dtype.np.itemsize == dtype.itemsize


def test_an_unknown_name_lists_the_known_and_the_nearest() -> None:
    with pytest.raises(
        DTypeError, match=r"unknown dtype 'flaot16'; did you mean 'float16'\?.*f16, bf16, f32"
    ):
        resolve_dtype("flaot16")
    for odd in ("complex64", np.complex64, np.uint64, object(), 3.5):
        with pytest.raises(DTypeError, match=r"unknown dtype .*\. Known: f16, bf16"):
            resolve_dtype(odd)
