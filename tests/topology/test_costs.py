"""Each timing formula at values worked out by hand, and just beside them."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernbench_nb.topology import costs, resolve_topology
from kernbench_nb.topology.costs import CostModel

PS = st.integers(0, 50_000)
NS = 1000


def model(**changes: Any) -> CostModel:
    """Costs of `ahbm` with single numbers changed; `pe__math__lanes=64` is `pe.math.lanes`."""
    return resolve_topology({"base": "ahbm", **{k.replace("__", "."): v for k, v in changes.items()}}).costs


@dataclass(frozen=True)
class Wire:
    gb_per_s: int | Fraction | None
    latency_ps: int


# Whole numbers and rounding


@pytest.mark.parametrize(
    ("a", "b", "up"), [(0, 7, 0), (1, 7, 1), (7, 7, 1), (8, 7, 2), (10**30 + 1, 10**15, 10**15 + 1)]
)
def test_ceil_div(a: int, b: int, up: int) -> None:
    assert costs.ceil_div(a, b) == up


@pytest.mark.parametrize(("n", "up"), [(0, 0), (1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (128, 7), (129, 8)])
def test_ceil_log2(n: int, up: int) -> None:
    assert costs.ceil_log2(n) == up


@pytest.mark.parametrize(
    ("ns", "ps"), [(0, 0), (50, 50_000), (0.1, 100), (0.0001, 1), (0.3, 300), (1.0005, 1001), (1e-9, 1)]
)
def test_nanoseconds_are_taken_as_written_and_rounded_up(ns: float, ps: int) -> None:
    assert costs.ns_to_ps(ns) == ps


@pytest.mark.parametrize(
    ("cycles", "ghz", "ps"),
    [
        (0, "1", 0),
        (1, "1", 1000),
        (3, "2", 1500),
        (1, "1.755", 570),  # 569.8
        (7, "1.755", 3989),  # 3988.6, where seven rounded cycles would make 3990
        (1755, "1.755", 1_000_000),
        (1756, "1.755", 1_000_570),
    ],
)
def test_cycles_are_rounded_once_not_each(cycles: int, ghz: str, ps: int) -> None:
    assert costs.cycles_to_ps(cycles, Fraction(ghz)) == ps
    assert model(pe__clock_ghz=float(ghz)).cycles_ps(cycles) == ps


# 1. Dispatch


def test_dispatch() -> None:
    assert model().dispatch_ps == 4 * NS
    assert model(pe__dispatch_cycles=0).dispatch_ps == 0
    assert model(pe__clock_ghz=3).dispatch_ps == 1334  # 1333.3


# 2. GEMM


@pytest.mark.parametrize(
    ("batch", "m", "n", "k", "cycles"),
    [
        (1, 1, 1, 1, 21),
        (1, 16, 16, 16, 21),
        (1, 17, 16, 16, 22),
        (1, 16, 17, 16, 22),
        (1, 16, 16, 17, 22),
        (1, 17, 17, 17, 28),
        (3, 17, 17, 17, 44),  # a batch multiplies the product, not the depth
        (3, 3, 64, 64, 68),
        (1, 16, 16, 0, 20),
        (0, 16, 16, 16, 20),
    ],
)
def test_gemm_native(batch: int, m: int, n: int, k: int, cycles: int) -> None:
    assert model().gemm_ps(batch, m, n, k) == cycles * NS


@pytest.mark.parametrize(
    ("batch", "m", "n", "k", "cycles"),
    [
        (1, 16, 8, 64, 64 + 32 + 8 - 2),
        (1, 17, 8, 64, 128 + 38),
        (1, 16, 9, 64, 128 + 38),
        (1, 16, 8, 65, 65 + 38),
        (2, 16, 8, 64, 128 + 38),  # the array is filled and drained once
        (1, 33, 17, 10, 3 * 3 * 10 + 38),
    ],
)
def test_gemm_systolic(batch: int, m: int, n: int, k: int, cycles: int) -> None:
    systolic = model(pe__gemm__model="systolic", pe__gemm__rows=16, pe__gemm__cols=8)
    assert systolic.gemm_ps(batch, m, n, k) == cycles * NS
    assert systolic.macs_per_cycle == 128


def test_gemm_other_tile() -> None:
    wide = model(pe__gemm__tile_m=8, pe__gemm__tile_n=32, pe__gemm__tile_k=64, pe__gemm__depth_cycles=0)
    assert wide.gemm_ps(1, 8, 32, 64) == 1 * NS
    assert wide.gemm_ps(1, 9, 33, 65) == 8 * NS
    assert wide.macs_per_cycle == 8 * 32 * 64


# 3. Math


@pytest.mark.parametrize(
    ("op", "n", "cycles"),
    [
        ("add", 0, 8),
        ("add", 1, 9),
        ("add", 128, 9),
        ("add", 129, 10),
        ("full", 256, 10),  # creation is a math operation
        ("exp", 1, 16),
        ("exp", 128, 16),
        ("exp", 129, 24),
    ],
)
def test_math(op: str, n: int, cycles: int) -> None:
    assert model().math_ps(op, n) == cycles * NS


def test_slow_operations_are_those_of_the_table() -> None:
    table = ["exp", "exp2", "log", "log2", "div", "sqrt", "rsqrt", "sigmoid", "erf", "sin", "cos", "pow"]
    assert sorted(costs.SLOW_OPS) == sorted(table)
    quick = (
        "add", "sub", "mul", "neg", "maximum", "minimum", "where", "cast", "full", "zeros", "arange",
        "floor", "ceil", "fma", "clamp", "abs", "clone",
    )  # fmt: skip
    assert {model().math_ps(op, 1) for op in table} == {16 * NS}
    assert {model().math_ps(op, 1) for op in quick} == {9 * NS}


@pytest.mark.parametrize(("n", "cycles"), [(0, 15), (1, 16), (128, 16), (129, 17), (576, 20)])
def test_reduce(n: int, cycles: int) -> None:
    assert model().reduce_ps("sum", n) == cycles * NS
    assert model().reduce_ps("max", n) == cycles * NS


@pytest.mark.parametrize(("lanes", "tree"), [(1, 0), (2, 1), (100, 7), (128, 7), (129, 8)])
def test_a_reduction_adds_the_lanes_tree_once(lanes: int, tree: int) -> None:
    narrow = model(pe__math__lanes=lanes)
    for groups in (1, 5):
        n = groups * lanes
        assert narrow.reduce_ps("sum", n) - narrow.math_ps("add", n) == tree * NS


@pytest.mark.parametrize(("n", "cycles"), [(1, 41), (128, 41), (129, 60), (256, 60), (257, 79)])
def test_softmax(n: int, cycles: int) -> None:
    assert model().softmax_ps(n) == cycles * NS


@given(n=st.integers(0, 10_000), lanes=st.integers(1, 300), fill=st.integers(0, 20), slow=st.integers(1, 9))
def test_softmax_is_its_parts_with_one_fill(n: int, lanes: int, fill: int, slow: int) -> None:
    kind = {"lanes": lanes, "fill": fill}
    parts = (
        costs.reduce_cycles(n, per_group=1, **kind),
        costs.math_cycles(n, per_group=1, **kind),
        costs.math_cycles(n, per_group=slow, **kind),
        costs.reduce_cycles(n, per_group=1, **kind),
        costs.math_cycles(n, per_group=slow, **kind),
    )
    assert costs.softmax_cycles(n, slow=slow, **kind) == sum(parts) - 4 * fill


@pytest.mark.parametrize(("nbytes", "cycles"), [(0, 0), (1, 1), (512, 1), (513, 2), (2304, 5)])
def test_copy_has_no_fill(nbytes: int, cycles: int) -> None:
    assert model().copy_ps(nbytes) == cycles * NS


# 4. HBM


@pytest.mark.parametrize(
    ("nbytes", "ps"),
    [(0, 50_000), (1, 50_005), (2175, 59_996), (2176, 60_000), (2177, 60_005), (24_576, 162_942)],
)
def test_hbm_busy(nbytes: int, ps: int) -> None:
    assert model().hbm_busy_ps(nbytes) == ps  # 217.6 GB/s
    pure = costs.hbm_busy_ps(nbytes, setup_ns=50, peak_gb_per_s=256, efficiency_percent=85)
    assert pure == ps


def test_hbm_setup_and_transfer_are_rounded_together() -> None:
    # Half a picosecond of set-up and half a picosecond a byte: 1 ps, where rounding each would make 2.
    half = model(
        pe__dma__setup_ns=0.0005,
        pe__hbm__pseudo_channels=1,
        pe__hbm__gb_per_s_per_channel=2000,
        pe__hbm__efficiency_percent=100,
    )
    assert [half.hbm_busy_ps(n) for n in (0, 1, 2, 3)] == [1, 1, 2, 2]


def test_hbm_without_setup_or_latency() -> None:
    bare = model(pe__dma__setup_ns=0, pe__hbm__latency_ns=0)
    assert bare.hbm_latency_ps == 0
    assert bare.hbm_busy_ps(0) == 0
    assert bare.hbm_busy_ps(2176) == 10_000


def test_hbm_rates() -> None:
    assert model().hbm_peak_gb_per_s == 256
    assert model().hbm_gb_per_s == Fraction(2176, 10)


@given(
    nbytes=st.integers(0, 10**7),
    setup=st.decimals(0, 100, places=3),
    rate=st.decimals("0.1", 500, places=2),
    percent=st.integers(1, 100),
)
def test_the_model_agrees_with_the_pure_function(nbytes: int, setup: Any, rate: Any, percent: int) -> None:
    changed = model(
        pe__dma__setup_ns=float(setup),
        pe__hbm__gb_per_s_per_channel=float(rate),
        pe__hbm__efficiency_percent=percent,
    )
    exact = Fraction(setup) * 1000 + Fraction(nbytes * 1000 * 100) / (8 * Fraction(rate) * percent)
    busy = changed.hbm_busy_ps(nbytes)
    assert exact <= busy < exact + 1
    assert busy == costs.hbm_busy_ps(
        nbytes,
        setup_ns=Fraction(setup),
        peak_gb_per_s=8 * Fraction(rate),
        efficiency_percent=percent,
    )


@pytest.mark.parametrize(("k", "ps"), [(0, 0), (1, 150), (2, 200), (10, 600)])
def test_hbm_latency_never_occupies_the_channel(k: int, ps: int) -> None:
    assert costs.hbm_queue_ps(k, 50, 100) == ps


@pytest.mark.parametrize(
    ("busys", "ps"),
    [
        ([], 0),
        ([50], 4 + 50 + 100),
        ([50, 60], 4 + 110 + 100),
        ([4, 4], 4 + 8 + 100),  # at the edge: the channel is just free when the second is issued
        ([3, 4], 8 + 4 + 100),  # beside it: the channel waits for the issue
        ([5, 4], 4 + 9 + 100),
        ([0, 0], 8 + 100),
        ([1, 2, 50], 12 + 50 + 100),  # all but the last hide behind their dispatches
    ],
)
def test_loads_of_one_tile(busys: list[int], ps: int) -> None:
    assert costs.load_ps(4, busys, 100) == ps


def test_loads_with_nothing_but_latency() -> None:
    assert costs.load_ps(0, [0], 100) == 100
    assert costs.load_ps(0, [], 100) == 0


# 5. Links


@pytest.mark.parametrize(
    ("nbytes", "rate", "ps"),
    [
        (0, 64, 0),
        (1, 64, 16),  # 15.6
        (64, 64, 1000),
        (65, 64, 1016),
        (128, Fraction(1, 2), 256_000),
        (10**9, None, 0),
    ],
)
def test_link(nbytes: int, rate: int | Fraction | None, ps: int) -> None:
    assert costs.link_ps(nbytes, rate) == ps


def test_a_path_costs_its_latencies_and_its_narrowest_link() -> None:
    narrow, wide, endless = Wire(64, 5000), Wire(256, 10_000), Wire(None, 7000)
    assert costs.path_ps(640, [narrow, wide]) == 15_000 + 10_000
    assert costs.path_ps(640, [wide, narrow]) == 15_000 + 10_000
    assert costs.path_ps(640, [wide]) == 10_000 + 2500
    assert costs.path_ps(640, [endless]) == 7000
    assert costs.path_ps(640, []) == 0


WIRES = st.lists(
    st.builds(Wire, st.sampled_from([1, 3, 64, Fraction(5, 2), None]), PS), min_size=1, max_size=6
)


@given(wires=WIRES, nbytes=st.integers(0, 5000), start=PS)
def test_cut_through_alone_is_the_closed_form(wires: list[Wire], nbytes: int, start: int) -> None:
    head = tail = start
    for wire in wires:
        head, tail, end = costs.link_pass(
            head, tail, 0, costs.link_ps(nbytes, wire.gb_per_s), wire.latency_ps
        )
        assert tail == end + wire.latency_ps
    assert tail == start + costs.path_ps(nbytes, wires)


def test_cut_through_by_hand() -> None:
    # A wide link after a narrow one: the tail, not the wide link, decides, and the link is busy at the end only.
    assert costs.link_pass(0, 0, 0, 100, 5) == (5, 105, 100)
    assert costs.link_pass(5, 105, 0, 25, 10) == (15, 115, 105)
    # The same, but the wide link is taken until 90, or until 81, just too late.
    assert costs.link_pass(5, 105, 80, 25, 10) == (90, 115, 105)
    assert costs.link_pass(5, 105, 81, 25, 10) == (91, 116, 106)


@given(wires=WIRES, sizes=st.lists(st.integers(0, 3000), min_size=1, max_size=6), gap=st.integers(0, 2000))
def test_no_link_is_busy_twice(wires: list[Wire], sizes: list[int], gap: int) -> None:
    free = [0] * len(wires)
    for i, nbytes in enumerate(sizes):
        head = tail = i * gap
        for hop, wire in enumerate(wires):
            busy = costs.link_ps(nbytes, wire.gb_per_s)
            head, tail, end = costs.link_pass(head, tail, free[hop], busy, wire.latency_ps)
            assert end - busy >= free[hop]
            free[hop] = end
        assert tail >= i * gap + costs.path_ps(nbytes, wires)


@pytest.mark.parametrize("k", [0, 1, 2, 9])
def test_k_senders_into_one_link(k: int) -> None:
    free = last = 0
    for _ in range(k):
        _, last, free = costs.link_pass(0, 0, free, costs.link_ps(65, 64), 5000)
    assert last == costs.link_queue_ps(k, 65, 64, 5000) == (k * 1016 + 5000 if k else 0)


# 6. Sweeps


def simulated_sweep(tiles: int, load: int, issue: int, computes: list[int], prefetch: bool) -> int:
    """The sweep as the kernel runs it: `load` counts from the issue of a tile's loads to its data."""
    now, ready = 0, [0] * (tiles + 1)
    for tile in range(tiles):
        if tile == 0 or not prefetch:
            ready[tile] = now + load
        now = max(now, ready[tile])
        if prefetch and tile + 1 < tiles:
            ready[tile + 1] = now + load
            now += issue
        now += computes[tile]
    return now


