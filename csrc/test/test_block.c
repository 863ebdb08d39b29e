/* test_block.c - workers that block: who stands in for them, how many may, and what is left of it
 * in the counts. The monitor's marks are made by hand here; test_monitor.c lets it make them. */
#include "fixture.h"

#include <sched.h>
#include <string.h>

#include "fj_idle.h"
#include "fj_registry.h"

/* ---- tasks that block until they are told ---- */

/* What the tasks of one test share. */
typedef struct gate {
    fj_word_t go, blocked, open, back, finish;
    fj_word_t refused;                          /* begins that said FJ_AT_LIMIT */
} gate_t;

static void blocks_at_the_gate(fx_task_t *task, fj_worker_t *worker)
{
    gate_t *gate = task->argument;
    fj_status_t status = fj_block_begin(worker);
    FJ_CHECK(status == FJ_OK || status == FJ_AT_LIMIT);
    fx_bump(status == FJ_OK ? &gate->blocked : &gate->refused);
    FX_AWAIT(&gate->open, 1);
    fj_block_end(worker);
    fx_bump(&gate->back);
    FX_AWAIT(&gate->finish, 1);
}

/* Does not block if it is not replaced. */
static void blocks_or_gives_up(fx_task_t *task, fj_worker_t *worker)
{
    gate_t *gate = task->argument;
    if (fj_block_begin(worker) == FJ_OK) {
        fx_bump(&gate->blocked);
        FX_AWAIT(&gate->open, 1);
    } else {
        fx_bump(&gate->refused);
    }
    fj_block_end(worker);
}

static void open_for_good(gate_t *gate)
{
    fx_bump(&gate->open);
    fx_bump(&gate->finish);
}

static uint32_t active(fj_pool_t *pool)
{
    return fj_pool_stats(pool).active;
}

static uint32_t size(fj_pool_t *pool)
{
    return fj_pool_stats(pool).pool_size;
}

/* After all tasks: every count is back where it was before the first. */
static void check_counts_are_zero(fj_pool_t *pool)
{
    fx_pool_await_quiet(pool);
    fj_stats_t stats = fj_pool_stats(pool);
    FJ_CHECK_EQ(stats.active, 0);
    FJ_CHECK_EQ(stats.blocked, 0);
    FJ_CHECK_EQ(stats.unannounced, 0);
    FJ_CHECK_EQ(fj_load_relaxed(&pool->credit), 0);
}

/* ---- begin and end ---- */

static void begins_three_times(fx_task_t *task, fj_worker_t *worker)
{
    (void)task;
    for (uint32_t depth = 0; depth < 3; depth++) {
        FJ_CHECK_EQ(fj_block_depth(worker), depth);
        FJ_CHECK_EQ(fj_block_begin(worker), FJ_OK);
    }
    for (uint32_t depth = 3; depth > 0; depth--) {
        FJ_CHECK_EQ(fj_block_depth(worker), depth);
        fj_block_end(worker);
    }
    FJ_CHECK_EQ(fj_block_depth(worker), 0);
}

/* The depth tells how many begins lack their end; a thread that is no worker has none. */
FJ_TEST(block, the_depth_counts_begins_without_end)
{
    fj_pool_t *pool = fx_pool_of(1);
    fx_task_t task;
    FJ_CHECK_EQ(fj_block_begin(NULL), FJ_OK);
    FJ_CHECK_EQ(fj_block_depth(NULL), 0);
    fj_block_end(NULL);
    fx_run(pool, &task, begins_three_times, NULL);
    check_counts_are_zero(pool);
    FJ_CHECK_EQ(size(pool), 1);
    fx_pool_end(pool);
}

/* A caller's thread that takes part as a guest is counted nowhere, so it is not replaced either. */
FJ_TEST(block, a_guest_is_not_replaced)
{
    fj_pool_t *pool = fx_pool_of(1);
    fj_word_t held = 0;
    fx_task_t holder, queued;
    fx_start(pool, &holder, fx_hold, &held);
    FX_AWAIT(&holder.runs, 1);
    fj_worker_t *guest = fj_guest_enter(pool);
    FJ_CHECK(guest != NULL);
    fx_start(pool, &queued, NULL, NULL);
    FJ_CHECK_EQ(fj_block_begin(guest), FJ_OK);
    FJ_CHECK_EQ(fj_block_depth(guest), 1);
    FJ_CHECK_EQ(fj_pool_stats(pool).blocked, 0);
    FJ_CHECK_EQ(active(pool), 1);
    FJ_CHECK_EQ(size(pool), 1);
    fj_block_end(guest);
    fj_guest_leave(guest);
    FJ_CHECK_EQ(fx_read(&queued.runs), 0);
    fx_bump(&held);
    fx_finish(&queued);
    fx_finish(&holder);
    check_counts_are_zero(pool);
    fx_pool_end(pool);
}

/* ---- who stands in ---- */

/* Leaves the pool, of two, with three workers, all idle. */
static void grow_to_three(fj_pool_t *pool)
{
    gate_t gate = {.finish = 1};
    fj_word_t held = 0;
    fx_task_t blocker, two[2];
    fx_start(pool, &blocker, blocks_at_the_gate, &gate);
    FX_AWAIT(&gate.blocked, 1);
    for (int i = 0; i < 2; i++) {
        fx_start(pool, &two[i], fx_hold, &held);
    }
    for (int i = 0; i < 2; i++) {
        FX_AWAIT(&two[i].runs, 1);
    }
    fx_bump(&held);
    fx_bump(&gate.open);
    for (int i = 0; i < 2; i++) {
        fx_finish(&two[i]);
    }
    fx_finish(&blocker);
    fx_pool_await_quiet(pool);
    FJ_CHECK_EQ(size(pool), 3);
}

