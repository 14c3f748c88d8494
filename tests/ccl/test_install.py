"""The configuration of collectives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kernbench_nb.ccl import load_ccl_config, resolve_algorithm_config
from kernbench_nb.ccl.sfr_config import SIP_TOPOLOGIES


def test_the_packaged_file_has_the_algorithms_of_the_package() -> None:
    cfg = load_ccl_config()
    assert set(cfg["algorithms"]) == {"lrab_hierarchical_allreduce", "ring_allreduce"}
    for name in cfg["algorithms"]:
        entry = resolve_algorithm_config(cfg, name=name)
        assert entry["name"] == name
        assert entry["sip_topology"] in SIP_TOPOLOGIES
        assert "algorithm" not in entry


def test_an_entry_goes_over_the_defaults_and_leaves_them_alone() -> None:
    cfg: dict[str, Any] = {
        "defaults": {"algorithm": "a", "x": 1, "y": 1},
        "algorithms": {"a": {"y": 2}, "b": {"z": 3}},
    }
    assert resolve_algorithm_config(cfg, name="a") == {"name": "a", "x": 1, "y": 2}
    assert resolve_algorithm_config(cfg, name="b") == {"name": "b", "x": 1, "y": 1, "z": 3}
    assert resolve_algorithm_config(cfg) == resolve_algorithm_config(cfg, name="a")
    assert cfg["defaults"] == {"algorithm": "a", "x": 1, "y": 1}


def test_every_load_gives_its_own() -> None:
    load_ccl_config()["defaults"]["sip_topology"] = "broken"
    assert load_ccl_config()["defaults"]["sip_topology"] == "ring_1d"


@pytest.mark.parametrize(
    ("name", "listed"),
    [
        ("ring_alreduce", "ring_allreduce, lrab_hierarchical_allreduce"),
        ("hierarchical_allreduce", "lrab_hierarchical_allreduce, ring_allreduce"),
    ],
)
def test_an_unknown_name_lists_the_known_nearest_first(name: str, listed: str) -> None:
    with pytest.raises(ValueError) as caught:
        resolve_algorithm_config(load_ccl_config(), name=name)
    assert str(caught.value) == f"unknown collective {name!r}; known, nearest first: {listed}"


def test_a_file_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("defaults: {sip_topology: torus_2d}\nalgorithms: {mine: {op: max}}\n")
    entry = resolve_algorithm_config(load_ccl_config(file), name="mine")
    assert entry == {"name": "mine", "sip_topology": "torus_2d", "op": "max"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected the groups `defaults` and `algorithms`, got NoneType"),
        ("defaults: {}", "expected the groups `defaults` and `algorithms`, got defaults"),
        ("defaults: {}\nalgorithms: {}\nmore: 1", "got defaults, algorithms, more"),
        ("defaults: 3\nalgorithms: {}", "defaults: expected a group of keys, got 3"),
        ("defaults: {}\nalgorithms: {a: 4}", "algorithms.a: expected a group of keys, got 4"),
        ("defaults: {}\nalgorithms: [a]", "algorithms: expected a group of keys, got ['a']"),
        ("defaults: [", "is not YAML"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(ValueError) as caught:
        load_ccl_config(file)
    assert str(caught.value).startswith(str(file))
    assert message in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_ccl_config(tmp_path / "none.yaml")
