"""What the command line says about a run: plain ASCII lines, the same every time, at most `WIDTH` columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from kernbench_nb.runtime_api.result import RunResult
from kernbench_nb.runtime_api.text import bytes_text, grouped, percent_text, rate_text, time_text

__all__ = ["WIDTH", "check_text", "column_ns", "pairs", "scratch_text", "summary", "table", "wrapped"]

WIDTH = 100


def wrapped(text: str, *, first: str = "", then: str = "") -> list[str]:
    """A text in lines that leave room for an indent of two."""
    return textwrap.wrap(
        text, WIDTH - 2, initial_indent=first, subsequent_indent=then, break_on_hyphens=False
    )


def pairs(items: Iterable[tuple[str, str]]) -> list[str]:
    """Names and what belongs to them, in two columns."""
    items = list(items)
    width = max(len(name) for name, _ in items) + 2
    return [f"{name:<{width}}{text}" for name, text in items]


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[int] = ()) -> list[str]:
    r"""Columns as wide as their widest entry, to the right but for those in `left`; a rule above the last row.

    >>> print("\n".join(table(["PE", "bytes"], [["0", "12 288"], ["all", "12 288"]])))
     PE   bytes
    ---  ------
      0  12 288
    ---  ------
    all  12 288
    """
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        placed = (
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return "  ".join(placed).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return [line(head), rule, *map(line, rows[:-1]), rule, line(rows[-1])]


def column_ns(ps: int) -> str:
    """A time in ns, to the ps, so that a column of them lines up at the point.

    >>> column_ns(1173239)
    '1 173.239'
    """
    return f"{grouped(ps // 1000)}.{ps % 1000:03d}"


def scratch_text(run: RunResult) -> str:
    """Peak scratch, and of how much."""
    peak, limit = run.peak_scratch, run.topology.scratch_bytes
    return f"{bytes_text(peak)} of {bytes_text(limit)}" + (
        f" ({percent_text(peak / limit)})" if limit else ""
    )


def check_text(run: RunResult, worst: float) -> str:
    """How far a run that passed `RunResult.check` is from its float64 reference."""
    tolerance = "" if run.reference is None else f", tolerance {run.reference.tol:.1e}"
    return f"agrees with float64 within {worst:.1e} of (1 + |O|){tolerance}"


def summary(run: RunResult) -> list[str]:
    """What a run did, in a few lines; with the check against float64 if it has data.

    Raises
    ------
    CheckError
        If the output differs from the reference.
    """
    roof = run.roofline
    terms = (("compute", roof.compute_ps), ("bandwidth", roof.bandwidth_ps), ("latency", roof.latency_ps))
    rate = f"{rate_text(run.hbm_gb_per_s)} of {rate_text(run.hbm_peak_gb_per_s)}"
    pes = "1 PE" if len(run.pes) == 1 else f"{len(run.pes)} PEs"
    items = [
        ("kernel", f"{run.name} on {run.topology.name}, {'with data' if run.data else 'timing mode'}"),
        ("makespan", f"{time_text(run.makespan_ps)} on {pes}"),
        ("peak scratch", scratch_text(run)),
        ("HBM", f"{bytes_text(run.hbm_bytes)}, {rate} GB/s"),
        ("busy", ", ".join(f"{engine} {percent_text(share)}" for engine, share in run.busy.items())),
        ("products", f"{grouped(run.flops)} FLOP, {percent_text(run.mac_utilisation)} of the MACs"),
        ("bound", f"{run.bound} binds: {', '.join(f'{what} {time_text(ps)}' for what, ps in terms)}"),
        *(("warning", text) for text in run.warnings),
    ]
    if run.data:
        items.append(("check", check_text(run, run.check())))
    return pairs(items)
