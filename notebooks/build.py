"""Run the notebooks in place, and make their solutions: ``python notebooks/build.py [NN ...] [--check]``.

A notebook is run from top to bottom in a fresh kernel and saved with its outputs. Its solution, if it has an exercise,
is the same notebook with the starter cells replaced by the blocks of ``solutions/NN_name.py``, each of which begins
with the id of its exercise::

    # %% 00
    answer = 10_800 + 930 * 48  # a straight line in the tile

    kb.check_answer("00", answer)

Two runs give the same file: kernels have a hash seed, an IPython of their own and no clock in the outputs, and ids of
cells and widgets are counted. ``--check`` writes nothing: it runs all of it under another hash seed and names what
differs from the saved files.
"""

from __future__ import annotations

import copy
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat

HERE = Path(__file__).parent
BLOCK = re.compile(r"^# %% (\S+)\n", re.MULTILINE)
EXERCISE = re.compile(r"""kb\.check_answer\(["']([^"']+)["']""")
WIDGETS = "application/vnd.jupyter.widget-state+json"
VIEW = "application/vnd.jupyter.widget-view+json"
REFERENCE = re.compile(r"IPY_MODEL_(\w+)")
SEED, CHECK_SEED = "0", "1"
LANGUAGE = {"name": "python"}
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


# -- what is in a notebook --------------------------------------------------------------------------------------


def read(path: Path) -> Any:
    """A notebook of the current format."""
    return nbformat.read(path, as_version=4)


def is_starter(cell: Any) -> bool:
    """Whether a cell is an exercise, for the reader to fill in."""
    return "starter" in cell.metadata.get("tags", ())


def exercise_of(cell: Any) -> str:
    """The id of the exercise that a starter cell checks."""
    found = EXERCISE.findall(cell.source)
    if len(found) != 1:
        raise ValueError(f"a starter cell has one kb.check_answer(id, ...), not {len(found)}:\n{cell.source}")
    return str(found[0])


def blocks_of(text: str) -> dict[str, str]:
    """Id -> source, of a file of solutions."""
    _, *parts = BLOCK.split(text)
    return {id: source.strip() for id, source in zip(parts[::2], parts[1::2], strict=True)}


def solved(notebook: Any, blocks: dict[str, str]) -> Any:
    """A copy of a notebook whose starter cells are replaced.

    Raises
    ------
    ValueError
        If blocks and starter cells are not one to one.
    """
    made = copy.deepcopy(notebook)
    starters = {exercise_of(cell): cell for cell in made.cells if is_starter(cell)}
    if set(starters) != set(blocks):
        raise ValueError(f"starter cells {sorted(starters)}, solutions {sorted(blocks)}")
    for id, cell in starters.items():
        cell.source = blocks[id]
    return made


# -- running ----------------------------------------------------------------------------------------------------


def execute(notebook: Any, folder: Path) -> Any:
    """Run a notebook in a folder, in a fresh kernel, and make what it leaves the same every time."""
    from nbclient import NotebookClient

    made = copy.deepcopy(notebook)
    for n, cell in enumerate(made.cells):
        cell.id = f"cell-{n:02d}"
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    made.metadata = nbformat.from_dict({"kernelspec": KERNEL})
    NotebookClient(
        made, timeout=300, kernel_name="python3", record_timing=False, coalesce_streams=True,
        resources={"metadata": {"path": str(folder)}},
    ).execute()  # fmt: skip
    made.metadata["language_info"] = LANGUAGE
    return _with_counted_widgets(made)


def _with_counted_widgets(notebook: Any) -> Any:
    """Widgets are made with random ids; here they are counted, in order of where they are shown."""
    states = notebook.metadata.get("widgets", {}).get(WIDGETS, {}).get("state", {})
    order: dict[str, str] = {}

    def count(model: str) -> None:
        if model in states and model not in order:
            order[model] = f"{len(order) + 1:032x}"
            for other in REFERENCE.findall(json.dumps(states[model]["state"], sort_keys=True)):
                count(other)

    for output in outputs_of(notebook):
        if VIEW in output.get("data", {}):
            count(output["data"][VIEW]["model_id"])
    for model in sorted(
        states, key=lambda it: json.dumps([states[it]["model_name"], sorted(states[it]["state"])])
    ):
        count(model)
    text = json.dumps(notebook)
    for model, counted in order.items():
        text = text.replace(model, counted)
    return nbformat.from_dict(json.loads(text))


def outputs_of(notebook: Any) -> Iterator[Any]:
    """All outputs, in order."""
    for cell in notebook.cells:
        yield from cell.get("outputs", ())


# -- the command ------------------------------------------------------------------------------------------------


def build(path: Path, check: bool) -> Iterator[str]:
    """Run a notebook and its solution; save both, or tell where they are not as saved."""
    notebook = execute(read(path), path.parent)
    yield from _save(path, notebook, check)
    answers = path.parent / "solutions" / f"{path.stem}.py"
    if answers.exists() or any(is_starter(cell) for cell in notebook.cells):
        blocks = blocks_of(answers.read_text(encoding="utf-8")) if answers.exists() else {}
        yield from _save(
            answers.with_suffix(".ipynb"), execute(solved(notebook, blocks), answers.parent), check
        )


def _save(path: Path, notebook: Any, check: bool) -> Iterator[str]:
    name = path.relative_to(HERE)
    if not check:
        nbformat.write(notebook, path)
        yield f"{name}: {path.stat().st_size:,} B"
        return
    saved = read(path).cells if path.exists() else []
    if len(saved) != len(notebook.cells):
        yield f"{name}: {len(saved)} cells are saved, {len(notebook.cells)} were run"
    for n, (old, new) in enumerate(zip(saved, notebook.cells, strict=False)):
        yield from (
            f"{name}: cell {n} has other {key}"
            for key in ("source", "outputs")
            if old.get(key) != new.get(key)
        )


def main(arguments: list[str]) -> int:
    """Build the notebooks that are named by their numbers, or all; 1 if a check found something."""
    check = "--check" in arguments
    numbers = [argument for argument in arguments if not argument.startswith("-")]
    paths = sorted(
        path for path in HERE.glob("[0-9][0-9]_*.ipynb") if not numbers or path.name[:2] in numbers
    )
    if not paths:
        names = ", ".join(sorted(path.name for path in HERE.glob("*.ipynb")))
        sys.exit(f"no notebook is numbered {' or '.join(numbers)}; there are {names}")
    os.environ["PYTHONHASHSEED"] = CHECK_SEED if check else SEED
    os.environ.pop("MPLBACKEND", None)  # a kernel that inherits one does not draw inline
    found = []
    with tempfile.TemporaryDirectory() as profile:
        os.environ["IPYTHONDIR"] = profile
        for path in paths:
            for line in build(path, check):
                print(line, flush=True)
                found.append(line)
    if check and not found:
        print(f"{len(paths)} notebooks and their solutions give what is saved")
    return int(check and bool(found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
