"""The closed forms of `topology/costs.py`, sections 6 to 8, on the real kernels: the difference is zero.

Costs of operations come from the machine's formulas (`fold_costs`), never from the run that is tested.
"""

from __future__ import annotations

from typing import Any

import pytest

import kernbench_nb as kb
from kernbench_nb.topology import Topology, costs, resolve_topology
from tests.benches.fold_costs import StepCosts

SHAPES = {
    "sample": (9, 3, 64, 16),
    "load-bound": (8, 1, 128, 256),
    "wide": (64, 8, 128, 16),
    "small": (3, 1, 8, 1),
}
MACHINES: dict[str, dict[str, Any]] = {
    "default": {},
    "slow HBM": {"pe.hbm.gb_per_s_per_channel": 2},
    "no dispatch, no latency": {"pe.dispatch_cycles": 0, "pe.hbm.latency_ns": 0},
    "odd clock": {"pe.clock_ghz": 1.7, "pe.hbm.efficiency_percent": 77},
}

by_shape = pytest.mark.parametrize(("h_q", "h_kv", "d", "t"), SHAPES.values(), ids=SHAPES)
on_machines = pytest.mark.parametrize("changes", MACHINES.values(), ids=MACHINES)


def decode(
    machine: Topology, pes: int, keys: int, h_q: int, h_kv: int, d: int, t: int, **how: Any
) -> kb.RunResult:
    sizes = {"h_q": h_q, "h_kv": h_kv, "d": d, "S_kv": keys}
    return kb.bench("gqa_decode", data=False, topology=machine, pes=pes, tile=t, **sizes, **how)


# -- 6: sweeps -------------------------------------------------------------------------------------------------


@by_shape
@on_machines
def test_a_sweep_with_and_without_prefetch(
    h_q: int, h_kv: int, d: int, t: int, changes: dict[str, Any]
) -> None:
    machine = resolve_topology({"base": "single_pe", **changes})
    step = StepCosts(machine, h_q, h_kv, d)
    load, issue = step.load(*step.kv(t)), 2 * step.dispatch
    c_first, c = step.first(t), step.fold(t)
    ends = step.query() + step.finish()
    for tiles in (1, 2, 3, 20):
        plain = decode(machine, 1, tiles * t, h_q, h_kv, d, t)
        ahead = decode(machine, 1, tiles * t, h_q, h_kv, d, t, prefetch=True)
        assert plain.makespan_ps - ends == costs.sweep_ps(tiles, load, c_first, c)
        assert ahead.makespan_ps - ends == costs.sweep_prefetch_ps(tiles, load, issue, c_first, c)
        assert plain.makespan_ps < 2 * ahead.makespan_ps


def test_the_shapes_cover_both_regimes() -> None:
    seen = set()
    for changes in MACHINES.values():
        machine = resolve_topology({"base": "single_pe", **changes})
        for h_q, h_kv, d, t in SHAPES.values():
            step = StepCosts(machine, h_q, h_kv, d)
            seen.add(step.load(*step.kv(t)) > 2 * step.dispatch + step.fold(t))
    assert seen == {True, False}


def test_prefetch_gains_most_where_load_and_compute_are_equal() -> None:
    """The hill of the course: its top stands where L = I + C, and even there the gain is below 2."""

    def gain(t: int) -> float:
        keys = 16 * t
        sizes = {"h_q": 9, "h_kv": 3, "d": 64, "S_kv": keys, "pes": 1, "tile": t, "data": False}
        plain, ahead = (kb.bench("gqa_decode", prefetch=p, **sizes).makespan_ps for p in (False, True))
        return plain / ahead

    gains = {t: gain(t) for t in (16, 32, 64, 128, 256)}
    assert max(gains, key=gains.__getitem__) == 64
    assert 1.8 < gains[64] < 2
    step = StepCosts(resolve_topology(None), 9, 3, 64)
    assert (step.load(*step.kv(64)), step.fold(64) + 2 * step.dispatch) == (429_884, 428_000)


def test_the_terms_of_a_sweep_in_the_log() -> None:
    """Each tile of the log takes L + C, and of that exactly L passes before its first product."""
    step = StepCosts(resolve_topology(None), 9, 3, 64)
    run = decode(step.machine, 1, 5 * 16, 9, 3, 64, 16)
    tiles = [(s, e - s) for s, e in zip(run.tiles["start_ps"], run.tiles["end_ps"], strict=True)]
    load = step.load(*step.kv(16))
    assert [took for _, took in tiles] == [load + step.first(16)] + [load + step.fold(16)] * 4
    loads = [r for r in run.op_log if r.op_name == "dma_read"][1:]
    products = [r for r in run.op_log if r.op_name == "gemm"][::2]
    for (start, _), k, v, product in zip(tiles, loads[::2], loads[1::2], products, strict=True):
        assert k.end_ps < v.end_ps == start + load
        assert product.start_ps == v.end_ps + step.dispatch


def test_the_speech_in_timing() -> None:
    """Notebook 08's numbers: 20 tiles of 64 keys of the sample's heads."""
    plain = decode(resolve_topology(None), 1, 1280, 9, 3, 64, 64)
    ahead = decode(resolve_topology(None), 1, 1280, 9, 3, 64, 64, prefetch=True)
    ends = StepCosts(plain.topology, 9, 3, 64)
    assert plain.makespan_ps - ends.query() - ends.finish() == 16_872_680
    assert ahead.makespan_ps - ends.query() - ends.finish() == 9_017_680


# -- 7: chain and tree -----------------------------------------------------------------------------------------


def merge_step(step: StepCosts) -> int:
    """A step between neighbours: 3D + n_O / b + latency + merge."""
    route = step.machine.route(1, 0)
    transfer = max(link.busy_ps(4 * step.rows * step.d) for link in route.links)
    return costs.chain_step_ps(step.dispatch, transfer, route.latency_ps, step.merge(), messages=3)


@pytest.mark.parametrize(("h_q", "h_kv", "d"), [(9, 3, 64), (8, 1, 128), (64, 8, 128)])
@pytest.mark.parametrize("p", [1, 2, 3, 8])
def test_merges_along_a_chain(p: int, h_q: int, h_kv: int, d: int) -> None:
    step = StepCosts(resolve_topology(None), h_q, h_kv, d)
    before = step.query() + step.load(*step.kv(16)) + step.first(16)
    run = decode(step.machine, p, 16 * p, h_q, h_kv, d, 16)
    assert run.makespan_ps == before + costs.chain_ps(p, merge_step(step)) + step.finish()


@pytest.mark.parametrize(("h_q", "h_kv", "d"), [(9, 3, 64), (8, 1, 128)])
@pytest.mark.parametrize("p", [1, 2, 4, 8])
def test_merges_in_a_tree(p: int, h_q: int, h_kv: int, d: int) -> None:
    step = StepCosts(resolve_topology(None), h_q, h_kv, d)
    before = step.query() + step.load(*step.kv(16)) + step.first(16)
    run = decode(step.machine, p, 16 * p, h_q, h_kv, d, 16, merge="tree")
    rounds = [1 << i for i in range(costs.tree_rounds(p))]
    hops = sum(len(step.machine.route(other, 0).links) - 1 for other in rounds)
    assert hops == {1: 0, 2: 0, 4: 1, 8: 4}[p]
    tree = costs.tree_ps(p, merge_step(step), 5_000 * hops)
    assert run.makespan_ps == before + tree + step.finish()


def test_the_course_quotes_these_steps() -> None:
    steps = [merge_step(StepCosts(resolve_topology(None), *shape)) for shape in ((9, 3, 64), (8, 1, 128))]
    assert steps == [267_000, 307_000]


def test_a_tree_wins_from_three_pes_on() -> None:
    for p in range(2, 9):
        chain, tree = (
            decode(resolve_topology(None), p, 16 * p, 9, 3, 64, 16, merge=m) for m in ("chain", "tree")
        )
        assert (tree.makespan_ps < chain.makespan_ps) == (p > 2)


# -- 8: the ring of K and V blocks -----------------------------------------------------------------------------


def row_of_cubes(p: int, **changes: Any) -> Topology:
    """Cubes of one PE in a row: neighbours are one link apart, the wrap goes back over all of them."""
    shape = {"system.sips": 1, "system.cubes_wide": p, "system.cubes_high": 1, "system.pes_wide": 1}
    return resolve_topology({"base": "ahbm", **shape, "system.pes_high": 1, **changes})


