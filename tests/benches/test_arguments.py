"""Wrong arguments: each is refused before anything runs, with what was expected, what came, and what to do."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kernbench_nb as kb
from kernbench_nb.benches import registry
from kernbench_nb.benches._run import Options
from kernbench_nb.sim_engine import GraphEngine

ENTRIES: dict[str, Callable[..., kb.RunResult]] = {
    n: getattr(kb, n) for n in ("decode", "prefill", "flash", "naive")
}
by_entry = pytest.mark.parametrize("entry", ENTRIES.values(), ids=ENTRIES)


def arrays(T: int = 3, S: int = 9, h_q: int = 6, h_kv: int = 2, d: int = 8, dtype: Any = np.float16) -> Any:
    return tuple(np.ones(shape, dtype) for shape in ((T, h_q, d), (S, h_kv, d), (S, h_kv, d)))


@pytest.fixture(autouse=True)
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused call must not have run anything: no engine may start."""

    def refuse(*args: Any, **more: Any) -> None:
        raise AssertionError("the kernel was started")

    monkeypatch.setattr(GraphEngine, "run", refuse)


# -- arrays ------------------------------------------------------------------------------------------------------


@by_entry
def test_a_token_that_lost_its_dimension(entry: Any) -> None:
    q, k, v = arrays(h_kv=1)
    text = r"got q \(6, 8\), k \(9, 1, 8\), .* of rank 2, q means \(tokens, heads \* d\), .* h_q=; .* q\[-1:\], not"
    with pytest.raises(ValueError, match=text):
        entry(q[-1], k, v)
    with pytest.raises(
        ValueError, match=r"of rank 2, k means \(tokens, heads \* d\), .* in h_kv=; .* d\)\.$"
    ):
        entry(q, k.reshape(9, 8), v)


@by_entry
@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"q": np.float64}, TypeError, r"q is float64, .* dtype='f16'"),
        ({"k": np.float64}, TypeError, r"k is float64, .* dtype='f16'"),
        ({"v": np.int32}, TypeError, r"v is i32; attention needs floats: say dtype='f16'"),
        ({"q": np.float32}, TypeError, r"one dtype; got q f32, k f16, v f16. Say dtype='f16'"),
        ({"q": np.complex64}, TypeError, r"unknown dtype"),
    ],
)  # fmt: skip
def test_dtypes(entry: Any, change: dict[str, Any], error: type[Exception], text: str) -> None:
    given = dict(zip("qkv", arrays(), strict=True))
    for name, dtype in change.items():
        given[name] = given[name].astype(dtype)
    with pytest.raises(error, match=text):
        entry(*given.values())


