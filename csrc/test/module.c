/* module.c - fjpool._selftest: the C tests of the core, run from Python.
 *
 * names() lists them; run(name, seed=0) runs one and raises AssertionError with
 * the message of the check that failed. The GIL is released while a test runs,
 * and signals are looked at, so Ctrl-C and a time-out of pytest get through.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "fj_test.h"

#define LOOK_AT_SIGNALS 0.1        /* seconds between two looks */

PyDoc_STRVAR(names_doc,
"names($module, /)\n--\n\n"
"Return the names of all C tests, in the order of the table.\n\n"
"Returns\n-------\nlist of str\n");

static PyObject *selftest_names(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    PyObject *names = PyList_New(0);
    for (size_t k = 0; names != NULL && k < FJ_TEST_COUNT; k++) {
        PyObject *name = PyUnicode_FromString(fj_tests[k].name);
        if (name == NULL || PyList_Append(names, name) < 0)
            Py_CLEAR(names);
        Py_XDECREF(name);
    }
    return names;
}

PyDoc_STRVAR(run_doc,
"run($module, /, name, seed=0)\n--\n\n"
"Run one C test and return when it passed.\n\n"
"Parameters\n----------\n"
"name : str\n    One of `names()`.\n"
"seed : int, optional\n    What the test's random numbers start from.\n\n"
"Raises\n------\n"
"AssertionError\n    A check failed, or the test did not end within its time-out.\n"
"ValueError\n    There is no such test.\n"
"RuntimeError\n    There is no thread to run it.\n\n"
"Notes\n-----\n"
"A test that failed or did not end leaves its threads behind, asleep or not.\n"
"Run one test at a time.\n");

static PyObject *selftest_run(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *keywords[] = {"name", "seed", NULL};
    const char *name;
    unsigned long long seed = 0;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "s|K:run", keywords, &name, &seed))
        return NULL;
    const fj_test_t *test = fj_test_find(name);
    if (test == NULL)
        return PyErr_Format(PyExc_ValueError, "no C test is named '%s'", name);
    fj_test_run_t *run = fj_test_run_start(test, seed);
    if (run == NULL)
        return PyErr_Format(PyExc_RuntimeError, "no thread or memory to run %s", name);

    char message[1000];
    const double limit = fj_test_time_limit(test);
    fj_test_outcome_t outcome = FJ_TEST_RUNNING;
    bool interrupted = false;
    for (double waited = 0; outcome == FJ_TEST_RUNNING && !interrupted && waited < limit;
         waited += LOOK_AT_SIGNALS) {
        Py_BEGIN_ALLOW_THREADS
        outcome = fj_test_run_wait(run, LOOK_AT_SIGNALS);
        Py_END_ALLOW_THREADS
        interrupted = PyErr_CheckSignals() < 0;
    }
    fj_test_run_end(run, message, sizeof message);
    if (interrupted)
        return NULL;
    if (outcome == FJ_TEST_FAILED)
        return PyErr_Format(PyExc_AssertionError, "%s", message);
    if (outcome == FJ_TEST_RUNNING)
        return PyErr_Format(PyExc_AssertionError, "%s did not end within %d s", name, (int)limit);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"names", selftest_names, METH_NOARGS, names_doc},
    {"run", (PyCFunction)(void (*)(void))selftest_run, METH_VARARGS | METH_KEYWORDS, run_doc},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
#if defined(FJ_DECLARE_FREE_THREADED) && PY_VERSION_HEX >= 0x030D0000
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "fjpool._selftest",
    .m_doc = "The C tests of the core.",
    .m_size = 0,
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__selftest(void)
{
    return PyModuleDef_Init(&definition);
}
