"""`traffic`: which tensors crossed HBM, in which direction, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from kernbench_nb.analysis.traffic import REASONS, reasons
from kernbench_nb.plots._canvas import LABEL, SMALL, canvas, message, size_pt, summarise, ticks
from kernbench_nb.plots._legend import legend, paint_sample
from kernbench_nb.plots._marks import Numbers, head, rectangles, write
from kernbench_nb.plots._theme import Paint, Theme, mix
from kernbench_nb.plots._words import about_run, many, name_of, share_text, size_text, spaced
from kernbench_nb.runtime_api.asked import check_run
from kernbench_nb.runtime_api.result import RunResult

__all__ = ["traffic"]

ROWS = 26
"""Bars up to which each tensor has its own; the rest are added up in one."""
BAR = 0.66
LANE = 0.235
"""Inches a bar."""
MEANS = {
    "news": "first in, or out for good",
    "again": "the same bytes once more",
    "notes": "written here and read back here",
}


def traffic(run: RunResult, ax: Axes | None = None, *, title: str | None = None) -> Axes:
    """HBM bytes of each tensor, one bar for what was read and one for what was written, by why they crossed.

    ``news`` is what came in for the first time or went out for good, ``again`` the same bytes once more, ``notes`` what
    the kernel wrote and read back itself; see `kernbench_nb.analysis.traffic` with ``by="reason"``.

    Parameters
    ----------
    run
        What to draw; all its PEs together.
    ax
        Axes to draw in; without them the picture makes its own, and a notebook shows it.
    title
        In place of the picture's own.

    Returns
    -------
    Axes
        Bars lie along x, in bytes, tensors in order of their first access, the first on top at y = 0; beyond 26 bars
        the smallest tensors are added up. The collections are called ``news``, ``again`` and ``notes``.
    """
    check_run(run, "kb.plots.traffic")
    bars = _few(_bars(run))
    sums = _sum(bars)
    bottom = 0.22 + 0.165 * max(1, int((sums > 0).sum()))
    ax, theme = canvas(ax, max(1.6, 0.66 + bottom + LANE * max(len(bars), 2)), left=1.2, bottom=bottom)
    title = title or "HBM traffic by tensor"
    about = about_run(run) + (f" · {many(len(run.pes), 'PE')}" if len(run.pes) > 1 else "")
    total = int(sums.sum())
    if not total:
        head(ax, theme, title, about)
        message(ax, theme, f"{name_of(run.name, 40)} moved no byte through HBM.")
        return summarise(ax, f"traffic of {run.name}: no byte through HBM")
    paints = _paints(theme)
    _draw(ax, theme, bars, paints)
    whole = f"{size_text(total)} in all"
    if sums[0] and total > sums[0]:
        whole += f", {_times(total, int(sums[0]))} the news"
    head(ax, theme, title, f"{about} · {whole}")
    samples = [
        paint_sample(paints[reason], f"{reason}: {MEANS[reason]}, {share_text(int(n), total)}")
        for reason, n in zip(REASONS, sums, strict=True)
        if n
    ]
    legend(ax, theme, *([sample] for sample in samples), below_pt=8)  # one a line: they are sentences
    said = ", ".join(f"{r} {size_text(int(n))}" for r, n in zip(REASONS, sums, strict=True))
    return summarise(ax, f"traffic of {run.name}: {whole}; {said}")


@dataclass(frozen=True, slots=True)
class _Bar:
    """What one tensor moved in one direction: bytes by reason, ``(3,)``."""

    tensor: str
    wrote: bool
    bytes: Numbers


def _bars(run: RunResult) -> list[_Bar]:
    """Tensors in order of first access; what was read before what was written, unless it was written first."""
    columns, names = run.op_log.columns, run.op_log.categories
    at = np.flatnonzero(columns["hbm_bytes"] > 0)
    if not len(at):
        return []
    of_dma = np.flatnonzero(np.array([e == "dma" for e in names["engine"]])[columns["engine"]])
    reason = reasons(run)[np.searchsorted(of_dma, at)]
    wrote = np.array([op == "dma_write" for op in names["op_name"]])[columns["op_name"][at]]
    code = 2 * columns["tensor"][at].astype(np.int64) + wrote
    sums = np.zeros((2 * len(names["tensor"]), len(REASONS)), np.int64)
    np.add.at(sums, (code, reason), columns["hbm_bytes"][at])
    _, first = np.unique(code, return_index=True)
    order = code[np.sort(first)].tolist()  # by first access of a tensor in a direction
    tensors = list(dict.fromkeys(c // 2 for c in order))
    chosen = sorted(order, key=lambda c: tensors.index(c // 2))
    return [_Bar(names["tensor"][c // 2], bool(c % 2), sums[c]) for c in chosen]


def _few(bars: list[_Bar]) -> list[_Bar]:
    if len(bars) <= ROWS:
        return bars
    size = [int(bar.bytes.sum()) for bar in bars]
    kept = set(sorted(range(len(bars)), key=lambda i: -size[i])[: ROWS - 2])
    rest = [bar for i, bar in enumerate(bars) if i not in kept]
    found = [bar for i, bar in enumerate(bars) if i in kept]
    for wrote in (False, True):
        mine = [bar for bar in rest if bar.wrote is wrote]
        if mine:
            found.append(_Bar(f"{len(mine)} more", wrote, _sum(mine)))
    return found


def _sum(bars: Sequence[_Bar]) -> Numbers:
    total = np.zeros(len(REASONS), np.int64)
    for bar in bars:
        total += bar.bytes
    return total


def _paints(theme: Theme) -> dict[str, Paint]:
    """All of it is the DMA engine's: light for what must be, its own texture turned for more, solid for notes."""
    dma = theme.engines["dma"]
    deep = mix(dma.line, "#ffffff" if theme.dark else "#000000", 0.12)
    return {
        "news": dma,
        "again": Paint(dma.line, theme.face, dma.grain, "\\\\\\\\", dma.hair),
        "notes": Paint(deep, deep, deep, "", deep),
    }


