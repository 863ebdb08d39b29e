"""ForkJoinPool.dump and dump_on_signal: what each worker is doing, in words."""

import io
import os
import re
import signal
import threading
import weakref
from pathlib import Path

import pytest

import fjpool
from fjpool import _dump, lab
from support import WAIT, Held, eventually, held, output, reach, thread_count

linux = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="the system does not tell")


def workers(pool):
    """The lines of the dump that stand for workers."""
    return [line for line in pool.dump().splitlines() if line.startswith("  ")]


NUMBERS = re.compile(
    r"queued: (?P<tasks>\d+) tasks, (?P<submissions>\d+) submissions\n"
    r"threads: (?P<threads>\d+), spares: (?P<spares>\d+), limit: (?P<limit>\d+), "
    r"reached: (?P<reached>\d+) times, refused by the system: (?P<refused>\d+)\n"
    r"blocked: (?P<announced>\d+) announced, (?P<unannounced>\d+) unannounced, "
    r"detections: (?P<detections>\d+), by: .+$"
)


def numbers(pool):
    """The numbers below the workers, by name."""
    match = NUMBERS.search(pool.dump())
    assert match, pool.dump()
    return {name: int(number) for name, number in match.groupdict().items()}


def somewhere(pool, words):
    """Wait until a worker's line holds these words; return the line."""
    found = []

    def look():
        found[:] = [line for line in workers(pool) if words in line]
        return found

    eventually(look, f"no worker is {words}")
    return found[0]


@pytest.fixture
def pipe():
    """Two descriptors; a read from the first blocks until the second is written to."""
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


# --- the states --------------------------------------------------------------------------------


def test_dump_of_a_new_pool_has_no_worker_lines(make_pool):
    """Only the pool, its queues, its threads and what is blocked."""
    pool = make_pool(2)
    first, *rest = pool.dump().splitlines()
    assert first == repr(pool)
    assert [line.split(":")[0] for line in rest] == ["queued", "threads", "blocked"]


def test_dump_has_one_line_for_each_worker(make_pool):
    """By name, as threading knows them."""
    pool = make_pool(3, "crew")
    with held(pool, 3):
        assert sorted(line.split(":")[0].strip() for line in workers(pool)) == ["crew_0", "crew_1", "crew_2"]


def test_dump_of_an_idle_worker_says_so(pool1):
    """It runs nothing, so there is nothing else to say."""
    pool1.submit(int).result(WAIT)
    assert somewhere(pool1, "idle").endswith("-worker-1: idle")


def test_dump_names_function_file_line_and_time(pool1):
    """The innermost frame of the caller's own code, though it waits in the standard library."""
    started, release = threading.Event(), threading.Event()

    def wait_for_release():
        started.set()
        reach(release)

    pool1.submit(wait_for_release)
    reach(started)
    line = somewhere(pool1, "reach")
    code = reach.__code__
    match = re.fullmatch(r"  [\w-]+: reach \((.+):(\d+)\), \d+\.\d s, .+", line)
    assert match, line
    assert match[1] == code.co_filename
    assert code.co_firstlineno < int(match[2]) < code.co_firstlineno + 10
    release.set()


@linux
def test_dump_of_a_computing_worker_never_says_blocked(pool2):
    """Two that fight for the GIL run or wait for it; that wait is no blocking."""
    begun, release = [], threading.Event()

    def compute():
        begun.append(1)
        while not release.is_set():
            pass

    for _ in range(2):
        pool2.submit(compute)
    eventually(lambda: len(begun) == 2)
    states = {line.rpartition(", ")[2] for _ in range(50) for line in workers(pool2)}
    release.set()
    assert states <= {"running", "waiting for the GIL"}


@linux
def test_dump_in_a_task_shows_it_running(pool1):
    """The worker that asks is the one that runs."""
    (line,) = pool1.submit(workers, pool1).result(WAIT)
    assert "workers (" in line
    assert line.endswith(" running")


def test_dump_of_a_join_names_the_task(pool2):
    """A worker that waits for a task which another one runs."""
    body = Held()

    class Slow(fjpool.RecursiveTask):
        def compute(self):
            return body()

    def parent():
        child = Slow().fork()
        reach(body.started)
        return child.join()

    future = pool2.submit(parent)
    line = somewhere(pool2, "joining")
    assert re.search(r"parent \(.+\), \d+\.\d s, joining <Slow at 0x[0-9a-f]+ state=running>$", line)
    body.release.set()
    future.result(WAIT)


