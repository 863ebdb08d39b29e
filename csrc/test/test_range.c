/* test_range.c - a leaf over an index range, split in halves. */
#include "fixture.h"

#include <stdlib.h>
#include <string.h>

/* ---- a job that accounts for all it makes ---- */

/* A leaf's value: which positions it stands for, and a hash that tells one tree from another. */
typedef struct span {
    int64_t lo, hi;
    uint64_t hash;
} span_t;

typedef struct job {
    fj_range_job_t job;
    fj_word_t leaves, combines, destroyed;
    fj_word_t made, gone;                       /* spans; equal when none is left */
    int64_t fails_at;                           /* the leaf with this position fails: 7 */
    int64_t joins_fail_at;                      /* the combine that meets there fails: 9 */
    int64_t stops_at;                           /* the leaf with this position ends its pool */
    int polls_left;                             /* then poll says 11; negative: never */
    fj_worker_t *guest;
    fj_word_t guest_leaves;
} job_t;

static job_t *job_of(fj_range_job_t *job)
{
    return FJ_CONTAINER(job, job_t, job);
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    uint64_t state = a * 31 + b;
    return fj_test_random(&state);
}

static bool within(int64_t position, int64_t lo, int64_t hi)
{
    return lo <= position && position < hi;
}

static int span_leaf(fj_range_job_t *job, fj_worker_t *worker, int64_t lo, int64_t hi,
                     fj_value_t *value)
{
    job_t *test = job_of(job);
    FJ_CHECK_LT(lo, hi);
    FJ_CHECK_EQ(worker, fj_current);
    fx_bump(&test->leaves);
    if (worker == test->guest) {
        fx_bump(&test->guest_leaves);
    }
    if (within(test->stops_at, lo, hi)) {
        fj_pool_stop(fj_worker_pool(worker));
    }
    if (within(test->fails_at, lo, hi)) {
        return 7;
    }
    span_t *span = malloc(sizeof *span);
    FJ_CHECK(span != NULL);
    *span = (span_t){lo, hi, mix((uint64_t)lo, (uint64_t)hi)};
    fx_bump(&test->made);
    value->p = span;
    return 0;
}

static void span_discard(fj_range_job_t *job, fj_value_t value)
{
    fx_bump(&job_of(job)->gone);
    free(value.p);
}

static int span_combine(fj_range_job_t *job, fj_value_t *left, fj_value_t right)
{
    span_t *l = left->p, *r = right.p;
    fx_bump(&job_of(job)->combines);
    FJ_CHECK_EQ(l->hi, r->lo);                   /* in order, nothing missing */
    if (r->lo == job_of(job)->joins_fail_at) {
        span_discard(job, *left);
        span_discard(job, right);
        return 9;
    }
    l->hash = mix(l->hash, r->hash);
    l->hi = r->hi;
    span_discard(job, right);
    return 0;
}

static void span_destroy(fj_range_job_t *job)
{
    fx_bump(&job_of(job)->destroyed);
}

static int span_poll(fj_range_job_t *job)
{
    job_t *test = job_of(job);
    return test->polls_left < 0 || test->polls_left-- > 0 ? 0 : 11;
}

static void job_init(job_t *test, int64_t start, int64_t n, int64_t chunk)
{
    memset(test, 0, sizeof *test);
    test->job = (fj_range_job_t){.start = start, .stop = start + n, .chunk = chunk,
                                 .leaf = span_leaf, .combine = span_combine,
                                 .discard = span_discard, .destroy = span_destroy,
                                 .poll = span_poll};
    test->fails_at = test->joins_fail_at = test->stops_at = INT64_MAX;
    test->polls_left = -1;
    fj_range_init(&test->job);
}

/* Frees the result, gives back the caller's reference: nothing may be left then. */
static void job_end(job_t *test)
{
    if (test->job.has_value) {
        span_discard(&test->job, test->job.value);
    }
    fj_range_release(&test->job);
    FX_AWAIT(&test->destroyed, 1);
    FJ_CHECK_EQ(fx_read(&test->destroyed), 1);
    FJ_CHECK_EQ(fx_read(&test->made), fx_read(&test->gone));
}

