/* test_run.c - C code on workers: bodies, loops, codes, cancellation. */
#include "fixture.h"

#include <string.h>

enum { POSITIONS = 20000 };

/* What the leaves of a test look at and write. */
typedef struct leaves {
    int64_t fail_at;                            /* the leaf with this position fails with 7 */
    fj_word_t visits[POSITIONS];
    fj_word_t begun, open;
} leaves_t;

static int visit(fj_worker_t *worker, int64_t lo, int64_t hi, void *data, fj_value_t *value)
{
    leaves_t *leaves = data;
    FJ_CHECK(worker == fj_current);
    fx_bump(&leaves->begun);
    value->i = 0;
    for (int64_t i = lo; i < hi; i++) {
        fx_bump(&leaves->visits[i]);
        value->i += i;
        if (i == leaves->fail_at) {
            return 7;
        }
    }
    return 0;
}

static void add(fj_value_t *left, fj_value_t right, void *data)
{
    (void)data;
    left->i += right.i;
}

typedef struct call {
    fj_loop_t loop;
    fj_value_t value;
} call_t;

static int run_loop(fj_worker_t *worker, void *data)
{
    call_t *call = data;
    return fj_run_loop(worker, &call->loop, &call->value);
}

static leaves_t leaves;                         /* large */

static void prepare(call_t *call, int64_t n, int64_t chunk)
{
    memset((void *)&leaves, 0, sizeof leaves);
    leaves.fail_at = -1;
    *call = (call_t){.loop = {0, n, chunk, visit, add, &leaves}, .value = {.i = -1}};
}

static void check_visits(int64_t n)
{
    for (int64_t i = 0; i < POSITIONS; i++) {
        FJ_CHECK_EQ(fx_read(&leaves.visits[i]), i < n ? 1u : 0u);
    }
}

/* Every position once, the values in order of addition, with chunks given and automatic. */
FJ_TEST(run, a_loop_visits_each_position_once)
{
    static const int64_t chunks[] = {0, 1, 7, POSITIONS};
    for (uint32_t parallelism = 1; parallelism <= 4; parallelism *= 2) {
        fj_pool_t *pool = fx_pool_of(parallelism);
        for (size_t c = 0; c < 4; c++) {
            for (int64_t n = 0; n <= POSITIONS; n = n * 12 + 1) {
                call_t call;
                prepare(&call, n, chunks[c]);
                FJ_CHECK_EQ(fj_run(pool, run_loop, &call, NULL), 0);
                check_visits(n);
                FJ_CHECK_EQ(call.value.i, n > 0 ? n * (n - 1) / 2 : -1);
            }
        }
        fx_pool_end(pool);
    }
}

/* The first code that is not 0 is the loop's; what has not begun then is skipped. */
FJ_TEST(run, a_failing_leaf_ends_its_loop)
{
    for (uint32_t parallelism = 1; parallelism <= 4; parallelism *= 2) {
        fj_pool_t *pool = fx_pool_of(parallelism);
        for (int64_t chunk = 0; chunk <= 1; chunk++) {
            call_t call;
            prepare(&call, POSITIONS, chunk);
            leaves.fail_at = 3;
            FJ_CHECK_EQ(fj_run(pool, run_loop, &call, NULL), 7);
            FJ_CHECK_EQ(call.value.i, -1);
            FJ_CHECK_EQ(fx_read(&leaves.visits[3]), 1);
            if (parallelism == 1 && chunk == 1) {
                FJ_CHECK_EQ(fx_read(&leaves.begun), 4);
            }
        }
        fx_pool_end(pool);
    }
}

/* ---- where a body runs ---- */

typedef struct where {
    fj_pool_t *pool;
    fj_worker_t *worker;
    int code;
} where_t;

static int note_worker(fj_worker_t *worker, void *data)
{
    where_t *where = data;
    FJ_CHECK(worker == fj_current && fj_worker_pool(worker) == where->pool);
    where->worker = worker;
    return where->code;
}

static void run_inside(fx_task_t *task, fj_worker_t *worker)
{
    where_t *where = task->argument;
    where->code = fj_run(where->pool, note_worker, where, NULL);
    FJ_CHECK(fj_current == worker);
}

/* On the calling worker of that pool, else on one of the pool's; its code comes back. */
FJ_TEST(run, a_body_runs_where_it_should)
{
    fj_pool_t *pool = fx_pool_of(1), *other = fx_pool_of(1);
    where_t where = {.pool = pool, .code = 5};
    FJ_CHECK_EQ(fj_run(pool, note_worker, &where, NULL), 5);
    fx_task_t task;
    fj_worker_t *mine = where.worker;
    for (int i = 0; i < 2; i++) {
        where = (where_t){.pool = pool, .code = 6};
        fx_run(i == 0 ? pool : other, &task, run_inside, &where);
        FJ_CHECK_EQ(where.code, 6);
        FJ_CHECK(where.worker == mine);
    }
    fj_worker_t *guest = fj_guest_enter(pool);
    where = (where_t){.pool = pool, .code = -9};
    FJ_CHECK_EQ(fj_run(pool, note_worker, &where, NULL), -9);
    FJ_CHECK(where.worker == guest);
    fj_guest_leave(guest);
    fj_pool_shutdown(other);
    FJ_CHECK_EQ(fj_run(other, note_worker, &where, NULL), FJ_CODE_REFUSED);
    fx_pool_end(pool);
    fx_pool_end(other);
}

/* ---- jobs inside jobs ---- */

static struct {
    fj_word_t outer_frames, inner_open;
} nest;

