"""The widgets from Python's side: traits, what is shown without a page, and the end."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import ipywidgets
import numpy as np
import pytest
import traitlets

import kernbench_nb as kb
from kernbench_nb.runtime_api.result import RunResult
from kernbench_nb.widgets.reader import Trace
from kernbench_nb.widgets.stepper import Stepper
from kernbench_nb.widgets.trace import encode

RunOf = Callable[[str], RunResult]


@pytest.fixture
def step(run_of: RunOf) -> Iterator[Callable[..., Stepper]]:
    """`kb.step` on runs by name; everything is closed at the end."""
    made: list[Stepper] = []

    def make(name: str, other: str | None = None, **more: Any) -> Stepper:
        made.append(kb.step(run_of(name), None if other is None else run_of(other), **more))
        return made[-1]

    yield make
    for view in made:
        view.close()


# -- traits ----------------------------------------------------------------------------------------------------


def test_four_traits_are_shared_and_the_rest_is_sent_once(
    step: Callable[..., Stepper], run_of: RunOf
) -> None:
    view = step("decode", pe=7, tile="tile 2", at="O*c")
    assert (view.pe, view.granularity, view.selection) == (7, "op", [])
    assert isinstance(view, ipywidgets.DOMWidget)
    assert view.has_trait("layout")
    head, buffer = encode(run_of("decode"))
    assert view.heads == [head]
    assert view.trace == buffer
    assert view.page_traits() == [
        "granularity", "heads", "names", "pe", "selection", "step", "trace", "trace_b"
    ]  # fmt: skip
    assert view.trait_defaults("granularity") == "tile"


def test_by_tile_unless_an_operation_is_named(step: Callable[..., Stepper]) -> None:
    assert step("decode").granularity == "tile"
    assert step("decode", at="c").granularity == "op"
    assert step("decode", at="c", granularity="tile").granularity == "tile"


def test_a_step_beyond_the_run_is_its_nearest_end(step: Callable[..., Stepper]) -> None:
    view = step("decode", pe=7)
    view.step = 10_000
    assert view.step == view.steps - 1 == 62
    view.step = -3
    assert view.step == 0
    view.pe = 99
    assert view.pe == 7
    with pytest.raises(traitlets.TraitError):
        view.granularity = "page"
    with pytest.raises(traitlets.TraitError):
        view.selection = [[1, 2, 3]]


def test_another_pe_is_looked_at_at_the_same_time(step: Callable[..., Stepper]) -> None:
    view = step("decode", pe=7, tile="tile 2", at="O*c")
    t = Trace(view.heads[0], view.trace)
    time = t.ops["clock"][t.pes[7]["op0"] + view.step]
    view.pe = 2
    row = t.pes[2]["op0"] + view.step
    assert t.ops["clock"][row] <= time < t.ops["clock"][row + 1]


def test_a_step_that_comes_with_a_pe_is_meant_for_it(step: Callable[..., Stepper]) -> None:
    view = step("decode", pe=7)
    view.set_state({"pe": 2, "step": 5})  # as a page sends them
    assert (view.pe, view.step) == (2, 5)
    with view.hold_trait_notifications():
        view.pe, view.step = 3, 6
    assert (view.pe, view.step) == (3, 6)


def test_observe_and_jslink(step: Callable[..., Stepper]) -> None:
    view = step("decode", pe=7)
    seen: list[tuple[str, int]] = []
    view.observe(lambda change: seen.append((change["name"], change["new"])), names=["step", "pe"])
    view.step = 3
    view.step = 3
    view.set_state({"step": 4})
    assert seen == [("step", 3), ("step", 4)]
    play = ipywidgets.Play(min=0, max=view.steps - 1)
    link = ipywidgets.jslink((play, "value"), (view, "step"))
    assert link.target == (view, "step")
    python = ipywidgets.link((play, "value"), (view, "step"))
    play.value = 9
    assert view.step == 9
    python.unlink()
    link.close()
    play.close()


def test_interact_drives_a_step(step: Callable[..., Stepper]) -> None:
    view = step("decode", pe=7)

    def show(step: int) -> None:
        view.step = step

    control = ipywidgets.interactive(show, step=(0, view.steps - 1))
    control.children[0].value = 11
    assert view.step == 11
    control.close()


# -- what is shown without a page ------------------------------------------------------------------------------


def test_the_bundle_has_a_text_and_a_picture(any_run: str, step: Callable[..., Stepper]) -> None:
    view = step(any_run)
    data, _ = view._repr_mimebundle_()
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == view.model_id
    assert data["text/plain"] == repr(view)
    assert data["text/html"].startswith('<img alt="&lt;Stepper: ')
    assert 'src="data:image/svg+xml;base64,' in data["text/html"]
    assert len(data["text/html"]) <= 40_000


def test_the_bundle_is_the_same_every_time(step: Callable[..., Stepper]) -> None:
    bundles = []
    for _ in range(2):
        view = step("decode", pe=7, tile="tile 2", at="O*c")
        data, _ = view._repr_mimebundle_()
        bundles.append((data["text/plain"], data["text/html"]))
    assert bundles[0] == bundles[1]
    assert bundles[0][0] == "<Stepper: Flash decode on PE 7, step 53 of 63>"


def test_the_picture_is_of_the_first_step(step: Callable[..., Stepper]) -> None:
    view = step("decode", pe=7, tile="tile 2", at="O*c")
    before = view.svg()
    view.step = 0
    assert view.svg() == before


# -- two runs --------------------------------------------------------------------------------------------------


def test_a_pair_is_stepped_by_tile_and_opens_at_the_overflow(step: Callable[..., Stepper]) -> None:
    pair = step("long", "overflow")
    assert [head["scoped"] for head in pair.heads] == [True, False]
    assert pair.trace != pair.trace_b
    assert pair.names == ["With scratch scopes", "Without scratch scopes"]
    assert (pair.pe, pair.step, pair.steps, pair.granularity) == (0, 48, 101, "tile")
    assert repr(pair) == "<Stepper: With scratch scopes beside Without scratch scopes, after 48 of 100 tiles>"
    assert "ScratchOverflowError" in pair.svg()
    pair.step = 400
    assert pair.step == 100


def test_where_a_pair_opens(step: Callable[..., Stepper]) -> None:
    assert step("long", "overflow", tile="tile 9").step == 10
    both = step("decode", "prefetch")
    assert (both.pe, both.step) == (3, 2)  # the last PE of both, in the middle
    assert both.names == ["Without prefetch", "With prefetch"]
    assert step("long", "overflow", names=["a", "b"]).names == ["a", "b"]


def test_what_a_pair_cannot_be(run_of: RunOf) -> None:
    with pytest.raises(ValueError, match="names= are the titles of the two runs, got 1: 'a'"):
        kb.step(run_of("long"), run_of("overflow"), names=["a"])
    with pytest.raises(
        ValueError, match=r"at='c': two runs are stepped together by tile, so tile= says where to open"
    ):
        kb.step(run_of("long"), run_of("overflow"), at="c")
    with pytest.raises(ValueError, match=r"PE 7 took no part in both runs; these did: 0, 1, 2, 3\."):
        kb.step(run_of("decode"), run_of("prefetch"), pe=7)
    with pytest.raises(ValueError, match="the two runs have no PE in common"):
        kb.step(run_of("nothing"), _elsewhere())
    with pytest.raises(TypeError, match=r"names= are the titles of the two runs, two texts; got \[1, 2\]"):
        kb.step(run_of("long"), run_of("overflow"), names=[1, 2])


def test_a_run_that_did_nothing_is_no_side_of_a_pair(run_of: RunOf) -> None:
    alone = r"nothing to step beside the other run; look at that one alone: kb.step\(run\)"
    for pair in (("nothing", "decode"), ("decode", "nothing")):
        with pytest.raises(ValueError, match=f"empty_kernel did nothing, so there is {alone}"):
            kb.step(*map(run_of, pair))

    def fails(*, tl: Any) -> None:
        raise RuntimeError("at once")

    with pytest.raises(RuntimeError) as caught:
        kb.launch(fails)
    with pytest.raises(ValueError, match=r"stopped before it did anything \(RuntimeError: at once\)"):
        kb.step(run_of("decode"), caught.value.run)  # type: ignore[attr-defined]


@pytest.mark.parametrize("show", ["step", "show_arenas", "show_log"])
def test_what_is_no_run_is_refused(show: str, run_of: RunOf) -> None:
    with pytest.raises(
        TypeError, match=f"kb.{show} takes a RunResult, what kb.launch or kb.decode returns; got"
    ):
        getattr(kb, show)("decode")
    if show == "step":
        with pytest.raises(TypeError, match=r"kb.step takes a RunResult"):
            kb.step(run_of("decode"), 3)  # type: ignore[arg-type]


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_refused_view_says_so_once(run_of: RunOf) -> None:
    """What Python collects of it does not raise a second time, into the notebook's stderr."""
    with pytest.raises(traitlets.TraitError, match="'granularity' trait of a Stepper"):
        kb.step(run_of("user"), granularity="row")
    gc.collect()


