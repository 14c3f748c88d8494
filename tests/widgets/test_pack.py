"""Columns in one buffer, and back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernbench_nb.widgets.pack import Packer, unpack

WHOLE = st.integers(min_value=-(2**53), max_value=2**53)


def packed(**columns: list[int]) -> tuple[dict, bytes]:
    packer = Packer()
    rows = len(next(iter(columns.values())))
    packer.add("t", rows, {name: np.array(values, np.int64) for name, values in columns.items()})
    return packer.tables, packer.buffer()


@pytest.mark.parametrize(
    ("values", "described"),
    [
        ([0, 255], {"t": "u1"}),
        ([0, 256], {"t": "u2"}),
        ([0, 65535], {"t": "u2"}),
        ([0, 65536], {"t": "u4"}),
        ([0, 2**32 - 1], {"t": "u4"}),
        ([0, 2**32], {"t": "f8"}),
        ([-1, 127], {"t": "i1"}),
        ([-1, 128], {"t": "i2"}),
        ([-1, 40000], {"t": "i4"}),
        ([], {"t": "u1"}),
        # differences where they are smaller
        ([100, 200, 300], {"t": "u1", "d": 1}),
        ([0, 60_000, 120_000], {"t": "u2", "d": 1}),
        ([2**40, 2**40 + 1], {"t": "f8"}),  # the first difference is as large as the value
        ([0, 2**31, 2**32, 2**32 + 2**31], {"t": "u4", "d": 1}),
        ([1000, 1001, 1000], {"t": "u2"}),
        ([5, 300, 5], {"t": "u2"}),
    ],
)
def test_the_smallest_type_that_holds_a_column(values: list[int], described: dict) -> None:
    tables, buffer = packed(x=values)
    assert {key: value for key, value in tables["t"]["cols"]["x"].items() if key != "o"} == described
    assert unpack(tables, buffer)["t"]["x"].tolist() == values


@given(st.lists(st.tuples(WHOLE, st.integers(0, 300), st.integers(-5, 70_000)), max_size=40))
def test_what_goes_in_comes_out(rows: list[tuple[int, int, int]]) -> None:
    columns = {name: [row[i] for row in rows] for i, name in enumerate("abc")}
    columns["rising"] = sorted(abs(row[0]) for row in rows)
    tables, buffer = packed(**columns)
    found = unpack(tables, buffer)["t"]
    for name, values in columns.items():
        assert found[name].tolist() == values
        assert found[name].dtype == np.int64


@given(st.lists(st.integers(0, 9), max_size=9))
def test_columns_begin_at_multiples_of_eight(sizes: list[int]) -> None:
    packer = Packer()
    for number, size in enumerate(sizes):
        packer.add(f"t{number}", size, {"x": np.arange(size), "y": np.arange(size, dtype=np.float32)})
    for table in packer.tables.values():
        assert all(column["o"] % 8 == 0 for column in table["cols"].values())
    assert len(packer.buffer()) % 8 == 0


def test_floats_keep_their_type() -> None:
    packer = Packer()
    half, single = np.array([-np.inf, 0.1, 65504], np.float16), np.array([np.nan, 1e-30], np.float32)
    packer.add("h", 3, {"x": half})
    packer.add("s", 2, {"x": single})
    found = unpack(packer.tables, packer.buffer())
    assert packer.tables["h"]["cols"]["x"]["t"] == "f2"
    assert packer.tables["s"]["cols"]["x"]["t"] == "f4"
    np.testing.assert_array_equal(found["h"]["x"], half)
    np.testing.assert_array_equal(found["s"]["x"], single)


def test_the_buffer_is_little_endian() -> None:
    _, buffer = packed(x=[0, 258])
    assert buffer[:4] == bytes([0, 0, 2, 1])


def test_a_column_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match=r"column t\.x has 2 entries, and the table 3"):
        Packer().add("t", 3, {"x": np.arange(2)})


def test_a_number_that_a_double_does_not_hold_is_refused() -> None:
    with pytest.raises(
        ValueError, match=r"column t\.x holds 9007199254740993, and the page counts exactly to 2\*\*53"
    ):
        packed(x=[0, 2**53 + 1])
