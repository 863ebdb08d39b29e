"""The end of the interpreter, os.fork, subinterpreters: each in a fresh process."""

import concurrent.futures
import textwrap
import time

import pytest

from support import WAIT, output, python

NO_SPARES = {"FJPOOL_COMMON_PARALLELISM": "1", "FJPOOL_COMMON_MAXIMUM_SPARES": "0"}
QUIET = ("-W", "ignore::DeprecationWarning")  # 3.12 warns of every fork beside threads


FORKING = """\
import faulthandler, signal
# The child would wait for the thread behind this at its exit, and has none; so alarms instead.
faulthandler.cancel_dump_traceback_later()
faulthandler.register(signal.SIGALRM, all_threads=True, chain=True)
signal.alarm(20)
def fork():
    pid = os.fork()
    if pid == 0:
        signal.alarm(10)
    return pid
def ended(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""


def forking(code, *arguments, **options):
    """The output of a fresh process with fork(), and ended(pid) for the exit status of a child.

    A child that hangs is killed by its own alarm, after ten seconds: its status is -14.
    """
    return output(FORKING + textwrap.dedent(code), *arguments, options=QUIET, **options)


# --- exit ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["", "sys.exit(0)", "del pool"])
def test_exit_finishes_what_a_private_pool_was_given(end):
    """As with Python's own executors queued and running work is done before the process ends."""
    printed = output(
        f"""
        pool, body = fjpool.ForkJoinPool(1), Held()
        pool.submit(body)
        reach(body.started)
        def show(i):
            say(i)
            if i == 2:
                fjpool.task(say).fork(3)
        for i in range(3):
            pool.submit(show, i)
        threading._register_atexit(body.release.set)
        {end}
        """
    )
    assert sorted(printed.split()) == ["0", "1", "2", "3"]


def test_exit_after_a_failure_finishes_private_work_as_well():
    """The status and the traceback are the script's."""
    done = python(
        """
        pool, body = fjpool.ForkJoinPool(1), Held()
        pool.submit(body)
        reach(body.started)
        pool.submit(say, "done")
        threading._register_atexit(body.release.set)
        raise Boom("the script's own")
        """
    )
    assert (done.returncode, done.stdout) == (1, "done\n")
    assert done.stderr.splitlines()[-1] == "support.Boom: the script's own"


@pytest.mark.parametrize(
    "pool",
    ["fjpool.common_pool()", "fjpool.ForkJoinPool(1, join_at_exit=False)"],
    ids=["common", "private"],
)
@pytest.mark.parametrize(
    "body",
    [
        "threading.Event().wait()",
        "pool.parallel_for(lambda lo, hi: threading.Event().wait(), 9, chunksize=1)",
    ],
    ids=["task", "loop"],
)
def test_exit_abandons_what_would_not_end(pool, body):
    """The common pool, and one that asks for it, hold the process up for about a second, not for ever."""
    started = time.monotonic()
    printed = output(
        f"""
        pool, started = {pool}, threading.Event()
        def endless():
            started.set()
            {body}
            print("this is never reached")
        for _ in range(5):
            pool.submit(endless)
        reach(started)
        print("the script ends")
        """
    )
    assert printed == "the script ends\n"
    assert time.monotonic() - started < 10


def test_exit_abandons_a_native_leaf_that_does_not_end():
    """Also one that runs without the GIL and takes no notice of anything."""
    started = time.monotonic()
    printed = output(
        """
        import array
        from fjpool import lab
        day = array.array("q", [86_400 * 10**9])
        def loop():
            try:
                fjpool.parallel_for(lab.sleep, 2, data=day)
            except fjpool.CancelledError:
                pass
        threading.Thread(target=loop, daemon=True).start()
        eventually(lambda: fjpool.common_pool().steal_count == 1)
        print("the script ends")
        """
    )
    assert printed == "the script ends\n"
    assert time.monotonic() - started < 10


