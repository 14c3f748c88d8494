"""`lab`: a reader's copy of the course, and JupyterLab on it."""

from __future__ import annotations

import importlib.util
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from click.testing import Result
from nbformat.sign import NotebookNotary

from kernbench_nb import _lab as lab

Call = Callable[..., Result]
Refused = Callable[..., str]

REPO = Path(__file__).resolve().parents[2]
COURSE = "kernbench-course"
HERE = f"The course is in {COURSE}; it begins with {lab.FIRST}.\n"


@pytest.fixture(autouse=True)
def signatures(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Jupyter keeps what it trusts: not the tester's own."""
    data = tmp_path_factory.mktemp("data")
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(data))
    return data


def trusted(path: Path) -> bool:
    notary = NotebookNotary()
    try:
        return bool(notary.check_signature(nbformat.read(path, as_version=4)))
    finally:
        notary.store.close()


def notebooks(folder: Path) -> Iterator[Path]:
    return folder.rglob("*.ipynb")


def test_a_copy_is_the_course_as_it_lies_in_the_repository(call: Call, tmp_path: Path) -> None:
    result = call("lab", "--copy-only")
    assert (result.exit_code, result.output) == (0, HERE)
    found = {
        path.relative_to(tmp_path / COURSE).as_posix()
        for path in (tmp_path / COURSE).rglob("*")
        if path.is_file()
    }
    shipped = {path.relative_to(REPO).as_posix() for path in notebooks(REPO / "notebooks")}
    assert found == {*shipped, *lab.LINKED, ".kernbench-course.json"}
    for name in lab.LINKED:
        assert (tmp_path / COURSE / name).read_bytes() == (REPO / name).read_bytes()


def test_what_is_to_be_predicted_is_not_given_away(call: Call, tmp_path: Path) -> None:
    call("lab", "mine", "--copy-only")
    cleared = 0
    for path in notebooks(tmp_path / "mine"):
        copy = nbformat.read(path, as_version=4)
        nbformat.validate(copy)
        original = nbformat.read(REPO / path.relative_to(tmp_path / "mine"), as_version=4)
        assert copy.metadata == original.metadata
        for mine, theirs in zip(copy.cells, original.cells, strict=True):
            if "kb.predict(" in theirs.source:
                assert (mine.outputs, mine.execution_count) == ([], None)
                cleared += 1
            else:
                assert mine == theirs
    assert cleared


def test_a_tag_clears_a_cell_too() -> None:
    def cell(source: str, *tags: str) -> Any:
        output = nbformat.v4.new_output("stream", text="3\n")
        return nbformat.v4.new_code_cell(
            source, metadata={"tags": list(tags)}, execution_count=1, outputs=[output]
        )

    cells = [
        cell("3"),
        cell("3", "predicted"),
        cell("kb.predict(guess, 3)"),
        nbformat.v4.new_markdown_cell("kb.predict("),
    ]
    notebook = nbformat.from_dict(
        json.loads(lab.clear_predicted(nbformat.writes(nbformat.v4.new_notebook(cells=cells))))
    )
    assert [len(cell.outputs) for cell in notebook.cells[:3]] == [1, 0, 0]
    assert [cell.execution_count for cell in notebook.cells[:3]] == [1, None, None]


def test_the_copy_is_trusted(call: Call, tmp_path: Path) -> None:
    call("lab", "--copy-only")
    assert all(map(trusted, notebooks(tmp_path / COURSE)))
    assert not trusted(REPO / lab.FIRST)


def test_a_second_call_writes_nothing(call: Call, tmp_path: Path) -> None:
    call("lab", "--copy-only")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / COURSE).rglob("*")}
    result = call("lab", "--copy-only")
    assert (result.exit_code, result.output) == (0, HERE)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / COURSE).rglob("*")} == before


def test_what_a_reader_changed_is_kept(call: Call, tmp_path: Path) -> None:
    call("lab", "--copy-only")
    first = tmp_path / COURSE / lab.FIRST
    notebook = nbformat.read(first, as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell("my_own = 1"))
    nbformat.write(notebook, first)
    mine = first.read_bytes()
    for _ in range(2):
        result = call("lab", "--copy-only")
        assert result.exit_code == 0
        assert result.output == (
            f"{HERE}Kept as you left them: {lab.FIRST}. For a fresh copy of one, rename yours and run this again; for "
            "all, name another folder: kernbench-nb lab DIR\n"
        )
        assert first.read_bytes() == mine
        assert not trusted(first)
    first.rename(first.with_name("mine.ipynb"))
    assert call("lab", "--copy-only").output == HERE
    assert trusted(first)
    assert first.with_name("mine.ipynb").read_bytes() == mine


