/* test_spawn.c - frames by value: forks and joins of native code.
 *
 * First an owner and a thief that one thread moves by hand, so that each step can be seen; then
 * real workers. A pool without parallelism never starts a thread, whatever it is told.
 */
#include "fixture.h"

#include <stdlib.h>
#include <string.h>

#include "fj_idle.h"
#include "fj_registry.h"
#include "fj_spawn.h"
#include "fj_worker.h"

/* ---- by hand ---- */

enum { MANY = 64 };

static struct {
    fj_pool_t *pool;
    fj_worker_t *owner, *thief;
    int runs[MANY];
    fj_worker_t *ran_by[MANY];
} hand;

FJ_TASK(int64_t, note, int64_t)
{
    hand.runs[args]++;
    hand.ran_by[args] = worker;
    return 1000 + args;
}

static void prepare(void)
{
    memset(&hand, 0, sizeof hand);
    hand.pool = fx_pool_of(0);
    hand.owner = fj_guest_enter(hand.pool);
    hand.thief = fj_registry_enter(hand.pool, true);
    FJ_CHECK(hand.owner != NULL && hand.thief != NULL);
}

/* Both stacks are as at first, and the first `n` notes were run once each. */
static void end(int n)
{
    fj_worker_t *both[] = {hand.owner, hand.thief};
    for (int i = 0; i < MANY; i++) {
        FJ_CHECK_EQ(hand.runs[i], i < n);
    }
    for (int i = 0; i < 2; i++) {
        FJ_CHECK_EQ(fj_spawn_top(both[i]), 0);
        FJ_CHECK_EQ(fj_spawn_size(both[i]), 0);
        FJ_CHECK_EQ(fj_spawn_steal(both[i]), NULL);
        FJ_CHECK_EQ(both[i]->lates, 0);
    }
    fj_registry_leave(hand.thief);
    fj_guest_leave(hand.owner);
    fx_pool_end(hand.pool);
}

static void fork_notes(int from, int to)
{
    for (int i = from; i < to; i++) {
        note_fork(hand.owner, i);
    }
}

/* Joins notes to - 1, ..., from. */
static void join_notes(int from, int to)
{
    for (int i = to; i-- > from;) {
        FJ_CHECK_EQ(note_join(hand.owner), 1000 + i);
    }
}

/* Steals a frame, which must be that note, and leaves it unfinished. */
static fj_task_t *steal_note(fj_worker_t *victim, int i)
{
    fj_task_t *stolen = fj_spawn_steal(victim);
    int64_t number = -1;
    FJ_CHECK(stolen != NULL);
    memcpy(&number, fj_spawn_frame(stolen)->u.data, sizeof number);
    FJ_CHECK_EQ(number, i);
    return stolen;
}

static void steal_and_run_note(int i)
{
    fj_worker_run_entry(hand.thief, steal_note(hand.owner, i));
    FJ_CHECK_EQ(hand.ran_by[i], hand.thief);
}

/* Only the oldest frame is shared without being asked for; the others nobody can steal. */
FJ_TEST(spawn, private_frames_are_never_stolen)
{
    prepare();
    FJ_CHECK_EQ(fj_spawn_steal(hand.owner), NULL);
    fork_notes(0, 10);
    FJ_CHECK_EQ(fj_spawn_size(hand.owner), 1);
    steal_and_run_note(0);
    FJ_CHECK_EQ(fj_spawn_steal(hand.owner), NULL);
    FJ_CHECK_EQ(fj_spawn_steal(hand.owner), NULL);
    join_notes(0, 10);
    for (int i = 1; i < 10; i++) {
        FJ_CHECK_EQ(hand.ran_by[i], hand.owner);
    }
    end(10);
}

/* Thieves take the oldest frame first, and get them all once they are shared. */
FJ_TEST(spawn, the_oldest_frame_is_stolen_first)
{
    prepare();
    fork_notes(0, 10);
    FJ_CHECK(fj_spawn_expose(hand.owner));
    FJ_CHECK(!fj_spawn_expose(hand.owner));
    FJ_CHECK_EQ(fj_spawn_size(hand.owner), 10);
    for (int i = 0; i < 10; i++) {
        steal_and_run_note(i);
    }
    FJ_CHECK_EQ(fj_spawn_steal(hand.owner), NULL);
    join_notes(0, 10);
    end(10);
}

