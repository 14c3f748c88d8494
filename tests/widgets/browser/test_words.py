"""What the page says in words: set-up, tiles, merges, the end; names, positions and what numbers count."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from harness import Page, View

from kernbench_nb.widgets.reader import Trace

Traces = Callable[[str], Trace]


def tile_named(t: Trace, pe: int, label: str) -> int:
    tiles = t.tables["tiles"]
    return next(
        n for n in range(len(tiles["pe"])) if tiles["pe"][n] == pe and t.text(int(tiles["label"][n])) == label
    )


def stand(view: View, t: Trace, pe: int, label: str, at: str | None = None) -> str:
    """Go to the end of a tile, or to an operation in it; what the caption says there."""
    tiles, first = t.tables["tiles"], t.head["pes"][pe]["op0"]
    n = tile_named(t, pe, label)
    row = int(tiles["stop"][n])
    if at is not None:
        rows = range(int(tiles["op0"][n]), int(tiles["op1"][n]) + 1)
        row = next(i for i in rows if t.text(int(t.ops["name"][i])) == at)
    view.set("pe", t.head["pes"][pe]["pe"])
    view.set("step", row - first)
    view.settle()
    return str(view[".caption"].text_content()).replace("\u202f", " ")


def test_every_stop_says_what_it_is(page: Page, trace: Traces) -> None:
    """From the set-up to the output: also the stops at which no tile is folded."""
    t = trace("decode")
    view = page.show(t, view="page")
    assert "Here it begins." in view[".caption"].text_content()
    said = stand(view, t, 0, "set-up")
    assert "Before the first tile: Q is loaded, m, l, O get their place" in said
    assert "persistent arena, which outlives every tile" in said
    said = stand(view, t, 7, "tile 2")
    assert "Three copies carried m, l, O out of the scope" in said
    assert "K, V, qk, s, exp, p and 11 more, 13.5 KiB in all, are given back next" in said
    said = stand(view, t, 6, "merge PE 7")
    assert "m_new = max(m, m_in), l_new = l·a + l_in·b, O likewise" in said
    assert "It goes on to PE 5." in said
    said = stand(view, t, 6, "send to PE 5")
    assert "3 messages (m, l, O)" in said
    assert "It holds all keys now" in stand(view, t, 0, "merge PE 1")
    assert "PE 0 divides O by l, which is softmax times V" in stand(view, t, 0, "finish")


def test_a_ring_says_which_blocks_come_and_go(page: Page, trace: Traces) -> None:
    t = trace("ring")
    view = page.show(t)
    assert "2 messages (K block, V block) with" in stand(view, t, 0, "send to cube 1")
    said = stand(view, t, 0, "receive from cube 3")
    assert "2 messages (K next block, V next block) with" in said
    assert "came from cube 3" in said


def test_inside_a_tile_it_is_said_that_one_is_inside(page: Page, trace: Traces) -> None:
    t = trace("decode")
    view = page.show(t)
    said = stand(view, t, 7, "tile 2", "O*c")
    assert re.search(r"Inside it, after step \d+ of \d+: Math engine: mul makes O\*c", said)
    view.set("granularity", "op")
    assert "Inside" not in view[".caption"].text_content()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("m_new", "m_new = max(m, m_in)"),
        ("a", "a = exp(m − m_new)"),
        ("b", "the l and O of PE 1 shrink"),
        ("l_new", "l_new = l·a + l_in·b"),
        ("O_new", "O_new = O·a + O_in·b"),
    ],
)
def test_a_merge_is_told_in_formulas(page: Page, trace: Traces, name: str, words: str) -> None:
    t = trace("decode")
    assert words in stand(page.show(t, granularity="op"), t, 0, "merge PE 1", name)


def test_one_name_and_one_position(page: Page, trace: Traces) -> None:
    """The name is the scope's label, the position is counted from 1; both views write them alike."""
    t = trace("long")
    one = page.show(t, name="one")
    stand(one, t, 0, "tile 47")
    pair = page.show(t, trace("overflow"), name="pair", names=["a", "b"], step=48)
    assert one[".pos"].text_content() == pair[".pos"].text_content() == "tile 47 · 48 of 100"
    assert pair[".caption"].text_content().startswith("After tile 47")
    assert "has stopped in tile 47" in pair[".caption"].text_content()
    stopped = page.show(trace("overflow"), name="stopped")
    stopped.set("step", int(trace("overflow").head["pes"][0]["op1"]) - 1)
    assert stopped[".pos"].text_content() == "tile 47 · 48 of 100"  # the tiles that it never reached count


def test_the_two_corrections_of_a_merge(page: Page, trace: Traces) -> None:
    t = trace("decode")
    view = page.show(t, view="page")
    stand(view, t, 0, "merge PE 1")
    shown = view.texts(".p-values text")
    assert {"m", "l", "a", "b"} <= set(shown)
    assert "c" not in shown
    assert any(text.startswith("a = exp(m − m_new)") for text in shown)
    values, n = t.tables["values"], tile_named(t, 0, "merge PE 1")
    for what in ("a", "b"):
        at = next(i for i in np.flatnonzero(values["tile"] == n) if t.text(int(values["what"][i])) == what)
        off, rows = int(values["off"][at]), int(values["rows"][at])
        for x in t.tables["pool4"]["x"][off : off + rows]:
            assert f"{x:.2f}" in shown


