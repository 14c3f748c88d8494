"""Exercise 12: the line of a kernel that reads what is gone."""

from __future__ import annotations

import inspect
import re
from typing import Any

from kernbench_nb.benches import wrong
from kernbench_nb.course.numbers import number_of, short_text
from kernbench_nb.course.verdict import Check, Right, Verdict, Wrong

__all__ = ["CHECKS"]

_IDEAS = {
    "append": "Storing a handle is legal; reading it is not.",
    "scope": "That is where it died; where is it read?",
    "copy_to": "That one writes into a living handle.",
}


def _check(answer: Any) -> Verdict:
    lines = wrong.mystery_lines()
    said = re.fullmatch(r"\s*line\s*(\d+)\s*", answer, re.IGNORECASE) if isinstance(answer, str) else None
    number = int(said[1]) if said else number_of(answer)
    if number is None:
        text = answer if isinstance(answer, str) else short_text(answer)
        found = _lines_with(text)
        if len(found) != 1:
            how = "several lines have" if found else "no line has"
            return Wrong(f"{how} the text {text[:60]!r}.", "Give the number that stands before the line.")
        (number,) = found
    if number == lines["read"]:
        return Right(
            "The handle outlived its scope. Fold it before the scope ends, or copy_to a persistent handle."
        )
    what = next((name for name, line in lines.items() if line == number), "")
    idea = _IDEAS.get(
        what, "That line reads nothing that is gone: what is kept across tiles, and where is it used?"
    )
    return Wrong(f"you said line {number}.", idea)


def _lines_with(text: str) -> list[int]:
    """Numbers of the kernel's lines that hold a text, blanks and the number in front of it aside."""
    wanted = " ".join(re.sub(r"^\s*\d+:?\s", "", text).split())
    source, first = inspect.getsourcelines(wrong.mystery_kernel)
    return [n for n, line in enumerate(source, first) if wanted and wanted in " ".join(line.split())]


CHECKS: dict[str, Check] = {"12": _check}
