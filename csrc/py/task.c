/* task.c - the life of _core.Task, a task and a future in one object; its type and
 * methods are in task_type.c.
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

/* Tasks in a chain, each submitted by the one before, since the pool was shut down. */
enum { MOST_LATE = 1000000 };

fjpy_task_t *fjpy_task_of(fj_task_t *task)
{
    return FJ_CONTAINER(task, fjpy_task_t, task);
}

/* ---- completing ---- */

void fjpy_task_forget_body(fjpy_task_t *self)
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
    if (fjpy_task_is_done(self)) {
        Py_DECREF(value);
        return false;
    }
    set_outcome(self, state, value);
    (void)fj_task_complete(&self->task, state);
    return true;
}

void fjpy_task_call_back(fjpy_task_t *self, PyObject *callback)
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
        fjpy_task_call_back(self, callback);
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
void fjpy_task_track(fjpy_task_t *self)
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
    /* pairs with the or in inflate (task_type.c) */
    bool inflated = (fj_load_acquire(&self->task.status) & FJ_TASK_EXTRA) != 0
                 && self->condition != NULL;
    bool won = inflated ? commit_inflated(self, state, value) : commit(self, state, value);
    if (won) {
        if (state == FJ_CANCELLED && self->body != FJPY_NO_BODY) {
            self->notified = true;           /* nobody else would tell the waiters */
        }
        fjpy_task_forget_body(self);
        fjpy_task_track(self);
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
    switch (fjpy_task_state(self)) {
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
    status = fj_task_watch(&self->task, slice)
                 ? FJ_OK
                 : fj_task_wait_for(waiting, &self->task, slice);
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

/* Nobody in this process will run it, unless this very thread is at it: it fails
 * as soon as somebody looks. */
void fjpy_task_check_inherited(fjpy_task_t *self)
{
    if (self->epoch != fjpy_epoch && self->body != FJPY_NO_BODY && !fjpy_task_is_done(self)
        && fjpy_task_state(self) != FJ_NEW && self->runner != fjpy_local()) {
        PyErr_SetString(fjpy.broken_error, "this task was queued before os.fork(); its workers "
                                           "live in the parent process");
        Py_CLEAR(self->condition);           /* a lock of it may be held by a thread of the parent */
        self->epoch = fjpy_epoch;
        (void)fjpy_task_finish(self, FJ_FAILED, fjpy_take_exception());
    }
}

/* At exit private pools have finished, so what is not done by then never will be. */
static bool is_left_behind(fjpy_task_t *self)
{
    return fjpy_abandoned && self->body != FJPY_NO_BODY && fjpy_task_state(self) != FJ_NEW
        && self->runner != fjpy_local();
}

int fjpy_task_wait(fjpy_task_t *self, int64_t deadline)
{
    fjpy_task_check_inherited(self);
    if (fjpy_task_is_done(self)) {
        return 0;
    }
    if (is_left_behind(self)) {
        PyErr_SetString(fjpy.cancelled_error, "the interpreter is shutting down, and the worker "
                                              "that runs this task was left behind");
        return -1;
    }
    if (fj_current == NULL && self->own
        && fj_run_outside(fj_task_pool(&self->task), &self->task)) {
        return 0;
    }
    return wait_somewhere(self, deadline);
}

/* ---- making and queueing ---- */

fjpy_task_t *fjpy_task_new(PyTypeObject *type)
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
    return fjpy_task_new(fjpy.future_type);
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
    fjpy_task_t *self = fjpy_task_new(fjpy.future_type);
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
        if (fjpy_task_is_done(self)) {
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

void fjpy_task_unsubmit(fjpy_task_t *self)
{
    (void)fj_task_try_unqueue(&self->task);
    Py_CLEAR(self->context);
    Py_DECREF(self);
}

static int unprepare(fjpy_task_t *self, fj_status_t status)
{
    fjpy_task_unsubmit(self);
    if (!PyErr_Occurred()) {
        (void)fjpy_raise(status);
    }
    return -1;
}

/* A pool that was shut down takes what its own tasks submit, so that they get done.
 * A chain of tasks of which each submits the next ends all the same. */
static bool is_too_late(fjpy_task_t *self, fj_pool_t *pool)
{
    fjpy_task_t *submitter = fjpy_local()->current;
    if (submitter == NULL || !(fj_pool_phase(pool) & FJ_PHASE_SHUTDOWN)) {
        return false;
    }
    self->late = submitter->late + 1;
    return self->late > MOST_LATE;
}

int fjpy_task_prepare(fjpy_task_t *self, fjpy_shared_t *shared)
{
    bool mine = fj_worker_pool(fj_current) == shared->pool;
    if (mine ? is_too_late(self, shared->pool) : fjpy_exiting) {
        (void)fjpy_raise(FJ_REJECTED);       /* exiting: no threads from here on */
        return -1;
    }
    int go = prepare(self, shared->pool);
    self->own = self->own || (go > 0 && shared->callers_run);
    return go;
}

/* Until n tasks may find room, or the handler of a signal raises. */
static int await_room(fjpy_shared_t *shared, size_t n)
{
    fj_status_t status;
    (void)fj_block_begin(fj_current);        /* another pool's worker may hand in */
    do {
        int64_t slice = fjpy_slice(FJ_FOREVER);
        Py_BEGIN_ALLOW_THREADS
        status = fj_pool_await_room(shared->pool, n, shared->max_queued, slice);
        Py_END_ALLOW_THREADS
    } while (status != FJ_OK && PyErr_CheckSignals() == 0);
    fj_block_end(fj_current);
    return status == FJ_OK ? 0 : -1;
}

fj_status_t fjpy_hand_in(fjpy_shared_t *shared, fj_task_t *const *tasks, size_t n)
{
    fj_status_t status;
    do {
        status = fj_pool_offer(shared->pool, tasks, n, shared->max_queued);
    } while (status == FJ_NO_ROOM && shared->waits_for_room && await_room(shared, n) == 0);
    return status;
}

int fjpy_task_submit(fjpy_task_t *self, fjpy_shared_t *shared)
{
    fj_task_t *task = &self->task;
    int go = fjpy_task_prepare(self, shared);
    if (go <= 0) {
        return go;
    }
    fj_status_t status = fjpy_hand_in(shared, &task, 1);
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
