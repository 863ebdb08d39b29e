/* fj_quiesce.c - quiescence, shutdown, termination. */
#include "fj_quiesce.h"

#include "fj_deque.h"
#include "fj_idle.h"
#include "fj_lane.h"
#include "fj_registry.h"

bool fj_quiesce_is_quiescent(fj_pool_t *pool)
{
    /* Every change of ctl raises its version, and a worker cannot begin or end
     * anything without changing it. So if ctl is the same before and after,
     * nobody moved in between, and what was read in between held at once. */
    fj_ctl_t before = fj_load_seqcst(&pool->ctl);
    return fj_ctl_active(before) == 0 && fj_load_seqcst(&pool->blocked) == 0
        && !fj_registry_has_work(pool)
        && fj_load_seqcst(&pool->blocked) == 0 /* partner: begin_drain */
        && fj_load_seqcst(&pool->ctl) == before;
}

static fj_status_t sleep_on(fj_word_t *word, uint32_t seen, int64_t deadline)
{
    switch (fj_os_wait(word, seen, deadline)) {
    case FJ_WAIT_TIMEOUT:
        return FJ_TIMEOUT;
    case FJ_WAIT_INTERRUPTED:
        return FJ_INTERRUPTED;
    default:
        return FJ_OK;
    }
}

fj_status_t fj_quiesce_await(fj_pool_t *pool, int64_t deadline)
{
    fj_status_t status = FJ_OK;
    /* Announce, then look: partner of fj_quiesce_check. */
    (void)fj_add_seqcst(&pool->quiet_waiters, 1);
    for (;;) {
        uint32_t seen = fj_load_seqcst(&pool->quiet);
        if (fj_quiesce_is_quiescent(pool)
            || (fj_load_acquire(&pool->phase) & FJ_PHASE_TERMINATED)) { /* pairs with enter_phase */
            status = FJ_OK;
            break;
        }
        if (status != FJ_OK) {
            break;
        }
        status = sleep_on(&pool->quiet, seen, deadline);
    }
    (void)fj_sub_seqcst(&pool->quiet_waiters, 1);
    return status;
}

/* seqcst: sets the phase, then counts or queues are read (by the callers). Partners:
 * start_worker and fj_idle_want_monitor count, then read the phase; an idling worker
 * changes ctl, then reads it; who publishes into a stopped pool pushes, then reads
 * it. Sleepers on either word compare it, so they miss no change. */
static void enter_phase(fj_pool_t *pool, uint32_t bits)
{
    (void)fj_or_seqcst(&pool->phase, bits);
    fj_os_wake_all(&pool->phase);
    if ((bits & FJ_PHASE_STOP) && atomic_exchange(&pool->monitor, FJ_MONITOR_ENDED) != FJ_MONITOR_NONE) {
        fj_os_wake_all(&pool->monitor);
    }
}

/* Partner: start_worker in fj_idle.c, which counts its thread and then looks
 * at the phase. Either it sees STOP, or its thread is seen here. */
static void terminate_if_empty(fj_pool_t *pool)
{
    if ((fj_load_seqcst(&pool->phase) & FJ_PHASE_STOP)
        && fj_load_seqcst(&pool->threads) == 0) {
        enter_phase(pool, FJ_PHASE_TERMINATED);
    }
}

static void tell_quiet(fj_pool_t *pool)
{
    if (fj_load_seqcst(&pool->quiet_waiters) != 0) { /* partner: fj_quiesce_await */
        (void)fj_add_seqcst(&pool->quiet, 1);
        fj_os_wake_all(&pool->quiet);
    }
}

void fj_quiesce_check(fj_pool_t *pool)
{
    tell_quiet(pool);
    uint32_t phase = fj_load_seqcst(&pool->phase); /* partner: fj_quiesce_shutdown */
    if (phase == FJ_PHASE_SHUTDOWN && fj_quiesce_is_quiescent(pool)) {
        enter_phase(pool, FJ_PHASE_STOP);
        phase |= FJ_PHASE_STOP;
    }
    if (phase & FJ_PHASE_STOP) {
        fj_idle_release_all(pool);
        terminate_if_empty(pool);
    }
}

void fj_quiesce_shutdown(fj_pool_t *pool)
{
    fj_lane_close(&pool->lane);
    /* The phase, then the counts (in check); an idling worker does it the other
     * way round. One of the two sees the other. */
    enter_phase(pool, FJ_PHASE_SHUTDOWN);
    fj_quiesce_check(pool);
}

static void cancel_entry(fj_task_t *task)
{
    task->ops->cancel(task);
    task->ops->drop(task);
}

static void drain_by_poll(fj_deque_t *deque)
{
    fj_task_t *task;
    while ((task = fj_deque_poll(deque)) != NULL) {
        cancel_entry(task);
    }
}

/* Any thread may drain, also one that is counted nowhere, and what it has in its hand is in no
 * queue. So it counts as blocked, from before the first entry is taken: who finds the queues
 * empty after that sees it. */
static void begin_drain(fj_pool_t *pool)
{
    (void)fj_add_seqcst(&pool->blocked, 1);  /* partner: is_quiescent */
}

static void end_drain(fj_pool_t *pool)
{
    (void)fj_sub_seqcst(&pool->blocked, 1);  /* then tells who waits; partner: is_quiescent */
    fj_quiesce_check(pool);
}

void fj_quiesce_drain_lane(fj_pool_t *pool)
{
    fj_task_t *task;
    begin_drain(pool);
    while ((task = fj_lane_take(&pool->lane)) != NULL) {
        cancel_entry(task);
    }
    end_drain(pool);
}

void fj_quiesce_rescue(fj_pool_t *pool)
{
    if (fj_lane_size(&pool->lane) != 0 && !fj_idle_signal(pool)
        && fj_ctl_total(fj_load_seqcst(&pool->ctl)) == 0) {
        fj_quiesce_drain_lane(pool);
    }
}

void fj_quiesce_drain_own(fj_worker_t *worker)
{
    drain_by_poll(&worker->deque);
    drain_by_poll(&worker->inbox);
    fj_quiesce_drain_lane(worker->pool);
}

static void drain_all(fj_pool_t *pool)
{
    begin_drain(pool);
    fj_quiesce_drain_lane(pool);
    for (uint32_t i = 0, high = fj_registry_high(pool); i < high; i++) {
        fj_worker_t *worker = fj_registry_worker(pool, i);
        drain_by_poll(&worker->deque);
        drain_by_poll(&worker->inbox);
    }
    end_drain(pool);
}

void fj_quiesce_stop(fj_pool_t *pool)
{
    fj_lane_close(&pool->lane);
    (void)fj_add_seqcst(&pool->threads, 1);  /* not terminated before all is cancelled */
    enter_phase(pool, FJ_PHASE_SHUTDOWN | FJ_PHASE_STOP);
    /* What a running task forks from now on, its worker cancels as it leaves. */
    drain_all(pool);
    fj_quiesce_thread_gone(pool);
    fj_quiesce_check(pool);
}

void fj_quiesce_thread_gone(fj_pool_t *pool)
{
    (void)fj_sub_seqcst(&pool->threads, 1);  /* then the phase: enter_phase */
    tell_quiet(pool);
    terminate_if_empty(pool);
}

fj_status_t fj_quiesce_await_termination(fj_pool_t *pool, int64_t deadline)
{
    uint32_t phase;
    while (!((phase = fj_load_acquire(&pool->phase)) & FJ_PHASE_TERMINATED)) { /* enter_phase */
        fj_status_t status = sleep_on(&pool->phase, phase, deadline);
        if (status != FJ_OK) {
            /* it may have ended just now */
            return fj_load_acquire(&pool->phase) & FJ_PHASE_TERMINATED ? FJ_OK : status;
        }
    }
    return FJ_OK;
}
