"""Each operation knows the line that asked for it, the kernel's line above that, and the variable it went to."""

from __future__ import annotations

import functools
import linecache
import re
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import kernbench_nb as kb
from kernbench_nb.errors import (
    DTypeError,
    MessageError,
    OutOfBoundsError,
    ScopeOrderError,
    ScratchOverflowError,
    ShapeError,
    UseAfterScopeError,
    grouped,
)

ONES = np.ones((4, 4), np.float32)
Row = tuple[str, str, str, str | None]


def rows(kernel: Callable[..., Any], *args: Any, data: bool = False) -> list[Row]:
    """(operation, tag of its line, tag of the kernel's line, name) of each operation; a tag is a ``# @`` comment."""
    log = kb.launch(kernel, ONES.copy(), *args, data=data).op_log

    def tag(file: str | None, line: int | None) -> str:
        text = linecache.getline(file or "", line or 0)
        found = re.search(r"# @(\S+)", text)
        return found[1] if found else text.strip()

    return [(r.op_name, tag(r.file, r.line), tag(__file__, r.kernel_line), r.name) for r in log]


def test_operators_methods_and_functions_are_on_the_kernels_line_not_in_the_package() -> None:
    def kernel(p: Any, *, tl: Any) -> None:
        x = tl.load(p, (4, 4))  # @load
        y = x * x  # @mul
        z = 1.0 - y  # @sub
        m = z.max(0)  # @max
        s = (
            tl.dot(x, z)
            + y  # @inside
        )  # fmt: skip
        e = -s  # @neg
        w = e.to("f16")  # @cast
        c = w.copy()  # @clone
        k = tl.load_async(p, (2,)).wait()  # @async
        tl.copy_to(s, e)  # @copy
        tl.store(p, c.to("f32"))  # @store
        del m, k

    got = rows(kernel)
    assert [(op, at, name) for op, at, _, name in got if at not in ("s = (", "tl.dot(x, z)", "inside")] == [
        ("dma_read", "load", "x"),
        ("mul", "mul", "y"),
        ("sub", "sub", "z"),
        ("max", "max", "m"),
        ("neg", "neg", "e"),
        ("cast", "cast", "w"),
        ("clone", "clone", "c"),
        ("dma_read", "async", None),
        ("copy", "copy", None),
        ("cast", "store", None),
        ("dma_write", "store", None),
    ]
    assert [(op, name) for op, _, _, name in got if op in ("gemm", "add")] == [("gemm", None), ("add", "s")]


def shared(tl: Any, x: Any) -> Any:
    y = x * 2.0  # @shared-mul
    return deeper(tl, y)  # @shared-call


def deeper(tl: Any, y: Any) -> Any:
    z = tl.exp(y)  # @deeper-exp
    return z + y  # @deeper-add


def test_in_a_shared_function_the_line_is_its_own_and_the_kernels_stands_above() -> None:
    def kernel(p: Any, *, tl: Any) -> None:
        x = tl.load(p, (4, 4))  # @load
        a = shared(tl, x)  # @first
        b = a - x  # @between
        c = shared(tl, b)  # @second
        for _ in range(2):
            c = shared(tl, c)  # @loop

    def calls(kernel_line: str) -> list[Row]:
        return [
            ("mul", "shared-mul", kernel_line, "y"),
            ("exp", "deeper-exp", kernel_line, "z"),
            ("add", "deeper-add", kernel_line, None),
        ]

    assert rows(kernel) == [
        ("dma_read", "load", "load", "x"),
        *calls("first"),
        ("sub", "between", "between", "b"),
        *calls("second"),
        *calls("loop"),
        *calls("loop"),
    ]


