/* idle.c - no wake-up is lost: publishers (thread A) and workers that go to sleep (B, C).
 *
 * fj_idle.c and fj_registry.c on a pool of as many threads as there are; none can be
 * started. B and C do what the run loop does: they take, search, announce, and sleep
 * on the futex. A is busy with something else and never takes anything back, so a
 * worker that sleeps through what it could have taken sleeps for ever.
 */
#include "fj_deque.h"
#include "fj_idle.h"
#include "fj_lane.h"
#include "fj_registry.h"
#include "fj_spawn.h"
#include "fj_task.h"

enum { TASKS = 4 };

static const fj_task_ops_t ops = {NULL, NULL, NULL, false};

static struct scene {
    fj_pool_t pool;
    fj_task_t tasks[TASKS];
    uint8_t wanted, taken;               /* tasks or frames that workers must take in all */
    bool keeps;                          /* a worker that took one is busy until all are taken */
    fj_worker_t *workers[XP_THREADS];
} *s;

static void nothing(fj_pool_t *pool)
{
    (void)pool;
}

static void setup_of(uint32_t workers, int wanted)
{
    s = xp_alloc(sizeof *s);
    fj_pool_t *pool = &s->pool;
    pool->config = (fj_config_t){.parallelism = workers, .min_runnable = workers,
                                 .max_workers = workers, .keep_alive = FJ_FOREVER,
                                 .queue_capacity = 8, .initial_capacity = 4};
    pool->parallelism = workers;
    pool->check = pool->thread_gone = nothing;
    pool->ctl = fj_ctl_pack(workers, workers, 0, false, 0);
    fj_lane_init(&pool->lane, 8);
    for (uint32_t i = 0; i < workers; i++) {
        fj_worker_t *worker = s->workers[i] = fj_registry_enter(pool, false);
        worker->room = 4;
        xp_constant(&worker->inbox, sizeof worker->inbox);
        xp_private((int)i, &worker->forked_after, sizeof worker->forked_after);
        if (i > 0) {
            xp_constant(&worker->deque, sizeof worker->deque);
            xp_constant(&worker->shared, sizeof worker->shared);
        } else {
            xp_single_writer(0, &worker->deque.top, sizeof worker->deque.top);
            xp_single_writer(0, &worker->deque.array, sizeof worker->deque.array);
        }
        xp_private((int)i, &worker->activity, sizeof worker->activity); /* there is no monitor */
        xp_private((int)i, &worker->blocked, sizeof worker->blocked);
    }
    xp_constant(&pool->registry, sizeof pool->registry);
    xp_constant(pool->registry.segments[0], sizeof(fj_segment_t));
    xp_constant(&pool->parallelism, sizeof pool->parallelism);
    xp_constant(&pool->credit, sizeof pool->credit);
    for (int i = 0; i < TASKS; i++) {
        fj_task_init(&s->tasks[i], &ops);
        s->tasks[i].status = FJ_QUEUED;
    }
    s->wanted = (uint8_t)wanted;
}

/* ---- publishers ---- */

static void fork_task(int i)
{
    XP_CHECK(fj_deque_push(&s->workers[0]->deque, &s->tasks[i]) == FJ_OK);
    XP_CHECK(fj_idle_signal(&s->pool));
}

static void submit_task(int i)
{
    fj_task_t *one = &s->tasks[i];
    XP_CHECK(fj_lane_submit(&s->pool.lane, &one, 1, false) == FJ_OK);
    XP_CHECK(fj_idle_signal(&s->pool));
}

/* Stands for fj_worker.c. */
static void fork_frame(void)
{
    fj_spawn_t *spawn = &s->workers[0]->spawn;
    spawn->top++;
    if (spawn->top > __atomic_load_n(&spawn->gate, __ATOMIC_RELAXED)
        && fj_spawn_forked(s->workers[0])) {
        XP_CHECK(fj_idle_signal(&s->pool));
    }
}

/* ---- workers ---- */

static bool take(void)
{
    if (fj_spawn_steal(s->workers[0]) != NULL || fj_deque_poll(&s->workers[0]->deque) != NULL
        || fj_lane_take(&s->pool.lane) != NULL) {
        s->taken++;
        return true;
    }
    return false;
}

static bool all_is_taken(void *unused)
{
    (void)unused;
    return s->taken == s->wanted;
}

/* For ever: in the end it sleeps. */
static void work_as(fj_worker_t *worker)
{
    fj_pool_t *pool = &s->pool;
    for (;;) {
        bool found = take();
        if (!found) {
            worker->searching = worker->searching || fj_idle_try_search(pool);
            found = worker->searching && take();
        }
        if (found && worker->searching) {
            worker->searching = false;
            fj_idle_end_search(pool);
        }
        if (found && s->keeps) {
            xp_await(all_is_taken, NULL);        /* a long task: others must take the rest */
        }
        if (!found) {
            (void)fj_idle_announce(worker, worker->searching);
            XP_CHECK(fj_idle_sleep(worker));     /* nobody retires it */
        }
    }
}