@pytest.mark.parametrize(
    ("tiles", "ps"), [(0, 0), (1, 430 + 400), (2, 860 + 400 + 420), (100, 43_000 + 400 + 99 * 420)]
)
def test_sweep(tiles: int, ps: int) -> None:
    assert costs.sweep_ps(tiles, 430, 400, 420) == ps


@pytest.mark.parametrize(
    ("load", "ps"),
    [
        (427, 427 + 428 + 2 * 428 + 420),  # compute-bound
        (428, 428 + 428 + 2 * 428 + 420),  # at the edge
        (429, 429 + 429 + 2 * 429 + 420),  # load-bound
    ],
)
def test_sweep_with_prefetch_on_both_sides_of_the_edge(load: int, ps: int) -> None:
    assert costs.sweep_prefetch_ps(4, load, 8, 420, 420) == ps
    assert costs.sweep_prefetch_equal_ps(4, load, 8, 420) == ps


@pytest.mark.parametrize(
    ("tiles", "ps"), [(0, 0), (1, 430 + 300), (2, 430 + 430 + 420), (3, 430 + 430 + 430 + 420)]
)
def test_sweep_with_prefetch_and_a_shorter_first_tile(tiles: int, ps: int) -> None:
    assert costs.sweep_prefetch_ps(tiles, 430, 8, 300, 420) == ps


