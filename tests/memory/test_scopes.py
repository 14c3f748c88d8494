"""Scopes: save-points, whatever leaves them, and what happens when they are left out of order."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from greenlet import GreenletExit, greenlet

from kernbench_nb.errors import ScopeOrderError
from kernbench_nb.memory import Scope, ScratchAllocator


@pytest.fixture
def pool() -> ScratchAllocator:
    return ScratchAllocator(1 << 16)


def test_a_scope_tells_what_it_is(pool: ScratchAllocator) -> None:
    pool.alloc(100)
    with pool.scope("tile 0", kind="tile", rows=(0, 4), keys=(16, 32)) as outer:
        pool.alloc(48)
        with pool.scope() as inner:
            pool.alloc(16)
            assert (inner.label, inner.kind, inner.depth, inner.savepoint, inner.path) == (
                "scope", "scope", 2, 160, "tile 0/scope",
            )  # fmt: skip
            assert (inner.peak, outer.peak) == (176, 176)
            assert (inner.rows, inner.keys) == (None, None)
        assert outer.peak == 176
    assert (outer.label, outer.kind, outer.depth, outer.savepoint, outer.peak) == (
        "tile 0",
        "tile",
        1,
        112,
        176,
    )
    assert (outer.rows, outer.keys) == ((0, 4), (16, 32))
    assert (outer.arena, pool.root.arena) == ("scoped", "persistent")
    assert repr(outer) == "<scope 'tile 0', tile, closed>"
    assert repr(inner) == "<scope 'tile 0/scope', scope, closed>"
    assert repr(pool.scope("later")) == "<scope 'later', scope, new>"
    assert repr(pool.root) == "<persistent arena, persistent, open>"


def test_a_peak_is_a_cursor_and_counts_what_inner_scopes_gave_back(pool: ScratchAllocator) -> None:
    with pool.scope() as outer:
        with pool.scope():
            pool.alloc(1024)
        pool.alloc(32)
        assert (outer.peak, pool.cursor) == (1024, 32)
    assert pool.high_water == 1024
    pool.alloc(2048)
    assert (pool.high_water, outer.peak) == (2048, 1024)


def leave_by_return(pool: ScratchAllocator) -> None:
    with pool.scope():
        pool.alloc(2048)
        return


def leave_by_break(pool: ScratchAllocator) -> None:
    for _ in range(3):
        with pool.scope():
            pool.alloc(2048)
            break


def leave_by_continue(pool: ScratchAllocator) -> None:
    for _ in range(3):
        with pool.scope():
            pool.alloc(2048)
            continue


def leave_by_exception(pool: ScratchAllocator) -> None:
    def run() -> None:
        with pool.scope(), pool.scope():
            pool.alloc(2048)
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run()


def leave_by_yield(pool: ScratchAllocator) -> None:
    def tiles() -> Iterator[int]:
        for i in range(3):
            with pool.scope():
                pool.alloc(2048)
                yield i

    assert list(tiles()) == [0, 1, 2]
    unfinished = tiles()
    next(unfinished)
    unfinished.close()


def leave_by_greenlet_exit(pool: ScratchAllocator) -> None:
    def run() -> None:
        with pool.scope(), pool.scope():
            pool.alloc(2048)
            greenlet.getcurrent().parent.switch()

    glet = greenlet(run)
    glet.switch()
    assert pool.depth == 2
    glet.throw(GreenletExit)


@pytest.mark.parametrize(
    "leave",
    [
        leave_by_return,
        leave_by_break,
        leave_by_continue,
        leave_by_exception,
        leave_by_yield,
        leave_by_greenlet_exit,
    ],
)
def test_whatever_leaves_a_scope_the_save_point_is_restored(pool: ScratchAllocator, leave: object) -> None:
    pool.alloc(100)
    leave(pool)  # type: ignore[operator]
    assert (pool.cursor, pool.depth) == (112, 0)
    pool.alloc(pool.free)


def test_an_odd_cursor_is_restored_to_the_byte(pool: ScratchAllocator) -> None:
    pool.alloc(5, align=1)
    with pool.scope():
        pool.alloc(64)
    assert pool.cursor == 5
    assert pool.alloc(3, align=1) == 5
    assert pool.alloc(16) == 16


# -- out of order ------------------------------------------------------------------------------------------


def test_leaving_the_outer_scope_first_frees_nothing(pool: ScratchAllocator) -> None:
    outer, inner = pool.scope("outer"), pool.scope("inner")
    outer.__enter__()
    pool.alloc(64)
    inner.__enter__()
    pool.alloc(32)
    with pytest.raises(
        ScopeOrderError, match=r"'outer' was left while 'outer/inner', opened after it, is still open"
    ):
        outer.__exit__(None, None, None)
    assert (pool.cursor, pool.depth, outer.state, outer.guard) == (96, 2, "open", False)
    inner.__exit__(None, None, None)
    assert pool.cursor == 64
    outer.__exit__(None, None, None)
    assert (pool.cursor, pool.depth) == (0, 0)


def test_leaving_twice_frees_nothing_of_whoever_came_after(pool: ScratchAllocator) -> None:
    scope = pool.scope("once")
    with scope:
        pool.alloc(64)
    pool.alloc(256)
    with pytest.raises(ScopeOrderError, match=r"'once' was left twice.*Nothing was freed"):
        scope.__exit__(None, None, None)
    assert pool.cursor == 256


def test_a_scope_is_entered_once(pool: ScratchAllocator) -> None:
    scope = pool.scope("once")
    with scope:
        pool.alloc(64)
        with pytest.raises(ScopeOrderError, match=r"'once' was entered twice.*nothing changed"):
            scope.__enter__()
        assert (pool.cursor, pool.depth) == (64, 1)
    with pytest.raises(ScopeOrderError, match="entered twice"), scope:
        pass
    assert (pool.cursor, pool.depth) == (0, 0)


def test_leaving_a_scope_that_was_never_entered(pool: ScratchAllocator) -> None:
    pool.alloc(64)
    with pytest.raises(ScopeOrderError, match=r"'never' was left but never entered"):
        pool.scope("never").__exit__(None, None, None)
    assert pool.cursor == 64


def test_the_persistent_arena_cannot_be_left(pool: ScratchAllocator) -> None:
    pool.alloc(64)
    with pytest.raises(ScopeOrderError):
        pool.root.__exit__(None, None, None)
    assert (pool.cursor, pool.depth, pool.root.state) == (64, 0, "open")


def test_a_scope_that_a_suspended_generator_holds_is_not_pulled_away(pool: ScratchAllocator) -> None:
    def tiles() -> Iterator[Scope]:
        with pool.scope("held") as scope:
            pool.alloc(64)
            yield scope

    source = tiles()
    with pytest.raises(ScopeOrderError, match=r"'around' was left while 'around/held'"), pool.scope("around"):
        next(source)
    assert (pool.cursor, pool.depth) == (64, 2)
    source.close()
    assert (pool.cursor, pool.depth) == (0, 1)


def test_a_generator_that_ends_late_does_not_free_the_bytes_of_a_later_scope(pool: ScratchAllocator) -> None:
    def tiles() -> Iterator[Scope]:
        with pool.scope("early") as scope:
            pool.alloc(64)
            yield scope

    source = tiles()
    early = next(source)
    with pool.scope("late"):
        pool.alloc(32)
        with pytest.raises(ScopeOrderError, match=r"'early' was left while 'early/late'"):
            source.close()
        assert (pool.cursor, early.state) == (96, "open")
    assert pool.cursor == 64
    gc.collect()
    assert pool.cursor == 64


def test_an_exception_in_flight_stays_in_sight_of_a_scope_order_error(pool: ScratchAllocator) -> None:
    def run() -> None:
        with pool.scope("outer"):
            pool.scope("inner").__enter__()
            raise KeyError("the cause")

    with pytest.raises(ScopeOrderError) as caught:
        run()
    assert isinstance(caught.value.__context__, KeyError)


# -- scopes that only mark ---------------------------------------------------------------------------------


def test_a_scope_that_only_marks_gives_nothing_back(pool: ScratchAllocator) -> None:
    for i in range(3):
        with pool.scope(f"tile {i}", kind="tile", rewind=False) as mark:
            pool.alloc(64)
    assert (pool.cursor, pool.depth, mark.peak, mark.savepoint) == (192, 0, 192, 128)
    assert (mark.arena, mark.owner, mark.dead, mark.guard) == ("persistent", pool.root, False, False)


def test_what_was_made_in_a_mark_lives_as_long_as_the_arena_around_it(pool: ScratchAllocator) -> None:
    with pool.scope("block") as block:
        with pool.scope("tile", rewind=False) as tile:
            with pool.scope("part", rewind=False) as part:
                pool.alloc(64)
            assert (part.owner, part.arena, part.dead) == (block, "scoped", False)
        assert not tile.dead
        assert pool.cursor == 64
    assert (pool.cursor, tile.dead, part.dead) == (0, True, True)
    assert tile.guard
    assert part.guard


def test_a_scope_inside_a_mark_gives_its_own_bytes_back(pool: ScratchAllocator) -> None:
    with pool.scope("tile", rewind=False):
        pool.alloc(16)
        with pool.scope("part"):
            pool.alloc(64)
        assert pool.cursor == 16
    assert (pool.cursor, pool.high_water) == (16, 80)


@pytest.mark.parametrize(("checks", "guarded"), [("raise", True), ("poison", False), ("off", False)])
def test_only_at_level_raise_a_closed_scope_guards_its_handles(checks: str, guarded: bool) -> None:
    pool = ScratchAllocator(1 << 10, checks=checks)
    with pool.scope() as scope:
        assert not scope.guard
    assert scope.guard is guarded
    assert scope.dead
