/* fj_lane.c - a growing ring under a lock. */
#include "fj_lane.h"

#include "fj_task.h"

#include <string.h>

enum { INITIAL = 64 };

void fj_lane_init(fj_lane_t *lane, size_t limit)
{
    memset(lane, 0, sizeof *lane);
    lane->limit = limit;
}

void fj_lane_destroy(fj_lane_t *lane)
{
    free(lane->ring);
}

static fj_status_t make_room_locked(fj_lane_t *lane, size_t n)
{
    size_t used = lane->tail - lane->head;
    size_t capacity = lane->ring != NULL ? lane->mask + 1 : 0;
    if (n > lane->limit || used > lane->limit - n) {
        return FJ_QUEUE_FULL;
    }
    if (used + n <= capacity) {
        return FJ_OK;
    }
    size_t larger = capacity != 0 ? capacity : INITIAL;
    while (larger < used + n) {
        larger *= 2;
    }
    fj_task_t **ring = malloc(larger * sizeof *ring);
    if (ring == NULL) {
        return FJ_NO_MEMORY;
    }
    for (size_t i = 0; i < used; i++) {
        ring[i] = lane->ring[(lane->head + i) & lane->mask];
    }
    free(lane->ring);
    lane->ring = ring;
    lane->mask = larger - 1;
    lane->head = 0;
    lane->tail = used;
    return FJ_OK;
}

fj_status_t fj_lane_submit(fj_lane_t *lane, fj_task_t *const *tasks, size_t n, bool inside)
{
    fj_mutex_lock(&lane->lock);
    fj_status_t status = lane->closed && !inside ? FJ_REJECTED : make_room_locked(lane, n);
    if (status == FJ_OK) {
        for (size_t i = 0; i < n; i++) {
            lane->ring[lane->tail++ & lane->mask] = tasks[i];
        }
        /* Does not pass the look at the pool word that follows: fj_idle.c. */
        fj_store_seqcst(&lane->count, lane->tail - lane->head);
    }
    fj_mutex_unlock(&lane->lock);
    return status;
}

static fj_task_t *take(fj_lane_t *lane, bool only_tombstone)
{
    fj_task_t *task = NULL;
    if (fj_load_relaxed(&lane->count) == 0) {
        return NULL;                         /* whoever must not miss one asks fj_lane_size */
    }
    fj_mutex_lock(&lane->lock);
    if (lane->head != lane->tail) {
        task = lane->ring[lane->head & lane->mask];
        if (only_tombstone && fj_task_state(task) == FJ_QUEUED) {
            task = NULL;
        } else {
            lane->head++;
            fj_store_relaxed(&lane->count, lane->tail - lane->head);
        }
    }
    fj_mutex_unlock(&lane->lock);
    return task;
}

fj_task_t *fj_lane_take(fj_lane_t *lane)
{
    return take(lane, false);
}

fj_task_t *fj_lane_take_tombstone(fj_lane_t *lane)
{
    return take(lane, true);
}

bool fj_lane_withdraw(fj_lane_t *lane, fj_task_t *task)
{
    bool found = false;
    fj_mutex_lock(&lane->lock);
    for (size_t i = lane->head; i != lane->tail; i++) {
        fj_task_t *here = lane->ring[i & lane->mask];
        if (found) {
            lane->ring[(i - 1) & lane->mask] = here; /* close the gap */
        }
        found = found || here == task;
    }
    if (found) {
        lane->tail--;
        fj_store_relaxed(&lane->count, lane->tail - lane->head);
    }
    fj_mutex_unlock(&lane->lock);
    return found;
}

void fj_lane_close(fj_lane_t *lane)
{
    fj_mutex_lock(&lane->lock);
    lane->closed = true;
    fj_mutex_unlock(&lane->lock);
}
