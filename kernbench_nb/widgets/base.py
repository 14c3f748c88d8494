"""What all views share: the traits, places named by meaning, a picture where no module runs, and a clean end."""

from __future__ import annotations

import base64
import hashlib
import html
import zlib
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kernbench_nb.widgets.esm import css, esm
from kernbench_nb.widgets.notebook import anywidget, traitlets
from kernbench_nb.widgets.reader import Trace
from kernbench_nb.widgets.scene import OnPage, steps_of

if TYPE_CHECKING:
    from kernbench_nb.runtime_api.result import RunResult

__all__ = ["GRANULARITIES", "View", "module_text"]

GRANULARITIES = ("tile", "op")

# A widget's state holds its module and style, once for each widget, and saved notebooks hold the state. So both travel
# packed; a page unpacks and evaluates them once, however many views it shows.
_LOADER = """const packed = '{packed}';
const modules = (globalThis.kernbenchModules ||= {{}});
const unpacked = async () => {{
  const bytes = Uint8Array.from(atob(packed), c => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
  const [css, code] = (await new Response(stream).text()).split('\\0');
  if (!document.getElementById('{style}')) {{
    const style = document.createElement('style');
    style.id = '{style}';
    style.textContent = css;
    document.head.append(style);
  }}
  const url = URL.createObjectURL(new Blob([code], {{ type: 'text/javascript' }}));
  try {{
    return await import(url);
  }} finally {{
    URL.revokeObjectURL(url);
  }}
}};
export default {{
  async render(context) {{
    const module = await (modules['{key}'] ||= unpacked());
    return module.default.render(context);
  }},
}};
"""


@cache
def module_text(entry: str) -> str:
    """The module of a widget as its state carries it, its style included: small, and the same in every process."""
    style, code = css().encode(), esm(entry).encode()
    return _LOADER.format(
        packed=base64.b64encode(zlib.compress(style + b"\0" + code, 9)).decode(),
        key=f"{entry}-{hashlib.sha256(code).hexdigest()[:16]}",
        style=f"kernbench-{hashlib.sha256(style).hexdigest()[:16]}",
    )


