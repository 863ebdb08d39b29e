/* explore.c - the scheduler: goes through all states that a scenario can reach.
 *
 *     explore [--model sc|tso|pso] [--relax FUNCTION] [--list] [SCENARIO ...]
 *
 * Without names it runs all but the large ones, which take minutes.
 *
 * A state is the memory of the scenario, the live part of each thread's stack (its
 * registers lie there while it does not run), and the stores that a thread has made
 * and others cannot see yet. From each state each possible step is taken: one atomic
 * operation of one thread with all that follows up to its next, or one buffered store
 * that becomes visible. A state that was seen before (by a 64-bit hash) is left.
 * So loops end, and nothing is bounded but the scenario itself.
 *
 * --relax makes the stores of one function relaxed: a fault that must be found.
 * Exit status: 0 all is well, 1 something is wrong (its steps are printed), 2 usage.
 */
#include "explore.h"

#undef malloc
#undef realloc
#undef free
#undef __atomic_load_n

#include <time.h>

#include "fj_os.h"

#ifndef __x86_64__
#error "the switch between threads is written for x86-64"
#endif

enum {
    STACK = 1 << 14,
    ARENA = 1 << 15,
    BUFFER = 16,             /* stores a thread may have in its buffer */
    DEPTH = 1000,
    RANGES = 64,
    NOBODY = -1              /* the writer of a constant */
};

typedef enum kind { START, LOAD, STORE, SWAP, WAIT, FLUSH } kind_t;

static const char *const kind_names[] = {"start", "load", "store", "swap", "wait", "flush"};

typedef struct buffered {
    volatile void *p;
    uint64_t value;
    uint8_t size;
    bool release;
} buffered_t;

typedef struct thread {
    char *sp;                /* of a thread that does not run: its registers lie there */
    const char *function;    /* where its next operation stands */
    int line;
    kind_t kind;             /* and what it is */
    bool drains;             /* waits until the buffer is empty */
    bool finished, inside;
    const volatile void *sleeps_on;
    volatile const void *p;
    bool (*condition)(void *);
    void *argument;
    uint32_t stores;
    buffered_t buffer[BUFFER];
} thread_t;

/* All that changes, except the stacks. */
static struct world {
    thread_t threads[XP_THREADS];
    size_t used;
    _Alignas(FJ_CACHE_LINE) char arena[ARENA];
} world;

static _Alignas(64) char stacks[XP_THREADS][STACK];

typedef struct range {
    int thread;
    const char *start, *end;
} range_t;

static range_t private_ranges[RANGES], written_ranges[RANGES];
static int privates, writtens;

unsigned xp_variant;
static const xp_scenario_t *scenario;
static xp_model_t model;
static const char *relaxed_function;
static int current = -1;                     /* the thread that runs, -1: the scheduler */
static bool peeks;                           /* the scheduler looks in its place */
static char *scheduler_sp;
static uint64_t seen_value;                  /* what the last operation read or wrote */
static uint32_t outcomes;

static struct {
    const char *file, *text;
    int line;
} failure;

_Noreturn static void report(void);

/* ---- threads ---- */

/* Pushes the registers that a callee keeps, changes stacks, pops them. */
void xp_change_stack(char **from, char *to);
__asm__(".text\n"
        ".globl xp_change_stack\n"
        ".type xp_change_stack, @function\n"
        "xp_change_stack:\n"
        "    pushq %rbp\n    pushq %rbx\n    pushq %r12\n    pushq %r13\n    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n    popq %r14\n    popq %r13\n    popq %r12\n    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size xp_change_stack, . - xp_change_stack\n");

static void pause_thread(void)
{
    xp_change_stack(&world.threads[current].sp, scheduler_sp);
}

static void resume(int t)
{
    current = t;
    xp_change_stack(&scheduler_sp, world.threads[t].sp);
    current = -1;
}

static void thread_entry(void)
{
    scenario->threads[current]();
    world.threads[current].finished = true;
    pause_thread();
    abort();
}

static void thread_prepare(int t)
{
    memset(stacks[t], 0, STACK);
    uint64_t *sp = (uint64_t *)(void *)(stacks[t] + STACK) - 1; /* alignment as after a call */
    *--sp = (uint64_t)(uintptr_t)thread_entry;
    world.threads[t] = (thread_t){.sp = (char *)(sp - 6)};
}

/* The calling thread has come to an operation: others may go first. */
static void point(kind_t kind, const volatile void *p, bool drains, const char *function, int line)
{
    thread_t *self = &world.threads[current];
    self->kind = kind;
    self->p = p;
    self->drains = drains;
    self->function = function;
    self->line = line;
    pause_thread();
}

