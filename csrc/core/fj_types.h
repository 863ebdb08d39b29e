/* fj_types.h - layer 1: every shared structure, who writes each field, and
 * what always holds. Read README.rst beside it.
 *
 * "owner" is the worker whose structure it is; "thief" any other thread.
 */
#ifndef FJ_TYPES_H
#define FJ_TYPES_H

#include "fj_atomic.h"
#include "fj_ctl.h"
#include "fj_os.h"

#define FJPOOL_CORE
#include "fjpool.h"

typedef struct fj_task fj_task_t;
typedef struct fj_worker fj_worker_t;
typedef struct fj_pool fj_pool_t;
typedef struct fj_job fj_job_t;

/* ---- task ----------------------------------------------------------------
 *
 * A header embedded in whatever carries the work.
 *
 *   status bits 0..2   the state, see fj_state_t
 *          bit  3      WAITED: somebody sleeps on the word, completion wakes
 *          bit  4      EXTRA: belongs to the binding
 *          bit  5      STOP_REQUESTED: the running task was asked to stop
 *          bits 6..15  POKES: counts what makes waiters look again
 *          bits 16..31 the user's tag
 *
 *   NEW -> QUEUED -> RUNNING -> NORMAL | FAILED
 *   NEW | QUEUED -> RUNNING            (invoked in place)
 *   NEW | QUEUED -> CANCELLED
 *   any of the first three -> NORMAL | FAILED   (completed by hand)
 *
 * A queue entry owns one reference to the task. Whoever takes an entry out of
 * a queue claims the task (QUEUED -> RUNNING), runs it if that worked, and
 * drops the reference either way. An entry whose task was claimed or
 * cancelled elsewhere is a tombstone.
 */
typedef enum fj_state {
    FJ_NEW = 0,
    FJ_QUEUED = 1,
    FJ_RUNNING = 2,
    FJ_NORMAL = 3,
    FJ_FAILED = 4,
    FJ_CANCELLED = 5,
    FJ_STATE_MASK = 7
} fj_state_t;

enum {
    FJ_TASK_WAITED = 1 << 3,
    FJ_TASK_EXTRA = 1 << 4,
    FJ_TASK_STOP_REQUESTED = 1 << 5,
    FJ_TASK_POKE = 1 << 6,
    FJ_TASK_POKES = 0xffc0,
    FJ_TASK_TAG_SHIFT = 16
};

typedef struct fj_task_ops {
    /* Runs a claimed task and completes it. */
    void (*run)(fj_task_t *task, fj_worker_t *worker);
    /* Gives back the reference of one queue entry. */
    void (*drop)(fj_task_t *task);
    /* The pool stops: cancels the task if it has not started. Does not drop. */
    void (*cancel)(fj_task_t *task);
    /* The body does not want the binding's thread state (native leaves). */
    bool native;
} fj_task_ops_t;

#define FJ_FRAME UINT32_MAX

struct fj_task {
    fj_word_t status;
    /* Index + 1 of the worker that runs it, 0: unknown, FJ_FRAME: it is a frame of a
     * spawn stack, and its thief has not begun. Written by the runner
     * after its claim; the marks are the tops of that worker's deque and spawn
     * stack at that moment, so what lies at or above them descends from this task. */
    _Atomic(uint32_t) runner;
    _Atomic(uint32_t) mark, spawn_mark;
    _Atomic(fj_pool_t *) pool;       /* where it is queued or runs; whoever does that. A frame's: its job */
    const fj_task_ops_t *ops;
};

/* ---- deque ---------------------------------------------------------------
 *
 * Indices only grow and may wrap; an entry i lives in slots[i & mask].
 * Always: 0 <= top - base <= mask + 1 <= limit (as differences), except that
 * the owner inside pop may show top == base - 1 for a moment.
 */
typedef struct fj_array {
    size_t mask;
    struct fj_array *older;          /* smaller predecessors, freed with the deque */
    _Atomic(fj_task_t *) slots[];
} fj_array_t;

