/* test_quiesce.c - quiescence, shutdown, stop, termination. */
#include "fixture.h"

#include "fj_lane.h"
#include "fj_quiesce.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef struct late {
    fj_word_t running, stopped;
    fx_task_t tasks[4];
    fj_status_t status[4];
} late_t;

static void hands_in_after_stop(fx_task_t *task, fj_worker_t *worker)
{
    late_t *test = task->argument;
    fj_task_t *pair[2] = {&test->tasks[2].task, &test->tasks[3].task};
    fx_bump(&test->running);
    FX_AWAIT(&test->stopped, 1);
    for (int i = 0; i < 4; i++) {
        fx_task_init(&test->tasks[i], NULL, NULL);
    }
    test->status[0] = fx_fork(&test->tasks[0]);
    test->status[1] = fx_submit(worker->pool, &test->tasks[1]);
    FJ_CHECK(fj_task_try_queue(pair[0], worker->pool));
    FJ_CHECK(fj_task_try_queue(pair[1], worker->pool));
    test->status[2] = test->status[3] = fj_pool_submit(worker->pool, pair, 2);
}

/* What a running task hands in after stop is refused or cancelled by the end, never forgotten. */
FJ_TEST(quiesce, stop_forgets_nothing_that_a_running_task_hands_in)
{
    fj_pool_t *pool = fx_pool_of(1);
    late_t test = {0};
    fx_task_t running;
    fx_task_init(&running, hands_in_after_stop, &test);
    FJ_CHECK_EQ(fx_submit(pool, &running), FJ_OK);
    FX_AWAIT(&test.running, 1);
    fj_pool_stop(pool);
    fx_bump(&test.stopped);
    FJ_CHECK_EQ(fj_pool_await_termination(pool, fj_os_real_now() + FX_PATIENCE), FJ_OK);
    for (int i = 0; i < 4; i++) {
        if (test.status[i] == FJ_OK) {
            fx_check_cancelled(&test.tasks[i]);
        }
    }
    fx_pool_release(pool);
}

/* ---- a thread refused while the pool shuts down ---- */

static fj_pool_t *shutting_down;

static int shut_down_and_refuse(void (*body)(void *), void *argument, size_t stack_size)
{
    (void)body;
    (void)argument;
    (void)stack_size;
    fj_pool_shutdown(shutting_down);
    return EAGAIN;
}

/* A pool whose only thread is refused in the middle of shutdown still terminates. */
FJ_TEST(quiesce, shutdown_ends_although_a_thread_is_refused)
{
    fx_seam_set((fj_os_seam_t){.thread_start = shut_down_and_refuse});
    fj_pool_t *pool = shutting_down = fx_pool_of(1);
    fx_task_t task;
    fx_task_init(&task, NULL, NULL);
    FJ_CHECK_NE(fx_submit(pool, &task), FJ_OK);
    FJ_CHECK_EQ(fj_pool_await_termination(pool, fj_os_real_now() + 2000 * FX_MS), FJ_OK);
    fx_pool_release(pool);
    fx_seam_clear();
}

/* ---- quiescent or not ---- */

static void is_not_quiescent(fx_task_t *task, fj_worker_t *worker)
{
    fx_task_t *child = task->argument;
    FJ_CHECK(!fj_pool_is_quiescent(worker->pool));
    (void)fj_block_begin(worker);
    FJ_CHECK(!fj_pool_is_quiescent(worker->pool));
    fj_block_end(worker);
    fx_task_init(child, NULL, NULL);
    FJ_CHECK_EQ(fx_fork(child), FJ_OK);
    FJ_CHECK(!fj_pool_is_quiescent(worker->pool));
}

/* A pool is quiescent before it has work and after, and not while a task runs or blocks. */
FJ_TEST(quiesce, a_working_pool_is_not_quiescent)
{
    fj_pool_t *pool = fx_pool_of(1);
    FJ_CHECK(fj_pool_is_quiescent(pool));
    for (int i = 0; i < 100; i++) {
        fx_task_t task, child;
        fx_run(pool, &task, is_not_quiescent, &child);
        fx_pool_await_quiet(pool);
        fx_check_ran(&child);
    }
    fx_pool_end(pool);
}

