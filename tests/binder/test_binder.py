"""What Binder would make of the repository: no Docker, no network."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import nbformat
import pytest
from nbformat.sign import NotebookNotary

REPO = Path(__file__).resolve().parents[2]
README = (REPO / "README.md").read_text(encoding="utf-8")
PROJECT: dict[str, Any] = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))["project"]
BADGE = re.compile(
    r"https://mybinder\.org/v2/gh/(?P<repository>[\w.-]+/[\w.-]+)/[\w.-]+\?(?:urlpath|labpath)=(?P<path>[^)\s]+)"
)


def run(*command: str, folder: Path = REPO, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )


def test_repo2docker_renders_it() -> None:
    pytest.importorskip("repo2docker")
    rendered = run(sys.executable, "-W", "ignore", "-m", "repo2docker", "--no-build", "--debug", ".")
    assert rendered.returncode == 0, rendered.stderr
    dockerfile = rendered.stdout
    install = '/bin/pip install --no-cache-dir -r "binder/requirements.txt"'
    build = "RUN ./binder/postBuild"
    # the project must be there when it is installed from the folder
    copied = re.search(r"^COPY (--chown=\S+ )?src/ \$\{REPO_DIR\}/$", dockerfile, re.MULTILINE)
    assert copied
    steps = [copied.start(), dockerfile.index(install), dockerfile.index(build)]
    assert steps == sorted(steps)
    assert "Building conda environment for python=3.12" in rendered.stdout + rendered.stderr


def test_its_python_is_one_that_is_supported() -> None:
    version = re.fullmatch(r"python-3\.(\d+)\n", (REPO / "binder" / "runtime.txt").read_text())
    assert version
    assert f"Programming Language :: Python :: 3.{version[1]}" in PROJECT["classifiers"]


def test_its_requirements_resolve() -> None:
    """With what is installed for the tests: so with no network, and nothing is missing in the extra."""
    if importlib.util.find_spec("pip") is None:
        pytest.skip("needs pip in this environment")
    options = ("--dry-run", "--no-index", "--no-build-isolation", "--disable-pip-version-check")
    resolved = run(sys.executable, "-m", "pip", "install", *options, "-r", "binder/requirements.txt")
    assert resolved.returncode == 0, resolved.stderr
    assert re.search(r"^Would install kernbench[_-]nb-\d", resolved.stdout, re.MULTILINE)


def test_its_requirements_are_the_package_and_jupyterlab() -> None:
    assert (REPO / "binder" / "requirements.txt").read_text() == "-e .[lab]\n"
    lab = [re.split(r"[<>=~]", requirement) for requirement in PROJECT["optional-dependencies"]["lab"]]
    versions = {name: tuple(map(int, version.split("."))) for name, *_, version in lab}
    assert versions["jupyterlab"] >= (4, 4)
    assert set(versions) == {"anywidget", "ipykernel", "ipywidgets", "jupyterlab"}


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_it_trusts_the_notebooks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, clone = tmp_path / "data", tmp_path / "clone"
    shutil.copytree(
        REPO / "notebooks", clone / "notebooks", ignore=shutil.ignore_patterns(".ipynb_checkpoints", "*.py")
    )
    shutil.copytree(REPO / "binder", clone / "binder")
    assert os.access(clone / "binder" / "postBuild", os.X_OK)
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    done = run("binder/postBuild", folder=clone, PATH=path, JUPYTER_DATA_DIR=str(data))
    assert done.returncode == 0, done.stderr
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(data))
    notary = NotebookNotary()
    try:
        notebooks = [nbformat.read(file, as_version=4) for file in clone.rglob("*.ipynb")]
        assert all(map(notary.check_signature, notebooks))
    finally:
        notary.store.close()
    assert notebooks


def badge_faults(readme: str, project: dict[str, Any]) -> list[str]:
    """A badge only when the project names a repository, and then one that leads to a notebook of it."""
    urls = {name.lower(): url for name, url in project.get("urls", {}).items()}
    repository = urls.get("repository", "").removesuffix(".git").rstrip("/")
    badges = list(BADGE.finditer(readme))
    if not repository:
        return ["a badge, but no repository in pyproject.toml"] if "mybinder.org" in readme else []
    if not badges:
        return ["no badge, though pyproject.toml names a repository"]
    found = []
    for badge in badges:
        if not repository.endswith(f"github.com/{badge['repository']}"):
            found.append(f"the badge is of {badge['repository']}, the project of {repository}")
        target = unquote(badge["path"]).removeprefix("lab/tree/")
        if not (REPO / target).is_file():
            found.append(f"the badge leads to {target}, which is not there")
    return found


def test_the_badge() -> None:
    assert badge_faults(README, PROJECT) == []


NAMED = {"urls": {"Repository": "https://github.com/ann/kernbench_nb"}}
LINK = "[x](https://mybinder.org/v2/gh/{}/HEAD?urlpath=lab/tree/{})"


@pytest.mark.parametrize(
    ("readme", "project", "faults"),
    [
        ("", {}, []),
        (LINK.format("ann/kernbench_nb", "README.md"), {}, ["a badge, but no repository in pyproject.toml"]),
        ("", NAMED, ["no badge, though pyproject.toml names a repository"]),
        (LINK.format("ann/kernbench_nb", "notebooks%2F00_tour.ipynb"), NAMED, []),
        (
            LINK.format("bob/kernbench_nb", "notebooks/no.ipynb"),
            NAMED,
            [
                "the badge is of bob/kernbench_nb, the project of https://github.com/ann/kernbench_nb",
                "the badge leads to notebooks/no.ipynb, which is not there",
            ],
        ),
    ],
)
def test_a_wrong_badge_would_be_seen(readme: str, project: dict[str, Any], faults: list[str]) -> None:
    assert badge_faults(readme, project) == faults
