/* fj.h - layer 4: the one public header of the core.
 *
 * Bindings and C programs include this and nothing below it. Every function
 * may be called by any thread unless it says otherwise; none prints, exits or
 * calls back except through the hooks and task operations it was given.
 */
#ifndef FJ_H
#define FJ_H

#include "fj_join.h"
#include "fj_range.h"
#include "fj_task.h"
#include "fj_types.h"

/* Defaults for everything but parallelism. */
fj_config_t fj_config_default(uint32_t parallelism);

/* Starts no thread. The caller owns one reference; NULL: no memory. Giving the
 * last reference back while threads exist is fine: each holds one. */
fj_pool_t *fj_pool_create(const fj_config_t *config);
void fj_pool_retain(fj_pool_t *pool);
bool fj_pool_try_retain(fj_pool_t *pool);    /* false: it is being destroyed */
void fj_pool_release(fj_pool_t *pool);

/* Hands tasks in, all or none, in order. Each is QUEUED and has a reference for
 * its entry; on failure the caller keeps those references.
 * From one of the pool's workers: to its inbox. Else: to the lane. */
fj_status_t fj_pool_submit(fj_pool_t *pool, fj_task_t *const *tasks, size_t n);

/* The same for a thread outside, if no more than `most` are in the lane then (n <=
 * most), else FJ_NO_ROOM. From one of the pool's workers: as fj_pool_submit. */
fj_status_t fj_pool_offer(fj_pool_t *pool, fj_task_t *const *tasks, size_t n, size_t most);

/* Sleeps until n tasks may find that room: FJ_OK, FJ_TIMEOUT or FJ_INTERRUPTED. */
fj_status_t fj_pool_await_room(fj_pool_t *pool, size_t n, size_t most, int64_t deadline);

/* The same to the lane whoever calls. */
fj_status_t fj_pool_submit_outside(fj_pool_t *pool, fj_task_t *const *tasks, size_t n);

/* Onto the calling worker's deque (fj_current is not NULL). */
fj_status_t fj_fork(fj_task_t *task);

/* Takes back what the calling worker forked last: its
 * entry is gone and the task NEW again. False: it is not on top, or not QUEUED. */
bool fj_try_unfork(fj_task_t *task);

/* From a start hook that is about to take long: others need not wait for this
 * worker to have searched. */
void fj_slow_start(fj_worker_t *worker);

/* Runs a task that the caller moved to RUNNING (fj_task_try_start) in the
 * calling thread, as its worker if it is one. */
void fj_run_started(fj_task_t *task);

/* Claims a task that no worker has started and runs it in the calling thread:
 * for a caller outside that may run what it awaits. False: it has started. */
bool fj_run_outside(fj_pool_t *pool, fj_task_t *task);

/* As fjpool.h says, in a pool that is given. A guest counts as a worker of its pool. Where
 * the calling thread is a guest, or waits outside, `interrupted` is asked now and then
 * (after a signal, or every 50 ms); if it says true, the job is cancelled, and the call
 * returns FJ_CODE_INTERRUPTED once nothing of it runs any more. May be null. */
int fj_run(fj_pool_t *pool, fj_body_t body, void *data, bool (*interrupted)(void));

/* Worker, see fjpool.h. */
int fj_run_loop(fj_worker_t *worker, const fj_loop_t *loop, fj_value_t *value);
bool fj_run_cancelled(fj_worker_t *worker);
void fj_run_fail(fj_worker_t *worker, int code);
uint32_t fj_worker_index(fj_worker_t *worker);
uint32_t fj_pool_max_workers(fj_pool_t *pool);

/* The calling thread takes part as a guest: it has a deque, others steal from
 * it, it runs only what it forks or awaits, and it is counted nowhere.
 * NULL: no memory. Leaving hands what is left in its deque to the lane. */
fj_worker_t *fj_guest_enter(fj_pool_t *pool);
void fj_guest_leave(fj_worker_t *guest);

