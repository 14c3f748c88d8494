"""What frames and pictures are given: a run, and nothing else."""

from __future__ import annotations

from kernbench_nb.runtime_api.result import RunResult

__all__ = ["check_run"]


def check_run(run: object, caller: str) -> None:
    """Refuse what is no run.

    Parameters
    ----------
    run
        What was given.
    caller
        The function that it was given to, as a reader calls it: ``kb.plots.engines``.

    Raises
    ------
    TypeError
        If it is none; an error that carries the run it stopped is told apart.
    """
    if isinstance(run, RunResult):
        return
    shown = type(run).__name__
    if isinstance(getattr(run, "run", None), RunResult):
        then = f"its run is in .run: {caller}(error.run)"
    else:
        shown += f" {run!r}" if len(repr(run)) <= 40 else ""
        then = f"for example run = kb.decode(q, k, v); {caller}(run)"
    raise TypeError(f"{caller} takes a RunResult, what kb.launch or kb.decode returns; got {shown}. {then}")
