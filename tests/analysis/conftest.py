"""Small runs that several tests of this room look at, each made once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import kernbench_nb as kb
from kernbench_nb.runtime_api.result import RunResult

Runs = Callable[[str], RunResult]


def speech(times: int = 1, keys: int | None = None) -> list[Any]:
    """q of the last token, and k and v of the text, several times over, cut."""
    q, k, v = kb.sample_attention()
    return [q[-1:], *(np.tile(x, (times, 1, 1))[:keys] for x in (k, v))]


def _run(name: str) -> RunResult:
    q, k, v = kb.sample_attention()
    one = (q[:, 4:5], k[:, 1:2], v[:, 1:2])
    match name:
        case "one":
            return kb.decode(*speech(), pes=1, tile=16, data=False)
        case "eight":
            return kb.decode(*speech(), pes=8, tile=16, data=False)
        case "plain":
            return kb.decode(*speech(5, 1280), pes=1, tile=64, data=False)
        case "prefetched":
            return kb.decode(*speech(5, 1280), pes=1, tile=64, prefetch=True, data=False)
        case "ring":
            return kb.prefill(q, k, v, cubes=4, data=False)
        case "flash":
            return kb.flash(*one, data=False)
        case "fa1":
            return kb.flash(*one, order="fa1", data=False)
        case "causal":
            return kb.flash(*one, causal=True, data=False)
        case "naive":
            return kb.naive(*one, data=False)
        case "nothing":
            return kb.launch(lambda tl: None, data=False)
        case "no engine":
            return RunResult(completion=_run("nothing").completion, topology=_run("nothing").topology)
    raise KeyError(name)


@pytest.fixture(scope="session")
def runs() -> Runs:
    """A run by its name, made once."""
    return cache(_run)
