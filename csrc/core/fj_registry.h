/* fj_registry.h - layer 2: the workers of a pool, found by index. */
#ifndef FJ_REGISTRY_H
#define FJ_REGISTRY_H

#include "fj_types.h"

/* Any thread. The worker at a place that is or was in use. */
static inline fj_worker_t *fj_registry_worker(fj_pool_t *pool, uint32_t index)
{
    /* both pair with the releases in fj_registry_enter */
    fj_segment_t *segment = fj_load_acquire(&pool->registry.segments[index / FJ_SEGMENT]);
    return fj_load_acquire(&segment->workers[index % FJ_SEGMENT]);
}

/* Any thread: places ever used. Indices below it are valid. */
static inline uint32_t fj_registry_high(fj_pool_t *pool)
{
    return fj_load_acquire(&pool->registry.high); /* pairs with fj_registry_enter */
}

/* A place for a new worker, or for a caller's thread that takes part as a
 * guest. Places are used again. NULL: no memory, or every place is taken. */
fj_worker_t *fj_registry_enter(fj_pool_t *pool, bool guest);
void fj_registry_leave(fj_worker_t *worker);

/* Any thread: is anything queued anywhere? seqcst loads: the second half of
 * "announce, then look" (fj_idle.c, fj_quiesce.c). */
bool fj_registry_has_work(fj_pool_t *pool);

/* Frees every worker; nobody uses the pool any more. */
void fj_registry_destroy(fj_pool_t *pool);

#endif /* FJ_REGISTRY_H */
