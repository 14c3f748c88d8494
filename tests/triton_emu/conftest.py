"""numpy's errors are silent in these tests, as they are inside a launch."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def _silent() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield
