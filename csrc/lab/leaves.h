/*
 * Small leaves with known behaviour, for demonstrations and tests: they count, wait, burn time, fail.
 *
 * No Python here.  Any thread may call any of them.
 */
#ifndef LAB_LEAVES_H
#define LAB_LEAVES_H

#include <stdint.h>

/* How many primes lie in [lo, hi), by trial division. */
int64_t lab_leaf_primes(int64_t lo, int64_t hi);

/* Adds hi - lo to the counter. */
void lab_leaf_count(int64_t lo, int64_t hi);

/* The counter is spread over stripes: a thread always adds to the same one, and two threads share
   one only when there are more threads than stripes.  Reading while others add gives some value in
   between; resetting while others add may lose what they add. */
enum { LAB_STRIPES = 64 };
int64_t lab_count_stripe(int stripe);
void lab_count_reset(void);

/* For every position: sleep, or burn CPU, for *(int64_t *)data nanoseconds. */
void lab_leaf_sleep(int64_t lo, int64_t hi, void *data);
void lab_leaf_spin(int64_t lo, int64_t hi, void *data);

/* 7 when the position *(int64_t *)data lies in [lo, hi), else 0. */
int lab_leaf_fail_at(int64_t lo, int64_t hi, void *data);

#endif
