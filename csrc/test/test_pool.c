/* test_pool.c - the front door, fj.h, from outside. */
#include "fixture.h"

#include <errno.h>

/* ---- refused threads ---- */

static struct {
    fj_pool_t *pool;
    fx_task_t other;
    uint32_t calls;
} meeting;

static int another_submits_and_the_thread_is_refused(void (*body)(void *), void *argument,
                                                     size_t stack_size)
{
    if (meeting.calls++ > 0) {
        return fj_os_real_thread_start(body, argument, stack_size);
    }
    FJ_CHECK_EQ(fx_submit(meeting.pool, &meeting.other), FJ_OK);
    return EAGAIN;
}

/* A submitter that relied on the thread that somebody else was refused is not left waiting. */
FJ_TEST(pool, a_refused_thread_strands_nobody_elses_task)
{
    fx_task_t task;
    fx_seam_set((fj_os_seam_t){.thread_start = another_submits_and_the_thread_is_refused});
    meeting.calls = 0;
    meeting.pool = fx_pool_of(1);
    fx_task_init(&task, NULL, NULL);
    fx_task_init(&meeting.other, NULL, NULL);
    fj_status_t status = fx_submit(meeting.pool, &task);
    FJ_CHECK(status == FJ_OK || status == FJ_NO_THREAD);
    FJ_CHECK_EQ(fj_task_wait(&meeting.other.task, fj_os_real_now() + 2000 * FX_MS), FJ_OK);
    fx_pool_end(meeting.pool);
    fx_seam_clear();
}

static void submit_the_other(unsigned index, void *unused)
{
    (void)index;
    (void)unused;
    FJ_CHECK_EQ(fx_submit(meeting.pool, &meeting.other), FJ_OK);
}

static int somebody_submits_and_the_thread_is_refused(void (*body)(void *), void *argument,
                                                      size_t stack_size)
{
    if (meeting.calls++ > 0) {
        return fj_os_real_thread_start(body, argument, stack_size);
    }
    fj_test_together(1, submit_the_other, NULL);
    return EAGAIN;
}

/* Nor one that relied on the thread that a guest was refused. */
FJ_TEST(pool, a_guests_refused_thread_strands_nobody_elses_task)
{
    fx_seam_set((fj_os_seam_t){.thread_start = somebody_submits_and_the_thread_is_refused});
    meeting.calls = 0;
    meeting.pool = fx_pool_of(1);
    fx_task_init(&meeting.other, NULL, NULL);
    fx_task_t own;
    fx_task_init(&own, NULL, NULL);
    fj_worker_t *guest = fj_guest_enter(meeting.pool);
    FJ_CHECK_EQ(fx_fork(&own), FJ_OK);
    FJ_CHECK_EQ(fj_join(guest, &own.task, FJ_FOREVER), FJ_OK);
    fj_guest_leave(guest);
    FJ_CHECK_EQ(fj_task_wait(&meeting.other.task, fj_os_real_now() + 2000 * FX_MS), FJ_OK);
    fx_pool_end(meeting.pool);
    fx_seam_clear();
}

/* ---- taking back ---- */

static void unforks_a_cancelled_one(fx_task_t *task, fj_worker_t *worker)
{
    fx_task_t *child = task->argument;
    (void)worker;
    fx_task_init(child, NULL, NULL);
    FJ_CHECK_EQ(fx_fork(child), FJ_OK);
    FJ_CHECK(fj_task_try_cancel(&child->task));
    FJ_CHECK(!fj_try_unfork(&child->task));
}

/* try_unfork takes back only what is still queued, not what was cancelled on top. */
FJ_TEST(pool, try_unfork_leaves_a_cancelled_task)
{
    fj_pool_t *pool = fx_pool_of(1);
    fx_task_t task, child;
    fx_run(pool, &task, unforks_a_cancelled_one, &child);
    fx_pool_end(pool);
    FJ_CHECK_EQ(fx_read(&child.runs), 0);
    FJ_CHECK_EQ(fx_read(&child.drops), 1);
}

