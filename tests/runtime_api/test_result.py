from __future__ import annotations

import subprocess
import sys
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest

from kernbench_nb.errors import CheckError, DataModeError, KernbenchError, ScratchOverflowError
from kernbench_nb.runtime_api.checking import compare
from kernbench_nb.runtime_api.result import Completion, Reference, RunResult
from kernbench_nb.runtime_api.text import bytes_text, grouped, percent_text, time_text
from kernbench_nb.runtime_api.usage import covered
from kernbench_nb.sim_engine.op_log import OpLog
from kernbench_nb.sim_engine.trace import KindTable, Trace
from kernbench_nb.topology import Topology, resolve_topology
from tests.sim_engine.trace_builder import D, TraceBuilder, fold_kernel

AHBM = resolve_topology()


class Engine:
    """What a result needs of an engine."""

    def __init__(self, *builders: TraceBuilder, data: bool = True) -> None:
        self.topology: Topology = AHBM
        self.enable_data = data
        self.traces: list[Trace] = [tl.trace for tl in builders]

    @property
    def op_log(self) -> OpLog:
        return OpLog(self.traces)


def my_kernel(q_ptr: Any, *, tl: Any) -> None:
    """Only its name is used."""


def result(*builders: TraceBuilder, data: bool = True, **more: Any) -> RunResult:
    return RunResult.of(Engine(*(builders or (fold_kernel(),)), data=data), kernel=my_kernel, **more)


OUT = np.array([[1.0, 2.0], [3.0, -4.0]], np.float16)


def checked(want: Any = OUT, got: Any = OUT, **more: Any) -> RunResult:
    lse = more.pop("lse_wanted", None)
    reference = Reference(lambda: (want, lse), **{k: more.pop(k) for k in ("tol", "tainted") if k in more})
    return result(output=got, reference=reference, **more)


# -- what it holds -------------------------------------------------------------------------------------------------


def test_numbers_of_a_run() -> None:
    tl = fold_kernel(tiles=3)
    run = result(tl, params={"tile": 16})
    assert run.completion == Completion(True, None)
    assert run.completion.ok
    assert run.makespan_ps == tl.now
    assert run.makespan_ns == tl.now / 1000
    assert run.pes == (0,)
    assert run.peak_scratch == tl.scratch.high_water == 5152
    assert run.peak_scratch_by_pe == {0: 5152}
    assert run.persistent_bytes == 1552
    assert run.peak_by_kind == {"tile": 5152, "merge": 5152}
    assert run.hbm_bytes == 512 + 3 * 2048 + 1024
    assert run.flops == 3 * 2 * 4 * 16 * 64
    assert run.params == {"tile": 16}
    assert run.name == "my_kernel"
    assert run.kernel is my_kernel
    assert run.data
    assert run.warnings == ()
    assert set(run.versions) == {"kernbench_nb", "python", "numpy"}
    assert run.versions["numpy"] == np.__version__
    assert [r.op_name for r in run.op_log].count("copy") == 6
    assert sum(r.op_name == "copy" for r in run.engine.op_log) == 6
    assert len(run.frame) == len(run.op_log) == 23
    assert len(run.memory) == len(run.memory_log) == 24
    assert len(run.tiles) == 3
    assert len(run.skipped) == 0


def test_makespan_is_the_end_of_all() -> None:
    tl = TraceBuilder()
    tl.send("E", tl.empty(4), peer=1, arrives=900_000)
    assert result(tl).makespan_ps == D + 900_000
    tl.trace.end = 5_000_000
    assert result(tl).makespan_ps == 5_000_000
    assert result(TraceBuilder()).makespan_ps == 0


