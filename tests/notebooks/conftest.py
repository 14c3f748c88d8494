"""The rules of the course stand beside the tests that hold the notebooks to them."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.insert(0, HERE)


@pytest.fixture
def tidy() -> Iterator[None]:
    """Close the figures and widgets that a notebook run in this process leaves open, as the end of its kernel would."""
    yield
    import ipywidgets
    from matplotlib import pyplot

    pyplot.close("all")
    ipywidgets.Widget.close_all()


@pytest.fixture(scope="session")
def load() -> Callable[[str], Any]:
    """Gives a script of the notebooks' folder as a module."""

    def module(name: str) -> Any:
        file = Path(__file__).resolve().parents[2] / "notebooks" / f"{name}.py"
        spec = importlib.util.spec_from_file_location(f"notebooks_{name}", file)
        assert spec is not None
        assert spec.loader is not None
        made = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(made)
        return made

    return module


@pytest.fixture(scope="session")
def build(load: Callable[[str], Any]) -> Any:
    """The script that runs the notebooks and makes their solutions."""
    return load("build")
