"""The views in a real JupyterLab: a notebook as a reader types it, and the shipped one."""

from __future__ import annotations

import ast
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lab import SECONDS, Notebook

CELLS = {
    "runs": """
import ipywidgets
import numpy as np

import kernbench_nb as kb

q, k, v = kb.sample_attention()
run = kb.decode(q[-1:], k, v, pes=8, tile=16, record="tiles")
long_k, long_v = np.tile(k, (5, 1, 1)), np.tile(v, (5, 1, 1))
scoped = kb.decode(q[-1:], long_k, long_v, pes=1, tile=16, data=False)
try:
    kb.decode(q[-1:], long_k, long_v, pes=1, tile=16, data=False, scoped=False)
except kb.ScratchOverflowError as error:
    dead = error.run
""",
    "stepper": "stepper = kb.step(run, pe=0)\nstepper",
    "pair": "pair = kb.step(scoped, dead)\npair",
    "arenas": "arenas = kb.show_arenas(run, pe=0)\nipywidgets.jslink((stepper, 'step'), (arenas, 'step'))\narenas",
    "log": "log = kb.show_log(run)\nipywidgets.jslink((log, 'selection'), (stepper, 'selection'))\nlog",
    "own": """
def softmax_rows(x, y, rows, n, *, tl):
    for r in range(rows):
        with tl.scratch_scope():
            a = tl.load(x + r * n, (n,))
            top = tl.max(a, 0)
            e = tl.exp(a - top)
            total = tl.sum(e, 0)
            tl.store(y + r * n, e / total)

x = np.arange(63, dtype=np.float32).reshape(9, 7)
y = np.zeros_like(x)
own = kb.step(kb.launch(softmax_rows, x, y, 9, 7))
own
""",
    "play": """
play = ipywidgets.Play(value=own.step, max=own.steps - 1, interval=20)
ipywidgets.jslink((play, "value"), (own, "step"))
play
""",
    "spare": "1 + 1",
}
AT = {name: n for n, name in enumerate(CELLS)}


@pytest.fixture(scope="module")
def notebook(open_notebook: Callable[[str], Notebook], folder: Path) -> Notebook:
    """The notebook above, run from top to bottom without an error."""
    nbformat = pytest.importorskip("nbformat")
    cells = [nbformat.v4.new_code_cell(text.strip(), id=name) for name, text in CELLS.items()]
    # without it JupyterLab asks which kernel is meant
    metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(nbformat.v4.new_notebook(cells=cells, metadata=metadata), folder / "views.ipynb")
    it = open_notebook("views.ipynb")
    outputs = it.run_all()
    assert errors_in(outputs) == []
    for name in ("stepper", "pair", "arenas", "log", "own"):
        view(it, name).locator("h2").first.wait_for()
    return it


@pytest.fixture(autouse=True)
def quiet(request: pytest.FixtureRequest) -> Any:
    """No test may leave an error in the console, or ask for anything off the machine."""
    yield
    if "notebook" in request.fixturenames:
        it = request.getfixturevalue("notebook")
        assert (it.errors, it.outside) == ([], [])


def errors_in(outputs: Any) -> list[str]:
    """Tracebacks, and what was written to stderr."""
    flat = [output for cell in outputs for output in cell]
    return [
        str(output.get("evalue") or output["text"])
        for output in flat
        if output["output_type"] == "error" or output.get("name") == "stderr"
    ]


def view(notebook: Notebook, name: str) -> Any:
    """The view in the output of a cell."""
    return notebook.cell(AT[name]).locator(".jp-OutputArea-output .kb").first


def position(notebook: Notebook, name: str) -> str:
    return str(view(notebook, name).locator("output.pos").text_content())


def wait_until(notebook: Notebook, expression: str, value: object) -> None:
    """Ask the kernel until it says so; a page tells it in its own time."""
    until = time.monotonic() + SECONDS
    found = ""
    while time.monotonic() < until:
        found = notebook.ask(expression)
        if found == repr(value):
            return
        notebook.page.evaluate("() => new Promise(requestAnimationFrame)")
    raise AssertionError(f"{expression} is {found}, expected {value!r}")


