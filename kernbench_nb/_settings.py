"""What a bench can be told on a command line: its keys, and words turned into values of their types."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

from kernbench_nb.benches._run import Options
from kernbench_nb.benches.registry import Bench, bench

__all__ = ["Key", "keys_of", "settings", "value_of"]

_WORDS = {"none": None, "true": True, "false": False}
_TYPES: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (float, int),
    "str": (str,),
    "None": (type(None),),
}
_CALLED = {
    "bool": "True or False",
    "int": "a whole number",
    "float": "a number",
    "str": "a word",
    "None": "None",
}
_ARRAYS = ("mask",)
"""Arguments that are arrays, which no command line can give."""


@dataclass(frozen=True, slots=True)
class Key:
    """One thing that a bench can be told.

    Attributes
    ----------
    name, default
        What it is called, and what it is if nothing is said.
    type
        As annotated: ``"int"``, ``"float | None"``, ``"Any"``.
    group
        ``"sizes"``, ``"arguments"``, or ``"options"``, which all have.
    """

    name: str
    default: Any
    type: str
    group: str


def keys_of(found: Bench) -> dict[str, Key]:
    """Every key of a bench: its sizes, its arguments, and what every bench takes."""
    own = inspect.signature(found.run).parameters
    shared = inspect.signature(bench).parameters
    keys = [
        *(Key(name, size, "int", "sizes") for name, size in found.sizes.items()),
        *(Key(name, default, own[name].annotation, "arguments") for name, default in found.arguments.items()),
        *(
            Key(p.name, p.default, p.annotation, "options")
            for p in shared.values()
            if p.kind is p.KEYWORD_ONLY
        ),
        *(Key(f.name, f.default, str(f.type), "options") for f in fields(Options)),
        Key("topology", None, "Any", "options"),
    ]
    # of two with one name the later stands: what every bench has is told once
    return {key.name: key for key in keys if key.name not in _ARRAYS}


def settings(given: Iterable[str], keys: dict[str, Key]) -> dict[str, Any]:
    """``key=value`` words as keyword arguments.

    Raises
    ------
    ValueError
        For a word of another form, a key that is not known (the nearest is named, and all), one that is given twice,
        and a value of the wrong type.
    """
    found: dict[str, Any] = {}
    for word in given:
        name, equals, text = word.partition("=")
        if not (name and equals and text):
            raise ValueError(f"expected KEY=VALUE, such as tile=64, got {word!r}")
        if name not in keys:
            near = difflib.get_close_matches(name, keys, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else "."
            raise ValueError(f"no key is called {name!r}{hint} There are: {', '.join(keys)}.")
        if name in found:
            raise ValueError(f"{name} is given twice")
        found[name] = value_of(text, keys[name])
    return found


def value_of(text: str, key: Key) -> Any:
    """A word as None, a bool, an int, a float or a str, whatever the key takes.

    >>> value_of("131_072", Key("S_kv", 8192, "int", "sizes"))
    131072
    >>> value_of("none", Key("sm_scale", None, "float | None", "arguments"))

    Raises
    ------
    ValueError
        If the key takes none of what the word can be.
    """
    value = _plain(text)
    known = [_TYPES[name] for name in key.type.split(" | ") if name in _TYPES]
    if len(known) < len(key.type.split(" | ")):
        return value  # "Any": the bench looks at it
    allowed = {kind for kinds in known for kind in kinds}
    if type(value) in allowed:
        return value
    if str in allowed:
        return text
    wanted = " or ".join(_CALLED[name] for name in key.type.split(" | "))
    raise ValueError(f"{key.name} takes {wanted}, got {text!r}")


def _plain(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            pass
    return text
