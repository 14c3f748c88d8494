"""Kernels that are wrong on purpose, and a game that moves tensors between the two arenas: for the course.

Each is short, so that a cell can show its source (`numbered`), and each goes wrong in one way:

=========================  ==================================================================================
`arena_game`               a decode whose tensors are made where the reader says
`rebound_decode`           ``m = m_new`` where ``tl.copy_to(m, m_new)`` belongs
`stale_sum_kernel`         reads a tile whose bytes have a new owner
`early_sum_kernel`         reads a tile whose scope has ended, before somebody else moves in
`mystery_kernel`           one line of it reads what is gone
`read_early_kernel`        reads the destination of a load before the wait
`never_written_kernel`     reads bytes that nothing has written
`left_in_flight_kernel`    ends a scope with a load in flight into it
=========================  ==================================================================================

None of them is a bench: what they show is not how fast a machine is.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

from kernbench_nb.benches import reference
from kernbench_nb.benches._checks import check_count, check_scale, check_word
from kernbench_nb.benches._gqa_decode_long import merge_chain
from kernbench_nb.benches._inputs import look_at
from kernbench_nb.benches._placed import ccl_config, cut, own_rows
from kernbench_nb.benches._run import Plan, entry_point
from kernbench_nb.benches._step import LOWEST, State, clear_state, finish, fold_tile, init_state
from kernbench_nb.ccl.sfr_config import configure_sfr_intercube_multisip
from kernbench_nb.errors import ShapeError
from kernbench_nb.policy.placement.dp import DPPolicy
from kernbench_nb.runtime_api.context import BenchContext
from kernbench_nb.runtime_api.launch import pe_grid
from kernbench_nb.runtime_api.tensor import Tensor
from kernbench_nb.topology import resolve_topology

__all__ = [
    "HOMES",
    "arena_game",
    "early_sum_kernel",
    "left_in_flight_kernel",
    "mystery_kernel",
    "mystery_lines",
    "never_written_kernel",
    "numbered",
    "read_early_kernel",
    "rebound_decode",
    "stale_sum_kernel",
]

HOMES: Mapping[str, str] = MappingProxyType(
    {
        "Q": "persistent", "K": "scoped", "V": "scoped", "s": "scoped", "c": "scoped",
        "m": "persistent", "l": "persistent", "O": "persistent",
    }
)  # fmt: skip
"""Where each tensor of the arena game belongs: what is read in a later tile must survive this one."""

_IN_PLACE = ("s", "s-m", "exp", "O_new")


# -- the arena game --------------------------------------------------------------------------------------------


def arena_kernel(
    q: Any, k: Any, v: Any, o: Any, S_kv: int, h_q: int, h_kv: int, d: int, *, tl: Any,
    tile: int, homes: Mapping[str, str], in_place: Collection[str], scale: float,
) -> None:  # fmt: skip
    """Decode one token on one PE, each tensor made where `homes` says.

    q, o ``(1, h_q * d)``; k, v ``(S_kv, h_kv * d)``; results in `in_place` are written over what they come from.
    """
    G, width = h_q // h_kv, h_kv * d

    def below(name: str, shape: tuple[int, ...], dtype: Any) -> Any:
        """Bytes for a persistent tensor, taken while no scope is open; None for a scoped one."""
        return tl.empty(shape, dtype, name=name) if homes[name] == "persistent" else None

    Q = below("Q", (h_kv, G, d), q.dtype)
    m = below("m", (h_kv, G, 1), "f32")
    l = below("l", (h_kv, G, 1), "f32")
    O = below("O", (h_kv, G, d), "f32")

    for i, at in enumerate(range(0, S_kv, tile)):
        n = min(tile, S_kv - at)
        # taken before the scope opens, these lie below the save-point: no rewind gives them back
        K = below("K", (n, h_kv, d), k.dtype)
        V = below("V", (n, h_kv, d), v.dtype)
        s = below("s", (h_kv, G, n), "f32")
        c = below("c", (h_kv, G, 1), "f32") if i else None

        with tl.scratch_scope(f"tile {i}", kind="tile", rows=(0, 1), keys=(at, at + n)):
            # out=None makes the result here, in the scope
            if i == 0:
                Q = tl.load(q, (h_kv, G, d), out=Q, name="Q")
            coming_k = tl.load_async(k + at * width, (n, h_kv, d), out=K, name="K")
            coming_v = tl.load_async(v + at * width, (n, h_kv, d), out=V, name="V")
            K, V = tl.wait(coming_k, coming_v)
            K, V = K.permute(1, 2, 0), V.permute(1, 0, 2)
            qk = tl.dot(Q, K)
            s = tl.mul(qk, scale, out=qk if "s" in in_place else s, name="s")
            if i == 0:
                m = tl.max(s, -1, True, initial=LOWEST, out=m, name="m")
                centred = tl.sub(s, m, out=s if "s-m" in in_place else None, name="s-m")
                e = tl.exp(centred, out=centred if "exp" in in_place else None, name="exp")
                l = tl.sum(e, -1, True, out=l, name="l")
                p = tl.cast(e, q.dtype, name="p")
                O = tl.dot(p, V, out=O, name="O")
                continue
            m_new, l_new, O_new = folded(tl, State(m, l, O), s, V, q.dtype, c, in_place)
            if homes["m"] == "persistent":
                tl.copy_to(m, m_new)
            else:
                m = m_new
            if homes["l"] == "persistent":
                tl.copy_to(l, l_new)
            else:
                l = l_new
            if homes["O"] == "persistent":
                tl.copy_to(O, O_new)
            else:
                O = O_new

    with tl.scratch_scope("finish", kind="finish"):
        out, _ = finish(tl, State(m, l, O), lse=False)
        tl.store(o, out)


def folded(
    tl: Any, state: State, s: Any, V: Any, p_type: Any, c: Any = None, in_place: Collection[str] = ()
) -> tuple[Any, Any, Any]:
    """The new m, l and O of a fold, made in the scope that is open; the lines of `fold_tile` without its copies."""
    m, l, O = state
    tile_max = tl.max(s, -1, True, initial=LOWEST, name="max")
    m_new = tl.maximum(m, tile_max)
    centred = tl.sub(s, m_new, out=s if "s-m" in in_place else None, name="s-m")
    e = tl.exp(centred, out=centred if "exp" in in_place else None, name="exp")
    drop = tl.sub(m, m_new, name="m-m_new")
    c = tl.exp(drop, out=c, name="c")
    l_kept = tl.mul(l, c, name="l*c")
    tile_sum = tl.sum(e, -1, True, name="sum")
    l_new = tl.add(l_kept, tile_sum)
    O_kept = tl.mul(O, c, name="O*c")
    p = tl.cast(e, p_type)
    O_tile = tl.dot(p, V, name="p*V")
    O_new = tl.add(O_kept, O_tile, out=O_kept if "O_new" in in_place else None)
    return m_new, l_new, O_new


@partial(entry_point, face="wrong")
def arena_game(
    q: Any,
    k: Any,
    v: Any,
    *,
    homes: Mapping[str, str] | None = None,
    in_place: Collection[str] = (),
    tile: int = 16,
    sm_scale: float | None = None,
    dtype: Any = None,
    topology: Any = None,
) -> Plan:
    """Decode one token on one PE with each tensor in the arena that you say; see what becomes of it.

    Parameters
    ----------
    q, k, v
        ``(1, h_q, d)`` and ``(S_kv, h_kv, d)``.
    homes
        ``"persistent"`` or ``"scoped"`` for each of Q, K, V, s, c, m, l and O. V that is left out goes where K goes, l
        where m goes, and the others where they belong (`HOMES`).
    in_place
        Which of ``"s"``, ``"s-m"``, ``"exp"`` and ``"O_new"`` are written by ``out=`` over the tile that they come
        from (qk, s, s-m, O*c): the same bits in fewer bytes.
    tile
        Keys handled at once.
    sm_scale, dtype, topology, data, scratch_checks, record, max_record_bytes, wide_links
        As in `kb.decode`.

    Returns
    -------
    RunResult
        With the right homes the same bits, and the same peak, as ``kb.decode(q, k, v, pes=1)``. With K, V, s or c
        persistent, `run.persistent_bytes` has grown by their bytes with each tile.

    Raises
    ------
    ValueError, TypeError, ShapeError
        For homes that are none, and inputs that do not go together; before anything runs.
    UseAfterScopeError
        If Q, m, l or O died with the tile that made it and a later one reads it.
    ScratchOverflowError
        If what no rewind gives back has filled the scratch; ``error.run`` is the run so far.
    """
    where = _homes(homes)
    over = _overwriting(in_place, where)
    x = look_at(q, k, v, dtype=dtype)
    if x.T_q != 1:
        raise ShapeError(f"the arena game decodes one token: q must have shape (1, heads, d), got {x.shape}")
    if x.S_kv == 0:
        raise ShapeError("the arena game needs at least one key")
    machine = resolve_topology(topology)
    check_scale(sm_scale)
    tile = check_count("tile", tile)

    def bench(ctx: BenchContext) -> tuple[Tensor, Tensor | None]:
        Q, K, V = ctx.tensor(x.q, name="Q"), ctx.tensor(x.k, name="K"), ctx.tensor(x.v, name="V")
        O = ctx.empty(x.q.shape, dtype=x.out_dtype, name="O")
        ctx.launch(
            "arena_game", arena_kernel, Q, K, V, O, x.S_kv, x.h_q, x.h_kv, x.d,
            tile=tile, homes=where, in_place=over, scale=_scale(sm_scale, x.d),
        )  # fmt: skip
        return O, None

    return Plan(
        x=x,
        machine=machine,
        kernel=arena_kernel,
        bench=bench,
        reference=partial(reference.attention, sm_scale=sm_scale),
        shown={"pes": 1, "cubes": 1, "homes": where, "in_place": over},
    )


def _homes(homes: Any) -> dict[str, str]:
    """Every tensor's home: those that were said, V where K is, l where m is, and the others where they belong.

    Raises
    ------
    TypeError
        If this is no mapping.
    ValueError
        For a tensor that the game has not, and for a home that is none; all that are wrong are named.
    """
    if homes is None:
        return dict(HOMES)
    if not isinstance(homes, Mapping):
        raise TypeError(f"homes must be a dict such as dict(K='scoped', O='persistent'), got {homes!r}")
    for name in homes:
        if name not in HOMES:
            near = [known for known in HOMES if known.lower() == str(name).lower()]
            hint = f"; did you mean {near[0]!r}?" if near else "."
            raise ValueError(f"homes: the game has no tensor {name!r}{hint} There are: {', '.join(HOMES)}.")
    bad = [f"{name}={home!r}" for name, home in homes.items() if home not in ("persistent", "scoped")]
    if bad:
        raise ValueError(f"homes must be 'persistent' or 'scoped', got {', '.join(bad)}.")
    pairs = {pair: homes[first] for pair, first in (("V", "K"), ("l", "m")) if first in homes}
    return {**HOMES, **pairs, **homes}


def _overwriting(in_place: Any, homes: Mapping[str, str]) -> tuple[str, ...]:
    """Results that are written over an operand, in the order of the fold.

    Raises
    ------
    ValueError
        For another name, and for an s that shall be both persistent and in the bytes of qk.
    """
    names = {in_place} if isinstance(in_place, str) else set(in_place)
    for name in names:
        if name not in _IN_PLACE:
            raise ValueError(
                f"in_place: there is no result {name!r} to overwrite; there are {', '.join(_IN_PLACE)}."
            )
    if "s" in names and homes["s"] == "persistent":
        raise ValueError("s cannot be persistent and in place too: qk, which it would overwrite, is scoped.")
    return tuple(name for name in _IN_PLACE if name in names)


# -- a name that moves, and bytes that stay ----------------------------------------------------------------------


def rebound_kernel(
    q: Any, k: Any, v: Any, o: Any, S_kv: int, h_q: int, h_kv: int, d: int, *, tl: Any,
    tile: int, rebind: str, scale: float,
) -> None:  # fmt: skip
    """Decode one token over the PEs of a launch, with one of the fold's three copies forgotten."""
    G, width = h_q // h_kv, h_kv * d
    start, stop = own_rows(tl, S_kv)
    Q = tl.load(q, (h_kv, G, d))
    m, l, O = init_state(tl, h_kv, G, d)
    if start == stop:
        clear_state(tl, State(m, l, O))

    for i, at in enumerate(range(0, stop - start, tile)):
        n = min(tile, stop - start - at)
        with tl.scratch_scope(f"tile {i}", kind="tile", rows=(0, 1), keys=(start + at, start + at + n)):
            coming_k = tl.load_async(k + at * width, (n, h_kv, d), name="K")
            coming_v = tl.load_async(v + at * width, (n, h_kv, d), name="V")
            K, V = tl.wait(coming_k, coming_v)
            K, V = K.permute(1, 2, 0), V.permute(1, 0, 2)
            if i == 0:
                fold_tile(tl, State(m, l, O), Q, K, V, scale=scale, first=True)
                continue
            qk = tl.dot(Q, K)
            s = tl.mul(qk, scale)
            m_new, l_new, O_new = folded(tl, State(m, l, O), s, V, q.dtype)
            if rebind == "m":
                m = m_new  # the name moves, the bytes of m stay as they were
            else:
                tl.copy_to(m, m_new)
            if rebind == "l":
                l = l_new
            else:
                tl.copy_to(l, l_new)
            if rebind == "O":
                O = O_new
            else:
                tl.copy_to(O, O_new)

    state = State(m, l, O)
    if merge_chain(tl, state, True):
        with tl.scratch_scope("finish", kind="finish"):
            out, _ = finish(tl, state, lse=False)
            tl.store(o, out)


