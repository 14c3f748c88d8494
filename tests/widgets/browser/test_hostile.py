"""Labels are data: whatever a name says, it stays text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from harness import Page

import kernbench_nb as kb
from kernbench_nb.widgets.reader import Trace
from kernbench_nb.widgets.trace import trace_of

IMAGE = '<img src=x onerror="window.pwned = 1">'
SCRIPT = "</script><script>window.pwned = 2</script>"


@pytest.fixture(scope="module")
def hostile() -> Trace:
    def kernel(a: Any, out: Any, *, tl: Any) -> None:
        with tl.scratch_scope(IMAGE, kind="tile", rows=(0, 1), keys=(0, 64)):
            x = tl.load(a, (64,), name=IMAGE)
            y = tl.exp(x, name=SCRIPT)
            tl.store(out, y)

    a = np.zeros(64, np.float32)
    made = trace_of(kb.launch(kernel, a, a.copy()))
    head = {**made.head, "title": IMAGE, "about": SCRIPT, "warnings": [IMAGE]}
    head["score"] = head["score"] and {**head["score"], "tokens": [IMAGE] * 64, "row_labels": [SCRIPT]}
    head["pes"] = [{**pe, "label": IMAGE} for pe in head["pes"]]
    head["sources"] = [
        {**s, "name": IMAGE, "file": SCRIPT, "lines": [*s["lines"], f"x = '{IMAGE}'"]}
        for s in head["sources"]
    ]
    return Trace(head, made.buffer)


@pytest.mark.parametrize("module", ["stepper", "arenas", "log"])
def test_names_are_shown_as_they_are(page: Page, hostile: Trace, module: str) -> None:
    view = page.show(hostile, module=module, view="page")
    if module != "log":
        for _ in range(3):
            view.keys("ArrowRight")
    for spot in view["svg"].all():
        if spot.is_visible():
            box = spot.bounding_box()
            for x in (0.2, 0.5, 0.8):
                page.page.mouse.move(box["x"] + box["width"] * x, box["y"] + box["height"] * 0.4)
    page.frames()
    assert page.page.evaluate("window.pwned") is None
    assert view["img"].count() == view["script"].count() == 0
    assert IMAGE in view[".kb"].first.text_content()
    if module != "log":
        assert view[".remark"].first.text_content() == IMAGE


def test_a_pair_and_its_names(page: Page, hostile: Trace) -> None:
    view = page.show(hostile, hostile, names=[IMAGE, SCRIPT])
    view.keys("ArrowRight", "End")
    assert page.page.evaluate("window.pwned") is None
    assert view["img"].count() == view["script"].count() == 0
    assert view["h3.big"].first.text_content() == IMAGE


def test_an_explorer_s_words(page: Page, trace: Callable[[str], Trace]) -> None:
    state = {
        "params": {},
        "verdict": IMAGE,
        "detail": SCRIPT,
        "error": {"type": IMAGE, "text": SCRIPT},
        "bound": IMAGE,
    }
    view = page.show(trace("user"), module="explore", state=state, busy=False)
    assert page.page.evaluate("window.pwned") is None
    assert view["img"].count() == view["script"].count() == 0
    assert view[".lesson pre"].text_content() == SCRIPT
