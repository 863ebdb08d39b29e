/* test_deque.c - the work-stealing deque: order, growth, each entry once. */
#include "fixture.h"

#include "fj_deque.h"
#include "fj_task.h"

enum { MANY = 300 };

static struct {
    fj_deque_t deque;
    fx_task_t tasks[MANY];
} own;

static fj_task_t *task(size_t i)
{
    return &own.tasks[i].task;
}

/* A deque of two slots whose indices wrap after five entries, and tasks to put into it. */
static void prepare_some(size_t limit, size_t n)
{
    FJ_CHECK_EQ(fj_deque_init(&own.deque, 2, limit, SIZE_MAX - 4), FJ_OK);
    for (size_t i = 0; i < n; i++) {
        fx_task_init(&own.tasks[i], NULL, NULL);
        FJ_CHECK(fj_task_try_queue(task(i), NULL));
    }
}

static void prepare(size_t limit)
{
    prepare_some(limit, MANY);
}

static void push(size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        FJ_CHECK_EQ(fj_deque_push(&own.deque, task(i)), FJ_OK);
    }
}

/* ---- one thread: order ---- */

/* The owner takes its newest entry first, also when the array grew and the indices wrapped. */
FJ_TEST(deque, pop_takes_the_newest)
{
    prepare(1024);
    push(0, MANY);
    for (size_t i = MANY; i-- > 0;) {
        FJ_CHECK_EQ(fj_deque_pop(&own.deque), task(i));
    }
    FJ_CHECK_EQ(fj_deque_pop(&own.deque), NULL);
    FJ_CHECK_EQ(fj_deque_size(&own.deque), 0);
    fj_deque_destroy(&own.deque);
}

/* Thieves take the oldest entry first, also when the array grew and the indices wrapped. */
FJ_TEST(deque, poll_takes_the_oldest)
{
    prepare(1024);
    push(0, MANY);
    for (size_t i = 0; i < MANY; i++) {
        FJ_CHECK_EQ(fj_deque_poll(&own.deque), task(i));
    }
    FJ_CHECK_EQ(fj_deque_poll(&own.deque), NULL);
    fj_deque_destroy(&own.deque);
}

/* The same operations on a plain list: head .. tail are the tasks' numbers. */
typedef struct model {
    size_t list[MANY * 200], head, tail;
} model_t;

static size_t size(const model_t *model)
{
    return model->tail - model->head;
}

static void do_one(model_t *model, uint64_t random, size_t *next)
{
    size_t some = (size_t)(random >> 8) % MANY;
    size_t newest = size(model) ? model->list[model->tail - 1] : MANY;
    size_t oldest = size(model) ? model->list[model->head] : MANY;
    switch (random % 9) {
    case 0:
        FJ_CHECK_EQ(fj_deque_pop(&own.deque), size(model) ? task(newest) : NULL);
        model->tail -= size(model) != 0;
        break;
    case 1:
        FJ_CHECK_EQ(fj_deque_poll(&own.deque), size(model) ? task(oldest) : NULL);
        model->head += size(model) != 0;
        break;
    case 2:
        FJ_CHECK_EQ(fj_deque_try_unpush(&own.deque, task(some)), some == newest);
        model->tail -= some == newest;
        break;
    case 3:
        FJ_CHECK_EQ(fj_deque_try_take_oldest(&own.deque, task(some)), some == oldest);
        model->head += some == oldest;
        break;
    case 4:
        FJ_CHECK_EQ(fj_deque_peek(&own.deque, false), size(model) ? task(newest) : NULL);
        FJ_CHECK_EQ(fj_deque_peek(&own.deque, true), size(model) ? task(oldest) : NULL);
        break;
    default:
        if (size(model) < 32) {
            FJ_CHECK_EQ(fj_deque_push(&own.deque, task(*next)), FJ_OK);
            model->list[model->tail++] = *next;
            *next = (*next + 1) % MANY;
        }
    }
    FJ_CHECK_EQ(fj_deque_size(&own.deque), size(model));
}

/* Any sequence of operations by one thread gives what a plain list gives. */
FJ_TEST(deque, behaves_like_a_list)
{
    static model_t model;
    uint64_t random = fj_test_seed();
    for (int round = 0; round < 20; round++) {
        size_t next = 0;
        model = (model_t){.head = 0};
        prepare(64);
        for (int i = 0; i < FJ_TEST_ROUNDS(10000); i++) {
            do_one(&model, fj_test_random(&random), &next);
        }
        fj_deque_destroy(&own.deque);
    }
}

