"""The step that every attention kernel of the package shares: state, fold, merge, finish (ADR-0063).

The state is (m, l, O): the running maximum of the scaled scores, the sum of ``exp(s - m)``, and the sum of that times
V, all f32, one row for each query row of each KV head. It lives outside the tile's scope. The first tile writes it in
place by ``out=``; every later fold, and every merge of two states, works inside a `scratch_scope` and ends with three
`copy` operations, for m, l and O. Nothing else survives the scope.

Shapes: Q ``(h_kv, R, d)``, K ``(h_kv, d, t)``, V ``(h_kv, t, d)``, scores ``(h_kv, R, t)``, m and l ``(h_kv, R, 1)``,
O ``(h_kv, R, d)``, with R = G * T_q rows, the T_q tokens of one query head after those of another.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kernbench_nb.triton_emu.steady import steady

__all__ = [
    "State",
    "causal_mask",
    "clear_state",
    "finish",
    "fold_tile",
    "init_state",
    "merge_state",
    "receive_state",
    "safe_max",
    "send_state",
]

NEG_INF = float("-inf")
LOWEST = -3.4028234663852886e38
"""The lowest finite f32. Maxima start from it, so that a row whose scores are all -inf (masked, or overflown) has a
finite m: then ``-inf - m`` is -inf, its weights are 0, and nothing ever subtracts infinities."""


class State(NamedTuple):
    """Running maximum, sum and output, as handles."""

    m: Any
    l: Any
    O: Any


def init_state(tl: Any, h_kv: int, rows: int, d: int) -> State:
    """Scratch for a state, not written yet: the first `fold_tile` (or `clear_state`) does that."""
    m = tl.empty((h_kv, rows, 1), "f32", name="m")
    l = tl.empty((h_kv, rows, 1), "f32", name="l")
    O = tl.empty((h_kv, rows, d), "f32", name="O")
    return State(m, l, O)


def clear_state(tl: Any, state: State) -> None:
    """The state of no keys: m = -inf, l = 0, O = 0."""
    tl.full(state.m.shape, NEG_INF, "f32", out=state.m)
    tl.zeros(state.l.shape, "f32", out=state.l)
    tl.zeros(state.O.shape, "f32", out=state.O)


def causal_mask(tl: Any, tokens: int, t: int, shift: int) -> Any:
    """A bool tile ``(tokens, t)``: token i sees key j of the tile if ``j <= i + shift``."""
    key = tl.arange(0, t, name="key")
    token = tl.arange(0, tokens, name="token")
    last = tl.add(token, shift, name="last key")
    return tl.le(key[None, :], last[:, None], name="causal")


@steady
def fold_tile(
    tl: Any, state: State, q: Any, k: Any, v: Any, *, scale: float, first: bool, mask: Any = None
) -> None:
    """Fold one tile of keys and values into the state, inside the scope that the caller opened.

    Parameters
    ----------
    tl
        The language.
    state
        The state; written in place if `first`, else replaced by three copies at the end.
    q, k, v
        Tiles as in the module's text.
    scale
        Factor of the scores.
    first
        Whether the state holds nothing yet.
    mask
        A bool tile ``(T_q, t)``, True where a token may see a key; None if all may.
    """
    p_type = "f16" if q.dtype.itemsize == 1 else q.dtype
    qk = tl.dot(q, k)
    s = tl.mul(qk, scale, name="s")
    if mask is not None:
        s, v = _select(tl, s, v, mask)
    if first:
        m_new = tl.max(s, -1, True, initial=LOWEST, out=state.m)
        centred = tl.sub(s, m_new, name="s-m")
        e = tl.exp(centred, name="exp")
        tl.sum(e, -1, True, out=state.l)
        p = tl.cast(e, p_type, name="p")
        tl.dot(p, v, out=state.O)
        return
    m, l, O = state
    tile_max = tl.max(s, -1, True, initial=LOWEST, name="max")
    m_new = tl.maximum(m, tile_max, name="m_new")
    centred = tl.sub(s, m_new, name="s-m")
    e = tl.exp(centred, name="exp")
    drop = tl.sub(m, m_new, name="m-m_new")
    c = tl.exp(drop, name="c")
    l_kept = tl.mul(l, c, name="l*c")
    tile_sum = tl.sum(e, -1, True, name="sum")
    l_new = tl.add(l_kept, tile_sum, name="l_new")
    O_kept = tl.mul(O, c, name="O*c")
    p = tl.cast(e, p_type, name="p")
    O_tile = tl.dot(p, v, name="p*V")
    O_new = tl.add(O_kept, O_tile, name="O_new")
    tl.copy_to(m, m_new)
    tl.copy_to(l, l_new)
    tl.copy_to(O, O_new)


def _select(tl: Any, s: Any, v: Any, mask: Any) -> tuple[Any, Any]:
    """Scores with -inf where a row must not look, and V with zeros in the rows that no query row sees.

    Selected, not added: whatever stands in a slot that is not used, NaN included, is gone.
    """
    h_kv, rows, t = s.shape
    tokens = mask.shape[0]
    by_head = s.reshape(h_kv, rows // tokens, tokens, t)
    chosen = tl.where(mask, by_head, NEG_INF, name="s masked")
    seen = tl.max(mask, 0, name="seen")
    v_seen = tl.where(seen[:, None], v, 0.0, name="V seen")
    return chosen.reshape(h_kv, rows, t), v_seen


def safe_max(tl: Any, m: Any) -> Any:
    """m, or 0 for a row that has seen no key, so that -inf minus it is not NaN: `clear_state` has such rows."""
    some = tl.gt(m, NEG_INF, name="some key")
    return tl.where(some, m, 0.0, name="m safe")


def merge_state(tl: Any, state: State, other: State) -> None:
    """Merge another state into this one, inside the scope that the caller opened. Commutes bit for bit."""
    m, l, O = state
    m_in, l_in, O_in = other
    m_new = tl.maximum(m, m_in, name="m_new")
    m_safe = safe_max(tl, m_new)
    drop = tl.sub(m, m_safe, name="m-m_new")
    a = tl.exp(drop, name="a")
    drop_in = tl.sub(m_in, m_safe, name="m_in-m_new")
    b = tl.exp(drop_in, name="b")
    l_kept = tl.mul(l, a, name="l*a")
    l_got = tl.mul(l_in, b, name="l_in*b")
    l_new = tl.add(l_kept, l_got, name="l_new")
    O_kept = tl.mul(O, a, name="O*a")
    O_got = tl.mul(O_in, b, name="O_in*b")
    O_new = tl.add(O_kept, O_got, name="O_new")
    tl.copy_to(m, m_new)
    tl.copy_to(l, l_new)
    tl.copy_to(O, O_new)


def send_state(tl: Any, direction: str | int, state: State) -> None:
    """Send m, l and O, in this order: the two small ones hide behind each other's dispatch."""
    tl.send(direction, state.m)
    tl.send(direction, state.l)
    tl.send(direction, state.O)


def receive_state(tl: Any, direction: str | int, like: State) -> State:
    """Receive m, l and O into new scratch."""
    m = tl.recv(direction, like.m.shape, "f32", name="m_in")
    l = tl.recv(direction, like.l.shape, "f32", name="l_in")
    O = tl.recv(direction, like.O.shape, "f32", name="O_in")
    return State(m, l, O)


def finish(tl: Any, state: State, *, lse: bool) -> tuple[Any, Any]:
    """O / l of each row, and m + ln l if asked; a row that saw no key gives O = 0 and lse = -inf.

    Parameters
    ----------
    tl
        The language.
    state
        The final state.
    lse
        Whether m + ln l is wanted.

    Returns
    -------
    out, log_sum
        Tiles ``(h_kv, R, d)``, and ``(h_kv, R, 1)`` or None.
    """
    some = tl.gt(state.l, 0.0, name="l > 0")
    l_safe = tl.where(some, state.l, 1.0, name="l safe")
    out = tl.div(state.O, l_safe, name="O / l")
    if not lse:
        return out, None
    # where the divisor was, so that asking for lse takes no scratch; the logarithm of l = 0 is the -inf that is due
    tl.log(state.l, out=l_safe)
    return out, tl.add(state.m, l_safe, out=l_safe)
