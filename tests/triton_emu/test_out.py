"""`out=` and `copy_to`: written there, nothing allocated, converted; exactly an operand or apart from all."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench_nb.dtypes import bf16, f16
from kernbench_nb.errors import ShapeError
from kernbench_nb.memory import tile_type
from kernbench_nb.memory.watch import overlap
from kernbench_nb.triton_emu import Handle, TLContext
from tests.triton_emu.tools import context, pointer, put, state

Op = Callable[[TLContext, Handle, Handle, Any], Handle]
A = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], np.float32)
B = np.array([[6.0, 5.0, 4.0], [3.0, 2.0, 1.5]], np.float32)

ELEMENTWISE: dict[str, Op] = {
    **{
        op: partial(lambda op, tl, a, b, out: getattr(tl, op)(a, b, out=out), op)
        for op in ("add", "sub", "mul", "div", "mod", "pow", "maximum", "minimum", "eq", "lt")
    },
    **{
        op: partial(lambda op, tl, a, b, out: getattr(tl, op)(a, out=out), op)
        for op in (
            "exp",
            "exp2",
            "log",
            "log2",
            "sqrt",
            "rsqrt",
            "sigmoid",
            "erf",
            "sin",
            "cos",
            "floor",
            "neg",
            "abs",
        )
    },
    "by a number": lambda tl, a, b, out: tl.mul(a, 0.1, out=out),
    "by a number on the left": lambda tl, a, b, out: tl.sub(1.0, a, out=out),
    "where": lambda tl, a, b, out: tl.where(a > b, a, b, out=out),
    "fma": lambda tl, a, b, out: tl.fma(a, b, 0.5, out=out),
    "clamp": lambda tl, a, b, out: tl.clamp(a, 2.0, b, out=out),
    "cast": lambda tl, a, b, out: tl.cast(a, "f32", out=out),
    "cast through f16": lambda tl, a, b, out: tl.cast(a, "f16", out=out),
}
OTHERS: dict[str, Op] = {
    "max": lambda tl, a, b, out: tl.max(a[None], 0, out=out),
    "softmax": lambda tl, a, b, out: tl.softmax(a, 0, out=out),
    "cumsum": lambda tl, a, b, out: tl.cumsum(a, 1, out=out),
    "sum": lambda tl, a, b, out: tl.sum(a[:, :, None], -1, out=out),
    "argmax": lambda tl, a, b, out: tl.argmax(a[None], 0, out=out),
    "dot": lambda tl, a, b, out: tl.dot(a, put(tl, np.eye(3, dtype=np.float32)), out=out),
    "dot with acc": lambda tl, a, b, out: tl.dot(a, put(tl, np.eye(3, dtype=np.float32)), b, out=out),
    "zeros": lambda tl, a, b, out: tl.zeros((2, 3), "f32", out=out),
    "full": lambda tl, a, b, out: tl.full((2, 3), 0.1, "f16", out=out),
    "zeros_like": lambda tl, a, b, out: tl.zeros_like(a, out=out),
    "arange": lambda tl, a, b, out: tl.arange(0, 6, out=None if out is None else out.reshape(6)).reshape(
        2, 3
    ),
    "load": lambda tl, a, b, out: tl.load(pointer(A), (2, 3), out=out),
    "masked load": lambda tl, a, b, out: tl.load(pointer(A), (2, 3), mask=a > 2, other=0.1, out=out),
    "load_async": lambda tl, a, b, out: tl.load_async(pointer(A), (2, 3), out=out).wait(),
}
MIXING = ("softmax", "cumsum", "max", "sum", "argmax", "dot", "dot with acc")
"""Whose results depend on more than one element of an operand."""
ALL = {**ELEMENTWISE, **OTHERS}


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("target", ["f32", "f16", "bf16", "f64", "i32"])
def test_the_result_is_what_it_would_be_and_then_converted(name: str, target: str) -> None:
    tl = context()
    a, b = put(tl, A), put(tl, B)
    want = tl.empty((2, 3), target)
    tl.copy_to(want, ALL[name](tl, a, b, None))
    out = tl.empty((2, 3), target)
    before = tl.scratch.cursor
    got = ALL[name](tl, a, b, out)
    grown = tl.scratch.cursor - before
    assert got.addr == out.addr
    assert grown == {"dot": 48, "dot with acc": 48, "masked load": 16, "where": 16}.get(name, 0)
    np.testing.assert_array_equal(out.numpy(), want.numpy())


@pytest.mark.parametrize("name", ELEMENTWISE)
@pytest.mark.parametrize("view", ["whole", "a slice", "transposed"])
def test_it_may_be_exactly_an_operand(name: str, view: str) -> None:
    tl = context()
    look = {"whole": lambda x: x, "a slice": lambda x: x[:, 1:], "transposed": lambda x: x.T}[view]
    a, b = put(tl, A), put(tl, B)
    want = ELEMENTWISE[name](tl, look(a), look(b), None).to("f32").numpy()
    for operand in (a, b):
        a, b = put(tl, A), put(tl, B)
        target = look(a) if operand is not b else look(b)
        ELEMENTWISE[name](tl, look(a), look(b), target)
        np.testing.assert_array_equal(target.numpy(), want)


@pytest.mark.parametrize("name", [*ELEMENTWISE, *MIXING])
def test_it_must_not_overlap_an_operand_otherwise(name: str) -> None:
    tl = context()
    base = put(tl, np.ones((6, 4), np.float32))
    a, b = base[:2, :3], put(tl, B)
    put(tl, A)
    before = None
    for out in (base[1:3, :3], base[:2, 1:], base[0:4:2, :3], base.reshape(24)[1:7].reshape(2, 3)):
        before = tl.scratch.cursor, tl.now_ps, base.numpy().tolist()
        with pytest.raises(
            ValueError, match=r"shares bytes with the operand .*Write to other scratch and tl.copy_to it"
        ):
            ALL[name](tl, a, b, out)
        extra = {"dot": 48, "dot with acc": 48, "where": 16}.get(name, 0)
        assert tl.scratch.cursor == before[0] + extra
        assert base.numpy().tolist() == before[2]


@pytest.mark.parametrize("name", MIXING)
def test_what_is_not_elementwise_may_not_write_over_an_operand_at_all(name: str) -> None:
    tl = context()
    a, b = put(tl, A), put(tl, B)
    with pytest.raises(ValueError, match=r"shares bytes with the operand .*it must not"):
        ALL[name](tl, a, b, a)


def test_a_product_may_write_over_its_accumulator_and_over_nothing_else() -> None:
    tl = context()
    x, acc = put(tl, np.eye(2, dtype=np.float32)), put(tl, np.ones((2, 2), np.float32))
    tl.dot(x, x, acc, out=acc)
    assert acc.numpy().tolist() == [[2, 1], [1, 2]]
    with pytest.raises(ValueError, match="shares bytes"):
        tl.dot(x, acc, acc, out=acc)
    with pytest.raises(ValueError, match="shares bytes"):
        tl.dot(x, x, acc, out=acc.T)


def test_interleaved_views_that_share_no_byte_are_fine() -> None:
    tl = context()
    both = put(tl, np.arange(16, dtype=np.float32).reshape(2, 8))
    even, odd = both[:, ::2], both[:, 1::2]
    tl.add(even, even, out=odd)
    assert both.numpy()[0].tolist() == [0, 0, 2, 4, 4, 8, 6, 12]
    tl.copy_to(even, odd)
    assert both.numpy()[1].tolist() == [16, 16, 20, 20, 24, 24, 28, 28]
    tl.sum(both.reshape(2, 4, 2)[:, :, :1], -1, out=odd)
    rows = put(tl, np.arange(12, dtype=np.float32).reshape(4, 3))
    tl.exp(rows[::2], out=rows[1::2])
    assert rows.numpy()[1].tolist() == np.exp(np.float32([0, 1, 2])).tolist()


@given(
    st.tuples(st.integers(0, 24), st.lists(st.tuples(st.integers(1, 3), st.integers(0, 9)), max_size=3)),
    st.tuples(st.integers(0, 24), st.lists(st.tuples(st.integers(1, 3), st.integers(0, 9)), max_size=3)),
)
@settings(max_examples=200)
def test_overlap_is_about_bytes(x: Any, y: Any) -> None:
    sets = []
    for (addr, walks), dtype in ((x, f16), (y, bf16)):
        ty = tile_type(tuple(n for n, _ in walks), dtype, tuple(t for _, t in walks))
        offsets = [sum(i * t for i, t in zip(at, ty.strides, strict=True)) for at in np.ndindex(ty.shape)]
        sets.append((addr, ty, {addr + 2 * o + b for o in offsets for b in range(2)}))
    (a, ta, bytes_a), (b, tb, bytes_b) = sets
    assert overlap(a, ta, b, tb) == bool(bytes_a & bytes_b)


@pytest.mark.parametrize("name", ALL)
def test_a_wrong_shape_is_refused_and_names_both(name: str) -> None:
    tl = context()
    a, b = put(tl, A), put(tl, B)
    out = tl.empty((3, 3), "f16")
    before = state(tl)
    if name == "arange":
        with pytest.raises(
            ShapeError, match=r"arange: out= has shape \(3, 3\) \(f16\), the result has shape \(6,\)"
        ):
            tl.arange(0, 6, out=out)
    else:
        with pytest.raises(
            ShapeError, match=r"out= has shape \(3, 3\) \(f16\), the result has shape \(2, 3\)"
        ):
            ALL[name](tl, a, b, out)
    if name not in ("dot", "dot with acc", "masked load", "where"):  # these made an operand first
        assert state(tl) == before


@pytest.mark.parametrize("name", [n for n in ALL if n != "arange"])
def test_a_broadcast_view_is_refused(name: str) -> None:
    tl = context()
    a, b = put(tl, A), put(tl, B)
    out = tl.broadcast_to(tl.full((1, 3), 0.0, "f32"), 2, 3)
    with pytest.raises(
        ShapeError, match=r"f32\[2x3\] strides \(0, 1\) is a broadcast view and cannot be written"
    ):
        ALL[name](tl, a, b, out)


@pytest.mark.parametrize("out", [3, "x", np.zeros((2, 3)), None.__class__])
def test_what_is_no_tile_is_refused(out: Any) -> None:
    tl = context()
    a, b = put(tl, A), put(tl, B)
    for name, op in ELEMENTWISE.items():
        if name != "where":
            before = state(tl)
            with pytest.raises(TypeError, match="out=: expected a tile, got"):
                op(tl, a, b, out)
            assert state(tl) == before


def test_a_tile_of_another_pe_is_refused() -> None:
    tl, other = context(), context(pe_id=1)
    a, foreign = put(tl, A), put(other, A)
    for op in (
        lambda: tl.exp(a, out=foreign),
        lambda: tl.copy_to(a, foreign),
        lambda: tl.copy_to(foreign, a),
        lambda: tl.sum(foreign),
        lambda: tl.dot(a, foreign.T, out=None, acc=a),
        lambda: tl.send(0, foreign),
        lambda: tl.store(pointer(A), foreign),
        lambda: tl.where(a, a, foreign),
    ):
        with pytest.raises(
            ValueError, match="belongs to another PE or another launch; send it, or store it to HBM"
        ):
            op()


def test_out_counts_as_written_and_saves_the_allocation() -> None:
    tl = context()
    m = tl.empty((2,), "f32", name="m")
    tl.max(put(tl, A), 1, out=m)
    assert m.numpy().tolist() == [3, 6]
    assert tl.scratch.cursor == 16 + 32


# -- copy_to -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("src", ["f16", "bf16", "f32", "f64", "f8e4m3", "f8e5m2", "i8", "i32", "u8", "bool"])
@pytest.mark.parametrize("dst", ["f16", "bf16", "f32", "f64", "f8e4m3", "f8e5m2", "i8", "i32", "u8", "bool"])
def test_copy_to_converts_and_keeps_the_address(src: str, dst: str) -> None:
    tl = context()
    x = put(tl, np.array([0, 1, 1, 0]), src)
    y = tl.full((4,), 1, dst)
    addr = y.addr
    assert tl.copy_to(y, x) is y
    assert (y.addr, y.dtype.name) == (addr, dst)
    assert y.numpy().astype(int).tolist() == [0, 1, 1, 0]


def test_copy_to_between_views() -> None:
    tl = context()
    x, y = put(tl, A), tl.zeros((3, 2), "f16")
    tl.copy_to(y.T, x)
    np.testing.assert_array_equal(y.numpy(), A.T)
    tl.copy_to(y[1:2], tl.broadcast_to(tl.full((1, 1), 9, "i8"), 1, 2))
    assert y.numpy()[1].tolist() == [9, 9]
    with pytest.raises(ShapeError, match="is a broadcast view and cannot be written"):
        tl.copy_to(tl.broadcast_to(y[:, :1], 3, 2), y)


def test_copy_to_itself_is_fine_and_to_a_part_of_itself_is_not() -> None:
    tl = context()
    x = put(tl, A)
    tl.copy_to(x, x)
    np.testing.assert_array_equal(x.numpy(), A)
    with pytest.raises(ValueError, match=r"copy_to: dst 'tile' f32\[1x3\] .* shares bytes with the operand"):
        tl.copy_to(x[:1], x.reshape(6)[1:4].reshape(1, 3))


def test_copy_to_of_other_shapes_names_both() -> None:
    tl = context()
    m = tl.zeros((2, 3), "f32", name="m")
    new = tl.zeros((3, 2), "f16", name="m_new")
    with pytest.raises(
        ShapeError, match=r"dst 'm' f32\[2x3\] and src 'm_new' f16\[3x2\] have different shapes"
    ):
        tl.copy_to(m, new)
    for bad in (lambda: tl.copy_to(m, 1.0), lambda: tl.copy_to(1.0, m)):
        with pytest.raises(TypeError, match=r"copy_to: (src|dst): expected a tile, got float"):
            bad()
