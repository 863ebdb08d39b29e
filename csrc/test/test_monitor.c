/* test_monitor.c - finding workers that block without saying so.
 *
 * The monitor sees the world through fj_os_seam. Here the world is made up: how much CPU time each
 * worker has used, whether it is asleep and on which word, and what time it is. The clock moves
 * only from one look of the monitor to the next, and only when the test lets it look. So "within
 * the window" and "for a second" are exact, and cost nothing.
 */
#include "fixture.h"

#include <sched.h>
#include <string.h>

#include "fj_idle.h"
#include "fj_registry.h"

/* ---- the world ---- */

enum { PLACES = 128, FOREIGN_CALL = 7 };

/* What a worker seems to do. */
typedef enum seems {
    COMPUTES,                 /* uses all the CPU time there is */
    SLEEPS,                   /* asleep, uses none */
    SLEEPS_UNKNOWN,           /* the same, but the system does not tell in which call */
    STARVES,                  /* runnable, but gets none */
    STIRS,                    /* asleep now, and ran a little since the last look */
    GONE                      /* nothing is known of it */
} seems_t;

typedef struct place {
    _Atomic(seems_t) seems;
    _Atomic(uintptr_t) word;  /* what it sleeps on */
    int64_t cpu, asked_at;    /* monitor */
} place_t;

static struct {
    fj_pool_t *pool;
    bool frantic;             /* looks follow each other at once, and nothing is certain */
    _Atomic(int64_t) now;
    _Atomic(int64_t) late_by; /* by how much each look is late */
    fj_word_t granted, looks; /* looks allowed, looks begun */
    fj_word_t arrived;        /* times the monitor has come to wait for its next look */
    uint64_t random;          /* monitor */
    place_t places[PLACES];
} world;

static _Thread_local bool is_monitor;

static void run_monitor(void *pool)
{
    is_monitor = true;
    world.pool->monitor_main(pool);
}

static int world_thread_start(void (*body)(void *), void *argument, size_t stack_size)
{
    bool monitor = body == world.pool->monitor_main;
    return fx_thread_start(monitor ? run_monitor : body, argument, stack_size);
}

static int64_t world_now(void)
{
    return is_monitor ? fj_load_relaxed(&world.now) : fj_os_real_now();
}

/* NULL: that thread has left, and another has its place. */
static place_t *place_of(const fj_os_thread_t *thread)
{
    for (uint32_t i = 0; i < fj_registry_high(world.pool); i++) {
        if (fj_load_relaxed(&fj_registry_worker(world.pool, i)->thread_id) == thread->id) {
            FJ_CHECK_LT(i, PLACES);
            return &world.places[i];
        }
    }
    return NULL;
}

static int64_t world_cpu_time(const fj_os_thread_t *thread)
{
    FJ_CHECK(is_monitor);
    place_t *place = place_of(thread);
    int64_t now = fj_load_relaxed(&world.now);
    seems_t seems = place != NULL ? fj_load_relaxed(&place->seems) : GONE;
    if (world.frantic && place != NULL) {
        seems = fj_test_random(&world.random) % 4 == 0 ? COMPUTES : SLEEPS;
    }
    if (seems == GONE) {
        return -1;
    }
    place->cpu += seems == COMPUTES ? now - place->asked_at + 1 : seems == STIRS ? 5000 : 0;
    place->asked_at = now;
    return place->cpu;
}

static fj_os_sleep_t world_sleeping(const fj_os_thread_t *thread)
{
    FJ_CHECK(is_monitor);
    place_t *place = place_of(thread);
    if (place == NULL) {
        return (fj_os_sleep_t){false, -1, 0};
    }
    seems_t seems = fj_load_relaxed(&place->seems);
    if (!world.frantic && (seems == COMPUTES || seems == STARVES || seems == GONE)) {
        return (fj_os_sleep_t){false, -1, 0};
    }
    return (fj_os_sleep_t){true, seems == SLEEPS_UNKNOWN ? -1 : FOREIGN_CALL,
                           fj_load_relaxed(&place->word)};
}

