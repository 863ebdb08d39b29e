/* protocol.pml - the pool word (fj_ctl.h) and the parts of fj_idle.c that all models need.
 *
 * A name with fj_ in a comment is the C function that a piece follows, one step for each atomic
 * operation. All steps are in one order, as the seqcst operations of the C code are.
 *
 * Compare-and-swap: a process that has read the word is *linked* until somebody changes the word;
 * its swap succeeds if it is still linked. That is what the version is for: no two changes lead to
 * the same word. (That its 18 bits may wrap around is left out.) A loop that reads the word,
 * computes the next one from nothing else, and swaps until that works, is one step: nobody can see
 * the attempts that failed.
 *
 * Whoever includes this has defined
 *     WORKERS       places, at most 3; also max_workers
 *     PARALLELISM, MIN_RUNNABLE, as in fj_config_t
 *     REFUSALS      threads that the system refuses
 *     `queued` and `has_work()`: fj_registry_has_work at once, and step by step into `found`
 *     `stopping`: STOP is in the phase
 *     `me`: a worker's place
 *     `thread_exists()`, `thread_gone()`: steps that count threads, or nothing
 */

/* ---- the word: bits 0..1 active, 2..3 total, 4..5 top (a place, 0: none), 6 searching ---- */

#define ACTIVE(c) ((c) & 3)
#define TOTAL(c) ((c) >> 2 & 3)
#define TOP(c) ((c) >> 4 & 3)
#define SEARCHING(c) ((c) >> 6 & 1)
byte ctl = 0;

short linked = 0;                          /* bit p: process p has read the present word */
#define self (1 << _pid)

#ifdef NO_VERSION                          /* a fault: only the words are compared */
#define remember() seen = ctl
#define unchanged (seen == ctl)
#define forget() seen = 0
#else
#define remember() linked = linked | self
#define unchanged (linked & self)
#define forget() linked = linked & ~self
#endif

/* A swap that succeeds, and what must hold after each (fj_ctl.h). */
inline change(more_active, more_total, search, new_top)
{
    assert(ACTIVE(ctl) + (more_active) >= 0);
    assert(ACTIVE(ctl) + (more_active) <= TOTAL(ctl) + (more_total));
    assert(TOTAL(ctl) + (more_total) <= WORKERS);
    assert(!(search) || ACTIVE(ctl) + (more_active) > 0);
    ctl = (ACTIVE(ctl) + (more_active)) | (TOTAL(ctl) + (more_total)) << 2 |
          (new_top) << 4 | (search) << 6;
    assert(searchers == SEARCHING(ctl));
    linked = 0
}

/* ---- workers, seen from outside ---- */

/* What a parker says (fj_types.h); WOKEN belongs to eager compensation and is left out. */
#define BUSY 0
#define IDLE 1
#define RELEASED 2
#define RETIRED 3
byte parker[WORKERS + 1];
byte next_idle[WORKERS + 1];

/* A place: nobody is there, a thread has been started there and has not begun, or it has. */
#define FREE 0
#define STARTED 1
#define TAKEN 2
byte place[WORKERS + 1];

byte searchers = 0;                        /* who holds the searcher's role, begun or not */
byte refusals = REFUSALS;

/* What each process that signals declares. */
#ifdef NO_VERSION
#define LOCALS byte popped, below, decision, status, seen; bit found
#else
#define LOCALS byte popped, below, decision, status; bit found
#endif

/* fj_registry_enter: any free place would do. */
inline enter_place()
{
    if
    :: place[1] == FREE -> place[1] = STARTED
#if WORKERS > 1
    :: place[1] != FREE && place[2] == FREE -> place[2] = STARTED
#endif
#if WORKERS > 2
    :: place[1] != FREE && place[2] != FREE && place[3] == FREE -> place[3] = STARTED
#endif
    fi
}

/* unpark in fj_idle.c. The futex's part is that a sleeper sees the word change. */
inline unpark(why)
{
    atomic {
        assert(parker[popped] == IDLE);    /* it was on the stack, and is popped once */
        parker[popped] = why;
        popped = 0
    }
}

/* ---- signal_work ---- */

/* What it returns. */
#define OK 0
#define NO_THREAD 1
#define AT_LIMIT 2

