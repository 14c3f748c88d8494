"""HBM bytes and elements of each kernel against their closed forms."""

from __future__ import annotations

import math
from typing import Any

import pytest

import kernbench_nb as kb


def elements(run: kb.RunResult) -> int:
    """Elements that crossed HBM, whatever their width."""
    return sum(math.prod(r.shapes[-1]) for r in run.op_log if r.engine == "dma")


def by_tensor(run: kb.RunResult) -> dict[str, int]:
    found: dict[str, int] = {}
    for record in run.op_log:
        if record.tensor:
            found[record.tensor] = found.get(record.tensor, 0) + (record.nbytes or 0)
    return found


def flash(N: int, **how: Any) -> kb.RunResult:
    sizes = {"T_q": N, "S_kv": N, "h_q": 1, "h_kv": 1, "d": 64}
    return kb.bench("flash_attention", data=False, **{**sizes, **how})


@pytest.mark.parametrize("rows", [8, 16, 64, 128])
@pytest.mark.parametrize(("N", "nbytes"), [(64, 65_536), (128, 196_608), (256, 655_360), (319, 977_416)])
def test_standard_attention(N: int, nbytes: int, rows: int) -> None:
    """(4 N^2 + 4 N d) * 2, whatever the height of a block; S and P are written and read once each."""
    run = kb.bench("naive_attention", T_q=N, S_kv=N, h_q=1, h_kv=1, d=64, rows=rows, data=False)
    assert run.hbm_bytes == (4 * N * N + 4 * N * 64) * 2 == nbytes
    assert by_tensor(run) == {**dict.fromkeys("QKVO", 2 * N * 64), **dict.fromkeys("SP", 4 * N * N)}


def test_the_exam_on_standard_attention() -> None:
    at = {
        n: kb.bench("naive_attention", T_q=n, S_kv=n, h_q=1, h_kv=1, d=64, data=False).hbm_bytes
        for n in (256, 512)
    }
    assert at[512] == 2_359_296
    assert at[512] / at[256] == pytest.approx(3.6)