/* Who stands in for a blocked worker is one that is idle, as long as there is one. */
FJ_TEST(block, an_idle_worker_stands_in_before_a_new_one)
{
    fj_pool_t *pool = fx_pool_of(2);
    grow_to_three(pool);
    for (int i = 0; i < FJ_TEST_ROUNDS(1000); i++) {
        gate_t gate = {.finish = 1};
        fj_word_t held = 0;
        fx_task_t holder, blocker, queued;
        fx_start(pool, &holder, fx_hold, &held);
        FX_AWAIT(&holder.runs, 1);
        fx_start(pool, &blocker, blocks_at_the_gate, &gate);
        FX_AWAIT(&gate.blocked, 1);
        fx_run(pool, &queued, NULL, NULL);
        fx_bump(&gate.open);
        fx_bump(&held);
        fx_finish(&blocker);
        fx_finish(&holder);
    }
    FJ_CHECK_EQ(fx_read(&fx_watch(pool)->started), 3);
    check_counts_are_zero(pool);
    fx_pool_end(pool);
}

enum { FOUR = 4, MANY = 12 };

static void blocks_when_told(fx_task_t *task, fj_worker_t *worker)
{
    gate_t *gate = task->argument;
    FX_AWAIT(&gate->go, 1);
    blocks_at_the_gate(task, worker);
}

/* Four block one after the other, beside queued work. As long as min_runnable others run nobody is
 * replaced (Java's rule, for which it is 1); then one new thread comes for each. */
static void four_block_beside_queued_work(uint32_t min_runnable)
{
    fj_config_t config = fx_config(FOUR);
    config.min_runnable = min_runnable;
    fj_pool_t *pool = fx_pool(&config);
    uint32_t least = min_runnable < FOUR ? min_runnable : FOUR;
    gate_t gates[FOUR];
    fj_word_t held = 0;
    fx_task_t blockers[FOUR], holders[MANY];
    memset(gates, 0, sizeof gates);
    for (int i = 0; i < FOUR; i++) {
        fx_start(pool, &blockers[i], blocks_when_told, &gates[i]);
        FX_AWAIT(&blockers[i].runs, 1);
    }
    for (int i = 0; i < MANY; i++) {
        fx_start(pool, &holders[i], fx_hold, &held);
    }
    for (uint32_t blocked = 1; blocked <= FOUR; blocked++) {
        uint32_t others = FOUR - blocked, running = others > least ? others : least;
        fx_bump(&gates[blocked - 1].go);
        FX_AWAIT(&gates[blocked - 1].blocked, 1);
        FX_UNTIL(active(pool) == running && size(pool) == blocked + running);
        FJ_CHECK_EQ(fj_pool_stats(pool).blocked, blocked);
    }
    for (int i = 0; i < FOUR; i++) {
        open_for_good(&gates[i]);
    }
    fx_bump(&held);
    for (int i = 0; i < MANY; i++) {
        fx_finish(&holders[i]);
    }
    for (int i = 0; i < FOUR; i++) {
        fx_finish(&blockers[i]);
    }
    FJ_CHECK_EQ(size(pool), FOUR + least);
    FJ_CHECK_EQ(fj_pool_stats(pool).at_limit, 0);
    check_counts_are_zero(pool);
    fx_pool_end(pool);
}

FJ_TEST(block, min_runnable_workers_keep_running)
{
    for (uint32_t min_runnable = 0; min_runnable <= FOUR + 1; min_runnable++) {
        four_block_beside_queued_work(min_runnable);
    }
}

/* After 40 waits that end together, no more than parallelism workers take another task. */
enum { WAITS = 40, WORK = 200 };

static struct {
    fj_word_t taking;                           /* the waits are over: from now on it counts */
    _Atomic(int32_t) inside, most;
} after;

static void counts_who_works(fx_task_t *task, fj_worker_t *worker)
{
    (void)task;
    (void)worker;
    int32_t now = fj_add_acqrel(&after.inside, 1) + 1, most = fj_load_relaxed(&after.most);
    while (now > most && !fj_cas_weak_acqrel(&after.most, &most, now)) {
    }
    fx_nap();
    (void)fj_sub_acqrel(&after.inside, 1);
}

FJ_TEST(block, waits_that_end_together_leave_no_crowd_at_work)
{
    fj_pool_t *pool = fx_pool_of(2);
    gate_t gate = {.finish = 1};
    static fx_task_t waits[WAITS], work[WORK];
    after.inside = after.most = 0;
    for (int i = 0; i < WAITS; i++) {
        fx_start(pool, &waits[i], blocks_at_the_gate, &gate);
    }
    FX_AWAIT(&gate.blocked, WAITS);
    fj_word_t held = 0;
    fx_task_t two[2];
    for (int i = 0; i < 2; i++) {
        fx_start(pool, &two[i], fx_hold, &held);
        FX_AWAIT(&two[i].runs, 1);
    }
    for (int i = 0; i < WORK; i++) {
        fx_start(pool, &work[i], counts_who_works, NULL);
    }
    fx_bump(&gate.open);
    for (int i = 0; i < WAITS; i++) {
        fx_finish(&waits[i]);
    }
    fx_bump(&held);
    for (int i = 0; i < WORK; i++) {
        fx_finish(&work[i]);
    }
    for (int i = 0; i < 2; i++) {
        fx_finish(&two[i]);
    }
    FJ_CHECK_LE(fj_load_relaxed(&after.most), 2);
    FJ_CHECK_EQ(size(pool), WAITS + 2);
    check_counts_are_zero(pool);
    fx_pool_end(pool);
}

