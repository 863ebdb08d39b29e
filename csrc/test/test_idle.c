/* test_idle.c - who sleeps, who searches, who is woken, who leaves. */
#include "fixture.h"

#include <string.h>

/* ---- excess workers ---- */

typedef struct excess {
    fj_word_t blocked, forked, back, finish;
    fx_task_t children[3];
} excess_t;

static void blocks_then_stays_busy(fx_task_t *task, fj_worker_t *worker)
{
    excess_t *test = task->argument;
    (void)fj_block_begin(worker);
    fx_bump(&test->blocked);
    FX_AWAIT(&test->forked, 1);
    fj_block_end(worker);
    fx_bump(&test->back);
    FX_AWAIT(&test->finish, 1);
}

static void forks_three_and_returns(fx_task_t *task, fj_worker_t *worker)
{
    excess_t *test = task->argument;
    (void)worker;
    for (int i = 0; i < 3; i++) {
        fx_task_init(&test->children[i], NULL, NULL);
        FJ_CHECK_EQ(fx_fork(&test->children[i]), FJ_OK);
    }
    fx_bump(&test->forked);
    FX_AWAIT(&test->back, 1);
}

/* Waits that ended at their deadline, in any thread. */
static fj_word_t timeouts;

static fj_os_wait_result_t count_timeouts(fj_word_t *word, uint32_t expected, int64_t deadline)
{
    fj_os_wait_result_t result = fj_os_real_wait(word, expected, deadline);
    if (result == FJ_WAIT_TIMEOUT) {
        fx_bump(&timeouts);
    }
    return result;
}

/* A worker that is one too many parks on what it has forked; leaving for good loses none of it. */
FJ_TEST(idle, an_excess_worker_that_retires_loses_nothing)
{
    fx_seam_set((fj_os_seam_t){.wait = count_timeouts});
    fj_store_relaxed(&timeouts, 0);
    fj_config_t config = fx_config(1);
    config.keep_alive = 20 * FX_MS;
    fj_pool_t *pool = fx_pool(&config);
    excess_t test = {0};
    fx_task_t busy, forker;
    fx_start(pool, &busy, blocks_then_stays_busy, &test);
    FX_AWAIT(&test.blocked, 1);
    fx_run(pool, &forker, forks_three_and_returns, &test);
    FX_UNTIL(fx_read(&timeouts) >= 3 || fx_read(&fx_watch(pool)->stopped) >= 1);
    fx_bump(&test.finish);
    fx_finish(&busy);
    fx_pool_end(pool);
    for (int i = 0; i < 3; i++) {
        fx_check_ran(&test.children[i]);
    }
    fx_seam_clear();
}

/* ---- a worker whose start takes long ---- */

typedef struct slow_start {
    _Atomic(uint32_t) order;
    fj_word_t starts, second_may_start, release;
} slow_start_t;

static slow_start_t slow;

static bool second_start_is_slow(fj_worker_t *worker)
{
    uint32_t before = fj_add_acqrel(&slow.order, 1);
    fx_bump(&slow.starts);
    if (before == 1) {
        fj_slow_start(worker);
        FX_AWAIT(&slow.second_may_start, 1);
    }
    return true;
}

/* While one thread's start takes long, and says so, idle workers are woken. */
FJ_TEST(idle, a_slow_start_holds_nobody_up)
{
    memset(&slow, 0, sizeof slow);
    fj_config_t config = fx_config(2);
    config.hooks.start = second_start_is_slow;
    fj_pool_t *pool = fx_pool(&config);
    fx_task_t first, second, third;
    fx_start(pool, &first, fx_hold, &slow.release);
    FX_AWAIT(&first.runs, 1);
    fx_start(pool, &second, NULL, NULL);
    FX_AWAIT(&slow.starts, 2);
    fx_bump(&slow.release);
    fx_finish(&second);                         /* by the first worker, which then goes idle */
    FX_UNTIL(fj_pool_stats(pool).active == 1);
    fx_run(pool, &third, NULL, NULL);
    fx_bump(&slow.second_may_start);
    fx_finish(&first);
    fx_pool_end(pool);
}

