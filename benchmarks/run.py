"""The command: ``python -m benchmarks [--quick] [--only NAME]``, or ``python benchmarks/run.py``."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
if __package__ in (None, ""):
    # run as a file: Python put this folder on the path, and what is wanted there is the one around it
    sys.path[0] = str(HERE.parent)

from benchmarks import environment  # noqa: E402

__all__ = ["main"]

GROUPS = ("timing", "data", "startup")


def main(argv: list[str] | None = None) -> None:
    """Measure, print a table of ratios, and write them to a file."""
    parser = argparse.ArgumentParser(prog="benchmarks", description="Speed as ratios, both sides in one run.")
    parser.add_argument(
        "--quick", action="store_true", help="smaller workloads, fewer repetitions: under a minute"
    )
    parser.add_argument(
        "--only",
        action="append",
        metavar="NAME",
        help=f"a group ({', '.join(GROUPS)}) or a case; may be repeated",
    )
    parser.add_argument(
        "--gc", choices=("on", "off"), default="on", help="garbage collector while timing (on)"
    )
    parser.add_argument("--list", action="store_true", help="name the cases and stop")
    parser.add_argument(
        "--json",
        type=Path,
        default=HERE / "latest.json",
        metavar="FILE",
        help="where the figures go (latest.json here)",
    )
    options = parser.parse_args(argv)
    environment.one_clean_process()

    from benchmarks import data, startup, timing
    from benchmarks.measure import Settings, show

    cases = {"timing": timing.CASES, "data": data.CASES, "startup": startup.CASES}
    known = {name: group for group, named in cases.items() for name in named}
    chosen = options.only or list(GROUPS)
    for name in chosen:
        if name not in cases and name not in known:
            parser.error(
                f"nothing is called {name!r}; there are the groups {', '.join(cases)} and {', '.join(known)}"
            )
    if options.list:
        for group, named in cases.items():
            print(f"{group}: {', '.join(named)}")
        return

    settings = Settings(quick=options.quick, gc=options.gc == "on")
    facts = environment.facts(settings.gc)
    print(environment.text(facts))
    results = []
    for name, group in known.items():
        if name in chosen or group in chosen:
            for result in cases[group][name](settings):
                print(show(result), flush=True)
                results.append(result.to_dict())
    facts["load_average_after"] = environment.load_average()
    report = {"schema": 1, "quick": options.quick, "environment": facts, "results": results}
    options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
