"""Tiles: every row lies in one, and they say what the run's own tiles say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kernbench_nb as kb
from kernbench_nb.runtime_api.result import RunResult
from kernbench_nb.widgets.reader import Trace
from kernbench_nb.widgets.trace import encode

RunOf = Callable[[str], RunResult]
TraceOf = Callable[[str], Trace]


def words(t: Trace, column: str, tiles: Any = None) -> list[str]:
    numbers = t.tiles[column] if tiles is None else t.tiles[column][tiles]
    return [t.text(int(n)) for n in numbers]


def of_kind(t: Trace, *kinds: str) -> np.ndarray:
    return np.flatnonzero(np.isin(words(t, "kind"), kinds))


def test_every_row_lies_in_exactly_one_tile(any_run: str, trace: TraceOf) -> None:
    t = trace(any_run)
    c = t.tiles
    for index, p in enumerate(t.pes):
        ran = t.tiles_of(index)
        rows = [row for k in ran for row in range(c["op0"][k], c["op1"][k] + 1)]
        assert rows == list(range(p["op0"], p["op1"]))
        assert [int(t.ops["tile"][row]) for row in rows] == [
            k for k in ran.tolist() for _ in range(c["op0"][k], c["op1"][k] + 1)
        ]


def test_those_that_ran_come_first_and_in_order(any_run: str, trace: TraceOf) -> None:
    op0 = trace(any_run).tiles["op0"]
    ran = int((op0 >= 0).sum())
    assert (op0[:ran] >= 0).all()
    assert (np.diff(op0[:ran]) > 0).all()
    assert (op0[ran:] == -1).all()


@pytest.mark.parametrize("name", ["decode", "flash", "flash heads", "ring", "prefetch", "long", "naive"])
def test_sums_are_those_of_the_runs_tiles(name: str, run_of: RunOf, trace: TraceOf) -> None:
    t, frame = trace(name), run_of(name).tiles
    at = of_kind(t, "tile")
    order = np.argsort(frame["first_row"].to_numpy())
    assert len(at) == len(frame)
    for mine, theirs in (
        ("flops", "flops"), ("hbm", "hbm_bytes"), ("ops", "ops"), ("peak", "peak_scratch"), ("start", "start_ps"),
        ("q0", "rows_start"), ("q1", "rows_stop"), ("k0", "keys_start"), ("k1", "keys_stop"), ("op0", "first_row"),
    ):  # fmt: skip
        assert t.tiles[mine][at].tolist() == frame[theirs].to_numpy()[order].tolist(), mine
    assert words(t, "label", at) == frame["tile"].astype(str).to_numpy()[order].tolist()


def test_a_tile_stops_just_before_the_rewind(trace: TraceOf) -> None:
    t = trace("flash")
    closes = t.number("scope_close")
    op = t.tables["kinds"]["op"][t.ops["kind"]]
    for k in of_kind(t, "tile", "finish").tolist():
        stop = int(t.tiles["stop"][k])
        assert op[stop] != closes
        assert op[stop + 1] == closes
        given_back = int(t.ops["cursor"][stop] - t.ops["cursor"][t.tiles["op1"][k]])
        assert given_back == t.tiles["back"][k] > 0


def test_weights_exist_after_p_and_after_a_merges_last_copy(trace: TraceOf) -> None:
    t = trace("decode")
    names = [t.text(int(n)) for n in t.ops["name"][t.tiles["weights"][of_kind(t, "tile")]]]
    assert set(names) == {"p"}
    merges = of_kind(t, "merge")
    last = t.tiles["weights"][merges]
    assert [t.text(int(t.allocs["name"][t.ops["out"][row]])) for row in last] == ["O"] * 7
    assert set(t.tiles["weights"][of_kind(t, "send", "setup", "finish")].tolist()) == {-1}


def test_engines_of_a_tile(trace: TraceOf) -> None:
    t = trace("decode")
    kinds = t.tables["kinds"]
    for k in of_kind(t, "tile")[:4].tolist():
        rows = np.arange(t.tiles["op0"][k], t.tiles["op1"][k] + 1)
        kind = t.ops["kind"][rows]
        for number, engine in enumerate(("dma", "gemm", "math", "ipc")):
            own = kinds["engine"][kind] == number
            assert t.tiles[engine][k] == int(kinds["busy"][kind][own].sum())


def test_what_lies_between_is_named_by_what_it_does(trace: TraceOf) -> None:
    t = trace("decode")
    assert words(t, "kind", t.tiles_of(7)) == ["setup", "tile", "tile", "tile", "send"]
    assert words(t, "label", t.tiles_of(7)) == ["set-up", "tile 0", "tile 1", "tile 2", "send to PE 6"]
    assert words(t, "kind", t.tiles_of(0)) == ["setup", "tile", "tile", "tile", "merge", "finish"]
    merge = int(t.tiles_of(0)[4])
    assert t.text(int(t.tiles["label"][merge])) == "merge PE 1"
    assert t.tiles["peer"][merge] == 1


def test_a_ring_sends_and_receives_between_its_tiles(trace: TraceOf) -> None:
    t = trace("ring")
    part = int(t.tiles["part"][t.tiles_of(3)[0]])
    first = [k for k in t.tiles_of(3).tolist() if t.tiles["part"][k] == part]
    assert words(t, "kind", first)[:7] == ["setup", "send", "tile", "recv", "send", "tile", "recv"]
    assert words(t, "label", first)[1:5] == [
        "send to cube 0",
        "block 0",
        "receive from cube 2",
        "send to cube 0",
    ]
    assert t.tiles["peer"][first[1]] == 0
    assert t.tiles["peer"][first[3]] == 2


def test_positions_count_the_tiles_of_a_pe(any_run: str, trace: TraceOf) -> None:
    t = trace(any_run)
    for index, p in enumerate(t.pes):
        swept = t.tiles_of(index, "tile", "scope")
        assert t.tiles["place"][swept].tolist() == list(range(1, p["tiles"] + 1))
    others = of_kind(t, "setup", "send", "recv", "merge", "finish", "other", "skip")
    assert set(t.tiles["place"][others].tolist()) <= {0}


def test_skipped_tiles_are_on_the_map(run_of: RunOf, trace: TraceOf) -> None:
    t, skipped = trace("flash"), run_of("flash").skipped
    at = of_kind(t, "skip")
    assert len(at) == len(skipped) == 10
    assert t.tiles["q0"][at].tolist() == skipped["rows_start"].tolist()
    assert t.tiles["k1"][at].tolist() == skipped["keys_stop"].tolist()
    assert t.tiles["start"][at].tolist() == skipped["time_ps"].tolist()
    assert (t.tiles["layer"][at] == 0).all()


def test_another_head_is_another_layer(trace: TraceOf) -> None:
    t = trace("flash heads")
    score = t.head["score"]
    assert (score["S_q"], score["S_kv"], score["heads"], score["layers"]) == (96, 96, 1, 9)
    assert score["layer_labels"] == [f"head {h}" for h in range(9)]
    at = of_kind(t, "tile", "skip")
    for layer in range(9):
        own = at[t.tiles["layer"][at] == layer]
        corners = {(int(t.tiles["q0"][k]), int(t.tiles["k0"][k])) for k in own}
        assert corners == {(q, k) for q in (0, 32, 64) for k in (0, 32, 64)}


def test_packed_heads_are_rows_of_one_map(trace: TraceOf) -> None:
    score = trace("decode").head["score"]
    assert (score["S_q"], score["S_kv"], score["heads"], score["layers"]) == (1, 319, 9, 1)
    assert score["row_labels"] == [f"head {h}" for h in range(9)]
    ring = trace("ring").head["score"]
    assert (ring["S_q"], ring["S_kv"], ring["heads"], ring["layers"]) == (319, 319, 3, 1)


def test_passes_of_the_standard_kernel_are_layers(trace: TraceOf) -> None:
    score = trace("naive").head["score"]
    assert score["layers"] == 3
    assert score["layer_labels"] == ["S", "P", "O"]


def test_the_words_of_the_sample_stand_by_its_keys(trace: TraceOf) -> None:
    tokens = trace("decode").head["score"]["tokens"]
    assert "".join(tokens).endswith("shall not perish from the earth.")
    assert trace("flash").head["score"]["tokens"] == tokens
    assert trace("long").head["score"]["tokens"] is None  # nothing was recorded that could tell


def test_words_can_be_given() -> None:
    q, k, v = (np.ones((n, 1, 8), np.float16) for n in (1, 4, 4))
    head, _ = encode(kb.decode(q, k, v, pes=1, tile=2), words=list("abcd"))
    assert head["score"]["tokens"] == list("abcd")


# -- an overflow -----------------------------------------------------------------------------------------------


def test_the_picture_of_an_overflow_ends_with_the_refused_request(trace: TraceOf) -> None:
    t = trace("overflow")
    error, p = t.head["error"], t.pes[0]
    assert error["op"] == p["op1"] - 1
    assert t.text(int(t.tables["kinds"]["op"][t.ops["kind"][error["op"]]])) == "overflow"
    assert t.tables["parts"]["op1"].tolist() == [p["op1"]]
    assert len(t.ops["kind"]) > p["op1"]  # leaving the scope is in the log, but is not shown
    assert t.text(int(t.tiles["label"][error["tile"]])) == "tile 47"
    assert (error["name"], error["shape"], error["dtype"]) == ("V", "16×3×64", "f16")
    assert (error["wanted"], error["limit"]) == (6144, 1 << 20)
    assert error["free"] == error["limit"] - t.ops["cursor"][error["op"]]
    piece = t.head["sources"][error["source"]]
    assert "load_async" in piece["lines"][error["line"] - piece["first"]]
    assert error["message"].startswith("TLContext scratch overflow: V f16[16x3x64] wants 6 144 B")


def test_what_is_live_at_an_overflow_and_what_of_it_is_read_again(run_of: RunOf, trace: TraceOf) -> None:
    t = trace("overflow")
    error = t.head["error"]
    live = run_of("overflow").memory_log.live(error["op"])
    assert error["live_count"] == len(live) == sum(group["count"] for group in error["live"])
    assert [g["nbytes"] for g in error["live"]] == sorted((g["nbytes"] for g in error["live"]), reverse=True)
    again = {group["name"]: group["again"] for group in error["live"] if group["again"]}
    assert again == {"Q": 1, "m": 1, "l": 1, "O": 1, "K": 1}  # the state, the query, and this tile's K
    assert error["read_again"] == 5


def test_tiles_that_were_never_reached(trace: TraceOf) -> None:
    t, whole = trace("overflow"), trace("long")
    never = of_kind(t, "never")
    assert words(t, "label", never) == [f"tile {i}" for i in range(48, 100)]
    assert t.tiles["place"][never].tolist() == list(range(49, 101))
    assert t.tiles["k1"][never[-1]] == 5 * 319
    assert t.head["error"]["planned"] == {"tiles": 100, "need": int(whole.ops["need"][-1])}
    assert t.head["score"]["S_kv"] == 5 * 319


def test_another_error_says_what_it_says() -> None:
    def kernel(x: Any, *, tl: Any) -> None:
        with tl.scratch_scope():
            a = tl.load(x, (4,), name="a")
        tl.exp(a)

    with pytest.raises(kb.UseAfterScopeError) as caught:
        kb.launch(kernel, np.ones(4, np.float32))
    head, _ = encode(caught.value.run)
    assert head["error"]["type"] == "UseAfterScopeError"
    assert (head["error"]["op"], head["error"]["live"]) == (-1, [])
    assert head["error"]["message"] == str(caught.value)
