"""For the tests of programs that use fjpool. ``import fjpool`` does not import this."""

import concurrent.futures as _futures
import threading
import time
from time import perf_counter

from . import _checks
from ._pool import ForkJoinPool

__all__ = ["assert_scales"]

ATTEMPTS = 3
"""A machine that is busy with something else may be slow once, but not every time."""

SLACK, STARTING = 2, 0.1
"""So many times as long as expected, and so many seconds more, is still in time."""

ALONE = 60.0
"""Seconds after which a single call counts as stuck."""

ENDING = 10.0
"""Seconds that what still runs when the verdict is known gets to end."""

LEAST_CALLS, LEAST_WAIT, LEAST_AT_ONCE = 5, 0.05, 3
"""With less, one after another cannot be told from all at once."""

MOST_CALLS = 1_000_000

ANNOUNCE = (
    "Something in it keeps a worker waiting that the pool does not know of. Say so with "
    "`with fjpool.managed_block():` around it, wait in fjpool's own primitives, or do it outside of the pool."
)
BOUND = (
    "Each call that waits holds a thread. Let no more of them start than the downstream takes at a time "
    "(fjpool.CapacityLimiter)."
)


class _Downstream:
    """What `fn` calls: sleeps, and counts who is inside."""

    def __init__(self, seconds, sleep):
        self.calls = self.peak = 0
        self.over = False
        self._seconds, self._sleep = seconds, sleep
        self._inside, self._lock = 0, threading.Lock()

    def __call__(self, *_args, **_kwargs):
        if self.over:
            raise _futures.CancelledError("the test has ended")
        with self._lock:
            self.calls += 1
            self._inside += 1
            self.peak = max(self.peak, self._inside)
        try:
            self._sleep(self._seconds)
        finally:
            with self._lock:
                self._inside -= 1


class _Failed(Exception):
    """What is wrong, and the dump of that moment; whether a second attempt may go better."""

    def __init__(self, words, dump="", *, maybe_chance=False):
        super().__init__(words + (f"\n\nWhat the pool was doing:\n{dump}" if dump else ""))
        self.maybe_chance = maybe_chance


def _is_thread_limit(error):
    """Also where the caller's code has wrapped it."""
    chain = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__
    return any("Thread limit exceeded" in str(error) for error in chain)