def test_the_first_tile_may_bind_alone() -> None:
    assert costs.sweep_prefetch_ps(3, 430, 8, 423, 100) == 430 + 431 + 430 + 100


def test_the_gain_of_the_course() -> None:
    plain = costs.sweep_ps(100, 430, 420, 420)
    prefetched = costs.sweep_prefetch_equal_ps(100, 430, 8, 420)
    assert (plain, prefetched) == (85_000, 43_420)


@given(tiles=st.integers(0, 12), load=PS, issue=PS, c_first=PS, c=PS)
def test_sweeps_are_what_the_kernel_does(tiles: int, load: int, issue: int, c_first: int, c: int) -> None:
    computes = [c_first] + [c] * (tiles - 1)
    single = simulated_sweep(tiles, load, issue, computes, prefetch=False)
    double = simulated_sweep(tiles, load, issue, computes, prefetch=True)
    assert costs.sweep_ps(tiles, load, c_first, c) == single
    assert costs.sweep_prefetch_ps(tiles, load, issue, c_first, c) == double
    equal = simulated_sweep(tiles, load, issue, [c] * tiles, prefetch=True)
    assert costs.sweep_prefetch_equal_ps(tiles, load, issue, c) == equal


@given(tiles=st.integers(0, 12), load=PS, issue=PS, c_first=PS, c=PS)
def test_equal_tiles_one_by_one_are_the_closed_forms(
    tiles: int, load: int, issue: int, c_first: int, c: int
) -> None:
    loads, issues, computes = [load] * tiles, [issue] * tiles, [c_first, *[c] * tiles][:tiles]
    assert costs.sweep_tiles_ps(loads, computes) == costs.sweep_ps(tiles, load, c_first, c)
    ahead = costs.sweep_prefetch_tiles_ps(loads, issues, computes)
    assert ahead == costs.sweep_prefetch_ps(tiles, load, issue, c_first, c)


