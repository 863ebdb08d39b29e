/* skynet(n): a task starts ten, and so on, until there are n; each of those returns its
 * number, and the others the sum of what they started. Everything is forked.
 *
 * size: n, a power of ten. answer: n * (n - 1) / 2.
 */
#include "native.h"

typedef struct skynet_part {
    int64_t first, size;
} skynet_part_t;

static int64_t skynet_twin(skynet_part_t part)
{
    int64_t sum = 0, size = part.size / 10;
    if (part.size == 1) {
        return part.first;
    }
    for (int i = 0; i < 10; i++) {
        sum += skynet_twin((skynet_part_t){part.first + i * size, size});
    }
    return sum;
}

FJ_TASK(int64_t, skynet, skynet_part_t)
{
    int64_t sum = 0, size = args.size / 10;
    if (args.size == 1) {
        return args.first;
    }
    for (int i = 0; i < 10; i++) {
        skynet_fork(worker, (skynet_part_t){args.first + i * size, size});
    }
    for (int i = 0; i < 10; i++) {
        sum += skynet_join(worker);
    }
    return sum;
}

static void skynet_sequential(problem_t *problem)
{
    problem->answer[0] = skynet_twin((skynet_part_t){0, problem->size[0]});
}

static void skynet_fork_join(fj_worker_t *worker, problem_t *problem)
{
    problem->answer[0] = skynet(worker, (skynet_part_t){0, problem->size[0]});
}

static const program_t skynet_program = {
    .name = "skynet", .sizes = 1, .answers = 1,
    .sequential = skynet_sequential, .fork_join = skynet_fork_join,
};
