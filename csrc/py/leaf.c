/* leaf.c - parallel_for and parallel_reduce: leaves in C and in Python.
 *
 * A value on its way up the tree is a double, an int64 or, when the leaf or the
 * combine function is Python's, a reference to an object ("boxed"). A native
 * leaf with a native combine touches no thread state; everything else attaches
 * for the piece of work that needs it.
 */
#include "fjpy.h"

#include <dlfcn.h>

/* What the leaf is; fjpool/_leaves.py finds out and passes the number. */
typedef enum kind {
    PYTHON = 0,
    DOUBLE = 1,            /* double (int64, int64) */
    INT64 = 2,             /* int64 (int64, int64) */
    VOID = 3,              /* void (int64, int64) */
    CODE = 4,              /* int (int64, int64, void *), 0 means success */
    WITH_DATA = 8,         /* flag: a trailing void * */
    INTO_PYTHON = 16       /* flag, not kept in range->kind: the function calls back into Python */
} kind_t;

/* How two values become one. */
typedef enum operation { CALL = 0, ADD = 1, MUL = 2, MIN = 3, MAX = 4, NOTHING = 5 } operation_t;

/* Codes that end a job. */
enum { RAISED = 1, LEAF_FAILED = 2, OVERFLOWED = 3, INTERRUPTED = 4 };

typedef struct range {
    fj_range_job_t job;
    kind_t kind;
    operation_t operation;
    bool boxed;
    bool into_python;
    void *function;                          /* of a native leaf */
    void *data;
    Py_buffer buffer;                        /* data lies in it, if buffer.obj */
    PyObject *leaf, *args, *combine, *context;
    PyObject *exception;                     /* RAISED: the first */
    PyObject *interrupt;                     /* FJ_RANGE_LEFT: what the caller leaves with */
    int leaf_code;                           /* LEAF_FAILED: what it returned, and where */
    int64_t leaf_lo, leaf_hi;
} range_t;

static range_t *range_of(fj_range_job_t *job)
{
    return FJ_CONTAINER(job, range_t, job);
}

/* ---- native leaves ---- */

static int call_native(range_t *range, int64_t lo, int64_t hi, fj_value_t *value)
{
    void *f = range->function, *data = range->data;
    value->i = 0;
    if (range->into_python) {
        fjpy_keep_state();
    }
    switch ((int)range->kind) {
    case DOUBLE:
        value->d = ((double (*)(int64_t, int64_t))f)(lo, hi);
        return 0;
    case INT64:
        value->i = ((int64_t (*)(int64_t, int64_t))f)(lo, hi);
        return 0;
    case VOID:
        ((void (*)(int64_t, int64_t))f)(lo, hi);
        return 0;
    case DOUBLE | WITH_DATA:
        value->d = ((double (*)(int64_t, int64_t, void *))f)(lo, hi, data);
        return 0;
    case INT64 | WITH_DATA:
        value->i = ((int64_t (*)(int64_t, int64_t, void *))f)(lo, hi, data);
        return 0;
    case VOID | WITH_DATA:
        ((void (*)(int64_t, int64_t, void *))f)(lo, hi, data);
        return 0;
    default: {
        int code = ((int (*)(int64_t, int64_t, void *))f)(lo, hi, data);
        int none = 0;
        if (code != 0 && atomic_compare_exchange_strong(&range->job.code, &none, LEAF_FAILED)) {
            range->leaf_code = code;         /* read once the job is done */
            range->leaf_lo = lo;
            range->leaf_hi = hi;
        }
        return code == 0 ? 0 : LEAF_FAILED;
    }
    }
}

static int native_leaf(fj_range_job_t *job, fj_worker_t *Py_UNUSED(worker), int64_t lo,
                       int64_t hi, fj_value_t *value)
{
    return call_native(range_of(job), lo, hi, value);
}

static bool is_double(const range_t *range)
{
    return ((int)range->kind & ~WITH_DATA) == DOUBLE;
}

/* min and max keep the left value unless the right one is really beyond it, as
 * Python's do, also with NaN. */
static int native_combine(fj_range_job_t *job, fj_value_t *left, fj_value_t right)
{
    range_t *range = range_of(job);
    if (is_double(range)) {
        double a = left->d, b = right.d;
        switch (range->operation) {
        case ADD: left->d = a + b; break;
        case MUL: left->d = a * b; break;
        case MIN: left->d = b < a ? b : a; break;
        case MAX: left->d = b > a ? b : a; break;
        case CALL: case NOTHING: break;
        }
        return 0;
    }
    int64_t a = left->i, b = right.i;
    switch (range->operation) {
    case ADD: return __builtin_add_overflow(a, b, &left->i) ? OVERFLOWED : 0;
    case MUL: return __builtin_mul_overflow(a, b, &left->i) ? OVERFLOWED : 0;
    case MIN: left->i = b < a ? b : a; return 0;
    case MAX: left->i = b > a ? b : a; return 0;
    case CALL: case NOTHING: break;
    }
    return 0;
}

