/* fj_registry.c - segments of places that never move. */
#include "fj_registry.h"

#include <string.h>

#include "fj_deque.h"
#include "fj_lane.h"
#include "fj_spawn.h"

static fj_worker_t *worker_new(fj_pool_t *pool, uint32_t index)
{
    const fj_config_t *config = &pool->config;
    fj_worker_t *worker = aligned_alloc(FJ_CACHE_LINE, sizeof *worker);
    if (worker == NULL) {
        return NULL;
    }
    memset(worker, 0, sizeof *worker);
    size_t capacity = config->initial_capacity != 0 ? config->initial_capacity
                                                    : FJ_DEQUE_INITIAL;
    if (fj_deque_init(&worker->deque, capacity, config->queue_capacity,
                      config->initial_index) != FJ_OK
        || fj_deque_init(&worker->inbox, capacity, config->queue_capacity,
                         config->initial_index) != FJ_OK) {
        fj_deque_destroy(&worker->deque);
        fj_deque_destroy(&worker->inbox);
        free(worker);
        return NULL;
    }
    fj_spawn_init(worker);
    worker->pool = pool;
    worker->index = index;
    worker->random = (uint64_t)index * 0x9e3779b97f4a7c15u + 1;
    return worker;
}

static fj_worker_t *new_place_locked(fj_pool_t *pool)
{
    fj_registry_t *registry = &pool->registry;
    uint32_t index = fj_load_relaxed(&registry->high);
    if (index >= FJ_MAX_WORKERS) {
        return NULL;
    }
    fj_segment_t *segment = fj_load_relaxed(&registry->segments[index / FJ_SEGMENT]);
    if (segment == NULL) {
        segment = calloc(1, sizeof *segment);
        if (segment == NULL) {
            return NULL;
        }
        fj_store_release(&registry->segments[index / FJ_SEGMENT], segment); /* pairs with */
    }
    fj_worker_t *worker = worker_new(pool, index);
    if (worker != NULL) {
        fj_store_release(&segment->workers[index % FJ_SEGMENT], worker); /* fj_registry_worker */
        fj_store_release(&registry->high, index + 1); /* pairs with fj_registry_high */
    }
    return worker;
}

fj_worker_t *fj_registry_enter(fj_pool_t *pool, bool guest)
{
    fj_registry_t *registry = &pool->registry;
    fj_worker_t *worker;
    fj_mutex_lock(&registry->lock);
    if (registry->free != 0) {
        worker = fj_registry_worker(pool, registry->free - 1);
        registry->free = worker->next_free;
    } else {
        worker = new_place_locked(pool);
    }
    fj_mutex_unlock(&registry->lock);
    if (worker != NULL) {
        fj_store_relaxed(&worker->guest, guest);
        fj_store_relaxed(&worker->present, true);
    }
    return worker;
}

void fj_registry_leave(fj_worker_t *worker)
{
    fj_registry_t *registry = &worker->pool->registry;
    fj_store_relaxed(&worker->present, false);
    fj_mutex_lock(&registry->lock);
    worker->next_free = registry->free;
    registry->free = worker->index + 1;
    fj_mutex_unlock(&registry->lock);
}

bool fj_registry_has_work(fj_pool_t *pool)
{
    if (fj_lane_size(&pool->lane) != 0) {
        return true;
    }
    for (uint32_t i = 0, high = fj_registry_high(pool); i < high; i++) {
        fj_worker_t *worker = fj_registry_worker(pool, i);
        if (fj_deque_size(&worker->deque) != 0 || fj_deque_size(&worker->inbox) != 0
            || fj_spawn_size(worker) != 0) {
            return true;
        }
    }
    return false;
}

void fj_registry_destroy(fj_pool_t *pool)
{
    for (uint32_t i = 0, high = fj_registry_high(pool); i < high; i++) {
        fj_worker_t *worker = fj_registry_worker(pool, i);
        fj_deque_destroy(&worker->deque);
        fj_deque_destroy(&worker->inbox);
        fj_spawn_destroy(worker);
        free(worker);
    }
    for (uint32_t i = 0; i < FJ_SEGMENTS; i++) {
        free(fj_load_relaxed(&pool->registry.segments[i]));
    }
}
