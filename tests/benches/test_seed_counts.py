"""What the seed tests of scratch_scope and copy_to in the attention kernels demand, with exact counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernbench_nb as kb
from kernbench_nb.benches import reference
from kernbench_nb.benches._gqa_decode_long import gqa_decode_long_kernel
from kernbench_nb.benches._gqa_prefill_long import gqa_prefill_long_kernel
from kernbench_nb.ccl.install import load_ccl_config, resolve_algorithm_config
from kernbench_nb.ccl.sfr_config import configure_sfr_intercube_multisip, configure_sfr_intercube_ring
from kernbench_nb.policy.placement.dp import DPPolicy, split
from kernbench_nb.runtime_api.bench_runner import run_bench
from kernbench_nb.runtime_api.types import resolve_device
from kernbench_nb.sim_engine.engine import GraphEngine
from kernbench_nb.topology.builder import resolve_topology

ROOT = Path(__file__).resolve().parents[2]
D = 64


def run(bench: Callable[[Any], None], *, data: bool = True) -> kb.RunResult:
    """The way the seeds run a bench, topology file and engine factory included."""
    result = run_bench(
        topology=resolve_topology(str(ROOT / "topology.yaml")),
        bench_fn=bench,
        device=resolve_device(None),
        engine_factory=lambda t, device: GraphEngine(getattr(t, "topology_obj", t), enable_data=data),
    )
    assert result.completion.ok, result.completion
    return result


def config() -> dict[str, Any]:
    return resolve_algorithm_config(load_ccl_config(), name="lrab_hierarchical_allreduce")


def counts(result: kb.RunResult) -> Counter[str]:
    return Counter(record.op_name for record in result.engine.op_log)


def random(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float16)


def decode(
    h_q: int, h_kv: int, pes: int, keys: int, *, with_lse: bool = False, arrays: Any = None, data: bool = True
) -> kb.RunResult:
    def bench(ctx: Any) -> None:
        configure_sfr_intercube_multisip(ctx.engine, ctx.spec, config())
        whole = DPPolicy(cube="replicate", pe="replicate", num_cubes=1, num_pes=pes)
        rows = DPPolicy(cube="replicate", pe="row_wise", num_cubes=1, num_pes=pes)
        if arrays is None:
            q = ctx.zeros((1, h_q * D), dtype="f16", dp=whole, name="q")
            k = ctx.zeros((keys, h_kv * D), dtype="f16", dp=rows, name="k")
            v = ctx.zeros((keys, h_kv * D), dtype="f16", dp=rows, name="v")
        else:
            q, k, v = (
                ctx.tensor(a, dp=dp, name=n)
                for a, dp, n in zip(arrays, (whole, rows, rows), "qkv", strict=True)
            )
        o = ctx.empty((1, h_q * D), dtype="f16", dp=whole, name="o")
        lse = ctx.empty((1, h_q), dtype="f32", dp=whole, name="lse") if with_lse else None
        more = {"lse": lse} if with_lse else {}
        ctx.launch(
            "decode",
            gqa_decode_long_kernel,
            q,
            k,
            v,
            o,
            1,
            keys,
            h_q,
            h_kv,
            D,
            1,
            pes,
            _auto_dim_remap=False,
            **more,
        )

    return run(bench, data=data)


def prefill(
    tokens: int, keys: int, cubes: int, arrays: Any = None, data: bool = True, **how: Any
) -> kb.RunResult:
    def bench(ctx: Any) -> None:
        configure_sfr_intercube_ring(ctx.engine, ctx.spec, config(), ring_size=cubes)
        cut = "row_wise" if cubes > 1 else "replicate"
        own = DPPolicy(cube="replicate", pe="replicate", num_cubes=cubes, num_pes=1)
        rows = DPPolicy(cube=cut, pe="replicate", num_cubes=cubes, num_pes=1)
        if arrays is None:
            q = ctx.zeros((tokens, D), dtype="f16", dp=own, name="q")
            k = ctx.zeros((keys, D), dtype="f16", dp=rows, name="k")
            v = ctx.zeros((keys, D), dtype="f16", dp=rows, name="v")
        else:
            q, k, v = (
                ctx.tensor(a, dp=dp, name=n)
                for a, dp, n in zip(arrays, (own, rows, rows), "qkv", strict=True)
            )
        o = ctx.empty((tokens * cubes, D), dtype="f16", dp=rows, name="o")
        ctx.launch(
            "prefill",
            gqa_prefill_long_kernel,
            q,
            k,
            v,
            o,
            tokens,
            keys,
            D,
            cubes,
            _auto_dim_remap=False,
            **how,
        )

    return run(bench, data=data)


# -- the seeds' four tests ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [True, False])
def test_seven_chain_merges_write_back_three_handles_each(data: bool) -> None:
    result = decode(8, 1, 8, 64, data=data)
    assert counts(result)["copy"] == 21
    merges = [s for s in result.op_log.rows.scopes.kind if s == "merge"]
    assert len(merges) == 7
    assert all(r.scope.startswith("merge") for r in result.op_log if r.op_name == "copy")


@pytest.mark.parametrize("data", [True, False])
def test_three_ring_steps_on_four_cubes_write_back_three_handles_each(data: bool) -> None:
    result = prefill(4, 16, 4, data=data)
    assert counts(result)["copy"] == 36
    by_pe = Counter(r.pe for r in result.op_log if r.op_name == "copy")
    assert by_pe == dict.fromkeys((0, 8, 16, 24), 9)


def test_only_the_root_writes() -> None:
    writes = [r for r in decode(8, 1, 8, 64).op_log if r.op_name == "dma_write"]
    assert [(r.pe, r.tensor) for r in writes] == [(0, "o")]
    writes = [r for r in decode(8, 1, 8, 64, with_lse=True).op_log if r.op_name == "dma_write"]
    assert [(r.pe, r.tensor) for r in writes] == [(0, "o"), (0, "lse")]


def test_every_cube_writes_its_own_rows() -> None:
    writes = [r for r in prefill(4, 16, 4).op_log if r.op_name == "dma_write"]
    assert sorted((r.pe, r.tensor) for r in writes) == [(0, "o"), (8, "o"), (16, "o"), (24, "o")]


# -- and that the numbers are right ------------------------------------------------------------------------------


def test_the_seeds_decode_computes_attention() -> None:
    q, k, v = random(1, 8 * D), random(64, D), random(64, D)
    result = decode(8, 1, 8, 64, arrays=(q, k, v), with_lse=True)
    out, lse = reference.attention(q.reshape(1, 8, D), k[:, None], v[:, None])
    assert reference.worst_error(result.outputs["o"], out.reshape(1, -1)) < reference.tolerance("f16")
    assert reference.worst_error(result.outputs["lse"], lse) < 1e-5


@pytest.mark.parametrize("cubes", [1, 2, 4])
@pytest.mark.parametrize("direction", ["next", "prev"])
def test_the_seeds_prefill_in_head_parallel_use(cubes: int, direction: str) -> None:
    """Each cube keeps its own Q, here the same for all, and writes its own rows of O."""
    q, k, v = random(4, D), random(16, D), random(16, D)
    result = prefill(4, 16, cubes, arrays=(q, k, v), direction=direction)
    out, _ = reference.attention(q[:, None], k[:, None], v[:, None])
    for cube in range(cubes):
        rows = result.outputs["o"][4 * cube : 4 * cube + 4]
        assert reference.worst_error(rows, out[:, 0]) < reference.tolerance("f16")


def test_a_query_of_its_own_on_each_cube() -> None:
    """Head-parallel: the rows of a row-wise Q are other heads, which all see the same keys."""
    cubes, tokens = 4, 3
    q, k, v = random(cubes * tokens, D), random(10, D), random(10, D)

    def bench(ctx: Any) -> None:
        configure_sfr_intercube_ring(ctx.engine, ctx.spec, config(), ring_size=cubes)
        rows = DPPolicy(cube="row_wise", num_cubes=cubes, num_pes=1)
        Q, K, V = (ctx.tensor(a, dp=rows, name=n) for a, n in zip((q, k, v), "QKV", strict=True))
        O = ctx.empty(q.shape, dp=rows, name="O")
        ctx.launch(
            "heads", gqa_prefill_long_kernel, Q, K, V, O, tokens, 10, D, cubes, causal=True, q_start=0, T_total=tokens
        )  # fmt: skip

    result = run(bench)
    for head in range(cubes):
        rows = slice(head * tokens, (head + 1) * tokens)
        want, _ = reference.attention(q[rows, None], k[:, None], v[:, None], causal=True)
        assert reference.worst_error(result.outputs["O"][rows], want[:, 0]) < reference.tolerance("f16")


# -- copies in general -------------------------------------------------------------------------------------------


def expected_copies(cubes: int, pes: int, keys: int, tile: int) -> int:
    """3 * (C*P - 1) + 3 * sum over PEs of max(tiles - 1, 0)."""
    shares = [split(cube, pes) for cube in split((0, keys), cubes)]
    tiles = [-(-(stop - start) // tile) for cube in shares for start, stop in cube]
    return 3 * (cubes * pes - 1) + 3 * sum(max(n - 1, 0) for n in tiles)


@pytest.mark.parametrize("merge", ["chain", "tree"])
@pytest.mark.parametrize("prefetch", [False, True])
@pytest.mark.parametrize(
    ("cubes", "pes", "keys", "tile"),
    [
        (1, 1, 0, 4), (1, 1, 5, 4), (1, 8, 64, 16), (1, 3, 5, 1), (1, 8, 3, 2), (2, 8, 319, 16), (4, 1, 33, 8),
        (6, 3, 100, 3), (16, 8, 777, 2), (5, 1, 0, 1),
    ],
)  # fmt: skip
def test_copies_of_a_decode(cubes: int, pes: int, keys: int, tile: int, merge: str, prefetch: bool) -> None:
    sizes = {"h_q": 2, "h_kv": 1, "d": 8, "S_kv": keys}
    result = kb.bench(
        "gqa_decode",
        data=False,
        cubes=cubes,
        pes=cubes * pes,
        tile=tile,
        merge=merge,
        prefetch=prefetch,
        **sizes,
    )
    found = counts(result)
    assert found["copy"] == expected_copies(cubes, pes, keys, tile)
    assert found["dma_write"] == 1
    assert sum(kind == "merge" for kind in result.op_log.rows.scopes.kind) == cubes * pes - 1


def test_the_exam_question() -> None:
    assert expected_copies(2, 8, 2 * 8 * 3 * 4, 4) == 141


@pytest.mark.parametrize("cubes", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("tile", [None, 2])
def test_copies_of_a_ring(cubes: int, tile: int | None) -> None:
    """Every fold but a cube's first writes back three handles: blocks - 1 of them, or tiles - 1."""
    keys = 5 * cubes
    result = kb.bench(
        "gqa_prefill", data=False, cubes=cubes, tile=tile, T_q=2 * cubes, S_kv=keys, h_q=2, h_kv=1, d=8
    )
    folds = cubes * (1 if tile is None else 3)
    assert counts(result)["copy"] == 3 * cubes * (folds - 1)
    assert counts(result)["dma_write"] == cubes


