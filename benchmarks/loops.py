"""What one would write without a simulator: attention tile by tile in plain numpy, and in float64 to check it.

The arithmetic of the loop is that of the package's fold: K and V arrive in f16 and are cast to f32 tile by tile, the
weights P are rounded to f16 before the second product, m, l and O run along in f32. It models no time, keeps no log,
has no scratch that could overflow and checks nothing.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["attention_float64", "decode_loop", "prefill_loop", "worst_error"]

Array = npt.NDArray[Any]


def decode_loop(q: Array, k: Array, v: Array, tile: int) -> Array:
    """Attention of a few tokens over many keys, all heads of a tile at once.

    Parameters
    ----------
    q, k, v
        ``(T_q, h_q, d)``, ``(S_kv, h_kv, d)``, f16.
    tile
        Keys handled at once.

    Returns
    -------
    Array
        ``(T_q, h_q, d)``, f16.
    """
    T_q, h_q, d = q.shape
    S_kv, h_kv, _ = k.shape
    rows = h_q // h_kv * T_q
    scale = np.float32(1.0 / math.sqrt(d))
    Q = q.transpose(1, 0, 2).reshape(h_kv, rows, d).astype(np.float32)
    m = np.full((h_kv, rows, 1), -np.inf, np.float32)
    l = np.zeros((h_kv, rows, 1), np.float32)
    O = np.zeros((h_kv, rows, d), np.float32)
    for at in range(0, S_kv, tile):
        K = k[at : at + tile].astype(np.float32).transpose(1, 2, 0)
        V = v[at : at + tile].astype(np.float32).transpose(1, 0, 2)
        s = Q @ K
        s *= scale
        m_new = np.maximum(m, s.max(-1, keepdims=True))
        p = np.exp(s - m_new)
        c = np.exp(m - m_new)
        l = l * c + p.sum(-1, keepdims=True)
        O = O * c + p.astype(np.float16).astype(np.float32) @ V
        m = m_new
    out: Array = (O / l).reshape(h_q, T_q, d).transpose(1, 0, 2).astype(np.float16)
    return out


def prefill_loop(q: Array, k: Array, v: Array, tile_q: int, tile_kv: int) -> Array:
    """Attention of many tokens, one head: query blocks outside, KV tiles inside (FlashAttention-2).

    Parameters
    ----------
    q, k, v
        ``(T_q, d)``, ``(S_kv, d)``, f16.
    tile_q, tile_kv
        Rows of a query block, keys of a tile.

    Returns
    -------
    Array
        ``(T_q, d)``, f16.
    """
    T_q, d = q.shape
    scale = np.float32(1.0 / math.sqrt(d))
    out = np.empty((T_q, d), np.float16)
    for top in range(0, T_q, tile_q):
        Q = q[top : top + tile_q].astype(np.float32)
        m = np.full((len(Q), 1), -np.inf, np.float32)
        l = np.zeros((len(Q), 1), np.float32)
        O = np.zeros((len(Q), d), np.float32)
        for at in range(0, len(k), tile_kv):
            K = k[at : at + tile_kv].astype(np.float32)
            V = v[at : at + tile_kv].astype(np.float32)
            s = Q @ K.T
            s *= scale
            m_new = np.maximum(m, s.max(-1, keepdims=True))
            p = np.exp(s - m_new)
            c = np.exp(m - m_new)
            l = l * c + p.sum(-1, keepdims=True)
            O = O * c + p.astype(np.float16).astype(np.float32) @ V
            m = m_new
        out[top : top + tile_q] = O / l
    return out


def attention_float64(q: Array, k: Array, v: Array) -> Array:
    """The same without tiles, in float64, head by head: ``(T_q, h_q, d)``."""
    T_q, h_q, d = q.shape
    group = h_q // k.shape[1]
    out = np.empty((T_q, h_q, d))
    for head in range(h_q):
        K = k[:, head // group].astype(np.float64)
        V = v[:, head // group].astype(np.float64)
        s = q[:, head].astype(np.float64) @ K.T / math.sqrt(d)
        p = np.exp(s - s.max(-1, keepdims=True))
        out[:, head] = p @ V / p.sum(-1, keepdims=True)
    return out


def worst_error(found: Array, reference: Array) -> float:
    """The largest ``|error| / (1 + |reference|)``; f16 may have 2e-3 (the rule of ``run.check()``)."""
    return float(np.max(np.abs(found.astype(np.float64) - reference) / (1.0 + np.abs(reference))))
