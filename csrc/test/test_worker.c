/* test_worker.c - the run loop: what a worker takes next, and what it counts. */
#include "fixture.h"

#include "fj_worker.h"

#include <string.h>

/* ---- the order in which one worker takes tasks ---- */

enum { SIX = 6 };

static struct {
    int order[SIX], ran;                        /* plain: one worker writes them */
    fx_task_t tasks[SIX];
    fj_status_t (*hand_in)(fx_task_t *task);
} six;

static void note_the_order(fx_task_t *task, fj_worker_t *worker)
{
    (void)worker;
    six.order[six.ran++] = (int)(task - six.tasks) + 1;
}

static fj_status_t submit_inside(fx_task_t *task)
{
    return fx_submit(fj_current->pool, task);
}

static fj_status_t submit_to_the_lane(fx_task_t *task)
{
    fj_task_t *one = &task->task;
    FJ_CHECK(fj_task_try_queue(one, fj_current->pool));
    return fj_pool_submit_outside(fj_current->pool, &one, 1);
}

static void hands_in_six(fx_task_t *task, fj_worker_t *worker)
{
    (void)task;
    (void)worker;
    for (int i = 0; i < SIX; i++) {
        FJ_CHECK_EQ(six.hand_in(&six.tasks[i]), FJ_OK);
    }
}

static void check_order(bool fifo, fj_status_t (*hand_in)(fx_task_t *task), bool newest_first)
{
    fj_config_t config = fx_config(1);
    config.fifo = fifo;
    fj_pool_t *pool = fx_pool(&config);
    fx_task_t parent;
    six.ran = 0;
    six.hand_in = hand_in;
    for (int i = 0; i < SIX; i++) {
        fx_task_init(&six.tasks[i], note_the_order, NULL);
    }
    fx_run(pool, &parent, hands_in_six, NULL);
    fx_pool_end(pool);
    for (int i = 0; i < SIX; i++) {
        fx_check_ran(&six.tasks[i]);
        FJ_CHECK_EQ(six.order[i], newest_first ? SIX - i : i + 1);
    }
}

/* Of what it forked and never joined a worker runs the newest first, or the oldest with fifo. */
FJ_TEST(worker, forked_tasks_run_newest_first_or_fifo)
{
    check_order(false, fx_fork, true);
    check_order(true, fx_fork, false);
}

/* What a task submits runs in the order of submission, by whatever way and in either mode. */
FJ_TEST(worker, submitted_tasks_run_in_order)
{
    for (int fifo = 0; fifo < 2; fifo++) {
        check_order(fifo, submit_inside, false);
        check_order(fifo, submit_to_the_lane, false);
    }
}

/* What one thread outside submits one worker runs in the order of submission. */
FJ_TEST(worker, outside_tasks_run_in_order)
{
    for (int fifo = 0; fifo < 2; fifo++) {
        fj_config_t config = fx_config(1);
        config.fifo = fifo;
        fj_pool_t *pool = fx_pool(&config);
        fj_word_t held = 0;
        fx_task_t first;
        six.ran = 0;
        fx_start(pool, &first, fx_hold, &held);
        for (int i = 0; i < SIX; i++) {
            fx_start(pool, &six.tasks[i], note_the_order, NULL);
        }
        fx_bump(&held);
        fx_finish(&first);
        fx_pool_end(pool);
        for (int i = 0; i < SIX; i++) {
            FJ_CHECK_EQ(six.order[i], i + 1);
        }
    }
}

/* ---- outsiders are not starved ---- */

enum { LINKS = 10000, ENTERS_AT = 100, OUTSIDE_FIRST = 61 };

static struct {
    fx_task_t links[LINKS], outsider;
    fj_status_t (*hand_in)(fx_task_t *task);
    fj_word_t running, entered;
    int at, outsider_at;                        /* plain: one worker writes them */
} chain;

static void hands_in_the_next(fx_task_t *task, fj_worker_t *worker)
{
    (void)worker;
    chain.at = (int)(task - chain.links);
    if (chain.at == ENTERS_AT) {
        fx_bump(&chain.running);
        FX_AWAIT(&chain.entered, 1);
    }
    if (chain.outsider_at == 0 && chain.at + 1 < LINKS) {
        fx_task_init(&chain.links[chain.at + 1], hands_in_the_next, NULL);
        FJ_CHECK_EQ(chain.hand_in(&chain.links[chain.at + 1]), FJ_OK);
    }
}

static void note_the_link(fx_task_t *task, fj_worker_t *worker)
{
    (void)task;
    (void)worker;
    chain.outsider_at = chain.at;
}

static void check_that_an_outsider_gets_in(fj_status_t (*hand_in)(fx_task_t *task))
{
    fj_pool_t *pool = fx_pool_of(1);
    chain.hand_in = hand_in;
    chain.at = chain.outsider_at = 0;
    fj_store_relaxed(&chain.running, 0);
    fj_store_relaxed(&chain.entered, 0);
    fx_start(pool, &chain.links[0], hands_in_the_next, NULL);
    FX_AWAIT(&chain.running, 1);
    fx_start(pool, &chain.outsider, note_the_link, NULL);
    fx_bump(&chain.entered);
    fx_pool_end(pool);
    fx_check_ran(&chain.outsider);
    FJ_CHECK_LE(chain.outsider_at - ENTERS_AT, OUTSIDE_FIRST);
}

/* A worker's own work that never ends lets an outsider's task in at the 61st pick. */
FJ_TEST(worker, endless_own_work_does_not_starve_outsiders)
{
    check_that_an_outsider_gets_in(fx_fork);
    check_that_an_outsider_gets_in(submit_inside);
}

/* ---- entries ---- */

