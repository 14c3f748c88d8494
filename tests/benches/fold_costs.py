"""What a fold, a merge and an end of the shared step cost, added up by hand from the machine's formulas.

Written from the algorithm's list of operations, not from the kernels: each line is one operation, and each has its
dispatch. The tests set these sums into the closed forms and compare with a run, to the picosecond.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernbench_nb.topology import Topology, costs


@dataclass(frozen=True)
class StepCosts:
    """Sums of ``D + cost`` in ps, f16, no mask."""

    machine: Topology
    h_q: int
    h_kv: int
    d: int
    t_q: int = 1

    @property
    def rows(self) -> int:
        return self.h_q * self.t_q

    @property
    def dispatch(self) -> int:
        return self.machine.costs.dispatch_ps

    def _sum(self, *parts: int) -> int:
        return sum(parts) + len(parts) * self.dispatch

    def load(self, *nbytes: int) -> int:
        """Loads issued one after another, then one wait: L."""
        model = self.machine.costs
        return costs.load_ps(self.dispatch, map(model.hbm_busy_ps, nbytes), model.hbm_latency_ps)

    def kv(self, t: int) -> tuple[int, int]:
        """Bytes of K and of V of t keys."""
        return 2 * t * self.h_kv * self.d, 2 * t * self.h_kv * self.d

    def first(self, t: int) -> int:
        """C_first: qk, s, max, s-m, exp, sum, p, p*V."""
        m, n = self.machine.costs, self.rows * t
        return self._sum(
            m.gemm_ps(self.h_kv, self.rows // self.h_kv, t, self.d),
            m.math_ps("mul", n),
            m.reduce_ps("max", n),
            m.math_ps("sub", n),
            m.math_ps("exp", n),
            m.reduce_ps("sum", n),
            m.math_ps("cast", n),
            m.gemm_ps(self.h_kv, self.rows // self.h_kv, self.d, t),
        )

    def fold(self, t: int) -> int:
        """C: the same, and m_new, m-m_new, c, l*c, l_new, O*c, O_new, and three copies."""
        m, r, n_o = self.machine.costs, self.rows, self.rows * self.d
        return self.first(t) + self._sum(
            m.math_ps("maximum", r),
            m.math_ps("sub", r),
            m.math_ps("exp", r),
            m.math_ps("mul", r),
            m.math_ps("add", r),
            m.math_ps("mul", n_o),
            m.math_ps("add", n_o),
            *self._copies(),
        )

    def merge(self) -> int:
        """A merge: m_new and its guard, two corrections, l and O of both sides, three copies."""
        m, r, n_o = self.machine.costs, self.rows, self.rows * self.d
        return self._sum(
            *(
                m.math_ps(op, r)
                for op in ("maximum", "gt", "where", "sub", "exp", "sub", "exp", "mul", "mul", "add")
            ),
            *(m.math_ps(op, n_o) for op in ("mul", "mul", "add")),
            *self._copies(),
        )

    def _copies(self) -> tuple[int, int, int]:
        copy = self.machine.costs.copy_ps
        return copy(4 * self.rows), copy(4 * self.rows), copy(4 * self.rows * self.d)

    def finish(self) -> int:
        """l > 0, a safe l, O / l, and the store of O."""
        m, n_o = self.machine.costs, self.rows * self.d
        return self._sum(
            m.math_ps("gt", self.rows),
            m.math_ps("where", self.rows),
            m.math_ps("div", n_o),
            m.hbm_busy_ps(2 * n_o),
        )

    def query(self) -> int:
        """The load of Q."""
        return self.load(2 * self.rows * self.d)
