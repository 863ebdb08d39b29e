/* quiesce.pml - quiescence, shutdown and termination: fj_quiesce.c and the run loop's part in it.
 *
 * A submitter hands in tasks, each of which may be refused once the lane is closed; a task may
 * submit another to its worker's inbox and may block for a while; a closer shuts the pool down at
 * any moment, and with STOP=1 stops it at any later one. Here all workers have one inbox, and the
 * next thread in a place begins only when the one before it has gone.
 *
 * Checked: the pool is found quiescent only when nothing is queued and no worker runs or blocks;
 * nothing runs after STOP that was not taken before; every accepted task has been run, or cancelled
 * if somebody stopped the pool; TERMINATED comes only when no thread exists, and always comes.
 */
#ifndef WORKERS
#define WORKERS 2
#endif
#ifndef TASKS
#define TASKS 1        /* from outside */
#endif
#ifndef FORKS
#define FORKS 1        /* submitted by tasks */
#endif
#ifndef BLOCKS
#define BLOCKS 1       /* times that a task blocks */
#endif
#ifndef STOP
#define STOP 0         /* 1: somebody stops the pool */
#endif

byte lane = 0;
byte inbox = 0;                            /* all workers' */
byte accepted = 0, settled = 0;
byte forked = 0, blocks = BLOCKS;
bit closed = 0;
byte busy = 0;                             /* workers in a task */
byte blocked = 0;
byte threads = 0;

/* The phase's bits (fj_types.h). */
#define SHUTDOWN_BIT 1
#define STOP_BIT 2
#define TERMINATED_BIT 4
byte phase = 0;
bit stopped = 0;                           /* by somebody, not because it was quiescent */

#define queued (lane | inbox)
inline has_work()
{
    found = (lane != 0);
#if FORKS
    if
    :: !found -> found = (inbox != 0)
    :: else
    fi
#endif
}

#define PARALLELISM WORKERS
#define MIN_RUNNABLE WORKERS
#define REFUSALS 0
#define me (_pid + 1)
#define stopping (phase & STOP_BIT)

/* terminate_if_empty in fj_quiesce.c */
inline terminate_if_empty()
{
    if
    :: phase & STOP_BIT ->
       if
       :: atomic { threads == 0 -> phase = phase | TERMINATED_BIT }
       :: else
       fi
    :: else
    fi
}

inline thread_exists()
{
    threads++
}

/* fj_quiesce_thread_gone */
inline thread_gone()
{
    threads--;
    terminate_if_empty()
}
#include "protocol.pml"

/* fj_idle_release_all */
inline release_all()
{
    do
    :: atomic { remember();
           popped = TOP(ctl);
           if
           :: popped == 0 -> forget(); break
           :: else
           fi }
       below = next_idle[popped];
       if
       :: atomic { unchanged -> change(0, 0, SEARCHING(ctl), below); below = 0; forget() }
          unpark(RETIRED)
       :: atomic { !unchanged -> popped = 0; below = 0; forget() }
       fi
    od
}

/* fj_quiesce_check, with fj_quiesce_is_quiescent */
inline check()
{
    if
    :: phase == SHUTDOWN_BIT ->
       atomic { remember(); found = (ACTIVE(ctl) != 0) }
       if
       :: !found -> found = (blocked != 0)
       :: else
       fi;
       if
       :: !found -> has_work()
       :: else
       fi;
#ifndef NO_SECOND_READ
       if
       :: atomic { !found && !unchanged -> found = 1 }
       :: else
       fi;
#endif
       atomic { forget();
           if
           :: !found -> phase = phase | STOP_BIT; assert(!queued && busy == 0 || stopped)
           :: else -> found = 0
           fi }
    :: else
    fi;
    if
    :: phase & STOP_BIT ->
       release_all();
       terminate_if_empty()
    :: else
    fi
}

