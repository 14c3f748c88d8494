"""Mounting and unmounting: nothing stays behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from harness import Page

from kernbench_nb.widgets.reader import Trace

Traces = Callable[[str], Trace]


def counted(page: Page) -> dict[str, int]:
    """Nodes and listeners that the page holds after a collection."""
    session = page.context.new_cdp_session(page.page)
    session.send("HeapProfiler.enable")
    session.send("HeapProfiler.collectGarbage")
    counts: dict[str, Any] = session.send("Memory.getDOMCounters")
    session.detach()
    return {"nodes": int(counts["nodes"]), "listeners": int(counts["jsEventListeners"])}


@pytest.mark.parametrize("module", ["stepper", "log"])
def test_twenty_mounts_leave_nothing(page: Page, trace: Traces, module: str) -> None:
    page.model("kept", trace("user"))
    baseline = None
    for n in range(20):
        view = page.view("kept", module=module, name=f"v{n}")
        if module != "log":
            view[".kb"].first.focus()
            page.page.keyboard.press("ArrowRight")
            page.page.keyboard.press(" ")
        view.unmount()
        if n == 4:
            baseline = counted(page)
    assert page.page.evaluate("window.models.kept.listeners()") == 0
    assert page.page.evaluate("document.querySelectorAll('.kb').length") == 0
    after = counted(page)
    assert baseline is not None
    assert after["nodes"] - baseline["nodes"] < 200
    assert after["listeners"] - baseline["listeners"] < 20


def test_a_closed_view_draws_no_more(page: Page, trace: Traces) -> None:
    page.model("kept", trace("user"))
    a = page.view("kept", name="a")
    b = page.view("kept", name="b")
    page.page.evaluate("window.closed = window.views.a")
    a[".kb"].first.focus()
    page.page.keyboard.press(" ")
    a.unmount()
    before = page.page.evaluate("window.closed.draws")
    b.set("step", 9)
    b.settle()
    assert page.page.evaluate("window.closed.draws") == before


def test_closing_twice_is_closing_once(page: Page, trace: Traces) -> None:
    page.show(trace("user"))
    page.page.evaluate("() => { window.views.view.close(); window.views.view.close(); }")
    assert page.page.evaluate("window.models.view.listeners()") == 0


def test_many_views_of_a_run_decode_it_once(page: Page, trace: Traces) -> None:
    """Two views of a model share the run: what is decoded is found again by its buffer."""
    page.model("shared", trace("decode"))
    page.view("shared", name="a")
    page.page.evaluate(
        "() => { window.made = 0; const kept = Float64Array.from; Float64Array.from = function (...a) {"
        " window.made++; return kept.apply(Float64Array, a); }; window.restore = () => { Float64Array.from = kept; }; }"
    )
    page.page.evaluate("() => { window.big = 0; }")
    page.view("shared", name="b", module="arenas")
    page.page.evaluate("() => window.restore()")
    assert page.page.evaluate("window.made") < 20


def test_a_view_laid_out_while_hidden_draws_when_it_is_seen(page: Page, trace: Traces) -> None:
    """JupyterLab renders outputs before they have a width."""
    page.page.evaluate("() => { document.body.style.display = 'none'; }")
    view = page.show(trace("user"))
    assert view.draws == 0
    page.page.evaluate("() => { document.body.style.display = ''; }")
    page.frames(4)
    view.settle()
    assert view.draws >= 1
    assert view[".p-arena svg"].bounding_box()["width"] > 300
