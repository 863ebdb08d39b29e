/* fjpool.h - fork/join for C, C++ and Cython code on fjpool's workers.
 *
 *     #include <Python.h>
 *     #include <fjpool.h>
 *
 *     FJ_TASK(int64_t, fib, int64_t)          // defines int64_t fib(fj_worker_t *worker, int64_t args)
 *     {
 *         if (args < 2)
 *             return args;
 *         fib_fork(worker, args - 1);         // somebody who is idle may take it
 *         int64_t right = fib(worker, args - 2);
 *         return right + fib_join(worker);    // if nobody has, it is a plain call
 *     }
 *
 *     static int body(fj_worker_t *worker, void *data)
 *     {
 *         int64_t *n = data;
 *         *n = fib(worker, *n);
 *         return 0;
 *     }
 *
 *     // in a function that Python calls, after import_fjpool() in the module's init:
 *     fj_pool_t *pool = fj_pool_from_object(object);
 *     Py_BEGIN_ALLOW_THREADS
 *     code = fj_run(pool, body, &n);
 *     Py_END_ALLOW_THREADS
 *     if (code != 0)
 *         return fj_raise(code);
 *
 * Compile with the flags that `python -m fjpool config --cflags` prints, or with
 * fjpool.get_include() among the include directories. Nothing is linked.
 *
 * Who may call what. Functions that take a worker are for code that runs on that
 * worker: the body given to fj_run, the leaves of fj_parallel, and FJ_TASK functions;
 * a stolen one is given its thief's worker. fj_run and fj_parallel are for anybody, in
 * a pool or not, without the GIL. fj_pool_from_object and fj_raise need the GIL.
 *
 * Forks and joins nest strictly: what was forked last is joined first, by the same
 * function call, and a function joins all that it forked before it returns. Code on a
 * worker may take the GIL (PyGILState_Ensure, `with gil:`) and gives it back before it
 * forks, joins or returns.
 *
 * Who owns what. The pool belongs to its Python object and lives as long; data and
 * results belong to the caller, who keeps them until fj_run or fj_parallel returns.
 * Nothing here allocates on the caller's behalf.
 *
 * Errors. A body or leaf returns 0 or a code of its own, 1 to INT32_MAX; the first one
 * is what fj_run or fj_parallel returns. From then on fj_cancelled says so, and leaves
 * that have not started are skipped. Codes below 0 are fjpool's own, see fj_code.
 *
 * What it costs. A fork stores its arguments and compares a word, a join compares a
 * word; nothing is shared with anybody until somebody asks.
 *
 * Versions. FJPOOL_ABI changes with the layout of fj_frame and fj_spawn, the only
 * things that inline code knows. import_fjpool refuses another ABI, and a library
 * older than this header; a newer one only adds functions at the end of fj_api.
 */
#ifndef FJPOOL_H
#define FJPOOL_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define FJPOOL_ABI 1

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fj_pool fj_pool_t;
typedef struct fj_worker fj_worker_t; /* one thread of a pool, as its tasks see it */
typedef struct fj_frame fj_frame_t;

/* What fj_run and fj_parallel return beside the codes of bodies and leaves. */
enum fj_code {
    FJ_CODE_OK = 0,
    FJ_CODE_CANCELLED = -1,     /* the pool was stopped before all was done */
    FJ_CODE_REFUSED = -2,       /* the pool takes no work any more, or no thread was to be had */
    FJ_CODE_NO_MEMORY = -3,
    FJ_CODE_INTERRUPTED = -4    /* a signal's handler raised; fj_raise raises that */
};

typedef union fj_value {
    double d;
    int64_t i;
    void *p;
} fj_value_t;

typedef int (*fj_body_t)(fj_worker_t *worker, void *data);

/* A loop over start <= i < stop, or, with combine, a reduction. */
typedef struct fj_loop {
    int64_t start, stop;
    /* Positions in a leaf, at most. The range is then halved down to that, and a
     * result depends on range and chunk only. 0: as the leaves' time suggests, and
     * split while somebody is idle; combine must be associative. */
    int64_t chunk;
    /* Positions [lo, hi); 0 < hi - lo. A reduction's leaf writes its value. */
    int (*leaf)(fj_worker_t *worker, int64_t lo, int64_t hi, void *data, fj_value_t *value);
    void (*combine)(fj_value_t *left, fj_value_t right, void *data); /* left = left, right; or NULL */
    void *data;
} fj_loop_t;

typedef struct fj_frame_ops {
    void (*run)(fj_frame_t *frame, fj_worker_t *worker);
    void *reserved[3];
} fj_frame_ops_t;

enum { FJ_FRAME_DATA = 32, FJ_FRAME_ALIGNMENT = 16 };

/* A forked call. The header is the pool's; arguments and result share the data. */
struct fj_frame {
    uint32_t header[6];
    const fj_frame_ops_t *ops;
    union {
        unsigned char data[FJ_FRAME_DATA];
        int64_t alignment;
    } u __attribute__((aligned(FJ_FRAME_ALIGNMENT)));
};

/* The beginning of a worker: its stack of frames as its owner sees it. The protocol
 * stands in csrc/README.rst. */
typedef struct fj_spawn {
    fj_frame_t *top;    /* next free; the owner's alone */
    fj_frame_t *gate;   /* a fork that leaves top above it has to call the pool */
    fj_frame_t *floor;  /* a join below it has to call the pool */
} fj_spawn_t;

/* What the capsule fjpool._core.api points to; import_fjpool fetches it. */
typedef struct fj_api {
    uint32_t abi, size;
    void (*frame_forked)(fj_worker_t *worker);
    bool (*frame_take_back)(fj_worker_t *worker);
    void *(*fork_data)(fj_worker_t *worker);    /* the inline functions below, for */
    void (*fork_frame)(fj_worker_t *worker, const fj_frame_ops_t *ops); /* callers that */
    bool (*join_frame)(fj_worker_t *worker);    /* cannot inline C */
    int (*run)(fj_pool_t *pool, fj_body_t body, void *data);
    int (*parallel)(fj_pool_t *pool, const fj_loop_t *loop, fj_value_t *value);
    fj_worker_t *(*worker)(void);
    uint32_t (*worker_index)(fj_worker_t *worker);
    uint32_t (*worker_bound)(fj_pool_t *pool);
    bool (*cancelled)(fj_worker_t *worker);
    void (*fail)(fj_worker_t *worker, int code);
    void (*block_begin)(fj_worker_t *worker);
    void (*block_end)(fj_worker_t *worker);
    fj_pool_t *(*pool_from_object)(void *object);
    void *(*raise)(int code);
} fj_api_t;

#ifdef FJPOOL_CORE
#define FJ_CALL(name) fj_##name
void fj_frame_forked(fj_worker_t *worker);
bool fj_frame_take_back(fj_worker_t *worker);
#else

static const fj_api_t *fj_api;
#define FJ_CALL(name) fj_api->name

/* Runs body(worker, data) on a worker of the pool and returns its code once it has
 * ended. In a worker of that pool: here, as a plain call. NULL: the calling worker's
 * pool, else the common one. */
static inline int fj_run(fj_pool_t *pool, fj_body_t body, void *data)
{
    return fj_api->run(pool, body, data);
}

/* Runs a loop in the pool, as fj_run does; *value is the result of a reduction over a
 * range that is not empty. */
static inline int fj_parallel(fj_pool_t *pool, const fj_loop_t *loop, fj_value_t *value)
{
    return fj_api->parallel(pool, loop, value);
}

/* The calling thread's worker, NULL outside of pools. */
static inline fj_worker_t *fj_worker(void)
{
    return fj_api->worker();
}

/* For scratch memory a worker: no two that run at the same time have the same index,
 * spares and callers that take part included, and all are below the bound. */
static inline uint32_t fj_worker_index(fj_worker_t *worker)
{
    return fj_api->worker_index(worker);
}

static inline uint32_t fj_worker_bound(fj_pool_t *pool)
{
    return fj_api->worker_bound(pool);
}

/* Whether what runs here is not wanted any more: something of the same fj_run or
 * fj_parallel has failed, or the pool is being stopped. */
static inline bool fj_cancelled(fj_worker_t *worker)
{
    return fj_api->cancelled(worker);
}

/* For FJ_TASK functions, which return no code: makes fj_run return it. */
static inline void fj_fail(fj_worker_t *worker, int code)
{
    fj_api->fail(worker, code);
}

/* Around code that blocks: another worker may run meanwhile. They nest. */
static inline void fj_block_begin(fj_worker_t *worker)
{
    fj_api->block_begin(worker);
}

static inline void fj_block_end(fj_worker_t *worker)
{
    fj_api->block_end(worker);
}

#ifdef Py_PYTHON_H

/* The pool of a ForkJoinPool; of NULL or None: the calling worker's, that of `with
 * fjpool.use(pool)`, else the common one. Borrowed: the object keeps it alive. NULL and
 * an exception for anything else. */
static inline fj_pool_t *fj_pool_from_object(PyObject *object)
{
    return fj_api->pool_from_object(object);
}

