/* test_registry.c - places for workers: used again, never moved, all of them looked at. */
#include "fixture.h"

#include "fj_deque.h"
#include "fj_lane.h"
#include "fj_registry.h"

enum { CROWD = 2 * FJ_SEGMENT + 2 };

/* A place that was left is the next one given out, and no new one is made while one is free. */
FJ_TEST(registry, places_are_used_again)
{
    fj_pool_t *pool = fx_pool_of(1);
    fj_worker_t *workers[4];
    for (uint32_t i = 0; i < 3; i++) {
        workers[i] = fj_registry_enter(pool, false);
        FJ_CHECK_EQ(workers[i]->index, i);
        FJ_CHECK_EQ(fj_registry_high(pool), i + 1);
    }
    fj_registry_leave(workers[1]);
    fj_registry_leave(workers[0]);
    workers[0] = fj_registry_enter(pool, true);
    workers[1] = fj_registry_enter(pool, false);
    FJ_CHECK_EQ(workers[0]->index + workers[1]->index, 1);
    FJ_CHECK(workers[0]->guest && !workers[1]->guest);
    FJ_CHECK_EQ(fj_registry_high(pool), 3);
    workers[3] = fj_registry_enter(pool, false);
    FJ_CHECK_EQ(workers[3]->index, 3);
    for (int i = 0; i < 4; i++) {
        fj_registry_leave(workers[i]);
    }
    fx_pool_end(pool);
}

/* More workers than one segment holds are all found by their index, before and after they left. */
FJ_TEST(registry, a_worker_is_found_by_its_index)
{
    fj_pool_t *pool = fx_pool_of(1);
    fj_worker_t *workers[CROWD];
    for (uint32_t i = 0; i < CROWD; i++) {
        workers[i] = fj_registry_enter(pool, false);
        FJ_CHECK(workers[i] != NULL);
        FJ_CHECK_EQ(workers[i]->pool, pool);
    }
    for (uint32_t i = 0; i < CROWD; i++) {
        FJ_CHECK_EQ(fj_registry_worker(pool, i), workers[i]);
        FJ_CHECK_EQ(workers[i]->index, i);
        fj_registry_leave(workers[i]);
        FJ_CHECK_EQ(fj_registry_worker(pool, i), workers[i]);
    }
    fx_pool_end(pool);
}

enum { THREADS = 8 };

static void come_and_go(unsigned index, void *argument)
{
    fj_pool_t *pool = argument;
    for (int i = 0; i < FJ_TEST_ROUNDS(10000); i++) {
        fj_worker_t *worker = fj_registry_enter(pool, index % 2);
        FJ_CHECK_EQ(worker->local, NULL);        /* plain: a place has one owner at a time */
        worker->local = worker;
        FJ_CHECK_EQ(fj_registry_worker(pool, worker->index), worker);
        FJ_CHECK_LT(worker->index, fj_registry_high(pool));
        (void)fj_registry_has_work(pool);
        worker->local = NULL;
        fj_registry_leave(worker);
    }
}

/* However workers come and go, a place has one owner, and there are as many as were in use at once. */
FJ_TEST(registry, places_are_exclusive_and_bounded)
{
    fj_pool_t *pool = fx_pool_of(1);
    fj_test_together(THREADS, come_and_go, pool);
    FJ_CHECK_LE(fj_registry_high(pool), THREADS);
    fx_pool_end(pool);
}

/* Work is seen wherever it lies: in the lane, in any deque, in any inbox, also of one who left. */
FJ_TEST(registry, work_is_seen_wherever_it_lies)
{
    fj_pool_t *pool = fx_pool_of(1);
    fx_task_t task;
    fj_task_t *one = &task.task;
    fx_task_init(&task, NULL, NULL);
    FJ_CHECK(!fj_registry_has_work(pool));
    FJ_CHECK_EQ(fj_lane_submit(&pool->lane, &one, 1, false), FJ_OK);
    FJ_CHECK(fj_registry_has_work(pool));
    FJ_CHECK_EQ(fj_lane_take(&pool->lane), one);
    FJ_CHECK(!fj_registry_has_work(pool));
    for (uint32_t i = 0; i < FJ_SEGMENT + 1; i++) {
        fj_worker_t *worker = fj_registry_enter(pool, i % 2);
        FJ_CHECK(!fj_registry_has_work(pool));
        FJ_CHECK_EQ(fj_deque_push(&worker->deque, one), FJ_OK);
        FJ_CHECK(fj_registry_has_work(pool));
        FJ_CHECK_EQ(fj_deque_pop(&worker->deque), one);
        FJ_CHECK_EQ(fj_deque_push(&worker->inbox, one), FJ_OK);
        FJ_CHECK(fj_registry_has_work(pool));
        FJ_CHECK_EQ(fj_deque_poll(&worker->inbox), one);
    }
    fj_worker_t *last = fj_registry_worker(pool, FJ_SEGMENT);
    FJ_CHECK_EQ(fj_deque_push(&last->deque, one), FJ_OK);
    fj_registry_leave(last);
    FJ_CHECK(fj_registry_has_work(pool));
    FJ_CHECK_EQ(fj_deque_poll(&last->deque), one);
    FJ_CHECK(!fj_registry_has_work(pool));
    fx_pool_end(pool);
}
