"""What must not change a run: values or none, the safety level, how often it is run, and the hash seed."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import kernbench_nb as kb

Run = Callable[..., kb.RunResult]
q, k, v = kb.sample_attention()

RUNS: dict[str, Run] = {
    "decode": lambda **o: kb.decode(q[-1:], k, v, pes=8, tile=16, **o),
    "decode, tree, prefetched": lambda **o: kb.decode(
        q[-2:], k, v, pes=16, tile=16, merge="tree", prefetch=True, causal=True, lse=True, **o
    ),
    "decode, un-scoped": lambda **o: kb.decode(q[-1:], k, v, pes=3, tile=16, scoped=False, **o),
    "prefill": lambda **o: kb.prefill(q[:60], k[:60], v[:60], cubes=4, causal=True, lse=True, **o),
    "prefill, backwards": lambda **o: kb.prefill(
        q[:9], k[:50], v[:50], cubes=3, tile=5, direction="prev", **o
    ),
    "flash": lambda **o: kb.flash(
        q[:90, :3], k[:90, :1], v[:90, :1], tile_q=32, tile_kv=16, causal=True, **o
    ),
    "flash, KV outside, masked": lambda **o: kb.flash(
        q[:40, :1], k[:40, :1], v[:40, :1], tile_q=16, order="fa1", mask=np.tri(40, dtype=bool), lse=True, **o
    ),
    "naive": lambda **o: kb.naive(q[:40, :3], k[:40, :1], v[:40, :1], rows=16, causal=True, lse=True, **o),
}
by_run = pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)


def frames(run: kb.RunResult) -> list[pd.DataFrame]:
    return [run.frame, run.memory, run.tiles, run.skipped]


def same(a: kb.RunResult, b: kb.RunResult) -> bool:
    return all(x.equals(y) for x, y in zip(frames(a), frames(b), strict=True)) and a.counters == b.counters


def digest(run: kb.RunResult) -> str:
    """Everything of the log but the paths of source files, which differ from machine to machine."""
    text = "".join(frame.to_csv() for frame in frames(run))
    return hashlib.sha256(text.encode()).hexdigest()


@by_run
def test_timing_mode_and_data_mode_give_the_same_log(run: Run) -> None:
    data, timing = run(), run(data=False)
    assert same(data, timing)
    assert data.makespan_ps == timing.makespan_ps
    assert (data.data, timing.data) == (True, False)
    assert timing.outputs == {}
    with pytest.raises(RuntimeError, match="timing mode"):
        timing.check()


@by_run
def test_the_safety_level_changes_neither_times_nor_values(run: Run) -> None:
    strict = run()
    for checks in ("poison", "off"):
        other = run(scratch_checks=checks)
        assert same(strict, other)
        np.testing.assert_array_equal(strict.output, other.output)
        assert same(run(scratch_checks=checks, data=False), strict)


@by_run
def test_recording_values_changes_nothing(run: Run) -> None:
    plain, recorded = run(), run(record="tiles")
    assert same(plain, recorded)
    np.testing.assert_array_equal(plain.output, recorded.output)
    assert not plain.values
    assert recorded.values or plain.tiles.empty


@pytest.mark.parametrize("name", ["decode, tree, prefetched", "prefill"])
def test_twenty_runs_give_one_log(name: str) -> None:
    logs = {digest(RUNS[name](data=False)) for _ in range(20)}
    assert len(logs) == 1


SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
from tests.benches.test_modes import RUNS, digest
print(*(digest(run()) for run in RUNS.values()))
"""


def test_the_hash_seed_changes_nothing() -> None:
    root = str(Path(__file__).resolve().parents[2])
    seen = set()
    for seed in ("0", "1", "2"):
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": root}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, root],
            capture_output=True,
            text=True,
            env=env,
            check=False,
            cwd=root,
        )
        assert done.returncode == 0, done.stderr
        seen.add(done.stdout)
    assert len(seen) == 1
    assert seen.pop().split() == [digest(run()) for run in RUNS.values()]


# -- what a result can do again ----------------------------------------------------------------------------------


@by_run
def test_lse_is_there_whether_it_was_asked_for_or_not(run: Run) -> None:
    result: Any = run()
    lse = result.lse
    assert lse is not None
    assert lse.shape == result.output.shape[:2]
    assert (result.given_lse is None) == (result.params["lse"] is False)


@by_run
def test_congestion_impact_reruns_on_wide_links(run: Run) -> None:
    result = run(data=False)
    impact = result.congestion_impact()
    assert impact >= 0
    if not any(r.op_name == "ipc_send" for r in result.op_log):
        assert impact == 0


def test_a_second_run_takes_the_arguments_of_the_first() -> None:
    run = RUNS["prefill, backwards"]()
    assert run.rerun is not None
    again = run.rerun()
    assert again.params == run.params
    assert same(again, run)
    assert run.rerun(direction="next").params["direction"] == "next"


def test_parameters_are_what_ran() -> None:
    run = kb.decode(q[-1:], k, v, cubes=2, topology="ahbm", dtype="f32", data=False)
    assert dict(run.params) == {
        "T_q": 1, "S_kv": 319, "h_q": 9, "h_kv": 3, "d": 64, "pes": 16, "cubes": 2, "tile": 64, "scoped": True,
        "prefetch": False, "merge": "chain", "causal": False, "sm_scale": None, "kv_len": None, "lse": False,
        "dtype": "f32",
    }  # fmt: skip
    flash = kb.flash(q[:3], k[:5], v[:5], mask=np.ones((3, 5), bool), data=False)
    assert flash.params["mask"] is True
    assert kb.flash(q[:3], k[:5], v[:5], data=False).params["mask"] is False


def test_outputs_are_what_kernels_wrote() -> None:
    run = kb.naive(q[:8], k[:8], v[:8], lse=True)
    assert list(run.outputs) == ["O", "S", "P", "lse"]
    assert run.outputs["S"].shape == (9, 8, 8)
    np.testing.assert_allclose(run.outputs["P"].astype(np.float64).sum(axis=-1), 1, atol=5e-3)
    assert list(kb.decode(q[-1:], k, v).outputs) == ["O"]


@pytest.mark.parametrize("name", ["gqa_decode", "gqa_prefill", "flash_attention", "naive_attention"])
def test_a_bench_runs_on_random_data_of_its_sizes(name: str) -> None:
    sizes = {"T_q": 3, "S_kv": 20, "h_q": 4, "h_kv": 2, "d": 8}
    run = kb.bench(name, **sizes)
    assert {key: run.params[key] for key in sizes} == sizes
    run.check()
    np.testing.assert_array_equal(kb.bench(name, **sizes).output, run.output)
    assert (kb.bench(name, seed=1, **sizes).output != run.output).any()
    assert kb.bench(name, data=False, **sizes).frame.equals(run.frame)
    assert kb.bench(name, data=False).completion.ok  # its own sizes fit


def test_timing_mode_makes_no_numbers() -> None:
    """A cache of 2**40 keys has no array behind it; only the sizes are looked at."""
    run = kb.bench("gqa_decode", S_kv=1 << 40, tile=1 << 38, d=1, h_q=1, pes=8, data=False, topology={
        "base": "ahbm", "pe.tcm.kernel_scratch_mb": 1 << 24,
    })  # fmt: skip
    assert run.hbm_bytes == 2 * 2 * (1 << 40) + 8 * 2 + 2
