"""``python -m fjpool block``: many tasks that each wait a moment, and what the pool makes of it."""

from __future__ import annotations

import argparse
import json
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Literal, NamedTuple

import fjpool
from fjpool._cpus import common_maximum_spares, common_parallelism

from ._arguments import MAX_PARALLELISM, add_command, whole_number
from ._info import machine

if TYPE_CHECKING:
    from ._arguments import _Subparsers

KINDS = ("sleep", "managed", "take", "latch", "cf")
MS, TASKS = 200, 40
MOST_MS, MOST_TASKS = 3_600_000, 1_000_000
SAMPLE_SECONDS = 0.002

# For each version of Java, which waits start a spare, and which of these fall back silently where
# there may be no more: the others raise. Everything else holds its worker.
COMPENSATED = {11: {"managed", "cf"}, 21: {"managed", "take", "cf"}}
SILENT = {"take"}

# Wall time in ms and peak pool size of the JDKs in the requirement documents: 4 workers, 40 x 200 ms.
DOCUMENTED = {
    11: {"take": (2040, 4), "latch": (2032, 4), "cf": (211, 41)},
    21: {"sleep": (2004, 4), "managed": (212, 41), "take": (212, 41), "latch": (2008, 4), "cf": (216, 41)},
}


class Block(NamedTuple):
    """What one run showed; ``str()`` gives one line."""

    kind: str
    rules: str  # "fjpool", "java 11" or "java 21"
    saturate: str  # "wait" or "raise"
    parallelism: int
    max_workers: int
    tasks: int
    ms: int
    wall_ms: float
    peak_size: int
    failed: int
    failure: str  # of the first task that failed

    def __str__(self) -> str:
        rules = "" if self.rules == "fjpool" else f"  {self.rules}"
        return (
            f"{self.kind:<8} parallelism={self.parallelism}  {self.tasks} x {self.ms} ms"
            f"  wall={self.wall_ms:5.0f} ms  peak pool size={self.peak_size}{rules}{self.failures}"
        )

    @property
    def failures(self) -> str:
        """How many tasks failed and why; empty if none did."""
        return f"  {self.failed} of {self.tasks} failed: {self.failure}" if self.failed else ""


