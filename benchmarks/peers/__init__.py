"""The same programs in other people's pools: what is on this machine, and why the rest is not."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from native import COMPILER, BuildError, compiled

from fjpool.lab import _java

FOLDER = Path(__file__).resolve().parent
CXX = shlex.split(os.environ.get("CXX", "c++"))


@dataclass(frozen=True)
class Peer:
    """A command that takes parallelism, rounds, and the n of fib and of nqueens."""

    name: str
    command: tuple[str, ...]
    missing: str = ""  # why it cannot be run

    def run(self, parallelism: int, rounds: int, fib: int, nqueens: int) -> dict[str, tuple[int, float]]:
        """For each program its answer and its seconds: the later half's median, as a JVM warms up."""
        arguments = map(str, (parallelism, rounds, fib, nqueens))
        done = subprocess.run(
            [*self.command, *arguments], capture_output=True, text=True, timeout=600, check=True
        )
        found: dict[str, list[tuple[int, float]]] = {}
        for line in done.stdout.splitlines():
            words = dict(word.split("=", 1) for word in line.split())
            if "program" in words:
                found.setdefault(words["program"], []).append(
                    (int(words["answer"]), float(words["ms"]) / 1e3)
                )
        return {
            program: (runs[0][0], median(seconds for _, seconds in runs[len(runs) // 2 :]))
            for program, runs in found.items()
        }


def tried(name: str, *command: str) -> Peer:
    """The peer, missing if it cannot run the smallest of problems."""
    peer = Peer(name, command)
    try:
        found = peer.run(1, 1, 5, 4)
    except (OSError, subprocess.SubprocessError) as error:
        words = (getattr(error, "stderr", None) or str(error)).strip().splitlines()
        return Peer(name, (), words[-1].removeprefix(f"{command[0]}: "))
    right = {program: answer for program, (answer, _) in found.items()} == {"fib": 5, "nqueens": 2}
    return peer if right else Peer(name, (), f"wrong answers: {found}")


def in_java(java: str) -> Peer:
    version = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60).stderr
    name = version.split('"')[1] if version.count('"') >= 2 else java
    return tried(f"Java {name}", java, str(FOLDER / "Classic.java"))


def in_c(name: str, source: str, compiler: Sequence[str], *flags: str) -> Peer:
    path = FOLDER / source
    try:
        program = compiled([*compiler, "-O3", str(path), *flags], [path], path.stem)
    except BuildError as error:
        errors = [line.split("error: ")[-1] for line in str(error).splitlines() if "error: " in line]
        return Peer(name, (), (errors or str(error).splitlines())[0])
    return tried(name, str(program))


# What finds each, or says that it is missing. By the JDKs' folders, since asking them takes time.
PEERS: dict[str, Callable[[], Peer]] = {
    "oneTBB": lambda: in_c("oneTBB", "tbb.cpp", CXX, "-std=c++17", "-ltbb", "-pthread"),
    "OpenMP": lambda: in_c("OpenMP tasks", "openmp.c", COMPILER, "-fopenmp"),
    **{Path(java).parents[1].name: partial(in_java, java) for java in _java.find_javas()},
}
if len(PEERS) == 2:
    PEERS["Java"] = lambda: Peer("Java", (), "no JDK found")
