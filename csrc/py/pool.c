/* pool.c - _core.Pool: the Python handle of a core pool, and the list of all
 * pools, which exit and fork need. */
#include "fjpy.h"
#include "docs.h"

#include <string.h>

static fj_mutex_t list_lock;      /* after fork: made new in the child */
static fjpy_shared_t *list;

uint32_t fjpy_epoch;
bool fjpy_exiting, fjpy_abandoned;

/* ---- the shared part ---- */

static void link_shared(fjpy_shared_t *shared)
{
    fj_mutex_lock(&list_lock);
    shared->next = list;
    shared->link = &list;
    if (list != NULL) {
        list->link = &shared->next;
    }
    list = shared;
    fj_mutex_unlock(&list_lock);
}

static void unlink_shared(fjpy_shared_t *shared)
{
    fj_mutex_lock(&list_lock);
    *shared->link = shared->next;
    if (shared->next != NULL) {
        shared->next->link = shared->link;
    }
    fj_mutex_unlock(&list_lock);
}

/* The core's pool goes, in whatever thread had the last reference. */
static void destroyed(void *user)
{
    fjpy_shared_t *shared = user;
    unlink_shared(shared);
    bool python = shared->initializer != NULL || shared->finalizer != NULL
               || shared->saturate != NULL;
    if (python && !fj_load_relaxed(&shared->abandoned) && !fjpy_exiting) {
        PyGILState_STATE state = PyGILState_Ensure();
        Py_XDECREF(shared->initializer);
        Py_XDECREF(shared->initargs);
        Py_XDECREF(shared->finalizer);
        Py_XDECREF(shared->saturate);
        PyGILState_Release(state);
    }
    free(shared->prefix);
    free(shared);
}

bool fjpy_shared_is_broken(fj_pool_t *pool)
{
    return ((fjpy_shared_t *)fj_pool_user(pool))->broken;
}

/* ---- the type ---- */

static fjpy_pool_t *as_pool(PyObject *object)
{
    return (fjpy_pool_t *)object;
}

fjpy_shared_t *fjpy_pool_shared(PyObject *object)
{
    fjpy_shared_t *shared = as_pool(object)->shared;
    if (shared == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "the pool was not initialized: call super().__init__()");
        return NULL;
    }
    if (shared->epoch != fjpy_epoch) {
        PyErr_SetString(PyExc_RuntimeError,
                        "this pool was created before os.fork(); its workers live in the parent "
                        "process: create a new pool here, or use fjpool.common_pool()");
        return NULL;
    }
    return shared;
}

fjpy_shared_t *fjpy_pool_usable(PyObject *object)
{
    fjpy_shared_t *shared = fjpy_pool_shared(object);
    if (shared != NULL && shared->broken) {
        (void)fjpy_raise_broken();
        return NULL;
    }
    return shared;
}

