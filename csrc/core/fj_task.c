/* fj_task.c - transitions of the status word. */
#include "fj_task.h"

/* How long a waiter outside watches: a sleep and a wake-up cost about as much, so
 * in vain it doubles the cost at most. */
enum { WATCH_NS = 20000 };

/* Moves to `state` if the present state is in `from` (a set of 1 << state).
 * Other bits stay. Success is acquire and release: the new runner sees what
 * the forker wrote, a waiter sees what the runner wrote. */
static bool transit(fj_task_t *task, uint32_t from, fj_state_t state, uint32_t *before)
{
    uint32_t status = fj_load_relaxed(&task->status);
    do {
        if ((from >> (status & FJ_STATE_MASK) & 1) == 0) {
            return false;
        }
    } while (!fj_cas_weak_acqrel(&task->status, &status,
                                 (status & ~(uint32_t)FJ_STATE_MASK) | state));
    *before = status;
    return true;
}

static bool finish(fj_task_t *task, uint32_t from, fj_state_t state)
{
    uint32_t before;
    if (!transit(task, from, state, &before)) { /* pairs with fj_task_state */
        return false;
    }
    /* From here on the task may be gone: only its address is used. */
    if (before & FJ_TASK_WAITED) {
        fj_os_wake_all(&task->status);
    }
    return true;
}

enum {
    IN_NEW = 1 << FJ_NEW,
    IN_QUEUED = 1 << FJ_QUEUED,
    IN_RUNNING = 1 << FJ_RUNNING
};

void fj_task_init(fj_task_t *task, const fj_task_ops_t *ops)
{
    atomic_init(&task->status, FJ_NEW);
    atomic_init(&task->runner, 0);
    atomic_init(&task->mark, 0);
    atomic_init(&task->spawn_mark, 0);
    atomic_init(&task->pool, NULL);
    task->ops = ops;
}

bool fj_task_try_queue(fj_task_t *task, fj_pool_t *pool)
{
    uint32_t before;
    if (fj_task_state(task) != FJ_NEW) {
        return false;
    }
    fj_store_relaxed(&task->pool, pool);     /* published by the swap */
    return transit(task, IN_NEW, FJ_QUEUED, &before);
}

bool fj_task_try_unqueue(fj_task_t *task)
{
    uint32_t before;
    return transit(task, IN_QUEUED, FJ_NEW, &before);
}

bool fj_task_try_claim(fj_task_t *task)
{
    uint32_t before;
    return transit(task, IN_QUEUED, FJ_RUNNING, &before);
}

bool fj_task_try_start(fj_task_t *task)
{
    uint32_t before;
    return transit(task, IN_NEW | IN_QUEUED, FJ_RUNNING, &before);
}

bool fj_task_try_cancel(fj_task_t *task)
{
    return finish(task, IN_NEW | IN_QUEUED, FJ_CANCELLED);
}

bool fj_task_complete(fj_task_t *task, fj_state_t state)
{
    return finish(task, IN_NEW | IN_QUEUED | IN_RUNNING, state);
}

void fj_task_reset(fj_task_t *task)
{
    fj_store_relaxed(&task->runner, 0);
    fj_store_release(&task->status, FJ_NEW); /* pairs with fj_task_state */
}

void fj_task_force(fj_task_t *task, fj_state_t state)
{
    (void)finish(task, UINT32_MAX, state);
}

bool fj_task_watch(fj_task_t *task, int64_t deadline)
{
    int64_t until = fj_os_deadline(WATCH_NS);
    until = deadline < until ? deadline : until;
    for (;;) {
        for (int i = 0; i < 8; i++) {
            if (fj_task_is_done(task)) {
                return true;
            }
            fj_spin_hint();
        }
        if (fj_os_now() >= until) {
            return false;
        }
        fj_os_yield();                       /* its runner may be waiting for this processor */
    }
}

fj_status_t fj_task_wait(fj_task_t *task, int64_t deadline)
{
    return fj_task_wait_for(NULL, task, deadline);
}

fj_status_t fj_task_wait_for(fj_task_t *waiting, fj_task_t *task, int64_t deadline)
{
    /* Acquire pairs with the release of whoever completed it already. */
    uint32_t status = fj_or_acqrel(&task->status, FJ_TASK_WAITED) | FJ_TASK_WAITED;
    while (!fj_state_is_done((fj_state_t)(status & FJ_STATE_MASK))) {
        /* Asked to stop, then poked: either the request is seen here, or the
         * word that the sleep compares has been changed by the poke. */
        if (waiting != NULL && fj_task_stop_requested(waiting)) {
            return FJ_STOPPED;
        }
        fj_os_wait_result_t result = fj_os_wait(&task->status, status, deadline);
        status = fj_load_acquire(&task->status); /* pairs with finish */
        if (fj_state_is_done((fj_state_t)(status & FJ_STATE_MASK))) {
            break;
        }
        if (result == FJ_WAIT_TIMEOUT) {
            return FJ_TIMEOUT;
        }
        if (result == FJ_WAIT_INTERRUPTED) {
            return FJ_INTERRUPTED;
        }
    }
    return FJ_OK;
}

void fj_task_poke(fj_task_t *task)
{
    uint32_t status = fj_load_relaxed(&task->status), next;
    do {
        next = (status & ~(uint32_t)FJ_TASK_POKES) | ((status + FJ_TASK_POKE) & FJ_TASK_POKES);
    } while (!fj_cas_weak_acqrel(&task->status, &status, next)); /* after request_stop: wait_for */
    fj_os_wake_all(&task->status);
}

void fj_task_request_stop(fj_task_t *task)
{
    (void)fj_or_acqrel(&task->status, FJ_TASK_STOP_REQUESTED); /* pairs with stop_requested */
}
