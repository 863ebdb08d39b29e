/* fj_worker.c - the run loop. */
#include "fj_worker.h"

#include "fj_deque.h"
#include "fj_idle.h"
#include "fj_lane.h"
#include "fj_quiesce.h"
#include "fj_registry.h"
#include "fj_spawn.h"
#include "fj_task.h"

enum {
    /* Every so many top-level picks outside work comes first, so that a
     * worker's own endless work cannot starve it. A prime, to fall into step
     * with nothing. */
    OUTSIDE_FIRST = 61,
    /* How long the searcher spins: about what a wake-up would cost. */
    SEARCH_NS = 20000
};

_Thread_local fj_worker_t *fj_current;

static uint32_t next_random(fj_worker_t *worker)
{
    uint64_t x = worker->random;             /* xorshift64, Marsaglia 2003 */
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    worker->random = x;
    return (uint32_t)(x >> 32);
}

static void count(_Atomic(uint64_t) *counter)
{
    /* One writer: no read-modify-write is needed. */
    fj_store_relaxed(counter, fj_load_relaxed(counter) + 1);
}

static void detach(fj_worker_t *worker)
{
    if (worker->pool->config.hooks.detach != NULL) {
        worker->pool->config.hooks.detach(worker);
    }
}

static void run(fj_worker_t *worker, fj_task_t *task, bool native, fj_frame_t *frame)
{
    fj_store_relaxed(&task->mark, (uint32_t)fj_load_relaxed(&worker->deque.top));
    fj_store_relaxed(&task->spawn_mark, fj_spawn_top(worker));
    fj_store_release(&task->runner, worker->index + 1); /* pairs with help in fj_join.c */
    if (native) {
        detach(worker);
    }
    uint32_t depth = fj_load_relaxed(&worker->running);
    uint32_t blocks = fj_load_relaxed(&worker->blocked);
    fj_job_t *job = worker->job;
    fj_store_relaxed(&worker->running, depth + 1);
    if (frame != NULL) {
        worker->job = fj_spawn_job(task);
        frame->ops->run(frame, worker);
    } else {
        worker->job = NULL;
        task->ops->run(task, worker);
    }
    worker->job = job;
    while (FJ_UNLIKELY(fj_load_relaxed(&worker->blocked) > blocks)) {
        fj_idle_block_end(worker);           /* it forgot to */
    }
    fj_store_relaxed(&worker->running, depth);
    count(&worker->completed);
}

void fj_worker_run_claimed(fj_worker_t *worker, fj_task_t *task)
{
    fj_store_relaxed(&task->pool, worker->pool);
    run(worker, task, task->ops->native, NULL);
}

static void run_frame(fj_worker_t *worker, fj_task_t *frame)
{
    run(worker, frame, true, fj_spawn_frame(frame));
    (void)fj_task_complete(frame, FJ_NORMAL); /* its owner may use the memory again at once */
}

void fj_frame_forked(fj_worker_t *worker)
{
    if (fj_spawn_forked(worker)) {
        (void)fj_idle_signal(worker->pool);  /* refused: the owner runs it */
    }
}

void fj_worker_run_entry(fj_worker_t *worker, fj_task_t *task)
{
    if (fj_load_relaxed(&task->runner) == FJ_FRAME) {
        run_frame(worker, task);
        return;
    }
    if (fj_task_try_claim(task)) {
        fj_worker_run_claimed(worker, task);
    }
    task->ops->drop(task);
}

static fj_status_t publish(fj_worker_t *worker, fj_deque_t *deque, fj_task_t *task)
{
    fj_status_t status = fj_deque_push(deque, task);
    if (status == FJ_OK) {
        if (!fj_idle_signal(worker->pool)) { /* then this worker will run it */
            fj_quiesce_rescue(worker->pool); /* but others may have relied on that thread */
        }
    }
    return status;
}

fj_status_t fj_worker_fork(fj_worker_t *worker, fj_task_t *task)
{
    return publish(worker, &worker->deque, task);
}

fj_status_t fj_worker_submit(fj_worker_t *worker, fj_task_t *task)
{
    return publish(worker, &worker->inbox, task);
}

fj_task_t *fj_worker_poll_local(fj_worker_t *worker)
{
    fj_task_t *task = worker->pool->config.fifo ? fj_deque_poll(&worker->deque)
                                                : fj_deque_pop(&worker->deque);
    return task != NULL ? task : fj_deque_poll(&worker->inbox);
}

/* Between forked frames and tasks the older ones. */
static fj_task_t *steal_from(fj_worker_t *victim)
{
    fj_task_t *task = NULL;
    if (fj_spawn_size(victim) != 0
        && (int32_t)((uint32_t)fj_load_relaxed(&victim->deque.base)
                     - fj_load_relaxed(&victim->forked_after)) >= 0) {
        task = fj_spawn_steal(victim);
    }
    task = task != NULL ? task : fj_deque_poll(&victim->deque);
    task = task != NULL ? task : fj_spawn_steal(victim);
    return task != NULL ? task : fj_deque_poll(&victim->inbox);
}

