"""Imports point down only: the drawing of the house in CONTRIBUTING.md, held to by reading every import."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = "kernbench_nb"
ROOT = Path(__file__).resolve().parents[2] / PACKAGE

# From the ground up. A room may import from any row below its own; rooms of one row do not know each other.
ROWS: tuple[tuple[str, ...], ...] = (
    ("_version", "errors"),
    ("dtypes",),
    ("memory", "topology"),
    ("sim_engine", "ccl", "policy"),
    ("triton_emu",),
    ("runtime_api",),
    ("benches",),
    ("analysis",),
    ("plots", "widgets", "export"),
    # answers readers of the notebooks; above the views, since a check may run anything and look at it as they do
    ("course",),
    # what the command line is made of: keys of benches, words about a run, a reader's copy of the course, the tour
    ("_settings", "_terminal"),
    ("_lab", "_tour"),
    ("cli",),
    ("__main__",),
)
LEVEL = {room: level for level, row in enumerate(ROWS) for room in row}

# (room, room below it) -> the only modules of the lower room that it may know.
NARROW = {
    # The language fills rows of a trace, and reads them for its errors; it knows no engine, and so runs alone too.
    ("triton_emu", "sim_engine"): {
        f"{PACKAGE}.sim_engine.{module}" for module in ("trace", "source", "live")
    },
}


def module_name(file: Path, root: Path) -> str:
    """kernbench_nb/memory/scratch.py -> kernbench_nb.memory.scratch; an __init__.py is its package."""
    parts = [root.name, *file.relative_to(root).with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: str) -> str | None:
    """The room that a module stands in; None for the package face itself."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else None


def imports(tree: ast.AST, module: str, is_package: bool, modules: set[str]) -> Iterator[tuple[int, str]]:
    """(line, imported module) of each import of this package: plain, relative, late, type-only or by name."""
    package = module if is_package else module.rpartition(".")[0]
    for node in ast.walk(tree):
        targets: list[str] = []
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.rsplit(".", node.level - 1)[0] if node.level > 1 else package
                base = f"{above}.{base}" if base else above
            # `from room import x`: x is a module of the room, or a name that the module `room` defines.
            whole = [f"{base}.{alias.name}" for alias in node.names]
            targets = [name if name in modules else base for name in whole]
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            function = (
                node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            )
            if function in ("import_module", "__import__") and isinstance(node.args[0].value, str):
                targets = [node.args[0].value]
        for target in targets:
            if target.split(".")[0] == PACKAGE:
                yield node.lineno, target


def fault(room: str | None, target: str) -> str | None:
    """What is wrong with an import of ``target`` by a module of ``room``, or None."""
    below = room_of(target)
    if below == room:
        return None
    if below is None:
        return "imports the package face; import from the room that defines the name"
    if room is None:
        return None if below == "_version" else f"the face imports {target}; list the name in _PUBLIC instead"
    for name in (room, below):
        if name not in LEVEL:
            return f"room {name!r} is not in the drawing; add it to ROWS and to CONTRIBUTING.md"
    if LEVEL[below] >= LEVEL[room]:
        place = "beside" if LEVEL[below] == LEVEL[room] else "above"
        return f"{room} imports {target}, and {below} stands {place} it"
    allowed = NARROW.get((room, below))
    if allowed is not None and target not in allowed:
        return f"{room} imports {target}, but may know only {', '.join(sorted(allowed))}"
    return None


def faults(root: Path) -> list[str]:
    """Every import under ``root`` that points the wrong way, as ``file:line: what``."""
    files = {file: module_name(file, root) for file in sorted(root.rglob("*.py"))}
    modules = set(files.values())
    found = []
    for file, module in files.items():
        tree = ast.parse(file.read_text(encoding="utf-8"), filename=str(file))
        for line, target in imports(tree, module, file.name == "__init__.py", modules):
            what = fault(room_of(module), target)
            if what:
                found.append(f"{file.relative_to(root.parent)}:{line}: {what}")
    return found


