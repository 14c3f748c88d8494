"""From the last change of a setting to the redrawn explorer, in ms.

    python -m benchmarks.explorer [--quick]

`kb.explore` waits for the end of a drag, runs the setting in timing mode, and sends what came of it; the page draws it.
Each of the three is measured by itself, on the wall, and the best of some runs is said, since a busy machine only makes
them longer: ``waits`` is fixed; ``works`` is Python, from the change to the message; ``draws`` is the page in Chromium,
from the message to the first frame that shows all of it. Between a kernel and a browser on one machine a message of a
megabyte takes a few ms more. It needs Debian's Chromium and playwright, as the browser tests do.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from kernbench_nb.widgets.explore import WAIT_S, Explorer
from kernbench_nb.widgets.exploring import Setting
from kernbench_nb.widgets.reader import Trace

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "widgets" / "browser"))

from harness import Page, View, chromium, state_of

__all__ = ["SETTINGS", "measure"]

AT_MOST = 200

SETTINGS: dict[str, dict[str, Any]] = {
    "as it opens": {},
    "1 PE, tiles of 16": {"pes": 1, "tile": 16},
    "64 PEs": {"pes": 64},
    "128 PEs": {"pes": 128},
    "128 PEs, tiles of 16, prefetch": {"pes": 128, "tile": 16, "prefetch": True},
    "without scopes": {"scoped": False},
}

CHANGE = """async ([state, buffers]) => {
  const model = window.models.view;
  const bytes = text => new DataView(Uint8Array.from(atob(text), c => c.charCodeAt(0)).buffer);
  const news = { state: state.state, heads: state.heads, trace: bytes(buffers.trace), pe: state.pe, step: state.step };
  await window.frames(3);
  const begun = performance.now();
  for (const [name, value] of Object.entries(news)) model.set(name, value);
  await window.frames(1);
  const drawn = document.querySelector('#view .explored .kb');
  if (!drawn && news.heads.length) throw new Error('the run is not drawn');
  document.body.getBoundingClientRect();
  return performance.now() - begun;
}"""


def measure(view: View, name: str, rounds: int) -> tuple[float, float]:
    """Go to a setting from the one that it opens with, some times; best of works and of draws, in ms."""
    works: list[float] = []
    draws: list[float] = []
    for _ in range(rounds):
        explorer = Explorer(Setting(S_kv=16384))
        explorer.set(S_kv=32768, **SETTINGS[name])
        begun = time.perf_counter()
        explorer.work()  # what it does when the wait is over
        works.append(1000 * (time.perf_counter() - begun))
        shown = explorer.view
        heads = list(shown.heads)
        message = state_of(
            *[Trace(head, shown.trace) for head in heads], state=shown.state, pe=shown.pe, step=shown.step
        )
        draws.append(float(view.page.evaluate(CHANGE, list(json.loads(json.dumps(message))))))
        explorer.close()
    return min(works), min(draws)


def main(argv: list[str] | None = None) -> None:
    """Measure all settings and print a line each."""
    parser = argparse.ArgumentParser(prog="benchmarks.explorer", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two rounds each instead of eight")
    rounds = 2 if parser.parse_args(argv).quick else 8
    with chromium() as browser:
        print(f"Chromium {browser.version}, 1200 x 900, all in software; asked for: within {AT_MOST} ms")
        page = Page(browser)
        page.model("view", state={}, busy=False)
        view = page.view("view", module="explore", name="view")
        for name in SETTINGS:
            works, draws = measure(view, name, rounds)
            total = 1000 * WAIT_S + works + draws
            print(
                f"  {name:<32} {total:5.0f} ms: waits {1000 * WAIT_S:.0f}, works {works:.0f}, draws {draws:.0f}"
                f"{'' if total <= AT_MOST else '   TOO SLOW'}",
                flush=True,
            )
        if page.problems:
            raise RuntimeError("; ".join(page.problems))
        page.close()


if __name__ == "__main__":
    main()