void xp_fail(const char *file, int line, const char *text)
{
    if (failure.text == NULL) {
        failure.file = file;
        failure.line = line;
        failure.text = text;
    }
    if (current < 0) {
        report();
    }
    pause_thread();
    abort();
}

void xp_enter(void)
{
    world.threads[current].inside = true;
}

void xp_leave(void)
{
    world.threads[current].inside = false;
}

/* ---- memory ---- */

static bool in_range(const range_t *ranges, int n, const volatile void *p, bool other)
{
    for (int i = 0; i < n; i++) {
        if ((const char *)p >= ranges[i].start && (const char *)p < ranges[i].end) {
            return other ? ranges[i].thread != current
                         : ranges[i].thread == current || ranges[i].thread == NOBODY;
        }
    }
    return false;
}

static void add_range(range_t *ranges, int *n, int thread, const volatile void *start, size_t size)
{
    if (*n == RANGES) {
        abort();
    }
    ranges[(*n)++] = (range_t){thread, (const char *)start, (const char *)start + size};
}

void xp_private(int thread, const volatile void *start, size_t size)
{
    add_range(private_ranges, &privates, thread, start, size);
}

void xp_single_writer(int thread, const volatile void *start, size_t size)
{
    add_range(written_ranges, &writtens, thread, start, size);
}

void xp_constant(const volatile void *start, size_t size)
{
    add_range(written_ranges, &writtens, NOBODY, start, size);
}

static bool is_private(const volatile void *p, bool writes)
{
    if (current < 0) {
        return true;
    }
    XP_CHECK(!in_range(private_ranges, privates, p, true) && "another thread's own memory");
    XP_CHECK(!(writes && in_range(written_ranges, writtens, p, true)) && "it has one writer");
    return in_range(private_ranges, privates, p, false);
}

static uint64_t get(const volatile void *p, size_t size)
{
    uint64_t value = 0;
    memcpy(&value, (const void *)p, size);
    return value;
}

static void put(volatile void *p, size_t size, uint64_t value)
{
    memcpy((void *)p, &value, size);
}

/* What that thread sees: its own newest store, if others do not see it yet. */
static uint64_t visible(int t, const volatile void *p, size_t size)
{
    for (uint32_t i = t < 0 ? 0 : world.threads[t].stores; i-- > 0;) {
        if (world.threads[t].buffer[i].p == p) {
            return world.threads[t].buffer[i].value;
        }
    }
    return get(p, size);
}

uint64_t xp_load(const volatile void *p, size_t size, const char *function, int line)
{
    if (peeks || is_private(p, false) || in_range(written_ranges, writtens, p, false)) {
        return visible(current, p, size);
    }
    point(LOAD, p, false, function, line);
    return seen_value = visible(current, p, size);
}

void xp_store(volatile void *p, size_t size, uint64_t value, int order, const char *function,
              int line)
{
    if (is_private(p, true)) {
        put(p, size, value);
        return;
    }
    if (relaxed_function != NULL && strcmp(function, relaxed_function) == 0) {
        order = __ATOMIC_RELAXED;
    }
    if (model == XP_SC || order == __ATOMIC_SEQ_CST) {
        point(STORE, p, true, function, line);
        put(p, size, value);
        seen_value = value;
        return;
    }
    thread_t *self = &world.threads[current]; /* its own affair until it is flushed */
    if (self->stores == BUFFER) {
        point(STORE, p, true, function, line);
    }
    uint64_t masked = size == 8 ? value : value & (((uint64_t)1 << 8 * size) - 1);
    self->buffer[self->stores++] = (buffered_t){p, masked, (uint8_t)size,
                                                order == __ATOMIC_RELEASE};
}

uint64_t xp_swap(volatile void *p, size_t size, xp_swap_t kind, uint64_t expected, uint64_t value,
                 const char *function, int line)
{
    if (!is_private(p, true)) {
        point(SWAP, p, true, function, line);
    }
    uint64_t old = get(p, size);
    switch (kind) {
    case XP_EXCHANGE: put(p, size, value); break;
    case XP_ADD: put(p, size, old + value); break;
    case XP_OR: put(p, size, old | value); break;
    case XP_COMPARE: put(p, size, old == expected ? value : old); break;
    }
    seen_value = get(p, size);
    return old;
}

