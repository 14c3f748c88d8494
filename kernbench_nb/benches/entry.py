"""The entry points that a notebook types: arrays in, `RunResult` out."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernbench_nb.benches import reference
from kernbench_nb.benches._flash import flash_attention_kernel
from kernbench_nb.benches._gqa_decode_long import gqa_decode_long_kernel
from kernbench_nb.benches._gqa_prefill_long import gqa_prefill_long_kernel
from kernbench_nb.benches._inputs import Array, Inputs, check_count, look_at
from kernbench_nb.benches._naive import naive_attention_kernel
from kernbench_nb.benches._run import Options, run_attention
from kernbench_nb.benches.footprint import Footprint
from kernbench_nb.ccl.install import load_ccl_config, resolve_algorithm_config
from kernbench_nb.ccl.sfr_config import configure_sfr_intercube_multisip, configure_sfr_intercube_ring
from kernbench_nb.errors import DTypeError, ShapeError
from kernbench_nb.policy.placement.dp import DPPolicy, split
from kernbench_nb.runtime_api.context import BenchContext
from kernbench_nb.runtime_api.launch import pe_grid
from kernbench_nb.runtime_api.result import RunResult
from kernbench_nb.topology import Topology, resolve_topology

__all__ = ["decode", "flash", "naive", "prefill"]


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
    **options: Any,
) -> RunResult:
    """Flash decode: a few query tokens, many keys, split over PEs; states merge towards PE 0.

    Parameters
    ----------
    q, k, v
        ``(T_q, h_q, d)`` and ``(S_kv, h_kv, d)``, or rank 2 with `h_q` and `h_kv` given.
    pes, cubes
        PEs in all (a cube's 8 by default, or what the machine's cube has), and over how many cubes.
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
    options
        ``data``, ``scratch_checks``, ``record``, ``max_record_bytes``, ``wide_links``: see `Options`.

    Returns
    -------
    RunResult
        ``run.output`` in the layout of q.

    Raises
    ------
    ShapeError, DTypeError, PlacementError, ValueError
        Before anything runs, if the arguments do not go together.
    ScratchOverflowError
        If a tile does not fit; ``error.run`` is the run so far.
    """
    x = look_at(q, k, v, dtype=dtype, h_q=h_q, h_kv=h_kv)
    machine = resolve_topology(topology)
    if merge not in ("chain", "tree"):
        raise ValueError(f"merge must be 'chain' or 'tree', got {merge!r}")
    if pes is None and cubes is None:
        pes = min(8, machine.pes_per_cube)
    sips, in_sip, each = pe_grid(machine, pes, cubes)
    tile = check_count("tile", tile)
    valid = _valid_keys(kv_len, x.S_kv)

    def bench(ctx: BenchContext) -> dict[str, Any]:
        configure_sfr_intercube_multisip(ctx.engine, ctx.spec, _ccl())
        over = {"num_sips": sips, "num_cubes": in_sip, "num_pes": each}
        whole = DPPolicy(**over)  # type: ignore[arg-type]
        cut = DPPolicy(
            sip="row_wise" if sips > 1 else "replicate",
            cube="row_wise" if in_sip > 1 else "replicate",
            pe="row_wise" if each > 1 else "replicate",
            **over,  # type: ignore[arg-type]
        )
        tensors = [
            ctx.tensor(x.q, dp=whole, name="Q"),
            ctx.tensor(x.k, dp=cut, name="K"),
            ctx.tensor(x.v, dp=cut, name="V"),
            ctx.empty(x.q.shape, dtype=x.out_dtype, dp=whole, name="O"),
        ]
        lse_tensor = ctx.empty((x.T_q, x.h_q), dtype="f32", dp=whole, name="lse") if lse else None
        ctx.launch(
            "gqa_decode", gqa_decode_long_kernel, *tensors,
            x.T_q, x.S_kv, x.h_q, x.h_kv, x.d, sips * in_sip, each,
            tile=tile, scoped=scoped, merge=merge, prefetch=prefetch, causal=causal, sm_scale=sm_scale,
            lse=lse_tensor, kv_len=kv_len,
        )  # fmt: skip
        return {"output": tensors[3], "lse": lse_tensor}

    return run_attention(
        bench,
        x,
        machine,
        Options.of(options, "decode"),
        kernel=gqa_decode_long_kernel,
        params={
            "T_q": x.T_q, "S_kv": x.S_kv, "h_q": x.h_q, "h_kv": x.h_kv, "d": x.d, "pes": sips * in_sip * each,
            "cubes": sips * in_sip, "tile": tile, "scoped": scoped, "prefetch": prefetch, "merge": merge,
            "causal": causal, "sm_scale": sm_scale, "kv_len": kv_len, "dtype": x.dtype.name, "lse": lse,
        },
        reference=lambda: reference.attention(*x.three, sm_scale=sm_scale, causal=causal, kv_len=valid),
        tainted=lambda: reference.tainted(*x.three, causal=causal, kv_len=valid),
        again=lambda **changes: decode(
            q, k, v, **{
                "pes": pes, "cubes": cubes, "tile": tile, "scoped": scoped, "prefetch": prefetch, "merge": merge,
                "causal": causal, "sm_scale": sm_scale, "kv_len": kv_len, "lse": lse, "dtype": dtype, "h_q": h_q,
                "h_kv": h_kv, "topology": topology, **options, **changes,
            },
        ),
    )  # fmt: skip


def prefill(
    q: Any,
    k: Any,
    v: Any,
    *,
    cubes: int = 4,
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
    **options: Any,
) -> RunResult:
    """Prefill on a ring of cubes, one PE each: tokens are sharded over cubes, blocks of K and V travel.

    One KV head's group and one block of `tile_q` tokens of each cube are handled at a time, and the ring turns once
    for each of them.

    Parameters
    ----------
    q, k, v
        ``(T, h_q, d)`` and ``(S_kv, h_kv, d)``, or rank 2 with `h_q` and `h_kv` given.
    cubes
        Cubes on the ring.
    tile_q
        Tokens of a cube that are handled at once.
    tile
        Keys that are folded at once; by default the whole block of a cube, or as much of it as fits.
    causal
        Bottom right: token i sees keys ``j <= i + S_kv - T``.
    direction
        Which way the blocks travel, ``"next"`` or ``"prev"``.
    scoped, sm_scale, lse, dtype, topology, options
        As in `decode`.

    Returns
    -------
    RunResult
        ``run.output`` in the layout of q.
    """
    x = look_at(q, k, v, dtype=dtype, h_q=h_q, h_kv=h_kv)
    machine = resolve_topology(topology)
    cubes, tile_q = check_count("cubes", cubes), check_count("tile_q", tile_q)
    if direction not in ("next", "prev"):
        raise ValueError(f"direction must be 'next' or 'prev', got {direction!r}")
    sips, in_sip, _ = pe_grid(machine, cubes, cubes)
    if sips > 1:
        raise ValueError(
            f"cubes={cubes}: the ring runs over the cubes of one SIP, {machine.cubes_per_sip} at most."
        )
    tokens = [stop - start for start, stop in split((0, x.T_q), in_sip)]
    block = -(-x.S_kv // in_sip)
    if tile is None:
        tile = _ring_tile(x, min(tile_q, tokens[0]), block, in_sip, machine)
    elif check_count("tile", tile) >= block:
        tile = None

    def bench(ctx: BenchContext) -> dict[str, Any]:
        configure_sfr_intercube_ring(ctx.engine, ctx.spec, _ccl(), ring_size=in_sip)
        cut = DPPolicy(cube="row_wise" if in_sip > 1 else "replicate", num_cubes=in_sip, num_pes=1)
        Q = ctx.tensor(x.q, dp=cut, name="Q")
        K, V = ctx.tensor(x.k, dp=cut, name="K"), ctx.tensor(x.v, dp=cut, name="V")
        O = ctx.empty(x.q.shape, dtype=x.out_dtype, dp=cut, name="O")
        L = ctx.empty((x.T_q, x.h_q), dtype="f32", dp=cut, name="lse") if lse else None
        first = [start for start, _ in split((0, x.T_q), in_sip)]
        for head in range(x.h_kv):
            for at in range(0, tokens[0], tile_q):
                now = tuple(max(0, min(tile_q, n - at)) for n in tokens)
                here = at * x.h_q + head * x.group
                ctx.launch(
                    f"gqa_prefill head {head} tokens {at}", gqa_prefill_long_kernel,
                    Q + here * x.d, K + head * x.d, V + head * x.d, O + here * x.d,
                    now, x.S_kv, x.d, in_sip,
                    h_q=x.group, h_kv=1, q_start=tuple(f + at for f in first), T_total=x.T_q, causal=causal,
                    tile=tile, lse=None if L is None else L + here, direction=direction, scoped=scoped,
                    sm_scale=sm_scale, q_row=x.h_q * x.d, kv_row=x.h_kv * x.d, lse_row=x.h_q,
                )  # fmt: skip
        return {"output": O, "lse": L}

    return run_attention(
        bench,
        x,
        machine,
        Options.of(options, "prefill"),
        kernel=gqa_prefill_long_kernel,
        params={
            "T_q": x.T_q, "S_kv": x.S_kv, "h_q": x.h_q, "h_kv": x.h_kv, "d": x.d, "cubes": cubes, "pes": cubes,
            "tile_q": tile_q, "tile": tile, "causal": causal, "direction": direction, "scoped": scoped,
            "sm_scale": sm_scale, "dtype": x.dtype.name, "lse": lse,
        },
        reference=lambda: reference.attention(*x.three, sm_scale=sm_scale, causal=causal),
        tainted=lambda: reference.tainted(
            *x.three, causal=causal,
            rows=[min(tile_q, n - at) for n in tokens for at in range(0, n, tile_q)],
        ),
        again=lambda **changes: prefill(
            q, k, v, **{
                "cubes": cubes, "tile_q": tile_q, "tile": tile, "causal": causal, "direction": direction,
                "scoped": scoped, "sm_scale": sm_scale, "lse": lse, "dtype": dtype, "h_q": h_q, "h_kv": h_kv,
                "topology": topology, **options, **changes,
            },
        ),
    )  # fmt: skip


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
    **options: Any,
) -> RunResult:
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
    scoped, sm_scale, kv_len, lse, dtype, topology, options
        As in `decode`.

    Returns
    -------
    RunResult
        ``run.output`` in the layout of q.
    """
    x = look_at(q, k, v, dtype=dtype, h_q=h_q, h_kv=h_kv)
    machine = resolve_topology(topology)
    tile_q, tile_kv = check_count("tile_q", tile_q), check_count("tile_kv", tile_kv)
    if order not in ("fa2", "fa1"):
        raise ValueError(f"order must be 'fa2' or 'fa1', got {order!r}")
    valid = _valid_keys(kv_len, x.S_kv)
    allowed = None if mask is None else _mask(mask, x)

    def bench(ctx: BenchContext) -> dict[str, Any]:
        tensors = [ctx.tensor(x.q, name="Q"), ctx.tensor(x.k, name="K"), ctx.tensor(x.v, name="V")]
        L = ctx.tensor(_filled((x.T_q, x.h_q), -np.inf), name="lse") if lse else None
        more: dict[str, Any] = {}
        if order == "fa1":
            O = ctx.zeros(x.q.shape, dtype="f32", name="O")
            more["m"] = ctx.tensor(_filled((x.h_q, x.T_q), -np.inf), name="m")
            more["l"] = ctx.zeros((x.h_q, x.T_q), dtype="f32", name="l")
        else:
            O = ctx.empty(x.q.shape, dtype=x.out_dtype, name="O")
        if allowed is not None:
            more["mask"] = ctx.tensor(allowed, name="mask")
        ctx.launch(
            "flash_attention", flash_attention_kernel, *tensors, O, x.T_q, x.S_kv, x.h_q, x.h_kv, x.d,
            tile_q=tile_q, tile_kv=tile_kv, order=order, causal=causal, sm_scale=sm_scale, scoped=scoped, lse=L,
            kv_len=kv_len, **more,
        )  # fmt: skip
        return {"output": O, "lse": L}

    return run_attention(
        bench,
        x,
        machine,
        Options.of(options, "flash"),
        kernel=flash_attention_kernel,
        params={
            "T_q": x.T_q, "S_kv": x.S_kv, "h_q": x.h_q, "h_kv": x.h_kv, "d": x.d, "pes": 1, "cubes": 1,
            "tile_q": tile_q, "tile_kv": tile_kv, "order": order, "causal": causal, "mask": allowed is not None,
            "scoped": scoped, "sm_scale": sm_scale, "kv_len": kv_len, "dtype": x.dtype.name, "lse": lse,
        },
        reference=lambda: reference.attention(*x.three, sm_scale=sm_scale, causal=causal, mask=allowed, kv_len=valid),
        tainted=lambda: reference.tainted(
            *x.three, causal=causal, mask=allowed, kv_len=valid, rows=tile_q, heads=1
        ),
        again=lambda **changes: flash(
            q, k, v, **{
                "tile_q": tile_q, "tile_kv": tile_kv, "order": order, "causal": causal, "mask": mask,
                "scoped": scoped, "sm_scale": sm_scale, "kv_len": kv_len, "lse": lse, "dtype": dtype, "h_q": h_q,
                "h_kv": h_kv, "topology": topology, **options, **changes,
            },
        ),
    )  # fmt: skip


