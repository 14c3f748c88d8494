"""What all pictures share: whose axes, which colours, how they show themselves."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import matplotlib.style
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from PIL import Image

import kernbench_nb as kb
from kernbench_nb.plots._canvas import Picture
from kernbench_nb.plots._theme import theme_of
from kernbench_nb.runtime_api.result import RunResult

REPO = Path(__file__).resolve().parents[2]
Draw = Callable[..., Axes]
ALL: dict[str, Draw] = {
    "arena_map": kb.plots.arena_map,
    "arena_timeline": kb.plots.arena_timeline,
    "engines": kb.plots.engines,
    "merge_tree": kb.plots.merge_tree,
    "occupancy": kb.plots.occupancy,
    "op_chart": kb.plots.op_chart,
    "roofline": kb.plots.roofline,
    "traffic": kb.plots.traffic,
}
every_plot = pytest.mark.parametrize("draw", ALL.values(), ids=ALL)
WRONG: dict[Draw, dict[str, Any]] = {
    kb.plots.arena_map: {"pe": 9},
    kb.plots.arena_timeline: {"pe": 9},
    kb.plots.engines: {"pes": 9},
    kb.plots.occupancy: {"pes": 9},
    kb.plots.op_chart: {"by": "colour"},
    kb.plots.roofline: {"labels": ["one", "too many"]},
}


def texts(ax: Axes) -> list[Text]:
    """Texts that are drawn and say something."""
    found = [t for t in ax.figure.findobj(Text) if t.get_visible() and t.get_text()]
    return [t for t in found if t.get_window_extent().width > 0]


@pytest.fixture(scope="module")
def shown(runs: Any) -> Callable[[Draw], tuple[Axes, bytes, Any]]:
    """A plot of eight PEs, its PNG and the PNG's metadata: rendered once, since that is what costs."""

    @cache
    def show(draw: Draw) -> tuple[Axes, bytes, Any]:
        ax = draw(runs("eight"))
        data, metadata = ax._repr_mimebundle_()  # type: ignore[attr-defined]
        assert set(data) == {"text/plain", "image/png"}
        assert data["text/plain"] == repr(ax)
        return ax, data["image/png"], metadata["image/png"]

    return show


def picture(ax: Axes) -> bytes:
    assert isinstance(ax, Picture)
    data, _ = ax._repr_mimebundle_()
    png: bytes = data["image/png"]
    return png


# -- whose axes --------------------------------------------------------------------------------------------------------


@every_plot
def test_without_axes_no_figure_is_left_open(runs: Any, shown: Any, draw: Draw) -> None:
    _, first, _ = shown(draw)
    mine = plt.figure()
    before = plt.get_fignums()
    try:
        assert picture(draw(runs("eight"))) == first, "drawing it again gives the same to the byte"
        assert plt.get_fignums() == before
        assert plt.gcf() is mine
        assert mine.axes == []
    finally:
        plt.close(mine)


@pytest.mark.parametrize(("draw", "wrong"), WRONG.items(), ids=[draw.__name__ for draw in WRONG])
def test_an_error_leaves_no_figure_and_no_trace(runs: Any, draw: Draw, wrong: dict[str, Any]) -> None:
    ax = Figure().add_subplot()
    before = len(ax.get_children())
    with pytest.raises(ValueError):
        draw(runs("eight"), ax=ax, **wrong)
    assert len(ax.get_children()) == before
    assert plt.get_fignums() == []


@every_plot
def test_given_axes_are_drawn_in_and_returned(runs: Any, draw: Draw) -> None:
    figure = Figure(figsize=(8, 4))
    left, right = figure.subplots(1, 2)
    assert draw(runs("eight"), ax=left) is left
    assert figure.axes == [left, right]
    assert len(left.collections) + len(left.lines) + len(left.patches) > 2
    assert len(right.collections) + len(right.lines) + len(right.patches) == 0
    figure.draw_without_rendering()


@every_plot
def test_axes_of_pyplot_stay_with_pyplot(runs: Any, draw: Draw) -> None:
    figure, ax = plt.subplots()
    try:
        assert draw(runs("eight"), ax=ax) is ax
        assert plt.get_fignums() == [figure.number]
    finally:
        plt.close(figure)


@every_plot
def test_a_title_of_ones_own(runs: Any, draw: Draw) -> None:
    ax = draw(runs("eight"), title="my $own_ title")
    assert "my $own_ title" in [t.get_text() for t in texts(ax)]


