"""fjpool's waits: like their standard counterparts outside, letting others run in a worker."""

import concurrent.futures as futures
import itertools
import math
import queue
import threading
import time
import types
import unittest
import weakref

import pytest

import fjpool
from support import WAIT, Boom, Held, boom, eventually, held, output, reach

try:
    from test import lock_tests, test_queue
except ImportError:  # some distributions leave the test package out
    lock_tests = test_queue = None

SHORT = 0.01
"""Seconds of a wait that is meant to time out."""


# --- one description of each wait ----------------------------------------------------------------


class Case:
    """A primitive, and one thing that waits for it.

    `wait(timeout)` returns once `release()` was called, and False or raises `late` when it takes
    too long. `waiting()` says how many wait, where that can be seen.
    """

    late = ()
    timed = True

    def prepare(self):
        """Before another wait that is to last until release()."""

    def check(self):
        """No trace of an earlier wait is left, whether it ended or was broken off."""
        assert self.waiting() in (0, None)

    def waiting(self):
        return None


def waiters(condition):
    return len(condition._waiters)


class OnEvent(Case):
    def __init__(self):
        self.event = fjpool.Event()
        self.wait, self.release = self.event.wait, self.event.set
        self.prepare = self.event.clear

    def waiting(self):
        return waiters(self.event._cond)


class OnCondition(Case):
    def __init__(self):
        self.condition = fjpool.Condition()

    def wait(self, timeout=None):
        with self.condition:
            return self.condition.wait(timeout)

    def release(self):
        with self.condition:
            self.condition.notify()

    def check(self):
        super().check()
        assert self.condition.acquire(blocking=False), "the lock is still held"
        self.condition.release()

    def waiting(self):
        return waiters(self.condition)


class OnPredicate(OnCondition):
    def __init__(self):
        self.condition, self.flag = fjpool.Condition(threading.Lock()), False

    def prepare(self):
        self.flag = False

    def wait(self, timeout=None):
        with self.condition:
            return self.condition.wait_for(lambda: self.flag, timeout)

    def release(self):
        with self.condition:
            self.flag = True
            self.condition.notify_all()


class OnSemaphore(Case):
    def __init__(self):
        self.semaphore = fjpool.Semaphore(0)
        self.release = self.semaphore.release

    def wait(self, timeout=None):
        return self.semaphore.acquire(timeout=timeout)

    def check(self):
        super().check()
        assert self.semaphore._value == 0

    def waiting(self):
        return waiters(self.semaphore._cond)


class OnLatch(Case):
    def __init__(self):
        self.prepare()

    def prepare(self):
        self.latch = fjpool.Latch(1)

    def wait(self, timeout=None):
        return self.latch.wait(timeout)

    def release(self):
        self.latch.count_down()

    def waiting(self):
        return waiters(self.latch._condition)


class OnBarrier(Case):
    late = threading.BrokenBarrierError

    def __init__(self):
        self.barrier = fjpool.Barrier(2)
        self.prepare = self.barrier.reset

    def wait(self, timeout=None):
        return self.barrier.wait(timeout) in (0, 1)

    def release(self):
        self.barrier.wait(WAIT)

    def check(self):
        super().check()
        assert self.barrier.n_waiting == 0

    def waiting(self):
        return waiters(self.barrier._cond)


class OnQueueGet(Case):
    late = queue.Empty

    def __init__(self):
        self.queue = fjpool.Queue()

    def wait(self, timeout=None):
        return self.queue.get(timeout=timeout) == "item"

    def release(self):
        self.queue.put("item")

    def check(self):
        super().check()
        assert self.queue.empty()

    def waiting(self):
        return waiters(self.queue.not_empty)


class OnQueuePut(Case):
    late = queue.Full

    def __init__(self):
        self.queue = fjpool.Queue(1)
        self.queue.put("first")

    def wait(self, timeout=None):
        self.queue.put("item", timeout=timeout)

    def release(self):
        self.queue.get(timeout=WAIT)

    def check(self):
        super().check()
        assert self.queue.qsize() == 1

    def waiting(self):
        return waiters(self.queue.not_full)


class OnQueueJoin(Case):
    timed = False

    def __init__(self):
        self.queue = fjpool.Queue()
        self.prepare()

    def prepare(self):
        if not self.queue.unfinished_tasks:
            self.queue.put("item")

    def wait(self, timeout=None):
        self.queue.join()

    def release(self):
        self.queue.task_done()

    def waiting(self):
        return waiters(self.queue.all_tasks_done)


class OnLimiter(Case):
    def __init__(self):
        self.limiter = fjpool.CapacityLimiter(1)
        self.limiter.acquire()

    def wait(self, timeout=None):
        return self.limiter.acquire(timeout)

    def release(self):
        self.limiter.release()

    def check(self):
        assert (self.limiter.inside, self.limiter.waiting, self.limiter.rejected) == (1, 0, 0)

    def waiting(self):
        return self.limiter.waiting


class OnResult(Case):
    late = fjpool.TimeoutError

    def __init__(self):
        self.prepare()

    def prepare(self):
        self.future = fjpool.Future()

    def wait(self, timeout=None):
        return self.future.result(timeout)

    def release(self):
        self.future.complete(1)


class OnException(OnResult):
    def wait(self, timeout=None):
        assert self.future.exception(timeout) is None


class OnJoin(OnResult):
    timed = False

    def wait(self, timeout=None):
        assert self.future.join() == 1


class OnWait(OnResult):
    def wait(self, timeout=None):
        return bool(fjpool.wait([self.future], timeout).done)

    def check(self):
        assert not self.future._waiters

    def waiting(self):
        return len(self.future._waiters)


class OnStandardWait(OnWait):
    """fjpool.wait for a future of the standard library."""

    def prepare(self):
        self.future = futures.Future()

    def release(self):
        self.future.set_result(1)


class OnAsCompleted(OnWait):
    def wait(self, timeout=None):
        return [future.result() for future in fjpool.as_completed([self.future], timeout)] == [1]


