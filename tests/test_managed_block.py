"""managed_block and ManagedBlocker: announced blocking, and who stands in for whom."""

import contextlib
import re
import threading
import warnings

import pytest

import fjpool
from support import WAIT, Boom, Held, boom, eventually, held, reach

LIMIT_TEXT = "Thread limit exceeded replacing blocked worker"


class Waiters:
    """A task body that waits, inside a managed block, until `gate` opens; counts who does."""

    def __init__(self):
        self.gate, self.lock = threading.Event(), threading.Lock()
        self.inside = self.rejected = 0

    def __call__(self):
        try:
            with fjpool.managed_block():
                with self.lock:
                    self.inside += 1
                reach(self.gate)
        except fjpool.RejectedExecutionError:
            with self.lock:
                self.rejected += 1
            raise

    @contextlib.contextmanager
    def of(self, pool, n):
        """Inside the block n tasks of the pool wait; yields their futures."""
        try:
            futures = [pool.submit(self) for _ in range(n)]
            eventually(lambda: self.inside == n, "not all of them came to wait")
            yield futures
        finally:
            self.gate.set()


class Busy:
    """A task body that counts how many of its kind run, and ran at most, at a time."""

    def __init__(self):
        self.lock, self.pause = threading.Lock(), threading.Event()
        self.now = self.most = self.ran = 0

    def __call__(self):
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
            self.ran += 1
        self.pause.wait(0.0005)
        with self.lock:
            self.now -= 1


def counts(pool):
    return pool.active_count, pool._blocked, pool._unannounced


def check_quiet(pool):
    """The counts of a pool that has nothing to do."""
    assert pool.await_quiescence(WAIT)
    assert counts(pool) == (0, 0, 0)


# --- the context manager -------------------------------------------------------------------------


def test_context_manager_gives_itself_and_swallows_nothing():
    """Outside of workers it does nothing at all, however it is nested and reused."""
    block = fjpool.managed_block()
    for _ in range(2):
        with block as entered, block, fjpool.managed_block():
            assert entered is block
    for error in (Boom(), KeyboardInterrupt(), SystemExit(3)):
        with pytest.raises(type(error)) as caught, block:
            raise error
        assert caught.value is error


def test_context_manager_takes_the_worker_out_of_the_count(single):
    """Inside it the worker counts as blocked and not as active; nested blocks count once."""

    def body():
        before = counts(single)
        with fjpool.managed_block():
            first = counts(single)
            with fjpool.managed_block():
                second = counts(single)
            third = counts(single)
        return before, first, second, third, counts(single)

    running, blocked = (1, 0, 0), (0, 1, 0)
    assert single.submit(body).result(WAIT) == (running, blocked, blocked, blocked, running)
    check_quiet(single)


def test_context_manager_may_be_entered_again_inside_itself(single):
    """One object, nested in itself, and used by several workers at a time."""
    block, waiters = fjpool.managed_block(), Waiters()

    def body():
        with block, block:
            waiters()
            return counts(single)[1]

    futures = [single.submit(body) for _ in range(3)]
    eventually(lambda: waiters.inside == 3)
    assert counts(single)[:2] == (0, 3)
    waiters.gate.set()
    assert [future.result(WAIT) >= 1 for future in futures] == [True] * 3
    check_quiet(single)


def test_context_manager_lets_what_is_queued_run(single):
    """With one worker, a task may wait for another one that is queued behind it."""
    other = threading.Event()

    def body():
        single.submit(other.set)
        with fjpool.managed_block():
            reach(other)
        return True

    assert single.submit(body).result(WAIT)


@pytest.mark.parametrize("error", [Boom, KeyboardInterrupt, SystemExit, fjpool.CancelledError])
def test_context_manager_left_by_an_exception_restores_the_counts(single, error):
    """Whatever is raised inside is raised outside, and the worker counts as active again."""
    seen = []

    def body():
        try:
            with fjpool.managed_block(), fjpool.managed_block():
                raise error("inside")
        finally:
            seen.append(counts(single))

    with pytest.raises(error, match="inside"):
        single.submit(body).result(WAIT)
    assert seen == [(1, 0, 0)]
    check_quiet(single)


