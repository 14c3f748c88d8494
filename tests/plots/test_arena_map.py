"""The numbers in `arena_map` are the run's, at the moment that was asked for."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection

import kernbench_nb as kb
from kernbench_nb.plots._arena_list import lines_of
from kernbench_nb.plots._arena_view import look_at
from kernbench_nb.plots._moment import moment_of
from kernbench_nb.runtime_api.result import RunResult


def spans(ax: Axes, home: str) -> list[tuple[int, int]]:
    """(low, high) of the blocks of a kind."""
    found = []
    for c in ax.collections:
        if isinstance(c, PolyCollection) and c.get_gid().split()[0] == home and "outline" not in c.get_gid():
            found += [(int(p.vertices[:, 1].min()), int(p.vertices[:, 1].max())) for p in c.get_paths()]
    return sorted(found)


def given_back(ax: Axes) -> list[tuple[int, int]]:
    (found,) = (c for c in ax.collections if c.get_gid() == "given back")
    return sorted((int(p.vertices[:, 1].min()), int(p.vertices[:, 1].max())) for p in found.get_paths())


def level(ax: Axes, gid: str) -> list[int]:
    return [int(a.get_ydata()[0]) for a in ax.lines if a.get_gid() == gid]


def said(ax: Axes, style: str) -> list[str]:
    return [
        t.get_text().replace("\u2009", " ")
        for t in ax.texts
        if t.get_gid() == f"list {style}" and t.get_text()
    ]


def title(ax: Axes) -> str:
    return next(
        t.get_text() for t in ax.texts if t.get_fontweight() == "bold" and t.get_text().startswith("Scratch")
    )


def of_frame(run: RunResult, pe: int, row: int) -> list[tuple[str, int, int]]:
    """(arena, low, high) of what is live once a row is done, from `run.memory` alone."""
    live: list[Any] = []
    memory = run.memory
    for event in memory[(memory.pe == pe) & (memory.row <= row)].sort_values("row").itertuples():
        if event.event == "alloc" and event.size:
            live.append(event)
        elif event.event == "rewind":
            live = [e for e in live if e.addr < event.cursor_after]
    return [(e.arena, e.addr, e.addr + e.size) for e in live]


@pytest.mark.parametrize("row", [0, 3, 20, 36, 37, 61, 76, 79, 85])
def test_every_live_block_is_where_the_run_says(runs: Any, row: int) -> None:
    run = runs("eight")
    record = next(event for event in (*run.op_log, *run.memory_log) if event.pe == 0 and event.row == row)
    ax = kb.plots.arena_map(run, record)
    wanted = of_frame(run, 0, row)
    assert spans(ax, "persistent") == sorted(
        (low, high) for arena, low, high in wanted if arena == "persistent"
    )
    assert spans(ax, "scoped") == sorted((low, high) for arena, low, high in wanted if arena == "scoped")
    assert level(ax, "cursor") == [max((high for _, _, high in wanted), default=0)]


def test_the_peak_is_where_it_opens(runs: Any) -> None:
    run = runs("one")
    ax = kb.plots.arena_map(run)
    assert title(ax) == "Scratch of PE 0 at the peak"
    assert level(ax, "cursor") == level(ax, "high-water") == [run.peak_scratch]
    assert level(ax, "save-point") == [run.persistent_bytes] == [3552]
    assert said(ax, "head") == ["Persistent arena", "3 552 B", "Scoped arena", "22 128 B", "tile 1"]


def test_a_moment_in_a_tile_named_by_meaning(runs: Any) -> None:
    ax = kb.plots.arena_map(runs("eight"), "O*c", 7, tile="tile 2")
    assert title(ax) == "Scratch of PE 7 after O*c in tile 2"
    assert said(ax, "new") == ["O*c", "2 304", "3×3×64 f32"]
    assert level(ax, "cursor") == [12_592]
    assert level(ax, "high-water") == [25_680]
    assert said(ax, "free") == ["Given back", "13 088 B", "free until overwritten"]
    dead = given_back(ax)
    assert (dead[0][0], dead[-1][1]) == (12_592, 25_680)
    assert all(a[1] == b[0] for a, b in pairwise(dead)), "no gap, no overlap"
    owners = [t.get_text() for t in ax.texts if t.get_gid() == "dead owner"]
    assert owners == ["V", "O*c", "p*V", "O_new"]


def test_a_copy_shows_where_from_and_where_to(runs: Any) -> None:
    run = runs("eight")
    ax = kb.plots.arena_map(run, "copy O", 7, tile="tile 2")
    (arrow,) = (p for p in ax.patches if p.get_gid() == "copied")
    (_, a), (_, b) = arrow._posA_posB
    row = moment_of(run, "copy O", 7, "tile 2").row
    source = run.memory_log.block_at(row, next(r for r in run.op_log if r.row == row).addresses[0])
    assert source.addr < a < source.addr + source.size
    assert said(ax, "new")[0] == "O"
    assert 1248 < b < 3552
    (frame,) = (p for p in ax.patches if p.get_gid() == "just written")
    assert (frame.get_y(), frame.get_height()) == (1248, 2304)


def test_an_overflow_opens_at_the_overflow(runs: Any) -> None:
    run = runs("overflow")
    ax = kb.plots.arena_map(run)
    assert title(ax) == "Scratch of PE 0 at the overflow"
    assert said(ax, "refused") == ["V wants 6 144 B,", "6 112 B are free"]
    assert level(ax, "limit") == [1_048_576]
    (refused,) = (p for p in ax.patches if p.get_gid() == "refused")
    assert (refused.get_y(), refused.get_height()) == (1_042_464, 6_144)
    assert len(spans(ax, "kept")) + len(spans(ax, "persistent")) == 794
    assert said(ax, "head") == ["Persistent arena", "1 042 464 B"]
    # tiles 47 and 46 block by block, the others on one line, and all bytes are there
    assert said(ax, "group") == ["tile 0 to tile 45", "1 010 640", "772 blocks"]
    assert said(ax, "sub") == ["tile 46", "22 128", "tile 47", "6 144"]
    assert 1_010_640 + 6_144 + 22_128 + 3_552 == 1_042_464


def test_the_bar_is_true_to_scale(runs: Any) -> None:
    run = runs("eight")
    ax = kb.plots.arena_map(run, "O*c", 7, tile="tile 2")
    (bar,) = ax.child_axes
    assert bar.get_ylim() == (0, run.topology.scratch_bytes)
    heights = {p.get_gid(): p.get_height() for p in bar.patches}
    assert heights == {"high-water": 25_680, "in use": 12_592}


def test_two_moments_share_one_scale(runs: Any) -> None:
    a, b = (kb.plots.arena_map(runs("one"), at) for at in ("peak", 300))
    assert a.get_ylim() == b.get_ylim()
    assert a.get_ylim()[1] > 25_680


@pytest.mark.parametrize("room", [4, 8, 12, 16, 20, 26, 40, 1000])
@pytest.mark.parametrize("name", ["one", "overflow", "prefetch", "causal"])
def test_the_list_loses_no_byte_however_small(runs: Any, name: str, room: int) -> None:
    run = runs(name)
    view = look_at(run, moment_of(run, None, 0, None))
    lines = lines_of(view, room)
    assert len(lines) <= max(room, 9)
    taken = sum(line.high - line.low for line in lines if line.style in ("block", "new"))
    if room == 1000:
        assert taken == view.cursor
    more = [line for line in lines if line.style in ("group", "more")]
    listed = sum(int(line.size.replace("\u2009", "").partition(" ")[0]) for line in more)
    assert taken + listed == view.cursor


def test_padding_is_explained(runs: Any) -> None:
    ax = kb.plots.arena_map(runs("one"))
    assert "36 + 12" in said(ax, "block")
    assert any(t.get_text() == "36 + 12: bytes asked for, and what alignment adds" for t in ax.texts)


def test_what_has_no_name_is_called_by_its_operation(runs: Any) -> None:
    ax = kb.plots.arena_map(runs("no scopes"))
    names = [*said(ax, "block")[::3], *said(ax, "new")[:1]]
    assert names == ["x", "(mul)", "(add)", "z", "(exp)", "(gemm)"], "from the lowest address up"


def test_before_anything_the_scratch_is_empty(runs: Any) -> None:
    ax = kb.plots.arena_map(runs("one"), 0)
    assert level(ax, "cursor") == [0]
    assert "nothing is allocated yet" in [t.get_text() for t in ax.texts]


# -- moments -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", ["O*c", "load K", "copy O", "K", 1234.5, "peak", "end"])
def test_a_moment_inside_a_tile_or_at_a_time(runs: Any, at: Any) -> None:
    run = runs("eight")
    moment = moment_of(run, at, 3, None)
    assert moment.pe == 3
    assert run.op_log.rows.pe[moment.row] == 3


def test_a_send_is_found_by_what_it_sends(runs: Any) -> None:
    run = runs("eight")
    row = moment_of(run, "send O", 7, None).row
    record = next(r for r in run.op_log if r.row == row)
    assert (record.op_name, record.nbytes) == ("ipc_send", 2304)


def test_a_store_is_found_by_its_tensor(runs: Any) -> None:
    run = runs("naive")
    record = next(r for r in run.op_log if r.row == moment_of(run, "store S", 0, None).row)
    assert (record.op_name, record.tensor) == ("dma_write", "S")


def test_the_end_of_a_tile_is_before_its_rewind(runs: Any) -> None:
    run = runs("one")
    moment = moment_of(run, None, 0, "tile 3")
    assert run.memory_log.cursor[moment.row] == 25_680
    assert run.memory_log.cursor[moment.row + 1] == 3_552


def test_a_time_means_the_last_thing_asked_for(runs: Any) -> None:
    run = runs("one")
    when = run.memory[run.memory.pe == 0].time_ps.iloc[10]
    rows = run.op_log.rows
    assert moment_of(run, when / 1000, 0, None).row == np.flatnonzero(rows.event_ps == when)[-1]


def test_no_such_operation_lists_those_there_are(runs: Any) -> None:
    text = r"no operation of PE 0 in tile 2 is called 'O\*d'\. There are: K, load K, V, .*, copy O\. Or give at= a time"
    with pytest.raises(ValueError, match=text):
        kb.plots.arena_map(runs("one"), "O*d", tile="tile 2")


def test_no_such_tile_lists_those_there_are(runs: Any) -> None:
    text = r"PE 0 has no scope 'tile 20'\. There are: tile 0, .*, \.\.\., tile 19, finish\."
    with pytest.raises(ValueError, match=text):
        kb.plots.arena_map(runs("one"), tile="tile 20")
