"""What a kernel leaves behind on one PE: a flat list of rows, and the kinds, scopes and call chains they point to.

One row is `STRIDE` consecutive entries of `Trace.rows`; nothing else is made per operation. A row holds only what
differs from one execution to the next; everything that follows from the operation and its operands' types (name,
engine, cost, bytes, shapes) stands once in a `Kind`.

==========  ===========================================================================================
entry       meaning
==========  ===========================================================================================
`KIND`      index into `Trace.kinds`
`END`       ps when the result is there (an operation), or when it happened (a scope, an allocation)
`OUT`       address of the result, -1 if none
`A`, `B`    addresses of the first two operands, -1 if none
`NAME`      the name given with ``name=``, or None (then the source is asked, when a view wants to know)
`CHAIN`     index into `Trace.chains`: which function called `tl`, and the calls above it up to the kernel
`AT`        offset of the calling instruction in that function's code
==========  ===========================================================================================

Rows of the kinds that are not private to the PE use two entries otherwise: `B` of a ``dma`` or ``ipc`` row is its
start in ps, since it may have waited for its engine, and `A` of a ``dma`` row is the offset of the tile's first
element in its tensor shard. Rows of `OPEN` and `CLOSE` have the scope's index in `A` and the cursor in `OUT`; a row
of `OVERFLOW` has the bytes wanted in `A` and the cursor in `OUT`; `FREE_OF_CHARGE` kinds are not operations.
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any

from kernbench_nb.memory import Scope, TileType

__all__ = [
    "AT",
    "CHAIN",
    "CLOSE",
    "END",
    "ENGINES",
    "KIND",
    "NAME",
    "OPEN",
    "OUT",
    "OVERFLOW",
    "STRIDE",
    "A",
    "B",
    "Chain",
    "Kind",
    "KindTable",
    "Trace",
]

STRIDE = 8
KIND, END, OUT, A, B, NAME, CHAIN, AT = range(STRIDE)

ENGINES = ("dma", "gemm", "math", "ipc")
"""Engines of a PE that operations run on. Kinds with engine ``""`` are free of charge and no operations."""

OPEN, CLOSE, OVERFLOW = range(3)
"""Indices of the kinds that every table begins with: a scope opened, closed; a request refused."""

Chain = tuple[CodeType, tuple[tuple[CodeType, int], ...]]
"""The code that called `tl`, and its callers up to the kernel as (code, instruction offset), innermost first."""


class Kind:
    """One operation on operands of given types: what is the same each time it runs.

    Attributes
    ----------
    index
        Its place in the table.
    op, engine
        Its name in the log, and the engine that it runs on; ``""`` for what is no operation.
    step
        ps by which a blocking operation moves its PE's clock: dispatch and duration.
    dur, busy
        ps from start to end, and ps that its engine is occupied. A ``dma`` or ``ipc`` row may end later than this.
    nbytes
        Bytes that it moves (dma, ipc, copy); -1 for arithmetic.
    hbm
        Bytes of that which cross HBM.
    flops
        2*m*n*k of the products; 0 elsewhere.
    elements
        Elements that the math engine works on, or that a dma or ipc row moves; 0 elsewhere.
    shapes
        Shapes of the operands and of the result.
    ty
        Type of the result, or None.
    size
        Bytes that it allocates, alignment included; 0 when it writes to a handle that exists.
    tensor, peer, direction
        The HBM tensor that it reads or writes; the global PE at the other end and the direction of a message.
    run
        In data mode, the numpy behind it; its signature belongs to the language.
    """

    __slots__ = (
        "busy",
        "direction",
        "dur",
        "elements",
        "engine",
        "flops",
        "hbm",
        "index",
        "nbytes",
        "op",
        "peer",
        "run",
        "shapes",
        "size",
        "step",
        "tensor",
        "ty",
    )

    def __init__(
        self,
        op: str,
        engine: str,
        *,
        dur: int = 0,
        dispatch: int = 0,
        busy: int | None = None,
        nbytes: int = -1,
        hbm: int = 0,
        flops: int = 0,
        elements: int = 0,
        shapes: tuple[tuple[int, ...], ...] = (),
        ty: TileType | None = None,
        size: int = 0,
        tensor: str | None = None,
        peer: int | None = None,
        direction: str | None = None,
        run: Callable[..., Any] | None = None,
    ) -> None:
        self.index = -1
        self.op = op
        self.engine = engine
        self.dur = dur
        self.step = dispatch + dur
        self.busy = dur if busy is None else busy
        self.nbytes = nbytes
        self.hbm = hbm
        self.flops = flops
        self.elements = elements
        self.shapes = shapes
        self.ty = ty
        self.size = size
        self.tensor = tensor
        self.peer = peer
        self.direction = direction
        self.run = run

    def __repr__(self) -> str:
        return f"<kind {self.index}: {self.op} on {self.engine or 'nothing'}, {self.dur} ps, {self.ty}>"


class KindTable(list[Kind]):
    """All kinds of a machine, numbered as they are first met.

    Attributes
    ----------
    cache
        Room for whoever makes the kinds to find them again.
    """

    def __init__(self) -> None:
        super().__init__()
        self.cache: dict[str, Any] = {}
        for op in ("scope_open", "scope_close", "overflow"):
            self.add(Kind(op, ""))

    def add(self, kind: Kind) -> Kind:
        """Number a new kind and return it."""
        kind.index = len(self)
        self.append(kind)
        return kind


class Trace:
    """Everything that one kernel invocation left on one PE.

    Attributes
    ----------
    pe
        Global index of the PE.
    rows
        The flat list described above.
    kinds
        The table that `KIND` points into; shared by all PEs of a machine.
    scopes
        The persistent arena first, then every scope in order of opening.
    chains
        What `CHAIN` points into.
    more
        Operand addresses beyond the second, by row number.
    skips
        Skipped tiles: (ps, rows, keys).
    counters
        What `tl.count` counted, by name.
    values
        Recorded arrays, if recording was asked for: (scope index, row number, name, array).
    warnings
        Texts of what was odd but no error, such as a load that nobody waited for.
    end
        ps at which the kernel ended; it may be later than its last row.
    scratch_base, capacity
        The scratch that addresses lie in.
    """

    __slots__ = (
        "capacity",
        "chains",
        "counters",
        "end",
        "kinds",
        "more",
        "pe",
        "rows",
        "scopes",
        "scratch_base",
        "skips",
        "values",
        "warnings",
    )

    def __init__(self, pe: int, kinds: KindTable, *, scratch_base: int = 0, capacity: int = 0) -> None:
        self.pe = pe
        self.kinds = kinds
        self.rows: list[Any] = []
        self.scopes: list[Scope] = []
        self.chains: list[Chain] = []
        self.more: dict[int, tuple[int, ...]] = {}
        self.skips: list[tuple[int, tuple[int, int], tuple[int, int]]] = []
        self.counters: dict[str, int] = {}
        self.values: list[tuple[int, int, str, Any]] = []
        self.warnings: list[str] = []
        self.end = 0
        self.scratch_base = scratch_base
        self.capacity = capacity

    def __repr__(self) -> str:
        return f"<trace of PE {self.pe}: {len(self)} rows>"

    def __len__(self) -> int:
        """Rows so far, scopes and allocations included."""
        return len(self.rows) // STRIDE
