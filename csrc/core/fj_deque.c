/* fj_deque.c - the work-stealing deque of Chase and Lev (2005), with the
 * sequentially consistent operations of its proof where Lê et al. (2013) use
 * fences, and with release on top so that a thief sees the slot.
 *
 * Why no entry is taken twice. Only three steps remove entry i: pop without a
 * compare-and-swap (top went to i, then base was read < i), and the
 * compare-and-swap of base from i to i + 1, by the owner or by thieves, which
 * succeeds once. So two removals are a lone pop and a steal. The owner stores
 * top = i, then reads base < i; the thief reads base = i, then top > i. All four
 * are seqcst, so they stand in one order. The owner's read of base < i comes
 * before base became i, that before the thief's read of it, that before the
 * thief's read of top; and the store top = i is before all of them. So the
 * thief sees top <= i and leaves.
 *
 * Why a thief that holds an old array is right: the array is published before
 * the top that needs it, an array that was replaced is never written again,
 * and while base is i nobody overwrites the entry i.
 */
#include "fj_deque.h"

#include "fj_task.h"

static size_t power_of_two(size_t n)
{
    size_t power = 2;
    while (power < n && power <= SIZE_MAX / 4) {
        power <<= 1;
    }
    return power;
}

static fj_array_t *array_new(size_t capacity)
{
    fj_array_t *array = malloc(sizeof *array + capacity * sizeof array->slots[0]);
    if (array != NULL) {
        array->mask = capacity - 1;
        array->older = NULL;
        for (size_t i = 0; i < capacity; i++) {
            atomic_init(&array->slots[i], NULL);
        }
    }
    return array;
}

fj_status_t fj_deque_init(fj_deque_t *deque, size_t capacity, size_t limit, size_t index)
{
    fj_array_t *array = array_new(power_of_two(capacity < limit ? capacity : limit));
    atomic_init(&deque->base, index);
    atomic_init(&deque->top, index);
    atomic_init(&deque->array, array);
    deque->limit = power_of_two(limit);
    return array != NULL ? FJ_OK : FJ_NO_MEMORY;
}

void fj_deque_destroy(fj_deque_t *deque)
{
    fj_array_t *array = fj_load_relaxed(&deque->array);
    while (array != NULL) {
        fj_array_t *older = array->older;
        free(array);
        array = older;
    }
}

static fj_task_t *slot_get(fj_array_t *array, size_t index)
{
    return fj_load_relaxed(&array->slots[index & array->mask]);
}

static void slot_set(fj_array_t *array, size_t index, fj_task_t *task)
{
    fj_store_relaxed(&array->slots[index & array->mask], task);
}

static fj_status_t grow(fj_deque_t *deque, size_t base, size_t top)
{
    fj_array_t *old = fj_load_relaxed(&deque->array);
    if (old->mask + 1 >= deque->limit) {
        return FJ_QUEUE_FULL;
    }
    fj_array_t *array = array_new(2 * (old->mask + 1));
    if (array == NULL) {
        return FJ_NO_MEMORY;
    }
    for (size_t i = base; i != top; i++) {
        slot_set(array, i, slot_get(old, i));
    }
    array->older = old;
    fj_store_release(&deque->array, array); /* pairs with the acquire in peek_base */
    return FJ_OK;
}

fj_status_t fj_deque_push(fj_deque_t *deque, fj_task_t *task)
{
    size_t top = fj_load_relaxed(&deque->top);
    size_t base = fj_load_acquire(&deque->base); /* pairs with take_base: the slot is free */
    if (FJ_UNLIKELY(top - base > fj_load_relaxed(&deque->array)->mask)) {
        fj_status_t status = grow(deque, base, top);
        if (status != FJ_OK) {
            return status;
        }
    }
    slot_set(fj_load_relaxed(&deque->array), top, task);
    /* Publishes the slot (pairs with the read of top in peek_base), and does not
     * pass the look at the pool word that follows (pairs with fj_idle.c). */
    fj_store_seqcst(&deque->top, top + 1);
    return FJ_OK;
}

static bool take_base(fj_deque_t *deque, size_t base)
{
    return fj_cas_seqcst(&deque->base, &base, base + 1); /* see the proof above */
}

