"""Traces by hand: rows as a kernel would leave them, with no language and no engine.

The builder keeps a clock and a real allocator, so that scopes, cursors and save-points are the allocator's own; the
calling place of a row is the line of the test that asked for it, unless a chain is given.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from kernbench_nb.dtypes import resolve_dtype
from kernbench_nb.errors import ScratchOverflowError
from kernbench_nb.memory import Scope, ScratchAllocator, TileType, round_up, tile_type
from kernbench_nb.sim_engine.trace import CLOSE, OPEN, OVERFLOW, Kind, KindTable, Trace

D = 4_000
"""Dispatch in ps."""


class Tile:
    """An address and a type: what a handle is."""

    def __init__(self, addr: int, ty: TileType) -> None:
        self.addr = addr
        self.ty = ty


class TraceBuilder:
    """One PE's trace, row by row."""

    def __init__(
        self,
        pe: int = 0,
        kinds: KindTable | None = None,
        *,
        base: int = 1 << 24,
        capacity: int = 1 << 20,
        now: int = 0,
    ) -> None:
        self.kinds = KindTable() if kinds is None else kinds
        self.trace = Trace(pe, self.kinds, scratch_base=base, capacity=capacity)
        self.scratch = ScratchAllocator(capacity, base=base)
        self.trace.scopes.append(self.scratch.root)
        self.now = now

    # -- rows --------------------------------------------------------------------------------------------------

    def row(
        self,
        kind: Kind,
        end: int,
        out: int = -1,
        a: int = -1,
        b: int = -1,
        name: str | None = None,
        depth: int = 1,
    ) -> int:
        """Append a row as if it came from the test's line `depth` calls up; returns its number."""
        chain, at = self.chain(sys._getframe(depth + 1))
        self.trace.rows += (kind.index, end, out, a, b, name, chain, at)
        self.trace.end = max(self.trace.end, self.now)
        return len(self.trace) - 1

    def chain(self, frame: FrameType) -> tuple[int, int]:
        """Number of the chain of a frame, which ends at the first function called `kernel` or at the frame itself."""
        callers: list[tuple[CodeType, int]] = []
        above: FrameType | None = frame
        while above is not None and above.f_code.co_name != "kernel":
            above = above.f_back
            if above is not None:
                callers.append((above.f_code, above.f_lasti))
        if above is None:
            callers = []
        chain = (frame.f_code, tuple(callers))
        if chain not in self.trace.chains:
            self.trace.chains.append(chain)
        return self.trace.chains.index(chain), frame.f_lasti

    # -- operations --------------------------------------------------------------------------------------------

    def empty(self, *shape: int, dtype: str = "f32", name: str | None = None, depth: int = 0) -> Tile:
        """Allocate and nothing else."""
        ty = tile_type(shape, resolve_dtype(dtype))
        addr = self._alloc(ty.size)
        kind = self._kind("empty", "", ty=ty, size=ty.size, shapes=(shape,))
        self.row(kind, self.now, addr, name=name, depth=depth + 1)
        return Tile(addr, ty)

    def op(
        self,
        op: str,
        *operands: Tile,
        shape: Sequence[int] = (),
        dtype: str = "f32",
        dur: int = 1_000,
        out: Tile | None = None,
        name: str | None = None,
        depth: int = 0,
    ) -> Tile:
        """A blocking operation of the math engine, or of the GEMM engine if it is called ``gemm``."""
        ty = tile_type(tuple(shape), resolve_dtype(dtype)) if out is None else out.ty
        shapes = (*(x.ty.shape for x in operands), ty.shape)
        size = ty.size if out is None else 0
        flops = 2 * ty.n * operands[0].ty.shape[-1] if op == "gemm" else 0
        moved = ty.nbytes if op in ("copy", "clone") else -1
        engine = "gemm" if op == "gemm" else "math"
        kind = self._kind(
            op, engine, dur=dur, dispatch=D, ty=ty, size=size, shapes=shapes, flops=flops, nbytes=moved,
            elements=0 if op == "gemm" else ty.n,
        )  # fmt: skip
        addr = self._alloc(size) if out is None else out.addr
        self.now += D + dur
        a, b = [*(x.addr for x in operands), -1, -1][:2]
        row = self.row(kind, self.now, addr, a, b, name, depth + 1)
        if len(operands) > 2:
            self.trace.more[row] = tuple(x.addr for x in operands[2:])
        return Tile(addr, ty)

    def load(
        self,
        tensor: str,
        *shape: int,
        dtype: str = "f16",
        offset: int = 0,
        busy: int = 10_000,
        latency: int = 100_000,
        start: int | None = None,
        wait: bool = True,
        out: Tile | None = None,
        name: str | None = None,
        depth: int = 0,
    ) -> Tile:
        """A load that starts after its dispatch, or at `start` if its channel is busy until then."""
        ty = tile_type(shape, resolve_dtype(dtype))
        kind = self._kind(
            "dma_read", "dma", dur=busy + latency, busy=busy, dispatch=D, nbytes=ty.nbytes, hbm=ty.nbytes, ty=ty,
            size=ty.size if out is None else 0, shapes=(shape,), tensor=tensor,
        )  # fmt: skip
        addr = self._alloc(ty.size) if out is None else out.addr
        self.now += D
        start = self.now if start is None else start
        end = start + busy + latency
        if wait:
            self.now = end
        self.row(kind, end, addr, offset, start, name, depth + 1)
        return Tile(addr, ty)

    def store(self, tensor: str, tile: Tile, *, offset: int = 0, busy: int = 10_000, depth: int = 0) -> None:
        """A store: as long as its busy time."""
        ty = tile.ty
        kind = self._kind(
            "dma_write", "dma", dur=busy, dispatch=D, nbytes=ty.nbytes, hbm=ty.nbytes, ty=ty, shapes=(ty.shape,),
            tensor=tensor,
        )  # fmt: skip
        self.now += D + busy
        self.row(kind, self.now, tile.addr, offset, self.now - busy, depth=depth + 1)

    def send(
        self, direction: str, tile: Tile, peer: int, *, arrives: int = 7_000, busy: int = 0, depth: int = 0
    ) -> None:
        """A send: its PE goes on at once."""
        ty = tile.ty
        kind = self._kind(
            "ipc_send",
            "ipc",
            dispatch=D,
            busy=busy,
            nbytes=ty.nbytes,
            ty=ty,
            shapes=(ty.shape,),
            peer=peer,
            direction=direction,
        )
        self.now += D
        self.row(kind, self.now + arrives, -1, tile.addr, self.now, depth=depth + 1)

    def recv(
        self,
        direction: str,
        *shape: int,
        peer: int,
        at: int,
        dtype: str = "f32",
        name: str | None = None,
        depth: int = 0,
    ) -> Tile:
        """A receive of what arrives at `at`."""
        ty = tile_type(shape, resolve_dtype(dtype))
        kind = self._kind(
            "ipc_recv", "ipc", dispatch=D, nbytes=ty.nbytes, ty=ty, size=ty.size, shapes=(shape,), peer=peer,
            direction=direction,
        )  # fmt: skip
        addr = self._alloc(ty.size)
        start = self.now + D
        self.now = max(start, at)
        self.row(kind, self.now, addr, -1, start, name, depth + 1)
        return Tile(addr, ty)

    def refuse(self, nbytes: int, name: str | None = None, depth: int = 0) -> None:
        """A request that does not fit."""
        try:
            self.scratch.alloc(nbytes)
        except ScratchOverflowError:
            self.row(self.kinds[OVERFLOW], self.now, self.scratch.top, nbytes, name=name, depth=depth + 1)
        else:
            raise AssertionError(f"{nbytes} B fit")

    @contextmanager
    def scope(self, label: str | None = None, **more: Any) -> Iterator[Scope]:
        """A scope of the allocator, with its two rows."""
        scope = self.scratch.scope(label, **more)
        scope.index = len(self.trace.scopes)
        with scope:
            self.trace.scopes.append(scope)
            self.row(self.kinds[OPEN], self.now, self.scratch.top, scope.index, depth=2)
            try:
                yield scope
            finally:
                self.row(self.kinds[CLOSE], self.now, self.scratch.top, scope.index, depth=2)

    def skip(self, rows: tuple[int, int], keys: tuple[int, int]) -> None:
        """A tile that is never loaded."""
        self.trace.skips.append((self.now, rows, keys))

    # -- inside ------------------------------------------------------------------------------------------------

    def _alloc(self, size: int) -> int:
        assert size == round_up(size)
        return self.scratch.alloc(size)

    def _kind(self, op: str, engine: str, **more: Any) -> Kind:
        for known in self.kinds:
            if known.op == op and all(getattr(known, k) == v for k, v in more.items() if k != "dispatch"):
                return known
        return self.kinds.add(Kind(op, engine, **more))


def fold_kernel(pe: int = 0, tiles: int = 3, kinds: KindTable | None = None, now: int = 0) -> TraceBuilder:
    """A small sweep as the kernels do it: a persistent state, one scope a tile, copies into the state at its end."""
    tl = TraceBuilder(pe, kinds, now=now)

    def kernel() -> None:
        q = tl.load("q", 4, 64)
        m = tl.empty(4, 1, name="m")
        O = tl.empty(4, 64)
        for i in range(tiles):
            with tl.scope(f"tile {i}", kind="tile", rows=(0, 4), keys=(16 * i, 16 * i + 16)):
                k = tl.load("k", 16, 64, offset=1024 * i)
                s = tl.op("gemm", q, k, shape=(4, 16), dur=21_000)
                m_new = tl.op("max", s, shape=(4, 1))
                with tl.scope("inner", kind="merge"):
                    p = tl.op("exp", s, shape=(4, 16), name="p")
                    O_new = tl.op("fma", p, k, O, shape=(4, 64))
                    tl.op("copy", O_new, out=O)
                tl.op("copy", m_new, out=m)
        tl.store("o", O)

    kernel()
    return tl
