"""Finds a JDK and runs the Java programs that stand beside the experiments."""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
from pathlib import Path

USUAL_PLACES = ("/usr/lib/jvm/*/bin/java", "/Library/Java/JavaVirtualMachines/*/Contents/Home/bin/java")


def find_javas() -> list[str]:
    """Every ``java`` of this machine once: JAVA_HOME's, PATH's, then those in the usual places."""
    candidates = [shutil.which("java")]
    if home := os.environ.get("JAVA_HOME"):
        candidates.insert(0, os.path.join(home, "bin", "java"))
    for pattern in USUAL_PLACES:
        candidates += sorted(glob.glob(pattern))
    real = (os.path.realpath(path) for path in candidates if path and os.access(path, os.X_OK))
    return list(dict.fromkeys(real))


def find_program(name: str) -> Path | None:
    """The Java program `name`: in the source tree this package lies in, or the current directory's."""
    for root in (Path(__file__).parents[2], Path.cwd()):
        program = root / "benchmarks" / "java" / name
        if program.is_file():
            return program
    return None


def run_program(java: str, program: Path, *args: int, timeout: float = 600) -> list[dict[str, str]]:
    """Run a Java source file; return the ``key=value`` words of each line it prints.

    Raises
    ------
    RuntimeError
        When the program fails; the message is the last line it wrote to stderr.
    subprocess.TimeoutExpired
        When it takes longer than `timeout` seconds.
    """
    command = [java, str(program), *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1])
    return [dict(word.split("=", 1) for word in line.split()) for line in done.stdout.splitlines()]