CASES = [
    OnEvent,
    OnCondition,
    OnPredicate,
    OnSemaphore,
    OnLatch,
    OnBarrier,
    OnQueueGet,
    OnQueuePut,
    OnQueueJoin,
    OnLimiter,
    OnResult,
    OnException,
    OnJoin,
    OnWait,
    OnStandardWait,
    OnAsCompleted,
]
TIMED = [case for case in CASES if case.timed]


def each_case(*chosen):
    """Parametrizes a test with descriptions of waits."""
    return pytest.mark.parametrize("case", chosen, ids=lambda case: case.__name__[2:])


cases, timed_cases = each_case(*CASES), each_case(*TIMED)
cases_timed_and_not = pytest.mark.parametrize(
    "case, timed",
    [*((case, False) for case in CASES), *((case, True) for case in TIMED)],
    ids=lambda value: value.__name__[2:] if isinstance(value, type) else ("untimed", "timed")[value],
)


def timed_out(case, timeout):
    """Wait; whether the time was not enough."""
    try:
        return case.wait(timeout) is False
    except case.late:
        return True


def begin(case, pool=None):
    """Let somebody wait, a task of the pool or a thread; returns once they do."""
    call = pool.submit if pool is not None else in_a_thread
    before = case.waiting()
    future = call(case.wait)
    if before is not None:
        eventually(lambda: case.waiting() == before + 1)
    return future


def in_a_thread(function, *args, **kwargs):
    """A future of a call in a thread of its own."""
    future = futures.Future()

    def run():
        try:
            future.set_result(function(*args, **kwargs))
        except BaseException as error:  # noqa: BLE001
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def check_still_works(case):
    """Nothing is left of what was before, and one wait and one release find each other."""
    case.check()
    case.prepare()
    future = begin(case)
    case.release()
    assert future.result(WAIT) is not False
    if isinstance(case, OnQueueJoin):
        return
    case.check()


# --- the standard library's own tests ------------------------------------------------------------


if lock_tests is None:

    @pytest.mark.skip(reason="this interpreter has no test package")
    def test_standard_suites():
        """The standard library's tests of its own primitives pass with ours."""

else:

    class InWorkers:
        """Runs the threads of the standard tests as tasks of a pool with one worker."""

        @pytest.fixture(autouse=True)
        def tasks_for_threads(self, make_pool, monkeypatch):
            pool = make_pool(1)

            def start(function, args):
                with held(pool):  # all of them queue up behind the one before
                    return pool.submit(function, *args)

            monkeypatch.setattr(lock_tests, "start_new_thread", start)
            yield
            assert pool.await_quiescence(WAIT)
            assert (pool._blocked, pool.active_count) == (0, 0)

        def setUp(self):
            """Without the check for threads: workers stay."""

        def tearDown(self):
            pass

    class TestStandardEvent(lock_tests.EventTests):
        eventtype = staticmethod(fjpool.Event)
        test_repr = None  # it wants the module to be threading

    class TestStandardEventInWorkers(InWorkers, TestStandardEvent):
        pass

    class TestStandardCondition(lock_tests.ConditionTests):
        condtype = staticmethod(fjpool.Condition)

    class TestStandardConditionInWorkers(InWorkers, TestStandardCondition):
        pass

    class TestStandardSemaphore(lock_tests.SemaphoreTests):
        semtype = staticmethod(fjpool.Semaphore)
        test_repr = None

    class TestStandardSemaphoreInWorkers(InWorkers, TestStandardSemaphore):
        pass

    class TestStandardBarrier(lock_tests.BarrierTests):
        barriertype = staticmethod(fjpool.Barrier)
        test_repr = None

    class TestStandardBarrierInWorkers(InWorkers, TestStandardBarrier):
        test_timeout = None  # 1.3 s

        def setUp(self):
            self.barrier = self.barriertype(self.N, timeout=self.defaultTimeout)

    class TestStandardQueue(test_queue.QueueTest, unittest.TestCase):
        queue = types.SimpleNamespace(
            Queue=fjpool.Queue, Empty=queue.Empty, Full=queue.Full, ShutDown=fjpool.ShutDown
        )

    class TestStandardFailingQueue(test_queue.FailingQueueTest, unittest.TestCase):
        queue = TestStandardQueue.queue


def test_repr_names_the_class():
    """As the standard ones do."""
    for made in (fjpool.Event(), fjpool.Semaphore(3), fjpool.Barrier(2), fjpool.Latch(1)):
        assert f"{type(made).__name__} " in repr(made)
    assert repr(fjpool.Latch(2)) == "<fjpool.Latch count=2>"
    assert "inside=0 waiting=0 rejected=0" in repr(fjpool.CapacityLimiter(1))


# --- outside of workers --------------------------------------------------------------------------


@cases
def test_outside_a_release_ends_a_wait(case):
    """Between two plain threads, one after the other and in either order."""
    case = case()
    for _ in range(3):
        check_still_works(case)
    if not isinstance(case, (OnCondition, OnBarrier)):  # those forget, or meet
        case.prepare()
        case.release()
        assert case.wait() is not False


@timed_cases
@pytest.mark.parametrize("timeout", [0, SHORT])
def test_outside_a_wait_ends_in_time(case, timeout):
    """No sooner than asked; afterwards all is as before."""
    case = case()
    begin = time.monotonic()
    assert timed_out(case, timeout)
    assert time.monotonic() - begin >= timeout
    check_still_works(case)


@timed_cases
def test_outside_a_timed_wait_is_released_before_its_time(case):
    """A time-out does not delay."""
    case = case()
    future = in_a_thread(case.wait, WAIT)
    if case.waiting() is not None:
        eventually(lambda: case.waiting() == 1)
    case.release()
    assert future.result(WAIT) is not False


# --- in a worker ---------------------------------------------------------------------------------



