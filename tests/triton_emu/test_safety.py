"""Handles used after their scope ended, at the three safety levels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernbench_nb.dtypes import DTYPES, DType
from kernbench_nb.errors import DataModeError, MessageError, UseAfterScopeError
from kernbench_nb.triton_emu import Handle, TLContext
from tests.triton_emu.tools import context, pointer, put, state

Use = Callable[[TLContext, Handle, Handle, Handle], Any]

USES: dict[str, Use] = {
    "sum": lambda tl, dead, live, mask: tl.sum(dead),
    "max": lambda tl, dead, live, mask: dead.max(0),
    "left operand": lambda tl, dead, live, mask: dead * live,
    "right operand": lambda tl, dead, live, mask: live - dead,
    "beside a number": lambda tl, dead, live, mask: dead * 2.0,
    "number on the left": lambda tl, dead, live, mask: 1.0 - dead,
    "unary": lambda tl, dead, live, mask: -dead,
    "exp": lambda tl, dead, live, mask: tl.exp(dead),
    "comparison": lambda tl, dead, live, mask: dead < live,
    "where": lambda tl, dead, live, mask: tl.where(mask, live, dead),
    "where condition": lambda tl, dead, live, mask: tl.where(dead, live, live),
    "fma": lambda tl, dead, live, mask: tl.fma(live, live, dead),
    "clamp": lambda tl, dead, live, mask: tl.clamp(dead, 0.0, 1.0),
    "cast": lambda tl, dead, live, mask: dead.to("f16"),
    "cast to the dtype that it has": lambda tl, dead, live, mask: dead.to("f32"),
    "softmax": lambda tl, dead, live, mask: tl.softmax(dead),
    "cumsum": lambda tl, dead, live, mask: tl.cumsum(dead),
    "dot input": lambda tl, dead, live, mask: tl.dot(dead, live),
    "dot other": lambda tl, dead, live, mask: tl.dot(live, dead),
    "dot acc": lambda tl, dead, live, mask: tl.dot(live, live, acc=dead),
    "copy_to src": lambda tl, dead, live, mask: tl.copy_to(live, dead),
    "copy_to dst": lambda tl, dead, live, mask: tl.copy_to(dead, live),
    "copy": lambda tl, dead, live, mask: dead.copy(),
    "out=": lambda tl, dead, live, mask: tl.add(live, live, out=dead),
    "out= of a reduction": lambda tl, dead, live, mask: tl.sum(live, 0, out=dead[0]),
    "out= of full": lambda tl, dead, live, mask: tl.full((4, 4), 0.0, "f32", out=dead),
    "store": lambda tl, dead, live, mask: tl.store(pointer(np.zeros(16, np.float32)), dead),
    "store mask": lambda tl, dead, live, mask: tl.store(
        pointer(np.zeros(16, np.float32)), live, mask=dead.to("i32") > 0
    ),
    "load other": lambda tl, dead, live, mask: tl.load(
        pointer(np.zeros(16, np.float32)), (4, 4), mask=mask, other=dead
    ),
    "load out=": lambda tl, dead, live, mask: tl.load(pointer(np.zeros(16, np.float32)), (4, 4), out=dead),
    "load_async out=": lambda tl, dead, live, mask: tl.load_async(
        pointer(np.zeros(16, np.float32)), (4, 4), out=dead
    ),
    "send": lambda tl, dead, live, mask: tl.send(0, dead),
    "recv out=": lambda tl, dead, live, mask: tl.recv(0, (4, 4), "f32", out=dead),
    "reshape": lambda tl, dead, live, mask: dead.reshape(16),
    "trans": lambda tl, dead, live, mask: dead.T,
    "slice": lambda tl, dead, live, mask: dead[1:3],
    "element": lambda tl, dead, live, mask: dead[0, 0],
    "None": lambda tl, dead, live, mask: dead[None],
    "expand_dims": lambda tl, dead, live, mask: tl.expand_dims(dead, 0),
    "broadcast_to": lambda tl, dead, live, mask: tl.broadcast_to(dead[None], 2, 4, 4),
    "broadcast": lambda tl, dead, live, mask: tl.broadcast(live, dead),
    "bitcast": lambda tl, dead, live, mask: tl.cast(dead, "i32", bitcast=True),
    "numpy": lambda tl, dead, live, mask: dead.numpy(),
    "np.asarray": lambda tl, dead, live, mask: np.asarray(dead),
    "float": lambda tl, dead, live, mask: float(dead),
    "bool": lambda tl, dead, live, mask: bool(dead),
    "device_assert": lambda tl, dead, live, mask: tl.device_assert(dead),
    "device_print": lambda tl, dead, live, mask: tl.device_print("x", dead),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize("view", [False, True], ids=["itself", "a view of it"])
def test_every_use_of_a_dead_handle_raises_and_does_nothing(use: Use, view: bool) -> None:
    tl = context()
    live = put(tl, np.ones((4, 4), np.float32))
    mask = live > 0
    with tl.scratch_scope("tile 7"):
        t = tl.full((4, 4), 1.0, "f32")
        kept = t.T.T if view else t
    u = tl.full((4, 4), 2.0, "f32")
    before = state(tl)
    with pytest.raises(UseAfterScopeError, match="is used at"):
        use(tl, kept, live, mask)
    assert state(tl) == before
    assert u.numpy().tolist() == [[2.0] * 4] * 4


@pytest.mark.parametrize("name", [name for name in USES if not name.startswith("device")])
def test_in_timing_mode_too(name: str) -> None:
    tl = TLContext()
    with tl.scratch_scope():
        dead = tl.full((4, 4), 1.0, "f32")
    live = tl.full((4, 4), 1.0, "f32")
    mask = live > 0
    before = state(tl)
    asks_for_values = name in ("numpy", "np.asarray", "float")
    with pytest.raises(DataModeError if asks_for_values else UseAfterScopeError):
        USES[name](tl, dead, live, mask)
    assert state(tl) == before


def test_the_error_says_who_what_where_and_who_has_the_bytes_now() -> None:
    tl = context()

    put(tl, np.ones(4))  # lies below, and has nothing to do with it

    def kernel() -> None:
        with tl.scratch_scope("tile 3"):
            t = tl.full((8, 16), 1.0, "f32")
        u = tl.full((4, 32), 2.0, "f16")
        v = tl.full((16, 16), 3.0, "f32")
        t + v[:8]
        del u

    with pytest.raises(UseAfterScopeError) as caught:
        kernel()
    text = str(caught.value)
    line = kernel.__code__.co_firstlineno
    assert text.startswith(
        f"'t' f32[8x16] is used at kernel, line {line + 5}: t + v[:8] after its scope ended"
    )
    assert f"made at kernel, line {line + 2}: t = tl.full" in text
    assert f"in scope 'tile 3', which ended at kernel, line {line + 1}: with tl.scratch_scope" in text
    assert "its bytes now belong to u f16[4x32], v f32[16x16]" in text
    assert "tl.copy_to a handle made before it" in text
    assert "x *= a" in text


def test_bytes_that_nobody_has_belong_to_nobody() -> None:
    tl = context()
    with tl.scratch_scope():
        t = tl.full((8,), 1.0, "f32")
    with pytest.raises(UseAfterScopeError, match="belong to nobody now"):
        t + 1.0


def test_rebinding_a_name_inside_a_scope_gives_the_helpful_error() -> None:
    tl = context()
    x = put(tl, [1.0, 2.0])
    a = x
    with tl.scratch_scope():
        x *= a
    with pytest.raises(
        UseAfterScopeError, match=r"^'x' f64\[2\] is used.*x \*= a and m = m_new rebind a name"
    ):
        x + a
    assert a.numpy().tolist() == [1.0, 2.0]


def test_what_was_copied_out_survives_and_a_copy_made_inside_dies() -> None:
    tl = context()
    keep = tl.empty((256,), "f32")
    with tl.scratch_scope():
        t = tl.full((256,), 1.0, "f32")
        tl.copy_to(keep, t)
        twin = t.copy()
    with tl.scratch_scope():
        u = tl.full((256,), 2.0, "f32")
        with pytest.raises(UseAfterScopeError):
            tl.sum(t)
        with pytest.raises(UseAfterScopeError):
            tl.sum(twin)
        assert tl.sum(u).item() == 512.0
    assert tl.sum(keep).item() == 256.0


def test_a_handle_of_an_outer_scope_lives_on_in_and_after_an_inner_one() -> None:
    tl = context()
    with tl.scratch_scope():
        t = tl.full((4,), 1.0, "f32")
        with tl.scratch_scope():
            t + t
        assert tl.sum(t).item() == 4.0
    with pytest.raises(UseAfterScopeError):
        tl.sum(t)


def test_what_was_made_in_a_mark_dies_with_the_scope_around_it() -> None:
    tl = context()
    with tl.scratch_scope("block"):
        with tl.scratch_scope("tile", rewind=False):
            t = tl.full((4,), 1.0, "f32")
        assert tl.sum(t).item() == 4.0
    with pytest.raises(UseAfterScopeError, match="in scope 'block/tile', which ended"):
        tl.sum(t)
    with tl.scratch_scope("tile", rewind=False):
        t = tl.full((4,), 1.0, "f32")
    assert tl.sum(t).item() == 4.0


def test_an_empty_handle_dies_too() -> None:
    tl = context()
    with tl.scratch_scope():
        t = tl.zeros((0, 4), "f32")
    with pytest.raises(UseAfterScopeError):
        t + t


def test_handles_of_an_exception_that_was_caught_are_dead() -> None:
    tl = context()
    kept = []
    try:
        with tl.scratch_scope():
            kept.append(tl.full((4,), 1.0, "f32"))
            raise KeyError
    except KeyError:
        pass
    with pytest.raises(UseAfterScopeError):
        kept[0].sum()


# -- poison ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("fresh", [False, True], ids=["given back", "fresh"])
def test_at_poison_bytes_that_were_given_back_read_as_poison(dtype: DType, fresh: bool) -> None:
    tl = context(scratch_checks="poison")
    if fresh:
        t = tl.empty((4,), dtype)
    else:
        with tl.scratch_scope():
            t = tl.full((4,), 1, dtype)
    values = t.numpy()
    if dtype.is_float:
        assert np.isnan(values.astype(np.float64)).all()
    elif dtype.kind == "int":
        assert values.tolist() == [-1] * 4
    elif dtype.kind == "uint":
        assert values.tolist() == [(1 << dtype.bits) - 1] * 4
    else:
        assert values.tolist() == [True] * 4
        assert values.view(np.uint8).tolist() == [1] * 4
        assert tl.sum(t).item() == 4
        assert not (t ^ t).numpy().any()
    result = tl.sum(t).numpy() if dtype.is_float else None
    assert result is None or np.isnan(float(result))


def test_poison_that_leaves_as_a_bool_leaves_as_true() -> None:
    tl = context(scratch_checks="poison")
    p = pointer([False] * 4)
    hole = tl.empty((4,), "bool")
    kept = tl.full((4,), False, "bool")
    tl.copy_to(kept, hole)
    for tile in (hole, kept):
        tl.store(p, tile)
        assert p.shard.data is not None
        assert p.shard.data.view(np.uint8).tolist() == tile.numpy().view(np.uint8).tolist() == [1] * 4


def test_at_poison_a_next_owner_shows_through_where_it_has_written() -> None:
    tl = context(scratch_checks="poison")
    with tl.scratch_scope():
        t = tl.full((8,), 1.0, "f32")
    with tl.scratch_scope():
        tl.full((4,), 2.0, "f32")
        np.testing.assert_array_equal(t.numpy(), [2.0] * 4 + [np.nan] * 4)
    assert np.isnan(t.numpy()).all()


def test_at_poison_what_an_inner_scope_reached_is_poisoned_with_the_outer_one() -> None:
    tl = context(scratch_checks="poison")
    with tl.scratch_scope():
        with tl.scratch_scope(rewind=False):
            deep = tl.full((64,), 1.0, "f32")
        tl.full((64,), 2.0, "f32")
    assert np.isnan(deep.numpy()).all()
    assert (tl._bytes.buffer == 0xFF).all()  # type: ignore[union-attr]


# -- off ---------------------------------------------------------------------------------------------------


def test_at_off_a_stale_handle_reads_exactly_the_new_owners_bytes() -> None:
    tl = context(scratch_checks="off")
    with tl.scratch_scope():
        t = put(tl, np.arange(16, dtype=np.float32).reshape(4, 4))
        column = t.T[1]
    assert t.numpy().ravel().tolist() == list(range(16))  # left alone
    with tl.scratch_scope():
        u = put(tl, np.arange(100, 132, dtype=np.float16))
        assert t.addr == u.addr
        seen = t.numpy().tobytes()
        assert seen == u.numpy().tobytes()
        assert column.numpy().tobytes() == np.frombuffer(seen, np.float32).reshape(4, 4)[:, 1].tobytes()
        assert tl.sum(t).numpy() == np.frombuffer(seen, np.float32).sum()
    w = tl.full((2,), 7.0, "f32")
    assert t.numpy().ravel()[:2].tolist() == [7.0, 7.0]
    assert w.numpy().tolist() == [7.0, 7.0]


def test_at_off_writing_through_a_stale_handle_spoils_the_new_owner() -> None:
    tl = context(scratch_checks="off")
    with tl.scratch_scope():
        t = tl.full((4,), 1.0, "f32")
    u = tl.full((4,), 2.0, "f32")
    tl.full((4,), 9.0, "f32", out=t)
    assert u.numpy().tolist() == [9.0] * 4


@pytest.mark.parametrize("checks", ["poison", "off"])
def test_below_raise_nothing_is_checked(checks: str) -> None:
    tl = context(scratch_checks=checks)
    live = put(tl, np.ones((4, 4), np.float32))
    mask = live > 0
    with tl.scratch_scope():
        dead = tl.full((4, 4), 1.0, "f32")
    for name, use in USES.items():
        if name == "bool":
            continue  # an array of several has no truth
        try:
            use(tl, dead, live, mask)
        except MessageError:
            assert name in ("send", "recv out=")
        except (ValueError, AssertionError):
            assert name in ("float", "device_assert"), name


def test_the_levels_run_the_same_rows_at_the_same_times_and_addresses() -> None:
    logs = []
    for checks in ("raise", "poison", "off"):
        tl = context(scratch_checks=checks)
        state_m = tl.empty((4,), "f32")
        for i in range(3):
            with tl.scratch_scope(kind="tile"):
                x = tl.full((4,), float(i), "f32")
                tl.copy_to(state_m, tl.exp(x) * 2.0)
        logs.append((tl.commands.rows, state_m.numpy().tolist()))
    assert logs[0] == logs[1] == logs[2]


def test_an_unknown_level_is_refused() -> None:
    with pytest.raises(ValueError, match="raise, poison, off, got 'warn'"):
        TLContext(scratch_checks="warn")
