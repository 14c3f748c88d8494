"""`tour`: what it prints is what the runs say, and the page and the pictures that it writes."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest
from click.testing import Result

import kernbench_nb as kb
from kernbench_nb import _tour as tour
from kernbench_nb.benches.footprint import Footprint
from kernbench_nb.runtime_api.text import bytes_text, grouped
from kernbench_nb.widgets.reader import Trace

Call = Callable[..., Result]
Refused = Callable[..., str]

PAGE = "flash_sweep.html"
PICTURES = ("flash_sweep_arenas.png", "flash_sweep_overflow.png", "flash_sweep_engines.png")


@pytest.fixture
def text(call: Call) -> str:
    """What the tour prints, without pictures."""
    result = call("tour", "--no-pictures")
    assert (result.exit_code, result.stderr) == (0, "")
    return str(result.stdout)


@pytest.fixture(scope="module")
def runs() -> dict[str, kb.RunResult]:
    """The runs that the tour is about, made here by what a notebook types."""
    q, k, v = kb.sample_attention()
    more_k, more_v = np.tile(k, (5, 1, 1)), np.tile(v, (5, 1, 1))
    with pytest.raises(kb.ScratchOverflowError) as caught:
        kb.decode(q[-1:], more_k, more_v, pes=1, tile=16, scoped=False)
    return {
        "run": kb.decode(q[-1:], k, v, pes=8, tile=16),
        "unscoped": kb.decode(q[-1:], k, v, pes=8, tile=16, scoped=False),
        "long": kb.decode(q[-1:], more_k, more_v, pes=1, tile=16),
        "dead": caught.value.run,
    }


def number(text: str) -> int:
    """``'1 173.239'`` -> 1173239, ``'12 288'`` -> 12288."""
    return int(re.sub(r"[ .]", "", text))


def test_the_machine_is_told(text: str) -> None:
    unwrapped = text.replace("\n    ", " ")
    for line in kb.resolve_topology().summary().splitlines():
        assert f"\n  {line}\n" in unwrapped


def test_the_table_of_tiles_is_that_of_the_run(text: str, runs: dict[str, kb.RunResult]) -> None:
    rows = re.findall(r"^ +(\d) +(tile \d) +(\d+):(\d+)((?: {2,}[\d .]*\d)+)$", text, re.MULTILINE)
    found = [
        (int(pe), tile, int(start), int(stop), *map(number, re.split(r" {2,}", rest.strip())))
        for pe, tile, start, stop, rest in rows
    ]
    tiles = runs["run"].tiles.sort_values(["pe", "start_ps"])
    expected = [
        (
            t.pe, t.tile, t.keys_start, t.keys_stop, t.start_ps, t.end_ps, t.end_ps - t.start_ps, t.hbm_bytes,
            t.peak_scratch,
        )
        for t in tiles.itertuples()
    ]  # fmt: skip
    assert len(expected) == 24
    assert found == expected
    total = re.search(r"^ +all (\d+) +(\d[\d ]*\d) {2,}(\d[\d ]*\d)$", text, re.MULTILINE)
    assert total
    assert int(total[1]) == len(tiles)
    assert number(total[2]) == tiles["hbm_bytes"].sum()
    assert number(total[3]) == tiles["peak_scratch"].max()


def test_the_columns_line_up(text: str) -> None:
    table = text.partition("The sweep")[2].partition("The result")[0].rstrip().splitlines()[1:]
    head, rule, *rows, second_rule, total = table
    assert rule == second_rule
    assert {len(line) for line in (head, rule, *rows, total)} == {len(rule)}
    points = [line.index(".") for line in rows]
    assert len(set(points)) == 1


def test_the_result_is_that_of_the_run(text: str, runs: dict[str, kb.RunResult]) -> None:
    run = runs["run"]
    assert f"agrees with float64 within {run.check():.1e} of (1 + |O|), tolerance 2.0e-03\n" in text
    assert f"peak scratch  {bytes_text(run.peak_scratch)} of 1 048 576 B (2.4 %)\n" in text
    S, h_kv, d, h_q, pes = 319, 3, 64, 9, 8
    once = 2 * S * h_kv * d * 2
    queries_and_output = (pes + 1) * h_q * d * 2
    assert once + queries_and_output == run.hbm_bytes
    assert (
        f"HBM           {bytes_text(run.hbm_bytes)}: {bytes_text(once)} of K and V, each once, and "
        f"{bytes_text(queries_and_output)} of Q and O\n"
    ) in text
    makespan = re.search(r"makespan +([\d .]+) ns: tiles until ([\d .]+) ns, then 7 merges", text)
    assert makespan
    assert number(makespan[1]) == run.makespan_ps
    assert number(makespan[2]) == run.tiles["end_ps"].max()


def test_what_it_would_need_without_scopes(text: str, runs: dict[str, kb.RunResult]) -> None:
    dead, limit = runs["dead"], runs["run"].topology.scratch_bytes
    error = dead.completion.error
    assert isinstance(error, kb.ScratchOverflowError)
    fit = Footprint(h_q=9, h_kv=3, d=64).capacity(16)
    assert (
        f"this text    {bytes_text(runs['unscoped'].peak_scratch)} instead of "
        f"{bytes_text(runs['run'].peak_scratch)}, and more with each tile\n"
    ) in text
    assert (
        f"5 times it   {grouped(5 * 319)} keys in {len(runs['long'].tiles)} tiles on one PE: overflows after "
        f"{fit} tiles, at key {16 * fit}\n"
    ) in text
    assert (
        f"in tile {fit}, V wants {bytes_text(error.wanted)}; {bytes_text(error.free)} are free of "
        f"{bytes_text(limit)}\n"
    ) in text
    assert f"keys on one PE take {bytes_text(runs['long'].peak_scratch)}," in text


def test_it_fits_a_plain_terminal(text: str) -> None:
    assert text.isascii()
    assert "\t" not in text
    assert "\x1b" not in text, "no colours"
    assert max(map(len, text.splitlines())) <= 100
    assert not [line for line in text.splitlines() if line != line.rstrip()]


def test_it_says_the_same_twice(call: Call, text: str) -> None:
    assert call("tour", "--no-pictures").stdout == text


def test_no_pictures_writes_nothing(call: Call, tmp_path: Path) -> None:
    assert call("tour", "--no-pictures", "--out", "not_made").exit_code == 0
    assert list(tmp_path.iterdir()) == []


# -- the page --------------------------------------------------------------------------------------------------


class Page(HTMLParser):
    """What a browser would find: tags with their attributes, texts, and the state of each view."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.inside = ""
        self.feed(text)
        states = [json.loads(data) for data in self.texts["script application/json"]]
        self.traces = [
            [
                Trace(head, base64.b64decode(state["buffers"][name]))
                for head, name in zip(state["state"]["heads"], ("trace", "trace_b"), strict=False)
            ]
            for state in states
        ]
        self.states: list[dict[str, Any]] = [state["state"] for state in states]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.inside = " ".join([tag, *(str(value) for name, value in attrs if name == "type")])
        self.texts.setdefault(self.inside, []).append("")

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.texts[self.inside][-1] += data


