"""Every notebook keeps the rules of the course, and has a solution."""

from __future__ import annotations

import linecache
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
import rules

from kernbench_nb.course.answers import EXERCISES

REPO = Path(__file__).resolve().parents[2]
FOLDER = REPO / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("[0-9][0-9]_*.ipynb"))
SOLUTIONS = sorted((FOLDER / "solutions").glob("*.ipynb"))
LINKED = {"../docs/GLOSSARY.md", "../docs/api.md", "../topology.yaml", "../NOTICE"}
"""What a notebook may link to, beside other notebooks: a reader's copy has it."""


def stem(path: Path) -> str:
    return path.stem


@pytest.mark.parametrize("path", NOTEBOOKS, ids=stem)
class TestNotebook:
    @pytest.mark.parametrize(
        "rule",
        [
            rules.shape, rules.words, rules.code, rules.proof, rules.honesty, rules.predictions,
            rules.outputs, rules.metadata,
        ],
        ids=lambda rule: rule.__name__,
    )  # fmt: skip
    def test_rule(self, path: Path, rule: Any) -> None:
        assert list(rule(nbformat.read(path, as_version=4))) == []

    def test_exercises(self, path: Path) -> None:
        ids = {id for id in EXERCISES if id[:2] == path.stem[:2]}
        assert list(rules.exercises(nbformat.read(path, as_version=4), ids)) == []

    def test_links(self, path: Path) -> None:
        known = LINKED | {other.name for other in NOTEBOOKS}
        assert all((FOLDER / target).exists() for target in known)
        assert list(rules.links(nbformat.read(path, as_version=4), known)) == []

    def test_solution(self, path: Path, build: Any) -> None:
        notebook = nbformat.read(path, as_version=4)
        if not any("starter" in rules.tags(cell) for cell in notebook.cells):
            assert not (FOLDER / "solutions" / path.name).exists()
            return
        solved = nbformat.read(FOLDER / "solutions" / path.name, as_version=4)
        assert list(rules.solution(notebook, solved)) == []
        blocks = build.blocks_of((FOLDER / "solutions" / f"{path.stem}.py").read_text(encoding="utf-8"))
        assert [cell.source for cell in build.solved(notebook, blocks).cells] == [
            cell.source for cell in solved.cells
        ]


@pytest.mark.usefixtures("tidy")
@pytest.mark.parametrize("path", SOLUTIONS, ids=stem)
def test_a_solution_is_right(
    path: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its cells, one after the other, in this process: what the others print is looked at where the notebook runs."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for n, cell in rules.code_cells(nbformat.read(path, as_version=4)):
        file = f"<{path.stem} cell {n}>"
        # views of a kernel show its lines
        monkeypatch.setitem(
            linecache.cache, file, (len(cell.source), None, cell.source.splitlines(True), file)
        )
        capsys.readouterr()
        exec(compile(rules.python_of(cell), file, "exec"), names)
        said = capsys.readouterr().out
        for id in rules.CHECK.findall(cell.source):
            assert said.startswith(f"exercise {id}: right. ")


def test_every_solution_has_its_notebook() -> None:
    assert {path.name for path in SOLUTIONS} <= {path.name for path in NOTEBOOKS}


def test_the_number_of_a_notebook_is_used_once() -> None:
    numbers = [path.stem[:2] for path in NOTEBOOKS]
    assert len(set(numbers)) == len(numbers)
    assert {path.name for path in FOLDER.glob("*.ipynb")} == {path.name for path in NOTEBOOKS}


def test_nbval_runs_under_another_hash_seed_than_what_is_saved(
    monkeypatch: pytest.MonkeyPatch, load: Callable[[str], Any], build: Any
) -> None:
    """So every comparison of saved and fresh outputs is one of two seeds."""
    environment = dict(os.environ)
    monkeypatch.setattr(os, "environ", environment)
    cleanups: list[Any] = []
    load("conftest").pytest_configure(SimpleNamespace(add_cleanup=cleanups.append))
    for cleanup in cleanups:
        cleanup()
    assert (environment["PYTHONHASHSEED"], build.SEED, build.CHECK_SEED) == ("1", "0", "1")
