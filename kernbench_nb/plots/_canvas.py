"""Where a picture is drawn: the caller's axes, or axes of our own that show themselves in a notebook.

A figure made here belongs to nobody but its axes: pyplot never hears of it, so nothing piles up and nothing is shown
twice. Jupyter shows what a cell returns by asking it for its picture, and plain axes have none to give; `Picture` has.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure, SubFigure
from PIL import Image

from kernbench_nb.plots._theme import Theme, theme_of
from kernbench_nb.plots._words import THIN, name_of

__all__ = [
    "LABEL",
    "MONO",
    "SMALL",
    "TITLE",
    "WIDTH",
    "Picture",
    "canvas",
    "figure_of",
    "message",
    "plain",
    "size_pt",
    "summarise",
    "ticks",
]

WIDTH = 7.0
"""Inches: 700 pixels at matplotlib's default of 100 a inch, what a notebook's column gives."""

TITLE, LABEL, SMALL = 10.5, 8.0, 7.5
"""Sizes of text in points; 8 points are 11 pixels."""

MONO = "monospace"
SHARP = 2
"""Pixels rendered for a pixel shown: most screens have two."""


class Picture(Axes):
    """Axes that a notebook shows as a picture when a cell returns them.

    Attributes
    ----------
    summary
        What the picture says, in one line of words and numbers: its ``repr``, and its text for those who cannot see it.
    """

    summary: str = ""

    def __repr__(self) -> str:
        return f"<{self.summary or 'Picture'}>"

    def __str__(self) -> str:
        return repr(self)

    def savefig(self, *args: Any, **how: Any) -> None:
        """Save the whole picture: ``ax.figure.savefig``.

        Parameters
        ----------
        args, how
            Those of `matplotlib.figure.Figure.savefig`: a path, ``dpi``, and so on.

        Raises
        ------
        RuntimeError
            If the axes were removed from their figure.
        """
        figure = figure_of(self)
        if figure is None:
            raise RuntimeError("this picture was removed from its figure; draw it again to save it")
        figure.savefig(*args, **how)

    def draw(self, renderer: Any) -> None:
        """Draw with fine textures; the settings have the only switch for their line width."""
        with mpl.rc_context({"hatch.linewidth": 0.6}):
            super().draw(renderer)

    def _repr_mimebundle_(
        self, include: Any = None, exclude: Any = None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The PNG of the whole figure, at twice the pixels, and the summary."""
        figure = figure_of(self)
        data: dict[str, Any] = {"text/plain": repr(self)}
        if figure is None:  # removed from its figure
            return data, {}
        buffer = BytesIO()
        # "tight" would crop to what is drawn, and the width given below would no longer be the picture's
        with mpl.rc_context({"savefig.bbox": None}):
            figure.savefig(buffer, format="png", dpi=SHARP * figure.dpi, metadata={"Software": None})
        data["image/png"] = _small(buffer)
        shown = {
            "width": round(figure.get_figwidth() * figure.dpi),
            "height": round(figure.get_figheight() * figure.dpi),
        }
        return data, {"image/png": {**shown, "alt": self.summary}}


def _small(png: BytesIO) -> bytes:
    """The same picture with a palette of 256 colours: a third of the bytes, in notebooks that are kept in git."""
    image = Image.open(png)
    if image.convert("RGBA").getchannel("A").getextrema() != (255, 255):
        return png.getvalue()  # see-through
    few = image.convert("RGB").quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    buffer = BytesIO()
    few.save(buffer, format="PNG", optimize=True)
    return buffer.getvalue()


def canvas(
    ax: Axes | None,
    height: float,
    *,
    left: float = 0.86,
    right: float = 0.15,
    top: float = 0.62,
    bottom: float = 0.62,
) -> tuple[Axes, Theme]:
    """Axes to draw in, and their theme.

    Parameters
    ----------
    ax
        The caller's axes, which are taken as they are, or None for axes of our own.
    height
        Of our own figure, in inches; it is `WIDTH` wide.
    left, right, top, bottom
        Inches around the axes.
    """
    if ax is None:
        height = round(height, 2)  # whole pixels
        figure = Figure(figsize=(WIDTH, height))
        FigureCanvasAgg(figure)  # can measure and save; known to no window system
        box = (
            left / WIDTH,
            bottom / height,
            (WIDTH - left - right) / WIDTH,
            (height - bottom - top) / height,
        )
        ax = figure.add_axes(box, axes_class=Picture)
    theme = theme_of(ax)
    for name, spine in ax.spines.items():
        spine.set_visible(name in ("left", "bottom"))
        spine.set_color(theme.faint)
    ax.tick_params(colors=theme.soft, labelcolor=theme.soft, labelsize=LABEL, length=3)
    ax.set_axisbelow(True)
    return ax, theme


def size_pt(ax: Axes) -> tuple[float, float]:
    """Width and height of axes in points, as things stand now."""
    box = ax.get_window_extent()
    figure = figure_of(ax)
    dpi = 72.0 if figure is None else figure.dpi
    return box.width * 72 / dpi, box.height * 72 / dpi


def plain(artist: Any) -> Any:
    """Have a text drawn as it is spelled: names are data, and ``$x^{`` is no formula."""
    artist.set_parse_math(False)
    artist.set_usetex(False)
    return artist


def ticks(axis: Axis, places: Sequence[float], labels: Sequence[str], **how: Any) -> None:
    """Ticks with labels, drawn as they are spelled."""
    axis.set_ticks(list(places), labels=list(labels), parse_math=False, usetex=False, **how)


def message(ax: Axes, theme: Theme, text: str) -> None:
    """Say in the middle of the axes why there is no picture."""
    for spine in ax.spines.values():
        spine.set_visible(False)
    ax.set_xticks([])
    ax.set_yticks([])
    plain(
        ax.text(
            0.5, 0.5, text, transform=ax.transAxes, ha="center", va="center", color=theme.soft, fontsize=LABEL + 1,
            wrap=True,
        )
    )  # fmt: skip


def summarise(ax: Axes, text: str) -> Axes:
    """Give our own axes their summary, with plain spaces; the caller's axes stay as they are."""
    if isinstance(ax, Picture):
        ax.summary = name_of(text.replace(THIN, " "), 400)
    return ax


def figure_of(ax: Axes) -> Figure | None:
    """The whole figure that axes stand in; None once they are removed from it."""
    figure: Any = ax.figure
    while isinstance(figure, SubFigure):
        figure = figure.figure
    return figure if isinstance(figure, Figure) else None
