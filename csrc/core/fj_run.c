/* fj_run.c - a C body as a task, and loops over frames of the spawn stack. */
#include "fj.h"

#include "fj_idle.h"
#include "fj_quiesce.h"
#include "fj_spawn.h"
#include "fj_task.h"
#include "fj_worker.h"

enum { ASK_NS = 50000000 };           /* how often a caller outside looks for signals */

/* ---- a body ---- */

/* On the heap: the waiter may be gone before the entry is dropped. */
typedef struct root {
    fj_task_t task;
    fj_job_t job;
    fj_body_t body;
    void *data;
    int code;
    _Atomic(uint32_t) references;     /* the waiter's and the entry's */
} root_t;

static root_t *root_of(fj_task_t *task)
{
    return FJ_CONTAINER(task, root_t, task);
}

static void fail(fj_job_t *job, int code)
{
    int none = 0;
    (void)fj_cas_seqcst(&job->code, &none, code); /* pairs with the acquire in end_job */
}

void fj_run_fail(fj_worker_t *worker, int code)
{
    if (worker->job != NULL && code != 0) {
        fail(worker->job, code);
    }
}

/* What ended this job, or one that it is part of: 0 if nothing has. */
static int code_of(fj_job_t *job)
{
    int code = 0;
    while (code == 0 && job != NULL) {
        code = fj_load_relaxed(&job->code);
        job = job->outer;
    }
    return code;
}

bool fj_run_cancelled(fj_worker_t *worker)
{
    return fj_quiesce_stopping(worker->pool) || code_of(worker->job) != 0;
}

/* Its code is set already: somebody may have made it fail. */
static void begin_job(fj_worker_t *worker, fj_job_t *job)
{
    if (fj_spawn_expose(worker)) {           /* frames of the outer job */
        (void)fj_idle_signal(worker->pool);
    }
    job->outer = worker->job;
    worker->job = job;
}

static int end_job(fj_worker_t *worker, fj_job_t *job)
{
    worker->job = job->outer;
    int code = fj_load_acquire(&job->code);  /* pairs with fail */
    return code != 0 ? code : code_of(job->outer);
}

static int run_here(fj_worker_t *worker, fj_job_t *job, fj_body_t body, void *data)
{
    begin_job(worker, job);
    fj_run_fail(worker, body(worker, data));
    return end_job(worker, job);
}

static void root_run(fj_task_t *task, fj_worker_t *worker)
{
    root_t *root = root_of(task);
    root->code = run_here(worker, &root->job, root->body, root->data);
    (void)fj_task_complete(task, FJ_NORMAL);
}

static void root_drop(fj_task_t *task)
{
    root_t *root = root_of(task);
    if (fj_sub_acqrel(&root->references, 1) == 1) { /* the other's use came before */
        free(root);
    }
}

static void root_cancel(fj_task_t *task)
{
    (void)fj_task_try_cancel(task);
}

static const fj_task_ops_t root_ops = {root_run, root_drop, root_cancel, true};

static root_t *root_new(fj_pool_t *pool, fj_body_t body, void *data)
{
    root_t *root = malloc(sizeof *root);
    if (root != NULL) {
        fj_task_init(&root->task, &root_ops);
        atomic_init(&root->job.code, 0);
        atomic_init(&root->references, 2);
        root->body = body;
        root->data = data;
        root->code = FJ_CODE_CANCELLED;      /* until it has run */
        (void)fj_task_try_queue(&root->task, pool);
    }
    return root;
}

/* A signal that comes between a look and the sleep wakes nobody. */
static fj_status_t wait_a_while(fj_task_t *task, bool asks)
{
    return fj_current != NULL ? fj_join_firmly(fj_current, task)
                              : fj_task_wait(task, asks ? fj_os_deadline(ASK_NS) : FJ_FOREVER);
}

/* Until it is done: its data is the caller's. An interruption cancels what it can. */
static bool await_root(root_t *root, bool (*interrupted)(void))
{
    bool gave_up = false;
    while (wait_a_while(&root->task, interrupted != NULL) != FJ_OK) {
        if (!gave_up && interrupted != NULL && interrupted()) {
            gave_up = true;
            if (!fj_task_try_cancel(&root->task)) {
                fail(&root->job, FJ_CODE_INTERRUPTED);
            }
        }
    }
    return gave_up;
}

static int run_elsewhere(fj_pool_t *pool, fj_body_t body, void *data, bool (*interrupted)(void))
{
    root_t *root = root_new(pool, body, data);
    if (root == NULL) {
        return FJ_CODE_NO_MEMORY;
    }
    fj_task_t *task = &root->task;
    if (fj_pool_submit(pool, &task, 1) != FJ_OK) {
        free(root);
        return FJ_CODE_REFUSED;
    }
    int code = await_root(root, interrupted) ? FJ_CODE_INTERRUPTED : root->code;
    root_drop(task);
    return code;
}

int fj_run(fj_pool_t *pool, fj_body_t body, void *data, bool (*interrupted)(void))
{
    fj_job_t job;
    fj_worker_t *worker = fj_current;
    if (worker == NULL || worker->pool != pool) {
        return run_elsewhere(pool, body, data, interrupted);
    }
    atomic_init(&job.code, 0);
    bool (*outer)(void) = worker->interrupted;
    worker->interrupted = worker->guest ? interrupted : NULL;
    int code = run_here(worker, &job, body, data);
    worker->interrupted = outer;             /* at last NULL: a worker may have the place next */
    return code;
}

