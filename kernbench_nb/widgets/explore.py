"""`kb.explore`: drag the shape of a decode step and see what fits, and what a tile costs."""

from __future__ import annotations

import asyncio
import base64
import html
from dataclasses import fields, replace
from operator import index
from typing import Any

import numpy as np

from kernbench_nb.runtime_api.result import RunResult
from kernbench_nb.topology import resolve_topology
from kernbench_nb.widgets.base import View
from kernbench_nb.widgets.exploring import TILES, Setting, work_out
from kernbench_nb.widgets.fallback import draw_explore
from kernbench_nb.widgets.follow import close_whole
from kernbench_nb.widgets.notebook import ipywidgets, traitlets
from kernbench_nb.widgets.places import opening
from kernbench_nb.widgets.trace import trace_of
from kernbench_nb.widgets.twin import Twin

__all__ = ["PRESETS", "Explore", "Explorer", "explore"]

PRESETS = {
    "SmolLM2-135M": (3, 3, 64),
    "Llama-3 8B": (8, 4, 128),
    "Llama-3 70B": (8, 8, 128),
    "one KV head": (1, 8, 128),
}
"""KV heads, query heads of each, size of a head."""

WAIT_S = 0.03
"""So long after the last change the run starts; a drag then costs one run and not one a pixel."""

_CHOICES: dict[str, tuple[str, tuple[int, ...]]] = {
    "h_kv": ("KV heads", (1, 2, 3, 4, 8)),
    "group": ("query heads of each", (1, 2, 3, 4, 8, 16)),
    "d": ("head size d", (32, 64, 128, 256)),
    "S_kv": ("context S_kv", tuple(2**k for k in range(7, 21))),
    "pes": ("PEs", (1, 2, 4, 8, 16, 32, 64, 128)),
    "tile": ("KV tile", TILES),
}
_SWITCHES = {"scoped": "scratch scopes", "prefetch": "prefetch"}


class Explore(View):
    """What came of a setting; see `View` for its traits.

    Attributes
    ----------
    state
        Verdict, numbers and curves; see the room's README.
    busy
        Whether a newer setting is being worked out.
    """

    state = traitlets.Dict().tag(sync=True)
    busy = traitlets.Bool(False).tag(sync=True)

    _entry = "explore"

    def _words(self) -> str:
        return str(self.state.get("verdict", "closed"))

    def _draw(self) -> str:
        return (
            draw_explore(self.state) if "curve" in self.state else ""
        )  # none where nothing was worked out yet

    def show(self, run: RunResult | None, state: dict[str, Any]) -> None:
        """Show another outcome, all of it in one message."""
        self.run = run
        self._data = None if run is None else trace_of(run, twin=Twin())
        spot = None if self._data is None else opening(self._data)
        with self.hold_sync(), self.hold_trait_notifications():
            self.state = state
            self.heads = [] if self._data is None else [self._data.head]
            self.trace = b"" if self._data is None else self._data.buffer
            self.pe = 0 if spot is None else spot.pe
            self.step = 0 if spot is None else spot.step

    def close(self) -> None:
        """Take the view away and let go of the run."""
        super().close()
        self.state = {}


