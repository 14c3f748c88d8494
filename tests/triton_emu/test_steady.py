"""A step that repeats leaves what it would have left by running: rows, bytes, values, errors."""

from __future__ import annotations

import linecache
import threading
from collections import namedtuple
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kernbench_nb as kb
from kernbench_nb.benches import _flash, _gqa_prefill_long, _step
from kernbench_nb.benches import _gqa_decode_long as gqa
from kernbench_nb.errors import ScratchOverflowError, UninitializedReadError, UseAfterScopeError
from kernbench_nb.sim_engine.trace import CHAIN, STRIDE
from kernbench_nb.triton_emu.steady import steady
from tests.triton_emu.tools import context, put

KERNELS = (_flash, gqa, _gqa_prefill_long)


@contextmanager
def plain() -> Iterator[None]:
    """The package's kernels with a fold that always runs."""
    fold = _step.fold_tile
    try:
        for room in KERNELS:
            room.fold_tile = fold.__wrapped__  # type: ignore[attr-defined]
        yield
    finally:
        for room in KERNELS:
            room.fold_tile = fold  # type: ignore[attr-defined]


def assert_same(make: Callable[[], kb.RunResult]) -> None:
    found = make()
    with plain():
        expected = make()
    pd.testing.assert_frame_equal(found.frame, expected.frame)
    pd.testing.assert_frame_equal(found.memory, expected.memory)
    pd.testing.assert_frame_equal(found.tiles, expected.tiles)
    assert found.peak_scratch_by_pe == expected.peak_scratch_by_pe
    assert found.counters == expected.counters
    if found.engine.enable_data:
        np.testing.assert_array_equal(found.output, expected.output)  # bit for bit


def qkv(tokens: int, keys: int, h_q: int, h_kv: int, d: int) -> Any:
    random = np.random.default_rng(tokens * keys + d)
    return [
        random.standard_normal((n, h, d)).astype(np.float16)
        for n, h in ((tokens, h_q), (keys, h_kv), (keys, h_kv))
    ]


@settings(max_examples=12, deadline=None)
@given(
    keys=st.integers(1, 60),
    tile=st.integers(1, 24),
    heads=st.sampled_from([(1, 1), (4, 1), (6, 2)]),
    pes=st.sampled_from([1, 3]),
    options=st.fixed_dictionaries(
        {
            "scoped": st.booleans(),
            "prefetch": st.booleans(),
            "data": st.booleans(),
            "scratch_checks": st.sampled_from(["raise", "poison", "off"]),
        }
    ),
)
def test_decode_is_the_same_as_without(
    keys: int, tile: int, heads: tuple[int, int], pes: int, options: dict[str, Any]
) -> None:
    q, k, v = qkv(2, keys, *heads, 16)
    assert_same(lambda: kb.decode(q, k, v, pes=pes, tile=tile, **options))


@settings(max_examples=8, deadline=None)
@given(tokens=st.integers(1, 40), tile_q=st.integers(4, 16), tile_kv=st.integers(2, 16), causal=st.booleans())
def test_flash_is_the_same_as_without(tokens: int, tile_q: int, tile_kv: int, causal: bool) -> None:
    q, k, v = qkv(tokens, tokens, 2, 1, 8)
    assert_same(lambda: kb.flash(q, k, v, tile_q=tile_q, tile_kv=tile_kv, causal=causal))


@pytest.mark.parametrize("causal", [False, True])
def test_ring_is_the_same_as_without(causal: bool) -> None:
    q, k, v = qkv(48, 48, 2, 1, 8)
    assert_same(lambda: kb.prefill(q, k, v, cubes=3, tile=4, causal=causal))


def test_recorded_values_are_the_same() -> None:
    q, k, v = qkv(1, 60, 2, 1, 8)
    assert_same(lambda: kb.decode(q, k, v, pes=1, tile=6, record="tiles"))


# -- how often the step really runs ----------------------------------------------------------------------------


class Count:
    """A step that keeps count, which a real one must not: here it tells a run from a repetition."""

    def __init__(self, body: Callable[..., Any]) -> None:
        self.runs = 0

        def step(tl: Any, *args: Any, **more: Any) -> Any:
            self.runs += 1
            return body(tl, *args, **more)

        self.step = steady(step)


def fold(tl: Any, x: Any, total: Any, by: Any = 2.0) -> None:
    more = tl.mul(x, by, name="more")
    tl.copy_to(total, tl.add(total, more, name="sum"))


