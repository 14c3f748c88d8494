"""`kb.launch`: a user's own kernel on numpy arrays."""

from __future__ import annotations

import doctest
import functools
import sys
import traceback
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import kernbench_nb as kb
from kernbench_nb.errors import DataModeError
from kernbench_nb.runtime_api.launch import pe_grid
from kernbench_nb.topology import resolve_topology


def vector_add(a: Any, b: Any, out: Any, n: int, *, tl: Any) -> None:
    """The first kernel of everybody: a slice for each PE, the last one masked."""
    each = tl.cdiv(n, tl.num_programs(0))
    start = tl.program_id(0) * each
    inside = tl.arange(0, each) + start < n
    x = tl.load(a + start, (each,), mask=inside, other=0)
    y = tl.load(b + start, (each,), mask=inside, other=0)
    tl.store(out + start, x + y, mask=inside)


def ones(n: int = 8, dtype: Any = np.float32) -> Any:
    return np.ones(n, dtype)


# -- values ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pes", [1, 3, 4, 8])
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.int32])
def test_what_the_kernel_stores_is_in_the_array(pes: int, dtype: Any) -> None:
    a, b, out = np.arange(37).astype(dtype), np.arange(37)[::-1].astype(dtype), np.zeros(37, dtype)
    before = a.copy()
    run = kb.launch(vector_add, a, b, out, 37, pes=pes)
    np.testing.assert_array_equal(out, np.full(37, 36).astype(dtype))
    np.testing.assert_array_equal(a, before)
    assert list(run.outputs) == ["a", "b", "out"]
    np.testing.assert_array_equal(run.outputs["out"], out)
    np.testing.assert_array_equal(run.output, out)
    assert run.params == {"pes": pes, "cubes": 1}
    assert run.name == "vector_add"


def test_the_course_adds_two_heads_on_four_pes() -> None:
    q, _, _ = kb.sample_attention()
    a, b = (np.ascontiguousarray(q[:, h]).astype(np.float32).reshape(-1) for h in (0, 1))
    out = np.zeros_like(a)
    run = kb.launch(vector_add, a, b, out, a.size, pes=4)
    np.testing.assert_array_equal(out, a + b)
    assert run.hbm_bytes == 3 * a.size * 4 == 244_992


def test_arrays_of_any_layout_and_rank() -> None:
    def double(x: Any, shape: Any, *, tl: Any) -> None:
        tl.store(x, tl.load(x, shape) * 2)

    for array in (
        np.array(3.0, np.float32),
        np.ones((2, 3), np.float32),
        np.asfortranarray(np.arange(6, dtype=np.float32).reshape(2, 3)),
        np.arange(12, dtype=np.float32)[::2],
        np.arange(12, dtype=np.float32).reshape(3, 4)[::-1, 1:3],
    ):
        before = array.copy()
        kb.launch(double, array, array.shape)
        np.testing.assert_array_equal(array, 2 * before)


def test_keyword_arrays_and_numbers() -> None:
    def scaled(x: Any, *, out: Any, factor: float = 1.0, tl: Any) -> None:
        tl.store(out, tl.load(x, (8,)) * factor)

    out = np.zeros(8, np.float32)
    run = kb.launch(scaled, ones(), out=out, factor=3.0)
    assert (out == 3).all()
    assert list(run.outputs) == ["x", "out"]
    assert run.params == {"pes": 1, "cubes": 1, "factor": 3.0}


def test_tl_may_be_the_last_positional_parameter() -> None:
    def kernel(x: Any, n: int, tl: Any) -> None:
        tl.store(x, tl.zeros((n,), "f32"))

    x = ones()
    kb.launch(kernel, x, 5)
    assert list(x) == [0] * 5 + [1] * 3


def test_callables_that_are_no_functions() -> None:
    class Fill:
        def __call__(self, x: Any, *, tl: Any) -> None:
            tl.store(x, tl.full((8,), 7, "f32"))

    x, out = ones(), np.zeros(8, np.float32)
    kb.launch(Fill(), x)
    assert (x == 7).all()
    kb.launch(functools.partial(vector_add, n=8), x, x, out, pes=2)
    assert (out == 14).all()


