"""The programs of benchmarks/native: exact answers on any number of workers, and what a fork costs."""

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import fjpool
import pytest

from support import PARALLELISMS

pytestmark = pytest.mark.timeout(300)

FOLDER = Path(__file__).resolve().parent.parent / "benchmarks" / "native"


def load():
    spec = importlib.util.spec_from_file_location("native", FOLDER / "__init__.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["native"] = module
    spec.loader.exec_module(module)
    return module


native = load()


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    """Compiled once for all tests here, by this run."""
    folder = tmp_path_factory.getbasetemp() / "native-programs"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


@pytest.mark.parametrize("name", native.ROWS)
def test_program_gives_the_twins_answer(name, make_pool):
    """On 1, 2 and 4 workers, twice each; the twin's is what has been published."""
    row = native.ROWS[name]
    problem = row.problem(row.small)
    problem.sequential()
    answer = problem.answer
    assert any(answer)
    for parallelism in PARALLELISMS:
        pool = make_pool(parallelism)
        for _ in range(2):
            problem.fork_join(pool)
            assert problem.answer == answer


@pytest.mark.parametrize("chunk", [0, 1, 7, 10**6])
@pytest.mark.parametrize("name", ["fib", "nqueens", "heat", "skew"])
def test_loop_gives_the_twins_answer(name, chunk, pool2):
    """With chunks given and with automatic ones."""
    row = native.ROWS[name]
    problem = row.problem(row.small)
    problem.sequential()
    answer = problem.answer
    problem.loop(pool2, chunk)
    assert problem.answer == answer


@pytest.mark.parametrize("name", ["uts T1", "uts T3"])
def test_uts_trees_are_the_published_ones(name, pool2):
    """4,130,071 and 4,112,897 nodes, 10 and 1,572 deep: checked by the run."""
    row = native.ROWS[name]
    assert row.answer(*row.full) is not None
    row.problem(row.full).fork_join(pool2)


def test_programs_that_have_none_of_it_say_so(pool1):
    module = native.programs()
    with pytest.raises(ValueError, match="there is no program cholesky"):
        module.Problem("cholesky", 3)
    with pytest.raises(TypeError, match="heat takes 3 sizes"):
        module.Problem("heat", 3)
    with pytest.raises(MemoryError, match="of no use at this size"):
        module.Problem("fft", 3)
    with pytest.raises(TypeError, match="fft is no loop"):
        module.Problem("fft", 8).loop(pool1)


def test_wrong_answer_fails(pool1):
    """A benchmark never reports the time of something else."""
    row = native.ROWS["fib"]
    problem = native.Row("fib", "fib", (), (), (), lambda n: (55,)).problem((11,))
    assert row.problem((10,)).fork_join(pool1) >= 0
    with pytest.raises(AssertionError, match=r"fib\(11,\): answer \(89,\), not \(55,\)"):
        problem.fork_join(pool1)


def test_programs_are_compiled_once(cache):
    """Into the cache, with nothing left beside it; and never into the source tree."""
    native.programs()
    native.programs.cache_clear()
    files = sorted(cache.rglob("*"))
    native.programs()
    assert sorted(cache.rglob("*")) == files
    assert [path.name.split(".")[0] for path in files if path.is_file()] == ["_programs"]
    assert not list(FOLDER.rglob("*.so"))


@pytest.mark.parametrize("pause", [0, 1000])
def test_latencies_are_positive(pool1, pause):
    module = native.programs()
    assert all(0 < ns < 10**10 for ns in module.wake_ups(pool1, 5, pause))
    if sys.platform == "linux":
        round_trips, there = module.futex_round_trips(5, pause)
        assert all(0 < one_way < both < 10**10 for both, one_way in zip(round_trips, there, strict=True))


# --- instructions, which no busy machine changes -----------------------------------------------

FIB_20_FORKS = 10_945  # fib(21) - 1
FORK_BUDGET = 38  # a fork and its join, with the calls, the comparison and the addition of fib
SUBMIT_BUDGET = 1_200  # pool.submit(f) of a busy pool: a future, a context, an entry

COUNTED = """
import importlib.util, sys, threading
sys.path.insert(0, {fjpool!r})
import fjpool
spec = importlib.util.spec_from_file_location("_programs", {programs!r})
programs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(programs)
with fjpool.ForkJoinPool(1, blocking="announced") as pool:
    fib = programs.Problem("fib", 20)
    for _ in range({rounds}):
        fib.fork_join(pool)
    assert fib.answer == (6765,)
    started, release = threading.Event(), threading.Event()
    pool.submit(lambda: started.set() or release.wait())
    started.wait()
    futures = [pool.submit(abs, -1) for _ in range({rounds} - 1)]
    release.set()
"""
ROUNDS = 50


@pytest.fixture(scope="module")
def instructions(tmp_path_factory):
    """Of each of two functions and what they call, in `ROUNDS` calls."""
    if shutil.which("valgrind") is None or shutil.which("callgrind_annotate") is None:
        pytest.skip("valgrind is not installed")
    folder = tmp_path_factory.mktemp("callgrind")
    program = COUNTED.format(
        fjpool=str(Path(fjpool.__file__).parents[1]), programs=native.programs().__file__, rounds=ROUNDS
    )
    functions = ("fork_join_body", "pool_submit")
    toggles = [f"--toggle-collect={name}" for name in functions]
    command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder / 'out'}", *toggles]
    run = {"capture_output": True, "text": True, "timeout": 240}
    done = subprocess.run([*command, sys.executable, "-I", "-c", program], **run)
    assert done.returncode == 0, done.stderr
    done = subprocess.run(["callgrind_annotate", "--inclusive=yes", "--threshold=100", folder / "out"], **run)
    assert done.returncode == 0, done.stderr
    found = {}
    for name in functions:
        match = re.search(rf"^ *([\d,]+) .*:{name} \[", done.stdout, re.MULTILINE)
        assert match, f"callgrind has not seen {name}:\n{done.stdout[:3000]}"
        found[name] = int(match[1].replace(",", ""))
    return found


def test_private_fork_and_join_stay_within_their_instructions(instructions):
    """fib(20) on one worker, where nobody asks for work."""
    assert instructions["fork_join_body"] / ROUNDS / FIB_20_FORKS <= FORK_BUDGET


def test_submit_stays_within_its_instructions(instructions):
    """Of a function with one argument, while the workers are busy."""
    assert instructions["pool_submit"] / ROUNDS <= SUBMIT_BUDGET
