from typing import TypeVar

from ._task import Future

__all__ = ["is_running", "result_of"]

_T = TypeVar("_T")

def is_running() -> bool: ...
async def result_of(future: Future[_T]) -> _T: ...
