/* test_harness.c - the harness tested by itself: a failure must not go unseen. */
#include "fj_test.h"

#include <string.h>

/* Runs a body that is in no table, as the runners do, and returns the outcome. */
static fj_test_outcome_t try_body(void (*body)(void), double seconds, char *message, size_t size)
{
    const fj_test_t test = {.name = "nested", .body = body, .seconds = seconds};
    fj_test_run_t *run = fj_test_run_start(&test, fj_test_seed());
    FJ_CHECK(run != NULL);
    const fj_test_outcome_t outcome = fj_test_run_wait(run, seconds);
    fj_test_run_end(run, message, size);
    return outcome;
}

static void compare_two_and_three(void)
{
    FJ_CHECK_EQ(1 + 1, 3);
}

static void check_a_falsehood(void)
{
    FJ_CHECK(1 > 2);
}

static void pass(void)
{
}

/* A failing check ends its test as failed, and the message has place, text and values. */
FJ_TEST(harness, a_failing_check_is_reported)
{
    char message[1000];
    FJ_CHECK_EQ(try_body(compare_two_and_three, 10, message, sizeof message), FJ_TEST_FAILED);
    FJ_CHECK(strstr(message, "test_harness.c:") != NULL);
    FJ_CHECK(strstr(message, "1 + 1 == 3, with 2 and 3") != NULL);

    FJ_CHECK_EQ(try_body(check_a_falsehood, 10, message, sizeof message), FJ_TEST_FAILED);
    FJ_CHECK(strstr(message, "check failed: 1 > 2") != NULL);

    FJ_CHECK_EQ(try_body(pass, 10, message, sizeof message), FJ_TEST_PASSED);
    FJ_CHECK_EQ(strlen(message), 0);
}

static fj_test_latch_t never_opened = FJ_TEST_LATCH(1);

static void *fail_in_helper(void *unused)
{
    (void)unused;
    FJ_FAIL("the helper says %d", 42);
}

static void wait_for_a_failing_helper(void)
{
    pthread_t helper;
    FJ_CHECK_EQ(pthread_create(&helper, NULL, fail_in_helper, NULL), 0);
    pthread_detach(helper);
    fj_test_latch_wait(&never_opened);
}

/* A check that fails in another thread fails the test, even while the test waits for good. */
FJ_TEST(harness, a_failure_in_a_helper_thread_ends_the_test)
{
    char message[1000];
    FJ_CHECK_EQ(try_body(wait_for_a_failing_helper, 10, message, sizeof message), FJ_TEST_FAILED);
    FJ_CHECK(strstr(message, "the helper says 42") != NULL);
}

static void hang(void)
{
    fj_test_latch_wait(&never_opened);
}

/* A test that never ends is given up at its time-out, not waited for. */
FJ_TEST(harness, a_test_that_hangs_is_still_running)
{
    char message[1000];
    FJ_CHECK_EQ(try_body(hang, 0.05, message, sizeof message), FJ_TEST_RUNNING);
}

/* Checks compare integers by value, whatever their types, and pointers by address. */
FJ_TEST(harness, values_compare_across_types)
{
    const int minus_one = -1;
    const unsigned char byte = 255;
    const size_t size = 255;
    int array[2] = {0, 0};
    FJ_CHECK_LT(minus_one, UINT64_MAX);
    FJ_CHECK_NE(minus_one, UINT64_MAX);
    FJ_CHECK_LT(INT64_MIN, -1);
    FJ_CHECK_EQ(byte, size);
    FJ_CHECK_GE(size, byte);
    FJ_CHECK_EQ(true, 1);
    FJ_CHECK_GT(0.5, minus_one);
    FJ_CHECK_LE(0.5, 0.5f);
    FJ_CHECK_EQ(&array[1], array + 1);
    FJ_CHECK_NE(&array[1], NULL);
}

typedef struct meeting {
    fj_test_latch_t all_came;
    unsigned seen[4];
} meeting_t;

static void meet(unsigned index, void *argument)
{
    meeting_t *meeting = argument;
    meeting->seen[index] += 1;
    fj_test_latch_count_down(&meeting->all_came);
    fj_test_latch_wait(&meeting->all_came);       /* ends only if all run at the same time */
}

/* fj_test_together runs each index once, all of them at the same time. */
FJ_TEST(harness, threads_run_together)
{
    meeting_t meeting = {.all_came = FJ_TEST_LATCH(4)};
    fj_test_together(4, meet, &meeting);
    for (int k = 0; k < 4; k++)
        FJ_CHECK_EQ(meeting.seen[k], 1);
}
