/* task.c - _core.Task: a task and a future in one object.
 *
 * Every change of a task's Python side happens attached, so between looking at
 * the state and completing there is nobody else, except that a worker may claim
 * a queued task at any moment.
 *
 * Inflated (FJ_TASK_EXTRA): somebody has looked at _condition or _waiters, as
 * concurrent.futures.wait does. From then on completion happens while holding
 * the condition and tells the waiters, as the standard future does it.
 */
#include "fjpy.h"
#include "docs.h"

#include <structmember.h>

fjpy_task_t *fjpy_task_of(fj_task_t *task)
{
    return FJ_CONTAINER(task, fjpy_task_t, task);
}

static fj_state_t state_of(fjpy_task_t *self)
{
    return fj_task_state(&self->task);
}

static bool is_done(fjpy_task_t *self)
{
    return fj_state_is_done(state_of(self));
}

/* ---- completing ---- */

static void forget_body(fjpy_task_t *self)
{
    Py_CLEAR(self->function);
    Py_CLEAR(self->args);
    Py_CLEAR(self->kwargs);
    Py_CLEAR(self->context);
}

static void set_outcome(fjpy_task_t *self, fj_state_t state, PyObject *value)
{
    if (state == FJ_FAILED) {
        Py_XSETREF(self->exception, value);
        Py_XSETREF(self->traceback, PyException_GetTraceback(value));
    } else if (state == FJ_NORMAL) {
        Py_XSETREF(self->value, value);
    }
}

/* Attached from the look to the swap. Steals value. */
static bool commit(fjpy_task_t *self, fj_state_t state, PyObject *value)
{
    if (state == FJ_CANCELLED) {
        return fj_task_try_cancel(&self->task);
    }
    if (is_done(self)) {
        Py_DECREF(value);
        return false;
    }
    set_outcome(self, state, value);
    (void)fj_task_complete(&self->task, state);
    return true;
}

static void call_back(fjpy_task_t *self, PyObject *callback)
{
    PyObject *result = PyObject_CallOneArg(callback, (PyObject *)self);
    if (result == NULL) {
        PyObject *exception = fjpy_take_exception();
        PyObject *pair = PyTuple_Pack(2, self, exception);
        result = pair != NULL ? fjpy_hook("callback_failed", pair) : NULL;
        if (result == NULL) {
            PyErr_WriteUnraisable((PyObject *)self);
        }
        Py_XDECREF(pair);
        Py_DECREF(exception);
    }
    Py_XDECREF(result);
}

/* Once, by whoever completed it; who adds one later calls it alone. */
static void run_callbacks(fjpy_task_t *self)
{
    PyObject *callbacks = self->callbacks;
    self->callbacks = NULL;
    for (Py_ssize_t i = 0; callbacks != NULL && i < PyList_GET_SIZE(callbacks); i++) {
        PyObject *callback = Py_NewRef(PyList_GET_ITEM(callbacks, i));
        call_back(self, callback);
        Py_DECREF(callback);
    }
    Py_XDECREF(callbacks);
}

static void tell_waiters(fjpy_task_t *self, PyObject *method)
{
    PyObject *waiters = self->waiters;
    for (Py_ssize_t i = 0; waiters != NULL && i < PyList_GET_SIZE(waiters); i++) {
        PyObject *waiter = Py_NewRef(PyList_GET_ITEM(waiters, i));
        PyObject *result = PyObject_CallMethodOneArg(waiter, method, (PyObject *)self);
        Py_DECREF(waiter);
        if (result == NULL) {
            PyErr_WriteUnraisable((PyObject *)self);
        }
        Py_XDECREF(result);
    }
}

