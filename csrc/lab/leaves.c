#define _POSIX_C_SOURCE 200809L

#include "leaves.h"

#include <errno.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <time.h>

/* --- primes ------------------------------------------------------------------------------ */

static int is_prime(int64_t n)
{
    if (n < 4)
        return n >= 2;
    if (n % 2 == 0)
        return 0;
    for (int64_t d = 3; d <= n / d; d += 2)
        if (n % d == 0)
            return 0;
    return 1;
}

int64_t lab_leaf_primes(int64_t lo, int64_t hi)
{
    int64_t found = 0;
    for (int64_t n = lo; n < hi; n++)
        found += is_prime(n);
    return found;
}

/* --- count ------------------------------------------------------------------------------- */

/* Each stripe fills a cache line pair (CPUs fetch lines in pairs), so that threads that add at the
   same time do not take the line from each other.  A forked child starts with a copy of the values. */
typedef struct {
    alignas(128) atomic_llong value;
} stripe_t;

static stripe_t stripes[LAB_STRIPES];
static atomic_uint threads_seen;

static unsigned my_stripe(void)
{
    static _Thread_local unsigned number;  /* 0: none yet */
    if (number == 0)
        number = 1 + atomic_fetch_add_explicit(&threads_seen, 1, memory_order_relaxed) % LAB_STRIPES;
    return number - 1;
}

void lab_leaf_count(int64_t lo, int64_t hi)
{
    atomic_fetch_add_explicit(&stripes[my_stripe()].value, hi - lo, memory_order_relaxed);
}

int64_t lab_count_stripe(int stripe)
{
    return atomic_load_explicit(&stripes[stripe].value, memory_order_relaxed);
}

void lab_count_reset(void)
{
    for (int stripe = 0; stripe < LAB_STRIPES; stripe++)
        atomic_store_explicit(&stripes[stripe].value, 0, memory_order_relaxed);
}

/* --- time -------------------------------------------------------------------------------- */

enum { NS_PER_S = 1000000000 };

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* Sleeps until `deadline`; a signal does not cut it short. */
static void sleep_until(int64_t deadline)
{
#if defined(__APPLE__)  /* no clock_nanosleep: sleep what is left, look again */
    for (int64_t left; (left = deadline - now_ns()) > 0;) {
        struct timespec rest = {.tv_sec = (time_t)(left / NS_PER_S), .tv_nsec = (long)(left % NS_PER_S)};
        nanosleep(&rest, NULL);
    }
#else
    struct timespec until = {.tv_sec = (time_t)(deadline / NS_PER_S),
                             .tv_nsec = (long)(deadline % NS_PER_S)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
#endif
}

void lab_leaf_sleep(int64_t lo, int64_t hi, void *data)
{
    const int64_t *ns = data;
    for (int64_t i = lo; i < hi; i++)
        sleep_until(now_ns() + *ns);
}

void lab_leaf_spin(int64_t lo, int64_t hi, void *data)
{
    const int64_t *ns = data;
    for (int64_t i = lo; i < hi; i++)
        for (int64_t deadline = now_ns() + *ns; now_ns() < deadline;)
            ;
}

/* --- failure ----------------------------------------------------------------------------- */

int lab_leaf_fail_at(int64_t lo, int64_t hi, void *data)
{
    const int64_t *position = data;
    return lo <= *position && *position < hi ? 7 : 0;
}
