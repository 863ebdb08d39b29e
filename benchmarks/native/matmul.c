/* matmul: C = A * B, by halving the largest of the three dimensions. Halves of the inner
 * one are added one after the other, the others are forked. Cut-off, as in Cilk-5: three
 * loops once the dimensions add up to at most 64.
 *
 * size: n (C is n by n). answer: a hash of C. The elements are small integers, so all is
 * exact; error: C * x - A * (B * x) for random x, which must be 0.
 */
#include "native.h"

enum { MATMUL_LEAF = 64, MATMUL_MOST = 32767 };

typedef struct matmul_data {
    double *a, *b, *c, *x;
} matmul_data_t;

/* c, m by n, += a, m by k, * b, k by n; parts of matrices whose rows are `row` apart. */
typedef struct matmul_part {
    const double *a, *b;
    double *c;
    int16_t m, n, k, row;
} matmul_part_t;

LEAF void matmul_leaf(const double *a, int row_a, const double *b, int row_b, double *restrict c,
                        int row_c, int m, int n, int k)
{
    for (int i = 0; i < m; i++) {
        for (int l = 0; l < k; l++) {
            double factor = a[(ptrdiff_t)i * row_a + l];
            for (int j = 0; j < n; j++) {
                c[(ptrdiff_t)i * row_c + j] += factor * b[(ptrdiff_t)l * row_b + j];
            }
        }
    }
}

typedef enum { MATMUL_ROWS, MATMUL_COLUMNS, MATMUL_INNER, MATMUL_LOOPS } matmul_way_t;

/* How a part is divided; the halves, if it is. */
static inline matmul_way_t matmul_halve(matmul_part_t whole, matmul_part_t *left, matmul_part_t *right)
{
    *left = *right = whole;
    if (whole.m + whole.n + whole.k <= MATMUL_LEAF) {
        return MATMUL_LOOPS;
    }
    if (whole.m >= whole.n && whole.m >= whole.k) {
        left->m = (int16_t)(whole.m / 2);
        right->m = (int16_t)(whole.m - left->m);
        right->a += (ptrdiff_t)left->m * whole.row;
        right->c += (ptrdiff_t)left->m * whole.row;
        return MATMUL_ROWS;
    }
    if (whole.n >= whole.k) {
        left->n = (int16_t)(whole.n / 2);
        right->n = (int16_t)(whole.n - left->n);
        right->b += left->n;
        right->c += left->n;
        return MATMUL_COLUMNS;
    }
    left->k = (int16_t)(whole.k / 2);
    right->k = (int16_t)(whole.k - left->k);
    right->a += left->k;
    right->b += (ptrdiff_t)left->k * whole.row;
    return MATMUL_INNER;
}

static void matmul_loops(matmul_part_t part)
{
    matmul_leaf(part.a, part.row, part.b, part.row, part.c, part.row, part.m, part.n, part.k);
}

static void matmul_twin(matmul_part_t part)
{
    matmul_part_t left, right;
    if (matmul_halve(part, &left, &right) == MATMUL_LOOPS) {
        matmul_loops(part);
        return;
    }
    matmul_twin(left);
    matmul_twin(right);
}

FJ_TASK(int, matmul, matmul_part_t)
{
    matmul_part_t left, right;
    switch (matmul_halve(args, &left, &right)) {
    case MATMUL_LOOPS:
        matmul_loops(args);
        return 0;
    case MATMUL_INNER:
        (void)matmul(worker, left);
        return matmul(worker, right);
    default:
        matmul_fork(worker, right);
        (void)matmul(worker, left);
        return matmul_join(worker);
    }
}

/* Integers from -4 to 4. */
static void fill_with_integers(double *array, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++) {
        array[i] = (double)(next_random(&seed) % 9) - 4;
    }
}

/* The greatest element of |c * x - a * (b * x)|; x is room for 3 n. */
static double product_error(const double *a, const double *b, const double *c, double *x, int64_t n)
{
    double *bx = x + n, *abx = bx + n, worst = 0;
    fill_with_integers(x, (size_t)n, 3);
    for (int64_t i = 0; i < n; i++) {
        bx[i] = 0;
        for (int64_t j = 0; j < n; j++) {
            bx[i] += b[i * n + j] * x[j];
        }
    }
    for (int64_t i = 0; i < n; i++) {
        double cx = 0;
        abx[i] = 0;
        for (int64_t j = 0; j < n; j++) {
            abx[i] += a[i * n + j] * bx[j];
            cx += c[i * n + j] * x[j];
        }
        worst = fmax(worst, fabs(cx - abx[i]));
    }
    return worst;
}

static bool matmul_set_up(problem_t *problem)
{
    int64_t n = problem->size[0];
    if (n < 1 || n > MATMUL_MOST) {
        return false;
    }
    size_t square = (size_t)n * (size_t)n;
    matmul_data_t *data = calloc(1, sizeof *data);
    double *room = malloc((3 * square + 3 * (size_t)n) * sizeof *room);
    if (data == NULL || room == NULL) {
        free(data);
        free(room);
        return false;
    }
    *data = (matmul_data_t){room, room + square, room + 2 * square, room + 3 * square};
    fill_with_integers(data->a, square, 1);
    fill_with_integers(data->b, square, 2);
    problem->data = data;
    return true;
}

static void matmul_reset(problem_t *problem)
{
    matmul_data_t *data = problem->data;
    memset(data->c, 0, (size_t)(problem->size[0] * problem->size[0]) * sizeof *data->c);
}

static matmul_part_t matmul_whole(const problem_t *problem)
{
    const matmul_data_t *data = problem->data;
    int16_t n = (int16_t)problem->size[0];
    return (matmul_part_t){data->a, data->b, data->c, n, n, n, n};
}

static void matmul_sequential(problem_t *problem)
{
    matmul_twin(matmul_whole(problem));
}

static void matmul_fork_join(fj_worker_t *worker, problem_t *problem)
{
    (void)matmul(worker, matmul_whole(problem));
}

static void matmul_check(problem_t *problem)
{
    const matmul_data_t *data = problem->data;
    int64_t n = problem->size[0];
    problem->answer[0] = hash_of(data->c, (size_t)(n * n) * sizeof *data->c);
    problem->error = product_error(data->a, data->b, data->c, data->x, n);
}

static void matmul_tear_down(problem_t *problem)
{
    matmul_data_t *data = problem->data;
    free(data->a);                           /* and what follows it */
    free(data);
}

static const program_t matmul_program = {
    .name = "matmul", .sizes = 1, .answers = 1,
    .set_up = matmul_set_up, .reset = matmul_reset, .check = matmul_check,
    .tear_down = matmul_tear_down,
    .sequential = matmul_sequential, .fork_join = matmul_fork_join,
};
