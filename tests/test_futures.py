"""Futures: what concurrent.futures, asyncio and callers expect of what submit() returns."""

import asyncio
import concurrent.futures
import gc
import logging
import pickle
import threading
import weakref
from concurrent.futures import ALL_COMPLETED, FIRST_COMPLETED, FIRST_EXCEPTION

import pytest

import fjpool
from support import WAIT, Boom, Held, boom, held, output, reach


class Plain:
    """Something that can be referred to weakly."""


# --- what it is ----------------------------------------------------------------------------------


def test_future_is_a_concurrent_future(pool1):
    """By isinstance, and so is every task."""
    future = pool1.submit(pow, 2, 3)
    assert type(future) is fjpool.Future
    assert isinstance(future, concurrent.futures.Future)
    assert isinstance(fjpool.RecursiveTask(), concurrent.futures.Future)
    assert future.result(WAIT) == 8


def test_future_can_be_subscripted_for_annotations():
    """As the standard one."""
    assert fjpool.Future[int] is not None


def test_submit_passes_all_arguments(pool):
    """Positional ones and keywords of any name."""

    def collect(*args, **kwargs):
        return args, kwargs

    future = pool.submit(collect, 1, 2, self=3, fn=4, task=5, timeout=6)
    assert future.result(WAIT) == ((1, 2), {"self": 3, "fn": 4, "task": 5, "timeout": 6})


@pytest.mark.parametrize("wrong", [None, 3, "text"])
def test_submit_refuses_what_cannot_be_called(pool1, wrong):
    """A TypeError that names it, and nothing is queued."""
    with pytest.raises(TypeError, match=f"expects a callable and its arguments, not {type(wrong).__name__}"):
        pool1.submit(wrong)
    with pytest.raises(TypeError, match="expects a callable and its arguments, not nothing"):
        pool1.submit()
    assert pool1.pool_size == 0


def test_result_is_the_object_that_was_returned(pool):
    """Not a copy; None is an ordinary value."""
    value = object()
    assert pool.submit(lambda: value).result(WAIT) is value
    assert pool.submit(lambda: None).result(WAIT) is None
    assert pool.submit(lambda: None).exception(WAIT) is None


def test_exception_is_the_object_that_was_raised(pool):
    """exception() returns it, result() raises it."""
    error = Boom()

    def fail():
        raise error

    future = pool.submit(fail)
    assert future.exception(WAIT) is error
    with pytest.raises(Boom) as caught:
        future.result()
    assert caught.value is error


def test_repr_tells_the_state(pool1):
    """Pending, running, finished with what, failed with what, cancelled."""
    body = Held()
    with held(pool1):
        pending, cancelled = pool1.submit(body, 3), pool1.submit(pow)
        assert "state=pending" in repr(pending)
        cancelled.cancel()
        assert "state=cancelled" in repr(cancelled)
    reach(body.started)
    assert "state=running" in repr(pending)
    body.release.set()
    assert pending.result(WAIT) == 3
    assert "state=finished returned int" in repr(pending)
    failed = pool1.submit(boom)
    failed.exception(WAIT)
    assert "state=finished raised Boom" in repr(failed)


def test_future_cannot_be_pickled(pool1):
    """A handle on a running process's work is refused, not copied into something dead."""
    with pytest.raises(TypeError):
        pickle.dumps(pool1.submit(pow, 2, 3))


# --- time-outs -----------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout", [0, 0.0, -1, -1e300, float("-inf"), 1e-9, 0.01, True])
def test_timeout_of_an_unfinished_future_raises(pool1, timeout):
    """At once if it is zero or negative; by position and by name; result() and exception()."""
    timeout = 0.02 if timeout is True else timeout
    with held(pool1) as body:
        for wait in (body.future.result, body.future.exception):
            with pytest.raises(fjpool.TimeoutError):
                wait(timeout)
            with pytest.raises(fjpool.TimeoutError):
                wait(timeout=timeout)


