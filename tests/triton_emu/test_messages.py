"""Messages between PEs as a kernel sees them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kernbench_nb as kb
from kernbench_nb.dtypes import DTYPES, DType
from kernbench_nb.errors import MessageError, ReadBeforeWaitError, ShapeError, UnwaitedLoadWarning


def two(
    sends: Callable[[Any], Any], receives: Callable[[Any], Any], *, data: bool = True, pes: int = 2
) -> Any:
    """PE 0 sends, PE 1 receives and stores what it got, if anything."""
    out = np.full(4, -1, np.float32)

    def kernel(o: Any, *, tl: Any) -> None:
        if tl.program_id(0) == 0:
            sends(tl)
        elif tl.program_id(0) == 1:
            got = receives(tl)
            if got is not None:
                tl.store(o, got)

    kb.launch(kernel, out, pes=pes, data=data)
    return out


def test_a_message_carries_the_bytes_as_they_were() -> None:
    def sends(tl: Any) -> None:
        x = tl.full((4,), 1.0, "f32")
        tl.send(1, x)
        tl.full((4,), 9.0, "f32", out=x)
        with tl.scratch_scope():
            y = tl.full((4,), 2.0, "f32")
            tl.send(1, y)
        tl.full((4,), 8.0, "f32")  # at the address that y had

    def receives(tl: Any) -> Any:
        tl.zeros((5000,))  # be late
        return tl.recv(0, (4,), "f32") * 10.0 + tl.recv(0, (4,), "f32")

    assert two(sends, receives).tolist() == [12] * 4


def test_views_are_sent_as_what_they_show() -> None:
    def sends(tl: Any) -> None:
        x = tl.arange(0, 8).reshape(2, 4).to("f32")
        tl.send(1, x.T[1:3])
        tl.send(1, tl.broadcast_to(x[:1, :1], 2, 2))

    def receives(tl: Any) -> Any:
        return tl.recv(0, (2, 2), "f32") + 100.0 * tl.recv(0, (2, 2), "f32")

    assert two(sends, receives).tolist() == [1, 5, 2, 6]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_messages_of_every_dtype_and_into_out(dtype: DType) -> None:
    def sends(tl: Any) -> None:
        for _ in range(3):
            tl.send("pe_next", tl.full((2, 2), 1, dtype))

    def receives(tl: Any) -> Any:
        plain = tl.recv("pe_prev", (2, 2), dtype)
        assert plain.dtype is dtype
        buffer = tl.empty((2, 4), dtype)
        before = tl.scratch.cursor
        assert tl.recv("pe_prev", (2, 2), dtype, out=buffer[:, 1:3]).addr == buffer[:, 1:3].addr
        converted = tl.empty((2, 2), "f32")
        tl.recv("pe_prev", (2, 2), dtype, out=converted)
        assert tl.scratch.cursor == before + 16
        return (plain.to("f32") + buffer[:, 1:3].to("f32") + converted).reshape(4)

    assert two(sends, receives).tolist() == [3] * 4


def test_a_receive_that_is_announced_is_pending_until_its_wait() -> None:
    def sends(tl: Any) -> None:
        tl.send(1, tl.full((4,), 5.0, "f32"))
        tl.send(1, tl.full((4,), 6.0, "f32"))

    def receives(tl: Any) -> Any:
        buffer = tl.full((2, 4), 1.0, "f32")
        first = tl.recv_async(0, (4,), "f32", out=buffer[0])
        second = tl.recv_async(0, (4,), "f32")
        assert buffer[1].sum().item() == 4
        for use in (
            lambda: buffer.sum(),
            lambda: second.handle + 1.0,
            lambda: tl.copy_to(buffer[0], buffer[1]),
        ):
            with pytest.raises(ReadBeforeWaitError, match="a load or message into it is still in flight"):
                use()
        assert second.wait().numpy().tolist() == [6] * 4  # in order of posting, whatever the order of waiting
        assert tl.wait(first, second)[0].numpy().tolist() == [5] * 4
        return buffer[0]

    assert two(sends, receives).tolist() == [5] * 4


def test_the_room_of_an_announced_receive_belongs_to_the_scope_that_was_open_then() -> None:
    def receives(tl: Any) -> Any:
        with tl.scratch_scope("outer"):
            coming = tl.recv_async(0, (4,), "f32", name="coming")
            with tl.scratch_scope("inner"):
                coming.wait()
            assert coming.handle.sum().item() == 20
            assert coming.handle.name == "coming"
            with pytest.raises(
                kb.ScratchOverflowError, match=r"16 B  coming  f32\[4\]  scoped arena 'outer'"
            ):
                tl.zeros((1 << 20,))
            return coming.handle * 1.0

    with pytest.raises(kb.UseAfterScopeError):
        two(lambda tl: tl.send(1, tl.full((4,), 5.0, "f32")), receives)


def test_a_message_that_nobody_waits_for_warns() -> None:
    def receives(tl: Any) -> None:
        lost = tl.recv_async(0, (4,), "f32")
        del lost

    def sends(tl: Any) -> None:
        tl.zeros((1,))

    with pytest.warns(UnwaitedLoadWarning, match=r"the message into 'lost' f32\[4\], made at receives, line"):
        two(sends, receives)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_receive_that_fails_gives_its_scratch_back(asynchronous: bool) -> None:
    def receives(tl: Any) -> None:
        tl.zeros((4,))
        before = tl.scratch.cursor, tl.now_ps, len(tl.commands)
        for direction, text in [("up", "up"), (7, "7"), ("E", "E")]:
            with pytest.raises(MessageError, match=text):
                (tl.recv_async if asynchronous else tl.recv)(direction, (4,), "f32")
            assert (tl.scratch.cursor, tl.now_ps, len(tl.commands)) == before

    two(lambda tl: None, receives)


@pytest.mark.parametrize(("shape", "dtype"), [((2, 2), "f32"), ((4,), "f16"), ((5,), "f32")])
def test_the_two_ends_must_agree(shape: tuple[int, ...], dtype: str) -> None:
    def receives(tl: Any) -> None:
        before = tl.scratch.cursor
        try:
            tl.recv(0, shape, dtype)
        finally:
            assert tl.scratch.cursor == before

    with pytest.raises(MessageError) as caught:
        two(lambda tl: tl.send(1, tl.zeros((4,))), receives)
    text = str(caught.value)
    assert "sends f32[4]" in text
    assert f"{dtype}[{'x'.join(map(str, shape))}]" in text
    assert "tl.send(1, tl.zeros((4,)))" in text
    assert "tl.recv(0, shape, dtype)" in text


def test_out_of_another_shape_and_a_broadcast_view_are_refused() -> None:
    def receives(tl: Any) -> None:
        before = tl.scratch.cursor, len(tl.commands)
        for out in (tl.zeros((2, 2)), tl.broadcast_to(tl.zeros((1,)), 4)):
            before = tl.scratch.cursor, len(tl.commands)
            for recv in (tl.recv, tl.recv_async):
                with pytest.raises(
                    ShapeError, match=r"recv: (out= has shape \(2, 2\)|.* is a broadcast view)"
                ):
                    recv(0, (4,), "f32", out=out)
                assert (tl.scratch.cursor, len(tl.commands)) == before

    two(lambda tl: None, receives)


def test_an_empty_message() -> None:
    def receives(tl: Any) -> Any:
        nothing = tl.recv(0, (0, 3), "f32")
        assert nothing.shape == (0, 3)
        return tl.full((4,), 1.0, "f32")

    assert two(lambda tl: tl.send(1, tl.zeros((0, 3))), receives).tolist() == [1] * 4


def test_timing_mode_sends_no_bytes_and_takes_as_long() -> None:
    def sends(tl: Any) -> None:
        tl.send(1, tl.zeros((4,)))

    def receives(tl: Any) -> Any:
        ends.append(tl.now_ps)
        got = tl.recv(0, (4,), "f32")
        ends.append(tl.now_ps)
        return got

    ends: list[int] = []
    assert two(sends, receives).tolist() == [0] * 4
    assert two(sends, receives, data=False).tolist() == [-1] * 4
    assert ends[:2] == ends[2:]
    assert ends[1] > ends[0]


def test_a_barrier_lets_all_go_on_at_once() -> None:
    at: list[int] = []

    def kernel(*, tl: Any) -> None:
        tl.zeros((1000 * tl.program_id(0),))
        tl.barrier()
        at.append(tl.now_ps)

    kb.launch(kernel, pes=4, data=False)
    assert len(set(at)) == 1
