"""Several heads in one picture: all of them, or one; and names of what nobody named."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from harness import Page, View

from kernbench_nb.widgets.reader import Trace

Traces = Callable[[str], Trace]


def pixels(view: View) -> str:
    """The score map as it is painted."""
    return str(view[".p-score canvas"].evaluate("e => e.toDataURL()"))


def test_a_head_of_a_ring_can_be_looked_at(page: Page, trace: Traces) -> None:
    t = trace("ring")
    view = page.show(t, view="page", step=int(t.pes[0]["op1"]) - 1)
    pick = view["select[aria-label=Head]"]
    assert pick.locator("option").all_text_contents() == [
        "all: the heaviest weight of any", "head 0", "head 1", "head 2",
    ]  # fmt: skip
    seen = {}
    for label in ("head 0", "head 1", "head 2", "all: the heaviest weight of any"):
        pick.select_option(label=label)
        view.settle()
        seen[label] = pixels(view)
    assert len(set(seen.values())) == 4
    pick.select_option(label="head 1")
    view.set("step", 20)
    view.set("step", int(t.pes[0]["op1"]) - 1)
    assert pixels(view) == seen["head 1"]


def test_words_of_a_query_are_those_of_the_head(page: Page, trace: Traces) -> None:
    t = trace("ring")
    view = page.show(t, view="page", step=int(t.pes[0]["op1"]) - 1)
    every = view.texts(".p-score text")
    view["select[aria-label=Head]"].select_option(label="head 2")
    view.settle()
    assert view.texts(".p-score text") != every


@pytest.mark.parametrize("name", ["decode", "flash", "user", "overflow"])
def test_where_rows_are_heads_or_there_is_one_nothing_is_to_be_picked(
    page: Page, trace: Traces, name: str
) -> None:
    assert page.show(trace(name), view="page")["select[aria-label=Head]:visible"].count() == 0


@pytest.mark.parametrize("name", ["ring", "decode", "no scopes"])
def test_what_is_moved_has_a_name(page: Page, trace: Traces, name: str) -> None:
    """Loads, stores and messages are called by what they carry, in the log as in the lanes."""
    t = trace(name)
    kinds, o = t.tables["kinds"], t.ops
    log = page.show(t, module="log", name="log")
    for op in ("ipc_send", "ipc_recv", "dma_read", "dma_write"):
        if not any(t.text(int(kinds["op"][k])) == op for k in o["kind"]):
            continue
        log.set("query", op)
        log.settle()
        names = log.texts(".logtable tbody tr[data-at] .c-name")
        assert len(names) == log[".logtable tbody tr[data-at]"].count() > 0
        assert all(names), op


def test_the_pointer_over_a_message_says_what_it_carries(page: Page, trace: Traces) -> None:
    t = trace("ring")
    sent = int(t.tables["msgs"]["send"][0])
    pe = next(p for p in t.pes if p["op0"] <= sent < p["op1"])
    view = page.show(t, view="page", pe=pe["pe"], step=sent - pe["op0"], granularity="op")
    view.set("step", sent - pe["op0"])
    x = view[".p-engines rect.op-now"].first
    svg = view[".p-engines svg"]
    svg.scroll_into_view_if_needed()
    box = x.bounding_box()
    page.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 5)
    said = view[".kb-tip"].text_content()
    names = {t.text(int(n)) for n in np.unique(t.allocs["name"])}
    assert said.startswith("ipc_send  ")
    assert any(name and said.startswith(f"ipc_send  {name}") for name in names)
    page.page.mouse.move(0, 0)
