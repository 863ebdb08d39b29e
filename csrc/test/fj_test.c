/* fj_test.c - the harness: the table of tests, one run of one test, checks.
 *
 * A run has two parties: the test (its thread, and whatever threads it starts)
 * and the runner, who waits. They meet in fj_test_run under its mutex: the
 * outcome leaves RUNNING once, set by the test's thread at its end or by the
 * first failing check of any thread. A thread whose check failed never goes
 * on: it blocks its signals and sleeps. So the memory of a failed run may be
 * looked at by threads left behind, and is kept for ever.
 */
#include "fj_test.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FJ_TEST_STACK_SIZE ((size_t)8 << 20)     /* of a main thread; macOS gives others 512 KiB */

/* --- the table ------------------------------------------------------------- */

const fj_test_t fj_tests[FJ_TEST_COUNT] = {
#define FJ_TEST_CASE(subject, promise)                                         \
    FJ_TEST_CASE_IN(FJ_TEST_SECONDS, subject, promise)
#define FJ_TEST_CASE_IN(limit, subject, promise)                               \
    {.name = #subject "." #promise, .body = test_##subject##_##promise, .seconds = (limit)},
#include "tests.def"
#undef FJ_TEST_CASE_IN
#undef FJ_TEST_CASE
};

const fj_test_t *fj_test_find(const char *name)
{
    for (size_t k = 0; k < FJ_TEST_COUNT; k++)
        if (strcmp(fj_tests[k].name, name) == 0)
            return &fj_tests[k];
    return NULL;
}

double fj_test_time_limit(const fj_test_t *test)
{
    return FJ_TEST_SANITIZED ? 4 * test->seconds : test->seconds;
}

/* --- one run ---------------------------------------------------------------- */

struct fj_test_run {
    const fj_test_t *test;
    uint64_t seed;
    pthread_t thread;
    fj_test_run_t *outer;          /* the run that this one is nested in */
    pthread_mutex_t mutex;         /* guards what follows */
    pthread_cond_t ended;
    fj_test_outcome_t outcome;
    char message[1000];
};

/* The innermost run: whose check a failing check is. Written by the runner. */
static _Atomic(fj_test_run_t *) current;

/* Runs that did not pass, kept because threads left behind may look at them. */
static _Atomic(fj_test_run_t *) abandoned;

/* First come, first served. */
static void finish(fj_test_run_t *run, fj_test_outcome_t outcome, const char *message)
{
    pthread_mutex_lock(&run->mutex);
    if (run->outcome == FJ_TEST_RUNNING) {
        run->outcome = outcome;
        snprintf(run->message, sizeof run->message, "%s", message);
        pthread_cond_broadcast(&run->ended);
    }
    pthread_mutex_unlock(&run->mutex);
}

static void block_signals(void)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, NULL);
}

static void *run_body(void *argument)
{
    fj_test_run_t *run = argument;
    run->test->body();
    finish(run, FJ_TEST_PASSED, "");
    return NULL;
}

fj_test_run_t *fj_test_run_start(const fj_test_t *test, uint64_t seed)
{
    fj_test_run_t *run = calloc(1, sizeof *run);
    if (run == NULL)
        return NULL;
    run->test = test;
    run->seed = seed;
    run->outcome = FJ_TEST_RUNNING;
    pthread_mutex_init(&run->mutex, NULL);
    pthread_cond_init(&run->ended, NULL);
    run->outer = atomic_load(&current);
    atomic_store(&current, run);

    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, FJ_TEST_STACK_SIZE);
    int error = pthread_create(&run->thread, &attributes, run_body, run);
    pthread_attr_destroy(&attributes);
    if (error != 0) {
        atomic_store(&current, run->outer);
        free(run);
        return NULL;
    }
    return run;
}

static double monotonic_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

fj_test_outcome_t fj_test_run_wait(fj_test_run_t *run, double seconds)
{
    const double deadline = monotonic_seconds() + seconds;
    pthread_mutex_lock(&run->mutex);
    while (run->outcome == FJ_TEST_RUNNING) {
        const double left = deadline - monotonic_seconds();
        if (left <= 0)
            break;
        /* The condition waits by the wall clock, everywhere; should that jump,
         * the loop looks again. */
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += (long)(1e9 * (left < 0.5 ? left : 0.5));
        if (until.tv_nsec >= 1000000000) {
            until.tv_nsec -= 1000000000;
            until.tv_sec += 1;
        }
        pthread_cond_timedwait(&run->ended, &run->mutex, &until);
    }
    const fj_test_outcome_t outcome = run->outcome;
    pthread_mutex_unlock(&run->mutex);
    return outcome;
}

void fj_test_run_end(fj_test_run_t *run, char *message, size_t size)
{
    pthread_mutex_lock(&run->mutex);
    const fj_test_outcome_t outcome = run->outcome;
    snprintf(message, size, "%s", run->message);
    pthread_mutex_unlock(&run->mutex);
    if (outcome == FJ_TEST_PASSED) {
        pthread_join(run->thread, NULL);
        atomic_store(&current, run->outer);
        pthread_cond_destroy(&run->ended);
        pthread_mutex_destroy(&run->mutex);
        free(run);
    }
    else {
        pthread_detach(run->thread);
        fj_test_run_t *outer = run->outer;
        run->outer = atomic_load(&abandoned);
        atomic_store(&abandoned, run);
        atomic_store(&current, outer);
    }
}

/* --- checks ------------------------------------------------------------------ */

void fj_test_fail(const char *file, int line, const char *format, ...)
{
    char text[700], message[1000];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    snprintf(message, sizeof message, "%s:%d: %s", file, line, text);

    block_signals();
    fj_test_run_t *run = atomic_load(&current);
    if (run != NULL)
        finish(run, FJ_TEST_FAILED, message);
    else
        fprintf(stderr, "after its test ended: %s\n", message);
    for (;;)
        pause();
}

fj_test_value_t fj_test_value_signed(long long value)
{
    return (fj_test_value_t){.kind = FJ_TEST_SIGNED, .as_signed = value};
}

fj_test_value_t fj_test_value_unsigned(unsigned long long value)
{
    return (fj_test_value_t){.kind = FJ_TEST_UNSIGNED, .as_unsigned = value};
}

fj_test_value_t fj_test_value_double(double value)
{
    return (fj_test_value_t){.kind = FJ_TEST_DOUBLE, .as_double = value};
}

fj_test_value_t fj_test_value_pointer(const volatile void *value)
{
    return (fj_test_value_t){.kind = FJ_TEST_POINTER, .as_pointer = value};
}

static double value_as_double(fj_test_value_t value)
{
    switch (value.kind) {
    case FJ_TEST_SIGNED: return (double)value.as_signed;
    case FJ_TEST_UNSIGNED: return (double)value.as_unsigned;
    case FJ_TEST_DOUBLE: return value.as_double;
    case FJ_TEST_POINTER: break;
    }
    return (double)NAN;
}

/* An integer by value: its sign, and the bits of its two's complement. */
static bool is_negative(fj_test_value_t value)
{
    return value.kind == FJ_TEST_SIGNED && value.as_signed < 0;
}

static uint64_t bits(fj_test_value_t value)
{
    switch (value.kind) {
    case FJ_TEST_SIGNED: return (uint64_t)value.as_signed;
    case FJ_TEST_POINTER: return (uint64_t)(uintptr_t)value.as_pointer;
    default: return value.as_unsigned;
    }
}

