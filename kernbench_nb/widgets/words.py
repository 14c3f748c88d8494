"""A run in words: titles, one sentence, labels of PEs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernbench_nb.runtime_api.result import RunResult
from kernbench_nb.runtime_api.text import grouped
from kernbench_nb.topology import Topology

__all__ = ["about_text", "pe_labels", "side_titles", "title_text"]

_TITLES = {
    "gqa_decode_long_kernel": "Flash decode",
    "gqa_prefill_long_kernel": "Ring prefill",
    "flash_attention_kernel": "Flash attention",
    "naive_attention_kernel": "Standard attention",
}


def title_text(run: RunResult) -> str:
    """What a view calls the run."""
    words = [_TITLES.get(run.name, run.name)]
    if run.params.get("causal"):
        words.append("causal")
    if run.params.get("prefetch"):
        words.append("prefetched")
    if run.params.get("scoped") is False:
        words.append("no scratch scopes")
    return ", ".join(words)


def about_text(run: RunResult) -> str:
    """What ran, in one line; what is not known is left out."""
    p = run.params
    words = []
    if _whole(p, "T_q", "S_kv", "h_q", "h_kv", "d"):
        words.append(f"{_many(p['T_q'], 'query token')} against {_many(p['S_kv'], 'key')}")
        heads = _many(p["h_q"], "head")
        words.append(heads if p["h_q"] == p["h_kv"] else f"{heads} on {_many(p['h_kv'], 'KV head')}")
        words.append(f"d = {p['d']}")
    pes = len(run.pes)
    cubes = p.get("cubes")
    words.append(_many(pes, "PE") + (f" in {cubes} cubes" if isinstance(cubes, int) and cubes > 1 else ""))
    tile = _tile_text(p)
    if tile:
        words.append(tile)
    return ", ".join(words)


def _tile_text(p: Any) -> str:
    if _whole(p, "tile_q", "tile_kv"):
        return f"{p['tile_q']} × {p['tile_kv']} tiles"
    if _whole(p, "tile_q", "tile"):
        return f"blocks of {p['tile_q']} queries, tiles of {p['tile']} keys"
    if _whole(p, "tile_q"):
        return f"blocks of {p['tile_q']} queries"
    return f"tiles of {p['tile']} keys" if _whole(p, "tile") else ""


def _whole(p: Any, *names: str) -> bool:
    return all(isinstance(p.get(name), int) for name in names)


def _many(count: int, what: str) -> str:
    return f"{grouped(count)} {what}" if count == 1 else f"{grouped(count)} {what}s"


def pe_labels(machine: Topology, pes: Sequence[int]) -> dict[int, str]:
    """What views call PEs: no more of their addresses than tells them from the others that take part.

    Parameters
    ----------
    machine
        The topology.
    pes
        Global indices of all that take part.
    """
    places = {pe: machine.locate(pe) for pe in pes}
    sips, cubes, within = (len({place[level] for place in places.values()}) > 1 for level in range(3))
    several = within or any(w for _, _, w in places.values())
    found = {}
    for pe, (sip, cube, number) in places.items():
        words = [f"SIP {sip}"] * sips + [f"cube {cube}"] * cubes
        if not words or several:
            words.append(f"PE {number}")
        found[pe] = " ".join(words)
    return found


def side_titles(a: RunResult, b: RunResult) -> tuple[str, str]:
    """Titles of two runs side by side: what tells one from the other."""
    for name, yes, no in (
        ("scoped", "With scratch scopes", "Without scratch scopes"),
        ("prefetch", "With prefetch", "Without prefetch"),
    ):
        pair = a.params.get(name), b.params.get(name)
        if set(pair) == {True, False}:
            return (yes, no) if pair[0] else (no, yes)
    if a.name != b.name:
        return title_text(a), title_text(b)
    differing = [
        key
        for key in a.params
        if key in b.params and a.params[key] != b.params[key] and isinstance(a.params[key], (int, float, str))
    ]
    if differing:
        first, second = (", ".join(f"{key} = {run.params[key]}" for key in differing[:3]) for run in (a, b))
        return first, second
    if a.topology != b.topology and a.topology.name != b.topology.name:
        return a.topology.name, b.topology.name
    return "First run", "Second run"
