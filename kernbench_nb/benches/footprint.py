"""How many bytes of scratch the attention kernels use: closed forms in whole numbers.

The fold (`fold_tile`) is written one `tl` operation a line, and each line allocates its result, so the
scratch that a tile takes can be counted by hand. Source: ADR-0063 and the shared step's list of operations.
Signs: t keys in a tile, R = h_q * t_q rows of the state, d the size of one head; every block is rounded up to
16 bytes.

==============  ==================  ========================================================================
part            arena               blocks
==============  ==================  ========================================================================
`persistent`    persistent          Q | O in f32 | m, l; with prefetch two K, V buffers more
`first`         first tile's scope  K, V | qk, s, s-m, exp: R x t in f32 | p
`scoped`        later tile's scope  the same | O*c, p*V, O_new | max, m_new, m-m_new, c, l*c, sum, l_new
`merge`         scope of a merge    the other PE's m, l, O | the new ones and what leads there
`finish`        scope at the end    l > 0 | a safe l | O / l
==============  ==================  ========================================================================

Nowhere does the number of keys appear: that is flash attention's O(1) working set. Without scopes nothing is
given back, the parts add up, and the number of tiles that fit is `Footprint.capacity`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

SCRATCH_BYTES = 1 << 20
"""Scratch of one PE on the default machine: 1 MiB."""

_F32 = 4


def up16(nbytes: int) -> int:
    """Round a request up to the allocator's 16 bytes, as ADR-0063 writes it: ``(nbytes + 15) & ~15``."""
    return (nbytes + 15) & ~15


