/* fj_range.c - recursive halving over heap tasks. */
#include "fj_range.h"

#include "fj_join.h"
#include "fj_task.h"
#include "fj_worker.h"

/* The left half of a split. Two references: its queue entry's and its
 * parent's. A value that no parent has taken goes with the last one. */
typedef struct node {
    fj_task_t task;
    fj_range_job_t *job;
    int64_t lo, hi;
    fj_value_t value;
    int code;
    _Atomic(uint32_t) references;
} node_t;

static int compute(fj_range_job_t *job, fj_worker_t *worker, int64_t lo, int64_t hi,
                   fj_value_t *value);

static void discard(fj_range_job_t *job, fj_value_t value)
{
    if (job->discard != NULL) {
        job->discard(job, value);
    }
}

static node_t *node_of(fj_task_t *task)
{
    return FJ_CONTAINER(task, node_t, task);
}

static void node_run(fj_task_t *task, fj_worker_t *worker)
{
    node_t *node = node_of(task);
    node->code = compute(node->job, worker, node->lo, node->hi, &node->value);
    (void)fj_task_complete(task, FJ_NORMAL);
}

static void node_drop(fj_task_t *task)
{
    node_t *node = node_of(task);
    if (fj_sub_acqrel(&node->references, 1) == 1) { /* the other's use came before */
        fj_range_job_t *job = node->job;
        if (node->code == 0) {
            discard(job, node->value);
        }
        free(node);
        fj_range_release(job);
    }
}

/* Not if somebody runs it: the job may still come out whole. */
static void node_cancel(fj_task_t *task)
{
    if (fj_task_try_cancel(task)) {          /* the caller keeps the entry's reference */
        fj_range_fail(node_of(task)->job, FJ_RANGE_CANCELLED);
    }
}

static const fj_task_ops_t node_ops = {node_run, node_drop, node_cancel, false};
static const fj_task_ops_t native_node_ops = {node_run, node_drop, node_cancel, true};

static node_t *node_new(fj_range_job_t *job, fj_pool_t *pool, int64_t lo, int64_t hi)
{
    node_t *node = malloc(sizeof *node);
    if (node != NULL) {
        fj_task_init(&node->task, job->native ? &native_node_ops : &node_ops);
        atomic_init(&node->references, 2);
        node->job = job;
        node->lo = lo;
        node->hi = hi;
        node->code = FJ_RANGE_CANCELLED;     /* until it has run */
        node->value.i = 0;
        (void)fj_add_relaxed(&job->references, 1);
        (void)fj_task_try_queue(&node->task, pool);
    }
    return node;
}

void fj_range_fail(fj_range_job_t *job, int code)
{
    int none = 0;
    (void)fj_cas_seqcst(&job->code, &none, code); /* pairs with the acquire of who asks for it */
}

static void failed(fj_range_job_t *job, fj_worker_t *worker, int code)
{
    fj_range_fail(job, code);
    if (code == FJ_RANGE_LEFT && job->guest == worker) {
        job->left = true;
    }
}

static void poll(fj_range_job_t *job, fj_worker_t *worker)
{
    if (worker->guest && job->poll != NULL) {
        int code = job->poll(job);
        if (code != 0) {
            failed(job, worker, code);
        }
    }
}

static int run_leaf(fj_range_job_t *job, fj_worker_t *worker, int64_t lo, int64_t hi,
                    fj_value_t *value)
{
    int code = job->leaf(job, worker, lo, hi, value);
    fj_store_relaxed(&worker->leaves, fj_load_relaxed(&worker->leaves) + 1);
    if (FJ_UNLIKELY(fj_current != worker)) { /* see fj_after_fork_child */
        code = FJ_RANGE_ORPHANED;
    }
    if (code != 0) {
        failed(job, worker, code);
    }
    poll(job, worker);
    return code;
}

static bool has_left(fj_range_job_t *job, fj_worker_t *worker)
{
    return FJ_UNLIKELY(worker->guest) && job->guest == worker && job->left;
}

static int take(node_t *node, fj_value_t *value)
{
    int code = node->code;
    *value = node->value;
    node->code = FJ_RANGE_CANCELLED;         /* taken */
    node_drop(&node->task);
    return code;
}

/* Waits for the forked half and takes its value. Nobody gives up but a guest that
 * leaves: the nodes keep the job, and it leaves the job's data to the last of them. */
