"""Where in a kernel an error comes from, as a note that tracebacks and notebooks show below the error's own text."""

from __future__ import annotations

from types import CodeType

from kernbench_nb.sim_engine.source import Place, place_of
from kernbench_nb.triton_emu.steady import WRAPPER

__all__ = ["place_of_error"]

_MACHINE = ("kernbench_nb.triton_emu", "kernbench_nb.memory", "kernbench_nb.sim_engine")
"""Packages below the kernel: the language and the machine."""


def place_of_error(error: BaseException, runner: CodeType) -> Place | None:
    """The line of the kernel, or of a function that it calls, that an error left the language from.

    Parameters
    ----------
    error
        As it was caught.
    runner
        Code of the function that called the kernel.

    Returns
    -------
    Place or None
        None if the error did not come out of the kernel: it had returned.
    """
    frames: list[tuple[CodeType, int]] = []
    step, below = error.__traceback__, False
    while step is not None:
        frame = step.tb_frame
        if below and frame.f_code is not WRAPPER:
            if frame.f_globals.get("__package__") in _MACHINE:
                break
            frames.append((frame.f_code, step.tb_lasti))
        below = below or frame.f_code is runner
        step = step.tb_next
    if not frames:
        return None
    (code, at), *callers = reversed(frames)
    return place_of((code, tuple(callers)), at)
