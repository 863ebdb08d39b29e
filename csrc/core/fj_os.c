/* fj_os.c - threads, waiting, clock: the only platform #ifdefs of the core. */
#if defined(__linux__)
#define _GNU_SOURCE
#endif
#include "fj_os.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#if defined(__linux__)
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

enum { NANOSECONDS = 1000000000 };

fj_os_seam_t fj_os_seam;

/* ---- threads ---- */

typedef struct start {
    void (*body)(void *);
    void *argument;
} start_t;

static void *thread_entry(void *pointer)
{
    start_t start = *(start_t *)pointer;
    free(pointer);
    start.body(start.argument);
    return NULL;
}

int fj_os_real_thread_start(void (*body)(void *), void *argument, size_t stack_size)
{
    pthread_attr_t attributes;
    pthread_t thread;
    start_t *start = malloc(sizeof *start);
    if (start == NULL) {
        return ENOMEM;
    }
    *start = (start_t){body, argument};
    int error = pthread_attr_init(&attributes);
    if (error != 0) {
        free(start);
        return error;
    }
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (stack_size != 0) {
        error = pthread_attr_setstacksize(&attributes, stack_size);
    }
    if (error == 0) {
        error = pthread_create(&thread, &attributes, thread_entry, start);
    }
    (void)pthread_attr_destroy(&attributes);
    if (error != 0) {
        free(start);
    }
    return error;
}

int fj_os_thread_start(void (*body)(void *), void *argument, size_t stack_size)
{
    return fj_os_seam.thread_start != NULL
               ? fj_os_seam.thread_start(body, argument, stack_size)
               : fj_os_real_thread_start(body, argument, stack_size);
}

void fj_os_name_thread(const char *name)
{
#if defined(__linux__)
    char shortened[16];                      /* the kernel keeps 15 characters */
    size_t length = strlen(name);
    const char *from = length > 15 ? name + (length - 15) : name;
    strncpy(shortened, from, sizeof shortened - 1);
    shortened[sizeof shortened - 1] = '\0';
    (void)prctl(PR_SET_NAME, shortened, 0, 0, 0);
#elif defined(__APPLE__)
    (void)pthread_setname_np(name);
#else
    (void)name;
#endif
}

size_t fj_os_stack_left(void)
{
    static _Thread_local char *lowest;       /* found once a thread */
    char *here = __builtin_frame_address(0); /* a local's address may lie on a sanitizer's stack */
    if (lowest == NULL) {
#if defined(__linux__)
        pthread_attr_t attributes;
        void *address = NULL;
        size_t size = 0, guard = 0;
        if (pthread_getattr_np(pthread_self(), &attributes) == 0) {
            (void)pthread_attr_getstack(&attributes, &address, &size);
            (void)pthread_attr_getguardsize(&attributes, &guard);
            (void)pthread_attr_destroy(&attributes);
        }
        lowest = address != NULL ? (char *)address + guard : here;
#elif defined(__APPLE__)
        pthread_t self = pthread_self();
        lowest = (char *)pthread_get_stackaddr_np(self) - pthread_get_stacksize_np(self);
#else
        lowest = here - 512 * 1024;
#endif
    }
    return here > lowest ? (size_t)(here - lowest) : 0;
}

/* ---- clock ---- */

int64_t fj_os_real_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NANOSECONDS + now.tv_nsec;
}

int64_t fj_os_now(void)
{
    return fj_os_seam.now != NULL ? fj_os_seam.now() : fj_os_real_now();
}

int64_t fj_os_now_coarse(void)
{
#if defined(__linux__)
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (int64_t)now.tv_sec * NANOSECONDS + now.tv_nsec;
#else
    return fj_os_real_now();
#endif
}

void fj_os_yield(void)
{
    (void)sched_yield();
}

int64_t fj_os_deadline(int64_t timeout)
{
    int64_t now = fj_os_now();
    return timeout >= FJ_FOREVER - now ? FJ_FOREVER : now + timeout;
}

/* ---- is another thread asleep? ---- */

#if defined(__linux__)

