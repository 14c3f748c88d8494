"""The numbers in `op_chart` are the run's, and none is lost."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection

import kernbench_nb as kb

ENGINES = ("dma", "gemm", "math", "ipc")
LABELS = {"op": "op_name", "engine": "engine", "pe": "pe", "tile": "tile"}


def lengths(ax: Axes, *, lying: bool = True) -> dict[tuple[int, str], int]:
    """(place of the group, engine) -> length of its bar."""
    along, across = (0, 1) if lying else (1, 0)
    found: dict[tuple[int, str], int] = defaultdict(int)
    for c in ax.collections:
        if isinstance(c, PolyCollection) and c.get_gid() in ENGINES:
            for path in c.get_paths():
                place = (path.vertices[:, across].min() + path.vertices[:, across].max()) / 2
                span = path.vertices[:, along].max() - path.vertices[:, along].min()
                found[round(place), c.get_gid()] += round(span)
    return dict(found)


def amounts(run: Any, by: str, value: str) -> dict[tuple[str, str], int]:
    """The same sums from `run.frame`."""
    frame = run.frame
    group = frame[LABELS[by]].astype(object)
    group = group.where(group.notna(), "in no tile")
    if by == "pe":
        group = "PE " + group.astype(str)
    amount = {
        "time": frame.busy_ps,
        "count": frame.busy_ps * 0 + 1,
        "bytes": frame.nbytes.fillna(0).astype(int),
    }[value]
    found = amount.groupby([group, frame.engine.astype(str)]).sum()
    return {key: int(n) for key, n in found.items() if n}


@pytest.mark.parametrize("name", ["one", "eight"])
@pytest.mark.parametrize("value", ["time", "count", "bytes"])
@pytest.mark.parametrize("by", ["op", "engine", "pe", "tile"])
def test_bars_are_the_sums_of_the_frame(runs: Any, name: str, by: str, value: str) -> None:
    run = runs(name)
    ax = kb.plots.op_chart(run, by, value)  # type: ignore[arg-type]
    names = [t.get_text() for t in ax.get_yticklabels()]
    drawn = {(names[place], engine): length for (place, engine), length in lengths(ax).items()}
    assert drawn == amounts(run, by, value)


def test_columns_are_the_sums_of_the_frame(runs: Any) -> None:
    run = runs("many")
    ax = kb.plots.op_chart(run, "pe")
    drawn = {(f"PE {place}", engine): length for (place, engine), length in lengths(ax, lying=False).items()}
    assert drawn == amounts(run, "pe", "time")
    assert [t.get_text() for t in ax.get_xticklabels()][:3] == ["0", "4", "8"]


def test_tiles_keep_their_order_and_the_rest_comes_last(runs: Any) -> None:
    names = [t.get_text() for t in kb.plots.op_chart(runs("one"), "tile").get_yticklabels()]
    assert names == [*(f"tile {i}" for i in range(20)), "in no tile"]


def test_the_largest_comes_first(runs: Any) -> None:
    ax = kb.plots.op_chart(runs("eight"))
    whole: dict[int, int] = defaultdict(int)
    for (place, _), length in lengths(ax).items():
        whole[place] += length
    ordered = [whole[place] for place in sorted(whole)]
    assert ordered == sorted(ordered, reverse=True)
    assert ax.get_yticklabels()[0].get_text() == "dma_read"
    assert ax.get_ylim()[0] > ax.get_ylim()[1], "the first on top"


def test_the_thin_line_is_what_no_engine_was_busy_for(runs: Any) -> None:
    run = runs("eight")
    ax = kb.plots.op_chart(run)
    names = [t.get_text() for t in ax.get_yticklabels()]
    (rest,) = (c for c in ax.collections if isinstance(c, LineCollection) and c.get_gid() == "rest")
    drawn = {names[round(s[0][1])]: round(s[1][0] - s[0][0]) for s in rest.get_segments()}
    frame = run.frame
    wanted = (frame.end_ps - frame.start_ps - frame.busy_ps).groupby(frame.op_name, observed=True).sum()
    assert drawn == {op: int(ps) for op, ps in wanted.items() if ps}
    assert {"dma_read", "ipc_recv"} <= set(drawn)


def test_numbers_stand_at_the_ends(runs: Any) -> None:
    ax = kb.plots.op_chart(runs("one"), value="bytes")
    said = [t.get_text().replace("\u2009", " ") for t in ax.texts if t.get_gid() == "amount"]
    assert said == ["246 144 B", "45 144 B", "1 152 B"]
    assert said == [f"{n:,} B".replace(",", " ") for n in sorted(
        runs("one").frame.groupby("op_name", observed=True).nbytes.sum().loc[lambda s: s > 0].tolist(), reverse=True
    )]  # fmt: skip


def test_ten_thousand_operations_are_a_few_bars(runs: Any) -> None:
    ax = kb.plots.op_chart(runs("long"), "tile")
    assert len(ax.collections) + len(ax.patches) < 15
    assert len(lengths(ax, lying=False)) >= 3 * 512


def test_nothing_that_moves_bytes(runs: Any) -> None:
    ax = kb.plots.op_chart(runs("hostile"), value="bytes")
    assert any(t.get_text() == "No operation of kernel moved a byte." for t in ax.texts)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"by": "colour"}, r"by must be one of 'op', 'engine', 'pe', 'tile', got 'colour'"),
        ({"value": "joules"}, r"value must be one of 'time', 'count', 'bytes', got 'joules'"),
    ],
)
def test_what_there_is_none_of(runs: Any, wrong: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        kb.plots.op_chart(runs("one"), **wrong)
