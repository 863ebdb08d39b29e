"""fjpool: a work-stealing fork/join pool written in C, for Python."""

from concurrent.futures import CancelledError, InvalidStateError

from ._blocking import (
    Barrier,
    BrokenBarrierError,
    CapacityLimiter,
    Condition,
    Event,
    Latch,
    ManagedBlocker,
    Semaphore,
    as_completed,
    managed_block,
    sleep,
    wait,
)
from ._common import common_pool, current_pool, dump_on_signal, use
from ._errors import BrokenThreadPool, LeafError, RejectedExecutionError, TimeoutError
from ._include import get_include
from ._parallel import invoke, invoke_all, map, parallel_for, parallel_reduce, reduce, starmap, submit
from ._pool import ForkJoinPool
from ._queue import Queue, ShutDown
from ._task import Future, RecursiveAction, RecursiveTask, current_task, task
from ._version import __version__

__all__ = [
    "Barrier",
    "BrokenBarrierError",
    "BrokenThreadPool",
    "CancelledError",
    "CapacityLimiter",
    "Condition",
    "Event",
    "ForkJoinPool",
    "Future",
    "InvalidStateError",
    "Latch",
    "LeafError",
    "ManagedBlocker",
    "Queue",
    "RecursiveAction",
    "RecursiveTask",
    "RejectedExecutionError",
    "Semaphore",
    "ShutDown",
    "TimeoutError",
    "__version__",
    "as_completed",
    "common_pool",
    "current_pool",
    "current_task",
    "dump_on_signal",
    "get_include",
    "invoke",
    "invoke_all",
    "managed_block",
    "map",
    "parallel_for",
    "parallel_reduce",
    "reduce",
    "sleep",
    "starmap",
    "submit",
    "task",
    "use",
    "wait",
]