/* A queued task that no worker will run still means that the pool is not quiescent. */
FJ_TEST(quiesce, a_queued_task_is_not_quiescent)
{
    fj_pool_t *pool = fx_pool_of(0);
    fx_task_t task;
    fx_start(pool, &task, NULL, NULL);
    FJ_CHECK(!fj_pool_is_quiescent(pool));
    FJ_CHECK_EQ(fj_pool_await_quiescence(pool, fj_os_real_now() + FX_MS), FJ_TIMEOUT);
    FJ_CHECK(fj_run_outside(pool, &task.task));
    FJ_CHECK(fj_pool_is_quiescent(pool));
    FJ_CHECK_EQ(fj_pool_await_quiescence(pool, 0), FJ_OK);
    fx_pool_end(pool);
}

enum { LINKS = 2000 };

static struct {
    fx_task_t links[LINKS];
    fj_word_t ended;
} chain;

static void hands_on(fx_task_t *task, fj_worker_t *worker)
{
    fx_task_t *next = task + 1;
    int link = (int)(task - chain.links);
    if (link + 1 == FJ_TEST_ROUNDS(LINKS)) {
        fx_bump(&chain.ended);
        return;
    }
    fx_task_init(next, hands_on, NULL);
    if (link % 3 == 0) {
        FJ_CHECK_EQ(fx_fork(next), FJ_OK);
    } else if (link % 3 == 1) {
        FJ_CHECK_EQ(fx_submit(worker->pool, next), FJ_OK);
    } else {
        fj_task_t *one = &next->task;
        FJ_CHECK(fj_task_try_queue(one, worker->pool));
        FJ_CHECK_EQ(fj_pool_submit_outside(worker->pool, &one, 1), FJ_OK);
    }
}

/* While each task hands in the next the pool is never seen quiescent, whoever runs them. */
FJ_TEST(quiesce, a_chain_of_tasks_is_never_seen_quiescent)
{
    for (uint32_t parallelism = 1; parallelism <= 3; parallelism++) {
        fj_pool_t *pool = fx_pool_of(parallelism);
        fj_store_relaxed(&chain.ended, 0);
        fx_start(pool, &chain.links[0], hands_on, NULL);
        while (!fj_pool_is_quiescent(pool)) {
        }
        FJ_CHECK_EQ(fx_read(&chain.ended), 1);
        fj_store_relaxed(&chain.ended, 0);
        fx_start(pool, &chain.links[0], hands_on, NULL);
        fx_pool_await_quiet(pool);
        FJ_CHECK_EQ(fx_read(&chain.ended), 1);
        fx_pool_end(pool);
    }
}

typedef struct vigil {
    fj_pool_t *pool;
    fj_word_t over;
} vigil_t;

static void work_or_await_quiet(unsigned index, void *argument)
{
    vigil_t *test = argument;
    for (int i = 0; index == 0 && i < FJ_TEST_ROUNDS(1000); i++) {
        fx_task_t task;
        fx_run(test->pool, &task, NULL, NULL);
        fx_pool_await_quiet(test->pool);
    }
    if (index == 0) {
        fx_bump(&test->over);
    }
    while (fx_read(&test->over) == 0) {
        fx_pool_await_quiet(test->pool);
    }
}

/* Whoever waits for quiescence is woken when it comes, however many wait. */
FJ_TEST(quiesce, everybody_who_waits_for_it_is_woken)
{
    vigil_t test = {.pool = fx_pool_of(2)};
    fj_test_together(4, work_or_await_quiet, &test);
    fx_pool_end(test.pool);
}

static fj_os_wait_result_t always_interrupted(fj_word_t *word, uint32_t expected, int64_t deadline)
{
    return fj_current != NULL ? fj_os_real_wait(word, expected, deadline) : FJ_WAIT_INTERRUPTED;
}