def test_parameters_beyond_the_named_ones() -> None:
    def total(*pointers: Any, tl: Any) -> None:
        first, second, out = pointers
        tl.store(out, tl.load(first, (8,)) + tl.load(second, (8,)))

    out = np.zeros(8, np.float32)
    run = kb.launch(total, ones(), ones(), out)
    assert (out == 2).all()
    assert list(run.outputs) == ["arg 0", "arg 1", "arg 2"]


def test_an_array_that_is_given_twice_is_one_tensor() -> None:
    def kernel(a: Any, b: Any, *, tl: Any) -> None:
        tl.store(a, tl.load(a, (8,)) + 1)
        tl.store(a, tl.load(b, (8,)) * 2)

    x, y = np.arange(8, dtype=np.float32), np.arange(8, dtype=np.float32)
    run = kb.launch(kernel, x, x)
    assert list(x) == [2 * (i + 1) for i in range(8)]
    assert list(run.outputs) == ["a", "b"]
    np.testing.assert_array_equal(run.output, x)
    kb.launch(kernel, y, y.copy())  # equal is not the same
    assert list(y) == [2 * i for i in range(8)]


def test_which_tensor_is_the_output() -> None:
    def both(x: Any, y: Any, *, tl: Any) -> None:
        tl.store(x, tl.zeros((8,), "f32"))
        tl.store(y, tl.zeros((8,), "f32"))

    run = kb.launch(both, ones(), ones())
    with pytest.raises(DataModeError, match="which tensor is the output of both"):
        run.output  # noqa: B018


# -- timing mode -------------------------------------------------------------------------------------------------


def test_timing_mode_writes_nothing_and_takes_as_long() -> None:
    out = np.zeros(37, np.float32)
    timing = kb.launch(vector_add, ones(37), ones(37), out, 37, pes=4, data=False)
    assert not out.any()
    assert timing.outputs == {}
    data = kb.launch(vector_add, ones(37), ones(37), out, 37, pes=4)
    assert timing.frame.equals(data.frame)
    assert data.rerun is not None
    assert data.rerun(data=False).frame.equals(data.frame)


def test_congestion_of_ones_own_kernel() -> None:
    def shift(x: Any, *, tl: Any) -> None:
        me, count = tl.program_id(0), tl.num_programs(0)
        tl.send((me + 1) % count, tl.zeros((4096,), "f32"))
        tl.recv((me - 1) % count, (4096,), "f32")

    assert kb.launch(shift, ones(), pes=4).congestion_impact() > 1
    assert kb.launch(vector_add, ones(), ones(), ones(), 8).congestion_impact() == 0


def test_the_example_of_the_docstring() -> None:
    assert doctest.testmod(sys.modules["kernbench_nb.runtime_api.launch"]) == (0, 6)


