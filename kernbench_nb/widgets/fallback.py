"""Still pictures of the views, for where no module runs: on a code host, in nbconvert, before a notebook is trusted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kernbench_nb.runtime_api.text import bytes_text, grouped
from kernbench_nb.widgets.picture import Picture, bytes_words, clipped, time_words
from kernbench_nb.widgets.reader import Trace

__all__ = ["draw_arenas", "draw_explore", "draw_log", "draw_pair", "draw_run"]

WIDTH = 960
_MOST_BLOCKS = 90
_MOST_TILES = 120
_CLASS = {"dma": "a", "gemm": "g", "math": "t", "ipc": "q", "scope": "t"}
_LEGEND = (
    ("k", "persistent"),
    ("a", "loaded"),
    ("g", "gemm result"),
    ("t", "math result"),
    ("y", "given back"),
)


def draw_run(trace: Trace, pe: int, step: int) -> str:
    """A run after one step: score map, arena over time, scratch, and what has been counted by then."""
    index = trace.index_of(pe)
    if index is None or trace.pes[index]["op1"] <= trace.pes[index]["op0"]:
        return _nothing(trace.head["title"])
    row = int(trace.pes[index]["op0"]) + step
    now = int(trace.ops["clock"][row])
    picture = Picture(WIDTH, 478 if trace.head["score"] else 396, _sentence(trace, index, row))
    picture.text(0, 18, clipped(trace.head["title"], 60), "p x")
    picture.text(0, 37, clipped(trace.head["about"], 150), "p m")
    picture.text(0, 58, clipped(_where(trace, index, row), 70), "p b")
    picture.text(WIDTH, 58, clipped(_deed(trace, row), 90), "p e")
    top = 74
    if trace.head["score"]:
        _score(picture, trace, index, row, now, top)
        top += 82
    picture.text(0, top + 4, f"Scratch of {trace.pes[index]['label']} over its operations", "p b")
    _legend(picture, top + 4)
    _timeline(picture, trace, index, row, (56, top + 14, 480, 250))
    _scratch(picture, trace, index, row, (580, top + 14, 70, 250))
    _counters(picture, trace, row, top + 304)
    return picture.svg()


def _legend(picture: Picture, y: float) -> None:
    """What the blocks of the scratch are, right of the heading."""
    x = 440.0
    for kind, word in _LEGEND:
        picture.rect(x, y - 9, 12, 10, kind)
        picture.text(x + 17, y, word, "p s m")
        x += 29 + 6.4 * len(word)


def draw_pair(a: Trace, b: Trace, names: Sequence[str], pe: int, step: int) -> str:
    """Two runs after the same number of tiles, on one scale up to the limit."""
    picture = Picture(WIDTH, 408, f"{names[0]} beside {names[1]}, after {step} tiles")
    picture.text(0, 18, clipped(f"{names[0]} · {names[1]}", 90), "p x")
    picture.text(0, 37, clipped(a.head["about"], 150), "p m")
    top = max(a.head["scratch_bytes"], b.head["scratch_bytes"])
    peaks = [t.pes[i]["peak"] for t in (a, b) if (i := t.index_of(pe)) is not None]
    ymax = top * 1.06 if max(peaks, default=0) > top / 4 else max(peaks, default=1) * 1.1
    for side, (trace, name) in enumerate(zip((a, b), names, strict=True)):
        x = side * 490
        picture.text(x, 66, clipped(name, 50), "p b")
        index = trace.index_of(pe)
        if index is None:
            picture.text(x, 90, "this PE took no part", "p m")
            continue
        row = _row_after(trace, index, step)
        _timeline(picture, trace, index, row, (x + 56, 78, 404, 230), ymax)
        cursor, peak = int(trace.ops["cursor"][row]), int(trace.ops["peak"][row])
        counts = f"{bytes_words(cursor)} in use, {bytes_words(peak)} at most"
        picture.text(x, 344, f"after {time_words(int(trace.ops['clock'][row]))}: {counts}", "p")
        error = trace.head["error"]
        if error is not None and error["op"] >= 0 and row >= error["op"]:
            picture.text(
                x,
                364,
                clipped(f"{error['type']}: {error['name']} wants {bytes_text(error['wanted'])},", 66),
                "p b z",
            )
            picture.text(x, 381, f"{bytes_text(error['free'])} free of {bytes_text(error['limit'])}", "p z")
            if error["read_again"] is not None:
                again = f"of {error['live_count']} live blocks {error['read_again']} are read again"
                picture.text(x, 398, again, "p z")
    return picture.svg()


def draw_arenas(trace: Trace, pe: int, step: int) -> str:
    """The arena of one PE over time, and the high-water mark of all."""
    index = trace.index_of(pe)
    if index is None or trace.pes[index]["op1"] <= trace.pes[index]["op0"]:
        return _nothing(trace.head["title"])
    row = int(trace.pes[index]["op0"]) + step
    picture = Picture(WIDTH, 420, f"Scratch of {trace.pes[index]['label']}: {trace.head['title']}")
    picture.text(0, 18, clipped(trace.head["title"], 80), "p x")
    picture.text(0, 37, clipped(trace.head["about"], 150), "p m")
    picture.text(0, 64, f"Scratch of {trace.pes[index]['label']} over its operations", "p b")
    _timeline(picture, trace, index, row, (56, 74, 600, 300))
    picture.text(700, 64, "Highest, by PE", "p b")
    limit = trace.head["scratch_bytes"]
    shown = trace.pes[:18]
    for i, p in enumerate(shown):
        y = 76 + i * 17
        picture.text(700, y + 11, clipped(p["label"], 14), "p s b" if i == index else "p s")
        picture.rect(790, y + 3, 100 * p["peak"] / max(limit, 1), 9, "t")
        picture.text(WIDTH, y + 11, bytes_words(p["peak"]), "p s e")
    if len(trace.pes) > len(shown):
        picture.text(700, 76 + len(shown) * 17 + 11, f"and {len(trace.pes) - len(shown)} more PEs", "p s m")
    return picture.svg()


def draw_log(trace: Trace, group: str) -> str:
    """How long engines were busy, by what the log is grouped by."""
    names, busy, count = busy_by(trace, group)
    order = np.argsort(-busy, kind="stable")[:16]
    picture = Picture(WIDTH, 74 + 20 * max(1, len(order)), f"Operations of {trace.head['title']} by {group}")
    picture.text(0, 18, clipped(trace.head["title"], 80), "p x")
    total = int(busy.sum())
    summary = f"{int(count.sum())} operations, engines busy for {time_words(total)} in all, by {group}"
    picture.text(0, 40, summary, "p m")
    if not len(order):
        picture.text(0, 66, "no operations", "p m")
    longest = max(1, int(busy[order].max(initial=1)))
    engine_of = _engine_by_name(trace, group)
    for i, k in enumerate(order.tolist()):
        y = 54 + 20 * i
        picture.text(150, y + 12, clipped(names[k], 22), "c e")
        picture.rect(
            160, y + 2, 520 * float(busy[k]) / longest, 13, _CLASS.get(engine_of.get(names[k], ""), "u")
        )
        share = f"{100 * float(busy[k]) / total:.1f} %" if total else "0 %"
        numbers = f"{time_words(int(busy[k]))}, {share}, {int(count[k])}×"
        picture.text(166 + 520 * float(busy[k]) / longest, y + 12, numbers, "p s")
    return picture.svg()


def draw_explore(state: dict[str, Any]) -> str:
    """Peak scratch against context length, and the verdict."""
    picture = Picture(WIDTH, 340, state["verdict"])
    picture.text(0, 18, clipped(state["verdict"], 90), "p x z" if state["error"] else "p x")
    picture.text(0, 40, clipped(state["detail"], 150), "p m")
    curve = state["curve"]
    values = [v for name in ("scoped", "unscoped") for v in curve[name] if v]
    if not values:
        return picture.svg()
    x0, y0, width, height = 70, 64, 620, 230
    low, high = np.log(min(values) / 2), np.log(max(*values, state["limit"]) * 2)
    first, last = np.log(curve["keys"][0]), np.log(curve["keys"][-1])

    def at(keys: float, nbytes: float) -> tuple[float, float]:
        x = x0 + width * (np.log(keys) - first) / (last - first)
        return float(x), float(y0 + height * (high - np.log(nbytes)) / (high - low))

    picture.rect(x0, y0, width, height, "u")
    for power in range(6, 40, 4):  # 64 B, 1 KiB, 16 KiB, ...
        y = at(curve["keys"][0], 2.0**power)[1]
        if y0 < y < y0 + height:
            picture.line(x0, y, x0 + width, y, "l")
            picture.text(x0 - 6, y + 4, bytes_words(2**power), "p s m e")
    for keys in curve["keys"][::4]:
        x = at(keys, state["limit"])[0]
        picture.line(x, y0 + height, x, y0 + height + 4, "l")
        picture.text(x, y0 + height + 18, grouped(keys), "p s m i")
    picture.text(
        x0 + width / 2, y0 + height + 36, "keys of the context; both axes are logarithmic", "p s m i"
    )
    for name, kind in (("unscoped", "r"), ("scoped", "w")):
        points = [at(k, v) for k, v in zip(curve["keys"], curve[name], strict=True) if v]
        picture.path(points, kind)
        if points:
            picture.text(points[-1][0] + 6, points[-1][1] + 4, f"{name}", "p s")
    x, y = at(curve["keys"][0], state["limit"])
    picture.line(x, y, x0 + width, y, "h")
    picture.text(x0 + width - 4, y - 5, f"limit {bytes_words(state['limit'])}", "p s e")
    here = state["params"]["S_kv"]
    if state["peak"] and not state["error"] and curve["keys"][0] <= here <= curve["keys"][-1]:
        x, y = at(here, state["peak"])
        picture.line(x, y, x, y0 + height, "h")
        picture.rect(x - 4, y - 4, 8, 8, "n")
        picture.text(x + 8, y + 18, f"{grouped(here)} keys: {bytes_words(state['peak'])}", "p s b")
    return picture.svg()


def busy_by(trace: Trace, group: str) -> tuple[list[str], Any, Any]:
    """Names of the groups, ps that engines were busy for each, and how many operations each has."""
    kinds, ops = trace.tables["kinds"], trace.ops
    engine = kinds["engine"][ops["kind"]]
    works = engine < len(trace.head["engines"]) - 1
    if group == "engine":
        names, key = list(trace.head["engines"]), engine
    elif group == "pe":
        starts = [p["op0"] for p in trace.pes]
        names = [p["label"] for p in trace.pes]
        key = np.searchsorted(starts, np.arange(len(engine)), side="right") - 1
    elif group == "tile":
        names = list(trace.head["strings"])
        key = trace.tiles["label"][ops["tile"]]
    else:
        names = list(trace.head["strings"])
        key = kinds["op"][ops["kind"]]
    busy = np.zeros(len(names), np.int64)
    count = np.zeros(len(names), np.int64)
    np.add.at(busy, key[works], kinds["busy"][ops["kind"]][works])
    np.add.at(count, key[works], 1)
    used = np.flatnonzero(count)
    return [names[i] for i in used.tolist()], busy[used], count[used]


def _engine_by_name(trace: Trace, group: str) -> dict[str, str]:
    """The engine of each group, where it has one."""
    engines = trace.head["engines"]
    if group == "engine":
        return {engine: engine for engine in engines}
    if group != "op":
        return {}
    kinds = trace.tables["kinds"]
    return {trace.text(int(op)): engines[e] for op, e in zip(kinds["op"], kinds["engine"], strict=True)}


# -- parts -----------------------------------------------------------------------------------------------------


def _nothing(title: str) -> str:
    picture = Picture(WIDTH, 60, title)
    picture.text(0, 18, clipped(title, 80), "p x")
    picture.text(0, 42, "This run has no operations: the kernel asked for nothing.", "p m")
    return picture.svg()


def _sentence(trace: Trace, index: int, row: int) -> str:
    return f"{trace.head['title']}. {_where(trace, index, row)}. {_deed(trace, row)}"


def _where(trace: Trace, index: int, row: int) -> str:
    tile = int(trace.ops["tile"][row])
    places = trace.tiles["place"]
    place, of = int(places[tile]), int(places[trace.tiles["pe"] == index].max(initial=0))
    words = [trace.pes[index]["label"], trace.text(int(trace.tiles["label"][tile]))]
    if place:
        words.append(f"{place} of {of}")
    if trace.tiles["k0"][tile] >= 0:
        words.append(f"keys {trace.tiles['k0'][tile]} to {trace.tiles['k1'][tile] - 1}")
    return ", ".join(words)


def _deed(trace: Trace, row: int) -> str:
    error = trace.head["error"]
    if error is not None and error["op"] == row:
        # to the byte: what is missing may be little, and both would round to the same
        free = f"{bytes_text(error['free'])} are free of {bytes_text(error['limit'])}"
        return f"{error['name']} wants {bytes_text(error['wanted'])}, {free}"
    kind = int(trace.ops["kind"][row])
    kinds = trace.tables["kinds"]
    op, name = trace.text(int(kinds["op"][kind])), trace.text(int(trace.ops["name"][row]))
    out = int(trace.ops["out"][row])
    target = trace.text(int(trace.allocs["name"][out])) if out >= 0 else ""
    what = name or (f"{op} {target}" if target else op)
    text = trace.text(int(kinds["text"][kind]))
    took = int(trace.ops["end"][row] - trace.ops["start"][row])
    return f"after {what}" + (f" ({op}, {text})" if text else "") + (f": {time_words(took)}" if took else "")


def _row_after(trace: Trace, index: int, tiles: int) -> int:
    """The row at the end of the n-th tile of a PE, before the rewind."""
    p = trace.pes[index]
    order = trace.tiles_of(index, "tile", "scope")
    if tiles <= 0 or not len(order):
        return int(p["op0"])
    error = trace.head["error"]
    if tiles > len(order):
        return int(p["op1"]) - 1
    tile = int(order[tiles - 1])
    if error is not None and error["tile"] == tile:
        return int(error["op"])
    return int(p["op1"]) - 1 if tiles == len(order) and error is None else int(trace.tiles["stop"][tile])


Box = tuple[float, float, float, float]


def _score(picture: Picture, trace: Trace, index: int, row: int, now: int, top: float) -> None:
    """Tiles over the keys, one lane a PE or a block of queries: done, in hand, to come, skipped."""
    c, score = trace.tiles, trace.head["score"]
    layer = int(c["layer"][int(trace.ops["tile"][row])])
    shown = np.flatnonzero(c["layer"] == max(layer, 0))
    queries = np.unique(c["q0"][shown])
    picture.text(0, top + 4, "Score map", "p b")
    picture.text(76, top + 4, "tiles done, in hand (framed), to come; keys from left to right", "p m")
    x0, y0, width, height = 0.0, top + 12, float(WIDTH), 52.0
    tall = height / max(len(queries), 1)
    if len(shown) > _MOST_TILES:
        # one bar for what is done of each lane
        for lane, q in enumerate(queries[: int(height)].tolist()):
            own = shown[c["q0"][shown] == q]
            done = own[(c["end"][own] <= now) & (c["op0"][own] >= 0)]
            share = float((c["k1"][done] - c["k0"][done]).sum()) / max(score["S_kv"], 1)
            picture.rect(x0, y0 + lane * tall, width, max(tall - 0.5, 0.5), "o")
            picture.rect(x0, y0 + lane * tall, width * min(share, 1), max(tall - 0.5, 0.5), "d")
        return
    for t in shown.tolist():
        x = x0 + width * int(c["k0"][t]) / score["S_kv"]
        w = width * int(c["k1"][t] - c["k0"][t]) / score["S_kv"] - 1
        y = y0 + tall * int(np.searchsorted(queries, c["q0"][t]))
        ran = c["op0"][t] >= 0
        kind = "y" if trace.text(int(c["kind"][t])) == "skip" else "d" if ran and c["end"][t] <= now else "o"
        if trace.text(int(c["kind"][t])) == "never":
            kind = "f"
        picture.rect(x, y, w, tall - 1, kind)
    tile = int(trace.ops["tile"][row])
    if c["layer"][tile] == max(layer, 0) and c["k0"][tile] >= 0:
        x = x0 + width * int(c["k0"][tile]) / score["S_kv"]
        w = width * int(c["k1"][tile] - c["k0"][tile]) / score["S_kv"]
        picture.rect(x, y0 + tall * int(np.searchsorted(queries, c["q0"][tile])), w, tall, "n")


def _timeline(
    picture: Picture, trace: Trace, index: int, row: int, box: Box, ymax: float | None = None
) -> None:
    """Blocks over rows and addresses; what is to come lies under a veil."""
    x0, y0, width, height = box
    p, a = trace.pes[index], trace.allocs
    first, stop = int(p["op0"]), int(p["op1"])
    limit = trace.head["scratch_bytes"]
    top = ymax or max(int(p["peak"]), 1) * 1.06
    engines = trace.head["engines"]

    def x(at: float) -> float:
        return x0 + width * (min(max(at, first), stop) - first) / max(stop - first, 1)

    def y(address: float) -> float:
        return y0 + height * (1 - address / top)

    picture.rect(x0, y0, width, height, "u")
    parts = np.flatnonzero(trace.tables["parts"]["pe"] == index)
    own = np.flatnonzero(np.isin(a["part"], parts) & (a["size"] > 0) & (a["born"] < stop))
    if len(own) <= _MOST_BLOCKS:
        for k in own.tolist():
            kind = "k" if a["arena"][k] == 0 and trace.head["scoped"] else _CLASS[engines[a["engine"][k]]]
            upper = y(int(a["addr"][k] + a["size"][k]))
            left = x(int(a["born"][k]))
            picture.rect(left, upper, x(int(a["dead"][k])) - left, y(int(a["addr"][k])) - upper, kind)
    else:
        # too many to draw one by one: the cursor, and beneath it the persistent arena
        bins = np.linspace(first, stop, int(width / 3) + 1).astype(np.int64)
        for low, high in zip(bins[:-1].tolist(), bins[1:].tolist(), strict=True):
            if high > low:
                upper = y(int(trace.ops["cursor"][low:high].max()))
                picture.rect(x(low), upper, x(high) - x(low), y0 + height - upper, "t")
        if trace.head["scoped"]:
            upper = y(int(p["persistent"]))
            picture.rect(x0, upper, width, y0 + height - upper, "k")
    picture.rect(x(row + 1), y0, x0 + width - x(row + 1), height, "v")
    picture.line(x(row + 1), y0 - 4, x(row + 1), y0 + height + 4, "w")
    peak = y(int(trace.ops["peak"][row]))
    picture.line(x0, peak, x0 + width, peak, "h")
    if top >= limit:
        picture.line(x0, y(limit), x0 + width, y(limit), "r")
        picture.text(x0 + 4, y(limit) - 4, f"limit {bytes_words(limit)}", "p s z")
    error = trace.head["error"]
    if error is not None and error["op"] == row and error["pe"] == index:
        picture.text(min(x(row + 1), x0 + width) - 5, y(limit) + 14, "✕", "p b z e")
    for share in (0, 0.5, 1):
        picture.text(x0 - 6, y(top * share / 1.06) + 4, _tick(top * share / 1.06), "p s m e")
    picture.text(x0, y0 + height + 16, "0", "p s m")
    picture.text(x0 + width, y0 + height + 16, f"{stop - first} steps", "p s m e")
    here = x(row + 1)
    if x0 + 24 < here < x0 + width - 90:
        picture.text(here, y0 + height + 16, f"step {row - first + 1}", "p s i")


def _tick(nbytes: float) -> str:
    """A size beside the axis, for which there is little room."""
    words = bytes_words(int(nbytes))
    number, _, unit = words.partition(" ")
    return words if len(number) < 5 else f"{round(float(number))} {unit}"


def _block_name(trace: Trace, k: int) -> str:
    """A block's name, else the operation that made it, as in the page."""
    name = trace.text(int(trace.allocs["name"][k]))
    if name:
        return name
    born = int(trace.allocs["born"][k])
    return trace.text(int(trace.tables["kinds"]["op"][trace.ops["kind"][born]])) if born >= 0 else "block"