static void run_job(fx_task_t *task, fj_worker_t *worker)
{
    task->value = fj_range_run(task->argument, worker);
}

/* Runs the job inside a task of the pool and returns its code. */
static int run_in(fj_pool_t *pool, job_t *test)
{
    fx_task_t task;
    fx_run(pool, &task, run_job, &test->job);
    return (int)task.value;
}

/* ---- the result and its tree ---- */

static uint64_t sequential_hash(int64_t lo, int64_t hi, int64_t chunk)
{
    if (hi - lo <= chunk) {
        return mix((uint64_t)lo, (uint64_t)hi);
    }
    int64_t middle = lo + (hi - lo) / 2;
    return mix(sequential_hash(lo, middle, chunk), sequential_hash(middle, hi, chunk));
}

static uint32_t sequential_leaves(int64_t n, int64_t chunk)
{
    return n <= chunk ? 1
                      : sequential_leaves(n / 2, chunk) + sequential_leaves(n - n / 2, chunk);
}

static void check_result(job_t *test, int64_t start, int64_t n, int64_t chunk)
{
    FJ_CHECK(test->job.has_value);
    span_t *span = test->job.value.p;
    FJ_CHECK_EQ(span->lo, start);
    FJ_CHECK_EQ(span->hi, start + n);
    FJ_CHECK_EQ(span->hash, sequential_hash(start, start + n, chunk));
    FJ_CHECK_EQ(fx_read(&test->leaves), sequential_leaves(n, chunk));
    FJ_CHECK_EQ(fx_read(&test->combines), sequential_leaves(n, chunk) - 1);
}

static const int64_t sizes[] = {1, 2, 3, 7, 64, 100, 1000};
static const int64_t chunks[] = {1, 2, 3, 10, 99, 100, 2000};

static void check_all_sizes(fj_pool_t *pool)
{
    uint64_t leaves = 0;
    for (int s = 0; s < 7; s++) {
        for (int c = 0; c < 7; c++) {
            job_t test;
            job_init(&test, s - 3, sizes[s], chunks[c]);
            FJ_CHECK_EQ(run_in(pool, &test), 0);
            check_result(&test, s - 3, sizes[s], chunks[c]);
            leaves += fx_read(&test.leaves);
            job_end(&test);
        }
    }
    fx_pool_await_quiet(pool);
    FJ_CHECK_EQ(fj_pool_stats(pool).leaves, leaves);
}

/* For any size, chunk and number of workers: the sequential result, from the leaves and the tree
 * that halving gives. */
FJ_TEST(range, equals_the_sequential_result)
{
    for (uint32_t parallelism = 1; parallelism <= 4; parallelism++) {
        for (int fifo = 0; fifo < 2; fifo++) {
            fj_config_t config = fx_config(parallelism);
            config.fifo = fifo;
            fj_pool_t *pool = fx_pool(&config);
            check_all_sizes(pool);
            fx_pool_end(pool);
        }
    }
}

/* Where a queue has no room for a half it is computed in place, and the result is the same. */
FJ_TEST(range, a_full_queue_changes_nothing)
{
    for (uint32_t parallelism = 1; parallelism <= 3; parallelism++) {
        fj_config_t config = fx_config(parallelism);
        config.queue_capacity = 2;
        fj_pool_t *pool = fx_pool(&config);
        check_all_sizes(pool);
        fx_pool_end(pool);
    }
}

static int count_leaf(fj_range_job_t *job, fj_worker_t *worker, int64_t lo, int64_t hi,
                      fj_value_t *value)
{
    (void)worker;
    FJ_CHECK_LT(lo, hi);
    fx_bump(&job_of(job)->leaves);
    value->i = 1;
    return 0;
}

static int add(fj_range_job_t *job, fj_value_t *left, fj_value_t right)
{
    fx_bump(&job_of(job)->combines);
    left->i += right.i;
    return 0;
}