def _elsewhere() -> RunResult:
    from dataclasses import replace

    def kernel(*, tl: Any) -> None: ...

    run = kb.launch(kernel)
    trace = run.given_log[0]
    trace.pe = 5
    return replace(run, given_log=(trace,), engine=None)


def test_titles_tell_two_runs_apart(run_of: RunOf) -> None:
    from kernbench_nb.widgets.words import side_titles

    q, k, v = (np.ones((n, 1, 8), np.float16) for n in (1, 16, 16))
    a, b = (kb.decode(q, k, v, pes=1, tile=t, data=False) for t in (4, 8))
    assert side_titles(a, b) == ("tile = 4", "tile = 8")
    assert side_titles(run_of("user"), run_of("no scopes")) == ("softmax_rows", "add")
    other = kb.decode(q, k, v, pes=1, tile=4, data=False, topology="single_pe")
    assert side_titles(a, other) == ("ahbm", "single_pe")
    assert side_titles(a, a) == ("First run", "Second run")


# -- the end ---------------------------------------------------------------------------------------------------


def test_close_is_idempotent_and_lets_go_of_the_run(step: Callable[..., Stepper]) -> None:
    view = step("long", "overflow")
    view.close()
    view.close()
    assert view.run is view.other is None
    assert (view.heads, view.trace, view.trace_b) == ([], b"", b"")
    assert repr(view) == "<Stepper: closed>"
    view.step = 3  # nothing breaks
    assert view.steps == 1


