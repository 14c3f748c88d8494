"""Pages for the tests of this folder."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)

from harness import Page  # noqa: E402


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(HERE):
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def pool(browser: Any) -> Iterator[dict[tuple[tuple[str, Any], ...], Page]]:
    """Pages by what they were opened with: loading the modules takes longer than most tests."""
    pages: dict[tuple[tuple[str, Any], ...], Page] = {}
    yield pages
    for page in pages.values():
        page.close()


@pytest.fixture
def open_page(browser: Any, pool: dict[tuple[tuple[str, Any], ...], Page]) -> Iterator[Callable[..., Page]]:
    """Gives pages; at the end none of them may have logged anything, or asked for anything off the page."""
    used: list[Page] = []

    def open_one(**options: Any) -> Page:
        key = tuple(sorted(options.items()))
        if key not in pool:
            pool[key] = Page(browser, **options)
        used.append(pool[key])
        return pool[key]

    yield open_one
    problems = [problem for page in used for problem in page.reset()]
    assert problems == []


@pytest.fixture
def page(open_page: Callable[..., Page]) -> Page:
    """A page 1200 pixels wide, light, with motion."""
    return open_page()
