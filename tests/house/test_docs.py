"""What the pages show of the package runs, and what they list of it is all there is."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import kernbench_nb as kb
from kernbench_nb.topology.costs import SLOW_OPS

REPO = Path(__file__).resolve().parents[2]
API = (REPO / "docs" / "api.md").read_text(encoding="utf-8")
README = (REPO / "README.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def language() -> list[tuple[str, list[str]]]:
    """The groups of `tl` and the names in each, by the table of docs/api.md."""
    section = API.partition("\n## The kernel language\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|`]+) \| (`[^|]+) \|", section, re.MULTILINE)
    return [(group, re.findall(r"`([a-z]\w*)(?:\([^`]*\))?`", cell)) for group, cell in rows]


@pytest.mark.parametrize("page", ["README", "docs/api"])
def test_the_examples_of_a_page_run_one_after_the_other(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall(README if page == "README" else API)
    assert blocks
    names: dict[str, Any] = {}
    for number, block in enumerate(blocks):
        # in a file, where views find the names of a kernel's variables
        path = tmp_path / f"block{number}.py"
        path.write_text(block, encoding="utf-8")
        exec(compile(block, str(path), "exec"), names)
    saved = re.findall(r'savefig\("([^"]+)"', "".join(blocks))
    assert saved
    assert all((tmp_path / picture).stat().st_size > 10_000 for picture in saved)


def test_every_frame_and_every_picture_is_listed() -> None:
    section = API.partition("\n## Frames\n")[2].partition("\n## ")[0]
    assert sorted(re.findall(r"^\| `(\w+)\(", section, re.MULTILINE)) == sorted(kb.analysis.__all__)
    rows = {room: re.search(rf"^\| `{room}` \|.*$", API, re.MULTILINE) for room in ("analysis", "plots")}
    for room, row in rows.items():
        assert row is not None
        assert set(re.findall(r"`(\w+)`", row[0])) - {room} == set(getattr(kb, room).__all__)


def test_every_operation_of_the_language_is_listed_once() -> None:
    listed = Counter(name for _, names in language() for name in names)
    assert [name for name, count in listed.items() if count > 1] == []
    assert set(listed) == {name for name in dir(kb.TLContext) if not name.startswith("_")}


def test_the_slow_operations_are_those_of_the_machine() -> None:
    assert set(dict(language())["elementwise, slow"]) == set(SLOW_OPS)