/* ---- who is woken ---- */

/* One task for an idle pool starts one thread, and once that idles, wakes it: never a second one. */
FJ_TEST(idle, one_task_wakes_one_worker)
{
    fj_pool_t *pool = fx_pool_of(4);
    fx_task_t task;
    for (int i = 0; i < FJ_TEST_ROUNDS(1000); i++) {
        fx_run(pool, &task, NULL, NULL);
        fx_pool_await_quiet(pool);
        FJ_CHECK_EQ(fx_read(&fx_watch(pool)->started), 1);
    }
    fx_pool_end(pool);
}

static fj_word_t may_start;

static bool starts_when_it_may(fj_worker_t *worker)
{
    (void)worker;
    FX_AWAIT(&may_start, 1);
    return true;
}

/* While one worker is about to look for work nobody else is woken; it passes the rest on. */
FJ_TEST(idle, one_worker_at_a_time_is_woken)
{
    enum { TASKS = 5 };
    fj_config_t config = fx_config(4);
    config.hooks.start = starts_when_it_may;
    fj_store_relaxed(&may_start, 0);
    fj_pool_t *pool = fx_pool(&config);
    fx_task_t tasks[TASKS];
    for (int i = 0; i < TASKS; i++) {
        fx_start(pool, &tasks[i], NULL, NULL);
        FJ_CHECK_EQ(fj_pool_stats(pool).pool_size, 1);
    }
    fx_bump(&may_start);
    for (int i = 0; i < TASKS; i++) {
        fx_finish(&tasks[i]);
    }
    fx_pool_end(pool);
}

/* Waits until all of four tasks run, which takes four workers. */
static void meet_three_others(fx_task_t *task, fj_worker_t *worker)
{
    (void)worker;
    fx_bump(task->argument);
    FX_AWAIT((fj_word_t *)task->argument, 4);
}

static void forks_three_to_meet(fx_task_t *task, fj_worker_t *worker)
{
    fx_task_t children[3];
    for (int i = 0; i < 3; i++) {
        fx_task_init(&children[i], meet_three_others, task->argument);
        FJ_CHECK_EQ(fx_fork(&children[i]), FJ_OK);
    }
    meet_three_others(task, worker);
    for (int i = 0; i < 3; i++) {
        FJ_CHECK_EQ(fj_join(worker, &children[i].task, FJ_FOREVER), FJ_OK);
        FX_AWAIT(&children[i].drops, 1);
    }
}

/* Work that comes up inside one task spreads over all workers, whether they sleep or do not exist. */
FJ_TEST(idle, forked_work_wakes_one_worker_after_the_other)
{
    fj_pool_t *pool = fx_pool_of(4);
    for (int i = 0; i < FJ_TEST_ROUNDS(1000); i++) {
        fj_word_t together = 0;
        fx_task_t task;
        fx_run(pool, &task, forks_three_to_meet, &together);
    }
    FJ_CHECK_EQ(fx_read(&fx_watch(pool)->started), 4);
    fx_pool_end(pool);
}

static void submit_and_wait(unsigned index, void *argument)
{
    (void)index;
    for (int i = 0; i < FJ_TEST_ROUNDS(3000); i++) {
        fx_task_t task;
        fx_run(argument, &task, NULL, NULL);
    }
}

/* A clock by which every look takes a millisecond, so that a search is over after one. */
static int64_t hurried_clock(void)
{
    static _Atomic(int64_t) now;
    return fj_add_relaxed(&now, FX_MS) + FX_MS;
}