static bool commit_inflated(fjpy_task_t *self, fj_state_t state, PyObject *value)
{
    PyObject *condition = Py_NewRef(self->condition);
    PyObject *entered = PyObject_CallMethodNoArgs(condition, fjpy.s_enter);
    if (entered == NULL) {
        /* A signal's handler raised: completing must not be lost over it. */
        PyErr_WriteUnraisable((PyObject *)self);
    }
    bool won = commit(self, state, value);
    if (won && (state != FJ_CANCELLED || self->body != FJPY_NO_BODY)) {
        tell_waiters(self, state == FJ_NORMAL   ? fjpy.s_add_result
                           : state == FJ_FAILED ? fjpy.s_add_exception
                                                : fjpy.s_add_cancelled);
    }
    if (entered != NULL) {
        PyObject *result = PyObject_CallMethodNoArgs(condition, fjpy.s_notify_all);
        Py_XDECREF(result);
        if (result != NULL) {
            result = PyObject_CallMethodObjArgs(condition, fjpy.s_exit, Py_None, Py_None,
                                                Py_None, NULL);
            Py_XDECREF(result);
        }
        if (result == NULL) {
            PyErr_WriteUnraisable((PyObject *)self);
        }
        Py_DECREF(entered);
    }
    Py_DECREF(condition);
    return won;
}

/* From here on it may be part of a cycle, if it refers to anything that may. */
static void track(fjpy_task_t *self)
{
    if (self->untracked
        && (self->exception != NULL || self->callbacks != NULL || self->condition != NULL
            || (self->value != NULL && PyObject_IS_GC(self->value)))) {
        self->untracked = false;
        PyObject_GC_Track(self);
    }
}

bool fjpy_task_finish(fjpy_task_t *self, fj_state_t state, PyObject *value)
{
    bool inflated = (fj_load_acquire(&self->task.status) & FJ_TASK_EXTRA) != 0;
    bool won = inflated ? commit_inflated(self, state, value) : commit(self, state, value);
    if (won) {
        if (state == FJ_CANCELLED && self->body != FJPY_NO_BODY) {
            self->notified = true;           /* nobody else would tell the waiters */
        }
        forget_body(self);
        track(self);
        run_callbacks(self);
    }
    return won;
}

/* ---- waiting and results ---- */

static PyObject *raise_stored(fjpy_task_t *self)
{
    /* With the task's own traceback each time: two who join do not pile their
     * frames on each other's. */
    PyObject *exception = Py_NewRef(self->exception);
    PyErr_Restore(Py_NewRef((PyObject *)Py_TYPE(exception)), exception,
                  Py_XNewRef(self->traceback));
    return NULL;
}

PyObject *fjpy_task_outcome(fjpy_task_t *self)
{
    switch (state_of(self)) {
    case FJ_NORMAL:
        return Py_NewRef(self->value != NULL ? self->value : Py_None);
    case FJ_FAILED:
        return raise_stored(self);
    default:
        PyErr_SetNone(fjpy.cancelled_error);
        return NULL;
    }
}

int fjpy_deadline(PyObject *timeout, int64_t *deadline)
{
    if (timeout == NULL || timeout == Py_None) {
        *deadline = FJ_FOREVER;
        return 0;
    }
    double seconds = PyFloat_AsDouble(timeout);
    if (seconds == -1.0 && PyErr_Occurred()) {
        PyErr_Format(PyExc_TypeError, "timeout must be a number of seconds or None, not %.100s",
                     Py_TYPE(timeout)->tp_name);
        return -1;
    }
    if (seconds != seconds) {
        PyErr_SetString(PyExc_ValueError, "timeout must be a number of seconds, not nan");
        return -1;
    }
    *deadline = seconds >= 9e9 ? FJ_FOREVER
                               : fj_os_deadline(seconds > 0 ? (int64_t)(seconds * 1e9) : 0);
    return 0;
}

int64_t fjpy_slice(int64_t deadline)
{
    enum { SLICE = 50000000 };
    if (PyThread_get_thread_ident() != fjpy.main_thread) {
        return deadline;
    }
    int64_t slice = fj_os_deadline(SLICE);
    return slice < deadline ? slice : deadline;
}

