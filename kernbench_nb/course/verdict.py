"""What a check says of an answer, and the check of an answer that is one number."""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kernbench_nb.course.numbers import Number, counted, number_of, number_text, short_text, with_unit

__all__ = ["Check", "NumberCheck", "Right", "Verdict", "Wrong", "no_function", "raised"]


@dataclass(frozen=True, slots=True)
class Right:
    """The answer is right.

    Attributes
    ----------
    why
        One sentence: what makes it so.
    """

    why: str


@dataclass(frozen=True, slots=True)
class Wrong:
    """The answer is wrong.

    Attributes
    ----------
    got
        What was answered, or what came of it; one line.
    idea
        What is missing, without the answer; one line.
    run
        The reader's run, where there was one.
    """

    got: str
    idea: str
    run: Any = None


Verdict = Right | Wrong | None
"""None: not answered yet."""

Check = Callable[[Any], Verdict]
"""Looks at an answer that is neither None nor ``...``."""


@dataclass(frozen=True, slots=True)
class NumberCheck:
    """The check of an answer that is a whole number.

    Attributes
    ----------
    unit
        What is counted, such as ``"B"`` or ``"tiles"``.
    right
        Gives the right number, from a run or a formula of the package.
    why
        The sentence for it.
    otherwise
        The idea that a wrong number shows to be missing, if it is none of `traps`.
    traps
        Wrong numbers that have an idea of their own.
    """

    unit: str
    right: Callable[[], int]
    why: str
    otherwise: Callable[[Number], str]
    traps: Mapping[int, str] = field(default_factory=dict)

    def __call__(self, answer: Any) -> Verdict:
        """Compare an answer with the right number."""
        number = number_of(answer, self.unit)
        if number is None:
            return Wrong(
                f"{short_text(answer)} is not a plain number.",
                f"Write the number alone, in {_SPELT.get(self.unit, self.unit)}: answer = 123.",
            )
        if number == self.right():
            return Right(self.why)
        if isinstance(number, int):
            said, idea = counted(number, self.unit), self.traps.get(number)
        else:
            said = with_unit(_digits(number), self.unit)
            idea = None if self.unit == "B" else f"Only whole {self.unit} count."
        return Wrong(f"you said {said}.", idea or self.otherwise(number))


_SPELT = {"B": "bytes"}


def _digits(number: Number) -> str:
    """A number that is not whole, so that one sees that it is not."""
    return f"{number:.6g}" if isinstance(number, float) and abs(number) < 1000 else number_text(number)


def no_function(answer: Any) -> Wrong:
    """The verdict for what cannot be called."""
    return Wrong(
        f"{short_text(answer)} is not a function.", "Write the function with def, and give it by its name."
    )


def raised(function: Callable[..., Any], error: Exception) -> Wrong:
    """The verdict for a reader's function that raised: the error's first line, and the function's own."""
    name = getattr(function, "__name__", "the function")
    code = getattr(function, "__code__", None)
    first = (str(error).splitlines() or [""])[0]
    places = [
        (frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_code is code
    ]
    got = f"{name} raised {type(error).__name__}: {first}"
    run = getattr(error, "run", None)
    if not places:
        return Wrong(got, "See how the exercise says that it is called.", run)
    file, line = places[-1]
    source = linecache.getline(file, line).strip()
    return Wrong(got, f"That was in {f'its line `{source}`' if source else f'line {line}'}.", run)
