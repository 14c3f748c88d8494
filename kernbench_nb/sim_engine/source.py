"""From a calling instruction to the source: its line, the line's text, and the variable that the call is assigned to.

A trace keeps, for each operation, only who called and at which instruction; everything here is found later, and only
when a view asks. So ``s = tl.dot(q, kt)`` shows up as ``s`` with no naming by hand, and costs nothing while the kernel
runs. Where there is no source (an interactive prompt, `exec`), there is a line number and no name, and no error.

A call gets a name when it is the outermost expression of an assignment: of ``o = a * b + c`` the sum is ``o`` and the
product has no name, since no variable ever held it.
"""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType

from kernbench_nb.sim_engine.trace import Chain

__all__ = ["Caller", "Place", "line_of", "place_of", "source_line", "variable_of"]

Position = tuple[int | None, int | None, int | None, int | None]
"""Line, end line, column, end column, in the order of `code.co_positions`; columns count UTF-8 bytes."""


@dataclass(frozen=True, slots=True)
class Caller:
    """One function on the way from the kernel to the operation: file, function name, line that it had reached."""

    file: str
    function: str
    line: int


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the source an operation was asked for.

    Attributes
    ----------
    file, function, line
        The line that calls `tl`; 0 if it is not known.
    variable
        What the operation is assigned to there, or None.
    text
        The source line without its indentation, or None where there is no source.
    callers
        The functions above, innermost first, up to the kernel; empty when the kernel itself calls `tl`.
    """

    file: str
    function: str
    line: int
    variable: str | None = None
    text: str | None = None
    callers: tuple[Caller, ...] = ()

    @property
    def kernel(self) -> Caller:
        """The kernel, and the line in it from which the operation came."""
        return self.callers[-1] if self.callers else Caller(self.file, self.function, self.line)

    def __str__(self) -> str:
        where = f"{self.function}, line {self.line}"
        if self.callers:
            where += f", called from {self.kernel.function}, line {self.kernel.line}"
        return where + (f": {self.text}" if self.text else "")


def place_of(chain: Chain, offset: int) -> Place:
    """Everything that the source says about an operation.

    Parameters
    ----------
    chain
        The code that called `tl`, and the code and instruction offsets of its callers.
    offset
        Offset in bytes of the calling instruction (a frame's ``f_lasti``).
    """
    code, callers = chain
    line = line_of(code, offset)
    return Place(
        file=code.co_filename,
        function=code.co_name,
        line=line,
        variable=variable_of(code, offset),
        text=source_line(code.co_filename, line),
        callers=tuple(Caller(c.co_filename, c.co_name, line_of(c, at)) for c, at in callers),
    )


def line_of(code: CodeType, offset: int) -> int:
    """Line number of an instruction, counted from 1; 0 if the code does not say."""
    return _position(code, offset)[0] or 0


def source_line(file: str, line: int) -> str | None:
    """Text of a source line without its indentation; None where there is no source."""
    return linecache.getline(file, line).strip() or None


def variable_of(code: CodeType, offset: int) -> str | None:
    """The variable that the expression of an instruction is assigned to.

    Parameters
    ----------
    code, offset
        The calling function's code, and the offset in bytes of the instruction in it.

    Returns
    -------
    str or None
        The target as it is written: ``s``, ``acc`` of ``acc += x``, ``state.m``, ``m, l`` when one call fills two
        names. None for a call that is only a part of an expression, for one that is not assigned, and where there is
        no source.
    """
    line, end_line, column, end_column = _position(code, offset)
    if line is None or column is None:
        return None
    return _names(code, code.co_filename).get((line, end_line, column, end_column))


def _position(code: CodeType, offset: int) -> Position:
    positions = _positions(code)
    index = offset // 2  # a code unit is two bytes, and an instruction's caches repeat its position
    return positions[index] if 0 <= index < len(positions) else (None, None, None, None)


@lru_cache(maxsize=512)
def _positions(code: CodeType) -> tuple[Position, ...]:
    return tuple(code.co_positions())


@lru_cache(maxsize=512)
def _names(code: CodeType, file: str) -> dict[Position, str]:
    # The file is part of the key because code objects of equal text are equal, wherever they come from.
    del code
    return _assignments("".join(linecache.getlines(file)))


@lru_cache(maxsize=64)
def _assignments(text: str) -> dict[Position, str]:
    """Names of all expressions of a file that are the outermost of an assignment, by position."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return {}  # a cell with magics, a file that changed since
    names: dict[Position, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in reversed(node.targets):  # of a = b = call(), the first wins
                _bind(target, node.value, names)
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
            _bind(node.target, node.value, names)
        elif isinstance(node, ast.AugAssign):
            # the instruction that adds in place has the position of the whole statement
            names[_span(node)] = ast.unparse(node.target)
    return names


def _bind(target: ast.expr, value: ast.expr, names: dict[Position, str]) -> None:
    if isinstance(value, ast.IfExp):
        _bind(target, value.body, names)
        _bind(target, value.orelse, names)
    elif isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (ast.Tuple, ast.List)):
        if len(target.elts) == len(value.elts) and not any(
            isinstance(e, ast.Starred) for e in (*target.elts, *value.elts)
        ):
            for one, part in zip(target.elts, value.elts, strict=True):
                _bind(one, part, names)
    else:
        if isinstance(target, (ast.Tuple, ast.List)):
            name = ", ".join(ast.unparse(e) for e in target.elts)
        else:
            name = ast.unparse(target)
        for position in _spans(value):
            names[position] = name


def _spans(node: ast.expr) -> Iterator[Position]:
    """The positions that the instruction of an expression may carry."""
    yield _span(node)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        # CPython lets a method call that began on an earlier line start at the method's name
        method = node.func
        line, column = method.end_lineno, method.end_col_offset
        if line is not None and column is not None and line != node.lineno:
            yield line, node.end_lineno, column - len(method.attr), node.end_col_offset


def _span(node: ast.expr | ast.stmt) -> Position:
    return node.lineno, node.end_lineno, node.col_offset, node.end_col_offset
