"""``%load_ext kernbench_nb`` and ``%%kernel_step``, in a real IPython shell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from kernbench_nb.widgets.stepper import Stepper

KERNEL = """
import numpy as np, kernbench_nb as kb

def twice(x, y, *, tl):
    with tl.scratch_scope():
        a = tl.load(x, (4,))
        b = a * 2
        tl.store(y, b)

x, y = np.arange(4, dtype=np.float32), np.zeros(4, np.float32)
"""


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    config = Config()
    config.HistoryManager.enabled = False  # no file, no thread
    made = InteractiveShell(config=config)
    made.run_line_magic("load_ext", "kernbench_nb")
    yield made
    InteractiveShell.clear_instance()


def test_the_last_value_is_stepped(shell: InteractiveShell) -> None:
    view = shell.run_cell_magic("kernel_step", "at=b", KERNEL + "kb.launch(twice, x, y)")
    assert isinstance(view, Stepper)
    assert shell.user_ns["y"].tolist() == [0, 2, 4, 6]
    source = view.heads[0]["sources"][0]
    assert source["name"] == "twice"
    assert source["file"] == "cell"
    assert "b = a * 2" in source["lines"][3]
    assert "step 3 of 5" in repr(view)
    view.close()


def test_a_run_that_is_assigned_is_stepped(shell: InteractiveShell) -> None:
    view = shell.run_cell_magic(
        "kernel_step", "pe=0 granularity=op", KERNEL + "run = kb.launch(twice, x, y)\nz = 3"
    )
    assert (view.granularity, shell.user_ns["z"]) == ("op", 3)
    assert shell.user_ns["run"] is view.run
    view.close()


def test_a_kernel_that_fails_is_stepped_as_far_as_it_came(shell: InteractiveShell, capsys: Any) -> None:
    cell = KERNEL.replace("b = a * 2", "b = tl.empty((1 << 20,), 'f32', name='b')") + "kb.launch(twice, x, y)"
    view = shell.run_cell_magic("kernel_step", "at=b", cell)
    assert capsys.readouterr().out.startswith(
        "ScratchOverflowError: TLContext scratch overflow: b f32[1048576] wants"
    )
    assert view.heads[0]["error"]["name"] == "b"
    view.close()


def test_any_other_error_is_the_cells_own(shell: InteractiveShell) -> None:
    with pytest.raises(ZeroDivisionError):
        shell.run_cell_magic("kernel_step", "", "1 / 0")
    with pytest.raises(ValueError, match=r"found no run: end the cell with one, such as kb\.launch"):
        shell.run_cell_magic("kernel_step", "", "x = 1")
    with pytest.raises(ValueError, match=r"takes pe=, tile=, at=, granularity= .*, got 'step=3'"):
        shell.run_cell_magic("kernel_step", "step=3", "x = 1")


@pytest.mark.parametrize("line", ["pe=one", "pe=-1", "pe=", 'tile="tile 2'])
def test_an_option_that_cannot_be_read_says_how_it_is_written(shell: InteractiveShell, line: str) -> None:
    with pytest.raises(ValueError, match=r"takes pe=, tile=, at=, granularity= .*, got ") as caught:
        shell.run_cell_magic("kernel_step", line, "x = 1")
    assert str(caught.value).endswith(f"got {line!r}")


@pytest.mark.parametrize(
    "cell", ["def other():\n    run = 3", "class A:\n    run = 3", "[run for run in ()]"]
)
def test_a_run_of_an_earlier_cell_is_not_this_cells(shell: InteractiveShell, cell: str) -> None:
    shell.run_cell_magic("kernel_step", "", KERNEL + "run = kb.launch(twice, x, y)").close()
    with pytest.raises(ValueError, match="found no run"):
        shell.run_cell_magic("kernel_step", "", cell)


def test_a_run_that_the_last_line_assigns_on_the_way_is_stepped(shell: InteractiveShell) -> None:
    view = shell.run_cell_magic("kernel_step", "", KERNEL + "(run := kb.launch(twice, x, y)).makespan_ps")
    assert shell.user_ns["run"] is view.run
    view.close()


def test_unloading_takes_it_away(shell: InteractiveShell) -> None:
    assert "kernel_step" in shell.magics_manager.magics["cell"]
    shell.run_line_magic("unload_ext", "kernbench_nb")
    assert "kernel_step" not in shell.magics_manager.magics["cell"]