@dataclass(frozen=True, slots=True)
class Footprint:
    """Scratch of one PE that sweeps keys in tiles.

    Attributes
    ----------
    h_q, h_kv
        Query and KV heads on the PE; ``h_q % h_kv == 0``.
    d
        Size of one head.
    t_q
        Query tokens on the PE; 1 in decode.
    itemsize
        Bytes of one element of Q, K and V: 2 for f16 and bf16, 4 for f32, 1 for fp8 (P is then f16).
    prefetch
        Two K, V buffers live in the persistent arena, and the tile scopes hold no K and V of their own.

    Examples
    --------
    >>> f = Footprint(h_q=9, h_kv=3, d=64)
    >>> f.peak(16), f.peak(32)
    (25680, 40560)
    >>> f.capacity(16)
    47
    """

    h_q: int
    h_kv: int
    d: int
    t_q: int = 1
    itemsize: int = 2
    prefetch: bool = False

    def __post_init__(self) -> None:
        for name in ("h_q", "h_kv", "d", "t_q"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        if self.h_q % self.h_kv:
            raise ValueError(
                f"query heads must be a multiple of KV heads, got h_q={self.h_q} and h_kv={self.h_kv}"
            )
        if self.itemsize not in (1, 2, 4):
            raise ValueError(f"itemsize must be 1 (fp8), 2 (f16, bf16) or 4 (f32), got {self.itemsize}")

    @property
    def rows(self) -> int:
        """R, the rows of the state: every query head of every query token."""
        return self.h_q * self.t_q

    # -- blocks, in bytes --

    def kv_bytes(self, t: int) -> int:
        """K and V of t keys."""
        return 2 * up16(self.itemsize * t * self.h_kv * self.d)

    def score_bytes(self, t: int) -> int:
        """Everything of the scores' shape, R x t: qk, s, s - m and exp in f32, and p in the input dtype.

        With f32 inputs p is exp itself: a cast to the dtype that a tile has makes nothing.
        """
        p_itemsize = {1: 2, 2: 2, 4: 0}[self.itemsize]
        return 4 * up16(_F32 * self.rows * t) + up16(p_itemsize * self.rows * t)

    def mask_bytes(self, t: int) -> int:
        """What a causal mask adds to a fold of t keys.

        The mask of t_q x t bools, and key, token and last key that it is made of; scores with -inf where a row must not
        look; which keys some row sees, and V with zeros in the others.
        """
        mask = up16(_F32 * t) + 2 * up16(_F32 * self.t_q) + up16(self.t_q * t)
        selected = up16(_F32 * self.rows * t) + up16(t) + self.kv_bytes(t) // 2
        return mask + selected

    @property
    def row_bytes(self) -> int:
        """One f32 a row: m, l, c, ..."""
        return up16(_F32 * self.rows)

    @property
    def out_bytes(self) -> int:
        """One f32 block of O's shape, R x d."""
        return up16(_F32 * self.rows * self.d)

    # -- parts --

    def persistent(self, t: int) -> int:
        """The persistent arena: Q, O, m and l; with prefetch also two K, V buffers of t keys each."""
        return self._query_and_state + (2 * self.kv_bytes(t) if self.prefetch else 0)

    def first(self, t: int) -> int:
        """The scope of the first tile, which writes m, l and O in place by ``out=``."""
        return self._loaded(t) + self._without_kv(t, later=False)

    def scoped(self, t: int) -> int:
        """The scope of a later tile of t keys."""
        return self._loaded(t) + self._without_kv(t, later=True)

    @property
    def merge(self) -> int:
        """The scope of a merge with a state that another PE sent.

        Received: m_in, l_in, O_in. Then, one f32 a row: m_new, m - m_new, a, m_in - m_new, b, l * a,
        l_in * b, l_new. Then O * a, O_in * b, O_new. So that two empty states give no NaN, the maximum that
        is subtracted is ``where(m_new > -inf, m_new, 0)``: one bool and one f32 a row more.
        """
        received = 2 * self.row_bytes + self.out_bytes
        return received + self._guard + 8 * self.row_bytes + 3 * self.out_bytes

    @property
    def finish(self) -> int:
        """The scope at the end: l > 0, a safe l, O / l."""
        return up16(self.rows) + self.row_bytes + self.out_bytes

    # -- whole kernels --

    def peak(self, t: int, *, tiles: int = 2, tail: int = 0, merges: int = 0, root: bool = True) -> int:
        """Peak scratch of a scoped sweep.

        Parameters
        ----------
        t : int
            Keys in a full tile.
        tiles : int
            Full tiles that the PE sweeps; from two on the peak no longer changes.
        tail : int
            Keys of a ragged last tile, 0 if there is none.
        merges : int
            States that it merges in.
        root : bool
            Whether it finishes (divides by l); only the root PE does.
        """
        scopes = self._sweep(t, min(tiles, 2), tail)
        if merges:
            scopes.append(self.merge)
        if root:
            scopes.append(self.finish)
        return self.persistent(t) + max(scopes, default=0)

    def unscoped(self, t: int, tiles: int, *, tail: int = 0, merges: int = 0, root: bool = True) -> int:
        """Scratch of the same sweep without scopes, where nothing is given back: the parts added up."""
        rest = merges * self.merge + (self.finish if root else 0)
        return self.persistent(t) + sum(self._sweep(t, tiles, tail)) + rest

    def _sweep(self, t: int, tiles: int, tail: int) -> list[int]:
        """Bytes of each tile's scope, in order."""
        lengths = [t] * tiles + ([tail] if tail else [])
        return [self.scoped(n) if i else self.first(n) for i, n in enumerate(lengths)]

    def capacity(self, t: int, *, limit: int = SCRATCH_BYTES, merges: int = 0, root: bool = True) -> int:
        """How many tiles of t keys an un-scoped sweep can take before it overflows.

        ``1 + floor((limit - peak of one tile) / bytes of a later tile)``; 0 if not even one fits.
        """
        room = limit - self.unscoped(t, 1, merges=merges, root=root)
        return 1 + room // self.scoped(t) if room >= 0 else 0

    def largest_tile(self, limit: int = SCRATCH_BYTES) -> int:
        """The most keys a tile may have in a scoped sweep of two tiles or more; 0 if none fits."""
        return _largest(lambda t: self.peak(t) <= limit)

    # -- ring prefill --

    def ring_peak(self, block: int, cubes: int, *, tile: int | None = None, causal: bool = False) -> int:
        """Peak scratch of one cube in a scoped ring prefill.

        Parameters
        ----------
        block : int
            Keys of one block, at least 1; two K, V buffers of this size live in the persistent arena (one, if there
            is no other block to come).
        cubes : int
            Blocks that come by.
        tile : int, optional
            Keys that are folded at once; the whole block unless given.
        causal : bool
            Count every tile as if it needed the mask: then this is a bound, which cubes whose largest tile lies on the
            diagonal reach.
        """
        t = block if tile is None else min(tile, block)
        lengths = [t, t] if block // t * cubes > 1 else [t]
        if block % t:
            lengths.append(block % t)
        masks = [self.mask_bytes(n) if causal else 0 for n in lengths]
        scopes = [
            self._without_kv(n, later=i > 0) + mask
            for i, (n, mask) in enumerate(zip(lengths, masks, strict=True))
        ]
        return self._ring_persistent(block, cubes) + max(*scopes, self.finish)

    def ring_unscoped(self, block: int, cubes: int) -> int:
        """Scratch of one cube in a ring prefill without scopes: C blocks folded whole, nothing given back."""
        folds = self._without_kv(block, later=False) + (cubes - 1) * self._without_kv(block, later=True)
        return self._ring_persistent(block, cubes) + folds + self.finish

    def _ring_persistent(self, block: int, cubes: int) -> int:
        return self._query_and_state + min(cubes, 2) * self.kv_bytes(block)

    @property
    def _guard(self) -> int:
        """Which rows have seen a key, and a maximum that is safe to subtract."""
        return up16(self.rows) + self.row_bytes

    @property
    def _query_and_state(self) -> int:
        return up16(self.itemsize * self.rows * self.d) + self.out_bytes + 2 * self.row_bytes

    def _loaded(self, t: int) -> int:
        """K and V inside the tile's scope: none with prefetch, whose buffers are persistent."""
        return 0 if self.prefetch else self.kv_bytes(t)

    def _without_kv(self, t: int, *, later: bool) -> int:
        """What a fold makes of K and V; only a later one has an old state to correct."""
        return self.score_bytes(t) + (3 * self.out_bytes + 7 * self.row_bytes if later else 0)


def ring_largest_tokens(
    cubes: int, *, group: int = 8, d: int = 128, itemsize: int = 2, limit: int = SCRATCH_BYTES
) -> int:
    """The largest S of an un-scoped ring prefill: S tokens, and a block of S keys, on each of C cubes.

    The story behind the seeds' ``S = 16``: with one KV head and its 8 query heads packed as rows (Llama-70B's
    group, d = 128) on four cubes and no scopes, 16 fits 1 MiB and 32 does not.
    """

    def fits(s: int) -> bool:
        shape = Footprint(h_q=group, h_kv=1, d=d, t_q=s, itemsize=itemsize)
        return shape.ring_unscoped(s, cubes) <= limit

    return _largest(fits)


def _largest(fits: Callable[[int], bool]) -> int:
    """The largest n >= 1 that fits, given that a smaller one fits too; 0 if 1 does not."""
    if not fits(1):
        return 0
    above = 2
    while fits(above):
        above *= 2
    below = above // 2
    while above - below > 1:
        middle = (below + above) // 2
        below, above = (middle, above) if fits(middle) else (below, middle)
    return below
