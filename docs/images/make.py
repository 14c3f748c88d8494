"""Draw the pictures of the documentation from real runs of the package.

    python docs/images/make.py

A picture carries what it says as its PNG description; `tests/plots/test_docs_images.py` compares that with a fresh run,
so a picture whose numbers have moved is noticed. Pixels are not compared: they differ between versions of matplotlib.
"""

from __future__ import annotations

import sys
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import kernbench_nb as kb

HERE = Path(__file__).resolve().parent
TOKENS, TILE = 16, 32
"""Query tokens and keys in a tile: few enough tiles to see each, large enough that one panel overflows half way."""


def arena_timeline(folder: Path) -> str:
    """One PE's scratch with and without scopes, to one scale.

    Returns
    -------
    str
        What the picture says.
    """
    q, k, v = kb.sample_attention()
    scoped = kb.decode(q[-TOKENS:], k, v, pes=1, tile=TILE, causal=True)
    scoped.check()
    try:
        kb.decode(q[-TOKENS:], k, v, pes=1, tile=TILE, causal=True, scoped=False)
    except kb.ScratchOverflowError as error:
        unscoped = error.run
    else:
        raise SystemExit("the run without scopes did not overflow; give it more tokens")
    figure = Figure(figsize=(8.8, 4.1))
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2, sharey=True)
    figure.subplots_adjust(left=0.095, right=0.988, top=0.81, bottom=0.19, wspace=0.08)
    limit, until = scoped.topology.scratch_bytes, scoped.makespan_ns
    for run, ax, title in (
        (scoped, left, "With scopes: a tile gives its bytes back"),
        (unscoped, right, "Without: the same tiles, until it overflows"),
    ):
        kb.plots.arena_timeline(run, ax=ax, ylim=limit, until=until, title=title)
    right.tick_params(labelleft=False)
    says = f"scoped: {scoped!r}; without scopes: {unscoped!r}"
    figure.savefig(
        folder / "arena_timeline.png",
        dpi=200,
        metadata={"Software": None, "Description": says},
        facecolor="white",
    )
    return says


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else HERE
    sys.stdout.write(arena_timeline(target) + "\n")
