"""What can be said of looks without looking: themes, contrast, widths, labels that collide, motion, roles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from harness import Page

from kernbench_nb.widgets.reader import Trace

Traces = Callable[[str], Trace]
SNAPSHOT = Path(__file__).with_name("stepper.aria.txt")


def colours(page: Page, *selectors: str) -> dict[str, Any]:
    """Colours as the browser computes them."""
    script = (
        "s => { const c = getComputedStyle(document.querySelector(s));"
        " return [c.color, c.fill, c.backgroundColor]; }"
    )
    return {s: page.page.evaluate(script, s) for s in selectors}


def luminance(colour: str) -> float:
    values = [
        float(v) for v in colour[colour.index("(") + 1 : -1].replace("srgb", "").replace(",", " ").split()[:3]
    ]
    values = [v if colour.startswith("color") else v / 255 for v in values]
    r, g, b = (v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in values)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(a: str, b: str) -> float:
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("options", [{}, {"theme": "dark"}, {"dark": True}, {"theme": "light", "dark": True}])
def test_light_and_dark(open_page: Callable[..., Page], trace: Traces, options: dict[str, Any]) -> None:
    """The host's theme decides, whatever the system prefers; every text can be read on its ground."""
    page = open_page(**options)
    view = page.show(trace("decode"), pe=7, step=50, view="page")
    dark = options.get("theme", "dark" if options.get("dark") else "light") == "dark"
    assert ("kb-dark" in view[".kb"].first.get_attribute("class")) == dark
    found = colours(
        page,
        "#view .kb",
        "#view .lab0",
        "#view .lab1",
        "#view .lab2",
        "#view dt",
        "#view .note",
        "#view h3 .name",
    )
    ground = found["#view .kb"][2]
    for selector, (colour, fill, _) in found.items():
        text = fill if ".lab" in selector else colour
        assert contrast(text, ground) >= 4.5, (selector, text, ground)


def test_lines_of_engines_stand_out(open_page: Callable[..., Page], trace: Traces) -> None:
    for options in ({}, {"dark": True}):
        page = open_page(**options)
        page.show(trace("user"), view="page")
        ground = colours(page, "#view .kb")["#view .kb"][2]
        for engine in ("dma", "gemm", "math", "ipc"):
            line = page.page.evaluate(
                "name => { const i = document.createElement('i'); i.style.color = `var(${name})`;"
                " document.querySelector('#view .kb').append(i); const c = getComputedStyle(i).color;"
                " i.remove(); return c; }",
                f"--kb-c-{engine}",
            )
            assert contrast(line, ground) >= 3


def test_a_theme_that_changes_is_followed(page: Page, trace: Traces) -> None:
    view = page.show(trace("user"))
    script = (
        "v => { document.documentElement.style.setProperty('--jp-layout-color0', v);"
        " document.body.dataset.jpThemeName = v; }"
    )
    page.page.evaluate(script, "#111111")
    page.frames(4)
    assert "kb-dark" in view[".kb"].first.get_attribute("class")
    page.page.evaluate(script, "white")
    page.frames(4)
    assert "kb-dark" not in view[".kb"].first.get_attribute("class")
    page.page.evaluate(
        "() => { document.documentElement.removeAttribute('style'); delete document.body.dataset.jpThemeName; }"
    )


@pytest.mark.parametrize(
    ("name", "width", "theme"),
    [
        *((name, w, None) for w in (1200, 700) for name in ("decode", "flash", "ring", "overflow", "user")),
        ("ring", 480, None),
        ("decode", 1200, "light"),
        ("flash", 700, "light"),
        ("ring", 700, "light"),
        ("overflow", 940, "light"),
    ],
)
def test_labels_do_not_collide(
    open_page: Callable[..., Page], trace: Traces, name: str, width: int, theme: str | None
) -> None:
    """No label lies over another or is cut off, and nothing is wider than the view; with a notebook's fonts too."""
    page = open_page(motion=False, theme=theme)
    t = trace(name)
    view = page.show(t, view="page", width=width)
    for pe in {t.head["pes"][0]["pe"], t.head["pes"][-1]["pe"]}:
        view.set("pe", pe)
        at = next(p for p in t.head["pes"] if p["pe"] == pe)
        for part in (0.4, 0.7, 1):
            view.set("step", round((at["op1"] - at["op0"] - 1) * part))
            assert view.collisions() == [], (pe, view.get("step"))
            assert view.sideways() <= 0


@pytest.mark.parametrize("width", [1200, 700])
@pytest.mark.parametrize("theme", [None, "light"])
def test_other_views_do_not_collide(
    open_page: Callable[..., Page], trace: Traces, width: int, theme: str | None
) -> None:
    page = open_page(motion=False, theme=theme)
    pair = page.show(trace("long"), trace("overflow"), name="pair", width=width)
    arenas = page.show(trace("decode"), module="arenas", name="arenas", width=width, step=40)
    log = page.show(trace("decode"), module="log", name="log", width=width)
    for step in (0, 20, 48, 100):
        pair.set("step", step)
        assert pair.collisions() == [], step
    assert arenas.collisions() == []
    assert max(view.sideways() for view in (pair, arenas, log)) <= 0


