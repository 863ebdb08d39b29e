/* test_task.c - the life of one task: who may move it, who learns of its end. */
#include "fixture.h"

#include <string.h>

/* ---- transitions ---- */

/* What belongs to others in the status word: a tag, and the bits beside the state. */
#define OTHERS (0xbeefu << FJ_TASK_TAG_SHIFT | FJ_TASK_STOP_REQUESTED | FJ_TASK_EXTRA)

static bool queue(fj_task_t *task)
{
    return fj_task_try_queue(task, NULL);
}

static bool complete_normally(fj_task_t *task)
{
    return fj_task_complete(task, FJ_NORMAL);
}

static bool fail(fj_task_t *task)
{
    return fj_task_complete(task, FJ_FAILED);
}

static bool force_back(fj_task_t *task)
{
    fj_task_force(task, FJ_NEW);
    return true;
}

enum {
    NEW = 1 << FJ_NEW,
    QUEUED = 1 << FJ_QUEUED,
    RUNNING = 1 << FJ_RUNNING,
    ANY = (1 << (FJ_CANCELLED + 1)) - 1
};

static const struct {
    bool (*move)(fj_task_t *);
    unsigned from;
    fj_state_t to;
} moves[] = {
    {queue, NEW, FJ_QUEUED},
    {fj_task_try_unqueue, QUEUED, FJ_NEW},
    {fj_task_try_claim, QUEUED, FJ_RUNNING},
    {fj_task_try_start, NEW | QUEUED, FJ_RUNNING},
    {fj_task_try_cancel, NEW | QUEUED, FJ_CANCELLED},
    {complete_normally, NEW | QUEUED | RUNNING, FJ_NORMAL},
    {fail, NEW | QUEUED | RUNNING, FJ_FAILED},
    {force_back, ANY, FJ_NEW},
};

/* Each move is allowed from the states that the table names and refused from all others, and
 * either way the tag and the bits of the binding stay. */
FJ_TEST(task, every_move_is_allowed_or_refused_as_the_table_says)
{
    for (size_t i = 0; i < sizeof moves / sizeof moves[0]; i++) {
        for (fj_state_t state = FJ_NEW; state <= FJ_CANCELLED; state++) {
            fj_task_t task;
            fj_task_init(&task, &fx_task_ops);
            fj_task_force(&task, state);
            (void)fj_or_relaxed(&task.status, OTHERS);
            bool allowed = moves[i].from >> state & 1;
            FJ_CHECK_EQ(moves[i].move(&task), allowed);
            FJ_CHECK_EQ(fj_task_state(&task), allowed ? moves[i].to : state);
            FJ_CHECK_EQ(fx_read(&task.status) & ~(uint32_t)FJ_STATE_MASK, OTHERS);
        }
    }
}

/* Done means normal, failed or cancelled, and nothing else. */
FJ_TEST(task, done_is_one_of_three_states)
{
    for (fj_state_t state = FJ_NEW; state <= FJ_CANCELLED; state++) {
        fj_task_t task;
        fj_task_init(&task, &fx_task_ops);
        fj_task_force(&task, state);
        FJ_CHECK_EQ(fj_task_is_done(&task),
                    state == FJ_NORMAL || state == FJ_FAILED || state == FJ_CANCELLED);
    }
}

/* A task that was reset may be queued and run once more. */
FJ_TEST(task, a_reset_task_starts_again)
{
    fj_task_t task;
    fj_task_init(&task, &fx_task_ops);
    for (int i = 0; i < 3; i++) {
        FJ_CHECK(queue(&task));
        FJ_CHECK(fj_task_try_claim(&task));
        fj_store_relaxed(&task.runner, 7);
        FJ_CHECK(complete_normally(&task));
        fj_task_reset(&task);
        FJ_CHECK_EQ(fj_task_state(&task), FJ_NEW);
        FJ_CHECK_EQ(fj_load_relaxed(&task.runner), 0);
    }
}

/* ---- races for one task ---- */

enum { RACERS = 8, MOST = 20000 };

static struct {
    fj_task_t tasks[MOST];
    fj_word_t claims[MOST], cancels[MOST];
    int64_t payload[MOST];                      /* plain: what the winner may read or write */
    unsigned n;
} race;

