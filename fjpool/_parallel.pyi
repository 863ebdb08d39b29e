import sys
from _ctypes import CFuncPtr
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, ParamSpec, Protocol, SupportsIndex, TypeAlias, overload

from typing_extensions import Buffer, CapsuleType, Never, TypeVar, TypeVarTuple, Unpack

from . import _core
from ._pool import ForkJoinPool
from ._task import Future

__all__ = [
    "invoke",
    "invoke_all",
    "map",
    "parallel_for",
    "parallel_reduce",
    "reduce",
    "starmap",
    "submit",
]

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)
_A = TypeVar("_A")
_B = TypeVar("_B")
_C = TypeVar("_C")
_D = TypeVar("_D")
_E = TypeVar("_E")
_I = TypeVar("_I", default=Never)  # initial, 0 for floats as well
_P = ParamSpec("_P")
_Ts = TypeVarTuple("_Ts")

# ---- what the functions below and the methods of ForkJoinPool share ----

# Calls done, and of how many; None: not known.
_Progress: TypeAlias = Literal[True] | Callable[[int, int | None], object]

# What map returns; close() cancels the calls that have not started.
class _Results(Iterator[_T_co], Protocol[_T_co]):
    def close(self) -> None: ...

# Native leaves of libraries that need not be installed, by what tells them from anything else.
class _NumbaCFunc(Protocol):
    @property
    def address(self) -> int | None: ...
    @property
    def native_name(self) -> str: ...

class _CffiFunction(Protocol):
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...
    def __complex__(self) -> complex: ...

class _LowLevelCallable(Protocol):
    @property
    def function(self) -> Any: ...
    @property
    def user_data(self) -> Any: ...
    @property
    def signature(self) -> str: ...

_NativeLeaf: TypeAlias = CapsuleType | CFuncPtr | _NumbaCFunc | _CffiFunction | _LowLevelCallable

# NumPy says only from Python 3.12 on that its arrays are buffers.
if sys.version_info >= (3, 12):
    _Data: TypeAlias = Buffer
else:
    class _Array(Protocol):
        @property
        def __array_interface__(self) -> dict[str, Any]: ...

    _Data: TypeAlias = Buffer | _Array

# ---- the same on the ambient pool ----