# -- calls that are refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: kb.launch(vector_add, ones(), ones(), ones()), r"missing .*'n': the kernel is vector_add\(a"),
        (lambda: kb.launch(vector_add, ones(), ones(), ones(), 8, 9), r"too many positional .*was given 5 positional"),
        (lambda: kb.launch(vector_add, pe=4), r"unexpected keyword argument 'pe'; did you mean pes=\?"),
        (lambda: kb.launch(vector_add, topologie=1), r"argument 'topologie'; did you mean topology=\?"),
        (lambda: kb.launch(vector_add, out_=ones()), r"argument 'out_'; did you mean out=\? The kernel is vector_add"),
        (lambda: kb.launch(vector_add, zzz=1), r"'zzz'\. The kernel is .* The launch itself takes pes=, cubes=, topo"),
        (lambda: kb.launch(lambda x: None, ones()), r"needs a parameter named tl, keyword-only .* is <lambda>\(x\)"),
        (lambda: kb.launch(lambda tl, /: None), r"a kernel needs a parameter named tl, keyword-only or the last one"),
        (lambda: kb.launch(vector_add, [1.0], ones(), ones(), 1), r"argument 'a' is a list; .* np\.asarray"),
        (lambda: kb.launch(vector_add, [[1.0, 2.0]], ones(), ones(), 1), r"argument 'a' is a list; .* np\.asarray"),
        (lambda: kb.launch(vector_add, ones(), b=[1.0]), r"argument 'b' is a list; .* np\.asarray"),
        (lambda: kb.launch(vector_add, ones(), ones(), ones(), 8, a=1), r"multiple values for argument 'a'"),
        (lambda: kb.launch(vector_add, ones(dtype=np.uint64), ones(), ones(), 8), r"argument 'a': unknown dtype"),
        (lambda: kb.launch(vector_add, np.array(["x"]), ones(), ones(), 8), r"argument 'a': unknown dtype"),
    ],
)  # fmt: skip
def test_wrong_calls(call: Callable[[], Any], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        call()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"pes": 0}, "pes must be a whole number from 1 on, got 0"),
        ({"cubes": "2"}, "cubes must be a whole number from 1 on, got '2'"),
        ({"pes": 9}, "multiple of that, such as 8 or 16"),
        ({"pes": 6, "cubes": 4}, "does not divide over cubes=4; say pes=4 or 8."),
        ({"pes": 7, "cubes": 2}, "does not divide over cubes=2; say pes=6 or 8."),
        ({"pes": 1, "cubes": 2}, "does not divide over cubes=2; say pes=2."),
        ({"pes": 17, "cubes": 2}, "does not divide over cubes=2; say pes=16."),
        ({"pes": 24, "cubes": 2}, "has 8, so say pes=16 or fewer, or cubes=3 or more"),
        ({"pes": 300}, "topology 'ahbm' has 256 PEs, in 32 cubes of 8"),
        ({"pes": 2, "topology": "single_pe"}, "'single_pe' has 1 PEs"),
        ({"scratch_checks": "maybe"}, "scratch_checks must be one of raise, poison, off"),
        ({"record": "everything"}, "record must be None or 'tiles'"),
        ({"record": "tiles", "data": False}, "needs values"),
        ({"topology": "abm"}, "did you mean 'ahbm'"),
    ],
)
def test_wrong_options(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        kb.launch(vector_add, ones(), ones(), ones(), 8, **given)


def test_a_read_only_output_leaves_every_array_as_it_was() -> None:
    def both(x: Any, y: Any, *, tl: Any) -> None:
        tl.store(x, tl.zeros((8,), "f32"))
        tl.store(y, tl.zeros((8,), "f32"))

    x, y = ones(), ones()
    y.flags.writeable = False
    with pytest.raises(
        ValueError, match="stored to 'y', but the array given for it is read-only; pass a copy"
    ) as caught:
        kb.launch(both, x, y)
    assert (x == 1).all()
    assert caught.value.run.outputs["x"].sum() == 0  # type: ignore[attr-defined]
    out = np.zeros(8, np.float32)
    kb.launch(vector_add, y, y, out, 8)  # read-only inputs are fine
    assert (out == 2).all()


# -- grids -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pes", "cubes", "grid"),
    [
        (None, None, (1, 1, 1)), (5, None, (1, 1, 5)), (8, None, (1, 1, 8)), (np.int64(8), None, (1, 1, 8)),
        (16, None, (1, 2, 8)), (None, 4, (1, 4, 1)), (6, 3, (1, 3, 2)), (128, None, (1, 16, 8)),
        (256, None, (2, 16, 8)), (32, 32, (2, 16, 1)),
    ],
)  # fmt: skip
def test_which_pes_run(pes: Any, cubes: Any, grid: tuple[int, int, int]) -> None:
    machine = resolve_topology(None)
    assert pe_grid(machine, pes, cubes) == grid
    out = np.full(256, -1, np.int32)

    def kernel(out: Any, *, tl: Any) -> None:
        assert tuple(tl.num_programs(axis) for axis in (2, 1, 0)) == grid
        pe = tl.pe_index(tl.program_id(0), tl.program_id(1), tl.program_id(2))
        tl.store(out + pe, tl.full((1,), tl.program_id(0), "i32"))

    run = kb.launch(kernel, out, pes=pes, cubes=cubes)
    assert run.params == {"pes": grid[0] * grid[1] * grid[2], "cubes": grid[0] * grid[1]}
    assert len(run.pes) == run.params["pes"]
    assert set(np.flatnonzero(out >= 0)) == set(run.pes)
    assert (out[list(run.pes)] == [machine.locate(pe)[2] for pe in run.pes]).all()


# -- messages and order ------------------------------------------------------------------------------------------