/* A signal ends the wait for quiescence or termination, which can be taken up again. */
FJ_TEST(quiesce, waits_report_a_signal)
{
    fx_seam_set((fj_os_seam_t){.wait = always_interrupted});
    fj_pool_t *pool = fx_pool_of(1);
    fj_word_t word = 0;
    fx_task_t held;
    fx_start(pool, &held, fx_hold, &word);
    FJ_CHECK_EQ(fj_pool_await_quiescence(pool, FJ_FOREVER), FJ_INTERRUPTED);
    FJ_CHECK_EQ(fj_pool_await_termination(pool, FJ_FOREVER), FJ_INTERRUPTED);
    fx_bump(&word);
    fx_finish(&held);
    fx_pool_await_quiet(pool);
    fx_pool_end(pool);
    fx_seam_clear();
}

/* ---- shutdown ---- */

enum { QUEUED = 5 };

typedef struct trees {
    fj_word_t held;
    fx_task_t roots[QUEUED], children[QUEUED][2], orphans[QUEUED];
} trees_t;

static void forks_joins_and_submits(fx_task_t *task, fj_worker_t *worker)
{
    trees_t *test = task->argument;
    ptrdiff_t k = task - test->roots;
    for (int i = 0; i < 2; i++) {
        fx_task_init(&test->children[k][i], NULL, NULL);
        FJ_CHECK_EQ(fx_fork(&test->children[k][i]), FJ_OK);
    }
    fx_task_init(&test->orphans[k], NULL, NULL);
    FJ_CHECK_EQ(fx_submit(worker->pool, &test->orphans[k]), FJ_OK);
    for (int i = 0; i < 2; i++) {
        FJ_CHECK_EQ(fj_join(worker, &test->children[k][i].task, FJ_FOREVER), FJ_OK);
    }
}

/* After shutdown outsiders are refused, while queued tasks run, with all they fork and submit. */
FJ_TEST(quiesce, shutdown_lets_queued_work_finish)
{
    for (uint32_t parallelism = 1; parallelism <= 4; parallelism++) {
        fj_pool_t *pool = fx_pool_of(parallelism);
        trees_t test = {.held = 0};
        fx_task_t holder, late;
        fx_start(pool, &holder, fx_hold, &test.held);
        for (int i = 0; i < QUEUED; i++) {
            fx_start(pool, &test.roots[i], forks_joins_and_submits, &test);
        }
        fj_pool_shutdown(pool);
        fx_task_init(&late, NULL, NULL);
        FJ_CHECK_EQ(fx_submit(pool, &late), FJ_REJECTED);
        FJ_CHECK_EQ(fj_pool_phase(pool) & FJ_PHASE_TERMINATED, 0);
        FJ_CHECK_EQ(fj_pool_await_termination(pool, 0), FJ_TIMEOUT);
        fx_bump(&test.held);
        fx_pool_await_end(pool);
        fx_pool_release(pool);
        for (int i = 0; i < QUEUED; i++) {
            fx_check_ran(&test.roots[i]);
            fx_check_ran(&test.children[i][0]);
            fx_check_ran(&test.children[i][1]);
            fx_check_ran(&test.orphans[i]);
        }
        FJ_CHECK_EQ(fx_read(&late.runs) + fx_read(&late.drops), 0);
    }
}

/* A pool without work ends at once, whether it has no thread yet or only idle ones. */
FJ_TEST(quiesce, an_idle_pool_ends_at_once)
{
    fj_pool_t *fresh = fx_pool_of(2), *idle = fx_pool_of(2);
    fx_task_t task;
    fj_pool_shutdown(fresh);
    FJ_CHECK(fj_pool_phase(fresh) & FJ_PHASE_TERMINATED);
    fx_pool_end(fresh);
    fx_run(idle, &task, NULL, NULL);
    fx_pool_await_quiet(idle);
    FJ_CHECK_EQ(fx_read(&fx_watch(idle)->stopped), 0);
    fx_pool_end(idle);
}

static void blocks_until_it_is_open(fx_task_t *task, fj_worker_t *worker)
{
    (void)fj_block_begin(worker);
    fx_hold(task, worker);
    fj_block_end(worker);
}