typedef struct fj_deque {
    FJ_OWN_LINE _Atomic(size_t) base; /* next to steal; moved by compare-and-swap only */
    FJ_OWN_LINE _Atomic(size_t) top;  /* next free; written by the owner only */
    _Atomic(fj_array_t *) array;      /* written by the owner only */
    size_t limit;                     /* constant: most entries, a power of two */
} fj_deque_t;

/* ---- lane ----------------------------------------------------------------
 *
 * First in, first out, under a lock; what threads outside hand in.
 * Always under the lock: count == tail - head <= mask + 1 <= limit.
 */
typedef struct fj_lane {
    fj_mutex_t lock;
    bool closed;                      /* lock; once true, nothing more enters */
    size_t head, tail, mask, limit;   /* lock */
    fj_task_t **ring;                 /* lock; NULL until first used */
    uint32_t waiters;                 /* lock: threads that wait for room */
    fj_word_t room;                   /* goes up under the lock whenever those should look */
    FJ_OWN_LINE _Atomic(size_t) count; /* written under the lock, read by anyone */
} fj_lane_t;

/* ---- job ------------------------------------------------------------------
 *
 * One call of fj_run or of a loop: what fails in it ends all of it.
 */
struct fj_job {
    _Atomic(int) code;                /* the first that is not 0 */
    fj_job_t *outer;                  /* constant: the one that it is part of, or NULL */
};

/* ---- worker -------------------------------------------------------------- */

/* What a worker's parker says. */
enum {
    FJ_PARKER_BUSY = 0,
    FJ_PARKER_IDLE = 1,       /* announced idle; the owner sleeps on the word */
    FJ_PARKER_RELEASED = 2,   /* somebody took it off the idle stack: go and search */
    FJ_PARKER_WOKEN = 3,      /* the same, but somebody else has the searcher's role */
    FJ_PARKER_RETIRED = 4     /* taken off: leave (still in `total` until it has) */
};

/* A worker's activity word: what the monitor may take it for.
 *
 *   bit  0      MARKED: the monitor found it asleep and took it out of `active`
 *   bit  1      INSIDE: in a top-level task, and not between block_begin and
 *               block_end
 *   bits 2..63  goes up whenever INSIDE changes
 *
 * The monitor sets and clears MARKED by compare-and-swap while INSIDE; the
 * owner exchanges the word when INSIDE changes, and if it was MARKED counts
 * itself active again.
 */
enum { FJ_ACTIVITY_MARKED = 1, FJ_ACTIVITY_INSIDE = 2, FJ_ACTIVITY_STEP = 4 };