def ring_ps(step: StepCosts, p: int, block: int, forward: bool) -> int:
    """The whole kernel, by the recursion behind `costs.ring_ps`: the first fold is cheaper, and hops differ."""
    machine, d = step.machine, step.dispatch
    sign = 1 if forward else -1

    def hop(cube: int) -> int:
        per_cube = machine.pes_per_cube
        route = machine.route(cube * per_cube, (cube + sign) % p * per_cube)
        transfer = sum(max(link.busy_ps(n) for link in route.links) for n in step.kv(block))
        return costs.ring_hop_ps(d, transfer, route.latency_ps)

    ready = [0] * p
    for i in range(p - 1):
        busy = (step.fold(block) if i else step.first(block)) + 4 * d
        ready = [max(ready[c] + busy, ready[(c - sign) % p] + hop((c - sign) % p)) for c in range(p)]
    last = step.fold(block) if p > 1 else step.first(block)
    return step.query() + step.load(*step.kv(block)) + max(ready) + last + step.finish()


def prefill(
    machine: Topology, p: int, tokens: int, block: int, direction: str = "next", **how: Any
) -> kb.RunResult:
    sizes = {"h_q": 8, "h_kv": 1, "d": 128, "T_q": p * tokens, "S_kv": p * block}
    return kb.bench("gqa_prefill", data=False, topology=machine, cubes=p, direction=direction, **sizes, **how)


@pytest.mark.parametrize("tokens", [1, 2, 16])
@pytest.mark.parametrize("p", [1, 2, 3, 4])
@pytest.mark.parametrize("direction", ["next", "prev"])
def test_a_ring_of_blocks(p: int, tokens: int, direction: str) -> None:
    for machine in (row_of_cubes(p), resolve_topology(None)):
        step = StepCosts(machine, 8, 1, 128, t_q=tokens)
        for block in (16, 128):
            run = prefill(machine, p, tokens, block, direction)
            assert run.makespan_ps == ring_ps(step, p, block, direction == "next")


@pytest.mark.parametrize(
    ("tokens", "changes", "bound"), [(16, {}, "compute"), (1, {"links.cube.gb_per_s": 8}, "link")]
)
def test_two_cubes_in_both_regimes(tokens: int, changes: dict[str, Any], bound: str) -> None:
    """With equal hops the recursion is the closed form `costs.ring_ps`, the first fold apart."""
    machine, block = row_of_cubes(2, **changes), 64
    step = StepCosts(machine, 8, 1, 128, t_q=tokens)
    route = machine.route(0, 1)
    transfer = sum(max(link.busy_ps(n) for link in route.links) for n in step.kv(block))
    hop = costs.ring_hop_ps(step.dispatch, transfer, route.latency_ps)
    assert (hop > step.fold(block) + 4 * step.dispatch) == (bound == "link")
    ends = step.query() + step.load(*step.kv(block)) + step.finish()
    first = max(step.first(block) + 4 * step.dispatch, hop)
    run = prefill(machine, 2, tokens, block)
    assert run.makespan_ps == ends + first + costs.ring_ps(1, step.fold(block), step.dispatch, hop)
    equal = costs.ring_ps(2, step.fold(block), step.dispatch, hop)
    assert run.makespan_ps <= ends + equal
    if bound == "link":
        assert run.makespan_ps == ends + equal


def test_many_cubes_with_equal_hops() -> None:
    """Links without latency make the wrap as near as a neighbour: C_first + 4D, or X, then the closed form."""
    for p in (2, 4, 8):
        for tokens, bandwidth in ((16, 256), (1, 8)):
            machine = row_of_cubes(p, **{"links.cube.latency_ns": 0, "links.cube.gb_per_s": bandwidth})
            step = StepCosts(machine, 8, 1, 128, t_q=tokens)
            hop = costs.ring_hop_ps(
                step.dispatch, sum(machine.route(0, 1).links[0].busy_ps(n) for n in step.kv(32)), 0
            )
            ends = step.query() + step.load(*step.kv(32)) + step.finish()
            first = max(step.first(32) + 4 * step.dispatch, hop)
            rest = costs.ring_ps(p - 1, step.fold(32), step.dispatch, hop)
            assert prefill(machine, p, tokens, 32).makespan_ps == ends + first + rest