class Explorer(ipywidgets.VBox):  # type: ignore[misc]  # ipywidgets has no types
    """Controls above a view. Changing a control runs the setting, in timing mode, shortly after the last change.

    Attributes
    ----------
    controls
        The ipywidgets by name: ``h_kv group d S_kv pes tile scoped prefetch preset``.
    view
        Shows the outcome; `observe` or `jslink` its traits.
    setting
        What is set.
    run
        The last run, or None.
    """

    def __init__(self, setting: Setting, topology: Any = None) -> None:
        self._topology = topology
        self._pending: asyncio.TimerHandle | None = None
        self._together = False
        self._closed = False
        self._boxes: list[Any] = []
        self.setting = setting
        self.view = Explore()
        self.controls: dict[str, Any] = {}
        for name, (label, choices) in _CHOICES.items():
            value = getattr(setting, name)
            self.controls[name] = ipywidgets.SelectionSlider(
                options=sorted({*choices, value}), value=value, description=label,
                style={"description_width": "9em"}, layout={"width": "26em"},
            )  # fmt: skip
        for name, label in _SWITCHES.items():
            self.controls[name] = ipywidgets.Checkbox(
                value=getattr(setting, name), description=label, indent=False
            )
        self.controls["preset"] = ipywidgets.Dropdown(
            options=["model …", *PRESETS], value="model …", description="heads of",
            style={"description_width": "9em"}, layout={"width": "26em"},
        )  # fmt: skip
        for name in (*_CHOICES, *_SWITCHES):
            self.controls[name].observe(self._changed, names="value")
        self.controls["preset"].observe(self._preset, names="value")
        sliders = [self.controls[name] for name in ("preset", *_CHOICES)]
        left, right = ipywidgets.VBox(sliders[:4]), ipywidgets.VBox(sliders[4:])
        switches = ipywidgets.VBox([self.controls[name] for name in _SWITCHES])
        form = ipywidgets.HBox([left, right, switches], layout={"flex_flow": "row wrap"})
        super().__init__(children=[form, self.view])
        self.add_class("kernbench-explorer")  # by which the page knows whose controls these are
        self._boxes = [form, left, right, switches]
        self.work()

    @property
    def run(self) -> RunResult | None:
        """The last run, or None."""
        return self.view.run

    def set(self, **changes: Any) -> None:
        """Change several things at once; it runs once.

        Raises
        ------
        TypeError
            For a name that is none of a `Setting`'s, or a value of another type.
        ValueError
            For a size below 1.
        """
        changes = _checked(changes)
        self._together = True
        try:
            for name, value in changes.items():
                control = self.controls[name]
                if name in _CHOICES and value not in control.options:
                    control.options = sorted({*control.options, value})
                control.value = value
        finally:
            self._together = False
        self._soon()

    def work(self) -> None:
        """Run what is set now, and show what came of it."""
        self._forget()
        if self._closed:
            return
        self.setting = replace(
            self.setting, **{name: self.controls[name].value for name in (*_CHOICES, *_SWITCHES)}
        )
        try:
            outcome = work_out(self.setting, self._topology)
            self.view.show(outcome.run, outcome.state)
        except Exception as error:
            # whatever goes wrong is shown where the reader looks, and the next change may mend it
            text = f"{type(error).__name__}: {error}"
            self.view.show(None, {**self.view.state, "verdict": "This setting does not run", "detail": text,
                                  "error": {"type": type(error).__name__, "text": str(error)}})  # fmt: skip
        finally:
            self.view.busy = False

    def _changed(self, change: Any) -> None:
        if not self._together:
            self._soon()

    def _preset(self, change: Any) -> None:
        heads = PRESETS.get(change["new"])
        if heads is not None:
            self.set(**dict(zip(("h_kv", "group", "d"), heads, strict=True)))

    def _soon(self) -> None:
        """Run shortly, where there is a loop to come back to; else now. A newer change takes the older one's place."""
        self._forget()
        if self._closed or self._now() == self.setting:
            self.view.busy = False
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self.work()
            return
        self.view.busy = True
        self._pending = loop.call_later(WAIT_S, self.work)

    def _now(self) -> Setting:
        return replace(self.setting, **{name: self.controls[name].value for name in (*_CHOICES, *_SWITCHES)})

    def _forget(self) -> None:
        if self._pending is not None:
            self._pending.cancel()
            self._pending = None

    def __repr__(self) -> str:
        p = self.setting
        heads = f"{p.h_kv * p.group} heads on {p.h_kv}, d = {p.d}"
        return f"<Explorer: {heads}, {p.S_kv} keys on {p.pes} PEs, tile {p.tile}: {self.view._words()}>"

    def _repr_mimebundle_(self, **more: Any) -> Any:
        bundle: Any = super()._repr_mimebundle_(**more)
        if bundle is None:
            return None
        data = dict(bundle[0] if isinstance(bundle, tuple) else bundle)
        data["text/plain"] = repr(self)
        picture = base64.b64encode(self.view.svg().encode()).decode()
        data["text/html"] = (
            f'<img alt="{html.escape(repr(self))}" style="max-width:100%" '
            f'src="data:image/svg+xml;base64,{picture}">'
        )
        return data, {}

    def close(self) -> None:
        """Take everything away, what is still to come included. Closing twice is closing once."""
        self._closed = True
        self._forget()
        self.view.close()
        for widget in (*self.controls.values(), *self._boxes, self):
            close_whole(widget)


def explore(*, topology: Any = None, **setting: Any) -> Explorer:
    """Drag heads, head size, context, tile, PEs, prefetch and scopes of a decode step, and see what comes of it.

    Parameters
    ----------
    topology
        The machine.
    setting
        What to begin with: ``h_kv group d S_kv tile pes prefetch scoped``.

    Returns
    -------
    Explorer
        A widget; `Explorer.set` changes several things at once.

    Raises
    ------
    TypeError
        For another name, a size that is no whole number, or a switch that is neither True nor False.
    ValueError
        For a size below 1, or a machine that there is not.
    """
    return Explorer(Setting(**_checked(setting)), resolve_topology(topology))


def _checked(setting: dict[str, Any]) -> dict[str, Any]:
    """A part of a `Setting` as plain numbers and switches."""
    known = [f.name for f in fields(Setting)]
    plain: dict[str, Any] = {}
    for name, value in setting.items():
        if name not in known:
            raise TypeError(
                f"kb.explore has no setting {name!r}; there are {', '.join(known)}, and topology=."
            )
        switch = isinstance(value, (bool, np.bool_))
        if switch != (name in _SWITCHES) or not (switch or hasattr(value, "__index__")):
            wanted = "True or False" if name in _SWITCHES else "a whole number"
            raise TypeError(f"kb.explore: {name} must be {wanted}, got {value!r}")
        plain[name] = bool(value) if switch else index(value)
        if not switch and plain[name] < 1:
            raise ValueError(f"kb.explore: {name} must be at least 1, got {value!r}")
    return plain
