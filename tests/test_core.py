"""The core's C tests, run in this process and under sanitizers, and the rules about its files.

The tests are written in C, in csrc/test; here each is one test. To see one in a debugger, build
the standalone program as `standalone` below does and name the test on its command line.
"""

import os
import random
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fjpool import _selftest

CSRC = Path(__file__).resolve().parent.parent / "csrc"
NAMES = _selftest.names()

# csrc/core from the bottom up. A file includes only what stands before it here, and its own
# header: so a lower layer never knows a higher one, and no two files know each other.
LAYERS = (
    ("fj_base", "fj_atomic", "fj_os", "fjpool"),
    ("fj_ctl", "fj_types", "fj_task", "fj_deque", "fj_spawn", "fj_lane"),
    ("fj_registry", "fj_idle", "fj_quiesce"),
    ("fj_worker", "fj_join", "fj_range", "fj_monitor"),
    ("fj", "fj_pool", "fj_run"),
)


# --- in this process -----------------------------------------------------------------------------


@pytest.mark.once  # the core knows no Python
@pytest.mark.timeout(600)  # each C test has a time-out of its own, a minute unless it says more
@pytest.mark.parametrize("name", NAMES)
def test_core_in_process(name):
    """The C test passes inside a Python process, built as the extension is."""
    seed = random.getrandbits(32)
    print(f"seed {seed}")
    _selftest.run(name, seed)


def test_selftest_reports_an_unknown_name():
    """A misspelt name is an error, not a test that passes."""
    with pytest.raises(ValueError, match="no C test is named 'deque.no_such_promise'"):
        _selftest.run("deque.no_such_promise")


# --- standalone, under sanitizers ----------------------------------------------------------------

SANITIZERS = {
    "thread": ["-fsanitize=thread"],
    "address": ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"],
}
FLAGS = ["-std=c11", "-O1", "-g", "-fno-omit-frame-pointer", "-pthread"]
STRICT = ["-Wall", "-Wextra", "-Wconversion", "-Werror"]
ENVIRONMENT = {
    # die_after_fork=0: a child process may start threads of its own.
    "TSAN_OPTIONS": "halt_on_error=1 die_after_fork=0 second_deadlock_stack=1 atexit_sleep_ms=100",
    "ASAN_OPTIONS": "strict_string_checks=1"
    + (" detect_leaks=1" if sys.platform == "linux" else ""),
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


def _call(command, timeout=300, **environment):
    """Run a command; (exit status, everything it printed)."""
    done = subprocess.run(
        [str(word) for word in command],
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=timeout,
    )
    return done.returncode, done.stdout


def _compilers(sanitizer):
    """The compilers on this machine that may serve, the preferred one first."""
    wanted = ["cc", "gcc", "clang"]
    if sanitizer == "thread":  # clang's ThreadSanitizer copes with more kernels than older gcc's
        wanted[:0] = ["clang-19"]
    if os.environ.get("CC"):
        wanted.insert(0, os.environ["CC"])
    return [name for name in wanted if shutil.which(name)]


class Toolchain:
    """A compiler that works with a sanitizer, and what its programs must be started through."""

    def __init__(self, sanitizer, folder):
        self.flags = [*FLAGS, *SANITIZERS[sanitizer]]
        # Address randomisation can put a mapping where ThreadSanitizer keeps its shadow memory.
        fixed = ["setarch", "-R"]
        useful = sanitizer == "thread" and shutil.which("setarch")
        self.start = fixed if useful and _call([*fixed, "true"])[0] == 0 else []
        probe = folder / "probe.c"
        probe.write_text("int main(void) { return 0; }\n")
        failures = []
        for self.compiler in _compilers(sanitizer):
            program = folder / "probe"
            status, output = _call([self.compiler, *self.flags, probe, "-o", program])
            if status == 0:
                status, output = _call([*self.start, program])
            if status == 0:
                return
            failures.append(f"{self.compiler}: {output}")
        pytest.fail(
            f"no C compiler here builds with {SANITIZERS[sanitizer][0]}; leave these tests out "
            "with -m 'not sanitizer'\n" + "\n".join(failures)
        )


def _build(toolchain, folder):
    """Compile core and its C tests, warnings being errors, and link the standalone program."""
    sources = sorted([*(CSRC / "core").glob("*.c"), *(CSRC / "test").glob("*.c")])
    sources.remove(CSRC / "test/module.c")

    def compile_one(source):
        target = folder / f"{source.parent.name}-{source.stem}.o"
        includes = ["-I", CSRC / "core", "-I", CSRC / "include"]
        macros = ["-DFJ_TESTING=1", "-DFJ_DEBUG=1"]
        command = [toolchain.compiler, *toolchain.flags, *STRICT, *macros, *includes]
        status, output = _call([*command, "-c", source, "-o", target])
        assert status == 0, f"{toolchain.compiler} does not take {source.name}:\n{output}"
        return target

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(compile_one, sources))
    program = folder / "fj_tests"
    status, output = _call([toolchain.compiler, *toolchain.flags, *objects, "-o", program])
    assert status == 0, f"{toolchain.compiler} does not link the C tests:\n{output}"
    return program