void fj_os_self(fj_os_thread_t *thread)
{
    clockid_t clock;
    thread->id = (int64_t)syscall(SYS_gettid);
    thread->known = pthread_getcpuclockid(pthread_self(), &clock) == 0;
    thread->clock = thread->known ? clock : 0;
}

static int64_t real_cpu_time(const fj_os_thread_t *thread)
{
    struct timespec used;
    if (!thread->known || clock_gettime((clockid_t)thread->clock, &used) != 0) {
        return -1;
    }
    return (int64_t)used.tv_sec * NANOSECONDS + used.tv_nsec;
}

/* Reads a file of a thread's folder in /proc; the text is empty on failure. */
static void read_of_thread(const fj_os_thread_t *thread, const char *file, char *text,
                           size_t size)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/task/%lld/%s", (long long)thread->id, file);
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = descriptor >= 0 ? read(descriptor, text, size - 1) : 0;
    text[length > 0 ? length : 0] = '\0';
    if (descriptor >= 0) {
        (void)close(descriptor);
    }
}

static fj_os_sleep_t real_sleeping(const fj_os_thread_t *thread)
{
    fj_os_sleep_t sleep = {false, -1, 0};
    char text[512];
    long call;
    unsigned long word;
    read_of_thread(thread, "stat", text, sizeof text);
    const char *name_end = strrchr(text, ')'); /* the name may hold anything */
    sleep.asleep = name_end != NULL && name_end[1] == ' '
                && (name_end[2] == 'S' || name_end[2] == 'D');
    if (sleep.asleep) {
        read_of_thread(thread, "syscall", text, sizeof text);
        if (sscanf(text, "%ld 0x%lx", &call, &word) == 2 && call >= 0) {
            sleep.call = call;
            sleep.word = call == SYS_futex ? (uintptr_t)word : 0;
        }
    }
    return sleep;
}

const char *fj_os_probe_name(void)
{
    return access("/proc/self/stat", R_OK) == 0 ? "thread CPU clock and /proc state" : NULL;
}

#else

void fj_os_self(fj_os_thread_t *thread)
{
    *thread = (fj_os_thread_t){0, 0, false};
}

static int64_t real_cpu_time(const fj_os_thread_t *thread)
{
    (void)thread;
    return -1;
}

static fj_os_sleep_t real_sleeping(const fj_os_thread_t *thread)
{
    (void)thread;
    return (fj_os_sleep_t){false, -1, 0};
}

const char *fj_os_probe_name(void)
{
    return NULL;
}

#endif

int64_t fj_os_cpu_time(const fj_os_thread_t *thread)
{
    return fj_os_seam.cpu_time != NULL ? fj_os_seam.cpu_time(thread) : real_cpu_time(thread);
}

fj_os_sleep_t fj_os_sleeping(const fj_os_thread_t *thread)
{
    return fj_os_seam.sleeping != NULL ? fj_os_seam.sleeping(thread) : real_sleeping(thread);
}

/* ---- waiting on a word ---- */

#if defined(__linux__)

fj_os_wait_result_t fj_os_real_wait(fj_word_t *word, uint32_t expected, int64_t deadline)
{
    struct timespec until, *limit = NULL;
    if (deadline != FJ_FOREVER) {
        if (deadline < 0) {
            deadline = 0;
        }
        until.tv_sec = (time_t)(deadline / NANOSECONDS);
        until.tv_nsec = (long)(deadline % NANOSECONDS);
        limit = &until;
    }
    /* The BITSET form takes an absolute deadline of the monotonic clock. */
    long result = syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG,
                          expected, limit, NULL, FUTEX_BITSET_MATCH_ANY);
    if (result == 0 || errno == EAGAIN) {
        return FJ_WAIT_WOKEN;
    }
    return errno == ETIMEDOUT ? FJ_WAIT_TIMEOUT
         : errno == EINTR     ? FJ_WAIT_INTERRUPTED
                              : FJ_WAIT_WOKEN;
}

void fj_os_real_wake(fj_word_t *word, bool all)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, all ? INT_MAX : 1,
                  NULL, NULL, 0);
}

