"""Every view and every frame of the package is used in the course: what no notebook shows, no reader finds."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
import rules

import kernbench_nb as kb
from kernbench_nb import analysis, plots

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("[0-9][0-9]_*.ipynb"))


def views() -> list[str]:
    """Public names of the widgets' room, less the extension's own hooks; of plots; of analysis."""
    shown = [
        name
        for name, target in kb._PUBLIC.items()
        if target.startswith("kernbench_nb.widgets.") and not target.startswith("kernbench_nb.widgets.magic:")
    ]
    return sorted(
        [f"kb.{name}" for name in shown]
        + [f"kb.plots.{name}" for name in plots.__all__]
        + [f"kb.analysis.{name}" for name in analysis.__all__]
    )


def called(path: Path) -> Iterator[str]:
    """The dotted names that a notebook calls."""
    for _, cell in rules.code_cells(nbformat.read(path, as_version=4)):
        for node in ast.walk(rules.tree_of(cell)):
            if isinstance(node, ast.Call):
                yield ast.unparse(node.func)


USED = {name for path in NOTEBOOKS for name in called(path)}


def test_there_are_views() -> None:
    assert {"kb.step", "kb.show_log", "kb.explore", "kb.plots.arena_map", "kb.analysis.traffic"} <= set(
        views()
    )


@pytest.mark.parametrize("view", views())
def test_a_notebook_shows_it(view: str) -> None:
    assert view in USED, f"no notebook calls {view}"