static void unforks_and_forks_again(fx_task_t *task, fj_worker_t *worker)
{
    fx_task_t *below = task->argument, *top = below + 1;
    (void)worker;
    fx_task_init(below, NULL, NULL);
    fx_task_init(top, NULL, NULL);
    FJ_CHECK_EQ(fx_fork(below), FJ_OK);
    FJ_CHECK_EQ(fx_fork(top), FJ_OK);
    FJ_CHECK(!fj_try_unfork(&below->task));      /* it is not on top */
    FJ_CHECK(fj_try_unfork(&top->task));
    FJ_CHECK(!fj_try_unfork(&top->task));
    FJ_CHECK_EQ(fj_task_state(&top->task), FJ_NEW);
    FJ_CHECK_EQ(fx_read(&top->drops), 1);
    FJ_CHECK_EQ(fx_fork(top), FJ_OK);
}

/* What try_unfork took back is new again, its entry dropped, and may be forked once more. */
FJ_TEST(pool, try_unfork_makes_it_new_again)
{
    fj_pool_t *pool = fx_pool_of(1);
    fx_task_t task, children[2];
    fx_task_init(&task, NULL, NULL);
    FJ_CHECK(!fj_try_unfork(&task.task));        /* no worker, nothing forked */
    fx_run(pool, &task, unforks_and_forks_again, children);
    fx_pool_end(pool);
    fx_check_ran(&children[0]);
    FJ_CHECK_EQ(fx_read(&children[1].runs), 1);
    FJ_CHECK_EQ(fx_read(&children[1].drops), 2);
}

enum { SUBMITTERS = 4, EACH = 2000 };

static struct {
    fj_pool_t *pool;
    fx_task_t tasks[SUBMITTERS][EACH];
    fj_status_t status[SUBMITTERS][EACH];
} scarce;

static void submit_bursts(unsigned index, void *unused)
{
    uint64_t random = fj_test_seed() + index;
    (void)unused;
    for (int i = 0; i < FJ_TEST_ROUNDS(EACH); i++) {
        fx_task_t *task = &scarce.tasks[index][i];
        fx_task_init(task, NULL, NULL);
        scarce.status[index][i] = fx_submit(scarce.pool, task);
        if (scarce.status[index][i] == FJ_OK && fj_test_random(&random) % 4 == 0) {
            fx_finish(task);
        }
    }
}

static void check_scarce(uint32_t every, uint32_t parallelism)
{
    fx_seam_set((fj_os_seam_t){.thread_start = fx_thread_start, .wait = fx_hasty_wait});
    fx_refuse_every = every;
    fj_config_t config = fx_config(parallelism);
    config.keep_alive = FX_MS;
    scarce.pool = fx_pool(&config);
    fj_test_together(SUBMITTERS, submit_bursts, NULL);
    fx_pool_await_quiet(scarce.pool);
    fj_pool_shutdown(scarce.pool);
    fx_pool_await_end(scarce.pool);
    for (int k = 0; k < SUBMITTERS; k++) {
        for (int i = 0; i < FJ_TEST_ROUNDS(EACH); i++) {
            fx_task_t *task = &scarce.tasks[k][i];
            bool accepted = scarce.status[k][i] == FJ_OK;
            FJ_CHECK(accepted || scarce.status[k][i] == FJ_NO_THREAD);
            FJ_CHECK_EQ(fx_read(&task->runs) + fx_read(&task->cancels), accepted);
            FJ_CHECK_EQ(fx_read(&task->drops), accepted);
        }
    }
    fx_pool_release(scarce.pool);
    fx_seam_clear();
}

/* While the system refuses threads now and then, each accepted task runs or is cancelled once. */
FJ_TEST(pool, refused_threads_lose_no_task)
{
    for (uint32_t every = 2; every <= 3; every++) {
        check_scarce(every, 1);
        check_scarce(every, 2);
    }
}

