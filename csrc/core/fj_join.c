/* fj_join.c - join: run it, help its runner, or sleep. */
#include "fj_join.h"

#include "fj_deque.h"
#include "fj_idle.h"
#include "fj_registry.h"
#include "fj_spawn.h"
#include "fj_task.h"
#include "fj_worker.h"

enum {
    SPIN = 64,               /* looks at the task before sleeping */
    GUEST_NS = 50000000,     /* a guest may be the thread that handles signals: it looks */
    SWEEP_AT = 64            /* tombstones that a worker's own queues may collect */
};

static bool may_nest(fj_worker_t *worker)
{
    bool (*hook)(fj_worker_t *) = worker->pool->config.hooks.may_nest;
    return hook == NULL || hook(worker);
}

/* What finds no place in its deque any more goes to the inbox, where no mark counts. */
static void sweep(fj_worker_t *worker, fj_deque_t *deque)
{
    fj_task_t *homeless = fj_deque_sweep(deque);
    if (homeless != NULL && fj_deque_push(&worker->inbox, homeless) != FJ_OK) {
        fj_worker_run_entry(worker, homeless); /* no memory: then here */
    }
}

static void sweep_if_worth(fj_worker_t *worker)
{
    size_t queued = fj_deque_size(&worker->deque) + fj_deque_size(&worker->inbox);
    if (worker->tombstones > SWEEP_AT && worker->tombstones > queued / 2) {
        sweep(worker, &worker->deque);
        sweep(worker, &worker->inbox);
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
    fj_task_t *found = fj_spawn_steal_descendant(victim, fj_load_relaxed(&task->spawn_mark),
                                                 task);
    if (found == NULL) {
        found = fj_deque_poll_descendant(&victim->deque, fj_load_relaxed(&task->mark), task);
    }
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

/* A task that a caller's thread runs will be done without the pool's help. */
static bool runs_outside(fj_pool_t *pool, fj_task_t *task)
{
    uint32_t runner = fj_load_acquire(&task->runner); /* pairs with fj_worker_run_claimed */
    return fj_task_state(task) == FJ_RUNNING
        && (runner == 0 || (runner <= fj_registry_high(pool)
                            && fj_load_relaxed(&fj_registry_worker(pool, runner - 1)->guest)));
}

/* What the worker sleeps for, for others to judge: the task stays while this is set. */
static void set_awaits(fj_worker_t *worker, fj_task_t *task)
{
    fj_mutex_lock(&worker->pool->registry.lock);
    worker->awaits = task;
    fj_mutex_unlock(&worker->pool->registry.lock);
}

/* Does every thread that the pool may have wait in a join for something that no other thread
 * will finish? Then nothing can ever run again, and this worker is told. The others are not:
 * it takes itself out, and its task's end may free them.
 *
 * `awaits` is set before active goes down and taken back after active went up (sleep), and
 * neither while the lock is held here. So if ctl says that nobody is active, every worker with
 * `awaits` was asleep at that moment, and a task that is not done now was not done then. Who
 * has been woken and has yet to count itself in awaits a task that is done. */
static bool is_starved(fj_worker_t *worker)
{
    fj_pool_t *pool = worker->pool;
    uint32_t waiting = 0;
    fj_mutex_lock(&pool->registry.lock);
    fj_ctl_t c = fj_load_seqcst(&pool->ctl);
    for (uint32_t i = 0, high = fj_registry_high(pool); i < high; i++) {
        fj_task_t *task = fj_registry_worker(pool, i)->awaits;
        waiting += task != NULL && !fj_task_is_done(task) && !runs_outside(pool, task);
    }
    /* Of a pool with fewer threads one is just leaving, and will look again. */
    bool starved = fj_ctl_active(c) == 0 && fj_ctl_total(c) >= pool->config.max_workers
                && waiting >= fj_ctl_total(c);
    if (starved) {
        worker->awaits = NULL;
    }
    fj_mutex_unlock(&pool->registry.lock);
    return starved;
}

/* max_workers is reached and work is queued. */
static fj_status_t at_limit(fj_worker_t *worker)
{
    if (is_starved(worker)) {
        return FJ_STARVED;
    }
    bool (*saturate)(fj_worker_t *) = worker->pool->config.hooks.saturate;
    return saturate == NULL || saturate(worker) ? FJ_OK : FJ_AT_LIMIT;
}

typedef struct wait {
    fj_task_t *task, *waiting;
    int64_t deadline;
    bool firm;               /* not even the thread limit ends it */
} wait_t;

static fj_status_t sleep(fj_worker_t *worker, const wait_t *wait, bool ours)
{
    fj_pool_t *pool = worker->pool;
    bool judged = ours && wait->deadline == FJ_FOREVER && !worker->guest;
    if (pool->config.hooks.detach != NULL) {
        pool->config.hooks.detach(worker);
    }
    if (judged) {
        set_awaits(worker, wait->task);      /* before active goes down: the last sees all others */
    }
    fj_store_relaxed(&worker->joining, true);
    fj_status_t status = fj_idle_block_begin(worker);
    if (status == FJ_AT_LIMIT) {
        status = wait->firm ? FJ_OK : at_limit(worker);
    }
    if (status == FJ_OK) {
        int64_t slice = worker->guest ? fj_os_deadline(GUEST_NS) : FJ_FOREVER;
        bool sliced = slice < wait->deadline;
        status = fj_task_wait_for(wait->waiting, wait->task, sliced ? slice : wait->deadline);
        status = status == FJ_TIMEOUT && sliced ? FJ_INTERRUPTED : status;
    }
    fj_idle_block_end(worker);
    fj_store_relaxed(&worker->joining, false);
    if (judged) {
        set_awaits(worker, NULL);            /* after active went up again */
    }
    return status;
}

static fj_status_t join(fj_worker_t *worker, const wait_t *wait)
{
    fj_task_t *task = wait->task;
    while (!fj_task_is_done(task)) {
        /* A task of another pool runs there. */
        bool ours = fj_load_relaxed(&task->pool) == worker->pool;
        if (ours && may_nest(worker) && (run_here(worker, task) || help(worker, task))) {
            continue;
        }
        if (!spin(task)) {
            return sleep(worker, wait, ours);
        }
    }
    return FJ_OK;
}

/* Somebody has stolen the frame: it cannot be run here, and cannot be given up. */
static void join_frame(fj_worker_t *worker, fj_task_t *frame)
{
    wait_t wait = {frame, NULL, FJ_FOREVER, true};
    /* Its thief is on the way to begin it. Only then it is known who that is: a guest will
     * end it without the pool's help (runs_outside). */
    while (fj_load_acquire(&frame->runner) == FJ_FRAME) { /* pairs with run in fj_worker.c */
        fj_os_yield();
    }
    while (!fj_task_is_done(frame)) {
        if (!(may_nest(worker) && help(worker, frame)) && !spin(frame)) {
            (void)sleep(worker, &wait, true); /* a signal: whoever handles it is not here */
        }
    }
    fj_spawn_drop(worker);
    if (worker->pool->config.hooks.detach != NULL) { /* what it helped with may have attached */
        worker->pool->config.hooks.detach(worker);
    }
}

bool fj_frame_take_back(fj_worker_t *worker)
{
    bool exposed;
    fj_taken_t taken = fj_spawn_take_back(worker, &exposed);
    if (exposed) {
        (void)fj_idle_signal(worker->pool);
    }
    if (taken == FJ_TAKEN_STOLEN) {
        join_frame(worker, fj_spawn_latest(worker));
    }
    return taken == FJ_TAKEN_BACK;
}

fj_status_t fj_join_for(fj_worker_t *worker, fj_task_t *waiting, fj_task_t *task,
                        int64_t deadline)
{
    return worker == NULL ? fj_task_wait_for(waiting, task, deadline)
                          : join(worker, &(wait_t){task, waiting, deadline, false});
}

fj_status_t fj_join(fj_worker_t *worker, fj_task_t *task, int64_t deadline)
{
    return fj_join_for(worker, NULL, task, deadline);
}

fj_status_t fj_join_firmly(fj_worker_t *worker, fj_task_t *task)
{
    return join(worker, &(wait_t){task, NULL, FJ_FOREVER, true});
}
