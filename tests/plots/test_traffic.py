"""The numbers in `traffic` are those of the frame, and none is lost."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection

import kernbench_nb as kb

REASONS = ("news", "again", "notes")


def lengths(ax: Axes) -> dict[tuple[str, str], int]:
    """(label, reason) -> bytes."""
    labels = [t.get_text() for t in ax.get_yticklabels()]
    found = {}
    for c in ax.collections:
        if isinstance(c, PolyCollection) and c.get_gid() in REASONS:
            for path in c.get_paths():
                x, y = path.vertices.T
                found[labels[round(y.mean())], str(c.get_gid())] = round(x.max() - x.min())
    return found


@pytest.mark.parametrize("name", ["naive", "fa1", "causal", "eight", "ring", "prefetch"])
def test_bars_are_the_sums_of_the_frames(runs: Any, name: str) -> None:
    run = runs(name)
    drawn = lengths(kb.plots.traffic(run))
    table, reasons = kb.analysis.traffic(run), kb.analysis.traffic(run, by="reason")
    for tensor in table.index:
        for word, column in (("read", "read_bytes"), ("written", "write_bytes")):
            assert (
                sum(n for (label, _), n in drawn.items() if label == f"{tensor} {word}")
                == table.loc[tensor, column]
            )
    for reason in REASONS:
        assert sum(n for (_, why), n in drawn.items() if why == reason) == reasons.loc[reason, "bytes"]


def test_the_picture_of_the_course(runs: Any) -> None:
    """Course 01: Q, K, V and O thin, S and P thick, each of them twice."""
    ax = kb.plots.traffic(runs("naive"))
    thin, thick = 319 * 64 * 2, 319 * 319 * 2
    news = dict.fromkeys(((name, "news") for name in ("K read", "Q read", "V read", "O written")), thin)
    notes = dict.fromkeys(((name, "notes") for name in ("S written", "S read", "P written", "P read")), thick)
    assert lengths(ax) == {**news, **notes}
    assert ax.get_ylim()[0] > ax.get_ylim()[1], "the first on top"
    assert repr(ax) == (
        "<traffic of naive_attention_kernel: 977 416 B in all, 5.98× the news; news 163 328 B, again 0 B, "
        "notes 814 088 B>"
    )


def test_order_and_amounts(runs: Any) -> None:
    ax = kb.plots.traffic(runs("fa1"))
    assert [t.get_text() for t in ax.get_yticklabels()] == [
        "K read", "V read", "Q read", "m read", "m written", "l read", "l written", "O read", "O written",
    ]  # fmt: skip
    said = [t.get_text().replace("\u2009", " ") for t in ax.texts if t.get_gid() == "amount"]
    assert said == [
        "40 832 B", "40 832 B", "204 160 B · 5×", "6 380 B", "6 380 B", "6 380 B", "6 380 B", "408 320 B", "408 320 B",
    ]  # fmt: skip


def test_the_legend_names_what_is_drawn(runs: Any) -> None:
    def entries(name: str) -> list[str]:
        ax = kb.plots.traffic(runs(name))
        legends = [child for child in ax.get_children() if type(child).__name__ == "Legend"]
        return [t.get_text() for legend in legends for t in legend.get_texts()]

    assert entries("eight") == ["news: first in, or out for good, 100 %"]
    assert entries("naive") == [
        "news: first in, or out for good, 16.7 %", "notes: written here and read back here, 83.3 %",
    ]  # fmt: skip
    assert [text.partition(":")[0] for text in entries("fa1")] == list(REASONS)


def test_many_tensors_are_the_largest_and_the_rest() -> None:
    def kernel(*tensors: Any, tl: Any) -> None:
        for i, t in enumerate(tensors):
            tl.store(t, tl.load(t, (i + 1,)))

    sizes = range(1, 21)
    run = kb.launch(kernel, *(np.zeros(n, np.float32) for n in sizes), data=False)
    ax = kb.plots.traffic(run)
    labels = [t.get_text() for t in ax.get_yticklabels()]
    assert len(labels) == 26
    assert labels[-2:] == ["8 more read", "8 more written"]
    drawn = lengths(ax)
    assert sum(drawn.values()) == run.hbm_bytes == 2 * 4 * sum(sizes)
    assert drawn["8 more read", "news"] == 4 * sum(range(1, 9))


def test_a_kernel_that_moves_nothing(runs: Any) -> None:
    ax = kb.plots.traffic(runs("no scopes"))
    assert any(t.get_text() == "kernel moved no byte through HBM." for t in ax.texts)
