"""The trace against the run that it was made from."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kernbench_nb as kb
from kernbench_nb.runtime_api.result import RunResult
from kernbench_nb.widgets.reader import Trace, decode
from kernbench_nb.widgets.trace import encode
from kernbench_nb.widgets.twin import Twin

RunOf = Callable[[str], RunResult]
TraceOf = Callable[[str], Trace]


def texts(trace: Trace, numbers: Any) -> list[str]:
    return [trace.text(int(n)) for n in numbers]


# -- the format ------------------------------------------------------------------------------------------------


def test_a_head_is_strict_json_and_names_its_format(any_run: str, trace: TraceOf) -> None:
    head = trace(any_run).head
    assert (head["schema"], head["version"]) == ("kernbench-trace", 1)
    assert json.loads(json.dumps(head, allow_nan=False)) == head


def test_an_unknown_format_is_refused(trace: TraceOf) -> None:
    t = trace("user")
    with pytest.raises(
        ValueError, match=r"format 'kernbench-trace', version 2; 'kernbench-trace', version 1 was exp"
    ):
        decode({**t.head, "version": 2}, t.buffer)
    with pytest.raises(ValueError, match="trace format None, version None"):
        decode({}, b"")


def test_equal_runs_give_equal_bytes(any_run: str, run_of: RunOf, trace: TraceOf) -> None:
    head, buffer = encode(run_of(any_run))
    assert buffer == trace(any_run).buffer
    assert head == trace(any_run).head


def test_equal_bytes_under_any_hash_seed() -> None:
    code = (
        "import hashlib, json, kernbench_nb as kb; from kernbench_nb.widgets.trace import encode\n"
        "q, k, v = kb.sample_attention()\n"
        "head, buffer = encode(kb.decode(q[-1:], k[:40], v[:40], pes=2, tile=16, record='tiles'))\n"
        "print(hashlib.sha256(json.dumps(head).encode() + buffer).hexdigest())"
    )
    digests = set()
    for seed in ("0", "1"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        child = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
        )
        digests.add(child.stdout)
    assert len(digests) == 1


def test_nothing_of_this_machine_is_in_it(any_run: str, trace: TraceOf) -> None:
    text = json.dumps(trace(any_run).head)
    files = {source["file"] for source in trace(any_run).head["sources"]}
    assert not any(file.startswith("/") or ":" in file for file in files)
    assert sys.prefix not in text
    assert " at 0x" not in text


def test_a_row_takes_few_bytes() -> None:
    run = kb.bench("gqa_decode", S_kv=64 * 400, pes=1, data=False)
    head, buffer = encode(run, twin=Twin())
    assert head["tables"]["ops"]["n"] > 8000
    assert len(buffer) / head["tables"]["ops"]["n"] < 80  # 100 000 operations: less than 10 MB


# -- operations ------------------------------------------------------------------------------------------------


def test_rows_are_the_log(any_run: str, run_of: RunOf, trace: TraceOf) -> None:
    t, log = trace(any_run), run_of(any_run).op_log
    ops, kinds = t.ops, t.tables["kinds"]
    for record in list(log):
        row, kind = record.row, int(ops["kind"][record.row])
        assert (ops["start"][row], ops["end"][row]) == (record.start_ps, record.end_ps)
        assert t.text(int(kinds["op"][kind])) == record.op_name
        assert t.head["engines"][kinds["engine"][kind]] == record.engine
        assert t.text(int(ops["name"][row])) == (record.name or "")
        assert kinds["busy"][kind] == record.busy_ps
        assert kinds["flops"][kind] == record.flops
        assert kinds["hbm"][kind] == record.hbm_bytes
        assert kinds["nbytes"][kind] == (-1 if record.nbytes is None else record.nbytes)
        assert t.text(int(kinds["tensor"][kind])) == (record.tensor or "")
        peer = int(kinds["peer"][kind])
        assert (t.pes[peer]["pe"] if peer >= 0 else None) == record.peer
        site = int(ops["site"][row])
        assert t.tables["sites"]["line"][site] == record.line
        assert t.tables["sites"]["kline"][site] == record.kernel_line
        assert t.text(int(t.tables["scopes"]["label"][ops["scope"][row]])) == record.scope.rpartition("/")[2]
    operations = np.flatnonzero(kinds["engine"][ops["kind"]] < 4)
    assert len(operations) == len(log)


def test_the_other_rows_are_scopes_and_bare_allocations(any_run: str, trace: TraceOf) -> None:
    t = trace(any_run)
    scope = t.head["engines"].index("scope")
    other = t.tables["kinds"]["engine"][t.ops["kind"]] == scope
    names = set(texts(t, t.tables["kinds"]["op"][t.ops["kind"][other]]))
    assert names <= {"scope_open", "scope_close", "empty", "overflow"}
    assert (t.ops["start"][other] == t.ops["end"][other]).all()


def test_pes_lie_one_after_the_other(any_run: str, run_of: RunOf, trace: TraceOf) -> None:
    t, run = trace(any_run), run_of(any_run)
    assert [p["pe"] for p in t.pes] == list(run.pes)
    for p in t.pes:
        assert run.op_log.rows.pe[p["op0"] : p["op1"]].tolist() == [p["pe"]] * (p["op1"] - p["op0"])
        assert p["peak"] == run.peak_scratch_by_pe[p["pe"]]


def test_a_clock_never_falls_and_ends_with_the_kernel(any_run: str, run_of: RunOf, trace: TraceOf) -> None:
    t = trace(any_run)
    for p in t.pes:
        clock = t.ops["clock"][p["op0"] : p["op1"]]
        assert (np.diff(clock) >= 0).all()
        if len(clock) and run_of(any_run).completion.ok:
            assert clock[-1] <= p["end"]
    assert (t.ops["clock"] <= t.ops["end"]).all()


def test_a_row_that_is_waited_for_ends_the_clock(trace: TraceOf) -> None:
    t = trace("user")  # plain loads: every row is waited for
    p = t.pes[0]
    rows = slice(p["op0"], p["op1"])
    assert t.ops["clock"][rows].tolist() == t.ops["end"][rows].tolist()


def test_a_load_ahead_does_not_hold_the_clock(trace: TraceOf) -> None:
    t = trace("prefetch")
    ahead = t.ops["end"] > t.ops["clock"]
    assert "dma_read" in texts(t, t.tables["kinds"]["op"][t.ops["kind"][ahead]])


# -- sums ------------------------------------------------------------------------------------------------------


def test_sums_run_over_each_pe(any_run: str, run_of: RunOf, trace: TraceOf) -> None:
    t, run = trace(any_run), run_of(any_run)
    kinds, ops = t.tables["kinds"], t.ops
    copies = kinds["op"] == t.number("copy")
    for p in t.pes:
        rows = slice(p["op0"], p["op1"])
        kind = ops["kind"][rows]
        assert ops["hbm"][rows].tolist() == np.cumsum(kinds["hbm"][kind]).tolist()
        assert ops["flops"][rows].tolist() == np.cumsum(kinds["flops"][kind]).tolist()
        assert ops["copies"][rows].tolist() == np.cumsum(copies[kind]).tolist()
        assert ops["peak"][rows].tolist() == np.maximum.accumulate(ops["cursor"][rows]).tolist()
    assert sum(int(ops["hbm"][p["op1"] - 1]) for p in t.pes if p["op1"] > p["op0"]) == run.hbm_bytes
    assert ops["cursor"].tolist() == run.memory_log.cursor.tolist()


@pytest.mark.parametrize("name", ["decode", "flash", "long"])
def test_need_is_the_cursor_of_the_kernel_without_scopes(name: str, run_of: RunOf, trace: TraceOf) -> None:
    run, t = run_of(name), trace(name)
    assert run.rerun is not None
    try:
        other = run.rerun(scoped=False, data=False, record=None)
    except kb.ScratchOverflowError as error:
        other = error.run
    cursor = other.memory_log.cursor
    overflow = t.head["unscoped"]["overflow"]
    stop = len(cursor) if overflow is None else overflow["row"]
    assert stop > 100
    assert t.ops["need"][:stop].tolist() == cursor[:stop].tolist()
    assert t.head["unscoped"]["peak"] == other.peak_scratch
    assert (overflow is None) == (name == "decode")


def test_the_row_at_which_the_kernel_without_scopes_stops(trace: TraceOf) -> None:
    t = trace("long")
    found = t.head["unscoped"]["overflow"]
    limit = t.head["scratch_bytes"]
    assert t.text(int(t.tiles["label"][found["tile"]])) == "tile 47"
    assert t.ops["need"][found["row"] - 1] <= limit < t.ops["need"][found["row"]] == found["required"]
    assert found["name"] == "V"


def test_a_kernel_with_no_scoped_argument_has_no_twin(trace: TraceOf) -> None:
    assert trace("user").head["unscoped"] is None


# -- scratch ---------------------------------------------------------------------------------------------------


def test_blocks_are_those_of_the_timeline(any_run: str, run_of: RunOf, trace: TraceOf) -> None:
    t, memory = trace(any_run), run_of(any_run).memory_log
    rows = len(t.ops["kind"])
    for row in range(0, rows, max(1, rows // 25)):
        live = memory.live(row)
        found = t.live(row)
        assert len(found) == len(live)
        for k, block in zip(found.tolist(), live, strict=True):
            a = {name: int(column[k]) for name, column in t.allocs.items()}
            assert (a["addr"], a["size"], a["nbytes"]) == (block.addr, block.size, block.nbytes)
            assert t.text(a["name"]) == (block.name or "")
            assert t.text(a["dtype"]) == (block.dtype or "")
            assert t.text(a["shape"]) == ("×".join(map(str, block.shape)) or "scalar")
            assert ("persistent", "scoped")[a["arena"]] == block.arena
            assert a["born"] == block.born


def test_rows_know_the_blocks_that_they_touch(any_run: str, run_of: RunOf, trace: TraceOf) -> None:
    t, run = trace(any_run), run_of(any_run)
    log = list(run.op_log)
    for record in log[:: max(1, len(log) // 50)]:
        found = [int(t.ops[name][record.row]) for name in ("out", "a", "b")]
        born = [int(t.allocs["born"][k]) if k >= 0 else None for k in found]
        operands = [*record.addresses, None, None][:2]
        if len(record.addresses) == 1 and found[1] < 0:
            operands = operands[::-1]  # the first operand is no tile
        wanted = [record.out_addr, *operands]
        at = [None if x is None else run.memory_log.block_at(record.row, x) for x in wanted]
        assert born == [None if block is None else block.born for block in at], record


def test_a_view_inside_a_block_is_found() -> None:
    def kernel(x: Any, y: Any, *, tl: Any) -> None:
        whole = tl.load(x, (8, 16), name="whole")
        with tl.scratch_scope():
            tl.load(x, (4, 16), name="other")
        half = tl.exp(whole[4:], name="half")
        tl.store(y, half[1:3])

    x = np.ones((8, 16), np.float32)
    t = Trace(*encode(kb.launch(kernel, x, np.zeros((2, 16), np.float32))))
    rows = {t.text(int(n)): i for i, n in enumerate(t.ops["name"])}
    names = texts(t, t.allocs["name"])
    assert names[t.ops["a"][rows["half"]]] == "whole"
    assert names[t.ops["a"][len(t.ops["kind"]) - 1]] == "half"
    assert t.allocs["last"].tolist() == [rows["half"], rows["other"], len(t.ops["kind"]) - 1]


def test_third_operands_count_as_use() -> None:
    def kernel(x: Any, y: Any, *, tl: Any) -> None:
        a, b, c = (tl.load(x + 4 * i, (4,), name=n) for i, n in enumerate("abc"))
        tl.store(y, tl.fma(a, b, c, name="sum"))

    x = np.ones(12, np.float32)
    t = Trace(*encode(kb.launch(kernel, x, np.zeros(4, np.float32))))
    at = texts(t, t.ops["name"]).index("sum")
    assert t.allocs["last"].tolist()[:3] == [at, at, at]


def test_a_block_wears_the_engine_that_wrote_it_first(trace: TraceOf) -> None:
    t = trace("prefetch")
    engines = {
        t.text(int(n)): t.head["engines"][e]
        for n, e in zip(t.allocs["name"], t.allocs["engine"], strict=True)
    }
    assert engines["K even"] == "dma"  # reserved by tl.empty, filled by a load
    assert engines["m"] == "math"
    assert engines["qk"] == "gemm"
    assert engines["m_in"] == "ipc"


def test_scopes_are_the_runs(any_run: str, run_of: RunOf, trace: TraceOf) -> None:
    t, run = trace(any_run), run_of(any_run)
    scopes, s = run.op_log.rows.scopes, t.tables["scopes"]
    assert texts(t, s["label"]) == list(scopes.label)
    assert texts(t, s["kind"]) == list(scopes.kind)
    assert s["save"].tolist() == scopes.save.tolist()
    assert s["peak"].tolist() == run.memory_log.peak_by_scope.tolist()
    assert (s["depth"][s["parent"] < 0] == 0).all()
    inner = np.flatnonzero(s["parent"] >= 0)
    assert (s["depth"][inner] == s["depth"][s["parent"][inner]] + 1).all()
    assert t.head["scoped"] == bool(s["rewind"].any())


def test_fa2_scopes_nest(trace: TraceOf) -> None:
    assert trace("flash").tables["scopes"]["depth"].max() == 2


# -- messages --------------------------------------------------------------------------------------------------


def test_each_message_has_its_two_ends(trace: TraceOf) -> None:
    for name in ("decode", "ring"):
        t = trace(name)
        m = t.tables["msgs"]
        assert len(m["send"]) > 6
        assert len(set(m["recv"].tolist())) == len(m["recv"])
        assert (m["recv"] >= 0).all()
        assert (t.ops["end"][m["recv"]] > t.ops["start"][m["send"]]).all()
        kinds = t.tables["kinds"]
        shapes = [
            kinds[c][t.ops["kind"][m[end]]].tolist() for c in ("shape", "nbytes") for end in ("send", "recv")
        ]
        assert shapes[0] == shapes[1]
        assert shapes[2] == shapes[3] == m["nbytes"].tolist()


# -- sources ---------------------------------------------------------------------------------------------------


def test_the_kernel_comes_first_and_lines_are_its_lines(trace: TraceOf) -> None:
    t = trace("decode")
    kernel, *others = t.head["sources"]
    assert kernel["name"] == "gqa_decode_long_kernel"
    assert kernel["file"] == "kernbench_nb/benches/_gqa_decode_long.py"
    assert {"fold_tile", "merge_state", "finish"} <= {s["name"] for s in others}
    row = texts(t, t.ops["name"]).index("O*c")
    site = int(t.ops["site"][row])
    s = {name: int(column[site]) for name, column in t.tables["sites"].items()}
    piece = t.head["sources"][s["source"]]
    assert piece["lines"][s["line"] - piece["first"]].strip().startswith("O_kept = tl.mul(O, c")
    called = kernel["lines"][s["kline"] - kernel["first"]]
    assert s["ksource"] == 0
    assert "fold_tile" in called
    first, last = kernel["doc"]
    assert kernel["lines"][first - kernel["first"]].strip().startswith('"""')
    assert kernel["lines"][last - kernel["first"]].strip() == '"""'
    assert kernel["signature"][0] == kernel["first"]


def test_a_kernel_without_text_has_no_source() -> None:
    space: dict[str, Any] = {}
    exec("def kernel(x, *, tl):\n    a = tl.load(x, (4,))\n    tl.exp(a)\n", space)
    t = Trace(*encode(kb.launch(space["kernel"], np.ones(4, np.float32))))
    assert t.head["sources"] == []
    assert set(t.tables["sites"]["source"].tolist()) == {-1}
    assert t.tables["sites"]["line"].tolist() == [2, 3]


# -- a reader's own kernel -------------------------------------------------------------------------------------


def test_plain_scopes_step_with_everything_but_a_score_map(trace: TraceOf) -> None:
    t = trace("user")
    assert t.head["score"] is None
    assert not t.head["values"]
    assert t.head["scoped"]
    assert texts(t, t.tiles["kind"]) == ["scope"] * 9
    assert t.tiles["place"].tolist() == list(range(1, 10))
    assert set(texts(t, t.allocs["name"])) == {"a", "top", "e", "total", ""}
    assert (t.ops["site"] >= 0).all()
    assert t.head["sources"][0]["name"] == "softmax_rows"
    assert t.ops["hbm"][-1] == 2 * 9 * 7 * 4
    assert t.tiles["back"].min() > 0


def test_a_kernel_with_no_scopes_is_one_piece_on_each_pe(trace: TraceOf) -> None:
    t = trace("no scopes")
    assert [p["tiles"] for p in t.pes] == [0, 0, 0, 0]
    assert texts(t, t.tiles["kind"]) == ["kernel"] * 4
    assert texts(t, t.tiles["label"]) == ["whole kernel"] * 4
    assert not t.head["scoped"]


def test_a_run_of_nothing_is_a_trace(trace: TraceOf) -> None:
    t = trace("nothing")
    assert t.head["tables"]["ops"]["n"] == 0
    assert t.pes[0]["op0"] == t.pes[0]["op1"] == 0
    assert t.head["open"] == {"pe": 0, "step": 0, "tile": -1}


def test_names_are_data() -> None:
    bad = "<img src=x onerror=alert(1)>"

    def kernel(x: Any, *, tl: Any) -> None:
        with tl.scratch_scope(bad):
            tl.load(x, (4,), name=bad)

    t = Trace(*encode(kb.launch(kernel, np.ones(4, np.float32))))
    assert texts(t, t.tiles["label"]) == [bad]
    assert bad in texts(t, t.ops["name"])
