"""Speed of kernbench_nb beside other ways to do the same work, as ratios measured in one run.

Nothing here is timed by the test suite; `tests/benchmarks` runs every workload once, at tiny sizes, and only looks
at whether both sides compute the same.
"""