static void race_prepare(void)
{
    race.n = FJ_TEST_ROUNDS(MOST);
    for (unsigned i = 0; i < race.n; i++) {
        fj_task_init(&race.tasks[i], &fx_task_ops);
        FJ_CHECK(queue(&race.tasks[i]));
        fj_store_relaxed(&race.claims[i], 0);
        fj_store_relaxed(&race.cancels[i], 0);
        race.payload[i] = i;
    }
}

static void claim_each(unsigned index, void *unused)
{
    (void)index;
    (void)unused;
    for (unsigned i = 0; i < race.n; i++) {
        if (fj_task_try_claim(&race.tasks[i])) {
            fx_bump(&race.claims[i]);
            race.payload[i]++;
        }
    }
}

/* Of eight threads that claim the same task exactly one succeeds. */
FJ_TEST(task, one_of_many_claimers_wins)
{
    race_prepare();
    fj_test_together(RACERS, claim_each, NULL);
    for (unsigned i = 0; i < race.n; i++) {
        FJ_CHECK_EQ(fx_read(&race.claims[i]), 1);
        FJ_CHECK_EQ(race.payload[i], i + 1);
    }
}

static void claim_or_cancel_each(unsigned index, void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < race.n; i++) {
        if (index % 2 == 0) {
            if (fj_task_try_cancel(&race.tasks[i])) {
                fx_bump(&race.cancels[i]);
            }
        } else if (fj_task_try_claim(&race.tasks[i])) {
            fx_bump(&race.claims[i]);
            FJ_CHECK(complete_normally(&race.tasks[i]));
        }
    }
}

/* A task is either run or cancelled, never both, and its state says which. */
FJ_TEST(task, cancel_and_claim_exclude_each_other)
{
    race_prepare();
    fj_test_together(4, claim_or_cancel_each, NULL);
    for (unsigned i = 0; i < race.n; i++) {
        FJ_CHECK_EQ(fx_read(&race.claims[i]) + fx_read(&race.cancels[i]), 1);
        FJ_CHECK_EQ(fj_task_state(&race.tasks[i]),
                    fx_read(&race.claims[i]) ? FJ_NORMAL : FJ_CANCELLED);
    }
}

/* Thread 0 forks each task, thread 1 runs it, the others read the results; all plainly. */
static void pass_results_on(unsigned index, void *unused)
{
    (void)unused;
    for (unsigned i = 0; i < race.n; i++) {
        fj_task_t *task = &race.tasks[i];
        if (index == 0) {
            race.payload[i] = i;
            FJ_CHECK(queue(task));
        } else if (index == 1) {
            FX_SPIN_UNTIL(fj_task_try_claim(task));
            race.payload[i] *= 2;
            FJ_CHECK(complete_normally(task));
        } else if (index == 2) {
            FX_SPIN_UNTIL(fj_task_is_done(task));
            FJ_CHECK_EQ(race.payload[i], 2 * i);
        } else {
            FJ_CHECK_EQ(fj_task_wait(task, FJ_FOREVER), FJ_OK);
            FJ_CHECK_EQ(race.payload[i], 2 * i);
        }
    }
}

/* The runner sees what the forker wrote, and whoever sees the task done sees its result. */
FJ_TEST(task, results_are_visible_to_whoever_sees_it_done)
{
    race_prepare();
    for (unsigned i = 0; i < race.n; i++) {
        fj_task_init(&race.tasks[i], &fx_task_ops);
    }
    fj_test_together(4, pass_results_on, NULL);
}

/* ---- waiting ---- */

static struct {
    fj_task_t task;
    fj_word_t asleep, timeouts, returned;
    _Atomic(int) spurious;                      /* so many waits return for no reason first */
    _Atomic(int) interrupts;                    /* and then so many at a signal */
} wait;

static fj_os_wait_result_t watched_wait(fj_word_t *word, uint32_t expected, int64_t deadline)
{
    fx_bump(&wait.asleep);
    if (fj_load_relaxed(&wait.spurious) > 0) {
        (void)fj_add_relaxed(&wait.spurious, -1);
        return FJ_WAIT_WOKEN;
    }
    if (fj_load_relaxed(&wait.interrupts) > 0) {
        (void)fj_add_relaxed(&wait.interrupts, -1);
        return FJ_WAIT_INTERRUPTED;
    }
    fj_os_wait_result_t result = fj_os_real_wait(word, expected, deadline);
    if (result == FJ_WAIT_TIMEOUT) {
        fx_bump(&wait.timeouts);
    }
    return result;
}

