"""Callbacks: one draw per change however often a cell is run again, errors that are shown, figures that are closed."""

from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import matplotlib.pyplot as plt
import pytest

import kernbench_nb as kb
from kernbench_nb.runtime_api.result import RunResult
from kernbench_nb.widgets.stepper import Stepper

RunOf = Callable[[str], RunResult]


@pytest.fixture
def view(run_of: RunOf) -> Iterator[Stepper]:
    made = kb.step(run_of("decode"), pe=7, tile="tile 0")
    yield made
    made.close()


def cell(view: Stepper, drawn: list[Any]) -> Any:
    """What a notebook cell does each time that it is run: a new function, the same code."""

    def draw(run: RunResult, at: float, pe: int) -> None:
        drawn.append((pe, at))

    return view.follow(draw)


@pytest.mark.parametrize("times", [1, 3, 10])
def test_wid_observer_rerun(times: int, view: Stepper) -> None:
    """wid-observer-rerun: running a cell again must not make a step draw twice."""
    drawn: list[Any] = []
    for _ in range(times):
        live = cell(view, drawn)
    assert len(drawn) == times  # each shows itself once when it is made
    drawn.clear()
    view.step = view.step  # the same value
    assert drawn == []
    view.step += 1  # from Python
    assert len(drawn) == 1
    view.set_state({"step": view.step + 1})  # as the front end does it
    assert len(drawn) == 2
    view.set_state({"step": view.step})
    assert len(drawn) == 2
    assert live.draws == 3


def test_a_pe_and_a_step_that_change_together_draw_once(view: Stepper) -> None:
    drawn: list[Any] = []
    cell(view, drawn)
    drawn.clear()
    view.set_state({"pe": 2, "step": 9})
    assert len(drawn) == 1
    assert drawn[0][0] == 2
    view.pe = 3  # moves the step too
    assert len(drawn) == 2


def test_other_traits_draw_nothing(view: Stepper) -> None:
    drawn: list[Any] = []
    cell(view, drawn)
    drawn.clear()
    view.granularity = "op"
    view.selection = [[1, 5]]
    view.layout.width = "50%"
    assert drawn == []


def test_two_pictures_on_one_stepper_are_two(view: Stepper) -> None:
    first, second = [], []

    def one(run: RunResult, at: float, pe: int) -> None:
        first.append(at)

    def two(run: RunResult, at: float, pe: int) -> None:
        second.append(at)

    view.follow(one)
    view.follow(two)
    view.step += 1
    assert (len(first), len(second)) == (2, 2)
    a, b = view.follow(lambda run, at, pe: first.clear()), view.follow(lambda run, at, pe: second.clear())
    assert (a.draws, b.draws) == (1, 1)  # on one line, and still not each other's successor
    view.step += 1
    assert (a.draws, b.draws) == (2, 2)


class Plot:
    """What a cell may define in place of a function."""

    def __init__(self, drawn: list[float], label: str = "") -> None:
        self.drawn = drawn
        self.label = label

    def __call__(self, run: RunResult, at: float, pe: int) -> None:
        self.drawn.append(at)

    def method(self, run: RunResult, at: float, pe: int) -> None:
        self.drawn.append(at)


def plot(run: RunResult, at: float, pe: int, *, drawn: list[float], label: str = "") -> None:
    drawn.append(at)


MADE_ANEW: dict[str, Callable[[list[float]], Any]] = {
    "partial": lambda drawn: partial(plot, drawn=drawn),
    "partial with a text": lambda drawn: partial(plot, drawn=drawn, label="S"),
    "object": lambda drawn: Plot(drawn),
    "method": lambda drawn: Plot(drawn).method,
    "partial of an object": lambda drawn: partial(Plot(drawn)),
}


@pytest.mark.parametrize("make", MADE_ANEW.values(), ids=MADE_ANEW)
def test_wid_observer_rerun_whatever_is_called(make: Callable[[list[float]], Any], view: Stepper) -> None:
    """wid-observer-rerun: a partial and an object are made anew by the cell too, and are recognised as the same."""
    drawn: list[float] = []
    for _ in range(5):
        view.follow(make(drawn))
    drawn.clear()
    view.step += 1
    assert len(drawn) == 1


