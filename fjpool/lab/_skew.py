"""``python -m fjpool skew``: static split against work-stealing on uneven work."""

from __future__ import annotations

import argparse
import json
import operator
import subprocess
import threading
from array import array
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import fjpool

from . import _java, _native
from ._arguments import MAX_PARALLELISM, add_command, whole_number
from ._info import machine

if TYPE_CHECKING:
    from ._arguments import _Subparsers

POSITIONS = 4_000_000
CHUNKSIZE = 20_000
DEAR_ROUNDS, CHEAP_ROUNDS = 240, 20

# The three ways to run the work on a fork/join pool; the last two are native leaves.
WAYS = ("tasks", "native", "vector")
LEAVES = {"native": _native.price_n, "vector": _native.price_vector_n}


class Exposure(fjpool.RecursiveTask[float]):
    """Sums the prices of [lo, hi): halves the range until a leaf is small enough.

    `leaves` counts the leaves each thread ran; every thread writes its own entry only.
    """

    def __init__(self, lo: int, hi: int, size: int, chunksize: int, leaves: dict[str, int]) -> None:
        super().__init__()
        self.lo, self.hi, self.size, self.chunksize, self.leaves = lo, hi, size, chunksize, leaves

    def compute(self) -> float:
        if self.hi - self.lo <= self.chunksize:
            worker = threading.current_thread().name
            self.leaves[worker] = self.leaves.get(worker, 0) + 1
            return _native.price_block(self.lo, self.hi, self.size)
        mid = (self.lo + self.hi) // 2
        left = Exposure(self.lo, mid, self.size, self.chunksize, self.leaves)
        left.fork()  # onto my own deque; an idle worker may steal it
        right = Exposure(mid, self.hi, self.size, self.chunksize, self.leaves).compute()
        return right + left.join()  # join last: by now the left half is often done


class ForkJoin(NamedTuple):
    """One run on a fork/join pool. `leaves` is None where the pool does not count them."""

    way: str
    ms: float
    ratio: float  # the static split's time / this time
    steals: int
    same_total: bool  # as the static split's, to 1e-3 relative
    leaves: dict[str, int] | None


class Round(NamedTuple):
    """The static split once, and fork/join once each way."""

    number: int
    parallelism: int
    static_ms: float
    fork_join: tuple[ForkJoin, ...]

    def __str__(self) -> str:
        return "\n".join(
            f"round {self.number}  p={self.parallelism}  {run.way:<6}"
            f"  static split {self.static_ms:6.0f} ms | fork/join {run.ms:6.0f} ms"
            f" | ratio {run.ratio:5.2f} | steals={run.steals}"
            + ("" if run.leaves is None else f" | leaves per worker {_by_worker(run.leaves)}")
            + f" | same total: {str(run.same_total).lower()}"
            for run in self.fork_join
        )


class Skew(NamedTuple):
    """All rounds of `skew`; ``str()`` gives one line a run and a summary."""

    parallelism: int
    size: int
    chunksize: int
    rounds: tuple[Round, ...]

    @property
    def ideal_ratio(self) -> float:
        """The most that stealing can win: slowest equal chunk / (all work / parallelism)."""
        slowest = max(_work(lo, hi, self.size) for lo, hi in _chunks(self.size, self.parallelism))
        return slowest / (_work(0, self.size, self.size) / self.parallelism)

    @property
    def median_ratios(self) -> dict[str, float]:
        """For each way, the median over the rounds of static split / fork/join."""
        runs = [run for one in self.rounds for run in one.fork_join]
        return {way: median(run.ratio for run in runs if run.way == way) for way in WAYS}

    @property
    def summary(self) -> str:
        """Two lines: the median ratios, and what the arithmetic allows."""
        ratios = ", ".join(f"{way} {ratio:.2f}" for way, ratio in self.median_ratios.items())
        return (
            f"static split / fork/join, median of {len(self.rounds)}: {ratios}\n"
            f"by rounds of arithmetic, stealing can win {self.ideal_ratio:.2f} with p={self.parallelism}"
            " on as many free cores; the clock may say a little more, since the short chains of cheap"
            " positions overlap in the processor (vector also computes faster)"
        )

    def __str__(self) -> str:
        return "\n".join([*map(str, self.rounds), self.summary])

    def as_dict(self) -> dict[str, object]:
        """The same as plain dicts and lists, for JSON."""
        return {
            **self._asdict(),
            "ideal_ratio": self.ideal_ratio,
            "median_ratios": self.median_ratios,
            "rounds": [
                {**one._asdict(), "fork_join": [run._asdict() for run in one.fork_join]}
                for one in self.rounds
            ],
        }