def test_busy_shares() -> None:
    kinds = KindTable()
    one, two = TraceBuilder(0, kinds), TraceBuilder(1, kinds)
    one.load("K", 4, busy=10_000, latency=82_000)  # ends at 96 000
    one.op("exp", shape=(4,), dur=0)  # and at 100 000 its kernel
    two.op("exp", shape=(4,), dur=15_000)
    two.op("exp", shape=(4,), dur=15_000)
    run = result(one, two)
    assert run.makespan_ps == 100_000
    assert run.busy == {"dma": 0.05, "gemm": 0.0, "math": 0.15, "ipc": 0.0}
    assert run.usage.busy_ps == {
        0: {"dma": 10_000, "gemm": 0, "math": 0, "ipc": 0},
        1: {"dma": 0, "gemm": 0, "math": 30_000, "ipc": 0},
    }


def test_rates_and_utilisation() -> None:
    tl = TraceBuilder()
    q = tl.load("Q", 64, 64, busy=42_000, latency=50_000)  # 8192 B, ends at 96 000
    tl.op("gemm", q, q, shape=(64, 64), dur=100_000)  # 2*64^3 FLOP, ends at 200 000
    run = result(tl)
    assert run.makespan_ps == 200_000
    assert run.hbm_gb_per_s == 8192 / 200
    assert run.hbm_peak_gb_per_s == 256.0
    assert run.usage.peak_gflops == 8192.0
    assert run.mac_utilisation == 2 * 64**3 / 200 / 8192
    assert run.busy["gemm"] == 0.5
    roof = run.roofline
    assert roof.intensity == 2 * 64**3 / 8192
    assert roof.attainable_gflops == 8192.0  # 64 FLOP a byte * 256 GB/s is above the peak
    assert (roof.compute_ps, roof.bandwidth_ps, roof.latency_ps) == (100_000, 42_000, 58_000)
    assert (roof.binds, run.bound, roof.compute_engine) == ("compute", "compute", "gemm")


@pytest.mark.parametrize(
    ("compute", "busy", "latency", "binds"),
    [
        (50_000, 49_000, 0, "compute"),
        (50_000, 50_000, 0, "compute"),
        (50_000, 51_000, 0, "bandwidth"),
        (50_000, 10_000, 41_000, "compute"),
        (50_000, 10_000, 43_000, "latency"),
    ],
)
def test_which_of_three_binds(compute: int, busy: int, latency: int, binds: str) -> None:
    tl = TraceBuilder()
    tl.load("K", 4, busy=busy, latency=latency)
    tl.op("exp", shape=(4,), dur=compute)
    run = result(tl)
    roof = run.roofline
    assert (roof.compute_ps, roof.bandwidth_ps, roof.latency_ps) == (compute, busy, latency + 2 * D)
    assert roof.binds == binds
    assert roof.compute_engine == "math"


def test_the_roofline_is_that_of_the_pe_that_ended_last() -> None:
    kinds = KindTable()
    busy, waiting = TraceBuilder(0, kinds), TraceBuilder(1, kinds)
    busy.op("exp", shape=(4,), dur=90_000)
    waiting.recv("W", 4, peer=0, at=100_000)
    assert result(busy, waiting).bound == "latency"
    assert result(busy, waiting).roofline.compute_engine == "gemm"  # neither was busy there
    assert result(busy).bound == "compute"
    assert result(TraceBuilder()).bound == "nothing"
    assert result(TraceBuilder()).roofline.intensity == float("inf")
    assert RunResult.of(Engine()).bound == "nothing"


def test_overlapping_work_is_covered_once() -> None:
    tl = TraceBuilder()
    tl.load("K", 4, busy=50_000, latency=0, wait=False)  # 4 000 .. 54 000
    tl.op("exp", shape=(4,), dur=40_000)  # 8 000 .. 48 000
    roof = result(tl).roofline
    assert (roof.compute_ps, roof.bandwidth_ps, roof.latency_ps) == (40_000, 50_000, D)