static fj_status_t wait_outside(fjpy_task_t *self, fj_task_t *waiting, int64_t deadline)
{
    int64_t slice = fjpy_slice(deadline);
    fj_status_t status;
    Py_BEGIN_ALLOW_THREADS
    status = fj_task_wait_for(waiting, &self->task, slice);
    Py_END_ALLOW_THREADS
    return status == FJ_TIMEOUT && slice < deadline ? FJ_INTERRUPTED : status;
}

static fj_status_t wait_in_worker(fjpy_task_t *self, fj_task_t *waiting, int64_t deadline)
{
    fj_status_t status = fj_join_for(fj_current, waiting, &self->task, deadline);
    fjpy_attach();
    return status;
}

static int wait_somewhere(fjpy_task_t *self, int64_t deadline)
{
    fjpy_local_t *local = fjpy_local();
    fjpy_task_t *outer = local->awaited;
    fj_task_t *waiting = local->current != NULL ? &local->current->task : NULL;
    fj_status_t status;
    local->awaited = self;                   /* fjpy_task_interrupt finds it there */
    do {
        status = fj_current != NULL ? wait_in_worker(self, waiting, deadline)
                                    : wait_outside(self, waiting, deadline);
    } while (status == FJ_INTERRUPTED && PyErr_CheckSignals() == 0);
    local->awaited = outer;
    if (status != FJ_OK && !PyErr_Occurred()) {
        bool too_deep = (status == FJ_STARVED || status == FJ_AT_LIMIT)
                     && !fjpy_may_nest(fj_current);
        if (too_deep) {
            PyErr_SetString(PyExc_RecursionError,
                            "tasks wait for each other too deep for one thread, and max_workers "
                            "allows no other to go on");
        } else {
            (void)fjpy_raise(status);
        }
    }
    return status == FJ_OK ? 0 : -1;
}

/* Attached: neither the runner's thread nor what it awaits can go meanwhile. */
void fjpy_task_interrupt(fjpy_task_t *self)
{
    fj_task_request_stop(&self->task);
    if (self->runner != NULL && self->runner->awaited != NULL) {
        fj_task_poke(&self->runner->awaited->task);
    }
}

int fjpy_task_wait(fjpy_task_t *self, int64_t deadline)
{
    if (is_done(self)) {
        return 0;
    }
    if (self->epoch != fjpy_epoch && self->body != FJPY_NO_BODY && state_of(self) != FJ_NEW) {
        PyErr_SetString(fjpy.broken_error, "this task was queued before os.fork(); its workers "
                                           "live in the parent process");
        return -1;
    }
    if (fj_current == NULL && self->own
        && fj_run_outside(fj_task_pool(&self->task), &self->task)) {
        return 0;
    }
    return wait_somewhere(self, deadline);
}

/* ---- making and queueing ---- */

static fjpy_task_t *task_new(PyTypeObject *type)
{
    fjpy_task_t *self = (fjpy_task_t *)type->tp_alloc(type, 0);
    if (self != NULL) {
        fj_task_init(&self->task, &fjpy_task_ops); /* the rest is zero */
        self->epoch = fjpy_epoch;
    }
    return self;
}

fjpy_task_t *fjpy_future_bare(void)
{
    return task_new(fjpy.future_type);
}

static PyObject *keywords(PyObject *const *values, PyObject *names)
{
    PyObject *kwargs = PyDict_New();
    for (Py_ssize_t i = 0; kwargs != NULL && i < PyTuple_GET_SIZE(names); i++) {
        if (PyDict_SetItem(kwargs, PyTuple_GET_ITEM(names, i), values[i]) < 0) {
            Py_CLEAR(kwargs);
        }
    }
    return kwargs;
}

/* Outside the cyclic collector until it is done: while it is queued or runs, its
 * references are the pool's. A hundred thousand of them cost it nothing. */