/* try_unpush takes a task off only if it lies on top. */
FJ_TEST(deque, try_unpush_takes_only_the_top)
{
    prepare(1024);
    FJ_CHECK(!fj_deque_try_unpush(&own.deque, task(0)));
    push(0, 3);
    FJ_CHECK(!fj_deque_try_unpush(&own.deque, task(0)));
    FJ_CHECK(!fj_deque_try_unpush(&own.deque, task(1)));
    FJ_CHECK(fj_deque_try_unpush(&own.deque, task(2)));
    FJ_CHECK(!fj_deque_try_unpush(&own.deque, task(2)));
    FJ_CHECK(fj_deque_try_unpush(&own.deque, task(1)));
    FJ_CHECK(fj_deque_try_unpush(&own.deque, task(0)));
    FJ_CHECK_EQ(fj_deque_size(&own.deque), 0);
    fj_deque_destroy(&own.deque);
}

/* try_take_oldest takes a task off only if it is the next that a thief would get. */
FJ_TEST(deque, try_take_oldest_takes_only_the_base)
{
    prepare(1024);
    FJ_CHECK(!fj_deque_try_take_oldest(&own.deque, task(0)));
    push(0, 3);
    FJ_CHECK(!fj_deque_try_take_oldest(&own.deque, task(1)));
    FJ_CHECK(!fj_deque_try_take_oldest(&own.deque, task(2)));
    FJ_CHECK(fj_deque_try_take_oldest(&own.deque, task(0)));
    FJ_CHECK(!fj_deque_try_take_oldest(&own.deque, task(0)));
    FJ_CHECK_EQ(fj_deque_poll(&own.deque), task(1));
    fj_deque_destroy(&own.deque);
}

/* ---- one thread: limits ---- */

/* A queue never holds more than its limit, even when its first array would be larger. */
FJ_TEST(deque, the_limit_also_bounds_the_first_array)
{
    fj_deque_t deque;
    fx_task_t some;
    fx_task_init(&some, NULL, NULL);
    FJ_CHECK_EQ(fj_deque_init(&deque, 64, 4, 0), FJ_OK);
    for (int i = 0; i < 4; i++) {
        FJ_CHECK_EQ(fj_deque_push(&deque, &some.task), FJ_OK);
    }
    FJ_CHECK_EQ(fj_deque_push(&deque, &some.task), FJ_QUEUE_FULL);
    fj_deque_destroy(&deque);
}

/* A full queue refuses an entry and keeps all it has; one taken out makes room for one. */
FJ_TEST(deque, a_full_queue_refuses_and_loses_nothing)
{
    prepare(8);
    push(0, 8);
    for (int i = 0; i < 3; i++) {
        FJ_CHECK_EQ(fj_deque_push(&own.deque, task(8)), FJ_QUEUE_FULL);
        FJ_CHECK_EQ(fj_deque_size(&own.deque), 8);
    }
    FJ_CHECK_EQ(fj_deque_poll(&own.deque), task(0));
    push(8, 9);
    FJ_CHECK_EQ(fj_deque_push(&own.deque, task(9)), FJ_QUEUE_FULL);
    FJ_CHECK_EQ(fj_deque_pop(&own.deque), task(8));
    for (size_t i = 1; i < 8; i++) {
        FJ_CHECK_EQ(fj_deque_poll(&own.deque), task(i));
    }
    fj_deque_destroy(&own.deque);
}

/* ---- tombstones ---- */

/* A sweep drops what was claimed or cancelled elsewhere, and leaves the rest in order. */
FJ_TEST(deque, a_sweep_drops_only_tombstones)
{
    prepare(1024);
    push(0, 100);
    for (size_t i = 0; i < 100; i++) {
        if (i % 3 == 1) {
            FJ_CHECK(fj_task_try_claim(task(i)));
        } else if (i % 3 == 2) {
            FJ_CHECK(fj_task_try_cancel(task(i)));
        }
    }
    FJ_CHECK_EQ(fj_deque_sweep(&own.deque), NULL);
    FJ_CHECK_EQ(fj_deque_size(&own.deque), 34);
    for (size_t i = 0; i < 100; i++) {
        FJ_CHECK_EQ(fx_read(&own.tasks[i].drops), i % 3 != 0);
        if (i % 3 == 0) {
            FJ_CHECK_EQ(fj_deque_poll(&own.deque), task(i));
        }
    }
    FJ_CHECK_EQ(fj_deque_sweep(&own.deque), NULL);
    FJ_CHECK_EQ(fj_deque_size(&own.deque), 0);
    fj_deque_destroy(&own.deque);
}

