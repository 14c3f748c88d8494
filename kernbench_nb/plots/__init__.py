"""Still pictures of a run: its scratch at a moment and over time, its engines, its operations, its bytes, its merges.

Each takes ``ax=None`` and returns the Axes. Without `ax` it makes its own, which a notebook shows when a cell returns
them (``ax.savefig(path)`` saves them); with `ax` it draws there and shows nothing. pyplot is never used, so no
figure is left open. Colours follow matplotlib's current settings: under ``plt.style.use("dark_background")`` the
pictures are dark.
"""

from __future__ import annotations

from kernbench_nb.plots._arena_map import arena_map
from kernbench_nb.plots._arena_timeline import arena_timeline
from kernbench_nb.plots._engines import engines
from kernbench_nb.plots._merge_tree import merge_tree
from kernbench_nb.plots._occupancy import occupancy
from kernbench_nb.plots._op_chart import op_chart
from kernbench_nb.plots._roofline import roofline
from kernbench_nb.plots._traffic import traffic

__all__ = [
    "arena_map",
    "arena_timeline",
    "engines",
    "merge_tree",
    "occupancy",
    "op_chart",
    "roofline",
    "traffic",
]