static bool holds(fj_test_relation_t relation, fj_test_value_t left, fj_test_value_t right)
{
    bool less, equal;
    if (left.kind == FJ_TEST_DOUBLE || right.kind == FJ_TEST_DOUBLE) {
        const double a = value_as_double(left), b = value_as_double(right);
        less = a < b;
        equal = a <= b && a >= b;
        if (!less && !equal && !(a > b))              /* a NaN: unequal to everything */
            return relation == FJ_TEST_NE;
    }
    else if (is_negative(left) != is_negative(right)) {
        less = is_negative(left);
        equal = false;
    }
    else {                                            /* of one sign: the bits decide */
        less = bits(left) < bits(right);
        equal = bits(left) == bits(right);
    }
    switch (relation) {
    case FJ_TEST_EQ: return equal;
    case FJ_TEST_NE: return !equal;
    case FJ_TEST_LT: return less;
    case FJ_TEST_LE: return less || equal;
    case FJ_TEST_GT: return !less && !equal;
    case FJ_TEST_GE: return !less;
    }
    return false;
}

static void format_value(char *text, size_t size, fj_test_value_t value)
{
    switch (value.kind) {
    case FJ_TEST_SIGNED: snprintf(text, size, "%" PRId64, value.as_signed); break;
    case FJ_TEST_UNSIGNED: snprintf(text, size, "%" PRIu64, value.as_unsigned); break;
    case FJ_TEST_DOUBLE: snprintf(text, size, "%.17g", value.as_double); break;
    case FJ_TEST_POINTER:
        snprintf(text, size, "0x%" PRIxPTR, (uintptr_t)value.as_pointer);
        break;
    }
}

void fj_test_compare(const char *file, int line, fj_test_relation_t relation,
                     const char *left_text, const char *right_text,
                     fj_test_value_t left, fj_test_value_t right)
{
    static const char *const signs[] = {"==", "!=", "<", "<=", ">", ">="};
    char a[40], b[40];
    if (holds(relation, left, right))
        return;
    format_value(a, sizeof a, left);
    format_value(b, sizeof b, right);
    fj_test_fail(file, line, "check failed: %s %s %s, with %s and %s", left_text,
                 signs[relation], right_text, a, b);
}

/* --- what tests use ------------------------------------------------------------- */

uint64_t fj_test_seed(void)
{
    return atomic_load(&current)->seed;
}

/* SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014). */
uint64_t fj_test_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

void fj_test_latch_count_down(fj_test_latch_t *latch)
{
    pthread_mutex_lock(&latch->mutex);
    if (latch->left > 0 && --latch->left == 0)
        pthread_cond_broadcast(&latch->opened);
    pthread_mutex_unlock(&latch->mutex);
}

void fj_test_latch_wait(fj_test_latch_t *latch)
{
    pthread_mutex_lock(&latch->mutex);
    while (latch->left > 0)
        pthread_cond_wait(&latch->opened, &latch->mutex);
    pthread_mutex_unlock(&latch->mutex);
}

typedef struct party {
    pthread_t thread;
    unsigned index;
    fj_test_latch_t *all_exist;
    void (*body)(unsigned index, void *argument);
    void *argument;
} party_t;

static void *run_party(void *pointer)
{
    party_t *party = pointer;
    fj_test_latch_count_down(party->all_exist);
    fj_test_latch_wait(party->all_exist);
    party->body(party->index, party->argument);
    return NULL;
}

void fj_test_together(unsigned count, void (*body)(unsigned index, void *argument),
                      void *argument)
{
    fj_test_latch_t all_exist = FJ_TEST_LATCH(count);
    party_t *parties = calloc(count, sizeof *parties);
    FJ_CHECK(parties != NULL);
    for (unsigned k = 0; k < count; k++) {
        parties[k] = (party_t){.index = k, .all_exist = &all_exist, .body = body,
                               .argument = argument};
        const int error = pthread_create(&parties[k].thread, NULL, run_party, &parties[k]);
        if (error != 0)
            FJ_FAIL("no thread for the test: %s", strerror(error));
    }
    for (unsigned k = 0; k < count; k++)
        pthread_join(parties[k].thread, NULL);
    free(parties);
}