/* Raises what a code of fj_run or fj_parallel means; returns NULL. */
static inline PyObject *fj_raise(int code)
{
    return (PyObject *)fj_api->raise(code);
}

/* Once in each file that includes this, before any other call. 0, or -1 and an
 * exception. */
static inline int import_fjpool(void)
{
    const fj_api_t *api = (const fj_api_t *)PyCapsule_Import("fjpool._core.api", 0);
    if (api == NULL) {
        return -1;
    }
    if (api->abi != FJPOOL_ABI || api->size < sizeof *api) {
        PyErr_Format(PyExc_ImportError,
                     "compiled for another fjpool: it has ABI %u (%u bytes), this module expects "
                     "%u (at least %u bytes); compile it again, or update fjpool",
                     (unsigned)api->abi, (unsigned)api->size, (unsigned)FJPOOL_ABI,
                     (unsigned)sizeof *api);
        return -1;
    }
    fj_api = api;
    return 0;
}

#endif /* Py_PYTHON_H */
#endif /* FJPOOL_CORE */

static inline fj_spawn_t *fj_spawn_of(fj_worker_t *worker)
{
    return (fj_spawn_t *)(void *)worker;
}

/* Where the arguments of the next fork go. */
static inline void *fj_fork_data(fj_worker_t *worker)
{
    return fj_spawn_of(worker)->top->u.data;
}

/* Forks what fj_fork_data has been given. */
static inline void fj_fork_frame(fj_worker_t *worker, const fj_frame_ops_t *ops)
{
    fj_spawn_t *spawn = fj_spawn_of(worker);
    fj_frame_t *frame = spawn->top;
    frame->ops = ops;
    spawn->top = frame + 1;
    /* Relaxed: a request that is seen late is seen by the next fork or join. */
    if (__builtin_expect(frame >= __atomic_load_n(&spawn->gate, __ATOMIC_RELAXED), 0)) {
        FJ_CALL(frame_forked)(worker);
    }
}

/* The latest fork that was not joined. True: nobody has run it and nobody will, its
 * arguments are in fj_fork_data: call it. False: it has been run, and its result is
 * there. */
static inline bool fj_join_frame(fj_worker_t *worker)
{
    fj_spawn_t *spawn = fj_spawn_of(worker);
    fj_frame_t *frame = spawn->top - 1;
    if (__builtin_expect(frame >= __atomic_load_n(&spawn->floor, __ATOMIC_RELAXED), 1)) {
        spawn->top = frame;
        return true;
    }
    return FJ_CALL(frame_take_back)(worker);
}

/* FJ_TASK(result type, name, argument type) begins the definition of a function
 * `name(worker, args)` and makes name_fork(worker, args) and name_join(worker).
 * Result and arguments are plain values of at most FJ_FRAME_DATA bytes; several
 * arguments are a struct, or a pointer to what outlives the join.
 *
 * They are assigned, not copied as bytes: for memcpy, compilers put a struct together on
 * the stack and move it as a vector, and a load of 16 bytes behind stores of 4 or 8 has to
 * wait for them, at the fork and again at the join. */
#define FJ_TASK(result_t, name, args_t)                                        \
    static result_t name(fj_worker_t *worker, args_t args);                    \
    typedef char name##_fits[sizeof(result_t) <= FJ_FRAME_DATA                 \
                             && sizeof(args_t) <= FJ_FRAME_DATA                \
                             && __alignof__(result_t) <= FJ_FRAME_ALIGNMENT    \
                             && __alignof__(args_t) <= FJ_FRAME_ALIGNMENT ? 1 : -1];\
    static void name##_run(fj_frame_t *frame, fj_worker_t *worker)             \
    {                                                                          \
        args_t args = *(args_t *)(void *)frame->u.data;                        \
        result_t result = name(worker, args);                                  \
        *(result_t *)(void *)frame->u.data = result;                           \
    }                                                                          \
    static const fj_frame_ops_t name##_ops = {name##_run, {0, 0, 0}};          \
    static inline void name##_fork(fj_worker_t *worker, args_t args)           \
    {                                                                          \
        *(args_t *)fj_fork_data(worker) = args;                                \
        fj_fork_frame(worker, &name##_ops);                                    \
    }                                                                          \
    static inline result_t name##_join(fj_worker_t *worker)                    \
    {                                                                          \
        if (__builtin_expect(fj_join_frame(worker), 1)) {                      \
            return name(worker, *(args_t *)fj_fork_data(worker));              \
        }                                                                      \
        return *(result_t *)fj_fork_data(worker);                              \
    }                                                                          \
    static result_t name(fj_worker_t *worker, args_t args)

#ifdef __cplusplus
}
#endif

#endif /* FJPOOL_H */