def saved_by_jupyterlab(path: Path) -> None:
    """Open and save it, which names the kernel that was found."""
    notebook = nbformat.read(path, as_version=4)
    notebook.metadata.kernelspec["display_name"] = "Python 3 (ipykernel)"
    notebook.metadata.language_info = {"name": "python", "version": "3.11.7"}
    nbformat.write(notebook, path)


def test_a_notebook_that_was_only_opened_is_not_the_readers_own(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("lab", "--copy-only")
    first = tmp_path / COURSE / lab.FIRST
    saved_by_jupyterlab(first)
    opened = first.read_bytes()
    assert call("lab", "--copy-only").output == HERE
    assert first.read_bytes() == opened
    assert not trusted(first), "only what was shipped is signed"
    newer = {name: text.replace("the", "ye") for name, text in lab.course_files().items()}
    monkeypatch.setattr(lab, "course_files", lambda: newer)
    assert call("lab", "--copy-only").output == HERE
    assert first.read_text(encoding="utf-8") == newer[lab.FIRST]
    assert trusted(first)


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"cells": 1}', "not JSON"])
def test_what_is_no_notebook_is_kept_too(call: Call, tmp_path: Path, content: str) -> None:
    call("lab", "--copy-only")
    (tmp_path / COURSE / lab.FIRST).write_text(content)
    assert f"Kept as you left them: {lab.FIRST}. " in call("lab", "--copy-only").output
    assert (tmp_path / COURSE / lab.FIRST).read_text() == content