def test_context_manager_in_a_foreign_thread_is_harmless(pool1):
    """A thread that a task started is no worker: nothing is counted there."""

    def body():
        seen = []

        def foreign():
            with fjpool.managed_block():
                seen.append(counts(pool1))

        thread = threading.Thread(target=foreign)
        thread.start()
        thread.join(WAIT)
        return seen

    assert pool1.submit(body).result(WAIT) == [(1, 0, 0)]


def test_context_manager_entered_here_and_left_there_does_no_harm(pool2):
    """A block that was entered outside, or in another worker, and is left in this one."""
    outside, elsewhere, entered, left = (
        fjpool.managed_block(),
        fjpool.managed_block(),
        threading.Event(),
        threading.Event(),
    )

    def enters():
        elsewhere.__enter__()
        entered.set()
        reach(left)
        elsewhere.__exit__(None, None, None)
        return counts(pool2)

    def leaves():
        reach(entered)
        for block in (outside, elsewhere):
            block.__exit__(None, None, None)
        with fjpool.managed_block():
            seen = counts(pool2)
        left.set()
        return seen

    outside.__enter__()
    first, second = pool2.submit(enters), pool2.submit(leaves)
    assert second.result(WAIT) == (0, 2, 0)
    assert first.result(WAIT)[1] == 0
    check_quiet(pool2)


def test_context_manager_that_is_never_left_ends_with_its_task(pool1):
    """A task that enters and forgets to leave costs the pool nothing once it is done."""
    for _ in range(3):
        pool1.submit(fjpool.managed_block().__enter__).result(WAIT)
    check_quiet(pool1)
    assert pool1.submit(lambda: counts(pool1)).result(WAIT) == (1, 0, 0)
    assert list(pool1.map(abs, range(100), chunksize=1)) == list(range(100))
    assert pool1.pool_size == 1


def test_context_manager_in_an_initializer(make_pool):
    """A worker that blocks before its first task is counted right afterwards."""

    def initializer():
        with fjpool.managed_block():
            pass

    pool = make_pool(2, initializer=initializer)
    assert list(pool.map(abs, range(20), chunksize=1)) == list(range(20))
    check_quiet(pool)


# --- the decorator -------------------------------------------------------------------------------


def test_decorator_blocks_for_the_call(single):
    """Each call is a managed block; its result and exception are the function's."""

    @fjpool.managed_block()
    def fetch(value, *, error=None):
        """Fetches."""
        if error is not None:
            raise error
        return value, counts(single)

    assert (fetch.__name__, fetch.__doc__, fetch.__wrapped__.__name__) == ("fetch", "Fetches.", "fetch")
    assert single.submit(fetch, 7).result(WAIT) == (7, (0, 1, 0))
    with pytest.raises(Boom):
        single.submit(fetch, 7, error=Boom()).result(WAIT)
    assert fetch(8)[0] == 8
    check_quiet(single)


def test_decorator_serves_methods_and_recursion(single):
    """A decorated method gets its self; a decorated function may call itself."""

    class Client:
        @fjpool.managed_block()
        def depth(self, n):
            return n and 1 + self.depth(n - 1)

    assert Client().depth(3) == 3
    assert single.submit(Client().depth, 20).result(WAIT) == 20
    check_quiet(single)


@pytest.mark.parametrize("wrong", [None, 3, "name", int, Boom])
def test_decorator_refuses_what_is_no_function(wrong):
    """The error names what it got."""
    with pytest.raises(TypeError, match=f"decorates a function, not {type(wrong).__name__}"):
        fjpool.managed_block()(wrong)


def test_decorator_refuses_other_arguments():
    """One function, nothing else."""
    for args, kwargs in (((), {}), ((len, len), {}), ((), {"function": len})):
        with pytest.raises(TypeError):
            fjpool.managed_block()(*args, **kwargs)


# --- ManagedBlocker ------------------------------------------------------------------------------


class Counted(fjpool.ManagedBlocker):
    """Becomes releasable after `rounds` blocks; `done` is what block() returns the last time."""

    def __init__(self, rounds, done=False, fail_in=None):
        self.rounds, self.done, self.fail_in = rounds, done, fail_in
        self.asked = self.blocked = 0
        self.last = None
        self.seen = []

    def is_releasable(self):
        self.asked += 1
        self.last = self.blocked >= self.rounds
        if self.fail_in == ("is_releasable", self.asked):
            raise Boom("is_releasable")
        return self.last

    def block(self):
        assert self.last is False, "block() without a fresh False from is_releasable()"
        self.last = None
        self.blocked += 1
        if fjpool.current_pool() is not None:
            self.seen.append(counts(fjpool.current_pool()))
        if self.fail_in == ("block", self.blocked):
            raise Boom("block")
        return self.done and self.blocked == self.rounds


