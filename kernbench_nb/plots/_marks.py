"""Marks that several pictures share: rectangles and lines in bulk, texts, headings, places for labels."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_rgba
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.patheffects import withStroke

from kernbench_nb.plots._canvas import LABEL, TITLE, plain, size_pt
from kernbench_nb.plots._theme import Paint, Theme
from kernbench_nb.plots._words import name_of, share_text, size_text
from kernbench_nb.runtime_api.text import rate_text

__all__ = [
    "Numbers",
    "head",
    "label_room",
    "limit_note",
    "outlined",
    "rectangles",
    "segments",
    "spread",
    "text_pt",
    "write",
]

Numbers = npt.NDArray[Any]
_HAIR = 1.3
"""Points below which a rectangle is a line."""

_SANS, _MONO = 0.56, 0.61
"""Mean advance of a character in em, of the fonts that come with matplotlib; a little more than measured."""


def text_pt(text: str, size: float, *, mono: bool = False) -> float:
    """About how wide a text is, in points."""
    return len(text) * size * (_MONO if mono else _SANS)


def write(ax: Axes, x: float, y: float, text: str, **how: Any) -> Any:
    """A text, drawn as it is spelled."""
    return plain(ax.text(x, y, text, **{"fontsize": LABEL, **how}))


def outlined(ground: str) -> list[Any]:
    """Path effects that keep a text readable on a texture: its letters get an edge in the colour of the ground.

    A box would hide the texture of a small bar, and so what it is.
    """
    return [withStroke(linewidth=1.8, foreground=ground)]


def rectangles(
    ax: Axes,
    left: Numbers,
    right: Numbers,
    low: Numbers,
    high: Numbers,
    paint: Paint,
    *,
    gid: str,
    zorder: float = 2.0,
    width: float = 0.7,
    **how: Any,
) -> PolyCollection | None:
    """Any number of rectangles: one collection of fills, one of outlines, and one path with the texture.

    Parameters
    ----------
    left, right, low, high
        Edges in data coordinates, one a rectangle.
    gid
        What the collection of fills is called; the others are called ``gid outline`` and ``gid texture``.
    width
        Of the outlines, in points; thinner where the rectangles are too narrow to bear it.

    Returns
    -------
    PolyCollection or None
        The fills, or None if there is nothing to draw.
    """
    if not len(left):
        return None
    x = np.stack([left, right, right, left], axis=1)
    y = np.stack([low, low, high, high], axis=1)
    corners = np.stack([x, y], axis=2).astype(np.float64)
    narrow = _narrow_pt(ax, left, right, low, high)
    bare = narrow < _HAIR
    fills = PolyCollection(
        list(corners),
        # what is a hair's breadth has no room for an outline: its fill takes the outline's colour
        facecolors=np.where(bare[:, None], to_rgba(paint.hair), to_rgba(paint.fill)),
        edgecolors="none",
        linewidths=0,
        zorder=zorder,
        gid=gid,
        **how,
    )
    if bare.mean() > 0.5:  # rounded to whole pixels, a comb of hairs beats against the screen
        fills.set_snap(False)
    ax.add_collection(fills, autolim=False)
    if bare.all():
        return fills
    if paint.hatch:
        texture = PathPatch(
            _one_path(corners[~bare]), facecolor="none", edgecolor=paint.grain, linewidth=0, hatch=paint.hatch,
            zorder=zorder + 0.1, gid=f"{gid} texture", **how,
        )  # fmt: skip
        ax.add_artist(texture)
    outlines = PolyCollection(
        list(corners[~bare]),
        facecolors="none",
        edgecolors=paint.line,
        linewidths=np.clip(narrow[~bare] / 5, 0.2, width),
        zorder=zorder + 0.2,
        gid=f"{gid} outline",
        **how,
    )
    ax.add_collection(outlines, autolim=False)
    return fills


def _one_path(corners: Numbers) -> Path:
    """All rectangles as one path: a texture is made anew for each path it is drawn on, at a millisecond or more."""
    count = len(corners)
    vertices = np.concatenate([corners, corners[:, :1]], axis=1).reshape(-1, 2)
    codes = np.tile(
        np.array([Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY], np.uint8), count
    )
    return Path(vertices, codes)


def _narrow_pt(ax: Axes, left: Numbers, right: Numbers, low: Numbers, high: Numbers) -> Numbers:
    """The smaller side of each rectangle, in points."""
    wide, tall = size_pt(ax)
    (x0, x1), (y0, y1) = ax.get_xlim(), ax.get_ylim()
    across = np.abs(right - left) * (wide / abs(x1 - x0))
    up = np.abs(high - low) * (tall / abs(y1 - y0))
    return np.asarray(np.minimum(across, up))


def segments(
    ax: Axes,
    x0: Numbers,
    x1: Numbers,
    y0: Numbers,
    y1: Numbers,
    color: str,
    *,
    gid: str,
    width: float = 0.8,
    style: Any = "solid",
    zorder: float = 2.0,
    **how: Any,
) -> LineCollection | None:
    """Any number of straight lines as one collection."""
    if not len(x0):
        return None
    ends = np.stack([np.stack([x0, y0], axis=1), np.stack([x1, y1], axis=1)], axis=1).astype(np.float64)
    lines = LineCollection(
        list(ends), colors=color, linewidths=width, linestyles=style, zorder=zorder, gid=gid, **how
    )
    ax.add_collection(lines, autolim=False)
    return lines


def head(ax: Axes, theme: Theme, title: str, about: str, *, lift: float = 0.0) -> None:
    """The title, and under it a line that says what is seen.

    Parameters
    ----------
    about
        Words between dots, the least needed first: they give way where the axes are narrow.
    lift
        Points above the axes that are taken already.
    """
    wide, _ = size_pt(ax)
    while text_pt(about, LABEL) > wide + 10 and " · " in about:
        about = about.partition(" · ")[2]
    for text, size, color, weight, up in (
        (name_of(title, 120), TITLE, theme.text, "bold", 19),
        (name_of(about, 160), LABEL, theme.soft, "normal", 6),
    ):
        plain(
            ax.annotate(
                text, (0, 1), xycoords="axes fraction", xytext=(0, up + lift), textcoords="offset points",
                fontsize=size, color=color, fontweight=weight, va="bottom", ha="left", annotation_clip=False,
            )
        )  # fmt: skip


def label_room(ax: Axes, highest: float, limit: int) -> float:
    """Top of an axis of bytes over which `limit_note` has room for the label of the peak and, above it, of the limit.

    Parameters
    ----------
    highest
        The highest bytes drawn.
    limit
        Bytes of the scratch; if it lies in the picture, its label stands there.
    """
    _, tall = size_pt(ax)
    top = highest / max(0.5, 1 - (2 * LABEL + 8) / max(tall, 1.0))
    return top if top < limit else highest * 1.06


def limit_note(ax: Axes, theme: Theme, peak: int, limit: int, *, died: bool) -> None:
    """The peak and the limit of a scratch, over axes with bytes along y.

    Parameters
    ----------
    peak, limit
        Bytes.
    died
        Whether the run ran into the limit: then the upper left is empty, and a label needs no ground.
    """
    (x0, x1), (_, top) = ax.get_xlim(), ax.get_ylim()
    wide, tall = size_pt(ax)
    seen = limit <= top
    ax.plot(
        [x0, x1], [peak, peak], color=theme.text, linewidth=0.9, linestyle=(0, (1, 2)), zorder=3, gid="peak"
    )
    # above the towers there is room for its label, unless the limit is there already
    tight = seen and (limit - peak) * tall / top < LABEL + 5
    write(
        ax, x0 + 4 * (x1 - x0) / wide, peak - (2 * top / tall if tight else 0),
        f"peak {size_text(peak)} · {share_text(peak, limit)}{'' if tight else ' of the scratch'}",
        va="top" if tight else "bottom", ha="left", color=theme.text, zorder=5, gid="peak label",
        bbox={"facecolor": theme.face, "edgecolor": "none", "pad": 0.5} if tight and not died else None,
    )  # fmt: skip
    if seen:
        ax.plot([x0, x1], [limit, limit], color=theme.limit, linewidth=1.6, zorder=3.2, gid="limit")
        write(
            ax, x0 + 4 * (x1 - x0) / wide, limit + top / tall, f"limit {size_text(limit)}", va="bottom", ha="left",
            color=theme.limit_text, fontweight="bold", zorder=5, gid="limit label",
        )  # fmt: skip
    else:
        write(
            ax, x1, top, f"↑ limit {size_text(limit)}, {rate_text(limit / max(peak, 1))} × the peak",
            va="top", ha="right", color=theme.limit_text, zorder=5, gid="limit label",
        )  # fmt: skip


def spread(wanted: Sequence[float], sizes: Sequence[float], low: float, high: float) -> list[float]:
    """Centres for labels that stay in order, do not overlap, and are as near as can be to where they want to be.

    Parameters
    ----------
    wanted
        Where each wants its centre, rising.
    sizes
        Room that each takes.
    low, high
        Where the room begins and ends; labels that do not fit stick out at the end.

    Returns
    -------
    list of float
        Their centres (least squares, by pooling neighbours that push each other).

    >>> spread([5, 5, 20], [4, 4, 4], 0, 30)
    [3.0, 7.0, 20.0]
    >>> spread([0, 0], [4, 4], 0, 30)
    [2.0, 6.0]
    """
    if not wanted:
        return []
    offsets = np.concatenate([[0.0], np.cumsum([(a + b) / 2 for a, b in pairwise(sizes)])])
    pools: list[tuple[float, int]] = []
    for want, offset in zip(wanted, offsets.tolist(), strict=True):
        mean, count = want - offset, 1
        while pools and pools[-1][0] > mean:
            other, more = pools.pop()
            mean, count = (mean * count + other * more) / (count + more), count + more
        pools.append((mean, count))
    first = low + sizes[0] / 2
    last = max(first, high - sizes[-1] / 2 - float(offsets[-1]))
    bases = [min(max(mean, first), last) for mean, count in pools for _ in range(count)]
    return [base + offset for base, offset in zip(bases, offsets.tolist(), strict=True)]
