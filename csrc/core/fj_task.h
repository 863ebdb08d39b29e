/* fj_task.h - layer 1: the life of one task, told by its status word. */
#ifndef FJ_TASK_H
#define FJ_TASK_H

#include "fj_types.h"

static inline fj_state_t fj_task_state(fj_task_t *task)
{
    /* pairs with the release in fj_task_complete: who sees it done sees its result */
    return (fj_state_t)(fj_load_acquire(&task->status) & FJ_STATE_MASK);
}

static inline bool fj_state_is_done(fj_state_t state)
{
    return state >= FJ_NORMAL;
}

static inline bool fj_task_is_done(fj_task_t *task)
{
    return fj_state_is_done(fj_task_state(task));
}

/* Where it was queued or ran last. */
static inline fj_pool_t *fj_task_pool(fj_task_t *task)
{
    return fj_load_relaxed(&task->pool);
}

/* Before anybody else knows the task. */
void fj_task_init(fj_task_t *task, const fj_task_ops_t *ops);

/* NEW -> QUEUED, in that pool. Whoever queues it. False: it was not NEW. */
bool fj_task_try_queue(fj_task_t *task, fj_pool_t *pool);

/* QUEUED -> NEW: taken back from the caller's own deque. */
bool fj_task_try_unqueue(fj_task_t *task);

/* QUEUED -> RUNNING. Any thread; at most one succeeds. */
bool fj_task_try_claim(fj_task_t *task);

/* NEW or QUEUED -> RUNNING: invoked in place. */
bool fj_task_try_start(fj_task_t *task);

/* NEW or QUEUED -> CANCELLED, and wakes who waits. Any thread. */
bool fj_task_try_cancel(fj_task_t *task);

/* Anything unfinished -> NORMAL, FAILED or CANCELLED, and wakes who waits. One
 * caller succeeds. Touches nothing of the task after it is done. Any thread. */
bool fj_task_complete(fj_task_t *task, fj_state_t state);

/* Done -> NEW, nobody waiting. The caller knows that nobody else uses it. */
void fj_task_reset(fj_task_t *task);

/* Any state -> any state, and wakes who waits: for a binding whose users may
 * write a state directly. */
void fj_task_force(fj_task_t *task, fj_state_t state);

/* Looks again and again, for about as long as falling asleep and being woken would
 * take but not past the deadline. True: it is done. For threads that are no workers. */
bool fj_task_watch(fj_task_t *task, int64_t deadline);

/* Sleeps until done, a deadline or a signal. No helping: see fj_join. */
fj_status_t fj_task_wait(fj_task_t *task, int64_t deadline);

/* The same on behalf of the task `waiting` (or NULL): also until that one is
 * asked to stop and fj_task_poke called. */
fj_status_t fj_task_wait_for(fj_task_t *waiting, fj_task_t *task, int64_t deadline);

/* Makes everybody who sleeps in fj_task_wait look again. */
void fj_task_poke(fj_task_t *task);

/* Asks a task to stop; whoever it waits for must then be poked. */
void fj_task_request_stop(fj_task_t *task);

static inline bool fj_task_stop_requested(fj_task_t *task)
{
    return (fj_load_acquire(&task->status) & FJ_TASK_STOP_REQUESTED) != 0;
}

#endif /* FJ_TASK_H */
