/* task_type.c - _core.Task as Python sees it: methods, what concurrent.futures
 * looks at, the type.
 */
#include "fjpy.h"

#include <structmember.h>

#include "docs.h"

/* ---- methods ---- */

#define METHOD(name) static PyObject *task_##name(fjpy_task_t *self, PyObject *Py_UNUSED(none))

METHOD(fork)
{
    return fjpy_task_fork(self) < 0 ? NULL : Py_NewRef(self);
}

METHOD(try_unfork)
{
    return PyBool_FromLong(fj_try_unfork(&self->task));
}

METHOD(join)
{
    return fjpy_task_wait(self, FJ_FOREVER) < 0 ? NULL : fjpy_task_outcome(self);
}

METHOD(quietly_join)
{
    if (fjpy_task_wait(self, FJ_FOREVER) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

/* Runs the body here and now, unless somebody has begun. */
static int run_here(fjpy_task_t *self)
{
    if (self->body != FJPY_NO_BODY && fj_task_try_start(&self->task)) {
        fj_run_started(&self->task);
        return 0;
    }
    return fjpy_task_wait(self, FJ_FOREVER);
}

METHOD(invoke)
{
    return run_here(self) < 0 ? NULL : fjpy_task_outcome(self);
}

METHOD(quietly_invoke)
{
    if (run_here(self) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

METHOD(done)
{
    fjpy_task_check_inherited(self);
    return PyBool_FromLong(fjpy_task_is_done(self));
}

METHOD(running)
{
    fjpy_task_check_inherited(self);
    return PyBool_FromLong(fjpy_task_state(self) == FJ_RUNNING);
}

METHOD(cancelled)
{
    return PyBool_FromLong(fjpy_task_state(self) == FJ_CANCELLED);
}

METHOD(cancel)
{
    fjpy_task_check_inherited(self);
    /* True again for a task that is cancelled already. */
    return PyBool_FromLong(fjpy_task_finish(self, FJ_CANCELLED, NULL)
                           || fjpy_task_state(self) == FJ_CANCELLED);
}

METHOD(request_cancel)
{
    if (fjpy_task_finish(self, FJ_CANCELLED, NULL)) {
        Py_RETURN_TRUE;
    }
    if (fjpy_task_is_done(self)) {
        return PyBool_FromLong(fjpy_task_state(self) == FJ_CANCELLED);
    }
    fjpy_task_interrupt(self);
    Py_RETURN_TRUE;
}

/* Before waiting in some other way: runs it here if that is this caller's part. */
METHOD(help)
{
    if (fj_current == NULL && self->own) {
        (void)fj_run_outside(fj_task_pool(&self->task), &self->task);
    }
    Py_RETURN_NONE;
}

METHOD(is_completed_normally)
{
    return PyBool_FromLong(fjpy_task_state(self) == FJ_NORMAL);
}

METHOD(is_completed_abnormally)
{
    return PyBool_FromLong(fjpy_task_is_done(self) && fjpy_task_state(self) != FJ_NORMAL);
}

METHOD(get_raw_result)
{
    return Py_NewRef(self->value != NULL ? self->value : Py_None);
}

static int parse_timeout(PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames,
                         PyObject **timeout)
{
    Py_ssize_t named = kwnames != NULL ? PyTuple_GET_SIZE(kwnames) : 0;
    *timeout = NULL;
    if (nargs + named > 1
        || (named == 1
            && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, 0), "timeout") != 0)) {
        PyErr_SetString(PyExc_TypeError, "expected at most one argument, timeout");
        return -1;
    }
    if (nargs + named == 1) {
        *timeout = args[0];
    }
    return 0;
}

static int wait_for(fjpy_task_t *self, PyObject *const *args, Py_ssize_t nargs,
                    PyObject *kwnames)
{
    PyObject *timeout;
    int64_t deadline;
    if (parse_timeout(args, nargs, kwnames, &timeout) < 0
        || fjpy_deadline(timeout, &deadline) < 0) {
        return -1;
    }
    return fjpy_task_wait(self, deadline);
}

static PyObject *task_result(fjpy_task_t *self, PyObject *const *args, Py_ssize_t nargs,
                             PyObject *kwnames)
{
    return wait_for(self, args, nargs, kwnames) < 0 ? NULL : fjpy_task_outcome(self);
}

static PyObject *task_exception(fjpy_task_t *self, PyObject *const *args, Py_ssize_t nargs,
                                PyObject *kwnames)
{
    if (wait_for(self, args, nargs, kwnames) < 0) {
        return NULL;
    }
    if (fjpy_task_state(self) == FJ_CANCELLED) {
        PyErr_SetNone(fjpy.cancelled_error);
        return NULL;
    }
    return Py_NewRef(self->exception != NULL ? self->exception : Py_None);
}

static PyObject *task_complete(fjpy_task_t *self, PyObject *value)
{
    if (fjpy_task_is_done(self)) {
        Py_XSETREF(self->value, Py_NewRef(value)); /* how it ended stays */
    } else {
        (void)fjpy_task_finish(self, FJ_NORMAL, Py_NewRef(value));
    }
    Py_RETURN_NONE;
}

static PyObject *exception_instance(PyObject *exception)
{
    if (PyExceptionClass_Check(exception)) {
        return PyObject_CallNoArgs(exception);
    }
    if (PyExceptionInstance_Check(exception)) {
        return Py_NewRef(exception);
    }
    PyErr_Format(PyExc_TypeError, "expected an exception, not %.100s",
                 Py_TYPE(exception)->tp_name);
    return NULL;
}

static PyObject *task_complete_exceptionally(fjpy_task_t *self, PyObject *argument)
{
    PyObject *exception = exception_instance(argument);
    if (exception == NULL) {
        return NULL;
    }
    (void)fjpy_task_finish(self, FJ_FAILED, exception);
    Py_RETURN_NONE;
}

static PyObject *invalid_state(fjpy_task_t *self)
{
    PyErr_Format(fjpy.invalid_state_error, "%s: %R",
                 fjpy_task_state(self) == FJ_CANCELLED ? "CANCELLED" : "FINISHED", self);
    return NULL;
}

/* The argument of a method that takes one, by its position or by its name. */
static PyObject *only_argument(const char *name, PyObject *const *args, Py_ssize_t nargs,
                               PyObject *kwnames)
{
    Py_ssize_t named = kwnames != NULL ? PyTuple_GET_SIZE(kwnames) : 0;
    if (nargs + named != 1
        || (named == 1
            && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, 0), name) != 0)) {
        PyErr_Format(PyExc_TypeError, "expected one argument, %s", name);
        return NULL;
    }
    return args[0];
}

