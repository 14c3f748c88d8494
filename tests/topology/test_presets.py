"""The shipped topologies: default numbers, notes, size, and the file where the seeds look for it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml

from kernbench_nb.topology import preset_names, resolve_topology

ROOT = Path(__file__).resolve().parents[2]
PRESETS = ROOT / "kernbench_nb" / "topology" / "presets"


def groups(tree: dict[str, Any], path: str = "") -> list[tuple[str, dict[str, Any]]]:
    """Every group of a file that holds a number, with its path."""
    here = [(path, tree)] if any(isinstance(v, int | float) for v in tree.values()) else []
    inner = [groups(v, f"{path}.{k}".lstrip(".")) for k, v in tree.items() if isinstance(v, dict)]
    return here + [found for group in inner for found in group]


def test_the_names() -> None:
    assert {"ahbm", "single_pe", "tiny"} <= set(preset_names())


def test_the_file_at_the_root_is_ahbm() -> None:
    assert resolve_topology(str(ROOT / "topology.yaml")) == resolve_topology("ahbm")
    assert (ROOT / "topology.yaml").read_text() == (PRESETS / "ahbm.yaml").read_text()


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_is_called_as_its_file_and_fits_one_screen(name: str) -> None:
    assert resolve_topology(name).name == name
    lines = (PRESETS / f"{name}.yaml").read_text().splitlines()
    assert len(lines) <= 90
    assert max(map(len, lines)) <= 120


@pytest.mark.parametrize("name", preset_names())
def test_every_number_of_a_preset_has_its_unit_and_a_note(name: str) -> None:
    tree = yaml.safe_load((PRESETS / f"{name}.yaml").read_text())
    units = (
        "_ghz", "_cycles", "_channels", "_per_s", "_per_s_per_channel", "_percent", "_ns", "_mb",
        "_per_cycle", "_pj_per_byte", "_pj_per_flop", "sips", "_wide", "_high", "tile_m", "tile_n",
        "tile_k", "rows", "cols", "lanes", "slots",
    )  # fmt: skip
    found = groups(tree)
    assert len(found) == 12
    for path, group in found:
        assert str(group.get("source", group.get("assumption", ""))).strip(), path
        for key, value in group.items():
            if isinstance(value, int | float):
                assert key.endswith(units), f"{path}.{key}"


def test_the_default_numbers() -> None:
    ahbm = resolve_topology()
    assert ahbm.name == "ahbm"
    assert (ahbm.sips, ahbm.cube_mesh, ahbm.pe_mesh) == (2, (4, 4), (4, 2))
    assert (ahbm.pe_count, ahbm.cubes_per_sip, ahbm.pes_per_cube) == (256, 16, 8)
    assert ahbm.scratch_bytes == 1 << 20
    assert (ahbm.issue, ahbm.ipc_slots, ahbm.wide_links) == ("blocking", 4, False)
    costs = ahbm.costs
    assert (costs.dispatch_ps, costs.hbm_latency_ps, costs.hbm_busy_ps(0)) == (4_000, 100_000, 50_000)
    assert costs.hbm_peak_gb_per_s == 256
    assert costs.hbm_gb_per_s == Fraction(256 * 85, 100)
    assert costs.macs_per_cycle == 4096
    kinds = {link.kind: (link.gb_per_s, link.latency_ps) for link in ahbm.links}
    assert kinds == {"pe": (64, 5_000), "cube": (256, 10_000), "sip": (400, 936_000)}
    energy = ahbm.spec.energy
    assert (energy.hbm_pj_per_byte, energy.scratch_pj_per_byte) == (26.3, 1.3)
    assert (energy.cube_link_pj_per_byte, energy.sip_link_pj_per_byte) == (4, 10.4)
    assert energy.f16_pj_per_flop == 0.75


@pytest.mark.parametrize(
    ("name", "sips", "cubes", "pes", "links"),
    [("single_pe", 1, (1, 1), (1, 1), 0), ("tiny", 1, (2, 1), (2, 1), 6)],
)
def test_the_small_ones_are_ahbm_but_for_their_counts(
    name: str, sips: int, cubes: tuple[int, int], pes: tuple[int, int], links: int
) -> None:
    small, ahbm = resolve_topology(name), resolve_topology("ahbm")
    assert (small.sips, small.cube_mesh, small.pe_mesh) == (sips, cubes, pes)
    assert len(small.links) == links
    assert small.costs == ahbm.costs
    assert small.scratch_bytes == ahbm.scratch_bytes
