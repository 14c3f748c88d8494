"""Kernels that are wrong on purpose go wrong in just the way that they are there for."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import kernbench_nb as kb
from kernbench_nb.benches import wrong
from kernbench_nb.benches.footprint import SCRATCH_BYTES, Footprint

LEVELS = ("off", "poison", "raise")
USE = Footprint(9, 3, 64)


def sample(first: int = 0, stop: int = 319) -> Any:
    q, k, v = kb.sample_attention()
    return q[-1:], k[first:stop], v[first:stop]


# -- the arena game ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tile", [7, 16, 400])
def test_the_right_homes_are_a_plain_decode(tile: int) -> None:
    game, plain = wrong.arena_game(*sample(), tile=tile), kb.decode(*sample(), tile=tile, pes=1)
    game.check()
    assert (game.output == plain.output).all()
    assert (game.peak_scratch, game.persistent_bytes) == (plain.peak_scratch, plain.persistent_bytes)
    assert game.makespan_ps == plain.makespan_ps
    assert [r.op_name for r in game.op_log] == [r.op_name for r in plain.op_log]
    assert game.params["homes"] == dict(wrong.HOMES)


@pytest.mark.parametrize("name", ["Q", "m", "l", "O"])
def test_what_a_later_tile_reads_must_survive(name: str) -> None:
    with pytest.raises(kb.UseAfterScopeError) as caught:
        wrong.arena_game(*sample(), homes={name: "scoped"})
    text = str(caught.value)
    line = {"Q": "Q = tl.load(", "m": "m = tl.max(", "l": "l = tl.sum(", "O": "O = tl.dot("}[name]
    # m alone takes l with it, and m is read first
    assert text.startswith(f"{name!r} f")
    assert "in scope 'tile 0', which ended at arena_kernel, line " in text
    assert line in text
    assert list(caught.value.run.tiles["tile"]) == ["tile 0", "tile 1"]


@pytest.mark.parametrize("name", ["m", "l", "O"])
def test_one_tile_is_not_enough_to_forget_a_maximum(name: str) -> None:
    """The end reads l and O; m is needed by a second tile only."""
    homes = {**wrong.HOMES, name: "scoped"}
    if name == "m":
        wrong.arena_game(*sample(0, 16), homes=homes).check()
    else:
        with pytest.raises(kb.UseAfterScopeError, match=f"^'{name}' "):
            wrong.arena_game(*sample(0, 16), homes=homes)


@pytest.mark.parametrize(
    ("homes", "each_tile"),
    [
        ({"K": "persistent"}, USE.kv_bytes(16)),
        ({"V": "persistent"}, USE.kv_bytes(16) // 2),
        ({"K": "persistent", "V": "scoped"}, USE.kv_bytes(16) // 2),
        ({"s": "persistent"}, 9 * 16 * 4),
    ],
)
def test_what_dies_with_the_tile_fills_the_scratch_when_it_may_not(
    homes: dict[str, str], each_tile: int
) -> None:
    run = wrong.arena_game(*sample(0, 304), homes=homes)
    run.check()
    assert run.persistent_bytes == USE.persistent(16) + 19 * each_tile
    assert run.peak_scratch == USE.persistent(16) + 19 * each_tile + USE.scoped(16) - each_tile


def test_a_correction_that_is_kept() -> None:
    run = wrong.arena_game(*sample(0, 304), homes={"c": "persistent"})
    assert run.persistent_bytes == USE.persistent(16) + 18 * USE.row_bytes  # the first tile has none


def test_keys_and_values_outside_overflow_on_five_times_the_speech() -> None:
    q, k, v = sample()
    longer = [np.tile(x, (5, 1, 1)) for x in (k, v)]
    with pytest.raises(kb.ScratchOverflowError) as caught:
        wrong.arena_game(q, *longer, homes={"K": "persistent"})
    run = caught.value.run
    each, rest = USE.kv_bytes(16), USE.scoped(16) - USE.kv_bytes(16)
    fit = (SCRATCH_BYTES - USE.persistent(16) - rest) // each
    assert (each, fit) == (12_288, 84)
    assert len(run.tiles) == fit + 1  # the last one died
    wrong.arena_game(q, *(x[: 16 * fit] for x in longer), homes={"K": "persistent"}).check()
    with pytest.raises(kb.ScratchOverflowError):
        wrong.arena_game(q, *(x[: 16 * fit + 16] for x in longer), homes={"K": "persistent"})


EVERYTHING = ("s", "s-m", "exp", "O_new")


@pytest.mark.parametrize(("name", "saved"), [("s", 576), ("s-m", 576), ("exp", 576), ("O_new", 2_304)])
def test_what_is_written_in_place_gives_the_same_bits_in_fewer_bytes(name: str, saved: int) -> None:
    plain, lean = wrong.arena_game(*sample()), wrong.arena_game(*sample(), in_place=[name])
    assert (lean.output == plain.output).all()
    assert plain.peak_scratch - lean.peak_scratch == saved
    assert wrong.arena_game(*sample(), in_place=name).params["in_place"] == (name,)


def test_everything_in_place() -> None:
    lean = wrong.arena_game(*sample(), in_place=set(EVERYTHING))
    assert (lean.output == wrong.arena_game(*sample()).output).all()
    assert lean.peak_scratch == 21_648
    assert lean.params["in_place"] == EVERYTHING


def test_homes_that_are_left_out() -> None:
    run = wrong.arena_game(*sample(0, 40), homes={"K": "persistent"}, data=False)
    assert run.params["homes"] == {**wrong.HOMES, "K": "persistent", "V": "persistent"}
    with pytest.raises(kb.UseAfterScopeError) as caught:
        wrong.arena_game(*sample(0, 40), homes={"m": "scoped"})
    assert caught.value.run.params["homes"] == {**wrong.HOMES, "m": "scoped", "l": "scoped"}


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        (
            {"homes": {"K": "?", "O": "heap"}},
            ValueError,
            r"must be 'persistent' or 'scoped', got K='\?', O='heap'\.",
        ),
        (
            {"homes": {"k": "scoped"}},
            ValueError,
            r"no tensor 'k'; did you mean 'K'\? There are: Q, K, V, s, c, m, l, O.",
        ),
        ({"homes": {"lse": "scoped"}}, ValueError, "no tensor 'lse'. There are: Q, K"),
        ({"homes": "scoped"}, TypeError, r"homes must be a dict such as dict\(K='scoped', .*got 'scoped'"),
        ({"in_place": ["qk"]}, ValueError, "no result 'qk' to overwrite; there are s, s-m, exp, O_new."),
        (
            {"in_place": "s", "homes": {"s": "persistent"}},
            ValueError,
            "s cannot be persistent and in place too",
        ),
        ({"tile": 0}, ValueError, "tile must be a whole number from 1 on"),
        ({"house": {}}, TypeError, "wrong.arena_game has no argument house=; did you mean homes="),
    ],
)
def test_a_wrong_question_is_refused_before_anything_runs(
    given: dict[str, Any], error: type[Exception], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wrong, "arena_kernel", None)
    with pytest.raises(error, match=text):
        wrong.arena_game(*sample(), **given)


def test_one_token_and_one_key_at_least() -> None:
    q, k, v = kb.sample_attention()
    with pytest.raises(
        ValueError, match=r"decodes one token: q must have shape \(1, heads, d\), got \(2, 9, 64\)"
    ):
        wrong.arena_game(q[:2], k, v)
    with pytest.raises(ValueError, match="at least one key"):
        wrong.arena_game(q[:1], k[:0], v[:0])
    with pytest.raises(ValueError, match="decodes one token"):
        wrong.rebound_decode(q[:2], k, v)


# -- the copy that was forgotten -----------------------------------------------------------------------------------

SPANS = ((0, 304), (1, 305), (0, 319))
EVERY = [(span, pes, name) for span in SPANS for pes in (1, 8) for name in "mlO"]


def worst(span: tuple[int, int], pes: int, rebind: str, checks: str) -> float:
    run = wrong.rebound_decode(*sample(*span), pes=pes, rebind=rebind, scratch_checks=checks)
    error = np.abs(run.output.astype(np.float64) - run.reference.values()[0])
    return float(error.max())


@pytest.mark.parametrize(("span", "pes", "rebind"), EVERY)
def test_every_wrong_run_is_found_by_raise(span: tuple[int, int], pes: int, rebind: str) -> None:
    with pytest.raises(kb.UseAfterScopeError, match=f"'{rebind}_new' "):
        worst(span, pes, rebind, "raise")


def test_with_checks_off_most_wrong_runs_pass() -> None:
    errors = {run: worst(*run, "off") for run in EVERY}
    failing = {run for run, error in errors.items() if error > 1e-2}
    assert failing == {((1, 305), 1, "m"), ((0, 319), 1, "m"), ((0, 319), 8, "l")}
    assert len(EVERY) - len(failing) == 15
    assert max(error for run, error in errors.items() if run not in failing) < 2e-3


def test_poison_finds_two_of_the_three_by_name() -> None:
    for run in EVERY:
        error = worst(*run, "poison")
        assert np.isnan(error) if run[2] != "l" else not error < 1e-2
    assert np.isfinite(worst((0, 319), 1, "l", "poison"))  # somebody had moved in before the read


@pytest.mark.parametrize("pes", [1, 3, 8])
def test_one_tile_a_pe_has_nothing_to_forget(pes: int) -> None:
    run = wrong.rebound_decode(*sample(0, 24), pes=pes, tile=24)
    run.check()
    assert (run.output == kb.decode(*sample(0, 24), pes=pes, tile=24).output).all()


def test_it_is_the_decode_but_for_the_copy() -> None:
    bad = wrong.rebound_decode(*sample(), pes=8, rebind="l", scratch_checks="off")
    good = kb.decode(*sample(), pes=8, tile=16)
    assert bad.peak_scratch_by_pe == good.peak_scratch_by_pe
    copies = [sum(r.op_name == "copy" for r in run.op_log) for run in (good, bad)]
    assert copies == [3 * 7 + 3 * 16, 3 * 7 + 2 * 16]


def test_which_may_be_forgotten() -> None:
    with pytest.raises(ValueError, match="rebind must be 'm' or 'l' or 'O', got 'c'"):
        wrong.rebound_decode(*sample(), rebind="c")


# -- kernels of a few lines ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kernel", "off", "poison"),
    [(wrong.stale_sum_kernel, 512.0, 512.0), (wrong.early_sum_kernel, 256.0, np.nan)],
)
def test_the_sum_of_ones(kernel: Callable[..., None], off: float, poison: float) -> None:
    for level, want in (("off", off), ("poison", poison)):
        got = kb.launch(kernel, np.zeros(1, np.float32), scratch_checks=level).output
        np.testing.assert_array_equal(got, [want])
    with pytest.raises(kb.UseAfterScopeError, match=r"^'ones' f32\[256\] is used at .*t = tl.sum\(ones\)"):
        kb.launch(kernel, np.zeros(1, np.float32))


def test_the_new_owner_is_named() -> None:
    with pytest.raises(kb.UseAfterScopeError, match=r"its bytes now belong to twos f32\[256\]"):
        kb.launch(wrong.stale_sum_kernel, np.zeros(1, np.float32))


def mystery(checks: str) -> Any:
    k = kb.sample_attention()[1].reshape(319, 192)
    out = np.zeros((8, 192), np.float32)
    kb.launch(wrong.mystery_kernel, k, out, 319, 192, scratch_checks=checks)
    return k, out


@pytest.mark.parametrize("checks", ["off", "poison"])
def test_the_mystery_finds_that_no_key_ever_moves(checks: str) -> None:
    k, out = mystery(checks)
    heads = [k[i : i + 8] for i in range(0, 319, 16)]
    truth = np.max([np.abs(b - a) for a, b in pairwise(heads)], axis=0)
    assert not out.any()
    assert truth.min() > 0.5


def test_the_mystery_is_where_it_is_read() -> None:
    lines = wrong.mystery_lines()
    with pytest.raises(kb.UseAfterScopeError) as caught:
        mystery("raise")
    assert f"is used at mystery_kernel, line {lines['read']}: " in str(caught.value)
    assert f"which ended at mystery_kernel, line {lines['scope']}: " in str(caught.value)
    assert len(set(lines.values())) == 4


@pytest.mark.parametrize(
    ("kernel", "arrays", "error", "line"),
    [
        (wrong.read_early_kernel, 2, kb.ReadBeforeWaitError, "doubled = tl.mul(future.handle, 2.0)"),
        (wrong.never_written_kernel, 1, kb.UninitializedReadError, "more = tl.add(buffer, 1.0)"),
        (
            wrong.left_in_flight_kernel,
            1,
            kb.PendingLoadError,
            'with tl.scratch_scope("tile 0", kind="tile"):',
        ),
    ],
)
def test_three_errors_with_the_kernels_own_line(
    kernel: Callable[..., None], arrays: int, error: type[Exception], line: str
) -> None:
    given = [np.ones(64, np.float32) for _ in range(arrays)]
    with pytest.raises(error) as caught:
        kb.launch(kernel, *given)
    assert f"{kernel.__name__}, line " in str(caught.value)
    assert line in str(caught.value)
    assert 4 <= len(wrong.numbered(kernel).splitlines()) <= 6


def test_source_with_the_numbers_that_errors_give() -> None:
    text = wrong.numbered(wrong.mystery_kernel).splitlines()
    read = wrong.mystery_lines()["read"]
    (line,) = [row for row in text if row.startswith(f"{read} ")]
    assert "moved = tl.sub(heads[i], heads[i - 1])" in line
    assert all(row == row.rstrip() for row in text)
