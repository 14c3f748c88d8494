"""Colours and textures: a hue means an engine, everywhere, and never comes without its texture.

The hues are those of Okabe and Ito, darkened on a light ground to 3:1. Text and ground are those of the axes and of
matplotlib's current settings, so a dark style gives a dark picture.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb, to_rgba

__all__ = ["BARE", "Paint", "Theme", "mix", "solid", "theme_of"]

BARE = ""
"""What stands in for an engine where none wrote a block: a bare allocation, ``tl.empty``."""


@dataclass(frozen=True, slots=True)
class Paint:
    """How one engine looks.

    Attributes
    ----------
    line, fill
        Outline and thin marks; the ground of a bar or a block.
    grain, hatch
        Colour and pattern of the texture on that ground.
    hair
        What is too thin to show a ground and an outline.
    """

    line: str
    fill: str
    grain: str
    hatch: str
    hair: str


@dataclass(frozen=True, slots=True)
class Theme:
    """The colours of one picture.

    Attributes
    ----------
    dark
        Whether the ground is dark.
    face, text, soft, line, faint, veil, ground
        Ground; text; secondary text; thin lines that lead the eye; grid and rules; two grounds that
        are hardly there.
    engines
        `Paint` by engine: dma, gemm, math, ipc, and `BARE`.
    persistent, on_persistent
        The persistent arena, and text on it.
    kept
        Paint by engine for blocks that a tile made and nothing gives back: the persistent arena with a texture.
    limit, limit_text
        The end of the scratch and running over it; used for nothing else.
    accent, wash
        The cursor, and what is under it.
    """

    dark: bool
    face: str
    text: str
    soft: str
    line: str
    faint: str
    veil: str
    ground: str
    engines: Mapping[str, Paint]
    persistent: str
    on_persistent: str
    kept: Mapping[str, Paint]
    limit: str
    limit_text: str
    accent: str
    wash: str


# engine: (light line, light fill, dark line, dark fill, texture)
_ENGINES = {
    "dma": ("#2b8cc4", "#d3eaf8", "#56b4e9", "#173a50", "////"),
    "gemm": ("#c98600", "#fbe7bd", "#e69f00", "#4a360b", "+++"),
    "math": ("#009e73", "#cdeee2", "#22b98d", "#0f3d31", "...."),
    "ipc": ("#b8568f", "#f3dbe8", "#d68fb5", "#4a2a3c", "||||"),
    BARE: ("#8a9096", "#eceef0", "#8a9096", "#2b2f33", ""),
}


def theme_of(ax: Axes | None = None) -> Theme:
    """The theme of axes that exist, or that matplotlib's current settings would give.

    Parameters
    ----------
    ax
        Axes to draw in. Without them the settings decide.
    """
    if ax is None:
        grounds = [mpl.rcParams["axes.facecolor"], mpl.rcParams["figure.facecolor"]]
    else:
        figure: Any = ax.figure
        grounds = [ax.get_facecolor(), *([] if figure is None else [figure.get_facecolor()])]
    text = mpl.rcParams["text.color"]
    solid = [ground for ground in grounds if to_rgba(ground)[3] > 0.5]
    if solid:
        face = to_hex(to_rgb(solid[0]))
    else:  # a transparent picture lies on whatever its text is meant to be read on
        face = "#ffffff" if _light(text) < 0.5 else "#111111"
    dark = _light(face) < 0.4
    if _contrast(text, face) < 4.5:  # axes made in one style, drawn in another
        text = "#ffffff" if dark else "#111111"
    persistent = "#c9ced3" if dark else "#2f353b"
    accent = "#56b4e9" if dark else "#0072b2"
    return Theme(
        dark=dark,
        face=face,
        text=to_hex(text),
        soft=mix(text, face, 0.35),
        line=mix(text, face, 0.62),
        faint=mix(text, face, 0.84),
        veil=mix(text, face, 0.94),
        ground=mix(text, face, 0.90),
        engines=MappingProxyType({engine: _paint(engine, dark) for engine in _ENGINES}),
        persistent=persistent,
        on_persistent="#111111" if dark else "#ffffff",
        kept=MappingProxyType({engine: _kept(engine, dark, persistent) for engine in _ENGINES}),
        limit="#ff7a1a" if dark else "#d55e00",
        limit_text="#ff7a1a" if dark else "#b34d00",
        accent=accent,
        wash=mix(accent, face, 0.72),
    )


def mix(color: str, other: str, share: float) -> str:
    """`color` with `share` of `other` in it, 0 to 1.

    >>> mix("#000000", "#ffffff", 0.2)
    '#333333'
    """
    a, b = to_rgb(color), to_rgb(other)
    return to_hex((a[0] + (b[0] - a[0]) * share, a[1] + (b[1] - a[1]) * share, a[2] + (b[2] - a[2]) * share))


def solid(color: str, edge: str) -> Paint:
    """One colour, with no texture."""
    return Paint(edge, color, color, "", color)


def _paint(engine: str, dark: bool) -> Paint:
    light_line, light_fill, dark_line, dark_fill, hatch = _ENGINES[engine]
    line, fill = (dark_line, dark_fill) if dark else (light_line, light_fill)
    # the texture stands back behind the outline: at full strength four of them beside each other flicker
    return Paint(line, fill, mix(line, fill, 0.45), hatch, mix(line, fill, 0.2))


def _kept(engine: str, dark: bool, persistent: str) -> Paint:
    # on the persistent arena's ground, which is dark in a light picture, the other set of lines is the readable one
    light_line, _, dark_line, _, hatch = _ENGINES[engine]
    line = mix(light_line, "#000000", 0.35) if dark else dark_line
    return Paint(line, persistent, mix(line, persistent, 0.3), hatch, mix(line, persistent, 0.65))


def _light(color: str) -> float:
    """Relative luminance, 0 to 1 (WCAG 2.2)."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(color)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(a: str, b: str) -> float:
    """Contrast ratio, 1 to 21 (WCAG 2.2)."""
    high, low = sorted((_light(a), _light(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)
