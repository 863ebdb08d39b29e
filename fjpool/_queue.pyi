import queue
import sys
from typing import TypeVar

__all__ = ["Queue", "ShutDown"]

_T = TypeVar("_T")

if sys.version_info >= (3, 13):
    from queue import ShutDown as ShutDown
else:
    class ShutDown(Exception): ...

class Queue(queue.Queue[_T]):
    def __init__(self, maxsize: int = 0) -> None: ...
    if sys.version_info < (3, 13):
        is_shutdown: bool
        def shutdown(self, immediate: bool = False) -> None: ...
