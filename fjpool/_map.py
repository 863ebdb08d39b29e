"""`ForkJoinPool.map`: calls in chunks that give their rest away, results in order or as they come."""

import itertools
import operator
from collections import deque
from concurrent.futures import CancelledError
from time import monotonic, perf_counter_ns

from . import _core
from ._blocking import Semaphore
from ._progress import check_progress, with_progress

__all__ = ["map_on"]

# Chunks a worker gets to begin with; each offers its rest to thieves while it runs.
CHUNKS_PER_WORKER = 4
# A group of calls that takes so long is not doubled for the next one.
LONG_NS = 500_000


class _Run:
    """Calls for items [lo, hi), in groups that double from `size` while calls are short.

    While a group runs, what is left of the chunk lies on the worker's deque, where another may
    steal it: an item that blocks or takes long holds up its group only.

    What a group did is its *outcome*, the list [results, error]. Whoever raises the error empties
    that list: the frames that the traceback keeps then refer to the list only, not to the error.
    """

    __slots__ = ("fn", "items", "star")

    def __init__(self, fn, items, star):
        self.fn, self.items, self.star = fn, items, star

    def _group(self, outcome, lo, hi):
        """Makes the calls of a group; whether all went well."""
        try:
            _core.append_calls(outcome[0], self.fn, self.items[lo:hi], self.star)
        except BaseException as error:
            outcome[1] = error
        return outcome[1] is None

    def groups(self, offered, lo, hi, size, results=None):
        """The outcome and, if others have the rest by now, its future: a pair for each group.

        `offered` is what runs the rest: it is called with the bounds and the size. With `results`
        each outcome has all results so far.
        """
        rest = None
        while lo < hi and rest is None:
            middle = min(lo + size, hi)
            rest = _core.fork_call(offered, middle, hi, size) if middle < hi else None
            begun = perf_counter_ns()
            outcome = [[] if results is None else results, None]
            went_well = self._group(outcome, lo, middle)
            if went_well and rest is not None and rest.try_unfork():
                rest = None
            yield outcome, rest
            if not went_well:
                return
            lo = middle
            size = 2 * size if perf_counter_ns() - begun < LONG_NS else 1

    def __call__(self, lo, hi, size):
        """The outcome up to an error or to what others took, and the rest's future."""
        for outcome, rest in self.groups(self, lo, hi, size, []):
            pass
        return outcome, rest


class _Delivery:
    """Calls whose results go to one queue as each group is done, whoever ran it."""

    __slots__ = ("run", "parts", "ready", "stopped")

    def __init__(self, run):
        self.run, self.parts, self.ready, self.stopped = run, deque(), Semaphore(0), False

    def deliver(self, outcome):
        self.parts.append(outcome)
        self.ready.release()

    def note(self, future):
        """A done-callback: what was cancelled would never be delivered."""
        if future.cancelled() and not self.stopped:
            self.deliver([[], CancelledError()])

    def __call__(self, lo, hi, size):
        if self.stopped:
            return
        for outcome, rest in self.run.groups(self, lo, hi, size):
            self.deliver(outcome)
            if rest is not None:
                rest.add_done_callback(self.note)
            if self.stopped:
                return


class _Clock:
    """Seconds left of a time-out that began when it was made."""

    __slots__ = ("end",)

    def __init__(self, timeout):
        try:
            self.end = None if timeout is None else monotonic() + timeout
        except TypeError:
            raise TypeError(
                f"timeout must be a number of seconds or None, not {type(timeout).__name__}"
            ) from None
        if self.end is not None and self.end != self.end:
            raise ValueError("timeout must be a number of seconds, not nan")

    def left(self):
        return None if self.end is None else self.end - monotonic()


def _cancel(futures):
    for future in futures:
        future.cancel()


def _part(outcome):
    """A list of results, then what was raised in place of the next one; empties the outcome."""
    error = outcome.pop()
    yield outcome.pop()
    if error is not None:
        try:
            raise error
        finally:
            del error


