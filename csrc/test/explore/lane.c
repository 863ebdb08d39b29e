/* lane.c - the ring under its lock, and the lock itself on a futex. */
#include "fj_lane.h"
#include "fj_task.h"

enum { TASKS = 6 };

static const fj_task_ops_t ops = {NULL, NULL, NULL, false};

static struct scene {
    fj_lane_t lane;
    fj_task_t tasks[TASKS];
    uint8_t entered[TASKS], taken[TASKS];
    fj_mutex_t mutex;
    uint32_t inside, total;
} *s;

static void setup(void)
{
    s = xp_alloc(sizeof *s);
    fj_lane_init(&s->lane, 64);
    for (int i = 0; i < TASKS; i++) {
        fj_task_init(&s->tasks[i], &ops);
        s->tasks[i].status = FJ_QUEUED;
    }
}

/* The ring's indices stand at 62 of 64. */
static void near_the_wrap(void)
{
    setup();
    fj_task_t *one = &s->tasks[0];
    for (int i = 0; i < 62; i++) {
        XP_CHECK(fj_lane_submit(&s->lane, &one, 1, false) == FJ_OK);
        XP_CHECK(fj_lane_take(&s->lane) == one);
    }
}

static void submit(int from, int n)
{
    fj_task_t *batch[TASKS] = {NULL};
    for (int i = 0; i < n; i++) {
        batch[i] = &s->tasks[from + i];
    }
    fj_status_t status = fj_lane_submit(&s->lane, batch, (size_t)n, false);
    XP_CHECK(status == FJ_OK || (status == FJ_REJECTED && s->lane.closed));
    for (int i = 0; i < n && status == FJ_OK; i++) {
        s->entered[from + i] = 1;
    }
}

static void take(fj_task_t *task)
{
    XP_CHECK(s->taken[task - s->tasks]++ == 0 && "it is taken twice");
}

static void take_one(void)
{
    fj_task_t *task = fj_lane_take(&s->lane);
    if (task != NULL) {
        take(task);
    }
}

static void submit_two(void)
{
    submit(0, 2);
}

static void submit_one_and_one(void)
{
    submit(2, 1);
    submit(3, 1);
}

static void take_two(void)
{
    take_one();
    take_one();
}

static void submit_and_withdraw(void)
{
    submit(0, 2);
    if (fj_lane_withdraw(&s->lane, &s->tasks[1])) {
        take(&s->tasks[1]);
    }
    if (fj_lane_withdraw(&s->lane, &s->tasks[0])) {
        take(&s->tasks[0]);
    }
}

static void close_and_drain(void)
{
    fj_lane_close(&s->lane);
    fj_task_t *task;
    while ((task = fj_lane_take(&s->lane)) != NULL) {
        take(task);
    }
}

static void nothing_is_lost(void)
{
    fj_task_t *task;
    XP_CHECK(s->lane.count == s->lane.tail - s->lane.head);
    while ((task = fj_lane_take(&s->lane)) != NULL) {
        take(task);
    }
    for (int i = 0; i < TASKS; i++) {
        XP_CHECK(s->taken[i] == s->entered[i]);
    }
}

/* What entered before the closing was drained, the rest refused. */
static void nothing_is_left(void)
{
    XP_CHECK(fj_lane_size(&s->lane) == 0);
    nothing_is_lost();
}

static void add_under_the_lock(void)
{
    for (int i = 0; i < 2; i++) {
        fj_mutex_lock(&s->mutex);
        XP_CHECK(s->inside++ == 0 && "two are inside");
        uint32_t total = fj_load_relaxed((_Atomic(uint32_t) *)&s->total); /* others may run */
        s->total = total + 1;
        s->inside--;
        fj_mutex_unlock(&s->mutex);
    }
}

static void all_added(void)
{
    XP_CHECK(s->total == 6 && s->mutex.word == 0);
}

const xp_scenario_t xp_lane[] = {
    {.name = "lane.the_lock", .setup = setup,
     .threads = {add_under_the_lock, add_under_the_lock, add_under_the_lock}, .end = all_added},
    {.name = "lane.two_producers", .setup = near_the_wrap,
     .threads = {submit_two, submit_one_and_one, take_two}, .end = nothing_is_lost},
    {.name = "lane.two_consumers", .setup = near_the_wrap,
     .threads = {submit_two, take_two, take_two}, .end = nothing_is_lost},
    {.name = "lane.withdraw", .setup = near_the_wrap,
     .threads = {submit_and_withdraw, take_two, submit_one_and_one}, .end = nothing_is_lost},
    {.name = "lane.close", .setup = near_the_wrap,
     .threads = {submit_two, submit_one_and_one, close_and_drain}, .end = nothing_is_left},
    {.name = NULL},
};
