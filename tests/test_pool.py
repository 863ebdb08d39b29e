"""Building a pool, its threads, its numbers, and its end."""

import concurrent.futures
import copy
import itertools
import os
import pickle
import sys
import textwrap
import threading

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

import fjpool
from support import (
    ORDERS,
    WAIT,
    Boom,
    Held,
    boom,
    eventually,
    held,
    output,
    reach,
    thread_count,
    thread_name,
)

QUIET_FORK = ("-W", "ignore::DeprecationWarning")  # 3.12 warns of every fork beside threads


def crowd(pool, n):
    """Makes n workers of the pool run a task at once; they are idle afterwards."""
    with held(pool, n):
        assert pool.pool_size >= n  # more while others are about to leave


# --- building ------------------------------------------------------------------------------------

REFUSED = [
    ({"parallelism": 0}, ValueError, "parallelism must be .* 32767, not 0"),
    ({"parallelism": -1}, ValueError, "parallelism must be .* 32767, not -1"),
    ({"parallelism": 32768}, ValueError, "parallelism must be .* 32767, not 32768"),
    ({"parallelism": 10**30}, ValueError, "parallelism must be .* 32767, not 1000"),
    ({"parallelism": 1.5}, TypeError, "parallelism must be an integer, not float"),
    ({"parallelism": "2"}, TypeError, "parallelism must be an integer, not str"),
    ({"max_workers": 0}, ValueError, "max_workers must be .* 32767, not 0"),
    ({"max_workers": 32768}, ValueError, "max_workers must be .* 32767, not 32768"),
    ({"max_workers": "2"}, TypeError, "max_workers must be an integer, not str"),
    (
        {"parallelism": 4, "max_workers": 3},
        ValueError,
        r"max_workers must be at least parallelism \(4\), not 3",
    ),
    ({"thread_name_prefix": None}, TypeError, "thread_name_prefix must be a str, not NoneType"),
    ({"thread_name_prefix": b"x"}, TypeError, "thread_name_prefix must be a str, not bytes"),
    ({"thread_name_prefix": "a\0b"}, ValueError, "thread_name_prefix"),
    ({"thread_name_prefix": "\ud800"}, ValueError, "thread_name_prefix"),
    ({"initializer": 3}, TypeError, "initializer must be a callable or None, not int"),
    ({"initargs": 5}, TypeError, "initargs must be a tuple, not int"),
    ({"initargs": None}, TypeError, "initargs must be a tuple, not NoneType"),
    ({"finalizer": "f"}, TypeError, "finalizer must be a callable or None, not str"),
    ({"order": "random"}, ValueError, 'order must be "lifo" or "fifo", not \'random\''),
    ({"order": None}, ValueError, 'order must be "lifo" or "fifo", not None'),
    ({"keep_alive": 0}, ValueError, "keep_alive must be positive seconds or None, not 0"),
    ({"keep_alive": -1.5}, ValueError, "keep_alive must be positive seconds or None, not -1.5"),
    ({"keep_alive": float("nan")}, ValueError, "keep_alive must be positive seconds or None, not nan"),
    ({"keep_alive": "60"}, TypeError, "keep_alive must be seconds or None, not str"),
    ({"keep_alive": True}, TypeError, "keep_alive must be seconds or None, not bool"),
    ({"keep_alive": 10**400}, (ValueError, OverflowError), "keep_alive"),
    ({"stack_size": 65535}, ValueError, "stack_size must be .*, not 65535"),
    ({"stack_size": 0}, ValueError, "stack_size must be .*, not 0"),
    ({"stack_size": 1e6}, TypeError, "stack_size must be an integer, not float"),
    ({"queue_capacity": 1}, ValueError, "queue_capacity must be .* 67108864, not 1"),
    ({"queue_capacity": 2**26 + 1}, ValueError, "queue_capacity must be .* 67108864, not 67108865"),
    ({"queue_capacity": None}, TypeError, "queue_capacity must be an integer, not NoneType"),
    ({"blocking": "never"}, ValueError, 'blocking must be "auto" or "announced", not \'never\''),
    ({"max_unannounced": -1}, ValueError, "max_unannounced must be .* 32767, not -1"),
    ({"min_runnable": 1.0}, TypeError, "min_runnable must be an integer, not float"),
    ({"saturate": "panic"}, ValueError, 'saturate must be "wait", "raise" or a predicate'),
    ({"max_threads": 3}, TypeError, "max_threads"),
]


@pytest.mark.parametrize("arguments, error, message", REFUSED, ids=lambda value: str(value)[:40])
def test_constructor_refuses_a_bad_argument(arguments, error, message):
    """One error that names the argument and what was expected, before a thread exists."""
    before, ran = thread_count(), []
    with pytest.raises(error, match=message):
        fjpool.ForkJoinPool(**{"initializer": ran.append, "initargs": (1,), **arguments})
    assert thread_count() <= before and ran == []  # fewer where an earlier pool is still going


def test_constructor_takes_its_numbers_by_keyword_after_the_fourth():
    """The first four are ThreadPoolExecutor's and may come by position; a fifth may not."""
    with pytest.raises(TypeError, match="positional arguments"):
        fjpool.ForkJoinPool(1, "", None, (), 1)


@pytest.mark.parametrize(
    "arguments",
    [
        {"parallelism": 32767},
        {"max_workers": 32767},
        {"keep_alive": 1e-9},
        {"keep_alive": None},
        {"keep_alive": float("inf")},
        {"keep_alive": 1e9},
        {"stack_size": 65536},
        {"stack_size": 2**24},
        {"queue_capacity": 2},
        {"queue_capacity": 2**26},
        {"min_runnable": 0},
        {"max_unannounced": 0},
        {"max_unannounced": 32767},
        {"thread_name_prefix": "x"},
        {"initializer": None, "initargs": [1], "finalizer": None},
        {"parallelism": True},
    ],
    ids=str,
)
def test_constructor_takes_the_ends_of_every_range(make_pool, arguments):
    """The least and the greatest value allowed make a pool that works."""
    pool = make_pool(**arguments)
    assert pool.submit(pow, 2, 3).result(WAIT) == 8


def test_constructor_takes_numpy_integers(make_pool):
    """Whatever can be used as an index is an integer."""
    numpy = pytest.importorskip("numpy")
    pool = make_pool(numpy.int64(3), max_workers=numpy.uint8(5), queue_capacity=numpy.int32(64))
    assert (pool.parallelism, pool.max_workers) == (3, 5)
    assert pool.submit(pow, 2, 3).result(WAIT) == 8


def test_pool_is_a_thread_pool_executor(pool1):
    """By isinstance and issubclass, so that asyncio, dask and joblib take it."""
    assert isinstance(pool1, concurrent.futures.ThreadPoolExecutor)
    assert isinstance(pool1, concurrent.futures.Executor)
    assert issubclass(fjpool.ForkJoinPool, concurrent.futures.ThreadPoolExecutor)


