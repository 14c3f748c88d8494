"""The numbers in `arena_timeline` are the run's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.legend import Legend

import kernbench_nb as kb
from kernbench_nb.benches import wrong
from kernbench_nb.plots._scales import common_lead
from kernbench_nb.runtime_api.result import RunResult

Box = tuple[int, int, int, int]


def boxes(collection: PolyCollection) -> list[Box]:
    """(left, right, low, high) of each rectangle."""
    found = []
    for path in collection.get_paths():
        x, y = path.vertices.T
        found.append((int(x.min()), int(x.max()), int(y.min()), int(y.max())))
    return found


def fills(ax: Axes) -> dict[str, list[Box]]:
    return {
        c.get_gid(): boxes(c)
        for c in ax.collections
        if isinstance(c, PolyCollection) and c.get_gid().split()[0] in ("persistent", "kept", "scoped")
        if "outline" not in c.get_gid()
    }


def replayed(run: RunResult, pe: int) -> dict[str, list[Box]]:
    """The same from `run.memory` alone: an allocation lives until a rewind below it, or until its kernel ends."""
    memory = run.memory
    memory = memory[memory.pe == pe].sort_values("row")
    found: dict[str, list[Box]] = {"persistent": [], "kept": [], "scoped": []}
    ends = [(p.stop, p.end_ps) for p in run.op_log.rows.parts if p.pe == pe]
    live: list[Any] = []
    for event in memory.itertuples():
        while ends and event.row >= ends[0][0]:
            _close(found, live, ends.pop(0)[1], 0)
        if event.event == "alloc" and event.size:
            live.append(event)
        elif event.event == "rewind":
            _close(found, live, event.time_ps, event.cursor_after)
    for _, end in ends:
        _close(found, live, end, 0)
    return found


def _close(found: dict[str, list[Box]], live: list[Any], time: int, cursor: int) -> None:
    for event in [e for e in live if e.addr >= cursor]:
        home = "scoped" if event.arena == "scoped" else "kept" if event.scope else "persistent"
        found[home].append((event.time_ps, time, event.addr, event.addr + event.size))
        live.remove(event)


@pytest.mark.parametrize(
    ("name", "pe"),
    [
        ("one", 0),
        ("eight", 7),
        ("prefetch", 0),
        ("causal", 0),
        ("overflow", 0),
        ("ring", None),
        ("hostile", 0),
    ],
)
def test_every_block_is_where_the_run_says(runs: Any, name: str, pe: int | None) -> None:
    run = runs(name)
    pe = run.pes[1] if pe is None else pe
    drawn = fills(kb.plots.arena_timeline(run, pe))
    wanted = replayed(run, pe)
    for home in ("persistent", "kept", "scoped"):
        mine = [box for gid, found in drawn.items() if gid.split()[0] == home for box in found]
        assert sorted(mine) == sorted(wanted[home]), home
    assert sum(map(len, wanted.values())) > 3


def test_blocks_wear_the_colour_of_the_engine_that_wrote_them(runs: Any) -> None:
    drawn = fills(kb.plots.arena_timeline(runs("one")))
    run = runs("one")
    for engine in ("dma", "gemm", "math"):
        tiled = run.frame[(run.frame.engine == engine) & run.frame.scope.astype(str).str.startswith("tile")]
        addresses = set(tiled.out_addr.dropna()) - set(run.memory[run.memory.arena == "persistent"].addr)
        assert {low for _, _, low, _ in drawn[f"scoped {engine}"]} >= addresses


def test_ten_thousand_blocks_are_a_few_collections(runs: Any) -> None:
    ax = kb.plots.arena_timeline(runs("long"))
    drawn = fills(ax)
    assert sum(map(len, drawn.values())) > 8_000
    assert len(drawn) == len([c for c in ax.collections if c.get_gid() in drawn])
    assert len(ax.collections) + len(ax.patches) + len(ax.lines) + len(ax.artists) < 20
    assert len(ax.texts) < 40


def line(ax: Axes, gid: str) -> Any:
    (found,) = (artist for artist in ax.lines if artist.get_gid() == gid)
    return found


def said(ax: Axes, gid: str) -> list[str]:
    return [t.get_text().replace("\u2009", " ") for t in ax.texts if t.get_gid() == gid]


def test_the_peak_and_the_limit(runs: Any) -> None:
    run = runs("one")
    ax = kb.plots.arena_timeline(run)
    assert set(line(ax, "peak").get_ydata()) == {run.peak_scratch} == {25_680}
    assert said(ax, "peak label") == ["peak 25 680 B · 2.4 % of the scratch"]
    assert said(ax, "limit label") == ["↑ limit 1 048 576 B, 40.8 × the peak"]
    assert [a for a in ax.lines if a.get_gid() == "limit"] == []


def test_a_limit_far_above_is_written_in_digits() -> None:
    run = kb.launch(wrong.stale_sum_kernel, np.zeros(1, np.float32), scratch_checks="off")
    assert said(kb.plots.arena_timeline(run), "limit label") == ["↑ limit 1 048 576 B, 1 008 × the peak"]


def test_to_the_limit(runs: Any) -> None:
    run = runs("one")
    ax = kb.plots.arena_timeline(run, ylim=run.topology.scratch_bytes, until=20_000)
    assert set(line(ax, "limit").get_ydata()) == {1_048_576}
    assert ax.get_ylim()[1] > 1_048_576
    assert ax.get_xlim()[1] == pytest.approx(20_000_000, rel=0.01)
    assert said(ax, "limit label") == ["limit 1 048 576 B"]


def test_a_run_that_died_has_a_cross_where_it_died(runs: Any) -> None:
    run = runs("overflow")
    event = run.memory[run.memory.event == "overflow"].iloc[0]
    ax = kb.plots.arena_timeline(run, until=40_000)
    cross = line(ax, "overflow")
    assert (cross.get_xdata()[0], cross.get_ydata()[0]) == (event.time_ps, event.addr)
    assert said(ax, "overflow label") == ["V wants 6 144 B,\n6 112 B are free"]
    assert set(line(ax, "limit").get_ydata()) == {1_048_576}
    (never,) = (p for p in ax.patches if p.get_gid() == "never reached")
    assert never.get_x() == run.makespan_ps
    assert never.get_x() + never.get_width() == ax.get_xlim()[1]


def test_an_overflow_elsewhere_is_told_but_not_drawn_here(runs: Any) -> None:
    run = runs("overflow of 8")
    assert [a for a in kb.plots.arena_timeline(run, 0).lines if a.get_gid() == "overflow"]
    other = kb.plots.arena_timeline(run, 3)
    assert [a for a in other.lines if a.get_gid() == "overflow"] == []
    assert any("stopped by ScratchOverflowError" in t.get_text() for t in other.texts)


def test_the_strip_shows_each_tile(runs: Any) -> None:
    run = runs("one")
    ax = kb.plots.arena_timeline(run)
    (strip,) = (c for c in ax.collections if isinstance(c, LineCollection) and c.get_gid() == "strip")
    mine = strip.get_segments()
    assert len(mine) == len(run.tiles) + 1, "and the finish"
    starts = [segment[0][0] for segment in mine[:-1]]
    assert np.abs(np.array(starts) - run.tiles.start_ps.to_numpy()).max() < 20_000
    assert said(ax, "strip label") == [str(i) for i in range(20)]
    assert said(ax, "strip lead") == ["tile"]


def test_of_many_tiles_some_are_labelled_at_even_steps(runs: Any) -> None:
    *tiles, last = said(kb.plots.arena_timeline(runs("long")), "strip label")
    assert last == "finish"
    labels = [int(text) for text in tiles]
    assert 8 <= len(labels) <= 30
    assert len(set(np.diff(labels))) == 1


def test_waiting_is_told_from_merging(runs: Any) -> None:
    run = runs("eight")
    ax = kb.plots.arena_timeline(run)
    receives = run.frame[(run.frame.pe == 0) & (run.frame.op_name == "ipc_recv")]
    long = receives[receives.end_ps - receives.start_ps > 100_000]
    (dotted,) = (c for c in ax.collections if c.get_gid() == "strip waits")
    assert [(s[0][0], s[1][0]) for s in dotted.get_segments()][:1] == [
        (long.start_ps.iloc[0], long.end_ps.iloc[0])
    ]
    (strip,) = (c for c in ax.collections if c.get_gid() == "strip")
    assert len(strip.get_segments()) == 3 + 2, "three tiles, what the merge does, the finish"
    assert all(
        s[1][0] <= long.start_ps.iloc[0] or s[0][0] >= long.end_ps.iloc[0] for s in strip.get_segments()
    )
    assert said(ax, "strip wait") == ["waits for PE 1"]
    assert said(ax, "strip label") == ["0", "1", "2", "merge PE 1", "finish"]
    assert legend_of(ax)[-2:] == ["merge and finish", "waits for a message"]


def legend_of(ax: Axes) -> list[str]:
    return [t.get_text() for box in ax.findobj(Legend) for t in box.get_texts()]


def test_tiles_too_thin_for_a_texture_are_one_fill_with_boundaries(runs: Any) -> None:
    run = runs("overflow")
    ax = kb.plots.arena_timeline(run, until=40_000)
    assert legend_of(ax) == ["persistent arena", "never given back: 48 tiles, too thin to show", "overflow"]
    kept = [c for c in ax.collections if isinstance(c, PolyCollection) and c.get_gid().startswith("kept ")]
    assert len({tuple(color) for c in kept for color in c.get_facecolor().tolist()}) == 1
    (lines,) = (c for c in ax.collections if c.get_gid() == "tile boundaries")
    starts = (
        run.memory[run.memory.scope.astype(str).str.startswith("tile")]
        .groupby("scope", observed=True)
        .addr.min()
    )
    assert sorted(int(s[0][1]) for s in lines.get_segments()) == sorted(starts)


def test_tiles_that_show_their_texture_keep_it(runs: Any) -> None:
    run = runs("overflow")
    ax = kb.plots.arena_timeline(run, ylim=60_000, until=3_000)
    assert "never given back: dma" in legend_of(ax)
    assert not [c for c in ax.collections if c.get_gid() == "tile boundaries"]


def test_a_kernel_without_scopes_is_told_so(runs: Any) -> None:
    for draw in (kb.plots.arena_timeline, kb.plots.arena_map):
        texts = [t.get_text() for t in draw(runs("no scopes")).texts]
        assert any(t.endswith("no scope was opened: nothing is given back") for t in texts)
        texts = [t.get_text() for t in draw(runs("eight")).texts]
        assert not any("no scope was opened" in t for t in texts)


def test_under_a_title_of_ones_own_the_pe_is_named(runs: Any) -> None:
    def under(name: str, **how: Any) -> str:
        ax = kb.plots.arena_timeline(runs(name), **how)
        return next(t.get_text() for t in ax.texts if "319 keys" in t.get_text())

    assert under("eight", pe=2, title="mine").endswith(" · scratch of PE 2")
    assert under("one", title="mine").endswith("tile 16")


def test_the_labels_of_peak_and_limit_stand_on_two_lines(runs: Any) -> None:
    run = runs("one")
    for ylim in (None, run.peak_scratch):
        ax = kb.plots.arena_timeline(run, ylim=ylim)
        (peak,) = (t for t in ax.texts if t.get_gid() == "peak label")
        (limit,) = (t for t in ax.texts if t.get_gid() == "limit label")
        assert limit.get_window_extent().y0 > peak.get_window_extent().y1


def test_labels_without_common_words_stand_alone() -> None:
    from kernbench_nb.plots._places import Stretch

    assert common_lead([Stretch("a 1", "tile", 0, 1), Stretch("b 2", "tile", 1, 2)]) == ""


def test_a_pe_that_took_no_part_is_named(runs: Any) -> None:
    with pytest.raises(ValueError, match=r"pe=8 took no part in this run of .*; PEs 0 to 7 did\."):
        kb.plots.arena_timeline(runs("eight"), 8)
    with pytest.raises(ValueError, match=r"PEs 0, 8, 16, 24 did\."):
        kb.plots.arena_timeline(runs("ring"), 1)
