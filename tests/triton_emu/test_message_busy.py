"""What a message occupies is its own: it does not depend on runs before it, nor on who is in its way."""

from __future__ import annotations

from typing import Any

import numpy as np

import kernbench_nb as kb
from kernbench_nb.topology.costs import link_ps


def exchange(a: Any, *, tl: Any) -> None:
    if tl.program_id(0) == 0:
        tl.send("pe_next", tl.zeros((64, 64), "f32"))
    else:
        tl.recv("pe_prev", (64, 64), "f32")


def busy(**more: Any) -> int:
    frame = kb.launch(exchange, np.zeros(1, np.float32), pes=2, **more).frame
    return int(frame.loc[frame["op_name"] == "ipc_send", "busy_ps"].iloc[0])


def test_a_send_is_busy_as_long_as_its_narrowest_link() -> None:
    expected = link_ps(64 * 64 * 4, 64)
    assert busy() == expected
    assert busy(wide_links=True) == 0
    assert busy() == expected