def _draw(ax: Axes, theme: Theme, bars: Sequence[_Bar], paints: dict[str, Paint]) -> None:
    table = np.stack([bar.bytes for bar in bars])
    whole = table.sum(axis=1)
    wide, _ = size_pt(ax)
    # room on the right for the numbers at the ends of the bars
    ax.set_xlim(0, float(whole.max()) / max(0.3, 1 - 96 / wide))
    ax.set_ylim(len(bars) - 0.4, -0.6)
    place = np.arange(len(bars), dtype=np.float64)
    done = np.zeros(len(bars), np.int64)
    for code, reason in enumerate(REASONS):
        mine = np.flatnonzero(table[:, code] > 0)
        left, right = done[mine], done[mine] + table[mine, code]
        low, high = place[mine] - BAR / 2, place[mine] + BAR / 2
        rectangles(ax, left, right, low, high, paints[reason], gid=reason)
        done += table[:, code]
    for i, bar in enumerate(bars):
        words = size_text(int(whole[i]))
        if bar.bytes[1] and bar.bytes[0] and not bar.bytes[2]:
            words += f" · {_times(int(whole[i]), int(bar.bytes[0]))}"
        write(
            ax, whole[i] + 5 * ax.get_xlim()[1] / wide, place[i], words, va="center_baseline", fontsize=SMALL,
            color=theme.text, gid="amount",
        )  # fmt: skip
    labels = [f"{name_of(bar.tensor, 14)} {'written' if bar.wrote else 'read'}" for bar in bars]
    ticks(ax.yaxis, place.tolist(), labels, fontsize=LABEL)
    ax.tick_params(axis="y", length=0, labelcolor=theme.text)
    ax.spines["bottom"].set_visible(False)
    ax.set_xticks([])


def _times(part: int, whole: int) -> str:
    return f"{spaced(round(part / whole, 2))}×"