/* Hands in the next task at any moment after the worker has dropped the last one. */
static void submit_and_spin(fj_pool_t *pool, uint64_t *random)
{
    for (int i = 0; i < FJ_TEST_ROUNDS(3000); i++) {
        fx_task_t task;
        fx_start(pool, &task, NULL, NULL);
        for (int k = 0; k < 3000 && fx_read(&task.drops) == 0; k++) {
            fj_spin_hint();
        }
        fx_finish(&task);
        for (uint64_t k = fj_test_random(random) % 64; k > 0; k--) {
            fj_spin_hint();
        }
    }
}

/* No wake-up is lost between a submitter and the only worker, which is about to sleep each time. */
FJ_TEST(idle, no_wake_up_is_lost)
{
    uint64_t random = fj_test_seed();
    for (int i = 0; i < 10; i++) {
        fx_seam_set((fj_os_seam_t){.now = i % 2 ? hurried_clock : NULL});
        fj_pool_t *pool = fx_pool_of(1);
        submit_and_spin(pool, &random);
        FJ_CHECK_EQ(fx_read(&fx_watch(pool)->started), 1);
        fx_pool_end(pool);
    }
    fx_seam_clear();
}

/* No wake-up is lost between eight submitters and few workers. */
FJ_TEST(idle, no_wake_up_is_lost_among_many_submitters)
{
    for (uint32_t i = 0; i < 4; i++) {
        fx_seam_set((fj_os_seam_t){.now = i % 2 ? hurried_clock : NULL});
        fj_pool_t *pool = fx_pool_of(1 + i / 2);
        fj_test_together(8, submit_and_wait, pool);
        FJ_CHECK_LE(fx_read(&fx_watch(pool)->started), 1 + i / 2);
        fx_pool_end(pool);
    }
    fx_seam_clear();
}

/* Wake-ups for no reason and signals in any thread neither lose a wake-up nor wake for good. */
FJ_TEST(idle, spurious_wake_ups_do_no_harm)
{
    fx_seam_set((fj_os_seam_t){.wait = fx_unreliable_wait});
    fj_pool_t *pool = fx_pool_of(2);
    fj_test_together(4, submit_and_wait, pool);
    FJ_CHECK_LE(fx_read(&fx_watch(pool)->started), 2);
    fx_pool_end(pool);
    fx_seam_clear();
}

static void spin(fx_task_t *task, fj_worker_t *worker)
{
    (void)worker;
    while (fx_read(task->argument) == 0) {
        fj_spin_hint();
    }
}

/* A task that could run never waits behind a spinning one while another worker is free. */
FJ_TEST(idle, no_task_waits_behind_a_spinning_one)
{
    fj_pool_t *pool = fx_pool_of(2);
    for (int i = 0; i < FJ_TEST_ROUNDS(2000); i++) {
        fj_word_t released = 0;
        fx_task_t spinner, quick;
        fx_start(pool, &spinner, spin, &released);
        fx_run(pool, &quick, NULL, NULL);
        fx_bump(&released);
        fx_finish(&spinner);
    }
    fx_pool_end(pool);
}

/* ---- who leaves ---- */

/* A pool whose workers leave whenever they can grows again for every burst, and loses nothing. */
FJ_TEST(idle, the_pool_grows_again_after_every_idle_out)
{
    fx_seam_set((fj_os_seam_t){.wait = fx_hasty_wait});
    fj_config_t config = fx_config(2);
    config.keep_alive = FX_MS;
    fj_pool_t *pool = fx_pool(&config);
    fx_task_t burst[3];
    for (int i = 0; i < FJ_TEST_ROUNDS(5000); i++) {
        for (int k = 0; k < 3; k++) {
            fx_start(pool, &burst[k], NULL, NULL);
        }
        for (int k = 0; k < 3; k++) {
            fx_finish(&burst[k]);
        }
        if (i % 2 == 0) {
            FX_UNTIL(fj_pool_stats(pool).pool_size == 0);
        }
    }
    FJ_CHECK_GE(fx_read(&fx_watch(pool)->started), FJ_TEST_ROUNDS(5000) / 2);
    fx_pool_end(pool);
    fx_seam_clear();
}