static void wait_prepare(int spurious, int interrupts)
{
    memset(&wait, 0, sizeof wait);
    fj_task_init(&wait.task, &fx_task_ops);
    wait.spurious = spurious;
    wait.interrupts = interrupts;
    fx_seam_set((fj_os_seam_t){.wait = watched_wait});
}

enum { WAITERS = 4 };

typedef struct ending {
    bool (*end)(fj_task_t *);
} ending_t;

static void four_wait_and_one_ends_it(unsigned index, void *argument)
{
    const ending_t *ending = argument;
    if (index < WAITERS) {
        FJ_CHECK_EQ(fj_task_wait(&wait.task, fj_os_real_now() + FX_PATIENCE), FJ_OK);
        fx_bump(&wait.returned);
    } else {
        FX_AWAIT(&wait.asleep, WAITERS);
        FJ_CHECK(ending->end(&wait.task));
    }
}

static void check_that_it_wakes(bool (*end)(fj_task_t *))
{
    ending_t ending = {end};
    wait_prepare(0, 0);
    fj_test_together(WAITERS + 1, four_wait_and_one_ends_it, &ending);
    FJ_CHECK_EQ(fx_read(&wait.returned), WAITERS);
    FJ_CHECK_EQ(fx_read(&wait.timeouts), 0);
    fx_seam_clear();
}

/* Completing, failing or cancelling a task wakes everybody who waits for it. */
FJ_TEST(task, every_end_wakes_all_waiters)
{
    check_that_it_wakes(complete_normally);
    check_that_it_wakes(fail);
    check_that_it_wakes(fj_task_try_cancel);
}

static void waits_while_it_starts(unsigned index, void *unused)
{
    (void)unused;
    if (index == 0) {
        FJ_CHECK_EQ(fj_task_wait(&wait.task, fj_os_real_now() + FX_PATIENCE), FJ_OK);
    } else {
        FX_AWAIT(&wait.asleep, 1);
        FJ_CHECK(queue(&wait.task));
        FJ_CHECK(fj_task_try_claim(&wait.task));
        fj_task_poke(&wait.task);
        FX_AWAIT(&wait.asleep, 2);              /* it looked, and went back to sleep */
        FJ_CHECK(complete_normally(&wait.task));
    }
}

/* A waiter that is woken early looks again; that somebody waits is not forgotten by a claim. */
FJ_TEST(task, a_waiter_sleeps_on_until_the_task_is_done)
{
    wait_prepare(0, 0);
    fj_test_together(2, waits_while_it_starts, NULL);
    FJ_CHECK_EQ(fx_read(&wait.timeouts), 0);
    fx_seam_clear();
}

/* A wait ends at its deadline, may be repeated, and finds a finished task however late it is. */
FJ_TEST(task, a_wait_ends_at_its_deadline)
{
    wait_prepare(3, 0);
    int64_t deadline = fj_os_real_now() + 5 * FX_MS;
    FJ_CHECK_EQ(fj_task_wait(&wait.task, deadline), FJ_TIMEOUT);
    FJ_CHECK_GE(fj_os_real_now(), deadline);
    FJ_CHECK_EQ(fj_task_wait(&wait.task, 0), FJ_TIMEOUT);
    FJ_CHECK(complete_normally(&wait.task));
    FJ_CHECK_EQ(fj_task_wait(&wait.task, 0), FJ_OK);
    fx_seam_clear();
}

/* A signal ends a wait, which can be taken up again. */
FJ_TEST(task, a_wait_reports_a_signal)
{
    wait_prepare(2, 1);
    FJ_CHECK_EQ(fj_task_wait(&wait.task, FJ_FOREVER), FJ_INTERRUPTED);
    FJ_CHECK_EQ(fx_read(&wait.asleep), 3);
    FJ_CHECK_EQ(fj_task_wait(&wait.task, fj_os_real_now()), FJ_TIMEOUT);
    fx_seam_clear();
}

