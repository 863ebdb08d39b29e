"""What type checkers must say about fjpool's public names; read by test_typing.py, never run."""

import asyncio
import concurrent.futures
import ctypes
import signal
from array import array
from collections.abc import Callable
from typing import Literal

from typing_extensions import assert_type

import fjpool
from fjpool import lab
from fjpool.testing import assert_scales


def half(x: int) -> float:
    return x / 2


def label(number: int, text: str, *, upper: bool = False) -> str:
    return f"{number} {text.upper() if upper else text}"


def total(*numbers: int) -> int:
    return sum(numbers)


def setup(name: str, level: int) -> None: ...


# --- pools ---

pool = fjpool.ForkJoinPool()
fjpool.ForkJoinPool(2, "worker", setup, ("a", 1))
fjpool.ForkJoinPool(initializer=setup, initargs=("a", 1), keep_alive=None, order="fifo")
fjpool.ForkJoinPool(initializer=print, finalizer=print, saturate=lambda pool: pool.pool_size > 3)
executor: concurrent.futures.ThreadPoolExecutor = pool
assert_type(pool.order, Literal["lifo", "fifo"])
assert_type(pool.steal_count, int)
assert_type(pool.await_termination(1), bool)
assert_type(pool.dump(), str)
assert_type(pool.detection_source, "str | None")
assert_type(pool.leaf_counts(), dict[str, int])
assert_type(fjpool.common_pool(), fjpool.ForkJoinPool)
assert_type(fjpool.current_pool(), "fjpool.ForkJoinPool | None")
with fjpool.ForkJoinPool(1) as entered, fjpool.use(entered) as used:
    assert_type(entered, fjpool.ForkJoinPool)
    assert_type(used, fjpool.ForkJoinPool)


def ends_with_its_block() -> int:
    """`with` never swallows an exception, so nothing follows it here."""
    limiter = fjpool.CapacityLimiter(1)
    with fjpool.ForkJoinPool(1), fjpool.use(pool), fjpool.managed_block(), limiter:
        return 1


# --- futures ---

future = fjpool.submit(label, 1, text="a", upper=True)
assert_type(future, fjpool.Future[str])
assert_type(pool.submit(half, 1), fjpool.Future[float])
assert_type(future.result(timeout=1.5), str)
assert_type(future.join(), str)
assert_type(future.exception(), "BaseException | None")
assert_type(future.get_raw_result(), "str | None")
assert_type(future.fork(), fjpool.Future[str])
assert_type(future.cancel_requested, bool)
standard: concurrent.futures.Future[str] = future


def told(done: concurrent.futures.Future[str]) -> None: ...
def told_ours(done: fjpool.Future[str]) -> None: ...


future.add_done_callback(told)
future.add_done_callback(told_ours)
promise: fjpool.Future[bytes] = fjpool.Future()
promise.set_result(b"")
promise.complete_exceptionally(KeyError)
done, not_done = fjpool.wait([future], timeout=1, return_when=concurrent.futures.FIRST_COMPLETED)
assert_type(done, set[concurrent.futures.Future[str]])
for ready in fjpool.as_completed([future, future]):
    assert_type(ready, fjpool.Future[str])


def waits(others: list[concurrent.futures.Future[str]]) -> None:
    for other in fjpool.as_completed(others):
        assert_type(other, concurrent.futures.Future[str])


async def awaits() -> None:
    assert_type(await future, str)
    assert_type(await asyncio.wrap_future(future), str)
    assert_type(await asyncio.get_running_loop().run_in_executor(pool, half, 1), float)


# --- tasks ---


class Sum(fjpool.RecursiveTask[int]):
    def __init__(self, items: list[int]) -> None:
        super().__init__()
        self.items = items

    def compute(self) -> int:
        left = Sum(self.items[:1]).fork()
        assert_type(left, Sum)
        return Sum(self.items[1:]).invoke() + left.join()


class Clear(fjpool.RecursiveAction):
    def compute(self) -> None: ...


assert_type(fjpool.invoke(Sum([1])), int)
assert_type(pool.invoke(Sum([1])), int)
assert_type(pool.invoke(half, 1), float)
assert_type(fjpool.invoke(label, 1, text="a"), str)
assert_type(fjpool.invoke_all(Sum([1]), Sum([2])), list[int])
assert_type(fjpool.invoke_all(Sum([n]) for n in range(3)), list[int])
fjpool.invoke_all(Sum([1]), Clear())
pool.invoke(Clear())


@fjpool.task
def repeat(text: str, times: int = 2) -> str:
    return text * times


assert_type(repeat("a", times=3), str)
assert_type(repeat.fork("a"), fjpool.Future[str])
assert_type(pool.invoke(repeat, "a", 2), str)


class Counter:
    @fjpool.task
    def count(self, by: int) -> int:
        return by


assert_type(Counter().count(1), int)
assert_type(Counter().count.fork(by=1), fjpool.Future[int])

# --- maps ---

assert_type(list(fjpool.map(half, [1, 2])), list[float])
assert_type(list(pool.map(half, range(3), chunksize=10, timeout=1)), list[float])
assert_type(list(pool.map(label, [1], ["a"], buffersize=8, ordered=False)), list[str])
assert_type(next(pool.map(lambda a, b, c: (a, b, c), [1], "x", [b""])), tuple[int, str, bytes])
assert_type(next(pool.map(lambda a, b, c, d, e: e, [1], [2], [3], [4], ["5"])), str)
assert_type(list(pool.map(total, [1], [2], [3], [4], [5], [6], [7])), list[int])
assert_type(list(fjpool.map(half, [1], pool=pool, progress=True)), list[float])
assert_type(list(fjpool.starmap(label, [(1, "a")], progress=lambda n, of: print(n, of))), list[str])
pool.map(half, [1]).close()
assert_type(fjpool.reduce(lambda a, b: a + b, ["a", "b"], ""), str)
assert_type(pool.reduce(max, [1, 2], chunksize=2), int)

# --- ranges ---


def leaf(lo: int, hi: int) -> float:
    return float(hi - lo)


def weighted(lo: int, hi: int, weight: float, name: str) -> float:
    return weight * (hi - lo)


native = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64, ctypes.c_int64)()
assert_type(fjpool.parallel_reduce(leaf, 10), float)
assert_type(fjpool.parallel_reduce(leaf, range(10), combine=max, initial=0.0), float)
from_zero: float = fjpool.parallel_reduce(leaf, 10, initial=0)
assert_type(pool.parallel_reduce(weighted, 0, 10, chunksize=5, args=(2.0, "a")), float)
assert_type(pool.parallel_reduce(lambda lo, hi: [lo], 3), list[int])
pool.parallel_reduce(lab.price_n, 10, data=array("q", [10]))
pool.parallel_reduce(native, 10, data=b"")
pool.parallel_for(lab.count, 10)
fjpool.parallel_for(leaf, 10, pool=pool)
fjpool.parallel_for(weighted, 10, args=(2.0, "a"))

# --- what blocks ---


@fjpool.managed_block()
def reads(name: str, size: int = 1) -> bytes:
    return name.encode()[:size]


assert_type(reads("a", size=2), bytes)


class Take(fjpool.ManagedBlocker):
    def block(self) -> bool:
        return True

    def is_releasable(self) -> bool:
        return False


pool.managed_block(Take())
queue: fjpool.Queue[str] = fjpool.Queue(maxsize=2)
queue.put("a", timeout=1)
assert_type(queue.get(block=False), str)
queue.shutdown(immediate=True)
assert_type(fjpool.Latch(1).wait(timeout=1), bool)
assert_type(fjpool.CapacityLimiter(2).call(label, 1, "a"), str)
with fjpool.CapacityLimiter(2) as limiter:
    assert_type(limiter.inside, int)
fjpool.Barrier(2, action=print).wait()
assert_type(fjpool.Condition().wait(0.1), bool)
fjpool.dump_on_signal(signal.SIGUSR1, open("dump", "wb"))
fjpool.dump_on_signal(signal.SIGUSR1)


def calls(downstream: Callable[..., None]) -> None:
    downstream("EUR/USD")


assert_scales(calls, 300, sleep=fjpool.sleep, at_once=50)
try:
    pass
except fjpool.LeafError as error:
    assert_type(error.code, int)


# --- handing in ---

assert_type(pool.submit_many(half, range(3)), list[fjpool.Future[float]])
pool.execute(print, "x")
pool.execute_many(print, ["x"])
fjpool.ForkJoinPool(max_queued=10, when_full="raise", blas_threads=1)
assert_type(fjpool.get_include(), str)