/* The monitor waits for its next look, which comes when the test says so. */
static fj_os_wait_result_t world_wait(fj_word_t *word, uint32_t expected, int64_t deadline)
{
    if (!is_monitor || word != &world.pool->monitor || deadline == FJ_FOREVER) {
        return fj_os_real_wait(word, expected, deadline);
    }
    int64_t ahead = deadline - fj_load_relaxed(&world.now);
    FJ_CHECK_LE(ahead, 20 * FX_MS);             /* so that a sleeper is found soon */
    FJ_CHECK_GE(ahead, 4 * FX_MS);              /* so that looking costs little */
    if (world.frantic) {
        fj_store_relaxed(&world.now, deadline);
        return fj_load_acquire(word) != expected ? FJ_WAIT_WOKEN : FJ_WAIT_TIMEOUT;
    }
    fx_bump(&world.arrived);
    while (fx_read(&world.granted) == fx_read(&world.looks)) {
        int64_t soon = fj_os_real_now() + FX_MS / 10;
        if (fj_os_real_wait(word, expected, soon) != FJ_WAIT_TIMEOUT
            && fj_load_acquire(word) != expected) {
            return FJ_WAIT_WOKEN;               /* the pool ends */
        }
    }
    if (fj_load_acquire(word) != expected) {
        return FJ_WAIT_WOKEN;
    }
    fj_store_relaxed(&world.now, deadline + fj_load_relaxed(&world.late_by));
    fx_bump(&world.looks);
    return FJ_WAIT_TIMEOUT;
}

static bool is_interpreters_word(uintptr_t word)
{
    return word == 1;
}

/* A pool whose monitor looks at the world. */
static fj_pool_t *world_pool(fj_config_t config)
{
    memset(&world, 0, sizeof world);
    fj_store_relaxed(&world.now, fj_os_real_now());
    world.random = fj_test_seed() | 1;
    config.monitor = true;
    config.hooks.own_word = is_interpreters_word;
    world.pool = fx_pool(&config);
    fx_seam_set((fj_os_seam_t){.thread_start = world_thread_start, .now = world_now,
                               .wait = world_wait, .cpu_time = world_cpu_time,
                               .sleeping = world_sleeping});
    return world.pool;
}

static fj_pool_t *world_of(uint32_t parallelism)
{
    return world_pool(fx_config(parallelism));
}

static void world_end(void)
{
    fx_pool_await_quiet(world.pool);
    FX_UNTIL(fj_pool_stats(world.pool).unannounced == 0);
    FJ_CHECK_EQ(fj_pool_stats(world.pool).active, 0);
    FJ_CHECK_EQ(fj_pool_stats(world.pool).blocked, 0);
    fx_pool_end(world.pool);
    fx_seam_clear();
}

static bool monitor_waits(void)
{
    uint32_t state = fj_load_acquire(&world.pool->monitor);
    return state != FJ_MONITOR_AWAKE || fx_read(&world.arrived) > fx_read(&world.looks);
}

/* Lets the monitor look once and waits until it has. Returns what time it was then. */
static int64_t look(void)
{
    FX_UNTIL(monitor_waits());
    if (fj_load_acquire(&world.pool->monitor) == FJ_MONITOR_AWAKE) {
        fx_bump(&world.granted);
        FX_UNTIL(fx_read(&world.looks) == fx_read(&world.granted) && monitor_waits());
    }
    return fj_load_relaxed(&world.now);
}

static uint32_t marked(void)
{
    return fj_pool_stats(world.pool).unannounced;
}

static uint32_t size(void)
{
    return fj_pool_stats(world.pool).pool_size;
}

static uint64_t detections(void)
{
    return fj_pool_stats(world.pool).detections;
}

/* ---- tasks ---- */

/* A task that seems to do something until it is told to end. */
typedef struct act {
    fx_task_t task;
    seems_t seems;
    uintptr_t word;
    fj_word_t begun, end;
} act_t;