@partial(entry_point, face="wrong")
def rebound_decode(
    q: Any,
    k: Any,
    v: Any,
    *,
    rebind: str = "m",
    pes: int = 1,
    tile: int = 16,
    sm_scale: float | None = None,
    dtype: Any = None,
    topology: Any = None,
) -> Plan:
    """Flash decode of one token in which ``m = m_new`` stands where ``tl.copy_to(m, m_new)`` belongs.

    With ``scratch_checks="off"`` the answer is often right, for the bytes are still there when they are read.

    Parameters
    ----------
    q, k, v
        ``(1, h_q, d)`` and ``(S_kv, h_kv, d)``.
    rebind
        ``"m"``, ``"l"`` or ``"O"``: which of the three is rebound.
    pes
        PEs that the keys are split over, of one cube.
    tile
        Keys handled at once.
    sm_scale, dtype, topology, data, scratch_checks, record, max_record_bytes, wide_links
        As in `kb.decode`.

    Returns
    -------
    RunResult
        ``run.output`` in the layout of q, right or wrong; compare with ``run.reference.values()[0]``.

    Raises
    ------
    UseAfterScopeError
        With ``scratch_checks="raise"``, if some PE has two tiles or more.
    """
    x = look_at(q, k, v, dtype=dtype)
    if x.T_q != 1:
        raise ShapeError(f"rebound_decode decodes one token: q must have shape (1, heads, d), got {x.shape}")
    machine = resolve_topology(topology)
    check_scale(sm_scale)
    check_word("rebind", rebind, "m", "l", "O")
    tile = check_count("tile", tile)
    _, _, each = pe_grid(machine, pes, 1)

    def bench(ctx: BenchContext) -> tuple[Tensor, Tensor | None]:
        configure_sfr_intercube_multisip(ctx.engine, ctx.spec, ccl_config())
        whole, parted = DPPolicy(num_pes=each), DPPolicy(pe=cut(each), num_pes=each)
        Q = ctx.tensor(x.q, dp=whole, name="Q")
        K, V = ctx.tensor(x.k, dp=parted, name="K"), ctx.tensor(x.v, dp=parted, name="V")
        O = ctx.empty(x.q.shape, dtype=x.out_dtype, dp=whole, name="O")
        ctx.launch(
            "rebound_decode", rebound_kernel, Q, K, V, O, x.S_kv, x.h_q, x.h_kv, x.d,
            tile=tile, rebind=rebind, scale=_scale(sm_scale, x.d),
        )  # fmt: skip
        return O, None

    return Plan(
        x=x,
        machine=machine,
        kernel=rebound_kernel,
        bench=bench,
        reference=partial(reference.attention, sm_scale=sm_scale),
        shown={"pes": each, "cubes": 1},
    )


