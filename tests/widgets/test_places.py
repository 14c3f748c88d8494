"""Places named by meaning."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kernbench_nb as kb
from kernbench_nb.widgets.places import Spot, find_spot, find_tile_count, opening
from kernbench_nb.widgets.reader import Trace
from kernbench_nb.widgets.scene import scene
from kernbench_nb.widgets.trace import trace_of

TraceOf = Callable[[str], Trace]

TILES = "'set-up', 'tile 0', 'tile 1', 'tile 2', 'send to PE 6'"
NEAR = "'tile 2' or 'tile 1' or 'tile 0'"
SENT = "'send m', 'send l', 'send O'"
OR = "'send m' or 'send l' or 'send O'"


def said(t: Trace, spot: Spot) -> tuple[str, str, str]:
    """Operation, name of what it writes or moves, and tile at a spot."""
    row = t.pes[t.index_of(spot.pe)]["op0"] + spot.step
    kinds, kind, out = t.tables["kinds"], int(t.ops["kind"][row]), int(t.ops["out"][row])
    name = t.text(int(t.ops["name"][row])) or (t.text(int(t.allocs["name"][out])) if out >= 0 else "")
    return t.text(int(kinds["op"][kind])), name, t.text(int(t.tiles["label"][t.ops["tile"][row]]))


def test_the_opening_of_the_tour(trace: TraceOf) -> None:
    t = trace("decode")
    spot = find_spot(t, pe=7, tile="tile 2", at="O*c")
    assert (spot.pe, said(t, spot)) == (7, ("mul", "O*c", "tile 2"))


@pytest.mark.parametrize(
    ("at", "meant"),
    [
        ("O*c", ("mul", "O*c", "tile 1")),  # a name that was given
        ("O_kept", ("mul", "O*c", "tile 1")),  # the variable that it is assigned to
        ("load K", ("dma_read", "K", "tile 1")),
        ("copy O", ("copy", "O", "tile 1")),
        ("dot p", ("gemm", "p*V", "tile 1")),  # reads p
        ("gemm p", ("gemm", "p*V", "tile 1")),
        ("exp c", ("exp", "c", "tile 1")),
    ],
)
def test_an_operation_by_name_variable_or_deed(at: str, meant: tuple[str, str, str], trace: TraceOf) -> None:
    t = trace("decode")
    assert said(t, find_spot(t, pe=7, tile="tile 1", at=at)) == meant


def test_what_writes_comes_before_what_reads(trace: TraceOf) -> None:
    t = trace("decode")
    assert said(t, find_spot(t, pe=0, at="mul O"))[1] == "O*c"  # nothing multiplies into O; these read it


def test_of_many_alike_the_middle_one(trace: TraceOf) -> None:
    q, k, v = kb.sample_attention()
    t = trace_of(kb.naive(q[:160, :1], k[:160, :1], v[:160, :1], rows=32, data=False))
    assert said(t, find_spot(t, at="store S"))[2] == "S rows 2"  # of five: half of S has left


def test_a_tile_alone_means_its_end_before_the_rewind(trace: TraceOf) -> None:
    t = trace("decode")
    spot = find_spot(t, pe=7, tile="tile 1")
    row = t.pes[7]["op0"] + spot.step
    assert said(t, spot)[:2] == ("copy", "O")
    assert t.text(int(t.tables["kinds"]["op"][t.ops["kind"][row + 1]])) == "scope_close"


def test_without_a_pe_the_first_that_has_such_a_place(trace: TraceOf) -> None:
    t = trace("decode")
    assert find_spot(t, tile="tile 2").pe == 7  # where a view opens
    assert find_spot(t, tile="finish").pe == 0
    assert find_spot(t, at="store O").pe == 0
    assert find_spot(t, tile="merge PE 3", at="O_in").pe == 2


def test_a_path_tells_tiles_of_one_label_apart(trace: TraceOf) -> None:
    t = trace("flash heads")
    first = find_spot(t, tile="tile 1,0")
    third = find_spot(t, tile="head 3 block 1/tile 1,0")
    assert t.tiles["layer"][first.tile] == 0
    assert t.tiles["layer"][third.tile] == 3


def test_a_pe_alone_opens_in_the_middle(trace: TraceOf) -> None:
    t = trace("decode")
    spot = find_spot(t, pe=3)
    assert (spot.pe, said(t, spot)) == (3, ("mul", "O*c", "tile 2"))


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ({"pe": 9}, "PE 9 took no part in this run; pe= is a global index, and there are: 0, 1, 2, 3, 4, 5, 6, 7."),
        ({"pe": 7, "tile": "tile 9"}, f"no tile is called 'tile 9' on PE 7; did you mean {NEAR}? There are: {TILES}."),
        ({"pe": 7, "tile": "merge PE 3"}, f"no tile is called 'merge PE 3' on PE 7 (PE 2 has it); there are: {TILES}."),
        ({"pe": 7, "tile": "send to PE 6", "at": "zz"},
         f"no operation is called 'zz' in 'send to PE 6' on PE 7; there are: {SENT}."),
        ({"pe": 7, "tile": "send to PE 6", "at": "sen"},
         f"no operation is called 'sen' in 'send to PE 6' on PE 7; did you mean {OR}? There are: {SENT}."),
    ],
)  # fmt: skip
def test_no_match_lists_what_there_is(where: dict[str, Any], text: str, trace: TraceOf) -> None:
    with pytest.raises(ValueError) as caught:
        find_spot(trace("decode"), **where)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("at", "near"),
    [
        ("o*c", "'O*c'"),
        ("load k", "'load K'"),
        ("Store O", "'store O'"),
        ("O_c", "'O*c'"),
        ("m new", "'m_new'"),
    ],
)
def test_a_name_that_is_nearly_right_gets_the_right_one(at: str, near: str, trace: TraceOf) -> None:
    with pytest.raises(ValueError, match=re.escape(f"no operation is called {at!r}; did you mean {near}")):
        find_spot(trace("decode"), at=at)


@pytest.mark.parametrize("where", [{"tile": 2}, {"at": 7}])
def test_a_name_is_a_text(where: dict[str, Any], trace: TraceOf) -> None:
    with pytest.raises(TypeError, match="a place is named by a text, such as "):
        find_spot(trace("decode"), **where)


def test_a_run_without_operations_says_so(trace: TraceOf) -> None:
    with pytest.raises(ValueError, match=r"^this run has no operations, so there is no place to name\.$"):
        find_spot(trace("nothing"), at="K")


@pytest.mark.parametrize(
    ("at", "op"), [("load", "dma_read"), ("store", "dma_write"), ("copy", "copy"), ("send", "ipc_send")]
)
def test_a_verb_alone_is_understood(at: str, op: str, trace: TraceOf) -> None:
    t = trace("decode")
    assert said(t, find_spot(t, at=at))[0] == op


def sample_runs() -> dict[str, Any]:
    """The runs of the course whose places are named there."""
    q, k, v = kb.sample_attention()
    head = q[:, 4:5], k[:, 1:2], v[:, 1:2]
    thrice, often = (tuple(np.tile(x, (n, 1, 1)) for x in (k, v)) for n in (3, 5))
    cut = tuple(x[:1280] for x in often)

    def stopped() -> Any:
        with pytest.raises(kb.ScratchOverflowError) as caught:
            kb.decode(q[-1:], *often, pes=1, tile=16, data=False, scoped=False)
        return caught.value.run

    def stale() -> Any:
        from kernbench_nb.benches.wrong import stale_sum_kernel

        return kb.launch(stale_sum_kernel, np.zeros(1, np.float32), scratch_checks="off")

    return {
        "decode": lambda: kb.decode(q[-1:], k, v, pes=8, tile=16),
        "one PE": lambda: kb.decode(q[-1:], k, v, pes=1, tile=16),
        "naive": lambda: kb.naive(*head),
        "thrice": lambda: kb.decode(q[-1:], *thrice, pes=1, tile=16),
        "scoped": lambda: kb.decode(q[-1:], *often, pes=1, tile=16, data=False),
        "stopped": stopped,
        "blocks": lambda: kb.flash(*head, tile_q=64, tile_kv=64),
        "causal": lambda: kb.flash(*head, tile_q=64, tile_kv=64, causal=True),
        "plain": lambda: kb.decode(q[-1:], *cut, pes=1, tile=64, data=False),
        "prefetched": lambda: kb.decode(q[-1:], *cut, pes=1, tile=64, data=False, prefetch=True),
        "stale": stale,
    }


@pytest.mark.parametrize(
    ("run", "where", "meant"),
    [
        ("decode", {"pe": 7, "tile": "tile 2", "at": "O*c"}, ("mul", "O*c", "tile 2")),
        ("naive", {"at": "store S"}, ("dma_write", "", "S rows 2")),
        ("one PE", {"tile": "tile 19", "at": "c"}, ("exp", "c", "tile 19")),
        ("thrice", {"tile": "tile 2", "at": "copy O"}, ("copy", "O", "tile 2")),
        ("blocks", {"tile": "tile 2,1", "at": "load K"}, ("dma_read", "K", "tile 2,1")),
        ("causal", {"tile": "tile 3,1"}, ("copy", "O", "tile 3,1")),
        ("stopped", {}, ("overflow", "V", "tile 47")),
        ("stopped", {"tile": "tile 46", "at": "c"}, ("exp", "c", "tile 46")),
        ("stale", {"at": "sum t"}, ("sum", "t", "twos")),
    ],
)
def test_places_of_the_course(run: str, where: dict[str, Any], meant: tuple[str, str, str]) -> None:
    """Each `kb.step(run, ...)` of the course stands where the course says."""
    t = trace_of(sample_runs()[run]())
    assert said(t, find_spot(t, **where)) == meant


@pytest.mark.parametrize(
    ("a", "b", "tile", "done"), [("scoped", "stopped", None, 48), ("plain", "prefetched", "tile 3", 4)]
)
def test_pairs_of_the_course(a: str, b: str, tile: str | None, done: int) -> None:
    runs = sample_runs()
    shown = scene(runs[a](), runs[b](), tile=tile)
    assert (shown.pe, shown.step) == (0, done)


def test_both_names_of_a_stale_read_are_on_one_address() -> None:
    t = trace_of(sample_runs()["stale"]())
    spot = find_spot(t, at="sum t")
    a = t.allocs
    address = {t.text(int(name)): int(at) for name, at in zip(a["name"], a["addr"], strict=True)}
    assert address["ones"] == address["twos"]
    assert [t.text(int(a["name"][k])) for k in t.live(t.pes[0]["op0"] + spot.step)] == ["twos", "t"]


def test_every_name_that_is_listed_is_found(trace: TraceOf) -> None:
    t = trace("decode")
    with pytest.raises(ValueError) as caught:
        find_spot(t, pe=0, at="zz")
    listed = [
        word for i, word in enumerate(str(caught.value).partition("there are: ")[2].split("'")) if i % 2
    ]
    assert len(listed) > 20
    for name in listed:
        find_spot(t, pe=0, at=name)


def test_a_tile_that_was_never_reached_says_so(trace: TraceOf) -> None:
    with pytest.raises(
        ValueError, match=r"no tile is called 'tile 60' on PE 0 \(it was never reached\); there are: "
    ):
        find_spot(trace("overflow"), tile="tile 60")


def test_long_lists_are_cut(trace: TraceOf) -> None:
    with pytest.raises(ValueError, match=r"and \d+ more\.$"):
        find_spot(trace("long"), tile="zz")


# -- where a view opens ----------------------------------------------------------------------------------------


def test_an_overflow_is_where_a_view_opens(trace: TraceOf) -> None:
    t = trace("overflow")
    spot = opening(t)
    assert t.pes[0]["op0"] + spot.step == t.head["error"]["op"]
    assert t.head["open"] == {"pe": 0, "step": spot.step, "tile": t.head["error"]["tile"]}


def test_a_sweep_opens_in_a_later_tile_after_the_correction(trace: TraceOf) -> None:
    assert said(trace("decode"), opening(trace("decode"))) == ("mul", "O*c", "tile 2")
    assert said(trace("flash"), opening(trace("flash"))) == ("mul", "O*c", "tile 2,1")
    assert said(trace("long"), opening(trace("long")))[2] == "tile 4"


def test_a_readers_kernel_opens_in_its_third_scope(trace: TraceOf) -> None:
    t = trace("user")
    assert opening(t).tile == 4
    t = trace("no scopes")
    spot = opening(t)
    row = t.pes[t.index_of(spot.pe)]["op0"] + spot.step
    assert t.ops["cursor"][row] == t.pes[0]["peak"]  # where it is fullest


def test_nothing_opens_at_nothing(trace: TraceOf) -> None:
    assert opening(trace("nothing")) == Spot(0, 0, -1)
    assert find_spot(trace("nothing")) == Spot(0, 0, -1)


def test_tiles_done_at_the_end_of_a_tile(trace: TraceOf) -> None:
    assert find_tile_count(trace("long"), None, "tile 4") == (0, 5)
    assert find_tile_count(trace("decode"), 3, "tile 0") == (3, 1)


def test_global_indices_are_kept_where_cubes_have_one_pe_each(trace: TraceOf) -> None:
    t = trace("ring")
    assert [p["pe"] for p in t.pes] == [0, 8, 16, 24]
    assert [p["label"] for p in t.pes] == ["cube 0", "cube 1", "cube 2", "cube 3"]
    assert find_spot(t, pe=16, tile="block 1").pe == 16


def test_labels_say_no_more_than_they_must() -> None:
    from kernbench_nb.topology import resolve_topology
    from kernbench_nb.widgets.words import pe_labels

    machine = resolve_topology("ahbm")
    for pes, pe, label in (
        (range(8), 3, "PE 3"),
        (range(16), 9, "cube 1 PE 1"),
        ((0, 128), 128, "SIP 1"),
        ((0, 8, 128, 136), 136, "SIP 1 cube 1"),
        ((5,), 5, "PE 5"),
    ):
        assert pe_labels(machine, list(pes))[pe] == label
    every = pe_labels(machine, list(range(256)))
    assert len(set(every.values())) == 256
