"""The numbers in `engines` are the run's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.legend import Legend

import kernbench_nb as kb

ENGINES = ("dma", "gemm", "math", "ipc")


def bars(ax: Axes, engine: str) -> list[tuple[int, int]]:
    """(start, end) of the bars of an engine, over all PEs."""
    found = [c for c in ax.collections if isinstance(c, PolyCollection) and c.get_gid() == engine]
    assert len(found) <= 1
    return sorted(
        (int(p.vertices[:, 0].min()), int(p.vertices[:, 0].max())) for c in found for p in c.get_paths()
    )


def lines(ax: Axes, gid: str) -> list[tuple[int, int]]:
    found = [c for c in ax.collections if isinstance(c, LineCollection) and c.get_gid() == gid]
    assert len(found) <= 1
    return sorted((int(s[0][0]), int(s[1][0])) for c in found for s in c.get_segments())


@pytest.mark.parametrize(("name", "pes"), [("one", None), ("eight", None), ("eight", [7, 0]), ("ring", None)])
def test_bars_are_busy_times(runs: Any, name: str, pes: Any) -> None:
    run = runs(name)
    ax = kb.plots.engines(run, pes)
    frame = run.frame if pes is None else run.frame[run.frame.pe.isin(pes)]
    for engine in ENGINES:
        mine = frame[(frame.engine == engine) & (frame.busy_ps > 0)]
        wanted = sorted(zip(mine.start_ps.tolist(), (mine.start_ps + mine.busy_ps).tolist(), strict=True))
        assert bars(ax, engine) == wanted, engine


def test_what_is_in_flight_ends_when_the_operation_does(runs: Any) -> None:
    run = runs("eight")
    ax = kb.plots.engines(run)
    loads = run.frame[
        (run.frame.op_name == "dma_read") & (run.frame.busy_ps < run.frame.end_ps - run.frame.start_ps)
    ]
    wanted = sorted(zip((loads.start_ps + loads.busy_ps).tolist(), loads.end_ps.tolist(), strict=True))
    assert lines(ax, "in flight dma") == wanted
    assert len(wanted) == 56


def test_waits_are_receives_whose_message_was_not_there(runs: Any) -> None:
    run = runs("eight")
    ax = kb.plots.engines(run)
    frame = run.frame[run.frame.op_name == "ipc_recv"]
    receives = frame[frame.end_ps > frame.start_ps + frame.busy_ps]
    wanted = sorted(
        zip((receives.start_ps + receives.busy_ps).tolist(), receives.end_ps.tolist(), strict=True)
    )
    assert lines(ax, "waits") == wanted
    whom = [t.get_text() for t in ax.texts if t.get_gid() == "wait"]
    assert whom[:3] == ["waits for PE 1", "waits for PE 2", "waits for PE 3"]


def test_each_bar_is_in_the_lane_of_its_engine_and_pe(runs: Any) -> None:
    run = runs("eight")
    ax = kb.plots.engines(run)
    ticks = dict(zip(ax.get_yticks().tolist(), (t.get_text() for t in ax.get_yticklabels()), strict=True))
    assert list(ticks.values()) == [*ENGINES] * 8
    for engine in ENGINES:
        (found,) = (c for c in ax.collections if isinstance(c, PolyCollection) and c.get_gid() == engine)
        middles = {
            round(float(p.vertices[:, 1].min() + p.vertices[:, 1].max()) / 2, 6) for p in found.get_paths()
        }
        assert middles <= {round(y, 6) for y, label in ticks.items() if label == engine}


def test_busy_shares_are_those_of_the_run(runs: Any) -> None:
    run = runs("one")
    shares = [t.get_text() for t in kb.plots.engines(run).texts if t.get_gid() == "busy share"]
    assert shares == [
        *(kb.plots._words.share_text(run.usage.busy_ps[0][e], run.makespan_ps) for e in ENGINES[:3]), "–"
    ]  # fmt: skip


def test_in_a_tile_shares_are_those_of_the_tile(runs: Any) -> None:
    run = runs("one")
    ax = kb.plots.engines(run, tile="tile 3")
    tile = run.tiles[run.tiles.tile == "tile 3"].iloc[0]
    inside = run.frame[run.frame.tile == "tile 3"]
    span = tile.end_ps - tile.start_ps
    assert ax.get_xlim()[0] == tile.start_ps
    assert ax.get_xlim()[1] == pytest.approx(tile.end_ps, rel=0.01)
    wanted = [
        kb.plots._words.share_text(int(inside[inside.engine == e].busy_ps.sum()), span) for e in ENGINES[:3]
    ]
    assert [t.get_text() for t in ax.texts if t.get_gid() == "busy share"] == [*wanted, "–"]
    assert [t.get_text() for t in ax.texts if t.get_gid() == "bar name"][:2] == ["K", "V"]


def test_ten_thousand_bars_are_one_collection_an_engine(runs: Any) -> None:
    run = runs("long")
    ax = kb.plots.engines(run)
    assert sum(len(bars(ax, engine)) for engine in ENGINES) == (run.frame.busy_ps > 0).sum() > 10_000
    assert len(ax.collections) + len(ax.patches) + len(ax.lines) < 20
    assert len(ax.texts) < 60


def test_many_pes_have_a_lane_each(runs: Any) -> None:
    run = runs("many")
    ax = kb.plots.engines(run)
    assert ax.get_yticklabels()[0].get_text() == "PE 0"
    assert len(bars(ax, "dma")) == ((run.frame.engine == "dma") & (run.frame.busy_ps > 0)).sum()
    assert [t for t in ax.texts if t.get_gid() in ("busy share", "bar name")] == []


def test_tiles_are_the_ground(runs: Any) -> None:
    run = runs("eight")
    (grounds,) = (c for c in kb.plots.engines(run).collections if c.get_gid() == "tiles")
    found = sorted((int(p.vertices[:, 0].min()), int(p.vertices[:, 0].max())) for p in grounds.get_paths())
    assert found == sorted(zip(run.tiles.start_ps.tolist(), run.tiles.end_ps.tolist(), strict=True))


def test_unknown_pes_tiles_and_empty_choices(runs: Any) -> None:
    with pytest.raises(ValueError, match=r"pe=9 took no part"):
        kb.plots.engines(runs("eight"), [0, 9])
    with pytest.raises(ValueError, match=r"pes is empty; leave it out to see all PEs"):
        kb.plots.engines(runs("eight"), [])
    with pytest.raises(
        ValueError, match=r"PEs 0 to 7 has no scope 'tile 9'\. There are: tile 0, tile 1, tile 2"
    ):
        kb.plots.engines(runs("eight"), tile="tile 9")


def test_one_pe_may_be_a_plain_number(runs: Any) -> None:
    a, b = kb.plots.engines(runs("eight"), 3), kb.plots.engines(runs("eight"), np.int64(3))
    assert repr(a) == repr(b)
    assert repr(a).startswith("<engines of gqa_decode_long_kernel, PE 3: ")


def test_a_name_stands_inside_its_bar_with_its_texture_on_either_side(runs: Any) -> None:
    ax = kb.plots.engines(runs("prefetch"), tile="tile 3")
    names = [t for t in ax.texts if t.get_gid() == "bar name"]
    assert {"K", "V", "qk", "p*V", "exp"} <= {t.get_text() for t in names}
    edges = [span for engine in ENGINES for span in bars(ax, engine)]
    to_px = ax.transData.transform
    for t in names:
        assert t.get_bbox_patch() is None, "no box hides the bar"
        at = t.get_position()[0]
        box = t.get_window_extent()
        first, last = ax.get_xlim()
        around = [
            (to_px((max(a, first), 0))[0], to_px((min(b, last), 0))[0]) for a, b in edges if a <= at <= b
        ]
        assert any(a + 2 <= box.x0 and box.x1 <= b - 2 for a, b in around), t.get_text()


def test_the_legend_names_all_that_is_drawn(runs: Any) -> None:
    def legend_of(run: str, **how: Any) -> list[str]:
        ax = kb.plots.engines(runs(run), **how)
        return [t.get_text() for box in ax.findobj(Legend) for t in box.get_texts()]

    flight = "in flight until its tick"
    assert legend_of("eight") == [
        *ENGINES, "tile", "busiest engine", flight, "waits for a message (from whom, where there is room)",
    ]  # fmt: skip
    assert legend_of("one") == [*ENGINES[:3], "tile", "busiest engine", flight]
    assert legend_of("hostile") == ["math", "tile", "busiest engine"]
    assert legend_of("many") == [*ENGINES, "tile", "in flight", "waits for a message"]
