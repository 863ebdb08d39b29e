/* A module of somebody else's: everything that fjpool.h offers to C. */
#include <Python.h>

#include <fjpool.h>

#include <unistd.h>

/* ---- FJ_TASK ---- */

FJ_TASK(int64_t, fib, int64_t)
{
    if (args < 2) {
        return args;
    }
    fib_fork(worker, args - 1);
    int64_t right = fib(worker, args - 2);
    return right + fib_join(worker);
}

static int fib_body(fj_worker_t *worker, void *data)
{
    int64_t *n = data;
    *n = fib(worker, *n);
    return 0;
}

/* The same through the plain functions, as a language without C's inlining would. */
#define INLINE_ONLY 0
#if !INLINE_ONLY
static int64_t plain(fj_worker_t *worker, int64_t n);

static void plain_run(fj_frame_t *frame, fj_worker_t *worker)
{
    int64_t n;
    memcpy(&n, frame->u.data, sizeof n);
    n = plain(worker, n);
    memcpy(frame->u.data, &n, sizeof n);
}

static const fj_frame_ops_t plain_ops = {plain_run, {0, 0, 0}};

static int64_t plain(fj_worker_t *worker, int64_t n)
{
    if (n < 2) {
        return n;
    }
    int64_t left = n - 1;
    memcpy(fj_api->fork_data(worker), &left, sizeof left);
    fj_api->fork_frame(worker, &plain_ops);
    int64_t right = plain(worker, n - 2);
    bool mine = fj_api->join_frame(worker);
    memcpy(&left, fj_api->fork_data(worker), sizeof left);
    return right + (mine ? plain(worker, left) : left);
}

static int plain_body(fj_worker_t *worker, void *data)
{
    int64_t *n = data;
    *n = plain(worker, *n);
    return 0;
}
#else
#define plain_body fib_body
#endif

static PyObject *run(PyObject *object, fj_body_t body, void *data)
{
    fj_pool_t *pool = fj_pool_from_object(object);
    if (pool == NULL) {
        return NULL;
    }
    int code;
    Py_BEGIN_ALLOW_THREADS
    code = fj_run(pool, body, data);
    Py_END_ALLOW_THREADS
    return code != 0 ? fj_raise(code) : Py_NewRef(Py_None);
}

static PyObject *fibonacci(PyObject *self, PyObject *args)
{
    PyObject *object;
    long long n;
    int inlined = 1;
    (void)self;
    if (!PyArg_ParseTuple(args, "OL|p", &object, &n, &inlined)) {
        return NULL;
    }
    int64_t value = n;
    PyObject *done = run(object, inlined ? fib_body : plain_body, &value);
    Py_XDECREF(done);
    return done != NULL ? PyLong_FromLongLong(value) : NULL;
}

/* ---- loops ---- */

/* What the leaves of the loops below look at and write. */
typedef struct shared {
    int64_t fail_at, code;
    int64_t *marks;                          /* a mark for each position */
    uint32_t *workers;                       /* leaves by worker index */
    int64_t cancelled;                       /* leaves that found themselves cancelled */
} shared_t;

static int leaf(fj_worker_t *worker, int64_t lo, int64_t hi, void *data, fj_value_t *value)
{
    shared_t *shared = data;
    value->i = 0;
    if (fj_cancelled(worker)) {
        __atomic_fetch_add(&shared->cancelled, 1, __ATOMIC_RELAXED);
    }
    __atomic_fetch_add(&shared->workers[fj_worker_index(worker)], 1, __ATOMIC_RELAXED);
    for (int64_t i = lo; i < hi; i++) {
        if (i == shared->fail_at) {
            return (int)shared->code;
        }
        __atomic_fetch_add(&shared->marks[i], 1, __ATOMIC_RELAXED);
        value->i += i;
    }
    return 0;
}

static void add(fj_value_t *left, fj_value_t right, void *data)
{
    (void)data;
    left->i += right.i;
}

