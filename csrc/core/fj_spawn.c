/* fj_spawn.c - frames by value, the older ones shared.
 *
 *     frames:  0 ... tail ... split ... top ... room
 *              stolen | shared | private | free
 *
 * One word holds tail, split and a version. Thieves raise tail by one, the owner
 * moves split (and lowers both, once everything below top has been stolen); each by
 * compare-and-swap of the whole word, so a frame has one taker. The owner raises the
 * version with every change it makes: frames come and go at the same indices, and a
 * swap by someone who read the word before that must fail.
 *
 * Memory: the owner's swap releases the frames that it shares, the thief's acquires
 * them. Thieves' own swaps in between continue the owner's release sequence.
 *
 * Asking. Shared frames must not run out while there are private ones. The owner's
 * fast paths compare with `gate` and `floor` only, so whoever takes the last shared
 * frame closes both; the next fork or join then comes here and shares more. No
 * request is lost: the owner opens the gate, then reads the word; a thief swaps the
 * word, then closes the gate. All four are seqcst, so either the owner reads that
 * nothing is shared any more, or its opening comes before the thief's closing.
 */
#define FJPOOL_CORE
#include "fj_spawn.h"

#include <string.h>

#include "fj_task.h"

enum { FRAMES = 1 << 16, INDEX_BITS = 17, INDEX_MASK = (1 << INDEX_BITS) - 1 };

_Static_assert(sizeof(fj_frame_t) == FJ_CACHE_LINE, "a frame is a cache line");
_Static_assert(offsetof(fj_frame_t, ops) == offsetof(fj_task_t, ops), "a header is a task");
_Static_assert(offsetof(fj_frame_t, u) >= sizeof(fj_task_t), "a header is a task");
_Static_assert(offsetof(fj_worker_t, spawn) == 0, "fjpool.h finds it there");

typedef uint64_t shared_t;

static uint32_t tail_of(shared_t word)
{
    return (uint32_t)word & INDEX_MASK;
}

static uint32_t split_of(shared_t word)
{
    return (uint32_t)(word >> INDEX_BITS) & INDEX_MASK;
}

static shared_t changed(shared_t word, uint32_t tail, uint32_t split)
{
    shared_t version = (word >> 2 * INDEX_BITS) + 1;
    return version << 2 * INDEX_BITS | (shared_t)split << INDEX_BITS | tail;
}

static fj_task_t *task_of(fj_frame_t *frame)
{
    return (fj_task_t *)(void *)frame;
}

void fj_spawn_init(fj_worker_t *worker)
{
    worker->room = FRAMES;
    worker->spawn.top = &worker->landing;    /* gate and floor are closed */
    worker->spawn.floor = &worker->landing + 1;
}

void fj_spawn_destroy(fj_worker_t *worker)
{
    free(worker->frames);
    free(worker->late);
}

/* ---- gate and floor ---- */

static void open_gate(fj_worker_t *worker, uint32_t split)
{
    /* seqcst: then the owner reads the shared word, see above */
    __atomic_store_n(&worker->spawn.floor, worker->frames + split, __ATOMIC_SEQ_CST);
    __atomic_store_n(&worker->spawn.gate, worker->frames + worker->room, __ATOMIC_SEQ_CST);
}

/* The owner, or a thief that has taken the last shared frame. */
static void close_gate(fj_worker_t *worker)
{
    __atomic_store_n(&worker->spawn.gate, NULL, __ATOMIC_SEQ_CST); /* partner: open_gate */
    __atomic_store_n(&worker->spawn.floor, (fj_frame_t *)UINTPTR_MAX, __ATOMIC_SEQ_CST);
}

/* ---- no room ---- */

static bool get_memory(fj_worker_t *worker)
{
    size_t size = ((size_t)worker->room + 1) * sizeof *worker->frames; /* and one to land on */
    if (worker->frames != NULL || worker->room == 0) {
        return false;                        /* it has been used up */
    }
    fj_frame_t *frames = aligned_alloc(FJ_CACHE_LINE, size);
    if (frames == NULL) {
        return false;
    }
    memcpy(frames, &worker->landing, sizeof *frames);
    worker->frames = frames;                 /* published by the first share */
    worker->spawn.top = frames + 1;
    return true;
}

/* The latest frame finds no room: it is run now, and its result kept until its join. */
static void run_late(fj_worker_t *worker)
{
    fj_frame_t *landing = worker->spawn.top - 1, frame = *landing;
    worker->spawn.top = landing;
    frame.ops->run(&frame, worker);
    if (worker->lates == worker->late_room) {
        size_t room = worker->late_room * 2 + 64;
        void *late = realloc(worker->late, room * sizeof *worker->late);
        FJ_ASSERT(late != NULL && "no memory for the results of forked calls");
        worker->late = late;
        worker->late_room = room;
    }
    worker->late[worker->lates++] = frame;
}

/* ---- sharing ---- */

