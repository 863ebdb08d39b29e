/* latency: from handing work in to a pool that sleeps until it starts, beside what the
 * system takes to wake a thread at all.
 */
#include "native.h"

#include <errno.h>
#include <pthread.h>

static void pause_for(int64_t us)
{
    struct timespec left = {us / 1000000, us % 1000000 * 1000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

static PyObject *list_of(const int64_t *values, int64_t n)
{
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (int64_t i = 0; list != NULL && i < n; i++) {
        PyObject *value = PyLong_FromLongLong(values[i]);
        if (value == NULL) {
            Py_CLEAR(list);
        } else {
            PyList_SET_ITEM(list, (Py_ssize_t)i, value);
        }
    }
    return list;
}

/* ---- a pool ---- */

static int stamp_body(fj_worker_t *worker, void *data)
{
    (void)worker;
    *(int64_t *)data = now_ns();
    return 0;
}

static PyObject *wake_ups(PyObject *module, PyObject *args)
{
    PyObject *object;
    long long n, pause_us;
    (void)module;
    if (!PyArg_ParseTuple(args, "OLL", &object, &n, &pause_us)) {
        return NULL;
    }
    fj_pool_t *pool = fj_pool_from_object(object);
    int64_t *took = pool != NULL ? calloc((size_t)n + 1, sizeof *took) : NULL;
    if (took == NULL) {
        return pool != NULL ? PyErr_NoMemory() : NULL;
    }
    int code = 0;
    Py_BEGIN_ALLOW_THREADS
    for (long long i = 0; i < n && code == 0; i++) {
        int64_t started = 0;
        pause_for(pause_us);
        int64_t begun = now_ns();
        code = fj_run(pool, stamp_body, &started);
        took[i] = started - begun;
    }
    Py_END_ALLOW_THREADS
    PyObject *list = code != 0 ? fj_raise(code) : list_of(took, n);
    free(took);
    return list;
}

/* ---- the system ---- */

#ifdef __linux__

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef struct futex_peer {
    uint32_t there, back;       /* rounds; UINT32_MAX there: the end */
    int64_t arrived;
} futex_peer_t;

static void futex_sleep_while(uint32_t *word, uint32_t value)
{
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == value) {
        (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
    }
}

static void futex_set(uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void *futex_answer(void *data)
{
    futex_peer_t *peer = data;
    for (uint32_t round = 0;; round++) {
        futex_sleep_while(&peer->there, round);
        if (__atomic_load_n(&peer->there, __ATOMIC_ACQUIRE) == UINT32_MAX) {
            return NULL;
        }
        peer->arrived = now_ns();
        futex_set(&peer->back, round + 1);
    }
}

static PyObject *futex_round_trips(PyObject *module, PyObject *args)
{
    long long n, pause_us;
    futex_peer_t peer = {0, 0, 0};
    pthread_t thread;
    (void)module;
    if (!PyArg_ParseTuple(args, "LL", &n, &pause_us)) {
        return NULL;
    }
    int64_t *took = calloc(2 * (size_t)n + 1, sizeof *took), *there = took + n;
    if (took == NULL) {
        return PyErr_NoMemory();
    }
    if (pthread_create(&thread, NULL, futex_answer, &peer) != 0) {
        free(took);
        return PyErr_Format(PyExc_RuntimeError, "no thread");
    }
    Py_BEGIN_ALLOW_THREADS
    for (uint32_t round = 0; round < n; round++) {
        pause_for(pause_us);
        int64_t begun = now_ns();
        futex_set(&peer.there, round + 1);
        futex_sleep_while(&peer.back, round);
        took[round] = now_ns() - begun;
        there[round] = peer.arrived - begun;
    }
    futex_set(&peer.there, UINT32_MAX);
    (void)pthread_join(thread, NULL);
    Py_END_ALLOW_THREADS
    PyObject *lists = Py_BuildValue("NN", list_of(took, n), list_of(there, n));
    free(took);
    return lists;
}

#else

static PyObject *futex_round_trips(PyObject *module, PyObject *args)
{
    (void)module, (void)args;
    return PyErr_Format(PyExc_NotImplementedError, "there are no futexes here");
}

#endif
