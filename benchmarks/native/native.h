/* native.h - what a classic program is to module.c.
 *
 * A program is one file: its fork/join version, its sequential twin, and how its answer
 * is computed. Both work on the same problem_t, and only they are timed:
 *
 *     set_up    once: memory, and what never changes
 *     reset     before each run
 *     run       one of sequential, fork_join, loop
 *     check     after each run: fills in `answer` and `error`
 *     tear_down once
 *
 * Everything may be NULL but sequential. module.c includes all programs into one
 * translation unit, so a name begins with its program's.
 */
#ifndef NATIVE_H
#define NATIVE_H

#include <Python.h>

#include <fjpool.h>

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What does the work below a program's cut-off: one piece of code for it and its twin,
 * so that they differ in forks and joins only. */
#if defined(__GNUC__) && !defined(__clang__)
#define LEAF __attribute__((noinline, noclone)) static
#else
#define LEAF __attribute__((noinline)) static
#endif

enum { SIZES = 4, ANSWERS = 4 };

typedef struct problem {
    int64_t size[SIZES];        /* the program's arguments */
    int64_t answer[ANSWERS];    /* exact; the same however it was run */
    double error;               /* of floating-point results, against what is known of them */
    int64_t work;               /* what was done, where that is not the same in every run */
    int64_t chunk;              /* of `loop`; 0: automatic */
    void *data;                 /* the program's own */
} problem_t;

typedef struct program {
    const char *name;
    int sizes, answers;                 /* how many it has */
    bool (*set_up)(problem_t *problem); /* false: no memory */
    void (*reset)(problem_t *problem);
    void (*sequential)(problem_t *problem);
    void (*fork_join)(fj_worker_t *worker, problem_t *problem);
    int (*loop)(problem_t *problem);    /* in a worker; a code */
    void (*check)(problem_t *problem);
    void (*tear_down)(problem_t *problem);
} program_t;

static inline int64_t now_ns(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Numbers that look random, the same everywhere: splitmix64. */
static inline uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* Of the bits of an array: equal results, equal hashes. 63 bits, for Python's sake. */
static inline int64_t hash_of(const void *array, size_t bytes)
{
    const unsigned char *p = array;
    uint64_t hash = 1469598103934665603u, word;
    for (; bytes >= sizeof word; bytes -= sizeof word, p += sizeof word) {
        memcpy(&word, p, sizeof word);
        hash = (hash ^ word) * 1099511628211u;
        hash ^= hash >> 29;
    }
    return (int64_t)(hash >> 1);
}

static inline void free_data(problem_t *problem)
{
    free(problem->data);
}

static inline void add_integers(fj_value_t *left, fj_value_t right, void *data)
{
    (void)data;
    left->i += right.i;
}

/* A reduction over 0 <= i < n as `loop`; adds up into answer[0]. */
static inline int sum_over(problem_t *problem, int64_t n,
                           int (*leaf)(fj_worker_t *, int64_t, int64_t, void *, fj_value_t *))
{
    fj_loop_t whole = {0, n, problem->chunk, leaf, add_integers, problem};
    fj_value_t sum = {.i = 0};
    int code = fj_parallel(NULL, &whole, &sum);
    problem->answer[0] = sum.i;
    return code;
}

#endif /* NATIVE_H */
