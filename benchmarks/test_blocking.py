"""Tasks that wait: how long they take, with how many threads, and what looking out for them costs."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from time import perf_counter, thread_time
from urllib.request import ProxyHandler, build_opener

import pytest

import fjpool
from fjpool.lab import block, spin_block
from fjpool.lab._block import DOCUMENTED, KINDS

pytestmark = pytest.mark.timeout(900)

# --- python -m fjpool block ----------------------------------------------------------------


@pytest.mark.parametrize("parallelism", [1, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_waits_overlap(benchmark, report, full, kind: str, parallelism: int) -> None:
    """40 waits of 200 ms take about 200 ms on any number of workers, announced or found out."""
    rounds: list = []
    benchmark.pedantic(
        lambda: rounds.append(block(kind, 200, 40, parallelism=parallelism)), rounds=15 if full else 5
    )
    assert not any(one.failed for one in rounds)
    most = 212 if kind != "sleep" else 300 if parallelism == 1 else None
    name = f"block {kind} p={parallelism}, 40 x 200 ms"
    report.figure(f"{name}: ms", median(one.wall_ms for one in rounds), at_most=most)
    report.figure(f"{name}: peak size", max(one.peak_size for one in rounds), at_most=41)


@pytest.mark.parametrize("kind", KINDS)
def test_java_rules_give_javas_figures(benchmark, report, full, kind: str) -> None:
    """With Java's rules a run takes what the documents say of JDK 21, within 5 %, and as many threads."""
    rounds: list = []
    benchmark.pedantic(
        lambda: rounds.append(block(kind, 200, 40, parallelism=4, java=21)), rounds=15 if full else 3
    )
    documented_ms, documented_peak = DOCUMENTED[21][kind]
    ratio = median(one.wall_ms for one in rounds) / documented_ms
    name = f"block {kind} p=4 --java"
    report.figure(f"{name}: ms / the documents' {documented_ms}", ratio, at_least=0.95, at_most=1.05)
    peak = max(one.peak_size for one in rounds)
    report.figure(f"{name}: peak size", peak, at_least=documented_peak, at_most=documented_peak)


WAITERS = {
    # arguments: most ms, fewest and most that succeed
    "default": ({}, 4300, 300, 300),
    "saturate=raise": ({"saturate": "raise"}, 2300, 256, 260),
    "java": ({"java": 21}, 2300, 259, 259),
}


@pytest.mark.filterwarnings("ignore:.* has reached max_workers")
@pytest.mark.parametrize("rules", WAITERS)
def test_300_waiters(benchmark, report, rules: str) -> None:
    """300 managed waits of 2 s on 4 workers and 256 spares: two waves, or the rest is rejected."""
    arguments, most_ms, fewest, most = WAITERS[rules]
    rounds: list = []
    benchmark.pedantic(
        lambda: rounds.append(block("managed", 2000, 300, parallelism=4, **arguments)), rounds=1
    )
    (one,) = rounds
    name = f"300 x 2 s managed p=4, {rules}"
    report.figure(f"{name}: succeed", one.tasks - one.failed, at_least=fewest, at_most=most)
    report.figure(f"{name}: ms", one.wall_ms, at_most=most_ms)
    report.figure(f"{name}: peak size", one.peak_size, at_most=260)


# --- other shapes ---------------------------------------------------------------------------


def test_nested_submits_reach_depth_5000(benchmark, report) -> None:
    """Each task waits for one that it submitted, 5,000 deep, on one worker."""

    def nested(pool: fjpool.ForkJoinPool, depth: int) -> int:
        return depth and 1 + pool.submit(nested, pool, depth - 1).result()

    sizes: list[int] = []

    def one_round() -> float:
        with fjpool.ForkJoinPool(1) as pool:
            start = perf_counter()
            assert pool.submit(nested, pool, 5_000).result() == 5_000
            seconds = perf_counter() - start
            sizes.append(pool.pool_size)
            return seconds

    seconds = [benchmark.pedantic(one_round, rounds=1)] + [one_round() for _ in range(4)]
    report.figure("nested submit().result(), depth 5,000, p=1: ms", median(seconds) * 1e3)
    report.figure("nested submit().result(), depth 5,000, p=1: threads", max(sizes), at_most=257)


