"""Runs that the tests of the widgets look at; each is made once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernbench_nb as kb
from kernbench_nb.runtime_api.result import RunResult
from kernbench_nb.widgets.reader import Trace
from kernbench_nb.widgets.trace import trace_of

BROWSER = str(Path(__file__).parent / "browser")
if BROWSER not in sys.path:
    sys.path.insert(0, BROWSER)

LONG = 5
"""How many times over the long text is the sample's."""


def sample() -> tuple[Any, Any, Any]:
    return kb.sample_attention()


def decode(**options: Any) -> RunResult:
    q, k, v = sample()
    return kb.decode(q[-1:], k, v, **{"pes": 8, "tile": 16, **options})


def long_decode(**options: Any) -> RunResult:
    q, k, v = sample()
    k, v = (np.tile(x, (LONG, 1, 1)) for x in (k, v))
    return kb.decode(q[-1:], k, v, **{"pes": 1, "tile": 16, "data": False, **options})


def overflow() -> RunResult:
    with pytest.raises(kb.ScratchOverflowError) as caught:
        long_decode(scoped=False)
    return caught.value.run


def flash(**options: Any) -> RunResult:
    q, k, v = sample()
    return kb.flash(q[:, 4:5], k[:, 1:2], v[:, 1:2], **{"causal": True, **options})


def ring(**options: Any) -> RunResult:
    q, k, v = sample()
    return kb.prefill(q[:, :3], k[:, :1], v[:, :1], **{"cubes": 4, "causal": True, **options})


def softmax_rows(x: Any, y: Any, rows: int, n: int, *, tl: Any) -> None:
    """A kernel as a reader types it: plain scopes, no ranges, no names."""
    for r in range(rows):
        with tl.scratch_scope():
            a = tl.load(x + r * n, (n,))
            top = tl.max(a, 0)
            e = tl.exp(a - top)
            total = tl.sum(e, 0)
            tl.store(y + r * n, e / total)


def user() -> RunResult:
    x = np.arange(63, dtype=np.float32).reshape(9, 7)
    return kb.launch(softmax_rows, x, np.zeros_like(x), 9, 7)


def add(a: Any, b: Any, out: Any, n: int, *, tl: Any) -> None:
    m = n // tl.num_programs(0)
    at = tl.program_id(0) * m
    tl.store(out + at, tl.load(a + at, (m,)) + tl.load(b + at, (m,)))


def no_scopes() -> RunResult:
    a = np.ones(64, np.float32)
    return kb.launch(add, a, a.copy(), np.zeros_like(a), 64, pes=4)


def nothing() -> RunResult:
    def empty_kernel(*, tl: Any) -> None: ...

    return kb.launch(empty_kernel)


MAKERS: dict[str, Callable[[], RunResult]] = {
    "decode": lambda: decode(record="tiles"),
    "flash": lambda: flash(record="tiles"),
    "flash heads": lambda: kb.flash(
        *(x[:96] for x in sample()), tile_q=32, tile_kv=32, causal=True, data=False
    ),
    "ring": lambda: ring(record="tiles"),
    "prefetch": lambda: decode(pes=4, prefetch=True),
    "unscoped": lambda: decode(scoped=False, data=False),
    "long": long_decode,
    "overflow": overflow,
    "naive": lambda: kb.naive(*(x[:64, :1] for x in sample()), rows=32),
    "user": user,
    "no scopes": no_scopes,
    "nothing": nothing,
}

_RUNS: dict[str, RunResult] = {}
_TRACES: dict[str, Trace] = {}


def run_named(name: str) -> RunResult:
    if name not in _RUNS:
        _RUNS[name] = MAKERS[name]()
    return _RUNS[name]


def trace_named(name: str) -> Trace:
    if name not in _TRACES:
        _TRACES[name] = trace_of(run_named(name))
    return _TRACES[name]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium, started once for all folders: playwright takes no second one in a process."""
    from harness import chromium, find_chromium

    find_chromium()
    with chromium() as it:
        yield it


@pytest.fixture
def run_of() -> Callable[[str], RunResult]:
    return run_named


@pytest.fixture
def trace() -> Callable[[str], Trace]:
    return trace_named


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that asks for `any_run` runs on every run."""
    if "any_run" in metafunc.fixturenames:
        metafunc.parametrize("any_run", sorted(MAKERS))