@cases_timed_and_not
def test_compensates_the_wait_for_a_queued_task(make_pool, case, timed):
    """One worker waits for what only a task can do that is queued behind it."""
    case, pool = case(), make_pool(1)

    def body():
        pool.submit(case.release)
        return case.wait(WAIT) if timed else case.wait()

    assert pool.submit(body).result(WAIT) is not False
    assert pool.await_quiescence(WAIT)
    assert (pool._blocked, pool.active_count) == (0, 0)
    assert pool.pool_size <= 2


@each_case(*(case for case in CASES if case not in (OnBarrier, OnQueueJoin, OnStandardWait)))
def test_compensates_forty_waits_at_once(make_pool, case):
    """However many wait, the next task runs; in the end all are released."""
    case, pool = case(), make_pool(1)
    waits = [pool.submit(case.wait) for _ in range(40)]
    eventually(lambda: pool._blocked == 40)
    for _ in waits:
        pool.submit(case.release).result(WAIT)
    assert all(wait.result(WAIT) is not False for wait in waits)
    assert pool.await_quiescence(WAIT)
    assert (pool._blocked, pool.active_count) == (0, 0)


@timed_cases
def test_timeout_in_a_worker(make_pool, case):
    """Ends in time, and the worker counts as running again."""
    case, pool = case(), make_pool(1)

    def body():
        late = timed_out(case, SHORT)
        return late, timed_out(case, 0), pool._blocked, pool.active_count

    assert pool.submit(body).result(WAIT) == (True, True, 0, 1)
    check_still_works(case)


def test_compensates_a_sleep(make_pool):
    """While a task sleeps for long another one runs on the only worker's behalf."""
    pool = make_pool(1)
    sleeping = pool.submit(fjpool.sleep, 3600)
    eventually(lambda: pool._blocked == 1)
    assert pool.submit(pow, 2, 3).result(WAIT) == 8
    assert sleeping.request_cancel()
    with pytest.raises(fjpool.CancelledError):
        sleeping.result(WAIT)


def test_compensates_the_wait_for_another_pools_end(make_pool):
    """Awaiting quiescence or termination of a pool, in a worker of another one."""
    pool = make_pool(1)
    for name in ("await_quiescence", "await_termination"):
        other, body = make_pool(1), Held()
        other.submit(body)
        reach(body.started)
        if name == "await_termination":
            other.shutdown(wait=False)

        def waits(wait=getattr(other, name), body=body):
            pool.submit(body.release.set)
            return wait(WAIT)

        assert pool.submit(waits).result(WAIT) is True


@cases
def test_foreign_thread_of_a_task_waits_as_any_other(make_pool, case):
    """A thread that a task started is no worker: its wait changes no count."""
    case, pool = case(), make_pool(1)

    def body():
        future = begin(case)
        seen = pool._blocked, pool.active_count
        case.release()
        return future.result(WAIT) is not False, seen

    assert pool.submit(body).result(WAIT) == (True, (0, 1))


# --- asked to stop -------------------------------------------------------------------------------


@cases_timed_and_not
def test_stop_wakes_a_waiting_task(make_pool, case, timed):
    """request_cancel ends the wait with CancelledError, and the primitive is as it was."""
    case, pool = case(), make_pool(1)
    for _ in range(3):
        case.prepare()
        future = pool.submit(case.wait, WAIT) if timed else pool.submit(case.wait)
        eventually(lambda: pool._blocked == 1)
        assert future.request_cancel()
        with pytest.raises(fjpool.CancelledError):
            future.result(WAIT)
        assert pool.await_quiescence(WAIT)
        assert (pool._blocked, pool.active_count) == (0, 0)
        check_still_works(case)


@cases
def test_stop_that_is_caught_ends_every_later_wait_too(make_pool, case):
    """A task that was asked to stop and goes on can see that; what need not wait still works."""
    case, pool = case(), make_pool(1)

    def body():
        outcomes = []
        for _ in range(2):
            try:
                outcomes.append(case.wait())
            except fjpool.CancelledError:
                outcomes.append(fjpool.current_task().cancel_requested)
        return outcomes

    future = pool.submit(body)
    eventually(lambda: pool._blocked == 1)
    future.request_cancel()
    assert future.result(WAIT) == [True, True]
    check_still_works(case)


def test_stop_before_the_wait_ends_it_at_once(pool1):
    """A request that comes while the task computes is not lost."""
    body = Held()

    def sleeps():
        body()
        fjpool.sleep(3600)

    future = pool1.submit(sleeps)
    reach(body.started)
    assert future.request_cancel()
    body.release.set()
    with pytest.raises(fjpool.CancelledError):
        future.result(WAIT)


@cases
def test_stop_of_a_pool_wakes_all_its_waiting_tasks(make_pool, case):
    """shutdown_now ends every wait of its tasks; those of others, and the primitive, are untouched."""
    case, pool, other = case(), make_pool(1), make_pool(1)
    if isinstance(case, OnBarrier):
        case.barrier = fjpool.Barrier(9)
    stopped = [pool.submit(case.wait) for _ in range(5)]
    eventually(lambda: pool._blocked == 5)
    kept = other.submit(case.wait)
    eventually(lambda: other._blocked == 1)
    pool.shutdown_now()
    assert pool.await_termination(WAIT)
    for future in stopped:
        with pytest.raises(fjpool.CancelledError):
            future.result(WAIT)
    assert not kept.done()
    assert case.waiting() in (1, None)
    assert (pool._blocked, pool.active_count, pool.pool_size) == (0, 0, 0)
    if isinstance(case, OnBarrier):
        case.barrier.abort()
        assert isinstance(kept.exception(WAIT), threading.BrokenBarrierError)
    else:
        case.release()
        assert kept.result(WAIT) is not False


def race(*actions):
    """Do all of it at the same time, in a thread each."""
    start = threading.Barrier(len(actions))

    def act(action):
        reach(start)
        action()

    for future in [in_a_thread(act, action) for action in actions]:
        future.result(WAIT)


HANDED_OVER = [OnCondition, OnSemaphore, OnQueueGet, OnQueuePut, OnLimiter]


