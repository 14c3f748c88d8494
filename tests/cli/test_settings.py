"""Words on a command line become values of the types that a bench takes."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from kernbench_nb._settings import Key, keys_of, settings, value_of
from kernbench_nb.benches.registry import BENCHES

DECODE = keys_of(BENCHES["gqa_decode"])


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        ("int", "16", 16),
        ("int", "-1", -1),
        ("int", "131_072", 131072),
        ("int | None", "None", None),
        ("int | None", "none", None),
        ("float | None", "0.125", 0.125),
        ("float | None", "1e-3", 1e-3),
        ("float | None", "2", 2),
        ("bool", "True", True),
        ("bool", "false", False),
        ("str", "tree", "tree"),
        ("str", "16", "16"),
        ("str", "none", "none"),
        ("str | None", "None", None),
        ("str | None", "tiles", "tiles"),
        ("Any", "f16", "f16"),
        ("Any", "None", None),
        ("Any", "7", 7),
    ],
)
def test_a_word_becomes_a_value_of_the_keys_type(type_: str, text: str, value: Any) -> None:
    got = value_of(text, Key("key", None, type_, "arguments"))
    assert got == value
    assert type(got) is type(value)


@pytest.mark.parametrize(
    ("type_", "text", "message"),
    [
        ("bool", "no", "key takes True or False, got 'no'"),
        ("bool", "1", "key takes True or False, got '1'"),
        ("int", "1.5", "key takes a whole number, got '1.5'"),
        ("int", "True", "key takes a whole number, got 'True'"),
        ("int", "none", "key takes a whole number, got 'none'"),
        ("int | None", "many", "key takes a whole number or None, got 'many'"),
        ("float | None", "tree", "key takes a number or None, got 'tree'"),
    ],
)
def test_a_word_of_another_type_is_refused(type_: str, text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        value_of(text, Key("key", None, type_, "arguments"))
    assert str(caught.value) == message


def test_settings_are_keyword_arguments() -> None:
    assert settings(["tile=16", "merge=tree", "sm_scale=0.5", "scoped=False", "dtype=bf16"], DECODE) == {
        "tile": 16,
        "merge": "tree",
        "sm_scale": 0.5,
        "scoped": False,
        "dtype": "bf16",
    }
    assert settings([], DECODE) == {}


@pytest.mark.parametrize("word", ["tile", "=16", "tile=", "="])
def test_a_word_of_another_form_is_refused(word: str) -> None:
    with pytest.raises(ValueError) as caught:
        settings([word], DECODE)
    assert str(caught.value) == f"expected KEY=VALUE, such as tile=64, got {word!r}"


def test_an_unknown_key_names_the_nearest_and_lists_all() -> None:
    with pytest.raises(ValueError) as caught:
        settings(["tle=16"], DECODE)
    text = str(caught.value)
    assert text.startswith("no key is called 'tle'; did you mean 'tile'? There are: T_q, S_kv, ")
    assert text.endswith(", ".join(DECODE) + ".")


def test_a_key_that_is_like_none_is_refused_too() -> None:
    with pytest.raises(ValueError, match=r"^no key is called 'zzz'\. There are: T_q, "):
        settings(["zzz=1"], DECODE)


def test_a_key_that_is_given_twice_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^tile is given twice$"):
        settings(["tile=16", "tile=32"], DECODE)


@pytest.mark.parametrize("name", BENCHES)
def test_the_keys_are_all_that_a_bench_takes(name: str) -> None:
    bench = BENCHES[name]
    keys = keys_of(bench)
    own = set(inspect.signature(bench.run).parameters) - {"q", "k", "v", "x", "options", "mask"}
    options = {"seed", "data", "scratch_checks", "record", "max_record_bytes", "wide_links", "topology"}
    assert set(keys) == {*bench.sizes, *own, *options}
    assert {key: keys[key].default for key in bench.sizes} == bench.sizes
    assert keys["data"].default is True
    assert keys["dtype"].default == "f16"
