"""The HBM slice of one PE: one channel, first come, first served."""

from __future__ import annotations

from kernbench_nb.topology import CostModel

__all__ = ["Slice"]


class Slice:
    """What one PE's HBM slice has served so far.

    An access starts at ``max(arrived, free)`` and occupies the channel for B (`costs.queue_ps`). `Port` reads
    and sets `free_ps` and counts in `sizes` by itself, since it does so for every load.

    Attributes
    ----------
    pe
        Global index of the PE whose slice it is.
    free_ps
        When the last access that reserved it has passed.
    sizes
        By bytes of an access: [B in ps, how many there were].
    """

    __slots__ = ("_costs", "free_ps", "pe", "sizes")

    def __init__(self, pe: int, costs: CostModel) -> None:
        self.pe = pe
        self.free_ps = 0
        self.sizes: dict[int, list[int]] = {}
        self._costs = costs

    def size(self, nbytes: int) -> list[int]:
        """The entry of `sizes` for accesses of that many bytes, made on the first one."""
        entry = self.sizes.get(nbytes)
        if entry is None:
            entry = self.sizes[nbytes] = [self._costs.hbm_busy_ps(nbytes), 0]
        return entry

    @property
    def busy_ps(self) -> int:
        """Time that it was occupied, in ps."""
        return sum(busy * count for busy, count in self.sizes.values())

    @property
    def nbytes(self) -> int:
        """Bytes that it served."""
        return sum(nbytes * count for nbytes, (_, count) in self.sizes.items())

    @property
    def accesses(self) -> int:
        """Reads and writes that it served."""
        return sum(count for _, count in self.sizes.values())

    def __repr__(self) -> str:
        return f"<HBM of PE {self.pe}: {self.accesses} accesses, {self.nbytes} B, busy {self.busy_ps} ps>"
