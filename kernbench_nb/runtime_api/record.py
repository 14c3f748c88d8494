"""Recording values: what was alive at the end of each tile, kept for the views that show numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from kernbench_nb.errors import grouped
from kernbench_nb.memory import Scope
from kernbench_nb.sim_engine.live import name_of_row
from kernbench_nb.sim_engine.trace import CLOSE, KIND, OPEN, OUT, STRIDE, Trace

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
        self._walks: dict[int, _Walk] = {}

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
        walk = self._walks.setdefault(id(trace), _Walk(trace))
        for row in walk.alive():
            kind = trace.kinds[trace.rows[row * STRIDE + KIND]]
            assert kind.ty is not None
            self.used += kind.ty.nbytes
            if self.used > self.limit:
                raise MemoryError(
                    f"record='tiles' would keep more than max_record_bytes={grouped(self.limit)} B at scope "
                    f"{scope.path!r} of PE {trace.pe}. Use fewer or smaller tiles, fewer PEs, or a "
                    "higher max_record_bytes."
                )
            array = np.array(tl.view_of(trace.rows[row * STRIDE + OUT], kind.ty))
            trace.values.append((scope.index, row, name_of_row(trace, row), array))


class _Walk:
    """What is alive on one PE, followed from one call to the next so that no row is looked at twice."""

    __slots__ = ("_arenas", "_next", "_trace")

    def __init__(self, trace: Trace) -> None:
        self._trace = trace  # kept, so that no other trace gets its id
        self._next = 0
        self._arenas: list[list[int]] = [[]]

    def alive(self) -> list[int]:
        """Allocating rows of the open arenas, from the persistent one inwards."""
        rows, kinds, arenas = self._trace.rows, self._trace.kinds, self._arenas
        for at in range(self._next, len(rows), STRIDE):
            kind = rows[at + KIND]
            if kind == OPEN:
                arenas.append([])
            elif kind == CLOSE:
                arenas.pop()
            elif kinds[kind].size or kinds[kind].op == "empty":
                arenas[-1].append(at // STRIDE)
        self._next = len(rows)
        return [row for arena in arenas for row in arena]