def everywhere(pool):
    """The two ways to run something: here, and in a worker."""
    return (lambda f, *args: f(*args)), (lambda f, *args: pool.submit(f, *args).result(WAIT))


@pytest.mark.parametrize(
    "rounds, done, expected",
    [(0, False, (1, 0)), (3, False, (4, 3)), (1, True, (1, 1)), (3, True, (3, 3))],
)
def test_blocker_is_asked_and_blocked_in_turns(single, rounds, done, expected):
    """Asked, then blocked, until one of the two says True; never blocked after a True."""
    for call in everywhere(single):
        blocker = Counted(rounds, done)
        assert call(single.managed_block, blocker) is None
        assert (blocker.asked, blocker.blocked) == expected
        assert all(seen == (0, 1, 0) for seen in blocker.seen)
    assert single.pool_size == 1
    check_quiet(single)


def test_blocker_needs_no_base_class(single):
    """Two methods are enough."""

    class Duck:
        def is_releasable(self):
            return False

        def block(self):
            return True

    for call in everywhere(single):
        call(single.managed_block, Duck())


@pytest.mark.parametrize("wrong", [None, 3, object(), type("Half", (), {"block": len})()])
def test_blocker_must_have_both_methods(single, wrong):
    """A TypeError that names the type."""
    for call in everywhere(single):
        with pytest.raises(TypeError, match=re.escape(type(wrong).__name__)):
            call(single.managed_block, wrong)


def test_blocker_without_its_methods_says_so(pool1):
    """The error names the class that forgot to define them."""

    class Forgetful(fjpool.ManagedBlocker):
        pass

    for method in ("block", "is_releasable"):
        with pytest.raises(NotImplementedError, match=rf"Forgetful must define {method}\(\)"):
            getattr(Forgetful(), method)()
    with pytest.raises(NotImplementedError, match="Forgetful"):
        pool1.managed_block(Forgetful())


@pytest.mark.parametrize(
    "fail_in", [("is_releasable", 1), ("is_releasable", 2), ("block", 1), ("block", 3)]
)
def test_blocker_that_fails_restores_the_counts(single, fail_in):
    """An exception from either method is raised by managed_block, and the pool is as before."""
    for call in everywhere(single):
        blocker = Counted(5, fail_in=fail_in)
        with pytest.raises(Boom, match=fail_in[0]):
            call(single.managed_block, blocker)
    check_quiet(single)
    assert single.submit(lambda: counts(single)).result(WAIT) == (1, 0, 0)


def test_blocker_of_another_pool_counts_where_the_worker_is(make_pool):
    """It is the calling worker that blocks, whichever pool's method is called."""
    mine, other = make_pool(1), make_pool(1)
    blocker = Counted(1)
    mine.submit(other.managed_block, blocker).result(WAIT)
    assert blocker.seen == [(0, 1, 0)]
    assert other.pool_size == 0


def test_blocker_lets_what_is_queued_run(single):
    """Two that wait for each other's latch, with one worker to begin with."""
    latches = [threading.Event(), threading.Event()]

    class Meet(fjpool.ManagedBlocker):
        def __init__(self, me):
            self.me = me

        def is_releasable(self):
            return latches[1 - self.me].is_set()

        def block(self):
            return latches[1 - self.me].wait(WAIT)

    def body(me):
        latches[me].set()
        single.managed_block(Meet(me))

    futures = [single.submit(body, me) for me in (0, 1)]
    assert [future.result(WAIT) for future in futures] == [None, None]
    check_quiet(single)