/* ---- leaves and combine functions in Python ---- */

/* A native leaf's own value as an object. */
static PyObject *box(const range_t *range, fj_value_t value)
{
    switch ((int)range->kind & ~WITH_DATA) {
    case DOUBLE:
        return PyFloat_FromDouble(value.d);
    case INT64:
        return PyLong_FromLongLong(value.i);
    default:
        return Py_NewRef(Py_None);
    }
}

/* The pending exception becomes the job's, if it is the first. */
static int raised(range_t *range)
{
    PyObject *exception = fjpy_take_exception();
    if (range->exception == NULL) {
        range->exception = exception;
    } else {
        Py_DECREF(exception);
    }
    return RAISED;
}

/* The same, while the thread whose call it is takes part: a signal's handler raised. */
static int interrupted(range_t *range)
{
    if (range->job.guest == NULL || range->job.guest != fj_current) {
        return raised(range);                /* it helps with somebody else's */
    }
    Py_XSETREF(range->interrupt, fjpy_take_exception());
    return FJ_RANGE_LEFT;
}

static PyObject *call_leaf(range_t *range, int64_t lo, int64_t hi)
{
    Py_ssize_t extra = PyTuple_GET_SIZE(range->args);
    PyObject *args = PyTuple_New(2 + extra);
    if (args == NULL) {
        return NULL;
    }
    PyObject *first = PyLong_FromLongLong(lo), *second = PyLong_FromLongLong(hi);
    PyTuple_SET_ITEM(args, 0, first);
    PyTuple_SET_ITEM(args, 1, second);
    for (Py_ssize_t i = 0; i < extra; i++) {
        PyTuple_SET_ITEM(args, 2 + i, Py_NewRef(PyTuple_GET_ITEM(range->args, i)));
    }
    PyObject *result = first != NULL && second != NULL
                           ? PyObject_CallObject(range->leaf, args)
                           : NULL;
    Py_DECREF(args);
    return result;
}

/* Each leaf and each combine in a copy of its own: a context cannot be entered
 * twice at once. */
static PyObject *enter_context(range_t *range)
{
    PyObject *context = PyContext_Copy(range->context);
    if (context != NULL && PyContext_Enter(context) < 0) {
        Py_CLEAR(context);
    }
    return context;
}

static PyObject *call_leaf_in_context(range_t *range, int64_t lo, int64_t hi)
{
    PyObject *context = enter_context(range);
    PyObject *result = context != NULL ? call_leaf(range, lo, hi) : NULL;
    fjpy_leave_context(context);
    return result;
}

/* Ctrl-C comes to the main thread wherever it is, also inside a leaf. */
static bool was_interrupted(void)
{
    return PyThread_get_thread_ident() == fjpy.main_thread
        && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt);
}

static int boxed_leaf(fj_range_job_t *job, fj_worker_t *worker, int64_t lo, int64_t hi,
                      fj_value_t *value)
{
    range_t *range = range_of(job);
    PyObject *result;
    if (range->kind == PYTHON) {
        fjpy_attach();
        result = call_leaf_in_context(range, lo, hi);
    } else {
        fj_value_t plain;
        fjpy_detach(worker);
        int code = call_native(range, lo, hi, &plain);
        if (code != 0) {
            return code;
        }
        fjpy_attach();
        result = box(range, plain);
    }
    if (result == NULL) {
        return was_interrupted() ? interrupted(range) : raised(range);
    }
    if (range->operation == NOTHING) {
        Py_CLEAR(result);
    }
    value->p = result;
    return 0;
}

/* min and max of two, as builtins would. */
static PyObject *extreme(PyObject *left, PyObject *right, int beyond)
{
    int further = PyObject_RichCompareBool(right, left, beyond);
    return further < 0 ? NULL : Py_NewRef(further ? right : left);
}

static PyObject *call_combine(range_t *range, PyObject *a, PyObject *b)
{
    switch (range->operation) {
    case ADD: return PyNumber_Add(a, b);
    case MUL: return PyNumber_Multiply(a, b);
    case MIN: return extreme(a, b, Py_LT);
    case MAX: return extreme(a, b, Py_GT);
    case CALL: return PyObject_CallFunctionObjArgs(range->combine, a, b, NULL);
    case NOTHING: break;
    }
    Py_RETURN_NONE;
}

