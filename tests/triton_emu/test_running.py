"""Inside a launch: timing mode, printing, debuggers, and what is left behind when a kernel has ended."""

from __future__ import annotations

import bdb
import gc
import sys
import warnings
import weakref
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

import kernbench_nb as kb
from kernbench_nb.errors import DataModeError
from kernbench_nb.triton_emu import Handle, TLContext
from tests.triton_emu.tools import context, put, state

ONES = np.ones((4, 4), np.float32)

# -- timing mode -------------------------------------------------------------------------------------------

QUESTIONS: dict[str, Callable[[Handle], Any]] = {
    "bool()": bool,
    "float()": float,
    "int()": int,
    "numpy()": lambda x: x.numpy(),
    "item()": lambda x: x.item(),
    "an array": np.asarray,
    "an index": lambda x: range(x),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("what", QUESTIONS)
def test_asking_for_a_value_in_timing_mode_says_so(what: str) -> None:
    def kernel(p: Any, *, tl: Any) -> None:
        x = tl.load(p, (), name="x").to("i32", name="n")
        QUESTIONS[what](x)

    with pytest.raises(DataModeError) as caught:
        kb.launch(kernel, ONES.copy(), data=False)
    text = str(caught.value)
    assert text.startswith(what)
    assert "'n'" in text or "<n i32[scalar]" in text
    assert "timing mode and has none" in text
    assert "data=True" in text


def test_branching_on_a_loaded_value() -> None:
    def kernel(p: Any, o: Any, *, tl: Any) -> None:
        if tl.load(p, ()) > 0.5:
            tl.store(o, 7.0)

    out = np.zeros(1, np.float32)
    kb.launch(kernel, ONES.copy(), out)
    assert out.tolist() == [7]
    with pytest.raises(DataModeError, match="branches on a loaded value runs in data mode only"):
        kb.launch(kernel, ONES.copy(), out, data=False)


def test_values_in_data_mode() -> None:
    tl = context()
    x = put(tl, np.array([[1.5, 2.5]], np.float32))
    n = put(tl, np.array(3, np.int64))
    assert (float(x[0, 0]), int(x[0, 1]), bool(x[0, 0]), x[0, 1].item()) == (1.5, 2, True, 2.5)
    assert list(range(n)) == [0, 1, 2]  # type: ignore[arg-type]
    assert np.asarray(x).tolist() == [[1.5, 2.5]]
    assert np.asarray(x, np.int32).dtype == np.int32
    np.testing.assert_allclose(x, [[1.5, 2.5]])
    copy = x.numpy()
    copy[...] = 0
    assert x.numpy().tolist() == [[1.5, 2.5]]
    with pytest.raises(TypeError, match="a f32 tile is no index"):
        range(x[0, 0])  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="copy"):
        np.array(x, copy=False)


def test_asserts_and_prints_follow_the_mode(capsys: pytest.CaptureFixture[str]) -> None:
    for data in (True, False):
        tl = TLContext(pe_id=2, data=data)
        x = tl.full((2,), 1.5, "f32", name="x")
        tl.device_print("x is", x, 7)
        tl.device_assert(x > 1, "all above 1")
        tl.device_assert(True)
        tl.static_assert(x.shape == (2,), "a pair")
        with pytest.raises(AssertionError, match=r"static_assert failed at .*: no$"):
            tl.static_assert(False, "no")
        with pytest.raises(TypeError, match="use device_assert for tiles"):
            tl.static_assert(x > 1)
        if data:
            with pytest.raises(AssertionError, match=r"device_assert failed at test_asserts_and.*: above 2$"):
                tl.device_assert(x > 2, "above 2")
        else:
            tl.device_assert(x > 2, "not looked at")
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "pid (2, 0, 0) x is [1.5 1.5] 7"
    assert out[1].startswith("pid (2, 0, 0) x is <x f32[2] at ")


def test_asking_and_printing_cost_nothing() -> None:
    tl = context()
    x = put(tl, [1.0, 2.0])
    before = state(tl)
    repr(x), x.shape, x.dtype, x.nbytes, x.numel, x.name, len(x), x.numpy(), hash(x)
    tl.program_id(0), tl.num_programs(0), tl.cdiv(7, 2), tl.constexpr(3)
    list(tl.range(3, num_stages=2)), list(tl.static_range(1, 3))
    tl.count("n", 2)
    assert state(tl) == before
    assert tl.commands.counters == {"n": 2}


