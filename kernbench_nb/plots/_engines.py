"""`engines`: what each engine of each PE did when, and what waited for what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.patches import Patch
from matplotlib.transforms import ScaledTranslation

from kernbench_nb.plots._canvas import (
    LABEL,
    MONO,
    SMALL,
    canvas,
    figure_of,
    message,
    size_pt,
    summarise,
    ticks,
)
from kernbench_nb.plots._legend import engine_samples, legend, line_sample
from kernbench_nb.plots._marks import head, outlined, rectangles, segments, text_pt, write
from kernbench_nb.plots._places import check_pes, scopes_called, stretches, thinned, waits_of
from kernbench_nb.plots._scales import common_lead, strip, time_axis
from kernbench_nb.plots._theme import Theme
from kernbench_nb.plots._words import about_run, clock_of, many, name_of, pes_text, share_text
from kernbench_nb.runtime_api.asked import check_run
from kernbench_nb.runtime_api.result import RunResult
from kernbench_nb.sim_engine.rows import Bools, Ints
from kernbench_nb.sim_engine.trace import ENGINES

__all__ = ["engines"]

WHOLE = 8
"""PEs up to which each engine has a lane with its name; above, each PE has one lane of four thin ones."""
BAR = (0.10, 0.68)
"""Where a bar lies in its lane, from the top; what is in flight or waits runs under it."""
UNDER = 0.84
MARGIN = 7
"""Points that a bar is wider than the name in it: its texture shows on either side."""


def engines(
    run: RunResult,
    pes: Iterable[int] | int | None = None,
    ax: Axes | None = None,
    *,
    tile: str | None = None,
    title: str | None = None,
) -> Axes:
    """A lane for each engine of each PE over time.

    A bar is an engine that is busy. The thin line under it is what holds no engine: a load or a message in flight until
    its tick. A dotted line is a PE that waits for a message.

    Parameters
    ----------
    run
        What to draw.
    pes
        Global indices; by default all, of more than 64 every so many-th.
    ax
        Axes to draw in; without them the picture makes its own, and a notebook shows it.
    tile
        Label of a scope: show its time only, from the first of the PEs to open it to the last to close it.
    title
        In place of the picture's own.

    Returns
    -------
    Axes
        x is in ps; PE i of those drawn has its lanes from ``i * (4 + gap)`` down. The collections of bars are called
        ``dma``, ``gemm``, ``math`` and ``ipc``; beside them are ``in flight dma``, ``in flight ipc`` and ``waits``.

    Raises
    ------
    ValueError
        If a PE took no part, or there is no such scope.
    """
    check_run(run, "kb.plots.engines")
    chosen = check_pes(run, pes)
    shown, note = thinned(chosen, pes is None)
    window = _window(run, shown, tile)
    whole = len(shown) <= WHOLE
    lanes = _Lanes(shown, 0.55 if whole else 0.8)
    height = 1.5 + (0.155 if len(shown) > 1 else 0.3) * 4 * len(shown) if whole else 1.4 + 0.098 * len(shown)
    ax, theme = canvas(
        ax, max(2.6, height), top=0.78 if len(shown) == 1 else 0.62, right=0.62 if whole else 0.15
    )
    of = pes_text(shown) if len(shown) == 1 or len(shown) < len(run.pes) else many(len(shown), "PE")
    title = title or f"Engines of {of}" + (f" in {tile}" if tile else "")
    about = about_run(run) + note
    operations = _operations(run, lanes, window)
    if not len(operations.start):
        head(ax, theme, title, about)
        message(ax, theme, f"{pes_text(shown)} of {name_of(run.name, 40)} ran no operation.")
        return summarise(ax, f"engines of {run.name}, {pes_text(shown)}: no operation")
    clock = clock_of(window[1] - window[0])
    time_axis(ax, theme, clock, window[0], window[1] + max(1, (window[1] - window[0]) // 200))
    ax.set_ylim(lanes.height, 0)
    _draw_grounds(ax, theme, run, lanes)
    _draw_operations(ax, theme, lanes, operations, whole)
    lift = 0.0
    if len(shown) == 1:
        strips = stretches(run.op_log.rows, shown[0])
        lift = strip(ax, theme, strips, lead=common_lead(strips), waits=waits_of(run, shown[0]))
    _label_lanes(ax, theme, lanes, operations, window)
    if whole:
        _label_bars(ax, theme, run, lanes, operations)
    head(ax, theme, title, about, lift=lift)
    tiled = any(c.get_gid() == "tiles" for c in ax.collections)
    legend(ax, theme, *_samples(theme, operations, tiled=tiled, whole=whole), below_pt=19, room_pt=60)
    span = window[1] - window[0]
    total = np.sum(_busy(lanes, operations, window), axis=0).tolist()
    busy = ", ".join(f"{e} {share_text(ps, span * len(shown))}" for e, ps in zip(ENGINES, total, strict=True))
    where = f"{pes_text(shown)}{f' in {tile}' if tile else ''}"
    return summarise(ax, f"engines of {run.name}, {where}: {clock.text(span)}, busy {busy}")


class _Lanes:
    """Where each engine of each PE is drawn: y runs down, one lane is 1 high."""

    def __init__(self, pes: Sequence[int], gap: float) -> None:
        self.pes = pes
        self.gap = gap
        self.pitch = len(ENGINES) + gap
        self.height = max(len(pes) * self.pitch - gap + 0.15, 1.0)

    def top(self, place: Any, engine: Any) -> Any:
        """Upper edge of lanes; `place` counts the PEs drawn."""
        return place * self.pitch + engine


@dataclass(frozen=True, slots=True, eq=False)
class _Operations:
    """Columns of the operations in the picture, one entry an operation.

    `index` is its place in the log, `place` counts the PEs drawn, `engine` indexes `ENGINES`; `waits` are receives
    whose message was not there, `flies` is whatever else ends later than its engine was busy.
    """

    index: Ints
    place: Ints
    engine: Ints
    start: Ints
    busy_end: Ints
    end: Ints
    waits: Bools
    flies: Bools
    peer: Ints


def _window(run: RunResult, pes: Sequence[int], tile: str | None) -> tuple[int, int]:
    if tile is None:
        return 0, max(run.makespan_ps, 1)
    rows = run.op_log.rows
    scopes = rows.scopes
    starts, ends = [], []
    for i in scopes_called(rows, pes, tile):
        opened, closed, part = int(scopes.open[i]), int(scopes.close[i]), rows.parts[scopes.part[i]]
        starts.append(int(rows.event_ps[opened]))
        ends.append(int(rows.end[closed]) if closed < part.stop else part.end_ps)
    return min(starts), max(*ends, min(starts) + 1)


def _operations(run: RunResult, lanes: _Lanes, window: tuple[int, int]) -> _Operations:
    log = run.op_log
    columns, texts = log.columns, log.categories
    place = np.full(int(columns["pe"].max(initial=0)) + 2, -1, np.int64)
    for i, pe in enumerate(lanes.pes):
        if pe < len(place):
            place[pe] = i
    start, end = columns["start_ps"], columns["end_ps"]
    index = np.flatnonzero((place[columns["pe"]] >= 0) & (end >= window[0]) & (start <= window[1]))
    lane = np.array([ENGINES.index(name) for name in texts["engine"]] or [0], np.int64)
    receives = np.array([name == "ipc_recv" for name in texts["op_name"]] or [False])
    start, end = start[index], end[index]
    busy_end = np.minimum(start + columns["busy_ps"][index], end)
    receives = receives[columns["op_name"][index]]
    return _Operations(
        index=index,
        place=place[columns["pe"][index]],
        engine=lane[columns["engine"][index]],
        start=start,
        busy_end=busy_end,
        end=end,
        waits=receives & (end > busy_end),
        flies=~receives & (end > busy_end),
        peer=columns["peer"][index],
    )


def _draw_grounds(ax: Axes, theme: Theme, run: RunResult, lanes: _Lanes) -> None:
    """Each PE's tiles as a ground behind its lanes, in two shades that take turns."""
    rows = run.op_log.rows
    corners: list[list[tuple[float, float]]] = []
    shades: list[str] = []
    for place, pe in enumerate(lanes.pes):
        low, high = lanes.top(place, 0), lanes.top(place, len(ENGINES))
        tiles = [s for s in stretches(rows, pe) if s.kind == "tile"]
        for number, s in enumerate(tiles):
            corners.append([(s.start_ps, low), (s.end_ps, low), (s.end_ps, high), (s.start_ps, high)])
            shades.append(theme.veil if number % 2 else theme.ground)
    if corners:
        ax.add_collection(
            PolyCollection(corners, facecolors=shades, edgecolors="none", zorder=0.4, gid="tiles"),
            autolim=False,
        )


