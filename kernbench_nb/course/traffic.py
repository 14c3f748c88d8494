"""Exercises 01, 05, 06 and 07: bytes, blocks, masked tiles, shared keys."""

from __future__ import annotations

from fractions import Fraction

from kernbench_nb.course.numbers import Number, number_text
from kernbench_nb.course.verdict import Check, NumberCheck
from kernbench_nb.runtime_api.text import grouped

__all__ = ["CHECKS", "tiles_that_run"]

_D = 64
_M = 16_384
"""Scratch of exercise 05 in elements."""
_GROWTH = Fraction(39, 10)
_SHARE = Fraction(95, 100)


# -- 01: the plain kernel moves 4 N^2 + 4 N d elements ----------------------------------------------------------


def _growth(n: Number) -> Fraction:
    """Bytes of the plain kernel at 2 n over those at n, ``2 (2n + d) / (n + d)``."""
    return Fraction(2 * (2 * n + _D)) / Fraction(n + _D)


def _least_length() -> int:
    """The smallest N where doubling the text costs 3.9 times the bytes: ``2 (2N + d) = 3.9 (N + d)``."""
    return -(-_D * (_GROWTH - 2) // (4 - _GROWTH))


def _at_growth(n: Number) -> str:
    if n < 1:
        return "A text has one token at least."
    growth = f"{float(_growth(n)):.4f}"
    if n > _least_length():
        return f"True, the growth there is {growth}; but it passes 3.9 before."
    return f"The growth there is {growth}; write it as a function of N / d."


def _neighbours() -> str:
    n = _least_length()
    below, at = (f"{float(_growth(x)):.4f} at {grouped(x)}" for x in (n - 1, n))
    return f"The growth is {below} and {at}, {n // _D} d."


# -- 05: S, B_q x M/4d, fits a quarter of M ---------------------------------------------------------------------


def _rows(b_q: Number) -> str:
    elements = b_q * (_M // (4 * _D))
    if elements < _M // 4:
        return f"S has {number_text(elements)} elements there, less than the quarter that it may take."
    return f"S has {number_text(elements)} elements there, and may take {grouped(_M // 4)}."


# -- 06: causal tiles -------------------------------------------------------------------------------------------


def tiles_that_run(t_q: int, s_kv: int, b_q: int, b_kv: int) -> int:
    """Tiles of a causal sweep, bottom right, that are not wholly above the diagonal.

    Query block i sees keys below ``(i + 1) b_q + s_kv - t_q``, of which there are no more than `s_kv`.
    """
    blocks = -(-t_q // b_q)
    return sum(-(-min((i + 1) * b_q + s_kv - t_q, s_kv) // b_kv) for i in range(blocks))


def _tiles(number: Number) -> str:
    if number > tiles_that_run(256, 1024, 64, 64):
        return "Which tiles does query 0 of the chunk not see?"
    return "The first query of the chunk has 768 keys before it: which tiles of its block hold later ones?"


# -- 07: S G / (S + G) ------------------------------------------------------------------------------------------


def _least_keys(group: int) -> int:
    """The smallest S with 95 % of the intensity G: ``S / (S + G) = 0.95`` solved for S, 19 G."""
    return -(-group * _SHARE // (1 - _SHARE))


def _keys_for(group: int, traps: dict[int, str]) -> NumberCheck:
    def otherwise(s: Number) -> str:
        if s < 1:
            return "A context has one key at least."
        reached = f"{float(100 * Fraction(s) / Fraction(s + group)):.4g} %"
        if s > _least_keys(group):
            return f"Far enough, with {reached} of G; which is the first? Solve for S."
        return f"That is {reached} of G. Divide the intensity S G / (S + G) by G."

    return NumberCheck(
        unit="keys",
        right=lambda: _least_keys(group),
        why=f"S / (S + G) is 0.95 at S = 19 G, whatever G is; here G = {group}.",
        otherwise=otherwise,
        traps=traps,
    )


CHECKS: dict[str, Check] = {
    "01": NumberCheck(
        unit="tokens",
        right=_least_length,
        why=_neighbours(),
        otherwise=_at_growth,
        traps={
            64: "There S is as big as Q: the growth is 3.",
            186: "That is the ratio to the least, 1 + N / d; the question is how the bytes grow from N to 2N.",
            319: "It is 3.67 there; write the growth as a function of N / d.",
            10**6: "True, but it passes 3.9 well before.",
        },
    ),
    "05": NumberCheck(
        unit="rows",
        right=lambda: _M // 4 // (_M // (4 * _D)),
        why="B_q M/4d <= M/4 says B_q <= d: beyond it S takes more scratch than K does.",
        otherwise=_rows,
        traps={
            256: "There S alone fills M; it may take a quarter.",
            32: "That is the break-even with the plain kernel.",
            4_096: "Those are elements of S; the question asks for rows.",
        },
    ),
    "06": NumberCheck(
        unit="tiles",
        right=lambda: tiles_that_run(256, 1024, 64, 64),
        why="The four blocks see 13, 14, 15 and 16 tiles of keys.",
        otherwise=_tiles,
        traps={
            10: "You anchored the mask at the first key; the newest query may see all 1 024.",
            34: "(T + 1) / 2T is for square attention.",
            40: "(T + 1) / 2T is for square attention.",
            64: "Which tiles does query 0 of the chunk not see?",
        },
    ),
    "07a": _keys_for(
        4,
        {
            152: "That is G = 8.",
            80: "20 G gives 20/21 of G, which is more than asked.",
            4_096: "Far beyond; solve for S.",
        },
    ),
    "07b": _keys_for(
        16,
        {
            76: "That is G = 4 again.",
            152: "That is G = 8.",
            320: "20 G gives 20/21 of G, which is more than asked.",
        },
    ),
}  # fmt: skip