def test_imports_point_down() -> None:
    found = faults(ROOT)
    assert not found, "imports must point down only:\n" + "\n".join(found)


def test_the_real_package_is_what_was_read() -> None:
    modules = {module_name(file, ROOT) for file in ROOT.rglob("*.py")}
    assert {PACKAGE, f"{PACKAGE}._version", f"{PACKAGE}.errors"} <= modules


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A small house with nothing wrong: the package's name, a few rooms, no imports."""
    for file in (
        "__init__.py",
        "_version.py",
        "errors.py",
        "cli.py",
        "memory/__init__.py",
        "memory/scratch.py",
        "topology/__init__.py",
        "sim_engine/__init__.py",
        "sim_engine/engine.py",
        "sim_engine/trace.py",
        "triton_emu/__init__.py",
        "triton_emu/context.py",
        "policy/placement/__init__.py",
        "plots/__init__.py",
    ):
        path = tmp_path / PACKAGE / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    return tmp_path / PACKAGE


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("memory/scratch.py", "from kernbench_nb.errors import ScopeOrderError"),
        ("memory/scratch.py", "from . import __name__"),
        ("memory/scratch.py", "from ..errors import ScopeOrderError"),
        ("triton_emu/context.py", "from kernbench_nb.sim_engine.trace import Trace"),
        ("triton_emu/context.py", "from kernbench_nb.sim_engine import trace"),
        ("triton_emu/context.py", "import kernbench_nb.memory.scratch"),
        ("policy/placement/__init__.py", "from ...topology import x"),
        ("plots/__init__.py", "import numpy, kernbench_nb_other"),
        ("cli.py", "from kernbench_nb._version import __version__"),
        ("__init__.py", "from kernbench_nb._version import __version__"),
    ],
)
def test_an_import_that_points_down_passes(house: Path, file: str, line: str) -> None:
    (house / file).write_text(line)
    assert faults(house) == []


@pytest.mark.parametrize(
    ("file", "line", "what"),
    [
        ("memory/scratch.py", "from kernbench_nb.plots import x", "memory imports kernbench_nb.plots, "),
        ("memory/scratch.py", "import kernbench_nb.cli as c", "and cli stands above it"),
        ("memory/scratch.py", "from kernbench_nb import plots", "plots stands above it"),
        ("memory/scratch.py", "from .. import plots", "plots stands above it"),
        ("memory/__init__.py", "from ..plots import x", "plots stands above it"),
        ("memory/scratch.py", "from kernbench_nb.topology import x", "and topology stands beside it"),
        ("memory/scratch.py", "def f():\n    from kernbench_nb.plots import x", "plots stands above it"),
        ("memory/scratch.py", "if TYPE_CHECKING:\n    import kernbench_nb.plots", "plots stands above it"),
        ("memory/scratch.py", "importlib.import_module('kernbench_nb.plots')", "plots stands above it"),
        ("policy/placement/__init__.py", "from ...plots import x", "plots stands above it"),
        ("triton_emu/context.py", "from kernbench_nb.sim_engine.engine import E", "may know only"),
        ("triton_emu/context.py", "from kernbench_nb.sim_engine import engine", "may know only"),
        ("triton_emu/context.py", "from kernbench_nb.sim_engine import Engine", "may know only"),
        ("cli.py", "from kernbench_nb import decode", "imports the package face"),
        ("__init__.py", "from kernbench_nb.errors import x", "list the name in _PUBLIC"),
        ("attic.py", "import kernbench_nb.errors", "room 'attic' is not in the drawing"),
    ],
)  # fmt: skip
def test_an_import_that_points_up_is_named(house: Path, file: str, line: str, what: str) -> None:
    (house / file).write_text(line)
    (found,) = faults(house)
    assert found.startswith(f"{PACKAGE}/{file}:{1 + line.count(chr(10))}: ")
    assert what in found
