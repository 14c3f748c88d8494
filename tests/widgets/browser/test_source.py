"""The kernel's text: beside each line what it has made in the current tile, whatever the way there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from harness import Page, View

from kernbench_nb.widgets.reader import Trace

Traces = Callable[[str], Trace]
SILENT = ("dma_write", "overflow", "ipc_send", "scope_open", "scope_close")


def row_named(t: Trace, pe: int, name: str) -> int:
    """The last row of a PE with a name, counted from the PE's first."""
    p = t.head["pes"][pe]
    return max(i for i in range(p["op0"], p["op1"]) if t.text(int(t.ops["name"][i])) == name) - p["op0"]


def shapes(view: View, listing: str) -> dict[int, str]:
    """Line -> the shape that is shown beside it, where there is one."""
    script = """selector => [...document.querySelectorAll(selector)].map(e =>
      [e.querySelector('.no').textContent, e.querySelector('.shape')?.textContent || ''])"""
    found = view.page.evaluate(script, f"#{view.name} {listing} .line")
    return {int(line): shape for line, shape in found if shape}


def made_by(t: Trace, row: int, source: int) -> dict[int, str]:
    """Line -> shape, of the rows of a row's tile up to it; read off the trace."""
    tiles, o, sites, kinds = t.tables["tiles"], t.ops, t.tables["sites"], t.tables["kinds"]
    found: dict[int, str] = {}
    for i in range(int(tiles["op0"][o["tile"][row]]), row + 1):
        site, kind = int(o["site"][i]), int(o["kind"][i])
        if site < 0 or sites["source"][site] != source:
            continue
        silent = t.text(int(kinds["op"][kind])) in SILENT
        found[int(sites["line"][site])] = (
            "" if silent else t.text(int(kinds["shape"][kind])).replace("x", "×")
        )
    return {line: shape for line, shape in found.items() if shape}


@pytest.mark.parametrize("name", ["decode", "naive", "user"])
def test_a_line_shows_what_it_made_in_this_tile(page: Page, trace: Traces, name: str) -> None:
    t = trace(name)
    view = page.show(t, view="page", granularity="op")
    p = t.head["pes"][0]
    n = int(p["op1"] - p["op0"])
    for step in sorted({round(k * (n - 1) / 17) for k in range(18)}):
        view.set("step", step)
        row = p["op0"] + step
        assert shapes(view, ".src > .listing") == made_by(t, row, 0), step
        source = int(t.tables["sites"]["source"][t.ops["site"][row]])
        if source > 0:
            assert shapes(view, ".shared") == made_by(t, row, source), step
        elif len(t.head["sources"]) > 1:
            assert shapes(view, ".shared") == {}, step


def test_nothing_of_an_earlier_tile_is_said(page: Page, trace: Traces) -> None:
    t = trace("decode")
    view = page.show(t, pe=7, step=row_named(t, 7, "m_new"), granularity="op", view="page")
    titles = [e.get_attribute("title") or "" for e in view[".p-source .line.has"].all()]
    assert not [text for text in titles if text in ("tile 0", "tile 1")]
    late = view[".shared .line:has-text('name=\"O_new\"')"].first
    assert late.get_attribute("title") == "not reached in tile 2 so far"
    assert late.locator(".shape").text_content() == ""


@pytest.mark.parametrize("back", [(), ("End", "Home"), ("Home", "PageDown", "PageDown")])
def test_the_called_function_does_not_depend_on_the_way_there(
    page: Page, trace: Traces, back: tuple[str, ...]
) -> None:
    """Before the first call, and after the last one of a tile, whatever was looked at before."""
    t = trace("decode")
    tiles, p = t.tables["tiles"], t.head["pes"][0]
    close = next(int(tiles["op1"][n]) for n in range(len(tiles["pe"])) if tiles["place"][n] == 2)

    def said(view: View) -> dict[str, Any]:
        return {
            "name": view[".shared .file"].text_content(),
            "shapes": shapes(view, ".shared"),
            "marked": view[".shared .line.on"].count(),
        }

    direct, roundabout = page.show(t, name="a", view="page"), page.show(t, name="b", view="page")
    roundabout.keys(*back)
    for step in (0, close - p["op0"]):
        for view in (direct, roundabout):
            view.set("step", step)
        assert said(direct) == said(roundabout)
        assert said(direct)["marked"] == 0
        assert said(direct)["shapes"] == {}
        assert "not running" in said(direct)["name"]


def test_lines_do_not_move_when_shapes_come_and_go(page: Page, trace: Traces) -> None:
    t = trace("decode")
    view = page.show(t, pe=7, view="page")
    script = "s => [...document.querySelectorAll(s)].map(e => e.offsetHeight)"
    before = view.page.evaluate(script, f"#{view.name} .src > .listing .line")
    for name in ("Q", "s", "O_new"):
        view.set("step", row_named(t, 7, name))
        assert view.page.evaluate(script, f"#{view.name} .src > .listing .line") == before
