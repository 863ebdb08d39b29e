from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Literal, TypeVar

from typing_extensions import Self

from ._parallel import _Progress, _Results

__all__ = ["Progress", "check_progress", "with_progress"]

_T = TypeVar("_T")

def check_progress(progress: _Progress | None) -> None: ...
def with_progress(
    results: _Results[_T], progress: _Progress, total: int | None
) -> Iterator[_T]: ...

class Progress:
    def __init__(self, progress: _Progress, total: int) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> Literal[False]: ...
    def add(self, positions: int) -> None: ...
    def after(self, leaf: Callable[..., _T]) -> Callable[..., _T]: ...