def test_blocked_workers_are_all_replaced(benchmark, report) -> None:
    """While 3 of 4 workers are in managed waits, eight 100 ms tasks take two turns of four."""
    seconds: list[float] = []

    def one_round() -> None:
        release, blocked = threading.Event(), threading.Semaphore(0)

        def wait() -> None:
            with fjpool.managed_block():
                blocked.release()
                release.wait()

        with fjpool.ForkJoinPool(4) as pool:
            for _ in range(3):
                pool.submit(wait)
            for _ in range(3):
                blocked.acquire()
            start = perf_counter()
            fjpool.wait([pool.submit(time.sleep, 0.1) for _ in range(8)])
            seconds.append(perf_counter() - start)
            release.set()

    benchmark.pedantic(one_round, rounds=9)
    report.figure("eight 100 ms tasks beside 3 of 4 workers in waits: s", median(seconds), at_most=0.21)


def test_waits_that_end_together_take_no_further_tasks(benchmark, report) -> None:
    """256 managed waits end at once: of 1,000 CPU tasks queued, no more than p=2 run at a time."""
    peaks: list[int] = []

    def one_round() -> None:
        release, blocked, lock = threading.Event(), threading.Semaphore(0), threading.Lock()
        inside, peak = 0, 0

        def wait() -> None:
            with fjpool.managed_block():
                blocked.release()
                release.wait()

        def compute() -> None:
            nonlocal inside, peak
            counted = release.is_set()
            with lock:
                inside += counted
                peak = max(peak, inside)
            spin_block(200_000)
            with lock:
                inside -= counted

        with fjpool.ForkJoinPool(2) as pool:
            waits = [pool.submit(wait) for _ in range(256)]
            for _ in waits:
                blocked.acquire()
            tasks = [pool.submit(compute) for _ in range(1_000)]
            release.set()
            fjpool.wait(waits + tasks)
        peaks.append(peak)

    benchmark.pedantic(one_round, rounds=5)
    report.figure("256 waits end together, p=2: CPU tasks begun since, at a time", max(peaks), at_most=2)


# --- calls over HTTP ------------------------------------------------------------------------

CALLS, WAIT = 1_000, 0.05

SERVER = """
import asyncio, sys

class Slow(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.received = transport, b""

    def data_received(self, data):
        self.received += data
        if self.received.endswith(b"\\r\\n\\r\\n"):
            asyncio.get_running_loop().call_later(float(sys.argv[1]), self.answer)

    def answer(self):
        self.transport.write(b"HTTP/1.1 200 OK\\r\\nContent-Length: 6\\r\\n")
        self.transport.write(b"Connection: close\\r\\n\\r\\n1.0842")
        self.transport.close()

async def serve():
    server = await asyncio.get_running_loop().create_server(Slow, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(serve())
"""