/* What it decides to do with the word that it has read. */
#define NOTHING 0
#define POP 1
#define START 2

inline decide(may_start)
{
    status = OK;
    decision = NOTHING;
    if
    :: SEARCHING(ctl) || ACTIVE(ctl) >= PARALLELISM
    :: else ->
        popped = TOP(ctl);
        if
        :: popped != 0 -> decision = POP
        :: popped == 0 && may_start && !stopping &&
           (TOTAL(ctl) < PARALLELISM || ACTIVE(ctl) < MIN_RUNNABLE) ->
            if
            :: TOTAL(ctl) < WORKERS -> decision = START
            :: else -> status = AT_LIMIT
            fi
        :: else
        fi
    fi;
    if
    :: decision != NOTHING -> remember()
    :: else
    fi
}

/* below_top, the swap, and unpark; leaves the loop that it stands in. */
inline pop_and_release()
{
    below = next_idle[popped];
    if
    :: atomic { unchanged -> searchers++; change(1, 0, 1, below); below = 0; forget() }
       unpark(RELEASED);
       break
    :: atomic { !unchanged -> popped = 0; below = 0; forget() }
    fi
}

/* signal_work(pool, IF_IDLE) */
inline wake_idle()
{
    do
    :: atomic { decide(0);
           if
           :: decision == NOTHING -> break
           :: else -> decision = NOTHING
           fi }
       pop_and_release()
    od
}

/* start_worker and forget_worker */
inline start_worker()
{
    thread_exists();
    atomic {
        if
        :: refusals > 0 -> refusals--; status = NO_THREAD
        :: stopping -> status = NO_THREAD
        :: !stopping -> enter_place()
        fi
    };
    if
    :: status == NO_THREAD ->
       atomic { searchers--; change(-1, -1, 0, TOP(ctl)) }
       thread_gone();
#ifndef NO_LOOK_AFTER_REFUSAL
       has_work();                         /* who published meanwhile saw a searcher */
       if
       :: atomic { found -> found = 0 }
          wake_idle()
       :: else
       fi;
#endif
       status = NO_THREAD
    :: else
    fi
}

/* signal_work(pool, IF_NEEDED); the result is in `status` */
inline signal()
{
    do
    :: atomic { decide(1);
           if
           :: decision == NOTHING -> break
           :: else
           fi }
       if
       :: atomic { decision == POP -> decision = NOTHING }
          pop_and_release()
       :: atomic { decision == START && unchanged ->
              decision = NOTHING; searchers++; change(1, 1, 1, 0); forget() }
          start_worker();
          break
       :: atomic { decision == START && !unchanged -> decision = NOTHING; forget() }
       fi
    od
}

/* look_again */
inline look_again()
{
    has_work();
    if
    :: atomic { found -> found = 0 }
       signal()
    :: else -> status = OK
    fi
}

/* ---- a worker's own changes ---- */

/* fj_idle_try_search. Its first read is relaxed and may be old: it may fail for nothing. */
inline try_search()
{
    atomic {
        if
        :: !SEARCHING(ctl) -> searching = 1; searchers++; change(0, 0, 1, TOP(ctl))
        :: SEARCHING(ctl)
        fi
    }
}

/* fj_worker_end_search, fj_idle_end_search */
inline end_search()
{
    if
    :: atomic { searching -> searching = 0; searchers--; change(0, 0, 0, TOP(ctl)) }
#ifndef NO_LOOK_AFTER_SEARCH
       look_again();
       status = OK                         /* refused: the caller is there to work */
#endif
    :: else
    fi
}

/* fj_idle_announce */
inline announce()
{
#ifdef LOOK_BEFORE_ANNOUNCE
    look_again();
#endif
    do
    :: atomic { remember(); parker[me] = IDLE; next_idle[me] = TOP(ctl) }
       if
       :: atomic { unchanged ->
              searchers = searchers - searching;
              change(-1, 0, !searching && SEARCHING(ctl), me);
              searching = 0;
              forget();
              break }
       :: atomic { !unchanged -> forget() }
       fi
    od;
#ifndef LOOK_BEFORE_ANNOUNCE
    look_again();
#endif
    status = OK                            /* nobody is refused: it is on the stack itself */
}
