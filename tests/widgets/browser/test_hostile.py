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


def test_a_long_name_is_cut_to_the_room_that_there_is(page: Page) -> None:
    def kernel(a: Any, *, tl: Any) -> None:
        for n in range(3):
            with tl.scratch_scope(f"{n}{'long ' * 600}"):
                tl.exp(tl.load(a, (64,)))

    view = page.show(trace_of(kb.launch(kernel, np.zeros(64, np.float32))), view="page")
    for key in ("Home", "ArrowRight", "End"):
        view.keys(key)
        assert view.collisions() == []
        assert view.sideways() == 0


@pytest.mark.parametrize("bad", ["nan q", "inf k", "masked", "large"])
@pytest.mark.parametrize("width", [1200, 700])
def test_values_that_are_no_plain_numbers(page: Page, bad: str, width: int) -> None:
    q, k, v = kb.sample_attention()
    if bad == "masked":
        q, k, v = (x[:40, :1] for x in (q, k, v))
        run = kb.flash(q, k, v, tile_q=16, tile_kv=16, mask=np.zeros((40, 40), bool), record="tiles")
    else:
        if bad == "inf k":
            k = k.copy()
            k[5] = np.inf
        query = np.full_like(q[-1:], np.nan) if bad == "nan q" else q[-1:]
        scale = {"sm_scale": 1e30} if bad == "large" else {}
        run = kb.decode(query, k, v, pes=4, tile=16, record="tiles", **scale)
    view = page.show(trace_of(run), view="page", width=width)
    for key in ("Home", "ArrowRight", "ArrowRight", "End"):
        view.keys(key)
        assert view.collisions() == []
        assert view[".draw-error:visible"].count() == 0
    shown = " ".join(view.texts(".p-values text"))
    assert ("not finite" in shown) == (bad in ("nan q", "inf k"))
    assert "NaN %" not in shown


def test_an_error_before_anything_is_said(page: Page) -> None:
    def kernel(*, tl: Any) -> None:
        raise RuntimeError(IMAGE)

    with pytest.raises(RuntimeError) as caught:
        kb.launch(kernel)
    view = page.show(trace_of(caught.value.run))  # type: ignore[attr-defined]
    text = view[".kb-message p"].text_content()
    assert text == f"It stopped before it did anything: RuntimeError: {IMAGE}"