def _parts(futures, clock):
    """Lists of results in order; raises what a call raised in its place."""
    futures.reverse()
    try:
        while futures:
            outcome, rest = futures[-1].result(clock.left())
            if rest is None:
                del futures[-1]
            else:
                futures[-1] = rest
            yield from _part(outcome)
    finally:
        _cancel(futures)


def _as_delivered(delivery, futures, total, clock):
    """Lists of results in the order in which they came."""
    try:
        for future in futures:
            future.add_done_callback(delivery.note)
        while total > 0:
            if not delivery.ready.acquire(timeout=clock.left()):
                raise _timeout()
            outcome = delivery.parts.popleft()
            total -= len(outcome[0])
            yield from _part(outcome)
    finally:
        delivery.stopped = True
        _cancel(futures)


def _timeout():
    from ._errors import TimeoutError

    return TimeoutError("the time was not enough for all results")


def _bounded(pool, run, items, buffersize, chunk, ordered, clock):
    """At most `buffersize` items are read ahead of the results that were taken."""
    ahead = buffersize // chunk
    window, source = deque(), iter(items)

    def submit_one():
        piece = list(itertools.islice(source, chunk))
        if piece:
            whole = _Run(run.fn, piece, run.star)
            window.append(pool.submit(whole, 0, len(piece), len(piece)))
        return bool(piece)

    try:
        while len(window) < ahead and submit_one():
            pass
    except BaseException:
        _cancel(window)
        raise

    def results():
        from ._blocking import as_completed

        try:
            while window:
                if ordered:
                    future = window[0]
                else:
                    future = next(as_completed(window, clock.left()))
                outcome, _ = future.result(clock.left())
                window.remove(future)
                yield from _part(outcome)
                submit_one()
        finally:
            _cancel(window)

    return results()


def _checked_chunk(chunksize, n, parallelism):
    if chunksize is None or chunksize == "auto":
        return None if n is None else max(1, -(-n // (CHUNKS_PER_WORKER * parallelism)))
    try:
        chunk = operator.index(chunksize)
    except TypeError:
        raise TypeError(f"chunksize must be an integer, not {type(chunksize).__name__}") from None
    if chunk < 1:
        raise ValueError(f"chunksize must be at least 1, not {chunk}")
    return chunk


def map_on(pool, fn, iterables, star, timeout, chunksize, buffersize, ordered, progress):
    """The iterator behind map and starmap: work is submitted at once, results are collected lazily."""
    if not callable(fn):
        raise TypeError(f"fn must be callable, not {type(fn).__name__}")
    check_progress(progress)
    if buffersize is not None:
        try:
            buffersize = operator.index(buffersize)
        except TypeError:
            raise TypeError(f"buffersize must be an integer or None, not {type(buffersize).__name__}") from None
        if buffersize < 1:
            raise ValueError(f"buffersize must be None or at least 1, not {buffersize}")
    clock = _Clock(timeout)
    _checked_chunk(chunksize, None, 1)
    items = iterables[0] if len(iterables) == 1 else zip(*iterables)
    star = star or len(iterables) != 1
    total = None
    if buffersize is not None:
        chunk = min(_checked_chunk(chunksize, None, 1) or 1, buffersize)
        parts = _bounded(pool, _Run(fn, (), star), items, buffersize, chunk, ordered, clock)
    else:
        if type(items) not in (range, tuple):  # what may change meanwhile, or can be read once
            items = list(items)
        total = len(items)
        run = _Run(fn, items, star)
        delivery = None if ordered else _Delivery(run)
        auto = chunksize is None or chunksize == "auto"
        chunk = _checked_chunk(chunksize, total, pool.parallelism)
        futures = []
        try:
            for lo in range(0, total, chunk):
                hi = min(lo + chunk, total)
                futures.append(pool.submit(delivery or run, lo, hi, 1 if auto else chunk))
        except BaseException:
            _cancel(futures)
            raise
        if delivery is not None:
            parts = _as_delivered(delivery, futures, total, clock)
        else:
            parts = _parts(futures, clock)
    results = _core.Results(parts)
    return results if progress is None else with_progress(results, progress, total)
