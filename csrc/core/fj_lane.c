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

static fj_status_t enter_locked(fj_lane_t *lane, fj_task_t *const *tasks, size_t n)
{
    fj_status_t status = make_room_locked(lane, n);
    if (status == FJ_OK) {
        for (size_t i = 0; i < n; i++) {
            lane->ring[lane->tail++ & lane->mask] = tasks[i];
        }
        /* Does not pass the look at the pool word that follows: fj_idle.c. */
        fj_store_seqcst(&lane->count, lane->tail - lane->head);
    }
    return status;
}

fj_status_t fj_lane_submit(fj_lane_t *lane, fj_task_t *const *tasks, size_t n, bool inside)
{
    fj_mutex_lock(&lane->lock);
    fj_status_t status = lane->closed && !inside ? FJ_REJECTED : enter_locked(lane, tasks, n);
    fj_mutex_unlock(&lane->lock);
    return status;
}

static bool has_room_locked(fj_lane_t *lane, size_t n, size_t most)
{
    size_t used = lane->tail - lane->head;
    return used <= most && n <= most - used;
}

fj_status_t fj_lane_offer(fj_lane_t *lane, fj_task_t *const *tasks, size_t n, size_t most)
{
    fj_mutex_lock(&lane->lock);
    fj_status_t status = lane->closed                        ? FJ_REJECTED
                       : !has_room_locked(lane, n, most)     ? FJ_NO_ROOM
                                                             : enter_locked(lane, tasks, n);
    fj_mutex_unlock(&lane->lock);
    return status;
}

fj_status_t fj_lane_await_room(fj_lane_t *lane, size_t n, size_t most, int64_t deadline)
{
    fj_mutex_lock(&lane->lock);
    bool waits = !lane->closed && !has_room_locked(lane, n, most);
    uint32_t seen = fj_load_relaxed(&lane->room);
    lane->waiters += waits;
    fj_mutex_unlock(&lane->lock);
    if (!waits) {
        return FJ_OK;
    }
    fj_os_wait_result_t result = fj_os_wait(&lane->room, seen, deadline);
    fj_mutex_lock(&lane->lock);
    lane->waiters--;
    bool room = lane->closed || has_room_locked(lane, n, most);
    fj_mutex_unlock(&lane->lock);
    return room                              ? FJ_OK
         : result == FJ_WAIT_TIMEOUT         ? FJ_TIMEOUT
                                             : FJ_INTERRUPTED; /* or others were quicker: again */
}

/* Under the lock: the word changes before a waiter can have read it, or after, and then
 * its sleep ends at once. True: wake them, without the lock. */
static bool call_waiters_locked(fj_lane_t *lane)
{
    if (FJ_LIKELY(lane->waiters == 0)) {
        return false;
    }
    fj_store_relaxed(&lane->room, fj_load_relaxed(&lane->room) + 1);
    return true;
}

static fj_task_t *take(fj_lane_t *lane, bool only_tombstone)
{
    fj_task_t *task = NULL;
    bool call = false;
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
            call = call_waiters_locked(lane);
        }
    }
    fj_mutex_unlock(&lane->lock);
    if (call) {
        fj_os_wake_all(&lane->room);
    }
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
    bool call = false;
    if (found) {
        lane->tail--;
        fj_store_relaxed(&lane->count, lane->tail - lane->head);
        call = call_waiters_locked(lane);
    }
    fj_mutex_unlock(&lane->lock);
    if (call) {
        fj_os_wake_all(&lane->room);
    }
    return found;
}

void fj_lane_close(fj_lane_t *lane)
{
    fj_mutex_lock(&lane->lock);
    lane->closed = true;
    bool call = call_waiters_locked(lane);
    fj_mutex_unlock(&lane->lock);
    if (call) {
        fj_os_wake_all(&lane->room);
    }
}
