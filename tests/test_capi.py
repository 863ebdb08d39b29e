"""fjpool.h as extensions outside of this tree use it, in C and in Cython."""

import array
import ctypes
import importlib.util
import os
import shlex
import subprocess
import sys
import sysconfig
import threading
from pathlib import Path

import fjpool
import pytest

from support import WAIT, eventually, output

SOURCES = Path(__file__).parent / "capi"
COMPILER = shlex.split(os.environ.get("CC", "cc"))
FIB_27 = 196418

pytestmark = pytest.mark.timeout(300)


def config(*words):
    """What ``python -m fjpool config`` prints."""
    command = [sys.executable, "-m", "fjpool", "config", *words]
    environment = {**os.environ, "PYTHONPATH": str(Path(fjpool.__file__).parents[1])}
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60, env=environment)
    return done.stdout.strip()


def build(folder, source, *flags):
    """Compile one file into an extension in that folder; its path."""
    target = folder / (source.stem + sysconfig.get_config_var("EXT_SUFFIX"))
    command = [*COMPILER, "-shared", "-fPIC", "-O2", *flags, *shlex.split(config("--cflags"))]
    done = subprocess.run([*command, source, "-o", target], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return target


def load(path):
    spec = importlib.util.spec_from_file_location(path.name.split(".")[0], path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def outside_path(tmp_path_factory):
    strict = ["-std=c11", "-D_DEFAULT_SOURCE", "-Wall", "-Wextra", "-Wconversion", "-Werror"]
    return build(tmp_path_factory.mktemp("outside"), SOURCES / "outside.c", *strict)


@pytest.fixture(scope="module")
def outside(outside_path):
    return load(outside_path)


@pytest.fixture(scope="module")
def cythonic(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cythonic")
    target, source = folder / "cythonic.c", SOURCES / "cythonic.pyx"
    command = [sys.executable, "-m", "cython", "-3", "-o", target, source]
    where = {**os.environ, "PYTHONPATH": str(Path(fjpool.__file__).parents[1])}
    done = subprocess.run(
        [*command, "-I", Path(fjpool.__file__).parents[1]],
        capture_output=True, text=True, timeout=120, cwd=folder, env=where,
    )
    assert done.returncode == 0, done.stderr
    return load(build(folder, target))


def test_include_folder_is_the_same_by_function_and_command():
    assert config("--include") == fjpool.get_include()
    assert (Path(fjpool.get_include()) / "fjpool.h").is_file()


@pytest.mark.parametrize("header", ["fjpool.h", "fjpool_serial.h"])
@pytest.mark.parametrize("language", ["c", "c++"])
def test_header_compiles_by_itself(tmp_path, language, header):
    """Without Python.h, in either language, with all warnings."""
    source = tmp_path / ("use.c" if language == "c" else "use.cpp")
    source.write_text(
        f"#include <{header}>\n"
        "FJ_TASK(int, twice, int) { (void)worker; return 2 * args; }\n"
        "int use(fj_worker_t *w);\n"
        "int use(fj_worker_t *w) { twice_fork(w, 1); return twice_join(w); }\n"
    )
    strict = ["-Wall", "-Wextra", "-Wconversion", "-Werror", "-c", "-o", tmp_path / "use.o"]
    command = [*COMPILER, "-x", language, *strict, "-I", fjpool.get_include(), source]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_serial_fallback_gives_the_same(tmp_path):
    """The same source without fjpool: the same results and codes, in the caller."""
    text = (SOURCES / "outside.c").read_text()
    assert text.count("#include <fjpool.h>") == 1
    source = tmp_path / "serial.c"
    source.write_text(
        text.replace("#include <fjpool.h>", "#include <fjpool_serial.h>")
        .replace("PyInit_outside", "PyInit_serial")
        .replace("#define INLINE_ONLY 0", "#define INLINE_ONLY 1")
    )
    serial = load(build(tmp_path, source, "-std=c11", "-D_DEFAULT_SOURCE"))
    assert serial.fib(None, 20) == 6765
    assert [serial.loop(None, 1000, chunk) for chunk in (0, 1, 7)] == [(499500, True)] * 3
    assert serial.call(None, list) is None
    with pytest.raises(RuntimeError, match="native leaf returned 42"):
        serial.loop(None, 1000, 1, 500, 42)
    with pytest.raises(RuntimeError, match="native leaf returned 7"):
        serial.fail(None)


@pytest.mark.parametrize("inlined", [True, False])
def test_frames_on_any_pool(pool, outside, inlined):
    """Forks and joins, inline and through their plain twins."""
    for _ in range(3):
        assert outside.fib(pool, 27, inlined) == FIB_27


def test_frames_where_the_caller_stands(outside, pool2):
    """None: the calling worker's pool, else the ambient one, else the common pool."""
    assert outside.fib(None, 20) == 6765
    assert pool2.submit(outside.fib, None, 20).result(WAIT) == 6765
    with fjpool.use(pool2):
        before = pool2.steal_count
        assert outside.fib(None, 20) == 6765
        assert pool2.steal_count > before


def test_frames_from_another_pools_worker(outside, pool1, make_pool):
    """A worker that waits for a body in another pool blocks only itself."""
    other = make_pool(1)
    assert pool1.submit(outside.fib, other, 20).result(WAIT) == 6765


@pytest.mark.parametrize("chunk", [0, 1, 7, 10**6])
@pytest.mark.parametrize("n", [0, 1, 1000, 100_000])
def test_loop_visits_each_position_once(pool, outside, n, chunk):
    """And adds up, with chunks given and with automatic ones."""
    assert outside.loop(pool, n, chunk) == (n * (n - 1) // 2 if n else -1, True)


def test_loop_in_the_common_pool_and_inside_a_task(outside, pool2):
    """A caller outside takes part in the common pool's; a task's loop runs around it."""
    assert outside.loop(None, 1000, 3) == (499500, True)
    assert pool2.submit(outside.loop, pool2, 1000, 0).result(WAIT) == (499500, True)


@pytest.mark.parametrize("chunk", [0, 1])
def test_leafs_code_ends_the_loop_and_is_raised(pool, outside, chunk):
    """Whatever else was going on; the pool is as usable as before."""
    with pytest.raises(fjpool.LeafError, match="native leaf returned 42") as caught:
        outside.loop(pool, 1000, chunk, 500, 42)
    assert (caught.value.code, caught.value.lo) == (42, None)
    assert outside.loop(pool, 10, chunk) == (45, True)


def test_failure_in_a_frame_cancels_the_rest(pool, outside):
    """fj_fail and fj_cancelled: a tree of 2**40 calls ends at once."""
    with pytest.raises(fjpool.LeafError, match="returned 7"):
        outside.fail(pool)


def test_body_may_take_the_gil(pool2, outside):
    """And call Python, which knows its worker, forks tasks and joins them."""
    called = []

    def body():
        called.append(threading.get_ident())
        assert fjpool.current_pool() is pool2
        assert pool2.submit(abs, -3).result(WAIT) == 3

    for _ in range(20):
        outside.call(pool2, body)
        assert pool2.submit(outside.call, pool2, body).result(WAIT) is None
        assert pool2.submit(threading.get_ident).result(WAIT) != threading.get_ident()
    assert len(called) == 40 and threading.get_ident() not in called


def test_body_that_blocks_lets_others_run(pool1, outside):
    """Between begin and end somebody stands in for it, on one worker too."""
    reading, writing = os.pipe()
    try:
        waiting = threading.Thread(target=outside.block, args=(pool1, reading))
        waiting.start()
        eventually(lambda: pool1._blocked == 1)
        pool1.submit(os.write, writing, b"\0").result(WAIT)
        waiting.join(WAIT)
        assert not waiting.is_alive()
    finally:
        os.close(reading)
        os.close(writing)


@pytest.mark.parametrize("where", ["fjpool.ForkJoinPool(2)", "fjpool.common_pool()"])
def test_ctrl_c_ends_a_loop(outside_path, where):
    """KeyboardInterrupt once, the rest of the loop is skipped, the pool goes on."""
    printed = output(
        f"""
        import array, importlib.util, signal
        spec = importlib.util.spec_from_file_location("outside", sys.argv[1])
        outside = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(outside)
        started, pool = array.array("i", [0]), {where}
        def interrupt():
            while not started[0]:
                pass
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt).start()
        try:
            outside.spin(pool, started)
        except KeyboardInterrupt:
            print("interrupted", pool.submit(abs, -1).result(WAIT))
        """,
        str(outside_path),
    )
    assert printed == "interrupted 1\n"


def test_wrong_and_unusable_pools_are_refused(outside, make_pool):
    """One clear error, before anything runs."""
    with pytest.raises(TypeError, match="expected a ForkJoinPool or None, not int"):
        outside.fib(3, 10)
    pool = make_pool(1)
    pool.shutdown()
    with pytest.raises(fjpool.RejectedExecutionError):
        outside.fib(pool, 10)


@pytest.mark.parametrize("member, value", [("abi", 2), ("size", 8)])
def test_other_versions_are_refused(tmp_path, member, value):
    """An importer refuses another layout, and a library that offers less than it knows of."""
    source = tmp_path / "older.c"
    source.write_text(
        "#include <Python.h>\n#include <fjpool.h>\n"
        "static fj_api_t other;\n"
        "int check(void);\n"
        "int check(void)\n{\n"
        "    PyObject *core = PyImport_ImportModule(\"fjpool._core\");\n"
        "    PyObject *kept = PyObject_GetAttrString(core, \"api\");\n"
        "    memcpy(&other, PyCapsule_GetPointer(kept, \"fjpool._core.api\"), sizeof other);\n"
        f"    other.{member} = {value};\n"
        "    PyObject *capsule = PyCapsule_New(&other, \"fjpool._core.api\", NULL);\n"
        "    PyObject_SetAttrString(core, \"api\", capsule);\n"
        "    int result = import_fjpool();\n"
        "    PyObject_SetAttrString(core, \"api\", kept);\n"
        "    return result;\n}\n"
    )
    library = ctypes.PyDLL(str(build(tmp_path, source)))
    with pytest.raises(ImportError, match="compiled for another fjpool"):
        library.check()


@pytest.mark.parametrize("chunk", [0, 3])
def test_cython_loop(pool, cythonic, chunk):
    numbers = array.array("d", range(1000))
    assert cythonic.sum_of_squares(numbers, pool, chunk) == sum(i * i for i in range(1000))
    assert cythonic.sum_of_squares(numbers) == sum(i * i for i in range(1000))


def test_cython_leaf_may_take_the_gil(pool2, cythonic):
    """`with gil` in a leaf; its code is raised."""
    assert cythonic.notes(pool2, 3) == [(0, 1), (1, 2), (2, 3)]
    with pytest.raises(fjpool.LeafError, match="returned 5"):
        cythonic.notes(pool2, 10)
