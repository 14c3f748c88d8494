"""One JupyterLab for all tests of this folder."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)

from lab import Notebook, find_lab, serve  # noqa: E402

SHIPPED = Path(__file__).resolve().parents[3] / "notebooks"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(HERE):
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What JupyterLab shows: the shipped notebooks, and whatever a test writes there."""
    shown = tmp_path_factory.mktemp("lab")
    for notebook in SHIPPED.glob("*.ipynb"):
        shutil.copy(notebook, shown)
    return shown


@pytest.fixture(scope="session")
def address(browser: Any, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where JupyterLab is."""
    find_lab()
    with serve(folder, tmp_path_factory.mktemp("home")) as it:
        yield it


@pytest.fixture(scope="module")
def open_notebook(browser: Any, address: str) -> Iterator[Callable[[str], Notebook]]:
    """Opens notebooks by name; their kernels end with the module."""
    opened: list[Notebook] = []

    def open_one(name: str) -> Notebook:
        opened.append(Notebook(browser, address, name))
        return opened[-1]

    yield open_one
    for notebook in opened:
        notebook.close()