/* A sweep lifts no entry over the mark of a running task: who helps that task takes no stranger. */
FJ_TEST(deque, a_sweep_lifts_nothing_over_a_mark)
{
    fx_task_t awaited;
    fx_task_init(&awaited, NULL, NULL);
    for (size_t strangers = 1; strangers <= 3; strangers++) {
        prepare(1024);
        push(0, strangers);
        size_t mark = fj_load_relaxed(&own.deque.top);
        push(strangers, strangers + 2);
        FJ_CHECK(fj_task_try_claim(task(strangers)));
        FJ_CHECK(fj_task_try_cancel(task(strangers + 1)));
        FJ_CHECK_EQ(fj_deque_sweep(&own.deque), NULL);
        for (size_t i = 0; i < strangers; i++) {
            FJ_CHECK_EQ(fj_deque_poll_descendant(&own.deque, (uint32_t)mark, &awaited.task), NULL);
            FJ_CHECK_EQ(fj_deque_poll(&own.deque), task(i));
        }
        fj_deque_destroy(&own.deque);
    }
}

/* ---- descendants ---- */

/* Helping takes what lies at or above the mark, oldest first, and nothing below it. */
FJ_TEST(deque, poll_descendant_takes_nothing_below_the_mark)
{
    fx_task_t awaited;
    fx_task_init(&awaited, NULL, NULL);
    prepare(1024);
    push(0, 2);
    size_t mark = fj_load_relaxed(&own.deque.top);
    push(2, 6);                                  /* these indices wrap */
    FJ_CHECK_EQ(fj_deque_poll_descendant(&own.deque, (uint32_t)mark, &awaited.task), NULL);
    FJ_CHECK_EQ(fj_deque_poll(&own.deque), task(0));
    FJ_CHECK_EQ(fj_deque_poll_descendant(&own.deque, (uint32_t)mark, &awaited.task), NULL);
    FJ_CHECK_EQ(fj_deque_poll(&own.deque), task(1));
    for (size_t i = 2; i < 6; i++) {
        FJ_CHECK_EQ(fj_deque_poll_descendant(&own.deque, (uint32_t)mark, &awaited.task), task(i));
    }
    FJ_CHECK_EQ(fj_deque_poll_descendant(&own.deque, (uint32_t)mark, &awaited.task), NULL);
    fj_deque_destroy(&own.deque);
}

/* Once the awaited task is done nothing that lies there is known to descend from it. */
FJ_TEST(deque, poll_descendant_takes_nothing_once_it_is_done)
{
    for (fj_state_t state = FJ_NORMAL; state <= FJ_CANCELLED; state++) {
        fx_task_t awaited;
        fx_task_init(&awaited, NULL, NULL);
        prepare(1024);
        push(0, 1);
        FJ_CHECK(fj_task_complete(&awaited.task, state));
        FJ_CHECK_EQ(fj_deque_poll_descendant(&own.deque, UINT32_MAX - 4, &awaited.task), NULL);
        FJ_CHECK_EQ(fj_deque_size(&own.deque), 1);
        fj_deque_destroy(&own.deque);
    }
}

/* ---- one owner, many thieves ---- */

enum { THIEVES = 3, DEQUES = 100, BATCH = 200 };

/* Deques of two slots that are used one after the other, so that growth meets thieves often. */
static struct {
    fj_deque_t deques[DEQUES];
    fx_task_t tasks[DEQUES][BATCH];
    fj_word_t taken[DEQUES][BATCH];
    _Atomic(unsigned) at;
    fx_task_t awaited;
} prey;

static void take(unsigned d, fj_task_t *entry)
{
    if (entry != NULL) {
        fx_task_t *taken = FJ_CONTAINER(entry, fx_task_t, task);
        FJ_CHECK_LT((size_t)(taken - prey.tasks[d]), BATCH);
        FJ_CHECK_EQ(taken->value, (int64_t)d);   /* plain: written before the push */
        (void)fj_add_relaxed(&prey.taken[d][taken - prey.tasks[d]], 1);
    }
}

/* Pushes bursts, takes some back in every way an owner has, and lets the last ones be fought for. */
static void own_it(unsigned d, uint64_t *random)
{
    fj_deque_t *deque = &prey.deques[d];
    for (unsigned next = 0; next < BATCH;) {
        for (uint64_t burst = 1 + fj_test_random(random) % 5; burst > 0 && next < BATCH; burst--) {
            prey.tasks[d][next].value = d;
            FJ_CHECK_EQ(fj_deque_push(deque, &prey.tasks[d][next++].task), FJ_OK);
        }
        for (uint64_t back = fj_test_random(random) % 6; back > 0; back--) {
            fj_task_t *newest = &prey.tasks[d][next - 1].task;
            switch (fj_test_random(random) % 8) {
            case 0: take(d, fj_deque_poll(deque)); break;
            case 1: take(d, fj_deque_try_unpush(deque, newest) ? newest : NULL); break;
            case 2: take(d, fj_deque_try_take_oldest(deque, newest) ? newest : NULL); break;
            case 3: take(d, fj_deque_sweep(deque)); break;
            default: take(d, fj_deque_pop(deque));
            }
        }
    }
    fj_task_t *entry;
    while ((entry = fj_deque_pop(deque)) != NULL) {
        take(d, entry);
    }
}

