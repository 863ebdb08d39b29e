/* task.c - the status word of a task: one claim, one end, and nobody sleeps through it.
 *
 * Sleeping is the futex that stands behind fj_os_wait, so a wake-up that is lost is a
 * thread that can never go on.
 */
#include "fj_task.h"

static const fj_task_ops_t ops = {NULL, NULL, NULL, false};

static struct scene {
    fj_task_t task, waiting;
    uint32_t value;                      /* the result: plain memory */
    uint8_t claims, cancels, ends;
} *s;

static void setup_in(fj_state_t state)
{
    s = xp_alloc(sizeof *s);
    fj_task_init(&s->task, &ops);
    fj_task_init(&s->waiting, &ops);
    s->task.status = state;
    s->waiting.status = FJ_RUNNING;
}

static void running(void)
{
    setup_in(FJ_RUNNING);
}

static void queued(void)
{
    setup_in(FJ_QUEUED);
}

static void complete(void)
{
    if (s->value == 0) {
        s->value = 7;
    }
    s->ends += fj_task_complete(&s->task, FJ_NORMAL);
}

static void await(void)
{
    XP_CHECK(fj_task_wait(&s->task, FJ_FOREVER) == FJ_OK);
    XP_CHECK(fj_task_is_done(&s->task) && s->value == 7);
}

static void await_unless_stopped(void)
{
    fj_status_t status = fj_task_wait_for(&s->waiting, &s->task, FJ_FOREVER);
    XP_CHECK(status == FJ_STOPPED || (status == FJ_OK && fj_task_is_done(&s->task)));
}

static void stop(void)
{
    fj_task_request_stop(&s->waiting);
    fj_task_poke(&s->task);
}

static void claim_and_complete(void)
{
    if (fj_task_try_claim(&s->task)) {
        s->claims++;
        complete();
    }
}

static void cancel(void)
{
    if (fj_task_try_cancel(&s->task)) {
        s->cancels++;
        s->value = 7;
    }
}

static void await_any_end(void)
{
    XP_CHECK(fj_task_wait(&s->task, FJ_FOREVER) == FJ_OK);
}

static void one_end(void)
{
    XP_CHECK(s->claims + s->cancels == 1 && s->ends == s->claims);
}

const xp_scenario_t xp_task[] = {
    {.name = "task.completion_wakes_a_waiter", .setup = running, .threads = {complete, await}},
    {.name = "task.completion_wakes_two_waiters", .setup = running,
     .threads = {complete, await, await}},
    {.name = "task.a_stop_wakes_a_waiter", .setup = running,
     .threads = {stop, await_unless_stopped}},
    {.name = "task.two_stops_wake_a_waiter", .setup = running,
     .threads = {stop, await_unless_stopped, stop}},
    {.name = "task.a_stop_beside_the_completion", .setup = running,
     .threads = {stop, await_unless_stopped, complete}},
    {.name = "task.one_claim", .setup = queued,
     .threads = {claim_and_complete, claim_and_complete, cancel}, .end = one_end},
    {.name = "task.cancelling_wakes_a_waiter", .setup = queued,
     .threads = {claim_and_complete, await_any_end, cancel}, .end = one_end},
    {.name = NULL},
};