def _draw_operations(ax: Axes, theme: Theme, lanes: _Lanes, operations: _Operations, whole: bool) -> None:
    top = lanes.top(operations.place, operations.engine)
    bar = BAR if whole else (0.0, 1.0)
    for code, engine in enumerate(ENGINES):
        mine = np.flatnonzero((operations.engine == code) & (operations.busy_end > operations.start))
        rectangles(
            ax, operations.start[mine], operations.busy_end[mine], top[mine] + bar[0], top[mine] + bar[1],
            theme.engines[engine], gid=engine, zorder=2,
        )  # fmt: skip
        flying = np.flatnonzero((operations.engine == code) & operations.flies)
        line = theme.engines[engine].line
        y = top[flying] + (UNDER if whole else 0.5)
        segments(
            ax, operations.busy_end[flying], operations.end[flying], y, y, line, gid=f"in flight {engine}",
            width=1.0 if whole else 0.6, zorder=1.8, capstyle="butt",
        )  # fmt: skip
        wide, _ = size_pt(ax)
        if whole and len(flying) * 7 < wide * len(lanes.pes):  # closer ticks would make one thick line
            tick = 0.13
            segments(
                ax, operations.end[flying], operations.end[flying], y - tick, y + tick, line,
                gid=f"in flight {engine} ends", width=1.0, zorder=1.9,
            )  # fmt: skip
    waiting = np.flatnonzero(operations.waits)
    y = top[waiting] + (sum(BAR) / 2 if whole else 0.5)
    segments(
        ax, operations.busy_end[waiting], operations.end[waiting], y, y, theme.engines["ipc"].line, gid="waits",
        width=1.3 if whole else 0.9, style=(0, (1, 1.6)), zorder=1.8,
    )  # fmt: skip


