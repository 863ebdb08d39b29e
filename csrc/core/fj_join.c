/* fj_join.c - join: run it, help its runner, or sleep. */
#include "fj_join.h"

#include "fj_deque.h"
#include "fj_idle.h"
#include "fj_registry.h"
#include "fj_task.h"
#include "fj_worker.h"

enum {
    SPIN = 64,               /* looks at the task before sleeping */
    SWEEP_AT = 64            /* tombstones that a worker's own queues may collect */
};

static bool may_nest(fj_worker_t *worker)
{
    bool (*hook)(fj_worker_t *) = worker->pool->config.hooks.may_nest;
    return hook == NULL || hook(worker);
}

static void sweep_if_worth(fj_worker_t *worker)
{
    size_t queued = fj_deque_size(&worker->deque) + fj_deque_size(&worker->inbox);
    if (worker->tombstones > SWEEP_AT && worker->tombstones > queued / 2) {
        fj_deque_sweep(&worker->deque);
        fj_deque_sweep(&worker->inbox);
        worker->tombstones = 0;
        /* For a moment its entries were nowhere; who looked then went to sleep. */
        if (fj_registry_has_work(worker->pool)) {
            (void)fj_idle_signal(worker->pool);
        }
    }
}

/* Runs the awaited task here if nobody has started it. */
static bool run_here(fj_worker_t *worker, fj_task_t *task)
{
    if (fj_task_state(task) != FJ_QUEUED) {
        return false;
    }
    if (fj_deque_try_unpush(&worker->deque, task)
        || fj_deque_try_unpush(&worker->inbox, task)
        || fj_deque_try_take_oldest(&worker->inbox, task)) {
        fj_worker_run_entry(worker, task);   /* the caller still holds a reference */
        return true;
    }
    if (!fj_task_try_claim(task)) {
        return false;
    }
    fj_worker_run_claimed(worker, task);     /* its entry is a tombstone now */
    worker->tombstones++;
    sweep_if_worth(worker);
    return true;
}

/* Leapfrogging (Wagner and Calder 1993): takes work that the task's runner
 * forked on the task's behalf. */
static bool help(fj_worker_t *worker, fj_task_t *task)
{
    uint32_t runner = fj_load_acquire(&task->runner); /* pairs with fj_worker_run_claimed */
    if (runner == 0 || runner == worker->index + 1
        || runner > fj_registry_high(worker->pool)) {
        return false;
    }
    fj_worker_t *victim = fj_registry_worker(worker->pool, runner - 1);
    fj_task_t *found = fj_deque_poll_descendant(&victim->deque,
                                                fj_load_relaxed(&task->mark), task);
    if (found == NULL) {
        return false;
    }
    fj_store_relaxed(&worker->helps, fj_load_relaxed(&worker->helps) + 1);
    fj_worker_run_entry(worker, found);
    return true;
}

static bool spin(fj_task_t *task)
{
    for (int i = 0; i < SPIN; i++) {
        if (fj_task_is_done(task)) {
            return true;
        }
        fj_spin_hint();
    }
    return false;
}

static fj_status_t sleep(fj_worker_t *worker, fj_task_t *task, int64_t deadline)
{
    if (worker->pool->config.hooks.detach != NULL) {
        worker->pool->config.hooks.detach(worker);
    }
    fj_idle_block_begin(worker);
    fj_status_t status = fj_task_wait(task, deadline);
    fj_idle_block_end(worker);
    return status;
}

fj_status_t fj_join(fj_worker_t *worker, fj_task_t *task, int64_t deadline)
{
    if (worker == NULL) {
        return fj_task_wait(task, deadline);
    }
    while (!fj_task_is_done(task)) {
        /* A task of another pool runs there. */
        bool ours = fj_load_relaxed(&task->pool) == worker->pool;
        if (ours && may_nest(worker) && (run_here(worker, task) || help(worker, task))) {
            continue;
        }
        if (!spin(task)) {
            return sleep(worker, task, deadline);
        }
    }
    return FJ_OK;
}
