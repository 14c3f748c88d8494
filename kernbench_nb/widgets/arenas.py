"""`kb.show_arenas`: the scratch of a run over time."""

from __future__ import annotations

from kernbench_nb.runtime_api.asked import check_run
from kernbench_nb.runtime_api.result import RunResult
from kernbench_nb.widgets.base import View
from kernbench_nb.widgets.fallback import draw_arenas
from kernbench_nb.widgets.opening import open_at

__all__ = ["Arenas", "show_arenas"]


class Arenas(View):
    """The arena of a PE over operations and addresses; see `View` for its traits."""

    _entry = "arenas"

    def _words(self) -> str:
        if self._data is None:
            return "closed"
        head = self._data.head
        pe = next((p["label"] for p in head["pes"] if p["pe"] == self.pe), "no PE")
        return f"{head['title']}, scratch of {pe}, step {self.step + 1} of {self.steps}"

    def _draw(self) -> str:
        return "" if self._data is None else draw_arenas(self._data, self.pe, self.step)


def show_arenas(
    run: RunResult, *, pe: int | None = None, tile: str | None = None, at: str | None = None
) -> Arenas:
    """Show what lies where in scratch, over the whole run; a click goes to an operation.

    Parameters
    ----------
    run
        Any result.
    pe, tile, at
        Where to open, as in `kernbench_nb.widgets.stepper.step`.

    Raises
    ------
    TypeError
        If it is no run.
    ValueError
        If there is no such place; the names that there are are listed.
    """
    check_run(run, "kb.show_arenas")
    data, spot = open_at(run, pe, tile, at)
    return Arenas(run, data, pe=spot.pe, step=spot.step)
