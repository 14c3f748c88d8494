"""The command line `kernbench-nb`: the tour, a bench by name, and what there is to run.

An error is one line on stderr that says what to do; ``--traceback`` shows the rest. What is heavy is imported by the
command that uses it, so that ``--help`` and ``list`` answer at once.
"""

from __future__ import annotations

import io
import sys
import traceback
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kernbench_nb._version import __version__

if TYPE_CHECKING:
    from kernbench_nb._settings import Key
    from kernbench_nb.runtime_api.result import RunResult

__all__ = ["main"]


# -- errors, one line each -------------------------------------------------------------------------------------


class _WrongCall(click.ClickException):
    """A call that cannot be meant; its text says what could be."""

    exit_code = 2


class _Commands(click.Group):
    """A group that shows every error, click's own too, as one line on stderr."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; whatever it raises becomes a `click.ClickException` of one line."""
        try:
            return super().invoke(ctx)
        except (click.Abort, click.exceptions.Exit, BrokenPipeError):
            raise
        except Exception as error:
            own = isinstance(error, click.ClickException)
            cause = error.__cause__ if own else error
            if cause is not None and ctx.meta.get(__name__):
                click.echo("".join(traceback.format_exception(cause)), err=True, nl=False)
            if own:
                raise
            raise click.ClickException(_one_line(error)) from error

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> Any:
        """Run as a process does, which ends with 0, with 1 after an error, with 2 after a wrong call."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        if isinstance(sys.stdout, io.TextIOWrapper):
            # all text here is ASCII, but a folder may have a name that the terminal cannot show
            sys.stdout.reconfigure(errors="backslashreplace")
        try:
            code = super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        except click.ClickException as error:
            text = " ".join(error.format_message().split())
            if isinstance(error, click.UsageError) and error.ctx is not None:
                text += f"{'' if text.endswith(('.', '?')) else '.'} See {error.ctx.command_path} --help"
            click.echo(f"Error: {text}", err=True)
            sys.exit(error.exit_code)
        except click.Abort:
            click.echo("Error: stopped.", err=True)
            sys.exit(1)
        sys.exit(code if isinstance(code, int) else 0)


def _one_line(error: Exception) -> str:
    """What happened, and what to do about it."""
    from kernbench_nb.errors import KernbenchError, ScratchOverflowError

    first, *rest = str(error).splitlines() or [""]
    if isinstance(error, ScratchOverflowError):
        return f"{first} {_make_it_fit(error.run)}; --traceback shows what is live."
    if isinstance(error, MemoryError):
        return f"not enough memory for the data ({first}). Run it with --timing, which makes none."
    if isinstance(error, (KernbenchError, ValueError)):
        return f"{first} (--traceback shows the rest)" if rest else first
    return f"{type(error).__name__}: {first} (--traceback shows where)"


def _make_it_fit(run: RunResult | None) -> str:
    """What to change so that a bench fits its scratch."""
    params: Mapping[str, Any] = {} if run is None else run.params
    if params.get("scoped") is False:
        return "Let tiles give their bytes back (--set scoped=True)"
    smaller = [
        f"--set {name}={params[name] // 2}"
        for name in ("tile", "tile_q", "tile_kv", "rows")
        if (params.get(name) or 0) > 1
    ]
    return f"Take smaller tiles, {' '.join(smaller)} or less" if smaller else "Take smaller sizes (--set)"


def _remember(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    # the meta of a context is shared by those inside it, so the option may stand before or after a command's name
    if value:
        ctx.meta[__name__] = True


_traceback_option = click.option(
    "--traceback",
    is_flag=True,
    expose_value=False,
    callback=_remember,
    help="Show all of an error, not only its one line.",
)


# -- commands --------------------------------------------------------------------------------------------------


@click.group(cls=_Commands, invoke_without_command=True, context_settings={"max_content_width": 100})
@_traceback_option
@click.version_option(__version__, prog_name="kernbench-nb")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Attention kernels on a simulated machine."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


@main.command("tour")
@click.option(
    "--out",
    default=".",
    show_default="this folder",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Folder for the page and the pictures; made if it is not there. Those of an earlier tour are replaced.",
)
@click.option("--no-pictures", is_flag=True, help="Write no files.")
@_traceback_option
def _tour(out: Path, no_pictures: bool) -> None:
    """Run the main job, a flash decode of real data, and show what it did.

    One query and 319 keys of a real model, on 8 PEs, 16 keys at a time: checked against float64, each tile in a
    table, and then what the kernel would have needed without scopes. A page to step through it, flash_sweep.html,
    and three pictures are written.
    """
    from kernbench_nb import _tour as tour

    runs = tour.take()
    click.echo("\n".join(tour.lines(runs)))
    if no_pictures:
        return
    try:
        written = [tour.page(runs, out), *tour.draw(runs, out)]
    except OSError as error:
        raise click.ClickException(
            f"cannot write to {click.format_filename(out)}: {error.strerror or error}. Choose another folder with "
            "--out DIR, or write nothing with --no-pictures."
        ) from error
    click.echo("\nWritten, the page to open in a browser")
    for path, what in written:
        click.echo(f"  {click.format_filename(path)}: {what}")


@main.command("run")
@click.argument("bench")
@click.option(
    "--set",
    "given",
    metavar="KEY=VALUE",
    multiple=True,
    help="A size or an argument, as often as needed: --set S_kv=131072 --set tile=256. `list` shows all.",
)
@click.option("--timing/--data", default=None, help="Times only, or numbers too (the default).")
@click.option("--topology", metavar="PRESET_OR_FILE", help="The machine: a preset, or a YAML file.")
@click.option(
    "--scratch-checks",
    type=click.Choice(["raise", "poison", "off"]),
    help="What happens when bytes are used that were given back; raise is the default.",
)
@_traceback_option
def _run(
    bench: str,
    given: tuple[str, ...],
    timing: bool | None,
    topology: str | None,
    scratch_checks: str | None,
) -> None:
    """Run BENCH on random data, and sum up what it did.

    busy: the share of the makespan that each engine worked, the mean over the PEs. products: the FLOP of the matrix
    products, and the share of the multipliers (MACs) that they used. bound: what took most of the time of the PE
    that ended last: compute (GEMM, math), bandwidth (DMA, messages) or latency (waiting for either).
    """
    from kernbench_nb._settings import keys_of, settings
    from kernbench_nb._terminal import summary
    from kernbench_nb.benches.registry import bench as run_bench
    from kernbench_nb.benches.registry import find_bench

    try:
        arguments = settings(given, keys_of(find_bench(bench)))
    except ValueError as error:
        raise _WrongCall(str(error)) from error
    data = None if timing is None else not timing
    for key, value in (("data", data), ("topology", topology), ("scratch_checks", scratch_checks)):
        if value is not None:
            if key in arguments:
                raise _WrongCall(f"{key} is given twice, by --set and by its own option")
            arguments[key] = value
    run = run_bench(bench, **arguments)
    click.echo("\n".join(summary(run)))


@main.command("list")
@_traceback_option
def _list() -> None:
    """Show the benches with their sizes and arguments, and the machines."""
    from kernbench_nb._settings import keys_of
    from kernbench_nb._terminal import wrapped
    from kernbench_nb.benches.registry import BENCHES
    from kernbench_nb.topology import preset_names, resolve_topology
    from kernbench_nb.topology.builder import DEFAULT_PRESET

    def line(group: str, keys: Iterable[Key]) -> str:
        words = " ".join(f"{key.name}={key.default}" for key in keys if key.group == group)
        return "\n".join(f"  {part}" for part in wrapped(words, first=f"  {group:<11}", then=" " * 13))

    click.echo("Benches: kernbench-nb run NAME --set KEY=VALUE ...\n")
    for bench in BENCHES.values():
        keys = keys_of(bench).values()
        click.echo(f"  {bench.name}: {bench.about}")
        click.echo(f"{line('sizes', keys)}\n{line('arguments', keys)}\n")
    click.echo(f"  every bench\n{line('options', keys)}\n")
    click.echo("Machines: --topology NAME, or a YAML file\n")
    for name in preset_names():
        first, *_ = resolve_topology(name).summary().splitlines()
        click.echo(f"  {first}{' (the default)' if name == DEFAULT_PRESET else ''}")


class _Passing(click.Command):
    """A command that leaves what follows `--` to the program that it starts; `_Passing.rest` gives it."""

    rest = f"{__name__}.rest"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Take those before `--` as this command's own."""
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[self.rest] = args[at + 1 :]
        return super().parse_args(ctx, args[:at])

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """Say so in the usage line."""
        return [*super().collect_usage_pieces(ctx), "[-- JUPYTERLAB'S OPTIONS]"]


