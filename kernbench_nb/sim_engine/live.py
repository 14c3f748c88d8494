"""Who is live right now on one PE: the allocator's rows replayed, for errors that happen in the middle of a kernel.

A finished run is looked at through `rows` and the frames instead; this walks a single trace without numpy, only when
an error has to name a tile, its maker or the new owner of its bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

from kernbench_nb.memory import Block
from kernbench_nb.sim_engine.source import Place, place_of, variable_of
from kernbench_nb.sim_engine.trace import AT, CHAIN, CLOSE, KIND, NAME, OPEN, OUT, STRIDE, A, Trace

__all__ = ["find_allocation", "find_closing", "live_now", "name_of_row", "place_of_row"]


def _allocations(trace: Trace) -> Iterator[tuple[int, int, bool]]:
    """Allocating rows and closings in order: (row, scope index, whether it is a closing)."""
    stack = [0]
    rows, kinds = trace.rows, trace.kinds
    for at in range(0, len(rows), STRIDE):
        kind = rows[at + KIND]
        if kind == OPEN:
            stack.append(rows[at + A])
        elif kind == CLOSE:
            stack.pop()
            yield at // STRIDE, rows[at + A], True
        elif kinds[kind].size or kinds[kind].op == "empty":
            yield at // STRIDE, stack[-1], False


def find_allocation(trace: Trace, addr: int, scope: int) -> int | None:
    """The row that allocated the bytes at `addr` in the arena with that index, or None.

    Within one arena the cursor only rises, so the address says which allocation it was; a view lies inside it. A tile
    of no bytes stands where the next one begins, and is not found.
    """
    for row, index, closing in _allocations(trace):
        if not closing and index == scope:
            start = trace.rows[row * STRIDE + OUT]
            size = trace.kinds[trace.rows[row * STRIDE + KIND]].size
            if start <= addr < start + size:
                return row
    return None


def find_closing(trace: Trace, scope: int) -> int | None:
    """The row that closed the scope with that index, or None while it is open."""
    return next((row for row, index, closing in _allocations(trace) if closing and index == scope), None)


def live_now(trace: Trace) -> list[Block]:
    """All blocks that are not given back, in order of address."""
    live: list[tuple[int, int]] = []
    for row, index, closing in _allocations(trace):
        if not closing:
            live.append((row, index))
        elif trace.scopes[index].rewind:
            # a rewind gives back everything from the save-point on
            save = trace.scopes[index].save
            live = [(r, i) for r, i in live if trace.rows[r * STRIDE + OUT] < save]
    blocks = []
    for row, index in live:
        kind, scope = trace.kinds[trace.rows[row * STRIDE + KIND]], trace.scopes[index]
        place = place_of_row(trace, row)
        line = _line(place) if place else ""
        name = name_of_row(trace, row)
        blocks.append(
            Block(
                trace.rows[row * STRIDE + OUT], kind.size, name, repr(kind.ty), scope.arena, scope.path, line
            )
        )  # fmt: skip
    return blocks


def _line(place: Place) -> str:
    text = place.text or ""
    return f"{place.function}:{place.line}" + (
        f"  {text[:57]}..." if len(text) > 60 else f"  {text}" if text else ""
    )


def name_of_row(trace: Trace, row: int) -> str:
    """The name given to a row's result, or else the variable that it was assigned to, or an empty text."""
    given = trace.rows[row * STRIDE + NAME]
    if given:
        return str(given)
    chain = trace.rows[row * STRIDE + CHAIN]
    if chain < 0:
        return ""
    return variable_of(trace.chains[chain][0], trace.rows[row * STRIDE + AT]) or ""


def place_of_row(trace: Trace, row: int) -> Place | None:
    """Where in the source a row comes from."""
    chain = trace.rows[row * STRIDE + CHAIN]
    return place_of(trace.chains[chain], trace.rows[row * STRIDE + AT]) if chain >= 0 else None
