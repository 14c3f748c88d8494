"""HBM traffic: who moved which bytes, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kernbench_nb.analysis._common import category
from kernbench_nb.runtime_api.asked import check_run
from kernbench_nb.sim_engine.rows import Ints

if TYPE_CHECKING:
    import pandas as pd

    from kernbench_nb.runtime_api.result import RunResult

__all__ = ["REASONS", "reasons", "traffic"]

BY = {"tensor": ["tensor"], "pe": ["pe"], "tile": ["pe", "tile"], "reason": ["reason"]}

REASONS = ("news", "again", "notes")
"""Why a byte crosses HBM; see `traffic`."""


def traffic(run: RunResult, by: str = "tensor") -> pd.DataFrame:
    """HBM bytes and elements read and written.

    Parameters
    ----------
    run
        A run, in either mode.
    by
        ``"tensor"``, ``"pe"`` (the accessing PE, global index), ``"tile"`` (the tile's scope on each PE; what lies
        outside every tile has no label), or ``"reason"``:

        ``news``
            Came in for the first time, or went out for good: the least that a kernel of these tiles can move.
        ``again``
            Came in once more, or went out only to be written over.
        ``notes``
            Written by this kernel and read back by it: what it could not keep.

        An access is known by its PE, its tensor and its first element; one that begins elsewhere is another one, so a
        kernel that writes by 64 rows and reads back by 128 takes half of its notes for news.

    Returns
    -------
    pandas.DataFrame
        Indexed by what was asked for, in order of first access (reasons in the order above, all three), with int64
        columns ``read_bytes``, ``write_bytes``, ``bytes``, ``read_elements``, ``write_elements``, ``elements``.

    Raises
    ------
    ValueError
        For another `by`.
    """
    import pandas as pd

    if by not in BY:
        raise ValueError(f"traffic: by must be one of {', '.join(map(repr, BY))}, got {by!r}")
    check_run(run, "kb.analysis.traffic")
    frame = run.frame[run.frame["engine"] == "dma"]
    reads = (frame["op_name"] == "dma_read").to_numpy()
    keys: dict[str, Any]
    if by == "reason":
        keys = {"reason": category([REASONS[code] for code in reasons(run).tolist()], REASONS)}
    else:
        keys = {key: frame[key].astype(object if key != "pe" else "int64") for key in BY[by]}
    out = pd.DataFrame(keys, index=frame.index)
    for what, column in (("bytes", "hbm_bytes"), ("elements", "elements")):
        moved = frame[column].to_numpy("int64")
        out[f"read_{what}"], out[f"write_{what}"] = moved * reads, moved * ~reads
        out[what] = moved
    order = ["read_bytes", "write_bytes", "bytes", "read_elements", "write_elements", "elements"]
    # reasons are few and known: all of them, in their order, also of a run that moved nothing
    whole = by == "reason"
    table = out.groupby(BY[by], sort=whole, dropna=False, observed=not whole)[order].sum()
    # pandas guesses a dtype for labels, another one when there are none
    if by == "tensor":
        table.index = table.index.astype(object)
    elif by == "tile":
        tiles = table.index.get_level_values("tile").astype(object)
        table.index = pd.MultiIndex.from_arrays([table.index.get_level_values("pe"), tiles])
    return table


def reasons(run: RunResult) -> Ints:
    """Why each HBM access of the log crossed, as an index into `REASONS`, in the order of the log.

    In the order in which a PE issued them, accesses of one key, (PE, tensor, first element), follow each other: a read
    with a write before it is a note, the first of the others is news, the rest comes again; a write is a note if a
    read follows, is in vain (``again``) if a write follows, and is news if nothing does.
    """
    columns = run.op_log.columns
    names = run.op_log.categories
    dma = [i for i, engine in enumerate(names["engine"]) if engine == "dma"]
    at = np.flatnonzero(np.isin(columns["engine"], dma))
    writes = np.array([op == "dma_write" for op in names["op_name"]] or [False])[columns["op_name"][at]]
    keys = np.stack([columns[name][at].astype(np.int64) for name in ("pe", "tensor", "offset")])
    # by key, and within one in order of issue
    order = np.lexsort((columns["row"][at], *keys))
    key, wrote = keys[:, order], writes[order]
    if not len(order):
        return np.zeros(0, np.int64)
    starts = np.append(True, (key[:, 1:] != key[:, :-1]).any(axis=0))
    ends = np.append(starts[1:], True)
    written = np.cumsum(wrote) - wrote
    written -= np.maximum.accumulate(np.where(starts, written, 0))
    then_written = np.append(wrote[1:], False)
    news, again, notes = range(3)
    found = np.empty(len(order), np.int64)
    found[order] = np.where(
        wrote,
        np.where(ends, news, np.where(then_written, again, notes)),
        np.where(written > 0, notes, np.where(starts, news, again)),
    )
    return found
