/* fjpool.h - fork/join for C, C++ and Cython code that runs on fjpool's workers.
 *
 *     FJ_TASK(int64_t, fib, int64_t)          // body below: int64_t fib(fj_worker_t *, int64_t)
 *     {
 *         if (args < 2)
 *             return args;
 *         fib_fork(worker, args - 1);         // somebody who is idle may take it
 *         int64_t right = fib(worker, args - 2);
 *         return right + fib_join(worker);    // if nobody has, it is a plain call
 *     }
 *
 * Rules. A worker's forks and joins nest strictly: what was forked last is joined
 * first, by the same function call, on the same thread, and everything that a body
 * forks it joins before it returns. `worker` is the calling thread's own and is good
 * until the body returns; a stolen body gets its thief's. Nothing here needs the GIL
 * or allocates; a body may take the GIL (PyGILState_Ensure, `with gil:`) as long as it
 * gives it back before it joins or returns.
 *
 * What it costs. A fork stores its arguments and compares one word, a join compares
 * one word, and nothing is shared with anybody until somebody asks. README.rst beside
 * the core (csrc) explains the protocol; here is only what the inline parts need.
 */
#ifndef FJPOOL_H
#define FJPOOL_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Changes with the layout of the structures below. */
#define FJPOOL_ABI 1

#ifdef __cplusplus
extern "C" {
#endif

typedef struct fj_worker fj_worker_t; /* one thread of a pool, as its tasks see it */
typedef struct fj_frame fj_frame_t;

typedef struct fj_frame_ops {
    void (*run)(fj_frame_t *frame, fj_worker_t *worker);
    void *reserved[3];
} fj_frame_ops_t;

enum { FJ_FRAME_DATA = 32 };

/* A forked call. The header is the pool's; arguments and result share the data. */
struct fj_frame {
    uint32_t header[6];
    const fj_frame_ops_t *ops;
    union {
        unsigned char data[FJ_FRAME_DATA];
        int64_t alignment;
    } u;
};

/* The beginning of a worker: its stack of frames as its owner sees it. */
typedef struct fj_spawn {
    fj_frame_t *top;    /* next free; the owner's alone */
    fj_frame_t *gate;   /* a fork that leaves top above it has to call the pool */
    fj_frame_t *floor;  /* a join below it has to call the pool */
} fj_spawn_t;

#ifdef FJPOOL_CORE
#define FJ_CALL(name) fj_##name
void fj_frame_forked(fj_worker_t *worker);
bool fj_frame_take_back(fj_worker_t *worker);
#endif

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
 * arguments are a struct, or a pointer to what outlives the join. */
#define FJ_TASK(result_t, name, args_t)                                        \
    static result_t name(fj_worker_t *worker, args_t args);                    \
    typedef char name##_fits[sizeof(result_t) <= FJ_FRAME_DATA                 \
                             && sizeof(args_t) <= FJ_FRAME_DATA ? 1 : -1];     \
    static void name##_run(fj_frame_t *frame, fj_worker_t *worker)             \
    {                                                                          \
        args_t args;                                                           \
        memcpy(&args, frame->u.data, sizeof args);                             \
        result_t result = name(worker, args);                                  \
        memcpy(frame->u.data, &result, sizeof result);                         \
    }                                                                          \
    static const fj_frame_ops_t name##_ops = {name##_run, {0, 0, 0}};          \
    static inline void name##_fork(fj_worker_t *worker, args_t args)           \
    {                                                                          \
        memcpy(fj_fork_data(worker), &args, sizeof args);                      \
        fj_fork_frame(worker, &name##_ops);                                    \
    }                                                                          \
    static inline result_t name##_join(fj_worker_t *worker)                    \
    {                                                                          \
        if (__builtin_expect(fj_join_frame(worker), 1)) {                      \
            args_t args;                                                       \
            memcpy(&args, fj_fork_data(worker), sizeof args);                  \
            return name(worker, args);                                         \
        }                                                                      \
        result_t result;                                                       \
        memcpy(&result, fj_fork_data(worker), sizeof result);                  \
        return result;                                                         \
    }                                                                          \
    static result_t name(fj_worker_t *worker, args_t args)

#ifdef __cplusplus
}
#endif

#endif /* FJPOOL_H */
