"""The package face, its documentation and the rooms behind it tell of the same names."""

from __future__ import annotations

import re
import types
from collections.abc import Iterable
from pathlib import Path

import pytest

import kernbench_nb as kb

REPO = Path(__file__).resolve().parents[2]
API = REPO / "docs" / "api.md"
ROW = re.compile(r"^\| `(?P<name>\w+)` \| `(?P<home>[\w.]+)` \| \S", re.MULTILINE)


def documented() -> dict[str, str]:
    """Public name -> room, by the tables of docs/api.md."""
    rows = [(match["name"], match["home"]) for match in ROW.finditer(API.read_text(encoding="utf-8"))]
    assert len(rows) == len({name for name, _ in rows}), "docs/api.md describes a name twice"
    return dict(rows)


def clashes(public: dict[str, object], rooms: Iterable[str]) -> list[str]:
    """Public functions and classes that bear the name of a room: the room would replace them on import."""
    return [name for name in rooms if callable(public.get(name))]


def rooms() -> list[str]:
    """Every module and folder that stands directly in the package."""
    package = Path(kb.__file__).parent
    files = {path.stem for path in package.glob("*.py")} - {"__init__"}
    return sorted(
        files | {path.name for path in package.iterdir() if path.is_dir() and path.name != "__pycache__"}
    )


def test_the_documentation_describes_exactly_the_public_names() -> None:
    homes = {name: target.partition(":")[0] for name, target in kb._PUBLIC.items()}
    assert documented() == {**homes, "__version__": "kernbench_nb._version"}


def test_all_and_dir_list_every_public_name_once() -> None:
    assert len(set(kb.__all__)) == len(kb.__all__)
    assert set(kb.__all__) == {*kb._PUBLIC, "__version__"}
    assert set(kb.__all__) <= set(dir(kb))
    assert dir(kb) == sorted(set(dir(kb)))


@pytest.mark.parametrize("name", kb.__all__)
def test_a_public_name_is_found_where_the_face_says(name: str) -> None:
    value = getattr(kb, name)
    target, _, attribute = kb._PUBLIC.get(name, f"kernbench_nb._version:{name}").partition(":")
    if attribute:
        assert not isinstance(value, types.ModuleType)
        assert getattr(value, "__module__", target).startswith("kernbench_nb") or isinstance(value, str)
        assert value.__doc__, f"{name} has no docstring"
    else:
        assert isinstance(value, types.ModuleType)
        assert value.__name__ == target
    assert getattr(kb, name) is value


def test_no_function_shares_a_name_with_a_room() -> None:
    assert clashes({name: getattr(kb, name) for name in kb.__all__}, rooms()) == []


def test_a_function_named_like_a_room_would_be_seen() -> None:
    def bench() -> None: ...

    assert clashes({"bench": bench, "plots": types.ModuleType("plots")}, ["bench", "plots", "errors"]) == [
        "bench"
    ]
    assert {"errors", "_version"} <= set(rooms())


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("decod", "module 'kernbench_nb' has no attribute 'decod'; did you mean 'decode'?"),
        (
            "zzz",
            "module 'kernbench_nb' has no attribute 'zzz'; dir(kernbench_nb) lists its names",
        ),
    ],
)
def test_an_unknown_name_says_what_to_do(name: str, text: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(kb, name)
    assert str(caught.value) == text


def test_a_room_that_cannot_be_loaded_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """hasattr() must not turn a broken room into a missing name: only AttributeError means "no such name"."""
    monkeypatch.setitem(kb._PUBLIC, "broken", "kernbench_nb.no_such_room:broken")
    with pytest.raises(ModuleNotFoundError, match="no_such_room"):
        hasattr(kb, "broken")


def test_the_version_is_the_one_that_was_installed() -> None:
    from importlib.metadata import version

    assert kb.__version__ == version("kernbench_nb")
    assert f"## {kb.__version__}" in (REPO / "CHANGELOG.md").read_text(encoding="utf-8")