static int tp_init(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"parallelism", "max_workers", "fifo", "keep_alive", "stack_size",
                            "queue_capacity", "prefix", "first", "initializer", "initargs",
                            "finalizer", "join_at_exit", "common", "min_runnable", "eager",
                            "monitor", "max_unannounced", "window", "saturate",
                            "max_queued", "waits_for_room", NULL};
    unsigned int parallelism, max_workers, first, min_runnable, max_unannounced;
    int fifo, join_at_exit, common, eager, monitor, waits_for_room;
    double keep_alive, window;
    Py_ssize_t stack_size, queue_capacity, max_queued;
    const char *prefix;
    PyObject *initializer, *initargs, *finalizer, *saturate;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "IIpdnnsIOO!OppIppIdOnp", names, &parallelism,
                                     &max_workers, &fifo, &keep_alive, &stack_size,
                                     &queue_capacity, &prefix, &first, &initializer,
                                     &PyTuple_Type, &initargs, &finalizer, &join_at_exit,
                                     &common, &min_runnable, &eager, &monitor,
                                     &max_unannounced, &window, &saturate, &max_queued,
                                     &waits_for_room)) {
        return -1;
    }
    if (as_pool(object)->shared != NULL) {
        PyErr_SetString(PyExc_RuntimeError, "the pool is initialized already");
        return -1;
    }
    fjpy_shared_t *shared = calloc(1, sizeof *shared);
    if (shared == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    fj_config_t config = fj_config_default(parallelism);
    config.max_workers = max_workers;
    config.min_runnable = min_runnable;
    config.eager = eager;
    config.monitor = monitor;
    config.max_unannounced = max_unannounced;
    config.window = (int64_t)(window * 1e9);
    config.fifo = fifo;
    config.keep_alive = keep_alive < 9e9 ? (int64_t)(keep_alive * 1e9) : FJ_FOREVER;
    config.stack_size = (size_t)stack_size;
    config.queue_capacity = (size_t)queue_capacity;
    config.user = shared;
    config.hooks = (fj_hooks_t){fjpy_worker_start, fjpy_detach, fjpy_may_nest, fjpy_saturate,
                                fjpy_own_word, fjpy_orphaned, fjpy_worker_stop, destroyed};
    shared->prefix = strdup(prefix);
    shared->pool = shared->prefix != NULL ? fj_pool_create(&config) : NULL;
    if (shared->pool == NULL) {
        free(shared->prefix);
        free(shared);
        PyErr_NoMemory();
        return -1;
    }
    shared->owner = object;
    shared->initializer = initializer != Py_None ? Py_NewRef(initializer) : NULL;
    shared->initargs = shared->initializer != NULL ? Py_NewRef(initargs) : NULL;
    shared->finalizer = finalizer != Py_None ? Py_NewRef(finalizer) : NULL;
    shared->saturate = saturate != Py_None ? Py_NewRef(saturate) : NULL;
    shared->max_queued = (size_t)max_queued;
    shared->waits_for_room = waits_for_room;
    shared->first = first;
    shared->join_at_exit = join_at_exit;
    shared->common = common;
    shared->callers_run = parallelism == 0;
    shared->epoch = fjpy_epoch;
    link_shared(shared);
    as_pool(object)->shared = shared;
    return 0;
}

static int tp_traverse(PyObject *object, visitproc visit, void *arg)
{
    fjpy_shared_t *shared = as_pool(object)->shared;
    Py_VISIT(Py_TYPE(object));
    if (shared != NULL) {
        Py_VISIT(shared->initializer);
        Py_VISIT(shared->initargs);
        Py_VISIT(shared->finalizer);
        Py_VISIT(shared->saturate);
    }
    return 0;
}

/* From now on nobody may revive it through current_pool. */
static void tp_finalize(PyObject *object)
{
    fjpy_shared_t *shared = as_pool(object)->shared;
    if (shared != NULL) {
        shared->owner = NULL;
    }
}

/* Dropped without shutdown: what is queued still runs, then the threads go. */
static void tp_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    fjpy_shared_t *shared = as_pool(object)->shared;
    PyObject_GC_UnTrack(object);
    if (shared != NULL && shared->epoch == fjpy_epoch) { /* else: the parent's, let it lie */
        fj_pool_t *pool = shared->pool;
        fj_pool_shutdown(pool);
        fj_pool_release(pool);
    }
    type->tp_free(object);
    Py_DECREF(type);
}

/* ---- handing in ---- */

static PyObject *pool_submit(PyObject *object, PyObject *const *args, Py_ssize_t nargs,
                             PyObject *kwnames)
{
    fjpy_shared_t *shared = fjpy_pool_usable(object);
    fjpy_task_t *future = shared != NULL ? fjpy_future_new(args, nargs, kwnames) : NULL;
    if (future != NULL && fjpy_task_submit(future, shared) < 0) {
        Py_CLEAR(future);
    }
    return (PyObject *)future;
}

static PyObject *pool_execute(PyObject *object, PyObject *const *args, Py_ssize_t nargs,
                              PyObject *kwnames)
{
    fjpy_shared_t *shared = fjpy_pool_usable(object);
    fjpy_task_t *future = shared != NULL ? fjpy_future_new(args, nargs, kwnames) : NULL;
    if (future == NULL) {
        return NULL;
    }
    future->unseen = true;
    int result = fjpy_task_submit(future, shared);
    Py_DECREF(future);
    return result < 0 ? NULL : Py_NewRef(Py_None);
}

/* What was made ready of the futures of a submit_many that fails. */
static void take_back(PyObject *futures, fj_status_t status)
{
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(futures); i++) {
        fjpy_task_unsubmit((fjpy_task_t *)PyList_GET_ITEM(futures, i));
    }
    if (status != FJ_OK) {
        (void)fjpy_raise(status);
    }
}

/* A list of futures, each made ready; NULL: an exception. */
static PyObject *prepared_futures(fjpy_shared_t *shared, PyObject *fn, PyObject *items)
{
    PyObject *futures = PyList_New(0), *item;
    PyObject *iterator = futures != NULL ? PyObject_GetIter(items) : NULL;
    while (iterator != NULL && (item = PyIter_Next(iterator)) != NULL) {
        PyObject *args[] = {fn, item};
        fjpy_task_t *future = fjpy_future_new(args, 2, NULL);
        Py_DECREF(item);
        bool ready = future != NULL && fjpy_task_prepare(future, shared) > 0;
        int appended = ready ? PyList_Append(futures, (PyObject *)future) : -1;
        if (ready && appended < 0) {
            fjpy_task_unsubmit(future);
        }
        Py_XDECREF(future);
        if (appended < 0) {
            break;
        }
    }
    Py_XDECREF(iterator);
    if (PyErr_Occurred()) {
        if (futures != NULL) {
            take_back(futures, FJ_OK);
        }
        Py_CLEAR(futures);
    }
    return futures;
}

/* _submit_many(fn, items, unseen): all at once, or none. */
static PyObject *pool_submit_many(PyObject *object, PyObject *args)
{
    PyObject *fn, *items;
    int unseen;
    fjpy_shared_t *shared = fjpy_pool_usable(object);
    if (shared == NULL || !PyArg_ParseTuple(args, "OOp:_submit_many", &fn, &items, &unseen)) {
        return NULL;
    }
    PyObject *futures = prepared_futures(shared, fn, items);
    if (futures == NULL) {
        return NULL;
    }
    size_t n = (size_t)PyList_GET_SIZE(futures);
    fj_task_t **tasks = PyMem_New(fj_task_t *, n + 1);
    fj_status_t status = tasks != NULL ? FJ_OK : FJ_NO_MEMORY;
    if (status == FJ_OK) {
        for (size_t i = 0; i < n; i++) {
            fjpy_task_t *future = (fjpy_task_t *)PyList_GET_ITEM(futures, (Py_ssize_t)i);
            future->unseen = unseen;
            tasks[i] = &future->task;
        }
        status = fjpy_hand_in(shared, tasks, n);
    }
    PyMem_Free(tasks);
    if (status != FJ_OK) {
        take_back(futures, PyErr_Occurred() ? FJ_OK : status);
        Py_CLEAR(futures);
    }
    return futures;
}

static PyObject *pool_submit_task(PyObject *object, PyObject *task)
{
    fjpy_shared_t *shared = fjpy_pool_usable(object);
    if (shared == NULL) {
        return NULL;
    }
    if (!PyObject_TypeCheck(task, fjpy.task_type)) {
        PyErr_Format(PyExc_TypeError, "expected a task, not %.100s", Py_TYPE(task)->tp_name);
        return NULL;
    }
    return fjpy_task_submit((fjpy_task_t *)task, shared) < 0 ? NULL : Py_NewRef(task);
}

static PyObject *pool_is_mine(PyObject *object, PyObject *Py_UNUSED(none))
{
    fjpy_shared_t *shared = fjpy_pool_shared(object);
    return shared == NULL ? NULL : PyBool_FromLong(fj_worker_pool(fj_current) == shared->pool);
}

static PyObject *pool_is_broken(PyObject *object, PyObject *Py_UNUSED(none))
{
    fjpy_shared_t *shared = fjpy_pool_shared(object);
    return shared == NULL ? NULL : PyBool_FromLong(shared->broken);
}