def test_dump_of_a_managed_block_says_so(pool1):
    """Whatever is inside."""
    body = Held()

    def announced():
        with fjpool.managed_block():
            body()

    pool1.submit(announced)
    reach(body.started)
    assert "managed-blocked" in somewhere(pool1, "managed-blocked")
    assert numbers(pool1)["unannounced"] == 0
    body.release.set()


@pytest.mark.parametrize("primitive", ["latch", "queue", "event", "semaphore", "sleep", "limiter"])
def test_dump_of_a_primitive_says_managed_and_names_the_caller(pool1, primitive):
    """fjpool's own waits are announced; the line shows who waits, not the inside of the primitive."""
    latch, queue, event = fjpool.Latch(1), fjpool.Queue(), fjpool.Event()
    semaphore, limiter = fjpool.Semaphore(0), fjpool.CapacityLimiter(1)
    limiter.acquire()

    def caller():
        {
            "latch": lambda: latch.wait(WAIT),
            "queue": lambda: queue.get(timeout=WAIT),
            "event": lambda: event.wait(WAIT),
            "semaphore": lambda: semaphore.acquire(timeout=WAIT),
            "sleep": lambda: fjpool.sleep(WAIT),
            "limiter": lambda: limiter.acquire(WAIT),
        }[primitive]()

    future = pool1.submit(caller)
    line = somewhere(pool1, "managed-blocked")
    assert f"({__file__}:" in line
    future.request_cancel()
    fjpool.wait([future], WAIT)


@linux
@pytest.mark.parametrize("blocking", ["auto", "announced"])
def test_dump_names_the_system_call_of_an_unannounced_block(make_pool, pipe, blocking):
    """With work queued behind it or not, and whether or not the pool looks out for it."""
    pool = make_pool(1, blocking=blocking)

    def reader():
        return os.read(pipe[0], 1)

    future = pool.submit(reader)
    line = somewhere(pool, "blocked unannounced in read")
    assert re.search(r"reader \(.+:\d+\), \d+\.\d s, blocked unannounced in read$", line)
    behind = pool.submit(int)
    if blocking == "auto":
        behind.result(WAIT)
        assert numbers(pool)["detections"] >= 1
    assert somewhere(pool, "blocked unannounced in read")
    os.write(pipe[1], b"x")
    assert future.result(WAIT) == b"x"


@linux
def test_dump_of_a_c_function_shows_its_task(pool1, pipe):
    """There is no Python code to name."""
    pool1.submit(os.read, pipe[0], 1)
    assert ": no Python code, for <Future at 0x" in somewhere(pool1, "blocked unannounced in read")
    os.write(pipe[1], b"x")


@linux
def test_dump_of_a_native_leaf_says_so(pool1):
    """A worker that runs a leaf has neither a frame nor a task."""
    seen = threading.Event()

    def leaves():
        while not seen.is_set():
            pool1.parallel_for(lab.sleep, 1, data=(20_000_000).to_bytes(8, "little"))

    thread = threading.Thread(target=leaves)
    thread.start()
    try:
        somewhere(pool1, ": a native leaf, ")
    finally:
        seen.set()
        thread.join(WAIT)


# --- the numbers -------------------------------------------------------------------------------


def test_dump_counts_queues_spares_and_the_limit(make_pool):
    """p=1 with one spare allowed: two announced waits use both threads, a third task is queued."""
    pool = make_pool(1, max_workers=2, saturate=lambda pool: True)
    bodies = [Held(), Held()]

    def announced(body):
        with fjpool.managed_block():
            body()

    first = pool.submit(announced, bodies[0])
    reach(bodies[0].started)
    second = pool.submit(announced, bodies[1])
    reach(bodies[1].started)
    found = numbers(pool)
    assert (found["threads"], found["spares"], found["limit"], found["submissions"]) == (2, 1, 2, 0)
    third = pool.submit(int)
    found = numbers(pool)
    assert (found["tasks"], found["submissions"], found["announced"]) == (0, 1, 2)
    for body in bodies:
        body.release.set()
    fjpool.wait([first, second, third], WAIT)


