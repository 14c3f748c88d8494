"""Recording values: what was alive at the end of each tile, kept for the views that show numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernbench_nb.memory import Scope
from kernbench_nb.sim_engine.live import name_of_row
from kernbench_nb.sim_engine.trace import CLOSE, KIND, OPEN, OUT, STRIDE, A, Trace

__all__ = ["Recorder"]


class Recorder:
    """Copies the handles alive at the end of each scope of kind ``tile``, up to a number of bytes.

    Parameters
    ----------
    limit
        Bytes, all PEs together.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    @classmethod
    def of(cls, record: str | None, limit: int, data: bool) -> Recorder | None:
        """The recorder that ``record=`` asks for.

        Raises
        ------
        ValueError
            For another word than ``"tiles"``, or in timing mode.
        """
        if record is None:
            return None
        if record != "tiles":
            raise ValueError(f"record must be None or 'tiles', got {record!r}")
        if not data:
            raise ValueError("record='tiles' needs values, and data=False has none.")
        return cls(limit)

    def __call__(self, tl: Any, scope: Scope) -> None:
        """Copy what is alive, at the end of `scope`.

        Raises
        ------
        MemoryError
            If it would be more than the limit; the text says what to lower.
        """
        trace: Trace = tl.commands
        for row in _alive(trace, scope):
            kind = trace.kinds[trace.rows[row * STRIDE + KIND]]
            assert kind.ty is not None
            self.used += kind.ty.nbytes
            if self.used > self.limit:
                raise MemoryError(
                    f"record='tiles' would keep more than max_record_bytes={self.limit:,} B at scope {scope.path!r} of "
                    f"PE {trace.pe}. Use fewer or smaller tiles, fewer PEs, or a higher max_record_bytes."
                )
            array = np.array(tl.view_of(trace.rows[row * STRIDE + OUT], kind.ty))
            trace.values.append((scope.index, row, name_of_row(trace, row), array))


def _alive(trace: Trace, scope: Scope) -> list[int]:
    """Allocating rows whose blocks are alive: those of the open arenas, from the persistent one to `scope`."""
    open_arenas = {s.index for s in scope.ancestry()}
    stack, alive = [0], []
    rows, kinds = trace.rows, trace.kinds
    for at in range(0, len(rows), STRIDE):
        kind = rows[at + KIND]
        if kind == OPEN:
            stack.append(rows[at + A])
        elif kind == CLOSE:
            stack.pop()
        elif stack[-1] in open_arenas and (kinds[kind].size or kinds[kind].op == "empty"):
            alive.append(at // STRIDE)
    return alive
