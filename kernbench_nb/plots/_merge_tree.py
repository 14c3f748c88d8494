"""`merge_tree`: in which order partial states become one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from kernbench_nb.analysis._merges import Merge, merges_of
from kernbench_nb.plots._canvas import LABEL, SMALL, canvas, message, plain, size_pt, summarise, ticks
from kernbench_nb.plots._legend import legend, line_sample, paint_sample
from kernbench_nb.plots._marks import head, outlined, rectangles, segments, text_pt, write
from kernbench_nb.plots._scales import time_axis
from kernbench_nb.plots._theme import Theme
from kernbench_nb.plots._words import about_run, clock_of, many, name_of
from kernbench_nb.runtime_api.asked import check_run
from kernbench_nb.runtime_api.result import RunResult

__all__ = ["merge_tree"]

Tree = Any
"""A leaf, or a pair of trees."""

BAR = 0.52
"""Height of a merge in lanes."""
TALLEST = 7.5
"""Inches that lanes take at the most."""


def merge_tree(
    of: RunResult | tuple[Tree, Tree], ax: Axes | None = None, *, title: str | None = None
) -> Axes:
    """The merges of a run, over time, or of a nested tuple, by depth.

    Of a run, each PE that sent or merged a state has a lane: its own sweep, then waiting, then merges, each with its
    depth, the number of merges on the longest way to it. Of a nested tuple such as ``((0, 1), (2, 3))`` the leaves are
    tiles, in the order in which they are written, and each pair is a merge.

    Parameters
    ----------
    of
        A run, or a tuple of two: each a leaf (a number is a tile's, a text is its name) or such a tuple.
    ax
        Axes to draw in; without them the picture makes its own, and a notebook shows it.
    title
        In place of the picture's own.

    Returns
    -------
    Axes
        Of a run, x is in ps and lane i stands at y = i, in order of the PEs, the first on top; the merges are the
        collection ``math``, the messages the lines ``messages``. Of a tuple, x is the depth and y the leaf, the first
        on top; merges are the line of markers ``merges``.

    Raises
    ------
    TypeError
        If it is neither a run nor a tuple.
    ValueError
        If a tuple in it has not two members.
    """
    if isinstance(of, tuple | list):
        return _draw_tuple(of, ax, title)
    check_run(of, "kb.plots.merge_tree")
    return _draw_run(of, ax, title)


# -- a run -------------------------------------------------------------------------------------------------------------


def _draw_run(run: RunResult, ax: Axes | None, title: str | None) -> Axes:
    merges = merges_of(run)
    pes = sorted({pe for merge in merges for pe in (merge.pe, merge.peer)})
    lane = min(0.3, TALLEST / max(len(pes), 1))
    ax, theme = canvas(ax, 1.3 + max(lane * len(pes), 0.6), left=0.72, bottom=0.6)
    deepest = max((merge.depth for merge in merges), default=0)
    about = about_run(run)
    if not merges:
        head(ax, theme, title or "Merges", about)
        did = "merged no states of several PEs" if len(run.op_log) else "ran no operation"
        message(ax, theme, f"{name_of(run.name, 40)} {did}.")
        return summarise(ax, f"merge_tree of {run.name}: no merge of several PEs")
    clock = clock_of(run.makespan_ps)
    ready = _ready(merges)
    first = min(ready.values())
    time_axis(ax, theme, clock, first - 0.05 * (run.makespan_ps - first), run.makespan_ps * 1.002)
    ax.set_ylim(len(pes) - 0.4, -0.6)
    head(ax, theme, title or _count(len(merges), deepest), f"{about} · {many(len(pes), 'PE')}")
    _draw_lanes(ax, theme, merges, pes, ready, run.makespan_ps)
    numbered = any(text.get_gid() == "depth" for text in ax.texts)
    legend(ax, theme, _samples(theme, numbered), below_pt=19, room_pt=60)
    return summarise(
        ax,
        f"merge_tree of {run.name}: {_count(len(merges), deepest)} on {many(len(pes), 'PE')}, from "
        f"{clock.text(first)} to {clock.text(max(merge.end_ps for merge in merges))}",
    )


def _ready(merges: Sequence[Merge]) -> dict[int, int]:
    """When each PE's own sweep was done: it opened its first merge, or sent."""
    ready: dict[int, int] = {}
    for merge in merges:
        for pe, time in ((merge.pe, merge.open_ps), (merge.peer, merge.sent_ps)):
            ready[pe] = min(time, ready.get(pe, time))
    return ready


def _draw_lanes(
    ax: Axes, theme: Theme, merges: Sequence[Merge], pes: Sequence[int], ready: dict[int, int], makespan: int
) -> None:
    wide, tall = size_pt(ax)
    (x0, x1), pitch = ax.get_xlim(), tall / len(pes)
    lane = {pe: i for i, pe in enumerate(pes)}
    at = np.array([lane[merge.pe] for merge in merges], np.float64)
    arrived = np.array([merge.arrived_ps for merge in merges])
    ends = np.array([merge.end_ps for merge in merges])
    own = np.arange(len(pes), dtype=np.float64)
    swept = np.array([ready[pe] for pe in pes])
    thick = min(3.0, pitch * 0.3)
    segments(
        ax,
        np.full(len(pes), x0),
        swept,
        own,
        own,
        theme.line,
        gid="sweeps",
        width=thick,
        zorder=2,
        capstyle="butt",
    )
    waits = [
        (merge.open_ps, merge.arrived_ps, lane[merge.pe])
        for merge in merges
        if merge.arrived_ps > merge.open_ps
    ]
    ipc = theme.engines["ipc"]
    if waits:
        start, stop, y = np.array(waits, np.float64).T
        segments(ax, start, stop, y, y, ipc.line, gid="waits", width=1.2, style=(0, (1, 1.8)), zorder=2)
    last = max(merges, key=lambda merge: (merge.end_ps, -merge.pe))
    root = lane[last.pe]
    ax.plot([last.end_ps, makespan], [root, root], color=theme.line, linewidth=thick, zorder=2, gid="root",
            solid_capstyle="butt")  # fmt: skip
    rectangles(ax, arrived, ends, at - BAR / 2, at + BAR / 2, theme.engines["math"], gid="math", zorder=3)
    sent = np.array([merge.sent_ps for merge in merges])
    sender = np.array([lane[merge.peer] for merge in merges], np.float64)
    # into the side of the bar that faces the sender, so that the line does not run through what it feeds
    edge = at + np.where(sender > at, BAR / 2, -BAR / 2)
    segments(
        ax, sent, arrived, sender, edge, ipc.line, gid="messages", width=1.1 if pitch > 7 else 0.6, zorder=2.6
    )
    ax.plot(sent, sender, linestyle="none", marker="o", markersize=min(3.5, pitch * 0.4), color=ipc.line, zorder=2.8,
            gid="sent")  # fmt: skip
    pt = wide / (x1 - x0)
    for merge in merges:
        text = str(merge.depth)
        if pitch * BAR >= SMALL + 1 and (merge.end_ps - merge.arrived_ps) * pt >= text_pt(text, SMALL) + 4:
            write(
                ax, (merge.arrived_ps + merge.end_ps) / 2, lane[merge.pe], text, ha="center", va="center_baseline",
                fontsize=SMALL, fontweight="bold", color=theme.text, gid="depth", zorder=5,
                path_effects=outlined(theme.engines["math"].fill),
            )  # fmt: skip
    step = max(1, int(np.ceil((LABEL + 1.5) / pitch)))
    named = range(0, len(pes), step)
    ticks(ax.yaxis, list(named), [f"PE {pes[i]}" for i in named], fontsize=SMALL)
    ax.tick_params(axis="y", length=0, pad=4)
    ax.spines["left"].set_visible(False)


def _samples(theme: Theme, numbered: bool) -> list[Any]:
    ipc = theme.engines["ipc"]
    return [
        line_sample(theme.line, "own sweep, finish", linewidth=3),
        line_sample(ipc.line, "waits", linestyle=(0, (1, 1.8)), linewidth=1.2),
        line_sample(ipc.line, "its state is sent", marker="o", markersize=3.5, linewidth=1.1, markevery=[0]),
        paint_sample(theme.engines["math"], "merge, its depth in it" if numbered else "merge"),
    ]


# -- a nested tuple ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Node:
    """A state: where it stands, and what it was merged from.

    Attributes
    ----------
    depth, place
        Merges on the longest way to it; its height, that of a leaf or half way between its parts.
    parts
        The two states, or nothing for a leaf.
    """

    depth: int
    place: float
    parts: tuple[_Node, ...] = ()


def _draw_tuple(tree: Sequence[Tree], ax: Axes | None, title: str | None) -> Axes:
    leaves, nodes = _nodes(tree)
    names = [
        f"tile {leaf}" if isinstance(leaf, int | np.integer) else name_of(str(leaf), 16) for leaf in leaves
    ]
    lane = min(0.2, TALLEST / len(leaves))
    ax, theme = canvas(ax, max(1.7, 1.2 + lane * len(leaves)), left=0.86, bottom=0.46)
    deepest = nodes[-1].depth
    ax.set_xlim(-0.02 * deepest, deepest * 1.04)
    ax.set_ylim(len(leaves) - 0.4, -0.6)
    head(ax, theme, title or _count(len(nodes), deepest), f"{many(len(leaves), 'partial state')} become one")
    across: list[tuple[float, float, float]] = []
    down: list[tuple[float, float, float]] = []
    for node in nodes:
        across += [(part.depth, node.depth, part.place) for part in node.parts]
        down.append((node.depth, node.parts[0].place, node.parts[1].place))
    x0, x1, y = np.array(across, np.float64).T
    width = 1.2 if len(leaves) <= 40 else 0.7
    segments(ax, x0, x1, y, y, theme.soft, gid="states", width=width, zorder=2)
    x, y0, y1 = np.array(down, np.float64).T
    segments(ax, x, x, y0, y1, theme.soft, gid="joins", width=width, zorder=2)
    math = theme.engines["math"]
    size = min(7.0, 60 * lane * 0.5)
    ax.plot(
        [node.depth for node in nodes], [node.place for node in nodes], linestyle="none", marker="s", markersize=size,
        color=math.fill, markeredgecolor=math.line, markeredgewidth=1.0, zorder=4, gid="merges", clip_on=False,
    )  # fmt: skip
    _label_tuple(ax, theme, names, deepest)
    legend(ax, theme, [line_sample(math.fill, "merge", marker="s", markersize=6, linestyle="none",
                                   markeredgecolor=math.line)], below_pt=19, room_pt=110)  # fmt: skip
    return summarise(ax, f"merge_tree of {many(len(leaves), 'partial state')}: {_count(len(nodes), deepest)}")


def _label_tuple(ax: Axes, theme: Theme, names: Sequence[str], deepest: int) -> None:
    wide, tall = size_pt(ax)
    step = max(1, int(np.ceil((LABEL + 1.5) / (tall / len(names)))))
    named = range(0, len(names), step)
    ticks(ax.yaxis, list(named), [names[i] for i in named], fontsize=SMALL)
    ax.tick_params(axis="y", length=0, pad=4)
    ax.spines["left"].set_visible(False)
    step = max(1, int(np.ceil(18 * deepest / wide)))
    marks = list(range(0, deepest + 1, step))
    ticks(ax.xaxis, marks, [str(mark) for mark in marks])
    ax.xaxis.grid(True, color=theme.faint, linewidth=0.5, zorder=0)
    plain(ax.set_xlabel("merges on the way", loc="right", fontsize=LABEL, color=theme.soft, labelpad=2))


def _nodes(tree: Sequence[Tree]) -> tuple[list[Tree], list[_Node]]:
    """Leaves in the order in which they are written, and merges, each after those that it needs.

    Not by recursion: a chain over a thousand tiles is a thousand deep.
    """
    leaves: list[Tree] = []
    nodes: list[_Node] = []
    made: list[_Node] = []
    waiting: list[tuple[Tree, bool]] = [(tree, False)]
    while waiting:
        here, parts_made = waiting.pop()
        if not isinstance(here, tuple | list):
            made.append(_Node(0, float(len(leaves))))
            leaves.append(here)
        elif parts_made:
            right, left = made.pop(), made.pop()
            node = _Node(1 + max(left.depth, right.depth), (left.place + right.place) / 2, (left, right))
            made.append(node)
            nodes.append(node)
        elif len(here) != 2:
            raise ValueError(f"merge_tree: a merge takes two states, got {len(here)} in {_short(here)}")
        else:
            waiting += [(here, True), (here[1], False), (here[0], False)]
    return leaves, nodes


def _short(tree: Sequence[Tree]) -> str:
    shown = repr(tree)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


def _count(merges: int, depth: int) -> str:
    return f"{many(merges, 'merge')}, {depth} deep"
