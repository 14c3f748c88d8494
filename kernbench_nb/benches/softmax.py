"""The entry points of softmax: scores in, `RunResult` out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kernbench_nb.benches import reference
from kernbench_nb.benches._checks import check_count
from kernbench_nb.benches._inputs import Array, converted, float_dtype
from kernbench_nb.benches._placed import cut
from kernbench_nb.benches._run import Plan, entry_point
from kernbench_nb.benches._softmax import online_softmax_kernel, safe_softmax_kernel
from kernbench_nb.dtypes import DType, f16
from kernbench_nb.errors import ShapeError
from kernbench_nb.policy.placement.dp import DPPolicy
from kernbench_nb.runtime_api.context import BenchContext
from kernbench_nb.runtime_api.launch import pe_grid
from kernbench_nb.runtime_api.tensor import Tensor
from kernbench_nb.topology import resolve_topology

__all__ = ["online_softmax", "safe_softmax"]


@entry_point
def safe_softmax(
    x: Any,
    *,
    tile: int = 64,
    rows: int = 64,
    pes: int | None = None,
    cubes: int | None = None,
    scoped: bool = True,
    dtype: Any = None,
    topology: Any = None,
) -> Plan:
    """Softmax along the last axis in three passes, written out: 4 HBM accesses an element.

    Parameters
    ----------
    x
        Scores, of any rank from 1 on; a row lies along the last axis.
    tile
        Scores of a row handled at once.
    rows
        Rows handled at once.
    pes, cubes
        PEs in all, over which rows are split, and over how many cubes; one PE by default.
    scoped
        False gives no scratch back.
    dtype
        What the scores are converted to.
    topology, data, scratch_checks, record, max_record_bytes, wide_links
        As in `decode`.

    Returns
    -------
    RunResult
        ``run.output`` in the shape of x; a row of nothing but -inf, as one with no key, gives zeros.

    Raises
    ------
    ShapeError, DTypeError, PlacementError, ValueError, TypeError
        Before anything runs, if the arguments do not go together.

    Notes
    -----
    Source: Milakov and Gimelshein 2018 (arXiv 1805.02867), algorithm 2.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.zeros(319, np.float32)
    >>> safe_softmax(scores).hbm_bytes, online_softmax(scores).hbm_bytes
    (5104, 3828)
    """
    return _plan(x, safe_softmax_kernel, tile, rows, pes, cubes, dtype, topology, scoped=scoped)


@entry_point
def online_softmax(
    x: Any,
    *,
    tile: int = 64,
    rows: int = 64,
    keep: bool = False,
    pes: int | None = None,
    cubes: int | None = None,
    scoped: bool = True,
    dtype: Any = None,
    topology: Any = None,
) -> Plan:
    """Softmax along the last axis in two passes, written out: 3 HBM accesses an element.

    Maximum and sum are folded in one pass: a larger maximum corrects the sum so far by exp(m_old - m_new).

    Parameters
    ----------
    x, tile, rows, pes, cubes, scoped, dtype
        As in `safe_softmax`.
    keep
        Hold the rows in scratch between the passes: 2 accesses an element, and scratch for whole rows.
    topology, data, scratch_checks, record, max_record_bytes, wide_links
        As in `decode`.

    Returns
    -------
    RunResult
        As of `safe_softmax`.

    Notes
    -----
    Source: Milakov and Gimelshein 2018 (arXiv 1805.02867), algorithm 3.
    """
    return _plan(x, online_softmax_kernel, tile, rows, pes, cubes, dtype, topology, scoped=scoped, keep=keep)


@dataclass(frozen=True, slots=True)
class _Scores:
    """Scores as rows ``(n, m)``; `shape` is theirs as given."""

    x: Array
    dtype: DType
    shape: tuple[int, ...]

    @property
    def arrays(self) -> tuple[Array, ...]:
        return (self.x,)

    @property
    def sizes(self) -> dict[str, int]:
        n, m = self.x.shape
        return {"n": n, "m": m}

    @property
    def out_dtype(self) -> DType:
        return f16 if self.dtype.itemsize == 1 else self.dtype


def _look_at(x: Any, dtype: Any) -> _Scores:
    """Check scores, and bring them into rows.

    Raises
    ------
    ShapeError
        If there is no row.
    DTypeError
        For float64 (name ``dtype=``) and integers.
    """
    given = np.asarray(x)
    if given.ndim == 0 or 0 in given.shape[:-1]:
        raise ShapeError(
            f"x must hold at least one row of scores, along its last axis; got shape {given.shape}"
        )
    to = float_dtype({"x": given}, dtype, "softmax")
    n = 1
    for extent in given.shape[:-1]:
        n *= extent
    return _Scores(converted(given, to).reshape(n, given.shape[-1]), to, given.shape)


def _plan(
    x: Any,
    kernel: Any,
    tile: int,
    rows: int,
    pes: int | None,
    cubes: int | None,
    dtype: Any,
    topology: Any,
    **how: Any,
) -> Plan:
    scores = _look_at(x, dtype)
    n, m = scores.x.shape
    machine = resolve_topology(topology)
    tile, rows = check_count("tile", tile), check_count("rows", rows)
    sips, in_sip, each = pe_grid(machine, pes, cubes)

    def bench(ctx: BenchContext) -> tuple[Tensor, Tensor | None]:
        counts = {"num_sips": sips, "num_cubes": in_sip, "num_pes": each}
        policy = DPPolicy(sip=cut(sips), cube=cut(in_sip), pe=cut(each), **counts)
        X = ctx.tensor(scores.x, dp=policy, name="x")
        Y = ctx.empty((n, m), dtype=scores.out_dtype, dp=policy, name="y")
        ctx.launch(kernel.__name__.removesuffix("_kernel"), kernel, X, Y, n, m, tile=tile, rows=rows, **how)
        return Y, None

    def expected(values: Array) -> tuple[Array, None]:
        # a row of -inf is one that sees no key: zeros, as in attention
        return reference.softmax(values, where=~np.isneginf(values.astype(np.float64))), None

    return Plan(
        x=scores,
        machine=machine,
        kernel=kernel,
        bench=bench,
        reference=expected,
        shown={"pes": sips * in_sip * each, "cubes": sips * in_sip},
    )
