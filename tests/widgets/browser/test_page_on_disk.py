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
    assert sweep.locator("output.pos").text_content() == "tile 2 · 3 of 3"
    assert pair.locator("output.pos").text_content() == "tile 47 · 48 of 100"
    text = sweep.inner_text()
    assert [
        word for word in ("Score map", "Scratch", "Kernel", "Engines", "PEs", "Values") if word not in text
    ] == []
    assert "ScratchOverflowError" in pair.inner_text()
    assert "never reached" in pair.inner_text()


def test_keys_work_from_the_start(opened: Any) -> None:
    """Nobody has clicked, and no key has gone anywhere: the first view takes them."""
    sweep = opened.locator("#view-0")
    opened.keyboard.press("Home")
    sweep.locator("output.pos", has_text="set-up").wait_for()
    assert "Here it begins" in sweep.locator(".caption").text_content()
    opened.keyboard.press("ArrowRight")
    opened.keyboard.press("ArrowRight")
    sweep.locator("output.pos", has_text="tile 0 · 1 of 3").wait_for()


def test_it_says_what_a_reader_who_knows_nothing_asks(opened: Any) -> None:
    """What outlives a tile, what becomes of S and P, what c is, how the states merge, why one kernel stops."""
    text = " ".join(opened.locator("main").inner_text().split())
    for words in (
        "In its persistent arena lie the query and the state (m, l, O)",
        "they are given back, and the next tile takes the same bytes",
        "c = exp(m_old − m_new)",
        "PE 7 → 6 → … → 0",
        "PE 0 divides its O by its l",
        "a tile's scratch is not given back when the tile ends",
        "K, V, qk, s, exp, p and 11 more, 13.5 KiB in all, are given back next",
    ):
        assert words in text


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
    pair.locator("output.pos", has_text="tile 46 · 47 of 100").wait_for()
    assert "ScratchOverflowError" not in pair.inner_text()
