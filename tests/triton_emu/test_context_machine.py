"""A whole context against a model that keeps the values of every tile beside it, at each safety level."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kernbench_nb.errors import (
    PendingLoadError,
    ReadBeforeWaitError,
    ScratchOverflowError,
    UninitializedReadError,
    UseAfterScopeError,
)
from kernbench_nb.memory import Scope
from kernbench_nb.triton_emu import Handle
from tests.triton_emu.tools import Array, context, pointer, state

CAPACITY = 2048
SHAPES = [(4,), (2, 3), (3, 2), (8, 8), (0, 4), ()]
pick = st.integers(0, 1 << 30)


@dataclass(eq=False)
class Tile:
    """A tile, what it must hold (None: not written yet), and whether a load into it is in flight."""

    handle: Handle
    values: Array | None
    future: Any = None
    coming: Array | None = None


@dataclass
class Level:
    """One open scope, or the persistent arena."""

    scope: Scope | None
    save: int
    tiles: list[Tile] = field(default_factory=list)


class ContextMachine(RuleBasedStateMachine):
    """Tiles keep their values until their scope ends, whatever happens around them."""

    checks = "raise"

    @initialize()
    def start(self) -> None:
        self.tl = context(scratch_size=CAPACITY, scratch_checks=self.checks)
        self.levels = [Level(None, 0)]
        self.dead: list[Handle] = []
        self.count = 0

    # -- helpers -----------------------------------------------------------------------------------------------

    def live(self) -> list[Tile]:
        return [t for level in self.levels for t in level.tiles]

    def choose(self, which: int, *, ready: bool = True) -> Tile | None:
        tiles = [t for t in self.live() if not ready or (t.values is not None and t.future is None)]
        return tiles[which % len(tiles)] if tiles else None

    def allocate(self, make: Any, nbytes: int) -> Any:
        """Run what allocates that many bytes; None, and nothing changed, if they do not fit."""
        before = self.tl.scratch.cursor
        size = -(-nbytes // 16) * 16
        if before + size > CAPACITY:
            frozen = state(self.tl)
            with pytest.raises(ScratchOverflowError):
                make()
            now = state(self.tl)
            assert now[:5] == frozen[:5]
            assert now[6:] == frozen[6:]
            assert len(now[5]) == len(frozen[5]) + 8  # the refusal is on record
            return None
        made = make()
        assert self.tl.scratch.cursor == before + size
        return made

    def keep(self, handle: Handle | None, values: Array | None, **more: Any) -> None:
        if handle is not None:
            self.levels[-1].tiles.append(Tile(handle, values, **more))

    # -- what makes tiles --------------------------------------------------------------------------------------

    @rule(
        shape=st.sampled_from(SHAPES),
        dtype=st.sampled_from(["f32", "f16", "i32"]),
        value=st.integers(-50, 50),
    )
    def full(self, shape: tuple[int, ...], dtype: str, value: int) -> None:
        nbytes = int(np.prod(shape)) * (2 if dtype == "f16" else 4)
        made = self.allocate(lambda: self.tl.full(shape, value, dtype), nbytes)
        self.keep(made, np.full(shape, value, np.float64))

    @rule(shape=st.sampled_from(SHAPES))
    def empty(self, shape: tuple[int, ...]) -> None:
        made = self.allocate(lambda: self.tl.empty(shape, "f32"), int(np.prod(shape)) * 4)
        self.keep(made, np.zeros(shape) if 0 in shape else None)

    @rule(which=pick)
    def negate(self, which: int) -> None:
        tile = self.choose(which)
        if tile is not None:
            made = self.allocate(lambda: -tile.handle, tile.handle.nbytes)
            self.keep(made, -tile.values)  # type: ignore[operator]

    @rule(which=pick)
    def view(self, which: int) -> None:
        tile = self.choose(which)
        if tile is not None and len(tile.handle.shape) == 2:
            before = state(self.tl)
            view = tile.handle.T[:1]
            assert state(self.tl) == before
            np.testing.assert_array_equal(view.numpy(), tile.values.T[:1])  # type: ignore[union-attr]

    # -- what writes tiles -------------------------------------------------------------------------------------

    @rule(source=pick, into=pick)
    def copy(self, source: int, into: int) -> None:
        src, dst = self.choose(source), self.choose(into, ready=False)
        if src is None or dst is None or src.handle.shape != dst.handle.shape or dst.future is not None:
            return
        before = self.tl.scratch.cursor
        self.tl.copy_to(dst.handle, src.handle)
        dst.values = src.values
        assert self.tl.scratch.cursor == before

    @rule(into=pick, value=st.integers(-50, 50))
    def fill(self, into: int, value: int) -> None:
        dst = self.choose(into, ready=False)
        if dst is not None and dst.future is None:
            self.tl.full(dst.handle.shape, value, "i32", out=dst.handle)
            dst.values = np.full(dst.handle.shape, value, np.float64)

    # -- loads -------------------------------------------------------------------------------------------------

    @rule(shape=st.sampled_from(SHAPES[:4]))
    def load_async(self, shape: tuple[int, ...]) -> None:
        self.count += 1
        coming = np.arange(np.prod(shape)).reshape(shape) + self.count
        k = pointer(coming, "f32")
        future = self.allocate(lambda: self.tl.load_async(k, shape), int(np.prod(shape)) * 4)
        if future is not None:
            self.keep(future.handle, None, future=future, coming=coming)
            self.tl.store(k, -1.0)  # too late to matter

    @rule(into=pick)
    def load_into(self, into: int) -> None:
        dst = self.choose(into, ready=False)
        if dst is None or dst.future is not None or dst.handle.numel == 0:
            return
        self.count += 1
        coming = np.arange(dst.handle.numel).reshape(dst.handle.shape) + self.count
        k = pointer(coming, "f32")
        dst.future = self.tl.load_async(k, dst.handle.shape, out=dst.handle)
        self.tl.store(k, -1.0)
        dst.coming = coming

    @rule(which=pick)
    def wait(self, which: int) -> None:
        flying = [t for t in self.live() if t.future is not None]
        if flying:
            tile = flying[which % len(flying)]
            assert tile.future.wait() is tile.handle
            tile.future, tile.values = None, tile.coming

    # -- scopes ------------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.levels) < 5)
    @rule()
    def enter(self) -> None:
        scope = self.tl.scratch_scope(f"s{len(self.levels)}", kind="tile")
        scope.__enter__()
        self.levels.append(Level(scope, self.tl.scratch.cursor))

    @precondition(lambda self: len(self.levels) > 1)
    @rule(failing=st.booleans())
    def leave(self, failing: bool) -> None:
        level = self.levels.pop()
        assert level.scope is not None
        flying = any(t.future is not None for t in level.tiles)
        error = KeyError() if failing else None
        arguments = (type(error) if error else None, error, None)
        if flying and not failing and self.checks == "raise":
            with pytest.raises(PendingLoadError):
                level.scope.__exit__(*arguments)
        else:
            level.scope.__exit__(*arguments)
        assert self.tl.scratch.cursor == level.save
        if self.checks != "raise":  # what is still coming would land in bytes of somebody else
            self.tl._flight = [f for f in self.tl._flight if all(f is not t.future for t in level.tiles)]
        self.dead.extend(t.handle for t in level.tiles if t.handle.numel)

    # -- what always holds -------------------------------------------------------------------------------------

    @invariant()
    def every_tile_holds_what_it_must(self) -> None:
        for tile in self.live() if hasattr(self, "tl") else ():
            if tile.values is not None and tile.future is None:
                np.testing.assert_array_equal(tile.handle.numpy().astype(np.float64), tile.values)
            elif self.checks == "raise":
                expected = ReadBeforeWaitError if tile.future is not None else UninitializedReadError
                with pytest.raises(expected):
                    tile.handle.numpy()

    @invariant()
    def no_two_tiles_share_a_byte(self) -> None:
        if hasattr(self, "tl"):
            spans = sorted(
                (t.handle.addr, t.handle.addr + t.handle.nbytes) for t in self.live() if t.handle.numel
            )
            assert all(a[1] <= b[0] for a, b in itertools.pairwise(spans))
            assert not spans or spans[-1][1] <= self.tl.scratch.cursor <= CAPACITY

    @invariant()
    def dead_tiles_raise_or_read_the_bytes_that_are_there(self) -> None:
        for handle in self.dead[-3:] if hasattr(self, "tl") else ():
            if self.checks == "raise":
                with pytest.raises(UseAfterScopeError):
                    handle.numpy()
            else:
                raw = self.tl._bytes.buffer[handle.addr : handle.addr + handle.nbytes].tobytes()  # type: ignore[union-attr]
                assert handle.numpy().tobytes() == raw

    @invariant()
    def bytes_above_the_cursor_are_poison_unless_off(self) -> None:
        if hasattr(self, "tl") and self.checks != "off":
            assert (self.tl._bytes.buffer[self.tl.scratch.cursor :] == 0xFF).all()  # type: ignore[union-attr]


class RaiseMachine(ContextMachine):
    checks = "raise"


class PoisonMachine(ContextMachine):
    checks = "poison"


class OffMachine(ContextMachine):
    checks = "off"


for machine in (RaiseMachine, PoisonMachine, OffMachine):
    machine.TestCase.settings = settings(max_examples=25, stateful_step_count=35)
TestRaise, TestPoison, TestOff = RaiseMachine.TestCase, PoisonMachine.TestCase, OffMachine.TestCase
