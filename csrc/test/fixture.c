/* fixture.c - see fixture.h. */
#include "fixture.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

/* ---- counters ---- */

void fx_bump(fj_word_t *counter)
{
    (void)fj_add_acqrel(counter, 1);          /* pairs with fx_read and fx_await */
    fj_os_real_wake(counter, true);
}

void fx_await(const char *file, int line, const char *name, fj_word_t *counter, uint32_t value)
{
    int64_t deadline = fj_os_real_now() + FX_PATIENCE;
    uint32_t seen;
    while ((seen = fj_load_acquire(counter)) < value) { /* pairs with fx_bump */
        if (fj_os_real_wait(counter, seen, deadline) == FJ_WAIT_TIMEOUT) {
            fj_test_fail(file, line, "%s is %u, and never came to %u", name, seen, value);
        }
    }
}

void fx_nap(void)
{
    struct timespec pause = {0, 50000};
    (void)sched_yield();
    (void)nanosleep(&pause, NULL);
}

/* ---- tasks ---- */

static fx_task_t *self(fj_task_t *task)
{
    return FJ_CONTAINER(task, fx_task_t, task);
}

static void run(fj_task_t *task, fj_worker_t *worker)
{
    fx_bump(&self(task)->runs);
    if (self(task)->body != NULL) {
        self(task)->body(self(task), worker);
    }
    (void)fj_task_complete(task, FJ_NORMAL);
}

static void drop(fj_task_t *task)
{
    if (self(task)->on_drop != NULL) {
        self(task)->on_drop(self(task));
    }
    fx_bump(&self(task)->drops);
}

static void cancel(fj_task_t *task)
{
    fx_task_t *me = self(task);
    if (fj_task_try_cancel(task)) {
        fx_bump(&me->cancels);                /* its entry still holds a reference */
    }
}

const fj_task_ops_t fx_task_ops = {run, drop, cancel, false};

void fx_task_init(fx_task_t *task, void (*body)(fx_task_t *, fj_worker_t *), void *argument)
{
    *task = (fx_task_t){.body = body, .argument = argument};
    fj_task_init(&task->task, &fx_task_ops);
}

fj_status_t fx_submit(fj_pool_t *pool, fx_task_t *task)
{
    fj_task_t *one = &task->task;
    FJ_CHECK(fj_task_try_queue(one, pool));
    return fj_pool_submit(pool, &one, 1);
}

fj_status_t fx_fork(fx_task_t *task)
{
    FJ_CHECK(fj_task_try_queue(&task->task, fj_current->pool));
    return fj_fork(&task->task);
}

void fx_start(fj_pool_t *pool, fx_task_t *task, void (*body)(fx_task_t *, fj_worker_t *),
              void *argument)
{
    fx_task_init(task, body, argument);
    FJ_CHECK_EQ(fx_submit(pool, task), FJ_OK);
}

void fx_finish(fx_task_t *task)
{
    int64_t deadline = fj_os_real_now() + FX_PATIENCE;
    fj_status_t status;
    do {                                      /* signals do not count */
        status = fj_task_wait(&task->task, deadline);
    } while (status != FJ_OK && fj_os_real_now() < deadline);
    FJ_CHECK_EQ(status, FJ_OK);
    FX_AWAIT(&task->drops, 1);
}

void fx_run(fj_pool_t *pool, fx_task_t *task, void (*body)(fx_task_t *, fj_worker_t *),
            void *argument)
{
    fx_start(pool, task, body, argument);
    fx_finish(task);
}

void fx_hold(fx_task_t *task, fj_worker_t *worker)
{
    (void)worker;
    FX_AWAIT((fj_word_t *)task->argument, 1);
}

void fx_check_ran(fx_task_t *task)
{
    FJ_CHECK_EQ(fj_task_state(&task->task), FJ_NORMAL);
    FJ_CHECK_EQ(fx_read(&task->runs), 1);
    FJ_CHECK_EQ(fx_read(&task->cancels), 0);
    FJ_CHECK_EQ(fx_read(&task->drops), 1);
}

void fx_check_cancelled(fx_task_t *task)
{
    FJ_CHECK_EQ(fj_task_state(&task->task), FJ_CANCELLED);
    FJ_CHECK_EQ(fx_read(&task->runs), 0);
    FJ_CHECK_EQ(fx_read(&task->cancels), 1);
    FJ_CHECK_EQ(fx_read(&task->drops), 1);
}

/* ---- pools ---- */

static void clear_what_a_failed_test_left(void);

static bool thread_started(fj_worker_t *worker)
{
    fx_watch_t *watch = worker->pool->config.user;
    fx_bump(&watch->started);
    uint32_t living = fx_read(&watch->started) - fx_read(&watch->stopped);
    uint32_t peak = fj_load_relaxed(&watch->peak);
    while (living > peak && !fj_cas_weak_acqrel(&watch->peak, &peak, living)) {
    }
    return watch->start == NULL || watch->start(worker);
}

static void thread_stopped(fj_worker_t *worker)
{
    fx_watch_t *watch = worker->pool->config.user;
    if (watch->stop != NULL) {
        watch->stop(worker);
    }
    fx_bump(&watch->stopped);
}

