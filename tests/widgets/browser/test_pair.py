"""Two runs side by side: one scale, the same tile at the same place, and the one that stops says why."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from harness import Page, View

from kernbench_nb.widgets.reader import Trace

Traces = Callable[[str], Trace]
NAMES = ["With scratch scopes", "Without scratch scopes"]


def side(view: View, n: int, selector: str) -> str:
    return str(view[f".side >> nth={n} >> {selector}"].text_content()).replace("\u202f", "")


def tiles_of(trace: Trace) -> np.ndarray:
    tiles = trace.tables["tiles"]
    return np.flatnonzero((tiles["pe"] == 0) & (tiles["place"] > 0))


@pytest.fixture
def pair(page: Page, trace: Traces) -> View:
    return page.show(trace("long"), trace("overflow"), names=NAMES, step=20)


def test_both_are_stepped_by_tile(pair: View, trace: Traces) -> None:
    assert pair[".pos"].text_content() == "tile 19 · 20 of 100"
    pair.keys("ArrowRight")
    assert pair.get("step") == 21
    for n, name in enumerate(("long", "overflow")):
        t = trace(name)
        stop = t.tables["tiles"]["stop"][tiles_of(t)[20]]
        label = pair[f".side >> nth={n} >> .p-arena svg"].get_attribute("aria-label").replace("\u202f", "")
        assert f"cursor {t.ops['cursor'][stop]} bytes" in label
        assert "21 of 100" in side(pair, n, ".stat")


def test_the_unscoped_run_hits_the_limit_and_stops_there(pair: View, trace: Traces) -> None:
    t = trace("overflow")
    error = t.head["error"]
    place = int(t.tables["tiles"]["place"][error["tile"]])
    pair.set("step", place - 1)
    pair.settle()
    assert "dead" not in pair[".side >> nth=1"].get_attribute("class")
    pair.keys("ArrowRight")
    assert "dead" in pair[".side >> nth=1"].get_attribute("class")
    said = side(pair, 1, ".said")
    assert "ScratchOverflowError" in said
    assert f"wants {error['wanted']} B; {error['free']} B are free of {error['limit']}" in said
    assert f"Of the {error['live_count']} live blocks, {error['read_again']} are ever read again: " in said
    again = [b for b in error["live"] if b["again"]]
    assert f"{', '.join(b['name'] for b in again)}, 9.4 KiB of 1018 KiB." in said
    assert "dead weight" in said
    assert "never reached" in side(pair, 1, ".p-arena")
    assert "never reached" in side(pair, 1, ".p-score")
    assert pair[".side >> nth=1 >> .tile-err"].count() == 1
    assert "is full and the run has stopped" in pair[".caption"].text_content()
    pair.keys("End")
    assert "47 of 100" in side(pair, 1, ".stat")
    assert "Done: all 100 tiles" in side(pair, 0, ".said")
    # one run has divided and stored since, and is not where its last tile ended
    assert pair[".caption"].text_content().startswith("At the end with scratch scopes")
    pair.keys("ArrowLeft")
    assert pair[".caption"].text_content().startswith("After tile 98")


def test_what_earlier_tiles_left_is_counted(pair: View) -> None:
    """Three tiles are folded, and what the third made is not called older than itself."""
    pair.set("step", 3)
    pair.settle()
    assert "3 of 100" in side(pair, 1, ".stat")
    assert "24 of them were made in earlier tiles" in side(pair, 1, ".said")


def test_a_tile_stands_at_the_same_place_on_both_sides(pair: View) -> None:
    """The playheads of both are at the same x at each stop."""
    for step in (0, 1, 7, 33, 47):
        pair.set("step", step)
        pair.settle()
        at = [
            float(pair[f".side >> nth={n} >> .p-arena line.play"].first.get_attribute("x1")) for n in (0, 1)
        ]
        assert abs(at[0] - at[1]) < 4


def test_addresses_have_one_scale(pair: View) -> None:
    limits = [pair[f".side >> nth={n} >> .p-arena line.limit"].first.get_attribute("y1") for n in (0, 1)]
    assert limits[0] == limits[1]


def test_two_runs_that_fit_share_the_higher_peak(page: Page, trace: Traces) -> None:
    view = page.show(trace("prefetch"), trace("prefetch"), names=["plain", "prefetched"], step=2)
    assert view[".p-arena line.limit"].count() == 0
    assert view[".caption"].text_content().startswith("After tile 1 plain: ")


def test_keys_and_ends(pair: View) -> None:
    pair.keys("Home")
    assert pair.get("step") == 0
    pair.keys("ArrowLeft")
    assert pair.get("step") == 0
    pair.keys("PageDown", "ArrowDown", "ArrowUp")
    assert pair.get("step") == 1
    pair.keys("End")
    assert pair.get("step") == 100


def test_a_press_while_it_moves_goes_on_from_the_target(pair: View) -> None:
    pair[".kb"].first.focus()
    for _ in range(3):
        pair.page.keyboard.press("ArrowRight")
    pair.settle()
    assert pair.get("step") == 23
    assert "23 of 100" in side(pair, 0, ".stat")


def test_a_click_on_a_tile_goes_there(pair: View) -> None:
    svg = pair[".side >> nth=0 >> .p-score svg"]
    svg.scroll_into_view_if_needed()
    box = svg.bounding_box()
    svg.click(position={"x": 58 + (box["width"] - 59) * 0.305, "y": 60})
    pair.settle()
    assert pair.get("step") == 31


def test_step_from_outside(pair: View) -> None:
    before = pair.draws
    pair.set("step", 12)
    pair.settle()
    assert pair[".pos"].text_content() == "tile 11 · 12 of 100"
    assert pair.draws - before == 1
    pair.set("step", 5000)
    assert pair.get("step") == 100


def test_pairs_of_several_pes(page: Page, trace: Traces) -> None:
    view = page.show(trace("decode"), trace("unscoped"), step=2, pe=3)
    view["button:has-text('PE 6')"].click()
    view.settle()
    assert view.get("pe") == 6
    assert view[".p-arena svg"].first.get_attribute("aria-label").startswith("Scratch of PE 6")
