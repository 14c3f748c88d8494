"""Still pictures: small, stable, and true to the run."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kernbench_nb as kb
from kernbench_nb.widgets import fallback
from kernbench_nb.widgets.picture import LIMIT_BYTES, Picture, clipped
from kernbench_nb.widgets.places import find_spot, opening
from kernbench_nb.widgets.reader import Trace
from kernbench_nb.widgets.trace import trace_of

TraceOf = Callable[[str], Trace]
SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    return [e.text or "" for e in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def draw(t: Trace) -> str:
    spot = opening(t)
    return fallback.draw_run(t, spot.pe, spot.step)


def test_every_picture_is_small_well_formed_and_says_what_it_is(any_run: str, trace: TraceOf) -> None:
    t = trace(any_run)
    for svg in (draw(t), fallback.draw_arenas(t, t.pes[0]["pe"], 0), fallback.draw_log(t, "op")):
        root = ElementTree.fromstring(svg)
        assert root.get("role") == "img"
        assert root.find(f"{SVG}title").text == root.get("aria-label")
        assert len(svg.encode()) <= LIMIT_BYTES
        assert any(text.startswith(t.head["title"][:20]) for text in texts(svg))


def test_the_picture_of_the_tour(trace: TraceOf) -> None:
    t = trace("decode")
    spot = find_spot(t, pe=7, tile="tile 2", at="O*c")
    said = texts(fallback.draw_run(t, spot.pe, spot.step))
    assert "PE 7, tile 2, 3 of 3, keys 312 to 318" in said
    assert "after O*c (mul, 3x3x64, 3x3x1 -> 3x3x64): 13 ns" in said
    assert {"Q", "m", "l", "O", "K", "V", "qk", "s", "O*c"} <= set(said)
    assert "18 live blocks: persistent below, scoped above" in said
    assert "25.1 KiB, 2.4 %" in said  # peak scratch


def test_blocks_without_a_name_are_called_by_what_made_them() -> None:
    def softmax(x: Any, y: Any, n: int, *, tl: Any) -> None:
        with tl.scratch_scope():
            s = tl.load(x, (n,))
            e = tl.exp(s - tl.max(s))
            p = e / tl.sum(e)
            tl.store(y, p)

    t = trace_of(kb.launch(softmax, np.ones(319, np.float32), np.zeros(319, np.float32), 319))
    spot = find_spot(t, at="p")
    said = texts(fallback.draw_run(t, spot.pe, spot.step))
    assert [word for word in said if word in ("s", "max", "sub", "e", "sum", "p")] == [
        "p",
        "sum",
        "e",
        "sub",
        "max",
        "s",
    ]
    assert "6 live blocks: persistent below, scoped above" in said


@pytest.mark.parametrize(("group", "hues"), [("op", {*"agtq"}), ("engine", {*"agtq"}), ("tile", {"u"})])
def test_bars_of_a_log_have_the_hue_of_their_engine(trace: TraceOf, group: str, hues: set[str]) -> None:
    drawn = ElementTree.fromstring(fallback.draw_log(trace("decode"), group))
    assert {bar.get("class") for bar in drawn.iter(f"{SVG}rect")} - {None} == hues


def test_sizes_beside_the_axis_have_room() -> None:
    assert [fallback._tick(n) for n in (0, 5152, 107184, 124_000, 1 << 20)] == [
        "0 B",
        "5 KiB",
        "105 KiB",
        "121 KiB",
        "1 MiB",
    ]
    assert fallback._tick(53_592) == "52.3 KiB"


def test_the_picture_of_an_overflow(trace: TraceOf) -> None:
    t = trace("overflow")
    said = texts(draw(t))
    assert "V wants 6 144 B, 6 112 B are free of 1 048 576 B" in said
    assert "limit 1 MiB" in said
    assert any(
        text.startswith("794 live blocks; ") and text.endswith("nothing is given back") for text in said
    )


def test_the_picture_of_a_pair(trace: TraceOf) -> None:
    pair = fallback.draw_pair(trace("long"), trace("overflow"), ("With", "Without"), 0, 48)
    said = texts(pair)
    assert "of 794 live blocks 5 are read again" in said
    assert said.count("limit 1 MiB") == 2
    assert not any("Overflow" in text for text in texts(_pair_at(trace, 10)))
    assert len(pair.encode()) <= LIMIT_BYTES


def _pair_at(trace: TraceOf, step: int) -> str:
    return fallback.draw_pair(trace("long"), trace("overflow"), ("With", "Without"), 0, step)


def test_two_runs_of_the_same_length_end_together(trace: TraceOf) -> None:
    said = texts(fallback.draw_pair(trace("long"), trace("long"), ("a", "b"), 0, 100))
    ends = [text for text in said if text.startswith("after ")]
    assert len(ends) == 2
    assert ends[0] == ends[1]
    assert ends[0].endswith(": 3.5 KiB in use, 25.1 KiB at most")


def test_a_pe_that_one_of_two_did_not_use(trace: TraceOf) -> None:
    assert "this PE took no part" in texts(
        fallback.draw_pair(trace("decode"), trace("prefetch"), ("a", "b"), 7, 1)
    )


def test_a_log_by_each_group_adds_up(trace: TraceOf) -> None:
    t = trace("decode")
    engine = t.tables["kinds"]["engine"][t.ops["kind"]]
    whole = int(t.tables["kinds"]["busy"][t.ops["kind"]][engine < 4].sum())
    for group in ("op", "engine", "pe", "tile"):
        names, busy, count = fallback.busy_by(t, group)
        assert int(busy.sum()) == whole
        assert int(count.sum()) == int((engine < 4).sum())
        assert len(names) == len(set(names)) == len(busy)
    assert set(fallback.busy_by(t, "engine")[0]) == {"dma", "gemm", "math", "ipc"}
    assert fallback.busy_by(t, "pe")[0] == [f"PE {i}" for i in range(8)]


@pytest.mark.parametrize("pes", [64, 128])
def test_many_pes_and_many_tiles_stay_small(pes: int) -> None:
    t = trace_of(kb.bench("gqa_decode", h_q=4, d=32, S_kv=pes * 64 * 8, pes=pes, tile=64, data=False))
    assert len(draw(t).encode()) <= LIMIT_BYTES
    arenas = fallback.draw_arenas(t, t.pes[-1]["pe"], 3)
    assert f"and {pes - 18} more PEs" in texts(arenas)


def test_long_runs_stay_small() -> None:
    run = kb.bench("gqa_decode", h_q=4, d=32, S_kv=512 * 16, pes=1, tile=16, data=False)
    assert len(run.tile_log) == 512
    t = trace_of(run)
    assert len(draw(t).encode()) <= LIMIT_BYTES


def test_labels_are_escaped_and_long_ones_cut() -> None:
    picture = Picture(100, 50, "<&>\"'")
    picture.text(0, 0, "<script>&")
    picture.text(0, 0, clipped("x " * 90, 20))
    root = ElementTree.fromstring(picture.svg())
    assert root.get("aria-label") == "<&>\"'"
    assert [e.text for e in root.iter(f"{SVG}text")] == ["<script>&", "x x x x x x x x x x…"]


def test_numbers_are_written_alike() -> None:
    picture = Picture(10, 10, "")
    picture.rect(1, 2.04, 3.25, np.float64(4), "u")
    picture.rect(1, 2, 0, 4, "u")  # nothing to see
    assert '<rect class="u" x="1" y="2" width="3.2" height="4"/>' in picture.svg()
    assert picture.svg().count("<rect") == 3  # the pattern's, the ground, and the one


@pytest.mark.parametrize("name", ["n" * 100_000, "a\x00b", "a\x0bb", "a\ufffeb", "a\ud800b"])
def test_any_name_makes_a_picture(name: str) -> None:
    def kernel(p: Any, *, tl: Any) -> None:
        with tl.scratch_scope(kind="tile"):
            x = tl.load(p, (4,), name=name)
            tl.exp(x, name=name)

    run = kb.launch(kernel, np.ones(4, np.float32))
    svg = draw(trace_of(run))
    assert len(svg.encode()) <= LIMIT_BYTES
    ElementTree.fromstring(svg)
    assert kb.step(run)._repr_mimebundle_()
