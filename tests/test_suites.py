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


# --- suites under pytest -------------------------------------------------------------------------


def report_of(plugin, *modules):
    """What the plugin says about a run of the tests in installed modules."""
    command = ("-m", "pytest", "-c", os.devnull, "--rootdir", HERE, "--noconftest", "-q")
    limits = ("-p", "no:cacheprovider", "-o", f"faulthandler_timeout={LONGEST - 20}")
    printed = run(*command, *limits, "-p", plugin, "--pyargs", *modules)
    return json.loads(next(line for line in printed.splitlines() if line.startswith("{")))


@pytest.mark.timeout(LONGEST + 10)
@pytest.mark.skipif(not is_here("joblib.test.test_parallel"), reason="joblib is not here")
def test_joblib_tests_of_backends_pass():
    """Its cases for a registered backend, on the common pool, but for two in other processes."""
    report = report_of("joblib_suite", "joblib.test.test_parallel")
    assert report["passed"] >= 76 and report["failed"] == 0
    assert sorted(report["exempt"]) == [
        "test_nested_loop[back_compat_backend-fjpool]",
        "test_nested_loop[loky-fjpool]",
    ]
    assert report["tasks"] > 100


@pytest.mark.timeout(LONGEST + 10)
@pytest.mark.skipif(not is_here("dask.tests.test_threaded"), reason="dask is not here")
def test_dask_tests_of_threaded_scheduling_pass():
    """All of them, and they ran on our workers."""
    report = report_of("dask_suite", "dask.tests.test_threaded", "dask.tests.test_local")
    assert report["passed"] >= 45 and report["failed"] == 0 == report["skipped"]
    assert report["tasks"] > 100