def _busy(lanes: _Lanes, operations: _Operations, window: tuple[int, int]) -> list[list[int]]:
    """For each PE drawn, ps of the window in which each engine was busy."""
    inside = np.minimum(operations.busy_end, window[1]) - np.maximum(operations.start, window[0])
    found = np.zeros((len(lanes.pes), len(ENGINES)), np.int64)
    np.add.at(found, (operations.place, operations.engine), np.maximum(inside, 0))
    return [[int(ps) for ps in row] for row in found]


def _label_lanes(
    ax: Axes, theme: Theme, lanes: _Lanes, operations: _Operations, window: tuple[int, int]
) -> None:
    figure = figure_of(ax)
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0, pad=4)
    _, tall = size_pt(ax)
    pitch = tall / lanes.height
    if len(lanes.pes) > WHOLE:
        step = max(1, int(np.ceil((LABEL + 1) / (lanes.pitch * pitch))))
        named = range(0, len(lanes.pes), step)
        places, labels = (
            [lanes.top(i, len(ENGINES) / 2) for i in named],
            [f"PE {lanes.pes[i]}" for i in named],
        )
        ticks(ax.yaxis, places, labels, fontsize=SMALL)
        return
    single = len(lanes.pes) == 1
    size = min(LABEL, max(4.5, pitch - 1.5))
    every = [(i, code) for i in range(len(lanes.pes)) for code in range(len(ENGINES))]
    middles = [lanes.top(i, code + sum(BAR) / 2) for i, code in every]
    ticks(ax.yaxis, middles, [ENGINES[code] for _, code in every], fontsize=size, family=MONO)
    if figure is None:
        return
    left = ax.transAxes + ScaledTranslation(-34 / 72, 0, figure.dpi_scale_trans)
    right = ax.transAxes + ScaledTranslation(7 / 72, 0, figure.dpi_scale_trans)
    shares = _busy(lanes, operations, window)
    for place, pe in enumerate(lanes.pes):
        if not single:
            write(
                ax, 0, 1 - lanes.top(place, len(ENGINES) / 2) / lanes.height, f"PE {pe}", transform=left, ha="right",
                va="center", color=theme.text, clip_on=False, gid="PE",
            )  # fmt: skip
        busy = shares[place]
        for code in range(len(ENGINES)):
            share = share_text(busy[code], window[1] - window[0]) if busy[code] else "–"
            longest = busy[code] == max(busy) > 0
            write(
                ax, 1, 1 - (lanes.top(place, code) + sum(BAR) / 2) / lanes.height, share, transform=right, ha="left",
                va="center_baseline", fontsize=size, color=theme.text if longest else theme.soft,
                fontweight="bold" if longest else "normal", clip_on=False, gid="busy share",
            )  # fmt: skip
    over = right + ScaledTranslation(0, 4 / 72, figure.dpi_scale_trans)
    write(ax, 1, 1, "busy", transform=over, va="bottom", fontsize=SMALL, color=theme.soft, clip_on=False)


