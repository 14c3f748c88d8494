"""What `check_answer` and `WrongAnswer` do whatever the exercise is."""

from __future__ import annotations

import traceback
from decimal import Decimal
from fractions import Fraction
from importlib import import_module
from typing import Any

import pytest

import kernbench_nb as kb
from kernbench_nb.course.answers import EXERCISES


@pytest.mark.parametrize("id", EXERCISES)
@pytest.mark.parametrize("answer", [..., None])
def test_not_answered_yet(capsys: pytest.CaptureFixture[str], id: str, answer: Any) -> None:
    kb.check_answer(id, answer)
    assert capsys.readouterr().out == f"exercise {id}: not answered yet\n"


class Mute:
    def __repr__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize("id", EXERCISES)
@pytest.mark.parametrize(
    "answer", [10**400, -(10**5000), Decimal("sNaN"), Fraction(10**400, 3), Mute()], ids=type
)
def test_what_cannot_be_shown_is_a_wrong_answer(id: str, answer: Any) -> None:
    with pytest.raises(kb.WrongAnswer) as caught:
        kb.check_answer(id, answer)
    assert len(str(caught.value)) < 400


def test_every_check_stands_where_its_exercise_says() -> None:
    found = {
        id: module
        for module in set(EXERCISES.values())
        for id in import_module(f"kernbench_nb.course.{module}").CHECKS
    }
    assert found == EXERCISES
    assert list(EXERCISES) == sorted(EXERCISES)


@pytest.mark.parametrize(
    ("id", "text"),
    [
        ("4", "no exercise is called '4'; did you mean '04a' or '04b'?"),
        ("04", "no exercise is called '04'; did you mean '04a' or '04b'?"),
        (4, "no exercise is called 4; did you mean '04a' or '04b'?"),
        (3, "an exercise is named by a text: kb.check_answer('03', ...), got 3"),
        ("3", "no exercise is called '3'; did you mean '03'?"),
        ("03 ", "no exercise is called '03 '; did you mean '03'"),
        ("O3", "no exercise is called 'O3'; did you mean '03'"),
        ("zz", "no exercise is called 'zz'; there are 00, 01, 02, "),
        (None, "no exercise is called None; there are 00, "),
        (["03"], "no exercise is called ['03']; "),
    ],
)
def test_an_unknown_exercise(id: Any, text: str) -> None:
    with pytest.raises(ValueError) as caught:
        kb.check_answer(id, 3)
    assert str(caught.value).startswith(text)


def test_a_wrong_answer_in_plain_python_is_an_exception() -> None:
    with pytest.raises(kb.WrongAnswer) as caught:
        kb.check_answer("03", 11)
    error = caught.value
    assert (error.exercise, error.got, error.idea) == (
        "03",
        "you said 11 tiles.",
        "The first tile is cheaper; price it alone.",
    )
    text = "".join(traceback.format_exception(error))
    assert text.startswith("Traceback")
    assert text.endswith(
        "WrongAnswer: exercise 03: you said 11 tiles.\nThe first tile is cheaper; price it alone.\n"
    )


def test_a_wrong_answer_in_a_notebook_is_two_lines() -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    new = nbformat.v4.new_code_cell
    cells = [
        "import kernbench_nb as kb",
        'kb.check_answer("03", 11)',
        'kb.check_answer("03", 12)',
        "def merge(a, b): ...\nkb.check_answer('02', merge)",
    ]
    notebook = nbformat.v4.new_notebook(cells=[new(cell) for cell in cells])
    nbclient.NotebookClient(notebook, kernel_name="python3", allow_errors=True, timeout=60).execute()
    (wrong,), (right,), (not_yet,) = (cell.outputs for cell in notebook.cells[1:])
    assert (wrong.output_type, wrong.ename) == ("error", "WrongAnswer")
    assert wrong.traceback == [
        "exercise 03: you said 11 tiles.",
        "The first tile is cheaper; price it alone.",
    ]
    assert wrong.evalue == "\n".join(wrong.traceback)
    assert right.text.startswith("exercise 03: right. The first tile is cheaper: ")
    assert not_yet.text == "exercise 02: not answered yet\n"
