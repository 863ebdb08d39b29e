/* strassen: C = A * B with seven products of half the size, all forked; each makes the
 * two sums it multiplies. Cut-off, as in Cilk-5: 64 by 64 are three loops. Sums and
 * products are allocated where they are needed, in the twin as well.
 *
 * size: n, a power of two. answer: a hash of C. error: as of matmul, 0.
 */
#include "native.h"

enum { STRASSEN_LEAF = 64, STRASSEN_PRODUCTS = 7, STRASSEN_QUARTERS = 4 };

typedef struct square {
    double *at;
    int64_t row;                /* from one row to the next */
} square_t;

/* One multiplication: c = a * b, n by n, by way of seven products. */
typedef struct strassen {
    square_t a, b, c;
    int64_t n;
    double *products;           /* seven, n / 2 by n / 2; NULL: no memory */
} strassen_t;

/* A quarter, or two of them added or subtracted. Quarters: 11, 12, 21, 22. */
typedef struct strassen_sum {
    int8_t one, other, sign;    /* sign 0: just the one */
} strassen_sum_t;

static const strassen_sum_t strassen_sums[STRASSEN_PRODUCTS][2] = {
    {{0, 3, 1}, {0, 3, 1}},  {{2, 3, 1}, {0, 0, 0}},  {{0, 0, 0}, {1, 3, -1}}, {{3, 0, 0}, {2, 0, -1}},
    {{0, 1, 1}, {3, 0, 0}},  {{2, 0, -1}, {0, 1, 1}}, {{1, 3, -1}, {2, 3, 1}},
};

/* How often each product goes into a quarter of c. */
static const int8_t strassen_quarters[STRASSEN_QUARTERS][STRASSEN_PRODUCTS] = {
    {1, 0, 0, 1, -1, 0, 1}, {0, 0, 1, 0, 1, 0, 0}, {0, 1, 0, 1, 0, 0, 0}, {1, -1, 1, 0, 0, 1, 0},
};

static square_t quarter_at(square_t whole, int64_t n, int which)
{
    return (square_t){whole.at + which / 2 * (n / 2) * whole.row + which % 2 * (n / 2), whole.row};
}

/* The sum, in `room` unless it is a quarter as it is. */
LEAF square_t strassen_add(square_t whole, int64_t n, strassen_sum_t sum, double *room)
{
    square_t one = quarter_at(whole, n, sum.one), other = quarter_at(whole, n, sum.other);
    int64_t half = n / 2;
    if (sum.sign == 0) {
        return one;
    }
    for (int64_t i = 0; i < half; i++) {
        const double *x = one.at + i * one.row, *y = other.at + i * other.row;
        double *restrict to = room + i * half;
        for (int64_t j = 0; j < half; j++) {
            to[j] = sum.sign > 0 ? x[j] + y[j] : x[j] - y[j];
        }
    }
    return (square_t){room, half};
}

/* What product `which` multiplies; free `*room` after that. products = NULL: no memory. */
static strassen_t strassen_factors(const strassen_t *whole, int which, double **room)
{
    int64_t half = whole->n / 2, square = half * half;
    const strassen_sum_t *sums = strassen_sums[which];
    int wanted = (sums[0].sign != 0) + (sums[1].sign != 0);
    *room = malloc((size_t)(wanted * square + 1) * sizeof **room);
    if (*room == NULL) {
        return (strassen_t){.products = NULL};
    }
    double *second = *room + (sums[0].sign != 0 ? square : 0);
    return (strassen_t){
        .a = strassen_add(whole->a, whole->n, sums[0], *room),
        .b = strassen_add(whole->b, whole->n, sums[1], second),
        .c = {whole->products + which * square, half},
        .n = half,
        .products = *room,                   /* anything but NULL */
    };
}

/* One quarter of c from the products. */
LEAF void strassen_quarter(const strassen_t *whole, int which)
{
    int64_t half = whole->n / 2;
    square_t c = quarter_at(whole->c, whole->n, which);
    for (int64_t i = 0; i < half; i++) {
        double *restrict to = c.at + i * c.row;
        bool first = true;
        for (int product = 0; product < STRASSEN_PRODUCTS; product++) {
            const double *from = whole->products + product * half * half + i * half;
            int times = strassen_quarters[which][product];
            if (times == 0) {
                continue;
            }
            for (int64_t j = 0; j < half; j++) {
                to[j] = (first ? 0 : to[j]) + times * from[j];
            }
            first = false;
        }
    }
}