def test_lines_in_a_loop_are_the_same_each_time() -> None:
    def kernel(p: Any, *, tl: Any) -> None:
        x = tl.load(p, (4, 4))  # @load
        for _ in range(3):
            y = x * 2.0  # @mul
            with tl.scratch_scope():  # @scope
                z = deeper(tl, y)  # @call
                w = z.sum(0)  # @sum
        del w

    assert rows(kernel) == [
        ("dma_read", "load", "load", "x"),
        *[
            ("mul", "mul", "mul", "y"),
            ("exp", "deeper-exp", "call", "z"),
            ("add", "deeper-add", "call", None),
            ("sum", "sum", "sum", "w"),
        ]
        * 3,
    ]


def test_a_function_that_is_called_again_without_an_operation_between() -> None:
    def kernel(p: Any, *, tl: Any) -> None:
        def double(x: Any) -> Any:
            return x + x  # @double

        x = tl.load(p, (4, 4))  # @load
        double(double(x))  # @nested
        double(x), double(x)  # @pair

    got = [row[:3] for row in rows(kernel)]
    assert got == [
        ("dma_read", "load", "load"),
        ("add", "double", "nested"),
        ("add", "double", "nested"),
        ("add", "double", "pair"),
        ("add", "double", "pair"),
    ]


def test_recursion_closures_lambdas_comprehensions_and_generators() -> None:
    def kernel(p: Any, *, tl: Any) -> None:
        x = tl.load(p, (4, 4))  # @load
        square = lambda t: t * t  # noqa: E731  # @lambda

        def power(t: Any, n: int) -> Any:
            return t if n == 0 else power(t - x, n - 1)  # @recursion

        def parts() -> Iterator[Any]:
            for i in range(2):
                yield x[i] + 1.0  # @generator

        power(square(x), 3)  # @power
        [-t for t in (x, x)]  # @comprehension
        sum(t.max() for t in (x,))  # @genexpr
        list(map(square, [x]))  # @map
        for part in parts():  # @for
            tl.exp(part)  # @body

    got = [row[:3] for row in rows(kernel)]
    assert got == [
        ("dma_read", "load", "load"),
        ("mul", "lambda", "power"),
        *[("sub", "recursion", "power")] * 3,
        *[("neg", "comprehension", "comprehension")] * 2,
        ("max", "genexpr", "genexpr"),
        ("add", "genexpr", "genexpr"),  # sum() begins with the number 0
        ("mul", "lambda", "map"),
        ("add", "generator", "for"),
        ("exp", "body", "body"),
        ("add", "generator", "for"),
        ("exp", "body", "body"),
    ]


def test_a_generator_that_is_asked_from_another_line() -> None:
    def kernel(p: Any, *, tl: Any) -> None:
        def parts() -> Iterator[Any]:
            while True:
                yield tl.zeros((4,))  # @yield

        source = parts()
        next(source)  # @one
        next(source)  # @two
        for _ in range(2):
            next(source)  # @three
        source.close()

    assert [row[:3] for row in rows(kernel)] == [
        ("full", "yield", "one"),
        ("full", "yield", "two"),
        ("full", "yield", "three"),
        ("full", "yield", "three"),
    ]


def test_deep_recursion() -> None:
    def kernel(p: Any, *, tl: Any) -> None:
        def down(n: int) -> None:
            tl.count("calls")
            if n:
                down(n - 1)
            tl.zeros((1,), name="deep")  # @deep

        down(200)  # @down

    assert rows(kernel) == [("full", "deep", "down", "deep")] * 201