static void play(fx_task_t *task, fj_worker_t *worker)
{
    act_t *act = task->argument;
    FJ_CHECK_LT(worker->index, PLACES);
    place_t *place = &world.places[worker->index];
    fj_store_relaxed(&place->word, act->word);
    fj_store_relaxed(&place->seems, act->seems);
    fx_bump(&act->begun);
    FX_AWAIT(&act->end, 1);
    fj_store_relaxed(&place->seems, COMPUTES);
}

static void act_start(act_t *act, seems_t seems, uintptr_t word)
{
    *act = (act_t){.seems = seems, .word = word};
    fx_start(world.pool, &act->task, play, act);
}

static void act_end(act_t *act)
{
    fx_bump(&act->end);
    fx_finish(&act->task);
}

/* How many of them have begun. */
static uint32_t begun(act_t *acts, uint32_t n)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++) {
        count += fx_read(&acts[i].begun);
    }
    return count;
}

static void start_all(act_t *acts, uint32_t n, seems_t seems)
{
    for (uint32_t i = 0; i < n; i++) {
        act_start(&acts[i], seems, 0);
    }
}

static void end_all(act_t *acts, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        fx_bump(&acts[i].end);
    }
    for (uint32_t i = 0; i < n; i++) {
        fx_finish(&acts[i].task);
    }
}

/* One worker, in a task that seems to do something; one more task that waits behind it. */
typedef struct pair {
    act_t first, queued;
} pair_t;

static void pair_start(pair_t *pair, seems_t seems, uintptr_t word)
{
    act_start(&pair->first, seems, word);
    FX_AWAIT(&pair->first.begun, 1);
    act_start(&pair->queued, COMPUTES, 0);
    FX_UNTIL(monitor_waits());
}

static void pair_end(pair_t *pair)
{
    end_all(&pair->first, 1);
    end_all(&pair->queued, 1);
}

/* ---- who is blocked ---- */

/* A worker that has slept for the window is found at the look that comes then, and replaced. */
FJ_TEST(monitor, finds_a_sleeper_after_the_window)
{
    fj_pool_t *pool = world_of(1);
    pair_t pair;
    pair_start(&pair, SLEEPS, 0);
    int64_t begin = fj_load_relaxed(&world.now), found;
    FJ_CHECK_EQ(marked(), 0);
    do {
        found = look();
    } while (marked() == 0 && found - begin < 1000 * FX_MS);
    FJ_CHECK_GE(found - begin, pool->config.window);
    FJ_CHECK_LE(found - begin, 25 * FX_MS);
    FX_AWAIT(&pair.queued.begun, 1);
    FJ_CHECK_EQ(size(), 2);
    FJ_CHECK_EQ(fj_pool_stats(pool).active, 1);
    pair_end(&pair);
    FJ_CHECK_EQ(detections(), 1);
    world_end();
}

/* A longer window is waited out just as exactly. */
FJ_TEST(monitor, finds_a_sleeper_after_a_longer_window)
{
    fj_config_t config = fx_config(1);
    config.window = 130 * FX_MS;
    world_pool(config);
    pair_t pair;
    pair_start(&pair, SLEEPS, 0);
    int64_t begin = fj_load_relaxed(&world.now), found;
    do {
        found = look();
    } while (marked() == 0 && found - begin < 1000 * FX_MS);
    FJ_CHECK_GE(found - begin, 130 * FX_MS);
    FJ_CHECK_LE(found - begin, 135 * FX_MS);
    FX_AWAIT(&pair.queued.begun, 1);
    pair_end(&pair);
    world_end();
}

/* A worker that begins to sleep between two looks is found within 25 ms of that. */
FJ_TEST(monitor, finds_who_falls_asleep_later)
{
    world_of(1);
    pair_t pair;
    pair_start(&pair, COMPUTES, 0);
    for (int i = 0; i < 20; i++) {
        (void)look();
    }
    FJ_CHECK_EQ(detections(), 0);
    int64_t begin = fj_load_relaxed(&world.now), found;
    fj_store_relaxed(&world.places[0].seems, SLEEPS);
    do {
        found = look();
    } while (marked() == 0 && found - begin < 1000 * FX_MS);
    FJ_CHECK_LE(found - begin, 25 * FX_MS);
    FX_AWAIT(&pair.queued.begun, 1);
    pair_end(&pair);
    world_end();
}