@pytest.mark.parametrize(
    ("last_load", "last_c", "ps"),
    [(427, 420, 430 + 430 + 428 + 420), (429, 420, 430 + 430 + 429 + 420), (0, 1, 430 + 430 + 428 + 1)],
)
def test_a_short_last_tile(last_load: int, last_c: int, ps: int) -> None:
    loads, computes = [430, 430, last_load], [300, 420, last_c]
    assert costs.sweep_prefetch_tiles_ps(loads, [8] * 3, computes) == ps
    assert costs.sweep_tiles_ps(loads, computes) == 860 + last_load + 720 + last_c


@given(tiles=st.integers(1, 50), load=PS, issue=PS, c=PS)
def test_prefetch_gains_at_most_twice(tiles: int, load: int, issue: int, c: int) -> None:
    assert costs.sweep_ps(tiles, load, c, c) <= 2 * costs.sweep_prefetch_equal_ps(tiles, load, issue, c)


def test_a_tile_of_the_real_model() -> None:
    """(h_q, h_kv, d) = (9, 3, 64), 64 keys: L = 430 ns and C = 420 ns, the numbers of the course."""
    ahbm = model()
    rows, keys, d = 9, 64, 64
    busy = ahbm.hbm_busy_ps(keys * 3 * d * 2)
    assert costs.load_ps(ahbm.dispatch_ps, [busy, busy], ahbm.hbm_latency_ps) == 429_884
    fold = [
        ahbm.gemm_ps(3, 3, keys, d),
        ahbm.math_ps("mul", rows * keys),
        ahbm.reduce_ps("max", rows * keys),
        ahbm.math_ps("maximum", rows),
        ahbm.math_ps("sub", rows * keys),
        ahbm.math_ps("exp", rows * keys),
        ahbm.math_ps("sub", rows),
        ahbm.math_ps("exp", rows),
        ahbm.math_ps("mul", rows),
        ahbm.reduce_ps("sum", rows * keys),
        ahbm.math_ps("add", rows),
        ahbm.math_ps("mul", rows * d),
        ahbm.math_ps("cast", rows * keys),
        ahbm.gemm_ps(3, 3, d, keys),
        ahbm.math_ps("add", rows * d),
        ahbm.copy_ps(rows * 4),
        ahbm.copy_ps(rows * 4),
        ahbm.copy_ps(rows * d * 4),
    ]
    assert sum(fold) + len(fold) * ahbm.dispatch_ps == 420_000


# 7. Chain and tree


def test_chain_step() -> None:
    assert costs.chain_step_ps(4, 36, 5, 200) == 4 + 36 + 5 + 200
    assert costs.chain_step_ps(4, 36, 5, 200, messages=3) == 12 + 36 + 5 + 200


@pytest.mark.parametrize(("small", "extra"), [(0, 0), (4, 0), (5, 2), (6, 4)])
def test_three_messages_while_the_small_ones_hide(small: int, extra: int) -> None:
    queued = costs.queue_ps(4, [small, small, 36], 5)
    assert queued + 200 == costs.chain_step_ps(4, 36, 5, 200, messages=3) + extra


@pytest.mark.parametrize(("p", "ps"), [(0, 0), (1, 0), (2, 267), (3, 534), (4, 801), (8, 1869)])
def test_chain(p: int, ps: int) -> None:
    assert costs.chain_ps(p, 267) == ps


@pytest.mark.parametrize(
    ("p", "rounds"), [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (8, 3), (9, 4), (256, 8), (257, 9)]
)
def test_tree_rounds(p: int, rounds: int) -> None:
    assert costs.tree_rounds(p) == rounds


def test_a_tree_is_a_chain_at_two_and_shorter_from_four() -> None:
    assert costs.tree_ps(2, 267) == costs.chain_ps(2, 267) == 267
    assert costs.tree_ps(4, 267, 5) == 539 < costs.chain_ps(4, 267)
    assert costs.tree_ps(8, 267, 20) == 821 < costs.chain_ps(8, 267)
    assert costs.tree_ps(1, 267) == 0