static fj_os_wait_result_t done_meanwhile(fj_word_t *word, uint32_t expected, int64_t deadline)
{
    (void)word;
    (void)expected;
    (void)deadline;
    FJ_CHECK(complete_normally(&wait.task));
    return FJ_WAIT_INTERRUPTED;
}

/* A signal that comes together with the end does not hide the end. */
FJ_TEST(task, the_end_outweighs_a_signal)
{
    wait_prepare(0, 0);
    fx_seam_set((fj_os_seam_t){.wait = done_meanwhile});
    FJ_CHECK_EQ(fj_task_wait(&wait.task, FJ_FOREVER), FJ_OK);
    fx_seam_clear();
}

/* ---- asking the waiting task to stop ---- */

static struct {
    fj_task_t asked;                            /* on whose behalf somebody waits for wait.task */
    int pokes;
    bool done;
} stop;

/* Asks just before the waiter falls asleep, when it has looked for the last time. */
static fj_os_wait_result_t ask_at_the_last_moment(fj_word_t *word, uint32_t expected,
                                                  int64_t deadline)
{
    if (!stop.done) {
        stop.done = true;
        fj_task_request_stop(&stop.asked);
        for (int i = 0; i < stop.pokes; i++) {
            fj_task_poke(&wait.task);
        }
    }
    return fj_os_real_wait(word, expected, deadline);
}

static fj_status_t wait_and_be_asked(int pokes)
{
    wait_prepare(0, 0);
    fj_task_init(&stop.asked, &fx_task_ops);
    stop.pokes = pokes;
    stop.done = false;
    fx_seam_set((fj_os_seam_t){.wait = ask_at_the_last_moment});
    fj_status_t status
        = fj_task_wait_for(&stop.asked, &wait.task, fj_os_real_now() + 200 * FX_MS);
    fx_seam_clear();
    return status;
}

/* A waiter learns that its own task was asked to stop, however late it is asked before it sleeps. */
FJ_TEST(task, a_request_to_stop_is_not_slept_over)
{
    FJ_CHECK_EQ(wait_and_be_asked(1), FJ_STOPPED);
    FJ_CHECK_EQ(fj_task_state(&wait.task), FJ_NEW);
    FJ_CHECK_EQ(fj_task_wait_for(&stop.asked, &wait.task, FJ_FOREVER), FJ_STOPPED);
    FJ_CHECK_EQ(fj_task_wait(&wait.task, 0), FJ_TIMEOUT);
    FJ_CHECK(complete_normally(&wait.task));
    FJ_CHECK_EQ(fj_task_wait_for(&stop.asked, &wait.task, FJ_FOREVER), FJ_OK);
}

/* Nor if at the same moment others are asked who wait for the same task. */
FJ_TEST(task, several_requests_to_stop_do_not_hide_each_other)
{
    for (int pokes = 2; pokes <= 5; pokes++) {
        FJ_CHECK_EQ(wait_and_be_asked(pokes), FJ_STOPPED);
    }
}

static void is_asked_or_asks(unsigned index, void *unused)
{
    (void)unused;
    if (index == 0) {
        FJ_CHECK_EQ(fj_task_wait_for(&stop.asked, &wait.task, fj_os_real_now() + FX_PATIENCE),
                    FJ_STOPPED);
    } else {
        FX_AWAIT(&wait.asleep, 1);
        fj_task_request_stop(&stop.asked);
        fj_task_poke(&wait.task);
    }
}

/* A request wakes who sleeps already, and leaves the awaited task alone. */
FJ_TEST(task, a_request_to_stop_wakes_the_waiter)
{
    for (int i = 0; i < FJ_TEST_ROUNDS(300); i++) {
        wait_prepare(0, 0);
        (void)fj_or_relaxed(&wait.task.status, OTHERS);
        fj_task_init(&stop.asked, &fx_task_ops);
        fj_test_together(2, is_asked_or_asks, NULL);
        FJ_CHECK_EQ(fx_read(&wait.timeouts), 0);
        FJ_CHECK_EQ(fx_read(&wait.task.status) & OTHERS, OTHERS);
        FJ_CHECK_EQ(fx_read(&wait.task.status) >> FJ_TASK_TAG_SHIFT, 0xbeef);
    }
    fx_seam_clear();
}

/* ---- watching ---- */

static struct {
    fj_task_t task;
    int64_t now, ends_at;
} watched;

