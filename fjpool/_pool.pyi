from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Literal, ParamSpec, SupportsIndex, overload

from typing_extensions import Never, TypeVar, TypeVarTuple, Unpack

from . import _core
from ._blocking import _Blocker
from ._parallel import _Data, _NativeLeaf, _Progress, _Results
from ._task import Future

__all__ = ["ForkJoinPool"]

_T = TypeVar("_T")
_A = TypeVar("_A")
_B = TypeVar("_B")
_C = TypeVar("_C")
_D = TypeVar("_D")
_E = TypeVar("_E")
_I = TypeVar("_I", default=Never)  # initial, 0 for floats as well
_P = ParamSpec("_P")
_Ts = TypeVarTuple("_Ts")

class ForkJoinPool(_core.Pool, ThreadPoolExecutor):
    @overload
    def __init__(
        self,
        parallelism: SupportsIndex | None = None,
        thread_name_prefix: str = "",
        initializer: Callable[[], object] | None = None,
        initargs: tuple[()] = (),
        *,
        max_workers: SupportsIndex | None = None,
        order: Literal["lifo", "fifo"] = "lifo",
        keep_alive: float | None = 60.0,
        stack_size: SupportsIndex | None = None,
        queue_capacity: SupportsIndex = 16_777_216,
        finalizer: Callable[[], object] | None = None,
        blocking: Literal["auto", "announced"] = "auto",
        max_unannounced: SupportsIndex = 64,
        min_runnable: SupportsIndex | None = None,
        saturate: Literal["wait", "raise"] | Callable[[ForkJoinPool], bool] = "wait",
        max_queued: SupportsIndex | None = None,
        when_full: Literal["wait", "raise"] = "wait",
        join_at_exit: bool = True,
        blas_threads: SupportsIndex | None = None,
        _eager: bool = False,
    ) -> None: ...
    @overload
    def __init__(
        self,
        parallelism: SupportsIndex | None = None,
        thread_name_prefix: str = "",
        *,
        initializer: Callable[[Unpack[_Ts]], object],
        initargs: tuple[Unpack[_Ts]],
        max_workers: SupportsIndex | None = None,
        order: Literal["lifo", "fifo"] = "lifo",
        keep_alive: float | None = 60.0,
        stack_size: SupportsIndex | None = None,
        queue_capacity: SupportsIndex = 16_777_216,
        finalizer: Callable[[], object] | None = None,
        blocking: Literal["auto", "announced"] = "auto",
        max_unannounced: SupportsIndex = 64,
        min_runnable: SupportsIndex | None = None,
        saturate: Literal["wait", "raise"] | Callable[[ForkJoinPool], bool] = "wait",
        max_queued: SupportsIndex | None = None,
        when_full: Literal["wait", "raise"] = "wait",
        join_at_exit: bool = True,
        blas_threads: SupportsIndex | None = None,
        _eager: bool = False,
    ) -> None: ...
    @overload
    def __init__(
        self,
        parallelism: SupportsIndex | None,
        thread_name_prefix: str,
        initializer: Callable[[Unpack[_Ts]], object],
        initargs: tuple[Unpack[_Ts]],
        *,
        max_workers: SupportsIndex | None = None,
        order: Literal["lifo", "fifo"] = "lifo",
        keep_alive: float | None = 60.0,
        stack_size: SupportsIndex | None = None,
        queue_capacity: SupportsIndex = 16_777_216,
        finalizer: Callable[[], object] | None = None,
        blocking: Literal["auto", "announced"] = "auto",
        max_unannounced: SupportsIndex = 64,
        min_runnable: SupportsIndex | None = None,
        saturate: Literal["wait", "raise"] | Callable[[ForkJoinPool], bool] = "wait",
        max_queued: SupportsIndex | None = None,
        when_full: Literal["wait", "raise"] = "wait",
        join_at_exit: bool = True,
        blas_threads: SupportsIndex | None = None,
        _eager: bool = False,
    ) -> None: ...
    @overload
    def invoke(self, task: _core.Task[_T], /) -> _T: ...
    @overload
    def invoke(self, task: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> _T: ...
    def submit_many(self, fn: Callable[[_A], _T], iterable: Iterable[_A], /) -> list[Future[_T]]: ...
    def execute_many(self, fn: Callable[[_A], object], iterable: Iterable[_A], /) -> None: ...
    # Executor.map takes anything; here the items must suit the function.
    @overload  # type: ignore[override]
    def map(
        self,
        fn: Callable[[_A], _T],
        a: Iterable[_A],
        /,
        *,
        timeout: float | None = None,
        chunksize: SupportsIndex | Literal["auto"] | None = "auto",
        buffersize: SupportsIndex | None = None,
        ordered: bool = True,
        progress: _Progress | None = None,
    ) -> _Results[_T]: ...
    @overload
    def map(
        self,
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
    ) -> _Results[_T]: ...
    @overload
    def map(
        self,
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
    ) -> _Results[_T]: ...
    @overload
    def map(
        self,
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
    ) -> _Results[_T]: ...
    @overload
    def map(
        self,
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
    ) -> _Results[_T]: ...
    @overload
    def map(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
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
    ) -> _Results[_T]: ...
    def starmap(
        self,
        fn: Callable[..., _T],
        iterable: Iterable[Iterable[Any]],
        *,
        timeout: float | None = None,
        chunksize: SupportsIndex | Literal["auto"] | None = "auto",
        buffersize: SupportsIndex | None = None,
        ordered: bool = True,
        progress: _Progress | None = None,
    ) -> _Results[_T]: ...
    def reduce(
        self,
        fn: Callable[[_T, _T], _T],
        iterable: Iterable[_T],
        initial: _T = ...,
        *,
        chunksize: SupportsIndex | None = None,
        progress: _Progress | None = None,
    ) -> _T: ...
    @overload
    def parallel_reduce(
        self,
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
    ) -> _T | _I: ...
    @overload
    def parallel_reduce(
        self,
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
    ) -> _T | _I: ...
    @overload
    def parallel_reduce(
        self,
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
    ) -> Any: ...
    @overload
    def parallel_for(
        self,
        body: Callable[[int, int], object],
        start: SupportsIndex | range,
        stop: SupportsIndex | None = None,
        *,
        chunksize: SupportsIndex | None = None,
        args: tuple[()] = (),
        data: None = None,
        progress: _Progress | None = None,
    ) -> None: ...
    @overload
    def parallel_for(
        self,
        body: Callable[[int, int, Unpack[_Ts]], object],
        start: SupportsIndex | range,
        stop: SupportsIndex | None = None,
        *,
        chunksize: SupportsIndex | None = None,
        args: tuple[Unpack[_Ts]],
        data: None = None,
        progress: _Progress | None = None,
    ) -> None: ...
    @overload
    def parallel_for(
        self,
        body: _NativeLeaf,
        start: SupportsIndex | range,
        stop: SupportsIndex | None = None,
        *,
        chunksize: SupportsIndex | None = None,
        args: tuple[()] = (),
        data: _Data | None = None,
        progress: _Progress | None = None,
    ) -> None: ...
    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None: ...
    def shutdown_now(self) -> None: ...
    def close(self) -> None: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> Literal[False]: ...
    def await_termination(self, timeout: float | None = None) -> bool: ...
    def await_quiescence(self, timeout: float | None = None) -> bool: ...
    @property
    def is_shutdown(self) -> bool: ...
    @property
    def is_terminated(self) -> bool: ...
    @property
    def is_quiescent(self) -> bool: ...
    @property
    def order(self) -> Literal["lifo", "fifo"]: ...
    @property
    def max_workers(self) -> int: ...
    def managed_block(self, blocker: _Blocker) -> None: ...
    def dump(self) -> str: ...
    @property
    def detection_source(self) -> str | None: ...
    def leaf_counts(self) -> dict[str, int]: ...
