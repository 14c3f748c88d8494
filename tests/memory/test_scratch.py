"""The bump allocator: what it grants, what it refuses, and that a refusal changes nothing."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kernbench_nb.errors import ScratchOverflowError
from kernbench_nb.memory import ScratchAllocator

KIB = 1024


def test_start_and_size_are_rounded_up_to_sixteen() -> None:
    pool = ScratchAllocator(KIB)
    assert [pool.alloc(n) for n in (1, 16, 17, 128)] == [0, 16, 32, 64]
    assert pool.cursor == pool.used == 192


@pytest.mark.parametrize(("align", "start", "cursor"), [(1, 3, 13), (2, 4, 14), (16, 16, 32), (64, 64, 128)])
def test_another_alignment_on_request(align: int, start: int, cursor: int) -> None:
    pool = ScratchAllocator(KIB)
    pool.alloc(3, align=1)
    assert pool.alloc(10, align=align) == start
    assert pool.cursor == cursor


def test_addresses_begin_at_the_base_and_the_cursor_counts_from_it() -> None:
    pool = ScratchAllocator(KIB, base=1 << 24)
    assert pool.alloc(8) == 1 << 24
    assert pool.alloc(100, align=64) == (1 << 24) + 64
    assert pool.cursor == 64 + 128
    assert pool.free == KIB - 192


def test_zero_bytes_are_granted_and_move_nothing_even_when_the_scratch_is_full() -> None:
    pool = ScratchAllocator(64)
    pool.alloc(0)
    assert pool.cursor == 0
    pool.alloc(64)
    assert pool.alloc(0) == 64
    assert pool.alloc(0, align=1) == 64
    assert pool.cursor == 64


@pytest.mark.parametrize("capacity", [0, 16, KIB, 1 << 20])
def test_an_exact_fit_is_granted_and_one_byte_more_is_not(capacity: int) -> None:
    pool = ScratchAllocator(capacity)
    pool.alloc(capacity)
    assert pool.free == 0
    with pytest.raises(ScratchOverflowError):
        pool.alloc(1, align=1)


def test_what_rounding_takes_beyond_the_end_does_not_fit() -> None:
    pool = ScratchAllocator(64)
    pool.alloc(50, align=1)
    with pytest.raises(ScratchOverflowError):  # 14 are free, but a multiple of 16 begins at 64
        pool.alloc(1)
    assert pool.alloc(14, align=1) == 50


@pytest.mark.parametrize(
    ("nbytes", "more", "error", "text"),
    [
        (-1, {}, ValueError, "-1 bytes: a size cannot be negative"),
        (8, {"align": 3}, ValueError, "power of two, got 3"),
        (8, {"align": 0}, ValueError, "power of two, got 0"),
        (8, {"align": -16}, ValueError, "power of two, got -16"),
        (KIB + 1, {}, ScratchOverflowError, "larger than the whole scratch"),
        (1.5, {}, TypeError, "whole number of bytes, got 1.5"),
    ],
)
def test_a_refused_request_says_why_and_changes_nothing(
    nbytes: Any, more: dict[str, int], error: type[Exception], text: str
) -> None:
    pool = ScratchAllocator(KIB)
    pool.alloc(100)
    before = (pool.top, pool.fast_top, pool.cursor, pool.high_water, pool.depth)
    with pytest.raises(error, match=text):
        pool.alloc(nbytes, **more)
    assert (pool.top, pool.fast_top, pool.cursor, pool.high_water, pool.depth) == before


@pytest.mark.parametrize(("capacity", "base"), [(-16, 0), (100, 0), (64, 8), (64, -16)])
def test_a_scratch_that_is_no_multiple_of_sixteen_is_refused(capacity: int, base: int) -> None:
    with pytest.raises(ValueError, match=f"multiples of 16 .*got {capacity}, {base}"):
        ScratchAllocator(capacity, base=base)


def test_an_unknown_safety_level_names_the_three() -> None:
    with pytest.raises(ValueError, match="one of raise, poison, off, got 'loud'"):
        ScratchAllocator(KIB, checks="loud")


# -- what an overflow says ---------------------------------------------------------------------------------


def overflow(pool: ScratchAllocator, nbytes: int, **more: Any) -> ScratchOverflowError:
    with pytest.raises(ScratchOverflowError) as caught:
        pool.alloc(nbytes, **more)
    return caught.value


def test_an_overflow_has_tritons_fields_and_is_a_runtime_error() -> None:
    pool = ScratchAllocator(KIB)
    pool.alloc(1000)
    error = overflow(pool, 100)
    assert isinstance(error, RuntimeError)
    assert (error.required, error.limit, error.name) == (1008 + 112, KIB, "scratch")
    assert (error.wanted, error.free) == (100, 16)


def test_an_overflow_lists_the_living_largest_first_and_says_what_to_do() -> None:
    pool = ScratchAllocator(KIB)
    pool.alloc(64, name="m", what="f32[16]")
    pool.alloc(512, name="O", what="f32[8x16]")
    with pool.scope("tile 3"):
        pool.alloc(128, name="s", what="f16[8x8]")
        text = str(overflow(pool, 400, name="p", what="f16[10x20]", rows=10))
    lines = text.splitlines()
    assert lines[0] == "TLContext scratch overflow: p f16[10x20] wants 400 B, 320 B free of 1 024 B."
    assert lines[1] == "Live now, largest first (3 in all, 704 B in use):"
    assert [re.split(r"\s{2,}", line.strip()) for line in lines[2:5]] == [
        ["512 B", "O", "f32[8x16]", "persistent arena"],
        ["128 B", "s", "f16[8x8]", "scoped arena 'tile 3'"],
        ["64 B", "m", "f32[16]", "persistent arena"],
    ]
    assert lines[5] == (
        "Use a smaller tile, or close scopes whose tiles are done before this request; or ask for at most 320 B "
        "(8 of its 10 rows)."
    )


def test_without_any_scope_the_advice_is_to_open_one() -> None:
    pool = ScratchAllocator(KIB)
    pool.alloc(1000)
    text = str(overflow(pool, 100))
    assert "open a tl.scratch_scope() around the tile" in text
    assert "tl.copy_to" in text
    assert text.endswith("ask for at most 16 B.")


def test_nothing_is_offered_where_nothing_is_free() -> None:
    pool = ScratchAllocator(KIB)
    pool.alloc(KIB)
    assert str(overflow(pool, 100, rows=10)).endswith(
        "copy_to what must survive into handles made before it."
    )
    assert str(overflow(pool, 2 * KIB, rows=64)).endswith("larger than the whole scratch: use smaller tiles.")
    with pool.scope():
        assert str(overflow(pool, 100)).endswith("whose tiles are done before this request.")


def test_no_rows_are_offered_where_not_one_fits() -> None:
    pool = ScratchAllocator(KIB)
    pool.alloc(KIB - 16)
    assert str(overflow(pool, 320, rows=10)).endswith("; or ask for at most 16 B.")


def test_the_tile_that_the_advice_offers_fits_exactly() -> None:
    pool = ScratchAllocator(KIB)
    pool.alloc(300)
    error = overflow(pool, 2 * KIB, rows=64)
    rows = int(re.search(r"\((\d+) of its 64 rows\)", str(error)).group(1))  # type: ignore[union-attr]
    assert rows == (KIB - 304) // 32
    pool.alloc(rows * 32)
    overflow(pool, 32)


def test_many_of_a_kind_share_a_line_and_a_long_list_is_cut() -> None:
    pool = ScratchAllocator(1 << 15)
    for _ in range(30):
        pool.alloc(256, name="s")
    for i in range(48):
        pool.alloc(16 * (48 - i), name=f"x{i}")
    text = str(overflow(pool, 1 << 15))
    names = [re.split(r"\s{2,}", line.strip())[1] for line in text.splitlines()[2:42]]
    assert names == [*(f"x{i}" for i in range(32)), "s", *(f"x{i}" for i in range(32, 39))]
    assert "30 x 256 B  s  persistent arena" in text
    assert "... and 9 kinds more" in text
    assert len(text.splitlines()) == 2 + 40 + 2


def test_what_was_given_back_is_not_listed() -> None:
    pool = ScratchAllocator(KIB)
    with pool.scope():
        pool.alloc(512, name="gone")
    pool.alloc(16, name="here")
    text = str(overflow(pool, 2 * KIB))
    assert "here" in text
    assert "gone" not in text
    assert "nothing" not in text.lower()


@pytest.mark.parametrize("size", [1.5, "4", None, True])
def test_sizes_are_whole_numbers(size: object) -> None:
    pool = ScratchAllocator(64)
    with pytest.raises(TypeError, match="scratch size must be a whole number of bytes, got"):
        pool.alloc(size)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="scratch alignment must be a whole number of bytes, got"):
        pool.alloc(4, align=size)  # type: ignore[arg-type]
    assert pool.cursor == 0