/* The widest range there is splits without overflow. */
FJ_TEST(range, the_widest_range_splits)
{
    fj_pool_t *pool = fx_pool_of(1);
    job_t test = {.job = {.start = INT64_MIN, .stop = INT64_MAX, .chunk = INT64_MAX / 2,
                          .leaf = count_leaf, .combine = add, .destroy = span_destroy}};
    fj_range_init(&test.job);
    FJ_CHECK_EQ(run_in(pool, &test), 0);
    FJ_CHECK_EQ(test.job.value.i, fx_read(&test.leaves));
    FJ_CHECK_GE(fx_read(&test.leaves), 4);
    fj_range_release(&test.job);
    fx_pool_end(pool);
    FJ_CHECK_EQ(fx_read(&test.destroyed), 1);
}

/* A whole job may be submitted: whoever waits for its root sees the result. */
FJ_TEST(range, may_be_submitted_whole)
{
    fj_pool_t *pool = fx_pool_of(2);
    for (int i = 0; i < FJ_TEST_ROUNDS(300); i++) {
        job_t test;
        job_init(&test, 0, 100, 10);
        fj_task_t *root = fj_range_root(&test.job, pool);
        FJ_CHECK_EQ(fj_pool_submit(pool, &root, 1), FJ_OK);
        FJ_CHECK_EQ(fj_join(NULL, root, fj_os_real_now() + FX_PATIENCE), FJ_OK);
        FJ_CHECK_EQ(fj_load_acquire(&test.job.code), 0);
        check_result(&test, 0, 100, 10);
        job_end(&test);
    }
    fx_pool_end(pool);
}

/* ---- failures ---- */

/* A leaf that fails is reported, and what has not started by then is skipped. */
FJ_TEST(range, a_failing_leaf_stops_the_rest)
{
    fj_pool_t *pool = fx_pool_of(1);
    job_t test;
    job_init(&test, 0, 1024, 1);
    test.fails_at = 1023;                        /* the last position, computed first */
    FJ_CHECK_EQ(run_in(pool, &test), 7);
    FJ_CHECK(!test.job.has_value);
    FJ_CHECK_EQ(fx_read(&test.leaves), 1);
    job_end(&test);
    fx_pool_end(pool);
}

/* Wherever a leaf or a combine fails, each value is combined, discarded or returned exactly once. */
FJ_TEST(range, a_failure_loses_no_value)
{
    for (uint32_t parallelism = 1; parallelism <= 3; parallelism++) {
        fj_pool_t *pool = fx_pool_of(parallelism);
        for (int64_t at = 0; at < FJ_TEST_ROUNDS(100); at++) {
            job_t test;
            job_init(&test, 0, 100, 1 + at % 7);
            test.fails_at = at;
            FJ_CHECK_EQ(run_in(pool, &test), 7);
            FJ_CHECK(!test.job.has_value);
            job_end(&test);
            job_init(&test, 0, 100, 1);
            test.joins_fail_at = at + 1;
            FJ_CHECK_EQ(run_in(pool, &test), at + 1 < 100 ? 9 : 0);
            FJ_CHECK_EQ(test.job.has_value, at + 1 >= 100);
            job_end(&test);
        }
        fx_pool_end(pool);
    }
}

/* A job that is failed from outside before it starts runs no leaf. */
FJ_TEST(range, can_be_failed_from_outside)
{
    fj_pool_t *pool = fx_pool_of(1);
    job_t test;
    job_init(&test, 0, 100, 1);
    fj_range_fail(&test.job, 5);
    fj_range_fail(&test.job, 6);                 /* the first code stays */
    FJ_CHECK_EQ(run_in(pool, &test), 5);
    FJ_CHECK_EQ(fx_read(&test.leaves), 0);
    job_end(&test);
    fx_pool_end(pool);
}

/* A pool that is stopped in the middle of a job ends the job, and no value is lost. */
FJ_TEST(range, a_stopped_pool_cancels_the_rest)
{
    for (int64_t at = 0; at < FJ_TEST_ROUNDS(100); at++) {
        fj_pool_t *pool = fx_pool_of(1 + (uint32_t)at % 3);
        job_t test;
        job_init(&test, 0, 100, 1);
        test.stops_at = at;
        int code = run_in(pool, &test);
        FJ_CHECK(code == FJ_RANGE_CANCELLED || code == 0);
        FJ_CHECK_EQ(test.job.has_value, code == 0);
        job_end(&test);
        fx_pool_await_end(pool);
        fx_pool_release(pool);
    }
}

