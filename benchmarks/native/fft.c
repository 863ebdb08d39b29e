/* fft: the discrete Fourier transform of n complex numbers, n a power of two, by radix
 * two: the even and the odd ones are put apart, transformed, and put together. Cut-offs:
 * a transform of at most 256 points is not divided among workers, nor are 1024 points
 * that are put apart or together.
 *
 * size: n. answer: a hash of the result. error: of a few of its elements, against the
 * definition, relative to the result's norm / sqrt(n).
 */
#include "native.h"

#include <complex.h>

enum { FFT_LEAF = 256, FFT_PIECE = 1024, FFT_MOST = 1 << 28 };

typedef double complex number_t;

typedef struct fft_data {
    number_t *start, *in, *out;
    number_t *roots;            /* exp(-2 pi i k / n) at n / 2 + k, for each power n, k < n / 2 */
} fft_data_t;

/* x * y by its definition: C's own looks for infinities. */
static inline number_t times(number_t x, number_t y)
{
    double a = creal(x), b = cimag(x), c = creal(y), d = cimag(y);
    number_t product;
    __real__ product = a * c - b * d;
    __imag__ product = a * d + b * c;
    return product;
}

/* Even ones to the front of `out`, odd ones to its second half; lo <= k < hi < n / 2. */
LEAF void put_apart(const number_t *in, number_t *restrict out, int64_t n, int64_t lo, int64_t hi)
{
    for (int64_t k = lo; k < hi; k++) {
        out[k] = in[2 * k];
        out[n / 2 + k] = in[2 * k + 1];
    }
}

LEAF void put_together(const number_t *roots, const number_t *in, number_t *restrict out,
                         int64_t n, int64_t lo, int64_t hi)
{
    const number_t *root = roots + n / 2;
    for (int64_t k = lo; k < hi; k++) {
        number_t even = in[k], odd = times(in[n / 2 + k], root[k]);
        out[k] = even + odd;
        out[n / 2 + k] = even - odd;
    }
}

/* Of `in` to `out`; `in` is overwritten. */
LEAF void fft_twin(const number_t *roots, number_t *in, number_t *out, int64_t n)
{
    if (n == 1) {
        out[0] = in[0];
        return;
    }
    if (n == 2) {
        out[0] = in[0] + in[1];
        out[1] = in[0] - in[1];
        return;
    }
    put_apart(in, out, n, 0, n / 2);
    fft_twin(roots, out, in, n / 2);
    fft_twin(roots, out + n / 2, in + n / 2, n / 2);
    put_together(roots, in, out, n, 0, n / 2);
}

/* ---- fork/join ---- */

/* Of the transform of 2**log_n points from `in` to `out`; roots NULL: put them apart. */
typedef struct fft_piece {
    const number_t *roots, *in;
    number_t *out;
    uint64_t log_n : 6, lo : 29, hi : 29;
} fft_piece_t;

FJ_TASK(int, fft_pass, fft_piece_t)
{
    int64_t lo = (int64_t)args.lo, hi = (int64_t)args.hi, n = (int64_t)1 << args.log_n;
    if (hi - lo <= FFT_PIECE) {
        if (args.roots == NULL) {
            put_apart(args.in, args.out, n, lo, hi);
        } else {
            put_together(args.roots, args.in, args.out, n, lo, hi);
        }
        return 0;
    }
    fft_piece_t left = args, right = args;
    left.hi = right.lo = (uint64_t)(lo + (hi - lo) / 2) & (((uint64_t)1 << 29) - 1);
    fft_pass_fork(worker, right);
    (void)fft_pass(worker, left);
    return fft_pass_join(worker);
}

typedef struct fft_part {
    const number_t *roots;
    number_t *in, *out;
    int64_t n;
} fft_part_t;