struct fj_worker {
    FJ_OWN_LINE fj_spawn_t spawn;     /* first: fjpool.h. top: owner; gate, floor: fj_spawn.c */
    fj_frame_t *frames;               /* owner, before it shares the first: array, NULL at first */
    fj_frame_t *late;                 /* owner: frames that found no room, run and not joined */
    size_t lates, late_room;
    _Atomic(uint32_t) forked_after;   /* owner: deque top when it shared its oldest frame */
    uint32_t room;                    /* constant: frames in the array; tests have fewer, or 0 */
    fj_frame_t landing;               /* owner: where a fork goes while there is no array */
    fj_job_t *job;                    /* owner: what runs here belongs to, or NULL */
    bool (*interrupted)(void);        /* owner, a guest: asked now and then, see fj_run */
    int64_t ask_at;                   /* owner, a guest: not before that */
    FJ_OWN_LINE _Atomic(uint64_t) shared; /* which frames are stolen and shared: fj_spawn.c */
    fj_deque_t deque;                 /* what its tasks fork */
    fj_deque_t inbox;                 /* what its tasks submit; first in, first out */
    FJ_OWN_LINE fj_word_t parker;     /* owner: BUSY, IDLE; whoever pops it: the rest */
    _Atomic(uint32_t) next_idle;      /* owner, before it announces itself */
    _Atomic(uint64_t) steals;         /* owner; read by statistics */
    _Atomic(uint64_t) helps;          /* owner: tasks taken while joining */
    _Atomic(uint64_t) completed;      /* owner: tasks and stolen frames run */
    _Atomic(uint64_t) leaves;         /* owner: leaves of range jobs run */
    _Atomic(uint32_t) running;        /* owner: depth of tasks on its stack */
    _Atomic(uint32_t) blocked;        /* owner: > 0 between block_begin and block_end */
    _Atomic(uint64_t) activity;       /* owner and monitor, see above */
    _Atomic(int64_t) since;           /* owner: when its top-level task began (coarse) */
    uint64_t was_inside;              /* owner: INSIDE before block_begin, for block_end */
    _Atomic(bool) joining;            /* owner: asleep in a join */
    FJ_OWN_LINE fj_pool_t *pool;      /* constant */
    uint32_t index;                   /* constant: its place in the registry */
    _Atomic(bool) present;            /* registry: somebody is in this place */
    _Atomic(bool) guest;              /* registry: a caller's thread, counted nowhere */
    fj_task_t *awaits;                /* registry lock: it joins that task without a deadline */
    uint32_t next_free;               /* registry lock: index + 1 in the list of free places */
    _Atomic(uint32_t) number;         /* k of its name; written by its thread */
    uint32_t tombstones;              /* owner: entries left behind by claims in place */
    bool searching;                   /* owner: it holds the searcher's role */
    uint32_t ticks;                   /* owner: top-level picks */
    uint64_t random;                  /* owner: xorshift state */
    _Atomic(void *) local;            /* owner: the binding's */
    _Atomic(int64_t) thread_id, thread_clock; /* owner, before its first task: fj_os_thread_t */
    uint64_t seen_activity;           /* monitor: at its last look */
    int64_t seen_cpu;                 /* monitor: its CPU time then */
    int64_t changed_at;               /* monitor: the look at which that was new */
    int64_t asleep_since;             /* monitor: by estimate */
    bool suspect;                     /* monitor: long enough to be judged */
    uintptr_t seen_word;              /* monitor: the futex word it was marked for, or 0 */
};

/* ---- pool ---------------------------------------------------------------- */

/* How the binding takes part; any member may be null. Each is called by the
 * worker itself, never with a core lock held. */
typedef struct fj_hooks {
    /* First thing in the thread. False: the pool is of no use, it stops. */
    bool (*start)(fj_worker_t *worker);
    void (*detach)(fj_worker_t *worker);  /* before searching, parking, native code */
    bool (*may_nest)(fj_worker_t *worker); /* enough stack to run one more task inside */
    /* A worker joins, and may not be replaced for want of threads. False: the join
     * fails with FJ_AT_LIMIT. Null: it goes on. */
    bool (*saturate)(fj_worker_t *worker);
    /* Is that futex word the runtime's own (an interpreter lock)? Who waits for it
     * is not blocked, however long it takes. */
    bool (*own_word)(uintptr_t word);
    /* A task forked the process and returned in the child, where this thread is the
     * only one and no worker. Does not return. */
    void (*orphaned)(void);
    void (*stop)(fj_worker_t *worker);    /* last thing in the thread */
    void (*destroyed)(void *user);        /* the pool's memory is about to go */
} fj_hooks_t;

typedef struct fj_config {
    uint32_t parallelism;             /* workers that should run: 0 (callers run) .. 32767 */
    uint32_t max_workers;             /* hard cap on threads, >= parallelism */
    uint32_t min_runnable;            /* a blocked worker is replaced by a new thread only if fewer run */
    bool eager;                       /* replace at every block, queued work or not (Java's rule) */
    bool monitor;                     /* find workers that block without saying so */
    uint32_t max_unannounced;         /* spares for those */
    int64_t window;                   /* ns asleep before a worker counts as blocked */
    bool fifo;                        /* owners take their oldest task first */
    int64_t keep_alive;               /* ns an idle worker stays, FJ_FOREVER: always */
    size_t stack_size;                /* bytes a thread, 0: the system's default */
    size_t queue_capacity;            /* entries a queue, rounded up to a power of two */
    size_t initial_capacity;          /* entries a deque starts with, 0: the default */
    size_t initial_index;             /* where deque indices start: tests let them wrap */
    fj_hooks_t hooks;
    void *user;
} fj_config_t;

