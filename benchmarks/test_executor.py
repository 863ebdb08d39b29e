"""What a task costs where an executor is expected, against the executors, pools and backends of others."""

from __future__ import annotations

import contextvars
import gc
import resource
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from statistics import median
from time import perf_counter
from timeit import timeit

import pytest

import fjpool
from fjpool.lab import spin_block

pytestmark = pytest.mark.timeout(900)

P = 2


def trivial() -> None:
    pass


@contextmanager
def without_collector() -> Iterator[None]:
    """As timeit does it: what the cyclic collector costs depends on all else that is in the process."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def seconds(function: Callable, *args) -> float:
    with without_collector():
        start = perf_counter()
        function(*args)
        return perf_counter() - start


@pytest.fixture
def pool():
    with fjpool.ForkJoinPool(P) as ours:
        yield ours


@pytest.fixture
def standard():
    with ThreadPoolExecutor(P) as theirs:
        yield theirs


# --- submit and result ----------------------------------------------------------------------


def submit_all_then_results(executor: Executor, n: int) -> None:
    futures = [executor.submit(trivial) for _ in range(n)]
    for future in futures:
        future.result()


def one_at_a_time(executor: Executor, n: int) -> None:
    for _ in range(n):
        executor.submit(trivial).result()


def test_submit_then_results(interleave, report, pool, standard, full) -> None:
    """100,000 times submit, then every result, of a function that does nothing."""
    n = 100_000 if full else 20_000
    times = interleave(
        9 if full else 5,
        ours=lambda: seconds(submit_all_then_results, pool, 100_000),
        standard=lambda: seconds(submit_all_then_results, standard, n) * 100_000 / n,
    )
    name = "100,000 x submit, then result"
    report.figure(f"{name}: ThreadPoolExecutor / fjpool", times.ratio("standard", "ours"), at_least=25)
    report.figure(f"{name}: a second, fjpool", 100_000 / median(times.seconds["ours"]))
    report.figure(f"{name}: a second, ThreadPoolExecutor", 100_000 / median(times.seconds["standard"]))


def test_one_submit_and_result_at_a_time(interleave, report, pool, standard, full) -> None:
    """Each waits for the one before: a hand-over to another thread and back."""
    n = 10_000 if full else 2_000
    times = interleave(
        15,
        ours=lambda: seconds(one_at_a_time, pool, n) / n,
        standard=lambda: seconds(one_at_a_time, standard, n) / n,
    )
    name = "one submit().result() at a time"
    report.figure(f"{name}: ThreadPoolExecutor / fjpool", times.ratio("standard", "ours"), at_least=1.5)
    report.figure(f"{name}: us, fjpool", median(times.seconds["ours"]) * 1e6)


class Counter:
    """Counts calls of itself; only one thread at a time runs Python, so nothing is lost."""

    def __init__(self) -> None:
        self.n = 0

    def __call__(self) -> None:
        self.n += 1


def short_tasks(submit: Callable, window: float) -> float:
    """Seconds for each task that was done in the window; at most 10,000 are outstanding."""
    done, flag, submitted = Counter(), threading.Event(), 0
    timer = threading.Timer(window, flag.set)
    with without_collector():
        timer.start()
        while not flag.is_set():
            submit(done)
            submitted += 1
            while submitted - done.n > 10_000:
                time.sleep(100e-6)
        completed = done.n
    timer.join()
    return window / completed


def run_here(increment: Callable) -> fjpool.Future:
    """The floor: what no executor can spare, a future, a context and the call."""
    context = contextvars.copy_context()
    future: fjpool.Future = fjpool.Future()
    context.run(increment)
    return future


def test_short_task_loop(interleave, report, pool, standard, full) -> None:
    """One submitter, counted after 2 s, against the same loop without any executor."""
    window = 2 if full else 0.4
    times = interleave(
        7,
        floor=lambda: short_tasks(run_here, window),
        ours=lambda: short_tasks(pool.submit, window),
        standard=lambda: short_tasks(standard.submit, window),
    )
    report.figure("short-task loop: fjpool / the floor", times.ratio("ours", "floor"), at_most=2)
    report.figure("short-task loop: ThreadPoolExecutor / fjpool", times.ratio("standard", "ours"))
    for kind in times.seconds:
        report.figure(f"short-task loop: ns a task, {kind}", median(times.seconds[kind]) * 1e9)


def test_creating_a_future(interleave, report, full) -> None:
    """An empty one of ours, against the standard library's, each dropped at once."""
    n = 200_000 if full else 20_000
    times = interleave(
        15,
        ours=lambda: timeit(fjpool.Future, number=n) / n,
        standard=lambda: timeit(Future, number=n) / n,
    )
    report.figure("creating a Future: ns, fjpool", median(times.seconds["ours"]) * 1e9, at_most=120)
    report.figure("creating a Future: ns, standard", median(times.seconds["standard"]) * 1e9)


def switches() -> int:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_nvcsw + usage.ru_nivcsw