@each_case(*HANDED_OVER)
def test_stop_that_meets_a_release_loses_nothing(make_pool, case):
    """Of two waiting tasks one is asked to stop while one release comes: the release reaches one."""
    case, pool = case(), make_pool(1)
    for _ in range(60):
        first = pool.submit(case.wait)
        eventually(lambda: case.waiting() == 1, pause=0)
        second = pool.submit(case.wait)
        eventually(lambda: case.waiting() == 2, pause=0)
        race(first.request_cancel, case.release)
        if first.exception(WAIT) is None:
            assert not second.done()
            case.release()
        else:
            assert isinstance(first.exception(), fjpool.CancelledError)
        assert second.result(WAIT) is not False
        case.check()


@each_case(*HANDED_OVER[1:])
def test_timeout_that_meets_a_release_loses_nothing(make_pool, case):
    """A wait that times out just as its release comes has got it, or the release is still there."""
    case, pool = case(), make_pool(1)
    for i in range(60):
        future = pool.submit(timed_out, case, SHORT / 4)
        threading.Event().wait(SHORT / 4 + (i - 30) * SHORT / 400)
        case.release()
        if future.result(WAIT):
            assert not timed_out(case, 0)
        case.check()


# --- Ctrl-C --------------------------------------------------------------------------------------


CTRL_C = """
    import time
    import test_primitives as t

    main = threading.main_thread().ident

    def interrupt():
        # Once the main thread has stood at one instruction for three looks in a row.
        seen, same, pause = None, 0, threading.Event()
        while same < 3:
            pause.wait(0.004)
            frame = sys._current_frames()[main]
            now = (id(frame), frame.f_lasti) if waiting else None
            same = same + 1 if now is not None and now == seen else 0
            seen = now
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    import signal
    for kind in {kinds}:
        case, slowest = kind(), 0
        for round in range(3):
            case.prepare()
            sent, waiting = [], False
            thread = threading.Thread(target=interrupt)
            thread.start()
            try:
                waiting = True
                case.wait(WAIT) if kind.timed and round else case.wait()
                print("not interrupted")
            except KeyboardInterrupt:
                slowest = max(slowest, time.monotonic() - sent[0])
            thread.join()
            t.check_still_works(case)
        if slowest > 1:
            print(kind.__name__, "took", slowest)
        else:
            print(kind.__name__)
"""


def test_ctrl_c_ends_each_wait_once():
    """In the main thread a wait raises KeyboardInterrupt promptly, once, and leaves no trace."""
    names = [case.__name__ for case in CASES]
    kinds = "[" + ", ".join(f"t.{name}" for name in names) + "]"
    assert output(CTRL_C.replace("{kinds}", kinds)).split() == names


def test_ctrl_c_ends_a_sleep():
    """And so does a sleep, in the main thread; one in a worker goes on."""
    printed = output(
        """
        import signal, time
        pool = fjpool.ForkJoinPool(1)
        other = pool.submit(fjpool.sleep, 3600)
        eventually(lambda: pool._blocked == 1)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        signal.signal(signal.SIGALRM, signal.default_int_handler)
        begin = time.monotonic()
        try:
            fjpool.sleep(3600)
        except KeyboardInterrupt:
            print("interrupted", time.monotonic() - begin < 5, other.running())
        other.request_cancel()
        print(type(other.exception(WAIT)).__name__)
        """
    )
    assert printed == "interrupted True True\nCancelledError\n"


def test_signal_handler_that_returns_lets_the_wait_go_on():
    """A signal that raises nothing does not end a wait, and a handler may be what releases it."""
    printed = output(
        """
        import signal
        event, seen = fjpool.Event(), []
        def handler(*_):
            seen.append(1)
            if len(seen) == 3:
                event.set()
                signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
        print(event.wait(WAIT), len(seen))
        """
    )
    assert printed == "True 3\n"


# --- sleep ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [0, 0.0, SHORT, False])
def test_sleep_lasts_as_long_as_asked(pool1, seconds):
    """Here and in a worker, and never less."""
    for call in (lambda f, *args: f(*args), lambda f, *args: pool1.submit(f, *args).result(WAIT)):
        begin = time.monotonic()
        assert call(fjpool.sleep, seconds) is None
        assert time.monotonic() - begin >= seconds


@pytest.mark.parametrize(
    "wrong, error", [(-1, ValueError), (-1e-9, ValueError), (math.nan, ValueError)]
)
def test_sleep_refuses_wrong_times(pool1, wrong, error):
    """Before it sleeps, here and in a worker."""
    with pytest.raises(error, match="seconds"):
        fjpool.sleep(wrong)
    with pytest.raises(error, match="seconds"):
        pool1.submit(fjpool.sleep, wrong).result(WAIT)


@pytest.mark.parametrize("wrong", [None, "1", [], 1j])
def test_sleep_refuses_what_is_no_number(wrong):
    """A TypeError, as of time.sleep."""
    with pytest.raises(TypeError):
        fjpool.sleep(wrong)


def test_sleep_may_last_for_ever(pool1):
    """Infinity, and more seconds than the clock has, can only be ended from outside."""
    sleeps = [pool1.submit(fjpool.sleep, seconds) for seconds in (math.inf, 1e300, 10**12)]
    eventually(lambda: pool1._blocked == 3)
    for sleep in sleeps:
        assert sleep.request_cancel()
        assert isinstance(sleep.exception(WAIT), fjpool.CancelledError)


# --- Queue ---------------------------------------------------------------------------------------


def test_queue_is_a_standard_queue():
    """By isinstance, with its attributes and its errors."""
    q = fjpool.Queue(2)
    assert isinstance(q, queue.Queue)
    assert (q.maxsize, q.qsize(), q.empty(), q.full()) == (2, 0, True, False)
    q.put_nowait(1)
    q.put(2, False)
    assert q.full()
    for fails in (lambda: q.put_nowait(3), lambda: q.put(3, block=False, timeout=9)):
        with pytest.raises(queue.Full):
            fails()
    assert [q.get_nowait(), q.get(False)] == [1, 2]
    for fails in (q.get_nowait, lambda: q.get(block=False, timeout=9)):
        with pytest.raises(queue.Empty):
            fails()
    q.task_done()
    q.task_done()
    q.join()
    with pytest.raises(ValueError, match="too many times"):
        q.task_done()


