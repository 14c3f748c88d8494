"""What each panel says, against the trace: numbers are read off the page and compared."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

import numpy as np
import pytest
from harness import Page, View

from kernbench_nb.widgets.reader import Trace

ENGINES = ["dma", "gemm", "math", "ipc"]
Traces = Callable[[str], Trace]


def plain(text: str) -> str:
    """Without the blanks between thousands."""
    return text.replace("\u202f", "")


def fixed(x: float, digits: int) -> str:
    """As JavaScript's toFixed: a tie goes up."""
    return str(Decimal(x).quantize(Decimal(1).scaleb(-digits), rounding=ROUND_HALF_UP))


def bytes_text(n: float) -> str:
    """As `numbers.js` writes bytes."""
    if n < 1024:
        return f"{n:.0f} B"
    if n < 1 << 20:
        k = n / 1024
        return f"{fixed(k, 1 if k < 100 and n % 1024 else 0)} KiB"
    return fixed(n / 2**20, 2).rstrip("0").rstrip(".") + " MiB"


def row_of(trace: Trace, view: View) -> int:
    """The row that a view stands at."""
    pe = next(p for p in trace.head["pes"] if p["pe"] == view.get("pe"))
    return int(pe["op0"]) + int(view.get("step"))


def text(trace: Trace, index: int) -> str:
    return str(trace.head["strings"][index])


def live(trace: Trace, row: int) -> list[int]:
    """Blocks alive after a row, by the rule of the format: ``born <= row < dead``, on the same PE and launch."""
    a, parts = trace.tables["allocs"], trace.tables["parts"]
    here = next(i for i in range(len(parts["op0"])) if parts["op0"][i] <= row < parts["op1"][i])
    mine = trace.tables["scopes"]["part"][a["scope"]] == here
    return [int(k) for k in np.flatnonzero((a["born"] <= row) & (row < a["dead"]) & mine)]


def ready(trace: Trace, n: int) -> int:
    """The row after which a tile's weights are shown: its `exp`, else its p, else its last."""
    tiles, o, kinds = trace.tables["tiles"], trace.ops, trace.tables["kinds"]
    for row in range(int(tiles["weights"][n]), int(tiles["op0"][n]) - 1, -1):
        if text(trace, o["name"][row]) == text(trace, kinds["op"][o["kind"][row]]) == "exp":
            return row
    return int(tiles["weights"][n] if tiles["weights"][n] >= 0 else tiles["op1"][n])


def steps(trace: Trace, pe: dict[str, Any], count: int = 7) -> list[int]:
    n = int(pe["op1"] - pe["op0"])
    return sorted({round(k * (n - 1) / (count - 1)) for k in range(count)})


@pytest.mark.parametrize("name", ["decode", "ring", "user", "no scopes"])
def test_counters(page: Page, trace: Traces, name: str) -> None:
    t = trace(name)
    view = page.show(t)
    o = t.ops
    for pe in (t.head["pes"][0], t.head["pes"][-1]):
        view.set("pe", pe["pe"])
        for step in steps(t, pe, 5):
            view.set("step", step)
            row = row_of(t, view)
            said = {
                label: plain(view[f".c-{label} dd b"].text_content())
                for label in ("hbm", "peak", "copies", "need", "time")
            }
            assert said["hbm"] == bytes_text(o["hbm"][row])
            assert said["peak"] == bytes_text(o["peak"][row])
            assert said["copies"] == str(o["copies"][row])
            assert said["need"] == bytes_text(o["need"][row])
            ns = o["clock"][row] / 1000
            assert said["time"] in (f"{fixed(ns, 0)} ns", f"{fixed(ns, 1)} ns", f"{fixed(ns / 1000, 2)} µs")


@pytest.mark.parametrize("name", ["decode", "flash", "user", "no scopes", "overflow"])
def test_scratch_lists_the_live_blocks(page: Page, trace: Traces, name: str) -> None:
    t = trace(name)
    view = page.show(t)
    a = t.tables["allocs"]
    for step in steps(t, t.head["pes"][0], 6):
        view.set("step", step)
        row = row_of(t, view)
        label = plain(view[".p-arena svg"].get_attribute("aria-label"))
        alive = live(t, row)
        assert f"cursor {t.ops['cursor'][row]} bytes, high-water {t.ops['peak'][row]}" in label
        assert f"; {len(alive)} live block" in label
        shown = [plain(x) for x in view.texts(".p-arena text")]
        if len(alive) <= 20:
            for k in alive:
                name_ = text(t, a["name"][k])
                assert str(a["nbytes"][k]) in shown
                assert not name_ or any(
                    s == name_ or (s.endswith("…") and name_.startswith(s[:-1])) for s in shown
                ), name_
        elif any(a["arena"][k] == 0 for k in alive) and t.head["scoped"]:
            assert "Persistent arena" in shown


