"""`run`: a bench by name, its summary, and errors in one line."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import Result

import kernbench_nb as kb
from kernbench_nb.benches.registry import BENCHES
from kernbench_nb.runtime_api.text import bytes_text, grouped, percent_text, time_text

Call = Callable[..., Result]
Refused = Callable[..., str]

SMALL = {"S_kv": 256, "tile": 16}
WORDS = [f"--set={key}={value}" for key, value in SMALL.items()]


def said(stdout: str) -> dict[str, str]:
    """The summary as names and texts, which stand in two columns."""
    pairs = [re.fullmatch(r"(\w+(?: \w+)?) {2,}(\S.*)", line) for line in stdout.splitlines()]
    assert all(pairs), stdout
    assert len({pair.start(2) for pair in pairs if pair}) == 1, "the texts line up"
    return {pair[1]: pair[2] for pair in pairs if pair}


def test_the_summary_is_that_of_the_run(call: Call) -> None:
    result = call("run", "gqa_decode", *WORDS)
    run = kb.bench("gqa_decode", **SMALL)
    text = said(result.stdout)
    assert (result.exit_code, result.stderr) == (0, "")
    assert list(text) == [
        "kernel", "makespan", "peak scratch", "HBM", "busy", "products", "bound", "check",
    ]  # fmt: skip
    assert text["kernel"] == f"{run.name} on ahbm, with data"
    assert text["makespan"] == f"{time_text(run.makespan_ps)} on 8 PEs"
    assert text["peak scratch"].startswith(f"{bytes_text(run.peak_scratch)} of 1 048 576 B (")
    assert text["HBM"].startswith(f"{bytes_text(run.hbm_bytes)}, ")
    assert text["busy"] == ", ".join(f"{e} {percent_text(share)}" for e, share in run.busy.items())
    assert text["products"].startswith(f"{grouped(run.flops)} FLOP")
    assert text["bound"].startswith(f"{run.bound} binds: compute {time_text(run.roofline.compute_ps)}, ")
    worst = f"{run.check():.1e}"
    assert text["check"] == f"agrees with float64 within {worst} of (1 + |O|), tolerance 2.0e-03"


def test_timing_mode_gives_the_same_but_for_the_check(call: Call) -> None:
    with_data, timed = (
        said(call("run", "gqa_decode", *WORDS, flag).stdout) for flag in ("--data", "--timing")
    )
    assert timed["kernel"].endswith(", timing mode")
    del with_data["check"], with_data["kernel"], timed["kernel"]
    assert timed == with_data
    assert said(call("run", "gqa_decode", *WORDS, "--set", "data=False").stdout)["kernel"].endswith(
        "timing mode"
    )


def test_settings_reach_the_bench(call: Call) -> None:
    words = (
        "--set",
        "S_kv=96",
        "--set",
        "pes=2",
        "--set",
        "dtype=bf16",
        "--set",
        "merge=tree",
        "--set",
        "seed=3",
    )
    text = said(call("run", "gqa_decode", *words, "--topology", "tiny", "--scratch-checks", "off").stdout)
    run = kb.bench(
        "gqa_decode",
        S_kv=96,
        pes=2,
        dtype="bf16",
        merge="tree",
        seed=3,
        topology="tiny",
        scratch_checks="off",
    )
    assert text["kernel"] == f"{run.name} on tiny, with data"
    assert text["makespan"] == f"{time_text(run.makespan_ps)} on 2 PEs"
    assert f"within {run.check():.1e} of (1 + |O|), tolerance 1.6e-02" in text["check"]


@pytest.mark.parametrize("name", BENCHES)
def test_every_bench_runs_as_it_is_listed(call: Call, name: str) -> None:
    result = call("run", name, "--timing")
    assert result.exit_code == 0, result.output
    assert result.output.isascii()
    assert max(map(len, result.output.splitlines())) <= 100


def test_a_topology_may_be_a_file(call: Call, tmp_path: Path) -> None:
    tree = {**kb.resolve_topology("single_pe").to_dict(), "name": "mine"}
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(tree), encoding="utf-8")
    text = said(call("run", "gqa_decode", *WORDS, "--timing", "--topology", "mine.yaml").stdout)
    assert text["kernel"] == "gqa_decode_long_kernel on mine, timing mode"


# -- errors ----------------------------------------------------------------------------------------------------


def test_an_unknown_bench_names_the_nearest_and_lists_all(refused: Refused) -> None:
    text = refused(2, "run", "gqa_decod")
    assert (
        text == f"no bench is called 'gqa_decod'; did you mean 'gqa_decode'? There are: {', '.join(BENCHES)}."
    )


@pytest.mark.parametrize(("part", "whole"), [("flash", "flash_attention"), ("naive", "naive_attention")])
def test_a_part_of_a_name_is_enough_to_name_it(refused: Refused, part: str, whole: str) -> None:
    assert refused(2, "run", part).startswith(f"no bench is called '{part}'; did you mean '{whole}'? ")


def test_an_unknown_key_names_the_nearest_and_lists_all(refused: Refused) -> None:
    text = refused(2, "run", "flash_attention", "--set", "tile_k=8")
    assert text.startswith("no key is called 'tile_k'; did you mean 'tile_kv'? There are: T_q, S_kv, ")
    for key in ("tile_q", "order", "dtype", "data", "record", "topology"):
        assert key in text


def test_a_setting_of_another_form_or_type(refused: Refused) -> None:
    assert (
        refused(2, "run", "gqa_decode", "--set", "tile") == "expected KEY=VALUE, such as tile=64, got 'tile'"
    )
    assert refused(2, "run", "gqa_decode", "--set", "causal=no") == "causal takes True or False, got 'no'"


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("data", ("--set", "data=False", "--data")),
        ("topology", ("--set", "topology=tiny", "--topology", "tiny")),
        ("scratch_checks", ("--set", "scratch_checks=off", "--scratch-checks", "off")),
    ],
)
def test_a_key_with_an_option_of_its_own_is_given_once(
    refused: Refused, key: str, words: tuple[str, ...]
) -> None:
    assert refused(2, "run", "gqa_decode", *words) == f"{key} is given twice, by --set and by its own option"


def test_a_value_that_the_bench_refuses(refused: Refused) -> None:
    text = refused(1, "run", "gqa_decode", "--set", "tile=0")
    assert text == "tile must be a whole number from 1 on, got 0"
    assert (
        refused(1, "run", "gqa_decode", "--set", "merge=both")
        == "merge must be 'chain' or 'tree', got 'both'"
    )


def test_a_topology_that_there_is_not(refused: Refused) -> None:
    text = refused(1, "run", "gqa_decode", "--topology", "ahbn")
    assert text.startswith("'ahbn' is neither a preset nor a file; presets: ahbm, ")
    assert "did you mean 'ahbm'?" in text


def test_clicks_own_errors_are_one_line_with_what_to_do(refused: Refused) -> None:
    assert refused(2, "run") == "Missing argument 'BENCH'. See kernbench-nb run --help"
    assert refused(2, "rn").endswith(" See kernbench-nb --help")
    assert refused(2, "run", "gqa_decode", "--scratch-checks", "maybe").endswith(
        " See kernbench-nb run --help"
    )


UNSCOPED = ("run", "gqa_decode", "--timing", "--set", "scoped=False", "--set", "S_kv=65536")


def overflow(**arguments: object) -> str:
    """The text of the error that a bench ends in."""
    with pytest.raises(kb.ScratchOverflowError) as caught:
        kb.bench("gqa_decode", data=False, **arguments)
    return str(caught.value)


def test_an_overflow_is_its_first_line_and_what_to_do(refused: Refused) -> None:
    first = overflow(scoped=False, S_kv=65536).splitlines()[0]
    assert refused(1, *UNSCOPED) == (
        f"{first} Let tiles give their bytes back (--set scoped=True); --traceback shows what is live."
    )


def test_an_overflow_with_scopes_asks_for_smaller_tiles(refused: Refused) -> None:
    first = overflow(tile=4096, S_kv=65536).splitlines()[0]
    text = refused(1, "run", "gqa_decode", "--timing", "--set", "tile=4096", "--set", "S_kv=65536")
    assert text == f"{first} Take smaller tiles, --set tile=2048 or less; --traceback shows what is live."


@pytest.mark.parametrize("place", ["before", "after"])
def test_traceback_shows_the_rest(call: Call, refused: Refused, place: str) -> None:
    line = refused(1, *UNSCOPED)
    words = ("--traceback", *UNSCOPED) if place == "before" else (*UNSCOPED, "--traceback")
    result = call(*words)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("Traceback (most recent call last):\n")
    assert "gqa_decode_long_kernel" in result.stderr
    assert overflow(scoped=False, S_kv=65536) in result.stderr
    assert result.stderr.endswith(f"\nError: {line}\n")


def test_without_an_error_traceback_changes_nothing(call: Call) -> None:
    plain = call("run", "gqa_decode", *WORDS)
    assert call("--traceback", "run", "gqa_decode", *WORDS).output == plain.output


def test_what_is_no_error_of_this_package_says_what_it_is(
    refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr("kernbench_nb.benches.registry.bench", broken)
    text = refused(1, "run", "gqa_decode")
    assert text == "ZeroDivisionError: division by zero (--traceback shows where)"


def test_too_much_data_asks_for_timing_mode(refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    def too_much(*_: object, **__: object) -> None:
        raise MemoryError("Unable to allocate 466 TiB")

    monkeypatch.setattr("kernbench_nb.benches.registry.bench", too_much)
    text = refused(1, "run", "gqa_decode")
    assert text == (
        "not enough memory for the data (Unable to allocate 466 TiB). Run it with --timing, which makes none."
    )
