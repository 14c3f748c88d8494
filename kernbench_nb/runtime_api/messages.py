"""Which receive took which send: the arrows of a run's messages."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from kernbench_nb.ccl.sfr_config import OPPOSITE
from kernbench_nb.sim_engine.rows import Ints, Rows

__all__ = ["Messages", "messages_of"]


@dataclass(frozen=True, eq=False)
class Messages:
    """One entry a message, in order of the sending row.

    Attributes
    ----------
    send, recv
        Rows of the run; `recv` is -1 where the message was never taken.
    nbytes
        What it carried.
    """

    send: Ints
    recv: Ints
    nbytes: Ints

    def __len__(self) -> int:
        return len(self.send)


def messages_of(rows: Rows) -> Messages:
    """Match sends and receives.

    Messages of one pair of PEs and one direction arrive in order of sending, so the n-th send of such a queue is the
    n-th receive of it. A message sent by PE index waits in a queue of its own.
    """
    sends = _rows_of(rows, "ipc_send")
    receives = _rows_of(rows, "ipc_recv")
    waiting: defaultdict[tuple[int, int, str], list[int]] = defaultdict(list)
    for row in receives.tolist():
        kind = rows.kinds[rows.kind[row]]
        peer = -1 if kind.peer is None else kind.peer
        waiting[peer, int(rows.pe[row]), _queue(kind.direction)].append(row)
    taken = {key: iter(found) for key, found in waiting.items()}
    recv = np.full(len(sends), -1, np.int64)
    for i, row in enumerate(sends.tolist()):
        kind = rows.kinds[rows.kind[row]]
        leaves = _queue(kind.direction)
        peer = -1 if kind.peer is None else kind.peer
        queue = taken.get((int(rows.pe[row]), peer, OPPOSITE.get(leaves, leaves)))
        if queue is not None:
            recv[i] = next(queue, -1)
    nbytes = rows.of_kinds(lambda k: k.nbytes)[rows.kind[sends]]
    return Messages(sends, recv, nbytes)


def _rows_of(rows: Rows, op: str) -> Ints:
    return np.flatnonzero(rows.of_kinds(lambda k: k.op == op)[rows.kind])


def _queue(direction: str | None) -> str:
    # a global PE index as direction names the pair, and nothing else
    return "" if direction is None or direction.isdigit() else direction
