from collections.abc import Callable
from signal import Handlers
from types import FrameType
from typing import IO, Any, SupportsIndex

from ._common import _Writable
from ._pool import ForkJoinPool

__all__ = ["dump", "dump_on_signal"]

def call_names(machine: str) -> dict[int, str]: ...
def dump(pool: ForkJoinPool) -> str: ...
def dump_on_signal(
    signum: SupportsIndex, file: _Writable | IO[bytes] | int | None
) -> Callable[[int, FrameType | None], Any] | int | Handlers | None: ...
