"""What `kb.explore` works out for a setting: one short run in timing mode, and the closed forms beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from kernbench_nb.benches.footprint import Footprint
from kernbench_nb.benches.registry import bench
from kernbench_nb.errors import KernbenchError, ScratchOverflowError
from kernbench_nb.runtime_api.result import RunResult
from kernbench_nb.runtime_api.text import bytes_text, grouped
from kernbench_nb.sim_engine.trace import ENGINES
from kernbench_nb.topology import Topology, resolve_topology

__all__ = ["TILES", "Outcome", "Setting", "work_out"]

TILES = (16, 32, 48, 64, 96, 128, 192, 256, 384, 512)
"""Tile sizes that are compared."""

_BUDGET = 400
"""Tiles that are run at most, all PEs together: what repeats is not run again, so that an answer comes at once."""

_LEAST = {False: 3, True: 4}
"""Tiles of a PE from which the period is known: the first is shorter, with prefetch the last one too."""

_KEYS = tuple(round(2 ** (7 + k / 2)) for k in range(29))


@dataclass(frozen=True, slots=True)
class Setting:
    """What can be dragged.

    Attributes
    ----------
    h_kv, group, d
        KV heads, query heads of each, size of a head.
    S_kv
        Context length in keys.
    tile
        Keys handled at once.
    pes
        PEs in all.
    prefetch, scoped
        Load ahead; give scratch back.
    """

    h_kv: int = 8
    group: int = 4
    d: int = 128
    S_kv: int = 32768
    tile: int = 64
    pes: int = 8
    prefetch: bool = False
    scoped: bool = True

    @property
    def own_keys(self) -> int:
        """Keys of the PE that has most."""
        return -(-self.S_kv // self.pes)

    @property
    def own_tiles(self) -> int:
        """Tiles of that PE."""
        return -(-self.own_keys // self.tile)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What came of a setting.

    Attributes
    ----------
    run
        The run that a view steps through, or None where nothing ran.
    state
        The view's state; see the room's README.
    """

    run: RunResult | None
    state: dict[str, Any]


