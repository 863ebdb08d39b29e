/* fj_worker.h - layer 3: a worker's life: local, then steal, then lane. */
#ifndef FJ_WORKER_H
#define FJ_WORKER_H

#include "fj_types.h"

/* The life of a worker, from its thread's start until it is counted nowhere.
 * False: work may be left, and the system refuses a thread for it. */
bool fj_worker_main(fj_worker_t *worker);

/* The worker itself: gives up the searcher's role, if it has it. */
void fj_worker_end_search(fj_worker_t *worker);

/* An entry taken out of a queue: claims and runs the task, or finds a
 * tombstone; drops the entry's reference. Or a stolen frame. The worker itself. */
void fj_worker_run_entry(fj_worker_t *worker, fj_task_t *task);

/* A task that the caller claimed or started. The worker itself. */
void fj_worker_run_claimed(fj_worker_t *worker, fj_task_t *task);

/* Queues a task that the caller just made QUEUED, with a reference for the
 * entry; wakes somebody. The worker itself. On failure nothing is queued. */
fj_status_t fj_worker_fork(fj_worker_t *worker, fj_task_t *task);   /* deque */
fj_status_t fj_worker_submit(fj_worker_t *worker, fj_task_t *task); /* inbox */

/* The next entry it would run, without searching. NULL: none. */
fj_task_t *fj_worker_poll_local(fj_worker_t *worker);

#endif /* FJ_WORKER_H */
