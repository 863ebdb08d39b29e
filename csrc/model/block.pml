/* block.pml - blocking, compensation and joins: fj_idle_block_begin and _end, and sleep and at_limit
 * in fj_join.c.
 *
 * PARENTS tasks each push a child and join it, where nesting is not allowed (may_nest), so a joiner
 * always sleeps; BLOCKERS tasks each block for a while, announced. All are handed in at once.
 *
 * Checked: whenever nothing moves any more, every task is done and all counts are back at zero, so
 * nobody waits for ever; and FJ_STARVED is told only when every thread of the pool waits for a task
 * that is not done, hence to one of those that wait for each other, not to several. (A thread
 * outside may begin to run such a task while somebody looks; then it may be told all the same.)
 */
#ifndef WORKERS
#define WORKERS 2      /* places and max_workers */
#endif
#ifndef PARALLELISM
#define PARALLELISM 1
#endif
#ifndef MIN_RUNNABLE
#define MIN_RUNNABLE PARALLELISM
#endif
#ifndef PARENTS
#define PARENTS 2
#endif
#ifndef BLOCKERS
#define BLOCKERS 0
#endif
#ifndef OUTSIDERS
#define OUTSIDERS 0    /* 1: a thread outside may run a child that is queued (fj_run_outside) */
#endif

/* Sets of tasks: the parents, then the blockers, then the parents' children. */
#define TASKS (PARENTS + BLOCKERS)
#define is_parent(t) ((t) < 1 << PARENTS)
#define is_blocker(t) ((t) >= 1 << PARENTS && (t) < 1 << TASKS)
#define child_of(t) ((t) << TASKS)

byte lane = 0;
byte done = 0;
byte taken = 0;
byte blocked = 0;
byte outside = 0;                          /* what a thread outside runs */
byte awaits[WORKERS + 1];
byte outside_late = 0;                     /* of that, what somebody in is_starved may miss */
bit lock = 0;                              /* the registry's, for awaits */

#define queued lane
inline has_work()
{
    found = (lane != 0)
}

#define REFUSALS 0
#define me (_pid)
#define stopping 0
#define thread_exists() skip
#define thread_gone() skip
#include "protocol.pml"

active proctype publisher()
{
    LOCALS;
    lane = (1 << TASKS) - 1;
    signal()
}

/* count_out and count_in in fj_idle.c */
inline count_out()
{
    blocked++;
    atomic { change(-1, 0, SEARCHING(ctl), TOP(ctl)) }
}

inline count_in()
{
    atomic { change(1, 0, SEARCHING(ctl), TOP(ctl)) }
    blocked--
}

/* fj_idle_block_begin; the result is in `status`. */
inline block_begin()
{
    count_out();
#ifdef NO_LOOK_AFTER_BLOCK
    status = OK
#else
    look_again()
#endif
}

/* set_awaits in fj_join.c */
inline set_awaits(which)
{
    atomic { !lock -> awaits[me] = which }
}

/* One look of is_starved, at the task that the worker at a place awaits. */
#ifdef NO_LOOK_AT_TASK
#define is_stuck(p) (awaits[p] != 0)
#elif defined(NO_LOOK_OUTSIDE)
#define is_stuck(p) (awaits[p] != 0 && !(awaits[p] & done))
#else
#define is_stuck(p) (awaits[p] != 0 && !(awaits[p] & (done | outside)))
#endif

/* What must hold for each place when somebody is told. */
#define waits(p) \
    (place[p] == FREE || (awaits[p] != 0 && !(awaits[p] & ~outside_late & (done | outside))))

/* is_starved in fj_join.c, called by at_limit; the result is in `starved`. */
inline is_starved()
{
    atomic { !lock -> lock = 1 }
    count = 4 + ACTIVE(ctl) * 4 - TOTAL(ctl); /* 4 if all are stuck and nobody is active */
    count = count + is_stuck(1);
#if WORKERS > 1
    count = count + is_stuck(2);
#endif
#if WORKERS > 2
    count = count + is_stuck(3);
#endif
    atomic {
        if
        :: count == 4 ->
           assert(waits(1));
#if WORKERS > 1
           assert(waits(2));
#endif
#if WORKERS > 2
           assert(waits(3));
#endif
           starved = 1;
           awaits[me] = 0
        :: else
        fi;
        count = 0;
        outside_late = 0;
        lock = 0
    }
}

/* sleep in fj_join.c */
inline join(which)
{
    if
    :: done & (which)
    :: else ->
#ifndef AWAITS_LATE
       set_awaits(which);
#endif
       block_begin();
#ifdef AWAITS_LATE
       set_awaits(which);
#endif
       if
       :: atomic { status == AT_LIMIT -> status = OK }
          is_starved()
       :: else
       fi;
       if
       :: !starved -> done & (which)       /* fj_task_wait_for */
       :: else -> starved = 0
       fi;
       count_in();
       set_awaits(0)
    fi
}

inline take()
{
    atomic {
        if
        :: lane == 0
        :: lane & 1 -> task = 1
        :: lane & 2 -> task = 2
        :: lane & 4 -> task = 4
        :: lane & 8 -> task = 8
        :: lane & 16 -> task = 16
        :: lane & 32 -> task = 32
        :: lane & 64 -> task = 64
        :: lane & 128 -> task = 128
        fi;
        lane = lane & ~task;
        assert(!(taken & task));
        taken = taken | task
    }
}

active [WORKERS] proctype worker()
{
    LOCALS;
    byte task;
    short count;
    bit searching, excess, starved;
end_no_thread:
    atomic { place[me] == STARTED -> place[me] = TAKEN; searching = 1 }
    do
    :: if
       :: atomic { ACTIVE(ctl) > PARALLELISM -> excess = 1 } /* fj_idle_is_excess */
       :: else -> take()
       fi;
       if
       :: task == 0 && !excess ->
          if
          :: !searching -> try_search()
          :: else
          fi;
          if
          :: searching -> take()
          :: else
          fi
       :: else
       fi;
       excess = 0;
       if
       :: task != 0 ->
          end_search();
          if
          :: is_parent(task) ->
             lane = lane | child_of(task); /* fj_worker_submit, to its inbox */
             signal();
             join(child_of(task))
          :: is_blocker(task) ->
             block_begin();
             count_in()
          :: else
          fi;
          atomic { done = done | task; task = 0 }
       :: else ->
          announce();
end_asleep:
          atomic { parker[me] == RELEASED -> parker[me] = BUSY; searching = 1 }
       fi
    od
}

#if OUTSIDERS
/* fj_run_outside: claims what is queued, runs it, takes the tombstone away. */
active proctype outsider()
{
    byte task;
    if
    :: atomic { lane & child_of(1) -> task = child_of(1);
           lane = lane & ~task; taken = taken | task; outside = task;
           outside_late = (lock -> task : 0) }
       atomic { done = done | task; outside = 0; task = 0 }
    :: done & child_of(1)
    fi
}
#endif

active proctype checker()
{
    atomic { timeout ->
        assert(done == (1 << (TASKS + PARENTS)) - 1);
        assert(lane == 0 && blocked == 0);
        assert(ACTIVE(ctl) == 0 && !SEARCHING(ctl)) }
}