bool xp_cas(volatile void *p, size_t size, void *expected, uint64_t value, const char *function,
            int line)
{
    uint64_t wanted = get(expected, size);
    uint64_t old = xp_swap(p, size, XP_COMPARE, wanted, value, function, line);
    memcpy(expected, &old, size);
    return old == wanted;
}

void xp_await(bool (*condition)(void *), void *argument)
{
    thread_t *self = &world.threads[current];
    self->condition = condition;
    self->argument = argument;
    point(WAIT, argument, false, "xp_await", 0);
    self->condition = NULL;
}

/* Futexes, for fj_os_seam. A system call is a full fence. */
static bool is_woken(void *self)
{
    return ((thread_t *)self)->sleeps_on == NULL;
}

static fj_os_wait_result_t futex_wait(fj_word_t *word, uint32_t expected, int64_t deadline)
{
    thread_t *self = &world.threads[current];
    (void)deadline;
    point(SWAP, word, true, "futex_wait", 0);
    if (get(word, sizeof *word) == expected) {
        self->sleeps_on = word;
        xp_await(is_woken, self);
    }
    return FJ_WAIT_WOKEN;
}

static void futex_wake(fj_word_t *word, bool all)
{
    point(SWAP, word, true, "futex_wake", 0);
    for (int t = 0; t < XP_THREADS; t++) {
        if (world.threads[t].sleeps_on == word) {
            world.threads[t].sleeps_on = NULL;
            if (!all) {
                break;
            }
        }
    }
}

void *xp_alloc(size_t size)
{
    size_t start = (world.used + FJ_CACHE_LINE - 1) / FJ_CACHE_LINE * FJ_CACHE_LINE;
    if (start + size > ARENA) {
        abort();
    }
    world.used = start + size;
    memset(world.arena + start, 0, size);
    return world.arena + start;
}

void *xp_realloc(void *old, size_t size)
{
    void *p = xp_alloc(size);
    if (old != NULL) {
        memcpy(p, old, size);                /* what lies behind the old one is ours as well */
    }
    return p;
}

void xp_outcome(unsigned outcome)
{
    outcomes |= (uint32_t)1 << outcome;
}

/* ---- states ---- */

static struct {
    uint64_t *slots;
    size_t mask, count;
} visited;

static uint64_t mix(uint64_t hash, const void *data, size_t size)
{
    const char *bytes = data;
    for (size_t i = 0; i + 8 <= size; i += 8) {
        uint64_t word;
        memcpy(&word, bytes + i, 8);
        hash = (hash ^ word) * 0x9e3779b97f4a7c15u;
        hash ^= hash >> 32;
    }
    uint64_t rest = 0;
    memcpy(&rest, bytes + size / 8 * 8, size % 8);
    hash = (hash ^ rest ^ size) * 0xd6e8feb86659fd93u;
    return hash ^ hash >> 32;
}

static size_t live(int t, char **start)
{
    *start = world.threads[t].sp;
    return world.threads[t].finished ? 0 : (size_t)(stacks[t] + STACK - *start);
}

static uint64_t state_hash(void)
{
    uint64_t hash = mix(1, world.arena, world.used);
    for (int t = 0; t < XP_THREADS && scenario->threads[t] != NULL; t++) {
        thread_t *thread = &world.threads[t];
        char *start;
        size_t size = live(t, &start);
        hash = mix(hash, start, size);       /* its registers say what it is about to do */
        hash = mix(hash, &thread->finished, sizeof thread->finished);
        hash = mix(hash, &thread->inside, sizeof thread->inside);
        hash = mix(hash, &thread->sleeps_on, sizeof thread->sleeps_on);
        for (uint32_t i = 0; i < thread->stores; i++) {
            uint64_t one[] = {(uint64_t)(uintptr_t)thread->buffer[i].p, thread->buffer[i].value,
                              thread->buffer[i].release};
            hash = mix(hash, one, sizeof one);
        }
    }
    return hash == 0 ? 1 : hash;
}

/* True: it is new. */
static bool remember(uint64_t hash)
{
    if (2 * visited.count >= visited.mask) {
        uint64_t *old = visited.slots;
        size_t old_size = visited.mask + 1, size = 2 * old_size;
        visited.slots = calloc(size, sizeof *old);
        if (visited.slots == NULL) {
            abort();
        }
        visited.mask = size - 1;
        visited.count = 0;
        for (size_t i = 0; i < old_size; i++) {
            if (old[i] != 0) {
                (void)remember(old[i]);
            }
        }
        free(old);
    }
    size_t i = hash & visited.mask;
    while (visited.slots[i] != 0 && visited.slots[i] != hash) {
        i = (i + 1) & visited.mask;
    }
    if (visited.slots[i] == hash) {
        return false;
    }
    visited.slots[i] = hash;
    visited.count++;
    return true;
}

