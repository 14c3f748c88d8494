"""`kb.check_answer`: the exercises by id, and what a reader is told."""

from __future__ import annotations

from difflib import get_close_matches
from importlib import import_module
from typing import Any

from kernbench_nb.course.verdict import Check, Wrong
from kernbench_nb.errors import WrongAnswer

__all__ = ["EXERCISES", "check_answer"]

EXERCISES: dict[str, str] = {
    "00": "scratch",
    "01": "traffic",
    "02": "merging",
    "03": "scratch",
    "04a": "scratch",
    "04b": "folding",
    "05": "traffic",
    "06": "traffic",
    "07a": "traffic",
    "07b": "traffic",
    "08": "scratch",
    "12": "stale",
    "14a": "softmax",
    "14b": "softmax",
}
"""Id -> the module of this room whose ``CHECKS`` has it. An exercise with parts has a letter for each."""


def check_answer(id: str, answer: Any) -> None:
    """Check the answer to an exercise.

    Prints ``exercise 03: right.`` and why, or ``exercise 03: not answered yet`` for None, ``...`` and a function that
    does nothing.

    Parameters
    ----------
    id
        Of the exercise, such as ``"03"``; a part of one has a letter, ``"04a"``.
    answer
        A number or a function, as the exercise asks for.

    Raises
    ------
    WrongAnswer
        If it is not right: what was got, and the idea that is missing; ``error.run`` is the reader's run, if any.
    ValueError
        If there is no such exercise.

    Examples
    --------
    >>> check_answer("03", ...)
    exercise 03: not answered yet
    >>> check_answer("03", 12)
    exercise 03: right. The first tile is cheaper: 78 752 + 11 * 87 424 = 1 040 416 B.
    """
    check = _find(id)
    verdict = None if answer is None or answer is ... else check(answer)
    if verdict is None:
        print(f"exercise {id}: not answered yet")
    elif isinstance(verdict, Wrong):
        error = WrongAnswer(id, verdict.got, verdict.idea)
        error.run = verdict.run
        raise error
    else:
        print(f"exercise {id}: right. {verdict.why}")


def _find(id: Any) -> Check:
    """The check of an exercise; the error for an unknown one names those nearest."""
    if not isinstance(id, str) or id not in EXERCISES:
        raise ValueError(_unknown(id))
    checks: dict[str, Check] = import_module(f"kernbench_nb.course.{EXERCISES[id]}").CHECKS
    return checks[id]


def _unknown(id: Any) -> str:
    text = f"{int(id):02d}" if str(id).isdecimal() else str(id)
    if text in EXERCISES and not isinstance(id, str):
        return f"an exercise is named by a text: kb.check_answer({text!r}, ...), got {id!r}"
    parts = [known for known in EXERCISES if known[:2] == text]
    near = parts or get_close_matches(text, EXERCISES, n=2, cutoff=0.5)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"there are {', '.join(EXERCISES)}."
    return f"no exercise is called {id!r}; {hint}"
