"""The work that is timed: sizes of the four data workloads, and a fold in the package's language with its cost list."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from kernbench_nb.benches._step import fold_tile, init_state
from kernbench_nb.topology import Topology

__all__ = ["DATA", "Attention", "Fold", "Op", "exchange_kernel", "sweep_kernel"]

Array = npt.NDArray[Any]


# -- data mode -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Attention:
    """Sizes of one attention."""

    T_q: int
    S_kv: int
    h_q: int
    h_kv: int
    d: int
    tile: int
    tile_q: int = 0  # 0: decode

    def inputs(self, seed: int = 0) -> tuple[Array, Array, Array]:
        """q, k, v in f16, standard normal."""
        random = np.random.default_rng(seed)
        shapes = (self.T_q, self.h_q), (self.S_kv, self.h_kv), (self.S_kv, self.h_kv)
        q, k, v = (random.standard_normal((*s, self.d), np.float32).astype(np.float16) for s in shapes)
        return q, k, v


DATA = {
    "W1": Attention(T_q=1, S_kv=8192, h_q=8, h_kv=1, d=128, tile=64),
    "W2": Attention(T_q=1, S_kv=8192, h_q=64, h_kv=8, d=128, tile=64),
    "W3": Attention(T_q=512, S_kv=4096, h_q=1, h_kv=1, d=64, tile=64, tile_q=64),
    "W4": Attention(T_q=1, S_kv=131072, h_q=8, h_kv=1, d=128, tile=128),
}
"""W1, W2, W4 are decodes on one PE, W3 is a prefill of one head."""


# -- timing mode -----------------------------------------------------------------------------------------------


class Op(NamedTuple):
    """One operation as a model without a language sees it: what it is called, where it runs, and for how many ps."""

    name: str
    engine: str
    ps: int


@dataclass(frozen=True, slots=True)
class Fold:
    """The fold of one K, V tile into a running state, one KV head at the sizes of W1.

    Attributes
    ----------
    rows, d, tile
        Query rows, size of a head, keys of a tile.
    """

    rows: int = 8
    d: int = 128
    tile: int = 64

    @property
    def kv_bytes(self) -> int:
        """Of one K or V tile, f16."""
        return 2 * self.tile * self.d

    def loads(self, machine: Topology) -> tuple[Op, Op]:
        """K and V; the ps are those that the HBM channel is busy, data comes the latency later."""
        load = Op("dma_read", "dma", machine.costs.hbm_busy_ps(self.kv_bytes))
        return load, load

    def q_load(self, machine: Topology) -> Op:
        """The load of Q, once."""
        return Op("dma_read", "dma", machine.costs.hbm_busy_ps(2 * self.rows * self.d))

    def ops(self, machine: Topology, first: bool) -> Sequence[Op]:
        """What follows the loads, in order; written down from kernels.md's list, not read off a run."""
        cost = machine.costs
        rows, d, tile = self.rows, self.d, self.tile

        def math_op(name: str, n: int) -> Op:
            return Op(name, "math", cost.math_ps(name, n))

        def reduce(name: str, n: int) -> Op:
            return Op(name, "math", cost.reduce_ps(name, n))

        def copy(n: int) -> Op:
            return Op("copy", "math", cost.copy_ps(4 * n))

        qk = Op("gemm", "gemm", cost.gemm_ps(1, rows, tile, d))
        pv = Op("gemm", "gemm", cost.gemm_ps(1, rows, d, tile))
        scores = rows * tile
        if first:
            return (
                qk, math_op("mul", scores), reduce("max", scores), math_op("sub", scores), math_op("exp", scores),
                reduce("sum", scores), math_op("cast", scores), pv,
            )  # fmt: skip
        return (
            qk,
            math_op("mul", scores),  # s = qk * scale
            reduce("max", scores),
            math_op("maximum", rows),  # m_new
            math_op("sub", scores),
            math_op("exp", scores),
            math_op("sub", rows),
            math_op("exp", rows),  # c
            math_op("mul", rows),  # l * c
            reduce("sum", scores),
            math_op("add", rows),  # l_new
            math_op("mul", rows * d),  # O * c
            math_op("cast", scores),  # p
            pv,
            math_op("add", rows * d),  # O_new
            copy(rows),
            copy(rows),
            copy(rows * d),
        )

    def count(self, tiles: int) -> int:
        """Operations of a sweep: Q, then 10 for the first tile and 20 for each later one."""
        return 1 + 10 + 20 * (tiles - 1)


def sweep_kernel(q: Any, k: Any, v: Any, fold: Fold, tiles: int, *, tl: Any) -> None:
    """Load Q, then load and fold one tile after the other; the same two tiles of HBM serve all of them."""
    rows, d, t = fold.rows, fold.d, fold.tile
    Q = tl.load(q, (1, rows, d), name="Q")
    state = init_state(tl, 1, rows, d)
    scale = 1.0 / math.sqrt(d)
    for i in range(tiles):
        with tl.scratch_scope("tile", kind="tile", keys=(i * t, i * t + t)):
            K, V = tl.wait(
                tl.load_async(k, (1, d, t), strides=(0, 1, d), name="K"),
                tl.load_async(v, (1, t, d), name="V"),
            )
            fold_tile(tl, state, Q, K, V, scale=scale, first=i == 0)


def exchange_kernel(q: Any, k: Any, v: Any, fold: Fold, tiles: int, *, tl: Any) -> None:
    """PEs in pairs: each sends its K and V tile to its partner, receives the partner's, and folds what came."""
    rows, d, t = fold.rows, fold.d, fold.tile
    partner = tl.pe_index(tl.program_id(0) ^ 1)
    Q = tl.load(q, (1, rows, d), name="Q")
    mine_k = tl.load(k, (1, d, t), strides=(0, 1, d), name="K")
    mine_v = tl.load(v, (1, t, d), name="V")
    state = init_state(tl, 1, rows, d)
    scale = 1.0 / math.sqrt(d)
    for i in range(tiles):
        with tl.scratch_scope("tile", kind="tile", keys=(i * t, i * t + t)):
            tl.send(partner, mine_k)
            tl.send(partner, mine_v)
            K = tl.recv(partner, (1, d, t), "f16", name="K")
            V = tl.recv(partner, (1, t, d), "f16", name="V")
            fold_tile(tl, state, Q, K, V, scale=scale, first=i == 0)
