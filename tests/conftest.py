"""Settings that every test shares."""

from __future__ import annotations

import os

# Before numpy comes: the tiles of tests are small, and threads of BLAS that wait for each other on a busy machine make
# a product of microseconds take milliseconds. Child processes and notebooks inherit it.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import matplotlib
from hypothesis import settings

# The same examples on every machine and in every run, and no files left behind. To search for new ones:
#   HYPOTHESIS_PROFILE=explore python -m pytest tests/memory
settings.register_profile("fixed", derandomize=True, deadline=None, database=None)
settings.register_profile("explore", deadline=None, max_examples=2_000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))

# Not by MPLBACKEND: the notebooks' kernels would inherit it and stop drawing inline.
matplotlib.use("Agg")
