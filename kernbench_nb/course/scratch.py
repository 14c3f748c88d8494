"""Exercises 00, 03, 04a and 08: how much scratch a sweep needs, and how much fits."""

from __future__ import annotations

from kernbench_nb.benches.footprint import SCRATCH_BYTES, Footprint
from kernbench_nb.course.numbers import Number
from kernbench_nb.course.verdict import Check, NumberCheck
from kernbench_nb.runtime_api.text import bytes_text, grouped

__all__ = ["BUDGET", "CHECKS", "SAMPLE"]

SAMPLE = Footprint(h_q=9, h_kv=3, d=64)
"""The shipped data, one query."""
_LLAMA = Footprint(h_q=32, h_kv=8, d=128)
"""The heads of Llama-3 8B."""
_PLAIN, _PREFETCHED = (Footprint(h_q=8, h_kv=1, d=128, prefetch=prefetch) for prefetch in (False, True))
BUDGET = 100_000
"""Bytes that the kernel of exercise 04 must fit in."""


def _line(number: Number) -> str:
    if number < SAMPLE.persistent(1):
        return f"Bytes, please: the persistent arena alone is {bytes_text(SAMPLE.persistent(1))}."
    return "Two points fix a straight line: what does one key more cost, and what is left at no keys?"


def _tiles(number: Number) -> str:
    way = "fewer" if number > _LLAMA.capacity(8) else "more"
    return f"It is {way}. Run one tile and two, un-scoped: the second costs more, and so does each after."


def _budget(number: Number) -> str:
    if number < SAMPLE.largest_tile(BUDGET):
        need = SAMPLE.peak(int(number)) if number >= 1 else SAMPLE.persistent(1)
        return f"That fits, at {bytes_text(need)}; a larger one does too."
    needed = bytes_text(SAMPLE.peak(int(number)))
    return f"That needs {needed}: the persistent arena, and a scope of which only a part grows with the tile."


def _second_buffer(number: Number) -> str:
    if number < _PREFETCHED.largest_tile():
        return "That fits, and a larger one does too."
    if number <= SCRATCH_BYTES // _per_key(_PREFETCHED):
        return "Nearly: some blocks have no key in them; which stand below the save-point, and which above?"
    return "That is too large: two K and two V buffers are persistent now, and everything of the scores' shape stays."


def _last_and_next(t: int) -> str:
    """What the largest tile of a budget needs, and the next."""
    return f"{bytes_text(SAMPLE.peak(t))} with {t} keys, {bytes_text(SAMPLE.peak(t + 1))} with {t + 1}."


def _per_key(shape: Footprint) -> int:
    """Bytes of scratch that a tile's key costs; a multiple of 16 keys, as up16 has no say there."""
    return (shape.peak(32) - shape.peak(16)) // 16


def _later() -> str:
    one, later, n = _LLAMA.unscoped(8, 1), _LLAMA.scoped(8), _LLAMA.capacity(8)
    total = one + (n - 1) * later
    return f"The first tile is cheaper: {grouped(one)} + {n - 1} * {grouped(later)} = {bytes_text(total)}."


CHECKS: dict[str, Check] = {
    "00": NumberCheck(
        unit="B",
        right=lambda: SAMPLE.peak(48),
        why=f"The peak is a straight line in the tile, {grouped(SAMPLE.peak(16) - 16 * _per_key(SAMPLE))} + "
        f"{_per_key(SAMPLE)} t.",
        otherwise=_line,
        traps={
            77_040: "You scaled the persistent part too; which blocks do not have the tile's length?",
            60_840: "That is 1.5 times the peak of tile 32; take the fixed part off first.",
            44_640: "That is 48 keys at 930 B each; what lies in the scratch with no key at all?",
            70_320: "You added 48 keys to a peak that has 16 in it; how many are new?",
            40_752: "That is a PE of eight, which owns 40 keys: ask one PE.",
        },
    ),
    "03": NumberCheck(
        unit="tiles",
        right=lambda: _LLAMA.capacity(8),
        why=_later(),
        otherwise=_tiles,
        traps={
            SCRATCH_BYTES // _LLAMA.scoped(8): "The first tile is cheaper; price it alone.",
            SCRATCH_BYTES // _LLAMA.unscoped(8, 1): "That divides by the price of the first tile only.",
            8 * _LLAMA.capacity(8): "Those are keys; the question asks for tiles.",
        },
    ),
    "04a": NumberCheck(
        unit="keys",
        right=lambda: SAMPLE.largest_tile(BUDGET),
        why=_last_and_next(SAMPLE.largest_tile(BUDGET)),
        otherwise=_budget,
        traps={
            111: "That is with out=; first the plain fold.",
            99: "What lies below the save-point?",
            107: "10 800 B do not depend on the tile.",
            130: "K and V are not all: the scores' arrays are 18 bytes a score.",
        },
    ),
    "08": NumberCheck(
        unit="keys",
        right=lambda: _PREFETCHED.largest_tile(),
        why="Only K and V are there twice; what has the scores' shape is not.",
        otherwise=_second_buffer,
        traps={
            _PLAIN.largest_tile(): "That one has no room for two more of K and V.",
            _PLAIN.largest_tile() // 2: "Only K and V double, the scores do not.",
            613: "K and V stand below the save-point now, and no more above it.",
            1_024: "That is the largest power of two without prefetch.",
        },
    ),
}  # fmt: skip