static PyObject *task_set_result(fjpy_task_t *self, PyObject *const *args, Py_ssize_t nargs,
                                 PyObject *kwnames)
{
    PyObject *value = only_argument("result", args, nargs, kwnames);
    if (value == NULL) {
        return NULL;
    }
    if (fjpy_task_is_done(self) || !fjpy_task_finish(self, FJ_NORMAL, Py_NewRef(value))) {
        return invalid_state(self);
    }
    Py_RETURN_NONE;
}

static PyObject *task_set_exception(fjpy_task_t *self, PyObject *const *args, Py_ssize_t nargs,
                                    PyObject *kwnames)
{
    PyObject *argument = only_argument("exception", args, nargs, kwnames);
    PyObject *exception = argument != NULL ? exception_instance(argument) : NULL;
    if (exception == NULL) {
        return NULL;
    }
    if (fjpy_task_is_done(self)) {
        Py_DECREF(exception);
        return invalid_state(self);
    }
    if (!fjpy_task_finish(self, FJ_FAILED, exception)) {
        return invalid_state(self);
    }
    Py_RETURN_NONE;
}

static PyObject *task_add_done_callback(fjpy_task_t *self, PyObject *const *args,
                                        Py_ssize_t nargs, PyObject *kwnames)
{
    PyObject *callback = only_argument("fn", args, nargs, kwnames);
    if (callback == NULL) {
        return NULL;
    }
    fjpy_task_check_inherited(self);
    if (fjpy_task_is_done(self)) {
        fjpy_task_call_back(self, callback);
    } else if ((self->callbacks == NULL && (self->callbacks = PyList_New(0)) == NULL)
               || PyList_Append(self->callbacks, callback) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

#define WITH_NAMES(function) \
    (PyCFunction)(void (*)(void))function, METH_FASTCALL | METH_KEYWORDS

static PyMethodDef task_methods[] = {
    {"fork", (PyCFunction)task_fork, METH_NOARGS, FJPY_TASK_FORK_DOC},
    {"join", (PyCFunction)task_join, METH_NOARGS, FJPY_TASK_JOIN_DOC},
    {"quietly_join", (PyCFunction)task_quietly_join, METH_NOARGS, FJPY_TASK_QUIETLY_JOIN_DOC},
    {"invoke", (PyCFunction)task_invoke, METH_NOARGS, FJPY_TASK_INVOKE_DOC},
    {"quietly_invoke", (PyCFunction)task_quietly_invoke, METH_NOARGS,
     FJPY_TASK_QUIETLY_INVOKE_DOC},
    {"try_unfork", (PyCFunction)task_try_unfork, METH_NOARGS, FJPY_TASK_TRY_UNFORK_DOC},
    {"done", (PyCFunction)task_done, METH_NOARGS, FJPY_TASK_DONE_DOC},
    {"is_done", (PyCFunction)task_done, METH_NOARGS, FJPY_TASK_IS_DONE_DOC},
    {"running", (PyCFunction)task_running, METH_NOARGS, FJPY_TASK_RUNNING_DOC},
    {"cancelled", (PyCFunction)task_cancelled, METH_NOARGS, FJPY_TASK_CANCELLED_DOC},
    {"is_cancelled", (PyCFunction)task_cancelled, METH_NOARGS, FJPY_TASK_IS_CANCELLED_DOC},
    {"cancel", (PyCFunction)task_cancel, METH_NOARGS, FJPY_TASK_CANCEL_DOC},
    {"request_cancel", (PyCFunction)task_request_cancel, METH_NOARGS,
     FJPY_TASK_REQUEST_CANCEL_DOC},
    {"_help", (PyCFunction)task_help, METH_NOARGS, NULL},
    {"is_completed_normally", (PyCFunction)task_is_completed_normally, METH_NOARGS,
     FJPY_TASK_IS_COMPLETED_NORMALLY_DOC},
    {"is_completed_abnormally", (PyCFunction)task_is_completed_abnormally, METH_NOARGS,
     FJPY_TASK_IS_COMPLETED_ABNORMALLY_DOC},
    {"get_raw_result", (PyCFunction)task_get_raw_result, METH_NOARGS,
     FJPY_TASK_GET_RAW_RESULT_DOC},
    {"result", WITH_NAMES(task_result),
     FJPY_TASK_RESULT_DOC},
    {"exception", WITH_NAMES(task_exception),
     FJPY_TASK_EXCEPTION_DOC},
    {"complete", (PyCFunction)task_complete, METH_O, FJPY_TASK_COMPLETE_DOC},
    {"complete_exceptionally", (PyCFunction)task_complete_exceptionally, METH_O,
     FJPY_TASK_COMPLETE_EXCEPTIONALLY_DOC},
    {"set_result", WITH_NAMES(task_set_result), FJPY_TASK_SET_RESULT_DOC},
    {"set_exception", WITH_NAMES(task_set_exception), FJPY_TASK_SET_EXCEPTION_DOC},
    {"add_done_callback", WITH_NAMES(task_add_done_callback),
     FJPY_TASK_ADD_DONE_CALLBACK_DOC},
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, NULL},
    {NULL, NULL, 0, NULL},
};

/* ---- what concurrent.futures looks at ---- */

static PyObject *get_state(fjpy_task_t *self, void *Py_UNUSED(closure))
{
    fjpy_task_check_inherited(self);
    static const char *const names[] = {
        [FJ_NEW] = "PENDING", [FJ_QUEUED] = "PENDING", [FJ_RUNNING] = "RUNNING",
        [FJ_NORMAL] = "FINISHED", [FJ_FAILED] = "FINISHED", [FJ_CANCELLED] = "CANCELLED",
    };
    fj_state_t state = fjpy_task_state(self);
    return PyUnicode_InternFromString(state == FJ_CANCELLED && self->notified
                                          ? "CANCELLED_AND_NOTIFIED"
                                          : names[state]);
}

static int set_state(fjpy_task_t *self, PyObject *value, void *Py_UNUSED(closure))
{
    const char *name = value != NULL ? PyUnicode_AsUTF8(value) : "";
    if (name == NULL) {
        return -1;
    }
    fj_state_t state;
    if (strcmp(name, "PENDING") == 0) {
        state = FJ_NEW;
    } else if (strcmp(name, "RUNNING") == 0) {
        state = FJ_RUNNING;
    } else if (strcmp(name, "FINISHED") == 0) {
        state = self->exception != NULL ? FJ_FAILED : FJ_NORMAL;
    } else if (strcmp(name, "CANCELLED") == 0 || strcmp(name, "CANCELLED_AND_NOTIFIED") == 0) {
        state = FJ_CANCELLED;
    } else {
        PyErr_SetString(PyExc_ValueError, "_state must be PENDING, RUNNING, CANCELLED, "
                                          "CANCELLED_AND_NOTIFIED or FINISHED");
        return -1;
    }
    self->notified = strcmp(name, "CANCELLED_AND_NOTIFIED") == 0;
    fj_task_force(&self->task, state);
    return 0;
}

static PyObject *get_exception(fjpy_task_t *self, void *Py_UNUSED(closure))
{
    return Py_NewRef(self->exception != NULL ? self->exception : Py_None);
}

static int set_exception(fjpy_task_t *self, PyObject *value, void *Py_UNUSED(closure))
{
    bool none = value == NULL || value == Py_None;
    if (!none && !PyExceptionInstance_Check(value)) {
        PyErr_SetString(PyExc_TypeError, "_exception must be an exception or None");
        return -1;
    }
    Py_XSETREF(self->exception, none ? NULL : Py_NewRef(value));
    Py_XSETREF(self->traceback, none ? NULL : PyException_GetTraceback(value));
    if (fjpy_task_is_done(self) && fjpy_task_state(self) != FJ_CANCELLED) {
        fj_task_force(&self->task, none ? FJ_NORMAL : FJ_FAILED);
    }
    return 0;
}

static PyObject *get_result(fjpy_task_t *self, void *Py_UNUSED(closure))
{
    return Py_NewRef(self->value != NULL ? self->value : Py_None);
}

static int set_result(fjpy_task_t *self, PyObject *value, void *Py_UNUSED(closure))
{
    Py_XSETREF(self->value, Py_XNewRef(value));
    return 0;
}

/* The first look inflates. The bit is set last: who sees it finds both. */
static int inflate(fjpy_task_t *self)
{
    if (self->condition == NULL) {
        PyObject *condition = fjpy_hook("new_condition", Py_None);
        if (condition == NULL) {
            return -1;
        }
        if (self->condition == NULL) {       /* nobody did it while that ran */
            self->condition = condition;
        } else {
            Py_DECREF(condition);
        }
    }
    if (self->waiters == NULL && (self->waiters = PyList_New(0)) == NULL) {
        return -1;
    }
    (void)fj_or_acqrel(&self->task.status, FJ_TASK_EXTRA); /* pairs with fjpy_task_finish */
    if (fjpy_task_is_done(self)) {
        fjpy_task_track(self);
    }
    return 0;
}

static PyObject *get_condition(fjpy_task_t *self, void *Py_UNUSED(closure))
{
    fjpy_task_check_inherited(self);
    return inflate(self) < 0 ? NULL : Py_NewRef(self->condition);
}

static PyObject *get_waiters(fjpy_task_t *self, void *Py_UNUSED(closure))
{
    return inflate(self) < 0 ? NULL : Py_NewRef(self->waiters);
}

static PyObject *get_callbacks(fjpy_task_t *self, void *Py_UNUSED(closure))
{
    if (self->callbacks == NULL && (self->callbacks = PyList_New(0)) == NULL) {
        return NULL;
    }
    return Py_NewRef(self->callbacks);
}

static PyObject *get_cancel_requested(fjpy_task_t *self, void *Py_UNUSED(closure))
{
    return PyBool_FromLong(fj_task_stop_requested(&self->task));
}

static PyGetSetDef task_getset[] = {
    {"cancel_requested", (getter)get_cancel_requested, NULL, FJPY_TASK_CANCEL_REQUESTED_DOC,
     NULL},
    {"_state", (getter)get_state, (setter)set_state, NULL, NULL},
    {"_exception", (getter)get_exception, (setter)set_exception, NULL, NULL},
    {"_result", (getter)get_result, (setter)set_result, NULL, NULL},
    {"_condition", (getter)get_condition, NULL, NULL, NULL},
    {"_waiters", (getter)get_waiters, NULL, NULL, NULL},
    {"_done_callbacks", (getter)get_callbacks, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef task_members[] = {
    {"_body", T_UBYTE, offsetof(fjpy_task_t, body), 0, NULL},
    {"_function", T_OBJECT, offsetof(fjpy_task_t, function), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(fjpy_task_t, weakrefs), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

/* ---- the type ---- */

static PyObject *tp_new(PyTypeObject *type, PyObject *Py_UNUSED(args),
                        PyObject *Py_UNUSED(kwargs))
{
    fjpy_task_t *self = fjpy_task_new(type);
    if (self != NULL) {
        /* A subclass says in _kind what running it means. */
        PyObject *kind = PyObject_GetAttr((PyObject *)type, fjpy.s_kind);
        long body = kind != NULL ? PyLong_AsLong(kind) : -1;
        Py_XDECREF(kind);
        if (body < 0) {
            Py_DECREF(self);
            return NULL;
        }
        self->body = (uint8_t)body;
    }
    return (PyObject *)self;
}

static int tp_init(fjpy_task_t *Py_UNUSED(self), PyObject *args, PyObject *kwargs)
{
    if (PyTuple_GET_SIZE(args) != 0 || (kwargs != NULL && PyDict_GET_SIZE(kwargs) != 0)) {
        PyErr_SetString(PyExc_TypeError, "a task takes no arguments; give its subclass an __init__");
        return -1;
    }
    return 0;
}

static int tp_traverse(fjpy_task_t *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->function);
    Py_VISIT(self->args);
    Py_VISIT(self->kwargs);
    Py_VISIT(self->context);
    Py_VISIT(self->value);
    Py_VISIT(self->exception);
    Py_VISIT(self->traceback);
    Py_VISIT(self->condition);
    Py_VISIT(self->waiters);
    Py_VISIT(self->callbacks);
    return 0;
}

static int tp_clear(fjpy_task_t *self)
{
    fjpy_task_forget_body(self);
    Py_CLEAR(self->value);
    Py_CLEAR(self->exception);
    Py_CLEAR(self->traceback);
    Py_CLEAR(self->condition);
    Py_CLEAR(self->waiters);
    Py_CLEAR(self->callbacks);
    return 0;
}

static void tp_dealloc(fjpy_task_t *self)
{
    PyTypeObject *type = Py_TYPE(self);
    if (!self->untracked) {
        PyObject_GC_UnTrack(self);
    }
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    (void)tp_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyType_Slot task_slots[] = {
    {Py_tp_new, tp_new},
    {Py_tp_init, tp_init},
    {Py_tp_traverse, tp_traverse},
    {Py_tp_clear, tp_clear},
    {Py_tp_dealloc, tp_dealloc},
    {Py_tp_methods, task_methods},
    {Py_tp_getset, task_getset},
    {Py_tp_members, task_members},
    {Py_tp_doc, (void *)FJPY_TASK_DOC},
    {0, NULL},
};

static PyType_Spec task_spec = {
    .name = "fjpool._core.Task",
    .basicsize = sizeof(fjpy_task_t),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = task_slots,
};

int fjpy_task_add(PyObject *module)
{
    fjpy.task_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &task_spec, NULL);
    return fjpy.task_type != NULL ? PyModule_AddType(module, fjpy.task_type) : -1;
}
