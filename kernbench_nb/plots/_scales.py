"""Axes of time and bytes, and the strip of tiles above them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import ScaledTranslation, blended_transform_factory

from kernbench_nb.plots._canvas import LABEL, SMALL, figure_of, plain, size_pt, ticks
from kernbench_nb.plots._marks import Numbers, spread, text_pt, write
from kernbench_nb.plots._places import Stretch, Wait
from kernbench_nb.plots._theme import Theme
from kernbench_nb.plots._words import Clock, name_of, size_text, spaced

__all__ = ["common_lead", "size_axis", "strip", "time_axis"]


def time_axis(ax: Axes, theme: Theme, clock: Clock, start_ps: float, stop_ps: float) -> None:
    """Time along x, in ps, written in the unit of the clock."""
    ax.set_xlim(start_ps, stop_ps)
    wide, _ = size_pt(ax)
    locator = MaxNLocator(max(2, min(9, int(wide // 48))), steps=[1, 2, 2.5, 5, 10])
    first, last = start_ps / clock.ps, stop_ps / clock.ps
    marks = [mark for mark in locator.tick_values(first, last) if first <= mark <= last]
    ticks(ax.xaxis, [mark * clock.ps for mark in marks], [spaced(round(mark, 3)) for mark in marks])
    ax.xaxis.grid(True, color=theme.faint, linewidth=0.5, zorder=0)
    plain(ax.set_xlabel(f"time, {clock.unit}", loc="right", fontsize=LABEL, color=theme.soft, labelpad=2))


def size_axis(ax: Axes, theme: Theme, top: float) -> None:
    """Bytes along y, from 0 to `top`."""
    ax.set_ylim(0, top)
    _, tall = size_pt(ax)
    locator = MaxNLocator(max(2, min(8, int(tall // 24))), steps=[1, 2, 2.5, 5, 10], integer=True)
    marks = [mark for mark in locator.tick_values(0, top) if 0 <= mark <= top]
    labels = [spaced(round(mark)) for mark in marks]
    if marks:
        labels[-1] = size_text(round(marks[-1]))  # the unit stands once, at the top
    ticks(ax.yaxis, marks, labels)
    ax.yaxis.grid(True, color=theme.faint, linewidth=0.5, zorder=0)


def strip(
    ax: Axes,
    theme: Theme,
    stretched: Sequence[Stretch],
    *,
    lead: str = "",
    waits: Sequence[Wait] = (),
    name_waits: bool = False,
) -> float:
    """Scopes as a strip above the axes, with as many labels as there is room for.

    Parameters
    ----------
    stretched
        The scopes, in order of time.
    lead
        Words that tiles' labels begin with; they are said once, on the left.
    waits
        When the PE waited for messages: there the strip is dotted, since a scope that waits does nothing.
    name_waits
        Whether to say whom it waits for.

    Returns
    -------
    float
        Points above the axes that it takes; 0 if there is nothing to show.
    """
    figure = figure_of(ax)
    x0, x1 = ax.get_xlim()
    shown = [s for s in stretched if s.end_ps > x0 and s.start_ps < x1]
    if not shown or figure is None:
        return 0.0
    wide, _ = size_pt(ax)
    pt = wide / (x1 - x0)
    up = ScaledTranslation(0, 4 / 72, figure.dpi_scale_trans)
    top = blended_transform_factory(ax.transData, ax.transAxes + up)
    idle = _long_waits(shown, waits, x0, x1, 3 / pt)
    pieces = []
    for s in shown:
        spans = _without(max(s.start_ps, x0), min(s.end_ps, x1), idle)
        # what a PE does between two messages may be a speck, which looks like a fault of the drawing
        pieces += [(s, a, b) for a, b in spans if len(spans) == 1 or (b - a) * pt > 1.5]
    gaps = [min(0.6 / pt, (b - a) / 6) for _, a, b in pieces]
    lines = LineCollection(
        [[(a + gap, 1.0), (b - gap, 1.0)] for (_, a, b), gap in zip(pieces, gaps, strict=True)],
        colors=[theme.soft if s.kind == "tile" else theme.accent for s, _, _ in pieces],
        linewidths=3,
        capstyle="butt",
        transform=top,
        clip_on=False,
        gid="strip",
    )
    ax.add_collection(lines, autolim=False)
    if idle:
        dotted = LineCollection(
            [[(a, 1.0), (b, 1.0)] for a, b, _ in idle],
            colors=theme.engines["ipc"].line,
            linewidths=1.3,
            linestyles=(0, (1, 1.6)),
            transform=top,
            clip_on=False,
            gid="strip waits",
        )
        ax.add_collection(dotted, autolim=False)
    over = top + ScaledTranslation(0, 3.5 / 72, figure.dpi_scale_trans)
    for place, text, kind in _strip_labels(shown, pieces, idle if name_waits else [], lead, x0, pt, wide):
        color = {"tile": theme.soft, "wait": theme.engines["ipc"].line}.get(kind, theme.accent)
        write(
            ax, place, 1.0, text, transform=over, ha="center", va="bottom", fontsize=SMALL, color=color, clip_on=False,
            gid="strip wait" if kind == "wait" else "strip label",
        )  # fmt: skip
    if lead:
        write(
            ax, 0, 1.0, lead, transform=ax.transAxes + up + ScaledTranslation(-8 / 72, -1 / 72, figure.dpi_scale_trans),
            ha="right", va="center_baseline", fontsize=SMALL, color=theme.soft, clip_on=False, gid="strip lead",
        )  # fmt: skip
    return 16.0


def _long_waits(
    shown: Sequence[Stretch], waits: Sequence[Wait], x0: float, x1: float, least: float
) -> list[tuple[float, float, int]]:
    """(start, end, for whom) of the waits inside the scopes shown, those left out that are shorter than `least`."""
    found: list[tuple[float, float, int]] = []
    for wait in waits:
        a, b = max(wait.start_ps, x0), min(wait.end_ps, x1)
        if b - a >= least and any(s.start_ps <= a and b <= s.end_ps for s in shown):
            found.append((a, b, wait.peer))
    return found


def _without(
    start: float, stop: float, holes: Sequence[tuple[float, float, int]]
) -> list[tuple[float, float]]:
    """What is left of a stretch of time between holes, which come in order of time.

    >>> _without(0, 10, [(2, 4, 0), (8, 12, 0)])
    [(0, 2), (4, 8)]
    """
    left = []
    for a, b, _ in holes:
        if b <= start or a >= stop:
            continue
        if a > start:
            left.append((start, a))
        start = max(start, b)
    return [*left, (start, stop)] if start < stop else left


def _strip_labels(
    shown: Sequence[Stretch],
    pieces: Sequence[tuple[Stretch, float, float]],
    idle: Sequence[tuple[float, float, int]],
    lead: str,
    x0: float,
    pt: float,
    wide: float,
) -> list[tuple[float, str, str]]:
    """(place, text, kind) of the labels that have room: tiles', then those of what is no tile, which may step aside."""
    # a scope is named where it does most
    own: dict[int, tuple[float, float]] = {}
    for s, a, b in pieces:
        if id(s) not in own or b - a > own[id(s)][1] - own[id(s)][0]:
            own[id(s)] = (a, b)
    named = [s for s in shown if id(s) in own]
    texts = [name_of(s.label.removeprefix(f"{lead} ") if lead else s.label, 18) for s in named]
    left = (np.array([own[id(s)][0] for s in named], np.float64) - x0) * pt
    right = (np.array([own[id(s)][1] for s in named], np.float64) - x0) * pt
    needs = np.array([text_pt(text, SMALL) + 3 for text in texts])
    tiled = np.array([s.kind == "tile" for s in named])
    fit = needs <= right - left
    # where most tiles have room for their label those are labelled, else every so many-th
    step = 0 if not tiled.any() or fit[tiled].mean() > 0.5 else _step(needs[tiled], (right - left)[tiled])
    number = np.cumsum(tiled) - 1
    taken: list[tuple[float, float]] = []
    found: list[tuple[float, str, str]] = []

    def put(place: float, need: float, text: str, kind: str) -> None:
        if all(place + need / 2 <= a or place - need / 2 >= b for a, b in taken):
            taken.append((place - need / 2, place + need / 2))
            found.append((x0 + place / pt, text, kind))

    places = ((left + right) / 2).tolist()
    others = [i for i in range(len(named)) if not tiled[i]]
    for i, (text, place, need) in enumerate(zip(texts, places, needs.tolist(), strict=True)):
        if tiled[i] and (number[i] % step == 0 if step else bool(fit[i])):
            put(place, need, text, "tile")
    # the others stand beside their piece of the strip if they must, but not so far off that they would name another
    aside = spread([places[i] for i in others], [float(needs[i]) + 3 for i in others], -9, wide + 9)
    for i, place in zip(others, aside, strict=True):
        if abs(place - places[i]) <= needs[i]:
            put(place, float(needs[i]), texts[i], named[i].kind)
    for a, b, peer in idle:
        text = f"waits for PE {peer}"
        if peer >= 0 and text_pt(text, SMALL) + 3 <= (b - a) * pt:
            put(((a + b) / 2 - x0) * pt, text_pt(text, SMALL) + 3, text, "wait")
    return found


def common_lead(stretched: Sequence[Stretch]) -> str:
    """The words that all tiles' labels begin with, so that a strip can say them once.

    >>> common_lead([Stretch("tile 0", "tile", 0, 1), Stretch("tile 1", "tile", 1, 2), Stretch("end", "finish", 2, 3)])
    'tile'
    """
    leads = {s.label.rpartition(" ")[0] for s in stretched if s.kind == "tile"}
    return leads.pop() if len(leads) == 1 else ""


def _step(needs_pt: Numbers, rooms_pt: Numbers) -> int:
    """Every how many-th tile can be labelled."""
    least = int(np.ceil((needs_pt.max() + 3) / max(float(np.median(rooms_pt)), 1e-9)))
    return next(
        (s for s in (1, 2, 4, 5, 8, 10, 16, 20, 32, 50, 64, 100, 128, 256, 500, 512) if s >= least), least
    )