class Feed:
    """One thread that calls back, each time the same while after it was asked to."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.due: queue.SimpleQueue[tuple[float, Callable[[], object]] | None] = queue.SimpleQueue()
        self.thread = threading.Thread(target=self.run, name="feed", daemon=True)

    def call_later(self, function: Callable[[], object]) -> None:
        # With one delay for all, who comes first is due first.
        self.due.put((perf_counter() + self.seconds, function))

    def run(self) -> None:
        while (entry := self.due.get()) is not None:
            due, function = entry
            time.sleep(max(0.0, due - perf_counter()))
            function()

    def __enter__(self) -> Feed:
        self.thread.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.due.put(None)
        if kind is None:  # else the tasks are given up, and nothing they wait for is awaited
            self.thread.join()


class Nap(fjpool.ManagedBlocker):
    """A sleep that the pool is told of."""

    def __init__(self, seconds: float) -> None:
        self.until = perf_counter() + seconds

    def is_releasable(self) -> bool:
        return perf_counter() >= self.until

    def block(self) -> bool:
        time.sleep(max(0.0, self.until - perf_counter()))
        return self.is_releasable()


# How a task waits, by kind. The second of a pair waits without telling the pool, as Java does.


def _take(feed: Feed, make: Callable[[int], queue.Queue[float]]) -> None:
    rates = make(1)
    feed.call_later(lambda: rates.put(1.0842))
    rates.get()


def _latch(feed: Feed) -> None:
    latch = fjpool.Latch(1)
    feed.call_later(latch.count_down)
    latch.wait()


def _plain_latch(feed: Feed) -> None:
    latch = threading.Event()
    feed.call_later(latch.set)
    latch.wait()


def _future(feed: Feed) -> None:
    future: fjpool.Future[float] = fjpool.Future()
    feed.call_later(lambda: future.set_result(1.0842))
    future.join()


WAITS: dict[str, Callable[[fjpool.ForkJoinPool, Feed], None]] = {
    "sleep": lambda _, feed: time.sleep(feed.seconds),
    "managed": lambda pool, feed: pool.managed_block(Nap(feed.seconds)),
    "take": lambda _, feed: _take(feed, fjpool.Queue),
    "latch": lambda _, feed: _latch(feed),
    "cf": lambda _, feed: _future(feed),
}
PLAIN_WAITS = {
    **WAITS,
    "take": lambda _, feed: _take(feed, queue.Queue),
    "latch": lambda _, feed: _plain_latch(feed),
}


def _is_compensated(kind: str, java: int | None) -> bool:
    return java is None or kind in COMPENSATED[java]


@contextmanager
def _pool_for(
    kind: str,
    parallelism: int | None,
    saturate: Literal["raise", "wait"] | None,
    java: int | None,
) -> Iterator[fjpool.ForkJoinPool]:
    """The common pool; or, with other rules than it has, a fresh one of its size."""
    if parallelism is None and saturate is None and java is None:
        yield fjpool.common_pool()
        return
    if parallelism is None:
        parallelism = max(1, common_parallelism())
    limit = min(parallelism + common_maximum_spares(), MAX_PARALLELISM)
    if java is None:
        pool = fjpool.ForkJoinPool(
            parallelism, max_workers=limit, saturate=saturate or "wait", join_at_exit=False
        )
    else:
        silent = saturate == "wait" or (saturate is None and kind in SILENT)
        pool = fjpool.ForkJoinPool(
            parallelism,
            max_workers=limit,
            blocking="announced",
            min_runnable=1,
            saturate=(lambda _: True) if silent else "raise",
            join_at_exit=False,
            _eager=True,
        )
    try:
        yield pool
    finally:
        pool.shutdown_now()
        pool.await_termination(1)  # interrupted, the tasks may take longer


@contextmanager
def _sampled_size(pool: fjpool.ForkJoinPool) -> Iterator[list[int]]:
    """A list whose one item is the largest pool size that was seen."""
    peak, stop = [0], threading.Event()

    def sample() -> None:
        while not stop.wait(SAMPLE_SECONDS):
            peak[0] = max(peak[0], pool.pool_size)

    sampler = threading.Thread(target=sample, name="sampler", daemon=True)
    sampler.start()
    try:
        yield peak
    finally:
        stop.set()
        sampler.join()
        peak[0] = max(peak[0], pool.pool_size)


def _check(
    kind: str, ms: int, tasks: int, parallelism: int | None, saturate: str | None, java: int | None
) -> None:
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, not {kind!r}")
    numbers = [("ms", ms, MOST_MS), ("tasks", tasks, MOST_TASKS)]
    if parallelism is not None:
        numbers.append(("parallelism", parallelism, MAX_PARALLELISM))
    for name, value, most in numbers:
        if not 1 <= value <= most:
            raise ValueError(f"{name} must lie between 1 and {most}, not {value}")
    if saturate not in (None, "raise", "wait"):
        raise ValueError(f'saturate must be "raise", "wait" or None, not {saturate!r}')
    if java is not None and java not in COMPENSATED:
        raise ValueError(f"java must be 11, 21 or None, not {java!r}")


def block(
    kind: str,
    ms: int = MS,
    tasks: int = TASKS,
    *,
    parallelism: int | None = None,
    saturate: Literal["raise", "wait"] | None = None,
    java: int | None = None,
) -> Block:
    """How long do tasks take that each wait `ms` milliseconds, and how many threads for it?

    Parameters
    ----------
    kind : {"sleep", "managed", "take", "latch", "cf"}
        How they wait: `time.sleep`, which nobody announces; a `fjpool.ManagedBlocker` around the
        same; an empty `fjpool.Queue`, a `fjpool.Latch` or a `fjpool.Future`, which a feed thread
        serves, opens or completes `ms` after the task began.
    ms : int, default 200
        Milliseconds; no task takes less.
    tasks : int, default 40
        Submitted at once.
    parallelism : int, optional
        In place of the common pool's.
    saturate : {"raise", "wait"}, optional
        What happens to a wait when there may be no more threads: it fails, or goes on all the same.
    java : {11, 21}, optional
        The rules of that version: who waits is replaced by a spare at once, whether or not anything
        is queued, if nobody else runs; at the limit it fails, except in "take"; "sleep" and
        "latch", on 11 also "take", are plain waits of the standard library, and nobody looks for
        blocked workers.

    Returns
    -------
    Block
        A named tuple; ``print`` shows it as one line. ``peak_size`` is the largest pool size seen
        every 2 ms and at the end; ``failed`` counts the tasks that raised.

    Raises
    ------
    ValueError
        An unknown kind, or a number out of range.

    Notes
    -----
    Runs on the common pool, with the spares that it may still have from before; with any of the
    last three arguments on a fresh pool of the same size and limit.

    Examples
    --------
    >>> import fjpool.lab
    >>> result = fjpool.lab.block("managed", ms=20, tasks=10, parallelism=1)
    >>> result.wall_ms < 10 * 20, result.failed
    (True, 0)
    """
    _check(kind, ms, tasks, parallelism, saturate, java)
    wait = (WAITS if _is_compensated(kind, java) else PLAIN_WAITS)[kind]
    with _pool_for(kind, parallelism, saturate, java) as pool, Feed(ms / 1e3) as feed:
        with _sampled_size(pool) as peak:
            start = perf_counter()
            futures = [pool.submit(wait, pool, feed) for _ in range(tasks)]
            errors = [error for future in futures if (error := future.exception()) is not None]
            wall_ms = (perf_counter() - start) * 1e3
        return Block(
            kind,
            f"java {java}" if java else "fjpool",
            saturate or ("raise" if java and kind not in SILENT else "wait"),
            pool.parallelism,
            pool.max_workers,
            tasks,
            ms,
            wall_ms,
            peak[0],
            len(errors),
            str(errors[0]) if errors else "",
        )


# --- the command -------------------------------------------------------------------------


def add_parser(subparsers: _Subparsers) -> None:
    parser = add_command(
        subparsers,
        "block",
        run,
        "how long tasks take that each wait a moment, and how many threads the pool starts for them",
        "python -m fjpool block take 200 40 --java 21",
    )
    parser.add_argument(
        "kind",
        choices=(*KINDS, "all"),
        help="how the tasks wait; all: every kind, by fjpool's rules and by Java's (default: 21)",
    )
    parser.add_argument(
        "ms",
        nargs="?",
        type=whole_number(1, MOST_MS),
        default=MS,
        help="milliseconds that each waits (default: 200)",
    )
    parser.add_argument(
        "tasks", nargs="?", type=whole_number(1, MOST_TASKS), default=TASKS, help="how many (default: 40)"
    )
    parser.add_argument(
        "--parallelism",
        type=whole_number(1, MAX_PARALLELISM),
        metavar="P",
        help="workers, in place of the common pool's",
    )
    parser.add_argument(
        "--saturate",
        choices=("raise", "wait"),
        help="at the thread limit: the waiting task fails, or waits all the same",
    )
    parser.add_argument(
        "--java",
        nargs="?",
        type=int,
        choices=sorted(COMPENSATED),
        const=21,
        help="by the rules of that version of Java (default: 21)",
    )


def run(args: argparse.Namespace) -> int:
    if args.kind == "all":
        return _run_all(args)
    result = block(
        args.kind, args.ms, args.tasks, parallelism=args.parallelism, saturate=args.saturate, java=args.java
    )
    print(json.dumps({"machine": machine(), **result._asdict()}, indent=2) if args.json else result)
    return 0


def _run_all(args: argparse.Namespace) -> int:
    """Every kind by both rules, each in a fresh pool, beside the documents' figures."""
    parallelism = args.parallelism or max(1, common_parallelism())
    version = args.java or 21
    rows = []
    if not args.json:
        print(f"{args.tasks} x {args.ms} ms, parallelism={parallelism}: wall time / peak pool size")
        others = f"documented for JDK {version} ({TASKS} x {MS} ms, p=4)"
        print(f"{'':<8}  {'fjpool':>14}  {f'rules of Java {version}':>18}  {others}")
    for kind in KINDS:
        ours, javas = (
            block(kind, args.ms, args.tasks, parallelism=parallelism, saturate=args.saturate, java=java)
            for java in (None, version)
        )
        documented = DOCUMENTED[version].get(kind)
        row = {"kind": kind, "fjpool": ours._asdict(), "java": javas._asdict(), "documented": documented}
        rows.append(row)
        if not args.json:
            print(_row(ours, javas, documented), flush=True)  # as it ends, not all at once
    if args.json:
        print(json.dumps({"machine": machine(), "parallelism": parallelism, "rows": rows}, indent=2))
    return 0


def _cell(wall_ms: float, peak: int) -> str:
    return f"{wall_ms:5.0f} ms / {peak:<3}"


def _row(ours: Block, javas: Block, documented: tuple[int, int] | None) -> str:
    failures = "".join(f"  {one.rules}: {one.failures.strip()}" for one in (ours, javas) if one.failed)
    by_ours, by_javas = (_cell(one.wall_ms, one.peak_size) for one in (ours, javas))
    before = _cell(*documented) if documented else "    -"
    return f"{ours.kind:<8}  {by_ours:>14}  {by_javas:>18}  {before}{failures}".rstrip()
