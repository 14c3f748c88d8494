"""Prefill over a ring of cubes: every cube keeps its queries, and the blocks of K and V travel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from kernbench_nb.benches._checks import check_word, group_size
from kernbench_nb.benches._step import causal_mask, clear_state, finish, fold_tile, init_state
from kernbench_nb.errors import ShapeError
from kernbench_nb.policy.placement.dp import split

__all__ = ["gqa_prefill_long_kernel"]


def gqa_prefill_long_kernel(
    q: Any,
    k: Any,
    v: Any,
    o: Any,
    T_q: int | Sequence[int],
    S_kv: int,
    d_head: int,
    C: int,
    *,
    tl: Any,
    h_q: int = 1,
    h_kv: int = 1,
    q_start: int | Sequence[int] | None = None,
    T_total: int | None = None,
    causal: bool = False,
    tile: int | None = None,
    lse: Any = None,
    direction: str = "next",
    scoped: bool = True,
    sm_scale: float | None = None,
    q_row: int | None = None,
    kv_row: int | None = None,
    lse_row: int | None = None,
) -> None:
    """One cube's part of ``softmax(Q K^T * scale) V`` for its own query tokens and everybody's keys.

    Parameters
    ----------
    q, o
        ``(T_q, h_q * d_head)`` on each cube: its own query rows, and where their output goes.
    k, v
        ``(S_kv, h_kv * d_head)``, rows split over C cubes.
    T_q
        Query tokens of this cube; a sequence gives each cube its own number (0 is allowed: the blocks still pass).
    S_kv, d_head, C
        Keys, size of a head, cubes on the ring.
    tl
        The language.
    h_q, h_kv
        Query heads and KV heads; the heads of a group are packed as rows.
    q_start
        Index of this cube's first token among all query tokens, ``cube * T_q`` by default; a sequence gives each its
        own.
    T_total
        Query tokens in all, ``C * T_q`` by default; causal is bottom right of that.
    causal
        Token i sees keys ``j <= i + S_kv - T_total``.
    tile
        Fold a block in pieces of so many keys; by default whole.
    lse
        ``(T_q, h_q)`` f32 on each cube: gets m + ln l.
    direction
        Which way the blocks travel, ``"next"`` or ``"prev"``.
    scoped
        False gives nothing back.
    sm_scale
        Factor of the scores, ``1 / sqrt(d_head)`` by default.
    q_row, kv_row, lse_row
        Elements from one token to the next in q and o, in k and v, and in lse, where a tensor holds more heads than
        these.

    Raises
    ------
    ShapeError
        If h_q is no multiple of h_kv, or C is not the number of cubes of the launch.

    Notes
    -----
    Both messages of a step are sent before one is received, so a direction needs two slots (``pe.ipc.slots``).
    Each step of the ring costs ``max(C + 4 D, X)``: a fold C, two sends and two receives of dispatch D, or the
    transfer X of the next block, whichever is longer (`topology/costs.py`, `ring_ps`).
    """
    cube = tl.program_id(1)
    check_word("direction", direction, "next", "prev")
    if tl.num_programs(1) != C:
        raise ShapeError(f"the kernel was told C={C} cubes, and runs on {tl.num_programs(1)}.")
    tokens, first_token, total = _own_tokens(cube, C, T_q, q_start, T_total)
    scale = 1.0 / math.sqrt(d_head) if sm_scale is None else sm_scale
    group = group_size(h_q, h_kv)
    rows = group * tokens
    q_row = h_q * d_head if q_row is None else q_row
    by_head, strides = (h_kv, group, tokens, d_head), (group * d_head, d_head, q_row, 1)
    to_ring, from_ring, sign = (
        ("ring_next", "ring_prev", -1) if direction == "next" else ("ring_prev", "ring_next", 1)
    )
    blocks = split((0, S_kv), C)

    # persistent arena: queries, state, and two blocks of K and V, the one in hand and the one that comes
    if rows:
        Q = tl.load(q, by_head, strides=strides, name="Q").reshape(h_kv, rows, d_head)
        state = init_state(tl, h_kv, rows, d_head)
    longest = blocks[0][1] - blocks[0][0]
    hold = [_buffers(tl, (longest, h_kv, d_head), k.dtype, "block")]
    if C > 1:
        hold.append(_buffers(tl, (longest, h_kv, d_head), k.dtype, "next block"))

    n = blocks[cube][1] - blocks[cube][0]
    if n:
        kv_strides = (h_kv * d_head if kv_row is None else kv_row, d_head, 1)
        to_k, to_v = hold[0]
        tl.wait(
            tl.load_async(k, (n, h_kv, d_head), strides=kv_strides, out=to_k[:n]),
            tl.load_async(v, (n, h_kv, d_head), strides=kv_strides, out=to_v[:n]),
        )
    own = (first_token, first_token + tokens)
    fresh = True
    for step in range(C):
        start, stop = blocks[(cube + sign * step) % C]
        n = stop - start
        K, V = (buffer[:n] for buffer in hold[step % 2])
        if n and step + 1 < C:
            tl.send(to_ring, K)
            tl.send(to_ring, V)
        for i, (first, last) in enumerate(_pieces(n, tile) if rows else []):
            keys = (start + first, start + last)
            # token i of this cube sees key j of the piece if j <= i + shift
            shift = first_token + S_kv - total - keys[0]
            if causal and shift + tokens <= 0:
                tl.skip(own, keys)
                continue
            label = f"block {step}" if tile is None else f"block {step}, tile {i}"
            with tl.scratch_scope(label, kind="tile", rows=own, keys=keys, rewind=scoped):
                masked = causal and shift < last - first - 1
                fold_tile(
                    tl,
                    state,
                    Q,
                    K[first:last].permute(1, 2, 0),
                    V[first:last].permute(1, 0, 2),
                    scale=scale,
                    first=fresh,
                    mask=causal_mask(tl, tokens, last - first, shift) if masked else None,
                )
            fresh = False
        coming = blocks[(cube + sign * (step + 1)) % C]
        n = coming[1] - coming[0]
        if n and step + 1 < C:
            to_k, to_v = hold[(step + 1) % 2]
            tl.recv(from_ring, (n, h_kv, d_head), k.dtype, out=to_k[:n])
            tl.recv(from_ring, (n, h_kv, d_head), v.dtype, out=to_v[:n])
    if not rows:
        return
    if fresh:
        clear_state(tl, state)
    with tl.scratch_scope("finish", kind="finish", rewind=scoped):
        out, log_sum = finish(tl, state, lse=lse is not None)
        tl.store(o, out.reshape(by_head), strides=strides)
        if lse is not None:
            lse_row = h_q if lse_row is None else lse_row
            tl.store(lse, log_sum.reshape(h_kv, group, tokens), strides=(group, 1, lse_row))


def _buffers(tl: Any, shape: tuple[int, int, int], dtype: Any, which: str) -> tuple[Any, Any]:
    """Room for a block of K and of V."""
    K = tl.empty(shape, dtype, name=f"K {which}")
    V = tl.empty(shape, dtype, name=f"V {which}")
    return K, V


def _pieces(n: int, tile: int | None) -> list[tuple[int, int]]:
    """A block of n keys cut into tiles, or whole."""
    step = tile or max(n, 1)
    return [(at, min(at + step, n)) for at in range(0, n, step)]


def _own_tokens(
    cube: int, C: int, T_q: int | Sequence[int], q_start: int | Sequence[int] | None, T_total: int | None
) -> tuple[int, int, int]:
    """How many query tokens are this cube's, the index of its first, and how many there are in all."""
    if isinstance(T_q, int):
        tokens, before, all_tokens = T_q, cube * T_q, C * T_q
    else:
        tokens, before, all_tokens = T_q[cube], sum(T_q[:cube]), sum(T_q)
    if q_start is not None:
        before = q_start if isinstance(q_start, int) else q_start[cube]
    return tokens, before, all_tokens if T_total is None else T_total
