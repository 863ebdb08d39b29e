/* fixture.h - what the tests of the core share: counters to wait for, a task
 * that records what happened to it, pools with tiny queues.
 *
 * Nothing here sleeps blindly: a wait names what it waits for, and fails with
 * that name after FX_PATIENCE. Tests of one process share fj_os_seam, so a test
 * that sets it goes through fx_seam_set and ends with fx_seam_clear.
 */
#ifndef FIXTURE_H
#define FIXTURE_H

#include <sched.h>

#include "fj.h"
#include "fj_test.h"

#define FX_MS ((int64_t)1000000)
/* How long something that must happen may take. */
#define FX_PATIENCE ((FJ_TEST_SANITIZED ? 60000 : 20000) * FX_MS)

/* ---- counters: words that only go up ---- */

void fx_bump(fj_word_t *counter);

/* Sleeps until *counter >= value. */
#define FX_AWAIT(counter, value) fx_await(__FILE__, __LINE__, #counter, (counter), (value))
void fx_await(const char *file, int line, const char *name, fj_word_t *counter, uint32_t value);

/* Looks again and again until the condition holds, for what wakes nobody. */
#define FX_UNTIL(condition)                                                    \
    do {                                                                       \
        int64_t fx_deadline = fj_os_real_now() + FX_PATIENCE;                  \
        while (!(condition)) {                                                 \
            if (fj_os_real_now() > fx_deadline) {                              \
                FJ_FAIL("never came true: %s", #condition);                    \
            }                                                                  \
            fx_nap();                                                          \
        }                                                                      \
    } while (0)
void fx_nap(void);

/* Spins until the condition holds, for two threads in step; gives way to who has no CPU. */
#define FX_SPIN_UNTIL(condition)                                               \
    do {                                                                       \
        for (uint32_t fx_spins = 1; !(condition); fx_spins++) {                \
            if (fx_spins % 1000 == 0) {                                        \
                (void)sched_yield();                                           \
            }                                                                  \
            fj_spin_hint();                                                    \
        }                                                                      \
    } while (0)

static inline uint32_t fx_read(fj_word_t *counter)
{
    return fj_load_acquire(counter);          /* pairs with fx_bump */
}

/* ---- a task that counts ---- */

typedef struct fx_task fx_task_t;

struct fx_task {
    fj_task_t task;
    void (*body)(fx_task_t *task, fj_worker_t *worker);  /* may be null */
    void (*on_drop)(fx_task_t *task);                    /* may be null */
    void *argument;
    int64_t value;                            /* the body's, for whoever joins */
    fj_word_t runs, cancels, drops;           /* how often each happened */
};

void fx_task_init(fx_task_t *task, void (*body)(fx_task_t *, fj_worker_t *), void *argument);

/* The ops of fx_task_init, for tests that put tasks into queues themselves. */
extern const fj_task_ops_t fx_task_ops;

/* Makes it QUEUED and hands it in; the status is the core's. */
fj_status_t fx_submit(fj_pool_t *pool, fx_task_t *task);
fj_status_t fx_fork(fx_task_t *task);

/* Init and submit, which must succeed. */
void fx_start(fj_pool_t *pool, fx_task_t *task, void (*body)(fx_task_t *, fj_worker_t *),
              void *argument);

/* Sleeps, as a thread outside, until the task is done and its entry dropped. */
void fx_finish(fx_task_t *task);

/* Start and finish. */
void fx_run(fj_pool_t *pool, fx_task_t *task, void (*body)(fx_task_t *, fj_worker_t *),
            void *argument);

/* A body that waits until the counter at its argument is 1. */
void fx_hold(fx_task_t *task, fj_worker_t *worker);

/* After the pool's end: what must have happened exactly once, and its opposite never. */
void fx_check_ran(fx_task_t *task);
void fx_check_cancelled(fx_task_t *task);

/* ---- pools ---- */

/* What became of a pool's threads; config.user points to it. */
typedef struct fx_watch {
    fj_word_t started, stopped, peak;         /* threads, and the most at a time */
    fj_word_t destroyed;
    bool (*start)(fj_worker_t *worker);       /* the test's own hooks, may be null */
    void (*stop)(fj_worker_t *worker);
} fx_watch_t;

/* Two-slot arrays whose indices soon wrap, no idle-out, and 64 spares. */
fj_config_t fx_config(uint32_t parallelism);

fj_pool_t *fx_pool(const fj_config_t *config);
fj_pool_t *fx_pool_of(uint32_t parallelism);
fx_watch_t *fx_watch(fj_pool_t *pool);

/* Shuts down, waits until the threads and the pool's memory are gone. */
void fx_pool_end(fj_pool_t *pool);

/* The parts of it, for a test that ends the pool in its own way: waits for the threads (nothing
 * is queued or running then, and as many stopped as started), gives the memory back. */
void fx_pool_await_end(fj_pool_t *pool);
void fx_pool_release(fj_pool_t *pool);

/* Waits until nothing is queued and nobody runs. */
void fx_pool_await_quiet(fj_pool_t *pool);

/* ---- the seam ---- */

void fx_seam_set(fj_os_seam_t seam);
void fx_seam_clear(void);

/* A thread_start that refuses with EAGAIN while fx_refuse_all, and else each
 * fx_refuse_every-th call (0: none). */
extern _Atomic(bool) fx_refuse_all;
extern _Atomic(uint32_t) fx_refuse_every;
int fx_thread_start(void (*body)(void *), void *argument, size_t stack_size);

/* A wait whose deadline, if it has one, is over at once when a worker waits: idle workers leave as
 * soon as they may. */
fj_os_wait_result_t fx_hasty_wait(fj_word_t *word, uint32_t expected, int64_t deadline);

/* A wait of which two in three return at once, for no reason or at a signal. */
fj_os_wait_result_t fx_unreliable_wait(fj_word_t *word, uint32_t expected, int64_t deadline);

#endif /* FIXTURE_H */
