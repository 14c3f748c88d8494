"""The shape of a topology file, checked by msgspec.

One frozen struct a group. Every number has its unit in its name; every group says where its numbers come
from, in `source` or `assumption`. Latencies, set-up and dispatch may be 0, everything else is positive.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Annotated, Any, Literal, NoReturn, get_args, get_origin

import msgspec
from msgspec import Meta, Struct

from kernbench_nb.errors import TopologyError

__all__ = ["TopologySpec", "known_keys", "nearest", "parse"]

# Upper bounds only keep infinities and slips of the keyboard out.
Count = Annotated[int, Meta(ge=1, le=1_000_000)]
CountOrZero = Annotated[int, Meta(ge=0, le=1_000_000)]
Positive = Annotated[float, Meta(gt=0, le=1e12)]
NotNegative = Annotated[float, Meta(ge=0, le=1e12)]
Percent = Annotated[float, Meta(gt=0, le=100)]

MIB = 1 << 20
SCRATCH_ALIGN = 16


class Group(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Numbers with a note beside them.

    Attributes
    ----------
    source
        Where the numbers were published.
    assumption
        Which numbers are this package's own, and why they are reasonable.
    """

    source: str | None = None
    assumption: str | None = None

    def __post_init__(self) -> None:
        if not (self.source or "").strip() and not (self.assumption or "").strip():
            raise ValueError(
                "expected a note, `source:` or `assumption:`, that says where the numbers come from"
            )


class System(Group, frozen=True, kw_only=True):
    """How many of everything: SIPs, the mesh of cubes in a SIP, the mesh of PEs in a cube."""

    sips: Count
    cubes_wide: Count
    cubes_high: Count
    pes_wide: Count
    pes_high: Count


class Hbm(Group, frozen=True, kw_only=True):
    """The HBM slice of one PE."""

    pseudo_channels: Count
    gb_per_s_per_channel: Positive
    efficiency_percent: Percent
    latency_ns: NotNegative


class Tcm(Group, frozen=True, kw_only=True):
    """The tightly coupled memory of one PE, of which a part is kernel scratch."""

    kernel_scratch_mb: Positive
    bytes_per_cycle: Count

    def __post_init__(self) -> None:
        Group.__post_init__(self)
        nbytes = self._exact_bytes()
        if nbytes % SCRATCH_ALIGN:
            below = nbytes // SCRATCH_ALIGN * SCRATCH_ALIGN
            hint = f"the next smaller size is {below} bytes = {below / MIB!r} MiB"
            raise ValueError(
                f"at `kernel_scratch_mb`: expected a multiple of {SCRATCH_ALIGN} bytes in MiB (2^20 bytes), "
                f"got {self.kernel_scratch_mb!r}, that is {float(nbytes):.12g} bytes; "
                + (
                    hint
                    if below
                    else f"the smallest size is {SCRATCH_ALIGN} bytes = {SCRATCH_ALIGN / MIB!r} MiB"
                )
            )

    @property
    def scratch_bytes(self) -> int:
        """Bytes of kernel scratch."""
        return int(self._exact_bytes())

    def _exact_bytes(self) -> Fraction:
        # By the binary value, not by its shortest decimal: every multiple of 16 bytes is an exact binary fraction
        # of a MiB, and `nbytes / 2**20` must be taken back as those bytes.
        return Fraction(self.kernel_scratch_mb) * MIB


class Dma(Group, frozen=True, kw_only=True):
    """The DMA engine."""

    setup_ns: NotNegative


class Gemm(Group, frozen=True, kw_only=True):
    """The GEMM engine: a native tile a cycle, or an output-stationary systolic array."""

    model: Literal["native", "systolic"]
    tile_m: Count
    tile_n: Count
    tile_k: Count
    depth_cycles: CountOrZero
    rows: Count | None = None
    cols: Count | None = None

    def __post_init__(self) -> None:
        Group.__post_init__(self)
        if self.model == "systolic" and (self.rows is None or self.cols is None):
            raise ValueError(
                "at `model`: expected `rows` and `cols`, the size of the array, beside `model: systolic`, "
                f"got rows={self.rows}, cols={self.cols}"
            )


class MathEngine(Group, frozen=True, kw_only=True):
    """The math (vector) engine."""

    lanes: Count
    fill_cycles: CountOrZero
    slow_cycles: Count


class Ipc(Group, frozen=True, kw_only=True):
    """Message queues: credits of each direction; 0 is rendezvous."""

    slots: CountOrZero


class Pe(Group, frozen=True, kw_only=True):
    """One PE."""

    clock_ghz: Positive
    dispatch_cycles: CountOrZero
    hbm: Hbm
    tcm: Tcm
    dma: Dma
    gemm: Gemm
    math: MathEngine
    ipc: Ipc


class PeLink(Group, frozen=True, kw_only=True):
    """A link of a cube's PE mesh, one direction, clocked with the PEs."""

    bytes_per_cycle: Count
    latency_ns: NotNegative


class WireLink(Group, frozen=True, kw_only=True):
    """A link between cubes or between SIPs, one direction."""

    gb_per_s: Positive
    latency_ns: NotNegative


