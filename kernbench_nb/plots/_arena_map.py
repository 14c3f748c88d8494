"""`arena_map`: what lies where in one PE's scratch, at one moment."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch, Patch, Polygon, Rectangle

from kernbench_nb.plots._arena_list import FROM, PITCH, draw_list, lines_of
from kernbench_nb.plots._arena_view import View, look_at
from kernbench_nb.plots._canvas import MONO, SMALL, canvas, message, plain, size_pt, summarise
from kernbench_nb.plots._legend import engine_samples, legend, line_sample, paint_sample
from kernbench_nb.plots._marks import head, outlined, rectangles, segments, write
from kernbench_nb.plots._moment import moment_of
from kernbench_nb.plots._places import has_scopes
from kernbench_nb.plots._scales import size_axis
from kernbench_nb.plots._theme import Paint, Theme, solid
from kernbench_nb.plots._words import UNSCOPED, clock_of, many, name_of, share_text, size_text, spaced
from kernbench_nb.runtime_api.asked import check_run
from kernbench_nb.runtime_api.result import RunResult
from kernbench_nb.sim_engine.memory_log import LiveBlock

__all__ = ["arena_map"]

# The picture from left to right, as shares of the width: the whole scratch true to scale, its used part pulled out,
# the column of blocks; then the list.
BAR = 0.03
ZOOM = 0.082
COLUMN = (0.195, FROM)
INSET = 0.008
HEIGHTS = (3.9, 6.4)
"""Inches: the least and the largest height of our own figure."""
_MARGINS = {"left": 0.2, "right": 0.12, "top": 0.62, "bottom": 0.56}


def arena_map(
    run: RunResult,
    at: Any = None,
    pe: int = 0,
    ax: Axes | None = None,
    *,
    tile: str | None = None,
    title: str | None = None,
) -> Axes:
    """One PE's scratch at one moment, as a picture of its addresses.

    From below: the persistent arena, solid; then the scoped arena, each block in the colour and texture of the engine
    that wrote it; over the cursor, hatched, the bytes that were given back, with the names of their last owners until
    someone overwrites them. The list says name, shape, dtype and bytes of each block. The bar on the left is the whole
    scratch, true to scale.

    Parameters
    ----------
    run
        What to draw.
    at
        The moment. None: where the run died, else the end of `tile`, else the peak. A number: a time in ns.
        ``"peak"``, ``"end"``. An entry of ``run.op_log``. Else an operation by its name or variable (``"O*c"``), or as
        ``"load K"``, ``"copy O"``, ``"send m"``.
    pe
        Global index.
    ax
        Axes to draw in; without them the picture makes its own, and a notebook shows it.
    tile
        Label of the scope to look in.
    title
        In place of the picture's own.

    Returns
    -------
    Axes
        y is in bytes. The collections of blocks are called ``persistent``, ``kept``, ``scoped dma``, and so on.

    Raises
    ------
    ValueError
        If the PE took no part, or there is no such operation or scope.
    """
    check_run(run, "kb.plots.arena_map")
    moment = moment_of(run, at, pe, tile)
    view = look_at(run, moment)
    lines = lines_of(view, 10_000)
    wanted = (len(lines) + 1) * PITCH / 72 + _MARGINS["top"] + _MARGINS["bottom"]
    ax, theme = canvas(ax, min(max(HEIGHTS[0], wanted), HEIGHTS[1]), **_MARGINS)
    moment_text, about = _words(view)
    if not has_scopes(run.memory_log.rows, moment.pe):
        about += f" · {UNSCOPED}"
    title = title or f"Scratch of {moment_text}"
    ax.set_xlim(0, 1)
    if not view.top:
        head(ax, theme, title, about)
        message(ax, theme, f"PE {moment.pe} of {name_of(run.name, 40)} allocated nothing.")
        return summarise(ax, f"arena_map of {run.name}, PE {moment.pe}: nothing was allocated")
    _place_axis(ax)  # before the ticks are set: moving a spine makes them anew
    size_axis(ax, theme, view.top)
    ax.yaxis.grid(False)
    _draw_bar(ax, theme, view)
    _draw_column(ax, theme, view)
    _draw_given_back(ax, theme, view)
    _draw_lines_across(ax, theme, view)
    _, tall = size_pt(ax)
    draw_list(ax, theme, view, lines_of(view, max(4, int(tall // PITCH))))
    head(ax, theme, title, about)
    legend(ax, theme, _samples(theme, view), below_pt=9)
    if any(b.size > b.nbytes for b in view.live):
        padded = next(b for b in view.live if b.size > b.nbytes)
        note = f"{spaced(padded.nbytes)} + {padded.size - padded.nbytes}: bytes asked for, and what alignment adds"
        plain(
            ax.annotate(
                note, (1, 0), xycoords="axes fraction", xytext=(0, -23), textcoords="offset points", ha="right",
                va="top", fontsize=SMALL, color=theme.soft, annotation_clip=False,
            )
        )  # fmt: skip
    return summarise(
        ax,
        f"arena_map of {run.name}, {moment_text}: {about.replace(' · ', ', ')}, "
        f"{many(len(view.live), 'block')}",
    )


def _place_axis(ax: Axes) -> None:
    ax.spines["left"].set_position(("axes", COLUMN[0] - 0.012))
    ax.spines["left"].set_visible(False)
    ax.spines["bottom"].set_visible(False)
    ax.set_xticks([])
    ax.tick_params(axis="y", pad=8, length=0)


def _draw_bar(ax: Axes, theme: Theme, view: View) -> None:
    """The whole scratch, and where its used part goes."""
    bar = ax.inset_axes((0, 0, BAR, 1))
    bar.set_xlim(0, 1)
    bar.set_ylim(0, view.limit)
    bar.set_xticks([])
    bar.set_yticks([])
    bar.set_facecolor(theme.veil)
    bar.set_label("whole scratch")
    for spine in bar.spines.values():
        spine.set_color(theme.faint)
    high, cursor = min(view.high, view.limit), view.cursor
    bar.add_patch(
        Rectangle((0, 0), 1, high, facecolor=theme.soft, alpha=0.5, edgecolor="none", gid="high-water")
    )
    bar.add_patch(Rectangle((0, 0), 1, cursor, facecolor=theme.text, edgecolor="none", gid="in use"))
    _, tall = size_pt(ax)
    if (1 - high / view.limit) * tall > 70:
        write(
            bar, 0.52, view.limit * 0.985, size_text(view.limit), rotation=90, ha="center", va="top", fontsize=SMALL,
            color=theme.soft,
        )  # fmt: skip
    used = min(view.top / view.limit, 1.0) * view.top
    ax.add_patch(
        Polygon(
            [(BAR, 0), (BAR, used), (ZOOM, view.top), (ZOOM, 0)], closed=True, facecolor=theme.veil,
            edgecolor="none", zorder=0.5, gid="zoom",
        )
    )  # fmt: skip
    segments(
        ax, np.array([BAR, BAR, ZOOM]), np.array([ZOOM] * 3), np.array([0, used, 0]), np.array([0, view.top, view.top]),
        theme.faint, gid="zoom edges", width=0.8, zorder=0.6,
    )  # fmt: skip


def _draw_column(ax: Axes, theme: Theme, view: View) -> None:
    ax.add_patch(
        Rectangle(
            (COLUMN[0], 0), COLUMN[1] - COLUMN[0], view.top, facecolor=theme.veil, edgecolor="none", zorder=0.8,
            gid="ground",
        )
    )  # fmt: skip
    families: dict[str, tuple[Paint, list[LiveBlock]]] = {}
    for block in view.live:
        if block.arena == "scoped":
            name, paint = f"scoped {block.engine}".strip(), theme.engines[block.engine]
        elif block.scope:
            name, paint = f"kept {block.engine}".strip(), theme.kept[block.engine]
        else:
            name, paint = "persistent", solid(theme.persistent, theme.face)
        families.setdefault(name, (paint, []))[1].append(block)
    for name, (paint, blocks) in families.items():
        inset = INSET if name.startswith("scoped") else 0.0
        low = np.array([b.addr for b in blocks])
        high = np.array([b.addr + b.size for b in blocks])
        ones = np.ones(len(blocks))
        rectangles(
            ax, ones * (COLUMN[0] + inset), ones * (COLUMN[1] - inset), low, high, paint, gid=name, zorder=2,
            width=0.8 if inset else 0.5,
        )  # fmt: skip
    if view.written is not None and view.written.size:
        block = view.written
        inset = INSET if block.arena == "scoped" else 0.0
        ax.add_patch(
            Rectangle(
                (COLUMN[0] + inset, block.addr), COLUMN[1] - COLUMN[0] - 2 * inset, block.size, facecolor="none",
                edgecolor=theme.text if block.arena == "scoped" else theme.accent, linewidth=1.8, zorder=4,
                gid="just written",
            )
        )  # fmt: skip
    if view.source is not None and view.written is not None and view.source != view.written:
        middle = (COLUMN[0] + COLUMN[1]) / 2
        a, b = (x.addr + x.size / 2 for x in (view.source, view.written))
        ax.add_patch(
            FancyArrowPatch(
                (middle, a), (middle, b), arrowstyle="-|>", mutation_scale=11, linewidth=1.8, color=theme.accent,
                shrinkA=0, shrinkB=0, zorder=5, gid="copied",
            )
        )  # fmt: skip


def _draw_given_back(ax: Axes, theme: Theme, view: View) -> None:
    if not view.given_back:
        return
    low = np.array([piece[0] for piece in view.given_back])
    high = np.array([piece[1] for piece in view.given_back])
    ones = np.ones(len(low))
    paint = _given_back_paint(theme)
    rectangles(
        ax, ones * (COLUMN[0] + INSET), ones * (COLUMN[1] - INSET), low, high, paint, gid="given back", zorder=1.2,
        width=0.4,
    )  # fmt: skip
    _, tall = size_pt(ax)
    for a, b, name in view.given_back:
        if name and (b - a) / view.top * tall >= SMALL + 3:
            write(
                ax, (COLUMN[0] + COLUMN[1]) / 2, (a + b) / 2, name_of(name, 14), family=MONO, fontsize=SMALL,
                ha="center", va="center_baseline", color=theme.soft, zorder=3, gid="dead owner",
                path_effects=outlined(theme.face),
            )  # fmt: skip


def _given_back_paint(theme: Theme) -> Paint:
    return Paint(theme.soft, theme.face, theme.line, "\\\\\\\\", theme.faint)


def _draw_lines_across(ax: Axes, theme: Theme, view: View) -> None:
    x0, x1 = COLUMN[0] - 0.008, COLUMN[1] + 0.004
    for save, _ in view.saves:
        ax.plot([x0, x1], [save] * 2, color=theme.face, linewidth=2.6, zorder=4.1, alpha=0.8)
        ax.plot(
            [x0, x1], [save] * 2, color=theme.text, linewidth=1.2, linestyle=(0, (4, 2)), zorder=4.2,
            gid="save-point",
        )  # fmt: skip
    if view.high:
        ax.plot(
            [x0, x1], [view.high] * 2, color=theme.text, linewidth=1.0, linestyle=(0, (1, 2)), zorder=4.3,
            gid="high-water",
        )  # fmt: skip
    if view.refusal is not None:
        low, wanted = view.refusal.cursor, view.refusal.wanted
        ax.add_patch(
            Rectangle(
                (COLUMN[0], low), COLUMN[1] - COLUMN[0], wanted, facecolor="none", edgecolor=theme.limit, linewidth=1.2,
                linestyle=(0, (3, 2)), zorder=4.5, gid="refused", clip_on=False,
            )
        )  # fmt: skip
    if view.limit <= view.top:
        ax.plot([0, x1 + 0.02], [view.limit] * 2, color=theme.limit, linewidth=1.8, zorder=4.6, gid="limit")
    ax.plot([x0, x1], [view.cursor] * 2, color=theme.accent, linewidth=1.6, zorder=4.4, gid="cursor")
    ax.plot(
        [x0 - 0.004], [view.cursor], marker=">", markersize=6, color=theme.accent, linestyle="none", zorder=6,
        clip_on=False, gid="cursor mark",
    )  # fmt: skip


def _words(view: View) -> tuple[str, str]:
    moment = view.moment
    when = clock_of(moment.time_ps).text(moment.time_ps)
    title = f"PE {moment.pe} {moment.what or f'at {when}'}"
    words = [] if not view.scope or moment.what.endswith(view.scope) else [name_of(view.scope, 30)]
    if moment.what:
        words.append(when)
    words.append(
        f"{size_text(view.cursor)} of {size_text(view.limit)} in use ({share_text(view.cursor, view.limit)})"
    )
    if view.high != view.cursor:
        words.append(f"high-water {size_text(view.high)}")
    return title, " · ".join(words)


def _samples(theme: Theme, view: View) -> list[Any]:
    found: list[Any] = []
    if any(b.arena == "persistent" and not b.scope for b in view.live):
        found.append(Patch(facecolor=theme.persistent, edgecolor=theme.persistent, label="persistent"))
    kept = {b.engine for b in view.live if b.arena == "persistent" and b.scope}
    found += engine_samples(theme, {b.engine for b in view.live if b.arena == "scoped"})
    found += engine_samples(theme, kept, kept=True, lead="never given back: ")
    if view.given_back:
        found.append(paint_sample(_given_back_paint(theme), "given back"))
    found.append(line_sample(theme.accent, "cursor", marker=">", markersize=5, linewidth=1.4))
    if view.saves:
        found.append(line_sample(theme.text, "save-point", linewidth=1.2, linestyle=(0, (3, 1.5))))
    if view.high:
        found.append(line_sample(theme.text, "high-water", linewidth=1.0, linestyle=(0, (1, 2))))
    if view.limit <= view.top:
        found.append(line_sample(theme.limit, "limit", linewidth=1.8))
    return found