/* A pool that gets no thread at all gives each task back to its submitter, and remains usable. */
FJ_TEST(pool, without_any_thread_tasks_come_back)
{
    fx_seam_set((fj_os_seam_t){.thread_start = fx_thread_start});
    fj_pool_t *pool = fx_pool_of(2);
    fx_task_t tasks[3];
    fj_task_t *batch[3];
    for (int i = 0; i < 3; i++) {
        fx_task_init(&tasks[i], NULL, NULL);
        batch[i] = &tasks[i].task;
        FJ_CHECK(fj_task_try_queue(batch[i], pool));
    }
    fx_refuse_all = true;
    for (int i = 0; i < 3; i++) {
        FJ_CHECK_EQ(fj_pool_submit(pool, batch, 3), FJ_NO_THREAD);
        FJ_CHECK(fj_pool_is_quiescent(pool));
        FJ_CHECK_EQ(fj_pool_stats(pool).pool_size, 0);
        FJ_CHECK_EQ(fj_task_state(batch[i]), FJ_QUEUED);
    }
    FJ_CHECK_EQ(fj_pool_stats(pool).refused, 3);
    fx_refuse_all = false;
    FJ_CHECK_EQ(fj_pool_submit(pool, batch, 3), FJ_OK);
    fx_pool_end(pool);
    for (int i = 0; i < 3; i++) {
        fx_check_ran(&tasks[i]);
    }
    fx_seam_clear();
}

/* ---- starting ---- */

/* A pool starts no thread before it has work, and its memory alone needs no end. */
FJ_TEST(pool, starts_no_thread_before_the_first_task)
{
    fj_pool_t *pool = fx_pool_of(4);
    fj_stats_t stats = fj_pool_stats(pool);
    FJ_CHECK_EQ(stats.parallelism, 4);
    FJ_CHECK_EQ(stats.pool_size + stats.active + stats.running + stats.blocked, 0);
    FJ_CHECK_EQ(stats.steals + stats.completed + stats.queued_tasks + stats.queued_submissions, 0);
    FJ_CHECK_EQ(fj_pool_phase(pool), 0);
    FJ_CHECK_EQ(fx_read(&fx_watch(pool)->started), 0);
    fx_pool_release(pool);
}

/* Handing in nothing wakes nobody, and starts no thread. */
FJ_TEST(pool, an_empty_batch_starts_no_thread)
{
    fj_pool_t *pool = fx_pool_of(1);
    FJ_CHECK_EQ(fj_pool_submit(pool, NULL, 0), FJ_OK);
    FJ_CHECK_EQ(fj_pool_stats(pool).pool_size, 0);
    fx_pool_end(pool);
}

static bool fails_to_start(fj_worker_t *worker)
{
    FJ_CHECK_EQ(fj_current, worker);
    return false;
}

/* A worker whose start hook fails stops the pool: what was accepted is cancelled, the rest refused. */
FJ_TEST(pool, a_failing_start_stops_it)
{
    fj_config_t config = fx_config(2);
    config.hooks.start = fails_to_start;
    fj_pool_t *pool = fx_pool(&config);
    fx_task_t task, late;
    fx_start(pool, &task, NULL, NULL);
    fx_pool_await_end(pool);
    fx_check_cancelled(&task);
    fx_task_init(&late, NULL, NULL);
    FJ_CHECK_EQ(fx_submit(pool, &late), FJ_REJECTED);
    FJ_CHECK_EQ(fx_read(&late.drops), 0);
    fx_pool_release(pool);
}

static bool only_the_first_starts(fj_worker_t *worker)
{
    return fj_worker_number(worker) == 1;
}

/* The same when another worker runs a task: that one ends, nothing else begins. */
FJ_TEST(pool, a_later_failing_start_stops_it_too)
{
    fj_config_t config = fx_config(2);
    config.hooks.start = only_the_first_starts;
    fj_pool_t *pool = fx_pool(&config);
    fj_word_t word = 0;
    fx_task_t first, second;
    fx_start(pool, &first, fx_hold, &word);
    FX_AWAIT(&first.runs, 1);
    fx_start(pool, &second, NULL, NULL);
    FX_UNTIL(fj_pool_phase(pool) & FJ_PHASE_STOP);
    fx_bump(&word);
    fx_pool_await_end(pool);
    fx_check_ran(&first);
    fx_check_cancelled(&second);
    fx_pool_release(pool);
}

