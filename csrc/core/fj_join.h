/* fj_join.h - layer 3: waiting for a task, and being of use meanwhile. */
#ifndef FJ_JOIN_H
#define FJ_JOIN_H

#include "fj_types.h"

/* Returns FJ_OK once the task is done, FJ_TIMEOUT at the deadline. A worker
 * (the calling thread's, or NULL outside every pool) runs the task itself if it
 * has not started, helps its runner with what descends from it, and only then
 * sleeps, with one fewer counted active. FJ_INTERRUPTED: a signal arrived while
 * it slept; call again to go on. FJ_STOPPED: `waiting`, the task on whose behalf
 * fj_join_for waits (or NULL), was asked to stop. FJ_AT_LIMIT, FJ_STARVED: it would sleep
 * while work is queued and no other thread may be had, see README.rst. */
fj_status_t fj_join(fj_worker_t *worker, fj_task_t *task, int64_t deadline);
fj_status_t fj_join_for(fj_worker_t *worker, fj_task_t *waiting, fj_task_t *task,
                        int64_t deadline);

/* For frames that cannot give up: FJ_OK, or FJ_INTERRUPTED to be called again. */
fj_status_t fj_join_firmly(fj_worker_t *worker, fj_task_t *task);

#endif /* FJ_JOIN_H */