fjpy_task_t *fjpy_future_new(PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    if (nargs == 0 || !PyCallable_Check(args[0])) {
        PyErr_Format(PyExc_TypeError, "a future expects a callable and its arguments, not %.100s",
                     nargs == 0 ? "nothing" : Py_TYPE(args[0])->tp_name);
        return NULL;
    }
    fjpy_task_t *self = task_new(fjpy.future_type);
    if (self == NULL) {
        return NULL;
    }
    PyObject_GC_UnTrack(self);
    self->untracked = true;
    self->body = FJPY_CALL;
    self->function = Py_NewRef(args[0]);
    self->args = PyTuple_New(nargs - 1);
    for (Py_ssize_t i = 1; self->args != NULL && i < nargs; i++) {
        PyTuple_SET_ITEM(self->args, i - 1, Py_NewRef(args[i]));
    }
    bool ok = self->args != NULL;
    if (ok && kwnames != NULL && PyTuple_GET_SIZE(kwnames) > 0) {
        self->kwargs = keywords(args + nargs, kwnames);
        ok = self->kwargs != NULL;
    }
    if (!ok) {
        Py_CLEAR(self);
    }
    return self;
}

/* NEW -> QUEUED with a reference for the entry. 1: go on; 0: nothing to queue,
 * it is done already; -1: an exception. */
static int prepare(fjpy_task_t *self, fj_pool_t *pool)
{
    if (self->body == FJPY_NO_BODY) {
        PyErr_SetString(PyExc_TypeError, "expected a task with something to run: subclass "
                                         "RecursiveTask or RecursiveAction, or use @fjpool.task");
        return -1;
    }
    PyObject *context = PyContext_CopyCurrent();
    if (context == NULL) {
        return -1;
    }
    if (!fj_task_try_queue(&self->task, pool)) {
        Py_DECREF(context);
        if (is_done(self)) {
            return 0;
        }
        PyErr_SetString(PyExc_RuntimeError, "the task is queued or running already");
        return -1;
    }
    Py_XSETREF(self->context, context);
    self->epoch = fjpy_epoch;
    Py_INCREF(self);                         /* the entry's */
    return 1;
}

static int unprepare(fjpy_task_t *self, fj_status_t status)
{
    (void)fj_task_try_unqueue(&self->task);
    Py_CLEAR(self->context);
    Py_DECREF(self);
    (void)fjpy_raise(status);
    return -1;
}

int fjpy_task_submit(fjpy_task_t *self, fjpy_shared_t *shared)
{
    if (fjpy_exiting && fj_worker_pool(fj_current) != shared->pool) {
        (void)fjpy_raise(FJ_REJECTED);       /* no threads from here on */
        return -1;
    }
    int go = prepare(self, shared->pool);
    if (go <= 0) {
        return go;
    }
    fj_task_t *task = &self->task;
    self->own = self->own || shared->callers_run;
    fj_status_t status = fj_pool_submit(shared->pool, &task, 1);
    return status == FJ_OK ? 0 : unprepare(self, status);
}

int fjpy_task_fork(fjpy_task_t *self)
{
    if (fj_current != NULL) {
        int go = prepare(self, fj_worker_pool(fj_current));
        fj_status_t status = go > 0 ? fj_fork(&self->task) : FJ_OK;
        return status != FJ_OK ? unprepare(self, status) : go < 0 ? -1 : 0;
    }
    fjpy_pool_t *pool = fjpy_ambient_pool();
    if (pool == NULL) {
        return -1;
    }
    self->own = pool->shared->common;
    int result = fjpy_task_submit(self, pool->shared);
    Py_DECREF(pool);
    return result;
}

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
    return PyBool_FromLong(is_done(self));
}

METHOD(running)
{
    return PyBool_FromLong(state_of(self) == FJ_RUNNING);
}

METHOD(cancelled)
{
    return PyBool_FromLong(state_of(self) == FJ_CANCELLED);
}

METHOD(cancel)
{
    /* True again for a task that is cancelled already. */
    return PyBool_FromLong(fjpy_task_finish(self, FJ_CANCELLED, NULL)
                           || state_of(self) == FJ_CANCELLED);
}

