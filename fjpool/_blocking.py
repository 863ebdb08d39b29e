"""Blocking that the pool knows of: managed_block, and primitives that use it by themselves.

In a worker each wait here lets another worker run meanwhile; elsewhere it is an ordinary wait.
Condition waits for futures, which are cheap and know how to be woken by completion, time-out,
Ctrl-C and cancellation. The others are the standard library's classes over that Condition.
"""

import concurrent.futures as _futures
import operator
import threading
from collections import deque
from concurrent.futures import _base
from threading import BrokenBarrierError
from time import monotonic

from . import _core
from ._core import managed_block
from ._errors import RejectedExecutionError, TimeoutError
from ._task import Future

__all__ = [
    "Barrier",
    "BrokenBarrierError",
    "CapacityLimiter",
    "Condition",
    "Event",
    "Latch",
    "ManagedBlocker",
    "Semaphore",
    "as_completed",
    "managed_block",
    "run_blocker",
    "sleep",
    "wait",
]


def sleep(seconds):
    """Sleeps; in a worker, another one may run meanwhile.

    Parameters
    ----------
    seconds : float
        Not negative.

    Raises
    ------
    CancelledError
        The task that sleeps was asked to stop (`Future.request_cancel`, `shutdown_now`).

    Examples
    --------
    >>> import fjpool
    >>> fjpool.sleep(0.001)
    """
    _core.sleep(seconds)


class ManagedBlocker:
    """A wait in two methods, for `ForkJoinPool.managed_block`; subclass it.

    ``is_releasable()`` says whether there is nothing to wait for (any more); it may be called
    often and must be quick. ``block()`` waits, and returns True when there is nothing more to
    wait for. `block` is only called right after `is_releasable` returned False.

    Notes
    -----
    Java's ForkJoinPool.ManagedBlocker.

    Examples
    --------
    >>> import fjpool, threading
    >>> class Take(fjpool.ManagedBlocker):
    ...     def __init__(self, lock):
    ...         self.lock, self.taken = lock, False
    ...     def is_releasable(self):
    ...         self.taken = self.taken or self.lock.acquire(blocking=False)
    ...         return self.taken
    ...     def block(self):
    ...         self.taken = self.taken or self.lock.acquire()
    ...         return True
    >>> with fjpool.ForkJoinPool(2) as pool:
    ...     pool.managed_block(Take(threading.Lock()))
    """

    def block(self) -> bool:
        """Waits; True: there is nothing more to wait for."""
        raise NotImplementedError(f"{type(self).__name__} must define block()")

    def is_releasable(self) -> bool:
        """Whether there is nothing to wait for."""
        raise NotImplementedError(f"{type(self).__name__} must define is_releasable()")


def _raise_if_asked_to_stop():
    task = _core.current_task()
    if task is not None and task.cancel_requested:
        raise _futures.CancelledError("the task was asked to stop")


def run_blocker(blocker):
    """The protocol of `ManagedBlocker`."""
    for name in ("block", "is_releasable"):
        if not callable(getattr(blocker, name, None)):
            raise TypeError(
                f"managed_block expects an object with block() and is_releasable(), "
                f"not {type(blocker).__name__}"
            )
    if blocker.is_releasable():
        return
    with managed_block():
        while True:
            _raise_if_asked_to_stop()
            if blocker.block() or blocker.is_releasable():
                return


class _Waiter(Future):
    """What a Condition waits for: threading.Condition.notify calls release()."""

    __slots__ = ()

    def release(self):
        self.complete(None)


class Condition(threading.Condition):
    """`threading.Condition` whose waits let another worker run.

    Examples
    --------
    >>> import fjpool
    >>> condition = fjpool.Condition()
    >>> with condition:
    ...     condition.wait(timeout=0.001)
    False
    """

    def wait(self, timeout=None):
        """Waits until notified.

        Parameters
        ----------
        timeout : float, optional
            Seconds; None waits for ever.

        Returns
        -------
        bool
            False: the time was not enough.

        Raises
        ------
        RuntimeError
            The lock is not held.
        CancelledError
            The task that waits was asked to stop.
        """
        if not self._is_owned():
            raise RuntimeError("cannot wait on un-acquired lock")
        waiter = _Waiter()
        self._waiters.append(waiter)
        saved = self._release_save()
        try:
            waiter.result(timeout)
        except TimeoutError:
            self._acquire_restore(saved)
        except BaseException:
            self._acquire_restore(saved)
            if waiter.done():
                self.notify()  # it came just now, and somebody else can use it
            else:
                self._waiters.remove(waiter)
            raise
        else:
            self._acquire_restore(saved)
        if not waiter.done():
            self._waiters.remove(waiter)
            return False
        return True


