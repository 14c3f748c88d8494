"""Steps a second that the stepper's page holds in Chromium, on runs of a hundred thousand operations.

    python -m benchmarks.stepper [--quick]

The real modules are mounted as the browser tests mount them, with every panel open (``page``) or with those of a
notebook's first view, and play at 60 steps a second. A step is one draw of all open panels; the figure is steps over
seconds on the wall, so it cannot be more than the screen's 60. The gap between frames says how even it is.
It needs Debian's Chromium and playwright, as the browser tests do.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

import kernbench_nb as kb
from kernbench_nb.widgets.reader import Trace
from kernbench_nb.widgets.trace import trace_of
from kernbench_nb.widgets.twin import Twin

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "widgets" / "browser"))

from harness import Page, chromium

__all__ = ["WORKLOADS", "measure"]

AT_LEAST = 30

PLAY = """async seconds => {
  const root = document.querySelector('#view .kb');
  const speed = root.querySelector('select[aria-label=Speed]');
  speed.value = '60';
  speed.dispatchEvent(new Event('change'));
  const press = () => root.dispatchEvent(new KeyboardEvent('keydown', { key: ' ' }));
  const steps = () => window.models.view.sets.filter(([name]) => name === 'step').length;
  const gaps = [];
  press();
  await window.frames(10);
  const [before, begun] = [steps(), performance.now()];
  let last = begun;
  await new Promise(done => {
    const frame = now => {
      gaps.push(now - last);
      last = now;
      if (now - begun < seconds * 1000) requestAnimationFrame(frame);
      else done();
    };
    requestAnimationFrame(frame);
  });
  const rate = (steps() - before) / ((performance.now() - begun) / 1000);
  press();
  gaps.sort((a, b) => a - b);
  return { rate, median: gaps[gaps.length >> 1], late: gaps[Math.floor(gaps.length * 0.95)], worst: gaps.at(-1) };
}"""


def _sweep(**options: Any) -> Trace:
    return trace_of(kb.bench("gqa_decode", h_q=8, h_kv=1, d=128, tile=64, data=False, **options), twin=Twin())


def _square() -> Trace:
    x = np.zeros((1024, 1, 16), np.float16)
    return trace_of(kb.flash(x, x, x, tile_q=16, tile_kv=16, causal=True, data=False), twin=Twin())


WORKLOADS = {
    "sweep": ("4 600 tiles, 101 000 operations on one PE", lambda: _sweep(S_kv=64 * 4600, pes=1)),
    "square": ("64 x 64 tiles, causal, on one PE", _square),
    "64 PEs": ("4 096 tiles, 91 000 operations on 64 PEs", lambda: _sweep(S_kv=2**18, pes=64)),
}


def measure(browser: Any, trace: Trace, granularity: str, view: str, seconds: float) -> dict[str, float]:
    """Play a trace from its middle for some seconds.

    Returns
    -------
    dict
        ``rate`` in steps a second; ``median``, ``late`` (95 %) and ``worst`` gap between frames in ms.
    """
    page = Page(browser)
    try:
        pe = trace.head["pes"][0]
        start = (pe["op1"] - pe["op0"]) // 4
        page.show(trace, step=start, granularity=granularity, view=view)
        found: dict[str, float] = page.page.evaluate(PLAY, seconds)
        if page.problems:
            raise RuntimeError("; ".join(page.problems))
        return found
    finally:
        page.close()


def main(argv: list[str] | None = None) -> None:
    """Measure all workloads and print a line each."""
    parser = argparse.ArgumentParser(prog="benchmarks.stepper", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a second each instead of four")
    seconds = 1.0 if parser.parse_args(argv).quick else 4.0
    with chromium() as browser:
        print(
            f"Chromium {browser.version}, 1200 x 900, all in software; asked for: {AT_LEAST} steps a second"
        )
        for name, (what, make) in WORKLOADS.items():
            trace = make()
            print(f"{name}: {what}")
            for granularity in ("tile", "op"):
                for view in ("page", "notebook"):
                    # by tile, a PE of 64 is through its tiles in a second
                    some = min(seconds, 0.5) if (name, granularity) == ("64 PEs", "tile") else seconds
                    found = measure(browser, trace, granularity, view, some)
                    print(
                        f"  by {granularity:<4} {view:<8} {found['rate']:5.1f} steps/s, between frames "
                        f"{found['median']:.1f} ms, 95 % {found['late']:.1f} ms, worst {found['worst']:.1f} ms"
                        f"{'' if found['rate'] >= AT_LEAST else '   TOO SLOW'}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
