/* main.c - the standalone runner of the C tests.
 *
 *     fj_tests [--list] [--seed N] [NAME ...]
 *
 * Without names it runs every test. Prints the seed, a line a test, and at the
 * end "N passed, N failed"; exit status 1 if one failed, 2 for a wrong
 * argument. A test that outlasts its time-out ends the program by abort, so
 * that a core file or a sanitizer shows where it hangs.
 */
#include "fj_test.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int usage(const char *complaint, const char *argument)
{
    fprintf(stderr, "%s: %s\nusage: fj_tests [--list] [--seed N] [NAME ...]\n", complaint,
            argument);
    return 2;
}

/* Returns whether the test passed; does not return if it hangs. */
static bool run(const fj_test_t *test, uint64_t seed)
{
    const double limit = fj_test_time_limit(test);
    char message[1000];
    fj_test_run_t *running = fj_test_run_start(test, seed);
    if (running == NULL) {
        printf("FAILED  %s\n        no thread or memory to run it\n", test->name);
        return false;
    }
    const fj_test_outcome_t outcome = fj_test_run_wait(running, limit);
    if (outcome == FJ_TEST_RUNNING) {
        printf("HANGS   %s\n        no end within %g s\n", test->name, limit);
        fflush(stdout);
        abort();
    }
    fj_test_run_end(running, message, sizeof message);
    if (outcome == FJ_TEST_PASSED)
        printf("ok      %s\n", test->name);
    else
        printf("FAILED  %s\n        %s\n", test->name, message);
    fflush(stdout);
    return outcome == FJ_TEST_PASSED;
}

int main(int argc, char **argv)
{
    const fj_test_t *chosen[FJ_TEST_COUNT];
    size_t count = 0;
    uint64_t seed = (uint64_t)time(NULL);
    for (int k = 1; k < argc; k++) {
        if (strcmp(argv[k], "--list") == 0) {
            for (size_t t = 0; t < FJ_TEST_COUNT; t++)
                puts(fj_tests[t].name);
            return 0;
        }
        if (strcmp(argv[k], "--seed") == 0) {
            char *end = NULL;
            errno = 0;
            if (++k < argc)
                seed = strtoull(argv[k], &end, 0);
            if (end == NULL || end == argv[k] || *end != '\0' || errno != 0)
                return usage("--seed wants a number", k < argc ? argv[k] : "");
            continue;
        }
        const fj_test_t *test = fj_test_find(argv[k]);
        if (test == NULL)
            return usage("no such test", argv[k]);
        if (count == FJ_TEST_COUNT)
            return usage("too many names", argv[k]);
        chosen[count++] = test;
    }
    if (count == 0)
        for (; count < FJ_TEST_COUNT; count++)
            chosen[count] = &fj_tests[count];

    printf("seed %" PRIu64 "\n", seed);
    size_t failed = 0;
    for (size_t k = 0; k < count; k++)
        failed += !run(chosen[k], seed);
    printf("%zu passed, %zu failed\n", count - failed, failed);
    return failed != 0;
}