class Links(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """All links.

    Attributes
    ----------
    infinitely_wide
        Bandwidth plays no part, latency does: the reference that congestion impact is measured against.
    """

    pe: PeLink
    cube: WireLink
    sip: WireLink
    infinitely_wide: bool = False


class Energy(Group, frozen=True, kw_only=True):
    """Energy of moving a byte and of computing, in pJ."""

    hbm_pj_per_byte: Positive
    scratch_pj_per_byte: Positive
    cube_link_pj_per_byte: Positive
    sip_link_pj_per_byte: Positive
    f16_pj_per_flop: Positive


class TopologySpec(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A whole topology file."""

    name: Annotated[str, Meta(min_length=1)]
    issue: Literal["blocking", "dataflow"]
    system: System
    pe: Pe
    links: Links
    energy: Energy


# Errors -----------------------------------------------------------------------------------------------------


def _walk(struct: type[Struct], prefix: str = "") -> Iterator[str]:
    """Dotted paths of all keys of a struct and of those inside it, in the order of the file."""
    for name, kind in _fields(struct).items():
        yield prefix + name
        if isinstance(kind, type) and issubclass(kind, Struct):
            yield from _walk(kind, f"{prefix}{name}.")


def _fields(struct: type[Struct]) -> dict[str, Any]:
    return {field.name: field.type for field in msgspec.structs.fields(struct)}


def known_keys() -> tuple[str, ...]:
    """Dotted paths of every key that a topology file may hold."""
    return tuple(_walk(TopologySpec))


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that is most like `word`, or None when none is."""
    found = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return found[0] if found else None


def _nearest_key(path: str, key: str) -> str | None:
    """The known key that was probably meant by `key` inside the group at `path`, as a dotted path."""
    found = nearest(key, _beside(path))
    if found is not None:
        return f"{path}.{found}" if path else found
    by_leaf: dict[str, list[str]] = {}
    for known in known_keys():
        by_leaf.setdefault(known.rpartition(".")[2], []).append(known)
    leaf = nearest(key, list(by_leaf))
    return "` or `".join(by_leaf[leaf]) if leaf else None


def _at(tree: Any, path: str) -> Any:
    """What stands at a dotted path of a tree of mappings; None where nothing does."""
    for step in path.split(".") if path else ():
        tree = tree.get(step) if isinstance(tree, Mapping) else None
    return tree


_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`$", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`$")
_KEY = re.compile(r"Expected `str`(.*) - at `key` in `\$(.*)`$")
_OWN = re.compile(r"at `(\w+)`: ")
_PLAIN_WORDS = {
    "`float`": "a number",
    "`int`": "a whole number",
    "`object`": "a group of keys",
    "`str`": "text",
}


def _explain(error: msgspec.ValidationError, tree: object, origin: str) -> NoReturn:
    """Turn msgspec's words into the package's: path in the file, value, what was expected, nearest key."""
    message, path = str(error), ""
    key = _KEY.match(message)
    if key:
        path = key.group(2).lstrip(".")
        odd = next((k for k in _at(tree, path) if not isinstance(k, str)), None)
        raise TopologyError(f"{origin}: {path or 'top level'}: expected names as keys, got {odd!r}") from None
    if " - at `$" in message:
        message, _, where = message.rpartition(" - at `$")
        path = where.rstrip("`").lstrip(".")
    full = f"{path}." if path else ""
    unknown = _UNKNOWN.match(message)
    if unknown:
        name = unknown.group(1)
        hint = _nearest_key(path, name)
        raise TopologyError(
            f"{origin}: unknown key `{full}{name}` (value {_at(tree, full + name)!r})"
            + (f"; did you mean `{hint}`?" if hint else f"; known here: {', '.join(_beside(path))}")
        ) from None
    missing = _MISSING.match(message)
    if missing:
        raise TopologyError(
            f"{origin}: missing key `{full}{missing.group(1)}`; "
            "give it, or start from a preset with base='ahbm' and change single numbers"
        ) from None
    own = _OWN.match(message)
    if own:
        raise TopologyError(f"{origin}: {full}{own.group(1)}: {message[own.end() :]}") from None
    if "a note" in message:
        raise TopologyError(f"{origin}: {path}: {message}") from None
    value = _at(tree, path)
    got = "a group of keys" if isinstance(value, Mapping) else repr(value)
    raise TopologyError(
        f"{origin}: {path or 'top level'}: expected {_expected(message, path)}, got {got}"
    ) from None


def _expected(message: str, path: str) -> str:
    """What msgspec's message wanted, in plain words; for a choice, the choices."""
    kind: Any = TopologySpec
    for step in path.split(".") if path else ():
        kind = _fields(kind)[step]
    if get_origin(kind) is Literal:
        return " or ".join(repr(choice) for choice in get_args(kind))
    text = re.sub(r", got `\w+`$", "", message).removeprefix("Expected ")
    for word, plain in _PLAIN_WORDS.items():
        text = text.replace(word, plain)
    return text


def _beside(path: str) -> list[str]:
    """Keys of the group at a path."""
    prefix = f"{path}." if path else ""
    return [k[len(prefix) :] for k in known_keys() if k.startswith(prefix) and "." not in k[len(prefix) :]]


def parse(tree: object, origin: str) -> TopologySpec:
    """Validate a tree of plain values.

    Parameters
    ----------
    tree
        Mappings, strings and numbers, as YAML gives them.
    origin
        What errors call it: a file name, or ``preset ahbm``.

    Raises
    ------
    TopologyError
        With the path in the file, the value, what was expected, and the nearest known key for an unknown one.
    """
    try:
        return msgspec.convert(tree, TopologySpec)
    except msgspec.ValidationError as error:
        _explain(error, tree, origin)
