/* spawn.c - the spawn stack: its owner (thread A), and thieves (B, C).
 *
 * Frames are numbered in the order of their forks; their arguments and results are
 * plain memory, so a thief that read a frame too early or too late shows by its
 * number. However it goes: each frame runs once, each join has its result; and
 * whenever nobody is inside an operation, something is shared, or nothing is left to
 * share, or both fast paths are closed: no request is lost.
 */
#include "fj_spawn.h"
#include "fj_task.h"

enum { FRAMES = 8 };

static struct scene {
    fj_worker_t worker[XP_THREADS];      /* the owner's and, if they fork, the thieves' */
    fj_task_t awaited;
    uint8_t forked, runs[FRAMES];
    uint8_t joins[4];                    /* the owner's frames that are not joined */
    uint8_t depth;
    uint8_t stranger;                    /* number + 1 of a frame that helpers must not get */
} *s;

FJ_TASK(int64_t, work, int64_t)
{
    (void)worker;
    XP_CHECK(args >= 0 && args < FRAMES);
    XP_CHECK(s->runs[args] == 0 && "it runs twice");
    s->runs[args]++;
    return 100 + args;
}

static void setup_with(uint32_t room)
{
    s = xp_alloc(sizeof *s);
    for (int i = 0; i < XP_THREADS; i++) {
        fj_spawn_init(&s->worker[i]);
        s->worker[i].room = room;
        s->worker[i].index = (uint32_t)i;
        xp_private(i, &s->worker[i].deque, sizeof s->worker[i].deque);
        xp_private(i, &s->worker[i].forked_after, sizeof s->worker[i].forked_after);
    }
    fj_task_init(&s->awaited, NULL);
    s->awaited.status = FJ_RUNNING;
}

static void setup(void)
{
    setup_with(4);
}

static void room_for_one(void)
{
    setup_with(1);
}

static void room_for_two(void)
{
    setup_with(2);
}

/* ---- what fj_worker.c and fj_join.c do with frames ---- */

void fj_frame_forked(fj_worker_t *worker)
{
    (void)fj_spawn_forked(worker);
}

static void run_frame(fj_worker_t *worker, fj_task_t *task)
{
    XP_CHECK(fj_load_relaxed(&task->runner) == FJ_FRAME);
    fj_store_relaxed(&task->spawn_mark, fj_spawn_top(worker));
    fj_store_release(&task->runner, worker->index + 1);
    fj_frame_t *frame = fj_spawn_frame(task);
    frame->ops->run(frame, worker);
    XP_CHECK(fj_task_complete(task, FJ_NORMAL));
}

static bool is_done(void *task)
{
    return fj_task_is_done(task);
}

/* One look at what the thief has forked, then the end. */
static void help(fj_worker_t *worker, fj_task_t *frame)
{
    uint32_t runner = fj_load_acquire(&frame->runner);
    if (runner != 0 && runner != FJ_FRAME) {
        fj_worker_t *victim = &s->worker[runner - 1];
        fj_task_t *found = fj_spawn_steal_descendant(victim, fj_load_relaxed(&frame->spawn_mark),
                                                     frame);
        if (found != NULL) {
            run_frame(worker, found);
        }
    }
}

bool fj_frame_take_back(fj_worker_t *worker)
{
    bool exposed;
    fj_taken_t taken = fj_spawn_take_back(worker, &exposed);
    if (taken == FJ_TAKEN_STOLEN) {
        fj_task_t *frame = fj_spawn_latest(worker);
        help(worker, frame);
        xp_await(is_done, frame);
        fj_spawn_drop(worker);
    }
    return taken == FJ_TAKEN_BACK;
}

/* ---- steps of the owner, and of thieves ---- */

static void fork(int n)
{
    for (int i = 0; i < n; i++) {
        s->joins[s->depth++] = s->forked;
        xp_enter();
        work_fork(&s->worker[0], s->forked++);
        xp_leave();
    }
}

static void join(int n)
{
    for (int i = 0; i < n; i++) {
        uint8_t number = s->joins[--s->depth];
        xp_enter();
        XP_CHECK(work_join(&s->worker[0]) == 100 + number && "another frame's result");
        xp_leave();
        XP_CHECK(s->runs[number] == 1);
    }
}

static void expose(void)
{
    xp_enter();
    (void)fj_spawn_expose(&s->worker[0]);
    xp_leave();
}

static void steal(int thief, int n)
{
    for (int i = 0; i < n; i++) {
        xp_enter();
        fj_task_t *task = fj_spawn_steal(&s->worker[0]);
        xp_leave();
        if (task != NULL) {
            run_frame(&s->worker[thief], task);
        }
    }
}