def test_context_switches_of_trivial_tasks(benchmark, report, pool, standard) -> None:
    """10,000 tasks: a thread runs them one after another rather than handing over for each."""
    counts: dict[str, list[int]] = {"fjpool": [], "ThreadPoolExecutor": []}

    def one_round() -> None:
        for name, executor in ("fjpool", pool), ("ThreadPoolExecutor", standard):
            before = switches()
            submit_all_then_results(executor, 10_000)
            counts[name].append(switches() - before)

    benchmark.pedantic(one_round, rounds=15, warmup_rounds=1)
    for name, found in counts.items():
        report.figure(f"context switches in 10,000 trivial tasks, {name}", median(found))


# --- map ------------------------------------------------------------------------------------


def test_map_of_a_trivial_function(interleave, report, pool, standard, full) -> None:
    """A list of 100,000 results: as with the built-in map, but for the handing over."""
    n = 100_000
    part = n if full else n // 10
    times = interleave(
        15 if full else 9,
        builtin=lambda: seconds(lambda: list(map(abs, range(n)))),
        ours=lambda: seconds(lambda: list(pool.map(abs, range(n)))),
        standard=lambda: seconds(lambda: list(standard.map(abs, range(part)))) * n / part,
    )
    name = "list of map of abs over 100,000 items"
    report.figure(f"{name}: ThreadPoolExecutor / fjpool", times.ratio("standard", "ours"), at_least=150)
    report.figure(f"{name}: fjpool / built-in map", times.ratio("ours", "builtin"), at_most=1.5)


# --- joblib, dask ---------------------------------------------------------------------------


def test_joblib_calls(interleave, report, pool, full) -> None:
    """100,000 trivial calls through Parallel, beside joblib's own threads."""
    joblib = pytest.importorskip("joblib")
    import fjpool.joblib

    fjpool.joblib.register()
    n = 100_000 if full else 20_000

    def calls(backend: str) -> float:
        with fjpool.use(pool), joblib.parallel_config(backend=backend, n_jobs=P):
            return seconds(lambda: joblib.Parallel()(joblib.delayed(trivial)() for _ in range(n)))

    times = interleave(5, ours=lambda: calls("fjpool"), threading=lambda: calls("threading"))
    name = "joblib, trivial calls"
    report.figure(f"{name}: threading / fjpool", times.ratio("threading", "ours"), at_least=3)
    report.figure(f"{name}: a second, fjpool", n / median(times.seconds["ours"]))


@pytest.mark.parametrize("microseconds", [10, 100])
def test_short_calls_that_release_the_gil(interleave, report, pool, standard, microseconds: int) -> None:
    """1,000 native calls of 10 or 100 us, on two workers; ideal is half of one after another."""
    joblib = pytest.importorskip("joblib")
    n = 1_000
    rounds = microseconds * 1_000

    def with_joblib() -> None:
        with joblib.parallel_config(backend="threading", n_jobs=P):
            joblib.Parallel()(joblib.delayed(spin_block)(rounds) for _ in range(n))

    def alone() -> None:
        for _ in range(n):
            spin_block(rounds)

    times = interleave(
        9,
        ideal=lambda: seconds(alone) / P,
        ours=lambda: seconds(lambda: list(pool.map(spin_block, [rounds] * n))),
        submit=lambda: seconds(lambda: [f.result() for f in [pool.submit(spin_block, rounds) for _ in range(n)]]),
        standard=lambda: seconds(lambda: list(standard.map(spin_block, [rounds] * n))),
        joblib=lambda: seconds(with_joblib),
    )
    name = f"1,000 calls of {microseconds} us without the GIL, p={P}"
    of_ideal = 0.9 if microseconds == 100 else None
    report.figure(f"{name}: ideal / map", times.ratio("ideal", "ours"), at_least=of_ideal)
    report.figure(f"{name}: ideal / submit, result", times.ratio("ideal", "submit"), at_least=of_ideal)
    report.figure(f"{name}: ThreadPoolExecutor / map", times.ratio("standard", "ours"))
    report.figure(
        f"{name}: joblib threading / map",
        times.ratio("joblib", "ours"),
        at_least=5 if microseconds == 10 else None,
    )


def test_dask_graph_of_trivial_tasks(interleave, report, pool, standard) -> None:
    """10,000 independent calls and their sum, on dask's threaded scheduler, its own pool and ours."""
    threaded = pytest.importorskip("dask.threaded")
    graph: dict = {("call", i): (abs, -1) for i in range(10_000)}
    graph["sum"] = (sum, list(graph))

    def compute(executor: Executor) -> None:
        assert threaded.get(graph, "sum", pool=executor) == 10_000

    times = interleave(
        5, ours=lambda: seconds(compute, pool), theirs=lambda: seconds(compute, standard)
    )
    report.figure("dask, 10,000 trivial tasks: its pool / fjpool", times.ratio("theirs", "ours"), at_least=1)
