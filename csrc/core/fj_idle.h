/* fj_idle.h - layer 2: who sleeps, who searches, who is woken. */
#ifndef FJ_IDLE_H
#define FJ_IDLE_H

#include "fj_types.h"

/* Any thread, after it made work visible with a seqcst store: wakes or starts
 * one worker if fewer than `parallelism` are active and nobody searches; if all
 * are, sees to it that the monitor watches them.
 * False: a thread was needed and the system refused it. */
bool fj_idle_signal(fj_pool_t *pool);

/* Worker: becomes the searcher. False: there is one. */
bool fj_idle_try_search(fj_pool_t *pool);

/* The searcher found something: gives the role up, and wakes the next worker
 * if there is more. */
void fj_idle_end_search(fj_pool_t *pool);

/* Worker: onto the idle stack (and out of the searcher's role), then looks
 * once more and wakes somebody, perhaps itself, if there is work. Returns true
 * if it was the last active one. fj_idle_sleep must follow. */
bool fj_idle_announce(fj_worker_t *worker, bool searching);

/* Worker: sleeps until taken off the stack. True: go on, as the searcher if
 * worker->searching says so. False: leave. */
bool fj_idle_sleep(fj_worker_t *worker);

/* Any thread, the pool stops: every idle worker leaves. */
void fj_idle_release_all(fj_pool_t *pool);

/* Worker: more are active than should be; it is one too many. */
bool fj_idle_is_excess(fj_pool_t *pool);

/* Worker: from here to the end its thread does nothing useful, so another may
 * run in its place if there is work. They nest. Guests are counted nowhere. */
fj_status_t fj_idle_block_begin(fj_worker_t *worker); /* FJ_OK, or FJ_AT_LIMIT: not replaced */
void fj_idle_block_end(fj_worker_t *worker);

/* Worker: around each top-level task. */
void fj_idle_task_begin(fj_worker_t *worker);
void fj_idle_task_end(fj_worker_t *worker);

/* Monitor: takes a worker that was last seen with this activity word out of
 * `active`, or back in. False: it has moved on. */
bool fj_idle_mark(fj_worker_t *worker, uint64_t activity);
bool fj_idle_unmark(fj_worker_t *worker, uint64_t activity);

/* Monitor: how many beyond `parallelism` may run; wakes somebody if that and the
 * queues allow it. */
void fj_idle_set_credit(fj_pool_t *pool, uint32_t credit);

/* Any thread: wakes the monitor if it sleeps, or starts it. */
void fj_idle_want_monitor(fj_pool_t *pool);

/* A retiring worker's last word on the counts; wakes a successor if needed.
 * `active`: it was running until now, not popped off the idle stack. False: a
 * successor was needed and the system refused its thread. */
bool fj_idle_retire(fj_worker_t *worker, bool active);

/* A thread that has retired, and whose successor was refused: counts it in
 * again, as the searcher, if nobody else is there for what is queued. */
bool fj_idle_return(fj_pool_t *pool);

#endif /* FJ_IDLE_H */