/* Bits of fj_pool.phase; each is set once and stays. */
enum {
    FJ_PHASE_SHUTDOWN = 1,            /* no outside work any more */
    FJ_PHASE_STOP = 2,                /* workers take nothing more and leave */
    FJ_PHASE_TERMINATED = 4           /* every thread is gone */
};

/* The monitor's word. */
enum {
    FJ_MONITOR_NONE = 0,              /* no thread yet */
    FJ_MONITOR_AWAKE = 1,             /* looks, every few milliseconds */
    FJ_MONITOR_ASLEEP = 2,            /* nothing is queued; whoever queues wakes it */
    FJ_MONITOR_ENDED = 3              /* the pool stops */
};

enum {
    FJ_SEGMENT = 64,
    FJ_SEGMENTS = (FJ_MAX_WORKERS + 1) / FJ_SEGMENT
};

typedef struct fj_segment {
    _Atomic(fj_worker_t *) workers[FJ_SEGMENT];
} fj_segment_t;

/* Workers are never freed before the pool, so that a thief may look at one
 * that has left: it sees an empty deque. */
typedef struct fj_registry {
    fj_mutex_t lock;
    uint32_t free;                    /* lock: first free place, index + 1 */
    _Atomic(uint32_t) high;           /* lock; read by scans: indices ever used */
    _Atomic(fj_segment_t *) segments[FJ_SEGMENTS]; /* lock; read by anyone */
} fj_registry_t;

struct fj_pool {
    FJ_OWN_LINE _Atomic(fj_ctl_t) ctl; /* see fj_ctl.h */
    FJ_OWN_LINE fj_word_t phase;      /* bits above; threads wait on it for TERMINATED */
    _Atomic(uint32_t) parallelism;
    _Atomic(uint32_t) blocked;        /* workers between block_begin and block_end */
    _Atomic(uint32_t) threads;        /* threads that exist, the last act of each lowers it */
    fj_word_t quiet;                  /* goes up whenever the pool may have become quiescent */
    _Atomic(uint32_t) quiet_waiters;
    _Atomic(uint32_t) numbered;       /* workers named so far */
    _Atomic(uint32_t) refused;        /* threads the system did not give us */
    _Atomic(uint32_t) at_limit;       /* times a blocked worker was not replaced: max_workers */
    _Atomic(uint32_t) marked;         /* workers that the monitor has marked */
    _Atomic(uint32_t) credit;         /* monitor: workers beyond parallelism that may run */
    _Atomic(uint64_t) detections;     /* monitor: marks so far */
    fj_word_t monitor;                /* FJ_MONITOR_ below; the monitor sleeps on it */
    _Atomic(uint32_t) references;     /* the handle's, and one a thread */
    void (*monitor_main)(void *);     /* constant: the monitor's thread */
    void (*thread_main)(void *);      /* constant: what lower layers start, see fj_pool.c */
    void (*thread_gone)(fj_pool_t *); /* constant: fj_quiesce_thread_gone */
    void (*check)(fj_pool_t *);       /* constant: fj_quiesce_check */
    fj_lane_t lane;
    fj_registry_t registry;
    fj_config_t config;               /* constant */
};

_Static_assert(sizeof(fj_task_t) <= 32, "a task header is half a cache line");

/* The calling thread's worker, NULL outside every pool. */
extern _Thread_local fj_worker_t *fj_current;

#endif /* FJ_TYPES_H */