@pytest.fixture(scope="module")
def taken() -> tour.Tour:
    """The tour's runs."""
    return tour.take()


@pytest.fixture
def page(taken: tour.Tour, tmp_path: Path) -> Page:
    """The page, read back."""
    path, _ = tour.page(taken, tmp_path / "deep" / "er")
    assert path == tmp_path / "deep" / "er" / PAGE
    return Page(path.read_text(encoding="utf-8"))


def test_the_page_holds_the_sweep_and_the_pair(page: Page, runs: dict[str, kb.RunResult]) -> None:
    (sweep,), (scoped, dead) = page.traces
    for trace, run in ((sweep, runs["run"]), (scoped, runs["long"]), (dead, runs["dead"])):
        assert trace.head["makespan"] == run.makespan_ps
        assert {p["pe"]: p["peak"] for p in trace.head["pes"]} == dict(run.peak_scratch_by_pe)
        assert trace.ops["start"].tolist() == run.op_log.rows.start.tolist()
        assert trace.tiles["hbm"].sum() == run.hbm_bytes


def test_the_sweep_of_the_page_has_values(page: Page) -> None:
    (sweep,) = page.traces[0]
    assert sweep.head["values"]
    assert sweep.head["final"] == "float64 reference"
    assert sweep.head["score"]["tokens"][-2:] == [" earth", "."]


def test_the_pair_of_the_page_opens_at_the_overflow(page: Page, runs: dict[str, kb.RunResult]) -> None:
    state, (scoped, dead) = page.states[1], page.traces[1]
    error = runs["dead"].completion.error
    assert isinstance(error, kb.ScratchOverflowError)
    assert state["names"] == ["With scratch scopes", "Without scratch scopes"]
    assert scoped.head["error"] is None
    assert (dead.head["error"]["wanted"], dead.head["error"]["free"]) == (error.wanted, error.free)
    assert (state["pe"], state["step"]) == (0, len(runs["dead"].tiles))