def test_blocker_ends_when_the_pool_is_stopped(make_pool):
    """shutdown_now during four blocks, two that poll and two in a wait of fjpool: all return."""
    pool, latch = make_pool(4), fjpool.Latch(1)
    started = threading.Semaphore(0)

    class Polls(fjpool.ManagedBlocker):
        def is_releasable(self):
            return False

        def block(self):
            started.release()
            threading.Event().wait(0.001)
            return False

    class Waits(Polls):
        def block(self):
            started.release()
            return latch.wait()

    futures = [pool.submit(pool.managed_block, kind()) for kind in (Polls, Polls, Waits, Waits)]
    for _ in range(20):
        reach(started)
    eventually(lambda: pool._blocked == 4)
    pool.shutdown_now()
    assert pool.await_termination(WAIT)
    for future in futures:
        assert isinstance(future.exception(WAIT), fjpool.CancelledError)
    assert counts(pool) == (0, 0, 0)


# --- who stands in -------------------------------------------------------------------------------


def test_compensation_needs_queued_work(make_pool):
    """A worker that blocks while nothing is queued is not replaced."""
    pool, waiters = make_pool(2), Waiters()
    with waiters.of(pool, 2):
        assert (pool.pool_size, counts(pool)) == (2, (0, 2, 0))
    check_quiet(pool)
    assert pool.pool_size == 2


def test_compensation_takes_an_idle_worker_first(make_pool):
    """With four workers, two of them idle, two that block are stood in for by those."""
    pool, waiters, all_four = make_pool(4), Waiters(), threading.Barrier(4)
    for future in [pool.submit(reach, all_four) for _ in range(4)]:
        future.result(WAIT)
    with waiters.of(pool, 2), held(pool, 2):
        assert (pool.pool_size, counts(pool)) == (4, (2, 2, 0))
    check_quiet(pool)
    assert pool.pool_size == 4


def test_compensation_keeps_parallelism_workers_running(make_pool):
    """However many of the workers are blocked, as many tasks run as parallelism says, no more."""
    pool, waiters, busy = make_pool(4), Waiters(), Busy()
    for blocked in (3, 8):
        waiters = Waiters()
        with waiters.of(pool, blocked):
            four = threading.Barrier(4)
            for future in [pool.submit(reach, four) for _ in range(8)]:
                future.result(WAIT)
            for future in [pool.submit(busy) for _ in range(50)]:
                future.result(WAIT)
            assert pool._blocked == blocked
            assert pool.pool_size == blocked + 4
    assert busy.most <= 4
    check_quiet(pool)


def test_compensation_lets_all_waits_overlap(make_pool):
    """Three of four workers wait; eight more tasks that wait run at the same time all the same."""
    pool, first, more = make_pool(4), Waiters(), Waiters()
    with first.of(pool, 3), more.of(pool, 8):
        assert counts(pool) == (0, 11, 0)
        assert pool.pool_size == 11
    check_quiet(pool)


@pytest.mark.parametrize("p", [1, 4])
def test_compensation_of_forty_waits(make_pool, p):
    """Forty waits overlap on any parallelism, with one thread each."""
    pool, waiters = make_pool(p), Waiters()
    with waiters.of(pool, 40):
        assert 40 <= pool.pool_size <= 40 + p
        assert counts(pool) == (0, 40, 0)
    check_quiet(pool)


@pytest.mark.parametrize("min_runnable, running", [(0, 1), (1, 1), (2, 2), (4, 4), (9, 4), (None, 4)])
def test_compensation_starts_no_spare_while_min_runnable_run(make_pool, min_runnable, running):
    """Three of four wait, eight tasks are queued: so many run at a time (Java's 1 costs the rest)."""
    pool = make_pool(4, min_runnable=min_runnable)
    waiters, bodies = Waiters(), [Held() for _ in range(8)]
    with waiters.of(pool, 3):
        futures = [pool.submit(body) for body in bodies]
        eventually(lambda: sum(body.started.is_set() for body in bodies) == running)
        assert (pool.pool_size, counts(pool)) == (3 + running, (running, 3, 0))
        for body in bodies:
            body.release.set()
        for future in futures:
            future.result(WAIT)
        assert pool.pool_size == 3 + running
    check_quiet(pool)


