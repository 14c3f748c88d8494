"""What a view shares with the kernel and with other views."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from harness import Page

from kernbench_nb.widgets.reader import Trace

Traces = Callable[[str], Trace]


def test_nothing_is_written_by_showing(page: Page, trace: Traces) -> None:
    view = page.show(trace("decode"), pe=3, step=12)
    assert page.page.evaluate("window.models.view.sets") == []
    assert view.saves() == []


def test_one_draw_a_change_and_none_for_the_same_value(page: Page, trace: Traces) -> None:
    view = page.show(trace("decode"))
    for change in (("step", 5), ("pe", 3), ("granularity", "op"), ("selection", [[70, 75]])):
        view.settle()
        before = view.draws
        view.set(*change)
        view.settle()
        assert view.draws - before == 1, change
        view.set(*change)
        view.settle()
        assert view.draws - before == 1, change


def test_a_change_from_outside_draws_once_however_often_views_were_made(page: Page, trace: Traces) -> None:
    t = trace("user")
    for _ in range(3):
        view = page.show(t, name="again")
        view.unmount()
    view = page.show(t)
    before = view.draws
    view.set("step", 2)
    view.settle()
    assert view.draws - before == 1


def test_values_out_of_range_are_brought_back(page: Page, trace: Traces) -> None:
    t = trace("user")
    last = t.head["pes"][0]["op1"] - 1
    view = page.show(t, step=10**6)
    assert view[".pos"].text_content() != ""
    view.set("step", 10**6 - 1)
    assert view.get("step") == last
    view.set("step", -4)
    assert view.get("step") == 0
    view.set("pe", 77)
    assert view.get("pe") == 0
    view.set("granularity", "op")
    view.set("granularity", "century")
    view.keys("ArrowRight")
    assert view.get("step") == 1


def test_pe_and_step_that_come_together_are_both_kept(page: Page, trace: Traces) -> None:
    """As `hold_sync` in Python, or a state that comes in one message: the step is meant for the new PE."""
    view = page.show(trace("decode"), step=40)
    page.page.evaluate(
        "() => { const m = window.models.view; m.state.pe = 4; m.state.step = 7;"
        " for (const hear of m.heard['change:pe']) hear(); for (const hear of m.heard['change:step']) hear(); }"
    )
    page.frames()
    assert (view.get("pe"), view.get("step")) == (4, 7)


def test_the_kernel_hears_ten_times_a_second_and_the_last_value(page: Page, trace: Traces) -> None:
    view = page.show(trace("decode"), granularity="op")
    view[".kb"].first.focus()
    page.page.evaluate(
        "() => { const root = document.querySelector('#view .kb');"
        " for (let n = 0; n < 40; n++) root.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight' })); }"
    )
    assert view.get("step") == 40
    page.page.wait_for_function("window.models.view.saves.at(-1)?.step === 40")
    assert len(view.saves()) <= 2


def test_the_last_value_is_saved_when_the_view_ends(page: Page, trace: Traces) -> None:
    view = page.show(trace("user"), granularity="op")
    view[".kb"].first.focus()
    page.page.keyboard.press("ArrowRight")
    page.page.keyboard.press("ArrowRight")
    view.unmount()
    assert view.saves()[-1]["step"] == 2


def test_two_views_of_one_model_go_together(page: Page, trace: Traces) -> None:
    page.model("shared", trace("decode"))
    a = page.view("shared", name="a")
    b = page.view("shared", name="b")
    a.keys("ArrowRight", "ArrowRight")
    b.settle()
    assert a[".pos"].text_content() == b[".pos"].text_content()
    b["button:has-text('PE 4')"].click()
    a.settle()
    assert a[".caption"].text_content() == b[".caption"].text_content()
    assert a[".caption"].text_content().startswith("PE 4")
    b.unmount()
    a.keys("Home")
    assert a.get("step") == 0


def test_a_linked_control_that_pushes_its_value_stops_the_view_where_it_says(
    page: Page, trace: Traces
) -> None:
    view = page.show(trace("decode"))
    view[".kb"].first.focus()
    page.page.keyboard.press("ArrowRight")
    page.page.keyboard.press("ArrowRight")
    view.set("step", 3)
    view.settle()
    assert view.get("step") == 3
    assert view[".caption"].text_content().count("PE 0") == 1


def test_a_selection_is_marked_and_gone_to(page: Page, trace: Traces) -> None:
    t = trace("decode")
    view = page.show(t, view="page")
    exp = [i for i in range(len(t.ops["kind"])) if t.head["strings"][t.ops["name"][i]] == "exp"]
    mine = [i for i in exp if i >= t.head["pes"][2]["op0"]]
    view.set("selection", [[i, i + 1] for i in mine])
    view.settle()
    assert view.get("pe") == 2
    assert view.get("step") == mine[0] - t.head["pes"][2]["op0"]
    assert view[".p-engines rect.picked"].count() >= 1
    view.set("selection", [])
    view.settle()
    assert view[".p-engines rect.picked:visible"].count() == 0
    assert view.get("step") == mine[0] - t.head["pes"][2]["op0"]


def test_a_trace_of_another_version_is_refused_in_the_view(page: Page, trace: Traces) -> None:
    t = trace("user")
    newer = Trace({**t.head, "version": 99}, t.buffer)
    view = page.show(newer)
    assert "version 1" in view[".kb-message"].text_content()
    page.problems.clear()  # the reason stands on the console too


def test_an_empty_view_says_so(page: Page) -> None:
    for module in ("stepper", "arenas", "log"):
        view = page.show(module=module, name=module)
        assert "nothing to show" in view[".kb-message"].text_content()


def test_a_buffer_may_begin_anywhere_in_its_message(page: Page, trace: Traces) -> None:
    """Traits arrive as views into a larger message, at offsets that typed arrays do not like."""
    t = trace("user")
    page.model("odd", t)
    page.page.evaluate(
        "() => { const m = window.models.odd, v = m.state.trace; const big = new Uint8Array(v.byteLength + 3);"
        " big.set(new Uint8Array(v.buffer), 3); m.state.trace = new DataView(big.buffer, 3, v.byteLength); }"
    )
    view = page.view("odd", name="odd")
    peak = int(np.max(t.ops["peak"]))
    view.keys("End")
    assert str(peak) in view[".p-arena svg"].get_attribute("aria-label").replace("\u202f", "")


def test_a_draw_that_fails_is_shown_and_recovers(page: Page, trace: Traces) -> None:
    view = page.show(trace("user"))
    page.page.evaluate(
        "() => { window.kept = CanvasRenderingContext2D.prototype.clearRect;"
        " CanvasRenderingContext2D.prototype.clearRect = () => { throw new Error('no canvas today'); }; }"
    )
    view.keys("ArrowRight")
    assert "no canvas today" in view[".draw-error:visible"].first.text_content()
    assert view[".p-source .draw-error"].is_hidden()
    page.page.evaluate("() => { CanvasRenderingContext2D.prototype.clearRect = window.kept; }")
    view.keys("ArrowRight")
    assert view[".draw-error:visible"].count() == 0
    page.problems.clear()  # each failure stands on the console too
