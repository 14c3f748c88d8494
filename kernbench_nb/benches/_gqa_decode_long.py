"""Flash decode over many PEs: each sweeps its share of the keys, then the states merge towards PE 0."""

from __future__ import annotations

import math
from typing import Any

from kernbench_nb.benches._checks import check_word, group_size
from kernbench_nb.benches._placed import own_rows
from kernbench_nb.benches._step import (
    State,
    causal_mask,
    clear_state,
    finish,
    fold_tile,
    init_state,
    merge_state,
    receive_state,
    send_state,
)
from kernbench_nb.errors import ShapeError

__all__ = ["gqa_decode_long_kernel", "merge_chain"]


def gqa_decode_long_kernel(
    q: Any,
    k: Any,
    v: Any,
    o: Any,
    T_q: int,
    S_kv: int,
    h_q: int,
    h_kv: int,
    d_head: int,
    C: int,
    P: int,
    *,
    tl: Any,
    tile: int = 64,
    scoped: bool = True,
    merge: str = "chain",
    prefetch: bool = False,
    causal: bool = False,
    sm_scale: float | None = None,
    lse: Any = None,
    kv_len: int | None = None,
) -> None:
    """One PE's part of ``softmax(Q K^T * scale) V`` for a few query tokens and many keys.

    Parameters
    ----------
    q, o
        ``(T_q, h_q * d_head)``, whole on every PE; only the root writes `o`.
    k, v
        ``(S_kv, h_kv * d_head)``, rows split over C cubes and P PEs of each.
    T_q, S_kv, h_q, h_kv, d_head
        Query tokens, keys, query heads, KV heads, size of a head. Query head h reads KV head ``h // (h_q / h_kv)``.
    C, P
        Cubes (of all SIPs) and PEs of each.
    tl
        The language.
    tile
        Keys handled at once.
    scoped
        False gives nothing back: the kernel as it was before ADR-0063.
    merge
        ``"chain"``: PE to PE, then cube to cube along rows to column 0, then along the column. ``"tree"``: by halves.
    prefetch
        Load the next tile while this one is folded; two K, V buffers live in the persistent arena.
    causal
        Token i sees keys ``j <= i + kv_len - T_q`` (bottom right).
    sm_scale
        Factor of the scores, ``1 / sqrt(d_head)`` by default.
    lse
        ``(T_q, h_q)`` f32: gets m + ln l, by one more write.
    kv_len
        How many of the keys are valid, S_kv by default.

    Raises
    ------
    ShapeError
        If h_q is no multiple of h_kv, or C and P are not those of the launch.
    """
    group = group_size(h_q, h_kv)
    check_word("merge", merge, "chain", "tree")
    scale = 1.0 / math.sqrt(d_head) if sm_scale is None else sm_scale
    valid = S_kv if kv_len is None else kv_len
    rows = group * T_q
    start, stop = _own_keys(tl, S_kv, C, P)
    keys = max(0, min(stop, valid) - start)

    # persistent arena: what outlives every tile
    by_head, strides = (h_kv, group, T_q, d_head), (group * d_head, d_head, h_q * d_head, 1)
    Q = tl.load(q, by_head, strides=strides, name="Q").reshape(h_kv, rows, d_head)
    state = init_state(tl, h_kv, rows, d_head)
    width = h_kv * d_head
    tiles = [(at, min(at + tile, keys)) for at in range(0, keys, tile)]
    buffers: Any = _buffers(tl, (min(tile, keys), h_kv, d_head), k.dtype) if prefetch and keys else None

    def prefetched(i: int) -> tuple[Any, Any]:
        first, last = tiles[i]
        n = last - first
        to_k, to_v = buffers[i % 2]
        k_future = tl.load_async(k + first * width, (n, h_kv, d_head), out=to_k[:n])
        v_future = tl.load_async(v + first * width, (n, h_kv, d_head), out=to_v[:n])
        return k_future, v_future

    coming = prefetched(0) if buffers is not None else None
    tokens = (0, T_q)
    for i, (first, last) in enumerate(tiles):
        keys_here = (start + first, start + last)
        if coming is not None:
            K, V = tl.wait(*coming)
            if i + 1 < len(tiles):
                coming = prefetched(i + 1)
        with tl.scratch_scope(f"tile {i}", kind="tile", rows=tokens, keys=keys_here, rewind=scoped):
            if coming is None:
                shape = (last - first, h_kv, d_head)
                from_k, from_v = k + first * width, v + first * width
                k_future = tl.load_async(from_k, shape, name="K")
                v_future = tl.load_async(from_v, shape, name="V")
                K, V = tl.wait(k_future, v_future)
            # token i sees key j of this tile if j <= i + shift
            shift = valid - T_q - keys_here[0]
            masked = causal and shift < last - first - 1
            fold_tile(
                tl,
                state,
                Q,
                K.permute(1, 2, 0),
                V.permute(1, 0, 2),
                scale=scale,
                first=i == 0,
                mask=causal_mask(tl, T_q, last - first, shift) if masked else None,
            )
    if not tiles:
        clear_state(tl, state)

    root = (_merge_tree if merge == "tree" else merge_chain)(tl, state, scoped)
    if root:
        with tl.scratch_scope("finish", kind="finish", rewind=scoped):
            out, log_sum = finish(tl, state, lse=lse is not None)
            tl.store(o, out.reshape(by_head), strides=strides)
            if lse is not None:
                tl.store(lse, log_sum.reshape(h_kv, group, T_q), strides=(group, 1, h_q))


