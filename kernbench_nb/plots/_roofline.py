"""`roofline`: runs as dots under the roof of the machine that they ran on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from kernbench_nb.plots._canvas import LABEL, SMALL, canvas, message, plain, size_pt, summarise, ticks
from kernbench_nb.plots._marks import head, segments, text_pt, write
from kernbench_nb.plots._theme import Theme
from kernbench_nb.plots._words import about_run, many, name_of, spaced
from kernbench_nb.runtime_api.asked import check_run
from kernbench_nb.runtime_api.result import RunResult
from kernbench_nb.runtime_api.text import percent_text
from kernbench_nb.runtime_api.usage import Roofline

__all__ = ["roofline"]

MOST = 16
"""Runs up to which each is named, and has a line under the picture."""

LINE = SMALL + 4.0
BELOW = 30.0
"""Points from one line under the picture to the next, and from the axes to the first."""

NAME = 34
"""Characters of a label."""

Runs = RunResult | Sequence[RunResult] | Mapping[str, RunResult]


def roofline(
    runs: Runs, labels: Sequence[str] | None = None, ax: Axes | None = None, *, title: str | None = None
) -> Axes:
    """FLOP a second against FLOP a byte: each run a dot, and the roof over it.

    The slope is the peak HBM bandwidth, the flat part the peak of the GEMM engines, both of the PEs that took part and
    from the topology; runs on other machines, or on more PEs, get a roof of their own. A thin line leads from a dot up
    to what is attainable at its intensity. A line of numbers for each run, up to 16, stands under the picture.

    Parameters
    ----------
    runs
        A run, several, or several by label.
    labels
        What the dots are called; by default the arguments in which the runs differ.
    ax
        Axes to draw in; without them the picture makes its own, and a notebook shows it.
    title
        In place of the picture's own.

    Returns
    -------
    Axes
        Both axes logarithmic, x in FLOP/B, y in GFLOP/s. The dots are the line called ``runs``, the roofs those called
        ``roof``. A run without products, or without HBM bytes, has no dot, and the line under the title says so.

    Raises
    ------
    ValueError
        If there are no runs, or not as many labels as runs.
    """
    chosen, names = _named(runs, labels)
    dots = [_Dot(name, run, run.roofline) for name, run in zip(names, chosen, strict=True)]
    shown = [dot for dot in dots if dot.roof.achieved_gflops > 0 and math.isfinite(dot.roof.intensity)]
    lines = 1 + len(shown) if 0 < len(shown) <= MOST else 0
    bottom = 0.46 + LINE / 72 * lines
    ax, theme = canvas(ax, 3.1 + bottom if shown else 1.7, left=0.72, right=0.2, bottom=bottom)
    one = len(chosen) == 1
    title = title or (f"Roofline of {name_of(chosen[0].name, 60)}" if one else "Roofline")
    kernels = list(dict.fromkeys(run.name for run in chosen))
    about = many(len(chosen), "run") + (f" of {name_of(kernels[0], 40)}" if len(kernels) == 1 else "")
    if one:
        about = about_run(chosen[0])
    absent = [dot.name for dot in dots if dot not in shown]
    if not shown:
        head(ax, theme, title, about)
        why = (
            "ran no operation"
            if not any(len(run.op_log) for run in chosen)
            else "has no products or no traffic"
        )
        message(ax, theme, f"{name_of(chosen[0].name, 40)} {why}: no place under a roof.")
        return summarise(ax, f"roofline of {chosen[0].name}: no products or no traffic")
    if absent:
        about += f" · no products or no traffic: {', '.join(name_of(name, 20) for name in absent[:4])}"
    roofs = list(dict.fromkeys((d.roof.peak_gflops, d.roof.peak_gb_per_s, len(d.run.pes)) for d in shown))
    _scale(ax, theme, shown, roofs)
    head(ax, theme, title, about)
    _draw_roofs(ax, theme, roofs)
    _draw_dots(ax, theme, shown)
    said = "; ".join(dot.words for dot in shown[:4]) + ("; ..." if len(shown) > 4 else "")
    return summarise(ax, f"roofline of {many(len(shown), 'run')}: {said}")


@dataclass(frozen=True, slots=True)
class _Dot:
    """A run with its label, and where it stands."""

    name: str
    run: RunResult
    roof: Roofline

    @property
    def words(self) -> str:
        roof = self.roof
        return (
            f"{name_of(self.name, 40)}: {_rate(roof.intensity)} FLOP/B, {_rate(roof.achieved_gflops)} GFLOP/s, "
            f"{self.share} of the roof"
        )

    @property
    def share(self) -> str:
        return percent_text(self.roof.achieved_gflops / self.roof.attainable_gflops)

    @property
    def cells(self) -> list[str]:
        """Its row of the table, without its name."""
        roof = self.roof
        binds = f"compute ({roof.compute_engine})" if roof.binds == "compute" else roof.binds
        return [_rate(roof.intensity), _rate(roof.achieved_gflops), self.share, binds]


def _named(runs: Runs, labels: Sequence[str] | None) -> tuple[list[RunResult], list[str]]:
    """The runs and what they are called.

    Raises
    ------
    TypeError, ValueError
        See `roofline`.
    """
    if isinstance(runs, Mapping):
        labels = list(runs) if labels is None else labels
        runs = list(runs.values())
    chosen = [runs] if isinstance(runs, RunResult) or not isinstance(runs, Sequence) else list(runs)
    for run in chosen:
        check_run(run, "kb.plots.roofline")
    if not chosen:
        raise ValueError("roofline: there are no runs to draw; give one or more")
    if labels is None:
        return chosen, _told_apart(chosen)
    if isinstance(labels, str) or len(labels) != len(chosen):
        raise ValueError(
            f"roofline: labels must be one for each of {many(len(chosen), 'run')}, got {labels!r}"
        )
    return chosen, [str(label) for label in labels]


def _told_apart(runs: Sequence[RunResult]) -> list[str]:
    """The kernel's name where kernels differ, and of runs of one kernel the arguments in which they differ."""
    names = []
    for i, run in enumerate(runs):
        alike = [other for other in runs if other.name == run.name]
        differ = [key for key in run.params if len({repr(other.params.get(key)) for other in alike}) > 1]
        kernel = (
            [name_of(run.name.removesuffix("_kernel"), 24)]
            if len(alike) < len(runs) or len(runs) == 1
            else []
        )
        words = kernel + [f"{key} {run.params[key]}" for key in differ[:3]]
        names.append(", ".join(words) or f"run {i}")
    return names