/* After the last shared frame was stolen the next fork shares the older half of the others. */
FJ_TEST(spawn, a_request_is_answered_by_the_next_fork)
{
    prepare();
    fork_notes(0, 8);
    steal_and_run_note(0);
    FJ_CHECK_EQ(fj_spawn_size(hand.owner), 0);
    fork_notes(8, 9);
    FJ_CHECK_EQ(fj_spawn_size(hand.owner), 4); /* of 1 .. 8 */
    fork_notes(9, 20);                           /* nobody asks */
    FJ_CHECK_EQ(fj_spawn_size(hand.owner), 4);
    for (int i = 1; i < 5; i++) {
        steal_and_run_note(i);
    }
    FJ_CHECK_EQ(fj_spawn_steal(hand.owner), NULL);
    fork_notes(20, 21);
    FJ_CHECK_EQ(fj_spawn_size(hand.owner), 8); /* of 5 .. 20 */
    join_notes(0, 21);
    end(21);
}

/* So does the next join; the frame that it joins is not among them. */
FJ_TEST(spawn, a_request_is_answered_by_the_next_join)
{
    prepare();
    fork_notes(0, 10);
    steal_and_run_note(0);
    join_notes(9, 10);
    FJ_CHECK_EQ(hand.ran_by[9], hand.owner);
    FJ_CHECK_EQ(fj_spawn_size(hand.owner), 4); /* of 1 .. 8 */
    for (int i = 1; i < 5; i++) {
        steal_and_run_note(i);
    }
    join_notes(7, 9);
    FJ_CHECK_EQ(fj_spawn_size(hand.owner), 2); /* of 5 .. 7, at the join of 8 */
    join_notes(0, 7);
    end(10);
}

/* A request that meets an empty hand is answered as soon as there is something. */
FJ_TEST(spawn, a_request_waits_until_there_is_something)
{
    prepare();
    fork_notes(0, 1);
    steal_and_run_note(0);
    fork_notes(1, 2);
    FJ_CHECK_EQ(fj_spawn_size(hand.owner), 1); /* at once */
    steal_and_run_note(1);
    fork_notes(2, 3);
    join_notes(2, 3);                            /* taken back, and nothing is left to share */
    FJ_CHECK_EQ(fj_spawn_size(hand.owner), 0);
    FJ_CHECK_EQ(fj_spawn_steal(hand.owner), NULL);
    fork_notes(3, 4);
    FJ_CHECK_EQ(fj_spawn_size(hand.owner), 1);
    join_notes(3, 4);
    join_notes(0, 2);
    end(4);
}

/* A join that finds its frame shared takes the newer half back, so the next ones find theirs
 * private. */
FJ_TEST(spawn, taking_back_takes_the_newer_half)
{
    prepare();
    fork_notes(0, 16);
    FJ_CHECK(fj_spawn_expose(hand.owner));
    uint32_t sizes[] = {0, 1, 2, 2, 4, 4, 4, 4, 8, 8, 8, 8, 8, 8, 8, 8}; /* with so many left */
    for (int i = 16; i-- > 4;) {
        join_notes(i, i + 1);
        FJ_CHECK_EQ(hand.ran_by[i], hand.owner);
        FJ_CHECK_EQ(fj_spawn_size(hand.owner), sizes[i]);
    }
    steal_and_run_note(0);
    steal_and_run_note(1);
    join_notes(3, 4);
    FJ_CHECK_EQ(fj_spawn_size(hand.owner), 1);
    join_notes(0, 3);
    end(16);
}

/* Frames stolen and finished are joined with the results that their thief left there. */
FJ_TEST(spawn, the_result_of_a_stolen_frame_is_seen)
{
    prepare();
    for (int i = 0; i < MANY; i++) {
        note_fork(hand.owner, i);
        steal_and_run_note(i);
        FJ_CHECK_EQ(note_join(hand.owner), 1000 + i);
        FJ_CHECK_EQ(hand.ran_by[i], hand.thief);
        FJ_CHECK_EQ(fj_spawn_top(hand.owner), 0);
    }
    end(MANY);
}

/* A header is written anew each time its place is shared: a stolen frame is not done because
 * one before it was. */