def test_size_defaults_to_the_usable_cpus():
    """All that the process may use, not one less; the limit is 256 more."""
    code = """
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:{}])
        pool = fjpool.ForkJoinPool()
        print(pool.parallelism, pool.max_workers, pool._max_workers)
        """
    for cpus in range(1, min(len(os.sched_getaffinity(0)), 3) + 1):
        # A tighter quota than the affinity would decide otherwise.
        expected = min(cpus, fjpool.ForkJoinPool().parallelism)
        assert output(code.format(cpus)) == f"{expected} {expected + 256} {expected}\n"


@pytest.mark.parametrize(
    "arguments, parallelism, max_workers",
    [
        ({"parallelism": 3}, 3, 259),
        ({"max_workers": 20}, 20, 20),
        ({"parallelism": 3, "max_workers": 3}, 3, 3),
        ({"parallelism": 1, "max_workers": 9}, 1, 9),
        ({"parallelism": 32_700}, 32_700, 32_767),
    ],
    ids=str,
)
def test_size_of_each_follows_from_the_other(make_pool, arguments, parallelism, max_workers):
    """max_workers given alone is the parallelism too; _max_workers is the parallelism."""
    pool = make_pool(**arguments)
    sizes = pool.parallelism, pool.max_workers, pool._max_workers
    assert sizes == (parallelism, max_workers, parallelism)


def test_size_never_exceeds_max_workers(make_pool):
    """Twenty connections stay twenty, also while workers wait for tasks and more work is queued."""
    pool = make_pool(max_workers=4, blocking="auto")
    threads, sizes = set(), set()

    def nested(n):
        threads.add(threading.get_ident())
        sizes.add(pool.pool_size)
        return n and nested(n - 1) + sum(pool.map(abs, [1, -1])) + pool.submit(nested, n - 1).result()

    assert list(pool.map(nested, [4] * 12, chunksize=1))
    assert len(threads) <= 4 and max(sizes) <= 4


@pytest.mark.parametrize("parallelism", [1, 2, 4])
def test_size_never_exceeds_max_workers_when_tasks_block(make_pool, parallelism):
    """Blocked unannounced, in fjpool and in managed_block: found and replaced, but not beyond the limit."""
    pool = make_pool(parallelism, max_workers=4, blocking="auto", saturate=lambda pool: True)
    inside, sizes, never = threading.Semaphore(4), set(), threading.Event()
    waits = [never.wait, fjpool.Event().wait, fjpool.managed_block()(never.wait), fjpool.sleep]

    def block(i):
        assert inside.acquire(blocking=False), "a fifth thread"
        waits[i % 4](0.03)
        sizes.add(pool.pool_size)
        inside.release()

    list(pool.map(block, range(40), chunksize=1))
    assert max(sizes) == 4  # all of them, and no more


def test_size_reaches_parallelism_when_there_is_work(make_pool):
    """As many bodies run at once as the pool was made for."""
    pool, together = make_pool(7), threading.Barrier(7)
    futures = [pool.submit(together.wait, WAIT) for _ in range(7)]
    assert sorted(future.result(WAIT) for future in futures) == list(range(7))
    assert pool.pool_size == 7


def test_building_starts_no_thread():
    """A fresh pool costs no thread, whatever is asked of it but work."""
    printed = output(
        """
        before = thread_count()
        pools = [fjpool.ForkJoinPool(8, blocking=b) for b in ("auto", "announced")] + [fjpool.common_pool()]
        for pool in pools:
            repr(pool), pool.leaf_counts(), pool.await_quiescence(0), pool.parallel_for(print, 0)
            assert list(pool.map(abs, [])) == []
        print(thread_count() - before)
        """
    )
    assert printed == "0\n"


def test_building_leaves_every_number_at_nought(make_pool):
    """A fresh pool is running and quiescent, with nothing queued, stolen or started."""
    pool = make_pool(3)
    assert (pool.pool_size, pool.active_count, pool.running_count) == (0, 0, 0)
    assert (pool.queued_task_count, pool.queued_submission_count, pool.steal_count) == (0, 0, 0)
    assert (pool.is_quiescent, pool.is_shutdown, pool.is_terminated) == (True, False, False)
    assert pool.leaf_counts() == {}


def test_building_twice_is_an_error(pool1):
    """__init__ on a pool that exists raises and leaves it as it was."""
    with pytest.raises(RuntimeError, match="initialized already"):
        pool1.__init__(2)
    assert pool1.submit(pow, 2, 3).result(WAIT) == 8


def test_building_without_super_init_says_so():
    """A subclass that forgets super().__init__() gets an error with the remedy, not a crash."""

    class Forgetful(fjpool.ForkJoinPool):
        def __init__(self):
            pass

    pool = Forgetful()
    for use in (
        lambda: pool.submit(abs, 1),
        lambda: pool.map(abs, [1]),
        lambda: pool.parallel_for(print, 3),
        lambda: pool.parallelism,
        lambda: pool.shutdown(),
        lambda: pool.leaf_counts(),
    ):
        with pytest.raises(RuntimeError, match=r"call super\(\).__init__\(\)"):
            use()


def test_pool_can_be_subclassed(make_pool):
    """A subclass with methods and attributes of its own is a pool; current_pool is that object."""

    class Named(fjpool.ForkJoinPool):
        def __init__(self, name):
            super().__init__(1)
            self.name = name

    with Named("mine") as pool:
        assert pool.invoke(fjpool.current_pool) is pool
        assert repr(pool).startswith("<Named [Running, ")


def test_pool_cannot_be_copied_or_pickled(pool1):
    """Threads do not travel: a TypeError, not a broken pool."""
    for way in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="ForkJoinPool"):
            way(pool1)


# --- names ---------------------------------------------------------------------------------------


def test_names_with_a_prefix_count_from_nought(make_pool):
    """prefix_0, prefix_1, ... as ThreadPoolExecutor's."""
    pool, together = make_pool(3, "mine"), threading.Barrier(3)

    def body(_):
        reach(together)
        return thread_name()

    assert sorted(pool.map(body, range(3), chunksize=1)) == ["mine_0", "mine_1", "mine_2"]


def test_names_without_a_prefix_count_pools_and_workers_from_one():
    """ForkJoinPool-1-worker-1 is the first; the common pool and pools with a prefix count for nothing."""
    printed = output(
        """
        fjpool.common_pool()
        pools = [fjpool.ForkJoinPool(1), fjpool.ForkJoinPool(1, "named"), fjpool.ForkJoinPool(1)]
        for pool in pools:
            print(pool.submit(thread_name).result(WAIT))
        print(fjpool.submit(thread_name).result(WAIT))
        """
    )
    assert printed.split() == [
        "ForkJoinPool-1-worker-1",
        "named_0",
        "ForkJoinPool-2-worker-1",
        "ForkJoinPool.commonPool-worker-1",
    ]