/* ---- Java's rule: a spare at every block ---- */

static void blocks_and_looks_for_its_spare(fx_task_t *task, fj_worker_t *worker)
{
    gate_t *gate = task->argument;
    uint32_t before = size(worker->pool);
    FJ_CHECK_EQ(fj_block_begin(worker), FJ_OK);
    FJ_CHECK_LE(size(worker->pool), before + 1);
    FJ_CHECK_LE(active(worker->pool), 1);        /* the spare; 0 if it is idle already */
    fx_bump(&gate->blocked);
    FX_AWAIT(&gate->open, 1);
    fj_block_end(worker);
}

/* With eager a worker that blocks is replaced whether or not anything is queued, by an idle worker
 * if there is one. */
FJ_TEST(block, eager_replaces_although_nothing_is_queued)
{
    fj_config_t config = fx_config(1);
    config.eager = true;
    fj_pool_t *pool = fx_pool(&config);
    for (int i = 0; i < FJ_TEST_ROUNDS(500); i++) {
        gate_t gate = {.blocked = 0};
        fx_task_t task;
        fx_start(pool, &task, blocks_and_looks_for_its_spare, &gate);
        FX_AWAIT(&gate.blocked, 1);
        FJ_CHECK_EQ(size(pool), 2);
        fx_bump(&gate.open);
        fx_finish(&task);
        fx_pool_await_quiet(pool);
    }
    FJ_CHECK_EQ(fx_read(&fx_watch(pool)->started), 2);
    fx_pool_end(pool);
}

enum { JAVA_LIMIT = FOUR + 20, JAVA_TASKS = 40 };

/* How many of forty tasks block before the limit of 24 threads refuses. */
static uint32_t blocked_of_forty(bool eager, uint32_t min_runnable)
{
    fj_config_t config = fx_config(FOUR);
    config.eager = eager;
    config.min_runnable = min_runnable;
    config.max_workers = JAVA_LIMIT;
    fj_pool_t *pool = fx_pool(&config);
    gate_t gate = {.blocked = 0};
    fx_task_t tasks[JAVA_TASKS];
    for (int i = 0; i < JAVA_TASKS; i++) {
        fx_start(pool, &tasks[i], blocks_or_gives_up, &gate);
    }
    FX_UNTIL(fx_read(&gate.blocked) + fx_read(&gate.refused) == JAVA_TASKS);
    uint32_t blocked = fx_read(&gate.blocked);
    FJ_CHECK_EQ(fj_pool_stats(pool).at_limit, JAVA_TASKS - blocked);
    FJ_CHECK_EQ(size(pool), JAVA_LIMIT);
    fx_bump(&gate.open);
    for (int i = 0; i < JAVA_TASKS; i++) {
        fx_finish(&tasks[i]);
    }
    FJ_CHECK_EQ(fx_read(&fx_watch(pool)->peak), JAVA_LIMIT);
    check_counts_are_zero(pool);
    fx_pool_end(pool);
    return blocked;
}

/* Under Java's rules all but one of the threads may block, and every further block is refused; on
 * demand, with parallelism workers to be kept running, somewhat fewer or one more. */
FJ_TEST(block, the_limit_refuses_as_java_does)
{
    for (int i = 0; i < FJ_TEST_ROUNDS(30); i++) {
        FJ_CHECK_EQ(blocked_of_forty(true, 1), JAVA_LIMIT - 1);
        uint32_t blocked = blocked_of_forty(false, FOUR);
        FJ_CHECK_GE(blocked, JAVA_LIMIT - FOUR);
        FJ_CHECK_LE(blocked, JAVA_LIMIT);
    }
}

/* ---- the limit ---- */

static void blocks_alone_and_then_beside_work(fx_task_t *task, fj_worker_t *worker)
{
    fx_task_t *queued = task->argument;
    FJ_CHECK_EQ(fj_block_begin(worker), FJ_OK); /* nothing is queued: nobody is missed */
    fj_block_end(worker);
    fx_task_init(queued, NULL, NULL);
    FJ_CHECK_EQ(fx_fork(queued), FJ_OK);
    for (uint32_t i = 1; i <= 3; i++) {
        FJ_CHECK_EQ(fj_block_begin(worker), FJ_AT_LIMIT);
        FJ_CHECK_EQ(fj_pool_stats(worker->pool).at_limit, i);
        FJ_CHECK_EQ(fj_block_begin(worker), FJ_OK); /* nested: this worker is out already */
        FJ_CHECK_EQ(active(worker->pool), 0);
        fj_block_end(worker);
        fj_block_end(worker);
        FJ_CHECK_EQ(active(worker->pool), 1);
    }
    FJ_CHECK_EQ(fx_read(&queued->runs), 0);
}