def test_the_controls_reach_the_kernel(notebook: Notebook) -> None:
    # by tile it stops before each rewind, as the run's own trace has it, and at both ends; PE 0's rows are the first
    tiles = "stepper._data.tiles"
    ran = f"({tiles}['pe'] == 0) & ({tiles}['op0'] >= 0)"
    stops = ast.literal_eval(notebook.ask(f"sorted({{0, *map(int, {tiles}['stop'][{ran}])}})"))
    assert len(stops) > 4
    it = view(notebook, "stepper")
    it.get_by_role("button", name="First").click()
    wait_until(notebook, "stepper.step", 0)
    it.get_by_role("button", name="Next").click()
    wait_until(notebook, "stepper.step", stops[1])
    it.get_by_role("button", name="Next").click()
    wait_until(notebook, "stepper.step", stops[2])
    it.focus()
    notebook.page.keyboard.press("End")
    wait_until(notebook, "stepper.step", int(notebook.ask("stepper.steps - 1")))
    notebook.page.keyboard.press("Home")
    wait_until(notebook, "stepper.step", 0)
    it.get_by_role("button", name="by operation").click()
    wait_until(notebook, "stepper.granularity", "op")
    it.get_by_role("slider", name="Step").fill("17")
    wait_until(notebook, "stepper.step", 17)
    it.focus()
    notebook.page.keyboard.press("ArrowRight")
    wait_until(notebook, "stepper.step", 18)
    it.get_by_role("button", name="Previous").click()
    wait_until(notebook, "stepper.step", 17)


def test_two_views_are_linked(notebook: Notebook) -> None:
    it = view(notebook, "stepper")
    it.get_by_role("button", name="by operation").click()
    it.get_by_role("slider", name="Step").fill("23")
    wait_until(notebook, "stepper.step, arenas.step", (23, 23))
    it.focus()
    notebook.page.keyboard.press("ArrowRight")
    wait_until(notebook, "stepper.step, arenas.step", (24, 24))


def test_the_kernel_moves_the_page(notebook: Notebook) -> None:
    view(notebook, "stepper").get_by_role("button", name="by operation").click()
    notebook.ask("stepper.set_trait('step', 30)")
    steps = notebook.ask("stepper.steps")
    for name in ("stepper", "arenas"):
        view(notebook, name).get_by_text(f"31 of {steps}").first.wait_for()


def test_a_log_marks_rows_in_a_stepper(notebook: Notebook) -> None:
    notebook.ask("log.set_trait('selection', [[3, 9]])")
    wait_until(notebook, "stepper.selection", [[3, 9]])
    notebook.ask("log.set_trait('selection', [])")
    wait_until(notebook, "stepper.selection", [])


def test_the_pair_opens_at_the_overflow(notebook: Notebook) -> None:
    it = view(notebook, "pair")
    assert position(notebook, "pair") == "tile 47 · 48 of 100"
    it.get_by_text("ScratchOverflowError").first.wait_for()
    it.focus()
    notebook.page.keyboard.press("ArrowLeft")
    wait_until(notebook, "pair.step", 47)
    notebook.page.keyboard.press("ArrowRight")
    wait_until(notebook, "pair.step", 48)


def test_a_kernel_of_ones_own_is_full(notebook: Notebook) -> None:
    """Plain scopes, no ranges, no names: scratch, source, engines and counters have it all."""
    it = view(notebook, "own")
    it.get_by_role("button", name="by operation").click()
    it.get_by_role("button", name="First").click()
    it.get_by_role("slider", name="Step").fill("30")
    wait_until(notebook, "own.step", 30)
    text = it.inner_text()
    for word in (
        "Scratch",
        "Engines",
        "Kernel",
        "e = tl.exp(a - top)",
        "peak scratch",
        "HBM bytes",
        "without scopes",
    ):
        assert word in text
    assert int(notebook.ask("own.run.peak_scratch")) == 160
    assert "160 B" in text


def test_a_linked_play_steps(notebook: Notebook) -> None:
    notebook.ask("own.set_trait('step', 0)")
    wait_until(notebook, "play.value, own.step", (0, 0))
    notebook.cell(AT["play"]).locator(".jupyter-widgets button").first.click()
    last = int(notebook.ask("own.steps - 1"))
    wait_until(notebook, "own.step", last)


def test_keys_in_a_view_do_not_reach_the_notebook(notebook: Notebook) -> None:
    before = notebook.cells
    notebook.select(AT["stepper"])
    view(notebook, "stepper").focus()
    notebook.page.keyboard.press("d")
    notebook.page.keyboard.press("d")
    assert notebook.cells == before
    # nor where a part of a view has the focus
    for name, part in (
        ("stepper", view(notebook, "stepper").get_by_role("slider", name="Step")),
        ("stepper", view(notebook, "stepper").get_by_role("button", name="Next")),
        ("log", view(notebook, "log").locator("th button").first),
        ("log", view(notebook, "log").get_by_role("region", name="Operations").last),
    ):
        notebook.select(AT[name])
        part.focus()
        notebook.page.keyboard.press("d")
        notebook.page.keyboard.press("d")
        assert notebook.cells == before
    # and where the notebook has the focus they do what they always do
    notebook.select(AT["spare"])
    notebook.cell(AT["spare"]).locator(".jp-InputPrompt").click()
    notebook.page.keyboard.press("d")
    notebook.page.keyboard.press("d")
    notebook.page.wait_for_function(
        f"() => window.jupyterapp.shell.currentWidget.content.widgets.length === {before - 1}"
    )
