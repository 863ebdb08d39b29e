"""The classic programs in C on the pool, against their sequential twins, and what a pool costs.

The ideal on p workers is a p-th of what the twin takes while p copies of it run side by side, so the
machine's shared caches and its other work are in it. Programs and sizes stand in native/.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import mean, median

import native
import pytest
from native import ROWS, Problem, Row, fibonacci

import fjpool

pytestmark = pytest.mark.timeout(900)

with fjpool.ForkJoinPool() as _pool:
    P = _pool.parallelism

# Near to the ideal; the others are there for their overhead, or their work differs with luck.
SCALE = ("matmul", "cilksort", "uts T1", "uts T3", "strassen", "heat", "fft")
SLOW = ("uts T3L", "integrate")  # some seconds each at full size: three rounds are enough
WORKERS = (1, 2, 4, 8, 16, 64)


@pytest.fixture
def size(full: bool) -> Callable[[Row], tuple[int, ...]]:
    return lambda row: row.full if full else row.reduced


@pytest.fixture
def rounds(full: bool) -> int:
    return 9 if full else 5


@pytest.fixture
def pools() -> Iterator[Callable[[int], fjpool.ForkJoinPool]]:
    """A function from a parallelism to a pool of it, the same one each time."""
    made: dict[int, fjpool.ForkJoinPool] = {}

    def get(parallelism: int) -> fjpool.ForkJoinPool:
        if parallelism not in made:
            made[parallelism] = fjpool.ForkJoinPool(parallelism)
        return made[parallelism]

    yield get
    for pool in made.values():
        pool.shutdown()


def side_by_side(problems: list[Problem]) -> float:
    """The twin of each at the same time: what one would take if they shared it without any loss."""
    with ThreadPoolExecutor(len(problems)) as threads:
        return mean(threads.map(Problem.sequential, problems)) / len(problems)


def label(row: Row, size: tuple[int, ...]) -> str:
    """fib(39), but "uts T1", whose name says which."""
    return row.name if row.program == "uts" else f"{row.name}({', '.join(map(str, size))})"


# --- programs against their twins -----------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in ROWS if name not in ("fib_counted", "uts small")])
def test_program_reaches_the_ideal(interleave, report, pools, size, rounds, full, name: str) -> None:
    """On all cores against the ideal, and on one worker against the twin."""
    row = ROWS[name]
    problem, *copies = [row.problem(size(row)) for _ in range(P)]
    times = interleave(
        3 if full and name in SLOW else rounds,
        twin=problem.sequential,
        one=lambda: problem.fork_join(pools(1)),
        ideal=lambda: side_by_side([problem, *copies]),
        all=lambda: problem.fork_join(pools(P)),
    )
    name = label(row, problem.size)
    of_ideal = 0.95 if row.name in SCALE else None
    report.figure(f"{name} p={P}: ideal / fork/join", times.ratio("ideal", "all"), at_least=of_ideal)
    report.figure(f"{name} p=1: twin / fork/join", times.ratio("twin", "one"))
    report.figure(f"{name} p={P}: ms, fork/join", median(times.seconds["all"]) * 1e3)
    report.figure(f"{name}: ms, twin", median(times.seconds["twin"]) * 1e3)


def test_private_fork_and_join(interleave, report, pools, size, rounds) -> None:
    """What fib on one worker takes longer than its twin, which the compiler unfolds, for each fork."""
    row = ROWS["fib"]
    problem = row.problem(size(row))
    forks = fibonacci(problem.size[0] + 1) - 1
    times = interleave(rounds, twin=problem.sequential, one=lambda: problem.fork_join(pools(1)))
    more = [one - twin for one, twin in zip(times.seconds["one"], times.seconds["twin"], strict=True)]
    report.figure("private fork and join, with its two calls: ns", median(more) / forks * 1e9)


def test_every_fork_is_made(benchmark, report, pools, size) -> None:
    """fib counts its forks where it makes them: fib(n + 1) - 1, so nothing is cut off."""
    row = ROWS["fib_counted"]
    problem = row.problem(size(row))
    benchmark.pedantic(lambda: problem.fork_join(pools(P)), rounds=3)
    (n,) = problem.size
    expected = fibonacci(n + 1) - 1
    report.figure(
        f"fib({n}): forks / expected", problem.answer[1] / expected, at_least=1, at_most=1
    )


@pytest.mark.parametrize("name", [name for name in ROWS if name not in ("fib_counted", "uts small", "uts T3L")])
def test_time_does_not_grow_with_workers(interleave, report, pools, size, rounds, full, name) -> None:
    """The same work on 1 to 64 workers; beyond the cores they can only be in each other's way."""
    row = ROWS[name]
    problem = row.problem(size(row))
    times = interleave(
        3 if full and name in SLOW else rounds,
        **{str(p): (lambda p=p: problem.fork_join(pools(p))) for p in WORKERS},
    )
    name = label(row, problem.size)
    report.figure(f"{name}: time on 64 workers / on 2", times.ratio("64", "2"), at_most=1.25)
    for p in WORKERS[:-1]:
        report.figure(f"{name}: ms on {p} workers", median(times.seconds[str(p)]) * 1e3)


# --- chunks ---------------------------------------------------------------------------------

POSITIONS: dict[str, Callable[..., int]] = {
    "skew": lambda n: n,
    "nqueens": lambda n: n**4,
    "fib": lambda n: 1 << 12,
    "heat": lambda rows, columns, steps: rows - 2,
}


