"""`DPPolicy` and `placement`: who holds which rows and columns."""

from __future__ import annotations

import doctest
from dataclasses import FrozenInstanceError
from itertools import groupby, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernbench_nb.errors import PlacementError
from kernbench_nb.policy.placement import DPPolicy, Shard, dp, placement, split
from kernbench_nb.topology import resolve_topology

AHBM = resolve_topology("ahbm")
SPLITS = st.sampled_from(["replicate", "row_wise", "column_wise"])


def lengths(shards: tuple[Shard, ...]) -> list[int]:
    return [shard.rows[1] - shard.rows[0] for shard in shards]


# Splits


@pytest.mark.parametrize(
    ("whole", "parts", "cuts"),
    [
        ((0, 8), 4, [(0, 2), (2, 4), (4, 6), (6, 8)]),
        ((0, 5), 2, [(0, 3), (3, 5)]),
        ((0, 9), 4, [(0, 3), (3, 5), (5, 7), (7, 9)]),
        ((3, 5), 4, [(3, 4), (4, 5), (5, 5), (5, 5)]),
        ((0, 0), 2, [(0, 0), (0, 0)]),
        ((2, 7), 1, [(2, 7)]),
    ],
)
def test_split(whole: tuple[int, int], parts: int, cuts: list[tuple[int, int]]) -> None:
    assert list(split(whole, parts)) == cuts


def test_five_rows_over_two_cubes_of_four() -> None:
    policy = DPPolicy(cube="row_wise", pe="row_wise", num_cubes=2, num_pes=4)
    shards = placement((5, 7), policy, AHBM)
    assert lengths(shards) == [1, 1, 1, 0, 1, 1, 0, 0]
    assert [shard.rows for shard in shards[2:6]] == [(2, 3), (3, 3), (3, 4), (4, 5)]
    assert {shard.cols for shard in shards} == {(0, 7)}
    assert [shard.pe_global for shard in shards] == [0, 1, 2, 3, 8, 9, 10, 11]
    assert [(shard.cube, shard.pe) for shard in shards[3:5]] == [(0, 3), (1, 0)]


def test_the_placements_of_the_seeds() -> None:
    whole = placement((1, 512), DPPolicy(cube="replicate", pe="replicate", num_cubes=1, num_pes=8), AHBM)
    assert {(shard.rows, shard.cols) for shard in whole} == {((0, 1), (0, 512))}
    rows = placement((64, 64), DPPolicy(cube="replicate", pe="row_wise", num_cubes=1, num_pes=8), AHBM)
    assert [shard.rows for shard in rows] == [(8 * i, 8 * i + 8) for i in range(8)]
    cubes = placement((16, 64), DPPolicy(cube="row_wise", pe="replicate", num_cubes=4, num_pes=1), AHBM)
    assert [(shard.pe_global, shard.rows) for shard in cubes] == [
        (8 * i, (4 * i, 4 * i + 4)) for i in range(4)
    ]


def test_levels_may_split_different_axes() -> None:
    policy = DPPolicy(cube="row_wise", pe="column_wise", num_cubes=2, num_pes=3)
    shards = placement((4, 7), policy, AHBM)
    assert [(shard.rows, shard.cols) for shard in shards] == [
        ((0, 2), (0, 3)), ((0, 2), (3, 5)), ((0, 2), (5, 7)),
        ((2, 4), (0, 3)), ((2, 4), (3, 5)), ((2, 4), (5, 7)),
    ]  # fmt: skip


def test_over_sips() -> None:
    policy = DPPolicy(sip="row_wise", cube="row_wise", num_sips=2, num_cubes=2)
    shards = placement((5,), policy, AHBM)
    assert [(shard.sip, shard.cube, shard.pe_global) for shard in shards] == [
        (0, 0, 0), (0, 1, 8), (1, 0, 128), (1, 1, 136),
    ]  # fmt: skip
    assert lengths(shards) == [2, 1, 1, 1]


def test_one_axis() -> None:
    shards = placement((5,), DPPolicy(pe="row_wise", num_pes=2), AHBM)
    assert [(shard.rows, shard.cols) for shard in shards] == [((0, 3), (0, 1)), ((3, 5), (0, 1))]
    assert [shard.shape((5,)) for shard in shards] == [(3,), (2,)]


def test_three_axes_split_the_first_and_the_last() -> None:
    policy = DPPolicy(cube="row_wise", pe="column_wise", num_cubes=2, num_pes=2)
    shards = placement((4, 5, 6), policy, AHBM)
    assert {shard.shape((4, 5, 6)) for shard in shards} == {(2, 5, 3)}
    assert shards[-1].index((4, 5, 6)) == (slice(2, 4), slice(0, 5), slice(3, 6))


def test_no_axis_can_only_be_repeated() -> None:
    (shard,) = placement((), DPPolicy(), AHBM)
    assert (shard.rows, shard.cols) == ((0, 1), (0, 1))
    assert shard.shape(()) == ()
    assert shard.index(()) == ()


SHAPES = st.lists(st.integers(0, 9), min_size=2, max_size=3).map(tuple)
POLICIES = st.builds(
    DPPolicy,
    sip=SPLITS,
    cube=SPLITS,
    pe=SPLITS,
    num_sips=st.integers(1, 2),
    num_cubes=st.integers(1, 5),
    num_pes=st.integers(1, 8),
)


