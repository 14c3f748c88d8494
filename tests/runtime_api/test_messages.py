"""Which receive took which send."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kernbench_nb as kb
from kernbench_nb.runtime_api.messages import messages_of


def pairs(run: Any) -> list[tuple[tuple[int, Any], tuple[int, Any] | None]]:
    """(PE, shape) of the two ends of each message."""
    rows = run.op_log.rows
    m = messages_of(rows)

    def end(row: int) -> tuple[int, Any] | None:
        return None if row < 0 else (int(rows.pe[row]), rows.kinds[rows.kind[row]].shapes[-1])

    return [(end(s), end(r)) for s, r in zip(m.send.tolist(), m.recv.tolist(), strict=True)]


def test_messages_of_a_direction_arrive_in_order() -> None:
    def kernel(*, tl: Any) -> None:
        if tl.program_id(0) == 0:
            for n in (1, 2, 3):
                tl.send("pe_next", tl.zeros((n,), "f32"))
        elif tl.program_id(0) == 1:
            for n in (1, 2, 3):
                tl.recv("pe_prev", (n,), "f32")

    assert pairs(kb.launch(kernel, pes=2)) == [((0, (n,)), (1, (n,))) for n in (1, 2, 3)]


def test_each_direction_is_a_queue_of_its_own() -> None:
    def kernel(*, tl: Any) -> None:
        me = tl.program_id(0)
        if me == 0:
            tl.send("pe_next", tl.zeros((1,), "f32"))
            tl.send(1, tl.zeros((2,), "f32"))  # by index: another queue of the same pair
            tl.send("pe_next", tl.zeros((3,), "f32"))
        elif me == 1:
            tl.recv(0, (2,), "f32")
            tl.recv("pe_prev", (1,), "f32")
            tl.recv("pe_prev", (3,), "f32")

    assert pairs(kb.launch(kernel, pes=2)) == [((0, (n,)), (1, (n,))) for n in (1, 2, 3)]


def test_both_ways_at_once() -> None:
    def kernel(*, tl: Any) -> None:
        to = "pe_next" if tl.program_id(0) == 0 else "pe_prev"
        tl.send(to, tl.zeros((1 + tl.program_id(0),), "f32"))
        tl.recv(to, (2 - tl.program_id(0),), "f32")

    assert pairs(kb.launch(kernel, pes=2)) == [((0, (1,)), (1, (1,))), ((1, (2,)), (0, (2,)))]


def test_a_message_that_nobody_took_has_no_other_end() -> None:
    def kernel(*, tl: Any) -> None:
        if tl.program_id(0) == 0:
            tl.send("pe_next", tl.zeros((1,), "f32"))
            tl.send("pe_next", tl.zeros((2,), "f32"))
        else:
            tl.recv("pe_prev", (1,), "f32")

    with pytest.raises(Exception) as caught:  # the engine refuses it, and the run so far is still there
        kb.launch(kernel, pes=2)
    assert pairs(caught.value.run) == [((0, (1,)), (1, (1,))), ((0, (2,)), None)]


def test_a_run_without_messages_has_none() -> None:
    run = kb.launch(lambda x, *, tl: tl.load(x, (4,)), np.ones(4, np.float32))
    assert len(messages_of(run.op_log.rows)) == 0
