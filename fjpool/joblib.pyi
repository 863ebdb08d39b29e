from abc import ABCMeta
from collections.abc import Callable
from typing import Any, TypeVar

# joblib has no types of its own.
from joblib._parallel_backends import (  # type: ignore[import-untyped]
    AutoBatchingMixin,
    ParallelBackendBase,
)

from ._pool import ForkJoinPool
from ._task import Future

__all__ = ["FJPoolBackend", "register"]

_T = TypeVar("_T")

class FJPoolBackend(
    AutoBatchingMixin,  # type: ignore[misc]
    ParallelBackendBase,  # type: ignore[misc]
    metaclass=ABCMeta,
):
    supports_retrieve_callback: bool
    supports_return_generator: bool
    supports_timeout: bool
    supports_sharedmem: bool
    uses_threads: bool
    def __init__(self, pool: ForkJoinPool | None = None, **options: Any) -> None: ...
    def effective_n_jobs(self, n_jobs: int | None) -> int: ...
    def configure(self, n_jobs: int | None = 1, parallel: Any = None, **options: Any) -> int: ...
    def submit(
        self, func: Callable[[], _T], callback: Callable[[Future[_T]], object] | None = None
    ) -> Future[_T]: ...
    def apply_async(
        self, func: Callable[[], _T], callback: Callable[[Future[_T]], object] | None = None
    ) -> Future[_T]: ...
    def retrieve_result_callback(self, future: Future[_T]) -> _T: ...
    def retrieve_result(self, future: Future[_T], timeout: float | None = None) -> _T: ...
    def get_nested_backend(self) -> tuple[FJPoolBackend, None]: ...
    def abort_everything(self, ensure_ready: bool = True) -> None: ...

def register(name: str = "fjpool") -> None: ...