def test_messages_take_bandwidth() -> None:
    tl = TraceBuilder()
    tl.send("E", tl.empty(4), peer=1, arrives=90_000, busy=80_000)
    roof = result(tl).roofline
    assert (roof.compute_ps, roof.bandwidth_ps, roof.latency_ps) == (0, 80_000, 10_000 + D)
    assert roof.binds == "bandwidth"


def test_covered() -> None:
    def length(*intervals: tuple[int, int]) -> int:
        start, end = np.array(intervals, np.int64).reshape(-1, 2).T
        return covered(start, end)

    assert length() == 0
    assert length((3, 8)) == 5
    assert length((0, 10), (2, 5), (4, 12)) == 12
    assert length((20, 30), (0, 10)) == 20
    assert length((0, 10), (10, 11)) == 11
    assert length((0, 10), (0, 3), (5, 5)) == 10


def test_counters_and_warnings_are_those_of_all_pes() -> None:
    kinds = KindTable()
    a, b = fold_kernel(0, 1, kinds), fold_kernel(1, 1, kinds)
    a.trace.counters.update(folds=3, merges=1)
    b.trace.counters.update(folds=2)
    b.trace.warnings.append("a load was never waited for")
    run = result(a, b)
    assert run.counters == {"folds": 5, "merges": 1}
    assert run.warnings == ("a load was never waited for",)


def test_recorded_values_point_to_rows_and_scopes_of_the_run() -> None:
    kinds = KindTable()
    later, first = fold_kernel(4, 2, kinds), fold_kernel(2, 2, kinds)
    later.trace.values.append((3, 16, "s", np.ones(3)))
    first.trace.values.append((1, 5, "", np.zeros(3)))
    run = result(later, first)
    a, b = run.values
    assert (a.pe, a.tile, a.name, a.row, a.scope) == (2, "tile 0", None, 5, 1)
    assert (b.pe, b.tile, b.name, b.row, b.scope) == (4, "tile 1", "s", len(first.trace) + 16, 5 + 3)
    assert run.op_log.rows.scopes.path[b.scope] == "tile 1"
    (block,) = [x for x in run.memory_log.live(b.row) if x.born == b.row]
    assert (block.name, block.scope, block.pe) == ("s", "tile 1", 4)
    with pytest.raises(ValueError, match="read-only"):
        b.values[0] = 2


# -- frozen --------------------------------------------------------------------------------------------------------


def test_it_is_frozen() -> None:
    run = result(output=OUT, outputs={"O": OUT})
    with pytest.raises(FrozenInstanceError):
        run.name = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        run.params["x"] = 1  # type: ignore[index]
    with pytest.raises(TypeError):
        run.counters["x"] = 1  # type: ignore[index]
    for array in (run.output, run.outputs["O"]):
        with pytest.raises(ValueError, match="read-only"):
            array[0, 0] = 9
    assert OUT.flags.writeable
    run.peak_by_kind.clear()
    assert run.peak_by_kind


def test_frames_are_built_once_and_a_second_run_does_not_touch_them() -> None:
    tl = fold_kernel(tiles=2)
    engine = Engine(tl)
    first = RunResult.of(engine)
    frames = [first.frame, first.memory, first.tiles, first.skipped]
    again = [first.frame, first.memory, first.tiles, first.skipped]
    assert all(a is b for a, b in zip(frames, again, strict=True))
    copies = [frame.copy(deep=True) for frame in frames]
    engine.traces.append(fold_kernel(kinds=tl.kinds, now=tl.now).trace)
    second = RunResult.of(engine)
    assert len(second.frame) == len(first.frame) + 23
    assert all(frame.equals(copy) for frame, copy in zip(frames, copies, strict=True))


def test_what_the_engine_runs_later_does_not_change_a_result() -> None:
    tl = fold_kernel(tiles=2)
    engine = Engine(tl)
    run = RunResult.of(engine)
    engine.traces.append(fold_kernel(kinds=tl.kinds, now=tl.now).trace)
    assert len(run.op_log) == 16
    assert run.makespan_ps == tl.now
    assert len(run.engine.op_log) == 39