static bool strassen_is_leaf(const strassen_t *whole)
{
    if (whole->n > STRASSEN_LEAF) {
        return false;
    }
    for (int64_t i = 0; i < whole->n; i++) {
        memset(whole->c.at + i * whole->c.row, 0, (size_t)whole->n * sizeof(double));
    }
    matmul_leaf(whole->a.at, (int)whole->a.row, whole->b.at, (int)whole->b.row, whole->c.at,
                (int)whole->c.row, (int)whole->n, (int)whole->n, (int)whole->n);
    return true;
}

static double *strassen_products(int64_t n)
{
    return malloc((size_t)(STRASSEN_PRODUCTS * (n / 2) * (n / 2)) * sizeof(double));
}

/* ---- the twin; false: no memory ---- */

static bool strassen_twin(strassen_t whole)
{
    if (strassen_is_leaf(&whole)) {
        return true;
    }
    whole.products = strassen_products(whole.n);
    bool done = whole.products != NULL;
    for (int which = 0; which < STRASSEN_PRODUCTS && done; which++) {
        double *room;
        strassen_t product = strassen_factors(&whole, which, &room);
        done = product.products != NULL && strassen_twin(product);
        free(room);
    }
    for (int which = 0; which < STRASSEN_QUARTERS && done; which++) {
        strassen_quarter(&whole, which);
    }
    free(whole.products);
    return done;
}

/* ---- fork/join ---- */

static bool strassen_multiply(fj_worker_t *worker, strassen_t whole);

/* The first seven are products, then come the quarters. */
typedef struct strassen_piece {
    const strassen_t *whole;
    int64_t which;
} strassen_piece_t;

FJ_TASK(bool, strassen_part, strassen_piece_t)
{
    if (args.which >= STRASSEN_PRODUCTS) {
        strassen_quarter(args.whole, (int)args.which - STRASSEN_PRODUCTS);
        return true;
    }
    double *room;
    strassen_t product = strassen_factors(args.whole, (int)args.which, &room);
    bool done = product.products != NULL && strassen_multiply(worker, product);
    free(room);
    return done;
}

static bool strassen_parts(fj_worker_t *worker, const strassen_t *whole, int first, int end)
{
    for (int which = end - 1; which > first; which--) {
        strassen_part_fork(worker, (strassen_piece_t){whole, which});
    }
    bool done = strassen_part(worker, (strassen_piece_t){whole, first});
    for (int which = first + 1; which < end; which++) {
        done = strassen_part_join(worker) && done;
    }
    return done;
}

static bool strassen_multiply(fj_worker_t *worker, strassen_t whole)
{
    if (strassen_is_leaf(&whole)) {
        return true;
    }
    whole.products = strassen_products(whole.n);
    bool done = whole.products != NULL
                && strassen_parts(worker, &whole, 0, STRASSEN_PRODUCTS)
                && strassen_parts(worker, &whole, STRASSEN_PRODUCTS, STRASSEN_PRODUCTS + STRASSEN_QUARTERS);
    free(whole.products);
    return done;
}

/* ---- the problem, as matmul's ---- */

static bool strassen_set_up(problem_t *problem)
{
    int64_t n = problem->size[0];
    return n > 0 && (n & (n - 1)) == 0 && matmul_set_up(problem);
}

static strassen_t strassen_whole(const problem_t *problem)
{
    const matmul_data_t *data = problem->data;
    int64_t n = problem->size[0];
    return (strassen_t){{data->a, n}, {data->b, n}, {data->c, n}, n, NULL};
}

static void strassen_sequential(problem_t *problem)
{
    (void)strassen_twin(strassen_whole(problem)); /* without memory c is wrong, as the check says */
}

static void strassen_fork_join(fj_worker_t *worker, problem_t *problem)
{
    if (!strassen_multiply(worker, strassen_whole(problem))) {
        fj_fail(worker, 1);
    }
}

static const program_t strassen_program = {
    .name = "strassen", .sizes = 1, .answers = 1,
    .set_up = strassen_set_up, .reset = matmul_reset, .check = matmul_check,
    .tear_down = matmul_tear_down,
    .sequential = strassen_sequential, .fork_join = strassen_fork_join,
};
