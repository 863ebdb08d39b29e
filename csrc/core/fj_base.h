/* fj_base.h - layer 0: what every file of the core leans on.
 *
 * Status codes, attributes, the cache line, and two tiers of assertions:
 * FJ_ASSERT is cheap and always on (a broken invariant must not go on to
 * corrupt a user's result), FJ_DEBUG_ASSERT may cost and is on under FJ_DEBUG.
 */
#ifndef FJ_BASE_H
#define FJ_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* What a core function reports upward. The bindings translate it, in one
 * table; the core prints nothing and never exits. */
typedef enum fj_status {
    FJ_OK = 0,
    FJ_TIMEOUT,        /* the deadline passed */
    FJ_INTERRUPTED,    /* a signal arrived; the caller decides and may wait again */
    FJ_REJECTED,       /* the pool no longer takes outside work */
    FJ_QUEUE_FULL,     /* queue_capacity reached */
    FJ_NO_ROOM,        /* as many are queued as the caller wants at most */
    FJ_NO_MEMORY,
    FJ_NO_THREAD,      /* the system refused a thread and the pool has none */
    FJ_AT_LIMIT,       /* a worker blocks, work is queued, and max_workers is reached */
    FJ_STARVED,        /* nothing can ever run: every worker waits in a join */
    FJ_STOPPED         /* the waiting task was asked to stop */
} fj_status_t;

#define FJ_CACHE_LINE 64
#define FJ_FOREVER INT64_MAX       /* a deadline that never comes */

#define FJ_LIKELY(x) __builtin_expect(!!(x), 1)
#define FJ_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define FJ_OWN_LINE _Alignas(FJ_CACHE_LINE)

#define FJ_CONTAINER(pointer, type, member) \
    ((type *)(void *)((char *)(pointer) - offsetof(type, member)))

#define FJ_ASSERT(condition)                                                   \
    do {                                                                       \
        if (FJ_UNLIKELY(!(condition))) {                                       \
            fprintf(stderr, "fjpool: %s:%d: broken invariant: %s\n",           \
                    __FILE__, __LINE__, #condition);                           \
            abort();                                                           \
        }                                                                      \
    } while (0)

#ifdef FJ_DEBUG
#define FJ_DEBUG_ASSERT(condition) FJ_ASSERT(condition)
#else
#define FJ_DEBUG_ASSERT(condition) ((void)0)
#endif

#endif /* FJ_BASE_H */