def naive(
    q: Any,
    k: Any,
    v: Any,
    *,
    rows: int = 64,
    causal: bool = False,
    sm_scale: float | None = None,
    dtype: Any = None,
    h_q: int | None = None,
    h_kv: int | None = None,
    topology: Any = None,
    **options: Any,
) -> RunResult:
    """Standard attention on one PE: the scores S and the weights P go through HBM.

    Parameters
    ----------
    q, k, v
        ``(T_q, h_q, d)`` and ``(S_kv, h_kv, d)``, or rank 2 with `h_q` and `h_kv` given.
    rows
        Rows of S and P handled at once.
    causal, sm_scale, dtype, topology, options
        As in `decode`.

    Returns
    -------
    RunResult
        ``run.output`` in the layout of q; ``run.outputs`` has S and P too.
    """
    x = look_at(q, k, v, dtype=dtype, h_q=h_q, h_kv=h_kv)
    machine = resolve_topology(topology)
    rows = check_count("rows", rows)

    def bench(ctx: BenchContext) -> dict[str, Any]:
        tensors = [ctx.tensor(x.q, name="Q"), ctx.tensor(x.k, name="K"), ctx.tensor(x.v, name="V")]
        O = ctx.empty(x.q.shape, dtype=x.out_dtype, name="O")
        S, P = (ctx.empty((x.h_q, x.T_q, x.S_kv), dtype=x.out_dtype, name=name) for name in "SP")
        ctx.launch(
            "naive_attention", naive_attention_kernel, *tensors, O, S, P, x.T_q, x.S_kv, x.h_q, x.h_kv, x.d,
            rows=rows, causal=causal, sm_scale=sm_scale,
        )  # fmt: skip
        return {"output": O, "lse": None}

    return run_attention(
        bench,
        x,
        machine,
        Options.of(options, "naive"),
        kernel=naive_attention_kernel,
        params={
            "T_q": x.T_q, "S_kv": x.S_kv, "h_q": x.h_q, "h_kv": x.h_kv, "d": x.d, "pes": 1, "cubes": 1, "rows": rows,
            "causal": causal, "sm_scale": sm_scale, "dtype": x.dtype.name,
        },
        # S is stored in 16 bits: a score is off by up to 2**-11 of itself, and its weight by as much of itself
        slack=lambda ctx: _largest(ctx.tensors["S"].numpy()) * np.finfo(np.float16).eps / 2,
        reference=lambda: reference.attention(*x.three, sm_scale=sm_scale, causal=causal),
        tainted=lambda: reference.tainted(*x.three, causal=causal, rows=rows, heads=1),
        again=lambda **changes: naive(
            q, k, v, **{
                "rows": rows, "causal": causal, "sm_scale": sm_scale, "dtype": dtype, "h_q": h_q, "h_kv": h_kv,
                "topology": topology, **options, **changes,
            },
        ),
    )  # fmt: skip


