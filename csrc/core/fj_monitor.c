/* fj_monitor.c - one thread a pool, awake only while work is queued behind busy
 * workers. README.rst, Monitor, says why what it takes for blocked is blocked.
 */
#include "fj_monitor.h"

#include "fj_idle.h"
#include "fj_quiesce.h"
#include "fj_registry.h"

enum {
    LOOK_NS = 20000000,              /* from one look to the next, at most */
    SOON_NS = 4000000,               /* and at least */
    LATE_NS = 4000000,               /* a look that comes so late proves nothing */
    STALL_NS = 1000000000,           /* no more stand-ins when nothing was completed for so long */
    GROWTH = 4                       /* stand-ins for each blocked worker while all block */
};

/* What one look has found. */
typedef struct look {
    fj_pool_t *pool;
    int64_t now, before;             /* this look and the one before */
    int64_t next;                    /* when the next one is due */
    bool late;                       /* the monitor itself was held up */
    bool may_mark;                   /* something was completed lately, and there is room */
    bool runs;                       /* some worker computes */
    uint32_t marked;                 /* new ones */
    uint64_t completed;              /* by all workers, ever */
    int64_t progress_at;             /* when that last changed */
    int64_t crowd_at;                /* when some waited where a marked one waits */
} look_t;

static fj_os_thread_t thread_of(fj_worker_t *worker)
{
    int64_t clock = fj_load_relaxed(&worker->thread_clock);
    return (fj_os_thread_t){fj_load_relaxed(&worker->thread_id), clock, clock != INT64_MIN};
}

/* Does a marked worker wait for that word already? A crowd in front of one lock
 * gets one stand-in: more threads would only make it longer. */
static bool is_crowd(fj_pool_t *pool, uintptr_t word)
{
    for (uint32_t i = 0, high = fj_registry_high(pool); word != 0 && i < high; i++) {
        fj_worker_t *other = fj_registry_worker(pool, i);
        if (other->seen_word == word
            && (fj_load_relaxed(&other->activity) & FJ_ACTIVITY_MARKED)) {
            return true;
        }
    }
    return false;
}

/* A new mark takes its place from the credit, so that both together stay within
 * max_unannounced. */
static bool mark(fj_pool_t *pool, fj_worker_t *worker, uint64_t activity)
{
    uint32_t room = pool->config.max_unannounced - fj_load_relaxed(&pool->marked) - 1;
    if (fj_load_relaxed(&pool->credit) > room) {
        fj_idle_set_credit(pool, room);
    }
    return fj_idle_mark(worker, activity);
}

static bool is_own_word(fj_pool_t *pool, uintptr_t word)
{
    bool (*own_word)(uintptr_t) = pool->config.hooks.own_word;
    return word != 0 && own_word != NULL && own_word(word);
}

/* Before more threads than one for one are let in: does somebody who is not
 * marked yet wait for a word? Then it may be a crowd in the making. */
static bool may_be_crowd(fj_pool_t *pool)
{
    for (uint32_t i = 0, high = fj_registry_high(pool); i < high; i++) {
        fj_worker_t *worker = fj_registry_worker(pool, i);
        uint64_t activity = fj_load_acquire(&worker->activity); /* as in look_at */
        if ((activity & (FJ_ACTIVITY_INSIDE | FJ_ACTIVITY_MARKED)) == FJ_ACTIVITY_INSIDE) {
            fj_os_thread_t thread = thread_of(worker);
            uintptr_t word = fj_os_sleeping(&thread).word;
            if (word != 0 && !is_own_word(pool, word)) {
                return true;
            }
        }
    }
    return false;
}

/* Its CPU time has stood still since the look before, and long enough by estimate. If it is asleep now, it was
 * all the time: falling asleep takes CPU time. A starved one would be runnable. */
static void judge(look_t *look, fj_worker_t *worker)
{
    uint64_t activity = worker->seen_activity;
    fj_os_thread_t thread = thread_of(worker);
    fj_os_sleep_t sleep = fj_os_sleeping(&thread);
    if (sleep.asleep && sleep.call < 0
        && look->now - worker->changed_at < look->pool->config.window) {
        return;                      /* may be a word of its own: then wait out the whole window */
    }
    if (!sleep.asleep || is_own_word(look->pool, sleep.word)) {
        worker->asleep_since = look->now;
    } else if (is_crowd(look->pool, sleep.word)) {
        look->crowd_at = look->now;
    } else if (mark(look->pool, worker, activity)) {
        worker->seen_word = sleep.word;
        look->marked++;
    }
}

/* Since when may it have been asleep? It ran for `ran` since the look before, or
 * since its task began, whichever is later; suppose that came first. */
static int64_t estimate(const look_t *look, fj_worker_t *worker, bool same, int64_t ran)
{
    int64_t since = fj_load_relaxed(&worker->since);
    int64_t from = same || since < look->before ? look->before : since;
    return look->late || ran > look->now - from ? look->now : from + ran;
}