/* Copies of the present state, one above the other. */
static char *copies;
static size_t copies_size, copies_used;

static void copy_one(bool out, void *data, size_t size, size_t *at)
{
    if (out && *at + size > copies_size) {
        fprintf(stderr, "explore: no room for copies\n");
        abort();
    }
    memcpy(out ? copies + *at : data, out ? data : copies + *at, size);
    *at += size;
}

static size_t copy_state(bool out, size_t at)
{
    copy_one(out, &world.threads, sizeof world.threads, &at);
    copy_one(out, &world.used, sizeof world.used, &at);
    copy_one(out, world.arena, world.used, &at);
    for (int t = 0; t < XP_THREADS && scenario->threads[t] != NULL; t++) {
        char *start;
        size_t size = live(t, &start);
        copy_one(out, start, size, &at);
    }
    return at;
}

/* ---- the search ---- */

typedef struct step {
    int thread, flushed;                     /* -1: an operation, else that place in the buffer */
    kind_t kind;
    const char *function;
    int line;
    const volatile void *p;
    uint64_t value;
} step_t;

static step_t trace[DEPTH];
static size_t depth, deepest, ends;

static const char *place_of(const volatile void *p, char *text, size_t size)
{
    ptrdiff_t offset = (const char *)p - world.arena;
    if (offset >= 0 && offset < ARENA) {
        snprintf(text, size, "+%td", offset);
    } else {
        snprintf(text, size, "%p", (const void *)(uintptr_t)p);
    }
    return text;
}

static void report(void)
{
    char text[32];
    printf("FAILED  %s\n", scenario->name);
    if (scenario->variants != 0) {
        printf("        variant %u\n", xp_variant);
    }
    printf("        %s:%d: %s\n", failure.file, failure.line, failure.text);
    for (size_t i = 0; i < depth; i++) {
        step_t *s = &trace[i];
        printf("        %3zu %*s%c %-5s %s = %#llx  %s:%d\n", i, 8 * s->thread, "", 'A' + s->thread,
               kind_names[s->kind], place_of(s->p, text, sizeof text),
               (unsigned long long)s->value, s->function, s->line);
    }
    fflush(stdout);
    _Exit(1);
}

static bool can_run(thread_t *thread, int t)
{
    if (thread->finished || (thread->drains && thread->stores != 0)) {
        return false;
    }
    if (thread->kind == WAIT && thread->condition != NULL) {
        current = t;                         /* it sees what that thread sees */
        peeks = true;
        bool holds = thread->condition(thread->argument);
        peeks = false;
        current = -1;
        return holds;
    }
    return true;
}

/* May the i-th store of the buffer become visible before those in front of it? */
static bool can_flush(const thread_t *thread, uint32_t i)
{
    const buffered_t *one = &thread->buffer[i];
    for (uint32_t k = 0; k < i; k++) {
        if (model == XP_TSO || one->release || thread->buffer[k].p == one->p) {
            return false;
        }
    }
    return true;
}

static int steps_from_here(step_t *steps)
{
    int n = 0;
    for (int t = 0; t < XP_THREADS && scenario->threads[t] != NULL; t++) {
        thread_t *thread = &world.threads[t];
        if (can_run(thread, t)) {
            steps[n++] = (step_t){t, -1, thread->kind, thread->function, thread->line, thread->p,
                                  0};
        }
        for (uint32_t i = 0; i < thread->stores; i++) {
            if (can_flush(thread, i)) {
                steps[n++] = (step_t){t, (int)i, FLUSH, "", 0, thread->buffer[i].p, 0};
            }
        }
    }
    return n;
}

static void take(const step_t *step)
{
    thread_t *thread = &world.threads[step->thread];
    if (step->flushed < 0) {
        resume(step->thread);
    } else {
        buffered_t *one = &thread->buffer[step->flushed];
        put(one->p, one->size, one->value);
        seen_value = one->value;
        memmove(one, one + 1, (thread->stores - (uint32_t)step->flushed - 1) * sizeof *one);
        thread->stores--;
    }
    if (failure.text == NULL && scenario->always != NULL) {
        scenario->always();
    }
}

static void check_rest(void)
{
    for (int t = 0; t < XP_THREADS && scenario->threads[t] != NULL; t++) {
        if (world.threads[t].inside || world.threads[t].stores != 0) {
            return;
        }
    }
    scenario->at_rest();
}