/* Each look at the clock takes a microsecond; at some time the task is completed. */
static int64_t clock_of_the_watch(void)
{
    watched.now += 1000;
    if (watched.now == watched.ends_at) {
        FJ_CHECK(complete_normally(&watched.task));
    }
    return watched.now;
}

static bool watch(int64_t ends_at, int64_t deadline)
{
    fj_task_init(&watched.task, NULL);
    watched.now = 0;
    watched.ends_at = ends_at;
    fx_seam_set((fj_os_seam_t){.now = clock_of_the_watch});
    bool seen = fj_task_watch(&watched.task, deadline);
    fx_seam_clear();
    return seen;
}

/* A waiter that watches sees an end that comes soon, gives up after some 20 microseconds, and does
 * not watch beyond its deadline. */
FJ_TEST(task, a_waiter_watches_for_a_short_while)
{
    FJ_CHECK(watch(1000, FJ_FOREVER));
    FJ_CHECK(watch(15000, FJ_FOREVER));
    FJ_CHECK(!watch(50000, FJ_FOREVER));
    FJ_CHECK_LE(watched.now, 25000);
    FJ_CHECK(watch(5000, 8000));
    FJ_CHECK(!watch(15000, 8000));
    FJ_CHECK_EQ(watched.now, 8000);
    FJ_CHECK(!watch(5000, 0));
    FJ_CHECK_LE(watched.now, 2000);
}

/* ---- the task may be gone as soon as it is done ---- */

static struct {
    fj_word_t waiting, reused;
    fj_task_t task;                             /* the waiter's: its frame, say */
} gone;

static fj_os_wait_result_t never_asleep(fj_word_t *word, uint32_t expected, int64_t deadline)
{
    (void)word;
    (void)expected;
    (void)deadline;
    fx_bump(&gone.waiting);
    return FJ_WAIT_WOKEN;
}

static void late_wake(fj_word_t *word, bool all)
{
    FX_AWAIT(&gone.reused, 1);
    fj_os_real_wake(word, all);
}

static void uses_the_memory_again(unsigned index, void *unused)
{
    (void)unused;
    if (index == 0) {
        FJ_CHECK_EQ(fj_task_wait(&gone.task, FJ_FOREVER), FJ_OK);
        memset((void *)&gone.task, 0x5a, sizeof gone.task);
        fx_bump(&gone.reused);
    } else {
        FX_AWAIT(&gone.waiting, 1);
        FJ_CHECK(complete_normally(&gone.task));
    }
}

/* Completion leaves the task alone once it is done: the memory may be another's already. */
FJ_TEST(task, completion_does_not_touch_a_task_that_is_gone)
{
    fj_task_t pattern;
    memset((void *)&gone, 0, sizeof gone);
    memset((void *)&pattern, 0x5a, sizeof pattern);
    fj_task_init(&gone.task, &fx_task_ops);
    fx_seam_set((fj_os_seam_t){.wait = never_asleep, .wake = late_wake});
    fj_test_together(2, uses_the_memory_again, NULL);
    FJ_CHECK_EQ(memcmp((void *)&gone.task, (void *)&pattern, sizeof pattern), 0);
    fx_seam_clear();
}

typedef _Atomic(fj_task_t *) place_t;

static void frees_at_once(unsigned index, void *argument)
{
    place_t *place = argument;
    for (unsigned i = 0, n = FJ_TEST_ROUNDS(5000); i < n; i++) {
        fj_task_t *task;
        if (index == 0) {
            task = malloc(sizeof *task);
            FJ_CHECK(task != NULL);
            fj_task_init(task, &fx_task_ops);
            fj_store_release(place, task);      /* pairs with the load below */
            FJ_CHECK_EQ(fj_task_wait(task, FJ_FOREVER), FJ_OK);
            free(task);
        } else {
            FX_SPIN_UNTIL((task = fj_load_acquire(place)) != NULL);
            fj_store_relaxed(place, NULL);
            FJ_CHECK(complete_normally(task));
        }
    }
}

/* A waiter may free the task as soon as its wait returns. */
FJ_TEST(task, a_waiter_may_free_it_at_once)
{
    place_t place = NULL;
    fj_test_together(2, frees_at_once, &place);
}
