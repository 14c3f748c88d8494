"""The rules of the course that a machine can check: each looks at a notebook, and gives what is wrong with it.

How a cell is written, how a prediction and an exercise look, what a saved output may be. That a notebook was run in
order and without an error is looked at in ``tests/house/test_hygiene.py``, that it gives the same again by nbval.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

WORDS = 90
LINES = 12
COLUMNS = 88
CELLS = 26
FALLBACK_BYTES = 40_000
IGNORED_SHARE = 0.1
DIGITS = 6

VIEW = "application/vnd.jupyter.widget-view+json"
STATE = "application/vnd.jupyter.widget-state+json"
MIMES = {"text/plain", "text/html", "image/png", VIEW}

LINK = re.compile(r"!?\[([^\]]*)\]\(([^)\s]+)\)")
TIME = re.compile(
    r"\d[\d ,.]*(?:ps|ns|us|µs|μs|ms|(?:pico|nano|micro|milli)?seconds?)\b|\b\d+ s\b", re.IGNORECASE
)
NEVER = re.compile(r"\b(SRAM|VMEM|shared memory)\b")
ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")
FLOAT = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.]*\.\d)")
CHECK = re.compile(r"""kb\.check_answer\(["']([^"']+)["']""")


def tags(cell: Any) -> set[str]:
    return set(cell.metadata.get("tags", ()))


def code_cells(notebook: Any) -> list[tuple[int, Any]]:
    """Code cells that are not empty, with their places among all cells."""
    return [
        (n, cell) for n, cell in enumerate(notebook.cells) if cell.cell_type == "code" and cell.source.strip()
    ]


def markdown_cells(notebook: Any) -> list[tuple[int, Any]]:
    return [(n, cell) for n, cell in enumerate(notebook.cells) if cell.cell_type == "markdown"]


def python_of(cell: Any) -> str:
    """A code cell as Python reads it; lines for IPython alone are left out."""
    return "\n".join("pass" if line.lstrip()[:1] in ("%", "!") else line for line in cell.source.splitlines())


def tree_of(cell: Any) -> ast.Module:
    return ast.parse(python_of(cell))


def texts_of(cell: Any) -> list[str]:
    """What a code cell printed or showed as plain text."""
    return [
        text if isinstance(text, str) else "".join(text)
        for output in cell.outputs
        for text in (output.get("text", ""), output.get("data", {}).get("text/plain", ""))
        if text
    ]


# -- cells ------------------------------------------------------------------------------------------------------


def shape(notebook: Any) -> Iterator[str]:
    """Few cells, the first of which asks; a sentence before each code cell."""
    if len(notebook.cells) > CELLS:
        yield f"{len(notebook.cells)} cells, at most {CELLS}"
    first = notebook.cells[0]
    title = first.source.partition("\n")[0]
    if first.cell_type != "markdown" or not title.startswith("# ") or not title.endswith("?"):
        yield f"cell 0: a notebook begins with its question, `# ...?`, not {title!r}"
    for n, (one, two) in enumerate(zip(notebook.cells, notebook.cells[1:], strict=False)):
        if one.cell_type == two.cell_type == "code":
            yield f"cells {n} and {n + 1}: no sentence between two code cells"


def words(notebook: Any) -> Iterator[str]:
    """Short texts, in the course's own words, with no times: those live in outputs."""
    for n, cell in markdown_cells(notebook):
        text = LINK.sub(r"\1", cell.source)
        count = sum(any(map(str.isalnum, word)) for word in text.split())
        if count > WORDS:
            yield f"cell {n}: {count} words, at most {WORDS}"
        for found in (*TIME.finditer(text), *NEVER.finditer(text)):
            yield f"cell {n}: {found[0]!r}"


def code(notebook: Any) -> Iterator[str]:
    """Short code that reads on a narrow screen, with all imports at the start."""
    for position, (n, cell) in enumerate(code_cells(notebook)):
        lines = [line for line in cell.source.splitlines() if line.strip()]
        if len(lines) > LINES:
            yield f"cell {n}: {len(lines)} lines of code, at most {LINES}"
        if max(map(len, lines)) > COLUMNS:
            yield f"cell {n}: a line of {max(map(len, lines))} columns, at most {COLUMNS}"
        imports = [node for node in ast.walk(tree_of(cell)) if isinstance(node, (ast.Import, ast.ImportFrom))]
        if position and imports:
            yield f"cell {n}: imports belong in the first code cell"


def links(notebook: Any, known: set[str]) -> Iterator[str]:
    """A link inside the repository leads to a file that a reader's copy has too; `known` are paths from notebooks/."""
    for n, cell in markdown_cells(notebook):
        for _, target in LINK.findall(cell.source):
            if not target.startswith(("https://", "http://", "#")) and target.partition("#")[0] not in known:
                yield f"cell {n}: the link to {target} leads to no file of the course"


# -- beats ------------------------------------------------------------------------------------------------------


def proof(notebook: Any) -> Iterator[str]:
    """One cell asserts, in the last third, and prints the one line that is proved, with its numbers."""
    asserting = [
        (n, cell)
        for n, cell in code_cells(notebook)
        if any(isinstance(node, ast.Assert) for node in ast.walk(tree_of(cell)))
    ]
    if len(asserting) != 1:
        yield f"{len(asserting)} cells assert, there is one proof"
    for n, cell in asserting:
        if 3 * (n + 1) <= 2 * len(notebook.cells):
            yield f"cell {n}: the proof belongs in the last third of {len(notebook.cells)} cells"
        if any(tag.startswith("nbval-ignore") for tag in tags(cell)):
            yield f"cell {n}: the proof is not compared"
        lines = [line for text in texts_of(cell) for line in text.splitlines() if line.startswith("proved: ")]
        if len(lines) != 1:
            yield f"cell {n}: prints {len(lines)} lines `proved: ...`, there is one"
        elif not any(map(str.isdigit, lines[0])):
            yield f"cell {n}: no number in {lines[0]!r}"
    total = sum(
        text.startswith("proved: ") or "\nproved: " in text
        for _, c in code_cells(notebook)
        for text in texts_of(c)
    )
    if total != 1:
        yield f"{total} outputs with `proved: ...`, there is one"


def honesty(notebook: Any) -> Iterator[str]:
    """One sentence spoils the simple story."""
    count = sum(cell.source.count("Not so fast") for _, cell in markdown_cells(notebook))
    if count != 1:
        yield f"{count} times `Not so fast`, there is one"


def predictions(notebook: Any) -> Iterator[str]:
    """A cell with `guess = None`, and after a sentence the one that ends with `kb.predict`."""
    cells = code_cells(notebook)
    asked = answered = 0
    for (before, previous), (n, cell) in zip([(-1, None), *cells], cells, strict=False):
        if "prediction" in tags(cell):
            asked += 1
            if not re.search(r"^\w+ = None\b", cell.source, re.MULTILINE):
                yield f"cell {n}: a prediction is saved as `guess = None`"
        if "kb.predict(" not in cell.source:
            continue
        answered += 1
        last = tree_of(cell).body[-1]
        if not (isinstance(last, ast.Expr) and ast.unparse(last).startswith("kb.predict(")):
            yield f"cell {n}: kb.predict comes last"
        if previous is None or "prediction" not in tags(previous):
            yield f"cell {n}: the code cell before it (cell {before}) is not tagged `prediction`"
        if not any(
            line.startswith("no guess. measured: ") for text in texts_of(cell) for line in text.splitlines()
        ):
            yield f"cell {n}: saved with a guess"
    if not answered or asked != answered:
        yield f"{asked} predictions are asked for, {answered} answered; there is one at least"


def exercises(notebook: Any, ids: set[str]) -> Iterator[str]:
    """Each exercise has one starter cell, which ends with its check and is saved without an answer."""
    found: list[str] = []
    for n, cell in code_cells(notebook):
        here = CHECK.findall(cell.source)
        if ("starter" in tags(cell)) != bool(here) or len(here) > 1:
            yield f"cell {n}: a cell tagged `starter` ends with one kb.check_answer(id, ...), and no other cell has it"
        found += here
        if here and "..." not in cell.source:
            yield f"cell {n}: a starter leaves `...` to be filled in"
        for id in here:
            if texts_of(cell) != [f"exercise {id}: not answered yet\n"]:
                yield f"cell {n}: saved with an answer to {id}"
    if sorted(found) != sorted(ids):
        yield f"exercises {sorted(found)}, expected {sorted(ids)}"


# -- outputs ----------------------------------------------------------------------------------------------------


def outputs(notebook: Any) -> Iterator[str]:
    """Text, tables, pictures, and widgets with the page that stands for them where there is no kernel."""
    states = notebook.metadata.get("widgets", {}).get(STATE, {}).get("state", {})
    ignored = [
        n for n, cell in code_cells(notebook) if any(tag.startswith("nbval-ignore") for tag in tags(cell))
    ]
    if len(ignored) > IGNORED_SHARE * len(code_cells(notebook)):
        yield f"cells {ignored} are not compared, at most one code cell in ten"
    for n, cell in code_cells(notebook):
        for output in cell.outputs:
            data = output.get("data", {})
            if set(data) - MIMES:
                yield f"cell {n}: an output of {', '.join(sorted(set(data) - MIMES))}"
            if VIEW in data:
                if not {"text/plain", "text/html"} <= set(data):
                    yield f"cell {n}: a widget without a page that stands for it"
                if len("".join(data.get("text/html", ""))) > FALLBACK_BYTES:
                    yield f"cell {n}: the page that stands for a widget is over {FALLBACK_BYTES} B"
                if data[VIEW]["model_id"] not in states:
                    yield f"cell {n}: a widget whose state is not saved"
        for text in texts_of(cell):
            for address in ADDRESS.findall(text):
                yield f"cell {n}: {address} is an address"
            for number in FLOAT.findall(text):
                if len(number.replace(".", "").strip("0")) > DIGITS:
                    yield f"cell {n}: {number} has more than {DIGITS} digits"


def metadata(notebook: Any) -> Iterator[str]:
    """Nothing of one machine or one run."""
    if notebook.metadata.get("kernelspec", {}).get("name") != "python3":
        yield "the kernel is not python3"
    if "version" in notebook.metadata.get("language_info", {}):
        yield "the version of Python is saved: run notebooks/build.py"
    for n, cell in enumerate(notebook.cells):
        if "execution" in cell.metadata:
            yield f"cell {n}: wall times are saved: run notebooks/build.py"


# -- solutions --------------------------------------------------------------------------------------------------


def solution(notebook: Any, solved: Any) -> Iterator[str]:
    """The same notebook, outputs and all, with only the starter cells replaced, each of which says that it is right."""
    if len(notebook.cells) != len(solved.cells):
        yield f"{len(solved.cells)} cells, the notebook has {len(notebook.cells)}"
        return
    for n, (old, new) in enumerate(zip(notebook.cells, solved.cells, strict=True)):
        if (old.cell_type, old.metadata) != (new.cell_type, new.metadata):
            yield f"cell {n} is of another kind"
        elif "starter" not in tags(old):
            if old.source != new.source:
                yield f"cell {n} is not the notebook's, and no starter cell"
            if old.get("outputs") != new.get("outputs"):
                yield f"cell {n} gave something else than in the notebook: run notebooks/build.py"
        else:
            for id in CHECK.findall(old.source):
                if CHECK.findall(new.source) != [id]:
                    yield f"cell {n} does not check {id}"
                if not any(text.startswith(f"exercise {id}: right. ") for text in texts_of(new)):
                    yield f"cell {n} does not say that {id} is right"
