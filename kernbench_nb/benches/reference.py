"""Float64 references: what every attention kernel must give, in plain numpy.

Nothing here knows the machine or `tl`. Inputs of any dtype (f16, bf16, f32, fp8 by `ml_dtypes`) are widened
to float64 first, so a reference sees exactly the values that a kernel saw and adds no rounding that matters.

Three conventions hold everywhere:

* arrays are ``(tokens, heads, d)``; query head ``h`` reads KV head ``h // G`` with ``G = h_q / h_kv``;
* masks *select* keys (True = may attend), nothing is ever added to a score;
* a row with no key is the empty state: ``O = 0``, ``lse = -inf``, and merging with it changes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from kernbench_nb.dtypes import resolve_dtype
from kernbench_nb.errors import DTypeError, ShapeError

Floats: TypeAlias = NDArray[np.floating[Any]]
Float64s: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]

_Scalar = TypeVar("_Scalar", bound=np.generic)

_TOLERANCES = {"f16": 2e-3, "bf16": 1.6e-2, "f32": 1e-5}

# Working set of one step: the scores of a query block stay below 4 Mi entries (32 MiB), and keys are widened
# to float64 a few thousand at a time. A cache of 131 072 keys therefore never exists in float64 as a whole.
_MAX_SCORES = 1 << 22
_KEY_CHUNK = 4096


# -- the call, checked once ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Call:
    """The checked arguments of an attention call, cut to the valid keys."""

    q: NDArray[Any]
    k: NDArray[Any]
    v: NDArray[Any]
    scale: float
    causal: bool
    mask: Bools | None

    @property
    def s_q(self) -> int:
        return int(self.q.shape[0])

    @property
    def s_kv(self) -> int:
        return int(self.k.shape[0])

    @property
    def h_q(self) -> int:
        return int(self.q.shape[1])

    @property
    def h_kv(self) -> int:
        return int(self.k.shape[1])

    @property
    def d(self) -> int:
        return int(self.q.shape[2])

    @property
    def group(self) -> int:
        return self.h_q // self.h_kv

    def seen(self, kv_head: int, rows: slice, keys: NDArray[np.intp]) -> Bools | None:
        """Which of some keys the rows of one KV head may see, or None when they see all of them.

        Parameters
        ----------
        kv_head : int
            KV head; its G query heads are answered together.
        rows : slice
            Query tokens, with explicit start and stop.
        keys : int array, (n,)
            Keys that are asked about.

        Returns
        -------
        bool array, (1 or G, rows, n), or None
        """
        seen: Bools | None = None
        if self.causal:
            token = np.arange(rows.start, rows.stop)[:, None]
            seen = (keys[None, :] <= token + (self.s_kv - self.s_q))[None]
        if self.mask is not None:
            heads = slice(kv_head * self.group, (kv_head + 1) * self.group)
            part = self.mask[None, rows] if self.mask.ndim == 2 else self.mask[heads, rows]
            seen = part[..., keys] if seen is None else seen & part[..., keys]
        return seen


def _checked(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    *,
    sm_scale: float | None = None,
    causal: bool = False,
    mask: ArrayLike | None = None,
    kv_len: int | None = None,
) -> _Call:
    q, k, v = np.asarray(q), np.asarray(k), np.asarray(v)
    for name, array in (("q", q), ("k", k), ("v", v)):
        if array.ndim != 3:
            raise ShapeError(f"{name} must be (tokens, heads, d), got shape {array.shape}")
    if k.shape != v.shape:
        raise ShapeError(f"k and v must have one shape (S_kv, h_kv, d), got k {k.shape} and v {v.shape}")
    if q.shape[2] != k.shape[2]:
        raise ShapeError(f"q and k must have the same d, got q {q.shape} and k {k.shape}")
    h_q, h_kv = q.shape[1], k.shape[1]
    if h_kv == 0 or h_q % h_kv:
        raise ShapeError(f"query heads must be a multiple of KV heads, got h_q={h_q} and h_kv={h_kv}")
    cache = k.shape[0]
    valid = cache if kv_len is None else int(kv_len)
    if not 0 <= valid <= cache:
        raise ShapeError(f"kv_len must be between 0 and the cache's {cache} keys, got {kv_len}")
    selected = None if mask is None else _checked_mask(mask, q.shape[0], h_q, cache, valid)
    scale = 1.0 / math.sqrt(q.shape[2]) if sm_scale is None else float(sm_scale)
    return _Call(q, k[:valid], v[:valid], scale, causal, selected)


def _checked_mask(mask: ArrayLike, s_q: int, h_q: int, cache: int, valid: int) -> Bools:
    array = np.asarray(mask)
    if array.dtype != np.bool_:
        raise DTypeError(
            f"mask must be bool (True = may attend), got dtype {array.dtype}; masks select keys, they are "
            "not added to scores: pass a comparison such as bias == 0"
        )
    allowed = {(s_q, cache), (s_q, valid), (h_q, s_q, cache), (h_q, s_q, valid)}
    if array.shape not in allowed:
        raise ShapeError(
            f"mask must be (S_q, S_kv) = ({s_q}, {valid}) or (h_q, S_q, S_kv) = ({h_q}, {s_q}, {valid}), "
            f"got {array.shape}"
        )
    return array[..., :valid]


# -- attention -----------------------------------------------------------------------------------------------


def attention(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    *,
    sm_scale: float | None = None,
    causal: bool = False,
    mask: ArrayLike | None = None,
    kv_len: int | None = None,
) -> tuple[Float64s, Float64s]:
    """Exact attention with grouped heads.

    Parameters
    ----------
    q : array, (S_q, h_q, d)
        Queries, any float dtype.
    k, v : array, (S_kv, h_kv, d)
        Keys and values; ``h_q % h_kv == 0``, query head h reads KV head ``h // (h_q / h_kv)``.
    sm_scale : float, optional
        Factor of the scores; ``1 / sqrt(d)`` unless given.
    causal : bool
        Bottom-right: query i sees keys ``j <= i + S_kv - S_q``.
    mask : bool array, (S_q, S_kv) or (h_q, S_q, S_kv), optional
        True = may attend. It may also be as long as the whole cache; it is then cut to `kv_len`.
    kv_len : int, optional
        How many leading keys of the cache are valid; the rest is never read.

    Returns
    -------
    O : float64 array, (S_q, h_q, d)
    lse : float64 array, (S_q, h_q)
        Natural logarithm of the sum of exp(scaled score).

    Notes
    -----
    A row with no key gives ``O = 0`` and ``lse = -inf``. A NaN key, or one whose score is +inf, makes every row that
    may see it NaN and no other row. A NaN or infinite V entry shows in its column of the rows that may see it, and in
    no other; a kernel may spoil more than that, which is what `tainted` says.

    Raises
    ------
    ShapeError
        Shapes that do not fit, `h_q` not a multiple of `h_kv`, `kv_len` beyond the cache.
    DTypeError
        A mask that is not bool.
    """
    call = _checked(q, k, v, sm_scale=sm_scale, causal=causal, mask=mask, kv_len=kv_len)
    out = np.empty((call.s_q, call.h_q, call.d))
    lse = np.empty((call.s_q, call.h_q))
    with np.errstate(all="ignore"):  # inf and NaN are answers here, not accidents
        for kv_head in range(call.h_kv):
            heads = slice(kv_head * call.group, (kv_head + 1) * call.group)
            for rows in _row_blocks(call):
                scores, seen = _scores(call, kv_head, rows)
                block_out, block_lse = _weighted(scores, call.v[:, kv_head], seen)
                out[rows, heads] = block_out.transpose(1, 0, 2)
                lse[rows, heads] = block_lse.T
    return out, lse


def _row_blocks(call: _Call) -> Iterator[slice]:
    step = max(1, _MAX_SCORES // max(1, call.group * call.s_kv))
    for start in range(0, call.s_q, step):
        yield slice(start, min(start + step, call.s_q))


def _key_chunks(n_keys: int) -> Iterator[slice]:
    for start in range(0, n_keys, _KEY_CHUNK):
        yield slice(start, min(start + _KEY_CHUNK, n_keys))


def _scores(call: _Call, kv_head: int, rows: slice) -> tuple[Float64s, Bools | None]:
    """Scaled scores (G, rows, S_kv), -inf where a key may not be seen; and what may be seen."""
    heads = slice(kv_head * call.group, (kv_head + 1) * call.group)
    queries = call.q[rows, heads].astype(np.float64).transpose(1, 0, 2)
    scores = np.empty((*queries.shape[:2], call.s_kv))
    for keys in _key_chunks(call.s_kv):
        scores[..., keys] = queries @ call.k[keys, kv_head].astype(np.float64).T
    scores *= call.scale
    seen = call.seen(kv_head, rows, np.arange(call.s_kv))
    if seen is not None:
        np.copyto(scores, -np.inf, where=~seen)
    return scores, seen


def _weighted(scores: Float64s, values: NDArray[Any], seen: Bools | None) -> tuple[Float64s, Float64s]:
    """Softmax of the scores (overwritten) times the values: O (G, rows, d) and lse (G, rows)."""
    top = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    safe_top = np.where(top == -np.inf, 0.0, top)
    scores -= safe_top
    weights = np.exp(scores, out=scores)
    total = weights.sum(axis=-1, keepdims=True)
    acc = np.zeros((*scores.shape[:2], values.shape[-1]))
    for keys in _key_chunks(values.shape[0]):
        wide = values[keys].astype(np.float64)
        finite = np.isfinite(wide)
        if finite.all():
            acc += weights[..., keys] @ wide
            continue
        # 0 * NaN is NaN: multiply finite values only, then let a bad value reach the rows that may see it.
        acc += weights[..., keys] @ np.where(finite, wide, 0.0)
        for bad, value in ((np.isnan(wide), np.nan), (wide == np.inf, np.inf), (wide == -np.inf, -np.inf)):
            acc[_reached(bad, None if seen is None else seen[..., keys], acc.shape)] += value
    out = acc / np.where(total == 0.0, 1.0, total)
    return out, (safe_top + np.log(total))[..., 0]


def _reached(bad: Bools, seen: Bools | None, shape: tuple[int, ...]) -> Bools:
    """Entries (G, rows, d) whose row may see a key that is bad in their column; bad is (keys, d)."""
    if seen is None:
        return np.broadcast_to(bad.any(axis=0), shape)
    keys = np.flatnonzero(bad.any(axis=1))
    return np.broadcast_to(_any_product(seen[..., keys], bad[keys]), shape)


def tainted(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    *,
    causal: bool = False,
    mask: ArrayLike | None = None,
    kv_len: int | None = None,
    rows: int | Sequence[int] | None = None,
    heads: int | None = None,
) -> Bools:
    """Entries of O where NaN is as legal as the reference's value.

    A kernel multiplies a whole tile, rows x keys, by the tile's V. A V row that no row of the tile sees is
    zeroed by a select and harms nobody. A non-finite V entry that *some* row sees stays, and every other row
    of that tile gets ``0 * inf`` or ``0 * NaN`` in that column: NaN, as on hardware. The same holds for a row
    that does see an infinite V with a weight that rounds to 0. No other entry, and no value but NaN, is
    excused.

    Which keys share a tile does not matter (each row of a block visits every tile of that block); which rows
    do, does.

    Parameters
    ----------
    q, k, v, causal, mask, kv_len
        As in `attention`; of q and k only the shapes matter.
    rows : int or sequence of int, optional
        Query tokens of one tile: a block length, or the lengths of all blocks in order (ragged shards). All
        unless given.
    heads : int, optional
        Query heads of one tile, a divisor of G. G unless given (packed, as in decode); 1 for one at a time
        (flash).

    Returns
    -------
    bool array, (S_q, h_q, d)
    """
    call = _checked(q, k, v, causal=causal, mask=mask, kv_len=kv_len)
    together = call.group if heads is None else int(heads)
    if together < 1 or call.group % together:
        raise ShapeError(f"heads must divide the group of {call.group} query heads a KV head, got {heads}")
    out = np.zeros((call.s_q, call.h_q, call.d), np.bool_)
    for kv_head in range(call.h_kv):
        keys, values = _non_finite(call.v[:, kv_head])
        if not keys.size:
            continue
        for block in _blocks(rows, call.s_q):
            seen = call.seen(kv_head, block, keys)
            shape = (call.group, block.stop - block.start, keys.size)
            sees = np.broadcast_to(np.True_ if seen is None else seen, shape)
            for first in range(0, call.group, together):
                tile = sees[first : first + together]
                kept = tile.any(axis=(0, 1))  # the V rows that the select leaves alone
                by_others = _any_product(~tile & kept, ~np.isfinite(values))
                by_rounding = _any_product(tile, np.isinf(values))
                head = kv_head * call.group + first
                out[block, head : head + together] = (by_others | by_rounding).transpose(1, 0, 2)
    return out


def _non_finite(values: NDArray[Any]) -> tuple[NDArray[np.intp], Float64s]:
    """The keys (n,) whose V row (S_kv, d) holds a NaN or an infinity, and those rows (n, d)."""
    bad = np.zeros(values.shape[0], np.bool_)
    for keys in _key_chunks(values.shape[0]):
        bad[keys] = ~np.isfinite(values[keys].astype(np.float64)).all(axis=1)
    return np.flatnonzero(bad), values[bad].astype(np.float64)


def _any_product(rows_by_keys: Bools, keys_by_columns: Bools) -> Bools:
    """Boolean matrix product: True where a row meets a column at any key."""
    return (rows_by_keys.astype(np.float64) @ keys_by_columns.astype(np.float64)) > 0.0


def _blocks(rows: int | Sequence[int] | None, total: int) -> Iterator[slice]:
    if rows is None:
        lengths = [total]
    elif isinstance(rows, int):
        if rows < 1:
            raise ShapeError(f"rows must be positive, got {rows}")
        lengths = [rows] * (total // rows) + ([total % rows] if total % rows else [])
    else:
        lengths = [int(n) for n in rows]
        if sum(lengths) != total or min(lengths, default=0) < 0:
            raise ShapeError(f"the blocks {lengths} must add up to the {total} query tokens")
    start = 0
    for length in lengths:
        if length:
            yield slice(start, start + length)
        start += length


def naive(
    q: ArrayLike,
    k: ArrayLike,
    v: ArrayLike,
    *,
    sm_scale: float | None = None,
    causal: bool = False,
    mask: ArrayLike | None = None,
    kv_len: int | None = None,
) -> tuple[Float64s, Float64s, Float64s]:
    """Attention with its two big matrices kept: S, P and O. For pictures; small inputs only.

    Parameters
    ----------
    q, k, v, sm_scale, causal, mask, kv_len
        As in `attention`.

    Returns
    -------
    S : float64 array, (h_q, S_q, S_kv)
        Scaled scores, -inf where a key may not be seen.
    P : float64 array, (h_q, S_q, S_kv)
        Row-wise softmax of S; rows of zeros where no key may be seen.
    O : float64 array, (S_q, h_q, d)
    """
    call = _checked(q, k, v, sm_scale=sm_scale, causal=causal, mask=mask, kv_len=kv_len)
    scores = np.empty((call.h_q, call.s_q, call.s_kv))
    everything = slice(0, call.s_q)
    with np.errstate(all="ignore"):
        for kv_head in range(call.h_kv):
            heads = slice(kv_head * call.group, (kv_head + 1) * call.group)
            scores[heads] = _scores(call, kv_head, everything)[0]
    out, _ = attention(q, k, v, sm_scale=sm_scale, causal=causal, mask=mask, kv_len=kv_len)
    return scores, softmax(scores, where=~np.isneginf(scores)), out


def softmax(x: ArrayLike, axis: int = -1, *, where: ArrayLike | None = None) -> Float64s:
    """Softmax in float64.

    Parameters
    ----------
    x : array
        Scores, any float dtype.
    axis : int
        Axis that sums to 1.
    where : bool array, optional
        Entries that take part (broadcast to x); the others get 0. A row with none gives zeros.

    Returns
    -------
    float64 array of x's shape. Without `where`, a row of nothing but -inf is NaN, as in numpy and torch.
    """
    scores = np.asarray(x).astype(np.float64)
    with np.errstate(all="ignore"):
        if where is None:
            weights = np.exp(scores - scores.max(axis=axis, keepdims=True, initial=-np.inf))
            return np.asarray(weights / weights.sum(axis=axis, keepdims=True))
        chosen = np.broadcast_to(np.asarray(where), scores.shape)
        scores = np.where(chosen, scores, -np.inf)
        top = scores.max(axis=axis, keepdims=True, initial=-np.inf)
        weights = np.exp(scores - np.where(top == -np.inf, 0.0, top))
        total = weights.sum(axis=axis, keepdims=True)
        return np.asarray(weights / np.where(total == 0.0, 1.0, total))


# -- states and their merge ----------------------------------------------------------------------------------


def _arrays(*values: ArrayLike) -> tuple[Floats, ...]:
    """The values as arrays of one dtype, f32 at least."""
    arrays = [np.asarray(value) for value in values]
    kind = np.float64 if any(a.dtype.itemsize > 4 for a in arrays) else np.float32
    return tuple(a.astype(kind) for a in arrays)


def _per_row(column: NDArray[_Scalar], out: Floats) -> NDArray[_Scalar]:
    """A per-row number in a shape that broadcasts against O: (..., 1), from (...) or (..., 1)."""
    return column if column.ndim == out.ndim else column[..., None]


def _either(left_empty: Bools, left: Floats, right_empty: Bools, right: Floats, both: Floats) -> Floats:
    """`both`, or the other side untouched, bit for bit, where one side is the empty state."""
    return np.asarray(np.where(left_empty, right, np.where(right_empty, left, both)))


def merge(left: tuple[ArrayLike, ArrayLike], right: tuple[ArrayLike, ArrayLike]) -> tuple[Floats, Floats]:
    """Merge two finished answers (O, lse) over disjoint sets of keys.

    ``lse = m + ln(exp(lse_1 - m) + exp(lse_2 - m))``, m the larger one; O is the mean of both, weighted by
    ``exp(lse_side - m)``.

    Parameters
    ----------
    left, right : (O, lse)
        O ``(..., d)``, already divided by l; lse ``(...)`` or ``(..., 1)``, base e. ``(0, -inf)`` is empty.

    Returns
    -------
    (O, lse) in f64 if any input is f64, else f32
        Bit-identical in either order; merging with the empty state gives the other side unchanged, and two
        empty states are empty. Never warns.
    """
    out_l, lse_l, out_r, lse_r = _arrays(*left, *right)
    with np.errstate(all="ignore"):
        top = np.maximum(lse_l, lse_r)
        w_l, w_r = np.exp(lse_l - top), np.exp(lse_r - top)
        total = w_l + w_r
        blend = (_per_row(w_l, out_l) * out_l + _per_row(w_r, out_r) * out_r) / _per_row(total, out_l)
        # -inf - -inf is NaN in a row where both are empty, and there the blend is not taken.
        empty_l, empty_r = np.isneginf(lse_l), np.isneginf(lse_r)
        lse = _either(empty_l, lse_l, empty_r, lse_r, top + np.log(total))
        return _either(_per_row(empty_l, out_l), out_l, _per_row(empty_r, out_r), out_r, blend), lse


def merge_state(
    left: tuple[ArrayLike, ArrayLike, ArrayLike], right: tuple[ArrayLike, ArrayLike, ArrayLike]
) -> tuple[Floats, Floats, Floats]:
    """Merge two running states (m, l, O), O not yet divided by l.

    ``m = max(m_1, m_2)``; l and O of each side are multiplied by exp(m_side - m), then added.

    Parameters
    ----------
    left, right : (m, l, O)
        m, l ``(...)`` or ``(..., 1)``; O ``(..., d)``. ``(-inf, 0, 0)`` is the empty state.

    Returns
    -------
    (m, l, O) in f64 if any input is f64, else f32
        Bit-identical in either order; merging with the empty state gives the other side unchanged. Never
        warns.
    """
    m_l, l_l, out_l, m_r, l_r, out_r = _arrays(*left, *right)
    with np.errstate(all="ignore"):
        empty_l, empty_r = np.isneginf(m_l), np.isneginf(m_r)
        # + 0: of -0 and 0 numpy's maximum is either one, and which one depends on where in memory they stand.
        m = _either(empty_l, m_l, empty_r, m_r, np.maximum(m_l, m_r) + 0)
        a, b = np.exp(m_l - m), np.exp(m_r - m)
        total = out_l * _per_row(a, out_l) + out_r * _per_row(b, out_r)
        # -inf - -inf is NaN in a row where both are empty, and there the total is not taken.
        length = _either(empty_l, l_l, empty_r, l_r, l_l * a + l_r * b)
        return m, length, _either(_per_row(empty_l, out_l), out_l, _per_row(empty_r, out_r), out_r, total)


def tile_state(scores: ArrayLike, values: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """The state (m, l, O) of one tile.

    Parameters
    ----------
    scores : array, (..., t)
        Scaled scores; -inf is a key that may not be seen. A row of them, or t = 0, gives the empty state.
    values : array, (t, d)

    Returns
    -------
    m, l : array, (..., 1)
    O : array, (..., d)
    """
    s, v = _arrays(scores, values)
    with np.errstate(all="ignore"):
        m = s.max(axis=-1, keepdims=True, initial=-np.inf)
        p = np.exp(s - np.where(m == -np.inf, np.zeros_like(m), m))
        return m, p.sum(axis=-1, keepdims=True), np.asarray(p @ v)


def finish_state(state: tuple[ArrayLike, ArrayLike, ArrayLike]) -> tuple[Floats, Floats]:
    """The answer (O, lse) of a state (m, l, O): ``O / l`` and ``m + ln l``; 0 and -inf for the empty one.

    m and l are (...) or (..., 1), O is (..., d); lse comes back as (...).
    """
    m, length, out = _arrays(*state)
    m, length = _per_row(m, out), _per_row(length, out)
    with np.errstate(all="ignore"):
        empty = m == -np.inf
        answer = np.where(empty, np.zeros_like(out), out / np.where(empty, np.ones_like(length), length))
        return answer, np.where(empty, m, m + np.log(length))[..., 0]


# -- comparing -----------------------------------------------------------------------------------------------


def tolerance(dtype: Any) -> float:
    """The tolerance of `worst_error` for a kernel that runs in this dtype.

    2e-3 for f16, 1.6e-2 for bf16, 1e-5 for f32; fp8 has f16's, since P and O are then f16.

    Parameters
    ----------
    dtype : name, numpy dtype, scalar type or DType
        Whatever `resolve_dtype` takes.

    Raises
    ------
    DTypeError
        A dtype that no attention kernel runs in.
    """
    kind = resolve_dtype(dtype)
    name = "f16" if kind.is_float and kind.itemsize == 1 else kind.name
    if name not in _TOLERANCES:
        raise DTypeError(f"no tolerance for dtype {kind.name}: attention runs in f16, bf16, f32 or fp8")
    return _TOLERANCES[name]


def worst_error(out: ArrayLike, ref: ArrayLike, *, tainted: ArrayLike | None = None) -> float:
    """The largest ``|out - ref| / (1 + |ref|)``; a result passes when this is at most `tolerance`.

    NaN must meet NaN, and an infinity the same infinity; a mismatch of that kind counts as infinitely wrong.

    Parameters
    ----------
    out, ref : array, same shape
        The kernel's result in any dtype, and the reference.
    tainted : bool array, optional
        Entries (broadcast to ref) where NaN is accepted too; a number there is compared like any other.

    Returns
    -------
    float, 0.0 for empty arrays

    Raises
    ------
    ShapeError
        Shapes that differ.
    """
    got, want = np.asarray(out).astype(np.float64), np.asarray(ref).astype(np.float64)
    if got.shape != want.shape:
        raise ShapeError(f"out and ref must have one shape, got {got.shape} and {want.shape}")
    if not want.size:
        return 0.0
    with np.errstate(all="ignore"):
        error = np.abs(got - want) / (1.0 + np.abs(want))
    error = np.where((got == want) | (np.isnan(got) & np.isnan(want)), 0.0, error)
    if tainted is not None:
        error = np.where(np.asarray(tainted) & np.isnan(got), 0.0, error)
    return float(np.where(np.isnan(error), np.inf, error).max())
