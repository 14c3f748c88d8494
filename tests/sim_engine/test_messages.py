"""Message queues: slots, order, rendezvous, directions, and what the two ends must agree on."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from kernbench_nb.errors import MessageError

D = 4_000
PE_HOP = 5_000
BUSY = 63  # 4 bytes on a PE link of 64 GB/s
PAIR = ({"right": {0: 1}, "left": {1: 0}}, {"right": "left", "left": "right"})


def test_a_message_alone(bench: Callable) -> None:
    run = bench().run({0: lambda c: c.send(1, "hello"), 1: lambda c: c.recv(0)})
    assert run.results[1] == "hello"
    assert run.logs == {
        0: [("send", 1, D, D + BUSY + PE_HOP, D)],
        1: [("recv", 0, D + BUSY + PE_HOP)],
    }


def test_a_message_that_is_there_already_costs_the_dispatch_only(bench: Callable) -> None:
    def late(c):
        c.compute(10**6)
        c.recv(0)

    assert bench().run({0: lambda c: c.send(1), 1: late}).ends == {0: D, 1: 10**6 + D}


def test_messages_of_a_pair_come_in_order_of_sending(bench: Callable) -> None:
    sizes = [40_000, 4, 4_000, 0, 4]

    def sender(c):
        for i, n in enumerate(sizes):
            c.send(1, i, nbytes=n)

    run = bench({"pe.ipc.slots": 8}).run({0: sender, 1: lambda c: [c.recv(0) for _ in sizes]})
    assert run.results[1] == [0, 1, 2, 3, 4]


def test_payloads_of_any_kind_are_given_as_they_are(bench: Callable) -> None:
    payloads = [{"a": 1}, np.arange(3), lambda: None, object(), None, {"a": 1}, np.arange(3), print]
    many = {"system.pes_wide": 3, "system.pes_high": 3, "system.cubes_wide": 1}

    def sender(c):
        c.send(0, payloads[c.pe - 1])

    kernels = dict.fromkeys(range(8, 0, -1), sender)
    kernels[0] = lambda c: [c.recv(pe) for pe in range(1, 9)]
    got = bench(many).run(kernels).results[0]
    assert all(one is other for one, other in zip(got, payloads, strict=True))


@pytest.mark.parametrize("slots", [1, 2, 4])
def test_a_sender_waits_for_the_slot_that_a_receive_frees(bench: Callable, slots: int) -> None:
    def sender(c):
        for _ in range(slots + 2):
            c.send(1)
        return [entry[4] for entry in c.log]

    def receiver(c):
        for _ in range(slots + 2):
            c.compute(10**6)
            c.recv(0)
        return [entry[2] for entry in c.log]

    run = bench({"pe.ipc.slots": slots}).run({0: sender, 1: receiver})
    resumed, received = run.results[0], run.results[1]
    assert resumed[:slots] == [D * (i + 1) for i in range(slots)]
    # Message k takes the slot that message k - slots gave back, at the receiver's time.
    assert resumed[slots:] == received[:2]
    assert received == [(10**6 + D) * (i + 1) for i in range(slots + 2)]


def test_a_slot_that_will_be_free_later_is_waited_for(bench: Callable) -> None:
    # The first receive ends when its message arrives: the sender may send its second one then, not before.
    def sender(c):
        c.send(1, nbytes=64_000)
        c.send(1, nbytes=64_000)

    run = bench({"pe.ipc.slots": 1}).run({0: sender, 1: lambda c: [c.recv(0), c.recv(0)]})
    first = D + 1_000_000 + PE_HOP
    assert run.clocks[0].log[1] == ("send", 1, first, first + 1_000_000 + PE_HOP, first)


def test_a_message_that_waits_for_its_slot_keeps_no_link_meanwhile(bench: Callable) -> None:
    # PE 0's second message to PE 2 has its slot at 1 ms; PE 1's message over the same cube link goes before it.
    def twice(c):
        c.send(2, nbytes=64_000_000)
        c.send(2, nbytes=64_000_000)

    def between(c):
        c.compute(10**9)
        c.send(3)

    run = bench({"pe.ipc.slots": 1}).run(
        {0: twice, 1: between, 2: lambda c: (c.recv(0), c.recv(0)), 3: lambda c: c.recv(1)}
    )
    assert run.clocks[1].log[0][2] < run.clocks[0].log[1][2]
    assert run.clocks[1].log[0][2] == run.clocks[0].log[0][2] + 10**9 + PE_HOP


def test_a_receive_lets_all_that_is_earlier_happen_first(bench: Callable) -> None:
    order = []

    def sender(c):
        c.send(0)
        c.send(0)
        c.compute(500_000)
        c.send(2)
        order.append("sent at 0.5 us")

    def receiver(c):
        c.recv(1)
        c.compute(10**6)
        c.recv(1)  # it is there already
        order.append("received at 1 us")

    bench().run({0: receiver, 1: sender, 2: lambda c: c.recv(1)})
    assert order == ["sent at 0.5 us", "received at 1 us"]


@pytest.mark.parametrize(("before_send", "before_recv"), [(0, 10**6), (10**6, 0), (0, 0)])
def test_rendezvous_starts_when_both_are_there(bench: Callable, before_send: int, before_recv: int) -> None:
    def sender(c):
        c.compute(before_send)
        return c.send(1, "x")

    def receiver(c):
        c.compute(before_recv)
        return c.recv(0)

    run = bench({"pe.ipc.slots": 0}).run({0: sender, 1: receiver})
    met = max(before_send, before_recv) + D
    assert run.results == {0: (met, met + BUSY + PE_HOP), 1: "x"}
    assert run.ends == {0: met, 1: met + BUSY + PE_HOP}


def test_rendezvous_message_by_message(bench: Callable) -> None:
    def receiver(c):
        for _ in range(3):
            c.compute(10**6)
            c.recv(0)

    run = bench({"pe.ipc.slots": 0}).run({0: lambda c: [c.send(1) for _ in range(3)], 1: receiver})
    step = 10**6 + D + BUSY + PE_HOP
    assert [e[2] for e in run.clocks[0].log] == [step * i + 10**6 + D for i in range(3)]


def test_a_receive_posted_ahead_meets_a_rendezvous(bench: Callable) -> None:
    # All receive from the left before they send to the right, and wait afterwards: no deadlock with no slots.
    def kernel(c):
        left, right = (c.pe - 1) % 4, (c.pe + 1) % 4
        number = c.port.post_recv(c.now, left, lambda: "")
        c.send(right, c.pe)
        c.compute(10**6)
        end, got, peer = c.port.take(c.now, left, number, (1,), "f32", lambda: "")
        assert peer == left
        assert end < c.now  # it was there long before it was waited for
        return got

    assert bench({"pe.ipc.slots": 0}).run(kernel, 4).results == {0: 3, 1: 0, 2: 1, 3: 2}


def test_receives_posted_ahead_take_their_own_messages_in_any_order_of_waiting(bench: Callable) -> None:
    def receiver(c):
        numbers = [c.port.post_recv(c.now, 0, lambda: "") for _ in range(3)]
        got = [c.port.take(c.now, 0, n, (1,), "f32", lambda: "")[1] for n in reversed(numbers)]
        return [*got, c.recv(0)]

    run = bench().run({0: lambda c: [c.send(1, i) for i in range(4)], 1: receiver})
    assert run.results[1] == [2, 1, 0, 3]


def test_a_posted_receive_frees_its_slot_when_the_message_arrives(bench: Callable) -> None:
    def receiver(c):
        numbers = [c.port.post_recv(c.now, 0, lambda: "") for _ in range(2)]
        c.compute(10**9)
        for n in numbers:
            c.port.take(c.now, 0, n, (1,), "f32", lambda: "")

    run = bench({"pe.ipc.slots": 1}).run({0: lambda c: [c.send(1), c.send(1)], 1: receiver})
    assert run.clocks[0].log[1][4] == D + BUSY + PE_HOP  # not a second later


# Directions -----------------------------------------------------------------------------------------------------


def test_named_directions_have_queues_of_their_own(bench: Callable) -> None:
    run = bench()
    table = {"next": {0: 1, 1: 0}, "prev": {0: 1, 1: 0}}  # a ring of two: both neighbours are the same PE
    run.engine.install_directions(table, {"next": "prev", "prev": "next"})

    def sender(c):
        c.send("next", "to the right")
        c.send("prev", "to the left")
        c.send(1, "by index")

    run.run({0: sender, 1: lambda c: (c.recv(0), c.recv("next"), c.recv("prev"))})
    assert run.results[1] == ("by index", "to the left", "to the right")


def test_installing_merges_and_a_smaller_ring_replaces_a_larger(bench: Callable) -> None:
    engine = bench().engine

    def ring(size: int) -> None:
        pes = range(size)
        engine.install_directions(
            {"next": {i: (i + 1) % size for i in pes}, "prev": {i: (i - 1) % size for i in pes}},
            {"next": "prev", "prev": "next"},
        )

    engine.install_directions(*PAIR)
    ring(4)
    assert engine.directions["right"] == {0: 1}
    assert engine.directions["next"] == {0: 1, 1: 2, 2: 3, 3: 0}
    ring(2)
    assert engine.directions["next"] == {0: 1, 1: 0, 2: 3}
    assert engine.directions["prev"] == {0: 1, 1: 0, 3: 2}


@pytest.mark.parametrize(
    ("table", "opposite", "text"),
    [
        ({"up": {0: 1}}, {}, "direction 'up' has no opposite"),
        ({"up": {0: 4}}, {"up": "up"}, "direction 'up' leads from PE 0 to PE 4, and the topology 'tiny' has PEs 0..3"),
        ({"up": {0: 1}}, {"up": "down"}, "'up' leads from PE 0 to PE 1, but 'down' leads from there to nobody"),
        ({"up": {0: 1}, "down": {1: 2}}, {"up": "down", "down": "up"}, "'down' leads from there to PE 2"),
    ],
)  # fmt: skip
def test_an_installation_that_does_not_lead_back_changes_nothing(
    bench: Callable, table: dict, opposite: dict, text: str
) -> None:
    engine = bench().engine
    engine.install_directions(*PAIR)
    with pytest.raises(MessageError, match=re.escape(text)):
        engine.install_directions(table, opposite)
    assert engine.directions == PAIR[0]


def error_of(run, kernels) -> str:
    with pytest.raises(MessageError) as caught:
        run.run(kernels)
    return str(caught.value)


def test_a_direction_that_nobody_installed(bench: Callable) -> None:
    run = bench()
    run.engine.install_directions(*PAIR)
    text = error_of(run, {1: lambda c: c.send("up", line="k.py:3"), 0: lambda c: None})
    assert text == (
        "PE 1 sends to direction 'up' at k.py:3, which is not installed. Directions of PE 1: left -> PE 0. A "
        "configure_sfr_* function of ccl.sfr_config installs them before the launch; a global PE index needs no "
        "installation."
    )
    assert "PE 2 receives from direction 'up', which is not installed. Directions of PE 2: none." in error_of(
        run, {2: lambda c: c.recv("up")}
    )


def test_the_edge_of_the_mesh(bench: Callable) -> None:
    run = bench()
    run.engine.install_directions(*PAIR)
    assert error_of(run, {1: lambda c: c.send("right", line="k.py:3"), 0: lambda c: None}) == (
        "PE 1 sends to direction 'right' at k.py:3, where it has no neighbour: it lies at the edge. Directions of "
        "PE 1: left -> PE 0."
    )


@pytest.mark.parametrize("peer", [4, 300, -1])
def test_a_pe_that_is_not_in_the_topology(bench: Callable, peer: int) -> None:
    text = error_of(bench(), {0: lambda c: c.send(peer, line="k.py:3")})
    assert text == f"PE 0 sends to PE {peer} at k.py:3, which is not in the topology 'tiny': it has PEs 0..3."
    assert f"PE 0 receives from PE {peer}, which" in error_of(bench(), {0: lambda c: c.recv(peer)})


def test_a_pe_that_takes_no_part(bench: Callable) -> None:
    run = bench()
    run.engine.install_directions({"right": {1: 2}, "left": {2: 1}}, PAIR[1])
    text = error_of(run, {0: lambda c: None, 1: lambda c: c.send("right"), 3: lambda c: None})
    assert text == (
        "PE 1 sends to PE 2 (direction 'right'), which takes no part in this launch. Its PEs: 0..1, 3. Launch the "
        "kernel on both, or leave the message out."
    )


def test_oneself(bench: Callable) -> None:
    assert "PE 2 sends to PE 2 at k.py:3, that is itself." in error_of(
        bench(), {2: lambda c: c.send(2, line="k.py:3")}
    )


def test_a_direction_of_another_type(bench: Callable) -> None:
    assert (
        bench().run({0: lambda c: c.send(np.int64(1), "x"), 1: lambda c: c.recv(np.uint8(0))}).results[1]
        == "x"
    )
    with pytest.raises(TypeError):
        bench().run({0: lambda c: c.send(1.0)})


# What both ends must agree on -----------------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["sender", "receiver"])
@pytest.mark.parametrize(
    ("shape", "dtype", "came"), [((1, 64), "f16", "f16[1x64]"), ((64,), "f32", "f32[64]"), ((), "f32", "f32[]")]
)  # fmt: skip
def test_shape_and_dtype_must_agree(
    bench: Callable, first: str, shape: tuple[int, ...], dtype: str, came: str
) -> None:
    run = bench()
    run.engine.install_directions(*PAIR)

    def sender(c):
        c.compute(10**6 if first == "receiver" else 0)
        c.send("right", shape=(1, 64), dtype="f32", line="k.py:3")

    def receiver(c):
        c.compute(10**6 if first == "sender" else 0)
        c.recv("left", shape, dtype, line="k.py:9")

    assert error_of(run, {0: sender, 1: receiver}) == (
        f"send and recv do not agree: PE 0 sends f32[1x64] to 'right' at k.py:3, and PE 1 receives {came} from 'left' "
        "at k.py:9. Make shape and dtype the same on both sides; messages of one direction come in the order of "
        "sending."
    )


def test_a_list_is_as_good_as_a_tuple(bench: Callable) -> None:
    run = bench().run({0: lambda c: c.send(1, "x", shape=[2, 3]), 1: lambda c: c.recv(0, (2, 3))})
    assert run.results[1] == "x"


def test_messages_that_nobody_received(bench: Callable) -> None:
    run = bench()
    run.engine.install_directions(*PAIR)

    def sender(c):
        c.send("right", shape=(2, 8), line="k.py:3")
        c.send("right", shape=(2, 8), dtype="f16", line="k.py:4")
        c.send(1, shape=(), line="k.py:5")
        c.send("right", line="k.py:6")

    assert error_of(run, {0: sender, 1: lambda c: c.recv("left", (2, 8))}) == (
        "messages were sent and never received:\n"
        "  PE 0 -> PE 1: 1 message sent to PE 1, to be received from PE 0; the first is f32[], sent at k.py:5\n"
        "  PE 0 -> PE 1: 2 messages sent to 'right', to be received from 'left'; the first is f16[2x8], "
        "sent at k.py:4\n"
        "Each send needs a recv on the other side."
    )
    # The next launch starts with empty queues.
    run.run({0: lambda c: c.send("right", "new"), 1: lambda c: c.recv("left")})
    assert run.results[1] == "new"
