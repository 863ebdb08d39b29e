"""Uses of fjpool that type checkers must report, in the lines marked so and in no others.

Read by test_typing.py, never run.
"""

from fractions import Fraction

import fjpool
from fjpool import lab
from fjpool.testing import assert_scales


def half(x: int) -> float:
    return x / 2


def label(number: int, text: str) -> str:
    return f"{number} {text}"


def leaf(lo: int, hi: int) -> float:
    return float(hi - lo)


def weighted(lo: int, hi: int, weight: float) -> float:
    return weight * (hi - lo)


def setup(name: str) -> None: ...


class Sum(fjpool.RecursiveTask[int]):
    def compute(self) -> str:  # wrong
        return ""


fjpool.ForkJoinPool("2")  # wrong
fjpool.ForkJoinPool(2, order="newest")  # wrong
fjpool.ForkJoinPool(2, saturate="fail")  # wrong
fjpool.ForkJoinPool(2, initializer=setup)  # wrong
fjpool.ForkJoinPool(2, initializer=setup, initargs=(1,))  # wrong
pool = fjpool.ForkJoinPool(2)
pool.parallelism = 3  # wrong
pool.use()  # wrong
fjpool.use(2)  # wrong

fjpool.submit(half, "1")  # wrong
fjpool.submit(half)  # wrong
pool.submit(label, 1, txt="a")  # wrong
future: fjpool.Future[str] = fjpool.submit(half, 1)  # wrong
promise: fjpool.Future[int] = fjpool.Future()
promise.set_result("1")  # wrong
promise.set_exception(None)  # wrong
promise.set_exception("boom")  # wrong
promise.result("1")  # wrong
fjpool.Future(1)  # wrong
fjpool.wait(promise)  # wrong

pool.invoke(half, "1")  # wrong
pool.invoke(promise, 1)  # wrong
fjpool.invoke_all(half)  # wrong


@fjpool.task
def repeat(text: str, times: int) -> str:
    return text * times


repeat("a", "b")  # wrong
repeat.fork(1, 2)  # wrong
number: int = repeat.fork("a", 2).join()  # wrong

fjpool.map(half, ["1"])  # wrong
fjpool.map(half, 1)  # wrong
fjpool.map(half)  # wrong
pool.map(label, [1])  # wrong
pool.map(label, [1], [2])  # wrong
pool.map(half, [1], chunksize="all")  # wrong
pool.map(half, [1], pool=pool)  # wrong
fjpool.map(half, [1], pool=2)  # wrong
pool.starmap(label, [1])  # wrong
pool.map(half, [1], progress=False)  # wrong
fjpool.reduce(label, [1, 2])  # wrong

fjpool.parallel_reduce(half, 10)  # wrong
fjpool.parallel_reduce(leaf, 1.5)  # wrong
fjpool.parallel_reduce(weighted, 10)  # wrong
fjpool.parallel_reduce(weighted, 10, args=("a",))  # wrong
fjpool.parallel_reduce(leaf, 10, data=b"")  # wrong
pool.parallel_for(lab.count, 10, args=(1,))  # wrong
pool.parallel_for(lab.price_n, 10, data=[10])  # wrong
pool.parallel_for("leaf", 10)  # wrong


@fjpool.managed_block()
def reads(name: str) -> bytes:
    return name.encode()


reads(1)  # wrong
fjpool.managed_block(half)  # wrong
pool.managed_block(object())  # wrong
queue: fjpool.Queue[str] = fjpool.Queue()
queue.put(1)  # wrong
fjpool.Latch("1")  # wrong
fjpool.Semaphore(None)  # wrong
fjpool.CapacityLimiter(2).call(half, "a")  # wrong
fjpool.sleep(Fraction(1, 2))  # wrong
fjpool.dump_on_signal("SIGUSR1")  # wrong
assert_scales(half)  # wrong