def _scale(ax: Axes, theme: Theme, dots: Sequence[_Dot], roofs: Sequence[tuple[float, float, int]]) -> None:
    """Axes over the dots and the bends of their roofs, whole powers of two apart in x and of ten in y."""
    ridges = [flops / bandwidth for flops, bandwidth, _ in roofs if bandwidth]
    x = [d.roof.intensity for d in dots] + ridges
    y = [d.roof.achieved_gflops for d in dots] + [flops for flops, _, _ in roofs]
    ax.set_xscale("log", base=2)
    ax.set_yscale("log", base=10)
    low, high = math.floor(math.log2(min(x)) - 0.7), math.ceil(math.log2(max(x)) + 1.2)
    ax.set_xlim(2.0**low, 2.0**high)
    bottom, top = math.log10(min(y)) - 0.45, math.log10(max(y)) + 0.35
    ax.set_ylim(10**bottom, 10**top)
    wide, _ = size_pt(ax)
    step = max(1, math.ceil((high - low) * 30 / wide))
    marks = list(range(low, high + 1, step))
    ticks(ax.xaxis, [2.0**m for m in marks], [spaced(2**m) if m >= 0 else f"1/{2**-m}" for m in marks])
    tens = range(math.ceil(bottom), math.floor(top) + 1)
    ticks(ax.yaxis, [10.0**t for t in tens], [spaced(10**t) if t >= 0 else f"{10.0**t:g}" for t in tens])
    ax.minorticks_off()
    ax.grid(True, color=theme.faint, linewidth=0.5, zorder=0)
    plain(ax.set_xlabel("intensity, FLOP/B", loc="right", fontsize=LABEL, color=theme.soft, labelpad=2))
    plain(ax.set_ylabel("GFLOP/s", loc="top", fontsize=LABEL, color=theme.soft, labelpad=2))


