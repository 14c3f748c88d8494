"""The tour: the main job on real data, what it says about it, and what it shows.

`take` runs, `lines` words the runs, `page` lets a reader step through them, `draw` pictures them; none of them prints.
Whatever a line says is read off a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from kernbench_nb._terminal import check_text, column_ns, pairs, scratch_text, table, wrapped
from kernbench_nb._version import __version__
from kernbench_nb.benches.entry import decode
from kernbench_nb.benches.sample import sample_attention
from kernbench_nb.errors import ScratchOverflowError
from kernbench_nb.runtime_api.result import RunResult
from kernbench_nb.runtime_api.text import bytes_text, grouped

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["PAGE", "PES", "TEXTS", "TILE", "Tour", "draw", "lines", "page", "take"]

PES = 8
TILE = 16
TEXTS = 5
"""How many times over the one PE reads the text that is too long without scopes."""

PAGE = "flash_sweep.html"

DPI = 150
"""Of the pictures, which are 7 or 14 inches wide."""


@dataclass(frozen=True, slots=True)
class Tour:
    """The runs that the tour tells of.

    Attributes
    ----------
    run
        Decode of the last token of the sample, with data, and with what each tile left behind.
    worst
        Its worst ``|error| / (1 + |reference|)`` against float64.
    unscoped
        The same with no scopes, in timing mode.
    long, dead
        `TEXTS` times the text on one PE in timing mode: with scopes, and without, which overflows.
    """

    run: RunResult
    worst: float
    unscoped: RunResult
    long: RunResult
    dead: RunResult


def take() -> Tour:
    """Run it all.

    Raises
    ------
    CheckError
        If the output differs from float64.
    """
    q, k, v = sample_attention()
    query = q[-1:]
    run = decode(query, k, v, pes=PES, tile=TILE, record="tiles")
    worst = run.check()
    unscoped = decode(query, k, v, pes=PES, tile=TILE, scoped=False, data=False)
    # sizes are all that timing mode looks at, so the text over and over stands for a longer one
    k_long, v_long = (np.tile(x, (TEXTS, 1, 1)) for x in (k, v))
    long = decode(query, k_long, v_long, pes=1, tile=TILE, data=False)
    try:
        dead = decode(query, k_long, v_long, pes=1, tile=TILE, scoped=False, data=False)
    except ScratchOverflowError as error:
        dead = error.run
    return Tour(run, worst, unscoped, long, dead)


# -- words -----------------------------------------------------------------------------------------------------


def lines(tour: Tour) -> Iterator[str]:
    """What the tour says: ASCII, at most `WIDTH` columns, the same every time."""
    yield f"kernbench_nb {__version__}: flash decode of real data on a simulated machine"
    yield from _section("The machine", _machine(tour.run))
    yield from _section("What is computed", wrapped(_task(tour.run)))
    yield from _section("The sweep, tile by tile", _tiles(tour.run))
    yield from _section("The result", _result(tour))
    yield from _section("Without scopes", _without_scopes(tour))


def _section(title: str, body: Sequence[str]) -> Iterator[str]:
    yield ""
    yield title
    yield from (f"  {line}".rstrip() for line in body)


def _machine(run: RunResult) -> list[str]:
    return [part for line in run.topology.summary().splitlines() for part in wrapped(line, then="  ")]


def _task(run: RunResult) -> str:
    p = run.params
    return (
        f"A language model has read {p['S_kv']} tokens. To pick the next one, its last layer compares the "
        f"{p['h_q']} query heads of the newest token with {p['S_kv']} keys in {p['h_kv']} KV heads (GQA, "
        f"d = {p['d']}) and mixes as many values. Keys and values lie spread over the HBM (main memory) of "
        f"{len(run.pes)} PEs (processing elements); each PE folds its own into a state (m, l, O), {p['tile']} keys at "
        "a time, one tile after the other: m is the maximum of the scores s so far, l the sum of exp(s-m), O the sum "
        f"of exp(s-m) times V. The {len(run.pes)} states merge into one, and its O / l, softmax times V, is the output."
    )


def _tiles(run: RunResult) -> list[str]:
    """The table of tiles, by PE."""
    columns = run.tile_log.columns
    labels = run.tile_log.rows.scopes.label
    rows = []
    for i in np.lexsort((columns["start_ps"], columns["pe"])).tolist():
        at = {name: int(column[i]) for name, column in columns.items()}
        rows.append(
            (
                str(at["pe"]),
                labels[at["scope"]],
                f"{at['keys_start']}:{at['keys_stop']}",
                column_ns(at["start_ps"]),
                column_ns(at["end_ps"]),
                column_ns(at["end_ps"] - at["start_ps"]),
                grouped(at["hbm_bytes"]),
                grouped(at["peak_scratch"]),
            )
        )
    head = ("PE", "tile", "keys", "start ns", "end ns", "takes ns", "HBM B", "peak scratch B")
    inside, peak = int(columns["hbm_bytes"].sum()), grouped(int(columns["peak_scratch"].max()))
    total = ("", f"all {len(rows)}", "", "", "", "", grouped(inside), peak)
    return table(head, [*rows, total], left=(1,))


def _result(tour: Tour) -> list[str]:
    run, columns = tour.run, tour.run.tile_log.columns
    inside, swept = int(columns["hbm_bytes"].sum()), int(columns["end_ps"].max())
    hbm = (
        f"{bytes_text(run.hbm_bytes)}: {bytes_text(inside)} of K and V, each once, and "
        f"{bytes_text(run.hbm_bytes - inside)} of Q and O"
    )
    makespan = (
        f"{column_ns(run.makespan_ps)} ns: tiles until {column_ns(swept)} ns, then {len(run.pes) - 1} merges "
        f"and O / l; {run.bound} binds"
    )
    check, peak = check_text(run, tour.worst), scratch_text(run)
    return pairs([("check", check), ("peak scratch", peak), ("HBM", hbm), ("makespan", makespan)])


def _without_scopes(tour: Tour) -> list[str]:
    """What the kernel that gives nothing back would have needed, and where it ends."""
    dead, limit = tour.dead, tour.dead.topology.scratch_bytes
    keys, refused, tiles = grouped(dead.params["S_kv"]), dead.memory_log[-1], dead.tile_log
    last = {name: int(column[-1]) for name, column in tiles.columns.items()}
    here = (
        f"{bytes_text(tour.unscoped.peak_scratch)} instead of {bytes_text(tour.run.peak_scratch)}, and more "
        "with each tile"
    )
    longer = (
        f"{keys} keys in {len(tour.long.tile_log)} tiles on one PE: overflows after {len(tiles) - 1} tiles, at "
        f"key {grouped(last['keys_start'])}"
    )
    overflow = (
        f"in {tiles.rows.scopes.label[last['scope']]}, {refused.name} wants {bytes_text(refused.nbytes)}; "
        f"{bytes_text(limit - refused.cursor_after)} are free of {bytes_text(limit)}"
    )
    scoped = f"the same {keys} keys on one PE take {bytes_text(tour.long.peak_scratch)}, as any length does"
    return [
        "The same kernel, but a tile's scratch is not given back when the tile ends:",
        *pairs([("this text", here), (f"{TEXTS} times it", longer), ("", overflow), ("with scopes", scoped)]),
    ]


# -- the page --------------------------------------------------------------------------------------------------


def page(tour: Tour, folder: Path) -> tuple[Path, str]:
    """Write the page to step through: the sweep, and below it the long text with scopes beside without.

    Parameters
    ----------
    tour
        The runs.
    folder
        Where to; made if it is not there.

    Returns
    -------
    (path, what it shows)

    Raises
    ------
    OSError
        If the folder or the file cannot be written.
    """
    from kernbench_nb.widgets.html import Section, write_page
    from kernbench_nb.widgets.scene import scene

    # by tile one stands at the end of a tile: all that it made is there, and is about to be given back
    sweep, pair = scene(tour.run, tile=_last_tile(tour.run)), scene(tour.long, tour.dead)
    overflow = pair.other.head["error"] if pair.other is not None else {}
    sections = (
        Section(sweep, "The sweep, tile by tile", _sweep_text(tour.run, sweep.pe)),
        Section(pair, "Without scopes", _overflow_text(tour, overflow)),
    )
    folder.mkdir(parents=True, exist_ok=True)
    path = write_page(
        folder / PAGE, sections, title="Flash decode of real data, tile by tile", lead=_task(tour.run)
    )
    return path, "the sweep to step through, and the overflow without scopes"


def _last_tile(run: RunResult) -> str:
    """The label of the last tile that was begun."""
    return run.tile_log.rows.scopes.label[int(run.tile_log.columns["scope"][-1])]


def _sweep_text(run: RunResult, pe: int) -> str:
    """What to look at while one steps, from the PE on that is shown first."""
    return (
        f"Scratch is the small fast memory of a PE, {bytes_text(run.topology.scratch_bytes)}. In its persistent arena "
        "lie the query and the state (m, l, O): they outlive every tile. Above it lies the scoped arena: K, V, the "
        "scores S (qk, then s) and the weights P (exp, then p) of one tile. When the tile ends, its scope moves the "
        "cursor back to the save-point: they are given back, and the next tile takes the same bytes.\n\n"
        "A tile may raise the maximum m. What was summed up before is then too large by one factor for each row, "
        "c = exp(m_old − m_new): so much the old l and O shrink before the tile is added to them.\n\n"
        f"When all tiles are folded, the states merge: PE {pe} sends (m, l, O) to PE {pe - 1}, which merges it into "
        f"its own and sends that on, PE {pe} → {pe - 1} → … → 0. Two states make m_new = max(m, m_in); with "
        "a = exp(m − m_new) and b = exp(m_in − m_new) they make l_new = l·a + l_in·b, and O likewise. PE 0 divides its "
        "O by its l and stores that.\n\n"
        "Each PE has four engines: dma moves K and V in from HBM, gemm makes the products qk and p*V, math does all "
        "the rest of a tile, ipc carries messages between PEs. Beside their lanes stands what part of the time each "
        "was busy. None is for half of a tile, since most operations wait for the one before: latency binds.\n\n"
        f"The view stands at the end of the last tile of PE {pe}, just before the tile's bytes are given back. Step "
        "with ← and →, by tile or by operation; choose another PE; or click on a tile, a block or a bar to go there."
    )


def _overflow_text(tour: Tour, error: dict[str, Any]) -> str:
    """What the pair shows; `error` is that of its trace."""
    keys, tiles, done = tour.dead.params["S_kv"], len(tour.long.tile_log), len(tour.dead.tile_log) - 1
    stopped = _last_tile(tour.dead)
    return (
        f"{TEXTS} times the text, {grouped(keys)} keys, on one PE. On one side the kernel as above: its {tiles} tiles "
        f"take {bytes_text(tour.long.peak_scratch)}, as any number of tiles does. On the other the same kernel, but a "
        "tile's scratch is not given back when the tile ends, so each tile begins where the last one ended. After "
        f"{done} tiles, in {stopped}, {error['name']} wants {bytes_text(error['wanted'])}, and "
        f"{bytes_text(error['free'])} are free. {grouped(error['live_count'])} blocks fill the scratch; the rest of "
        f"the sweep would read {grouped(error['read_again'])} of them{_read_again(error)}.\n\n"
        "The view stands where it overflows. Step back to see it fill up, or on to see the other one finish."
    )


def _read_again(error: dict[str, Any]) -> str:
    """Which blocks the sweep would have read again, and their bytes."""
    again = [block for block in error["live"] if block["again"]]
    nbytes = sum(block["again"] * block["nbytes"] for block in again)
    return f", {', '.join(block['name'] for block in again)}: {bytes_text(nbytes)}"


# -- pictures --------------------------------------------------------------------------------------------------


def draw(tour: Tour, folder: Path) -> list[tuple[Path, str]]:
    """Write the pictures.

    Parameters
    ----------
    tour
        The runs.
    folder
        Where to; made if it is not there.

    Returns
    -------
    list of (path, what it shows)

    Raises
    ------
    OSError
        If the folder or a file cannot be written.
    """
    from kernbench_nb.plots import engines

    folder.mkdir(parents=True, exist_ok=True)
    pictures = (
        (
            "arenas",
            _side_by_side(tour.run, tour.unscoped),
            "scratch of PE 0 over time, with scopes and without",
        ),
        ("overflow", _side_by_side(tour.long, tour.dead), f"the same on one PE and {TEXTS} times the text"),
        ("engines", cast("Figure", engines(tour.run).figure), "what each engine of each PE did, and when"),
    )
    written = []
    for name, figure, what in pictures:
        path = folder / f"flash_sweep_{name}.png"
        figure.savefig(path, dpi=DPI)
        written.append((path, what))
    return written


def _side_by_side(scoped: RunResult, unscoped: RunResult) -> Figure:
    """Scratch of PE 0 over time with scopes and without, at one scale of bytes and one of time."""
    from matplotlib.figure import Figure

    from kernbench_nb.plots import arena_timeline

    # inches: two pictures as the plots make them
    width, height, axes_width = 14.0, 3.9, 6.0
    figure = Figure(figsize=(width, height))
    left, right = figure.subplots(1, 2)
    figure.subplots_adjust(
        left=0.85 / width,
        right=1 - 0.15 / width,
        top=1 - 0.78 / height,
        bottom=0.62 / height,
        wspace=(width - 2 * axes_width - 1.0) / axes_width,
    )
    top = unscoped.topology.scratch_bytes if unscoped.completion.error else unscoped.peak_scratch
    until = max(scoped.makespan_ns, unscoped.makespan_ns)
    for axes, run, label in (
        (left, scoped, "With scopes: the end of a tile gives its bytes back"),
        (right, unscoped, "Without scopes: nothing is given back"),
    ):
        arena_timeline(run, ax=axes, ylim=top, until=until, title=label)
    return figure