# -- kernels of a few lines, for kb.launch -----------------------------------------------------------------------


def stale_sum_kernel(out: Any, *, tl: Any) -> None:
    """The sum of 256 ones, taken after their scope has ended and 256 twos have been made."""
    with tl.scratch_scope("ones", kind="tile"):
        ones = tl.full((256,), 1.0, "f32")
    with tl.scratch_scope("twos", kind="tile"):
        tl.full((256,), 2.0, "f32", name="twos")
        t = tl.sum(ones)
        tl.store(out, t)


def early_sum_kernel(out: Any, *, tl: Any) -> None:
    """The sum of 256 ones whose scope has ended and whose bytes nobody has taken yet: 256 with checks off."""
    with tl.scratch_scope("ones", kind="tile"):
        ones = tl.full((256,), 1.0, "f32")
    t = tl.sum(ones)
    tl.store(out, t)


def mystery_kernel(k: Any, out: Any, S_kv: int, width: int, *, tl: Any, tile: int = 16) -> None:
    """How far do the first eight keys move, at most, from one tile to the next? One line of this is wrong.

    k ``(S_kv, width)``; out ``(8, width)`` f32; every tile has eight keys at least.
    """
    most = tl.zeros((8, width), "f32")
    heads = []
    for i, at in enumerate(range(0, S_kv, tile)):
        n = min(tile, S_kv - at)
        with tl.scratch_scope(f"tile {i}", kind="tile", keys=(at, at + n)):
            K = tl.load(k + at * width, (n, width))
            heads.append(K[:8])
            if i > 0:
                moved = tl.sub(heads[i], heads[i - 1])
                further = tl.maximum(most, tl.abs(moved))
                tl.copy_to(most, further)
    tl.store(out, most)


