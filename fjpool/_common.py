"""The common pool, and which pool a function without one runs on."""

import threading
from contextvars import ContextVar

from . import _checks, _core, _cpus, _hooks, _pool

__all__ = ["ambient_pool", "common_pool", "current_pool", "dump_on_signal", "use"]


class _CommonPool(_pool.ForkJoinPool):
    """The pool that everybody shares: it cannot be shut down, and abandons its work at exit."""

    def __init__(self):
        parallelism = _cpus.common_parallelism()
        limit = min(parallelism + _cpus.common_maximum_spares(), _checks.MAX_WORKERS)
        _core.Pool.__init__(
            self,
            parallelism=parallelism,
            max_workers=max(limit, 1),
            fifo=False,
            keep_alive=60.0,
            stack_size=0,
            queue_capacity=2**24,
            prefix="ForkJoinPool.commonPool-worker-",
            first=1,
            initializer=None,
            initargs=(),
            finalizer=None,
            join_at_exit=False,
            common=True,
            min_runnable=_checks.MAX_WORKERS,
            eager=False,
            monitor=True,
            max_unannounced=_checks.MAX_UNANNOUNCED,
            window=_checks.window(),
            saturate=None,
            max_queued=0,
            waits_for_room=True,
        )
        self._order, self._limit = "lifo", limit
        self._most_at_once = None
        self._detects = parallelism > 0
        _pool.live[id(self)] = self

    @property
    def parallelism(self) -> int:
        """Workers that should run at once; 1 is reported where callers run their own tasks."""
        return max(super().parallelism, 1)

    def shutdown(self, wait=True, *, cancel_futures=False):
        """Does nothing."""

    shutdown_now = close = shutdown

    def __exit__(self, kind, value, traceback):
        return False

    def await_termination(self, timeout=None):
        """Waits until nothing is queued or running, and returns False: it never ends."""
        self._await_quiescence(timeout)
        return False


_common = None
_common_lock = threading.Lock()


def common_pool():
    """The pool that everybody shares, made at first use.

    Its parallelism is one less than the CPUs this process may use, at least 1, since the caller
    of `parallel_for` and `parallel_reduce` works too; FJPOOL_COMMON_PARALLELISM sets it, and 0
    means that whoever waits for a task runs it.

    Examples
    --------
    >>> import fjpool
    >>> fjpool.common_pool() is fjpool.common_pool()
    True
    """
    global _common
    if _common is None:
        with _common_lock:
            if _common is None:
                _common = _CommonPool()
    return _common


def _forget_common() -> None:
    global _common, _common_lock
    _common, _common_lock = None, threading.Lock()


def current_pool():
    """The pool whose worker is calling.

    Examples
    --------
    >>> import fjpool
    >>> fjpool.current_pool() is None
    True
    >>> with fjpool.ForkJoinPool(1) as pool:
    ...     pool.invoke(fjpool.current_pool) is pool
    True
    """
    return _core.current_pool()


_chosen: "ContextVar[_pool.ForkJoinPool]" = ContextVar("fjpool.use")


class use:
    """``with fjpool.use(pool):`` the module's functions run on that pool.

    Inside a worker they run on the worker's own pool all the same.

    Examples
    --------
    >>> import fjpool
    >>> with fjpool.ForkJoinPool(2) as pool, fjpool.use(pool):
    ...     fjpool.submit(fjpool.current_pool).result() is pool
    True
    """

    def __init__(self, pool):
        if not isinstance(pool, _pool.ForkJoinPool):
            raise TypeError(f"use expects a ForkJoinPool, not {type(pool).__name__}")
        self._pool = pool
        self._tokens = []

    def __enter__(self):
        self._tokens.append(_chosen.set(self._pool))
        return self._pool

    def __exit__(self, kind, value, traceback):
        _chosen.reset(self._tokens.pop())
        return False


def _outside_pool():
    return _chosen.get(None) or common_pool()


def ambient_pool():
    """The worker's own pool, else that of ``with use(pool)``, else the common pool."""
    return _core.current_pool() or _outside_pool()


def dump_on_signal(signum, file=None):
    """Has a signal write the `ForkJoinPool.dump` of every pool, as `faulthandler.register` does stacks.

    Parameters
    ----------
    signum : int
        For example ``signal.SIGUSR1``.
    file : file or int, optional
        Where to: a file, or a descriptor. Default: `sys.stderr` as it is when the signal comes.

    Returns
    -------
    signal handler
        The one before, as from `signal.signal`: ``signal.signal(signum, previous)`` undoes this.
        It is not called any more.

    Raises
    ------
    ValueError
        `signum` is no signal or one that no handler can serve (SIGKILL, SIGSEGV...); or this is
        not the main thread.
    TypeError
        `signum` is no number, or `file` no file.

    Notes
    -----
    The dump is written by the main thread. That comes to it between two steps of Python code, at
    once in `time.sleep`, `threading.Lock.acquire`, `select` and other waits of the standard
    library, and within 50 ms in those of fjpool; but only afterwards if it is in a C function
    that takes long. Against that, `faulthandler.register` helps. Forked children inherit the
    handler and dump their own pools. A file that cannot be written to is left alone.

    Examples
    --------
    >>> import fjpool, io, signal
    >>> text = io.StringIO()
    >>> previous = fjpool.dump_on_signal(signal.SIGUSR1, text)
    >>> with fjpool.ForkJoinPool(1) as pool:
    ...     signal.raise_signal(signal.SIGUSR1)
    >>> "queued: 0 tasks, 0 submissions" in text.getvalue()
    True
    >>> _ = signal.signal(signal.SIGUSR1, previous)
    """
    from . import _dump

    return _dump.dump_on_signal(signum, file)


_hooks.install(_outside_pool)
_hooks.register_exit()
_hooks.register_fork(_forget_common)
