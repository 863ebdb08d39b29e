"""Handing in: many at once, without a future, and not more than the pool should have queued."""

import threading

import fjpool
import pytest

from support import WAIT, Boom, boom, eventually, held, output, reach


def test_submit_many_keeps_order_and_values(pool):
    """A future for each item, in order, whatever kind of iterable it is."""
    futures = pool.submit_many(abs, (-i for i in range(1000)))
    assert all(isinstance(future, fjpool.Future) for future in futures)
    assert [future.result(WAIT) for future in futures] == list(range(1000))
    assert pool.submit_many(abs, []) == []


def test_submit_many_from_a_worker(pool):
    """A task may wait for what it hands in."""
    futures = pool.submit(lambda: [f.result() for f in pool.submit_many(abs, range(-9, 0))])
    assert futures.result(WAIT) == list(range(9, 0, -1))


def test_submit_many_hands_in_all_or_nothing(pool1):
    """An iterable that raises in the middle, or a pool that is shut down: nothing runs."""
    ran = []

    def items():
        yield from range(3)
        boom()

    with pytest.raises(Boom):
        pool1.submit_many(ran.append, items())
    with pytest.raises(TypeError, match="callable"):
        pool1.submit_many(3, [1])
    with pytest.raises(TypeError, match="iterable"):
        pool1.submit_many(ran.append, 3)
    pool1.shutdown()
    with pytest.raises(fjpool.RejectedExecutionError):
        pool1.submit_many(ran.append, [1])
    assert ran == []


def test_context_goes_with_each_of_many(pool2):
    """Each call runs in a copy of its own."""
    import contextvars

    variable = contextvars.ContextVar("variable", default=0)
    variable.set(1)

    def body(value):
        before = variable.get()
        variable.set(value)
        return before

    assert [future.result(WAIT) for future in pool2.submit_many(body, range(20))] == [1] * 20
    assert variable.get() == 1


def test_execute_returns_nothing_and_the_worker_lives_on(single, monkeypatch):
    """What it raises goes to threading.excepthook, with the worker's thread."""
    caught, seen = [], threading.Event()
    monkeypatch.setattr(threading, "excepthook", lambda args: (caught.append(args), seen.set()))
    assert single.execute(boom, "lost") is None
    reach(seen)
    (args,) = caught
    assert args.exc_type is Boom and str(args.exc_value) == "lost" and args.exc_traceback is not None
    assert args.thread.ident == single.submit(threading.get_ident).result(WAIT)
    assert single.pool_size == 1


def test_execute_many_runs_all_in_order(pool1):
    """First in, first out."""
    seen, last = [], threading.Event()
    assert pool1.execute_many(seen.append, range(100)) is None
    pool1.execute(last.set)
    reach(last)
    assert seen == list(range(100))


# --- max_queued ----------------------------------------------------------------------------------


def test_raise_refuses_what_finds_no_room(make_pool):
    """The limit is exact; as soon as one has started there is room for one."""
    pool = make_pool(1, max_queued=3, when_full="raise")
    with held(pool):
        futures = [pool.submit(abs, -i) for i in range(3)]
        with pytest.raises(fjpool.RejectedExecutionError, match="max_queued"):
            pool.submit(abs, 0)
        with pytest.raises(fjpool.RejectedExecutionError, match="max_queued"):
            pool.submit_many(abs, [1])
        assert pool.queued_submission_count == 3
    assert [future.result(WAIT) for future in futures] == [0, 1, 2]
    assert pool.submit(abs, -5).result(WAIT) == 5


def test_wait_blocks_until_there_is_room(make_pool):
    """Producers wait while the queue is full; nothing is lost, and it never holds more."""
    pool, done, most = make_pool(1, max_queued=2), [], []

    def task(i):
        most.append(pool.queued_submission_count)
        done.append(i)

    def produce(k):
        for i in range(200):
            pool.submit(task, (k, i))

    producers = [threading.Thread(target=produce, args=(k,)) for k in range(4)]
    for producer in producers:
        producer.start()
    for producer in producers:
        producer.join(WAIT)
        assert not producer.is_alive()
    pool.close()
    assert sorted(done) == [(k, i) for k in range(4) for i in range(200)]
    assert max(most) <= 2
    for k in range(4):
        assert [i for j, i in done if j == k] == list(range(200))


def waiting(pool, *call):
    """A thread that waits for room, and what came of its call."""
    outcome = []

    def run():
        try:
            outcome.append(call[0](*call[1:]))
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, outcome


def test_workers_are_not_limited(make_pool):
    """A task hands in as much as it likes, or the pool could wait for itself."""
    pool = make_pool(1, max_queued=1)

    def body():
        return sum(future.result() for future in [pool.submit(abs, -1) for _ in range(50)])

    assert pool.submit(body).result(WAIT) == 50
    assert pool.submit(lambda: len(pool.submit_many(abs, range(50)))).result(WAIT) == 50


def test_many_more_than_the_limit_go_in_piece_by_piece(make_pool):
    """submit_many and map wait where submit would."""
    pool = make_pool(2, max_queued=3)
    assert [f.result(WAIT) for f in pool.submit_many(abs, range(-100, 0))] == list(range(100, 0, -1))
    assert list(pool.map(abs, range(100), chunksize=1)) == list(range(100))
    assert pool.parallel_reduce(lambda lo, hi: hi - lo, 1000, chunksize=1) == 1000


def test_shutdown_ends_the_wait(make_pool):
    """Whoever waits for room in a pool that is shut down is refused."""
    pool = make_pool(1, max_queued=1)
    with held(pool):
        first = pool.submit(abs, -1)
        thread, outcome = waiting(pool, pool.submit, abs, -2)
        threading.Thread(target=pool.shutdown).start()
        thread.join(WAIT)
    assert isinstance(outcome[0], fjpool.RejectedExecutionError)
    assert first.result(WAIT) == 1


def test_another_pools_worker_that_waits_blocks_only_itself(make_pool):
    """It counts as blocked meanwhile."""
    pool, other = make_pool(1, max_queued=1), make_pool(1)
    with held(pool):
        pool.submit(abs, -1)
        future = other.submit(lambda: pool.submit(abs, -2).result())
        eventually(lambda: other._blocked == 1)
        assert other.submit(abs, -3).result(WAIT) == 3
    assert future.result(WAIT) == 2


def test_ctrl_c_ends_the_wait():
    """Once, promptly; what waited for room never runs, what was queued does."""
    printed = output(
        """
        import signal
        pool = fjpool.ForkJoinPool(1, max_queued=1, blocking="announced")
        go, trying, ran = threading.Event(), threading.Event(), []
        pool.submit(go.wait, WAIT)
        pool.submit(ran.append, "queued")
        main = threading.main_thread()
        def interrupt():
            reach(trying)
            signal.pthread_kill(main.ident, signal.SIGINT)
        threading.Thread(target=interrupt).start()
        try:
            trying.set()
            while True:
                pool.submit(ran.append, "waited")
        except KeyboardInterrupt:
            print("interrupted")
        go.set()
        pool.close()
        print(ran.count("queued"))
        """
    )
    assert printed == "interrupted\n1\n"


@pytest.mark.parametrize(
    "wrong, error",
    [
        ({"max_queued": 0}, ValueError),
        ({"max_queued": "3"}, TypeError),
        ({"max_queued": 2**26 + 1}, ValueError),
        ({"when_full": "drop"}, ValueError),
    ],
)
def test_wrong_arguments(wrong, error):
    with pytest.raises(error, match=next(iter(wrong))):
        fjpool.ForkJoinPool(1, **wrong)
