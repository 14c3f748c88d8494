"""Whatever is refused is refused before anything happens: cursor, log, clock and bytes stay as they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kernbench_nb.errors import DTypeError, ScopeOrderError, ScratchOverflowError, ShapeError
from kernbench_nb.triton_emu import TLContext
from tests.triton_emu.tools import state

REFUSALS: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "shapes": (lambda t: t.f + t.wide, ShapeError, r"add: operands of shapes \(2, 3\) \(f32\) and \(4, 3\) \(f32\)"),
    "shapes of a comparison": (lambda t: t.f < t.wide, ShapeError, r"lt: operands"),
    "shapes of where": (lambda t: t.tl.where(t.m, t.f, t.wide), ShapeError, r"where: operands"),
    "shape of a condition": (lambda t: t.tl.where(t.wide, t.f, t.f), ShapeError, r"where: op"),
    "shapes of fma": (lambda t: t.tl.fma(t.f, t.f, t.wide), ShapeError, r"fma: operands"),
    "shapes of clamp": (lambda t: t.tl.clamp(t.f, t.wide, 1.0), ShapeError, r"clamp: operands"),
    "no dtype in common": (lambda t: t.f8 + t.i, DTypeError, r"add: f8e4m3 and i32 have no dtype in common"),
    "signedness": (lambda t: t.i // t.u, DTypeError, r"floordiv: i32 and u32 differ in signedness"),
    "floor division of floats": (lambda t: t.f // t.f, DTypeError, r"// needs integers, as in Triton"),
    "bits of floats": (lambda t: t.f & t.i, DTypeError, r"and_ needs integers or bool, got f32 and i32"),
    "not of floats": (lambda t: t.tl.invert(t.f), DTypeError, r"~ needs integers or bool, got f32"),
    "difference of bools": (lambda t: t.m - t.m, DTypeError, r"sub of bool tiles has no meaning"),
    "exp of integers": (lambda t: t.i.exp(), DTypeError, r"exp needs a float tile, got i32"),
    "softmax of integers": (lambda t: t.i.softmax(), DTypeError, r"softmax needs a float tile"),
    "a number out of range": (lambda t: t.u + -1, ValueError, r"-1 beside a tile of u32, which cannot hold it"),
    "no number": (lambda t: t.f * "2", TypeError, r"expected a tile or a number beside a tile of f32, got str"),
    "an unknown dtype": (lambda t: t.f.to("f33"), DTypeError, r"unknown dtype 'f33'"),
    "an axis": (lambda t: t.f.sum(2), ShapeError, r"sum: axis 2 does not exist in shape \(2, 3\)"),
    "an axis that is none": (lambda t: t.f.sum([0]), TypeError, r"sum: axis must be an integer, got \[0\]"),
    "two axes": (lambda t: t.tl.softmax(t.f, (0, 1)), TypeError, r"softmax: axis must be an integer, got \(0, 1\)"),
    "an empty maximum": (lambda t: t.none.max(0), ShapeError, r"max over an empty axis of shape \(0, 3\)"),
    "inner dimensions": (lambda t: t.tl.dot(t.f, t.f), ShapeError, r"the last dimension of input is 3"),
    "rank": (lambda t: t.tl.dot(t.f, t.f[0]), ShapeError, r"input \(2, 3\) \(f32\) and other \(3,\) \(f32\) must have"),
    "batch": (lambda t: t.tl.dot(t.f[None], t.f.T), ShapeError, r"different batch dimensions \(1,\) and \(\)"),
    "float with integer": (lambda t: t.tl.dot(t.f, t.i.T), DTypeError, r"dot: input is f32, other is i32"),
    "acc": (lambda t: t.tl.dot(t.f, t.f.T, acc=t.f), ShapeError, r"dot: acc has shape \(2, 3\)"),
    "shape of out": (lambda t: t.tl.exp(t.f, out=t.wide), ShapeError, r"exp: out= has shape \(4, 3\) \(f32\)"),
    "out is no tile": (lambda t: t.tl.exp(t.f, out=1), TypeError, r"out=: expected a tile, got int"),
    "overlap": (lambda t: t.tl.exp(t.wide[1:], out=t.wide[:3]), ValueError, r"shares bytes with the operand"),
    "copy_to of another shape": (lambda t: t.tl.copy_to(t.f, t.wide), ShapeError, r"have different shapes"),
    "negative extent": (lambda t: t.tl.zeros((2, -1)), ShapeError, r"full: a shape cannot have a negative extent"),
    "no shape": (lambda t: t.tl.empty("2x3"), ShapeError, r"empty: a shape holds integers, got '2x3'"),
    "full of nothing": (lambda t: t.tl.full((2,), None, "f32"), TypeError, r"value must be a number, got NoneType"),
    "full of a tile": (lambda t: t.tl.full((2,), t.f, "f32"), TypeError, r"got Handle; .* tl\.broadcast_to"),
    "full of another shape": (lambda t: t.tl.full((2,), 1, "f32", out=t.f), ShapeError, r"full: out= has shape"),
    "arange backwards": (lambda t: t.tl.arange(3, 1), ValueError, r"arange: end 1 is below start 3"),
    "too large": (lambda t: t.tl.zeros((1 << 20,), "f32"), ScratchOverflowError, r"TLContext scratch overflow"),
    "wait for nothing": (lambda t: t.tl.wait(t.f), TypeError, r"wait: expected futures"),
    "assert": (lambda t: t.tl.static_assert(False, "no"), AssertionError, r"static_assert failed at .*: no"),
    "scope twice": (lambda t: t.scope.__enter__(), ScopeOrderError, r"entered twice"),
    "scope left twice": (lambda t: t.scope.__exit__(None, None, None), ScopeOrderError, r"left twice"),
}  # fmt: skip


class Tiles:
    """A context with one tile of each sort."""

    def __init__(self, data: bool) -> None:
        self.tl = tl = TLContext(data=data, dispatch_cycles=4, scratch_size=4096)
        for name, shape, dtype in [
            ("f", (2, 3), "f32"), ("wide", (4, 3), "f32"), ("i", (2, 3), "i32"), ("u", (2, 3), "u32"),
            ("f8", (2, 3), "f8e4m3"), ("m", (2, 3), "bool"), ("none", (0, 3), "f32"),
        ]:  # fmt: skip
            setattr(self, name, tl.full(shape, 1, dtype, name=name))
        with tl.scratch_scope("done") as self.scope:
            pass


@pytest.mark.parametrize("name", REFUSALS)
@pytest.mark.parametrize("data", [True, False], ids=["data", "timing"])
def test_a_refusal_changes_nothing(name: str, data: bool) -> None:
    use, error, text = REFUSALS[name]
    tiles = Tiles(data)
    for _ in range(2):  # a second time, when the types were met before
        before = state(tiles.tl)
        with pytest.raises(error, match=text) as caught:
            use(tiles)
        after = state(tiles.tl)
        if error is ScratchOverflowError:  # the refusal itself is on record
            assert len(after[5]) == len(before[5]) + 8
            after, before = after[:5] + after[6:], before[:5] + before[6:]
        assert after == before
        assert caught.value.__suppress_context__ or caught.value.__context__ is None
    assert (tiles.f + tiles.f).shape == (2, 3)  # type: ignore[attr-defined]


def test_an_overflow_is_a_row_with_what_was_wanted_and_the_line() -> None:
    tl = TLContext(scratch_size=1024)

    def kernel() -> None:
        x = tl.zeros((128,), name="x")
        with tl.scratch_scope("tile 4", kind="tile"):
            y = tl.exp(x)
            z = tl.dot(y.reshape(8, 16), x.reshape(16, 8), name="scores")
            w = tl.exp(y)
            del z, w

    with pytest.raises(ScratchOverflowError) as caught:
        kernel()
    line = kernel.__code__.co_firstlineno
    assert (caught.value.required, caught.value.limit, caught.value.wanted, caught.value.free) == (
        1280,
        1024,
        256,
        0,
    )
    lines = str(caught.value).splitlines()
    assert lines[0] == "TLContext scratch overflow: scores f32[8x8] wants 256 B, 0 B free of 1 024 B."
    assert lines[1] == "Live now, largest first (2 in all, 1 024 B in use):"
    assert f"512 B  x  f32[128]  persistent arena  kernel:{line + 1}  x = tl.zeros((128,), name=" in lines[2]
    assert f"512 B  y  f32[128]  scoped arena 'tile 4'  kernel:{line + 3}  y = tl.exp(x)" in lines[3]
    assert "at most" not in str(caught.value)  # nothing is free
    assert tl.scratch.cursor == 512  # the scope has ended; x is persistent
