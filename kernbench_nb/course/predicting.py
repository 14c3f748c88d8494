"""`kb.predict`: what a reader said beside what was measured.

It prints one line, and a second where the guess is a known trap. It never raises: a prediction is not a test, and a
notebook goes on whatever was typed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Set
from typing import Any

from kernbench_nb.course.numbers import (
    Number,
    counted,
    number_of,
    number_text,
    off_by,
    same,
    short_text,
    with_unit,
)

__all__ = ["predict"]

_SHOWN = 12
"""How many elements of a set are named."""


def predict(guess: Any, value: Any, unit: str = "", traps: Mapping[Any, str] | None = None) -> None:
    """Answer a prediction, in one or two printed lines; never raises.

    Parameters
    ----------
    guess
        What the reader typed: None (or ``...``) for no guess, else of the kind of `value`. A number may be a text.
    value
        What was measured: a number, a word, or a set of tiles ``{(0, 1), ...}`` or of words.
    unit
        Of both, such as ``"B"``, ``"x"``, ``"tiles"``.
    traps
        Guess -> the sentence that explains it; for a set the key is a frozenset or a tuple of its elements.

    Examples
    --------
    >>> predict(None, 25680, unit="B")
    no guess. measured: 25 680 B
    >>> predict(51360, 25680, unit="B", traps={51360: "You doubled the state too."})
    you said 51 360, measured 25 680: off by 2.00x
    You doubled the state too.
    >>> predict({(0, 1), (1, 0)}, {(0, 1), (0, 2)}, unit="tiles")
    you said 2 tiles, measured 2: 1 too many (1, 0); 1 missing (0, 2)
    """
    try:
        lines = _answer(guess, value, str(unit), traps or {})
    except Exception:  # whatever a reader typed, or a repr did
        lines = [f"could not compare your guess. measured: {_safe(value, unit)}"]
    print("\n".join(lines))


def _answer(guess: Any, value: Any, unit: str, traps: Mapping[Any, str]) -> list[str]:
    measured = number_of(value)
    if measured is not None and not isinstance(value, str):
        return _about_number(guess, measured, unit, traps)
    if isinstance(value, Set):
        return _about_set(guess, value, unit, traps)
    shown = with_unit(str(value), unit)
    if _missing(guess):
        return [f"no guess. measured: {shown}"]
    right = _word(str(guess)) == _word(str(value))
    line = f"you said {guess}, measured {shown}: {'right' if right else 'not the same'}"
    return [line, *_trap(traps, lambda key: _word(key) == _word(guess))]


def _about_number(guess: Any, value: Number, unit: str, traps: Mapping[Any, str]) -> list[str]:
    shown = with_unit(number_text(value), unit)
    if _missing(guess):
        return [f"no guess. measured: {shown}"]
    said = number_of(guess, unit)
    if said is None:
        return [f"{short_text(guess)} is not a plain number. measured: {shown}"]
    how = "right" if same(said, value) else f"off by {off_by(said, value)}"
    line = f"you said {number_text(said)}, measured {number_text(value)}: {how}"

    def is_trap(key: Any) -> bool:
        number = number_of(key, unit)
        return number is not None and same(number, said)

    return [line, *_trap(traps, is_trap)]


def _about_set(guess: Any, value: Set[Any], unit: str, traps: Mapping[Any, str]) -> list[str]:
    by_word = {_word(element): element for element in value}
    words = all(isinstance(element, str) for element in value) and bool(value)

    def shown(elements: Set[Any]) -> str:
        return _named(elements) if words else counted(len(elements), unit)

    if _missing(guess):
        return [f"no guess. measured: {shown(value)}{'' if words else _listed(': ', value)}"]
    elements = _elements(_spelt(guess, by_word), next(iter(value), None))
    if elements is None:
        return [f"{short_text(guess)} is not a set. measured: {shown(value)}"]
    said = {by_word.get(_word(element), element) for element in elements}
    parts = [
        f"{len(some)} {what} {_named(some)}"
        for what, some in (("too many", said - value), ("missing", value - said))
        if some
    ]
    count = shown(value) if words else number_text(len(value))
    line = f"you said {shown(said) or 'nothing'}, measured {count}: {'; '.join(parts) or 'right'}"

    def is_trap(key: Any) -> bool:
        return {_word(e) for e in _elements(key, next(iter(value), None)) or ()} == {_word(e) for e in said}

    return [line, *_trap(traps, is_trap)]


def _spelt(guess: Any, words: Collection[Any]) -> Any:
    """A text such as ``"mlO"`` letter by letter, where each word of the answer is one letter."""
    if not (isinstance(guess, str) and words and all(isinstance(w, str) and len(w) == 1 for w in words)):
        return guess
    letters = guess.strip()
    return " ".join(letters) if letters.isalpha() and len(set(letters)) == len(letters) else guess


def _missing(guess: Any) -> bool:
    return guess is None or guess is ...


def _word(value: Any) -> Any:
    """A word without case and blanks around it; anything else as it is."""
    return value.strip().casefold() if isinstance(value, str) else value


def _elements(guess: Any, like: Any) -> set[Any] | None:
    """The elements that a reader means: of any collection, of a text of words, or one tile alone."""
    if isinstance(guess, str):
        return {
            word for word in re.split(r"[\s,;/&+]+", guess) if word and word.casefold() not in ("and", "or")
        }
    if not isinstance(guess, Iterable):
        return None
    elements = {_hashable(element) for element in guess}
    if isinstance(like, tuple) and isinstance(guess, tuple) and len(guess) == len(like):
        return {_hashable(guess)} if not any(isinstance(element, tuple) for element in elements) else elements
    return elements


def _hashable(element: Any) -> Any:
    """A tile as a tuple of plain numbers, whether it came as a list, a tuple or a row of an array."""
    if isinstance(element, Iterable) and not isinstance(element, str):
        return tuple(_hashable(part) for part in element)
    number = None if isinstance(element, (str, bool)) else number_of(element)
    return element if number is None else number


def _named(elements: Set[Any]) -> str:
    """Elements in order, the first dozen of them by name."""
    try:
        ordered = sorted(elements)
    except TypeError:  # kinds that have no order among each other
        ordered = sorted(elements, key=repr)
    more = f" and {len(ordered) - _SHOWN} more" if len(ordered) > _SHOWN else ""
    return " ".join(str(element) for element in ordered[:_SHOWN]) + more


def _listed(before: str, elements: Set[Any]) -> str:
    return before + _named(elements) if elements else ""


def _trap(traps: Mapping[Any, str], matches: Any) -> list[str]:
    return next(([str(sentence)] for key, sentence in traps.items() if matches(key)), [])


def _safe(value: Any, unit: Any) -> str:
    try:
        return with_unit(str(value), str(unit))
    except Exception:
        return f"a {type(value).__name__}"