@pytest.fixture(scope="session")
def standalone(tmp_path_factory):
    """A function from a sanitizer's name to the command that starts the C tests built with it."""
    built = {}

    def command(sanitizer):
        if sanitizer not in built:
            built[sanitizer] = None
            folder = tmp_path_factory.mktemp(sanitizer)
            toolchain = Toolchain(sanitizer, folder)
            built[sanitizer] = [*toolchain.start, _build(toolchain, folder)]
        assert built[sanitizer], f"the build with the {sanitizer} sanitizer failed before"
        return built[sanitizer]

    return command


@pytest.mark.sanitizer
@pytest.mark.timeout(500)
@pytest.mark.parametrize("sanitizer", SANITIZERS)
@pytest.mark.parametrize("name", NAMES)
def test_core_under_sanitizer(standalone, sanitizer, name):
    """The C test passes standalone, and the sanitizer finds no race, no leak, nothing undefined."""
    seed = random.getrandbits(32)
    status, output = _call([*standalone(sanitizer), "--seed", seed, name], **ENVIRONMENT)
    assert status == 0, output
    assert output.endswith("1 passed, 0 failed\n"), output


@pytest.mark.sanitizer
@pytest.mark.timeout(500)
def test_core_standalone_lists_the_same_tests(standalone):
    """The standalone program and fjpool._selftest hold the same tests, so none goes unsanitized."""
    status, output = _call([*standalone("address"), "--list"], **ENVIRONMENT)
    assert status == 0, output
    assert output.split() == NAMES


@pytest.mark.sanitizer
@pytest.mark.timeout(500)
@pytest.mark.parametrize(
    "arguments", [["deque.no_such_promise"], ["--seed"], ["--seed", "many"], ["--sed", "1"]]
)
def test_core_standalone_refuses_wrong_arguments(standalone, arguments):
    """A wrong argument is one line, the usage and exit status 2, not a run of nothing."""
    status, output = _call([*standalone("address"), *arguments], **ENVIRONMENT)
    assert status == 2
    assert len(output.splitlines()) == 2 and "usage: fj_tests" in output


@pytest.mark.sanitizer
@pytest.mark.timeout(500)
def test_core_standalone_has_no_python_symbols(standalone):
    """The core with its tests is a program of its own: no symbol of CPython is in it."""
    status, output = _call(["nm", standalone("address")[-1]])
    assert status == 0, output
    symbols = [line.split()[-1] for line in output.splitlines() if line.strip()]
    assert any(symbol.lstrip("_") == "fj_test_run_start" for symbol in symbols)
    assert [symbol for symbol in symbols if re.match(r"_*Py[A-Z_]", symbol)] == []


# --- rules about the files ---------------------------------------------------------------------------


def _sources(folder):
    return sorted(file for file in (CSRC / folder).iterdir() if file.suffix in (".c", ".h"))


def _includes(file):
    """What a file includes between quotes."""
    return re.findall(r'^\s*#\s*include\s*"([^"]+)"', file.read_text(), re.MULTILINE)


@pytest.mark.parametrize("file", _sources("core"), ids=lambda file: file.name)
def test_core_file_knows_no_python(file):
    """The core is plain C11: no file of it includes Python.h or names anything of CPython."""
    found = re.findall(r"\bPython\.h\b|\bPyObject\b|\b_?Py_?[A-Z]\w*", file.read_text())
    assert found == []


@pytest.mark.parametrize("file", _sources("core"), ids=lambda file: file.name)
def test_core_file_includes_only_lower_layers(file):
    """A file of the core includes only headers that stand before it in LAYERS, and its own."""
    order = [name for layer in LAYERS for name in layer]
    assert file.stem in order, f"say in LAYERS where {file.name} belongs"
    allowed = order[: order.index(file.stem) + (file.suffix == ".c")]
    assert [name for name in _includes(file) if Path(name).stem not in allowed] == []


@pytest.mark.parametrize(
    "file",
    [file for file in _sources("core") if file.stem != "fj_os"],
    ids=lambda file: file.name,
)
def test_core_file_knows_no_platform(file):
    """Only fj_os tells operating systems apart."""
    found = re.findall(r"\b(?:__linux__|__APPLE__|__FreeBSD__|_WIN32)\b", file.read_text())
    assert found == []


@pytest.mark.parametrize("file", _sources("py"), ids=lambda file: file.name)
def test_binding_includes_only_the_public_header_of_the_core(file):
    """csrc/py sees the core through fj.h alone."""
    private = {header.name for header in _sources("core") if header.suffix == ".h"} - {"fj.h"}
    assert private.intersection(_includes(file)) == set()
