"""The common pool and the environment's settings, each in a fresh process."""

import pytest

from support import output, python

NONE = {"FJPOOL_COMMON_PARALLELISM": "0"}
ONE = {"FJPOOL_COMMON_PARALLELISM": "1", "FJPOOL_COMMON_MAXIMUM_SPARES": "0"}  # one thread, no stand-ins
TWO = {"FJPOOL_COMMON_PARALLELISM": "2", "FJPOOL_COMMON_MAXIMUM_SPARES": "0"}

SIZES = """
    common, private = fjpool.common_pool(), fjpool.ForkJoinPool()
    print(common.parallelism, common.max_workers, private.parallelism, private.max_workers)
    """


# --- sizes from the environment ------------------------------------------------------------------


@pytest.mark.parametrize(
    "env, expected",
    [
        ({"FJPOOL_NUM_THREADS": "5"}, "4 260 5 261"),
        ({"FJPOOL_NUM_THREADS": "1"}, "1 257 1 257"),
        ({"FJPOOL_NUM_THREADS": "5", "FJPOOL_COMMON_PARALLELISM": "9"}, "9 265 5 261"),
        ({"FJPOOL_NUM_THREADS": "5", "PYTHON_CPU_COUNT": "7"}, "4 260 5 261"),
        ({"PYTHON_CPU_COUNT": "7"}, "6 262 7 263"),
        ({"FJPOOL_NUM_THREADS": "3", "FJPOOL_COMMON_MAXIMUM_SPARES": "10"}, "2 12 3 259"),
        ({"FJPOOL_COMMON_PARALLELISM": "0", "FJPOOL_NUM_THREADS": "2"}, "1 256 2 258"),
        ({"FJPOOL_COMMON_PARALLELISM": "-3", "FJPOOL_NUM_THREADS": "2"}, "1 256 2 258"),
        ({**ONE, "FJPOOL_NUM_THREADS": "2"}, "1 1 2 258"),
        ({"FJPOOL_NUM_THREADS": "2", "FJPOOL_COMMON_MAXIMUM_SPARES": "99999"}, "1 32767 2 258"),
        ({"FJPOOL_NUM_THREADS": "99999"}, "32766 32767 32767 32767"),
        ({"FJPOOL_NUM_THREADS": "2", "FJPOOL_COMMON_PARALLELISM": "99999"}, "32767 32767 2 258"),
    ],
    ids=lambda value: " ".join(value.values()) if isinstance(value, dict) else "",
)
def test_settings_decide_the_sizes(env, expected):
    """The most particular setting wins; the common pool has one worker less than CPUs, at least one."""
    assert output(SIZES, env=env) == f"{expected}\n"


def test_settings_leave_explicit_arguments_alone():
    """An argument comes before every setting."""
    printed = output(
        "pool = fjpool.ForkJoinPool(3)\nprint(pool.parallelism, pool.max_workers)",
        env={"FJPOOL_NUM_THREADS": "7", "FJPOOL_COMMON_PARALLELISM": "9", "PYTHON_CPU_COUNT": "8"},
    )
    assert printed == "3 259\n"


@pytest.mark.parametrize(
    "name, value",
    [
        ("FJPOOL_COMMON_PARALLELISM", "abc"),
        ("FJPOOL_COMMON_PARALLELISM", "1.5"),
        ("FJPOOL_COMMON_MAXIMUM_SPARES", "many"),
        ("FJPOOL_NUM_THREADS", "two"),
        ("FJPOOL_NUM_THREADS", "0"),
        ("FJPOOL_NUM_THREADS", "-2"),
    ],
)
def test_settings_that_cannot_be_read_are_dropped_with_a_warning(name, value):
    """The warning names setting and value; the other settings count, and everything works."""
    settings = {
        "FJPOOL_NUM_THREADS": "4",
        "FJPOOL_COMMON_PARALLELISM": "2",
        "FJPOOL_COMMON_MAXIMUM_SPARES": "3",
        "PYTHON_CPU_COUNT": "6",
    }
    done = python(
        """
        import warnings
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            common, private = fjpool.common_pool(), fjpool.ForkJoinPool()
        result = fjpool.submit(pow, 2, 3).result(WAIT)
        print(result, common.parallelism, common.max_workers, private.parallelism)
        for text in {f"{warning.category.__name__} {warning.message}" for warning in caught}:
            print(text)
        """,
        env={**settings, name: value},
    )
    assert done.returncode == 0, done.stderr
    sizes, *warned = done.stdout.splitlines()
    expected = {
        "FJPOOL_COMMON_PARALLELISM": "8 3 6 4",
        "FJPOOL_COMMON_MAXIMUM_SPARES": "8 2 258 4",
        "FJPOOL_NUM_THREADS": "8 2 5 6",
    }
    assert sizes == expected[name]
    assert len(warned) == 1
    assert warned[0].startswith(f"RuntimeWarning {name}={value!r} is ignored: expected ")


def test_settings_are_read_when_the_common_pool_is_first_used():
    """Between import and first use they can still be set; after that a change has no effect."""
    printed = output(
        """
        os.environ["FJPOOL_COMMON_PARALLELISM"] = "3"
        print(fjpool.common_pool().parallelism)
        os.environ["FJPOOL_COMMON_PARALLELISM"] = "5"
        fjpool.submit(abs, 1).result(WAIT)
        print(fjpool.common_pool().parallelism)
        """
    )
    assert printed == "3\n3\n"


def test_parallelism_of_the_setting_is_what_runs_at_once():
    """Three workers, three bodies that wait for each other."""
    printed = output(
        """
        together = threading.Barrier(3)
        print(sorted(fjpool.map(lambda _: together.wait(WAIT), range(3), chunksize=1)))
        """,
        env={"FJPOOL_COMMON_PARALLELISM": "3", "FJPOOL_COMMON_MAXIMUM_SPARES": "0"},
    )
    assert printed == "[0, 1, 2]\n"


def test_spares_of_nought_keep_the_common_pool_at_its_size():
    """No thread stands in for a worker that waits, yet nested work completes."""
    printed = output(
        """
        def nested(n):
            return n and 1 + fjpool.submit(nested, n - 1).result()
        print(fjpool.submit(nested, 50).result(WAIT), fjpool.common_pool().pool_size)
        """,
        env=ONE,
    )
    assert printed == "50 1\n"


# --- one pool for everybody ----------------------------------------------------------------------


def test_common_pool_is_one_object_for_all_threads():
    """Threads that race for its first use get the same pool, and it stays."""
    printed = output(
        """
        together, pools = threading.Barrier(8), []
        def first():
            reach(together)
            pools.append(fjpool.common_pool())
        threads = [threading.Thread(target=first) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT)
        print(len(pools), len(set(map(id, [*pools, fjpool.common_pool()]))))
        """
    )
    assert printed == "8 1\n"


def test_common_pool_is_not_made_by_importing_or_by_private_pools():
    """Whoever uses pools of their own is not bothered with its settings either."""
    printed = output(
        """
        with fjpool.ForkJoinPool(1) as pool, fjpool.use(pool):
            list(fjpool.map(abs, [1])), fjpool.parallel_for(lambda lo, hi: None, 3)
            fjpool.task(abs).fork(1).join(), fjpool.submit(abs, 1).result(WAIT)
        try:
            fjpool.common_pool()
        except RuntimeWarning as warning:
            print("made now:", warning)
        """,
        env={"FJPOOL_COMMON_PARALLELISM": "abc"},
        options=("-W", "error"),
    )
    assert printed.startswith("made now: FJPOOL_COMMON_PARALLELISM='abc' is ignored")


def test_common_pool_cannot_be_shut_down():
    """shutdown in all its forms, close, with: they return at once, and it takes work as before."""
    printed = output(
        """
        pool = fjpool.common_pool()
        body = Held()
        future = pool.submit(body)
        reach(body.started)
        pool.shutdown(), pool.shutdown(wait=False, cancel_futures=True), pool.close()
        print(pool.shutdown_now(), pool.is_shutdown, pool.is_terminated)
        queued = pool.submit(pow, 2, 3)
        with pool as same:
            print(same is pool)
        try:
            with pool:
                raise KeyboardInterrupt
        except KeyboardInterrupt:
            pass
        print(queued.cancelled(), future.done())
        body.release.set()
        print(queued.result(WAIT), fjpool.submit(pow, 2, 4).result(WAIT), repr(pool).split()[1])
        """
    )
    assert printed == "None False False\nTrue\nFalse False\n8 16 [Running,\n"


def test_common_pool_await_termination_waits_for_quiet_and_says_no():
    """It returns False when everything is done, and when time is up; it never ends."""
    printed = output(
        """
        pool = fjpool.common_pool()
        body = Held()
        future = pool.submit(body)
        reach(body.started)
        print(pool.await_termination(0.01), future.done())
        body.release.set()
        print(pool.await_termination(WAIT), future.done())
        """
    )
    assert printed == "False False\nFalse True\n"


def test_common_pool_workers_are_daemons_with_names_of_their_own():
    """ForkJoinPool.commonPool-worker-1, as in Java."""
    printed = output(
        """
        worker = fjpool.submit(threading.current_thread).result(WAIT)
        pool = fjpool.submit(fjpool.current_pool).result(WAIT)
        print(worker.name, worker.daemon, pool is fjpool.common_pool())
        """
    )
    assert printed == "ForkJoinPool.commonPool-worker-1 True True\n"


