"""The pictures of the documentation say what the package says now."""

from __future__ import annotations

import os
import subprocess
import sys
from io import BytesIO
from pathlib import Path

from PIL import Image

REPO = Path(__file__).resolve().parents[2]
IMAGES = REPO / "docs" / "images"


def test_the_picture_of_the_readme_is_drawn_from_todays_numbers(tmp_path: Path) -> None:
    made = subprocess.run(
        [sys.executable, str(IMAGES / "make.py"), str(tmp_path)], capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(REPO), os.environ.get("PYTHONPATH", "")])},
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    files = [folder / "arena_timeline.png" for folder in (tmp_path, IMAGES)]
    fresh, kept = (Image.open(BytesIO(file.read_bytes())) for file in files)
    says = kept.info["Description"]
    assert says == fresh.info["Description"] == made.stdout.strip(), (
        "draw it again: python docs/images/make.py"
    )
    assert kept.size == fresh.size
    assert "ScratchOverflowError" in says
    assert files[1].stat().st_size < 250_000