# 8. Ring


@pytest.mark.parametrize(
    ("hop", "ps"), [(0, 100 + 3 * 116), (115, 100 + 3 * 116), (116, 100 + 3 * 116), (117, 100 + 3 * 117)]
)
def test_a_ring_hides_its_hops_up_to_the_fold_and_four_dispatches(hop: int, ps: int) -> None:
    assert costs.ring_ps(4, 100, 4, hop) == ps


def test_a_ring_of_one_only_computes() -> None:
    assert costs.ring_ps(1, 100, 4, 10_000) == 100
    assert costs.ring_hops_ps(100, 4, [10_000]) == 100


def test_ring_hop() -> None:
    assert costs.ring_hop_ps(4000, 2_048_000, 25_000) == 2_077_000


@given(p=st.integers(1, 9), compute=PS, dispatch=st.integers(0, 50), hop=PS)
def test_a_ring_of_equal_hops_is_the_closed_form(p: int, compute: int, dispatch: int, hop: int) -> None:
    assert costs.ring_hops_ps(compute, dispatch, [hop] * p) == costs.ring_ps(p, compute, dispatch, hop)


def test_a_long_wrap_delays_only_the_blocks_that_take_it() -> None:
    # By hand, C = 50: in hand after step 1 at 100 50 50 50, after 2 at 150 110 100 100, after 3 at 200 160 150 150.
    assert costs.ring_hops_ps(50, 0, [10, 10, 10, 100]) == 250
    assert costs.ring_ps(4, 50, 0, 100) == 350


# 9. All-reduce


@pytest.mark.parametrize(
    ("p", "nbytes", "ps"),
    [
        (1, 4096, 0),
        (2, 4096, 2 * (10_000 + 32_000)),
        (4, 4096, 6 * 26_000),
        (4, 4097, 6 * 26_004),
        (4, 0, 6 * 10_000),
    ],
)
def test_ring_allreduce(p: int, nbytes: int, ps: int) -> None:
    assert costs.ring_allreduce_ps(p, 10_000, nbytes, 64) == ps


def test_ring_allreduce_over_infinitely_wide_links() -> None:
    assert costs.ring_allreduce_ps(4, 10_000, 4096, None) == 60_000


@pytest.mark.parametrize(
    ("before", "after", "ps"),
    [
        (0, 0, 0),
        (1, 0, 10 + 3),
        (0, 1, 10 + 3),
        (2, 0, 23 + 3),
        (1, 1, 10 + 3 + 3),  # both arrive at once: two additions in a row
        (2, 1, 23 + 3),  # the nearer side is added while the farther one is on its way
        (1, 2, 23 + 3),
        (2, 2, 23 + 6),
    ],
)
def test_a_line_reduces_onto_its_centre(before: int, after: int, ps: int) -> None:
    assert costs.line_reduce_ps(before, after, 10, 3) == ps


@pytest.mark.parametrize(
    ("before", "after", "ps"), [(0, 0, 0), (1, 0, 10), (0, 2, 20), (1, 1, 14), (2, 1, 20), (2, 2, 24)]
)
def test_a_line_broadcasts_the_longer_side_first(before: int, after: int, ps: int) -> None:
    assert costs.line_broadcast_ps(before, after, 10, 4) == ps


def test_the_hierarchical_allreduce_adds_its_phases() -> None:
    rows, column = costs.line_reduce_ps(2, 1, 10, 3), costs.line_reduce_ps(2, 1, 10, 3)
    back = costs.line_broadcast_ps(2, 1, 10, 4)
    assert costs.hierarchical_allreduce_ps([rows, column, 100, back, back]) == 26 + 26 + 100 + 20 + 20
