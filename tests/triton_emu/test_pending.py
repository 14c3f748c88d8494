"""Loads in flight and bytes never written, kept by byte range."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernbench_nb.errors import (
    PendingLoadError,
    ReadBeforeWaitError,
    UnwaitedLoadWarning,
    UseAfterScopeError,
)
from kernbench_nb.errors import UninitializedReadError as Uninitialized
from kernbench_nb.triton_emu import Handle, TLContext
from tests.triton_emu.tools import context, pointer, put, state

Use = Callable[[TLContext, Handle, Handle], Any]
ONES = np.ones((4, 8), np.float32)

READS: dict[str, Use] = {
    "sum": lambda tl, x, live: tl.sum(x),
    "operand": lambda tl, x, live: live + x,
    "unary": lambda tl, x, live: tl.exp(x),
    "where": lambda tl, x, live: tl.where(x, live, live),
    "cast": lambda tl, x, live: x.to("f16"),
    "softmax": lambda tl, x, live: tl.softmax(x),
    "dot": lambda tl, x, live: tl.dot(live.T, x),
    "dot acc": lambda tl, x, live: tl.dot(live, live.T[:, :4], acc=x[:, :4]),
    "copy_to src": lambda tl, x, live: tl.copy_to(live, x),
    "copy": lambda tl, x, live: x.copy(),
    "store": lambda tl, x, live: tl.store(pointer(ONES), x),
    "send": lambda tl, x, live: tl.send(0, x),
    "numpy": lambda tl, x, live: x.numpy(),
    "a view": lambda tl, x, live: x.T[2:3].reshape(4).sum(),
    "a broadcast view": lambda tl, x, live: tl.broadcast_to(x[None], 3, 4, 8).max(),
    "a bitcast": lambda tl, x, live: x.to("i32", bitcast=True) + 1,
}

WRITES: dict[str, Use] = {
    "out=": lambda tl, x, live: tl.add(live, live, out=x),
    "out= of a unary": lambda tl, x, live: tl.exp(live, out=x),
    "out= of a reduction": lambda tl, x, live: tl.sum(live, 1, out=x[:, 0]),
    "out= of dot": lambda tl, x, live: tl.dot(live, live.T, out=x[:, :4]),
    "out= of zeros": lambda tl, x, live: tl.zeros((4, 8), "f32", out=x),
    "copy_to dst": lambda tl, x, live: tl.copy_to(x, live),
    "copy_to a part": lambda tl, x, live: tl.copy_to(x[1:2], live[1:2]),
    "load out=": lambda tl, x, live: tl.load(pointer(ONES), (4, 8), out=x),
    "a second load": lambda tl, x, live: tl.load_async(pointer(ONES), (4, 8), out=x),
    "recv out=": lambda tl, x, live: tl.recv(0, (4, 8), "f32", out=x),
    "recv_async out=": lambda tl, x, live: tl.recv_async(0, (4, 8), "f32", out=x),
}


@pytest.mark.parametrize("use", READS.values(), ids=READS)
@pytest.mark.parametrize("into", ["a new tile", "an empty one", "a written one"])
def test_reading_before_the_wait_raises_and_does_nothing(use: Use, into: str) -> None:
    tl = context()
    live = put(tl, ONES)
    out = {"a new tile": None, "an empty one": tl.empty((4, 8), "f32"), "a written one": put(tl, ONES)}[into]
    future = tl.load_async(pointer(2 * ONES), (4, 8), out=out)
    before = state(tl)
    with pytest.raises(ReadBeforeWaitError, match=r"still in flight .*Call tl.wait\(future\) first"):
        use(tl, future.handle, live)
    assert state(tl) == before
    tl.wait(future)
    assert tl.sum(future.handle).item() == 64


@pytest.mark.parametrize("use", WRITES.values(), ids=WRITES)
def test_writing_before_the_wait_raises_and_does_nothing(use: Use) -> None:
    tl = context()
    live = put(tl, ONES)
    future = tl.load_async(pointer(2 * ONES), (4, 8))
    before = state(tl)
    with pytest.raises(ReadBeforeWaitError, match=r"is written at .*still in flight"):
        use(tl, future.handle, live)
    assert state(tl) == before
    future.wait()
    assert tl.sum(future.handle).item() == 64


@pytest.mark.parametrize("use", READS.values(), ids=READS)
def test_reading_what_nothing_wrote_raises_and_does_nothing(use: Use) -> None:
    tl = context()
    live = put(tl, ONES)
    hole = tl.empty((4, 8), "f32")
    before = state(tl)
    with pytest.raises(Uninitialized, match="nothing was written to"):
        use(tl, hole, live)
    assert state(tl) == before


@pytest.mark.parametrize(
    "write",
    [
        lambda tl, x, live: tl.add(live, live, out=x),
        lambda tl, x, live: tl.neg(live, out=x),
        lambda tl, x, live: tl.where(live, live, live, out=x),
        lambda tl, x, live: tl.softmax(live, out=x),
        lambda tl, x, live: tl.sum(live[None], 0, out=x),
        lambda tl, x, live: tl.dot(live, put(tl, np.eye(8, dtype=np.float32)), out=x),
        lambda tl, x, live: tl.full((4, 8), 1.0, "f32", out=x),
        lambda tl, x, live: tl.copy_to(x, live),
        lambda tl, x, live: tl.load(pointer(ONES), (4, 8), out=x),
        lambda tl, x, live: tl.load_async(pointer(ONES), (4, 8), out=x).wait(),
        lambda tl, x, live: [tl.copy_to(x[i], live[i]) for i in range(4)],
        lambda tl, x, live: [tl.copy_to(x[:, i::2], live[:, i::2]) for i in range(2)],
    ],
)
def test_whatever_writes_a_tile_makes_it_readable(write: Use) -> None:
    tl = context()
    live = put(tl, ONES)
    hole = tl.empty((4, 8), "f32")
    write(tl, hole, live)
    hole.sum()
    assert not hole.arena.guard  # nothing is left to look at


def test_two_halves_of_one_buffer_are_apart() -> None:
    tl = context()
    buffer = tl.empty((2, 4, 8), "f32", name="both")
    live = put(tl, ONES)
    tl.copy_to(buffer[0], live)
    future = tl.load_async(pointer(3 * ONES), (4, 8), out=buffer[1])
    assert buffer[0].sum().item() == 32
    tl.mul(buffer[0], 2.0, out=buffer[0])
    with pytest.raises(ReadBeforeWaitError, match=r"'both' f32\[4x8\] is read"):
        buffer[1].sum()
    with pytest.raises(ReadBeforeWaitError, match=r"'both' f32\[2x4x8\] is read"):
        buffer.sum()
    tl.wait(future)
    assert buffer.sum().item() == 64 + 96


def test_interleaved_halves_are_apart_too() -> None:
    tl = context()
    buffer = tl.empty((4, 16), "f32")
    even, odd = buffer[:, ::2], buffer[:, 1::2]
    tl.copy_to(even, put(tl, ONES))
    with pytest.raises(Uninitialized):
        odd.sum()
    with pytest.raises(Uninitialized, match="some of its bytes"):
        buffer[:, :2].sum()
    future = tl.load_async(pointer(2 * ONES), (4, 8), out=odd)
    assert even.sum().item() == 32
    with pytest.raises(ReadBeforeWaitError):
        buffer[0, 1].item()
    assert buffer[0, 2].item() == 1
    future.wait()
    assert buffer.numpy()[0].tolist() == [1, 2] * 8


def test_a_view_made_before_the_wait_reads_the_bytes_that_came() -> None:
    tl = context()
    future = tl.load_async(pointer(np.arange(32, dtype=np.float32).reshape(4, 8)), (4, 8))
    turned = future.handle.T
    tl.wait(future)
    assert turned.numpy()[1].tolist() == [1, 9, 17, 25]


def test_the_destination_changes_at_the_wait_and_not_before() -> None:
    tl = context(scratch_checks="poison")  # lets us look
    buffer = put(tl, -ONES)
    future = tl.load_async(pointer(2 * ONES), (4, 8), out=buffer)
    assert buffer.sum().item() == -32
    assert future.wait() is buffer
    assert buffer.sum().item() == 64
    fresh = tl.load_async(pointer(2 * ONES), (4, 8))
    assert np.isnan(fresh.handle.numpy()).all()
    fresh.wait()


def test_a_load_takes_the_bytes_as_they_are_when_it_is_issued() -> None:
    tl = context()
    k = pointer(np.arange(8, dtype=np.float32))
    early = tl.load_async(k, (8,))
    tl.store(k + 2, put(tl, np.full(4, 99, np.float32)))
    late = tl.load_async(k, (8,))
    tl.store(k, 7.0)
    masked = tl.load_async(k, (8,), mask=tl.arange(0, 8) < 4, other=-1.0)
    tl.store(k + 1, 55.0)
    into = tl.load_async(k, (8,), out=tl.empty((8,), "f64"))
    tl.store(k + 1, 54.0)
    assert into.wait().numpy().tolist() == [7, 55, 99, 99, 99, 99, 6, 7]
    tl.store(k + 1, 55.0)
    assert [f.wait().numpy().tolist() for f in (late, early, masked)] == [
        [0, 1, 99, 99, 99, 99, 6, 7],
        [0, 1, 2, 3, 4, 5, 6, 7],
        [7, 1, 99, 99, -1, -1, -1, -1],
    ]
    assert tl.load(k, (8,)).numpy().tolist() == [7, 55, 99, 99, 99, 99, 6, 7]


def test_waiting_in_another_order_and_twice() -> None:
    tl = context()
    k = pointer(np.arange(8, dtype=np.float32))
    a, b, c = (tl.load_async(k + i, (2,)) for i in range(3))
    first, second = tl.wait(c, a)
    assert first is c.handle
    assert second is a.handle
    handles = tl.wait(a, b, c)
    assert [h.numpy().tolist() for h in handles] == [[0, 1], [1, 2], [2, 3]]
    before = state(tl)
    assert tl.wait(a) is a.handle
    assert b.wait() is b.handle
    assert tl.wait() == ()
    assert state(tl) == before


def test_waiting_for_something_else() -> None:
    tl, other = context(), context()
    with pytest.raises(TypeError, match="futures of load_async or recv_async, got 3"):
        tl.wait(3)
    with pytest.raises(TypeError, match="futures of load_async"):
        tl.wait(put(tl, ONES))
    foreign = other.load_async(pointer(ONES), (4, 8))
    with pytest.raises(ValueError, match="another PE or another launch"):
        tl.wait(foreign)


def test_an_empty_load_needs_no_waiting_for_its_bytes() -> None:
    tl = context()
    future = tl.load_async(pointer(ONES), (0, 8))
    future.handle.sum()
    with tl.scratch_scope():
        pass  # the address of an empty handle is where the next block begins, but no byte of it is there
    future.wait()


# -- scopes ------------------------------------------------------------------------------------------------


def test_a_scope_that_ends_with_a_load_in_flight_into_it() -> None:
    tl = context()

    def kernel() -> None:
        with tl.scratch_scope("tile 2"):
            k = tl.load_async(pointer(ONES), (4, 8))
            del k

    with pytest.raises(PendingLoadError) as caught:
        kernel()
    line = kernel.__code__.co_firstlineno
    text = str(caught.value)
    assert text.startswith(f"scope 'tile 2' ends at kernel, line {line + 1}: with tl.scratch_scope")
    assert "while a load into its bytes is in flight: 'k' f32[4x8]" in text
    assert "Wait for it inside the scope, or load into a buffer made before the scope" in text
    assert (tl.scratch.cursor, tl.scratch.depth, tl._flight) == (0, 0, [])
    tl.full((4, 8), 1.0, "f32").sum()
    tl.finish()


@pytest.mark.parametrize("into", ["a view", "a buffer of an inner mark"])
def test_it_does_not_matter_how_the_bytes_are_reached(into: str) -> None:
    tl = context()
    with pytest.raises(PendingLoadError), tl.scratch_scope():  # noqa: PT012
        with tl.scratch_scope(rewind=False):
            buffer = tl.empty((8, 8), "f32")
        tl.load_async(pointer(ONES), (4, 8), out=buffer[4:] if into == "a view" else buffer[:4])


def test_a_load_into_an_outer_buffer_may_go_on() -> None:
    tl = context()
    buffer = tl.empty((4, 8), "f32")
    empty = tl.load_async(pointer(ONES), (0,))
    with tl.scratch_scope():
        future = tl.load_async(pointer(ONES), (4, 8), out=buffer)
        with pytest.raises(ReadBeforeWaitError):
            buffer.sum()
    with pytest.raises(ReadBeforeWaitError):
        buffer.sum()
    tl.wait(future, empty)
    assert buffer.sum().item() == 32
    assert not buffer.arena.guard


def test_a_pending_load_never_replaces_an_exception_in_flight() -> None:
    tl = context()

    def kernel() -> None:
        with tl.scratch_scope():
            tl.load_async(pointer(ONES), (4, 8))
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        kernel()
    assert (tl.scratch.cursor, tl._flight) == (0, [])


def test_a_future_of_a_dead_scope_can_be_waited_for_and_its_handle_is_dead() -> None:
    tl = context()
    futures = []
    k = pointer(ONES)
    with pytest.raises(PendingLoadError), tl.scratch_scope():
        futures.append(tl.load_async(k, (4, 8)))
    assert k.shard._readers == []  # the source need not be kept any more
    before = state(tl)
    futures[0].wait()
    assert state(tl) == before
    with pytest.raises(UseAfterScopeError):
        futures[0].handle.sum()


def test_unwritten_bytes_that_are_given_back_are_forgotten() -> None:
    tl = context()
    with tl.scratch_scope():
        tl.empty((64,), "f32")
    assert tl._watch.spans == []
    assert tl.full((64,), 1.0, "f32").sum().item() == 64
    with tl.scratch_scope():
        again = tl.empty((8,), "f32")
        with pytest.raises(Uninitialized):
            again.sum()


def test_unwritten_bytes_around_a_scope_stay_unwritten() -> None:
    tl = context()
    hole = tl.empty((8,), "f32")
    with tl.scratch_scope():
        tl.full((8,), 1.0, "f32")
    with pytest.raises(Uninitialized):
        hole.sum()


# -- what was never waited for ------------------------------------------------------------------------------


def test_a_load_that_nobody_waits_for_is_a_warning_that_names_it() -> None:
    tl = context(pe_id=3)

    def kernel() -> None:
        k_next = tl.load_async(pointer(ONES), (4, 8))
        tl.load_async(pointer(ONES), (2, 8)).wait()
        del k_next

    kernel()
    line = kernel.__code__.co_firstlineno + 1
    text = (
        rf"the load into 'k_next' f32\[4x8\], made at kernel, line {line}: k_next = .*, was never waited on before "
        "the kernel ended"
    )
    with pytest.warns(UnwaitedLoadWarning, match=text):
        tl.finish()
    assert len(tl.commands.warnings) == 1
    assert tl.commands.warnings[0].endswith("was never waited on before the kernel ended on PE 3")


def test_no_warning_when_all_were_waited_for() -> None:
    tl = context()
    tl.load_async(pointer(ONES), (4, 8)).wait()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tl.finish()
    assert tl.commands.warnings == []


# -- the other levels ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("checks", ["poison", "off"])
def test_below_raise_an_unwritten_tile_reads_as_it_is(checks: str) -> None:
    tl = context(scratch_checks=checks)
    hole = tl.empty((4,), "f32")
    assert np.isnan(tl.sum(hole).item())  # fresh scratch is poison, never a quiet 0
    with tl.scratch_scope():
        future = tl.load_async(pointer(ONES), (4, 8))
    future.wait()  # what comes late lands in bytes that are someone else's: that is what the level is for
    assert future.handle.numpy().sum() == 32


def test_timing_mode_raises_the_same() -> None:
    tl = TLContext()
    k = pointer(ONES, timing=True)
    hole, future = tl.empty((4, 8), "f32"), tl.load_async(k, (4, 8))
    with pytest.raises(Uninitialized):
        hole + 1.0
    with pytest.raises(ReadBeforeWaitError):
        future.handle + 1.0
    with pytest.raises(PendingLoadError), tl.scratch_scope():
        tl.load_async(k, (4, 8))
    future.wait()
    tl.add(future.handle, 1.0, out=hole)
    hole * 2.0


def test_results_of_operations_and_of_the_seeds_call_count_as_written() -> None:
    tl = context()
    for tile in (
        tl._make_compute_out((4,), "f32"),
        tl.zeros((4,)),
        tl.arange(0, 4),
        tl.zeros_like(tl.full((4,), 1, "i8")),
        tl.load(pointer(ONES), (4,)),
    ):
        tile.sum()
    assert not tl.scratch.root.guard
