"""``python -m fjpool block``: tasks that wait, by fjpool's rules and by Java's."""

import doctest
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fjpool
from fjpool import lab
from fjpool.lab import _block
from support import output

linux = pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="the system does not tell")

KINDS = ["sleep", "managed", "take", "latch", "cf"]
ANNOUNCED = ["managed", "take", "latch", "cf"]

LINE = re.compile(
    r"(?P<kind>\w+) +parallelism=(?P<parallelism>\d+)  (?P<tasks>\d+) x (?P<ms>\d+) ms"
    r"  wall= *(?P<wall>\d+) ms  peak pool size=(?P<peak>\d+)(?P<rest>.*)\n"
)


def command(*args, **env):
    """The block command in a fresh process."""
    path = [str(Path(fjpool.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FJPOOL_")}
    clean["PYTHONPATH"] = os.pathsep.join(filter(None, path))
    return subprocess.run(
        [sys.executable, "-m", "fjpool", "block", *args],
        env={**clean, **env},
        capture_output=True,
        text=True,
        timeout=60,
    )


def printed(*args, **env):
    """What a command prints that succeeds without a word of complaint."""
    done = command(*args, **env)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture
def two_spares(monkeypatch):
    """Pools built like the common one may have two threads more than their parallelism."""
    monkeypatch.setenv("FJPOOL_COMMON_MAXIMUM_SPARES", "2")


# --- fjpool's rules ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_block_takes_at_least_its_wait(kind):
    """No task of any kind gets away early."""
    result = lab.block(kind, 30, 5, parallelism=2)
    assert result.wall_ms >= 30
    assert (result.kind, result.ms, result.tasks, result.failed) == (kind, 30, 5, 0)


@pytest.mark.parametrize("parallelism", [1, 4])
@pytest.mark.parametrize("kind", ANNOUNCED)
def test_block_overlaps_announced_waits(kind, parallelism):
    """40 waits of 100 ms would take 4 s on one worker, 1 s on four, if they held their workers."""
    result = lab.block(kind, 100, 40, parallelism=parallelism)
    assert result.wall_ms < 40 * 100 / parallelism
    assert 4 < result.peak_size <= 41


@linux
def test_block_overlaps_what_nobody_announces():
    """The pool finds out: 40 x 200 ms of time.sleep would take 8 s."""
    result = lab.block("sleep", 200, 40, parallelism=1)
    assert result.wall_ms < 4_000
    assert result.peak_size > 4


def test_block_runs_on_the_common_pool():
    """Unless told otherwise; its size and limit are reported."""
    common = fjpool.common_pool()
    result = lab.block("managed", 10, 3)
    assert (result.parallelism, result.max_workers) == (common.parallelism, common.max_workers)
    assert common.pool_size >= 1
    assert result.rules == "fjpool"


def test_block_does_not_change():
    """It is a record of what happened."""
    result = lab.block("managed", 10, 3, parallelism=1)
    with pytest.raises(AttributeError):
        result.wall_ms = 0


def test_block_counts_what_fails_at_the_limit(two_spares):
    """saturate="raise", three threads: who waits while tasks are queued and no thread is left, fails."""
    result = lab.block("managed", 1_000, 10, parallelism=1, saturate="raise")
    assert (result.max_workers, result.peak_size, result.failed) == (3, 3, 7)
    assert result.failure == "Thread limit exceeded replacing blocked worker"
    assert str(result).endswith("  7 of 10 failed: Thread limit exceeded replacing blocked worker")


@pytest.mark.filterwarnings("ignore:.* has reached max_workers")
def test_block_waits_at_the_limit(two_spares):
    """saturate="wait", three threads: nothing fails, and seven tasks take three turns."""
    result = lab.block("cf", 100, 7, parallelism=1, saturate="wait")
    assert (result.failed, result.failure, result.peak_size) == (0, "", 3)
    assert result.wall_ms >= 3 * 100


def test_block_runs_in_the_caller_where_there_are_no_workers():
    """FJPOOL_COMMON_PARALLELISM=0: whoever waits for a task runs it, one after another."""
    code = "from fjpool import lab; one = lab.block('take', 20, 4); print(one.peak_size, one.wall_ms >= 80)"
    assert output(code, env={"FJPOOL_COMMON_PARALLELISM": "0"}) == "0 True\n"


# --- Java's ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "java, kind", [(21, "sleep"), (21, "latch"), (11, "sleep"), (11, "latch"), (11, "take")]
)
def test_java_rules_leave_some_waits_alone(java, kind):
    """8 waits on 4 workers take two turns, and there are never more than 4 threads."""
    result = lab.block(kind, 100, 8, parallelism=4, java=java)
    assert result.wall_ms >= 2 * 100
    assert result.peak_size == 4
    assert result.rules == f"java {java}"


@pytest.mark.parametrize(
    "java, kind", [(21, "managed"), (21, "take"), (21, "cf"), (11, "managed"), (11, "cf")]
)
def test_java_rules_start_a_spare_at_every_block(java, kind):
    """Held long enough, n waits have n threads and one that could run, on any number of workers."""
    result = lab.block(kind, 1_000, 12, parallelism=4, java=java)
    assert result.wall_ms < 3 * 1_000
    assert result.peak_size == 13


@pytest.mark.parametrize("kind", ["managed", "cf"])
def test_java_rules_reject_at_the_limit(two_spares, kind):
    """Of 6 threads the last may not wait: 5 tasks succeed."""
    result = lab.block(kind, 1_000, 20, parallelism=4, java=21)
    assert (result.peak_size, result.failed, result.saturate) == (6, 15, "raise")


def test_java_rules_let_take_wait_at_the_limit(two_spares):
    """Silently: 12 tasks take two turns on 6 threads."""
    result = lab.block("take", 100, 12, parallelism=4, java=21)
    assert (result.failed, result.peak_size, result.saturate) == (0, 6, "wait")
    assert result.wall_ms >= 2 * 100


def test_java_rules_do_not_look_for_blocked_workers():
    """40 x 20 ms of time.sleep on one worker take their 800 ms, on one thread."""
    result = lab.block("sleep", 20, 40, parallelism=1, java=21)
    assert result.wall_ms >= 40 * 20
    assert result.peak_size == 1


# --- arguments ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "args, kwargs, name",
    [
        (("park",), {}, "kind"),
        (("take", 0), {}, "ms"),
        (("take", 10, 0), {}, "tasks"),
        (("take", 10, 1), {"parallelism": 0}, "parallelism"),
        (("take", 10, 1), {"parallelism": 32_768}, "parallelism"),
        (("take", 10, 1), {"saturate": "never"}, "saturate"),
        (("take", 10, 1), {"java": 17}, "java"),
    ],
)
def test_block_refuses_bad_arguments_by_name(args, kwargs, name):
    """Before anything runs."""
    with pytest.raises(ValueError, match=f"{name} must"):
        lab.block(*args, **kwargs)


def test_block_docstring_examples_run():
    """As they stand."""
    assert doctest.testmod(_block).failed == 0


# --- the command -------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_command_prints_one_line(kind):
    """Kind, parallelism, number x time, wall time and peak size, on the common pool."""
    match = LINE.fullmatch(printed(kind, "30", "5", FJPOOL_COMMON_PARALLELISM="3"))
    assert match
    assert (match["kind"], match["parallelism"], match["tasks"], match["ms"]) == (kind, "3", "5", "30")
    assert int(match["wall"]) >= 30
    assert match["rest"] == ""


def test_command_defaults_to_40_times_200_ms():
    """As the documents' program does."""
    match = LINE.fullmatch(printed("managed"))
    assert match
    assert (match["tasks"], match["ms"]) == ("40", "200")


def test_command_java_means_21():
    """The rules are named; the pool has the common one's size."""
    match = LINE.fullmatch(printed("latch", "20", "4", "--java", FJPOOL_COMMON_PARALLELISM="2"))
    assert match
    assert (match["parallelism"], match["peak"], match["rest"]) == ("2", "2", "  java 21")


def test_command_reports_failed_tasks_and_succeeds():
    """That tasks fail is a finding, not a failure of the command."""
    text = printed(
        *("cf", "1000", "10", "--parallelism", "1", "--saturate", "raise"), FJPOOL_COMMON_MAXIMUM_SPARES="2"
    )
    match = LINE.fullmatch(text)
    assert match
    assert match["rest"] == "  7 of 10 failed: Thread limit exceeded replacing blocked worker"


def test_command_prints_json():
    """The same facts for programs, with those of the machine."""
    document = json.loads(printed("take", "20", "4", "--parallelism", "2", "--json"))
    assert {"python", "cpus"} <= document["machine"].keys()
    assert (document["kind"], document["parallelism"], document["tasks"]) == ("take", 2, 4)
    assert document["wall_ms"] >= 20
    assert document["failed"] == 0


def test_command_all_prints_both_rules_and_the_documents_figures():
    """A row for each kind: fjpool, Java, and what the documents measured."""
    title, heads, *rows = printed("all", "20", "6", "--parallelism", "2").splitlines()
    assert title.startswith("6 x 20 ms, parallelism=2")
    assert "rules of Java 21" in heads
    assert [row.split()[0] for row in rows] == KINDS
    assert all(len(re.findall(r"\d+ ms / +\d+", row)) == 3 for row in rows)
    assert "2008 ms / 4" in rows[3]


def test_command_all_prints_json():
    """Both results of each row; the documents have no figure for sleep on 11."""
    document = json.loads(printed("all", "20", "4", "--parallelism", "2", "--java", "11", "--json"))
    assert [row["kind"] for row in document["rows"]] == KINDS
    assert [row["java"]["rules"] for row in document["rows"]] == ["java 11"] * 5
    assert [row["documented"] for row in document["rows"]][0:3:2] == [None, [2040, 4]]


@pytest.mark.parametrize(
    "args",
    [
        (),
        ("park",),
        ("take", "0"),
        ("take", "fast"),
        ("take", "10", "-1"),
        ("take", "10", "1", "2"),
        ("take", "--parallelism", "0"),
        ("take", "--saturate", "never"),
        ("take", "--java", "17"),
    ],
)
def test_command_refuses_a_wrong_kind_or_number(args):
    """One line that says what is wrong, the usage, status 2, and nothing on stdout."""
    done = command(*args)
    assert (done.returncode, done.stdout) == (2, "")
    error, usage, *_ = done.stderr.splitlines()
    assert ": error: " in error
    assert usage.startswith("usage: python -m fjpool")


def test_command_help_shows_an_example():
    """One to copy."""
    assert "example:\n  python -m fjpool block take 200 40 --java 21" in printed("--help")
