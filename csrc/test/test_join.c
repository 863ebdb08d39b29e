/* test_join.c - waiting for a task, and being of use meanwhile. */
#include "fixture.h"

#include "fj_deque.h"

#include <string.h>

/* ---- not started yet: it runs here ---- */

static void note_the_worker(fx_task_t *task, fj_worker_t *worker)
{
    *(fj_worker_t **)task->argument = worker;
}

static void joins_what_it_forked(fx_task_t *task, fj_worker_t *worker)
{
    enum { FORKED = 5 };
    fx_task_t children[FORKED];
    fj_worker_t *ran_by = NULL;
    (void)task;
    for (int i = 0; i < FORKED; i++) {
        fx_task_init(&children[i], note_the_worker, &ran_by);
        FJ_CHECK_EQ(fx_fork(&children[i]), FJ_OK);
    }
    for (int i = FORKED; i-- > 0;) {
        ran_by = NULL;
        FJ_CHECK_EQ(fj_join(worker, &children[i].task, FJ_FOREVER), FJ_OK);
        FJ_CHECK_EQ(ran_by, worker);
        FJ_CHECK_EQ(fj_deque_size(&worker->deque), i);
        fx_check_ran(&children[i]);
    }
}

/* A task on top of the joiner's deque is taken off and run in place, by no other thread. */
FJ_TEST(join, runs_the_top_in_place)
{
    fj_pool_t *pool = fx_pool_of(1);
    fx_task_t task;
    fx_run(pool, &task, joins_what_it_forked, NULL);
    FJ_CHECK_EQ(fx_read(&fx_watch(pool)->started), 1);
    fx_pool_end(pool);
}

typedef struct elsewhere {
    fx_task_t deep, top, in_lane, in_inbox, newer_in_inbox;
    fj_worker_t *ran_by;
} elsewhere_t;

static void joins_from_everywhere(fx_task_t *task, fj_worker_t *worker)
{
    elsewhere_t *test = task->argument;
    fx_task_t *tasks[] = {&test->deep, &test->top, &test->in_lane, &test->in_inbox,
                          &test->newer_in_inbox};
    for (int i = 0; i < 5; i++) {
        fx_task_init(tasks[i], note_the_worker, &test->ran_by);
    }
    FJ_CHECK_EQ(fx_fork(&test->deep), FJ_OK);
    FJ_CHECK_EQ(fx_fork(&test->top), FJ_OK);
    FJ_CHECK_EQ(fx_submit(worker->pool, &test->in_inbox), FJ_OK);
    FJ_CHECK_EQ(fx_submit(worker->pool, &test->newer_in_inbox), FJ_OK);
    fj_task_t *outside = &test->in_lane.task;
    FJ_CHECK(fj_task_try_queue(outside, worker->pool));
    FJ_CHECK_EQ(fj_pool_submit_outside(worker->pool, &outside, 1), FJ_OK);
    for (int i = 0; i < 5; i++) {
        test->ran_by = NULL;
        FJ_CHECK_EQ(fj_join(worker, &tasks[i]->task, FJ_FOREVER), FJ_OK);
        FJ_CHECK_EQ(test->ran_by, worker);
    }
}

/* A task that nobody has started is claimed and run in place wherever it lies; so one worker alone
 * can wait for anything, and the entry that is left behind is dropped in the end. */
FJ_TEST(join, claims_the_awaited_task_wherever_it_lies)
{
    fj_config_t config = fx_config(1);
    config.max_workers = 1;
    fj_pool_t *pool = fx_pool(&config);
    elsewhere_t test;
    fx_task_t task;
    fx_run(pool, &task, joins_from_everywhere, &test);
    fx_pool_end(pool);
    fx_check_ran(&test.deep);
    fx_check_ran(&test.top);
    fx_check_ran(&test.in_lane);
    fx_check_ran(&test.in_inbox);
    fx_check_ran(&test.newer_in_inbox);
}

typedef struct two {
    fj_word_t ready, finish;
    fx_task_t forked, submitted;
    fj_worker_t *ran_by;
} two_t;

