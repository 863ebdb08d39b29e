from collections.abc import Callable
from typing import Any

__all__ = ["Limit"]

class Limit:
    def __init__(self, threads: int) -> None: ...
    def around(
        self, initializer: Callable[..., object] | None, initargs: tuple[Any, ...]
    ) -> Callable[[], None]: ...
    def undone_after(self, finalizer: Callable[[], object] | None) -> Callable[[], None]: ...