class Event(threading.Event):
    """`threading.Event` whose wait lets another worker run.

    Examples
    --------
    >>> import fjpool
    >>> event = fjpool.Event()
    >>> event.set()
    >>> event.wait()
    True
    """

    def __init__(self):
        super().__init__()
        self._cond = Condition(threading.Lock())


class Semaphore(threading.Semaphore):
    """`threading.Semaphore` whose acquire lets another worker run.

    Examples
    --------
    >>> import fjpool
    >>> with fjpool.Semaphore(2) as got:
    ...     got
    True
    """

    def __init__(self, value=1):
        super().__init__(value)
        self._cond = Condition(threading.Lock())


class Barrier(threading.Barrier):
    """`threading.Barrier` whose wait lets another worker run.

    Examples
    --------
    >>> import fjpool
    >>> fjpool.Barrier(1).wait()
    0
    """

    def __init__(self, parties, action=None, timeout=None):
        super().__init__(parties, action, timeout)
        self._cond = Condition(threading.Lock())


class Latch:
    """Opens once it was counted down to 0, for everybody who waits and for good.

    Parameters
    ----------
    count : int
        At least 0.

    Notes
    -----
    Java's CountDownLatch, except that waiting lets another worker run.

    Examples
    --------
    >>> import fjpool
    >>> latch = fjpool.Latch(1)
    >>> latch.count_down()
    >>> latch.wait()
    True
    """

    def __init__(self, count):
        count = operator.index(count)
        if count < 0:
            raise ValueError(f"count must not be negative, not {count}")
        self._count = count
        self._condition = Condition(threading.Lock())

    @property
    def count(self):
        """What is left to count down."""
        return self._count

    def count_down(self):
        """One less; at 0 everybody who waits goes on. Below 0 it does not go."""
        with self._condition:
            if self._count > 0:
                self._count -= 1
                if self._count == 0:
                    self._condition.notify_all()

    def wait(self, timeout=None):
        """Waits for 0.

        Returns
        -------
        bool
            False: the time, in seconds, was not enough.
        """
        if self._count == 0:
            return True
        with self._condition:
            return self._condition.wait_for(lambda: self._count == 0, timeout)

    def __repr__(self):
        return f"<fjpool.Latch count={self._count}>"


class CapacityLimiter:
    """At most `n` calls at a time into something that takes no more, from any number of tasks.

    Parameters
    ----------
    n : int
        Calls that may be inside at once, at least 1.

    Notes
    -----
    ``with limiter:`` waits for its turn, first come, first served, and lets another worker run
    meanwhile. ``limiter.acquire(timeout)`` gives up after a while; ``limiter.call(fn)`` waits,
    ``limiter.call_now(fn)`` does not: it raises `RejectedExecutionError` when all places are
    taken, which is counted.

    Examples
    --------
    >>> import fjpool
    >>> limiter = fjpool.CapacityLimiter(2)
    >>> with limiter:
    ...     limiter.inside
    1
    >>> limiter.call_now(abs, -3)
    3
    >>> limiter.inside, limiter.waiting, limiter.rejected
    (0, 0, 0)
    """

    def __init__(self, n):
        n = operator.index(n)
        if n < 1:
            raise ValueError(f"n must be at least 1, not {n}")
        self._limit, self._inside, self._rejected = n, 0, 0
        self._lock = threading.Lock()
        self._turns = deque()

    limit = property(operator.attrgetter("_limit"), doc="Calls that may be inside at once.")
    inside = property(operator.attrgetter("_inside"), doc="Calls inside now.")
    rejected = property(operator.attrgetter("_rejected"), doc="Calls refused so far.")

    @property
    def waiting(self):
        """Calls that wait for their turn."""
        return len(self._turns)

    def acquire(self, timeout=None):
        """Waits for a place.

        Returns
        -------
        bool
            False: the time, in seconds, was not enough; nothing was taken.
        """
        with self._lock:
            if self._inside < self._limit:
                self._inside += 1
                return True
            turn = _Waiter()
            self._turns.append(turn)
        try:
            turn.result(timeout)
        except BaseException as error:
            with self._lock:
                given = turn.done()
                if not given:
                    self._turns.remove(turn)
            if given and isinstance(error, TimeoutError):
                return True  # the place came just then
            if given:
                self.release()
            if isinstance(error, TimeoutError):
                return False
            raise
        return True

    def try_acquire(self):
        """Takes a place if there is one; False, and counted as rejected, if not."""
        with self._lock:
            if self._inside < self._limit:
                self._inside += 1
                return True
            self._rejected += 1
            return False

    def release(self):
        """Gives a place back, to whoever has waited longest."""
        with self._lock:
            if self._turns:
                self._turns.popleft().release()
            elif self._inside > 0:
                self._inside -= 1
            else:
                raise RuntimeError("release without acquire")

    def call(self, fn, /, *args, **kwargs):
        """``fn(*args, **kwargs)`` inside, after waiting for a place."""
        with self:
            return fn(*args, **kwargs)

    def call_now(self, fn, /, *args, **kwargs):
        """``fn(*args, **kwargs)`` inside, or RejectedExecutionError if all places are taken."""
        if not self.try_acquire():
            raise RejectedExecutionError(f"all {self._limit} places are taken")
        try:
            return fn(*args, **kwargs)
        finally:
            self.release()

    def __enter__(self):
        self.acquire()
        return self

    def __exit__(self, kind, value, traceback):
        self.release()
        return False

    def __repr__(self):
        return (
            f"<fjpool.CapacityLimiter limit={self._limit} inside={self._inside} "
            f"waiting={len(self._turns)} rejected={self._rejected}>"
        )


