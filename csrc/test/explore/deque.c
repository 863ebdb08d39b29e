/* deque.c - the work-stealing deque: owner (thread A) and thieves (B, C).
 *
 * Arrays begin with two slots and indices just below the wrap. Tasks are numbered in
 * the order of pushing. However the operations interleave: each task is taken once or
 * still there at the end; a pop takes the newest that is left, thieves in order.
 */
#include "fj_deque.h"
#include "fj_task.h"

enum { TASKS = 6 };

static struct scene {
    fj_deque_t deque;
    fj_task_t tasks[TASKS], awaited;
    uint8_t pushed, last_stolen;
    uint8_t taken[TASKS];
    uint8_t dropped[TASKS];
} *s;

static void drop(fj_task_t *task)
{
    s->dropped[task - s->tasks]++;
}

static const fj_task_ops_t ops = {.drop = drop};

static void setup_at(size_t index)
{
    s = xp_alloc(sizeof *s);
    XP_CHECK(fj_deque_init(&s->deque, 2, 8, index) == FJ_OK);
    for (int i = 0; i < TASKS; i++) {
        fj_task_init(&s->tasks[i], &ops);
        s->tasks[i].status = FJ_QUEUED;
    }
    fj_task_init(&s->awaited, &ops);
    s->awaited.status = FJ_RUNNING;
    xp_single_writer(0, &s->deque.top, sizeof s->deque.top);
    xp_single_writer(0, &s->deque.array, sizeof s->deque.array);
}

static void push_some(int n)
{
    for (int i = 0; i < n; i++) {
        XP_CHECK(fj_deque_push(&s->deque, &s->tasks[s->pushed]) == FJ_OK);
        s->pushed++;
    }
}

static int take(fj_task_t *task)
{
    int i = (int)(task - s->tasks);
    XP_CHECK(i >= 0 && i < s->pushed + 1);       /* thieves may be faster than the count */
    XP_CHECK(s->taken[i] == 0 && "it is taken twice");
    s->taken[i]++;
    return i;
}

static void pop(void)
{
    fj_task_t *task = fj_deque_pop(&s->deque);
    if (task != NULL) {
        for (int i = take(task) + 1; i < s->pushed; i++) {
            XP_CHECK(s->taken[i] && "a newer one is left");
        }
    } else {
        for (int i = 0; i < s->pushed; i++) {
            XP_CHECK(s->taken[i] && "it was not empty");
        }
    }
}

static void stolen(fj_task_t *task)
{
    if (task != NULL) {
        int i = take(task) + 1;
        XP_CHECK(i > s->last_stolen && "thieves take the oldest first");
        s->last_stolen = (uint8_t)i;
    }
}

static void poll_once(void)
{
    stolen(fj_deque_poll(&s->deque));
}

static void poll_twice(void)
{
    poll_once();
    poll_once();
}

static void poll_thrice(void)
{
    poll_twice();
    poll_once();
}

/* 0 <= top - base <= mask + 1 <= limit, except that the owner may show top == base - 1. */
static void in_bounds(void)
{
    size_t mask = fj_load_relaxed(&s->deque.array)->mask;
    ptrdiff_t size = (ptrdiff_t)(fj_load_relaxed(&s->deque.top) - fj_load_relaxed(&s->deque.base));
    XP_CHECK(size >= -1 && size <= (ptrdiff_t)mask + 1);
    XP_CHECK(mask + 1 <= s->deque.limit);
}

static void nothing_is_lost(void)
{
    fj_task_t *task;
    while ((task = fj_deque_poll(&s->deque)) != NULL) {
        (void)take(task);
    }
    for (int i = 0; i < s->pushed; i++) {
        XP_CHECK(s->taken[i] + s->dropped[i] == 1 && "it is lost");
    }
}

/* ---- one entry ---- */

static void before_the_wrap(void)
{
    setup_at(SIZE_MAX - 1);
}

static void push_and_pop(void)
{
    push_some(1);
    pop();
}

static void push_and_pop_thrice(void)
{
    push_and_pop();
    push_and_pop();
    push_and_pop();
}

/* ---- several, over the wrap ---- */

static void two_and_pop_both(void)
{
    push_some(2);
    pop();
    pop();
}

static void two_pop_two_pop_all(void)
{
    push_some(2);
    pop();
    push_some(1);
    pop();
    pop();
    pop();
}

/* ---- growth: the third entry needs a larger array ---- */

static void grow_and_pop(void)
{
    push_some(3);
    pop();
    pop();
}

static void grow_twice(void)
{
    push_some(5);
    pop();
}

/* ---- other ways to take one ---- */

static void unpush_and_take_oldest(void)
{
    push_some(2);
    if (fj_deque_try_unpush(&s->deque, &s->tasks[1])) {
        (void)take(&s->tasks[1]);
    }
    if (fj_deque_try_take_oldest(&s->deque, &s->tasks[0])) {
        (void)take(&s->tasks[0]);
    } else {
        XP_CHECK(s->taken[0]);
    }
}