static void hands_in_two_and_holds(fx_task_t *task, fj_worker_t *worker)
{
    two_t *test = task->argument;
    fx_task_init(&test->forked, note_the_worker, &test->ran_by);
    fx_task_init(&test->submitted, note_the_worker, &test->ran_by);
    FJ_CHECK_EQ(fx_submit(worker->pool, &test->submitted), FJ_OK);
    FJ_CHECK_EQ(fx_fork(&test->forked), FJ_OK);
    fx_bump(&test->ready);
    FX_AWAIT(&test->finish, 1);
}

static void joins_both(fx_task_t *task, fj_worker_t *worker)
{
    two_t *test = task->argument;
    FX_AWAIT(&test->ready, 1);
    fx_task_t *both[] = {&test->forked, &test->submitted};
    for (int i = 0; i < 2; i++) {
        test->ran_by = NULL;
        FJ_CHECK_EQ(fj_join(worker, &both[i]->task, FJ_FOREVER), FJ_OK);
        FJ_CHECK_EQ(test->ran_by, worker);
    }
    fx_bump(&test->finish);
}

/* The same for a task in another worker's deque or inbox. */
FJ_TEST(join, claims_it_from_another_workers_queues)
{
    fj_config_t config = fx_config(2);
    config.max_workers = 2;
    fj_pool_t *pool = fx_pool(&config);
    two_t test = {.ready = 0};
    fx_task_t holder, joiner;
    fx_start(pool, &joiner, joins_both, &test);
    FX_AWAIT(&joiner.runs, 1);
    fx_run(pool, &holder, hands_in_two_and_holds, &test);
    fx_finish(&joiner);
    fx_pool_end(pool);
    fx_check_ran(&test.forked);
    fx_check_ran(&test.submitted);
}

/* ---- it runs elsewhere: help its runner ---- */

typedef struct family {
    fj_word_t may_join, forked, joined;
    fx_task_t stranger, awaited, children[3];
    fj_worker_t *helper;
    fj_worker_t *ran_by[3];
} family_t;

static void has_children(fx_task_t *task, fj_worker_t *worker)
{
    family_t *test = task->argument;
    (void)worker;
    for (int i = 0; i < 3; i++) {
        fx_task_init(&test->children[i], note_the_worker, &test->ran_by[i]);
        FJ_CHECK_EQ(fx_fork(&test->children[i]), FJ_OK);
    }
    fx_bump(&test->may_join);
    for (int i = 0; i < 3; i++) {                /* without joining: somebody must help */
        FX_AWAIT(&test->children[i].runs, 1);
    }
}

static void joins_the_parent(fx_task_t *task, fj_worker_t *worker)
{
    family_t *test = task->argument;
    test->helper = worker;
    FX_AWAIT(&test->may_join, 1);
    FJ_CHECK_EQ(fj_join(worker, &test->awaited.task, FJ_FOREVER), FJ_OK);
}

/* A joiner runs what the task it waits for has forked, instead of sleeping. */
FJ_TEST(join, helps_the_runner_of_the_awaited_task)
{
    fj_config_t config = fx_config(2);
    config.max_workers = 2;
    fj_pool_t *pool = fx_pool(&config);
    family_t test = {.may_join = 0};
    fx_task_t joiner;
    fx_start(pool, &joiner, joins_the_parent, &test);
    FX_AWAIT(&joiner.runs, 1);
    fx_run(pool, &test.awaited, has_children, &test);
    fx_finish(&joiner);
    FJ_CHECK_EQ(fj_pool_stats(pool).helps, 3);
    for (int i = 0; i < 3; i++) {
        FJ_CHECK_EQ(test.ran_by[i], test.helper);
    }
    fx_pool_end(pool);
}

static void is_awaited_beside_a_stranger(fx_task_t *task, fj_worker_t *worker)
{
    family_t *test = task->argument;
    fx_task_init(&test->children[0], NULL, NULL);
    FJ_CHECK_EQ(fx_fork(&test->children[0]), FJ_OK);
    fx_bump(&test->may_join);
    FX_UNTIL(fj_pool_stats(worker->pool).blocked == 1);
    FJ_CHECK_EQ(fx_read(&test->stranger.runs), 0);
    FJ_CHECK_EQ(fx_read(&test->children[0].runs), 0);
}

