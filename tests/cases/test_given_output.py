"""nb-stable-output: what a notebook prints of the package's objects is the same in every process."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kernbench_nb as kb

ADDRESS = re.compile(r"0x[0-9a-f]{6,}", re.IGNORECASE)


def both(x: Any, seen: dict[str, str], *, tl: Any) -> None:
    """Prints everything that a kernel can hold."""

    def note(**things: Any) -> None:
        seen.update({f"{name} on PE {tl.program_id(0)}": repr(thing) for name, thing in things.items()})

    with tl.scratch_scope("tile 0", kind="tile") as scope:
        future = tl.load_async(x, (4,))
        note(tl=tl, pointer=x + 1, scope=scope, future=future, scratch=tl.scratch, dtype=tl.f16)
        a = future.wait()
        note(waited=future, handle=a, view=a[1:3], unnamed=a + 1, commands=tl.commands)
        if tl.program_id(0) == 0:
            tl.send(1, a)
        else:
            message = tl.recv_async(0, (4,), "f32")
            note(message=message)
            message.wait()
    note(closed=scope, dead=a)


def launched(seen: dict[str, str]) -> kb.RunResult:
    return kb.launch(both, np.ones(4, np.float32), seen, pes=2)


def test_nb_stable_output_of_what_a_kernel_holds() -> None:
    first: dict[str, str] = {}
    second: dict[str, str] = {}
    launched(first)
    kept = bytearray(1 << 16)  # so that nothing lies where it lay
    launched(second)
    assert len(kept) == 1 << 16
    assert first == second
    assert {name: text for name, text in first.items() if ADDRESS.search(text)} == {}
    assert first["tl on PE 1"] == "<tl of PE 1, data mode, 4000 ps, 16 B of 1048576 B in use>"
    assert first["scratch on PE 1"] == ("<scratch of 1048576 B: 16 B in use, high-water 16 B, 1 open scope>")
    assert re.fullmatch(r"<trace of PE 1: \d+ rows>", first["commands on PE 1"])


RESULTS: dict[str, Callable[[kb.RunResult], Any]] = {
    name: lambda run, name=name: getattr(run, name)  # type: ignore[misc]
    for name in (
        "completion", "engine", "memory_log", "op_log", "tile_log", "topology", "usage", "given_log", "roofline",
        "params", "warnings", "frame", "memory", "tiles",
    )
}  # fmt: skip
RESULTS |= {
    "run": lambda run: run,
    "operation": lambda run: run.op_log[0],
    "costs": lambda run: run.topology.costs,
    "picture": kb.plots.arena_timeline,
    "tl alone": lambda run: kb.TLContext(),
}


@pytest.mark.parametrize("what", RESULTS)
def test_nb_stable_output_of_a_result(what: str) -> None:
    run = launched({})
    for text in (repr(RESULTS[what](run)), str(RESULTS[what](run))):
        assert not ADDRESS.search(text), text
        if what == "tile_log":
            assert text == "<TileLog: 2 tiles>"
        if what == "usage":
            assert text == f"<Usage: {run.makespan_ps} ps on 2 PEs, {run.hbm_bytes} B of HBM, 0 FLOP>"