def test_names_are_not_used_again(make_pool):
    """A worker that replaces one which left has a new number."""
    pool = make_pool(1, "w", keep_alive=0.02)
    names = []
    for _ in range(4):
        names.append(pool.submit(thread_name).result(WAIT))
        eventually(lambda: pool.pool_size == 0)
    assert names == ["w_0", "w_1", "w_2", "w_3"]


@pytest.mark.parametrize("prefix", ["p" * 200, "ä" * 60, "x" * 94 + "ä"], ids=["long", "wide", "cut"])
def test_names_keep_a_long_prefix(make_pool, prefix):
    """threading shows the whole prefix and the number, however long and in whatever script."""
    pool = make_pool(1, prefix)
    assert pool.submit(thread_name).result(WAIT) == f"{prefix}_0"


@pytest.mark.parametrize("prefix", ["short", "a-prefix-that-is-long", ""])
def test_names_reach_the_system(make_pool, prefix):
    """What ps and top show is the name, or its end where the system has no room for all of it."""
    pool = make_pool(1, prefix)

    def names():
        with open(f"/proc/self/task/{threading.get_native_id()}/comm", encoding="utf-8") as file:
            return thread_name(), file.read().rstrip("\n")

    name, system = pool.submit(names).result(WAIT)
    assert system == name[-15:]


def test_workers_are_daemons_that_threading_knows(pool1):
    """While it lives a worker is among threading's threads, as a daemon; afterwards it is not."""

    def look():
        me = threading.current_thread()
        return me, me.daemon, me in threading.enumerate()

    worker, daemon, known = pool1.submit(look).result(WAIT)
    assert daemon and known
    pool1.shutdown()
    assert worker not in threading.enumerate()


def test_workers_follow_the_profile_and_trace_functions_of_threading(make_pool):
    """threading.setprofile and settrace reach a worker that starts afterwards."""
    seen = {"profile": set(), "trace": set()}

    def watch(kind):
        return lambda frame, event, argument: seen[kind].add(frame.f_code.co_name)

    def a_task_that_is_seen():
        return len([])

    profile, trace = threading._profile_hook, threading._trace_hook
    threading.setprofile(watch("profile"))
    threading.settrace(watch("trace"))
    try:
        make_pool(1).submit(a_task_that_is_seen).result(WAIT)
    finally:
        threading.setprofile(profile)
        threading.settrace(trace)
    assert "a_task_that_is_seen" in seen["profile"] & seen["trace"]


# --- coming and going ----------------------------------------------------------------------------


def test_keep_alive_lets_idle_workers_leave_and_new_ones_come(make_pool):
    """All leave once the pool has been idle for so long; the next work starts others, nothing is lost."""
    pool = make_pool(3, keep_alive=0.02)
    for _ in range(3):
        crowd(pool, 3)
        eventually(lambda: pool.pool_size == 0)
        assert list(pool.map(abs, range(-50, 0), chunksize=1)) == list(range(50, 0, -1))


def test_keep_alive_none_keeps_them(make_pool):
    """Workers of such a pool outlast those of another that leave after a while."""
    kept, left = make_pool(2, keep_alive=None), make_pool(2, keep_alive=0.02)
    crowd(kept, 2)
    for _ in range(3):
        crowd(left, 2)
        eventually(lambda: left.pool_size == 0)
    assert kept.pool_size == 2


def test_keep_alive_races_with_submissions_and_loses_nothing(make_pool):
    """Work that comes just as the workers leave is done all the same."""
    pool = make_pool(2, keep_alive=0.02)
    for i in range(20):
        crowd(pool, 2)
        eventually(lambda: pool.pool_size < 2, pause=0)
        assert pool.submit(pow, 2, i).result(WAIT) == 2**i


def test_initializer_runs_once_in_each_worker_before_its_tasks(make_pool):
    """With initargs, in the worker itself, so that tasks find what it left in thread-locals."""
    local, calls = threading.local(), []

    def initialize(*arguments):
        calls.append((thread_name(), arguments))
        local.value = arguments

    pool = make_pool(3, "w", initialize, (1, "two"))
    assert calls == []
    together = threading.Barrier(3)

    def body(_):
        reach(together)
        return local.value

    assert list(pool.map(body, range(3), chunksize=1)) == [(1, "two")] * 3
    pool.submit(pow, 2, 3).result(WAIT)
    assert sorted(calls) == [(f"w_{i}", (1, "two")) for i in range(3)]


def test_initializer_may_use_its_own_pool(make_pool):
    """Submitting and waiting there does not hang, even with one worker."""
    got = []

    def initialize():
        got.append(pool.submit(pow, 2, 4).result(WAIT))

    pool = make_pool(1, initializer=initialize)
    assert pool.submit(pow, 2, 3).result(WAIT) == 8
    assert got and set(got) == {16}


@pytest.mark.parametrize("kind", [Boom, SystemExit, KeyboardInterrupt])
def test_initializer_that_fails_breaks_the_pool(make_pool, caplog, kind):
    """Waiting tasks and later submissions raise BrokenThreadPool, the failure is logged, nothing hangs."""
    go = threading.Event()

    def initialize():
        reach(go)
        raise kind("no connection")

    pool = make_pool(2, initializer=initialize)
    futures = [pool.submit(boom) for _ in range(5)]
    results = pool.map(boom, range(5))
    go.set()
    for future in futures:
        assert isinstance(future.exception(WAIT), concurrent.futures.thread.BrokenThreadPool)
    with pytest.raises(fjpool.BrokenThreadPool, match="initializer failed"):
        list(results)
    for use in (
        lambda: pool.submit(abs, 1),
        lambda: list(pool.map(abs, [1])),
        lambda: pool.invoke(abs, 1),
        lambda: pool.invoke(fjpool.task(abs)),
    ):
        with pytest.raises(fjpool.BrokenThreadPool, match="initializer failed"):
            use()
    pool.shutdown()
    assert pool.is_terminated
    assert "Exception in initializer" in caplog.text and "no connection" in caplog.text


def test_initializer_that_fails_breaks_parallel_loops_as_well(make_pool, caplog):
    """parallel_for, parallel_reduce and reduce raise the same BrokenThreadPool as submit."""
    pool = make_pool(1, initializer=boom)
    for use in (
        lambda: pool.parallel_reduce(lambda lo, hi: hi - lo, 10, chunksize=1),
        lambda: pool.parallel_for(lambda lo, hi: None, 10),
        lambda: pool.reduce(max, [1, 2]),
    ):
        with pytest.raises(fjpool.BrokenThreadPool):
            use()


def test_initializer_that_fails_in_a_later_worker_lets_running_tasks_end(make_pool, caplog):
    """Who was at work finishes with its result; what was queued is broken."""
    first, go = iter([True]), threading.Event()

    def initialize():
        if not next(first, False):
            reach(go)
            raise Boom

    pool = make_pool(2, initializer=initialize)
    with held(pool) as body:
        queued = [pool.submit(pow, 2, i) for i in range(3)]
        go.set()
        assert [type(future.exception(WAIT)) for future in queued] == [fjpool.BrokenThreadPool] * 3
    assert body.future.result(WAIT) is None
    pool.shutdown()