# ---- wait and as_completed ----
#
# The standard library's own waiters, which its futures and ours tell about completion; only the
# event that they set is one that a worker may wait for.


def _watch(futures, return_when):
    """A waiter that the futures tell; the locks of all are held by the caller."""
    waiter = _base._create_and_install_waiters(futures, return_when)
    waiter.event = Event()
    return waiter


def _unwatch(futures, waiter):
    for future in futures:
        with future._condition:
            future._waiters.remove(waiter)


def _help(futures):
    """Where callers run their own tasks, this caller does."""
    for future in futures:
        if isinstance(future, Future):
            future._help()


def _is_finished(future):
    return future._state in (_base.CANCELLED_AND_NOTIFIED, _base.FINISHED)


def wait(fs, timeout=None, return_when=_futures.ALL_COMPLETED):
    """`concurrent.futures.wait`, letting another worker run meanwhile.

    Parameters
    ----------
    fs : iterable of Future
        fjpool's or others.
    timeout : float, optional
        Seconds.
    return_when : str
        FIRST_COMPLETED, FIRST_EXCEPTION or ALL_COMPLETED of `concurrent.futures`.

    Returns
    -------
    DoneAndNotDoneFutures
        Two sets.

    Examples
    --------
    >>> import fjpool
    >>> with fjpool.ForkJoinPool(2) as pool:
    ...     done, not_done = fjpool.wait([pool.submit(abs, -1), pool.submit(abs, -2)])
    >>> sorted(future.result() for future in done), not_done
    ([1, 2], set())
    """
    fs = set(fs)
    _help(fs)
    with _base._AcquireFutures(fs):
        done = {future for future in fs if _is_finished(future)}
        not_done = fs - done
        enough = (
            not not_done
            or (return_when == _futures.FIRST_COMPLETED and done)
            or (
                return_when == _futures.FIRST_EXCEPTION
                and any(not f.cancelled() and f.exception() is not None for f in done)
            )
        )
        if enough:
            return _base.DoneAndNotDoneFutures(done, not_done)
        waiter = _watch(not_done, return_when)
    try:
        waiter.event.wait(timeout)
    finally:
        _unwatch(not_done, waiter)
    done.update(waiter.finished_futures)
    return _base.DoneAndNotDoneFutures(done, fs - done)


def as_completed(fs, timeout=None):
    """`concurrent.futures.as_completed`, letting another worker run meanwhile.

    Parameters
    ----------
    fs : iterable of Future
        Duplicates are yielded once.
    timeout : float, optional
        Seconds from now within which all must be done.

    Yields
    ------
    Future
        As they finish; those that have finished already first.

    Raises
    ------
    TimeoutError
        Not all were done in time.

    Examples
    --------
    >>> import fjpool
    >>> with fjpool.ForkJoinPool(2) as pool:
    ...     futures = [pool.submit(abs, -1), pool.submit(abs, -2)]
    ...     sorted(future.result() for future in fjpool.as_completed(futures))
    [1, 2]
    """
    end = None if timeout is None else monotonic() + timeout
    fs = set(fs)
    total = len(fs)
    _help(fs)
    with _base._AcquireFutures(fs):
        finished = [future for future in fs if _is_finished(future)]
        pending = fs.difference(finished)
        waiter = _watch(pending, _base._AS_COMPLETED)
    del fs
    watched = set(pending)
    try:
        while True:
            while finished:
                if finished[-1] in pending:
                    pending.remove(finished[-1])
                    watched.remove(finished[-1])
                    _unwatch(finished[-1:], waiter)
                yield finished.pop()  # nothing here holds it while the caller has it
            if not pending:
                return
            left = None if end is None else end - monotonic()
            if left is not None and left <= 0:
                raise TimeoutError(f"{len(pending)} (of {total}) futures unfinished")
            waiter.event.wait(left)
            with waiter.lock:
                finished, waiter.finished_futures = waiter.finished_futures, []
                waiter.event.clear()
            finished.reverse()
    finally:
        _unwatch(watched, waiter)
