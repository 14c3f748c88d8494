"""Rows that stand for themselves: what a log keeps when it goes to another process.

A run's rows point to the code objects of the kernel, to numpy closures and to the allocators that made the scopes.
None of that can leave the process, and no view needs it: lines are looked up here, once, and kinds and scopes keep what
they say.
"""

from __future__ import annotations

import copy
import pickle
from dataclasses import dataclass, replace
from typing import Any

from kernbench_nb.errors import KernbenchError
from kernbench_nb.sim_engine.rows import Rows, ScopeLike
from kernbench_nb.sim_engine.trace import Kind

__all__ = ["portable", "portable_error", "portable_value"]

Range = tuple[int, int]


@dataclass(slots=True)
class _Said:
    """What a scope says, without the allocator behind it."""

    label: str
    kind: str
    save: int
    rewind: bool
    rows: Range | None
    keys: Range | None


def portable(rows: Rows) -> Rows:
    """The same rows, with nothing in them that cannot be pickled."""
    scopes = replace(rows.scopes, scopes=[_said(scope) for scope in rows.scopes.scopes])
    return replace(
        rows,
        kinds=tuple(_without_numpy(kind) for kind in rows.kinds),
        places=list(rows.places),
        scopes=scopes,
    )


def _said(scope: ScopeLike) -> _Said:
    return _Said(scope.label, scope.kind, scope.save, scope.rewind, scope.rows, scope.keys)


def _without_numpy(kind: Kind) -> Kind:
    out = copy.copy(kind)
    out.run = None
    return out


def portable_value(value: Any) -> Any:
    """A parameter as it is if it can be pickled and read again, else what it looks like as text."""
    return value if _survives(value) else repr(value)


def portable_error(error: BaseException | None) -> BaseException | None:
    """What a kernel raised, or an error with its type's name, its text and its notes in its place."""
    if error is None or isinstance(error, KernbenchError):
        return error
    try:
        said = {name: value for name, value in vars(error).items() if name != "run"}
        pickle.loads(pickle.dumps((type(error), error.args, said)))
        type(error)(*error.args)
    except Exception:
        stand_in = KernbenchError(f"{type(error).__name__}: {error}")
        for note in getattr(error, "__notes__", ()):
            stand_in.add_note(note)
        return stand_in
    return error


def _survives(value: Any) -> bool:
    try:
        pickle.loads(pickle.dumps(value))
    except Exception:
        return False
    return True