def test_the_log_is_the_engines_own_while_it_has_run_nothing_else() -> None:
    class Once(Engine):
        asked = 0

        @property
        def op_log(self) -> OpLog:
            self.asked += 1
            return OpLog(self.traces)

    engine = Once(fold_kernel())
    run = RunResult.of(engine)
    assert run.op_log is run.op_log
    assert engine.asked == 1


# -- output, lse, check --------------------------------------------------------------------------------------------


def test_output() -> None:
    assert result(output=OUT).output.tolist() == OUT.tolist()
    assert result(outputs={"c": OUT}).output.tolist() == OUT.tolist()
    with pytest.raises(
        DataModeError, match=r"which tensor is the output of my_kernel\? run.outputs has a, b\."
    ):
        _ = result(outputs={"a": OUT, "b": OUT}).output
    with pytest.raises(DataModeError, match=r"my_kernel ran in timing mode.* run it with data=True"):
        _ = result(data=False).output
    with pytest.raises(DataModeError, match="my_kernel has no tensors"):
        _ = result().output
    stopped = result(error=ScratchOverflowError("full\nmore", required=1, limit=1, wanted=1, free=1))
    with pytest.raises(DataModeError, match=r"did not run to its end \(ScratchOverflowError: full\)"):
        _ = stopped.output


def test_lse() -> None:
    given = np.array([1.5], np.float32)
    asked: list[dict[str, Any]] = []

    def again(**changes: Any) -> RunResult:
        asked.append(changes)
        return result(output=OUT, lse=given)

    assert result(output=OUT, lse=given, rerun=again).lse is not None
    assert asked == []
    run = result(output=OUT, params={"lse": False}, rerun=again)
    for _ in range(2):
        assert run.lse is not None
        assert run.lse.tolist() == [1.5]
    assert asked == [{"lse": True, "record": None}]  # once, however often it is read
    assert result(output=OUT, rerun=again).lse is None  # a kernel that has no lse
    assert result(data=False, params={"lse": False}, rerun=again).lse is None
    assert result(error=ValueError("x"), params={"lse": False}, rerun=again).lse is None
    assert len(asked) == 1


def test_check_gives_the_worst_error() -> None:
    want = np.array([[1.0, 2.0], [3.0, -4.01]])
    run = checked(want)
    assert run.check(tol=1) == pytest.approx(0.01 / 5.01)
    assert checked(OUT.reshape(4)).check() == 0.0
    worse = checked(OUT, lse=np.array([0.5]), lse_wanted=np.array([0.501]))
    assert worse.check() == pytest.approx(0.001 / 1.501)


def test_check_beyond_the_tolerance() -> None:
    want = np.array([[1.0, 2.0], [3.1, -4.5]])
    with pytest.raises(CheckError) as caught:
        checked(want, tol=2e-3).check()
    assert str(caught.value) == (
        "output differs from its float64 reference: output[1, 1] is -4, expected -4.5; |error| / (1 + |expected|) = "
        "0.0909, tolerance 0.002; 2 of 4 entries are beyond it. Step through the run with kb.step(run) to see where "
        "it goes wrong, or pass tol= if the inputs justify a wider one."
    )
    assert isinstance(caught.value, AssertionError)
    with pytest.raises(CheckError, match=r"lse\[1\] is 1, expected 2;"):
        checked(OUT, lse=np.array([5.0, 1.0]), lse_wanted=np.array([5.0, 2.0])).check()


def test_check_at_the_tolerance_and_just_beside_it() -> None:
    run = checked(np.array([1.0]), np.array([1.25]))
    assert run.check(tol=0.125) == 0.125
    with pytest.raises(CheckError):
        run.check(tol=np.nextafter(0.125, 0))
    with pytest.raises(CheckError):
        run.check(tol=float("nan"))


