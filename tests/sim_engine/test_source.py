from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator
from types import CodeType, FrameType
from typing import Any

import pytest

from kernbench_nb.sim_engine.source import Caller, Place, line_of, place_of, source_line, variable_of

Call = tuple[str, CodeType, int]


class Handle:
    """Answers every operator and method with a handle, and notes from which instruction it was asked."""

    calls: list[Call]

    def __init__(self, calls: list[Call]) -> None:
        self.calls = calls

    def _note(self, op: str, frame: FrameType) -> Handle:
        self.calls.append((op, frame.f_code, frame.f_lasti))
        return self

    def __getattr__(self, op: str) -> Any:
        if op.startswith("__"):
            raise AttributeError(op)
        return lambda *args, **more: self._note(op, sys._getframe(1))

    def __iter__(self) -> Iterator[Handle]:
        return iter((self, self))

    def __bool__(self) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


def _operator(op: str) -> Any:
    return lambda self, *args: self._note(op, sys._getframe(1))


for _op in ("add", "sub", "mul", "truediv", "matmul", "neg", "abs", "lt", "eq", "radd", "rmul", "getitem"):
    setattr(Handle, f"__{_op}__", _operator(_op))


def run(source: str, file: str = "<a notebook cell>", cached: bool = True) -> list[Call]:
    """Run a snippet as a notebook would, with `tl` and a few handles; which operations it asked for, from where."""
    calls: list[Call] = []
    handle = Handle(calls)
    if cached:
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    else:
        linecache.cache.pop(file, None)
    names = dict.fromkeys(("tl", "q", "k", "v", "s", "m", "l", "x", "y", "state"), handle)
    exec(compile(source, file, "exec"), {**names, "bufs": {}, "false": 0})
    return calls


def named(source: str, **more: Any) -> list[tuple[str, str | None]]:
    return [(op, variable_of(code, at)) for op, code, at in run(source, **more)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("s = tl.dot(q, k)", [("dot", "s")]),
        ("tl.dot(q, k)", [("dot", None)]),
        ("s = tl.exp(s - m)", [("sub", None), ("exp", "s")]),
        ("o = q * k + v", [("mul", None), ("add", "o")]),
        ("o = (q * k) + (v * s)", [("mul", None), ("mul", None), ("add", "o")]),
        ("o = 2.0 * q", [("rmul", "o")]),
        ("o = -q", [("neg", "o")]),
        ("o = abs(q)", [("abs", "o")]),
        ("o = q < k", [("lt", "o")]),
        ("h = q[0]", [("getitem", "h")]),
        ("o = x.exp().sum(0)", [("exp", None), ("sum", "o")]),
        ("acc = q\nacc += k", [("add", "acc")]),
        ("acc = q\nacc += tl.dot(q, k)", [("dot", None), ("add", "acc")]),
        ("state.m += k", [("radd", "state.m")]),
        ("a, b = tl.max(s), tl.sum(s)", [("max", "a"), ("sum", "b")]),
        ("[a, b] = [tl.max(s), tl.sum(s)]", [("max", "a"), ("sum", "b")]),
        ("a, (b, c) = tl.max(s), (tl.sum(s), q * k)", [("max", "a"), ("sum", "b"), ("mul", "c")]),
        ("a, b = tl.wait(s)", [("wait", "a, b")]),
        ("a, *b = tl.wait(s)", [("wait", "a, *b")]),
        ("a, *b = tl.max(s), tl.sum(s), tl.exp(s)", [("max", None), ("sum", None), ("exp", None)]),
        ("a = b = tl.exp(s)", [("exp", "a")]),
        ("o: object = tl.exp(s)", [("exp", "o")]),
        ("o: object\no = tl.exp(s)", [("exp", "o")]),
        ("if (w := tl.exp(s)): pass", [("exp", "w")]),
        ("o = (w := tl.exp(s))", [("exp", "w")]),
        ("o = tl.neg(w := tl.exp(s))", [("exp", "w"), ("neg", "o")]),
        ("o = tl.exp(s) if false else tl.log(s)", [("log", "o")]),
        ("o = tl.exp(s) if s else tl.log(s)", [("exp", "o")]),
        ("state.m = tl.max(s)", [("max", "state.m")]),
        ("bufs[1] = tl.zeros(4)", [("zeros", "bufs[1]")]),
        ("bufs['a'] = tl.zeros(4)", [("zeros", "bufs['a']")]),
        ("o = [tl.exp(s) for _ in range(1)]", [("exp", None)]),
        ("o = (tl.exp(s), 1)", [("exp", None)]),
        ("o = tl.exp(s),", [("exp", None)]),
        ("for o in tl.wait(s): pass", [("wait", None)]),
        ("def f():\n    return tl.exp(s)\no = f()", [("exp", None)]),
        ("def f():\n    o = tl.exp(s)\n    return o\nz = f()", [("exp", "o")]),
        ("f = lambda: tl.exp(s)\no = f()", [("exp", None)]),
        ("class A:\n    o = tl.exp(s)", [("exp", "o")]),
        ("a = tl.exp(s); b = tl.log(s)", [("exp", "a"), ("log", "b")]),
        ("o = tl.dot(*[q, k])", [("dot", "o")]),
        ("o = tl.dot(q, **{'out': k})", [("dot", "o")]),
        ("größe = tl.dot(q, 'é', tl.exp(s))", [("exp", None), ("dot", "größe")]),
    ],
)
def test_the_outermost_expression_of_an_assignment_has_its_name(
    source: str, expected: list[tuple[str, str | None]]
) -> None:
    assert named(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("o = tl.dot(q,\n           k,\n           acc=None)", [("dot", "o", 1)]),
        ("o = (q *\n     k)", [("mul", "o", 1)]),
        ("o = q * \\\n    k", [("mul", "o", 1)]),
        ("o = (\n  tl.exp(\n    s - m\n  )\n  .to('f16')\n)", [("sub", None, 3), ("exp", None, 2), ("to", "o", 5)]),
        ("o = (x\n     .exp()\n     .sum(0,\n          keep_dims=True))", [("exp", None, 2), ("sum", "o", 3)]),
        ("o = x.to(\n    1,\n)", [("to", "o", 1)]),
        ("o = x \\\n  .exp()", [("exp", "o", 2)]),
        ("o = (x\n  .exp(*[])\n)", [("exp", "o", 2)]),
        ("a, b = (\n    tl.max(s),\n    tl.sum(s),\n)", [("max", "a", 2), ("sum", "b", 3)]),
        ("acc = q\nacc += (\n    k\n)", [("add", "acc", 2)]),
    ],
)  # fmt: skip
def test_calls_over_several_lines(source: str, expected: list[tuple[str, str | None, int]]) -> None:
    calls = run(source)
    found = [(op, variable_of(code, at), line_of(code, at)) for op, code, at in calls]
    # CPython lets a call with stars start where its expression does, and another one at its method's name
    if "*[]" in source:
        assert found[0][:2] == expected[0][:2]
    else:
        assert found == expected


