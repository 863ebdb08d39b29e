"""Work-stealing on skewed work, against the ideal, the static split, and Java."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from statistics import median
from time import perf_counter

import pytest

import fjpool
from fjpool.lab import _java, price_block, price_block_vector, skew
from fjpool.lab._skew import run_fork_join, run_java, run_static_split

pytestmark = pytest.mark.timeout(900)

with fjpool.ForkJoinPool() as _pool:
    P = _pool.parallelism


@pytest.fixture
def size(full: bool) -> int:
    return 4_000_000 if full else 400_000


@pytest.fixture
def chunksize(size: int) -> int:
    return size // 200  # 256 leaves at either size


def seconds(function, *args) -> float:
    start = perf_counter()
    function(*args)
    return perf_counter() - start


def side_by_side(size: int) -> float:
    """The ideal: P copies of the sequential twin at the same time do P times the work."""
    with ThreadPoolExecutor(P) as fixed:
        return seconds(lambda: list(fixed.map(price_block, [0] * P, [size] * P, [size] * P))) / P


def static_split(size: int) -> float:
    return run_static_split(P, size)[1] / 1e3


def fork_join(way: str, size: int, chunksize: int) -> float:
    return run_fork_join(way, P, size, chunksize)[1] / 1e3


def test_skew_native_leaf_reaches_the_ideal(interleave, report, size, chunksize) -> None:
    """The scalar native leaf takes as long as perfectly shared work would, and beats equal chunks."""
    times = interleave(
        9,
        ideal=lambda: side_by_side(size),
        static=lambda: static_split(size),
        native=lambda: fork_join("native", size, chunksize),
    )
    report.figure(f"skew p={P}: ideal / native leaf", times.ratio("ideal", "native"), at_least=0.97)
    report.figure(
        f"skew p={P}: static split / native leaf",
        times.ratio("static", "native"),
        at_least=1.68 if P == 2 else None,
    )


def test_skew_python_tasks_keep_up_with_the_native_leaf(interleave, report, size, chunksize) -> None:
    """256 Python RecursiveTasks over the native block cost at most 3 % more than the native leaf."""
    times = interleave(
        9,
        tasks=lambda: fork_join("tasks", size, chunksize),
        native=lambda: fork_join("native", size, chunksize),
    )
    report.figure(f"skew p={P}: Python tasks / native leaf", times.ratio("tasks", "native"), at_most=1.03)


def test_skew_vector_leaf_is_faster_than_the_scalar_one(interleave, report, size, chunksize) -> None:
    """Several positions at a time: at least twice as fast, on one thread and on the pool."""
    times = interleave(
        9,
        scalar=lambda: seconds(price_block, 0, size, size),
        vector=lambda: seconds(price_block_vector, 0, size, size),
        native=lambda: fork_join("native", size, chunksize),
        vector_pool=lambda: fork_join("vector", size, chunksize),
    )
    report.figure("skew one thread: scalar / vector", times.ratio("scalar", "vector"), at_least=2)
    report.figure(f"skew p={P}: scalar leaf / vector leaf", times.ratio("native", "vector_pool"), at_least=2)


@pytest.mark.parametrize("java", _java.find_javas() or [None])
def test_skew_beside_java(benchmark, report, size, chunksize, java: str | None) -> None:
    """The same work in Java, whose later rounds are compiled, in turn with fjpool's."""
    if java is None:
        benchmark.pedantic(lambda: None)
        report.missing("java", "no JDK found")
        return
    found = []

    def one_round() -> None:
        found.append(run_java(skew(P, size, chunksize, rounds=3), java))

    benchmark.pedantic(one_round, rounds=3)
    if "missing" in found[0]:
        report.missing("java", found[0]["missing"])
        return
    report.figure(
        f"skew p={P}: Java {found[0]['version']} fork/join / native leaf",
        median(one["java_over_native"] for one in found),
    )
