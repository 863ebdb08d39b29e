/* fib(n): nothing but calls. No cut-off below the usual 2, so a fork at every n > 1.
 *
 * size: n. answer: fib(n); fib_counted: also how many forks there were, fib(n + 1) - 1.
 */
#include "native.h"

static int64_t fib_twin(int64_t n)
{
    return n < 2 ? n : fib_twin(n - 1) + fib_twin(n - 2);
}

FJ_TASK(int64_t, fib, int64_t)
{
    if (args < 2) {
        return args;
    }
    fib_fork(worker, args - 1);
    int64_t right = fib(worker, args - 2);
    return right + fib_join(worker);
}

static void fib_sequential(problem_t *problem)
{
    problem->answer[0] = fib_twin(problem->size[0]);
}

static void fib_fork_join(fj_worker_t *worker, problem_t *problem)
{
    problem->answer[0] = fib(worker, problem->size[0]);
}

/* As a loop over 2**FIB_LEVELS leaves: the bits of i say at which levels the smaller of
 * the two calls is meant. The leaves' work differs by a factor of phi**FIB_LEVELS. */
enum { FIB_LEVELS = 12 };

static int fib_leaf(fj_worker_t *worker, int64_t lo, int64_t hi, void *data, fj_value_t *value)
{
    const problem_t *problem = data;
    (void)worker;
    int64_t sum = 0;
    for (int64_t i = lo; i < hi; i++) {
        sum += fib_twin(problem->size[0] - FIB_LEVELS - __builtin_popcountll((uint64_t)i));
    }
    value->i = sum;
    return 0;
}

static int fib_loop(problem_t *problem)
{
    return sum_over(problem, 1 << FIB_LEVELS, fib_leaf); /* right for n >= 2 * FIB_LEVELS */
}

static const program_t fib_program = {
    .name = "fib", .sizes = 1, .answers = 1,
    .sequential = fib_sequential, .fork_join = fib_fork_join, .loop = fib_loop,
};

/* ---- with its forks counted ---- */

typedef struct fib_counts {
    int64_t value, forks;
} fib_counts_t;

static fib_counts_t fib_counted_twin(int64_t n)
{
    if (n < 2) {
        return (fib_counts_t){n, 0};
    }
    fib_counts_t left = fib_counted_twin(n - 1), right = fib_counted_twin(n - 2);
    return (fib_counts_t){left.value + right.value, left.forks + right.forks + 1};
}

FJ_TASK(fib_counts_t, fib_counted, int64_t)
{
    if (args < 2) {
        return (fib_counts_t){args, 0};
    }
    fib_counted_fork(worker, args - 1);
    fib_counts_t right = fib_counted(worker, args - 2), left = fib_counted_join(worker);
    return (fib_counts_t){left.value + right.value, left.forks + right.forks + 1};
}

static void fib_counted_sequential(problem_t *problem)
{
    fib_counts_t counts = fib_counted_twin(problem->size[0]);
    memcpy(problem->answer, &counts, sizeof counts);
}

static void fib_counted_fork_join(fj_worker_t *worker, problem_t *problem)
{
    fib_counts_t counts = fib_counted(worker, problem->size[0]);
    memcpy(problem->answer, &counts, sizeof counts);
}

static const program_t fib_counted_program = {
    .name = "fib_counted", .sizes = 1, .answers = 2,
    .sequential = fib_counted_sequential, .fork_join = fib_counted_fork_join,
};