def submit(fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]: ...
@overload
def invoke(task: _core.Task[_T], /) -> _T: ...
@overload
def invoke(task: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T: ...
@overload
def invoke_all(*tasks: _core.Task[_T]) -> list[_T]: ...
@overload
def invoke_all(tasks: Iterable[_core.Task[_T]], /) -> list[_T]: ...
@overload
def invoke_all(*tasks: _core.Task[Any]) -> list[Any]: ...
@overload
def map(
    fn: Callable[[_A], _T],
    a: Iterable[_A],
    /,
    *,
    timeout: float | None = None,
    chunksize: SupportsIndex | Literal["auto"] | None = "auto",
    buffersize: SupportsIndex | None = None,
    ordered: bool = True,
    progress: _Progress | None = None,
    pool: ForkJoinPool | None = None,
) -> _Results[_T]: ...
@overload
def map(
    fn: Callable[[_A, _B], _T],
    a: Iterable[_A],
    b: Iterable[_B],
    /,
    *,
    timeout: float | None = None,
    chunksize: SupportsIndex | Literal["auto"] | None = "auto",
    buffersize: SupportsIndex | None = None,
    ordered: bool = True,
    progress: _Progress | None = None,
    pool: ForkJoinPool | None = None,
) -> _Results[_T]: ...
@overload
def map(
    fn: Callable[[_A, _B, _C], _T],
    a: Iterable[_A],
    b: Iterable[_B],
    c: Iterable[_C],
    /,
    *,
    timeout: float | None = None,
    chunksize: SupportsIndex | Literal["auto"] | None = "auto",
    buffersize: SupportsIndex | None = None,
    ordered: bool = True,
    progress: _Progress | None = None,
    pool: ForkJoinPool | None = None,
) -> _Results[_T]: ...
@overload
def map(
    fn: Callable[[_A, _B, _C, _D], _T],
    a: Iterable[_A],
    b: Iterable[_B],
    c: Iterable[_C],
    d: Iterable[_D],
    /,
    *,
    timeout: float | None = None,
    chunksize: SupportsIndex | Literal["auto"] | None = "auto",
    buffersize: SupportsIndex | None = None,
    ordered: bool = True,
    progress: _Progress | None = None,
    pool: ForkJoinPool | None = None,
) -> _Results[_T]: ...
@overload
def map(
    fn: Callable[[_A, _B, _C, _D, _E], _T],
    a: Iterable[_A],
    b: Iterable[_B],
    c: Iterable[_C],
    d: Iterable[_D],
    e: Iterable[_E],
    /,
    *,
    timeout: float | None = None,
    chunksize: SupportsIndex | Literal["auto"] | None = "auto",
    buffersize: SupportsIndex | None = None,
    ordered: bool = True,
    progress: _Progress | None = None,
    pool: ForkJoinPool | None = None,
) -> _Results[_T]: ...
@overload
def map(
    fn: Callable[..., _T],
    a: Iterable[Any],
    b: Iterable[Any],
    c: Iterable[Any],
    d: Iterable[Any],
    e: Iterable[Any],
    f: Iterable[Any],
    /,
    *iterables: Iterable[Any],
    timeout: float | None = None,
    chunksize: SupportsIndex | Literal["auto"] | None = "auto",
    buffersize: SupportsIndex | None = None,
    ordered: bool = True,
    progress: _Progress | None = None,
    pool: ForkJoinPool | None = None,
) -> _Results[_T]: ...
def starmap(
    fn: Callable[..., _T],
    iterable: Iterable[Iterable[Any]],
    *,
    timeout: float | None = None,
    chunksize: SupportsIndex | Literal["auto"] | None = "auto",
    buffersize: SupportsIndex | None = None,
    ordered: bool = True,
    progress: _Progress | None = None,
    pool: ForkJoinPool | None = None,
) -> _Results[_T]: ...
def reduce(
    fn: Callable[[_T, _T], _T],
    iterable: Iterable[_T],
    initial: _T = ...,
    *,
    chunksize: SupportsIndex | None = None,
    progress: _Progress | None = None,
    pool: ForkJoinPool | None = None,
) -> _T: ...
@overload
def parallel_reduce(
    leaf: Callable[[int, int], _T],
    start: SupportsIndex | range,
    stop: SupportsIndex | None = None,
    *,
    chunksize: SupportsIndex | None = None,
    combine: Callable[[_T, _T], _T] = ...,
    initial: _I = ...,
    args: tuple[()] = (),
    data: None = None,
    progress: _Progress | None = None,
    pool: ForkJoinPool | None = None,
) -> _T | _I: ...
@overload
def parallel_reduce(
    leaf: Callable[[int, int, Unpack[_Ts]], _T],
    start: SupportsIndex | range,
    stop: SupportsIndex | None = None,
    *,
    chunksize: SupportsIndex | None = None,
    combine: Callable[[_T, _T], _T] = ...,
    initial: _I = ...,
    args: tuple[Unpack[_Ts]],
    data: None = None,
    progress: _Progress | None = None,
    pool: ForkJoinPool | None = None,
) -> _T | _I: ...
@overload
def parallel_reduce(
    leaf: _NativeLeaf,
    start: SupportsIndex | range,
    stop: SupportsIndex | None = None,
    *,
    chunksize: SupportsIndex | None = None,
    combine: Callable[[Any, Any], Any] = ...,
    initial: Any = ...,
    args: tuple[()] = (),
    data: _Data | None = None,
    progress: _Progress | None = None,
    pool: ForkJoinPool | None = None,
) -> Any: ...
@overload
def parallel_for(
    body: Callable[[int, int], object],
    start: SupportsIndex | range,
    stop: SupportsIndex | None = None,
    *,
    chunksize: SupportsIndex | None = None,
    args: tuple[()] = (),
    data: None = None,
    progress: _Progress | None = None,
    pool: ForkJoinPool | None = None,
) -> None: ...
@overload
def parallel_for(
    body: Callable[[int, int, Unpack[_Ts]], object],
    start: SupportsIndex | range,
    stop: SupportsIndex | None = None,
    *,
    chunksize: SupportsIndex | None = None,
    args: tuple[Unpack[_Ts]],
    data: None = None,
    progress: _Progress | None = None,
    pool: ForkJoinPool | None = None,
) -> None: ...
@overload
def parallel_for(
    body: _NativeLeaf,
    start: SupportsIndex | range,
    stop: SupportsIndex | None = None,
    *,
    chunksize: SupportsIndex | None = None,
    args: tuple[()] = (),
    data: _Data | None = None,
    progress: _Progress | None = None,
    pool: ForkJoinPool | None = None,
) -> None: ...
