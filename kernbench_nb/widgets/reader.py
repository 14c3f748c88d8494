"""A trace as Python reads it: for places named by meaning, still pictures and tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from kernbench_nb.sim_engine.rows import Ints
from kernbench_nb.widgets.pack import unpack

__all__ = ["SCHEMA", "VERSION", "Trace", "decode"]

SCHEMA, VERSION = "kernbench-trace", 1

Columns = dict[str, npt.NDArray[Any]]


def decode(head: Mapping[str, Any], buffer: bytes) -> dict[str, Columns]:
    """The tables of a trace as numpy columns, whole numbers as int64.

    Raises
    ------
    ValueError
        If it is another format, or another version of this one.
    """
    found = head.get("schema"), head.get("version")
    if found != (SCHEMA, VERSION):
        raise ValueError(
            f"this is trace format {found[0]!r}, version {found[1]!r}; {SCHEMA!r}, version {VERSION} was expected"
        )
    return unpack(head["tables"], buffer)


@dataclass(frozen=True, eq=False)
class Trace:
    """A head, a buffer, and their tables.

    Attributes
    ----------
    head, buffer
        See the room's README.
    """

    head: dict[str, Any]
    buffer: bytes

    @cached_property
    def tables(self) -> dict[str, Columns]:
        """Columns by table and name."""
        return decode(self.head, self.buffer)

    @property
    def ops(self) -> Columns:
        """The table ``ops``."""
        return self.tables["ops"]

    @property
    def allocs(self) -> Columns:
        """The table ``allocs``."""
        return self.tables["allocs"]

    @property
    def tiles(self) -> Columns:
        """The table ``tiles``."""
        return self.tables["tiles"]

    @property
    def pes(self) -> list[dict[str, Any]]:
        """What the head says about each PE."""
        found: list[dict[str, Any]] = self.head["pes"]
        return found

    def text(self, number: int) -> str:
        """A text by its number."""
        found: str = self.head["strings"][number]
        return found

    def number(self, text: str) -> int:
        """The number of a text, -1 if there is none."""
        return self._numbers.get(text, -1)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {text: number for number, text in enumerate(self.head["strings"])}

    def index_of(self, pe: int) -> int | None:
        """A PE's place in the head, by its global index."""
        return next((i for i, p in enumerate(self.pes) if p["pe"] == pe), None)

    def tiles_of(self, index: int, *kinds: str) -> Ints:
        """Tiles of a PE that have rows, in order; of the given kinds, if any are given."""
        c = self.tiles
        own = (c["pe"] == index) & (c["op0"] >= 0)
        if kinds:
            own &= np.isin(c["kind"], [self.number(k) for k in kinds])
        return np.flatnonzero(own)

    def live(self, row: int) -> Ints:
        """Blocks that hold bytes after a row, by address."""
        a = self.allocs
        part = self.tables["scopes"]["part"][self.ops["scope"][row]]
        alive = np.flatnonzero((a["part"] == part) & (a["born"] <= row) & (a["dead"] > row))
        return alive[np.argsort(a["addr"][alive], kind="stable")]
