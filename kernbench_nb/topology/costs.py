"""Every timing formula of the machine, as pure functions on whole numbers.

Times are whole picoseconds, sizes whole bytes. A rate is an exact number (an int or a `fractions.Fraction`,
never a float), and each cost is rounded once, up, to whole picoseconds. Nothing else in the package computes
a duration: the engine asks a `CostModel`, tests and notebooks ask the closed forms below, and both share the
same lines.

Signs used throughout: D dispatch of one command, B busy time of one load on its HBM channel, C compute of one
tile, L one tile's loads from issue to data ready, I issue of the next tile's loads, X one hop of a ring; all
in ps.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kernbench_nb.topology.schema import TopologySpec

__all__ = [
    "SLOW_OPS",
    "CostModel",
    "Hop",
    "Rate",
    "ceil_div",
    "ceil_log2",
    "chain_ps",
    "chain_step_ps",
    "copy_cycles",
    "cost_model",
    "cycles_to_ps",
    "exact",
    "gemm_cycles",
    "hbm_busy_ps",
    "hbm_queue_ps",
    "hierarchical_allreduce_ps",
    "line_broadcast_ps",
    "line_reduce_ps",
    "link_pass",
    "link_ps",
    "link_queue_ps",
    "load_ps",
    "math_cycles",
    "ns_to_ps",
    "path_ps",
    "queue_ps",
    "reduce_cycles",
    "ring_allreduce_ps",
    "ring_hop_ps",
    "ring_hops_ps",
    "ring_ps",
    "softmax_cycles",
    "sweep_prefetch_equal_ps",
    "sweep_prefetch_ps",
    "sweep_prefetch_tiles_ps",
    "sweep_ps",
    "sweep_tiles_ps",
    "systolic_cycles",
    "tree_ps",
    "tree_rounds",
]

Rate = int | Fraction
"""An exact rate: GB/s, GHz or bytes a cycle."""

SLOW_OPS = frozenset(
    ("exp", "exp2", "log", "log2", "div", "sqrt", "rsqrt", "sigmoid", "erf", "sin", "cos", "pow")
)
"""Math operations that take `slow_cycles` a lane group; all others take one."""

SOFTMAX_PARTS = ("max", "sub", "exp", "sum", "div")
"""What one `softmax` does, in order; `max` and `sum` are reductions."""


# Whole numbers ----------------------------------------------------------------------------------------------


def exact(number: float) -> Fraction:
    """The decimal number as it was written: 0.85 is 85/100, not the nearest binary fraction."""
    return Fraction(str(number))


def ceil_div(a: int, b: int) -> int:
    """`a / b` rounded up; `a` >= 0, `b` > 0."""
    return -(-a // b)


def ceil_log2(n: int) -> int:
    """`log2(n)` rounded up; 0 for n = 1 and below."""
    return (n - 1).bit_length() if n > 1 else 0


def ns_to_ps(ns: float | Fraction) -> int:
    """Nanoseconds, as written in a topology, in whole ps, rounded up."""
    thousand = (ns if isinstance(ns, Fraction) else exact(ns)) * 1000
    return ceil_div(thousand.numerator, thousand.denominator)


def cycles_to_ps(cycles: int, clock_ghz: Rate) -> int:
    """Clock cycles in ps, `cycles * 1000 / clock`, rounded once, up.

    Parameters
    ----------
    cycles
        Whole cycles of one cost.
    clock_ghz
        Clock in GHz, exact.
    """
    clock = Fraction(clock_ghz)
    return ceil_div(cycles * 1000 * clock.denominator, clock.numerator)


# 2. GEMM ----------------------------------------------------------------------------------------------------


def gemm_cycles(
    batch: int, m: int, n: int, k: int, *, tile_m: int, tile_n: int, tile_k: int, depth: int
) -> int:
    """Cycles of a matrix product `(batch, m, k) @ (batch, k, n)` on an engine with a native tile.

    `batch * ceil(m/tile_m) * ceil(n/tile_n) * ceil(k/tile_k) + depth`: one native tile a cycle; a batch
    multiplies the product, not the depth of the pipeline.
    """
    return batch * ceil_div(m, tile_m) * ceil_div(n, tile_n) * ceil_div(k, tile_k) + depth


def systolic_cycles(batch: int, m: int, n: int, k: int, *, rows: int, cols: int) -> int:
    """Cycles of the same product on an output-stationary systolic array of `rows` x `cols`.

    `batch * F*k + 2*rows + cols - 2` with `F = ceil(m/rows) * ceil(n/cols)` folds: each fold streams k
    operands through, filling and draining the array is paid once (SCALE-Sim's closed form).
    """
    folds = ceil_div(m, rows) * ceil_div(n, cols)
    return batch * folds * k + 2 * rows + cols - 2


# 3. Math ----------------------------------------------------------------------------------------------------


def math_cycles(n: int, *, lanes: int, per_group: int, fill: int) -> int:
    """Cycles of an elementwise operation with n result elements: `fill + ceil(n / lanes) * c`.

    Parameters
    ----------
    n
        Result elements.
    lanes, per_group, fill
        Width of the engine; cycles c that a full group of lanes takes; cycles to fill the pipeline.
    """
    return fill + ceil_div(n, lanes) * per_group


def reduce_cycles(n: int, *, lanes: int, per_group: int, fill: int) -> int:
    """Cycles of a reduction over n input elements: as `math_cycles`, and `ceil(log2(lanes))` once."""
    return math_cycles(n, lanes=lanes, per_group=per_group, fill=fill) + ceil_log2(lanes)


def softmax_cycles(n: int, *, lanes: int, slow: int, fill: int) -> int:
    """Cycles of `softmax` over n elements: the sum of its five parts, with one fill for all.

    Max, sub, exp, sum, div: `fill + ceil(n/lanes) * (1 + 1 + slow + 1 + slow) + 2 *
    ceil(log2(lanes))`.
    """
    per_group = sum(slow if part in SLOW_OPS else 1 for part in SOFTMAX_PARTS)
    return math_cycles(n, lanes=lanes, per_group=per_group, fill=fill) + 2 * ceil_log2(lanes)


def copy_cycles(dst_bytes: int, *, bytes_per_cycle: int) -> int:
    """Cycles of a `copy`: `ceil(dst bytes / TCM bytes a cycle)`, on the math engine, with no fill."""
    return ceil_div(dst_bytes, bytes_per_cycle)


# 4. HBM -----------------------------------------------------------------------------------------------------


def hbm_busy_ps(nbytes: int, *, setup_ns: Rate, peak_gb_per_s: Rate, efficiency_percent: Rate) -> int:
    """B: how long one access occupies its HBM slice, `setup + bytes / (efficiency * peak)`.

    A GB/s is a byte a nanosecond. The latency is not part of B: it is pipelined and never occupies the
    channel.
    """
    rate = Fraction(peak_gb_per_s) * Fraction(efficiency_percent) / 100
    total = (Fraction(setup_ns) + nbytes / rate) * 1000
    return ceil_div(total.numerator, total.denominator)


def hbm_queue_ps(k: int, busy_ps: int, latency_ps: int) -> int:
    """Time of k equal loads queued at once on one slice, to the last data: `k*B + latency`; 0 for none."""
    return k * busy_ps + latency_ps if k else 0


def queue_ps(dispatch_ps: int, busys_ps: Iterable[int], latency_ps: int) -> int:
    """Commands issued one after another into one FIFO resource, until the last one has arrived.

    The i-th command (from 1) is issued at `i*D`, starts when the resource is free, occupies it for its busy
    time and arrives `latency` later. This is exact in every regime: while each busy time is at least D it is
    `D + sum(B) + latency`, and where all but the last hide behind their dispatches it is `k*D + B_last +
    latency`.
    """
    issued = free = done = 0
    for busy in busys_ps:
        issued += dispatch_ps
        free = max(free, issued) + busy
        done = free + latency_ps
    return done


def load_ps(dispatch_ps: int, busys_ps: Iterable[int], latency_ps: int) -> int:
    """L: one tile's loads, issued together, from the first issue until the last data is ready.

    `L = D + sum(B) + latency` while each B is at least D, as set-up makes sure on the
    shipped presets; see `queue_ps` for the other regime.
    """
    return queue_ps(dispatch_ps, busys_ps, latency_ps)


# 5. Links ---------------------------------------------------------------------------------------------------


class Hop(Protocol):
    """What a path is made of: a bandwidth in GB/s (None: infinitely wide) and a latency in ps."""

    @property
    def gb_per_s(self) -> Rate | None:
        """Bandwidth in GB/s, that is bytes a ns; None for an infinitely wide link."""

    @property
    def latency_ps(self) -> int:
        """Latency in ps."""


def link_ps(nbytes: int, gb_per_s: Rate | None) -> int:
    """How long n bytes occupy one link: `n / b`, rounded up; 0 when it is infinitely wide (None)."""
    if gb_per_s is None:
        return 0
    return ceil_div(nbytes * 1000 * gb_per_s.denominator, gb_per_s.numerator)


def link_pass(
    head_ps: int, tail_ps: int, free_ps: int, busy_ps: int, latency_ps: int
) -> tuple[int, int, int]:
    """One message through one link of its path.

    Virtual cut-through with FIFO reservation: `head = max(head, free); end = max(head
    + n/b, tail)`; the link is busy `[end - n/b, end]`; then `head += latency; tail = end + latency`. At the
    start of a path head and tail are both the time of sending.

    Parameters
    ----------
    head_ps, tail_ps
        When the message's first and last byte reach this link.
    free_ps
        When the link is free, that is the `end` of the message before.
    busy_ps, latency_ps
        `n / b` of this message on this link, and the link's latency.

    Returns
    -------
    head_ps, tail_ps, end_ps
        When first and last byte have passed, and when the link is free again.
    """
    head = max(head_ps, free_ps)
    end = max(head + busy_ps, tail_ps)
    return head + latency_ps, end + latency_ps, end


def path_ps(nbytes: int, links: Iterable[Hop]) -> int:
    """Time of n bytes alone over a path, to the last byte's arrival: `sum(latency) + n / min(b)`."""
    latency = longest = 0
    for link in links:
        latency += link.latency_ps
        longest = max(longest, link_ps(nbytes, link.gb_per_s))
    return latency + longest


def link_queue_ps(k: int, nbytes: int, gb_per_s: Rate | None, latency_ps: int) -> int:
    """Time of k senders of n bytes each into one link at once, until the last arrival: `k*n/b + latency`.

    0 for no sender. Each message's `n / b` is rounded by itself, as each is one cost.
    """
    return k * link_ps(nbytes, gb_per_s) + latency_ps if k else 0


# 6. A sweep over tiles --------------------------------------------------------------------------------------


def sweep_ps(tiles: int, load: int, c_first: int, c: int) -> int:
    """Single-buffered sweep: a tile's loads are issued, then waited for, then computed on.

    `N*L + C_first + (N-1)*C`; 0 for no tile.

    Parameters
    ----------
    tiles
        N.
    load
        L in ps.
    c_first, c
        Compute of the first tile and of each later one, dispatches included, in ps.
    """
    return tiles * load + c_first + (tiles - 1) * c if tiles else 0


def sweep_prefetch_ps(tiles: int, load: int, issue: int, c_first: int, c: int) -> int:
    """Double-buffered sweep: wait for tile i, issue the loads of i+1, compute on i.

    `L + max(L, I + C_first) + (N-2) * max(L, I + C) + C`; `L + C_first` for one tile, 0 for none. The loads
    of tile i+1 run beside the compute of tile i, so the gain over `sweep_ps` is at most 2x.

    Parameters
    ----------
    issue
        I in ps: dispatches of the next tile's loads, `k*D`.
    tiles, load, c_first, c
        As in `sweep_ps`.
    """
    if tiles < 2:
        return (load + c_first) * tiles
    return load + max(load, issue + c_first) + (tiles - 2) * max(load, issue + c) + c


def sweep_prefetch_equal_ps(tiles: int, load: int, issue: int, c: int) -> int:
    """`sweep_prefetch_ps` for tiles that are all equal: `L + C + (N-1) * max(L, I + C)`; 0 for no tile."""
    return load + c + (tiles - 1) * max(load, issue + c) if tiles else 0


def sweep_tiles_ps(loads_ps: Sequence[int], computes_ps: Sequence[int]) -> int:
    """`sweep_ps` for tiles that differ, such as a short last one: the sum of every tile's L and C."""
    return sum(loads_ps) + sum(computes_ps)


def sweep_prefetch_tiles_ps(
    loads_ps: Sequence[int], issues_ps: Sequence[int], computes_ps: Sequence[int]
) -> int:
    """`sweep_prefetch_ps` for tiles that differ: `L_0 + sum of max(L_i, I_i + C_(i-1)) + C_last`; 0 for no tile.

    Parameters
    ----------
    loads_ps, issues_ps, computes_ps
        L, I and C of each tile.
    """
    if not loads_ps:
        return 0
    beside = zip(loads_ps[1:], issues_ps[1:], computes_ps[:-1], strict=True)
    return loads_ps[0] + sum(max(load, issue + c) for load, issue, c in beside) + computes_ps[-1]


# 7. Chain and tree ------------------------------------------------------------------------------------------


def chain_step_ps(
    dispatch_ps: int, transfer_ps: int, latency_ps: int, merge_ps: int, *, messages: int = 1
) -> int:
    """One step of a chain of merges: `messages*D + n/b + sum(latency) + merge`.

    With more than one message, `transfer_ps` is that of the last and largest (O after m and l), and the small
    ones hide behind the dispatches that follow them; where they do not, `queue_ps` over all of them is exact.

    Parameters
    ----------
    dispatch_ps, transfer_ps, latency_ps
        D, `n / min(b)` of the last message, and the latency of the path.
    merge_ps
        Dispatches and costs of the receiver's merge.
    messages
        Messages a step.
    """
    return messages * dispatch_ps + transfer_ps + latency_ps + merge_ps


def chain_ps(p: int, step_ps: int) -> int:
    """A chain over p PEs that are ready together: p-1 merges, one after another."""
    return max(p - 1, 0) * step_ps


def tree_rounds(p: int) -> int:
    """Rounds of a binary tree over p PEs: `ceil(log2 p)`; the merges are p-1 all the same."""
    return ceil_log2(p)


def tree_ps(p: int, step_ps: int, extra_latency_ps: int = 0) -> int:
    """A tree over p PEs that are ready together: `rounds * step + latency of the hops beyond one a round`.

    Exact where p is a power of two. Elsewhere it is a bound: a PE with no partner in a round sends ahead of the
    next one, so at p = 3 a tree is already a transfer shorter than a chain.
    """
    return tree_rounds(p) * step_ps + extra_latency_ps


# 8. Ring of K and V blocks ----------------------------------------------------------------------------------


def ring_hop_ps(dispatch_ps: int, transfer_ps: int, latency_ps: int) -> int:
    """X: one block's hop to the neighbour, `D + n/b + sum(latency)`, n of K and V together."""
    return dispatch_ps + transfer_ps + latency_ps


def ring_ps(p: int, compute_ps: int, dispatch_ps: int, hop_ps: int) -> int:
    """Ring over p cubes: `C + (p-1) * max(C + 4D, X)`.

    A step dispatches two sends (K, V), folds the block in hand, then dispatches two receives: the hop hides
    behind the fold if `X <= C + 4D`. The last block is folded with nothing sent.
    """
    return compute_ps + max(p - 1, 0) * max(compute_ps + 4 * dispatch_ps, hop_ps)


def ring_hops_ps(compute_ps: int, dispatch_ps: int, hops_ps: Sequence[int]) -> int:
    """The same ring where hops differ: `hops_ps[c]` is X from cube c to cube (c+1) mod p.

    Block s is in cube c's hand at `T(c, s) = max(T(c, s-1) + C + 4D, T(c-1, s-1) + X of c-1)`, with T(c, 0) =
    0; the ring ends at `max over c of T(c, p-1) + C`. Messages of different hops are taken not to meet on a
    link.
    """
    p = len(hops_ps)
    step = compute_ps + 4 * dispatch_ps
    ready = [0] * p
    for _ in range(p - 1):
        ready = [max(ready[c] + step, ready[c - 1] + hops_ps[c - 1]) for c in range(p)]
    return compute_ps + max(ready, default=0)


# 9. All-reduce ----------------------------------------------------------------------------------------------


def ring_allreduce_ps(p: int, alpha_ps: int, nbytes: int, gb_per_s: Rate | None) -> int:
    """Ring all-reduce over p PEs: `2(p-1) * (alpha + n/(p*b))`.

    Parameters
    ----------
    p
        Members; one member has nothing to do.
    alpha_ps
        What a step costs beside the transfer: dispatches, latency, and the addition.
    nbytes, gb_per_s
        Bytes of the whole vector, of which each step moves a p-th, and the narrowest bandwidth of a hop.
    """
    if p < 2:
        return 0
    step = 0 if gb_per_s is None else ceil_div(nbytes * 1000 * gb_per_s.denominator, p * gb_per_s.numerator)
    return 2 * (p - 1) * (alpha_ps + step)


def line_reduce_ps(before: int, after: int, hop_ps: int, add_ps: int) -> int:
    """Reduce a line of cubes from both ends onto one in between: one phase of the hierarchical all-reduce.

    A side of s cubes delivers its sum after `s*hop + (s-1)*add`; the centre then adds the sides in order of
    arrival.

    Parameters
    ----------
    before, after
        Cubes on either side of the centre.
    hop_ps
        `D + n/b + latency` between neighbours.
    add_ps
        Receive and addition, dispatches included.
    """
    arrivals = sorted(side * hop_ps + (side - 1) * add_ps for side in (before, after) if side)
    done = 0
    for arrival in arrivals:
        done = max(done, arrival) + add_ps
    return done


def line_broadcast_ps(before: int, after: int, hop_ps: int, dispatch_ps: int) -> int:
    """Send a line's centre value to both ends: one phase of the hierarchical all-reduce.

    The longer side is served first. The longer side ends after `s*hop`; the other starts one dispatch later.
    """
    far, near = max(before, after), min(before, after)
    return max(far * hop_ps, near * hop_ps + dispatch_ps if near else 0)


def hierarchical_allreduce_ps(phases_ps: Iterable[int]) -> int:
    """Add up the five phases of `lrab_hierarchical_allreduce`, each of which needs the one before.

    Rows onto the centre column, the column onto the root cube, the SIP roots among themselves, then the
    broadcasts along the column and along the rows.
    """
    return sum(phases_ps)


# The object that the hot path asks --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CostModel:
    """The costs of one PE of one machine, with every constant worked out once.

    Each method is a few integer operations; callers cache results per interned operand type.

    Attributes
    ----------
    clock_ghz
        Clock, exact.
    dispatch_ps
        D: what each command costs on its PE's issue line.
    hbm_latency_ps
        From the end of a load's busy time to its data.
    hbm_peak_gb_per_s, hbm_gb_per_s
        Peak of a PE's HBM slice, and what efficiency leaves of it.
    macs_per_cycle
        Peak multiply-accumulates of the GEMM engine a cycle; two FLOPs each.
    gemm_model
        ``native`` or ``systolic``.
    """

    clock_ghz: Fraction
    dispatch_ps: int
    hbm_latency_ps: int
    hbm_peak_gb_per_s: Fraction
    hbm_gb_per_s: Fraction
    macs_per_cycle: int
    gemm_model: str
    tile_m: int
    tile_n: int
    tile_k: int
    depth_cycles: int
    rows: int
    cols: int
    lanes: int
    fill_cycles: int
    slow_cycles: int
    copy_bytes_per_cycle: int
    # A cost is ceil(cycles * cycle_num / cycle_den) and ceil((setup_num + bytes * byte_num) / hbm_den).
    cycle_num: int
    cycle_den: int
    hbm_setup_num: int
    hbm_byte_num: int
    hbm_den: int

    def cycles_ps(self, cycles: int) -> int:
        """Whole cycles in ps, rounded up."""
        return -(-cycles * self.cycle_num // self.cycle_den)

    def gemm_ps(self, batch: int, m: int, n: int, k: int) -> int:
        """`(batch, m, k) @ (batch, k, n)` on the GEMM engine; see `gemm_cycles` and `systolic_cycles`."""
        if self.gemm_model == "native":
            cycles = gemm_cycles(
                batch, m, n, k,
                tile_m=self.tile_m, tile_n=self.tile_n, tile_k=self.tile_k, depth=self.depth_cycles,
            )  # fmt: skip
        else:
            cycles = systolic_cycles(batch, m, n, k, rows=self.rows, cols=self.cols)
        return self.cycles_ps(cycles)

    def per_group(self, op: str) -> int:
        """c(op): cycles of a full group of lanes, by the `tl` name of the operation."""
        return self.slow_cycles if op in SLOW_OPS else 1

    def math_ps(self, op: str, n: int) -> int:
        """Elementwise `op` with n result elements (creation included); see `math_cycles`."""
        return self.cycles_ps(
            math_cycles(n, lanes=self.lanes, per_group=self.per_group(op), fill=self.fill_cycles)
        )

    def reduce_ps(self, op: str, n: int) -> int:
        """Reduction `op` over n input elements; see `reduce_cycles`."""
        return self.cycles_ps(
            reduce_cycles(n, lanes=self.lanes, per_group=self.per_group(op), fill=self.fill_cycles)
        )

    def softmax_ps(self, n: int) -> int:
        """`softmax` over n elements, one row in the log; see `softmax_cycles`."""
        return self.cycles_ps(
            softmax_cycles(n, lanes=self.lanes, slow=self.slow_cycles, fill=self.fill_cycles)
        )

    def copy_ps(self, dst_bytes: int) -> int:
        """`copy` of that many bytes; see `copy_cycles`."""
        return self.cycles_ps(copy_cycles(dst_bytes, bytes_per_cycle=self.copy_bytes_per_cycle))

    def hbm_busy_ps(self, nbytes: int) -> int:
        """B: how long an access of that many bytes occupies the HBM slice; see the function of that name."""
        return -(-(self.hbm_setup_num + nbytes * self.hbm_byte_num) // self.hbm_den)


def cost_model(spec: TopologySpec) -> CostModel:
    """The `CostModel` of a validated topology."""
    pe = spec.pe
    clock = exact(pe.clock_ghz)
    peak = pe.hbm.pseudo_channels * exact(pe.hbm.gb_per_s_per_channel)
    effective = peak * exact(pe.hbm.efficiency_percent) / 100
    setup_ps = exact(pe.dma.setup_ns) * 1000
    byte_ps = 1000 / effective
    # Over one denominator, so that set-up and transfer are rounded together, once.
    den = setup_ps.denominator * byte_ps.denominator
    native = pe.gemm.model == "native"
    tile = (pe.gemm.tile_m, pe.gemm.tile_n, pe.gemm.tile_k)
    rows, cols = pe.gemm.rows or 0, pe.gemm.cols or 0
    return CostModel(
        clock_ghz=clock,
        dispatch_ps=cycles_to_ps(pe.dispatch_cycles, clock),
        hbm_latency_ps=ns_to_ps(pe.hbm.latency_ns),
        hbm_peak_gb_per_s=peak,
        hbm_gb_per_s=effective,
        macs_per_cycle=tile[0] * tile[1] * tile[2] if native else rows * cols,
        gemm_model=pe.gemm.model,
        tile_m=tile[0],
        tile_n=tile[1],
        tile_k=tile[2],
        depth_cycles=pe.gemm.depth_cycles,
        rows=rows,
        cols=cols,
        lanes=pe.math.lanes,
        fill_cycles=pe.math.fill_cycles,
        slow_cycles=pe.math.slow_cycles,
        copy_bytes_per_cycle=pe.tcm.bytes_per_cycle,
        cycle_num=1000 * clock.denominator,
        cycle_den=clock.numerator,
        hbm_setup_num=(setup_ps * den).numerator,
        hbm_byte_num=(byte_ps * den).numerator,
        hbm_den=den,
    )