FJ_TEST(spawn, a_stolen_frame_is_not_done_before_it_ran)
{
    prepare();
    for (int i = 0; i < 4; i++) {
        fork_notes(2 * i, 2 * i + 2);
        FJ_CHECK(fj_spawn_expose(hand.owner));
        fj_task_t *stolen[] = {steal_note(hand.owner, 2 * i), steal_note(hand.owner, 2 * i + 1)};
        for (int k = 0; k < 2; k++) {
            FJ_CHECK_EQ(fj_task_state(stolen[k]), FJ_RUNNING);
            FJ_CHECK_EQ(fj_load_relaxed(&stolen[k]->status), FJ_RUNNING);
            FJ_CHECK_EQ(fj_load_relaxed(&stolen[k]->runner), FJ_FRAME);
            FJ_CHECK_EQ(fj_task_pool(stolen[k]), hand.pool);
            fj_worker_run_entry(hand.thief, stolen[k]);
            FJ_CHECK_EQ(fj_task_state(stolen[k]), FJ_NORMAL);
        }
        join_notes(2 * i, 2 * i + 2);
    }
    end(8);
}

/* Whatever the owner does to the shared word, it is never again what a thief may have read. */
FJ_TEST(spawn, the_word_never_repeats)
{
    enum { SEEN = 30 };
    uint64_t seen[SEEN];
    prepare();
    for (int i = 0; i < SEEN; i++) {
        fork_notes(i, i + 1);                    /* shared */
        seen[i] = fj_load_relaxed(&hand.owner->shared);
        if (i % 3 == 1) {
            steal_and_run_note(i);
        }
        join_notes(i, i + 1);                    /* taken back or dropped */
        uint64_t now = fj_load_relaxed(&hand.owner->shared);
        for (int k = 0; k <= i; k++) {
            FJ_CHECK_NE(now, seen[k]);
            FJ_CHECK(k == i || seen[k] != seen[i]);
        }
    }
    end(SEEN);
}

/* ---- by hand: descendants ---- */

/* Steals from the thief's own stack, as whoever waits for `awaited` would. */
static fj_task_t *steal_descendant(fj_task_t *awaited)
{
    return fj_spawn_steal_descendant(hand.thief, fj_load_relaxed(&awaited->spawn_mark), awaited);
}

/* Runs on the thief, above a frame of its own that is still there: note 0. */
FJ_TASK(int64_t, parent, fj_task_t **)
{
    fj_task_t *self = *args;
    FJ_CHECK_EQ(worker, hand.thief);
    FJ_CHECK_EQ(fj_load_relaxed(&self->spawn_mark), 1);
    note_fork(worker, 1);
    note_fork(worker, 2);
    FJ_CHECK(fj_spawn_expose(worker));
    FJ_CHECK_EQ(steal_descendant(self), NULL);   /* the oldest is a stranger */
    fj_worker_run_entry(hand.owner, steal_note(worker, 0));
    fj_task_t *child = steal_descendant(self);
    FJ_CHECK(child != NULL);
    FJ_CHECK_EQ(fj_spawn_frame(child), worker->frames + 1);
    fj_worker_run_entry(hand.owner, child);
    FJ_CHECK_EQ(note_join(worker), 1002);
    FJ_CHECK_EQ(note_join(worker), 1001);
    FJ_CHECK_EQ(hand.ran_by[1], hand.owner);
    FJ_CHECK_EQ(hand.ran_by[2], hand.thief);
    return 0;
}

/* Who helps the runner of a frame gets what was forked above the runner's mark while the frame
 * runs; nothing older, and nothing once it is done. */
FJ_TEST(spawn, a_helper_gets_only_descendants)
{
    prepare();
    fj_task_t *awaited;
    note_fork(hand.thief, 0);
    parent_fork(hand.owner, &awaited);
    awaited = fj_spawn_steal(hand.owner);
    FJ_CHECK(awaited != NULL);
    fj_worker_run_entry(hand.thief, awaited);
    FJ_CHECK(fj_task_is_done(awaited));
    note_fork(hand.thief, 3);                    /* where note 1 was */
    FJ_CHECK_EQ(fj_spawn_size(hand.thief), 1);
    FJ_CHECK_EQ(steal_descendant(awaited), NULL);
    fj_worker_run_entry(hand.owner, steal_note(hand.thief, 3));
    FJ_CHECK_EQ(note_join(hand.thief), 1003);
    FJ_CHECK_EQ(note_join(hand.thief), 1000);
    FJ_CHECK_EQ(parent_join(hand.owner), 0);
    end(4);
}

/* ---- by hand: no room ---- */

/* A fork that finds no room is run at once; its join comes when all the same, and gets its result,
 * in whatever order what has room comes and goes below. */
