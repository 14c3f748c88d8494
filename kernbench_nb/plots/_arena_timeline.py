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
from kernbench_nb.plots._marks import Numbers, head, limit_note, rectangles, segments, text_pt, write
from kernbench_nb.plots._places import (
    Refusal,
    Stretch,
    capacity_of,
    check_pe,
    parts_of,
    refusal_on,
    stretches,
)
from kernbench_nb.plots._scales import common_lead, size_axis, strip, time_axis
from kernbench_nb.plots._theme import Theme
from kernbench_nb.plots._words import about_run, clock_of, name_of, share_text, size_text, spaced
from kernbench_nb.runtime_api.result import RunResult

__all__ = ["arena_timeline"]


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
    pe = check_pe(run, pe)
    log, limit = run.memory_log, capacity_of(run, pe)
    blocks, refusal = blocks_of(run, pe), refusal_on(run, pe)
    peak = log.peak_by_pe.get(pe, 0)
    end = _end(run, pe)
    stop = end if until is None else round(until * 1000)
    clock = clock_of(stop)
    ax, theme = canvas(ax, 3.9, top=0.78, bottom=0.62)
    title = title or f"Scratch of PE {pe} over time"
    if not len(blocks) and refusal is None:
        head(ax, theme, title, about_run(run))
        message(ax, theme, f"PE {pe} of {name_of(run.name, 40)} allocated nothing.")
        return summarise(ax, f"arena_timeline of {run.name}, PE {pe}: nothing was allocated")
    if ylim is not None:
        top = ylim * 1.06
    elif refusal is not None:
        top = max(limit, refusal.cursor + refusal.wanted) * 1.06
    else:
        top = peak * 1.14  # room for the peak's label
    time_axis(ax, theme, clock, 0, max(stop, 1) * 1.005)
    size_axis(ax, theme, top)
    strips = stretches(log.rows, pe)
    lead = common_lead(strips)
    lift = strip(ax, theme, strips, lead=lead)
    _draw_blocks(ax, theme, blocks)
    _name_blocks(ax, theme, run, blocks)
    limit_note(ax, theme, peak, limit, died=refusal is not None)
    if refusal is not None:
        _draw_refusal(ax, theme, refusal, limit, end)
    head(ax, theme, title, about_run(run), lift=lift)
    legend(ax, theme, _samples(theme, blocks, refusal, strips, lead), below_pt=19, room_pt=60)
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


def _draw_blocks(ax: Axes, theme: Theme, blocks: Blocks) -> None:
    for name, _, paint, which in families(blocks, theme):
        left, right = blocks.start_ps[which], blocks.end_ps[which]
        low = blocks.addr[which]
        rectangles(
            ax, left, right, low, low + blocks.size[which], paint, gid=name, zorder=2.0,
            width=0.5 if name.startswith(("persistent", "kept")) else 0.7,
        )  # fmt: skip


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
            bbox=None if solid else {"facecolor": paint.fill, "edgecolor": "none", "pad": 0.8}, gid="block name",
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
            bbox={"facecolor": theme.engines[block.engine].fill, "edgecolor": "none", "pad": 0.8},
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


def _samples(
    theme: Theme, blocks: Blocks, refusal: Refusal | None, strips: Sequence[Stretch], lead: str
) -> list[Any]:
    names = [(name, engine) for name, engine, _, _ in families(blocks, theme)]
    found: list[Any] = [
        Patch(facecolor=theme.persistent, edgecolor=theme.persistent, label="persistent arena")
        for name, _ in names
        if name == "persistent"
    ]
    scoped = {engine for name, engine in names if name.startswith("scoped")}
    kept = {engine for name, engine in names if name.startswith("kept")}
    found += engine_samples(theme, scoped, lead="scoped arena: ")
    found += engine_samples(theme, kept, kept=True, lead="never given back: ")
    others = list(dict.fromkeys(s.kind for s in strips if s.kind != "tile"))
    if others and lead:
        found.append(line_sample(theme.accent, " and ".join(others), linewidth=3, solid_capstyle="butt"))
    return [*found, overflow_sample(theme)] if refusal is not None else found
