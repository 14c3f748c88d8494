"""The benchmarks are no part of the package; they are found in the clone."""

from __future__ import annotations

import sys
from pathlib import Path

import kernbench_nb  # noqa: F401 - the one that is under test is known before the clone comes first on the path

REPO = str(Path(__file__).resolve().parents[2])

if REPO not in sys.path:
    sys.path.insert(0, REPO)