@pytest.mark.parametrize("timeout", [0, -1, 0.5, None, float("inf"), float("-inf"), 1e300, 10**400 // 10**390])
def test_timeout_of_a_finished_future_does_not_matter(pool1, timeout):
    """The result is there whatever time was allowed."""
    future = pool1.submit(pow, 2, 3)
    assert future.result(WAIT) == 8
    assert (future.result(timeout), future.exception(timeout)) == (8, None)


@pytest.mark.parametrize("timeout", [None, float("inf"), 1e300])
def test_timeout_may_be_for_ever(pool1, timeout):
    """None and infinity wait until it is done."""
    with held(pool1):
        future = pool1.submit(pow, 2, 3)
    assert future.result(timeout) == 8


@pytest.mark.parametrize("wrong", ["1", b"1", [], object(), 1j])
def test_timeout_of_a_wrong_type_is_a_type_error(pool1, wrong):
    """It names what it got; also for a finished future."""
    future = pool1.submit(pow, 2, 3)
    future.result(WAIT)
    for wait in (future.result, future.exception):
        with pytest.raises(TypeError, match=f"number of seconds or None, not {type(wrong).__name__}"):
            wait(wrong)


def test_timeout_nan_is_a_value_error(pool1):
    """It is no length of time."""
    with held(pool1) as body:
        for wait in (body.future.result, body.future.exception):
            with pytest.raises(ValueError, match="timeout must be a number of seconds, not nan"):
                wait(float("nan"))


def test_timeout_takes_one_argument(pool1):
    """Another name, or two arguments, are TypeErrors."""
    future = pool1.submit(pow, 2, 3)
    for arguments, keywords in [((1, 2), {}), ((), {"seconds": 1}), ((1,), {"timeout": 1})]:
        with pytest.raises(TypeError, match="at most one argument, timeout"):
            future.result(*arguments, **keywords)


def test_timeout_error_is_both_of_them(pool1):
    """concurrent.futures' and the builtin one, which differ before 3.11."""
    assert issubclass(fjpool.TimeoutError, TimeoutError)
    assert issubclass(fjpool.TimeoutError, concurrent.futures.TimeoutError)
    with held(pool1) as body:
        for kind in (TimeoutError, concurrent.futures.TimeoutError):
            with pytest.raises(kind):
                body.future.result(0)


def test_timeout_does_not_hold_up_a_later_waiter(pool1):
    """One waiter's time-out passes without harm while another one goes on waiting."""
    with held(pool1) as body:
        results = []
        other = threading.Thread(target=lambda: results.append(body.future.result()))
        other.start()
        with pytest.raises(fjpool.TimeoutError):
            body.future.result(0.05)
        body.release.set()
        other.join(WAIT)
    assert results == [None]


# --- cancel --------------------------------------------------------------------------------------


def test_cancel_follows_the_state(pool1):
    """True while pending and afterwards, False once it runs or is done."""
    with held(pool1) as body:
        pending = pool1.submit(boom)
        assert pending.cancel() and pending.cancel()
        assert pending.cancelled() and pending.done() and not pending.running()
        assert body.future.cancel() is False
        assert body.future.running()
    assert body.future.result(WAIT) is None
    assert body.future.cancel() is False
    with pytest.raises(fjpool.CancelledError):
        pending.result(0)
    with pytest.raises(fjpool.CancelledError):
        pending.exception(0)


def test_cancel_and_run_exclude_each_other(pool):
    """Hammered: a future that was cancelled never ran, every other ran once and has its result."""
    n = 3_000
    ran, futures = [0] * n, []
    start = threading.Barrier(2)

    def body(i):
        ran[i] += 1
        return i

    def cancel_all():
        reach(start)
        done = 0
        while done < n:
            while done < len(futures):
                futures[done].cancel()
                done += 1

    thread = threading.Thread(target=cancel_all)
    thread.start()
    reach(start)
    for i in range(n):
        futures.append(pool.submit(body, i))
    thread.join(WAIT)
    assert pool.await_quiescence(WAIT)
    for i, future in enumerate(futures):
        assert ran[i] == (not future.cancelled())
        if not future.cancelled():
            assert future.result(0) == i


# --- completing by hand --------------------------------------------------------------------------


def test_set_result_and_set_exception_complete_once():
    """The first one counts; any later one raises InvalidStateError."""
    future = fjpool.Future()
    future.set_result(1)
    assert future.result() == 1
    for again in (lambda: future.set_result(2), lambda: future.set_exception(Boom())):
        with pytest.raises(fjpool.InvalidStateError):
            again()
    assert future.result() == 1
    failed = fjpool.Future()
    error = Boom()
    failed.set_exception(error)
    with pytest.raises(fjpool.InvalidStateError):
        failed.set_result(1)
    assert failed.exception() is error


def test_setters_take_their_argument_by_its_standard_name():
    """What works with a standard future works with ours; another name, or two, is a TypeError."""
    done, failed, seen, error = fjpool.Future(), fjpool.Future(), [], Boom()
    done.add_done_callback(fn=seen.append)
    done.set_result(result=1)
    failed.set_exception(exception=error)
    assert seen == [done] and done.result() == 1 and failed.exception() is error
    fresh = fjpool.Future()
    for name in ("set_result", "set_exception", "add_done_callback"):
        for arguments, keywords in [((), {}), ((1, 2), {}), ((), {"value": 1}), ((1,), {"fn": 1})]:
            with pytest.raises(TypeError, match="expected one argument"):
                getattr(fresh, name)(*arguments, **keywords)
    assert not fresh.done() and fresh._done_callbacks == []


def test_set_result_of_a_cancelled_future_is_an_invalid_state():
    """InvalidStateError, and it stays cancelled."""
    future = fjpool.Future()
    future.cancel()
    with pytest.raises(fjpool.InvalidStateError):
        future.set_result(1)
    with pytest.raises(fjpool.InvalidStateError):
        future.set_exception(Boom())
    assert future.cancelled()
    assert issubclass(fjpool.InvalidStateError, concurrent.futures.InvalidStateError)


def test_set_running_or_notify_cancel_behaves_as_the_standard_one():
    """True and running for a pending future, False for a cancelled one, an error when done."""
    future = fjpool.Future()
    assert future.set_running_or_notify_cancel() is True
    assert future.running() and not future.cancel()
    future.set_result(1)
    cancelled = fjpool.Future()
    cancelled.cancel()
    assert cancelled.set_running_or_notify_cancel() is False
    logger = logging.getLogger("concurrent.futures")
    logger.disabled = True
    try:
        with pytest.raises(Exception, match="unexpected state"):
            future.set_running_or_notify_cancel()
    finally:
        logger.disabled = False


def test_set_result_wakes_every_waiter():
    """Threads inside result() all get the value."""
    future, results, ready = fjpool.Future(), [], threading.Barrier(4)

    def wait():
        reach(ready)
        results.append(future.result(WAIT))

    threads = [threading.Thread(target=wait) for _ in range(3)]
    for thread in threads:
        thread.start()
    reach(ready)
    future.set_result("value")
    for thread in threads:
        thread.join(WAIT)
    assert results == ["value"] * 3


def test_set_result_wakes_a_worker_that_waits(pool1):
    """And a worker inside join gets it too."""
    future = fjpool.Future()
    waiting = pool1.submit(future.result)
    future.set_result(5)
    assert waiting.result(WAIT) == 5


# --- wait and as_completed -----------------------------------------------------------------------


def test_wait_returns_when_the_first_is_done(pool2):
    """FIRST_COMPLETED: one done, the other not."""
    with held(pool2) as body:
        quick = pool2.submit(pow, 2, 3)
        done, rest = concurrent.futures.wait([body.future, quick], WAIT, FIRST_COMPLETED)
        assert (done, rest) == ({quick}, {body.future})


def test_wait_returns_when_one_fails(pool2):
    """FIRST_EXCEPTION: a failure ends the wait, a success does not."""
    with held(pool2) as body:
        good, bad = pool2.submit(pow, 2, 3), pool2.submit(boom)
        done, rest = concurrent.futures.wait([body.future, good, bad], WAIT, FIRST_EXCEPTION)
        assert bad in done and rest == {body.future} | ({good} - done)


def test_wait_returns_when_all_are_done(pool):
    """ALL_COMPLETED: successes, failures, cancelled ones and hand-made ones alike."""
    by_hand = fjpool.Future()
    with held(pool, pool.parallelism):
        cancelled = pool.submit(pow, 2, 3)
        futures = [pool.submit(pow, 2, i) for i in range(20)] + [pool.submit(boom), cancelled, by_hand]
        cancelled.cancel()
        done, rest = concurrent.futures.wait(futures, 0, ALL_COMPLETED)
        assert cancelled in done and by_hand in rest
    by_hand.set_result(1)
    done, rest = concurrent.futures.wait(futures, WAIT, ALL_COMPLETED)
    assert (len(done), rest) == (23, set())


def test_wait_is_told_of_a_cancellation(pool1):
    """Cancelling what somebody waits for ends the wait."""
    with held(pool1):
        future = pool1.submit(pow, 2, 3)
        result = []
        thread = threading.Thread(
            target=lambda: result.append(concurrent.futures.wait([future], WAIT)))
        thread.start()
        while not future._waiters:
            pass
        assert future.cancel()
        thread.join(WAIT)
    assert result[0].done == {future}


def test_wait_mixes_with_standard_futures(pool1):
    """Ours and a ThreadPoolExecutor's in one call."""
    with concurrent.futures.ThreadPoolExecutor(1) as standard:
        futures = [pool1.submit(pow, 2, 3), standard.submit(pow, 2, 4)]
        done, rest = concurrent.futures.wait(futures, WAIT)
        assert not rest
        assert sorted(f.result() for f in concurrent.futures.as_completed(futures, WAIT)) == [8, 16]


def test_as_completed_yields_each_once(pool):
    """Also duplicates and what was done before."""
    futures = [pool.submit(pow, 2, i) for i in range(50)]
    futures[0].result(WAIT)
    seen = list(concurrent.futures.as_completed([*futures, futures[0]], WAIT))
    assert len(seen) == 50 and set(seen) == set(futures)


def test_as_completed_times_out(pool1):
    """With a TimeoutError that says how many are missing."""
    with held(pool1) as body:
        with pytest.raises(concurrent.futures.TimeoutError, match="1 .*unfinished"):
            list(concurrent.futures.as_completed([body.future], 0.01))


def test_wait_hammered_misses_no_completion(pool):
    """Looking at a future in the moment it completes never loses the news."""
    for _ in range(200):
        futures = [pool.submit(pow, 2, i) for i in range(8)]
        done, rest = concurrent.futures.wait(futures, WAIT)
        assert (len(done), len(rest)) == (8, 0)


# --- callbacks -----------------------------------------------------------------------------------


def test_callback_runs_once_with_the_future(pool):
    """In the order in which they were added, after the outcome is set."""
    calls, all_called = [], threading.Event()
    with held(pool, pool.parallelism):
        future = pool.submit(pow, 2, 3)
        for i in range(3):
            future.add_done_callback(lambda f, i=i: calls.append((i, f is future, f.result(0))))
        future.add_done_callback(lambda f: all_called.set())
    reach(all_called)
    assert calls == [(0, True, 8), (1, True, 8), (2, True, 8)]


def test_callback_on_a_done_future_runs_at_once(pool1):
    """In the thread that adds it; on a failed or a cancelled one too."""
    failed, cancelled = pool1.submit(boom), fjpool.Future()
    failed.exception(WAIT)
    cancelled.cancel()
    for future in (failed, cancelled):
        calls = []
        future.add_done_callback(lambda f, calls=calls: calls.append((f, threading.get_ident())))
        assert calls == [(future, threading.get_ident())]


def test_callback_runs_when_cancelled(pool1):
    """cancel() calls it in the cancelling thread."""
    calls = []
    with held(pool1):
        future = pool1.submit(boom)
        future.add_done_callback(lambda f: calls.append((f.cancelled(), threading.get_ident())))
        future.cancel()
        assert calls == [(True, threading.get_ident())]


def test_callback_that_raises_is_logged_and_the_others_run(pool1, caplog):
    """As in the standard library: one record of the logger concurrent.futures, with the traceback."""
    called = threading.Event()
    with caplog.at_level(logging.ERROR, "concurrent.futures"):
        with held(pool1):
            future = pool1.submit(pow, 2, 3)
            future.add_done_callback(boom)
            future.add_done_callback(lambda f: called.set())
        reach(called)
        future.add_done_callback(boom)  # on a done one as well
    records = [record for record in caplog.records if record.name == "concurrent.futures"]
    assert len(records) == 2
    assert all("exception calling callback for" in record.getMessage() for record in records)
    assert all(record.exc_info[0] is Boom for record in records)
    assert future.result() == 8


def test_callback_added_by_a_callback_runs_once():
    """Adding one from inside another, before or after completion, calls each of them once."""
    printed = output(  # its own process: a mistake here has crashed the interpreter
        """
        calls, called = [], threading.Event()
        def outer(future):
            calls.append("outer")
            if len(calls) < 9:
                future.add_done_callback(lambda f: calls.append("inner"))
        with fjpool.ForkJoinPool(1) as pool:
            done = pool.submit(pow, 2, 3)
            done.result(WAIT)
            done.add_done_callback(outer)
            print(calls)
            calls.clear()
            with held(pool):
                future = pool.submit(pow, 2, 3)
                future.add_done_callback(outer)
                future.add_done_callback(lambda f: called.set())
            reach(called)
            pool.await_quiescence(WAIT)
            print(calls)
        """
    )
    assert printed == "['outer', 'inner']\n" * 2


def test_callback_added_while_another_runs_is_called_once():
    """A callback that takes its time does not run again because a second one arrives."""
    printed = output(
        """
        calls, started, release = [], threading.Event(), threading.Event()
        def slow(future):
            calls.append("slow")
            started.set()
            reach(release)
        def late(future):
            calls.append("late")
        with fjpool.ForkJoinPool(1) as pool:
            with held(pool):
                future = pool.submit(pow, 2, 3)
                future.add_done_callback(slow)
            reach(started)
            thread = threading.Thread(target=future.add_done_callback, args=(late,))
            thread.start()
            eventually(lambda: len(calls) == 2)
            release.set()
            thread.join(WAIT)
        print(sorted(calls))
        """
    )
    assert printed == "['late', 'slow']\n"


def test_callback_is_called_after_it_was_added_to_a_done_future():
    """When add_done_callback returns on a done future, the callback has been called, and once."""
    printed = output(
        """
        future, wrong = fjpool.Future(), []
        future.set_result(1)
        def add():
            for _ in range(2_000):
                calls = []
                future.add_done_callback(calls.append)
                if len(calls) != 1:
                    wrong.append(len(calls))
        threads = [threading.Thread(target=add) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT)
        print(wrong)
        """
    )
    assert printed == "[]\n"


def test_callback_hammered_is_called_exactly_once():
    """Added by three threads while the future completes, each is called once."""
    printed = output(
        """
        counts = set()
        with fjpool.ForkJoinPool(2) as pool:
            for _ in range(200):
                start, calls, future = threading.Barrier(4), [], fjpool.Future()
                def add():
                    reach(start)
                    for i in range(5):
                        future.add_done_callback(calls.append)
                threads = [threading.Thread(target=add) for _ in range(3)]
                for thread in threads:
                    thread.start()
                reach(start)
                pool.submit(future.set_result, 1).result(WAIT)
                for thread in threads:
                    thread.join(WAIT)
                counts.add(len(calls))
        print(counts)
        """
    )
    assert printed == "{15}\n"


def test_callback_may_use_the_pool(single):
    """A callback that submits, and one that waits for what it submitted, on the only worker."""
    results, called = [], threading.Event()

    def callback(future):
        results.append(single.submit(pow, 2, 4).result())
        called.set()

    with held(single):
        single.submit(pow, 2, 3).add_done_callback(callback)
    reach(called)
    assert results == [16]


@pytest.mark.parametrize("wrong", [None, 3])
def test_callback_that_cannot_be_called_is_logged(pool1, caplog, wrong):
    """As in the standard library it is found out when it is called."""
    future = pool1.submit(pow, 2, 3)
    future.result(WAIT)
    with caplog.at_level(logging.ERROR, "concurrent.futures"):
        future.add_done_callback(wrong)
    assert "exception calling callback for" in caplog.text


# --- asyncio -------------------------------------------------------------------------------------


def test_asyncio_awaits_wrapped_futures(pool):
    """Results, failures and cancellations come through asyncio.wrap_future."""

    async def main():
        good = asyncio.wrap_future(pool.submit(pow, 2, 3))
        bad = asyncio.wrap_future(pool.submit(boom))
        assert await asyncio.wait_for(good, WAIT) == 8
        with pytest.raises(Boom):
            await asyncio.wait_for(bad, WAIT)
        many = [asyncio.wrap_future(pool.submit(pow, 2, i)) for i in range(100)]
        assert await asyncio.wait_for(asyncio.gather(*many), WAIT) == [2**i for i in range(100)]

    asyncio.run(main())


def test_asyncio_runs_in_the_pool(make_pool):
    """As run_in_executor's argument and as the loop's default executor."""
    pool = make_pool(2, "mine")

    async def main():
        loop = asyncio.get_running_loop()
        assert await loop.run_in_executor(pool, pow, 2, 3) == 8
        loop.set_default_executor(pool)
        name = await asyncio.to_thread(lambda: threading.current_thread().name)
        assert name.startswith("mine_")

    asyncio.run(main())


def test_asyncio_cancellation_cancels_the_pending_future(pool1):
    """Cancelling the awaiting side takes the task out of the queue."""
    futures = []

    async def main():
        futures.append(pool1.submit(boom))
        wrapped = asyncio.wrap_future(futures[0])
        wrapped.cancel()
        with pytest.raises(asyncio.CancelledError):
            await wrapped

    with held(pool1):
        asyncio.run(main())
        assert futures[0].cancelled()


# --- memory --------------------------------------------------------------------------------------


@pytest.fixture
def no_gc():
    """Only reference counts free anything."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_future_can_be_referred_to_weakly(pool1, no_gc):
    """And goes with its last reference."""
    future = pool1.submit(pow, 2, 3)
    future.result(WAIT)
    assert pool1.await_quiescence(WAIT)
    ref = weakref.ref(future)
    assert ref() is future
    del future
    assert ref() is None


def test_unreferenced_futures_run_all_the_same(pool):
    """Nobody needs to hold on to what submit returned."""
    done = threading.Semaphore(0)
    for _ in range(100):
        pool.submit(done.release)
    for _ in range(100):
        reach(done)


def test_callable_and_arguments_die_with_their_use(pool1, no_gc):
    """Once the body has run, a future that is kept keeps neither of them."""

    class Body(Plain):
        def __call__(self, *args, **kwargs):
            return 1

    body, argument, keyword = Body(), Plain(), Plain()
    refs = [weakref.ref(thing) for thing in (body, argument, keyword)]
    future = pool1.submit(body, argument, keyword=keyword)
    del body, argument, keyword
    assert future.result(WAIT) == 1
    assert pool1.await_quiescence(WAIT)
    assert [ref() for ref in refs] == [None] * 3


def test_callable_and_arguments_die_with_a_cancellation(pool1, no_gc):
    """A cancelled future lets go of them at once, though its entry still lies in the queue."""
    with held(pool1):
        argument = Plain()
        ref = weakref.ref(argument)
        future = pool1.submit(boom, argument)
        del argument
        assert ref() is not None
        future.cancel()
        assert ref() is None


def test_result_dies_with_the_future(pool1, no_gc):
    """The pool keeps no reference to a result."""
    future = pool1.submit(Plain)
    ref = weakref.ref(future.result(WAIT))
    assert pool1.await_quiescence(WAIT)
    assert ref() is not None
    del future
    assert ref() is None


def test_map_lets_results_go_one_by_one(pool, no_gc):
    """What a map yields is not kept by it: with chunksize=1 each dies before the next."""
    for thing in pool.map(lambda _: Plain(), range(10), chunksize=1):
        assert pool.await_quiescence(WAIT)
        ref = weakref.ref(thing)
        del thing
        assert ref() is None


def test_failures_add_no_reference_cycles(pool1, no_gc):
    """An exception that was caught and dropped is freed without the garbage collector."""

    def failure():
        try:
            pool1.submit(boom).result(WAIT)
        except Boom as error:
            return weakref.ref(error)

    refs = [failure() for _ in range(3)]
    assert pool1.await_quiescence(WAIT)
    assert [ref() for ref in refs] == [None] * 3


@pytest.mark.parametrize(
    "use",
    [
        lambda pool, fail: pool.invoke(fail),
        lambda pool, fail: list(pool.map(fail, range(5))),
        lambda pool, fail: list(pool.map(fail, range(5), chunksize=2)),
        lambda pool, fail: list(pool.map(fail, range(5), ordered=False)),
        lambda pool, fail: list(pool.map(fail, range(5), buffersize=2)),
        lambda pool, fail: list(pool.starmap(fail, [(1,), (2,)])),
        lambda pool, fail: pool.parallel_for(fail, 5),
        lambda pool, fail: pool.reduce(fail, range(5)),
        lambda pool, fail: fjpool.parallel_for(fail, 5),
    ],
    ids=["invoke", "map", "chunks", "unordered", "buffer", "starmap", "for", "reduce", "common"],
)
def test_failures_of_calls_add_no_reference_cycles(pool2, no_gc, use):
    """What a call raised goes when the caller lets go of it, frames and all."""

    def catch():
        try:
            use(pool2, lambda *_: boom())
        except Boom as error:
            return weakref.ref(error)

    ref = catch()
    assert pool2.await_quiescence(WAIT) and fjpool.common_pool().await_quiescence(WAIT)
    assert ref() is None


def test_failures_of_forked_tasks_are_collected(pool1):
    """A RecursiveTask is in its own failure's frames; the cycle is the collector's to find."""

    class Fail(fjpool.RecursiveTask):
        def compute(self):
            raise Boom

    def failure():
        task = Fail()
        try:
            pool1.invoke(task)
        except Boom:
            return weakref.ref(task)

    ref = failure()
    assert pool1.await_quiescence(WAIT)
    gc.collect()
    assert ref() is None


def test_cycles_through_tasks_are_collected(pool1):
    """Results, arguments, callbacks and attributes that lead back to the task do not leak."""

    class Loop(fjpool.RecursiveTask):
        def compute(self):
            return self

    def make():
        ran, pending, called = Loop(), Loop(), Loop()
        pool1.invoke(ran)
        pending.me = pending
        called.add_done_callback(lambda f: called)
        _ = called._condition
        return [weakref.ref(task) for task in (ran, pending, called)]

    refs = make()
    assert pool1.await_quiescence(WAIT)
    gc.collect()
    assert [ref() for ref in refs] == [None] * 3


def test_memory_stays_bounded():
    """A million futures later the process is not ten times as large: nothing is left behind."""
    printed = output(
        """
        import resource
        def used():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1])
        with fjpool.ForkJoinPool(2) as pool:
            def burst(n):
                for _ in range(n):
                    futures = [pool.submit(pow, 2, 3) for _ in range(100)]
                    for future in futures:
                        future.result()
                    failed = pool.submit(boom)
                    failed.exception()
            burst(100)
            before = used()
            burst(1_000)
            print(used() / before)
        """
    )
    assert float(printed) < 2


# --- signals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("wait", ["future.result()", "future.exception(20)", "future.join()",
                                  "pool.invoke(body)", "list(pool.map(body, [1]))",
                                  "fjpool.wait([future])",
                                  "pool.parallel_for(lambda lo, hi: body(), 1)"])
def test_ctrl_c_interrupts_a_wait(wait):
    """Whatever the main thread waits in, SIGINT raises KeyboardInterrupt there; the work goes on."""
    printed = output(
        f"""
        import concurrent.futures, signal
        pool = fjpool.ForkJoinPool(2)
        body = Held()
        future = pool.submit(body)
        def interrupt():
            reach(body.started)
            eventually(lambda: waiting)
            os.kill(os.getpid(), signal.SIGINT)
        waiting = []
        thread = threading.Thread(target=interrupt, daemon=True)
        thread.start()
        try:
            waiting.append(1)
            {wait}
        except KeyboardInterrupt:
            print("interrupted")
        print(future.done())
        body.release.set()
        print(future.result(WAIT))
        pool.shutdown()
        """
    )
    assert printed == "interrupted\nFalse\nNone\n"


def test_signal_handler_that_returns_does_not_end_a_wait():
    """The handler runs, and result() goes on waiting."""
    printed = output(
        """
        import signal
        pool = fjpool.ForkJoinPool(1)
        body = Held()
        def handler(number, frame):
            print("handled", flush=True)
            body.release.set()
        signal.signal(signal.SIGUSR1, handler)
        future = pool.submit(body, 5)
        def interrupt():
            reach(body.started)
            os.kill(os.getpid(), signal.SIGUSR1)
        threading.Thread(target=interrupt).start()
        print(future.result(WAIT))
        pool.shutdown()
        """
    )
    assert printed == "handled\n5\n"


@pytest.mark.parametrize("wait", ["future.result()", "pool.parallel_for(lambda lo, hi: body(), 1)"])
def test_ctrl_c_that_arrives_as_the_wait_begins_is_not_lost(wait):
    """A signal between the last look at signals and the sleep still ends the wait, every time."""
    printed = output(
        f"""
        import signal
        pool, interrupted = fjpool.ForkJoinPool(2), 0
        for _ in range(200):
            body, about = Held(), threading.Event()
            future = pool.submit(body)
            reach(body.started)
            def interrupt():
                while not about.is_set():
                    pass
                os.kill(os.getpid(), signal.SIGINT)
            thread = threading.Thread(target=interrupt, daemon=True)
            try:
                thread.start()
                about.set()
                {wait}
            except KeyboardInterrupt:
                interrupted += 1
            thread.join(WAIT)
            body.release.set()
            pool.await_quiescence(WAIT)
        print(interrupted)
        pool.shutdown()
        """
    )
    assert printed == "200\n"
