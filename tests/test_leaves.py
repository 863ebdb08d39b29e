"""Native leaves: C functions in every form that Python knows, run without the GIL."""

import array
import ctypes
import functools
import importlib.util
import math
import operator
import os
import pickle
import shlex
import shutil
import subprocess
import sys
import textwrap
import threading

import pytest

import fjpool
from support import WAIT, Boom, output

COMPILER = (
    shlex.split(os.environ.get("CC", "")) or list(filter(shutil.which, ("cc", "gcc", "clang")))[:1]
)

SOURCE = """\
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

static _Atomic(int64_t) counted, started, finished, opened;

double leaf_double(int64_t lo, int64_t hi)
{
    double sum = 0.0;
    for (int64_t i = lo; i < hi; i++) sum += (double)i;
    return sum;
}

int64_t leaf_int64(int64_t lo, int64_t hi)
{
    int64_t sum = 0;
    for (int64_t i = lo; i < hi; i++) sum += i;
    return sum;
}

void leaf_void(int64_t lo, int64_t hi)
{
    atomic_fetch_add(&counted, hi - lo);
}

double leaf_double_data(int64_t lo, int64_t hi, void *data)
{
    double sum = 0.0;
    for (int64_t i = lo; i < hi; i++) sum += ((double *)data)[i];
    return sum;
}

int64_t leaf_int64_data(int64_t lo, int64_t hi, void *data)
{
    int64_t sum = 0;
    for (int64_t i = lo; i < hi; i++) sum += ((int64_t *)data)[i];
    return sum;
}

void leaf_void_data(int64_t lo, int64_t hi, void *data)
{
    for (int64_t i = lo; i < hi; i++) ((int64_t *)data)[i] += i;
}

/* Fails with data[1] at position data[0]. */
int leaf_code_data(int64_t lo, int64_t hi, void *data)
{
    int64_t *where = data;
    atomic_fetch_add(&counted, hi - lo);
    return lo <= where[0] && where[0] < hi ? (int)where[1] : 0;
}

/* The value at one position of data. */
double pick_double(int64_t lo, int64_t hi, void *data) { return ((double *)data)[lo + 0 * hi]; }
int64_t pick_int64(int64_t lo, int64_t hi, void *data) { return ((int64_t *)data)[lo + 0 * hi]; }

static void pause_a_little(void)
{
    struct timespec little = {0, 200000};
    nanosleep(&little, NULL);
}

/* Waits for the gate, at most so many seconds; then writes down its positions. */
void leaf_gate(int64_t lo, int64_t hi, void *data)
{
    atomic_fetch_add(&started, 1);
    for (int i = 0; i < 100000 && !atomic_load(&opened); i++) pause_a_little();
    for (int64_t i = lo; i < hi; i++) ((int64_t *)data)[i] = i;
    atomic_fetch_add(&finished, 1);
}

int64_t count(void) { return atomic_exchange(&counted, 0); }

int64_t wait_for_started(int64_t n)
{
    for (int i = 0; i < 100000 && atomic_load(&started) < n; i++) pause_a_little();
    return atomic_load(&started);
}

int64_t open_gate(void) { return atomic_exchange(&opened, 1); }

/* Opens the gate and waits until so many leaves have finished. */
int64_t open_and_wait(int64_t n)
{
    atomic_store(&opened, 1);
    for (int i = 0; i < 50000 && atomic_load(&finished) < n; i++) pause_a_little();
    return atomic_load(&finished);
}
"""

# name: result, whether data follows, what it gives for [0, 100) of DATA
SIGNATURES = {
    "double": ("double", False),
    "int64": ("int64_t", False),
    "void": ("void", False),
    "double_data": ("double", True),
    "int64_data": ("int64_t", True),
    "void_data": ("void", True),
    "code_data": ("int", True),
}


def declaration(name, integer="int64_t"):
    """result, arguments in C."""
    result, with_data = SIGNATURES[name]
    return result, [integer, integer, *(["void *"] if with_data else [])]


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    """The path of a shared library with a leaf of each signature."""
    return build_library(tmp_path_factory.mktemp("leaves"))


def build_library(folder):
    if not COMPILER:
        pytest.skip("there is no C compiler")
    source, path = folder / "leaves.c", folder / "leaves.so"
    source.write_text(SOURCE)
    command = [*COMPILER, "-std=gnu11", "-O1", "-shared", "-fPIC", "-o", path, source]
    subprocess.run(command, check=True, capture_output=True, timeout=4 * WAIT)
    return str(path)


# --- the forms -----------------------------------------------------------------------------------

C_TYPES = {
    "double": ctypes.c_double,
    "int64_t": ctypes.c_int64,
    "void": None,
    "int": ctypes.c_int,
    "void *": ctypes.c_void_p,
}


@functools.lru_cache(maxsize=None)
def c_function(path, name, **_):
    """A ctypes function; its library stays open."""
    result, arguments = declaration(name)
    function = ctypes.CDLL(path)[f"leaf_{name}"]
    function.restype, function.argtypes = C_TYPES[result], [C_TYPES[a] for a in arguments]
    return function


def address_of(path, name):
    return ctypes.cast(c_function(path, name), ctypes.c_void_p).value


def from_prototype(path, name):
    """What ctypes makes of an address."""
    result, arguments = declaration(name)
    kind = ctypes.CFUNCTYPE(C_TYPES[result], *(C_TYPES[a] for a in arguments))
    return kind(address_of(path, name))


names_of_capsules = []  # a capsule does not copy its name


def capsule(address, text, context=None):
    """A PyCapsule with that name."""
    new = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    if text is not None:
        names_of_capsules.append(ctypes.create_string_buffer(text.encode()))
    made = new(address, ctypes.cast(names_of_capsules[-1], ctypes.c_char_p) if text else None, None)
    if context is not None:
        set_context = ctypes.pythonapi.PyCapsule_SetContext
        set_context.argtypes = [ctypes.py_object, ctypes.c_void_p]
        assert set_context(made, context) == 0
    return made


def spell(name, integer="int64_t"):
    result, arguments = declaration(name, integer)
    return f"{result} ({', '.join(arguments)})"


def from_capsule(path, name):
    return capsule(address_of(path, name), spell(name))


def from_cffi_abi(path, name):
    """A function of a library that cffi opened without a compiler."""
    ffi, lib = cffi_library(path)
    return getattr(lib, f"leaf_{name}")


@functools.lru_cache(maxsize=None)
def cffi_library(path):
    cffi = pytest.importorskip("cffi")
    ffi = cffi.FFI()
    for name in SIGNATURES:
        result, arguments = declaration(name)
        ffi.cdef(f"{result} leaf_{name}({', '.join(arguments)});")
    return ffi, ffi.dlopen(path)


def from_cffi_cast(path, name):
    """A pointer that cffi was told the type of."""
    cffi = pytest.importorskip("cffi")
    result, arguments = declaration(name)
    return cffi.FFI().cast(f"{result} (*)({', '.join(arguments)})", address_of(path, name))


@functools.lru_cache(maxsize=None)
def cffi_module(folder):
    """A compiled cffi module with the same functions."""
    cffi = pytest.importorskip("cffi")
    ffi = cffi.FFI()
    for name in SIGNATURES:
        result, arguments = declaration(name)
        ffi.cdef(f"{result} leaf_{name}({', '.join(arguments)});")
    ffi.cdef("int64_t count(void);")
    ffi.set_source("_fjpool_leaves_cffi", SOURCE)
    return load("_fjpool_leaves_cffi", ffi.compile(tmpdir=folder))


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def from_cffi_api(path, name):
    """addressof() of a function of a compiled module."""
    module = cffi_module(os.path.dirname(path))
    return module.ffi.addressof(module.lib, f"leaf_{name}")


CYTHON = """\
# cython: language_level=3
from libc.stdint cimport int64_t

cdef api double leaf_double(int64_t lo, int64_t hi) noexcept nogil:
    cdef int64_t i
    cdef double total = 0
    for i in range(lo, hi):
        total += i
    return total

cdef api int64_t leaf_int64(int64_t lo, int64_t hi) noexcept nogil:
    cdef int64_t i, total = 0
    for i in range(lo, hi):
        total += i
    return total

cdef api void leaf_void(int64_t lo, int64_t hi) noexcept nogil:
    pass

cdef api double leaf_double_data(int64_t lo, int64_t hi, void *data) noexcept nogil:
    cdef int64_t i
    cdef double total = 0
    for i in range(lo, hi):
        total += (<double *>data)[i]
    return total

cdef api int64_t leaf_int64_data(int64_t lo, int64_t hi, void *data) noexcept nogil:
    cdef int64_t i, total = 0
    for i in range(lo, hi):
        total += (<int64_t *>data)[i]
    return total

cdef api void leaf_void_data(int64_t lo, int64_t hi, void *data) noexcept nogil:
    cdef int64_t i
    for i in range(lo, hi):
        (<int64_t *>data)[i] += i

cdef api int leaf_code_data(int64_t lo, int64_t hi, void *data) noexcept nogil:
    cdef int64_t *where = <int64_t *>data
    return <int>where[1] if lo <= where[0] < hi else 0

cdef api long long leaf_long_long(long long lo, long long hi) noexcept nogil:
    return hi - lo

cdef api Py_ssize_t leaf_ssize(Py_ssize_t lo, Py_ssize_t hi) noexcept nogil:
    return hi - lo

cdef api long leaf_long(long lo, long hi) noexcept nogil:
    return hi - lo

cdef api int64_t leaf_const(const int64_t lo, const int64_t hi) noexcept nogil:
    return hi - lo
"""


@functools.lru_cache(maxsize=None)
def cython_capsules(folder):
    """What a Cython module exports, by name."""
    build = pytest.importorskip("Cython.Build")
    setuptools = pytest.importorskip("setuptools")
    name = "_fjpool_leaves_cython"
    source = os.path.join(folder, f"{name}.pyx")
    with open(source, "w") as file:
        file.write(CYTHON)
    extensions = build.cythonize([setuptools.Extension(name, [source])], quiet=True, build_dir=folder)
    command = setuptools.Distribution({"ext_modules": extensions}).get_command_obj("build_ext")
    command.build_lib = command.build_temp = folder
    command.ensure_finalized()
    command.run()
    return load(name, command.get_ext_fullpath(name)).__pyx_capi__


def from_cython(path, name):
    """A capsule out of __pyx_capi__."""
    return cython_capsules(os.path.dirname(path))[f"leaf_{name}"]


@functools.lru_cache(maxsize=None)
def numba_leaves():
    numba = pytest.importorskip("numba")
    numpy = pytest.importorskip("numpy")
    types = numba.types
    plain = (types.int64, types.int64)
    with_data = (*plain, types.voidptr)

    def total(lo, hi):
        result = 0
        for i in range(lo, hi):
            result += i
        return result

    def nothing(lo, hi):
        pass

    def total_double(lo, hi, data):
        x = numba.carray(data, (hi,), numpy.float64)
        result = 0.0
        for i in range(lo, hi):
            result += x[i]
        return result

    def total_int64(lo, hi, data):
        x = numba.carray(data, (hi,), numpy.int64)
        result = 0
        for i in range(lo, hi):
            result += x[i]
        return result

    def add(lo, hi, data):
        x = numba.carray(data, (hi,), numpy.int64)
        for i in range(lo, hi):
            x[i] += i

    def fail(lo, hi, data):
        where = numba.carray(data, (2,), numpy.int64)
        return numpy.int32(where[1]) if lo <= where[0] < hi else numpy.int32(0)

    return {
        "double": numba.cfunc(types.float64(*plain))(total),
        "int64": numba.cfunc(types.int64(*plain))(total),
        "void": numba.cfunc(types.void(*plain))(nothing),
        "double_data": numba.cfunc(types.float64(*with_data))(total_double),
        "int64_data": numba.cfunc(types.int64(*with_data))(total_int64),
        "void_data": numba.cfunc(types.void(*with_data))(add),
        "code_data": numba.cfunc(types.int32(*with_data))(fail),
    }


def from_numba(path, name):
    """A @cfunc."""
    return numba_leaves()[name]


def from_scipy(path, name, make=c_function):
    """A LowLevelCallable around one of the other forms."""
    scipy = pytest.importorskip("scipy")
    return scipy.LowLevelCallable(make(path, name))


FORMS = {
    "ctypes": c_function,
    "ctypes-prototype": from_prototype,
    "cffi-abi": from_cffi_abi,
    "cffi-cast": from_cffi_cast,
    "cffi-api": from_cffi_api,
    "capsule": from_capsule,
    "cython": from_cython,
    "numba": from_numba,
    "scipy-ctypes": from_scipy,
    "scipy-cffi": lambda path, name: from_scipy(path, name, from_cffi_abi),
    "scipy-capsule": lambda path, name: from_scipy(path, name, from_capsule),
}


def numbers(kind, n=100):
    """Of type double or int64: 0, 2, 4..."""
    return array.array("d" if kind.startswith("double") else "q", range(0, 2 * n, 2))


@pytest.mark.parametrize("name", SIGNATURES)
@pytest.mark.parametrize("form", FORMS)
def test_leaf_of_every_form_and_signature_runs(pool2, library, form, name):
    """Whatever made the C function: it is called for pieces that make up the range."""
    leaf = FORMS[form](library, name)
    for chunksize in (1, 7, None, 10**6):
        if name == "code_data":
            where = array.array("q", [-1, 7])
            assert pool2.parallel_for(leaf, 100, chunksize=chunksize, data=where) is None
            where[0] = 42
            with pytest.raises(fjpool.LeafError) as caught:
                pool2.parallel_for(leaf, 100, chunksize=chunksize, data=where)
            assert caught.value.code == 7 and caught.value.lo <= 42 < caught.value.hi
        elif name.startswith("void"):
            data = numbers("int64") if name == "void_data" else None
            assert pool2.parallel_for(leaf, 100, chunksize=chunksize, data=data) is None
            assert data is None or list(data) == [3 * i for i in range(100)]
        else:
            data = numbers(name) if name.endswith("data") else None
            total = pool2.parallel_reduce(leaf, 100, chunksize=chunksize, data=data)
            assert total == (9900 if data else 4950)
            assert type(total) is (float if name.startswith("double") else int)
            assert pool2.parallel_for(leaf, 100, chunksize=chunksize, data=data) is None


@pytest.mark.parametrize(
    "integer",
    [
        "int64_t",
        "long",
        "long long",
        "Py_ssize_t",
        "npy_intp",
        "ssize_t",
        "long int",
        "long long int",
        "signed long",
        "ptrdiff_t",
        "intptr_t",
        "npy_int64",
        "npy_longlong",
        "npy_long",
        "PY_LONG_LONG",
        "int64",
    ],
)
@pytest.mark.parametrize("name", ["double", "int64", "void", "code_data"])
def test_capsule_integers_may_be_spelled_in_many_ways(pool1, library, name, integer):
    """All C spellings of a 64-bit integer are one signature; so Cython's own."""
    text = spell(name, integer).replace("int64_t (", f"{integer} (")
    leaf = capsule(address_of(library, name), text)
    pool1.parallel_for(leaf, 10, data=array.array("q", [-1, 0]) if name == "code_data" else None)


@pytest.mark.parametrize(
    "text",
    [
        "double(int64_t,int64_t)",
        "double (int64_t, int64_t)",
        " double  ( int64_t ,  int64_t ) ",
        "double (const int64_t, int64_t const)",
        "float64 (int64, int64)",
        "npy_double (npy_intp, npy_intp)",
    ],
)
def test_capsule_names_may_be_written_in_many_ways(pool1, library, text):
    """Blanks and const change nothing."""
    assert pool1.parallel_reduce(capsule(address_of(library, "double"), text), 100) == 4950.0


@pytest.mark.parametrize(
    "text",
    [
        "double (int64_t, int64_t, void*)",
        "double (int64_t, int64_t, void * )",
        "double (int64_t, int64_t, const void *)",
    ],
)
def test_capsule_pointers_may_be_written_in_many_ways(pool1, library, text):
    """The star may stand anywhere."""
    leaf = capsule(address_of(library, "double_data"), text)
    assert pool1.parallel_reduce(leaf, 100, data=numbers("double")) == 9900.0


@pytest.mark.parametrize("name", ["long_long", "ssize", "long", "const"])
def test_cython_leaves_may_use_any_64_bit_integer(pool1, library, name):
    """Whatever Cython calls the type in the capsule's name."""
    assert pool1.parallel_reduce(from_cython(library, name), 100, chunksize=7) == 100


@pytest.mark.parametrize("integer", ["int64_t", "long", "long long", "ssize_t", "ptrdiff_t", "intptr_t"])
def test_cffi_integers_may_be_spelled_in_many_ways(pool1, library, integer):
    """As cffi was told."""
    cffi = pytest.importorskip("cffi")
    leaf = cffi.FFI().cast(f"double (*)({integer}, {integer})", address_of(library, "double"))
    assert pool1.parallel_reduce(leaf, 100, chunksize=7) == 4950.0


@pytest.mark.parametrize("integer", ["c_int64", "c_long", "c_longlong", "c_ssize_t"])
def test_ctypes_integers_may_be_spelled_in_many_ways(pool1, library, integer):
    """As ctypes was told."""
    integer = getattr(ctypes, integer)
    leaf = ctypes.CFUNCTYPE(integer, integer, integer)(address_of(library, "int64"))
    assert pool1.parallel_reduce(leaf, 100, chunksize=7) == 4950


def test_cffi_functions_of_a_compiled_module_run_as_they_are(pool2, library):
    """lib.f without addressof() is a Python callable, and as such a leaf too."""
    lib = cffi_module(os.path.dirname(library)).lib
    assert pool2.parallel_reduce(lib.leaf_double, 100, chunksize=7) == 4950.0
    lib.count()
    pool2.parallel_for(lib.leaf_void, 100, chunksize=7)
    assert lib.count() == 100


def test_callbacks_into_python_run_from_a_native_leaf(pool2):
    """A C function that calls back into Python finds, or makes, a thread state."""
    kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64, ctypes.c_int64)
    threads = set()

    def body(lo, hi):
        threads.add(threading.get_ident())
        return float(hi - lo)

    assert pool2.parallel_reduce(kind(body), 200, chunksize=1) == 200.0
    assert threading.get_ident() not in threads
    assert pool2.submit(pow, 2, 3).result(WAIT) == 8


@pytest.mark.parametrize(
    "callback",
    [
        ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64),
        lambda body: pytest.importorskip("cffi").FFI().callback("void(int64_t, int64_t)", body),
    ],
    ids=["ctypes", "cffi"],
)
def test_callbacks_into_python_keep_their_thread_locals(make_pool, callback):
    """One thread state a worker, which it keeps from one callback to the next."""
    local, firsts = threading.local(), []

    def body(lo, hi):
        if not hasattr(local, "seen"):
            local.seen = True
            firsts.append(threading.get_native_id())

    pool = make_pool(2)
    for _ in range(3):
        pool.parallel_for(callback(body), 200, chunksize=1)
    assert len(firsts) == len(set(firsts)) <= 2


def test_scipy_user_data_is_what_the_leaf_is_given(pool2, library):
    """Where there is no data=; data= comes first."""
    scipy = pytest.importorskip("scipy")
    mine, other = numbers("double"), array.array("d", [1.0] * 100)
    pointer = ctypes.c_void_p(mine.buffer_info()[0])
    leaf = scipy.LowLevelCallable(c_function(library, "double_data"), pointer)
    assert pool2.parallel_reduce(leaf, 100, chunksize=7) == 9900.0
    assert pool2.parallel_reduce(leaf, 100, chunksize=7, data=other) == 100.0


def test_capsule_context_is_what_the_leaf_is_given(pool2, library):
    """The same for a bare capsule."""
    mine = numbers("double")
    leaf = capsule(address_of(library, "double_data"), spell("double_data"), mine.buffer_info()[0])
    assert pool2.parallel_reduce(leaf, 100, chunksize=7) == 9900.0


def test_numba_njit_takes_args_and_passes_failures_on(pool2):
    """@njit(nogil=True) is an ordinary callable: arrays as args=, and exceptions reach the caller."""
    numba = pytest.importorskip("numba")
    numpy = pytest.importorskip("numpy")

    @numba.njit(nogil=True)
    def leaf(lo, hi, x, bad):
        total = 0.0
        for i in range(lo, hi):
            if i == bad:
                raise ValueError("bad position")
            total += x[i]
        return total

    x = numpy.arange(1_000.0)
    assert pool2.parallel_reduce(leaf, len(x), args=(x, -1), chunksize=10) == 499_500.0
    with pytest.raises(ValueError, match="bad position"):
        pool2.parallel_for(leaf, len(x), args=(x, 500), chunksize=10)


# --- data ----------------------------------------------------------------------------------------


def buffers():
    numpy = pytest.importorskip("numpy")
    plain = array.array("q", range(100))
    return {
        "array": plain,
        "bytearray": bytearray(plain.tobytes()),
        "memoryview": memoryview(bytearray(plain.tobytes())),
        "cast": memoryview(bytearray(plain.tobytes())).cast("q"),
        "ctypes": (ctypes.c_int64 * 100)(*range(100)),
        "numpy": numpy.arange(100, dtype=numpy.int64),
        "slice": numpy.arange(200, dtype=numpy.int64)[:100],
        "matrix": numpy.arange(100, dtype=numpy.int64).reshape(10, 10),
    }


@pytest.mark.parametrize(
    "kind", ["array", "bytearray", "memoryview", "cast", "ctypes", "numpy", "slice", "matrix"]
)
def test_data_may_be_any_buffer(pool2, library, kind):
    """The leaf reads and writes the object's own memory."""
    data = buffers()[kind]
    assert pool2.parallel_reduce(c_function(library, "int64_data"), 100, chunksize=7, data=data) == 4950
    pool2.parallel_for(c_function(library, "void_data"), 100, chunksize=7, data=data)
    after = array.array("q")
    after.frombytes(bytes(data) if kind == "bytearray" else memoryview(data).tobytes())
    assert list(after) == [2 * i for i in range(100)]


def test_data_may_be_read_only(pool2, library):
    """bytes, for a leaf that only reads."""
    data = numbers("double").tobytes()
    assert pool2.parallel_reduce(c_function(library, "double_data"), 100, data=data) == 9900.0


def test_data_may_be_left_out(pool1, library):
    """Then the leaf gets a null pointer."""
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
    seen = []
    pool1.parallel_for(kind(lambda lo, hi, data: seen.append(data) or 0), 3)
    assert set(seen) == {None}


@pytest.mark.parametrize("wrong", [[1.0], 5, "text", object()], ids=repr)
def test_data_that_is_no_buffer_is_refused(pool1, library, wrong):
    """A TypeError before anything runs."""
    with pytest.raises(TypeError, match=f"data must be a buffer, not {type(wrong).__name__}"):
        pool1.parallel_reduce(c_function(library, "double_data"), 100, data=wrong)
    assert pool1.pool_size == 0


def test_data_with_gaps_is_refused(pool1, library):
    """A leaf would read what lies between the elements."""
    numpy = pytest.importorskip("numpy")
    with pytest.raises((ValueError, BufferError), match="contiguous"):
        pool1.parallel_reduce(c_function(library, "double_data"), 50, data=numpy.arange(100.0)[::2])
    assert pool1.pool_size == 0


def test_data_is_given_back_when_the_call_has_ended(pool2, library):
    """After success, after a failure and after a refusal the buffer can be resized again."""
    data = bytearray(numbers("double").tobytes())
    pool2.parallel_reduce(c_function(library, "double_data"), 100, chunksize=3, data=data)
    data.append(0)
    where = bytearray(array.array("q", [50, 3]).tobytes())
    with pytest.raises(fjpool.LeafError):
        pool2.parallel_for(c_function(library, "code_data"), 100, chunksize=3, data=where)
    where.append(0)
    pool2.shutdown()
    with pytest.raises(fjpool.RejectedExecutionError):
        pool2.parallel_reduce(c_function(library, "double_data"), 100, data=data)
    data.append(0)


def test_data_is_kept_for_leaves_that_run_on_after_ctrl_c(library):
    """The caller is gone, a leaf still writes: its memory stays until the leaf has ended, then goes."""
    printed = output(
        """
        import array, ctypes, gc, signal, sys, weakref
        lib = ctypes.CDLL(sys.argv[1])
        leaf = lib.leaf_gate
        leaf.restype, leaf.argtypes = None, [ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
        class Array(array.array):
            pass
        pool = fjpool.ForkJoinPool(2)
        data = Array("q", bytes(8 * 100_000))
        gone = weakref.ref(data)
        def interrupt():
            lib.wait_for_started(2)
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt).start()
        try:
            pool.parallel_for(leaf, 100_000, chunksize=50_000, data=data)
        except KeyboardInterrupt:
            print("interrupted")
        del data
        gc.collect()
        print(gone() is None)
        print(list(gone()[:3]) if gone() else None)
        lib.open_gate()
        print(pool.await_quiescence(WAIT))
        eventually(lambda: gc.collect() is None or gone() is None)
        """,
        library,
    )
    assert printed == "interrupted\nFalse\n[0, 0, 0]\nTrue\n"


# --- errors before anything runs -----------------------------------------------------------------

EXPECTED = r"a native leaf must be double\(int64, int64\), int64\(int64, int64\) or void\(int64, int64\)"


@pytest.mark.parametrize(
    "text",
    [
        "float (int64_t, int64_t)",
        "double (int64_t)",
        "double ()",
        "double (int64_t, int64_t, int64_t)",
        "double (int, int)",
        "double (uint64_t, uint64_t)",
        "double (size_t, size_t)",
        "double (int64_t, double)",
        "double (int64_t *, int64_t)",
        "double (int64_t, int64_t, void *, void *)",
        "int (int64_t, int64_t)",
        "uint64_t (int64_t, int64_t)",
        "void * (int64_t, int64_t)",
        "bool (int64_t, int64_t, void *)",
    ],
)
def test_wrong_signature_is_refused(pool1, library, text):
    """A TypeError says which signatures there are and what this one is."""
    for method in (pool1.parallel_for, pool1.parallel_reduce):
        with pytest.raises(TypeError, match=f"{EXPECTED}.*, not "):
            method(capsule(address_of(library, "double"), text), 3)
    assert pool1.pool_size == 0


@pytest.mark.parametrize("text", [None, "", "leaf", "double", "module.attribute", "(int64_t, int64_t)"])
def test_capsule_without_a_signature_is_refused(pool1, library, text):
    """Its name must be the signature."""
    with pytest.raises(TypeError, match="capsule must be named by its signature"):
        pool1.parallel_for(capsule(address_of(library, "double"), text), 3)
    assert pool1.pool_size == 0


@pytest.mark.parametrize("argument", [ctypes.c_int, ctypes.c_uint64, ctypes.c_double, ctypes.py_object])
def test_wrong_signature_of_a_ctypes_function_is_refused(pool1, library, argument):
    """The same for ctypes."""
    leaf = ctypes.CFUNCTYPE(ctypes.c_double, argument, argument)(address_of(library, "double"))
    with pytest.raises(TypeError, match=EXPECTED):
        pool1.parallel_for(leaf, 3)


def test_wrong_signature_of_a_cffi_function_is_refused(pool1, library):
    """The same for cffi; and a pointer to something else is no function at all."""
    cffi = pytest.importorskip("cffi")
    ffi = cffi.FFI()
    for kind in (
        "double (*)(int, int)",
        "float (*)(int64_t, int64_t)",
        "int64_t *",
        "char[3]",
        "double",
    ):
        with pytest.raises(TypeError, match=EXPECTED):
            pool1.parallel_for(ffi.new(kind) if "[" in kind else ffi.cast(kind, 16), 3)


def test_wrong_signature_of_a_numba_function_is_refused(pool1):
    """The same for Numba."""
    numba = pytest.importorskip("numba")

    @numba.cfunc("float64(float64, float64)")
    def leaf(lo, hi):
        return hi - lo

    with pytest.raises(TypeError, match=f"{EXPECTED}.*, not double\\(double, double\\)"):
        pool1.parallel_for(leaf, 3)


def test_missing_argtypes_are_asked_for(pool1, library):
    """Without argtypes, or with ctypes' default result, a TypeError says what is needed."""
    leaf = ctypes.CDLL(library)["leaf_double"]
    with pytest.raises(TypeError, match="needs its argtypes and restype set"):
        pool1.parallel_for(leaf, 3)
    leaf.argtypes = [ctypes.c_int64, ctypes.c_int64]
    with pytest.raises(TypeError, match=f"{EXPECTED}.*, not int\\(int64, int64\\)"):
        pool1.parallel_for(leaf, 3)


def test_functions_that_need_the_gil_are_refused(pool1, library):
    """ctypes.PyDLL and PYFUNCTYPE say that a function must be called with the GIL held."""
    leaf = ctypes.PyDLL(library)["leaf_double"]
    leaf.restype, leaf.argtypes = ctypes.c_double, [ctypes.c_int64, ctypes.c_int64]
    kind = ctypes.PYFUNCTYPE(ctypes.c_double, ctypes.c_int64, ctypes.c_int64)
    for needy in (leaf, kind(address_of(library, "double"))):
        with pytest.raises(TypeError, match="PyDLL function needs the GIL"):
            pool1.parallel_for(needy, 3)


def test_null_pointers_are_refused(pool1):
    """Of ctypes and of cffi."""
    cffi = pytest.importorskip("cffi")
    kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64, ctypes.c_int64)
    for null in (kind(0), kind(), cffi.FFI().cast("double (*)(int64_t, int64_t)", 0)):
        with pytest.raises(ValueError, match="the native leaf is a null pointer"):
            pool1.parallel_for(null, 3)
    assert pool1.pool_size == 0


def test_pointers_to_no_code_are_refused(pool1):
    """The address of some data, and nonsense."""
    kind = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64, ctypes.c_int64)
    data = bytearray(64)
    where = ctypes.addressof((ctypes.c_char * 64).from_buffer(data))
    for address in (1, 0xDEAD, where):
        with pytest.raises(ValueError, match=f"points to {address:#x}, where no code is"):
            pool1.parallel_for(kind(address), 3)


@pytest.mark.parametrize("form", ["ctypes", "cffi"])
def test_functions_of_a_closed_library_are_refused(pool1, tmp_path, form):
    """The library has gone: a ValueError instead of a crash."""
    path = build_library(tmp_path)
    if form == "ctypes":
        library = ctypes.CDLL(path)
        leaf = library["leaf_double"]
        leaf.restype, leaf.argtypes = ctypes.c_double, [ctypes.c_int64, ctypes.c_int64]
    else:
        cffi = pytest.importorskip("cffi")
        ffi = cffi.FFI()
        ffi.cdef("double leaf_double(int64_t, int64_t);")
        library = ffi.dlopen(path)
        leaf = library.leaf_double
    assert pool1.parallel_reduce(leaf, 100, chunksize=7) == 4950.0
    if form == "ctypes":
        import _ctypes

        _ctypes.dlclose(library._handle)
    else:
        ffi.dlclose(library)
    with pytest.raises(ValueError, match="was its library closed"):
        pool1.parallel_reduce(leaf, 100)


@pytest.mark.parametrize("name", ["double", "int64", "void", "double_data", "code_data"])
def test_args_are_refused_for_native_leaves(pool1, library, name):
    """They are for Python leaves; the error names what takes their place."""
    with pytest.raises(TypeError, match="args= is for Python leaves.*data="):
        pool1.parallel_for(c_function(library, name), 3, args=(1,))
    assert pool1.pool_size == 0


@pytest.mark.parametrize("name", ["double", "int64", "void"])
def test_data_is_refused_where_the_leaf_takes_none(pool1, library, name):
    """The error shows the signature."""
    with pytest.raises(TypeError, match=rf"{name}\(int64, int64\) takes no data"):
        pool1.parallel_for(c_function(library, name), 3, data=bytes(8))
    assert pool1.pool_size == 0


@pytest.mark.parametrize("name", ["void", "void_data", "code_data"])
def test_parallel_reduce_needs_a_leaf_with_a_value(pool1, library, name):
    """A leaf without one is for parallel_for."""
    with pytest.raises(TypeError, match="parallel_reduce needs a leaf with a value.*use parallel_for"):
        pool1.parallel_reduce(c_function(library, name), 3)
    assert pool1.pool_size == 0


def test_bad_leaf_is_found_before_an_empty_range_is(pool1, library):
    """A wrong leaf is an error also where it would not be called."""
    wrong = capsule(address_of(library, "double"), "double (int, int)")
    with pytest.raises(TypeError, match=EXPECTED):
        pool1.parallel_for(wrong, 0)


# --- failing leaves ------------------------------------------------------------------------------


def test_leaf_error_tells_code_and_positions(pool, library):
    """It is a RuntimeError with code, lo and hi; other leaves are skipped and the pool works on."""
    leaf, count = c_function(library, "code_data"), ctypes.CDLL(library)["count"]
    count.restype = ctypes.c_int64
    for code in (1, -5, 2**31 - 1):
        count()
        with pytest.raises(fjpool.LeafError) as caught:
            pool.parallel_for(leaf, 1000, chunksize=1, data=array.array("q", [999, code]))
        error = caught.value
        assert (error.code, error.lo, error.hi) == (code, 999, 1000)
        assert isinstance(error, RuntimeError)
        assert str(error) == f"native leaf returned {code} for positions [999, 1000)"
        if pool.parallelism == 1:
            assert count() == 1  # the last piece comes first, and nothing after it
    assert pool.parallel_reduce(c_function(library, "double"), 100, chunksize=7) == 4950.0


def test_leaf_error_survives_pickling():
    """So that it can come out of a worker process."""
    error = pickle.loads(pickle.dumps(fjpool.LeafError(3, 10, 20)))
    assert (error.code, error.lo, error.hi) == (3, 10, 20)
    assert str(error) == "native leaf returned 3 for positions [10, 20)"


def test_leaf_error_of_many_is_the_first(pool2, library):
    """Every leaf fails: one error, its positions a piece of the range."""
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
    calls = []
    leaf = kind(lambda lo, hi, data: calls.append((lo, hi)) or 1 + lo)
    with pytest.raises(fjpool.LeafError) as caught:
        pool2.parallel_for(leaf, 1000, chunksize=10)
    assert (caught.value.lo, caught.value.hi) in calls and caught.value.code == 1 + caught.value.lo
    assert len(calls) <= 3


# --- combining -----------------------------------------------------------------------------------


def pick(path, kind):
    """A leaf whose value at position i is data[i]; for chunksize=1."""
    leaf = ctypes.CDLL(path)[f"pick_{kind}"]
    leaf.restype = C_TYPES["double" if kind == "double" else "int64_t"]
    leaf.argtypes = [ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
    return leaf


@pytest.mark.parametrize("combine", [operator.add, operator.mul, min, max], ids=lambda f: f.__name__)
def test_native_combine_overflow_is_an_error(pool2, library, combine):
    """int64 values that do not fit when combined raise OverflowError and say what to do; others are exact."""
    leaf = pick(library, "int64")

    def reduce(values, how=combine):
        data = array.array("q", values)
        return pool2.parallel_reduce(leaf, len(data), chunksize=1, combine=how, data=data)

    least, most = -(2**63), 2**63 - 1
    for values in ([most, 1], [least, -1], [2**62] * 2, [2**32] * 3, [-(2**32)] * 3, [least, 1], [3, 4]):
        exact = functools.reduce(combine, values)
        if least <= exact <= most:
            assert reduce(values) == exact
        else:
            with pytest.raises(OverflowError, match="does not fit into int64; combine in Python"):
                reduce(values)
            assert reduce(values, lambda a, b: combine(a, b)) == exact
    assert pool2.parallel_reduce(leaf, 1, data=array.array("q", [most]), initial=1) == 2**63


def test_native_combine_overflow_in_the_middle_is_an_error(pool2, library):
    """Though the whole sum would fit."""
    data = array.array("q", [2**63 - 1, 1, -5, 0])
    with pytest.raises(OverflowError):
        pool2.parallel_reduce(pick(library, "int64"), 4, chunksize=1, data=data)


SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.5, -2.5, 5e-324, 1.7976931348623157e308]


@pytest.mark.parametrize("combine", [operator.add, operator.mul, min, max], ids=lambda f: f.__name__)
def test_native_combine_equals_pythons_on_special_values(pool2, library, combine):
    """NaN, infinities and signed zeros come out as Python's operators leave them, bit by bit."""
    leaf = pick(library, "double")
    for first in SPECIAL:
        for second in SPECIAL:
            for values in ([first, second], [first, second, 1.0], [second, 0.0, first, -0.0]):
                data = array.array("d", values)
                native = pool2.parallel_reduce(leaf, len(data), chunksize=1, combine=combine, data=data)
                in_python = pool2.parallel_reduce(
                    lambda lo, hi, data: data[lo], len(data), chunksize=1, combine=combine, args=(data,)
                )
                assert repr(native) == repr(in_python)
    for first in SPECIAL:
        for second in SPECIAL:
            data = array.array("d", [first, second])
            native = pool2.parallel_reduce(leaf, 2, chunksize=1, combine=combine, data=data)
            assert repr(native) == repr(combine(first, second))


def test_native_combine_has_the_same_bits_for_every_worker_count(make_pool, library):
    """And the same as in Python over the same pieces."""
    leaf = c_function(library, "double_data")
    data = array.array("d", [math.sin(i) * 10.0 ** (i % 20) for i in range(5_000)])

    def in_python(lo, hi):
        total = 0.0
        for i in range(lo, hi):
            total += data[i]
        return total

    for chunksize in (1, 13, None):
        sums = {
            make_pool(p).parallel_reduce(leaf, len(data), chunksize=chunksize, data=data).hex()
            for p in (1, 2, 3, 5)
        }
        sums.add(make_pool(1).parallel_reduce(in_python, len(data), chunksize=chunksize).hex())
        assert len(sums) == 1


def test_combine_in_python_is_called_with_native_values(pool2, library):
    """Any callable: it sees floats or ints, in order, and its failure reaches the caller."""
    seen = set()

    def combine(left, right):
        seen.add((type(left), type(right)))
        return left + right

    assert (
        pool2.parallel_reduce(c_function(library, "double"), 100, chunksize=7, combine=combine) == 4950.0
    )
    assert seen == {(float, float)}
    assert pool2.parallel_reduce(c_function(library, "int64"), 100, chunksize=7, combine=max) > 0

    def fail(left, right):
        raise Boom

    with pytest.raises(Boom):
        pool2.parallel_reduce(c_function(library, "int64"), 100, chunksize=7, combine=fail)


def test_initial_value_is_combined_in_python(pool2, library):
    """So it may be of any type, and an empty range gives it back."""
    leaf = c_function(library, "int64")
    assert pool2.parallel_reduce(leaf, 100, initial=2**70) == 2**70 + 4950
    assert pool2.parallel_reduce(leaf, 0, initial=None) is None
    assert pool2.parallel_reduce(leaf, 100, initial=0.5) == 4950.5


# --- no thread state -----------------------------------------------------------------------------


def test_native_run_makes_no_thread_state(library):
    """Workers that have run native leaves only are threads that Python has never seen."""
    printed = output(
        """
        import ctypes, sys
        lib = ctypes.CDLL(sys.argv[1])
        leaf = lib.leaf_double
        leaf.restype, leaf.argtypes = ctypes.c_double, [ctypes.c_int64, ctypes.c_int64]
        pool = fjpool.ForkJoinPool(2)
        for _ in range(20):
            assert pool.parallel_reduce(leaf, 100_000, chunksize=10) == 4999950000.0
        print(pool.pool_size > 0, len(sys._current_frames()), threading.active_count())
        """,
        library,
    )
    assert printed == "True 1 1\n"


@pytest.mark.parametrize("where", ["private", "common"])
def test_native_run_goes_on_while_the_gil_is_held(library, where):
    """The main thread keeps the GIL, in C, until every leaf has finished: workers start, steal and end."""
    printed = output(
        """
        import array, ctypes, sys
        lib, holds_the_gil = ctypes.CDLL(sys.argv[1]), ctypes.PyDLL(sys.argv[1])
        for function in lib.wait_for_started, holds_the_gil.open_and_wait:
            function.restype, function.argtypes = ctypes.c_int64, [ctypes.c_int64]
        leaf = lib.leaf_gate
        leaf.restype, leaf.argtypes = None, [ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
        data = array.array("q", bytes(8 * 1_000))
        pool = fjpool.ForkJoinPool(2) if sys.argv[2] == "private" else fjpool.common_pool()
        loop = lambda: pool.parallel_for(leaf, 1_000, chunksize=1, data=data)
        thread = threading.Thread(target=loop)
        thread.start()
        lib.wait_for_started(1)
        print(holds_the_gil.open_and_wait(1_000))
        thread.join(WAIT)
        print(list(data) == list(range(1_000)))
        """,
        library,
        where,
        env={"FJPOOL_COMMON_PARALLELISM": "1"},
    )
    assert printed == "1000\nTrue\n"


def test_native_leaf_lets_signals_through(library):
    """Ctrl-C ends the caller's wait while leaves run that take no notice of it."""
    printed = output(
        """
        import array, ctypes, signal, sys
        lib = ctypes.CDLL(sys.argv[1])
        leaf = lib.leaf_gate
        leaf.restype, leaf.argtypes = None, [ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p]
        data, handled = array.array("q", bytes(8 * 100)), []
        def handler(*_):
            handled.append(1)
            lib.open_gate()
        signal.signal(signal.SIGUSR1, handler)
        def interrupt():
            lib.wait_for_started(1)
            os.kill(os.getpid(), signal.SIGUSR1)
        threading.Thread(target=interrupt).start()
        fjpool.ForkJoinPool(2).parallel_for(leaf, 100, chunksize=1, data=data)
        print(handled, list(data) == list(range(100)))
        """,
        library,
    )
    assert printed == "[1] True\n"


def test_native_leaves_of_the_lab_are_accepted(pool2):
    """The demo leaves are capsules like any other."""
    from fjpool import lab

    assert pool2.parallel_reduce(lab.primes, 1_000, chunksize=13) == 168
    positions = array.array("q", [4_000])
    total = pool2.parallel_reduce(lab.price_n, 4_000, chunksize=100, data=positions)
    assert total == pytest.approx(lab.price_block(0, 4_000, 4_000))
    with pytest.raises(fjpool.LeafError) as caught:
        pool2.parallel_for(lab.fail_at, 1_000, chunksize=10, data=array.array("q", [500]))
    assert caught.value.code == 7 and caught.value.lo <= 500 < caught.value.hi


def test_importing_fjpool_imports_none_of_their_makers():
    """ctypes, cffi, Numba, SciPy and NumPy are looked at only if they are there already."""
    printed = output(
        textwrap.dedent(
            """
            import fjpool
            fjpool.parallel_reduce(lambda lo, hi: hi - lo, 10)
            print(sorted({"ctypes", "cffi", "_cffi_backend", "numba", "scipy", "numpy"} & set(sys.modules)))
            """
        )
    )
    assert printed == "[]\n", sys.version
