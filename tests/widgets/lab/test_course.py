"""Every notebook of the course in a real JupyterLab: it runs, nothing complains, and each view answers a keyboard."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import SHIPPED
from lab import LEAVE, Notebook

NOTEBOOKS = sorted(SHIPPED.glob("[0-9][0-9]_*.ipynb"))
VIEWS = ".jp-OutputArea-output .kb:not(.kb .kb)"
OUTPUT = "xpath=ancestor::*[contains(concat(' ', @class, ' '), ' jp-OutputArea-output ')]"
FAILED = ".jp-OutputArea-output .kb .draw-error:visible"


pytest.importorskip("playwright")
from playwright.sync_api import expect  # noqa: E402


@pytest.fixture(scope="module")
def page(browser: Any, address: str) -> Iterator[Notebook]:
    """One page for all of them: it takes longer to start JupyterLab in it than to run a notebook."""
    it = Notebook(browser, address, NOTEBOOKS[0].name)
    try:
        yield it
    finally:
        it.page.evaluate(LEAVE)
        it.context.close()


def step(view: Any) -> None:
    """A stepper, a pair or the arenas: to the first step, and one on."""
    steps = view.get_by_role("slider", name="Step").first
    view.focus()
    view.press("Home")
    expect(steps).to_have_value("0")
    view.press("ArrowRight")
    expect(steps).not_to_have_value("0")


def regroup(view: Any) -> None:
    """A log: its bars by something else."""
    button = view.get_by_role("group", name="Bars by").locator("button[aria-pressed=false]").first
    name = button.text_content()
    button.press("Enter")
    view.get_by_role("button", name=name, exact=True, pressed=True).wait_for()


def slide(view: Any) -> None:
    """An explorer: its first slider by one; what it runs then is drawn."""
    slider = view.locator(OUTPUT).locator(".noUi-handle").first
    low, now = (slider.get_attribute(f"aria-value{which}") for which in ("min", "now"))
    slider.press("ArrowRight" if now == low else "ArrowLeft")
    expect(slider).not_to_have_attribute("aria-valuenow", now)
    slider.press("d")
    slider.press("d")  # JupyterLab's command to delete the cell
    view.locator(".working", has_text="running").wait_for(state="hidden")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_of_the_course(page: Notebook, path: Path) -> None:
    page.open(path.name)
    outputs = [output for cell in page.run_all() for output in cell]
    assert [
        output for output in outputs if output["output_type"] == "error" or output.get("name") == "stderr"
    ] == []
    shown = sum("application/vnd.jupyter.widget-view+json" in output.get("data", {}) for output in outputs)
    views = page.page.locator(VIEWS)
    if shown:
        views.nth(shown - 1).wait_for()
    assert views.count() >= shown
    before = page.cells
    for view in views.all():
        classes = set(str(view.get_attribute("class")).split())
        if "kb-explore" in classes:
            slide(view)
        elif "kb-log" in classes:
            regroup(view)
        else:
            step(view)
    assert page.cells == before
    assert page.page.locator(FAILED).count() == 0
    assert (page.errors, page.outside) == ([], [])
