"""The log: bars, filter, sort, group, and brushing that a linked stepper shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from harness import Page, View

import kernbench_nb as kb
from kernbench_nb.widgets.reader import Trace

Traces = Callable[[str], Trace]
COLUMNS = ["start", "duration", "pe", "engine", "op", "name", "shape", "bytes", "flops", "tile", "line"]


def operations(trace: Trace) -> list[int]:
    return [int(i) for i in np.flatnonzero(trace.tables["kinds"]["engine"][trace.ops["kind"]] < 4)]


def op(trace: Trace, row: int) -> str:
    return str(trace.head["strings"][trace.tables["kinds"]["op"][trace.ops["kind"][row]]])


def shown(view: View) -> list[list[str]]:
    rows = view[".logtable tbody tr[data-at]"].all()
    return [[c.replace("\u202f", "") for c in row.locator("td").all_text_contents()] for row in rows]


@pytest.fixture
def log(page: Page, trace: Traces) -> View:
    return page.show(trace("decode"), module="log", name="log")


def test_bars_count_and_add_up(log: View, trace: Traces) -> None:
    t = trace("decode")
    busy: dict[str, int] = {}
    count: dict[str, int] = {}
    for row in operations(t):
        name = op(t, row)
        busy[name] = busy.get(name, 0) + int(t.tables["kinds"]["busy"][t.ops["kind"][row]])
        count[name] = count.get(name, 0) + 1
    bars = [b.get_attribute("aria-label").replace("\u202f", "") for b in log[".bar"].all()]
    longest = sorted(busy, key=lambda n: -busy[n])[: len(bars)]
    assert [b.split(":")[0] for b in bars[:6]] == longest[:6]
    for bar in bars[:6]:
        name, rest = bar.split(": ")
        assert rest.startswith(f"{count[name]} operation")


@pytest.mark.parametrize(("by", "first"), [("engine", "dma"), ("PE", "PE 0"), ("tile", "tile 0")])
def test_bars_by(log: View, by: str, first: str) -> None:
    log[f".seg button:text-is('{by}')"].click()
    assert first in [e.text_content() for e in log[".bar-name"].all()]
    assert log.get("group") == by.lower()


def test_filter(log: View, trace: Traces) -> None:
    t = trace("decode")
    log[".search"].fill("exp")
    wanted = [r for r in operations(t) if "exp" in op(t, r) or "exp" in t.head["strings"][t.ops["name"][r]]]
    assert log[".caption"].text_content().startswith(f"{len(wanted)} of {len(operations(t))} operations")
    assert log.get("query") == "exp"
    log[".search"].fill("no such thing")
    assert "No operation matches" in log[".bars"].text_content()
    log[".search"].fill("tile 2 gemm")
    assert all(row[9] == "tile 2" and row[3] == "gemm" for row in shown(log)) or shown(log) == []
    log[".search"].fill("tile 2")
    assert {row[9] for row in shown(log)} == {"tile 2"}
    log["select[aria-label=PE]"].select_option(label="PE 3")
    assert {row[2] for row in shown(log)} == {"PE 3"}


def test_a_pe_or_a_tile_is_meant_beside_other_words(page: Page, trace: Traces, run_of: Any) -> None:
    t = trace("decode")
    o, pe0 = t.ops, t.head["pes"][0]
    of_pe = [row for row in operations(t) if pe0["op0"] <= row < pe0["op1"]]
    exps = [row for row in of_pe if op(t, row) == "exp"]
    tile = [r for r in operations(t) if t.text(int(t.tiles["label"][o["tile"][r]])) == "tile 1"]
    view = page.show(t, module="log")
    for query, rows in {
        "PE 0": of_pe,  # and not those that send to it
        "PE 0 exp": exps,
        "exp pe 0": exps,
        "tile 1 exp": [row for row in tile if op(t, row) == "exp"],
        "exp tile 1 PE 0": [row for row in exps if row in tile],
        "PE 99 exp": [],
        "tile 01": [],
    }.items():
        view.set("query", query)
        said = view[".caption"].text_content()
        assert said.startswith(f"{len(rows)} of "), query
    shown = kb.show_log(run_of("decode"), pe=0, query="exp")
    assert shown.query == "PE 0 exp"
    shown.close()


def test_engine_filter(log: View) -> None:
    log["[aria-label=Engine] button:text-is('gemm')"].click()
    assert {row[3] for row in shown(log)} == {"gemm"}


def test_sort(log: View) -> None:
    head = log["th button:text-is('bytes')"]
    head.click()
    sizes = [int(row[7] or 0) for row in shown(log)]
    assert sizes == sorted(sizes, reverse=True)
    assert head.locator("xpath=..").get_attribute("aria-sort") == "descending"
    log["th button:text-is('name')"].click()
    names = [row[5].lower() for row in shown(log)]
    assert names[0] <= names[-1]


def test_the_table_holds_only_what_is_seen(log: View, trace: Traces) -> None:
    assert len(shown(log)) < 40 < len(operations(trace("decode")))
    log.page.evaluate("() => { document.querySelector('#log .logtable').scrollTop = 1e6; }")
    log.on.frames(4)
    last = max(operations(trace("decode")), key=lambda r: (trace("decode").ops["start"][r], r))
    assert shown(log)[-1][4] == op(trace("decode"), last)


def test_brushing_selects_in_a_linked_stepper(page: Page, trace: Traces) -> None:
    """A bar, a range of rows by shift-click, and clearing; one model stands for two that are linked."""
    t = trace("decode")
    page.model("linked", t)
    log = page.view("linked", module="log", name="log")
    stepper = page.view("linked", name="stepper")
    log[".bar:has-text('gemm')"].click()
    rows = [row for a, b in log.get("selection") for row in range(a, b)]
    assert rows == [r for r in operations(t) if op(t, r) == "gemm"]
    stepper.settle()
    row = next(p for p in t.head["pes"] if p["pe"] == stepper.get("pe"))["op0"] + stepper.get("step")
    assert op(t, row) == "gemm"
    assert log[".bar[aria-pressed=true]"].count() == 1
    log[".bar:has-text('gemm')"].click()
    assert log.get("selection") == []
    first = log[".logtable tbody tr[data-at]"]
    first.nth(2).click()
    first.nth(5).click(modifiers=["Shift"])
    assert sum(b - a for a, b in log.get("selection")) == 4
    assert log[".picked-row"].count() == 4
    log[".clear"].click()
    assert log.get("selection") == []


def test_a_click_on_a_row_goes_there(page: Page, trace: Traces) -> None:
    t = trace("decode")
    log = page.show(t, module="log", name="log")
    row = log[".logtable tbody tr[data-at]"].nth(5)
    pe = row.locator(".c-pe").text_content()
    row.click()
    assert f"PE {log.get('pe')}" == pe
    assert log[".now-row"].count() == 1


def test_what_the_kernel_sets(log: View) -> None:
    log.set("query", "gemm")
    assert {row[4] for row in shown(log)} == {"gemm"}
    assert log[".search"].input_value() == "gemm"
    log.set("group", "pe")
    assert log[".seg button[aria-pressed=true]:text-is('PE')"].count() == 1
    log.set("selection", [[20, 30]])
    assert "selected" in log[".caption"].text_content()


def test_the_keyboard_stays_where_it_was(log: View) -> None:
    """Bars are drawn anew when one is pressed, and the button that clears goes away."""
    focused = "() => document.activeElement.className || document.activeElement.tagName"
    name = "() => document.activeElement.title"
    log[".bar"].nth(1).focus()
    title = log.page.evaluate(name)
    log.page.keyboard.press("Enter")
    assert log.get("selection")
    assert log.page.evaluate(name) == title
    log[".clear"].focus()
    log.page.keyboard.press("Enter")
    assert log.get("selection") == []
    assert log.page.evaluate(focused).startswith("kb ")