static void steal_once(void)
{
    steal(1, 1);
}

static void steal_twice(void)
{
    steal(1, 2);
}

static void steal_thrice(void)
{
    steal(1, 3);
}

static void other_steals_once(void)
{
    steal(2, 1);
}

static void other_steals_twice(void)
{
    steal(2, 2);
}

/* ---- what must hold ---- */

static uint32_t tail_of(const fj_worker_t *worker)
{
    return worker->shared & 0x1ffff;
}

static uint32_t split_of(const fj_worker_t *worker)
{
    return worker->shared >> 17 & 0x1ffff;
}

static void in_bounds(void)
{
    for (int i = 0; i < XP_THREADS; i++) {
        fj_worker_t *worker = &s->worker[i];
        XP_CHECK(tail_of(worker) <= split_of(worker) && split_of(worker) <= worker->room);
    }
}

static void requests_are_seen(void)
{
    fj_worker_t *owner = &s->worker[0];
    uint32_t top = fj_spawn_top(owner);
    XP_CHECK(split_of(owner) <= top);
    if (tail_of(owner) == split_of(owner) && top > split_of(owner)) {
        XP_CHECK(owner->spawn.gate == NULL && "nobody asks at the next fork");
        XP_CHECK(owner->spawn.floor == (void *)UINTPTR_MAX && "nobody asks at the next join");
    }
}

static void all_ran(void)
{
    for (int i = 0; i < s->forked; i++) {
        XP_CHECK(s->runs[i] == 1);
    }
    XP_CHECK(s->worker[0].shared % ((uint64_t)1 << 34) == 0 && fj_spawn_top(&s->worker[0]) == 0);
    requests_are_seen();
}

/* ---- forks and joins beside thieves ---- */

static void one_thrice(void)
{
    for (int i = 0; i < 3; i++) {
        fork(1);
        join(1);
    }
}

static void two_and_two(void)
{
    fork(2);
    join(2);
    fork(2);
    join(2);
}

static void three(void)
{
    fork(3);
    join(3);
}

static void up_and_down(void)
{
    fork(3);
    join(1);
    fork(2);
    join(4);
}

static void four_exposed(void)
{
    fork(3);
    expose();
    fork(1);
    join(4);
}

/* Leaves them there: only requests count. */
static void four_unjoined(void)
{
    fork(4);
}

static void four_and_one_joined(void)
{
    fork(4);
    join(1);
}

/* Any program of five operations, the digits of the variant, and then joins of what is left. */
static void any_program(void)
{
    unsigned program = xp_variant;
    for (int i = 0; i < 5; i++, program /= 3) {
        if (program % 3 == 0 && s->depth < 4) {
            fork(1);
        } else if (program % 3 == 1 && s->depth > 0) {
            join(1);
        } else if (program % 3 == 2) {
            expose();
        }
    }
    join(s->depth);
}

/* ---- helpers ---- */

static bool awaited_runs(void *unused)
{
    (void)unused;
    return s->awaited.runner != 0;
}

static void run_awaited(void)
{
    fj_store_relaxed(&s->awaited.spawn_mark, fj_spawn_top(&s->worker[0]));
    fj_store_release(&s->awaited.runner, 1);
    fork(1);
    join(1);
    (void)fj_task_complete(&s->awaited, FJ_NORMAL);
}

/* The frame after it lies where the child lay. */
static void awaited_then_stranger(void)
{
    s->stranger = 2;
    run_awaited();
    fork(1);
    join(1);
}

static void awaited_above_stranger(void)
{
    s->stranger = 1;
    fork(1);
    run_awaited();
    join(1);
}

static void help_awaited(void)
{
    xp_await(awaited_runs, NULL);
    for (int i = 0; i < 2; i++) {
        uint32_t mark = fj_load_relaxed(&s->awaited.spawn_mark);
        fj_task_t *task = fj_spawn_steal_descendant(&s->worker[0], mark, &s->awaited);
        if (task != NULL) {
            int64_t number;
            memcpy(&number, fj_spawn_frame(task)->u.data, sizeof number);
            XP_CHECK(number + 1 != s->stranger && "it does not descend");
            run_frame(&s->worker[1], task);
        }
    }
}

/* A stolen frame that forks; its owner, in the join, helps. */
FJ_TASK(int64_t, parent, int64_t)
{
    work_fork(worker, args + 1);
    work_fork(worker, args + 2);
    XP_CHECK(work_join(worker) == 102 + args);
    XP_CHECK(work_join(worker) == 101 + args);
    return work(worker, args);
}

static void one_parent(void)
{
    s->forked = 3;
    parent_fork(&s->worker[0], 0);
    XP_CHECK(parent_join(&s->worker[0]) == 100);
}

