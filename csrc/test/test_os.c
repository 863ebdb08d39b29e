/* test_os.c - waiting on a word, the clock, threads, the lock, and the seam over them. */
#define _POSIX_C_SOURCE 200809L
#include "fixture.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

/* ---- waiting ---- */

/* A wait for a word that has changed already returns at once. */
FJ_TEST(os, a_wait_returns_if_the_word_has_changed)
{
    fj_word_t word = 1;
    FJ_CHECK_EQ(fj_os_wait(&word, 0, FJ_FOREVER), FJ_WAIT_WOKEN);
    FJ_CHECK_EQ(fj_os_wait(&word, 2, FJ_FOREVER), FJ_WAIT_WOKEN);
}

/* Waits as long as it takes; counts early returns for no reason as no return. */
static fj_os_wait_result_t wait_through(fj_word_t *word, int64_t deadline)
{
    fj_os_wait_result_t result;
    do {
        result = fj_os_wait(word, 0, deadline);
    } while (result == FJ_WAIT_WOKEN && fj_load_acquire(word) == 0); /* pairs with whoever sets it */
    return result;
}

/* A deadline is a moment of the monotonic clock, and one in the past is over. */
FJ_TEST(os, a_deadline_is_absolute)
{
    fj_word_t word = 0;
    int64_t deadline = fj_os_now() + 20 * FX_MS;
    for (int i = 0; i < 3; i++) {                /* the second and third wait have no time left */
        FJ_CHECK_EQ(wait_through(&word, deadline), FJ_WAIT_TIMEOUT);
        FJ_CHECK_GE(fj_os_now(), deadline);
    }
    FJ_CHECK_EQ(wait_through(&word, 0), FJ_WAIT_TIMEOUT);
    FJ_CHECK_EQ(wait_through(&word, -1), FJ_WAIT_TIMEOUT);
    FJ_CHECK_EQ(wait_through(&word, INT64_MIN), FJ_WAIT_TIMEOUT);
}

/* A deadline too far away for the clock is none at all. */
FJ_TEST(os, a_far_deadline_is_forever)
{
    FJ_CHECK_EQ(fj_os_deadline(FJ_FOREVER), FJ_FOREVER);
    FJ_CHECK_EQ(fj_os_deadline(FJ_FOREVER - 1), FJ_FOREVER);
    int64_t before = fj_os_now();
    int64_t deadline = fj_os_deadline(5 * FX_MS);
    FJ_CHECK_GE(deadline, before + 5 * FX_MS);
    FJ_CHECK_LE(deadline, fj_os_now() + 5 * FX_MS);
}

typedef struct sleepers {
    fj_word_t word, about_to, returned;
    pthread_t thread;                           /* of the first one */
} sleepers_t;

enum { SLEEPERS = 4 };

static void sleep_or_wake_all(unsigned index, void *argument)
{
    sleepers_t *test = argument;
    if (index < SLEEPERS) {
        fx_bump(&test->about_to);
        FJ_CHECK_EQ(wait_through(&test->word, fj_os_now() + FX_PATIENCE), FJ_WAIT_WOKEN);
        fx_bump(&test->returned);
    } else {
        FX_AWAIT(&test->about_to, SLEEPERS);
        fj_store_release(&test->word, 1);        /* pairs with wait_through */
        fj_os_wake_all(&test->word);
    }
}

/* Everybody who sleeps on a word is woken by wake_all. */
FJ_TEST(os, wake_all_wakes_everybody)
{
    for (int i = 0; i < FJ_TEST_ROUNDS(200); i++) {
        sleepers_t test = {.word = 0};
        fj_test_together(SLEEPERS + 1, sleep_or_wake_all, &test);
        FJ_CHECK_EQ(fx_read(&test.returned), SLEEPERS);
    }
}

static void ignore(int number)
{
    (void)number;
}

static void sleep_or_signal(unsigned index, void *argument)
{
    sleepers_t *test = argument;
    if (index == 0) {
        test->thread = pthread_self();
        fx_bump(&test->about_to);
        FJ_CHECK_EQ(wait_through(&test->word, fj_os_now() + FX_PATIENCE), FJ_WAIT_INTERRUPTED);
        fx_bump(&test->returned);
    } else {
        FX_AWAIT(&test->about_to, 1);
        while (fx_read(&test->returned) == 0) {
            FJ_CHECK_EQ(pthread_kill(test->thread, SIGUSR1), 0);
            fx_nap();
        }
    }
}

/* A signal handler that runs in a sleeping thread ends its wait, and the wait says so. */
FJ_TEST(os, a_signal_interrupts_a_wait)
{
    struct sigaction action, before;
    sleepers_t test = {.word = 0};
    memset(&action, 0, sizeof action);
    action.sa_handler = ignore;
    (void)sigemptyset(&action.sa_mask);
    FJ_CHECK_EQ(sigaction(SIGUSR1, &action, &before), 0);
    fj_test_together(2, sleep_or_signal, &test);
    FJ_CHECK_EQ(sigaction(SIGUSR1, &before, NULL), 0);
}

/* ---- the lock ---- */

static struct {
    fj_mutex_t mutex;
    uint64_t inside, total;                     /* plain: the lock protects them */
} locked;

static void lock_and_count(unsigned index, void *rounds)
{
    (void)index;
    for (int i = 0; i < *(int *)rounds; i++) {
        fj_mutex_lock(&locked.mutex);
        FJ_CHECK_EQ(locked.inside++, 0);
        locked.total++;
        if (i % 64 == 0) {
            fx_nap();                            /* so that the others do go to sleep */
        }
        FJ_CHECK_EQ(locked.inside--, 1);
        fj_mutex_unlock(&locked.mutex);
    }
}

