"""The numbers in `occupancy` are the run's."""

from __future__ import annotations

from typing import Any

import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection

import kernbench_nb as kb
from kernbench_nb.plots._occupancy import FULL, steps


def areas(ax: Axes, gid: str) -> list[Any]:
    (found,) = (c for c in ax.collections if isinstance(c, PolyCollection) and c.get_gid() == gid)
    return [path.vertices for path in found.get_paths()]


@pytest.mark.parametrize(
    ("name", "pe"), [("one", 0), ("eight", 0), ("prefetch", 0), ("overflow", 0), ("ring", 8)]
)
def test_steps_are_the_cursor_of_the_timeline(runs: Any, name: str, pe: int) -> None:
    run = runs(name)
    when, cursor, persistent = steps(run, pe)
    memory = run.memory[(run.memory.pe == pe) & (run.memory.event != "overflow")].sort_values("row")
    moved = memory[memory.cursor_after.diff().fillna(1) != 0]
    if name == "ring":  # the scratch is empty at the end of each of its kernels
        assert (cursor == 0).sum() == 6
        moved_cursors = [c for c in cursor.tolist() if c]
        assert set(moved_cursors) <= set(memory.cursor_after.tolist())
    else:
        assert cursor[:-1].tolist() == moved.cursor_after.tolist()
        assert when[:-1].tolist() == moved.time_ps.tolist()
        assert cursor[-1] == 0
    assert max(cursor) == run.peak_scratch_by_pe[pe]
    assert max(persistent) == run.memory_log.persistent_by_pe[pe]


def test_one_pe_is_drawn_in_bytes(runs: Any) -> None:
    run = runs("one")
    ax = kb.plots.occupancy(run)
    (whole,), (solid,) = areas(ax, "in use"), areas(ax, "persistent")
    assert whole[:, 1].max() == run.peak_scratch
    assert solid[:, 1].max() == run.persistent_bytes
    assert whole[:, 0].max() == run.makespan_ps


def test_several_pes_share_one_scale(runs: Any) -> None:
    run = runs("eight")
    ax = kb.plots.occupancy(run)
    found = areas(ax, "in use")
    assert len(found) == 8
    for place, area in enumerate(found):
        peak = run.peak_scratch_by_pe[place]
        assert area[:, 1].max() + place == pytest.approx(FULL * peak / run.peak_scratch)
        assert area[:, 1].min() == -place
    assert [t.get_text() for t in ax.get_yticklabels()] == [f"PE {i}" for i in range(8)]
    assert [t.get_text() for t in ax.texts if t.get_gid() == "peak"] == ["25\u2009680 B"] * 8
    assert any("lanes are 25\u2009680 B high, 2.4 % of the limit" in t.get_text() for t in ax.texts)


def test_to_the_limit(runs: Any) -> None:
    run = runs("eight")
    ax = kb.plots.occupancy(run, ylim=run.topology.scratch_bytes)
    (limit,) = (c for c in ax.collections if c.get_gid() == "limit")
    assert [s[0][1] for s in limit.get_segments()] == [FULL - i for i in range(8)]
    assert areas(ax, "in use")[0][:, 1].max() == pytest.approx(FULL * 25_680 / 1_048_576)


def test_an_overflow_has_a_cross_on_its_pe(runs: Any) -> None:
    run = runs("overflow of 8")
    ax = kb.plots.occupancy(run)
    event = run.memory[run.memory.event == "overflow"].iloc[0]
    (cross,) = (line for line in ax.lines if line.get_gid() == "overflow")
    assert cross.get_xdata()[0] == event.time_ps
    assert cross.get_ydata()[0] == pytest.approx(-event.pe + event.addr * FULL / 1_048_576)
    assert repr(ax).endswith("on PE 0, overflow on PE 0>")


def test_one_collection_however_many_pes_and_steps(runs: Any) -> None:
    for name in ("many", "long"):
        ax = kb.plots.occupancy(runs(name))
        assert len(ax.collections) <= 5
    assert len(areas(kb.plots.occupancy(runs("many")), "in use")) == 64


def test_more_pes_than_lanes_are_thinned_evenly_and_it_says_so() -> None:
    run = kb.bench("gqa_decode", S_kv=256, h_q=1, h_kv=1, d=64, tile=16, pes=128, cubes=16, data=False)
    ax = kb.plots.occupancy(run)
    assert len(areas(ax, "in use")) == 64
    assert any("one of 2 PEs" in t.get_text() for t in ax.texts)
    assert len(areas(kb.plots.occupancy(run, run.pes), "in use")) == 128
