"""`arena_timeline`: which bytes of a scratch were held when, and by what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch, Rectangle

from kernbench_nb.plots._blocks import KEPT, PERSISTENT, Blocks, blocks_of, families
from kernbench_nb.plots._canvas import LABEL, MONO, SMALL, canvas, message, size_pt, summarise
from kernbench_nb.plots._legend import engine_samples, legend, line_sample, overflow_sample
from kernbench_nb.plots._marks import (
    Numbers,
    head,
    label_room,
    limit_note,
    outlined,
    rectangles,
    segments,
    text_pt,
    write,
)
from kernbench_nb.plots._places import (
    Refusal,
    Stretch,
    capacity_of,
    check_pe,
    has_scopes,
    parts_of,
    refusal_on,
    stretches,
    waits_of,
)
from kernbench_nb.plots._scales import common_lead, size_axis, strip, time_axis
from kernbench_nb.plots._theme import Theme, solid
from kernbench_nb.plots._words import (
    UNSCOPED,
    about_run,
    clock_of,
    many,
    name_of,
    share_text,
    size_text,
    spaced,
)
from kernbench_nb.runtime_api.asked import check_run
from kernbench_nb.runtime_api.result import RunResult

__all__ = ["arena_timeline"]

TEXTURE = 3.0
"""Points between the lines of a texture: what is thinner does not show it."""


def arena_timeline(
    run: RunResult,
    pe: int = 0,
    ax: Axes | None = None,
    *,
    ylim: int | None = None,
    until: float | None = None,
    title: str | None = None,
) -> Axes:
    """One PE's scratch over time: a rectangle from allocation to rewind, and from its first byte to its last.

    The persistent arena lies solid at the bottom; the blocks of the scoped arena wear the colour and the texture of the
    engine that wrote them. Where the run died of an overflow, a cross says where, and what is behind it is hatched.

    Parameters
    ----------
    run
        What to draw.
    pe
        Global index.
    ax
        Axes to draw in; without them the picture makes its own, and a notebook shows it.
    ylim
        Bytes at the top; by default a little above the peak, or above the limit where the run died. Give two pictures
        the same, such as ``run.topology.scratch_bytes``, to compare them.
    until
        ns at the right end; by default the PE's own end.
    title
        In place of the picture's own.

    Returns
    -------
    Axes
        x is in ps, y in bytes. Collections are called ``persistent``, ``scoped dma``, ``kept math``, and so on.

    Raises
    ------
    ValueError
        If the PE took no part.
    """
    check_run(run, "kb.plots.arena_timeline")
    pe = check_pe(run, pe)
    log, limit = run.memory_log, capacity_of(run, pe)
    blocks, refusal = blocks_of(run, pe), refusal_on(run, pe)
    peak = log.peak_by_pe.get(pe, 0)
    end = _end(run, pe)
    stop = end if until is None else round(until * 1000)
    clock = clock_of(stop)
    ax, theme = canvas(ax, 3.9, top=0.78, bottom=0.62)
    about = about_run(run)
    if title and len(run.pes) > 1:
        about += f" · scratch of PE {pe}"
    if not has_scopes(log.rows, pe):
        about += f" · {UNSCOPED}"
    title = title or f"Scratch of PE {pe} over time"
    if not len(blocks) and refusal is None:
        head(ax, theme, title, about)
        message(ax, theme, f"PE {pe} of {name_of(run.name, 40)} allocated nothing.")
        return summarise(ax, f"arena_timeline of {run.name}, PE {pe}: nothing was allocated")
    if ylim is not None:
        top = ylim * 1.06 if ylim >= limit else label_room(ax, ylim, limit)
    elif refusal is not None:
        top = max(limit, refusal.cursor + refusal.wanted) * 1.06
    else:
        top = label_room(ax, peak, limit)
    time_axis(ax, theme, clock, 0, max(stop, 1) * 1.005)
    size_axis(ax, theme, top)
    strips = stretches(log.rows, pe)
    lead = common_lead(strips)
    waits = waits_of(run, pe)
    lift = strip(ax, theme, strips, lead=lead, waits=waits, name_waits=True)
    _draw_blocks(ax, theme, run, blocks)
    _name_blocks(ax, theme, run, blocks)
    limit_note(ax, theme, peak, limit, died=refusal is not None)
    if refusal is not None:
        _draw_refusal(ax, theme, refusal, limit, end)
    head(ax, theme, title, about, lift=lift)
    merged = _merged(ax, blocks)
    arenas = _arena_samples(theme, blocks, _tiles_of(run, blocks) if merged else "")
    marks = _mark_samples(theme, strips if lead else [], bool(lift and waits), died=refusal is not None)
    groups = [arenas + marks] if len(marks) < 2 else [arenas, marks]
    legend(ax, theme, *groups, below_pt=19, room_pt=60)
    died = f", overflow at {clock.text(refusal.time_ps)}" if refusal is not None else ""
    return summarise(
        ax,
        f"arena_timeline of {run.name}, PE {pe}: peak {size_text(peak)} of {size_text(limit)} "
        f"({share_text(peak, limit)}), {spaced(len(blocks))} blocks{died}",
    )


def _end(run: RunResult, pe: int) -> int:
    rows = run.op_log.rows
    parts = parts_of(rows, pe)
    return max((int(rows.end[p.first : p.stop].max(initial=p.end_ps)) for p in parts), default=0)


def _merged(ax: Axes, blocks: Blocks) -> bool:
    """Whether most of what is never given back lies in blocks too thin to show a texture: they would make one grey."""
    _, tall = size_pt(ax)
    size = blocks.size[blocks.home == KEPT]
    return bool(size[size * tall / ax.get_ylim()[1] < TEXTURE].sum() > size.sum() / 2)


def _tiles_of(run: RunResult, blocks: Blocks) -> str:
    """How many tiles hold what is never given back."""
    rows = run.memory_log.rows
    scope = rows.scope[run.memory_log.born[blocks.number[blocks.home == KEPT]]]
    tiles = np.unique(rows.scopes.tile[scope])
    return (
        many(int((tiles >= 0).sum()), "tile") if (tiles >= 0).any() else many(len(np.unique(scope)), "scope")
    )


def _draw_boundaries(ax: Axes, theme: Theme, run: RunResult, blocks: Blocks) -> None:
    """A thin line under the first block of each scope, if the lines can be told from each other."""
    _, tall = size_pt(ax)
    kept = np.flatnonzero(blocks.home == KEPT)
    scope = run.memory_log.rows.scope[run.memory_log.born[blocks.number[kept]]]
    _, first = np.unique(scope, return_index=True)
    first = kept[first]
    low = np.sort(blocks.addr[first])
    if len(low) < 2 or float(np.median(np.diff(low))) * tall / ax.get_ylim()[1] < 2:
        return
    y = blocks.addr[first]
    segments(
        ax, blocks.start_ps[first], blocks.end_ps[first], y, y, theme.line, gid="tile boundaries", width=0.5,
        zorder=2.5, capstyle="butt", snap=True,
    )  # fmt: skip


def _draw_blocks(ax: Axes, theme: Theme, run: RunResult, blocks: Blocks) -> None:
    merged = _merged(ax, blocks)
    if merged:
        _draw_boundaries(ax, theme, run, blocks)
    for name, _, paint, which in families(blocks, theme):
        one = merged and name.startswith("kept")
        left, right = blocks.start_ps[which], blocks.end_ps[which]
        low = blocks.addr[which]
        fills = rectangles(
            ax, left, right, low, low + blocks.size[which], solid(theme.persistent, theme.persistent) if one else paint,
            gid=name, zorder=2.0, width=0.5 if name.startswith(("persistent", "kept")) else 0.7,
        )  # fmt: skip
        if one and fills is not None:  # edges that two fills share would shine through
            fills.set(edgecolor="face", linewidth=0.5)


def _name_blocks(ax: Axes, theme: Theme, run: RunResult, blocks: Blocks) -> None:
    """Write each name once, in the block where it has most room, if it has room there."""
    wide, tall = size_pt(ax)
    (x0, x1), (_, top) = ax.get_xlim(), ax.get_ylim()
    across = (np.minimum(blocks.end_ps, x1) - blocks.start_ps) * wide / (x1 - x0)
    up = blocks.size * tall / top
    fits = np.flatnonzero((up >= SMALL + 2.5) & (across >= SMALL) & (blocks.home != KEPT))
    best: dict[tuple[str, int], int] = {}
    for i in fits.tolist():
        block = run.memory_log.block(int(blocks.number[i]))
        if block.name is None:
            continue
        home = int(blocks.home[i])
        text = name_of(block.name, 12)
        if across[i] >= text_pt(text, SMALL, mono=True) + 4:
            other = best.setdefault((text, home), i)
            if across[i] * up[i] > across[other] * up[other] * 1.001:
                best[text, home] = i
    _name_bands(ax, theme, run, blocks, across, up, {text for text, _ in best})
    for (text, home), i in best.items():
        paint = theme.engines[blocks.engines[blocks.engine[i]]]
        solid = home == PERSISTENT
        # what lives as long as its kernel is named near its beginning
        middle = min(across[i], 60.0 if solid else np.inf) / 2 * (x1 - x0) / wide
        write(
            ax, blocks.start_ps[i] + middle, blocks.addr[i] + blocks.size[i] / 2, text, family=MONO, fontsize=SMALL,
            ha="center", va="center_baseline", color=theme.on_persistent if solid else theme.text, zorder=4,
            path_effects=None if solid else outlined(paint.fill), gid="block name",
        )  # fmt: skip


def _name_bands(
    ax: Axes, theme: Theme, run: RunResult, blocks: Blocks, across: Numbers, up: Numbers, known: set[str]
) -> None:
    """Where tiles are hairs, their blocks of one name make a band; write the name on it."""
    wide, _ = size_pt(ax)
    x0, x1 = ax.get_xlim()
    bands = np.flatnonzero((up >= SMALL + 2.5) & (across < 3) & (blocks.home != KEPT))
    if len(bands) < 200:
        return
    middle = bands[len(bands) // 2 :]  # the first tile is often another
    for i in middle[:60].tolist():
        block = run.memory_log.block(int(blocks.number[i]))
        if block.name is None or name_of(block.name, 12) in known:
            continue
        known.add(name_of(block.name, 12))
        write(
            ax, x0 + 22 * (x1 - x0) / wide, block.addr + block.size / 2, name_of(block.name, 12), family=MONO,
            fontsize=SMALL, ha="center", va="center_baseline", color=theme.text, zorder=4, gid="block name",
            path_effects=outlined(theme.engines[block.engine].fill),
        )  # fmt: skip


def _draw_refusal(ax: Axes, theme: Theme, refusal: Refusal, limit: int, end: int) -> None:
    wide, _ = size_pt(ax)
    (x0, x1), (_, top) = ax.get_xlim(), ax.get_ylim()
    if (x1 - end) * wide / (x1 - x0) > 40:
        never = Rectangle(
            (end, 0), x1 - end, min(limit, top), facecolor="none", edgecolor=theme.faint, hatch="///", linewidth=0,
            zorder=1, gid="never reached",
        )  # fmt: skip
        ax.add_patch(never)
        write(
            ax, (end + x1) / 2, min(limit, top) * 0.45, "never\nreached", ha="center", va="center", zorder=5,
            color=theme.limit_text, fontweight="bold", bbox={"facecolor": theme.face, "edgecolor": "none", "pad": 2},
        )  # fmt: skip
    at, cursor = refusal.time_ps, min(refusal.cursor, top)
    words = f"{name_of(refusal.name)} wants {size_text(refusal.wanted)},\n{size_text(refusal.free)} are free"
    room = (text_pt(words.partition("\n")[0], LABEL) + 6) * (x1 - x0) / wide
    if at + 1.4 * room < x1:
        x, y, side = at + 0.2 * room, 0.88 * cursor, "left"
    else:  # left of the staircase and over it the picture is empty
        x, y, side = max(x0 + 0.62 * (at - x0), x0 + room), 0.84 * cursor, "right"
    segments(
        ax, np.array([x]), np.array([at]), np.array([y]), np.array([cursor]), theme.limit, gid="overflow leader",
        width=0.8, zorder=5.5,
    )  # fmt: skip
    write(
        ax, x, y, words, va="center", ha=side, color=theme.limit_text, zorder=6, linespacing=1.25,
        gid="overflow label", bbox={"facecolor": theme.face, "edgecolor": "none", "pad": 1.5},
    )  # fmt: skip
    ax.plot(
        [at], [cursor], marker="x", markersize=9, markeredgewidth=2.2, color=theme.limit, zorder=6, clip_on=False,
        linestyle="none", gid="overflow",
    )  # fmt: skip


def _arena_samples(theme: Theme, blocks: Blocks, merged: str) -> list[Any]:
    names = [(name, engine) for name, engine, _, _ in families(blocks, theme)]
    found: list[Any] = [
        Patch(facecolor=theme.persistent, edgecolor=theme.persistent, label="persistent arena")
        for name, _ in names
        if name == "persistent"
    ]
    scoped = {engine for name, engine in names if name.startswith("scoped")}
    kept = {engine for name, engine in names if name.startswith("kept")}
    found += engine_samples(theme, scoped, lead="scoped arena: ")
    if not merged:
        return found + engine_samples(theme, kept, kept=True, lead="never given back: ")
    label = f"never given back: {merged}, too thin to show"
    return [*found, Patch(facecolor=theme.persistent, edgecolor=theme.line, linewidth=0.7, label=label)]


def _mark_samples(theme: Theme, strips: Sequence[Stretch], waits: bool, *, died: bool) -> list[Any]:
    found: list[Any] = []
    others = list(dict.fromkeys(s.kind for s in strips if s.kind != "tile"))
    if others:
        found.append(line_sample(theme.accent, " and ".join(others), linewidth=3, solid_capstyle="butt"))
    if waits:
        line = theme.engines["ipc"].line
        found.append(line_sample(line, "waits for a message", linewidth=1.3, linestyle=(0, (1, 1.6))))
    return [*found, overflow_sample(theme)] if died else found