static void pool_destroyed(void *user)
{
    fx_watch_t *watch = user;
    fx_bump(&watch->destroyed);
}

fj_config_t fx_config(uint32_t parallelism)
{
    fj_config_t config = fj_config_default(parallelism);
    config.max_workers = parallelism + 64;
    config.keep_alive = FJ_FOREVER;
    config.initial_capacity = 2;
    config.initial_index = SIZE_MAX - 2;
    return config;
}

fj_pool_t *fx_pool(const fj_config_t *config)
{
    fj_config_t watched = *config;
    clear_what_a_failed_test_left();
    fx_watch_t *watch = calloc(1, sizeof *watch);
    FJ_CHECK(watch != NULL);
    watched.user = watch;
    watch->start = config->hooks.start;
    watch->stop = config->hooks.stop;
    watched.hooks.start = thread_started;
    watched.hooks.stop = thread_stopped;
    watched.hooks.destroyed = pool_destroyed;
    fj_pool_t *pool = fj_pool_create(&watched);
    FJ_CHECK(pool != NULL);
    return pool;
}

fj_pool_t *fx_pool_of(uint32_t parallelism)
{
    fj_config_t config = fx_config(parallelism);
    return fx_pool(&config);
}

fx_watch_t *fx_watch(fj_pool_t *pool)
{
    return pool->config.user;
}

void fx_pool_release(fj_pool_t *pool)
{
    fx_watch_t *watch = fx_watch(pool);
    fj_pool_release(pool);
    FX_AWAIT(&watch->destroyed, 1);
    free(watch);
}

void fx_pool_await_end(fj_pool_t *pool)
{
    int64_t deadline = fj_os_real_now() + FX_PATIENCE;
    fj_status_t status;
    do {
        status = fj_pool_await_termination(pool, deadline);
    } while (status != FJ_OK && fj_os_real_now() < deadline);
    FJ_CHECK_EQ(status, FJ_OK);
    FX_UNTIL(fj_pool_stats(pool).blocked == 0);  /* who stops it late still looks into the queues */
    fj_stats_t stats = fj_pool_stats(pool);
    FJ_CHECK_EQ(stats.pool_size + stats.active + stats.running, 0);
    FJ_CHECK_EQ(stats.queued_tasks + stats.queued_submissions, 0);
    FJ_CHECK_EQ(fx_read(&fx_watch(pool)->stopped), fx_read(&fx_watch(pool)->started));
}

void fx_pool_end(fj_pool_t *pool)
{
    fj_pool_shutdown(pool);
    fx_pool_await_end(pool);
    fx_pool_release(pool);
}

void fx_pool_await_quiet(fj_pool_t *pool)
{
    int64_t deadline = fj_os_real_now() + FX_PATIENCE;
    fj_status_t status;
    do {
        status = fj_pool_await_quiescence(pool, deadline);
    } while (status != FJ_OK && fj_os_real_now() < deadline);
    FJ_CHECK_EQ(status, FJ_OK);
}

/* ---- the seam ---- */

static bool seam_is_set;
static pthread_t seam_owner;                  /* the test's thread, which sleeps on if it failed */

void fx_seam_set(fj_os_seam_t seam)
{
    fj_os_seam = seam;
    seam_is_set = true;
    seam_owner = pthread_self();
}

static void clear_what_a_failed_test_left(void)
{
    if (seam_is_set && !pthread_equal(seam_owner, pthread_self())) {
        fx_seam_clear();
    }
}

void fx_seam_clear(void)
{
    fj_os_seam = (fj_os_seam_t){0};
    seam_is_set = false;
    fx_refuse_all = false;
    fx_refuse_every = 0;
}

_Atomic(bool) fx_refuse_all;
_Atomic(uint32_t) fx_refuse_every;

int fx_thread_start(void (*body)(void *), void *argument, size_t stack_size)
{
    static _Atomic(uint32_t) calls;
    uint32_t every = fx_refuse_every;
    if (fx_refuse_all || (every != 0 && ++calls % every == 0)) {
        return EAGAIN;
    }
    return fj_os_real_thread_start(body, argument, stack_size);
}

fj_os_wait_result_t fx_hasty_wait(fj_word_t *word, uint32_t expected, int64_t deadline)
{
    if (fj_current != NULL && deadline != FJ_FOREVER) {
        (void)sched_yield();
        return fj_load_acquire(word) == expected ? FJ_WAIT_TIMEOUT : FJ_WAIT_WOKEN;
    }
    return fj_os_real_wait(word, expected, deadline);
}

fj_os_wait_result_t fx_unreliable_wait(fj_word_t *word, uint32_t expected, int64_t deadline)
{
    static _Atomic(uint64_t) draws;
    uint64_t state = fj_add_relaxed(&draws, 1);
    switch (fj_test_random(&state) % 3) {
    case 0: return FJ_WAIT_WOKEN;
    case 1: return FJ_WAIT_INTERRUPTED;
    default: return fj_os_real_wait(word, expected, deadline);
    }
}