def test_line_and_text() -> None:
    ((op, code, at),) = run("x = 1\n\nif x:\n    s  =  tl.dot(q, k)  # scores\n")
    assert op == "dot"
    assert line_of(code, at) == 4
    assert source_line(code.co_filename, 4) == "s  =  tl.dot(q, k)  # scores"
    assert source_line(code.co_filename, 2) is None
    assert source_line(code.co_filename, 99) is None


def test_without_source_there_is_a_line_and_no_name() -> None:
    ((_, code, at),) = run("\ns = tl.dot(q, k)", file="<nowhere>", cached=False)
    assert line_of(code, at) == 2
    assert variable_of(code, at) is None
    assert place_of((code, ()), at) == Place("<nowhere>", "<module>", 2)


def test_source_that_does_not_parse_gives_no_name() -> None:
    ((_, code, at),) = run("s = tl.dot(q, k)", file="<cell with magics>")
    text = "%time s = tl.dot(q, k)"
    other = "<cell with magics, as typed>"
    linecache.cache[other] = (len(text), None, [text], other)
    assert variable_of(code, at) == "s"
    assert variable_of(code.replace(co_filename=other), at) is None


def test_equal_code_from_two_files_is_told_apart() -> None:
    source = "s = tl.dot(q, k)"
    ((_, here, at),) = run(source, file="<cell 1>")
    ((_, there, _),) = run(source, file="<cell 2>", cached=False)
    assert here == there
    assert variable_of(there, at) is None
    assert variable_of(here, at) == "s"


def test_an_offset_that_is_not_in_the_code() -> None:
    ((_, code, _),) = run("s = tl.dot(q, k)")
    for offset in (-2, 10_000):
        assert line_of(code, offset) == 0
        assert variable_of(code, offset) is None


def test_code_without_columns_has_lines_and_no_names() -> None:
    ((_, code, at),) = run("s = tl.dot(q, k)")
    # a line table entry of form 13: a line, no columns; it covers 8 code units
    bare = code.replace(co_linetable=bytes([0x80 | 13 << 3 | 7, 2] * (len(code.co_code) // 16 + 1)))
    assert line_of(bare, at) > 0
    assert variable_of(bare, at) is None


def test_a_shared_function_stands_under_the_kernel_line_that_called_it() -> None:
    source = """
def fold(tl):
    p = tl.exp(s)
    return p

def step(tl):
    return fold(tl)

def kernel(tl):
    for i in range(1):
        o = step(tl)

kernel(tl)
"""
    calls: list[Call] = []
    frames: list[tuple[tuple[CodeType, int], ...]] = []

    class Watching(Handle):
        def _note(self, op: str, frame: FrameType) -> Handle:
            above, chain = frame.f_back, []
            while above is not None and above.f_code.co_name != "<module>":
                chain.append((above.f_code, above.f_lasti))
                above = above.f_back
            frames.append(tuple(chain))
            return super()._note(op, frame)

    file = "<kernel cell>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), {"tl": Watching(calls), "s": None})
    ((_, code, at),) = calls
    place = place_of((code, frames[0]), at)
    assert place == Place(
        file, "fold", 3, "p", "p = tl.exp(s)", (Caller(file, "step", 7), Caller(file, "kernel", 11))
    )
    assert place.kernel == Caller(file, "kernel", 11)
    assert str(place) == "fold, line 3, called from kernel, line 11: p = tl.exp(s)"


def test_a_place_in_the_kernel_itself() -> None:
    place = Place("a.py", "kernel", 7)
    assert place.kernel == Caller("a.py", "kernel", 7)
    assert str(place) == "kernel, line 7"
