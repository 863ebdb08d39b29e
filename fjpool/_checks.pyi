from collections.abc import Callable
from typing import Any, Literal, SupportsIndex, TypeVar

from ._pool import ForkJoinPool

_FunctionT = TypeVar("_FunctionT", bound=Callable[..., Any] | None)

MAX_WORKERS: int
SPARES: int
LEAST_KEEP_ALIVE: float
MOST_KEEP_ALIVE: float
LEAST_STACK: int
MOST_CAPACITY: int
MAX_UNANNOUNCED: int
LEAST_WINDOW: float

def integer(name: str, value: SupportsIndex, low: int, high: int) -> int: ...
def sizes(
    parallelism: SupportsIndex | None, max_workers: SupportsIndex | None
) -> tuple[int, int]: ...
def keep_alive_seconds(value: float | None) -> float: ...
def check_prefix(value: str) -> None: ...
def callable_or_none(name: str, value: _FunctionT) -> _FunctionT: ...
def saturate_policy(
    value: Literal["wait", "raise"] | Callable[[ForkJoinPool], bool],
) -> Callable[[ForkJoinPool], bool] | Literal[True] | None: ...
def window() -> float: ...
