"""One PE's side of the machine: its HBM slice, its message queues, the barrier. All times are whole ps.

A `Port` fulfils the sink that the language emits into. Private work never comes here; one's own HBM slice is two
additions and never switches; what is shared reaches the scheduler first, so that it is reserved in order of time.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from kernbench_nb.errors import MessageError, ModelError
from kernbench_nb.sim_engine import reports
from kernbench_nb.sim_engine.hbm import Slice
from kernbench_nb.sim_engine.queues import NOBODY, Queue, Where
from kernbench_nb.sim_engine.trace import Trace

if TYPE_CHECKING:
    from kernbench_nb.sim_engine.launch import Launch

__all__ = ["Port"]


class Port:
    """What one program of a launch sees of the engine.

    Attributes
    ----------
    pe
        Global index of the PE.
    topology
        The machine.
    data
        Whether values are carried, or times only.
    trace
        Where the program leaves its rows.
    start_ps
        When the launch starts.
    finished
        Whether the program has told its end.
    waits
        While the PE is blocked: (operation, direction, peer, since ps, source line); else None.
    """

    __slots__ = (
        "_incoming",
        "_latency",
        "_launch",
        "_outgoing",
        "_reach",
        "_released",
        "_shared",
        "_slice",
        "data",
        "finished",
        "pe",
        "start_ps",
        "topology",
        "trace",
        "waits",
    )

    def __init__(self, pe: int, launch: Launch, trace: Trace) -> None:
        self.pe = pe
        self.topology = launch.topology
        self.data = launch.data
        self.trace = trace
        self.start_ps = launch.start_ps
        self.finished = False
        self.waits: tuple[str, str | int | None, int | None, int, Where] | None = None
        self._launch = launch
        self._slice = launch.slice_of(pe)
        self._shared = pe in launch.shared_slices
        self._reach = launch.scheduler.reach
        self._latency = launch.topology.costs.hbm_latency_ps
        self._outgoing: dict[str | int, Queue] = {}
        self._incoming: dict[str | int, Queue] = {}
        self._released = 0
        trace.end = launch.start_ps

    def __repr__(self) -> str:
        return f"<port of PE {self.pe}>"

    def finish(self, end_ps: int) -> None:
        """The program ends at `end_ps`. One that never says so ends with its last row."""
        self.trace.end = end_ps
        self.finished = True

    # -- HBM ---------------------------------------------------------------------------------------------------

    def read(self, issue_ps: int, owner: int, nbytes: int) -> tuple[int, int]:
        """Read `nbytes` of the slice of PE `owner` (-1: one's own): channel start, and data ready, in ps.

        Ready is ``start + B + latency``; from another PE's slice the request travels there first (latency only) and
        the data comes back over the links.
        """
        if owner >= 0 and owner != self.pe:
            return self._read_remote(issue_ps, owner, nbytes)
        if self._shared:
            self._reach(issue_ps, self.pe)
        # the reservation of _occupy, written out: a call more would be felt here
        hbm = self._slice
        size = hbm.sizes.get(nbytes) or hbm.size(nbytes)
        size[1] += 1
        start = hbm.free_ps
        if start < issue_ps:
            start = issue_ps
        hbm.free_ps = end = start + size[0]
        return start, end + self._latency

    def write(self, issue_ps: int, owner: int, nbytes: int) -> tuple[int, int]:
        """Write `nbytes` to the slice of PE `owner` (-1: one's own): channel start, and done, in ps.

        Done is ``start + B``; to another PE's slice the data travels there over the links first, and the word that
        it is done comes back (latency only).
        """
        if owner >= 0 and owner != self.pe:
            return self._write_remote(issue_ps, owner, nbytes)
        return self._occupy(self._slice, issue_ps, nbytes)

    def _occupy(self, hbm: Slice, arrived_ps: int, nbytes: int) -> tuple[int, int]:
        """Reserve a slice, in order of arrival if it is shared: start and end of its busy time."""
        if self._shared or hbm is not self._slice:
            self._reach(arrived_ps, self.pe)
        size = hbm.size(nbytes)
        size[1] += 1
        start = hbm.free_ps
        if start < arrived_ps:
            start = arrived_ps
        hbm.free_ps = end = start + size[0]
        return start, end

    def _read_remote(self, issue_ps: int, owner: int, nbytes: int) -> tuple[int, int]:
        hbm = self._slice_of_another(owner, "reads")
        there, back = self.topology.route(self.pe, owner), self.topology.route(owner, self.pe)
        start, end = self._occupy(hbm, issue_ps + there.latency_ps, nbytes)
        _, ready = self._launch.fabric.transfer(back, nbytes, end + self._latency)
        return start, ready

    def _write_remote(self, issue_ps: int, owner: int, nbytes: int) -> tuple[int, int]:
        hbm = self._slice_of_another(owner, "writes")
        there, back = self.topology.route(self.pe, owner), self.topology.route(owner, self.pe)
        self._reach(issue_ps, self.pe)
        _, arrived = self._launch.fabric.transfer(there, nbytes, issue_ps)
        start, end = self._occupy(hbm, arrived, nbytes)
        return start, end + back.latency_ps

    def _slice_of_another(self, owner: int, does: str) -> Slice:
        self.topology.locate(owner)  # raises for a PE that the machine does not have
        if owner not in self._launch.shared_slices:
            raise ModelError(
                f"PE {self.pe} {does} the HBM slice of PE {owner}, which this launch did not mark as shared: its "
                f"owner's accesses would not be in order of time. Pass shared_slices={{..., {owner}}} to run()."
            )
        return self._launch.slice_of(owner)

    # -- messages ----------------------------------------------------------------------------------------------

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
        """Send a message and go on as soon as it has a slot.

        Parameters
        ----------
        issue_ps
            When the PE stands before it, dispatch included.
        direction
            A direction that the SFR configuration installed, or the global index of the receiver.
        payload
            Whatever the receiver shall get; nobody looks at it.
        nbytes, shape, dtype
            Size, and what the receive must agree with.
        where
            Gives the source line for reports.

        Returns
        -------
        start_ps, arrive_ps, resume_ps, peer
            When the first link begins to carry it, when its tail is there, when the PE goes on (later than
            `issue_ps` only if it waited for a slot, or for the receiver in a rendezvous), and the receiver.

        Raises
        ------
        MessageError
            For a direction or a PE that is not there.
        """
        queue = self._outgoing.get(direction)
        if queue is None:
            queue = self._open(direction, "sends to", where)
        self._reach(issue_ps, self.pe)
        slot = issue_ps
        if not queue.credits:
            queue.sender_waits = issue_ps
            self._block("send", direction, queue.dst, issue_ps, where)
        credit = queue.credits.popleft()
        if credit > slot:
            slot = credit
            self._reach(slot, self.pe)
        fabric = self._launch.fabric
        start, arrive = fabric.carry(queue.plan(fabric, nbytes), nbytes, slot)
        queue.sent.append((arrive, payload, tuple(shape), dtype, where))
        if queue.posted:
            end = queue.match()
            if queue.awaited == queue.next_match - 1:
                since = queue.receiver_waits
                queue.awaited = queue.receiver_waits = NOBODY
                self._launch.scheduler.wake(queue.dst, end if end > since else since)
        return start, arrive, slot, queue.dst

    def wire_ps(self, direction: str | int, nbytes: int) -> int:
        """How long a message occupies the narrowest link on its way, in ps; 0 on infinitely wide links."""
        plan = self._outgoing[direction].plan(self._launch.fabric, nbytes)
        return max((busy for _, busy, _ in plan), default=0)

    def recv(
        self, issue_ps: int, direction: str | int, shape: tuple[int, ...], dtype: str, where: Where
    ) -> tuple[int, Any, int]:
        """Receive the next message of a direction and wait until it is there.

        Returns
        -------
        end_ps, payload, peer
            ``max(issue, arrival)``, what was sent, and the sender.

        Raises
        ------
        MessageError
            If shape or dtype differ from what was sent, or there is no such direction.
        """
        return self.take(issue_ps, direction, self.post_recv(issue_ps, direction, where), shape, dtype, where)

    def post_recv(self, issue_ps: int, direction: str | int, where: Where) -> int:
        """Say that a message of that direction may come; `take` waits for it. Returns the receive's number."""
        queue = self._incoming.get(direction)
        if queue is None:
            queue = self._open(direction, "receives from", where)
        self._reach(issue_ps, self.pe)
        number = queue.next_post
        queue.next_post = number + 1
        queue.posted.append(issue_ps)
        if not queue.slots:
            queue.credits.append(issue_ps)
        if queue.sent:
            queue.match()
        if queue.sender_waits >= 0 and queue.credits:
            since, credit = queue.sender_waits, queue.credits[0]
            queue.sender_waits = NOBODY
            self._launch.scheduler.wake(queue.src, credit if credit > since else since)
        return number

    def take(
        self, now_ps: int, direction: str | int, number: int, shape: tuple[int, ...], dtype: str, where: Where
    ) -> tuple[int, Any, int]:
        """Wait for a receive that was posted; see `recv`. Its end may be earlier than `now_ps`."""
        queue = self._incoming[direction]
        if number not in queue.matched:
            queue.awaited = number
            queue.receiver_waits = now_ps
            self._block("recv", direction, queue.src, now_ps, where)
        end, message = queue.matched.pop(number)
        if message[2] != tuple(shape) or message[3] != dtype:
            raise MessageError(reports.disagreement(queue, message, tuple(shape), dtype, where))
        return end, message[1], queue.src

    def _open(self, direction: str | int, does: str, where: Where) -> Queue:
        """Find the queue of a direction on its first use."""
        if not isinstance(direction, str):
            direction = operator.index(direction)
        sends = does == "sends to"
        queue = self._launch.queue(self.pe, direction, does, where)
        (self._outgoing if sends else self._incoming)[direction] = queue
        return queue

    def _block(
        self, op: str, direction: str | int | None, peer: int | None, since_ps: int, where: Where
    ) -> None:
        self.waits = (op, direction, peer, since_ps, where)
        self._launch.scheduler.block(self.pe)
        self.waits = None

    # -- all together ------------------------------------------------------------------------------------------

    def barrier(self, issue_ps: int, where: Where) -> int:
        """Wait for all PEs of the launch; they go on when the last has come, at the time returned."""
        launch = self._launch
        release = launch.arrive(self.pe, issue_ps)
        if release is not None:
            return release
        self._block("barrier", None, None, issue_ps, where)
        return self._released

    def release(self, time_ps: int) -> None:
        """The last PE has come to the barrier that this one waits at."""
        self._released = time_ps
        self._launch.scheduler.wake(self.pe, time_ps)