static void is_never_found(seems_t seems, uintptr_t word)
{
    world_of(1);
    pair_t pair;
    pair_start(&pair, seems, word);
    for (int i = 0; i < 100; i++) {
        (void)look();
    }
    FJ_CHECK_EQ(detections(), 0);
    FJ_CHECK_EQ(size(), 1);
    FJ_CHECK_EQ(fx_read(&pair.queued.begun), 0);
    pair_end(&pair);
    world_end();
}

/* Not blocked: who computes; who could run and gets no CPU; who sleeps and stirs in between; who
 * waits for the interpreter's own lock; of whom nothing is known. */
FJ_TEST(monitor, does_not_mistake_who_is_not_blocked)
{
    is_never_found(COMPUTES, 0);
    is_never_found(STARVES, 0);
    is_never_found(STIRS, 0);
    is_never_found(SLEEPS, 1);
    is_never_found(GONE, 0);
}

/* Where the system does not tell what a sleeper waits for, the whole window must be proven. */
FJ_TEST(monitor, waits_longer_for_an_unknown_call)
{
    world_of(1);
    pair_t pair;
    pair_start(&pair, COMPUTES, 0);
    (void)look();
    int64_t begin = look(), found;
    fj_store_relaxed(&world.places[0].seems, SLEEPS_UNKNOWN);
    do {
        found = look();
    } while (marked() == 0 && found - begin < 1000 * FX_MS);
    FJ_CHECK_GE(found - begin, 20 * FX_MS);
    FJ_CHECK_LE(found - begin, 45 * FX_MS);
    FX_AWAIT(&pair.queued.begun, 1);
    pair_end(&pair);
    world_end();
}

/* A look that comes late proves nothing, and neither does a clock that jumps: the monitor itself
 * may have been starved, and then so may the others. */
FJ_TEST(monitor, believes_no_look_that_is_late)
{
    world_of(1);
    pair_t pair;
    pair_start(&pair, SLEEPS, 0);
    fj_store_relaxed(&world.late_by, 5 * FX_MS);
    for (int i = 0; i < 50; i++) {
        (void)look();
    }
    fj_store_relaxed(&world.late_by, 3600 * 1000 * FX_MS);
    for (int i = 0; i < 3; i++) {
        (void)look();
    }
    FJ_CHECK_EQ(detections(), 0);
    pair_end(&pair);
    world_end();
}

/* However long a worker has computed before, and however long nothing was completed: once it
 * sleeps, it is found. */
FJ_TEST(monitor, finds_who_sleeps_after_a_long_computation)
{
    world_of(1);
    pair_t pair;
    pair_start(&pair, COMPUTES, 0);
    int64_t begin = fj_load_relaxed(&world.now);
    while (fj_load_relaxed(&world.now) - begin < 3000 * FX_MS) {
        (void)look();
    }
    fj_store_relaxed(&world.places[0].seems, SLEEPS);
    begin = fj_load_relaxed(&world.now);
    while (marked() == 0 && look() - begin < 100 * FX_MS) {
    }
    FJ_CHECK_EQ(marked(), 1);
    FX_AWAIT(&pair.queued.begun, 1);
    pair_end(&pair);
    world_end();
}

