/* module.c - fjpool._core: multi-phase initialization. */
#include "fjpy.h"

fjpy_state_t fjpy;

/* fjpool/_hooks.py hands over what the binding calls back, once. */
static PyObject *set_hooks(PyObject *Py_UNUSED(module), PyObject *hooks)
{
    if (!PyDict_Check(hooks)) {
        PyErr_SetString(PyExc_TypeError, "expected a dict of hooks");
        return NULL;
    }
    struct {
        const char *name;
        PyObject **place;
    } kept[] = {
        {"Future", (PyObject **)&fjpy.future_type},
        {"CancelledError", &fjpy.cancelled_error},
        {"TimeoutError", &fjpy.timeout_error},
        {"InvalidStateError", &fjpy.invalid_state_error},
        {"RejectedExecutionError", &fjpy.rejected_error},
        {"BrokenExecutor", &fjpy.broken_error},
    };
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        PyObject *value = PyDict_GetItemString(hooks, kept[i].name);
        if (value == NULL) {
            PyErr_Format(PyExc_KeyError, "hook %s is missing", kept[i].name);
            return NULL;
        }
        Py_XSETREF(*kept[i].place, Py_NewRef(value));
    }
    PyObject *main_thread = PyDict_GetItemString(hooks, "main_thread");
    fjpy.main_thread = main_thread != NULL ? PyLong_AsUnsignedLong(main_thread) : 0;
    if (PyErr_Occurred()) {
        return NULL;
    }
    Py_XSETREF(fjpy.hooks, Py_NewRef(hooks));
    Py_RETURN_NONE;
}

/* The Pool that the calling worker belongs to, None outside or once it is gone. */
static PyObject *current_pool(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    fj_pool_t *pool = fj_worker_pool(fj_current);
    PyObject *owner = pool != NULL ? ((fjpy_shared_t *)fj_pool_user(pool))->owner : NULL;
    return Py_NewRef(owner != NULL ? owner : Py_None);
}

static PyObject *current_task(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    PyObject *task = (PyObject *)fjpy_local()->current;
    return Py_NewRef(task != NULL ? task : Py_None);
}

/* A future that is queued on the calling worker's deque (or the ambient pool). */
static PyObject *fork_call(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs,
                           PyObject *kwnames)
{
    fjpy_task_t *future = fjpy_future_new(args, nargs, kwnames);
    if (future != NULL && fjpy_task_fork(future) < 0) {
        Py_CLEAR(future);
    }
    return (PyObject *)future;
}

static PyObject *detection_source(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    return Py_BuildValue("z", fj_detection_source());
}

static PyMethodDef methods[] = {
    {"set_hooks", set_hooks, METH_O, NULL},
    {"current_pool", current_pool, METH_NOARGS, NULL},
    {"current_task", current_task, METH_NOARGS, NULL},
    {"fork_call", (PyCFunction)(void (*)(void))fork_call, METH_FASTCALL | METH_KEYWORDS, NULL},
    {"append_calls", (PyCFunction)(void (*)(void))fjpy_append_calls, METH_FASTCALL, NULL},
    {"sleep", fjpy_sleep, METH_O, NULL},
    {"detection_source", detection_source, METH_NOARGS, NULL},
    {"at_exit", fjpy_at_exit, METH_O, NULL},
    {"after_fork_child", fjpy_after_fork_child, METH_NOARGS, NULL},
    {"capsule_info", fjpy_capsule_info, METH_O, NULL},
    {"in_library", fjpy_in_library, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

static int intern(PyObject **place, const char *text)
{
    *place = PyUnicode_InternFromString(text);
    return *place != NULL ? 0 : -1;
}

static int execute(PyObject *module)
{
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_ImportError,
                        "fjpool works in the main interpreter only, not in a subinterpreter");
        return -1;
    }
    if (intern(&fjpy.s_compute, "compute") < 0 || intern(&fjpy.s_enter, "__enter__") < 0
        || intern(&fjpy.s_exit, "__exit__") < 0 || intern(&fjpy.s_notify_all, "notify_all") < 0
        || intern(&fjpy.s_add_result, "add_result") < 0
        || intern(&fjpy.s_add_exception, "add_exception") < 0
        || intern(&fjpy.s_add_cancelled, "add_cancelled") < 0
        || intern(&fjpy.s_kind, "_kind") < 0) {
        return -1;
    }
    if (PyModule_AddIntConstant(module, "NO_BODY", FJPY_NO_BODY) < 0
        || PyModule_AddIntConstant(module, "COMPUTE", FJPY_COMPUTE) < 0
        || PyModule_AddIntConstant(module, "ACTION", FJPY_ACTION) < 0
        || PyModule_AddIntConstant(module, "MAX_WORKERS", FJ_MAX_WORKERS) < 0
        || PyModule_AddIntConstant(module, "SHUTDOWN", FJ_PHASE_SHUTDOWN) < 0
        || PyModule_AddIntConstant(module, "STOP", FJ_PHASE_STOP) < 0
        || PyModule_AddIntConstant(module, "TERMINATED", FJ_PHASE_TERMINATED) < 0) {
        return -1;
    }
    return fjpy_task_add(module) < 0 || fjpy_pool_add(module) < 0 || fjpy_blocker_add(module) < 0
                   || fjpy_results_add(module) < 0
                   || fjpy_capi_add(module) < 0
               ? -1
               : 0;
}

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, execute},
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
#if defined(FJ_DECLARE_FREE_THREADED) && PY_VERSION_HEX >= 0x030D0000
    {Py_mod_gil, Py_MOD_GIL_NOT_USED},
#endif
    {0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "fjpool._core",
    .m_doc = "The C core of fjpool behind its Python package; not a public interface.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__core(void)
{
    return PyModuleDef_Init(&definition);
}
