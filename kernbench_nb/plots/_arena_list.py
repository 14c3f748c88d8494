"""The list beside an arena map: names, shapes and bytes, with leaders to blocks that may be thinner than a line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from kernbench_nb.plots._arena_view import View
from kernbench_nb.plots._canvas import LABEL, MONO, SMALL, size_pt
from kernbench_nb.plots._marks import segments, spread, text_pt, write
from kernbench_nb.plots._places import called
from kernbench_nb.plots._theme import Theme
from kernbench_nb.plots._words import dtype_shape, many, name_of, size_text, spaced
from kernbench_nb.sim_engine.memory_log import LiveBlock

__all__ = ["PITCH", "Line", "draw_list", "lines_of"]

PITCH = 10.6
"""Points from one line to the next."""
_HEADINGS = ("head", "free", "refused", "sub")

# Shares of the width: where leaders begin, where the names, the shapes and the ends of the bytes stand.
FROM = 0.40
NAMES = 0.465
SHAPES = 0.655
RIGHT = 0.998


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the list: a heading, a block, or several blocks."""

    name: str
    what: str
    size: str
    low: float
    high: float
    style: str = "block"


def lines_of(view: View, room: int) -> list[Line]:
    """The lines from the highest address down, no more than there is room for.

    Blocks of the scope that was opened last, and those made in no scope, come first; of the others the newest get a
    line a block as long as there is room, then a line a scope, then one line for all.
    """
    groups = [(key, list(blocks)) for key, blocks in groupby(view.live, key=lambda b: (b.arena, b.scope))]
    persistent = [i for i, ((arena, _), _) in enumerate(groups) if arena == "persistent"]
    scoped = [i for i in range(len(groups)) if i not in persistent]
    left = room - len(scoped) - bool(persistent) - (view.high > view.cursor) - (view.refusal is not None)
    first = [i for i, ((_, path), _) in enumerate(groups) if not path or i == len(groups) - 1]
    left -= sum(len(groups[i][1]) + _is_kept(groups[i][0]) for i in first)
    others = [i for i in range(len(groups)) if i not in first]
    whole = set(first)
    for at, i in enumerate(reversed(others)):
        need = len(groups[i][1]) + _is_kept(groups[i][0])
        if left - need < min(1, len(others) - at - 1):  # keep one line for the rest
            break
        left -= need
        whole.add(i)
    shut = [i for i in others if i not in whole]
    together = len(shut) > max(left, 1)
    blocks_open = [b for i in sorted(whole) for b in groups[i][1]]
    listed = _largest(
        blocks_open, len(blocks_open) + min(left - (1 if together else len(shut)), 0), view.written
    )

    lines: list[Line] = []  # from the lowest address up; turned round at the end
    for i, (key, blocks) in enumerate(groups):
        if i in whole:
            lines += _each(view, blocks, listed)
            if _is_kept(key):
                lines.append(_heading(_last(key[1]), "", blocks, "sub"))
        elif not together:
            lines.append(_several(blocks))
        elif i == shut[-1]:
            lines.append(_several([b for j in shut for b in groups[j][1]]))
        if i in scoped:
            lines.append(_heading("Scoped arena", name_of(_last(key[1]), 20), blocks, "head"))
        elif i == persistent[-1]:
            lines.append(
                _heading("Persistent arena", "", [b for j in persistent for b in groups[j][1]], "head")
            )
    if view.high > view.cursor:
        size = size_text(view.high - view.cursor)
        lines.append(Line("Given back", "free until overwritten", size, view.cursor, view.high, "free"))
    if view.refusal is not None:
        r = view.refusal
        name, free = f"{name_of(r.name)} wants {size_text(r.wanted)},", f"{size_text(r.free)} are free"
        lines.append(Line(name, free, "", r.cursor, r.cursor + r.wanted, "refused"))
    return lines[::-1]


def _is_kept(key: tuple[str, str]) -> bool:
    """Whether blocks were made in a scope that gives nothing back."""
    return key[0] == "persistent" and bool(key[1])


def _last(path: str) -> str:
    return path.rpartition("/")[2]


def _heading(name: str, what: str, blocks: Sequence[LiveBlock], style: str) -> Line:
    size = sum(b.size for b in blocks)
    text = size_text(size) if style == "head" else spaced(size)
    return Line(name, what, text, blocks[0].addr, blocks[-1].addr + blocks[-1].size, style)


