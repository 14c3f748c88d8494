"""Checks of single arguments: kernels and entry points refuse the same things in the same words."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from kernbench_nb.errors import ShapeError

__all__ = ["check_count", "check_names", "check_scale", "check_word", "group_size"]


def group_size(h_q: int, h_kv: int) -> int:
    """How many query heads share a KV head.

    Raises
    ------
    ShapeError
        If that is not a whole number from 1 on; both are named.
    """
    if h_kv < 1 or h_q < 1 or h_q % h_kv:
        raise ShapeError(
            f"query heads must be a multiple of KV heads, both at least 1; got h_q={h_q} and h_kv={h_kv}. "
            "Query head h reads KV head h // (h_q / h_kv)."
        )
    return h_q // h_kv


def check_count(name: str, value: Any, least: int = 1) -> int:
    """A whole number from `least` on.

    Raises
    ------
    ValueError
        If it is none.
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"{name} must be a whole number from {least} on, got {value!r}")
    return int(value)


def check_names(what: str, given: Iterable[str], known: Sequence[str]) -> None:
    """Check that keyword arguments are known.

    Raises
    ------
    TypeError
        For one that is not; the nearest is named, or all.
    """
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}=?" if near else f"it takes {', '.join(known)}."
            raise TypeError(f"{what} has no argument {name}=; {hint}")


def check_scale(sm_scale: Any) -> None:
    """Check that the factor of the scores is a number, or None.

    Raises
    ------
    TypeError
        If it is something else.
    ValueError
        If it is not finite.
    """
    if sm_scale is None:
        return
    if isinstance(sm_scale, bool) or not isinstance(sm_scale, (int, float, np.integer, np.floating)):
        raise TypeError(f"sm_scale must be a number, or None for 1 / sqrt(d); got {sm_scale!r}")
    if not math.isfinite(sm_scale):
        raise ValueError(f"sm_scale must be finite, or None for 1 / sqrt(d); got {sm_scale!r}")


def check_word(name: str, value: Any, *words: str) -> None:
    """Check that an argument is one of a few words.

    Raises
    ------
    ValueError
        If it is none; all are named.
    """
    if value not in words:
        raise ValueError(f"{name} must be {' or '.join(map(repr, words))}, got {value!r}")
