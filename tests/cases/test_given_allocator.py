"""Faults seen in public trackers, area allocator: one test per case, named by its id."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernbench_nb as kb
from kernbench_nb.memory import ScratchAllocator

MIB = 1 << 20

# -- alc-align-overflow ------------------------------------------------------------------------------------------


def test_alc_align_overflow() -> None:
    scratch = ScratchAllocator(MIB)
    assert scratch.alloc(1_048_513, align=1) == 0
    assert scratch.cursor == 1_048_513
    with pytest.raises(kb.ScratchOverflowError) as caught:
        scratch.alloc(16, align=64)
    assert (caught.value.wanted, caught.value.free, caught.value.limit) == (16, 63, MIB)
    assert "wants 16 B aligned to 64 (aligned start 1 048 576, 0 B left), 63 B free of 1 048 576 B" in str(
        caught.value
    )
    assert scratch.cursor == 1_048_513
    assert scratch.alloc(63, align=1) == 1_048_513
    assert scratch.used == MIB


@pytest.mark.parametrize(
    ("nbytes", "align", "error"),
    [(MIB + 1, 16, kb.ScratchOverflowError), (-1, 16, ValueError), (16, 3, ValueError), (16, 0, ValueError)],
)
def test_alc_align_overflow_single_requests(nbytes: int, align: int, error: type[Exception]) -> None:
    scratch = ScratchAllocator(MIB)
    with pytest.raises(error):
        scratch.alloc(nbytes, align=align)
    assert scratch.used == 0
    assert scratch.alloc(MIB) == 0


def test_alc_align_overflow_no_tile_is_shorter_than_asked() -> None:
    def kernel(*, tl: Any) -> None:
        almost = tl.zeros((MIB - 64,), "i8")
        assert almost.numpy().shape == (MIB - 64,)
        with pytest.raises(kb.ScratchOverflowError):
            tl.zeros((65,), "i8")
        assert tl.zeros((64,), "i8").numpy().nbytes == 64

    assert kb.launch(kernel).peak_scratch == MIB


# -- alc-exception-in-scope --------------------------------------------------------------------------------------


def test_alc_exception_in_scope() -> None:
    tl = kb.TLContext()
    with pytest.raises(ValueError, match=r"^x$"), tl.scratch_scope():  # noqa: PT012
        tl._scratch_alloc(4096)
        with tl.scratch_scope():
            tl._scratch_alloc(8192)
            raise ValueError("x")
    assert (tl.scratch.used, tl.scratch.depth, tl.scratch.high_water) == (0, 0, 12_288)
    tl._scratch_alloc(MIB)


@pytest.mark.parametrize("way", ["continue", "break", "return"])
def test_alc_exception_in_scope_other_ways_out(way: str) -> None:
    tl = kb.TLContext()

    def leave() -> None:
        for _ in range(1):
            with tl.scratch_scope():
                tl._scratch_alloc(2048)
                if way == "continue":
                    continue
                if way == "break":
                    break
                return

    for _ in range(1000):
        leave()
    assert (tl.scratch.used, tl.scratch.depth, tl.scratch.high_water) == (0, 0, 2048)
    tl._scratch_alloc(MIB)


def test_alc_exception_in_scope_of_one_pe_of_four() -> None:
    """One PE fails inside two scopes while the others wait for it; afterwards each has its scratch back."""
    left: dict[int, tuple[int, int]] = {}

    def kernel(*, tl: Any) -> None:
        tl.barrier()  # all have started
        try:
            with tl.scratch_scope():
                tl.zeros((1024,), "f32")
                with tl.scratch_scope():
                    tl.zeros((2048,), "f32")
                    if tl.program_id(0) == 2:
                        raise ValueError("x")
                    tl.recv(2, (1,), "f32")
        finally:
            left[tl.program_id(0)] = (tl.scratch.used, tl.scratch.depth)

    with pytest.raises(ValueError, match=r"^x$") as caught:
        kb.launch(kernel, pes=4)
    assert left == dict.fromkeys(range(4), (0, 0))
    assert caught.value.run.peak_scratch == 12_288  # type: ignore[attr-defined]


# -- alc-use-after-scope -----------------------------------------------------------------------------------------


def stale(use: Any, out: Any, *, tl: Any) -> None:
    """t dies with its scope, u moves in at its address, and then something uses t."""
    keep = tl.zeros((256,), "f32")
    with tl.scratch_scope("first"):
        t = tl.full((256,), 1.0, "f32")
        copied = t.copy()
        tl.copy_to(keep, t)
    with tl.scratch_scope("second"):
        u = tl.full((256,), 2.0, "f32")
        tl.store(out + 1, tl.sum(u))
        tl.store(out + 2, tl.sum(keep))
        tl.store(out, use(tl, t, copied, keep))


USES: dict[str, Any] = {
    "sum": lambda tl, t, copied, keep: tl.sum(t),
    "a slice": lambda tl, t, copied, keep: tl.sum(t[:8]),
    "a view": lambda tl, t, copied, keep: tl.sum(t.reshape(16, 16)),
    "dot": lambda tl, t, copied, keep: tl.dot(t.reshape(16, 16), keep.reshape(16, 16)),
    "copy_to": lambda tl, t, copied, keep: tl.copy_to(keep, t),
    "send": lambda tl, t, copied, keep: tl.send("ring_next", t),
    "store": lambda tl, t, copied, keep: t,
    "a copy made in the scope": lambda tl, t, copied, keep: tl.sum(copied),
}


@pytest.mark.parametrize("data", [True, False])
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_alc_use_after_scope(use: Any, data: bool) -> None:
    out = np.zeros(3, np.float32)
    with pytest.raises(kb.UseAfterScopeError, match=r"first") as caught:
        kb.launch(stale, use, out, pes=2, data=data)
    assert caught.value.run is not None


def test_alc_use_after_scope_what_was_copied_out_stays() -> None:
    out = np.zeros(3, np.float32)
    kb.launch(stale, lambda tl, t, copied, keep: tl.sum(keep), out)
    assert list(out) == [256.0, 512.0, 256.0]


def test_alc_use_after_scope_without_checks_reads_the_next_owner() -> None:
    out = np.zeros(3, np.float32)
    kb.launch(stale, USES["sum"], out, scratch_checks="off")
    assert list(out) == [512.0, 512.0, 256.0]
