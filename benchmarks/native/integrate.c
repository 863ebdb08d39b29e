/* integrate: (x*x + 1) * x from 0 to n, by halving an interval until the two halves'
 * trapezia add up to its own within 1e-9. No other cut-off. The sums are formed in the
 * same order however it is run, so the answer is the same to the last bit.
 *
 * size: n. answer: the result's bits. error: relative, to n**4 / 4 + n**2 / 2.
 */
#include "native.h"

typedef struct interval {
    double x1, y1, x2, y2;
} interval_t;

static inline double integrate_f(double x)
{
    return (x * x + 1.0) * x;
}

static inline double integrate_area(interval_t at)
{
    return (at.y1 + at.y2) * (at.x2 - at.x1) / 2;
}

/* Whether the halves say the same as the whole; `area` is their sum. */
static inline bool integrate_halve(interval_t whole, interval_t *left, interval_t *right, double *area)
{
    double x = whole.x1 + (whole.x2 - whole.x1) / 2, y = integrate_f(x);
    *left = (interval_t){whole.x1, whole.y1, x, y};
    *right = (interval_t){x, y, whole.x2, whole.y2};
    *area = integrate_area(*left) + integrate_area(*right);
    return fabs(*area - integrate_area(whole)) <= 1e-9;
}

static double integrate_twin(interval_t whole)
{
    interval_t left, right;
    double area;
    if (integrate_halve(whole, &left, &right, &area)) {
        return area;
    }
    double sum = integrate_twin(left);
    return sum + integrate_twin(right);
}

FJ_TASK(double, integrate, interval_t)
{
    interval_t left, right;
    double area;
    if (integrate_halve(args, &left, &right, &area)) {
        return area;
    }
    integrate_fork(worker, right);
    double sum = integrate(worker, left);
    return sum + integrate_join(worker);
}

static interval_t integrate_whole(const problem_t *problem)
{
    double x = (double)problem->size[0];
    return (interval_t){0, integrate_f(0), x, integrate_f(x)};
}

static void integrate_done(problem_t *problem, double sum)
{
    double n = (double)problem->size[0], exact = n * n * n * n / 4 + n * n / 2;
    problem->answer[0] = hash_of(&sum, sizeof sum);
    problem->error = fabs(sum - exact) / exact;
}

static void integrate_sequential(problem_t *problem)
{
    integrate_done(problem, integrate_twin(integrate_whole(problem)));
}

static void integrate_fork_join(fj_worker_t *worker, problem_t *problem)
{
    integrate_done(problem, integrate(worker, integrate_whole(problem)));
}

static const program_t integrate_program = {
    .name = "integrate", .sizes = 1, .answers = 1,
    .sequential = integrate_sequential, .fork_join = integrate_fork_join,
};
