"""The real ES modules in Debian's Chromium with a model that stands in for the kernel's: no server, no JupyterLab.

The page and its modules are answered by a route, whatever else is asked for is refused and remembered.
"""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import kernbench_nb
from kernbench_nb.widgets.esm import esm
from kernbench_nb.widgets.reader import Trace

STATIC = Path(kernbench_nb.__file__).parent / "widgets" / "static"
ORIGIN = "http://kb.test"
ARGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--font-render-hinting=none",
]  # fmt: skip
HINT = "needs Chromium and playwright: apt-get install -y chromium; pip install playwright"

# JupyterLab's variables as its two themes set them; without any, a view uses its own. Its fonts here are the widest of
# the machine: labels that fit with them fit anywhere.
FONTS = {
    "--jp-ui-font-family": "'DejaVu Sans', sans-serif",
    "--jp-code-font-family": "'DejaVu Sans Mono', monospace",
}
THEMES = {
    "light": {
        **FONTS,
        "--jp-layout-color0": "white",
        "--jp-layout-color2": "#eeeeee",
        "--jp-ui-font-color0": "rgba(0, 0, 0, 1)",
    },
    "dark": {
        **FONTS,
        "--jp-layout-color0": "#111111",
        "--jp-layout-color2": "#424242",
        "--jp-ui-font-color0": "rgba(255, 255, 255, 1)",
    },
}