static void forks_a_stranger_first(fx_task_t *task, fj_worker_t *worker)
{
    family_t *test = task->argument;
    fx_task_init(&test->stranger, NULL, NULL);
    fx_task_init(&test->awaited, is_awaited_beside_a_stranger, test);
    FJ_CHECK_EQ(fx_fork(&test->stranger), FJ_OK);
    FJ_CHECK_EQ(fx_fork(&test->awaited), FJ_OK);
    FJ_CHECK_EQ(fj_join(worker, &test->awaited.task, FJ_FOREVER), FJ_OK);
    FX_AWAIT(&test->joined, 1);
}

static void joins_and_says_so(fx_task_t *task, fj_worker_t *worker)
{
    family_t *test = task->argument;
    joins_the_parent(task, worker);
    fx_bump(&test->joined);
}

/* A joiner sleeps rather than run a task that does not descend from what it waits for. */
FJ_TEST(join, leaves_strangers_alone)
{
    fj_config_t config = fx_config(2);
    config.max_workers = 2;
    fj_pool_t *pool = fx_pool(&config);
    family_t test = {.may_join = 0};
    fx_task_t joiner, parent;
    fx_start(pool, &joiner, joins_and_says_so, &test);
    FX_AWAIT(&joiner.runs, 1);
    fx_run(pool, &parent, forks_a_stranger_first, &test);
    fx_finish(&joiner);
    fx_pool_end(pool);
    FJ_CHECK_EQ(fx_read(&test.stranger.drops), 1);
    FJ_CHECK_EQ(fx_read(&test.children[0].drops), 1);
}

/* ---- nothing to do: sleep ---- */

typedef struct foreign {
    fj_word_t held, joining;
    fj_pool_t *home;
    fx_task_t awaited;
} foreign_t;

static void note_that_it_is_home(fx_task_t *task, fj_worker_t *worker)
{
    foreign_t *test = task->argument;
    FJ_CHECK_EQ(fj_worker_pool(worker), test->home);
    FJ_CHECK_EQ(fj_worker_pool(fj_current), test->home);
}

static void joins_the_foreign_one(fx_task_t *task, fj_worker_t *worker)
{
    foreign_t *test = task->argument;
    fx_bump(&test->joining);
    FJ_CHECK_EQ(fj_join(worker, &test->awaited.task, FJ_FOREVER), FJ_OK);
}

/* A task of another pool is waited for, with a spare in the joiner's place, and runs in its own. */
FJ_TEST(join, waits_for_a_task_of_another_pool)
{
    fj_pool_t *pool = fx_pool_of(1), *home = fx_pool_of(1);
    foreign_t test = {.home = home};
    fx_task_t holder, joiner, other;
    fx_start(home, &holder, fx_hold, &test.held);
    fx_start(home, &test.awaited, note_that_it_is_home, &test);
    fx_start(pool, &joiner, joins_the_foreign_one, &test);
    FX_AWAIT(&test.joining, 1);
    FX_UNTIL(fj_pool_stats(pool).blocked == 1);
    FJ_CHECK_EQ(fx_read(&test.awaited.runs), 0);
    fx_run(pool, &other, NULL, NULL);
    fx_bump(&test.held);
    fx_finish(&joiner);
    fx_finish(&test.awaited);
    fx_finish(&holder);
    fx_pool_end(pool);
    fx_pool_end(home);
}

static void joins_in_time(fx_task_t *task, fj_worker_t *worker)
{
    fx_task_t *held = task->argument, queued;
    int64_t deadline = fj_os_real_now() + 2 * FX_MS;
    FJ_CHECK_EQ(fj_join(worker, &held->task, deadline), FJ_TIMEOUT);
    FJ_CHECK_GE(fj_os_real_now(), deadline);
    FJ_CHECK_EQ(fj_join(worker, &held->task, 0), FJ_TIMEOUT);
    FJ_CHECK_EQ(fj_load_relaxed(&worker->blocked), 0);
    fx_task_init(&queued, NULL, NULL);
    FJ_CHECK_EQ(fx_fork(&queued), FJ_OK);
    FJ_CHECK_EQ(fj_join(worker, &queued.task, 0), FJ_OK);   /* what it runs itself is in time */
    fx_check_ran(&queued);
    FJ_CHECK_EQ(fj_join(worker, &queued.task, 0), FJ_OK);
    fx_bump(held->argument);
    FJ_CHECK_EQ(fj_join(worker, &held->task, fj_os_real_now() + FX_PATIENCE), FJ_OK);
}

