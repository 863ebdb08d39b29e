/* skew: a loop whose first quarter takes 12 times as many rounds of arithmetic a position
 * as the rest: the work of `python -m fjpool skew`. As fork/join, the range is halved
 * down to at most a 200th of it.
 *
 * size: positions. answer: the sum, each position's value rounded to a multiple of
 * 2**-20, so that it is the same in any order.
 */
#include "native.h"

LEAF int64_t skew_block(int64_t lo, int64_t hi, int64_t positions)
{
    int64_t sum = 0;
    for (int64_t i = lo; i < hi; i++) {
        int rounds = i < positions / 4 ? 240 : 20;
        double x = (double)i;
        for (int round = 0; round < rounds; round++) {
            x = sqrt(x + round) * 1.0000001;
        }
        sum += (int64_t)(x * 1048576);
    }
    return sum;
}

static int skew_leaf(fj_worker_t *worker, int64_t lo, int64_t hi, void *data, fj_value_t *value)
{
    const problem_t *problem = data;
    (void)worker;
    value->i = skew_block(lo, hi, problem->size[0]);
    return 0;
}

static void skew_sequential(problem_t *problem)
{
    problem->answer[0] = skew_block(0, problem->size[0], problem->size[0]);
}

static int skew_loop(problem_t *problem)
{
    return sum_over(problem, problem->size[0], skew_leaf);
}

static void skew_fork_join(fj_worker_t *worker, problem_t *problem)
{
    problem->chunk = problem->size[0] / 200 + 1;
    fj_fail(worker, skew_loop(problem));
}

static const program_t skew_program = {
    .name = "skew", .sizes = 1, .answers = 1,
    .sequential = skew_sequential, .fork_join = skew_fork_join, .loop = skew_loop,
};
