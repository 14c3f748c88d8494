"""The self-contained page: what is in it, that nothing is fetched, and that labels stay text."""

from __future__ import annotations

import base64
import html.parser
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernbench_nb as kb
from kernbench_nb.runtime_api.result import RunResult
from kernbench_nb.widgets.html import Section, page_text, write_page
from kernbench_nb.widgets.reader import Trace
from kernbench_nb.widgets.trace import encode

RunOf = Callable[[str], RunResult]
BAD = '</script><!--<script><img src=x onerror="window.bad=1">\'&\u2028'


class Page(html.parser.HTMLParser):
    """Elements of a page, with their attributes and texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None], str]] = []
        self.inside = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs), ""))
        self.inside = True

    def handle_endtag(self, tag: str) -> None:
        self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside:
            tag, attrs, text = self.found[-1]
            self.found[-1] = tag, attrs, text + data

    def all(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        return [(attrs, text) for name, attrs, text in self.found if name == tag]


def states(page: Page) -> list[Any]:
    return [json.loads(text) for attrs, text in page.all("script") if attrs.get("type") == "application/json"]


def test_a_run_writes_its_page(tmp_path: Path, run_of: RunOf) -> None:
    run = run_of("decode")
    path = run.to_html(tmp_path / "run.html", pe=7, tile="tile 2", at="O*c")
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    assert page.all("title")[0][1] == "Flash decode"
    (saved,) = states(page)
    head, buffer = encode(run)
    assert saved["state"]["heads"] == [head]
    assert base64.b64decode(saved["buffers"]["trace"]) == buffer
    assert (saved["state"]["pe"], saved["state"]["granularity"], saved["state"]["view"]) == (7, "op", "page")
    t = Trace(saved["state"]["heads"][0], base64.b64decode(saved["buffers"]["trace"]))
    assert t.ops["start"].tolist() == run.op_log.rows.start.tolist()


def test_equal_runs_write_equal_pages(tmp_path: Path, run_of: RunOf) -> None:
    a, b = (run_of("user").to_html(tmp_path / f"{name}.html").read_bytes() for name in "ab")
    assert a == b


def test_a_pair_is_one_page(tmp_path: Path, run_of: RunOf) -> None:
    view = kb.step(run_of("long"), run_of("overflow"))
    text = view.to_html(tmp_path / "pair.html").read_text(encoding="utf-8")
    (saved,) = states(Page(text))
    assert len(saved["state"]["heads"]) == 2
    assert set(saved["buffers"]) == {"trace", "trace_b"}
    assert saved["state"]["step"] == 48
    view.close()


def test_a_page_of_several_views_has_each_module_once(tmp_path: Path, run_of: RunOf) -> None:
    views = [
        kb.step(run_of("decode")),
        kb.step(run_of("long"), run_of("overflow")),
        kb.show_log(run_of("decode")),
    ]
    sections = [
        Section(views[0], "The sweep", "One paragraph.\n\nAnother < one."),
        Section(views[1], "Beside it"),
        Section(views[2]),
        Section(text="The end."),
    ]
    path = write_page(tmp_path / "page.html", sections, title="A tour", lead="What is on it.")
    page = Page(path.read_text(encoding="utf-8"))
    modules = [text for attrs, text in page.all("script") if attrs.get("type") == "module"]
    assert len(modules) == 2
    assert [len(re.findall(r"await mount\(\$\w+\.default, \d\);", m)) for m in modules] == [2, 1]
    assert [text for _, text in page.all("h2")] == ["The sweep", "Beside it"]
    assert [text for _, text in page.all("p")] == [
        "What is on it.",
        "One paragraph.",
        "Another < one.",
        "The end.",
    ]
    assert [attrs["id"] for attrs, _ in page.all("div")] == ["view-0", "view-1", "view-2"]
    for view in views:
        view.close()


def test_nothing_on_it_comes_from_elsewhere(tmp_path: Path, run_of: RunOf) -> None:
    text = run_of("decode").to_html(tmp_path / "run.html").read_text(encoding="utf-8")
    page = Page(text)
    policy = next(
        a["content"] for a, _ in page.all("meta") if a.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'")
    assert "connect-src" not in policy
    for tag in ("link", "iframe", "object", "embed", "base"):
        assert page.all(tag) == []
    assert all("src" not in attrs for attrs, _ in page.all("script"))
    outside = [
        part for _, text in page.all("script") for part in re.findall(r"\bfrom '(\S+)'|import\('?(\S+)", text)
    ]
    assert outside == []
    assert "<link" not in text


def test_hostile_labels_stay_text(tmp_path: Path) -> None:
    def kernel(x: Any, *, tl: Any) -> None:
        with tl.scratch_scope(BAD):
            tl.load(x, (4,), name=BAD)

    run = kb.launch(kernel, np.ones(4, np.float32))
    object.__setattr__(run, "name", BAD)
    clean = kb.launch(kernel, np.ones(4, np.float32))
    pages = [Page(r.to_html(tmp_path / "page.html").read_text(encoding="utf-8")) for r in (run, clean)]
    # the same elements, whatever the names say
    assert [tag for tag, _, _ in pages[0].found] == [tag for tag, _, _ in pages[1].found]
    assert pages[0].all("title")[0][1] == BAD
    (saved,) = states(pages[0])
    assert saved["state"]["heads"][0]["strings"].count(BAD) == 1
    assert [a for a, _ in pages[0].all("img") if "onerror" in a] == []


def test_headings_and_titles_are_escaped() -> None:
    text = page_text([Section(heading=BAD, text=BAD)], title=BAD, lead=BAD)
    assert "<img" not in text
    assert [tag for tag, _, _ in Page(text).found].count("script") == 0


def test_the_picture_in_a_noscript_is_escaped_twice() -> None:
    def kernel(x: Any, *, tl: Any) -> None:
        with tl.scratch_scope(BAD):
            tl.load(x, (4,), name=BAD)

    view = kb.step(kb.launch(kernel, np.ones(4, np.float32)))
    data, _ = view._repr_mimebundle_()
    tags = [tag for tag, _, _ in Page(data["text/html"]).found]
    assert tags == ["img"]
    inside = Page(view.svg())
    assert {tag for tag, _, _ in inside.found} <= {
        "svg", "title", "style", "defs", "pattern", "path", "rect", "text"
    }  # fmt: skip
    view.close()


def test_where_it_opens_is_checked_before_anything_is_written(tmp_path: Path, run_of: RunOf) -> None:
    with pytest.raises(ValueError, match="no tile is called 'tile 9'"):
        run_of("decode").to_html(tmp_path / "run.html", tile="tile 9")
    assert list(tmp_path.iterdir()) == []


def test_a_page_needs_no_notebook_packages(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "for name in ('anywidget', 'ipywidgets', 'traitlets', 'IPython'): sys.modules[name] = None\n"
        "import kernbench_nb as kb, numpy as np\n"
        "run = kb.launch(lambda x, *, tl: tl.load(x, (4,)), np.ones(4, np.float32))\n"
        f"run.to_html({str(tmp_path / 'page.html')!r})\n"
        "try:\n"
        "    kb.step(run)\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert (tmp_path / "page.html").stat().st_size > 10_000
    assert child.stdout.startswith(
        "views in a notebook need anywidget, which is not installed: pip install 'kernben"
    )