def test_common_pool_is_where_forks_from_outside_go():
    """And an outsider may take back what it forked: on a busy pool the joiner runs it."""
    printed = output(
        """
        @fjpool.task
        def where():
            return thread_name()
        with held(fjpool.common_pool()):
            print(where.fork().join())
        """,
        env=ONE,
    )
    assert printed == "MainThread\n"


# --- the caller works too ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        "fjpool.parallel_reduce(lambda lo, hi: [thread_name()], 8, chunksize=1)",
        "fjpool.parallel_for(lambda lo, hi: names.append(thread_name()), 8, chunksize=1) or names",
        "fjpool.reduce(lambda a, b: names.append(thread_name()) or 0, range(16), chunksize=2) or names[:8]",
    ],
    ids=["parallel_reduce", "parallel_for", "reduce"],
)
def test_caller_does_all_the_work_while_the_workers_are_busy(call):
    """On the common pool a loop needs no worker: the calling thread runs its own call's leaves."""
    printed = output(
        f"""
        names = []
        with held(fjpool.common_pool()):
            print({call})
        print(fjpool.common_pool().leaf_counts())
        """,
        env=ONE,
    )
    assert printed == f"{['MainThread'] * 8}\n{{'caller': 8}}\n"


def test_caller_shares_the_work_with_the_workers():
    """Two leaves that wait for each other: one runs in the caller, one on the only worker."""
    printed = output(
        """
        together = threading.Barrier(2)
        def leaf(lo, hi):
            reach(together)
            return [thread_name()]
        print(sorted(fjpool.parallel_reduce(leaf, 2, chunksize=1)))
        print(sorted(fjpool.common_pool().leaf_counts().items()))
        """,
        env=ONE,
    )
    worker = "ForkJoinPool.commonPool-worker-1"
    assert printed == f"{[worker, 'MainThread']}\n{[(worker, 1), ('caller', 1)]}\n"


def test_caller_may_be_any_thread():
    """Three threads at once, each with a loop of its own, get their own results."""
    printed = output(
        """
        together, sums = threading.Barrier(3), []
        def loop(n):
            reach(together)
            sums.append((n, fjpool.parallel_reduce(lambda lo, hi: sum(range(lo, hi)), n, chunksize=7)))
        threads = [threading.Thread(target=loop, args=(n,)) for n in (1_000, 2_000, 3_000)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT)
        print(sorted(sums) == [(n, n * (n - 1) // 2) for n in (1_000, 2_000, 3_000)])
        """,
        env=TWO,
    )
    assert printed == "True\n"


def test_caller_does_not_work_in_map_nor_on_private_pools():
    """There the number of workers means what it says: nothing runs in the calling thread."""
    printed = output(
        """
        names = lambda *_: {thread_name()}
        private = fjpool.ForkJoinPool(2)
        seen = set().union(
            *fjpool.map(names, range(50), chunksize=1),
            *fjpool.starmap(names, [()] * 50, chunksize=1),
            *private.map(names, range(50), chunksize=1),
            private.parallel_reduce(names, 50, chunksize=1, combine=set.union),
            fjpool.parallel_reduce(names, 50, chunksize=1, combine=set.union, pool=private),
            {fjpool.submit(thread_name).result(WAIT), fjpool.invoke(thread_name)},
        )
        print("MainThread" in seen, "caller" in private.leaf_counts(), fjpool.common_pool().leaf_counts())
        """,
        env=TWO,
    )
    assert printed == "False False {}\n"


def test_caller_inside_a_worker_is_that_worker():
    """A loop inside a task of the common pool runs as that worker, not as another caller."""
    printed = output(
        """
        loop = lambda: fjpool.parallel_reduce(lambda lo, hi: [thread_name()], 4, chunksize=1)
        print(fjpool.submit(loop).result(WAIT), fjpool.common_pool().leaf_counts())
        """,
        env=ONE,
    )
    worker = "ForkJoinPool.commonPool-worker-1"
    assert printed == f"{[worker] * 4} {{'{worker}': 4}}\n"


def test_caller_sees_the_common_pool_as_its_own_in_a_leaf():
    """current_pool() in a leaf is the common pool, in the caller too, and None again afterwards."""
    printed = output(
        """
        pools = fjpool.parallel_reduce(lambda lo, hi: [fjpool.current_pool()], 4, chunksize=1)
        print([pool is fjpool.common_pool() for pool in pools], fjpool.current_pool())
        """,
        env=ONE,
    )
    assert printed == "[True, True, True, True] None\n"


