"""`list`, `--version` and `--help`: what there is."""

from __future__ import annotations

from collections.abc import Callable

from click.testing import Result

import kernbench_nb as kb
from kernbench_nb._settings import keys_of
from kernbench_nb.benches.registry import BENCHES
from kernbench_nb.topology import preset_names

Call = Callable[..., Result]


def test_list_shows_every_bench_and_machine(call: Call) -> None:
    result = call("list")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.isascii()
    assert max(map(len, result.stdout.splitlines())) <= 100
    for bench in BENCHES.values():
        assert f"\n  {bench.name}: {bench.about}\n" in result.stdout
    for name in preset_names():
        assert f"\n  {kb.resolve_topology(name).summary().splitlines()[0]}" in result.stdout
    assert result.stdout.count("(the default)") == 1
    assert f"\n  ahbm: {kb.resolve_topology().pe_count} PEs" in result.stdout


def test_list_shows_each_key_with_its_default(call: Call) -> None:
    # the blocks of the benches lie between the heading and the machines
    blocks = call("list").stdout.partition("Machines")[0].split("\n\n")
    for bench, block in zip(BENCHES.values(), blocks[1:], strict=False):
        words = block.split()
        for key in keys_of(bench).values():
            there = block if key.group != "options" else blocks[-2]
            assert f"{key.name}={key.default}" in there.split(), (bench.name, key)
        assert "mask=None" not in words, "an array cannot be typed"


def test_version(call: Call) -> None:
    result = call("--version")
    assert (result.exit_code, result.stdout) == (0, f"kernbench-nb, version {kb.__version__}\n")


def test_no_command_shows_the_help(call: Call) -> None:
    result = call()
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == call("--help").stdout
    for command in ("tour", "run", "list"):
        assert f"\n  {command} " in result.stdout
