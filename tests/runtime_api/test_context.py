"""A bench: tensors by policy, launches on the PEs that hold them, and what `run_bench` gives back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import kernbench_nb as kb
from kernbench_nb import DPPolicy
from kernbench_nb.errors import PlacementError
from kernbench_nb.runtime_api.bench_runner import run_bench
from kernbench_nb.runtime_api.types import Device, resolve_device
from kernbench_nb.sim_engine import GraphEngine
from kernbench_nb.topology import resolve_topology

TWO_BY_FOUR = {"num_cubes": 2, "num_pes": 4}


def run(bench: Callable[[Any], Any], data: bool = True, topology: Any = "ahbm") -> kb.RunResult:
    return run_bench(
        topology=topology, bench_fn=bench, engine_factory=lambda t, d: GraphEngine(t, enable_data=data)
    )  # fmt: skip


def noop(*args: Any, tl: Any) -> None:
    """A kernel that does nothing with whatever it is given."""


# -- devices and engines -----------------------------------------------------------------------------------------


def test_devices() -> None:
    assert resolve_device(None) == resolve_device("sim") == resolve_device(Device()) == Device("sim")
    with pytest.raises(ValueError, match=r"unknown device 'smi'; did you mean 'sim'"):
        resolve_device("smi")


def test_the_engine_is_made_by_the_factory_with_what_it_was_given() -> None:
    class Wrapped:
        topology_obj = resolve_topology("tiny")

    seen: list[Any] = []

    def factory(topology: Any, device: Any) -> GraphEngine:
        seen.append((topology, device))
        return GraphEngine(topology.topology_obj, enable_data=True)

    wrapped = Wrapped()
    result = run_bench(topology=wrapped, bench_fn=lambda ctx: None, device="sim", engine_factory=factory)
    assert seen == [(wrapped, Device())]
    assert result.topology is Wrapped.topology_obj
    assert result.completion.ok
    assert len(result.engine.op_log) == len(result.op_log) == 0


def test_without_a_factory_the_engine_has_data() -> None:
    names = []

    def bench(ctx: Any) -> None:
        x = ctx.zeros((2, 2), name="x")
        ctx.launch("noop", noop, x)
        names.append((ctx.device, ctx.spec.name, list(ctx.tensors)))

    assert run_bench(topology="tiny", bench_fn=bench).data
    assert names == [(Device(), "tiny", ["x"])]


# -- tensors -----------------------------------------------------------------------------------------------------


def test_what_tensors_hold() -> None:
    values = np.arange(6.0).reshape(2, 3)
    made: dict[str, Any] = {}

    def bench(ctx: Any) -> None:
        made["zeros"] = ctx.zeros((2, 3), dtype="f32").numpy()
        made["empty"] = ctx.empty((2, 3)).numpy()
        made["ints"] = ctx.empty((2,), dtype="i16").numpy()
        made["tensor"] = ctx.tensor(values).numpy()
        made["bf16"] = ctx.tensor(values / 3, dtype="bf16").numpy()
        made["list"] = ctx.tensor([[1, 2], [3, 4]], dtype="f16").numpy()
        made["names"] = list(ctx.tensors)

    run(bench)
    assert made["zeros"].dtype == np.float32
    assert not made["zeros"].any()
    assert np.isnan(made["empty"]).all()
    assert (made["empty"].dtype, list(made["ints"])) == (np.float16, [-1, -1])
    np.testing.assert_array_equal(made["tensor"], values)
    np.testing.assert_array_equal(made["bf16"], (values / 3).astype(ml_dtypes.bfloat16))
    np.testing.assert_array_equal(made["list"], [[1, 2], [3, 4]])
    assert made["names"] == [f"tensor{i}" for i in range(6)]


def test_a_tensor_does_not_change_the_array_that_it_was_made_of() -> None:
    values = np.ones((4, 2), np.float32)

    def store(x: Any, *, tl: Any) -> None:
        tl.store(x, tl.zeros((2, 2), "f32"))

    def bench(ctx: Any) -> None:
        ctx.launch("store", store, ctx.tensor(values, dp=DPPolicy(pe="row_wise", num_pes=2), name="x"))

    result = run(bench)
    assert not result.outputs["x"].any()
    assert values.all()


@pytest.mark.parametrize(
    ("policy", "shapes"),
    [
        (DPPolicy(cube="row_wise", pe="row_wise", **TWO_BY_FOUR), [(n, 3) for n in (1, 1, 1, 0, 1, 1, 0, 0)]),
        (DPPolicy(cube="replicate", pe="row_wise", **TWO_BY_FOUR), [(2, 3), (1, 3), (1, 3), (1, 3)] * 2),
        (DPPolicy(cube="row_wise", pe="column_wise", **TWO_BY_FOUR), [(n, m) for n in (3, 2) for m in (1, 1, 1, 0)]),
        (DPPolicy(**TWO_BY_FOUR), [(5, 3)] * 8),
    ],
)  # fmt: skip
def test_shards(policy: DPPolicy, shapes: list[tuple[int, int]]) -> None:
    values = np.arange(15, dtype=np.float32).reshape(5, 3)
    seen: dict[int, tuple[int, ...]] = {}

    def copy(x: Any, y: Any, *, tl: Any) -> None:
        seen[tl.pe_index(tl.program_id(0), tl.program_id(1))] = shape = x.shard.shape
        tl.store(y, tl.load(x, shape) * 2)

    def bench(ctx: Any) -> None:
        x, y = ctx.tensor(values, dp=policy, name="x"), ctx.empty((5, 3), dtype="f32", dp=policy, name="y")
        ctx.launch("copy", copy, x, y)

    result = run(bench)
    assert [seen[pe] for pe in (0, 1, 2, 3, 8, 9, 10, 11)] == shapes
    np.testing.assert_array_equal(result.outputs["y"], 2 * values)
    assert list(result.outputs) == ["y"]


def test_a_pointer_counts_elements_of_its_shard() -> None:
    def kernel(x: Any, out: Any, *, tl: Any) -> None:
        tl.store(out + tl.program_id(0), tl.load(x + 2, (1,)))

    def bench(ctx: Any) -> None:
        rows = DPPolicy(pe="row_wise", num_pes=4)
        x = ctx.tensor(np.arange(12, dtype=np.float32).reshape(4, 3), dp=rows, name="x")
        out = ctx.empty((4, 1), dtype="f32", dp=rows, name="out")
        ctx.launch("kernel", kernel, x, out)

    with pytest.raises(kb.OutOfBoundsError, match=r"'out'.*PE 1, rows 1:2.* has elements 0 to 0"):
        run(bench)


def test_a_tensor_may_start_some_elements_in() -> None:
    def kernel(x: Any, out: Any, *, tl: Any) -> None:
        tl.store(out, tl.load(x, (1,)))

    def bench(ctx: Any) -> None:
        rows = DPPolicy(pe="row_wise", num_pes=4)
        x = ctx.tensor(np.arange(12, dtype=np.float32).reshape(4, 3), dp=rows, name="x")
        ctx.launch("kernel", kernel, x + 2, ctx.empty((4, 1), dtype="f32", dp=rows, name="out"))

    assert run(bench).outputs["out"].ravel().tolist() == [2, 5, 8, 11]


def test_names_are_unique() -> None:
    def bench(ctx: Any) -> None:
        ctx.zeros((1,), name="x")
        ctx.zeros((1,), name="x")

    with pytest.raises(ValueError, match="a tensor named 'x' exists already"):
        run(bench)


# -- launches ----------------------------------------------------------------------------------------------------


def test_a_launch_follows_the_policies_of_its_tensors() -> None:
    def who(policies: list[DPPolicy]) -> list[int]:
        def bench(ctx: Any) -> None:
            ctx.launch(
                "noop", noop, *(ctx.zeros((8, 8), dp=dp, name=f"x{i}") for i, dp in enumerate(policies))
            )

        return list(run(bench).pes)

    assert who([DPPolicy(num_pes=2), DPPolicy(num_pes=3)]) == [0, 1, 2]
    assert who([DPPolicy(pe="row_wise", num_pes=4), DPPolicy(num_pes=2)]) == [0, 1, 2, 3]
    assert who([DPPolicy(cube="row_wise", num_cubes=2, num_pes=2)]) == [0, 1, 8, 9]
    assert who([DPPolicy(sip="row_wise", num_sips=2)]) == [0, 128]


@pytest.mark.parametrize(
    ("policies", "text"),
    [
        ([DPPolicy(pe="row_wise", num_pes=4), DPPolicy(pe="row_wise", num_pes=2)],
         r"'x0' and 'x1' are split over different PEs: \(SIPs, cubes, PEs\) \(1, 1, 4\) and \(1, 1, 2\)"),
        ([DPPolicy(pe="row_wise", num_pes=2), DPPolicy(num_pes=4)],
         r"'x1' is replicated over .*\(1, 1, 4\), more than \(1, 1, 2\) over which 'x0' is split"),
        ([], r"a launch needs at least one tensor"),
        ([DPPolicy(num_pes=9)], r"num_pes=9.*does not fit topology 'ahbm', which has 8"),
    ],
)  # fmt: skip
def test_policies_that_do_not_agree(policies: list[DPPolicy], text: str) -> None:
    def bench(ctx: Any) -> None:
        ctx.launch("noop", noop, *(ctx.zeros((8, 8), dp=dp, name=f"x{i}") for i, dp in enumerate(policies)))

    with pytest.raises(PlacementError, match=text) as caught:
        run(bench)
    assert caught.value.run.op_log.rows.parts == ()


def test_a_wrong_call_is_refused_before_anything_runs() -> None:
    def kernel(x: Any, n: int, *, tl: Any) -> None:
        raise AssertionError("ran")

    def bench(ctx: Any) -> None:
        ctx.launch("kernel", kernel, ctx.zeros((1,)))

    with pytest.raises(TypeError, match=r"missing a required argument: 'n': the kernel is kernel\(x"):
        run(bench)


def test_a_replica_on_another_pe_is_read_over_the_links() -> None:
    """A tensor replicated on PE 0 alone stands in for all; its owner and the links are charged."""

    def kernel(table: Any, rows: Any, *, tl: Any) -> None:
        tl.store(rows, tl.load(table, (1, 64)) + tl.program_id(0))

    def bench(ctx: Any) -> None:
        table = ctx.tensor(np.full((1, 64), 5, np.float32), name="table")
        rows = ctx.empty((4, 64), dtype="f32", dp=DPPolicy(pe="row_wise", num_pes=4), name="rows")
        ctx.launch("kernel", kernel, table, rows)

    result = run(bench)
    np.testing.assert_array_equal(result.outputs["rows"][:, 0], [5, 6, 7, 8])
    loads = {r.pe: r for r in result.op_log if r.op_name == "dma_read"}
    busy = result.topology.costs.hbm_busy_ps(256)
    # they queue for PE 0's slice in order of arrival: the nearer, the earlier
    assert [loads[pe].start_ps for pe in range(4)] == [4_000 + i * busy for i in range(4)]
    far = loads[3].end_ps - loads[3].start_ps
    route = result.topology.route(0, 3)
    assert far == busy + result.topology.costs.hbm_latency_ps + route.latency_ps + route.links[0].busy_ps(256)


def test_replicas_serve_the_pes_beyond_them_in_turn() -> None:
    """A table on PEs 0 and 1: PE 2 reads that of PE 0, PE 3 that of PE 1."""

    def kernel(table: Any, rows: Any, *, tl: Any) -> None:
        tl.load(table, (1, 64))

    def bench(ctx: Any) -> None:
        table = ctx.zeros((1, 64), dtype="f32", dp=DPPolicy(num_pes=2), name="table")
        rows = ctx.empty((4, 64), dtype="f32", dp=DPPolicy(pe="row_wise", num_pes=4), name="rows")
        ctx.launch("kernel", kernel, table, rows)

    result = run(bench)
    starts = {r.pe: r.start_ps for r in result.op_log}
    busy = result.topology.costs.hbm_busy_ps(256)
    # PE 2 is two hops from PE 0, PE 3 two from PE 1: they arrive while the owner's own load is still busy
    assert starts == {0: 4_000, 1: 4_000, 2: 4_000 + busy, 3: 4_000 + busy}


def test_several_launches_run_one_after_another() -> None:
    def add(x: Any, n: float, *, tl: Any) -> None:
        tl.store(x, tl.load(x, (2,)) + n)

    def bench(ctx: Any) -> None:
        x = ctx.zeros((2,), dtype="f32", name="x")
        ctx.launch("once", add, x, 1.0)
        ctx.launch("twice", add, x, n=2.0)

    result = run(bench)
    assert list(result.outputs["x"]) == [3, 3]
    loads = [r for r in result.op_log if r.op_name == "dma_read"]
    stores = [r for r in result.op_log if r.op_name == "dma_write"]
    assert loads[1].start_ps == stores[0].end_ps + 4_000
    assert result.name == "add"
    assert run(bench, data=False).frame.equals(result.frame)


def test_an_error_carries_the_run_with_earlier_launches() -> None:
    def fails(x: Any, *, tl: Any) -> None:
        tl.load(x, (2,))
        raise ArithmeticError("second")

    def bench(ctx: Any) -> None:
        x = ctx.zeros((2,), dtype="f32", name="x")
        ctx.launch("noop", noop, x)
        ctx.launch("fails", fails, x)

    with pytest.raises(ArithmeticError, match=r"^second$") as caught:
        run(bench)
    partial: Any = caught.value.run  # type: ignore[attr-defined]
    assert [r.op_name for r in partial.op_log] == ["dma_read"]
    assert partial.name == "fails"


# -- scalars that are dimensions ---------------------------------------------------------------------------------


def remapped(
    _auto_dim_remap: bool | None, *scalars: Any, shape: tuple[int, int] = (12, 5), **policy: Any
) -> dict[int, Any]:
    seen: dict[int, Any] = {}

    def kernel(x: Any, *given: Any, tl: Any) -> None:
        seen[tl.program_id(0)] = given

    def bench(ctx: Any) -> None:
        x = ctx.zeros(shape, dp=DPPolicy(**policy), name="x")
        more = {} if _auto_dim_remap is None else {"_auto_dim_remap": _auto_dim_remap}
        ctx.launch("kernel", kernel, x, *scalars, **more)

    run(bench)
    return seen


def test_scalars_stay_as_they_are_by_default() -> None:
    assert remapped(None, 12, 5, pe="row_wise", num_pes=5) == dict.fromkeys(range(5), (12, 5))
    assert remapped(False, 12, 5, pe="row_wise", num_pes=5) == dict.fromkeys(range(5), (12, 5))


def test_a_scalar_that_is_a_sharded_dimension_becomes_the_local_one() -> None:
    seen = remapped(True, 12, 7, 12.0, True, pe="row_wise", num_pes=5)
    assert seen == {pe: (3 if pe < 2 else 2, 7, 12.0, True) for pe in range(5)}
    assert remapped(True, 5, pe="column_wise", num_pes=2) == {0: (3,), 1: (2,)}


def test_a_scalar_that_could_be_either_is_refused() -> None:
    text = r"the scalar 12 is a sharded dimension of 'x' \(3 on PE 0\) and an unsharded one of 'x'"
    with pytest.raises(PlacementError, match=text):
        remapped(True, 12, shape=(12, 12), pe="row_wise", num_pes=4)
    assert remapped(True, 7, shape=(12, 12), pe="row_wise", num_pes=2) == {0: (7,), 1: (7,)}
    # over one PE nothing is sharded
    assert remapped(True, 12, shape=(12, 12), pe="row_wise", num_pes=1) == {0: (12,)}


@pytest.mark.parametrize("by_keyword", [False, True])
def test_a_scalar_that_two_tensors_shard_differently_is_refused(by_keyword: bool) -> None:
    def kernel(x: Any, y: Any, n: int, *, tl: Any) -> None:
        raise AssertionError("ran")

    def bench(ctx: Any) -> None:
        x = ctx.zeros((12, 5), dp=DPPolicy(cube="row_wise", **TWO_BY_FOUR), name="x")
        y = ctx.zeros((12, 5), dp=DPPolicy(cube="row_wise", pe="row_wise", **TWO_BY_FOUR), name="y")
        scalars: dict[str, Any] = {"n": 12} if by_keyword else {}
        ctx.launch("kernel", kernel, x, y, *(() if by_keyword else (12,)), _auto_dim_remap=True, **scalars)

    with pytest.raises(
        PlacementError, match=r"sharded dimension of 'x' \(6 on PE 0\) and a sharded .*'y' \(2 on PE 0\)"
    ):
        run(bench)