def test_nothing_is_left_of_a_closed_view() -> None:
    run = kb.launch(lambda x, *, tl: tl.load(x, (4,)), np.ones(4, np.float32))
    views = [kb.step(run), kb.show_arenas(run), kb.show_log(run)]
    watched = [weakref.ref(run), *map(weakref.ref, views)]
    for view in views:
        view.close()
    del run, view, views
    gc.collect()
    assert [w() for w in watched] == [None] * 4


def test_views_leave_no_widget_behind(run_of: RunOf) -> None:
    from ipywidgets.widgets.widget import _instances

    before = len(_instances)
    for _ in range(20):
        kb.step(run_of("user")).close()
    assert len(_instances) == before


# -- arenas and log --------------------------------------------------------------------------------------------


def test_arenas_open_where_they_are_told(run_of: RunOf) -> None:
    view = kb.show_arenas(run_of("decode"), pe=3, tile="tile 1")
    assert repr(view) == "<Arenas: Flash decode, scratch of PE 3, step 37 of 84>"
    assert view.page_traits() == ["granularity", "heads", "pe", "selection", "step", "trace"]
    view.close()
    assert repr(view) == "<Arenas: closed>"


def test_a_log_says_what_it_is_grouped_and_filtered_by(run_of: RunOf) -> None:
    view = kb.show_log(run_of("decode"), by="tile", pe=0, query="exp")
    assert (view.group, view.query, view.pe) == ("tile", "PE 0 exp", 0)
    assert repr(view) == "<Log: Flash decode, 566 operations by tile>"
    view.close()
    with pytest.raises(ValueError, match="a log is grouped by one of op, engine, pe, tile, got by='name'"):
        kb.show_log(run_of("decode"), by="name")
    with pytest.raises(ValueError, match="PE 12 took no part"):
        kb.show_log(run_of("decode"), pe=12)


@pytest.mark.parametrize("show", ["show_arenas", "show_log"])
def test_their_bundles_are_small_and_stable(show: str, any_run: str, run_of: RunOf) -> None:
    views = [getattr(kb, show)(run_of(any_run)) for _ in range(2)]
    bundles = [view._repr_mimebundle_()[0] for view in views]
    assert bundles[0]["text/html"] == bundles[1]["text/html"]
    assert len(bundles[0]["text/html"]) <= 40_000
    for view in views:
        view.close()


# -- the module ------------------------------------------------------------------------------------------------


def test_the_module_travels_packed_and_holds_what_is_there() -> None:
    import base64
    import re
    import zlib

    from kernbench_nb.widgets.base import module_text
    from kernbench_nb.widgets.esm import css, esm

    for entry in ("stepper", "arenas", "log", "explore"):
        text = module_text(entry)
        packed = re.search(r"const packed = '([^']+)'", text)
        assert packed
        assert zlib.decompress(base64.b64decode(packed[1])).decode() == f"{css()}\0{esm(entry)}"
        assert len(text) < (len(css()) + len(esm(entry))) / 2
        assert module_text(entry) is text
