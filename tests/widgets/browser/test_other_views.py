"""Arenas and the explorer; and the joined text that a widget really carries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from harness import Page

from kernbench_nb.widgets.reader import Trace

Traces = Callable[[str], Trace]

KEYS = [128 * 2**k for k in range(12)]
STATE: dict[str, Any] = {
    "params": {"h_kv": 3, "group": 3, "d": 64, "S_kv": 2048, "tile": 32, "pes": 8, "prefetch": False, "scoped": True},
    "verdict": "Fits: 39.6 KiB of 1 MiB",
    "detail": "8 tiles per PE.",
    "error": None,
    "peak": 40_560,
    "limit": 2**20,
    "persistent": 3_552,
    "makespan": 6_920_000,
    "tiles": 8,
    "hbm": 1_500_000,
    "bound": "latency",
    "curve": {"keys": KEYS, "scoped": [40_560] * 12, "unscoped": [3_552 + 37_008 * max(1, k // 256) for k in KEYS]},
    "tiles_axis": {
        "tile": [16, 32, 64], "load": [430_000, 610_000, 900_000], "gemm": [70_000, 100_000, 180_000],
        "math": [350_000, 420_000, 600_000], "peak": [25_680, 40_560, None],
    },
    "terms": {"N": 8, "L": 610_000, "C_first": 350_000, "C": 520_000, "I": 8_000},
    "last_fit": 7_168,
    "largest_tile": 512,
}  # fmt: skip


def test_arenas_show_every_pe_on_one_scale(page: Page, trace: Traces) -> None:
    t = trace("decode")
    view = page.show(t, module="arenas", step=40)
    shown = view.texts(".p-all text")
    assert [s for s in shown if s.startswith("PE ")] == [f"PE {n}" for n in range(8)]
    assert shown.count("25.1 KiB") == 8
    box = view[".p-all svg"].bounding_box()
    view[".p-all svg"].click(position={"x": box["width"] * 0.3, "y": box["height"] * 0.75})
    view.settle()
    assert view.get("pe") == 5
    assert view[".p-arena svg"].get_attribute("aria-label").startswith("Scratch of PE 5")
    view.keys("ArrowRight")
    assert view.get("step") > 0


def test_arenas_of_one_pe(page: Page, trace: Traces) -> None:
    view = page.show(trace("user"), module="arenas")
    assert view.texts("h3 .name") == ["Scratch"]


def test_explore_draws_what_it_is_told(page: Page, trace: Traces) -> None:
    view = page.show(trace("user"), module="explore", state=STATE, busy=False)
    assert view[".caption"].first.text_content().startswith("Fits: 39.6 KiB of 1 MiB")
    numbers = view[".nums"].text_content().replace("\u202f", "")
    assert "39.6 KiB" in numbers
    assert "latency" in numbers
    assert "7168 keys" in "".join(view.texts(".p-peak text")).replace("\u202f", "")
    assert "too big" in view.texts(".p-tile text")
    N, L, first, C = 8, 610, 350, 520
    assert f"{N * L + first + (N - 1) * C} ns" in view[".formula"].text_content().replace("\u202f", "")
    assert view[".explored .p-arena"].count() == 1
    assert view.collisions() == []


def test_explore_shows_an_overflow_as_the_lesson(page: Page, trace: Traces) -> None:
    view = page.show(trace("user"), module="explore", state=STATE, busy=False)
    error = {"type": "ScratchOverflowError", "text": "V wants 6 144 B, 6 112 B free"}
    view.set("state", {**STATE, "error": error, "verdict": "Overflows: 2.1 MiB"})
    assert "bad" in view[".kb"].first.get_attribute("class")
    assert "6 112 B free" in view[".lesson"].text_content()
    view.set("state", STATE)
    assert view[".lesson"].is_hidden()


def test_explore_takes_another_run(page: Page, trace: Traces) -> None:
    view = page.show(trace("user"), module="explore", state=STATE, busy=False)
    page.model("next", trace("no scopes"))
    page.page.evaluate(
        "() => { const [a, b] = [window.models.view, window.models.next];"
        " a.set('step', 0); a.set('heads', b.get('heads')); a.set('trace', b.get('trace')); }"
    )
    page.frames(4)
    assert view[".explored .kb"].count() == 1
    assert view[".explored .file b"].count() == 0
    assert "operation 1 of" in " ".join(view.texts(".explored text"))
    view.set("busy", True)
    assert "running" in view[".working"].text_content()


def test_explore_before_the_first_run(page: Page) -> None:
    view = page.show(module="explore", state={}, busy=True)
    assert "Running" in view[".caption"].text_content()


@pytest.mark.parametrize("module", ["stepper", "arenas", "log", "explore"])
def test_the_joined_text_is_the_same_view(page: Page, trace: Traces, module: str) -> None:
    """What a widget carries as one text shows what the modules show one by one."""
    more = {"state": STATE, "busy": False} if module == "explore" else {}
    apart = page.show(trace("decode"), module=module, name="apart", step=30, **more)
    joined = page.show(trace("decode"), module=f"/joined/{module}.js", name="joined", step=30, **more)
    assert apart.texts(":is(text, p, b, span, td)") == joined.texts(":is(text, p, b, span, td)")
