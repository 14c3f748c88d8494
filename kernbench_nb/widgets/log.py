"""`kb.show_log`: the operation log in the page, filtered, sorted and grouped."""

from __future__ import annotations

from kernbench_nb.runtime_api.asked import check_run
from kernbench_nb.runtime_api.result import RunResult
from kernbench_nb.widgets.base import View
from kernbench_nb.widgets.fallback import draw_log
from kernbench_nb.widgets.notebook import traitlets
from kernbench_nb.widgets.opening import open_at

__all__ = ["GROUPS", "Log", "show_log"]

GROUPS = ("op", "engine", "pe", "tile")


class Log(View):
    """The operation log; see `View` for its traits.

    Attributes
    ----------
    group
        What the bars are by: ``"op"``, ``"engine"``, ``"pe"`` or ``"tile"``.
    query
        Text that rows are filtered by.
    """

    group = traitlets.Enum(GROUPS, "op").tag(sync=True)
    query = traitlets.Unicode("").tag(sync=True)

    _entry = "log"

    def _words(self) -> str:
        if self._data is None:
            return "closed"
        operations = self.run.op_log if self.run is not None else ()
        return f"{self._data.head['title']}, {len(operations)} operations by {self.group}"

    def _draw(self) -> str:
        return "" if self._data is None else draw_log(self._data, self.group)


def show_log(run: RunResult, *, by: str = "op", pe: int | None = None, query: str = "") -> Log:
    """Show the operation log: bars by what it is grouped by, and the rows.

    Rows that are brushed are the view's `selection`; ``jslink((log, "selection"), (stepper, "selection"))`` marks them
    in a stepper.

    Parameters
    ----------
    run
        Any result.
    by
        ``"op"``, ``"engine"``, ``"pe"`` or ``"tile"``.
    pe
        Only this one's, by its global index.
    query
        Text to filter by.

    Raises
    ------
    TypeError
        If it is no run.
    ValueError
        If there is no such group or PE.
    """
    check_run(run, "kb.show_log")
    if by not in GROUPS:
        raise ValueError(f"a log is grouped by one of {', '.join(GROUPS)}, got by={by!r}")
    data, spot = open_at(run, pe)
    label = next((p["label"] for p in data.pes if p["pe"] == pe), "")
    return Log(run, data, pe=spot.pe, step=spot.step, group=by, query=" ".join(filter(None, (label, query))))