def around(out: Any, forward: Any, backward: Any, axis: int, *, tl: Any) -> None:
    me, count = tl.program_id(axis), tl.num_programs(axis)
    to, source = ((me + 1) % count, (me - 1) % count) if forward is None else (forward, backward)
    tl.send(to, tl.full((1,), me, "i32"))
    tl.store(out + me, tl.recv(source, (1,), "i32"))


@pytest.mark.parametrize(
    ("directions", "grid", "want"),
    [
        ((None, None, 0), {"pes": 4}, [3, 0, 1, 2]),
        (("ring_next", "ring_prev", 0), {"pes": 4}, [3, 0, 1, 2]),
        (("ring_prev", "ring_next", 0), {"pes": 4}, [1, 2, 3, 0]),
        (("ring_next", "ring_prev", 1), {"cubes": 4}, [3, 0, 1, 2]),
    ],
)
def test_rings(directions: tuple[Any, Any, int], grid: dict[str, int], want: list[int]) -> None:
    out = np.zeros(4, np.int32)
    run = kb.launch(around, out, *directions, **grid)
    assert list(out) == want
    sends = [r for r in run.op_log if r.op_name == "ipc_send"]
    assert len(sends) == 4
    assert all(r.peer in run.pes for r in sends)


def test_chain_mesh_and_sips() -> None:
    def chain(out: Any, *, tl: Any) -> None:
        me = tl.program_id(0)
        x = tl.recv("pe_prev", (1,), "i32") if me else tl.full((1,), 1, "i32")
        if me + 1 < tl.num_programs(0):
            tl.send("pe_next", x + 1)
        tl.store(out + me, x)

    out = np.zeros(8, np.int32)
    kb.launch(chain, out, pes=8)
    assert list(out) == [1, 2, 3, 4, 5, 6, 7, 8]

    def mesh(out: Any, *, tl: Any) -> None:
        cube = tl.program_id(1)
        if cube == 0:
            tl.send("E", tl.full((1,), 5, "i32"))
            tl.send("S", tl.full((1,), 6, "i32"))
        elif cube == 1:
            tl.store(out, tl.recv("W", (1,), "i32"))
        elif cube == 4:
            tl.store(out + 1, tl.recv("N", (1,), "i32"))

    kb.launch(mesh, out, cubes=5)
    assert list(out[:2]) == [5, 6]

    def sips(out: Any, *, tl: Any) -> None:
        if tl.program_id(0) == tl.program_id(1) == 0:
            sip = tl.program_id(2)
            tl.send("sip_E", tl.full((1,), sip + 7, "i32"))
            tl.store(out + sip, tl.recv("sip_W", (1,), "i32"))

    kb.launch(sips, out, cubes=32)
    assert list(out[:2]) == [8, 7]


def test_a_direction_that_nobody_installed() -> None:
    with pytest.raises(
        RuntimeError, match=r"direction 'up' .*not installed. Directions of PE 0: .*ring_next -> PE 1"
    ):
        kb.launch(around, np.zeros(4, np.int32), "up", "down", 0, pes=2)


def test_all_pes_see_one_tensor_in_order_of_time() -> None:
    """PE 0 writes late; who looks before that sees the old value, who looks after a barrier sees the new one."""

    def kernel(x: Any, seen: Any, *, tl: Any) -> None:
        me = tl.program_id(0)
        if me == 0:
            for _ in range(100):
                tl.zeros((100,), "f32")
            tl.store(x, tl.full((1,), 7.0, "f32"))
        else:
            tl.store(seen + me, tl.load(x, (1,)))
        tl.barrier()
        tl.store(seen + 4 + me, tl.load(x, (1,)))

    x, seen = np.full(1, 3, np.float32), np.zeros(8, np.float32)
    kb.launch(kernel, x, seen, pes=4)
    assert list(seen) == [0, 3, 3, 3, 7, 7, 7, 7]


def test_the_last_write_in_time_stays() -> None:
    def kernel(x: Any, *, tl: Any) -> None:
        me = tl.program_id(0)
        for _ in range(4 - me):  # the higher the index, the earlier
            tl.zeros((100,), "f32")
        tl.store(x, tl.full((1,), me, "i32"))

    x = np.full(1, -1, np.int32)
    run = kb.launch(kernel, x, pes=4)
    assert x[0] == 0
    stores = sorted((r.start_ps, r.pe) for r in run.op_log if r.op_name == "dma_write")
    assert [pe for _, pe in stores] == [3, 2, 1, 0]