static fj_word_t leaving, may_leave;

static void leaves_when_it_may(fj_worker_t *worker)
{
    (void)worker;
    fx_bump(&leaving);
    FX_AWAIT(&may_leave, 1);
}

/* Work that came while the only thread allowed was on its way out gets a new one once it is gone. */
FJ_TEST(idle, a_leaving_worker_makes_room_for_the_next)
{
    fx_seam_set((fj_os_seam_t){.wait = fx_hasty_wait});
    fj_config_t config = fx_config(1);
    config.max_workers = 1;
    config.keep_alive = FX_MS;
    config.hooks.stop = leaves_when_it_may;
    fj_store_relaxed(&leaving, 0);
    fj_store_relaxed(&may_leave, 0);
    fj_pool_t *pool = fx_pool(&config);
    fx_task_t first, second;
    fx_run(pool, &first, NULL, NULL);
    FX_AWAIT(&leaving, 1);
    fx_start(pool, &second, NULL, NULL);
    FJ_CHECK_EQ(fj_pool_stats(pool).pool_size, 1);
    fx_bump(&may_leave);
    fx_finish(&second);
    FJ_CHECK_EQ(fx_read(&fx_watch(pool)->started), 2);
    fx_pool_end(pool);
    fx_seam_clear();
}

/* If its successor is refused the leaving thread stays, and does that work itself. */
FJ_TEST(idle, a_leaving_worker_stays_if_its_successor_is_refused)
{
    fx_seam_set((fj_os_seam_t){.wait = fx_hasty_wait, .thread_start = fx_thread_start});
    fj_config_t config = fx_config(1);
    config.max_workers = 1;
    config.keep_alive = FX_MS;
    config.hooks.stop = leaves_when_it_may;
    fj_store_relaxed(&leaving, 0);
    fj_store_relaxed(&may_leave, 0);
    fj_pool_t *pool = fx_pool(&config);
    fx_task_t first, second;
    fx_run(pool, &first, NULL, NULL);
    FX_AWAIT(&leaving, 1);
    fx_start(pool, &second, NULL, NULL);
    fx_refuse_all = true;
    fx_bump(&may_leave);
    fx_finish(&second);
    FJ_CHECK_EQ(fj_pool_stats(pool).refused, 1);
    fx_pool_end(pool);
    fx_seam_clear();
}

/* Time-outs that a test hands out one by one: a wait with a deadline ends only by such a one. */
static _Atomic(uint32_t) time_outs;

static fj_os_wait_result_t timed_by_the_test(fj_word_t *word, uint32_t expected, int64_t deadline)
{
    while (deadline != FJ_FOREVER) {
        uint32_t left = fj_load_relaxed(&time_outs);
        if (left != 0 && fj_cas_weak_acqrel(&time_outs, &left, left - 1)) {
            return FJ_WAIT_TIMEOUT;
        }
        fj_os_wait_result_t result = fj_os_real_wait(word, expected, fj_os_real_now() + FX_MS);
        if (result != FJ_WAIT_TIMEOUT) {
            return result;
        }
    }
    return fj_os_real_wait(word, expected, deadline);
}

static void time_out_once(void)
{
    (void)fj_add_relaxed(&time_outs, 1);
    FX_UNTIL(fj_load_relaxed(&time_outs) == 0);
}

static fj_pool_t *pool_timed_by_the_test(uint32_t parallelism)
{
    fx_seam_set((fj_os_seam_t){.wait = timed_by_the_test});
    fj_config_t config = fx_config(parallelism);
    config.keep_alive = 1000 * FX_MS;
    return fx_pool(&config);
}