inline take(from)
{
    atomic {
        if
        :: from == 0
        :: from & 1 -> task = 1
        :: from & 2 -> task = 2
        :: from & 4 -> task = 4
        :: from & 8 -> task = 8
        fi;
        from = from & ~task;
        assert(!(settled & task));
        settled = settled | task;
        busy = busy + (task != 0)
    }
}

inline cancel_all(from)
{
    atomic { assert(stopped || from == 0); settled = settled | from; from = 0 }
}

active [WORKERS] proctype worker()
{
    LOCALS;
    byte task;
    bit searching, last;
end_no_thread:
    atomic { place[me] == STARTED -> place[me] = TAKEN; searching = 1 }
    do                                     /* run_loop */
    :: if
       :: stopping -> break                /* leaves as an active worker */
       :: else
       fi;
       take(inbox);
       if
       :: task == 0 -> take(lane)
       :: else
       fi;
       if
       :: task == 0 && !searching -> try_search()
       :: else
       fi;
       if
       :: task == 0 && searching -> take(lane)
       :: else
       fi;
       if
       :: task != 0 ->
          task = 0;
          end_search();
          if
          :: atomic { forked < FORKS ->    /* fj_worker_submit */
                 accepted = accepted | 1 << (TASKS + forked);
                 inbox = inbox | 1 << (TASKS + forked);
                 forked++ }
             signal()
          :: true
          fi;
          if
#ifdef BLOCKED_LATE
          :: atomic { blocks > 0 -> blocks--; change(-1, 0, SEARCHING(ctl), TOP(ctl)) }
             blocked++;
#else
          :: atomic { blocks > 0 -> blocks--; blocked++ } /* count_out */
             atomic { change(-1, 0, SEARCHING(ctl), TOP(ctl)) }
#endif
             look_again();
             atomic { change(1, 0, SEARCHING(ctl), TOP(ctl)) } /* count_in */
             blocked--
          :: true
          fi;
          busy--
       :: else ->
          if
          :: stopping -> break
          :: else
          fi;
          announce();
#ifndef NO_CHECK_AFTER_ANNOUNCE
          if
          :: phase & SHUTDOWN_BIT -> check()
          :: else
          fi;
#endif
end_asleep:
          if
          :: atomic { parker[me] == RELEASED -> parker[me] = BUSY; searching = 1 }
          :: atomic { parker[me] == RETIRED -> parker[me] = BUSY; last = 1; break }
          fi
       fi
    od;
    if                                     /* fj_worker_main */
    :: stopping -> cancel_all(inbox); cancel_all(lane)
    :: else
    fi;
    end_search();
    place[me] = FREE;                      /* fj_idle_retire: fj_registry_leave */
    atomic { change(last - 1, -1, SEARCHING(ctl), TOP(ctl)); last = 0 }
    look_again();
    check();
    thread_gone();
    goto end_no_thread
}

active proctype submitter()
{
    LOCALS;
    byte n = 0;
    do
    :: n < TASKS ->
       if
       :: atomic { closed -> break }       /* fj_lane_submit: FJ_REJECTED */
       :: atomic { !closed -> lane = lane | 1 << n; accepted = accepted | 1 << n; n++ }
       fi;
       signal()
    :: else -> break
    od
}

active proctype closer()
{
    LOCALS;
    /* fj_quiesce_shutdown */
#ifndef CLOSED_LATE
    closed = 1;
#endif
    phase = phase | SHUTDOWN_BIT;
#ifdef CLOSED_LATE
    closed = 1;
#endif
    check();
#if STOP
    /* fj_quiesce_stop */
    threads++;
    atomic { stopped = 1; phase = phase | STOP_BIT }
#ifndef NO_DRAIN
    cancel_all(lane);
    cancel_all(inbox);
#endif
    thread_gone();
    check()
#endif
}

active proctype checker()
{
    atomic { timeout ->
        assert(phase & TERMINATED_BIT);
        assert(threads == 0 && ctl == 0 && blocked == 0 && busy == 0);
        assert(!queued && accepted == settled) }
}