def test_values_of_a_tile_that_is_over_are_not_shown_as_current(page: Page, trace: Traces) -> None:
    """In the middle of a merge the last tile's weights and its c are gone; its state is not."""
    t = trace("decode")
    view = page.show(t, view="page", granularity="op")
    stand(view, t, 0, "tile 2")
    state = view.texts(".p-values .mono")
    assert any(text.startswith("c = exp(m_old − m_new)") for text in view.texts(".p-values text"))
    stand(view, t, 0, "merge PE 1", "a")
    shown = view.texts(".p-values text")
    assert "not computed yet" in shown
    assert "state (m, l, O) after tile 2" in shown
    numbers = [x for x in view.texts(".p-values .mono") if re.fullmatch(r"−?\d+\.\d\d", x)]
    assert len(numbers) == 27  # m and l of nine rows, and the merge's own a
    assert set(numbers[:18]) <= set(state)


def numbers_of(view: View) -> int:
    return len([x for x in view.texts(".p-values .mono") if re.fullmatch(r"−?\d+\.\d\d", x)])


def test_values_are_shown_from_the_row_that_makes_them(page: Page, trace: Traces) -> None:
    """Scores, weights, the correction and the state each wait for their own operation, and none for a later one."""
    t = trace("decode")
    view = page.show(t, view="page", granularity="op")
    scores = view[".p-values .mini button:text-is('s')"]
    for at, weights, state, count in (
        ("s", False, "tile 1", 18),
        ("exp", True, "tile 1", 18),
        ("c", True, "tile 1", 27),
        ("O_new", True, "tile 1", 27),
        (None, True, "tile 2", 27),
    ):
        stand(view, t, 0, "tile 2", at)
        shown = view.texts(".p-values text")
        assert f"state (m, l, O) after {state}" in shown, at
        assert ("not computed yet" not in shown) == weights, at
        assert numbers_of(view) == count, at
    stand(view, t, 0, "tile 2", "s")
    scores.click()
    view.settle()
    assert "not computed yet" not in view.texts(
        ".p-values text"
    )  # the scores are there, their weights are not
    stand(view, t, 0, "tile 2", "qk")
    assert "not computed yet" in view.texts(".p-values text")


def test_values_of_a_merge_are_shown_from_the_row_that_makes_them(page: Page, trace: Traces) -> None:
    t = trace("decode")
    view = page.show(t, view="page", granularity="op")
    for at, share, state, count in (
        ("m_new", False, "tile 2", 18),
        ("a", False, "tile 2", 27),
        ("b", False, "tile 2", 36),
        ("l_new", True, "tile 2", 36),
        ("O_new", True, "tile 2", 36),
        (None, True, "merge PE 1", 36),
    ):
        stand(view, t, 0, "merge PE 1", at)
        shown = view.texts(".p-values text")
        assert f"state (m, l, O) after {state}" in shown, at
        assert ("from PE 1" in shown) == share, at
        assert ("not computed yet" not in shown) == share, at
        assert numbers_of(view) == count, at
    view.keys("ArrowRight")
    shown = view.texts(".p-values text")
    assert "the blocks of merge PE 1" in shown  # a merge has no S and no P
    assert not any("S and P" in text for text in shown)


def test_after_its_scope_a_tile_s_weights_are_given_back(page: Page, trace: Traces) -> None:
    t = trace("decode")
    view = page.show(t, view="page", granularity="op")
    stand(view, t, 7, "tile 1")
    assert "are given back" not in view.texts(".p-values text")
    view.keys("ArrowRight")
    shown = view.texts(".p-values text")
    assert "S and P of tile 1" in shown
    assert "are given back" in shown


def test_a_pe_does_what_the_caption_says(page: Page, trace: Traces) -> None:
    t = trace("decode")
    view = page.show(t, view="page", granularity="op")
    for label, at in (("tile 2", "O*c"), ("tile 2", None), ("merge PE 1", "a"), ("finish", "O / l")):
        said = stand(view, t, 0, label, at)
        assert label in said
        assert f"PE 0: {label}" in view[".p-pes svg"].get_attribute("aria-label")


def test_pes_that_do_the_same_are_said_to_do_the_same(page: Page, trace: Traces) -> None:
    """When the set-up has loaded Q everywhere, no PE is said to be further than the one that is looked at."""
    t = trace("decode")
    view = page.show(t, view="page", granularity="op", step=0)
    assert [text for text in view.texts(".p-pes text") if text in ("set-up", "tile 0")] == ["set-up"] * 8


