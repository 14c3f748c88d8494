"""Runs and errors survive a pickle: a process pool hands them over."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest

import kernbench_nb as kb
from kernbench_nb import errors


def again(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))


def sweep(**how: Any) -> kb.RunResult:
    q, k, v = kb.sample_attention()
    return kb.decode(q[-1:], k[:100], v[:100], pes=2, tile=16, **how)


def test_a_run_gives_the_same_frames_numbers_and_arrays() -> None:
    run = sweep(record="tiles", lse=True)
    there = again(run)
    for frame in ("frame", "memory", "tiles", "skipped"):
        assert getattr(there, frame).equals(getattr(run, frame)), frame
    for number in (
        "makespan_ps",
        "peak_scratch_by_pe",
        "peak_by_kind",
        "persistent_bytes",
        "hbm_bytes",
        "flops",
    ):
        assert getattr(there, number) == getattr(run, number)
    assert repr(there) == repr(run)
    assert there.params == run.params
    assert (there.output == run.output).all()
    assert (there.lse == run.lse).all()
    assert [(v.name, v.scope, v.row) for v in there.values] == [(v.name, v.scope, v.row) for v in run.values]
    assert all((a.values == b.values).all() for a, b in zip(there.values, run.values, strict=True))
    assert list(there.op_log) == list(run.op_log)
    assert again(there).frame.equals(run.frame)
    with pytest.raises(ValueError, match="read-only"):
        there.output[:] = 0
    with pytest.raises(AttributeError):
        there.name = "other"


def test_what_belongs_to_the_process_stays_behind() -> None:
    there = again(sweep())
    assert (there.engine, there.kernel, there.reference, there.rerun) == (None,) * 4
    with pytest.raises(errors.KernbenchError, match="has no float64 reference"):
        there.check()


def test_an_overflow_keeps_its_fields_its_notes_and_its_run() -> None:
    with pytest.raises(kb.ScratchOverflowError) as caught:
        sweep(scoped=False, topology={"base": "ahbm", "pe": {"tcm": {"kernel_scratch_mb": 0.0625}}})
    error, there = caught.value, again(caught.value)
    assert type(there) is kb.ScratchOverflowError
    assert str(there) == str(error)
    assert there.__notes__ == error.__notes__
    fields = ("required", "limit", "wanted", "free", "name")
    assert [getattr(there, f) for f in fields] == [getattr(error, f) for f in fields]
    assert there.run.completion.error is there
    assert there.run.peak_scratch == error.run.peak_scratch
    assert there.run.memory.equals(error.run.memory)
    assert kb.step(there.run) is not None


def test_what_cannot_be_pickled_is_there_as_text() -> None:
    class Odd(Exception):
        pass

    def kernel(p: Any, how: Any, *, tl: Any) -> None:
        tl.load(p, (4,))
        error = Odd("a tile is missing", how)
        error.add_note("see line 7")
        raise error

    with pytest.raises(Odd) as caught:
        kb.launch(kernel, np.ones(4, np.float32), lambda: 0)
    there = again(caught.value.run)  # type: ignore[attr-defined]
    error = there.completion.error
    assert type(error) is errors.KernbenchError
    assert str(error).startswith("Odd: ('a tile is missing'")
    assert error.__notes__ == ["see line 7"]
    assert [type(value) for value in there.params.values() if "lambda" in str(value)] in ([], [str])
    assert len(there.op_log) == 1


def test_an_error_of_somebody_elses_keeps_its_type() -> None:
    def kernel(p: Any, *, tl: Any) -> None:
        tl.load(p, (4,))
        raise ZeroDivisionError("by hand")

    with pytest.raises(ZeroDivisionError) as caught:
        kb.launch(kernel, np.ones(4, np.float32))
    there = again(caught.value.run)  # type: ignore[attr-defined]
    assert type(there.completion.error) is ZeroDivisionError
    assert again(caught.value).run.frame.equals(there.frame)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_copy_is_the_run_itself(copied: Any) -> None:
    run = sweep()
    assert copied(run) is run


KINDS = [
    kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, errors.KernbenchError)
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_error_of_the_package(kind: type[errors.KernbenchError]) -> None:
    error = kind.__new__(kind, "what happened")
    error.args = ("what happened",)
    error.more = 7
    there = again(error)
    assert (type(there), str(there), there.more, there.run) == (kind, "what happened", 7, None)


def test_a_pool_of_processes() -> None:
    """New processes, which share nothing with this one."""
    sizes = {"h_q": 9, "h_kv": 3, "d": 64, "tile": 16, "pes": 1, "data": False, "scoped": False}
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        fits, dies = (pool.submit(kb.bench, "gqa_decode", S_kv=16 * tiles, **sizes) for tiles in (47, 48))
        assert fits.result().frame.equals(kb.bench("gqa_decode", S_kv=16 * 47, **sizes).frame)
        with pytest.raises(kb.ScratchOverflowError) as caught:
            dies.result()
    assert caught.value.run.peak_scratch == 1_042_464


def test_arrays_that_no_kernel_wrote_to() -> None:
    def nothing(x: Any, *, tl: Any) -> None:
        tl.load(x, (4,))

    there = again(kb.launch(nothing, np.arange(4.0)))
    assert there.outputs["x"].tolist() == [0, 1, 2, 3]
