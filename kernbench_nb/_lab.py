"""The reader's copy of the course: what `kernbench-nb lab` makes and opens.

A copy lies as the repository does, so that links between notebooks, glossary and topology hold. Outputs that a reader
is to predict are cleared, and notebooks are signed, so that JupyterLab shows their widgets before anything runs. A
small file remembers what was written: what the reader changed since is theirs, and is never touched.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

__all__ = ["FIRST", "LINKED", "Copied", "clear_predicted", "copy_course", "course_files", "sign", "start"]

FIRST = "notebooks/00_tour.ipynb"
"""What JupyterLab opens."""
LINKED = ("NOTICE", "docs/GLOSSARY.md", "docs/api.md", "topology.yaml")
"""What notebooks link to, beside each other."""

_PACKAGE = Path(__file__).parent
_CLONE = _PACKAGE.parent
_SHIPPED = _PACKAGE / "_course_files"
_WRITTEN = ".kernbench-course.json"


@dataclass(frozen=True, slots=True)
class Copied:
    """What became of a copy.

    Attributes
    ----------
    folder
        Where it is.
    written
        Paths in it that were written, or were there as they should be, byte for byte.
    kept
        Paths that were there otherwise: the reader's own, left as they are. A notebook that was opened and saved
        with all its cells as they were is neither written nor the reader's own.
    """

    folder: Path
    written: tuple[str, ...]
    kept: tuple[str, ...]


def course_files() -> dict[str, str]:
    """Path in the copy -> text, of every file of the course; notebooks with nothing to predict given away.

    Raises
    ------
    FileNotFoundError
        If this installation has no notebooks.
    """
    root = next((root for root in (_SHIPPED, _CLONE) if (root / FIRST).is_file()), None)
    if root is None:
        raise FileNotFoundError(
            "this installation has no notebooks; install kernbench_nb from a wheel or a clone."
        )
    notebooks = sorted(
        path for path in (root / "notebooks").rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts
    )
    texts = {name: _linked(root, name) for name in LINKED}
    for path in notebooks:
        texts[path.relative_to(root).as_posix()] = clear_predicted(path.read_text(encoding="utf-8"))
    return texts


def _linked(root: Path, name: str) -> str:
    """A page that notebooks link to. A wheel has two of them elsewhere already: no second copy is shipped."""
    if root == _SHIPPED and name == "NOTICE":
        return metadata.distribution("kernbench_nb").read_text("licenses/NOTICE") or ""
    if root == _SHIPPED and name == "topology.yaml":
        return (_PACKAGE / "topology" / "presets" / "ahbm.yaml").read_text(encoding="utf-8")
    return (root / name).read_text(encoding="utf-8")


def clear_predicted(text: str) -> str:
    """A notebook's text without the outputs of the cells that answer a prediction.

    Those are the cells that call ``kb.predict``, and those tagged ``predicted``.
    """
    notebook = json.loads(text)
    for cell in notebook["cells"]:
        tags = cell["metadata"].get("tags", ())
        if cell["cell_type"] == "code" and ("predicted" in tags or "kb.predict(" in "".join(cell["source"])):
            cell["outputs"], cell["execution_count"] = [], None
    return json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def copy_course(folder: Path) -> Copied:
    """Make a copy of the course, or bring one up to date.

    Parameters
    ----------
    folder
        Made if it is not there. Files in it that the reader changed, or that come from elsewhere, stay as they are.

    Raises
    ------
    OSError
        If it cannot be written to, or is a clone's own folder.
    """
    if any((folder / own).is_file() for own in ("build.py", "notebooks/build.py")):
        raise FileExistsError("it holds the course itself, in a clone")
    memory = folder / _WRITTEN
    before = _remembered(memory)
    after: dict[str, str] = {}
    kept = []
    written = []
    for name, text in course_files().items():
        path, content = folder / name, text.encode()
        found = path.read_bytes() if path.is_file() else None
        digest, there = _digest(name, content), None if found is None else _digest(name, found)
        if there not in (None, digest, before.get(name)):
            kept.append(name)
            continue
        if there != digest:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            found = content
        after[name] = digest
        if found == content:
            written.append(name)
    if after and after != before:
        memory.write_text(json.dumps({**before, **after}, indent=1) + "\n", encoding="utf-8")
    return Copied(folder, tuple(written), tuple(kept))


def _remembered(memory: Path) -> Mapping[str, str]:
    """What was written where; nothing where that cannot be read, and then all that differs is the reader's own."""
    with suppress(ValueError):
        found = json.loads(memory.read_text(encoding="utf-8")) if memory.is_file() else {}
        if isinstance(found, dict):
            return found
    return {}


def _digest(name: str, content: bytes) -> str:
    """Of what a reader changes on purpose: of a notebook its cells, since JupyterLab notes its kernel in the rest."""
    if name.endswith(".ipynb"):
        with suppress(ValueError, TypeError, KeyError):
            content = json.dumps(json.loads(content)["cells"], sort_keys=True).encode()
    return hashlib.sha256(content).hexdigest()


def sign(copied: Copied) -> None:
    """Trust the notebooks that are as they were shipped; those that a reader changed are for the reader to trust."""
    import nbformat
    from nbformat.sign import NotebookNotary

    notary = NotebookNotary()  # type: ignore[no-untyped-call]
    try:
        for name in copied.written:
            if name.endswith(".ipynb"):
                notary.sign(nbformat.read(copied.folder / name, as_version=4))  # type: ignore[no-untyped-call]
    finally:
        notary.store.close()


def start(folder: Path, *, browser: bool, options: Sequence[str] = ()) -> None:
    """Run JupyterLab on a copy, until it is stopped.

    Parameters
    ----------
    folder
        The copy; JupyterLab shows nothing above it.
    browser
        Whether to open it in one; else the address is printed.
    options
        JupyterLab's own, such as ``--port=9000``.
    """
    from jupyterlab.labapp import LabApp

    arguments: list[Any] = [
        f"--ServerApp.root_dir={folder.resolve()}",
        f"--LabApp.default_url=/lab/tree/{FIRST}",
    ]
    LabApp.launch_instance([*arguments, *([] if browser else ["--no-browser"]), *options])