def _scratch(picture: Picture, trace: Trace, index: int, row: int, box: Box) -> None:
    """What is in scratch now, by address, with names."""
    x0, y0, width, height = box
    a = trace.allocs
    top = max(int(trace.pes[index]["peak"]), 1) * 1.06
    engines = trace.head["engines"]
    live = [k for k in trace.live(row).tolist() if a["size"][k] > 0]
    cursor, peak = int(trace.ops["cursor"][row]), int(trace.ops["peak"][row])

    def y(address: float) -> float:
        return y0 + height * (1 - address / top)

    picture.rect(x0, y0, width, height, "u")
    picture.rect(x0, y(peak), width, y(cursor) - y(peak), "y")
    if len(live) > _MOST_BLOCKS:  # too many to tell apart
        picture.rect(x0, y(cursor), width, y(0) - y(cursor), "t")
    else:
        for k in live:
            kind = "k" if a["arena"][k] == 0 and trace.head["scoped"] else _CLASS[engines[a["engine"][k]]]
            low, high = int(a["addr"][k]), int(a["addr"][k] + a["size"][k])
            picture.rect(x0, y(high), width, max(y(low) - y(high), 0.6), kind)
    picture.line(x0 - 8, y(cursor), x0 + width, y(cursor), "w")
    room = int(height / 13)
    rows = live[::-1][:room] if len(live) > room else live[::-1]
    at = y0 + 10
    for i, k in enumerate(rows):
        middle = y(int(a["addr"][k]) + int(a["size"][k]) / 2)
        label = max(at, min(middle + 4, y0 + height - 13 * (len(rows) - 1 - i)))
        at = label + 13
        picture.line(x0 + width + 1, middle, x0 + width + 14, label - 4, "l")
        shape = f"{trace.text(int(a['shape'][k]))} {trace.text(int(a['dtype'][k]))}"
        bold = " b" if k == int(trace.ops["out"][row]) else ""
        picture.text(x0 + width + 18, label, clipped(_block_name(trace, k), 14), f"c{bold}")
        picture.text(x0 + width + 112, label, clipped(shape, 18), "p s m")
        picture.text(WIDTH, label, bytes_words(int(a["nbytes"][k])), "p s e")
    arena = "persistent below, scoped above" if trace.head["scoped"] else "nothing is given back"
    more = f"; {len(live) - len(rows)} more" if len(live) > len(rows) else ""
    picture.text(x0, y0 + height + 16, f"{len(live)} live blocks{more}: {arena}", "p s m")


def _counters(picture: Picture, trace: Trace, row: int, top: float) -> None:
    ops, limit = trace.ops, trace.head["scratch_bytes"]
    peak, need = int(ops["peak"][row]), int(ops["need"][row])
    cells = [
        ("time", time_words(int(ops["clock"][row]))),
        ("HBM bytes", bytes_words(int(ops["hbm"][row]))),
        ("FLOPs", grouped(int(ops["flops"][row]))),
        ("peak scratch", f"{bytes_words(peak)}, {100 * peak / limit:.1f} %" if limit else bytes_words(peak)),
        ("copies", str(int(ops["copies"][row]))),
        ("without scopes", bytes_words(need)),
    ]
    for i, (what, value) in enumerate(cells):
        picture.text(i * 160, top, what, "p s m")
        picture.text(i * 160, top + 17, value, "p b")
