"""`GraphEngine` itself: launches, traces, ends, and the invariants that hold after every run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from kernbench_nb.errors import ModelError, PlacementError
from kernbench_nb.sim_engine import GraphEngine, Kind, KindTable, Trace, kinds_of
from kernbench_nb.sim_engine import engine as engine_module
from kernbench_nb.sim_engine.invariants import check_private, check_shared
from kernbench_nb.topology import resolve_topology

ROW = (-1, -1, -1, None, 0, 0)  # what of a row does not matter here


def test_each_pe_of_a_launch_leaves_a_trace(bench: Callable) -> None:
    run = bench()
    run.run({3: lambda c: c.compute(5), 1: lambda c: c.compute(7)})
    run.run({0: lambda c: c.compute(2)})
    assert [(t.pe, t.end) for t in run.engine.traces] == [(1, 7), (3, 5), (0, 9)]
    assert run.engine.now_ps == 9
    assert all(t.kinds is kinds_of(run.topology) for t in run.engine.traces)


def test_launches_follow_one_another_in_time(bench: Callable) -> None:
    starts = []
    run = bench()
    for _ in range(3):
        run.run(lambda c: (starts.append(c.port.start_ps), c.compute(10 * c.pe)), 2)
    assert starts == [0, 0, 10, 10, 20, 20]


def test_a_launch_of_nobody(bench: Callable) -> None:
    run = bench().run({})
    assert (run.engine.now_ps, run.engine.traces) == (0, [])


def test_the_next_launch_waits_for_what_is_still_on_its_way(bench: Callable) -> None:
    run = bench().run(lambda c: c.issue_load(21_760), 1)
    assert run.engine.traces[0].end == 4_000
    assert run.engine.now_ps == 154_000  # the channel is busy until then


def test_a_program_that_tells_no_end_ends_with_its_last_row() -> None:
    engine = GraphEngine(resolve_topology("tiny"))
    engine.run({0: lambda port: port.trace.rows.extend((0, 77, *ROW)), 1: lambda port: None})
    assert [t.end for t in engine.traces] == [77, 0]
    assert engine.now_ps == 77


def test_ports_show_what_a_program_needs() -> None:
    seen = []
    topology = resolve_topology("tiny")

    def program(port) -> None:
        seen.append((port.pe, port.topology is topology, port.data, port.trace.pe, port.start_ps))

    GraphEngine(topology).run({2: program})
    GraphEngine(topology, enable_data=True).run({2: program})
    assert seen == [(2, True, False, 2, 0), (2, True, True, 2, 0)]


@pytest.mark.parametrize(("pe", "shared"), [(4, set()), (-1, set()), (0, {9})])
def test_pes_that_the_machine_does_not_have(pe: int, shared: set[int]) -> None:
    engine = GraphEngine(resolve_topology("tiny"))
    wrong = pe if not shared else 9
    with pytest.raises(
        PlacementError, match=f"PE {wrong} is not in the topology 'tiny': it has 4 PEs, 0\\.\\.3"
    ):
        engine.run({pe: lambda port: None}, shared)
    assert engine.traces == []


def test_one_table_of_kinds_a_machine() -> None:
    tiny, other = resolve_topology("tiny"), resolve_topology({"base": "tiny", "pe.ipc.slots": 1})
    assert kinds_of(tiny) is kinds_of(resolve_topology("tiny"))
    assert kinds_of(tiny) is not kinds_of(other)


def test_what_a_failed_launch_did_can_be_read(bench: Callable) -> None:
    run = bench()

    def kernel(c):
        c.load(1_000)
        c.port.trace.rows.extend((0, c.now, *ROW))
        if c.pe == 1:
            raise ValueError("x")
        c.recv(1)

    with pytest.raises(ValueError, match="x"):
        run.run(kernel, 2)
    assert [(t.pe, len(t), t.end) for t in run.engine.traces] == [(0, 1, run.ends[1]), (1, 1, run.ends[1])]


# Invariants -----------------------------------------------------------------------------------------------------


def test_a_slice_that_did_more_than_the_time_allows_is_a_bug(bench: Callable) -> None:
    engine = bench().run(lambda c: c.load(21_760), 1).engine
    check_shared(engine)
    engine.slices[0].sizes[21_760][1] = 2
    with pytest.raises(
        ModelError, match=r"the HBM slice of PE 0 was busy for 300 000 ps of 254 000 ps\. This is a bug"
    ):
        check_shared(engine)


def test_slices_and_links_are_checked_after_a_run() -> None:
    engine = GraphEngine(resolve_topology("tiny"))

    def program(port) -> None:
        port.read(0, -1, 21_760)
        engine.slices[0].sizes[21_760][1] = 4

    with pytest.raises(ModelError, match="the HBM slice of PE 0 was busy for 600 000 ps of 150 000 ps"):
        engine.run({0: program})


def test_bytes_over_time_stay_below_the_peak(bench: Callable) -> None:
    engine = bench().run(lambda c: c.load(21_760), 1).engine
    engine.slices[0].sizes[65_024] = [
        0,
        1,
    ]  # 256 GB/s for 254 ns are 65 024 bytes, and 21 760 are there already
    with pytest.raises(
        ModelError, match=r"the HBM slice of PE 0 moved 86 784 B in 254 000 ps, above its peak of 256 GB/s"
    ):
        check_shared(engine)


@pytest.mark.parametrize(
    ("attribute", "value", "text"),
    [("busy_ps", 10**9, "was busy for 1 000 000 000 ps"), ("nbytes", 10**6, "moved 1 000 000 B")],
)
def test_a_link_that_did_more_than_the_time_allows_is_a_bug(
    bench: Callable, attribute: str, value: int, text: str
) -> None:
    engine = bench().run({0: lambda c: c.send(1, nbytes=4_096), 1: lambda c: c.recv(0)}).engine
    (use,) = engine.fabric.links.values()
    setattr(use, attribute, value)
    with pytest.raises(ModelError, match=rf"link sip0\.cube0\.pe\(0,0\)->\(1,0\) {text}"):
        check_shared(engine)


@pytest.mark.parametrize("name", ["gemm", "math"])
def test_private_engines_are_checked_after_a_run(name: str) -> None:
    topology = resolve_topology({"base": "tiny", "pe.math.lanes": 64})
    kind = kinds_of(topology).add(Kind("x", name, dur=10))

    def program(port) -> None:
        for i in range(3):
            port.trace.rows.extend((kind.index, 10 * i, *ROW))
        port.finish(29)

    with pytest.raises(ModelError, match=f"the {name} engine of PE 0 was busy for 30 ps of 29 ps"):
        GraphEngine(topology).run({0: program})


def test_the_check_of_a_long_log_waits_until_somebody_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "LONG_LOG", 2)
    topology = resolve_topology({"base": "tiny", "pe.math.lanes": 32})
    kind = kinds_of(topology).add(Kind("x", "math", dur=10))

    def program(port) -> None:
        for i in range(3):
            port.trace.rows.extend((kind.index, 10 * i, *ROW))
        port.finish(29)

    engine = GraphEngine(topology)
    engine.run({0: program})
    with pytest.raises(ModelError, match="busy for 30 ps of 29 ps"):
        _ = engine.op_log


def test_other_engines_are_no_private_ones() -> None:
    kinds = KindTable()
    trace = Trace(0, kinds)
    trace.rows.extend((kinds.add(Kind("dma_read", "dma", dur=10)).index, 10, *ROW))
    check_private([(trace, 0)])


def test_the_room_is_light() -> None:
    heavy = ("pandas", "matplotlib", "IPython", "ipywidgets", "pyarrow")
    code = f"import sys, kernbench_nb.sim_engine; sys.exit(', '.join(m for m in {heavy} if m in sys.modules) or 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
