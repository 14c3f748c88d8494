"""Message queues: one for each pair of PEs and direction, first in, first out, with a fixed number of slots."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from kernbench_nb.sim_engine.fabric import Fabric, Plan
from kernbench_nb.topology import Route

__all__ = ["Message", "Queue", "Where"]

Where = Callable[[], str]
"""Gives the source line of one operation, as text. Only a report calls it, perhaps long after the PE has gone on."""

Message = tuple[int, Any, tuple[int, ...], str, Where]
"""Arrival in ps, payload, shape, dtype, and source line of the send."""

NOBODY = -1


class Queue:
    """Messages on their way from one PE to one direction of another.

    Sends and receives of a queue match in order: the n-th message belongs to the n-th receive that was posted. A send
    takes a credit. With `slots` > 0 there are that many at first, and each match gives one back when the receive
    ends; with none (rendezvous) each posted receive gives one.

    Attributes
    ----------
    src, dst
        Global PE indices of sender and receiver.
    leaves, enters
        Direction at the sender and at the receiver.
    slots
        Messages that it holds.
    sent
        Messages that no receive was posted for yet.
    posted
        Times of receives that no message was sent for yet.
    matched
        Ends and messages of receives that are matched and not yet taken, by number of the receive.
    credits
        When each free slot was, or will be, free.
    sender_waits, receiver_waits
        Since when the sender waits for a credit, and the receiver for the receive `awaited`; -1 if it does not.
    """

    __slots__ = (
        "_plans",
        "awaited",
        "credits",
        "dst",
        "enters",
        "leaves",
        "matched",
        "next_match",
        "next_post",
        "posted",
        "receiver_waits",
        "route",
        "sender_waits",
        "sent",
        "slots",
        "src",
    )

    def __init__(
        self,
        src: int,
        dst: int,
        leaves: str | int,
        enters: str | int,
        slots: int,
        start_ps: int,
        route: Route,
    ) -> None:
        self.src = src
        self.dst = dst
        self.leaves = leaves
        self.enters = enters
        self.slots = slots
        self.route = route
        self.sent: deque[Message] = deque()
        self.posted: deque[int] = deque()
        self.matched: dict[int, tuple[int, Message]] = {}
        self.credits: deque[int] = deque([start_ps] * slots)
        self.sender_waits = NOBODY
        self.receiver_waits = NOBODY
        self.awaited = NOBODY
        self.next_post = 0
        self.next_match = 0
        self._plans: dict[int, Plan] = {}

    def plan(self, fabric: Fabric, nbytes: int) -> Plan:
        """Reservations of a message of that size, worked out once."""
        plan = self._plans.get(nbytes)
        if plan is None:
            plan = self._plans[nbytes] = fabric.plan(self.route, nbytes)
        return plan

    def match(self) -> int:
        """Match the oldest message with the oldest posted receive; there must be both. Returns its end in ps."""
        message = self.sent.popleft()
        end = self.posted.popleft()
        if message[0] > end:
            end = message[0]
        self.matched[self.next_match] = end, message
        self.next_match += 1
        if self.slots:
            self.credits.append(end)
        return end