def outcome(call):
    """What a call returned, or the name and text of what it raised."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001
        return type(error).__name__, str(error)


@pytest.mark.parametrize("maxsize", [-1, 0, 1, 2])
def test_queue_does_what_the_standard_one_does(maxsize):
    """Every call that cannot block for ever, in turn, on both: the same results and errors."""
    steps = [
        lambda q: q.get(True, -1),
        lambda q: q.get(True, 0),
        lambda q: q.get(False, -1),
        lambda q: q.put(1, True, -1),
        lambda q: q.put(2, True, 0),
        lambda q: q.put(3, False, -1),
        lambda q: q.put(4, timeout=SHORT) if 0 < maxsize < 3 else q.put(4),
        lambda q: (q.qsize(), q.unfinished_tasks, q.full(), q.empty()),
        lambda q: q.get(timeout=0),
        lambda q: q.task_done(),
        lambda q: q.get_nowait(),
        lambda q: q.put_nowait(5),
        lambda q: (q.qsize(), q.unfinished_tasks, q.full(), q.empty()),
    ]
    ours, theirs = fjpool.Queue(maxsize), queue.Queue(maxsize)
    for i, step in enumerate(steps):
        assert (i, outcome(lambda: step(ours))) == (i, outcome(lambda: step(theirs)))


def test_queue_can_be_given_another_order():
    """_init, _qsize, _put and _get may be overridden, as in the standard library's own."""

    class Stack(fjpool.Queue):
        def _init(self, maxsize):
            self.items = []

        def _qsize(self):
            return len(self.items)

        def _put(self, item):
            self.items.append(item)

        def _get(self):
            return self.items.pop()

    stack = Stack()
    for i in range(3):
        stack.put(i)
    assert [stack.get(timeout=WAIT) for _ in range(3)] == [2, 1, 0]
    stack.put(1)
    stack.shutdown(immediate=True)
    assert stack.items == []


def shut(call, *args, **kwargs):
    """Whether the call raises ShutDown."""
    try:
        call(*args, **kwargs)
    except fjpool.ShutDown:
        return True
    return False


def test_queue_shutdown_lets_getters_finish():
    """No put any more; gets take what is there, then raise. Twice is no error."""
    q = fjpool.Queue(2)
    assert q.is_shutdown is False
    q.put(1)
    q.put(2)
    for _ in range(2):
        q.shutdown()
    assert q.is_shutdown is True
    for put in (q.put, q.put_nowait, lambda item: q.put(item, timeout=WAIT)):
        assert shut(put, 3)  # and not Full
    assert [q.get(), q.get(timeout=WAIT)] == [1, 2]
    for get in (q.get, q.get_nowait, lambda: q.get(timeout=WAIT), lambda: q.get(timeout=0)):
        assert shut(get)  # and not Empty
    assert q.unfinished_tasks == 2
    q.task_done()
    q.task_done()
    q.join()


def test_queue_shutdown_at_once_drops_what_is_there():
    """Immediate: the queue is emptied, each item counts as done, and join returns."""
    q = fjpool.Queue()
    for i in range(3):
        q.put(i)
    taken = q.get()
    joining = in_a_thread(q.join)
    eventually(lambda: waiters(q.all_tasks_done) == 1)
    q.shutdown(immediate=True)
    assert (q.qsize(), q.unfinished_tasks, shut(q.get), shut(q.put, 1)) == (0, 1, True, True)
    q.task_done()
    joining.result(WAIT)
    assert taken == 0
    with pytest.raises(ValueError):
        q.task_done()


@pytest.mark.parametrize("immediate", [False, True])
@pytest.mark.parametrize("in_workers", [False, True], ids=["threads", "workers"])
def test_queue_shutdown_wakes_everybody(make_pool, immediate, in_workers):
    """Waiting putters and getters, timed or not, raise ShutDown; joiners wait for what was taken."""
    pool = make_pool(1)
    call = pool.submit if in_workers else in_a_thread
    empty, full = fjpool.Queue(), fjpool.Queue(1)
    full.put("item")
    waits = [call(shut, empty.get), call(shut, empty.get, timeout=WAIT)]
    eventually(lambda: waiters(empty.not_empty) == 2)
    waits += [call(shut, full.put, 1), call(shut, full.put, 1, timeout=WAIT)]
    eventually(lambda: waiters(full.not_full) == 2)
    joining = call(full.join)
    eventually(lambda: waiters(full.all_tasks_done) == 1)
    for q in (empty, full):
        q.shutdown(immediate)
    assert [wait.result(WAIT) for wait in waits] == [True] * 4
    if not immediate:
        assert not joining.done()
        assert full.get() == "item"
        full.task_done()
    joining.result(WAIT)


# --- Condition, Semaphore, Barrier, Event, Latch -------------------------------------------------


def test_types_are_the_standard_ones_by_isinstance():
    """So that code that asks takes them."""
    for name in ("Condition", "Event", "Semaphore", "Barrier"):
        assert issubclass(getattr(fjpool, name), getattr(threading, name))
    assert fjpool.BrokenBarrierError is threading.BrokenBarrierError


def test_condition_wakes_in_order_and_no_more_than_asked(make_pool):
    """notify(n) wakes the n that have waited longest, whether they are tasks or threads."""
    pool, condition, woken = make_pool(1), fjpool.Condition(), []

    def wait(name):
        with condition:
            condition.wait()
            woken.append(name)

    waits = []
    for i in range(6):
        waits.append((pool.submit if i % 2 else in_a_thread)(wait, i))
        eventually(lambda: waiters(condition) == len(waits))
    for n, expected in ((1, {0}), (2, {0, 1, 2}), (9, set(range(6)))):
        with condition:
            condition.notify(n)
        eventually(lambda: len(woken) >= len(expected))
        assert set(woken) == expected
    for wait in waits:
        wait.result(WAIT)