def test_standard_attention_of_a_group_reads_its_keys_once_a_query_head() -> None:
    run = kb.bench("naive_attention", T_q=32, S_kv=48, h_q=6, h_kv=2, d=16, data=False)
    assert by_tensor(run) == {
        "Q": 2 * 32 * 6 * 16, "O": 2 * 32 * 6 * 16, "K": 6 * 2 * 48 * 16, "V": 6 * 2 * 48 * 16,
        "S": 2 * 6 * 2 * 32 * 48, "P": 2 * 6 * 2 * 32 * 48,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("tile_q", "tile_kv"),
    [(16, 16), (16, 319), (32, 64), (64, 16), (64, 64), (64, 128), (128, 64), (319, 16)],
)
@pytest.mark.parametrize("N", [64, 319])
def test_queries_outside(N: int, tile_q: int, tile_kv: int) -> None:
    """(2 + 2 T_r) N d elements: the KV tile makes no difference."""
    run = flash(N, tile_q=tile_q, tile_kv=tile_kv)
    passes = -(-N // tile_q)
    assert elements(run) == (2 + 2 * passes) * N * 64
    assert run.hbm_bytes == 2 * elements(run)


@pytest.mark.parametrize(
    ("tile_q", "nbytes"), [(16, 1_714_944), (32, 898_304), (64, 489_984), (128, 326_656), (319, 163_328)]
)
def test_the_courses_table_of_query_blocks(tile_q: int, nbytes: int) -> None:
    assert flash(319, tile_q=tile_q).hbm_bytes == nbytes


@pytest.mark.parametrize(
    ("tile_q", "tile_kv"), [(16, 16), (319, 16), (64, 32), (64, 64), (16, 319), (64, 319)]
)
@pytest.mark.parametrize("N", [64, 319])
def test_keys_outside(N: int, tile_kv: int, tile_q: int) -> None:
    """(2 + 3 T_c) N d + 4 N T_c elements: Q, O there and back, m and l there and back on each pass."""
    run = flash(N, tile_q=tile_q, tile_kv=tile_kv, order="fa1")
    passes = -(-N // tile_kv)
    assert elements(run) == (2 + 3 * passes) * N * 64 + 4 * N * passes
    assert by_tensor(run) == {
        **dict.fromkeys("KV", 2 * N * 64), "Q": 2 * passes * N * 64, "O": 4 * 2 * passes * N * 64,
        **dict.fromkeys("ml", 4 * 2 * N * passes),
    }  # fmt: skip


def test_both_orders_at_the_courses_tiles() -> None:
    assert elements(flash(319)) == 244_992
    assert elements(flash(319, order="fa1")) == 353_452


@pytest.mark.parametrize("M", [8192, 16_384, 65_536])
def test_keys_outside_go_with_one_over_m(M: int) -> None:
    """(elements - 2Nd - 4 N T_c) * M = 12 N^2 d^2 with B_kv = M / 4d: the slope is -1, exactly."""
    N, d = 1024, 64
    tile_kv = M // (4 * d)
    run = flash(N, tile_q=min(tile_kv, d), tile_kv=tile_kv, order="fa1")
    assert (elements(run) - 2 * N * d - 4 * N * (N // tile_kv)) * M == 12 * N * N * d * d


@pytest.mark.parametrize("order", ["fa2", "fa1"])
def test_a_mask_and_a_causal_one(order: str) -> None:
    q = k = kb.sample_attention()[0][:64, :1]
    plain = kb.flash(q, k, k, tile_q=16, tile_kv=16, order=order, data=False)
    masked = kb.flash(q, k, k, tile_q=16, tile_kv=16, order=order, data=False, mask=[[True] * 64] * 64)
    assert masked.hbm_bytes - plain.hbm_bytes == 64 * 64  # a byte a pair, read once
    causal = kb.flash(q, k, k, tile_q=16, tile_kv=16, order=order, data=False, causal=True)
    if order == "fa2":
        assert by_tensor(causal)["K"] == by_tensor(plain)["K"] * 10 // 16
    else:
        assert by_tensor(causal)["O"] == by_tensor(plain)["O"] * 10 // 16


@pytest.mark.parametrize("pes", [1, 2, 8, 16])
@pytest.mark.parametrize("prefetch", [False, True])
def test_decode_reads_each_key_once_and_q_once_a_pe(pes: int, prefetch: bool) -> None:
    q, k, v = kb.sample_attention()
    run = kb.decode(q[-1:], k, v, pes=pes, tile=16, data=False, prefetch=prefetch)
    assert by_tensor(run) == {"K": k.nbytes, "V": v.nbytes, "Q": pes * q[-1:].nbytes, "O": q[-1:].nbytes}
    assert pes != 8 or run.hbm_bytes == 255_360


@pytest.mark.parametrize(("S", "G"), [(152, 1), (1024, 4), (4096, 8)])
def test_intensity_of_a_decode(S: int, G: int) -> None:
    """FLOP over bytes is S G / (S + G) on one PE, exactly."""
    run = kb.bench("gqa_decode", h_q=8, h_kv=8 // G, d=64, S_kv=S, pes=1, data=False)
    assert run.flops * (S + G) == run.hbm_bytes * S * G
    assert run.flops == 4 * S * 64 * 8


@pytest.mark.parametrize("cubes", [1, 2, 4])
def test_a_ring_reads_each_block_once_a_turn_and_sends_it_on(cubes: int) -> None:
    N, h_q, h_kv, d, tile_q = 48, 6, 2, 16, 6
    run = kb.bench(
        "gqa_prefill", T_q=N, S_kv=N, h_q=h_q, h_kv=h_kv, d=d, cubes=cubes, tile_q=tile_q, data=False
    )
    turns = N // cubes // tile_q
    assert by_tensor(run) == {
        "Q": 2 * N * h_q * d, "O": 2 * N * h_q * d, **dict.fromkeys("KV", turns * 2 * N * h_kv * d)
    }  # fmt: skip
    sent = sum(r.nbytes or 0 for r in run.op_log if r.op_name == "ipc_send")
    assert sent == (cubes - 1) * turns * 2 * 2 * N * h_kv * d
