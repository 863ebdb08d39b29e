/* test_lane.c - what threads outside hand in: order, limit, closing, taking back. */
#include "fixture.h"

#include "fj_lane.h"
#include "fj_task.h"

#include <string.h>

enum { MANY = 200 };

static struct {
    fj_lane_t lane;
    fx_task_t tasks[MANY];
    fj_task_t *list[MANY];
} out;

static void prepare(size_t limit)
{
    fj_lane_init(&out.lane, limit);
    for (size_t i = 0; i < MANY; i++) {
        fx_task_init(&out.tasks[i], NULL, NULL);
        out.list[i] = &out.tasks[i].task;
        FJ_CHECK(fj_task_try_queue(out.list[i], NULL));
    }
}

static fj_status_t submit(size_t from, size_t to)
{
    return fj_lane_submit(&out.lane, out.list + from, to - from, false);
}

static void check_next(size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        FJ_CHECK_EQ(fj_lane_take(&out.lane), out.list[i]);
    }
}

/* Tasks leave in the order in which they came, also when the ring wraps and grows. */
FJ_TEST(lane, takes_in_order)
{
    prepare(MANY);
    FJ_CHECK_EQ(fj_lane_take(&out.lane), NULL);
    FJ_CHECK_EQ(submit(0, 60), FJ_OK);
    check_next(0, 50);
    FJ_CHECK_EQ(submit(60, 100), FJ_OK);
    FJ_CHECK_EQ(fj_lane_size(&out.lane), 50);
    FJ_CHECK_EQ(submit(100, 101), FJ_OK);
    FJ_CHECK_EQ(submit(101, MANY), FJ_OK);
    check_next(50, MANY);
    FJ_CHECK_EQ(fj_lane_take(&out.lane), NULL);
    FJ_CHECK_EQ(fj_lane_size(&out.lane), 0);
    fj_lane_destroy(&out.lane);
}

/* A batch goes in whole or not at all. */
FJ_TEST(lane, a_batch_enters_whole_or_not_at_all)
{
    prepare(10);
    FJ_CHECK_EQ(submit(0, 11), FJ_QUEUE_FULL);
    FJ_CHECK_EQ(submit(0, 6), FJ_OK);
    FJ_CHECK_EQ(submit(6, 11), FJ_QUEUE_FULL);
    FJ_CHECK_EQ(fj_lane_size(&out.lane), 6);
    FJ_CHECK_EQ(submit(6, 10), FJ_OK);
    FJ_CHECK_EQ(submit(10, 11), FJ_QUEUE_FULL);
    check_next(0, 1);
    FJ_CHECK_EQ(submit(10, 12), FJ_QUEUE_FULL);
    FJ_CHECK_EQ(submit(10, 11), FJ_OK);
    check_next(1, 11);
    FJ_CHECK_EQ(fj_lane_take(&out.lane), NULL);
    fj_lane_destroy(&out.lane);
}

/* A closed lane takes nothing from outside, still takes from inside, and gives out what it has. */
FJ_TEST(lane, a_closed_lane_refuses_outsiders_only)
{
    prepare(MANY);
    FJ_CHECK_EQ(submit(0, 1), FJ_OK);
    fj_lane_close(&out.lane);
    FJ_CHECK_EQ(submit(1, 2), FJ_REJECTED);
    FJ_CHECK_EQ(fj_lane_submit(&out.lane, out.list + 1, 1, true), FJ_OK);
    fj_lane_close(&out.lane);
    FJ_CHECK_EQ(fj_lane_submit(&out.lane, out.list + 2, 1, true), FJ_OK);
    check_next(0, 3);
    FJ_CHECK_EQ(fj_lane_take(&out.lane), NULL);
    fj_lane_destroy(&out.lane);
}

