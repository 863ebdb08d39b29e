"""Tasks: futures that know what to run."""

import concurrent.futures as _futures
import functools
import sys

from . import _core

__all__ = ["Future", "RecursiveAction", "RecursiveTask", "current_task", "task"]


class Future(_core.Task, _futures.Future):
    """The result of work that may not have been done yet.

    What `ForkJoinPool.submit` returns, and a `concurrent.futures.Future` wherever one is
    expected. ``result()`` inside a worker of the same pool runs the work right there if nobody
    has started it, so waiting for one's own submissions never deadlocks.

    Examples
    --------
    >>> import fjpool
    >>> with fjpool.ForkJoinPool(2) as pool:
    ...     future = pool.submit(pow, 2, 10)
    ...     future.result()
    1024
    """

    __slots__ = ()
    _kind = _core.NO_BODY

    def __await__(self):
        """``await future`` in a coroutine, under asyncio or trio, whichever runs it."""
        if "trio" in sys.modules:
            from . import _trio

            if _trio.is_running():
                return _trio.result_of(self).__await__()
        import asyncio

        return asyncio.wrap_future(self).__await__()

    def _get_snapshot(self):  # Python 3.14's asyncio asks for all at once
        done = self.done()
        return done, self.cancelled(), self._result if done else None, self._exception


class RecursiveTask(Future):
    """A task with a result: subclass it and write ``compute``.

    ``fork()`` queues the task on the calling worker's own deque, where an idle worker may steal
    it (outside of workers: on the pool of ``with fjpool.use(pool)``, else the common pool);
    ``join()`` waits for it, runs it in place if nobody has started it, and returns its result or
    raises its exception; ``invoke()`` runs it here and now.

    Notes
    -----
    Java's RecursiveTask. Forking captures the context variables of the forker; the task sees its
    own copy. Fork the left part, compute the right part, join the left part last.

    Examples
    --------
    >>> import fjpool
    >>> class Fib(fjpool.RecursiveTask):
    ...     def __init__(self, n):
    ...         super().__init__()
    ...         self.n = n
    ...     def compute(self):
    ...         if self.n < 2:
    ...             return self.n
    ...         left = Fib(self.n - 1).fork()
    ...         return Fib(self.n - 2).compute() + left.join()
    >>> with fjpool.ForkJoinPool(2) as pool:
    ...     pool.invoke(Fib(10))
    55
    """

    _kind = _core.COMPUTE

    def compute(self):
        """The work; its value is the task's result."""
        raise NotImplementedError(f"{type(self).__name__} must define compute()")


class RecursiveAction(Future):
    """A task without a result: like `RecursiveTask`, and its result is always None.

    Examples
    --------
    >>> import fjpool
    >>> class Double(fjpool.RecursiveAction):
    ...     def __init__(self, numbers, lo, hi):
    ...         super().__init__()
    ...         self.numbers, self.lo, self.hi = numbers, lo, hi
    ...     def compute(self):
    ...         if self.hi - self.lo == 1:
    ...             self.numbers[self.lo] *= 2
    ...         else:
    ...             mid = (self.lo + self.hi) // 2
    ...             fjpool.invoke_all(Double(self.numbers, self.lo, mid), Double(self.numbers, mid, self.hi))
    >>> numbers = [1, 2, 3]
    >>> fjpool.invoke(Double(numbers, 0, 3))
    >>> numbers
    [2, 4, 6]
    """

    _kind = _core.ACTION

    def compute(self):
        """The work; what it returns is ignored."""
        raise NotImplementedError(f"{type(self).__name__} must define compute()")


class task:
    """Decorator: a function that can also be forked.

    Calling it runs it as any function; ``f.fork(*args, **kwargs)`` queues a call on the calling
    worker's own deque and returns its `Future`.

    Examples
    --------
    >>> import fjpool
    >>> @fjpool.task
    ... def fib(n):
    ...     if n < 2:
    ...         return n
    ...     a = fib.fork(n - 1)
    ...     b = fib(n - 2)
    ...     return a.join() + b
    >>> with fjpool.ForkJoinPool(2) as pool:
    ...     pool.invoke(fib, 10)
    55
    """

    def __init__(self, function):
        if not callable(function):
            raise TypeError(f"@fjpool.task expects a function, not {type(function).__name__}")
        functools.update_wrapper(self, function)
        self._function = function

    def __call__(self, /, *args, **kwargs):
        return self._function(*args, **kwargs)

    def fork(self, /, *args, **kwargs):
        """Queues a call of the function and returns its `Future`."""
        return _core.fork_call(self._function, *args, **kwargs)

    def __get__(self, instance, owner=None):
        return self if instance is None else task(self._function.__get__(instance, owner))

    def __repr__(self) -> str:
        return f"<fjpool.task {self._function!r}>"


def current_task():
    """The task that the calling thread is running.

    Returns
    -------
    Future or None
        None outside of tasks, and inside `parallel_for` and `parallel_reduce` leaves.

    Examples
    --------
    >>> import fjpool
    >>> fjpool.current_task() is None
    True
    """
    return _core.current_task()