# -- how they show themselves ------------------------------------------------------------------------------------------


@every_plot
def test_a_notebook_shows_a_picture_and_a_text(shown: Any, draw: Draw) -> None:
    ax, png, metadata = shown(draw)
    assert Image.open(BytesIO(png)).size == (2 * metadata["width"], 2 * metadata["height"])
    assert metadata["width"] == 700
    assert metadata["alt"] == repr(ax)[1:-1] == str(ax)[1:-1]
    assert len(png) < 150_000


@pytest.mark.parametrize(
    ("draw", "says"),
    [
        (
            lambda r: kb.plots.arena_map(r),
            (
                "<arena_map of gqa_decode_long_kernel, PE 0 at the peak: tile 1, 1 141.2 ns, "
                "25 680 B of 1 048 576 B in use (2.4 %), 21 blocks>"
            ),
        ),
        (
            lambda r: kb.plots.arena_timeline(r, 7),
            "<arena_timeline of gqa_decode_long_kernel, PE 7: peak 25 680 B of 1 048 576 B (2.4 %), 45 blocks>",
        ),
        (
            lambda r: kb.plots.occupancy(r),
            "<occupancy of gqa_decode_long_kernel, PEs 0 to 7: peak 25 680 B of 1 048 576 B (2.4 %) on PE 0>",
        ),
        (
            lambda r: kb.plots.op_chart(r, value="bytes"),
            "<op_chart of gqa_decode_long_kernel by op: 343 272 B in all; most is dma_read with 254 208 B>",
        ),
        (
            lambda r: kb.plots.roofline(r),
            "<roofline of 1 run: gqa_decode_long: 2.88 FLOP/B, 198 GFLOP/s, 3.4 % of the roof>",
        ),
    ],
)
def test_a_repr_says_what_the_picture_says(runs: Any, draw: Draw, says: str) -> None:
    assert repr(draw(runs("eight"))) == says


def test_a_picture_saves_itself(runs: Any, tmp_path: Path) -> None:
    ax: Any = kb.plots.op_chart(runs("eight"))
    ax.savefig(tmp_path / "chart.png", dpi=50)
    image = Image.open(BytesIO((tmp_path / "chart.png").read_bytes()))
    assert image.size[0] == 350, "the whole figure, 7 inches"
    ax.remove()
    with pytest.raises(RuntimeError, match=r"was removed from its figure; draw it again to save it"):
        ax.savefig(tmp_path / "gone.png")


def test_the_repr_of_given_axes_has_no_address(runs: Any) -> None:
    ax = Figure().add_subplot()
    assert "0x" not in repr(kb.plots.arena_timeline(runs("eight"), ax=ax))


def test_axes_that_were_removed_still_have_a_text(runs: Any) -> None:
    ax = kb.plots.op_chart(runs("eight"))
    ax.remove()
    data, _ = ax._repr_mimebundle_()  # type: ignore[attr-defined]
    assert set(data) == {"text/plain"}


def test_showing_a_picture_again_gives_the_same_to_the_byte(shown: Any) -> None:
    ax, first, _ = shown(kb.plots.arena_timeline)
    assert picture(ax) == first


CHILD = """
import hashlib, kernbench_nb as kb
q, k, v = kb.sample_attention()
run = kb.decode(q[-1:], k, v, pes=8, tile=16, data=False)
for draw in (kb.plots.arena_map, kb.plots.engines):
    print(hashlib.sha256(draw(run)._repr_mimebundle_()[0]["image/png"]).hexdigest())
"""


def test_another_process_with_another_hash_seed_draws_the_same(shown: Any) -> None:
    path = os.pathsep.join([str(REPO), os.environ.get("PYTHONPATH", "")])
    child = subprocess.run(
        [sys.executable, "-c", CHILD], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": path},
    )  # fmt: skip
    assert child.returncode == 0, child.stderr
    mine = [shown(draw)[1] for draw in (kb.plots.arena_map, kb.plots.engines)]
    assert child.stdout.split() == [hashlib.sha256(png).hexdigest() for png in mine]


# -- light, dark -------------------------------------------------------------------------------------------------------