def _draw_roofs(ax: Axes, theme: Theme, roofs: Sequence[tuple[float, float, int]]) -> None:
    (x0, x1), (y0, y1) = ax.get_xlim(), ax.get_ylim()
    wide, tall = size_pt(ax)
    x_pt, y_pt = wide / math.log10(x1 / x0), tall / math.log10(y1 / y0)
    angle = math.degrees(math.atan2(y_pt, x_pt))
    for flops, bandwidth, pes in roofs:
        ridge = flops / bandwidth
        ax.plot(
            [x0 / 4, ridge, x1], [x0 / 4 * bandwidth, flops, flops], color=theme.text, linewidth=1.3, zorder=2,
            gid="roof",
        )  # fmt: skip
        of = f", {many(pes, 'PE')}" if len(roofs) > 1 else ""
        flat = f"{spaced(round(flops, 1))} GFLOP/s{of}"
        write(
            ax, x1, flops * 10 ** (3 / y_pt), flat, ha="right", va="bottom", fontsize=SMALL, color=theme.soft,
            gid="peak",
        )  # fmt: skip
        # along the slope, half way between where it comes in and where it bends
        first = max(x0, y0 / bandwidth)
        along = f"{spaced(round(bandwidth, 1))} GB/s"
        room = math.hypot(math.log10(ridge / first) * x_pt, math.log10(ridge / first) * y_pt)
        if room > text_pt(along, SMALL) + 8:
            middle = math.sqrt(first * ridge)
            lift = 10 ** (4 / y_pt)
            write(
                ax, middle, middle * bandwidth * lift, along, rotation=angle, rotation_mode="anchor", ha="center",
                va="bottom", fontsize=SMALL, color=theme.soft, gid="slope",
            )  # fmt: skip


def _draw_dots(ax: Axes, theme: Theme, dots: Sequence[_Dot]) -> None:
    """Dots, each with its name beside it, or with a number in it where the names have no room."""
    x = np.array([d.roof.intensity for d in dots])
    y = np.array([d.roof.achieved_gflops for d in dots])
    reach = np.array([d.roof.attainable_gflops for d in dots])
    segments(ax, x, x, y, reach, theme.line, gid="gap", width=0.8, style=(0, (1, 2)), zorder=1.8)
    wide, tall = size_pt(ax)
    (x0, x1), (y0, y1) = ax.get_xlim(), ax.get_ylim()
    left = (np.log10(x / x0) * wide / math.log10(x1 / x0)).tolist()
    up = (np.log10(y / y0) * tall / math.log10(y1 / y0)).tolist()
    names = [name_of(d.name, NAME) for d in dots]
    places = _beside(left, up, [text_pt(name, SMALL) for name in names], wide, _lowest_roof(ax, dots))
    numbered = len(dots) <= MOST and places is None
    ax.plot(
        x, y, linestyle="none", marker="o", markersize=11 if numbered else 6.5, color=theme.accent,
        markeredgecolor=theme.face, markeredgewidth=0.8, zorder=4, gid="runs",
    )  # fmt: skip
    if len(dots) > MOST:
        return
    for i, name in enumerate(names):
        if places is None:
            write(
                ax, x[i], y[i], str(i + 1), ha="center", va="center_baseline", fontsize=SMALL, fontweight="bold",
                color=theme.face, gid="number", zorder=5 + i / 100,
            )  # fmt: skip
            continue
        px, py = x0 * (x1 / x0) ** (places[i][0] / wide), y0 * (y1 / y0) ** (places[i][1] / tall)
        write(
            ax,
            px,
            py,
            name,
            va="center_baseline",
            ha="left",
            fontsize=SMALL,
            color=theme.text,
            gid="label",
            zorder=5,
        )
    _table(ax, theme, dots, numbered)