def test_condition_gives_the_lock_back_however_the_wait_ends(make_pool):
    """After time-out and stop request a re-entrant lock is held as deep as before."""
    pool, condition, late = make_pool(1), fjpool.Condition(), threading.Event()

    def body():
        with condition, condition:
            assert condition.wait(SHORT) is False
            late.set()
            try:
                condition.wait()
            except fjpool.CancelledError:
                condition.release()
                owned = condition._is_owned()
                condition.acquire()
        return owned, condition._is_owned()

    future = pool.submit(body)
    reach(late)
    eventually(lambda: waiters(condition) == 1)
    assert future.request_cancel()
    assert future.result(WAIT) == (True, False)


def test_condition_shares_a_lock():
    """Several conditions over one lock, as a bounded buffer has them."""
    lock = threading.Lock()
    conditions = [fjpool.Condition(lock) for _ in range(2)]
    future = in_a_thread(lambda: conditions[0].__enter__() and conditions[0].wait(WAIT))
    eventually(lambda: waiters(conditions[0]) == 1)
    with conditions[1]:
        conditions[1].notify_all()
        conditions[0].notify_all()
    assert future.result(WAIT) is True
    lock.release()


def test_semaphore_releases_several_at_once(make_pool):
    """release(n) lets n in, tasks or threads; less than one is an error and changes nothing."""
    pool, semaphore = make_pool(1), fjpool.Semaphore(0)
    waits = [(pool.submit if i % 2 else in_a_thread)(semaphore.acquire) for i in range(6)]
    eventually(lambda: waiters(semaphore._cond) == 6)
    semaphore.release(4)
    eventually(lambda: sum(wait.done() for wait in waits) == 4)
    assert waiters(semaphore._cond) == 2
    for wrong in (0, -1):
        with pytest.raises(ValueError):
            semaphore.release(wrong)
    semaphore.release(5)
    for wait in waits:
        assert wait.result(WAIT) is True
    assert [semaphore.acquire(blocking=False) for _ in range(4)] == [True, True, True, False]


def test_semaphore_refuses_what_the_standard_one_refuses():
    """A negative value; a time-out for a wait that does not block."""
    with pytest.raises(ValueError):
        fjpool.Semaphore(-1)
    with pytest.raises(ValueError):
        fjpool.Semaphore(1).acquire(blocking=False, timeout=1)
    with fjpool.Semaphore() as got:
        assert got is True


def test_barrier_of_tasks_runs_its_action_once(make_pool):
    """Five tasks of a pool with one worker meet, again and again."""
    pool, met = make_pool(1), []
    barrier = fjpool.Barrier(5, action=lambda: met.append(fjpool.current_pool()))

    def body():
        return [barrier.wait(WAIT) for _ in range(10)]

    rounds = zip(*[future.result(WAIT) for future in [pool.submit(body) for _ in range(5)]])
    assert [sorted(indices) for indices in rounds] == [[0, 1, 2, 3, 4]] * 10
    assert met == [pool] * 10


def test_barrier_breaks_for_all_when_one_is_late(make_pool):
    """A time-out, an abort or a reset ends every wait with BrokenBarrierError."""
    pool = make_pool(1)
    for end in ("abort", "reset", "timeout"):
        barrier = fjpool.Barrier(4)
        waits = [pool.submit(barrier.wait, WAIT) for _ in range(2)]
        eventually(lambda: barrier.n_waiting == 2)
        if end == "timeout":
            with pytest.raises(threading.BrokenBarrierError):
                barrier.wait(SHORT)
        else:
            getattr(barrier, end)()
        for wait in waits:
            assert isinstance(wait.exception(WAIT), fjpool.BrokenBarrierError)
        assert barrier.broken is (end != "reset")


def test_event_wakes_everybody(make_pool):
    """Tasks and threads; a wait for a set event does not wait."""
    pool, event = make_pool(1), fjpool.Event()
    waits = [(pool.submit if i % 2 else in_a_thread)(event.wait, WAIT) for i in range(10)]
    eventually(lambda: waiters(event._cond) == 10)
    event.set()
    assert [wait.result(WAIT) for wait in waits] == [True] * 10
    assert event.wait(0) and event.wait()
    event.clear()
    assert not event.wait(0)


@pytest.mark.parametrize("count", [0, 1, 5])
def test_latch_opens_at_zero(make_pool, count):
    """For all who wait, tasks and threads, and for good; it does not go below."""
    pool, latch = make_pool(1), fjpool.Latch(count)
    waits = [(pool.submit if i % 2 else in_a_thread)(latch.wait) for i in range(6)]
    for left in range(count, 0, -1):
        eventually(lambda: waiters(latch._condition) == 6)
        assert (latch.count, latch.wait(0), latch.wait(SHORT)) == (left, False, False)
        latch.count_down()
    assert [wait.result(WAIT) for wait in waits] == [True] * 6
    for _ in range(3):
        assert (latch.count, latch.wait(), latch.wait(0)) == (0, True, True)
        latch.count_down()


@pytest.mark.parametrize("wrong, error", [(-1, ValueError), (1.5, TypeError), (None, TypeError)])
def test_latch_refuses_wrong_counts(wrong, error):
    """Before anything else."""
    with pytest.raises(error):
        fjpool.Latch(wrong)


# --- CapacityLimiter -----------------------------------------------------------------------------


def test_limiter_waits_first_come_first_served(make_pool):
    """Places go to whoever has waited longest; nobody overtakes."""
    pool, limiter, order = make_pool(1), fjpool.CapacityLimiter(2), []

    def enter(name):
        with limiter:
            order.append(name)

    with limiter, limiter:
        waits = []
        for name in range(5):
            waits.append((pool.submit if name % 2 else in_a_thread)(enter, name))
            eventually(lambda: limiter.waiting == len(waits))
        assert (limiter.limit, limiter.inside, limiter.try_acquire()) == (2, 2, False)
    for wait in waits:
        wait.result(WAIT)
    assert sorted(order) == list(range(5)) and order[0] in (0, 1)
    assert (limiter.inside, limiter.waiting, limiter.rejected) == (0, 0, 1)


