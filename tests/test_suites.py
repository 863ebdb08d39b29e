"""The test suites of others, run against fjpool in processes of their own."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
LONGEST = 240.0
"""Seconds that one suite may take; most of CPython's are sleeps."""


def is_here(name):
    """Whether a module, in a package that may be missing too, can be imported."""
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def run(*command):
    """What a child printed, which must succeed."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", *map(str, command)],
        cwd=HERE,
        env={key: value for key, value in os.environ.items() if not key.startswith("FJPOOL_")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=LONGEST,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


# --- CPython -------------------------------------------------------------------------------------


@pytest.mark.timeout(LONGEST + 10)
@pytest.mark.skipif(
    not is_here("test.test_concurrent_futures"),
    reason="this Python comes without test.test_concurrent_futures (Debian: libpython3-testsuite)",
)
def test_cpython_tests_of_executors_pass():
    """All but four: the default size, and three that count the threads right after a submit."""
    report = json.loads(run(HERE / "cpython_suite.py").splitlines()[-1])
    assert report["run"] >= 60 and report["failed"] == [] and report["skipped"] == []
    assert sorted(report["exempt"]) == [
        "PoolExecutorTest.test_default_workers",
        "PoolExecutorTest.test_idle_thread_reuse",
        "PoolExecutorTest.test_saturation",
        "PoolShutdownTest.test_threads_terminate",
    ]
    assert not report["altered"], "a test left threads or processes behind"
