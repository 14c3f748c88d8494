"""What the attention entry points are given: arrays looked at and brought into the kernels' layout."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kernbench_nb.benches._checks import check_count, group_size
from kernbench_nb.dtypes import DType, f16, f64, resolve_dtype
from kernbench_nb.errors import DTypeError, ShapeError
from kernbench_nb.runtime_api.tensor import host_array

__all__ = ["Inputs", "converted", "float_dtype", "look_at", "look_at_mask", "valid_keys"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Inputs:
    """Queries, keys and values in the kernels' layout, and their sizes.

    Attributes
    ----------
    q, k, v
        ``(T_q, h_q * d)``, ``(S_kv, h_kv * d)``.
    T_q, S_kv, h_q, h_kv, d
        Tokens, keys, query heads, KV heads, size of a head.
    dtype
        Of all three; `out_dtype` is that of the output (f16 for fp8).
    shape
        Shape of q as given, which is that of the output.
    """

    q: Array
    k: Array
    v: Array
    T_q: int
    S_kv: int
    h_q: int
    h_kv: int
    d: int
    dtype: DType
    shape: tuple[int, ...]

    @property
    def out_dtype(self) -> DType:
        """The dtype of the output."""
        return f16 if self.dtype.itemsize == 1 else self.dtype

    @property
    def group(self) -> int:
        """Query heads that share a KV head."""
        return group_size(self.h_q, self.h_kv)

    @property
    def sizes(self) -> dict[str, int]:
        """By name, as results show them."""
        return {"T_q": self.T_q, "S_kv": self.S_kv, "h_q": self.h_q, "h_kv": self.h_kv, "d": self.d}

    @property
    def arrays(self) -> tuple[Array, Array, Array]:
        """q, k and v as ``(tokens, heads, d)``."""
        kv = (self.S_kv, self.h_kv, self.d)
        return self.q.reshape(self.T_q, self.h_q, self.d), self.k.reshape(kv), self.v.reshape(kv)


def look_at(
    q: Any, k: Any, v: Any, *, dtype: Any = None, h_q: int | None = None, h_kv: int | None = None
) -> Inputs:
    """Check queries, keys and values, and bring them into the kernels' layout.

    Parameters
    ----------
    q, k, v
        ``(tokens, heads, d)``, or ``(tokens, heads * d)`` with the numbers of heads given.
    dtype
        What they are converted to; None takes them as they are.
    h_q, h_kv
        Numbers of heads, for arrays of rank 2 (1 by default).

    Raises
    ------
    ShapeError
        If ranks, heads or head sizes do not go together; what was expected and what came are named.
    DTypeError
        For float64 (name ``dtype=``), integers, or arrays of different dtypes.
    """
    arrays = [np.asarray(x) for x in (q, k, v)]
    for name, x in zip("qkv", arrays, strict=True):
        if x.ndim not in (2, 3):
            raise ShapeError(
                f"{name} must have shape (tokens, heads, d), or (tokens, heads * d) with h_q= and h_kv=; got {x.shape}"
            )
    ranks = {x.ndim for x, given in zip(arrays, (h_q, h_kv, h_kv), strict=True) if given is None}
    if ranks == {2, 3}:
        shapes = ", ".join(f"{name} {x.shape}" for name, x in zip("qkv", arrays, strict=True))
        flat = next(name for name, x in zip("qkv", arrays, strict=True) if x.ndim == 2)
        hint = " For one token of rank 3 write q[-1:], not q[-1]." if flat == "q" else ""
        raise ShapeError(
            f"got {shapes}: of rank 2, {flat} means (tokens, heads * d), with the number of heads in "
            f"{'h_q=' if flat == 'q' else 'h_kv='}; of rank 3, (tokens, heads, d).{hint}"
        )
    heads = [h_q, h_kv, h_kv]
    shaped = []
    for name, x, given in zip("qkv", arrays, heads, strict=True):
        if x.ndim == 3:
            if given is not None and given != x.shape[1]:
                raise ShapeError(
                    f"{name} of shape {x.shape} has {x.shape[1]} heads, but {given} were asked for"
                )
            shaped.append(x)
            continue
        count = 1 if given is None else given
        if count < 1 or x.shape[1] % count:
            raise ShapeError(f"{name} of shape {x.shape} cannot be cut into {count} heads")
        shaped.append(x.reshape(x.shape[0], count, x.shape[1] // count))
    q3, k3, v3 = shaped
    if k3.shape != v3.shape:
        raise ShapeError(f"k and v must have one shape; got k {arrays[1].shape} and v {arrays[2].shape}")
    if q3.shape[2] != k3.shape[2]:
        raise ShapeError(
            f"q and k must have heads of one size d; got q {arrays[0].shape} (d = {q3.shape[2]}) and k "
            f"{arrays[1].shape} (d = {k3.shape[2]})"
        )
    queries, kv = q3.shape[1], k3.shape[1]
    group_size(queries, kv)
    if q3.shape[0] == 0 or q3.shape[2] == 0:
        raise ShapeError(f"q needs at least one token and d at least 1; got {arrays[0].shape}")
    to = float_dtype(dict(zip("qkv", arrays, strict=True)), dtype)
    q2, k2, v2 = (converted(x, to).reshape(x.shape[0], x.shape[1] * x.shape[2]) for x in (q3, k3, v3))
    return Inputs(q2, k2, v2, q3.shape[0], k3.shape[0], queries, kv, q3.shape[2], to, arrays[0].shape)


def float_dtype(arrays: Mapping[str, Array], dtype: Any, what: str = "attention") -> DType:
    """The dtype that a kernel runs in: the one asked for, or else that of all its arrays.

    Parameters
    ----------
    arrays
        By the name that errors call them.
    dtype
        Asked for, or None.
    what
        What runs.

    Raises
    ------
    DTypeError
        For float64 (name ``dtype=``), integers, or arrays of different dtypes; whatever is asked for, of what are no
        real numbers: complex ones, texts, dates, objects.
    """
    if dtype is not None:
        to = resolve_dtype(dtype)
        if not to.is_float or to is f64:
            raise DTypeError(f"{what} runs in f16, bf16, f32, f8e4m3 or f8e5m2; got dtype={to}")
        for name, x in arrays.items():
            if x.dtype.kind in "cOSUMm" or x.dtype.names:
                raise DTypeError(
                    f"{name} is {x.dtype}, which {to} cannot stand for; {what} needs real numbers: an array of "
                    "floats, integers or bool."
                )
        return to
    found = {name: resolve_dtype(x.dtype) for name, x in arrays.items()}
    for name, t in found.items():
        if t is f64:
            raise DTypeError(
                f"{name} is float64, which these kernels do not compute in: say dtype='f16' (or bf16, f32)."
            )
        if not t.is_float:
            raise DTypeError(f"{name} is {t}; {what} needs floats: say dtype='f16' to convert.")
    if len(set(found.values())) > 1:
        names = ", ".join(f"{n} {t}" for n, t in found.items())
        raise DTypeError(f"q, k and v must have one dtype; got {names}. Say dtype='f16' to convert all.")
    return next(iter(found.values()))


def converted(x: Array, to: DType) -> Array:
    """An array in a dtype, rounded once; one element that stands for all stays one."""
    if x.dtype == to.np:
        return x
    if any(x.strides) or x.size == 0:
        return host_array(x, to)[0]
    # an array that repeats one element (a stand-in for shapes in timing mode) stays one
    return np.broadcast_to(host_array(x[(0,) * x.ndim], to)[0], x.shape)


def valid_keys(kv_len: int | None, x: Inputs) -> int:
    """How many of the keys are valid: all, unless `kv_len` says how many.

    Raises
    ------
    ValueError
        If it is no whole number, or more than there are.
    """
    if kv_len is None:
        return x.S_kv
    if check_count("kv_len", kv_len, 0) > x.S_kv:
        raise ShapeError(f"kv_len={kv_len} is more than the {x.S_kv} keys that k and v hold")
    return kv_len


def look_at_mask(mask: Any, x: Inputs) -> Array:
    """Check a mask of tokens and keys.

    Raises
    ------
    DTypeError, ShapeError
        If it is not bool, or not ``(T_q, S_kv)``.
    """
    allowed = np.asarray(mask)
    if allowed.dtype != np.bool_:
        raise DTypeError(f"mask must be bool, True where a token may attend; got {allowed.dtype}")
    if allowed.shape != (x.T_q, x.S_kv):
        raise ShapeError(f"mask must have shape (T_q, S_kv) = {(x.T_q, x.S_kv)}, got {allowed.shape}")
    return allowed
