"""Flash attention on one PE, in both loop orders."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from kernbench_nb.benches._step import Band, State, clear_state, finish, fold_tile, init_state

__all__ = ["flash_attention_kernel"]


def flash_attention_kernel(
    q: Any,
    k: Any,
    v: Any,
    o: Any,
    T_q: int,
    S_kv: int,
    h_q: int,
    h_kv: int,
    d_head: int,
    *,
    tl: Any,
    tile_q: int = 64,
    tile_kv: int = 64,
    order: str = "fa2",
    causal: bool = False,
    mask: Any = None,
    sm_scale: float | None = None,
    scoped: bool = True,
    lse: Any = None,
    m: Any = None,
    l: Any = None,
    kv_len: int | None = None,
) -> None:
    """``softmax(Q K^T * scale) V`` tile by tile; query heads outermost, tiles labelled ``tile i,j``.

    Parameters
    ----------
    q, o
        ``(T_q, h_q * d_head)``; for ``order="fa1"`` `o` is f32 and holds zeros.
    k, v
        ``(S_kv, h_kv * d_head)``.
    T_q, S_kv, h_q, h_kv, d_head
        Query tokens, keys, query heads, KV heads, size of a head.
    tl
        The language.
    tile_q, tile_kv
        Rows of a query block, keys of a KV tile.
    order
        ``"fa2"``: query blocks outside, the state stays in scratch (FlashAttention-2). ``"fa1"``: KV tiles outside,
        m, l and O live in HBM and are read and written on every pass (FlashAttention, algorithm 1).
    causal
        Token i sees keys ``j <= i + kv_len - T_q``; tiles wholly above the diagonal are skipped and recorded.
    mask
        ``(T_q, S_kv)`` bool, True where a token may look.
    sm_scale
        Factor of the scores, ``1 / sqrt(d_head)`` by default.
    scoped
        False gives nothing back.
    lse
        ``(T_q, h_q)`` f32: gets m + ln l.
    m, l
        For ``"fa1"``: ``(h_q, T_q)`` f32 in HBM, holding -inf and 0.
    kv_len
        How many of the keys are valid.
    """
    scale = 1.0 / math.sqrt(d_head) if sm_scale is None else sm_scale
    valid = S_kv if kv_len is None else kv_len
    group = h_q // h_kv
    blocks = [(i, at, min(at + tile_q, T_q)) for i, at in enumerate(range(0, T_q, tile_q))]
    tiles = [(j, at, min(at + tile_kv, valid)) for j, at in enumerate(range(0, valid, tile_kv))]

    def load(pointer: Any, head: int, heads: int, span: tuple[int, int], name: str) -> Any:
        first, last = span
        return tl.load_async(
            pointer + (first * heads + head) * d_head,
            (last - first, d_head),
            strides=(heads * d_head, 1),
            name=name,
        )

    def sees(rows: tuple[int, int], keys: tuple[int, int]) -> bool:
        """Whether some row of a block may look at some key of a tile."""
        return not causal or keys[0] <= rows[1] - 1 + valid - T_q

    def fold(state: State, Q: Any, K: Any, V: Any, rows: Any, keys: Any, first: bool) -> None:
        shift = rows[0] + valid - T_q - keys[0]
        band = Band(rows[1] - rows[0], shift) if causal and shift < keys[1] - keys[0] - 1 else None
        seen = None
        if mask is not None:
            shape = (rows[1] - rows[0], keys[1] - keys[0])
            seen = tl.load(mask + rows[0] * S_kv + keys[0], shape, strides=(S_kv, 1), name="mask")
            if band is not None:
                seen = tl.and_(seen, _causal_mask(tl, shape, shift), name="mask")
        fold_tile(
            tl, state, Q[None], K.trans()[None], V[None], scale=scale, first=first,
            band=None if seen is not None else band, mask=seen,
        )  # fmt: skip

    def finish_block(state: State, head: int, rows: tuple[int, int]) -> None:
        n = rows[1] - rows[0]
        with tl.scratch_scope("finish", kind="finish", rewind=scoped):
            finish(
                tl,
                state,
                lambda out: tl.store(
                    o + (rows[0] * h_q + head) * d_head, out.reshape(n, d_head), strides=(h_q * d_head, 1)
                ),
                None
                if lse is None
                else lambda out: tl.store(lse + rows[0] * h_q + head, out.reshape(n), strides=(h_q,)),
            )

    for head in range(h_q):
        ends = (head, head // group)
        if order == "fa2":
            _queries_outside(
                tl, q, k, v, ends, (h_q, h_kv, d_head), blocks, tiles, scoped, load, sees, fold, finish_block
            )
        else:
            hbm = (m + head * T_q, l + head * T_q, o + head * d_head)
            _keys_outside(
                tl,
                q,
                k,
                v,
                ends,
                (h_q, h_kv, d_head),
                blocks,
                tiles,
                scoped,
                load,
                sees,
                fold,
                finish_block,
                hbm,
            )


def _label(heads: int, head: int, i: int, j: int) -> str:
    return f"tile {i},{j}" if heads == 1 else f"head {head} tile {i},{j}"


def _queries_outside(
    tl: Any, q: Any, k: Any, v: Any, ends: tuple[int, int], sizes: tuple[int, int, int], blocks: Any, tiles: Any,
    scoped: bool, load: Callable[..., Any], sees: Callable[..., bool], fold: Callable[..., None],
    finish_block: Callable[..., None],
) -> None:  # fmt: skip
    """FlashAttention-2: each query block walks once over all keys; its state never leaves scratch."""
    (head, kv_head), (h_q, h_kv, d) = ends, sizes
    for i, *rows in blocks:
        with tl.scratch_scope(f"block {i}", kind="block", rows=tuple(rows), rewind=scoped):
            Q = load(q, head, h_q, rows, "Q").wait()
            state = init_state(tl, 1, rows[1] - rows[0], d)
            fresh = True
            for j, *keys in tiles:
                if not sees(rows, keys):
                    tl.skip(tuple(rows), tuple(keys))
                    continue
                label = _label(h_q, head, i, j)
                with tl.scratch_scope(label, kind="tile", rows=tuple(rows), keys=tuple(keys), rewind=scoped):
                    K, V = tl.wait(load(k, kv_head, h_kv, keys, "K"), load(v, kv_head, h_kv, keys, "V"))
                    fold(state, Q, K, V, rows, keys, fresh)
                fresh = False
            if fresh:
                clear_state(tl, state)
            finish_block(state, head, rows)


def _keys_outside(
    tl: Any, q: Any, k: Any, v: Any, ends: tuple[int, int], sizes: tuple[int, int, int], blocks: Any, tiles: Any,
    scoped: bool, load: Callable[..., Any], sees: Callable[..., bool], fold: Callable[..., None],
    finish_block: Callable[..., None], hbm: tuple[Any, Any, Any],
) -> None:  # fmt: skip
    """FlashAttention, algorithm 1: each KV tile walks over all queries, whose state comes from HBM and goes back.

    O stays unnormalised in HBM until the last pass that a block takes part in.
    """
    (head, kv_head), (h_q, h_kv, d) = ends, sizes
    m, l, O = hbm
    last = {i: max((j for j, *keys in tiles if sees(rows, keys)), default=None) for i, *rows in blocks}
    for j, *keys in tiles:
        with tl.scratch_scope(f"keys {j}", kind="block", keys=tuple(keys), rewind=scoped):
            K, V = tl.wait(load(k, kv_head, h_kv, keys, "K"), load(v, kv_head, h_kv, keys, "V"))
            for i, *rows in blocks:
                if not sees(rows, keys):
                    tl.skip(tuple(rows), tuple(keys))
                    continue
                n = rows[1] - rows[0]
                at = O + rows[0] * h_q * d
                label = _label(h_q, head, i, j)
                with tl.scratch_scope(label, kind="tile", rows=tuple(rows), keys=tuple(keys), rewind=scoped):
                    Q, m_now, l_now, O_now = tl.wait(
                        load(q, head, h_q, rows, "Q"),
                        tl.load_async(m + rows[0], (1, n, 1), name="m"),
                        tl.load_async(l + rows[0], (1, n, 1), name="l"),
                        tl.load_async(at, (1, n, d), strides=(0, h_q * d, 1), name="O"),
                    )
                    state = State(m_now, l_now, O_now)
                    fold(state, Q, K, V, rows, keys, False)
                    tl.store(m + rows[0], m_now)
                    tl.store(l + rows[0], l_now)
                    if j == last[i]:
                        finish_block(state, head, rows)
                    else:
                        tl.store(at, O_now, strides=(0, h_q * d, 1))


def _causal_mask(tl: Any, shape: tuple[int, int], shift: int) -> Any:
    key = tl.arange(0, shape[1], name="key")
    token = tl.arange(0, shape[0], name="token")
    last = tl.add(token, shift, name="last key")
    return tl.le(key[None, :], last[:, None], name="causal")