def work_out(setting: Setting, topology: Any = None) -> Outcome:
    """Run a setting in timing mode.

    A long sweep is run for its first tiles only. The rest repeats the last of them, and its time and bytes are added
    up: the sweep's closed form (`topology/costs.py`, section 6) says that it is so, to the picosecond.
    """
    machine = resolve_topology(topology)
    foot = _footprint(setting)
    limit = machine.scratch_bytes
    tiles = setting.own_tiles
    shown = min(tiles, max(_LEAST[setting.prefetch], _BUDGET // setting.pes))
    pes = setting.pes
    capacity = foot.capacity(setting.tile, limit=limit)
    if not setting.scoped and capacity < tiles:
        pes = 1  # the first PE that is full stops all
        shown = min(tiles, capacity + 1)
    state: dict[str, Any] = {
        "params": asdict(setting), "limit": limit, "tiles": tiles, "error": None, "peak": None, "persistent": None,
        "makespan": None, "hbm": None, "bound": None, "terms": None, "run_tiles": shown, "run_pes": pes,
        "curve": _curve(setting, limit), "tiles_axis": _tiles_axis(setting, machine),
        "last_fit": capacity * setting.tile * setting.pes, "largest_tile": foot.largest_tile(limit),
    }  # fmt: skip
    try:
        run = _run(setting, machine, pes, shown)
        if pes != setting.pes:  # a short last tile, and it fits after all
            state["run_pes"] = pes = setting.pes
            run = _run(setting, machine, pes, shown)
    except ScratchOverflowError as error:
        return _overflowed(setting, state, error)
    except (KernbenchError, ValueError, TypeError) as error:
        first = str(error).splitlines()[0]
        state |= {"error": _plain(error), "verdict": "This setting does not run", "detail": first}
        return Outcome(None, state)
    rest = max(0, tiles - shown)
    makespan = run.makespan_ps + (rest * _period(run, setting.prefetch) if rest else 0)
    hbm = run.hbm_bytes + rest * pes * 2 * setting.tile * setting.h_kv * setting.d * 2  # K and V in f16
    state |= {
        "peak": run.peak_scratch,
        "persistent": run.persistent_bytes,
        "makespan": makespan,
        "hbm": hbm,
        "bound": run.bound,
        "terms": _terms(run, tiles),
    }
    share = 100 * run.peak_scratch / limit if limit else 0.0
    state["verdict"] = f"Fits: {bytes_text(run.peak_scratch)} of {bytes_text(limit)}, {share:.1f} %"
    many = f"{grouped(tiles)} tiles on each PE" if tiles != 1 else "one tile on each PE"
    without = f"without scopes the sweep would stop at {grouped(capacity * setting.tile * setting.pes)} keys"
    if not setting.scoped and setting.S_kv > state["last_fit"]:
        state["detail"] = f"{many}, nothing given back; it just fits, since its last tile is short."
    elif not setting.scoped:
        state["detail"] = (
            f"{many}, nothing given back; it overflows beyond {grouped(state['last_fit'])} keys."
        )
    else:
        state["detail"] = f"{many}, and the peak does not depend on how many; {without}."
    return Outcome(run, state)


def _overflowed(setting: Setting, state: dict[str, Any], error: ScratchOverflowError) -> Outcome:
    run = error.run if isinstance(error.run, RunResult) else None
    done = max(0, len(run.tile_log) - 1) if run is not None else 0
    wanted = f"{bytes_text(error.wanted)} wanted, {bytes_text(error.free)} free of {bytes_text(error.limit)}"
    state["error"] = _plain(error)
    state["verdict"] = f"Overflow after {grouped(done)} of {grouped(state['tiles'])} tiles"
    if setting.scoped:
        largest = (
            f"The largest that does has {state['largest_tile']} keys."
            if state["largest_tile"]
            else "None does."
        )
        state["detail"] = f"One tile does not fit: {wanted}. {largest}"
    else:
        state["detail"] = (
            f"{wanted}. Nothing is given back: turn scratch scopes on, and it fits for any length."
        )
    if run is not None:
        state |= {"peak": run.peak_scratch, "persistent": run.persistent_bytes}
    return Outcome(run, state)


def _plain(error: Exception) -> dict[str, Any]:
    found: dict[str, Any] = {"type": type(error).__name__, "text": str(error)}
    for name in ("required", "wanted", "free", "limit"):
        value = getattr(error, name, None)
        if isinstance(value, int):
            found[name] = value
    return found


def _run(setting: Setting, machine: Topology, pes: int, tiles: int) -> RunResult:
    keys = setting.own_keys if tiles == setting.own_tiles else tiles * setting.tile
    return bench(
        "gqa_decode",
        T_q=1,
        S_kv=min(setting.S_kv, keys * pes),
        h_q=setting.h_kv * setting.group,
        h_kv=setting.h_kv,
        d=setting.d,
        pes=pes,
        tile=setting.tile,
        prefetch=setting.prefetch,
        scoped=setting.scoped,
        data=False,
        topology=machine,
    )


def _period(run: RunResult, prefetch: bool) -> int:
    """From one tile to the next in ps, once the sweep has settled.

    The first tile is shorter, and with prefetch the last one begins earlier, since it has no load to issue.
    """
    c = run.tile_log.columns
    start = c["start_ps"][c["pe"] == c["pe"][0]]
    end = -1 if prefetch else len(start)
    return int(np.diff(start[:end])[-1])


def _footprint(setting: Setting) -> Footprint:
    return Footprint(
        h_q=setting.h_kv * setting.group, h_kv=setting.h_kv, d=setting.d, prefetch=setting.prefetch
    )


def _curve(setting: Setting, limit: int) -> dict[str, list[int]]:
    """Peak scratch against context length, with scopes and without, by the closed forms of `Footprint`."""
    foot, t = _footprint(setting), setting.tile
    merges = 1 if setting.pes > 1 else 0
    scoped, unscoped = [], []
    for keys in _KEYS:
        own = -(-keys // setting.pes)
        tiles, tail = divmod(own, t)
        scoped.append(foot.peak(t, tiles=tiles, tail=tail, merges=merges))
        # each tile from the third on adds as much as the second
        more = max(0, tiles - 2)
        unscoped.append(foot.unscoped(t, tiles - more, tail=tail, merges=merges) + more * foot.scoped(t))
    return {"keys": list(_KEYS), "scoped": scoped, "unscoped": unscoped}


def _tiles_axis(setting: Setting, machine: Topology) -> dict[str, list[Any]]:
    """For each tile size what one later tile costs, measured by a run of three tiles; None where it does not fit."""
    found: dict[str, list[Any]] = {name: [] for name in ("tile", "load", "gemm", "math", "period", "peak")}
    for tile in TILES:
        one = _one_tile(setting.h_kv, setting.group, setting.d, tile, setting.prefetch, machine)
        found["tile"].append(tile)
        for name in ("load", "gemm", "math", "period", "peak"):
            found[name].append(None if one is None else one[name])
    return found


@lru_cache(maxsize=512)
def _one_tile(
    h_kv: int, group: int, d: int, tile: int, prefetch: bool, machine: Topology
) -> Mapping[str, int] | None:
    try:
        run = _run(Setting(h_kv, group, d, 3 * tile, tile, 1, prefetch), machine, 1, 3)
    except ScratchOverflowError:
        return None
    rows, c = run.op_log.rows, run.tile_log.columns
    first, stop = int(c["first_row"][1]), int(c["first_row"][2])
    busy = dict.fromkeys(ENGINES, 0)
    for kind in rows.kind[first:stop].tolist():
        if rows.kinds[kind].engine:
            busy[rows.kinds[kind].engine] += rows.kinds[kind].busy
    return {
        "load": busy["dma"],
        "gemm": busy["gemm"],
        "math": busy["math"],
        "period": int(c["start_ps"][2] - c["start_ps"][1]),
        "peak": run.peak_scratch,
    }


def _terms(run: RunResult, tiles: int) -> dict[str, int] | None:
    """N, L, C_first, C and I of `costs.sweep_ps`, in ps, read off the first PE's sweep; None without a whole tile."""
    rows, c = run.op_log.rows, run.tile_log.columns
    if not len(c["pe"]) or run.params.get("prefetch"):
        return None
    own = np.flatnonzero(c["pe"] == c["pe"][0])
    loads = rows.by_kind(lambda k: k.op == "dma_read").astype(np.bool_)

    def parts(tile: int) -> tuple[int, int, int]:
        first, last = int(c["first_row"][tile]), int(c["last_row"][tile])
        span = np.arange(first, last + 1)
        ready = int(rows.end[span[loads[span]]].max())
        return ready - int(c["start_ps"][tile]), int(c["end_ps"][tile]) - ready, int(loads[span].sum())

    L, C_first, k = parts(int(own[0]))
    C = parts(int(own[1]))[1] if len(own) > 1 else C_first
    return {"N": tiles, "L": L, "C_first": C_first, "C": C, "I": k * run.topology.costs.dispatch_ps}
