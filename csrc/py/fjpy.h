/* fjpy.h - what the files of the binding share.
 *
 * Rules of this folder. Every function here needs an attached thread (it holds
 * the GIL) unless it says "any thread". Only call.c attaches. A core function
 * that may block is called detached. No core lock is ever held while
 * attaching: the core calls back without locks.
 */
#ifndef FJPY_H
#define FJPY_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "fj.h"

/* What runs when a task runs. */
typedef enum fjpy_body {
    FJPY_NO_BODY,          /* a future completed by hand */
    FJPY_CALL,             /* function(*args, **kwargs) */
    FJPY_COMPUTE,          /* self.compute(), its value is the result */
    FJPY_ACTION            /* self.compute(), the result is None */
} fjpy_body_t;

typedef struct fjpy_task {
    PyObject_HEAD
    fj_task_t task;
    uint8_t body;          /* fjpy_body_t */
    bool own;              /* forked outside: who joins it may run it */
    bool notified;         /* cancelled, and waiters have been told */
    bool untracked;        /* by the cyclic collector */
    bool unseen;           /* from execute: nobody will ask how it ended */
    uint32_t epoch;        /* in which process it was queued, see fjpy_epoch */
    uint32_t late;         /* its place in a chain of submissions since shutdown */
    PyObject *function, *args, *kwargs; /* given back when the body has run */
    PyObject *context;     /* the submitter's context variables */
    PyObject *value;       /* the result */
    PyObject *exception, *traceback;    /* the failure, and where it was raised */
    PyObject *condition, *waiters;      /* made when somebody looks: FJ_TASK_EXTRA */
    PyObject *callbacks;   /* list */
    PyObject *weakrefs;
    struct fjpy_local *runner; /* while it runs: its thread's, and */
    struct fjpy_task *outer;   /* the task which that thread ran before */
} fjpy_task_t;

/* What a thread is doing; others may look while attached. */
typedef struct fjpy_local {
    fjpy_task_t *current;  /* the innermost task it runs */
    fjpy_task_t *awaited;  /* what it sleeps for */
    unsigned long ident;   /* Python's name of it, 0 until it has attached */
} fjpy_local_t;

/* What a pool needs of Python. Lives as long as the core's pool. */
typedef struct fjpy_shared fjpy_shared_t;
struct fjpy_shared {
    fj_pool_t *pool;
    PyObject *owner;       /* borrowed: the Pool object, NULL once it is gone */
    PyObject *initializer, *initargs, *finalizer;
    char *prefix;          /* worker names are prefix and number */
    uint32_t first;        /* number of the first worker, 0 or 1 */
    bool common;           /* the common pool: never shut down by users */
    bool callers_run;      /* parallelism 0: who waits for a task runs it */
    bool join_at_exit;
    _Atomic(bool) abandoned; /* workers must not attach any more */
    bool broken;           /* the initializer failed */
    size_t max_queued;     /* what threads outside may have queued, 0: any number */
    bool waits_for_room;   /* when that is reached; else it raises */
    PyObject *saturate;    /* NULL: wait, True: raise, else a predicate */
    bool warned;           /* about the thread limit */
    uint32_t epoch;
    bool visited;          /* by at_exit; under the list's lock */
    fjpy_shared_t *next, **link; /* the list of all pools, under its lock */
};

typedef struct fjpy_pool {
    PyObject_HEAD
    fjpy_shared_t *shared; /* NULL before __init__ */
} fjpy_pool_t;

/* One interpreter only (module.c refuses others), so the state is one struct. */
typedef struct fjpy_state {
    PyTypeObject *task_type, *pool_type;
    unsigned long main_thread;     /* its ident: the one that handles signals */
    PyObject *hooks;               /* dict of Python functions, see fjpool/_hooks.py */
    PyTypeObject *future_type;     /* fjpool.Future */
    PyObject *cancelled_error, *timeout_error, *invalid_state_error, *rejected_error,
        *broken_error;
    PyObject *s_compute, *s_enter, *s_exit, *s_notify_all, *s_add_result, *s_add_exception,
        *s_add_cancelled, *s_kind;
} fjpy_state_t;

extern fjpy_state_t fjpy;

/* Raised by one in every forked child: what was queued before has no workers. */
extern uint32_t fjpy_epoch;

/* ---- call.c ---- */
extern const fj_task_ops_t fjpy_task_ops;
bool fjpy_is_attached(void);                   /* any thread */
void fjpy_attach(void);                        /* any thread */
void fjpy_detach(fj_worker_t *worker);         /* any thread */
/* Makes the thread state that a worker keeps, if it has none: else a callback into
 * Python would make one and drop it each time, thread-locals included. */
void fjpy_keep_state(void);
bool fjpy_worker_start(fj_worker_t *worker);   /* hooks of the core */
void fjpy_worker_stop(fj_worker_t *worker);
bool fjpy_may_nest(fj_worker_t *worker);
void fjpy_forget_worker(void);                 /* in a forked child */
fjpy_local_t *fjpy_local(void);                /* the calling thread's */
bool fjpy_saturate(fj_worker_t *worker);
bool fjpy_own_word(uintptr_t word);
PyObject *fjpy_worker_name(fjpy_shared_t *shared, uint32_t number);
void fjpy_orphaned(void);
/* At the thread limit: 1: block all the same; 0: refuse; -1: an exception. */
int fjpy_at_limit(fjpy_shared_t *shared);
/* The raised exception, with its traceback set; clears it. */
PyObject *fjpy_take_exception(void);
/* Raises it as it is, with its own traceback. Steals it. */
void fjpy_raise_again(PyObject *exception);
/* Leaves a context that the calling thread entered; steals it, NULL is none. A
 * pending exception stays. */