/* A task can be taken back from any position, also where the ring wraps; the others stay in order. */
FJ_TEST(lane, withdraw_closes_the_gap)
{
    for (size_t gone = 50; gone < 100; gone++) {
        prepare(64);
        FJ_CHECK_EQ(submit(0, 50), FJ_OK);
        check_next(0, 50);
        FJ_CHECK(!fj_lane_withdraw(&out.lane, out.list[gone]));
        FJ_CHECK_EQ(submit(50, 100), FJ_OK);     /* from slot 50 to slot 35 of 64 */
        FJ_CHECK(!fj_lane_withdraw(&out.lane, out.list[0]));
        FJ_CHECK(fj_lane_withdraw(&out.lane, out.list[gone]));
        FJ_CHECK(!fj_lane_withdraw(&out.lane, out.list[gone]));
        FJ_CHECK_EQ(fj_lane_size(&out.lane), 49);
        check_next(50, gone);
        check_next(gone + 1, 100);
        FJ_CHECK_EQ(fj_lane_take(&out.lane), NULL);
        fj_lane_destroy(&out.lane);
    }
}

/* take_tombstone removes the oldest entry only if its task was claimed or cancelled. */
FJ_TEST(lane, take_tombstone_leaves_the_living)
{
    prepare(MANY);
    FJ_CHECK_EQ(fj_lane_take_tombstone(&out.lane), NULL);
    FJ_CHECK_EQ(submit(0, 4), FJ_OK);
    FJ_CHECK(fj_task_try_claim(out.list[1]));
    FJ_CHECK_EQ(fj_lane_take_tombstone(&out.lane), NULL);
    FJ_CHECK(fj_task_try_cancel(out.list[0]));
    FJ_CHECK_EQ(fj_lane_take_tombstone(&out.lane), out.list[0]);
    FJ_CHECK_EQ(fj_lane_take_tombstone(&out.lane), out.list[1]);
    FJ_CHECK_EQ(fj_lane_take_tombstone(&out.lane), NULL);
    check_next(2, 4);
    fj_lane_destroy(&out.lane);
}

/* ---- many threads ---- */

enum { PRODUCERS = 4, CONSUMERS = 2, EACH = 5000 };

static struct {
    fj_lane_t lane;
    fx_task_t tasks[PRODUCERS][EACH];
    fj_word_t out[PRODUCERS][EACH];             /* how often it came out, by whatever way */
    unsigned each;
    fj_word_t producing, withdrawn, naps;
    size_t most;                                /* producers wait for room under that, if not 0 */
} busy;

static void hand_in(fj_task_t *const *batch, unsigned n)
{
    if (busy.most == 0) {
        while (fj_lane_submit(&busy.lane, batch, n, false) != FJ_OK) {
            fx_nap();                            /* full */
        }
        return;
    }
    fj_status_t status;
    while ((status = fj_lane_offer(&busy.lane, batch, n, busy.most)) != FJ_OK) {
        FJ_CHECK_EQ(status, FJ_NO_ROOM);
        fx_bump(&busy.naps);
        status = fj_lane_await_room(&busy.lane, n, busy.most, fj_os_real_now() + FX_PATIENCE);
        FJ_CHECK(status == FJ_OK || status == FJ_INTERRUPTED);
    }
}

static void produce(unsigned p, bool withdraw)
{
    uint64_t random = fj_test_seed() + p;
    for (unsigned i = 0; i < busy.each;) {
        fj_task_t *batch[3];
        unsigned n = 1 + (unsigned)(fj_test_random(&random) % 3);
        n = n > busy.each - i ? busy.each - i : n;
        for (unsigned k = 0; k < n; k++) {
            busy.tasks[p][i + k].value = p * (int64_t)EACH + i + k;
            batch[k] = &busy.tasks[p][i + k].task;
        }
        hand_in(batch, n);
        if (withdraw && fj_lane_withdraw(&busy.lane, batch[n - 1])) {
            fx_bump(&busy.out[p][i + n - 1]);
            fx_bump(&busy.withdrawn);
        }
        i += n;
    }
    (void)fj_sub_acqrel(&busy.producing, 1);     /* pairs with the look in consume */
}

