/* fj_os.h - layer 0: the only place that knows the operating system.
 *
 * Threads, waiting on a word, a lock made of that, the monotonic clock. Linux
 * waits with futexes; elsewhere a table of condition variables stands in.
 * A test replaces any of these through fj_os_seam and so provokes what a
 * healthy machine never does: a refused thread, a late wake-up, a clock that
 * jumps. Times are nanoseconds of the monotonic clock.
 */
#ifndef FJ_OS_H
#define FJ_OS_H

#include "fj_atomic.h"

typedef _Atomic(uint32_t) fj_word_t;

typedef enum fj_os_wait_result {
    FJ_WAIT_WOKEN,         /* woken, or the word had changed already, or for no reason */
    FJ_WAIT_TIMEOUT,
    FJ_WAIT_INTERRUPTED    /* a signal handler ran in this thread */
} fj_os_wait_result_t;

/* Starts a detached thread; stack_size 0 means the system's default.
 * Returns 0 or an errno value. Any thread. */
int fj_os_thread_start(void (*body)(void *), void *argument, size_t stack_size);

/* Sleeps while *word == expected, until woken or the deadline. May return
 * early; the caller looks again. Any thread. */
fj_os_wait_result_t fj_os_wait(fj_word_t *word, uint32_t expected, int64_t deadline);

/* Wakes waiters of the word. Reads nothing behind the pointer: the memory may
 * be gone by now, which costs a stranger one spurious wake-up at most. */
void fj_os_wake_one(fj_word_t *word);
void fj_os_wake_all(fj_word_t *word);

int64_t fj_os_now(void);
int64_t fj_os_now_coarse(void);   /* a few milliseconds late, and much cheaper */
void fj_os_name_thread(const char *name);
void fj_os_yield(void);           /* lets others run on this processor, if there are any */

/* Bytes of stack left to the calling thread below its current frame. */
size_t fj_os_stack_left(void);

/* ---- is another thread asleep? ---- */

typedef struct fj_os_thread {
    int64_t id;                   /* the kernel's */
    int64_t clock;                /* names the thread's CPU clock */
    bool known;                   /* false: the system does not tell */
} fj_os_thread_t;

void fj_os_self(fj_os_thread_t *thread);

/* CPU time of a thread, nanoseconds; -1: it is gone or the system does not tell. */
int64_t fj_os_cpu_time(const fj_os_thread_t *thread);

/* What a thread that is asleep in the kernel waits for. */
typedef struct fj_os_sleep {
    bool asleep;                  /* state S or D: neither runs nor could run */
    long call;                    /* number of the system call, -1: unknown */
    uintptr_t word;               /* the futex word, 0: it is not in a futex call */
} fj_os_sleep_t;

/* Reads /proc: some 15 microseconds. */
fj_os_sleep_t fj_os_sleeping(const fj_os_thread_t *thread);

/* How sleeping threads are found, in words; NULL: they cannot be. */
const char *fj_os_probe_name(void);

/* The deadline `timeout` nanoseconds from now, saturating at FJ_FOREVER. */
int64_t fj_os_deadline(int64_t timeout);

/* What a test may replace; a null member means the real thing. Set it before
 * any pool exists. */
typedef struct fj_os_seam {
    int (*thread_start)(void (*body)(void *), void *argument, size_t stack_size);
    fj_os_wait_result_t (*wait)(fj_word_t *word, uint32_t expected, int64_t deadline);
    void (*wake)(fj_word_t *word, bool all);
    int64_t (*now)(void);
    int64_t (*cpu_time)(const fj_os_thread_t *thread);
    fj_os_sleep_t (*sleeping)(const fj_os_thread_t *thread);
} fj_os_seam_t;

extern fj_os_seam_t fj_os_seam;

/* The real ones, for a seam that only sometimes interferes. */
int fj_os_real_thread_start(void (*body)(void *), void *argument, size_t stack_size);
fj_os_wait_result_t fj_os_real_wait(fj_word_t *word, uint32_t expected, int64_t deadline);
void fj_os_real_wake(fj_word_t *word, bool all);
int64_t fj_os_real_now(void);

/* A lock of one word. 0 free, 1 held, 2 held and somebody sleeps.
 * For short sections only: never across a call into foreign code. */
typedef struct fj_mutex {
    fj_word_t word;
} fj_mutex_t;

void fj_mutex_lock(fj_mutex_t *mutex);
void fj_mutex_unlock(fj_mutex_t *mutex);

#endif /* FJ_OS_H */
