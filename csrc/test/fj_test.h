/* fj_test.h - the harness of the C tests: what a test file includes.
 *
 * A test is a function that returns when its promise holds:
 *
 *     FJ_TEST(deque, push_pop_is_lifo)
 *     {
 *         FJ_CHECK_EQ(fj_deque_pop(&deque), &second);
 *     }
 *
 * and one line in tests.def, FJ_TEST_CASE(deque, push_pop_is_lifo). Leaving
 * out either half is a compile or a link error. The name of the test is then
 * "deque.push_pop_is_lifo", in the standalone program and in fjpool._selftest.
 *
 * A check may fail in any thread. The first failure is recorded and ends the
 * test at once; whatever the test started is left behind with its stacks
 * intact, the failing thread asleep for ever, so that nothing is freed under
 * a helper thread that still runs. Hence no cleanup is needed for a failure.
 *
 * The harness knows nothing of the core: it uses pthreads alone.
 */
#ifndef FJ_TEST_H
#define FJ_TEST_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __has_feature
#define FJ_TEST_HAS_FEATURE(x) __has_feature(x)
#else
#define FJ_TEST_HAS_FEATURE(x) 0
#endif

/* Some sanitizer slows this build down, about tenfold. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) \
    || FJ_TEST_HAS_FEATURE(thread_sanitizer) || FJ_TEST_HAS_FEATURE(address_sanitizer)
#define FJ_TEST_SANITIZED 1
#else
#define FJ_TEST_SANITIZED 0
#endif

/* How often to repeat something: n, or a tenth of it under a sanitizer. */
#define FJ_TEST_ROUNDS(n) (FJ_TEST_SANITIZED ? ((n) + 9) / 10 : (n))

