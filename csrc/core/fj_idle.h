/* fj_idle.h - layer 2: who sleeps, who searches, who is woken. */
#ifndef FJ_IDLE_H
#define FJ_IDLE_H

#include "fj_types.h"

/* Any thread, after it made work visible with a seqcst store: wakes or starts
 * one worker if fewer than `parallelism` are active and nobody searches.
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

/* Worker: sleeps until taken off the stack. True: go on, as the searcher.
 * False: leave. */
bool fj_idle_sleep(fj_worker_t *worker);

/* Any thread, the pool stops: every idle worker leaves. */
void fj_idle_release_all(fj_pool_t *pool);

/* Worker: more are active than should be; it is one too many. */
bool fj_idle_is_excess(fj_pool_t *pool);

/* Worker: from here to the end its thread does nothing useful, so another may
 * run in its place if there is work. They nest. Guests are counted nowhere. */
void fj_idle_block_begin(fj_worker_t *worker);
void fj_idle_block_end(fj_worker_t *worker);

/* A retiring worker's last word on the counts; wakes a successor if needed.
 * `active`: it was running until now, not popped off the idle stack. False: a
 * successor was needed and the system refused its thread. */
bool fj_idle_retire(fj_worker_t *worker, bool active);

/* A thread that has retired, and whose successor was refused: counts it in
 * again, as the searcher, if nobody else is there for what is queued. */
bool fj_idle_return(fj_pool_t *pool);

#endif /* FJ_IDLE_H */