static void hands_in_six_and_cancels_some(fx_task_t *task, fj_worker_t *worker)
{
    hands_in_six(task, worker);
    for (int i = 0; i < SIX; i += 2) {
        FJ_CHECK(fj_task_try_cancel(&six.tasks[i].task));
    }
}

/* An entry whose task was cancelled is skipped and dropped, wherever it lies. */
FJ_TEST(worker, cancelled_tasks_are_skipped)
{
    fj_status_t (*ways[])(fx_task_t *) = {fx_fork, submit_inside, submit_to_the_lane};
    for (int w = 0; w < 3; w++) {
        fj_pool_t *pool = fx_pool_of(1);
        fx_task_t parent;
        six.hand_in = ways[w];
        for (int i = 0; i < SIX; i++) {
            fx_task_init(&six.tasks[i], NULL, NULL);
        }
        fx_run(pool, &parent, hands_in_six_and_cancels_some, NULL);
        fx_pool_end(pool);
        for (int i = 0; i < SIX; i++) {
            FJ_CHECK_EQ(fx_read(&six.tasks[i].runs), i % 2);
            FJ_CHECK_EQ(fx_read(&six.tasks[i].drops), 1);
        }
    }
}

static void forks_until_full(fx_task_t *task, fj_worker_t *worker)
{
    (void)task;
    for (int i = 0; i < SIX; i++) {
        fx_task_init(&six.tasks[i], NULL, NULL);
        FJ_CHECK_EQ(six.hand_in(&six.tasks[i]), i < 4 ? FJ_OK : FJ_QUEUE_FULL);
        if (i >= 4) {                            /* still the caller's: it may run it itself */
            FJ_CHECK(fj_task_try_claim(&six.tasks[i].task));
            fj_run_started(&six.tasks[i].task);
        }
    }
    FJ_CHECK_EQ(fj_pool_stats(worker->pool).queued_tasks
                    + fj_pool_stats(worker->pool).queued_submissions, 4);
}

/* A full queue is reported to whoever forks or submits, who keeps the task. */
FJ_TEST(worker, a_full_queue_is_reported)
{
    fj_status_t (*ways[])(fx_task_t *) = {fx_fork, submit_inside, submit_to_the_lane};
    for (int w = 0; w < 3; w++) {
        fj_config_t config = fx_config(1);
        config.queue_capacity = 4;
        fj_pool_t *pool = fx_pool(&config);
        fx_task_t parent;
        six.hand_in = ways[w];
        fx_run(pool, &parent, forks_until_full, NULL);
        fx_pool_end(pool);
        for (int i = 0; i < SIX; i++) {
            FJ_CHECK_EQ(fx_read(&six.tasks[i].runs), 1);
            FJ_CHECK_EQ(fx_read(&six.tasks[i].drops), i < 4);
        }
    }
}

/* ---- counts ---- */

static void forks_six(fx_task_t *task, fj_worker_t *worker)
{
    six.hand_in = fx_fork;
    for (int i = 0; i < SIX; i++) {
        fx_task_init(&six.tasks[i], NULL, NULL);
    }
    hands_in_six(task, worker);
}

/* A steal is a task taken from outside or from another worker, and not one's own. */
FJ_TEST(worker, steals_count_what_is_not_its_own)
{
    fj_pool_t *pool = fx_pool_of(1);
    fx_task_t task;
    fx_run(pool, &task, forks_six, NULL);
    fx_pool_await_quiet(pool);
    FJ_CHECK_EQ(fj_pool_stats(pool).steals, 1);
    FJ_CHECK_EQ(fj_pool_stats(pool).completed, 1 + SIX);
    for (int i = 0; i < 5; i++) {
        fx_run(pool, &task, NULL, NULL);
    }
    fx_pool_await_quiet(pool);
    FJ_CHECK_EQ(fj_pool_stats(pool).steals, 6);
    FJ_CHECK_EQ(fj_pool_stats(pool).completed, 6 + SIX);
    fx_pool_end(pool);
}

/* ---- hooks ---- */

static struct {
    fj_word_t detached, at_native, at_plain;
} hook;

static void count_detach(fj_worker_t *worker)
{
    FJ_CHECK_EQ(fj_current, worker);
    fx_bump(&hook.detached);
}

static void runs_natively(fj_task_t *task, fj_worker_t *worker)
{
    fj_store_relaxed(&hook.at_native, fx_read(&hook.detached));
    fx_task_ops.run(task, worker);
}

static void forks_a_native_one(fx_task_t *task, fj_worker_t *worker)
{
    static fj_task_ops_t native;
    fx_task_t *child = task->argument;
    native = fx_task_ops;
    native.native = true;
    native.run = runs_natively;
    fx_task_init(child, NULL, NULL);
    child->task.ops = &native;
    fj_store_relaxed(&hook.at_plain, fx_read(&hook.detached));
    FJ_CHECK_EQ(fx_fork(child), FJ_OK);
    FJ_CHECK_EQ(fj_join(worker, &child->task, FJ_FOREVER), FJ_OK);
}

/* The binding lets go of its thread state before native code, and before the worker sleeps. */
FJ_TEST(worker, detaches_before_native_code_and_before_sleep)
{
    fj_config_t config = fx_config(1);
    config.hooks.detach = count_detach;
    fj_pool_t *pool = fx_pool(&config);
    fx_task_t parent, child;
    memset(&hook, 0, sizeof hook);
    fx_run(pool, &parent, forks_a_native_one, &child);
    FJ_CHECK_EQ(fx_read(&hook.at_native), fx_read(&hook.at_plain) + 1);
    fx_pool_await_quiet(pool);
    FJ_CHECK_GT(fx_read(&hook.detached), fx_read(&hook.at_native));
    fx_pool_end(pool);
}