/* Whoever runs again is no longer taken for blocked, although its task goes on. */
FJ_TEST(monitor, takes_back_who_runs_again)
{
    fj_pool_t *pool = world_of(1);
    pair_t pair;
    act_t third;
    pair_start(&pair, SLEEPS, 0);
    while (marked() == 0) {
        (void)look();
    }
    FX_AWAIT(&pair.queued.begun, 1);
    act_start(&third, COMPUTES, 0);              /* keeps the monitor awake */
    fj_store_relaxed(&world.places[0].seems, COMPUTES);
    (void)look();
    (void)look();
    FJ_CHECK_EQ(marked(), 0);
    FJ_CHECK_EQ(fj_pool_stats(pool).active, 2);
    FJ_CHECK_EQ(fj_pool_stats(pool).blocked, 0);
    FJ_CHECK_EQ(fx_read(&third.begun), 0);       /* two run, and one should */
    act_end(&pair.queued);
    FX_UNTIL(fj_pool_stats(pool).active == 1);
    FJ_CHECK_EQ(fx_read(&third.begun), 0);       /* the first one still does */
    act_end(&pair.first);
    act_end(&third);
    FJ_CHECK_EQ(detections(), 1);
    world_end();
}

/* ---- how many stand in ---- */

enum { CROWD = 120, MOST = 64 };

static fj_pool_t *roomy_world_of_two(void)
{
    fj_config_t config = fx_config(2);
    config.max_workers = 2 * CROWD;
    return world_pool(config);
}

/* While those who stand in block as well, four come for each, so that 66 sleepers, as many as two
 * workers and 64 unannounced spares allow, sleep at once after a few looks; and no more. */
FJ_TEST(monitor, grows_fourfold_while_all_sleep)
{
    static act_t acts[CROWD];
    fj_pool_t *pool = roomy_world_of_two();
    start_all(acts, CROWD, SLEEPS);
    FX_UNTIL(begun(acts, CROWD) == 2);
    int64_t begin = fj_load_relaxed(&world.now), now;
    FJ_CHECK_EQ(size(), 2);
    do {
        now = look();
        FX_UNTIL(begun(acts, CROWD) == size());  /* each thread has a task of its own */
    } while (size() < 2 + MOST && now - begin < 1000 * FX_MS);
    FJ_CHECK_LE(now - begin, 120 * FX_MS);
    for (int i = 0; i < 20; i++) {
        (void)look();
    }
    FJ_CHECK_EQ(size(), 2 + MOST);
    FJ_CHECK_LE(marked(), MOST);
    end_all(acts, CROWD);
    FX_UNTIL(fj_load_relaxed(&pool->credit) == 0);
    world_end();
}

/* One stands in for one, at most max_unannounced in all, and never more threads than max_workers. */
FJ_TEST(monitor, respects_both_limits)
{
    enum { TASKS = 20 };
    static const struct {
        uint32_t max_unannounced, max_workers, threads;
    } rows[] = {{0, 66, 2}, {3, 66, 5}, {64, 7, 7}, {64, 2, 2}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        act_t acts[TASKS];
        fj_config_t config = fx_config(2);
        config.max_unannounced = rows[i].max_unannounced;
        config.max_workers = rows[i].max_workers;
        world_pool(config);
        start_all(acts, TASKS, SLEEPS);
        FX_UNTIL(begun(acts, TASKS) == 2);
        for (int k = 0; k < 30; k++) {
            (void)look();
            FJ_CHECK_LE(marked(), rows[i].max_unannounced);
            FX_UNTIL(begun(acts, TASKS) == size());  /* who has just come is asleep as well */
        }
        FJ_CHECK_EQ(size(), rows[i].threads);
        FX_UNTIL(begun(acts, TASKS) == rows[i].threads);
        end_all(acts, TASKS);
        world_end();
    }
}

/* Workers that wait for one word are a crowd in front of one lock: it counts once, since more
 * threads would only make it longer. */
FJ_TEST(monitor, a_crowd_counts_once)
{
    enum { TASKS = 20, LOCKS = 3 };
    for (uint32_t locks = 1; locks <= LOCKS; locks++) {
        act_t acts[TASKS];
        world_of(2);
        for (uint32_t i = 0; i < TASKS; i++) {
            act_start(&acts[i], SLEEPS, 1000 + i % locks);
        }
        FX_UNTIL(begun(acts, TASKS) == 2);
        for (int k = 0; k < 45; k++) {
            (void)look();
            FX_UNTIL(begun(acts, TASKS) == size());  /* so that each stands before its lock */
        }
        FJ_CHECK_EQ(marked(), locks);
        FJ_CHECK_LE(size(), 2 + locks);
        end_all(acts, TASKS);
        FJ_CHECK_LE(fx_read(&fx_watch(world.pool)->peak), 2 + locks);
        world_end();
    }
}

