"""The tour's page opened from disk, with the network cut."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kernbench_nb import _tour as tour


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path, _ = tour.page(tour.take(), tmp_path_factory.mktemp("a folder with #signs"))
    return path


@pytest.fixture(params=[(1200, "light"), (700, "dark")], ids=lambda p: f"{p[0]}-{p[1]}")
def opened(request: pytest.FixtureRequest, browser: Any, file: Path) -> Iterator[Any]:
    """The page; at the end it has logged nothing, and has asked for nothing but itself."""
    width, scheme = request.param
    # the page's policy lets nobody evaluate text, playwright's wait_for_function included
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True, reduced_motion="reduce"
    )
    context.set_default_timeout(10_000)
    page, problems, asked = context.new_page(), [], []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text))
    page.on("request", lambda it: asked.append(it.url))
    page.goto(file.as_uri())
    page.locator("#view-1 .kb svg").first.wait_for()
    yield page
    context.close()
    assert problems == []
    assert [url for url in asked if not url.startswith(("data:", "blob:"))] == [file.as_uri()]


def test_both_views_are_there(opened: Any) -> None:
    assert opened.locator("main > h2").all_text_contents() == ["The sweep, tile by tile", "Without scopes"]
    sweep, pair = opened.locator("#view-0"), opened.locator("#view-1")
    assert sweep.locator("output.pos").text_content() == "tile 2 · 3/3"
    assert pair.locator("output.pos").text_content() == "tile 48 of 100"
    text = sweep.inner_text()
    assert [
        word for word in ("Score map", "Scratch", "Kernel", "Engines", "PEs", "Values") if word not in text
    ] == []
    assert "ScratchOverflowError" in pair.inner_text()
    assert "never reached" in pair.inner_text()


def test_nothing_is_wider_than_the_page(opened: Any) -> None:
    assert opened.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0


def test_it_steps(opened: Any) -> None:
    sweep, pair = opened.locator("#view-0"), opened.locator("#view-1")
    sweep.get_by_role("button", name="First").click()
    sweep.locator(".kb").focus()
    opened.keyboard.press("ArrowRight")  # the end of the set-up
    opened.keyboard.press("ArrowRight")
    sweep.locator("output.pos", has_text="tile 0").wait_for()
    pair.locator(".kb").first.focus()
    opened.keyboard.press("ArrowLeft")
    pair.locator("output.pos", has_text="tile 47 of 100").wait_for()
    assert "ScratchOverflowError" not in pair.inner_text()