def test_scratch_names_the_arenas(page: Page, trace: Traces) -> None:
    t = trace("decode")
    view = page.show(t, step=50, pe=7)
    shown = view.texts(".p-arena text")
    assert shown.count("Persistent arena") == shown.count("Scoped arena") == 1
    a = t.tables["allocs"]
    alive = live(t, row_of(t, view))
    for heading, arena in (("Persistent arena", 0), ("Scoped arena", 1)):
        size = sum(int(a["size"][k]) for k in alive if a["arena"][k] == arena)
        after = shown[shown.index(heading) :][:3]
        assert bytes_text(size) in after


@pytest.mark.parametrize("name", ["decode", "prefetch", "user"])
def test_engines_say_how_busy_they_are(page: Page, trace: Traces, name: str) -> None:
    t = trace(name)
    view = page.show(t, view="page")
    tiles, o, kinds = t.tables["tiles"], t.ops, t.tables["kinds"]
    pe = t.head["pes"][0]
    for n in np.flatnonzero((tiles["pe"] == 0) & (tiles["place"] > 0))[:3]:
        view.set("step", int(tiles["stop"][n] - pe["op0"]))
        first, last = int(tiles["op0"][n]), int(tiles["op1"][n])
        begin = int(o["clock"][first - 1]) if first > pe["op0"] else 0
        end = int(o["clock"][last])
        busy = dict.fromkeys(ENGINES, 0)
        for row in range(pe["op0"], pe["op1"]):
            engine = kinds["engine"][o["kind"][row]]
            if engine < 4:
                at = int(o["start"][row])
                busy[ENGINES[engine]] += max(
                    0, min(end, at + int(kinds["busy"][o["kind"][row]])) - max(begin, at)
                )
        said = view[".p-engines svg"].get_attribute("aria-label")
        most = max(busy.values())
        for engine in ENGINES:
            share = busy[engine] / (end - begin)
            if share < 0.1:
                continue
            assert f"{engine} {fixed(share * 100, 0)} %" in said
            assert (f"{engine} {fixed(share * 100, 0)} % (busiest)" in said) == (busy[engine] == most)


def test_source_marks_the_line_and_the_line_that_called(page: Page, trace: Traces) -> None:
    t = trace("decode")
    view = page.show(t)
    sites, o = t.tables["sites"], t.ops
    seen = set()
    for step in steps(t, t.head["pes"][0], 14):
        view.set("step", step)
        site = int(o["site"][row_of(t, view)])
        source, line = int(sites["source"][site]), int(sites["line"][site])
        marked = [int(e.text_content()) for e in view[".line.on .no"].all()]
        if source == 0:
            assert line in marked
        else:
            assert marked[:1] == [int(sites["kline"][site])] or int(sites["kline"][site]) in marked
            name = t.head["sources"][source]["name"]
            assert view[".shared .file b"].text_content() == name
            assert view[".shared .line.on .no"].text_content() == str(line)
            seen.add(name)
    assert "fold_tile" in seen


def test_source_shows_the_whole_text_of_a_reader_s_own_kernel(page: Page, trace: Traces) -> None:
    t = trace("user")
    view = page.show(t)
    shown = " ".join(view.texts(".p-source .line code"))
    for line in t.head["sources"][0]["lines"]:
        if not line.strip().startswith('"""'):
            assert line.split("#")[0].strip() in shown


def test_values_are_the_recorded_ones(page: Page, trace: Traces) -> None:
    t = trace("decode")
    view = page.show(t, pe=7, view="page")
    values, tiles, pe = t.tables["values"], t.tables["tiles"], t.head["pes"][7]
    for n in np.flatnonzero((tiles["pe"] == 7) & (tiles["place"] > 1)):
        view.set("step", int(tiles["stop"][n] - pe["op0"]))
        shown = view.texts(".p-values text")
        for what in ("m", "l", "c"):
            at = next(i for i in np.flatnonzero(values["tile"] == n) if text(t, values["what"][i]) == what)
            off, rows = int(values["off"][at]), int(values["rows"][at])
            pool = t.tables["pool2" if values["half"][at] else "pool4"]
            column = next(iter(pool.values()))[off : off + rows]
            for x in column:
                assert fixed(float(x), 2).replace("-", "−") in shown
        assert "exp(s − m)" in shown


def test_scores_are_shown_too(page: Page, trace: Traces) -> None:
    t = trace("decode")
    view = page.show(t, pe=7, step=55, view="page")
    view[".p-values .mini button:text-is('s')"].click()
    view.settle()
    values = t.tables["values"]
    n = int(t.ops["tile"][row_of(t, view)])
    at = next(i for i in np.flatnonzero(values["tile"] == n) if text(t, values["what"][i]) == "s")
    off, size = int(values["off"][at]), int(values["rows"][at] * values["cols"][at])
    scores = next(iter(t.tables["pool2"].values()))[off : off + size].astype(float)
    ends = [fixed(float(x), 1).replace("-", "−") for x in (scores.min(), scores.max())]
    shown = view.texts(".p-values text")
    assert "scaled scores" in shown
    assert " … ".join(ends) in shown


