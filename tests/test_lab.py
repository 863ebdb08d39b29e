"""The lab: its kernels and leaves, and the commands of ``python -m fjpool``."""

from __future__ import annotations

import ctypes
import doctest
import functools
import json
import math
import operator
import os
import struct
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import fjpool
from fjpool import lab
from fjpool.lab import _info, _native, _order, _skew

POSITIONS = 4_000_000
RANGES = [
    (0, 0, 0),
    (0, 1, 1),
    (0, 1_000, 1_000),
    (249, 251, 1_000),  # one position on either side of the first quarter's end
    (250, 250, 1_000),
    (201, 300, 1_000),  # remainders on both sides of it
    (218, 282, 1_000),  # full blocks of 32 on both sides
    (100, 131, 1_000),
    (100, 132, 1_000),
    (100, 133, 1_000),
    (700, 765, 1_000),
    (999_990, 1_000_050, POSITIONS),
    (POSITIONS - 7, POSITIONS, POSITIONS),
]


def reference_prices(lo: int, hi: int, n: int) -> list[float]:
    prices = []
    for i in range(lo, hi):
        x = float(i)
        for r in range(240 if i < n // 4 else 20):
            x = math.sqrt(x + r) * 1.0000001
        prices.append(x)
    return prices


def as_function(leaf: object, restype: object, *argtypes: object):
    """The C function in a capsule, through ctypes (which releases the GIL)."""
    get_name, get_pointer = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    get_name.restype, get_name.argtypes = ctypes.c_char_p, [ctypes.py_object]
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return ctypes.CFUNCTYPE(restype, *argtypes)(get_pointer(leaf, get_name(leaf)))


def range_leaf(leaf: object, restype: object):
    return as_function(leaf, restype, ctypes.c_int64, ctypes.c_int64)


def data_leaf(leaf: object, restype: object, value: int):
    """A leaf with its context, an int64."""
    data = ctypes.c_int64(value)
    function = as_function(leaf, restype, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
    return lambda lo, hi: function(lo, hi, ctypes.addressof(data))


# --- kernels -----------------------------------------------------------------------------


@pytest.mark.parametrize(("lo", "hi", "n"), RANGES)
def test_price_positions_equal_the_python_reference_bit_by_bit(lo: int, hi: int, n: int) -> None:
    """Scalar and vector kernels, each instruction set, give the bits that Python's floats give."""
    prices = reference_prices(lo, hi, n)
    expected = struct.pack(f"{len(prices)}d", *prices)
    assert lab.price_positions(lo, hi, n) == expected
    assert lab.price_positions(lo, hi, n, True) == expected
    for isa in lab.vector_isas():
        assert lab.price_positions(lo, hi, n, isa=isa) == expected, isa


@pytest.mark.parametrize(("lo", "hi", "n"), RANGES)
def test_price_block_adds_in_index_order(lo: int, hi: int, n: int) -> None:
    """The sums have the bits of adding the positions one after another."""
    expected = functools.reduce(operator.add, reference_prices(lo, hi, n), 0.0)
    assert lab.price_block(lo, hi, n) == expected
    assert lab.price_block_vector(lo, hi, n) == expected
    for isa in lab.vector_isas():
        assert lab.price_block_vector(lo, hi, n, isa=isa) == expected, isa


def test_price_leaves_equal_the_functions() -> None:
    """The four price capsules compute what price_block computes."""
    lo, hi = 999_950, 1_000_060
    assert range_leaf(lab.price, ctypes.c_double)(lo, hi) == lab.price_block(lo, hi)
    assert range_leaf(lab.price_vector, ctypes.c_double)(lo, hi) == lab.price_block(lo, hi)
    assert data_leaf(lab.price_n, ctypes.c_double, 2_000)(400, 600) == lab.price_block(400, 600, 2_000)
    assert data_leaf(lab.price_vector_n, ctypes.c_double, 2_000)(400, 600) == lab.price_block(400, 600, 2_000)


@pytest.mark.parametrize("function", [lab.price_block, lab.price_block_vector, lab.price_positions])
@pytest.mark.parametrize("bounds", [(-1, 2), (2, 1), (0, POSITIONS + 1), (0, 5, 4), (0, 1, 2**53 + 1)])
def test_price_functions_refuse_a_bad_range(function, bounds: tuple[int, ...]) -> None:
    """A range that is reversed or outside the positions is a ValueError that says what is needed."""
    with pytest.raises(ValueError, match=r"need 0 <= lo <= hi <= n <= 2\*\*53, not lo="):
        function(*bounds)


@pytest.mark.parametrize("function", [lab.price_block_vector, lab.price_positions])
def test_vector_functions_refuse_an_unknown_isa(function) -> None:
    """The ValueError names the instruction sets that this machine has."""
    with pytest.raises(ValueError, match=f"must be one of .*{lab.vector_isa()}.* not 'abacus'"):
        function(0, 1, isa="abacus")


def test_price_functions_refuse_wrong_types() -> None:
    """A float is no position, and lo and hi are needed."""
    with pytest.raises(TypeError):
        lab.price_block(0.0, 1)
    with pytest.raises(TypeError):
        lab.price_block_vector(0)


@pytest.mark.parametrize("function", [lab.sleep_block, lab.spin_block])
def test_timed_functions_refuse_what_is_no_time(function) -> None:
    """Negative and endless times are ValueErrors; zero is a time."""
    assert function(0) is None
    for ns in (-1, 10**18 + 1):
        with pytest.raises(ValueError, match="ns must lie between 0 and"):
            function(ns)
    with pytest.raises(TypeError):
        function(0.5)


# --- leaves ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "signature"),
    [
        (("price", "price_vector"), "double (int64_t, int64_t)"),
        (("price_n", "price_vector_n"), "double (int64_t, int64_t, void *)"),
        (("primes",), "int64_t (int64_t, int64_t)"),
        (("count",), "void (int64_t, int64_t)"),
        (("sleep", "spin"), "void (int64_t, int64_t, void *)"),
        (("fail_at",), "int (int64_t, int64_t, void *)"),
    ],
)
def test_leaves_are_capsules_named_by_their_signature(names: tuple[str, ...], signature: str) -> None:
    """Whoever takes a LowLevelCallable can read the signature from the capsule."""
    for name in names:
        assert f'"{signature}"' in repr(getattr(lab, name))


def test_primes_are_counted() -> None:
    """Known counts, small numbers and empty ranges included."""
    primes = range_leaf(lab.primes, ctypes.c_int64)
    assert primes(2_000_000, 2_004_000) == 273
    assert primes(0, 30) == 10
    assert primes(-5, 2) == 0
    assert primes(7, 7) == 0


def test_count_loses_nothing_between_threads() -> None:
    """Four threads that add at the same time: the total is exact, each in its own stripe."""
    count = range_leaf(lab.count, None)
    lab.count_reset()
    start = threading.Barrier(4, timeout=60)

    def add() -> None:
        start.wait()
        for _ in range(1_000):
            count(10, 13)

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert lab.count_total() == 12_000
    assert lab.count_stripes() == [3_000] * 4
    lab.count_reset()
    assert lab.count_total() == 0
    assert lab.count_stripes() == []


@pytest.mark.parametrize("leaf", [lab.sleep, lab.spin])
def test_timed_leaves_return(leaf: object) -> None:
    """The nanoseconds in the data are taken for every position, and none for an empty range."""
    data_leaf(leaf, None, 100)(0, 3)
    data_leaf(leaf, None, 10**18)(5, 5)


def test_fail_at_returns_an_error_for_its_position_only() -> None:
    """7 where the position lies within the range, 0 elsewhere; the end is outside."""
    fail_at = data_leaf(lab.fail_at, ctypes.c_int, 10)
    assert [fail_at(0, 10), fail_at(0, 11), fail_at(10, 11), fail_at(11, 20)] == [0, 7, 7, 0]


# --- experiments -------------------------------------------------------------------------


@pytest.mark.parametrize("module", [_native, _info, _order, _skew])
def test_lab_docstring_examples_run(module) -> None:
    """Every example in the lab's docstrings gives what it says."""
    assert doctest.testmod(module).failed == 0


def test_order_is_the_queue_order() -> None:
    """One worker runs what it forked newest first, with order="fifo" oldest first."""
    assert lab.order() == ([6, 5, 4, 3, 2, 1], [1, 2, 3, 4, 5, 6])


def test_skew_runs_256_leaves_and_agrees() -> None:
    """At a reduced size the shape of the published one: 256 leaves, and the same total each way."""
    result = lab.skew(2, size=4_000, chunksize=20, rounds=2)
    assert [one.number for one in result.rounds] == [1, 2]
    for one in result.rounds:
        assert [run.way for run in one.fork_join] == ["tasks", "native", "vector"]
        assert all(run.same_total for run in one.fork_join)
        counted = [run.leaves for run in one.fork_join if run.leaves is not None]
        assert counted
        assert [sum(leaves.values()) for leaves in counted] == [256] * len(counted)


@pytest.mark.parametrize(("parallelism", "ideal"), [(1, 1.0), (2, 65 / 37.5), (4, 3.2)])
def test_skew_ideal_ratio_is_the_arithmetic(parallelism: int, ideal: float) -> None:
    """The slowest equal chunk over a perfect share, from the positions' costs."""
    assert _skew.Skew(parallelism, POSITIONS, 20_000, ()).ideal_ratio == pytest.approx(ideal)


@pytest.mark.parametrize("name", ["parallelism", "size", "chunksize", "rounds"])
def test_skew_refuses_zero(name: str) -> None:
    """Each number must be at least 1; the error names it."""
    with pytest.raises(ValueError, match=name):
        lab.skew(**{name: 0})


def test_skew_compares_with_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the Java program prints is read, and set against the native way's time."""
    java = tmp_path / "java"
    java.write_text(
        "#!/bin/sh\n"
        "echo java=99 processors=2\n"
        "echo round=1 p=2 static_ms=9.0 forkjoin_ms=6.0 ratio=1.50 steals=2 same_total=true leaves=a:1,b:2\n"
    )
    java.chmod(0o755)
    monkeypatch.setattr(_skew._java, "find_program", Path)
    native = _skew.ForkJoin("native", ms=3.0, ratio=1.0, steals=0, same_total=True, leaves=None)
    result = _skew.Skew(2, 4_000, 20, (_skew.Round(1, 2, 3.0, (native,)),))
    found = _skew.run_java(result, str(java))
    assert (found["version"], found["java_over_native"]) == ("99", 2.0)
    assert "leaves per worker {a=1, b=2}" in _skew._java_text(found)


def test_skew_says_when_java_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a JDK: one line that says so."""
    monkeypatch.setattr(_skew._java, "find_javas", list)
    text = _skew._java_text(_skew.run_java(_skew.Skew(2, 4_000, 20, ())))
    assert text.startswith("java: missing, no JDK found")
    assert "\n" not in text


# --- commands ----------------------------------------------------------------------------


def run_python(*args: str) -> subprocess.CompletedProcess[str]:
    """A fresh Python that imports the same fjpool as this one."""
    path = [str(Path(fjpool.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    env = {name: value for name, value in os.environ.items() if not name.startswith("FJPOOL_")}
    env["PYTHONPATH"] = os.pathsep.join(filter(None, path))
    return subprocess.run([sys.executable, *args], env=env, capture_output=True, text=True, timeout=120)


def command(*args: str) -> subprocess.CompletedProcess[str]:
    return run_python("-m", "fjpool", *args)


@pytest.mark.parametrize("args", [(), ("info",)])
def test_command_info_describes_the_common_pool(args: tuple[str, ...]) -> None:
    """Also without an argument: versions, CPUs, and a daemon worker of the common pool."""
    done = command(*args)
    assert done.returncode == 0, done.stderr
    lines = dict(line.split(" = ", 1) for line in done.stdout.splitlines())
    found = {label.strip(): value for label, value in lines.items()}
    assert found["fjpool"] == fjpool.__version__
    assert found["worker name / daemon"] == "ForkJoinPool.commonPool-worker-1 / True"
    assert found["submitted task ran on"].startswith("ForkJoinPool.commonPool-worker-1")


def test_command_info_prints_json() -> None:
    """The same facts for programs."""
    found = json.loads(command("info", "--json").stdout)
    assert found["ran_on_worker"] is True
    assert found["vector_isa"] == lab.vector_isa()
    assert found["cpus"] >= 1


def test_command_order_prints_both_lists() -> None:
    """Two lines, and the same as JSON."""
    assert command("order").stdout == "order=lifo  [6, 5, 4, 3, 2, 1]\norder=fifo  [1, 2, 3, 4, 5, 6]\n"
    assert json.loads(command("order", "--json").stdout)["fifo"] == [1, 2, 3, 4, 5, 6]


def test_command_skew_prints_one_json_document() -> None:
    """Machine facts, settings and rounds, which agree with the static split."""
    done = command("skew", "2", "--rounds", "1", "--size", "4000", "--chunksize", "20", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert {"python", "cpus", "isa"} <= document["machine"].keys()
    assert (document["parallelism"], document["size"]) == (2, 4_000)
    (one,) = document["rounds"]
    assert all(run["same_total"] for run in one["fork_join"])
    assert sum(one["fork_join"][0]["leaves"].values()) == 256


def test_command_skew_prints_a_line_for_each_run_and_a_summary() -> None:
    """Two rounds, three ways each, then the ratios and what the arithmetic allows."""
    done = command("skew", "--rounds", "2", "--size", "4000")
    assert done.returncode == 0, done.stderr
    *runs, summary, arithmetic = done.stdout.splitlines()
    assert len(runs) == 6
    assert re.search(r"stealing can win \d\.\d\d with p=\d+", arithmetic)
    assert all("same total: true" in run for run in runs)
    assert summary.startswith("static split / fork/join, median of 2: ")


@pytest.mark.parametrize(
    "args",
    [
        ("nonsense",),
        ("skew", "0"),
        ("skew", "two"),
        ("skew", "40000"),
        ("skew", "--rounds", "0"),
        ("skew", "--size", "1e6"),
        ("order", "3"),
        ("info", "--nonsense"),
    ],
)
def test_command_refuses_a_wrong_mode_or_number(args: tuple[str, ...]) -> None:
    """One line that says what is wrong, the usage, status 2, and nothing on stdout."""
    done = command(*args)
    assert (done.returncode, done.stdout) == (2, "")
    error, *usage = done.stderr.splitlines()
    assert ": error: " in error
    assert usage[0].startswith("usage: python -m fjpool")


@pytest.mark.parametrize("name", ["info", "order", "skew"])
def test_command_help_shows_an_example(name: str) -> None:
    """Every command has a --help with an example to copy."""
    done = command(name, "--help")
    assert done.returncode == 0
    assert f"example:\n  python -m fjpool {name}" in done.stdout


def test_import_fjpool_leaves_the_lab_alone() -> None:
    """The everyday interface does not pay for the experiments."""
    done = run_python("-c", "import fjpool, sys; print('fjpool.lab' in sys.modules)")
    assert done.stdout == "False\n", done.stderr