@by_entry
@pytest.mark.parametrize(
    ("shapes", "text"),
    [
        (((3, 6, 8), (9, 4, 8), (9, 4, 8)), r"multiple of KV heads, both at least 1; got h_q=6 and h_kv=4"),
        (((3, 2, 8), (9, 4, 8), (9, 4, 8)), r"got h_q=2 and h_kv=4.*h // \(h_q / h_kv\)"),
        (((3, 2, 8), (9, 0, 8), (9, 0, 8)), r"got h_q=2 and h_kv=0"),
        (((3, 0, 8), (9, 2, 8), (9, 2, 8)), r"got h_q=0 and h_kv=2"),
        (
            ((3, 6, 8), (9, 2, 8), (8, 2, 8)),
            r"k and v must have one shape; got k \(9, 2, 8\) and v \(8, 2, 8\)",
        ),
        (
            ((3, 6, 4), (9, 2, 8), (9, 2, 8)),
            r"one size d; got q \(3, 6, 4\) \(d = 4\) and k \(9, 2, 8\) \(d = 8\)",
        ),
        (((0, 6, 8), (9, 2, 8), (9, 2, 8)), r"at least one token .*got \(0, 6, 8\)"),
        (((3, 6, 0), (9, 2, 0), (9, 2, 0)), r"d at least 1; got \(3, 6, 0\)"),
        (((8,), (9, 2, 8), (9, 2, 8)), r"q must have shape \(tokens, heads, d\), .*got \(8,\)"),
        (((3, 6, 8), (1, 9, 2, 8), (9, 2, 8)), r"k must have shape .*got \(1, 9, 2, 8\)"),
    ],
)
def test_shapes(entry: Any, shapes: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        entry(*(np.ones(s, np.float16) for s in shapes))


@by_entry
def test_heads_of_rank_two(entry: Any) -> None:
    q, k = np.ones((3, 48), np.float16), np.ones((9, 16), np.float16)
    with pytest.raises(ValueError, match=r"q of shape \(3, 48\) cannot be cut into 5 heads"):
        entry(q, k, k, h_q=5, h_kv=2)
    with pytest.raises(ValueError, match=r"k of shape \(9, 16\) cannot be cut into 0 heads"):
        entry(q, k, k, h_q=6, h_kv=0)
    with pytest.raises(ValueError, match=r"q of shape \(3, 6, 8\) has 6 heads, but 3 were asked for"):
        entry(*arrays(), h_q=3)


@by_entry
@pytest.mark.parametrize(
    ("dtype", "text"), [("f64", "got dtype=f64"), ("i8", "got dtype=i8"), ("f61", "did you mean")]
)
def test_a_dtype_to_convert_to(entry: Any, dtype: str, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        entry(*arrays(), dtype=dtype)


# -- options -----------------------------------------------------------------------------------------------------


@by_entry
@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"casual": True}, TypeError, r"kb\.\w+ has no argument casual=; did you mean causal=\?"),
        ({"scratch_check": "off"}, TypeError, r"did you mean scratch_checks=\?"),
        ({"xyz": 1}, TypeError, r"no argument xyz=; it takes .*causal.*, data, scratch_checks, record"),
        ({"sm_scale": "0.5"}, TypeError, r"sm_scale must be a number, .*got '0.5'"),
        ({"topology": "ahmb"}, ValueError, r"did you mean 'ahbm'"),
        ({"topology": {"base": "ahbm", "pe.tcm.kernel_scratch": 1}}, ValueError, r"kernel_scratch"),
        ({"scratch_checks": "on"}, ValueError, r"scratch_checks must be one of raise, poison, off, got 'on'"),
        ({"record": "all"}, ValueError, r"record must be None or 'tiles', got 'all'"),
        ({"record": "tiles", "data": False}, ValueError, r"record='tiles' needs values"),
    ],
)  # fmt: skip
def test_options_of_all(entry: Any, given: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        entry(*arrays(), **given)


@pytest.mark.parametrize(
    ("name", "given", "text"),
    [
        ("decode", {"tile": 0}, "tile must be a whole number from 1 on, got 0"),
        ("decode", {"tile": 2.5}, "tile must be a whole number from 1 on, got 2.5"),
        ("decode", {"tile": True}, "tile must be a whole number from 1 on, got True"),
        ("decode", {"merge": "star"}, "merge must be 'chain' or 'tree', got 'star'"),
        ("decode", {"kv_len": 10}, "kv_len=10 is more than the 9 keys that k and v hold"),
        ("decode", {"kv_len": -1}, "kv_len must be a whole number from 0 on, got -1"),
        ("decode", {"pes": 0}, "pes must be a whole number from 1 on, got 0"),
        ("decode", {"pes": "8"}, "pes must be a whole number from 1 on, got '8'"),
        ("decode", {"cubes": 1.0}, "cubes must be a whole number from 1 on, got 1.0"),
        ("decode", {"pes": 12}, "pes=12 counts all PEs; .* such as 8 or 16"),
        ("decode", {"pes": 8, "cubes": 3}, "pes=8 counts all PEs and does not divide over cubes=3"),
        ("decode", {"pes": 18, "cubes": 2}, "pes=18 on cubes=2 is 9 a cube; 'ahbm' has 8"),
        ("decode", {"cubes": 17}, "cubes=17: .* 2 SIPs of 16 cubes"),
        ("decode", {"pes": 512}, "pes=512: topology 'ahbm' has 256 PEs, in 32 cubes of 8"),
        (
            "decode",
            {"pes": 2, "topology": "single_pe"},
            "pes=2: topology 'single_pe' has 1 PEs, in 1 cubes of 1",
        ),
        ("prefill", {"cubes": 0}, "cubes must be a whole number from 1 on, got 0"),
        ("prefill", {"cubes": 17}, "cubes=17"),
        ("prefill", {"cubes": 32}, "cubes=32: the ring runs over the cubes of one SIP, 16 at most"),
        ("prefill", {"tile": 0}, "tile must be a whole number from 1 on, got 0"),
        ("prefill", {"tile_q": -1}, "tile_q must be a whole number from 1 on, got -1"),
        ("prefill", {"direction": "left"}, "direction must be 'next' or 'prev', got 'left'"),
        ("flash", {"tile_kv": 0}, "tile_kv must be a whole number from 1 on, got 0"),
        ("flash", {"order": "fa3"}, "order must be 'fa2' or 'fa1', got 'fa3'"),
        ("flash", {"mask": np.ones((3, 9))}, "mask must be bool, .*got float64"),
        (
            "flash",
            {"mask": np.ones((9, 3), bool)},
            r"mask must have shape \(T_q, S_kv\) = \(3, 9\), got \(9, 3\)",
        ),
        ("naive", {"rows": 0}, "rows must be a whole number from 1 on, got 0"),
    ],
)
def test_options_of_one(name: str, given: dict[str, Any], text: str) -> None:
    with pytest.raises((ValueError, TypeError), match=text):
        ENTRIES[name](*arrays(), **given)


@by_entry
def test_a_signature_shows_everything_that_may_be_given(entry: Any) -> None:
    parameters = inspect.signature(entry).parameters
    assert list(parameters)[:3] == ["q", "k", "v"]
    assert {"causal", "sm_scale", "dtype", "topology", "lse", *Options.__dataclass_fields__} <= set(
        parameters
    )
    assert all(p.kind is p.KEYWORD_ONLY for name, p in parameters.items() if name not in "qkv")
    assert inspect.getdoc(entry)
    for name in list(parameters)[3:]:
        assert name in (entry.__doc__ or ""), name
    with pytest.raises(TypeError, match="takes 3 positional arguments but 4 were given"):
        entry(*arrays(), 8)


# -- kb.bench ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "given", "error", "text"),
    [
        (
            "gqa_decod",
            {},
            ValueError,
            "no bench is called 'gqa_decod'; did you mean 'gqa_decode'.*naive_attention",
        ),
        ("zzz", {}, ValueError, "no bench is called 'zzz'. There are: gqa_decode, "),
        ("gqa_decode", {"S_k": 4}, TypeError, "bench gqa_decode has no argument S_k=; did you mean S_kv="),
        ("gqa_decode", {"h_q": 3, "h_kv": 2}, ValueError, "h_q=3 and h_kv=2"),
        ("gqa_decode", {"S_kv": -1}, ValueError, "S_kv must be a whole number from 0 on, got -1"),
        ("gqa_decode", {"T_q": 0}, ValueError, "T_q must be a whole number from 1 on, got 0"),
        ("gqa_decode", {"d": "64"}, ValueError, "d must be a whole number from 1 on, got '64'"),
        ("gqa_prefill", {"dtype": "f64"}, TypeError, "float64"),
    ],
)
@pytest.mark.parametrize("data", [True, False])
def test_benches(name: str, given: dict[str, Any], error: type[Exception], text: str, data: bool) -> None:
    with pytest.raises(error, match=text):
        kb.bench(name, data=data, **given)


