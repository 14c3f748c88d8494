"""Exercises whose answer is a function or a line: the right ones, and the idea for each way to be wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kernbench_nb as kb
from kernbench_nb.benches import wrong
from kernbench_nb.course import folding, softmax
from kernbench_nb.course.merging import empty_state, tile_states

Capture = pytest.CaptureFixture[str]


def refused(id: str, answer: Any) -> kb.WrongAnswer:
    with pytest.raises(kb.WrongAnswer) as caught:
        kb.check_answer(id, answer)
    return caught.value


def printed(capsys: Capture, id: str, answer: Any) -> str:
    kb.check_answer(id, answer)
    return capsys.readouterr().out


def unfinished(*args: Any, **more: Any) -> Any: ...


def stuck(*args: Any, **more: Any) -> Any:
    raise KeyError("x")


@pytest.mark.parametrize("id", ["02", "04b", "14a", "14b"])
def test_a_function_that_does_nothing_is_not_answered_yet(capsys: Capture, id: str) -> None:
    assert printed(capsys, id, unfinished) == f"exercise {id}: not answered yet\n"


@pytest.mark.parametrize("id", ["02", "04b", "14a", "14b"])
def test_a_function_that_raises_is_told_where(id: str) -> None:
    error = refused(id, stuck)
    assert error.got == "stuck raised KeyError: 'x'"
    assert error.idea == 'That was in its line `raise KeyError("x")`.'


@pytest.mark.parametrize("id", ["02", "04b", "14a", "14b"])
@pytest.mark.parametrize("answer", [3, "merge", {}])
def test_what_is_no_function_is_told_so(id: str, answer: Any) -> None:
    assert refused(id, answer).got == f"{answer!r} is not a function."


@pytest.mark.parametrize("id", ["02", "04b", "14a", "14b"])
def test_a_function_that_takes_something_else_is_told_how_it_is_called(id: str) -> None:
    error = refused(id, lambda: None)
    assert "TypeError" in error.got
    assert error.idea == "See how the exercise says that it is called."


# -- 02 ---------------------------------------------------------------------------------------------------------


def corrected(a: Any, b: Any, *, l: Any = None, O: Any = None) -> Any:
    """A right merge, or one whose l or O is made otherwise: from both sides and their factors."""
    m = np.maximum(a.m, b.m)
    safe = m if m > -np.inf else 0.0
    x, y = np.exp(a.m - safe), np.exp(b.m - safe)
    plain = lambda p, q, x, y: p * x + q * y  # noqa: E731
    return m, (l or plain)(a.l, b.l, x, y), (O or plain)(a.O, b.O, x, y)


def by_position(a: Any, b: Any) -> Any:
    """Tuples only, Python floats inside: also right."""
    (m_a, l_a, O_a), (m_b, l_b, O_b) = a, b
    m = max(float(m_a), float(m_b))
    if m == float("-inf"):
        return a
    x, y = np.exp(m_a - m), np.exp(m_b - m)
    return [m, l_a * x + l_b * y, list(O_a * x + O_b * y)]


@pytest.mark.parametrize("merge", [corrected, by_position])
def test_02_right(capsys: Capture, merge: Callable[..., Any]) -> None:
    assert printed(capsys, "02", merge) == (
        "exercise 02: right. m is the maximum of both, and each side is multiplied by exp(its own m - that).\n"
    )


def uncorrected(p: Any, q: Any, x: Any, y: Any) -> Any:
    return p + q


def one_side(p: Any, q: Any, x: Any, y: Any) -> Any:
    return p * x + q


def unguarded(a: Any, b: Any) -> Any:
    m = np.maximum(a.m, b.m)
    return m, a.l * np.exp(a.m - m) + b.l * np.exp(b.m - m), a.O * np.exp(a.m - m) + b.O * np.exp(b.m - m)


def averaged(a: Any, b: Any) -> Any:
    return corrected(a, b)[0], (a.l + b.l) / 2, (a.O + b.O) / 2


def halved(p: Any, q: Any, x: Any, y: Any) -> Any:
    return (p * x + q * y) / 2


def in_place(a: Any, b: Any) -> Any:
    m, l, O = corrected(a, b)
    a.O[:] = O
    return m, l, a.O


def only_real(a: Any, b: Any) -> Any:
    return corrected(a, b) if a.l > 0 and b.l > 0 else empty_state(len(a.O))


def tired(calls: list[int]) -> Callable[..., Any]:
    """Right for the first dozen of merges, and wrong from then on."""

    def merge(a: Any, b: Any) -> Any:
        calls.append(1)
        return corrected(a, b, O=uncorrected) if len(calls) > 12 else corrected(a, b)

    return merge


CORRECTION = "The side with the larger maximum needs no correction, the other does; which is it?"
SUMS = "These are sums over different keys: add them, and divide O by l at the very end."
MAXIMUM = "m is the maximum of two sets: how do you get it from the maxima of both?"
GUARD = "What is the state of a PE with no keys? -inf minus -inf is nan, so guard m = -inf."


@pytest.mark.parametrize(
    ("merge", "idea"),
    [
        (lambda a, b: corrected(a, b, l=uncorrected, O=uncorrected), CORRECTION),
        (lambda a, b: corrected(a, b, l=one_side, O=one_side), CORRECTION),
        (averaged, SUMS),
        (lambda a, b: corrected(a, b, l=halved, O=halved), SUMS),
        (lambda a, b: (a.m + b.m, a.l + b.l, a.O + b.O), MAXIMUM),
        (lambda a, b: ((a.m + b.m) / 2, *corrected(a, b)[1:]), MAXIMUM),
        (lambda a, b: (max(a.m, b.m) - 1, *corrected(a, b)[1:]), MAXIMUM),
        (unguarded, GUARD),
        (only_real, GUARD),
        (
            lambda a, b: corrected(a, b, l=uncorrected),
            "l and O are relative to the same m: repair them alike.",
        ),
        (lambda a, b: corrected(a, b, O=one_side), "l and O are relative to the same m: repair them alike."),
        (
            lambda a, b: (*corrected(a, b)[:2], corrected(a, b)[2] / corrected(a, b)[1]),
            "Divide once, at the end: until then O and l grow side by side.",
        ),
        (in_place, "Make new arrays: b.O * x, and not b.O *= x."),
        (
            tired([]),
            "A merged state is a state like any other: merge it again as you merged the first.",
        ),
        (lambda a, b: 3.0, "Give back a tuple (m, l, O), with O as long as that of a and b."),
        (
            lambda a, b: (*corrected(a, b)[:2], 1.0),
            "Give back a tuple (m, l, O), with O as long as that of a and b.",
        ),
    ],
)
def test_02_wrong(merge: Callable[..., Any], idea: str) -> None:
    assert refused("02", merge).idea == idea


def test_02_is_tried_on_the_text() -> None:
    q, k, v = kb.sample_attention()
    states = tile_states()
    run = kb.decode(q[-1:], k, v, pes=1, tile=16)
    assert len(states) == len(run.tiles) == 20
    m = max(state.m for state in states)
    l = sum(state.l * np.exp(state.m - m) for state in states)
    O = sum(state.O * np.exp(state.m - m) for state in states)
    np.testing.assert_allclose(O / l, run.output[0, 3], atol=2e-3)


# -- 04b --------------------------------------------------------------------------------------------------------


def lean(tl: Any, m: Any, l: Any, O: Any, q: Any, k: Any, v: Any, scale: float) -> None:
    s = tl.dot(q, k)
    tl.mul(s, scale, out=s)
    m_new = tl.maximum(m, tl.max(s, -1, True))
    tl.sub(s, m_new, out=s)
    tl.exp(s, out=s)
    c = tl.exp(tl.sub(m, m_new))
    l_new = tl.add(tl.mul(l, c), tl.sum(s, -1, True))
    O_new = tl.mul(O, c)
    tl.add(O_new, tl.dot(tl.cast(s, q.dtype), v), out=O_new)
    tl.copy_to(m, m_new)
    tl.copy_to(l, l_new)
    tl.copy_to(O, O_new)


def not_the_sum(tl: Any, m: Any, l: Any, O: Any, q: Any, k: Any, v: Any, scale: float) -> None:
    s = tl.dot(q, k)
    tl.mul(s, scale, out=s)
    m_new = tl.maximum(m, tl.max(s, -1, True))
    tl.sub(s, m_new, out=s)
    tl.exp(s, out=s)
    c = tl.exp(tl.sub(m, m_new))
    l_new = tl.add(tl.mul(l, c), tl.sum(s, -1, True))
    O_new = tl.add(tl.mul(O, c), tl.dot(tl.cast(s, q.dtype), v))
    tl.copy_to(m, m_new)
    tl.copy_to(l, l_new)
    tl.copy_to(O, O_new)


def too_early(tl: Any, m: Any, l: Any, O: Any, q: Any, k: Any, v: Any, scale: float) -> None:
    """m is overwritten before the correction is made of it."""
    s = tl.dot(q, k)
    tl.mul(s, scale, out=s)
    tl.maximum(m, tl.max(s, -1, True), out=m)
    tl.sub(s, m, out=s)
    tl.exp(s, out=s)
    tl.add(l, tl.sum(s, -1, True), out=l)
    tl.add(O, tl.dot(tl.cast(s, q.dtype), v), out=O)


def nudged(tl: Any, m: Any, l: Any, O: Any, q: Any, k: Any, v: Any, scale: float) -> None:
    lean(tl, m, l, O, q, k, v, scale)
    tl.mul(O, 1.000001, out=O)


def renamed(tl: Any, m: Any, l: Any, O: Any, q: Any, k: Any, v: Any, scale: float) -> None:
    """l gets new blocks, which die with the tile; the old one is never written."""
    s = tl.dot(q, k)
    tl.mul(s, scale, out=s)
    m_new = tl.maximum(m, tl.max(s, -1, True))
    tl.sub(s, m_new, out=s)
    tl.exp(s, out=s)
    c = tl.exp(tl.sub(m, m_new))
    l *= c
    l += tl.sum(s, -1, True)
    O_new = tl.mul(O, c)
    tl.add(O_new, tl.dot(tl.cast(s, q.dtype), v), out=O_new)
    tl.copy_to(m, m_new)
    tl.copy_to(O, O_new)


def kept_in_place(tl: Any, m: Any, l: Any, O: Any, q: Any, k: Any, v: Any, scale: float) -> None:
    """l and O are written by ``out=``; they need no copy."""
    s = tl.dot(q, k)
    tl.mul(s, scale, out=s)
    m_new = tl.maximum(m, tl.max(s, -1, True))
    tl.sub(s, m_new, out=s)
    tl.exp(s, out=s)
    c = tl.exp(tl.sub(m, m_new))
    tl.add(tl.mul(l, c, out=l), tl.sum(s, -1, True), out=l)
    tl.add(tl.mul(O, c, out=O), tl.dot(tl.cast(s, q.dtype), v), out=O)
    tl.copy_to(m, m_new)


LOST = (
    "Is every block read for the last time before something is written over it, and are m, l and O kept? "
    "`l *= c` makes a new block; only tl.copy_to and out= write the old one."
)


def test_04b_right(capsys: Capture) -> None:
    assert printed(capsys, "04b", lean) == (
        "exercise 04b: right. The same bits, and a tile of 16 takes 21 648 B instead of 25 680 B.\n"
    )


def test_04b_takes_a_state_written_in_place(capsys: Capture) -> None:
    assert printed(capsys, "04b", kept_in_place).startswith("exercise 04b: right. The same bits, ")


@pytest.mark.parametrize(
    ("fold", "got", "idea"),
    [
        (
            folding.plain_fold,
            "111 keys need 114 048 B, and 100 000 B are there.",
            "Which blocks of the scores' shape may be written over the one before, by out=?",
        ),
        (
            not_the_sum,
            "111 keys need 102 048 B, and 100 000 B are there.",
            "One block of O's shape can go too: which sum may take its operand's place?",
        ),
        (
            too_early,
            "another answer than the plain fold's.",
            LOST,
        ),
        (
            renamed,
            "another answer than the plain fold's.",
            LOST,
        ),
        (
            nudged,
            "the answer is right to rounding only.",
            "Keep the plain operations; only say where they write.",
        ),
    ],
)
def test_04b_wrong(fold: Callable[..., Any], got: str, idea: str) -> None:
    error = refused("04b", fold)
    assert (error.got, error.idea) == (got, idea)
    assert error.run.peak_scratch


def test_04b_asks_for_the_largest_tile_in_place() -> None:
    assert folding.TILE == 111
    for tile in (16, 111, 112):
        assert folding.sweep(lean, tile).peak_scratch == folding.lean_peak(tile)
    assert folding.lean_peak(111) <= folding.BUDGET < folding.lean_peak(112)


def test_04b_sweeps_as_decode_does() -> None:
    q, k, v = kb.sample_attention()
    run = folding.sweep(folding.plain_fold, 16)
    assert run.peak_scratch == kb.decode(q[-1:], k, v, pes=1, tile=16).peak_scratch
    np.testing.assert_allclose(run.output, kb.decode(q[-1:], k, v, pes=1).output[0], atol=2e-3)


# -- 12 ---------------------------------------------------------------------------------------------------------

LINES = wrong.mystery_lines()


@pytest.mark.parametrize(
    "line",
    [
        LINES["read"],
        str(LINES["read"]),
        f"line {LINES['read']}",
        f" Line {LINES['read']} ",
        "moved = tl.sub(heads[i],  heads[i - 1])",
        "heads[i - 1]",
        f"{LINES['read']}                 moved = tl.sub(heads[i], heads[i - 1])",
    ],
)
def test_12_right(capsys: Capture, line: Any) -> None:
    assert printed(capsys, "12", line) == (
        "exercise 12: right. The handle outlived its scope. Fold it before the scope ends, or copy_to a persistent "
        "handle.\n"
    )


@pytest.mark.parametrize(
    ("line", "idea"),
    [
        (LINES["append"], "Storing a handle is legal; reading it is not."),
        ("heads.append(K[:8])", "Storing a handle is legal; reading it is not."),
        (LINES["scope"], "That is where it died; where is it read?"),
        (LINES["copy_to"], "That one writes into a living handle."),
        (
            LINES["append"] - 1,
            "That line reads nothing that is gone: what is kept across tiles, and where is it used?",
        ),
        (1, "That line reads nothing that is gone: what is kept across tiles, and where is it used?"),
        (f"line {LINES['append']}", "Storing a handle is legal; reading it is not."),
        ("tl", "Give the number that stands before the line."),
        ("no such text", "Give the number that stands before the line."),
        ([3], "Give the number that stands before the line."),
    ],
)
def test_12_wrong(line: Any, idea: str) -> None:
    assert refused("12", line).idea == idea


def test_12_asks_for_the_line_that_the_machine_names() -> None:
    _, k, _ = kb.sample_attention()
    flat = k.reshape(len(k), -1)
    with pytest.raises(kb.UseAfterScopeError, match=f"used at mystery_kernel, line {LINES['read']}:"):
        kb.launch(wrong.mystery_kernel, flat, np.zeros((8, flat.shape[1]), np.float32), *flat.shape)


# -- 14 ---------------------------------------------------------------------------------------------------------


def rows_of(body: Callable[..., Any], scoped: bool = True) -> Callable[..., Any]:
    """A kernel that does the same to each row: ``body(tl, load, scale)`` gives what is stored."""

    def kernel(x: Any, y: Any, rows: int, n: int, scale: float, *, tl: Any) -> None:
        for r in range(rows):
            with tl.scratch_scope(f"row {r}", kind="tile", rewind=scoped):
                tl.store(y + r * n, body(tl, lambda r=r: tl.load(x + r * n, (n,)), scale))

    return kernel


def fused(tl: Any, load: Any, scale: float) -> Any:
    s = load() * scale
    e = tl.exp(s - tl.max(s, 0))
    return e / tl.sum(e, 0)


def fused_in_place(tl: Any, load: Any, scale: float) -> Any:
    s = load()
    tl.mul(s, scale, out=s)
    tl.sub(s, tl.max(s, 0), out=s)
    tl.exp(s, out=s)
    return tl.div(s, tl.sum(s, 0), out=s)


def scaled_after(tl: Any, load: Any, scale: float) -> Any:
    s = load()
    e = tl.exp(s - tl.max(s, 0)) * scale
    return e / tl.sum(e, 0)


def scaled_at_the_end(tl: Any, load: Any, scale: float) -> Any:
    return fused(tl, load, 1.0) * scale


def loaded_twice(tl: Any, load: Any, scale: float) -> Any:
    top = tl.max(load(), 0) * scale
    e = tl.exp(load() * scale - top)
    return e / tl.sum(e, 0)


def loaded_often(tl: Any, load: Any, scale: float) -> Any:
    load()
    return loaded_twice(tl, load, scale)


def not_divided(tl: Any, load: Any, scale: float) -> Any:
    s = load() * scale
    return tl.exp(s - tl.max(s, 0))


def too_warm(tl: Any, load: Any, scale: float) -> Any:
    return fused(tl, load, scale / 2)


def never_stored(x: Any, y: Any, rows: int, n: int, scale: float, *, tl: Any) -> None:
    tl.load(x, (n,))


def overflowing(tl: Any, load: Any, scale: float) -> Any:
    e = tl.exp(load() * (scale * 100))
    return e / tl.sum(e, 0)


def no_maximum(tl: Any, load: Any, scale: float) -> Any:
    s = load()
    tl.mul(s, scale, out=s)
    tl.exp(s, out=s)
    return tl.div(s, tl.sum(s, 0), out=s)


def maximum_before_scale(tl: Any, load: Any, scale: float) -> Any:
    s = load()
    top = tl.max(s, 0)
    tl.mul(s, scale, out=s)
    tl.sub(s, top, out=s)
    tl.exp(s, out=s)
    return tl.div(s, tl.sum(s, 0), out=s)


@pytest.mark.parametrize(
    ("id", "body", "scratch"),
    [("14a", fused, "6 432"), ("14a", fused_in_place, "1 312"), ("14b", fused_in_place, "1 312")],
)
def test_14_right(capsys: Capture, id: str, body: Callable[..., Any], scratch: str) -> None:
    assert printed(capsys, id, rows_of(body)) == (
        f"exercise {id}: right. 22 968 B of traffic, half of what two kernels move; {scratch} B of scratch.\n"
    )


LARGE = "right here, but scores 100 times as large give nan."
TWICE = "traffic 34 452 B, and 22 968 B are allowed: you loaded the row twice."


@pytest.mark.parametrize("id", ["14a", "14b"])
@pytest.mark.parametrize(
    ("kernel", "got", "idea"),
    [
        (rows_of(scaled_after), "the scale came after exp, or not at all.", "exp(a*s) is not a*exp(s)."),
        (rows_of(scaled_at_the_end), "the scale came after exp, or not at all.", "exp(a*s) is not a*exp(s)."),
        (rows_of(loaded_twice), TWICE, "Load it once, and keep it until it is written."),
        (rows_of(loaded_often), "traffic 45 936 B, and 22 968 B are allowed.",
         "A row comes in once and goes out once."),
        (rows_of(fused, scoped=False), ": it grows with the rows.", "What gives a row's bytes back before the next?"),
        (rows_of(not_divided), "row 0 sums to 2.871.", "Each row of a softmax sums to 1: is every row written?"),
        (never_stored, "row 0 sums to 0.", "Each row of a softmax sums to 1: is every row written?"),
        (rows_of(too_warm), "the worst weight is off by 0.6.", "Write y = softmax(scale * x)."),
        (rows_of(no_maximum), LARGE, "Subtract the maximum of the scaled row before exp."),
        (rows_of(maximum_before_scale), LARGE, "Subtract the maximum of the scaled row before exp."),
        (rows_of(overflowing), "there are nan in the rows.", "Subtract the row's maximum before exp."),
    ],
)  # fmt: skip
def test_14_wrong(id: str, kernel: Callable[..., Any], got: str, idea: str) -> None:
    error = refused(id, kernel)
    assert error.got.endswith(got)
    assert error.idea == idea
    assert error.run.op_log


def test_14b_has_the_smaller_budget() -> None:
    error = refused("14b", rows_of(fused))
    assert error.got == "scratch 6 432 B, and 1 312 B are allowed."
    assert error.idea == "Which result may be written over its operand, by out=? (s *= 2 makes a new tile.)"


def test_14_asks_for_the_weights_of_attention() -> None:
    x = softmax.raw_scores()
    assert x.shape == (9, 319)
    run = softmax.run_rows(rows_of(fused), x)
    q, k, v = kb.sample_attention()
    weights = np.asarray(run.outputs["y"], np.float64)
    heads = np.stack([weights[h] @ v[:, h // 3].astype(np.float64) for h in range(9)])
    np.testing.assert_allclose(heads, kb.decode(q[-1:], k, v, pes=1).output[0], atol=5e-3)
