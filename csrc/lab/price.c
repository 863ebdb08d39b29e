#include "price.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

/* A multiplication and the next round's addition must not become one fused operation, or the bits
   would depend on the instruction set.  GCC does not know the pragma: it is told by the flag
   -ffp-contract=off. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#endif

#define PRICE_GROWTH 1.0000001

static int rounds_at(int64_t i, int64_t n)
{
    return i < n / 4 ? LAB_ROUNDS_DEAR : LAB_ROUNDS_CHEAP;
}

double lab_price_scalar(int64_t lo, int64_t hi, int64_t n, double *out)
{
    double sum = 0.0;
    for (int64_t i = lo; i < hi; i++) {
        int rounds = rounds_at(i, n);
        double x = (double)i;
        for (int round = 0; round < rounds; round++)
            x = sqrt(x + (double)round) * PRICE_GROWTH;
        sum += x;
        if (out != NULL)
            out[i - lo] = x;
    }
    return sum;
}

/* --- one kernel for each instruction set ------------------------------------------------- */

static int always(void)
{
    return 1;
}

#if defined(__x86_64__)

typedef double vector2_t __attribute__((vector_size(16)));
typedef double vector4_t __attribute__((vector_size(32)));
typedef double vector8_t __attribute__((vector_size(64)));

#define FILL_NAME fill_sse2
#define FILL_TARGET
#define FILL_VECTOR vector2_t
#define FILL_LANES 2
#define FILL_INDEX ((vector2_t){0, 1})
#define FILL_SQRT(x) ((vector2_t)_mm_sqrt_pd(x))
#include "price_fill.h"

#define FILL_NAME fill_avx2
#define FILL_TARGET __attribute__((target("avx2")))
#define FILL_VECTOR vector4_t
#define FILL_LANES 4
#define FILL_INDEX ((vector4_t){0, 1, 2, 3})
#define FILL_SQRT(x) ((vector4_t)_mm256_sqrt_pd(x))
#include "price_fill.h"

#define FILL_NAME fill_avx512f
#define FILL_TARGET __attribute__((target("avx512f")))
#define FILL_VECTOR vector8_t
#define FILL_LANES 8
#define FILL_INDEX ((vector8_t){0, 1, 2, 3, 4, 5, 6, 7})
#define FILL_SQRT(x) ((vector8_t)_mm512_sqrt_pd(x))
#include "price_fill.h"

static int has_avx2(void)
{
    return __builtin_cpu_supports("avx2");
}

static int has_avx512f(void)
{
    return __builtin_cpu_supports("avx512f");
}

static const lab_isa_t isas[] = {
    {"avx512f", fill_avx512f, has_avx512f},
    {"avx2", fill_avx2, has_avx2},
    {"sse2", fill_sse2, always},  /* every x86-64 has it */
};

#elif defined(__aarch64__)

#define FILL_NAME fill_neon
#define FILL_TARGET
#define FILL_VECTOR float64x2_t
#define FILL_LANES 2
#define FILL_INDEX ((float64x2_t){0, 1})
#define FILL_SQRT(x) vsqrtq_f64(x)
#include "price_fill.h"

static const lab_isa_t isas[] = {{"neon", fill_neon, always}};

#else

/* No vectors that we know: still several positions side by side, one double each. */
#define FILL_NAME fill_plain
#define FILL_TARGET
#define FILL_VECTOR double
#define FILL_LANES 1
#define FILL_INDEX 0.0
#define FILL_SQRT(x) sqrt(x)
#include "price_fill.h"

static const lab_isa_t isas[] = {{"plain", fill_plain, always}};

#endif

const lab_isa_t *lab_isa_supported(int k)
{
    for (size_t j = 0; j < sizeof isas / sizeof isas[0]; j++)
        if (isas[j].supported() && k-- == 0)
            return &isas[j];
    return NULL;
}

/* --- ranges ------------------------------------------------------------------------------ */

/* Adds the prices of [lo, hi), which all take `rounds`, to sum.  A last block that is not full is
   priced in full and used in part. */
static double add_blocks(const lab_isa_t *isa, double sum, int64_t lo, int64_t hi, int rounds,
                         double *out)
{
    double block[LAB_BLOCK];
    for (int64_t first = lo; first < hi; first += LAB_BLOCK) {
        int64_t used = hi - first < LAB_BLOCK ? hi - first : LAB_BLOCK;
        isa->fill(first, rounds, block);
        for (int64_t k = 0; k < used; k++) {
            sum += block[k];
            if (out != NULL)
                out[first - lo + k] = block[k];
        }
    }
    return sum;
}

double lab_price_vector(const lab_isa_t *isa, int64_t lo, int64_t hi, int64_t n, double *out)
{
    /* Cut where the cost changes, so that all positions of a block take the same rounds. */
    int64_t cut = n / 4 < lo ? lo : n / 4 > hi ? hi : n / 4;
    double sum = add_blocks(isa, 0.0, lo, cut, LAB_ROUNDS_DEAR, out);
    return add_blocks(isa, sum, cut, hi, LAB_ROUNDS_CHEAP, out == NULL ? NULL : out + (cut - lo));
}

/* --- leaves ------------------------------------------------------------------------------ */

double lab_leaf_price(int64_t lo, int64_t hi)
{
    return lab_price_scalar(lo, hi, LAB_POSITIONS, NULL);
}

double lab_leaf_price_vector(int64_t lo, int64_t hi)
{
    return lab_price_vector(lab_isa_supported(0), lo, hi, LAB_POSITIONS, NULL);
}

double lab_leaf_price_n(int64_t lo, int64_t hi, void *data)
{
    const int64_t *n = data;
    return lab_price_scalar(lo, hi, *n, NULL);
}

double lab_leaf_price_vector_n(int64_t lo, int64_t hi, void *data)
{
    const int64_t *n = data;
    return lab_price_vector(lab_isa_supported(0), lo, hi, *n, NULL);
}
