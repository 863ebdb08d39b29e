"""Hundreds of interpreter exits with pools at work: ``python benchmarks/soak_exits.py [N]``.

Runs the scenarios of tests/exit_scenarios.py in turn, each in a fresh process, and prints what
failed: a crash, a hang, a word on stderr, a wrong status, work that was not done or not refused.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from exit_scenarios import Scenario, scenarios


def timed(scenario: Scenario) -> tuple[str | None, float]:
    """What went wrong, if anything, and the seconds it took."""
    begin = time.perf_counter()
    try:
        failure = scenario.run()
    except Exception as error:  # a hang: this exit failed, the run goes on
        failure = f"{scenario}: {error}"
    return failure, time.perf_counter() - begin


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("exits", nargs="?", type=int, default=500, help="how many (default 500)")
    parser.add_argument("-j", "--jobs", type=int, default=2, help="so many at a time (default 2)")
    args = parser.parse_args()
    table = scenarios()
    failures: list[str] = []
    seconds: list[float] = []
    with ThreadPoolExecutor(args.jobs) as processes:
        chosen = itertools.islice(itertools.cycle(table), args.exits)
        for future in as_completed([processes.submit(timed, scenario) for scenario in chosen]):
            failure, took = future.result()
            seconds.append(took)
            if failure:
                failures.append(failure)
                print(f"\n{failure}")
            print(f"\r{len(seconds)} of {args.exits} exits, {len(failures)} failed", end="", flush=True)
    print(
        f"\nPython {sys.version.split()[0]}: {args.exits} exits over {min(args.exits, len(table))} scenarios, "
        f"{len(failures)} failed; median {median(seconds):.2f} s, longest {max(seconds):.2f} s"
    )
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