static void consume(void)
{
    int64_t last[PRODUCERS];
    memset(last, 0xff, sizeof last);
    for (;;) {
        bool over = fx_read(&busy.producing) == 0;
        FJ_CHECK(busy.most == 0 || fj_lane_size(&busy.lane) <= busy.most);
        fj_task_t *entry = fj_lane_take(&busy.lane);
        if (entry != NULL) {
            int64_t value = FJ_CONTAINER(entry, fx_task_t, task)->value;
            int64_t p = value / EACH, i = value % EACH;
            FJ_CHECK_GT(i, last[p]);
            last[p] = i;
            fx_bump(&busy.out[p][i]);
        } else if (over) {
            return;
        }
    }
}

static void produce_or_consume(unsigned index, void *withdraw)
{
    if (index < PRODUCERS) {
        produce(index, *(bool *)withdraw);
    } else {
        consume();
    }
}

static void check_threads(bool withdraw)
{
    busy.each = FJ_TEST_ROUNDS(EACH);
    fj_lane_init(&busy.lane, 100);
    fj_store_relaxed(&busy.producing, PRODUCERS);
    fj_store_relaxed(&busy.withdrawn, 0);
    memset((void *)busy.out, 0, sizeof busy.out);
    for (unsigned p = 0; p < PRODUCERS; p++) {
        for (unsigned i = 0; i < busy.each; i++) {
            fx_task_init(&busy.tasks[p][i], NULL, NULL);
        }
    }
    fj_test_together(PRODUCERS + CONSUMERS, produce_or_consume, &withdraw);
    for (unsigned p = 0; p < PRODUCERS; p++) {
        for (unsigned i = 0; i < busy.each; i++) {
            FJ_CHECK_EQ(fx_read(&busy.out[p][i]), 1);
        }
    }
    fj_lane_destroy(&busy.lane);
}

/* Each consumer gets every producer's tasks in the order they were handed in, each task once. */
FJ_TEST(lane, each_producers_tasks_stay_in_order)
{
    check_threads(false);
}

/* Threads that wait for room come in as it appears: nobody sleeps on, and the limit is exact. */
FJ_TEST(lane, waiting_for_room_ends_with_room)
{
    for (busy.most = 3; busy.most <= 9; busy.most += 3) {
        fj_store_relaxed(&busy.naps, 0);
        check_threads(busy.most == 6);
    }
    busy.most = 0;
}

/* Whoever waits for room learns that the lane is closed, that time is up, and that there is room. */
FJ_TEST(lane, a_wait_for_room_ends)
{
    prepare(MANY);
    FJ_CHECK_EQ(fj_lane_offer(&out.lane, out.list, 2, 3), FJ_OK);
    FJ_CHECK_EQ(fj_lane_await_room(&out.lane, 1, 3, FJ_FOREVER), FJ_OK);
    FJ_CHECK_EQ(fj_lane_offer(&out.lane, out.list + 2, 2, 3), FJ_NO_ROOM);
    FJ_CHECK_EQ(fj_lane_await_room(&out.lane, 2, 3, 0), FJ_TIMEOUT);
    check_next(0, 1);
    FJ_CHECK_EQ(fj_lane_await_room(&out.lane, 2, 3, FJ_FOREVER), FJ_OK);
    FJ_CHECK_EQ(fj_lane_offer(&out.lane, out.list + 2, 2, 3), FJ_OK);
    FJ_CHECK_EQ(submit(4, 10), FJ_OK);           /* no limit for others */
    FJ_CHECK_EQ(fj_lane_offer(&out.lane, out.list + 10, 1, 3), FJ_NO_ROOM);
    fj_lane_close(&out.lane);
    FJ_CHECK_EQ(fj_lane_await_room(&out.lane, 1, 3, FJ_FOREVER), FJ_OK);
    FJ_CHECK_EQ(fj_lane_offer(&out.lane, out.list + 10, 1, 3), FJ_REJECTED);
    check_next(1, 10);
    fj_lane_destroy(&out.lane);
}

/* A task that is withdrawn while others take comes out once, by one way or the other. */
FJ_TEST(lane, withdrawing_races_with_taking)
{
    check_threads(true);
    FJ_CHECK_GT(fx_read(&busy.withdrawn), 0);
}
