"""Axes of time and bytes, and the strip of tiles above them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.ticker import MaxNLocator
from matplotlib.transforms import ScaledTranslation, blended_transform_factory

from kernbench_nb.plots._canvas import LABEL, SMALL, figure_of, plain, size_pt, ticks
from kernbench_nb.plots._marks import Numbers, text_pt, write
from kernbench_nb.plots._places import Stretch
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


def strip(ax: Axes, theme: Theme, stretched: Sequence[Stretch], *, lead: str = "") -> float:
    """Scopes as a strip above the axes, with as many labels as there is room for.

    Parameters
    ----------
    stretched
        The scopes, in order of time.
    lead
        Words that tiles' labels begin with; they are said once, on the left.

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
    left = np.array([max(s.start_ps, x0) for s in shown], np.float64)
    right = np.array([min(s.end_ps, x1) for s in shown], np.float64)
    pt = wide / (x1 - x0)
    gap = np.minimum(0.6 / pt, (right - left) / 6)
    up = ScaledTranslation(0, 4 / 72, figure.dpi_scale_trans)
    top = blended_transform_factory(ax.transData, ax.transAxes + up)
    lines = LineCollection(
        [[(a, 1.0), (b, 1.0)] for a, b in zip(left + gap, right - gap, strict=True)],
        colors=[theme.soft if s.kind == "tile" else theme.accent for s in shown],
        linewidths=3,
        capstyle="butt",
        transform=top,
        clip_on=False,
        gid="strip",
    )
    ax.add_collection(lines, autolim=False)
    texts = [name_of(s.label.removeprefix(f"{lead} ") if lead else s.label, 18) for s in shown]
    places = (left + right) / 2
    taken = -np.inf
    rooms = (right - left) * pt
    needs = np.array([text_pt(text, SMALL) + 3 for text in texts])
    tiled = np.array([s.kind == "tile" for s in shown])
    fit = needs <= rooms
    # where most tiles have room for their label those are labelled, else every so many-th
    step = 0 if not tiled.any() or fit[tiled].mean() > 0.5 else _step(needs[tiled], rooms[tiled])
    number = np.cumsum(tiled) - 1
    for i, (text, place, need) in enumerate(zip(texts, places, needs.tolist(), strict=True)):
        mine = bool(tiled[i])
        wanted = number[i] % step == 0 if mine and step else bool(fit[i])
        if not wanted or place * pt - need / 2 < taken:
            continue
        taken = place * pt + need / 2
        write(
            ax, place, 1.0, text, transform=top + ScaledTranslation(0, 3.5 / 72, figure.dpi_scale_trans),
            ha="center", va="bottom", fontsize=SMALL, color=theme.soft if mine else theme.accent, clip_on=False,
            gid="strip label",
        )  # fmt: skip
    if lead:
        write(
            ax, 0, 1.0, lead, transform=ax.transAxes + up + ScaledTranslation(-8 / 72, -1 / 72, figure.dpi_scale_trans),
            ha="right", va="center_baseline", fontsize=SMALL, color=theme.soft, clip_on=False, gid="strip lead",
        )  # fmt: skip
    return 16.0


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
