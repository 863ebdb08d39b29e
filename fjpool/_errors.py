"""The exceptions of fjpool; the rest are those of concurrent.futures."""

import builtins
import concurrent.futures as _futures
import sys
from concurrent.futures.thread import BrokenThreadPool

__all__ = ["BrokenThreadPool", "LeafError", "RejectedExecutionError", "TimeoutError"]


class RejectedExecutionError(RuntimeError):
    """A pool refuses a task: it was shut down, or a limit was reached."""


RejectedExecutionError.__module__ = "fjpool"


class LeafError(RuntimeError):
    """A native leaf returned a code other than 0.

    Attributes
    ----------
    code : int
        What the leaf returned.
    lo, hi : int or None
        The positions it was called for, [lo, hi); None if the C interface reported it.
    """

    code: int
    lo: int | None
    hi: int | None

    def __init__(self, code: int, lo: int | None = None, hi: int | None = None) -> None:
        super().__init__(code, lo, hi)
        self.code, self.lo, self.hi = code, lo, hi

    def __str__(self) -> str:
        where = "" if self.lo is None else f" for positions [{self.lo}, {self.hi})"
        return f"native leaf returned {self.code}{where}"


LeafError.__module__ = "fjpool"

if sys.version_info >= (3, 11):
    TimeoutError = builtins.TimeoutError
else:  # where they are two

    class TimeoutError(_futures.TimeoutError, builtins.TimeoutError):
        """The time given was not enough: concurrent.futures' and the builtin error in one."""