FJ_TASK(int, outer_frame, int)
{
    fx_bump(&nest.outer_frames);
    FJ_CHECK_EQ(args, 3);
    return fj_run_cancelled(worker);
}

static int fail_at_once(fj_worker_t *worker, int64_t lo, int64_t hi, void *data, fj_value_t *value)
{
    (void)worker, (void)lo, (void)hi, (void)data, (void)value;
    return 9;
}

/* Forks a frame, then runs a loop that fails: the frame is the outer job's, and goes on. */
static int nest_jobs(fj_worker_t *worker, void *data)
{
    fj_loop_t loop = {0, 100, *(int64_t *)data, fail_at_once, NULL, NULL};
    outer_frame_fork(worker, 3);
    outer_frame_fork(worker, 3);
    FJ_CHECK_EQ(fj_run_loop(worker, &loop, NULL), 9);
    FJ_CHECK(!fj_run_cancelled(worker));
    int cancelled = outer_frame_join(worker);
    cancelled += outer_frame_join(worker);
    FJ_CHECK_EQ(cancelled, 0);
    fj_run_fail(worker, 4);
    FJ_CHECK(fj_run_cancelled(worker));
    FJ_CHECK_EQ(fj_run_loop(worker, &loop, NULL), 4); /* part of what has failed */
    return 0;
}

/* A loop that fails ends nothing but itself; a job that fails ends what is inside it. */
FJ_TEST(run, jobs_fail_from_the_outside_in)
{
    for (uint32_t parallelism = 1; parallelism <= 4; parallelism *= 2) {
        fj_pool_t *pool = fx_pool_of(parallelism);
        for (int i = 0; i < FJ_TEST_ROUNDS(200); i++) {
            int64_t chunk = i % 2;
            fj_store_relaxed(&nest.outer_frames, 0);
            FJ_CHECK_EQ(fj_run(pool, nest_jobs, &chunk, NULL), 4);
            FJ_CHECK_EQ(fx_read(&nest.outer_frames), 2);
        }
        fx_pool_end(pool);
    }
}

/* ---- the end ---- */

static int hold(fj_worker_t *worker, int64_t lo, int64_t hi, void *data, fj_value_t *value)
{
    (void)worker, (void)lo, (void)hi, (void)value;
    leaves_t *held = data;
    fx_bump(&held->begun);
    FX_AWAIT(&held->open, 1);
    return 0;
}

static void call_or_stop(unsigned index, void *data)
{
    fj_pool_t *pool = data;
    if (index == 0) {
        fj_loop_t loop = {0, POSITIONS, 1, hold, NULL, &leaves};
        call_t call = {.loop = loop};
        FJ_CHECK_EQ(fj_run(pool, run_loop, &call, NULL), FJ_CODE_CANCELLED);
    } else {
        FX_AWAIT(&leaves.begun, 1);
        fj_pool_stop(pool);
        fx_bump(&leaves.open);
    }
}

/* A pool that is stopped skips what has not begun, and says so. */
FJ_TEST(run, stopping_the_pool_cancels_a_loop)
{
    for (uint32_t parallelism = 1; parallelism <= 2; parallelism++) {
        call_t call;
        prepare(&call, 0, 0);
        fj_pool_t *pool = fx_pool_of(parallelism);
        fj_test_together(2, call_or_stop, pool);
        FJ_CHECK_LE(fx_read(&leaves.begun), parallelism);
        fx_pool_end(pool);
    }
}

static fj_word_t asked;

static bool say_so_and_open(void)
{
    fx_bump(&asked);
    fx_bump(&leaves.open);
    return true;
}

/* A thread that waits outside, or takes part as a guest, asks now and then, and may give up. */
FJ_TEST(run, an_interrupted_caller_cancels_its_job)
{
    fj_pool_t *pool = fx_pool_of(1);
    fj_loop_t loop = {0, INT64_MAX, 1, hold, NULL, &leaves};
    for (int i = 0; i < 2; i++) {
        call_t call;
        prepare(&call, 0, 0);
        call.loop = loop;
        fj_store_relaxed(&asked, 0);
        fj_store_relaxed(&leaves.open, (uint32_t)i); /* a guest asks between leaves */
        fj_worker_t *guest = i == 1 ? fj_guest_enter(pool) : NULL;
        FJ_CHECK_EQ(fj_run(pool, run_loop, &call, say_so_and_open), FJ_CODE_INTERRUPTED);
        FJ_CHECK_EQ(fx_read(&asked), 1);
        if (guest != NULL) {
            fj_guest_leave(guest);
        }
    }
    fx_pool_end(pool);
}

static int look_whether_asked(fj_worker_t *worker, void *data)
{
    FJ_CHECK_EQ(worker->interrupted != NULL, worker->guest);
    *(fj_worker_t **)data = worker;
    return 0;
}

static bool say_no(void)
{
    return false;
}

/* Only a guest asks, and only during its call: a worker that has its place afterwards does not. */
FJ_TEST(run, a_guests_question_ends_with_its_call)
{
    fj_pool_t *pool = fx_pool_of(1);
    fj_worker_t *guest = fj_guest_enter(pool), *seen = NULL;
    FJ_CHECK_EQ(fj_run(pool, look_whether_asked, &seen, say_no), 0);
    FJ_CHECK(seen == guest);
    fj_guest_leave(guest);
    seen = NULL;
    FJ_CHECK_EQ(fj_run(pool, look_whether_asked, &seen, say_no), 0);
    FJ_CHECK(seen == guest);                    /* the same place, a worker's now */
    fx_pool_end(pool);
}