@pytest.mark.parametrize("name", POSITIONS)
def test_automatic_chunks(interleave, report, pools, size, rounds, name: str) -> None:
    """As fast as the best of all the chunk sizes that somebody might try."""
    row = ROWS[name]
    problem = row.problem(size(row))
    positions, pool = POSITIONS[name](*problem.size), pools(P)
    sweep = [max(1, positions // 4**k) for k in range(12) if positions >= 4**k]
    tried: dict[int, list[float]] = {chunk: [] for chunk in dict.fromkeys(sweep)}
    for _ in range(3):
        for chunk, seconds in tried.items():
            seconds.append(problem.loop(pool, chunk))
    by_time = sorted(tried, key=lambda chunk: median(tried[chunk]))
    best, worst = by_time[0], by_time[-1]
    # In rounds of their own: the best of many was lucky, too.
    times = interleave(
        2 * rounds + 1,
        best=lambda: problem.loop(pool, best),
        automatic=lambda: problem.loop(pool),
    )
    name = f"loop {label(row, problem.size)} p={P}"
    report.figure(f"{name}: automatic / best chunk", times.ratio("automatic", "best"), at_most=1.03)
    report.figure(f"{name}: best chunk", best)
    automatic = median(times.seconds["automatic"])
    report.figure(f"{name}: worst chunk, {worst} / automatic", median(tried[worst]) / automatic)


# --- waking up, and what an almost idle pool costs --------------------------------------------


def started_after(pool: fjpool.ForkJoinPool, n: int, pause: float) -> float:
    """Seconds from submit to the first line of a Python function, in the middle of n times."""
    took = []
    for _ in range(n):
        time.sleep(pause)
        begun = time.perf_counter()
        took.append(pool.submit(time.perf_counter).result() - begun)
    return median(took)


@pytest.mark.skipif(sys.platform != "linux", reason="compares with a futex")
def test_wake_up(interleave, report, pools, rounds, full) -> None:
    """From handing work to a pool whose workers sleep until it starts, against the system's own part.

    That is half of a round trip between two threads that sleep on futexes.
    """
    n, pool = 1_000 if full else 200, pools(P)
    module = native.programs()
    one_way: list[float] = []

    def futex() -> float:
        round_trips, there = module.futex_round_trips(n, 1_000)
        one_way.append(median(there) / 1e9)
        return median(round_trips) / 2e9

    times = interleave(
        rounds,
        futex=futex,
        ours=lambda: median(module.wake_ups(pool, n, 1_000)) / 1e9,
        python=lambda: started_after(pool, n, 1e-3),
    )
    name = "wake-up of an idle pool"
    report.figure(f"{name}: C body / half a futex round trip", times.ratio("ours", "futex"), at_most=1.2)
    # The way back is shorter: who waits for it has often not fallen asleep yet.
    of_one_way = median(a / b for a, b in zip(times.seconds["ours"], one_way[1:], strict=True))
    report.figure(f"{name}: C body / a futex's way there", of_one_way)
    report.figure(f"{name}: Python function / half a futex round trip", times.ratio("python", "futex"))
    for kind in times.seconds:
        report.figure(f"{name}: us, {kind}", median(times.seconds[kind]) * 1e6)


# Prints the CPU seconds of a second of this loop, without and with a pool.
NOW_AND_THEN = """
import sys, time
import fjpool

def loop(call, seconds):
    begun, cpu = time.perf_counter(), time.process_time()
    for i in range(int(seconds * 100)):
        time.sleep(max(0, begun + i / 100 - time.perf_counter()))
        call()
    return (time.process_time() - cpu) / (time.perf_counter() - begun)

def nothing():
    pass

seconds = float(sys.argv[1])
with fjpool.ForkJoinPool(2) as pool:
    pool.submit(nothing).result()
    time.sleep(0.1)
    print(loop(nothing, seconds / 6), loop(lambda: pool.submit(nothing), seconds))
"""


def test_background_load(benchmark, report, python, full) -> None:
    """100 tasks a second, one at a time: the CPU time of the whole process."""
    command = [sys.executable, "-c", NOW_AND_THEN, "30" if full else "3"]
    done = benchmark.pedantic(lambda: subprocess.run(command, **python), rounds=1)
    without, with_pool = map(float, done.stdout.split())
    report.figure("100 tasks a second: % of a CPU, the process", with_pool * 100, at_most=0.5)
    report.figure("100 tasks a second: % of a CPU, the loop alone", without * 100)


# Parks the workers of a small pool and of a large one; prints the resident bytes between them.
PARKED = """
import os, threading, time
import fjpool

def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def parked(workers):
    pool = fjpool.ForkJoinPool(workers)
    meet = threading.Barrier(workers)
    for future in [pool.submit(meet.wait) for _ in range(workers)]:
        future.result()
    time.sleep(0.3)
    return pool

pools = [parked(2)]
before = resident()
pools.append(parked(64))
print((resident() - before) / 64)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="reads /proc/self/statm")
def test_memory_of_a_parked_worker(benchmark, report, python) -> None:
    """Resident, with its thread's stack and Python's thread state, after one task."""
    found = []

    def one_round() -> None:
        done = subprocess.run([sys.executable, "-c", PARKED], **python)
        found.append(json.loads(done.stdout))

    benchmark.pedantic(one_round, rounds=3)
    report.figure("a parked worker: KiB resident", median(found) / 1024, at_most=64)