class View(anywidget.AnyWidget):
    """A view of one run or of two.

    Attributes
    ----------
    step
        The row, counted from 0 within the PE; of two runs side by side, how many tiles are done.
    pe
        Global index of the PE that is looked at.
    granularity
        ``"tile"`` or ``"op"``: what previous and next move by.
    selection
        Rows that are marked, as ``[first, stop)`` ranges.
    run
        The run, until `close`.

    Notes
    -----
    The four traits are what a page and Python share: `observe` them, or `jslink` controls to them (of a Dropdown and
    of ToggleButtons a page knows the ``index``). Everything else is sent once. A value beyond the run is brought to its
    nearest end.
    """

    heads = traitlets.List(traitlets.Dict()).tag(sync=True)
    trace = traitlets.Bytes(b"").tag(sync=True)
    step = traitlets.Int(0).tag(sync=True)
    pe = traitlets.Int(0).tag(sync=True)
    granularity = traitlets.Enum(GRANULARITIES, "tile").tag(sync=True)
    selection = traitlets.List(traitlets.List(traitlets.Int(), minlen=2, maxlen=2)).tag(sync=True)

    _entry = ""

    def __init__(self, run: RunResult | None = None, data: Trace | None = None, **traits: Any) -> None:
        self._data = data
        self._picture: str | None = None
        self._shown = (0, 0)
        self._followers: dict[Any, Any] = {}
        if data is not None:
            traits = {"heads": [data.head], "trace": data.buffer, **traits}
        self.run = run
        super().__init__(**traits)
        self._shown = self.pe, self.step
        self._own_layout = self.layout  # a widget of its own, which closing this one does not close

    @property
    def _esm(self) -> str:
        return module_text(self._entry)

    # -- traits ------------------------------------------------------------------------------------------------

    @property
    def steps(self) -> int:
        """How many steps there are on the PE; `step` counts up to one less."""
        return self._steps_of(self.pe)

    def _steps_of(self, pe: int) -> int:
        return 1 if self._data is None else steps_of(self._data, None, pe)

    @traitlets.validate("pe")
    def _valid_pe(self, proposal: Any) -> int:
        value = int(proposal["value"])
        known = [p["pe"] for p in self._data.pes] if self._data is not None else []
        if not known or value in known:
            return value
        return int(min(known, key=lambda pe: abs(pe - value)))

    @traitlets.validate("step")
    def _valid_step(self, proposal: Any) -> int:
        return min(max(int(proposal["value"]), 0), self.steps - 1)

    @traitlets.observe("pe", "step")
    def _moved(self, change: Any) -> None:
        """A new PE is looked at when the simulated time is the same, unless a step came with it."""
        pe, step = self._shown
        self._shown = self.pe, self.step
        if change["name"] == "pe" and self.pe != pe and self.step == step:
            self.step = self._step_at(self.pe, self._clock(pe, step))

    def _clock(self, pe: int, step: int) -> int:
        """Simulated time after a step of a PE, in ps."""
        index = self._data.index_of(pe) if self._data is not None else None
        if self._data is None or index is None or not self._data.head["tables"]["ops"]["n"]:
            return 0
        p = self._data.pes[index]
        return int(self._data.ops["clock"][min(p["op0"] + max(step, 0), max(p["op1"] - 1, p["op0"]))])

    def _step_at(self, pe: int, clock: int) -> int:
        """The last step of a PE that is done by a time; its first if none is."""
        index = self._data.index_of(pe) if self._data is not None else None
        if self._data is None or index is None:
            return 0
        p = self._data.pes[index]
        done = int(np.searchsorted(self._data.ops["clock"][p["op0"] : p["op1"]], clock, side="right"))
        return max(0, done - 1)

    def on_page(self) -> OnPage:
        """As `kernbench_nb.widgets.html.write_page` takes it."""
        values = {name: getattr(self, name) for name in self.page_traits()}
        buffers = {
            name: bytes(value) for name, value in values.items() if isinstance(value, (bytes, memoryview))
        }
        state = {name: value for name, value in values.items() if name not in buffers}
        return OnPage(self._entry, state, buffers, self.svg(), repr(self))

    def page_traits(self) -> list[str]:
        """Names of the traits that a page may read, in order."""
        names = self.trait_names(sync=True)
        shared = {"layout", "tabbable", "tooltip", "comm"}
        return sorted(name for name in names if not name.startswith("_") and name not in shared)

    # -- without a page ----------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._words()}>"

    def _words(self) -> str:
        if self._data is None:
            return "closed"
        return f"{self._data.head['title']}, {self._data.head['about']}"

    def _draw(self) -> str:
        """The still picture, as SVG."""
        raise NotImplementedError

    def svg(self) -> str:
        """A still picture of the view at its first step, as SVG."""
        if self._picture is None:
            self._picture = self._draw()
        return self._picture

    def _repr_mimebundle_(self, **more: Any) -> Any:
        bundle: Any = super()._repr_mimebundle_(**more)
        data, metadata = bundle
        data["text/plain"] = repr(self)
        picture = base64.b64encode(self.svg().encode()).decode()
        data["text/html"] = (
            f'<img alt="{html.escape(repr(self))}" style="max-width:100%" '
            f'src="data:image/svg+xml;base64,{picture}">'
        )
        return data, metadata

    def follow(self, draw: Callable[..., Any]) -> Any:
        """A still picture that is drawn anew at each step: ``stepper.follow(kb.plots.arena_map)``.

        Running a cell again replaces the picture that the same code made before: a step is drawn once, not once for
        each time that the cell was run. Of a `functools.partial`, other numbers and texts are another picture.

        Parameters
        ----------
        draw
            Called as ``draw(run, at=ns, pe=pe)``; see `kernbench_nb.widgets.follow.Follower`.
        """
        from kernbench_nb.widgets.follow import Follower

        key = _where_written(draw)
        earlier = self._followers.pop(key, None)
        if earlier is not None:
            earlier.close()
        follower = self._followers[key] = Follower(self, draw)
        return follower

    def to_html(self, path: str | Path, *, title: str | None = None) -> Path:
        """Write one self-contained page: no network, no server, opens from disk.

        Parameters
        ----------
        path
            Where to.
        title
            Of the page; by default the run's.

        Returns
        -------
        Path
            Of the file.
        """
        from kernbench_nb.widgets.html import Section, write_page

        return write_page(path, [Section(self)], title=title or self._title())

    def _title(self) -> str:
        return str(self._data.head["title"]) if self._data is not None else type(self).__name__

    def close(self) -> None:
        """Take the view away and let go of the run. Closing twice is closing once."""
        if "_own_layout" not in self.__dict__:
            return  # refused before it was made: ipywidgets closes what Python collects, and there is nothing here yet
        for follower in self._followers.values():
            follower.close()
        self._followers.clear()
        self.unobserve_all()  # what is let go of below is nothing to draw
        super().close()
        self._own_layout.close()
        self.run = None
        self._data = None
        with self.hold_trait_notifications():
            self.heads = []
            self.trace = b""


def _where_written(function: Any) -> Any:
    """What stays the same when a cell defines a function again: its name, and where in the cell it stands."""
    if isinstance(function, partial):
        given = (*function.args, *sorted(function.keywords.items()))
        return _where_written(function.func), tuple(_lasting(value) for value in given)
    code = getattr(function, "__code__", None)
    if code is None:
        # an object that can be called, of a class that the cell defines again too
        kind = type(function)
        code = getattr(kind.__call__, "__code__", None)
        if code is None:
            return id(function)
        return kind.__module__, kind.__qualname__, tuple(code.co_positions())
    return function.__module__, function.__qualname__, tuple(code.co_positions())


def _lasting(value: Any) -> Any:
    """A number, a text, or several as they are; of anything else what it is, since running a cell makes it anew."""
    if isinstance(value, tuple):
        return tuple(_lasting(part) for part in value)
    return repr(value) if value is None or isinstance(value, (int, float, str)) else type(value).__qualname__
