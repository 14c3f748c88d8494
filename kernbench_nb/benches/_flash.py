"""Flash attention on one PE, in both loop orders."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from kernbench_nb.benches._checks import check_word, group_size
from kernbench_nb.benches._step import State, causal_mask, clear_state, finish, fold_tile, init_state

__all__ = ["flash_attention_kernel"]

Span = tuple[int, int]
"""First and one past the last, of rows or of keys."""


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

    Notes
    -----
    Elements that cross HBM, for a head with T_q = S_kv = N in T_r query blocks and T_c tiles of keys:
    ``(2 + 2 T_r) N d`` for ``"fa2"``, ``(2 + 3 T_c) N d + 4 N T_c`` for ``"fa1"``.
    """
    group = group_size(h_q, h_kv)
    check_word("order", order, "fa2", "fa1")
    valid = S_kv if kv_len is None else kv_len
    for head in range(h_q):
        sweep = _Head(
            tl=tl,
            name=f"head {head} " if h_q > 1 else "",
            q=q + head * d_head,
            k=k + head // group * d_head,
            v=v + head // group * d_head,
            o=o + head * d_head,
            lse=None if lse is None else lse + head,
            mask=mask,
            tokens=T_q,
            keys=valid,
            d=d_head,
            steps=(h_q * d_head, h_kv * d_head, h_q, S_kv),
            blocks=_spans(T_q, tile_q),
            tiles=_spans(valid, tile_kv),
            scale=1.0 / math.sqrt(d_head) if sm_scale is None else sm_scale,
            causal=causal,
            scoped=scoped,
        )
        if order == "fa2":
            _queries_outside(sweep)
        else:
            _keys_outside(sweep, m + head * T_q, l + head * T_q)


def _queries_outside(head: _Head) -> None:
    """FlashAttention-2: each query block walks once over all keys; its state never leaves scratch."""
    tl, step = head.tl, head.steps[1]
    for i, rows in enumerate(head.blocks):
        with head.scope(f"{head.name}block {i}", "block", rows=rows):
            Q = tl.wait(head.load_q(rows))
            state = init_state(tl, 1, rows[1] - rows[0], head.d)
            fresh = True
            for j, keys in enumerate(head.tiles):
                if not head.sees(rows, keys):
                    tl.skip(rows, keys)
                    continue
                with head.scope(f"tile {i},{j}", "tile", rows=rows, keys=keys):
                    # written out: what is called in between is felt in every tile
                    at, shape = keys[0] * step, (1, keys[1] - keys[0], head.d)
                    K, V = tl.wait(
                        tl.load_async(head.k + at, shape, strides=(0, step, 1), name="K"),
                        tl.load_async(head.v + at, shape, strides=(0, step, 1), name="V"),
                    )
                    head.fold(state, Q, K, V, rows, keys, first=fresh)
                fresh = False
            if fresh:
                clear_state(tl, state)
            head.finish(state, rows)


