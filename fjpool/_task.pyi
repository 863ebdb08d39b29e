import concurrent.futures as _futures
from collections.abc import Callable, Generator
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from typing_extensions import Self

from . import _core

__all__ = ["Future", "RecursiveAction", "RecursiveTask", "current_task", "task"]

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)
_S = TypeVar("_S")
_P = ParamSpec("_P")
_Q = ParamSpec("_Q")

class Future(_core.Task[_T], _futures.Future[_T]):
    _kind: int
    # Here, where Self is a standard future as well.
    def add_done_callback(self, fn: Callable[[Self], object]) -> None: ...
    # Unlike the standard one it takes no None, but a class.
    def set_exception(  # type: ignore[override]
        self, exception: BaseException | type[BaseException]
    ) -> None: ...
    def __await__(self) -> Generator[Any, None, _T]: ...

class RecursiveTask(Future[_T]):
    def compute(self) -> _T: ...

class RecursiveAction(Future[None]):
    def compute(self) -> object: ...

class task(Generic[_P, _T_co]):
    def __init__(self, function: Callable[_P, _T_co]) -> None: ...
    def __call__(self, /, *args: _P.args, **kwargs: _P.kwargs) -> _T_co: ...
    def fork(self, /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T_co]: ...
    # As an attribute of a class it binds like the function it decorates.
    @overload
    def __get__(self, instance: None, owner: type | None = None) -> Self: ...
    @overload
    def __get__(
        self: task[Concatenate[_S, _Q], _T], instance: _S, owner: type | None = None
    ) -> task[_Q, _T]: ...

def current_task() -> Future[Any] | None: ...
