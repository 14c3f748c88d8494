"""`kb.step`: the player of one run, or of two side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kernbench_nb.runtime_api.result import RunResult
from kernbench_nb.widgets.base import View
from kernbench_nb.widgets.notebook import traitlets
from kernbench_nb.widgets.scene import Scene, scene, steps_of

__all__ = ["Stepper", "step"]


class Stepper(View):
    """Steps through a run, tile by tile or operation by operation; see `View` for its traits.

    Attributes
    ----------
    trace_b, names
        Of two runs: the second one's buffer, and their titles.
    other
        The second run, until `close`.
    """

    trace_b = traitlets.Bytes(b"").tag(sync=True)
    names = traitlets.List(traitlets.Unicode()).tag(sync=True)

    _entry = "stepper"

    def __init__(
        self,
        run: RunResult | None = None,
        shown: Scene | None = None,
        other: RunResult | None = None,
        **traits: Any,
    ) -> None:
        self.other = other
        self._scene = shown
        if shown is None:
            super().__init__(run, None, **traits)
            return
        page = shown.on_page()
        super().__init__(run, shown.data, **{**page.state, **page.buffers, **traits})

    def _steps_of(self, pe: int) -> int:
        return 1 if self._scene is None else steps_of(self._scene.data, self._scene.other, pe)

    def _step_at(self, pe: int, clock: int) -> int:
        if self._scene is not None and self._scene.other is not None:
            return min(self.step, self.steps - 1)  # two runs are stepped by tile, and so many are done
        return super()._step_at(pe, clock)

    def _words(self) -> str:
        if self._scene is None:
            return "closed"
        return replace(self._scene, pe=self.pe, step=self.step).label

    def _title(self) -> str:
        return super()._title() if self._scene is None else self._scene.title

    def _draw(self) -> str:
        return "" if self._scene is None else replace(self._scene, pe=self.pe, step=self.step).svg()

    def close(self) -> None:
        """Take the view away and let go of the runs. Closing twice is closing once."""
        super().close()
        self.other = self._scene = None
        self.trace_b = b""


def step(
    run: RunResult,
    other: RunResult | None = None,
    *,
    pe: int | None = None,
    tile: str | None = None,
    at: str | None = None,
    granularity: str | None = None,
    names: Sequence[str] | None = None,
    words: Sequence[str] | None = None,
) -> Stepper:
    """Step through a run, forward and back, and see the memory move.

    Parameters
    ----------
    run
        Any result, that of an error too (``error.run``).
    other
        A second one: both side by side, stepped together by tile.
    pe
        Global index of the PE to open at.
    tile
        Label of the tile to open at, ``"tile 2"``.
    at
        The operation to open after: its name, else its variable, else what it does to what (``"store S"``, ``"load
        K"``, ``"copy O"``), else what it does (``"store"``).
    granularity
        ``"tile"`` or ``"op"``; by tile unless an operation was named.
    names
        Titles of the two runs; by default what differs between them.
    words
        The keys' words, for labels; the shipped sample's are known.

    Returns
    -------
    Stepper
        A widget: `observe` or `jslink` its ``step``, ``pe``, ``granularity`` and ``selection``.

    Raises
    ------
    TypeError
        If `run` or `other` is no run, or a name no text.
    ValueError
        If there is no such PE, tile or operation; the names that are near, and those that there are, are listed. If
        one of two runs did nothing.
    """
    shown = scene(run, other, pe=pe, tile=tile, at=at, granularity=granularity, names=names, words=words)
    return Stepper(run, shown, other)