def test_each_access_is_charged_to_the_pes_own_slice() -> None:
    """Eight PEs read the same tensor at once: each has its own HBM slice, so none waits for another."""

    def kernel(x: Any, *, tl: Any) -> None:
        tl.load(x, (4096,))

    one, eight = (kb.launch(kernel, np.zeros(4096, np.float32), pes=pes) for pes in (1, 8))
    assert one.makespan_ps == eight.makespan_ps
    assert eight.hbm_bytes == 8 * one.hbm_bytes


# -- errors out of a kernel --------------------------------------------------------------------------------------


def broken(x: Any, *, tl: Any) -> None:
    with tl.scratch_scope("tile 0", kind="tile"):
        y = tl.load(x, (8,))
        divide(y, tl.program_id(0) - 1)


def divide(y: Any, by: int) -> None:
    print(y.shape[0] / by)  # noqa: T201 - a kernel may print


def test_an_exception_arrives_as_it_was_raised(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ZeroDivisionError, match=r"^division by zero$") as caught:
        kb.launch(broken, ones(), pes=2)
    frames = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert frames[-2:] == ["broken", "divide"]
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (last.line or "").startswith("print(y.shape[0] / by)")
    run: Any = caught.value.run  # type: ignore[attr-defined]
    assert run.completion.error is caught.value
    assert str(run.completion) == "ZeroDivisionError: division by zero"
    assert {r.op_name for r in run.op_log} == {"dma_read"}
    assert len(run.tiles) == 2
    assert capsys.readouterr().out == "-8.0\n"
    with pytest.raises(RuntimeError, match="did not run to its end"):
        run.output  # noqa: B018


def test_an_exception_comes_before_the_deadlock_that_it_causes() -> None:
    def kernel(*, tl: Any) -> None:
        if tl.program_id(0):
            tl.recv(0, (1,), "f32")
        raise KeyError("first")

    with pytest.raises(KeyError, match="first"):
        kb.launch(kernel, pes=3)


def test_arrays_are_left_alone_when_a_kernel_fails() -> None:
    def kernel(x: Any, *, tl: Any) -> None:
        tl.store(x, tl.zeros((8,), "f32"))
        raise ValueError("after the store")

    x = ones()
    with pytest.raises(ValueError, match="after the store") as caught:
        kb.launch(kernel, x)
    assert (x == 1).all()
    assert (caught.value.run.outputs["x"] == 0).all()  # type: ignore[attr-defined]


def test_out_of_bounds_names_the_tensor() -> None:
    def kernel(points: Any, *, tl: Any) -> None:
        tl.load(points + 4, (8,))

    with pytest.raises(
        kb.OutOfBoundsError,
        match=r"elements 4 to 11 of tensor 'points'.* of shape \(8,\) has elements 0 to 7",
    ):
        kb.launch(kernel, ones())


def test_recorded_values() -> None:
    def kernel(x: Any, *, tl: Any) -> None:
        total = tl.zeros((1,), "f32")
        for i in range(2):
            with tl.scratch_scope(f"tile {i}", kind="tile"):
                part = tl.load(x + 4 * i, (4,))
                tl.copy_to(total, total + tl.sum(part))

    run = kb.launch(kernel, np.arange(8, dtype=np.float32), record="tiles")
    found = {(value.tile, value.name): value.values.tolist() for value in run.values}
    rows = [(value.tile, value.row) for value in run.values]
    assert len(set(rows)) == len(rows) == 8  # each tile's values once: total, part, and two without a name
    assert found["tile 0", "part"] == [0, 1, 2, 3]
    assert found["tile 1", "part"] == [4, 5, 6, 7]
    assert (found["tile 0", "total"], found["tile 1", "total"]) == ([6], [28])
    with pytest.raises(
        MemoryError, match=r"max_record_bytes=8 .*'tile 0' of PE 0. Use fewer or smaller tiles"
    ):
        kb.launch(kernel, np.arange(8, dtype=np.float32), record="tiles", max_record_bytes=8)