static void own_or_steal(unsigned index, void *unused)
{
    uint64_t random = fj_test_seed() + index;
    (void)unused;
    if (index == 0) {
        for (unsigned d = 0; d < DEQUES; d++) {
            fj_store_release(&prey.at, d);       /* pairs with the load below */
            own_it(d, &random);
        }
        fj_store_release(&prey.at, DEQUES);
        return;
    }
    unsigned d;
    while ((d = fj_load_acquire(&prey.at)) < DEQUES) {
        fj_deque_t *deque = &prey.deques[d];
        take(d, index == 1 ? fj_deque_poll_descendant(deque, UINT32_MAX - 2, &prey.awaited.task)
                           : fj_deque_poll(deque));
    }
}

static void check_each_taken_once(void)
{
    fx_task_init(&prey.awaited, NULL, NULL);
    for (unsigned d = 0; d < DEQUES; d++) {
        FJ_CHECK_EQ(fj_deque_init(&prey.deques[d], 2, 1024, SIZE_MAX - 2), FJ_OK);
        for (unsigned i = 0; i < BATCH; i++) {
            fx_task_init(&prey.tasks[d][i], NULL, NULL);
            FJ_CHECK(fj_task_try_queue(&prey.tasks[d][i].task, NULL));
            fj_store_relaxed(&prey.taken[d][i], 0);
        }
    }
    fj_store_relaxed(&prey.at, 0);
    fj_test_together(1 + THIEVES, own_or_steal, NULL);
    for (unsigned d = 0; d < DEQUES; d++) {
        for (unsigned i = 0; i < BATCH; i++) {
            FJ_CHECK_EQ(fx_read(&prey.taken[d][i]), 1);
        }
        fj_deque_destroy(&prey.deques[d]);
    }
}

enum { STRANGERS = 2, OWN = 2 };

static struct {
    _Atomic(unsigned) begun, stolen;            /* rounds */
    fx_task_t awaited;
} raid;

static void sweep_beside_a_thief(unsigned round, uint64_t *random)
{
    prepare_some(1024, STRANGERS + OWN);
    push(0, STRANGERS);
    size_t mark = fj_load_relaxed(&own.deque.top);
    push(STRANGERS, STRANGERS + OWN);
    for (size_t i = STRANGERS; i < STRANGERS + OWN; i++) {
        FJ_CHECK(fj_task_try_claim(task(i)));
    }
    fj_store_release(&raid.begun, round);        /* pairs with steal_one_each_time */
    for (uint64_t k = fj_test_random(random) % 32; k > 0; k--) {
        fj_spin_hint();
    }
    fj_task_t *homeless = fj_deque_sweep(&own.deque);
    FJ_CHECK(homeless == NULL || fj_task_state(homeless) == FJ_QUEUED);
    FJ_CHECK_EQ(fj_deque_poll_descendant(&own.deque, (uint32_t)mark, &raid.awaited.task), NULL);
    FX_SPIN_UNTIL(fj_load_acquire(&raid.stolen) == round); /* pairs with steal_one_each_time */
    fj_deque_destroy(&own.deque);
}

static void steal_one_each_time(uint64_t *random)
{
    for (unsigned round = 1; round <= (unsigned)FJ_TEST_ROUNDS(5000); round++) {
        FX_SPIN_UNTIL(fj_load_acquire(&raid.begun) == round); /* pairs with sweep_beside_a_thief */
        for (uint64_t k = fj_test_random(random) % 32; k > 0; k--) {
            fj_spin_hint();
        }
        (void)fj_deque_poll(&own.deque);
        fj_store_release(&raid.stolen, round);   /* pairs with sweep_beside_a_thief */
    }
}

static void sweep_or_steal(unsigned index, void *unused)
{
    uint64_t random = fj_test_seed() + index;
    (void)unused;
    if (index == 1) {
        steal_one_each_time(&random);
        return;
    }
    for (unsigned round = 1; round <= (unsigned)FJ_TEST_ROUNDS(5000); round++) {
        sweep_beside_a_thief(round, &random);
    }
}

/* A sweep lifts nothing over a mark, whatever thieves take meanwhile. */
FJ_TEST(deque, a_sweep_beside_thieves_lifts_nothing_over_a_mark)
{
    fx_task_init(&raid.awaited, NULL, NULL);
    raid.begun = raid.stolen = 0;
    fj_test_together(2, sweep_or_steal, NULL);
}

/* However owner and thieves race, each entry is taken exactly once. */
FJ_TEST(deque, each_entry_is_taken_once)
{
    for (int round = 0; round < FJ_TEST_ROUNDS(60); round++) {
        check_each_taken_once();
    }
}