static void look_at(look_t *look, fj_worker_t *worker)
{
    /* acquire: its thread's names were written before its first task */
    uint64_t activity = fj_load_acquire(&worker->activity);
    look->completed += fj_load_relaxed(&worker->completed);
    if (!(activity & FJ_ACTIVITY_INSIDE)) {
        worker->seen_activity = activity;
        return;
    }
    fj_os_thread_t thread = thread_of(worker);
    int64_t cpu = fj_os_cpu_time(&thread), window = look->pool->config.window;
    bool same = ((activity ^ worker->seen_activity) & ~(uint64_t)FJ_ACTIVITY_MARKED) == 0;
    bool marked = (activity & FJ_ACTIVITY_MARKED) != 0;
    if (cpu < 0) {
        return;                      /* gone, or the system does not tell */
    }
    int64_t ran = cpu >= worker->seen_cpu ? cpu - worker->seen_cpu : cpu;
    if (!same || ran != 0 || look->late) {
        look->runs = look->runs || (same && ran > (look->now - look->before) / 2);
        worker->asleep_since = estimate(look, worker, same, ran);
        worker->changed_at = look->now;
        worker->seen_activity = activity;
        worker->seen_cpu = cpu;
        if (marked && (!same || ran != 0)) { /* not for being looked at late */
            (void)fj_idle_unmark(worker, activity);
        }
    } else if (!marked && look->now - worker->asleep_since >= window) {
        worker->suspect = true;
        return;
    }
    if (!marked && worker->asleep_since + window < look->next) {
        look->next = worker->asleep_since + window;
    }
}

static void judge_suspects(look_t *look)
{
    fj_pool_t *pool = look->pool;
    for (uint32_t i = 0, high = fj_registry_high(pool); i < high; i++) {
        fj_worker_t *worker = fj_registry_worker(pool, i);
        if (worker->suspect && look->may_mark) {
            judge(look, worker);
            look->may_mark = fj_load_relaxed(&pool->marked) < pool->config.max_unannounced;
        }
        worker->suspect = false;
    }
}

/* One for one at first. While those who stand in block as well, four for one, and
 * at once; as soon as somebody computes or finishes, no more than parallelism. A
 * crowd is not helped by more. */
static uint32_t credit_after(const look_t *look, bool progress, uint32_t before)
{
    uint32_t marked = fj_load_relaxed(&look->pool->marked);
    uint32_t most = look->pool->config.max_unannounced;
    bool crowd = look->crowd_at != 0 && look->now - look->crowd_at < STALL_NS;
    if (look->runs || crowd || progress || marked <= look->marked) {
        return 0;
    }
    if (look->marked == 0) {
        return before;
    }
    if (may_be_crowd(look->pool)) {
        return 0;
    }
    uint32_t more = (GROWTH - 1) * marked, room = most > marked ? most - marked : 0;
    return more < room ? more : room;
}

/* Sleeps until somebody queues behind busy workers. */
static void sleep_until_wanted(fj_pool_t *pool)
{
    uint32_t awake = FJ_MONITOR_AWAKE;
    fj_idle_set_credit(pool, 0);
    /* ASLEEP, then the queues; a publisher pushes, then reads the word. */
    if (!fj_cas_seqcst(&pool->monitor, &awake, FJ_MONITOR_ASLEEP)) {
        return;                      /* ended */
    }
    if (fj_registry_has_work(pool)) {
        uint32_t asleep = FJ_MONITOR_ASLEEP;
        (void)fj_cas_seqcst(&pool->monitor, &asleep, FJ_MONITOR_AWAKE);
        return;
    }
    while (fj_load_acquire(&pool->monitor) == FJ_MONITOR_ASLEEP) { /* pairs with want_monitor */
        (void)fj_os_wait(&pool->monitor, FJ_MONITOR_ASLEEP, FJ_FOREVER);
    }
}

static void take_a_look(look_t *look)
{
    fj_pool_t *pool = look->pool;
    uint64_t completed = look->completed;
    look->runs = false;
    look->marked = 0;
    look->completed = 0;
    look->next = look->now + LOOK_NS;
    look->may_mark = look->now - look->progress_at < STALL_NS
                  && fj_load_relaxed(&pool->marked) < pool->config.max_unannounced;
    for (uint32_t i = 0, high = fj_registry_high(pool); i < high; i++) {
        look_at(look, fj_registry_worker(pool, i));
    }
    judge_suspects(look);
    bool progress = look->completed != completed;
    if (progress || look->runs) {
        look->progress_at = look->now;
    }
    if (look->marked != 0 && look->next > look->now + LOOK_NS / 2) {
        look->next = look->now + LOOK_NS / 2; /* have those who stand in begun? */
    }
    if (look->next < look->now + SOON_NS) {
        look->next = look->now + SOON_NS;
    }
    fj_idle_set_credit(pool, credit_after(look, progress, fj_load_relaxed(&pool->credit)));
}

void fj_monitor_run(fj_pool_t *pool)
{
    look_t look = {.pool = pool};
    bool awake = false;
    fj_os_name_thread("fjpool-monitor");
    while (!fj_quiesce_stopping(pool)) {
        if (!fj_registry_has_work(pool)) {
            sleep_until_wanted(pool);
            awake = false;
        } else if (!awake) {
            awake = look.late = true;    /* nothing is known of the time before */
            look.before = look.now = look.progress_at = fj_os_now();
            take_a_look(&look);
        } else if (fj_os_wait(&pool->monitor, FJ_MONITOR_AWAKE, look.next) == FJ_WAIT_TIMEOUT) {
            look.before = look.now;
            look.now = fj_os_now();
            look.late = look.now - look.next > LATE_NS;
            if (look.late) {             /* such time is nobody's stall */
                look.progress_at += look.now - look.before;
            }
            take_a_look(&look);
        }
    }
}
