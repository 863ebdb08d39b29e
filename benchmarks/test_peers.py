"""The same work in other pools of this machine, in turn with fjpool's: Java, oneTBB, OpenMP, Numba, joblib.

A peer that is not here is reported as missing.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from time import perf_counter

import pytest
from native import ROWS
from peers import PEERS

import fjpool
from fjpool.lab import price_block
from fjpool.lab._skew import run_fork_join

pytestmark = pytest.mark.timeout(900)

with fjpool.ForkJoinPool() as _pool:
    P = _pool.parallelism

# n of fib and of nqueens. A whole fib(39) takes the others minutes.
REDUCED = (28, 9)
FULL = {"oneTBB": (35, 13), "OpenMP": (29, 11)}
FULL_OF_JAVA = (39, 14)


@pytest.mark.parametrize("key", PEERS)
def test_fib_and_nqueens_beside(benchmark, report, full, key: str) -> None:
    """Every call a task, no cut-off, on as many workers: their time / ours."""
    peer = PEERS[key]()
    if peer.missing:
        benchmark.pedantic(lambda: None)
        report.missing(peer.name, peer.missing)
        return
    sizes = FULL.get(key, FULL_OF_JAVA) if full else REDUCED
    problems = {
        name: ROWS[name].problem((n,)) for name, n in zip(("fib", "nqueens"), sizes, strict=True)
    }
    again = 4 if peer.name.startswith("Java") else 2
    ours: dict[str, list[float]] = {name: [] for name in problems}
    theirs: dict[str, list[float]] = {name: [] for name in problems}

    with fjpool.ForkJoinPool(P) as pool:

        def one_round() -> None:
            found = peer.run(P, again, *sizes)
            for name, problem in problems.items():
                ours[name].append(median(problem.fork_join(pool) for _ in range(again)))
                answer, seconds = found[name]
                assert (answer,) == problem.answer
                theirs[name].append(seconds)

        benchmark.pedantic(one_round, rounds=3)
    for name, n in zip(problems, sizes, strict=True):
        ratio = median(a / b for a, b in zip(theirs[name], ours[name], strict=True))
        least = 3 if name == "fib" and again == 4 else 1
        report.figure(f"{name}({n}) p={P}: {peer.name} / fjpool", ratio, at_least=least)
        report.figure(f"{name}({n}) p={P}: ms, {peer.name}", median(theirs[name]) * 1e3)
        report.figure(f"{name}({n}) p={P}: ms, fjpool", median(ours[name]) * 1e3)


# --- a skewed loop ----------------------------------------------------------------------------


@pytest.fixture
def size(full: bool) -> int:
    return 4_000_000 if full else 400_000


def blocks(size: int) -> list[tuple[int, int, int]]:
    chunk = size // 256
    return [(lo, min(lo + chunk, size), size) for lo in range(0, size, chunk)]


def with_executor(size: int) -> float:
    with ThreadPoolExecutor(P) as executor:
        return sum(executor.map(price_block, *zip(*blocks(size), strict=True)))


def with_joblib(joblib, size: int) -> float:
    parallel = joblib.Parallel(n_jobs=P, backend="threading")
    return sum(parallel(joblib.delayed(price_block)(*block) for block in blocks(size)))


def numba_loop(numba) -> Callable[[int, int], float]:
    """The loop as a prange, in pieces of `chunk` positions, 0: an equal share for each thread."""

    @numba.njit(parallel=True)
    def prices(size):
        total = 0.0
        for i in numba.prange(size):
            x = float(i)
            for j in range(240 if i < size // 4 else 20):
                x = math.sqrt(x + j) * 1.0000001
            total += x
        return total

    def run(size: int, chunk: int) -> float:
        numba.set_num_threads(P)
        with numba.parallel_chunksize(chunk):
            return prices(size)

    return run


def numba_leaf(numba, size: int) -> Callable[[], float]:
    """The same code of the same compiler as a native leaf, with automatic chunks."""

    @numba.cfunc("float64(int64, int64)")
    def prices(lo, hi):
        total = 0.0
        for i in range(lo, hi):
            x = float(i)
            for j in range(240 if i < size // 4 else 20):
                x = math.sqrt(x + j) * 1.0000001
            total += x
        return total

    return lambda: fjpool.parallel_reduce(prices, size)


def test_skewed_loop_beside(interleave, report, size) -> None:
    """256 blocks in the executors, against the native leaf; a prange, against the same code as a leaf."""
    total = price_block(0, size, size)
    runs: dict[str, Callable[[], float]] = {"ThreadPoolExecutor": lambda: with_executor(size)}
    for name in "joblib", "numba":
        try:
            module = importlib.import_module(name)
        except ImportError:
            report.missing(name, "not installed")
            continue
        if name == "joblib":
            runs["joblib, threading"] = lambda module=module: with_joblib(module, size)
        else:
            loop = numba_loop(module)
            runs["fjpool, Numba's leaf"] = numba_leaf(module, size)
            runs["Numba prange"] = lambda: loop(size, 0)
            runs["Numba prange in 256 chunks"] = lambda: loop(size, size // 256)

    def seconds(run: Callable[[], float]) -> float:
        start = perf_counter()
        found = run()
        took = perf_counter() - start
        assert math.isclose(found, total, rel_tol=1e-9)
        return took

    with fjpool.ForkJoinPool(P) as pool, fjpool.use(pool):
        times = interleave(
            5,
            ours=lambda: run_fork_join("native", P, size, size // 200)[1] / 1e3,
            **{name: (lambda run=run: seconds(run)) for name, run in runs.items()},
        )
    name = f"skew({size}) p={P}"
    for peer in runs:
        if "Numba" not in peer:
            report.figure(f"{name}: {peer} / native leaf", times.ratio(peer, "ours"), at_least=1)
        elif "prange" in peer:
            ratio = times.ratio(peer, "fjpool, Numba's leaf")
            report.figure(f"{name}: {peer} / Numba's leaf in fjpool", ratio, at_least=1)