/* Workers are numbered from 1 in the order of their starts, and a number is never used again. */
FJ_TEST(pool, numbers_are_never_used_again)
{
    fx_seam_set((fj_os_seam_t){.wait = fx_hasty_wait});
    fj_config_t config = fx_config(1);
    config.keep_alive = FX_MS;
    fj_pool_t *pool = fx_pool(&config);
    for (uint32_t k = 1; k <= 5; k++) {
        fj_worker_stats_t stats;
        fx_task_t task;
        fx_run(pool, &task, NULL, NULL);
        FX_UNTIL(fj_pool_stats(pool).pool_size == 0);
        FJ_CHECK(fj_pool_worker_stats(pool, 0, &stats));
        FJ_CHECK_EQ(stats.number, k);
        FJ_CHECK_EQ(stats.completed, k);
        FJ_CHECK(!fj_pool_worker_stats(pool, 1, &stats));
    }
    FJ_CHECK_EQ(fj_pool_stats(pool).completed, 5);
    fx_pool_end(pool);
    fx_seam_clear();
}

/* ---- where each worker stands ---- */

static fj_worker_state_t state_of(fj_pool_t *pool)
{
    fj_worker_state_t state;
    FJ_CHECK(fj_pool_worker_state(pool, 0, &state));
    return state;
}

typedef struct stations {
    fj_word_t arrived, go;
    fx_task_t *held;
} stations_t;

static void passes_the_stations(fx_task_t *task, fj_worker_t *worker)
{
    stations_t *test = task->argument;
    fj_worker_set_local(worker, test);
    fx_bump(&test->arrived);
    FX_AWAIT(&test->go, 1);
    (void)fj_block_begin(worker);
    fx_bump(&test->arrived);
    FX_AWAIT(&test->go, 2);
    fj_block_end(worker);
    FJ_CHECK_EQ(fj_join(worker, &test->held->task, FJ_FOREVER), FJ_OK);
}

/* A worker is seen as what it is: busy, blocked, joining, idle, and gone. */
FJ_TEST(pool, tells_where_a_worker_stands)
{
    fj_pool_t *pool = fx_pool_of(1), *other = fx_pool_of(1);
    fj_word_t word = 0;
    fj_worker_state_t state;
    fx_task_t held, traveller;
    stations_t test = {.held = &held};
    FJ_CHECK(!fj_pool_worker_state(pool, 0, &state));
    fx_start(other, &held, fx_hold, &word);
    int64_t before = fj_os_now_coarse();
    fx_start(pool, &traveller, passes_the_stations, &test);
    FX_AWAIT(&test.arrived, 1);
    FJ_CHECK_EQ(state_of(pool).activity, FJ_BUSY);
    FJ_CHECK_EQ(state_of(pool).number, 1);
    FJ_CHECK_EQ(state_of(pool).local, &test);
    FJ_CHECK(state_of(pool).present);
    FJ_CHECK_GE(state_of(pool).since, before);
    FJ_CHECK_LE(state_of(pool).since, fj_os_now_coarse());
    fx_bump(&test.go);
    FX_AWAIT(&test.arrived, 2);
    FJ_CHECK_EQ(state_of(pool).activity, FJ_BLOCKED);
    fx_bump(&test.go);
    FX_UNTIL(state_of(pool).activity == FJ_JOINING);
    fx_bump(&word);
    fx_finish(&traveller);
    fx_finish(&held);
    FX_UNTIL(state_of(pool).activity == FJ_IDLE);
    fj_pool_shutdown(pool);
    fx_pool_await_end(pool);
    FJ_CHECK(!state_of(pool).present);
    fx_pool_release(pool);
    fx_pool_end(other);
}

/* ---- the calling thread takes part ---- */