def test_limiter_fails_fast_and_counts_it():
    """call_now runs at once or raises; what the function raises is not a rejection."""
    limiter = fjpool.CapacityLimiter(1)
    assert limiter.call_now(pow, 2, 3) == 8
    assert limiter.call(int, "11", base=2) == 3
    with limiter:
        for _ in range(3):
            with pytest.raises(fjpool.RejectedExecutionError, match="all 1 places are taken"):
                limiter.call_now(pow, 2, 3)
    for call in (limiter.call, limiter.call_now):
        with pytest.raises(Boom):
            call(boom)
    assert (limiter.inside, limiter.waiting, limiter.rejected) == (0, 0, 3)


def test_limiter_of_fifty_places_and_sixty_calls(make_pool):
    """The bulkhead of the requirement: at most fifty inside, ten refused at once."""
    pool, limiter, body = make_pool(1), fjpool.CapacityLimiter(50), Held()

    def call():
        with fjpool.managed_block():
            return body()

    calls = [pool.submit(limiter.call_now, call) for _ in range(60)]
    eventually(lambda: limiter.inside + limiter.rejected == 60)
    assert (limiter.inside, limiter.rejected) == (50, 10)
    body.release.set()
    errors = [future.exception(WAIT) for future in calls]
    assert sum(isinstance(error, fjpool.RejectedExecutionError) for error in errors) == 10
    assert limiter.inside == 0


def test_limiter_release_without_acquire_is_an_error():
    """And takes nothing."""
    limiter = fjpool.CapacityLimiter(1)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="release without acquire"):
            limiter.release()
    assert limiter.try_acquire() and not limiter.try_acquire()


@pytest.mark.parametrize("wrong, error", [(0, ValueError), (-1, ValueError), (1.5, TypeError)])
def test_limiter_refuses_wrong_limits(wrong, error):
    """At least one, a whole number."""
    with pytest.raises(error):
        fjpool.CapacityLimiter(wrong)


# --- wait and as_completed -----------------------------------------------------------------------


def five_futures(kind):
    """Pending, running, finished, failed and cancelled ones, and an end for the first two."""
    made = [kind() for _ in range(5)]
    made[1].set_running_or_notify_cancel()
    made[2].set_result(2)
    made[3].set_exception(Boom())
    made[4].cancel()
    made[4].set_running_or_notify_cancel()
    return made


@pytest.mark.parametrize("kind", [fjpool.Future, futures.Future], ids=["ours", "standard"])
def test_wait_agrees_with_the_standard_one(kind):
    """For every choice of states and every condition: the same two sets."""
    conditions = (futures.ALL_COMPLETED, futures.FIRST_COMPLETED, futures.FIRST_EXCEPTION)
    made = five_futures(kind)
    for n in range(len(made) + 1):
        for chosen in itertools.combinations(made, n):
            for condition in conditions:
                ours = fjpool.wait(chosen, 0, condition)
                assert ours == futures.wait(chosen, 0, condition)
                assert isinstance(ours, tuple) and ours.done is ours[0]
    assert not any(future._waiters for future in made)


@pytest.mark.parametrize("kind", [fjpool.Future, futures.Future], ids=["ours", "standard"])
def test_as_completed_agrees_with_the_standard_one(kind):
    """Finished ones first, each once; then the time is up, in the same words."""
    made = five_futures(kind)
    for n in range(len(made) + 1):
        for chosen in itertools.combinations(made, n):
            results = []
            for function in (fjpool.as_completed, futures.as_completed):
                seen, error = [], None
                try:
                    for future in function(chosen + chosen[:1], timeout=0):
                        seen.append(future)
                except futures.TimeoutError as late:
                    error = str(late)
                assert len(seen) == len(set(seen))
                results.append((set(seen), error))
            assert results[0] == results[1]
    assert not any(future._waiters for future in made)


@pytest.mark.parametrize(
    "condition, enough",
    [(futures.FIRST_COMPLETED, [2]), (futures.FIRST_EXCEPTION, [2, 0]), (futures.ALL_COMPLETED, [2, 0, 1])],
)
def test_wait_in_a_worker_returns_when_the_condition_holds(make_pool, condition, enough):
    """While it waits, the tasks that it waits for run on the same single worker's behalf."""
    pool, bodies = make_pool(1), [Held() for _ in range(3)]

    def announced(i):
        with fjpool.managed_block():
            bodies[i]()
        if i == 0:
            raise Boom

    def body():
        made = [pool.submit(announced, i) for i in range(3)]
        done, not_done = fjpool.wait(made, WAIT, condition)
        return [made.index(future) for future in done], len(not_done), made

    future = pool.submit(body)
    for i, finished in enumerate(enough):
        reach(bodies[finished].started)
        assert not future.done()
        bodies[finished].release.set()
        if i + 1 < len(enough):
            eventually(lambda: pool._completed >= i + 1)
    done, pending, made = future.result(WAIT)
    assert set(done) >= set(enough) and len(done) + pending == 3
    for held_body in bodies:
        held_body.release.set()
    eventually(lambda: all(one.done() and not one._waiters for one in made))


def test_wait_mixes_ours_and_others(pool2):
    """fjpool's futures, the standard library's, duplicates, and any iterable."""
    theirs, body = futures.Future(), Held()
    ours = pool2.submit(body, 1)
    waiting = in_a_thread(fjpool.wait, iter([ours, theirs, ours]), WAIT)
    reach(body.started)
    eventually(lambda: theirs._waiters)
    theirs.set_result(2)
    body.release.set()
    assert waiting.result(WAIT) == ({ours, theirs}, set())


def test_wait_refuses_unknown_conditions():
    """As the standard one, where there is something to wait for."""
    with pytest.raises(ValueError, match="Invalid return condition"):
        fjpool.wait([fjpool.Future()], 0, "SOME_COMPLETED")