static void visit(void)
{
    step_t steps[XP_THREADS * (BUFFER + 1)];
    int n = steps_from_here(steps);
    if (scenario->at_rest != NULL) {
        check_rest();
    }
    if (n == 0) {
        ends++;
        for (int t = 0; t < XP_THREADS && scenario->threads[t] != NULL; t++) {
            XP_CHECK((world.threads[t].finished
                      || (scenario->sleepers && world.threads[t].sleeps_on != NULL))
                     && "nobody can go on");
        }
        if (scenario->end != NULL) {
            scenario->end();
        }
        return;
    }
    size_t before = copies_used;
    if (n > 1) {
        copies_used = copy_state(true, before);
    }
    for (int i = 0; i < n; i++) {
        if (i > 0) {
            (void)copy_state(false, before);
        }
        XP_CHECK(depth < DEPTH);
        trace[depth] = steps[i];
        deepest = ++depth > deepest ? depth : deepest;
        take(&steps[i]);
        trace[depth - 1].value = seen_value;
        if (failure.text != NULL) {
            report();
        }
        if (remember(state_hash())) {
            visit();
        }
        depth--;
    }
    copies_used = before;
}

/* All states of one variant. */
static void explore_one(void)
{
    memset(&world, 0, sizeof world);
    privates = writtens = 0;
    depth = copies_used = 0;
    memset(visited.slots, 0, (visited.mask + 1) * sizeof *visited.slots);
    visited.count = 0;
    scenario->setup();
    for (int t = 0; t < XP_THREADS && scenario->threads[t] != NULL; t++) {
        thread_prepare(t);
        resume(t);                           /* up to its first operation */
        if (failure.text != NULL) {
            report();
        }
    }
    (void)remember(state_hash());
    visit();
}

static void explore(const xp_scenario_t *which)
{
    struct timespec from, to;
    size_t states = 0;
    (void)timespec_get(&from, TIME_UTC);
    scenario = which;
    deepest = ends = outcomes = 0;
    free(visited.slots);
    visited.mask = ((size_t)1 << 14) - 1;
    visited.slots = calloc(visited.mask + 1, sizeof *visited.slots);
    for (xp_variant = 0; xp_variant == 0 || xp_variant < which->variants; xp_variant++) {
        explore_one();
        states += visited.count;
    }
    if (scenario->outcomes[model] != 0) {
        XP_CHECK(outcomes == scenario->outcomes[model]);
    }
    (void)timespec_get(&to, TIME_UTC);
    printf("ok      %-50s %9zu states %8zu ends %5zu deep %6.2f s\n", scenario->name, states, ends,
           deepest,
           (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) * 1e-9);
    fflush(stdout);
}

/* ---- the program ---- */

static const xp_scenario_t *const groups[] = {xp_litmus, xp_deque, xp_spawn,
                                              xp_task,   xp_lane,  xp_idle};

static bool chosen(const char *name, int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        if (strcmp(name, argv[i]) == 0) {
            return true;
        }
    }
    return argc == 0 && strncmp(name, "large.", 6) != 0;
}

static int usage(void)
{
    fprintf(stderr, "usage: explore [--model sc|tso|pso] [--relax FUNCTION] [--list] "
                    "[SCENARIO ...]\n");
    return 2;
}

int main(int argc, char **argv)
{
    static const char *const models[] = {"sc", "tso", "pso"};
    bool list = false;
    int found = 0, i = 1;
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "--list") == 0) {
            list = true;
        } else if (i + 1 < argc && strcmp(argv[i], "--relax") == 0) {
            relaxed_function = argv[++i];
        } else if (i + 1 < argc && strcmp(argv[i], "--model") == 0) {
            for (model = XP_SC, i++; model < XP_MODELS && strcmp(argv[i], models[model]) != 0;) {
                model++;
            }
            if (model == XP_MODELS) {
                return usage();
            }
        } else {
            return usage();
        }
    }
    fj_os_seam = (fj_os_seam_t){.wait = futex_wait, .wake = futex_wake};
    copies_size = (size_t)64 << 20;
    copies = malloc(copies_size);
    for (size_t g = 0; g < sizeof groups / sizeof groups[0]; g++) {
        for (const xp_scenario_t *s = groups[g]; s->name != NULL; s++) {
            if (list) {
                puts(s->name);
            } else if (chosen(s->name, argc - i, argv + i)) {
                found++;
                explore(s);
            }
        }
    }
    return list || found >= argc - i ? 0 : usage();
}