/* The oldest and the third are tombstones. A sweep drops them, or leaves the oldest. */
static void sweep(void)
{
    push_some(4);
    s->tasks[0].status = s->tasks[2].status = FJ_CANCELLED;
    fj_task_t *homeless = fj_deque_sweep(&s->deque);
    if (homeless != NULL) {
        (void)take(homeless);
    }
}

/* Any program of six operations, the digits of the variant. */
static void any_program(void)
{
    unsigned program = xp_variant;
    for (int i = 0; i < 6; i++, program /= 3) {
        if (program % 3 == 0) {
            push_some(1);
        } else if (program % 3 == 1) {
            pop();
        } else {
            stolen(fj_deque_poll(&s->deque));    /* as in first in, first out mode */
        }
    }
}

/* ---- descendants ---- */

static void push_and_take_back(void)
{
    push_some(1);
    fj_task_t *task = fj_deque_pop(&s->deque);
    if (task != NULL) {
        (void)take(task);
    }
}

/* Forks one task while `awaited` runs, and another at the same index when it is done: a stranger. */
static void run_awaited(void)
{
    fj_store_relaxed(&s->awaited.mark, (uint32_t)fj_load_relaxed(&s->deque.top));
    fj_store_release(&s->awaited.runner, 1);
    push_and_take_back();
    (void)fj_task_complete(&s->awaited, FJ_NORMAL);
    push_and_take_back();
}

/* Task 0 is a stranger as well. */
static void run_awaited_above_a_stranger(void)
{
    push_some(1);
    run_awaited();
    pop();
}

static bool it_runs(void *unused)
{
    (void)unused;
    return s->awaited.runner != 0;
}

/* Task `only` is the one that `awaited` forks. */
static void help(int only)
{
    xp_await(it_runs, NULL);
    for (int i = 0; i < 2; i++) {
        uint32_t mark = fj_load_relaxed(&s->awaited.mark);
        fj_task_t *task = fj_deque_poll_descendant(&s->deque, mark, &s->awaited);
        if (task != NULL) {
            XP_CHECK(take(task) == only && "it does not descend");
        }
    }
}

static void help_child_0(void)
{
    help(0);
}

static void help_child_1(void)
{
    help(1);
}

const xp_scenario_t xp_deque[] = {
    {.name = "deque.last_entry_one_thief", .setup = before_the_wrap, .always = in_bounds,
     .threads = {push_and_pop_thrice, poll_twice}, .end = nothing_is_lost},
    {.name = "deque.last_entry_two_thieves", .setup = before_the_wrap, .always = in_bounds,
     .threads = {push_and_pop_thrice, poll_once, poll_twice}, .end = nothing_is_lost},
    {.name = "deque.two_entries_one_thief", .setup = before_the_wrap, .always = in_bounds,
     .threads = {two_pop_two_pop_all, poll_thrice}, .end = nothing_is_lost},
    {.name = "deque.two_entries_two_thieves", .setup = before_the_wrap, .always = in_bounds,
     .threads = {two_and_pop_both, poll_twice, poll_twice}, .end = nothing_is_lost},
    {.name = "deque.growth_one_thief", .setup = before_the_wrap, .always = in_bounds,
     .threads = {grow_twice, poll_thrice}, .end = nothing_is_lost},
    {.name = "deque.growth_two_thieves", .setup = before_the_wrap, .always = in_bounds,
     .threads = {grow_and_pop, poll_once, poll_twice}, .end = nothing_is_lost},
    {.name = "deque.any_program_one_thief", .setup = before_the_wrap, .always = in_bounds,
     .threads = {any_program, poll_twice}, .end = nothing_is_lost, .variants = 729},
    {.name = "large.deque_any_program_two_thieves", .setup = before_the_wrap, .always = in_bounds,
     .threads = {any_program, poll_once, poll_once}, .end = nothing_is_lost, .variants = 729},
    {.name = "deque.unpush_and_take_oldest", .setup = before_the_wrap, .always = in_bounds,
     .threads = {unpush_and_take_oldest, poll_once, poll_once}, .end = nothing_is_lost},
    {.name = "deque.sweep_one_thief", .setup = before_the_wrap, .always = in_bounds,
     .threads = {sweep, poll_twice}, .end = nothing_is_lost},
    {.name = "deque.descendant", .setup = before_the_wrap, .always = in_bounds,
     .threads = {run_awaited, help_child_0, poll_once}, .end = nothing_is_lost},
    {.name = "deque.descendant_above_a_stranger", .setup = before_the_wrap, .always = in_bounds,
     .threads = {run_awaited_above_a_stranger, help_child_1, poll_once}, .end = nothing_is_lost},
    {.name = NULL},
};