def test_as_completed_yields_in_the_order_of_completion(make_pool):
    """In a worker, while those that it waits for run beside it."""
    pool, bodies = make_pool(2), [Held() for _ in range(5)]
    order, seen = [3, 0, 4, 1, 2], []

    def announced(i):
        with fjpool.managed_block():
            return bodies[i](i)

    def body():
        made = [pool.submit(announced, i) for i in range(5)]
        for future in fjpool.as_completed(made, WAIT):
            seen.append(future.result())
        return [len(future._waiters) for future in made]

    future = pool.submit(body)
    for n, i in enumerate(order, 1):
        reach(bodies[i].started)
        bodies[i].release.set()
        eventually(lambda: len(seen) == n)
    assert future.result(WAIT) == [0] * 5
    assert seen == order


def test_as_completed_that_is_given_up_leaves_no_trace():
    """Closing the generator early takes its waiter off all futures."""
    made = [fjpool.Future() for _ in range(3)]
    made[0].complete(0)
    results = fjpool.as_completed(made)
    assert next(results) is made[0]
    assert [len(future._waiters) for future in made] == [0, 1, 1]
    results.close()
    assert not any(future._waiters for future in made)


def test_as_completed_keeps_no_future_alive():
    """What was yielded and dropped by the caller is freed at once, as with the standard one."""
    made = [fjpool.Future() for _ in range(3)]
    for future in made[:2]:
        future.complete(None)
    for future in fjpool.as_completed(made, WAIT):
        made.remove(future)
        ref = weakref.ref(future)
        del future
        assert ref() is None
        if made:
            made[0].complete(None)


# --- all at once ---------------------------------------------------------------------------------


HAMMERS = 4


def hammer(pool, function, n):
    """Run it n times, by tasks and by threads in turn; the results."""
    calls = [(pool.submit if i % 2 else in_a_thread)(function, i) for i in range(n)]
    return [call.result(WAIT) for call in calls]


@pytest.mark.parametrize("maxsize", [0, 1, 3])
def test_hammer_queue_delivers_each_item_once(make_pool, maxsize):
    """Producers and consumers, tasks and threads, timed and not, over a short queue."""
    pool, q, each = make_pool(1), fjpool.Queue(maxsize), 200

    def work(i):
        got = []
        if i < HAMMERS:
            for k in range(each):
                if k % 3:
                    q.put((i, k))
                else:
                    q.put((i, k), timeout=WAIT)
            return got
        for k in range(each):
            got.append(q.get() if k % 3 else q.get(timeout=WAIT))
            q.task_done()
        return got

    got = [item for part in hammer(pool, work, 2 * HAMMERS) for item in part]
    q.join()
    assert sorted(got) == [(i, k) for i in range(HAMMERS) for k in range(each)]
    assert not any(map(waiters, (q.not_empty, q.not_full, q.all_tasks_done)))


@pytest.mark.parametrize("kind", ["semaphore", "limiter"])
def test_hammer_permits_are_conserved(make_pool, kind):
    """Never more inside than places, with waits that time out in between; none is lost."""
    pool, lock = make_pool(1), threading.Lock()
    gate = fjpool.Semaphore(3) if kind == "semaphore" else fjpool.CapacityLimiter(3)
    inside, most = 0, 0

    def work(i):
        nonlocal inside, most
        entered = 0
        for k in range(100):
            if not (gate.acquire() if k % 2 else gate.acquire(timeout=0.0002 * (k % 5))):
                continue
            with lock:
                inside += 1
                most = max(most, inside)
            if k % 10 == 0:
                fjpool.sleep(0.0002)
            with lock:
                inside -= 1
            entered += 1
            gate.release()
        return entered

    entered = hammer(pool, work, 2 * HAMMERS)
    assert min(entered) >= 50
    assert (inside, most <= 3) == (0, True)
    for _ in range(3):
        assert gate.acquire(timeout=0)
    assert not gate.acquire(timeout=0)


def test_hammer_stop_requests_and_releases(make_pool):
    """Tasks that wait for permits and items are stopped at random: none of either is lost."""
    pool, semaphore, q = make_pool(1), fjpool.Semaphore(0), fjpool.Queue()
    n = 60

    def take(_):
        semaphore.acquire()
        return q.get()

    for _ in range(3):
        takers = [pool.submit(take, i) for i in range(n)]

        def give():
            for i in range(n):
                semaphore.release()
                q.put(i)

        def stop():
            for taker in takers[::2]:
                taker.request_cancel()

        race(stop, give)
        results = [outcome(lambda t=t: t.result(WAIT)) for t in takers]
        given = [result for result in results if isinstance(result, int)]
        stopped = [result[0] for result in results if not isinstance(result, int)].count("CancelledError")
        assert len(given) + stopped == n
        assert stopped <= n // 2
        # Whoever was stopped after it had taken its permit left an item behind, not a permit.
        left = [q.get(timeout=WAIT) for _ in range(stopped)]
        assert sorted(given + left) == list(range(n))
        while semaphore.acquire(blocking=False):
            pass
        assert pool.await_quiescence(WAIT)
        assert not waiters(semaphore._cond) and q.empty() and not waiters(q.not_empty)


def test_hammer_barrier_and_condition(make_pool):
    """Eight parties, tasks and threads, meet fifty times; each generation is complete."""
    pool, barrier = make_pool(1), fjpool.Barrier(2 * HAMMERS)
    condition, arrived = fjpool.Condition(), 0

    def work(i):
        nonlocal arrived
        for k in range(50):
            with condition:
                arrived += 1
                condition.notify_all()
                assert condition.wait_for(lambda: arrived >= 2 * HAMMERS * (k + 1), WAIT)
            barrier.wait(WAIT)
        return i

    assert hammer(pool, work, 2 * HAMMERS) == list(range(2 * HAMMERS))
    assert arrived == 50 * 2 * HAMMERS
