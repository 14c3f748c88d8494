"""The repository holds nothing of one machine, nothing that a build makes, no notebook that was never run."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import nbformat
import pytest

REPO = Path(__file__).resolve().parents[2]

# A home, a temporary or a work folder at the start of a path. Written in pieces: this file is read too.
_FOLDERS = "|".join(("work", "root", "tmp", "private", r"var/folders", r"home/\w+", r"Users/\w+"))
MACHINE_PATH = re.compile(rf"(?<![\w.\-:/])/(?:{_FOLDERS})/[\w.\-]", re.ASCII)
# The servers that packages come from: a clone must not care which mirror its maker used.
_REGISTRIES = (
    ("pypi", "org"),
    ("pythonhosted", "org"),
    ("registry.npmjs", "org"),
    ("deb.debian", "org"),
    ("repo.anaconda", "com"),
)
REGISTRY = re.compile("|".join(re.escape(".".join(host)) for host in _REGISTRIES))
BUILT = re.compile(
    r"(^|/)(__pycache__|build|dist|node_modules|\.ipynb_checkpoints|\.venv|venv|\.hypothesis|\.\w+_cache)/"
    r"|\.(pyc|pyo|so|whl|egg)$|\.egg-info(/|$)|(^|/)(\.coverage|\.DS_Store)$"
)
NOTEBOOK_BYTES = 2_000_000


def tracked(*options: str) -> list[str]:
    """Paths that git knows, relative to the repository's root."""
    try:
        listing = subprocess.run(
            ["git", "ls-files", "-z", *options], cwd=REPO, capture_output=True, check=True
        )
    except (OSError, subprocess.CalledProcessError) as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"needs git and a clone: {error}")
    return [path for path in listing.stdout.decode().split("\0") if path and (REPO / path).is_file()]


def machine_traces(text: str) -> list[str]:
    """``line: found`` for each path of a machine and each registry host in ``text``."""
    return [
        f"{number}: {match[0]}"
        for number, line in enumerate(text.splitlines(), 1)
        for pattern in (MACHINE_PATH, REGISTRY)
        for match in pattern.finditer(line)
    ]


def notebook_faults(notebook: Any) -> list[str]:
    """Why a saved notebook does not show one run from top to bottom (nbval passes one that was never run)."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
    found = []
    for position, cell in enumerate(cells, 1):
        where = f"code cell {position} ({cell.source.splitlines()[0][:40]!r})"
        if cell.execution_count is None:
            found.append(f"{where} was never run")
        elif cell.execution_count != position:
            found.append(f"{where} was run as number {cell.execution_count}")
        for output in cell.outputs:
            if output.output_type == "error":
                found.append(f"{where} ended in {output.ename}: {output.evalue}")
            elif output.output_type == "stream" and output.name == "stderr":
                found.append(f"{where} wrote to stderr: {output.text[:80]!r}")
    return found


def test_no_file_names_a_machine_or_a_registry() -> None:
    found = []
    for path in tracked():
        data = (REPO / path).read_bytes()
        if b"\0" not in data:
            found += [f"{path}:{trace}" for trace in machine_traces(data.decode("utf-8"))]
    assert not found, "\n".join(found)


def test_no_file_is_made_by_a_build() -> None:
    assert [path for path in tracked() if BUILT.search(path)] == []
    assert tracked("--cached", "--ignored", "--exclude-standard") == [], "tracked, and ignored by .gitignore"


def notebooks() -> list[Path]:
    """The saved notebooks, exercises and solutions."""
    found = (REPO / "notebooks").rglob("*.ipynb")
    return sorted(path for path in found if ".ipynb_checkpoints" not in path.parts)


@pytest.mark.parametrize("path", notebooks(), ids=lambda path: path.name)
def test_a_saved_notebook_was_run_in_order(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert notebook_faults(notebook) == []
    assert path.stat().st_size < NOTEBOOK_BYTES


@pytest.mark.parametrize(
    "line",
    ["see /{}/main/x.py", "'/{}/x'", 'File "/{}/lib/y.py", line 3', "path=/{}/z", "(/{}/a)"],
)
@pytest.mark.parametrize("folder", ["work", "root", "tmp", "home/ann", "Users/ann"])
def test_a_machine_path_would_be_seen(line: str, folder: str) -> None:
    text = "first\n" + line.format(folder)
    (found,) = machine_traces(text)
    assert found.startswith(f"2: /{folder}/")


def test_a_registry_would_be_seen() -> None:
    text = "\n".join(f"index = https://{'.'.join(host)}/simple" for host in _REGISTRIES)
    assert [found.partition(":")[0] for found in machine_traces(text)] == ["1", "2", "3", "4", "5"]


@pytest.mark.parametrize(
    "text",
    [
        "/".join(("tests", "work", "x.py")),
        "https://example.com/tmp/x",
        "bytes/tmp",
        "a /work b",
        "/".join(("..", "shared", "root", "x")),
        "/".join(("1", "root", "2")),
    ],
)
def test_a_path_inside_the_clone_or_the_web_passes(text: str) -> None:
    assert machine_traces(text) == []


@pytest.mark.parametrize(
    ("path", "built"),
    [
        ("kernbench_nb/__pycache__/x.cpython-311.pyc", True),
        ("kernbench_nb.egg-info/PKG-INFO", True),
        ("dist/kernbench_nb-0.1.0.whl", True),
        ("notebooks/.ipynb_checkpoints/00.ipynb", True),
        (".hypothesis/examples/0", True),
        (".mypy_cache/x.json", True),
        (".coverage", True),
        ("kernbench_nb/memory/store.py", False),
        ("tests/house/test_builds.py", False),
        ("docs/distance.md", False),
        (".ci/run", False),
    ],
)
def test_what_a_build_makes_would_be_seen(path: str, built: bool) -> None:
    assert bool(BUILT.search(path)) is built


def saved(*cells: tuple[str, int | None, list[Any]]) -> Any:
    """A notebook of code cells: (source, execution count, outputs)."""
    code = [nbformat.v4.new_code_cell(s, execution_count=n, outputs=outputs) for s, n, outputs in cells]
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell("# question"), *code])


ERROR = nbformat.v4.new_output("error", ename="ValueError", evalue="no", traceback=[])
STDERR = nbformat.v4.new_output("stream", name="stderr", text="UserWarning: x")
STDOUT = nbformat.v4.new_output("stream", name="stdout", text="proved: x")


@pytest.mark.parametrize(
    ("notebook", "faults"),
    [
        (saved(("a", 1, [STDOUT]), ("", None, []), ("b", 2, [])), []),
        (saved(("a", None, [])), ["code cell 1 ('a') was never run"]),
        (saved(("a", 1, []), ("b", 3, [])), ["code cell 2 ('b') was run as number 3"]),
        (saved(("a", 1, [ERROR])), ["code cell 1 ('a') ended in ValueError: no"]),
        (saved(("a", 1, [STDERR])), ["code cell 1 ('a') wrote to stderr: 'UserWarning: x'"]),
    ],
)
def test_a_notebook_that_was_not_run_would_be_seen(notebook: Any, faults: list[str]) -> None:
    assert notebook_faults(notebook) == faults