# -- kernels that are called wrongly -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"h_kv": 3}, ValueError, "h_q=8 and h_kv=3"),
        ({"h_kv": 0}, ValueError, "h_q=8 and h_kv=0"),
        ({"P": 4}, ValueError, r"told C=1 cubes of P=4 PEs, and runs on 1 of 8"),
        ({"C": 2}, ValueError, r"told C=2 cubes of P=8 PEs, and runs on 1 of 8"),
        ({"merge": "ring"}, ValueError, "merge must be 'chain' or 'tree', got 'ring'"),
    ],
)
def test_a_decode_that_is_told_other_things_than_its_launch(
    change: dict[str, Any], error: type[Exception], text: str
) -> None:
    sizes = {"T_q": 1, "S_kv": 64, "h_q": 8, "h_kv": 1, "d_head": D, "C": 1, "P": 8} | change

    def bench(ctx: Any) -> None:
        configure_sfr_intercube_multisip(ctx.engine, ctx.spec, config())
        whole, rows = DPPolicy(num_pes=8), DPPolicy(pe="row_wise", num_pes=8)
        q, o = (ctx.zeros((1, 8 * D), dp=whole, name=name) for name in "qo")
        k, v = (ctx.zeros((64, D), dp=rows, name=name) for name in "kv")
        ctx.launch("decode", gqa_decode_long_kernel, q, k, v, o, **sizes)

    with pytest.raises(error, match=text) as caught:
        run(bench)
    assert len(caught.value.run.op_log) == 0  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"h_q": 3, "h_kv": 2}, "h_q=3 and h_kv=2"),
        ({"C": 2}, "told C=2 cubes, and runs on 4"),
        ({"direction": "left"}, "direction must be 'next' or 'prev', got 'left'"),
    ],
)
def test_a_ring_that_is_told_other_things_than_its_launch(change: dict[str, Any], text: str) -> None:
    def bench(ctx: Any) -> None:
        configure_sfr_intercube_ring(ctx.engine, ctx.spec, config(), ring_size=4)
        rows = DPPolicy(cube="row_wise", num_cubes=4)
        q, k, v, o = (ctx.zeros((16, D), dp=rows, name=name) for name in "qkvo")
        sizes = {"T_q": 4, "S_kv": 16, "d_head": D, "C": 4} | change
        ctx.launch("prefill", gqa_prefill_long_kernel, q, k, v, o, **sizes)

    with pytest.raises(ValueError, match=text):
        run(bench)


