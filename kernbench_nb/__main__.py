"""`python -m kernbench_nb`: the command line where the console script is not on the path."""

from __future__ import annotations

from kernbench_nb.cli import main

if __name__ == "__main__":
    main()
