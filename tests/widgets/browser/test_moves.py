"""Moving: keys, buttons, the slider, play, clicks in every panel; by tile, by operation, from PE to PE."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from harness import Page, View

from kernbench_nb.widgets.reader import Trace

Traces = Callable[[str], Trace]


def stops(trace: Trace, p: int) -> list[int]:
    """Where "by tile" stops on a PE, as steps: the first row, before each rewind, the last row."""
    pe, tiles = trace.head["pes"][p], trace.tables["tiles"]
    rows = {int(s) for s in tiles["stop"][(tiles["pe"] == p) & (tiles["op0"] >= 0)]}
    return sorted(row - pe["op0"] for row in rows | {pe["op0"], pe["op1"] - 1})


def click(view: View, selector: str, x: float, y: float) -> None:
    """Click somewhere in an element."""
    element = view[selector]
    element.scroll_into_view_if_needed()
    element.click(position={"x": x, "y": y})
    view.settle()


def test_keys_step_by_tile(page: Page, trace: Traces) -> None:
    t = trace("decode")
    where = stops(t, 0)
    view = page.show(t)
    view.keys("ArrowRight")
    assert view.get("step") == where[1]
    view.keys("ArrowDown", "PageDown")
    assert view.get("step") == where[3]
    view.keys("ArrowLeft")
    assert view.get("step") == where[2]
    view.keys("ArrowUp", "PageUp")
    assert view.get("step") == where[0]
    view.keys("ArrowLeft")
    assert view.get("step") == 0
    view.keys("End")
    assert view.get("step") == where[-1]
    view.keys("ArrowRight")
    assert view.get("step") == where[-1]
    view.keys("Home")
    assert view.get("step") == 0


def test_keys_step_by_operation(page: Page, trace: Traces) -> None:
    t = trace("decode")
    view = page.show(t, granularity="op", step=10)
    view.keys("ArrowRight", "ArrowRight", "ArrowLeft")
    assert view.get("step") == 11
    assert view[".pos"].text_content() == f"12 of {t.head['pes'][0]['op1']}"
    view.keys("PageDown")
    assert view.get("step") in stops(t, 0)


def test_a_burst_of_presses_counts_every_press(page: Page, trace: Traces) -> None:
    """A press while the view still runs through a tile starts from where it was going."""
    t = trace("decode")
    view = page.show(t)
    view[".kb"].first.focus()
    for _ in range(3):
        page.page.keyboard.press("ArrowRight")
    assert view.get("step") == stops(t, 0)[3]
    view.settle()
    assert view.get("step") == stops(t, 0)[3]


def test_keys_stay_in_the_view(page: Page, trace: Traces) -> None:
    """What the view takes does not go on to the page; and JupyterLab is told to leave the rest alone."""
    view = page.show(trace("user"))
    page.page.evaluate(
        "() => { window.heard = []; document.addEventListener('keydown', e => window.heard.push(e.key)); }"
    )
    view.keys("ArrowRight", " ", " ", "End", "d", "d")
    assert page.page.evaluate("window.heard") == ["d", "d"]
    assert view[".kb"].first.get_attribute("data-lm-suppress-shortcuts") == "true"


def test_space_plays_after_a_click_and_presses_a_button_that_the_keyboard_went_to(
    page: Page, trace: Traces
) -> None:
    view = page.show(trace("user"), view="page")
    fold = view[".p-engines button.fold"]
    fold.click()
    assert fold.get_attribute("aria-expanded") == "false"
    page.page.keyboard.press(" ")
    page.frames(2)
    assert fold.get_attribute("aria-expanded") == "false"
    assert view["button[aria-label=Pause]"].count() == 1
    page.page.keyboard.press(" ")
    view.settle()
    assert view["button[aria-label=Play]"].count() == 1
    fold.focus()
    page.page.keyboard.press(" ")
    assert fold.get_attribute("aria-expanded") == "true"
    assert view["button[aria-label=Play]"].count() == 1


def test_a_view_takes_no_focus_by_itself(page: Page, trace: Traces) -> None:
    """In a notebook the cursor stays in the cell; only a page of its own begins in the view."""
    page.show(trace("user"))
    assert page.page.evaluate("document.activeElement === document.body")


def test_buttons(page: Page, trace: Traces) -> None:
    t = trace("decode")
    where = stops(t, 0)
    view = page.show(t)
    for label, expected in (
        ("Next", where[1]),
        ("Last", where[-1]),
        ("Previous", where[-2]),
        ("First", where[0]),
    ):
        view[f"button[aria-label={label}]"].click()
        view.settle()
        assert view.get("step") == expected
    view["button:has-text('by operation')"].click()
    assert view.get("granularity") == "op"
    view["button[aria-label=Next]"].click()
    view.settle()
    assert view.get("step") == 1


def test_slider_goes_to_stops_by_tile_and_to_rows_by_operation(page: Page, trace: Traces) -> None:
    t = trace("decode")
    view = page.show(t)
    slide = (
        "([name, v]) => { const r = document.querySelector(`#${name} input[type=range]`);"
        " r.value = v; r.dispatchEvent(new Event('input')); }"
    )
    page.page.evaluate(slide, [view.name, 30])
    view.settle()
    assert view.get("step") == min(stops(t, 0), key=lambda s: abs(s - 30))
    view.set("granularity", "op")
    page.page.evaluate(slide, [view.name, 30])
    view.settle()
    assert view.get("step") == 30
    slider = view["input[type=range]"]
    assert slider.get_attribute("max") == str(t.head["pes"][0]["op1"] - 1)
    assert slider.get_attribute("aria-valuetext") == view[".pos"].text_content()


def test_play_runs_to_the_end_and_stops(page: Page, trace: Traces) -> None:
    t = trace("user")
    view = page.show(t, granularity="op", step=t.head["pes"][0]["op1"] - 6)
    view["select[aria-label=Speed]"].select_option("60")
    view[".kb"].first.focus()
    page.page.keyboard.press(" ")
    view[f".pos:text('{t.head['pes'][0]['op1']} of')"].wait_for()
    view["button[aria-label=Play]"].wait_for()
    assert view.get("step") == t.head["pes"][0]["op1"] - 1
    page.page.keyboard.press(" ")
    view["button[aria-label=Pause]"].wait_for()
    page.page.keyboard.press(" ")
    view["button[aria-label=Play]"].wait_for()
    assert view.get("step") < t.head["pes"][0]["op1"] - 1


def test_a_step_by_tile_runs_through_its_operations(page: Page, trace: Traces) -> None:
    """The rewind and the refill are drawn; the traits see only where it ends."""
    view = page.show(trace("decode"))
    before = view.draws
    view.keys("ArrowRight", "ArrowRight")
    assert view.draws - before > 2  # a jump is one draw a press; how many more, the machine decides
    sets = page.page.evaluate("window.models.view.sets.filter(s => s[0] === 'step').length")
    assert sets == 2


def test_another_pe_is_shown_at_the_same_time(page: Page, trace: Traces) -> None:
    t = trace("decode")
    view = page.show(t, step=40)
    now = t.ops["clock"][40]
    view["button:has-text('PE 5')"].click()
    view.settle()
    assert view.get("pe") == 5
    pe = t.head["pes"][5]
    clocks = t.ops["clock"][pe["op0"] : pe["op1"]]
    assert view.get("step") == np.searchsorted(clocks, now, side="right") - 1


def test_a_click_on_a_tile_goes_to_its_end(page: Page, trace: Traces) -> None:
    t = trace("flash")
    view = page.show(t)
    tiles, score = t.tables["tiles"], t.head["score"]
    n = next(i for i in range(len(tiles["pe"])) if t.head["strings"][tiles["label"][i]] == "tile 2,1")
    box = view[".p-score svg"].bounding_box()
    side = min(348, box["width"] - 38)
    x = 36 + (tiles["k0"][n] + tiles["k1"][n]) / 2 / score["S_kv"] * side
    y = 20 + (tiles["q0"][n] + tiles["q1"][n]) / 2 / score["S_q"] * side
    click(view, ".p-score svg", x, y)
    assert view.get("step") == tiles["stop"][n]
    click(view, ".p-score svg", 36 + side * 0.95, 20 + side * 0.05)  # a skipped tile: nothing to go to
    assert view.get("step") == tiles["stop"][n]


def test_a_click_on_another_pe_s_tile_changes_the_pe(page: Page, trace: Traces) -> None:
    view = page.show(trace("decode"))
    width = view[".p-score svg"].bounding_box()["width"] - 59
    click(view, ".p-score svg", 58 + width * 0.8, 60)
    assert view.get("pe") == 6
    assert view[".seg button[aria-pressed=true]"].first.text_content() == "PE 6"


def test_press_and_drag_in_the_arena_scrubs(page: Page, trace: Traces) -> None:
    view = page.show(trace("decode"), granularity="op")
    svg = view[".p-arena svg"]
    svg.scroll_into_view_if_needed()
    box = svg.bounding_box()
    page.page.mouse.move(box["x"] + 120, box["y"] + 200)
    page.page.mouse.down()
    view.settle()
    first = view.get("step")
    page.page.mouse.move(box["x"] + 220, box["y"] + 200, steps=4)
    view.settle()
    assert view.get("step") > first + 10
    page.page.mouse.up()


def test_a_click_on_a_label_goes_to_where_the_block_was_made(page: Page, trace: Traces) -> None:
    t = trace("decode")
    view = page.show(t, pe=7, step=50)
    label = view[".p-arena text.mono:text-is('qk')"]
    box, frame = label.bounding_box(), view[".p-arena svg"].bounding_box()
    click(view, ".p-arena svg", box["x"] - frame["x"] + 5, box["y"] - frame["y"] + 6)
    row = t.head["pes"][7]["op0"] + view.get("step")
    assert t.head["strings"][t.ops["name"][row]] == "qk"


def test_a_click_on_a_bar_goes_to_its_operation(page: Page, trace: Traces) -> None:
    t = trace("decode")
    view = page.show(t, pe=7, step=50, view="page")
    label = view[".p-engines text:text-is('exp')"]
    box, frame = label.bounding_box(), view[".p-engines svg"].bounding_box()
    click(view, ".p-engines svg", box["x"] - frame["x"] + 4, box["y"] - frame["y"] + 4)
    row = t.head["pes"][7]["op0"] + view.get("step")
    assert t.head["strings"][t.ops["name"][row]] == "exp"


def test_a_click_on_a_line_goes_round_its_operations(page: Page, trace: Traces) -> None:
    t = trace("user")
    view = page.show(t, granularity="op")
    sites = t.tables["sites"]
    line = view[".line.has"].nth(2)
    number = int(line.locator(".no").text_content())
    rows = [i for i in range(len(t.ops["site"])) if sites["line"][t.ops["site"][i]] == number]
    assert len(rows) > 2
    for expected in rows[:2]:
        line.click()
        view.settle()
        assert view.get("step") == expected


def test_a_click_on_a_pe_s_bar_goes_to_that_pe_and_time(page: Page, trace: Traces) -> None:
    t = trace("decode")
    view = page.show(t, view="page")
    box = view[".p-pes svg"].bounding_box()
    click(view, ".p-pes svg", box["width"] * 0.3, 4 + 3.5 * 24)
    assert view.get("pe") == 3
    assert 0 < view.get("step") < t.head["pes"][3]["op1"] - t.head["pes"][3]["op0"]


def test_a_click_on_the_curve_goes_to_that_tile(page: Page, trace: Traces) -> None:
    t = trace("decode")
    view = page.show(t, pe=7, step=50, view="page")
    box = view[".p-values svg"].bounding_box()
    click(view, ".p-values svg", box["width"] - 10, 100)
    assert view[".pos"].text_content().startswith("tile 2")


@pytest.mark.parametrize("target", ["score", "arena", "engines", "pes"])
def test_hovering_says_what_is_there(page: Page, trace: Traces, target: str) -> None:
    view = page.show(trace("decode"), pe=7, step=50, view="page")
    svg = view[f".p-{target} svg"]
    svg.scroll_into_view_if_needed()
    spots = {"score": (300, 60), "arena": (200, 310), "engines": (150, 14), "pes": (150, 40)}
    svg.hover(position=dict(zip(("x", "y"), spots[target], strict=True)))
    page.frames(2)
    assert view[".kb-tip"].text_content().strip()
    page.page.mouse.move(1, 1)
    page.frames(2)
    assert view[".kb-tip"].is_hidden()


def test_folded_panels_say_their_number_and_unfold(page: Page, trace: Traces) -> None:
    view = page.show(trace("decode"), pe=7, step=50)
    engines = view[".p-engines"]
    assert "busiest" in engines.locator(".brief").text_content()
    assert engines.locator("svg").is_hidden()
    engines.locator("button.fold").click()
    page.frames()
    assert engines.locator("svg").is_visible()
    assert engines.locator("button.fold").get_attribute("aria-expanded") == "true"


def test_the_caption_says_what_happened(page: Page, trace: Traces) -> None:
    t = trace("decode")
    view = page.show(t, pe=7, granularity="op")

    def caption_at(op: str, **conditions: Any) -> str:
        pe, kinds = t.head["pes"][7], t.tables["kinds"]
        for row in range(pe["op0"], pe["op1"]):
            if t.head["strings"][kinds["op"][t.ops["kind"][row]]] != op:
                continue
            if all(t.head["strings"][t.ops[k][row]] == v for k, v in conditions.items()):
                view.set("step", row - pe["op0"])
                return str(view[".caption"].text_content()).replace("\u202f", " ")
        raise AssertionError(op)

    assert "the save-point" in caption_at("scope_open")
    assert "are given back" in caption_at("scope_close")
    assert "on the channel" in caption_at("dma_read", name="K")
    assert "persistent arena" in caption_at("empty", name="O")
    assert "The correction c = exp(m_old − m_new)" in caption_at("exp", name="c")
    assert "it leaves the scope before" in caption_at("copy")
    assert "3×3×16" in caption_at("gemm", name="qk")
    assert "to PE 6" in caption_at("ipc_send")


def test_the_caption_of_a_tile_sums_it_up(page: Page, trace: Traces) -> None:
    t = trace("decode")
    view = page.show(t, pe=7)
    view.keys("ArrowRight", "ArrowRight")
    assert "m, l, O were written in place, with no copy" in view[".caption"].text_content()
    view.keys("ArrowRight")
    assert "Three copies carried m, l, O out of the scope" in view[".caption"].text_content()