def test_exit_of_an_idle_pool_is_immediate():
    """Parked workers do not hold it up, whatever their keep_alive."""
    printed = output(
        """
        pools = fjpool.ForkJoinPool(3, keep_alive=None), fjpool.ForkJoinPool(3, join_at_exit=False)
        for pool in (*pools, fjpool.common_pool()):
            list(pool.map(abs, range(10), chunksize=1))
        print("idle")
        """
    )
    assert printed == "idle\n"


def test_exit_runs_the_finalizers():
    """Of every worker of a private pool, while Python still works."""
    printed = output(
        """
        pool = fjpool.ForkJoinPool(2, finalizer=lambda: say("closed"))
        with held(pool, 2):
            pass
        """
    )
    assert printed == "closed\nclosed\n"


def test_exit_refuses_new_outside_work_in_pythons_words():
    """From a function that runs at exit a pool gives an error instead of a future that nobody will run."""
    printed = output(
        """
        import atexit
        pool = fjpool.ForkJoinPool(1)
        pool.submit(abs, 1).result(WAIT)
        def late():
            for name, way in (
                ("private", lambda: pool.submit(abs, 1)),
                ("common", lambda: fjpool.submit(abs, 1)),
                ("new", lambda: fjpool.ForkJoinPool(1).submit(abs, 1)),
                ("map", lambda: pool.map(abs, [1])),
                ("loop", lambda: pool.parallel_for(print, 1)),
            ):
                try:
                    way()
                except RuntimeError as error:
                    print(name, error)
        fjpool.submit(abs, 1).result(WAIT)
        atexit.register(late)
        """
    )
    message = "cannot schedule new futures after interpreter shutdown"
    assert printed.splitlines() == [
        f"{name} {message}" for name in ("private", "common", "new", "map", "loop")
    ]


def test_exit_lets_running_tasks_use_their_own_pool():
    """A task that is still at work when the script ends may submit, fork and wait on its own pool."""
    printed = output(
        """
        pool, body = fjpool.ForkJoinPool(1), Held()
        def late():
            body()
            forked, submitted = fjpool.task(pow).fork(2, 3), pool.submit(pow, 2, 4)
            say(forked.join(), submitted.result(), list(pool.map(abs, [-1])))
        pool.submit(late)
        reach(body.started)
        threading._register_atexit(body.release.set)  # called before fjpool's own, which was registered first
        """
    )
    assert printed == "8 16 [1]\n"


