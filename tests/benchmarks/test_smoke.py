"""Every benchmark workload once, tiny: both sides do the same work. Nothing is timed here."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

import kernbench_nb as kb
from benchmarks import data, environment, loops, simpy_model, startup, timing, workloads
from benchmarks.measure import Pairs, Result, Settings, against, engine_clock, show

TINY = Settings(tiny=True)


@pytest.mark.parametrize("tiles", [1, 2, 3, 7])
@pytest.mark.parametrize("pes", [1, 2, 4])
def test_a_sweep_and_its_simpy_model_agree_in_every_operation(tiles: int, pes: int) -> None:
    run = timing.package(workloads.sweep_kernel, tiles, pes)
    count = timing.check_equal(run, simpy_model.sweep(run.topology, timing.FOLD, tiles, pes))
    assert count == pes * timing.FOLD.count(tiles)


@pytest.mark.parametrize("tiles", [1, 2, 7])
def test_the_bare_simpy_model_agrees_too(tiles: int) -> None:
    run = timing.package(workloads.sweep_kernel, tiles)
    timing.check_equal(run, simpy_model.sweep_bare(run.topology, timing.FOLD, tiles))


@pytest.mark.parametrize(("tiles", "pes"), [(1, 2), (4, 2), (6, 4)])
def test_an_exchange_and_its_simpy_model_agree_in_every_operation(tiles: int, pes: int) -> None:
    run = timing.package(workloads.exchange_kernel, tiles, pes)
    timing.check_equal(run, simpy_model.exchange(run.topology, timing.FOLD, tiles, pes))


def test_a_model_that_is_a_picosecond_off_is_refused() -> None:
    run = timing.package(workloads.sweep_kernel, 2)
    makespan, log = simpy_model.sweep(run.topology, timing.FOLD, 2)
    with pytest.raises(AssertionError):
        timing.check_equal(run, (makespan + 1, log))
    pe, name, start, end = log[5]
    with pytest.raises(AssertionError):
        timing.check_equal(run, (makespan, [*log[:5], (pe, name, start + 1, end), *log[6:]]))


SMALL = {
    "W1": replace(workloads.DATA["W1"], S_kv=200),  # the last tile is ragged
    "W2": replace(workloads.DATA["W2"], S_kv=128),
    "W3": replace(workloads.DATA["W3"], T_q=96, S_kv=160),
    "W4": replace(workloads.DATA["W4"], S_kv=300),
}


@pytest.mark.parametrize("name", SMALL)
def test_the_loop_and_the_package_equal_float64(name: str) -> None:
    x = SMALL[name]
    ours, theirs = data.check_equal(x, *x.inputs())
    assert 0 < ours < data.TOLERANCE
    assert 0 < theirs < data.TOLERANCE


def test_loop_and_float64_on_one_key_give_its_value() -> None:
    q, k, v = (np.ones((1, heads, 4), np.float16) for heads in (2, 1, 1))
    v[...] = [1, 2, 3, 4]
    for out in (loops.decode_loop(q, k, v, 64), loops.attention_float64(q, k, v)):
        assert np.array_equal(out, np.broadcast_to(v, (1, 2, 4)))
    assert loops.worst_error(np.array([3.0]), np.array([1.0])) == 1.0


@pytest.mark.parametrize("group", [timing.CASES, {"frame": startup.frame}], ids=["timing", "frame"])
def test_the_cases_run_and_their_figures_can_be_written(group: dict[str, object]) -> None:
    for case in group.values():
        for result in case(TINY):  # type: ignore[operator]
            assert result.value > 0
            assert result.name in show(result)
            assert json.loads(json.dumps(result.to_dict()))["name"] == result.name


def test_the_program_of_a_whole_process_runs() -> None:
    namespace: dict[str, object] = {}
    exec(startup.W1_PROCESS, namespace)
    assert namespace["k"].shape == (8192, 1, 128)  # type: ignore[attr-defined]


def test_variables_that_slow_numpy_are_dropped_and_one_thread_is_asked_for() -> None:
    given = {
        "OPENBLAS_CORETYPE": "Haswell",
        "OPENBLAS_L2_SIZE": "1",
        "OPENBLAS_NUM_THREADS": "8",
        "HOME": "h",
    }
    cleaned = environment.clean(given)
    assert cleaned["HOME"] == "h"
    assert cleaned["OPENBLAS_NUM_THREADS"] == "1"
    assert not {"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"} & set(cleaned)
    assert environment.clean(cleaned) == cleaned, "or the command would start itself again for ever"


def test_the_facts_name_versions_and_no_folder() -> None:
    pytest.importorskip("threadpoolctl")
    facts = environment.facts(True)
    assert facts["packages"]["numpy"] == np.__version__
    assert facts["kernbench_nb"] == kb.__version__
    assert "/" not in json.dumps(facts)
    assert "\\\\" not in json.dumps(facts)
    assert "gc on" in environment.text(facts)


def test_ratios_are_taken_pair_by_pair() -> None:
    pairs = Pairs([1.0, 4.0, 9.0], [1.0, 2.0, 3.0])
    assert pairs.ratio == 2.0
    assert pairs.best_ratio == 1.0
    assert Result("a", "b", 2.0, at_most=1.5).met is False
    assert Result("a", "b", 2.0, at_least=1.5).met is True
    assert Result("a", "b", 2.0).met is None
    assert "(<= 1.5: MISSED)" in show(Result("a", "b", 2.0, at_most=1.5))
    assert "(later >= 3: not yet)" in show(Result("a", "b", 2.0, at_least=3, later=True))


def test_sides_take_turns_and_a_side_may_tell_its_own_time() -> None:
    order = []

    def ours() -> float:
        order.append("a")
        return 2.0

    def theirs() -> float:
        order.append("b")
        return 1.0

    pairs = against(ours, theirs, 3, TINY)
    assert "".join(order) == "ab" + "ab" + "ba" + "ab"
    assert (pairs.ours, pairs.theirs) == ([2.0] * 3, [1.0] * 3)


def test_the_engine_clock_is_taken_off_again() -> None:
    from kernbench_nb.sim_engine import GraphEngine

    before = GraphEngine.run
    with engine_clock() as clock:
        timing.package(workloads.sweep_kernel, 1)
    assert GraphEngine.run is before
    assert clock.seconds > 0