static int boxed_combine(fj_range_job_t *job, fj_value_t *left, fj_value_t right)
{
    range_t *range = range_of(job);
    PyObject *a = left->p, *b = right.p;
    if (range->operation == NOTHING) {
        return 0;
    }
    fjpy_attach();
    PyObject *context = enter_context(range);
    PyObject *result = context != NULL ? call_combine(range, a, b) : NULL;
    fjpy_leave_context(context);
    Py_DECREF(a);
    Py_DECREF(b);
    left->p = result;
    return result != NULL ? 0 : raised(range);
}

static void boxed_discard(fj_range_job_t *Py_UNUSED(job), fj_value_t value)
{
    fjpy_attach();
    Py_XDECREF((PyObject *)value.p);
}

/* A guest in the main thread answers for signals while others work for it. */
static int poll_signals(fj_range_job_t *job)
{
    range_t *range = range_of(job);
    bool attached = fjpy_is_attached();
    int code = 0;
    fjpy_attach();
    if (PyErr_CheckSignals() < 0) {
        code = interrupted(range);
    }
    if (!attached) {
        fjpy_detach(NULL);
    }
    return code;
}

/* ---- a job's beginning and end ---- */

static void give_back(range_t *range)
{
    if (range->boxed && range->job.has_value) {
        Py_XDECREF((PyObject *)range->job.value.p);
        range->job.has_value = false;
    }
    PyBuffer_Release(&range->buffer);
    Py_CLEAR(range->leaf);
    Py_CLEAR(range->args);
    Py_CLEAR(range->combine);
    Py_CLEAR(range->context);
    Py_CLEAR(range->exception);
    Py_CLEAR(range->interrupt);
}

/* The last reference. After an ordinary end the caller has given everything
 * of Python's back already, and a worker only frees memory here. */
static void destroy(fj_range_job_t *job)
{
    range_t *range = range_of(job);
    if (range->args != NULL) {
        bool attached = fjpy_is_attached();
        fjpy_attach();
        give_back(range);
        if (!attached) {
            fjpy_detach(NULL);
        }
    }
    free(range);
}

static PyObject *outcome(fjpy_shared_t *shared, range_t *range)
{
    PyObject *exception;
    switch (fj_load_acquire(&range->job.code)) { /* pairs with fj_range_fail */
    case 0: {
        fj_value_t value = range->job.value;
        range->job.has_value = false;        /* moved */
        return !range->boxed    ? box(range, value)
             : value.p != NULL  ? (PyObject *)value.p
                                : Py_NewRef(Py_None);
    }
    case RAISED:
        exception = range->exception;
        range->exception = NULL;
        fjpy_raise_again(exception);
        return NULL;
    case LEAF_FAILED: {
        PyObject *where = Py_BuildValue("iLL", range->leaf_code, (long long)range->leaf_lo,
                                        (long long)range->leaf_hi);
        exception = where != NULL ? fjpy_hook("leaf_error", where) : NULL;
        Py_XDECREF(where);
        if (exception != NULL) {
            PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
            Py_DECREF(exception);
        }
        return NULL;
    }
    case OVERFLOWED:
        PyErr_SetString(PyExc_OverflowError,
                        "the combined value does not fit into int64; combine in Python, for "
                        "example with lambda a, b: a + b");
        return NULL;
    case FJ_RANGE_ORPHANED:
        PyErr_SetString(fjpy.broken_error, "a leaf called os.fork(), and this is the child: the "
                                           "loop's other workers live in the parent process");
        return NULL;
    default:
        if (shared->broken) {
            return fjpy_raise_broken();
        }
        PyErr_SetNone(fjpy.cancelled_error);
        return NULL;
    }
}

static int await_root(range_t *range)
{
    for (;;) {
        fj_status_t status;
        if (fj_current != NULL) {            /* another pool's worker: it compensates */
            status = fj_join_firmly(fj_current, &range->job.root);
            fjpy_attach();
        } else {
            int64_t slice = fjpy_slice(FJ_FOREVER);
            Py_BEGIN_ALLOW_THREADS
            status = fj_task_wait(&range->job.root, slice);
            Py_END_ALLOW_THREADS
        }
        if (status == FJ_OK) {
            return 0;
        }
        if (PyErr_CheckSignals() < 0) {
            fj_range_fail(&range->job, INTERRUPTED); /* the rest is skipped */
            return -1;
        }
    }
}

static int run_as(fj_worker_t *worker, range_t *range)
{
    (void)fj_range_run(&range->job, worker);
    fjpy_attach();
    if (!range->job.left) {
        return 0;
    }
    PyObject *exception = range->interrupt;  /* others may be using the rest of range */
    range->interrupt = NULL;
    fjpy_raise_again(exception);
    return -1;
}

