"""Read the configuration of collectives and pick one algorithm's."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["load_ccl_config", "resolve_algorithm_config"]

_PACKAGED = Path(__file__).with_name("ccl.yaml")
_GROUPS = ("defaults", "algorithms")


def load_ccl_config(path: str | os.PathLike[str] | None = None) -> dict[str, Any]:
    """The configuration of collectives, as plain values.

    Parameters
    ----------
    path
        A YAML file with the groups `defaults` and `algorithms`; None for the one that ships with the package.

    Raises
    ------
    FileNotFoundError
        When there is no such file.
    ValueError
        When it is not YAML or not of that shape; names the file.
    """
    import yaml

    file = _PACKAGED if path is None else Path(path)
    name = "the packaged ccl.yaml" if path is None else os.fspath(path)
    try:
        tree = yaml.load(file.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise ValueError(f"{name} is not YAML: {error}") from None
    if not isinstance(tree, dict) or set(tree) != set(_GROUPS):
        found = ", ".join(map(str, tree)) if isinstance(tree, dict) else type(tree).__name__
        raise ValueError(f"{name}: expected the groups `defaults` and `algorithms`, got {found}")
    groups = dict(tree)
    if isinstance(tree["algorithms"], dict):
        groups |= {f"algorithms.{key}": entry for key, entry in tree["algorithms"].items()}
    for where, group in groups.items():
        if not isinstance(group, dict):
            raise ValueError(f"{name}: {where}: expected a group of keys, got {group!r}")
    return tree


def resolve_algorithm_config(cfg: Mapping[str, Any], name: str | None = None) -> dict[str, Any]:
    """One algorithm's configuration: its entry over the defaults, and its name under ``name``.

    Parameters
    ----------
    cfg
        What `load_ccl_config` gave.
    name
        Name of the algorithm; None for `defaults.algorithm`.

    Raises
    ------
    ValueError
        For an unknown name; lists the known ones, the nearest first.
    """
    defaults, algorithms = cfg["defaults"], cfg["algorithms"]
    wanted = defaults.get("algorithm") if name is None else name
    if wanted not in algorithms:
        known = sorted(map(str, algorithms))
        near = difflib.get_close_matches(str(wanted), known, n=len(known), cutoff=0.0)
        raise ValueError(f"unknown collective {wanted!r}; known, nearest first: {', '.join(near)}")
    merged = {key: value for key, value in defaults.items() if key != "algorithm"}
    return {"name": wanted, **merged, **algorithms[wanted]}
