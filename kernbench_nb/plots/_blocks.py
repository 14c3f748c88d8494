"""The blocks of one PE's scratch over time, as arrays, and how each is painted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kernbench_nb.plots._places import parts_of
from kernbench_nb.plots._theme import BARE, Paint, Theme, solid
from kernbench_nb.runtime_api.result import RunResult
from kernbench_nb.sim_engine.rows import Ints

__all__ = ["KEPT", "PERSISTENT", "SCOPED", "Blocks", "blocks_of", "families"]

PERSISTENT, KEPT, SCOPED = range(3)
"""Made outside any scope; made in a scope that gives nothing back (also the persistent arena); given back."""


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """Every allocation of one PE that takes bytes; all arrays have one entry a block, in order of row.

    Attributes
    ----------
    number
        Its number in ``run.memory_log``.
    start_ps, end_ps
        From when to when it held its bytes.
    addr, size
        Bytes from the start of the scratch, and bytes taken, alignment included.
    home
        `PERSISTENT`, `KEPT` or `SCOPED`.
    engine
        Index into `engines`.
    engines
        Names of engines.
    """

    number: Ints
    start_ps: Ints
    end_ps: Ints
    addr: Ints
    size: Ints
    home: Ints
    engine: Ints
    engines: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.number)


def blocks_of(run: RunResult, pe: int) -> Blocks:
    """The blocks of one PE, over all its kernels."""
    log = run.memory_log
    rows = log.rows
    number = np.flatnonzero((rows.pe[log.born] == pe) & (log.size > 0))
    born, dead = log.born[number], log.dead[number]
    parts = parts_of(rows, pe)
    stops = np.array([part.stop for part in parts], np.int64)
    ends = np.array([part.end_ps for part in parts], np.int64)
    part = np.searchsorted(stops, born, side="right")
    closed = dead < stops[part] if len(born) else np.zeros(0, np.bool_)
    when = np.append(rows.event_ps, 0)
    scope = rows.scopes
    inside = scope.parent[rows.scope[born]] >= 0
    scoped = scope.scoped[rows.scope[born]]
    engines = tuple(dict.fromkeys(kind.engine for kind in rows.kinds))
    code = rows.of_kinds(lambda kind: engines.index(kind.engine))
    return Blocks(
        number=number,
        start_ps=rows.event_ps[born],
        end_ps=np.where(closed, when[dead], ends[part] if len(born) else 0),
        addr=log.addr[number],
        size=log.size[number],
        home=np.where(scoped, SCOPED, np.where(inside, KEPT, PERSISTENT)),
        engine=code[rows.kind[born]],
        engines=engines,
    )


def families(blocks: Blocks, theme: Theme) -> Iterator[tuple[str, str, Paint, Ints]]:
    """The blocks that look alike: (name, engine, paint, which), persistent ones first."""
    which = np.flatnonzero(blocks.home == PERSISTENT)
    if len(which):
        yield "persistent", BARE, solid(theme.persistent, theme.face), which
    for home, name, paints in ((KEPT, "kept", theme.kept), (SCOPED, "scoped", theme.engines)):
        for engine in theme.engines:
            if engine in blocks.engines:
                code = blocks.engines.index(engine)
                which = np.flatnonzero((blocks.home == home) & (blocks.engine == code))
                if len(which):
                    yield f"{name} {engine}".strip(), engine, paints[engine], which
