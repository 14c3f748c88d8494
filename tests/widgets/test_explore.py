"""The explorer: what a setting comes to, one run for each change, and errors shown as the lesson."""

from __future__ import annotations

import asyncio
import gc
import json
import weakref
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import kernbench_nb as kb
from kernbench_nb.benches.registry import bench
from kernbench_nb.widgets import explore as module
from kernbench_nb.widgets.exploring import Setting, work_out
from kernbench_nb.widgets.fallback import draw_explore
from kernbench_nb.widgets.picture import bytes_words

SMALL = Setting(h_kv=2, group=2, d=32, S_kv=1024, tile=64, pes=2)


def whole(setting: Setting) -> Any:
    """The setting run in full."""
    return bench(
        "gqa_decode", T_q=1, S_kv=setting.S_kv, h_q=setting.h_kv * setting.group, h_kv=setting.h_kv, d=setting.d,
        pes=setting.pes, tile=setting.tile, prefetch=setting.prefetch, scoped=setting.scoped, data=False,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def no_loop_of_others() -> Iterator[None]:
    """A browser that an earlier test keeps open leaves its event loop marked as running; here none is."""
    theirs = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    yield
    asyncio._set_running_loop(theirs)


@pytest.fixture
def explorer() -> Iterator[module.Explorer]:
    made = kb.explore(h_kv=2, group=2, d=32, S_kv=1024, tile=64, pes=2)
    yield made
    made.close()


# -- what comes of a setting -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "setting",
    [
        SMALL,
        replace(SMALL, prefetch=True),
        replace(SMALL, scoped=False, S_kv=512),
        replace(SMALL, pes=1, S_kv=64),
        Setting(1, 8, 64, 200, 16, 4),
    ],
)
def test_a_short_sweep_is_run_in_full(setting: Setting) -> None:
    state, run = work_out(setting).state, whole(setting)
    assert state["run_tiles"] == state["tiles"]
    assert (state["peak"], state["persistent"]) == (run.peak_scratch, run.persistent_bytes)
    assert (state["makespan"], state["hbm"]) == (run.makespan_ps, run.hbm_bytes)
    assert state["error"] is None
    assert state["verdict"].startswith("Fits: ")


