"""The scratch of one PE: a linear bump cursor with scopes (ADR-0063).

To allocate, return the cursor and add the size; to free, set it back. Start and size are rounded up to the request's
alignment, 16 bytes by default. Addresses are absolute: the scratch covers ``[base, base + capacity)``.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from kernbench_nb.errors import ScratchOverflowError, grouped
from kernbench_nb.memory.layout import ALIGN, round_up
from kernbench_nb.memory.scopes import Range, Scope, new_scope

__all__ = ["Block", "ScopeWatcher", "ScratchAllocator"]

_LINES = 40  # of a breakdown; a fold without scopes takes 23 or so
CHECKS = ("raise", "poison", "off")


@dataclass(frozen=True, slots=True)
class Block:
    """One live allocation, as a report shows it.

    Attributes
    ----------
    addr, nbytes
        Where it lies, and how many bytes were asked for.
    name, what
        Its name and its type, such as ``f32[8x64]``.
    arena
        ``"persistent"`` or ``"scoped"``; `scope` is the path of the scope that it was made in.
    line
        The kernel line that made it, or an empty text.
    """

    addr: int
    nbytes: int
    name: str = ""
    what: str = ""
    arena: str = "persistent"
    scope: str = ""
    line: str = ""

    def __str__(self) -> str:
        where = f"{self.arena} arena" + (f" {self.scope!r}" if self.scope else "")
        parts = [f"{grouped(self.nbytes):>15} B", self.name or "(no name)", self.what, where, self.line]
        return "  ".join(p for p in parts if p)


def _whole(what: str, value: object) -> int:
    if not isinstance(value, bool):
        try:
            return operator.index(value)  # type: ignore[arg-type]
        except TypeError:
            pass
    raise TypeError(f"scratch {what} must be a whole number of bytes, got {value!r}")


def _alike(blocks: list[Block]) -> list[str]:
    """One line for each block, or for several that one line of one kernel made in one arena after the other."""
    groups: dict[tuple[object, ...], list[Block]] = {}
    for b in blocks:
        groups.setdefault((b.nbytes, b.name, b.what, b.arena, b.line), []).append(b)
    lines = []
    for same in groups.values():
        first, last = same[0], same[-1]
        if len(same) == 1:
            lines.append(str(first))
            continue
        scopes = (
            f" {first.scope!r} to {last.scope!r}"
            if first.scope != last.scope
            else f" {first.scope!r}".rstrip("' ")
        )
        total = f"{len(same)} x {grouped(first.nbytes)} B"
        parts = [
            f"{total:>17}",
            first.name or "(no name)",
            first.what,
            f"{first.arena} arena{scopes}",
            first.line,
        ]
        lines.append("  ".join(p for p in parts if p))
    return lines


class ScopeWatcher(Protocol):
    """Who is told when scopes open and close: the recorder, the poisoner, the checks."""

    def scope_opened(self, scope: Scope) -> None:
        """Called after the save-point was taken."""

    def scope_closing(self, scope: Scope, failing: bool) -> Exception | None:
        """Called before the rewind; `failing` if an exception is in flight. What it returns is raised after it."""


class ScratchAllocator:
    """A bump allocator over `capacity` bytes, with a persistent arena and scopes.

    Parameters
    ----------
    capacity
        Bytes, a multiple of 16.
    base
        Address of the first byte, a multiple of 16.
    checks
        ``"raise"``, ``"poison"`` or ``"off"``: at ``"raise"`` a closed scope guards its handles.
    watcher
        Is told about scopes; see `ScopeWatcher`.
    live
        Gives the live blocks for an overflow's report; by default those that `alloc` returned.

    Attributes
    ----------
    top
        The cursor as an address.
    fast_top
        End of the scratch while `top` is a multiple of 16, else -1: an allocation that only adds a rounded size may
        be written out in place when its end is not above it (the language does, since a call costs more than that).
    arena
        The innermost open scope, or the persistent arena.
    """

    __slots__ = (
        "_live",
        "_own",
        "arena",
        "base",
        "capacity",
        "checks",
        "end",
        "fast_top",
        "root",
        "top",
        "watcher",
    )

    def __init__(
        self,
        capacity: int = 1 << 20,
        *,
        base: int = 0,
        checks: str = "raise",
        watcher: ScopeWatcher | None = None,
        live: Callable[[], Iterable[Block]] | None = None,
    ) -> None:
        if capacity < 0 or capacity % ALIGN or base < 0 or base % ALIGN:
            raise ValueError(
                f"capacity and base must be multiples of {ALIGN} and not negative, got {capacity}, {base}"
            )
        if checks not in CHECKS:
            raise ValueError(f"scratch_checks must be one of {', '.join(CHECKS)}, got {checks!r}")
        self.base = base
        self.capacity = capacity
        self.end = base + capacity
        self.top = base
        self.fast_top = self.end
        self.checks = checks
        self.root = new_scope(self, "", "persistent")
        self.root.state = "open"
        self.root.save = self.root.reach = base
        self.arena = self.root
        self.watcher = watcher
        self._own: list[Block] = []
        self._live = live or self._own_blocks

    def __repr__(self) -> str:
        return (
            f"<scratch of {self.capacity} B: {self.cursor} B in use, high-water {self.high_water} B, "
            f"{self.depth} open scope{'' if self.depth == 1 else 's'}>"
        )

    # -- asking ------------------------------------------------------------------------------------------------

    @property
    def cursor(self) -> int:
        """Bytes in use, alignment gaps included."""
        return self.top - self.base

    used = cursor

    @property
    def free(self) -> int:
        """Bytes between the cursor and the end."""
        return self.end - self.top

    @property
    def depth(self) -> int:
        """How many scopes are open."""
        return self.arena.depth

    @property
    def high_water(self) -> int:
        """Highest cursor ever reached, in bytes."""
        # between two rewinds the cursor only rises, so looking at each rewind and now is enough
        return max(self.top, *(s.reach for s in self.arena.ancestry())) - self.base

    # -- allocating --------------------------------------------------------------------------------------------

    def alloc(
        self, nbytes: int, *, align: int = ALIGN, name: str | None = None, what: str = "", rows: int = 0
    ) -> int:
        """Take `nbytes` and return their address.

        A request of zero bytes is granted and moves nothing. An exact fit to the last byte is granted.

        Parameters
        ----------
        nbytes
            Bytes wanted, not negative.
        align
            A power of two; start and size are rounded up to it.
        name, what, rows
            For reports: the handle's name, its type, and its leading dimension.

        Raises
        ------
        ValueError
            If `nbytes` is negative or `align` is not a power of two.
        TypeError
            If one of them is no whole number.
        ScratchOverflowError
            If it does not fit; the cursor is then where it was.
        """
        nbytes, align = _whole("size", nbytes), _whole("alignment", align)
        if nbytes < 0:
            raise ValueError(f"scratch request of {nbytes} bytes: a size cannot be negative")
        if align <= 0 or align & (align - 1):
            raise ValueError(f"scratch alignment must be a power of two, got {align}")
        if nbytes == 0:
            return self.top
        # offsets, not addresses, are aligned beyond what the base is
        start = self.base + round_up(self.top - self.base, align)
        stop = start + round_up(nbytes, align)
        if stop > self.end:
            raise self._overflow(nbytes, align, start, stop, name, what, rows)
        self._move(stop)
        self._own.append(Block(start, nbytes, name or "", what, self.arena.arena, self.arena.path))
        return start

    def _move(self, top: int) -> None:
        self.top = top
        self.fast_top = -1 if top % ALIGN else self.end

    def rewind(self, top: int) -> None:
        """Set the cursor back to a save-point (an address); only a scope that ends does this."""
        self.top = top
        self.fast_top = self.end if top % ALIGN == 0 else -1
        own = self._own
        while own and own[-1].addr >= top:
            own.pop()

    def retire(self) -> None:
        """Forget whoever watches: the kernel has ended, and its scopes stay for those who read the run."""
        self.watcher = None
        self._live = list

    def _own_blocks(self) -> list[Block]:
        return self._own

    def _overflow(
        self, nbytes: int, align: int, start: int, stop: int, name: str | None, what: str, rows: int
    ) -> ScratchOverflowError:
        blocks = sorted(self._live(), key=lambda b: (-b.nbytes, b.addr))
        wanted = f"{name or 'a request'}{f' {what}' if what else ''} wants {grouped(nbytes)} B"
        gap = start - self.top
        if gap:
            left = max(self.end - start, 0)
            wanted += (
                f" aligned to {align} (aligned start {grouped(start - self.base)}, {grouped(left)} B left)"
            )
        lines = [
            f"TLContext scratch overflow: {wanted}, {grouped(self.free)} B free of {grouped(self.capacity)} B."
        ]
        if blocks:
            lines.append(f"Live now, largest first ({len(blocks)} in all, {grouped(self.cursor)} B in use):")
            groups = _alike(blocks)
            lines += [f"  {line}" for line in groups[:_LINES]]
            if len(groups) > _LINES:
                lines.append(f"  ... and {len(groups) - _LINES} kinds more")
        lines.append(self._advice(nbytes, align, rows, blocks))
        return ScratchOverflowError(
            "\n".join(lines), required=stop - self.base, limit=self.capacity, wanted=nbytes, free=self.free
        )

    def _advice(self, nbytes: int, align: int, rows: int, blocks: list[Block]) -> str:
        fits = max(self.end - self.base - round_up(self.cursor, align), 0) & -align
        smaller = f"ask for at most {grouped(fits)} B" if fits else ""
        if rows > 1 and (whole := fits // (nbytes // rows)):
            smaller += f" ({whole} of its {rows} rows)"
        instead = f"; or {smaller}" if smaller else ""
        if nbytes > self.capacity:
            smaller = f"; {smaller}" if smaller else ""
            return f"It is larger than the whole scratch: use smaller tiles{smaller}."
        given = self.arena.owner.depth or any(b.arena == "scoped" for b in blocks)
        if not given:
            return (
                "Nothing was given back so far: open a tl.scratch_scope() around the tile, so that its temporaries "
                f"go when it ends, and tl.copy_to what must survive into handles made before it{instead}."
            )
        return f"Use a smaller tile, or close scopes whose tiles are done before this request{instead}."

    # -- scopes ------------------------------------------------------------------------------------------------

    def scope(
        self,
        label: str | None = None,
        *,
        kind: str = "scope",
        rows: Range | None = None,
        keys: Range | None = None,
        rewind: bool = True,
    ) -> Scope:
        """Make a scope, to be entered with `with`; see `Scope`."""
        return new_scope(self, label, kind, rows, keys, rewind)
