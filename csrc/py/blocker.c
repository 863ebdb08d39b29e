/* blocker.c - fjpool.managed_block, and sleeping. */
#include "fjpy.h"

/* ---- managed_block: enters and leaves what the core calls blocked ---- */

/* No state: one object may be entered by many threads, and again inside. */
static PyObject *block_enter(PyObject *self, PyObject *Py_UNUSED(none))
{
    fj_worker_t *worker = fj_current;
    if (fj_block_begin(worker) == FJ_AT_LIMIT) {
        int carry_on = fjpy_at_limit(fj_pool_user(fj_worker_pool(worker)));
        if (carry_on != 1) {
            fj_block_end(worker);
            return carry_on == 0 ? fjpy_raise(FJ_AT_LIMIT) : NULL;
        }
    }
    return Py_NewRef(self);
}

static PyObject *block_exit(PyObject *Py_UNUSED(self), PyObject *const *Py_UNUSED(args),
                            Py_ssize_t Py_UNUSED(nargs))
{
    if (fj_block_depth(fj_current) > 0) {    /* 0: it was entered in another thread */
        fj_block_end(fj_current);
    }
    Py_RETURN_FALSE;
}

static PyObject *block_call(PyObject *Py_UNUSED(self), PyObject *args, PyObject *kwargs)
{
    PyObject *function;
    if (kwargs != NULL && PyDict_GET_SIZE(kwargs) != 0) {
        PyErr_SetString(PyExc_TypeError, "expected the function to decorate");
        return NULL;
    }
    return PyArg_ParseTuple(args, "O:managed_block", &function)
               ? fjpy_hook("decorate_blocking", function)
               : NULL;
}

static void block_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

PyDoc_STRVAR(block_doc,
"managed_block()\n--\n\n"
"Says that the code inside ``with`` (or the function decorated) blocks.\n\n"
"In a worker, another one runs in its place meanwhile if work is queued: an idle one, else a new\n"
"thread, up to the pool's ``max_workers``. Outside of workers, and inside another\n"
"``managed_block``, it does nothing.\n\n"
"Raises\n------\n"
"RejectedExecutionError\n"
"    The pool's `saturate` policy says so, when work is queued and no thread may be added.\n\n"
"Notes\n-----\n"
"Java's ForkJoinPool.managedBlock. fjpool's own primitives (Queue, Condition, sleep...) do it\n"
"themselves.\n\n"
"Examples\n--------\n"
">>> import fjpool, time\n"
">>> with fjpool.managed_block():\n"
"...     time.sleep(0.001)\n");

static PyMethodDef block_methods[] = {
    {"__enter__", block_enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))block_exit, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot block_slots[] = {
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_call, block_call},
    {Py_tp_dealloc, block_dealloc},
    {Py_tp_methods, block_methods},
    {Py_tp_doc, (void *)block_doc},
    {0, NULL},
};

static PyType_Spec block_spec = {
    .name = "fjpool.managed_block",
    .basicsize = sizeof(PyObject),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = block_slots,
};

int fjpy_blocker_add(PyObject *module)
{
    PyObject *type = PyType_FromModuleAndSpec(module, &block_spec, NULL);
    if (type == NULL) {
        return -1;
    }
    int result = PyModule_AddObjectRef(module, "managed_block", type);
    Py_DECREF(type);
    return result;
}

/* ---- sleep: waiting for a future that nobody completes ---- */

PyObject *fjpy_sleep(PyObject *Py_UNUSED(module), PyObject *seconds)
{
    int64_t deadline;
    if (seconds == Py_None) {
        PyErr_SetString(PyExc_TypeError, "sleep expects a number of seconds, not None");
        return NULL;
    }
    if (fjpy_deadline(seconds, &deadline) < 0) {
        return NULL;
    }
    if (PyFloat_AsDouble(seconds) < 0) {
        PyErr_SetString(PyExc_ValueError, "sleep expects a number of seconds that is not negative");
        return NULL;
    }
    fjpy_task_t *never = fjpy_future_bare();
    if (never == NULL) {
        return NULL;
    }
    int result = fjpy_task_wait(never, deadline);
    Py_DECREF(never);
    if (result < 0 && !PyErr_ExceptionMatches(fjpy.timeout_error)) {
        return NULL;
    }
    PyErr_Clear();
    Py_RETURN_NONE;
}