static int run_as_guest(fjpy_shared_t *shared, range_t *range)
{
    fj_worker_t *guest = fj_guest_enter(shared->pool);
    if (guest == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    int result = run_as(guest, range);
    fj_guest_leave(guest);
    return result;
}

static int run(fjpy_shared_t *shared, range_t *range)
{
    if (fj_worker_pool(fj_current) == shared->pool) {
        return run_as(fj_current, range);
    }
    if (shared->common && fj_current == NULL) {
        return run_as_guest(shared, range);
    }
    fj_task_t *root = fj_range_root(&range->job, shared->pool);
    fj_status_t status = fj_pool_submit(shared->pool, &root, 1);
    if (status != FJ_OK) {
        fj_range_release(&range->job);       /* the entry's */
        (void)fjpy_raise(status);
        return -1;
    }
    return await_root(range);
}

/* A buffer, an address, or None. */
static int get_data(range_t *range, PyObject *data)
{
    if (PyLong_Check(data)) {
        range->data = PyLong_AsVoidPtr(data);
        return PyErr_Occurred() ? -1 : 0;
    }
    if (data != Py_None && PyObject_GetBuffer(data, &range->buffer, PyBUF_SIMPLE) < 0) {
        return -1;
    }
    range->data = range->buffer.buf;
    return 0;
}

/* _range(kind, leaf, address, args, start, stop, chunk, operation, combine, data):
 * fjpool/_parallel.py has checked everything but the buffer. */
PyObject *fjpy_pool_range(PyObject *object, PyObject *arguments)
{
    int kind, operation;
    PyObject *leaf, *args, *combine, *data;
    unsigned long long address;
    long long start, stop, chunk;
    fjpy_shared_t *shared = fjpy_pool_usable(object);
    if (shared == NULL
        || !PyArg_ParseTuple(arguments, "iOKO!LLLiOO", &kind, &leaf, &address, &PyTuple_Type,
                             &args, &start, &stop, &chunk, &operation, &combine, &data)) {
        return NULL;
    }
    range_t *range = calloc(1, sizeof *range);
    if (range == NULL) {
        return PyErr_NoMemory();
    }
    if (get_data(range, data) < 0) {
        free(range);
        return NULL;
    }
    range->kind = (kind_t)(kind & ~INTO_PYTHON);
    range->into_python = (kind & INTO_PYTHON) != 0;
    range->operation = (operation_t)operation;
    range->boxed = kind == PYTHON || operation == CALL;
    range->function = (void *)(uintptr_t)address;
    range->leaf = Py_NewRef(leaf);
    range->args = Py_NewRef(args);
    range->combine = Py_NewRef(combine);
    range->context = range->boxed ? PyContext_CopyCurrent() : Py_NewRef(Py_None);
    range->job.start = start;
    range->job.stop = stop;
    range->job.chunk = chunk;
    range->job.native = !range->boxed;
    range->job.leaf = range->boxed ? boxed_leaf : native_leaf;
    range->job.combine = range->boxed ? boxed_combine : native_combine;
    range->job.discard = range->boxed ? boxed_discard : NULL;
    range->job.destroy = destroy;
    range->job.poll = poll_signals;
    fj_range_init(&range->job);
    PyObject *result = NULL;
    if (range->context != NULL && run(shared, range) == 0) {
        result = outcome(shared, range);
        give_back(range);
    }
    fj_range_release(&range->job);
    return result;
}

/* ---- for fjpool/_leaves.py ---- */

PyObject *fjpy_capsule_info(PyObject *Py_UNUSED(module), PyObject *capsule)
{
    if (!PyCapsule_CheckExact(capsule)) {
        PyErr_SetString(PyExc_TypeError, "expected a capsule");
        return NULL;
    }
    const char *name = PyCapsule_GetName(capsule);
    void *pointer = PyCapsule_GetPointer(capsule, name);
    if (pointer == NULL) {
        return NULL;
    }
    return Py_BuildValue("zKK", name, (unsigned long long)(uintptr_t)pointer,
                         (unsigned long long)(uintptr_t)PyCapsule_GetContext(capsule));
}

PyObject *fjpy_in_library(PyObject *Py_UNUSED(module), PyObject *address)
{
    Dl_info info;
    unsigned long long value = PyLong_AsUnsignedLongLong(address);
    if (value == (unsigned long long)-1 && PyErr_Occurred()) {
        return NULL;
    }
    return PyBool_FromLong(dladdr((void *)(uintptr_t)value, &info) != 0);
}
