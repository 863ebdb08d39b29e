"""What the C core calls back. Imported once, by _pool."""

import concurrent.futures as _futures
import functools
import os
import sys
import threading
import warnings
from concurrent.futures import _base

from . import _core, _errors
from ._task import Future


def _worker_started(name: str) -> None:
    """A worker's first step in Python: threading knows it, as a daemon."""
    threading.current_thread().name = name
    for current, install in (
        (threading._profile_hook, sys.setprofile),
        (threading._trace_hook, sys.settrace),
    ):
        if current is not None:
            install(current)


def _worker_stopped(_: None) -> None:
    # Before 3.13 nobody else takes a foreign thread off this list.
    threading._active.pop(threading.get_ident(), None)


def _callback_failed(pair: "tuple[Future, BaseException]") -> None:
    future, exception = pair
    if not isinstance(exception, Exception):
        raise exception
    _base.LOGGER.error("exception calling callback for %r", future, exc_info=exception)


def _initializer_failed(exception: BaseException) -> None:
    _base.LOGGER.critical("Exception in initializer:", exc_info=exception)


def _leaf_error(where: "tuple[int, int, int]") -> BaseException:
    return _errors.LeafError(*where)


def _uncaught(exception: BaseException) -> None:
    threading.excepthook(
        threading.ExceptHookArgs(
            (type(exception), exception, exception.__traceback__, threading.current_thread())
        )
    )


def _limit_reached(pool) -> None:
    if pool.max_workers == pool.parallelism:
        return  # whoever asks for exactly so many threads knows
    warnings.warn(
        f"{pool!r} has reached max_workers={pool.max_workers}: blocked workers are not replaced "
        'any more, and queued tasks wait for them (saturate="raise" makes this an error)',
        RuntimeWarning,
        stacklevel=2,
    )


def _decorate_blocking(function):
    if not callable(function) or isinstance(function, type):
        raise TypeError(f"managed_block decorates a function, not {type(function).__name__}")

    @functools.wraps(function)
    def blocking(*args, **kwargs):
        with _core.managed_block():
            return function(*args, **kwargs)

    return blocking


def _orphaned(exception: "BaseException | None") -> None:
    """A task forked, and this is the child at the end of that task: the process ends like one.

    Not through the interpreter's own finalization, which wants the main thread that it was
    started with, and that one did not come along.
    """
    status = 0
    try:
        if isinstance(exception, SystemExit) and (exception.code is None or isinstance(exception.code, int)):
            status = exception.code or 0
        elif exception is not None:
            status = 1
            sys.excepthook(type(exception), exception, exception.__traceback__)
        import atexit

        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
    finally:
        os._exit(status & 0xFF)


def install(ambient_pool) -> None:
    """Hands everything over; `ambient_pool` is called outside of workers to find a pool."""
    _core.set_hooks(
        {
            "Future": Future,
            "CancelledError": _futures.CancelledError,
            "TimeoutError": _errors.TimeoutError,
            "InvalidStateError": _futures.InvalidStateError,
            "RejectedExecutionError": _errors.RejectedExecutionError,
            "BrokenExecutor": _errors.BrokenThreadPool,
            "main_thread": threading.main_thread().ident,
            "leaf_code": _errors.LeafError,
            "uncaught": _uncaught,
            "new_condition": lambda _: threading.Condition(),
            "worker_started": _worker_started,
            "worker_stopped": _worker_stopped,
            "callback_failed": _callback_failed,
            "initializer_failed": _initializer_failed,
            "leaf_error": _leaf_error,
            "orphaned": _orphaned,
            "limit_reached": _limit_reached,
            "decorate_blocking": _decorate_blocking,
            "ambient_pool": lambda _: ambient_pool(),
        }
    )


ABANDON_SECONDS = 1.0
"""What the common pool's running tasks get at exit before they are left behind."""


def _at_exit() -> None:
    _core.at_exit(ABANDON_SECONDS)


def register_exit() -> None:
    """Pools end before the interpreter does: joined, or left behind for good."""
    try:
        threading._register_atexit(_at_exit)
    except RuntimeError:  # imported while the interpreter is shutting down
        import atexit

        atexit.register(_at_exit)


def register_fork(reset) -> None:
    """In a forked child every inherited pool is dead; `reset` forgets the common pool."""
    if hasattr(os, "register_at_fork"):

        def after_in_child() -> None:
            _core.after_fork_child()
            reset()

        os.register_at_fork(after_in_child=after_in_child)
