"""CPython's own tests of executors and futures, run against ForkJoinPool and fjpool.Future.

A program for a process of its own: it replaces names of concurrent.futures before it imports
``test.test_concurrent_futures``, whose constants are futures, and runs it under unittest, since
two of the tests replace sys.stderr. The last line of its output says in JSON what was run.
"""

import concurrent.futures
import importlib
import json
import sys
import threading
import unittest
from pathlib import Path

import fjpool
from support import eventually

concurrent.futures.Future = concurrent.futures._base.Future = fjpool.Future
concurrent.futures.ThreadPoolExecutor = fjpool.ForkJoinPool  # some tests name the class itself

ROOT = str(Path(fjpool.__file__).resolve().parent.parent)

COUNTS_THREADS = (
    "counts `_threads`, the threading.Thread objects of the pool, after a submit; workers are "
    "started in C, when there is work for them"
)
EXEMPT = {
    "PoolExecutorTest.test_default_workers": (
        "expects min(32, CPUs + 4) threads; here they are as many as the CPUs of this process"
    ),
    "PoolExecutorTest.test_saturation": COUNTS_THREADS,
    "PoolExecutorTest.test_idle_thread_reuse": COUNTS_THREADS,
    "PoolShutdownTest.test_threads_terminate": COUNTS_THREADS,
}

# What is taken from each module: up to 3.11 they are one.
MODULES = {
    "util": (),
    "test_thread_pool": ("ThreadPoolExecutorTest",),
    "test_wait": ("ThreadPoolWaitTests",),
    "test_as_completed": ("AsCompletedTests",),
    "test_init": ("InitializerMixin", "FailingInitializerMixin"),
    "test_shutdown": ("ThreadPoolShutdownTest",),
    "test_future": ("FutureTests",),
}


def load():
    """The test classes by name, and the module that starts child processes."""
    package = importlib.import_module("test.test_concurrent_futures")
    single = not hasattr(package, "__path__")
    found = {}
    for name, classes in MODULES.items():
        module = package if single else importlib.import_module(f"{package.__name__}.{name}")
        found.update((each, getattr(module, each)) for each in classes)
        if name == "util":
            found["BaseTestCase"], found["ExecutorMixin"] = module.BaseTestCase, module.ExecutorMixin
        if name == "test_shutdown":
            starter = module
    return found, starter


def name_the_pool_in_children(module):
    """The scripts of the shutdown tests import the executor from concurrent.futures."""
    original = module.assert_python_ok

    def assert_python_ok(*args, **kwargs):
        rewritten = []
        for arg in args:
            for name in ("ForkJoinPool", "ThreadPoolExecutor"):
                arg = arg.replace(
                    f"from concurrent.futures import {name}\n",
                    f"import sys; sys.path.insert(0, {ROOT!r}); "
                    f"from fjpool import ForkJoinPool as {name}\n",
                )
            rewritten.append(arg)
        assert any("from fjpool" in arg for arg in rewritten), args
        return original(*rewritten, **kwargs)

    module.assert_python_ok = assert_python_ok


def cases():
    """The classes that are run: theirs, with our executor."""
    theirs, starter = load()
    name_the_pool_in_children(starter)

    class Pool(theirs["ExecutorMixin"]):
        executor_type = fjpool.ForkJoinPool

    class Base(theirs["BaseTestCase"]):
        def tearDown(self):
            # Where the standard pool is dropped, the tests join its `_threads` before they look
            # for threads that are left; workers take the same time to leave.
            eventually(lambda: threading.active_count() == 1, "a worker did not leave")
            super().tearDown()

    return [
        type("PoolExecutorTest", (Pool, theirs["ThreadPoolExecutorTest"], Base), {}),
        type("PoolWaitTest", (Pool, theirs["ThreadPoolWaitTests"], Base), {}),
        type("PoolAsCompletedTest", (Pool, theirs["AsCompletedTests"], Base), {}),
        # Their mixins are executor mixins themselves, and choose the arguments.
        type("PoolInitializerTest", (theirs["InitializerMixin"], Pool, Base), {}),
        type("PoolFailingInitializerTest", (theirs["FailingInitializerMixin"], Pool, Base), {}),
        type("PoolShutdownTest", (Pool, theirs["ThreadPoolShutdownTest"], Base), {}),
        type("FutureTest", (theirs["FutureTests"],), {}),
    ]


def main():
    from test import support

    suite, exempt = unittest.TestSuite(), []
    for case in cases():
        for name in unittest.defaultTestLoader.getTestCaseNames(case):
            test = f"{case.__name__}.{name}"
            if test in EXEMPT:
                exempt.append(test)
            elif len(sys.argv) == 1 or sys.argv[1] in test:
                suite.addTest(case(name))
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(suite)
    report = {
        "run": result.testsRun,
        "skipped": [str(test) for test, _ in result.skipped],
        "failed": [str(test) for test, _ in result.failures + result.errors],
        "exempt": exempt,
        "altered": bool(support.environment_altered),  # threads or processes were left behind
    }
    print(json.dumps(report))
    sys.stdout.flush()
    return not result.wasSuccessful()


if __name__ == "__main__":
    sys.exit(main())