static PyObject *pool_is_inherited(PyObject *object, PyObject *Py_UNUSED(none))
{
    fjpy_shared_t *shared = as_pool(object)->shared;
    return PyBool_FromLong(shared != NULL && shared->epoch != fjpy_epoch);
}

/* ---- the end ---- */

static PyObject *pool_shutdown(PyObject *object, PyObject *Py_UNUSED(none))
{
    fjpy_shared_t *shared = fjpy_pool_shared(object);
    if (shared == NULL) {
        return NULL;
    }
    fj_pool_shutdown(shared->pool);
    Py_RETURN_NONE;
}

static PyObject *pool_stop(PyObject *object, PyObject *Py_UNUSED(none))
{
    fjpy_shared_t *shared = fjpy_pool_shared(object);
    if (shared == NULL) {
        return NULL;
    }
    fj_pool_stop(shared->pool);              /* cancelling runs callbacks: attached */
    Py_RETURN_NONE;
}

/* Asks everything that runs to stop, and wakes it where it waits. */
static PyObject *pool_interrupt(PyObject *object, PyObject *Py_UNUSED(none))
{
    fjpy_shared_t *shared = fjpy_pool_shared(object);
    fj_worker_state_t state;
    if (shared == NULL) {
        return NULL;
    }
    for (uint32_t i = 0; fj_pool_worker_state(shared->pool, i, &state); i++) {
        fjpy_local_t *local = state.present ? state.local : NULL;
        for (fjpy_task_t *task = local != NULL ? local->current : NULL; task != NULL;
             task = task->outer) {
            fjpy_task_interrupt(task);
        }
    }
    Py_RETURN_NONE;
}

/* One tuple a worker: name, activity, seconds in its task, native thread id,
 * Python thread id, the task, what it awaits. */
static PyObject *pool_worker_states(PyObject *object, PyObject *Py_UNUSED(none))
{
    static const char *const names[] = {
        [FJ_IDLE] = "idle", [FJ_SEARCHING] = "searching", [FJ_BUSY] = "running",
        [FJ_JOINING] = "joining", [FJ_BLOCKED] = "managed-blocked",
        [FJ_UNANNOUNCED] = "blocked unannounced",
    };
    fjpy_shared_t *shared = fjpy_pool_shared(object);
    PyObject *rows = shared != NULL ? PyList_New(0) : NULL;
    fj_worker_state_t state;
    for (uint32_t i = 0; rows != NULL && fj_pool_worker_state(shared->pool, i, &state); i++) {
        if (!state.present) {
            continue;
        }
        fjpy_local_t *local = state.local;
        PyObject *task = local != NULL ? (PyObject *)local->current : NULL;
        PyObject *awaited = local != NULL ? (PyObject *)local->awaited : NULL;
        fj_os_sleep_t sleep = fj_os_sleeping(&state.thread);
        PyObject *name = fjpy_worker_name(shared, state.number);
        PyObject *row = name == NULL ? NULL : Py_BuildValue(
            "NsdLkOOlO", name, names[state.activity],
            (double)(fj_os_now_coarse() - state.since) * 1e-9, (long long)state.thread.id,
            local != NULL ? local->ident : 0, task != NULL ? task : Py_None,
            awaited != NULL ? awaited : Py_None, sleep.asleep ? sleep.call : -1,
            sleep.word != 0 && fjpy_own_word(sleep.word) ? Py_True : Py_False);
        if (row == NULL || PyList_Append(rows, row) < 0) {
            Py_CLEAR(rows);
        }
        Py_XDECREF(row);
    }
    return rows;
}

/* 1 done, 0 time-out, -1 a signal's handler raised. */
static int await(fj_pool_t *pool, int64_t deadline,
                 fj_status_t (*wait)(fj_pool_t *, int64_t))
{
    fj_status_t status;
    do {
        int64_t slice = fjpy_slice(deadline);
        Py_BEGIN_ALLOW_THREADS
        status = wait(pool, slice);
        Py_END_ALLOW_THREADS
        if (status == FJ_TIMEOUT && slice < deadline) {
            status = FJ_INTERRUPTED;
        }
        if (status == FJ_INTERRUPTED && PyErr_CheckSignals() < 0) {
            return -1;
        }
    } while (status == FJ_INTERRUPTED);
    return status == FJ_OK;
}