#else

/* A waiter sleeps on the condition variable that its word's address hashes
 * to. Waking takes the same lock, so a wake-up cannot fall between the look
 * at the word and the sleep. Such a wait does not end at a signal, so it
 * comes up for air every 50 ms and reports one. */
enum { BUCKETS = 64, AIR = 50000000 };

static struct bucket {
    pthread_mutex_t mutex;
    pthread_cond_t condition;
} buckets[BUCKETS];
static pthread_once_t buckets_once = PTHREAD_ONCE_INIT;

static void buckets_init(void)
{
    for (int i = 0; i < BUCKETS; i++) {
        (void)pthread_mutex_init(&buckets[i].mutex, NULL);
        (void)pthread_cond_init(&buckets[i].condition, NULL);
    }
}

static struct bucket *bucket_of(fj_word_t *word)
{
    (void)pthread_once(&buckets_once, buckets_init);
    return &buckets[((uintptr_t)word >> 4) % BUCKETS];
}

fj_os_wait_result_t fj_os_real_wait(fj_word_t *word, uint32_t expected, int64_t deadline)
{
    struct bucket *bucket = bucket_of(word);
    fj_os_wait_result_t result = FJ_WAIT_WOKEN;
    (void)pthread_mutex_lock(&bucket->mutex);
    if (fj_load_acquire(word) == expected) { /* pairs with whoever changed it before waking */
        int64_t now = fj_os_real_now();
        int64_t left = deadline - now;
        bool airing = left > AIR;
        struct timespec until;
        (void)clock_gettime(CLOCK_REALTIME, &until);
        int64_t wall = (int64_t)until.tv_sec * NANOSECONDS + until.tv_nsec
                     + (airing ? AIR : left > 0 ? left : 0);
        until.tv_sec = (time_t)(wall / NANOSECONDS);
        until.tv_nsec = (long)(wall % NANOSECONDS);
        if (pthread_cond_timedwait(&bucket->condition, &bucket->mutex, &until) == ETIMEDOUT) {
            result = airing ? FJ_WAIT_INTERRUPTED : FJ_WAIT_TIMEOUT;
        }
    }
    (void)pthread_mutex_unlock(&bucket->mutex);
    return result;
}

void fj_os_real_wake(fj_word_t *word, bool all)
{
    struct bucket *bucket = bucket_of(word);
    (void)all;                               /* several words share a bucket: wake them all */
    (void)pthread_mutex_lock(&bucket->mutex);
    (void)pthread_cond_broadcast(&bucket->condition);
    (void)pthread_mutex_unlock(&bucket->mutex);
}

#endif

fj_os_wait_result_t fj_os_wait(fj_word_t *word, uint32_t expected, int64_t deadline)
{
    return fj_os_seam.wait != NULL ? fj_os_seam.wait(word, expected, deadline)
                                   : fj_os_real_wait(word, expected, deadline);
}

static void wake(fj_word_t *word, bool all)
{
    if (fj_os_seam.wake != NULL) {
        fj_os_seam.wake(word, all);
    } else {
        fj_os_real_wake(word, all);
    }
}

void fj_os_wake_one(fj_word_t *word)
{
    wake(word, false);
}

void fj_os_wake_all(fj_word_t *word)
{
    wake(word, true);
}

/* ---- the lock ---- */

void fj_mutex_lock(fj_mutex_t *mutex)
{
    uint32_t found = 0;
    if (fj_cas_acquire(&mutex->word, &found, 1)) { /* pairs with the release in unlock */
        return;
    }
    /* From here on the lock is taken as "somebody sleeps": perhaps one
     * needless wake-up later, never a missing one. */
    while (fj_exchange_acquire(&mutex->word, 2) != 0) { /* pairs with unlock */
        (void)fj_os_wait(&mutex->word, 2, FJ_FOREVER);
    }
}

void fj_mutex_unlock(fj_mutex_t *mutex)
{
    if (fj_exchange_release(&mutex->word, 0) == 2) { /* pairs with the acquires in lock */
        fj_os_wake_one(&mutex->word);
    }
}
