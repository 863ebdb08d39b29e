/*
 * The skewed price: what one position costs, and the sum over a range of them.
 *
 *     x = i;  for (r = 0; r < rounds; r++) x = sqrt(x + r) * 1.0000001
 *
 * The first quarter of the n positions takes 240 rounds, the others 20.  A static split in equal
 * chunks therefore gives one worker most of the work; that is what `python -m fjpool skew` shows.
 *
 * No Python here.  Every function may be called by any thread at any time: there is no state.
 */
#ifndef LAB_PRICE_H
#define LAB_PRICE_H

#include <stdint.h>

enum { LAB_ROUNDS_DEAR = 240, LAB_ROUNDS_CHEAP = 20 };

#define LAB_POSITIONS INT64_C(4000000)  /* n of the leaves that take no context */
#define LAB_BLOCK 32                    /* positions a vector kernel prices in one call */

/* One instruction set: `fill` prices the positions first .. first + LAB_BLOCK - 1 into `out`. */
typedef struct {
    const char *name;
    void (*fill)(int64_t first, int rounds, double *out);
    int (*supported)(void);
} lab_isa_t;

/* The k-th instruction set this machine supports, best first; NULL when there are no more.
   There is always a 0th. */
const lab_isa_t *lab_isa_supported(int k);

/* The sum of the prices of [lo, hi) out of n positions, added in index order.  Where `out` is not
   NULL it receives the hi - lo prices.  Both give the same bits, for every instruction set. */
double lab_price_scalar(int64_t lo, int64_t hi, int64_t n, double *out);
double lab_price_vector(const lab_isa_t *isa, int64_t lo, int64_t hi, int64_t n, double *out);

/* The leaves. `data` points to an int64_t: n. */
double lab_leaf_price(int64_t lo, int64_t hi);
double lab_leaf_price_vector(int64_t lo, int64_t hi);
double lab_leaf_price_n(int64_t lo, int64_t hi, void *data);
double lab_leaf_price_vector_n(int64_t lo, int64_t hi, void *data);

#endif
