"""Options and reporting of the benchmarks: ``pytest benchmarks [--full]``.

Every benchmark runs the things it compares in turn within one process, and reports the median of
the ratios. Ratios are printed at the end and stored in ``benchmark.extra_info``; nothing fails
because the machine is slow.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest

import fjpool

LINES = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="published sizes instead of reduced ones")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[LINES] = []


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.stash[LINES]:
        terminalreporter.section("claims")
        for line in config.stash[LINES]:
            terminalreporter.write_line(line)


class Report:
    """Prints one line for each figure after the run, and stores it in ``benchmark.extra_info``."""

    def __init__(self, benchmark, lines: list[str]) -> None:
        self.benchmark, self.lines = benchmark, lines

    def figure(
        self, name: str, value: float, *, at_least: float | None = None, at_most: float | None = None
    ) -> None:
        """A measured figure, and what it should be."""
        self.benchmark.extra_info[name] = value
        targets = self.benchmark.extra_info.setdefault("targets", {})
        targets[name] = {"at_least": at_least, "at_most": at_most}
        line = f"{name}: {value:.3g}"
        if at_least is not None:
            line += f" (at least {at_least:g}: {'yes' if value >= at_least else 'NO'})"
        if at_most is not None:
            line += f" (at most {at_most:g}: {'yes' if value <= at_most else 'NO'})"
        self.lines.append(line)

    def missing(self, peer: str, reason: str) -> None:
        """A peer that cannot run on this machine."""
        self.benchmark.extra_info[peer] = f"missing: {reason}"
        self.lines.append(f"{peer}: missing, {reason}")


@pytest.fixture
def report(benchmark, request: pytest.FixtureRequest) -> Report:
    return Report(benchmark, request.config.stash[LINES])


@pytest.fixture
def full(request: pytest.FixtureRequest) -> bool:
    """Whether to run the published sizes."""
    return bool(request.config.getoption("--full"))


class Times:
    """For each variant its seconds, round by round."""

    def __init__(self, names: list[str]) -> None:
        self.seconds: dict[str, list[float]] = {name: [] for name in names}

    def ratio(self, one: str, other: str) -> float:
        """The median over the rounds of `one`'s time / `other`'s time."""
        return median(a / b for a, b in zip(self.seconds[one], self.seconds[other], strict=True))


@pytest.fixture
def interleave(benchmark) -> Callable[..., Times]:
    """Runs each variant (a function that returns its seconds) in turn, round after round."""

    def run(rounds: int, **variants: Callable[[], float]) -> Times:
        times = Times(list(variants))

        def one_round() -> None:
            for name, variant in variants.items():
                times.seconds[name].append(variant())

        for variant in variants.values():
            variant()  # warm up
        benchmark.pedantic(one_round, rounds=rounds)
        return times

    return run


@pytest.fixture
def python(tmp_path: Path) -> dict[str, object]:
    """Keyword arguments for subprocess.run of a fresh Python that imports the same fjpool as this one."""
    path = [str(Path(fjpool.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    return {
        "executable": sys.executable,
        "env": {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))},
        "cwd": tmp_path,
        "capture_output": True,
        "text": True,
        "check": True,
        "timeout": 120,
    }
