"""One self-contained page: modules, style and traces inlined; no network, no server, opens from disk."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from kernbench_nb.runtime_api.result import RunResult
from kernbench_nb.widgets.esm import css, esm
from kernbench_nb.widgets.scene import OnPage, scene

__all__ = ["Section", "page_text", "run_to_html", "write_page"]

_STYLE = """
body { margin: 0; padding: 16px 20px 40px;
  background: var(--jp-layout-color0, #fff); color: var(--jp-ui-font-color1, #24292f);
  font: 14px/20px var(--jp-ui-font-family, "Helvetica Neue", Helvetica, Arial, "Liberation Sans", sans-serif); }
main { max-width: 1248px; margin: 0 auto; }
main > h1, main > h2, main > p { padding: 0 16px; } /* in line with the views */
main > h1 { font-size: 22px; line-height: 28px; margin: 8px 0 4px; }
main > h2 { font-size: 18px; line-height: 24px; margin: 40px 0 4px; }
main > p { max-width: 72ch; margin: 4px 0 16px; }
@media (prefers-color-scheme: dark) {
  body { background: var(--jp-layout-color0, #111518); color: var(--jp-ui-font-color1, #d8dde2); }
}
"""

# What a module asks of a widget's model, without a kernel behind it.
_MODEL = """
class Model {
  constructor(state) { this.state = state; this.heard = {}; }
  get(name) { return this.state[name]; }
  set(name, value) {
    if (this.state[name] === value) return;
    this.state[name] = value;
    for (const hear of [...(this.heard[`change:${name}`] || []), ...(this.heard.change || [])]) hear();
  }
  on(event, hear) { (this.heard[event] ||= []).push(hear); }
  off(event, hear) {
    if (!event) this.heard = {};
    else this.heard[event] = hear ? (this.heard[event] || []).filter(other => other !== hear) : [];
  }
  save_changes() {}
  send() {}
}
const mount = async (module, number) => {
  const { state, buffers } = JSON.parse(document.getElementById(`state-${number}`).textContent);
  for (const name in buffers)
    state[name] = new DataView(Uint8Array.from(atob(buffers[name]), c => c.charCodeAt(0)).buffer);
  const el = document.getElementById(`view-${number}`);
  const model = new Model(state);
  await module.initialize?.({ model });
  await module.render({ model, el });
  // nothing else on a page of its own takes keys: the first view does, from the start
  if (number === 0) el.querySelector('.kb')?.focus({ preventScroll: true });
};
"""


# Nothing may be fetched, whatever stands in a label.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


class Showable(Protocol):
    """A scene, or a widget."""

    def on_page(self) -> OnPage:
        """What a page holds of it."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page.

    Attributes
    ----------
    view
        What is shown, a `kernbench_nb.widgets.scene.Scene` or a widget; None for text alone.
    heading, text
        What stands above it; plain text, a blank line between paragraphs.
    """

    view: Showable | None = None
    heading: str = ""
    text: str = ""


def write_page(path: str | Path, sections: Sequence[Section], *, title: str, lead: str = "") -> Path:
    """Write a page of one or several views.

    Parameters
    ----------
    path
        Where to; its folder must be there.
    sections
        What is on it, from the top.
    title
        Of the page.
    lead
        Plain text below the title; with it the title is shown as a heading too.

    Returns
    -------
    Path
        Of the file.
    """
    path = Path(path)
    path.write_text(page_text(sections, title=title, lead=lead), encoding="utf-8", newline="\n")
    return path


def page_text(sections: Sequence[Section], *, title: str, lead: str = "") -> str:
    """The page's text. Whatever a label says, it stays text: nothing in it can end an element or begin one."""
    body: list[str] = []
    if lead:
        body += [f"<h1>{html.escape(title)}</h1>", *_paragraphs(lead)]
    views: list[tuple[int, str]] = []
    for section in sections:
        if section.heading:
            body.append(f"<h2>{html.escape(section.heading)}</h2>")
        body += _paragraphs(section.text)
        if section.view is not None:
            number, shown = len(views), section.view.on_page()
            views.append((number, shown.entry))
            body.append(f'<div id="view-{number}"></div>')
            body.append(f"<noscript>{_still(shown)}</noscript>")
            body.append(f'<script type="application/json" id="state-{number}">{_state(shown)}</script>')
    scripts = []
    for entry in dict.fromkeys(entry for _, entry in views):
        mounts = "\n".join(f"await mount(${entry}.default, {number});" for number, e in views if e == entry)
        scripts.append(f'<script type="module">{_script(f"{esm(entry)}{_MODEL}{mounts}")}</script>')
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
            f"<title>{html.escape(title)}</title>",
            f"<style>{_STYLE}{_css_text()}</style></head>",
            "<body><main>",
            *body,
            "</main>",
            *scripts,
            "</body></html>",
            "",
        ]
    )


def run_to_html(run: RunResult, path: str | Path, **where: Any) -> Path:
    """`RunResult.to_html`: the stepper of a run as one page.

    Parameters
    ----------
    run
        The run.
    path
        Where to.
    where
        ``pe=``, ``tile=``, ``at=``: where to open; see `kernbench_nb.widgets.stepper.step`.
    """
    shown = scene(run, **where)
    return write_page(path, [Section(shown)], title=shown.title)


def _paragraphs(text: str) -> Iterable[str]:
    return [f"<p>{html.escape(' '.join(part.split()))}</p>" for part in text.split("\n\n") if part.strip()]


def _state(shown: OnPage) -> str:
    """What a page may read of a view, as JSON that cannot end the element it stands in."""
    state = {**shown.state, "view": "page"}  # a page has room: nothing is folded away
    buffers = {name: base64.b64encode(data).decode() for name, data in shown.buffers.items()}
    text = json.dumps({"state": state, "buffers": buffers}, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _still(shown: OnPage) -> str:
    picture = base64.b64encode(shown.picture.encode()).decode()
    return f'<img alt="{html.escape(shown.label)}" src="data:image/svg+xml;base64,{picture}">'


def _script(text: str) -> str:
    # in a script only these can end it, or change how it is read
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _css_text() -> str:
    return css().replace("</style", "<\\/style")