FJ_TASK(int, fft, fft_part_t)
{
    if (args.n <= FFT_LEAF) {
        fft_twin(args.roots, args.in, args.out, args.n);
        return 0;
    }
    int64_t half = args.n / 2;
    fft_piece_t pass = {NULL, args.in, args.out, (uint64_t)__builtin_ctzll((uint64_t)args.n) & 63, 0,
                        (uint64_t)half & (((uint64_t)1 << 29) - 1)};
    (void)fft_pass(worker, pass);
    fft_fork(worker, (fft_part_t){args.roots, args.out + half, args.in + half, half});
    (void)fft(worker, (fft_part_t){args.roots, args.out, args.in, half});
    (void)fft_join(worker);
    pass.roots = args.roots;
    return fft_pass(worker, pass);
}

static void fft_sequential(problem_t *problem)
{
    fft_data_t *data = problem->data;
    fft_twin(data->roots, data->in, data->out, problem->size[0]);
}

static void fft_fork_join(fj_worker_t *worker, problem_t *problem)
{
    fft_data_t *data = problem->data;
    (void)fft(worker, (fft_part_t){data->roots, data->in, data->out, problem->size[0]});
}

/* ---- the problem ---- */

static bool fft_set_up(problem_t *problem)
{
    int64_t n = problem->size[0];
    if (n < 2 || n > FFT_MOST || (n & (n - 1)) != 0) {
        return false;
    }
    fft_data_t *data = calloc(1, sizeof *data);
    number_t *memory = malloc((size_t)(4 * n) * sizeof *memory);
    if (data == NULL || memory == NULL) {
        free(data);
        free(memory);
        return false;
    }
    *data = (fft_data_t){memory, memory + n, memory + 2 * n, memory + 3 * n};
    uint64_t seed = 1;
    for (int64_t i = 0; i < n; i++) {
        __real__ data->start[i] = (double)(next_random(&seed) % 2001) - 1000;
        __imag__ data->start[i] = (double)(next_random(&seed) % 2001) - 1000;
    }
    double pi = acos(-1.0);
    for (int64_t size = 2; size <= n; size *= 2) {
        for (int64_t k = 0; k < size / 2; k++) {
            __real__ data->roots[size / 2 + k] = cos(2 * pi * (double)k / (double)size);
            __imag__ data->roots[size / 2 + k] = -sin(2 * pi * (double)k / (double)size);
        }
    }
    problem->data = data;
    return true;
}

static void fft_reset(problem_t *problem)
{
    fft_data_t *data = problem->data;
    memcpy(data->in, data->start, (size_t)problem->size[0] * sizeof *data->in);
}

static void fft_check(problem_t *problem)
{
    const fft_data_t *data = problem->data;
    int64_t n = problem->size[0], some[] = {0, 1 % n, n / 3, n / 2, n - 1};
    double norm = 0;
    for (int64_t i = 0; i < n; i++) {
        norm += creal(data->start[i]) * creal(data->start[i]) + cimag(data->start[i]) * cimag(data->start[i]);
    }
    for (size_t which = 0; which < sizeof some / sizeof some[0]; which++) {
        number_t sum = 0;
        for (int64_t i = 0; i < n; i++) {
            int64_t turn = some[which] * i % n;
            number_t root = data->roots[n / 2 + turn % (n / 2)];
            sum += times(data->start[i], turn < n / 2 ? root : -root);
        }
        problem->error = fmax(problem->error, cabs(data->out[some[which]] - sum) / sqrt(norm));
    }
    problem->answer[0] = hash_of(data->out, (size_t)n * sizeof *data->out);
}

static void fft_tear_down(problem_t *problem)
{
    fft_data_t *data = problem->data;
    free(data->start);                       /* and what follows it */
    free(data);
}

static const program_t fft_program = {
    .name = "fft", .sizes = 1, .answers = 1,
    .set_up = fft_set_up, .reset = fft_reset, .check = fft_check, .tear_down = fft_tear_down,
    .sequential = fft_sequential, .fork_join = fft_fork_join,
};