def test_the_pointer_is_told_what_the_label_says(page: Page, trace: Traces) -> None:
    """Over the picture of all PEs: at the playhead each PE does what stands beside it."""
    t = trace("decode")
    view = page.show(t, view="page", granularity="op", pe=0)
    view.set("step", int(t.head["pes"][0]["op1"]) - 1)
    svg = view[".p-pes svg"]
    svg.scroll_into_view_if_needed()
    labels = [text for text in view.texts(".p-pes text") if text == "done"]
    assert len(labels) == 8
    box, x = svg.bounding_box(), float(view[".p-pes line.play"].get_attribute("x1"))
    page.page.mouse.move(box["x"] + x - 1, box["y"] + 4 + 24 * 5.5)
    assert "done" in view[".kb-tip"].text_content()
    page.page.mouse.move(box["x"] + x * 0.6, box["y"] + 4 + 24 * 0.5)
    assert "waits for PE 1" in view[".kb-tip"].text_content()
    page.page.mouse.move(0, 0)


@pytest.mark.parametrize(
    ("label", "what"), [("tile 2", "tile"), ("merge PE 1", "merge"), ("finish", "finish")]
)
def test_engines_say_in_what_they_are_busy(page: Page, trace: Traces, label: str, what: str) -> None:
    t = trace("decode")
    view = page.show(t, view="page")
    stand(view, t, 0, label)
    assert f"busy in this {what}" in view.texts(".p-engines text")
    assert view[".p-engines svg"].get_attribute("aria-label").endswith(f"of this {what}.")


def test_one_unit_on_the_axis_of_errors(page: Page, trace: Traces) -> None:
    t = trace("decode")
    view = page.show(t, view="page")
    stand(view, t, 0, "merge PE 1")
    ticks = view.texts(".p-values text.num")
    assert len(ticks) >= 4
    assert all(text.endswith(" %") for text in ticks)
    assert "0.001 %" in ticks


def test_every_counter_says_what_it_counts(page: Page, trace: Traces) -> None:
    view = page.show(trace("decode"))
    titles = [cell.get_attribute("title") for cell in view[".cell"].all()]
    assert len(titles) == 8
    assert all(titles)
    assert "products" in view[".c-flops dt"].text_content()
    lane = view[".p-engines"]
    lane.locator("button.fold").click()
    svg = view[".p-engines svg"]
    svg.scroll_into_view_if_needed()
    svg.hover(position={"x": 20, "y": 14})
    assert "moves tiles between HBM and scratch" in view[".kb-tip"].text_content()
    page.page.mouse.move(0, 0)


def test_numbers_do_not_lag_behind_the_caption(page: Page, trace: Traces) -> None:
    """While a step runs through its operations, caption, position and counters say where it goes."""
    t = trace("decode")
    view = page.show(t, pe=7)
    view[".kb"].first.focus()
    page.page.keyboard.press("ArrowRight")
    page.page.keyboard.press("ArrowRight")
    page.frames(2)
    script = (
        "() => ['.pos', '.caption', '.counters'].map(s => document.querySelector(`#view ${s}`).textContent)"
    )
    early = page.page.evaluate(script)
    view.settle()
    assert page.page.evaluate(script) == early


def test_the_map_says_the_weight_that_its_colour_stands_for(page: Page, trace: Traces) -> None:
    """exp(s - m) / l by the state that the row has now; nothing of a key that is still to come."""
    t = trace("decode")
    view = page.show(t, view="page", granularity="op", pe=7)
    score = t.head["score"]
    n = tile_named(t, 7, "tile 1")
    key = int(t.tables["tiles"]["k0"][n]) + 1
    recorded = {}
    for at in np.flatnonzero(t.tables["values"]["tile"] == n):
        v = {k: int(column[at]) for k, column in t.tables["values"].items()}
        pool = next(iter(t.tables["pool2" if v["half"] else "pool4"].values())).astype(float)
        recorded[t.text(v["what"])] = pool[v["off"] : v["off"] + v["rows"] * v["cols"]].reshape(
            v["rows"], v["cols"]
        )
    s, m, l = (recorded[what] for what in "sml")
    weight = float(np.exp(s[0, 1] - m[0, 0]) / l[0, 0])
    stand(view, t, 7, "tile 1", "s")
    box = view[".p-score svg"].bounding_box()
    left = float(view[".p-score svg rect.lens-c"].first.get_attribute("x")) - 0.5
    x = left + (key + 0.5) / score["S_kv"] * (box["width"] - left)

    def said() -> str:
        view[".p-score svg"].hover(position={"x": 2, "y": 2})
        view[".p-score svg"].hover(position={"x": x, "y": 34})
        return str(view[".kb-tip"].text_content())

    assert f"key {key}" in said()
    assert "score" not in said()
    assert "weight" not in said()
    stand(view, t, 7, "tile 1")
    assert "row head 0" in said()
    (number,) = re.findall(r"weight (\d\.\d+) so far", said())
    shown = float(number)
    assert shown == pytest.approx(
        weight, rel=0.5 if weight < 0.0095 else 0.06, abs=0.005 if weight >= 0.0095 else 0
    )
