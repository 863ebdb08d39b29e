/* fj_quiesce.h - layer 2: is anything left to do, and the way to the end. */
#ifndef FJ_QUIESCE_H
#define FJ_QUIESCE_H

#include "fj_types.h"

static inline bool fj_quiesce_stopping(fj_pool_t *pool)
{
    return (fj_load_relaxed(&pool->phase) & FJ_PHASE_STOP) != 0;
}

/* Any thread. True: there was a moment, during the call, when no worker was
 * active or blocked and nothing was queued. */
bool fj_quiesce_is_quiescent(fj_pool_t *pool);

/* Sleeps until quiescent, a deadline, or a signal. Not from a worker. */
fj_status_t fj_quiesce_await(fj_pool_t *pool, int64_t deadline);

/* Nothing more from outside; what is queued still runs. Any thread. */
void fj_quiesce_shutdown(fj_pool_t *pool);

/* The same, and workers take nothing more; what is queued is cancelled. */
void fj_quiesce_stop(fj_pool_t *pool);

/* Worker, after announcing idle or leaving: tells who awaits quiescence, and
 * ends a pool that was shut down and has nothing left. */
void fj_quiesce_check(fj_pool_t *pool);

/* The pool stops: cancels everything queued in a worker's own queues, by their
 * owner, and in the lane. */
void fj_quiesce_drain_own(fj_worker_t *worker);

/* Cancels what outsiders handed in. */
void fj_quiesce_drain_lane(fj_pool_t *pool);

/* Somebody was refused a thread. If there is none, what lies in the lane gets one
 * more attempt and is then cancelled: nobody would ever come for it. */
void fj_quiesce_rescue(fj_pool_t *pool);

/* A thread of the pool (or one that never started) no longer exists. */
void fj_quiesce_thread_gone(fj_pool_t *pool);

/* Sleeps until every thread is gone, a deadline, or a signal. Not from a worker. */
fj_status_t fj_quiesce_await_termination(fj_pool_t *pool, int64_t deadline);

#endif /* FJ_QUIESCE_H */
