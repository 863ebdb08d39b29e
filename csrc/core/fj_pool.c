/* fj_pool.c - putting the layers together. */
#include "fj.h"

#include <string.h>

#include "fj_deque.h"
#include "fj_idle.h"
#include "fj_lane.h"
#include "fj_monitor.h"
#include "fj_quiesce.h"
#include "fj_registry.h"
#include "fj_spawn.h"
#include "fj_worker.h"

fj_config_t fj_config_default(uint32_t parallelism)
{
    uint32_t spares = 256;
    return (fj_config_t){
        .parallelism = parallelism,
        .max_workers = parallelism + spares <= FJ_MAX_WORKERS ? parallelism + spares
                                                              : FJ_MAX_WORKERS,
        .min_runnable = parallelism,
        .max_unannounced = 64,
        .window = 20000000,
        .keep_alive = (int64_t)60 * 1000000000,
        .queue_capacity = (size_t)1 << 24,
    };
}

static void thread_main(void *argument)
{
    fj_worker_t *worker = argument;
    fj_pool_t *pool = worker->pool;
    while (worker != NULL && !fj_worker_main(worker) && fj_idle_return(pool)) {
        worker = fj_registry_enter(pool, false); /* a place was free a moment ago */
        if (worker != NULL) {
            worker->searching = true;
        }
    }
    fj_quiesce_thread_gone(pool);
    fj_pool_release(pool);
}

static void monitor_main(void *argument)
{
    fj_pool_t *pool = argument;
    fj_monitor_run(pool);
    fj_quiesce_thread_gone(pool);
    fj_pool_release(pool);
}

fj_pool_t *fj_pool_create(const fj_config_t *config)
{
    fj_pool_t *pool = aligned_alloc(FJ_CACHE_LINE, sizeof *pool);
    if (pool == NULL) {
        return NULL;
    }
    memset(pool, 0, sizeof *pool);
    pool->config = *config;
    pool->thread_main = thread_main;
    pool->monitor_main = monitor_main;
    pool->config.monitor = config->monitor && config->parallelism > 0
                        && fj_os_probe_name() != NULL;
    pool->thread_gone = fj_quiesce_thread_gone;
    pool->check = fj_quiesce_check;
    atomic_init(&pool->parallelism, config->parallelism);
    atomic_init(&pool->references, 1);
    fj_lane_init(&pool->lane, config->queue_capacity);
    return pool;
}

void fj_pool_retain(fj_pool_t *pool)
{
    (void)fj_add_relaxed(&pool->references, 1);
}

bool fj_pool_try_retain(fj_pool_t *pool)
{
    uint32_t references = fj_load_relaxed(&pool->references);
    while (references != 0) {
        if (fj_cas_weak_acqrel(&pool->references, &references, references + 1)) {
            return true;
        }
    }
    return false;
}

void fj_pool_release(fj_pool_t *pool)
{
    if (fj_sub_acqrel(&pool->references, 1) != 1) { /* everybody's use came before */
        return;
    }
    fj_task_t *task;
    while ((task = fj_lane_take(&pool->lane)) != NULL) { /* a pool that never had a thread */
        task->ops->cancel(task);
        task->ops->drop(task);
    }
    if (pool->config.hooks.destroyed != NULL) {
        pool->config.hooks.destroyed(pool->config.user);
    }
    fj_lane_destroy(&pool->lane);
    fj_registry_destroy(pool);
    free(pool);
}

static void signal_if_work(fj_pool_t *pool)
{
    if (fj_registry_has_work(pool)) {
        (void)fj_idle_signal(pool);
    }
}

/* After handing something in past a closed lane: stop may have drained before. */
static void drain_if_stopped(fj_pool_t *pool)
{
    if (fj_load_seqcst(&pool->phase) & FJ_PHASE_STOP) {
        fj_quiesce_drain_lane(pool);
    }
}

static fj_worker_t *own_worker(fj_pool_t *pool)
{
    return fj_current != NULL && fj_current->pool == pool ? fj_current : NULL;
}

/* The system refuses a thread and there is none: the caller learns of it and
 * has its tasks back. What others handed in meanwhile, seeing a searcher that
 * did not come, gets one more chance; then it is cancelled rather than left to
 * wait for a thread that nobody will ask for. */
static fj_status_t withdraw(fj_pool_t *pool, fj_task_t *const *tasks, size_t n)
{
    size_t back = 0;
    for (size_t i = n; i-- > 0;) {
        back += fj_lane_withdraw(&pool->lane, tasks[i]);
    }
    if (back != n) {                         /* somebody came after all and took the first ones */
        for (size_t i = n - back; i < n; i++) {
            if (fj_lane_submit(&pool->lane, &tasks[i], 1, true) != FJ_OK) {
                tasks[i]->ops->cancel(tasks[i]);
                tasks[i]->ops->drop(tasks[i]);
            }
        }
        signal_if_work(pool);
        drain_if_stopped(pool);
        return FJ_OK;
    }
    fj_quiesce_rescue(pool);
    fj_quiesce_check(pool);
    return fj_pool_phase(pool) & FJ_PHASE_STOP ? FJ_REJECTED : FJ_NO_THREAD;
}

static fj_status_t enter_lane(fj_pool_t *pool, fj_task_t *const *tasks, size_t n, size_t most)
{
    bool inside = own_worker(pool) != NULL;
    return inside || most == 0 ? fj_lane_submit(&pool->lane, tasks, n, inside)
                               : fj_lane_offer(&pool->lane, tasks, n, most);
}

/* most 0: without a limit */
static fj_status_t hand_in(fj_pool_t *pool, fj_task_t *const *tasks, size_t n, size_t most)
{
    if (n == 0) {
        return FJ_OK;
    }
    fj_status_t status = enter_lane(pool, tasks, n, most);
    if (status == FJ_OK && own_worker(pool) != NULL) {
        drain_if_stopped(pool);
    }
    if (status == FJ_OK && !fj_idle_signal(pool)
        && fj_ctl_total(fj_load_seqcst(&pool->ctl)) == 0) {
        status = withdraw(pool, tasks, n);
    }
    return status;
}

fj_status_t fj_pool_submit_outside(fj_pool_t *pool, fj_task_t *const *tasks, size_t n)
{
    return hand_in(pool, tasks, n, 0);
}

fj_status_t fj_pool_offer(fj_pool_t *pool, fj_task_t *const *tasks, size_t n, size_t most)
{
    fj_worker_t *worker = own_worker(pool);
    if (worker == NULL || worker->guest || n != 1) {
        return hand_in(pool, tasks, n, most);
    }
    return fj_worker_submit(worker, tasks[0]);
}

fj_status_t fj_pool_submit(fj_pool_t *pool, fj_task_t *const *tasks, size_t n)
{
    return fj_pool_offer(pool, tasks, n, 0);
}

fj_status_t fj_pool_await_room(fj_pool_t *pool, size_t n, size_t most, int64_t deadline)
{
    return fj_lane_await_room(&pool->lane, n, most, deadline);
}

fj_status_t fj_fork(fj_task_t *task)
{
    return fj_worker_fork(fj_current, task);
}

bool fj_try_unfork(fj_task_t *task)
{
    if (fj_current == NULL || fj_task_state(task) != FJ_QUEUED
        || !fj_deque_try_unpush(&fj_current->deque, task)) {
        return false;
    }
    bool back = fj_task_try_unqueue(task);   /* false: claimed or cancelled just now */
    task->ops->drop(task);
    return back;
}

void fj_slow_start(fj_worker_t *worker)
{
    fj_worker_end_search(worker);
}