def test_a_ring_without_its_directions_says_which_there_are() -> None:
    def bench(ctx: Any) -> None:
        configure_sfr_intercube_multisip(ctx.engine, ctx.spec, config())
        rows = DPPolicy(cube="row_wise", num_cubes=4)
        q, k, v, o = (ctx.zeros((16, D), dp=rows, name=name) for name in "qkvo")
        ctx.launch("prefill", gqa_prefill_long_kernel, q, k, v, o, 4, 16, D, 4)

    with pytest.raises(
        RuntimeError, match=r"direction 'ring_next' .*not installed. Directions of PE 0: .*E -> PE 8"
    ):
        run(bench)


@pytest.mark.parametrize(("slots", "fits"), [(0, False), (1, False), (2, True), (3, True)])
def test_a_ring_needs_two_slots_a_direction(slots: int, fits: bool) -> None:
    sizes = {"T_q": 8, "S_kv": 8, "h_q": 1, "h_kv": 1, "d": 8, "cubes": 4}
    machine = {"base": "ahbm", "pe.ipc.slots": slots}
    if fits:
        kb.bench("gqa_prefill", topology=machine, **sizes).check()
        return
    with pytest.raises(kb.DeadlockError, match=r"4 of 4 PEs are blocked"):
        kb.bench("gqa_prefill", topology=machine, **sizes)


@pytest.mark.parametrize("merge", ["chain", "tree"])
@pytest.mark.parametrize("slots", [0, 1])
def test_merges_need_no_slots(merge: str, slots: int) -> None:
    sizes = {"S_kv": 64, "h_q": 2, "h_kv": 1, "d": 8, "pes": 16, "tile": 4}
    kb.bench("gqa_decode", topology={"base": "ahbm", "pe.ipc.slots": slots}, merge=merge, **sizes).check()
