/* fj_deque.h - layer 1: a worker's own tasks. One owner, many thieves. */
#ifndef FJ_DEQUE_H
#define FJ_DEQUE_H

#include "fj_types.h"

enum { FJ_DEQUE_INITIAL = 64 };

/* capacity is rounded up to a power of two; limit likewise. Before use. */
fj_status_t fj_deque_init(fj_deque_t *deque, size_t capacity, size_t limit, size_t index);
void fj_deque_destroy(fj_deque_t *deque);

/* Owner: on top. FJ_QUEUE_FULL or FJ_NO_MEMORY leave the deque as it was. */
fj_status_t fj_deque_push(fj_deque_t *deque, fj_task_t *task);

/* Owner: from the top, newest first. NULL: empty. */
fj_task_t *fj_deque_pop(fj_deque_t *deque);

/* Owner: takes `task` off if it is on top. */
bool fj_deque_try_unpush(fj_deque_t *deque, fj_task_t *task);

/* Owner: takes `task` off if it is the oldest. */
bool fj_deque_try_take_oldest(fj_deque_t *deque, fj_task_t *task);

/* Owner: drops the tombstones, except perhaps the oldest entry. Every other entry goes
 * back to its own index or a lower one: lifted above a mark it would pass for a
 * descendant of a task that it has nothing to do with. If thieves made the last one
 * it took out the oldest, it has no place to go back to and is returned, else NULL. */
fj_task_t *fj_deque_sweep(fj_deque_t *deque);

/* Any thread: from the base, oldest first. NULL: it was empty. */
fj_task_t *fj_deque_poll(fj_deque_t *deque);

/* Any thread: like poll, but only an entry at or above `mark` (the low half of an
 * index: entries are far fewer), and only while
 * `awaited` is not done: a task that descends from `awaited`, see README.rst. */
fj_task_t *fj_deque_poll_descendant(fj_deque_t *deque, uint32_t mark, fj_task_t *awaited);

/* Owner: the next one it would pop (lifo) or poll (fifo), still queued. */
fj_task_t *fj_deque_peek(fj_deque_t *deque, bool fifo);

/* Any thread: entries, tombstones included; a guess unless the owner asks.
 * seqcst inside: partner of announcing idle, see fj_idle.c. */
size_t fj_deque_size(fj_deque_t *deque);

#endif /* FJ_DEQUE_H */