@given(shape=SHAPES, policy=POLICIES)
def test_parts_cover_the_whole_as_often_as_it_is_repeated(shape: tuple[int, ...], policy: DPPolicy) -> None:
    held = np.zeros(shape, dtype=np.int64)
    shards = placement(shape, policy, AHBM)
    for shard in shards:
        held[shard.index(shape)] += 1
        assert held[shard.index(shape)].shape == shard.shape(shape)
        assert AHBM.locate(shard.pe_global) == (shard.sip, shard.cube, shard.pe)
    copies = 1
    for how, count in (
        (policy.sip, policy.num_sips),
        (policy.cube, policy.num_cubes),
        (policy.pe, policy.num_pes),
    ):
        copies *= count if how == "replicate" else 1
    assert (held == copies).all()
    assert len(shards) == policy.pes
    assert [shard.pe_global for shard in shards] == sorted({shard.pe_global for shard in shards})


@given(rows=st.integers(0, 40), policy=POLICIES)
def test_rows_stay_in_order_and_longer_parts_come_first(rows: int, policy: DPPolicy) -> None:
    shards = placement((rows, 3), policy, AHBM)
    for _, group in groupby(shards, key=lambda shard: (shard.sip, shard.cube)):
        in_cube = list(group)
        sizes = lengths(tuple(in_cube))
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[0] - sizes[-1] <= 1
        if policy.pe == "row_wise":
            assert all(a.rows[1] == b.rows[0] for a, b in pairwise(in_cube))
        else:
            assert len({shard.rows for shard in in_cube}) == 1


# The policy itself


def test_defaults_and_properties() -> None:
    policy = DPPolicy(cube="replicate", pe="row_wise", num_cubes=3, num_pes=4)
    assert (policy.sip, policy.num_sips, policy.pes, policy.replicated) == ("replicate", 1, 12, False)
    assert DPPolicy(num_pes=8).replicated
    assert DPPolicy() == DPPolicy(cube="replicate", pe="replicate", num_cubes=1, num_pes=1)
    with pytest.raises(FrozenInstanceError):
        policy.num_pes = 2  # type: ignore[misc]


def test_numpys_whole_numbers_are_taken() -> None:
    policy = DPPolicy(num_pes=np.int64(4))  # type: ignore[arg-type]
    assert policy == DPPolicy(num_pes=4)
    assert type(policy.num_pes) is int


@pytest.mark.parametrize(
    ("field", "word", "like"),
    [
        ("cube", "row", "row_wise"),
        ("pe", "rowwise", "row_wise"),
        ("pe", "col_wise", "column_wise"),
        ("sip", "replicated", "replicate"),
    ],
)
def test_an_unknown_word_is_told_the_nearest(field: str, word: str, like: str) -> None:
    with pytest.raises(ValueError) as caught:
        DPPolicy(**{field: word})  # type: ignore[arg-type]
    assert str(caught.value) == (
        f"DPPolicy({field}={word!r}): expected one of 'replicate', 'row_wise', 'column_wise'; "
        f"did you mean {like!r}?"
    )


@pytest.mark.parametrize("word", [None, 3, ["row_wise"], "zebra"])
def test_an_odd_word(word: object) -> None:
    with pytest.raises(PlacementError, match=r"expected one of 'replicate', 'row_wise', 'column_wise'$"):
        DPPolicy(pe=word)  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [0, -1, 1.0, True, None, "2"])
@pytest.mark.parametrize("field", ["num_sips", "num_cubes", "num_pes"])
def test_a_bad_count(field: str, count: object) -> None:
    with pytest.raises(PlacementError) as caught:
        DPPolicy(**{field: count})  # type: ignore[arg-type]
    assert str(caught.value) == f"DPPolicy({field}={count!r}): expected a whole number from 1 on"


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (DPPolicy(num_pes=9), "DPPolicy(num_pes=9) does not fit topology 'ahbm', which has 8 PEs a cube"),
        (
            DPPolicy(num_cubes=17),
            "DPPolicy(num_cubes=17) does not fit topology 'ahbm', which has 16 cubes a SIP",
        ),
        (DPPolicy(num_sips=3), "DPPolicy(num_sips=3) does not fit topology 'ahbm', which has 2 SIPs"),
    ],
)
def test_a_policy_larger_than_the_machine(policy: DPPolicy, text: str) -> None:
    with pytest.raises(PlacementError) as caught:
        placement((64, 64), policy, AHBM)
    assert str(caught.value).startswith(text)


def test_a_policy_as_large_as_the_machine() -> None:
    policy = DPPolicy(sip="row_wise", cube="row_wise", pe="row_wise", num_sips=2, num_cubes=16, num_pes=8)
    assert lengths(placement((256, 1), policy, AHBM)) == [1] * 256


@pytest.mark.parametrize(
    ("shape", "policy", "text"),
    [
        (
            (),
            DPPolicy(pe="row_wise"),
            "'row_wise' needs a tensor with at least an axis, got shape (); use 'replicate'",
        ),
        (
            (5,),
            DPPolicy(cube="column_wise"),
            "'column_wise' needs a tensor with at least two axes, got shape (5,); use 'row_wise' or 'replicate'",
        ),
        ((-1, 2), DPPolicy(), "expected a shape with no negative length, got (-1, 2)"),
    ],
)
def test_an_axis_that_is_not_there(shape: tuple[int, ...], policy: DPPolicy, text: str) -> None:
    with pytest.raises(PlacementError) as caught:
        placement(shape, policy, AHBM)
    assert str(caught.value) == text


def test_the_examples_of_the_docstrings() -> None:
    assert doctest.testmod(dp) == (0, 1)