FJ_TEST(spawn, what_finds_no_room_runs_at_once)
{
    for (uint32_t room = 0; room <= 5; room++) {
        prepare();
        hand.owner->room = room;
        for (int round = 0; round < 3; round++) {
            memset(hand.runs, 0, sizeof hand.runs);
            fork_notes(0, 4);
            join_notes(2, 4);
            memset(hand.runs + 2, 0, 2 * sizeof hand.runs[0]);
            fork_notes(2, 20);
            for (int i = 0; i < 20; i++) {
                FJ_CHECK_EQ(hand.runs[i], i >= (int)room);
            }
            FJ_CHECK_EQ(hand.owner->lates, 20 - room);
            join_notes(0, 20);
        }
        FJ_CHECK_EQ(hand.owner->frames == NULL, room == 0);
        end(20);
    }
}

/* Refused memory is asked for again, also in the middle of a fork that was refused it. */
FJ_TASK(int64_t, gets_memory, int64_t)
{
    worker->room = 4;
    note_fork(worker, args);
    note_fork(worker, args + 1);
    FJ_CHECK_EQ(fj_spawn_size(worker), 1);
    FJ_CHECK_EQ(note_join(worker), 1001 + args);
    FJ_CHECK_EQ(note_join(worker), 1000 + args);
    return -args;
}

/* Memory that comes late, in the middle of a fork that was refused it, changes no result. */
FJ_TEST(spawn, memory_may_come_late)
{
    prepare();
    hand.owner->room = 0;
    fork_notes(0, 2);
    join_notes(1, 2);
    join_notes(0, 1);
    FJ_CHECK_EQ(hand.owner->frames, NULL);
    gets_memory_fork(hand.owner, 2);
    FJ_CHECK(hand.owner->frames != NULL);
    fork_notes(4, 5);                            /* not joined before the one below it: late */
    FJ_CHECK_EQ(hand.runs[4], 1);
    join_notes(4, 5);
    FJ_CHECK_EQ(gets_memory_join(hand.owner), -2);
    fork_notes(5, 7);
    FJ_CHECK_EQ(hand.owner->lates, 0);
    FJ_CHECK_EQ(fj_spawn_size(hand.owner), 1);
    join_notes(5, 7);
    end(7);
}

/* While no room is left, thieves still get what lies in the stack: a fork that is run at once is
 * followed by a look, since what it ran may have taken long. */
FJ_TEST(spawn, a_request_is_answered_while_no_room_is_left)
{
    prepare();
    hand.owner->room = 5;
    fork_notes(0, 6);
    FJ_CHECK_EQ(hand.runs[5], 1);
    steal_and_run_note(0);
    FJ_CHECK_EQ(fj_spawn_steal(hand.owner), NULL);
    fork_notes(6, 7);
    FJ_CHECK_EQ(hand.runs[6], 1);
    FJ_CHECK_EQ(fj_spawn_size(hand.owner), 2);   /* of 1 .. 4 */
    steal_and_run_note(1);
    join_notes(0, 7);
    end(7);
}

/* ---- by hand: how others see it ---- */

/* Statistics and whoever looks for work count the shared frames, and only those. */
FJ_TEST(spawn, shared_frames_count_as_queued)
{
    prepare();
    FJ_CHECK(!fj_registry_has_work(hand.pool));
    fork_notes(0, 5);
    FJ_CHECK(fj_registry_has_work(hand.pool));
    FJ_CHECK(!fj_pool_is_quiescent(hand.pool));
    FJ_CHECK_EQ(fj_pool_stats(hand.pool).queued_tasks, 1);
    (void)fj_spawn_expose(hand.owner);
    FJ_CHECK_EQ(fj_pool_stats(hand.pool).queued_tasks, 5);
    for (int i = 0; i < 5; i++) {
        steal_and_run_note(i);
    }
    FJ_CHECK_EQ(fj_pool_stats(hand.pool).queued_tasks, 0);
    FJ_CHECK(!fj_registry_has_work(hand.pool));
    join_notes(0, 5);
    end(5);
}

/* A guest that begins to block shares all its frames, as a worker does. */
FJ_TEST(spawn, a_guest_that_blocks_shares_everything)
{
    prepare();
    fork_notes(0, 5);
    FJ_CHECK_EQ(fj_block_begin(hand.owner), FJ_OK);
    FJ_CHECK_EQ(fj_spawn_size(hand.owner), 5);
    fj_block_end(hand.owner);
    join_notes(0, 5);
    end(5);
}

/* A model of one stack: frame i is note i, and lies at index i if there is room. */
typedef struct model {
    int depth, room, tail;
} model_t;