/* Shares private frames up to `end`. */
static bool share(fj_worker_t *worker, uint32_t end)
{
    shared_t word = fj_load_relaxed(&worker->shared);
    uint32_t split = split_of(word);
    if (split == 0) {
        fj_store_relaxed(&worker->forked_after, (uint32_t)fj_load_relaxed(&worker->deque.top));
    }
    for (uint32_t i = split; i < end; i++) {
        fj_task_t *task = task_of(worker->frames + i);
        atomic_init(&task->status, FJ_RUNNING); /* by whoever takes it: nobody claims it */
        atomic_init(&task->runner, FJ_FRAME);
        atomic_init(&task->pool, (fj_pool_t *)(void *)worker->job);
    }
    open_gate(worker, end);
    /* seqcst: somebody may have gone idle, see fj_idle.c */
    while (!fj_cas_weak_seqcst(&worker->shared, &word, changed(word, tail_of(word), end))) {
    }
    return true;
}

/* The gate was closed. If that is still right, shares the older half of the private
 * frames below `end`. */
static bool answer(fj_worker_t *worker, uint32_t end)
{
    uint32_t split = split_of(fj_load_relaxed(&worker->shared)); /* only the owner moves it */
    open_gate(worker, split);
    shared_t word = fj_load_seqcst(&worker->shared); /* see above */
    if (tail_of(word) < split) {
        return false;
    }
    if (end == split) {
        close_gate(worker);                  /* nothing to share yet: the next fork will be */
        return false;
    }
    return share(worker, split + (end - split + 1) / 2);
}

bool fj_spawn_forked(fj_worker_t *worker)
{
    bool at_end = worker->frames == NULL || worker->spawn.top > worker->frames + worker->room;
    if (FJ_UNLIKELY(worker->lates > 0 || (at_end && !get_memory(worker)))) {
        run_late(worker);
        /* It may have taken long, and thieves ask for what has found room. */
        bool exposed = worker->frames != NULL && answer(worker, fj_spawn_top(worker));
        close_gate(worker);                  /* joins of late frames must come here */
        return exposed;
    }
    return answer(worker, fj_spawn_top(worker));
}

bool fj_spawn_expose(fj_worker_t *worker)
{
    if (worker->frames == NULL) {
        return false;
    }
    uint32_t top = fj_spawn_top(worker);
    return top > split_of(fj_load_relaxed(&worker->shared)) && share(worker, top);
}

/* ---- taking back ---- */

fj_taken_t fj_spawn_take_back(fj_worker_t *worker, bool *exposed)
{
    *exposed = false;
    if (FJ_UNLIKELY(worker->lates > 0)) {
        *worker->spawn.top = worker->late[--worker->lates];
        return FJ_TAKEN_DONE;
    }
    uint32_t index = fj_spawn_top(worker) - 1;
    shared_t word = fj_load_relaxed(&worker->shared);
    if (index >= split_of(word)) {           /* private: somebody asks for older ones */
        *exposed = answer(worker, index);
        worker->spawn.top--;
        return FJ_TAKEN_BACK;
    }
    for (;;) {                               /* index is split - 1 */
        uint32_t tail = tail_of(word), split = split_of(word);
        if (tail > index) {
            return FJ_TAKEN_STOLEN;
        }
        /* The newer half becomes private again. Acquire and release: the word is all
         * that decides, and the frames are the owner's own. */
        uint32_t half = tail + (split - tail) / 2;
        if (fj_cas_weak_acqrel(&worker->shared, &word, changed(word, tail, half))) {
            worker->spawn.top--;
            (void)answer(worker, half);
            return FJ_TAKEN_BACK;
        }
    }
}

void fj_spawn_drop(fj_worker_t *worker)
{
    shared_t word = fj_load_relaxed(&worker->shared);
    uint32_t index = fj_spawn_top(worker) - 1;
    FJ_ASSERT(tail_of(word) == index + 1 && split_of(word) == index + 1);
    /* Nothing is shared, so nobody swaps it meanwhile. Release: who reads it here
     * orders what it does after what this worker did. */
    fj_store_release(&worker->shared, changed(word, index, index));
    worker->spawn.top--;
    close_gate(worker);
}

fj_task_t *fj_spawn_latest(fj_worker_t *worker)
{
    return task_of(worker->spawn.top - 1);
}

uint32_t fj_spawn_top(fj_worker_t *worker)
{
    return worker->frames != NULL ? (uint32_t)(worker->spawn.top - worker->frames) : 0;
}

/* ---- thieves ---- */

static fj_task_t *steal(fj_worker_t *victim, uint32_t mark, fj_task_t *awaited)
{
    shared_t word = fj_load_acquire(&victim->shared); /* pairs with share */
    for (;;) {
        uint32_t tail = tail_of(word), split = split_of(word);
        if (tail >= split || tail < mark) {
            return NULL;
        }
        /* The word was read first. Had the frame been shared after `awaited` was
         * done, that word would show it done here; and once it has changed, the
         * swap fails. */
        if (awaited != NULL && fj_task_is_done(awaited)) {
            return NULL;
        }
        if (fj_cas_weak_seqcst(&victim->shared, &word, word + 1)) { /* partner: answer */
            if (tail + 1 == split) {
                close_gate(victim);
            }
            return task_of(victim->frames + tail);
        }
    }
}

fj_task_t *fj_spawn_steal(fj_worker_t *victim)
{
    return steal(victim, 0, NULL);
}

fj_task_t *fj_spawn_steal_descendant(fj_worker_t *victim, uint32_t mark, fj_task_t *awaited)
{
    return steal(victim, mark, awaited);
}

uint32_t fj_spawn_size(fj_worker_t *worker)
{
    shared_t word = fj_load_seqcst(&worker->shared);
    return split_of(word) - tail_of(word);
}