/* loop(pool, n, chunk, fail_at, code) -> (sum, every position was visited once) */
static PyObject *loop(PyObject *self, PyObject *args)
{
    PyObject *object;
    long long n, chunk, fail_at = -1, code = 0;
    (void)self;
    if (!PyArg_ParseTuple(args, "OLL|LL", &object, &n, &chunk, &fail_at, &code)) {
        return NULL;
    }
    fj_pool_t *pool = fj_pool_from_object(object);
    if (pool == NULL) {
        return NULL;
    }
    shared_t shared = {fail_at, code, PyMem_RawCalloc((size_t)n + 1, sizeof(int64_t)),
                       PyMem_RawCalloc(fj_worker_bound(pool), sizeof(uint32_t)), 0};
    fj_loop_t whole = {0, n, chunk, leaf, add, &shared};
    fj_value_t value = {.i = -1};
    int result;
    Py_BEGIN_ALLOW_THREADS
    result = fj_parallel(pool, &whole, &value);
    Py_END_ALLOW_THREADS
    int once = 1;
    for (long long i = 0; i < n; i++) {
        once = once && shared.marks[i] == 1;
    }
    PyMem_RawFree(shared.marks);
    PyMem_RawFree(shared.workers);
    return result != 0 ? fj_raise(result) : Py_BuildValue("LO", (long long)value.i,
                                                          once ? Py_True : Py_False);
}

/* ---- a body that calls Python, blocks, fails ---- */

static int call_body(fj_worker_t *worker, void *data)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *result = PyObject_CallNoArgs((PyObject *)data);
    int code = result == NULL || worker != fj_worker() ? 1 : 0;
    if (result == NULL) {
        PyErr_WriteUnraisable((PyObject *)data);
    }
    Py_XDECREF(result);
    PyGILState_Release(state);
    return code;
}

static PyObject *call(PyObject *self, PyObject *args)
{
    PyObject *object, *function;
    (void)self;
    return PyArg_ParseTuple(args, "OO", &object, &function) ? run(object, call_body, function) : NULL;
}

static int block_body(fj_worker_t *worker, void *data)
{
    char byte;
    int *descriptor = data;
    fj_block_begin(worker);
    ssize_t n = read(*descriptor, &byte, 1);
    fj_block_end(worker);
    return n == 1 ? byte : 1;
}

/* Reads a byte from a descriptor, which is the body's code. */
static PyObject *block(PyObject *self, PyObject *args)
{
    PyObject *object;
    int descriptor;
    (void)self;
    return PyArg_ParseTuple(args, "Oi", &object, &descriptor) ? run(object, block_body, &descriptor)
                                                              : NULL;
}

/* Fails deep inside a tree of frames; the rest sees that it is cancelled. */
FJ_TASK(int64_t, tree, int64_t)
{
    if (fj_cancelled(worker)) {
        return 0;
    }
    if (args == 0) {
        fj_fail(worker, 7);
        return 0;
    }
    tree_fork(worker, args - 1);
    int64_t right = tree(worker, args - 1);
    return right + tree_join(worker);
}

static int tree_body(fj_worker_t *worker, void *data)
{
    int64_t *n = data;
    *n = tree(worker, *n);
    return 0;
}

static PyObject *fail(PyObject *self, PyObject *object)
{
    int64_t depth = 40;                      /* would never end */
    (void)self;
    return run(object, tree_body, &depth);
}

static int spin_leaf(fj_worker_t *worker, int64_t lo, int64_t hi, void *data, fj_value_t *value)
{
    (void)worker, (void)lo, (void)hi, (void)value;
    __atomic_store_n((int *)data, 1, __ATOMIC_RELAXED);
    usleep(1000);
    return 0;
}

/* Goes on until it is interrupted; `started` is a buffer of an int. */
static PyObject *spin(PyObject *self, PyObject *args)
{
    PyObject *object;
    Py_buffer started;
    (void)self;
    if (!PyArg_ParseTuple(args, "Ow*", &object, &started)) {
        return NULL;
    }
    fj_pool_t *pool = fj_pool_from_object(object);
    int code = 0;
    if (pool != NULL) {
        fj_loop_t whole = {0, INT64_MAX, 1, spin_leaf, NULL, started.buf};
        Py_BEGIN_ALLOW_THREADS
        code = fj_parallel(pool, &whole, NULL);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&started);
    return pool == NULL ? NULL : code != 0 ? fj_raise(code) : Py_NewRef(Py_None);
}

static PyMethodDef methods[] = {
    {"fib", fibonacci, METH_VARARGS, NULL}, {"loop", loop, METH_VARARGS, NULL},
    {"call", call, METH_VARARGS, NULL},     {"block", block, METH_VARARGS, NULL},
    {"fail", fail, METH_O, NULL},           {"spin", spin, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "outside", .m_size = -1, .m_methods = methods};

PyMODINIT_FUNC PyInit_outside(void)
{
    return import_fjpool() < 0 ? NULL : PyModule_Create(&definition);
}