static void two_parents(void)
{
    s->forked = 6;
    parent_fork(&s->worker[0], 0);
    parent_fork(&s->worker[0], 3);
    XP_CHECK(parent_join(&s->worker[0]) == 103);
    XP_CHECK(parent_join(&s->worker[0]) == 100);
}

static void steal_from_the_thief(void)
{
    fj_task_t *task = fj_spawn_steal(&s->worker[1]);
    if (task != NULL) {
        run_frame(&s->worker[2], task);
    }
}

const xp_scenario_t xp_spawn[] = {
    {.name = "spawn.one_at_a_time", .setup = setup, .always = in_bounds,
     .at_rest = requests_are_seen, .threads = {one_thrice, steal_twice}, .end = all_ran},
    {.name = "spawn.one_at_a_time_two_thieves", .setup = setup, .always = in_bounds,
     .at_rest = requests_are_seen, .threads = {one_thrice, steal_once, other_steals_twice},
     .end = all_ran},
    {.name = "spawn.two_at_a_time", .setup = setup, .always = in_bounds,
     .at_rest = requests_are_seen, .threads = {two_and_two, steal_twice}, .end = all_ran},
    {.name = "spawn.three_two_thieves", .setup = setup, .always = in_bounds,
     .at_rest = requests_are_seen, .threads = {three, steal_twice, other_steals_once},
     .end = all_ran},
    {.name = "spawn.up_and_down", .setup = setup, .always = in_bounds,
     .at_rest = requests_are_seen, .threads = {up_and_down, steal_thrice}, .end = all_ran},
    {.name = "spawn.shared_and_taken_back", .setup = setup, .always = in_bounds,
     .at_rest = requests_are_seen, .threads = {four_exposed, steal_twice}, .end = all_ran},
    {.name = "spawn.shared_and_taken_back_two_thieves", .setup = setup, .always = in_bounds,
     .at_rest = requests_are_seen, .threads = {four_exposed, steal_once, other_steals_once},
     .end = all_ran},
    {.name = "spawn.requests", .setup = setup, .always = in_bounds,
     .at_rest = requests_are_seen, .threads = {four_unjoined, steal_thrice}},
    {.name = "spawn.requests_two_thieves", .setup = setup, .always = in_bounds,
     .at_rest = requests_are_seen, .threads = {four_unjoined, steal_twice, other_steals_twice}},
    {.name = "spawn.requests_at_a_join", .setup = setup, .always = in_bounds,
     .at_rest = requests_are_seen,
     .threads = {four_and_one_joined, steal_twice, other_steals_once}},
    {.name = "spawn.any_program", .setup = setup, .always = in_bounds,
     .at_rest = requests_are_seen, .threads = {any_program, steal_twice}, .end = all_ran,
     .variants = 243},
    {.name = "spawn.any_program_with_room_for_two", .setup = room_for_two, .always = in_bounds,
     .at_rest = requests_are_seen, .threads = {any_program, steal_twice}, .end = all_ran,
     .variants = 243},
    {.name = "large.spawn_any_program_two_thieves", .setup = setup, .always = in_bounds,
     .at_rest = requests_are_seen, .threads = {any_program, steal_once, other_steals_twice},
     .end = all_ran, .variants = 243},
    {.name = "spawn.room_for_one", .setup = room_for_one, .always = in_bounds,
     .at_rest = requests_are_seen, .threads = {three, steal_once, other_steals_once},
     .end = all_ran},
    {.name = "spawn.room_for_two", .setup = room_for_two, .always = in_bounds,
     .at_rest = requests_are_seen, .threads = {up_and_down, steal_thrice}, .end = all_ran},
    {.name = "spawn.descendant_then_stranger", .setup = setup, .always = in_bounds,
     .threads = {awaited_then_stranger, help_awaited, other_steals_once}, .end = all_ran},
    {.name = "spawn.descendant_above_a_stranger", .setup = setup, .always = in_bounds,
     .threads = {awaited_above_stranger, help_awaited, other_steals_once}, .end = all_ran},
    {.name = "spawn.leapfrog", .setup = setup, .always = in_bounds,
     .threads = {two_parents, steal_once}, .end = all_ran},
    {.name = "spawn.leapfrog_beside_another_thief", .setup = setup, .always = in_bounds,
     .threads = {one_parent, steal_once, steal_from_the_thief}, .end = all_ran},
    {.name = "large.leapfrog_two_thieves", .setup = setup, .always = in_bounds,
     .threads = {two_parents, steal_once, other_steals_once}, .end = all_ran},
    {.name = NULL},
};
