/* heat: steps of heat diffusion on a grid, the new value of a point from its old one and
 * its four neighbours'. Each step halves the rows down to at most 10, as in Cilk-5; as a
 * loop, each step is a loop over the rows.
 *
 * size: rows, columns, steps. answer: a hash of the grid. error: the start is a product
 * of sines, which a step multiplies by a known factor; the greatest difference.
 */
#include "native.h"

enum { HEAT_LEAF = 10 };

#define HEAT_RATE 0.2

typedef struct heat_data {
    double *grid, *next;
    int64_t rows, columns;
} heat_data_t;

typedef struct heat_rows {
    const heat_data_t *data;
    int64_t lo, hi;
} heat_rows_t;

/* Rows and columns at the edge stay 0. */
LEAF void heat_leaf(const heat_data_t *data, int64_t lo, int64_t hi)
{
    int64_t columns = data->columns;
    for (int64_t i = lo; i < hi; i++) {
        const double *old = data->grid + i * columns;
        double *restrict next = data->next + i * columns;
        for (int64_t j = 1; j < columns - 1; j++) {
            next[j] = old[j] + HEAT_RATE * (old[j - columns] - 2 * old[j] + old[j + columns])
                      + HEAT_RATE * (old[j - 1] - 2 * old[j] + old[j + 1]);
        }
    }
}

static void heat_swap(heat_data_t *data)
{
    double *grid = data->grid;
    data->grid = data->next;
    data->next = grid;
}

static void heat_twin(heat_rows_t rows)
{
    if (rows.hi - rows.lo <= HEAT_LEAF) {
        heat_leaf(rows.data, rows.lo, rows.hi);
        return;
    }
    int64_t mid = rows.lo + (rows.hi - rows.lo) / 2;
    heat_twin((heat_rows_t){rows.data, rows.lo, mid});
    heat_twin((heat_rows_t){rows.data, mid, rows.hi});
}

FJ_TASK(int, heat, heat_rows_t)
{
    if (args.hi - args.lo <= HEAT_LEAF) {
        heat_leaf(args.data, args.lo, args.hi);
        return 0;
    }
    int64_t mid = args.lo + (args.hi - args.lo) / 2;
    heat_fork(worker, (heat_rows_t){args.data, mid, args.hi});
    (void)heat(worker, (heat_rows_t){args.data, args.lo, mid});
    return heat_join(worker);
}

static void heat_sequential(problem_t *problem)
{
    heat_data_t *data = problem->data;
    for (int64_t step = 0; step < problem->size[2]; step++) {
        heat_twin((heat_rows_t){data, 1, data->rows - 1});
        heat_swap(data);
    }
}

static void heat_fork_join(fj_worker_t *worker, problem_t *problem)
{
    heat_data_t *data = problem->data;
    for (int64_t step = 0; step < problem->size[2]; step++) {
        (void)heat(worker, (heat_rows_t){data, 1, data->rows - 1});
        heat_swap(data);
    }
}

static int heat_loop_leaf(fj_worker_t *worker, int64_t lo, int64_t hi, void *data, fj_value_t *value)
{
    (void)worker, (void)value;
    heat_leaf(data, lo, hi);
    return 0;
}

static int heat_loop(problem_t *problem)
{
    heat_data_t *data = problem->data;
    fj_loop_t rows = {1, data->rows - 1, problem->chunk, heat_loop_leaf, NULL, data};
    int code = 0;
    for (int64_t step = 0; step < problem->size[2] && code == 0; step++) {
        code = fj_parallel(NULL, &rows, NULL);
        heat_swap(data);
    }
    return code;
}

/* ---- the problem ---- */

static double heat_start(const heat_data_t *data, int64_t i, int64_t j)
{
    double pi = acos(-1.0);
    return sin(pi * (double)i / (double)(data->rows - 1))
           * sin(pi * (double)j / (double)(data->columns - 1));
}

static bool heat_set_up(problem_t *problem)
{
    int64_t rows = problem->size[0], columns = problem->size[1];
    if (rows < 3 || columns < 3) {
        return false;
    }
    heat_data_t *data = calloc(1, sizeof *data);
    double *memory = malloc((size_t)(2 * rows * columns) * sizeof *memory);
    if (data == NULL || memory == NULL) {
        free(data);
        free(memory);
        return false;
    }
    *data = (heat_data_t){memory, memory + rows * columns, rows, columns};
    problem->data = data;
    return true;
}

static void heat_reset(problem_t *problem)
{
    heat_data_t *data = problem->data;
    int64_t rows = data->rows, columns = data->columns;
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) {
            bool edge = i == 0 || j == 0 || i == rows - 1 || j == columns - 1;
            data->grid[i * columns + j] = edge ? 0 : heat_start(data, i, j);
            data->next[i * columns + j] = 0;
        }
    }
}

static void heat_check(problem_t *problem)
{
    const heat_data_t *data = problem->data;
    int64_t rows = data->rows, columns = data->columns;
    double pi = acos(-1.0), left = 1;
    double factor = 1 - 2 * HEAT_RATE * (1 - cos(pi / (double)(rows - 1)))
                    - 2 * HEAT_RATE * (1 - cos(pi / (double)(columns - 1)));
    for (int64_t step = 0; step < problem->size[2]; step++) {
        left *= factor;
    }
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < columns; j++) {
            double difference = data->grid[i * columns + j] - left * heat_start(data, i, j);
            problem->error = fmax(problem->error, fabs(difference));
        }
    }
    problem->answer[0] = hash_of(data->grid, (size_t)(rows * columns) * sizeof(double));
}

static void heat_tear_down(problem_t *problem)
{
    heat_data_t *data = problem->data;
    free(data->grid < data->next ? data->grid : data->next); /* the beginning of both */
    free(data);
}

static const program_t heat_program = {
    .name = "heat", .sizes = 3, .answers = 1,
    .set_up = heat_set_up, .reset = heat_reset, .check = heat_check, .tear_down = heat_tear_down,
    .sequential = heat_sequential, .fork_join = heat_fork_join, .loop = heat_loop,
};