static void work(void)
{
    work_as(s->workers[1]);
}

static void other_works(void)
{
    work_as(s->workers[2]);
}

static void other_is_woken(void)
{
    XP_CHECK(fj_idle_sleep(s->workers[2]));
    work_as(s->workers[2]);
}

/* ---- scenarios ---- */

static void two_workers_one_task(void)
{
    setup_of(2, 1);
    xp_constant(&s->workers[0]->shared, sizeof(uint64_t));
    xp_constant(&s->pool.lane.count, sizeof s->pool.lane.count);
}

static void two_workers_two_tasks(void)
{
    two_workers_one_task();
    s->wanted = 2;
}

static void two_workers_two_submitted(void)
{
    setup_of(2, 2);
    xp_constant(&s->workers[0]->shared, sizeof(uint64_t));
    xp_constant(&s->workers[0]->deque, sizeof s->workers[0]->deque);
}

static void two_workers_two_frames(void)
{
    setup_of(2, 2);
    xp_constant(&s->workers[0]->deque, sizeof s->workers[0]->deque);
    xp_constant(&s->pool.lane.count, sizeof s->pool.lane.count);
}

static void two_workers_one_frame(void)
{
    two_workers_two_frames();
    s->wanted = 1;
}

static void three_workers_two_tasks(void)
{
    setup_of(3, 2);
    xp_constant(&s->workers[0]->shared, sizeof(uint64_t));
    xp_constant(&s->pool.lane.count, sizeof s->pool.lane.count);
}

static void three_workers_one_task(void)
{
    three_workers_two_tasks();
    s->wanted = 1;
}

/* The third sleeps already. */
static void three_workers_two_long_tasks(void)
{
    three_workers_two_tasks();
    s->keeps = true;
    s->workers[2]->parker = FJ_PARKER_IDLE;
    s->pool.ctl = fj_ctl_pack(2, 3, 0, false, 3);
}

static void fork_one(void)
{
    fork_task(0);
}

static void fork_two(void)
{
    fork_task(0);
    fork_task(1);
}

static void submit_both(void)
{
    submit_task(0);
    submit_task(1);
}

static void fork_one_frame(void)
{
    fork_frame();
}

/* The second one is private, until it blocks. */
static void fork_two_frames_and_block(void)
{
    fork_frame();
    fork_frame();
    (void)fj_idle_block_begin(s->workers[0]);
    xp_await(all_is_taken, NULL);
    fj_idle_block_end(s->workers[0]);
}

/* All was taken. Thread A counts as active, the others are on the idle stack, once each. */
static void all_sleep(void)
{
    fj_ctl_t c = s->pool.ctl;
    uint32_t asleep = 0, index = fj_ctl_top(c);
    XP_CHECK(s->taken == s->wanted && "it is slept through");
    for (; index != 0; index = s->workers[index - 1]->next_idle) {
        XP_CHECK(s->workers[index - 1]->parker == FJ_PARKER_IDLE);
        asleep++;
    }
    XP_CHECK(asleep == s->pool.parallelism - 1 && fj_ctl_total(c) == s->pool.parallelism);
    XP_CHECK(fj_ctl_active(c) == 1 && !fj_ctl_searching(c) && s->pool.blocked == 0);
}

const xp_scenario_t xp_idle[] = {
    {.name = "idle.one_task", .setup = two_workers_one_task, .threads = {fork_one, work},
     .end = all_sleep, .sleepers = true},
    {.name = "idle.two_tasks", .setup = two_workers_two_tasks, .threads = {fork_two, work},
     .end = all_sleep, .sleepers = true},
    {.name = "idle.two_submitted", .setup = two_workers_two_submitted,
     .threads = {submit_both, work}, .end = all_sleep, .sleepers = true},
    {.name = "idle.one_frame", .setup = two_workers_one_frame, .threads = {fork_one_frame, work},
     .end = all_sleep, .sleepers = true},
    {.name = "idle.two_frames_and_a_block", .setup = two_workers_two_frames,
     .threads = {fork_two_frames_and_block, work}, .end = all_sleep, .sleepers = true},
    {.name = "idle.one_task_two_workers", .setup = three_workers_one_task,
     .threads = {fork_one, work, other_works}, .end = all_sleep, .sleepers = true},
    {.name = "idle.two_long_tasks_two_workers", .setup = three_workers_two_long_tasks,
     .threads = {fork_two, work, other_is_woken}, .end = all_sleep, .sleepers = true},
    {.name = "large.two_tasks_two_workers", .setup = three_workers_two_tasks,
     .threads = {fork_two, work, other_works}, .end = all_sleep, .sleepers = true},
    {.name = NULL},
};
