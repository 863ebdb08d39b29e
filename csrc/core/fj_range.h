/* fj_range.h - layer 3: a leaf over an index range, split in halves.
 *
 * The range is halved until a piece has at most `chunk` positions. The left
 * half is forked, the right half computed, the left half joined, and the two
 * values combined in order: the tree depends on the range and the chunk only,
 * so a result is the same for every number of workers.
 */
#ifndef FJ_RANGE_H
#define FJ_RANGE_H

#include "fj_types.h"

typedef struct fj_range_job fj_range_job_t;

struct fj_range_job {
    int64_t start, stop;              /* start < stop */
    int64_t chunk;                    /* >= 1 */
    bool native;                      /* leaves and combine need no thread state */
    /* Each returns 0, or a code that ends the job: what has not started is
     * skipped. On 0 the leaf has written its value, else nothing. */
    int (*leaf)(fj_range_job_t *job, fj_worker_t *worker, int64_t lo, int64_t hi,
                fj_value_t *value);
    /* left = left with right; consumes right, and on failure left as well. */
    int (*combine)(fj_range_job_t *job, fj_value_t *left, fj_value_t right);
    void (*discard)(fj_range_job_t *job, fj_value_t value); /* may be null */
    void (*destroy)(fj_range_job_t *job); /* the last reference went */
    /* Called by a guest between leaves and while it waits; non-zero ends the job. */
    int (*poll)(fj_range_job_t *job);     /* may be null */
    fj_worker_t *guest;               /* whose call it is, if a guest's; before anybody else sees it */
    bool left;                        /* the guest's own: it has left, see FJ_RANGE_LEFT */
    _Atomic(int) code;                /* the first non-zero one */
    _Atomic(uint32_t) references;     /* the caller's and one a node */
    fj_task_t root;                   /* for a caller that submits the whole job */
    bool has_value;                   /* written before root is done */
    fj_value_t value;                 /* the result, if has_value */
};

/* One reference, the caller's. The fields above `code` are already filled in. */
void fj_range_init(fj_range_job_t *job);
void fj_range_release(fj_range_job_t *job);

/* Worker or guest: runs the job here, helped by the others. Returns its code. */
int fj_range_run(fj_range_job_t *job, fj_worker_t *worker);

/* Makes root ready to be submitted: QUEUED, with a reference for the entry. */
fj_task_t *fj_range_root(fj_range_job_t *job, fj_pool_t *pool);

/* Any thread: leaves that have not started are skipped. */
void fj_range_fail(fj_range_job_t *job, int code);

/* The code of a job whose root the pool cancelled. */
enum { FJ_RANGE_CANCELLED = INT32_MIN };

/* A leaf forked the process, and this is the child: other threads' pieces are not
 * waited for, and their nodes not freed. */
enum { FJ_RANGE_ORPHANED = INT32_MIN + 1 };

/* The guest whose call it is leaves: its leaf or poll returned this code. It does not
 * wait for the leaves that others run at this moment, and must not touch what
 * they use: the job's data goes with its last reference. From anybody else it is
 * an ordinary code. */
enum { FJ_RANGE_LEFT = INT32_MIN + 2 };

#endif /* FJ_RANGE_H */