def _largest(blocks: Sequence[LiveBlock], room: int, written: LiveBlock | None) -> set[int]:
    """Rows of the blocks that get a line of their own: all, or the largest and the one just written."""
    if len(blocks) <= room:
        return {b.born for b in blocks}
    first = sorted(blocks, key=lambda b: (b is not written and b != written, -b.size, -b.born))
    return {b.born for b in first[: max(1, room - 2)]}


def _each(view: View, blocks: Sequence[LiveBlock], kept: set[int]) -> list[Line]:
    lines: list[Line] = []
    small: list[LiveBlock] = []
    for block in blocks:
        if block.born not in kept:
            small.append(block)
            continue
        padding = block.size - block.nbytes
        lines.append(
            Line(
                name_of(called(view.log, block), 14), dtype_shape(block.shape, block.dtype),
                spaced(block.nbytes) + (f" + {padding}" if padding else ""), block.addr, block.addr + block.size,
                "new" if block == view.written else "block",
            )
        )  # fmt: skip
    if small:
        rest = Line(
            f"and {len(small)} more", "", spaced(sum(b.size for b in small)), small[0].addr,
            small[-1].addr + small[-1].size, "more",
        )  # fmt: skip
        lines.append(rest)
        lines.sort(key=lambda line: line.low + line.high)
    return lines


def _several(blocks: Sequence[LiveBlock]) -> Line:
    scopes = list(dict.fromkeys(_last(b.scope) for b in blocks))
    label = scopes[0] if len(scopes) == 1 else f"{scopes[0]} to {scopes[-1]}"
    size = spaced(sum(b.size for b in blocks))
    last = blocks[-1]
    return Line(
        name_of(label), many(len(blocks), "block"), size, blocks[0].addr, last.addr + last.size, "group"
    )


def draw_list(ax: Axes, theme: Theme, view: View, lines: Sequence[Line]) -> None:
    wide, tall = size_pt(ax)
    rising = lines[::-1]
    wanted = [
        (line.high if line.style in _HEADINGS else (line.low + min(line.high, view.top)) / 2)
        / view.top
        * tall
        for line in rising
    ]
    places = spread(wanted, [PITCH] * len(rising), 0, tall)
    leaders: list[tuple[float, float, float, float]] = []
    brackets: list[tuple[float, float]] = []
    for line, place in zip(rising, places, strict=True):
        y = place / tall * view.top
        heading = line.style in _HEADINGS
        color = {"refused": theme.limit_text, "free": theme.soft, "more": theme.soft, "sub": theme.soft}
        how: dict[str, Any] = {
            "va": "center_baseline", "gid": f"list {line.style}", "color": color.get(line.style, theme.text),
            "fontsize": LABEL if heading else SMALL,
            "fontweight": "bold" if line.style in ("head", "new", "refused") else "normal",
        }  # fmt: skip
        if line.style in ("block", "new"):
            how["family"] = MONO
        x = NAMES - 0.012 if heading else NAMES
        write(ax, x, y, line.name, **how)
        write(ax, RIGHT, y, line.size, **how, ha="right")
        after = x + (text_pt(line.name, LABEL) * 1.1 + 7) / wide
        how |= {"fontweight": "normal", "color": theme.limit_text if line.style == "refused" else theme.soft}
        end = after + (text_pt(line.what, LABEL) + text_pt(line.size, LABEL)) / wide
        if line.what and (not heading or end < RIGHT):
            write(ax, after if heading else SHAPES, y, line.what, **how)
        if line.style == "refused":
            leaders.append((FROM + 0.004, min((line.low + line.high) / 2, view.top), x - 0.006, y))
        elif not heading:
            spans = line.style in ("group", "more")
            brackets += [(line.low, line.high)] if spans else []
            leaders.append((FROM + (0.009 if spans else 0.004), (line.low + line.high) / 2, NAMES - 0.006, y))
    if not lines:
        write(ax, NAMES - 0.012, view.top / 2, "nothing is allocated yet", color=theme.soft, va="center")
    if leaders:
        x0, y0, x1, y1 = np.array(leaders).T
        bend = FROM + 0.7 * (x1 - FROM)
        segments(ax, x0, bend, y0, y1, theme.line, gid="leaders", width=0.6, zorder=1.5)
        segments(ax, bend, x1, y1, y1, theme.line, gid="leader ends", width=0.6, zorder=1.5)
    if brackets:
        low, high = np.array(brackets, np.float64).T
        at = np.full(len(low), FROM + 0.009)
        pad = 1.5 / tall * view.top
        segments(ax, at, at, low + pad, high - pad, theme.soft, gid="brackets", width=1.2, zorder=1.5)
