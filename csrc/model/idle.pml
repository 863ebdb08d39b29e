/* idle.pml - who sleeps, who searches, who is woken: fj_idle.c without blocking, and its callers.
 *
 * Publishers outside push a task and signal; workers search, run, announce idle, look again, sleep,
 * and leave after keep_alive; the system refuses threads. protocol.pml says how the pieces follow
 * the C functions that their comments name.
 *
 * Checked: counts within bounds and at most one searcher (in every change); each task is run once,
 * or handed back or cancelled for want of a thread; who is popped off the idle stack was on it, and
 * is popped once; and no wake-up is lost: whenever nothing moves any more, work is queued only if
 * `parallelism` workers are busy with tasks that take for ever, or no thread can be had.
 *
 * More is allowed here than the code does: any entry of a queue may be taken, not only the oldest,
 * and a look into others' queues may miss what is there (the code takes with relaxed looks; only
 * fj_registry_has_work must see everything).
 *
 * With TIMEOUTS=1 the moment at which nothing moves comes only after the time-out, so TIMEOUTS=0
 * is to be checked as well. Refusals and misses need not happen.
 */
#ifndef WORKERS
#define WORKERS 2     /* places, parallelism and max_workers */
#endif
#ifndef PUBLISHERS
#define PUBLISHERS 2  /* each submits one task */
#endif
#ifndef FORKS
#define FORKS 0       /* tasks forked by tasks */
#endif
#ifndef TIMEOUTS
#define TIMEOUTS 1    /* keep-alives that run out */
#endif
#ifndef REFUSALS
#define REFUSALS 1    /* threads that the system refuses */
#endif
#ifndef MISSES
#define MISSES 0      /* looks into others' queues that miss what is there */
#endif
#ifndef ENDLESS
#define ENDLESS 1     /* tasks that may take for ever */
#endif
#ifndef LEAVERS
#define LEAVERS 1     /* threads between leaving their place and their end at the same moment */
#endif

/* Queues are sets of tasks; task t is the bit 1 << t. */
byte lane = 0;
byte deque[WORKERS + 1];
byte settled = 0;              /* run, handed back, or cancelled */
byte forked = 0;

byte departing = 0;            /* threads that have left their place, and go on as `leaver` */
byte timeouts = TIMEOUTS;
byte misses = MISSES;
byte endless_tasks = ENDLESS;
bit endless = 1;               /* they take until this is 0 */

#if WORKERS == 1
#define queued (lane | deque[1])
#elif WORKERS == 2
#define queued (lane | deque[1] | deque[2])
#else
#define queued (lane | deque[1] | deque[2] | deque[3])
#endif

inline settle(which)
{
    assert(!(settled & which));
    settled = settled | which
}

/* fj_registry_has_work: one queue after the other. */
inline has_work()
{
    found = (lane != 0);
#if FORKS
    if
    :: !found -> found = (deque[1] != 0)
    :: else
    fi;
#if WORKERS > 1
    if
    :: !found -> found = (deque[2] != 0)
    :: else
    fi;
#endif
#if WORKERS > 2
    if
    :: !found -> found = (deque[3] != 0)
    :: else
    fi
#endif
#endif
}

#define me (_pid - PUBLISHERS + 1)
#define PARALLELISM WORKERS
#define MIN_RUNNABLE WORKERS
#define stopping 0
#define thread_exists() skip
#define thread_gone() skip
#include "protocol.pml"

/* ---- publishers --------------------------------------------------------------------------- */

/* fj_quiesce_rescue */
inline rescue()
{
    if
    :: lane != 0 ->
       signal();
       if
       :: atomic { status == NO_THREAD && TOTAL(ctl) == 0 -> settled = settled | lane; lane = 0 }
       :: else
       fi
    :: else
    fi
}

/* fj_pool_submit_outside, with withdraw. */
active [PUBLISHERS] proctype publisher()
{
    LOCALS;
    _pid == 0 || (lane | settled) & (self >> 1); /* all are alike: they come in this order */
#ifdef SIGNAL_BEFORE_PUSH
    signal();
    lane = lane | self
#else
    lane = lane | self;                    /* fj_lane_submit */
    signal()
#endif
    ;
    if
    :: atomic { status == NO_THREAD && TOTAL(ctl) == 0 -> status = OK }
       if
       :: atomic { lane & self ->          /* fj_lane_withdraw */
              lane = lane & ~self;
              settle(self) }
          rescue()
       :: else -> look_again()             /* somebody has taken it: signal_if_work */
       fi
    :: else
    fi;
    status = OK
}

/* ---- workers ------------------------------------------------------------------------------ */

inline take(from)
{
    if
    :: from & 1 -> task = 1
    :: from & 2 -> task = 2
    :: from & 4 -> task = 4
    :: from & 8 -> task = 8
    fi;
    from = from & ~task;
    settle(task)
}

