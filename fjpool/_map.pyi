from collections.abc import Callable, Iterable
from typing import Any, Literal, SupportsIndex, TypeVar

from ._parallel import _Progress, _Results
from ._pool import ForkJoinPool

__all__ = ["map_on"]

_T = TypeVar("_T")

def map_on(
    pool: ForkJoinPool,
    fn: Callable[..., _T],
    iterables: tuple[Iterable[Any], ...],
    star: bool,
    timeout: float | None,
    chunksize: SupportsIndex | Literal["auto"] | None,
    buffersize: SupportsIndex | None,
    ordered: bool,
    progress: _Progress | None,
) -> _Results[_T]: ...