def _label_bars(ax: Axes, theme: Theme, run: RunResult, lanes: _Lanes, operations: _Operations) -> None:
    """Names in the bars that have room for them, and whom a wait is for."""
    wide, tall = size_pt(ax)
    x0, x1 = ax.get_xlim()
    pt = wide / (x1 - x0)
    size = min(SMALL, tall / lanes.height * (BAR[1] - BAR[0]) - 0.5)
    if size < 5.5:
        return
    columns, texts = run.op_log.columns, run.op_log.categories
    names, tensors = columns["name"][operations.index], columns["tensor"][operations.index]
    bars = (np.minimum(operations.busy_end, x1) - np.maximum(operations.start, x0)) * pt
    for i in np.flatnonzero(bars > MARGIN).tolist():
        # a load by the tensor it reads: the variable that holds a future says less
        known, code = ("tensor", tensors[i]) if tensors[i] >= 0 else ("name", names[i])
        text = texts[known][code] if code >= 0 else ""
        if not text or text_pt(name_of(text, 12), size, mono=True) + MARGIN > bars[i]:
            continue
        middle = (min(operations.busy_end[i], x1) + max(operations.start[i], x0)) / 2
        paint = theme.engines[ENGINES[operations.engine[i]]]
        write(
            ax, middle, lanes.top(operations.place[i], operations.engine[i]) + sum(BAR) / 2, name_of(text, 12),
            family=MONO, fontsize=size, ha="center", va="center_baseline", color=theme.text, zorder=4, gid="bar name",
            path_effects=outlined(paint.fill),
        )  # fmt: skip
    waits = np.where(
        operations.waits, (np.minimum(operations.end, x1) - np.maximum(operations.busy_end, x0)) * pt, 0
    )
    for i in np.flatnonzero(waits > 0).tolist():
        text = f"waits for PE {operations.peer[i]}"
        if operations.peer[i] < 0 or text_pt(text, size) + 8 > waits[i]:
            continue
        middle = (min(operations.end[i], x1) + max(operations.busy_end[i], x0)) / 2
        write(
            ax, middle, lanes.top(operations.place[i], operations.engine[i]) + sum(BAR) / 2, text, fontsize=size,
            ha="center", va="center_baseline", color=theme.engines["ipc"].line, zorder=4, gid="wait",
            bbox={"facecolor": theme.face, "edgecolor": "none", "pad": 0.6},
        )  # fmt: skip


def _samples(theme: Theme, operations: _Operations, *, tiled: bool, whole: bool) -> list[list[Any]]:
    """Samples of the grounds and bars, and in a second line those of what holds no engine."""
    there = {ENGINES[code] for code in np.unique(operations.engine).tolist()}
    bars: list[Any] = list(engine_samples(theme, there))
    if tiled:
        bars.append(Patch(facecolor=theme.ground, edgecolor=theme.faint, linewidth=0.5, label="tile"))
    lines: list[Any] = []
    if operations.flies.any():
        flight = {"linewidth": 1.0} | ({"marker": "|", "markersize": 5, "markevery": [-1]} if whole else {})
        lines.append(line_sample(theme.soft, "in flight until its tick" if whole else "in flight", **flight))
    if operations.waits.any():
        lines.append(
            line_sample(
                theme.engines["ipc"].line,
                f"waits for a message{' (from whom, where there is room)' if whole else ''}",
                linewidth=1.3,
                linestyle=(0, (1, 1.6)),
            )
        )
    if whole:
        bold = line_sample(
            theme.text,
            "busiest engine",
            marker=r"$\mathbf{bold}$",
            markersize=17,
            markeredgewidth=0,
            linestyle="none",
        )
        bars.append(bold)
    return [bars, lines]
