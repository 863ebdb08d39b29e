/* knapsack: the most valuable choice of items that fits, by branch and bound. Items come
 * by value for their weight, and a branch is left when even the rest of the room filled
 * at the next item's rate would not beat the best found so far, by whichever worker. So
 * the answer is exact, and the number of branches depends on who finds what when. Both
 * branches are forked, without a cut-off.
 *
 * size: items. Weights are random and even, values are the weights, and the room is half
 * of all weights, and odd: the hard case, in which the bound, an odd number, is never
 * reached. answer: the value. error: its distance from the value that dynamic programming
 * finds. work: the number of branches.
 */
#include "native.h"

enum { KNAPSACK_MOST = 64, KNAPSACK_HEAVIEST = 2000 };

typedef struct knapsack_data {
    int32_t items, room;
    int32_t weight[KNAPSACK_MOST + 1], value[KNAPSACK_MOST + 1];
    int64_t expected;
    int64_t best;               /* relaxed: an old one prunes less */
} knapsack_data_t;

typedef struct knapsack_branch {
    knapsack_data_t *data;
    int32_t item, room, value;
} knapsack_branch_t;

/* Whether it is worth following; raises the best. */
static inline bool knapsack_visit(knapsack_branch_t branch)
{
    knapsack_data_t *data = branch.data;
    int64_t best = __atomic_load_n(&data->best, __ATOMIC_RELAXED);
    while (branch.value > best
           && !__atomic_compare_exchange_n(&data->best, &best, branch.value, true, __ATOMIC_RELAXED,
                                           __ATOMIC_RELAXED)) {
    }
    if (branch.item == data->items) {
        return false;
    }
    int64_t rate_value = data->value[branch.item], rate_weight = data->weight[branch.item];
    return (branch.value - best) * rate_weight + branch.room * rate_value > 0;
}

static inline knapsack_branch_t knapsack_without(knapsack_branch_t branch)
{
    return (knapsack_branch_t){branch.data, branch.item + 1, branch.room, branch.value};
}

static inline bool knapsack_has_room(knapsack_branch_t branch)
{
    return branch.data->weight[branch.item] <= branch.room;
}

static inline knapsack_branch_t knapsack_with(knapsack_branch_t branch)
{
    return (knapsack_branch_t){branch.data, branch.item + 1,
                               branch.room - branch.data->weight[branch.item],
                               branch.value + branch.data->value[branch.item]};
}

/* Both return the number of branches visited. */
static int64_t knapsack_twin(knapsack_branch_t branch)
{
    if (!knapsack_visit(branch)) {
        return 1;
    }
    int64_t visited = knapsack_has_room(branch) ? knapsack_twin(knapsack_with(branch)) : 0;
    return 1 + visited + knapsack_twin(knapsack_without(branch));
}

FJ_TASK(int64_t, knapsack, knapsack_branch_t)
{
    if (!knapsack_visit(args)) {
        return 1;
    }
    knapsack_fork(worker, knapsack_without(args));
    int64_t visited = knapsack_has_room(args) ? knapsack(worker, knapsack_with(args)) : 0;
    return 1 + visited + knapsack_join(worker);
}

/* ---- the problem ---- */

static int64_t knapsack_expected(const knapsack_data_t *data)
{
    int64_t *most = calloc((size_t)data->room + 1, sizeof *most), answer = -1;
    for (int32_t item = 0; most != NULL && item < data->items; item++) {
        for (int32_t room = data->room; room >= data->weight[item]; room--) {
            int64_t with = most[room - data->weight[item]] + data->value[item];
            most[room] = most[room] > with ? most[room] : with;
        }
    }
    if (most != NULL) {
        answer = most[data->room];
    }
    free(most);
    return answer;
}

static bool knapsack_set_up(problem_t *problem)
{
    knapsack_data_t *data = calloc(1, sizeof *data);
    if (data == NULL || problem->size[0] < 1 || problem->size[0] > KNAPSACK_MOST) {
        free(data);
        return false;
    }
    data->items = (int32_t)problem->size[0];
    uint64_t seed = 1;
    for (int32_t item = 0; item < data->items; item++) {
        int32_t weight = 2 * (int32_t)(next_random(&seed) % (KNAPSACK_HEAVIEST / 2)) + 2, at = item;
        for (; at > 0 && data->weight[at - 1] > weight; at--) {
            data->weight[at] = data->weight[at - 1];
        }
        data->weight[at] = weight;
        data->room += weight;
    }
    data->room = data->room / 4 * 2 + 1;
    for (int32_t item = 0; item < data->items; item++) {
        data->value[item] = data->weight[item];
    }
    data->expected = knapsack_expected(data);
    problem->data = data;
    return true;
}

static void knapsack_reset(problem_t *problem)
{
    knapsack_data_t *data = problem->data;
    data->best = 0;
}

static knapsack_branch_t knapsack_whole(problem_t *problem)
{
    knapsack_data_t *data = problem->data;
    return (knapsack_branch_t){data, 0, data->room, 0};
}

static void knapsack_sequential(problem_t *problem)
{
    problem->work = knapsack_twin(knapsack_whole(problem));
}

static void knapsack_fork_join(fj_worker_t *worker, problem_t *problem)
{
    problem->work = knapsack(worker, knapsack_whole(problem));
}

static void knapsack_check(problem_t *problem)
{
    const knapsack_data_t *data = problem->data;
    problem->answer[0] = data->best;
    problem->error = fabs((double)(data->best - data->expected));
}

static const program_t knapsack_program = {
    .name = "knapsack", .sizes = 1, .answers = 1,
    .set_up = knapsack_set_up, .reset = knapsack_reset, .check = knapsack_check,
    .tear_down = free_data,
    .sequential = knapsack_sequential, .fork_join = knapsack_fork_join,
};
