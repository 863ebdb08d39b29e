/* fj_lane.h - layer 1: what threads outside the pool hand in, in order. */
#ifndef FJ_LANE_H
#define FJ_LANE_H

#include "fj_types.h"

void fj_lane_init(fj_lane_t *lane, size_t limit);
void fj_lane_destroy(fj_lane_t *lane);

/* Any thread: all n or none. FJ_REJECTED once closed, unless `inside`: the
 * pool's own workers may still hand in while it drains. */
fj_status_t fj_lane_submit(fj_lane_t *lane, fj_task_t *const *tasks, size_t n, bool inside);

/* Any thread: the same for a caller outside, if no more than `most` are in the lane
 * then; else FJ_NO_ROOM. n <= most. */
fj_status_t fj_lane_offer(fj_lane_t *lane, fj_task_t *const *tasks, size_t n, size_t most);

/* Any thread: sleeps until n may find room (FJ_OK; also once closed), a deadline or a
 * signal. */
fj_status_t fj_lane_await_room(fj_lane_t *lane, size_t n, size_t most, int64_t deadline);

/* Any thread: the oldest, NULL if empty. */
fj_task_t *fj_lane_take(fj_lane_t *lane);

/* Any thread: takes `task` back out, wherever it is. False: it has left. */
bool fj_lane_withdraw(fj_lane_t *lane, fj_task_t *task);

/* Any thread: the oldest if it is a tombstone, else NULL. */
fj_task_t *fj_lane_take_tombstone(fj_lane_t *lane);

/* Any thread: nothing more enters. */
void fj_lane_close(fj_lane_t *lane);

/* Any thread; partner of announcing idle, see fj_idle.c. */
static inline size_t fj_lane_size(fj_lane_t *lane)
{
    return fj_load_seqcst(&lane->count); /* pairs with fj_lane_submit */
}

#endif /* FJ_LANE_H */