def test_values_of_a_merge_show_what_was_kept(page: Page, trace: Traces) -> None:
    t = trace("decode")
    view = page.show(t, view="page")
    tiles, pe = t.tables["tiles"], t.head["pes"][0]
    merge = next(
        n for n in range(len(tiles["pe"])) if text(t, tiles["kind"][n]) == "merge" and tiles["pe"][n] == 0
    )
    view.set("step", int(tiles["stop"][merge] - pe["op0"]))
    shown = view.texts(".p-values text")
    assert "l·a / l_new" in shown
    assert "from PE 1" in shown


@pytest.mark.parametrize("name", ["decode", "flash", "ring", "long", "naive"])
def test_score_map_counts_what_is_folded(page: Page, trace: Traces, name: str) -> None:
    t = trace(name)
    view = page.show(t)
    tiles, o = t.tables["tiles"], t.ops
    pes = t.head["pes"]
    for step in steps(t, pes[0], 5):
        view.set("step", step)
        row = row_of(t, view)
        now = o["clock"][row]
        layer = max(0, int(tiles["layer"][o["tile"][row]]))
        done = total = 0
        for n in range(len(tiles["pe"])):
            if tiles["place"][n] <= 0 or tiles["k0"][n] < 0 or tiles["layer"][n] != layer:
                continue
            total += 1
            q = int(tiles["pe"][n])
            rows = o["clock"][pes[q]["op0"] : pes[q]["op1"]]
            there = row if q == 0 else pes[q]["op0"] + int(np.searchsorted(rows, now, side="right")) - 1
            done += bool(ready(t, n) <= there)
        said = view[".p-score svg"].get_attribute("aria-label")
        if tiles["layer"][o["tile"][row]] >= 0:
            assert f"{done} of {total} tile" in said


def test_score_map_shows_the_words_of_the_current_tile(page: Page, trace: Traces) -> None:
    t = trace("decode")
    view = page.show(t, pe=7, step=50)
    words = [w.strip() for w in t.head["score"]["tokens"]]
    n = int(t.ops["tile"][row_of(t, view)])
    tiles = t.tables["tiles"]
    shown = view.texts(".p-score text")
    for k in range(tiles["k0"][n], tiles["k1"][n]):
        assert words[k] in shown


def test_weights_fade_as_soon_as_a_new_maximum_is_there(page: Page, trace: Traces) -> None:
    """At `O*c` of a tile its words have their weights; the state is still the old one, until it is copied."""
    t = trace("decode")
    view = page.show(t, pe=7, granularity="op", view="page")
    pe, tiles = t.head["pes"][7], t.tables["tiles"]
    row = max(i for i in range(pe["op0"], pe["op1"]) if text(t, t.ops["name"][i]) == "O*c")
    n = int(t.ops["tile"][row])
    assert tiles["weights"][n] > row  # p is made later
    view.set("step", row - pe["op0"])
    said = view[".p-values svg"].get_attribute("aria-label")
    assert f"Values after {text(t, tiles['label'][n - 1])}" in said
    assert sum(s.startswith(".") and s[1:].isdigit() for s in view.texts(".p-score text")) >= 5


def test_pes_say_who_waits_for_whom(page: Page, trace: Traces) -> None:
    t = trace("decode")
    tiles, pe = t.tables["tiles"], t.head["pes"][7]
    stop = int(tiles["stop"][np.flatnonzero((tiles["pe"] == 7) & (tiles["place"] > 0))[-1]])
    view = page.show(t, pe=7, step=stop + 1 - pe["op0"], view="page")
    view.keys("End")
    said = view[".p-pes svg"].get_attribute("aria-label")
    assert "PE 6: waits for PE 7" in said
    assert "messages under way (PE 7 to PE 6)" in said


def test_ring_carries_the_blocks_of_keys(page: Page, trace: Traces) -> None:
    """Somewhere on the way messages are under way, and the map shows K and V travelling."""
    t = trace("ring")
    msgs, o = t.tables["msgs"], t.ops
    view = page.show(t, view="page")
    sent = int(msgs["send"][0])
    pe = next(p for p in t.head["pes"] if p["op0"] <= sent < p["op1"])
    view.set("pe", pe["pe"])
    view.set("step", sent + 1 - pe["op0"])
    assert "KV" in view.texts(".p-score text")
    assert any(s.startswith("folds KV") for s in view.texts(".p-pes text"))
    assert o["end"][int(msgs["recv"][0])] > o["start"][sent]


def test_without_ranges_there_is_no_score_map_but_everything_else(page: Page, trace: Traces) -> None:
    view = page.show(trace("user"))
    names = view.texts("h3 .name")
    assert names == ["Scratch", "Kernel", "Engines"]
    assert view[".draw-error:visible"].count() == 0


def test_every_run_steps_through_without_a_problem(page: Page, trace: Traces, any_run: str) -> None:
    t = trace(any_run)
    view = page.show(t, view="page")
    if not t.head["tables"]["ops"]["n"]:
        assert "nothing to show" in view[".kb-message"].text_content()
        return
    for pe in {t.head["pes"][0]["pe"], t.head["pes"][-1]["pe"]}:
        view.set("pe", pe)
        for step in steps(t, next(p for p in t.head["pes"] if p["pe"] == pe), 4):
            view.set("step", step)
            assert view[".draw-error:visible"].count() == 0
            assert view.get("step") == step