# -- shared ----------------------------------------------------------------------------------------------------


def _ccl() -> dict[str, Any]:
    return resolve_algorithm_config(load_ccl_config(), name="lrab_hierarchical_allreduce")


def _valid_keys(kv_len: int | None, S_kv: int) -> int:
    if kv_len is None:
        return S_kv
    if check_count("kv_len", kv_len, 0) > S_kv:
        raise ShapeError(f"kv_len={kv_len} is more than the {S_kv} keys that k and v hold")
    return kv_len


def _mask(mask: Any, x: Inputs) -> Array:
    allowed = np.asarray(mask)
    if allowed.dtype != np.bool_:
        raise DTypeError(f"mask must be bool, True where a token may attend; got {allowed.dtype}")
    if allowed.shape != (x.T_q, x.S_kv):
        raise ShapeError(f"mask must have shape (T_q, S_kv) = {(x.T_q, x.S_kv)}, got {allowed.shape}")
    return allowed


def _largest(array: Array) -> float:
    """Largest finite magnitude, 0 for none."""
    finite = np.abs(array.astype(np.float32))
    return float(np.max(finite, initial=0.0, where=np.isfinite(finite)))


def _filled(shape: tuple[int, ...], value: float) -> Array:
    return np.full(shape, value, np.float32)


def _ring_tile(x: Inputs, tokens: int, block: int, cubes: int, machine: Topology) -> int | None:
    """None if a cube's whole block can be folded at once, else the largest power of two that fits."""
    use = Footprint(x.group, 1, x.d, t_q=max(tokens, 1), itemsize=x.dtype.itemsize)

    def fits(tile: int | None) -> bool:
        return use.ring_peak(block, cubes, tile=tile) <= machine.scratch_bytes

    if block == 0 or fits(None):
        return None
    tile = 1 << (block.bit_length() - 1)
    while tile > 1 and not fits(tile):
        tile //= 2
    return tile
