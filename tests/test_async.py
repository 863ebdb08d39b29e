"""Futures of the pool in coroutines: asyncio, trio, and anyio on either."""

import asyncio
import threading
from concurrent.futures import CancelledError

import pytest

import fjpool
from support import WAIT, Held, reach

anyio = pytest.importorskip("anyio")
trio = pytest.importorskip("trio")

LIBRARIES = ("asyncio", "trio")


def test_asyncio_takes_the_pool_as_default_executor(pool2):
    """set_default_executor accepts it, and run_in_executor runs on its workers."""

    async def main():
        loop = asyncio.get_running_loop()
        loop.set_default_executor(pool2)
        return await loop.run_in_executor(None, fjpool.current_pool)

    assert asyncio.run(main()) is pool2


@pytest.mark.parametrize("library", LIBRARIES)
def test_await_yields_the_result_in_a_coroutine(pool2, library):
    """A future can be awaited as it is, done or not, and raises what the task raised."""

    async def main():
        with pytest.raises(ZeroDivisionError):
            await pool2.submit(lambda: 1 // 0)
        future = pool2.submit(pow, 2, 5)
        assert await future == await future == 32
        return await fjpool.submit(fjpool.current_pool)

    assert anyio.run(main, backend=library) is fjpool.common_pool()


@pytest.mark.parametrize("library", LIBRARIES)
def test_await_lets_other_coroutines_run(pool1, library):
    """The task ends only because another coroutine lets it."""
    body = Held()

    async def release():
        while not body.started.is_set():
            await anyio.sleep(0)
        body.release.set()

    async def main():
        async with anyio.create_task_group() as group:
            group.start_soon(release)
            assert await pool1.submit(body, "value") == "value"

    anyio.run(main, backend=library)


@pytest.mark.parametrize("library", LIBRARIES)
def test_await_that_is_cancelled_cancels_what_has_not_started(pool1, library):
    """Behind a task that runs, the awaited one never does; the running one is left alone."""
    body, ran = Held(), []

    async def main():
        running = pool1.submit(body)
        reach(body.started)
        for future in (pool1.submit(ran.append, 1), running):
            with anyio.CancelScope() as scope:
                scope.cancel()
                await future
            assert scope.cancelled_caught
            assert future.cancelled() == (future is not running)
        body.release.set()

    anyio.run(main, backend=library)
    assert pool1.submit(len, ran).result(WAIT) == 0


def test_await_of_a_cancelled_future_raises_in_trio(pool1):
    """concurrent.futures.CancelledError: it is the future that was cancelled, not the coroutine."""
    body = Held()

    async def main():
        pool1.submit(body)
        future = pool1.submit(abs, 1)
        assert future.cancel()
        body.release.set()
        with pytest.raises(CancelledError):
            await future

    trio.run(main)


def test_await_that_trio_has_given_up_is_not_an_error_later(pool1, caplog):
    """A task that ends after the loop has nobody to tell, and says nothing."""
    body = Held()

    async def main():
        with trio.CancelScope() as scope:
            future = pool1.submit(body, 5)
            reach(body.started)
            scope.cancel()
            await future
        return future

    future = trio.run(main)
    body.release.set()
    assert future.result(WAIT) == 5 and pool1.submit(abs, -1).result(WAIT) == 1
    assert caplog.text == ""


def test_await_in_asyncio_works_where_trio_runs_in_another_thread(pool1):
    """Which library it is, is a matter of the caller's thread."""
    inside, go = threading.Event(), threading.Event()

    async def linger():
        inside.set()
        while not go.is_set():
            await trio.sleep(0.001)

    async def main():
        return await pool1.submit(abs, -7)

    thread = threading.Thread(target=trio.run, args=(linger,))
    thread.start()
    try:
        reach(inside)
        assert asyncio.run(main()) == 7
    finally:
        go.set()
        thread.join(WAIT)