@pytest.mark.parametrize("min_runnable, peak", [(0, 4), (1, 13), (4, 16)])
def test_compensation_of_a_fourth_block_starts_a_spare(make_pool, min_runnable, peak):
    """min_runnable 0 switches spares off; with 1 the fourth of four to block gets the first one."""
    pool = make_pool(4, min_runnable=min_runnable, max_workers=64)
    waiters, body = Waiters(), Held()
    futures = [pool.submit(waiters) for _ in range(12)]
    spares = [pool.submit(body) for _ in range(4)]
    if min_runnable:
        eventually(lambda: waiters.inside == 12 and pool.pool_size == peak)
    else:
        eventually(lambda: waiters.inside == 4)
    assert pool.pool_size == peak
    body.release.set()
    waiters.gate.set()
    for future in futures + spares:
        future.result(WAIT)
    assert pool.pool_size == peak
    check_quiet(pool)


def test_compensation_by_javas_rule_needs_no_queued_work(make_pool):
    """The laboratory's eager pools replace at every block."""
    pool = make_pool(1, _eager=True, min_runnable=1)
    for waits in (1, 2, 1):
        with Waiters().of(pool, waits):
            assert counts(pool)[1] == waits
        check_quiet(pool)
    assert pool.pool_size == 3


def test_compensation_ends_when_the_waits_end(make_pool):
    """256 waits that end together leave no more than parallelism workers taking tasks."""
    pool, waiters, busy = make_pool(2), Waiters(), Busy()
    with waiters.of(pool, 256) as waits, held(pool, 2):
        work = [pool.submit(busy) for _ in range(1_000)]
        waiters.gate.set()
        for wait in waits:
            wait.result(WAIT)
        eventually(lambda: counts(pool) == (2, 0, 0), "the excess workers did not park")
        assert busy.ran == 0
    for future in work:
        future.result(WAIT)
    assert (busy.ran, busy.most <= 2) == (1_000, True)
    assert pool.pool_size == 258
    check_quiet(pool)


def test_spares_leave_after_keep_alive(make_pool):
    """Those beyond the parallelism go while the pool works on, one after the other."""
    pool, waiters = make_pool(2, keep_alive=0.02), Waiters()
    with held(pool):
        with waiters.of(pool, 8):
            assert pool.pool_size == 9
        eventually(lambda: pool.pool_size == 2)
    check_quiet(pool)
    eventually(lambda: pool.pool_size == 0)
    assert pool.submit(pow, 2, 3).result(WAIT) == 8


# --- the limit -----------------------------------------------------------------------------------


@contextlib.contextmanager
def recorded():
    """Warnings of all threads, as a list."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


def limit_warnings(caught):
    return [str(w.message) for w in caught if "max_workers" in str(w.message)]


def test_limit_default_carries_on_and_warns_once(make_pool):
    """At max_workers a block goes on unreplaced: all tasks run in the end, and one warning says so."""
    with recorded() as caught:
        pools = [make_pool(2, max_workers=5) for _ in range(2)]
        for pool in pools:
            for _ in range(2):
                waiters = Waiters()
                futures = [pool.submit(waiters) for _ in range(12)]
                eventually(lambda: waiters.inside == 5)
                assert pool.pool_size == 5
                waiters.gate.set()
                for future in futures:
                    future.result(WAIT)
            assert pool._at_limit > 0
            assert pool.pool_size == 5
            check_quiet(pool)
    found = limit_warnings(caught)
    assert len(found) == 2, found
    assert all("max_workers=5" in text and 'saturate="raise"' in text for text in found)
    assert {w.category for w in caught} == {RuntimeWarning}


def test_limit_equal_to_parallelism_is_no_warning(make_pool):
    """Who asks for exactly so many threads is not told; it is counted all the same."""
    with recorded() as caught:
        pool = make_pool(max_workers=2)
        waiters = Waiters()
        futures = [pool.submit(waiters) for _ in range(6)]
        eventually(lambda: waiters.inside == 2)
        waiters.gate.set()
        for future in futures:
            future.result(WAIT)
        assert pool._at_limit > 0
    assert limit_warnings(caught) == []


def test_limit_warning_made_an_error_is_raised_in_the_block(make_pool):
    """With -W error the first block at the limit fails, the counts are right, and later ones wait."""
    pool, waiters = make_pool(1, max_workers=2), Waiters()

    def blocks():
        with fjpool.managed_block():
            return counts(pool)

    with waiters.of(pool, 1):
        with held(pool):
            futures = [pool.submit(blocks) for _ in range(3)]
        errors = [future.exception(WAIT) for future in futures]
    assert [type(error) for error in errors] == [RuntimeWarning, type(None), type(None)]
    assert futures[1].result() == (0, 2, 0)
    assert pool._at_limit == 2  # the last one had nothing queued behind it
    check_quiet(pool)


def test_limit_not_reached_by_work_that_is_not_queued(make_pool):
    """All threads block, nothing is queued: nobody misses a replacement."""
    pool, waiters = make_pool(2, saturate="raise", max_workers=2), Waiters()
    with waiters.of(pool, 2):
        assert pool._at_limit == 0
    check_quiet(pool)


def test_limit_raise_fails_the_block(make_pool):
    """saturate="raise": the task that blocks gets the error, in Java's words; the worker lives on."""
    pool = make_pool(max_workers=1, saturate="raise")
    after = Held()

    def blocks():
        queued.append(pool.submit(pow, 2, 3))
        block = fjpool.managed_block()
        for _ in range(2):
            with pytest.raises(fjpool.RejectedExecutionError) as caught, block:
                pytest.fail("the block was entered")
            assert str(caught.value) == LIMIT_TEXT
        seen = counts(pool)
        assert seen == (1, 0, 0)
        pool.managed_block(Counted(1))

    queued = []
    assert str(pool.submit(blocks).exception(WAIT)) == LIMIT_TEXT
    assert queued[0].result(WAIT) == 8
    assert pool._at_limit == 3
    check_quiet(pool)
    after.release.set()
    assert pool.submit(after, 5).result(WAIT) == 5