@main.command("lab", cls=_Passing)
@click.argument(
    "folder",
    metavar="[DIR]",
    default="kernbench-course",
    type=click.Path(path_type=Path, file_okay=False),
)
@click.option("--no-browser", is_flag=True, help="Start JupyterLab and print its address.")
@click.option("--copy-only", is_flag=True, help="Make the copy, and start nothing.")
@_traceback_option
@click.pass_context
def _lab(ctx: click.Context, folder: Path, no_browser: bool, copy_only: bool) -> None:
    """Open the notebooks in JupyterLab, in a copy of yours.

    The copy is made in DIR, the folder kernbench-course unless you name one. There what you are to predict is not
    given away. What you changed in it is kept when you come back; the rest is brought up to date.

    What follows -- goes to JupyterLab: lab -- --port=9000 --allow-root
    """
    rest: list[str] = ctx.meta[_Passing.rest]
    if copy_only and rest:
        raise _WrongCall(
            f"--copy-only starts no JupyterLab, and {' '.join(rest)} is for one; leave one of them out"
        )
    from importlib.util import find_spec

    needed = ("nbformat",) if copy_only else ("nbformat", "jupyterlab", "ipykernel", "anywidget")
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        raise click.ClickException(f"needs {', '.join(missing)}: pip install 'kernbench-nb[lab]'")
    from kernbench_nb import _lab as lab

    try:
        copied = lab.copy_course(folder)
    except OSError as error:
        raise click.ClickException(
            f"cannot make a copy in {click.format_filename(folder)}: {error.strerror or error}. Name another folder: "
            "kernbench-nb lab DIR"
        ) from error
    lab.sign(copied)
    click.echo(f"The course is in {click.format_filename(folder)}; it begins with {lab.FIRST}.")
    if copied.kept:
        click.echo(
            f"Kept as you left them: {', '.join(copied.kept)}. For a fresh copy of one, rename yours and run this "
            "again; for all, name another folder: kernbench-nb lab DIR"
        )
    if not copy_only:
        lab.start(folder, browser=not no_browser, options=rest)