def read_early_kernel(x: Any, out: Any, *, tl: Any) -> None:
    """Double 64 numbers that have not arrived yet: `ReadBeforeWaitError`."""
    future = tl.load_async(x, (64,))
    doubled = tl.mul(future.handle, 2.0)
    tl.wait(future)
    tl.store(out, doubled)


def never_written_kernel(out: Any, *, tl: Any) -> None:
    """Add 1 to 64 numbers that nobody wrote: `UninitializedReadError`."""
    buffer = tl.empty((64,), "f32")
    more = tl.add(buffer, 1.0)
    tl.store(out, more)


def left_in_flight_kernel(x: Any, *, tl: Any) -> None:
    """Leave a scope while 64 numbers are on their way into it: `PendingLoadError`."""
    with tl.scratch_scope("tile 0", kind="tile"):
        buffer = tl.empty((64,), "f32")
        tl.load_async(x, (64,), out=buffer)


# -- their source, for a cell ------------------------------------------------------------------------------------


def numbered(kernel: Callable[..., Any]) -> str:
    """A kernel's source with the line numbers that errors and views give.

    >>> print(numbered(never_written_kernel).splitlines()[0].split(" ", 1)[1])
    def never_written_kernel(out: Any, *, tl: Any) -> None:
    """
    lines, first = inspect.getsourcelines(kernel)
    width = len(str(first + len(lines)))
    return "\n".join(f"{first + i:>{width}} {line.rstrip()}".rstrip() for i, line in enumerate(lines))


def mystery_lines() -> dict[str, int]:
    """The lines of `mystery_kernel` that one may suspect, by what they do; ``read`` is the one that is wrong."""
    lines, first = inspect.getsourcelines(mystery_kernel)
    marks = {"scope": "tile {i}", "append": "heads.append", "read": "tl.sub(", "copy_to": "tl.copy_to("}
    return {
        what: first + next(i for i, line in enumerate(lines) if mark in line) for what, mark in marks.items()
    }


def _scale(sm_scale: float | None, d: int) -> float:
    return 1.0 / math.sqrt(d) if sm_scale is None else sm_scale
