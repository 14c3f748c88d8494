"""What all frames share: their dtypes whatever the run holds, integers that stay integers, refusals."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest

import kernbench_nb as kb
from kernbench_nb.runtime_api.result import RunResult

ALL: dict[str, Callable[..., pd.DataFrame]] = {
    "by_engine": kb.analysis.by_engine,
    "by_engine of all": partial(kb.analysis.by_engine, per_pe=False),
    "compare": lambda run: kb.analysis.compare(run, run),
    "overlap": kb.analysis.overlap,
    "roofline": kb.analysis.roofline,
    "stalls": kb.analysis.stalls,
    "sweep_terms": kb.analysis.sweep_terms,
    "traffic": kb.analysis.traffic,
    "traffic by pe": partial(kb.analysis.traffic, by="pe"),
    "traffic by tile": partial(kb.analysis.traffic, by="tile"),
    "traffic by reason": partial(kb.analysis.traffic, by="reason"),
}
every_frame = pytest.mark.parametrize("make", ALL.values(), ids=ALL)


def levels(index: pd.Index) -> list[tuple[Any, Any]]:
    return [(name, index.get_level_values(name).dtype) for name in index.names]


@every_frame
@pytest.mark.parametrize("other", ["nothing", "no engine", "ring"])
def test_columns_and_dtypes_are_always_the_same(
    runs: Any, make: Callable[..., pd.DataFrame], other: str
) -> None:
    full, less = make(runs("eight")), make(runs(other))
    assert less.dtypes.to_dict() == full.dtypes.to_dict()
    assert levels(less.index) == levels(full.index)


@every_frame
def test_integers_stay_integers(runs: Any, make: Callable[..., pd.DataFrame]) -> None:
    frame = make(runs("eight"))
    assert not any(dtype == np.float64 for name, dtype in frame.dtypes.items() if str(name).endswith("_ps"))
    for name in ("value", "a", "b"):
        if name in frame:
            assert {type(x) for x in frame[name]} <= {int, float, str}
            assert type(frame.loc["flops", name]) is int


@every_frame
def test_the_frame_of_the_run_stays_as_it_is(runs: Any, make: Callable[..., pd.DataFrame]) -> None:
    run = runs("eight")
    before = run.frame.copy()
    table = make(run)
    for name in table.columns:
        table[name] = 0
    pd.testing.assert_frame_equal(run.frame, before)
    assert make(run).equals(make(run))


@pytest.mark.parametrize("name", [n for n in kb.analysis.__all__ if n != "compare"])
def test_what_is_no_run_is_refused(name: str) -> None:
    with pytest.raises(
        TypeError,
        match=rf"kb\.analysis\.{name} takes a RunResult, what kb\.launch or kb\.decode returns; got int 4\. "
        rf"for example run = kb\.decode\(q, k, v\); kb\.analysis\.{name}\(run\)",
    ):
        getattr(kb.analysis, name)(4)


def test_an_error_that_carries_a_run_is_told_apart(runs: Any) -> None:
    error = kb.ScratchOverflowError.__new__(kb.ScratchOverflowError)
    error.run = runs("one")
    with pytest.raises(TypeError, match=r"its run is in \.run: kb\.analysis\.overlap\(error\.run\)"):
        kb.analysis.overlap(error)
    with pytest.raises(TypeError, match=r"kb\.analysis\.compare takes a RunResult"):
        kb.analysis.compare(runs("one"), None)  # type: ignore[arg-type]


def test_a_run_that_was_stopped_has_frames_too() -> None:
    q, k, v = kb.sample_attention()
    with pytest.raises(kb.ScratchOverflowError) as caught:
        kb.decode(
            q[-1:], np.tile(k, (3, 1, 1)), np.tile(v, (3, 1, 1)), pes=1, tile=16, scoped=False, data=False
        )
    run: RunResult = caught.value.run
    terms = kb.analysis.sweep_terms(run).iloc[0]
    assert (terms.N, terms.difference_ps) == (47, 0)
    assert kb.analysis.by_engine(run)["ops"].sum() == len(run.op_log)