def sweep(step: Callable[..., Any], *arguments: Any, tiles: int = 6, **context_options: Any) -> Any:
    """A context in which a step was called in a loop, on values that change, and the running total."""
    tl = context(**context_options)
    total = put(tl, np.zeros((1, 4), np.float32))
    for i in range(tiles):
        with tl.scratch_scope(f"tile {i}", kind="tile"):
            x = put(tl, np.full((1, 4), i, np.float32))
            step(tl, x, total, *(argument(i) if callable(argument) else argument for argument in arguments))
    return tl, total


def log(tl: Any) -> list[Any]:
    """The rows but for the call chain, which knows the function that was called."""
    rows = [tuple(tl.commands.rows[i : i + STRIDE]) for i in range(0, len(tl.commands.rows), STRIDE)]
    return [row[:CHAIN] for row in rows]


def test_a_step_runs_twice_and_is_repeated_from_then_on() -> None:
    counted = Count(fold)
    tl, total = sweep(counted.step)
    plain_tl, plain_total = sweep(fold)
    assert counted.runs == 2
    assert log(tl) == log(plain_tl)
    assert (tl.now_ps, tl.scratch.high_water) == (plain_tl.now_ps, plain_tl.scratch.high_water)
    np.testing.assert_array_equal(total.numpy(), plain_total.numpy())
    np.testing.assert_array_equal(total.numpy(), np.full((1, 4), 2.0 * sum(range(6)), np.float32))


def test_operands_beyond_the_second_are_repeated_too() -> None:
    def fma(tl: Any, x: Any, total: Any) -> None:
        tl.copy_to(total, tl.fma(x, x, total))

    counted = Count(fma)
    tl, total = sweep(counted.step)
    plain_tl, _ = sweep(fma)
    assert counted.runs == 2
    assert tl.commands.more == plain_tl.commands.more
    assert len(tl.commands.more) == 6
    assert total.numpy()[0, 0] == sum(i * i for i in range(6))


def test_another_argument_is_another_call() -> None:
    counted = Count(fold)
    _, total = sweep(counted.step, float)  # by = 0.0, 1.0, 2.0, ...
    assert counted.runs == 6
    assert total.numpy()[0, 0] == sum(i * i for i in range(6))


def test_the_kind_of_a_number_matters() -> None:
    """1, 1.0 and True are equal keys of a dictionary, and not the same operand."""
    counted = Count(fold)
    sweep(counted.step, lambda i: (1, 1.0, 1, 1.0)[i % 4], tiles=8)
    assert counted.runs == 4


@pytest.mark.parametrize("by", [0.0, -0.0, [2.0]])
def test_what_is_no_key_makes_the_step_run(by: Any) -> None:
    counted = Count(lambda tl, x, total, by: fold(tl, x, total, 2.0))
    sweep(counted.step, by)
    assert counted.runs == 6


def test_another_cursor_is_another_call() -> None:
    counted = Count(fold)
    tl = context()
    total = put(tl, np.zeros((1, 4), np.float32))
    x = put(tl, np.ones((1, 4), np.float32))
    for _ in range(5):
        counted.step(tl, x, total)  # no scope: each result lies behind the last
    assert counted.runs == 5
    assert total.numpy()[0, 0] == 10.0


def test_another_place_in_the_kernel_is_another_call() -> None:
    counted = Count(fold)
    tl = context()
    total, x = put(tl, np.zeros((1, 4), np.float32)), put(tl, np.ones((1, 4), np.float32))
    for _ in range(5):
        with tl.scratch_scope():
            counted.step(tl, x, total)
        with tl.scratch_scope():
            counted.step(tl, x, total)
    assert counted.runs == 4


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(lambda tl, x, total: tl.copy_to(total, tl.zeros((1, 4))), id="creates"),
        pytest.param(lambda tl, x, total: tl.copy_to(tl.empty((1, 4)), x), id="leaves bytes unwritten"),
        pytest.param(lambda tl, x, total: None, id="does nothing"),
    ],
)
def test_what_is_more_than_arithmetic_is_never_repeated(body: Callable[..., Any]) -> None:
    counted = Count(lambda tl, x, total: (body(tl, x, total), None)[1])
    tl, _ = sweep(counted.step)
    plain_tl, _ = sweep(lambda tl, x, total: (body(tl, x, total), None)[1])
    assert counted.runs == 6
    assert log(tl) == log(plain_tl)


def test_scopes_inside_are_not_repeated() -> None:
    def nested(tl: Any, x: Any, total: Any) -> None:
        with tl.scratch_scope("inner"):
            fold(tl, x, total)

    counted = Count(nested)
    tl, total = sweep(counted.step)
    assert counted.runs == 6
    assert len(tl.commands.scopes) == 1 + 2 * 6
    assert total.numpy()[0, 0] == 2.0 * sum(range(6))


def test_a_step_that_changes_its_mind_is_not_repeated() -> None:
    calls: list[int] = []

    def moody(tl: Any, x: Any, total: Any) -> None:
        calls.append(0)
        fold(tl, x, total)
        if len(calls) == 1:
            tl.mul(x, x)

    counted = Count(moody)
    _, total = sweep(counted.step)
    assert counted.runs == 6
    assert total.numpy()[0, 0] == 2.0 * sum(range(6))


def test_an_unwritten_operand_makes_the_step_run_and_say_so() -> None:
    counted = Count(fold)
    tl, total = sweep(counted.step)
    with tl.scratch_scope():
        x = tl.empty((1, 4))
        with pytest.raises(UninitializedReadError, match="x"):
            counted.step(tl, x, total)
    assert counted.runs == 3


def test_a_dead_operand_makes_the_step_run_and_say_so() -> None:
    counted = Count(fold)
    tl, total = sweep(counted.step)
    with tl.scratch_scope("gone"):
        x = put(tl, np.ones((1, 4), np.float32))
    with tl.scratch_scope(), pytest.raises(UseAfterScopeError, match="'gone'"):
        counted.step(tl, x, total)


def test_a_step_that_raised_is_not_remembered() -> None:
    def failing(tl: Any, x: Any, total: Any) -> None:
        raise ZeroDivisionError

    counted = Count(failing)
    tl = context()
    x = put(tl, np.ones((1, 4), np.float32))
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            counted.step(tl, x, x)
    assert counted.runs == 3
    before = [kind.run for kind in tl.commands.kinds]
    assert all(run is None or "taped" not in getattr(run, "__qualname__", "") for run in before)


def test_a_step_that_raises_while_it_is_learned_leaves_the_kinds_alone() -> None:
    calls: list[int] = []

    def second_fails(tl: Any, x: Any, total: Any) -> None:
        calls.append(0)
        fold(tl, x, total)
        if len(calls) == 2:
            raise ZeroDivisionError

    step = steady(second_fails)
    tl = context()
    total = put(tl, np.zeros((1, 4), np.float32))
    runs = []
    for i in range(4):
        with tl.scratch_scope():
            x = put(tl, np.ones((1, 4), np.float32))
            try:
                step(tl, x, total)
            except ZeroDivisionError:
                assert i == 1
        runs.append([kind.run for kind in tl.commands.kinds])
    assert len(calls) == 3  # the third is the one that is learned
    assert runs[0] == runs[1] == runs[2] == runs[3]
    assert total.numpy()[0, 0] == 8.0


def test_a_context_forgets_its_steps_at_the_end() -> None:
    tl, _ = sweep(steady(fold))
    assert tl._steps
    tl.finish()
    assert not tl._steps


def test_the_wrapper_is_on_no_call_chain() -> None:
    """Lines above an operation are the step's and the kernel's, whether it ran or was repeated."""
    run = kb.decode(*qkv(1, 60, 2, 1, 8), pes=1, tile=6)
    folds = [row for row in run.op_log if row.name == "O_new"]
    assert len(folds) == 9
    assert {(row.function, row.kernel_line) for row in folds} == {("fold_tile", folds[0].kernel_line)}
    assert "fold_tile(" in linecache.getline(gqa.__file__, folds[0].kernel_line)


def test_an_error_of_a_step_tells_its_line() -> None:
    """As if the step had been called with nothing in between."""
    with pytest.raises(ScratchOverflowError) as caught:
        kb.decode(*qkv(512, 512, 1, 1, 16), pes=1, tile=512)
    assert any("in fold_tile, line" in note and "called from" in note for note in caught.value.__notes__)


def test_a_stand_in_for_the_language_is_called_directly() -> None:
    class Numpy:
        @staticmethod
        def add(x: Any, y: Any) -> Any:
            return x + y

    seen = []
    steady(lambda tl, x: seen.append(tl.add(x, x)))(Numpy(), 2)
    assert seen == [4]


