"""Views are strides: they cost nothing, move nothing, and read the same bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kernbench_nb.errors import ShapeError
from kernbench_nb.triton_emu import Handle, TLContext
from tests.triton_emu.tools import Array, context, put, state

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def fresh(values: Array = X) -> tuple[TLContext, Handle]:
    tl = context()
    return tl, put(tl, values)


def is_view(got: Handle, base: Handle, want: Array) -> None:
    """`got` shows `want`, in bytes of `base` and nowhere else, with the strides that numpy's view has."""
    assert got.shape == want.shape
    np.testing.assert_array_equal(got.numpy(), want)
    if want.size:
        assert base.addr <= got.addr
        assert got.addr + got.ty.extent <= base.addr + base.ty.extent
        for n, t, expected in zip(want.shape, got.ty.strides, want.strides, strict=True):
            assert n == 1 or t * want.itemsize == expected


CASES: dict[str, tuple[Callable[[TLContext, Handle], Handle], Callable[[Array], Array]]] = {
    "reshape": (lambda tl, x: x.reshape(6, 4), lambda a: a.reshape(6, 4)),
    "reshape by a tuple": (lambda tl, x: x.reshape((4, 6)), lambda a: a.reshape(4, 6)),
    "reshape by a list": (lambda tl, x: tl.reshape(x, [24]), lambda a: a.reshape(24)),
    "reshape with -1": (lambda tl, x: tl.view(x, 2, -1), lambda a: a.reshape(2, -1)),
    "view": (lambda tl, x: x.view(3, 8), lambda a: a.reshape(3, 8)),
    "trans": (lambda tl, x: tl.trans(x), lambda a: a.transpose(0, 2, 1)),
    "T": (lambda tl, x: x.T, lambda a: a.transpose(0, 2, 1)),
    "trans of all": (lambda tl, x: x.trans(2, 0, 1), lambda a: a.transpose(2, 0, 1)),
    "permute": (lambda tl, x: tl.permute(x, 1, 0, 2), lambda a: a.transpose(1, 0, 2)),
    "permute by a tuple, from the end": (lambda tl, x: x.permute((-1, 0, 1)), lambda a: a.transpose(2, 0, 1)),
    "expand_dims": (lambda tl, x: tl.expand_dims(x, 1), lambda a: np.expand_dims(a, 1)),
    "expand_dims at the end": (lambda tl, x: x.expand_dims(-1), lambda a: np.expand_dims(a, -1)),
    "integer": (lambda tl, x: x[1], lambda a: a[1]),
    "negative integer": (lambda tl, x: x[-1, -2], lambda a: a[-1, -2]),
    "numpy integer": (lambda tl, x: x[np.int64(1), :, np.int32(2)], lambda a: a[1, :, 2]),
    "slice": (lambda tl, x: x[:, 1:], lambda a: a[:, 1:]),
    "stepped slice": (lambda tl, x: x[:, ::2, 1::3], lambda a: a[:, ::2, 1::3]),
    "negative slice": (lambda tl, x: x[:, -2:, :-1], lambda a: a[:, -2:, :-1]),
    "slice beyond the end": (lambda tl, x: x[:99, 2:99], lambda a: a[:99, 2:99]),
    "empty slice": (lambda tl, x: x[:, 2:1], lambda a: a[:, 2:1]),
    "None": (lambda tl, x: x[None, :, None], lambda a: a[None, :, None]),
    "ellipsis": (lambda tl, x: x[..., 1:3], lambda a: a[..., 1:3]),
    "ellipsis in the middle": (lambda tl, x: x[1, ..., None, 0], lambda a: a[1, ..., None, 0]),
    "an ellipsis that stands for nothing": (lambda tl, x: x[0, ..., 1, 2], lambda a: a[0, ..., 1, 2]),
    "everything": (lambda tl, x: x[...], lambda a: a[...]),
    "no index": (lambda tl, x: x[()], lambda a: a[()]),
    "broadcast_to": (
        lambda tl, x: tl.broadcast_to(x[:, :1], 2, 5, 4),
        lambda a: np.broadcast_to(a[:, :1], (2, 5, 4)),
    ),
    "broadcast": (
        lambda tl, x: tl.broadcast(x[:, None], (2, 9, 3, 4)),
        lambda a: np.broadcast_to(a[:, None], (2, 9, 3, 4)),
    ),
    "broadcast of a scalar": (
        lambda tl, x: x[0, 0, 0].broadcast_to(3, 2),
        lambda a: np.broadcast_to(a[0, 0, 0], (3, 2)),
    ),
    "one after the other": (
        lambda tl, x: x.permute(2, 0, 1)[1:3].reshape(2, 2, 3)[..., :: -1 * -2].T,
        lambda a: a.transpose(2, 0, 1)[1:3][..., ::2].transpose(0, 2, 1),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_views_are_numpys_views_and_cost_nothing(name: str) -> None:
    look, by_numpy = CASES[name]
    tl, x = fresh()
    before = state(tl)
    got = look(tl, x)
    assert state(tl) == before
    is_view(got, x, by_numpy(X))
    is_view(look(tl, x), x, by_numpy(X))  # the second time, out of the cache


def test_a_view_reads_what_is_written_through_its_base_and_back() -> None:
    tl, x = fresh()
    column = x.T[1, 2]
    tl.full(x.shape, 7.0, "f32", out=x)
    assert column.numpy().tolist() == [7, 7, 7]
    tl.copy_to(x[0, :, 0], put(tl, np.array([1, 2, 3], np.float32)))
    assert x.numpy()[0, :, 0].tolist() == [1, 2, 3]
    assert x.numpy()[0, :, 1].tolist() == [7, 7, 7]


def test_broadcast_of_a_head_over_its_group_reads_the_same_few_bytes() -> None:
    tl = context()
    k = put(tl, np.arange(128, dtype=np.float16).reshape(2, 8, 8))
    group = tl.broadcast(k[:, None], (2, 4, 8, 8))
    assert (group.addr, group.numel, group.ty.extent) == (k.addr, 512, k.ty.extent)
    assert tl.sum(group).item() == 4 * tl.sum(k.to("f32")).item()


def test_tritons_broadcast_gives_a_pair() -> None:
    tl, x = fresh()
    y = put(tl, np.array([[10.0], [20.0], [30.0]], np.float32))
    a, b = tl.broadcast(x, y)
    assert a.shape == b.shape == (2, 3, 4)
    is_view(a, x, X)
    is_view(b, y, np.broadcast_to(np.array([[10.0], [20.0], [30.0]], np.float32), (2, 3, 4)))
    with pytest.raises(ShapeError, match=r"broadcast: operands of shapes \(2, 3, 4\).*\(2, 3\)"):
        tl.broadcast(x, x[:, :, 0])


def test_an_index_may_be_computed_in_data_mode() -> None:
    tl, x = fresh()
    i = put(tl, np.array(1, np.int32))
    assert x[:, i:].shape == (2, 2, 4)
    tl.full((), 2, "i32", out=i)
    assert x[:, i:].shape == (2, 1, 4)  # asked again, not remembered
    assert x.reshape(i, 12).shape == (2, 12)
    tl.full((), 3, "i32", out=i)
    assert x.reshape(i, 8).shape == (3, 8)
    with pytest.raises(
        ShapeError, match=r"indexed by slices, None and integers, got Handle; a gather is a load"
    ):
        x[i]


# -- properties --------------------------------------------------------------------------------------------

extents = st.lists(st.integers(0, 4), max_size=4).map(tuple)


@st.composite
def numpy_views(draw: st.DrawFn) -> tuple[Array, list[Any]]:
    """A chain of views of a contiguous array, as (function of handle and array) pairs, applied to both."""
    steps: list[Any] = []
    shape = draw(extents)
    a = np.arange(int(np.prod(shape)), dtype=np.int32).reshape(shape)
    base = a
    for _ in range(draw(st.integers(0, 3))):
        kind = draw(st.sampled_from(["permute", "slice", "broadcast", "none"]))
        if kind == "permute":
            order = draw(st.permutations(range(a.ndim)))
            steps.append(("permute", tuple(order)))
            a = a.transpose(order)
        elif kind == "slice" and a.ndim:
            index = tuple(
                slice(draw(st.integers(0, 2)), draw(st.integers(0, 5)), draw(st.integers(1, 2)))
                for _ in range(a.ndim)
            )
            steps.append(("index", index))
            a = a[index]
        elif kind == "broadcast" and a.ndim < 5:
            n = draw(st.integers(1, 3))
            steps.append(("broadcast", (n, *a.shape)))
            a = np.broadcast_to(a[None], (n, *a.shape))
        elif a.ndim < 5:
            steps.append(("index", (None,)))
            a = a[None]
    return base, steps


def follow(tl: TLContext, x: Handle, a: Array, steps: list[Any]) -> tuple[Handle, Array]:
    for kind, what in steps:
        if kind == "permute":
            x, a = tl.permute(x, *what), a.transpose(what)
        elif kind == "index":
            x, a = x[what], a[what]
        else:
            x, a = tl.broadcast_to(x[None], what), np.broadcast_to(a[None], what)
    return x, a


def reshaped_without_a_copy(a: Array, shape: tuple[int, ...]) -> Array | None:
    """numpy's reshape, if it is a view of the same bytes."""
    try:
        return np.reshape(a, shape, copy=False)
    except ValueError:
        return None


@settings(max_examples=150)
@given(numpy_views())
def test_chains_of_views_are_numpys(chain: tuple[Array, list[Any]]) -> None:
    base, steps = chain
    tl, x = fresh(base)
    got, want = follow(tl, x, base, steps)
    is_view(got, x, want)


@settings(max_examples=300)
@given(numpy_views(), st.data())
def test_reshape_is_a_view_exactly_where_numpy_has_one(
    chain: tuple[Array, list[Any]], data: st.DataObject
) -> None:
    base, steps = chain
    tl, x = fresh(base)
    tile, array = follow(tl, x, base, steps)
    n = array.size
    assume(n > 0)
    divisors = [d for d in range(1, n + 1) if n % d == 0]
    shape: list[int] = []
    left = n
    while left > 1 or (len(shape) < 4 and data.draw(st.booleans())):
        d = data.draw(st.sampled_from([d for d in divisors if left % d == 0]))
        shape.append(d)
        left //= d
        assume(len(shape) < 6)
    want = reshaped_without_a_copy(array, tuple(shape))
    if want is None:
        with pytest.raises(ShapeError, match=r"cannot be expressed by strides.*\.copy\(\)"):
            tile.reshape(*shape)
        assert tile.copy().reshape(*shape).numpy().tolist() == array.reshape(shape).tolist()
    else:
        is_view(tile.reshape(*shape), x, want)


@given(numpy_views())
def test_a_copy_is_contiguous_and_elsewhere(chain: tuple[Array, list[Any]]) -> None:
    base, steps = chain
    tl, x = fresh(base)
    tile, array = follow(tl, x, base, steps)
    twin = tile.copy()
    assert twin.ty.contiguous
    assert twin.addr >= x.addr + x.ty.size
    np.testing.assert_array_equal(twin.numpy(), array)


# -- errors ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("look", "text"),
    [
        (lambda tl, x: x.reshape(5, 5), r"reshape of \(2, 3, 4\) \(24 elements\) to \(5, 5\) \(25 elements\)"),
        (lambda tl, x: x.reshape(-1, 7), r"reshape of \(2, 3, 4\) \(24 elements\) to \(-1, 7\) \(21 elements\)"),
        (lambda tl, x: x.reshape(-1, -1), "negative extent"),
        (lambda tl, x: x.reshape(2.5, 12), r"reshape: expected integers, got \(2\.5, 12\)"),
        (lambda tl, x: x.T.reshape(24), r"strides \(12, 1, 4\) to \(24,\) cannot be expressed .*\.copy\(\)"),
        (lambda tl, x: x.permute(0, 1), r"permute: \(0, 1\) is no order of the dimensions of \(2, 3, 4\)"),
        (lambda tl, x: x.permute(0, 1, 1), r"permute: \(0, 1, 1\) is no order"),
        (lambda tl, x: x.permute(0, 1, 3), "permute: axis 3 does not exist"),
        (lambda tl, x: x[0, 0].T, r"trans: a tile of shape \(4,\) has no two dimensions"),
        (lambda tl, x: x.expand_dims(4), "expand_dims: axis 4 does not exist"),
        (lambda tl, x: x[0, 0, 0, 0], r"4 indices for a tile of shape \(2, 3, 4\)"),
        (lambda tl, x: x[..., ...], r"indices for a tile of shape \(2, 3, 4\)"),
        (lambda tl, x: x[2], r"index 2 is out of range for extent 2 of shape \(2, 3, 4\)"),
        (lambda tl, x: x[0, -4], "index -4 is out of range for extent 3"),
        (lambda tl, x: x[::-1], "steps must be positive, got -1"),
        (lambda tl, x: x[::0], "step"),
        (lambda tl, x: x[x], "indexed by slices, None and integers, got Handle"),
        (lambda tl, x: x[True], "got bool"),
        (lambda tl, x: x[1.0], "got float"),
        (lambda tl, x: x[[0, 1]], "got list"),
        (lambda tl, x: x[0:1.5], "cannot be interpreted as an integer"),
        (lambda tl, x: tl.broadcast_to(x, 2, 3, 5), r"does not broadcast to \(2, 3, 5\): ranks must be equal"),
        (lambda tl, x: tl.broadcast_to(x, 5, 2, 3, 4), r"index it with None to add a dimension"),
        (lambda tl, x: tl.broadcast(x, (3, 4)), r"\(2, 3, 4\) does not broadcast to \(3, 4\)"),
    ],
)  # fmt: skip
def test_views_that_there_are_not(look: Callable[[TLContext, Handle], Any], text: str) -> None:
    tl, x = fresh()
    x[0], x[1]  # so that the caches know what compares equal to True and 1.0
    before = state(tl)
    with pytest.raises((ShapeError, TypeError, ValueError), match=text):
        look(tl, x)
    assert state(tl) == before


def test_tiles_are_not_assigned_to_by_index_nor_iterated() -> None:
    _, x = fresh()
    with pytest.raises(
        TypeError, match=r"write into a part of one with tl\.copy_to\(tile\[\.\.\.\], value\)"
    ):
        x[0] = x[1]
    with pytest.raises(TypeError, match="cannot be iterated"):
        list(x)
    with pytest.raises(TypeError, match="iterable"):
        1.0 in x  # noqa: B015
    assert len(x) == 2
    with pytest.raises(TypeError, match="no length"):
        len(x[0, 0, 0])
