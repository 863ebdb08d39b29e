/* fj_spawn.h - layer 1: a worker's stack of forked calls, kept by value.
 *
 * The inline parts, and what a frame is, stand in the public fjpool.h. A frame's
 * header is a task; only frames below the split are shared.
 */
#ifndef FJ_SPAWN_H
#define FJ_SPAWN_H

#include "fj_types.h"

/* Owner: memory comes with the first fork. */
void fj_spawn_init(fj_worker_t *worker);
void fj_spawn_destroy(fj_worker_t *worker);

/* Owner, after a fork that met the gate: gets memory, shares frames if none is
 * shared. What finds no room is run at once. True: frames were shared, with a seqcst
 * swap; somebody should be told. */
bool fj_spawn_forked(fj_worker_t *worker);

/* Owner: shares all frames: before it blocks, and before another job begins here, since
 * a frame learns its job when it is shared. True as above. */
bool fj_spawn_expose(fj_worker_t *worker);

typedef enum fj_taken {
    FJ_TAKEN_BACK,            /* nobody has run the latest frame; it is off the stack */
    FJ_TAKEN_DONE,            /* it was run where it was forked, for want of room */
    FJ_TAKEN_STOLEN           /* somebody runs it or has: wait, then fj_spawn_drop */
} fj_taken_t;

/* Owner, in a join that met the floor. *exposed as in fj_spawn_forked. */
fj_taken_t fj_spawn_take_back(fj_worker_t *worker, bool *exposed);

/* Owner: the latest frame, stolen and done, leaves the stack. */
void fj_spawn_drop(fj_worker_t *worker);

/* Owner: the latest frame. */
fj_task_t *fj_spawn_latest(fj_worker_t *worker);

/* The frame whose header that is. */
static inline fj_frame_t *fj_spawn_frame(fj_task_t *task)
{
    return (fj_frame_t *)(void *)task;
}

/* What a shared frame is part of. */
static inline fj_job_t *fj_spawn_job(fj_task_t *task)
{
    return (fj_job_t *)(void *)fj_load_relaxed(&task->pool);
}

/* Owner: index of the next frame. */
uint32_t fj_spawn_top(fj_worker_t *worker);

/* Any thread: the oldest shared frame, RUNNING and the caller's to run and to complete. */
fj_task_t *fj_spawn_steal(fj_worker_t *victim);

/* Any thread: the same, but only a frame at or above `mark`, and only while `awaited`
 * is not done: one that descends from `awaited`, see README.rst. */
fj_task_t *fj_spawn_steal_descendant(fj_worker_t *victim, uint32_t mark, fj_task_t *awaited);

/* Any thread: shared frames. seqcst inside: partner of announcing idle, see fj_idle.c. */
uint32_t fj_spawn_size(fj_worker_t *worker);

#endif /* FJ_SPAWN_H */
