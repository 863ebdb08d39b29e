"""What looks at threads from outside sees workers: faulthandler, py-spy, coverage.

That profile and trace functions reach them is in test_pool.py.
"""

import json
import os
import subprocess
import sys
import sysconfig

import pytest

from support import WAIT, output

pytestmark = pytest.mark.timeout(4 * WAIT)


def test_faulthandler_shows_the_frames_of_workers():
    """A dump of all threads has the stack of a task that runs."""
    printed = output(
        """
        import faulthandler
        pool = fjpool.ForkJoinPool(1)
        body = Held()
        def a_task_that_is_held():
            body()
        pool.submit(a_task_that_is_held)
        reach(body.started)
        faulthandler.dump_traceback(file=sys.__stdout__, all_threads=True)
        sys.__stdout__.flush()
        body.release.set()
        """
    )
    assert " in a_task_that_is_held\n" in printed
    assert "Current thread" in printed


def test_py_spy_names_workers_and_shows_their_frames():
    """As `threading` names them, idle ones too."""
    py_spy = os.path.join(sysconfig.get_path("scripts"), "py-spy")
    printed = output(
        f"""
        import subprocess
        pool = fjpool.ForkJoinPool(2, thread_name_prefix="spied", blocking="announced")
        def a_task_that_is_held(body):
            body()
        with held(pool, 2):
            pass
        body = Held()
        future = pool.submit(a_task_that_is_held, body)
        reach(body.started)
        done = subprocess.run([{py_spy!r}, "dump", "--pid", str(os.getpid())], capture_output=True, text=True)
        body.release.set()
        print(done.stdout, done.stderr)
        """
    )
    if any(words in printed for words in ("Permission denied", "Operation not permitted", "EPERM")):
        pytest.skip("this kernel lets py-spy not look at another process")
    assert '"spied_0"' in printed and '"spied_1"' in printed
    assert "a_task_that_is_held (<string>:" in printed


PROGRAM = """\
import fjpool

class Task(fjpool.RecursiveTask):
    def compute(self):
        a = 1
        return a

def call(i):
    b = i + 1
    return b

def leaf(lo, hi):
    c = hi - lo
    return c

with fjpool.ForkJoinPool(2) as pool:
    pool.submit(call, 1).result()
    list(pool.map(call, range(5)))
    pool.invoke(Task())
    pool.parallel_reduce(leaf, 4, chunksize=1)

def never():
    pass
"""

CORES = [
    "ctrace",
    "pytrace",
    pytest.param(
        "sysmon",
        marks=pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring came with 3.12"),
    ),
]


@pytest.mark.parametrize("options", [[], ["--concurrency=thread"]], ids=["default", "thread"])
@pytest.mark.parametrize("core", CORES)
def test_coverage_sees_lines_that_run_in_workers(core, options, tmp_path):
    """Bodies of tasks, calls of map, leaves: all but the function that nobody calls."""
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "COVERAGE_CORE": core, "COVERAGE_FILE": str(tmp_path / "data")}

    def coverage(*words):
        command = [sys.executable, "-m", "coverage", *words]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True, timeout=WAIT
        ).stdout

    coverage("run", *options, "--include=program.py", "program.py")
    missing = json.loads(coverage("json", "-o", "-", "-q"))["files"]["program.py"]["missing_lines"]
    assert [PROGRAM.splitlines()[line - 1].strip() for line in missing] == ["pass"]


def test_profile_of_threading_does_not_reach_workers_that_have_started():
    """As with Python's own threads; a worker that starts afterwards has it."""
    printed = output(
        """
        seen = set()
        def first(): pass
        def second(): pass
        pool = fjpool.ForkJoinPool(1)
        pool.submit(first).result(WAIT)
        threading.setprofile(lambda frame, event, argument: seen.add(frame.f_code.co_name))
        pool.submit(first).result(WAIT)
        fjpool.ForkJoinPool(1).submit(second).result(WAIT)
        print("first" in seen, "second" in seen)
        """
    )
    assert printed == "False True\n"