def _own_keys(tl: Any, S_kv: int, C: int, P: int) -> tuple[int, int]:
    """Rows of K and V that are this PE's, in a launch that is the one the kernel was told of."""
    pes, cubes, sips = (tl.num_programs(axis) for axis in range(3))
    if (sips * cubes, pes) != (C, P):
        raise ShapeError(
            f"the kernel was told C={C} cubes of P={P} PEs, and runs on {sips * cubes} of {pes}: the keys would be "
            "split otherwise than its tensors are."
        )
    return own_rows(tl, S_kv)


def _buffers(tl: Any, shape: tuple[int, int, int], dtype: Any) -> list[tuple[Any, Any]]:
    """Two pairs of K, V buffers: one is filled while the other is read."""
    k_even = tl.empty(shape, dtype, name="K even")
    v_even = tl.empty(shape, dtype, name="V even")
    k_odd = tl.empty(shape, dtype, name="K odd")
    v_odd = tl.empty(shape, dtype, name="V odd")
    return [(k_even, v_even), (k_odd, v_odd)]


def _merge_from(tl: Any, direction: str | int, state: State, scoped: bool, whom: str) -> None:
    with tl.scratch_scope(f"merge {whom}", kind="merge", rewind=scoped):
        merge_state(tl, state, receive_state(tl, direction, state))


def merge_chain(tl: Any, state: State, scoped: bool) -> bool:
    """Merge along the PE chain, then over cubes west and north, then over SIPs; whether this PE is the root."""
    pe, pes = tl.program_id(0), tl.num_programs(0)
    if pe + 1 < pes:
        _merge_from(tl, "pe_next", state, scoped, f"PE {pe + 1}")
    if pe > 0:
        send_state(tl, "pe_prev", state)
        return False
    cube, cubes, width = tl.program_id(1), tl.num_programs(1), tl.cube_mesh[0]
    if (cube + 1) % width and cube + 1 < cubes:
        _merge_from(tl, "E", state, scoped, f"cube {cube + 1}")
    if cube % width:
        send_state(tl, "W", state)
        return False
    if cube + width < cubes:
        _merge_from(tl, "S", state, scoped, f"cube {cube + width}")
    if cube:
        send_state(tl, "N", state)
        return False
    return _merge_sips(tl, state, scoped)


def _merge_tree(tl: Any, state: State, scoped: bool) -> bool:
    """Merge by halves: over the PEs of a cube, then the cubes, then the SIPs; whether this PE is the root."""
    pe, pes = tl.program_id(0), tl.num_programs(0)
    cube, cubes = tl.program_id(1), tl.num_programs(1)
    if not _halve(tl, state, scoped, pe, pes, "PE", lambda other: tl.pe_index(other)):
        return False
    if not _halve(tl, state, scoped, cube, cubes, "cube", lambda other: tl.pe_index(0, other)):
        return False
    return _merge_sips(tl, state, scoped)


def _halve(tl: Any, state: State, scoped: bool, me: int, count: int, what: str, peer: Any) -> bool:
    step = 1
    while step < count:
        if me % (2 * step):
            send_state(tl, peer(me - step), state)
            return False
        if me + step < count:
            _merge_from(tl, peer(me + step), state, scoped, f"{what} {me + step}")
        step *= 2
    return True


def _merge_sips(tl: Any, state: State, scoped: bool) -> bool:
    sip, sips = tl.program_id(2), tl.num_programs(2)
    if sip + 1 < sips:
        _merge_from(tl, tl.pe_index(0, 0, sip + 1), state, scoped, f"SIP {sip + 1}")
    if sip:
        send_state(tl, tl.pe_index(0, 0, sip - 1), state)
        return False
    return True
