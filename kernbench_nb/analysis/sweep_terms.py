"""The terms of a sweep over tiles (`topology.costs`, section 6), and what they predict against what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kernbench_nb.runtime_api.asked import check_run
from kernbench_nb.sim_engine.rows import Ints, Part, Rows
from kernbench_nb.sim_engine.trace import Kind
from kernbench_nb.topology import CostModel, costs

if TYPE_CHECKING:
    import pandas as pd

    from kernbench_nb.runtime_api.result import RunResult

__all__ = ["sweep_terms"]

INTS = ("N", "L_ps", "C_first_ps", "C_ps", "I_ps")
TIMES = ("predicted_ps", "measured_ps", "difference_ps")


def sweep_terms(run: RunResult) -> pd.DataFrame:
    """N, L, C_first, C and I of each sweep, the time that they predict, and the time that it took.

    A sweep is what one kernel on one PE does in tiles that stand side by side in one scope: all tiles of a decode, the
    tiles of one query block of a prefill. Its terms come from the costs of its operations, never from the clock of the
    run: ``C = sum(D + cost)``, copies included; ``L = D + sum(B) + latency`` of loads that are issued together;
    ``I = k*D``. Then, if all tiles are alike:

    ``N*L + C_first + (N-1)*C``
        where a tile loads, waits and computes,
    ``L + max(L, I + C_first) + (N-2)*max(L, I + C) + C``
        where it prefetches: its tiles load nothing, and loads stand before the first one and between them.

    Where they are not alike (a short last tile, a masked one), the same steps are added up tile by tile.

    Returns
    -------
    pandas.DataFrame
        One row a sweep, by PE and in order of time. Columns:

        ``pe``, ``launch`` (int64)
            Whose, and which of the kernels that ran there.
        ``scope`` (object)
            Path of the scope around its tiles; empty if there is none.
        ``prefetch`` (bool)
            Which of the two formulas.
        ``N``, ``L_ps``, ``C_first_ps``, ``C_ps``, ``I_ps`` (int64)
            Tiles; loads of the first tile; compute of the first and of the second (of the only one, if there is one);
            dispatches of the first tile's loads.
        ``equal`` (bool)
            Whether these are the terms of all its tiles.
        ``predicted_ps``, ``measured_ps``, ``difference_ps`` (int64)
            From the issue of its first load to the end of its last tile. The difference is what no formula of one PE
            knows: waiting for messages, or for an HBM slice that others use (on one PE it is 0); and, below 0,
            arithmetic between a `load_async` and its `wait` within a tile, which hides a part of the load.

        Of a run that was stopped, the tile that it was stopped in is left out.
    """
    import pandas as pd

    check_run(run, "kb.analysis.sweep_terms")
    rows, model = run.op_log.rows, run.topology.costs
    found = [_Sweep.of(rows, tiles, model) for tiles in _sweeps(rows, run.completion.ok)]
    measured = [s.stop_ps - s.start_ps for s in found]
    predicted = [s.predicted_ps for s in found]
    terms = np.array([s.terms for s in found], np.int64).reshape(-1, len(INTS)).T
    return pd.DataFrame(
        {
            "pe": np.array([s.part.pe for s in found], np.int64),
            "launch": np.array([s.part.launch for s in found], np.int64),
            "scope": pd.Series([s.scope for s in found], dtype=object),
            "prefetch": np.array([s.prefetch for s in found], np.bool_),
            **dict(zip(INTS, terms, strict=True)),
            "equal": np.array([s.equal for s in found], np.bool_),
            "predicted_ps": np.array(predicted, np.int64),
            "measured_ps": np.array(measured, np.int64),
            "difference_ps": np.array(measured, np.int64) - np.array(predicted, np.int64),
        }
    )


def _sweeps(rows: Rows, whole: bool) -> Iterator[list[int]]:
    """Scopes of kind tile that stand side by side, tiles within tiles left out, in order of opening.

    Parameters
    ----------
    whole
        Whether the run ran to its end; else a tile after which a kernel did nothing was not finished, and is left out.
    """
    scopes = rows.scopes
    groups: dict[int, list[int]] = {}
    for i, kind in enumerate(scopes.kind):
        around = int(scopes.parent[i])
        if kind == "tile" and scopes.tile[around] < 0:
            groups.setdefault(around, []).append(i)
    for tiles in groups.values():
        last = int(scopes.close[tiles[-1]])
        stop = rows.parts[int(scopes.part[tiles[-1]])].stop
        done = tiles if whole or rows.is_operation[last:stop].any() else tiles[:-1]
        if done:
            yield done


@dataclass(frozen=True, slots=True)
class _Sweep:
    """One sweep, tile by tile.

    Attributes
    ----------
    part, scope
        The kernel that it belongs to, and the path of the scope around its tiles.
    prefetch
        Whether loads stand before its tiles.
    loads, issues, computes
        L, I and C of each tile, ps.
    start_ps, stop_ps
        When it began and ended.
    """

    part: Part
    scope: str
    prefetch: bool
    loads: list[int]
    issues: list[int]
    computes: list[int]
    start_ps: int
    stop_ps: int

    @classmethod
    def of(cls, rows: Rows, tiles: Sequence[int], model: CostModel) -> _Sweep:
        """Read it from the rows."""
        scopes = rows.scopes
        part = rows.parts[int(scopes.part[tiles[0]])]
        opens, closes = scopes.open[tiles].tolist(), scopes.close[tiles].tolist()
        reads = rows.are(lambda k: k.op == "dma_read")
        steps = _steps(rows, model.dispatch_ps)
        ahead = _issued_ahead(rows, part, opens, closes, reads)
        # what stands between two tiles counts for the one that follows
        spans = [(a, b) for a, b in zip([opens[0], *closes[:-1]], closes, strict=True)]
        computes = [int(steps[rows.kind[a:b]].sum()) for a, b in spans]
        own = [(a + np.flatnonzero(reads[rows.kind[a:b]])).tolist() for a, b in spans]
        groups = [[loads] for loads in ahead] if ahead else [_together(rows, loads, model) for loads in own]
        busy = rows.of_kinds(lambda k: k.busy)

        def load(group: Sequence[int]) -> int:
            return costs.load_ps(model.dispatch_ps, busy[rows.kind[group]].tolist(), model.hbm_latency_ps)

        return cls(
            part=part,
            scope=scopes.path[int(scopes.parent[tiles[0]])],
            prefetch=bool(ahead),
            loads=[sum(load(group) for group in tile) for tile in groups],
            issues=[sum(map(len, tile)) * model.dispatch_ps for tile in groups],
            computes=computes,
            start_ps=int(rows.start[ahead[0][0]]) - model.dispatch_ps if ahead else int(rows.end[opens[0]]),
            stop_ps=int(rows.end[closes[-1]]) if closes[-1] < part.stop else part.end_ps,
        )

    @property
    def terms(self) -> tuple[int, int, int, int, int]:
        """N, L, C_first, C, I."""
        n = len(self.computes)
        return n, self.loads[0], self.computes[0], self.computes[min(1, n - 1)], self.issues[0]

    @property
    def equal(self) -> bool:
        """Whether all tiles but the first compute for as long, and all load for as long."""
        return len(set(self.loads)) == len(set(self.issues)) == 1 and len(set(self.computes[1:])) <= 1

    @property
    def predicted_ps(self) -> int:
        """By the closed form, or by its steps where tiles differ."""
        n, load, c_first, c, issue = self.terms
        if self.equal:
            if self.prefetch:
                return costs.sweep_prefetch_ps(n, load, issue, c_first, c)
            return costs.sweep_ps(n, load, c_first, c)
        if self.prefetch:
            return costs.sweep_prefetch_tiles_ps(self.loads, self.issues, self.computes)
        return costs.sweep_tiles_ps(self.loads, self.computes)


def _steps(rows: Rows, dispatch_ps: int) -> Ints:
    """D + cost by kind; 0 for loads, which are counted apart, and for what is no operation."""

    def step(kind: Kind) -> int:
        if not kind.engine or kind.op == "dma_read":
            return 0
        return kind.step if kind.engine in ("gemm", "math") else dispatch_ps + kind.dur

    return rows.of_kinds(step)


def _issued_ahead(
    rows: Rows, part: Part, opens: Sequence[int], closes: Sequence[int], reads: npt.NDArray[np.bool_]
) -> list[list[int]]:
    """Loads of each tile where they stand before the tiles, else nothing.

    Before the first tile stand its own loads and those of the second, before each later one those of the tile after it.
    """

    def read_in(first: int, stop: int) -> list[int]:
        return (first + np.flatnonzero(reads[rows.kind[first:stop]])).tolist()

    if any(read_in(a, b) for a, b in zip(opens, closes, strict=True)):
        return []
    first = opens[0]
    while first > part.first and reads[rows.kind[first - 1]]:
        first -= 1
    early = list(range(first, opens[0]))
    between = [read_in(a, b) for a, b in zip(closes[:-1], opens[1:], strict=True)]
    if not between:
        return [early] if early else []
    each = len(between[0]) if len(between) > 1 else len(early) // 2
    if not each or len(early) < 2 * each or between[-1] or not all(between[:-1]):
        return []
    return [early[-2 * each : -each], early[-each:], *between[:-1]]


def _together(rows: Rows, loads: Sequence[int], model: CostModel) -> list[list[int]]:
    """Loads of a tile, split where one was issued only when the one before was there."""
    groups: list[list[int]] = []
    for row in loads:
        if groups and rows.start[row] < rows.end[groups[-1][-1]] + model.dispatch_ps:
            groups[-1].append(row)
        else:
            groups.append([row])
    return groups