def test_exit_survives_a_late_import():
    """Imported when the interpreter is already shutting down, fjpool gives errors but no crash."""
    done = python(
        """
        import atexit, os
        def late():
            import fjpool
            pool = fjpool.ForkJoinPool(1)
            try:
                pool.submit(abs, -3).result(5)
            except RuntimeError as error:
                print(error)
            print(pool)
        atexit.register(late)
        """,
        preamble=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(
        ("cannot schedule new futures after interpreter shutdown", "<ForkJoinPool")
    )


def test_exit_in_which_futures_outlive_the_pool_is_quiet():
    """Objects of fjpool that module teardown frees last do no harm."""
    printed = output(
        """
        class Keeper:
            pass
        keeper = Keeper()
        keeper.pool = fjpool.ForkJoinPool(2)
        keeper.futures = [keeper.pool.submit(abs, i) for i in range(10)]
        keeper.others = fjpool.submit(abs, 1), fjpool.Future()
        keeper.map = keeper.pool.map(abs, range(3))
        keeper.me = keeper
        sys.keeper = keeper
        print("kept")
        """
    )
    assert printed == "kept\n"


def test_exit_lets_private_work_wait_for_other_pools():
    """What a private pool finishes may need the common pool: that one works until the private ones are done."""
    printed = output(
        """
        private, others, go = fjpool.ForkJoinPool(1), [], threading.Event()
        def slow():
            reach(go)
            threading.Event().wait(1.2)  # longer than the common pool may take at exit
            return 5
        def wait_for_all():
            say([other.result() for other in others])
        for pool in fjpool.common_pool(), fjpool.ForkJoinPool(1, join_at_exit=False):
            others.append(pool.submit(slow))
        private.submit(wait_for_all)
        threading._register_atexit(go.set)
        """
    )
    assert printed == "[5, 5]\n"


@pytest.mark.parametrize("pool", ["fjpool.common_pool()", "fjpool.ForkJoinPool(1, join_at_exit=False)"])
def test_exit_ends_later_waits_for_what_was_left_behind(pool):
    """A handler that runs at exit and waits for such a pool, or for a task of it, does not hang."""
    printed = output(
        f"""
        import atexit
        pool = {pool}
        started = threading.Event()
        def endless():
            started.set()
            threading.Event().wait()
        future = pool.submit(endless)
        reach(started)
        def late():
            for wait in future.result, future.join, future.exception:
                try:
                    wait()
                except fjpool.CancelledError as error:
                    print(error)
            pool.shutdown()
            print(pool.await_termination(), pool.await_quiescence())
            with pool:
                pass
        atexit.register(late)
        """
    )
    message = "the interpreter is shutting down, and the worker that runs this task was left behind"
    assert printed.splitlines() == [message] * 3 + ["False False"]


# Each starts threads that go on until the script ends, or the pools refuse what they want. No daemons:
# CPython itself may crash on a daemon thread that runs Python while the process ends.
LOADS = {
    "chains": """
        pools = [fjpool.common_pool(), fjpool.ForkJoinPool(2, join_at_exit=False)]
        def link(pool):
            pool.submit(link, pool)
            progress.release()
        for pool in pools:
            for _ in range(4):
                pool.submit(link, pool)
        """,
    "loops": """
        pool = fjpool.ForkJoinPool(2, join_at_exit=False)
        def load(reduce):
            reduce(lambda lo, hi: sum(range(lo, hi)), 1_000, chunksize=3)
        start(load, pool.parallel_reduce, fjpool.parallel_reduce, fjpool.parallel_reduce)
        """,
    "native": """
        import array
        from fjpool import lab
        pool, nanosecond = fjpool.ForkJoinPool(2, join_at_exit=False), array.array("q", [1_000])
        def load(parallel_for):
            parallel_for(lab.spin, 1_000, chunksize=3, data=nanosecond)
        start(load, pool.parallel_for, fjpool.parallel_for)
        """,
    "submitters": """
        def load(pool):
            futures = [pool.submit(abs, -1) for _ in range(100)]
            for future in futures:
                future.add_done_callback(lambda future: future.cancelled())
            assert all(future.result() == 1 for future in futures)
        start(load, *[fjpool.ForkJoinPool(2), fjpool.common_pool()] * 2)
        """,
    "comings and goings": """
        def load(_):
            pool = fjpool.ForkJoinPool(2, keep_alive=0.02, initializer=list, finalizer=list)
            list(pool.map(abs, range(5), chunksize=1))
        start(load, None, None)
        """,
}
START = """\
progress = threading.Semaphore(0)
def start(load, *arguments):
    def run(argument):
        try:
            while threading.main_thread().is_alive():
                load(argument)
                progress.release()
        except (fjpool.CancelledError, RuntimeError):
            pass
    for argument in arguments:
        threading.Thread(target=run, args=(argument,)).start()
"""


@pytest.mark.parametrize("load", LOADS)
def test_exit_under_load_never_crashes(load):
    """Ten times for each kind of work that goes on while the script ends: status 0, no word of complaint."""
    code = START + textwrap.dedent(LOADS[load]) + "for _ in range(5): reach(progress)\nsay('end')\n"
    with concurrent.futures.ThreadPoolExecutor(3) as processes:
        outputs = list(processes.map(lambda _: output(code), range(10)))
    assert outputs == ["end\n"] * 10


# --- fork ----------------------------------------------------------------------------------------


def test_fork_gives_the_child_a_common_pool_of_its_own():
    """Made again at first use, with workers, though the parent's was warm and busy."""
    printed = forking(
        """
        pool = fjpool.common_pool()
        with held(pool):
            queued = pool.submit(pow, 2, 3)
            pid = fork()
            if pid == 0:
                mine = fjpool.common_pool()
                say(mine is pool, mine.pool_size, mine.submit(pow, 2, 4).result(WAIT), thread_name())
                say(mine.submit(thread_name).result(WAIT), list(fjpool.map(abs, range(-3, 0))))
                say(fjpool.parallel_reduce(lambda lo, hi: hi - lo, 1_000, chunksize=1))
                os._exit(0)
            say(ended(pid), queued.done())
        say(queued.result(WAIT), pool is fjpool.common_pool())
        """,
        env=NO_SPARES,
    )
    worker = "ForkJoinPool.commonPool-worker-1"
    assert printed.splitlines() == [
        "False 0 16 MainThread",
        f"{worker} [3, 2, 1]",
        "1000",
        "0 False",
        "8 True",
    ]


@pytest.mark.parametrize(
    "use",
    [
        "pool.submit(abs, 1)",
        "pool.map(abs, [1])",
        "pool.invoke(abs, 1)",
        "pool.parallel_for(print, 3)",
        "pool.parallel_reduce(print, 3)",
        "pool.reduce(max, [1, 2])",
        "pool.pool_size",
        "pool.leaf_counts()",
        "pool.await_quiescence(1)",
        "fjpool.map(abs, [1], pool=pool)",
        "fjpool.use(pool).__enter__() and fjpool.submit(abs, 1)",
        "fjpool.use(pool).__enter__() and fjpool.task(abs).fork(1)",
    ],
)
def test_fork_leaves_the_child_other_pools_that_refuse(use):
    """A pool of the parent's raises a RuntimeError that says what to do instead; in the parent it works."""
    printed = forking(
        f"""
        pool = fjpool.ForkJoinPool(2)
        with held(pool):
            pid = fork()
            if pid == 0:
                try:
                    {use}
                except RuntimeError as error:
                    say(error)
                os._exit(0)
            say(ended(pid))
        say(pool.submit(pow, 2, 3).result(WAIT))
        """
    )
    assert printed == (
        "this pool was created before os.fork(); its workers live in the parent process: create a new "
        "pool here, or use fjpool.common_pool()\n0\n8\n"
    )


@pytest.mark.parametrize("common", [True, False])
def test_fork_leaves_the_child_pools_that_can_be_shown_and_ended(common):
    """repr, shutdown, close and leaving a with block do nothing and do not hang; neither does dropping it."""
    printed = forking(
        f"""
        pool = fjpool.common_pool() if {common} else fjpool.ForkJoinPool(2)
        with held(pool):
            pid = fork()
            if pid == 0:
                say("of the parent process" in repr(pool))
                pool.shutdown(), pool.shutdown(cancel_futures=True), pool.close()
                with pool:
                    pass
                del pool
                import gc
                gc.collect()
                say("survived")
                sys.exit(0)
            say(ended(pid))
        say(pool.submit(pow, 2, 3).result(WAIT))
        """
    )
    assert printed == "True\nsurvived\n0\n8\n"


@pytest.mark.parametrize(
    "wait",
    [
        "future.result()",
        "raise future.exception()",
        "future.join()",
        "future.result(timeout=9)",
        "list(results)",
    ],
)
@pytest.mark.parametrize("state", ["queued", "running"])
def test_fork_makes_inherited_futures_fail_in_the_child(wait, state):
    """Waiting for work of the parent's raises BrokenThreadPool instead of hanging."""
    printed = forking(
        f"""
        pool = fjpool.ForkJoinPool(1, blocking="announced")
        with held(pool) as body:
            future = body.future if {state == "running"} else pool.submit(pow, 2, 3)
            results = pool.map(abs, [1])
            pid = fork()
            if pid == 0:
                try:
                    {wait}
                except fjpool.BrokenThreadPool as error:
                    say(error)
                os._exit(0)
            say(ended(pid))
        say(future.result(WAIT))
        """
    )
    result = 8 if state == "queued" else None
    assert printed.startswith(
        "this task was queued before os.fork(); its workers live in the parent process\n"
    )
    assert printed.endswith(f"\n0\n{result}\n")


@pytest.mark.parametrize(
    "wait",
    [
        "fjpool.wait([future])",
        "list(fjpool.as_completed([future]))",
        "concurrent.futures.wait([future])",
        "list(concurrent.futures.as_completed([future]))",
    ],
)
def test_fork_makes_waiting_for_inherited_futures_end_in_the_child(wait):
    """wait and as_completed, fjpool's and the standard library's, return or raise, but do not hang."""
    printed = forking(
        f"""
        import concurrent.futures
        pool = fjpool.ForkJoinPool(1, blocking="announced")
        with held(pool):
            future = pool.submit(pow, 2, 3)
            pid = fork()
            if pid == 0:
                try:
                    {wait}
                except fjpool.BrokenThreadPool:
                    pass
                os._exit(0)
            say(ended(pid))
        say(future.result(WAIT))
        """
    )
    assert printed == "0\n8\n"


def test_fork_leaves_finished_futures_and_new_tasks_alone():
    """What was done stays done, what was never queued can run in the child."""
    printed = forking(
        """
        class Answer(fjpool.RecursiveTask):
            def compute(self):
                return 42
        pool = fjpool.ForkJoinPool(1)
        done, new, bare = pool.submit(pow, 2, 3), Answer(), fjpool.Future()
        done.result(WAIT)
        pid = fork()
        if pid == 0:
            bare.set_result(1)
            say(done.result(), fjpool.invoke(new), bare.result())
            os._exit(0)
        say(ended(pid), new.done(), bare.done())
        """
    )
    assert printed == "8 42 1\n0 False False\n"


def test_fork_leaves_the_child_free_to_make_pools_and_fork_again():
    """Private pools with workers in a child, and in its child."""
    printed = forking(
        """
        def use(name):
            with fjpool.ForkJoinPool(2) as pool:
                mapped = list(pool.map(abs, [-1, 2], chunksize=1))
                say(name, mapped, fjpool.submit(pow, 2, 3).result(WAIT))
        use("parent")
        pid = fork()
        if pid == 0:
            use("child")
            pid = fork()
            if pid == 0:
                use("grandchild")
                os._exit(0)
            os._exit(ended(pid))
        say(ended(pid))
        use("parent")
        """
    )
    assert printed.splitlines() == [
        "parent [1, 2] 8",
        "child [1, 2] 8",
        "grandchild [1, 2] 8",
        "0",
        "parent [1, 2] 8",
    ]


@pytest.mark.parametrize("end", ["sys.exit(0)", "os._exit(0)", "pass"])
def test_fork_child_ends_whatever_the_parent_has_queued(end):
    """The parent's pools hold up no child at its exit, and the child runs nothing of theirs."""
    printed = forking(
        f"""
        pool = fjpool.ForkJoinPool(1, blocking="announced")
        body = Held()
        pool.submit(body)
        reach(body.started)
        pool.submit(say, "parent only")
        fjpool.submit(abs, 1).result(WAIT)
        pid = fork()
        if pid == 0:
            {end}
        else:
            say(ended(pid))
            body.release.set()
        """
    )
    assert printed == "0\nparent only\n"


def test_fork_many_times_under_load_harms_neither_side():
    """Forty children beside busy workers: each finds its common pool free, and the parent loses nothing."""
    printed = forking(
        """
        pool, stop = fjpool.ForkJoinPool(2), threading.Event()
        counts = []
        def load():
            n = 0
            while not stop.is_set():
                n += sum(pool.map(len, [[1], [2, 3]] * 50, chunksize=5)) == 150
                assert fjpool.parallel_reduce(lambda lo, hi: hi - lo, 500, chunksize=7) == 500
            counts.append(n > 0)
        threads = [threading.Thread(target=load) for _ in range(2)]
        for thread in threads:
            thread.start()
        statuses = set()
        for _ in range(40):
            pid = fork()
            if pid == 0:
                right = fjpool.submit(pow, 2, 3).result(WAIT) == 8
                os._exit(0 if right else 1)
            statuses.add(ended(pid))
        stop.set()
        for thread in threads:
            thread.join(WAIT)
        say(statuses, counts)
        """
    )
    assert printed == "{0} [True, True]\n"


def test_fork_inside_a_task_leaves_a_child_that_is_no_worker():
    """Its thread is the main thread, belongs to no pool, and may use a common pool of its own."""
    printed = forking(
        """
        pool = fjpool.ForkJoinPool(2)
        def body():
            pid = fork()
            if pid == 0:
                say(fjpool.current_pool(), threading.current_thread() is threading.main_thread())
                say(fjpool.submit(pow, 2, 3).result(WAIT), fjpool.task(pow).fork(2, 4).join())
                os._exit(3)
            return ended(pid)
        say(pool.submit(body).result(WAIT), pool.submit(pow, 2, 5).result(WAIT))
        """
    )
    assert printed == "None True\n8 16\n3 32\n"


def test_fork_inside_a_task_ends_the_child_with_the_body():
    """When the body returns there the child process exits: it does not go on as a second worker."""
    printed = forking(
        """
        import atexit
        pool, parent = fjpool.ForkJoinPool(1, blocking="announced"), os.getpid()
        atexit.register(lambda: say("exit of", "parent" if os.getpid() == parent else "child"))
        def body():
            pid = fork()
            if pid == 0:
                say("child")
                return
            say(ended(pid))
        with held(pool):
            future = pool.submit(body)
            pool.submit(say, "next")
        say(future.result(WAIT))
        """
    )
    lines = printed.splitlines()
    assert sorted(lines) == sorted(["child", "exit of child", "0", "next", "None", "exit of parent"])
    assert lines[:3] == ["child", "exit of child", "0"] and lines[-1] == "exit of parent"


def test_fork_inside_a_task_nested_in_others_ends_the_child_with_the_outermost():
    """In the child the stack of bodies unwinds as usual, and then it exits."""
    printed = forking(
        """
        pool, parent = fjpool.ForkJoinPool(1), os.getpid()
        def tell(name):
            say(name, "parent" if os.getpid() == parent else "child")
        @fjpool.task
        def inner():
            pid = fork()
            status = ended(pid) if pid else None
            tell("inner")
            return status
        def outer():
            status = inner.fork().join()
            tell("outer")
            return status
        say(pool.submit(outer).result(WAIT))
        """
    )
    assert printed.splitlines() == ["inner child", "outer child", "inner parent", "outer parent", "0"]


@pytest.mark.parametrize("end, status", [("raise Boom", 1), ("sys.exit(7)", 7)])
def test_fork_inside_a_task_whose_child_fails_shows_in_its_status(end, status):
    """A body that raises in the child does not look like success to whoever waits for the child."""
    done = python(
        FORKING
        + textwrap.dedent(
            f"""
            pool = fjpool.ForkJoinPool(1)
            def body():
                pid = fork()
                if pid == 0:
                    {end}
                return ended(pid)
            say(pool.submit(body).result(WAIT))
            """
        ),
        options=QUIET,
    )
    assert done.returncode == 0
    assert done.stdout == f"{status}\n"


def test_fork_inside_a_task_makes_joins_of_stolen_tasks_fail_in_the_child():
    """What another worker runs in the parent nobody runs in the child: BrokenThreadPool."""
    printed = forking(
        """
        pool, body = fjpool.ForkJoinPool(2), Held()
        def root():
            stolen = fjpool.task(body).fork(5)
            reach(body.started)
            pid = fork()
            if pid == 0:
                try:
                    stolen.join()
                except fjpool.BrokenThreadPool:
                    say("broken")
                os._exit(0)
            status = ended(pid)
            body.release.set()
            return status, stolen.join()
        say(pool.submit(root).result(WAIT))
        """
    )
    assert printed == "broken\n(0, 5)\n"


@pytest.mark.parametrize("where", ["worker", "caller"])
def test_fork_inside_a_leaf_lets_the_child_out_of_the_loop(where):
    """Pieces that other threads of the parent run do not hang the child: its loop ends with an error."""
    printed = forking(
        f"""
        both, go = threading.Barrier(2), threading.Event()
        in_the_caller = {where!r} == "caller"
        pool = fjpool.common_pool() if in_the_caller else fjpool.ForkJoinPool(2)
        def leaf(lo, hi):
            reach(both)
            # The second half is computed by whoever began the loop.
            if (threading.current_thread() is threading.main_thread()) if in_the_caller else lo == 1:
                pid = fork()
                if pid == 0:
                    return [0]
                statuses = [ended(pid)]
                go.set()
                return statuses
            reach(go)
            return []
        try:
            say(pool.parallel_reduce(leaf, 2, chunksize=1))
        except fjpool.BrokenThreadPool:
            os._exit(0)
        """,
        env=NO_SPARES,
    )
    assert printed == "[0]\n"


def test_fork_beside_multiprocessing_and_subprocess_works():
    """Pools of forked processes from the main thread and from a task, and programs from many tasks."""
    printed = forking(
        """
        import multiprocessing, subprocess
        context = multiprocessing.get_context("fork")
        pool = fjpool.ForkJoinPool(2)
        list(pool.map(abs, range(10)))
        def loop(n):
            return fjpool.parallel_reduce(lambda lo, hi: hi - lo, n, chunksize=1)
        def processes():
            with context.Pool(2) as pool_of_processes:
                return pool_of_processes.map(loop, [10, 20])
        def program(i):
            command = [sys.executable, "-S", "-c", f"print({i})"]
            return subprocess.run(command, capture_output=True).stdout.strip()
        say(processes(), pool.submit(processes).result(WAIT))
        say(list(pool.map(program, range(4), chunksize=1)))
        """,
        timeout=2 * WAIT,
    )
    assert printed == "[10, 20] [10, 20]\n[b'0', b'1', b'2', b'3']\n"


MULTIPROCESSING = """\
import concurrent.futures, multiprocessing
context = multiprocessing.get_context("fork")
def work(n):
    # in the child: a loop, a map and a task on its own common pool
    loop = fjpool.parallel_reduce(lambda lo, hi: hi - lo, n, chunksize=1)
    return loop, sum(fjpool.map(abs, range(-n, 0))), fjpool.submit(pow, 2, n).result(WAIT)
def refused(pool):
    try:
        pool.submit(abs, 1)
    except RuntimeError as error:
        return str(error).split(";")[0]
def inherited():
    try:
        future.result()
    except fjpool.BrokenThreadPool as error:
        return str(error).split(";")[0]
def child(queue):
    queue.put((work(4), refused(pool), inherited()))
"""
EXPECTED = (
    "((4, 10, 16), 'this pool was created before os.fork()', 'this task was queued before os.fork()')"
)


@pytest.mark.parametrize(
    "start",
    [
        """
        queue = context.SimpleQueue()
        process = context.Process(target=child, args=(queue,))
        process.start()
        say(queue.get())
        process.join(WAIT)
        """,
        """
        with context.Pool(2) as processes:
            say((processes.apply(work, (4,)), processes.apply(refused_by_the_parents), processes.apply(inherited)))
        """,
        """
        with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as processes:
            calls = processes.submit(work, 4), processes.submit(refused_by_the_parents), processes.submit(inherited)
            say(tuple(call.result(WAIT) for call in calls))
        """,
    ],
    ids=["Process", "Pool", "ProcessPoolExecutor"],
)
def test_fork_by_multiprocessing_beside_a_busy_pool(start):
    """The child's common pool works, the parent's pools and futures say why not, the parent goes on."""
    printed = forking(
        MULTIPROCESSING
        + """\
def refused_by_the_parents():
    return refused(pool)
pool = fjpool.ForkJoinPool(2, blocking="announced")
with held(pool, 2), held(fjpool.common_pool()):
    future = pool.submit(pow, 2, 3)
"""
        + textwrap.indent(textwrap.dedent(start), "    ")
        + """\
say(future.result(WAIT), sum(pool.map(abs, range(-4, 0))), fjpool.submit(pow, 2, 5).result(WAIT))
""",
        timeout=2 * WAIT,
    )
    assert printed.splitlines() == [EXPECTED, "8 10 32"]


# --- subinterpreters -----------------------------------------------------------------------------


SUBINTERPRETER = """\
try:
    import _interpreters as interpreters
except ImportError:
    try:
        import _xxsubinterpreters as interpreters
    except ImportError:
        sys.exit("absent")
def elsewhere(code):
    other = interpreters.create()
    interpreters.run_string(other, f"import os, sys; sys.path[:] = {sys.path!r}\\n{code}")
    interpreters.destroy(other)
"""


def with_subinterpreter(code):
    """The output of a fresh process with elsewhere(code), which runs code in a subinterpreter."""
    done = python(SUBINTERPRETER + textwrap.dedent(code))
    if done.stderr.strip() == "absent":
        pytest.skip("this Python has no module to make subinterpreters with")
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_subinterpreter_cannot_import_fjpool():
    """An ImportError that says why."""
    printed = with_subinterpreter(
        """
        elsewhere(
            "try:\\n"
            "    import fjpool\\n"
            "except ImportError as error:\\n"
            "    os.write(1, str(error).encode())\\n"
        )
        """
    )
    assert "subinterpreter" in printed


IMPORT_EVERY_MODULE = """\
import os
for name in ("fjpool", "fjpool._core", "fjpool.lab._native", "fjpool._selftest"):
    try:
        __import__(name)
    except ImportError as error:
        os.write(1, f"{error}\\n".encode())
"""


def test_subinterpreter_of_the_old_kind_cannot_import_fjpool():
    """One that is not isolated; in the main interpreter the pools go on."""
    pytest.importorskip("_testcapi")
    printed = output(
        """
        import _testcapi
        pool = fjpool.ForkJoinPool(2)
        _testcapi.run_in_subinterp(f"import sys; sys.path[:] = {sys.path!r}\\n" + sys.argv[1])
        say(sum(pool.map(abs, range(100))), sum(fjpool.map(abs, range(100))))
        """,
        IMPORT_EVERY_MODULE,
    )
    refusal = "fjpool works in the main interpreter only, not in a subinterpreter\n"
    assert printed == 4 * refusal + "4950 4950\n"


@pytest.mark.parametrize("used", [True, False], ids=["warm", "cold"])
def test_subinterpreter_elsewhere_does_no_harm(used):
    """Pools, warm or new, work in the main interpreter after somebody has made and ended another."""
    printed = with_subinterpreter(
        f"""
        pool = fjpool.ForkJoinPool(2)
        if {used}:
            list(pool.map(abs, range(10), chunksize=1))
        elsewhere("pass")
        for pool in pool, fjpool.common_pool(), fjpool.ForkJoinPool(2):
            say(sum(pool.map(abs, range(100), chunksize=1)), pool.parallel_reduce(lambda lo, hi: hi - lo, 50))
        """
    )
    assert printed == "4950 50\n" * 3