/* What was let in beyond one for one is taken back as soon as somebody computes. */
FJ_TEST(monitor, progress_ends_the_credit)
{
    static act_t acts[CROWD];
    fj_pool_t *pool = roomy_world_of_two();
    start_all(acts, CROWD, SLEEPS);
    FX_UNTIL(begun(acts, CROWD) == 2);
    while (fj_load_relaxed(&pool->credit) == 0) {
        (void)look();
        FX_UNTIL(begun(acts, CROWD) == size());
    }
    FJ_CHECK_LE(fj_load_relaxed(&pool->credit), MOST);
    uint32_t grown = size();
    for (uint32_t i = 0; i < grown; i++) {
        fj_store_relaxed(&world.places[i].seems, COMPUTES);
    }
    (void)look();
    (void)look();
    FJ_CHECK_EQ(fj_load_relaxed(&pool->credit), 0);
    FJ_CHECK_EQ(marked(), 0);
    FJ_CHECK_EQ(size(), grown);
    FJ_CHECK_EQ(begun(acts, CROWD), grown);      /* more than two run: nobody takes another */
    end_all(acts, CROWD);
    world_end();
}

/* ---- its life ---- */

/* There is no monitor before something is queued behind busy workers, and it sleeps as soon as
 * nothing is. */
FJ_TEST(monitor, sleeps_while_nothing_is_queued)
{
    fj_pool_t *pool = world_of(2);
    act_t first, second, third;
    act_start(&first, SLEEPS, 0);
    FX_AWAIT(&first.begun, 1);
    act_start(&second, COMPUTES, 0);
    FX_AWAIT(&second.begun, 1);
    FJ_CHECK(!fj_pool_stats(pool).monitor);
    for (int i = 0; i < 20; i++) {
        act_start(&third, COMPUTES, 0);
        FJ_CHECK(fj_pool_stats(pool).monitor);
        while (fx_read(&third.begun) == 0) {
            (void)look();
        }
        (void)look();
        FX_UNTIL(fj_load_acquire(&pool->monitor) == FJ_MONITOR_ASLEEP);
        act_end(&third);
    }
    FJ_CHECK_EQ(detections(), 1);                /* the first one is still at it */
    act_end(&second);
    act_end(&first);
    world_end();
}

/* A monitor that the system refuses is asked for again; the pool works without. */
FJ_TEST(monitor, a_refused_one_is_asked_for_again)
{
    fj_pool_t *pool = world_of(1);
    act_t first, queued[3];
    act_start(&first, SLEEPS, 0);
    FX_AWAIT(&first.begun, 1);
    fx_refuse_all = true;
    for (int i = 0; i < 2; i++) {
        act_start(&queued[i], COMPUTES, 0);
        FJ_CHECK(!fj_pool_stats(pool).monitor);
    }
    fx_refuse_all = false;
    act_start(&queued[2], COMPUTES, 0);
    FJ_CHECK(fj_pool_stats(pool).monitor);
    while (marked() == 0) {
        (void)look();
    }
    FX_AWAIT(&queued[0].begun, 1);
    end_all(queued, 3);
    act_end(&first);
    world_end();
}

/* A stand-in that the system refuses undoes what was counted; the next look does better. */
FJ_TEST(monitor, a_refused_stand_in_leaves_the_counts_right)
{
    fj_pool_t *pool = world_of(1);
    pair_t pair;
    pair_start(&pair, SLEEPS, 0);
    fx_refuse_all = true;
    while (marked() == 0) {
        (void)look();
    }
    FJ_CHECK_EQ(fj_pool_stats(pool).refused, 1);
    FJ_CHECK_EQ(fj_pool_stats(pool).active, 0);
    FJ_CHECK_EQ(size(), 1);
    FJ_CHECK_EQ(fx_read(&pair.queued.begun), 0);
    fx_refuse_all = false;
    fx_task_t next;
    fx_start(pool, &next, NULL, NULL);           /* asks again */
    FX_AWAIT(&pair.queued.begun, 1);
    pair_end(&pair);
    fx_finish(&next);
    world_end();
}