def lightness(color: str) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in mpl.colors.to_rgb(color)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    low, high = sorted((lightness(a), lightness(b)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("style", ["default", "dark_background"])
def test_everything_can_be_told_from_its_ground(style: str) -> None:
    with matplotlib.style.context(style):
        theme = theme_of()
    assert theme.dark is (style == "dark_background")
    assert contrast(theme.text, theme.face) >= 7
    assert contrast(theme.soft, theme.face) >= 4.5
    assert contrast(theme.limit_text, theme.face) >= 4.5
    assert contrast(theme.persistent, theme.on_persistent) >= 7
    for engine in ("dma", "gemm", "math", "ipc"):
        paint, kept = theme.engines[engine], theme.kept[engine]
        assert contrast(paint.line, theme.face) >= 3 - 0.06, engine
        assert contrast(theme.text, paint.fill) >= 7, engine
        assert contrast(kept.line, theme.persistent) >= 2.2, engine
    assert len({paint.hatch for paint in theme.engines.values()}) == 5


@every_plot
def test_a_dark_style_gives_a_dark_picture_with_light_text(runs: Any, draw: Draw) -> None:
    with matplotlib.style.context("dark_background"):
        ax = draw(runs("eight"))
    buffer = BytesIO()
    ax.figure.savefig(buffer, dpi=50)  # after the style has gone
    image = Image.open(buffer).convert("L")
    assert sum(image.histogram()[:64]) > 0.5 * image.width * image.height
    face = mpl.colors.to_hex(ax.get_facecolor())
    own = [t for t in texts(ax) if t.get_gid() not in ("block name", "bar name", "depth")]
    assert min(contrast(str(mpl.colors.to_hex(t.get_color())), face) for t in own) >= 3


def test_dark_axes_are_drawn_in_light_ink_whatever_the_settings_say(runs: Any) -> None:
    with matplotlib.style.context("dark_background"):
        ax = Figure().add_subplot()
    kb.plots.op_chart(runs("eight"), ax=ax)
    assert {mpl.colors.to_hex(t.get_color()) for t in texts(ax) if t.get_gid() == "amount"} == {"#ffffff"}


def test_axes_without_a_ground_take_the_one_that_the_text_is_meant_for() -> None:
    with mpl.rc_context({"axes.facecolor": "none", "figure.facecolor": "none", "text.color": "white"}):
        assert theme_of().dark
    with mpl.rc_context({"axes.facecolor": "none", "figure.facecolor": "none", "text.color": "black"}):
        assert not theme_of().dark


# -- names are data ----------------------------------------------------------------------------------------------------


@every_plot
def test_hostile_names_are_drawn_as_they_are_spelled(runs: Any, draw: Draw) -> None:
    ax = draw(runs("hostile"), **({"by": "tile"} if draw is kb.plots.op_chart else {}))
    ax.figure.draw_without_rendering()
    assert all(not t.get_parse_math() for t in texts(ax))
    assert all(not t.get_usetex() for t in texts(ax))
    assert all("\n" not in t.get_text() for t in texts(ax))


def test_hostile_names_are_all_there(runs: Any) -> None:
    ax = kb.plots.arena_map(runs("hostile"))
    said = {t.get_text() for t in texts(ax)}
    assert {"$x^{", "_", "<img>", "two lines"} <= said
    assert any(text.startswith("a name that i") and text.endswith("…") for text in said)
    chart = {t.get_text() for t in texts(kb.plots.op_chart(runs("hostile"), by="tile"))}
    assert "<img src=x oner…" in chart


def test_hostile_names_survive_usetex(runs: Any) -> None:
    with mpl.rc_context({"text.usetex": True}):
        ax = kb.plots.arena_map(runs("hostile"))
        assert not any(t.get_usetex() for t in ax.texts)


# -- laid out ----------------------------------------------------------------------------------------------------------

LAID_OUT: list[tuple[str, Draw, str, dict[str, Any]]] = [
    *[
        (f"{name} of {run}", draw, run, {})
        for run in (
            "eight",
            "long",
            "naive",
            "overflow",
            "hostile",
        )
        for name, draw in ALL.items()
    ],
    *[
        (f"{name} of {run}", ALL[name], run, {})
        for run in ("one", "prefetch", "causal", "overflow of 8")
        for name in ("arena_map", "arena_timeline", "engines")
    ],
    *[(f"{name} of no scopes", ALL[name], "no scopes", {}) for name in ("arena_map", "arena_timeline")],
    ("occupancy of overflow of 8", kb.plots.occupancy, "overflow of 8", {}),
    ("engines of a merge", kb.plots.engines, "eight", {"pes": 0, "tile": "merge PE 1"}),
    ("timeline at a peak", kb.plots.arena_timeline, "eight", {"ylim": 25_680, "title": "With scopes"}),
    *[(f"{name} of many", ALL[name], "many", {}) for name in ("engines", "occupancy")],
    *[(f"{name} of ring", ALL[name], "ring", {}) for name in ALL],
    ("map in a tile", kb.plots.arena_map, "eight", {"at": "O*c", "pe": 7, "tile": "tile 2"}),
    ("map of a copy", kb.plots.arena_map, "causal", {"at": "copy O", "tile": "tile 2,1"}),
    ("map of a merge", kb.plots.arena_map, "eight", {"at": "O_new", "tile": "merge PE 1"}),
    ("timeline to the limit", kb.plots.arena_timeline, "eight", {"ylim": 1 << 20, "until": 10_000}),
    ("engines in a tile", kb.plots.engines, "prefetch", {"tile": "tile 3"}),
    ("engines of one", kb.plots.engines, "eight", {"pes": 0}),
    ("chart by tile", kb.plots.op_chart, "one", {"by": "tile"}),
    ("columns by tile", kb.plots.op_chart, "long", {"by": "tile"}),
    ("columns by pe", kb.plots.op_chart, "many", {"by": "pe"}),
    ("counts", kb.plots.op_chart, "eight", {"value": "count"}),
    *[
        (f"{name} of {run}", ALL[name], run, {})
        for name in ("traffic", "roofline")
        for run in ("fa1", "causal")
    ],
    *[(f"merges of {run}", kb.plots.merge_tree, run, {}) for run in ("tree", "many")],
    ("bytes by engine", kb.plots.op_chart, "eight", {"by": "engine", "value": "bytes"}),
]


@pytest.mark.parametrize(("draw", "run", "how"), [c[1:] for c in LAID_OUT], ids=[c[0] for c in LAID_OUT])
def test_no_text_overlaps_another_or_leaves_the_picture(
    runs: Any, draw: Draw, run: str, how: dict[str, Any]
) -> None:
    found: RunResult = runs(run)
    if run == "ring" and draw in (kb.plots.arena_map, kb.plots.arena_timeline):
        how = {"pe": found.pes[1]}
    ax = draw(found, **how)
    ax.figure.draw_without_rendering()
    boxes = [(t.get_text(), t.get_window_extent()) for t in texts(ax)]
    assert len(boxes) >= 3  # title, line under it, and what is drawn or why there is nothing
    whole = ax.figure.bbox
    cut = [
        text
        for text, box in boxes
        if box.x0 < whole.x0 - 0.5
        or box.x1 > whole.x1 + 0.5
        or box.y0 < whole.y0 - 0.5
        or box.y1 > whole.y1 + 0.5
    ]
    assert cut == []
    overlapping = [
        (a, b)
        for i, (a, p) in enumerate(boxes)
        for b, q in boxes[i + 1 :]
        if min(p.x1, q.x1) - max(p.x0, q.x0) > 1 and min(p.y1, q.y1) - max(p.y0, q.y0) > 2.5
    ]
    assert overlapping == []


@every_plot
def test_an_empty_run_says_so(runs: Any, draw: Draw) -> None:
    ax = draw(runs("nothing"))
    said = " ".join(t.get_text() for t in texts(ax))
    assert any(words in said for words in ("allocated nothing", "ran no operation", "no byte through HBM"))
    assert len(ax.collections) == 0
    assert repr(ax).startswith(f"<{draw.__name__} of <lambda>")


@every_plot
def test_an_engine_that_ran_nothing_says_so(draw: Draw) -> None:
    run = RunResult.of(kb.launch(lambda tl: None, data=False).engine)
    bare = RunResult(completion=run.completion, topology=run.topology)
    draw(bare).figure.draw_without_rendering()


@every_plot
def test_what_is_no_run_is_refused(runs: Any, draw: Draw) -> None:
    name = draw.__name__
    with pytest.raises(
        TypeError,
        match=rf"kb\.plots\.{name} takes a RunResult, what kb\.launch or kb\.decode returns; got int 4\. "
        rf"for example run = kb\.decode\(q, k, v\); kb\.plots\.{name}\(run\)",
    ):
        draw(4)
    error = kb.ScratchOverflowError.__new__(kb.ScratchOverflowError)
    error.run = runs("overflow")
    with pytest.raises(
        TypeError, match=rf"got ScratchOverflowError\. its run is in \.run: kb\.plots\.{name}\(error\.run\)"
    ):
        draw(error)