def test_kernels_of_every_callable_kind() -> None:
    def plain(p: Any, n: int, *, tl: Any) -> None:
        tl.store(p, tl.load(p, (n,)))  # @plain

    def positional(p: Any, n: int, tl: Any) -> None:
        tl.store(p, tl.load(p, (n,)))  # @positional

    def decorated(p: Any, n: int, *, tl: Any) -> None:
        tl.store(p, tl.load(p, (n,)))  # @decorated

    def wrap(kernel: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(kernel)
        def inner(*args: Any, **more: Any) -> Any:
            return kernel(*args, **more)  # @wrapper

        return inner

    class Bench:
        def method(self, p: Any, n: int, *, tl: Any) -> None:
            tl.store(p, tl.load(p, (n,)))  # @method

        @staticmethod
        def static(p: Any, n: int, *, tl: Any) -> None:
            tl.store(p, tl.load(p, (n,)))  # @static

        def __call__(self, p: Any, n: int, *, tl: Any) -> None:
            tl.store(p, tl.load(p, (n,)))  # @call

    a_lambda = lambda p, n, *, tl: tl.store(p, tl.load(p, (n,)))  # noqa: E731  # @a_lambda
    for kernel, want, above in [
        (plain, "plain", "plain"),
        (positional, "positional", "positional"),
        (functools.partial(plain, n=4), "plain", "plain"),
        (wrap(decorated), "decorated", "wrapper"),
        (Bench().method, "method", "method"),
        (Bench.static, "static", "static"),
        (Bench(), "call", "call"),
        (a_lambda, "a_lambda", "a_lambda"),
    ]:
        args = () if isinstance(kernel, functools.partial) else (4,)
        assert [row[:3] for row in rows(kernel, *args)] == [
            ("dma_read", want, above),
            ("dma_write", want, above),
        ]


def test_names_come_from_the_source_and_name_overrides_them() -> None:
    def kernel(p: Any, *, tl: Any) -> None:
        q = tl.load(p, (4, 4))
        kt = q.T
        s = tl.dot(q, kt)
        s = s * 0.5
        m: Any = tl.max(s, 1, name="the maximum")
        m, l = tl.exp(m), tl.sum(s, 1)
        if (o := tl.dot(s, q)) is not None:
            o += q
        bufs = {}
        bufs["k"] = tl.zeros((4,))
        tl.exp(l)

    assert [(op, name) for op, _, _, name in rows(kernel)] == [
        ("dma_read", "q"),
        ("gemm", "s"),
        ("mul", "s"),
        ("max", "the maximum"),
        ("exp", "m"),
        ("sum", "l"),
        ("gemm", "o"),
        ("add", "o"),
        ("full", "bufs['k']"),
        ("exp", None),
    ]


def test_the_name_of_a_handle_is_found_through_views_and_beside_tiles_of_no_bytes() -> None:
    names = []

    def kernel(p: Any, *, tl: Any) -> None:
        nothing = tl.zeros((0, 4))  # has no byte that could say whose it is
        x = tl.zeros((4, 4))
        with tl.scratch_scope():
            y = tl.exp(x)
            names.extend(h.name for h in (nothing, x, y, x[1:], y.T[2], x[4:], y[0, 0]))
        names.append(tl.load(p, (2,), name="given").name)
        names.append((x + 1.0).name)

    kb.launch(kernel, ONES.copy(), data=False)
    assert names == ["", "x", "y", "x", "y", "", "y", "given", ""]


def test_two_pes_on_one_line_each_have_their_own_chains() -> None:
    def kernel(p: Any, *, tl: Any) -> None:
        x = tl.load(p, (4, 4))
        if tl.program_id(0):
            shared(tl, x)  # @one
        else:
            deeper(tl, x)  # @zero

    log = kb.launch(kernel, ONES.copy(), pes=2, data=False).op_log
    text = {r.pe: linecache.getline(r.file or "", r.kernel_line or 0) for r in log if r.op_name == "exp"}
    assert "@zero" in text[0]
    assert "@one" in text[1]


def test_errors_keep_the_kernels_own_traceback() -> None:
    def helper(tl: Any, x: Any) -> Any:
        return x + tl.zeros((3,))  # @wrong

    def kernel(p: Any, *, tl: Any) -> None:
        helper(tl, tl.load(p, (4, 4)))  # @call

    with pytest.raises(ShapeError) as caught:
        kb.launch(kernel, ONES.copy())
    assert type(caught.value) is ShapeError
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    lines = [str(entry.statement) for entry in caught.traceback]
    assert any("@call" in line for line in lines)
    assert any("@wrong" in line for line in lines)


def test_an_error_says_on_which_pe_and_when() -> None:
    def kernel(p: Any, *, tl: Any) -> None:
        tl.zeros((100,))
        tl.barrier()
        if tl.program_id(0) == 2:
            tl.zeros((2,)) + tl.zeros((3,))

    with pytest.raises(ShapeError) as caught:
        kb.launch(kernel, ONES.copy(), pes=3)
    (note,) = caught.value.__notes__
    run: Any = caught.value.run
    at = kernel.__code__.co_firstlineno + 4
    assert note == (
        f"on PE 2, at {grouped(max(r.end_ps for r in run.op_log if r.pe == 2))} ps, in kernel, line {at}: "
        "tl.zeros((2,)) + tl.zeros((3,))"
    )
    assert "PE 2" not in str(caught.value)


def beyond(tl: Any, p: Any) -> Any:
    return tl.load(p + 16, (4, 4))


@pytest.mark.parametrize(
    ("use", "error", "line"),
    [
        (lambda tl, p: tl.load(p, (4, 4)).to("f33"), DTypeError, r"<lambda>, line \d+, called from kernel, line \d+"),
        (lambda tl, p: tl.store(p + 1, tl.zeros((4, 4))), OutOfBoundsError, r"<lambda>, line \d+, called"),
        (beyond, OutOfBoundsError, r"beyond, line \d+, called from kernel, line \d+: return tl\.load\(p \+ 16, \(4, 4"),
        (lambda tl, p: tl.zeros((1 << 20,)), ScratchOverflowError, r"<lambda>, line"),
        (lambda tl, p: tl.send("nowhere", tl.zeros((1,))), MessageError, r"<lambda>, line"),
    ],
)  # fmt: skip
def test_every_error_of_the_package_has_its_place_in_the_kernel_once(
    use: Any, error: type[Exception], line: str
) -> None:
    def kernel(p: Any, *, tl: Any) -> None:
        use(tl, p)

    with pytest.raises(error) as caught:
        kb.launch(kernel, ONES.copy(), pes=2)
    (note,) = caught.value.__notes__
    assert re.match(rf"on PE [01], at [\d ]+ ps, in {line}", note)
    assert note in "".join(traceback.format_exception(caught.value))


def test_an_error_after_the_kernel_has_no_place_in_it() -> None:
    def kernel(p: Any, *, tl: Any) -> None:
        tl.scratch_scope("left open").__enter__()

    with pytest.raises(ScopeOrderError) as caught:
        kb.launch(kernel, ONES.copy())
    assert caught.value.__notes__ == ["on PE 0, at 0 ps"]


def test_an_error_in_a_shared_function_names_both_lines() -> None:
    def helper(tl: Any, dead: Any) -> Any:
        return tl.exp(dead)

    def kernel(p: Any, *, tl: Any) -> None:
        with tl.scratch_scope():
            x = tl.load(p, (4, 4))
        helper(tl, x)

    with pytest.raises(UseAfterScopeError) as caught:
        kb.launch(kernel, ONES.copy())
    first = kernel.__code__.co_firstlineno
    inner = helper.__code__.co_firstlineno + 1
    assert (
        f"is used at helper, line {inner}, called from kernel, line {first + 3}: return tl.exp(dead)"
        in str(caught.value)
    )


def test_without_a_source_there_is_a_line_and_no_name() -> None:
    scope: dict[str, Any] = {}
    exec("def kernel(p, *, tl):\n    x = tl.load(p, (4, 4))\n    tl.store(p, x + x)\n", scope)
    log = kb.launch(scope["kernel"], ONES.copy(), data=False).op_log
    assert [(r.op_name, r.line, r.kernel_line, r.name) for r in log] == [
        ("dma_read", 2, 2, None),
        ("add", 3, 3, None),
        ("dma_write", 3, 3, None),
    ]
