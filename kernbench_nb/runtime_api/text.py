"""Numbers as people read them: grouped by spaces, with their unit, and never more than six digits of a float."""

from __future__ import annotations

from kernbench_nb.errors import grouped

__all__ = ["bytes_text", "grouped", "percent_text", "rate_text", "time_text"]


def bytes_text(nbytes: int) -> str:
    """Bytes, all of them: sizes are compared to the byte here.

    >>> bytes_text(25680)
    '25 680 B'
    """
    return f"{grouped(nbytes)} B"


def time_text(ps: int) -> str:
    """A time in ns.

    >>> time_text(1500), time_text(31874250), time_text(4592000000000)
    ('1.5 ns', '31 874.2 ns', '4 592 000 000 ns')
    """
    digits = max(0, 6 - len(str(ps // 1000)))
    whole, _, rest = f"{ps / 1000:.{min(digits, 3)}f}".partition(".")
    rest = rest.rstrip("0")
    return f"{grouped(int(whole))}{'.' if rest else ''}{rest} ns"


def rate_text(per_second: float) -> str:
    """A rate, such as GB/s, without its unit: whole from 1 000 on.

    >>> rate_text(68.937), rate_text(256.0), rate_text(2048.4)
    ('68.9', '256', '2 048')
    """
    return grouped(round(per_second)) if per_second >= 999.5 else f"{per_second:.3g}"


def percent_text(share: float) -> str:
    """A share of 1 in percent.

    >>> percent_text(0.02449), percent_text(1), percent_text(0.0001)
    ('2.4 %', '100 %', '0.01 %')
    """
    percent = 100 * share
    return f"{percent:.2g} %" if percent < 10 else f"{percent:.3g} %"
