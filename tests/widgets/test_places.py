"""Places named by meaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kernbench_nb as kb
from kernbench_nb.widgets.places import Spot, find_spot, find_tile_count, opening
from kernbench_nb.widgets.reader import Trace
from kernbench_nb.widgets.trace import trace_of

TraceOf = Callable[[str], Trace]


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
        ({"pe": 7, "tile": "tile 9"},
         "no tile is called 'tile 9' on PE 7; there are: 'set-up', 'tile 0', 'tile 1', 'tile 2', 'send to PE 6'."),
        ({"pe": 7, "tile": "send to PE 6", "at": "zz"},
         "no operation is called 'zz' in 'send to PE 6' on PE 7; there are: 'send m', 'send l', 'send O'."),
    ],
)  # fmt: skip
def test_no_match_lists_what_there_is(where: dict[str, Any], text: str, trace: TraceOf) -> None:
    with pytest.raises(ValueError) as caught:
        find_spot(trace("decode"), **where)
    assert str(caught.value) == text


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
    from kernbench_nb.widgets.words import pe_label

    machine = resolve_topology("ahbm")
    assert pe_label(machine, 3, range(8)) == "PE 3"
    assert pe_label(machine, 9, range(16)) == "cube 1 PE 1"
    assert pe_label(machine, 128, (0, 128)) == "SIP 1"
    assert pe_label(machine, 136, (0, 8, 128, 136)) == "SIP 1 cube 1"
    assert pe_label(machine, 5, ()) == "PE 5"
    assert np.unique([pe_label(machine, p, range(256)) for p in range(256)]).size == 256
