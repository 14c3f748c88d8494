"""Runs to draw, in timing mode: times, addresses and names are those of data mode."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

import kernbench_nb as kb
from kernbench_nb.runtime_api.result import RunResult

Runs = Callable[[str], RunResult]


def overflown(pes: int = 1, times: int = 3, tile: int = 16) -> RunResult:
    q, k, v = kb.sample_attention()
    k, v = np.tile(k, (times, 1, 1)), np.tile(v, (times, 1, 1))
    with pytest.raises(kb.ScratchOverflowError) as caught:
        kb.decode(q[-1:], k, v, pes=pes, tile=tile, scoped=False, data=False)
    run: RunResult = caught.value.run
    return run


def hostile() -> RunResult:
    """Names and labels that mean something to mathtext, to HTML, to legends, and to whoever lays out lines."""

    def kernel(tl: kb.TLContext) -> None:
        a = tl.full((64, 64), 1.0, "f32", name="$x^{")
        with tl.scratch_scope("<img src=x onerror=alert(1)>", kind="tile"):
            b = tl.add(a, a, name="_")
            with tl.scratch_scope("two\nlines", kind="merge"):
                c = tl.mul(b, b, name="<img>")
                tl.add(c, c, name="a name that is much longer than any column of any list could ever be")

    return kb.launch(kernel, data=False)


def no_scopes() -> RunResult:
    """A kernel that opens no scope, and most of whose results have no name."""

    def kernel(tl: kb.TLContext) -> None:
        x = tl.full((64, 64), 1.0, "f32", name="x")
        z = tl.exp(x * x + x)
        tl.dot(z, tl.exp(z))

    return kb.launch(kernel, data=False)


def _run(name: str) -> RunResult:
    q, k, v = kb.sample_attention()
    one = (q[:, 4:5], k[:, 1:2], v[:, 1:2])
    match name:
        case "one":
            return kb.decode(q[-1:], k, v, pes=1, tile=16, data=False)
        case "eight":
            return kb.decode(q[-1:], k, v, pes=8, tile=16, data=False)
        case "many":
            return kb.bench(
                "gqa_decode", S_kv=2048, h_q=9, h_kv=3, d=64, tile=16, pes=64, cubes=8, data=False
            )
        case "long":
            return kb.bench("gqa_decode", S_kv=8192, h_q=9, h_kv=3, d=64, tile=16, pes=1, data=False)
        case "prefetch":
            return kb.decode(q[-1:], k, v, pes=1, tile=64, prefetch=True, data=False)
        case "ring":
            return kb.prefill(q, k, v, cubes=4, data=False)
        case "causal":
            return kb.flash(*one, causal=True, data=False)
        case "fa1":
            return kb.flash(*one, order="fa1", data=False)
        case "tree":
            return kb.decode(q[-1:], k, v, pes=8, tile=16, merge="tree", data=False)
        case "naive":
            return kb.naive(*one, data=False)
        case "overflow":
            return overflown()
        case "overflow of 8":
            return overflown(pes=8, times=30, tile=64)
        case "hostile":
            return hostile()
        case "no scopes":
            return no_scopes()
        case "nothing":
            return kb.launch(lambda tl: None, data=False)
    raise KeyError(name)


@pytest.fixture(scope="session")
def runs() -> Runs:
    """A run by its name, made once."""
    return cache(_run)