class _Attempt:
    def __init__(self, fn, calls, wait, at_once, sleep, blocking, saturate):
        self.fn, self.calls, self.wait, self.at_once = fn, calls, wait, at_once
        self.name = getattr(fn, "__qualname__", None) or repr(fn)
        self.downstream = _Downstream(wait, sleep)
        self.saturate = saturate
        self.limit_dumps = []
        self.pool = ForkJoinPool(1, blocking=blocking, saturate=self._at_limit, join_at_exit=False)

    def _at_limit(self, pool):
        if not self.limit_dumps:
            self.limit_dumps.append(pool.dump())
        return self.saturate == "wait" if isinstance(self.saturate, str) else self.saturate(pool)

    def run(self):
        try:
            alone = max(self.wait, min(self._alone(), self._alone()))
            self._together(alone)
        finally:
            self.downstream.over = True
            self.pool.shutdown_now()
            self.pool.await_termination(ENDING)

    def _alone(self):
        start = perf_counter()
        future = self.pool.submit(self.fn, self.downstream)
        if not _futures.wait([future], ALONE).done:
            raise _Failed(f"one call of {self.name} alone has not ended after {ALONE:g} s", self.pool.dump())
        future.result()
        if self.downstream.calls == 0:
            raise _Failed(f"{self.name} did not call the downstream that it was given: nothing was tested")
        return perf_counter() - start

    def _together(self, alone):
        waves = 1 if self.at_once is None else -(-self.calls // self.at_once)
        allowed = SLACK * waves * alone + STARTING
        start = perf_counter()
        futures = [self.pool.submit(self.fn, self.downstream) for _ in range(self.calls)]
        _futures.wait(futures, allowed, _futures.FIRST_EXCEPTION)
        dump = self.pool.dump()
        done, pending = _futures.wait(futures, max(0, start + allowed - perf_counter()))
        self._judge_errors([error for future in done if (error := future.exception()) is not None], dump)
        self._judge_limits()
        if pending:
            raise _Failed(self._too_slow(len(done), waves, alone, allowed), dump, maybe_chance=True)

    def _judge_errors(self, errors, dump):
        refused = [error for error in errors if _is_thread_limit(error)]
        if refused:
            dump = self.limit_dumps[0] if self.limit_dumps else dump
            raise _Failed(
                f"{len(refused)} of {self.calls} calls of {self.name} failed: {refused[0]!r}. {BOUND}", dump
            )
        if errors:
            raise errors[0]

    def _judge_limits(self):
        if self.at_once is None and self.limit_dumps:
            raise _Failed(
                f"{self.calls} calls of {self.name} at once took all {self.pool.max_workers} threads that "
                f"the pool may have. {BOUND} If calls wait for their turn on purpose, pass at_once=.",
                self.limit_dumps[0],
            )
        if self.at_once is not None and self.downstream.peak > self.at_once:
            raise _Failed(
                f"{self.downstream.peak} calls of {self.name} were inside the downstream at a time, "
                f"which takes {self.at_once}"
            )

    def _too_slow(self, done, waves, alone, allowed):
        expected = f"{waves * alone:.2f} s would do for {waves} times {self.at_once}, " if waves > 1 else ""
        advice = ANNOUNCE
        if (peak := self.downstream.peak) > 1:
            purpose = f": if that is so on purpose, pass at_once={peak}" if self.at_once is None else ""
            advice += f" (At most {peak} were inside the downstream at a time{purpose}.)"
        return (
            f"{self.calls} calls of {self.name} at once take longer than one: {done} were done after "
            f"{allowed:.2f} s; {expected}one alone takes {alone:.2f} s. {advice}"
        )


def _check(fn, calls, wait, at_once, sleep, saturate):
    for name, value in (("fn", fn), ("sleep", sleep)):
        if not callable(value):
            raise TypeError(f"{name} must be callable, not {type(value).__name__}")
    _checks.integer("calls", calls, LEAST_CALLS, MOST_CALLS)
    if isinstance(wait, bool) or not isinstance(wait, (int, float)):
        raise TypeError(f"wait must be seconds, not {type(wait).__name__}")
    if not LEAST_WAIT <= wait <= ALONE / 2:
        raise ValueError(f"wait must lie between {LEAST_WAIT} and {ALONE / 2:g} seconds, not {wait}")
    if at_once is not None:
        _checks.integer("at_once", at_once, LEAST_AT_ONCE, MOST_CALLS)
    _checks.saturate_policy(saturate)


def assert_scales(
    fn,
    calls=40,
    *,
    wait=0.2,
    at_once=None,
    sleep=time.sleep,
    blocking="announced",
    saturate="wait",
):
    """Asserts that many calls of `fn` at once take about as long as one, on a pool with one worker.

    Gives `fn` a slow stand-in for whatever it calls (a database, a service) and runs it in a pool
    of parallelism 1. Code that waits for such a thing without telling the pool does one call after
    another there, as it does on a busy pool of any size.

    Parameters
    ----------
    fn : callable
        ``fn(downstream)``: what is tested, as a task would run it. It must call
        ``downstream(...)``, which ignores its arguments, takes `wait` seconds and returns None.
    calls : int
        So many at once, at least 5. With 300 there are more than the pool may have threads.
    wait : float
        Seconds that the downstream takes, at least 0.05.
    at_once : int, optional
        Where `fn` lets only so many calls into the downstream at a time, and the others wait: they
        may take accordingly longer, and the downstream must never have more inside. At least 3.
    sleep : callable
        How the downstream waits. Default: `time.sleep`, which the pool is not told of, as a client
        library would not; `fjpool.sleep` is one that tells it.
    blocking : {"announced", "auto"}
        As for `ForkJoinPool`. The default is strict: what only works because the pool finds
        blocked workers by itself (on Linux, a limited number of them, after 25 ms) fails.
    saturate : {"wait", "raise"} or callable
        As for `ForkJoinPool`: what the pools of the program have.

    Raises
    ------
    AssertionError
        The time grows with the number of calls; "Thread limit exceeded" was raised; the pool ran
        out of threads and `at_once` is not given; more than `at_once` were inside; `fn` made no
        call. The message explains it, with the pool's dump of that moment.
    BaseException
        What `fn` raised.
    TypeError, ValueError
        Bad arguments.

    Notes
    -----
    In time is what takes at most twice as long as expected plus 0.1 s; a call alone, tried twice,
    says what to expect. Being late must happen three times. A verdict never waits for calls that
    are late. The calls run in a pool of their own, which `fjpool.submit` and the like then use, too.

    Examples
    --------
    >>> import fjpool
    >>> from fjpool.testing import assert_scales
    >>> limiter = fjpool.CapacityLimiter(50)
    >>> def good(downstream):
    ...     with limiter, fjpool.managed_block():
    ...         downstream("EUR/USD")
    >>> assert_scales(good, wait=0.05)
    >>> def bad(downstream):
    ...     downstream("EUR/USD")
    >>> try:
    ...     assert_scales(bad, wait=0.05)
    ... except AssertionError as error:
    ...     print(error)  # doctest: +ELLIPSIS
    40 calls of bad at once take longer than one: ... were done after ... one alone takes ...
    """
    _check(fn, calls, wait, at_once, sleep, saturate)
    for attempt in range(ATTEMPTS):
        try:
            _Attempt(fn, calls, wait, at_once, sleep, blocking, saturate).run()
            return
        except _Failed as failed:
            if not failed.maybe_chance or attempt == ATTEMPTS - 1:
                raise AssertionError(str(failed)) from None