void fjpy_leave_context(PyObject *context);
/* hooks[name](*args): a new reference, or NULL and an exception. */
PyObject *fjpy_hook(const char *name, PyObject *argument);

/* ---- task_type.c ---- */
int fjpy_task_add(PyObject *module);

/* ---- task.c ---- */
fjpy_task_t *fjpy_task_of(fj_task_t *task);
fjpy_task_t *fjpy_task_new(PyTypeObject *type);

static inline fj_state_t fjpy_task_state(fjpy_task_t *self)
{
    return fj_task_state(&self->task);
}

static inline bool fjpy_task_is_done(fjpy_task_t *self)
{
    return fj_state_is_done(fjpy_task_state(self));
}

/* Gives the callable, its arguments and the context back. */
void fjpy_task_forget_body(fjpy_task_t *self);
/* Into the cyclic collector's sight, if it is done and may be part of a cycle. */
void fjpy_task_track(fjpy_task_t *self);
/* In a forked child: fails a task that was queued or ran in the parent. */
void fjpy_task_check_inherited(fjpy_task_t *self);
/* Calls one done-callback and reports what it raises. */
void fjpy_task_call_back(fjpy_task_t *self, PyObject *callback);
/* Completes with NORMAL (value), FAILED (exception) or CANCELLED (NULL: only if
 * it has not started); steals value. False: it was too late for that. */
bool fjpy_task_finish(fjpy_task_t *self, fj_state_t state, PyObject *value);
PyObject *fjpy_task_outcome(fjpy_task_t *self); /* of a done task */
/* Waits; -1 and an exception on time-out, a signal's handler raising, fork. */
int fjpy_task_wait(fjpy_task_t *self, int64_t deadline);
/* A future completed by hand. */
fjpy_task_t *fjpy_future_bare(void);
/* Asks a running task to stop: wakes its wait. */
void fjpy_task_interrupt(fjpy_task_t *self);
/* A future that will call args[0] with the other arguments, given as to a method
 * with METH_FASTCALL | METH_KEYWORDS. */
fjpy_task_t *fjpy_future_new(PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames);
/* Queues it: NEW -> QUEUED. fjpy_fork: onto the calling worker's deque. */
int fjpy_task_submit(fjpy_task_t *self, fjpy_shared_t *shared);
/* Its two halves, for many at a time: NEW -> QUEUED with a reference for the entry (1; 0:
 * it is done already; -1: an exception), and back; and the handing in, which may wait for room. A status
 * other than FJ_OK leaves all of them to the caller, perhaps with an exception set. */
int fjpy_task_prepare(fjpy_task_t *self, fjpy_shared_t *shared);
void fjpy_task_unsubmit(fjpy_task_t *self);
fj_status_t fjpy_hand_in(fjpy_shared_t *shared, fj_task_t *const *tasks, size_t n);
int fjpy_task_fork(fjpy_task_t *self);
/* How long to sleep at a time. A signal that arrives between the last look and the
 * sleep wakes nobody, so the thread that handles signals looks every 50 ms. */
int64_t fjpy_slice(int64_t deadline);
/* None: for ever. Seconds to a deadline; -1 and an exception. */
int fjpy_deadline(PyObject *timeout, int64_t *deadline);

/* ---- pool.c ---- */
extern bool fjpy_exiting;      /* the interpreter is on its way out */
extern bool fjpy_abandoned;    /* and has left workers behind, in the midst of tasks */
/* The pool behind a Pool object; NULL and an exception if it cannot be used. */
fjpy_shared_t *fjpy_pool_shared(PyObject *pool);
fjpy_shared_t *fjpy_pool_usable(PyObject *pool); /* also not broken: for new work */
int fjpy_pool_add(PyObject *module);
/* The pool of `with use(...)`, else the common one; outside of workers. A new
 * reference to a Pool. */
fjpy_pool_t *fjpy_ambient_pool(void);
bool fjpy_shared_is_broken(fj_pool_t *pool);
/* The common pool with a reference, or NULL while there is none. Any thread, attached or not. */
fj_pool_t *fjpy_common_pool(void);
PyObject *fjpy_at_exit(PyObject *module, PyObject *seconds);
PyObject *fjpy_after_fork_child(PyObject *module, PyObject *unused);

/* ---- blocker.c ---- */
int fjpy_blocker_add(PyObject *module);
PyObject *fjpy_sleep(PyObject *module, PyObject *seconds);

/* ---- capi.c ---- */
int fjpy_capi_add(PyObject *module);

/* ---- results.c ---- */
PyObject *fjpy_append_calls(PyObject *module, PyObject *const *args, Py_ssize_t nargs);
int fjpy_results_add(PyObject *module);

/* ---- leaf.c ---- */
PyObject *fjpy_pool_range(PyObject *pool, PyObject *args);
PyObject *fjpy_capsule_info(PyObject *module, PyObject *capsule);
PyObject *fjpy_in_library(PyObject *module, PyObject *address);

/* ---- errors.c ---- */
/* Raises what a core status means; always returns NULL. */
PyObject *fjpy_raise(fj_status_t status);
PyObject *fjpy_raise_broken(void);

#endif /* FJPY_H */
