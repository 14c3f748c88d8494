"""The text of the kernel, and of the functions that it shares with others, as the source panel shows them."""

from __future__ import annotations

import ast
import inspect
import linecache
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import PurePath
from typing import Any

from kernbench_nb.sim_engine.source import Place

__all__ = ["Sources", "file_label"]

_PACKAGE = "kernbench_nb"
_CELL = re.compile(r"<ipython-input|[/\\]ipykernel_\d+[/\\]|^<stdin>|^<string>")
_LONGEST = 400
"""Lines shown of a file in which no function is found."""


class Sources:
    """Collects pieces of source, each a whole outermost function, in order of first use; the kernel is the first.

    Parameters
    ----------
    kernel
        The kernel function, or None.

    Attributes
    ----------
    pieces
        As the head of a trace lists them.
    """

    def __init__(self, kernel: Callable[..., Any] | None = None) -> None:
        self.pieces: list[dict[str, Any]] = []
        self._known: dict[tuple[str, int], int] = {}
        code = getattr(inspect.unwrap(kernel), "__code__", None) if kernel is not None else None
        if code is not None:
            self.find(code.co_filename, code.co_firstlineno)

    def find(self, file: str, line: int) -> int:
        """Number of the piece that holds a line of a file; -1 where there is no text."""
        lines = linecache.getlines(file)
        if not 1 <= line <= len(lines):
            return -1
        first, last, function = _piece(file, line, lines)
        number = self._known.get((file, first))
        if number is None:
            number = self._known[file, first] = len(self.pieces)
            self.pieces.append(
                {
                    "file": file_label(file),
                    "name": function.name if function else file_label(file),
                    "first": first,
                    "lines": [text.rstrip() for text in lines[first - 1 : last]],
                    "doc": _docstring(function),
                    "signature": _signature(function),
                }
            )
        return number

    def of_place(self, place: Place) -> tuple[int, int, int, int]:
        """(source, line, source of the kernel's line, that line)."""
        kernel = place.kernel
        return (
            self.find(place.file, place.line),
            place.line,
            self.find(kernel.file, kernel.line),
            kernel.line,
        )


def file_label(file: str) -> str:
    """What views call a file, the same on every machine: ``kernbench_nb/benches/_step.py``, ``cell``, ``mine.py``."""
    if _CELL.search(file):
        return "cell"
    parts = PurePath(file.replace("\\", "/")).parts
    if _PACKAGE in parts[:-1]:
        return "/".join(parts[len(parts) - 1 - parts[::-1].index(_PACKAGE) :])
    return parts[-1] if parts else file


_Function = ast.FunctionDef | ast.AsyncFunctionDef


def _piece(file: str, line: int, lines: Sequence[str]) -> tuple[int, int, _Function | None]:
    for function in _functions("".join(lines)):
        first = min([function.lineno, *(d.lineno for d in function.decorator_list)])
        last = function.end_lineno or function.lineno
        if first <= line <= last:
            return first, last, function
    if len(lines) <= _LONGEST:
        return 1, len(lines), None
    first = max(1, line - line % _LONGEST)
    return first, min(len(lines), first + _LONGEST - 1), None


@lru_cache(maxsize=64)
def _functions(text: str) -> tuple[_Function, ...]:
    """The outermost functions of a file, methods included."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return ()  # a cell with magics
    return tuple(_outermost(tree))


def _outermost(node: ast.AST) -> Iterator[_Function]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _Function):
            yield child
        elif isinstance(child, ast.stmt):
            yield from _outermost(child)


def _docstring(function: _Function | None) -> list[int] | None:
    if function is None or ast.get_docstring(function, clean=False) is None:
        return None
    text = function.body[0]
    return [text.lineno, text.end_lineno or text.lineno]


def _signature(function: _Function | None) -> list[int] | None:
    if function is None:
        return None
    return [function.lineno, max(function.lineno, function.body[0].lineno - 1)]