uint32_t fj_worker_index(fj_worker_t *worker)
{
    return worker->index;
}

/* ---- loops ---- */

enum {
    /* A leaf of this long is worth its call and a look at the clock. */
    LEAF_NS = 10000
};

typedef struct piece {
    const fj_loop_t *loop;
    int64_t lo, hi;
} piece_t;

typedef struct outcome {
    fj_value_t value;
    bool present;                     /* false: nothing was computed */
} outcome_t;

/* The rest of the loop is skipped, and its code says why. */
static bool is_over(fj_worker_t *worker)
{
    if (fj_quiesce_stopping(worker->pool)) {
        fj_run_fail(worker, FJ_CODE_CANCELLED);
    }
    return code_of(worker->job) != 0;
}

static int64_t middle(int64_t lo, int64_t hi)
{
    return (int64_t)((uint64_t)lo + ((uint64_t)hi - (uint64_t)lo) / 2);
}

static uint64_t length(int64_t lo, int64_t hi)
{
    return (uint64_t)hi - (uint64_t)lo;
}

static void combine(const fj_loop_t *loop, outcome_t *left, outcome_t right)
{
    if (!left->present) {
        *left = right;
    } else if (right.present && loop->combine != NULL) {
        loop->combine(&left->value, right.value, loop->data);
    }
}

static void ask(fj_worker_t *guest)
{
    int64_t now = fj_os_now();
    if (now >= guest->ask_at) {
        guest->ask_at = now + ASK_NS;
        if (guest->interrupted()) {
            fj_run_fail(guest, FJ_CODE_INTERRUPTED);
        }
    }
}

static void run_leaf(fj_worker_t *worker, const fj_loop_t *loop, int64_t lo, int64_t hi,
                     outcome_t *outcome)
{
    outcome_t leaf = {.present = true};
    int code = loop->leaf(worker, lo, hi, loop->data, &leaf.value);
    fj_store_relaxed(&worker->leaves, fj_load_relaxed(&worker->leaves) + 1);
    if (code != 0) {
        fj_run_fail(worker, code);
    } else {
        combine(loop, outcome, leaf);
    }
    if (FJ_UNLIKELY(worker->interrupted != NULL)) {
        ask(worker);
    }
}

/* The same tree on any number of workers. */
FJ_TASK(outcome_t, halve, piece_t)
{
    outcome_t outcome = {.present = false};
    if (is_over(worker)) {
        return outcome;
    }
    if (length(args.lo, args.hi) <= (uint64_t)args.loop->chunk) {
        run_leaf(worker, args.loop, args.lo, args.hi, &outcome);
        return outcome;
    }
    int64_t half = middle(args.lo, args.hi);
    halve_fork(worker, (piece_t){args.loop, half, args.hi});
    outcome = halve(worker, (piece_t){args.loop, args.lo, half});
    combine(args.loop, &outcome, halve_join(worker));
    return outcome;
}

/* Somebody has taken all that was shared: there is an idle worker, or will be. */
static bool is_asked(fj_worker_t *worker)
{
    return __atomic_load_n(&worker->spawn.gate, __ATOMIC_RELAXED) == NULL;
}

/* Leaves from the left; gives the right half of what is left away whenever it is asked.
 * Leaves double while they are shorter than LEAF_NS. */
FJ_TASK(outcome_t, share_on_demand, piece_t)
{
    outcome_t outcome = {.present = false};
    uint64_t grain = 1, given = 0;
    int64_t now = fj_os_now();
    while (args.lo < args.hi && !is_over(worker)) {
        uint64_t left = length(args.lo, args.hi);
        if (left > grain && is_asked(worker)) {
            int64_t half = middle(args.lo, args.hi);
            share_on_demand_fork(worker, (piece_t){args.loop, half, args.hi});
            args.hi = half;
            given++;
            continue;
        }
        int64_t end = left > grain ? (int64_t)((uint64_t)args.lo + grain) : args.hi;
        run_leaf(worker, args.loop, args.lo, end, &outcome);
        args.lo = end;
        int64_t begun = now;
        now = fj_os_now();
        if (now - begun < LEAF_NS / 2) {
            grain *= 2;
        } else if (now - begun > LEAF_NS * 2 && grain > 1) {
            grain /= 2;
        }
    }
    for (; given > 0; given--) {             /* the last one given lies next to the right */
        combine(args.loop, &outcome, share_on_demand_join(worker));
    }
    return outcome;
}

int fj_run_loop(fj_worker_t *worker, const fj_loop_t *loop, fj_value_t *value)
{
    fj_job_t job;
    piece_t whole = {loop, loop->start, loop->stop};
    if (loop->start >= loop->stop) {
        return 0;
    }
    atomic_init(&job.code, 0);
    begin_job(worker, &job);
    outcome_t outcome = loop->chunk > 0 ? halve(worker, whole) : share_on_demand(worker, whole);
    int code = end_job(worker, &job);
    if (code == 0 && value != NULL) {
        *value = outcome.value;
    }
    return code;
}
