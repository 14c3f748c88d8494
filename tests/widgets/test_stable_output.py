"""Whoever runs a notebook sees what was saved in it: nothing that differs from run to run is printed."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
TOUR = FOLDER / "00_tour.ipynb"

UNSTABLE = {
    "an address": re.compile(r"0x[0-9a-f]{6,}", re.IGNORECASE),
    "a wall time": re.compile(
        r"\b(?:Wall time|CPU times|perf_counter)\b|\d(?:\.\d+)? ?(?:s|ms|us|µs) ± |\b\d+(?:\.\d+)? (?:s|seconds?)\b"
    ),
    "the id of a widget's model": re.compile(r"\b[0-9a-f]{32}\b"),
    "more than 6 digits of a number that is no integer": re.compile(
        r"(?<![\w.])(?=[\d.]*\.)0*\.?0*(?:[1-9]\.?|[1-9][\d]*\.)(?:\d\.?){7,}(?![\w.])"
    ),
}
MARKS = {"nbval-ignore-output", "nbval-skip"}


def texts(cell: Any) -> list[str]:
    """What a cell printed, one text a stream, and showed as plain text."""
    streams: dict[str, str] = {}
    shown: list[str] = []
    for output in cell.outputs:
        if output.output_type == "stream":
            # whether two prints came as one message or two is chance
            streams[output.name] = streams.get(output.name, "") + "".join(output.text)
        elif "data" in output:
            shown.append("".join(output.data.get("text/plain", "")))
    return [*(f"{name}: {text}" for name, text in sorted(streams.items())), *shown]


def marked(cell: Any) -> bool:
    return bool(MARKS & set(cell.metadata.get("tags", ())))


def code_cells(notebook: Any) -> list[Any]:
    return [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]


def complaints(notebook: Any) -> Iterator[str]:
    """What of its outputs may differ the next time, and what is not checked."""
    cells = code_cells(notebook)
    ignored = [cell for cell in cells if marked(cell)]
    if len(ignored) > 0.1 * len(cells):
        yield f"{len(ignored)} of {len(cells)} code cells are marked to be ignored"
    for n, cell in enumerate(cells):
        if any(output.get("name") == "stderr" for output in cell.outputs):
            yield f"code cell {n} warns"
        for text in texts(cell):
            for what, pattern in UNSTABLE.items():
                found = pattern.search(text)
                if found and not marked(cell):
                    yield f"code cell {n} prints {what}: {found[0]}"
    if not any(re.search(r"\d", text) for cell in cells if not marked(cell) for text in texts(cell)):
        yield "no number is checked"


async def run(notebook: Any, seed: int, profile: Path) -> Any:
    """A copy of a notebook, run in a kernel of its own."""
    fresh = nbformat.from_dict(notebook)
    for cell in code_cells(fresh):
        cell.outputs = []
    env = {**os.environ, "PYTHONHASHSEED": str(seed), "IPYTHONDIR": str(profile)}
    env.pop("MPLBACKEND", None)
    client = nbclient.NotebookClient(
        fresh, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(FOLDER)}},
        allow_errors=True,
    )  # fmt: skip
    await client.async_execute(env=env)
    return fresh


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_what_is_saved_may_be_compared(path: Path) -> None:
    """nb-stable-output: no notebook saved anything that may change. They were saved under one hash seed, and nbval runs
    them under another (``notebooks/conftest.py``)."""
    assert list(complaints(nbformat.read(path, as_version=4))) == []


def test_nb_stable_output(tmp_path: Path) -> None:
    """nb-stable-output: two fresh kernels with different hash seeds print the same, and nothing that may change."""
    saved = nbformat.read(TOUR, as_version=4)

    async def both() -> tuple[Any, Any]:
        first, second = await asyncio.gather(*(run(saved, seed, tmp_path / str(seed)) for seed in (0, 1)))
        return first, second

    # in a thread of its own: the browser that other tests share has a loop running in this one
    with ThreadPoolExecutor(1) as pool:
        first, second = pool.submit(lambda: asyncio.run(both())).result()
    for n, (a, b) in enumerate(zip(code_cells(first), code_cells(second), strict=True)):
        if not marked(a):
            assert texts(a) == texts(b), f"code cell {n} printed something else under another hash seed"
    assert list(complaints(first)) == []


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("<Kernel at 0x7f2b3c4d5e>", "an address"),
        ("Wall time: 3.1 s", "a wall time"),
        ("1.2 ms ± 3 us per loop", "a wall time"),
        ("done in 4.25 seconds", "a wall time"),
        ("IPY_MODEL_0123456789abcdef0123456789abcdef"[10:], "the id of a widget's model"),
        ("0.30000000000000004", "more than 6 digits of a number that is no integer"),
        ("1234.5678", "more than 6 digits of a number that is no integer"),
    ],
)
def test_what_is_not_stable_is_seen(text: str, what: str) -> None:
    output = nbformat.v4.new_output("stream", name="stdout", text=f"{text}, and 1 tile")
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x", outputs=[output])])
    assert [c for c in complaints(book) if what in c]


@pytest.mark.parametrize(
    "text",
    ["1 613 ns", "PE 7, 25 088 B, 2.4 %", "0.000123456 of 1234567890", "3.14159 µs", "RunResult(12.3456 us)"],
)
def test_what_is_stable_passes(text: str) -> None:
    output = nbformat.v4.new_output("stream", name="stdout", text=text)
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("x", outputs=[output])])
    assert list(complaints(book)) == []


def test_a_warning_and_a_cell_that_is_ignored_are_seen() -> None:
    warning = nbformat.v4.new_output("stream", name="stderr", text="1 warning")
    cells = [
        nbformat.v4.new_code_cell("x", outputs=[warning]),
        nbformat.v4.new_code_cell("y", metadata={"tags": ["nbval-ignore-output"]}),
    ]
    said = list(complaints(nbformat.v4.new_notebook(cells=cells)))
    assert said == ["1 of 2 code cells are marked to be ignored", "code cell 0 warns"]
