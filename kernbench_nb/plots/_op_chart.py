"""`op_chart`: where the time, the operations or the bytes of a run went."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from kernbench_nb.plots._canvas import LABEL, MONO, SMALL, canvas, message, plain, size_pt, summarise, ticks
from kernbench_nb.plots._legend import engine_samples, legend, line_sample
from kernbench_nb.plots._marks import Numbers, head, rectangles, segments, write
from kernbench_nb.plots._theme import Theme
from kernbench_nb.plots._words import Clock, about_run, clock_of, many, name_of, size_text, spaced
from kernbench_nb.runtime_api.asked import check_run
from kernbench_nb.runtime_api.result import RunResult
from kernbench_nb.sim_engine.trace import ENGINES

__all__ = ["By", "Value", "op_chart"]

By = Literal["op", "engine", "pe", "tile"]
Value = Literal["time", "count", "bytes"]

ROWS = 26
"""Groups up to which each has a bar with its name; more of them stand side by side as columns."""
OUTSIDE = "in no tile"
BAR = 0.62
LANE = 0.215
"""Inches a bar."""


def op_chart(
    run: RunResult,
    by: By = "op",
    value: Value = "time",
    ax: Axes | None = None,
    *,
    title: str | None = None,
) -> Axes:
    """Sums over the operations of a run, all PEs together.

    Parameters
    ----------
    run
        What to draw.
    by
        ``"op"``: by the operation's name, the largest first. ``"engine"``, ``"pe"``, ``"tile"``: in their order; what
        belongs to no tile (merges, the finish, the first loads) has a bar of its own, so that nothing is lost.
    value
        ``"time"``: ps for which engines were busy; of an operation or an engine, a thin line adds what was in flight or
        waiting. ``"count"``: operations. ``"bytes"``: what they moved, in HBM, between PEs (counted at both ends), and
        by copies in scratch.
    ax
        Axes to draw in; without them the picture makes its own, and a notebook shows it.
    title
        In place of the picture's own.

    Returns
    -------
    Axes
        Bars lie along x, in ps, operations or bytes, the first on top at y = 0; more than 26 stand as columns along y.
        The collections of bars are called ``dma``, ``gemm``, ``math`` and ``ipc``.

    Raises
    ------
    ValueError
        If `by` or `value` is none of these.
    """
    check_run(run, "kb.plots.op_chart")
    for name, given, known in (("by", by, get_args(By)), ("value", value, get_args(Value))):
        if given not in known:
            raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, got {given!r}")
    groups, sums, rest, counts = _sums(run, by, value)
    lying = len(groups) <= ROWS
    margins = {"left": 1.25, "bottom": 0.36} if lying else {"left": 0.86}
    ax, theme = canvas(ax, max(1.5, 1.0 + LANE * max(len(groups), 2)) if lying else 3.2, **margins)
    what = {
        "op": "name" if value == "count" else "operation",
        "engine": "engine",
        "pe": "PE",
        "tile": "tile",
    }[by]
    title = (
        title or {"time": "Engine time", "count": "Operations", "bytes": "Bytes moved"}[value] + f" by {what}"
    )
    about = about_run(run) + (f" · {many(len(run.pes), 'PE')}" if len(run.pes) > 1 else "")
    total = int(sums.sum())
    if not len(run.op_log):
        head(ax, theme, title, about)
        message(ax, theme, f"{name_of(run.name, 40)} ran no operation.")
        return summarise(ax, f"op_chart of {run.name} by {by}: no operation")
    if not total and not rest.sum():
        head(ax, theme, title, about)
        message(ax, theme, f"No operation of {name_of(run.name, 40)} moved a byte.")
        return summarise(ax, f"op_chart of {run.name} by {by}: nothing")
    clock = clock_of(int((sums.sum(axis=1) + rest).max()))
    text = _writer(value, clock)
    if lying:
        _draw_rows(ax, theme, groups, sums, rest, counts, text, value, mono=by in ("op", "engine"))
    else:
        _draw_columns(ax, theme, groups, sums, value, clock, what)
    whole = many(total, "operation") if value == "count" else _writer(value, clock_of(total))(total)
    head(ax, theme, title, f"{about} · {whole} in all")
    samples: list[Any] = [*engine_samples(theme, [e for i, e in enumerate(ENGINES) if sums[:, i].any()])]
    if rest.any():
        flight = {"linewidth": 1.0, "marker": "|", "markersize": 5, "markevery": [-1]}
        samples.append(line_sample(theme.soft, "in flight or waiting", **flight))
    legend(ax, theme, samples, below_pt=8 if lying else 19, room_pt=110)
    most = int(np.argmax(sums.sum(axis=1)))
    return summarise(
        ax,
        f"op_chart of {run.name} by {by}: {whole} {'busy' if value == 'time' else 'in all'}; "
        f"most is {name_of(groups[most])} with {text(int(sums[most].sum()))}",
    )


def _sums(run: RunResult, by: By, value: Value) -> tuple[list[str], Numbers, Numbers, Numbers]:
    """Names of the groups; their sums by engine; what was in flight or waiting (of one engine only); operations."""
    columns, texts = run.op_log.columns, run.op_log.categories
    engine = np.array([ENGINES.index(name) for name in texts["engine"]] or [0], np.int64)[columns["engine"]]
    if by == "pe":
        names = [f"PE {pe}" for pe in run.pes]
        table = np.zeros(max(run.pes, default=0) + 1, np.int64)
        table[list(run.pes)] = np.arange(len(run.pes))
        code = table[columns["pe"]]
    elif by == "engine":
        names, code = list(ENGINES), engine
    else:
        names = [*texts["op_name" if by == "op" else "tile"]]
        code = columns["op_name" if by == "op" else "tile"].astype(np.int64)
        if (code < 0).any():
            names.append(OUTSIDE)
            code = np.where(code < 0, len(names) - 1, code)
    amount = {
        "time": columns["busy_ps"],
        "count": np.ones(len(code), np.int64),
        "bytes": np.maximum(columns["nbytes"], 0),
    }[value]
    sums = np.zeros((len(names), len(ENGINES)), np.int64)
    np.add.at(sums, (code, engine), amount)
    counts = np.bincount(code, minlength=len(names))
    rest = np.zeros(len(names), np.int64)
    if value == "time" and by in ("op", "engine"):
        np.add.at(rest, code, np.maximum(columns["end_ps"] - columns["start_ps"] - columns["busy_ps"], 0))
    keep = np.flatnonzero(counts > 0) if value != "bytes" else np.flatnonzero(sums.sum(axis=1) > 0)
    if by == "op":
        whole = sums.sum(axis=1)
        keep = np.array(sorted(keep.tolist(), key=lambda i: (-whole[i], -rest[i], names[i])), np.int64)
    elif by == "tile":
        when = np.full(len(names), np.iinfo(np.int64).max)
        np.minimum.at(when, code, columns["start_ps"])
        keep = np.array(sorted(keep.tolist(), key=lambda i: (names[i] == OUTSIDE, when[i], i)), np.int64)
    return [names[i] for i in keep.tolist()], sums[keep], rest[keep], counts[keep]


def _writer(value: Value, clock: Clock) -> Callable[[int], str]:
    if value == "time":
        return clock.text
    return size_text if value == "bytes" else lambda count: f"{spaced(count)}×"


def _draw_rows(
    ax: Axes,
    theme: Theme,
    groups: list[str],
    sums: Numbers,
    rest: Numbers,
    counts: Numbers,
    text: Callable[[int], str],
    value: Value,
    *,
    mono: bool,
) -> None:
    whole = sums.sum(axis=1)
    longest = float((whole + rest).max()) or 1.0
    wide, _ = size_pt(ax)
    # room on the right for the numbers at the ends of the bars
    ax.set_xlim(0, longest / max(0.3, 1 - 122 / wide))
    ax.set_ylim(len(groups) - 0.4, -0.6)
    place = np.arange(len(groups), dtype=np.float64)
    done = np.zeros(len(groups), np.int64)
    for code, engine in enumerate(ENGINES):
        mine = np.flatnonzero(sums[:, code] > 0)
        left, right = done[mine], done[mine] + sums[mine, code]
        rectangles(
            ax, left, right, place[mine] - BAR / 2, place[mine] + BAR / 2, theme.engines[engine], gid=engine
        )  # fmt: skip
        done += sums[:, code]
    more = np.flatnonzero(rest > 0)
    ends = whole[more] + rest[more]
    segments(ax, whole[more], ends, place[more], place[more], theme.soft, gid="rest", width=1.0, zorder=1.8)
    segments(
        ax,
        ends,
        ends,
        place[more] - 0.16,
        place[more] + 0.16,
        theme.soft,
        gid="rest ends",
        width=1.0,
        zorder=1.9,
    )
    for i in range(len(groups)):
        words = text(int(whole[i]))
        if rest[i]:
            words += f" + {text(int(rest[i])).rpartition(' ')[0]}"
        if value == "time":
            words += f" · {spaced(int(counts[i]))}×"
        write(
            ax, whole[i] + rest[i] + 5 * ax.get_xlim()[1] / wide, place[i], words, va="center_baseline",
            fontsize=SMALL, color=theme.text, gid="amount",
        )  # fmt: skip
    names = [name_of(name, 16) for name in groups]
    ticks(ax.yaxis, place.tolist(), names, fontsize=LABEL, family=MONO if mono else None)
    ax.tick_params(axis="y", length=0, labelcolor=theme.text)
    ax.spines["bottom"].set_visible(False)
    ax.set_xticks([])


def _draw_columns(
    ax: Axes, theme: Theme, groups: list[str], sums: Numbers, value: Value, clock: Clock, what: str
) -> None:
    whole = sums.sum(axis=1)
    ax.set_xlim(-0.6, len(groups) - 0.4)
    ax.set_ylim(0, float(whole.max()) * 1.06)
    place = np.arange(len(groups), dtype=np.float64)
    done = np.zeros(len(groups), np.int64)
    half = 0.42 if len(groups) <= 120 else 0.5
    for code, engine in enumerate(ENGINES):
        mine = np.flatnonzero(sums[:, code] > 0)
        low, high = done[mine], done[mine] + sums[mine, code]
        rectangles(ax, place[mine] - half, place[mine] + half, low, high, theme.engines[engine], gid=engine)
        done += sums[:, code]
    lead = groups[0].rpartition(" ")[0]
    short = ["none" if name == OUTSIDE else name.removeprefix(f"{lead} ") for name in groups]
    wide, _ = size_pt(ax)
    step = next(
        s for s in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1 << 30) if wide / len(groups) * s >= 26
    )
    named = range(0, len(groups), step)
    ticks(ax.xaxis, list(named), [name_of(short[i], 8) for i in named], fontsize=SMALL)
    unit = {"time": clock.ps, "count": 1, "bytes": 1}[value]
    name = {"time": f" {clock.unit}", "count": "", "bytes": " B"}[value]
    top = ax.get_ylim()[1] / unit
    locator = MaxNLocator(5, steps=[1, 2, 2.5, 5, 10])
    marks = [mark for mark in locator.tick_values(0, top) if 0 <= mark <= top]
    labels = [spaced(round(mark, 3)) for mark in marks]
    labels[-1] += name
    ticks(ax.yaxis, [mark * unit for mark in marks], labels)
    ax.yaxis.grid(True, color=theme.faint, linewidth=0.5, zorder=0)
    plain(ax.set_xlabel(name_of(lead or what, 20), loc="right", fontsize=LABEL, color=theme.soft, labelpad=2))
