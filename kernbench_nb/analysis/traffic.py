"""HBM traffic: who moved which bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from kernbench_nb.runtime_api.result import RunResult

__all__ = ["traffic"]

BY = {"tensor": ["tensor"], "pe": ["pe"], "tile": ["pe", "tile"]}


def traffic(run: RunResult, by: str = "tensor") -> pd.DataFrame:
    """HBM bytes and elements read and written.

    Parameters
    ----------
    run
        A run, in either mode.
    by
        ``"tensor"``, ``"pe"`` (the accessing PE, global index) or ``"tile"`` (the tile's scope on each PE; what lies
        outside every tile has no label).

    Returns
    -------
    pandas.DataFrame
        Indexed by what was asked for, in order of first access, with int64 columns ``read_bytes``, ``write_bytes``,
        ``bytes``, ``read_elements``, ``write_elements``, ``elements``.

    Raises
    ------
    ValueError
        For another `by`.
    """
    import pandas as pd

    if by not in BY:
        raise ValueError(f"traffic: by must be one of {', '.join(map(repr, BY))}, got {by!r}")
    frame = run.frame[run.frame["engine"] == "dma"]
    reads = (frame["op_name"] == "dma_read").to_numpy()
    out = pd.DataFrame({key: frame[key].astype(object if key != "pe" else "int64") for key in BY[by]})
    for what, column in (("bytes", "hbm_bytes"), ("elements", "elements")):
        moved = frame[column].to_numpy("int64")
        out[f"read_{what}"], out[f"write_{what}"] = moved * reads, moved * ~reads
        out[what] = moved
    order = ["read_bytes", "write_bytes", "bytes", "read_elements", "write_elements", "elements"]
    return out.groupby(BY[by], sort=False, dropna=False)[order].sum()