def test_a_notebook_s_rules_for_outputs_do_not_reach_in(
    open_page: Callable[..., Page], trace: Traces
) -> None:
    page = open_page(theme="light", motion=False)
    view = page.show(trace("decode"), name="view")
    cell = view[".cell"].first
    assert cell.locator("dt").bounding_box()["x"] == cell.locator("dd").bounding_box()["x"]
    assert cell.locator("dd").bounding_box()["y"] > cell.locator("dt").bounding_box()["y"]
    log = page.show(trace("decode"), module="log", name="log")
    row = log[".logtable tbody tr[data-at]"].first
    assert row.bounding_box()["height"] <= 21
    assert row.locator(".c-op").evaluate("e => getComputedStyle(e).textAlign") == "left"
    assert view[".line code"].first.evaluate("e => getComputedStyle(e).backgroundColor") == "rgba(0, 0, 0, 0)"


def test_one_column_when_narrow(page: Page, trace: Traces) -> None:
    """By the view's own width, not the window's."""
    t = trace("decode")
    wide = page.show(t, name="wide", width=1200)
    narrow = page.show(t, name="narrow", width=700)
    for view, together in ((wide, True), (narrow, False)):
        arena, source = (view[f".p-{name}"].bounding_box() for name in ("arena", "source"))
        assert (abs(arena["y"] - source["y"]) < 2) == together


def test_nothing_moves_when_stepping(page: Page, trace: Traces) -> None:
    view = page.show(trace("decode"), pe=7, view="page")

    def places() -> list[tuple[float, float]]:
        return [(e.bounding_box()["y"], e.bounding_box()["height"]) for e in view[".panel"].all()]

    before = places()
    for step in (1, 20, 40, 55, 61):
        view.set("step", step)
        assert places() == before


def test_reduced_motion_jumps(open_page: Callable[..., Page], trace: Traces) -> None:
    page = open_page(motion=False)
    view = page.show(trace("decode"))
    before = view.draws
    view.keys("ArrowRight")
    assert view.draws - before == 1


def without_source(snapshot: str) -> Iterator[str]:
    """Lines of a snapshot, without the kernel's own text: its line numbers are not this room's."""
    inside = -1
    for line in snapshot.splitlines():
        indent = len(line) - len(line.lstrip())
        if inside >= 0 and indent > inside:
            continue
        inside = indent if line.lstrip().startswith('- list "source of') else -1
        yield line.rstrip()


def test_roles_and_names(page: Page, trace: Traces) -> None:
    """The whole view as a screen reader is told of it. Regenerate by deleting the file and running the test."""
    view = page.show(trace("user"), step=30, view="page")
    said = view[".kb"].first.aria_snapshot()
    said = "\n".join(line for line in without_source(said)) + "\n"
    if not SNAPSHOT.exists():
        SNAPSHOT.write_text(said, encoding="utf-8")
    assert said == SNAPSHOT.read_text(encoding="utf-8")


def test_panels_are_regions_with_a_picture_each(page: Page, trace: Traces) -> None:
    view = page.show(trace("decode"), pe=7, step=50, view="page")
    regions = {
        r.get_attribute("aria-label"): r.locator("svg[role=img]").count() for r in view["section"].all()
    }
    assert regions == {"Score map": 1, "Scratch": 1, "Kernel": 0, "Engines": 1, "PEs": 1, "Values": 1}
    assert view[".line[aria-current=step]"].count() == 2  # the line, and the one that called


def test_roles_of_the_root(page: Page, trace: Traces) -> None:
    root = page.show(trace("user"))[".kb"].first
    assert root.get_attribute("role") == "group"
    assert "softmax_rows" in root.get_attribute("aria-label")
    assert root.get_attribute("tabindex") == "0"


def test_a_screen_reader_hears_each_step_and_playing_now_and_then(page: Page, trace: Traces) -> None:
    view = page.show(trace("decode"), granularity="op")
    live = view["[aria-live=polite]"]
    view.keys("ArrowRight")
    first = live.text_content()
    assert "PE 0" in first
    page.page.evaluate(
        "() => { window.said = 0; new MutationObserver(() => window.said++)"
        ".observe(document.querySelector('#view .kb-live'), { childList: true, characterData: true, subtree: true }); }"
    )
    view["select[aria-label=Speed]"].select_option("60")
    view[".kb"].first.focus()
    page.page.keyboard.press(" ")
    page.frames(30)
    page.page.keyboard.press(" ")
    view.settle()
    assert page.page.evaluate("window.said") <= 3
    assert live.text_content() != first


def test_every_picture_says_its_numbers(page: Page, trace: Traces) -> None:
    view = page.show(trace("decode"), pe=7, step=50, view="page")
    for picture in view["svg[role=img]"].all():
        assert any(c.isdigit() for c in picture.get_attribute("aria-label"))


def test_paper_keeps_the_colours(page: Page, trace: Callable[[str], Trace]) -> None:
    """Browsers leave out backgrounds on paper, and with them swatches, bars and the line that is marked."""
    view = page.show(trace("decode"), view="page")
    for part in (".kb", ".legend .sw"):
        style = view[part].first.evaluate("e => getComputedStyle(e).printColorAdjust")
        assert style == "exact"