def _table(ax: Axes, theme: Theme, dots: Sequence[_Dot], numbered: bool) -> None:
    """What the dots say in numbers, under the axes."""
    rows = [["", "FLOP/B", "GFLOP/s", "of the roof", "binds"]]
    for i, dot in enumerate(dots, 1):
        name = name_of(dot.name, NAME)
        rows.append([f"{i}   {name}" if numbered else name, *dot.cells])
    right = 0.0
    for column in range(len(rows[0])):
        cells = [row[column] for row in rows]
        need = max(text_pt(cell, SMALL) for cell in cells)
        numbers = 0 < column < 4
        right += need + (16 if column else 0)
        for line, cell in enumerate(cells):
            plain(
                ax.annotate(
                    cell, (0, 0), xycoords="axes fraction", textcoords="offset points",
                    xytext=(right if numbers else right - need, -BELOW - line * LINE),
                    ha="right" if numbers else "left", va="top", fontsize=SMALL, annotation_clip=False,
                    color=theme.text if column == 0 else theme.soft, gid="table",
                )
            )  # fmt: skip


def _lowest_roof(ax: Axes, dots: Sequence[_Dot]) -> Callable[[float], float]:
    """Height in points of the lowest roof over a place in points from the left."""
    wide, tall = size_pt(ax)
    (x0, x1), (y0, y1) = ax.get_xlim(), ax.get_ylim()

    def roof(right_pt: float) -> float:
        x = x0 * (x1 / x0) ** (right_pt / wide)
        lowest = min(min(d.roof.peak_gflops, x * d.roof.peak_gb_per_s) for d in dots)
        return math.log10(lowest / y0) * tall / math.log10(y1 / y0)

    return roof


def _beside(
    left: Sequence[float],
    up: Sequence[float],
    needs: Sequence[float],
    wide: float,
    roof: Callable[[float], float],
) -> list[tuple[float, float]] | None:
    """Left ends and middles, in points, of labels beside their dots; None if one of them has no room.

    Parameters
    ----------
    left, up
        The dots.
    needs
        Width of each label.
    wide
        Width of the axes.
    roof
        Height of the lowest roof over a place: no label sticks out above it.
    """
    half = SMALL / 2 + 1
    taken = [(a - 5, a + 5, b - 5, b + 5) for a, b in zip(left, up, strict=True)]
    found: dict[int, tuple[float, float]] = {}
    for i in sorted(range(len(left)), key=lambda i: (up[i], left[i])):
        a, b, need = left[i], up[i], needs[i]
        under = b - half - 5
        beside = [
            (a + 8, b),
            (a - 8 - need, b),
            (a - need / 2, under - 2),
            (a + 4, under),
            (a - 4 - need, under),
        ]
        for px, py in beside:
            box = (px, px + need, py - half, py + half)
            if box[0] < 3 or box[1] > wide or box[2] < 3 or box[3] > min(roof(box[0]), roof(box[1])) - 3:
                continue
            if all(box[0] >= q or box[1] <= p or box[2] >= s or box[3] <= r for p, q, r, s in taken):
                taken.append(box)
                found[i] = (px, py)
                break
        else:
            return None
    return [found[i] for i in range(len(left))]


def _rate(value: float) -> str:
    """Three digits that count."""
    return spaced(float(f"{value:.3g}"))
