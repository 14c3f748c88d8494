"""Attention kernels on a simulated machine, to be stepped through in a notebook.

    import kernbench_nb as kb

    q, k, v = kb.sample_attention()
    run = kb.decode(q[-1:], k, v, pes=8, tile=16)
    run.check()

Importing this package loads none of its rooms: each public name is fetched from the room that defines it
when it is first used (PEP 562). So ``import kernbench_nb`` costs next to nothing, and a kernel that never
draws never pays for matplotlib. ``docs/api.md`` describes the names; a test holds the two lists equal.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from kernbench_nb._version import __version__

# Public name -> "module:attribute", or "module" for a room that is itself the name. The only list of them.
_PUBLIC: dict[str, str] = {
    # entry points
    "bench": "kernbench_nb.benches.registry:bench",
    "decode": "kernbench_nb.benches.entry:decode",
    "flash": "kernbench_nb.benches.entry:flash",
    "launch": "kernbench_nb.runtime_api.launch:launch",
    "naive": "kernbench_nb.benches.entry:naive",
    "online_softmax": "kernbench_nb.benches.softmax:online_softmax",
    "prefill": "kernbench_nb.benches.entry:prefill",
    "safe_softmax": "kernbench_nb.benches.softmax:safe_softmax",
    "sample_attention": "kernbench_nb.benches.sample:sample_attention",
    # the machine, the placement, the language, the result
    "DPPolicy": "kernbench_nb.policy.placement.dp:DPPolicy",
    "RunResult": "kernbench_nb.runtime_api.result:RunResult",
    "TLContext": "kernbench_nb.triton_emu.tl_context:TLContext",
    "resolve_topology": "kernbench_nb.topology.builder:resolve_topology",
    # views of a result
    "analysis": "kernbench_nb.analysis",
    "explore": "kernbench_nb.widgets.explore:explore",
    "plots": "kernbench_nb.plots",
    "show_arenas": "kernbench_nb.widgets.arenas:show_arenas",
    "show_log": "kernbench_nb.widgets.log:show_log",
    "step": "kernbench_nb.widgets.stepper:step",
    # the course
    "check_answer": "kernbench_nb.course.answers:check_answer",
    "predict": "kernbench_nb.course.predicting:predict",
    # the notebook's extension
    "load_ipython_extension": "kernbench_nb.widgets.magic:load_ipython_extension",
    "unload_ipython_extension": "kernbench_nb.widgets.magic:unload_ipython_extension",
    # errors
    "DeadlockError": "kernbench_nb.errors:DeadlockError",
    "OutOfBoundsError": "kernbench_nb.errors:OutOfBoundsError",
    "PendingLoadError": "kernbench_nb.errors:PendingLoadError",
    "ReadBeforeWaitError": "kernbench_nb.errors:ReadBeforeWaitError",
    "ScopeOrderError": "kernbench_nb.errors:ScopeOrderError",
    "ScratchOverflowError": "kernbench_nb.errors:ScratchOverflowError",
    "TopologyError": "kernbench_nb.errors:TopologyError",
    "UninitializedReadError": "kernbench_nb.errors:UninitializedReadError",
    "UseAfterScopeError": "kernbench_nb.errors:UseAfterScopeError",
    "WrongAnswer": "kernbench_nb.errors:WrongAnswer",
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> Any:
    """Fetch a public name from its room, and keep it so that the next use is a plain attribute."""
    target = _PUBLIC.get(name)
    if target is None:
        raise AttributeError(_unknown(name))
    module_name, _, attribute = target.partition(":")
    module = import_module(module_name)
    value = getattr(module, attribute) if attribute else module
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """All public names, used or not yet, so that completion in a notebook shows them."""
    return sorted({*globals(), *_PUBLIC})


def _unknown(name: str) -> str:
    """Return the text of the error for a name that is not public."""
    from difflib import get_close_matches

    near = get_close_matches(name, _PUBLIC, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else "; dir(kernbench_nb) lists its names"
    return f"module 'kernbench_nb' has no attribute {name!r}{hint}"
