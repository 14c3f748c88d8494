"""`kb.bench`: the kernels by name, on random data of given sizes."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kernbench_nb.benches import entry, softmax
from kernbench_nb.benches._checks import check_count, check_names
from kernbench_nb.dtypes import f32, resolve_dtype
from kernbench_nb.runtime_api.result import RunResult
from kernbench_nb.runtime_api.tensor import host_array

__all__ = ["BENCHES", "Bench", "bench", "find_bench"]


@dataclass(frozen=True, slots=True)
class Bench:
    """A kernel that can be run by name.

    Attributes
    ----------
    name, about
        What it is called, and one line on what it does.
    run
        Its entry point: ``run(*arrays, **arguments)``.
    sizes
        Its sizes with their defaults: ``T_q, S_kv, h_q, h_kv, d`` for attention.
    shapes
        Called with the sizes by name: the shapes of the arrays.
    """

    name: str
    about: str
    run: Callable[..., RunResult]
    sizes: dict[str, int]
    shapes: Callable[..., list[tuple[int, ...]]]

    @property
    def arguments(self) -> dict[str, Any]:
        """Its own keyword arguments with their defaults."""
        return {
            p.name: p.default
            for p in inspect.signature(self.run).parameters.values()
            if p.kind is p.KEYWORD_ONLY and p.name not in ("h_q", "h_kv")
        }


def _attention(T_q: int, S_kv: int, h_q: int, h_kv: int, d: int) -> list[tuple[int, ...]]:
    """Shapes of q, k and v."""
    return [(T_q, h_q, d), (S_kv, h_kv, d), (S_kv, h_kv, d)]


def _rows(n: int, m: int) -> list[tuple[int, ...]]:
    """The shape of n rows of m scores."""
    return [(n, m)]


_EMPTY = ("S_kv", "m")
"""Sizes that may be 0."""

BENCHES = {
    b.name: b
    for b in (
        Bench(
            "gqa_decode",
            "flash decode: one query token, keys split over PEs, states merged",
            entry.decode,
            {"T_q": 1, "S_kv": 8192, "h_q": 8, "h_kv": 1, "d": 128},
            _attention,
        ),
        Bench(
            "gqa_prefill",
            "prefill on a ring of cubes: K and V blocks travel",
            entry.prefill,
            {"T_q": 128, "S_kv": 128, "h_q": 8, "h_kv": 1, "d": 128},
            _attention,
        ),
        Bench(
            "flash_attention",
            "flash attention on one PE, query blocks x KV tiles",
            entry.flash,
            {"T_q": 512, "S_kv": 512, "h_q": 1, "h_kv": 1, "d": 64},
            _attention,
        ),
        Bench(
            "naive_attention",
            "standard attention on one PE: scores and weights go through HBM",
            entry.naive,
            {"T_q": 256, "S_kv": 256, "h_q": 1, "h_kv": 1, "d": 64},
            _attention,
        ),
        Bench(
            "safe_softmax",
            "softmax of rows in three passes: maximum, sum, quotient; 4 accesses an element",
            softmax.safe_softmax,
            {"n": 64, "m": 1024},
            _rows,
        ),
        Bench(
            "online_softmax",
            "softmax of rows in two passes: one fold, quotient; 3 accesses an element",
            softmax.online_softmax,
            {"n": 64, "m": 1024},
            _rows,
        ),
    )
}


def find_bench(name: str) -> Bench:
    """A bench by name.

    Raises
    ------
    ValueError
        Naming the nearest, and all.
    """
    found = BENCHES.get(name)
    if found is None:
        near = difflib.get_close_matches(name, BENCHES, n=1) or [it for it in BENCHES if name and name in it]
        hint = f"; did you mean {near[0]!r}?" if near else "."
        raise ValueError(f"no bench is called {name!r}{hint} There are: {', '.join(BENCHES)}.")
    return found


def bench(name: str, *, seed: int = 0, data: bool = True, dtype: Any = "f16", **arguments: Any) -> RunResult:
    """Run a kernel by name on random data.

    Parameters
    ----------
    name
        One of `BENCHES`.
    seed
        Of the random numbers (standard normal).
    data
        False runs in timing mode, where no numbers are made at all.
    dtype
        Of the arrays.
    arguments
        Its sizes (``T_q, S_kv, h_q, h_kv, d`` for attention), and everything that the kernel's entry point takes.

    Raises
    ------
    ValueError
        For an unknown name or a size that is no whole number.
    TypeError
        For an argument that neither names a size nor belongs to the entry point; the nearest is named.
    """
    found = find_bench(name)
    check_names(f"bench {name}", arguments, (*found.sizes, *found.arguments))
    size = {
        key: check_count(key, arguments.pop(key, default), 0 if key in _EMPTY else 1)
        for key, default in found.sizes.items()
    }
    shapes = found.shapes(**size)
    to = resolve_dtype(dtype)
    if data:
        random = np.random.default_rng(seed)
        arrays = [host_array(random.standard_normal(shape, np.float32), to)[0] for shape in shapes]
    else:
        # timing mode looks at shapes only: one element stands for all
        one = host_array(np.zeros((), f32.np), to)[0]
        arrays = [np.broadcast_to(one, shape) for shape in shapes]
    return found.run(*arrays, data=data, **arguments)
