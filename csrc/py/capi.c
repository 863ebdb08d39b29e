/* capi.c - the capsule behind fjpool.h: the core's functions for other extensions.
 *
 * Everything here runs without the GIL unless it says so.
 */
#include "fjpy.h"

static _Thread_local PyObject *interruption; /* what a signal's handler raised */

/* In the thread that handles signals: has a handler raised? Its exception is kept for
 * fj_raise, since the caller's code runs before it can look. */
static bool interrupted(void)
{
    PyGILState_STATE state = PyGILState_Ensure();
    bool raised = PyErr_CheckSignals() < 0;
    if (raised) {
        Py_XSETREF(interruption, fjpy_take_exception());
    }
    PyGILState_Release(state);
    return raised;
}

/* The pool that NULL stands for. */
static fj_pool_t *ambient(void)
{
    if (fj_current != NULL) {
        return fj_worker_pool(fj_current);
    }
    PyGILState_STATE state = PyGILState_Ensure();
    fjpy_pool_t *pool = fjpy_ambient_pool();
    fj_pool_t *found = pool != NULL ? pool->shared->pool : NULL;
    PyErr_Clear();                           /* the code says that it was refused */
    Py_XDECREF(pool);                        /* the common one, or kept by `with use` */
    PyGILState_Release(state);
    return found;
}

/* Threads outside take part in what they ask for. */
static bool takes_callers(fj_pool_t *pool)
{
    fjpy_shared_t *shared = fj_pool_user(pool);
    return shared->common || shared->callers_run;
}

static int run(fj_pool_t *pool, fj_body_t body, void *data)
{
    pool = pool != NULL ? pool : ambient();
    if (pool == NULL || (fjpy_exiting && fj_worker_pool(fj_current) != pool)) {
        return FJ_CODE_REFUSED;
    }
    bool main_thread = PyThread_get_thread_ident() == fjpy.main_thread;
    bool takes_part = fj_current == NULL && takes_callers(pool);
    fj_worker_t *guest = takes_part ? fj_guest_enter(pool) : NULL;
    if (takes_part && guest == NULL) {
        return FJ_CODE_NO_MEMORY;            /* there may be no worker but the caller */
    }
    int code = fj_run(pool, body, data, main_thread ? interrupted : NULL);
    if (guest != NULL) {
        fj_guest_leave(guest);
    }
    return code;
}

typedef struct call {
    const fj_loop_t *loop;
    fj_value_t *value;
} call_t;

static int run_loop(fj_worker_t *worker, void *data)
{
    call_t *call = data;
    return fj_run_loop(worker, call->loop, call->value);
}

static int parallel(fj_pool_t *pool, const fj_loop_t *loop, fj_value_t *value)
{
    call_t call = {loop, value};
    if (fj_current != NULL && (pool == NULL || pool == fj_worker_pool(fj_current))) {
        return run_loop(fj_current, &call);
    }
    return run(pool, run_loop, &call);
}

static fj_worker_t *worker(void)
{
    return fj_current;
}

/* A place is free again before the thread stops counting, so no more are in use than
 * there may be threads; callers that take part come on top. */
static uint32_t worker_bound(fj_pool_t *pool)
{
    return takes_callers(pool) ? FJ_MAX_WORKERS : fj_pool_max_workers(pool);
}

static void block_begin(fj_worker_t *self)
{
    (void)fj_block_begin(self);              /* at the limit: uncompensated */
}

/* ---- with the GIL ---- */

static fj_pool_t *pool_from_object(void *object)
{
    fjpy_shared_t *shared = NULL;
    if (object == NULL || object == Py_None) {
        fjpy_pool_t *pool = fj_current == NULL ? fjpy_ambient_pool() : NULL;
        shared = fj_current != NULL ? fj_pool_user(fj_worker_pool(fj_current))
               : pool != NULL       ? pool->shared
                                    : NULL;
        Py_XDECREF(pool);                    /* the common one, or kept by `with use` */
    } else if (!PyObject_TypeCheck((PyObject *)object, fjpy.pool_type)) {
        PyErr_Format(PyExc_TypeError, "expected a ForkJoinPool or None, not %.100s",
                     Py_TYPE((PyObject *)object)->tp_name);
    } else {
        shared = fjpy_pool_usable(object);
    }
    return shared != NULL ? shared->pool : NULL;
}

static void *raise(int code)
{
    PyObject *exception, *number;
    switch (code) {
    case FJ_CODE_NO_MEMORY:
        return PyErr_NoMemory();
    case FJ_CODE_REFUSED:
        return fjpy_raise(FJ_REJECTED);
    case FJ_CODE_CANCELLED:
        PyErr_SetString(fjpy.cancelled_error, "the pool was stopped");
        return NULL;
    case FJ_CODE_INTERRUPTED:
        exception = interruption;
        interruption = NULL;
        break;
    default:
        number = PyLong_FromLong(code);
        exception = number != NULL ? fjpy_hook("leaf_code", number) : NULL;
        Py_XDECREF(number);
        break;
    }
    if (exception != NULL) {
        PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
        Py_DECREF(exception);
    } else if (!PyErr_Occurred()) {
        PyErr_SetNone(PyExc_KeyboardInterrupt); /* raised once already, for the same call */
    }
    return NULL;
}

static const fj_api_t api = {
    .abi = FJPOOL_ABI,
    .size = sizeof(fj_api_t),
    .frame_forked = fj_frame_forked,
    .frame_take_back = fj_frame_take_back,
    .fork_data = fj_fork_data,
    .fork_frame = fj_fork_frame,
    .join_frame = fj_join_frame,
    .run = run,
    .parallel = parallel,
    .worker = worker,
    .worker_index = fj_worker_index,
    .worker_bound = worker_bound,
    .cancelled = fj_run_cancelled,
    .fail = fj_run_fail,
    .block_begin = block_begin,
    .block_end = fj_block_end,
    .pool_from_object = pool_from_object,
    .raise = raise,
};

int fjpy_capi_add(PyObject *module)
{
    PyObject *capsule = PyCapsule_New((void *)(uintptr_t)&api, "fjpool._core.api", NULL);
    int result = capsule != NULL ? PyModule_AddObjectRef(module, "api", capsule) : -1;
    Py_XDECREF(capsule);
    return result;
}
