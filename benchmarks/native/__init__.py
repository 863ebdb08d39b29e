"""The classic fork/join programs in C, each with its sequential twin, and what they must answer.

``native.programs()`` compiles them on first use, with the system's compiler and the flags of
``python -m fjpool config --cflags``, into a folder under the user's cache; a change of the sources,
of fjpool.h, of the compiler or of the interpreter compiles them again. Nothing is written into
fjpool or this folder.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import fjpool

SOURCES = Path(__file__).resolve().parent
COMPILER = shlex.split(os.environ.get("CC", "cc"))
FLAGS = ("-std=gnu11", "-O3", "-g", "-fno-math-errno", "-ffp-contract=off", "-fPIC", "-shared")
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", *(["-Werror"] if os.environ.get("FJPOOL_WERROR") else []))


class BuildError(RuntimeError):
    """There is no compiler, or it did not take the programs."""


def cache_folder() -> Path:
    """Where what is compiled here is kept."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "fjpool-benchmarks"


def output_of(*command: str) -> str:
    """What a command prints; fjpool is the one imported here."""
    path = [str(Path(fjpool.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=env)
    except OSError as error:
        raise BuildError(f"{command[0]}: {error.strerror}") from error
    if done.returncode != 0:
        raise BuildError(f"{shlex.join(command)}\n{done.stderr}")
    return done.stdout.strip()


def compiled(command: list[str], sources: list[Path], name: str) -> Path:
    """What `command` makes of `sources` with ``-o name``; from the cache if all is as it was."""
    seen = hashlib.sha256(output_of(command[0], "--version").encode())
    seen.update(repr((command, sys.version)).encode())
    for source in sources:
        seen.update(source.read_bytes())
    target = cache_folder() / seen.hexdigest()[:16] / name
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        # Compiled beside it and moved there, so that nobody ever sees half of it.
        building = Path(tempfile.mkdtemp(dir=target.parent))
        try:
            output_of(*command, "-o", str(building / name))
            os.replace(building / name, target)
        finally:
            shutil.rmtree(building, ignore_errors=True)
    return target


@functools.cache
def programs() -> ModuleType:
    """The extension module: ``Problem(name, *sizes)`` and the rest of module.c.

    Raises
    ------
    BuildError
        If it cannot be compiled; the message is the compiler's.
    """
    cflags = shlex.split(output_of(sys.executable, "-m", "fjpool", "config", "--cflags"))
    command = [*COMPILER, *FLAGS, *WARNINGS, *cflags, str(SOURCES / "module.c"), "-lm", "-pthread"]
    sources = sorted([*SOURCES.glob("*.[ch]"), Path(fjpool.get_include(), "fjpool.h")])
    path = compiled(command, sources, "_programs" + sysconfig.get_config_var("EXT_SUFFIX"))
    spec = importlib.util.spec_from_file_location("_programs", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fibonacci(n: int) -> int:
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


QUEENS = {4: 2, 5: 10, 6: 4, 7: 40, 8: 92, 9: 352, 10: 724, 11: 2_680, 12: 14_200, 13: 73_712, 14: 365_596}

# tree: nodes, leaves, depth, as published; 0 is this suite's own small one
UTS = {
    1: (4_130_071, 3_305_118, 10),
    3: (4_112_897, 3_599_034, 1_572),
    13: (111_345_631, 89_076_904, 17_844),
}


@dataclass(frozen=True)
class Row:
    """A program, the sizes to run it at, and how to know that it was right."""

    name: str
    program: str
    small: tuple[int, ...]  # for tests
    reduced: tuple[int, ...]  # a fraction of a second
    full: tuple[int, ...]  # as published, or what fits two cores
    answer: Callable[..., tuple[int, ...] | None] = lambda *size: None  # None: only the twin knows
    error: float = 0.0  # of floating-point results

    def problem(self, size: tuple[int, ...]) -> Problem:
        return Problem(self, size)


class Problem:
    """A program and its data. Each run returns its seconds, and fails if the answer is wrong."""

    def __init__(self, row: Row, size: tuple[int, ...]) -> None:
        self.row, self.size = row, size
        self._problem = programs().Problem(row.program, *size)
        self._known = row.answer(*size)

    def _checked(self, seconds: float) -> float:
        if self._known is None:
            self._known = self.answer  # all runs must agree with the first one
        if self.answer != self._known or not self.error <= self.row.error:
            raise AssertionError(
                f"{self.row.name}{self.size}: answer {self.answer}, not {self._known}; "
                f"error {self.error}, at most {self.row.error}"
            )
        return seconds

    def sequential(self) -> float:
        """The twin, in this thread."""
        return self._checked(self._problem.sequential())

    def fork_join(self, pool: fjpool.ForkJoinPool | None) -> float:
        return self._checked(self._problem.fork_join(pool))

    def loop(self, pool: fjpool.ForkJoinPool | None, chunk: int = 0) -> float:
        """As a loop; chunk 0 is automatic."""
        return self._checked(self._problem.loop(pool, chunk))

    @property
    def answer(self) -> tuple[int, ...]:
        return self._problem.answer

    @property
    def error(self) -> float:
        return self._problem.error

    @property
    def work(self) -> int:
        """What the latest run did, where runs differ in that: knapsack's branches."""
        return self._problem.work


ROWS = {
    row.name: row
    for row in (
        Row("fib", "fib", (24,), (34,), (39,), lambda n: (fibonacci(n),)),
        Row(
            "fib_counted", "fib_counted", (20,), (32,), (39,),
            lambda n: (fibonacci(n), fibonacci(n + 1) - 1),
        ),
        Row("nqueens", "nqueens", (8,), (11,), (14,), lambda n: (QUEENS[n],)),
        Row("integrate", "integrate", (100,), (2_000,), (10_000,), error=1e-10),
        Row("skynet", "skynet", (1_000,), (10_000_000,), (100_000_000,), lambda n: (n * (n - 1) // 2,)),
        Row("matmul", "matmul", (100,), (512,), (2_048,)),
        Row("cilksort", "cilksort", (50_000,), (3_000_000,), (4_100_000,), lambda n: (n,)),
        Row("heat", "heat", (200, 70, 10), (1_024, 512, 20), (4_096, 512, 40), error=1e-12),
        Row("fft", "fft", (1 << 13,), (1 << 18,), (1 << 22,), error=1e-12),
        Row("strassen", "strassen", (128,), (512,), (2_048,)),
        Row("knapsack", "knapsack", (16,), (24,), (28,)),
        Row("uts small", "uts", (0,), (0,), (0,)),
        Row("uts T1", "uts", (0,), (1,), (1,), lambda tree: UTS.get(tree)),
        Row("uts T3", "uts", (0,), (3,), (3,), lambda tree: UTS.get(tree)),
        Row("uts T3L", "uts", (0,), (3,), (13,), lambda tree: UTS.get(tree)),
        Row("skew", "skew", (20_000,), (400_000,), (4_000_000,)),
    )
}
