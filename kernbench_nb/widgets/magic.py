"""``%load_ext kernbench_nb``: makes nothing necessary, and offers ``%%kernel_step``."""

from __future__ import annotations

import ast
import shlex
from typing import Any

from kernbench_nb.runtime_api.result import RunResult

__all__ = ["kernel_step", "load_ipython_extension", "unload_ipython_extension"]

_OPTIONS = ("pe", "tile", "at", "granularity")


def load_ipython_extension(ipython: Any) -> None:
    """Register ``%%kernel_step``."""

    def run_and_step(line: str, cell: str) -> Any:
        return kernel_step(ipython, line, cell)

    run_and_step.__doc__ = kernel_step.__doc__
    ipython.register_magic_function(run_and_step, "cell", "kernel_step")


def unload_ipython_extension(ipython: Any) -> None:
    """Take ``%%kernel_step`` away."""
    ipython.magics_manager.magics["cell"].pop("kernel_step", None)


def kernel_step(ipython: Any, line: str, cell: str) -> Any:
    """Run a cell and step through the run that it makes.

    ``%%kernel_step [pe=7] [tile="tile 2"] [at="O*c"]``: the run is the value of the last line, else the last variable
    that the cell assigns a run to. A kernel that fails is stepped up to where it failed, and the error is printed.
    """
    from kernbench_nb.widgets.stepper import step

    where = _options(line)
    try:
        run = _run_of(ipython, cell)
    except Exception as error:
        run_so_far = getattr(error, "run", None)
        if not isinstance(run_so_far, RunResult):
            raise
        first = str(error).splitlines()[0] if str(error) else ""
        print(f"{type(error).__name__}: {first}")  # noqa: T201
        run = run_so_far
        where = {}  # the place that was asked for may never have been reached
    return step(run, **where)


def _options(line: str) -> dict[str, Any]:
    def refuse(word: str) -> ValueError:
        return ValueError(
            f"%%kernel_step takes {', '.join(f'{o}=' for o in _OPTIONS)} "
            f'(such as pe=7 tile="tile 2"), got {word!r}'
        )

    try:
        words = shlex.split(line)
    except ValueError as error:  # a quotation that is not closed
        raise refuse(line) from error
    found: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name not in _OPTIONS or (name == "pe" and not value.isdecimal()):
            raise refuse(word)
        found[name] = int(value) if name == "pe" else value
    return found


def _run_of(ipython: Any, cell: str) -> RunResult:
    source = ipython.transform_cell(cell)
    # as a cell of its own, so that the source panel finds the kernel's text
    name = ipython.compile.cache(source, ipython.execution_count, raw_code=cell)
    tree = ast.parse(source, name)
    space = ipython.user_ns
    assigned = _assigned(tree)
    last = tree.body[-1] if tree.body else None
    value = None
    if isinstance(last, ast.Expr):
        tree.body.pop()
        exec(compile(tree, name, "exec"), space)
        value = eval(compile(ast.Expression(last.value), name, "eval"), space)
    else:
        exec(compile(tree, name, "exec"), space)
    if isinstance(value, RunResult):
        return value
    for variable in reversed(assigned):
        if isinstance(space.get(variable), RunResult):
            run: RunResult = space[variable]
            return run
    raise ValueError(
        "%%kernel_step found no run: end the cell with one, such as kb.launch(kernel, a, b), or assign it."
    )


def _assigned(tree: ast.Module) -> list[str]:
    """Names that the cell itself assigns, in order; those of its functions and the like are theirs alone."""
    inner = (
        ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda,
        ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp,
    )  # fmt: skip
    names: list[str] = []
    waiting: list[ast.AST] = list(reversed(tree.body))
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append(node.id)
        if not isinstance(node, inner):
            waiting.extend(reversed(list(ast.iter_child_nodes(node))))
    return names
