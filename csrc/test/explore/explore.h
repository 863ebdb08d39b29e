/* explore.h - every interleaving of a few operations: what a scenario includes,
 * and what stands in for fj_atomic.h.
 *
 * The compiler reads this file before each source (-include), so that the core's
 * own text is explored: its guard keeps fj_atomic.h out, and each atomic operation
 * becomes a call that may first let another thread go on. Threads are coroutines;
 * README.rst says what is covered.
 *
 * A scenario is a few threads of a few operations on structures that its setup
 * makes with xp_alloc. What it asserts must hold in all of them.
 */
#ifndef EXPLORE_H
#define EXPLORE_H

#define FJ_ATOMIC_H                      /* instead of it */

#define _GNU_SOURCE                      /* as fj_os.c does, which comes too late for it */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fj_base.h"

/* ---- what a scenario says ---- */

enum { XP_THREADS = 3 };

typedef enum xp_model {
    XP_SC,           /* one order of all operations */
    XP_TSO,          /* x86: a FIFO of stores a thread; seqcst stores and swaps wait for its end */
    XP_PSO,          /* weaker: stores to different words pass each other, a release passes none */
    XP_MODELS
} xp_model_t;

typedef struct xp_scenario {
    const char *name;
    void (*setup)(void);
    void (*threads[XP_THREADS])(void);   /* null: fewer */
    void (*always)(void);                /* after each step; may be null */
    void (*at_rest)(void);               /* whenever nobody is inside an operation; may be null */
    void (*end)(void);                   /* after the last; may be null */
    bool sleepers;                       /* at the end threads may sleep on a futex */
    unsigned variants;                   /* 0, or so many scenarios in one: see xp_variant */
    /* Litmus tests: which outcomes (xp_outcome) there must be, a bit each, by model. */
    uint32_t outcomes[XP_MODELS];
} xp_scenario_t;

/* Each ends with a null name. */
extern const xp_scenario_t xp_litmus[], xp_deque[], xp_spawn[], xp_task[], xp_lane[], xp_idle[];

/* Memory that is part of the state. setup only (or the core, for arrays). Zeroed. */
void *xp_alloc(size_t size);

/* Which of them this is: constant from setup on. */
extern unsigned xp_variant;

/* setup: only that thread uses this memory; its operations there are no steps. */
void xp_private(int thread, const volatile void *start, size_t size);

/* setup: only that thread writes there, so its own reads are no steps. */
void xp_single_writer(int thread, const volatile void *start, size_t size);

/* setup: nobody writes there any more, so reads are no steps. */
void xp_constant(const volatile void *start, size_t size);

/* The calling thread: between these it is inside an operation. */
void xp_enter(void);
void xp_leave(void);

/* Waits, as a step, until the condition holds of what the calling thread can see. */
void xp_await(bool (*condition)(void *), void *argument);

/* Something is wrong: prints why, and the steps that led here. */
_Noreturn void xp_fail(const char *file, int line, const char *text);
#define XP_CHECK(condition)                                                    \
    ((condition) ? (void)0 : xp_fail(__FILE__, __LINE__, #condition))

/* end: this is how it went, 0 .. 31. */
void xp_outcome(unsigned outcome);

/* ---- behind the operations ---- */

uint64_t xp_load(const volatile void *p, size_t size, const char *function, int line);
void xp_store(volatile void *p, size_t size, uint64_t value, int order, const char *function,
              int line);
typedef enum xp_swap { XP_EXCHANGE, XP_ADD, XP_OR, XP_COMPARE } xp_swap_t;
uint64_t xp_swap(volatile void *p, size_t size, xp_swap_t kind, uint64_t expected, uint64_t value,
                 const char *function, int line);
bool xp_cas(volatile void *p, size_t size, void *expected, uint64_t value, const char *function,
            int line);

#define XP_VALUE(p) __typeof__(atomic_load_explicit((p), memory_order_relaxed))
#define XP_WORD(v) ((uint64_t)(uintptr_t)(v))
#define XP_LOAD(p) ((XP_VALUE(p))xp_load((p), sizeof *(p), __func__, __LINE__))
#define XP_STORE(p, v, order)                                                  \
    xp_store((p), sizeof *(p), XP_WORD(v), order, __func__, __LINE__)
#define XP_SWAP(p, kind, v)                                                    \
    ((XP_VALUE(p))xp_swap((p), sizeof *(p), kind, 0, XP_WORD(v), __func__, __LINE__))
#define XP_CAS(p, expected, v)                                                 \
    xp_cas((p), sizeof *(p), (expected), XP_WORD(v), __func__, __LINE__)

#define fj_load_relaxed(p) XP_LOAD(p)
#define fj_load_acquire(p) XP_LOAD(p)
#define fj_load_seqcst(p) XP_LOAD(p)
#define fj_store_relaxed(p, v) XP_STORE(p, v, __ATOMIC_RELAXED)
#define fj_store_release(p, v) XP_STORE(p, v, __ATOMIC_RELEASE)
#define fj_store_seqcst(p, v) XP_STORE(p, v, __ATOMIC_SEQ_CST)
#define fj_exchange_acquire(p, v) XP_SWAP(p, XP_EXCHANGE, v)
#define fj_exchange_release(p, v) XP_SWAP(p, XP_EXCHANGE, v)
#define fj_add_relaxed(p, v) XP_SWAP(p, XP_ADD, v)
#define fj_add_acqrel(p, v) XP_SWAP(p, XP_ADD, v)
#define fj_add_seqcst(p, v) XP_SWAP(p, XP_ADD, v)
#define fj_sub_acqrel(p, v) XP_SWAP(p, XP_ADD, -(v))
#define fj_sub_seqcst(p, v) XP_SWAP(p, XP_ADD, -(v))
#define fj_or_relaxed(p, v) XP_SWAP(p, XP_OR, v)
#define fj_or_acqrel(p, v) XP_SWAP(p, XP_OR, v)
#define fj_or_seqcst(p, v) XP_SWAP(p, XP_OR, v)
#define fj_cas_acquire(p, expected, v) XP_CAS(p, expected, v)
#define fj_cas_weak_acqrel(p, expected, v) XP_CAS(p, expected, v)
#define fj_cas_seqcst(p, expected, v) XP_CAS(p, expected, v)
#define fj_cas_weak_seqcst(p, expected, v) XP_CAS(p, expected, v)
#define fj_spin_hint() ((void)0)

/* What fjpool.h and fj_spawn.c use on words that C++ sees too. */
#define __atomic_load_n(p, order)                                              \
    ((__typeof__(*(p)))xp_load((p), sizeof *(p), __func__, __LINE__))
#define __atomic_store_n(p, v, order) XP_STORE(p, v, order)

/* And fj_idle.c on the activity word. */
#undef atomic_exchange_explicit
#undef atomic_compare_exchange_strong_explicit
#define atomic_exchange_explicit(p, v, order) XP_SWAP(p, XP_EXCHANGE, v)
#define atomic_compare_exchange_strong_explicit(p, expected, v, yes, no) XP_CAS(p, expected, v)

#undef atomic_init
#define atomic_init(p, v) XP_STORE(p, v, __ATOMIC_RELAXED)

/* Memory that the core takes belongs to the state as well; nothing is used again. */
#define malloc(size) xp_alloc(size)
#define aligned_alloc(alignment, size) xp_alloc(size)
#define realloc(old, size) xp_realloc((old), (size))
#define free(p) ((void)(p))
void *xp_realloc(void *old, size_t size);

#undef FJ_ASSERT
#define FJ_ASSERT(condition) XP_CHECK(condition)

#endif /* EXPLORE_H */
