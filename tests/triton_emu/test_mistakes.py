"""What newcomers from numpy and Triton write, and the text that says what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kernbench_nb as kb

SIZES = (
    r"tensor arguments are pointers into HBM, .* pass sizes to the kernel as numbers, .* "
    r"tl\.load\(ptr \+ start, shape, strides=\.\.\.\)"
)
NO_TRUTH = (
    r"bool\[8\].* has 8 elements, and a tile has no single truth value .* tl\.where\(.* tl\.max .* "
    r"tl\.device_assert"
)
NOT_YET = r"tl\.wait\(future\) or future\.wait\(\) gives"
NO_ARRAY = r"np\.{} does not take tiles, .*; use tl\.{}\. \(x\.numpy\(\)"


def chained(x: Any, t: Any, tl: Any) -> Any:
    return 0.0 < t < 1.0


def truth(x: Any, t: Any, tl: Any) -> Any:
    return "positive" if t > 0 else "not"


MISTAKES: dict[str, tuple[Callable[[Any, Any, Any], Any], type[Exception], str]] = {
    "if of several": (truth, ValueError, NO_TRUTH),
    "a chain of comparisons": (chained, ValueError, NO_TRUTH),
    "if of none": (lambda x, t, tl: bool(tl.zeros((0,))), ValueError, r"f32\[0\].* has 0 elements, and"),
    "shape of a pointer": (
        lambda x, t, tl: x.shape,
        AttributeError,
        r"pointer to x\[0\], f32> has no \.shape\. .*" + SIZES,
    ),
    "item of a pointer": (
        lambda x, t, tl: x[3],
        TypeError,
        r"pointer to x\[0\], f32> cannot be indexed\. .*" + SIZES,
    ),
    "slice of a pointer": (lambda x, t, tl: x[0:4], TypeError, r"cannot be indexed\. .*" + SIZES),
    "length of a pointer": (lambda x, t, tl: len(x), TypeError, r"has no length\. .*" + SIZES),
    "half an element": (
        lambda x, t, tl: x + 1.5,
        TypeError,
        r"\+ 1\.5: pointers move by whole elements, got float\. .*" + SIZES,
    ),
    "loop over a pointer": (lambda x, t, tl: list(x), TypeError, r"cannot be indexed\. .*" + SIZES),
    "sum with a pointer": (
        lambda x, t, tl: t + x,
        TypeError,
        r"got Pointer; it points into HBM: .* tl\.load\(",
    ),
    "exp of a pointer": (
        lambda x, t, tl: tl.exp(x),
        TypeError,
        r"exp: expected a tile, got Pointer; it points into HBM",
    ),
    "sum with an array": (
        lambda x, t, tl: np.ones(8) + t,
        TypeError,
        r"got ndarray; load or create it as a tile first",
    ),
    "load of a list": (
        lambda x, t, tl: tl.load([1.0], (1,)),
        TypeError,
        r"got list\. Only numpy arrays .* np\.asarray",
    ),
    "store to a list": (
        lambda x, t, tl: tl.store([1.0], 1.0),
        TypeError,
        r"got list\. Only numpy arrays .* np\.asarray",
    ),
    "np.exp": (lambda x, t, tl: np.exp(t), TypeError, NO_ARRAY.format("exp", "exp")),
    "np.absolute": (lambda x, t, tl: np.abs(t), TypeError, NO_ARRAY.format("absolute", "abs")),
    "np.maximum": (lambda x, t, tl: np.maximum(0.0, t), TypeError, NO_ARRAY.format("maximum", "maximum")),
    "np.add": (lambda x, t, tl: np.add(t, 1.0), TypeError, NO_ARRAY.format("add", "add")),
    "np.matmul": (
        lambda x, t, tl: np.matmul(t[None], t[:, None]),
        TypeError,
        NO_ARRAY.format("matmul", "dot"),
    ),
    "np.tanh": (
        lambda x, t, tl: np.tanh(t),
        TypeError,
        r"np\.tanh does not take tiles, .* are those of tl\.",
    ),
    "into an array": (
        lambda x, t, tl: np.add.at(np.zeros(8), [0], t),
        TypeError,
        r"np\.add does not take tiles",
    ),
    "future + 1": (
        lambda x, t, tl: tl.load_async(x) + 1,
        TypeError,
        r"<load of .* f32\[scalar\], in flight> is no tile yet: " + NOT_YET,
    ),
    "1 / future": (lambda x, t, tl: 1 / tl.load_async(x), TypeError, NOT_YET),
    "future[0]": (lambda x, t, tl: tl.load_async(x)[0], TypeError, NOT_YET),
    "future.shape": (
        lambda x, t, tl: tl.load_async(x).shape,
        AttributeError,
        r"a LoadFuture has no \.shape: " + NOT_YET,
    ),
    "a tile and a future": (lambda x, t, tl: t * tl.load_async(x), TypeError, r"got LoadFuture; " + NOT_YET),
    "exp of a future": (lambda x, t, tl: tl.exp(tl.load_async(x)), TypeError, r"got LoadFuture; " + NOT_YET),
    "a receive": (
        lambda x, t, tl: tl.recv_async(1 - tl.program_id(0), (8,), "f32").exp(),
        AttributeError,
        r"a RecvFuture has no \.exp: " + NOT_YET,
    ),
    "float of several": (
        lambda x, t, tl: float(t),
        ValueError,
        r"float\(\) of .*: a tile of 8 elements is no single number; reduce it first \(tl\.max",
    ),
    "item of several": (lambda x, t, tl: t.item(), ValueError, r"item\(\) of .* take one element by index"),
    "a name that is wrong": (
        lambda x, t, tl: tl.load(x, shap=(8,)),
        TypeError,
        r"^tl\.load\(\) got an unexpected keyword",
    ),
    "another of those": (
        lambda x, t, tl: tl.exp(x, axis=0),
        TypeError,
        r"^tl\.exp\(\) got an unexpected keyword",
    ),
}


@pytest.mark.filterwarnings("ignore::kernbench_nb.errors.UnwaitedLoadWarning")
@pytest.mark.parametrize("name", MISTAKES)
def test_the_text_says_what_to_write(name: str) -> None:
    use, error, text = MISTAKES[name]

    def kernel(x: Any, *, tl: Any) -> None:
        use(x, tl.load(x, (8,)), tl)

    with pytest.raises(error, match=text):
        kb.launch(kernel, np.ones(8, np.float32), pes=2)


def test_a_tile_of_several_has_no_truth_in_timing_mode_either() -> None:
    def kernel(x: Any, *, tl: Any) -> None:
        truth(x, tl.load(x, (8,)), tl)

    with pytest.raises(ValueError, match=NO_TRUTH):
        kb.launch(kernel, np.ones(8, np.float32), data=False)


@pytest.mark.parametrize("number", [np.float64(3), np.float32(3), np.int64(3), np.array(3.0)])
def test_numbers_of_numpy_stand_on_the_left_of_an_operator(number: Any) -> None:
    def kernel(x: Any, out: Any, *, tl: Any) -> None:
        t = tl.load(x, (4,))
        for i, made in enumerate(
            (number + t, number - t, number * t, number / t, number // 1 + t, number**t)
        ):
            tl.store(out + 4 * i, made)
        tl.store(out + 24, tl.where((number > t) & (number >= t) & (number != t), 1.0, 0.0))
        tl.store(out + 28, tl.where((number < t) | (number <= t) | (number == t), 1.0, 0.0))

    x, out = np.array([1, 2, 3, 4], np.float32), np.zeros((8, 4), np.float32)
    kb.launch(kernel, x, out)
    want = [3 + x, 3 - x, 3 * x, 3 / x, 3 + x, 3**x, x < 3, x >= 3]
    np.testing.assert_allclose(out, np.array(want, np.float32), rtol=1e-6)


def test_a_pointer_is_true_and_has_no_private_names() -> None:
    def kernel(x: Any, *, tl: Any) -> None:
        assert x
        assert not hasattr(x, "__array_interface__")
        assert not hasattr(tl.load_async(x, (8,)), "__array__")

    with pytest.warns(kb.errors.UnwaitedLoadWarning):
        kb.launch(kernel, np.ones(8, np.float32))


@pytest.mark.parametrize(("dtype", "poison"), [("float32", None), ("int32", -1), ("uint8", 255)])
def test_what_masked_lanes_hold_without_other(dtype: str, poison: int | None) -> None:
    seen: list[Any] = []

    def kernel(x: Any, *, tl: Any) -> None:
        seen.append(tl.load(x, (4,), mask=tl.arange(0, 4) < 3).numpy())

    run = kb.launch(kernel, np.zeros(3, dtype))
    assert seen[0][:3].tolist() == [0, 0, 0]
    assert np.isnan(seen[0][3]) if poison is None else seen[0][3] == poison
    assert run.hbm_bytes == 4 * np.dtype(dtype).itemsize  # charged as a whole tile
