"""A wheel carries everything that the package needs (an editable install, as the tests use, hides a gap)."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from kernbench_nb._lab import course_files

REPO = Path(__file__).resolve().parents[2]
COURSE = "kernbench_nb/_course_files/"
MADE = {".pyc", ".pyo"}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The wheel of this tree, built with no network by the backend that pyproject.toml names."""
    folder = tmp_path_factory.mktemp("wheel")
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=REPO, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stdout + built.stderr
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


def test_the_wheel_has_every_file_of_the_package(wheel: zipfile.ZipFile) -> None:
    package = REPO / "kernbench_nb"
    files = {path.relative_to(REPO).as_posix() for path in package.rglob("*") if path.is_file()}
    expected = {file for file in files if Path(file).suffix not in MADE and "/." not in file}
    packed = {name for name in wheel.namelist() if name.startswith("kernbench_nb/")}
    assert {name for name in packed if not name.startswith(COURSE)} == expected
    assert "kernbench_nb/py.typed" in packed


def test_the_wheel_has_the_course(wheel: zipfile.ZipFile, tmp_path: Path) -> None:
    """Unpacked somewhere else, with no clone beside it, it makes the same copy as the clone does."""
    notebooks = {path.relative_to(REPO).as_posix() for path in (REPO / "notebooks").rglob("*.ipynb")}
    pages = {"docs/GLOSSARY.md", "docs/api.md"}
    assert {
        name.removeprefix(COURSE) for name in wheel.namelist() if name.startswith(COURSE)
    } == notebooks | pages
    wheel.extractall(tmp_path / "site")
    environment = {
        **os.environ,
        "PYTHONPATH": str(tmp_path / "site"),
        "JUPYTER_DATA_DIR": str(tmp_path / "data"),
    }
    made = subprocess.run(
        [sys.executable, "-m", "kernbench_nb", "lab", "mine", "--copy-only"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    for name, text in course_files().items():
        assert (tmp_path / "mine" / name).read_text(encoding="utf-8") == text, name


def test_the_wheel_has_its_licences_and_command(wheel: zipfile.ZipFile) -> None:
    info = {name.partition(".dist-info/")[2]: name for name in wheel.namelist() if ".dist-info/" in name}
    assert {"licenses/LICENSE", "licenses/NOTICE"} <= set(info)
    assert wheel.read(info["entry_points.txt"]).decode().split() == [
        "[console_scripts]", "kernbench-nb", "=", "kernbench_nb.cli:main",
    ]  # fmt: skip
