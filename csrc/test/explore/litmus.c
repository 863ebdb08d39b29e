/* litmus.c - is the explorer itself right? Small programs whose outcomes are known for each
 * memory model: all of them must be found, and no other. */

static struct words {
    _Alignas(64) _Atomic(uint32_t) x;
    _Alignas(64) _Atomic(uint32_t) y;
    uint32_t a, b;
} *w;

static void setup(void)
{
    w = xp_alloc(sizeof *w);
}

static void end(void)
{
    xp_outcome(2 * w->a + w->b);
}

/* Store buffering: each writes one word and reads the other's. */
static void store_x_load_y(void)
{
    fj_store_relaxed(&w->x, 1);
    w->a = fj_load_relaxed(&w->y);
}

static void store_y_load_x(void)
{
    fj_store_release(&w->y, 1);
    w->b = fj_load_relaxed(&w->x);
}

static void seqcst_x_load_y(void)
{
    fj_store_seqcst(&w->x, 1);
    w->a = fj_load_seqcst(&w->y);
}

static void seqcst_y_load_x(void)
{
    fj_store_seqcst(&w->y, 1);
    w->b = fj_load_seqcst(&w->x);
}

static void swap_y_load_x(void)
{
    (void)fj_add_acqrel(&w->y, 1);
    w->b = fj_load_relaxed(&w->x);
}

/* Message passing: y says that x is written. */
static void write_relaxed(void)
{
    fj_store_relaxed(&w->x, 1);
    fj_store_relaxed(&w->y, 1);
}

static void write_release(void)
{
    fj_store_relaxed(&w->x, 1);
    fj_store_release(&w->y, 1);
}

static void read_y_then_x(void)
{
    w->a = fj_load_acquire(&w->y);
    w->b = fj_load_relaxed(&w->x);
}

/* Two additions that are no read-modify-write, and two that are. */
static void add_by_load_and_store(void)
{
    uint32_t x = fj_load_relaxed(&w->x);
    fj_store_relaxed(&w->x, x + 1);
}

static void add(void)
{
    (void)fj_add_relaxed(&w->x, 1);
}

static void sum(void)
{
    xp_outcome(fj_load_relaxed(&w->x));
}

/* Who waits until the other has written sees what it wrote before. */
static bool y_is_set(void *unused)
{
    (void)unused;
    return w->y != 0;
}

static void waits(void)
{
    xp_await(y_is_set, NULL);
    w->a = 1;
    w->b = fj_load_relaxed(&w->x);
}

/* bit 2a + b: whether a and b can come out so. */
const xp_scenario_t xp_litmus[] = {
    {.name = "litmus.store_buffering", .setup = setup, .end = end,
     .threads = {store_x_load_y, store_y_load_x}, .outcomes = {14, 15, 15}},
    {.name = "litmus.store_buffering_seqcst", .setup = setup, .end = end,
     .threads = {seqcst_x_load_y, seqcst_y_load_x}, .outcomes = {14, 14, 14}},
    {.name = "litmus.store_buffering_one_seqcst", .setup = setup, .end = end,
     .threads = {seqcst_x_load_y, store_y_load_x}, .outcomes = {14, 15, 15}},
    {.name = "litmus.store_buffering_swap", .setup = setup, .end = end,
     .threads = {seqcst_x_load_y, swap_y_load_x}, .outcomes = {14, 14, 14}},
    {.name = "litmus.message_relaxed", .setup = setup, .end = end,
     .threads = {write_relaxed, read_y_then_x}, .outcomes = {11, 11, 15}},
    {.name = "litmus.message_release", .setup = setup, .end = end,
     .threads = {write_release, read_y_then_x}, .outcomes = {11, 11, 11}},
    {.name = "litmus.message_awaited", .setup = setup, .end = end,
     .threads = {write_release, waits}, .outcomes = {8, 8, 8}},
    {.name = "litmus.lost_addition", .setup = setup, .end = sum,
     .threads = {add_by_load_and_store, add_by_load_and_store, add_by_load_and_store},
     .outcomes = {14, 14, 14}},
    {.name = "litmus.addition", .setup = setup, .end = sum, .threads = {add, add, add},
     .outcomes = {8, 8, 8}},
    {.name = NULL},
};
