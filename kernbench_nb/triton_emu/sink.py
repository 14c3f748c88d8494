"""Where the language sends what it cannot settle alone: memory traffic, messages, time shared with other PEs.

Arithmetic never calls the sink: its cost is known, its engine is private, so `tl` moves its own clock and appends a
row to the sink's trace. Whoever joins the language to a simulator provides the `Sink`; `Recorder` stands in when a
`TLContext` is used alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from kernbench_nb.errors import MessageError
from kernbench_nb.sim_engine.trace import KindTable, Trace

__all__ = ["Recorder", "Sink"]

Where = Callable[[], str]


class Sink(Protocol):
    """One PE's side of the machine. All times are ps."""

    trace: Trace

    def read(self, issue_ps: int, owner: int, nbytes: int) -> tuple[int, int]:
        """Read HBM of PE `owner` (-1: one's own): when the channel starts, and when the data is there."""

    def write(self, issue_ps: int, owner: int, nbytes: int) -> tuple[int, int]:
        """Write HBM of PE `owner` (-1: one's own): when the channel starts, and when it is done."""

    def send(
        self,
        issue_ps: int,
        direction: str | int,
        payload: Any,
        nbytes: int,
        shape: tuple[int, ...],
        dtype: str,
        where: Where,
    ) -> tuple[int, int, int, int]:
        """Send a message: when the first link starts, when it arrives, when the PE goes on, and the peer."""

    def wire_ps(self, direction: str | int, nbytes: int) -> int:
        """How long a message occupies the narrowest link on its way; asked after a first `send` there."""

    def recv(
        self, issue_ps: int, direction: str | int, shape: tuple[int, ...], dtype: str, where: Where
    ) -> tuple[int, Any, int]:
        """Receive a message: when it is there, what it carries, and the peer."""

    def post_recv(self, issue_ps: int, direction: str | int, where: Where) -> int:
        """Say that a message may come; returns the receive's number, for `take`."""

    def take(
        self, now_ps: int, direction: str | int, number: int, shape: tuple[int, ...], dtype: str, where: Where
    ) -> tuple[int, Any, int]:
        """Wait for a receive that was posted; see `recv`. It may have ended before `now_ps`."""

    def barrier(self, issue_ps: int, where: Where) -> int:
        """Wait for all PEs of the launch: when they go on."""


class Recorder:
    """The sink of a `TLContext` that stands alone: it keeps the trace, memory answers at once, nobody is there.

    Attributes
    ----------
    trace
        What was recorded.
    """

    def __init__(self, trace: Trace | None = None) -> None:
        self.trace = Trace(0, KindTable()) if trace is None else trace  # an empty trace is false

    def read(self, issue_ps: int, owner: int, nbytes: int) -> tuple[int, int]:
        """Take no time."""
        return issue_ps, issue_ps

    def write(self, issue_ps: int, owner: int, nbytes: int) -> tuple[int, int]:
        """Take no time."""
        return issue_ps, issue_ps

    def send(
        self,
        issue_ps: int,
        direction: str | int,
        payload: Any,
        nbytes: int,
        shape: tuple[int, ...],
        dtype: str,
        where: Where,
    ) -> tuple[int, int, int, int]:
        """Refuse: there is nobody to send to."""
        raise MessageError(
            f"send to {direction!r} from a TLContext that stands alone: launch the kernel on an engine."
        )

    def wire_ps(self, direction: str | int, nbytes: int) -> int:
        """Nothing."""
        return 0

    def recv(
        self, issue_ps: int, direction: str | int, shape: tuple[int, ...], dtype: str, where: Where
    ) -> tuple[int, Any, int]:
        """Refuse: there is nobody to hear from."""
        raise MessageError(
            f"recv from {direction!r} in a TLContext that stands alone: launch the kernel on an engine."
        )

    def post_recv(self, issue_ps: int, direction: str | int, where: Where) -> int:
        """Refuse: there is nobody to hear from."""
        return self.recv(issue_ps, direction, (), "", where)[0]

    def take(
        self, now_ps: int, direction: str | int, number: int, shape: tuple[int, ...], dtype: str, where: Where
    ) -> tuple[int, Any, int]:
        """Refuse: there is nobody to hear from."""
        return self.recv(now_ps, direction, shape, dtype, where)

    def barrier(self, issue_ps: int, where: Where) -> int:
        """Pass at once."""
        return issue_ps
