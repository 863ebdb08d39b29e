/* fj_atomic.h - layer 0: C11 atomics with the memory order in the name.
 *
 * An operation stronger than relaxed names its partner where it is used.
 * There are no fences: every argument in README.rst rests on the order of
 * single operations, so that ThreadSanitizer sees what a reader sees.
 * seqcst marks the places where a store must not pass a later load
 * (announce, then look: the Dekker pattern), and only those.
 */
#ifndef FJ_ATOMIC_H
#define FJ_ATOMIC_H

#include <stdatomic.h>
#include <stdint.h>

#include "fj_base.h"

#define fj_load_relaxed(p) atomic_load_explicit((p), memory_order_relaxed)
#define fj_load_acquire(p) atomic_load_explicit((p), memory_order_acquire)
#define fj_load_seqcst(p) atomic_load_explicit((p), memory_order_seq_cst)

#define fj_store_relaxed(p, v) atomic_store_explicit((p), (v), memory_order_relaxed)
#define fj_store_release(p, v) atomic_store_explicit((p), (v), memory_order_release)
#define fj_store_seqcst(p, v) atomic_store_explicit((p), (v), memory_order_seq_cst)

#define fj_exchange_acquire(p, v) atomic_exchange_explicit((p), (v), memory_order_acquire)
#define fj_exchange_release(p, v) atomic_exchange_explicit((p), (v), memory_order_release)

#define fj_add_relaxed(p, v) atomic_fetch_add_explicit((p), (v), memory_order_relaxed)
#define fj_add_acqrel(p, v) atomic_fetch_add_explicit((p), (v), memory_order_acq_rel)
#define fj_add_seqcst(p, v) atomic_fetch_add_explicit((p), (v), memory_order_seq_cst)
#define fj_sub_acqrel(p, v) atomic_fetch_sub_explicit((p), (v), memory_order_acq_rel)
#define fj_sub_seqcst(p, v) atomic_fetch_sub_explicit((p), (v), memory_order_seq_cst)
#define fj_or_relaxed(p, v) atomic_fetch_or_explicit((p), (v), memory_order_relaxed)
#define fj_or_acqrel(p, v) atomic_fetch_or_explicit((p), (v), memory_order_acq_rel)
#define fj_or_seqcst(p, v) atomic_fetch_or_explicit((p), (v), memory_order_seq_cst)

/* Compare-and-swap. On failure *expected holds the value found. The weak
 * forms may fail for no reason and belong in loops. */
#define fj_cas_acquire(p, expected, v)                                         \
    atomic_compare_exchange_strong_explicit((p), (expected), (v),              \
                                            memory_order_acquire, memory_order_acquire)
#define fj_cas_weak_acqrel(p, expected, v)                                     \
    atomic_compare_exchange_weak_explicit((p), (expected), (v),                \
                                          memory_order_acq_rel, memory_order_acquire)
#define fj_cas_seqcst(p, expected, v)                                          \
    atomic_compare_exchange_strong_explicit((p), (expected), (v),              \
                                            memory_order_seq_cst, memory_order_seq_cst)
#define fj_cas_weak_seqcst(p, expected, v)                                     \
    atomic_compare_exchange_weak_explicit((p), (expected), (v),                \
                                          memory_order_seq_cst, memory_order_seq_cst)

/* Tells the processor that this is a spin loop. */
static inline void fj_spin_hint(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif /* FJ_ATOMIC_H */
