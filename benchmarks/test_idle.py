"""An idle pool costs nothing: no context switch, no CPU time, no futex call."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="reads /proc/self/task"),
]

# Starts all 8 workers (they meet at a barrier), lets them go idle, and prints for each thread but
# the main one what the 5 idle seconds cost. The two writes mark these seconds for strace.
IDLE = """
import json, os, sys, threading, time
import fjpool

def costs():
    found = {}
    for tid in os.listdir("/proc/self/task"):
        if int(tid) != os.getpid():
            with open(f"/proc/self/task/{tid}/status") as status:
                switches = [int(line.split()[1]) for line in status if "ctxt_switches" in line]
            with open(f"/proc/self/task/{tid}/schedstat") as schedstat:
                cpu_ns = int(schedstat.read().split()[0])
            found[tid] = [*switches, cpu_ns]
    return found

keep_alive = json.loads(sys.argv[1])
null = os.open(os.devnull, os.O_WRONLY)
meet = threading.Barrier(8)
with fjpool.ForkJoinPool(8, keep_alive=keep_alive) as pool:
    for future in [pool.submit(meet.wait) for _ in range(8)]:
        future.result()
    time.sleep(0.5)
    before = costs()
    os.write(null, b"idle begins")
    time.sleep(5)
    os.write(null, b"idle ends")
    after = costs()
print(json.dumps([before, after]))
"""


def test_idle_pool_makes_no_context_switch(benchmark, report, python) -> None:
    """8 parked workers: in 5 seconds no context switch and no CPU time, read from /proc."""
    command = [sys.executable, "-c", IDLE, "60.0"]
    done = benchmark.pedantic(lambda: subprocess.run(command, **python), rounds=1)
    before, after = json.loads(done.stdout)
    assert len(before) >= 8
    changed = {tid: (before[tid], after.get(tid)) for tid in before if before[tid] != after.get(tid)}
    report.figure("idle pool of 8: threads that ran within 5 s", len(changed), at_most=0)
    assert not changed, "voluntary switches, other switches, CPU ns: before and after"


def test_idle_pool_makes_no_futex_call(benchmark, report, python, tmp_path: Path) -> None:
    """8 workers with keep_alive=None: strace sees no futex call while they are idle."""
    strace = shutil.which("strace")
    if strace is None:
        benchmark.pedantic(lambda: None)
        report.missing("strace", "not on PATH")
        return
    log = tmp_path / "strace.log"
    options = ["-f", "-e", "trace=futex,write", "-o", str(log)]
    command = [strace, *options, sys.executable, "-c", IDLE, "null"]
    benchmark.pedantic(lambda: subprocess.run(command, **{**python, "executable": strace}), rounds=1)
    lines = log.read_text().splitlines()
    begin = next(number for number, line in enumerate(lines) if '"idle begins"' in line)
    end = next(number for number, line in enumerate(lines) if '"idle ends"' in line)
    calls = [line for line in lines[begin:end] if "futex" in line]
    report.figure("idle pool of 8: futex calls within 5 s", len(calls), at_most=0)
    assert not calls