def test_caller_is_not_counted_among_the_workers():
    """While it computes leaves the numbers are those of the pool's own threads."""
    printed = output(
        """
        pool = fjpool.common_pool()
        def numbers():
            return pool.pool_size, pool.active_count, pool.running_count
        print(fjpool.parallel_reduce(lambda lo, hi: [numbers()], 1), numbers())
        with held(pool):
            print(fjpool.parallel_reduce(lambda lo, hi: [numbers()], 1), numbers())
        """,
        env=ONE,
    )
    assert printed == "[(0, 0, 0)] (0, 0, 0)\n[(1, 1, 1)] (1, 1, 1)\n"


def test_caller_may_nest_loops_forks_and_other_pools():
    """Whatever a leaf in the caller does completes: a loop, a fork, a submission, another pool."""
    printed = output(
        """
        private = fjpool.ForkJoinPool(1)
        def leaf(lo, hi):
            inner = fjpool.parallel_reduce(lambda lo, hi: hi - lo, 10, chunksize=1)
            forked = fjpool.task(pow).fork(2, 3).join()
            submitted = fjpool.submit(pow, 2, 4).result()
            return [inner, forked, submitted, private.invoke(pow, 2, 5), *fjpool.map(abs, [-6])]
        with held(fjpool.common_pool()):
            print(fjpool.parallel_reduce(leaf, 2, chunksize=1))
        """,
        env=ONE,
    )
    assert printed == f"{[10, 8, 16, 32, 6] * 2}\n"


def test_caller_hands_on_what_its_leaves_fork_and_do_not_join():
    """Such tasks run on a worker when the loop has ended."""
    printed = output(
        """
        ran = threading.Semaphore(0)
        fjpool.parallel_for(lambda lo, hi: fjpool.task(ran.release).fork() and None, 20, chunksize=1)
        for _ in range(20):
            reach(ran)
        print("all")
        """,
        env=ONE,
    )
    assert printed == "all\n"


@pytest.mark.parametrize("where", ["its own leaf", "a worker's leaf"])
def test_caller_is_interrupted_by_ctrl_c(where):
    """One Ctrl-C ends the loop: the leaves that have not started are skipped, and the pool works on."""
    printed = output(
        f"""
        import signal
        ran = []
        def leaf(lo, hi):
            ran.append(lo)
            mine = threading.current_thread() is threading.main_thread()
            if mine == ({where!r} == "its own leaf"):
                os.kill(os.getpid(), signal.SIGINT)
            pause.wait(0.001)
        pause = threading.Event()
        try:
            fjpool.parallel_for(leaf, 100_000, chunksize=1)
        except KeyboardInterrupt:
            print("interrupted", len(ran) < 50_000)
        print(fjpool.parallel_reduce(lambda lo, hi: hi - lo, 10, chunksize=1))
        """,
        env=ONE,
    )
    assert printed == "interrupted True\n10\n"


# --- nobody but the caller -----------------------------------------------------------------------


def test_parallelism_zero_runs_nothing_until_somebody_waits():
    """A submission stays queued, no thread comes, and result() runs it in the waiter."""
    printed = output(
        """
        future = fjpool.submit(thread_name)
        pool = fjpool.common_pool()
        print(future.done(), pool.pool_size, pool.queued_submission_count, pool.parallelism)
        print(future.result(WAIT))
        """,
        env=NONE,
    )
    assert printed == "False 0 1 1\nMainThread\n"


@pytest.mark.parametrize(
    "call, expected",
    [
        ("fjpool.invoke(pow, 2, 3)", "8"),
        ("list(fjpool.map(abs, [-1, -2, 3], timeout=WAIT))", "[1, 2, 3]"),
        ("fjpool.submit(boom).exception(WAIT).__class__.__name__", "Boom"),
        ("fjpool.submit(fjpool.submit(pow, 2, 3).result).result(WAIT)", "8"),
        ("[fjpool.submit(pow, 2, i) for i in range(4)][2].result(WAIT)", "4"),
        ("fjpool.task(pow).fork(2, 3).join()", "8"),
        ("fjpool.parallel_reduce(lambda lo, hi: hi - lo, 100, chunksize=3)", "100"),
        ("fjpool.reduce(max, [1, 3, 2])", "3"),
    ],
)
def test_parallelism_zero_computes_in_the_caller(call, expected):
    """Everything that waits for its own work does that work."""
    printed = output(f"print({call})\nprint(fjpool.common_pool().pool_size)", env=NONE)
    assert printed == f"{expected}\n0\n"


def test_parallelism_zero_leaves_private_pools_alone():
    """A pool of one's own has its workers."""
    printed = output(
        "with fjpool.ForkJoinPool(1, 'own') as pool:\n    print(pool.submit(thread_name).result(WAIT))",
        env=NONE,
    )
    assert printed == "own_0\n"
