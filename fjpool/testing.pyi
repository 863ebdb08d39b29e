from collections.abc import Callable
from typing import Literal, SupportsIndex

from ._pool import ForkJoinPool

__all__ = ["assert_scales"]

def assert_scales(
    fn: Callable[[Callable[..., None]], object],
    calls: SupportsIndex = 40,
    *,
    wait: float = 0.2,
    at_once: SupportsIndex | None = None,
    sleep: Callable[[float], object] = ...,
    blocking: Literal["auto", "announced"] = "announced",
    saturate: Literal["wait", "raise"] | Callable[[ForkJoinPool], bool] = "wait",
) -> None: ...
