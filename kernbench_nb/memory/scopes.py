"""Scopes: the save-points of the bump allocator.

Everything is allocated in the arena that is open at that moment: the persistent arena at the bottom, or the scoped
arena of the innermost open scope. Both are a `Scope`; leaving a scope rewinds the cursor to where it stood on entry.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from kernbench_nb.errors import ScopeOrderError

if TYPE_CHECKING:
    from kernbench_nb.memory.scratch import ScratchAllocator

__all__ = ["Scope", "new_scope"]

Range = tuple[int, int]


class Scope:
    """One arena: what it is called, where it began, how far it reached, whether it still owns its bytes.

    Made by `new_scope`, for `ScratchAllocator.scope` and `tl.scratch_scope`; used once, as a context manager.

    Attributes
    ----------
    label, kind
        What views call it; kinds used by the package are ``tile``, ``merge``, ``block``, ``finish`` and ``scope``.
    rows, keys
        Global query and key ranges ``(start, stop)`` that it handles, or None.
    rewind
        False for a scope that only marks a tile and gives nothing back.
    depth
        1 for an outermost scope; 0 is the persistent arena itself.
    save
        Address of the cursor on entry, the save-point.
    parent
        The arena around it; None for the persistent arena.
    guard
        Truthy while a handle of this arena needs a look before use: its bytes were given back, or some of them
        are not readable yet. It is the one flag that the hot path tests.
    """

    __slots__ = (
        "at",
        "chain",
        "depth",
        "guard",
        "index",
        "keys",
        "kind",
        "label",
        "marks",
        "parent",
        "pool",
        "reach",
        "rewind",
        "rows",
        "save",
        "state",
    )

    pool: ScratchAllocator
    label: str
    kind: str
    rows: Range | None
    keys: Range | None
    rewind: bool
    depth: int
    save: int
    reach: int  # highest address that the cursor reached while open
    parent: Scope | None
    marks: list[Scope] | None  # scopes with rewind=False whose handles live as long as this arena
    guard: bool
    state: str
    index: int  # position in the trace, set by whoever records
    chain: int  # where it was made: call chain and instruction, as in a row of the trace
    at: int

    def __enter__(self) -> Scope:
        pool = self.pool
        if self.state != "new":
            raise ScopeOrderError(
                f"scratch_scope {self.label!r} was entered twice. Make a new scope for each `with`; nothing changed."
            )
        self.parent = parent = pool.arena
        self.depth = parent.depth + 1
        self.save = self.reach = pool.top
        self.state = "open"
        pool.arena = self
        watcher = pool.watcher
        if watcher is not None:
            watcher.scope_opened(self)
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        pool = self.pool
        parent = self.parent
        if pool.arena is not self or parent is None:
            raise order_error(self, pool.arena)
        reach = pool.top
        if reach > self.reach:
            self.reach = reach
        else:
            reach = self.reach
        if reach > parent.reach:
            parent.reach = reach
        # whoever watches looks at the bytes while they are still there; what went wrong is raised when they are gone
        watcher = pool.watcher
        trouble = None if watcher is None else watcher.scope_closing(self, exc_type is not None)
        self.state = "closed"
        pool.arena = parent
        if self.rewind:
            pool.rewind(self.save)
            if pool.checks == "raise":
                self.guard = True
                if self.marks is not None:
                    for mark in self.marks:
                        mark.guard = True
        else:
            if parent.marks is None:
                parent.marks = []
            parent.marks += [self, *(self.marks or ())]
        if trouble is not None:
            raise trouble

    @property
    def savepoint(self) -> int:
        """Cursor on entry, in bytes from the start of the scratch."""
        return self.save - self.pool.base

    @property
    def peak(self) -> int:
        """Highest cursor while the scope was open, in bytes from the start of the scratch."""
        reach = self.reach
        if self.state == "open":
            # arenas that are open tell the ones around them how far they reached only when they end
            here = self.pool.arena.ancestry()
            reach = max(self.pool.top, *(s.reach for s in here[: here.index(self) + 1]))
        return reach - self.pool.base

    @property
    def path(self) -> str:
        """Labels from the outermost scope to this one; empty for the persistent arena."""
        return "/".join(s.label for s in reversed(list(self.ancestry())) if s.depth)

    @property
    def owner(self) -> Scope:
        """The arena whose rewind gives these bytes back: itself, or what surrounds a scope with rewind=False."""
        scope = self
        while not scope.rewind and scope.parent is not None:
            scope = scope.parent
        return scope

    @property
    def arena(self) -> str:
        """``"persistent"`` or ``"scoped"``: whether some scope's end gives these bytes back."""
        return "scoped" if self.owner.depth else "persistent"

    @property
    def dead(self) -> bool:
        """Whether the bytes were given back."""
        return self.owner.state == "closed"

    def ancestry(self) -> list[Scope]:
        """The arena itself and those around it, innermost first."""
        out: list[Scope] = []
        scope: Scope | None = self
        while scope is not None:
            out.append(scope)
            scope = scope.parent
        return out

    def __repr__(self) -> str:
        where = "persistent arena" if self is self.pool.root else f"scope {self.path or self.label!r}"
        return f"<{where}, {self.kind}, {self.state}>"


def new_scope(
    pool: ScratchAllocator,
    label: str | None = None,
    kind: str = "scope",
    rows: Range | None = None,
    keys: Range | None = None,
    rewind: bool = True,
) -> Scope:
    """A scope that is not entered yet. A function, since calling a class with `__init__` takes twice as long."""
    scope = Scope()
    scope.pool = pool
    scope.label = kind if label is None else label
    scope.kind = kind
    scope.rows = rows
    scope.keys = keys
    scope.rewind = rewind
    scope.depth = scope.save = scope.reach = 0
    scope.parent = scope.marks = None
    scope.guard = False
    scope.state = "new"
    scope.index = scope.chain = -1
    scope.at = 0
    return scope


def order_error(scope: Scope, innermost: Scope) -> ScopeOrderError:
    """Say which scope was left out of order, and what should have been left first."""
    if scope.state == "new":
        return ScopeOrderError(
            f"scratch_scope {scope.label!r} was left but never entered; use it in a `with`."
        )
    if scope.state == "closed":
        return ScopeOrderError(
            f"scratch_scope {scope.label!r} was left twice; its bytes were given back the first time. "
            "Nothing was freed. Make a new scope for each `with`."
        )
    inner = innermost.path if innermost.depth else "none"
    return ScopeOrderError(
        f"scratch_scope {scope.path!r} was left while {inner!r}, opened after it, is still open. Nothing was freed. "
        "Leave the innermost scope first (a generator that holds a scope open must be finished or closed before)."
    )