def test_the_ids_of_a_program_and_an_axis_that_is_not_there() -> None:
    tl = TLContext(ids=(1, 2, 3), nums=(8, 4, 2), machine=(8, 16))
    assert [tl.program_id(a) for a in range(3)] == [1, 2, 3]
    assert [tl.num_programs(a) for a in range(3)] == [8, 4, 2]
    assert (tl.pe_index(5), tl.pe_index(0, 0, 0), tl.pe_index(1, 2, 3)) == (
        (3 * 16 + 2) * 8 + 5,
        0,
        (3 * 16 + 2) * 8 + 1,
    )
    for axis in (3, -1, "x"):
        with pytest.raises(ValueError, match=r"axis must be 0 \(PE in its cube\), 1 \(cube\) or 2 \(SIP\)"):
            tl.program_id(axis)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="num_programs: axis must be"):
            tl.num_programs(axis)  # type: ignore[arg-type]


# -- print and debuggers ----------------------------------------------------------------------------------


def test_print_works_inside_a_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    def kernel(p: Any, *, tl: Any) -> None:
        x = tl.load(p, (4, 4))
        print("loaded", x, x.numpy()[0])  # noqa: T201 - what this is about

    kb.launch(kernel, ONES.copy(), pes=2)
    assert capsys.readouterr().out.splitlines() == ["loaded <x f32[4x4] at 0> [1. 1. 1. 1.]"] * 2


