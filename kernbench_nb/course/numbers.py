"""Numbers as readers type them, and as they are read back to them."""

from __future__ import annotations

import math
import re
import reprlib
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Rational, Real
from typing import Any

from kernbench_nb.runtime_api.text import grouped, percent_text

__all__ = ["Number", "counted", "number_of", "number_text", "off_by", "same", "short_text", "with_unit"]

Number = int | float | Fraction

_TYPED = re.compile(r"([+-]?(?:\d[\d _,']*)?\.?\d+(?:[eE][+-]?\d+)?) *(\D*)")


def number_of(value: Any, unit: str = "") -> Number | None:
    """The number that a reader means, whole if it can be; None if it is none, or not a finite one.

    Parameters
    ----------
    value
        Anything: a number of Python or numpy, or a text such as ``"25 680 B"``.
    unit
        The only unit that a text may have.

    Examples
    --------
    >>> number_of("25 680 B", "B"), number_of(25680.0), number_of("25 kB", "B"), number_of(True)
    (25680, 25680, None, None)
    """
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        value = value.item()
    if isinstance(value, str):
        typed = _TYPED.fullmatch(value.strip())
        if typed is None or typed[2] not in ("", unit):
            return None
        value = Decimal(re.sub(r"[ _,']", "", typed[1]))
    if isinstance(value, bool) or not isinstance(value, (Real, Decimal)):
        return None
    try:
        if not math.isfinite(value):
            return None
    except (OverflowError, ValueError):  # beyond any float, or a NaN that signals
        return None
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Rational):
        exact = Fraction(int(value.numerator), int(value.denominator))
        return int(exact) if exact.denominator == 1 else exact
    number = float(value)
    return int(number) if number.is_integer() else number


def short_text(value: Any) -> str:
    """The short text of anything, also of what cannot say what it is.

    >>> short_text("12 kB"), short_text(10**5000)
    ("'12 kB'", 'an int')
    """
    try:
        return reprlib.repr(value)
    except Exception:
        name = type(value).__name__
        return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def number_text(number: Number) -> str:
    """Whole numbers in groups of three, fractions as they are, others with three digits.

    >>> number_text(25680), number_text(5.984375), number_text(Fraction(3, 5)), number_text(3178.4)
    ('25 680', '5.98', '3/5', '3 178')
    """
    if isinstance(number, float) and abs(number) >= 1000:
        number = round(number)
    return f"{number:.3g}" if isinstance(number, float) else grouped_or_exact(number)


def grouped_or_exact(number: int | Fraction) -> str:
    """The text of a number that is exact."""
    return grouped(number) if isinstance(number, int) else str(number)


def with_unit(text: str, unit: str) -> str:
    """A text with its unit: apart, but for the x of a ratio.

    >>> with_unit("25 680", "B"), with_unit("1.87", "x"), with_unit("47", "")
    ('25 680 B', '1.87x', '47')
    """
    return f"{text}{unit}" if unit == "x" else f"{text} {unit}".rstrip()


def counted(count: int, unit: str) -> str:
    """A count of things, one of them without its plural's s.

    >>> counted(47, "tiles"), counted(1, "tiles"), counted(3, "")
    ('47 tiles', '1 tile', '3')
    """
    return with_unit(grouped(count), unit.removesuffix("s") if count == 1 else unit)


def same(a: Number, b: Number) -> bool:
    """Whether two numbers are equal; one that is not exact is taken at the digits that are shown."""
    if a == b:
        return True
    return (isinstance(a, float) or isinstance(b, float)) and number_text(a) == number_text(b)


def off_by(guess: Number, value: Number) -> str:
    """How far a guess is off: by a factor, by percent when that would be 1.00, by a number where there is no factor.

    >>> off_by(51360, 25680), off_by(25700, 25680), off_by(0, 25680)
    ('2.00x', '0.078 %', '25 680')
    """
    if guess * value <= 0:
        return number_text(number_of(abs(guess - value)) or 0)
    said, measured = abs(Fraction(guess)), abs(Fraction(value))
    ratio = max(said, measured) / min(said, measured)
    if ratio >= 1_000_000:
        return "more than 1 000 000x"
    if ratio >= Fraction(1005, 1000):
        return f"{float(ratio):.2f}x"
    return percent_text(float(abs(said - measured) / measured))
