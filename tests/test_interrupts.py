"""Ctrl-C: one is enough, it takes back what the interrupted call submitted, and nothing else.

That a wait ends at all is shown for `result`, `join`, `map`, `invoke`, `wait` and loops in
test_futures.py, for the primitives in test_primitives.py, for the end of ``with`` in test_pool.py.
"""

import pytest

from support import WAIT, output

pytestmark = pytest.mark.timeout(2 * WAIT)

INTERRUPT = """\
import ctypes, signal
def interrupt_when(ready):
    # In a thread: Ctrl-C, once it is so and the main thread stays where it is.
    main, never = threading.main_thread().ident, threading.Event()
    def place():
        frame = sys._current_frames()[main]
        return frame.f_code, frame.f_lasti
    def stays():
        before = place()
        never.wait(0.02)
        return place() == before
    def run():
        eventually(ready)
        eventually(stays)
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=run, daemon=True).start()
"""

ONE_WORKER = {"FJPOOL_COMMON_PARALLELISM": "1", "FJPOOL_COMMON_MAXIMUM_SPARES": "0"}

TASK = """\
class Mark(fjpool.RecursiveAction):
    def compute(self):
        ran.append("mark")
"""

CALLS = {
    "invoke": "pool.invoke(ran.append, 1)",
    "invoke of a task": "pool.invoke(Mark())",
    "map": "list(pool.map(ran.append, range(5), chunksize=1))",
    "map in chunks": "list(pool.map(ran.append, range(5)))",
    "map out of order": "list(pool.map(ran.append, range(5), ordered=False))",
    "map with a buffer": "list(pool.map(ran.append, range(5), buffersize=2))",
    "starmap": "list(pool.starmap(ran.append, [(1,), (2,)]))",
    "reduce": "pool.reduce(lambda a, b: ran.append(1), range(5), chunksize=2)",
    "loop": "pool.parallel_for(lambda lo, hi: ran.append(lo), 5)",
    "native loop": "pool.parallel_for(native(lambda lo, hi: ran.append(lo)), 5)",
}


@pytest.mark.parametrize("call", CALLS)
def test_ctrl_c_takes_back_what_the_call_submitted(call):
    """None of it starts, what others submitted to the same pool runs, and the pool goes on."""
    printed = output(
        INTERRUPT
        + TASK
        + f"""\
ran = []
native = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)
pool = fjpool.ForkJoinPool(1, blocking="announced")
with held(pool) as body:
    before, after = pool.submit(pow, 2, 3), None
    def ready():
        global after
        if pool.queued_submission_count == 1:
            return False
        after = pool.submit(pow, 2, 4)
        return True
    interrupt_when(ready)
    try:
        {CALLS[call]}
    except KeyboardInterrupt:
        print("interrupted", body.future.done())
print(body.future.result(WAIT), before.result(WAIT), after.result(WAIT))
print(pool.await_quiescence(WAIT), ran, pool.leaf_counts(), pool.invoke(pow, 2, 5))
"""
    )
    assert printed == "interrupted False\nNone 8 16\nTrue [] {} 32\n"


@pytest.mark.parametrize("wait", ["future.result()", "future.exception()", "future.join()", "fjpool.wait([future])"])
def test_ctrl_c_in_a_wait_for_a_future_cancels_nothing(wait):
    """The wait submitted nothing: the future still runs, and can be waited for again."""
    printed = output(
        INTERRUPT
        + f"""\
pool = fjpool.ForkJoinPool(1, blocking="announced")
with held(pool):
    future = pool.submit(pow, 2, 3)
    interrupt_when(lambda: True)
    try:
        {wait}
    except KeyboardInterrupt:
        print("interrupted", future.done())
print(future.result(WAIT), pool.submit(pow, 2, 4).result(WAIT))
"""
    )
    assert printed == "interrupted False\n8 16\n"


def test_ctrl_c_in_invoke_all_cancels_the_tasks_that_have_not_started():
    """The first one runs in the caller and is where it is interrupted."""
    printed = output(
        INTERRUPT
        + TASK
        + """\
ran = []
class Wait(fjpool.RecursiveAction):
    def compute(self):
        threading.Event().wait(WAIT)
first, rest = Wait(), [Mark(), Mark()]
with held(fjpool.common_pool()):
    interrupt_when(first.running)
    try:
        fjpool.invoke_all(first, *rest)
    except KeyboardInterrupt:
        print("interrupted", [task.cancelled() for task in rest])
print(fjpool.common_pool().await_quiescence(WAIT), ran, fjpool.invoke(pow, 2, 5))
""",
        env=ONE_WORKER,
    )
    assert printed == "interrupted [True, True]\nTrue [] 32\n"


@pytest.mark.parametrize(
    "kind, where", [("python", "in its own leaf"), ("python", "waiting"), ("native", "waiting")]
)
def test_ctrl_c_does_not_wait_for_the_leaves_of_others(kind, where):
    """A caller that takes part leaves at once; a worker finishes its leaf, whose data lives until then."""
    printed = output(
        INTERRUPT
        + f"""\
import array, gc, weakref
theirs, mine = Held(), threading.Event()
def leaf(lo, hi, *_):
    if threading.current_thread() is threading.main_thread():
        reach(theirs.started)
        mine.set()
        if {where == "in its own leaf"}:
            threading.Event().wait(WAIT)
    else:
        theirs()
class Data(array.array):
    pass
data = Data("q", [0])
gone = weakref.ref(data)
kind = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
body, hand = (leaf, {{"args": (data,)}}) if {kind!r} == "python" else (kind(leaf), {{"data": data}})
interrupt_when(mine.is_set)
try:
    fjpool.parallel_for(body, 4, chunksize=1, **hand)
except KeyboardInterrupt:
    print("interrupted", theirs.release.is_set())
del data, hand, body
gc.collect()
print(gone() is not None)
theirs.release.set()
print(fjpool.common_pool().await_quiescence(WAIT))
eventually(lambda: gc.collect() is None or gone() is None)
print(fjpool.parallel_reduce(lambda lo, hi: hi - lo, 100, chunksize=1))
""",
        env=ONE_WORKER,
    )
    assert printed == "interrupted False\nTrue\nTrue\n100\n"


def test_ctrl_c_in_a_nested_loop_leaves_all_of_its_loops():
    """The inner loop of a caller's leaf is its own as well."""
    printed = output(
        INTERRUPT
        + """\
theirs = Held()
def inner(lo, hi):
    if threading.current_thread() is threading.main_thread():
        reach(theirs.started)
    else:
        theirs()
def outer(lo, hi):
    fjpool.parallel_for(inner, 2, chunksize=1)
interrupt_when(theirs.started.is_set)
try:
    fjpool.parallel_for(outer, 1)
except KeyboardInterrupt:
    print("interrupted", theirs.release.is_set())
theirs.release.set()
print(fjpool.common_pool().await_quiescence(WAIT), fjpool.invoke(pow, 2, 5))
""",
        env=ONE_WORKER,
    )
    assert printed == "interrupted False\nTrue 32\n"


def test_ctrl_c_raises_once():
    """Twenty interrupted maps are twenty KeyboardInterrupts, each in its own try."""
    printed = output(
        INTERRUPT
        + """\
pool, interrupts, never = fjpool.ForkJoinPool(2), 0, threading.Event()
for _ in range(20):
    started = threading.Event()
    def call(i):
        started.set()
        reach(go)
    go = threading.Event()
    interrupt_when(started.is_set)
    try:
        list(pool.map(call, range(50), chunksize=1))
    except KeyboardInterrupt:
        interrupts += 1
    never.wait(0.01)  # where a second one would be raised
    go.set()
    pool.await_quiescence(WAIT)
print(interrupts, list(pool.map(abs, [-1, -2])))
"""
    )
    assert printed == "20 [1, 2]\n"


@pytest.mark.parametrize("end", ["", "pool.submit(print)"], ids=["idle", "queued"])
def test_ctrl_c_again_ends_the_wait_for_what_runs(end):
    """The first one cancels what is queued and waits for what runs; a second one waits no more."""
    printed = output(
        INTERRUPT
        + f"""\
pool, body = fjpool.ForkJoinPool(1, blocking="announced", join_at_exit=False), Held()
cancelled = threading.Event()
try:
    with pool:
        running = pool.submit(body)
        reach(body.started)
        pool.submit(pow, 2, 3).add_done_callback(lambda _: cancelled.set())
        {end}
        interrupt_when(lambda: pool.is_shutdown)
        def again():
            reach(cancelled)
            interrupt_when(lambda: True)
        threading.Thread(target=again).start()
except KeyboardInterrupt:
    print("interrupted", running.done(), pool.is_terminated)
body.release.set()
print(pool.await_termination(WAIT))
"""
    )
    assert printed == "interrupted False False\nTrue\n"


@pytest.mark.parametrize("pool", ["fjpool.common_pool()", "fjpool.ForkJoinPool(1)"])
def test_alarm_is_handled_while_a_native_leaf_is_awaited(pool):
    """Within 100 ms, times ten here for busy machines; a handler that returns ends no wait."""
    printed = output(
        f"""
        import ctypes, signal, time
        body, handled = Held(), []
        def leaf(lo, hi):
            if threading.current_thread() is not threading.main_thread():
                signal.setitimer(signal.ITIMER_REAL, 0.2)
                body()
            else:
                reach(body.started)
        def handler(*_):
            handled.append(time.monotonic())
            body.release.set()
        signal.signal(signal.SIGALRM, handler)
        native = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(leaf)
        begin = time.monotonic()
        {pool}.parallel_for(native, 2, chunksize=1)
        print(len(handled), handled[0] - begin < 0.2 + 1)
        """,
        env=ONE_WORKER,
    )
    assert printed == "1 True\n"
