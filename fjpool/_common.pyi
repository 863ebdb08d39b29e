from collections.abc import Callable
from signal import Handlers
from types import FrameType, TracebackType
from typing import IO, Any, Literal, Protocol, SupportsIndex

from ._pool import ForkJoinPool

__all__ = ["ambient_pool", "common_pool", "current_pool", "dump_on_signal", "use"]

class _Writable(Protocol):
    def write(self, text: str, /) -> object: ...

def common_pool() -> ForkJoinPool: ...
def current_pool() -> ForkJoinPool | None: ...
def ambient_pool() -> ForkJoinPool: ...

class use:
    def __init__(self, pool: ForkJoinPool) -> None: ...
    def __enter__(self) -> ForkJoinPool: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> Literal[False]: ...

# A binary file will do where it has a descriptor.
def dump_on_signal(
    signum: SupportsIndex, file: _Writable | IO[bytes] | int | None = None
) -> Callable[[int, FrameType | None], Any] | int | Handlers | None: ...