def test_finalizer_runs_once_in_each_worker_as_it_leaves(make_pool):
    """In the same threads as the initializer, after their last task, at shutdown and when idle."""
    opened, closed = [], []
    pool = make_pool(
        2,
        "w",
        initializer=lambda: opened.append(threading.get_ident()),
        finalizer=lambda: closed.append(threading.get_ident()),
        keep_alive=0.02,
    )
    crowd(pool, 2)
    eventually(lambda: pool.pool_size == 0)
    eventually(lambda: len(closed) == 2)
    assert sorted(opened) == sorted(closed)
    crowd(pool, 2)
    assert len(closed) == 2
    pool.shutdown()
    assert sorted(opened) == sorted(closed) and len(opened) == 4


def test_finalizer_comes_after_every_task(make_pool):
    """At shutdown queued work is done first."""
    events = []
    pool = make_pool(1, finalizer=lambda: events.append("closed"))
    with held(pool):
        for i in range(3):
            pool.submit(events.append, i)
    pool.shutdown()
    assert events == [0, 1, 2, "closed"]


def test_finalizer_that_fails_is_reported_and_the_pool_ends(make_pool, monkeypatch):
    """sys.unraisablehook is told; shutdown returns."""
    reported = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: reported.append(what.exc_type))
    pool = make_pool(2, finalizer=boom)
    crowd(pool, 2)
    pool.shutdown()
    assert pool.is_terminated and reported == [Boom, Boom]


def test_finalizer_closes_what_was_opened_also_in_a_broken_pool(make_pool, caplog):
    """It runs in every worker whose initializer succeeded, and in no other."""
    first, go, opened, closed = iter([True]), threading.Event(), [], []

    def initialize():
        if not next(first, False):
            reach(go)
            raise Boom
        opened.append(threading.get_ident())

    pool = make_pool(2, initializer=initialize, finalizer=lambda: closed.append(threading.get_ident()))
    with held(pool) as body:
        queued = pool.submit(pow, 2, 3)
        go.set()
        with pytest.raises(fjpool.BrokenThreadPool):
            queued.result(WAIT)
    body.future.result(WAIT)
    pool.shutdown()
    assert len(opened) == 1 and closed == opened


# --- numbers -------------------------------------------------------------------------------------


def test_steal_count_is_exact_on_one_worker(pool1):
    """Each outside task counts one; what the worker forks and runs itself counts nothing."""
    counts = []

    def settle():
        assert pool1.await_quiescence(WAIT)
        counts.append(pool1.steal_count)

    def fork_ten():
        for task in [fjpool.task(abs).fork(i) for i in range(10)]:
            task.join()

    pool1.invoke(abs, 1)
    settle()
    for i in range(5):
        pool1.submit(abs, i)
    settle()
    pool1.submit(fork_ten)
    settle()
    assert counts == [1, 6, 7]


def test_steal_count_counts_each_theft(make_pool):
    """Two workers: the root, and each forked task that the other one takes while the first is busy."""
    pool, stolen = make_pool(2), threading.Semaphore(0)

    def body():
        for _ in range(5):
            fjpool.task(stolen.release).fork()
        for _ in range(5):
            reach(stolen)

    pool.submit(body).result(WAIT)
    assert pool.await_quiescence(WAIT)
    assert pool.steal_count == 6


def test_steal_count_survives_the_workers(make_pool):
    """It is no less after they have left, after shutdown, and exact then."""
    pool = make_pool(2, keep_alive=0.02)
    for expected in (10, 20):
        for i in range(10):
            pool.submit(abs, i)
        eventually(lambda: pool.pool_size == 0)
        assert pool.steal_count == expected
    pool.shutdown()
    assert pool.steal_count == 20


def test_queue_counts_tell_tasks_from_submissions(single):
    """Six from outside behind a busy worker are submissions; six from inside are tasks."""

    def counts():
        return single.queued_task_count, single.queued_submission_count

    with held(single):
        for i in range(6):
            single.submit(abs, i)
        assert counts() == (0, 6)
    assert single.await_quiescence(WAIT)
    for queue in (lambda i: single.submit(abs, i), fjpool.task(abs).fork):

        def body(queue=queue):
            tasks = [queue(i) for i in range(6)]
            seen = counts()
            for task in tasks:
                task.join()
            return seen

        assert single.submit(body).result(WAIT) == (6, 0)
    assert single.await_quiescence(WAIT)
    assert counts() == (0, 0)


def test_worker_counts_follow_a_worker(pool1):
    """Busy: size 1, active 1, running 1. Waiting in a join: it neither runs nor is active."""
    never = fjpool.Future()

    def counts():
        return pool1.pool_size, pool1.active_count, pool1.running_count

    with held(pool1):
        assert counts() == (1, 1, 1)
    waiting = pool1.submit(never.join)
    eventually(lambda: counts() == (1, 0, 0))
    assert not pool1.is_quiescent
    never.complete(1)
    assert waiting.result(WAIT) == 1
    assert pool1.await_quiescence(WAIT)
    assert counts() == (1, 0, 0)
    pool1.shutdown()
    assert counts() == (0, 0, 0)


def test_worker_counts_leave_out_who_waits(make_pool):
    """Of four workers, three waiting in joins and one busy: one is active, one is running."""
    pool, never = make_pool(4), fjpool.Future()
    waiting = [pool.submit(never.join) for _ in range(3)]
    with held(pool):
        eventually(lambda: pool.active_count == 1)
        assert (pool.running_count, pool.pool_size) == (1, 4)
    never.complete(None)
    assert [future.result(WAIT) for future in waiting] == [None] * 3


def test_is_quiescent_is_false_while_anything_is_queued_or_runs(pool1):
    """Busy worker: no. Queue behind it: no. All done: yes."""
    with held(pool1):
        assert not pool1.is_quiescent
        pool1.submit(abs, 1)
        assert not pool1.is_quiescent
    assert pool1.await_quiescence(WAIT)
    assert pool1.is_quiescent


def test_leaf_counts_add_up_to_the_leaves(make_pool):
    """By the name of the worker that ran them; other tasks do not count."""
    pool, ran = make_pool(3, "w"), []
    for method in (pool.parallel_for, pool.parallel_reduce):
        method(lambda lo, hi: ran.append(thread_name()) or 0, 1000, chunksize=15)
        assert list(pool.map(abs, range(10)))
    counts = pool.leaf_counts()
    assert counts == {name: ran.count(name) for name in ran}


