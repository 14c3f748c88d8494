"""A real JupyterLab on this machine, and a notebook in it, driven by Chromium.

The server listens on the loopback address, has a home of its own, and looks nothing up: no settings of the reader's
take part, and none are left behind.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import kernbench_nb

HINT = "needs JupyterLab, which the extra `test` brings: pip install -e '.[test]'"
SECONDS = 30
"""How long anything here may take on a busy machine."""

# No news and no look for updates, which would leave the machine; and every cell in the page, also far down.
SETTINGS = {
    "apputils-extension/notification": '{"fetchNews": "false", "checkForUpdates": false, "doNotDisturbMode": true}',
    "notebook-extension/tracker": '{"windowingMode": "none"}',
}

READY = "() => window.jupyterapp?.shell?.currentWidget?.context?.isReady"
# an evaluated promise has no end of its own
LIMITED = """ms => Promise.race([
  WHAT,
  new Promise((_, fail) => setTimeout(() => fail(new Error(`not done after ${ms} ms`)), ms)),
])"""
KERNEL = "window.jupyterapp.shell.currentWidget.context.sessionContext.ready"
RUN_ALL = "window.jupyterapp.commands.execute('notebook:run-all-cells')"
OUTPUTS = """() => window.jupyterapp.shell.currentWidget.content.widgets
  .filter(cell => cell.model.type === 'code')
  .map(cell => ({ count: cell.model.executionCount, outputs: cell.model.outputs.toJSON() }))"""
ASK = """async code => {
  const kernel = window.jupyterapp.shell.currentWidget.context.sessionContext.session.kernel;
  const reply = await kernel.requestExecute({ code: '', silent: true, user_expressions: { it: code } }).done;
  const it = reply.content.user_expressions.it;
  return it.status === 'ok' ? it.data['text/plain'] : `${it.ename}: ${it.evalue}`;
}"""
CELLS = "() => window.jupyterapp.shell.currentWidget.content.widgets.length"
SELECT = """n => {
  const notebook = window.jupyterapp.shell.currentWidget.content;
  notebook.activeCellIndex = n;
  notebook.mode = 'command';
}"""
# a widget that is disposed of asks nobody whether to save
LEAVE = """async () => {
  const shown = window.jupyterapp.shell.currentWidget;
  await shown.context.sessionContext.shutdown();
  shown.dispose();
}"""
OPEN = """name => window.jupyterapp.commands
  .execute('docmanager:open', { path: name, factory: 'Notebook' })
  .then(() => null)"""
SHUT = """async () => {
  const shown = window.jupyterapp.shell.currentWidget;
  await shown.context.sessionContext.shutdown();
  await shown.context.save();
  shown.close();
}"""


def find_lab() -> None:
    """Skip the test where JupyterLab is missing."""
    if any(find_spec(name) is None for name in ("jupyterlab", "ipykernel", "anywidget", "ipywidgets")):
        pytest.skip(HINT)


def _free_port() -> int:
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return int(it.getsockname()[1])


@contextmanager
def serve(folder: Path, home: Path) -> Iterator[str]:
    """A JupyterLab on a folder; gives its address.

    Parameters
    ----------
    folder
        What it shows.
    home
        An empty folder for all that Jupyter and IPython keep.
    """
    for name, text in SETTINGS.items():
        file = home / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    package = str(Path(kernbench_nb.__file__).resolve().parents[1])
    environment = {
        **{key: value for key, value in os.environ.items() if key != "MPLBACKEND"},
        "HOME": str(home),
        "IPYTHONDIR": str(home / "ipython"),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "JUPYTER_PREFER_ENV_PATH": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, (package, os.environ.get("PYTHONPATH")))),
    }
    port = _free_port()
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}",
        "--ServerApp.port_retries=0", "--IdentityProvider.token=", f"--ServerApp.root_dir={folder}",
        "--expose-app-in-browser", "--LabApp.news_url=None", "--LabApp.extension_manager=readonly",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]  # fmt: skip
    log = home / "server.log"
    with log.open("w") as out:
        server = subprocess.Popen(command, env=environment, stdout=out, stderr=subprocess.STDOUT)
    address = f"http://127.0.0.1:{port}"
    try:
        _wait_for(address, server, log)
        yield address
    finally:
        server.terminate()
        try:
            server.wait(15)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


def _wait_for(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + SECONDS
    while True:
        try:
            with urllib.request.urlopen(f"{address}/api/status", timeout=5):
                return
        except OSError as error:
            if server.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"JupyterLab did not start:\n{log.read_text()}") from error
            time.sleep(0.05)  # nothing tells when a port opens


class Notebook:
    """A notebook that is open in JupyterLab.

    Attributes
    ----------
    page
        Playwright's own.
    errors
        What the page's console called an error, and what nobody caught.
    outside
        Requests for anything but the server.
    """

    def __init__(self, browser: Any, address: str, name: str) -> None:
        self.context = browser.new_context(viewport={"width": 1300, "height": 1000}, reduced_motion="reduce")
        self.context.set_default_timeout(SECONDS * 1000)
        self.errors: list[str] = []
        self.outside: list[str] = []
        self.page = self.context.new_page()
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on(
            "console", lambda message: self.errors.append(message.text) if message.type == "error" else None
        )
        self.context.route(lambda url: not self._here(url, address), self._refuse)
        self.page.on(
            "websocket", lambda it: None if self._here(it.url, address) else self.outside.append(it.url)
        )
        self.page.goto(f"{address}/lab/tree/{name}?reset")
        self._ready()

    def open(self, name: str) -> None:
        """Show another notebook in the same page, in place of this one, whose kernel ends and which is not saved."""
        self.page.evaluate(LEAVE)
        self.page.evaluate(OPEN, name)
        self._ready()
        self.errors.clear()
        self.outside.clear()

    def _ready(self) -> None:
        self.page.wait_for_function(READY)
        self._wait(KERNEL)

    @staticmethod
    def _here(url: str, address: str) -> bool:
        host = address.removeprefix("http://")
        return url.startswith((f"http://{host}/", f"ws://{host}/", "data:", "blob:"))

    def _refuse(self, route: Any) -> None:
        self.outside.append(route.request.url)
        route.abort()

    def _wait(self, promise: str) -> None:
        self.page.evaluate(LIMITED.replace("WHAT", f"{promise}.then(() => null)"), SECONDS * 1000)

    def run_all(self) -> Sequence[Any]:
        """Run every cell; gives the outputs of those that hold code, and checks that all of them ran."""
        self._wait(RUN_ALL)
        cells = self.page.evaluate(OUTPUTS)
        assert [cell["count"] for cell in cells] == list(range(1, len(cells) + 1))
        return [cell["outputs"] for cell in cells]

    def ask(self, expression: str) -> str:
        """The repr of a Python expression, by the kernel."""
        return str(self.page.evaluate(ASK, expression))

    def cell(self, n: int) -> Any:
        """A cell, as a locator."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(n)

    def select(self, n: int) -> None:
        """Make a cell the active one, in command mode."""
        self.page.evaluate(SELECT, n)

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return int(self.page.evaluate(CELLS))

    def close(self) -> None:
        """End the kernel, and close the page."""
        self.page.evaluate(SHUT)
        self.context.close()