fj_task_t *fj_deque_pop(fj_deque_t *deque)
{
    size_t top = fj_load_relaxed(&deque->top) - 1;
    if (fj_load_relaxed(&deque->base) == top + 1) {
        return NULL;                         /* empty, and only the owner could change that */
    }
    fj_store_seqcst(&deque->top, top);       /* the proof: top, then base */
    size_t base = fj_load_seqcst(&deque->base);
    fj_task_t *task = slot_get(fj_load_relaxed(&deque->array), top);
    ptrdiff_t left = (ptrdiff_t)(top - base);
    if (FJ_LIKELY(left > 0)) {
        return task;
    }
    if (left < 0 || !take_base(deque, base)) { /* the last one: a race with thieves */
        task = NULL;
    }
    fj_store_relaxed(&deque->top, top + 1);  /* empty: base is top + 1 now */
    return task;
}

bool fj_deque_try_unpush(fj_deque_t *deque, fj_task_t *task)
{
    return fj_deque_peek(deque, false) == task && fj_deque_pop(deque) == task;
}

/* Reads base, then top, then the entry at base. False: empty. The entry may be
 * NULL or stale if base has moved meanwhile; then take_base fails. */
static bool peek_base(fj_deque_t *deque, size_t *base, fj_task_t **task)
{
    *base = fj_load_seqcst(&deque->base);    /* the proof: base, then top */
    size_t top = fj_load_seqcst(&deque->top); /* and pairs with push: the slot is written */
    if ((ptrdiff_t)(top - *base) <= 0) {
        return false;
    }
    *task = slot_get(fj_load_acquire(&deque->array), *base); /* pairs with grow */
    return true;
}

fj_task_t *fj_deque_poll(fj_deque_t *deque)
{
    size_t base;
    fj_task_t *task;
    while (peek_base(deque, &base, &task)) {
        if (take_base(deque, base)) {
            return task;
        }
        fj_spin_hint();
    }
    return NULL;
}

fj_task_t *fj_deque_poll_descendant(fj_deque_t *deque, uint32_t mark, fj_task_t *awaited)
{
    size_t base;
    fj_task_t *task;
    while (peek_base(deque, &base, &task) && (int32_t)((uint32_t)base - mark) >= 0) {
        /* The entry was read first. Had it been pushed after `awaited` was done,
         * then reading the top that published it would have shown that here.
         * And an entry at base stays the same until base moves. */
        if (fj_task_is_done(awaited)) {
            break;
        }
        if (take_base(deque, base)) {
            return task;
        }
    }
    return NULL;
}

fj_task_t *fj_deque_sweep(fj_deque_t *deque)
{
    size_t most = fj_deque_size(deque), kept = 0;
    fj_task_t **live = malloc((most + 1) * sizeof *live), *homeless = NULL;
    if (live == NULL) {
        return NULL;                         /* later, then */
    }
    while (kept < most && homeless == NULL && fj_deque_size(deque) > 1) {
        size_t index = fj_load_relaxed(&deque->top) - 1;
        fj_task_t *task = fj_deque_pop(deque);
        if (task == NULL) {
            break;
        }
        if (fj_task_state(task) != FJ_QUEUED) {
            task->ops->drop(task);
        } else if (fj_load_relaxed(&deque->top) != index) {
            homeless = task;                 /* it was the last: base has moved over its index */
        } else {
            live[kept++] = task;
        }
    }
    while (kept > 0) {
        FJ_ASSERT(fj_deque_push(deque, live[--kept]) == FJ_OK); /* there was room */
    }
    free(live);
    return homeless;
}

fj_task_t *fj_deque_peek(fj_deque_t *deque, bool fifo)
{
    size_t base = fj_load_acquire(&deque->base); /* pairs with take_base */
    size_t top = fj_load_relaxed(&deque->top);
    if ((ptrdiff_t)(top - base) <= 0) {
        return NULL;
    }
    return slot_get(fj_load_relaxed(&deque->array), fifo ? base : top - 1);
}

bool fj_deque_try_take_oldest(fj_deque_t *deque, fj_task_t *task)
{
    size_t base;
    fj_task_t *oldest;
    return peek_base(deque, &base, &oldest) && oldest == task && take_base(deque, base);
}

size_t fj_deque_size(fj_deque_t *deque)
{
    /* base, then top, as thieves do; both pair with the owner, and with whoever
     * announced something before it looks here (fj_idle.c) */
    size_t base = fj_load_seqcst(&deque->base);
    size_t top = fj_load_seqcst(&deque->top);
    ptrdiff_t size = (ptrdiff_t)(top - base);
    return size > 0 ? (size_t)size : 0;
}