# Counts what a view writes: `sets` of the model, `saves` to the kernel, `draws` of each mounted view.
PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>views</title>
<link rel="stylesheet" href="/kernbench.css"><style>body { margin: 0 } :root { VARIABLES } RULES</style></head>
<body><script type="module">
class Model {
  constructor(state) { Object.assign(this, { state, heard: {}, sets: [], saves: [] }); }
  get(name) { return this.state[name]; }
  set(name, value) {
    if (this.state[name] === value) return;
    this.state[name] = value;
    this.sets.push([name, value]);
    for (const hear of [...(this.heard[`change:${name}`] || [])]) hear();
  }
  on(event, hear) { (this.heard[event] ||= []).push(hear); }
  off(event, hear) { this.heard[event] = (this.heard[event] || []).filter(other => other !== hear); }
  save_changes() { this.saves.push({ step: this.state.step, pe: this.state.pe, selection: this.state.selection }); }
  listeners() { return Object.values(this.heard).reduce((sum, list) => sum + list.length, 0); }
}
const bytes = text => new DataView(Uint8Array.from(atob(text), c => c.charCodeAt(0)).buffer);
window.models = {};
window.views = {};
window.model_of = (name, state, buffers) => {
  for (const [key, text] of Object.entries(buffers)) state[key] = bytes(text);
  return (window.models[name] = new Model(state));
};
window.mount = async (name, module, model, width) => {
  const widget = (await import(module)).default;
  const el = document.createElement('div');
  el.id = name;
  el.className = 'host';
  el.style.width = width ? `${width}px` : '';
  document.body.append(el);
  const view = { el, draws: 0 };
  el.addEventListener('kb-draw', () => view.draws++, true);
  view.close = await widget.render({ model: window.models[model], el });
  window.views[name] = view;
};
window.unmount = name => { window.views[name].close(); window.views[name].el.remove(); delete window.views[name]; };
window.frames = n => new Promise(done => { const f = () => (n-- > 0 ? requestAnimationFrame(f) : done()); f(); });
window.ready = true;
</script></body></html>"""


# Texts of a drawing that lie over each other, or that the drawing's edge cuts off.
COLLISIONS = """name => {
  const bad = [];
  for (const svg of document.querySelectorAll(`#${name} svg`)) {
    if (!svg.checkVisibility()) continue;
    const frame = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll('text')]
      .filter(t => t.textContent && t.style.display !== 'none' && !t.getAttribute('transform') && t.checkVisibility())
      .map(t => [t.textContent, t.getBoundingClientRect()]);
    for (const [text, b] of texts) {
      const sideways = b.left < frame.left - 1.5 || b.right > frame.right + 1.5;
      if (sideways || b.top < frame.top - 3 || b.bottom > frame.bottom + 3) bad.push(`cut off: ${text}`);
    }
    for (let i = 0; i < texts.length; i++) for (let j = i + 1; j < texts.length; j++) {
      const [a, b] = [texts[i][1], texts[j][1]];
      const w = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const h = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (w > 1 && h > 4.5) bad.push(`overlap: ${texts[i][0]} | ${texts[j][0]}`);
    }
  }
  return bad;
}"""


# What JupyterLab says of elements in outputs (rendermime's base.css), as far as views use them.
RULES = """
.host { font-size: 14px; line-height: 1.6; }
.host h2, .host h3 { line-height: 1.25; font-weight: 400; margin: 1em 0 0.5em; }
.host p { margin: 0 0 1em; }
.host dl dt { float: left; width: 20%; display: block; font-weight: bold; margin: 0; padding: 0 8px; }
.host dl dd { display: block; margin: 0 0 1em 20%; }
.host table { border-collapse: collapse; margin-bottom: 1em; table-layout: fixed; font-size: 12px; }
.host td, .host th, .host tr { text-align: right; padding: 0.5em; white-space: normal; max-width: none; }
.host tbody tr:nth-child(odd) { background: #f5f5f5; }
.host code, .host pre { background: #eee; padding: 1px 5px; white-space: pre; }
.host img { max-width: 100%; }
"""


def find_chromium() -> str:
    """Chromium's path; skips the test where it, or playwright, is missing."""
    pytest.importorskip("playwright.sync_api", reason=HINT)
    path = shutil.which("chromium")
    if path is None:
        pytest.skip(HINT)
    return path


@contextmanager
def chromium(**options: Any) -> Iterator[Any]:
    """A browser of its own process."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=ARGS, **options)
        try:
            yield browser
        finally:
            browser.close()


def state_of(*traces: Trace, **traits: Any) -> tuple[dict[str, Any], dict[str, str]]:
    """Traits and buffers of a view of some traces, as the widgets send them."""
    first = traces[0].head["pes"][0]["pe"] if traces else 0
    state = {
        "heads": [json.loads(json.dumps(t.head)) for t in traces], "names": [], "step": 0, "pe": first,
        "granularity": "tile", "selection": [], "group": "op", "query": "", "view": "notebook", **traits,
    }  # fmt: skip
    buffers = {
        key: base64.b64encode(t.buffer).decode() for key, t in zip(("trace", "trace_b"), traces, strict=False)
    }
    return state, buffers


class Page:
    """A page with views on it.

    Attributes
    ----------
    page
        Playwright's own.
    problems
        What went wrong so far: errors, console messages, requests for anything that is not the page's own.
    """

    def __init__(
        self,
        browser: Any,
        *,
        width: int = 1200,
        theme: str | None = None,
        motion: bool = True,
        dark: bool = False,
    ) -> None:
        self.context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light",
            reduced_motion="no-preference" if motion else "reduce",
        )  # fmt: skip
        self.page = self.context.new_page()
        self.problems: list[str] = []
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", lambda message: self.problems.append(message.text))
        variables = "; ".join(f"{k}: {v}" for k, v in THEMES[theme].items()) if theme else ""
        self._html = PAGE.replace("VARIABLES", variables).replace("RULES", RULES if theme else "")
        self._joined: dict[str, str] = {}
        self.page.route("**/*", self._answer)
        self.page.goto(f"{ORIGIN}/")
        self.page.wait_for_function("window.ready")

    def _answer(self, route: Any) -> None:
        url = route.request.url
        path = url.removeprefix(ORIGIN)
        if path == url:
            if not url.startswith(("data:", "blob:")):
                self.problems.append(f"request off the page: {url}")
            route.abort()
        elif path == "/":
            route.fulfill(body=self._html, content_type="text/html")
        elif path == "/favicon.ico":
            route.fulfill(status=204, body="")
        elif path.startswith("/joined/"):
            route.fulfill(body=esm(path.split("/")[-1].removesuffix(".js")), content_type="text/javascript")
        elif (STATIC / path.lstrip("/")).is_file():
            route.fulfill(path=str(STATIC / path.lstrip("/")))
        else:
            self.problems.append(f"no such file: {path}")
            route.fulfill(status=404, body="")

    # -- views ---------------------------------------------------------------------------------------------------

    def model(self, name: str, *traces: Trace, **traits: Any) -> None:
        """Make a model by a name."""
        state, buffers = state_of(*traces, **traits)
        self.page.evaluate(
            "([name, state, buffers]) => { window.model_of(name, state, buffers); }", [name, state, buffers]
        )

    def show(
        self,
        *traces: Trace,
        module: str = "stepper",
        name: str = "view",
        width: int | None = None,
        **traits: Any,
    ) -> View:
        """Make a model and a view of it, of the same name."""
        self.model(name, *traces, **traits)
        return self.view(name, module=module, name=name, width=width)

    def view(
        self, model: str, *, module: str = "stepper", name: str = "view", width: int | None = None
    ) -> View:
        """Another view of a model that exists."""
        path = module if module.startswith("/") else f"/{module}.js"
        self.page.evaluate(
            "([name, module, model, width]) => window.mount(name, module, model, width)",
            [name, path, model, width],
        )
        self.frames(2)
        return View(self, name, model)

    def frames(self, n: int = 2) -> None:
        """Wait for so many animation frames."""
        self.page.evaluate("n => window.frames(n)", n)

    def reset(self) -> list[str]:
        """Take all views away, and give what went wrong since the last time."""
        self.page.evaluate(
            "() => { Object.keys(window.views).forEach(window.unmount); window.models = {}; scrollTo(0, 0); }"
        )
        self.frames(1)
        problems, self.problems = self.problems, []
        return problems

    def close(self) -> None:
        """Close the page and all that belongs to it."""
        self.context.close()


class View:
    """One mounted view."""

    def __init__(self, page: Page, name: str, model: str) -> None:
        self.on = page
        self.page = page.page
        self.name = name
        self.model = model

    def __getitem__(self, selector: str) -> Any:
        """A locator inside the view."""
        return self.page.locator(f"#{self.name} {selector}")

    def get(self, trait: str) -> Any:
        return self.page.evaluate("([model, trait]) => window.models[model].get(trait)", [self.model, trait])

    def set(self, trait: str, value: Any) -> None:
        """Set a trait as the kernel, or a linked control, does."""
        self.page.evaluate(
            "([model, trait, value]) => window.models[model].set(trait, value)", [self.model, trait, value]
        )
        self.on.frames(1)  # a draw that was asked for comes first in the next frame

    def saves(self) -> list[dict[str, Any]]:
        return list(self.page.evaluate("model => window.models[model].saves", self.model))

    @property
    def draws(self) -> int:
        return int(self.page.evaluate("name => window.views[name].draws", self.name))

    def keys(self, *names: str) -> None:
        """Press keys on the view's root, and wait until what they began is over."""
        for name in names:
            self.page.locator(f"#{self.name} .kb").first.focus()
            self.page.keyboard.press(name)
        self.settle()

    def settle(self) -> None:
        """Wait until the view stands still: no draw for some frames, longer than a step takes to run through."""
        before = -1
        while before != self.draws:
            before = self.draws
            self.on.frames(3)

    def unfold(self) -> None:
        for button in self[".folded button.fold"].all():
            button.click()
        self.on.frames()

    def texts(self, selector: str) -> list[str]:
        """All texts that are shown, in document order."""
        return [
            text
            for text in self.page.evaluate(
                "s => [...document.querySelectorAll(s)].filter(e => e.checkVisibility() && e.style.display !== 'none')"
                ".map(e => e.textContent)",
                f"#{self.name} {selector}",
            )
            if text
        ]

    def collisions(self) -> list[str]:
        """Labels that lie over each other or are cut off."""
        return list(self.page.evaluate(COLLISIONS, self.name))

    def sideways(self) -> int:
        """Pixels by which something is wider than the view."""
        return int(
            self.page.evaluate(
                "name => { const e = document.querySelector(`#${name} .kb`); return e.scrollWidth - e.clientWidth; }",
                self.name,
            )
        )

    def unmount(self) -> None:
        self.page.evaluate("name => window.unmount(name)", self.name)
