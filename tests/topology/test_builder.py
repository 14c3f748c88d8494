"""`resolve_topology`: what it takes, what it keeps, how single numbers are changed, what a `Topology` is."""

from __future__ import annotations

import copy
import doctest
import os
import pickle
import subprocess
import sys
from dataclasses import FrozenInstanceError
from pathlib import Path

import msgspec
import numpy as np
import pytest

from kernbench_nb.errors import TopologyError
from kernbench_nb.topology import Topology, builder, resolve_topology

AHBM = (Path(builder.__file__).with_name("presets") / "ahbm.yaml").read_text()


def test_what_is_taken(tmp_path: Path) -> None:
    ahbm = resolve_topology()
    file = tmp_path / "mine.yaml"
    file.write_text(AHBM)
    for same in (
        "ahbm",
        str(file),
        file,
        ahbm.to_dict(),
        {"base": "ahbm"},
        {"base": str(file)},
        {"base": ahbm},
    ):
        assert resolve_topology(same) == ahbm
    assert resolve_topology(ahbm) is ahbm
    assert resolve_topology("tiny") != ahbm


def test_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(AHBM)
    change = {"base": "ahbm", "pe": {"ipc": {"slots": 7}}}
    first = [resolve_topology(spec) for spec in (None, str(file), change)]
    monkeypatch.setattr(builder, "parse", None)  # from here on, parsing fails
    again = [resolve_topology(spec) for spec in ("ahbm", file, copy.deepcopy(change))]
    assert all(a is b for a, b in zip(first, again, strict=True))


def test_an_edited_file_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(AHBM)
    assert resolve_topology(file).ipc_slots == 4
    file.write_text(AHBM.replace("slots: 4", "slots: 5"))
    os.utime(file, ns=(1, 1))
    assert resolve_topology(file).ipc_slots == 5


@pytest.mark.parametrize(
    "change",
    [
        {"pe": {"hbm": {"latency_ns": 0}}},
        {"pe.hbm.latency_ns": 0},
        {"pe": {"hbm.latency_ns": 0}},
        {"pe.hbm": {"latency_ns": np.int64(0)}},
        {"pe.hbm.latency_ns": np.float32(0)},
    ],
)
def test_one_number_changed(change: dict[str, object]) -> None:
    changed = resolve_topology({"base": "ahbm", **change})
    assert changed.costs.hbm_latency_ps == 0
    back = resolve_topology({"base": changed, "pe.hbm.latency_ns": 100, "name": "ahbm"})
    assert back == resolve_topology("ahbm")


def test_several_changes_of_one_group_and_of_the_top() -> None:
    changed = resolve_topology(
        {"base": "tiny", "pe.hbm.latency_ns": 1, "pe": {"hbm": {"pseudo_channels": 2}}, "issue": "dataflow"}
    )
    assert changed.costs.hbm_latency_ps == 1000
    assert changed.costs.hbm_peak_gb_per_s == 64
    assert changed.issue == "dataflow"
    assert changed.ipc_slots == 4


def test_a_changed_machine_does_not_pass_for_its_preset() -> None:
    one = resolve_topology({"base": "ahbm", "pe.hbm.latency_ns": 0})
    assert one.name == "ahbm with pe.hbm.latency_ns=0"
    two = resolve_topology({"base": "ahbm", "pe": {"ipc": {"slots": 0}}, "issue": "dataflow"})
    assert two.name == "ahbm with pe.ipc.slots=0, issue=dataflow"
    three = resolve_topology({"base": "ahbm", "pe.hbm.latency_ns": 0, "pe.ipc.slots": 0, "issue": "dataflow"})
    assert three.name == "ahbm with 3 changes"
    assert resolve_topology({"base": "ahbm", "name": "mine", "pe.ipc.slots": 0}).name == "mine"


def test_the_mapping_given_is_left_alone() -> None:
    given = {"base": "ahbm", "pe": {"hbm": {"latency_ns": 0}}}
    before = copy.deepcopy(given)
    resolve_topology(given)
    assert given == before


@pytest.mark.parametrize(
    ("mb", "nbytes"), [(1, 1 << 20), (0.5, 1 << 19), (2**-16, 16), (3 * 2**-16, 48), (1.25, 1_310_720)]
)
def test_scratch_may_be_a_fraction_of_a_mebibyte(mb: float, nbytes: int) -> None:
    assert resolve_topology({"base": "ahbm", "pe.tcm.kernel_scratch_mb": mb}).scratch_bytes == nbytes


def test_zero_is_allowed_where_the_machine_may_have_none() -> None:
    none = resolve_topology(
        {
            "base": "ahbm",
            "pe.dispatch_cycles": 0,
            "pe.hbm.latency_ns": 0,
            "pe.dma.setup_ns": 0,
            "pe.gemm.depth_cycles": 0,
            "pe.math.fill_cycles": 0,
            "pe.ipc.slots": 0,
            "links.pe.latency_ns": 0,
            "links.cube.latency_ns": 0,
            "links.sip.latency_ns": 0,
        }
    )
    assert none.ipc_slots == 0
    assert none.costs.dispatch_ps == none.costs.hbm_busy_ps(0) == none.route(0, 255).latency_ps == 0


# The object


def test_it_is_frozen_and_hashable() -> None:
    tiny = resolve_topology("tiny")
    with pytest.raises(FrozenInstanceError):
        tiny.spec = None  # type: ignore[misc,assignment]
    with pytest.raises(AttributeError):
        tiny.spec.pe.ipc.slots = 3  # type: ignore[misc]
    assert {tiny: 1}[resolve_topology(tiny.to_dict())] == 1


def test_it_travels_to_another_process() -> None:
    tiny = resolve_topology("tiny")
    tiny.route(0, 3)
    there = pickle.loads(pickle.dumps(tiny))
    assert there == tiny
    assert there.route(0, 3) == tiny.route(0, 3)
    assert copy.deepcopy(tiny) == tiny


def test_to_dict_is_plain_and_complete() -> None:
    for name in ("ahbm", "tiny"):
        tree = resolve_topology(name).to_dict()
        assert msgspec.json.decode(msgspec.json.encode(tree)) == tree
        assert resolve_topology(tree).to_dict() == tree
        assert None not in tree["energy"].values()  # a note that was left out is not there
    wide = resolve_topology("tiny").with_wide_links()
    assert resolve_topology(wide.to_dict()) == wide


def test_summary() -> None:
    assert resolve_topology("tiny").summary() == (
        "tiny: 4 PEs = 1 SIP x 2x1 cubes x 2x1 PEs\n"
        "each PE: 1 048 576 B scratch; HBM 256 GB/s at 85 %, 100 ns; 16x16x16 native tile, 8 192 GFLOP/s; "
        "128 math lanes; 1 GHz\n"
        "links: PE 64 GB/s 5 ns, cube 256 GB/s 10 ns, SIP 400 GB/s 936 ns\n"
        "issue blocking; 4 cycles dispatch; 4 message slots"
    )
    assert repr(resolve_topology()) == "<Topology ahbm: 256 PEs>"
    assert repr(resolve_topology("single_pe")) == "<Topology single_pe: 1 PE>"
    assert "taken as infinitely wide" in resolve_topology("tiny").with_wide_links().summary()
    systolic = resolve_topology({"base": "tiny", "pe.gemm.model": "systolic", "pe.gemm.rows": 32})
    assert "32x16 systolic array, 1 024 GFLOP/s" in systolic.summary()


def test_the_examples_of_the_docstrings() -> None:
    assert doctest.testmod(builder) == (0, 2)


def test_import_loads_nothing_heavy() -> None:
    code = (
        "import sys, kernbench_nb.topology as t; t.resolve_topology().route(0, 255);"
        "print(sorted({'pandas', 'numpy', 'matplotlib'} & set(sys.modules)))"
    )
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert child.stdout.strip() == "[]"


# Errors of the source; those of the content are in test_schema.py


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("ahmb", "'ahmb' is neither a preset nor a file; presets: "),
        ("ahmb", "(did you mean 'ahbm'?)"),
        ("no/such/file.yaml", "'no/such/file.yaml' is neither a preset nor a file; presets: ahbm"),
        ("", "'' is not a file; expected a topology in YAML"),
        ("nul\0", "is neither a preset nor a file"),
        (5, "expected None, a preset's name, a path, a mapping or a Topology, got int (5)"),
        ([1], "got list ([1])"),
        ({"base": "ahmb"}, "(did you mean 'ahbm'?)"),
        ({"base": "ahbm", 1: 2}, "mapping over ahbm: expected names as keys, got 1"),
        ({"base": "ahbm", "pe": {None: 2}}, "mapping over ahbm: expected names as keys, got None"),
        ({}, "mapping: missing key `name`; give it, or start from a preset with base='ahbm'"),
    ],
)
def test_what_is_not_taken(spec: object, text: str) -> None:
    with pytest.raises(TopologyError) as caught:
        resolve_topology(spec)  # type: ignore[arg-type]
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "top level: expected a group of keys, got None"),
        ("- 1", "top level: expected a group of keys, got [1]"),
        ("name: [", ": cannot be read as YAML: line "),
        ("a: 1\nb: 2\na: 3\n", "line 3, column 1: key `a` is given twice"),
        (AHBM.replace("slots: 4", "slots: 4\n    slots: 5"), "key `slots` is given twice"),
        (AHBM.replace("slots: 4", "slots: x"), "pe.ipc.slots: expected a whole number, got 'x'"),
        (AHBM.replace("  ipc:", "  1:"), "pe: expected names as keys, got 1"),
        ("x: !!python/object:os.system {}", "could not determine a constructor"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(TopologyError) as caught:
        resolve_topology(file)
    assert str(caught.value).startswith(f"{file}: ")
    assert message in str(caught.value)


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_bytes(b"\xff\xfe\x00\xd8")
    with pytest.raises(TopologyError, match=r"mine\.yaml: cannot be read: "):
        resolve_topology(file)


def test_a_topology_error_is_a_value_error() -> None:
    assert issubclass(TopologyError, ValueError)
    assert isinstance(resolve_topology(), Topology)
