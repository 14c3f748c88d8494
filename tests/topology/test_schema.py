"""What a topology file may not say, and how the error puts it."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernbench_nb.errors import TopologyError
from kernbench_nb.topology import resolve_topology
from kernbench_nb.topology.schema import known_keys, nearest


def refused(change: dict[str, Any]) -> str:
    with pytest.raises(TopologyError) as caught:
        resolve_topology({"base": "ahbm", **change})
    text = str(caught.value)
    assert text.startswith("mapping over ahbm: ")
    return text.removeprefix("mapping over ahbm: ")


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("pe.hbm.efficiency_percent", 100.1, "a number <= 100.0"),
        ("pe.hbm.efficiency_percent", 0, "a number > 0.0"),
        ("pe.hbm.efficiency_percent", "85", "a number"),
        ("pe.hbm.efficiency_percent", None, "a number"),
        ("pe.hbm.latency_ns", -0.1, "a number >= 0.0"),
        ("pe.hbm.latency_ns", math.nan, "a number >= 0.0"),
        ("pe.hbm.latency_ns", math.inf, "a number <= 1000000000000.0"),
        ("pe.hbm.pseudo_channels", 0, "a whole number >= 1"),
        ("pe.hbm.pseudo_channels", 1.5, "a whole number"),
        ("pe.hbm.gb_per_s_per_channel", 0, "a number > 0.0"),
        ("pe.clock_ghz", 0, "a number > 0.0"),
        ("pe.dispatch_cycles", -1, "a whole number >= 0"),
        ("pe.tcm.kernel_scratch_mb", 0, "a number > 0.0"),
        ("pe.tcm.kernel_scratch_mb", -1, "a number > 0.0"),
        ("pe.tcm.bytes_per_cycle", 0, "a whole number >= 1"),
        ("pe.gemm.tile_k", 0, "a whole number >= 1"),
        ("pe.gemm.depth_cycles", -1, "a whole number >= 0"),
        ("pe.gemm.model", "tensor", "'native' or 'systolic'"),
        ("pe.math.lanes", 0, "a whole number >= 1"),
        ("pe.math.slow_cycles", 0, "a whole number >= 1"),
        ("pe.ipc.slots", -1, "a whole number >= 0"),
        ("pe.ipc.slots", True, "a whole number"),
        ("system.pes_wide", 0, "a whole number >= 1"),
        ("system.cubes_high", 0, "a whole number >= 1"),
        ("system.sips", 0, "a whole number >= 1"),
        ("system.sips", 10**9, "a whole number <= 1000000"),
        ("links.pe.bytes_per_cycle", 0, "a whole number >= 1"),
        ("links.cube.gb_per_s", 0, "a number > 0.0"),
        ("links.sip.latency_ns", -1, "a number >= 0.0"),
        ("links.infinitely_wide", "yes", "`bool`"),
        ("energy.hbm_pj_per_byte", 0, "a number > 0.0"),
        ("issue", "async", "'blocking' or 'dataflow'"),
        ("name", "", "text of length >= 1"),
        ("name", 5, "text"),
    ],
)
def test_a_bad_value_is_named_with_its_path(path: str, value: object, expected: str) -> None:
    assert refused({path: value}) == f"{path}: expected {expected}, got {value!r}"


def test_a_group_in_place_of_a_number_and_the_other_way_round() -> None:
    assert refused({"pe.ipc.slots": {}}) == "pe.ipc.slots: expected a whole number, got a group of keys"
    assert refused({"pe": 3}) == "pe: expected a group of keys, got 3"


@pytest.mark.parametrize(
    ("path", "known"),
    [
        ("pe.hbm.efficency_percent", "pe.hbm.efficiency_percent"),
        ("pe.hbm.latency", "pe.hbm.latency_ns"),
        ("pe.hmb", "pe.hbm"),
        ("sytem", "system"),
        ("clock_ghz", "pe.clock_ghz"),
        ("kernel_scratch_mb", "pe.tcm.kernel_scratch_mb"),
        ("hbm.efficiency_percent", "pe.hbm"),
        ("pe.lanes", "pe.math.lanes"),
    ],
)
def test_an_unknown_key_is_told_the_nearest_known_one(path: str, known: str) -> None:
    text = refused({path: 1})
    assert text.startswith("unknown key `")
    assert text.endswith(f"; did you mean `{known}`?")


def test_an_unknown_key_with_several_homes_is_told_all() -> None:
    assert refused({"setup_latency_ns": 3}).endswith(
        "did you mean `pe.hbm.latency_ns` or `links.pe.latency_ns` or `links.cube.latency_ns` "
        "or `links.sip.latency_ns`?"
    )


def test_an_unknown_key_like_no_other_is_told_what_there_is() -> None:
    assert refused({"zebra": 1}) == (
        "unknown key `zebra` (value 1); known here: name, issue, system, pe, links, energy"
    )


@pytest.mark.parametrize("path", ["pe.hbm.latency_ns", "pe.ipc", "issue", "energy.f16_pj_per_flop"])
def test_a_missing_key_is_named(path: str) -> None:
    tree = resolve_topology("ahbm").to_dict()
    group: dict[str, Any] = tree
    *above, last = path.split(".")
    for step in above:
        group = group[step]
    del group[last]
    with pytest.raises(
        TopologyError, match=f"^mapping: missing key `{path}`; give it, or start from a preset"
    ):
        resolve_topology(tree)


@pytest.mark.parametrize(
    ("mb", "text"),
    [
        (
            0.1,
            "got 0.1, that is 104857.6 bytes; the next smaller size is 104848 bytes = 0.0999908447265625 MiB",
        ),
        (8 / 2**20, "that is 8 bytes; the smallest size is 16 bytes = 1.52587890625e-05 MiB"),
        ((2**20 - 8) / 2**20, "that is 1048568 bytes; the next smaller size is 1048560 bytes"),
        ((2**20 + 8) / 2**20, "that is 1048584 bytes; the next smaller size is 1048576 bytes = 1.0 MiB"),
    ],
)
def test_scratch_is_a_multiple_of_16_bytes(mb: float, text: str) -> None:
    message = refused({"pe.tcm.kernel_scratch_mb": mb})
    assert message.startswith(
        "pe.tcm.kernel_scratch_mb: expected a multiple of 16 bytes in MiB (2^20 bytes), "
    )
    assert text in message


@given(sixteenths=st.integers(1, 1 << 20))
def test_every_multiple_of_16_bytes_is_taken(sixteenths: int) -> None:
    topology = resolve_topology({"base": "tiny", "pe.tcm.kernel_scratch_mb": sixteenths * 16 / 2**20})
    assert topology.scratch_bytes == sixteenths * 16


@pytest.mark.parametrize("missing", ["rows", "cols"])
def test_a_systolic_array_needs_its_size(missing: str) -> None:
    text = refused({"pe.gemm.model": "systolic", f"pe.gemm.{missing}": None})
    assert text.startswith(
        "pe.gemm.model: expected `rows` and `cols`, the size of the array, beside `model: syst"
    )
    assert f"{missing}=None" in text


@pytest.mark.parametrize("path", [p for p in known_keys() if p.endswith(".source")])
def test_every_group_needs_a_note(path: str) -> None:
    group = path.removesuffix(".source")
    for nothing in (None, "", "  "):
        text = refused({path: nothing, f"{group}.assumption": nothing})
        assert text == (
            f"{group}: expected a note, `source:` or `assumption:`, that says where the numbers come from"
        )


def test_one_note_is_enough() -> None:
    kept = resolve_topology({"base": "ahbm", "pe.hbm.source": None})
    assert kept.spec.pe.hbm.assumption == "latency"


def test_known_keys_are_the_paths_of_the_file() -> None:
    keys = known_keys()
    assert len(keys) == len(set(keys))
    assert {"name", "pe", "pe.tcm.kernel_scratch_mb", "links.sip.latency_ns", "energy.source"} <= set(keys)


def test_nearest() -> None:
    assert nearest("latency", ("latency_ns", "lanes")) == "latency_ns"
    assert nearest("zebra", ("latency_ns", "lanes")) is None
