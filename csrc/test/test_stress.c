/* test_stress.c - everything at once: eight threads, queues of two slots, and a tree of tasks that
 * fork, join, submit, cancel, take back and block at random, while threads are refused, waits end
 * early and the pool is ended at any moment. Each task must be accounted for exactly once. */
#include "fixture.h"

#include <stdlib.h>

enum { THREADS = 8, DEPTH = 4, CHILDREN = 3 };

/* A task on the heap: one reference of its maker, one of its queue entry. */
typedef struct node {
    fj_task_t task;
    _Atomic(uint32_t) references;
    _Atomic(uint32_t) ran, cancelled, given_back; /* one of the three is 1 in the end */
    uint32_t depth;
    uint64_t random;
} node_t;

static struct {
    fj_pool_t *pool;
    uint64_t seed;
    uint32_t end_after;                         /* roots handed in; then the pool is ended */
    void (*end)(fj_pool_t *pool);
    fj_word_t roots;
    _Atomic(uint32_t) made, freed;
} all;

static node_t *node_of(fj_task_t *task)
{
    return FJ_CONTAINER(task, node_t, task);
}

static void release(node_t *node)
{
    if (fj_sub_acqrel(&node->references, 1) == 1) { /* everybody's use came before */
        FJ_CHECK_EQ(fj_load_relaxed(&node->ran) + fj_load_relaxed(&node->cancelled)
                        + fj_load_relaxed(&node->given_back), 1);
        free(node);
        (void)fj_add_acqrel(&all.freed, 1);
    }
}

static void do_things(node_t *node, fj_worker_t *worker);

static void run(fj_task_t *task, fj_worker_t *worker)
{
    FJ_CHECK_EQ(fj_add_relaxed(&node_of(task)->ran, 1), 0);
    FJ_CHECK_EQ(fj_current, worker);
    if (worker != NULL) {
        do_things(node_of(task), worker);
    }
    FJ_CHECK(fj_task_complete(task, FJ_NORMAL));
}

static void drop(fj_task_t *task)
{
    release(node_of(task));
}

/* Its entry, or its canceller, holds a reference. */
static void cancel(fj_task_t *task)
{
    if (fj_task_try_cancel(task)) {
        (void)fj_add_relaxed(&node_of(task)->cancelled, 1);
    }
}

static const fj_task_ops_t ops = {run, drop, cancel, false};

static node_t *node_new(uint32_t depth, uint64_t random)
{
    node_t *node = calloc(1, sizeof *node);
    FJ_CHECK(node != NULL);
    fj_task_init(&node->task, &ops);
    fj_store_relaxed(&node->references, 2);
    node->depth = depth;
    node->random = random;
    FJ_CHECK(fj_task_try_queue(&node->task, all.pool));
    (void)fj_add_relaxed(&all.made, 1);
    return node;
}

/* A task that did not get into a queue, or came back: it never runs. */
static void give_back(node_t *node)
{
    (void)fj_add_relaxed(&node->given_back, 1);
}

static void finish(node_t *node, fj_worker_t *worker)
{
    while (fj_join(worker, &node->task, FJ_FOREVER) != FJ_OK) { /* a signal */
    }
    FJ_CHECK(fj_task_is_done(&node->task));
    release(node);
}

/* ---- what a task does ---- */

/* Gives others time to steal it. */
static void offer(node_t *node)
{
    for (int i = 0; i < 50 && fj_task_state(&node->task) == FJ_QUEUED; i++) {
        (void)sched_yield();
    }
}

static bool hand_in(node_t *child, uint64_t random)
{
    fj_task_t *one = &child->task;
    fj_status_t status = random % 4 == 0   ? fj_pool_submit(all.pool, &one, 1)
                         : random % 4 == 1 ? fj_pool_submit_outside(all.pool, &one, 1)
                                           : fj_fork(one);
    if (status != FJ_OK) {
        give_back(child);
        drop(one);
        release(child);
    }
    return status == FJ_OK;
}

/* Returns the child if it is still to be joined. */
static node_t *one_child(node_t *node, fj_worker_t *worker)
{
    uint64_t random = fj_test_random(&node->random);
    node_t *child = node_new(node->depth - 1, random);
    if (!hand_in(child, random >> 8)) {
        return NULL;
    }
    switch (random >> 16 & 7) {
    case 0:
        cancel(&child->task);
        break;
    case 1:
        if (fj_try_unfork(&child->task)) {
            give_back(child);
        }
        break;
    case 2:
        offer(child);
        finish(child, worker);
        return NULL;
    case 3:
        finish(child, worker);
        return NULL;
    case 4:
        break;                                   /* an orphan */
    default:
        return child;
    }
    release(child);
    return NULL;
}