@pytest.fixture
def url() -> Iterator[str]:
    """Where a server on this machine takes 50 ms for its answer."""
    command = [sys.executable, "-c", SERVER, str(WAIT)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield f"http://127.0.0.1:{int(server.stdout.readline())}/rate"
        finally:
            server.terminate()


def _client(name: str) -> Callable[[str], bytes] | None:
    """A function that gets what is at a URL, over a new connection and no proxy."""
    if name == "urllib":
        opener = build_opener(ProxyHandler({}))

        def get(url: str) -> bytes:
            with opener.open(url) as response:
                return response.read()

        return get
    try:
        import requests
    except ImportError:
        return None
    return lambda url: requests.get(url, proxies={"http": ""}).content


@pytest.mark.parametrize("client", ["requests", "urllib"])
def test_unannounced_http_calls_keep_up_with_a_sized_pool(
    benchmark, report, interleave, url: str, client: str
) -> None:
    """1,000 calls of 50 ms on p=2, of which nobody tells the pool: within 2 x of the formula's pool."""
    get = _client(client)
    if get is None:
        benchmark.pedantic(lambda: None)
        report.missing(client, "not installed")
        return
    costs = []
    for _ in range(50):
        start = thread_time()
        assert get(url) == b"1.0842"
        costs.append(thread_time() - start)
    # cores * (1 + wait / compute): two cores, and the one that the GIL leaves to Python code
    two, one = (round(cores * (1 + WAIT / median(costs))) for cores in (2, 1))
    sizes: list[int] = []

    def seconds(pool: ThreadPoolExecutor) -> float:
        with pool:
            start = perf_counter()
            for future in [pool.submit(get, url) for _ in range(CALLS)]:
                assert future.result() == b"1.0842"
            if isinstance(pool, fjpool.ForkJoinPool):
                sizes.append(pool.pool_size)
            return perf_counter() - start

    times = interleave(
        5,
        fjpool=lambda: seconds(fjpool.ForkJoinPool(2)),
        two=lambda: seconds(ThreadPoolExecutor(two)),
        one=lambda: seconds(ThreadPoolExecutor(one)),
    )
    name = f"{CALLS} {client} calls of 50 ms"
    report.figure(f"{name}, p=2 unannounced: s", median(times.seconds["fjpool"]))
    report.figure(f"{name}, p=2 unannounced: threads", max(sizes), at_most=66)
    report.figure(
        f"{name}, p=2 / formula for 2 cores ({two} threads)", times.ratio("fjpool", "two"), at_most=2
    )
    report.figure(
        f"{name}, p=2 / formula for 1 core ({one} threads)", times.ratio("fjpool", "one"), at_most=2
    )


# --- what it costs --------------------------------------------------------------------------

LOOPS = 100_000


def _empty() -> float:
    start = perf_counter()
    for _ in range(LOOPS):
        pass
    return perf_counter() - start


def _blocks() -> float:
    managed_block = fjpool.managed_block
    start = perf_counter()
    for _ in range(LOOPS):
        with managed_block():
            pass
    return perf_counter() - start


def _nested_blocks() -> float:
    with fjpool.managed_block():
        return _blocks()


@pytest.mark.parametrize("where", ["worker", "nested", "outside"])
def test_managed_block_costs_next_to_nothing(benchmark, report, full, where: str) -> None:
    """Making, entering and leaving a managed_block with nothing queued takes under 200 ns."""
    body = _nested_blocks if where == "nested" else _blocks
    ns: list[float] = []

    def one_round() -> None:
        ns.append((body() - _empty()) / LOOPS * 1e9)

    with fjpool.ForkJoinPool(1) as pool:
        run = one_round if where == "outside" else lambda: pool.submit(one_round).result()
        benchmark.pedantic(run, rounds=61 if full else 21, warmup_rounds=3)
    report.figure(f"managed_block, {where}: ns", median(ns[3:]), at_most=200)


# Two workers compute all the time, each within one task, and two more tasks are queued behind.
BUSY = """
import json, os, sys, threading, time
import fjpool
from fjpool.lab import spin_block

seconds, way = float(sys.argv[1]), sys.argv[2]

def compute_python():
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        sum(range(1_000))

def compute_native():
    spin_block(int(seconds * 1e9))

def monitor_ns():
    for tid in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{tid}/comm") as comm:
            if comm.read() != "fjpool-monitor\\n":
                continue
        with open(f"/proc/self/task/{tid}/schedstat") as schedstat:
            return int(schedstat.read().split()[0])

with fjpool.ForkJoinPool(2) as pool:
    busy = [pool.submit(globals()[f"compute_{way}"]) for _ in range(2)]
    start = time.perf_counter()
    behind = [pool.submit(int) for _ in range(2)]
    for future in busy:
        future.result()
    wall_ns, ns = (time.perf_counter() - start) * 1e9, monitor_ns()
    print(json.dumps([ns, wall_ns, pool.pool_size, pool._detections]))
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="reads /proc/self/task")
@pytest.mark.parametrize("way", ["python", "native"])
def test_monitor_leaves_computing_workers_alone(benchmark, report, python, full, way: str) -> None:
    """Computing for long with work queued behind: under 0.1 % of a CPU for the monitor, no spare."""
    seconds = 30 if full else 5
    command = [sys.executable, "-c", BUSY, str(seconds), way]
    done = benchmark.pedantic(lambda: subprocess.run(command, **python), rounds=1)
    monitor_ns, wall_ns, size, detections = json.loads(done.stdout)
    name = f"2 workers computing for {seconds} s ({way})"
    report.figure(f"{name}: monitor's share of a CPU, %", monitor_ns / wall_ns * 100, at_most=0.1)
    report.figure(f"{name}: threads", size, at_most=2)
    report.figure(f"{name}: taken for blocked", detections, at_most=0)