static PyObject *await_method(PyObject *object, PyObject *timeout,
                              fj_status_t (*wait)(fj_pool_t *, int64_t))
{
    fjpy_shared_t *shared = fjpy_pool_shared(object);
    int64_t deadline;
    if (shared == NULL || fjpy_deadline(timeout, &deadline) < 0) {
        return NULL;
    }
    if (fj_worker_pool(fj_current) == shared->pool) {
        PyErr_SetString(PyExc_RuntimeError, "a task cannot wait for the end of its own pool");
        return NULL;
    }
    if (fj_load_relaxed(&shared->abandoned)) {
        deadline = fj_os_deadline(0);        /* what has not come by now never will */
    }
    fj_block_begin(fj_current);              /* another pool's worker may wait */
    int result = await(shared->pool, deadline, wait);
    fj_block_end(fj_current);
    return result < 0 ? NULL : PyBool_FromLong(result);
}

static PyObject *pool_await_termination(PyObject *object, PyObject *timeout)
{
    return await_method(object, timeout, fj_pool_await_termination);
}

static PyObject *pool_await_quiescence(PyObject *object, PyObject *timeout)
{
    return await_method(object, timeout, fj_pool_await_quiescence);
}

static PyObject *pool_is_quiescent(PyObject *object, PyObject *Py_UNUSED(none))
{
    fjpy_shared_t *shared = fjpy_pool_shared(object);
    return shared == NULL ? NULL : PyBool_FromLong(fj_pool_is_quiescent(shared->pool));
}

static PyObject *pool_phase(PyObject *object, PyObject *Py_UNUSED(none))
{
    fjpy_shared_t *shared = fjpy_pool_shared(object);
    return shared == NULL ? NULL : PyLong_FromUnsignedLong(fj_pool_phase(shared->pool));
}

/* ---- numbers ---- */

enum number {
    PARALLELISM, POOL_SIZE, ACTIVE, RUNNING, QUEUED_TASKS, QUEUED_SUBMISSIONS, STEALS, HELPS,
    COMPLETED, LEAVES, BLOCKED, REFUSED, AT_LIMIT, UNANNOUNCED, DETECTIONS, MONITOR, SEARCHING
};

static PyObject *get_number(PyObject *object, void *closure)
{
    fjpy_shared_t *shared = fjpy_pool_shared(object);
    if (shared == NULL) {
        return NULL;
    }
    fj_stats_t stats = fj_pool_stats(shared->pool);
    const uint64_t numbers[] = {
        [PARALLELISM] = stats.parallelism, [POOL_SIZE] = stats.pool_size,
        [ACTIVE] = stats.active, [RUNNING] = stats.running,
        [QUEUED_TASKS] = stats.queued_tasks, [QUEUED_SUBMISSIONS] = stats.queued_submissions,
        [STEALS] = stats.steals, [HELPS] = stats.helps, [COMPLETED] = stats.completed,
        [LEAVES] = stats.leaves, [BLOCKED] = stats.blocked, [REFUSED] = stats.refused,
        [AT_LIMIT] = stats.at_limit, [UNANNOUNCED] = stats.unannounced,
        [DETECTIONS] = stats.detections, [MONITOR] = stats.monitor,
        [SEARCHING] = stats.searching,
    };
    return PyLong_FromUnsignedLongLong(numbers[(uintptr_t)closure]);
}

static PyObject *pool_worker_rows(PyObject *object, PyObject *Py_UNUSED(none))
{
    fjpy_shared_t *shared = fjpy_pool_shared(object);
    PyObject *rows = shared != NULL ? PyList_New(0) : NULL;
    fj_worker_stats_t stats;
    for (uint32_t i = 0; rows != NULL && fj_pool_worker_stats(shared->pool, i, &stats); i++) {
        PyObject *name = stats.guest ? PyUnicode_FromString("caller")
                                     : fjpy_worker_name(shared, stats.number);
        PyObject *row = name != NULL ? Py_BuildValue("NKKK", name, stats.leaves, stats.completed,
                                                     stats.steals)
                                     : NULL;
        if (row == NULL || PyList_Append(rows, row) < 0) {
            Py_CLEAR(rows);
        }
        Py_XDECREF(row);
    }
    return rows;
}