def test_repr_tells_the_state_and_the_numbers(pool1):
    """State, sizes and queues in one line, through the whole life."""
    assert repr(pool1) == (
        "<ForkJoinPool [Running, parallelism = 1, size = 0, active = 0, running = 0, "
        "steals = 0, tasks = 0, submissions = 0]>"
    )
    with held(pool1):
        for i in range(6):
            pool1.submit(abs, i)
        assert repr(pool1) == (
            "<ForkJoinPool [Running, parallelism = 1, size = 1, active = 1, running = 1, "
            "steals = 1, tasks = 0, submissions = 6]>"
        )
        pool1.shutdown(wait=False)
        assert repr(pool1).startswith("<ForkJoinPool [Shutting down, ")
    pool1.shutdown()
    assert repr(pool1) == (
        "<ForkJoinPool [Terminated, parallelism = 1, size = 0, active = 0, running = 0, "
        "steals = 7, tasks = 0, submissions = 0]>"
    )


def test_repr_tells_that_a_stopped_pool_is_terminating(pool1):
    """Between shutdown_now and the end of what runs."""
    with held(pool1):
        pool1.shutdown_now()
        assert repr(pool1).startswith("<ForkJoinPool [Terminating, ")


# --- threads that the system refuses --------------------------------------------------------------

LIMITED = """\
import resource
def limit(spare):
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + spare, resource.RLIM_INFINITY))
def unlimit():
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
"""


def test_refused_thread_is_an_error_for_whoever_submits():
    """Where no thread can be had at all the work is given back, and the pool works once one can."""
    printed = output(
        LIMITED
        + textwrap.dedent(
            """
            pool = fjpool.ForkJoinPool(2, stack_size=2**30)
            limit(2**29)
            for way in (
                lambda: pool.submit(boom),
                lambda: pool.map(boom, [1]),
                lambda: pool.invoke(boom),
                lambda: pool.parallel_for(boom, 3),
            ):
                try:
                    way()
                except RuntimeError as error:
                    print(error)
            print(pool.pool_size, pool.queued_submission_count, pool.is_quiescent)
            unlimit()
            print(list(pool.map(abs, [-1, -2], chunksize=1)))
            pool.shutdown()
            """
        )
    )
    assert printed == "can't start new thread\n" * 4 + "0 0 True\n[1, 2]\n"


def test_refused_thread_leaves_the_work_to_those_there_are():
    """A pool that cannot grow works on with fewer workers, and grows when it can again."""
    printed = output(
        LIMITED
        + textwrap.dedent(
            """
            pool = fjpool.ForkJoinPool(3, stack_size=2**28, blocking="announced")
            pool.submit(abs, 1).result(WAIT)
            limit(2**27)
            with held(pool):
                futures = [pool.submit(pow, 2, i) for i in range(5)]
                print(pool.pool_size)
            print([future.result(WAIT) for future in futures])
            def nested(n):
                return n and 1 + pool.submit(nested, n - 1).result()
            print(pool.submit(nested, 20).result(WAIT), pool.pool_size)
            unlimit()
            together = threading.Barrier(3)
            print(sorted(pool.map(lambda _: together.wait(WAIT), range(3), chunksize=1)))
            """
        )
    )
    assert printed == "1\n[1, 2, 4, 8, 16]\n20 1\n[0, 1, 2]\n"


# --- full queues ---------------------------------------------------------------------------------


def test_queue_capacity_exceeded_raises_and_loses_nothing(make_pool):
    """What was accepted runs, what was refused does not, and there is room again afterwards."""
    pool, ran = make_pool(1, queue_capacity=8), []
    with held(pool):
        for i in range(8):
            pool.submit(ran.append, i)
        for use in (
            lambda: pool.submit(ran.append, "refused"),
            lambda: pool.invoke(ran.append, "refused"),
            lambda: pool.map(ran.append, ["refused"]),
            lambda: pool.parallel_for(lambda lo, hi: ran.append("refused"), 1),
        ):
            with pytest.raises(fjpool.RejectedExecutionError, match="queue capacity exceeded"):
                use()
    assert pool.await_quiescence(WAIT)
    assert ran == list(range(8))
    assert pool.submit(pow, 2, 3).result(WAIT) == 8


@pytest.mark.parametrize("way", ["fork", "submit"])
def test_queue_capacity_binds_a_workers_own_queues(make_pool, way):
    """A worker that forks or submits too much gets the same error and can go on."""
    pool = make_pool(1, queue_capacity=4)

    def body():
        queue = fjpool.task(abs).fork if way == "fork" else lambda i: pool.submit(abs, i)
        tasks = []
        with pytest.raises(fjpool.RejectedExecutionError, match="queue capacity exceeded"):
            for i in range(100):
                tasks.append(queue(-i))
        return [task.join() for task in tasks], queue(-7).join()

    assert pool.submit(body).result(WAIT) == ([0, 1, 2, 3], 7)


def test_queue_capacity_refusal_leaves_a_task_that_can_be_submitted_again(make_pool):
    """A RecursiveTask that found no room is as new."""

    class Answer(fjpool.RecursiveTask):
        def compute(self):
            return 42

    pool, task = make_pool(1, queue_capacity=2), Answer()
    with held(pool):
        pool.submit(abs, 1), pool.submit(abs, 1)
        with pytest.raises(fjpool.RejectedExecutionError):
            pool.invoke(task)
        assert not task.done()
    assert pool.await_quiescence(WAIT)
    assert pool.invoke(task) == 42


def test_queue_capacity_refusal_takes_back_what_map_had_queued(make_pool):
    """A map that does not fit runs nothing at all."""
    pool, ran = make_pool(1, queue_capacity=4), []
    with held(pool):
        with pytest.raises(fjpool.RejectedExecutionError, match="queue capacity exceeded"):
            pool.map(ran.append, range(5), chunksize=1)
    assert pool.await_quiescence(WAIT)
    assert ran == []


def test_queue_capacity_does_not_stop_parallel_loops(make_pool):
    """Pieces that find no room are computed in place."""
    pool = make_pool(2, queue_capacity=2)
    assert pool.parallel_reduce(lambda lo, hi: hi - lo, 5_000, chunksize=1) == 5_000


# --- shutdown ------------------------------------------------------------------------------------


def test_shutdown_waits_for_everything(pool):
    """When it returns, all submitted work and what that forked is done and every worker is gone."""
    ran = []

    def body(i):
        fjpool.task(ran.append).fork(i)
        pool.submit(ran.append, i)

    with held(pool, pool.parallelism):
        for i in range(20):
            pool.submit(body, i)
        thread = threading.Thread(target=pool.shutdown)
        thread.start()
        eventually(lambda: pool.is_shutdown)
    thread.join(WAIT)
    assert not thread.is_alive()
    assert sorted(ran) == sorted([*range(20), *range(20)])
    assert (pool.is_terminated, pool.pool_size) == (True, 0)


def test_shutdown_without_waiting_returns_at_once(pool1):
    """Queued work still runs; the states follow one another."""

    def states():
        return pool1.is_shutdown, pool1.is_terminated, pool1._shutdown

    assert states() == (False, False, False)
    with held(pool1):
        queued = pool1.submit(pow, 2, 3)
        pool1.shutdown(wait=False)
        assert states() == (True, False, True)
        assert not queued.done()
    assert pool1.await_termination(WAIT)
    assert states() == (True, True, True)
    assert queued.result(0) == 8


def test_shutdown_of_an_unused_pool_ends_it_at_once(make_pool):
    """Without a thread there is nothing to wait for."""
    for end in (lambda p: p.shutdown(wait=False), lambda p: p.close(), lambda p: p.shutdown_now()):
        pool = make_pool(2)
        end(pool)
        assert pool.is_terminated and pool.await_termination(0)


def test_shutdown_can_cancel_what_has_not_started(pool):
    """cancel_futures=True: the running ones finish, the rest are cancelled and never run."""
    ran = []
    with held(pool, pool.parallelism) as body:
        queued = [pool.submit(ran.append, i) for i in range(10)]
        pool.shutdown(wait=False, cancel_futures=True)
        assert all(future.cancelled() for future in queued)
        assert not body.future.done()
    assert pool.await_termination(WAIT)
    assert body.future.result(0) is None and ran == []


def test_shutdown_that_cancels_leaves_workers_that_are_coming_their_first_calls(pool):
    """Submitted and cancelled in one breath: what a worker was woken for runs, the rest does not."""
    go = threading.Event()
    futures = [pool.submit(reach, go) for _ in range(50)]
    pool.shutdown(wait=False, cancel_futures=True)
    started = [future for future in futures if not future.cancelled()]
    go.set()
    assert 1 <= len(started) <= pool.parallelism
    assert [future.result(WAIT) for future in started] == [None] * len(started)


def test_shutdown_that_cancels_reaches_what_workers_have_queued(single):
    """Forked and submitted by a task that runs: cancelled as well, so its joins raise."""
    queued, go, tasks = threading.Event(), threading.Event(), []

    def body():
        tasks.extend([fjpool.task(abs).fork(1), single.submit(abs, 1)])
        queued.set()
        reach(go)
        return [type(task.exception()) if not task.cancelled() else "cancelled" for task in tasks]

    future = single.submit(body)
    reach(queued)
    single.shutdown(wait=False, cancel_futures=True)
    go.set()
    assert future.result(WAIT) == ["cancelled"] * 2
    assert single.await_termination(WAIT)


def test_shutdown_now_cancels_and_returns_at_once(pool1):
    """It waits for nothing, returns nothing, and what runs may finish."""
    with held(pool1) as body:
        queued = [pool1.submit(boom) for _ in range(3)]
        assert pool1.shutdown_now() is None
        assert [future.cancelled() for future in queued] == [True] * 3
        assert (pool1.is_shutdown, pool1.is_terminated) == (True, False)
        with pytest.raises(fjpool.CancelledError):
            queued[0].result()
    assert body.future.result(WAIT) is None
    assert pool1.await_termination(WAIT)


def test_shutdown_now_releases_who_waits(pool1):
    """A thread inside result() of a queued future, and one in map, get CancelledError."""
    seen, waiting = [], threading.Barrier(3)

    def wait(call):
        reach(waiting)
        try:
            call()
        except fjpool.CancelledError:
            seen.append(1)

    with held(pool1):
        future, results = pool1.submit(boom), pool1.map(boom, [1])
        threads = [
            threading.Thread(target=wait, args=(call,))
            for call in (future.result, lambda: list(results))
        ]
        for thread in threads:
            thread.start()
        reach(waiting)
        pool1.shutdown_now()
        for thread in threads:
            thread.join(WAIT)
    assert seen == [1, 1]


def test_shutdown_now_wakes_a_task_that_waits_in_fjpool(pool1):
    """A task asleep in fjpool.sleep ends with CancelledError instead of holding the pool up."""
    started = threading.Event()

    def body():
        started.set()
        fjpool.sleep(10 * WAIT)

    future = pool1.submit(body)
    reach(started)
    pool1.shutdown_now()
    assert pool1.await_termination(WAIT)
    assert isinstance(future.exception(0), fjpool.CancelledError) or future.cancelled()


@pytest.mark.parametrize("end", ["close", "with"])
def test_close_and_with_finish_what_was_submitted(make_pool, end):
    """Nothing is cancelled, and afterwards the pool has ended."""
    pool = make_pool(2)
    if end == "with":
        with pool as entered:
            assert entered is pool
            futures = [pool.submit(pow, 2, i) for i in range(50)]
    else:
        futures = [pool.submit(pow, 2, i) for i in range(50)]
        pool.close()
    assert pool.is_terminated
    assert [future.result(0) for future in futures] == [2**i for i in range(50)]


def test_with_passes_a_failure_on_and_finishes_all_the_same(make_pool):
    """An ordinary exception in the block is not swallowed; queued work is done."""
    pool = make_pool(1)
    with pytest.raises(Boom), pool:
        future = pool.submit(pow, 2, 3)
        raise Boom
    assert pool.is_terminated and future.result(0) == 8


def test_with_left_by_ctrl_c_cancels_what_is_pending():
    """KeyboardInterrupt in the block: what runs finishes, the rest is cancelled, one Ctrl-C is enough."""
    printed = output(
        """
        import signal
        body, ran = Held(), []
        try:
            with fjpool.ForkJoinPool(1, blocking="announced") as pool:
                running = pool.submit(body, "finished")
                pending = [pool.submit(ran.append, i) for i in range(5)]
                reach(body.started)
                pending[0].add_done_callback(lambda f: body.release.set())
                os.kill(os.getpid(), signal.SIGINT)
                threading.Event().wait(WAIT)
        except KeyboardInterrupt:
            print("interrupted", pool.is_terminated, running.result(0))
        print([future.cancelled() for future in pending], ran)
        """
    )
    assert printed == "interrupted True finished\n[True, True, True, True, True] []\n"


@pytest.mark.parametrize("wait", ["pool.close()", "pool.__exit__(None, None, None)"])
def test_close_interrupted_by_ctrl_c_cancels_and_still_waits(wait):
    """Ctrl-C while the end is awaited: pending work is cancelled, running work awaited, then it raises."""
    printed = output(
        f"""
        import signal
        body, ran = Held(), []
        pool = fjpool.ForkJoinPool(1, blocking="announced")
        running = pool.submit(body, "finished")
        pending = [pool.submit(ran.append, i) for i in range(5)]
        reach(body.started)
        pending[-1].add_done_callback(lambda f: body.release.set())
        def interrupt():
            eventually(lambda: pool.is_shutdown)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt).start()
        try:
            {wait}
        except KeyboardInterrupt:
            print("interrupted", pool.is_terminated, running.result(0))
        print([future.cancelled() for future in pending], ran)
        """
    )
    assert printed == "interrupted True finished\n[True, True, True, True, True] []\n"