def test_what_the_page_says_is_read_off_the_runs(page: Page, runs: dict[str, kb.RunResult]) -> None:
    task, scratch, correction, merging, engines, stands, overflow, _ = page.texts["p"]
    run, dead, limit = runs["run"], runs["dead"], runs["run"].topology.scratch_bytes
    error, last = page.traces[1][1].head["error"], page.states[0]["pe"]
    assert f"has read {run.params['S_kv']} tokens" in task
    assert f"memory of a PE, {bytes_text(limit)}." in scratch
    assert "c = exp(m_old − m_new)" in correction
    assert f"PE {last} → {last - 1} → … → 0" in merging
    tiles = page.traces[0][0].tiles
    sweep = tiles["place"] > 0
    busiest = max(
        float((tiles[e] / (tiles["end"] - tiles["start"]))[sweep].max()) for e in ("dma", "gemm", "math")
    )
    assert (busiest < 0.5) == ("None is for half of a tile" in engines)
    assert f"{run.bound} binds" in engines
    assert f"the last tile of PE {last}, just before" in stands
    assert f"its {len(runs['long'].tiles)} tiles take {bytes_text(runs['long'].peak_scratch)}, " in overflow
    done = len(dead.tiles) - 1
    assert f"After {done} tiles, in tile {done}, V wants {bytes_text(error['wanted'])}, and " in overflow
    assert (
        f"{bytes_text(error['free'])} are free. {grouped(error['live_count'])} blocks fill the scratch"
        in overflow
    )
    again = [block for block in error["live"] if block["again"]]
    assert f"{error['read_again']} of them, {', '.join(b['name'] for b in again)}: 9 672 B." in overflow


def test_the_page_asks_for_nothing(page: Page) -> None:
    links = {"src", "href", "srcset", "action", "data", "poster"}
    pointing = {
        value.partition(",")[0]
        for _, attrs in page.tags
        for k, value in attrs.items()
        if k in links and value
    }
    assert pointing == {"data:image/svg+xml;base64"}
    assert not {"link", "iframe", "object", "embed", "base"} & {tag for tag, _ in page.tags}
    (policy,) = [str(a["content"]) for _, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ")
    assert "http" not in policy
    code = "".join(page.texts["style"] + page.texts["script module"])
    # the name of SVG is no address that anything asks for
    assert set(re.findall(r"https?://[^\s'\"`]+", code)) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"@import|url\((?!#|['\"]?data:|\$|`)", code)


def test_hostile_names_stay_text_on_the_page(page: Page, tmp_path: Path) -> None:
    bad = "</script><img src=x onerror=alert(1)>"
    runs = tour.take()
    for run in (runs.run, runs.long, runs.dead):
        object.__setattr__(run, "name", bad)
    path, _ = tour.page(runs, tmp_path)
    hostile = Page(path.read_text(encoding="utf-8"))
    assert [tag for tag, _ in hostile.tags] == [tag for tag, _ in page.tags]
    assert [attrs for _, attrs in hostile.tags if "onerror" in attrs] == []
    assert hostile.states[0]["heads"][0]["title"] == bad


# -- pictures --------------------------------------------------------------------------------------------------


def test_page_and_pictures_are_where_it_says(call: Call, text: str, tmp_path: Path) -> None:
    result = call("tour", "--out", "deep/er")
    assert (result.exit_code, result.stderr) == (0, "")
    folder = tmp_path / "deep" / "er"
    assert sorted(path.name for path in folder.iterdir()) == sorted((PAGE, *PICTURES))
    assert result.stdout.startswith(text), "what is written changes nothing of the text"
    told = re.findall(r"^  (deep\S+\.\w+): \w", result.stdout.removeprefix(text), re.MULTILINE)
    assert [Path(path) for path in told] == [Path("deep/er") / name for name in (PAGE, *PICTURES)]
    for name in PICTURES:
        pixels = (255 * matplotlib.image.imread(folder / name)).astype(np.uint8)
        height, width, _ = pixels.shape
        assert height > 400
        assert width > 800
        assert len(np.unique(pixels.view(np.uint32))) > 20, f"{name} is (nearly) empty"


def test_page_and_pictures_are_the_same_twice_and_replaced(call: Call, tmp_path: Path) -> None:
    drawn = []
    for _ in range(2):
        assert call("tour").exit_code == 0
        drawn.append([(tmp_path / name).read_bytes() for name in (PAGE, *PICTURES)])
    assert drawn[0] == drawn[1]


def test_a_folder_that_cannot_be_made_is_one_line(call: Call, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    result = call("tour", "--out", "taken/pictures")
    assert result.exit_code == 1
    assert "Without scopes" in result.stdout, "what was found out is shown before"
    assert re.fullmatch(
        r"Error: cannot write to taken.pictures: .+\. Choose another folder with --out DIR, or write nothing with "
        r"--no-pictures\.\n",
        result.stderr,
    )


def test_a_folder_that_cannot_be_written_is_one_line(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    # not by chmod: whoever is root may write anywhere
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", refuse)
    result = call("tour")
    assert result.exit_code == 1
    assert result.stderr == (
        "Error: cannot write to .: Permission denied. Choose another folder with --out DIR, or write nothing with "
        "--no-pictures.\n"
    )


def test_a_wrong_output_ends_the_tour(refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    # the run is right, so it is what it is compared with that has to be wrong
    monkeypatch.setattr(
        "kernbench_nb.benches.reference.attention", lambda q, *_, **__: (np.ones(q.shape), None)
    )
    assert refused(1, "tour", "--no-pictures").startswith(
        "output differs from its float64 reference: output["
    )


def test_the_readme_names_what_is_written() -> None:
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text(encoding="utf-8")
    assert [name for name in (PAGE, *PICTURES) if f"`{name}`" not in readme] == []
