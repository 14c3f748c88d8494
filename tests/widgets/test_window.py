"""A long trace cut to a window is right wherever it still is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from kernbench_nb.widgets.places import find_spot
from kernbench_nb.widgets.reader import Trace
from kernbench_nb.widgets.window import thinned

TraceOf = Callable[[str], Trace]


@pytest.fixture(params=["long", "decode", "ring", "overflow"])
def cut(request: pytest.FixtureRequest, trace: TraceOf) -> tuple[Trace, Trace, list[int]]:
    """The whole, the part, and for each row of the part its number in the whole."""
    whole = trace(request.param)
    spot = find_spot(whole)
    part, here = thinned(whole, spot, most=200)
    assert here.pe == spot.pe
    assert len(part.ops["kind"]) <= 200
    # rows of one PE follow each other; the step that was asked for is the same in both
    rows: list[int] = []
    for a, b in zip(whole.pes, part.pes, strict=True):
        count = b["op1"] - b["op0"]
        if not count:
            continue
        first = next(
            r for r in range(a["op0"], a["op1"])
            if all((whole.ops[c][r : r + count] == part.ops[c][b["op0"] : b["op1"]]).all() for c in ("clock", "need"))
        )  # fmt: skip
        rows += range(first, first + count)
    index = whole.index_of(spot.pe)
    assert rows[part.pes[index]["op0"] + here.step] == whole.pes[index]["op0"] + spot.step
    return whole, part, rows


def test_rows_keep_what_they_say(cut: tuple[Trace, Trace, list[int]]) -> None:
    whole, part, rows = cut
    for name in (
        "kind",
        "site",
        "name",
        "scope",
        "tile",
        "start",
        "end",
        "clock",
        "cursor",
        "peak",
        "hbm",
        "copies",
    ):
        assert part.ops[name].tolist() == whole.ops[name][rows].tolist(), name


def test_scratch_is_the_same_at_every_row(cut: tuple[Trace, Trace, list[int]]) -> None:
    whole, part, rows = cut
    for row in range(0, len(rows), 7):
        mine, theirs = part.live(row), whole.live(rows[row])
        for name in ("addr", "size", "name", "engine", "arena", "scope"):
            assert part.allocs[name][mine].tolist() == whole.allocs[name][theirs].tolist()
        out = int(part.ops["out"][row])
        assert (out < 0) == (whole.ops["out"][rows[row]] < 0)
        if out >= 0:
            assert part.allocs["addr"][out] == whole.allocs["addr"][whole.ops["out"][rows[row]]]


def test_open_scopes_are_the_same_at_every_row(cut: tuple[Trace, Trace, list[int]]) -> None:
    whole, part, rows = cut

    def open_at(t: Trace, row: int) -> list[int]:
        s = t.tables["scopes"]
        own = s["part"] == s["part"][t.ops["scope"][row]]
        return np.flatnonzero(own & (s["open"] <= row) & (row < s["close"])).tolist()

    for row in range(0, len(rows), 11):
        assert open_at(part, row) == open_at(whole, rows[row])


def test_tiles_stay_with_their_times(cut: tuple[Trace, Trace, list[int]]) -> None:
    whole, part, _ = cut
    for name in ("label", "kind", "q0", "k1", "start", "end", "layer", "place", "hbm", "peak"):
        assert part.tiles[name].tolist() == whole.tiles[name].tolist()
    for index, p in enumerate(part.pes):
        covered = [
            r for k in part.tiles_of(index) for r in range(part.tiles["op0"][k], part.tiles["op1"][k] + 1)
        ]
        assert covered == list(range(p["op0"], p["op1"]))
    here = np.flatnonzero(part.tiles["op0"] >= 0)
    stop = part.tiles["stop"][here]
    assert (part.tiles["op0"][here] <= stop).all()
    assert (stop <= part.tiles["op1"][here]).all()


def test_the_head_says_that_it_is_a_part(cut: tuple[Trace, Trace, list[int]]) -> None:
    whole, part, rows = cut
    window = part.head["window"]
    total = len(whole.ops["kind"])
    assert (window["first"], window["stop"], window["total"]) == (0, len(rows), total)
    assert window["note"].startswith(f"{len(rows)} of {total:,} steps are here".replace(",", " "))
    assert whole.head["window"] is None
    if whole.head["error"] is not None:
        row = part.head["error"]["op"]
        assert rows[row] == whole.head["error"]["op"]


def test_a_tile_outside_the_window_is_named_as_such(trace: TraceOf) -> None:
    whole = trace("long")
    part, _ = thinned(whole, find_spot(whole, tile="tile 4"), most=100)
    with pytest.raises(ValueError, match=r"no tile is called 'tile 90' on PE 0 \(it is not in this window\)"):
        find_spot(part, tile="tile 90")


def test_a_short_trace_is_left_alone(trace: TraceOf) -> None:
    whole = trace("user")
    assert thinned(whole, find_spot(whole))[0] is whole


def test_a_view_of_a_long_run_holds_a_window(monkeypatch: pytest.MonkeyPatch, run_of: Callable) -> None:
    from kernbench_nb.widgets import opening

    monkeypatch.setattr(opening, "thinned", lambda t, s: thinned(t, s, most=300))
    import kernbench_nb as kb

    view = kb.step(run_of("long"), tile="tile 70")
    assert view.heads[0]["window"]["total"] == 2200
    assert view.steps == 300
    assert "tile 70" in view.svg()
    view.close()


def test_a_part_says_where_it_lies_and_what_the_whole_run_did(cut: tuple[Trace, Trace, list[int]]) -> None:
    whole, part, rows = cut
    for a, b in zip(whole.pes, part.pes, strict=True):
        if b["op1"] > b["op0"]:
            assert b["before"] == rows[b["op0"]] - a["op0"]
        assert b["rows"] == a["rows"] == a["op1"] - a["op0"]
        assert (a["before"], b["total"]) == (0, a["total"])
        if a["op1"] > a["op0"]:
            assert a["total"] == {n: whole.ops[n][a["op1"] - 1] for n in ("hbm", "flops", "copies", "need")}
