"""Every error that a user can meet.

Each says what was expected, what came, where (handle name, shape, kernel line, PE) and what to do next. An error that
a kernel raised carries `run`, the run so far, once the launch has ended.
"""

from __future__ import annotations

from typing import Any


def grouped(number: int) -> str:
    """A whole number in groups of three, as every text of the package writes it.

    >>> grouped(1048576)
    '1 048 576'
    """
    return f"{number:,}".replace(",", " ")


class KernbenchError(Exception):
    """Base of the package's own errors.

    Attributes
    ----------
    run
        The `RunResult` so far when the error came out of a launch, else None.
    """

    run: Any = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle it whatever its arguments were: its text, then its attributes, `run` among them."""
        return _restored, (type(self), self.args), self.__dict__


def _restored(kind: type[KernbenchError], args: tuple[Any, ...]) -> KernbenchError:
    """An error that was pickled, before it gets its attributes."""
    error = kind.__new__(kind, *args)
    error.args = args
    return error


class ScratchOverflowError(KernbenchError, RuntimeError):
    """A request did not fit the scratch; the cursor is where it was.

    Attributes
    ----------
    required
        Bytes that would have been in use, had the request been granted.
    limit
        Capacity of the scratch in bytes.
    name
        Which resource ran out: always ``"scratch"``.
    wanted, free
        Bytes of the request, and bytes between the cursor and the end.
    """

    name = "scratch"

    def __init__(self, message: str, *, required: int, limit: int, wanted: int, free: int) -> None:
        super().__init__(message)
        self.required = required
        self.limit = limit
        self.wanted = wanted
        self.free = free


class ScopeOrderError(KernbenchError, RuntimeError):
    """Scopes were entered or left out of order; nothing was freed."""


class UseAfterScopeError(KernbenchError, RuntimeError):
    """A handle was used after the scope that owned its bytes had ended."""


class ReadBeforeWaitError(KernbenchError, RuntimeError):
    """The destination of a `load_async` was touched before its wait."""


class PendingLoadError(KernbenchError, RuntimeError):
    """A scope ended while a load into its bytes was still in flight."""


class UninitializedReadError(KernbenchError, RuntimeError):
    """Bytes were read that nothing had written."""


class OutOfBoundsError(KernbenchError, IndexError):
    """A load or store left its tensor's shard."""


class ShapeError(KernbenchError, ValueError):
    """Shapes, ranks or dtypes of operands do not go together."""


class DTypeError(KernbenchError, TypeError):
    """A dtype is unknown, or an operation has no meaning for it."""


class DataModeError(KernbenchError, RuntimeError):
    """A value was asked for in timing mode, where there are no values."""


class MessageError(KernbenchError, RuntimeError):
    """The two ends of a message do not agree, or there is no such peer."""


class DeadlockError(KernbenchError, RuntimeError):
    """Nothing is left to run and PEs are still blocked."""


class PlacementError(KernbenchError, ValueError):
    """Tensors' placements do not agree with each other or with the machine."""


class CheckError(KernbenchError, AssertionError):
    """A run's output differs from the float64 reference by more than the tolerance."""


class ModelError(KernbenchError, AssertionError):
    """An invariant of the timing model is violated: a bug of the simulator."""


class TopologyError(KernbenchError, ValueError):
    """A topology file or mapping is not valid."""


class WrongAnswer(KernbenchError):
    """An exercise of the course was answered, and not rightly; IPython shows it in two lines, with no traceback.

    Attributes
    ----------
    exercise
        Its id.
    got
        What was answered, or what came of it.
    idea
        What is missing, without the answer.
    """

    def __init__(self, exercise: str, got: str, idea: str) -> None:
        super().__init__(f"exercise {exercise}: {got}\n{idea}")
        self.exercise = exercise
        self.got = got
        self.idea = idea

    def _render_traceback_(self) -> list[str]:
        """What IPython shows: where a check raises is no news to a reader."""
        return str(self).splitlines()


class UnwaitedLoadWarning(UserWarning):
    """A `load_async` was never waited on before its kernel ended."""
