"""Calling the command line in this process, and looking at what it said."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kernbench_nb.cli import main

Call = Callable[..., Result]


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Call:
    """``call("run", "gqa_decode")`` in an empty folder, as a process would run it."""
    monkeypatch.chdir(tmp_path)
    return lambda *args: CliRunner().invoke(main, list(args), prog_name="kernbench-nb")


@pytest.fixture
def refused(call: Call) -> Callable[..., str]:
    """``refused(code, *args)``: the one line of an error that ends with that exit code and prints nothing else."""

    def one_line(code: int, *args: str) -> str:
        result = call(*args)
        assert (result.exit_code, result.stdout) == (code, ""), result.output
        found = re.fullmatch(r"Error: (.+)\n", result.stderr)
        assert found, result.stderr
        return found[1]

    return one_line
