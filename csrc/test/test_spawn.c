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
        fj_job_t job;
        hand.owner->job = &job;
        fork_notes(2 * i, 2 * i + 2);
        FJ_CHECK(fj_spawn_expose(hand.owner));
        hand.owner->job = NULL;
        fj_task_t *stolen[] = {steal_note(hand.owner, 2 * i), steal_note(hand.owner, 2 * i + 1)};
        for (int k = 0; k < 2; k++) {
            FJ_CHECK_EQ(fj_task_state(stolen[k]), FJ_RUNNING);
            FJ_CHECK_EQ(fj_load_relaxed(&stolen[k]->status), FJ_RUNNING);
            FJ_CHECK_EQ(fj_load_relaxed(&stolen[k]->runner), FJ_FRAME);
            FJ_CHECK_EQ(fj_spawn_job(stolen[k]), &job);
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

/* ---- two workers ---- */

/* A pool of two workers and no more. The task runs on one while the other is held. */
static void run_beside_a_held_one(void (*body)(fx_task_t *, fj_worker_t *), void *argument,
                                  fj_word_t *hold)
{
    fj_config_t config = fx_config(2);
    config.max_workers = 2;
    fj_pool_t *pool = fx_pool(&config);
    fx_task_t held, task;
    fx_start(pool, &held, fx_hold, hold);
    FX_AWAIT(&held.runs, 1);
    fx_run(pool, &task, body, argument);
    fx_finish(&held);
    fx_pool_end(pool);
}

static struct {
    fj_word_t release, taken;                    /* lets the other go on; frames that it took */
    fj_worker_t *owner;
    int order[4];
} two;

FJ_TASK(int64_t, taken_by_the_other, int64_t)
{
    if (worker != two.owner) {
        two.order[fx_read(&two.taken) % 4] = (int)args;
        fx_bump(&two.taken);
    }
    return args;
}

static void heap_task_in_order(fx_task_t *task, fj_worker_t *worker)
{
    (void)taken_by_the_other(worker, task->value);
}

/* Forks two of each kind in that order, and waits until the other has run them all. */
static void forks_both_kinds(fx_task_t *task, fj_worker_t *worker)
{
    const char *kinds = task->argument;
    fx_task_t heap[4];
    two.owner = worker;
    for (int i = 0; i < 4; i++) {
        if (kinds[i] == 'f') {
            taken_by_the_other_fork(worker, i);
        } else {
            fx_task_init(&heap[i], heap_task_in_order, NULL);
            heap[i].value = i;
            FJ_CHECK_EQ(fx_fork(&heap[i]), FJ_OK);
        }
    }
    (void)fj_spawn_expose(worker);
    fx_bump(&two.release);
    FX_AWAIT(&two.taken, 4);
    for (int i = 4; i-- > 0;) {
        if (kinds[i] == 'f') {
            FJ_CHECK_EQ(taken_by_the_other_join(worker), i);
        } else {
            FJ_CHECK_EQ(fj_join(worker, &heap[i].task, FJ_FOREVER), FJ_OK);
            FX_AWAIT(&heap[i].drops, 1);
        }
    }
}

/* Of forked frames and forked tasks thieves take the older kind first. */
FJ_TEST(spawn, older_work_is_stolen_first_whatever_its_kind)
{
    static char kinds[][5] = {"ffhh", "hhff", "ffff", "hhhh"};
    for (int i = 0; i < 4; i++) {
        memset(&two, 0, sizeof two);
        run_beside_a_held_one(forks_both_kinds, kinds[i], &two.release);
        for (int k = 0; k < 4; k++) {
            FJ_CHECK_EQ(two.order[k], k);
        }
    }
}

enum { ASKED = 64 };

static void forks_until_all_are_stolen(fx_task_t *task, fj_worker_t *worker)
{
    (void)task;
    two.owner = worker;
    for (int round = 0; round < FJ_TEST_ROUNDS(1000); round++) {
        fj_store_relaxed(&two.taken, 0);
        for (int i = 0; i < ASKED; i++) {
            taken_by_the_other_fork(worker, i);
        }
        fx_bump(&two.release);
        /* Each turn is one look at the gate and one at the floor. */
        FX_SPIN_UNTIL((taken_by_the_other_fork(worker, 0), (void)taken_by_the_other_join(worker),
                       fx_read(&two.taken) >= ASKED));
        for (int i = ASKED; i-- > 0;) {
            FJ_CHECK_EQ(taken_by_the_other_join(worker), i);
        }
        FJ_CHECK_EQ(fj_spawn_top(worker), 0);
    }
}

/* However requests race with their answers: while the owner forks and joins, an idle worker gets
 * every frame in the end. */
FJ_TEST(spawn, no_request_is_lost)
{
    memset(&two, 0, sizeof two);
    run_beside_a_held_one(forks_until_all_are_stolen, NULL, &two.release);
}

/* Each time the other has gone to sleep: one fork, or one join. */
static void shares_while_the_other_sleeps(fx_task_t *task, fj_worker_t *worker)
{
    (void)task;
    two.owner = worker;
    fx_bump(&two.release);
    for (uint32_t i = 1; i <= 50; i++) {
        FX_UNTIL(fj_pool_stats(worker->pool).active == 1);
        taken_by_the_other_fork(worker, 0);      /* shared: nothing else is */
        FX_AWAIT(&two.taken, i);
    }
    for (int i = 1; i < 10; i++) {
        taken_by_the_other_fork(worker, i);
    }
    FX_AWAIT(&two.taken, 51);
    FX_UNTIL(fj_pool_stats(worker->pool).active == 1);
    uint32_t taken = fx_read(&two.taken);        /* more if it woke before all were forked */
    bool asks = fj_spawn_top(worker) - taken >= 3;
    FJ_CHECK_EQ(taken_by_the_other_join(worker), 9);
    FX_AWAIT(&two.taken, taken + asks);
    for (int i = 9; i-- > 1;) {
        FJ_CHECK_EQ(taken_by_the_other_join(worker), i);
    }
    for (int i = 0; i < 50; i++) {
        FJ_CHECK_EQ(taken_by_the_other_join(worker), 0);
    }
}

/* Whoever sleeps because nothing is shared is woken when a fork or a join shares something. */
FJ_TEST(spawn, an_idle_worker_is_woken_for_a_frame)
{
    for (int i = 0; i < 3; i++) {
        memset(&two, 0, sizeof two);
        run_beside_a_held_one(shares_while_the_other_sleeps, NULL, &two.release);
    }
}

static void blocks_with_private_frames(fx_task_t *task, fj_worker_t *worker)
{
    (void)task;
    two.owner = worker;
    for (int i = 0; i < 20; i++) {
        taken_by_the_other_fork(worker, i);
    }
    (void)fj_block_begin(worker);
    fx_bump(&two.release);
    FX_AWAIT(&two.taken, 20);
    fj_block_end(worker);
    for (int i = 20; i-- > 0;) {
        FJ_CHECK_EQ(taken_by_the_other_join(worker), i);
    }
}

/* A worker that begins to block shares everything: who stands in for it runs all of it. */
FJ_TEST(spawn, a_worker_that_blocks_shares_everything)
{
    for (uint32_t parallelism = 1; parallelism <= 2; parallelism++) {
        fj_config_t config = fx_config(parallelism);
        config.max_workers = 2;
        fj_pool_t *pool = fx_pool(&config);
        fx_task_t task;
        memset(&two, 0, sizeof two);
        fx_task_t held;
        fx_start(pool, &held, fx_hold, &two.release);
        if (parallelism == 1) {
            fx_bump(&two.release);
        }
        fx_start(pool, &task, blocks_with_private_frames, NULL);
        fx_finish(&held);
        fx_finish(&task);
        fx_pool_end(pool);
    }
}

/* ---- joins of stolen frames ---- */

FJ_TASK(int64_t, needs_help, int64_t)
{
    if (worker == two.owner) {
        return args;                             /* nobody stole it */
    }
    fj_worker_t *owner = two.owner;
    two.owner = worker;
    fj_store_relaxed(&two.taken, 0);
    for (int i = 0; i < 20; i++) {
        taken_by_the_other_fork(worker, i);
    }
    (void)fj_spawn_expose(worker);
    fx_bump(&two.release);
    FX_AWAIT(&two.taken, 20);
    for (int i = 20; i-- > 0;) {
        FJ_CHECK_EQ(taken_by_the_other_join(worker), i);
    }
    two.owner = owner;
    return -args;
}

static void joins_a_stolen_frame(fx_task_t *task, fj_worker_t *worker)
{
    (void)task;
    two.owner = worker;
    needs_help_fork(worker, 7);
    fx_bump(&two.release);
    FX_AWAIT(&two.release, 2);                   /* it was stolen and has forked */
    FJ_CHECK_EQ(needs_help_join(worker), -7);
    FJ_CHECK_EQ(fj_pool_stats(worker->pool).helps, 20);
}

/* Who joins a stolen frame helps its thief with what that forked. */
FJ_TEST(spawn, a_join_helps_the_thief)
{
    for (int round = 0; round < FJ_TEST_ROUNDS(100); round++) {
        memset(&two, 0, sizeof two);
        run_beside_a_held_one(joins_a_stolen_frame, NULL, &two.release);
    }
}

static bool never(fj_worker_t *worker)
{
    (void)worker;
    return false;
}

/* A worker that may not nest sleeps in the join of a stolen frame; the result is the same. */
FJ_TEST(spawn, who_may_not_nest_does_not_help)
{
    for (uint32_t parallelism = 1; parallelism <= 4; parallelism++) {
        fj_config_t config = fx_config(parallelism);
        config.hooks.may_nest = never;
        fj_pool_t *pool = fx_pool(&config);
        for (int k = 0; k < FJ_TEST_ROUNDS(50); k++) {
            fx_task_t task;
            int64_t n = 16;
            fx_run(pool, &task, run_fib, &n);
            FJ_CHECK_EQ(n, 987);
        }
        FJ_CHECK_EQ(fj_pool_stats(pool).helps, 0);
        fx_pool_end(pool);
    }
}

/* A chain of calls, each with a fork of its own and of a whole chain now and then. */
FJ_TASK(int64_t, chain, int64_t)
{
    if (args == 0) {
        return 1;
    }
    chain_fork(worker, args % 64 == 0 ? args / 4 : 0);
    int64_t below = chain(worker, args - 1);
    return 1 + below + chain_join(worker);
}

static int64_t plain_chain(int64_t n)
{
    return n == 0 ? 1 : 1 + plain_chain(n - 1) + plain_chain(n % 64 == 0 ? n / 4 : 0);
}

static void run_chain(fx_task_t *task, fj_worker_t *worker)
{
    int64_t *n = task->argument;
    *n = chain(worker, *n);
}

/* Deep recursion, where a join at every depth may find its frame stolen. */
FJ_TEST(spawn, deep_recursion_gives_the_sequential_result)
{
    int64_t depth = FJ_TEST_SANITIZED ? 500 : 2000;
    for (uint32_t parallelism = 2; parallelism <= 4; parallelism++) {
        fj_pool_t *pool = fx_pool_of(parallelism);
        for (int k = 0; k < FJ_TEST_ROUNDS(20); k++) {
            fx_task_t task;
            int64_t n = depth;
            fx_run(pool, &task, run_chain, &n);
            FJ_CHECK_EQ(n, plain_chain(depth));
        }
        fx_pool_end(pool);
    }
}

/* ---- the end of the pool ---- */

static void ends_while_forking(fj_pool_t *pool, void (*end_pool)(fj_pool_t *), int naps)
{
    fx_task_t task;
    int64_t n = FJ_TEST_SANITIZED ? 16 : 22;
    fx_start(pool, &task, run_fib, &n);
    FX_AWAIT(&task.runs, 1);
    for (int i = 0; i < naps; i++) {
        fx_nap();
    }
    end_pool(pool);
    fx_finish(&task);
    FJ_CHECK_EQ(n, FJ_TEST_SANITIZED ? 987 : 17711);
    fx_pool_await_end(pool);
    fx_pool_release(pool);
}

/* A task that has begun forks and joins to its end, although its pool is stopped or shut down at
 * any moment. */
FJ_TEST(spawn, forks_outlast_the_end_of_the_pool)
{
    for (int round = 0; round < FJ_TEST_ROUNDS(100); round++) {
        ends_while_forking(fx_pool_of(1 + (uint32_t)round % 4),
                           round & 4 ? fj_pool_stop : fj_pool_shutdown, round % 5);
    }
}

/* ---- random trees ---- */

/* Each node has up to three children, by a hash of its place: called, forked as a frame, or forked
 * as a task. Places are written in base 4 after a leading 1, so that descent can be checked. */
typedef struct place {
    uint64_t path;
    uint32_t depth, padding;
} place_t;

enum { DEPTH = 9, ROOTS = 6 };

static struct {
    fj_pool_t *pool;
    uint64_t seed;
    bool tasks;                                  /* some children are tasks */
    uint32_t room;
    _Atomic(uint64_t) nodes;
} wood;

/* What this thread joins; whatever runs meanwhile must descend from it. 0: nothing. */
static _Thread_local uint64_t joined;

static uint64_t hash_of(place_t place)
{
    uint64_t state = wood.seed ^ place.path * 0x9e3779b97f4a7c15u;
    return fj_test_random(&state);
}

static uint32_t children_of(place_t place)
{
    /* two on average, few at the root and nearly always some near it */
    return place.depth == 0 ? 0 : (uint32_t)("\1\1\2\2\2\2\3\3"[hash_of(place) % 8]);
}

static place_t child_of(place_t place, uint32_t i)
{
    return (place_t){place.path * 4 + i, place.depth - 1, 0};
}

static uint64_t plain_walk(place_t place)
{
    uint64_t sum = hash_of(place);
    for (uint32_t i = 0; i < children_of(place); i++) {
        sum += (i + 1) * plain_walk(child_of(place, i));
    }
    return sum;
}

static void check_descent(uint64_t path)
{
    uint64_t ancestor = path;
    while (ancestor > joined && joined != 0) {
        ancestor /= 4;
    }
    FJ_CHECK(joined == 0 || ancestor == joined);
}

typedef struct twig {
    fx_task_t heap;
    place_t place;
    int kind;
} twig_t;

static void walk_as_task(fx_task_t *task, fj_worker_t *worker);

FJ_TASK(uint64_t, walk, place_t)
{
    uint64_t hash = hash_of(args), sum = hash, before = joined;
    uint32_t n = children_of(args);
    twig_t twigs[3];
    check_descent(args.path);
    (void)fj_add_relaxed(&wood.nodes, 1);
    for (uint32_t i = 0; i < n; i++) {
        twigs[i].place = child_of(args, i);
        twigs[i].kind = (int)(hash >> (8 + 8 * i)) & 7;
        if (twigs[i].kind == 0) {
            sum += (i + 1) * walk(worker, twigs[i].place);
        } else if (twigs[i].kind == 1 && wood.tasks) {
            fx_task_init(&twigs[i].heap, walk_as_task, &twigs[i]);
            FJ_CHECK_EQ(fx_fork(&twigs[i].heap), FJ_OK);
        } else {
            walk_fork(worker, twigs[i].place);
        }
        if ((hash >> 40) % 64 == i) {
            (void)fj_block_begin(worker);
            (void)sched_yield();
            fj_block_end(worker);
        }
    }
    for (uint32_t i = n; i-- > 0;) {
        joined = twigs[i].place.path;
        if (twigs[i].kind == 1 && wood.tasks) {
            while (fj_join_firmly(worker, &twigs[i].heap.task) != FJ_OK) { /* a signal */
            }
            FX_AWAIT(&twigs[i].heap.drops, 1);
            sum += (i + 1) * (uint64_t)twigs[i].heap.value;
        } else if (twigs[i].kind != 0) {
            sum += (i + 1) * walk_join(worker);
        }
        joined = before;
    }
    return sum;
}

static void walk_as_task(fx_task_t *task, fj_worker_t *worker)
{
    twig_t *twig = task->argument;
    task->value = (int64_t)walk(worker, twig->place);
}

static bool has_little_room(fj_worker_t *worker)
{
    worker->room = wood.room;
    return true;
}

/* As a thread outside, or as a guest. */
static void walk_a_tree(unsigned index, void *unused)
{
    twig_t root = {.place = {(uint64_t)4 + index, DEPTH, 0}};
    (void)unused;
    if (index % 3 == 0) {
        fj_worker_t *guest = fj_guest_enter(wood.pool);
        FJ_CHECK(guest != NULL);
        root.heap.value = (int64_t)walk(guest, root.place);
        fj_guest_leave(guest);
    } else {
        do {                                     /* until the system gives the first thread */
            fx_task_init(&root.heap, walk_as_task, &root);
        } while (fx_submit(wood.pool, &root.heap) == FJ_NO_THREAD);
        fx_finish(&root.heap);
    }
    FJ_CHECK_EQ((uint64_t)root.heap.value, plain_walk(root.place));
}

static uint64_t plain_count(place_t place)
{
    uint64_t nodes = 1;
    for (uint32_t i = 0; i < children_of(place); i++) {
        nodes += plain_count(child_of(place, i));
    }
    return nodes;
}

static void one_wood(uint32_t kind, uint64_t seed)
{
    static const uint32_t rooms[] = {1 << 16, 0, 1, 3};
    fj_config_t config = fx_config(1 + kind % 5);
    fx_seam_set((fj_os_seam_t){.thread_start = fx_thread_start,
                               .wait = kind / 4 % 2 ? fx_unreliable_wait : NULL});
    fx_refuse_every = kind % 7 == 6 ? 3 : 0;
    config.fifo = kind % 2;
    config.hooks.start = has_little_room;
    config.hooks.may_nest = kind % 6 == 5 ? never : NULL;
    wood.room = rooms[kind % 4];
    wood.tasks = kind % 6 != 5 && kind % 3 != 0; /* who may not nest needs a thread a task */
    wood.seed = seed;
    fj_store_relaxed(&wood.nodes, 0);
    wood.pool = fx_pool(&config);
    fj_test_together(ROOTS, walk_a_tree, NULL);
    uint64_t expected = 0;
    for (uint64_t i = 0; i < ROOTS; i++) {
        expected += plain_count((place_t){4 + i, DEPTH, 0});
    }
    FJ_CHECK_EQ(fj_load_relaxed(&wood.nodes), expected);
    fx_pool_end(wood.pool);
    fx_seam_clear();
}

/* Trees of calls, frames and tasks, on workers and guests, with and without room, threads and
 * reliable waits: each node runs once, each result arrives, and joiners run descendants only. */
FJ_TEST(spawn, random_trees_give_the_sequential_result)
{
    uint64_t random = fj_test_seed();
    for (uint32_t kind = 0; kind < (FJ_TEST_SANITIZED ? 42u : 210u); kind++) {
        one_wood(kind, fj_test_random(&random));
    }
}
