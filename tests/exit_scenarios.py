"""Ways for an interpreter to end while pools are at work: a program for each, and what it must print.

A scenario is *work* on a *pool* and an *end*. test_exit_scenarios.py runs each kind of work,
benchmarks/soak_exits.py hundreds of exits over all of them.
"""

import itertools
import textwrap
from typing import NamedTuple

from support import python

MESSAGE = "cannot schedule new futures after interpreter shutdown"

POOLS = {
    "private": "fjpool.ForkJoinPool(2)",
    "daemon": "fjpool.ForkJoinPool(2, join_at_exit=False)",
    "common": "fjpool.common_pool()",
}

# Each calls count() 30 times on a pool that finishes its work, and leaves others busy or stuck:
# `wait` returns soon on the one and never on the others.
WORK = {
    "nothing": "for _ in range(30): count()",
    "idle workers": "list(pool.map(lambda _: count(), range(30)))",
    "queued": """
        for _ in range(30):
            pool.submit(count)
        """,
    "running": """
        def run():
            sum(range(100_000))
            count()
        for _ in range(30):
            pool.submit(run)
        """,
    "blocked": """
        def block():
            wait()
            count()
        for _ in range(30):
            pool.submit(block)
        """,
    "blocked in fjpool": """
        def block():
            fjpool.Event().wait(0.01 if finishes else None)
            count()
        for _ in range(30):
            pool.submit(block)
        """,
    "forking": """
        def chain(n):
            count()
            if n < 29 or not finishes:
                fjpool.task(chain).fork(n + 1)
        pool.submit(chain, 0)  # on the others for ever
        """,
    "joining": """
        def join(depth):
            if depth == 29:
                wait()
            else:
                pool.submit(join, depth + 1).result()
            count()
        pool.submit(join, 0)
        """,
    "loop": """
        def leaf(lo, hi):
            wait()
            count()
        pool.submit(pool.parallel_for, leaf, 30, chunksize=1)
        """,
    "native loop": """
        import array
        from fjpool import lab
        seconds = array.array("q", [10**6 if finishes else 10**15])
        def loop():
            pool.parallel_for(lab.sleep, 3, chunksize=1, data=seconds)
            for _ in range(30): count()
        pool.submit(loop)
        """,
    "unread map": "results = pool.map(lambda _: (wait(), count()), range(30), chunksize=1)",
    "a thread that waits": """
        futures = [pool.submit(lambda: (wait(), count())) for _ in range(30)]
        def results():
            try:
                for future in futures:
                    future.result()
            except (fjpool.CancelledError, RuntimeError):
                pass
        threading.Thread(target=results, daemon=True).start()
        """,
    "a thread that submits": """
        for _ in range(30): count()
        def submit():
            try:
                while True:
                    pool.submit(abs, 1)
                    never.wait(0.0001)
            except RuntimeError as error:
                assert str(error) in (MESSAGE, SHUTDOWN), error
        threading.Thread(target=submit, daemon=True).start()
        """,
    "callbacks": """
        def again(future):
            if not future.cancelled():
                count()
        for _ in range(30):
            pool.submit(wait).add_done_callback(again)
        """,
    "a forked child": """
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        def fork():
            try:
                pid = os.fork()
            except RuntimeError as error:  # what CPython 3.12 says once the script has ended
                assert sys.version_info[:2] == (3, 12) and "at interpreter shutdown" in str(error)
            else:
                if pid == 0:
                    return
                assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
            for _ in range(30): count()
        # The child of a common pool's task is a process of its own, and ends with that task.
        pool.submit(fork).result() if not finishes else pool.submit(fork)
        """,
}

ENDS = {
    "script": ("", 0, []),
    "sys.exit": ("sys.exit(3)", 3, []),
    "atexit": ("atexit.register(submit_late, 'atexit')", 0, [f"atexit {MESSAGE}"]),
    "del": (
        """
        class Owner:
            def __del__(self, submit_late=submit_late, pool=pool):
                submit_late("del")
                pool.shutdown()
        sys.owner = Owner()  # which goes last, also where workers that were left behind hold on to globals
        """,
        0,
        [f"del {MESSAGE}"],
    ),
}

PROGRAM = """\
import atexit
faulthandler.cancel_dump_traceback_later()  # its thread is not in a forked child
MESSAGE, SHUTDOWN = {message!r}, "cannot schedule new futures after shutdown"
parent, finishes, never, counted = os.getpid(), {finishes}, threading.Event(), []
pool = {pool}
def count():
    counted.append(1)
def wait():
    never.wait(0.01 if finishes else None)
def submit_late(name, pool=pool, write=os.write, getpid=os.getpid, parent=parent):
    try:
        pool.submit(abs, 1)
    except RuntimeError as error:
        if getpid() == parent:
            write(1, f"{{name}} {{error}}\\n".encode())
# Handlers run after private pools have finished, before modules go.
atexit.register(lambda: os.getpid() == parent and say("counted", len(counted) == 30 or not finishes))
{work}
{end}
"""


class Scenario(NamedTuple):
    """What an interpreter is doing as it ends, where, and why it ends."""

    work: str
    pool: str
    end: str

    def run(self):
        """None, or what went wrong, in words."""
        end, status, lines = ENDS[self.end]
        program = PROGRAM.format(
            message=MESSAGE,
            finishes=self.pool == "private",
            pool=POOLS[self.pool],
            work=textwrap.dedent(WORK[self.work]),
            end=textwrap.dedent(end),
        )
        done = python(program)
        wanted = sorted(["counted True", *lines])
        if (done.returncode, sorted(done.stdout.splitlines()), done.stderr) != (status, wanted, ""):
            return f"{self}: status {done.returncode}\n{done.stdout}{done.stderr}"
        return None


def scenarios():
    """All of them."""
    return [Scenario(*parts) for parts in itertools.product(WORK, POOLS, ENDS)]
