"""What the tests of pools lean on: latches that cannot wait for ever, and fresh processes.

A test never sleeps. It opens and awaits latches, or, for what nobody announces (a thread that
leaves), asks again until it is so. `WAIT` bounds every wait; a test that gets that far has failed.
"""

import contextlib
import os
import subprocess
import sys
import textwrap
import threading
from time import monotonic

WAIT = 30.0
"""Seconds. Far more than anything here takes on a busy machine."""

PARALLELISMS = (1, 2, 4)
ORDERS = ("lifo", "fifo")


class Boom(Exception):
    """What failing tasks raise."""


def boom(*args):
    """A body that fails."""
    raise Boom(*args)


def reach(latch):
    """Wait for an Event, a Barrier or a Semaphore, at most `WAIT`."""
    if isinstance(latch, threading.Barrier):
        latch.wait(WAIT)
    elif isinstance(latch, threading.Event):
        assert latch.wait(WAIT), "a latch never opened"
    else:
        assert latch.acquire(timeout=WAIT), "a latch never opened"


def eventually(predicate, message="it never came true", pause=0.002):
    """Ask until it is so; for what happens without anybody telling. Seconds between two questions."""
    never, end = threading.Event(), monotonic() + WAIT
    while not predicate():
        assert monotonic() < end, message
        never.wait(pause)


class Held:
    """A task body that runs from `started` to `release`."""

    def __init__(self):
        self.started, self.release = threading.Event(), threading.Event()

    def __call__(self, value=None):
        self.started.set()
        reach(self.release)
        return value


@contextlib.contextmanager
def held(pool, workers=1):
    """Inside the block, that many workers of the pool are busy; leaving it lets them go."""
    bodies = [Held() for _ in range(workers)]
    try:
        for body in bodies:
            body.future = pool.submit(body)
        for body in bodies:
            reach(body.started)
        yield bodies[0]
    finally:
        for body in bodies:
            body.release.set()


def thread_name():
    """The name of the calling thread."""
    return threading.current_thread().name


def say(*words):
    """Print a line in one piece, whatever other threads and processes print."""
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def thread_count():
    """Threads of this process, Python's and others."""
    return len(os.listdir("/proc/self/task"))


# --- a fresh process -----------------------------------------------------------------------------

PREAMBLE = """\
import os, sys, threading
sys.path.insert(0, {tests!r})
from support import *
import fjpool
"""


def python(code, *arguments, env=None, preamble=True, options=(), timeout=WAIT):
    """Run Python code in a fresh process, where this module's names and fjpool are at hand.

    The process dumps its threads before it would be killed for taking too long.
    """
    code = textwrap.dedent(code)
    if preamble:
        code = PREAMBLE.format(tests=os.path.dirname(os.path.abspath(__file__))) + code
    clean = {key: value for key, value in os.environ.items() if not key.startswith("FJPOOL_")}
    clean.pop("PYTHON_CPU_COUNT", None)
    watch = f"import faulthandler; faulthandler.dump_traceback_later({timeout - 5!r}, exit=True)\n"
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", *options, "-c", watch + code, *arguments],
        env={**clean, **(env or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout,
    )


def output(code, *arguments, **options):
    """The standard output of a fresh process that must succeed without a word of complaint."""
    done = python(code, *arguments, **options)
    assert (done.returncode, done.stderr) == (0, ""), f"{done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout
