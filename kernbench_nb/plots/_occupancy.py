"""`occupancy`: how full each PE's scratch was, over time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.patches import Patch
from matplotlib.transforms import ScaledTranslation

from kernbench_nb.plots._canvas import LABEL, SMALL, canvas, figure_of, message, size_pt, summarise, ticks
from kernbench_nb.plots._legend import legend, line_sample, overflow_sample
from kernbench_nb.plots._marks import Numbers, head, label_room, limit_note, segments, write
from kernbench_nb.plots._places import capacity_of, check_pes, parts_of, refusal_on, thinned
from kernbench_nb.plots._scales import size_axis, time_axis
from kernbench_nb.plots._theme import Theme
from kernbench_nb.plots._words import about_run, clock_of, many, name_of, pes_text, share_text, size_text
from kernbench_nb.runtime_api.asked import check_run
from kernbench_nb.runtime_api.result import RunResult

__all__ = ["occupancy"]

FULL = 0.9
"""Share of its lane that the highest cursor fills."""


def occupancy(
    run: RunResult,
    pes: Iterable[int] | int | None = None,
    ax: Axes | None = None,
    *,
    ylim: int | None = None,
    title: str | None = None,
) -> Axes:
    """The cursor of each PE's scratch over time: one lane a PE, all lanes to one scale.

    The solid part is the persistent arena, what stands on it the scoped arena. Where a PE's scratch overflowed, a cross
    says so.

    Parameters
    ----------
    run
        What to draw.
    pes
        Global indices; by default all, of more than 64 every so many-th.
    ax
        Axes to draw in; without them the picture makes its own, and a notebook shows it.
    ylim
        Bytes that the height of a lane stands for; by default the highest peak of those drawn, or the limit where a PE
        ran into it.
    title
        In place of the picture's own.

    Returns
    -------
    Axes
        x is in ps. Of one PE y is in bytes; of several, lane i is 1 high and stands on ``-i``. The collections are
        called ``in use`` and ``persistent``, one polygon a PE, and ``cursor``, one line a PE.

    Raises
    ------
    ValueError
        If a PE took no part.
    """
    check_run(run, "kb.plots.occupancy")
    chosen = check_pes(run, pes)
    shown, note = thinned(chosen, pes is None)
    peaks = {pe: run.memory_log.peak_by_pe.get(pe, 0) for pe in shown}
    limit = max((capacity_of(run, pe) for pe in shown), default=0)
    died = {pe: refusal for pe in shown if (refusal := refusal_on(run, pe)) is not None}
    single = len(shown) == 1
    height = 3.3 if single else 1.35 + (0.4 if len(shown) <= 16 else 0.1) * len(shown)
    ax, theme = canvas(ax, height, right=0.15 if single else 0.95)
    highest = max(peaks, key=lambda pe: (peaks[pe], -pe), default=0)
    peak = peaks.get(highest, 0)
    of = pes_text(shown) if single or len(shown) < len(run.pes) else many(len(shown), "PE")
    title = title or f"Scratch in use, {of}"
    about = about_run(run) + note
    if not peak and not died:
        head(ax, theme, title, about)
        message(ax, theme, f"{pes_text(shown)} of {name_of(run.name, 40)} allocated nothing.")
        return summarise(ax, f"occupancy of {run.name}, {pes_text(shown)}: nothing was allocated")
    scale = float(ylim if ylim is not None else limit if died else peak)
    clock = clock_of(run.makespan_ps)
    time_axis(ax, theme, clock, 0, max(run.makespan_ps, 1) * 1.005)
    if single:
        size_axis(ax, theme, scale * 1.06 if died or scale >= limit else label_room(ax, scale, limit))
        _draw(ax, theme, run, shown, 1.0, 1.0)
        limit_note(ax, theme, peak, limit, died=bool(died))
    else:
        ax.set_ylim(-len(shown) + 1 - 0.06, 1)
        _draw(ax, theme, run, shown, FULL / scale, 0.0)
        _label(ax, theme, shown, peaks, limit, scale)
        about += (
            f" · lanes are {size_text(round(scale))} high, {share_text(round(scale), limit)} of the limit"
        )
    for place, pe in enumerate(shown):
        if pe in died:
            y = died[pe].cursor if single else -place + died[pe].cursor * FULL / scale
            ax.plot(
                [died[pe].time_ps], [y], marker="x", markersize=8, markeredgewidth=2, color=theme.limit, zorder=6,
                clip_on=False, linestyle="none", gid="overflow",
            )  # fmt: skip
    head(ax, theme, title, about)
    legend(ax, theme, _samples(theme, run, bool(died)), below_pt=19, room_pt=60)
    return summarise(
        ax,
        f"occupancy of {run.name}, {pes_text(shown)}: peak {size_text(peak)} of {size_text(limit)} "
        f"({share_text(peak, limit)}) on PE {highest}"
        + (f", overflow on {pes_text(list(died))}" if died else ""),
    )


def steps(run: RunResult, pe: int) -> tuple[Numbers, Numbers, Numbers]:
    """Times in ps at which the cursor of a PE moved, the cursor from then on, and the bytes of its persistent arena.

    The scratch is empty again when a kernel ends.
    """
    log = run.memory_log
    rows = log.rows
    times: list[Numbers] = []
    cursors: list[Numbers] = []
    persistent: list[Numbers] = []
    own = np.zeros(len(rows), np.int64)
    lasting = ~rows.scopes.scoped[rows.scope[log.born]]
    own[log.born[lasting]] = log.size[lasting]
    for part in parts_of(rows, pe):
        if part.stop == part.first:
            continue
        mine = slice(part.first, part.stop)
        cursor = log.cursor[mine]
        moved = np.flatnonzero(np.diff(cursor, prepend=0))
        times += [rows.event_ps[mine][moved], np.array([part.end_ps])]
        cursors += [cursor[moved], np.array([0])]
        persistent += [np.cumsum(own[mine])[moved], np.array([0])]
    if not times:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64)
    return np.concatenate(times), np.concatenate(cursors), np.concatenate(persistent)


def _draw(ax: Axes, theme: Theme, run: RunResult, pes: Sequence[int], scale: float, single: float) -> None:
    areas: list[Numbers] = []
    solid: list[Numbers] = []
    for place, pe in enumerate(pes):
        base = 0.0 if single else -float(place)
        when, cursor, persistent = steps(run, pe)
        for values, found in ((cursor, areas), (persistent, solid)):
            x = np.repeat(when, 2).astype(np.float64)
            y = np.concatenate([[0.0], np.repeat(values, 2)[:-1] * scale]) + base if len(when) else x
            found.append(np.stack([x, y], axis=1))
    # where the cursor moves more often than there are points to draw it in, its line would paint over the area
    moves = max(len(area) for area in areas) / 2 / size_pt(ax)[0]
    width = min(0.9 if len(pes) <= 16 else 0.6, max(0.1, 0.5 / max(moves, 1e-9)))
    ax.add_collection(
        PolyCollection(areas, facecolors=theme.wash, edgecolors="none", zorder=2, gid="in use"), autolim=False
    )
    ax.add_collection(
        PolyCollection(solid, facecolors=theme.persistent, edgecolors="none", zorder=2.2, gid="persistent"),
        autolim=False,
    )
    ax.add_collection(
        LineCollection(areas, colors=theme.accent, linewidths=width, zorder=2.4, gid="cursor"),
        autolim=False,
    )


def _label(
    ax: Axes, theme: Theme, pes: Sequence[int], peaks: dict[int, int], limit: int, scale: float
) -> None:
    _, tall = size_pt(ax)
    pitch = tall / len(pes)
    step = max(1, int(np.ceil((LABEL + 1.5) / pitch)))
    named = range(0, len(pes), step)
    ticks(ax.yaxis, [-i + FULL / 2 for i in named], [f"PE {pes[i]}" for i in named], fontsize=SMALL)
    ax.tick_params(axis="y", length=0, pad=4)
    ax.spines["left"].set_visible(False)
    figure = figure_of(ax)
    bottom = ax.get_ylim()[0]
    places = -np.arange(len(pes), dtype=np.float64)
    x0, x1 = ax.get_xlim()
    ends = np.full(len(pes), x1)
    segments(ax, np.full(len(pes), x0), ends, places, places, theme.faint, gid="floors", width=0.5, zorder=1)
    if limit <= scale * 1.001:
        roof = places + limit * FULL / scale
        segments(ax, np.full(len(pes), x0), ends, roof, roof, theme.limit, gid="limit", width=1.0, zorder=3)
    if figure is None:
        return
    right = ax.transAxes + ScaledTranslation(7 / 72, 0, figure.dpi_scale_trans)
    top = max(peaks.values())
    few = list(peaks.values()).count(top) <= len(pes) / 4  # what nearly all reach is nothing to point at
    for i in named:
        pe = pes[i]
        first = peaks[pe] == top and few
        write(
            ax, 1, (-i + FULL / 2 - bottom) / (1 - bottom), size_text(peaks[pe]), transform=right, ha="left",
            va="center_baseline", fontsize=SMALL, clip_on=False, gid="peak",
            color=theme.text if first else theme.soft, fontweight="bold" if first else "normal",
        )  # fmt: skip
    over = right + ScaledTranslation(0, 4 / 72, figure.dpi_scale_trans)
    write(ax, 1, 1, "peak", transform=over, va="bottom", fontsize=SMALL, color=theme.soft, clip_on=False)


def _samples(theme: Theme, run: RunResult, died: bool) -> list[Any]:
    found: list[Any] = [
        Patch(facecolor=theme.wash, edgecolor="none", label="scoped arena"),
        line_sample(theme.accent, "cursor", linewidth=1.2),
    ]
    if run.persistent_bytes:
        found.insert(
            0, Patch(facecolor=theme.persistent, edgecolor=theme.persistent, label="persistent arena")
        )
    return [*found, overflow_sample(theme)] if died else found