/* A worker (or NULL: nothing happens) is about to block, and is back. They nest.
 * Each begin needs its end, also after FJ_AT_LIMIT: work is queued, but no other
 * thread may be had; the caller may block all the same. */
fj_status_t fj_block_begin(fj_worker_t *worker);
void fj_block_end(fj_worker_t *worker);
uint32_t fj_block_depth(fj_worker_t *worker); /* begins without their end */

void fj_pool_shutdown(fj_pool_t *pool);      /* queued work still runs */
void fj_pool_stop(fj_pool_t *pool);          /* queued work is cancelled */

/* FJ_OK, FJ_TIMEOUT or FJ_INTERRUPTED. Not from one of its workers. */
fj_status_t fj_pool_await_termination(fj_pool_t *pool, int64_t deadline);
fj_status_t fj_pool_await_quiescence(fj_pool_t *pool, int64_t deadline);

bool fj_pool_is_quiescent(fj_pool_t *pool);
uint32_t fj_pool_phase(fj_pool_t *pool);     /* FJ_PHASE_ bits */

/* Returns the old value; n is 1 .. max_workers. */
uint32_t fj_pool_set_parallelism(fj_pool_t *pool, uint32_t n);

typedef struct fj_stats {
    uint32_t parallelism, pool_size, active, running, blocked;
    uint32_t refused;                 /* threads the system did not give */
    uint32_t at_limit;                /* times a blocked worker was not replaced: max_workers */
    uint32_t unannounced;             /* workers found blocked, at this moment */
    uint64_t detections;              /* the same, ever */
    bool monitor;                     /* its thread exists */
    bool searching;                   /* a worker looks for work, or is on its way to it */
    uint64_t queued_tasks;            /* in deques and inboxes */
    uint64_t queued_submissions;      /* in the lane */
    uint64_t steals, helps, completed, leaves;
} fj_stats_t;

/* Each number was true at some moment of the call; exact when quiescent. */
fj_stats_t fj_pool_stats(fj_pool_t *pool);

typedef struct fj_worker_stats {
    uint32_t number;                  /* k of its name */
    bool guest;
    uint64_t steals, completed, leaves;
} fj_worker_stats_t;

/* By index from 0. False: there is no such place yet. */
bool fj_pool_worker_stats(fj_pool_t *pool, uint32_t index, fj_worker_stats_t *stats);

/* The pool of the calling worker or guest, NULL outside; and what the binding
 * gave it. */
fj_pool_t *fj_worker_pool(fj_worker_t *worker);
void *fj_pool_user(fj_pool_t *pool);
uint32_t fj_worker_number(fj_worker_t *worker); /* k of its name, from 1 */

typedef enum fj_activity {
    FJ_IDLE,
    FJ_SEARCHING,
    FJ_BUSY,
    FJ_JOINING,                       /* asleep in a join */
    FJ_BLOCKED,                       /* between block_begin and block_end */
    FJ_UNANNOUNCED                    /* found asleep by the monitor */
} fj_activity_t;

typedef struct fj_worker_state {
    uint32_t number;                  /* k of its name */
    bool present;                     /* false: this worker has left */
    fj_activity_t activity;
    int64_t since;                    /* coarse clock: when its top-level task began */
    fj_os_thread_t thread;
    void *local;                      /* fj_worker_set_local */
} fj_worker_state_t;

/* By index from 0. False: there is no such place yet. */
bool fj_pool_worker_state(fj_pool_t *pool, uint32_t index, fj_worker_state_t *state);

/* What the binding wants to find again; the worker itself. */
void fj_worker_set_local(fj_worker_t *worker, void *local);

/* How workers that block unannounced are found on this system, in words; NULL:
 * they cannot be. */
const char *fj_detection_source(void);

/* In a forked child: its only thread is no worker of anything. */
void fj_after_fork_child(void);

#endif /* FJ_H */
