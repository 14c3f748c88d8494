"""The entry points that a notebook types: arrays in, `RunResult` out.

Each function here checks its arguments and says what is to run; `entry_point` runs it. All of them take the fields of
`Options` (`benches/_run.py`) too: ``data``, ``scratch_checks``, ``record``, ``max_record_bytes``, ``wide_links``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

from kernbench_nb.benches import reference
from kernbench_nb.benches._checks import check_count, check_scale, check_word
from kernbench_nb.benches._flash import flash_attention_kernel
from kernbench_nb.benches._gqa_decode_long import gqa_decode_long_kernel
from kernbench_nb.benches._gqa_prefill_long import gqa_prefill_long_kernel
from kernbench_nb.benches._inputs import Array, Inputs, look_at, look_at_mask, valid_keys
from kernbench_nb.benches._naive import naive_attention_kernel
from kernbench_nb.benches._placed import ccl_config, cut
from kernbench_nb.benches._run import Plan, Values, entry_point
from kernbench_nb.benches.footprint import Footprint
from kernbench_nb.ccl.sfr_config import configure_sfr_intercube_multisip, configure_sfr_intercube_ring
from kernbench_nb.policy.placement.dp import DPPolicy, split
from kernbench_nb.runtime_api.context import BenchContext
from kernbench_nb.runtime_api.launch import pe_grid
from kernbench_nb.runtime_api.tensor import Tensor
from kernbench_nb.topology import Topology, resolve_topology

__all__ = ["decode", "flash", "naive", "prefill"]

Made = tuple[Tensor, Tensor | None]


@entry_point
def decode(
    q: Any,
    k: Any,
    v: Any,
    *,
    pes: int | None = None,
    cubes: int | None = None,
    tile: int = 64,
    scoped: bool = True,
    prefetch: bool = False,
    merge: str = "chain",
    causal: bool = False,
    sm_scale: float | None = None,
    kv_len: int | None = None,
    lse: bool = False,
    dtype: Any = None,
    h_q: int | None = None,
    h_kv: int | None = None,
    topology: Any = None,
) -> Plan:
    """Flash decode: a few query tokens, many keys, split over PEs; states merge towards PE 0.

    Parameters
    ----------
    q, k, v
        ``(T_q, h_q, d)`` and ``(S_kv, h_kv, d)``, or rank 2 with `h_q` and `h_kv` given.
    pes, cubes
        PEs in all, and over how many cubes; by default 8 of each cube (or all, if it has fewer), and one cube.
    tile
        Keys handled at once.
    scoped
        False gives no scratch back, and overflows for long contexts.
    prefetch
        Load the next tile while this one is folded.
    merge
        ``"chain"`` or ``"tree"``.
    causal
        Bottom right: token i sees keys ``j <= i + kv_len - T_q``.
    sm_scale
        Factor of the scores, ``1 / sqrt(d)`` by default.
    kv_len
        How many of the keys are valid.
    lse
        Have the kernel write lse to HBM too (``run.lse`` is there without it, from a second run).
    dtype
        What the arrays are converted to.
    topology
        Preset name, path, mapping or topology.
    data, scratch_checks, record, max_record_bytes, wide_links
        As in `kb.launch`.

    Returns
    -------
    RunResult
        ``run.output`` in the layout of q.

    Raises
    ------
    ShapeError, DTypeError, PlacementError, ValueError, TypeError
        Before anything runs, if the arguments do not go together.
    ScratchOverflowError
        If a tile does not fit; ``error.run`` is the run so far.
    """
    x = look_at(q, k, v, dtype=dtype, h_q=h_q, h_kv=h_kv)
    machine = resolve_topology(topology)
    check_scale(sm_scale)
    check_word("merge", merge, "chain", "tree")
    tile = check_count("tile", tile)
    valid = valid_keys(kv_len, x)
    if pes is None:
        pes = min(8, machine.pes_per_cube) * check_count("cubes", 1 if cubes is None else cubes)
    sips, in_sip, each = pe_grid(machine, pes, cubes)
    spread = partial(DPPolicy, num_sips=sips, num_cubes=in_sip, num_pes=each)

    def bench(ctx: BenchContext) -> Made:
        configure_sfr_intercube_multisip(ctx.engine, ctx.spec, ccl_config())
        whole, parted = spread(), spread(sip=cut(sips), cube=cut(in_sip), pe=cut(each))
        Q = ctx.tensor(x.q, dp=whole, name="Q")
        K, V = ctx.tensor(x.k, dp=parted, name="K"), ctx.tensor(x.v, dp=parted, name="V")
        O = ctx.empty(x.q.shape, dtype=x.out_dtype, dp=whole, name="O")
        L = ctx.empty((x.T_q, x.h_q), dtype="f32", dp=whole, name="lse") if lse else None
        ctx.launch(
            "gqa_decode", gqa_decode_long_kernel,
            Q, K, V, O, x.T_q, x.S_kv, x.h_q, x.h_kv, x.d, sips * in_sip, each,
            tile=tile, scoped=scoped, merge=merge, prefetch=prefetch, causal=causal, sm_scale=sm_scale, lse=L,
            kv_len=kv_len,
        )  # fmt: skip
        return O, L

    return Plan(
        x=x,
        machine=machine,
        kernel=gqa_decode_long_kernel,
        bench=bench,
        reference=lambda q, k, v: reference.attention(
            q, k, v, sm_scale=sm_scale, causal=causal, kv_len=valid
        ),
        tainted=lambda q, k, v: reference.tainted(q, k, v, causal=causal, kv_len=valid),
        shown={"pes": sips * in_sip * each, "cubes": sips * in_sip},
    )


@entry_point
def prefill(
    q: Any,
    k: Any,
    v: Any,
    *,
    cubes: int | None = None,
    tile_q: int = 64,
    tile: int | None = None,
    causal: bool = False,
    direction: str = "next",
    scoped: bool = True,
    sm_scale: float | None = None,
    lse: bool = False,
    dtype: Any = None,
    h_q: int | None = None,
    h_kv: int | None = None,
    topology: Any = None,
) -> Plan:
    """Prefill on a ring of cubes, one PE each: tokens are sharded over cubes, blocks of K and V travel.

    One KV head's group and one block of `tile_q` tokens of each cube are handled at a time, and the ring turns once
    for each of them.

    Parameters
    ----------
    q, k, v
        ``(T, h_q, d)`` and ``(S_kv, h_kv, d)``, or rank 2 with `h_q` and `h_kv` given.
    cubes
        Cubes on the ring, 4 by default (or all, if a SIP has fewer).
    tile_q
        Tokens of a cube that are handled at once.
    tile
        Keys that are folded at once; by default the whole block of a cube, or as much of it as fits.
    causal
        Bottom right: token i sees keys ``j <= i + S_kv - T``.
    direction
        Which way the blocks travel, ``"next"`` or ``"prev"``.
    scoped, sm_scale, lse, dtype, topology, data, scratch_checks, record, max_record_bytes, wide_links
        As in `decode`.

    Returns
    -------
    RunResult
        ``run.output`` in the layout of q.
    """
    x = look_at(q, k, v, dtype=dtype, h_q=h_q, h_kv=h_kv)
    machine = resolve_topology(topology)
    check_scale(sm_scale)
    cubes = check_count("cubes", min(4, machine.cubes_per_sip) if cubes is None else cubes)
    tile_q = check_count("tile_q", tile_q)
    check_word("direction", direction, "next", "prev")
    sips, cubes, _ = pe_grid(machine, cubes, cubes)
    if sips > 1:
        raise ValueError(
            f"cubes={sips * cubes}: the ring runs over the cubes of one SIP, {machine.cubes_per_sip} at most."
        )
    spans = split((0, x.T_q), cubes)
    longest = spans[0][1]
    block = -(-x.S_kv // cubes)
    if tile is None:
        tile = _ring_tile(x, min(tile_q, longest), block, cubes, causal, machine)
    elif check_count("tile", tile) >= block:
        tile = None

    def bench(ctx: BenchContext) -> Made:
        configure_sfr_intercube_ring(ctx.engine, ctx.spec, ccl_config(), ring_size=cubes)
        parted = DPPolicy(cube=cut(cubes), num_cubes=cubes, num_pes=1)
        Q = ctx.tensor(x.q, dp=parted, name="Q")
        K, V = ctx.tensor(x.k, dp=parted, name="K"), ctx.tensor(x.v, dp=parted, name="V")
        O = ctx.empty(x.q.shape, dtype=x.out_dtype, dp=parted, name="O")
        L = ctx.empty((x.T_q, x.h_q), dtype="f32", dp=parted, name="lse") if lse else None
        for head in range(x.h_kv):
            for at in range(0, longest, tile_q):
                here = at * x.h_q + head * x.group
                ctx.launch(
                    f"gqa_prefill head {head} tokens {at}", gqa_prefill_long_kernel,
                    Q + here * x.d, K + head * x.d, V + head * x.d, O + here * x.d,
                    tuple(max(0, min(tile_q, stop - start - at)) for start, stop in spans), x.S_kv, x.d, cubes,
                    h_q=x.group, h_kv=1, q_start=tuple(start + at for start, _ in spans), T_total=x.T_q,
                    causal=causal, tile=tile, lse=None if L is None else L + here, direction=direction,
                    scoped=scoped, sm_scale=sm_scale, q_row=x.h_q * x.d, kv_row=x.h_kv * x.d, lse_row=x.h_q,
                )  # fmt: skip
        return O, L

    together = [min(tile_q, stop - at) for start, stop in spans for at in range(start, stop, tile_q)]
    return Plan(
        x=x,
        machine=machine,
        kernel=gqa_prefill_long_kernel,
        bench=bench,
        reference=lambda q, k, v: reference.attention(q, k, v, sm_scale=sm_scale, causal=causal),
        tainted=lambda q, k, v: reference.tainted(q, k, v, causal=causal, rows=together),
        shown={"pes": cubes, "cubes": cubes, "tile": tile},
    )


@entry_point
def flash(
    q: Any,
    k: Any,
    v: Any,
    *,
    tile_q: int = 64,
    tile_kv: int = 64,
    order: str = "fa2",
    causal: bool = False,
    mask: Any = None,
    scoped: bool = True,
    sm_scale: float | None = None,
    kv_len: int | None = None,
    lse: bool = False,
    dtype: Any = None,
    h_q: int | None = None,
    h_kv: int | None = None,
    topology: Any = None,
) -> Plan:
    """Flash attention on one PE, query heads outermost, then query blocks and KV tiles.

    Parameters
    ----------
    q, k, v
        ``(T_q, h_q, d)`` and ``(S_kv, h_kv, d)``, or rank 2 with `h_q` and `h_kv` given.
    tile_q, tile_kv
        Rows of a query block, keys of a KV tile.
    order
        ``"fa2"``: query blocks outside. ``"fa1"``: KV tiles outside; the state lives in HBM, and O is f32 there.
    causal
        Bottom right; tiles wholly above the diagonal are skipped and recorded.
    mask
        ``(T_q, S_kv)`` bool, True where a token may attend.
    scoped, sm_scale, kv_len, lse, dtype, topology, data, scratch_checks, record, max_record_bytes, wide_links
        As in `decode`.

    Returns
    -------
    RunResult
        ``run.output`` in the layout of q.
    """
    x = look_at(q, k, v, dtype=dtype, h_q=h_q, h_kv=h_kv)
    machine = resolve_topology(topology)
    check_scale(sm_scale)
    tile_q, tile_kv = check_count("tile_q", tile_q), check_count("tile_kv", tile_kv)
    check_word("order", order, "fa2", "fa1")
    valid = valid_keys(kv_len, x)
    allowed = None if mask is None else look_at_mask(mask, x)

    def bench(ctx: BenchContext) -> Made:
        Q, K, V = ctx.tensor(x.q, name="Q"), ctx.tensor(x.k, name="K"), ctx.tensor(x.v, name="V")
        if order == "fa1":
            # the state starts in HBM as that of no keys; the host writes it, which is not counted
            O = ctx.zeros(x.q.shape, dtype="f32", name="O")
            m = ctx.tensor(np.full((x.h_q, x.T_q), -np.inf, np.float32), name="m")
            l = ctx.zeros((x.h_q, x.T_q), dtype="f32", name="l")
        else:
            O, m, l = ctx.empty(x.q.shape, dtype=x.out_dtype, name="O"), None, None
        M = None if allowed is None else ctx.tensor(allowed, name="mask")
        L = ctx.tensor(np.full((x.T_q, x.h_q), -np.inf, np.float32), name="lse") if lse else None
        ctx.launch(
            "flash_attention", flash_attention_kernel, Q, K, V, O, x.T_q, x.S_kv, x.h_q, x.h_kv, x.d,
            tile_q=tile_q, tile_kv=tile_kv, order=order, causal=causal, mask=M, sm_scale=sm_scale, scoped=scoped,
            lse=L, m=m, l=l, kv_len=kv_len,
        )  # fmt: skip
        return O, L

    return Plan(
        x=x,
        machine=machine,
        kernel=flash_attention_kernel,
        bench=bench,
        reference=lambda q, k, v: reference.attention(
            q, k, v, sm_scale=sm_scale, causal=causal, mask=allowed, kv_len=valid
        ),
        tainted=lambda q, k, v: reference.tainted(
            q, k, v, causal=causal, mask=allowed, kv_len=valid, rows=tile_q, heads=1
        ),
        shown={"pes": 1, "cubes": 1, "mask": allowed is not None},
    )


@entry_point
def naive(
    q: Any,
    k: Any,
    v: Any,
    *,
    rows: int = 64,
    causal: bool = False,
    sm_scale: float | None = None,
    lse: bool = False,
    dtype: Any = None,
    h_q: int | None = None,
    h_kv: int | None = None,
    topology: Any = None,
) -> Plan:
    """Standard attention on one PE: the scores S and the weights P go through HBM.

    Parameters
    ----------
    q, k, v
        ``(T_q, h_q, d)`` and ``(S_kv, h_kv, d)``, or rank 2 with `h_q` and `h_kv` given.
    rows
        Rows of S and P handled at once.
    causal, sm_scale, lse, dtype, topology, data, scratch_checks, record, max_record_bytes, wide_links
        As in `decode`.

    Returns
    -------
    RunResult
        ``run.output`` in the layout of q; ``run.outputs`` has S and P too.
    """
    x = look_at(q, k, v, dtype=dtype, h_q=h_q, h_kv=h_kv)
    machine = resolve_topology(topology)
    check_scale(sm_scale)
    rows = check_count("rows", rows)

    def bench(ctx: BenchContext) -> Made:
        Q, K, V = ctx.tensor(x.q, name="Q"), ctx.tensor(x.k, name="K"), ctx.tensor(x.v, name="V")
        O = ctx.empty(x.q.shape, dtype=x.out_dtype, name="O")
        S, P = (ctx.empty((x.h_q, x.T_q, x.S_kv), dtype=x.out_dtype, name=name) for name in "SP")
        L = ctx.empty((x.T_q, x.h_q), dtype="f32", name="lse") if lse else None
        ctx.launch(
            "naive_attention", naive_attention_kernel, Q, K, V, O, S, P, x.T_q, x.S_kv, x.h_q, x.h_kv, x.d,
            rows=rows, causal=causal, sm_scale=sm_scale, lse=L,
        )  # fmt: skip
        return O, L

    def slack(values: Values) -> float:
        """Scores in HBM are rounded: each is off by up to eps / 2 of itself, and its weight by as much of itself."""
        eps = float(ml_dtypes.finfo(x.out_dtype.np).eps)  # type: ignore[no-untyped-call]
        return _largest(values["S"]) * eps / 2

    return Plan(
        x=x,
        machine=machine,
        kernel=naive_attention_kernel,
        bench=bench,
        reference=lambda q, k, v: reference.attention(q, k, v, sm_scale=sm_scale, causal=causal),
        tainted=lambda q, k, v: reference.tainted(q, k, v, causal=causal, rows=rows, heads=1),
        shown={"pes": 1, "cubes": 1},
        slack=slack,
    )


# -- shared ----------------------------------------------------------------------------------------------------


def _largest(array: Array) -> float:
    """Largest finite magnitude, 0 for none."""
    finite = np.abs(array.astype(np.float32))
    return float(np.max(finite, initial=0.0, where=np.isfinite(finite)))


def _ring_tile(x: Inputs, tokens: int, block: int, cubes: int, causal: bool, machine: Topology) -> int | None:
    """None if a cube's whole block can be folded at once, else the largest power of two that fits."""
    use = Footprint(x.group, 1, x.d, t_q=tokens, itemsize=x.dtype.itemsize)

    def fits(tile: int | None) -> bool:
        return use.ring_peak(block, cubes, tile=tile, causal=causal) <= machine.scratch_bytes

    if block == 0 or fits(None):
        return None
    tile = 1 << (block.bit_length() - 1)
    while tile > 1 and not fits(tile):
        tile //= 2
    return tile