def test_dump_counts_how_often_the_limit_was_reached(make_pool):
    """Each worker that blocks with work queued and no thread to be had."""
    pool = make_pool(1, max_workers=1)
    body = Held()

    def announced():
        reach(queued)
        with fjpool.managed_block():
            body()

    queued = threading.Event()
    future = pool.submit(announced)
    pool.submit(int)
    queued.set()
    reach(body.started)
    assert numbers(pool)["reached"] == 1
    body.release.set()
    future.result(WAIT)


def test_dump_of_a_terminated_pool_has_no_workers(make_pool):
    """It is no error to ask."""
    pool = make_pool(1)
    pool.submit(int).result(WAIT)
    pool.shutdown()
    assert workers(pool) == []
    assert "Terminated" in pool.dump()


# --- system calls ------------------------------------------------------------------------------


def test_call_names_know_both_machines():
    """The numbers differ, the names do not; of other machines there are none."""
    assert _dump.call_names("x86_64")[230] == _dump.call_names("aarch64")[115] == "clock_nanosleep"
    assert _dump.call_names("x86_64")[45] == _dump.call_names("aarch64")[207] == "recvfrom"
    assert _dump.call_names("riscv64") == {}


@pytest.mark.parametrize(
    "machine, header",
    [
        ("x86_64", "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
        ("aarch64", "/usr/include/asm-generic/unistd.h"),
    ],
)
def test_call_names_are_the_kernels(machine, header):
    """Compared with its headers, where they are installed."""
    if not Path(header).is_file():
        pytest.skip(f"no {header}")
    defined = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", Path(header).read_text())
    assert {(name, str(number)) for number, name in _dump.call_names(machine).items()} <= set(defined)


# --- on a signal -------------------------------------------------------------------------------


@pytest.fixture
def usr1():
    """The signal to use; what handled it before does so again afterwards."""
    before = signal.getsignal(signal.SIGUSR1)
    yield signal.SIGUSR1
    signal.signal(signal.SIGUSR1, before)


def test_dump_on_signal_writes_every_live_pool(make_pool, usr1):
    """Private pools and the common pool, each as its dump() says, but none that has ended."""
    text = io.StringIO()
    one, two, ended = make_pool(1, "one"), make_pool(2, "two"), make_pool(3, "three")
    for pool in (one, two, ended, fjpool.common_pool()):
        pool.submit(int).result(WAIT)
    ended.shutdown()
    fjpool.dump_on_signal(usr1, text)
    signal.raise_signal(usr1)
    for name in ("  one_0: ", "  two_0: ", "  ForkJoinPool.commonPool-worker-"):
        assert name in text.getvalue()
    assert "three_0" not in text.getvalue()
    assert text.getvalue().endswith("\n")


def test_dump_on_signal_returns_what_undoes_it(usr1):
    """As signal.signal does: the handler before, which is not called meanwhile."""
    called, text = [], io.StringIO()
    signal.signal(usr1, lambda *_: called.append(1))
    previous = fjpool.dump_on_signal(usr1, text)
    signal.raise_signal(usr1)
    assert (called, text.getvalue() != "") == ([], True)
    signal.signal(usr1, previous)
    size = len(text.getvalue())
    signal.raise_signal(usr1)
    assert (called, len(text.getvalue())) == ([1], size)


def test_dump_on_signal_takes_a_descriptor(usr1, pipe):
    """An int, or a file that has one, is written to directly."""
    with os.fdopen(pipe[1], "w", closefd=False) as file:
        for target in (pipe[1], file):
            fjpool.dump_on_signal(usr1, target)
            signal.raise_signal(usr1)
            assert os.read(pipe[0], 1 << 16).endswith(b"\n")


def test_dump_on_signal_leaves_the_main_thread_alone_when_it_cannot_write(usr1, tmp_path):
    """A file closed since is no error in whatever the signal interrupts."""
    with open(tmp_path / "dump", "w") as file:
        fjpool.dump_on_signal(usr1, file)
    signal.raise_signal(usr1)


@pytest.mark.parametrize("signum", ["SIGUSR1", None, 10.0])
def test_dump_on_signal_wants_a_number(signum):
    """The error names the argument."""
    with pytest.raises(TypeError, match="signum must be the number of a signal"):
        fjpool.dump_on_signal(signum)


@pytest.mark.parametrize("signum", [-1, 0, 10_000, signal.SIGKILL, signal.SIGSTOP, signal.SIGSEGV])
def test_dump_on_signal_refuses_what_no_handler_can_serve(signum):
    """No signal, or one that Python code cannot or must not handle."""
    with pytest.raises(ValueError, match=r"signum must be|cannot be used"):
        fjpool.dump_on_signal(signum)


@pytest.mark.parametrize(
    "file, error", [("path", TypeError), (2.0, TypeError), (True, TypeError), (-1, ValueError)]
)
def test_dump_on_signal_refuses_what_is_no_file(usr1, file, error):
    """And the handler stays what it was."""
    before = signal.getsignal(usr1)
    with pytest.raises(error, match="file must be"):
        fjpool.dump_on_signal(usr1, file)
    assert signal.getsignal(usr1) is before


def test_dump_on_signal_is_for_the_main_thread(usr1):
    """Elsewhere it is the standard library's ValueError."""
    errors = []

    def elsewhere():
        with pytest.raises(ValueError, match="main thread"):
            fjpool.dump_on_signal(usr1)
        errors.append(1)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join(WAIT)
    assert errors


def test_dump_on_signal_writes_to_stderr_by_default():
    """To the one that sys has when the signal comes."""
    printed = output(
        """
        import io, signal
        fjpool.dump_on_signal(signal.SIGUSR1)
        sys.stderr = io.StringIO()
        pool = fjpool.ForkJoinPool(1)
        signal.raise_signal(signal.SIGUSR1)
        print(sys.stderr.getvalue() == pool.dump() + "\\n")
        sys.stderr = None
        signal.raise_signal(signal.SIGUSR1)
        """
    )
    assert printed == "True\n"


@pytest.mark.parametrize(
    "wait",
    [
        "future.result(WAIT)",
        "future.join()",
        "fjpool.wait([future], WAIT)",
        "latch.wait(WAIT)",
        "pool.await_quiescence(WAIT)",
        "dumped.wait(WAIT)",
    ],
)
def test_dump_on_signal_comes_while_the_main_thread_waits(wait):
    """The wait ends only because the dump was written in the middle of it."""
    printed = output(
        f"""
        import signal, time
        class File:
            def write(self, text):
                print("managed-blocked" in text)
                latch.count_down()
                dumped.set()
        latch, dumped = fjpool.Latch(1), threading.Event()
        def task():
            with fjpool.managed_block():
                reach(dumped)
        fjpool.dump_on_signal(signal.SIGUSR1, File())
        with fjpool.ForkJoinPool(1) as pool:
            future = pool.submit(task)
            def send():
                eventually(lambda: pool._blocked == 1)
                os.kill(os.getpid(), signal.SIGUSR1)
            threading.Thread(target=send).start()
            {wait}
            print(dumped.is_set())
        """
    )
    assert printed == "True\nTrue\n"


def test_dump_on_signal_in_a_forked_child_shows_the_childs_pools():
    """Not those of the parent; and without any it says so."""
    printed = output(
        """
        import signal, warnings
        pool = fjpool.ForkJoinPool(1, "parent")
        pool.submit(int).result(WAIT)
        fjpool.dump_on_signal(signal.SIGUSR1, sys.stdout)
        warnings.simplefilter("ignore")  # 3.12 and later warn of forking beside threads
        child = os.fork()
        if child == 0:
            signal.alarm(10)
            signal.raise_signal(signal.SIGUSR1)
            with fjpool.ForkJoinPool(1, "child") as pool:
                pool.submit(int).result(WAIT)
                signal.raise_signal(signal.SIGUSR1)
            os._exit(0)
        os.waitpid(child, 0)
        """
    )
    first, *rest = printed.splitlines()
    assert first == "no fjpool.ForkJoinPool in this process"
    assert any(line.startswith("  child_0: ") for line in rest)
    assert "parent_0" not in printed


def test_dump_on_signal_keeps_no_pool_alive(usr1):
    """A pool that is dropped goes, and its threads with it."""
    fjpool.dump_on_signal(usr1, io.StringIO())
    before = thread_count()
    pool = fjpool.ForkJoinPool(1)
    pool.submit(int).result(WAIT)
    signal.raise_signal(usr1)
    gone = weakref.ref(pool)
    del pool
    eventually(lambda: gone() is None and thread_count() <= before)
    signal.raise_signal(usr1)


def test_import_leaves_dump_alone():
    """It is imported when somebody asks for one."""
    assert output("print('fjpool._dump' in sys.modules)") == "False\n"