def test_what_nobody_changed_is_brought_up_to_date(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = lab.course_files()
    older = {name: text.replace("the", "ye") for name, text in texts.items()}
    monkeypatch.setattr(lab, "course_files", lambda: older)
    call("lab", "--copy-only")
    (tmp_path / COURSE / "NOTICE").write_text("mine")
    monkeypatch.setattr(lab, "course_files", lambda: texts)
    result = call("lab", "--copy-only")
    assert "Kept as you left them: NOTICE. " in result.output
    for name, text in texts.items():
        assert (tmp_path / COURSE / name).read_text(encoding="utf-8") == (
            "mine" if name == "NOTICE" else text
        )


def test_files_that_were_there_before_are_kept(call: Call, tmp_path: Path) -> None:
    (tmp_path / "notebooks").mkdir()
    (tmp_path / lab.FIRST).write_text("mine")
    result = call("lab", ".", "--copy-only")
    assert f"Kept as you left them: {lab.FIRST}. " in result.output
    assert (tmp_path / lab.FIRST).read_text() == "mine"


@pytest.mark.parametrize("copy_only", [True, False])
def test_without_jupyter_it_says_what_to_install(
    refused: Refused, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, copy_only: bool
) -> None:
    find, gone = importlib.util.find_spec, "nbformat" if copy_only else "jupyterlab"
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == gone else find(name, *more)
    )
    line = refused(1, "lab", *(["--copy-only"] if copy_only else []))
    assert line == f"needs {gone}: pip install 'kernbench-nb[lab]'"
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be(refused: Refused, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert refused(2, "lab", "file").startswith("Invalid value for '[DIR]': Directory 'file' is a file.")
    line = refused(1, "lab", "file/mine", "--copy-only")
    assert (
        line == "cannot make a copy in file/mine: Not a directory. Name another folder: kernbench-nb lab DIR"
    )


@pytest.mark.parametrize("inside", ["", "notebooks"])
def test_a_clones_own_folder_is_no_readers_copy(refused: Refused, tmp_path: Path, inside: str) -> None:
    clone = tmp_path / "clone"
    (clone / "notebooks").mkdir(parents=True)
    (clone / "notebooks" / "build.py").touch()
    text = refused(1, "lab", str(clone / inside), "--copy-only")
    assert text.endswith("it holds the course itself, in a clone. Name another folder: kernbench-nb lab DIR")
    assert [path.name for path in clone.rglob("*")] == ["notebooks", "build.py"]


def test_an_installation_without_notebooks(
    refused: Refused, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(lab, "_CLONE", tmp_path)
    assert "this installation has no notebooks" in refused(1, "lab", "--copy-only")


@pytest.mark.parametrize("rest", [[], ["--port=9000", "--allow-root"]])
@pytest.mark.parametrize("no_browser", [True, False])
def test_what_jupyterlab_is_started_with(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_browser: bool, rest: list[str]
) -> None:
    labapp = pytest.importorskip("jupyterlab.labapp")
    given: list[list[str]] = []
    monkeypatch.setattr(labapp.LabApp, "launch_instance", given.append)
    result = call("lab", *(["--no-browser"] if no_browser else []), *(["--", *rest] if rest else []))
    assert (result.exit_code, result.output) == (0, HERE)
    assert given == [
        [
            f"--ServerApp.root_dir={tmp_path / COURSE}",
            f"--LabApp.default_url=/lab/tree/{lab.FIRST}",
            *(["--no-browser"] if no_browser else []),
            *rest,
        ]
    ]


def test_options_for_jupyterlab_need_one_that_starts(refused: Refused, tmp_path: Path) -> None:
    line = refused(2, "lab", "--copy-only", "mine", "--", "--port=9000")
    assert line == "--copy-only starts no JupyterLab, and --port=9000 is for one; leave one of them out"
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def server(tmp_path: Path, signatures: Path) -> Iterator[str]:
    """The address of `kernbench-nb lab mine --no-browser`, as a process with a home of its own."""
    pytest.importorskip("jupyterlab")
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        port = it.getsockname()[1]
    config = {
        "ServerApp": {"allow_root": True, "ip": "127.0.0.1", "port": port, "port_retries": 0},
        "IdentityProvider": {"token": ""},
    }
    home = tmp_path / "home"
    home.mkdir()
    (home / "jupyter_server_config.json").write_text(json.dumps(config))
    places = (
        "HOME",
        "IPYTHONDIR",
        "JUPYTER_CONFIG_DIR",
        "JUPYTER_RUNTIME_DIR",
        "JUPYTERLAB_SETTINGS_DIR",
        "JUPYTERLAB_WORKSPACES_DIR",
    )
    environment = {
        **os.environ,
        **{place: str(home) for place in places},
        "PYTHONPATH": os.pathsep.join(filter(None, (str(REPO), os.environ.get("PYTHONPATH")))),
    }
    address, log = f"http://127.0.0.1:{port}", tmp_path / "log"
    command = [sys.executable, "-m", "kernbench_nb", "lab", "mine", "--no-browser"]
    with (
        log.open("w") as out,
        subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=out, stderr=out) as process,
    ):
        try:
            wait_for(address, process, log)
            yield address
        finally:
            process.terminate()


def wait_for(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(f"{address}/api/status", timeout=5):
                return
        except OSError:
            if process.poll() is not None or time.monotonic() > until:
                pytest.fail(f"JupyterLab did not start:\n{log.read_text()}")
            time.sleep(0.05)  # nothing tells when a port opens


def test_jupyterlab_opens_the_first_notebook_and_trusts_it(server: str) -> None:
    with urllib.request.urlopen(f"{server}/", timeout=30) as page:
        assert page.url == f"{server}/lab/tree/{lab.FIRST}"
    with urllib.request.urlopen(f"{server}/api/contents/{lab.FIRST}", timeout=30) as reply:
        cells = json.load(reply)["content"]["cells"]
    assert all(cell["metadata"]["trusted"] for cell in cells if cell["cell_type"] == "code")
    with urllib.request.urlopen(f"{server}/api/contents", timeout=30) as reply:
        names = {entry["name"] for entry in json.load(reply)["content"]}
    assert names == {"NOTICE", "docs", "notebooks", "topology.yaml"}


@pytest.mark.parametrize("broken", [b"{broken", b"[1, 2]", b"\xff\xfe"])
def test_a_memory_that_cannot_be_read_is_written_anew(call: Call, tmp_path: Path, broken: bytes) -> None:
    call("lab", "--copy-only")
    memory = tmp_path / COURSE / ".kernbench-course.json"
    before = memory.read_text(encoding="utf-8")
    memory.write_bytes(broken)
    result = call("lab", "--copy-only")
    assert (result.exit_code, result.output) == (0, HERE)
    assert memory.read_text(encoding="utf-8") == before