/* A block that nobody replaces is reported each time if something is queued, and only then; the
 * block holds all the same until its end. */
FJ_TEST(block, the_limit_is_reported_only_for_queued_work)
{
    fj_config_t config = fx_config(1);
    config.max_workers = 1;
    fj_pool_t *pool = fx_pool(&config);
    fx_task_t task, queued;
    fx_run(pool, &task, blocks_alone_and_then_beside_work, &queued);
    FX_AWAIT(&queued.drops, 1);
    FJ_CHECK_EQ(fj_pool_stats(pool).at_limit, 3);
    check_counts_are_zero(pool);
    FJ_CHECK_EQ(fx_read(&fx_watch(pool)->started), 1);
    fx_pool_end(pool);
}

/* A thread that the system refuses is no error: the block goes on, its counts are right, and the
 * next submission asks again. */
FJ_TEST(block, a_refused_thread_leaves_the_counts_right)
{
    fx_seam_set((fj_os_seam_t){.thread_start = fx_thread_start});
    fj_pool_t *pool = fx_pool_of(1);
    for (int i = 0; i < FJ_TEST_ROUNDS(200); i++) {
        gate_t gate = {.finish = 1};
        fx_task_t blocker, queued, next;
        uint32_t before = fj_pool_stats(pool).refused;
        fx_start(pool, &blocker, blocks_when_told, &gate);
        FX_AWAIT(&blocker.runs, 1);
        fx_start(pool, &queued, NULL, NULL);
        fx_refuse_all = true;
        fx_bump(&gate.go);
        FX_AWAIT(&gate.blocked, 1);
        fj_stats_t stats = fj_pool_stats(pool);
        FJ_CHECK_EQ(stats.active, 0);
        FJ_CHECK_EQ(stats.blocked, 1);
        FJ_CHECK_EQ(stats.pool_size, 1);
        FJ_CHECK_EQ(stats.refused, before + 1);
        FJ_CHECK_EQ(fx_read(&queued.runs), 0);
        fx_refuse_all = false;
        fx_run(pool, &next, NULL, NULL);        /* a thread comes for both */
        fx_finish(&queued);
        fx_bump(&gate.open);
        fx_finish(&blocker);
        fx_pool_end(pool);
        pool = fx_pool_of(1);
    }
    fx_pool_end(pool);
    fx_seam_clear();
}

/* ---- joins at the limit ---- */

static struct {
    _Atomic(bool) carry_on;
    fj_word_t asked;
} policy;

static bool ask_the_policy(fj_worker_t *worker)
{
    FJ_CHECK_EQ(fj_current, worker);
    FJ_CHECK_EQ(fj_block_depth(worker), 1);
    bool carry_on = fj_load_relaxed(&policy.carry_on);
    fx_bump(&policy.asked);
    return carry_on;
}

/* `runners` workers, all there may be. */
static fj_pool_t *pool_at_its_limit(uint32_t runners, bool carry_on)
{
    fj_config_t config = fx_config(runners);
    config.max_workers = runners;
    config.hooks.saturate = ask_the_policy;
    policy.carry_on = carry_on;
    fj_store_relaxed(&policy.asked, 0);
    return fx_pool(&config);
}

typedef struct joiner {
    fj_task_t *awaited;
    fj_status_t (*join)(fj_worker_t *worker, fj_task_t *task);
    fj_word_t go;
    fj_status_t status;
} joiner_t;

static fj_status_t join_for_ever(fj_worker_t *worker, fj_task_t *task)
{
    return fj_join(worker, task, FJ_FOREVER);
}

static fj_status_t join_for_a_moment(fj_worker_t *worker, fj_task_t *task)
{
    return fj_join(worker, task, fj_os_real_now() + 5 * FX_MS);
}

static void joins_when_told(fx_task_t *task, fj_worker_t *worker)
{
    joiner_t *test = task->argument;
    FX_AWAIT(&test->go, 1);
    test->status = test->join(worker, test->awaited);
    FJ_CHECK_EQ(fj_block_depth(worker), 0);
    FJ_CHECK_EQ(fj_load_relaxed(&worker->joining), false);
}

/* Joins, in a pool of two threads, a task that runs there and is held, while another one is
 * queued. Returns what the join said; *asked is how often the policy was asked. */
static fj_status_t join_beside_queued_work(bool carry_on,
                                           fj_status_t (*join)(fj_worker_t *, fj_task_t *))
{
    fj_pool_t *pool = pool_at_its_limit(2, carry_on);
    fj_word_t held = 0;
    fx_task_t holder, task, queued;
    joiner_t test = {.awaited = &holder.task, .join = join};
    fx_start(pool, &holder, fx_hold, &held);
    FX_AWAIT(&holder.runs, 1);
    fx_start(pool, &task, joins_when_told, &test);
    FX_AWAIT(&task.runs, 1);
    fx_start(pool, &queued, NULL, NULL);
    fx_bump(&test.go);
    if (join == join_for_ever && !carry_on) {
        fx_finish(&task);                       /* it does not wait */
    } else {
        FX_UNTIL(fj_pool_stats(pool).at_limit == 1);
    }
    fx_bump(&held);
    fx_finish(&task);
    fx_finish(&holder);
    fx_finish(&queued);
    FJ_CHECK_EQ(fj_pool_stats(pool).at_limit, 1);
    check_counts_are_zero(pool);
    fx_pool_end(pool);
    return test.status;
}

/* A join that would sleep beside queued work, with no thread to spare, asks the policy. */
FJ_TEST(block, a_join_at_the_limit_asks_the_policy)
{
    FJ_CHECK_EQ(join_beside_queued_work(true, join_for_ever), FJ_OK);
    FJ_CHECK_EQ(fx_read(&policy.asked), 1);
    FJ_CHECK_EQ(join_beside_queued_work(false, join_for_ever), FJ_AT_LIMIT);
    FJ_CHECK_EQ(fx_read(&policy.asked), 1);
}

/* A frame that cannot give up joins firmly: it waits, and nobody is asked. */
FJ_TEST(block, a_firm_join_waits_all_the_same)
{
    FJ_CHECK_EQ(join_beside_queued_work(false, fj_join_firmly), FJ_OK);
    FJ_CHECK_EQ(fx_read(&policy.asked), 0);
}

static bool never_nest(fj_worker_t *worker)
{
    (void)worker;
    return false;
}

static void forks_and_joins_too_deep(fx_task_t *task, fj_worker_t *worker)
{
    fx_task_t *child = task->argument;
    fx_task_init(child, NULL, NULL);
    FJ_CHECK_EQ(fx_fork(child), FJ_OK);
    for (int i = 0; i < 3; i++) {
        FJ_CHECK_EQ(fj_join(worker, &child->task, FJ_FOREVER), FJ_STARVED);
        FJ_CHECK_EQ(join_for_a_moment(worker, &child->task), FJ_TIMEOUT);
    }
}

/* The only thread there may be waits for what is queued and may not run it inside: nothing could
 * ever run again, so the join fails whatever the policy says. A timed one ends by itself. */
FJ_TEST(block, a_join_that_could_never_end_is_starved)
{
    fj_config_t config = fx_config(1);
    config.max_workers = 1;
    config.hooks.may_nest = never_nest;
    fj_pool_t *pool = fx_pool(&config);
    fx_task_t task, child;
    fx_run(pool, &task, forks_and_joins_too_deep, &child);
    FX_AWAIT(&child.drops, 1);
    fx_check_ran(&child);
    check_counts_are_zero(pool);
    fx_pool_end(pool);
}

/* Three tasks, in a pool of three threads, that wait for each other in a circle, beside queued
 * work: the last to come is told, and that frees the others. */
FJ_TEST(block, of_a_circle_of_joins_the_last_is_starved)
{
    enum { CIRCLE = 3 };
    for (int i = 0; i < FJ_TEST_ROUNDS(300); i++) {
        fj_pool_t *pool = pool_at_its_limit(CIRCLE, true);
        fx_task_t tasks[CIRCLE], queued;
        joiner_t tests[CIRCLE];
        memset(tests, 0, sizeof tests);
        for (int k = 0; k < CIRCLE; k++) {
            tests[k].awaited = &tasks[(k + 1) % CIRCLE].task;
            tests[k].join = join_for_ever;
            fx_start(pool, &tasks[k], joins_when_told, &tests[k]);
        }
        for (int k = 0; k < CIRCLE; k++) {
            FX_AWAIT(&tasks[k].runs, 1);
        }
        fx_start(pool, &queued, NULL, NULL);
        for (int k = 0; k < CIRCLE; k++) {
            fx_bump(&tests[k].go);
        }
        int starved = 0;
        for (int k = 0; k < CIRCLE; k++) {
            fx_finish(&tasks[k]);
            starved += tests[k].status == FJ_STARVED;
            FJ_CHECK(tests[k].status == FJ_OK || tests[k].status == FJ_STARVED);
        }
        fx_finish(&queued);
        FJ_CHECK_EQ(starved, 1);
        check_counts_are_zero(pool);
        fx_pool_end(pool);
    }
}

typedef struct outside {
    joiner_t *other;
    fx_task_t *task;                            /* the other joiner's */
} outside_t;

static void runs_while_another_joins(fx_task_t *task, fj_worker_t *worker)
{
    outside_t *outside = task->argument;
    FJ_CHECK(worker == NULL);
    fx_bump(&outside->other->go);
    FX_UNTIL(fx_read(&policy.asked) == 2 || fj_task_is_done(&outside->task->task));
}

/* A task was queued when a worker began to wait for it; now a thread outside runs it, so that
 * worker will go on, and the next one to join is not starved. */
FJ_TEST(block, a_join_beside_a_task_run_outside_is_not_starved)
{
    fj_config_t config = fx_config(2);
    config.max_workers = 2;
    config.hooks.saturate = ask_the_policy;
    config.hooks.may_nest = never_nest;
    policy.carry_on = true;
    fj_store_relaxed(&policy.asked, 0);
    fj_pool_t *pool = fx_pool(&config);
    fx_task_t tasks[2], awaited[2];
    joiner_t tests[2];
    memset(tests, 0, sizeof tests);
    for (int k = 0; k < 2; k++) {
        tests[k].awaited = &awaited[k].task;
        tests[k].join = join_for_ever;
        fx_start(pool, &tasks[k], joins_when_told, &tests[k]);
        FX_AWAIT(&tasks[k].runs, 1);
    }
    outside_t outside = {&tests[1], &tasks[1]};
    fx_start(pool, &awaited[0], runs_while_another_joins, &outside);
    fx_start(pool, &awaited[1], NULL, NULL);
    fx_bump(&tests[0].go);
    FX_UNTIL(fx_read(&policy.asked) == 1);
    FJ_CHECK(fj_run_outside(pool, &awaited[0].task));
    for (int k = 0; k < 2; k++) {
        fx_finish(&tasks[k]);
        fx_finish(&awaited[k]);
        FJ_CHECK_EQ(tests[k].status, FJ_OK);
    }
    check_counts_are_zero(pool);
    fx_pool_end(pool);
}

/* One thread joins, another blocks in some other way: that one may come back, so it is no
 * starvation. The same if the awaited task is another pool's. */
FJ_TEST(block, a_join_beside_another_block_is_not_starved)
{
    fj_pool_t *pool = pool_at_its_limit(2, true), *home = fx_pool_of(1);
    gate_t gate = {.finish = 1};
    fj_word_t held = 0;
    fx_task_t blocker, task, queued, foreign;
    fx_start(home, &foreign, fx_hold, &held);
    FX_AWAIT(&foreign.runs, 1);
    for (int i = 0; i < 2; i++) {
        joiner_t test = {.awaited = i == 0 ? &blocker.task : &foreign.task, .join = join_for_ever};
        gate = (gate_t){.finish = 1};
        fx_start(pool, &blocker, blocks_at_the_gate, &gate);
        FX_AWAIT(&gate.blocked, 1);
        fx_start(pool, &task, joins_when_told, &test);
        FX_AWAIT(&task.runs, 1);
        fx_start(pool, &queued, NULL, NULL);
        fx_bump(&test.go);
        FX_UNTIL(fx_read(&policy.asked) == (uint32_t)i + 1);
        fx_bump(&gate.open);
        fx_finish(&blocker);
        if (i == 1) {
            fx_bump(&held);
        }
        fx_finish(&task);
        FJ_CHECK_EQ(test.status, FJ_OK);
        fx_finish(&queued);
    }
    fx_finish(&foreign);
    check_counts_are_zero(pool);
    fx_pool_end(pool);
    fx_pool_end(home);
}

/* ---- marks: what the monitor does, by hand ---- */

static fj_worker_t *only_worker(fj_pool_t *pool)
{
    FJ_CHECK_EQ(fj_registry_high(pool), 1);
    return fj_registry_worker(pool, 0);
}

static uint64_t activity_of(fj_worker_t *worker)
{
    return fj_load_acquire(&worker->activity);  /* pairs with its changes */
}

static void check_marks(fj_pool_t *pool, uint32_t marked, uint32_t is_active)
{
    fj_stats_t stats = fj_pool_stats(pool);
    FJ_CHECK_EQ(stats.unannounced, marked);
    FJ_CHECK_EQ(stats.active, is_active);
}

/* A marked worker is out of the count of those that run, so that another runs what is queued; it
 * is back in when the mark is taken off. Marks for a state that is over fail. */
FJ_TEST(block, a_marked_worker_is_replaced_until_it_is_unmarked)
{
    fj_pool_t *pool = fx_pool_of(1);
    fj_word_t held = 0;
    fx_task_t holder, queued;
    fx_start(pool, &holder, fx_hold, &held);
    FX_AWAIT(&holder.runs, 1);
    fj_worker_t *worker = only_worker(pool);
    uint64_t before = activity_of(worker);
    FJ_CHECK(before & FJ_ACTIVITY_INSIDE);
    FJ_CHECK(!fj_idle_unmark(worker, before | FJ_ACTIVITY_MARKED));
    FJ_CHECK(!fj_idle_mark(worker, before + FJ_ACTIVITY_STEP));
    check_marks(pool, 0, 1);
    fx_start(pool, &queued, NULL, NULL);
    FJ_CHECK_EQ(fx_read(&queued.runs), 0);
    FJ_CHECK(fj_idle_mark(worker, before));
    fx_finish(&queued);
    FX_UNTIL(active(pool) == 0);
    check_marks(pool, 1, 0);
    FJ_CHECK_EQ(fj_pool_stats(pool).blocked, 1);
    FJ_CHECK_EQ(fj_pool_stats(pool).detections, 1);
    FJ_CHECK_EQ(size(pool), 2);
    FJ_CHECK(!fj_pool_is_quiescent(pool));
    FJ_CHECK(!fj_idle_mark(worker, before));    /* it is already */
    FJ_CHECK(fj_idle_unmark(worker, activity_of(worker)));
    check_marks(pool, 0, 1);
    FJ_CHECK_EQ(fj_pool_stats(pool).blocked, 0);
    fx_bump(&held);
    fx_finish(&holder);
    check_counts_are_zero(pool);
    fx_pool_end(pool);
}

/* A marked worker that comes back takes its own mark off: at its task's end, or when it begins to
 * block and says so. */
FJ_TEST(block, a_marked_worker_that_moves_on_is_unmarked)
{
    fj_pool_t *pool = fx_pool_of(1);
    gate_t gate = {.blocked = 0};
    fx_task_t task;
    fx_start(pool, &task, blocks_when_told, &gate);
    FX_AWAIT(&task.runs, 1);
    fj_worker_t *worker = only_worker(pool);
    uint64_t before = activity_of(worker);
    FJ_CHECK(fj_idle_mark(worker, before));
    check_marks(pool, 1, 0);
    fx_bump(&gate.go);
    FX_AWAIT(&gate.blocked, 1);
    check_marks(pool, 0, 0);
    FJ_CHECK_EQ(fj_pool_stats(pool).blocked, 1);
    FJ_CHECK(!(activity_of(worker) & FJ_ACTIVITY_INSIDE)); /* so nobody marks it now */
    FJ_CHECK(!fj_idle_unmark(worker, before | FJ_ACTIVITY_MARKED));
    fx_bump(&gate.open);
    FX_AWAIT(&gate.back, 1);
    check_marks(pool, 0, 1);
    FJ_CHECK(fj_idle_mark(worker, activity_of(worker)));
    check_marks(pool, 1, 0);
    fx_bump(&gate.finish);
    fx_finish(&task);
    check_counts_are_zero(pool);
    FJ_CHECK_EQ(fj_pool_stats(pool).detections, 2);
    fx_pool_end(pool);
}

/* Marks workers inside tasks and takes the marks off again, as fast as it can, until told. */
typedef struct marker {
    fj_pool_t *pool;
    fj_word_t stop;
    pthread_t thread;
    bool only_marks;                            /* leaves the rest to the workers */
} marker_t;

/* What fj_monitor.c does with a worker that it has judged, but without looking. */
static void mark_or_unmark(marker_t *marker, fj_worker_t *worker)
{
    uint64_t activity = activity_of(worker);
    if (activity & FJ_ACTIVITY_MARKED) {
        if (!marker->only_marks) {
            (void)fj_idle_unmark(worker, activity);
        }
    } else if (activity & FJ_ACTIVITY_INSIDE) {
        (void)fj_idle_mark(worker, activity);
    }
}

static void *mark_everybody(void *argument)
{
    marker_t *marker = argument;
    while (fx_read(&marker->stop) == 0) {
        for (uint32_t i = 0; i < fj_registry_high(marker->pool); i++) {
            mark_or_unmark(marker, fj_registry_worker(marker->pool, i));
        }
    }
    return NULL;
}

static void marker_start(marker_t *marker, fj_pool_t *pool, bool only_marks)
{
    *marker = (marker_t){.pool = pool, .only_marks = only_marks};
    FJ_CHECK_EQ(pthread_create(&marker->thread, NULL, mark_everybody, marker), 0);
}

static void marker_end(marker_t *marker)
{
    fx_bump(&marker->stop);
    FJ_CHECK_EQ(pthread_join(marker->thread, NULL), 0);
}

static void run_many_and_wait(unsigned index, void *pool)
{
    (void)index;
    for (int i = 0; i < FJ_TEST_ROUNDS(1500); i++) {
        fx_task_t task;
        fx_run(pool, &task, NULL, NULL);
    }
}

static void marks_race(uint32_t parallelism, bool only_marks)
{
    fj_pool_t *pool = fx_pool_of(parallelism);
    marker_t marker;
    marker_start(&marker, pool, only_marks);
    /* On a busy machine the marker may not get to run at all for a while. */
    for (int i = 0; i < 5 || (i < 1000 && fj_pool_stats(pool).detections == 0); i++) {
        fj_test_together(2, run_many_and_wait, pool);
        fx_pool_await_quiet(pool);
    }
    marker_end(&marker);
    check_counts_are_zero(pool);
    FJ_CHECK_GE(fj_pool_stats(pool).detections, 1);
    fx_pool_end(pool);
}

/* A mark that coincides with the end of the task leaves every count right and nobody asleep: not a
 * worker that has work, nor whoever waits for quiescence. */
FJ_TEST(block, marks_race_with_the_ends_of_tasks)
{
    marks_race(1, true);
    marks_race(2, true);
}

/* The same for a mark that is taken off just then. */
FJ_TEST(block, unmarks_race_with_the_ends_of_tasks)
{
    marks_race(1, false);
    marks_race(2, false);
}

/* Looks at the counts all the time. */
static void *watch_the_counts(void *argument)
{
    marker_t *watcher = argument;
    uint32_t limit = watcher->pool->config.max_workers;
    while (fx_read(&watcher->stop) == 0) {
        fj_ctl_t c = fj_load_relaxed(&watcher->pool->ctl);
        uint32_t blocked = fj_load_relaxed(&watcher->pool->blocked);
        FJ_CHECK_LE(fj_ctl_active(c), fj_ctl_total(c) + 1); /* a mark that its owner overtook */
        FJ_CHECK_LE(fj_ctl_total(c), limit);
        FJ_CHECK_LE(blocked, limit);
    }
    return NULL;
}

/* While marks come and go no count leaves its bounds, not even for a moment. */
FJ_TEST(block, counts_stay_bounded_while_marks_race)
{
    fj_pool_t *pool = fx_pool_of(2);
    marker_t marker, watcher = {.pool = pool};
    marker_start(&marker, pool, false);
    FJ_CHECK_EQ(pthread_create(&watcher.thread, NULL, watch_the_counts, &watcher), 0);
    for (int i = 0; i < 5; i++) {
        fj_test_together(2, run_many_and_wait, pool);
    }
    marker_end(&watcher);
    marker_end(&marker);
    check_counts_are_zero(pool);
    fx_pool_end(pool);
}

/* ---- everything at once ---- */

enum { ROOTS = 4, DEPTH = 3 };

/* What a task of the stress does is decided by its number, handed down from its root's. */
typedef struct node {
    fx_task_t task;
    uint64_t random;
    int depth;
} node_t;

static struct {
    fj_word_t blocks, refused, joins;
} did;

static void wanders(fx_task_t *task, fj_worker_t *worker);

static void rest(uint64_t random)
{
    switch (random % 4) {
    case 0:
        fx_nap();
        break;
    case 1:
        (void)sched_yield();
        break;
    default:
        break;
    }
}

static void block_for_a_while(node_t *node, fj_worker_t *worker)
{
    uint64_t random = fj_test_random(&node->random);
    uint32_t depth = 1 + random % 2;
    for (uint32_t i = 0; i < depth; i++) {
        fj_status_t status = fj_block_begin(worker);
        FJ_CHECK(status == FJ_OK || status == FJ_AT_LIMIT);
        fx_bump(status == FJ_OK ? &did.blocks : &did.refused);
    }
    rest(random >> 8);
    for (uint32_t i = 0; i < depth; i++) {
        fj_block_end(worker);
    }
}

static void join_a_child(node_t *node, fj_worker_t *worker)
{
    uint64_t random = fj_test_random(&node->random);
    node_t child = {.random = random, .depth = node->depth - 1};
    fx_task_init(&child.task, wanders, &child);
    bool submitted = random % 2 == 0;
    fj_status_t status = submitted ? fx_submit(worker->pool, &child.task) : fx_fork(&child.task);
    FJ_CHECK_EQ(status, FJ_OK);
    rest(random >> 8);                           /* the child's own changes as it runs */
    status = fj_join(worker, &child.task.task, FJ_FOREVER);
    while (status != FJ_OK) {                    /* at the limit: firmly, then */
        FJ_CHECK(status == FJ_AT_LIMIT || status == FJ_STARVED || status == FJ_INTERRUPTED);
        status = fj_join_firmly(worker, &child.task.task);
    }
    FX_AWAIT(&child.task.drops, 1);
    FJ_CHECK_EQ(fx_read(&child.task.runs), 1);
    fx_bump(&did.joins);
}

static void wanders(fx_task_t *task, fj_worker_t *worker)
{
    node_t *node = task->argument;
    for (uint64_t i = fj_test_random(&node->random) % 4; i > 0; i--) {
        if (node->depth > 0 && fj_test_random(&node->random) % 2 == 0) {
            join_a_child(node, worker);
        } else {
            block_for_a_while(node, worker);
        }
    }
    FJ_CHECK_EQ(fj_block_depth(worker), 0);
}

static void hand_in_roots(unsigned index, void *pool)
{
    uint64_t random = fj_test_seed() + index;
    node_t nodes[ROOTS];
    for (int i = 0; i < FJ_TEST_ROUNDS(25); i++) {
        for (int k = 0; k < ROOTS; k++) {
            nodes[k].random = fj_test_random(&random);
            nodes[k].depth = DEPTH;
            fx_task_init(&nodes[k].task, wanders, &nodes[k]);
            while (fx_submit(pool, &nodes[k].task) != FJ_OK) { /* no thread at all just now */
                FJ_CHECK(fj_task_try_unqueue(&nodes[k].task.task));
                fx_nap();
            }
        }
        for (int k = 0; k < ROOTS; k++) {
            fx_finish(&nodes[k].task);
        }
    }
}

/* One kind of pool, with each `every`-th thread refused (0: none). */
static void wander(uint32_t kind, uint32_t every)
{
    fx_seam_set((fj_os_seam_t){.thread_start = fx_thread_start});
    fx_refuse_every = every;
    fj_config_t config = fx_config(1 + kind % 3);
    config.max_workers = config.parallelism + (kind % 2 ? 3 : 30);
    config.min_runnable = kind % 5 == 0 ? 1 : config.parallelism;
    config.eager = kind % 5 == 0;
    config.keep_alive = kind % 4 == 0 ? FJ_FOREVER : FX_MS;
    fj_pool_t *pool = fx_pool(&config);
    marker_t marker;
    marker_start(&marker, pool, kind % 2 == 0);
    fj_test_together(3, hand_in_roots, pool);
    marker_end(&marker);
    fx_refuse_every = 0;
    check_counts_are_zero(pool);
    FJ_CHECK_EQ(fj_pool_stats(pool).queued_tasks + fj_pool_stats(pool).queued_submissions, 0);
    FJ_CHECK_LE(fx_read(&fx_watch(pool)->peak), config.max_workers);
    fx_pool_end(pool);
    fx_seam_clear();
}

/* Workers block, join and come back at random while they are marked and unmarked at random: every
 * task runs once, and each count is exact in the end. */
FJ_TEST(block, workers_that_come_and_go_leave_the_counts_exact)
{
    for (uint32_t kind = 0; kind < 12; kind++) {
        wander(kind, 0);
    }
    FJ_CHECK_GT(fx_read(&did.blocks), 0);
    FJ_CHECK_GT(fx_read(&did.joins), 0);
}

/* The same while every thread, every second, third... is refused. */
FJ_TEST(block, refused_threads_leave_the_counts_exact)
{
    for (uint32_t every = 2; every <= 7; every++) {
        wander(every, every);
    }
}
