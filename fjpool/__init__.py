"""fjpool: a work-stealing fork/join pool written in C, for Python."""

from concurrent.futures import CancelledError, InvalidStateError

from ._errors import BrokenThreadPool, LeafError, RejectedExecutionError, TimeoutError
from ._parallel import invoke, invoke_all, map, parallel_for, parallel_reduce, reduce, starmap, submit
from ._pool import ForkJoinPool, common_pool, current_pool, use
from ._task import Future, RecursiveAction, RecursiveTask, current_task, task
from ._version import __version__

__all__ = [
    "BrokenThreadPool",
    "CancelledError",
    "ForkJoinPool",
    "Future",
    "InvalidStateError",
    "LeafError",
    "RecursiveAction",
    "RecursiveTask",
    "RejectedExecutionError",
    "TimeoutError",
    "__version__",
    "common_pool",
    "current_pool",
    "current_task",
    "invoke",
    "invoke_all",
    "map",
    "parallel_for",
    "parallel_reduce",
    "reduce",
    "starmap",
    "submit",
    "task",
    "use",
]