static PyObject *pool_set_parallelism(PyObject *object, PyObject *argument)
{
    fjpy_shared_t *shared = fjpy_pool_shared(object);
    unsigned long n = shared != NULL ? PyLong_AsUnsignedLong(argument) : 0;
    if (shared == NULL || (n == (unsigned long)-1 && PyErr_Occurred())) {
        return NULL;
    }
    return PyLong_FromUnsignedLong(fj_pool_set_parallelism(shared->pool, (uint32_t)n));
}

static PyMethodDef pool_methods[] = {
    {"submit", (PyCFunction)(void (*)(void))pool_submit, METH_FASTCALL | METH_KEYWORDS,
     FJPY_POOL_SUBMIT_DOC},
    {"execute", (PyCFunction)(void (*)(void))pool_execute, METH_FASTCALL | METH_KEYWORDS,
     FJPY_POOL_EXECUTE_DOC},
    {"_submit_task", pool_submit_task, METH_O, NULL},
    {"_submit_many", pool_submit_many, METH_VARARGS, NULL},
    {"_is_broken", pool_is_broken, METH_NOARGS, NULL},
    {"_is_inherited", pool_is_inherited, METH_NOARGS, NULL},
    {"_is_mine", pool_is_mine, METH_NOARGS, NULL},
    {"_refuse", pool_shutdown, METH_NOARGS, NULL},
    {"_stop", pool_stop, METH_NOARGS, NULL},
    {"_interrupt", pool_interrupt, METH_NOARGS, NULL},
    {"_worker_states", pool_worker_states, METH_NOARGS, NULL},
    {"_await_termination", pool_await_termination, METH_O, NULL},
    {"_await_quiescence", pool_await_quiescence, METH_O, NULL},
    {"_is_quiescent", pool_is_quiescent, METH_NOARGS, NULL},
    {"_phase", pool_phase, METH_NOARGS, NULL},
    {"_worker_rows", pool_worker_rows, METH_NOARGS, NULL},
    {"_set_parallelism", pool_set_parallelism, METH_O, NULL},
    {"_range", fjpy_pool_range, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

#define NUMBER(name, which, doc) {name, get_number, NULL, doc, (void *)(uintptr_t)(which)}

static PyGetSetDef pool_getset[] = {
    NUMBER("parallelism", PARALLELISM, FJPY_POOL_PARALLELISM_DOC),
    NUMBER("pool_size", POOL_SIZE, FJPY_POOL_POOL_SIZE_DOC),
    NUMBER("active_count", ACTIVE, FJPY_POOL_ACTIVE_COUNT_DOC),
    NUMBER("running_count", RUNNING, FJPY_POOL_RUNNING_COUNT_DOC),
    NUMBER("queued_task_count", QUEUED_TASKS, FJPY_POOL_QUEUED_TASK_COUNT_DOC),
    NUMBER("queued_submission_count", QUEUED_SUBMISSIONS, FJPY_POOL_QUEUED_SUBMISSION_COUNT_DOC),
    NUMBER("steal_count", STEALS, FJPY_POOL_STEAL_COUNT_DOC),
    NUMBER("_helps", HELPS, NULL),
    NUMBER("_completed", COMPLETED, NULL),
    NUMBER("_leaves", LEAVES, NULL),
    NUMBER("_blocked", BLOCKED, NULL),
    NUMBER("_refused", REFUSED, NULL),
    NUMBER("_at_limit", AT_LIMIT, NULL),
    NUMBER("_unannounced", UNANNOUNCED, NULL),
    NUMBER("_detections", DETECTIONS, NULL),
    NUMBER("_monitor", MONITOR, NULL),
    NUMBER("_searching", SEARCHING, NULL),
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot pool_slots[] = {
    {Py_tp_init, tp_init},
    {Py_tp_traverse, tp_traverse},
    {Py_tp_finalize, tp_finalize},
    {Py_tp_dealloc, tp_dealloc},
    {Py_tp_methods, pool_methods},
    {Py_tp_getset, pool_getset},
    {0, NULL},
};

static PyType_Spec pool_spec = {
    .name = "fjpool._core.Pool",
    .basicsize = sizeof(fjpy_pool_t),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = pool_slots,
};

int fjpy_pool_add(PyObject *module)
{
    fjpy.pool_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &pool_spec, NULL);
    return fjpy.pool_type != NULL ? PyModule_AddType(module, fjpy.pool_type) : -1;
}

fjpy_pool_t *fjpy_ambient_pool(void)
{
    PyObject *pool = fjpy_hook("ambient_pool", Py_None);
    if (pool != NULL && !PyObject_TypeCheck(pool, fjpy.pool_type)) {
        PyErr_Format(PyExc_TypeError, "expected a ForkJoinPool, not %.100s",
                     Py_TYPE(pool)->tp_name);
        Py_CLEAR(pool);
    }
    if (pool != NULL && fjpy_pool_usable(pool) == NULL) {
        Py_CLEAR(pool);
    }
    return (fjpy_pool_t *)pool;
}

fj_pool_t *fjpy_common_pool(void)
{
    fj_pool_t *found = NULL;
    fj_mutex_lock(&list_lock);
    for (fjpy_shared_t *shared = list; shared != NULL && found == NULL; shared = shared->next) {
        if (shared->common && shared->epoch == fjpy_epoch && fj_pool_try_retain(shared->pool)) {
            found = shared->pool;
        }
    }
    fj_mutex_unlock(&list_lock);
    return found;
}

/* ---- exit and fork ---- */

static fjpy_shared_t *next_unvisited(bool join_at_exit)
{
    fjpy_shared_t *found = NULL;
    fj_mutex_lock(&list_lock);
    for (fjpy_shared_t *shared = list; shared != NULL && found == NULL; shared = shared->next) {
        if (!shared->visited && shared->join_at_exit == join_at_exit
            && shared->epoch == fjpy_epoch && fj_pool_try_retain(shared->pool)) {
            shared->visited = true;
            found = shared;
        }
    }
    fj_mutex_unlock(&list_lock);
    return found;
}

/* Private pools finish their work; the others work on meanwhile, since that may
 * wait for them. */
static int finish_private_pools(void)
{
    fjpy_shared_t *shared;
    int result = 1;
    while (result == 1 && (shared = next_unvisited(true)) != NULL) {
        fj_pool_t *pool = shared->pool;
        fj_pool_shutdown(pool);
        result = await(pool, FJ_FOREVER, fj_pool_await_termination);
        fj_pool_release(pool);
    }
    return result;
}

/* The others abandon it: they get `seconds` for what runs at this moment, then
 * their workers are left behind for good. */
static int abandon_the_others(PyObject *seconds)
{
    int64_t deadline;
    fjpy_shared_t *shared;
    while ((shared = next_unvisited(false)) != NULL) {
        fj_pool_t *pool = shared->pool;
        if (fjpy_deadline(seconds, &deadline) < 0) {
            return -1;
        }
        fj_pool_stop(pool);
        int result = await(pool, deadline, fj_pool_await_termination);
        fj_store_relaxed(&shared->abandoned, true);
        if (result == 0) {
            fjpy_abandoned = true;           /* its memory stays as well */
        } else {
            fj_pool_release(pool);
        }
        if (result < 0) {
            return -1;
        }
    }
    return 1;
}

PyObject *fjpy_at_exit(PyObject *Py_UNUSED(module), PyObject *seconds)
{
    fjpy_exiting = true;
    if (finish_private_pools() < 0 || abandon_the_others(seconds) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

PyObject *fjpy_after_fork_child(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
    list_lock = (fj_mutex_t){0};
    fjpy.main_thread = PyThread_get_thread_ident();
    list = NULL;                             /* the parent's pools are nobody's here */
    fjpy_epoch++;
    fj_after_fork_child();
    fjpy_forget_worker();
    Py_RETURN_NONE;
}
