"""How a result finds those who write it."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernbench_nb.runtime_api import exporters
from kernbench_nb.runtime_api.exporters import EXPORTERS, exporter
from kernbench_nb.runtime_api.result import RunResult


@pytest.mark.parametrize("name", sorted(EXPORTERS))
def test_every_name_is_there_and_is_a_method(name: str) -> None:
    function = exporter(name)
    assert list(inspect.signature(function).parameters)[:2] == ["run", "path"]
    assert callable(getattr(RunResult, name))
    assert getattr(RunResult, name).__doc__


def test_a_method_hands_on_what_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def write(run: Any, path: Any, **more: Any) -> Path:
        seen.append((run, path, more))
        return Path(path)

    module = SimpleNamespace(run_to_html=write)
    monkeypatch.setattr(exporters, "import_module", lambda name: module)
    run = RunResult.__new__(RunResult)
    assert run.to_html("a.html", pe=3) == Path("a.html")
    assert seen == [(run, "a.html", {"pe": 3})]