/* Defines a test. The enumerator exists only if tests.def lists the test. */
#define FJ_TEST(subject, promise)                                              \
    _Static_assert(FJ_TEST_ID_##subject##_##promise >= 0, "see tests.def");    \
    void test_##subject##_##promise(void)

#define FJ_TEST_CASE(subject, promise)                                         \
    FJ_TEST_CASE_IN(FJ_TEST_SECONDS, subject, promise)
#define FJ_TEST_CASE_IN(seconds, subject, promise)                             \
    FJ_TEST_ID_##subject##_##promise,
typedef enum fj_test_id {
#include "tests.def"
    FJ_TEST_COUNT
} fj_test_id_t;
#undef FJ_TEST_CASE_IN

#define FJ_TEST_CASE_IN(seconds, subject, promise) void test_##subject##_##promise(void);
#include "tests.def"
#undef FJ_TEST_CASE_IN
#undef FJ_TEST_CASE

/* --- checks: any thread ---------------------------------------------------- */

#define FJ_CHECK(condition)                                                    \
    ((condition) ? (void)0                                                     \
                 : fj_test_fail(__FILE__, __LINE__, "check failed: %s", #condition))

/* Compares two integers by value (so -1 is below 0u), two doubles, or two
 * pointers; each argument is evaluated once. */
#define FJ_CHECK_EQ(a, b) FJ_TEST_COMPARE(FJ_TEST_EQ, a, b)
#define FJ_CHECK_NE(a, b) FJ_TEST_COMPARE(FJ_TEST_NE, a, b)
#define FJ_CHECK_LT(a, b) FJ_TEST_COMPARE(FJ_TEST_LT, a, b)
#define FJ_CHECK_LE(a, b) FJ_TEST_COMPARE(FJ_TEST_LE, a, b)
#define FJ_CHECK_GT(a, b) FJ_TEST_COMPARE(FJ_TEST_GT, a, b)
#define FJ_CHECK_GE(a, b) FJ_TEST_COMPARE(FJ_TEST_GE, a, b)

/* For what a check cannot say: a printf-like message. */
#define FJ_FAIL(...) fj_test_fail(__FILE__, __LINE__, __VA_ARGS__)

/* --- what a test may use ---------------------------------------------------- */

/* The seed of this run; each test that draws random numbers starts from it, so
 * that the printed seed repeats the numbers (not the interleaving). */
uint64_t fj_test_seed(void);

/* The next random number of the stream whose state the caller owns. */
uint64_t fj_test_random(uint64_t *state);

/* A latch: opens for good once it was counted down `count` times. */
typedef struct fj_test_latch {
    pthread_mutex_t mutex;
    pthread_cond_t opened;
    unsigned left;
} fj_test_latch_t;

#define FJ_TEST_LATCH(count)                                                   \
    {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, (count)}

void fj_test_latch_count_down(fj_test_latch_t *latch);
void fj_test_latch_wait(fj_test_latch_t *latch);

/* Runs body(0, argument) .. body(count - 1, argument) at the same time, each in
 * a thread of its own; none starts before all exist. Returns when all ended. */
void fj_test_together(unsigned count, void (*body)(unsigned index, void *argument),
                      void *argument);

/* --- running tests: main.c, module.c, test_harness.c ------------------------- */

typedef struct fj_test {
    const char *name;
    void (*body)(void);
    double seconds;            /* the time-out, before fj_test_time_limit scales it */
} fj_test_t;

#define FJ_TEST_SECONDS 60.0

extern const fj_test_t fj_tests[FJ_TEST_COUNT];

/* The test of that name, or NULL. */
const fj_test_t *fj_test_find(const char *name);

/* Its time-out in seconds; longer under a sanitizer. */
double fj_test_time_limit(const fj_test_t *test);

typedef enum fj_test_outcome {
    FJ_TEST_RUNNING,
    FJ_TEST_PASSED,
    FJ_TEST_FAILED
} fj_test_outcome_t;

typedef struct fj_test_run fj_test_run_t;

/* Starts the test in a thread of its own; NULL when there is none to be had.
 * A test may run another one (test_harness.c does); otherwise one at a time. */
fj_test_run_t *fj_test_run_start(const fj_test_t *test, uint64_t seed);

/* Waits for its end, at most that many seconds. */
fj_test_outcome_t fj_test_run_wait(fj_test_run_t *run, double seconds);

/* Gives up a run. Frees what a passed one held and abandons any other. Copies
 * the message of a failed one to message[size] ("" otherwise) first. */
void fj_test_run_end(fj_test_run_t *run, char *message, size_t size);

/* --- behind the macros -------------------------------------------------------- */

typedef enum fj_test_relation {
    FJ_TEST_EQ, FJ_TEST_NE, FJ_TEST_LT, FJ_TEST_LE, FJ_TEST_GT, FJ_TEST_GE
} fj_test_relation_t;

typedef struct fj_test_value {
    enum {FJ_TEST_SIGNED, FJ_TEST_UNSIGNED, FJ_TEST_DOUBLE, FJ_TEST_POINTER} kind;
    union {
        int64_t as_signed;
        uint64_t as_unsigned;
        double as_double;
        const volatile void *as_pointer;
    };
} fj_test_value_t;

fj_test_value_t fj_test_value_signed(long long value);
fj_test_value_t fj_test_value_unsigned(unsigned long long value);
fj_test_value_t fj_test_value_double(double value);
fj_test_value_t fj_test_value_pointer(const volatile void *value);

#define FJ_TEST_VALUE(x)                                                       \
    _Generic((x),                                                              \
             char: fj_test_value_signed, signed char: fj_test_value_signed,    \
             short: fj_test_value_signed, int: fj_test_value_signed,           \
             long: fj_test_value_signed, long long: fj_test_value_signed,      \
             _Bool: fj_test_value_unsigned,                                    \
             unsigned char: fj_test_value_unsigned,                            \
             unsigned short: fj_test_value_unsigned,                           \
             unsigned: fj_test_value_unsigned,                                 \
             unsigned long: fj_test_value_unsigned,                            \
             unsigned long long: fj_test_value_unsigned,                       \
             float: fj_test_value_double, double: fj_test_value_double,        \
             default: fj_test_value_pointer)(x)

#define FJ_TEST_COMPARE(relation, a, b)                                        \
    fj_test_compare(__FILE__, __LINE__, relation, #a, #b,                      \
                    FJ_TEST_VALUE(a), FJ_TEST_VALUE(b))

void fj_test_compare(const char *file, int line, fj_test_relation_t relation,
                     const char *left_text, const char *right_text,
                     fj_test_value_t left, fj_test_value_t right);

_Noreturn void fj_test_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif /* FJ_TEST_H */
