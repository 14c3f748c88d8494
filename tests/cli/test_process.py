"""The command line as a process: its exit codes, its pipes, and what it loads."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

Call = Callable[..., Result]


def process(*args: str, folder: Path, code: str = "") -> subprocess.CompletedProcess[str]:
    """``python -m kernbench_nb ...``, or `code` with the same arguments, in a folder."""
    how = ("-c", code) if code else ("-m", "kernbench_nb")
    return subprocess.run(
        [sys.executable, *how, *args],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "latin-1"},
    )


def test_tour_as_a_process(call: Call, tmp_path: Path) -> None:
    expected = call("tour", "--out", "α")
    found = process("tour", "--out", "α", folder=tmp_path)
    assert (found.returncode, found.stderr) == (0, "")
    # the folder's name is all that this terminal cannot show
    assert found.stdout == expected.stdout.replace("α", "\\u03b1")
    assert {path.suffix for path in (tmp_path / "α").iterdir()} == {".html", ".png"}


def test_an_error_as_a_process(tmp_path: Path) -> None:
    found = process("run", "nothing", folder=tmp_path)
    assert (found.returncode, found.stdout) == (2, "")
    assert found.stderr.startswith("Error: no bench is called 'nothing'")
    assert found.stderr.count("\n") == 1


LOADED = """
import sys
from kernbench_nb.cli import main
try:
    main(sys.argv[1:])
finally:
    heavy = {"pandas", "matplotlib", "matplotlib.pyplot", "numpy", "IPython"} & set(sys.modules)
    print(*sorted(heavy), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("args", "loaded"),
    [
        (("--help",), ""),
        (("--version",), ""),
        (("list",), "numpy"),
        (("run", "gqa_decode", "--set", "S_kv=64", "--set", "tile=8"), "numpy"),
        (("tour", "--no-pictures"), "numpy"),
        (("tour",), "matplotlib numpy"),
    ],
)
def test_a_command_loads_what_it_needs(tmp_path: Path, args: tuple[str, ...], loaded: str) -> None:
    found = process(*args, folder=tmp_path, code=LOADED)
    assert (found.returncode, found.stderr) == (0, f"{loaded}\n")