def test_limit_raise_reaches_the_primitives(make_pool):
    """A wait of fjpool at the limit raises the same, and leaves nobody in the queue of waiters."""
    pool = make_pool(max_workers=1, saturate="raise")
    event, semaphore, limiter = fjpool.Event(), fjpool.Semaphore(0), fjpool.CapacityLimiter(1)
    queue, latch, condition = fjpool.Queue(), fjpool.Latch(1), fjpool.Condition()
    limiter.acquire()

    def wait_on_condition():
        with condition:
            condition.wait()

    waits = [
        event.wait,
        semaphore.acquire,
        limiter.acquire,
        queue.get,
        latch.wait,
        wait_on_condition,
        lambda: fjpool.sleep(WAIT),
        lambda: fjpool.Future().result(),
        lambda: fjpool.wait([fjpool.Future()]),
        lambda: list(fjpool.as_completed([fjpool.Future()])),
    ]

    def body():
        pool.submit(pow, 2, 3)
        errors = []
        for wait in waits:
            try:
                wait()
            except fjpool.RejectedExecutionError as error:
                errors.append(str(error))
        return errors, counts(pool)

    assert pool.submit(body).result(WAIT) == ([LIMIT_TEXT] * len(waits), (1, 0, 0))
    assert (limiter.waiting, limiter.inside) == (0, 1)
    assert not condition._waiters and not event._cond._waiters and not queue.not_empty._waiters
    semaphore.release()
    assert semaphore.acquire(timeout=WAIT)
    check_quiet(pool)


def test_limit_predicate_decides_each_time(make_pool):
    """saturate(pool) is asked in the blocking thread; True carries on, anything false raises."""
    asked, answers = [], [True, False, 1, 0, None, "yes"]

    def predicate(pool):
        asked.append((pool, threading.current_thread().name, fjpool.current_task() is not None))
        return answers[len(asked) - 1]

    pool = make_pool(1, "p", max_workers=1, saturate=predicate)

    def body():
        pool.submit(pow, 2, 3)
        outcomes = []
        for _ in answers:
            try:
                with fjpool.managed_block():
                    outcomes.append(counts(pool))
            except fjpool.RejectedExecutionError as error:
                outcomes.append(str(error))
        return outcomes, counts(pool)

    outcomes, after = pool.submit(body).result(WAIT)
    assert outcomes == [(0, 1, 0) if answer else LIMIT_TEXT for answer in answers]
    assert after == (1, 0, 0)
    assert asked == [(pool, "p_0", True)] * len(answers)
    check_quiet(pool)