static fj_task_t *steal(fj_worker_t *thief)
{
    fj_pool_t *pool = thief->pool;
    uint32_t high = fj_registry_high(pool);
    uint32_t first = next_random(thief) % high;
    for (uint32_t i = 0; i < high; i++) {
        fj_worker_t *victim = fj_registry_worker(pool, (first + i) % high);
        fj_task_t *task = steal_from(victim);
        if (task != NULL) {
            return task;
        }
    }
    return NULL;
}

/* Work that is not its own: counted as a steal, as in Java. */
static fj_task_t *foreign(fj_worker_t *worker)
{
    fj_task_t *task = steal(worker);
    if (task == NULL) {
        task = fj_lane_take(&worker->pool->lane);
    }
    if (task != NULL) {
        count(&worker->steals);
    }
    return task;
}

static fj_task_t *pick(fj_worker_t *worker)
{
    if (++worker->ticks % OUTSIDE_FIRST == 0) {
        fj_task_t *task = fj_lane_take(&worker->pool->lane);
        if (task != NULL) {
            count(&worker->steals);
            return task;
        }
    }
    fj_task_t *task = fj_worker_poll_local(worker);
    return task != NULL ? task : foreign(worker);
}

static fj_task_t *search(fj_worker_t *worker)
{
    int64_t until = fj_os_now() + SEARCH_NS;
    do {
        for (int i = 0; i < 16; i++) {
            fj_spin_hint();
        }
        fj_task_t *task = foreign(worker);
        if (task != NULL) {
            return task;
        }
        fj_os_yield();                       /* whoever is about to hand something in may wait for it */
    } while (!fj_quiesce_stopping(worker->pool) && fj_os_now() < until);
    return NULL;
}

void fj_worker_end_search(fj_worker_t *worker)
{
    if (worker->searching) {
        worker->searching = false;
        fj_idle_end_search(worker->pool);
    }
}

/* Runs until told to leave. Returns whether it leaves as an active worker. */
static bool run_loop(fj_worker_t *worker)
{
    fj_pool_t *pool = worker->pool;
    for (;;) {
        fj_task_t *task = NULL;
        bool excess = fj_idle_is_excess(pool);
        if (!excess && !fj_quiesce_stopping(pool)) {
            task = pick(worker);
            if (task == NULL) {
                detach(worker);
                worker->searching = worker->searching || fj_idle_try_search(pool);
                task = worker->searching ? search(worker) : NULL;
            }
        }
        if (task != NULL) {
            fj_worker_end_search(worker);
            fj_idle_task_begin(worker);
            fj_worker_run_entry(worker, task);
            if (FJ_UNLIKELY(fj_current == NULL)) { /* see fj_after_fork_child */
                pool->config.hooks.orphaned();
            }
            fj_idle_task_end(worker);
            continue;
        }
        if (fj_quiesce_stopping(pool)) {
            return true;
        }
        detach(worker);
        if (fj_idle_announce(worker, worker->searching)
            || (fj_load_seqcst(&pool->phase) & FJ_PHASE_SHUTDOWN)) { /* partner: shutdown */
            fj_quiesce_check(pool);
        }
        if (!fj_idle_sleep(worker)) {
            return false;
        }
    }
}

bool fj_worker_main(fj_worker_t *worker)
{
    fj_pool_t *pool = worker->pool;
    const fj_hooks_t *hooks = &pool->config.hooks;
    bool active = true;
    fj_current = worker;
    fj_store_relaxed(&worker->number, fj_add_relaxed(&pool->numbered, 1) + 1);
    fj_os_thread_t self;
    fj_os_self(&self);
    fj_store_relaxed(&worker->thread_id, self.id); /* published with its first task */
    fj_store_relaxed(&worker->thread_clock, self.known ? self.clock : INT64_MIN);
    if (hooks->start == NULL || hooks->start(worker)) {
        active = run_loop(worker);
    } else {
        fj_quiesce_stop(pool);
    }
    /* Push, then this look; whoever stops the pool sets the phase, then looks
     * into the queues. What an excess worker leaves behind without a stop, others
     * steal. */
    if (fj_load_seqcst(&pool->phase) & FJ_PHASE_STOP) {
        fj_quiesce_drain_own(worker);
    }
    fj_worker_end_search(worker);
    fj_current = NULL;                       /* what `stop` submits comes from outside */
    if (hooks->stop != NULL) {
        hooks->stop(worker);
    }
    bool replaced = fj_idle_retire(worker, active); /* the place may be another's from here on */
    fj_quiesce_check(pool);
    return replaced;
}
