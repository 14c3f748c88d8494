"""Recorded values: what the panel shows is what the kernel had."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from kernbench_nb.runtime_api.result import RunResult
from kernbench_nb.widgets.reader import Trace
from kernbench_nb.widgets.values import State, merged

RunOf = Callable[[str], RunResult]
TraceOf = Callable[[str], Trace]


def value(t: Trace, tile: int, what: str) -> np.ndarray | None:
    v = t.tables["values"]
    for i in np.flatnonzero(v["tile"] == tile):
        if t.text(int(v["what"][i])) == what:
            pool = t.tables["pool2" if v["half"][i] else "pool4"]["x"]
            off, rows, cols = (int(v[c][i]) for c in ("off", "rows", "cols"))
            return pool[off : off + rows * cols].reshape(rows, cols)
    return None


def swept(t: Trace, index: int) -> list[int]:
    return t.tiles_of(index, "tile").tolist()


@pytest.mark.parametrize("name", ["decode", "flash", "ring"])
def test_values_are_those_that_were_recorded(name: str, run_of: RunOf, trace: TraceOf) -> None:
    t, run = trace(name), run_of(name)
    recorded: dict[int, dict[str, np.ndarray]] = {}
    for v in run.values:
        recorded.setdefault(v.scope, {})[v.name] = v.values
    for tile in [k for i in range(len(t.pes)) for k in swept(t, i)]:
        named = recorded[int(t.tiles["scope"][tile])]
        for what in ("m", "l"):
            np.testing.assert_array_equal(value(t, tile, what), named[what].reshape(-1, 1))
        scores = named.get("s masked", named["s"])
        found = value(t, tile, "s")
        assert found.dtype == np.float16
        np.testing.assert_array_equal(found, scores.reshape(found.shape).astype(np.float16))
        o = named["O"].reshape(len(named["m"].reshape(-1)), -1) / named["l"].reshape(-1, 1)
        np.testing.assert_allclose(value(t, tile, "o"), o, rtol=1e-3, atol=1e-4)
        correction = value(t, tile, "c")
        if "c" in named:
            np.testing.assert_array_equal(correction, named["c"].reshape(-1, 1))
        else:
            assert (correction == 0).all()  # a first tile has nothing to correct


def test_a_run_that_recorded_nothing_has_no_values(trace: TraceOf) -> None:
    t = trace("long")
    assert not t.head["values"]
    assert t.head["final"] is None
    assert t.head["tables"]["values"]["n"] == t.head["tables"]["pool2"]["n"] == 0


@pytest.mark.parametrize("name", ["flash", "ring"])
def test_the_error_of_a_block_ends_at_rounding(name: str, trace: TraceOf) -> None:
    t = trace(name)
    assert t.head["final"] == "float64 reference"
    c = t.tiles
    last: dict[tuple[int, int], int] = {}
    for tile in [k for i in range(len(t.pes)) for k in swept(t, i)]:
        last[int(c["layer"][tile]), int(c["q0"][tile])] = tile
    for tile in last.values():
        error = value(t, tile, "err")
        assert np.nanmax(error) < 3e-3
    firsts = [value(t, k, "err") for i in range(len(t.pes)) for k in swept(t, i)]
    assert np.nanmax(np.concatenate(firsts)) > 0.1  # after a first tile O is far from its final value


def test_split_over_pes_the_error_is_that_of_all_states_merged(trace: TraceOf) -> None:
    t = trace("decode")
    tiles = sorted((k for i in range(8) for k in swept(t, i)), key=lambda k: (t.tiles["end"][k], k))
    error = [float(np.median(value(t, k, "err"))) for k in tiles]
    assert error[0] > 0.2
    assert error[-1] < 1e-3  # no merge has happened yet, and yet all keys are in
    merges = np.flatnonzero([t.text(int(k)) == "merge" for k in t.tiles["kind"]])
    assert max(np.max(value(t, int(k), "err")) for k in merges) < 1e-3


def test_a_merge_says_which_share_it_kept(trace: TraceOf) -> None:
    t = trace("decode")
    last = {i: swept(t, i)[-1] for i in range(8)}
    merge = int(t.tiles_of(6, "merge")[0])  # the first of the chain: PE 6 takes in PE 7
    own, other = ({w: value(t, last[i], w).astype(np.float64) for w in "ml"} for i in (6, 7))
    m = np.maximum(own["m"], other["m"])
    kept, got = own["l"] * np.exp(own["m"] - m), other["l"] * np.exp(other["m"] - m)
    np.testing.assert_allclose(value(t, merge, "share"), kept / (kept + got), rtol=1e-6)
    np.testing.assert_allclose(value(t, merge, "l"), kept + got, rtol=1e-6)
    np.testing.assert_allclose(value(t, merge, "m"), m, rtol=1e-6)
    np.testing.assert_allclose(value(t, merge, "a"), np.exp(own["m"] - m), rtol=1e-6)
    np.testing.assert_allclose(value(t, merge, "b"), np.exp(other["m"] - m), rtol=1e-6)
    assert value(t, merge, "c") is None  # that is what a tile does to the state before it


def test_the_last_merge_holds_the_output(run_of: RunOf, trace: TraceOf) -> None:
    t, run = trace("decode"), run_of("decode")
    merge = int(t.tiles_of(0, "merge")[0])
    np.testing.assert_allclose(value(t, merge, "o"), run.output.reshape(9, 64), atol=5e-3)


def test_standard_attention_keeps_weights_and_no_state() -> None:
    import kernbench_nb as kb
    from kernbench_nb.widgets.trace import trace_of

    q, k, v = kb.sample_attention()
    t = trace_of(kb.naive(q[:32, :1], k[:32, :1], v[:32, :1], rows=16, record="tiles"))
    whats = [t.text(int(n)) for n in t.tables["values"]["what"]]
    assert whats.count("p") == 4  # where it is made, and where it is read
    assert "m" not in whats
    np.testing.assert_allclose(value(t, int(t.tiles_of(0, "tile")[2]), "p").sum(1), 1, atol=2e-3)
    # S and P go out and come back as they were: each is kept once
    assert whats.count("s") == 4
    assert t.head["tables"]["pool2"]["n"] == 2 * 32 * 32
    off = t.tables["values"]["off"]
    assert len(set(off.tolist())) == 4


def test_merging_an_empty_state_changes_nothing() -> None:
    some = State(np.array([[0.5]]), np.array([[2.0]]), np.array([[2.0, 4.0]]))
    none = State(np.array([[-np.inf]]), np.array([[0.0]]), np.array([[0.0, 0.0]]))
    for state, _, _, share in (merged(some, none), merged(none, some)):
        assert state.m == 0.5
        assert state.l == 2.0
        assert state.O.tolist() == [[2.0, 4.0]]
        assert share in ([[1.0]], [[0.0]])
    state, _, _, share = merged(none, none)
    assert (state.m, state.l, share) == (-np.inf, 0.0, 1.0)