/* One thread at a time holds the lock, whatever the waits inside it do, and all get it. */
FJ_TEST(os, a_mutex_admits_one)
{
    int rounds = FJ_TEST_ROUNDS(4000);
    for (int unreliable = 0; unreliable < 2; unreliable++) {
        locked.total = 0;
        if (unreliable) {
            fx_seam_set((fj_os_seam_t){.wait = fx_unreliable_wait});
        }
        fj_test_together(8, lock_and_count, &rounds);
        FJ_CHECK_EQ(locked.total, 8 * rounds);
        FJ_CHECK_EQ(fx_read(&locked.mutex.word), 0);
        fx_seam_clear();
    }
}

/* ---- threads ---- */

typedef struct thread {
    fj_word_t ran;
    size_t stack;
} thread_t;

static void note_its_stack(void *argument)
{
    thread_t *thread = argument;
    thread->stack = fj_os_stack_left();
    fx_bump(&thread->ran);
}

/* A thread runs its body with its argument, on a stack at least as large as was asked for: here
 * twice the usual size. */
FJ_TEST(os, a_thread_has_the_stack_it_was_given)
{
    size_t size = (size_t)16 << 20;
    thread_t thread = {.ran = 0};
    FJ_CHECK_EQ(fj_os_thread_start(note_its_stack, &thread, size), 0);
    FX_AWAIT(&thread.ran, 1);
    FJ_CHECK_GT(thread.stack, size / 8 * 7);
}

/* A thread that the system does not give is an error, not a body that runs some time. */
FJ_TEST(os, a_refused_thread_is_an_error)
{
    thread_t thread = {.ran = 0};
    FJ_CHECK_NE(fj_os_thread_start(note_its_stack, &thread, 1), 0);
    fx_seam_set((fj_os_seam_t){.thread_start = fx_thread_start});
    fx_refuse_all = true;
    FJ_CHECK_EQ(fj_os_thread_start(note_its_stack, &thread, 0), EAGAIN);
    fx_refuse_all = false;
    FJ_CHECK_EQ(fj_os_thread_start(note_its_stack, &thread, 0), 0);
    FX_AWAIT(&thread.ran, 1);
    FJ_CHECK_EQ(fx_read(&thread.ran), 1);
    fx_seam_clear();
}

/* ---- is another thread asleep? ---- */

typedef struct watched {
    fj_os_thread_t thread;
    fj_word_t word, known, spin, spun, leave;
} watched_t;

static void spins_then_sleeps(void *argument)
{
    watched_t *test = argument;
    fj_os_self(&test->thread);
    fx_bump(&test->known);
    while (fx_read(&test->spin) == 0) {
        fj_spin_hint();
    }
    fx_bump(&test->spun);
    while (fx_read(&test->word) == 0) {
        (void)fj_os_real_wait(&test->word, 0, FJ_FOREVER);
    }
    fx_bump(&test->leave);
}

/* A thread that computes uses CPU time and is not asleep; one that waits is asleep, at that word. */
FJ_TEST(os, a_sleeping_thread_is_told_from_a_running_one)
{
    watched_t test = {.word = 0};
    if (fj_os_probe_name() == NULL) {
        return;                                  /* this system does not tell */
    }
    FJ_CHECK_EQ(fj_os_thread_start(spins_then_sleeps, &test, 0), 0);
    FX_AWAIT(&test.known, 1);
    int64_t before = fj_os_cpu_time(&test.thread);
    FJ_CHECK_GE(before, 0);
    FX_UNTIL(fj_os_cpu_time(&test.thread) > before + 2 * FX_MS);
    FJ_CHECK(!fj_os_sleeping(&test.thread).asleep);
    fx_bump(&test.spin);
    FX_AWAIT(&test.spun, 1);
    FX_UNTIL(fj_os_sleeping(&test.thread).asleep);
    int64_t asleep = fj_os_cpu_time(&test.thread);
    fj_os_sleep_t sleep = fj_os_sleeping(&test.thread);
    FJ_CHECK(sleep.asleep);
    FJ_CHECK(sleep.word == 0 || sleep.word == (uintptr_t)&test.word); /* 0: not allowed to know */
    FJ_CHECK_EQ(fj_os_cpu_time(&test.thread), asleep);
    fx_bump(&test.word);
    FX_AWAIT(&test.leave, 1);
    FX_UNTIL(fj_os_cpu_time(&test.thread) == -1);
    FJ_CHECK(!fj_os_sleeping(&test.thread).asleep);
}

/* The coarse clock is the monotonic one, a little late and never ahead. */
FJ_TEST(os, the_coarse_clock_is_only_late)
{
    for (int i = 0; i < 1000; i++) {
        int64_t coarse = fj_os_now_coarse();
        FJ_CHECK_LE(coarse, fj_os_real_now());
        FJ_CHECK_GE(coarse, fj_os_real_now() - 1000 * FX_MS);
    }
}

/* ---- the seam ---- */

static int64_t stopped_clock(void)
{
    return 42;
}

/* A test's clock takes the place of the real one, and deadlines follow it. */
FJ_TEST(os, the_clock_can_be_replaced)
{
    fx_seam_set((fj_os_seam_t){.now = stopped_clock});
    FJ_CHECK_EQ(fj_os_now(), 42);
    FJ_CHECK_EQ(fj_os_deadline(8), 50);
    fx_seam_clear();
    FJ_CHECK_GT(fj_os_now(), 42);
}