/* With no parallelism nothing runs by itself: whoever awaits a task runs it, in any order. */
FJ_TEST(pool, without_parallelism_callers_run_their_tasks)
{
    fj_pool_t *pool = fx_pool_of(0);
    fx_task_t tasks[4];
    for (int i = 0; i < 4; i++) {
        fx_start(pool, &tasks[i], NULL, NULL);
    }
    FJ_CHECK_EQ(fj_pool_stats(pool).queued_submissions, 4);
    FJ_CHECK(fj_run_outside(pool, &tasks[2].task));
    FJ_CHECK(!fj_run_outside(pool, &tasks[2].task));
    FJ_CHECK(fj_task_try_cancel(&tasks[3].task));
    FJ_CHECK(!fj_run_outside(pool, &tasks[3].task));
    FJ_CHECK(fj_run_outside(pool, &tasks[0].task));
    FJ_CHECK(fj_run_outside(pool, &tasks[1].task));
    FJ_CHECK(fj_pool_is_quiescent(pool));
    for (int i = 0; i < 3; i++) {
        fx_check_ran(&tasks[i]);
    }
    FJ_CHECK_EQ(fx_read(&tasks[3].runs), 0);
    FJ_CHECK_EQ(fx_read(&tasks[3].drops), 1);
    fx_pool_end(pool);
}

static void submit_and_run_it(unsigned index, void *argument)
{
    (void)index;
    for (int i = 0; i < FJ_TEST_ROUNDS(3000); i++) {
        fx_task_t task;
        fx_start(argument, &task, NULL, NULL);
        (void)fj_run_outside(argument, &task.task);
        fx_finish(&task);
        FJ_CHECK_EQ(fx_read(&task.runs), 1);
    }
}

/* Callers that run their own tasks and workers that do it first agree on who does. */
FJ_TEST(pool, callers_and_workers_run_each_task_once)
{
    for (uint32_t parallelism = 0; parallelism <= 2; parallelism++) {
        fj_pool_t *pool = fx_pool_of(parallelism);
        fj_test_together(4, submit_and_run_it, pool);
        fx_pool_end(pool);
    }
}

typedef struct visit {
    fj_pool_t *pool;
    fj_word_t together;
} visit_t;

static void cannot_be_a_guest(fx_task_t *task, fj_worker_t *worker)
{
    visit_t *test = task->argument;
    FJ_CHECK_EQ(fj_guest_enter(test->pool), NULL);
    FJ_CHECK_EQ(fj_current, worker);
    fx_bump(&test->together);
}

/* A guest forks, is stolen from and joins like a worker, is counted as none, and stays one thread. */
FJ_TEST(pool, a_guest_takes_part)
{
    fj_pool_t *pool = fx_pool_of(1);
    visit_t test = {.pool = pool};
    for (int i = 0; i < FJ_TEST_ROUNDS(1000); i++) {
        fj_worker_t *guest = fj_guest_enter(pool);
        fx_task_t stolen, own;
        FJ_CHECK_EQ(fj_current, guest);
        FJ_CHECK_EQ(fj_guest_enter(pool), NULL);
        fj_store_relaxed(&test.together, 0);
        fx_task_init(&stolen, cannot_be_a_guest, &test);
        fx_task_init(&own, cannot_be_a_guest, &test);
        FJ_CHECK_EQ(fx_fork(&stolen), FJ_OK);
        FX_AWAIT(&test.together, 1);             /* the worker took it */
        FJ_CHECK_EQ(fx_fork(&own), FJ_OK);
        FJ_CHECK_EQ(fj_join(guest, &own.task, FJ_FOREVER), FJ_OK);
        FJ_CHECK_EQ(fj_join(guest, &stolen.task, FJ_FOREVER), FJ_OK);
        fj_guest_leave(guest);
        FJ_CHECK_EQ(fj_current, NULL);
        FX_AWAIT(&stolen.drops, 1);
        FX_AWAIT(&own.drops, 1);
        FJ_CHECK_LE(fj_pool_stats(pool).pool_size, 1);
    }
    fx_pool_end(pool);
}

enum { FORKED = 16 };

