"""The HBM slice of one PE: one channel, first come, first served."""

from __future__ import annotations

__all__ = ["Slice"]


class Slice:
    """What one PE's HBM slice has served so far.

    `Port.read` and `Port.write` write the reservation out in place, since they run for every load:
    ``start = max(arrived, free)``, ``free = start + B`` (machine.md, section 4).

    Attributes
    ----------
    pe
        Global index of the PE whose slice it is.
    free_ps
        When the last access that reserved it has passed.
    busy_ps, nbytes, accesses
        ps that it was occupied, bytes and accesses that it served.
    """

    __slots__ = ("accesses", "busy_ps", "free_ps", "nbytes", "pe")

    def __init__(self, pe: int) -> None:
        self.pe = pe
        self.free_ps = 0
        self.busy_ps = 0
        self.nbytes = 0
        self.accesses = 0

    def __repr__(self) -> str:
        return f"<HBM of PE {self.pe}: {self.accesses} accesses, {self.nbytes} B, busy {self.busy_ps} ps>"
