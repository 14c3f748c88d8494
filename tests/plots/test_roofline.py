"""Dots, roofs and the table of `roofline` are the runs' numbers."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes

import kernbench_nb as kb
from kernbench_nb.plots._roofline import _beside


@cache
def grouped(h_kv: int, pes: int = 1, **how: Any) -> kb.RunResult:
    return kb.bench("gqa_decode", S_kv=1024, h_q=8, h_kv=h_kv, d=128, tile=64, pes=pes, data=False, **how)


def lines(ax: Axes, gid: str) -> list[np.ndarray]:
    return [np.array(line.get_data()).T for line in ax.lines if line.get_gid() == gid]


def said(ax: Axes, gid: str) -> list[str]:
    return [t.get_text().replace("\u2009", " ") for t in ax.texts if t.get_gid() == gid]


def test_four_dots_climb_one_slope() -> None:
    """Course 07: 8:8 to 8:1 under one roof, each at S*G / (S + G)."""
    runs = {f"8:{h}": grouped(h) for h in (8, 4, 2, 1)}
    ax = kb.plots.roofline(runs)
    (dots,), (roof,) = lines(ax, "runs"), lines(ax, "roof")
    assert dots[:, 0].tolist() == [1024 * g / (1024 + g) for g in (1, 2, 4, 8)]
    assert dots[:, 1].tolist() == [run.roofline.achieved_gflops for run in runs.values()]
    assert (np.diff(dots[:, 1]) > 0).all()
    assert roof[1:].tolist() == [[32, 8192], [ax.get_xlim()[1], 8192]]
    assert roof[0, 1] / roof[0, 0] == 256
    assert said(ax, "label") == list(runs)
    assert said(ax, "peak") == ["8 192 GFLOP/s"]
    assert said(ax, "slope") == ["256 GB/s"]


def test_a_thin_line_leads_up_to_what_is_attainable() -> None:
    ax = kb.plots.roofline([grouped(8), grouped(1)])
    (gaps,) = (c for c in ax.collections if c.get_gid() == "gap")
    tops = [segment[1].tolist() for segment in gaps.get_segments()]
    assert tops == [[r.intensity, r.attainable_gflops] for r in (grouped(8).roofline, grouped(1).roofline)]


def test_the_table_says_what_binds() -> None:
    run = grouped(1)
    roof = run.roofline
    cells = said(kb.plots.roofline({"packed": run}), "table")
    share = f"{100 * roof.achieved_gflops / roof.attainable_gflops:.3g} %"
    binds = f"compute ({roof.compute_engine})" if roof.binds == "compute" else roof.binds
    rate = f"{roof.achieved_gflops:.3g}"
    # column by column
    assert cells == ["", "packed", "FLOP/B", "7.94", "GFLOP/s", rate, "of the roof", share, "binds", binds]


def test_machines_and_pes_have_roofs_of_their_own() -> None:
    ax = kb.plots.roofline([grouped(1), grouped(1, pes=2), grouped(2)])
    roofs = lines(ax, "roof")
    assert sorted(r[-1, 1] for r in roofs) == [8192, 16384]
    assert said(ax, "peak") == ["8 192 GFLOP/s, 1 PE", "16 384 GFLOP/s, 2 PEs"]


def test_runs_are_called_by_what_tells_them_apart(runs: Any) -> None:
    assert said(kb.plots.roofline([grouped(8), grouped(1)]), "label") == ["h_kv 8", "h_kv 1"]
    two = [runs("naive"), runs("causal")]
    assert said(kb.plots.roofline(two), "label") == ["naive_attention", "flash_attention"]
    assert said(kb.plots.roofline(two, ["a", "b"]), "label") == ["a", "b"]


def test_names_without_room_become_numbers() -> None:
    same = [grouped(1)] * 5
    ax = kb.plots.roofline(same, [f"a name as long as can be, and number {i}" for i in range(5)])
    assert said(ax, "number") == ["1", "2", "3", "4", "5"]
    assert said(ax, "label") == []
    assert [text[:5] for text in said(ax, "table")[1:6]] == [f"{i}   a" for i in range(1, 6)]


def test_more_runs_than_can_be_named() -> None:
    ax = kb.plots.roofline([grouped(1)] * 17)
    assert len(lines(ax, "runs")[0]) == 17
    assert said(ax, "table") == said(ax, "label") == said(ax, "number") == []


def test_runs_with_no_place_are_named_under_the_title(runs: Any) -> None:
    ax = kb.plots.roofline({"real": grouped(1), "idle": runs("nothing")})
    assert len(lines(ax, "runs")[0]) == 1
    assert any("no products or no traffic: idle" in t.get_text() for t in ax.texts)


@pytest.mark.parametrize(
    ("given", "labels", "text"),
    [
        ([], None, "there are no runs to draw; give one or more"),
        ("one", ["a", "b"], r"labels must be one for each of 1 run, got \['a', 'b'\]"),
        ("one", "a", r"labels must be one for each of 1 run, got 'a'"),
    ],
)
def test_labels_and_runs_go_together(runs: Any, given: Any, labels: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        kb.plots.roofline([runs("one")] if given == "one" else given, labels)


def test_an_item_that_is_no_run_is_refused(runs: Any) -> None:
    with pytest.raises(TypeError, match=r"kb\.plots\.roofline takes a RunResult, .* got int 4"):
        kb.plots.roofline([runs("one"), 4])


def test_labels_stand_where_nothing_else_does() -> None:
    left, up, needs = [50.0, 60.0, 200.0], [20.0, 40.0, 40.0], [60.0, 60.0, 60.0]
    places = _beside(left, up, needs, 300, lambda x: 100)
    assert places is not None
    boxes = [(x, x + need, y - 4, y + 4) for (x, y), need in zip(places, needs, strict=True)]
    for i, (a, b, c, d) in enumerate(boxes):
        assert 0 <= a < b <= 300
        for j, (x, y) in enumerate(zip(left, up, strict=True)):
            assert not (a < x < b and c < y < d), (i, j)
        for e, f, g, h in boxes[i + 1 :]:
            assert a >= f or b <= e or c >= h or d <= g
    assert _beside(left, up, needs, 300, lambda x: 10) is None, "all of it is above the roof"
    assert _beside([50.0] * 6, [20.0] * 6, [200.0] * 6, 300, lambda x: math.inf) is None