def test_limit_predicate_that_fails_fails_the_block(make_pool):
    """Its exception is raised where the task wanted to block; joins raise it as well."""
    pool = make_pool(max_workers=1, saturate=boom)
    never = fjpool.Future()

    def body():
        pool.submit(pow, 2, 3)
        with pytest.raises(Boom), fjpool.managed_block():
            pytest.fail("the block was entered")
        with pytest.raises(Boom):
            never.result()
        return counts(pool)

    assert pool.submit(body).result(WAIT) == (1, 0, 0)
    check_quiet(pool)


@pytest.mark.parametrize("wrong", ["stay", None, 3, True])
def test_limit_policy_must_be_known(wrong):
    """The error lists what there is."""
    with pytest.raises(ValueError, match='saturate must be "wait", "raise" or a predicate'):
        fjpool.ForkJoinPool(1, saturate=wrong)


@pytest.mark.parametrize("saturate", ["wait", "raise"])
def test_limit_of_joins_that_can_never_end_is_an_error(make_pool, saturate):
    """Every thread waits in a join, work is queued, no thread may be added: the last one is told."""
    pool = make_pool(max_workers=2, saturate=saturate)
    both, queued, futures = threading.Barrier(2), threading.Event(), []

    def joins(other):
        reach(both)
        reach(queued)
        return futures[other].result()

    futures += [pool.submit(joins, 1), pool.submit(joins, 0)]
    more = pool.submit(pow, 2, 3)
    queued.set()
    errors = [future.exception(WAIT) for future in futures]
    assert more.result(WAIT) == 8
    assert isinstance(errors[0], fjpool.RejectedExecutionError)
    if saturate == "wait":
        assert errors[0] is errors[1]
        assert "thread limit" in str(errors[0]) and "max_workers" in str(errors[0])
    check_quiet(pool)


def test_limit_of_a_task_that_joins_itself_is_an_error(make_pool):
    """The simplest of all deadlocks, where something is queued behind it."""
    pool = make_pool(max_workers=1)

    def joins_itself():
        pool.submit(pow, 2, 3)
        return fjpool.current_task().result()

    with pytest.raises(fjpool.RejectedExecutionError, match="thread limit"):
        pool.submit(joins_itself).result(WAIT)
    check_quiet(pool)


def test_limit_of_nested_submits_is_a_recursion_error(make_pool):
    """Where the joins nest too deep for one thread, the error says that it is the depth."""
    pool = make_pool(max_workers=1)

    def nested(n):
        return n and 1 + pool.submit(nested, n - 1).result()

    with pytest.raises(RecursionError, match="max_workers"):
        pool.submit(nested, 5_000).result(WAIT)
    assert pool.submit(nested, 50).result(WAIT) == 50
    check_quiet(pool)


# --- three hundred waits at parallelism 4 --------------------------------------------------------


def three_hundred(pool):
    """300 waits that overlap as far as they may: (succeeded, rejected, peak)."""
    waiters = Waiters()
    futures = [pool.submit(waiters) for _ in range(300)]

    def all_placed():
        # At the limit of the "wait" policy nothing more begins until the gate opens.
        return waiters.inside + waiters.rejected == 300 or waiters.inside == pool.max_workers

    eventually(all_placed)
    peak = pool.pool_size
    waiters.gate.set()
    errors = [future.exception(WAIT) for future in futures]
    rejected = [error for error in errors if error is not None]
    assert all(str(error) == LIMIT_TEXT for error in rejected)
    check_quiet(pool)
    return len(errors) - len(rejected), len(rejected), peak


def test_three_hundred_waits_all_succeed(make_pool):
    """By default none fails: 260 at a time, the rest after them."""
    with recorded() as caught:
        pool = make_pool(4)
        assert three_hundred(pool) == (300, 0, 260)
        assert pool._at_limit > 0
    assert len(limit_warnings(caught)) == 1


def test_three_hundred_waits_with_raise_reject_the_rest(make_pool):
    """saturate="raise": 256 to 260 succeed, the others are told."""
    pool = make_pool(4, saturate="raise")
    succeeded, rejected, peak = three_hundred(pool)
    assert 256 <= succeeded <= 260
    assert (succeeded + rejected, peak) == (300, 260)


def test_three_hundred_waits_under_javas_rules(make_pool):
    """As on the JDK: 259 succeed, 41 fail, and there are 260 threads."""
    pool = make_pool(4, _eager=True, min_runnable=1, saturate="raise")
    assert three_hundred(pool) == (259, 41, 260)
