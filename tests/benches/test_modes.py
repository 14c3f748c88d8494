"""What must not change a run: values or none, the safety level, how often it is run, and the hash seed."""

from __future__ import annotations

import hashlib
import json
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


def test_parameters_are_plain_python() -> None:
    run = kb.decode(
        q[-1:], k, v, pes=np.int64(4), tile=np.int32(16), kv_len=np.int64(100), sm_scale=np.float32(0.5),
        causal=np.True_, data=False,
    )  # fmt: skip
    assert {name: type(value) for name, value in run.params.items() if name in ("pes", "tile", "kv_len")} == {
        "pes": int, "tile": int, "kv_len": int,
    }  # fmt: skip
    assert json.loads(json.dumps(dict(run.params)))["causal"] is True


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


# -- scopes ------------------------------------------------------------------------------------------------------

SCOPED: dict[str, Run] = {
    "decode": lambda **o: kb.decode(q[-1:], k, v, pes=3, tile=16, **o),
    "decode, causal, prefetched": lambda **o: kb.decode(
        q[-3:], k[:90], v[:90], pes=2, tile=16, causal=True, prefetch=True, merge="tree", lse=True, **o
    ),
    "prefill": lambda **o: kb.prefill(q[:20], k[:20], v[:20], cubes=3, causal=True, **o),
    "flash": lambda **o: kb.flash(q[:40, :1], k[:40, :1], v[:40, :1], tile_q=16, tile_kv=8, causal=True, **o),
    "flash, KV outside": lambda **o: kb.flash(
        q[:40, :1], k[:40, :1], v[:40, :1], tile_q=16, tile_kv=8, order="fa1", **o
    ),
}


@pytest.mark.parametrize("run", SCOPED.values(), ids=SCOPED)
def test_scopes_change_no_bit_and_no_time(run: Run) -> None:
    scoped, flat = run(), run(scoped=False)
    np.testing.assert_array_equal(scoped.output, flat.output)
    operations = ["op_name", "pe", "start_ps", "end_ps", "name", "scope", "tile"]
    pd.testing.assert_frame_equal(scoped.frame[operations], flat.frame[operations])
    assert list(scoped.tiles["tile"]) == list(flat.tiles["tile"])  # both step by tile
    assert scoped.peak_scratch < flat.peak_scratch
    assert flat.persistent_bytes == flat.peak_scratch
    assert not (flat.memory["event"] == "rewind").any()


def test_prefetch_changes_no_bit() -> None:
    plain, ahead = (kb.decode(q[-1:], k, v, pes=3, tile=16, prefetch=p) for p in (False, True))
    np.testing.assert_array_equal(plain.output, ahead.output)
    assert ahead.makespan_ps < plain.makespan_ps < 2 * ahead.makespan_ps
    buffers = [e.name for e in ahead.memory_log if e.pe == 0 and e.event == "alloc" and e.scope == ""]
    assert buffers == ["Q", "m", "l", "O", "K even", "V even", "K odd", "V odd"]


def test_tiles_are_labelled_by_block_and_tile() -> None:
    one = kb.flash(q[:20, :1], k[:20, :1], v[:20, :1], tile_q=8, tile_kv=16)
    assert list(one.tiles["tile"]) == ["tile 0,0", "tile 0,1", "tile 1,0", "tile 1,1", "tile 2,0", "tile 2,1"]
    assert list(one.tiles["scope"])[:2] == ["block 0/tile 0,0", "block 0/tile 0,1"]
    assert [tuple(r) for r in one.tiles[["rows_start", "rows_stop", "keys_start", "keys_stop"]].to_numpy()][-1] == (
        16, 20, 16, 20,
    )  # fmt: skip
    outside = kb.flash(q[:20, :1], k[:20, :1], v[:20, :1], tile_q=8, tile_kv=16, order="fa1")
    assert list(outside.tiles["tile"]) == [
        "tile 0,0",
        "tile 1,0",
        "tile 2,0",
        "tile 0,1",
        "tile 1,1",
        "tile 2,1",
    ]
    heads = kb.flash(q[:8, :3], k[:8, :1], v[:8, :1])
    assert list(heads.tiles["tile"]) == ["tile 0,0"] * 3
    assert list(heads.tiles["scope"]) == [f"head {h} block 0/tile 0,0" for h in range(3)]


def test_tiles_of_a_decode_know_their_keys() -> None:
    tiles = kb.decode(q[-1:], k, v, pes=8, tile=16, data=False).tiles
    spans = sorted(zip(tiles["keys_start"], tiles["keys_stop"], strict=True))
    assert spans[0] == (0, 16)
    assert spans[-1] == (312, 319)  # the last PE holds 39 keys
    assert sum(stop - start for start, stop in spans) == 319
    assert (tiles["bytes_in"] == (tiles["keys_stop"] - tiles["keys_start"]) * 2 * 3 * 64 * 2).all()
