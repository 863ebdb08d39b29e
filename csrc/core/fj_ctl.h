/* fj_ctl.h - layer 1: the pool word. Pure functions, no memory is touched.
 *
 * One 64-bit word says how many workers there are, how many of them run, who
 * sleeps, and whether somebody is looking for work, so that each decision
 * about waking and starting is one compare-and-swap.
 *
 *   bits  0..14   top        index + 1 of the most recently idled worker, 0: none
 *   bit   15      searching  somebody looks for work (never more than one)
 *   bits 16..33   version    goes up with every change: no ABA, and "the same
 *                            word twice" means that nothing happened between
 *   bits 34..48   total      threads started and not retired
 *   bits 49..63   active     of those, the ones that run or look for work: not
 *                            idle, not blocked
 *
 * The rest of the idle stack hangs on the workers: worker.next_idle is the
 * value that `top` had when that worker went idle.
 *
 * Always: active <= total <= max_workers; searching implies active > 0; who is
 * reachable from top is neither active nor blocked.
 *
 * Written by compare-and-swap only: fj_idle.c and fj_worker.c (leaving).
 */
#ifndef FJ_CTL_H
#define FJ_CTL_H

#include "fj_base.h"

typedef uint64_t fj_ctl_t;

#define FJ_MAX_WORKERS 32767u

enum {
    FJ_CTL_TOP_BITS = 15,
    FJ_CTL_SEARCHING_SHIFT = 15,
    FJ_CTL_VERSION_SHIFT = 16,
    FJ_CTL_VERSION_BITS = 18,
    FJ_CTL_TOTAL_SHIFT = 34,
    FJ_CTL_ACTIVE_SHIFT = 49,
    FJ_CTL_COUNT_MASK = 0x7fff
};

static inline uint32_t fj_ctl_top(fj_ctl_t c)
{
    return (uint32_t)c & FJ_CTL_COUNT_MASK;
}

static inline bool fj_ctl_searching(fj_ctl_t c)
{
    return (c >> FJ_CTL_SEARCHING_SHIFT & 1) != 0;
}

static inline uint32_t fj_ctl_version(fj_ctl_t c)
{
    return (uint32_t)(c >> FJ_CTL_VERSION_SHIFT) & ((1u << FJ_CTL_VERSION_BITS) - 1);
}

static inline uint32_t fj_ctl_total(fj_ctl_t c)
{
    return (uint32_t)(c >> FJ_CTL_TOTAL_SHIFT) & FJ_CTL_COUNT_MASK;
}

static inline uint32_t fj_ctl_active(fj_ctl_t c)
{
    return (uint32_t)(c >> FJ_CTL_ACTIVE_SHIFT) & FJ_CTL_COUNT_MASK;
}

static inline fj_ctl_t fj_ctl_pack(uint32_t active, uint32_t total, uint32_t version,
                                   bool searching, uint32_t top)
{
    return (fj_ctl_t)active << FJ_CTL_ACTIVE_SHIFT
         | (fj_ctl_t)total << FJ_CTL_TOTAL_SHIFT
         | (fj_ctl_t)(version & ((1u << FJ_CTL_VERSION_BITS) - 1)) << FJ_CTL_VERSION_SHIFT
         | (fj_ctl_t)searching << FJ_CTL_SEARCHING_SHIFT
         | (fj_ctl_t)top;
}

/* The successor of c: counts moved by the given amounts, a new stack top, a
 * new searching bit, the next version. */
static inline fj_ctl_t fj_ctl_next(fj_ctl_t c, int active, int total, bool searching,
                                   uint32_t top)
{
    return fj_ctl_pack((uint32_t)((int)fj_ctl_active(c) + active),
                       (uint32_t)((int)fj_ctl_total(c) + total), fj_ctl_version(c) + 1,
                       searching, top);
}

#endif /* FJ_CTL_H */
