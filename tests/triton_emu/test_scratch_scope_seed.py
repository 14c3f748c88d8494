"""ADR-0063 as its own tests have it: scopes on a `TLContext` that stands alone, with no engine and no values."""

from __future__ import annotations

import pytest

from kernbench_nb.errors import ScratchOverflowError
from kernbench_nb.triton_emu.tl_context import TLContext

BASE, MIB = 1 << 24, 1 << 20


@pytest.fixture
def tl() -> TLContext:
    return TLContext(pe_id=0, num_programs=1, dispatch_cycles=0, scratch_base=BASE, scratch_size=MIB)


def three_tiles(tl: TLContext) -> None:
    for _ in range(3):
        tl._make_compute_out(shape=(64,), dtype="f16")  # 128 B each


def test_a_scope_can_be_opened_and_is_something(tl: TLContext) -> None:
    with tl.scratch_scope() as scope:
        assert scope is not None


def test_a_handle_has_its_address_in_the_scratch(tl: TLContext) -> None:
    first, second = (tl._make_compute_out(shape=(64,), dtype="f16") for _ in range(2))
    assert (first.addr, second.addr) == (BASE, BASE + 128)


def test_a_loop_recycles_so_its_peak_is_that_of_one_round(tl: TLContext) -> None:
    peaks = []
    for _ in range(10):
        with tl.scratch_scope():
            three_tiles(tl)
            peaks.append(tl._scratch_cursor)
    assert peaks == [384] * 10
    assert tl._scratch_cursor == 0
    assert tl.scratch.high_water == 384


@pytest.mark.parametrize("rounds", [1, 4, 400])
def test_the_peak_does_not_depend_on_the_number_of_rounds(tl: TLContext, rounds: int) -> None:
    for _ in range(rounds):
        with tl.scratch_scope():
            three_tiles(tl)
    assert tl.scratch.high_water == 384


def test_what_was_allocated_before_a_scope_stays(tl: TLContext) -> None:
    persistent = tl._make_compute_out(shape=(64,), dtype="f16")
    before = tl._scratch_cursor
    with tl.scratch_scope():
        three_tiles(tl)
    assert tl._scratch_cursor == before == 128
    fresh = tl._make_compute_out(shape=(64,), dtype="f16")
    assert fresh.addr != persistent.addr


def test_nested_scopes_go_back_each_to_its_own_save_point(tl: TLContext) -> None:
    with tl.scratch_scope() as outer:
        tl._make_compute_out(shape=(64,), dtype="f16")
        between = tl._scratch_cursor
        with tl.scratch_scope() as inner:
            three_tiles(tl)
            assert tl._scratch_cursor == 512 > between
        assert tl._scratch_cursor == between == 128
    assert tl._scratch_cursor == 0
    assert (outer.savepoint, inner.savepoint, outer.peak, inner.peak) == (0, 128, 512, 512)


def test_without_a_scope_allocations_pile_up(tl: TLContext) -> None:
    for _ in range(10):
        three_tiles(tl)
    assert tl._scratch_cursor == 30 * 128


def test_without_a_scope_sixteen_tiles_of_64_kib_fit_and_no_more(tl: TLContext) -> None:
    for _ in range(16):
        tl._make_compute_out(shape=(32 * 1024,), dtype="f16")
    assert tl._scratch_cursor == MIB
    with pytest.raises(RuntimeError, match=r"^TLContext scratch overflow: ") as caught:
        tl._make_compute_out(shape=(32 * 1024,), dtype="f16")
    assert isinstance(caught.value, ScratchOverflowError)
    assert tl._scratch_cursor == MIB


def test_with_a_scope_a_hundred_of_them_fit(tl: TLContext) -> None:
    for _ in range(100):
        with tl.scratch_scope():
            tl._make_compute_out(shape=(32 * 1024,), dtype="f16")
    assert tl._scratch_cursor == 0
    assert tl.scratch.high_water == 64 * 1024


def test_a_scoped_loop_that_copies_out_its_state_stays_bounded(tl: TLContext) -> None:
    running = tl._make_compute_out(shape=(8, 64), dtype="f16")
    persistent = tl._scratch_cursor
    assert running.addr != 0
    for _ in range(50):
        with tl.scratch_scope():
            for _ in range(2):
                tl._make_compute_out(shape=(8, 64), dtype="f16")
            new = tl._make_compute_out(shape=(8, 64), dtype="f16")
            tl.copy_to(running, new)
        assert tl._scratch_cursor == persistent == 1024
    assert tl.scratch.high_water == 4096


def test_a_copy_into_a_persistent_handle_leaves_its_address(tl: TLContext) -> None:
    persistent = tl._make_compute_out(shape=(64,), dtype="f16")
    addr = persistent.addr
    with tl.scratch_scope():
        scoped = tl._make_compute_out(shape=(64,), dtype="f16")
        assert tl.copy_to(persistent, scoped) is persistent
    assert persistent.addr == addr
    assert tl._make_compute_out(shape=(64,), dtype="f16").addr != addr


def test_scopes_emit_no_command_of_their_own(tl: TLContext) -> None:
    def ops() -> list[str]:
        trace = tl.commands
        return [k.op for k in (trace.kinds[i] for i in trace.rows[::8]) if k.engine]

    x = tl._make_compute_out(shape=(64,), dtype="f16")
    with tl.scratch_scope():
        tl.copy_to(x, x + x)
    assert ops() == ["add", "copy"]
    assert tl.now_ps == 0


def test_the_seeds_allocation_call_gives_an_address(tl: TLContext) -> None:
    assert tl._scratch_alloc(100) == BASE
    assert tl._scratch_alloc(1) == BASE + 112
    assert (tl._scratch_cursor, tl._scratch_size, tl._scratch_base) == (128, MIB, BASE)
