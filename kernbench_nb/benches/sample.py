"""Real attention data, shipped in the package.

The last layer (29) of SmolLM2-135M over 319 tokens of the Gettysburg Address: q and k after RoPE, and v. The
model is Apache-2.0, the text is in the public domain; NOTICE says so too.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

Half: TypeAlias = NDArray[np.float16]

_FILE = "smollm2_layer29.npz"


@overload
def sample_attention(*, tokens: Literal[False] = False) -> tuple[Half, Half, Half]: ...
@overload
def sample_attention(*, tokens: Literal[True]) -> tuple[Half, Half, Half, list[str]]: ...
@overload
def sample_attention(*, tokens: bool) -> tuple[Any, ...]: ...


def sample_attention(*, tokens: bool = False) -> tuple[Any, ...]:
    """One layer's queries, keys and values of a real model that has read 319 tokens.

    Parameters
    ----------
    tokens : bool
        Give the text too, token by token, for labels.

    Returns
    -------
    q : float16 array, (319, 9, 64)
        Nine query heads, RoPE applied.
    k : float16 array, (319, 3, 64)
        Three KV heads, RoPE applied; query head h reads KV head ``h // 3``.
    v : float16 array, (319, 3, 64)
    tokens : list of str, 319 of them
        Only if asked for; a leading space belongs to the token.

    Notes
    -----
    The arrays are read-only and loaded once per process: every call gives the same three. Change a copy.
    """
    q, k, v, words = _load()
    return (q, k, v, list(words)) if tokens else (q, k, v)


@lru_cache(maxsize=1)
def _load() -> tuple[Half, Half, Half, tuple[str, ...]]:
    archive = files("kernbench_nb.benches") / "data" / _FILE
    with archive.open("rb") as stream, np.load(stream, allow_pickle=False) as data:
        arrays = [data[name] for name in ("q", "k", "v")]
        words = tuple(data["tokens"].tolist())
    for array in arrays:
        array.flags.writeable = False
    return arrays[0], arrays[1], arrays[2], words
