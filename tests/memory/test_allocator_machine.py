"""The allocator against a model that keeps every block in a list: requests, scopes, and all ways to leave them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kernbench_nb.errors import ScopeOrderError, ScratchOverflowError
from kernbench_nb.memory import Scope, ScratchAllocator

CAPACITY = 1024


class Boom(Exception):
    """What leaves a scope in these tests."""


@dataclass
class Level:
    """One open scope of the model, or the persistent arena: where it began, and what lives in it."""

    scope: Scope
    save: int
    peak: int
    blocks: list[tuple[int, int]] = field(default_factory=list)


class AllocatorMachine(RuleBasedStateMachine):
    """Blocks never overlap, save-points come back, the peak is what it was, refusals change nothing."""

    @initialize(base=st.sampled_from([0, 16, 1 << 24]))
    def start(self, base: int) -> None:
        self.pool = ScratchAllocator(CAPACITY, base=base)
        self.levels = [Level(self.pool.root, 0, 0)]
        self.left: list[Scope] = []
        self.high_water = 0

    # -- the model ---------------------------------------------------------------------------------------------

    @property
    def cursor(self) -> int:
        return self.pool.top - self.pool.base

    def snapshot(self) -> tuple[Any, ...]:
        pool = self.pool
        return pool.top, pool.fast_top, pool.cursor, pool.free, pool.high_water, pool.depth, pool.arena

    def reached(self, cursor: int) -> None:
        self.high_water = max(self.high_water, cursor)
        for level in self.levels:
            level.peak = max(level.peak, cursor)

    # -- requests ----------------------------------------------------------------------------------------------

    @rule(nbytes=st.integers(0, 200), align=st.sampled_from([1, 2, 4, 8, 16, 16, 16, 32, 64, 256]))
    def request(self, nbytes: int, align: int) -> None:
        before = self.snapshot()
        start = -(-self.cursor // align) * align
        stop = start + -(-nbytes // align) * align
        if nbytes and stop > CAPACITY:
            with pytest.raises(ScratchOverflowError) as caught:
                self.pool.alloc(nbytes, align=align)
            assert self.snapshot() == before
            assert (caught.value.required, caught.value.free) == (stop, CAPACITY - self.cursor)
            return
        addr = self.pool.alloc(nbytes, align=align) - self.pool.base
        if nbytes == 0:
            assert self.snapshot() == before
            return
        assert (addr, self.cursor) == (start, stop)
        self.levels[-1].blocks.append((addr, nbytes))
        self.reached(stop)

    @rule()
    def all_that_is_left(self) -> None:
        free = self.pool.free
        addr = self.pool.alloc(free, align=1) - self.pool.base
        if free:
            self.levels[-1].blocks.append((addr, free))
            self.reached(CAPACITY)
        assert self.cursor == CAPACITY

    @rule(nbytes=st.sampled_from([-1, -16, CAPACITY + 1, 1 << 40]), align=st.sampled_from([0, 3, -16, 16]))
    def nonsense(self, nbytes: int, align: int) -> None:
        before = self.snapshot()
        with pytest.raises((ValueError, ScratchOverflowError)):
            self.pool.alloc(nbytes, align=align)
        assert self.snapshot() == before

    # -- scopes ------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.levels) < 6)
    @rule()
    def enter(self) -> None:
        scope = self.pool.scope(f"s{len(self.left)}")
        assert scope.__enter__() is scope
        self.levels.append(Level(scope, self.cursor, self.cursor))

    @precondition(lambda self: len(self.levels) > 1)
    @rule(boom=st.booleans())
    def leave(self, boom: bool) -> None:
        level = self.levels.pop()
        error = Boom() if boom else None
        assert not level.scope.__exit__(type(error) if error else None, error, None)
        assert self.cursor == level.save
        assert level.scope.peak == level.peak
        assert level.scope.guard
        self.left.append(level.scope)

    @rule(depth=st.integers(1, 3), sizes=st.lists(st.integers(1, 64), min_size=3, max_size=3))
    def an_exception_leaves_several(self, depth: int, sizes: list[int]) -> None:
        before = self.cursor, self.pool.depth

        def inner(left: int) -> None:
            with self.pool.scope():
                self.pool.alloc(sizes[left])
                self.reached(self.cursor)
                if left == 0:
                    raise Boom
                inner(left - 1)

        with pytest.raises((Boom, ScratchOverflowError)):
            inner(depth - 1)
        assert (self.cursor, self.pool.depth) == before

    @precondition(lambda self: len(self.levels) > 2)
    @rule(data=st.data())
    def leave_an_outer_one_first(self, data: st.DataObject) -> None:
        outer = data.draw(st.sampled_from(self.levels[1:-1])).scope
        before = self.snapshot()
        with pytest.raises(ScopeOrderError):
            outer.__exit__(None, None, None)
        assert self.snapshot() == before
        assert outer.state == "open"

    @precondition(lambda self: self.left)
    @rule(data=st.data())
    def leave_twice_or_enter_again(self, data: st.DataObject) -> None:
        old = data.draw(st.sampled_from(self.left))
        before = self.snapshot()
        with pytest.raises(ScopeOrderError):
            old.__exit__(None, None, None)
        with pytest.raises(ScopeOrderError):
            old.__enter__()
        assert self.snapshot() == before

    # -- what always holds -------------------------------------------------------------------------------------

    @invariant()
    def no_two_live_blocks_overlap_and_all_lie_below_the_cursor(self) -> None:
        if not hasattr(self, "pool"):
            return
        blocks = sorted(block for level in self.levels for block in level.blocks)
        ends = [0, *(addr + nbytes for addr, nbytes in blocks)]
        assert all(end <= addr for end, (addr, _) in zip(ends, blocks, strict=False))
        assert ends[-1] <= self.cursor <= CAPACITY

    @invariant()
    def the_peak_is_what_was_reached_and_never_above_capacity(self) -> None:
        if not hasattr(self, "pool"):
            return
        assert self.pool.high_water == self.high_water <= CAPACITY
        assert [level.scope.peak for level in self.levels[1:]] == [level.peak for level in self.levels[1:]]

    @invariant()
    def the_fast_way_is_open_only_where_rounding_would_change_nothing(self) -> None:
        if hasattr(self, "pool"):
            assert self.pool.fast_top == (self.pool.end if self.cursor % 16 == 0 else -1)

    @invariant()
    def each_arena_knows_its_save_point(self) -> None:
        if hasattr(self, "pool"):
            assert [level.scope.savepoint for level in self.levels] == [level.save for level in self.levels]
            assert self.pool.depth == len(self.levels) - 1


AllocatorMachine.TestCase.settings = settings(max_examples=80, stateful_step_count=40)
TestAllocator = AllocatorMachine.TestCase
