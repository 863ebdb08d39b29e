/* fj_join.h - layer 3: waiting for a task, and being of use meanwhile. */
#ifndef FJ_JOIN_H
#define FJ_JOIN_H

#include "fj_types.h"

/* Returns FJ_OK once the task is done, FJ_TIMEOUT at the deadline. A worker
 * (the calling thread's, or NULL outside every pool) runs the task itself if it
 * has not started, helps its runner with what descends from it, and only then
 * sleeps, with one fewer counted active. FJ_INTERRUPTED: a signal arrived while
 * it slept; call again to go on. */
fj_status_t fj_join(fj_worker_t *worker, fj_task_t *task, int64_t deadline);

#endif /* FJ_JOIN_H */
