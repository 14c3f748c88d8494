"""How a result finds what writes it to a file, without importing it.

`RunResult` offers ``run.to_html(path)`` and the like, and those who write stand in rooms above this one. Imports point
down only, so this room knows them by name alone, as an entry point does: a text, which is looked up when somebody calls
it. It is the one place where a lower room names a higher one; a test looks that each name is there.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

__all__ = ["EXPORTERS", "exporter"]

EXPORTERS: dict[str, str] = {
    "to_chrome_trace": "kernbench_nb.export.chrome:write_chrome_trace",
    "to_html": "kernbench_nb.widgets.html:run_to_html",
}
"""Name of the method -> ``module:function``; the function is called with the result and a path."""


def exporter(name: str) -> Callable[..., Any]:
    """The function behind an exporting method of `RunResult`."""
    module, _, function = EXPORTERS[name].partition(":")
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found
