"""A hundred thousand operations and four thousand tiles: the page stays whole.

How fast it is, benchmarks/stepper.py says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from harness import Page

import kernbench_nb as kb
from kernbench_nb.widgets.places import Spot, find_spot
from kernbench_nb.widgets.reader import Trace
from kernbench_nb.widgets.trace import trace_of
from kernbench_nb.widgets.twin import Twin
from kernbench_nb.widgets.window import thinned


@pytest.fixture(scope="module")
def large() -> Trace:
    """4 600 tiles on one PE."""
    return trace_of(
        kb.bench("gqa_decode", h_q=8, h_kv=1, d=128, S_kv=64 * 4600, pes=1, tile=64, data=False), twin=Twin()
    )


@pytest.fixture(scope="module")
def square() -> Trace:
    """64 x 64 tiles, half of them skipped."""
    x = np.zeros((1024, 1, 16), np.float16)
    return trace_of(kb.flash(x, x, x, tile_q=16, tile_kv=16, causal=True, data=False), twin=Twin())


def test_a_hundred_thousand_operations(page: Page, large: Trace, trace: Any) -> None:
    assert len(large.ops["kind"]) >= 100_000
    small = page.show(trace("decode"), name="small", step=40, view="page")
    page.model("large", large, step=50_000, view="page")
    view = page.view("large", name="stepper")
    # what is drawn does not grow with the run
    assert view["svg *"].count() < 2.5 * small["svg *"].count()
    small.unmount()

    last = large.head["pes"][0]["op1"] - 1
    view.set("granularity", "op")
    for step in (99_999, 3, last):
        view.set("step", step)
        label = view[".p-arena svg"].get_attribute("aria-label").replace("\u202f", "")
        assert f"cursor {large.ops['cursor'][step]} bytes" in label
        assert view[".draw-error:visible"].count() == 0
    # the rest of the run is a strip below, which says where the window around the step is
    shown = " ".join(view.texts(".p-arena text")).replace("\u202f", "")
    assert f"of {last + 1} operations" in shown

    view.set("granularity", "tile")
    view.set("step", 40_000)
    view["select[aria-label=Speed]"].select_option("60")
    view[".kb"].first.focus()
    page.page.keyboard.press(" ")
    page.frames(30)
    page.page.keyboard.press(" ")
    view.settle()
    assert view.get("step") > 40_100
    assert view[".pos"].text_content().startswith("tile ")
    view.unmount()

    log = page.view("large", module="log", name="log")
    log[".search"].fill("exp")
    log["th button:text-is('name')"].click()
    assert log[".logtable tbody tr[data-at]"].count() < 40
    log[".bar"].first.click()
    assert sum(b - a for a, b in log.get("selection")) > 4000
    log.unmount()

    arenas = page.view("large", module="arenas", name="arenas")
    assert arenas[".draw-error:visible"].count() == 0


def test_four_thousand_tiles_in_a_square(page: Page, square: Trace) -> None:
    tiles = square.tables["tiles"]
    assert len(tiles["pe"]) >= 4096
    view = page.show(square)
    n = int(np.flatnonzero(tiles["place"] == 900)[0])
    view.set("step", int(tiles["stop"][n]))
    said = view[".p-score svg"].get_attribute("aria-label").replace("\u202f", "")
    assert "900 of 2080 tiles folded, 2016 skipped" in said
    view.keys("ArrowRight")
    assert "901 of" in view[".p-score svg"].get_attribute("aria-label").replace("\u202f", "")


def test_a_window_of_a_run_that_is_longer_still(page: Page, large: Trace) -> None:
    """What lies before the window is done and alive, what lies behind it is to come; a note says what is here."""
    part, spot = thinned(large, Spot(0, 50_000, 0), most=3_000)
    view = page.show(part, step=spot.step, view="page")
    assert "of 101 200 steps are here" in view[".remark"].text_content().replace("\u202f", " ").replace(
        ",", " "
    )
    for step in (spot.step, 0, len(part.ops["kind"]) - 1):
        view.set("step", step)
        assert view[".draw-error:visible"].count() == 0
        tile = int(part.ops["tile"][step])
        place = int(part.tables["tiles"]["place"][tile])
        said = view[".p-score svg"].get_attribute("aria-label").replace("\u202f", "")
        assert f"{place} of 4600 tiles" in said or f"{place - 1} of 4600 tiles" in said
        cursor = int(part.ops["cursor"][step])
        assert f"cursor {cursor} bytes" in view[".p-arena svg"].get_attribute("aria-label").replace(
            "\u202f", ""
        )
        assert "Persistent arena" in view.texts(".p-arena text")


def test_a_window_of_many_pes(page: Page) -> None:
    whole = trace_of(
        kb.bench("gqa_decode", h_q=8, h_kv=1, d=128, S_kv=2**14, pes=16, tile=64, data=False), twin=Twin()
    )
    part, spot = thinned(whole, Spot(9, 150, 0), most=1_600)
    view = page.show(part, pe=9, step=spot.step, view="page")
    assert {"O", "l", "m", "Q"} <= set(view.texts(".p-arena text.mono"))
    view.set("pe", 12)
    assert {"O", "l", "m", "Q"} <= set(view.texts(".p-arena text.mono"))
    assert view[".draw-error:visible"].count() == 0


def test_numbers_of_a_part_are_those_of_the_whole_run(page: Page, trace: Callable[[str], Trace]) -> None:
    """Cut to a window, a view says of the same step what it says of it in the whole run."""
    whole = trace("long")
    part, here = thinned(whole, find_spot(whole, tile="tile 40"), most=300)
    assert part.head["window"] is not None
    step = here.step + int(part.pes[0]["before"])
    views = page.show(whole, name="whole", step=step), page.show(part, name="part", step=here.step)
    for granularity in ("tile", "op"):
        for view in views:
            view.set("granularity", granularity)
        for selector in (".counters", ".pos", ".caption"):
            a, b = (view[selector].text_content() for view in views)
            assert a == b
    shown = [view.texts(".p-arena text") for view in views]
    assert all(any(text.startswith("operation ") for text in texts) for texts in shown)
    operation = [next(text for text in texts if text.startswith("operation ")) for texts in shown]
    assert operation[0] == operation[1]
