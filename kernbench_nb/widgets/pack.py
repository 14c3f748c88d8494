"""Columns of numbers in one buffer, and back: the lowest layer of the trace format (see the room's README)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["TYPES", "Packer", "unpack"]

Array = npt.NDArray[Any]
Tables = dict[str, Any]

TYPES = {t: np.dtype(f"<{t}") for t in ("u1", "i1", "u2", "i2", "u4", "i4", "f2", "f4", "f8")}
"""Types of a column, all little-endian."""

_UNSIGNED, _SIGNED = ("u1", "u2", "u4"), ("i1", "i2", "i4")
_EXACT = 2**53


class Packer:
    """Collects tables and lays their columns into one buffer, each at a multiple of 8 bytes.

    Attributes
    ----------
    tables
        What the head says about them.
    """

    def __init__(self) -> None:
        self.tables: Tables = {}
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, name: str, rows: int, columns: Mapping[str, Array]) -> None:
        """Add a table.

        Parameters
        ----------
        name
            What it is called.
        rows
            How many; every column has so many entries.
        columns
            Whole numbers take the smallest type that holds them, or their differences do; floats keep their type.

        Raises
        ------
        ValueError
            If a column has another length, or a number beyond 2**53, where a double is no longer exact.
        """
        described = {}
        for column, values in columns.items():
            if len(values) != rows:
                raise ValueError(f"column {name}.{column} has {len(values)} entries, and the table {rows}")
            described[column] = self._column(f"{name}.{column}", values)
        self.tables[name] = {"n": rows, "cols": described}

    def buffer(self) -> bytes:
        """All columns."""
        return b"".join(self._parts)

    def _column(self, name: str, values: Array) -> dict[str, Any]:
        if values.dtype.kind == "f":
            kind = f"f{values.dtype.itemsize}"
            return self._put(kind, values)
        if values.dtype.kind == "b":
            return self._put("u1", values)
        if not len(values):
            return self._put("u1", values)
        low, high = int(values.min()), int(values.max())
        if max(-low, high) > _EXACT:
            raise ValueError(
                f"column {name} holds {max(low, high, key=abs)}, and the page counts exactly to 2**53 only"
            )
        plain = _smallest(low, high)
        if TYPES[plain].itemsize > 1:
            steps = np.diff(values, prepend=0)
            kind = _smallest(int(steps.min()), int(steps.max()))
            if TYPES[kind].itemsize < TYPES[plain].itemsize:
                return {**self._put(kind, steps), "d": 1}
        return self._put(plain, values)

    def _put(self, kind: str, values: Array) -> dict[str, Any]:
        at = self._size
        data = np.ascontiguousarray(values, TYPES[kind]).tobytes()
        padding = -len(data) % 8
        self._parts.append(data)
        if padding:
            self._parts.append(bytes(padding))
        self._size = at + len(data) + padding
        return {"t": kind, "o": at}


def _smallest(low: int, high: int) -> str:
    for kind in _UNSIGNED if low >= 0 else _SIGNED:
        info = np.iinfo(TYPES[kind])
        if info.min <= low and high <= info.max:
            return kind
    return "f8"


def unpack(tables: Tables, buffer: bytes) -> dict[str, dict[str, Array]]:
    """The columns of every table, differences summed up; whole numbers as int64."""
    found: dict[str, dict[str, Array]] = {}
    for name, table in tables.items():
        columns = found[name] = {}
        for column, at in table["cols"].items():
            values: Array = np.frombuffer(buffer, TYPES[at["t"]], table["n"], at["o"])
            if at.get("d"):
                values = np.cumsum(values, dtype=np.float64 if at["t"] == "f8" else np.int64)
            # a column of type f8 holds whole numbers too large for u4
            columns[column] = values if at["t"] in ("f2", "f4") else values.astype(np.int64)
    return found