ATTENTION = [name for name in registry.BENCHES if "softmax" not in name]


@pytest.mark.parametrize("name", registry.BENCHES)
def test_a_bench_lists_its_arguments(name: str) -> None:
    found = registry.find_bench(name)
    assert {"dtype", "topology", "data", "record"} <= set(found.arguments)
    assert not {"q", "k", "v", "x", "h_q", "h_kv"} & set(found.arguments)
    if name in ATTENTION:
        assert {"causal", "sm_scale"} <= set(found.arguments)
        assert set(found.sizes) == {"T_q", "S_kv", "h_q", "h_kv", "d"}


@pytest.mark.parametrize(
    ("entry", "given", "named", "text"),
    [
        (kb.decode, 2, {}, "kb.decode takes q, k, v: v is missing."),
        (kb.flash, 0, {"k": 1, "v": 1}, "kb.flash takes q, k, v: q is missing."),
        (kb.naive, 3, {"k": 1}, "kb.naive takes q, k, v: k is given twice."),
        (kb.online_softmax, 0, {}, "kb.online_softmax takes x: x is missing."),
        (
            kb.safe_softmax,
            2,
            {},
            "kb.safe_softmax takes 1 positional arguments but 2 were given: x go by place, everything else by name.",
        ),
    ],
)
def test_arrays_that_are_not_all_there(entry: Any, given: int, named: dict[str, Any], text: str) -> None:
    with pytest.raises(TypeError) as caught:
        entry(*[np.ones((4, 1, 8), np.float16)] * given, **named)
    assert str(caught.value) == text