/* When the first idle worker's time is up in a quiet pool, all of them leave. */
FJ_TEST(idle, idle_workers_leave_together)
{
    fj_pool_t *pool = pool_timed_by_the_test(4);
    for (uint32_t i = 1; i <= 3; i++) {
        fj_word_t together = 0;
        fx_task_t tasks[4];
        for (int k = 0; k < 4; k++) {
            fx_start(pool, &tasks[k], meet_three_others, &together);
        }
        FX_AWAIT(&together, 4);
        FX_UNTIL(fj_pool_stats(pool).active == 0);
        FJ_CHECK_EQ(fj_pool_stats(pool).pool_size, 4);
        time_out_once();
        FX_AWAIT(&fx_watch(pool)->stopped, 4 * i);
        FX_UNTIL(fj_pool_stats(pool).pool_size == 0);
    }
    fx_pool_end(pool);
    fx_seam_clear();
}

typedef struct spares {
    fj_word_t start, blocked, open, back, finish;
} spares_t;

static void blocks_then_holds(fx_task_t *task, fj_worker_t *worker)
{
    spares_t *test = task->argument;
    FX_AWAIT(&test->start, 1);
    (void)fj_block_begin(worker);
    fx_bump(&test->blocked);
    FX_AWAIT(&test->open, 1);
    fj_block_end(worker);
    fx_bump(&test->back);
    FX_AWAIT(&test->finish, 1);
}

/* While the pool works only those beyond its parallelism leave, one for each time-out. */
FJ_TEST(idle, a_busy_pool_keeps_its_parallelism)
{
    fj_pool_t *pool = pool_timed_by_the_test(2);
    spares_t test = {.start = 1};
    fx_task_t blocker;
    fx_start(pool, &blocker, blocks_then_holds, &test);
    FX_AWAIT(&test.blocked, 1);
    fx_task_t tasks[4];
    fj_word_t quick = 0;
    for (int k = 0; k < 2; k++) {
        fx_start(pool, &tasks[k], fx_hold, &quick);
    }
    FX_UNTIL(fj_pool_stats(pool).pool_size == 3);
    fx_bump(&quick);
    FX_UNTIL(fj_pool_stats(pool).active == 0);
    time_out_once();                             /* one works, blocked: three are one too many */
    FX_UNTIL(fj_pool_stats(pool).pool_size == 2);
    for (int k = 0; k < 5; k++) {
        time_out_once();
        FJ_CHECK_EQ(fj_pool_stats(pool).pool_size, 2);
    }
    fx_bump(&test.open);
    fx_bump(&test.finish);
    for (int k = 0; k < 2; k++) {
        fx_finish(&tasks[k]);
    }
    fx_finish(&blocker);
    fx_pool_end(pool);
    fx_seam_clear();
}

/* ---- blocking ---- */

/* A worker that blocks is replaced when there is something to run, and not before. */
FJ_TEST(idle, blocking_starts_a_spare_only_for_queued_work)
{
    fj_pool_t *pool = fx_pool_of(1);
    spares_t test = {.start = 1};
    fx_task_t blocker, other;
    fx_start(pool, &blocker, blocks_then_holds, &test);
    FX_AWAIT(&test.blocked, 1);
    fj_stats_t stats = fj_pool_stats(pool);
    FJ_CHECK_EQ(stats.pool_size, 1);
    FJ_CHECK_EQ(stats.active, 0);
    FJ_CHECK_EQ(stats.blocked, 1);
    fx_run(pool, &other, NULL, NULL);
    FJ_CHECK_EQ(fj_pool_stats(pool).pool_size, 2);
    fx_bump(&test.open);
    fx_bump(&test.finish);
    fx_finish(&blocker);
    fx_pool_end(pool);
}

static void blocks_beside_queued_work(fx_task_t *task, fj_worker_t *worker)
{
    fx_task_t *other = task->argument;
    fx_task_init(other, NULL, NULL);
    FJ_CHECK_EQ(fx_fork(other), FJ_OK);
    (void)fj_block_begin(worker);
    FX_AWAIT(&other->runs, 1);
    fj_block_end(worker);
}