def test_partials_with_other_numbers_and_texts_are_two_pictures(view: Stepper) -> None:
    drawn: list[float] = []
    for label in ("S", "P"):
        view.follow(partial(plot, drawn=drawn, label=label))
    drawn.clear()
    view.step += 1
    assert len(drawn) == 2


def test_the_time_of_the_step_is_given_in_ns(view: Stepper, trace: Callable) -> None:
    drawn: list[Any] = []
    cell(view, drawn)
    t = trace("decode")
    assert drawn == [(7, t.ops["clock"][t.pes[7]["op0"] + view.step] / 1000)]


def test_wid_figures_piled_up(view: Stepper) -> None:
    """wid-figures-piled-up: no figure stays open, and the user's own are left alone."""
    mine = plt.figure()
    open_before = plt.get_fignums()

    def draw(run: RunResult, at: float, pe: int) -> Any:
        _, ax = plt.subplots()
        ax.plot([0, at])
        if view.step == 12:
            raise RuntimeError("halfway <b>")
        return ax

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # matplotlib warns at more than 20 open figures
        follower = view.follow(draw)
        for step in range(25):
            view.step = step
            assert plt.get_fignums() == open_before
            if step == 12:
                assert follower.value == "<pre>RuntimeError: halfway &lt;b&gt;</pre>"
            else:
                assert follower.value.startswith(
                    '<img alt="" style="max-width:100%" src="data:image/png;base64,'
                )
    assert plt.gcf() is mine
    plt.close(mine)


def test_wid_figures_piled_up_after_all_were_closed(view: Stepper) -> None:
    """wid-figures-piled-up: a plot may close the user's figures; its own, which gets their number, does not stay."""
    plt.figure()

    def draw(run: RunResult, at: float, pe: int) -> Any:
        plt.close("all")
        return plt.subplots()[1]

    assert view.follow(draw).value.startswith("<img")
    assert plt.get_fignums() == []


def test_a_plot_that_gives_nothing_back_is_found(view: Stepper) -> None:
    before = plt.get_fignums()

    def draw(run: RunResult, at: float, pe: int) -> None:
        plt.subplots()

    assert view.follow(draw).value.startswith("<img")
    assert plt.get_fignums() == before
    assert view.follow(lambda run, at, pe: None).value == ""


def test_plots_of_the_package_follow(view: Stepper) -> None:
    before = plt.get_fignums()
    follower = view.follow(kb.plots.arena_map)
    first = follower.value
    assert first.startswith("<img")
    view.step = 40
    assert follower.value.startswith("<img")
    assert follower.value != first
    assert plt.get_fignums() == before


def test_nb_stable_output_of_a_follower(view: Stepper) -> None:
    """nb-stable-output: a follower's text has nothing of its picture's bytes."""
    follower = view.follow(kb.plots.arena_map)
    view.step = 3
    assert repr(follower) == "<Follower: PE 7, step 3>"
    assert follower._repr_mimebundle_()["text/plain"] == repr(follower)
    follower.close()
    assert repr(follower) == "<Follower: closed>"


def test_closing_ends_it(view: Stepper) -> None:
    drawn: list[Any] = []
    follower = cell(view, drawn)
    follower.close()
    follower.close()
    view.step += 1
    assert len(drawn) == 1
    follower = cell(view, drawn)
    gone = weakref.ref(follower)
    view.close()
    del follower
    gc.collect()
    assert gone() is None


def test_a_cell_shows_one_picture_for_each_view(tmp_path: Any) -> None:
    """Run for real: the inline backend must not show a follower's figures a second time."""
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    source = (
        "%matplotlib inline\n"
        "import matplotlib.pyplot as plt, kernbench_nb as kb, numpy as np\n"
        "def kernel(x, *, tl):\n"
        "    with tl.scratch_scope():\n"
        "        a = tl.load(x, (4,))\n"
        "view = kb.step(kb.launch(kernel, np.ones(4, np.float32)))\n"
        "def draw(run, at, pe):\n"
        "    fig, ax = plt.subplots()\n"
        "    return ax\n"
        "follower = view.follow(draw)\n"
        "for step in range(view.steps):\n"
        "    view.step = step\n"
        "view"
    )
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source)])
    nbclient.NotebookClient(book, timeout=60, kernel_name="python3").execute()
    outputs = book.cells[0].outputs
    assert [o.output_type for o in outputs] == ["execute_result"]
    assert "image/png" not in outputs[0].data
    assert outputs[0].data["text/html"].count("<img") == 1
