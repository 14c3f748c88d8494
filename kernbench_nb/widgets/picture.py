"""A small SVG writer: marks with classes, text that is always escaped, numbers that are always written alike."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

__all__ = ["LIMIT_BYTES", "Picture", "bytes_words", "clipped", "time_words"]

LONGEST = 300
"""Characters of one text: whoever names a tensor may write a page."""

LIMIT_BYTES = 29_000
"""An SVG of so many bytes stays below 40 kB as base64 in an output."""

_STYLE = (
    ".p{font:12px system-ui,sans-serif;fill:#24292f}"
    ".b{font-weight:600}"
    ".m{fill:#6a737d}"
    ".s{font-size:11px}"
    ".x{font-size:17px;font-weight:600}"
    ".c{font:11px ui-monospace,monospace;fill:#24292f}"
    ".e{text-anchor:end}"
    ".i{text-anchor:middle}"
    ".a{fill:#d3eaf8;stroke:#2b8cc4}"
    ".g{fill:#fbe7bd;stroke:#c98600}"
    ".t{fill:#cdeee2;stroke:#009e73}"
    ".q{fill:#f3dbe8;stroke:#b8568f}"
    ".k{fill:#2f353b;stroke:#2f353b}"
    ".v{fill:#fff;fill-opacity:.68}"
    ".u{fill:#f6f8fa;stroke:#d0d7de}"
    ".l{stroke:#d0d7de}"
    ".h{stroke:#57606a;stroke-dasharray:2 3}"
    ".w{stroke:#0072b2;stroke-width:1.5}"
    ".r{stroke:#d55e00;stroke-width:2}"
    ".z{fill:#b34d00}"
    ".n{fill:none;stroke:#24292f;stroke-width:2}"
    ".d{fill:#8cc3e6}"
    ".o{fill:#eef1f4}"
    ".y{fill:url(#y);stroke:#d0d7de}"
    ".f{fill:url(#f)}"
)
_DEFS = (
    '<defs><pattern id="y" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="6" height="6" fill="#fff"/><path d="M0 0V6" stroke="#c5ccd3" stroke-width="2"/></pattern>'
    '<pattern id="f" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)">'
    '<path d="M0 0V5" stroke="#d55e00" stroke-opacity=".4" stroke-width="1.5"/></pattern></defs>'
)


class Picture:
    """Collects marks.

    Parameters
    ----------
    width, height
        In CSS pixels.
    title
        What a screen reader says.
    """

    def __init__(self, width: int, height: int, title: str) -> None:
        self._size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
        self._title = title
        self._marks: list[str] = []

    def rect(self, x: float, y: float, width: float, height: float, kind: str) -> None:
        """A rectangle; nothing is drawn where there is no area to see."""
        if width > 0 and height > 0:
            self._marks.append(
                f'<rect class="{kind}" x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}"/>'
            )

    def line(self, x1: float, y1: float, x2: float, y2: float, kind: str) -> None:
        """A line."""
        self._marks.append(f'<path class="{kind}" fill="none" d="M{_n(x1)} {_n(y1)}L{_n(x2)} {_n(y2)}"/>')

    def path(self, points: Sequence[tuple[float, float]], kind: str) -> None:
        """An open line through points."""
        if len(points) > 1:
            d = "L".join(f"{_n(x)} {_n(y)}" for x, y in points)
            self._marks.append(f'<path class="{kind}" fill="none" d="M{d}"/>')

    def text(self, x: float, y: float, text: str, kind: str = "p") -> None:
        """A text; what it says is data."""
        if text:
            self._marks.append(f'<text class="{kind}" x="{_n(x)}" y="{_n(y)}">{_data(text)}</text>')

    def svg(self) -> str:
        """The picture."""
        title = _data(self._title)
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {self._size} role="img" aria-label="{title}">'
            f"<title>{title}</title><style>{_STYLE}</style>{_DEFS}"
            f'<rect width="100%" height="100%" fill="#fff"/>{"".join(self._marks)}</svg>'
        )


_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _data(text: str) -> str:
    """A text as XML holds it, at most `LONGEST` characters of it."""
    return html.escape(_NOT_XML.sub("\ufffd", clipped(text, LONGEST)))


def _n(value: float) -> str:
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


def clipped(text: str, length: int) -> str:
    """A text of at most so many characters."""
    flat = " ".join(text.split())
    return flat if len(flat) <= length else f"{flat[: length - 1]}…"


def bytes_words(nbytes: int) -> str:
    """Bytes as a picture says them.

    >>> bytes_words(36), bytes_words(25680), bytes_words(1048576), bytes_words(3 << 30)
    ('36 B', '25.1 KiB', '1 MiB', '3 GiB')
    """
    value = float(nbytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            break
        value /= 1024
    return f"{value:.1f}".rstrip("0").rstrip(".") + f" {unit}" if unit != "B" else f"{nbytes} B"


def time_words(ps: int) -> str:
    """A time as a picture says it.

    >>> time_words(1500), time_words(1709945), time_words(31874250000)
    ('1.5 ns', '1.71 µs', '31.9 ms')
    """
    value = ps / 1000
    for unit in ("ns", "µs", "ms", "s"):
        if value < 1000 or unit == "s":
            break
        value /= 1000
    return f"{value:.3g} {unit}"
