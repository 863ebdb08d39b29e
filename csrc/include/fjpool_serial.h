/* fjpool_serial.h - the names of fjpool.h without fjpool: everything runs in the caller.
 *
 * For packages that make fjpool optional; copy it into their sources:
 *
 *     #ifdef HAVE_FJPOOL
 *     #include <fjpool.h>
 *     #else
 *     #include "fjpool_serial.h"
 *     #endif
 *
 * Forks are calls at their join. There is no pool, one worker, and nothing is cancelled
 * but by the caller's own leaves.
 */
#ifndef FJPOOL_H
#define FJPOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FJPOOL_SERIAL 1

#ifdef __cplusplus
extern "C" {
#endif

enum { FJ_FRAME_DATA = 32 };

enum fj_code {
    FJ_CODE_OK = 0,
    FJ_CODE_CANCELLED = -1,
    FJ_CODE_REFUSED = -2,
    FJ_CODE_NO_MEMORY = -3,
    FJ_CODE_INTERRUPTED = -4
};

typedef union fj_value {
    double d;
    int64_t i;
    void *p;
} fj_value_t;

typedef struct fj_pool fj_pool_t;

/* What was forked and not joined, and the first code. */
typedef struct fj_worker {
    int code;
    size_t forks, room;
    unsigned char (*data)[FJ_FRAME_DATA];
} fj_worker_t;

typedef int (*fj_body_t)(fj_worker_t *worker, void *data);

typedef struct fj_loop {
    int64_t start, stop, chunk;
    int (*leaf)(fj_worker_t *worker, int64_t lo, int64_t hi, void *data, fj_value_t *value);
    void (*combine)(fj_value_t *left, fj_value_t right, void *data);
    void *data;
} fj_loop_t;

/* The worker of the innermost call, where the compiler has thread-locals. */
static __thread fj_worker_t *fj_serial_worker;

static inline fj_worker_t *fj_worker(void)
{
    return fj_serial_worker;
}

static inline int fj_run(fj_pool_t *pool, fj_body_t body, void *data)
{
    fj_worker_t worker = {0, 0, 0, NULL}, *outer = fj_serial_worker;
    (void)pool;
    fj_serial_worker = &worker;
    int code = body(&worker, data);
    fj_serial_worker = outer;
    free(worker.data);
    return worker.code != 0 ? worker.code : code;
}

/* Leaves of `chunk` positions; of all of them, if it is 0. */
static inline int fj_serial_loop(fj_worker_t *worker, const fj_loop_t *loop, fj_value_t *value)
{
    uint64_t chunk = loop->chunk > 0 ? (uint64_t)loop->chunk : UINT64_MAX;
    bool first = true;
    for (int64_t lo = loop->start; lo < loop->stop;) {
        uint64_t left = (uint64_t)loop->stop - (uint64_t)lo;
        int64_t hi = left > chunk ? (int64_t)((uint64_t)lo + chunk) : loop->stop;
        fj_value_t one = {0};
        int code = loop->leaf(worker, lo, hi, loop->data, &one);
        if (code != 0) {
            return code;
        }
        if (value != NULL && first) {
            *value = one;
        } else if (value != NULL && loop->combine != NULL) {
            loop->combine(value, one, loop->data);
        }
        first = false;
        lo = hi;
    }
    return 0;
}

typedef struct fj_serial_call {
    const fj_loop_t *loop;
    fj_value_t *value;
} fj_serial_call_t;

static inline int fj_serial_body(fj_worker_t *worker, void *data)
{
    fj_serial_call_t *call = (fj_serial_call_t *)data;
    return fj_serial_loop(worker, call->loop, call->value);
}

static inline int fj_parallel(fj_pool_t *pool, const fj_loop_t *loop, fj_value_t *value)
{
    fj_serial_call_t call = {loop, value};
    return fj_serial_worker != NULL ? fj_serial_loop(fj_serial_worker, loop, value)
                                    : fj_run(pool, fj_serial_body, &call);
}

static inline uint32_t fj_worker_index(fj_worker_t *worker)
{
    (void)worker;
    return 0;
}

static inline uint32_t fj_worker_bound(fj_pool_t *pool)
{
    (void)pool;
    return 1;
}

static inline void fj_fail(fj_worker_t *worker, int code)
{
    worker->code = worker->code != 0 ? worker->code : code;
}

static inline bool fj_cancelled(fj_worker_t *worker)
{
    return worker->code != 0;
}

static inline void fj_block_begin(fj_worker_t *worker)
{
    (void)worker;
}

static inline void fj_block_end(fj_worker_t *worker)
{
    (void)worker;
}

/* Arguments of what is forked and not joined. No memory ends the process: a fork cannot
 * fail. */
static inline void fj_serial_push(fj_worker_t *worker, const void *args, size_t size)
{
    if (worker->forks == worker->room) {
        worker->room = worker->room * 2 + 64;
        worker->data = (unsigned char (*)[FJ_FRAME_DATA])realloc(
            worker->data, worker->room * sizeof *worker->data);
        if (worker->data == NULL) {
            abort();
        }
    }
    memcpy(worker->data[worker->forks++], args, size);
}

#define FJ_TASK(result_t, name, args_t)                                        \
    static result_t name(fj_worker_t *worker, args_t args);                    \
    typedef char name##_fits[sizeof(result_t) <= FJ_FRAME_DATA                 \
                             && sizeof(args_t) <= FJ_FRAME_DATA ? 1 : -1];     \
    static inline void name##_fork(fj_worker_t *worker, args_t args)           \
    {                                                                          \
        fj_serial_push(worker, &args, sizeof args);                            \
    }                                                                          \
    static inline result_t name##_join(fj_worker_t *worker)                    \
    {                                                                          \
        args_t args;                                                           \
        memcpy(&args, worker->data[--worker->forks], sizeof args);             \
        return name(worker, args);                                             \
    }                                                                          \
    static result_t name(fj_worker_t *worker, args_t args)

#ifdef Py_PYTHON_H

/* The object is not looked at, and the result not a pool: hand it to fj_run only. */
static inline fj_pool_t *fj_pool_from_object(PyObject *object)
{
    static char none;
    (void)object;
    return (fj_pool_t *)(void *)&none;
}

static inline PyObject *fj_raise(int code)
{
    return PyErr_Format(PyExc_RuntimeError, "native leaf returned %d", code);
}

static inline int import_fjpool(void)
{
    return 0;
}

#endif /* Py_PYTHON_H */

#ifdef __cplusplus
}
#endif

#endif /* FJPOOL_H */
