"""A prediction is answered in one line, or two, whatever was typed; nothing is ever raised."""

from __future__ import annotations

import doctest
from fractions import Fraction
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kernbench_nb as kb

Capture = pytest.CaptureFixture[str]

TILES = {(0, 1), (0, 2), (1, 2)}
DOUBLED = {51360: "You doubled the state too."}


def said(capsys: Capture, guess: Any, value: Any, **more: Any) -> list[str]:
    kb.predict(guess, value, **more)
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("module", ["numbers", "predicting", "answers"])
def test_examples(module: str) -> None:
    found = doctest.testmod(import_module(f"kernbench_nb.course.{module}"))
    assert found.attempted
    assert not found.failed


@pytest.mark.parametrize(
    ("guess", "line"),
    [
        (None, "no guess. measured: 25 680 B"),
        (..., "no guess. measured: 25 680 B"),
        (51360, "you said 51 360, measured 25 680: off by 2.00x"),
        (12840, "you said 12 840, measured 25 680: off by 2.00x"),
        ("51 360 B", "you said 51 360, measured 25 680: off by 2.00x"),
        ("25_680", "you said 25 680, measured 25 680: right"),
        (np.float64(25680), "you said 25 680, measured 25 680: right"),
        (25700, "you said 25 700, measured 25 680: off by 0.078 %"),
        (0, "you said 0, measured 25 680: off by 25 680"),
        (-25680, "you said -25 680, measured 25 680: off by 51 360"),
        (10**12, "you said 1 000 000 000 000, measured 25 680: off by more than 1 000 000x"),
        ("25 kB", "'25 kB' is not a plain number. measured: 25 680 B"),
        ("twice", "'twice' is not a plain number. measured: 25 680 B"),
        (True, "True is not a plain number. measured: 25 680 B"),
        (float("nan"), "nan is not a plain number. measured: 25 680 B"),
        ([25680], "[25680] is not a plain number. measured: 25 680 B"),
        (10**400, f"{10**17}...{'0' * 19} is not a plain number. measured: 25 680 B"),
    ],
)
def test_bytes(capsys: Capture, guess: Any, line: str) -> None:
    assert said(capsys, guess, 25680, unit="B") == [line]


@pytest.mark.parametrize(
    ("value", "unit", "guess", "line"),
    [
        (5.984375, "x", None, "no guess. measured: 5.98x"),
        (5.984375, "x", 4, "you said 4, measured 5.98: off by 1.50x"),
        (5.984375, "x", 5.98, "you said 5.98, measured 5.98: right"),
        (5.984375, "x", "6x", "you said 6, measured 5.98: off by 0.26 %"),
        (3178.4, "B", None, "no guess. measured: 3 178 B"),
        (Fraction(136, 256), "", None, "no guess. measured: 17/32"),
        (Fraction(136, 256), "", 0.53125, "you said 0.531, measured 17/32: right"),
        (Fraction(136, 256), "", 0.5, "you said 0.5, measured 17/32: off by 1.06x"),
        (0, "B", 3, "you said 3, measured 0: off by 3"),
        ("O", "", None, "no guess. measured: O"),
        ("O", "", " o ", "you said  o , measured O: right"),
        ("O", "", "p", "you said p, measured O: not the same"),
        ("O", "", 3, "you said 3, measured O: not the same"),
        (True, "", "true", "you said true, measured True: right"),
        (True, "", False, "you said False, measured True: not the same"),
    ],
)
def test_other_values(capsys: Capture, value: Any, unit: str, guess: Any, line: str) -> None:
    assert said(capsys, guess, value, unit=unit) == [line]