/* A job that its pool cancels before it starts says so to whoever waits for it. */
FJ_TEST(range, a_queued_job_is_cancelled_with_its_pool)
{
    fj_pool_t *pool = fx_pool_of(0);
    job_t test;
    job_init(&test, 0, 100, 1);
    fj_task_t *root = fj_range_root(&test.job, pool);
    FJ_CHECK_EQ(fj_pool_submit(pool, &root, 1), FJ_OK);
    fj_pool_stop(pool);
    FJ_CHECK_EQ(fj_join(NULL, root, 0), FJ_OK);
    FJ_CHECK_EQ(fj_load_acquire(&test.job.code), FJ_RANGE_CANCELLED);
    FJ_CHECK_EQ(fx_read(&test.leaves), 0);
    job_end(&test);
    fx_pool_release(pool);
}

/* ---- a guest ---- */

static int run_as_guest(fj_pool_t *pool, job_t *test)
{
    fj_worker_t *guest = test->guest = fj_guest_enter(pool);
    int code = fj_range_run(&test->job, guest);
    fj_guest_leave(guest);
    return code;
}

/* A caller's thread takes part in its own job, alone or with workers, and gets the same result. */
FJ_TEST(range, a_guest_takes_part)
{
    for (uint32_t parallelism = 0; parallelism <= 2; parallelism++) {
        fj_pool_t *pool = fx_pool_of(parallelism);
        for (int i = 0; i < FJ_TEST_ROUNDS(100); i++) {
            job_t test;
            job_init(&test, 0, 100, 1);
            FJ_CHECK_EQ(run_as_guest(pool, &test), 0);
            FJ_CHECK_GT(fx_read(&test.guest_leaves), 0);
            FJ_CHECK(parallelism != 0 || fx_read(&test.guest_leaves) == fx_read(&test.leaves));
            check_result(&test, 0, 100, 1);
            job_end(&test);
        }
        fx_pool_end(pool);
    }
}

/* A guest looks up between leaves, and what it finds then can end the job. */
FJ_TEST(range, a_guest_may_end_it_between_leaves)
{
    for (uint32_t parallelism = 0; parallelism <= 2; parallelism++) {
        fj_pool_t *pool = fx_pool_of(parallelism);
        job_t test;
        job_init(&test, 0, 1000, 1);
        test.polls_left = 2;
        int code = run_as_guest(pool, &test);
        if (parallelism == 0) {
            FJ_CHECK_EQ(code, 11);
            FJ_CHECK_EQ(fx_read(&test.leaves), 3);
            FJ_CHECK(!test.job.has_value);
        }
        FJ_CHECK(code == 11 || code == 0);       /* the workers may have been quicker */
        job_end(&test);
        fx_pool_end(pool);
    }
}

static int leave(fj_range_job_t *job)
{
    (void)job;
    return FJ_RANGE_LEFT;
}

/* The worker is inside its leaf until `gate`; the guest's own begins once that is so. */
static fj_word_t inside, gate;

static int gated_leaf(fj_range_job_t *job, fj_worker_t *worker, int64_t lo, int64_t hi,
                      fj_value_t *value)
{
    if (worker == job_of(job)->guest) {
        FX_AWAIT(&inside, 1);
    } else {
        fx_bump(&inside);
        FX_AWAIT(&gate, 1);
    }
    return span_leaf(job, worker, lo, hi, value);
}

/* What others compute at that moment they finish, and no value of it is lost. */
FJ_TEST(range, a_guest_that_leaves_waits_for_nobody)
{
    fj_pool_t *pool = fx_pool_of(1);
    job_t test;
    job_init(&test, 0, 2, 1);
    test.job.leaf = gated_leaf;
    test.job.poll = leave;
    fj_store_release(&inside, 0);
    fj_store_release(&gate, 0);
    FJ_CHECK_EQ(run_as_guest(pool, &test), FJ_RANGE_LEFT);
    FJ_CHECK_EQ(fx_read(&test.made), 1);
    FJ_CHECK_EQ(fx_read(&test.destroyed), 0);
    fx_bump(&gate);
    job_end(&test);
    FJ_CHECK_EQ(fx_read(&test.made), 2);
    fx_pool_end(pool);
}