/* A blocked task holds up the end of its pool, and not longer than it blocks. */
FJ_TEST(quiesce, shutdown_waits_for_a_blocked_task)
{
    fj_pool_t *pool = fx_pool_of(1);
    fj_word_t word = 0;
    fx_task_t blocked;
    fx_start(pool, &blocked, blocks_until_it_is_open, &word);
    FX_UNTIL(fj_pool_stats(pool).blocked == 1);
    fj_pool_shutdown(pool);
    FJ_CHECK_EQ(fj_pool_phase(pool), FJ_PHASE_SHUTDOWN);
    fx_bump(&word);
    fx_pool_end(pool);
    fx_check_ran(&blocked);
}

/* ---- stop ---- */

/* Stop cancels what is queued, exactly once, and leaves a running task to its end. */
FJ_TEST(quiesce, stop_cancels_what_is_queued)
{
    fj_pool_t *pool = fx_pool_of(1);
    fj_word_t word = 0;
    fx_task_t running, late, queued[QUEUED];
    fx_start(pool, &running, fx_hold, &word);
    FX_AWAIT(&running.runs, 1);
    for (int i = 0; i < QUEUED; i++) {
        fx_start(pool, &queued[i], NULL, NULL);
    }
    fj_pool_stop(pool);
    fj_pool_stop(pool);
    for (int i = 0; i < QUEUED; i++) {
        fx_check_cancelled(&queued[i]);
    }
    fx_task_init(&late, NULL, NULL);
    FJ_CHECK_EQ(fx_submit(pool, &late), FJ_REJECTED);
    FJ_CHECK_EQ(fj_pool_await_termination(pool, 0), FJ_TIMEOUT);
    fx_bump(&word);
    fx_pool_await_end(pool);
    fx_pool_release(pool);
    fx_check_ran(&running);
}

typedef struct deserted {
    fx_task_t forked, submitted, awaited;
    fj_word_t waiting;
} deserted_t;

static void waits_for_one_that_is_cancelled(fx_task_t *task, fj_worker_t *worker)
{
    deserted_t *test = task->argument;
    fx_task_init(&test->forked, NULL, NULL);
    fx_task_init(&test->submitted, NULL, NULL);
    FJ_CHECK_EQ(fx_fork(&test->forked), FJ_OK);
    FJ_CHECK_EQ(fx_submit(worker->pool, &test->submitted), FJ_OK);
    fx_bump(&test->waiting);
    FJ_CHECK_EQ(fj_task_wait(&test->awaited.task, FJ_FOREVER), FJ_OK);
}

/* Whoever waits for a task that stop cancels is woken; a worker's own queues are emptied as well. */
FJ_TEST(quiesce, stop_wakes_who_waits_for_a_queued_task)
{
    fj_pool_t *pool = fx_pool_of(1);
    deserted_t test = {.waiting = 0};
    fx_task_t waiter;
    fx_task_init(&test.awaited, NULL, NULL);
    fx_start(pool, &waiter, waits_for_one_that_is_cancelled, &test);
    FX_AWAIT(&test.waiting, 1);
    FJ_CHECK_EQ(fx_submit(pool, &test.awaited), FJ_OK);
    fj_pool_stop(pool);
    fx_pool_await_end(pool);
    fx_pool_release(pool);
    fx_check_ran(&waiter);
    fx_check_cancelled(&test.awaited);
    fx_check_cancelled(&test.forked);
    fx_check_cancelled(&test.submitted);
}

static void cancel_while_the_worker_leaves(fj_task_t *task)
{
    fx_task_t *me = FJ_CONTAINER(task, fx_task_t, task);
    fj_pool_t *pool = fj_task_pool(task);
    fx_bump(me->argument);                       /* the running task may end */
    FX_AWAIT(&fx_watch(pool)->stopped, 1);
    FX_UNTIL(fj_pool_stats(pool).pool_size == 0);
    FJ_CHECK_EQ(fj_pool_await_termination(pool, fj_os_real_now() + 20 * FX_MS), FJ_TIMEOUT);
    fx_task_ops.cancel(task);
}

/* A pool that was stopped has not ended before all that was queued is cancelled. */
FJ_TEST(quiesce, stop_ends_after_the_last_cancellation)
{
    fj_task_ops_t ops = fx_task_ops;
    ops.cancel = cancel_while_the_worker_leaves;
    fj_pool_t *pool = fx_pool_of(1);
    fj_word_t word = 0;
    fx_task_t running, queued;
    fx_start(pool, &running, fx_hold, &word);
    FX_AWAIT(&running.runs, 1);
    fx_task_init(&queued, NULL, &word);
    queued.task.ops = &ops;
    FJ_CHECK_EQ(fx_submit(pool, &queued), FJ_OK);
    fj_pool_stop(pool);
    fx_pool_await_end(pool);
    fx_pool_release(pool);
    fx_check_cancelled(&queued);
}

/* ---- the end races with everything ---- */

enum { SUBMITTERS = 4, EACH = 50, ENDERS = 8 };

static struct {
    fj_pool_t *pool;
    void (*end)(fj_pool_t *pool);
    fx_task_t tasks[SUBMITTERS][EACH], children[SUBMITTERS][EACH];
    bool accepted[SUBMITTERS][EACH];
    fj_word_t submitted;
    uint32_t end_after;
} rush;

static void forks_its_child(fx_task_t *task, fj_worker_t *worker)
{
    (void)worker;
    FJ_CHECK_EQ(fx_fork(task->argument), FJ_OK);
}

static void submit_or_end(unsigned index, void *unused)
{
    (void)unused;
    if (index == SUBMITTERS) {
        FX_AWAIT(&rush.submitted, rush.end_after);
        rush.end(rush.pool);
        return;
    }
    for (int i = 0; i < EACH; i++) {
        fx_task_init(&rush.children[index][i], NULL, NULL);
        fx_task_init(&rush.tasks[index][i], forks_its_child, &rush.children[index][i]);
        fj_status_t status = fx_submit(rush.pool, &rush.tasks[index][i]);
        FJ_CHECK(status == FJ_OK || status == FJ_REJECTED);
        rush.accepted[index][i] = status == FJ_OK;
        fx_bump(&rush.submitted);
    }
}

/* Run or cancelled as often as it was queued, 0 or 1. */
static void check_rushed(fx_task_t *task, uint32_t queued, bool may_cancel)
{
    FJ_CHECK_EQ(fx_read(&task->runs) + fx_read(&task->cancels), queued);
    FJ_CHECK_EQ(fx_read(&task->drops), queued);
    FJ_CHECK(may_cancel || fx_read(&task->cancels) == 0);
}

static void check_rush(void (*end)(fj_pool_t *pool), bool may_cancel)
{
    uint64_t random = fj_test_seed();
    for (int round = 0; round < FJ_TEST_ROUNDS(300); round++) {
        rush.pool = fx_pool_of(1 + (uint32_t)round % 3);
        rush.end = end;
        rush.end_after = (uint32_t)(fj_test_random(&random) % (SUBMITTERS * EACH));
        fj_store_relaxed(&rush.submitted, 0);
        fj_test_together(SUBMITTERS + 1, submit_or_end, NULL);
        fx_pool_await_end(rush.pool);
        fx_pool_release(rush.pool);
        for (int k = 0; k < SUBMITTERS; k++) {
            for (int i = 0; i < EACH; i++) {
                fx_task_t *task = &rush.tasks[k][i];
                check_rushed(task, rush.accepted[k][i], may_cancel);
                check_rushed(task->argument, fx_read(&task->runs), may_cancel);
            }
        }
    }
}

/* However submitting and shutdown race, what was accepted runs once, with what it forks, and what
 * was refused never runs. */
FJ_TEST(quiesce, shutdown_races_with_submits)
{
    check_rush(fj_pool_shutdown, false);
}

/* However submitting and stop race, what was accepted runs or is cancelled once. */
FJ_TEST(quiesce, stop_races_with_submits)
{
    check_rush(fj_pool_stop, true);
}

enum { BATCH = 64 };

static struct {
    fj_pool_t *pool;
    fx_task_t tasks[BATCH];
    fj_status_t status;
} refused;

static void submit_a_batch_or_stop(unsigned index, void *unused)
{
    fj_task_t *batch[BATCH];
    (void)unused;
    if (index == 1) {
        fj_pool_stop(refused.pool);
        return;
    }
    for (int i = 0; i < BATCH; i++) {
        fx_task_init(&refused.tasks[i], NULL, NULL);
        batch[i] = &refused.tasks[i].task;
        FJ_CHECK(fj_task_try_queue(batch[i], refused.pool));
    }
    refused.status = fj_pool_submit(refused.pool, batch, BATCH);
}

/* A batch that finds no thread while the pool is stopped comes back whole, or is cancelled whole. */
FJ_TEST(quiesce, stop_races_with_a_batch_that_finds_no_thread)
{
    fx_seam_set((fj_os_seam_t){.thread_start = fx_thread_start});
    fx_refuse_all = true;
    for (int round = 0; round < FJ_TEST_ROUNDS(2000); round++) {
        refused.pool = fx_pool_of(1);
        fj_test_together(2, submit_a_batch_or_stop, NULL);
        fx_pool_await_end(refused.pool);
        for (int i = 0; i < BATCH; i++) {
            FJ_CHECK_EQ(fx_read(&refused.tasks[i].runs), 0);
            FJ_CHECK_EQ(fx_read(&refused.tasks[i].cancels), refused.status == FJ_OK);
            FJ_CHECK_EQ(fx_read(&refused.tasks[i].drops), refused.status == FJ_OK);
        }
        fx_pool_release(refused.pool);
    }
    fx_seam_clear();
}

static void end_somehow(unsigned index, void *argument)
{
    fj_pool_t *pool = argument;
    fx_task_t task;
    fx_task_init(&task, NULL, NULL);
    bool accepted = fx_submit(pool, &task) == FJ_OK;
    if (index % 4 == 3) {
        fj_pool_stop(pool);
    } else {
        fj_pool_shutdown(pool);
    }
    fx_pool_await_end(pool);
    FJ_CHECK_EQ(fx_read(&task.runs) + fx_read(&task.cancels), accepted);
    FX_AWAIT(&task.drops, accepted);
}

/* Eight threads may submit, shut down, stop and await the end at the same time. */
FJ_TEST(quiesce, many_may_end_it_at_once)
{
    for (int round = 0; round < FJ_TEST_ROUNDS(300); round++) {
        fj_pool_t *pool = fx_pool_of(2);
        fj_test_together(ENDERS, end_somehow, pool);
        FJ_CHECK(fj_pool_phase(pool) & FJ_PHASE_TERMINATED);
        fx_pool_release(pool);
    }
}

/* ---- memory ---- */

/* A pool whose last handle goes while it works lives until its threads are gone. */
FJ_TEST(quiesce, a_pool_may_be_released_before_its_threads_end)
{
    for (int round = 0; round < FJ_TEST_ROUNDS(300); round++) {
        fj_pool_t *pool = fx_pool_of(2);
        fj_word_t word = 0;
        fx_task_t held, queued;
        fx_start(pool, &held, fx_hold, &word);
        fx_start(pool, &queued, NULL, NULL);
        FX_AWAIT(&held.runs, 1);
        if (round % 2 == 0) {
            fx_bump(&word);                      /* a close race */
        }
        fj_pool_shutdown(pool);
        fx_watch_t *watch = fx_watch(pool);
        fj_pool_release(pool);
        if (round % 2 != 0) {
            FJ_CHECK_EQ(fx_read(&watch->destroyed), 0);
            fx_bump(&word);
        }
        FX_AWAIT(&watch->destroyed, 1);
        free(watch);
        fx_check_ran(&held);
        fx_check_ran(&queued);
    }
}

/* Queued tasks of a pool that never had a thread are cancelled with it. */
FJ_TEST(quiesce, a_pool_without_threads_cancels_what_it_has)
{
    fj_pool_t *pool = fx_pool_of(0);
    fx_task_t tasks[QUEUED];
    for (int i = 0; i < QUEUED; i++) {
        fx_start(pool, &tasks[i], NULL, NULL);
    }
    fx_pool_release(pool);
    for (int i = 0; i < QUEUED; i++) {
        fx_check_cancelled(&tasks[i]);
    }
}