@pytest.mark.parametrize(
    ("guess", "line"),
    [
        (None, "no guess. measured: 3 tiles: (0, 1) (0, 2) (1, 2)"),
        (TILES, "you said 3 tiles, measured 3: right"),
        ([[0, 1], [0, 2], [1, 2]], "you said 3 tiles, measured 3: right"),
        (np.array(sorted(TILES)), "you said 3 tiles, measured 3: right"),
        ({(0, 1), (2, 2)}, "you said 2 tiles, measured 3: 1 too many (2, 2); 2 missing (0, 2) (1, 2)"),
        ((0, 1), "you said 1 tile, measured 3: 2 missing (0, 2) (1, 2)"),
        ({}, "you said 0 tiles, measured 3: 3 missing (0, 1) (0, 2) (1, 2)"),
        (3, "3 is not a set. measured: 3 tiles"),
    ],
)
def test_painted_tiles(capsys: Capture, guess: Any, line: str) -> None:
    assert said(capsys, guess, TILES, unit="tiles") == [line]


def test_a_large_set_is_cut(capsys: Capture) -> None:
    (line,) = said(capsys, None, {(i, j) for i in range(16) for j in range(i)}, unit="tiles")
    assert line.startswith("no guess. measured: 120 tiles: (1, 0) (2, 0) (2, 1) ")
    assert line.endswith("(5, 1) and 108 more")


@pytest.mark.parametrize(
    ("guess", "line"),
    [
        (None, "no guess. measured: O l"),
        ("l and o", "you said O l, measured O l: right"),
        (("l", "O"), "you said O l, measured O l: right"),
        ({"l"}, "you said l, measured O l: 1 missing O"),
        ("p", "you said p, measured O l: 1 too many p; 2 missing O l"),
        ("lO", "you said O l, measured O l: right"),
        ("mlO", "you said O l m, measured O l: 1 too many m"),
        ("all", "you said all, measured O l: 1 too many all; 2 missing O l"),
        ("", "you said nothing, measured O l: 2 missing O l"),
    ],
)
def test_words(capsys: Capture, guess: Any, line: str) -> None:
    assert said(capsys, guess, {"l", "O"}) == [line]


@pytest.mark.parametrize(
    ("guess", "value", "traps", "sentence"),
    [
        (51360, 25680, DOUBLED, "You doubled the state too."),
        ("51 360", 25680, DOUBLED, "You doubled the state too."),
        (25680, 25680, {25680: "A straight line."}, "A straight line."),
        (1.333, 3.33, {1.3333: "The other way round."}, "The other way round."),
        ("P", "O", {"p": "New terms need no repair."}, "New terms need no repair."),
        ("p", {"l", "O"}, {"p": "New terms need no repair."}, "New terms need no repair."),
        (["O", "p"], {"l", "O"}, {("p", "O"): "Two."}, "Two."),
        ({(2, 0)}, TILES, {frozenset({(2, 0)}): "Below the diagonal."}, "Below the diagonal."),
    ],
)
def test_a_trap_is_named(capsys: Capture, guess: Any, value: Any, traps: Any, sentence: str) -> None:
    assert said(capsys, guess, value, traps=traps)[1:] == [sentence]


def test_no_trap_where_none_was_met(capsys: Capture) -> None:
    for guess in (None, 51361, "51 360 kB", 2):
        assert len(said(capsys, guess, 25680, unit="B", traps=DOUBLED)) == 1


class Hostile:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        raise RuntimeError("no")


@pytest.mark.parametrize("value", [3, 2.5, "O", TILES, set(), Hostile(), None, float("nan"), 10**400, [1, 2]])
@pytest.mark.parametrize("guess", [Hostile(), {Hostile: 1}, [Hostile()], [[[1]]], b"x", range(3), object, 1j])
def test_nothing_is_raised(capsys: Capture, guess: Any, value: Any) -> None:
    for traps in (None, {3: "x"}, 7):
        assert len(said(capsys, guess, value, unit="B", traps=traps)) in (1, 2)


NUMBERS = st.one_of(st.integers(), st.floats())


@given(guess=st.one_of(NUMBERS, st.text(), st.none()), value=NUMBERS)
def test_any_guess_of_any_number_is_answered(guess: Any, value: Any) -> None:
    kb.predict(guess, value, unit="B", traps={guess: "trap"})
