"""What every frame of this room shares: whose run, which rows of a PE, how an index is made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernbench_nb.sim_engine.rows import Ints, Part, Rows

__all__ = ["category", "parts_by_pe", "pe_index", "rows_of"]


def parts_by_pe(rows: Rows) -> dict[int, list[Part]]:
    """The kernels that ran on each PE, in order."""
    found: dict[int, list[Part]] = {}
    for part in rows.parts:
        found.setdefault(part.pe, []).append(part)
    return dict(sorted(found.items()))


def rows_of(parts: Sequence[Part]) -> Ints:
    """Numbers of the rows of several parts."""
    return np.concatenate([np.zeros(0, np.int64), *(np.arange(p.first, p.stop) for p in parts)])


def category(texts: Sequence[str], known: Sequence[str]) -> Any:
    """Texts as an ordered category of all that there can be, so that a table has the same dtype whatever it holds."""
    import pandas as pd

    dtype = pd.CategoricalDtype(pd.Index(list(known), dtype=object), ordered=True)
    return pd.Categorical(list(texts), dtype=dtype)


def pe_index(pes: Sequence[int], texts: Sequence[str], known: Sequence[str], name: str) -> Any:
    """An index ``(pe, name)``: PEs as int64, the other level a category.

    Parameters
    ----------
    pes
        One an entry.
    texts, known
        The other level, one an entry, and all that it can be.
    name
        Of the other level.
    """
    import pandas as pd

    return pd.MultiIndex.from_arrays([np.array(pes, np.int64), category(texts, known)], names=["pe", name])