class Debugger(bdb.Bdb):
    """Steps through what it stops in, as pdb would at `breakpoint()`, and notes where it was."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, int]] = []

    def user_line(self, frame: FrameType) -> None:
        self.seen.append((frame.f_code.co_name, frame.f_lineno))
        self.set_next(frame)


def test_a_debugger_steps_through_a_kernel_across_switches_of_greenlets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    debugger = Debugger()
    monkeypatch.setattr(sys, "breakpointhook", lambda: debugger.set_trace(sys._getframe(1)))

    def kernel(p: Any, *, tl: Any) -> None:
        me = tl.program_id(0)
        if me == 0:
            breakpoint()
            x = tl.recv(1, (4,), "f32")  # PE 1 runs meanwhile
            y = x + x
            tl.store(p, y)
        else:
            tl.send(0, tl.load(p, (4,)))

    previous = sys.gettrace()
    try:
        kb.launch(kernel, ONES.copy(), pes=2)
    finally:
        sys.settrace(previous)
    first = kernel.__code__.co_firstlineno
    lines = [line - first for name, line in debugger.seen if name == "kernel"]
    assert lines[:3] == [4, 5, 6]


def test_a_trace_function_stays_alive_in_every_kernel() -> None:
    seen: set[tuple[int, int]] = set()

    def kernel(p: Any, *, tl: Any) -> None:
        me = tl.program_id(0)
        tl.barrier()
        x = tl.load(p, (4,))
        tl.barrier()
        tl.exp(x)
        del me

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        if frame.f_code is kernel.__code__ and event == "line" and "me" in frame.f_locals:
            seen.add((frame.f_locals["me"], frame.f_lineno - kernel.__code__.co_firstlineno))
        return trace

    previous = sys.gettrace()
    sys.settrace(trace)
    try:
        kb.launch(kernel, ONES.copy(), pes=3)
    finally:
        sys.settrace(previous)
    assert seen == {(pe, line) for pe in range(3) for line in range(2, 7)}


# -- numbers that are not accidents -------------------------------------------------------------------------


def test_infinities_and_nan_are_silent_inside_a_launch() -> None:
    def kernel(p: Any, o: Any, *, tl: Any) -> None:
        x = tl.load(p, (4,))
        zero = x - x
        tl.barrier()  # numpy's error state does not enter greenlets by itself
        worst = x / zero + tl.log(-x) + tl.exp(x * 1e30) + (x * 1e38).to("f16").to("f32") + tl.sqrt(-x)
        tl.store(o, worst)
        tl.full((2,), 300, "i32").to("i8")
        (x * 1e30).to("i32") // tl.zeros((4,), "i32")

    out = np.zeros(4, np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kb.launch(kernel, np.ones(4, np.float32), out, pes=2)
    assert np.isnan(out).all()
    with np.errstate(all="raise"):  # nor does the caller's
        kb.launch(kernel, np.ones(4, np.float32), out)


# -- scopes at the end of a kernel --------------------------------------------------------------------------


def test_a_scope_that_is_still_open_when_the_kernel_ends() -> None:
    def kernel(*, tl: Any) -> None:
        def tiles() -> Any:
            with tl.scratch_scope("held"):
                yield tl.zeros((4,))

        keep.append(tiles())
        next(keep[0])

    keep: list[Any] = []
    with pytest.raises(
        kb.ScopeOrderError, match=r"the kernel ended on PE 0 with scope 'held' still open; .*generators"
    ):
        kb.launch(kernel)


def test_a_generator_that_holds_a_scope_too_long() -> None:
    def kernel(*, tl: Any) -> None:
        def tiles() -> Any:
            with tl.scratch_scope("inner"):
                yield tl.full((4,), 3.0, "f32")

        source = tiles()
        with (
            pytest.raises(kb.ScopeOrderError, match=r"'outer' was left while 'outer/inner', opened after it"),
            tl.scratch_scope("outer") as outer,
        ):
            tile = next(source)
        assert tl.sum(tile).item() == 12  # nothing was freed
        source.close()
        assert outer.state == "open"
        outer.__exit__(None, None, None)
        with pytest.raises(kb.UseAfterScopeError):
            tl.sum(tile)

    assert kb.launch(kernel).peak_scratch == 32


def test_recording_that_fails_ends_scopes_in_order() -> None:
    def kernel(*, tl: Any) -> None:
        with tl.scratch_scope("block"), tl.scratch_scope("tile", kind="tile"):
            tl.zeros((1024,))

    with pytest.raises(MemoryError, match="max_record_bytes"):
        kb.launch(kernel, record="tiles", max_record_bytes=100)


# -- what is left behind ------------------------------------------------------------------------------------


class Witness:
    """Something that a kernel holds in a local variable."""


@pytest.mark.parametrize("how", ["plain", "in a helper", "in a scope", "in a generator"])
@pytest.mark.parametrize("data", [True, False])
def test_a_finished_run_does_not_keep_the_kernels_locals(how: str, data: bool) -> None:
    alive: list[weakref.ref[Witness]] = []

    def work(p: Any, tl: Any) -> None:
        witness = Witness()
        alive.append(weakref.ref(witness))
        x = tl.load(p, (4, 4))
        y = tl.load_async(p, (2,))
        tl.exp(x * 2.0)
        y.wait()
        if how == "in a scope":
            with tl.scratch_scope():
                tl.exp(x)
        if how == "in a generator":
            list(tl.exp(x) for _ in range(2))  # noqa: C400

    def kernel(p: Any, *, tl: Any) -> None:
        work(p, tl)
        if how == "in a helper":
            work(p, tl)

    gc.disable()  # nothing may need the collector, either
    try:
        run = kb.launch(kernel, ONES.copy(), pes=2, data=data)
        assert all(ref() is None for ref in alive)
    finally:
        gc.enable()
    assert len(run.op_log) > 0


def test_a_failed_run_keeps_them_only_as_long_as_the_error() -> None:
    alive: list[weakref.ref[Witness]] = []

    def kernel(p: Any, *, tl: Any) -> None:
        witness = Witness()
        alive.append(weakref.ref(witness))
        with tl.scratch_scope():
            tl.load(p, (4, 4)) + tl.zeros((3,))

    with pytest.raises(kb.ShapeError if hasattr(kb, "ShapeError") else ValueError):
        kb.launch(kernel, ONES.copy(), pes=2)
    gc.collect()
    assert all(ref() is None for ref in alive)


def test_a_run_does_not_keep_the_scratch_of_its_pes() -> None:
    buffers: list[weakref.ref[Any]] = []
    kept: list[Handle] = []

    def kernel(p: Any, *, tl: Any) -> None:
        buffers.append(weakref.ref(tl._bytes.buffer))
        with tl.scratch_scope("tile 0", kind="tile"):
            x = tl.load(p, (4, 4))
            tl.exp(x * 0.5) + x / 2
        if tl.program_id(0) == 1:
            kept.append(tl.full((4,), 7.0, "f32"))

    gc.disable()
    try:
        run = kb.launch(kernel, ONES.copy(), pes=3)
        assert [ref() is None for ref in buffers] == [True, False, True]
    finally:
        gc.enable()
    assert kept[0].numpy().tolist() == [7] * 4  # whoever keeps a handle keeps its bytes
    assert kept[0][1:].numpy().tolist() == [7] * 3
    assert run.peak_scratch == 64 * 5
    assert len(run.tiles) == 3


def test_a_context_that_stands_alone_goes_when_it_is_dropped() -> None:
    tl = context()
    x = put(tl, [1.0])
    with tl.scratch_scope():
        x * 2.0 + tl.exp(x)
    gone = weakref.ref(x.tl._bytes.buffer)  # type: ignore[union-attr]
    del tl, x
    gc.collect()
    assert gone() is None


def test_many_numbers_beside_a_tile() -> None:
    tl = TLContext()
    x = tl.full((4,), 1.0, "f32")
    with tl.scratch_scope():
        for i in range(200):
            with tl.scratch_scope():
                x * float(i) + float("nan")
    assert tl.scratch.cursor == 16