/* A pool that is stopped while workers are marked ends like any other. */
FJ_TEST(monitor, a_stop_ends_it_wherever_it_is)
{
    for (int looks = 0; looks < 5; looks++) {
        fj_pool_t *pool = world_of(1);
        act_t acts[3];
        start_all(acts, 3, SLEEPS);
        FX_AWAIT(&acts[0].begun, 1);
        for (int i = 0; i < looks; i++) {
            (void)look();
        }
        fj_pool_stop(pool);
        for (int i = 0; i < 3; i++) {
            fx_bump(&acts[i].end);
        }
        fx_pool_await_end(pool);
        FJ_CHECK(!fj_pool_stats(pool).monitor);
        FJ_CHECK_EQ(marked(), 0);
        fx_pool_release(pool);
        fx_seam_clear();
    }
}

/* ---- at once ---- */

static void naps_or_not(fx_task_t *task, fj_worker_t *worker)
{
    uint64_t random = (uint64_t)(uintptr_t)task ^ fj_test_seed() ^ worker->random;
    switch (fj_test_random(&random) % 8) {
    case 0:
        fx_nap();
        break;
    case 1:
        fj_block_begin(worker);
        (void)sched_yield();
        fj_block_end(worker);
        break;
    case 2: case 3: case 4:
        (void)sched_yield();
        break;
    default:
        break;
    }
}

enum { AT_ONCE = 4 };

/* Hands it in; again if the system refuses the first thread. */
static void start_surely(fx_task_t *task)
{
    fx_task_init(task, naps_or_not, NULL);
    while (fx_submit(world.pool, task) != FJ_OK) {
        FJ_CHECK(fj_task_try_unqueue(&task->task));
        fx_nap();
    }
}

static void run_some_and_wait(unsigned index, void *unused)
{
    (void)index;
    (void)unused;
    fx_task_t tasks[AT_ONCE];
    for (int i = 0; i < FJ_TEST_ROUNDS(100); i++) {
        for (int k = 0; k < AT_ONCE; k++) {
            start_surely(&tasks[k]);
        }
        for (int k = 0; k < AT_ONCE; k++) {
            fx_finish(&tasks[k]);
        }
    }
}

/* A monitor that looks without pause, and takes workers for blocked and for running at random,
 * while they begin and end tasks and blocks: the counts are right in the end, and nobody is left
 * asleep; not a worker that has work, no submitter, not whoever waits for quiescence. */
static void race(fj_config_t config)
{
    world_pool(config);
    world.frantic = true;
    fj_test_together(2, run_some_and_wait, NULL);
    /* On a busy machine the monitor may not get to run for a while. */
    for (int i = 0; i < FJ_TEST_ROUNDS(500) || (i < 100000 && detections() == 0); i++) {
        fx_task_t tasks[AT_ONCE];
        for (int k = 0; k < AT_ONCE; k++) {
            start_surely(&tasks[k]);
        }
        fx_pool_await_quiet(world.pool);
    }
    FJ_CHECK_GE(detections(), 1);
    fx_refuse_every = 0;
    world_end();
}

FJ_TEST(monitor, marks_race_with_the_ends_of_tasks)
{
    for (uint32_t parallelism = 1; parallelism <= 3; parallelism++) {
        fj_config_t config = fx_config(parallelism);
        config.max_workers = parallelism + 3;
        race(config);
    }
}

/* The same while every k-th thread is refused, its own included, and idle ones leave at once. */
FJ_TEST(monitor, marks_race_with_refused_threads)
{
    for (uint32_t every = 2; every <= 4; every++) {
        fj_config_t config = fx_config(2);
        config.keep_alive = FX_MS;
        fx_refuse_every = every;
        race(config);
    }
}
