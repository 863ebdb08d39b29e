"""What ``import fjpool`` and the first pool cost a program that starts."""

from __future__ import annotations

import subprocess
import sys
from statistics import median

import pytest

pytestmark = pytest.mark.timeout(600)

TIMED = """
import sys
from time import perf_counter_ns
start = perf_counter_ns()
{}
print(perf_counter_ns() - start, "numpy" in sys.modules)
"""
FJPOOL = TIMED.format("import fjpool; pool = fjpool.ForkJoinPool()")
STANDARD = TIMED.format("import concurrent.futures.thread")


def test_import_costs_little_more_than_the_standard_pool(benchmark, report, python, full) -> None:
    """In fresh processes: under 3 ms more than concurrent.futures.thread, and no NumPy."""
    # As users have it: compiled by the first import, which the warm-up round is.
    environment = {k: v for k, v in python["env"].items() if k != "PYTHONDONTWRITEBYTECODE"}
    python = {**python, "env": environment}
    extra_ms = []

    def one_round() -> None:
        times = []
        for program in (STANDARD, FJPOOL):
            ns, has_numpy = subprocess.run([sys.executable, "-c", program], **python).stdout.split()
            assert has_numpy == "False"
            times.append(int(ns) / 1e6)
        extra_ms.append(times[1] - times[0])

    benchmark.pedantic(one_round, rounds=101 if full else 25, warmup_rounds=1)
    name = "import and first pool: ms more than concurrent.futures.thread"
    report.figure(name, median(extra_ms), at_most=3)
