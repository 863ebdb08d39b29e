/* test_spawn.c - frames by value: forks and joins of native code. */
#include "fixture.h"

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