void fj_run_started(fj_task_t *task)
{
    if (fj_current != NULL) {
        fj_worker_run_claimed(fj_current, task);
    } else {
        task->ops->run(task, NULL);
    }
}

bool fj_run_outside(fj_pool_t *pool, fj_task_t *task)
{
    if (!fj_task_try_claim(task)) {
        return false;
    }
    task->ops->run(task, NULL);
    while ((task = fj_lane_take_tombstone(&pool->lane)) != NULL) {
        task->ops->drop(task);
    }
    fj_quiesce_check(pool);                  /* that may have been the last entry */
    return true;
}

fj_worker_t *fj_guest_enter(fj_pool_t *pool)
{
    fj_worker_t *guest = fj_current == NULL ? fj_registry_enter(pool, true) : NULL;
    fj_current = guest != NULL ? guest : fj_current;
    return guest;
}

void fj_guest_leave(fj_worker_t *guest)
{
    fj_pool_t *pool = guest->pool;
    fj_task_t *task;
    if (fj_current != guest) {
        return;                              /* in a forked child: the parent's, let it lie */
    }
    while ((task = fj_worker_poll_local(guest)) != NULL) {
        if (fj_lane_submit(&pool->lane, &task, 1, true) != FJ_OK) {
            fj_worker_run_entry(guest, task); /* no room: then here */
        } else {
            (void)fj_idle_signal(pool);
        }
    }
    drain_if_stopped(pool);
    fj_current = NULL;
    fj_registry_leave(guest);
    fj_quiesce_check(pool);
}

fj_status_t fj_block_begin(fj_worker_t *worker)
{
    return worker != NULL ? fj_idle_block_begin(worker) : FJ_OK;
}

uint32_t fj_block_depth(fj_worker_t *worker)
{
    return worker != NULL ? fj_load_relaxed(&worker->blocked) : 0;
}

void fj_block_end(fj_worker_t *worker)
{
    if (worker != NULL) {
        fj_idle_block_end(worker);
    }
}

void fj_pool_shutdown(fj_pool_t *pool)
{
    fj_quiesce_shutdown(pool);
}

void fj_pool_stop(fj_pool_t *pool)
{
    fj_quiesce_stop(pool);
}

fj_status_t fj_pool_await_termination(fj_pool_t *pool, int64_t deadline)
{
    return fj_quiesce_await_termination(pool, deadline);
}

fj_status_t fj_pool_await_quiescence(fj_pool_t *pool, int64_t deadline)
{
    return fj_quiesce_await(pool, deadline);
}

bool fj_pool_is_quiescent(fj_pool_t *pool)
{
    return fj_quiesce_is_quiescent(pool);
}

uint32_t fj_pool_phase(fj_pool_t *pool)
{
    return fj_load_acquire(&pool->phase);    /* pairs with enter_phase in fj_quiesce.c */
}

uint32_t fj_pool_set_parallelism(fj_pool_t *pool, uint32_t n)
{
    uint32_t old = atomic_exchange(&pool->parallelism, n); /* seqcst; then the queues: signal_work */
    signal_if_work(pool);
    return old;
}

uint32_t fj_pool_max_workers(fj_pool_t *pool)
{
    return pool->config.max_workers;
}

fj_stats_t fj_pool_stats(fj_pool_t *pool)
{
    fj_ctl_t c = fj_load_seqcst(&pool->ctl);
    fj_stats_t stats = {
        .parallelism = fj_load_relaxed(&pool->parallelism),
        .pool_size = fj_ctl_total(c),
        .active = fj_ctl_active(c),
        .blocked = fj_load_relaxed(&pool->blocked),
        .refused = fj_load_relaxed(&pool->refused),
        .at_limit = fj_load_relaxed(&pool->at_limit),
        .unannounced = fj_load_relaxed(&pool->marked),
        .detections = fj_load_relaxed(&pool->detections),
        .monitor = fj_load_relaxed(&pool->monitor) == FJ_MONITOR_AWAKE
                || fj_load_relaxed(&pool->monitor) == FJ_MONITOR_ASLEEP,
        .searching = fj_ctl_searching(c),
        .queued_submissions = fj_lane_size(&pool->lane),
    };
    for (uint32_t i = 0, high = fj_registry_high(pool); i < high; i++) {
        fj_worker_t *worker = fj_registry_worker(pool, i);
        stats.queued_tasks += fj_deque_size(&worker->deque) + fj_deque_size(&worker->inbox)
                            + fj_spawn_size(worker);
        stats.steals += fj_load_relaxed(&worker->steals);
        stats.helps += fj_load_relaxed(&worker->helps);
        stats.completed += fj_load_relaxed(&worker->completed);
        stats.leaves += fj_load_relaxed(&worker->leaves);
        stats.running += fj_load_relaxed(&worker->running) != 0
                      && fj_load_relaxed(&worker->blocked) == 0
                      && !fj_load_relaxed(&worker->guest);
    }
    return stats;
}

bool fj_pool_worker_stats(fj_pool_t *pool, uint32_t index, fj_worker_stats_t *stats)
{
    if (index >= fj_registry_high(pool)) {
        return false;
    }
    fj_worker_t *worker = fj_registry_worker(pool, index);
    *stats = (fj_worker_stats_t){
        .number = fj_load_relaxed(&worker->number),
        .guest = fj_load_relaxed(&worker->guest),
        .steals = fj_load_relaxed(&worker->steals),
        .completed = fj_load_relaxed(&worker->completed),
        .leaves = fj_load_relaxed(&worker->leaves),
    };
    return true;
}

fj_pool_t *fj_worker_pool(fj_worker_t *worker)
{
    return worker != NULL ? worker->pool : NULL;
}

void *fj_pool_user(fj_pool_t *pool)
{
    return pool->config.user;
}

void fj_worker_set_local(fj_worker_t *worker, void *local)
{
    fj_store_release(&worker->local, local); /* pairs with fj_pool_worker_state */
}

uint32_t fj_worker_number(fj_worker_t *worker)
{
    return fj_load_relaxed(&worker->number);
}

static fj_activity_t activity_of(fj_worker_t *worker, uint64_t activity)
{
    if (fj_load_relaxed(&worker->blocked) != 0) {
        return fj_load_relaxed(&worker->joining) ? FJ_JOINING : FJ_BLOCKED;
    }
    if (activity & FJ_ACTIVITY_MARKED) {
        return FJ_UNANNOUNCED;
    }
    return activity & FJ_ACTIVITY_INSIDE                        ? FJ_BUSY
         : fj_load_relaxed(&worker->parker) == FJ_PARKER_IDLE   ? FJ_IDLE
                                                                : FJ_SEARCHING;
}

bool fj_pool_worker_state(fj_pool_t *pool, uint32_t index, fj_worker_state_t *state)
{
    if (index >= fj_registry_high(pool)) {
        return false;
    }
    fj_worker_t *worker = fj_registry_worker(pool, index);
    uint64_t activity = fj_load_acquire(&worker->activity); /* its thread's names came before */
    *state = (fj_worker_state_t){
        .number = fj_load_relaxed(&worker->number),
        .present = !fj_load_relaxed(&worker->guest) && fj_load_relaxed(&worker->present),
        .activity = activity_of(worker, activity),
        .since = fj_load_relaxed(&worker->since),
        .thread = {fj_load_relaxed(&worker->thread_id), fj_load_relaxed(&worker->thread_clock),
                   fj_load_relaxed(&worker->thread_clock) != INT64_MIN},
        .local = fj_load_acquire(&worker->local), /* pairs with fj_worker_set_local */
    };
    return true;
}

const char *fj_detection_source(void)
{
    return fj_os_probe_name();
}

void fj_after_fork_child(void)
{
    fj_current = NULL;
}