METHOD(request_cancel)
{
    if (fjpy_task_finish(self, FJ_CANCELLED, NULL)) {
        Py_RETURN_TRUE;
    }
    if (is_done(self)) {
        return PyBool_FromLong(state_of(self) == FJ_CANCELLED);
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
    return PyBool_FromLong(state_of(self) == FJ_NORMAL);
}

METHOD(is_completed_abnormally)
{
    return PyBool_FromLong(is_done(self) && state_of(self) != FJ_NORMAL);
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
    if (state_of(self) == FJ_CANCELLED) {
        PyErr_SetNone(fjpy.cancelled_error);
        return NULL;
    }
    return Py_NewRef(self->exception != NULL ? self->exception : Py_None);
}

static PyObject *task_complete(fjpy_task_t *self, PyObject *value)
{
    if (is_done(self)) {
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
                 state_of(self) == FJ_CANCELLED ? "CANCELLED" : "FINISHED", self);
    return NULL;
}

static PyObject *task_set_result(fjpy_task_t *self, PyObject *value)
{
    if (is_done(self) || !fjpy_task_finish(self, FJ_NORMAL, Py_NewRef(value))) {
        return invalid_state(self);
    }
    Py_RETURN_NONE;
}

static PyObject *task_set_exception(fjpy_task_t *self, PyObject *argument)
{
    PyObject *exception = exception_instance(argument);
    if (exception == NULL) {
        return NULL;
    }
    if (is_done(self)) {
        Py_DECREF(exception);
        return invalid_state(self);
    }
    if (!fjpy_task_finish(self, FJ_FAILED, exception)) {
        return invalid_state(self);
    }
    Py_RETURN_NONE;
}

static PyObject *task_add_done_callback(fjpy_task_t *self, PyObject *callback)
{
    if (is_done(self)) {
        call_back(self, callback);
    } else if ((self->callbacks == NULL && (self->callbacks = PyList_New(0)) == NULL)
               || PyList_Append(self->callbacks, callback) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

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
    {"result", (PyCFunction)(void (*)(void))task_result, METH_FASTCALL | METH_KEYWORDS,
     FJPY_TASK_RESULT_DOC},
    {"exception", (PyCFunction)(void (*)(void))task_exception, METH_FASTCALL | METH_KEYWORDS,
     FJPY_TASK_EXCEPTION_DOC},
    {"complete", (PyCFunction)task_complete, METH_O, FJPY_TASK_COMPLETE_DOC},
    {"complete_exceptionally", (PyCFunction)task_complete_exceptionally, METH_O,
     FJPY_TASK_COMPLETE_EXCEPTIONALLY_DOC},
    {"set_result", (PyCFunction)task_set_result, METH_O, FJPY_TASK_SET_RESULT_DOC},
    {"set_exception", (PyCFunction)task_set_exception, METH_O, FJPY_TASK_SET_EXCEPTION_DOC},
    {"add_done_callback", (PyCFunction)task_add_done_callback, METH_O,
     FJPY_TASK_ADD_DONE_CALLBACK_DOC},
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, NULL},
    {NULL, NULL, 0, NULL},
};

/* ---- what concurrent.futures looks at ---- */

static PyObject *get_state(fjpy_task_t *self, void *Py_UNUSED(closure))
{
    static const char *const names[] = {
        [FJ_NEW] = "PENDING", [FJ_QUEUED] = "PENDING", [FJ_RUNNING] = "RUNNING",
        [FJ_NORMAL] = "FINISHED", [FJ_FAILED] = "FINISHED", [FJ_CANCELLED] = "CANCELLED",
    };
    fj_state_t state = state_of(self);
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
    if (is_done(self) && state_of(self) != FJ_CANCELLED) {
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
    (void)fj_or_acqrel(&self->task.status, FJ_TASK_EXTRA);
    if (is_done(self)) {
        track(self);
    }
    return 0;
}

static PyObject *get_condition(fjpy_task_t *self, void *Py_UNUSED(closure))
{
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
    fjpy_task_t *self = task_new(type);
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
    forget_body(self);
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
