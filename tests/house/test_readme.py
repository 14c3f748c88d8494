"""The README's two commands are the ones that CI runs, and its links lead somewhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
README = (REPO / "README.md").read_text(encoding="utf-8")
PAGES = sorted([*REPO.glob("*.md"), *(REPO / "docs").rglob("*.md")])
LINK = re.compile(r"\]\((?!https?:|mailto:|#)([^)#\s]+)")


def commands(text: str) -> list[str]:
    """Every line inside the shell blocks of a page."""
    blocks = re.findall(r"^```(?:sh|bash|console)\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.strip()]


def test_there_are_exactly_two_commands() -> None:
    main_job, tests = commands(README)
    assert main_job.endswith("kernbench-nb tour")
    assert tests.endswith("python -m pytest")
    for command in (main_job, tests):
        assert command.startswith("python3 -m venv .venv && .venv/bin/pip install ")


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_ci_runs_the_test_command_of_the_readme() -> None:
    """``.ci/run --print`` shows the command that it took from the README, and does nothing else."""
    shown = subprocess.run(
        ["bash", ".ci/run", "--print"], cwd=REPO, capture_output=True, text=True, check=False
    )
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.splitlines() == [commands(README)[1]]


@pytest.mark.skipif(os.name != "posix", reason="permission bits")
def test_ci_can_be_executed() -> None:
    assert os.access(REPO / ".ci" / "run", os.X_OK)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(REPO).as_posix())
def test_every_relative_link_leads_to_a_file(page: Path) -> None:
    targets = LINK.findall(page.read_text(encoding="utf-8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []
