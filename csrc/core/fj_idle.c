/* fj_idle.c - all changes of the pool word but the first.
 *
 * No wake-up is lost. A publisher stores work (seqcst), then reads ctl
 * (seqcst). A worker that stops looking changes ctl (seqcst), then reads every
 * queue (seqcst). In the one order of these four operations either the
 * publisher's read comes after the change, and it sees that somebody must be
 * woken; or the worker's reads come after the store, and it sees the work. Four
 * changes stop somebody from looking, and each is followed by such a look:
 * announcing idle, ending a search, beginning to block, retiring.
 *
 * A publisher that sees a searcher does nothing: the searcher has yet to end
 * its search, and looks afterwards.
 *
 * So every swap of ctl here is seqcst, with signal_work's read of it as partner;
 * those that only take workers off the stack need no more than acquire (of
 * next_idle) and release, but one word keeps one order.
 */
#include "fj_idle.h"

#include "fj_registry.h"
#include "fj_spawn.h"

static void unpark(fj_worker_t *worker, uint32_t why)
{
    fj_store_release(&worker->parker, why);  /* pairs with fj_idle_sleep */
    fj_os_wake_one(&worker->parker);
}

/* The stack without its top. */
static uint32_t below_top(fj_pool_t *pool, fj_ctl_t c, fj_worker_t **worker)
{
    *worker = fj_registry_worker(pool, fj_ctl_top(c) - 1);
    /* Written before the announcement that c was read from; if it has been
     * written again since, the version has changed and the swap fails. */
    return fj_load_relaxed(&(*worker)->next_idle);
}

/* The counts already include the new worker, as the searcher if it is one. */
static bool start_worker(fj_pool_t *pool, bool searching)
{
    (void)fj_add_seqcst(&pool->threads, 1);  /* before the look at phase: fj_quiesce.c */
    if (fj_load_seqcst(&pool->phase) & FJ_PHASE_STOP) {
        return false;
    }
    fj_worker_t *worker = fj_registry_enter(pool, false);
    if (worker == NULL) {
        return false;
    }
    worker->searching = searching;
    (void)fj_add_relaxed(&pool->references, 1);
    if (fj_os_thread_start(pool->thread_main, worker, pool->config.stack_size) != 0) {
        (void)fj_sub_acqrel(&pool->references, 1); /* never the last: the caller has one */
        fj_registry_leave(worker);
        return false;
    }
    return true;
}

/* Takes back what a worker that does not come was counted as. */
static void forget_worker(fj_pool_t *pool, bool others_role)
{
    fj_ctl_t c = fj_load_relaxed(&pool->ctl);
    while (!fj_cas_weak_seqcst(&pool->ctl, &c,
                               fj_ctl_next(c, -1, -1, others_role && fj_ctl_searching(c),
                                           fj_ctl_top(c)))) {
    }
    (void)fj_add_relaxed(&pool->refused, 1);
    pool->thread_gone(pool);
}

/* How many may run at once: more than parallelism while the monitor says so. */
static uint32_t wanted(fj_pool_t *pool, uint32_t base)
{
    return base + fj_load_relaxed(&pool->credit);
}

/* A new thread: up to parallelism whenever one fewer is active; beyond, as a
 * stand-in for a blocked worker, only if fewer than min_runnable are. */
static bool may_start_another(fj_pool_t *pool, fj_ctl_t c)
{
    return fj_ctl_total(c) < fj_load_relaxed(&pool->parallelism)
        || fj_ctl_active(c) < wanted(pool, pool->config.min_runnable);
}

typedef enum urgency {
    IF_IDLE,          /* wake, but start no thread */
    IF_NEEDED,        /* unless somebody searches */
    IN_ANY_CASE       /* Java's rule at every block */
} urgency_t;

/* FJ_OK; FJ_NO_THREAD: refused; FJ_AT_LIMIT: there may be no more threads. */
static fj_status_t signal_work(fj_pool_t *pool, urgency_t urgency)
{
    fj_ctl_t c = fj_load_seqcst(&pool->ctl); /* the publisher's second half */
    for (;;) {
        bool searching = fj_ctl_searching(c);
        if (searching && urgency != IN_ANY_CASE) {
            return FJ_OK;
        }
        /* partners: fj_pool_set_parallelism and fj_idle_set_credit, which raise one of
         * these, then look at the queues */
        if (fj_ctl_active(c) >= fj_load_seqcst(&pool->parallelism)
                                + fj_load_seqcst(&pool->credit)) {
            fj_idle_want_monitor(pool);
            return FJ_OK;
        }
        if (fj_ctl_top(c) != 0) {
            fj_worker_t *worker;
            uint32_t below = below_top(pool, c, &worker);
            if (fj_cas_weak_seqcst(&pool->ctl, &c, fj_ctl_next(c, 1, 0, true, below))) {
                unpark(worker, searching ? FJ_PARKER_WOKEN : FJ_PARKER_RELEASED);
                return FJ_OK;
            }
        } else if (urgency == IF_IDLE || !may_start_another(pool, c)) {
            return FJ_OK;
        } else if (fj_load_relaxed(&pool->phase) & FJ_PHASE_STOP) {
            return FJ_OK;                    /* nobody takes anything more */
        } else if (fj_ctl_total(c) >= pool->config.max_workers) {
            return FJ_AT_LIMIT;
        } else if (fj_cas_weak_seqcst(&pool->ctl, &c, fj_ctl_next(c, 1, 1, true, 0))) {
            if (start_worker(pool, !searching)) {
                return FJ_OK;
            }
            forget_worker(pool, searching);
            /* Who published meanwhile saw a searcher that never was. */
            if (fj_registry_has_work(pool)) {
                (void)signal_work(pool, IF_IDLE);
            }
            return FJ_NO_THREAD;
        }
    }
}

bool fj_idle_signal(fj_pool_t *pool)
{
    return signal_work(pool, IF_NEEDED) != FJ_NO_THREAD;
}

void fj_idle_want_monitor(fj_pool_t *pool)
{
    /* partner: the monitor stores ASLEEP, then reads the queues */
    uint32_t state = pool->config.monitor ? fj_load_seqcst(&pool->monitor) : FJ_MONITOR_ENDED;
    if (FJ_LIKELY(state == FJ_MONITOR_AWAKE || state == FJ_MONITOR_ENDED)
        || !fj_cas_seqcst(&pool->monitor, &state, FJ_MONITOR_AWAKE)) {
        return;
    }
    if (state == FJ_MONITOR_ASLEEP) {
        fj_os_wake_one(&pool->monitor);
        return;
    }
    (void)fj_add_seqcst(&pool->threads, 1);  /* as in start_worker */
    (void)fj_add_relaxed(&pool->references, 1);
    if ((fj_load_seqcst(&pool->phase) & FJ_PHASE_STOP)
        || fj_os_thread_start(pool->monitor_main, pool, 0) != 0) {
        (void)fj_sub_acqrel(&pool->references, 1);
        fj_store_seqcst(&pool->monitor, FJ_MONITOR_NONE); /* the next one tries again */
        pool->thread_gone(pool);
    }
}

bool fj_idle_try_search(fj_pool_t *pool)
{
    fj_ctl_t c = fj_load_relaxed(&pool->ctl);
    while (!fj_ctl_searching(c)) {
        if (fj_cas_weak_seqcst(&pool->ctl, &c, fj_ctl_next(c, 0, 0, true, fj_ctl_top(c)))) {
            return true;
        }
    }
    return false;
}

/* The worker's second half. False: a thread was needed and refused. */
static bool look_again(fj_pool_t *pool)
{
    return !fj_registry_has_work(pool) || fj_idle_signal(pool);
}

void fj_idle_end_search(fj_pool_t *pool)
{
    fj_ctl_t c = fj_load_relaxed(&pool->ctl);
    while (!fj_cas_weak_seqcst(&pool->ctl, &c, fj_ctl_next(c, 0, 0, false, fj_ctl_top(c)))) {
    }
    (void)look_again(pool);                  /* refused: the caller is there to work */
}

bool fj_idle_announce(fj_worker_t *worker, bool searching)
{
    fj_pool_t *pool = worker->pool;
    fj_ctl_t c = fj_load_relaxed(&pool->ctl), next;
    fj_store_relaxed(&worker->parker, FJ_PARKER_IDLE); /* published by the swap */
    do {
        fj_store_relaxed(&worker->next_idle, fj_ctl_top(c));
        next = fj_ctl_next(c, -1, 0, !searching && fj_ctl_searching(c), worker->index + 1);
    } while (!fj_cas_weak_seqcst(&pool->ctl, &c, next));
    (void)look_again(pool);                  /* nobody is refused: it is on the stack itself */
    return fj_ctl_active(next) == 0;
}

/* Idle for keep_alive: if nothing runs, everybody idle leaves together; else
 * only who is beyond parallelism. */