/* A timed join ends at its deadline, in a worker as well as outside, and may be repeated. */
FJ_TEST(join, ends_at_its_deadline)
{
    fj_config_t config = fx_config(2);
    config.max_workers = 2;
    fj_pool_t *pool = fx_pool(&config);
    fj_word_t word = 0;
    fx_task_t held, joiner;
    fx_start(pool, &held, fx_hold, &word);
    FX_AWAIT(&held.runs, 1);
    FJ_CHECK_EQ(fj_join(NULL, &held.task, 0), FJ_TIMEOUT);
    fx_run(pool, &joiner, joins_in_time, &held);
    FJ_CHECK_EQ(fj_join(NULL, &held.task, FJ_FOREVER), FJ_OK);
    fx_finish(&held);
    FJ_CHECK_EQ(fj_pool_stats(pool).blocked, 0);
    fx_pool_end(pool);
}

static _Atomic(fj_worker_t *) to_interrupt;

static fj_os_wait_result_t interrupt_one(fj_word_t *word, uint32_t expected, int64_t deadline)
{
    fj_worker_t *worker = fj_current;
    if (worker != NULL && fj_cas_acquire(&to_interrupt, &worker, NULL)) { /* pairs with its store */
        return FJ_WAIT_INTERRUPTED;
    }
    return fj_os_real_wait(word, expected, deadline);
}

static void joins_and_is_interrupted(fx_task_t *task, fj_worker_t *worker)
{
    fx_task_t *held = task->argument;
    fj_store_release(&to_interrupt, worker);     /* pairs with interrupt_one */
    FJ_CHECK_EQ(fj_join(worker, &held->task, FJ_FOREVER), FJ_INTERRUPTED);
    FJ_CHECK_EQ(fj_load_relaxed(&worker->blocked), 0);
    fx_bump(held->argument);
    FJ_CHECK_EQ(fj_join(worker, &held->task, FJ_FOREVER), FJ_OK);
}

/* A signal ends a join without harm: the worker counts as running again, and may go on waiting. */
FJ_TEST(join, reports_a_signal)
{
    fx_seam_set((fj_os_seam_t){.wait = interrupt_one});
    fj_config_t config = fx_config(2);
    config.max_workers = 2;
    fj_pool_t *pool = fx_pool(&config);
    fj_word_t word = 0;
    fx_task_t held, joiner;
    fx_start(pool, &held, fx_hold, &word);
    FX_AWAIT(&held.runs, 1);
    fx_run(pool, &joiner, joins_and_is_interrupted, &held);
    fx_finish(&held);
    fx_pool_end(pool);
    fx_seam_clear();
}

static void joins_and_is_stopped(fx_task_t *task, fj_worker_t *worker)
{
    fx_task_t *held = task->argument;
    fj_status_t status = fj_join_for(worker, &task->task, &held->task, FJ_FOREVER);
    FJ_CHECK_EQ(status, FJ_STOPPED);
    FJ_CHECK_EQ(fj_block_depth(worker), 0);
    FJ_CHECK_EQ(fj_pool_stats(worker->pool).blocked, 0);
    fx_bump(held->argument);
    FJ_CHECK_EQ(fj_join(worker, &held->task, FJ_FOREVER), FJ_OK);
}

/* A task that joins is asked to stop: its join ends, its worker counts as running again. */
FJ_TEST(join, ends_when_its_own_task_is_asked_to_stop)
{
    fj_pool_t *pool = fx_pool_of(2);
    for (int i = 0; i < FJ_TEST_ROUNDS(300); i++) {
        fj_word_t word = 0;
        fx_task_t held, joiner;
        fx_start(pool, &held, fx_hold, &word);
        FX_AWAIT(&held.runs, 1);
        fx_start(pool, &joiner, joins_and_is_stopped, &held);
        if (i % 2 == 0) {
            FX_UNTIL(fj_pool_stats(pool).blocked == 1);
        }
        fj_task_request_stop(&joiner.task);
        fj_task_poke(&held.task);
        fx_finish(&joiner);
        fx_finish(&held);
    }
    fx_pool_end(pool);
}

typedef struct outsider {
    fj_pool_t *pool;
    fj_word_t joining, done;
    fx_task_t awaited, queued;
} outsider_t;

static void runs_until_its_joiner_sleeps(fx_task_t *task, fj_worker_t *worker)
{
    outsider_t *test = task->argument;
    (void)worker;
    fx_bump(&test->joining);
    FX_UNTIL(fj_pool_stats(test->pool).blocked == 1 || fx_read(&test->done));
}

static void joins_beside_queued_work(fx_task_t *task, fj_worker_t *worker)
{
    outsider_t *test = task->argument;
    FX_AWAIT(&test->joining, 1);
    fx_task_init(&test->queued, NULL, NULL);
    FJ_CHECK_EQ(fx_fork(&test->queued), FJ_OK);
    task->value = fj_join(worker, &test->awaited.task, FJ_FOREVER);
    fx_bump(&test->done);
}

/* A worker that waits for a task which a caller's thread runs is not starved, since that one ends. */
FJ_TEST(join, who_waits_for_a_callers_thread_is_not_starved)
{
    for (int as_guest = 0; as_guest < 2; as_guest++) {
        fj_config_t config = fx_config(1);
        config.max_workers = 1;
        outsider_t test = {.pool = fx_pool(&config)};
        fx_task_t joiner;
        fx_start(test.pool, &joiner, joins_beside_queued_work, &test);
        FX_AWAIT(&joiner.runs, 1);
        fx_start(test.pool, &test.awaited, runs_until_its_joiner_sleeps, &test);
        if (as_guest) {
            fj_worker_t *guest = fj_guest_enter(test.pool);
            FJ_CHECK_EQ(fj_join(guest, &test.awaited.task, FJ_FOREVER), FJ_OK);
            fj_guest_leave(guest);
        } else {
            FJ_CHECK(fj_run_outside(test.pool, &test.awaited.task));
        }
        fx_finish(&joiner);
        FJ_CHECK_EQ(joiner.value, FJ_OK);
        fx_pool_end(test.pool);
        fx_check_ran(&test.awaited);
        fx_check_ran(&test.queued);
    }
}

/* ---- too deep to nest ---- */

static bool never_nest(fj_worker_t *worker)
{
    FJ_CHECK_EQ(fj_current, worker);
    return false;
}

static void joins_too_deep(fx_task_t *task, fj_worker_t *worker)
{
    fj_worker_t *ran_by = NULL;
    fx_task_t child;
    (void)task;
    fx_task_init(&child, note_the_worker, &ran_by);
    FJ_CHECK_EQ(fx_fork(&child), FJ_OK);
    FJ_CHECK_EQ(fj_join(worker, &child.task, FJ_FOREVER), FJ_OK);
    FJ_CHECK(ran_by != NULL && ran_by != worker);
    FX_AWAIT(&child.drops, 1);
}

/* A worker that may not nest one more task hands the awaited one to a spare. */
FJ_TEST(join, hands_over_to_a_spare_when_it_may_not_nest)
{
    fj_config_t config = fx_config(1);
    config.hooks.may_nest = never_nest;
    fj_pool_t *pool = fx_pool(&config);
    fx_task_t task;
    for (int i = 0; i < FJ_TEST_ROUNDS(1000); i++) {
        fx_run(pool, &task, joins_too_deep, NULL);
    }
    FJ_CHECK_LE(fx_read(&fx_watch(pool)->peak), 2);
    fx_pool_end(pool);
}

/* ---- sweeping ---- */

enum { TOMBS = 66 };

static struct {
    fj_word_t hold_other, forked, may_sweep, held;
    fx_task_t tombs[TOMBS], live;
} sweep;

/* The first tombstone dropped by the sweeping owner: meanwhile the other worker goes to sleep. */
static void let_the_other_sleep(fx_task_t *task)
{
    fj_worker_t *worker = task->argument;
    if (fj_current == worker && fj_add_acqrel(&sweep.held, 1) == 0) {
        fx_bump(&sweep.hold_other);
        FX_UNTIL(fj_pool_stats(worker->pool).active == 1);
    }
}

static void joins_from_below_and_then_waits(fx_task_t *task, fj_worker_t *worker)
{
    (void)task;
    for (int i = 0; i < TOMBS; i++) {
        fx_task_init(&sweep.tombs[i], NULL, worker);
        sweep.tombs[i].on_drop = let_the_other_sleep;
        FJ_CHECK_EQ(fx_fork(&sweep.tombs[i]), FJ_OK);
    }
    fx_task_init(&sweep.live, NULL, NULL);
    FJ_CHECK_EQ(fx_fork(&sweep.live), FJ_OK);
    for (int i = 0; i < TOMBS; i++) {
        FJ_CHECK_EQ(fj_join(worker, &sweep.tombs[i].task, FJ_FOREVER), FJ_OK);
    }
    FX_AWAIT(&sweep.live.runs, 1);              /* by the other worker */
}

/* A worker that went to sleep while a sweep had the tasks in hand is woken for them. */
FJ_TEST(join, a_sweep_hides_no_work_from_others)
{
    fj_config_t config = fx_config(2);
    config.max_workers = 2;
    fj_pool_t *pool = fx_pool(&config);
    fx_task_t other, joiner;
    fj_store_relaxed(&sweep.hold_other, 0);
    fj_store_relaxed(&sweep.held, 0);
    fx_start(pool, &other, fx_hold, &sweep.hold_other);
    FX_AWAIT(&other.runs, 1);
    fx_run(pool, &joiner, joins_from_below_and_then_waits, NULL);
    fx_finish(&other);
    fx_pool_end(pool);
    FJ_CHECK_GE(fx_read(&sweep.held), 1);
}

enum { CAPACITY = 256, TRIES = 2000 };

static void leaves_a_tombstone_each_time(fx_task_t *task, fj_worker_t *worker)
{
    static fx_task_t below[TRIES], above[TRIES];
    (void)task;
    for (int i = 0; i < TRIES; i++) {
        fx_task_init(&below[i], NULL, NULL);
        fx_task_init(&above[i], NULL, NULL);
        FJ_CHECK_EQ(fx_fork(&below[i]), FJ_OK);
        FJ_CHECK_EQ(fx_fork(&above[i]), FJ_OK);
        FJ_CHECK_EQ(fj_join(worker, &below[i].task, FJ_FOREVER), FJ_OK);
        FJ_CHECK_EQ(fj_join(worker, &above[i].task, FJ_FOREVER), FJ_OK);
    }
    FJ_CHECK_EQ(fx_read(&below[1].drops), 1);
}

/* The entries that joins leave behind are swept out before they fill the queue. */
FJ_TEST(join, tombstones_do_not_pile_up)
{
    fj_config_t config = fx_config(1);
    config.queue_capacity = CAPACITY;
    fj_pool_t *pool = fx_pool(&config);
    fx_task_t task;
    fx_run(pool, &task, leaves_a_tombstone_each_time, NULL);
    fx_pool_end(pool);
}

/* ---- all of it together ---- */

static int64_t fibonacci(int64_t n)
{
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

static int64_t fork_fibonacci(int64_t n, fj_worker_t *worker);

static void compute(fx_task_t *task, fj_worker_t *worker)
{
    task->value = fork_fibonacci(task->value, worker);
}

/* The forked half lies in this frame, which must be safe to leave once it is joined and dropped. */
static int64_t fork_fibonacci(int64_t n, fj_worker_t *worker)
{
    if (n < 2) {
        return n;
    }
    fx_task_t left;
    fx_task_init(&left, compute, NULL);
    left.value = n - 1;
    FJ_CHECK_EQ(fx_fork(&left), FJ_OK);
    int64_t right = fork_fibonacci(n - 2, worker);
    FJ_CHECK_EQ(fj_join(worker, &left.task, FJ_FOREVER), FJ_OK);
    FX_AWAIT(&left.drops, 1);
    FJ_CHECK_EQ(fx_read(&left.runs), 1);
    return left.value + right;
}

/* Deeply nested fork and join gives the sequential result for any number of workers. */
FJ_TEST(join, nested_joins_give_the_sequential_result)
{
    int64_t n = FJ_TEST_SANITIZED ? 14 : 20;
    for (uint32_t bits = 0; bits < 16; bits++) {
        fj_config_t config = fx_config(1 + bits / 4);
        config.fifo = bits & 1;
        config.max_workers = bits & 2 ? config.parallelism : config.max_workers;
        fj_pool_t *pool = fx_pool(&config);
        fx_task_t task;
        fx_task_init(&task, compute, NULL);
        task.value = n;
        FJ_CHECK_EQ(fx_submit(pool, &task), FJ_OK);
        fx_finish(&task);
        FJ_CHECK_EQ(task.value, fibonacci(n));
        fx_pool_end(pool);
    }
}