def test_submit_after_shutdown_is_rejected_with_pythons_words(pool1):
    """Every way in raises RejectedExecutionError, a RuntimeError, with the standard message."""
    pool1.shutdown()

    class Answer(fjpool.RecursiveTask):
        def compute(self):
            return 42

    task = Answer()
    for use in (
        lambda: pool1.submit(abs, 1),
        lambda: pool1.invoke(abs, 1),
        lambda: pool1.invoke(task),
        lambda: pool1.map(abs, [1]),
        lambda: pool1.starmap(abs, [(1,)]),
        lambda: pool1.parallel_for(print, 3),
        lambda: pool1.parallel_reduce(print, 3),
        lambda: pool1.reduce(max, [1, 2]),
    ):
        with pytest.raises(fjpool.RejectedExecutionError) as caught:
            use()
        assert str(caught.value) == "cannot schedule new futures after shutdown"
        assert isinstance(caught.value, RuntimeError)
    with fjpool.use(pool1), pytest.raises(fjpool.RejectedExecutionError):
        task.fork()
    assert not task.done()


def test_submit_from_a_task_works_while_the_pool_drains(pool):
    """Until its work is done a pool that was shut down takes what its own tasks fork and submit."""
    go = threading.Event()

    def body():
        reach(go)
        forked, submitted = fjpool.task(pow).fork(2, 3), pool.submit(pow, 2, 4)
        loop = pool.parallel_reduce(lambda lo, hi: hi - lo, 10, chunksize=1)
        return forked.join(), submitted.result(), list(pool.map(abs, [-1])), loop

    future = pool.submit(body)
    pool.shutdown(wait=False)
    with pytest.raises(fjpool.RejectedExecutionError):
        pool.submit(abs, 1)
    go.set()
    assert future.result(WAIT) == (8, 16, [1], 10)
    assert pool.await_termination(WAIT)


def test_submit_from_a_task_that_nobody_awaits_runs_before_the_end(pool):
    """A chain of tasks, each submitting the next after shutdown, runs to its last link."""
    go, links = threading.Event(), []

    def link(n):
        reach(go)
        links.append(n)
        if n:
            (pool.submit if n % 2 else fjpool.task(link).fork)(*((link,) if n % 2 else ()), n - 1)

    pool.submit(link, 20)
    pool.shutdown(wait=False)
    go.set()
    assert pool.await_termination(WAIT)
    assert links == list(range(20, -1, -1))


def test_shutdown_ends_a_pool_whose_task_submits_itself_for_ever(pool1):
    """A chain that would keep it going for ever breaks after a million links, with an error."""
    links, errors = [0], []

    def link():
        links[0] += 1
        try:
            pool1.submit(link)
        except fjpool.RejectedExecutionError as error:
            errors.append(str(error))

    pool1.submit(link)
    pool1.shutdown()
    assert links[0] > 1_000_000
    assert errors == ["cannot schedule new futures after shutdown"]


def test_shutdown_can_be_called_again_and_by_many(pool2):
    """Eight threads at once, in all forms: everybody returns, and all work has one outcome."""
    start, futures, done = threading.Barrier(9), [], []

    def end(how):
        reach(start)
        how()
        done.append(how)

    ways = [
        pool2.shutdown,
        lambda: pool2.shutdown(wait=False),
        pool2.close,
        lambda: pool2.shutdown(cancel_futures=True),
    ]
    threads = [threading.Thread(target=end, args=(way,)) for way in ways * 2]
    for thread in threads:
        thread.start()
    futures = [pool2.submit(pow, 2, i) for i in range(200)]
    reach(start)
    for thread in threads:
        thread.join(WAIT)
    assert len(done) == 8 and pool2.is_terminated
    assert all(future.cancelled() or future.result(0) == 2**i for i, future in enumerate(futures))
    pool2.shutdown()
    pool2.shutdown_now()


def test_shutdown_races_with_submitters_and_accepts_or_refuses(make_pool):
    """A submission beside shutdown either raises or its future is done at the end."""
    for _ in range(20):
        pool, futures, start = make_pool(2), [], threading.Barrier(3)

        def submit(pool=pool, futures=futures, start=start):
            reach(start)
            with pytest.raises(fjpool.RejectedExecutionError):
                while True:
                    futures.append(pool.submit(abs, -1))

        threads = [threading.Thread(target=submit) for _ in range(2)]
        for thread in threads:
            thread.start()
        reach(start)
        pool.shutdown()
        for thread in threads:
            thread.join(WAIT)
        assert all(future.result(0) == 1 for future in futures)


@pytest.mark.parametrize(
    "wait",
    [
        lambda pool: pool.shutdown(),
        lambda pool: pool.shutdown(cancel_futures=True),
        lambda pool: pool.close(),
        lambda pool: pool.__exit__(None, None, None),
        lambda pool: pool.await_termination(),
        lambda pool: pool.await_termination(1),
    ],
    ids=["shutdown", "cancelling", "close", "with", "await", "await-timed"],
)
def test_awaiting_the_end_from_an_own_task_raises(pool1, wait):
    """It could never come: a RuntimeError at once, in the task; the pool can still be ended."""
    future = pool1.submit(wait, pool1)
    with pytest.raises(RuntimeError, match="a task cannot wait for the end of its own pool"):
        future.result(WAIT)
    pool1.shutdown()
    assert pool1.is_terminated


def test_awaiting_the_end_of_another_pool_from_a_task_works(make_pool):
    """Only one's own end is out of reach; the waiting worker is stood in for."""
    outer, inner = make_pool(1), make_pool(1)
    with held(inner) as body:
        waiting = outer.submit(inner.shutdown)
        eventually(lambda: inner.is_shutdown)
        assert outer.submit(pow, 2, 3).result(WAIT) == 8
        assert not waiting.done()
    assert waiting.result(WAIT) is None
    assert body.future.done() and inner.is_terminated


def test_shutdown_without_waiting_may_come_from_an_own_task(pool1):
    """The task finishes, and with it the pool."""
    future = pool1.submit(pool1.shutdown, wait=False)
    assert future.result(WAIT) is None
    assert pool1.await_termination(WAIT)


@pytest.mark.parametrize("timeout", [0, -1, 0.01])
def test_await_termination_says_whether_it_came(pool1, timeout):
    """False on time-out, at once where that is not positive; True ever after."""
    assert pool1.await_termination(timeout) is False
    with held(pool1):
        pool1.shutdown(wait=False)
        assert pool1.await_termination(timeout) is False
    assert pool1.await_termination(WAIT) is True
    assert pool1.await_termination(timeout) is True


@pytest.mark.parametrize("timeout", [0, -1, 0.01])
def test_await_quiescence_says_whether_it_came(pool1, timeout):
    """True for an unused pool, False while a task runs, True once all is done, and after the end."""
    assert pool1.await_quiescence(timeout) is True
    with held(pool1):
        queued = pool1.submit(pow, 2, 3)
        assert pool1.await_quiescence(timeout) is False
    assert pool1.await_quiescence() is True
    assert queued.done()
    pool1.shutdown()
    assert pool1.await_quiescence(timeout) is True


def test_await_quiescence_covers_what_tasks_fork(pool):
    """When it returns True the forked and submitted grandchildren have run too."""
    for _ in range(20):
        ran = []

        def body(n, ran=ran):
            ran.append(n)
            if n:
                fjpool.task(body).fork(n - 1)
                pool.submit(body, n - 1)

        pool.submit(body, 5)
        assert pool.await_quiescence(WAIT)
        assert len(ran) == 2**6 - 1


@pytest.mark.parametrize("method", ["await_termination", "await_quiescence"])
def test_await_refuses_what_is_no_time(pool1, method):
    """A TypeError or ValueError that says what was expected."""
    with pytest.raises(TypeError, match="timeout must be a number of seconds or None, not str"):
        getattr(pool1, method)("soon")
    with pytest.raises(ValueError, match="timeout must be a number of seconds, not nan"):
        getattr(pool1, method)(float("nan"))


# --- pools that are dropped ----------------------------------------------------------------------


@pytest.mark.parametrize("work", ["", "pool.submit(abs, 1)", "list(pool.map(abs, range(3)))"])
def test_dropped_pools_leave_no_thread(work):
    """A thousand pools made and dropped, unused or used, and the process is as it was."""
    printed = output(
        f"""
        before = thread_count()
        for _ in range(1_000):
            pool = fjpool.ForkJoinPool(2)
            {work}
        del pool
        eventually(lambda: thread_count() == before)
        print(threading.active_count())
        """
    )
    assert printed == "1\n"


def test_dropped_pool_finishes_its_work(make_pool):
    """Futures that are kept, and work that nobody keeps, is done without the pool object."""
    ran = threading.Semaphore(0)
    for parallelism in (1, 2):
        pool, body = fjpool.ForkJoinPool(parallelism, blocking="announced"), Held()
        pool.submit(body)
        reach(body.started)
        future = pool.submit(pow, 2, 3)
        for _ in range(10):
            pool.submit(ran.release)
        del pool
        body.release.set()
        assert future.result(WAIT) == 8
        for _ in range(10):
            reach(ran)


def test_dropped_pool_in_a_cycle_is_collected():
    """A pool that is referred to by its own initializer is the collector's to find."""
    printed = output(
        """
        import gc, weakref
        before = thread_count()
        def make():
            def initialize():
                pool
            pool = fjpool.ForkJoinPool(1, initializer=initialize)
            pool.submit(abs, 1).result()
            return weakref.ref(pool)
        ref = make()
        gc.collect()
        print(ref())
        eventually(lambda: thread_count() == before)
        """
    )
    assert printed == "None\n"


def test_dropped_in_its_own_task_is_no_crash():
    """The last reference to a pool may go in one of its workers."""
    printed = output(
        """
        before = thread_count()
        for _ in range(50):
            box = [fjpool.ForkJoinPool(1)]
            future = box[0].submit(box.clear)
            future.result(WAIT)
        eventually(lambda: thread_count() == before)
        print("survived")
        """
    )
    assert printed == "survived\n"


def test_current_pool_of_a_pool_that_is_being_freed_is_no_crash():
    """A task that asks for its pool while the last reference to it goes gets None, or the pool."""
    printed = output(
        """
        import weakref
        go, asked = threading.Event(), threading.Event()
        pool = fjpool.ForkJoinPool(1)
        def task():
            reach(go)
            fjpool.current_pool()
            asked.set()
        future = pool.submit(task)
        ref = weakref.ref(pool, lambda _: (go.set(), reach(asked)))
        del pool
        future.result(WAIT)
        print("survived")
        """
    )
    assert printed == "survived\n"


# --- nothing is lost -----------------------------------------------------------------------------


def bodies(shape):
    """How many bodies a tree of lists stands for."""
    return 1 + sum(map(bodies, shape))


SHAPES = st.recursive(st.just([]), lambda shapes: st.lists(shapes, max_size=3), max_leaves=8)


@given(
    parallelism=st.integers(1, 4),
    order=st.sampled_from(ORDERS),
    shapes=st.lists(SHAPES, max_size=12),
    ways=st.lists(st.sampled_from(["fork", "submit", "map"]), min_size=1, max_size=4),
    joins=st.booleans(),
    settled=st.integers(0, 12),
    end=st.sampled_from(["shutdown", "cancelling", "now", "close", "dropped"]),
)
@hypothesis_settings(max_examples=150)
def test_nothing_is_lost_at_shutdown(parallelism, order, shapes, ways, joins, settled, end):
    """However a pool ends, each future ends done or cancelled, and no body runs more than once."""
    pool = fjpool.ForkJoinPool(parallelism, order=order, blocking="announced")
    runs, futures, way = [], [], itertools.cycle(ways)

    def body(identity, shape):
        runs.append(identity)
        here, mine = fjpool.current_pool(), []
        for i, child in enumerate(shape):
            how, arguments = next(way), ((*identity, i), child)
            if how == "fork" or here is None:
                mine.append(fjpool.task(body).fork(*arguments))
            elif how == "submit":
                mine.append(here.submit(body, *arguments))
            else:
                results = here.map(body, *([argument] for argument in arguments))
                if joins:
                    list(results)
        futures.extend(mine)
        for future in mine if joins else ():
            future.quietly_join()

    for i, shape in enumerate(shapes):
        if i == settled:
            assert pool.await_quiescence(WAIT)
        futures.append(pool.submit(body, (i,), shape))
    expected = sum(map(bodies, shapes))
    if end == "shutdown":
        pool.shutdown()
    elif end == "cancelling":
        pool.shutdown(cancel_futures=True)
    elif end == "now":
        pool.shutdown_now()
        assert pool.await_termination(WAIT)
    elif end == "close":
        pool.close()
    else:
        del pool
        eventually(lambda: len(runs) == expected and all(future.done() for future in futures))
    assert all(future.done() for future in futures)
    assert len(runs) == len(set(runs)) <= expected
    if end in ("shutdown", "close", "dropped"):
        assert len(runs) == expected
        assert [future for future in futures if future.cancelled() or future.exception(0)] == []


# --- fork ----------------------------------------------------------------------------------------


def test_fork_while_other_threads_make_pools_leaves_the_child_free_to():
    """No lock that a thread of the parent may hold at that moment is in the child's way."""
    printed = output(
        """
        import signal
        stop = threading.Event()
        def make():
            while not stop.is_set():
                fjpool.ForkJoinPool(1).submit(abs, 1).result(WAIT)
        threads = [threading.Thread(target=make) for _ in range(3)]
        for thread in threads:
            thread.start()
        codes = set()
        for _ in range(10):
            child = os.fork()
            if child == 0:
                signal.alarm(10)
                ok = fjpool.ForkJoinPool(1).submit(pow, 2, 3).result(WAIT) == 8
                os._exit(0 if ok else 1)
            codes.add(os.waitpid(child, 0)[1])
        stop.set()
        for thread in threads:
            thread.join(WAIT)
        print(codes)
        """,
        options=QUIET_FORK,
    )
    assert printed == "{0}\n"
