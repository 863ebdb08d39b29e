"""The monitor: workers that block without saying so are found, and nobody is mistaken for one.

That it waits exactly so long, and how it grows, is tested in C, where time is made up
(csrc/test/test_monitor.c). Here are real threads, real system calls and a real interpreter.
"""

import array
import concurrent.futures
import contextlib
import ctypes
import fcntl
import functools
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from queue import Queue

import pytest

import fjpool
import support
from support import WAIT, Held, eventually, held, output, reach

pytestmark = pytest.mark.skipif(
    not os.path.exists("/proc/self/stat"), reason="blocked threads are found on Linux only"
)

LOOKS = 15
"""Looks of the monitor, each about 20 ms after the one before, after which nothing more happens."""


@pytest.fixture
def make_pool(make_pool):
    """Pools that find who blocks without saying so, as they are by default."""
    return functools.partial(make_pool, blocking="auto")


def counts(pool):
    return pool.active_count, pool._blocked, pool._unannounced


def check_quiet(pool):
    """The counts of a pool that has nothing to do."""
    assert pool.await_quiescence(WAIT)
    eventually(lambda: counts(pool) == (0, 0, 0))


# --- the monitor's own thread --------------------------------------------------------------------


def monitors():
    """Thread ids of all monitors of this process."""
    found = set()
    for tid in os.listdir("/proc/self/task"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            with open(f"/proc/self/task/{tid}/comm") as file:
                if file.read() == "fjpool-monitor\n":
                    found.add(tid)
    return found


def times_asleep(tid):
    """How often the thread has gone to sleep so far."""
    with open(f"/proc/self/task/{tid}/status") as file:
        return int(file.read().split("\nvoluntary_ctxt_switches:")[1].split()[0])


def seconds_run(tid):
    with open(f"/proc/self/task/{tid}/schedstat") as file:
        return int(file.read().split()[0]) * 1e-9


class Watched:
    """A pool whose monitor is known by its thread id."""

    def __init__(self, pool):
        self.pool, self.before, self.tid = pool, monitors(), None

    def find(self):
        def one():
            new = monitors() - self.before
            return len(new) == 1 and new

        eventually(one, "no monitor came")
        (self.tid,) = one()
        return self

    def await_looks(self, n=LOOKS):
        """Until it has looked that often; it sleeps between looks."""
        start = times_asleep(self.tid)
        eventually(lambda: times_asleep(self.tid) >= start + n, "the monitor does not look", pause=0.02)


def test_thread_comes_with_work_behind_busy_workers_and_goes_with_the_pool(make_pool):
    """None for an idle pool, none while workers are free; one from then on, until the end."""
    before = monitors()
    pool = make_pool(2)
    assert not pool._monitor
    with held(pool), held(pool):
        assert (pool._monitor, monitors()) == (False, before)
        queued = pool.submit(pow, 2, 3)
        assert pool._monitor
        watched = Watched(pool)
        watched.before = before
        watched.find()
    assert queued.result(WAIT) == 8
    pool.shutdown()
    eventually(lambda: watched.tid not in monitors())
    assert not pool._monitor


def test_thread_of_a_dropped_pool_ends(make_pool):
    """Without a shutdown, when nobody refers to the pool any more."""
    before = monitors()
    pool = fjpool.ForkJoinPool(1)
    with held(pool):
        pool.submit(pow, 2, 3)
        eventually(lambda: monitors() - before)
    del pool
    eventually(lambda: monitors() <= before)


def test_thread_sleeps_while_nothing_is_queued(make_pool):
    """Busy workers, blocked ones, idle ones: without queued work it is not woken a single time."""
    pool = make_pool(2)
    watched = Watched(pool)
    lock = threading.Lock()
    with lock:
        blocked = pool.submit(lock.acquire)
        eventually(lambda: pool.active_count >= 1)
        with held(pool):
            pool.submit(pow, 2, 3).result(WAIT)  # found and replaced: it is awake now
            watched.find()
            for busy in (True, False):
                pause = threading.Event()
                eventually(lambda: times_asleep(watched.tid) == (pause.wait(0.06), times_asleep(watched.tid))[1])
                asleep = times_asleep(watched.tid)
                pause.wait(0.25)
                assert times_asleep(watched.tid) == asleep
                if busy:
                    assert pool._unannounced >= 1
    assert blocked.result(WAIT) is True
    lock.release()
    check_quiet(pool)


def test_no_thread_where_blocking_is_announced(make_pool):
    """blocking="announced": nobody looks, and who blocks without a word is waited for."""
    pool, before, lock = make_pool(1, blocking="announced"), monitors(), threading.Lock()
    with lock:
        blocked = pool.submit(lock.acquire)
        queued = pool.submit(pow, 2, 3)
        assert not blocked.done()
        threading.Event().wait(0.15)
        assert (pool._monitor, pool._detections, pool.pool_size) == (False, 0, 1)
        assert monitors() == before
        assert not queued.done()
    assert queued.result(WAIT) == 8
    lock.release()


# --- noticed -------------------------------------------------------------------------------------


def block_in_lock():
    lock = threading.Lock()
    lock.acquire()
    return lock.acquire, lock.release


def block_in_lock_with_timeout():
    lock = threading.Lock()
    lock.acquire()
    return lambda: lock.acquire(timeout=WAIT), lock.release


def block_in_rlock():
    lock, taken, free = threading.RLock(), threading.Event(), threading.Event()

    def owner():
        with lock:
            taken.set()
            free.wait(WAIT)

    threading.Thread(target=owner, daemon=True).start()
    taken.wait(WAIT)
    return lock.acquire, free.set


def block_in_event():
    event = threading.Event()
    return lambda: event.wait(WAIT), event.set


def block_in_condition():
    condition = threading.Condition()

    def block():
        with condition:
            return condition.wait(WAIT)

    def release():
        with condition:
            condition.notify()

    return block, release


def block_in_queue():
    queue = Queue()
    return lambda: queue.get() == "item", lambda: queue.put("item")


def block_in_barrier():
    barrier = threading.Barrier(2)
    return lambda: barrier.wait(WAIT) in (0, 1), lambda: barrier.wait(WAIT)


def block_in_thread_join():
    event = threading.Event()
    thread = threading.Thread(target=event.wait, args=(WAIT,))
    thread.start()
    return lambda: thread.join() is None, event.set


def block_in_standard_future():
    future = concurrent.futures.Future()
    return future.result, lambda: future.set_result(True)


def block_in_another_executor():
    executor, event = concurrent.futures.ThreadPoolExecutor(1), threading.Event()
    future = executor.submit(event.wait, WAIT)
    executor.shutdown(wait=False)
    return future.result, event.set


def block_in_recv():
    ours, theirs = socket.socketpair()
    return lambda: ours.recv(1) == b"x", lambda: theirs.send(b"x")


def block_in_accept():
    listener = socket.create_server(("127.0.0.1", 0))

    def block():
        with listener, listener.accept()[0]:
            return True

    return block, lambda: socket.create_connection(listener.getsockname()).close()


def block_in_select():
    ours, theirs = socket.socketpair()
    return lambda: select.select([ours], [], [])[0] == [ours], lambda: theirs.send(b"x")


def block_in_pipe():
    reader, writer = os.pipe()
    return lambda: os.read(reader, 1) == b"x", lambda: os.write(writer, b"x")


def block_in_subprocess():
    reader, writer = os.pipe()

    def block():
        return subprocess.run(["cat"], stdin=reader, stdout=subprocess.DEVNULL).returncode == 0

    return block, lambda: os.close(writer)


def block_in_subprocess_output():
    reader, writer = os.pipe()

    def block():
        return subprocess.run(["cat"], stdin=reader, capture_output=True).stdout == b"x"

    return block, lambda: (os.write(writer, b"x"), os.close(writer))


def block_in_flock():
    ours, theirs = tempfile.TemporaryFile(), None
    theirs = open(f"/proc/self/fd/{ours.fileno()}", "rb")
    fcntl.flock(ours, fcntl.LOCK_EX)
    return (
        lambda: fcntl.flock(theirs, fcntl.LOCK_EX) is None,
        lambda: fcntl.flock(ours, fcntl.LOCK_UN),
    )


def block_in_ctypes():
    """A C function that is called without the GIL and blocks."""
    libc = ctypes.CDLL(None, use_errno=True)
    reader, writer = os.pipe()
    byte = ctypes.create_string_buffer(1)
    return lambda: libc.read(reader, byte, 1) == 1, lambda: os.write(writer, b"x")


BLOCKS = [value for name, value in sorted(globals().items()) if name.startswith("block_in_")]


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # sockets and files end with their test
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("kind", BLOCKS, ids=lambda kind: kind.__name__[9:])
def test_noticed(make_pool, kind, p):
    """All workers block in a way that only ends when what is queued behind them has run."""
    pool = make_pool(p)
    pairs = [kind() for _ in range(p)]
    blocked = [pool.submit(block) for block, _ in pairs]
    released = [pool.submit(release) for _, release in pairs]
    assert all([future.result(WAIT) for future in blocked])
    for future in released:
        future.result(WAIT)
    assert pool._detections >= 1
    check_quiet(pool)
    assert pool.pool_size <= 2 * p


def test_noticed_sleep_of_python_and_of_native_leaves():
    """time.sleep, and a native leaf that sleeps, as a task and in parallel_for; nothing ends those."""
    printed = output(
        """
        import array, time
        from fjpool import lab
        ns = array.array("q", [3600 * 10**9])
        sleeps = {
            "sleep": lambda pool: pool.submit(time.sleep, 3600),
            "leaf": lambda pool: threading.Thread(
                target=pool.parallel_for, args=(lab.sleep, 1), kwargs={"data": ns}, daemon=True
            ).start(),
            "leaves": lambda pool: threading.Thread(
                target=pool.parallel_for, args=(lab.sleep, 16), kwargs={"data": ns}, daemon=True
            ).start(),
            "python leaf": lambda pool: threading.Thread(
                target=pool.parallel_for, args=(lambda lo, hi: time.sleep(3600), 1), daemon=True
            ).start(),
        }
        for name, sleep in sleeps.items():
            for p in (1, 2):
                pool = fjpool.ForkJoinPool(p)
                for _ in range(p):
                    sleep(pool)
                eventually(lambda: pool.running_count >= p)
                print(name, p, pool.submit(pow, 2, 3).result(WAIT), pool._unannounced >= 1)
        sys.stdout.flush()
        os._exit(0)
        """
    )
    names = ("sleep", "leaf", "leaves", "python leaf")
    assert printed.splitlines() == [f"{name} {p} 8 True" for name in names for p in (1, 2)]


@pytest.mark.parametrize("p", [1, 2])
def test_noticed_native_leaf_that_waits(make_pool, p):
    """A C function, run as a leaf without a thread state, that waits for what a task will do."""
    libc, pool = ctypes.CDLL(None), make_pool(p)
    semaphores = [(ctypes.c_byte * 64)() for _ in range(p)]
    wait = libc.sem_wait
    wait.argtypes, wait.restype = [ctypes.c_int64, ctypes.c_int64], None
    loops = []
    for semaphore in semaphores:
        assert libc.sem_init(semaphore, 0, 0) == 0
        address = ctypes.addressof(semaphore)
        loops.append(
            threading.Thread(target=pool.parallel_for, args=(wait, address, address + 1), daemon=True)
        )
        loops[-1].start()
    eventually(lambda: pool.running_count == p)
    for semaphore in semaphores:
        assert pool.submit(libc.sem_post, semaphore).result(WAIT) == 0
    for loop in loops:
        loop.join(WAIT)
        assert not loop.is_alive()
    assert pool._detections >= 1
    check_quiet(pool)


def test_noticed_after_a_long_computation(make_pool):
    """A task that computes for more than a second and then blocks is found like any other."""
    pool, event = make_pool(1), threading.Event()

    def computes_then_blocks():
        end = time.monotonic() + 1.3
        while time.monotonic() < end:
            pass
        return event.wait(WAIT)

    blocked = pool.submit(computes_then_blocks)
    pool.submit(event.set)
    assert blocked.result(WAIT) is True
    check_quiet(pool)


def test_noticed_again_and_again(make_pool):
    """A task that blocks several times, with work of its own in between."""
    pool = make_pool(1)

    def body():
        for _ in range(5):
            block, release = block_in_event()
            pool.submit(release)
            assert block()
            sum(range(20_000))
        return True

    assert pool.submit(body).result(WAIT) is True
    assert pool._detections >= 1
    check_quiet(pool)


def test_noticed_in_the_common_pool():
    """There as well, which has one worker fewer than CPUs."""
    printed = output(
        """
        event = threading.Event()
        blocked = fjpool.submit(event.wait, WAIT)
        released = fjpool.submit(event.set)
        print(blocked.result(WAIT), fjpool.common_pool()._detections >= 1)
        """,
        env={"FJPOOL_COMMON_PARALLELISM": "1"},
    )
    assert printed == "True True\n"


def test_noticed_beside_announced_blocks(make_pool):
    """Both kinds of blocked workers count, and both come back."""
    pool, announced, event = make_pool(2), threading.Event(), threading.Event()

    def says_so():
        with fjpool.managed_block():
            return announced.wait(WAIT)

    first, second = pool.submit(says_so), pool.submit(event.wait, WAIT)
    third = pool.submit(event.wait, WAIT)
    eventually(lambda: pool.active_count >= 1)
    fourth, fifth = pool.submit(event.set), pool.submit(announced.set)
    for future in (first, second, third):
        assert future.result(WAIT) is True
    for future in (fourth, fifth):
        future.result(WAIT)
    check_quiet(pool)


# --- how many stand in ---------------------------------------------------------------------------


class Blockers:
    """Tasks that each wait for a lock of their own; leaving the block frees them."""

    def __init__(self, pool, n):
        self.pool, self.locks = pool, [threading.Lock() for _ in range(n)]
        self.begun = threading.Semaphore(0)

    def task(self, lock):
        self.begun.release()
        return lock.acquire()

    def __enter__(self):
        for lock in self.locks:
            lock.acquire()
        self.futures = [self.pool.submit(self.task, lock) for lock in self.locks]
        return self

    def __exit__(self, *_):
        for lock in self.locks:
            lock.release()
        for future in self.futures:
            assert future.result(WAIT) is True

    @property
    def running(self):
        return sum(future.running() for future in self.futures)


def test_growth_lets_sixty_six_blocks_overlap(make_pool):
    """Two workers and 64 spares, and not one more, until the blocks end."""
    pool = make_pool(2)
    watched = Watched(pool)
    with Blockers(pool, 100) as blockers:
        watched.find()
        eventually(lambda: blockers.running >= 66)
        watched.await_looks(5)
        assert (blockers.running, pool.pool_size) == (66, 66)
        assert pool._unannounced <= 64
    check_quiet(pool)
    assert pool.pool_size <= 66


@pytest.mark.parametrize(
    "options, threads",
    [
        ({"max_unannounced": 0}, 2),
        ({"max_unannounced": 3}, 5),
        ({"max_workers": 4}, 4),
        ({"max_workers": 2}, 2),
    ],
    ids=str,
)
def test_growth_respects_limits(make_pool, options, threads):
    """max_unannounced spares beyond the parallelism, and never more than max_workers threads."""
    pool = make_pool(2, **options)
    watched = Watched(pool)
    with Blockers(pool, 20) as blockers:
        watched.find()
        eventually(lambda: blockers.running == threads)
        watched.await_looks(8)
        assert (blockers.running, pool.pool_size) == (threads, threads)
        assert pool._unannounced <= threads
    check_quiet(pool)
    assert pool.pool_size <= threads


def test_growth_stops_at_a_crowd(make_pool):
    """200 tasks in front of one lock, held 30 ms at a time, need no more than eight threads."""
    pool, lock, done, pause = make_pool(2), threading.Lock(), threading.Event(), threading.Event()
    taken = 0

    def task():
        nonlocal taken
        with lock:
            if not done.is_set():
                taken += 1
                pause.wait(0.03)

    tasks = [pool.submit(task) for _ in range(200)]
    eventually(lambda: taken >= 60)
    done.set()
    for future in tasks:
        future.result(WAIT)
    assert pool.pool_size <= 8
    check_quiet(pool)


def test_growth_is_taken_back_when_somebody_computes(make_pool):
    """After a storm of blocks, as many tasks run at a time as the parallelism says."""
    pool, inside, numbers = make_pool(2), [], []

    def computes():
        inside.append(1)  # no lock: whoever waits for one may well be found blocked
        numbers.append(len(inside))
        end = time.thread_time() + 0.002
        while time.thread_time() < end:
            pass
        inside.pop()

    with Blockers(pool, 30) as blockers:
        eventually(lambda: blockers.running == 30)
    check_quiet(pool)
    for future in [pool.submit(computes) for _ in range(60)]:
        future.result(WAIT)
    assert max(numbers) <= 2
    assert pool._unannounced == 0
    check_quiet(pool)


def test_spares_of_unannounced_blocks_leave(make_pool):
    """After keep_alive, as those of announced ones do."""
    pool = make_pool(1, keep_alive=0.02)
    with Blockers(pool, 6) as blockers:
        eventually(lambda: blockers.running == 6)
    eventually(lambda: pool.pool_size == 0)
    assert pool.submit(pow, 2, 3).result(WAIT) == 8


# --- not mistaken --------------------------------------------------------------------------------


@contextlib.contextmanager
def not_mistaken(pool, workers):
    """Around a test whose tasks keep all workers busy: with work queued, nobody is found blocked."""
    watched = Watched(pool)
    queued = pool.submit(pow, 2, 3)
    yield
    watched.find()
    begin, ran = time.monotonic(), seconds_run(watched.tid)
    watched.await_looks()
    ran, took = seconds_run(watched.tid) - ran, time.monotonic() - begin
    assert not queued.done()
    assert (pool._detections, pool._unannounced, pool.pool_size) == (0, 0, workers)
    assert ran < 0.01 * took, f"the monitor ran for {ran / took:.2%} of the time"


class Spinning:
    """Pure Python that computes until told to stop."""

    def __init__(self):
        self.stop = False
        self.started = threading.Semaphore(0)

    def __call__(self):
        self.started.release()
        while not self.stop:
            sum(range(100))


@pytest.mark.parametrize("others", [0, 3], ids=["alone", "among threads"])
@pytest.mark.parametrize("p", [1, 4])
def test_not_mistaken_python_that_computes(make_pool, p, others):
    """Alone, or fighting for the GIL with each other and with threads outside."""
    pool, spin = make_pool(p), Spinning()
    threads = [threading.Thread(target=spin) for _ in range(others)]
    try:
        for thread in threads:
            thread.start()
        futures = [pool.submit(spin) for _ in range(p)]
        for _ in range(p + others):
            reach(spin.started)
        with not_mistaken(pool, p):
            pass
    finally:
        spin.stop = True
    for future in futures:
        future.result(WAIT)
    for thread in threads:
        thread.join(WAIT)
    assert pool.await_quiescence(WAIT)
    assert pool._detections == 0


@pytest.mark.parametrize("operation", ["sort", "sin"])
def test_not_mistaken_numpy_at_full_load(make_pool, operation):
    """Calls that release the GIL, long and short."""
    numpy = pytest.importorskip("numpy")
    pool, spin = make_pool(2), Spinning()
    values = numpy.random.default_rng(1).random((400, 400))

    def body():
        spin.started.release()
        while not spin.stop:
            if operation == "sort":
                numpy.sort(values, axis=None)
            else:
                numpy.sin(values)

    try:
        futures = [pool.submit(body) for _ in range(2)]
        for _ in range(2):
            reach(spin.started)
        with not_mistaken(pool, 2):
            pass
    finally:
        spin.stop = True
    for future in futures:
        future.result(WAIT)


def test_not_mistaken_native_leaves_at_full_load(make_pool):
    """Half a second of leaves that compute, with more of them queued all the time."""
    from fjpool import lab

    pool = make_pool(2)
    data = array.array("q", [1_000_000])
    pool.parallel_for(lab.spin, 800, chunksize=1, data=data)
    assert pool._leaves >= 800
    assert (pool._detections, pool.pool_size <= 2) == (0, True)


# The others end by themselves, also when nobody is left to end them.
NICE = """
    import array, subprocess, time
    from fjpool import lab
    BUSY = "import sys, time; sys.stdin.read(1); end = time.monotonic() + 3\\nwhile time.monotonic() < end: pass"
    others = [subprocess.Popen([sys.executable, "-S", "-c", BUSY], stdin=subprocess.PIPE) for _ in range(12)]
    os.nice(19)
    stop, started = False, threading.Semaphore(0)
    def spin():
        started.release()
        while not stop:
            sum(range(100))
    python, native = fjpool.ForkJoinPool(2), fjpool.ForkJoinPool(2)
    for _ in range(3):
        python.submit(spin)
    leaves = threading.Thread(
        target=native.parallel_for, args=(lab.spin, 1_000),
        kwargs={"data": array.array("q", [1_000_000]), "chunksize": 1},
    )
    leaves.start()
    for _ in range(2):
        reach(started)
    eventually(lambda: python._monitor and native._monitor)
    begin = time.monotonic()
    for other in others:
        other.stdin.close()
    for other in others:
        other.wait()
    assert time.monotonic() - begin >= 2, "the others did not compete"
    print([(pool._detections, pool.pool_size) for pool in (python, native)])
    stop = True
    leaves.join()
"""


def test_not_mistaken_when_starved_of_cpu():
    """At nice 19 beside twelve busy processes, workers that could run hardly ever do."""
    assert output(NICE, timeout=60) == "[(0, 2), (0, 2)]\n"


def test_not_mistaken_with_a_long_switch_interval():
    """A thread may wait a second for the GIL: set before the pool is made, or afterwards."""
    printed = output(
        """
        stop, started = False, []
        def spin():
            started.append(1)  # no lock: who waits for one is blocked, its holder may wait for the GIL
            while not stop:
                sum(range(100))
        first = fjpool.ForkJoinPool(2)
        sys.setswitchinterval(0.3)
        second = fjpool.ForkJoinPool(2)
        for pool in (first, second):
            for _ in range(3):
                pool.submit(spin)
        eventually(lambda: len(started) == 4)
        for _ in range(3):
            threading.Event().wait(0.1)  # each time this thread waits for the GIL
        print([(bool(p._monitor), p._detections, p.pool_size) for p in (first, second)])
        stop = True
        """,
        timeout=60,
    )
    assert printed == "[(True, 0, 2), (True, 0, 2)]\n"


CHILD = """
    stop, started = False, []
    def spin():
        started.append(1)
        while not stop:
            sum(range(100))
    pool = fjpool.ForkJoinPool(2)
    for _ in range(3):
        pool.submit(spin)
    eventually(lambda: len(started) == 2)
    eventually(lambda: pool._monitor)
    print(" ".join(str(row[3]) for row in pool._worker_states()), flush=True)
    sys.stdin.readline()
    print(pool._detections, pool.pool_size, flush=True)
    stop = True
"""


@contextlib.contextmanager
def computing_child():
    """A process whose pool of two computes, with a task queued: (the process, its workers' ids)."""
    code = support.PREAMBLE.format(tests=os.path.dirname(support.__file__)) + textwrap.dedent(CHILD)
    with subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        try:
            yield child, [int(tid) for tid in child.stdout.readline().split()]
            child.stdin.write("\n")
            child.stdin.flush()
            assert child.stdout.readline() == "0 2\n"
            assert child.wait(WAIT) == 0
        finally:
            child.kill()


def test_not_mistaken_when_stopped_and_continued():
    """A process that is stopped for a while (Ctrl-Z, a debugger) finds nobody blocked afterwards."""
    with computing_child() as (child, _):
        for seconds in (0.03, 0.1, 0.3):
            child.send_signal(signal.SIGSTOP)
            threading.Event().wait(seconds)
            child.send_signal(signal.SIGCONT)
            threading.Event().wait(0.1)


SEIZE, INTERRUPT, DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000


def test_not_mistaken_when_a_worker_is_stopped_by_a_tracer():
    """One worker alone is held by ptrace, while the monitor goes on looking."""
    libc = ctypes.CDLL(None, use_errno=True)

    def ptrace(request, tid):
        arguments = (ctypes.c_long(request), ctypes.c_long(tid), None, None)
        return libc.ptrace(*arguments)

    with computing_child() as (_, workers):
        for tid in workers:
            if ptrace(SEIZE, tid) != 0:
                pytest.skip(f"ptrace is not allowed here: {os.strerror(ctypes.get_errno())}")
            try:
                assert ptrace(INTERRUPT, tid) == 0
                os.waitpid(tid, WALL)
                with open(f"/proc/{tid}/stat") as file:
                    assert file.read().rsplit(") ", 1)[1][0] == "t"
                threading.Event().wait(0.3)
            finally:
                ptrace(DETACH, tid)
            threading.Event().wait(0.1)


# --- fork ----------------------------------------------------------------------------------------


def test_fork_while_workers_are_blocked():
    """The child has none of the workers and makes pools of its own; the parent goes on."""
    printed = output(
        """
        import signal
        pool = fjpool.ForkJoinPool(2)
        event, lock = fjpool.Event(), threading.Lock()
        with lock:
            announced = [pool.submit(event.wait) for _ in range(2)]
            blocked = [pool.submit(lock.acquire, timeout=WAIT) for _ in range(2)]
            eventually(lambda: pool._blocked == 2 and pool.running_count == 2)
            queued = pool.submit(pow, 2, 3)
            assert queued.result(WAIT) == 8
            assert pool._unannounced >= 1
            child = os.fork()
            if child == 0:
                signal.alarm(20)
                event.set()  # nobody is there to wake
                with fjpool.ForkJoinPool(1) as mine:
                    other = threading.Event()
                    first = mine.submit(other.wait, WAIT)  # found by a monitor of its own
                    mine.submit(other.set)
                    ok = first.result(WAIT) and mine._detections >= 1
                ok = ok and fjpool.submit(pow, 2, 3).result(WAIT) == 8
                try:
                    pool.submit(pow, 2, 3)
                except RuntimeError as error:
                    ok = ok and "fork" in str(error)
                os._exit(0 if ok else 1)
            print(os.waitpid(child, 0)[1])
            event.set()
            for future in announced:
                assert future.result(WAIT) is True
        for future in fjpool.as_completed(blocked, WAIT):  # either may get the lock first
            if future.result():
                lock.release()
        assert pool.await_quiescence(WAIT)
        eventually(lambda: (pool.active_count, pool._blocked, pool._unannounced) == (0, 0, 0))
        print("parent goes on")
        """,
        options=("-W", "ignore::DeprecationWarning"),
    )
    assert printed == "0\nparent goes on\n"


def test_shutdown_with_marked_workers(make_pool):
    """A pool ends in each way while workers are taken for blocked."""
    for end in ("shutdown", "shutdown_now"):
        pool = make_pool(1)
        block, release = block_in_lock()
        blocked = pool.submit(block)
        assert pool.submit(pow, 2, 3).result(WAIT) == 8
        assert pool._unannounced == 1
        if end == "shutdown":
            pool.shutdown(wait=False)
        else:
            pool.shutdown_now()
        assert not pool.await_termination(0.05)
        release()
        assert blocked.result(WAIT) is True
        assert pool.await_termination(WAIT)
        assert (counts(pool), pool.pool_size, pool._monitor) == ((0, 0, 0), 0, False)


def test_held_tasks_of_other_tests_are_no_burden(make_pool):
    """Quick pools that come and go, each with a blocked worker, leave no monitor behind."""
    before = monitors()
    for _ in range(10):
        with fjpool.ForkJoinPool(1) as pool:
            body = Held()
            pool.submit(body)
            pool.submit(body.release.set)
    eventually(lambda: monitors() <= before)
