"""The texts of the engine's errors: who waits for whom, what two sides do not agree on, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kernbench_nb.errors import DeadlockError, grouped
from kernbench_nb.sim_engine.queues import Message, Queue, Where

if TYPE_CHECKING:
    from kernbench_nb.sim_engine.launch import Launch
    from kernbench_nb.sim_engine.port import Port

__all__ = ["deadlock", "disagreement", "no_direction", "no_peer", "unreceived"]


def no_direction(launch: Launch, pe: int, direction: str, does: str, where: Where) -> str:
    """PE `pe` has nobody in that direction."""
    table = launch.directions.get(direction)
    own = {name: peers[pe] for name, peers in launch.directions.items() if pe in peers}
    known = ", ".join(f"{name} -> PE {peer}" for name, peer in own.items()) or "none"
    text = f"PE {pe} {does} direction {direction!r}{_at(where)}, "
    if table is None:
        return (
            f"{text}which is not installed. Directions of PE {pe}: {known}. A configure_sfr_* function of "
            "ccl.sfr_config installs them before the launch; a global PE index needs no installation."
        )
    return f"{text}where it has no neighbour: it lies at the edge. Directions of PE {pe}: {known}."


def no_peer(launch: Launch, pe: int, direction: str | int, peer: int, does: str, where: Where) -> str:
    """The PE at the other end is not there."""
    via = f" (direction {direction!r})" if isinstance(direction, str) else ""
    text = f"PE {pe} {does} PE {peer}{via}{_at(where)}, "
    if peer == pe:
        return f"{text}that is itself. Use tl.copy_to for a copy within a PE, and leave out the step of a ring of one."
    count = launch.topology.pe_count
    if not 0 <= peer < count:
        return f"{text}which is not in the topology {launch.topology.name!r}: it has PEs 0..{count - 1}."
    return (
        f"{text}which takes no part in this launch. Its PEs: {_ranges(sorted(launch.ports))}. Launch the kernel on "
        "both, or leave the message out."
    )


def disagreement(queue: Queue, message: Message, shape: tuple[int, ...], dtype: str, where: Where) -> str:
    """Send and receive differ in shape or dtype."""
    return (
        "send and recv do not agree: "
        f"PE {queue.src} sends {_type(message[2], message[3])} to {_way(queue.leaves)}"
        f"{_at(message[4])}, and PE {queue.dst} receives {_type(shape, dtype)} from "
        f"{_way(queue.enters)}{_at(where)}. Make shape and dtype the same on both sides; messages of one direction "
        "come in the order of sending."
    )


def unreceived(launch: Launch) -> str:
    """Messages that nobody received, or an empty text."""
    lines = []
    for key in sorted(launch.queues, key=lambda k: (k[0], k[1], k[2] or "")):
        queue = launch.queues[key]
        if queue.sent:
            first = queue.sent[0]
            count = len(queue.sent)
            lines.append(
                f"  PE {queue.src} -> PE {queue.dst}: {count} message{'s' if count > 1 else ''} sent to "
                f"{_way(queue.leaves)}, to be received from {_way(queue.enters)}; the first is "
                f"{_type(first[2], first[3])}, sent{_at(first[4])}"
            )
    if not lines:
        return ""
    return "\n".join(
        ("messages were sent and never received:", *_few(lines), "Each send needs a recv on the other side.")
    )


def deadlock(launch: Launch) -> DeadlockError:
    """Nothing is left to run: describe every blocked PE."""
    blocked = [launch.ports[pe] for pe in sorted(launch.scheduler.blocked)]
    now = max(_since(port) for port in blocked)
    count = f"{len(blocked)} of {len(launch.ports)}"
    lines = [f"deadlock at {grouped(now)} ps: nothing is left to run, and {count} PEs are blocked."]
    lines += [f"  {_blocked(launch, port)}" for port in blocked]
    circle = _circle(blocked)
    if circle:
        lines.append(f"They wait in a circle: {' -> '.join(f'PE {pe}' for pe in circle)}.")
    lines.append(_advice(launch, blocked))
    return DeadlockError("\n".join(lines))


def _blocked(launch: Launch, port: Port) -> str:
    """One line for one blocked PE."""
    assert port.waits is not None
    op, direction, peer, since, where = port.waits
    who = f"PE {port.pe}: {op}"
    tail = f"since {grouped(since)} ps{_at(where)}"
    if peer is None or direction is None:
        late = sorted(p.pe for p in launch.ports.values() if p.waits is None or p.waits[0] != "barrier")
        have = "have" if len(late) > 1 else "has"
        gone = "" if any(pe in launch.scheduler.blocked for pe in late) else f", which {have} ended"
        return f"{who} without PE {_ranges(late)}{gone}, {tail}"
    gone = "" if peer in launch.scheduler.blocked else ", which has ended"
    whom = f"{_way(direction)} (PE {peer}{gone})" if isinstance(direction, str) else f"PE {peer}{gone}"
    if op == "send":
        slots = launch.topology.ipc_slots
        why = f"{slots} of {slots} slots are taken" if slots else "rendezvous: no recv is posted"
        return f"{who} to {whom}, {why}, {tail}"
    return f"{who} from {whom}, no message is there{_waiting_elsewhere(launch, port.pe)}, {tail}"


def _waiting_elsewhere(launch: Launch, pe: int) -> str:
    other = [
        f"{len(q.sent)} of PE {q.src} for {_way(q.enters)}"
        for q in launch.queues.values()
        if q.dst == pe and q.sent
    ]
    return f" (but {', '.join(sorted(other))})" if other else ""


def _circle(blocked: list[Port]) -> list[int]:
    """A closed chain of PEs that wait for each other, its first again at the end; empty if there is none."""
    waits_for = {p.pe: p.waits[2] for p in blocked if p.waits is not None and p.waits[2] is not None}
    for start in waits_for:
        path = [start]
        while (nxt := waits_for.get(path[-1])) is not None:
            if nxt in path:
                return [*path[path.index(nxt) :], nxt]
            path.append(nxt)
    return []


def _advice(launch: Launch, blocked: list[Port]) -> str:
    ops = [port.waits[0] for port in blocked if port.waits is not None]
    if "barrier" in ops:
        return "Every PE of the launch must come to each barrier, and take its messages before."
    if "send" in ops:
        slots = launch.topology.ipc_slots
        return (
            f"Let one PE of each pair receive before it sends, or give the directions more slots (pe.ipc.slots is "
            f"{slots})."
        )
    return "Each recv needs a send on the other side, in the direction that it listens to."


def _since(port: Port) -> int:
    return port.waits[3] if port.waits is not None else 0


def _way(direction: str | int) -> str:
    return repr(direction) if isinstance(direction, str) else f"PE {direction}"


def _type(shape: tuple[int, ...], dtype: str) -> str:
    return f"{dtype}[{'x'.join(map(str, shape))}]"


def _at(where: Where) -> str:
    line = where()
    return f" at {line}" if line else ""


def _ranges(pes: list[int]) -> str:
    """``0..3, 8``: sorted indices, neighbours together."""
    runs: list[list[int]] = []
    for pe in pes:
        if runs and pe == runs[-1][1] + 1:
            runs[-1][1] = pe
        else:
            runs.append([pe, pe])
    return ", ".join(str(a) if a == b else f"{a}..{b}" for a, b in runs)


def _few(lines: list[str], most: int = 16) -> list[str]:
    return lines if len(lines) <= most else [*lines[:most], f"  ... and {len(lines) - most} more"]