/* A worker that blocks while something is queued starts the spare that runs it. */
FJ_TEST(idle, blocking_releases_a_spare_for_what_is_queued)
{
    fj_pool_t *pool = fx_pool_of(1);
    for (int i = 0; i < FJ_TEST_ROUNDS(1000); i++) {
        fx_task_t task, other;
        fx_run(pool, &task, blocks_beside_queued_work, &other);
        FX_AWAIT(&other.drops, 1);
    }
    FJ_CHECK_LE(fx_read(&fx_watch(pool)->peak), 2);
    fx_pool_end(pool);
}

static void blocks_twice(fx_task_t *task, fj_worker_t *worker)
{
    (void)task;
    for (uint32_t depth = 0; depth < 3; depth++) {
        FJ_CHECK_EQ(fj_pool_stats(worker->pool).active, depth == 0);
        FJ_CHECK_EQ(fj_pool_stats(worker->pool).blocked, depth != 0);
        (void)fj_block_begin(worker);
    }
    for (uint32_t depth = 3; depth > 0; depth--) {
        FJ_CHECK_EQ(fj_pool_stats(worker->pool).active, 0);
        FJ_CHECK_EQ(fj_pool_stats(worker->pool).blocked, 1);
        fj_block_end(worker);
    }
    FJ_CHECK_EQ(fj_pool_stats(worker->pool).active, 1);
    FJ_CHECK_EQ(fj_pool_stats(worker->pool).blocked, 0);
}

/* A worker that blocks within a blocked section counts once, and is back after the outer end. */
FJ_TEST(idle, blocked_sections_nest)
{
    fj_pool_t *pool = fx_pool_of(1);
    fx_task_t task;
    fx_run(pool, &task, blocks_twice, NULL);
    (void)fj_block_begin(NULL);                        /* outside every pool nothing happens */
    fj_block_end(NULL);
    fx_pool_end(pool);
}

enum { CROWD = 40, LIMIT = 5 };

/* However many tasks block, there are never more threads than max_workers, and all run in turn. */
FJ_TEST(idle, threads_never_exceed_max_workers)
{
    fj_config_t config = fx_config(2);
    config.max_workers = LIMIT;
    fj_pool_t *pool = fx_pool(&config);
    spares_t test = {.finish = 1};
    fx_task_t tasks[CROWD];
    for (int i = 0; i < CROWD; i++) {
        fx_start(pool, &tasks[i], blocks_then_holds, &test);
    }
    fx_bump(&test.start);                       /* so that work is queued whenever one blocks */
    FX_AWAIT(&test.blocked, LIMIT);
    FX_UNTIL(fj_pool_stats(pool).at_limit > 0);
    FJ_CHECK_EQ(fj_pool_stats(pool).pool_size, LIMIT);
    fx_bump(&test.open);
    for (int i = 0; i < CROWD; i++) {
        fx_finish(&tasks[i]);
    }
    FJ_CHECK_EQ(fx_read(&fx_watch(pool)->peak), LIMIT);
    fx_pool_end(pool);
}

/* ---- more than should run ---- */

/* A worker that is one too many takes no further task; it parks until it is needed. */
FJ_TEST(idle, an_excess_worker_takes_no_further_task)
{
    fj_pool_t *pool = fx_pool_of(1);
    spares_t test = {.start = 1};
    fj_word_t held = 0;
    fx_task_t first, second, third;
    fx_start(pool, &first, blocks_then_holds, &test);
    FX_AWAIT(&test.blocked, 1);
    fx_start(pool, &second, fx_hold, &held);
    FX_AWAIT(&second.runs, 1);
    fx_start(pool, &third, NULL, NULL);
    fx_bump(&test.open);
    FX_AWAIT(&test.back, 1);
    FJ_CHECK_EQ(fj_pool_stats(pool).active, 2);
    fx_bump(&held);
    fx_finish(&second);
    FX_UNTIL(fj_pool_stats(pool).active == 1);   /* the spare is idle, and the third still waits */
    FJ_CHECK_EQ(fx_read(&third.runs), 0);
    fx_bump(&test.finish);
    fx_finish(&first);
    fx_finish(&third);
    FJ_CHECK_EQ(fx_read(&fx_watch(pool)->started), 2);
    fx_pool_end(pool);
}

