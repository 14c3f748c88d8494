"""How pytest runs the notebooks: nbval executes each one and compares what it prints with what was saved."""

from __future__ import annotations

import os
import shutil
import tempfile

import pytest

# A solution is its notebook but for the starter cells. tests/notebooks compares the two, outputs and all, and runs it.
collect_ignore_glob = ["solutions/*"]


def _execute_with_history(self, cell_input, allow_stdin=None):
    """Send one cell as JupyterLab does.

    nbval itself asks for ``store_history=False``, under which IPython shows the value of a line that ends
    in ``;`` (nbval issue 194): the saved output of such a cell could never match.
    """
    return self.kc.execute(cell_input, store_history=True, allow_stdin=allow_stdin, stop_on_error=False)


def pytest_configure(config: pytest.Config) -> None:
    """Give the kernels a clean, private IPython, and cells that run as a person would run them."""
    try:
        from nbval.kernel import RunningKernel
    except ImportError:  # without nbval no notebook is collected, and there is nothing to set up
        return
    RunningKernel.execute_cell_input = _execute_with_history
    # Otherwise history goes to the reader's own profile, whose start-up files could change an output.
    profile = tempfile.mkdtemp(prefix="kernbench-ipython-")
    config.add_cleanup(lambda: shutil.rmtree(profile, ignore_errors=True))
    os.environ["IPYTHONDIR"] = profile
    # `build.py` saves what a kernel with seed 0 gave: where the order of a set or a dict shows, the two differ.
    os.environ["PYTHONHASHSEED"] = "1"
    # A kernel that inherits a backend does not draw inline, and its saved figures would be missed.
    os.environ.pop("MPLBACKEND", None)
