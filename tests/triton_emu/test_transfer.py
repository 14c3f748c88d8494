"""Loads and stores: strides, masks, fillers, scalars, bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench_nb.dtypes import DTYPES, DType
from kernbench_nb.errors import DTypeError, MessageError, OutOfBoundsError, ShapeError
from kernbench_nb.triton_emu import Pointer, TLContext
from tests.triton_emu.tools import context, pointer, put, state

X = np.arange(24, dtype=np.float32).reshape(4, 6)


def contents(p: Pointer) -> Any:
    assert p.shard.data is not None
    return p.shard.data.reshape(p.shard.shape)


# -- loads -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_load_gives_the_elements_in_a_contiguous_tile_of_the_tensors_dtype(dtype: DType) -> None:
    tl = context()
    values = np.array([[0, 1, 1], [1, 0, 1]])
    tile = tl.load(pointer(values, dtype), (2, 3))
    assert (tile.dtype, tile.shape, tile.ty.contiguous) == (dtype, (2, 3), True)
    assert tile.numpy().astype(int).tolist() == values.tolist()
    assert tl.load(pointer(values, dtype), (2, 3), dtype).dtype is dtype


@pytest.mark.parametrize(
    ("offset", "shape", "strides", "want"),
    [
        (0, (4, 6), None, X),
        (7, (2, 3), (6, 1), X[1:3, 1:4]),
        (0, (6, 4), (1, 6), X.T),
        (2, (4,), [6], X[:, 2]),
        (23, (4,), (-6,), X[::-1, 5]),
        (5, (3, 2), (0, 6), np.broadcast_to(X[:2, 5], (3, 2))),
        (3, (), None, X[0, 3]),
        (3, 2, None, X[0, 3:5]),
        (3, [2], None, X[0, 3:5]),
        (3, (np.int64(1), 2), None, X[0:1, 3:5]),
        (24, (0, 6), None, X[:0]),
        (99, (2, 0), (1, 1), X[:2, :0]),
    ],
)
def test_shapes_and_strides(offset: int, shape: Any, strides: Any, want: Any) -> None:
    tl = context()
    for _ in range(2):  # the second time, out of the cache
        tile = tl.load(pointer(X) + offset, shape, strides=strides)
        assert tile.shape == want.shape
        np.testing.assert_array_equal(tile.numpy(), want)


def test_pointers_move_by_elements() -> None:
    p = pointer(X, tensor="q")
    assert [(p + 5).offset, (5 + p).offset, (p + 5 - 2).offset, (p + np.int64(3)).offset] == [5, 5, 3, 3]
    assert repr(p + 5) == "<pointer to q[5], f32>"
    assert p.dtype.name == "f32"
    tl = context()
    assert (p + put(tl, np.array(2)) if False else p + 2).offset == 2
    with pytest.raises(TypeError, match=r"pointers move by whole elements, got float"):
        p + 1.5
    with pytest.raises(TypeError, match=r"\+ a tile makes a tile of pointers, .* load a block with tl\.load"):
        p + tl.arange(0, 4)


@pytest.mark.parametrize("shape", [(2, 6), (), (0,)])
@pytest.mark.parametrize("verb", ["load", "load_async", "store"])
def test_leaving_the_shard_names_everything_and_does_nothing(verb: str, shape: tuple[int, ...]) -> None:
    tl = context()
    p = pointer(X, tensor="k", where="rows 0 to 3, on PE 1") + 20
    value = put(tl, np.zeros(shape, np.float32))
    if shape == ():
        p = p + 4
    before = state(tl)

    def run() -> None:
        tl.store(p, value) if verb == "store" else getattr(tl, verb)(p, shape)

    if shape == (0,):
        run()  # touches nothing, so it leaves nothing
        return
    with pytest.raises(OutOfBoundsError) as caught:
        run()
    last = 31 if shape else 24
    assert str(caught.value) == (
        f"{verb.removesuffix('_async')} of shape {shape} at offset {p.offset} reaches elements {p.offset} to {last} of "
        "tensor 'k', but its shard (rows 0 to 3, on PE 1) of shape (4, 6) has elements 0 to 23. Shorten the tile, or "
        "give a mask with other=."
    )
    assert state(tl) == before
    assert caught.value.__context__ is None


@pytest.mark.parametrize("timing", [False, True])
def test_bounds_are_checked_at_both_ends_and_in_both_modes(timing: bool) -> None:
    tl = TLContext(data=not timing)
    p = pointer(X, timing=timing)
    for offset, shape, strides in [(-1, (2,), None), (5, (2,), (-6,)), (18, (2,), (6,)), (24, (1,), None)]:
        for _ in range(2):
            with pytest.raises(OutOfBoundsError):
                tl.load(p + offset, shape, strides=strides)
    tl.load(p + 18, (2,), strides=(-6,))
    tl.load(p + 18, (6,))


# -- masks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_masked_lanes_are_poison_unless_other_says_what_they_are(dtype: DType) -> None:
    tl = context()
    p = pointer([1, 0, 1, 0], dtype)
    mask = put(tl, [True, True, False, False])
    bare = tl.load(p, (4,), mask=mask).numpy()
    assert bare[:2].astype(int).tolist() == [1, 0]
    if dtype.is_float:
        assert np.isnan(bare[2:].astype(np.float64)).all()
    else:
        assert (
            bare[2:].tolist()
            == {"int": [-1] * 2, "uint": [(1 << dtype.bits) - 1] * 2, "bool": [True] * 2}[dtype.kind]
        )
    for other in (1, 1.0, True, np.float32(1), put(tl, [1, 1, 1, 1], dtype), put(tl, 1, dtype)):
        assert tl.load(p, (4,), mask=mask, other=other).numpy().astype(int).tolist() == [1, 0, 1, 1]
    assert tl.load(p, (4,), mask=mask, other=0).numpy().astype(int).tolist() == [1, 0, 0, 0]


def test_a_mask_broadcasts_to_the_tile_and_keeps_it_inside_the_shard() -> None:
    tl = context()
    rows = tl.arange(0, 8) < 4  # the tensor has 4 rows
    tile = tl.load(pointer(X), (8, 6), mask=rows[:, None], other=-1.0)
    np.testing.assert_array_equal(tile.numpy(), np.concatenate([X, np.full((4, 6), -1)]))
    columns = tl.arange(0, 8) < 6
    tile = tl.load(pointer(X), (4, 8), strides=(6, 1), mask=columns, other=0)
    np.testing.assert_array_equal(tile.numpy(), np.pad(X, ((0, 0), (0, 2))))
    with pytest.raises(
        OutOfBoundsError, match=r"^masked load of shape \(8, 6\) at offset 0 reaches elements 0 to 29 of"
    ):
        tl.load(pointer(X), (8, 6), mask=(tl.arange(0, 8) < 5)[:, None])


def test_a_mask_may_be_a_bool() -> None:
    tl = context()
    p = pointer(X)
    assert tl.load(p, (2,), mask=True).numpy().tolist() == [0, 1]
    assert tl.load(p + 99, (2,), mask=False, other=7).numpy().tolist() == [7, 7]
    assert np.isnan(tl.load(p + 99, (), mask=np.False_).item())
    with pytest.raises(OutOfBoundsError):
        tl.load(p + 99, (2,), mask=True)
    timing = TLContext()
    t = pointer(X, timing=True)
    timing.load(t + 99, (2,), mask=False)
    with pytest.raises(OutOfBoundsError):
        timing.load(t + 99, (2,), mask=True)


@pytest.mark.parametrize(
    ("more", "error", "text"),
    [
        ({"other": 0}, ValueError, r"load: other= says what masked lanes hold, and there is no mask="),
        ({"mask": "i32"}, DTypeError, r"load: mask= is i32\[2x3\], but a mask is bool: compare"),
        ({"mask": 1}, TypeError, r"load: mask= must be a bool tile or a bool, got 1"),
        (
            {"mask": np.ones((2, 3), bool)},
            TypeError,
            r"load: mask= must be a bool tile or a bool, got ndarray",
        ),
        (
            {"mask": "wide"},
            ShapeError,
            r"load: mask= of shape \(4, 3\) does not broadcast to the tile's \(2, 3\)",
        ),
        ({"mask": "deep"}, ShapeError, r"load: mask= of shape \(1, 2, 3\) does not broadcast"),
        ({"mask": "bool", "other": "wide"}, ShapeError, r"load: other= of shape \(4, 3\) does not broadcast"),
        (
            {"mask": "bool", "other": "zero"},
            TypeError,
            r"load: other= must be a number or a tile, got 'zero'",
        ),
        (
            {"dtype": "f16"},
            DTypeError,
            r"dtype=f16 but tensor 'x' is f32, .* load it as f32, then \.to\(f16\)",
        ),
        ({"dtype": "f99"}, DTypeError, r"unknown dtype 'f99'"),
        ({"strides": (1,)}, ShapeError, r"load: shape \(2, 3\) has 2 dimensions, strides \(1,\) has 1"),
        ({"shape": (2, -3)}, ShapeError, r"load: a shape cannot have a negative extent, got \(2, -3\)"),
        ({"shape": (2, 1.5)}, ShapeError, r"load: a shape holds integers, got \(2, 1\.5\)"),
        ({"shape": "ab"}, ShapeError, r"load: a shape holds integers, got 'ab'"),
        (
            {"out": "wide"},
            ShapeError,
            r"load: out= has shape \(4, 3\) \(bool\), the result has shape \(2, 3\) \(f32\)",
        ),
        ({"out": 1.0}, TypeError, r"out=: expected a tile, got float"),
        ({"ptr": X}, TypeError, r"load: expected a pointer \(a kernel's tensor argument, .*got ndarray"),
        ({"ptr": 7}, TypeError, r"load: expected a pointer .*got 7"),
    ],
)
@pytest.mark.parametrize("verb", ["load", "load_async"])
@pytest.mark.parametrize("timing", [False, True])
def test_loads_that_are_refused_do_nothing(
    more: dict[str, Any], error: type[Exception], text: str, verb: str, timing: bool
) -> None:
    tl = TLContext(data=not timing)
    tiles = {
        "i32": tl.full((2, 3), 1, "i32"), "bool": tl.full((2, 3), True, "bool"),
        "wide": tl.full((4, 3), True, "bool"), "deep": tl.full((1, 2, 3), True, "bool"),
    }  # fmt: skip
    arguments = {"ptr": pointer(X, timing=timing), "shape": (2, 3)}
    arguments |= {k: tiles.get(v, v) if isinstance(v, str) and k != "dtype" else v for k, v in more.items()}
    before = state(tl)
    for _ in range(2):
        with pytest.raises(error, match=text):
            getattr(tl, verb)(**arguments)
        assert state(tl) == before


# -- stores ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_store_converts_to_the_tensors_dtype(dtype: DType) -> None:
    tl = context()
    p = pointer(np.zeros((2, 2)), dtype)
    tl.store(p, put(tl, [[0.0, 1.0], [1.0, 0.0]], "f32"))
    assert contents(p).astype(int).tolist() == [[0, 1], [1, 0]]
    tl.store(p + 3, 1)
    assert contents(p).astype(int).tolist() == [[0, 1], [1, 1]]


def test_stores_of_views_and_with_strides() -> None:
    tl = context()
    x = put(tl, X)
    p = pointer(np.zeros((6, 4)))
    tl.store(p, x.T)
    np.testing.assert_array_equal(contents(p), X.T)
    q = pointer(np.zeros((4, 6)))
    tl.store(q + 1, x[:2, :2], strides=(12, 3))
    want = np.zeros((4, 6))
    want[::2, 1::3] = X[:2, :2]
    np.testing.assert_array_equal(contents(q), want)
    tl.store(q, tl.broadcast_to(tl.full((1, 1), 5.0, "f32"), 4, 6))
    assert (contents(q) == 5).all()
    tl.store(q + 99, put(tl, np.zeros((0, 6), np.float32)))


@given(st.integers(0, 30), st.lists(st.tuples(st.integers(0, 3), st.integers(1, 7)), max_size=2), st.data())
@settings(max_examples=60)
def test_a_masked_store_writes_exactly_the_lanes_let_through(
    offset: int, walks: Any, data: st.DataObject
) -> None:
    shape, strides = tuple(n for n, _ in walks), tuple(t for _, t in walks)
    allowed = np.array(
        data.draw(st.lists(st.booleans(), min_size=math.prod(shape), max_size=math.prod(shape))), bool
    ).reshape(shape)
    tl = context()
    p = pointer(np.zeros(24, np.float32))
    values = np.arange(1, math.prod(shape) + 1, dtype=np.float32).reshape(shape)
    want = np.zeros(24, np.float32)
    inside = True
    for at in np.ndindex(shape):
        element = offset + sum(i * t for i, t in zip(at, strides, strict=True))
        if allowed[at]:
            inside = inside and element < 24
            if element < 24:
                want[element] = values[at]
    if inside:
        tl.store(p + offset, put(tl, values), mask=put(tl, allowed), strides=strides)
        np.testing.assert_array_equal(contents(p), want)
    else:
        with pytest.raises(OutOfBoundsError, match="masked store"):
            tl.store(p + offset, put(tl, values), mask=put(tl, allowed), strides=strides)
        assert not contents(p).any()


def test_a_masked_off_scalar_store_writes_nothing() -> None:
    tl = context()
    p = pointer(X)
    for mask in (False, np.False_, put(tl, np.array(False))):
        tl.store(p + 3, 99.0, mask=mask)
        tl.store(p + 3, put(tl, np.array(99.0, np.float32)), mask=mask)
    np.testing.assert_array_equal(contents(p), X)
    tl.store(p + 3, 99.0, mask=True)
    assert contents(p)[0, 3] == 99


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"ptr": X}, TypeError, r"store: expected a pointer \(a kernel's tensor argument\), got ndarray"),
        ({"value": "x"}, TypeError, r"expected a tile or a number beside a tile of f32, got str"),
        ({"value": None}, TypeError, r"got NoneType"),
        ({"value": X}, TypeError, r"got ndarray; load or create it as a tile first"),
        ({"mask": 1}, TypeError, r"store: mask= must be a bool tile or a bool, got 1"),
        ({"mask": "i32"}, DTypeError, r"store: mask= is i32\[2x3\], but a mask is bool"),
        (
            {"mask": "wide"},
            ShapeError,
            r"store: mask= of shape \(4, 3\) does not broadcast to the tile's \(2, 3\)",
        ),
        (
            {"strides": (1, 1, 1)},
            ShapeError,
            r"store: shape \(2, 3\) has 2 dimensions, strides \(1, 1, 1\) has 3",
        ),
    ],
)
@pytest.mark.parametrize("timing", [False, True])
def test_stores_that_are_refused_do_nothing(
    arguments: dict[str, Any], error: type[Exception], text: str, timing: bool
) -> None:
    tl = TLContext(data=not timing)
    tiles = {"i32": tl.full((2, 3), 1, "i32"), "wide": tl.full((4, 3), True, "bool")}
    value = tl.full((2, 3), 9.0, "f32")
    p = pointer(X, timing=timing)
    given = {
        "ptr": p,
        "value": value,
        **{k: tiles.get(v, v) if isinstance(v, str) else v for k, v in arguments.items()},
    }
    before = state(tl)
    with pytest.raises(error, match=text):
        tl.store(**given)
    assert state(tl) == before
    if not timing:
        np.testing.assert_array_equal(contents(p), X)


def test_integers_that_a_tensor_cannot_hold() -> None:
    tl = context()
    with pytest.raises(ValueError, match="300 beside a tile of i8, which cannot hold it"):
        tl.store(pointer([0], "i8"), 300)


# -- what a context that stands alone cannot do -------------------------------------------------------------


@pytest.mark.parametrize(
    ("use", "text"),
    [
        (
            lambda tl, x: tl.send("E", x),
            "send to 'E' from a TLContext that stands alone: launch the kernel on an engine",
        ),
        (lambda tl, x: tl.recv("W", (2,), "f32"), "recv from 'W' in a TLContext that stands alone"),
        (lambda tl, x: tl.recv_async(3, (2,), "f32"), "recv from 3 in a TLContext that stands alone"),
    ],
)
def test_nobody_is_there_and_nothing_happens(use: Callable[[TLContext, Any], Any], text: str) -> None:
    tl = context()
    x = put(tl, [1.0])
    before = state(tl)
    with pytest.raises(MessageError, match=text):
        use(tl, x)
    assert state(tl) == before
    tl.barrier()


def test_a_masked_load_takes_the_bytes_of_its_issue_and_converts_into_out() -> None:
    tl = context()
    p = pointer([1, 2, 3, 4], "i8")
    out = tl.empty((4,), "f16")
    future = tl.load_async(p, (4,), mask=tl.arange(0, 4) < 2, out=out)
    tl.store(p, 9)
    np.testing.assert_array_equal(future.wait().numpy(), [1, 2, math.nan, math.nan])
