"""fjpool.Queue: the standard queue over conditions that let another worker run."""

import queue
from time import monotonic

from ._blocking import Condition

__all__ = ["Queue", "ShutDown"]

try:
    from queue import ShutDown
except ImportError:  # before 3.13

    class ShutDown(Exception):
        """put or get on a queue that was shut down."""


class Queue(queue.Queue):
    """`queue.Queue` (bounded by `maxsize`) whose put and get let another worker run.

    ``shutdown(immediate=False)``, as in Python 3.13, works on every version.

    Examples
    --------
    >>> import fjpool
    >>> q = fjpool.Queue(maxsize=2)
    >>> q.put("item")
    >>> q.get(timeout=1)
    'item'
    """

    def __init__(self, maxsize=0):
        super().__init__(maxsize)
        self.not_empty = Condition(self.mutex)
        self.not_full = Condition(self.mutex)
        self.all_tasks_done = Condition(self.mutex)

    if not hasattr(queue.Queue, "shutdown"):
        is_shutdown = False

        def shutdown(self, immediate=False):
            """No more put; get goes on until the queue is empty, or stops at once if `immediate`."""
            with self.mutex:
                self.is_shutdown = True
                if immediate:
                    while self._qsize():
                        self._get()
                        if self.unfinished_tasks > 0:
                            self.unfinished_tasks -= 1
                    self.all_tasks_done.notify_all()
                self.not_empty.notify_all()
                self.not_full.notify_all()

        def _wait(self, condition, ready, block, timeout, exhausted):
            """Until ready() or shut down; raises `exhausted` when that takes too long."""
            if timeout is not None and timeout < 0 and block:
                raise ValueError("'timeout' must be a non-negative number")
            end = None if timeout is None else monotonic() + timeout
            while not ready() and not self.is_shutdown:
                left = None if end is None else end - monotonic()
                if not block or (left is not None and left <= 0):
                    raise exhausted
                condition.wait(left)

        def put(self, item, block=True, timeout=None):
            """Puts an item, waiting for room unless told otherwise."""
            with self.mutex:
                if not self.is_shutdown and self.maxsize > 0:
                    self._wait(
                        self.not_full,
                        lambda: not 0 < self.maxsize <= self._qsize(),
                        block,
                        timeout,
                        queue.Full,
                    )
                if self.is_shutdown:
                    raise ShutDown
                self._put(item)
                self.unfinished_tasks += 1
                self.not_empty.notify()

        def get(self, block=True, timeout=None):
            """Takes an item, waiting for one unless told otherwise."""
            with self.mutex:
                self._wait(self.not_empty, self._qsize, block, timeout, queue.Empty)
                if not self._qsize():
                    raise ShutDown
                item = self._get()
                self.not_full.notify()
                return item