def _by_worker(leaves: dict[str, int]) -> str:
    return " + ".join(str(count) for _, count in sorted(leaves.items()))


def _work(lo: int, hi: int, size: int) -> int:
    """How many rounds of arithmetic the positions of [lo, hi) take."""
    dear = max(0, min(hi, size // 4) - lo)
    return dear * DEAR_ROUNDS + (hi - lo - dear) * CHEAP_ROUNDS


def _chunks(size: int, parallelism: int) -> list[tuple[int, int]]:
    """Equal chunks of range(size), one for each worker; the last one takes what is left over."""
    chunk = size // parallelism
    bounds = [part * chunk for part in range(parallelism)] + [size]
    return list(pairwise(bounds))


def run_static_split(parallelism: int, size: int) -> tuple[float, float]:
    """Equal chunks on concurrent.futures' fixed pool: the total, and the time in ms."""
    with ThreadPoolExecutor(parallelism) as fixed:
        start = perf_counter()
        parts = [fixed.submit(_native.price_block, lo, hi, size) for lo, hi in _chunks(size, parallelism)]
        total = sum(part.result() for part in parts)
        return total, (perf_counter() - start) * 1e3


def run_fork_join(
    way: str, parallelism: int, size: int, chunksize: int
) -> tuple[float, float, int, dict[str, int] | None]:
    """One of `WAYS` on a fresh fork/join pool: the total, the time in ms, steals, leaves per worker."""
    leaves: dict[str, int] | None = {} if way == "tasks" else None
    with fjpool.ForkJoinPool(parallelism) as pool:
        start = perf_counter()
        if leaves is not None:
            total = pool.invoke(Exposure(0, size, size, chunksize, leaves))
        else:
            total = pool.parallel_reduce(
                LEAVES[way],
                0,
                size,
                chunksize=chunksize,
                combine=operator.add,
                initial=0.0,
                data=array("q", [size]),
            )
        ms = (perf_counter() - start) * 1e3
        if leaves is None and hasattr(pool, "leaf_counts"):
            leaves = pool.leaf_counts()
        return total, ms, pool.steal_count, leaves


def _run_round(number: int, parallelism: int, size: int, chunksize: int) -> Round:
    expected, static_ms = run_static_split(parallelism, size)
    runs = []
    for way in WAYS:
        total, ms, steals, leaves = run_fork_join(way, parallelism, size, chunksize)
        same = abs(total - expected) <= 1e-3 * abs(expected)
        runs.append(ForkJoin(way, ms, static_ms / ms, steals, same, leaves))
    return Round(number, parallelism, static_ms, tuple(runs))


def _run_rounds(parallelism: int, size: int, chunksize: int, rounds: int) -> Iterator[Round]:
    for number in range(1, rounds + 1):
        yield _run_round(number, parallelism, size, chunksize)


def _default_parallelism() -> int:
    with fjpool.ForkJoinPool() as pool:
        parallelism: int = pool.parallelism
        return parallelism


def skew(
    parallelism: int | None = None, size: int = POSITIONS, chunksize: int = CHUNKSIZE, rounds: int = 3
) -> Skew:
    """Static split against work-stealing on uneven work.

    Sums a price over `size` positions, of which the first quarter costs 12 times as much as the
    rest (`fjpool.lab.price_block`). Each round does it with equal chunks on
    `concurrent.futures.ThreadPoolExecutor`, then three times with fork/join, each in a fresh pool:
    ``tasks`` (Python RecursiveTasks over the native block), ``native`` (parallel_reduce over the
    native leaf) and ``vector`` (the same over the vectorised leaf).

    Parameters
    ----------
    parallelism : int, optional
        Workers, and chunks of the static split. Default: the CPUs this process may use.
    size : int, default 4_000_000
        Positions.
    chunksize : int, default 20_000
        A leaf takes at most so many positions.
    rounds : int, default 3
        How often.

    Returns
    -------
    Skew
        A named tuple of the settings and the `rounds`; ``print`` shows it line by line.

    Raises
    ------
    ValueError
        When a number is not at least 1, or `parallelism` is above 32767.

    Examples
    --------
    >>> import fjpool.lab
    >>> result = fjpool.lab.skew(2, size=4_000, chunksize=1_000, rounds=1)
    >>> all(run.same_total for run in result.rounds[0].fork_join)
    True
    >>> round(result.ideal_ratio, 2)
    1.73
    """
    if parallelism is None:
        parallelism = _default_parallelism()
    if not 1 <= parallelism <= MAX_PARALLELISM:
        raise ValueError(f"parallelism must lie between 1 and {MAX_PARALLELISM}, not {parallelism}")
    for name, value in (("size", size), ("chunksize", chunksize), ("rounds", rounds)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, not {value}")
    return Skew(parallelism, size, chunksize, tuple(_run_rounds(parallelism, size, chunksize, rounds)))


# --- the command -------------------------------------------------------------------------


def add_parser(subparsers: _Subparsers) -> None:
    parser = add_command(
        subparsers,
        "skew",
        run,
        "static split against work-stealing on uneven work",
        "python -m fjpool skew 2 --rounds 5",
    )
    parser.add_argument(
        "parallelism",
        metavar="P",
        nargs="?",
        type=whole_number(1, MAX_PARALLELISM),
        help="workers (default: the CPUs this process may use)",
    )
    parser.add_argument(
        "--rounds", type=whole_number(1, 1_000_000), default=3, metavar="N", help="how often (default: 3)"
    )
    parser.add_argument(
        "--size",
        type=whole_number(1, 2**31 - 1),
        default=POSITIONS,
        metavar="N",
        help="positions (default: 4000000)",
    )
    parser.add_argument(
        "--chunksize",
        type=whole_number(1, 2**31 - 1),
        default=CHUNKSIZE,
        metavar="N",
        help="positions of a leaf at most (default: 20000)",
    )
    parser.add_argument(
        "--java", action="store_true", help="also run a Java program for the same work, if a JDK is found"
    )


def run(args: argparse.Namespace) -> int:
    parallelism = args.parallelism or _default_parallelism()
    rounds = []
    for one in _run_rounds(parallelism, args.size, args.chunksize, args.rounds):
        rounds.append(one)
        if not args.json:
            print(one, flush=True)  # as it ends, not all at once
    result = Skew(parallelism, args.size, args.chunksize, tuple(rounds))
    java = run_java(result) if args.java else None
    if args.json:
        document = {"machine": machine(), **result.as_dict()}
        if java is not None:
            document["java"] = java
        print(json.dumps(document, indent=2))
    else:
        print(result.summary)
        if java is not None:
            print(_java_text(java))
    return 0


def run_java(result: Skew, java: str | None = None) -> dict[str, Any]:
    """Run Skew.java with the settings of `result`, on `java` or the first JDK found.

    Returns either ``{"missing": reason}`` or the version, the rounds as Java printed them and
    ``java_over_native``, Java's median fork/join time over that of the ``native`` way.
    """
    javas = [java] if java else _java.find_javas()
    program = _java.find_program("Skew.java")
    if not javas:
        return {"missing": "no JDK found (JAVA_HOME, PATH, /usr/lib/jvm)"}
    if program is None:
        return {"missing": "benchmarks/java/Skew.java not found: run this in the source tree"}
    try:
        first, *rounds = _java.run_program(
            javas[0], program, result.parallelism, len(result.rounds), result.size, result.chunksize
        )
    except (OSError, RuntimeError, subprocess.TimeoutExpired) as error:
        return {"missing": f"{javas[0]}: {error}"}
    java_ms = median(float(one["forkjoin_ms"]) for one in rounds)
    native_ms = median(run.ms for one in result.rounds for run in one.fork_join if run.way == "native")
    return {"version": first["java"], "rounds": rounds, "java_over_native": java_ms / native_ms}


def _java_text(java: dict[str, Any]) -> str:
    if "missing" in java:
        return f"java: missing, {java['missing']}"
    lines = []
    for one in java["rounds"]:
        static_ms, fork_join_ms = float(one["static_ms"]), float(one["forkjoin_ms"])
        leaves = one["leaves"].replace(":", "=").replace(",", ", ")
        lines.append(
            f"java {java['version']}  round {one['round']}  p={one['p']}"
            f"  static split {static_ms:6.0f} ms | fork/join {fork_join_ms:6.0f} ms"
            f" | ratio {float(one['ratio']):5.2f} | steals={one['steals']}"
            f" | leaves per worker {{{leaves}}} | same total: {one['same_total']}"
        )
    ratio = java["java_over_native"]
    lines.append(f"Java's fork/join time / the native way's: {ratio:.2f} (above 1: Java is slower)")
    return "\n".join(lines)