static int join_half(fj_range_job_t *job, fj_worker_t *worker, node_t *node,
                     fj_value_t *value)
{
    if (FJ_UNLIKELY(fj_current != worker)) {
        return FJ_RANGE_ORPHANED;
    }
    while (!has_left(job, worker)) {
        if (fj_join_firmly(worker, &node->task) == FJ_OK) {
            return take(node, value);
        }
        poll(job, worker);
    }
    node_drop(&node->task);
    return FJ_RANGE_LEFT;
}

static int combine(fj_range_job_t *job, int left_code, fj_value_t *left, int right_code,
                   fj_value_t right)
{
    if (left_code == 0 && right_code == 0) {
        int code = job->combine(job, left, right);
        if (code != 0) {
            fj_range_fail(job, code);
        }
        return code;
    }
    if (left_code == 0) {
        discard(job, *left);
    }
    if (right_code == 0) {
        discard(job, right);
    }
    return left_code != 0 ? left_code : right_code;
}

static int compute(fj_range_job_t *job, fj_worker_t *worker, int64_t lo, int64_t hi,
                   fj_value_t *value)
{
    int code = fj_load_relaxed(&job->code);
    if (code != 0) {
        return code;
    }
    if ((uint64_t)hi - (uint64_t)lo <= (uint64_t)job->chunk) {
        return run_leaf(job, worker, lo, hi, value);
    }
    int64_t middle = (int64_t)((uint64_t)lo + ((uint64_t)hi - (uint64_t)lo) / 2);
    fj_value_t right = {.i = 0};
    node_t *node = node_new(job, worker->pool, lo, middle);
    if (node != NULL && fj_worker_fork(worker, &node->task) != FJ_OK) {
        (void)fj_task_try_cancel(&node->task);
        node_drop(&node->task);              /* the entry that does not exist */
        node_drop(&node->task);
        node = NULL;
    }
    int left_code;
    if (node == NULL) {                      /* no memory, or the queue is full: alone, then */
        left_code = compute(job, worker, lo, middle, value);
    }
    int right_code = compute(job, worker, middle, hi, &right);
    if (node != NULL) {
        left_code = join_half(job, worker, node, value);
    }
    return combine(job, left_code, value, right_code, right);
}

/* ---- the whole job ---- */

static fj_range_job_t *job_of(fj_task_t *root)
{
    return FJ_CONTAINER(root, fj_range_job_t, root);
}

static void root_run(fj_task_t *root, fj_worker_t *worker)
{
    fj_range_job_t *job = job_of(root);
    int code = compute(job, worker, job->start, job->stop, &job->value);
    job->has_value = code == 0;
    if (code != 0) {
        fj_range_fail(job, code);
    }
    (void)fj_task_complete(root, FJ_NORMAL);
}

static void root_drop(fj_task_t *root)
{
    fj_range_release(job_of(root));
}

static void root_cancel(fj_task_t *root)
{
    fj_range_fail(job_of(root), FJ_RANGE_CANCELLED);
    (void)fj_task_try_cancel(root);
}

static const fj_task_ops_t root_ops = {root_run, root_drop, root_cancel, false};
static const fj_task_ops_t native_root_ops = {root_run, root_drop, root_cancel, true};

void fj_range_init(fj_range_job_t *job)
{
    atomic_init(&job->code, 0);
    atomic_init(&job->references, 1);
    job->has_value = job->left = false;
    job->guest = NULL;
    fj_task_init(&job->root, job->native ? &native_root_ops : &root_ops);
}

void fj_range_release(fj_range_job_t *job)
{
    if (fj_sub_acqrel(&job->references, 1) == 1) { /* everybody's use came before */
        job->destroy(job);
    }
}

fj_task_t *fj_range_root(fj_range_job_t *job, fj_pool_t *pool)
{
    (void)fj_add_relaxed(&job->references, 1);
    (void)fj_task_try_queue(&job->root, pool);
    return &job->root;
}

int fj_range_run(fj_range_job_t *job, fj_worker_t *worker)
{
    job->guest = worker->guest ? worker : NULL;
    (void)fj_task_try_start(&job->root);
    fj_worker_run_claimed(worker, &job->root);
    return fj_load_acquire(&job->code); /* pairs with fj_range_fail */
}
