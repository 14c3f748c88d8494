"""Numbers and names as the pictures write them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernbench_nb.runtime_api.result import RunResult
from kernbench_nb.runtime_api.text import grouped, percent_text

__all__ = [
    "THIN",
    "UNSCOPED",
    "Clock",
    "about_run",
    "clock_of",
    "dtype_shape",
    "many",
    "name_of",
    "pes_text",
    "share_text",
    "size_text",
    "spaced",
]

THIN = "\u2009"
"""Between groups of three digits: a space that is no gap between words."""

UNSCOPED = "no scope was opened: nothing is given back"
"""Said under the title of a scratch whose kernel never opened a scope."""

_LONGEST = 22


def spaced(number: float) -> str:
    """A number in groups of three, with at most three decimals.

    >>> spaced(1048576).replace(THIN, "_"), spaced(0.5), spaced(-3), spaced(1500.25).replace(THIN, "_")
    ('1_048_576', '0.5', '−3', '1_500.25')
    """
    whole, _, rest = f"{abs(number):.3f}".partition(".")
    rest = rest.rstrip("0")
    sign = "−" if number < 0 and (rest or int(whole)) else ""
    return f"{sign}{grouped(int(whole)).replace(' ', THIN)}{'.' if rest else ''}{rest}"


def size_text(nbytes: int) -> str:
    """Bytes, to the byte.

    >>> size_text(25680).replace(THIN, "_")
    '25_680 B'
    """
    return f"{spaced(nbytes)} B"


def share_text(part: int, whole: int) -> str:
    """A share of something in percent.

    >>> share_text(25680, 1048576)
    '2.4 %'
    """
    return percent_text(part / whole) if whole else "0 %"


@dataclass(frozen=True, slots=True)
class Clock:
    """The unit that the times of one picture are written in.

    Attributes
    ----------
    unit, ps
        Its name, and how many picoseconds it has.
    """

    unit: str
    ps: int

    def text(self, ps: int) -> str:
        """A time with its unit, rounded to what a reader compares.

        >>> Clock("ns", 1000).text(1616475).replace(THIN, "_"), Clock("µs", 1_000_000).text(26981735)
        ('1_616.5 ns', '26.98 µs')
        """
        digits = 1 if self.unit == "ns" else 2
        return f"{spaced(round(ps / self.ps, digits))} {self.unit}"


def clock_of(span_ps: int) -> Clock:
    """The unit for a picture that spans so much time.

    >>> clock_of(9_000_000).unit, clock_of(20_000_000).unit, clock_of(20_000_000_000).unit
    ('ns', 'µs', 'ms')
    """
    if span_ps < 10_000_000:
        return Clock("ns", 1000)
    if span_ps < 10_000_000_000:
        return Clock("µs", 1_000_000)
    return Clock("ms", 1_000_000_000)


def name_of(name: str | None, longest: int = _LONGEST) -> str:
    r"""A name on one line and not too long; whatever else it holds is shown as it is spelled.

    >>> name_of("O*c"), name_of("a" * 30, 8), name_of("two\nlines"), name_of(None)
    ('O*c', 'aaaaaaa…', 'two lines', '(no name)')
    """
    if not name:
        return "(no name)"
    line = "".join(c if c.isprintable() or c == THIN else " " for c in name)
    return line if len(line) <= longest else f"{line[: longest - 1]}…"


def dtype_shape(shape: Sequence[int], dtype: str | None) -> str:
    """What a handle is.

    >>> dtype_shape((3, 3, 64), "f32"), dtype_shape((), "f16"), dtype_shape((), None)
    ('3×3×64 f32', 'scalar f16', '')
    """
    if dtype is None:
        return ""
    return f"{'×'.join(map(str, shape)) or 'scalar'} {dtype}"


def many(count: int, what: str) -> str:
    """A count of things.

    >>> many(1, "PE"), many(8, "PE")
    ('1 PE', '8 PEs')
    """
    plural = f"{what[:-1]}ies" if what.endswith("ry") else f"{what}s"
    return f"{spaced(count)} {what if count == 1 else plural}"


def pes_text(pes: Sequence[int]) -> str:
    """PEs by name.

    >>> pes_text([3]), pes_text([0, 1, 2]), pes_text([0, 2, 5])
    ('PE 3', 'PEs 0 to 2', 'PEs 0, 2, 5')
    """
    if not pes:
        return "no PE"
    if len(pes) == 1:
        return f"PE {pes[0]}"
    if len(pes) > 2 and list(pes) == list(range(pes[0], pes[0] + len(pes))):
        return f"PEs {pes[0]} to {pes[-1]}"
    shown = ", ".join(map(str, pes[:6]))
    return f"PEs {shown}{', …' if len(pes) > 6 else ''}"


def about_run(run: RunResult) -> str:
    """What ran, for the line under a title: the kernel, and the arguments by which runs are told apart."""
    given = run.params
    words = [name_of(run.name, 40)]
    if isinstance(given.get("T_q"), int) and given["T_q"] > 1:
        words.append(many(given["T_q"], "query"))
    if isinstance(given.get("S_kv"), int):
        words.append(many(given["S_kv"], "key"))
    words += [
        f"{key} {given[key]}" for key in ("tile", "tile_q", "tile_kv") if isinstance(given.get(key), int)
    ]
    words += [word for word in ("causal", "prefetch") if given.get(word) is True]
    if given.get("scoped") is False:
        words.append("no scopes")
    if run.completion.error is not None:
        words.append(f"stopped by {type(run.completion.error).__name__}")
    return " · ".join(words)
