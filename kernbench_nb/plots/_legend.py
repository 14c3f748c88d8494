"""Legends: a sample of every engine, line and mark that a picture shows, under its axes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.transforms import ScaledTranslation

from kernbench_nb.plots._canvas import SMALL, figure_of, plain, size_pt
from kernbench_nb.plots._marks import text_pt
from kernbench_nb.plots._theme import Paint, Theme

__all__ = ["engine_samples", "legend", "line_sample", "overflow_sample", "paint_sample"]

PITCH = 11.8
"""Points from one line of a legend to the next."""


def legend(
    ax: Axes, theme: Theme, *groups: Sequence[Any], below_pt: float = 18.0, room_pt: float = 0.0
) -> None:
    """A legend under the axes, from the left.

    Parameters
    ----------
    groups
        Artists with labels; each group begins on a line of its own.
    below_pt
        Points below the axes where it begins.
    room_pt
        Points on the right of the first group to leave free, for the axis label.
    """
    figure = figure_of(ax)
    if figure is None:
        return
    wide, _ = size_pt(ax)
    for entries in groups:
        if not entries:
            continue
        columns = _columns(wide - room_pt, entries)
        drop = ScaledTranslation(0, -below_pt / 72, figure.dpi_scale_trans)
        made = Legend(
            ax,
            handles=list(entries),
            labels=[str(e.get_label()) for e in entries],
            loc="upper left",
            bbox_to_anchor=(0, 0),
            bbox_transform=ax.transAxes + drop,
            ncols=columns,
            frameon=False,
            fontsize=SMALL,
            labelcolor=theme.soft,
            borderaxespad=0,
            borderpad=0,
            handlelength=1.7,
            handleheight=0.9,
            handletextpad=0.5,
            columnspacing=1.2,
            labelspacing=0.35,
        )
        made.set_clip_on(False)
        ax.add_artist(made)
        for text in made.get_texts():
            plain(text)
        below_pt += -(-len(entries) // columns) * PITCH
        room_pt = 0.0


def _columns(wide: float, entries: Sequence[Any]) -> int:
    widths = [text_pt(str(e.get_label()), SMALL) + SMALL * 3.4 for e in entries]
    for columns in range(len(entries), 1, -1):
        rows = -(-len(entries) // columns)
        by_column = [max(widths[c * rows : (c + 1) * rows], default=0) for c in range(columns)]
        if sum(by_column) <= wide:
            return columns
    return 1


def line_sample(color: str, label: str, **how: Any) -> Line2D:
    """A sample of a line or of a mark."""
    return Line2D([], [], color=color, label=label, **how)


def paint_sample(paint: Paint, label: str) -> Patch:
    """A sample of what is painted so."""
    return Patch(facecolor=paint.fill, edgecolor=paint.line, hatch=paint.hatch, linewidth=0.7, label=label)


def overflow_sample(theme: Theme) -> Line2D:
    """The cross of an overflow."""
    return line_sample(
        theme.limit, "overflow", marker="x", markersize=6, markeredgewidth=1.8, linestyle="none"
    )


def engine_samples(
    theme: Theme, engines: Collection[str], *, kept: bool = False, lead: str = ""
) -> list[Patch]:
    """Samples of engines, in the order that they have everywhere.

    Parameters
    ----------
    kept
        As they look on the persistent arena.
    lead
        Words before the first one's name.
    """
    found: list[Patch] = []
    for engine, paint in (theme.kept if kept else theme.engines).items():
        if engine in engines:
            found.append(paint_sample(paint, f"{'' if found else lead}{engine or 'tl.empty'}"))
    return found