@pytest.mark.parametrize(
    ("got", "want", "fine"),
    [
        (np.nan, np.nan, True),
        (np.nan, 1.0, False),
        (1.0, np.nan, False),
        (np.inf, np.inf, True),
        (-np.inf, -np.inf, True),
        (np.inf, -np.inf, False),
        (np.inf, 1.0, False),
        (1.0, np.inf, False),
        (0.0, -0.0, True),
    ],
)
def test_nan_must_meet_nan_and_infinity_itself(got: float, want: float, fine: bool) -> None:
    given = np.array([0.0, got])
    if fine:
        assert compare("output", given, [0.0, want], 1e-3) == 0.0
    else:
        with pytest.raises(CheckError, match=r"output\[1\] .* = inf"):
            compare("output", given, [0.0, want], 1e300)


def test_a_nan_is_accepted_where_a_tile_mate_may_have_spoiled_it() -> None:
    got = np.array([[np.nan, 2.0], [3.0, 4.0]])
    want = np.array([[1.0, 2.0], [3.0, 4.0]])
    tainted = np.array([[True, True], [False, False]])
    assert checked(want, got, tainted=lambda: tainted).check() == 0.0
    with pytest.raises(CheckError):
        checked(want, got, tainted=lambda: ~tainted).check()
    with pytest.raises(CheckError):  # a number there is compared like any other
        checked(want, np.array([[9.0, 2.0], [3.0, 4.0]]), tainted=lambda: tainted).check()


def test_check_of_another_size() -> None:
    with pytest.raises(CheckError, match=r"output has shape \(2, 2\), its float64 reference \(3,\)"):
        checked(np.zeros(3)).check()
    assert checked(np.zeros((0, 4)), np.zeros((0, 4), np.float16)).check() == 0.0


def test_check_without_values_or_reference_says_so() -> None:
    with pytest.raises(DataModeError, match="timing mode, where tiles have no values; run it with data=True"):
        result(data=False, reference=Reference(lambda: (OUT, None))).check()
    with pytest.raises(KernbenchError, match=r"my_kernel has no float64 reference.*compare run.output"):
        result(output=OUT).check()
    with pytest.raises(DataModeError, match="did not run to its end"):
        result(error=ValueError("boom"), reference=Reference(lambda: (OUT, None))).check()
    with pytest.raises(DataModeError, match=r"run\.outputs has a, b"):
        result(outputs={"a": OUT, "b": OUT}).check()


# -- congestion ----------------------------------------------------------------------------------------------------


def test_congestion_impact() -> None:
    asked: list[dict[str, Any]] = []

    def again(**changes: Any) -> RunResult:
        asked.append(changes)
        tl = TraceBuilder()
        tl.op("exp", shape=(4,), dur=76_000)
        return result(tl)

    tl = TraceBuilder()
    tl.op("exp", shape=(4,), dur=96_000)
    run = result(tl, rerun=again)
    assert run.congestion_impact() == run.congestion_impact() == 100_000 / 80_000 - 1
    assert asked == [{"wide_links": True, "data": False, "record": None}]
    assert result(TraceBuilder(), rerun=lambda **_: result(TraceBuilder())).congestion_impact() == 0.0


def test_congestion_impact_of_a_result_that_cannot_run_again() -> None:
    with pytest.raises(KernbenchError, match="needs a second run with infinitely wide links"):
        result().congestion_impact()


# -- how it shows itself -------------------------------------------------------------------------------------------


def test_repr() -> None:
    run = result(fold_kernel(tiles=3))
    assert repr(run) == (
        "<RunResult my_kernel: 620 ns on 1 PE, peak scratch 5 152 B of 1 048 576 B (0.49 %), "
        "HBM 7 680 B, latency binds>"
    )
    assert repr(run) == repr(result(fold_kernel(tiles=3)))
    tl = TraceBuilder()
    tl.op("exp", shape=(4,), dur=1_234_567_890)
    assert "my_kernel: 1 234 572 ns on 1 PE" in repr(result(tl))
    assert repr(result(tl)).endswith("HBM 0 B, compute (math) binds>")
    assert repr(RunResult.of(Engine())).startswith("<RunResult run: 0 ns on 0 PEs, peak scratch 0 B of")


