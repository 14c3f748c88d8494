"""Element types of tiles and tensors.

Names resolve from the short form (``f16``), the long form (``float16``), Triton's (``fp16``, ``tl.float16``), numpy
dtypes and numpy scalar types. bf16 and the two fp8 types are those of `ml_dtypes`, and so is their arithmetic:
conversions round to nearest even, NaN stays NaN, and fp8 does **not** saturate: a value beyond e4m3's range becomes
NaN, beyond e5m2's range infinity.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from kernbench_nb.errors import DTypeError

__all__ = ["DTYPES", "DType", "resolve_dtype"]


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """One element type; interned, so identity is equality.

    Attributes
    ----------
    name
        Short name, as it stands in logs and errors.
    np
        The numpy dtype that stores it.
    itemsize
        Bytes of one element.
    kind
        ``"float"``, ``"int"``, ``"uint"`` or ``"bool"``.
    bits
        Width in bits; bool counts as 1, for promotion.
    aliases
        Further names that resolve to it.
    """

    name: str
    np: np.dtype[Any]
    itemsize: int
    kind: str
    bits: int
    aliases: tuple[str, ...]

    def __repr__(self) -> str:
        return self.name

    @property
    def is_float(self) -> bool:
        """Whether values are floating point."""
        return self.kind == "float"

    @property
    def is_narrow_float(self) -> bool:
        """Whether sums and products of this type accumulate in f32 (16- and 8-bit floats)."""
        return self.kind == "float" and self.bits < 32

    def __reduce__(self) -> tuple[Any, ...]:
        return resolve_dtype, (self.name,)


def _dtype(name: str, storage: Any, kind: str, *aliases: str) -> DType:
    np_dtype = np.dtype(storage)
    bits = 1 if kind == "bool" else 8 * np_dtype.itemsize
    return DType(name, np_dtype, np_dtype.itemsize, kind, bits, aliases)


DTYPES: tuple[DType, ...] = (
    _dtype("f16", np.float16, "float", "float16", "fp16", "half"),
    _dtype("bf16", ml_dtypes.bfloat16, "float", "bfloat16"),
    _dtype("f32", np.float32, "float", "float32", "fp32", "float"),
    _dtype("f64", np.float64, "float", "float64", "fp64", "double"),
    _dtype(
        "f8e4m3",
        ml_dtypes.float8_e4m3fn,
        "float",
        "float8e4nv",
        "float8_e4m3fn",
        "fp8e4m3",
        "fp8_e4m3",
        "fp8",
    ),
    _dtype("f8e5m2", ml_dtypes.float8_e5m2, "float", "float8e5", "float8_e5m2", "fp8e5m2", "fp8_e5m2"),
    _dtype("i8", np.int8, "int", "int8"),
    _dtype("i16", np.int16, "int", "int16"),
    _dtype("i32", np.int32, "int", "int32", "int"),
    _dtype("i64", np.int64, "int", "int64"),
    _dtype("u8", np.uint8, "uint", "uint8"),
    _dtype("u16", np.uint16, "uint", "uint16"),
    _dtype("u32", np.uint32, "uint", "uint32"),
    _dtype("bool", np.bool_, "bool", "int1", "i1", "b1"),
)

f16, bf16, f32, f64, f8e4m3, f8e5m2, i8, i16, i32, i64, u8, u16, u32, bool_ = DTYPES

_BY_NAME = {name: t for t in DTYPES for name in (t.name, *t.aliases)}
_BY_NUMPY = {t.np: t for t in DTYPES}


def resolve_dtype(spec: Any) -> DType:
    """Find the dtype that a name, numpy dtype, scalar type or `DType` means.

    Raises
    ------
    DTypeError
        If nothing is known by that name; the text lists what is.
    """
    if isinstance(spec, DType):
        return spec
    key = ""
    if isinstance(spec, str):
        key = spec.removeprefix("tl.").removeprefix("torch.").lower()
        found = _BY_NAME.get(key)
    else:
        try:
            found = _BY_NUMPY.get(np.dtype(spec))
        except TypeError:
            found = None
    if found is None:
        key = key or str(spec)
        near = difflib.get_close_matches(key, _BY_NAME, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise DTypeError(f"unknown dtype {spec!r}{hint} Known: {', '.join(t.name for t in DTYPES)}.")
    return found