static void do_one(model_t *model, uint64_t random)
{
    int there = model->depth < model->room ? model->depth : model->room;
    switch (random % 8) {
    case 0: case 1: case 2:
        if (model->depth < MANY) {
            hand.runs[model->depth] = 0;
            fork_notes(model->depth, model->depth + 1);
            model->depth++;
        }
        break;
    case 3: case 4:
        if (model->depth > 0) {
            model->depth--;
            join_notes(model->depth, model->depth + 1);
            FJ_CHECK_EQ(hand.runs[model->depth], 1);
            model->tail = model->tail < model->depth ? model->tail : model->depth;
        }
        break;
    case 5:
        (void)fj_spawn_expose(hand.owner);
        FJ_CHECK_EQ(fj_spawn_size(hand.owner), there - model->tail);
        break;
    default:
        if (fj_spawn_size(hand.owner) > 0) {
            steal_and_run_note(model->tail++);
        } else {
            FJ_CHECK_EQ(fj_spawn_steal(hand.owner), NULL);
        }
    }
}

/* Always: if there is something, then some of it is shared, or both fast paths are closed. */
static void check_asked(const model_t *model)
{
    int there = model->depth < model->room ? model->depth : model->room;
    FJ_CHECK_LE(fj_spawn_size(hand.owner), there - model->tail);
    if (fj_spawn_size(hand.owner) == 0 && there > model->tail) {
        FJ_CHECK_EQ(hand.owner->spawn.gate, NULL);
        FJ_CHECK_EQ(hand.owner->spawn.floor, (void *)UINTPTR_MAX);
    }
}

/* Any sequence of forks, joins, thefts and sharing in one thread does what a plain list would do,
 * and never leaves a thief without an answer. */
FJ_TEST(spawn, behaves_like_a_list)
{
    uint64_t random = fj_test_seed();
    for (int round = 0; round < FJ_TEST_ROUNDS(500); round++) {
        model_t model = {0, round % 3 != 0 ? MANY : 1 + (int)(fj_test_random(&random) % 8), 0};
        prepare();
        hand.owner->room = (uint32_t)model.room;
        for (int step = 0; step < 300; step++) {
            do_one(&model, fj_test_random(&random));
            check_asked(&model);
        }
        join_notes(0, model.depth);
        memset(hand.runs, 0, sizeof hand.runs);
        end(0);
    }
}

/* ---- whole programs ---- */

FJ_TASK(int64_t, fib, int64_t)
{
    if (args < 2) {
        return args;
    }
    fib_fork(worker, args - 1);
    int64_t right = fib(worker, args - 2);
    return right + fib_join(worker);
}

static void run_fib(fx_task_t *task, fj_worker_t *worker)
{
    int64_t *n = task->argument;
    *n = fib(worker, *n);
}

/* Every call is made once, whoever makes it, with more workers than processors as well. */
FJ_TEST(spawn, fib_is_right_on_any_number_of_workers)
{
    static const uint32_t parallelisms[] = {1, 2, 4, 8};
    for (size_t i = 0; i < sizeof parallelisms / sizeof parallelisms[0]; i++) {
        fj_pool_t *pool = fx_pool_of(parallelisms[i]);
        for (int k = 0; k < FJ_TEST_ROUNDS(20); k++) {
            fx_task_t task;
            int64_t n = 18;
            fx_run(pool, &task, run_fib, &n);
            FJ_CHECK_EQ(n, 2584);
        }
        fx_pool_end(pool);
    }
}

typedef struct range {
    int32_t lo, hi;
} range_t;

/* Forks its whole range in one loop, then joins it: as wide as it is long. */
FJ_TASK(int64_t, sum, range_t)
{
    int64_t total = args.lo;
    for (int32_t i = args.lo + 1; i < args.hi; i++) {
        sum_fork(worker, (range_t){i, i + 1});
    }
    for (int32_t i = args.lo + 1; i < args.hi; i++) {
        total += sum_join(worker);
    }
    return total;
}

static void run_sum(fx_task_t *task, fj_worker_t *worker)
{
    int64_t *n = task->argument;
    *n = sum(worker, (range_t){0, (int32_t)*n});
}

/* What finds no place in the stack is run at once, and its result is there at its join. */
FJ_TEST(spawn, more_forks_than_there_is_room_for)
{
    for (uint32_t parallelism = 1; parallelism <= 2; parallelism++) {
        fj_pool_t *pool = fx_pool_of(parallelism);
        for (int i = 0; i < 3; i++) {
            fx_task_t task;
            int64_t n = 200000;
            fx_run(pool, &task, run_sum, &n);
            FJ_CHECK_EQ(n, 19999900000);
        }
        fx_pool_end(pool);
    }
}