def test_repr_of_a_run_that_was_stopped() -> None:
    error = ScratchOverflowError(
        "TLContext scratch overflow: K\nLive now", required=1, limit=1, wanted=1, free=1
    )
    run = result(fold_kernel(tiles=3), error=error)
    assert not run.completion.ok
    assert run.completion.error is error
    assert str(run.completion) == "ScratchOverflowError: TLContext scratch overflow: K"
    assert repr(run) == (
        "<RunResult my_kernel: ScratchOverflowError at 620 ns, peak scratch 5 152 B of 1 048 576 B (0.49 %)>"
    )
    assert "TLContext scratch overflow: K" in run._repr_html_()
    assert str(Completion()) == "ok"
    assert str(Completion(False, ValueError())) == "ValueError: "


def test_html() -> None:
    run = result(fold_kernel(tiles=3))
    text = run._repr_html_()
    for part in (
        "my_kernel on ahbm",
        "620 ns on 1 PE",
        "5 152 B of 1 048 576 B (0.49 %)",
        "7 680 B, 12.4 of 256 GB/s",
    ):
        assert part in text
    assert text == result(fold_kernel(tiles=3))._repr_html_()
    assert text.startswith("<table>")
    assert "0x" not in text


def test_html_escapes_what_it_shows() -> None:
    def kernel() -> None:
        pass

    kernel.__name__ = "<img onerror=alert(1)>"
    tl = fold_kernel()
    tl.trace.warnings += ["<b>one</b>", "two", "three", "four"]
    run = RunResult.of(Engine(tl), kernel=kernel, error=ValueError("<script>"))
    text = run._repr_html_()
    assert "<img" not in text
    assert "<script" not in text
    assert "<b>" not in text
    assert "&lt;b&gt;one&lt;/b&gt;; two; three ..." in text


def test_numbers_as_text() -> None:
    assert [grouped(n) for n in (0, 999, 1000, 1234567)] == ["0", "999", "1 000", "1 234 567"]
    assert bytes_text(1048576) == "1 048 576 B"
    assert [time_text(ps) for ps in (0, 1, 500, 1_000, 1_500, 620_000)] == [
        "0 ns",
        "0.001 ns",
        "0.5 ns",
        "1 ns",
        "1.5 ns",
        "620 ns",
    ]
    # never more than six digits of a number that is not whole
    assert time_text(3_704_241) == "3 704.24 ns"
    assert time_text(99_999_960) == "100 000 ns"
    assert time_text(31_874_250) == "31 874.2 ns"
    assert time_text(123_456_789) == "123 457 ns"
    assert time_text(1_234_567_890_123) == "1 234 567 890 ns"
    assert time_text(2**53 * 1000 + 1) == "9 007 199 254 740 992 ns"
    assert [percent_text(x) for x in (0, 1, 0.5, 0.02449, 0.0999, 0.1, 0.9996)] == [
        "0 %",
        "100 %",
        "50 %",
        "2.4 %",
        "10 %",
        "10 %",
        "100 %",
    ]


def test_a_result_needs_no_pandas_until_a_frame_is_asked_for() -> None:
    code = (
        "import sys\n"
        "from types import SimpleNamespace\n"
        "from kernbench_nb.runtime_api.result import RunResult\n"
        "from kernbench_nb.topology import resolve_topology\n"
        "run = RunResult.of(SimpleNamespace(traces=[], topology=resolve_topology(), enable_data=False, op_log=[]))\n"
        "assert run.data is False\n"
        "assert not {'pandas', 'matplotlib', 'IPython'} & set(sys.modules)\n"
    )
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr
