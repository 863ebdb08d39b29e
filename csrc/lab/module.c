/*
 * fjpool.lab._native: the demo leaves as capsules, and Python functions around the same kernels.
 *
 * A leaf is a PyCapsule named by its C signature; its pointer is the function (the convention of
 * SciPy's LowLevelCallable).  The functions release the GIL while the kernel runs.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "leaves.h"
#include "price.h"

/* Doubles count exactly up to here, so a position up to here is its own starting value. */
#define MAX_POSITIONS (INT64_C(1) << 53)
#define MAX_NS INT64_C(1000000000000000000)

/* --- arguments --------------------------------------------------------------------------- */

typedef struct {
    long long lo, hi, n;
} range_t;

/* 0, or -1 with a ValueError set. */
static int check_range(const range_t *range)
{
    if (0 <= range->lo && range->lo <= range->hi && range->hi <= range->n && range->n <= MAX_POSITIONS)
        return 0;
    PyErr_Format(PyExc_ValueError, "need 0 <= lo <= hi <= n <= 2**53, not lo=%lld, hi=%lld, n=%lld",
                 range->lo, range->hi, range->n);
    return -1;
}

/* A new tuple of the names of the instruction sets this machine supports, best first. */
static PyObject *isa_names(void)
{
    PyObject *list = PyList_New(0);
    const lab_isa_t *isa;
    for (int k = 0; list != NULL && (isa = lab_isa_supported(k)) != NULL; k++) {
        PyObject *name = PyUnicode_FromString(isa->name);
        if (name == NULL || PyList_Append(list, name) < 0)
            Py_CLEAR(list);
        Py_XDECREF(name);
    }
    PyObject *names = list == NULL ? NULL : PyList_AsTuple(list);
    Py_XDECREF(list);
    return names;
}

/* The instruction set of that name, the best one for NULL; NULL with a ValueError set when the
   machine has no such set. */
static const lab_isa_t *find_isa(const char *name)
{
    const lab_isa_t *isa;
    for (int k = 0; (isa = lab_isa_supported(k)) != NULL; k++)
        if (name == NULL || strcmp(isa->name, name) == 0)
            return isa;
    PyObject *names = isa_names();
    if (names != NULL)
        PyErr_Format(PyExc_ValueError, "isa must be one of %R on this machine, not '%s'", names, name);
    Py_XDECREF(names);
    return NULL;
}

/* 0 and the nanoseconds, or -1 with an exception set. */
static int parse_ns(PyObject *arg, int64_t *ns)
{
    long long value = PyLong_AsLongLong(arg);
    if (value == -1 && PyErr_Occurred())
        return -1;
    if (value < 0 || value > MAX_NS) {
        PyErr_Format(PyExc_ValueError, "ns must lie between 0 and 10**18, not %lld", value);
        return -1;
    }
    *ns = value;
    return 0;
}

/* --- functions --------------------------------------------------------------------------- */

PyDoc_STRVAR(price_block_doc,
"price_block($module, /, lo, hi, n=4000000)\n"
"--\n"
"\n"
"Sum the prices of the positions lo to hi - 1, one after another.\n"
"\n"
"Position ``i`` starts with ``x = i`` and repeats ``x = sqrt(x + r) * 1.0000001``\n"
"for r = 0, 1, ...: 240 rounds in the first quarter of the `n` positions, 20 after it.\n"
"\n"
"Parameters\n"
"----------\n"
"lo, hi : int\n"
"    The range of positions; `hi` is not part of it.\n"
"n : int, default 4_000_000\n"
"    How many positions there are in all. It decides where the first quarter ends.\n"
"\n"
"Returns\n"
"-------\n"
"float\n"
"    The sum, added in index order.\n"
"\n"
"Raises\n"
"------\n"
"ValueError\n"
"    Unless ``0 <= lo <= hi <= n <= 2**53``.\n"
"\n"
"Notes\n"
"-----\n"
"Releases the GIL while it computes. Signals are handled when it returns.\n"
"\n"
"Examples\n"
"--------\n"
">>> from fjpool.lab import price_block\n"
">>> round(price_block(0, 4, n=4), 3)\n"
"30.589\n");

static PyObject *price_block(PyObject *Py_UNUSED(module), PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"lo", "hi", "n", NULL};
    range_t range = {.n = LAB_POSITIONS};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "LL|L:price_block", names, &range.lo, &range.hi, &range.n)
        || check_range(&range) < 0)
        return NULL;
    double sum;
    Py_BEGIN_ALLOW_THREADS
    sum = lab_price_scalar(range.lo, range.hi, range.n, NULL);
    Py_END_ALLOW_THREADS
    return PyFloat_FromDouble(sum);
}

PyDoc_STRVAR(price_block_vector_doc,
"price_block_vector($module, /, lo, hi, n=4000000, *, isa=None)\n"
"--\n"
"\n"
"Sum the prices of the positions lo to hi - 1, several at a time.\n"
"\n"
"Does the same floating-point operations as `price_block` on every position and adds the\n"
"prices in the same order, so the result has the same bits.\n"
"\n"
"Parameters\n"
"----------\n"
"lo, hi, n : int\n"
"    As in `price_block`.\n"
"isa : str, optional\n"
"    The instruction set to use, one of `vector_isas`. Default: `vector_isa`.\n"
"\n"
"Returns\n"
"-------\n"
"float\n"
"    The sum.\n"
"\n"
"Raises\n"
"------\n"
"ValueError\n"
"    Unless ``0 <= lo <= hi <= n <= 2**53``, and for an `isa` this machine does not have.\n"
"\n"
"Notes\n"
"-----\n"
"Releases the GIL while it computes. Signals are handled when it returns.\n"
"\n"
"Examples\n"
"--------\n"
">>> from fjpool.lab import price_block, price_block_vector\n"
">>> price_block_vector(0, 1000) == price_block(0, 1000)\n"
"True\n");

static PyObject *price_block_vector(PyObject *Py_UNUSED(module), PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"lo", "hi", "n", "isa", NULL};
    range_t range = {.n = LAB_POSITIONS};
    const char *isa_name = NULL;
    const lab_isa_t *isa;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "LL|L$z:price_block_vector", names, &range.lo, &range.hi,
                                     &range.n, &isa_name)
        || check_range(&range) < 0 || (isa = find_isa(isa_name)) == NULL)
        return NULL;
    double sum;
    Py_BEGIN_ALLOW_THREADS
    sum = lab_price_vector(isa, range.lo, range.hi, range.n, NULL);
    Py_END_ALLOW_THREADS
    return PyFloat_FromDouble(sum);
}

PyDoc_STRVAR(price_positions_doc,
"price_positions($module, /, lo, hi, n=4000000, vector=False, *, isa=None)\n"
"--\n"
"\n"
"The price of each of the positions lo to hi - 1.\n"
"\n"
"Parameters\n"
"----------\n"
"lo, hi, n : int\n"
"    As in `price_block`.\n"
"vector : bool, default False\n"
"    Use the vector kernel instead of the scalar one.\n"
"isa : str, optional\n"
"    The vector kernel's instruction set, one of `vector_isas`; implies `vector`.\n"
"\n"
"Returns\n"
"-------\n"
"bytes\n"
"    ``hi - lo`` native float64 values, as ``array.array('d')`` and ``numpy.frombuffer``\n"
"    read them.\n"
"\n"
"Raises\n"
"------\n"
"ValueError\n"
"    Unless ``0 <= lo <= hi <= n <= 2**53``, and for an `isa` this machine does not have.\n"
"MemoryError\n"
"    When the values do not fit into memory.\n"
"\n"
"Notes\n"
"-----\n"
"Releases the GIL while it computes.\n"
"\n"
"Examples\n"
"--------\n"
">>> from array import array\n"
">>> from fjpool.lab import price_positions\n"
">>> len(array('d', price_positions(0, 5)))\n"
"5\n");

static PyObject *price_positions(PyObject *Py_UNUSED(module), PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"lo", "hi", "n", "vector", "isa", NULL};
    range_t range = {.n = LAB_POSITIONS};
    int vector = 0;
    const char *isa_name = NULL;
    const lab_isa_t *isa;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "LL|Lp$z:price_positions", names, &range.lo, &range.hi,
                                     &range.n, &vector, &isa_name)
        || check_range(&range) < 0 || (isa = find_isa(isa_name)) == NULL)
        return NULL;
    size_t count = (size_t)(range.hi - range.lo);
    double *out = PyMem_New(double, count);
    if (out == NULL)
        return PyErr_NoMemory();
    Py_BEGIN_ALLOW_THREADS
    if (vector || isa_name != NULL)
        lab_price_vector(isa, range.lo, range.hi, range.n, out);
    else
        lab_price_scalar(range.lo, range.hi, range.n, out);
    Py_END_ALLOW_THREADS
    PyObject *result = PyBytes_FromStringAndSize((const char *)out, (Py_ssize_t)(count * sizeof *out));
    PyMem_Free(out);
    return result;
}

PyDoc_STRVAR(vector_isa_doc,
"vector_isa($module, /)\n"
"--\n"
"\n"
"The instruction set that the vector kernels use on this machine.\n"
"\n"
"It is chosen at run time: the extension was not built for one machine.\n"
"\n"
"Returns\n"
"-------\n"
"str\n"
"    ``'avx512f'``, ``'avx2'`` or ``'sse2'`` on x86-64, ``'neon'`` on 64-bit ARM,\n"
"    ``'plain'`` elsewhere.\n"
"\n"
"Examples\n"
"--------\n"
">>> from fjpool.lab import vector_isa, vector_isas\n"
">>> vector_isa() == vector_isas()[0]\n"
"True\n");

static PyObject *vector_isa(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(args))
{
    return PyUnicode_FromString(lab_isa_supported(0)->name);
}

PyDoc_STRVAR(vector_isas_doc,
"vector_isas($module, /)\n"
"--\n"
"\n"
"Every instruction set that the vector kernels can use on this machine.\n"
"\n"
"Returns\n"
"-------\n"
"tuple of str\n"
"    The names, best first; never empty.\n"
"\n"
"Examples\n"
"--------\n"
">>> from fjpool.lab import price_block_vector, vector_isas\n"
">>> len({price_block_vector(0, 100, isa=isa) for isa in vector_isas()})\n"
"1\n");

static PyObject *vector_isas(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(args))
{
    return isa_names();
}

PyDoc_STRVAR(sleep_block_doc,
"sleep_block($module, ns, /)\n"
"--\n"
"\n"
"Sleep without the GIL.\n"
"\n"
"Parameters\n"
"----------\n"
"ns : int\n"
"    How long, in nanoseconds.\n"
"\n"
"Raises\n"
"------\n"
"ValueError\n"
"    Unless ``0 <= ns <= 10**18``.\n"
"\n"
"Notes\n"
"-----\n"
"A signal does not cut the sleep short; it is handled afterwards.\n"
"\n"
"Examples\n"
"--------\n"
">>> from fjpool.lab import sleep_block\n"
">>> sleep_block(1_000)\n");

static PyObject *sleep_block(PyObject *Py_UNUSED(module), PyObject *arg)
{
    int64_t ns;
    if (parse_ns(arg, &ns) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    lab_leaf_sleep(0, 1, &ns);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

PyDoc_STRVAR(spin_block_doc,
"spin_block($module, ns, /)\n"
"--\n"
"\n"
"Burn CPU without the GIL.\n"
"\n"
"Parameters\n"
"----------\n"
"ns : int\n"
"    For how long, in nanoseconds of wall time.\n"
"\n"
"Raises\n"
"------\n"
"ValueError\n"
"    Unless ``0 <= ns <= 10**18``.\n"
"\n"
"Examples\n"
"--------\n"
">>> from fjpool.lab import spin_block\n"
">>> spin_block(1_000)\n");

static PyObject *spin_block(PyObject *Py_UNUSED(module), PyObject *arg)
{
    int64_t ns;
    if (parse_ns(arg, &ns) < 0)
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    lab_leaf_spin(0, 1, &ns);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

PyDoc_STRVAR(count_total_doc,
"count_total($module, /)\n"
"--\n"
"\n"
"What the leaf `count` has added up since the last `count_reset`.\n"
"\n"
"Returns\n"
"-------\n"
"int\n"
"    The sum over all threads.\n"
"\n"
"Notes\n"
"-----\n"
"Exact once the counting has ended; while it goes on, some value on the way.\n"
"A forked child starts with its parent's values.\n"
"\n"
"Examples\n"
"--------\n"
">>> from fjpool.lab import count_reset, count_total\n"
">>> count_reset()\n"
">>> count_total()\n"
"0\n");

static PyObject *count_total(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(args))
{
    long long total = 0;
    for (int stripe = 0; stripe < LAB_STRIPES; stripe++)
        total += lab_count_stripe(stripe);
    return PyLong_FromLongLong(total);
}

PyDoc_STRVAR(count_stripes_doc,
"count_stripes($module, /)\n"
"--\n"
"\n"
"How `count_total` spreads over the threads that counted.\n"
"\n"
"Returns\n"
"-------\n"
"list of int\n"
"    The stripes that are not zero. Up to 64 threads have a stripe each; more share.\n"
"\n"
"Examples\n"
"--------\n"
">>> from fjpool.lab import count_stripes, count_total\n"
">>> sum(count_stripes()) == count_total()\n"
"True\n");

static PyObject *count_stripes(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(args))
{
    PyObject *used = PyList_New(0);
    for (int stripe = 0; used != NULL && stripe < LAB_STRIPES; stripe++) {
        int64_t value = lab_count_stripe(stripe);
        if (value == 0)
            continue;
        PyObject *number = PyLong_FromLongLong(value);
        if (number == NULL || PyList_Append(used, number) < 0)
            Py_CLEAR(used);
        Py_XDECREF(number);
    }
    return used;
}

PyDoc_STRVAR(count_reset_doc,
"count_reset($module, /)\n"
"--\n"
"\n"
"Set the counter of the leaf `count` to zero.\n"
"\n"
"Notes\n"
"-----\n"
"What other threads add meanwhile may be kept or lost.\n"
"\n"
"Examples\n"
"--------\n"
">>> from fjpool.lab import count_reset, count_stripes\n"
">>> count_reset()\n"
">>> count_stripes()\n"
"[]\n");

static PyObject *count_reset(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(args))
{
    lab_count_reset();
    Py_RETURN_NONE;
}

/* --- the module -------------------------------------------------------------------------- */

#define WITH_KEYWORDS(function) (PyCFunction)(void (*)(void))function, METH_VARARGS | METH_KEYWORDS

static PyMethodDef functions[] = {
    {"price_block", WITH_KEYWORDS(price_block), price_block_doc},
    {"price_block_vector", WITH_KEYWORDS(price_block_vector), price_block_vector_doc},
    {"price_positions", WITH_KEYWORDS(price_positions), price_positions_doc},
    {"vector_isa", vector_isa, METH_NOARGS, vector_isa_doc},
    {"vector_isas", vector_isas, METH_NOARGS, vector_isas_doc},
    {"sleep_block", sleep_block, METH_O, sleep_block_doc},
    {"spin_block", spin_block, METH_O, spin_block_doc},
    {"count_total", count_total, METH_NOARGS, count_total_doc},
    {"count_stripes", count_stripes, METH_NOARGS, count_stripes_doc},
    {"count_reset", count_reset, METH_NOARGS, count_reset_doc},
    {NULL, NULL, 0, NULL},
};

#define RANGE "(int64_t, int64_t)"
#define RANGE_DATA "(int64_t, int64_t, void *)"

static const struct {
    const char *name;
    const char *signature;
    void (*function)(void);
} leaves[] = {
    {"price", "double " RANGE, (void (*)(void))lab_leaf_price},
    {"price_vector", "double " RANGE, (void (*)(void))lab_leaf_price_vector},
    {"price_n", "double " RANGE_DATA, (void (*)(void))lab_leaf_price_n},
    {"price_vector_n", "double " RANGE_DATA, (void (*)(void))lab_leaf_price_vector_n},
    {"primes", "int64_t " RANGE, (void (*)(void))lab_leaf_primes},
    {"count", "void " RANGE, (void (*)(void))lab_leaf_count},
    {"sleep", "void " RANGE_DATA, (void (*)(void))lab_leaf_sleep},
    {"spin", "void " RANGE_DATA, (void (*)(void))lab_leaf_spin},
    {"fail_at", "int " RANGE_DATA, (void (*)(void))lab_leaf_fail_at},
};

static int add_leaves(PyObject *module)
{
    for (size_t k = 0; k < sizeof leaves / sizeof leaves[0]; k++) {
        PyObject *capsule = PyCapsule_New((void *)leaves[k].function, leaves[k].signature, NULL);
        if (capsule == NULL || PyModule_AddObjectRef(module, leaves[k].name, capsule) < 0) {
            Py_XDECREF(capsule);
            return -1;
        }
        Py_DECREF(capsule);
    }
    return 0;
}

PyDoc_STRVAR(module_doc,
"The lab's kernels: native leaves as capsules named by their C signature, and functions.");

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, (void *)add_leaves},
#if defined(FJ_DECLARE_FREE_THREADED) && PY_VERSION_HEX >= 0x030D0000
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "fjpool.lab._native",
    .m_doc = module_doc,
    .m_methods = functions,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__native(void)
{
    return PyModuleDef_Init(&definition);
}