@pytest.mark.parametrize("prefetch", [False, True])
@pytest.mark.parametrize("pes", [1, 8])
def test_what_repeats_is_added_up_to_the_picosecond(
    pes: int, prefetch: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kernbench_nb.widgets import exploring

    monkeypatch.setattr(exploring, "_BUDGET", 4 * pes)
    setting = Setting(h_kv=2, group=4, d=64, S_kv=64 * 16 * pes, tile=64, pes=pes, prefetch=prefetch)
    state, run = work_out(setting).state, whole(setting)
    assert (state["run_tiles"], state["tiles"]) == (4, 16)
    assert state["makespan"] == run.makespan_ps
    assert state["hbm"] == run.hbm_bytes
    assert state["peak"] == run.peak_scratch


@pytest.mark.parametrize(
    "setting", [SMALL, replace(SMALL, prefetch=True, pes=1), Setting(1, 8, 128, 4096, 256, 4)]
)
def test_the_curves_are_what_runs_measure(setting: Setting) -> None:
    curve = work_out(setting).state["curve"]
    at = curve["keys"].index(1024)
    for scoped, name in ((True, "scoped"), (False, "unscoped")):
        run = whole(replace(setting, S_kv=1024, scoped=scoped))
        assert curve[name][at] == run.peak_scratch
    assert curve["scoped"][-1] == curve["scoped"][-3]  # flat
    assert curve["unscoped"][-1] > 1.9 * curve["unscoped"][-3]  # not flat


def test_the_last_that_fits_fits_and_the_next_does_not() -> None:
    setting = replace(SMALL, pes=1, scoped=False)
    last = work_out(setting).state["last_fit"]
    assert work_out(replace(setting, S_kv=last)).state["error"] is None
    assert work_out(replace(setting, S_kv=last + 64)).state["error"]["type"] == "ScratchOverflowError"


@pytest.mark.parametrize("more", [2, 10])
def test_a_short_last_tile_that_still_fits_is_run_on_all_pes(more: int) -> None:
    setting = replace(SMALL, scoped=False)
    setting = replace(setting, S_kv=work_out(setting).state["last_fit"] + more)
    state, run = work_out(setting).state, whole(setting)
    assert (state["hbm"], state["makespan"], state["peak"], state["run_pes"]) == (
        run.hbm_bytes, run.makespan_ps, run.peak_scratch, setting.pes,
    )  # fmt: skip
    assert state["detail"].endswith("nothing given back; it just fits, since its last tile is short.")


def test_where_no_tile_fits_none_is_named() -> None:
    state = work_out(replace(SMALL, group=1_000_000)).state
    assert state["error"]["type"] == "ScratchOverflowError"
    assert state["detail"].endswith(" B. None does.")


def test_the_largest_tile_fits_and_the_next_does_not() -> None:
    setting = Setting(h_kv=8, group=4, d=128, S_kv=4096, tile=64, pes=1)
    largest = work_out(setting).state["largest_tile"]
    assert work_out(replace(setting, tile=largest)).state["error"] is None
    state = work_out(replace(setting, tile=largest + 1)).state
    assert state["error"]["type"] == "ScratchOverflowError"
    assert state["detail"].endswith(f"The largest that does has {largest} keys.")


def test_terms_are_those_of_the_sweep() -> None:
    setting = replace(SMALL, pes=1)
    state = work_out(setting).state
    t, run = state["terms"], whole(setting)
    c = run.tile_log.columns
    assert t["N"] * t["L"] + t["C_first"] + (t["N"] - 1) * t["C"] == int(c["end_ps"][-1] - c["start_ps"][0])
    assert t["I"] == 2 * run.topology.costs.dispatch_ps


def test_tile_sizes_are_compared_by_runs() -> None:
    axis = work_out(Setting(8, 4, 128, 4096, 64, 1)).state["tiles_axis"]
    at = axis["tile"].index(64)
    run = whole(Setting(8, 4, 128, 192, 64, 1))
    assert axis["peak"][at] == run.peak_scratch
    c = run.tile_log.columns
    assert axis["period"][at] == int(c["start_ps"][2] - c["start_ps"][1])
    assert axis["peak"][axis["tile"].index(512)] is None  # does not fit


def test_an_overflow_is_the_lesson() -> None:
    outcome = work_out(replace(SMALL, scoped=False, S_kv=1 << 20))
    state = outcome.state
    assert state["error"]["type"] == "ScratchOverflowError"
    assert state["verdict"].startswith("Overflow after ")
    assert state["detail"].endswith("turn scratch scopes on, and it fits for any length.")
    assert outcome.run is not None
    assert not outcome.run.completion.ok


def test_a_setting_that_cannot_be_says_why() -> None:
    outcome = work_out(replace(SMALL, pes=12))
    assert outcome.run is None
    assert outcome.state["verdict"] == "This setting does not run"
    assert "pes=12" in outcome.state["detail"]
    assert outcome.state["error"]["type"] == "PlacementError"


def test_the_state_is_strict_json() -> None:
    for setting in (SMALL, replace(SMALL, scoped=False, S_kv=1 << 20), replace(SMALL, pes=12)):
        state = work_out(setting).state
        assert json.loads(json.dumps(state, allow_nan=False)) == state


# -- the widget ------------------------------------------------------------------------------------------------


def test_a_change_is_one_run_and_one_picture(
    explorer: module.Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    worked: list[Setting] = []

    def count(setting: Setting, topology: Any) -> Any:
        worked.append(setting)
        return work_out(setting, topology)

    monkeypatch.setattr(module, "work_out", count)
    shown: list[Any] = []
    explorer.view.observe(lambda change: shown.append(change["new"]["verdict"]), names="state")
    explorer.controls["tile"].value = 32
    assert [s.tile for s in worked] == [32]
    explorer.controls["tile"].value = 32  # the same value
    assert len(worked) == 1
    explorer.set(tile=64, pes=4, prefetch=True)
    assert [(s.tile, s.pes, s.prefetch) for s in worked[1:]] == [(64, 4, True)]
    explorer.controls["preset"].value = "Llama-3 8B"
    assert [(s.h_kv, s.group, s.d) for s in worked[2:]] == [(8, 4, 128)]
    assert len(shown) == len(worked) == 3
    assert explorer.setting == worked[-1]


def test_the_last_change_wins_and_those_before_it_do_not_run(
    explorer: module.Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    worked: list[Setting] = []
    monkeypatch.setattr(module, "WAIT_S", 0)
    monkeypatch.setattr(module, "work_out", lambda s, t: worked.append(s) or work_out(s, t))

    async def drag() -> None:
        for tile in (16, 32, 48, 96):
            explorer.controls["tile"].value = tile
        assert worked == []
        assert explorer.view.busy
        while explorer.view.busy:
            await asyncio.sleep(0)

    asyncio.run(drag())
    assert [s.tile for s in worked] == [96]
    assert explorer.view.state["params"]["tile"] == 96


def test_a_change_that_is_taken_back_runs_nothing(
    explorer: module.Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    worked: list[Setting] = []
    monkeypatch.setattr(module, "WAIT_S", 0)
    monkeypatch.setattr(module, "work_out", lambda s, t: worked.append(s) or work_out(s, t))

    async def there_and_back() -> None:
        explorer.controls["tile"].value = 32
        explorer.controls["tile"].value = 64
        await asyncio.sleep(0)

    asyncio.run(there_and_back())
    assert worked == []
    assert not explorer.view.busy


def test_an_error_is_shown_and_the_next_change_mends_it(
    explorer: module.Explorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(setting: Setting, topology: Any) -> Any:
        raise RuntimeError("no luck")

    with monkeypatch.context() as patch:
        patch.setattr(module, "work_out", fail)
        explorer.controls["tile"].value = 32
        assert explorer.view.state["detail"] == "RuntimeError: no luck"
        assert explorer.view.heads == []
    explorer.controls["tile"].value = 16
    assert explorer.view.state["error"] is None
    assert explorer.run is not None


def test_an_overflow_is_stepped(explorer: module.Explorer) -> None:
    explorer.set(scoped=False, S_kv=1 << 20)
    head = explorer.view.heads[0]
    assert head["error"]["type"] == "ScratchOverflowError"
    assert explorer.view.step == head["open"]["step"]
    assert explorer.view.trace


def test_the_bundle_is_small_stable_and_says_the_verdict(explorer: module.Explorer) -> None:
    data, _ = explorer._repr_mimebundle_()
    assert data["text/plain"].startswith(
        "<Explorer: 4 heads on 2, d = 32, 1024 keys on 2 PEs, tile 64: Fits: "
    )
    assert data["text/html"].count("<img") == 1
    assert len(data["text/html"]) <= 40_000
    other = kb.explore(h_kv=2, group=2, d=32, S_kv=1024, tile=64, pes=2)
    assert other._repr_mimebundle_()[0]["text/html"] == data["text/html"]
    assert "application/vnd.jupyter.widget-view+json" in data
    other.close()


def test_a_value_between_the_choices_can_be_set(explorer: module.Explorer) -> None:
    explorer.set(S_kv=1000, tile=50)
    assert (explorer.setting.S_kv, explorer.setting.tile) == (1000, 50)
    assert 1000 in explorer.controls["S_kv"].options


def test_another_name_is_refused(explorer: module.Explorer) -> None:
    with pytest.raises(
        TypeError, match=r"kb\.explore has no setting 'heads'; there are h_kv, group, d, S_kv, tile"
    ):
        kb.explore(heads=3)
    with pytest.raises(TypeError, match="heads"):
        explorer.set(heads=3)


@pytest.mark.parametrize("call", ["explore", "set"])
@pytest.mark.parametrize(
    ("setting", "wanted"),
    [
        ({"pes": "8"}, r"pes must be a whole number, got '8'"),
        ({"d": None}, "d must be a whole number, got None"),
        ({"tile": 3.5}, r"tile must be a whole number, got 3\.5"),
        ({"S_kv": True}, "S_kv must be a whole number, got True"),
        ({"scoped": "no"}, "scoped must be True or False, got 'no'"),
        ({"prefetch": 1}, "prefetch must be True or False, got 1"),
    ],
)
def test_a_setting_of_another_type_is_refused_and_leaves_nothing(
    setting: dict[str, Any], wanted: str, call: str, capsys: pytest.CaptureFixture[str]
) -> None:
    explorer = module.Explorer(SMALL)
    with pytest.raises(TypeError, match=f"kb.explore: {wanted}"):
        (kb.explore if call == "explore" else explorer.set)(**setting)
    assert explorer.setting == SMALL
    explorer.close()
    gc.collect()
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("name", ["h_kv", "group", "d", "S_kv", "tile", "pes"])
@pytest.mark.parametrize("value", [0, -3])
def test_a_size_below_one_is_refused(name: str, value: int, explorer: module.Explorer) -> None:
    for call in (kb.explore, explorer.set):
        with pytest.raises(ValueError, match=rf"kb\.explore: {name} must be at least 1, got {value}"):
            call(**{name: value})
    assert explorer.setting == explorer._now()


def test_a_machine_that_there_is_not_is_refused() -> None:
    with pytest.raises(kb.TopologyError, match="nope"):
        kb.explore(topology="nope")


def test_nothing_worked_out_is_nothing_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(setting: Setting, topology: Any) -> Any:
        raise RuntimeError("no luck")

    monkeypatch.setattr(module, "work_out", fail)
    made = module.Explorer(SMALL)
    assert "This setting does not run" in made._repr_mimebundle_()[0]["text/plain"]
    made.close()


def test_numpy_numbers_are_settings() -> None:
    explorer = module.Explorer(SMALL)
    explorer.set(pes=np.int64(1), scoped=np.False_)
    assert explorer.setting == replace(SMALL, pes=1, scoped=False)
    assert type(explorer.setting.pes) is int
    explorer.close()


def test_closing_closes_everything() -> None:
    from ipywidgets.widgets.widget import _instances

    before = len(_instances)
    made = kb.explore(h_kv=2, group=2, d=32, S_kv=1024, tile=64, pes=2)
    run = weakref.ref(made.run)
    control = made.controls["tile"]
    made.close()
    made.close()
    control.value = 16  # a late message
    made.work()
    assert made.run is None
    assert len(_instances) == before
    gc.collect()
    assert run() is None


def test_the_still_picture_has_its_axes_and_says_where_the_setting_stands(explorer: module.Explorer) -> None:
    picture = draw_explore(explorer.view.state)
    for text in (
        "2 097 152",
        "131 072",
        "256 KiB",
        "limit 1 MiB",
        "keys of the context; both axes are logarithmic",
    ):
        assert f">{text}<" in picture
    peak = explorer.view.state["peak"]
    assert f">1 024 keys: {bytes_words(peak)}<" in picture
    explorer.set(scoped=False, S_kv=1 << 20)
    assert explorer.view.state["error"]
    assert " keys: " not in draw_explore(explorer.view.state)
