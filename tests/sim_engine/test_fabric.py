"""Links against `topology/costs.py`, section 5: exact whole picoseconds."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernbench_nb.sim_engine import Fabric
from kernbench_nb.topology import Link, Route


def links(*specs: tuple[int | Fraction | None, int]) -> list[Link]:
    """Links from (GB/s, latency in ps)."""
    end = (0, 0, 0, 0)
    return [
        Link(i, f"link{i}", None if gb is None else Fraction(gb), latency, "pe", end, end)
        for i, (gb, latency) in enumerate(specs)
    ]


def route(*path: Link) -> Route:
    return Route(tuple(path), sum(link.latency_ps for link in path))


SLOW, FAST = (1, 5_000), (4, 7_000)


@pytest.mark.parametrize(
    ("path", "nbytes", "arrival"),
    [
        ((SLOW,), 8, 8_000 + 5_000),
        ((SLOW, FAST), 8, 8_000 + 12_000),
        ((FAST, SLOW), 8, 8_000 + 12_000),
        ((FAST, FAST, FAST), 8, 2_000 + 21_000),
        ((FAST, SLOW, FAST), 8, 8_000 + 19_000),
        ((SLOW, FAST), 0, 12_000),
        (((3, 10),), 1, 334 + 10),
        (((Fraction(1, 2), 0),), 1, 2_000),
        ((), 8, 0),
    ],
)
def test_alone_it_takes_the_latencies_and_the_slowest_link(
    path: tuple[tuple[int, int], ...], nbytes: int, arrival: int
) -> None:
    way = route(*links(*path))
    assert Fabric().transfer(way, nbytes, 100) == (100, 100 + arrival)
    assert way.alone_ps(nbytes) == arrival


def test_a_fast_link_behind_a_slow_one_is_busy_while_the_tail_passes() -> None:
    slow, fast = links(SLOW, FAST)
    fabric = Fabric()
    fabric.transfer(route(slow, fast), 8, 0)
    # The tail leaves the slow link at 8 000 and reaches the fast one at 13 000: it is busy [11 000, 13 000].
    assert (fabric.links[0].free_ps, fabric.links[0].busy_ps) == (8_000, 8_000)
    assert (fabric.links[1].free_ps, fabric.links[1].busy_ps) == (13_000, 2_000)
    # A message that is at the fast link at 12 000 goes behind it; alone it would have arrived at 21 000.
    assert fabric.transfer(route(fast), 8, 12_000) == (13_000, 13_000 + 2_000 + 7_000)


def test_a_slow_link_behind_a_fast_one_starts_with_the_head() -> None:
    fast, slow = links(FAST, SLOW)
    fabric = Fabric()
    assert fabric.transfer(route(fast, slow), 8, 0) == (0, 7_000 + 8_000 + 5_000)
    assert (fabric.links[0].free_ps, fabric.links[1].free_ps) == (2_000, 15_000)


@pytest.mark.parametrize("k", [1, 2, 3, 8])
def test_k_senders_into_one_link(k: int) -> None:
    *inputs, shared = links(*[FAST] * k, SLOW)
    fabric = Fabric()
    arrivals = [fabric.transfer(route(one, shared), 8, 0)[1] for one in inputs]
    assert arrivals == [7_000 + (i + 1) * 8_000 + 5_000 for i in range(k)]
    use = fabric.links[shared.index]
    assert (use.busy_ps, use.nbytes, use.messages) == (k * 8_000, k * 8, k)


def test_k_messages_over_the_same_path() -> None:
    way = route(*links(SLOW, FAST))
    fabric = Fabric()
    sent = [fabric.transfer(way, 8, 0) for _ in range(4)]
    assert sent == [(i * 8_000, (i + 1) * 8_000 + 12_000) for i in range(4)]


@pytest.mark.parametrize("by", ["fabric", "link"])
def test_wide_links_keep_their_latency_and_nobody_waits(by: str) -> None:
    wide_link = by == "link"
    one, other = links((None, 5_000), (None, 7_000)) if wide_link else links(SLOW, FAST)
    fabric = Fabric(wide=not wide_link)
    assert fabric.transfer(route(one, other), 1 << 30, 100) == (100, 12_100)
    assert fabric.transfer(route(other), 1 << 30, 0) == (0, 7_000)
    assert fabric.links[1].busy_ps == 0
    assert fabric.links[1].nbytes == 2 << 30


def test_an_empty_message_waits_its_turn_all_the_same() -> None:
    (slow,) = links(SLOW)
    fabric = Fabric()
    fabric.transfer(route(slow), 8, 0)
    assert fabric.transfer(route(slow), 0, 0) == (8_000, 13_000)


# Any traffic ----------------------------------------------------------------------------------------------------

NET = links((1, 50), (3, 20), (7, 0), (64, 900))
paths = st.lists(st.sampled_from(NET), min_size=1, max_size=4, unique=True)
messages = st.lists(st.tuples(paths, st.integers(0, 500), st.integers(0, 3_000)), min_size=1, max_size=12)


def by_the_page(
    path: list[Link], nbytes: int, t: int, free: dict[int, int], busy: dict[int, list[tuple[int, int]]]
) -> tuple[int, int]:
    """Section 5, sentence by sentence, with every busy interval written down."""
    head = tail = t
    start = -1
    for link in path:
        duration = -(-nbytes * 1000 // int(link.gb_per_s))  # type: ignore[arg-type]
        head = max(head, free.get(link.index, 0))
        end = max(head + duration, tail)
        busy.setdefault(link.index, []).append((end - duration, end))
        free[link.index] = end
        start = end - duration if start < 0 else start
        head += link.latency_ps
        tail = end + link.latency_ps
    return start, tail


@given(messages)
def test_any_traffic_is_as_the_page_says(traffic: list[tuple[list[Link], int, int]]) -> None:
    fabric = Fabric()
    free: dict[int, int] = {}
    busy: dict[int, list[tuple[int, int]]] = {}
    last = 0
    for path, nbytes, t in sorted(traffic, key=lambda m: m[2]):
        start, arrival = fabric.transfer(route(*path), nbytes, t)
        assert (start, arrival) == by_the_page(path, nbytes, t, free, busy)
        assert arrival >= t + route(*path).alone_ps(nbytes)
        assert start >= t
        last = max(last, arrival)
    for index, use in fabric.links.items():
        assert use.free_ps == free[index]
        assert use.busy_ps == sum(stop - start for start, stop in busy[index]) <= last
        intervals = busy[index]  # in order of reservation: none begins before the one before has ended
        assert all(after[0] >= before[1] for before, after in pairwise(intervals))
    assert sum(use.nbytes for use in fabric.links.values()) == sum(len(p) * n for p, n, _ in traffic)


@given(messages, paths, st.integers(0, 500), st.integers(0, 3_000), st.integers(0, 100), st.integers(0, 100))
def test_more_bytes_or_a_later_start_never_arrive_earlier(
    traffic: list[tuple[list[Link], int, int]], path: list[Link], nbytes: int, t: int, more: int, later: int
) -> None:
    def arrival(n: int, at: int) -> int:
        fabric = Fabric()
        for other, size, when in traffic:
            fabric.transfer(route(*other), size, when)
        return fabric.transfer(route(*path), n, at)[1]

    assert arrival(nbytes, t) <= arrival(nbytes + more, t)
    assert arrival(nbytes, t) <= arrival(nbytes, t + later)


@given(paths, st.lists(st.tuples(st.integers(0, 500), st.integers(0, 3_000)), min_size=2, max_size=8))
def test_messages_of_one_path_arrive_in_order(path: list[Link], sends: list[tuple[int, int]]) -> None:
    fabric = Fabric()
    arrivals = [fabric.transfer(route(*path), n, t)[1] for n, t in sorted(sends, key=lambda s: s[1])]
    assert arrivals == sorted(arrivals)