static void trim(fj_pool_t *pool)
{
    fj_ctl_t c = fj_load_seqcst(&pool->ctl);
    while (fj_ctl_top(c) != 0) {
        /* blocked goes up before active goes down (count_out), so both 0 means nobody */
        bool quiet = fj_ctl_active(c) == 0 && fj_load_seqcst(&pool->blocked) == 0;
        if (!quiet && fj_ctl_total(c) <= fj_load_relaxed(&pool->parallelism)) {
            return;
        }
        fj_worker_t *worker;
        uint32_t below = below_top(pool, c, &worker);
        fj_ctl_t next = fj_ctl_next(c, 0, 0, fj_ctl_searching(c), below);
        if (fj_cas_weak_seqcst(&pool->ctl, &c, next)) {
            unpark(worker, FJ_PARKER_RETIRED);
            if (!quiet) {
                return;                      /* one a time-out */
            }
            c = next;
        }
    }
}

bool fj_idle_sleep(fj_worker_t *worker)
{
    int64_t keep_alive = worker->pool->config.keep_alive;
    int64_t deadline = keep_alive == FJ_FOREVER ? FJ_FOREVER : fj_os_deadline(keep_alive);
    uint32_t why;
    while ((why = fj_load_acquire(&worker->parker)) == FJ_PARKER_IDLE) { /* pairs with unpark */
        if (fj_os_wait(&worker->parker, FJ_PARKER_IDLE, deadline) == FJ_WAIT_TIMEOUT) {
            trim(worker->pool);
            deadline = fj_os_deadline(keep_alive);
        }
    }
    fj_store_relaxed(&worker->parker, FJ_PARKER_BUSY);
    worker->searching = why == FJ_PARKER_RELEASED;
    return why != FJ_PARKER_RETIRED;
}

void fj_idle_release_all(fj_pool_t *pool)
{
    fj_ctl_t c = fj_load_seqcst(&pool->ctl);
    while (fj_ctl_top(c) != 0) {
        fj_worker_t *worker;
        uint32_t below = below_top(pool, c, &worker);
        fj_ctl_t next = fj_ctl_next(c, 0, 0, fj_ctl_searching(c), below);
        if (fj_cas_weak_seqcst(&pool->ctl, &c, next)) {
            unpark(worker, FJ_PARKER_RETIRED);
            c = next;
        }
    }
}

bool fj_idle_is_excess(fj_pool_t *pool)
{
    fj_ctl_t c = fj_load_relaxed(&pool->ctl);
    return fj_ctl_active(c) > wanted(pool, fj_load_relaxed(&pool->parallelism));
}

static void add_active(fj_pool_t *pool, int change)
{
    fj_ctl_t c = fj_load_relaxed(&pool->ctl);
    while (!fj_cas_weak_seqcst(&pool->ctl, &c,
                               fj_ctl_next(c, change, 0, fj_ctl_searching(c), fj_ctl_top(c)))) {
    }
}

/* blocked first, active after, and the reverse on the way back: in between a
 * worker is counted twice, never not at all. */
static void count_out(fj_pool_t *pool)
{
    (void)fj_add_seqcst(&pool->blocked, 1);
    add_active(pool, -1);
}

static void count_in(fj_pool_t *pool)
{
    add_active(pool, 1);
    (void)fj_sub_seqcst(&pool->blocked, 1);  /* after active: partner is_quiescent and trim */
}

/* The owner (its partner: the swaps in fj_idle_mark and fj_idle_unmark) moves in or
 * out of a task, and learns where it was; if the monitor had marked it, it is back.
 * Acquire pairs with the monitor's mark: its counts are then changed, or will be,
 * and the two changes add up to nothing. */
static uint64_t change_activity(fj_worker_t *worker, uint64_t inside)
{
    uint64_t next = (fj_load_relaxed(&worker->activity) | (FJ_ACTIVITY_STEP - 1))
                  + 1 + inside;
    uint64_t old = atomic_exchange_explicit(&worker->activity, next, memory_order_acq_rel);
    if (FJ_UNLIKELY(old & FJ_ACTIVITY_MARKED)) {
        (void)fj_sub_acqrel(&worker->pool->marked, 1);
        count_in(worker->pool);
    }
    return old & FJ_ACTIVITY_INSIDE;
}

void fj_idle_task_begin(fj_worker_t *worker)
{
    fj_store_relaxed(&worker->since, fj_os_now_coarse());
    (void)change_activity(worker, FJ_ACTIVITY_INSIDE);
}

void fj_idle_task_end(fj_worker_t *worker)
{
    (void)change_activity(worker, 0);
}

/* After a change of active that came after the owner's own: who went by the count
 * in between saw one too many, and may have woken nobody or told nobody. */
static void settle(fj_pool_t *pool)
{
    (void)look_again(pool);
    pool->check(pool);
}

bool fj_idle_mark(fj_worker_t *worker, uint64_t activity)
{
    fj_pool_t *pool = worker->pool;
    /* The owner may undo all this at once: so blocked goes up before the mark, and
     * active down after it. */
    (void)fj_add_acqrel(&pool->marked, 1);
    (void)fj_add_seqcst(&pool->blocked, 1);
    if (!atomic_compare_exchange_strong_explicit(&worker->activity, &activity,
                                                 activity | FJ_ACTIVITY_MARKED,
                                                 memory_order_acq_rel, memory_order_relaxed)) {
        (void)fj_sub_acqrel(&pool->marked, 1);
        (void)fj_sub_seqcst(&pool->blocked, 1);
        pool->check(pool);
        return false;
    }
    add_active(pool, -1);
    (void)fj_add_relaxed(&pool->detections, 1);
    settle(pool);
    return true;
}

bool fj_idle_unmark(fj_worker_t *worker, uint64_t activity)
{
    fj_pool_t *pool = worker->pool;
    /* Active before the mark goes, blocked after: for a moment it may count twice,
     * never not at all. */
    add_active(pool, 1);
    if (!atomic_compare_exchange_strong_explicit(
            &worker->activity, &activity, activity & ~(uint64_t)FJ_ACTIVITY_MARKED,
            memory_order_acq_rel, memory_order_relaxed)) {
        add_active(pool, -1);                /* its owner has counted it in */
        settle(pool);
        return false;
    }
    (void)fj_sub_acqrel(&pool->marked, 1);
    (void)fj_sub_seqcst(&pool->blocked, 1);
    return true;
}

void fj_idle_set_credit(fj_pool_t *pool, uint32_t credit)
{
    uint32_t old = fj_load_relaxed(&pool->credit);
    fj_store_seqcst(&pool->credit, credit);  /* then the queues; partner: signal_work */
    if (credit > old) {
        (void)look_again(pool);
    }
}

fj_status_t fj_idle_block_begin(fj_worker_t *worker)
{
    fj_pool_t *pool = worker->pool;
    uint32_t depth = fj_load_relaxed(&worker->blocked);
    fj_store_relaxed(&worker->blocked, depth + 1);
    if (depth != 0) {
        return FJ_OK;
    }
    bool exposed = fj_spawn_expose(worker);  /* others take its forks meanwhile */
    if (worker->guest) {
        if (exposed) {
            (void)fj_idle_signal(pool);      /* a worker's are seen by the look below */
        }
        return FJ_OK;
    }
    worker->was_inside = change_activity(worker, 0);
    count_out(pool);
    fj_status_t status = FJ_OK;
    if (pool->config.eager) {
        status = signal_work(pool, IN_ANY_CASE);
    } else if (fj_registry_has_work(pool)) {
        status = signal_work(pool, IF_NEEDED);
    }
    if (status == FJ_AT_LIMIT) {
        (void)fj_add_relaxed(&pool->at_limit, 1);
        return FJ_AT_LIMIT;
    }
    return FJ_OK;                            /* a refusal is counted, and tried again at the next push */
}

void fj_idle_block_end(fj_worker_t *worker)
{
    uint32_t depth = fj_load_relaxed(&worker->blocked);
    fj_store_relaxed(&worker->blocked, depth - 1);
    if (depth == 1 && !worker->guest) {
        count_in(worker->pool);
        (void)change_activity(worker, worker->was_inside);
    }
}

bool fj_idle_retire(fj_worker_t *worker, bool active)
{
    fj_pool_t *pool = worker->pool;
    fj_ctl_t c = fj_load_relaxed(&pool->ctl);
    fj_registry_leave(worker);
    while (!fj_cas_weak_seqcst(&pool->ctl, &c, fj_ctl_next(c, active ? -1 : 0, -1,
                                                           fj_ctl_searching(c), fj_ctl_top(c)))) {
    }
    /* While it was leaving it counted towards max_workers, so whoever
     * published may not have been allowed a new thread. */
    return look_again(pool);
}

bool fj_idle_return(fj_pool_t *pool)
{
    fj_ctl_t c = fj_load_seqcst(&pool->ctl);
    /* partner: fj_quiesce_stop, which sets the phase, then drains */
    while (!(fj_load_seqcst(&pool->phase) & FJ_PHASE_STOP) && fj_ctl_total(c) == 0
           && fj_registry_has_work(pool)) {
        if (fj_cas_weak_seqcst(&pool->ctl, &c, fj_ctl_next(c, 1, 1, true, 0))) {
            return true;
        }
    }
    return false;
}