/* foreign in fj_worker.c */
inline foreign()
{
    atomic {
        if
        :: !queued || misses > 0 -> misses = misses - (queued != 0)
        :: lane != 0 -> take(lane)
#if FORKS
        :: deque[1] != 0 -> take(deque[1])
#if WORKERS > 1
        :: deque[2] != 0 -> take(deque[2])
#endif
#if WORKERS > 2
        :: deque[3] != 0 -> take(deque[3])
#endif
#endif
        fi
    }
}

/* pick in fj_worker.c: nothing of its own is ever missed */
inline pick()
{
#if FORKS
    if
    :: atomic { deque[me] != 0 -> take(deque[me]) }
    :: else -> foreign()
    fi
#else
    foreign()
#endif
}

/* fj_worker_run_entry, and what the task does: it may fork, and it may take for ever. */
inline run_task()
{
#if FORKS
    if
    :: atomic { forked < FORKS ->
           deque[me] = deque[me] | 1 << (PUBLISHERS + forked);
           forked++ }
       signal();                           /* publish in fj_worker.c */
       if
       :: atomic { status == NO_THREAD -> status = OK }
          rescue();
          status = OK
       :: else
       fi
    :: true
    fi;
#endif
    if
    :: true
    :: endless_tasks > 0 -> endless_tasks--; !endless
    fi
}

/* trim in fj_idle.c; nobody is blocked here */
inline trim()
{
    do
    :: atomic { remember();
           popped = TOP(ctl);
           quiet = (ACTIVE(ctl) == 0);
           if
           :: popped == 0 || (!quiet && TOTAL(ctl) <= WORKERS) ->
              popped = 0; quiet = 0; forget(); break
           :: else
           fi }
       below = next_idle[popped];
       if
       :: atomic { unchanged -> change(0, 0, SEARCHING(ctl), below); below = 0; forget() }
          unpark(RETIRED);
          if
          :: quiet
          :: else -> break
          fi
       :: atomic { !unchanged -> popped = 0; below = 0; forget() }
       fi
    od
}

active [WORKERS] proctype worker()
{
    LOCALS;
    byte task;
    bit searching, quiet;
end_no_thread:
    atomic { place[me] == STARTED -> place[me] = TAKEN; searching = 1 }
    if                                     /* fj_worker_main: the start hook may be slow */
    :: end_search()                        /* fj_slow_start */
    :: true
    fi;
    do                                     /* run_loop */
    :: pick();
       if
       :: task == 0 ->
          if
          :: !searching -> try_search()
          :: else
          fi;
          if
          :: searching -> foreign()
          :: else
          fi
       :: else
       fi;
       if
       :: task != 0 ->
          end_search();
          task = 0;
          run_task()
       :: else ->
          announce();
end_asleep:                                /* fj_idle_sleep; `why` stays in the parker */
          do
          :: parker[me] != IDLE -> break
          :: atomic { timeouts > 0 -> timeouts-- }
             trim()
          od;
          if
          :: atomic { parker[me] == RELEASED -> parker[me] = BUSY; searching = 1 }
          :: atomic { parker[me] == RETIRED -> /* fj_idle_retire: fj_registry_leave */
                 parker[me] = BUSY;
                 place[me] = FREE;
                 departing++;
                 goto end_no_thread }
          fi
       fi
    od
}

/* The rest of fj_idle_retire, and thread_main in fj_pool.c. The place may have its next thread
 * already, so this is a process of its own. */
active [LEAVERS] proctype leaver()
{
    LOCALS;
end_none:
    do
    :: atomic { departing > 0 -> departing-- }
       atomic { change(0, -1, SEARCHING(ctl), TOP(ctl)) }
#ifndef NO_LOOK_AFTER_RETIRE
       look_again();
       if
#ifndef NO_RETURN
       :: status == NO_THREAD ->           /* fj_idle_return */
          status = OK;
          do
          :: atomic { TOTAL(ctl) == 0 -> remember() }
             has_work();
             if
             :: !found -> forget(); break
             :: atomic { found && unchanged ->
                    found = 0; searchers++; change(1, 1, 1, 0); forget() }
                atomic { enter_place() }
                break
             :: atomic { found && !unchanged -> found = 0; forget() }
             fi
          :: else -> break
          od
#endif
       :: else
       fi
#endif
    od
}

/* ---- the end ------------------------------------------------------------------------------ */

/* `timeout` is true when nobody else can do a step. */
active proctype checker()
{
    atomic { timeout ->
        assert(!SEARCHING(ctl));
        assert(!queued || ACTIVE(ctl) == WORKERS || (refusals < REFUSALS && TOP(ctl) == 0));
        endless = 0 }
    atomic { timeout ->
        assert(!queued && ACTIVE(ctl) == 0 && searchers == 0 && departing == 0);
        assert(settled == (1 << (PUBLISHERS + forked)) - 1) }
}
