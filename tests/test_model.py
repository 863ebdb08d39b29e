"""The protocol in Spin: csrc/model checked exhaustively, and each seeded fault found.

csrc/README.rst ("Models") says what each model has. A model is right if a search of all its states
finds no error; that the search could find one is shown by faults, each left out by a macro of its
name. To see how a fault goes wrong, follow the commands there.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

MODELS = Path(__file__).resolve().parent.parent / "csrc" / "model"

# Each model's sizes: what is not said is as the model itself has it.
SIZES = {
    "idle": (
        {},
        {"TIMEOUTS": 0},
        {"PUBLISHERS": 1, "FORKS": 1, "MISSES": 1},
        {"PUBLISHERS": 1, "FORKS": 2},
    ),
    "block": (
        {},
        {"PARALLELISM": 2},
        {"PARALLELISM": 2, "OUTSIDERS": 1},
        {"BLOCKERS": 1},
        {"WORKERS": 3, "PARENTS": 3},
    ),
    "quiesce": (
        {},
        {"STOP": 1},
        {"TASKS": 2, "FORKS": 0, "BLOCKS": 0},
    ),
}

# Each model's faults, and the size at which they are found.
FAULTS = {
    "idle": {
        "SIGNAL_BEFORE_PUSH": {},
        "LOOK_BEFORE_ANNOUNCE": {},
        "NO_LOOK_AFTER_SEARCH": {},
        "NO_LOOK_AFTER_REFUSAL": {},
        "NO_LOOK_AFTER_RETIRE": {},
        "NO_RETURN": {},
        "NO_VERSION": {},
    },
    "block": {
        "AWAITS_LATE": {},
        "NO_LOOK_AFTER_BLOCK": {},
        "NO_LOOK_AT_TASK": {},
        "NO_LOOK_OUTSIDE": {"OUTSIDERS": 1},
    },
    "quiesce": {
        "BLOCKED_LATE": {},
        "CLOSED_LATE": {"TASKS": 2, "FORKS": 0, "BLOCKS": 0},
        "NO_CHECK_AFTER_ANNOUNCE": {},
        "NO_DRAIN": {"STOP": 1},
        "NO_SECOND_READ": {},
    },
}

pytestmark = [pytest.mark.once, pytest.mark.timeout(600)]


def _macros(size, *faults):
    return [f"-D{name}={value}" for name, value in size.items()] + [f"-D{name}" for name in faults]


def _call(command, folder):
    """Run a command; everything it printed."""
    done = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def _search(name, macros, folder):
    """Search all states of a model, up to the first error; what the search reports."""
    if shutil.which("spin") is None:
        pytest.skip("spin is not installed (Debian, Ubuntu: apt-get install spin)")
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler, "spin's models are C programs: a C compiler is needed"
    _call(["spin", *macros, "-a", MODELS / f"{name}.pml"], folder)
    # Safety only; states compressed without loss; at most 4 GB. To optimize takes longer than it saves.
    options = ["-O0", "-w", "-DSAFETY", "-DCOLLAPSE", "-DNOFAIR", "-DMEMLIM=4096"]
    _call([compiler, *options, "-o", "pan", "pan.c"], folder)
    return _call(["./pan", "-m100000"], folder)


def _errors(report):
    return int(re.search(r"^State-vector .*, errors: (\d+)$", report, re.MULTILINE)[1])


def _identifier(value):
    if isinstance(value, dict):
        return ",".join(f"{name}={number}" for name, number in value.items()) or "as it is"
    return value


@pytest.mark.parametrize(
    "name, size",
    [(name, size) for name, sizes in SIZES.items() for size in sizes],
    ids=_identifier,
)
def test_model_has_no_error(name, size, tmp_path):
    """All states are searched, and in none of them a promise is broken."""
    report = _search(name, _macros(size), tmp_path)
    print(report)
    assert _errors(report) == 0, report
    for word in ("Search not completed", "max search depth too small", "out of memory"):
        assert word not in report
    assert re.search(r"^\s+assertion violations\s+\+$", report, re.MULTILINE)
    assert re.search(r"^\s+invalid end states\s+\+$", report, re.MULTILINE)


@pytest.mark.parametrize(
    "name, fault",
    [(name, fault) for name, faults in FAULTS.items() for fault in faults],
)
def test_model_finds_fault(name, fault, tmp_path):
    """A protocol without one of its steps breaks a promise, and the search says so."""
    report = _search(name, _macros(FAULTS[name][fault], fault), tmp_path)
    assert _errors(report) == 1, report
    assert re.search(r"^pan:1: (assertion violated|invalid end state)", report, re.MULTILINE), report


@pytest.mark.parametrize("name", SIZES)
def test_model_has_its_faults_listed(name):
    """A fault that a model can be built with is in FAULTS, and none there is misspelt."""
    fault = re.compile(
        r"^#(?:ifn?def |elif defined\()(NO_\w+|\w+_BEFORE_\w+|\w+_LATE)\b", re.MULTILINE
    )
    own, shared = (
        set(fault.findall((MODELS / file).read_text())) for file in (f"{name}.pml", "protocol.pml")
    )
    assert own <= set(FAULTS[name]) <= own | shared