def _keys_outside(head: _Head, m: Any, l: Any) -> None:
    """FlashAttention, algorithm 1: each KV tile walks over all queries, whose state comes from HBM and goes back.

    O stays unnormalised in HBM until the last pass that a block takes part in.
    """
    tl = head.tl
    last = {
        rows: max((keys for keys in head.tiles if head.sees(rows, keys)), default=None)
        for rows in head.blocks
    }
    for j, keys in enumerate(head.tiles):
        with head.scope(f"{head.name}keys {j}", "block", keys=keys):
            K, V = tl.wait(head.load_k(keys), head.load_v(keys))
            for i, rows in enumerate(head.blocks):
                if not head.sees(rows, keys):
                    tl.skip(rows, keys)
                    continue
                n = rows[1] - rows[0]
                with head.scope(f"tile {i},{j}", "tile", rows=rows, keys=keys):
                    Q, *running = tl.wait(
                        head.load_q(rows),
                        tl.load_async(m + rows[0], (1, n, 1), name="m"),
                        tl.load_async(l + rows[0], (1, n, 1), name="l"),
                        head.load_o(rows),
                    )
                    state = State(*running)
                    head.fold(state, Q, K, V, rows, keys, first=False)
                    tl.store(m + rows[0], state.m)
                    tl.store(l + rows[0], state.l)
                    if keys == last[rows]:
                        head.finish(state, rows)
                    else:
                        head.store_o(rows, state.O)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Head:
    """One query head's sweep: where its tensors start, how they are cut, and what both loop orders do with a tile.

    Attributes
    ----------
    tl, name
        The language, and what labels call the head (nothing, if it is the only one).
    q, k, v, o, lse, mask
        Pointers to its first element, or None.
    tokens, keys, d
        Query tokens, valid keys, size of a head.
    steps
        Elements from one token to the next in q and o, in k and v, in lse, and in the mask.
    blocks, tiles
        Query blocks and KV tiles.
    scale, causal, scoped
        As the kernel was given them.
    """

    tl: Any
    name: str
    q: Any
    k: Any
    v: Any
    o: Any
    lse: Any
    mask: Any
    tokens: int
    keys: int
    d: int
    steps: tuple[int, int, int, int]
    blocks: list[Span]
    tiles: list[Span]
    scale: float
    causal: bool
    scoped: bool

    def scope(self, label: str, kind: str, *, rows: Span | None = None, keys: Span | None = None) -> Any:
        return self.tl.scratch_scope(label, kind=kind, rows=rows, keys=keys, rewind=self.scoped)

    def sees(self, rows: Span, keys: Span) -> bool:
        """Whether some row of a block may look at some key of a tile."""
        return not self.causal or keys[0] <= rows[1] - 1 + self.keys - self.tokens

    def load_q(self, rows: Span) -> Any:
        return self._load(self.q, rows, self.steps[0], "Q")

    def load_k(self, keys: Span) -> Any:
        return self._load(self.k, keys, self.steps[1], "K")

    def load_v(self, keys: Span) -> Any:
        return self._load(self.v, keys, self.steps[1], "V")

    def load_o(self, rows: Span) -> Any:
        return self._load(self.o, rows, self.steps[0], "O")

    def _load(self, pointer: Any, span: Span, step: int, name: str) -> Any:
        """Issue the load of a tile ``(1, n, d)``."""
        shape = (1, span[1] - span[0], self.d)
        return self.tl.load_async(pointer + span[0] * step, shape, strides=(0, step, 1), name=name)

    def store_o(self, rows: Span, out: Any) -> None:
        step = self.steps[0]
        self.tl.store(self.o + rows[0] * step, out, strides=(0, step, 1))

    def fold(self, state: State, Q: Any, K: Any, V: Any, rows: Span, keys: Span, *, first: bool) -> None:
        mask = self._mask(rows, keys)
        fold_tile(self.tl, state, Q, K.permute(0, 2, 1), V, scale=self.scale, first=first, mask=mask)

    def _mask(self, rows: Span, keys: Span) -> Any:
        """Who may look at whom in a tile, as a bool tile; None where all may."""
        tl, n, t = self.tl, rows[1] - rows[0], keys[1] - keys[0]
        seen = None
        if self.mask is not None:
            step = self.steps[3]
            seen = tl.load(self.mask + rows[0] * step + keys[0], (n, t), strides=(step, 1), name="mask")
        shift = rows[0] + self.keys - self.tokens - keys[0]
        if self.causal and shift < t - 1:
            causal = causal_mask(tl, n, t, shift)
            seen = causal if seen is None else tl.and_(seen, causal, name="seen")
        return seen

    def finish(self, state: State, rows: Span) -> None:
        with self.scope("finish", "finish"):
            out, log_sum = finish(self.tl, state, lse=self.lse is not None)
            self.store_o(rows, out)
            if self.lse is not None:
                step = self.steps[2]
                self.tl.store(self.lse + rows[0] * step, log_sum.reshape(rows[1] - rows[0]), strides=(step,))


def _spans(total: int, length: int) -> list[Span]:
    return [(at, min(at + length, total)) for at in range(0, total, length)]
