"""From a preset's name, a YAML file or a mapping to a `Topology`; parsed once, then cached."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from kernbench_nb.errors import TopologyError
from kernbench_nb.topology.machine import Topology
from kernbench_nb.topology.schema import nearest, parse

__all__ = ["DEFAULT_PRESET", "preset_names", "resolve_topology"]

DEFAULT_PRESET = "ahbm"
_PRESETS = Path(__file__).with_name("presets")


def resolve_topology(spec: str | os.PathLike[str] | Mapping[str, Any] | Topology | None = None) -> Topology:
    """A validated, frozen topology.

    Parameters
    ----------
    spec
        None for preset ``ahbm``; a preset's name; the path of a YAML file; a mapping, either whole or
        ``dict(base="ahbm", ...)`` that changes single numbers of a preset, file or topology, nested
        (``pe={"hbm": {"latency_ns": 0}}``) or dotted (``{"pe.hbm.latency_ns": 0}``); or a `Topology`.

    Returns
    -------
    Topology
        The same object for the same input, as long as a file has not changed.

    Raises
    ------
    TopologyError
        For a name that is neither preset nor file (lists the presets), and for anything in the file that is
        not as expected: with the path in the file, the value, what was expected, and the nearest known key.

    Examples
    --------
    >>> resolve_topology("tiny").pe_count
    4
    >>> resolve_topology({"base": "tiny", "pe.hbm.latency_ns": 0}).costs.hbm_latency_ps
    0
    """
    if isinstance(spec, Topology):
        return spec
    if isinstance(spec, Mapping):
        return _from_mapping(spec)
    if spec is None:
        return _from_preset(DEFAULT_PRESET)
    if isinstance(spec, str) and spec in preset_names():
        return _from_preset(spec)
    if isinstance(spec, (str, os.PathLike)):
        return _from_path(spec)
    raise TopologyError(
        "expected None, a preset's name, a path, a mapping or a Topology, "
        f"got {type(spec).__name__} ({spec!r})"
    )


@cache
def preset_names() -> tuple[str, ...]:
    """Names of the topologies that ship with the package."""
    return tuple(sorted(path.stem for path in _PRESETS.glob("*.yaml")))


# Sources ----------------------------------------------------------------------------------------------------


@cache
def _from_preset(name: str) -> Topology:
    return _build(_load(_PRESETS / f"{name}.yaml", f"preset {name}"), f"preset {name}")


def _from_path(given: str | os.PathLike[str]) -> Topology:
    path = Path(given)
    try:
        status = path.stat()
    except (OSError, ValueError):
        like = nearest(str(given), preset_names())
        raise TopologyError(
            f"{os.fspath(given)!r} is neither a preset nor a file; presets: {', '.join(preset_names())}"
            + (f" (did you mean {like!r}?)" if like else "")
        ) from None
    if not path.is_file():
        raise TopologyError(f"{os.fspath(given)!r} is not a file; expected a topology in YAML")
    return _from_file(str(path), status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=64)
def _from_file(path: str, mtime_ns: int, size: int) -> Topology:
    # Time and size are part of the cache's key: an edited file is read again.
    del mtime_ns, size
    return _build(_load(Path(path), path), path)


def _from_mapping(given: Mapping[str, Any]) -> Topology:
    tree = dict(given)
    if "base" not in tree:
        return _cached_build(_freeze(_nested(tree, "mapping")), "mapping")
    base = resolve_topology(tree.pop("base"))
    origin = f"mapping over {base.name}"
    changes = _nested(tree, origin)
    if not changes:
        return base
    changes.setdefault("name", _changed_name(base.name, changes))
    return _cached_build(_freeze(_merge(base.to_dict(), changes)), origin)


def _freeze(tree: dict[str, Any]) -> str:
    """A mapping as one string, the key under which its topology is kept."""
    return json.dumps(tree, default=lambda value: f"{type(value).__name__} {value!r}")


@lru_cache(maxsize=256)
def _cached_build(frozen: str, origin: str) -> Topology:
    return _build(json.loads(frozen), origin)


def _build(tree: object, origin: str) -> Topology:
    return Topology(parse(tree, origin))


# Mappings ---------------------------------------------------------------------------------------------------


def _nested(given: Mapping[str, Any], origin: str) -> dict[str, Any]:
    """The same mapping with dotted keys spelled out, and numpy's numbers as Python's."""
    out: dict[str, Any] = {}
    for key, value in given.items():
        if not isinstance(key, str):
            raise TopologyError(f"{origin}: expected names as keys, got {key!r}")
        first, _, rest = key.partition(".")
        if rest:
            value = {rest: value}
        if isinstance(value, Mapping):
            value = _nested(value, origin)
        elif hasattr(value, "item"):
            value = value.item()
        out = _merge(out, {first: value})
    return out


def _merge(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`base` with `changes` laid over it, mapping by mapping."""
    out = dict(base)
    for key, value in changes.items():
        old = out.get(key)
        out[key] = _merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return out


def _changed_name(base: str, changes: dict[str, Any]) -> str:
    """A name that says what was changed, so that no changed machine passes for the preset in a result."""
    leaves = list(_leaves(changes))
    if len(leaves) > 2:
        return f"{base} with {len(leaves)} changes"
    return f"{base} with " + ", ".join(f"{path}={value}" for path, value in leaves)


def _leaves(tree: dict[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for key, value in tree.items():
        if isinstance(value, dict):
            found += _leaves(value, f"{prefix}{key}.")
        else:
            found.append((prefix + key, value))
    return found


# YAML -------------------------------------------------------------------------------------------------------


def _load(path: Path, origin: str) -> object:
    """The plain values of a YAML file; keys given twice are errors, as the last one would win silently."""
    import yaml

    try:
        with path.open("rb") as file:
            return yaml.load(file, Loader=_loader())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise TopologyError(f"{origin}: cannot be read as YAML:{where}: {error.problem}") from None
    except (yaml.YAMLError, OSError) as error:
        raise TopologyError(f"{origin}: cannot be read: {error}") from None


@cache
def _loader() -> Any:
    import yaml

    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    def mapping(loader: Any, node: Any) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            if key_node.value in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"key `{key_node.value}` is given twice", key_node.start_mark
                )
            seen.add(key_node.value)
        built: dict[Any, Any] = loader.construct_mapping(node, deep=True)
        return built

    loader: Any = type("StrictLoader", (base,), {})
    loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, mapping)
    return loader