/* Raising the parallelism while work is queued starts workers for it at once. */
FJ_TEST(idle, raising_parallelism_starts_workers)
{
    fj_pool_t *pool = fx_pool_of(1);
    fj_word_t together = 0;
    fx_task_t tasks[4];
    for (int i = 0; i < 4; i++) {
        fx_start(pool, &tasks[i], meet_three_others, &together);
    }
    FX_AWAIT(&together, 1);
    FJ_CHECK_EQ(fj_pool_set_parallelism(pool, 4), 1);
    for (int i = 0; i < 4; i++) {
        fx_finish(&tasks[i]);
    }
    FJ_CHECK_EQ(fj_pool_set_parallelism(pool, 2), 4);
    fx_pool_end(pool);
}

static struct {
    _Atomic(int32_t) inside;
    _Atomic(int32_t) most;
} crowd;

static void count_the_crowd(fx_task_t *task, fj_worker_t *worker)
{
    int32_t now = fj_add_acqrel(&crowd.inside, 1) + 1;
    int32_t most = fj_load_relaxed(&crowd.most);
    (void)task;
    (void)worker;
    while (now > most && !fj_cas_weak_acqrel(&crowd.most, &most, now)) {
    }
    fx_nap();
    (void)fj_sub_acqrel(&crowd.inside, 1);
}

/* Lowering the parallelism interrupts nobody, loses nothing, and soon fewer run. */
FJ_TEST(idle, lowering_parallelism_parks_the_excess)
{
    fj_pool_t *pool = fx_pool_of(4);
    fj_word_t together = 0;
    fx_task_t first[4], later[CROWD];
    for (int i = 0; i < 4; i++) {
        fx_start(pool, &first[i], meet_three_others, &together);
    }
    FX_AWAIT(&together, 4);
    FJ_CHECK_EQ(fj_pool_set_parallelism(pool, 1), 4);
    for (int i = 0; i < 4; i++) {
        fx_finish(&first[i]);
    }
    FX_UNTIL(fj_pool_stats(pool).active <= 1);
    crowd.inside = crowd.most = 0;
    for (int i = 0; i < CROWD; i++) {
        fx_start(pool, &later[i], count_the_crowd, NULL);
    }
    for (int i = 0; i < CROWD; i++) {
        fx_finish(&later[i]);
    }
    FJ_CHECK_EQ(fj_load_relaxed(&crowd.most), 1);
    fx_pool_end(pool);
}

/* ---- refused threads ---- */

/* While threads are refused a pool that has some does its work with those. */
FJ_TEST(idle, a_refused_spare_leaves_the_work_to_the_others)
{
    fx_seam_set((fj_os_seam_t){.thread_start = fx_thread_start});
    fj_pool_t *pool = fx_pool_of(2);
    fj_word_t held = 0;
    fx_task_t first, second, third;
    fx_start(pool, &first, fx_hold, &held);
    FX_AWAIT(&first.runs, 1);
    fx_refuse_all = true;
    fx_start(pool, &second, NULL, NULL);
    FJ_CHECK_EQ(fj_pool_stats(pool).refused, 1);
    FJ_CHECK_EQ(fj_pool_stats(pool).pool_size, 1);
    fx_refuse_all = false;
    fx_run(pool, &third, NULL, NULL);            /* asks again, and gets a thread for both */
    fx_finish(&second);
    fx_bump(&held);
    fx_finish(&first);
    fx_pool_end(pool);
    fx_seam_clear();
}
