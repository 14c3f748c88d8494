"""A run's output against a float64 reference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kernbench_nb.errors import CheckError

__all__ = ["Reference", "compare"]

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Reference:
    """What a run should have given.

    Attributes
    ----------
    values
        Gives (O, lse) in float64; of the same sizes as the run's, in any layout with the same order.
    tainted
        Gives the entries of O where a NaN is accepted, or None for none.
    tol
        The tolerance: an entry passes when ``|error| <= tol * (1 + |reference|)``.
    """

    values: Callable[[], Any]
    tainted: Callable[[], Any] | None = None
    tol: float = 2e-3


def compare(name: str, got: Array, want: Any, tol: float, tainted: Any = None) -> float:
    """The worst ``|error| / (1 + |reference|)``.

    NaN must meet NaN, and an infinity the same infinity.

    Parameters
    ----------
    name
        What the error calls it: ``output`` or ``lse``.
    got, want
        The run's array, and the reference's.
    tol
        Tolerance.
    tainted
        Entries where a NaN in `got` is accepted.

    Raises
    ------
    CheckError
        If an entry is beyond the tolerance, naming the worst; or if sizes differ.
    """
    expected = np.asarray(want, np.float64)
    if expected.size != got.size:
        raise CheckError(
            f"{name} has shape {got.shape}, its float64 reference {expected.shape}: they are not the same thing. "
            "Is the run's reference that of another problem?"
        )
    expected = expected.reshape(got.shape)
    actual = got.astype(np.float64)
    if not actual.size:
        return 0.0
    with np.errstate(all="ignore"):
        error = np.abs(actual - expected) / (1 + np.abs(expected))
    fine = (actual == expected) | (np.isnan(actual) & np.isnan(expected))
    if tainted is not None:
        fine |= np.isnan(actual) & np.asarray(tainted, np.bool_).reshape(got.shape)
    error = np.where(fine, 0.0, np.where(np.isnan(error), np.inf, error))
    place = np.unravel_index(int(error.argmax()), error.shape)
    worst = float(error[place])
    # not `worst > tol`: a tolerance of NaN must not pass everything
    if not worst <= tol:
        where = ", ".join(str(int(i)) for i in place)
        raise CheckError(
            f"{name} differs from its float64 reference: {name}[{where}] is {actual[place]:.6g}, expected "
            f"{expected[place]:.6g}; |error| / (1 + |expected|) = {worst:.3g}, tolerance {tol:.3g}; "
            f"{int((~(error <= tol)).sum())} of {error.size} entries are beyond it. Step through the run with "
            "kb.step(run) to see where it goes wrong, or pass tol= if the inputs justify a wider one."
        )
    return worst