# -- what a step cannot see in its key ------------------------------------------------------------------------


class Box:
    """Two tiles that a kernel exchanges: equal to itself all the time."""

    def __init__(self, total: Any) -> None:
        self.total = total


def test_an_object_that_holds_tiles_makes_the_step_run() -> None:
    counted = Count(lambda tl, x, box: fold(tl, x, box.total))
    tl = context()
    one, two = put(tl, np.zeros((1, 4), np.float32)), put(tl, np.zeros((1, 4), np.float32))
    x, box = put(tl, np.ones((1, 4), np.float32)), Box(one)
    for i in range(6):
        box.total = one if i < 4 else two
        with tl.scratch_scope():
            counted.step(tl, x, box)
    assert counted.runs == 6
    assert (one.numpy()[0, 0], two.numpy()[0, 0]) == (8.0, 4.0)


def test_a_numpy_zero_keeps_its_sign() -> None:
    tl = context()
    x, total = put(tl, np.ones((1, 4), np.float32)), put(tl, np.zeros((1, 4), np.float32))
    step: Any = steady(lambda tl, x, total, by: (tl.copy_to(total, tl.mul(x, by)), None)[1])
    for by in (0.0, 0.0, 0.0, -0.0):
        with tl.scratch_scope():
            step(tl, x, total, np.float64(by))
    assert np.signbit(total.numpy()).all()


def test_tuples_of_other_fields_are_other_calls() -> None:
    Sum = namedtuple("Sum", "x total")
    Swapped = namedtuple("Swapped", "total x")
    tl = context()
    a, b = put(tl, np.full((1, 4), 2.0, np.float32)), put(tl, np.full((1, 4), 5.0, np.float32))
    step: Any = steady(lambda tl, pair: fold(tl, pair.x, pair.total))
    for kind in (Sum, Sum, Sum, Swapped):
        with tl.scratch_scope():
            step(tl, kind(a, b))
    assert (a.numpy()[0, 0], b.numpy()[0, 0]) == (2.0 + 2 * 17.0, 17.0)


def test_steps_that_are_learned_at_once_keep_apart() -> None:
    """Two threads run on one machine, whose kinds they share: each writes down its own numpy calls and no others."""
    turns = [threading.Barrier(2, timeout=30), threading.Barrier(2, timeout=30)]
    q, k, v = qkv(1, 60, 2, 1, 8)
    expected = kb.decode(q, k, v, pes=1, tile=6).output
    runs: list[int] = []
    kinds: list[Any] = []

    def kernel(x: Any, y: Any, *, tl: Any) -> None:
        calls: list[int] = []

        def meeting(tl: Any, x: Any, total: Any) -> None:
            calls.append(0)
            together = len(calls) == 2
            if together:
                turns[0].wait()
            fold(tl, x, total)
            if together:
                turns[1].wait()

        step = steady(meeting)
        total = tl.zeros((1, 4))
        for i in range(8):
            with tl.scratch_scope():
                step(tl, tl.load(x + 4 * i, (1, 4)), total)
        tl.store(y, total)
        runs.append(len(calls))
        kinds.extend(tl.commands.kinds)

    def run(first: float) -> Any:
        x, y = np.arange(first, first + 32, dtype=np.float32), np.zeros(4, np.float32)
        kb.launch(kernel, x, y)
        return y - 2 * x.reshape(8, 4).sum(0)

    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(run, (0.0, 100.0)))
    np.testing.assert_array_equal(found, np.zeros((2, 4)))
    assert sorted(runs) == [2, 3]  # the one that came second is learned when it comes again
    assert not any("taped" in getattr(kind.run, "__qualname__", "") for kind in kinds)
    np.testing.assert_array_equal(kb.decode(q, k, v, pes=1, tile=6).output, expected)


def test_a_step_within_a_step_is_learned_apart() -> None:
    inner = Count(fold)
    outer: Any = steady(lambda tl, x, total, more: inner.step(tl, x, total))
    tl = context()
    x, total = put(tl, np.ones((1, 4), np.float32)), put(tl, np.zeros((1, 4), np.float32))
    for more in (1, 1, 1, 2, 2, 1, 1, 2):
        with tl.scratch_scope():
            outer(tl, x, total, more)
    assert total.numpy()[0, 0] == 16.0
