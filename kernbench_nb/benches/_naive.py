"""Standard attention: the scores and the weights go through HBM."""

from __future__ import annotations

import math
from typing import Any

from kernbench_nb.benches._checks import group_size
from kernbench_nb.benches._step import causal_mask, safe_max

__all__ = ["naive_attention_kernel"]


def naive_attention_kernel(
    q: Any,
    k: Any,
    v: Any,
    o: Any,
    S: Any,
    P: Any,
    T_q: int,
    S_kv: int,
    h_q: int,
    h_kv: int,
    d_head: int,
    *,
    tl: Any,
    rows: int = 64,
    causal: bool = False,
    sm_scale: float | None = None,
    lse: Any = None,
) -> None:
    """``O = softmax(Q K^T * scale) V`` in three passes: store S; load S, store P; load P.

    Parameters
    ----------
    q, o
        ``(T_q, h_q * d_head)``.
    k, v
        ``(S_kv, h_kv * d_head)``; a head of each is held whole in scratch while its pass lasts.
    S, P
        ``(h_q, T_q, S_kv)`` in HBM, in the dtype of the input.
    T_q, S_kv, h_q, h_kv, d_head
        Query tokens, keys, query heads, KV heads, size of a head.
    tl
        The language.
    rows
        Rows handled at once; the traffic does not depend on it.
    causal
        Token i sees keys ``j <= i + S_kv - T_q``.
    sm_scale
        Factor of the scores, ``1 / sqrt(d_head)`` by default.
    lse
        ``(T_q, h_q)`` f32: gets the logarithm of the sum of exp(S).

    Notes
    -----
    HBM traffic of a head with T_q = S_kv = N: ``4 N^2 + 4 N d`` elements (FlashAttention, Theorem 2).
    """
    scale = 1.0 / math.sqrt(d_head) if sm_scale is None else sm_scale
    group = group_size(h_q, h_kv)
    blocks = [(i, at, min(at + rows, T_q)) for i, at in enumerate(range(0, T_q, rows))]
    kv_strides, q_strides = (h_kv * d_head, 1), (h_q * d_head, 1)

    for head in range(h_q):
        own = f"head {head} " if h_q > 1 else ""
        k_head, v_head = k + head // group * d_head, v + head // group * d_head
        S_head, P_head = S + head * T_q * S_kv, P + head * T_q * S_kv

        with tl.scratch_scope(f"{own}scores", kind="block"):
            K = tl.load(k_head, (S_kv, d_head), strides=kv_strides)
            for i, first, last in blocks:
                with tl.scratch_scope(f"{own}S rows {i}", kind="tile", rows=(first, last), keys=(0, S_kv)):
                    at = (first * h_q + head) * d_head
                    Q = tl.load(q + at, (last - first, d_head), strides=q_strides)
                    qk = tl.dot(Q, K.trans())
                    s = tl.mul(qk, scale)
                    if causal:
                        mask = causal_mask(tl, last - first, S_kv, first + S_kv - T_q)
                        s = tl.where(mask, s, float("-inf"))
                    tl.store(S_head + first * S_kv, s)

        for i, first, last in blocks:
            with tl.scratch_scope(f"{own}P rows {i}", kind="tile", rows=(first, last), keys=(0, S_kv)):
                s = tl.load(S_head + first * S_kv, (last - first, S_kv), name="S")
                p = _softmax(tl, s, causal and 0 < S_kv < T_q)
                tl.store(P_head + first * S_kv, p)
                if lse is not None:
                    tl.store(lse + first * h_q + head, _log_sum(tl, s), strides=(h_q, 1))

        with tl.scratch_scope(f"{own}output", kind="block"):
            V = tl.load(v_head, (S_kv, d_head), strides=kv_strides)
            for i, first, last in blocks:
                with tl.scratch_scope(f"{own}O rows {i}", kind="tile", rows=(first, last), keys=(0, S_kv)):
                    p = tl.load(P_head + first * S_kv, (last - first, S_kv), name="P")
                    # keys that no row of the block sees are left out: whatever V holds there, 0 times it is not 0
                    seen = max(0, min(S_kv, last + S_kv - T_q)) if causal else S_kv
                    out = tl.dot(p[:, :seen], V[:seen])
                    tl.store(o + (first * h_q + head) * d_head, out, strides=q_strides)


def _softmax(tl: Any, s: Any, rows_may_be_empty: bool) -> Any:
    p = tl.softmax(s, name="p")
    if not rows_may_be_empty:
        return p
    empty = tl.eq(tl.max(s, -1, True), float("-inf"))
    return tl.where(empty, 0.0, p, name="p")


def _log_sum(tl: Any, s: Any) -> Any:
    """Logarithm of the sum of exp(s) of each row, ``(rows, 1)`` f32; -inf for a row with no key."""
    if s.shape[1] == 0:
        return tl.full((s.shape[0], 1), float("-inf"), "f32")
    s = tl.cast(s, "f32")
    m = tl.max(s, -1, True)
    e = tl.exp(tl.sub(s, safe_max(tl, m)))
    l = tl.sum(e, -1, True)
    l_safe = tl.where(tl.gt(l, 0.0), l, 1.0)
    return tl.add(m, tl.log(l_safe))
