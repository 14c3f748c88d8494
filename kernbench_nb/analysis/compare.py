"""Two runs side by side, in the numbers that people choose by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kernbench_nb.analysis.traffic import traffic
from kernbench_nb.runtime_api.asked import check_run

if TYPE_CHECKING:
    import pandas as pd

    from kernbench_nb.runtime_api.result import RunResult

__all__ = ["compare"]


def compare(a: RunResult, b: RunResult, names: Sequence[str] = ("a", "b")) -> pd.DataFrame:
    """The important numbers of two runs, their difference and their ratio.

    Parameters
    ----------
    a, b
        The runs; `a` is what one starts from.
    names
        What their columns are called.

    Returns
    -------
    pandas.DataFrame
        Indexed by ``quantity``: makespan_ps, peak_scratch, persistent_bytes, hbm_bytes, read_bytes, write_bytes, flops,
        intensity, ops, tiles, pes, the busy shares of the four engines, macs_used, and bound. Columns: ``unit``; one
        for each run and ``difference`` (b - a), objects, so that ints stay ints; ``ratio`` (b / a, float64: 0.5 is
        half of `a`, NaN where that is no number). Of ``bound``, a word, difference is empty.

    Raises
    ------
    ValueError
        If `names` are not two different names.
    """
    import pandas as pd

    check_run(a, "kb.analysis.compare")
    check_run(b, "kb.analysis.compare")
    reserved = ("unit", "difference", "ratio")
    if isinstance(names, str) or len(names) != 2 or names[0] == names[1] or set(names) & set(reserved):
        raise ValueError(
            f"compare: names must be two different texts other than {', '.join(reserved)}, got {names!r}"
        )
    left, right = _numbers(a), _numbers(b)
    units = [unit for _, unit in left.values()]
    values = [[value for value, _ in table.values()] for table in (left, right)]
    difference: list[Any] = []
    ratio: list[float] = []
    for x, y in zip(*values, strict=True):
        is_number = not isinstance(x, str)
        difference.append(y - x if is_number and x != y else type(x)(0) if is_number else "")
        ratio.append(_ratio(x, y) if is_number else float("nan"))
    columns = {
        "unit": pd.Series(units, dtype=object),
        names[0]: pd.Series(values[0], dtype=object),
        names[1]: pd.Series(values[1], dtype=object),
        "difference": pd.Series(difference, dtype=object),
        "ratio": pd.Series(ratio, dtype="float64"),
    }
    return pd.DataFrame(columns).set_index(pd.Index(list(left), dtype=object, name="quantity"))


def _numbers(run: RunResult) -> dict[str, tuple[Any, str]]:
    moved = traffic(run)
    busy = run.busy
    return {
        "makespan_ps": (run.makespan_ps, "ps"),
        "peak_scratch": (run.peak_scratch, "B"),
        "persistent_bytes": (run.persistent_bytes, "B"),
        "hbm_bytes": (run.hbm_bytes, "B"),
        "read_bytes": (int(moved["read_bytes"].sum()), "B"),
        "write_bytes": (int(moved["write_bytes"].sum()), "B"),
        "flops": (run.flops, "FLOP"),
        "intensity": (run.roofline.intensity, "FLOP/B"),
        "ops": (len(run.op_log), ""),
        "tiles": (len(run.tile_log), ""),
        "pes": (len(run.pes), ""),
        **{f"{engine}_busy": (share, "of the makespan") for engine, share in busy.items()},
        "macs_used": (run.mac_utilisation, "of the MACs"),
        "bound": (run.bound, ""),
    }


def _ratio(x: float, y: float) -> float:
    if x == y and x:
        return 1.0  # also of two infinite intensities
    return y / x if x else float("nan")
