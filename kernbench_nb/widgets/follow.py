"""A still picture that follows a stepper: any plot of `kb.plots`, or a function of one's own, redrawn at each step."""

from __future__ import annotations

import base64
import html
import io
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernbench_nb.widgets.notebook import ipywidgets

if TYPE_CHECKING:
    from kernbench_nb.widgets.base import View

__all__ = ["Follower", "close_whole"]

Draw = Callable[..., Any]


class Follower(ipywidgets.HTML):  # type: ignore[misc]  # ipywidgets has no types
    """Shows what `draw` draws, once for each change.

    Parameters
    ----------
    view
        What is followed.
    draw
        Called as ``draw(run, at=ns, pe=pe)``; draws with matplotlib, and returns its Axes or Figure (or nothing).

    Notes
    -----
    Figures that `draw` makes are closed when they are pictures, also after an error, which is shown in their place.
    Figures of the user's own are left alone.
    """

    def __init__(self, view: View, draw: Draw) -> None:
        super().__init__()
        self.draws = 0
        self._view: View | None = view
        self._draw: Draw | None = draw
        self._drawn: tuple[int, int] | None = None
        view.observe(self._moved, names=["step", "pe"])
        self._moved(None)

    def _moved(self, change: Any) -> None:
        view = self._view
        if view is None or (view.pe, view.step) == self._drawn:
            return
        self._drawn = view.pe, view.step
        self.draws += 1
        try:
            self.value = self._picture(view)
        except Exception as error:
            # shown where the reader looks; the next step draws again
            text = f"{type(error).__name__}: {error}"
            self.value = f"<pre>{html.escape(text)}</pre>"

    def _picture(self, view: View) -> str:
        assert self._draw is not None
        before = _open_figures()
        current = _current_figure()
        try:
            drawn = self._draw(view.run, at=view._clock(view.pe, view.step) / 1000, pe=view.pe)
            figure = getattr(drawn, "figure", None) or drawn
            if not hasattr(figure, "savefig"):
                new = [manager for manager in _open_figures() if manager not in before]
                if not new:
                    return ""
                figure = new[-1].canvas.figure
            buffer = io.BytesIO()
            figure.savefig(buffer, format="png", bbox_inches="tight", metadata={"Software": None})
            data = base64.b64encode(buffer.getvalue()).decode()
            return f'<img alt="" style="max-width:100%" src="data:image/png;base64,{data}">'
        finally:
            _close_new(before, current)

    def __repr__(self) -> str:
        # ipywidgets' own would show the picture's bytes
        view = self._view
        return "<Follower: closed>" if view is None else f"<Follower: PE {view.pe}, step {view.step}>"

    def close(self) -> None:
        """Stop following. Closing twice is closing once."""
        if self._view is not None:
            self._view.unobserve(self._moved, names=["step", "pe"])
        self._view = self._draw = None
        close_whole(self)


def close_whole(widget: Any) -> None:
    """Close an ipywidget with its layout and style, which are widgets too and would stay."""
    for part in (widget.layout, getattr(widget, "style", None)):
        if part is not None:
            part.close()
    ipywidgets.Widget.close(widget)


def _pyplot_figures() -> Any:
    """The list of figures of pyplot itself, if the user has loaded it."""
    return getattr(sys.modules.get("matplotlib._pylab_helpers"), "Gcf", None)


def _open_figures() -> list[Any]:
    """Managers of pyplot's figures. Not their numbers: a figure made after `close("all")` gets one that was in use."""
    figures = _pyplot_figures()
    return [] if figures is None else list(figures.get_all_fig_managers())


def _current_figure() -> Any:
    figures = _pyplot_figures()
    return None if figures is None else figures.get_active()


def _close_new(before: list[Any], current: Any) -> None:
    figures = _pyplot_figures()
    if figures is None:
        return
    for manager in _open_figures():
        if manager not in before:
            figures.destroy(manager)
    if current is not None and current in _open_figures():
        figures.set_active(current)