static void do_things(node_t *node, fj_worker_t *worker)
{
    node_t *children[CHILDREN];
    int n = 0;
    for (uint64_t i = fj_test_random(&node->random) % (CHILDREN + 1); node->depth > 0 && i > 0; i--) {
        node_t *child = one_child(node, worker);
        if (child != NULL) {
            children[n++] = child;
        }
        if (fj_test_random(&node->random) % 8 == 0) {
            (void)fj_block_begin(worker);
            (void)sched_yield();
            fj_block_end(worker);
        }
    }
    bool newest_first = fj_test_random(&node->random) % 4 != 0;
    for (int i = 0; i < n; i++) {
        finish(children[newest_first ? n - 1 - i : i], worker);
    }
}

/* ---- what a thread outside does ---- */

static void as_a_guest(uint64_t random)
{
    fj_worker_t *guest = fj_guest_enter(all.pool);
    node_t *node = node_new(DEPTH, random);
    FJ_CHECK(guest != NULL);
    FJ_CHECK(fj_task_try_start(&node->task));
    drop(&node->task);                           /* it has no entry */
    fj_run_started(&node->task);
    release(node);
    fj_guest_leave(guest);
}

static void as_a_submitter(uint64_t random)
{
    fj_task_t *batch[3];
    size_t n = 1 + (random >> 8) % 3;
    for (size_t i = 0; i < n; i++) {
        batch[i] = &node_new(DEPTH, random + i)->task;
    }
    fj_status_t status = fj_pool_submit(all.pool, batch, n);
    for (size_t i = 0; i < n; i++) {
        node_t *node = node_of(batch[i]);
        if (status != FJ_OK) {
            give_back(node);
            drop(batch[i]);
        } else if ((random >> 16) % 4 == 0) {
            cancel(batch[i]);
        } else if ((random >> 16) % 4 == 1) {
            (void)fj_run_outside(all.pool, batch[i]);
        } else if ((random >> 16) % 4 == 2) {
            finish(node, NULL);
            continue;
        }
        release(node);
    }
}

static void make_trees(unsigned index, void *unused)
{
    uint64_t random = all.seed + index;
    (void)unused;
    for (int i = 0; i < FJ_TEST_ROUNDS(150); i++) {
        uint64_t r = fj_test_random(&random);
        if (r % 5 == 0) {
            as_a_guest(r);
        } else {
            as_a_submitter(r);
        }
        fx_bump(&all.roots);
        if (fx_read(&all.roots) == all.end_after) {
            all.end(all.pool);
        }
    }
}

static void wait_for_quiet(fj_pool_t *pool)
{
    (void)pool;
}

/* One round; the bits of `kind` choose what kind of pool in what kind of world. */
static void one_round(uint32_t kind, uint64_t seed)
{
    void (*ends[])(fj_pool_t *) = {wait_for_quiet, fj_pool_shutdown, fj_pool_stop};
    fj_os_wait_result_t (*waits[])(fj_word_t *, uint32_t, int64_t)
        = {NULL, fx_hasty_wait, fx_unreliable_wait};
    fx_seam_set((fj_os_seam_t){.thread_start = fx_thread_start, .wait = waits[kind / 3 % 3]});
    fx_refuse_every = kind / 9 % 2 ? 3 : 0;
    fj_config_t config = fx_config(1 + kind % 4);
    config.max_workers = config.parallelism + kind % 3;
    config.fifo = kind % 2;
    config.keep_alive = FX_MS;
    config.queue_capacity = 1024;
    all.pool = fx_pool(&config);
    all.seed = seed;
    all.end = ends[kind % 3];
    all.end_after = (uint32_t)(fj_test_random(&seed) % (THREADS * FJ_TEST_ROUNDS(150))) + 1;
    fj_store_relaxed(&all.roots, 0);
    fj_store_relaxed(&all.made, 0);
    fj_store_relaxed(&all.freed, 0);
    fj_test_together(THREADS, make_trees, NULL);
    if (all.end == wait_for_quiet) {
        fx_pool_await_quiet(all.pool);
        FJ_CHECK_EQ(fj_load_acquire(&all.freed), fj_load_relaxed(&all.made));
    }
    fj_pool_shutdown(all.pool);
    fx_pool_await_end(all.pool);
    FJ_CHECK_LE(fx_read(&fx_watch(all.pool)->peak), config.max_workers);
    FJ_CHECK_EQ(fj_load_acquire(&all.freed), fj_load_relaxed(&all.made));
    fx_pool_release(all.pool);
    fx_seam_clear();
}

/* Whatever happens, each task runs once, is cancelled once or comes back once, and is freed. */
FJ_TEST(stress, every_task_is_accounted_for_once)
{
    uint64_t random = fj_test_seed();
    for (uint32_t kind = 0; kind < 36; kind++) {
        one_round(kind, fj_test_random(&random));
    }
}
