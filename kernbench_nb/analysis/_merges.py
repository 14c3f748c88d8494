"""The merges between PEs of a run: who sent its state to whom, when, and how deep the tree of them is."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from kernbench_nb.runtime_api.result import RunResult

__all__ = ["Merge", "merges_of"]


@dataclass(frozen=True, slots=True)
class Merge:
    """One merge of a state that came from another PE.

    Attributes
    ----------
    pe, peer
        Global indices: where the states are merged, and where the other one came from.
    open_ps
        When the PE was ready for it, the start of its scope.
    sent_ps, arrived_ps
        When the first message of the state left the peer, and when the last of them was taken.
    end_ps
        When the merge was done.
    depth
        Merges on the longest way from a PE's own sweep to the merged state.
    label
        Of its scope.
    """

    pe: int
    peer: int
    open_ps: int
    sent_ps: int
    arrived_ps: int
    end_ps: int
    depth: int
    label: str


def merges_of(run: RunResult) -> tuple[Merge, ...]:
    """Scopes of kind ``merge`` that received a state, in order of their ends.

    The n-th receive of a pair of PEs is matched with its n-th send: messages of a pair keep their order.
    """
    rows = run.op_log.rows
    scopes = rows.scopes
    sends: dict[tuple[int, int], list[int]] = defaultdict(list)
    receives: dict[tuple[int, int], list[int]] = defaultdict(list)
    for op, found in (("ipc_send", sends), ("ipc_recv", receives)):
        for row in rows.where(lambda k, op=op: k.op == op).tolist():  # type: ignore[misc]
            peer, pe = rows.kinds[rows.kind[row]].peer, int(rows.pe[row])
            if peer is not None:
                found[(pe, peer) if op == "ipc_send" else (peer, pe)].append(row)
    sent_by = {
        got: sent
        for pair, rows_got in receives.items()
        for got, sent in zip(rows_got, sends[pair], strict=False)
    }
    is_recv = rows.are(lambda k: k.op == "ipc_recv")
    merges: list[Merge] = []
    for scope, kind in enumerate(scopes.kind):
        if kind != "merge":
            continue
        part = rows.parts[int(scopes.part[scope])]
        opened, closed = int(scopes.open[scope]), int(scopes.close[scope])
        got = (opened + np.flatnonzero(is_recv[rows.kind[opened:closed]])).tolist()
        got = [row for row in got if row in sent_by]
        if not got:
            continue
        peer = rows.kinds[rows.kind[got[0]]].peer
        merges.append(
            Merge(
                pe=part.pe,
                peer=-1 if peer is None else peer,
                open_ps=int(rows.end[opened]),
                sent_ps=min(int(rows.start[sent_by[row]]) for row in got),
                arrived_ps=max(int(rows.end[row]) for row in got),
                end_ps=int(rows.end[closed]) if closed < part.stop else part.end_ps,
                depth=0,
                label=scopes.label[scope],
            )
        )
    merges.sort(key=lambda merge: (merge.end_ps, merge.pe))
    deep: dict[int, int] = defaultdict(int)
    done: list[Merge] = []
    for merge in merges:
        depth = deep[merge.pe] = max(deep[merge.pe], deep[merge.peer]) + 1
        done.append(
            Merge(
                merge.pe,
                merge.peer,
                merge.open_ps,
                merge.sent_ps,
                merge.arrived_ps,
                merge.end_ps,
                depth,
                merge.label,
            )
        )
    return tuple(done)