/* ---- guests ---- */

static void end_beside_a_guest(void (*end)(fj_pool_t *pool))
{
    fj_pool_t *pool = fx_pool_of(1);
    fx_task_t task, left;
    fx_run(pool, &task, NULL, NULL);
    fj_worker_t *guest = fj_guest_enter(pool);
    fx_task_init(&left, NULL, NULL);
    end(pool);
    FJ_CHECK_EQ(fx_fork(&left), FJ_OK);
    fj_guest_leave(guest);
    fx_pool_await_end(pool);
    FJ_CHECK_EQ(fx_read(&left.runs) + fx_read(&left.cancels), 1);
    FJ_CHECK_EQ(fx_read(&left.drops), 1);
    fx_pool_release(pool);
}

/* What a guest forks after the end and leaves behind is run or cancelled, not forgotten. */
FJ_TEST(quiesce, what_a_late_guest_leaves_is_not_forgotten)
{
    end_beside_a_guest(fj_pool_shutdown);
    end_beside_a_guest(fj_pool_stop);
}

/* Work that lies with a guest keeps no thread of a stopped pool from leaving. */
FJ_TEST(quiesce, a_guest_keeps_no_thread_from_leaving)
{
    fj_pool_t *pool = fx_pool_of(1);
    fj_word_t word = 0;
    fx_task_t held, forked;
    fx_start(pool, &held, fx_hold, &word);
    FX_AWAIT(&held.runs, 1);
    fj_worker_t *guest = fj_guest_enter(pool);
    fj_pool_stop(pool);
    fx_task_init(&forked, NULL, NULL);
    FJ_CHECK_EQ(fx_fork(&forked), FJ_OK);
    fx_bump(&word);
    FJ_CHECK_EQ(fj_pool_await_termination(pool, fj_os_real_now() + 2000 * FX_MS), FJ_OK);
    FJ_CHECK_EQ(fx_read(&fx_watch(pool)->started), 1);
    FJ_CHECK_EQ(fj_join(guest, &forked.task, FJ_FOREVER), FJ_OK);
    fj_guest_leave(guest);
    fx_check_ran(&forked);
    fx_pool_release(pool);
}

/* ---- what a drain has in its hand ---- */

static struct {
    fj_pool_t *pool;
    fj_word_t cancelled, dropped;
} drained;

static void cancel_and_look(fj_task_t *task)
{
    FJ_CHECK(fj_task_try_cancel(task));
    FJ_CHECK(!fj_pool_is_quiescent(drained.pool));
    fx_bump(&drained.cancelled);
}

static void drop_and_look(fj_task_t *task)
{
    (void)task;
    FJ_CHECK(!fj_pool_is_quiescent(drained.pool));
    fx_bump(&drained.dropped);
}

static const fj_task_ops_t looking_ops = {NULL, drop_and_look, cancel_and_look, false};

/* A pool is not quiescent while somebody, worker or not, cancels what was queued. */
FJ_TEST(quiesce, a_pool_that_is_drained_is_not_quiescent_yet)
{
    for (int stop = 0; stop <= 1; stop++) {
        fj_pool_t *pool = fx_pool_of(1);
        fj_task_t task, *entry = &task;
        memset((void *)&drained, 0, sizeof drained);
        drained.pool = pool;
        fx_refuse_all = true;
        fx_seam_set((fj_os_seam_t){.thread_start = fx_thread_start});
        fj_task_init(&task, &looking_ops);
        FJ_CHECK(fj_task_try_queue(&task, pool));
        FJ_CHECK_EQ(fj_lane_submit(&pool->lane, &entry, 1, false), FJ_OK);
        if (stop) {
            fj_pool_stop(pool);
        } else {
            fj_quiesce_rescue(pool);             /* no thread is there, none is to be had */
        }
        FJ_CHECK_EQ(fx_read(&drained.cancelled), 1);
        FJ_CHECK_EQ(fx_read(&drained.dropped), 1);
        FJ_CHECK(fj_pool_is_quiescent(pool));
        fx_refuse_all = false;
        fx_seam_clear();
        fx_pool_end(pool);
    }
}