/* What a guest forked and did not join is handed on when it leaves. */
FJ_TEST(pool, a_guest_leaves_nothing_behind)
{
    for (uint32_t parallelism = 0; parallelism <= 2; parallelism++) {
        fj_pool_t *pool = fx_pool_of(parallelism);
        fj_worker_t *guest = fj_guest_enter(pool);
        fx_task_t forked[FORKED];
        for (int i = 0; i < FORKED; i++) {
            fx_task_init(&forked[i], NULL, NULL);
            FJ_CHECK_EQ(fx_fork(&forked[i]), FJ_OK);
        }
        fj_guest_leave(guest);
        for (int i = 0; i < FORKED && parallelism == 0; i++) {
            FJ_CHECK(fj_run_outside(pool, &forked[i].task));
        }
        for (int i = 0; i < FORKED; i++) {
            fx_finish(&forked[i]);
        }
        fx_pool_end(pool);
        for (int i = 0; i < FORKED; i++) {
            fx_check_ran(&forked[i]);
        }
    }
}

/* Where the lane has no room for it, the guest runs it before it leaves. */
FJ_TEST(pool, a_guest_runs_what_finds_no_room)
{
    fj_config_t config = fx_config(0);
    config.queue_capacity = FORKED;
    fj_pool_t *pool = fx_pool(&config);
    fx_task_t queued[FORKED], forked[FORKED];
    for (int i = 0; i < FORKED - 1; i++) {
        fx_start(pool, &queued[i], NULL, NULL);
    }
    fj_worker_t *guest = fj_guest_enter(pool);
    for (int i = 0; i < FORKED; i++) {
        fx_task_init(&forked[i], NULL, NULL);
        FJ_CHECK_EQ(fx_fork(&forked[i]), FJ_OK);
    }
    fj_guest_leave(guest);
    FJ_CHECK_EQ(fj_pool_stats(pool).queued_submissions, FORKED);
    FJ_CHECK_EQ(fj_pool_stats(pool).completed, FORKED - 1);
    fj_pool_stop(pool);
    fx_pool_await_end(pool);
    fx_pool_release(pool);
    for (int i = 0; i < FORKED; i++) {
        FJ_CHECK_EQ(fx_read(&forked[i].runs) + fx_read(&forked[i].cancels), 1);
        FJ_CHECK_EQ(fx_read(&forked[i].drops), 1);
    }
}

/* ---- memory ---- */

static fj_pool_t *being_destroyed;

static void cannot_be_revived(void *user)
{
    FJ_CHECK(!fj_pool_try_retain(being_destroyed));
    fx_bump(user);
}

/* A pool lives as long as somebody holds it, is destroyed once, and is not revived meanwhile. */
FJ_TEST(pool, lives_as_long_as_it_is_held)
{
    fj_config_t config = fx_config(1);
    fj_word_t destroyed = 0;
    config.hooks.destroyed = cannot_be_revived;
    config.user = &destroyed;
    fj_pool_t *pool = being_destroyed = fj_pool_create(&config);
    FJ_CHECK_EQ(fj_pool_user(pool), &destroyed);
    fj_pool_retain(pool);
    FJ_CHECK(fj_pool_try_retain(pool));
    fj_pool_release(pool);
    fj_pool_release(pool);
    FJ_CHECK_EQ(fx_read(&destroyed), 0);
    fj_pool_release(pool);
    FJ_CHECK_EQ(fx_read(&destroyed), 1);
}

/* Many pools that are made, used and dropped leave no thread behind. */
FJ_TEST(pool, many_pools_leave_no_thread)
{
    for (int i = 0; i < FJ_TEST_ROUNDS(1000); i++) {
        fj_pool_t *pool = fx_pool_of(2);
        fx_task_t task;
        fx_run(pool, &task, NULL, NULL);
        fx_pool_end(pool);
    }
}

/* A child after fork has no workers: its only thread belongs to no pool. */
FJ_TEST(pool, a_forked_child_is_no_worker)
{
    fj_pool_t *pool = fx_pool_of(1);
    fj_worker_t *guest = fj_guest_enter(pool);
    FJ_CHECK_EQ(fj_worker_pool(fj_current), pool);
    fj_after_fork_child();                       /* as if this thread had forked */
    FJ_CHECK_EQ(fj_worker_pool(fj_current), NULL);
    fj_guest_leave(guest);
    fx_pool_end(pool);
}
